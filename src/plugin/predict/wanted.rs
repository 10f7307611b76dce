//! What a model or an encoder reads, by name and type: what a plan is held against before there are rows, and each call's columns
//! when there are.

use crate::categories::{is_category, is_of_kind};
use crate::columns::{check_number, number_type};
use crate::schema::is_known;
use crate::several;
use crate::target::check_label_type;
use crate::{errors, labels, lists};
use polars::prelude::*;
use serde::{Deserialize, Serialize};
use std::cell::LazyCell;
use std::collections::HashSet;
use taiga_engine::column::FeatureType;
use taiga_engine::error::nearest;
use taiga_engine::losses::LossKind;
use taiga_engine::model::fitted::{FittedModel, ModelColumn, ModelLists};
use taiga_engine::provenance::LabelType;

/// What a column must be.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
enum Kind {
    /// A number, or of a temporal type.
    Number(FeatureType),
    /// Categories; where the model asks about them, of this kind: `text`, `integers`, `Booleans` or `text, integers or Booleans`.
    Categories(Option<String>),
}

impl Kind {
    fn of(column: &ModelColumn<'_>) -> Kind {
        match column.dtype {
            FeatureType::Categorical => Kind::Categories(column.categories.map(|c| c.kind().to_string())),
            dtype => Kind::Number(dtype.clone()),
        }
    }

    fn fits(&self, dtype: &DataType) -> bool {
        match self {
            // A column that is all null has no values of a type.
            Kind::Number(wanted) => *dtype == DataType::Null || number_type(dtype).as_ref() == Some(wanted),
            Kind::Categories(Some(kind)) => is_of_kind(dtype, kind),
            Kind::Categories(None) => is_category(dtype),
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Kind::Number(dtype) => write!(f, "{dtype}"),
            Kind::Categories(Some(kind)) => write!(f, "categorical {kind}"),
            Kind::Categories(None) => write!(f, "categorical"),
        }
    }
}

/// The columns of sparse rows.
#[derive(Serialize, Deserialize)]
struct SparseRows {
    column: String,
    values: Option<String>,
    text: bool,
}

impl SparseRows {
    fn of(lists: ModelLists<'_>) -> Self {
        SparseRows { column: lists.features.into(), values: lists.values.map(String::from), text: lists.holds_text }
    }

    /// Checks the columns' types; whether values are missing is told by `false`.
    fn check(&self, features: &DataType, values: Option<&DataType>) -> PolarsResult<bool> {
        let field = |name: &str, dtype: &DataType| Field::new(name.into(), dtype.clone());
        let own = field(&self.column, features);
        // Values inside structs come with their features.
        let in_structs = matches!(features, DataType::List(item) | DataType::Array(item, _) if matches!(**item, DataType::Struct(_)));
        let values = self.values.as_ref().zip(values).filter(|_| !in_structs).map(|(name, dtype)| field(name, dtype));
        let items = lists::check(&own, values.as_ref())?;
        if items.holds_text() != self.text && *features != DataType::Null {
            let (held, fitted) = if self.text { ("numbers", "strings") } else { ("strings", "numbers") };
            return Err(errors::mistyped(
                &self.column,
                format!("its type is {features}, lists of {held}; the model was fitted on {fitted}"),
            ));
        }
        if self.values.is_none() && items.has_values() {
            return Err(errors::mistyped(&self.column, format!("its type is {features}; the model was fitted without values")));
        }
        Ok(self.values.is_none() || items.has_values())
    }
}

/// What the target is that a model's predictions are measured against.
#[derive(Serialize, Deserialize)]
pub enum WantedTarget {
    Numbers,
    /// Labels, by the types that they are kept as and that they had in the fitted column.
    Labels {
        kept: LabelType,
        dtype: LabelType,
    },
    /// Several targets, so many; or labels, any of which a row may have.
    Several {
        count: usize,
        labels: bool,
    },
}

impl WantedTarget {
    fn of_model(model: &dyn FittedModel) -> Self {
        let facts = model.facts();
        if let Some(names) = model.fields(false).filter(|_| model.scoring().params.targets > 0) {
            return WantedTarget::Several { count: names.len(), labels: model.loss() == LossKind::Multilabel.name() };
        }
        match facts.labels {
            None => WantedTarget::Numbers,
            Some(labels) => WantedTarget::Labels { kept: labels.kept_as(), dtype: labels.label_type(facts.provenance) },
        }
    }

    /// Checks the type of a column that predictions are measured against.
    ///
    /// # Errors
    /// For one that is none of such targets, naming the column and its type.
    pub fn check(&self, name: &str, dtype: &DataType) -> PolarsResult<()> {
        match self {
            WantedTarget::Numbers => check_number(name, dtype, "a target"),
            WantedTarget::Labels { kept, dtype: own } => check_label_type(name, dtype, &labels::data_type(kept)?, own),
            WantedTarget::Several { count, .. } => match several::loss_of(name, dtype, self.loss())? {
                Some(_) => Ok(()),
                None => {
                    let targets = errors::count(*count, "target", "targets");
                    Err(errors::mistyped(name, format!("its type is {dtype}; the model has {targets}, in a struct or in lists")))
                }
            },
        }
    }

    /// The loss that several targets are read by.
    pub fn loss(&self) -> LossKind {
        match self {
            WantedTarget::Several { labels: true, .. } => LossKind::Multilabel,
            _ => LossKind::Rmse,
        }
    }
}

/// The columns that a model or an encoder reads.
#[derive(Serialize, Deserialize)]
pub struct Wanted {
    /// By kind, so that thousands of columns are little more than their names.
    columns: Vec<(Kind, Vec<String>)>,
    sparse: Option<SparseRows>,
    /// None of an encoder.
    target: Option<WantedTarget>,
}

