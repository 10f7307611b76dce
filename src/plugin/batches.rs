//! Fits of tables larger than memory: Python runs the query of the frame in batches, as often as the engine asks for them.
//!
//! Such a fit is no expression, because an expression has all rows before it begins. Python makes a [`PyBatchedFit`] and hands over what it
//! reads by two expressions, whose input comes with its types and without a copy from whatever version of Polars there is:
//!
//! ```text
//! batches_begin   the struct of a fit (Parts) without rows: checked; says which of its fields are kept whole
//! batches_take    that struct of what is kept whole: the target and all else beside features and lists, categories
//! fit(feed)       asks `feed` for each pass; in it
//! batches_take    that struct of some rows, with all fields
//! batches_give    what has come of folds
//! ```
//!
//! The rows of each pass must be those that are kept: these are compared here, the features in the engine. Sparse logistic regression reads its
//! lists and dense columns in one pass.

mod learner;
mod passes;

use self::learner::{Learner, Params, problem};
use self::passes::Passes;
use crate::columns::{is_listed, number_type};
use crate::errors;
use crate::export::{Answer, Length, export};
use crate::fit::{Fields, FitKwargs, Parts, is_sparse};
use crate::folds::FoldsKwargs;
use crate::model::python_error;
use crate::monitor;
use crate::row_key::has_key;
use crate::schema::InputSchema;
use polars::prelude::*;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use taiga_engine::memory;
use taiga_engine::parallel::fork::PerProcess;
use taiga_engine::parallel::pools;
use taiga_engine::spill::SpillFolder;

/// About so many bytes are a batch, unless somebody says how many rows.
const BATCH_BYTES: usize = 32 << 20;

/// About so many bytes are the lists of a row, in one column of them, and what a fit keeps of these.
const LIST_BYTES: usize = 512;

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
    /// What has come of folds, which is more than a model.
    given: Mutex<Option<Series>>,
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
    /// The bytes that the others have in each row, and the lists.
    row_bytes: usize,
    /// How many columns of lists come in batches.
    lists: usize,
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
    /// What is to be done with folds.
    #[serde(default)]
    folds: Option<FoldsKwargs>,
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

/// Checks a fit, and gives the names of the fields of its input that are kept whole.
fn batches_begin(inputs: &[Series], kwargs: BeginKwargs) -> Answer {
    monitor::expression(kwargs.learner.function(), false, || {
        let fit = fit_of(kwargs.number)?;
        let (begun, names) = Begun::new(inputs, kwargs.learner, kwargs.fit, kwargs.folds)?;
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

fn give_field(_: &[Field], kwargs: TakeKwargs) -> PolarsResult<Field> {
    let given = locked(&fit_of(kwargs.number)?.given).clone();
    given.map(|given| Field::new(given.name().clone(), given.dtype().clone())).ok_or_else(nothing_yet)
}

/// Gives what has come of a fit of folds.
fn batches_give(_: &[Series], kwargs: TakeKwargs) -> Answer {
    monitor::expression("batches", false, || locked(&fit_of(kwargs.number)?.given).take().ok_or_else(nothing_yet))
}

fn nothing_yet() -> PolarsError {
    errors::data("parameter `batches`: this fit has nothing to give")
}

export!(batches_give, give_field, TakeKwargs, Length::Rows);

impl Begun {
    /// Checks what types and parameters tell; beside it the names of the fields that are kept whole, features and roles.
    fn new(inputs: &[Series], learner: Learner, kwargs: FitKwargs, folds: Option<FoldsKwargs>) -> PolarsResult<(Begun, Vec<String>)> {
        let empty = inputs[0].clear();
        let params = Params::checked(learner, empty.dtype(), &kwargs, folds)?;
        let problem = problem(&kwargs, &params, &InputSchema::new(empty.dtype())?, inputs.len() > 1)?;
        let is_whole = |s: &Series| is_listed(s.dtype()) || params.categorical().iter().any(|name| name == s.name().as_str());
        let roles = Fields::of_roles(&empty)?;
        let lists = roles.iter().filter(|role| is_sparse(role)).count();
        let mut names: Vec<String> = roles.iter().filter(|role| !is_sparse(role)).map(|role| role.name().to_string()).collect();
        let (mut whole, mut row_bytes) = (vec![], LIST_BYTES * lists);
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
        Ok((Begun { learner, kwargs, params, empty, whole, row_bytes, lists, problem }, names))
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
        let fit = Arc::new(BatchedFit { number, spill, begun: Mutex::default(), taken: Mutex::default(), given: Mutex::default() });
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
        let kept = memory::sum(&[begun.params.value_bytes() * begun.whole.len() as u64, (LIST_BYTES * begun.lists) as u64, ROW_BYTES]);
        let row = memory::sum(&[2 * begun.row_bytes as u64, kept]);
        Ok(memory::available().is_none_or(|left| memory::product(&[rows, row]) <= left))
    }

    /// Fits to what was taken last, and the batches of `feed`, which gives a generator for each pass: the model's bytes, or the text of an
    /// error. What comes of folds `batches_give` has.
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
            let passes = Passes { fit: self, begun, parts: &parts, feed, raised: Mutex::default(), batch: Mutex::default() };
            if let Params::Folds(..) = &begun.params {
                let given = begun.params.fit_folds(begun.learner, &passes);
                raised = locked(&passes.raised).take();
                *locked(&self.given) = Some(given?);
                return Ok(crate::fit::binary_series("model", None));
            }
            let bytes = begun.kwargs.on_error.apply(&parts.target, |_| begun.params.fit(&passes, self.spill.as_ref()));
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
