//! Fits on both devices, and what they must have in common.

use crate::Table;
use taiga_engine::dataset::{Input, Quiet};
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::{BoostingParams, fit};

/// A fit on each device, the CPU's first.
pub fn both(t: &Input<'_>, p: &BoostingParams) -> (Model, Model) {
    let on = |device: &str| {
        let p = BoostingParams { device: device.into(), ..p.clone() };
        fit(t, &p, &Quiet).unwrap_or_else(|e| panic!("{e}; {p:?}"))
    };
    (on("cpu"), on("cuda"))
}

/// Panics where the models differ, saying where first.
pub fn assert_same((cpu, cuda): &(Model, Model), what: &str) {
    for (i, (a, b)) in cpu.trees.iter().zip(&cuda.trees).enumerate() {
        let (mut splits, mut others) = (a.splits(), b.splits());
        loop {
            match (splits.next(), others.next()) {
                (None, None) => break,
                (a, b) => assert!(a == b, "{what}: tree {i}: splits differ: {a:?} on the CPU, {b:?} on the GPU"),
            }
        }
        for (leaf, (a, b)) in a.leaves().iter().zip(b.leaves()).enumerate() {
            assert!(a == b, "{what}: tree {i}, leaf {leaf}: {a:?} on the CPU, {b:?} on the GPU");
        }
    }
    assert!(cpu == cuda, "{what}: the models differ");
    assert!(cpu.to_bytes() == cuda.to_bytes(), "{what}: the models' bytes differ");
}

/// Panics where the two devices' models of a table differ.
pub fn compare(t: &Table, p: &BoostingParams, what: &str) {
    assert_same(&both(&t.input(), p), what);
}
