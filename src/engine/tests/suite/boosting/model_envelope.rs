//! A model's bytes: the round trip, and what becomes of bytes that are empty, cut, foreign,
//! damaged, newer, or made by someone who means harm.

use proptest::prelude::*;
use taiga_engine::column::categories::{CategoryColumn, CategoryNames as Categorized};
use taiga_engine::column::{Chunk, Column, FeatureType, Values};
use taiga_engine::dataset::labels::Labels;
use taiga_engine::dataset::{Input, Quiet, Target};
use taiga_engine::encoding::ctr::CtrKind;
use taiga_engine::learners::boosting::model::apply::Predictor;
use taiga_engine::learners::boosting::model::explain::Importance;
use taiga_engine::learners::boosting::model::{Derived, Model};
use taiga_engine::learners::boosting::{BoostingParams, fit};
use taiga_engine::losses::LossKind;
use taiga_engine::tree::linear::LinearLeaf;
use taiga_engine::tree::model::{Child, Tree};
use taiga_testing::allocator::peak;
use taiga_testing::model::{Dice, Kind, kinds, model, values, with_linear_leaves};
use taiga_testing::tampering::sealed;

/// Parses `bytes` and holds it to memory in proportion: two lists that are being filled may each
/// have been promised a MiB, and no byte of a payload stands for more than some dozens.
fn parse(bytes: &[u8]) -> taiga_engine::Result<Model> {
    let (result, peak) = peak(|| Model::from_bytes(bytes));
    assert!(peak <= (4 << 20) + 300 * bytes.len(), "{peak} bytes held to read {}", bytes.len());
    result
}

fn message(bytes: &[u8]) -> String {
    parse(bytes).unwrap_err().to_string()
}

/// Everything that can be done with a model.
fn exercise(model: &Model) {
    let dice = &mut Dice(3);
    let rows = 70;
    let data: Vec<Vec<f64>> = model.features.iter().map(|f| values(dice, f, rows)).collect();
    let codes: Vec<u32> = (0..rows).map(|_| dice.below(9) as u32).collect();
    let columns: Vec<Column<'_>> = model
        .features
        .iter()
        .zip(&data)
        .map(|(f, v)| match f.dtype {
            FeatureType::Categorical => Column::codes(f.name.clone(), &codes),
            _ => Column::new(f.name.clone(), f.dtype.clone(), vec![Chunk::new(Values::F64(v), None)]),
        })
        .collect();
    let predictor = Predictor::new(model.clone());
    let columns = predictor.bind(&columns).unwrap();
    let mut raw = predictor.raw(&columns);
    predictor.class(&raw);
    predictor.link(&mut raw);
    predictor.leaves(&columns);
    predictor.staged(&columns);
    for kind in [Importance::Gain, Importance::Split, Importance::Cover] {
        assert_eq!(model.importance(kind).len(), model.features.len());
    }
    model.node_table();
    model.to_json().to_string();
    if let Some(labels) = &model.labels {
        assert_eq!(labels.names().len(), labels.len());
    }
    model.to_bytes();
}

