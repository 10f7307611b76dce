//! Fits of tables larger than memory: Python runs the query of the frame in batches, as often as the engine asks for them.
//!
//! Such a fit is no expression, because an expression has all rows before it begins. Python makes a [`PyBatchedFit`] and hands over what it
//! reads by two expressions, whose input comes with its types and without a copy from whatever version of Polars there is:
//!
//! ```text
//! batches_begin   the struct of a fit (Parts) without rows: checked; says which features are kept whole
//! batches_take    that struct of what is kept whole: the target and all else beside the features, categories
//! fit(feed)       asks `feed` for each pass; in it
//! batches_take    that struct of some rows, with all features
//! ```
//!
//! The rows of each pass must be those that are kept: these are compared here, the features in the engine.

use crate::columns::{self, Numbers, is_listed, number_type};
use crate::errors;
use crate::export::{Answer, Length, export};
use crate::fit::{COMPUTED, Fields, FitKwargs, OnError, Parts, Wanted};
use crate::model::python_error;
use crate::monitor::{self, Watch};
use crate::row_key::has_key;
use crate::schema::InputSchema;
use crate::{forest, gbdt};
use polars::prelude::*;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use taiga_engine::dataset::{BatchedTable, Batches, FeatureBatches, Monitor};
use taiga_engine::device::DeviceSet;
use taiga_engine::learners::boosting::{BoostingParams, FitOptions};
use taiga_engine::learners::forest::ForestParams;
use taiga_engine::learners::forest::params::Splitter;
use taiga_engine::parallel::fork::PerProcess;
use taiga_engine::parallel::{interrupt, pools};
use taiga_engine::spill::SpillFolder;
use taiga_engine::{Error, column, memory};

/// About so many bytes are a batch, unless somebody says how many rows.
const BATCH_BYTES: usize = 32 << 20;

/// What a fit keeps of each row beside its codes, about: target, score, leaf, places in lists.
const ROW_BYTES: u64 = 40;

/// The fits that are there, by their numbers.
static FITS: PerProcess<Mutex<HashMap<u64, Weak<BatchedFit>>>> = PerProcess::new();

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A fit whose features come in batches.
struct BatchedFit {
    number: u64,
    spill: Option<SpillFolder>,
    begun: Mutex<Option<Arc<Begun>>>,
    /// What Python has handed over last.
    taken: Mutex<Option<Series>>,
}

/// The learners that fit in batches, as functions are called.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Learner {
    FitGbdt,
    FitForest,
}

impl Learner {
    fn function(self) -> &'static str {
        match self {
            Learner::FitGbdt => "fit_gbdt",
            Learner::FitForest => "fit_forest",
        }
    }
}

/// A learner's parameters.
enum Params {
    Gbdt(Box<BoostingParams>),
    Forest(ForestParams),
}

impl Params {
    /// The parameters of a fit, held against the type of its input.
    fn checked(learner: Learner, input: &DataType, kwargs: &FitKwargs) -> PolarsResult<Params> {
        match learner {
            Learner::FitGbdt => gbdt::checked(input, kwargs).map(|params| Params::Gbdt(Box::new(params))),
            Learner::FitForest => forest::checked(input, kwargs).map(Params::Forest),
        }
    }

    fn categorical(&self) -> &[String] {
        match self {
            Params::Gbdt(params) => &params.categorical,
            Params::Forest(params) => &params.categorical,
        }
    }

    fn device(&self) -> &str {
        match self {
            Params::Gbdt(params) => &params.device,
            Params::Forest(params) => &params.device,
        }
    }

    /// About what a fit keeps of each value that comes in batches, in bytes.
    fn value_bytes(&self) -> u64 {
        match self {
            Params::Gbdt(_) => 1,
            Params::Forest(_) => 2,
        }
    }

