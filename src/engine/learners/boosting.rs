//! Gradient-boosted trees on the device that the parameters name.

use super::applied::{AppliedModel, ModelRows, Output, RowExplainer, Shared, Values};
use super::registry::Family;
use crate::device::fallback::{fit_or_on_cpu, or_on_cpu};
use crate::device::predict::{ExplainerCopies, ModelCopy, PlacedPredictor};
use crate::device::trees::{small_table_gpus, stay_here};
use crate::device::{Chosen, check_on_cpu, check_present, gpu, of_process};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use taiga_core::dataset::{Batches, Monitor};
use taiga_core::encoding::Lookup;
use taiga_core::error::Result;
use taiga_core::learners::boosting as core;
use taiga_core::learners::boosting::model::apply::{Asked, Walked};
use taiga_core::model::fitted::FittedModel;
use taiga_core::shap::{Explanation, Terms};

pub use crate::device::trees::ManyTables;
pub use taiga_core::learners::boosting::*;

/// Fits boosted trees to a table.
///
/// The same rows in the same order give an equal model, whatever `n_threads` and the columns'
/// chunks.
///
/// # Errors
/// What is wrong with the table or the parameters, naming the column or the parameter;
/// [`taiga_core::Error::Interrupted`] when `monitor` asks to stop.
///
/// ```
/// use taiga_engine::dataset::{Input, Quiet, Target};
/// use taiga_engine::learners::boosting::{BoostingParams, fit};
/// use taiga_engine::column::Column;
///
/// let x: Vec<f64> = (0..100).map(f64::from).collect();
/// let y: Vec<f64> = x.iter().map(|x| if *x > 30.0 { 5.0 } else { 1.0 }).collect();
/// let input = Input {
///     features: vec![Column::from_f64("x", &x)],
///     target: Target::Numbers(Column::from_f64("y", &y)),
///     target_name: "y".into(),
///     weight: None,
///     baseline: vec![],
///     held_out: None,
///     loss_columns: Default::default(),
///     evaluation: Default::default(),
///     order: None,
/// };
/// let params = BoostingParams { rounds: Some(20), depth: Some(1), ..Default::default() };
/// let model = fit(&input, &params, &Quiet).unwrap();
/// assert_eq!(model.rounds(), 20);
/// assert_eq!(model.features[0].borders, vec![30.5]);
/// ```
pub fn fit(input: &taiga_core::dataset::Input<'_>, params: &core::BoostingParams, monitor: &dyn Monitor) -> Result<core::model::Model> {
    fit_with(input, params, &FitOptions::default(), monitor)
}

/// What a device named beside ordered boosting is told.
const ORDERED: &str = "boosting=\"ordered\": what values leaves by parts of the rows is fitted on the CPU yet";

