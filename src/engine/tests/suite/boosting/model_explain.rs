//! Tables and JSON of a model against the model itself.

use proptest::prelude::*;
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::model::explain::{Importance, NodeRow};
use taiga_engine::tree::Split;
use taiga_testing::model::{Kind, goes_right, kinds, model, naive_leaf, values};

/// The row of the table in which the walk of `row` through `tree` ends.
fn walk<'a>(model: &Model, tree: &'a [NodeRow], row: &[f64]) -> &'a NodeRow {
    let mut at = &tree[0];
    while let (Some(left), Some(right), Some(feature)) = (at.left, at.right, at.feature) {
        let border = model.features[feature as usize].borders.iter().position(|b| Some(*b) == at.border);
        let border = border.unwrap_or(model.features[feature as usize].borders.len()) as u32;
        let split = Split { feature, border, missing_left: at.missing_left.unwrap(), gain: 0.0 };
        at = &tree[if goes_right(&split, &model.features, row[feature as usize]) { right } else { left } as usize];
    }
    at
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The table alone leads every row to its leaf, is breadth-first, and its covers add up.
    #[test]
    fn the_node_table_is_the_model(kind in kinds(), seed: u64) {
        let m = model(Kind { depth: kind.depth.min(6), ..kind });
        let table = m.node_table();
        let dice = &mut taiga_testing::model::Dice(seed);
        let rows: Vec<Vec<f64>> = (0..30).map(|_| m.features.iter().map(|f| values(dice, f, 1)[0]).collect()).collect();
        let mut rest = table.as_slice();
        for (t, tree) in m.trees.iter().enumerate() {
            let (nodes, behind) = rest.split_at(2 * tree.leaves().len() - 1);
            rest = behind;
            for (i, n) in nodes.iter().enumerate() {
                prop_assert_eq!((n.tree as usize, n.node as usize), (t, i));
                prop_assert_eq!((n.round as usize, n.output as usize), (t / m.outputs(), t % m.outputs()));
                prop_assert!(i == 0 || n.depth >= nodes[i - 1].depth);
                if let (Some(l), Some(r)) = (n.left, n.right) {
                    let (l, r) = (&nodes[l as usize], &nodes[r as usize]);
                    prop_assert!(n.value.is_none() && n.leaf.is_none() && r.node == l.node + 1);
                    prop_assert_eq!((l.depth, r.depth), (n.depth + 1, n.depth + 1));
                    prop_assert_eq!((n.weight, n.count), (l.weight + r.weight, l.count + r.count));
                } else {
                    let leaf = &tree.leaves()[n.leaf.unwrap() as usize];
                    prop_assert_eq!(n.value, Some(leaf.value * m.scale));
                    prop_assert_eq!((n.weight, n.count), (leaf.weight as f64 * m.units.weight, leaf.count as u64));
                    prop_assert!(n.feature.is_none() && n.border.is_none() && n.gain.is_none() && n.missing_left.is_none());
                }
            }
            for row in &rows {
                prop_assert_eq!(walk(&m, nodes, row).leaf, Some(naive_leaf(tree, &m.features, row)));
            }
        }
        prop_assert!(rest.is_empty());

        // Importance from the table.
        for (f, ((gain, split), cover)) in m.importance(Importance::Gain).into_iter().zip(m.importance(Importance::Split)).zip(m.importance(Importance::Cover)).enumerate() {
            let mine = || table.iter().filter(|n| n.feature == Some(f as u32));
            prop_assert!((gain - mine().filter_map(|n| n.gain).sum::<f64>()).abs() < 1e-6 * m.units.gain);
            prop_assert_eq!(split as usize, mine().filter(|n| n.gain.is_some()).count());
            prop_assert!((cover - mine().map(|n| n.weight).sum::<f64>()).abs() < 1e-6 * m.units.weight);
        }
    }

    /// The JSON text alone, read by someone who knows nothing but its description, predicts the same.
    #[test]
    fn the_json_is_the_model(kind in kinds(), seed: u64) {
        let m = model(Kind { depth: kind.depth.min(5), ..kind });
        let json: serde_json::Value = serde_json::from_str(&m.to_json().to_string()).unwrap();
        let number = |v: &serde_json::Value| match v.as_str() {
            Some("-inf") => f64::NEG_INFINITY,
            Some("inf") => f64::INFINITY,
            _ => v.as_f64().unwrap(),
        };
        let dice = &mut taiga_testing::model::Dice(seed);
        for _ in 0..20 {
            let row: Vec<f64> = m.features.iter().map(|f| values(dice, f, 1)[0]).collect();
            let right = |split: &serde_json::Value| {
                let x = row[split["feature"].as_u64().unwrap() as usize];
                if x.is_nan() { split["missing"] == "right" } else { x > number(&split["border"]) }
            };
            let mut sums = vec![0.0; m.outputs()];
            for tree in json["trees"].as_array().unwrap() {
                let leaf = if tree["kind"] == "symmetric" {
                    tree["splits"].as_array().unwrap().iter().fold(0, |index, s| 2 * index + right(s) as usize)
                } else {
                    let nodes = tree["nodes"].as_array().unwrap();
                    let mut at = if nodes.is_empty() { serde_json::json!({"leaf": 0}) } else { serde_json::json!({"node": 0}) };
                    while let Some(i) = at["node"].as_u64() {
                        let node = &nodes[i as usize];
                        at = node[if right(node) { "right" } else { "left" }].clone();
                    }
                    at["leaf"].as_u64().unwrap() as usize
                };
                sums[tree["output"].as_u64().unwrap() as usize] += number(&tree["leaves"][leaf]["value"]);
            }
            let raw: Vec<f64> = sums.iter().enumerate().map(|(k, s)| number(&json["start"][k]) + number(&json["scale"]) * s).collect();
            prop_assert_eq!(raw, taiga_testing::model::naive_raw(&m, &row, m.rounds()));
        }
        prop_assert_eq!(json["features"].as_array().unwrap().len(), m.features.len());
        prop_assert_eq!(json["features"][0]["name"].as_str(), Some("f0"));
        prop_assert_eq!(json["params"]["seed"].as_u64(), Some(m.params.seed));
        prop_assert_eq!(json["history"].is_null(), m.history.is_none());
    }
}