/// So many faults are told at once.
const TOLD: usize = 20;

fn listed(faults: &[String], separator: &str) -> String {
    let mut text = faults.iter().take(TOLD).map(String::as_str).collect::<Vec<_>>().join(separator);
    if faults.len() > TOLD {
        text.push_str(&format!("{separator}and {} more", faults.len() - TOLD));
    }
    text
}

impl Wanted {
    fn new(columns: impl Iterator<Item = (Kind, String)>, lists: Option<ModelLists<'_>>) -> Self {
        let mut by_kind: Vec<(Kind, Vec<String>)> = vec![];
        for (kind, name) in columns {
            match by_kind.iter_mut().find(|(k, _)| *k == kind) {
                Some((_, names)) => names.push(name),
                None => by_kind.push((kind, vec![name])),
            }
        }
        Wanted { columns: by_kind, sparse: lists.map(SparseRows::of), target: None }
    }

    /// What a model reads.
    pub fn of_model(model: &dyn FittedModel) -> Self {
        let own = Wanted::new(model.columns().iter().map(|c| (Kind::of(c), c.name.into())), model.lists());
        Wanted { target: Some(WantedTarget::of_model(model)), ..own }
    }

    /// What the model is measured against.
    pub fn target(&self) -> Option<&WantedTarget> {
        self.target.as_ref()
    }

    /// What an encoder reads: pairs of a column's name and the kind of its categories.
    pub fn of_categories<'a>(columns: impl Iterator<Item = (&'a str, &'static str)>) -> Self {
        Wanted::new(columns.map(|(name, kind)| (Kind::Categories(Some(kind.into())), name.into())), None)
    }

    /// As Python keeps it for a plan.
    ///
    /// # Errors
    /// For what is not that.
    pub fn from_json(json: &[u8]) -> PolarsResult<Self> {
        serde_json::from_slice(json).map_err(|e| errors::data(format!("wanted: {e}")))
    }

    /// The text for [`Wanted::from_json`].
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The names of the columns that must be there, and that of one that may be.
    pub fn names(&self) -> (Vec<String>, Option<String>) {
        let optional = self.sparse.as_ref().and_then(|s| s.values.clone());
        (self.required().map(String::from).collect(), optional)
    }

    fn required(&self) -> impl Iterator<Item = &str> {
        let dense = self.columns.iter().flat_map(|(_, names)| names);
        self.sparse.iter().map(|s| &s.column).chain(dense).map(String::as_str)
    }

    fn all_names(&self) -> impl Iterator<Item = &str> {
        self.required().chain(self.sparse.iter().filter_map(|s| s.values.as_deref()))
    }

    /// Checks the columns of a call: `find` gives their types by name, and `given` their names. A type that is not known
    /// yet is not looked at.
    ///
    /// # Errors
    /// Naming all columns that are missing, with the spare given name nearest to each, and all of another type.
    pub fn check<'a, I: Iterator<Item = &'a str>>(
        &self,
        find: impl Fn(&str) -> Option<&'a DataType>,
        given: impl Fn() -> I,
    ) -> PolarsResult<()> {
        let (mut missing, mut differing) = (vec![], vec![]);
        let wanted = LazyCell::new(|| self.all_names().collect::<HashSet<&str>>());
        let mut miss = |name: &str, kind: &dyn std::fmt::Display| {
            let spare = || given().filter(|given| !wanted.contains(given));
            let near = (missing.len() < TOLD).then(|| nearest(name, spare())).flatten();
            let hint = near.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
            missing.push(format!("`{name}` ({kind}{hint})"));
        };
        for (kind, name) in self.columns.iter().flat_map(|(kind, names)| names.iter().map(move |name| (kind, name))) {
            match find(name) {
                None => miss(name, kind),
                Some(dtype) if is_known(dtype) && !kind.fits(dtype) => {
                    differing.push(format!("column `{name}`: its type is {dtype}; the model was fitted on {kind}"));
                }
                Some(_) => {}
            }
        }
        if let Some(sparse) = &self.sparse {
            let values = sparse.values.as_ref().and_then(|name| find(name));
            match find(&sparse.column) {
                None => miss(&sparse.column, &format_args!("lists of {}", if sparse.text { "strings" } else { "integers" })),
                Some(dtype) if !is_known(dtype) || values.is_some_and(|v| !is_known(v)) => {}
                Some(dtype) => {
                    if let (false, Some(name)) = (sparse.check(dtype, values)?, &sparse.values) {
                        miss(name, &"lists of numbers");
                    }
                }
            }
        }
        let faults = |faults: &[String]| listed(faults, "; ");
        match (missing.is_empty(), differing.is_empty()) {
            (true, true) => Ok(()),
            (true, false) => Err(PolarsError::SchemaMismatch(faults(&differing).into())),
            (false, true) => Err(errors::missing(format!("the model needs columns that are missing: {}", listed(&missing, ", ")))),
            (false, false) => Err(errors::missing(format!(
                "the model needs columns that are missing: {}; {}",
                listed(&missing, ", "),
                faults(&differing)
            ))),
        }
    }

    /// The kind of categories that a column of an encoder has, none where the encoder does not know it.
    pub fn categories_of(&self, name: &str) -> Option<&str> {
        self.columns.iter().find(|(_, names)| names.iter().any(|n| n == name)).and_then(|(kind, _)| match kind {
            Kind::Categories(kind) => kind.as_deref(),
            Kind::Number(_) => None,
        })
    }
}