/// Fits as [`fit`] does, from what `options` give: a model whose trees come first, or a snapshot of a fit that was ended. 60 rounds and 40
/// more are the bytes of 100.
///
/// # Errors
/// As [`fit`]; where it can't go on from the given model or the snapshot, saying what differs.
///
/// ```
/// use taiga_engine::column::Column;
/// use taiga_engine::dataset::{Input, Quiet, Target};
/// use taiga_engine::learners::boosting::{BoostingParams, FitOptions, fit, fit_with};
///
/// let x: Vec<f64> = (0..100).map(f64::from).collect();
/// let y: Vec<f64> = x.iter().map(|x| x * x).collect();
/// let input = Input {
///     features: vec![Column::from_f64("x", &x)],
///     target: Target::Numbers(Column::from_f64("y", &y)),
///     target_name: "y".into(),
///     weight: None,
///     baseline: vec![],
///     held_out: None,
///     loss_columns: Default::default(),
///     evaluation: Default::default(),
///     order: None,
/// };
/// let of = |rounds| BoostingParams { rounds: Some(rounds), ..Default::default() };
/// let first = fit(&input, &of(6), &Quiet).unwrap();
/// let options = FitOptions { init_model: Some(&first), ..Default::default() };
/// let all = fit_with(&input, &of(4), &options, &Quiet).unwrap();
/// assert_eq!(all.to_bytes(), fit(&input, &of(10), &Quiet).unwrap().to_bytes());
/// ```
pub fn fit_with(
    input: &taiga_core::dataset::Input<'_>,
    params: &core::BoostingParams,
    options: &FitOptions<'_>,
    monitor: &dyn Monitor,
) -> Result<core::model::Model> {
    // A device that is not there is told before any work.
    check_present(&params.device)?;
    if options.batches.is_some() {
        check_on_cpu(&params.device, "`batches`: what comes in batches is fitted on the CPU yet")?;
        return core::fit_with(input, params, options, &Chosen::new("cpu", monitor), monitor);
    }
    if params.is_ordered() {
        check_on_cpu(&params.device, ORDERED)?;
        return core::fit_with(input, params, options, &Chosen::new("cpu", monitor), monitor);
    }
    if options.own.is_some_and(|own| !own.is_whole()) {
        return core::fit_with(input, params, options, &Chosen::new(of_process(&params.device)?, monitor), monitor);
    }
    let on = |device: &str, monitor: &dyn Monitor| core::fit_with(input, params, options, &Chosen::new(device, monitor), monitor);
    fit_or_on_cpu(&params.device, monitor, on)
}

/// Fits to many tables by the same parameters, such as the groups of a frame: each model is that of [`fit`], byte for byte.
///
/// Where a GPU is taken, the trees of many tables of few rows grow there in one launch; a call of [`ManyFits::fit`] is such a launch, and calls
/// of several threads overlap. What the kernel does not take (`core::small_tables`) is fitted as ever.
pub struct ManyFits<'a> {
    params: &'a core::BoostingParams,
    gpus: Vec<Option<u32>>,
    /// Which of them is next.
    next: AtomicUsize,
    at_once: usize,
}

/// Tables that go to a GPU together, at the most and at the least: enough that it is busy, few enough that the memory for all threads' is small
/// and that all threads are done at about the same time.
const MOST_AT_ONCE: usize = 256;
const LEAST_AT_ONCE: usize = 32;

