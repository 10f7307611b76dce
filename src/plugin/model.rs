//! A model for Python: what `polars_taiga.Model` is built on.

use crate::errors::bug;
use crate::labels;
use crate::predict::wanted::Wanted;
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::panic::{AssertUnwindSafe, catch_unwind};
use taiga_engine::column::categories::{Categories, CategoryNames};
use taiga_engine::dataset::labels::Labels;
use taiga_engine::device::with_device;
use taiga_engine::import::{Imported, Told, import};
use taiga_engine::learners::boosting::BoostingParams;
use taiga_engine::learners::forest::ForestParams;
use taiga_engine::learners::linear::{LinearParams, bucket};
use taiga_engine::learners::registry::{read_model, read_model_json};
use taiga_engine::metadata::Metadata;
use taiga_engine::model::fitted::{Cell, Coefficients, FeatureName, FittedModel};
use taiga_engine::{Error, memory};

/// An engine error as Python's: `TypeError` for a parameter that does not exist, as for any
/// Python function, else `ValueError`.
pub fn python_error(error: Error) -> PyErr {
    match error {
        error if error.each().iter().any(|e| matches!(e, Error::UnknownParameter { .. })) => PyTypeError::new_err(error.to_string()),
        Error::Memory(_) => PyMemoryError::new_err(error.to_string()),
        error => PyValueError::new_err(error.to_string()),
    }
}

pub fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A panic as a `ValueError`; there should be none.
pub fn guarded<T>(body: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| Err(value_error(bug(payload.as_ref()))))
}

/// Checks that there is memory for what Python is told of a model: so many bytes for each node, and for each number in a leaf.
fn check_memory(model: &dyn FittedModel, what: &str, of_node: u64, of_number: u64) -> PyResult<()> {
    let size = model.size();
    let bytes = memory::sum(&[of_node * size.nodes as u64, of_number * size.numbers as u64]);
    memory::check(what, bytes, "fit fewer or smaller trees, or read the model's bytes elsewhere").map_err(python_error)
}

/// [`guarded`] for what may take longer than a millisecond: other threads of Python run meanwhile.
pub fn detached<T: Send>(py: Python<'_>, body: impl FnOnce() -> PyResult<T> + Send) -> PyResult<T> {
    py.detach(|| guarded(body))
}

/// So many values are made a list of, then other threads of Python have their turn, and signals are looked at.
const PIECE: usize = 1 << 13;

/// A list of Python, however long.
///
/// # Errors
/// What a signal's handler raises, `KeyboardInterrupt` for one.
pub fn list<'py, T: IntoPyObject<'py>>(py: Python<'py>, values: impl IntoIterator<Item = T>) -> PyResult<Bound<'py, PyList>> {
    try_list(py, values.into_iter().map(Ok))
}

/// [`list`] of values that may be errors.
fn try_list<'py, T: IntoPyObject<'py>>(py: Python<'py>, values: impl IntoIterator<Item = PyResult<T>>) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for (i, value) in values.into_iter().enumerate() {
        if i % PIECE == PIECE - 1 {
            py.detach(|| ());
            py.check_signals()?;
        }
        list.append(value?)?;
    }
    Ok(list)
}

/// Categories in the order of their codes, `None` for null; where codes are hashes, those whose text is known.
pub fn python_categories<'py>(py: Python<'py>, categories: &Categories) -> PyResult<Bound<'py, PyList>> {
    let is_null = |code: usize| categories.null == Some(code as u32);
    match &categories.labels {
        CategoryNames::Text(v) => list(py, v.iter().enumerate().map(|(i, x)| (!is_null(i)).then_some(x))),
        CategoryNames::Integer(v) => list(py, v.iter().enumerate().map(|(i, x)| (!is_null(i)).then_some(*x))),
        CategoryNames::Boolean(v) => list(py, v.iter().enumerate().map(|(i, x)| (!is_null(i)).then_some(*x))),
        CategoryNames::Hashed(v) => list(py, v.iter().map(|(_, text)| text)),
    }
}