    /// Fits to a table some of whose features come in `batches`; the model's bytes.
    fn fit(&self, parts: &Parts, kwargs: &FitKwargs, batches: Option<Batches<'_>>) -> PolarsResult<Vec<u8>> {
        match self {
            Params::Gbdt(params) => {
                let options = FitOptions { batches, ..FitOptions::default() };
                let mut model = gbdt::fit_with(parts, BoostingParams::clone(params), kwargs, Wanted::Model, options)?;
                model.provenance.metadata = kwargs.metadata()?;
                Ok(model.to_bytes())
            }
            Params::Forest(params) => {
                let mut forest = forest::fit_with(parts, params.clone(), kwargs, Wanted::Model, (None, batches))?;
                forest.provenance.metadata = kwargs.metadata()?;
                Ok(forest.to_bytes())
            }
        }
    }
}

/// What the types say of a fit.
struct Begun {
    learner: Learner,
    kwargs: FitKwargs,
    params: Params,
    /// What is read, without rows.
    empty: Series,
    /// Of each feature, whether it is kept whole.
    whole: Vec<bool>,
    /// The bytes that the others have in each row.
    row_bytes: usize,
    /// What it is asked for that is not done in batches.
    problem: Option<String>,
}

fn locked<T>(value: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The fit of this number.
///
/// # Errors
/// Where there is none any more: an expression that somebody has kept.
fn fit_of(number: u64) -> PolarsResult<Arc<BatchedFit>> {
    let known = locked(FITS.get()).get(&number).and_then(Weak::upgrade);
    known.ok_or_else(|| errors::data("parameter `batches`: this fit is none of this process, or is done"))
}

/// What Python says of the input of a fit.
#[derive(Deserialize)]
struct BeginKwargs {
    number: u64,
    learner: Learner,
    fit: FitKwargs,
    /// Whether it is told later, if the fit is to be in batches.
    auto: bool,
}

/// What Python says of rows.
#[derive(Deserialize)]
struct TakeKwargs {
    number: u64,
}

/// The name of a column of text or of flags that these expressions give.
const GIVEN: &str = "given";

fn begin_field(_: &[Field], _: BeginKwargs) -> PolarsResult<Field> {
    Ok(Field::new(GIVEN.into(), DataType::String))
}

/// Checks a fit, and gives the names of the fields of its input that are features to be kept whole.
fn batches_begin(inputs: &[Series], kwargs: BeginKwargs) -> Answer {
    monitor::expression(kwargs.learner.function(), false, || {
        let fit = fit_of(kwargs.number)?;
        let (begun, names) = Begun::new(inputs, kwargs.learner, kwargs.fit)?;
        if let Some(problem) = begun.problem.as_ref().filter(|_| !kwargs.auto) {
            return Err(errors::data(problem));
        }
        *locked(&fit.begun) = Some(Arc::new(begun));
        Ok(StringChunked::from_iter_values(GIVEN.into(), names.into_iter()).into_series())
    })
}

export!(batches_begin, begin_field, BeginKwargs, Length::Rows);

fn take_field(_: &[Field], _: TakeKwargs) -> PolarsResult<Field> {
    Ok(Field::new(GIVEN.into(), DataType::Boolean))
}

/// Takes rows.
fn batches_take(inputs: &[Series], kwargs: TakeKwargs) -> Answer {
    let fit = fit_of(kwargs.number);
    let learner = fit.as_ref().ok().and_then(|fit| Some(locked(&fit.begun).as_ref()?.learner));
    monitor::expression(learner.map_or("batches", Learner::function), false, || {
        *locked(&fit?.taken) = Some(inputs[0].clone());
        Ok(BooleanChunked::from_slice(GIVEN.into(), &[true]).into_series())
    })
}

export!(batches_take, take_field, TakeKwargs, Length::One);

/// What a fit is asked for that is not done in batches: an error's text, naming the parameter.
fn problem(kwargs: &FitKwargs, params: &Params, fields: &InputSchema, init_model: bool) -> PolarsResult<Option<String>> {
    let not_yet =
        |name: &str, what: &str| Ok(Some(format!("parameter `{name}`: {what} is not fitted in batches yet: leave out `batches`")));
    if init_model {
        return not_yet("init_model", "what goes on from a model");
    }
    if kwargs.snapshot.is_some() {
        return not_yet("snapshot", "what keeps its state");
    }
    if kwargs.collective.is_some() {
        return not_yet("collective", "a table that lies in several processes");
    }
    if kwargs.on_error == OnError::Constant {
        return not_yet("on_error", "\"constant\"");
    }
    if fields.has("row_key") {
        return not_yet("row_key", "a table in the order of its keys");
    }
    if let Params::Forest(ForestParams { splitter: splitter @ (Splitter::Exact | Splitter::Random), .. }) = params {
        let splitter = if *splitter == Splitter::Exact { "exact" } else { "random" };
        return not_yet("splitter", &format!("{splitter:?}, which ranks all values of a feature,"));
    }
    let device = params.device();
    if let DeviceSet::Cuda(_) = DeviceSet::parse(device).map_err(errors::compute)? {
        return not_yet("device", &format!("{device:?}: a table on a GPU"));
    }
    Ok(None)
}

impl Begun {
    /// Checks what types and parameters tell; beside it the names of the fields that are features to be kept whole.
    fn new(inputs: &[Series], learner: Learner, kwargs: FitKwargs) -> PolarsResult<(Begun, Vec<String>)> {
        let empty = inputs[0].clear();
        let params = Params::checked(learner, empty.dtype(), &kwargs)?;
        let problem = problem(&kwargs, &params, &InputSchema::new(empty.dtype())?, inputs.len() > 1)?;
        let is_whole = |s: &Series| is_listed(s.dtype()) || params.categorical().iter().any(|name| name == s.name().as_str());
        let (mut whole, mut names, mut row_bytes) = (vec![], vec![], 0);
        for field in Fields::of_features(&empty)? {
            let name = field.name().to_string();
            let own = Fields::in_field(field)?;
            let kept = own.iter().any(is_whole);
            if kept {
                names.push(name);
            } else {
                row_bytes += own.iter().map(|s| value_bytes(s.dtype())).sum::<usize>();
            }
            whole.resize(whole.len() + own.len(), kept);
        }
        Ok((Begun { learner, kwargs, params, empty, whole, row_bytes, problem }, names))
    }

    /// The numbers of the features that come in batches.
    fn batched(&self) -> Vec<u32> {
        (0..).zip(&self.whole).filter(|(_, whole)| !**whole).map(|(index, _)| index).collect()
    }
}

/// The bytes of a value of a numeric feature.
fn value_bytes(dtype: &DataType) -> usize {
    let physical = dtype.to_physical();
    match (number_type(dtype), &physical) {
        (None, _) | (_, DataType::Null | DataType::Boolean) => 1,
        (_, DataType::Int8 | DataType::UInt8) => 1,
        (_, DataType::Int16 | DataType::UInt16 | DataType::Float16) => 2,
        (_, DataType::Int32 | DataType::UInt32 | DataType::Float32) => 4,
        (_, DataType::Int128 | DataType::UInt128 | DataType::Decimal(..)) => 16,
        _ => 8,
    }
}

/// The passes over a frame that Python makes.
struct Passes<'a> {
    fit: &'a BatchedFit,
    begun: &'a Begun,
    parts: &'a Parts,
    /// What is called for each pass, and gives an iterator that takes rows at each step.
    feed: &'a Py<PyAny>,
    /// What Python has raised.
    raised: Mutex<Option<PyErr>>,
}