fn small() -> Model {
    let mut m = model(Kind { seed: 11, features: 2, trees: 4, outputs: 2, depth: 2, symmetric: 50, borders: 3 });
    m.history = Some(taiga_engine::model::History {
        values: vec![0.5, 0.25, 0.375],
        best: 1,
        ..taiga_engine::model::History::new(taiga_engine::metrics::MetricKind::Multiclass)
    });
    m
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_round_trip_is_exact_and_bytes_are_deterministic(kind in kinds()) {
        let m = model(kind);
        m.validate().unwrap();
        let bytes = m.to_bytes();
        let back = parse(&bytes).unwrap();
        prop_assert_eq!(&back, &m);
        prop_assert_eq!(back.to_bytes(), bytes);
        exercise(&m);
        let m = with_linear_leaves(m, kind.seed);
        let bytes = m.to_bytes();
        prop_assert_eq!(&parse(&bytes).unwrap(), &m);
        prop_assert_eq!(Model::from_json(&m.json_text().unwrap()).unwrap().to_bytes(), bytes);
        exercise(&m);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// Bytes changed at random behind a checksum that fits: an error, or a model that works.
    #[test]
    fn hostile_payloads_are_refused_or_harmless(kind in kinds(), changes in prop::collection::vec((any::<u32>(), any::<u8>(), 0u8..6), 1..4)) {
        let small = Kind { trees: kind.trees.min(4 / kind.outputs * kind.outputs), depth: kind.depth.min(4), borders: kind.borders.min(5), ..kind };
        let plain = model(small);
        let mut bytes = if kind.seed % 2 == 0 { with_linear_leaves(plain, kind.seed) } else { plain }.to_bytes();
        for (at, byte, how) in changes {
            let at = 8 + at as usize % (bytes.len() - 16);
            match how {
                0 => bytes[at] = byte,
                1 => bytes[at] ^= 1 << (byte % 8),
                2 => bytes[at] = [0, 1, 2, 0x7F, 0x80, 0xFF][byte as usize % 6],
                3 => { bytes.insert(at, byte); }
                4 => { bytes.remove(at); }
                _ => { let end = (at + 9).min(bytes.len() - 8); bytes[at..end].fill(0xFF); }
            }
        }
        if let Ok(m) = parse(&sealed(bytes)) {
            exercise(&m);
        }
    }

    #[test]
    fn noise_is_refused(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        let header = b"TAIGA\0GB\x01\0\0\0________";
        prop_assert!(parse(&noise).is_err());
        let bytes = sealed([header.as_slice(), &noise, &[0; 8]].concat());
        prop_assert!(parse(&bytes).is_err());
    }
}

#[test]
fn every_cut_and_every_flipped_bit_is_an_error() {
    let bytes = small().to_bytes();
    for n in 0..bytes.len() {
        let text = message(&bytes[..n]);
        assert_eq!(text.contains("empty"), n == 0, "{text}");
        assert!(n == 0 || text.contains("is cut"), "{n}: {text}");
        // A cut payload with envelope and checksum made to fit is still no model.
        assert!(parse(&sealed([&bytes[..n], &[0; 8]].concat())).is_err() || n + 8 >= bytes.len());
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(parse(&flipped).is_err(), "bit {bit}");
    }
    assert!(message(&[bytes.as_slice(), &[0]].concat()).contains("is damaged"));
}

#[test]
fn errors_tell_what_the_bytes_are() {
    let bytes = small().to_bytes();
    assert_eq!(message(b""), "model: the value is empty (0 bytes)");
    assert_eq!(message(b"CBM1 and more"), "model: these bytes are not a polars-taiga model");
    assert_eq!(message(&bytes[..10]), "model: the value is cut: only 10 bytes are there");
    let n = bytes.len();
    assert_eq!(message(&bytes[..n - 1]), format!("model: the value is cut: {} of {n} bytes are there", n - 1));
    let mut damaged = bytes.clone();
    damaged[n / 2] ^= 4;
    assert_eq!(message(&damaged), "model: the value is damaged: its checksum does not fit");
    let mut newer = bytes.clone();
    newer[8] = 19;
    assert_eq!(message(&sealed(newer)), "model: this model is of format version 19, this build reads up to 18: upgrade polars-taiga");
    let mut other = bytes;
    other[6..8].copy_from_slice(b"TE");
    assert!(message(&sealed(other)).contains("not a model of boosted trees"));
}

/// Proves that what a model of another library may have, leaf values that are no f32 and more borders than a fit has room for, comes back as
/// it was, and is written in the version that knows it, alone or together.
#[test]
fn wide_leaves_and_many_borders_come_back() {
    assert!(small().to_bytes()[8] < 12);
    for (wide, many) in [(true, false), (false, true), (true, true)] {
        let mut model = small();
        if wide {
            model.trees[0].leaves_mut()[0].value = 0.1;
        }
        if many {
            let last = model.features[0].borders.last().map_or(0.0, |x| *x);
            model.features[0].borders.extend((1..500).map(|i| last + i as f64));
        }
        let bytes = model.to_bytes();
        assert_eq!(bytes[8], 12);
        let back = Model::from_bytes(&bytes).unwrap();
        assert_eq!((&back.trees, &back.features), (&model.trees, &model.features), "{wide} {many}");
        assert_eq!(back.to_bytes(), bytes);
    }
}

/// Proves that leaves that are linear functions come back as they were, in the version that knows them, and that such as hold not together are
/// refused.
#[test]
fn linear_leaves_come_back() {
    let mut model = small();
    let leaf = LinearLeaf { tree: 1, leaf: 0, constant: 0.1, terms: vec![(0, -0.3), (1, 1e-9)] };
    model.linear = vec![leaf.clone()];
    let bytes = model.to_bytes();
    assert_eq!(bytes[8], 15);
    assert_eq!(Model::from_bytes(&bytes).unwrap(), model);
    assert_eq!(Model::from_json(&model.json_text().unwrap()).unwrap().to_bytes(), bytes);
    assert!(model.clone().into_head(1).unwrap().linear == model.linear);
    let wrong: [(&str, Vec<LinearLeaf>); 8] = [
        ("do not ascend by tree", vec![leaf.clone(), leaf.clone()]),
        ("do not ascend by tree", vec![leaf.clone(), LinearLeaf { tree: 0, ..leaf.clone() }]),
        ("there are 0 leaves", vec![LinearLeaf { tree: 4, ..leaf.clone() }]),
        ("leaf 99: there are", vec![LinearLeaf { leaf: 99, ..leaf.clone() }]),
        ("is not finite", vec![LinearLeaf { constant: f64::NAN, ..leaf.clone() }]),
        ("is not finite", vec![LinearLeaf { terms: vec![(0, f64::INFINITY)], ..leaf.clone() }]),
        ("do not ascend, or are none", vec![LinearLeaf { terms: vec![(1, 1.0), (0, 1.0)], ..leaf.clone() }]),
        ("reads feature 2", vec![LinearLeaf { terms: vec![(0, 1.0), (2, 1.0)], ..leaf }]),
    ];
    for (what, linear) in wrong {
        let text = Model::from_bytes(&Model { linear, ..model.clone() }.to_bytes()).unwrap_err().to_string();
        assert!(text.contains(what), "{text}");
    }
}

/// A model of categories: one-hot questions, statistics, a combination and a subset.
fn categorical(method: &str) -> Model {
    let dice = &mut Dice(5);
    let texts: Vec<Vec<String>> = [6, 4, 2].map(|k| (0..200).map(|_| format!("k{}", dice.below(k))).collect()).to_vec();
    let y: Vec<f64> = (0..200)
        .map(|i| (texts[0][i].len() * 7 + texts[0][i].as_bytes()[1] as usize * texts[1][i].as_bytes()[1] as usize) as f64 % 5.0)
        .collect();
    let columns: Vec<CategoryColumn> = texts
        .iter()
        .enumerate()
        .map(|(i, t)| CategoryColumn::text(&format!("c{i}"), &[200], |_, r| Some(t[r].as_str())).unwrap())
        .collect();
    let input = Input {
        features: columns.iter().map(Column::categorical).collect(),
        target: Target::Numbers(Column::from_f64("y", &y)),
        target_name: "y".into(),
        weight: None,
        baseline: vec![],
        held_out: None,
        loss_columns: Default::default(),
        evaluation: Default::default(),
        order: None,
    };
    let params = serde_json::json!({ "rounds": 3, "depth": 3, "policy": "depthwise", "cat_method": method });
    fit(&input, &BoostingParams::from_json(&params).unwrap(), &Quiet).unwrap()
}

/// Cut, flipped, changed and sealed again: tables, keys and derived features are hostile too.
#[test]
fn hostile_categories_are_refused_or_harmless() {
    for method in ["ctr", "partition"] {
        let m = categorical(method);
        assert!(!m.derived.is_empty());
        let bytes = m.to_bytes();
        assert_eq!(parse(&bytes).unwrap(), m);
        exercise(&m);
        for n in 0..bytes.len() {
            assert!(parse(&bytes[..n]).is_err());
            assert!(parse(&sealed([&bytes[..n], &[0; 8]].concat())).is_err() || n + 8 >= bytes.len());
        }
        for at in 20..bytes.len() - 8 {
            for value in [0, 1, 0x7F, 0x80, 0xFF, bytes[at] ^ 4] {
                let mut changed = bytes.clone();
                changed[at] = value;
                if let Ok(m) = parse(&sealed(changed)) {
                    exercise(&m);
                }
            }
        }
    }
}

/// Each rule of derived features and tables has a model that breaks it and nothing else.
#[test]
fn derived_features_that_do_not_hold_together_are_refused() {
    type Change = fn(&mut Model);
    fn table(m: &mut Model) -> &mut taiga_engine::learners::boosting::model::CtrTable {
        m.tables.iter_mut().find(|t| t.features.len() == 2).unwrap()
    }
    fn ctr(m: &mut Model) -> (&mut u32, &mut u32, &mut f64, &mut Vec<f64>) {
        m.derived
            .iter_mut()
            .find_map(|d| match d {
                Derived::Ctr { table, sums, unit, borders, ctr } if ctr.kind != CtrKind::Counter => Some((table, sums, unit, borders)),
                _ => None,
            })
            .unwrap()
    }
    let changes: &[(&str, Change)] = &[
        ("is of the features", |m| table(m).features = vec![1, 0]),
        ("is of the features", |m| table(m).features.clear()),
        ("without categories", |m| table(m).features = vec![0, 9]),
        ("without categories", |m| m.features[0].categories = None),
        ("not those of its features", |m| table(m).keys.truncate(1)),
        ("not those of its features", |m| *table(m).keys.last_mut().unwrap() = 1 << 40),
        ("not those of its features", |m| table(m).keys.swap(0, 1)),
        ("not those of its features", |m| table(m).n.push(1)),
        ("a sum of table", |m| m.tables.iter_mut().find(|t| !t.sums.is_empty()).unwrap().sums[0].push(1)),
        ("derived feature", |m| *ctr(m).0 = 99),
        ("derived feature", |m| *ctr(m).1 = 99),
        ("derived feature", |m| *ctr(m).2 = f64::NAN),
        ("derived feature", |m| *ctr(m).3 = vec![2.0, 1.0]),
        ("derived feature", |m| *ctr(m).3 = vec![f64::INFINITY]),
        ("there is no feature", |m| drop(m.derived.pop())),
        ("stands twice", |m| m.features[0].categories.as_mut().unwrap().null = None),
        ("has categories and is numeric", |m| m.features[0].dtype = FeatureType::Numeric),
        ("has borders and is categorical", |m| m.features[0].borders = vec![1.0]),
    ];
    let base = categorical("ctr");
    base.validate().unwrap();
    for (part, change) in changes {
        let mut m = base.clone();
        if *part == "stands twice" {
            m.features[0].categories.as_mut().unwrap().labels = Categorized::Text(vec!["a".into(); 6]);
        }
        change(&mut m);
        let text = m.validate().unwrap_err().to_string();
        assert!(text.contains(part), "{part}: {text}");
        assert!(parse(&m.to_bytes()).is_err(), "{part}");
    }
    for categories in [vec![], vec![1, 0], vec![99]] {
        let mut m = categorical("partition");
        let at = m.derived.iter().position(|d| matches!(d, Derived::OneOf { .. })).unwrap();
        m.derived[at] = Derived::OneOf { feature: 0, categories };
        assert!(m.validate().unwrap_err().to_string().contains("derived feature"));
    }
}

/// Lengths that promise more than is there take no memory for it.
#[test]
fn lying_lengths_allocate_little() {
    let bytes = small().to_bytes();
    let endless = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01];
    let large = [0xFF, 0xFF, 0xFF, 0x7F];
    for at in 20..bytes.len() - 8 {
        for lie in [endless.as_slice(), &large] {
            let lying = [&bytes[..at], lie, &bytes[at + 1..]].concat();
            if let Ok(m) = parse(&sealed(lying)) {
                exercise(&m);
            }
        }
    }
    let mut header = bytes;
    header[12..20].fill(0xFF);
    assert!(message(&header).contains("is cut"));
}