impl<'a> ManyFits<'a> {
    /// Chooses where such tables are fitted; `monitor` is told what `device="auto"` comes to.
    ///
    /// # Errors
    /// For a GPU that is not there.
    ///
    /// ```
    /// use taiga_engine::column::Column;
    /// use taiga_engine::dataset::{Input, Quiet, Target};
    /// use taiga_engine::learners::boosting::{BoostingParams, ManyFits, ManyTables, fit};
    ///
    /// let x: Vec<f64> = (0..50).map(f64::from).collect();
    /// let targets: Vec<Vec<f64>> = (1..4).map(|k| x.iter().map(|x| f64::from(k) * x).collect()).collect();
    /// let input = |y| Input {
    ///     features: vec![Column::from_f64("x", &x)],
    ///     target: Target::Numbers(Column::from_f64("y", y)),
    ///     target_name: "y".into(),
    ///     weight: None,
    ///     baseline: vec![],
    ///     held_out: None,
    ///     loss_columns: Default::default(),
    ///     evaluation: Default::default(),
    ///     order: None,
    /// };
    /// let tables: Vec<Input<'_>> = targets.iter().map(|y| input(y)).collect();
    /// let params = BoostingParams { rounds: Some(5), ..Default::default() };
    /// let fits = ManyFits::new(&params, ManyTables { count: 3, rows: 50, features: 1, threads: 1 }, &Quiet).unwrap();
    /// let models = fits.fit(&tables, 1, &Quiet).unwrap();
    /// let alone = fit(&tables[2], &params, &Quiet).unwrap();
    /// assert_eq!(models[2].as_ref().unwrap().to_bytes(), alone.to_bytes());
    /// ```
    pub fn new(params: &'a core::BoostingParams, tables: ManyTables, monitor: &dyn Monitor) -> Result<ManyFits<'a>> {
        check_present(&params.device)?;
        let gpus = small_table_gpus(params, tables, monitor)?;
        let share = tables.count / (4 * tables.threads.max(1));
        let at_once = if gpus.is_empty() { 1 } else { share.clamp(LEAST_AT_ONCE, MOST_AT_ONCE) };
        Ok(ManyFits { params, gpus, next: AtomicUsize::new(0), at_once })
    }

    /// Returns how many tables a call of [`ManyFits::fit`] should have.
    pub fn at_once(&self) -> usize {
        self.at_once
    }

    /// Fits a model to each of some tables, by so many threads where that is on the CPU; each fit's own error stands in its place. `monitor` is
    /// asked whether the work is still wanted, and told where a GPU had no memory for it.
    ///
    /// # Errors
    /// Those of the device, which concern all tables.
    pub fn fit(
        &self,
        inputs: &[taiga_core::dataset::Input<'_>],
        threads: u32,
        monitor: &dyn Monitor,
    ) -> Result<Vec<Result<core::model::Model>>> {
        let options = FitOptions::default();
        self.fit_each(&inputs.iter().map(|input| (input, &options)).collect::<Vec<_>>(), Some(threads), monitor)
    }

    /// Fits as [`ManyFits::fit`], each table with what its options give.
    ///
    /// # Errors
    /// As [`ManyFits::fit`].
    fn fit_each(
        &self,
        tables: &[(&taiga_core::dataset::Input<'_>, &FitOptions<'_>)],
        n_threads: Option<u32>,
        monitor: &dyn Monitor,
    ) -> Result<Vec<Result<core::model::Model>>> {
        let monitor = &Wanted(monitor);
        let params = |device: &str| core::BoostingParams { device: device.into(), n_threads, ..self.params.clone() };
        let each = |device: &str| -> Vec<Result<core::model::Model>> {
            let params = params(device);
            tables.iter().map(|(input, options)| fit_with(input, &params, options, monitor)).collect()
        };
        let Some(gpu) = self.gpus.get(self.next.fetch_add(1, Ordering::Relaxed) % self.gpus.len().max(1)) else {
            return Ok(each(&self.params.device));
        };
        or_on_cpu(&self.params.device, &|why| monitor.0.device(why), |device| match device {
            "cpu" => Ok(each(device)),
            _ => gpu::with_small_tables(*gpu, |small| {
                let models = core::small_tables::fit_each(tables, &params(device), &Chosen::new(device, monitor), small, monitor)?;
                // One of those that were fitted one after the other may have found no memory.
                let short = models.iter().find_map(|model| model.as_ref().err().filter(|error| error.leaves_it_to_the_cpu()));
                short.map_or(Ok(()), |error| Err(error.clone())).map(|()| models)
            }),
        })
    }
}

/// A monitor that says whether the work is still wanted, and is told nothing of rounds.
struct Wanted<'m>(&'m dyn Monitor);

impl Monitor for Wanted<'_> {
    fn interrupted(&self) -> bool {
        self.0.interrupted()
    }
}

/// Fits the models of all folds of a table on the device that the parameters name; see [`core::cross_validation`].
///
/// # Errors
/// Those of the fits, saying which fold.
///
/// ```
/// use taiga_engine::column::Column;
/// use taiga_engine::dataset::folds::{Division, Folds};
/// use taiga_engine::dataset::{Input, Quiet, Target};
/// use taiga_engine::learners::boosting::{BoostingParams, fit_folds};
///
/// let x: Vec<f64> = (0..100).map(f64::from).collect();
/// let y: Vec<f64> = x.iter().map(|x| x * x).collect();
/// let input = Input {
///     features: vec![Column::from_f64("x", &x)],
///     target: Target::Numbers(Column::from_f64("y", &y)),
///     target_name: "y".into(),
///     weight: None,
///     baseline: vec![],
///     held_out: None,
///     loss_columns: Default::default(),
///     evaluation: Default::default(),
///     order: None,
/// };
/// let folds = Folds::new(&input, &Division::Parts(5), 0).unwrap();
/// let params = BoostingParams { rounds: Some(10), ..Default::default() };
/// let models = fit_folds(&input, &params, &folds, &Quiet).unwrap();
/// assert_eq!((models.len(), models[0].tested.len()), (5, 20));
/// ```
pub fn fit_folds(
    input: &taiga_core::dataset::Input<'_>,
    params: &core::BoostingParams,
    folds: &taiga_core::dataset::folds::Folds,
    monitor: &dyn Monitor,
) -> Result<Vec<cross_validation::FoldModel>> {
    check_present(&params.device)?;
    fit_coded_folds(&cross_validation::coded(input, params, None, monitor)?, params, folds, monitor)
}

