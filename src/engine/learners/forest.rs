//! Random forests on the device that the parameters name.

use super::applied::{AppliedModel, ModelRows, Output, RowExplainer, Shared, Values, has_no};
use super::registry::Family;
use crate::device::predict::{ExplainerCopies, ForestCopy, PlacedForest};
use crate::device::{Chosen, check_on_cpu, check_present, of_process};
use std::sync::Arc;
use taiga_core::dataset::{Batches, OwnRows};
use taiga_core::encoding::Lookup;
use taiga_core::error::Result;
use taiga_core::learners::forest as core;
use taiga_core::learners::forest::apply::{Asked, Walked};
use taiga_core::model::fitted::FittedModel;
use taiga_core::shap::{Explanation, Terms};

pub use taiga_core::learners::forest::*;

/// Fits a random forest to a table.
///
/// The same rows in the same order give an equal forest, whatever `n_threads` and the columns'
/// chunks.
///
/// # Errors
/// What is wrong with the table or the parameters, naming the column or the parameter; [`taiga_core::Error::Memory`] where the machine (or the
/// GPU that is named) has not enough of it, before it is taken; [`taiga_core::Error::Interrupted`] when `monitor` asks to stop.
///
/// ```
/// use taiga_engine::column::Column;
/// use taiga_engine::learners::forest::{ForestParams, Input, Predictor, Quiet, Target, fit};
/// use taiga_engine::dataset::labels::Labels;
///
/// let x: Vec<f64> = (0..200).map(f64::from).collect();
/// let codes: Vec<u32> = x.iter().map(|x| (*x > 80.0) as u32).collect();
/// let input = Input {
///     features: vec![Column::from_f64("x", &x)],
///     target: Target::Classes { codes: &codes, labels: Labels::Boolean },
///     target_name: "y".into(),
///     weight: None,
/// };
/// let forest = fit(&input, &ForestParams { trees: 20, ..Default::default() }, &Quiet).unwrap();
/// assert!(forest.oob.as_ref().unwrap().score > 0.95);
/// let predictor = Predictor::new(forest);
/// let shares = predictor.predict(&predictor.bind(&[Column::from_f64("x", &[3.0, 170.0])]).unwrap());
/// assert_eq!(predictor.class(&shares), [0, 1]);
/// ```
pub fn fit(input: &core::Input<'_>, params: &core::ForestParams, monitor: &dyn Monitor) -> Result<core::Forest> {
    fit_with(input, params, &FitOptions::default(), monitor)
}

/// Fits as [`fit()`] does, from what `options` give: rows in several processes, features in batches, the trees that a fit has kept which was
/// ended. The forest has the bytes of one fit to all rows.
///
/// # Errors
/// As [`fit()`], [`fit_in_batches`] and [`fit_together`]; where it can't go on from a snapshot, saying what differs.
///
/// ```
/// use std::sync::Mutex;
/// use taiga_engine::column::Column;
/// use taiga_engine::dataset::Snapshots;
/// use taiga_engine::learners::forest::{FitOptions, ForestParams, Input, Quiet, Target, fit, fit_with};
///
/// /// Keeps every second tree; as a fit that is killed would, it fails after the fourth.
/// struct Kept { before: Option<Vec<u8>>, last: Mutex<Vec<u8>>, fails: bool }
/// impl Snapshots for Kept {
///     fn every(&self) -> u32 {
///         2
///     }
///     fn saved(&self) -> Option<&[u8]> {
///         self.before.as_deref()
///     }
///     fn save(&self, bytes: &[u8]) -> taiga_engine::Result<()> {
///         let mut last = self.last.lock().unwrap();
///         let fails = self.fails && !last.is_empty();
///         *last = bytes.to_vec();
///         if fails { Err(taiga_engine::Error::Interrupted) } else { Ok(()) }
///     }
/// }
/// let x: Vec<f64> = (0..200).map(f64::from).collect();
/// let y: Vec<f64> = x.iter().map(|x| x * x).collect();
/// let input = Input {
///     features: vec![Column::from_f64("x", &x)],
///     target: Target::Numbers(Column::from_f64("y", &y)),
///     target_name: "y".into(),
///     weight: None,
/// };
/// let params = ForestParams { trees: 7, ..Default::default() };
/// let ended = Kept { before: None, last: Mutex::default(), fails: true };
/// assert!(fit_with(&input, &params, &FitOptions { snapshots: Some(&ended), ..Default::default() }, &Quiet).is_err());
/// let goes_on = Kept { before: Some(ended.last.into_inner().unwrap()), last: Mutex::default(), fails: false };
/// let forest = fit_with(&input, &params, &FitOptions { snapshots: Some(&goes_on), ..Default::default() }, &Quiet).unwrap();
/// assert!(forest.to_bytes() == fit(&input, &params, &Quiet).unwrap().to_bytes());
/// ```
pub fn fit_with(
    input: &core::Input<'_>,
    params: &core::ForestParams,
    options: &FitOptions<'_>,
    monitor: &dyn Monitor,
) -> Result<core::Forest> {
    // A device that is not there is told before any work.
    check_present(&params.device)?;
    if options.batches.is_some() {
        check_on_cpu(&params.device, "`batches`: a table on a GPU is not fitted in batches yet")?;
        return core::fit_with(input, params, options, &Chosen::new("cpu", monitor), monitor);
    }
    if options.own.is_some_and(|own| !own.is_whole()) {
        return core::fit_with(input, params, options, &Chosen::new(of_process(&params.device)?, monitor), monitor);
    }
    core::fit_with(input, params, options, &Chosen::new(&params.device, monitor), monitor)
}

