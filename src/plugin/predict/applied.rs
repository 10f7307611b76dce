//! A model of any learner, ready to be applied, and the columns that it wants.

use crate::columns::Feature;
use crate::errors;
use crate::lists::Lists;
use crate::literal::unlabelled;
use polars::prelude::*;
use std::borrow::Cow;
use std::sync::OnceLock;
use taiga_engine::column::{Column as EngineColumn, FeatureType, TimeUnit as EngineUnit};
use taiga_engine::dataset::labels::Labels;
use taiga_engine::learners::applied::{AppliedModel, ModelRows, Output, RowExplainer, Values};
use taiga_engine::learners::registry::apply_model;
use taiga_engine::model::fitted::FittedModel;
use taiga_engine::parallel::once::get_or_try;
use taiga_engine::provenance::LabelType;
use taiga_engine::shap::{Explanation, Terms};

/// A model on the device that applies it, and what explains its predictions, made when it is first asked for.
pub struct Applied {
    model: Box<dyn AppliedModel>,
    explainer: OnceLock<Box<dyn RowExplainer>>,
}

/// What a model reads, of some rows.
pub struct Inputs {
    features: Vec<Feature>,
    /// Lists of features and of their values.
    lists: Option<(Series, Option<Series>)>,
}

impl Inputs {
    /// Rows `start .. start + len`; numbers are not copied.
    pub fn slice(&self, start: usize, len: usize) -> Self {
        let part = |s: &Series| s.slice(start as i64, len);
        Inputs {
            features: self.features.iter().map(|f| f.slice(start, len)).collect(),
            lists: self.lists.as_ref().map(|(features, values)| (part(features), values.as_ref().map(part))),
        }
    }

    /// Rows `start .. start + order.len()`, but for one of [`Applied::explained_columns`], which has the values of the rows `order`.
    ///
    /// # Errors
    /// For a row that is not there.
    pub fn with_column_of(&self, column: usize, start: usize, order: &[u32]) -> PolarsResult<Self> {
        let mut inputs = self.slice(start, order.len());
        let rows: Vec<usize> = order.iter().map(|r| *r as usize).collect();
        match (column.checked_sub(self.lists.is_some() as usize), &self.lists) {
            (None, Some((features, values))) => {
                let taken = IdxCa::from_vec("".into(), order.iter().map(|r| *r as IdxSize).collect());
                inputs.lists = Some((features.take(&taken)?, values.as_ref().map(|v| v.take(&taken)).transpose()?));
            }
            (dense, _) => {
                let dense = dense.filter(|i| *i < self.features.len()).ok_or_else(|| errors::data(format!("no column {column}")))?;
                inputs.features[dense] = self.features[dense].gather(&rows);
            }
        }
        Ok(inputs)
    }

    /// The given rows.
    ///
    /// # Errors
    /// For a row that is not there.
    pub fn gather(&self, rows: &[usize]) -> PolarsResult<Self> {
        let taken = IdxCa::from_vec("".into(), rows.iter().map(|r| *r as IdxSize).collect());
        let part = |s: &Series| s.take(&taken);
        let lists = match &self.lists {
            Some((features, values)) => Some((part(features)?, values.as_ref().map(part).transpose()?)),
            None => None,
        };
        Ok(Inputs { features: self.features.iter().map(|f| f.gather(rows)).collect(), lists })
    }

    fn columns(&self) -> Vec<EngineColumn<'_>> {
        self.features.iter().map(Feature::column).collect()
    }
}

impl Applied {
    /// The model of a literal's bytes, or its first rounds of so many, on a device.
    ///
    /// # Errors
    /// For anything but a model that this build can read, rounds that it does not have, and where the device can't apply it.
    pub fn new(bytes: &[u8], device: &str, rounds: Option<usize>) -> PolarsResult<Self> {
        let model = apply_model(unlabelled(bytes), device, rounds).map_err(errors::compute)?;
        Ok(Applied { model, explainer: OnceLock::new() })
    }

    /// Has predictions explained against these rows instead of the training rows.
    ///
    /// # Errors
    /// For rows that do not fit the model or are none.
    pub fn set_background(&self, rows: &Inputs) -> PolarsResult<()> {
        let explainer = self.apply(rows, |model, rows| model.explainer(Some(rows)))?;
        // Whoever makes a model sets its background, before anybody asks.
        let _ = self.explainer.set(explainer);
        Ok(())
    }

    /// The base value of each output, and each column's part in the rows' predictions.
    ///
    /// # Errors
    /// For inputs that do not fit the model, and where it can't be explained without a background.
    pub fn explain(&self, inputs: &Inputs, terms: Terms) -> PolarsResult<(Vec<f64>, Explanation)> {
        let explainer = get_or_try(&self.explainer, || self.model.explainer(None)).map_err(errors::compute)?;
        Ok((explainer.base().to_vec(), self.apply(inputs, |_, rows| explainer.explain(rows, terms))?))
    }

