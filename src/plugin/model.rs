//! A model for Python: what `polars_taiga.Model` is built on.

use crate::errors::panic_text;
use crate::fitted::Fitted;
use crate::labels;
use crate::predict::wanted::Wanted;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::panic::{AssertUnwindSafe, catch_unwind};
use taiga_engine::Error;
use taiga_engine::boosting::BoostingParams;
use taiga_engine::forest::ForestParams;
use taiga_engine::forest::explain::Importance as ForestImportance;
use taiga_engine::linear::LinearParams;
use taiga_engine::linear::model::FeatureName;
use taiga_engine::model::Labels;
use taiga_engine::model::explain::Importance;

/// An engine error as Python's: `TypeError` for a parameter that does not exist, as for any
/// Python function, else `ValueError`.
pub fn python_error(error: Error) -> PyErr {
    match error {
        error if error.each().iter().any(|e| matches!(e, Error::UnknownParameter { .. })) => PyTypeError::new_err(error.to_string()),
        error => PyValueError::new_err(error.to_string()),
    }
}

pub fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A panic as a `ValueError`; there should be none.
pub fn guarded<T>(body: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|p| Err(value_error(format!("a bug in polars-taiga, please report it: {}", panic_text(p.as_ref())))))
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
fn list<'py, T: IntoPyObject<'py>>(py: Python<'py>, values: impl IntoIterator<Item = T>) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for (i, value) in values.into_iter().enumerate() {
        if i % PIECE == PIECE - 1 {
            py.detach(|| ());
            py.check_signals()?;
        }
        list.append(value)?;
    }
    Ok(list)
}

/// What is wrong with parameters: whether it is a name that there is not, and the text.
pub type Problems = Vec<(bool, String)>;