/// Fits the models of all folds of a table that is coded already ([`cross_validation::coded`]), some of whose columns may have come in batches.
///
/// # Errors
/// As [`fit_folds`].
pub fn fit_coded_folds(
    table: &core::coded_table::CodedTable<'_>,
    params: &core::BoostingParams,
    folds: &taiga_core::dataset::folds::Folds,
    monitor: &dyn Monitor,
) -> Result<Vec<cross_validation::FoldModel>> {
    check_present(&params.device)?;
    let input = table.input();
    let together = may_grow_together(input, params, folds).then(|| folds_together(input, folds));
    let stay_here = stay_here(input, params);
    cross_validation::fit_folds(
        table,
        params,
        folds,
        cross_validation::Fits { fit: &fit_with, together: together.as_deref(), stay_here, monitor },
    )
}

/// Of tables of up to so many rows for each fold the trees of all folds grow together: a launch takes as long as its largest table, 50 µs a row for 100
/// trees on an H200, and a fit by itself 11 ms.
const ROWS_A_FOLD: usize = 200;

/// Folds of tables of more rows are no small tables, and there is not always room for all of them at a time.
const MOST_ROWS_TOGETHER: usize = 1 << 12;

/// Returns whether the trees of all folds of a table may grow together on the device that the parameters name.
fn may_grow_together(
    input: &taiga_core::dataset::Input<'_>,
    params: &core::BoostingParams,
    folds: &taiga_core::dataset::folds::Folds,
) -> bool {
    let most_rows = MOST_ROWS_TOGETHER.min(ROWS_A_FOLD * folds.count as usize);
    input.target.rows() <= most_rows && core::small_tables::may_suit(params) && !stay_here(input, params)
}

/// Returns what fits the models of all folds of a table at a time.
fn folds_together(
    input: &taiga_core::dataset::Input<'_>,
    folds: &taiga_core::dataset::folds::Folds,
) -> Box<cross_validation::FitTogether<'static>> {
    let tables = ManyTables { count: folds.count as usize, rows: input.target.rows(), features: input.features.len(), threads: 1 };
    Box::new(move |each, params, monitor| ManyFits::new(params, tables, monitor)?.fit_each(each, params.n_threads, monitor))
}

