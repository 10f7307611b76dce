//! Sparse logistic regression on the device that the parameters name.

use super::applied::{AppliedModel, ModelRows, Output, RowExplainer, Shared, Values, has_no};
use super::registry::Family;
use crate::device::fallback::fit_or_on_cpu;
use crate::device::predict::{LinearCopy, PlacedLinear};
use crate::device::{Chosen, check_present, of_process};
use std::sync::Arc;
use taiga_core::dataset::{Monitor, OwnRows};
use taiga_core::error::Result;
use taiga_core::learners::linear as core;
use taiga_core::model::fitted::{FittedModel, no_rounds};
use taiga_core::shap::{Explanation, Terms};
use taiga_core::spill::SpillFolder;

pub use taiga_core::learners::linear::*;

/// Fits a sparse logistic regression to a table.
///
/// The same rows in the same order give a model of the same bytes, whatever `n_threads`, the columns' chunks, the integer type
/// of feature numbers and the float type of values, and on whatever device.
///
/// # Errors
/// What is wrong with the table or the parameters, naming the column or the parameter; [`taiga_core::Error::Interrupted`] when `monitor`
/// asks to stop.
///
/// ```
/// use taiga_engine::dataset::{Quiet, Target};
/// use taiga_engine::column::{Chunk, Values};
/// use taiga_engine::learners::linear::{Input, Items, LinearParams, ListChunk, ListColumn, Offsets, Predictor, SparseRows, fit};
/// use taiga_engine::dataset::labels::Labels;
///
/// // Rows {0}, {1}, {0, 1} and {}: the class is whether feature 1 is there.
/// let (offsets, numbers) = ([0, 1, 2, 4, 4], [0, 1, 0, 1]);
/// let rows = SparseRows {
///     features: ListColumn {
///         name: "tokens".into(),
///         chunks: vec![ListChunk {
///             offsets: Offsets::I32(&offsets),
///             validity: None,
///             items: Items::Numbers(Chunk::new(Values::I32(&numbers), None)),
///         }],
///     },
///     values: None,
/// };
/// let input = Input {
///     sparse: Some(rows.clone()),
///     dense: vec![],
///     target: Target::Classes { codes: &[0, 1, 1, 0], labels: Labels::Boolean },
///     target_name: "y".into(),
///     weight: None,
///     held_out: None,
/// };
/// let model = fit(&input, &LinearParams::default(), &Quiet)?;
/// let predictor = Predictor::new(model);
/// let raw = predictor.raw(Some(&rows), &[])?;
/// assert_eq!(predictor.class(&raw), [0, 1, 1, 0]);
/// # Ok::<(), taiga_engine::Error>(())
/// ```
pub fn fit(input: &core::Input<'_>, params: &core::LinearParams, monitor: &dyn Monitor) -> Result<core::LinearModel> {
    fit_with(input, params, &FitOptions::default(), monitor)
}

/// Fits as [`fit`] does, from what `options` give: rows in several processes, the state that a fit has kept which was ended. The model has the
/// bytes of one fit of all rows and passes.
///
/// # Errors
/// As [`fit`] and [`fit_together`]; where it can't go on from a snapshot, saying what differs.
///
/// ```
/// use std::sync::Mutex;
/// use taiga_engine::column::Column;
/// use taiga_engine::dataset::{Quiet, Snapshots, Target, labels::Labels};
/// use taiga_engine::learners::linear::{FitOptions, Input, LinearParams, Optimizer, fit, fit_with};
///
/// /// Keeps the state after each epoch.
/// struct Kept(Option<Vec<u8>>, Mutex<Vec<u8>>);
/// impl Snapshots for Kept {
///     fn every(&self) -> u32 {
///         1
///     }
///     fn saved(&self) -> Option<&[u8]> {
///         self.0.as_deref()
///     }
///     fn save(&self, bytes: &[u8]) -> taiga_engine::Result<()> {
///         *self.1.lock().unwrap() = bytes.to_vec();
///         Ok(())
///     }
/// }
/// let x: Vec<f64> = (0..500).map(|i| f64::from(i % 10)).collect();
/// let codes: Vec<u32> = x.iter().map(|x| u32::from(*x > 6.0)).collect();
/// let input = Input {
///     sparse: None,
///     dense: vec![Column::from_f64("x", &x)],
///     target: Target::Classes { codes: &codes, labels: Labels::Boolean },
///     target_name: "y".into(),
///     weight: None,
///     held_out: None,
/// };
/// let of = |epochs| LinearParams { optimizer: Optimizer::Ftrl, epochs: Some(epochs), ..Default::default() };
/// // The state after two epochs of three, from which five are made.
/// let first = Kept(None, Mutex::default());
/// fit_with(&input, &of(3), &FitOptions { snapshots: Some(&first), ..Default::default() }, &Quiet)?;
/// let goes_on = Kept(Some(first.1.into_inner().unwrap()), Mutex::default());
/// let model = fit_with(&input, &of(5), &FitOptions { snapshots: Some(&goes_on), ..Default::default() }, &Quiet)?;
/// assert!(model.to_bytes() == fit(&input, &of(5), &Quiet)?.to_bytes());
/// # Ok::<(), taiga_engine::Error>(())
/// ```
pub fn fit_with(
    input: &core::Input<'_>,
    params: &core::LinearParams,
    options: &FitOptions<'_>,
    monitor: &dyn Monitor,
) -> Result<core::LinearModel> {
    // A device that is not there is told before any work.
    check_present(&params.device)?;
    if options.own.is_some_and(|own| !own.is_whole()) {
        return core::fit_with(input, params, options, &Chosen::new(of_process(&params.device)?, monitor), monitor);
    }
    let on = |device: &str, monitor: &dyn Monitor| core::fit_with(input, params, options, &Chosen::new(device, monitor), monitor);
    fit_or_on_cpu(&params.device, monitor, on)
}