/// Fits as [`fit()`] does, to a table some of whose numeric features come in batches, and have no rows in `input`: of each value the fit keeps two
/// bytes.
///
/// # Errors
/// As [`fit()`]; those of the batches; for a GPU as `device`, and for splitters that rank values.
///
/// ```
/// use taiga_engine::column::Column;
/// use taiga_engine::dataset::{BatchedTable, FeatureBatches};
/// use taiga_engine::learners::forest::{ForestParams, Input, Quiet, Target, fit, fit_in_batches};
///
/// struct Halves(Vec<f64>);
/// impl FeatureBatches for Halves {
///     fn read(&self, visit: &mut dyn FnMut(&[Column<'_>]) -> taiga_engine::Result<()>) -> taiga_engine::Result<()> {
///         self.0.chunks(100).try_for_each(|rows| visit(&[Column::from_f64("x", rows)]))
///     }
/// }
/// let x = Halves((0..200).map(f64::from).collect());
/// let y: Vec<f64> = x.0.iter().map(|x| x * x).collect();
/// let input = |rows: &'static str| Input {
///     features: vec![Column::from_f64("x", if rows == "none" { &[] } else { &x.0 })],
///     target: Target::Numbers(Column::from_f64("y", &y)),
///     target_name: "y".into(),
///     weight: None,
/// };
/// let params = ForestParams { trees: 5, ..Default::default() };
/// let table = BatchedTable::new(&x, vec![0], 200, None);
/// let forest = fit_in_batches(&input("none"), &params, table.batches(), &Quiet).unwrap();
/// assert!(forest.to_bytes() == fit(&input("all"), &params, &Quiet).unwrap().to_bytes());
/// ```
pub fn fit_in_batches(
    input: &core::Input<'_>,
    params: &core::ForestParams,
    batches: Batches<'_>,
    monitor: &dyn Monitor,
) -> Result<core::Forest> {
    fit_with(input, params, &FitOptions { batches: Some(batches), ..FitOptions::default() }, monitor)
}

/// Fits as [`fit()`] does, together with other processes: each has the numeric features of its `own` rows, all else of all rows, and gets the
/// forest of all of them, in the bytes of one fit. Trees are dealt to the processes, which send each other the codes of their rows first.
///
/// # Errors
/// As [`fit()`]; where another process is gone, or makes another fit.
///
/// ```
/// use taiga_engine::collective::{LocalCollective, local};
/// use taiga_engine::column::Column;
/// use taiga_engine::dataset::OwnRows;
/// use taiga_engine::learners::forest::{ForestParams, Input, Quiet, Target, fit, fit_together};
///
/// let x: Vec<f64> = (0..200).map(f64::from).collect();
/// let y: Vec<f64> = x.iter().map(|x| x * x).collect();
/// let input = |rows: std::ops::Range<usize>| Input {
///     features: vec![Column::from_f64("x", &x[rows])],
///     target: Target::Numbers(Column::from_f64("y", &y)),
///     target_name: "y".into(),
///     weight: None,
/// };
/// let params = ForestParams { trees: 5, ..Default::default() };
/// let of_end = |end: LocalCollective| {
///     let first = [0, 150][taiga_engine::collective::Collective::rank(&end)];
///     let own = OwnRows { collective: &end, first, count: if first == 0 { 150 } else { 50 } };
///     fit_together(&input(own.range()), &params, own, &Quiet).map(|forest| forest.to_bytes())
/// };
/// let made: Vec<_> = std::thread::scope(|scope| {
///     let threads: Vec<_> = local(2).into_iter().map(|end| scope.spawn(|| of_end(end))).collect();
///     threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
/// });
/// let whole = fit(&input(0..200), &params, &Quiet).unwrap().to_bytes();
/// assert!(made[0] == whole && made[1] == whole);
/// ```
pub fn fit_together(input: &core::Input<'_>, params: &core::ForestParams, own: OwnRows<'_>, monitor: &dyn Monitor) -> Result<core::Forest> {
    fit_with(input, params, &FitOptions { own: Some(own), ..FitOptions::default() }, monitor)
}