/// Searches among the parameters of trials; see [`core::search`].
///
/// # Errors
/// As [`core::search::search`].
pub fn search<T: Sync>(
    (input, batches): (&taiga_core::dataset::Input<'_>, Option<Batches<'_>>),
    trials: &[core::BoostingParams],
    folds: &taiga_core::dataset::folds::Folds,
    halving: Option<core::search::Halving>,
    monitor: &dyn Monitor,
    prepare: impl Fn(&core::coded_table::CodedTable<'_>) -> Result<T>,
    measure: impl Fn(usize, (&core::coded_table::CodedTable<'_>, &T), cross_validation::FoldModel) -> Result<(f64, bool)> + Sync,
) -> Result<Vec<core::search::Trial>> {
    trials.iter().try_for_each(|params| check_present(&params.device))?;
    let stay_here = trials.iter().all(|params| stay_here(input, params));
    let grow_together = batches.is_none() && trials.iter().all(|params| may_grow_together(input, params, folds));
    let together = grow_together.then(|| folds_together(input, folds));
    let fits = cross_validation::Fits { fit: &fit_with, together: together.as_deref(), stay_here, monitor };
    core::search::search((input, batches), trials, folds, halving, fits, prepare, measure)
}

/// Models of boosted trees.
pub const FAMILY: Family = Family {
    envelope: &core::model::envelope::ENVELOPE,
    read: |bytes| Ok(Box::new(core::model::Model::from_bytes(bytes)?)),
    format: core::model::json::FORMAT,
    read_json: |text| Ok(Box::new(core::model::Model::from_json(text)?)),
    apply: |bytes, device, rounds| {
        let mut model = core::model::Model::from_bytes(bytes)?;
        if let Some(rounds) = rounds {
            model = model.into_head(rounds)?;
        }
        let predictor = core::model::apply::Predictor::new(model);
        Ok(Box::new(PlacedPredictor::new(device, Arc::new(predictor))?))
    },
};

impl AppliedModel for PlacedPredictor {
    fn model(&self) -> &dyn FittedModel {
        self.predictor().model()
    }

    fn is_remote(&self) -> bool {
        PlacedPredictor::is_remote(self)
    }

    fn lookup(&self, column: usize) -> Option<&Lookup> {
        self.predictor().lookup(column)
    }

    fn outputs(&self, rows: &ModelRows<'_, '_>, wanted: &[Output]) -> Result<Vec<Values>> {
        let of_scores = |o: &Output| matches!(o, Output::Predictions | Output::Raw | Output::Class);
        let asked =
            Asked { raw: wanted.iter().any(of_scores), leaves: wanted.contains(&Output::Leaves), staged: wanted.contains(&Output::Staged) };
        let predictor = self.predictor();
        let Walked { raw, leaves, staged } = self.walk(&predictor.bind(rows.columns)?, asked)?;
        let (mut raw, mut leaves) = (Shared::new(raw, wanted, of_scores), Shared::new(leaves, wanted, |o| *o == Output::Leaves));
        let mut staged = Shared::new(staged, wanted, |o| *o == Output::Staged);
        let linked = |mut scores: Vec<Vec<f64>>| {
            predictor.link(&mut scores);
            Values::Numbers(scores)
        };
        let output = |output: &Output| {
            Ok(match output {
                Output::Predictions => linked(raw.take()?),
                Output::Raw => Values::Numbers(raw.take()?),
                Output::Class => Values::Indices(predictor.class(&raw.take()?)),
                Output::Leaves => Values::Indices(leaves.take()?),
                Output::Staged => linked(staged.take()?),
            })
        };
        wanted.iter().map(output).collect()
    }

    fn explainer(&self, background: Option<&ModelRows<'_, '_>>) -> Result<Box<dyn RowExplainer>> {
        let predictor = self.shared();
        let background = background.map(|rows| predictor.bind(rows.columns)).transpose()?;
        let shap = Arc::new(predictor.shap_values(background.as_deref())?);
        Ok(Box::new(BoostedExplainer { predictor, shap, copy: self.copy(), copies: Default::default() }))
    }

    fn known_scores(&self, rows: &ModelRows<'_, '_>, known: &[u32]) -> Result<Vec<Vec<f64>>> {
        let predictor = self.own("partial dependence without data")?;
        predictor.known_scores(&predictor.bind(rows.columns)?, known)
    }
}

/// Rows explained by boosted trees, on this process's threads or on the device that has the model's copy.
struct BoostedExplainer {
    predictor: Arc<core::model::apply::Predictor>,
    shap: Arc<core::model::shap::ShapValues>,
    copy: Option<Arc<dyn ModelCopy>>,
    copies: ExplainerCopies,
}

impl RowExplainer for BoostedExplainer {
    fn base(&self) -> &[f64] {
        &self.shap.base
    }

    fn explain(&self, rows: &ModelRows<'_, '_>, terms: Terms) -> Result<Explanation> {
        let columns = self.predictor.bind(rows.columns)?;
        let Some(copy) = &self.copy else { return Ok(self.predictor.explain(&self.shap, &columns, terms)) };
        self.copies.explain(&columns, terms, || copy.explainer(&self.predictor, self.shap.clone(), terms))
    }
}