/// Fits as [`fit`] does, together with other processes: each has the lists and dense columns of its `own` rows, all else of all rows, and
/// gets the model of all of them, in the bytes of one fit. Gradients are added up once an iteration, as integers.
///
/// # Errors
/// As [`fit`]; for an `optimizer` other than `lbfgs`; where another process is gone, or makes another fit.
///
/// ```
/// use taiga_engine::collective::{Collective, LocalCollective, local};
/// use taiga_engine::column::Column;
/// use taiga_engine::dataset::{OwnRows, Quiet, Target, labels::Labels};
/// use taiga_engine::learners::linear::{Input, LinearParams, fit, fit_together};
///
/// let x: Vec<f64> = (0..20_000).map(|i| f64::from(i % 10)).collect();
/// let codes: Vec<u32> = x.iter().map(|x| u32::from(*x > 6.0)).collect();
/// let input = |rows: std::ops::Range<usize>| Input {
///     sparse: None,
///     dense: vec![Column::from_f64("x", &x[rows])],
///     target: Target::Classes { codes: &codes, labels: Labels::Boolean },
///     target_name: "y".into(),
///     weight: None,
///     held_out: None,
/// };
/// let of_end = |end: LocalCollective| {
///     let first = [0, 18_000][end.rank()];
///     let own = OwnRows { collective: &end, first, count: if first == 0 { 18_000 } else { 2_000 } };
///     fit_together(&input(own.range()), &LinearParams::default(), own, &Quiet).map(|model| model.to_bytes())
/// };
/// let made: Vec<_> = std::thread::scope(|scope| {
///     let threads: Vec<_> = local(2).into_iter().map(|end| scope.spawn(|| of_end(end))).collect();
///     threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
/// });
/// let whole = fit(&input(0..20_000), &LinearParams::default(), &Quiet).unwrap().to_bytes();
/// assert!(made[0] == whole && made[1] == whole);
/// ```
pub fn fit_together(
    input: &core::Input<'_>,
    params: &core::LinearParams,
    own: OwnRows<'_>,
    monitor: &dyn Monitor,
) -> Result<core::LinearModel> {
    fit_with(input, params, &FitOptions { own: Some(own), ..FitOptions::default() }, monitor)
}

/// Fits as [`fit()`] does, to a table whose lists and dense columns come in batches, and have no rows in `input`. They are read once, and kept in
/// memory or in files of `spill`: 8 bytes a row, 4 a feature number or string, 4 a value, 4 or 8 a cell of a dense column. The model has the bytes
/// of the fit to the whole table, whatever the batches.
///
/// # Errors
/// As [`fit()`]; those of [`KeptRows::read`](core::KeptRows::read).
///
/// ```
/// use taiga_engine::dataset::{Quiet, Target, labels::Labels};
/// use taiga_engine::column::{Chunk, Values};
/// use taiga_engine::learners::linear::{
///     Input, Items, LinearParams, ListChunk, ListColumn, Offsets, RowBatches, SparseRows, VisitRows, fit, fit_in_batches,
/// };
///
/// // Row i has the features i and i + 1, modulo 9.
/// let numbers: Vec<i32> = (0..200).flat_map(|row| [row % 9, (row + 1) % 9]).collect();
/// let lists = |numbers| {
///     let offsets = Offsets::Fixed { width: 2, rows: <[i32]>::len(numbers) / 2 };
///     let chunk = ListChunk { offsets, validity: None, items: Items::Numbers(Chunk::new(Values::I32(numbers), None)) };
///     SparseRows { features: ListColumn { name: "tokens".into(), chunks: vec![chunk] }, values: None }
/// };
///
/// /// The rows, 30 at a time.
/// struct Batches<'a, L>(&'a [i32], L);
///
/// impl<'a, L: Fn(&'a [i32]) -> SparseRows<'a> + Sync> RowBatches for Batches<'a, L> {
///     fn read(&self, visit: &mut VisitRows<'_>) -> taiga_engine::Result<()> {
///         self.0.chunks(60).try_for_each(|numbers| visit(Some(&(self.1)(numbers)), &[]))
///     }
/// }
///
/// let codes: Vec<u32> = (0..200).map(|row| u32::from(row % 9 > 4)).collect();
/// let input = |sparse| Input {
///     sparse: Some(sparse),
///     dense: vec![],
///     target: Target::Classes { codes: &codes, labels: Labels::Boolean },
///     target_name: "y".into(),
///     weight: None,
///     held_out: None,
/// };
/// let params = LinearParams::default();
/// // The table has no lists: they come in batches.
/// let model = fit_in_batches(&input(lists(&[])), &params, &Batches(&numbers, lists), None, &Quiet)?;
/// assert!(model.to_bytes() == fit(&input(lists(&numbers)), &params, &Quiet)?.to_bytes());
/// # Ok::<(), taiga_engine::Error>(())
/// ```
pub fn fit_in_batches(
    input: &core::Input<'_>,
    params: &core::LinearParams,
    source: &dyn core::RowBatches,
    spill: Option<&SpillFolder>,
    monitor: &dyn Monitor,
) -> Result<core::LinearModel> {
    check_present(&params.device)?;
    let kept = core::KeptRows::read(input, params, source, spill, monitor)?;
    fit(&kept.input(input), params, monitor)
}