/// What is wrong with parameters: whether it is a name that there is not, and the text.
pub type Problems = Vec<(bool, String)>;

/// What is wrong with parameters, given as a JSON object.
pub fn problems<P>(json: &str, parse: impl FnOnce(&serde_json::Value) -> taiga_engine::Result<P>) -> PyResult<Problems> {
    let unknown = |error: &Error| matches!(error, Error::UnknownParameter { .. });
    let given = serde_json::from_str(json).map_err(value_error)?;
    guarded(|| match with_device(&given, parse(&given)) {
        Ok(_) => Ok(vec![]),
        Err(error) => Ok(error.each().iter().map(|e| (unknown(e), e.to_string())).collect()),
    })
}

/// All that is wrong with the parameters of `fit_gbdt`, given as a JSON object; `held_out`: rows are.
#[pyfunction]
pub fn gbdt_problems(json: &str, held_out: bool) -> PyResult<Problems> {
    problems(json, |value| BoostingParams::check_call(value, held_out))
}

/// All that is wrong with the parameters of `fit_forest`, given as a JSON object.
#[pyfunction]
pub fn forest_problems(json: &str) -> PyResult<Problems> {
    problems(json, ForestParams::from_json)
}

/// All that is wrong with the parameters of `fit_sparse_lr`, given as a JSON object; `held_out`: rows are.
#[pyfunction]
pub fn linear_problems(json: &str, held_out: bool) -> PyResult<Problems> {
    problems(json, |value| LinearParams::check_call(value, held_out))
}

/// Set, metric, values.
type Curve = (Option<String>, String, Vec<f64>);

/// Score, log loss, predictions `[output][row]`.
type OutOfBag<'py> = (f64, Option<f64>, Bound<'py, PyList>);

/// Feature numbers, or indices of dense columns where there is none; class indices; values; and the names of the dense columns.
type CoefficientLists<'py> = (Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyList>, Vec<String>);

/// The columns of a table of nodes, whose features and categories are indices into the names of features and of categories: a name
/// of any length may stand in any number of nodes.
type Nodes<'py> = (Bound<'py, PyDict>, Vec<String>, Vec<Option<String>>);

/// A parsed model and its bytes.
#[pyclass(frozen, name = "Model", module = "polars_taiga._taiga")]
pub struct PyModel {
    model: Box<dyn FittedModel>,
    bytes: Vec<u8>,
}

/// A cell of a table of nodes as Python's value.
fn python_cell<'py>(py: Python<'py>, cell: Cell<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match cell {
        Cell::None => py.None().into_bound(py),
        Cell::Integer(x) => x.into_pyobject(py)?.into_any(),
        Cell::Number(x) => x.into_pyobject(py)?.into_any(),
        Cell::Flag(x) => x.into_pyobject(py)?.to_owned().into_any(),
        Cell::Numbers(x) => PyList::new(py, x)?.into_any(),
        Cell::Indices(x) => PyList::new(py, x)?.into_any(),
    })
}

impl PyModel {
    /// What the other learners' models do not have.
    fn has_no(&self, what: &str) -> PyErr {
        value_error(format!("{} has no {what}", self.model.facts().noun))
    }

    /// [`PyModel::has_no`] for what is told of trees: of a linear model coefficients tell it.
    fn has_no_trees(&self, what: &str) -> PyErr {
        let instead = if self.model.coefficients().is_some() { "; see coefficients()" } else { "" };
        self.has_no(&format!("{what}{instead}"))
    }

    /// Name and type of each column that it reads, those of lists first.
    fn all_columns(&self) -> impl Iterator<Item = (&str, String)> {
        let lists = self.model.lists().into_iter().flat_map(|lists| {
            let features = if lists.holds_text { "list of strings" } else { "list of integers" };
            let values = lists.values.map(|name| (name, "list of numbers".to_string()));
            std::iter::once((lists.features, features.to_string())).chain(values)
        });
        lists.chain(self.model.columns().into_iter().map(|c| (c.name, c.dtype.to_string())))
    }