    /// The mean over the training rows of the raw score of rows of which only these columns are known, `[output][row]`.
    ///
    /// # Errors
    /// For a column that the model does not read, and as [`AppliedModel::known_scores`].
    pub fn known_scores(&self, inputs: &Inputs, names: &[String]) -> PolarsResult<Vec<Vec<f64>>> {
        let columns = self.fitted().explained_columns();
        let index = |name: &String| {
            columns.iter().position(|c| c == name).ok_or_else(|| errors::missing(format!("the model does not read `{name}`")))
        };
        let known = names.iter().map(|name| Ok(index(name)? as u32)).collect::<PolarsResult<Vec<_>>>()?;
        self.apply(inputs, |model, rows| model.known_scores(rows, &known))
    }

    /// The names of the columns that share a prediction.
    pub fn explained_columns(&self) -> Vec<String> {
        self.fitted().explained_columns().into_iter().map(String::from).collect()
    }

    /// The model by itself.
    pub fn fitted(&self) -> &dyn FittedModel {
        self.model.model()
    }

    /// Whether rows go to another device, which wants many at a time.
    pub fn is_remote(&self) -> bool {
        self.model.is_remote()
    }

    /// How many numbers are predicted of a row.
    pub fn numbers_a_row(&self) -> usize {
        self.model.numbers_a_row()
    }

    /// The target's name.
    pub fn target(&self) -> &str {
        self.fitted().facts().target
    }

    /// A classifier's labels.
    pub fn labels(&self) -> Option<&Labels> {
        self.fitted().facts().labels
    }

    /// The type of a classifier's labels in the column that they come from.
    pub fn label_type(&self) -> Option<LabelType> {
        self.labels().map(|labels| labels.label_type(self.fitted().facts().provenance))
    }

    /// The names of the fields of a prediction, or of raw scores, where there are several: the labels of classes.
    pub fn fields(&self, raw: bool) -> Option<Vec<String>> {
        self.fitted().fields(raw)
    }

    /// What the model reads of the columns that `find` finds by name, which are known to be there and of the right types
    /// ([`Wanted::check`](super::wanted::Wanted::check)). What the model does not name is not looked at.
    ///
    /// # Errors
    /// Polars' own.
    pub fn inputs<'s>(&self, find: impl Fn(&str) -> Option<&'s Series>) -> PolarsResult<Inputs> {
        let columns = self.fitted().columns().into_iter().enumerate();
        let features =
            columns.filter_map(|(i, c)| Some(Feature::of_model(&of_type(find(c.name)?, c.dtype), c.dtype, self.model.lookup(i))));
        let lists = self.fitted().lists().and_then(|lists| {
            let features = find(lists.features)?.clone();
            // Values inside structs come with their features.
            let values = lists.values.and_then(&find).filter(|_| !holds_structs(&features));
            Some((features, values.cloned()))
        });
        Ok(Inputs { features: features.collect::<PolarsResult<_>>()?, lists })
    }

    /// The values of several outputs, in one walk of the rows through the model.
    ///
    /// # Errors
    /// For inputs that do not fit the model, an output that it does not have, and the device's own errors.
    pub fn outputs(&self, inputs: &Inputs, wanted: &[Output]) -> PolarsResult<Vec<Values>> {
        self.apply(inputs, |model, rows| model.outputs(rows, wanted))
    }

    /// What `verb` makes of the inputs.
    fn apply<T>(
        &self,
        inputs: &Inputs,
        verb: impl FnOnce(&dyn AppliedModel, &ModelRows<'_, '_>) -> taiga_engine::Result<T>,
    ) -> PolarsResult<T> {
        let columns = inputs.columns();
        let lists = inputs.lists.as_ref().map(|(features, values)| Lists::new(features, values.as_ref())).transpose()?;
        let sparse = lists.as_ref().map(Lists::rows);
        verb(&*self.model, &ModelRows { columns: &columns, sparse: sparse.as_ref() }).map_err(errors::compute)
    }
}

/// A column as a feature of this type: one that is all null, and of no type, becomes one of the temporal type that it stands for.
fn of_type<'s>(series: &'s Series, dtype: &FeatureType) -> Cow<'s, Series> {
    let unit = |unit: &EngineUnit| match unit {
        EngineUnit::Milliseconds => TimeUnit::Milliseconds,
        EngineUnit::Microseconds => TimeUnit::Microseconds,
        EngineUnit::Nanoseconds => TimeUnit::Nanoseconds,
    };
    let dtype = match dtype {
        _ if *series.dtype() != DataType::Null => return Cow::Borrowed(series),
        FeatureType::Date => DataType::Date,
        FeatureType::Time => DataType::Time,
        FeatureType::Datetime(own) => DataType::Datetime(unit(own), None),
        FeatureType::Duration(own) => DataType::Duration(unit(own)),
        _ => return Cow::Borrowed(series),
    };
    Cow::Owned(Series::full_null(series.name().clone(), series.len(), &dtype))
}

/// Whether a column is of lists of structs.
fn holds_structs(series: &Series) -> bool {
    matches!(series.dtype(), DataType::List(inner) | DataType::Array(inner, _) if matches!(**inner, DataType::Struct(_)))
}
