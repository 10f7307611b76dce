//! A forest's bytes: the round trip, and what becomes of bytes that are cut, damaged, foreign, or made by someone who means
//! harm.

use serde_json::json;
use taiga_engine::Result;
use taiga_engine::column::Column;
use taiga_engine::column::categories::{Categories, CategoryColumn, CategoryNames as Labeled};
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::forest::envelope::ENVELOPE;
use taiga_engine::learners::forest::explain::Importance;
use taiga_engine::learners::forest::{Forest, Input, Predictor, Quiet, Target, fit};
use taiga_engine::tree::model::Child;
use taiga_testing::Dice;
use taiga_testing::forest::*;
use xxhash_rust::xxh3::xxh3_64;

/// A checksum that fits.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let n = bytes.len() - 8;
    let checksum = xxh3_64(&bytes[..n]);
    bytes[n..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Does everything with a forest that its fields have a say in.
fn exercise(forest: &Forest) {
    let predictor = Predictor::new(forest.clone());
    let values = [f64::NAN, -1.0, 0.0, 0.5, 2.0, f64::INFINITY];
    let codes = [0, 1, 2, 3, 255, u32::MAX];
    let columns: Vec<Column> = forest
        .features
        .iter()
        .map(|f| match f.dtype {
            taiga_engine::column::FeatureType::Categorical => Column::codes(f.name.as_str(), &codes),
            ref dtype => Column::new(
                f.name.as_str(),
                dtype.clone(),
                vec![taiga_engine::column::Chunk::new(taiga_engine::column::Values::F64(&values), None)],
            ),
        })
        .collect();
    let bound = predictor.bind(&columns).unwrap();
    let predictions = predictor.predict(&bound);
    assert!(predictions.iter().flatten().all(|x| !x.is_nan()));
    predictor.class(&predictions);
    predictor.leaves(&bound);
    forest.node_table();
    forest.to_json();
    for kind in [Importance::Impurity, Importance::Split, Importance::Cover, Importance::Permutation] {
        let _ = forest.importance(kind);
    }
    assert!(Forest::from_bytes(&forest.to_bytes()).unwrap().to_bytes() == forest.to_bytes());
}

fn small(classes: usize, splitter: &str) -> Forest {
    let table = awkward_table(&mut Dice::new(4), 40, 2, classes, classes == 3);
    grow(&table, &params(json!({ "trees": 2, "depth": 3, "splitter": splitter, "permutation_importance": true })))
}

fn categorical() -> Forest {
    let codes: Vec<u32> = (0..30).map(|i| i % 5).collect();
    let names = (0..5).map(|i| format!("c{i}")).collect();
    let column = CategoryColumn { name: "c".into(), codes, categories: Categories { labels: Labeled::Text(names), null: Some(2) } };
    let y: Vec<u32> = (0..30).map(|i| (i % 5 % 2) as u32).collect();
    let target = Target::Classes { codes: &y, labels: labels(2) };
    let input = Input { features: vec![Column::categorical(&column)], target, target_name: "y".into(), weight: None };
    fit(&input, &params(json!({ "trees": 2 })), &Quiet).unwrap()
}

fn forests() -> Vec<Forest> {
    vec![small(2, "histogram"), small(0, "exact"), small(3, "random"), categorical()]
}

/// Proves the round trip, and that a forest and a boosted model are told apart.
#[test]
fn bytes_come_back_as_the_forest() {
    for forest in forests() {
        let bytes = forest.to_bytes();
        assert!(ENVELOPE.claims(&bytes));
        assert!(Forest::from_bytes(&bytes).unwrap().to_bytes() == bytes);
        exercise(&forest);
        assert!(Model::from_bytes(&bytes).unwrap_err().to_string().contains("not a model of boosted trees"));
    }
    assert!(!ENVELOPE.claims(b"TAIGA\0GB") && !ENVELOPE.claims(b"") && !ENVELOPE.claims(b"TAIGA"));
}

/// Proves that no cut and no changed byte, its checksum mended or not, does harm.
#[test]
fn every_cut_and_every_changed_byte_is_refused_or_harmless() {
    for forest in forests() {
        let bytes = forest.to_bytes();
        for n in 0..bytes.len() {
            Forest::from_bytes(&bytes[..n]).unwrap_err();
            if n >= 28 {
                let mut cut = bytes[..n].to_vec();
                cut[12..20].copy_from_slice(&(n as u64 - 28).to_le_bytes());
                Forest::from_bytes(&sealed(cut)).unwrap_err();
            }
        }
        for at in 0..bytes.len() {
            for change in [1, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= change;
                Forest::from_bytes(&damaged).unwrap_err();
                if let Ok(forest) = Forest::from_bytes(&sealed(damaged)) {
                    exercise(&forest);
                }
            }
        }
    }
}

/// Proves that forests that do not hold together are refused.
#[test]
fn forests_that_do_not_hold_together_are_refused() {
    let refused = |change: &dyn Fn(&mut Forest), words: &str| {
        let mut changed = false;
        for forest in [small(2, "histogram"), small(0, "exact")] {
            let mut bad = forest.clone();
            change(&mut bad);
            // As bytes: a row that every tree has drawn is predicted NaN out of bag.
            if bad.to_bytes() != forest.to_bytes() {
                changed = true;
                let result: Result<Forest> = Forest::from_bytes(&bad.to_bytes());
                let text = result.expect_err(words).to_string();
                assert!(text.contains(words), "{text:?} does not say {words:?}");
            }
        }
        assert!(changed, "{words:?}: no forest was changed");
    };
    refused(&|f| f.trees.clear(), "no tree");
    refused(&|f| f.trees[0].nodes[0].split.feature = 77, "no feature 77");
    refused(&|f| f.trees[0].nodes[0].split.border = 1 << 30, "no border");
    refused(&|f| f.trees[0].nodes[0].left = Child::Node(0), "leads to");
    refused(&|f| f.trees[0].nodes[0].left = Child::Leaf(1 << 20), "leads to");
    refused(&|f| f.trees[0].nodes[0].split.gain = f32::NAN, "NaN");
    refused(&|f| f.trees[0].counts.truncate(1), "leaves");
    refused(&|f| f.trees[0].sums.truncate(1), "sums");
    refused(&|f| f.trees[0].sums.fill(0), "weighs");
    refused(&|f| f.trees[0].sums.fill(u64::MAX), "weighs");
    refused(&|f| f.trees[0].counts.fill(u32::MAX), "32 bits");
    refused(&|f| f.trees[0].means.iter_mut().for_each(|m| *m = f64::INFINITY), "not finite");
    refused(&|f| f.trees[0].means.push(1.0), "means");
    refused(&|f| f.unit = 0.0, "unit");
    refused(&|f| f.labels = Some(labels(1_000)), "not valid");
    refused(&|f| f.features[0].name = f.features[1].name.clone(), "twice");
    refused(&|f| f.features[0].borders = vec![2.0, 1.0], "ascend");
    refused(&|f| f.oob.as_mut().unwrap().predictions[0].truncate(3), "out-of-bag");
    refused(&|f| f.permutation = Some(vec![]), "importances");
}