/// A pass that is under way; it ends where this is dropped.
struct Pass(Py<PyAny>);

impl Drop for Pass {
    fn drop(&mut self) {
        // What goes wrong when a generator is closed is nobody's to know.
        let _ = Python::try_attach(|py| self.0.call_method0(py, "close").map(drop));
    }
}

impl Passes<'_> {
    /// Keeps what Python has raised, to be raised again.
    fn noted(&self, error: PyErr) -> Error {
        let text = error.to_string();
        *locked(&self.raised) = Some(error);
        Error::Data(text)
    }

    /// The rows of the next batch; none where there are no more.
    fn next(&self, pass: &Pass) -> taiga_engine::Result<Option<Series>> {
        interrupt::poll();
        let step = Python::attach(|py| match pass.0.call_method0(py, "__next__") {
            Ok(_) => Ok(true),
            Err(error) if error.is_instance_of::<PyStopIteration>(py) => Ok(false),
            Err(error) => Err(error),
        });
        match step {
            Ok(true) => Ok(locked(&self.fit.taken).take()),
            Ok(false) => Ok(None),
            Err(error) => Err(self.noted(error)),
        }
    }

    /// Checks that what is kept whole is the same in these rows as in those from `first` on.
    fn check_kept(&self, batch: &Fields, first: usize) -> PolarsResult<()> {
        let features = batch.columns.iter().zip(&self.begun.whole).filter(|(_, whole)| **whole).map(|(s, _)| s);
        let kept = self.parts.features.iter().zip(&self.begun.whole).filter(|(_, whole)| **whole).map(|(s, _)| s);
        let here: Vec<Series> = batch.roles.iter().chain(features).cloned().collect();
        let kept: Vec<Series> = self.parts.roles().iter().chain(kept).map(|s| s.slice(first as i64, batch.rows())).collect();
        let (here, kept) = (columns::unnest(&here)?, columns::unnest(&kept)?);
        for (here, kept) in here.iter().zip(&kept) {
            if here.dtype() != kept.dtype() || !here.equals_missing(kept) {
                let name = here.name().trim_start_matches(COMPUTED);
                return Err(errors::data(format!(
                    "parameter `batches`: the frame gives other values of column `{name}`, or the same in another order, than before: a fit \
                     in batches reads the frame several times, and it has to give the same rows in the same order each time. Sort it, or \
                     write it to a file first"
                )));
            }
        }
        Ok(())
    }
}

