//! Categories of any text, encoded and fitted.

use super::columns::Numbers;
use super::memory::bounded;
use serde_json::json;
use taiga_engine::column::Column;
use taiga_engine::column::categories::CategoryColumn;
use taiga_engine::dataset::{Quiet, Target};
use taiga_engine::encoding::TargetEncoder;
use taiga_engine::encoding::target::{EncodingTarget, TargetParams};
use taiga_engine::learners::boosting;
use taiga_engine::learners::boosting::BoostingParams;
use taiga_engine::learners::boosting::model::Model;
use taiga_engine::learners::boosting::model::apply::Predictor;

/// Two columns of categories and a target from any bytes: a target encoder and a small model of boosted trees, each an error or one
/// that comes out of its bytes again.
pub fn categories(input: &[u8]) -> bool {
    let mut from = Numbers(input);
    let rows = from.below(40);
    let text = |from: &mut Numbers<'_>| match from.byte() {
        0..8 => None,
        n @ 8..200 => Some(((b'a' + n % 6) as char).to_string()),
        n => Some(String::from_utf8_lossy(from.bytes(n as usize % 8)).into_owned()),
    };
    let texts: Vec<Option<String>> = (0..rows).map(|_| text(&mut from)).collect();
    let integers: Vec<Option<i128>> = (0..rows)
        .map(|_| match from.byte() {
            0..8 => None,
            n @ 8..240 => Some((n % 5) as i128),
            _ => Some((from.u64(8) as i128) << 64 | from.u64(8) as i128),
        })
        .collect();
    let y: Vec<f64> = (0..rows).map(|_| from.f64()).collect();
    let (wide, method) = (from.flag(), ["ctr", "one_hot", "partition"][from.below(3)]);
    let policy = ["symmetric", "depthwise", "leafwise"][from.below(3)];
    let columns = || {
        let first = CategoryColumn::text("a", &[rows], |_, row| texts[row].as_deref()).ok()?;
        let second = match wide {
            true => CategoryColumn::integers("b", &[rows], |_, row| integers[row].map(|x| x as i64)).ok()?,
            false => CategoryColumn::integers("b", &[rows], |_, row| integers[row].map(|x| x as u8)).ok()?,
        };
        Some(vec![first, second])
    };
    let Some(own) = columns() else { return false };
    let fit = || TargetEncoder::fit(own.clone(), "y", EncodingTarget::Numbers(&y), None, None, &TargetParams::default());
    let encoder = bounded("encoding", input.len() + 20_000, 400, fit);
    if let Ok(encoder) = &encoder {
        let bytes = encoder.to_bytes();
        let back = TargetEncoder::from_bytes(&bytes).expect("what was written is read");
        assert!(back.to_bytes() == bytes);
        for (at, column) in own.iter().enumerate() {
            assert_eq!(back.columns()[at].lookup().categories(), &column.categories);
            assert_eq!(back.values(at, &column.codes, 0), encoder.values(at, &column.codes, 0));
        }
    }
    let table = taiga_engine::dataset::Input {
        features: own.iter().map(Column::categorical).collect(),
        target: Target::Numbers(Column::from_f64("y", &y)),
        target_name: "y".into(),
        weight: None,
        baseline: vec![],
        held_out: None,
        loss_columns: Default::default(),
        evaluation: Default::default(),
        order: None,
    };
    let params = json!({
        "rounds": 2, "depth": 2, "policy": policy, "cat_method": method, "n_threads": 1, "device": "cpu", "min_data_in_leaf": 1,
    });
    let Ok(params) = BoostingParams::from_json(&params) else { return encoder.is_ok() };
    let Ok(model) = boosting::fit(&table, &params, &Quiet) else { return encoder.is_ok() };
    let bytes = model.to_bytes();
    let back = Model::from_bytes(&bytes).expect("what was written is read");
    assert!(back.to_bytes() == bytes);
    let (before, after) = (Predictor::new(model), Predictor::new(back));
    let columns: Vec<Column<'_>> = own.iter().map(|c| Column::codes(c.name.clone(), &c.codes)).collect();
    let raw = |p: &Predictor| p.raw(&p.bind(&columns).expect("all columns are there"));
    assert_eq!(raw(&before), raw(&after));
    true
}