/// What is wrong with parameters, given as a JSON object.
pub fn problems<P>(json: &str, parse: impl FnOnce(&serde_json::Value) -> taiga_engine::Result<P>) -> PyResult<Problems> {
    let unknown = |error: &Error| matches!(error, Error::UnknownParameter { .. });
    guarded(|| match parse(&serde_json::from_str(json).map_err(value_error)?) {
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

/// Score, log loss, predictions `[output][row]`.
type OutOfBag<'py> = (f64, Option<f64>, Bound<'py, PyList>);

/// Feature numbers, or names where there is none; class indices; values.
type Coefficients<'py> = (Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyList>);

/// A parsed model and its bytes.
#[pyclass(frozen, name = "Model", module = "polars_taiga._taiga")]
pub struct PyModel {
    model: Fitted,
    bytes: Vec<u8>,
}

impl PyModel {
    /// What the other learners' models do not have.
    fn has_no(&self, what: &str) -> PyErr {
        let learner = match &self.model {
            Fitted::Boosted(_) => "a model of boosted trees",
            Fitted::Forest(_) => "a forest",
            Fitted::Linear(_) => "a linear model",
        };
        value_error(format!("{learner} has no {what}"))
    }

    /// One entry a node in every column.
    fn node_columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let out = PyDict::new(py);
        macro_rules! columns {
            ($rows:ident; $($name:literal, $row:ident => $value:expr;)*) => {
                $(out.set_item($name, list(py, $rows.iter().map(|$row| $value))?)?;)*
            };
        }
        match &self.model {
            Fitted::Boosted(m) => {
                let rows = detached(py, || Ok(m.node_table()))?;
                columns! { rows;
                    "tree", r => r.tree;
                    "round", r => r.round;
                    "output", r => r.output;
                    "node", r => r.node;
                    "depth", r => r.depth;
                    "left", r => r.left;
                    "right", r => r.right;
                    "feature", r => r.feature.map(|i| m.feature_name(i));
                    "border", r => r.border;
                    "missing_left", r => r.missing_left;
                    "gain", r => r.gain;
                    "value", r => r.value;
                    "leaf", r => r.leaf;
                    "weight", r => r.weight;
                    "count", r => r.count;
                }
            }
            Fitted::Forest(m) => {
                let rows = detached(py, || Ok(m.node_table()))?;
                let label = |feature: Option<u32>, code: u32| {
                    let known = feature.and_then(|f| m.features[f as usize].categories.as_ref());
                    known.filter(|k| k.null != Some(code)).map(|k| k.name(code))
                };
                columns! { rows;
                    "tree", r => r.tree;
                    "node", r => r.node;
                    "depth", r => r.depth;
                    "left", r => r.left;
                    "right", r => r.right;
                    "feature", r => r.feature.map(|i| m.features[i as usize].name.as_str());
                    "border", r => r.border;
                    "right_categories", r => r.categories.as_ref().map(|c| c.iter().map(|c| label(r.feature, *c)).collect::<Vec<_>>());
                    "missing_left", r => r.missing_left;
                    "gain", r => r.gain;
                    "value", r => (!r.value.is_empty()).then_some(&r.value);
                    "leaf", r => r.leaf;
                    "weight", r => r.weight;
                    "count", r => r.count;
                }
            }
            Fitted::Linear(_) => return Err(self.has_no("trees; see coefficients()")),
        }
        Ok(out)
    }
}

#[pymethods]
impl PyModel {
    /// The model of these bytes.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        detached(py, || Ok(PyModel { model: Fitted::from_bytes(bytes).map_err(python_error)?, bytes: bytes.to_vec() }))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        PyBytes::new_with(py, self.bytes.len(), |out| {
            py.detach(|| out.copy_from_slice(&self.bytes));
            Ok(())
        })
    }

    /// `gbdt`, `forest` or `sparse_lr`.
    fn learner(&self) -> &'static str {
        self.model.learner()
    }

    /// The whole model as JSON text.
    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        detached(py, || serde_json::to_string(&self.model.to_json()).map_err(value_error))
    }

    /// The parameters as JSON text.
    fn params(&self) -> PyResult<String> {
        guarded(|| serde_json::to_string(&self.model.params()).map_err(value_error))
    }

    /// The columns that a prediction reads, as `predict` passes it on; the names of those that must be there, and of one that may be.
    fn wanted(&self, py: Python<'_>) -> (String, Vec<String>, Option<String>) {
        py.detach(|| {
            let wanted = Wanted::of_model(&self.model);
            let (names, optional) = wanted.names();
            (wanted.to_json(), names, optional)
        })
    }

    /// Pairs of a column's name and type.
    fn features(&self) -> PyResult<Vec<(String, String)>> {
        guarded(|| Ok(self.model.columns()))
    }

    /// The borders of every feature.
    fn borders<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let features = match &self.model {
            Fitted::Boosted(m) => &m.features,
            Fitted::Forest(m) => &m.features,
            Fitted::Linear(_) => return Err(self.has_no("borders")),
        };
        list(py, features.iter().map(|f| list(py, &f.borders)).collect::<PyResult<Vec<_>>>()?)
    }

    /// The labels in the order of the classes; `None` for a regression.
    fn classes<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        guarded(|| self.model.labels().map(|own| labels::python(py, own, &own.label_type(self.model.provenance()))).transpose())
    }

    /// The labels as the fields of a struct of probabilities are named.
    fn class_names(&self) -> PyResult<Option<Vec<String>>> {
        guarded(|| Ok(self.model.labels().map(Labels::names)))
    }

    /// The labels' type in the column that they come from, as JSON: what the plan of `predict` is made with.
    fn label_type(&self) -> PyResult<Option<String>> {
        let own = self.model.labels().map(|labels| labels.label_type(self.model.provenance()));
        own.map(|dtype| serde_json::to_string(&dtype).map_err(value_error)).transpose()
    }

    /// The names of the columns that were not columns under these names when the model was fitted.
    fn computed_features(&self) -> Vec<String> {
        let columns = self.model.columns();
        let computed = self.model.provenance().computed_names(columns.iter().map(|(name, _)| name.as_str()));
        computed.into_iter().map(String::from).collect()
    }

    /// The name of the loss (never `auto`); of a forest, its criterion's.
    fn loss(&self) -> String {
        let name = match &self.model {
            Fitted::Boosted(m) => serde_json::to_value(m.loss),
            Fitted::Forest(m) => serde_json::to_value(m.criterion),
            Fitted::Linear(m) => Ok(if m.outputs() == 1 { "logloss" } else { "multiclass" }.into()),
        };
        name.ok().and_then(|v| v.as_str().map(String::from)).unwrap_or_default()
    }

    fn target(&self) -> &str {
        self.model.target()
    }

    /// The number of values that it predicts for a row.
    fn outputs(&self) -> usize {
        self.model.outputs()
    }

    /// Rounds of boosting, trees of a forest, or passes over the rows.
    fn rounds(&self) -> usize {
        match &self.model {
            Fitted::Boosted(m) => m.rounds(),
            Fitted::Forest(m) => m.trees.len(),
            Fitted::Linear(m) => m.passes as usize,
        }
    }

    /// The number of training rows.
    fn rows(&self) -> u64 {
        self.model.rows()
    }

    /// One number a feature; `kind` is `gain` (of a forest `impurity`), `split`, `cover` or `permutation`.
    fn importance(&self, py: Python<'_>, kind: &str) -> PyResult<Vec<f64>> {
        match &self.model {
            Fitted::Boosted(m) => {
                let kind = match kind {
                    "gain" => Importance::Gain,
                    "split" => Importance::Split,
                    "cover" => Importance::Cover,
                    other => return Err(value_error(format!("kind={other:?} is not \"gain\", \"split\" or \"cover\""))),
                };
                detached(py, || Ok(m.importance(kind)))
            }
            Fitted::Forest(m) => {
                let kind = match kind {
                    "gain" | "impurity" => ForestImportance::Impurity,
                    "split" => ForestImportance::Split,
                    "cover" => ForestImportance::Cover,
                    "permutation" => ForestImportance::Permutation,
                    other => {
                        return Err(value_error(format!(
                            "kind={other:?} is not \"impurity\" (or \"gain\"), \"split\", \"cover\" or \"permutation\""
                        )));
                    }
                };
                detached(py, || m.importance(kind).map_err(python_error))
            }
            Fitted::Linear(_) => Err(self.has_no("importance; see coefficients()")),
        }
    }

    /// One entry a node in every column.
    fn nodes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.node_columns(py)
    }

    /// The metric's name, its values by round, and the best round; `None` without held-out rows.
    fn history(&self) -> Option<(&'static str, Vec<f64>, u32)> {
        let history = match &self.model {
            Fitted::Boosted(m) => m.history.as_ref(),
            Fitted::Forest(_) => None,
            Fitted::Linear(m) => m.history.as_ref(),
        };
        history.map(|h| (h.metric.name(), h.values.clone(), h.best))
    }

    /// Of a forest the out-of-bag score, log loss, and predictions `[output][row]`, where it has them.
    fn out_of_bag<'py>(&self, py: Python<'py>) -> PyResult<Option<OutOfBag<'py>>> {
        let Fitted::Forest(m) = &self.model else { return Err(self.has_no("out-of-bag predictions")) };
        let Some(oob) = &m.oob else { return Ok(None) };
        let predictions = oob.predictions.iter().map(|p| list(py, p)).collect::<PyResult<Vec<_>>>()?;
        Ok(Some((oob.score, oob.log_loss, list(py, predictions)?)))
    }

    /// Of a linear model the feature numbers (or names, where `None`), class indices and values of the
    /// coefficients that are not zero.
    fn coefficients<'py>(&self, py: Python<'py>) -> PyResult<Coefficients<'py>> {
        let Fitted::Linear(m) = &self.model else { return Err(self.has_no("coefficients")) };
        let found = detached(py, || Ok(m.coefficients().collect::<Vec<_>>()))?;
        let number = |name: &FeatureName<'_>| if let FeatureName::Number(n) = name { Some(*n) } else { None };
        let column = |name: &FeatureName<'_>| if let FeatureName::Column(name) = name { Some(name.to_string()) } else { None };
        Ok((
            list(py, found.iter().map(|c| number(&c.feature)))?,
            list(py, found.iter().map(|c| column(&c.feature)))?,
            list(py, found.iter().map(|c| c.class))?,
            list(py, found.iter().map(|c| c.value))?,
        ))
    }

    /// Of a linear model one number an output.
    fn intercepts(&self) -> PyResult<Vec<f64>> {
        let Fitted::Linear(m) = &self.model else { return Err(self.has_no("intercept")) };
        Ok(m.intercepts.clone())
    }

    /// Of a linear model whether it converged, and the objective that it reached.
    fn convergence(&self) -> PyResult<(bool, f64)> {
        let Fitted::Linear(m) = &self.model else { return Err(self.has_no("convergence")) };
        Ok((m.converged, m.objective))
    }
}