    /// The coefficients of a linear model; of another an error that it has none of `what`.
    fn linear(&self, what: &str) -> PyResult<Coefficients<'_>> {
        self.model.coefficients().ok_or_else(|| self.has_no(what))
    }
}

#[pymethods]
impl PyModel {
    /// The model of these bytes.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        detached(py, || Ok(PyModel { model: read_model(bytes).map_err(python_error)?, bytes: bytes.to_vec() }))
    }

    /// The model of this JSON.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        detached(py, || {
            let model = read_model_json(text).map_err(python_error)?;
            Ok(PyModel { bytes: model.to_bytes(), model })
        })
    }

    /// The model of another library's file; `told`: what the file does not tell, as JSON.
    #[staticmethod]
    fn imported(py: Python<'_>, bytes: &[u8], told: &str) -> PyResult<Self> {
        detached(py, || {
            let told: Told = serde_json::from_str(told).map_err(value_error)?;
            memory::check("the model that is read", memory::sum(&[8 * bytes.len() as u64]), "read it elsewhere").map_err(python_error)?;
            let model: Box<dyn FittedModel> = match import(bytes, told).map_err(python_error)? {
                Imported::Boosted(model) => model,
                Imported::Forest(forest) => forest,
            };
            Ok(PyModel { bytes: model.to_bytes(), model })
        })
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        PyBytes::new_with(py, self.bytes.len(), |out| {
            py.detach(|| out.copy_from_slice(&self.bytes));
            Ok(())
        })
    }

    /// `gbdt`, `forest` or `sparse_lr`.
    fn learner(&self) -> &'static str {
        self.model.facts().learner
    }

    /// The names of the columns that share a prediction.
    fn explained_columns(&self) -> Vec<&str> {
        self.model.explained_columns()
    }

    /// Whether predictions are explained against given rows alone.
    fn needs_background(&self) -> bool {
        self.model.needs_background()
    }

    /// The whole model as JSON text.
    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        // The text alone, which is written item by item.
        check_memory(&*self.model, "the model as JSON", 160, 40)?;
        let out_of_bag = self.model.out_of_bag().flatten().map_or(0, |oob| oob.predictions.iter().map(Vec::len).sum());
        memory::check("the model as JSON", 20 * out_of_bag as u64, "use oob=False").map_err(python_error)?;
        detached(py, || self.model.json_text().map_err(python_error))
    }

    /// The parameters as JSON text.
    fn params(&self) -> PyResult<String> {
        guarded(|| serde_json::to_string(&self.model.params()).map_err(value_error))
    }

    /// The columns that a prediction reads, as `predict` passes it on; the names of those that must be there, and of one that may be.
    fn wanted(&self, py: Python<'_>) -> (String, Vec<String>, Option<String>) {
        py.detach(|| {
            let wanted = Wanted::of_model(&*self.model);
            let (names, optional) = wanted.names();
            (wanted.to_json(), names, optional)
        })
    }

    /// Pairs of a column's name and type.
    fn features(&self) -> PyResult<Vec<(String, String)>> {
        guarded(|| Ok(self.all_columns().map(|(name, dtype)| (name.into(), dtype)).collect()))
    }

    /// The borders of every feature.
    fn borders<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let borders = self.model.borders().ok_or_else(|| self.has_no("borders"))?;
        list(py, borders.into_iter().map(|b| list(py, b)).collect::<PyResult<Vec<_>>>()?)
    }

    /// What the model knows of a column's categories: their kind (`text`, `integers`, `Booleans`, `text, integers or Booleans`), and they themselves in the order
    /// of their codes, `None` for null. `None` for a column that is no categories, or that no split asks about.
    fn categories<'py>(&self, py: Python<'py>, column: &str) -> PyResult<Option<(&'static str, Bound<'py, PyList>)>> {
        let columns = self.model.columns();
        let known = columns.iter().find(|c| c.name == column).and_then(|c| c.categories);
        known.map(|known| Ok((known.kind(), python_categories(py, known)?))).transpose()
    }

    /// The labels in the order of the classes; `None` for a regression.
    fn classes<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        guarded(|| self.model.facts().labels.map(|own| labels::python(py, own, &own.label_type(self.model.facts().provenance))).transpose())
    }

    /// The labels as the fields of a struct of probabilities are named.
    fn class_names(&self) -> PyResult<Option<Vec<String>>> {
        guarded(|| Ok(self.model.facts().labels.map(Labels::names)))
    }

    /// The names of the numbers of a prediction, or of its raw scores, where there are several; else `None`.
    fn fields(&self, raw: bool) -> Option<Vec<String>> {
        self.model.fields(raw)
    }

    /// The labels' type in the column that they come from, as JSON: what the plan of `predict` is made with.
    fn label_type(&self) -> PyResult<Option<String>> {
        let own = self.model.facts().labels.map(|labels| labels.label_type(self.model.facts().provenance));
        own.map(|dtype| serde_json::to_string(&dtype).map_err(value_error)).transpose()
    }

    /// The names of the columns that were not columns under these names when the model was fitted.
    fn computed_features(&self) -> Vec<String> {
        let computed = self.model.facts().provenance.computed_names(self.all_columns().map(|(name, _)| name));
        computed.into_iter().map(String::from).collect()
    }

    /// The columns of structs that some of these were fields of, by name with the fields' names.
    fn structs(&self) -> Vec<(String, Vec<String>)> {
        let names: Vec<&str> = self.all_columns().map(|(name, _)| name).collect();
        let structs = &self.model.facts().provenance.structs;
        structs.iter().map(|of| (of.name.clone(), of.columns.iter().map(|c| names[*c as usize].to_string()).collect())).collect()
    }

    /// The name of the loss (never `auto`); of a forest, its criterion's.
    fn loss(&self) -> String {
        self.model.loss()
    }

    fn target(&self) -> &str {
        self.model.facts().target
    }

    /// The number of values that it predicts for a row.
    fn outputs(&self) -> usize {
        self.model.facts().outputs
    }

    /// Rounds of boosting, trees of a forest, or passes over the rows.
    fn rounds(&self) -> usize {
        self.model.facts().rounds
    }

    /// What the user says of the model, as JSON text.
    fn metadata(&self) -> Option<String> {
        self.model.facts().provenance.metadata.as_ref().map(|m| m.text().to_string())
    }

    /// Of which rows it was fitted, as hexadecimal digits; none where these had no keys.
    fn receipt(&self) -> Option<String> {
        self.model.facts().provenance.receipt.map(|receipt| receipt.to_string())
    }

    /// The bytes of the same model with other metadata, a JSON object's text.
    fn with_metadata<'py>(&self, py: Python<'py>, metadata: Option<&str>) -> PyResult<Bound<'py, PyBytes>> {
        let metadata = metadata.map(Metadata::new).transpose().map_err(python_error)?;
        let bytes = detached(py, || Ok(self.model.with_metadata(metadata).to_bytes()))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The number of trees; 0 of a linear model.
    fn trees(&self) -> usize {
        self.model.facts().trees
    }

    /// The bytes of the model of its first rounds.
    fn head<'py>(&self, py: Python<'py>, rounds: usize) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = detached(py, || Ok(self.model.head(rounds).map_err(python_error)?.to_bytes()))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The number of training rows.
    fn rows(&self) -> u64 {
        self.model.facts().rows
    }

    /// One number a feature; `kind` is `gain` (of a forest `impurity`), `split`, `cover` or `permutation`.
    fn importance(&self, py: Python<'_>, kind: &str) -> PyResult<Vec<f64>> {
        match detached(py, || self.model.importance(kind).transpose().map_err(python_error))? {
            Some(importance) => Ok(importance),
            None => Err(self.has_no_trees("importance")),
        }
    }

    /// One entry a node in every column, with features and categories as indices; the names of features; those of categories, `None`
    /// for null.
    fn nodes<'py>(&self, py: Python<'py>) -> PyResult<Nodes<'py>> {
        // A row of the table, 15 places in lists, and objects for four floats or more; those of a leaf's classes.
        check_memory(&*self.model, "the table of the model's nodes", 320, 40)?;
        let Some(table) = detached(py, || Ok(self.model.node_table()))? else { return Err(self.has_no_trees("trees")) };
        let (out, rows) = (PyDict::new(py), &table.rows);
        for (column, name) in rows.columns().into_iter().enumerate() {
            let cells = (0..rows.rows()).map(|row| python_cell(py, rows.cell(column, row)));
            out.set_item(name, try_list(py, cells)?)?;
        }
        Ok((out, table.features, table.categories))
    }

    /// Of each curve, that which decides first, the set's name, the metric's, and the values by round; and the best round. `None` where
    /// nothing was measured.
    fn history(&self) -> Option<(Vec<Curve>, u32)> {
        let history = self.model.facts().history?;
        let curves = history.curves().map(|(set, metric, values)| (set.map(String::from), metric.to_string(), values.to_vec()));
        Some((curves.collect(), history.best))
    }

    /// Of a forest the out-of-bag score, log loss, and predictions `[output][row]`, where it has them.
    fn out_of_bag<'py>(&self, py: Python<'py>) -> PyResult<Option<OutOfBag<'py>>> {
        let Some(oob) = self.model.out_of_bag().ok_or_else(|| self.has_no("out-of-bag predictions"))? else { return Ok(None) };
        let numbers: usize = oob.predictions.iter().map(Vec::len).sum();
        // An object and its place in a list for each.
        memory::check("the predictions out of bag", 32 * numbers as u64, "use oob=False").map_err(python_error)?;
        let predictions = oob.predictions.iter().map(|p| list(py, p)).collect::<PyResult<Vec<_>>>()?;
        Ok(Some((oob.score, oob.log_loss, list(py, predictions)?)))
    }

    /// Of a linear model the feature numbers (or indices of dense columns, where `None`), class indices and values of the
    /// coefficients that are not zero; and the names of the dense columns.
    fn coefficients<'py>(&self, py: Python<'py>) -> PyResult<CoefficientLists<'py>> {
        let linear = self.linear("coefficients")?;
        check_memory(&*self.model, "the table of the model's coefficients", 0, 60)?;
        let found = {
            let list = linear.list;
            detached(py, move || Ok(list()))?
        };
        let number = |name: &FeatureName<'_>| if let FeatureName::Number(n) = name { Some(*n) } else { None };
        let column = |name: &FeatureName<'_>| if let FeatureName::Column { index, .. } = name { Some(*index) } else { None };
        Ok((
            list(py, found.iter().map(|c| number(&c.feature)))?,
            list(py, found.iter().map(|c| column(&c.feature)))?,
            list(py, found.iter().map(|c| c.class))?,
            list(py, found.iter().map(|c| c.value))?,
            linear.columns.iter().map(|name| name.to_string()).collect(),
        ))
    }

    /// Of a linear model the features that words are hashed to; `None` where its features are not strings.
    fn buckets(&self, py: Python<'_>, words: Vec<String>) -> PyResult<Option<Vec<u32>>> {
        let bits = self.linear("words")?.hash_bits;
        Ok(py.detach(|| bits.map(|bits| words.iter().map(|word| bucket(word, bits)).collect())))
    }

    /// Of a linear model one number an output.
    fn intercepts(&self) -> PyResult<Vec<f64>> {
        Ok(self.linear("intercept")?.intercepts.to_vec())
    }

    /// Of a linear model whether it converged, and the objective that it reached.
    fn convergence(&self) -> PyResult<(bool, f64)> {
        let linear = self.linear("convergence")?;
        Ok((linear.converged, linear.objective))
    }
}
