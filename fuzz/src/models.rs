//! Bytes of models: read, and where they are one, applied, told and written again.

use super::columns::{ROWS, Words, columns, values};
use super::memory::bounded;
use super::sealed;
use taiga_engine::column::{Chunk, Column, Values};
use taiga_engine::dataset::labels::Labels;
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::model::apply::Predictor;
use taiga_engine::learners::boosting::model::explain::Importance;
use taiga_engine::learners::forest::Forest;
use taiga_engine::learners::linear::model::Numbering;
use taiga_engine::learners::linear::{Items, LinearModel, ListChunk, ListColumn, Offsets, SparseRows};
use taiga_engine::learners::{forest, linear};

/// The most bytes held for each byte of a value, to read it, to apply it to a few rows, and to tell what it holds.
const READ: usize = 100;
const APPLY: usize = 300;
const TELL: usize = 700;

fn named(labels: Option<&Labels>) {
    if let Some(labels) = labels {
        assert_eq!(labels.names().len(), labels.len());
        (0..labels.len()).for_each(|class| assert!(labels.get(class).is_some()));
    }
}

/// Bytes of a model of boosted trees.
pub fn boosted(input: &[u8]) -> bool {
    let bytes = sealed(b"GB", input);
    let Ok(model) = bounded("reading", bytes.len(), READ, || Model::from_bytes(&bytes)) else { return false };
    assert_eq!(model.params.device, "auto");
    bounded("applying", bytes.len(), APPLY, || apply_boosted(&model));
    bounded("telling", bytes.len(), TELL, || {
        for kind in [Importance::Gain, Importance::Split, Importance::Cover] {
            assert_eq!(model.importance(kind).len(), model.features.len());
        }
        model.node_table();
        model.json_text().expect("a small model has a JSON text");
        (0..(model.features.len() + model.derived.len()) as u32).for_each(|f| assert!(!model.columns_of(f).is_empty()));
        (0..(model.features.len() + model.derived.len()) as u32).for_each(|f| drop(model.feature_name(f)));
        named(model.labels.as_ref());
        let again = model.to_bytes();
        let back = Model::from_bytes(&again).expect("what was written is read");
        assert!(back.to_bytes() == again);
    });
    true
}

/// Applies a model of boosted trees to a few rows, in every way that there is.
pub(super) fn apply_boosted(model: &Model) {
    let predictor = Predictor::new(model.clone());
    let data: Vec<Vec<f64>> = model.features.iter().map(values).collect();
    let all = columns(&model.features, &data);
    let bound = predictor.bind(&all).expect("all columns are there");
    let mut raw = predictor.raw(&bound);
    assert!(raw.len() == model.outputs() && raw.iter().all(|r| r.len() == ROWS));
    let (leaves, staged, trees) = (predictor.leaves(&bound), predictor.staged(&bound), model.trees.len());
    for (i, leaf) in leaves.iter().enumerate() {
        assert!((*leaf as usize) < model.trees[i % trees].leaves().len());
    }
    let rounds = model.rounds();
    for (raw, staged) in raw.iter().zip(staged).filter(|_| rounds > 0) {
        (0..ROWS).for_each(|row| assert!(raw[row].to_bits() == staged[row * rounds + rounds - 1].to_bits()));
    }
    predictor.class(&raw);
    predictor.link(&mut raw);
    for f in 0..model.features.len() {
        if let Some(lookup) = predictor.lookup(f) {
            std::hint::black_box((lookup.text(""), lookup.integer(-1), lookup.boolean(true), lookup.null()));
        }
    }
}

/// Bytes of a random forest.
pub fn forest(input: &[u8]) -> bool {
    let bytes = sealed(b"RF", input);
    let Ok(model) = bounded("reading", bytes.len(), READ, || Forest::from_bytes(&bytes)) else { return false };
    assert_eq!(model.params.device, "auto");
    bounded("applying", bytes.len(), APPLY, || {
        let predictor = forest::Predictor::new(model.clone());
        let data: Vec<Vec<f64>> = model.features.iter().map(values).collect();
        let all = columns(&model.features, &data);
        let bound = predictor.bind(&all).expect("all columns are there");
        let predictions = predictor.predict(&bound);
        assert!(predictions.iter().flatten().all(|x| !x.is_nan()));
        predictor.class(&predictions);
        for (i, leaf) in predictor.leaves(&bound).iter().enumerate() {
            assert!((*leaf as usize) < model.trees[i % model.trees.len()].leaves());
        }
    });
    bounded("telling", bytes.len(), TELL, || {
        use forest::explain::Importance;
        model.node_table();
        model.json_text().expect("a small forest has a JSON text");
        for kind in [Importance::Impurity, Importance::Split, Importance::Cover, Importance::Permutation] {
            assert!(model.importance(kind).is_ok_and(|i| i.len() == model.features.len()) || kind == Importance::Permutation);
        }
        named(model.labels.as_ref());
        let again = model.to_bytes();
        let back = Forest::from_bytes(&again).expect("what was written is read");
        assert!(back.to_bytes() == again);
    });
    true
}

/// Bytes of a sparse logistic regression.
pub fn linear(input: &[u8]) -> bool {
    let bytes = sealed(b"LR", input);
    let Ok(model) = bounded("reading", bytes.len(), READ, || LinearModel::from_bytes(&bytes)) else { return false };
    assert_eq!(model.params.device, "auto");
    bounded("applying", bytes.len(), APPLY, || apply_linear(&model));
    bounded("telling", bytes.len(), TELL, || {
        model.json_text().expect("a small model has a JSON text");
        model.coefficients().for_each(drop);
        named(Some(&model.labels));
        let again = model.to_bytes();
        let back = LinearModel::from_bytes(&again).expect("what was written is read");
        assert!(back.to_bytes() == again);
    });
    true
}

fn apply_linear(model: &LinearModel) {
    let predictor = linear::Predictor::new(model.clone());
    let numbers: Vec<u64> = model.numbers.iter().rev().take(5).copied().chain([0, 1, u32::MAX as u64, u64::MAX]).collect();
    let words =
        |n: usize| Words(["a", "", "token", "b", "c", "d", "e", "f"].into_iter().map(|w| Some(w.into())).chain([None]).take(n).collect());
    let n = numbers.len().min(9);
    let offsets: Vec<i64> = (0..=ROWS as i64).map(|i| i.min(n as i64)).collect();
    let column = |name: &str, items| {
        let chunk = ListChunk { offsets: Offsets::I64(&offsets), validity: None, items };
        ListColumn { name: name.into(), chunks: vec![chunk] }
    };
    let (texts, amounts) = (words(n), vec![0.5f32; n]);
    let sparse = model.sparse.as_ref().map(|s| SparseRows {
        features: match s.numbering {
            Numbering::Numbers { .. } => column(&s.column, Items::Numbers(Chunk::new(Values::U64(&numbers[..n]), None))),
            Numbering::Hashed { .. } => column(&s.column, Items::Texts(&texts)),
        },
        values: s.values.as_ref().map(|name| column(name, Items::Numbers(Chunk::new(Values::F32(&amounts), None)))),
    });
    let dense = [1.0f64; ROWS];
    let columns: Vec<Column<'_>> =
        model.dense.iter().map(|d| Column::new(d.name.clone(), d.dtype.clone(), vec![Chunk::new(Values::F64(&dense), None)])).collect();
    let bound = predictor.bind(&columns).expect("all columns are there");
    let mut raw = predictor.raw(sparse.as_ref(), &bound).expect("rows that a fit takes");
    assert_eq!(raw.len(), model.outputs());
    predictor.class(&raw);
    predictor.link(&mut raw);
}