impl FeatureBatches for Passes<'_> {
    fn read(&self, visit: &mut dyn FnMut(&[column::Column<'_>]) -> taiga_engine::Result<()>) -> taiga_engine::Result<()> {
        let pass = Python::attach(|py| self.feed.call0(py)).map_err(|error| self.noted(error))?;
        let (pass, rows) = (Pass(pass), self.parts.target.len());
        let watch = Watch::new(self.begun.learner.function(), "rows read", self.begun.kwargs.progress);
        let (mut first, mut is_target) = (0, rows > 0);
        let target = &self.parts.target;
        let named = self.parts.features.iter().position(|s| s.name() == target.name() && s.dtype() == target.dtype());
        let named = named.filter(|index| !self.begun.whole[*index]);
        while let Some(batch) = self.next(&pass)? {
            let batch = Fields::new(&batch).map_err(errors::through)?;
            let len = batch.rows();
            // More rows than there were are told by the engine.
            if first + len <= rows {
                self.check_kept(&batch, first).map_err(errors::through)?;
            }
            if let Some(index) = named {
                is_target &= batch.columns[index].equals_missing(&target.slice(first as i64, len));
            }
            let numbers = batch.columns.iter().zip(&self.begun.whole).filter(|(_, whole)| !**whole);
            let numbers = numbers.map(|(s, _)| Numbers::feature(s)).collect::<PolarsResult<Vec<_>>>().map_err(errors::through)?;
            visit(&numbers.iter().map(Numbers::column).collect::<Vec<_>>())?;
            first += len;
            watch.round(first.min(rows) as u32, rows as u32, None);
        }
        match named {
            Some(_) if is_target => Err(errors::through(Parts::target_is_feature(target))),
            _ => Ok(()),
        }
    }
}

/// A fit whose features come in batches.
#[pyclass(frozen, name = "BatchedFit")]
pub struct PyBatchedFit(Arc<BatchedFit>);

impl PyBatchedFit {
    fn begun(&self) -> PyResult<Arc<Begun>> {
        locked(&self.0.begun).clone().ok_or_else(|| crate::model::value_error("parameter `batches`: the fit has not begun"))
    }
}

impl Drop for PyBatchedFit {
    fn drop(&mut self) {
        locked(FITS.get()).remove(&self.0.number);
    }
}

#[pymethods]
impl PyBatchedFit {
    /// `spill`: a folder for what is kept of each row.
    #[new]
    #[pyo3(signature = (spill=None))]
    fn new(spill: Option<PathBuf>) -> PyResult<Self> {
        let spill = spill.map(SpillFolder::new).transpose().map_err(python_error)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let fit = Arc::new(BatchedFit { number, spill, begun: Mutex::default(), taken: Mutex::default() });
        locked(FITS.get()).insert(number, Arc::downgrade(&fit));
        Ok(PyBatchedFit(fit))
    }

    /// The number by which the expressions know it.
    #[getter]
    fn number(&self) -> u64 {
        self.0.number
    }

    /// How many rows a batch has, unless somebody says so.
    fn batch_rows(&self) -> PyResult<usize> {
        Ok((BATCH_BYTES / self.begun()?.row_bytes.max(1)).clamp(1 << 10, 1 << 20))
    }

    /// Whether a table of `rows` rows has room in memory as a whole: twice what comes in batches, because Polars may copy it once, and what
    /// a fit keeps of it. True where the system does not say how much there is.
    fn has_room(&self, rows: u64) -> PyResult<bool> {
        let begun = self.begun()?;
        let row = memory::sum(&[2 * begun.row_bytes as u64, begun.params.value_bytes() * begun.whole.len() as u64, ROW_BYTES]);
        Ok(memory::available().is_none_or(|left| memory::product(&[rows, row]) <= left))
    }

    /// Fits to what was taken last, and the batches of `feed`, which gives a generator for each pass: the model's bytes, or the text of an
    /// error.
    fn fit<'py>(&self, py: Python<'py>, feed: Py<PyAny>) -> PyResult<(Option<Bound<'py, PyBytes>>, Option<String>)> {
        let (fit, begun) = (&self.0, self.begun()?);
        let (made, raised) = py.detach(|| fit.run(&begun, &feed));
        match (made, raised) {
            (Err(_), Some(raised)) => Err(raised),
            (Err(error), None) => Ok((None, Some(errors::text(&error)))),
            (Ok(bytes), _) => Ok((bytes.map(|bytes| PyBytes::new(py, &bytes)), None)),
        }
    }
}

