//! Whatever takes long looks whether it is still wanted, and leaves nothing behind when it is not.

use serde_json::json;
use taiga_engine::Error;
use taiga_engine::column::Column;
use taiga_engine::column::categories::{Categories, CategoryColumn, Codes};
use taiga_engine::device::columns::with_columns;
use taiga_engine::encoding::Lookup;
use taiga_engine::encoding::combine::combine;
use taiga_engine::encoding::count::counts;
use taiga_engine::encoding::target::{EncodingInput, EncodingPlan, EncodingTarget, TargetParams, target_encode};
use taiga_engine::encoding::woe::evidence;
use taiga_engine::learners::boosting::{BoostingParams, model};
use taiga_engine::learners::{forest, linear};
use taiga_engine::parallel::interrupt::{catch, request, withdraw};
use taiga_engine::parallel::pools::pool;
use taiga_engine::quantize::BorderMethod;
use taiga_engine::quantize::borders::{BorderParams, fit_borders};
use taiga_engine::stats::{Histogram2dParams, HistogramParams, histogram, histogram2d, min_max};
use taiga_testing::Dice;
use taiga_testing::contract::table;
use taiga_testing::forest::grow;

const ROWS: usize = 300_000;

/// Asserts that `work` ends when it is asked to, on threads of a pool, and does what it did before when it is not.
fn ends<R: PartialEq + Send>(what: &str, work: impl Fn() -> R + Sync) {
    let pool = pool(3).unwrap();
    let run = || catch(|| pool.install(&work));
    let before = run().unwrap_or_else(|e| panic!("{what}: {e}"));
    request();
    let ended = run();
    withdraw();
    assert!(ended.is_err_and(|e| e == Error::Interrupted), "{what} goes on");
    assert!(run().is_ok_and(|after| after == before), "{what} differs after it was ended");
}

/// Proves it for predictions of all learners, encodings of every kind, statistics, borders and codes.
#[test]
fn everything_that_takes_long_ends_when_asked_to() {
    let mut dice = Dice::new(1);
    let x: Vec<f64> = (0..ROWS).map(|_| dice.unit()).collect();
    let column = || Column::from_f64("x", &x);
    ends("min_max", || min_max(&column()));
    ends("histogram", || histogram(&column(), None, &HistogramParams::default()).unwrap());
    ends("weighted histogram", || histogram(&column(), Some(&column()), &HistogramParams::default()).unwrap());
    ends("histogram2d", || histogram2d(&column(), &column(), None, &Histogram2dParams::default()).unwrap());
    for method in [BorderMethod::Quantile, BorderMethod::GreedyLogsum] {
        ends("borders", || fit_borders(&column(), &BorderParams { bins: 255, method, sample: ROWS, seed: 0 }));
    }
    ends("codes", || with_columns("cpu", |backend| backend.codes(&column(), &[0.25, 0.5], &|_, _| ())).unwrap());

    let texts: Vec<String> = (0..ROWS).map(|_| dice.below(5_000).to_string()).collect();
    let integers: Vec<i64> = (0..ROWS).map(|_| dice.below(1 << 40) as i64).collect();
    let near: Vec<i64> = (0..ROWS).map(|_| dice.below(1 << 10) as i64).collect();
    ends("codes of text", || Codes::text("x", &[ROWS], |_, row| Some(texts[row].as_str())).unwrap().codes);
    ends("codes of integers", || Codes::integers("x", &[ROWS], |_, row| Some(integers[row])).unwrap().codes);
    ends("codes of near integers", || Codes::integers("x", &[ROWS], |_, row| Some(near[row])).unwrap().codes);
    let known: Categories = CategoryColumn::text("x", &[ROWS], |_, row| Some(texts[row].as_str())).unwrap().categories;
    let lookup = Lookup::new(known).unwrap();
    ends("looking codes up", || {
        let mut codes = vec![];
        lookup.extend_texts(texts.iter().map(|t| Some(t.as_str())), 0, &mut codes);
        codes
    });
    let flags: Vec<u8> = (0..ROWS).map(|_| dice.below(2) as u8).collect();
    for categories in [100, 200_000] {
        let codes: Vec<u32> = (0..ROWS).map(|_| dice.below(categories as u64) as u32).collect();
        ends("counts", || counts(&codes, categories));
        ends("combine", || combine(&[(&codes, categories), (&codes, categories)]).unwrap());
        ends("weight of evidence", || evidence(&codes, categories, &flags, None, 0.5).unwrap());
        for kind in ["ordered", "kfold", "loo", "full"] {
            let params = TargetParams::from_json(&json!({ "kind": kind })).unwrap();
            let input = EncodingInput { codes: &codes, categories, target: EncodingTarget::Flags(&flags), weight: None };
            let plan = EncodingPlan::random(ROWS, &params).unwrap();
            ends(kind, || target_encode(&input, &plan, &params).unwrap());
        }
    }
    let kfold = TargetParams::from_json(&json!({ "kind": "kfold" })).unwrap();
    ends("random folds", || {
        let plan = EncodingPlan::random(ROWS, &kfold).unwrap();
        plan.folds(ROWS).unwrap().map(|(folds, count)| (folds.into_owned(), count))
    });

    let rows = table(3_000, 6, "rmse", 3);
    let features = rows.features();
    let boosted = rows.fit(&BoostingParams::from_json(&json!({ "rounds": 10 })).unwrap());
    let boosted = model::apply::Predictor::new(boosted);
    let columns = boosted.bind(&features).unwrap();
    ends("raw scores", || boosted.raw(&columns));
    ends("leaves", || boosted.leaves(&columns));
    ends("stages", || boosted.staged(&columns));
    let grown = forest::Predictor::new(grow(&rows, &taiga_testing::forest::params(json!({ "trees": 10 }))));
    let columns = grown.bind(&features).unwrap();
    ends("a forest's predictions", || grown.predict(&columns));
    ends("a forest's leaves", || grown.leaves(&columns));
    let lists: Vec<Vec<(i64, f64)>> = (0..5_000).map(|_| (0..10).map(|_| (dice.below(300) as i64, 1.0)).collect()).collect();
    let lists = taiga_testing::linear::Table::new(&lists, (0..5_000).map(|i| i % 2).collect(), 2);
    let fitted = linear::Predictor::new(lists.fit(json!({})));
    let sparse = lists.sparse();
    ends("linear scores", || fitted.raw(Some(&sparse), &[]).unwrap());
}