/// Each rule of `validate` has a model that breaks it and nothing else.
#[test]
fn models_that_do_not_hold_together_are_refused() {
    type Change = fn(&mut Model);
    fn nodes(m: &mut Model) -> &mut Vec<taiga_engine::tree::model::Node> {
        m.trees
            .iter_mut()
            .find_map(|t| match t {
                Tree::Branching { nodes, .. } if nodes.len() >= 2 => Some(nodes),
                _ => None,
            })
            .unwrap()
    }
    let changes: &[(&str, Change)] = &[
        ("no output", |m| (m.start.clear(), m.trees.clear()).1),
        ("start [NaN", |m| m.start[0] = f64::NAN),
        ("power of two", |m| m.scale = 3.0),
        ("power of two", |m| m.scale = -2.0),
        ("power of two", |m| m.scale = f64::INFINITY),
        ("power of two", |m| m.scale = 0.0),
        ("trees for 2 outputs", |m| drop(m.trees.pop())),
        ("classes under the loss", |m| m.loss = LossKind::Auto),
        ("classes under the loss", |m| m.loss = LossKind::Rmse),
        ("classes under the loss", |m| m.labels = None),
        ("label stands twice", |m| m.labels = Some(Labels::Integer(vec![1, 1]))),
        ("label stands twice", |m| m.labels = Some(Labels::Float(vec![0.0, -0.0]))),
        ("label stands twice", |m| m.labels = Some(Labels::Float(vec![0.0, f64::NAN]))),
        ("no feature", |m| m.features.clear()),
        ("`f0` stands twice", |m| m.features[1].name = "f0".into()),
        ("do not ascend", |m| m.features[0].borders = vec![1.0, 1.0]),
        ("do not ascend", |m| m.features[0].borders = vec![f64::NAN]),
        ("do not ascend", |m| m.features[0].borders = vec![f64::INFINITY]),
        ("there is no feature 2", |m| m.trees[0].splits_mut().next().unwrap().feature = 2),
        ("has no border 255", |m| m.trees[0].splits_mut().next().unwrap().border = 255),
        ("gain is NaN", |m| m.trees[0].splits_mut().next().unwrap().gain = f32::NAN),
        ("leaf value NaN", |m| m.trees[0].leaves_mut()[0].value = f64::NAN),
        ("leaf value inf", |m| m.trees[0].leaves_mut()[0].value = f64::INFINITY),
        ("leaf weight", |m| m.trees[0].leaves_mut()[0].weight = -1.0),
        ("leads to Node(0)", |m| nodes(m)[1].left = Child::Node(0)),
        ("leads to Node(9)", |m| nodes(m)[0].left = Child::Node(9)),
        ("leads to Leaf(9)", |m| nodes(m)[0].left = Child::Leaf(9)),
        ("led to twice", |m| nodes(m)[1].left = nodes(m)[1].right),
        ("metric values", |m| m.history.as_mut().unwrap().values.truncate(1)),
        ("best round", |m| m.history.as_mut().unwrap().best = 3),
        ("parameter `bins`", |m| m.params.bins = 0.into()),
    ];
    let mut base = small();
    base.features[1].borders = vec![1.0];
    let features = base.features.clone();
    let dice = &mut Dice(4);
    base.trees = (0..4).map(|_| taiga_testing::model::branching(dice, &features, 3)).collect();
    base.validate().unwrap();
    for (part, change) in changes {
        let mut m = base.clone();
        change(&mut m);
        let text = m.validate().unwrap_err().to_string();
        assert!(text.contains(part), "{part}: {text}");
        assert!(parse(&m.to_bytes()).is_err(), "{part}");
    }
    for (levels, leaves) in [(2, 3), (17, 1 << 17)] {
        let mut m = base.clone();
        let split = *base.trees[0].splits().next().unwrap();
        m.trees[1] = Tree::Symmetric { splits: vec![split; levels], leaves: vec![Default::default(); leaves] };
        assert!(m.validate().unwrap_err().to_string().contains("tree 1"));
    }
}

/// A tree that is one long chain is walked, told and written without recursion.
#[test]
fn deep_chains_do_not_overflow_the_stack() {
    let mut m = small();
    let split = taiga_engine::tree::Split { feature: 0, border: 0, missing_left: true, gain: 1.0 };
    let n = 50_000u32;
    let next = |i: u32| if i + 1 < n { Child::Node(i + 1) } else { Child::Leaf(n) };
    let nodes = (0..n).map(|i| taiga_engine::tree::model::Node { split, left: next(i), right: Child::Leaf(i) }).collect();
    m.trees[0] = Tree::Branching { nodes, leaves: vec![Default::default(); n as usize + 1] };
    let m = parse(&m.to_bytes()).unwrap();
    exercise(&m);
}

#[test]
fn parameters_that_never_change_a_model_do_not_change_its_bytes() {
    let m = small();
    let mut other = m.clone();
    other.params.n_threads = Some(3);
    other.params.device = "cpu".into();
    assert_eq!(m.to_bytes(), other.to_bytes());
}