impl BatchedFit {
    /// The bytes of the model, and what Python has raised.
    fn run(&self, begun: &Begun, feed: &Py<PyAny>) -> (PolarsResult<Option<Vec<u8>>>, Option<PyErr>) {
        let mut raised = None;
        let made = monitor::expression(begun.learner.function(), true, || {
            pools::keep_to_this_thread();
            if let Some(problem) = &begun.problem {
                return Err(errors::data(problem));
            }
            let kept = locked(&self.taken).take().ok_or_else(|| errors::data("parameter `batches`: there are no rows"))?;
            let parts = Parts::in_batches(&begun.empty, &kept, &begun.whole)?;
            drop(kept);
            debug_assert!(!has_key(&parts));
            let passes = Passes { fit: self, begun, parts: &parts, feed, raised: Mutex::default() };
            let bytes = begun.kwargs.on_error.apply(&parts.target, |_| {
                let table = BatchedTable::new(&passes, begun.batched(), parts.target.len(), self.spill.as_ref());
                let batches = (!table.batches().columns().is_empty()).then(|| table.batches());
                begun.params.fit(&parts, &begun.kwargs, batches)
            });
            raised = locked(&passes.raised).take();
            Ok(crate::fit::binary_series("model", bytes?))
        });
        let bytes = made.map(|series| {
            let series = series?;
            series.binary().ok().and_then(|values| values.get(0)).map(<[u8]>::to_vec)
        });
        (bytes, raised)
    }
}