/// Models of sparse logistic regression.
pub const FAMILY: Family = Family {
    envelope: &core::model::envelope::ENVELOPE,
    read: |bytes| Ok(Box::new(core::LinearModel::from_bytes(bytes)?)),
    format: core::model::FORMAT,
    read_json: |text| Ok(Box::new(core::LinearModel::from_json(text)?)),
    apply: |bytes, device, rounds| {
        let model = core::LinearModel::from_bytes(bytes)?;
        if rounds.is_some() {
            return Err(no_rounds(&model));
        }
        Ok(Box::new(PlacedLinear::new(device, Arc::new(core::Predictor::new(model)))?))
    },
};

impl AppliedModel for PlacedLinear {
    fn model(&self) -> &dyn FittedModel {
        self.predictor().model()
    }

    fn is_remote(&self) -> bool {
        PlacedLinear::is_remote(self)
    }

    fn outputs(&self, rows: &ModelRows<'_, '_>, wanted: &[Output]) -> Result<Vec<Values>> {
        let lacks = |o: &Output| match o {
            Output::Leaves => Some(has_no(AppliedModel::model(self), "linear", "leaves")),
            Output::Staged => Some(has_no(AppliedModel::model(self), "not of boosted trees", "stages")),
            Output::Predictions | Output::Raw | Output::Class => None,
        };
        if let Some(error) = wanted.iter().find_map(lacks) {
            return Err(error);
        }
        let predictor = self.predictor();
        let raw = self.raw(rows.sparse, &predictor.bind(rows.columns)?)?;
        let mut raw = Shared::new(Some(raw), wanted, |_| true);
        let output = |output: &Output| {
            Ok(match output {
                Output::Class => Values::Indices(predictor.class(&raw.take()?)),
                Output::Predictions => {
                    let mut values = raw.take()?;
                    predictor.link(&mut values);
                    Values::Numbers(values)
                }
                _ => Values::Numbers(raw.take()?),
            })
        };
        wanted.iter().map(output).collect()
    }

    fn explainer(&self, background: Option<&ModelRows<'_, '_>>) -> Result<Box<dyn RowExplainer>> {
        let predictor = self.shared();
        let shap = match background {
            Some(rows) => predictor.shap_values(rows.sparse, &predictor.bind(rows.columns)?)?,
            None => training_shap_values(&predictor, "give rows to compare with as background=")?,
        };
        Ok(Box::new(LinearExplainer { predictor, shap, copy: self.copy() }))
    }

    fn known_scores(&self, rows: &ModelRows<'_, '_>, known: &[u32]) -> Result<Vec<Vec<f64>>> {
        let predictor = self.own("partial dependence without data")?;
        let shap = training_shap_values(&predictor, "give data")?;
        predictor.known_scores(&shap, rows.sparse, &predictor.bind(rows.columns)?, known)
    }
}

/// Prepares what columns give in the mean of the training rows; `remedy`: what to do about a model without it.
fn training_shap_values(predictor: &core::Predictor, remedy: &str) -> Result<core::shap::ShapValues> {
    let lacks = || format!("means of its training rows: {remedy}");
    predictor.training_shap_values().ok_or_else(|| has_no(predictor.model(), "linear, from before they were recorded,", &lacks()))
}

/// Rows explained by a linear model, on this process's threads or on the device that has its copy.
struct LinearExplainer {
    predictor: Arc<core::Predictor>,
    shap: core::shap::ShapValues,
    copy: Option<Arc<dyn LinearCopy>>,
}

impl RowExplainer for LinearExplainer {
    fn base(&self) -> &[f64] {
        &self.shap.base
    }

    fn explain(&self, rows: &ModelRows<'_, '_>, terms: Terms) -> Result<Explanation> {
        let columns = self.predictor.bind(rows.columns)?;
        let Some(copy) = &self.copy else { return self.predictor.explain(&self.shap, rows.sparse, &columns, terms) };
        let rows = self.predictor.read(rows.sparse, &columns)?;
        Ok(core::shap::explanation(copy.explain(&rows, self.shap.means())?, rows.rows, terms))
    }
}