/// Random forests.
pub const FAMILY: Family = Family {
    envelope: &core::envelope::ENVELOPE,
    read: |bytes| Ok(Box::new(core::Forest::from_bytes(bytes)?)),
    format: core::explain::FORMAT,
    read_json: |text| Ok(Box::new(core::Forest::from_json(text)?)),
    apply: |bytes, device, rounds| {
        let mut forest = core::Forest::from_bytes(bytes)?;
        if let Some(rounds) = rounds {
            forest = forest.into_head(rounds)?;
        }
        let predictor = core::Predictor::new(forest);
        Ok(Box::new(PlacedForest::new(device, Arc::new(predictor))?))
    },
};

impl AppliedModel for PlacedForest {
    fn model(&self) -> &dyn FittedModel {
        self.predictor().forest()
    }

    fn is_remote(&self) -> bool {
        PlacedForest::is_remote(self)
    }

    fn numbers_a_row(&self) -> usize {
        self.predictor().forest().outputs()
    }

    fn lookup(&self, column: usize) -> Option<&Lookup> {
        self.predictor().lookup(column)
    }

    fn outputs(&self, rows: &ModelRows<'_, '_>, wanted: &[Output]) -> Result<Vec<Values>> {
        let of_shares = |o: &Output| matches!(o, Output::Predictions | Output::Class);
        let asked = Asked { predictions: wanted.iter().any(of_shares), leaves: wanted.contains(&Output::Leaves) };
        let Walked { predictions, leaves } = self.walk(&self.predictor().bind(rows.columns)?, asked)?;
        let mut leaves = Shared::new(leaves, wanted, |o| *o == Output::Leaves);
        let mut shares = Shared::new(predictions, wanted, of_shares);
        let output = |output: &Output| match output {
            Output::Predictions => {
                let mut shares = shares.take()?;
                Ok(Values::Numbers(if shares.len() == 2 { shares.split_off(1) } else { shares }))
            }
            Output::Class => Ok(Values::Indices(self.predictor().class(&shares.take()?))),
            Output::Leaves => Ok(Values::Indices(leaves.take()?)),
            Output::Raw => Err(has_no(self.model(), "a forest", "raw scores; its output=\"auto\" is a mean over trees")),
            Output::Staged => Err(has_no(self.model(), "not of boosted trees", "stages")),
        };
        wanted.iter().map(output).collect()
    }

    fn explainer(&self, background: Option<&ModelRows<'_, '_>>) -> Result<Box<dyn RowExplainer>> {
        let predictor = self.shared();
        let background = background.map(|rows| predictor.bind(rows.columns)).transpose()?;
        let shap = Arc::new(predictor.shap_values(background.as_deref())?);
        Ok(Box::new(ForestExplainer { predictor, shap, copy: self.copy(), copies: Default::default() }))
    }

    fn known_scores(&self, rows: &ModelRows<'_, '_>, known: &[u32]) -> Result<Vec<Vec<f64>>> {
        let predictor = self.own("partial dependence without data")?;
        predictor.known_predictions(&predictor.bind(rows.columns)?, known)
    }
}

/// Rows explained by a forest, on this process's threads or on the device that has its copy.
struct ForestExplainer {
    predictor: Arc<core::Predictor>,
    shap: Arc<core::shap::ShapValues>,
    copy: Option<Arc<dyn ForestCopy>>,
    copies: ExplainerCopies,
}

impl RowExplainer for ForestExplainer {
    fn base(&self) -> &[f64] {
        &self.shap.base
    }

    fn explain(&self, rows: &ModelRows<'_, '_>, terms: Terms) -> Result<Explanation> {
        let columns = self.predictor.bind(rows.columns)?;
        let Some(copy) = &self.copy else { return Ok(self.predictor.explain(&self.shap, &columns, terms)) };
        self.copies.explain(&columns, terms, || copy.explainer(&self.predictor, self.shap.clone(), terms))
    }
}
