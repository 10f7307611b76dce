//! A model of any learner, ready to be applied, and the columns that it wants.

use crate::columns::Feature;
use crate::errors;
use crate::lists::Lists;
use crate::literal::unlabelled;
use polars::prelude::*;
use taiga_engine::column::Column as EngineColumn;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::learners::applied::{AppliedModel, ModelRows, Output, Values};
use taiga_engine::learners::registry::apply_model;
use taiga_engine::model::fitted::FittedModel;
use taiga_engine::provenance::LabelType;

/// A model on the device that applies it.
pub struct Applied(Box<dyn AppliedModel>);

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

    /// The given rows, ascending.
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
        apply_model(unlabelled(bytes), device, rounds).map(Applied).map_err(errors::compute)
    }

    /// The model by itself.
    pub fn fitted(&self) -> &dyn FittedModel {
        self.0.model()
    }

    /// Whether rows go to another device, which wants many at a time.
    pub fn is_remote(&self) -> bool {
        self.0.is_remote()
    }

    /// How many numbers are predicted of a row.
    pub fn numbers_a_row(&self) -> usize {
        self.0.numbers_a_row()
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

    /// The labels that name the fields of a prediction, where it has one for each class.
    pub fn fields(&self) -> Option<Vec<String>> {
        self.labels().filter(|_| self.fitted().facts().outputs > 1).map(Labels::names)
    }

    /// What the model reads of the columns that `find` finds by name, which are known to be there and of the right types
    /// ([`Wanted::check`](super::wanted::Wanted::check)). What the model does not name is not looked at.
    ///
    /// # Errors
    /// Polars' own.
    pub fn inputs<'s>(&self, find: impl Fn(&str) -> Option<&'s Series>) -> PolarsResult<Inputs> {
        let columns = self.fitted().columns().into_iter().enumerate();
        let features = columns.filter_map(|(i, c)| Some(Feature::of_model(find(c.name)?, c.dtype, self.0.lookup(i))));
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
        let columns = inputs.columns();
        let lists = inputs.lists.as_ref().map(|(features, values)| Lists::new(features, values.as_ref())).transpose()?;
        let sparse = lists.as_ref().map(Lists::rows);
        self.0.outputs(&ModelRows { columns: &columns, sparse: sparse.as_ref() }, wanted).map_err(errors::compute)
    }
}

/// Whether a column is of lists of structs.
fn holds_structs(series: &Series) -> bool {
    matches!(series.dtype(), DataType::List(inner) | DataType::Array(inner, _) if matches!(**inner, DataType::Struct(_)))
}
