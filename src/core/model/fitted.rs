//! What every fitted model tells of itself, whichever learner made it ([`FittedModel`]), and what only some can tell: borders,
//! importance, a table of nodes, a metric's curve, out-of-bag predictions, coefficients.
//!
//! A learner implements the trait beside its model; whoever holds a model of an unknown learner asks through it and matches over
//! no learners.

use super::{Feature, History, OutOfBag};
use crate::column::FeatureType;
use crate::column::categories::Categories;
use crate::dataset::Labels;
use crate::error::{Error, Result};
use crate::metadata::Metadata;
use crate::metrics::MetricKind;
use crate::objective::{Link, LossParams};
use crate::provenance::Provenance;

/// A dense column that a model reads.
pub struct ModelColumn<'a> {
    pub name: &'a str,
    /// The type that a column must have to serve.
    pub dtype: &'a FeatureType,
    /// The categories of a categorical column that the model asks about.
    pub categories: Option<&'a Categories>,
}

impl<'a> From<&'a Feature> for ModelColumn<'a> {
    fn from(feature: &'a Feature) -> Self {
        ModelColumn { name: &feature.name, dtype: &feature.dtype, categories: feature.categories.as_ref() }
    }
}

/// The columns of lists that a model of sparse rows reads.
pub struct ModelLists<'a> {
    /// The name of the column of features.
    pub features: &'a str,
    /// The name of the column of values, where there was one.
    pub values: Option<&'a str>,
    /// Whether features are strings, not integers.
    pub holds_text: bool,
}

/// Whose coefficient it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureName<'a> {
    /// A feature of the sparse rows.
    Number(u64),
    /// A dense column, by its place among the model's.
    Column { index: u32, name: &'a str },
}

/// One coefficient of a linear model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coefficient<'a> {
    pub feature: FeatureName<'a>,
    /// The index of the class whose score it counts for.
    pub class: u32,
    pub value: f64,
}

/// What a linear model consists of.
pub struct Coefficients<'a> {
    /// Lists the coefficients that are not zero.
    pub list: Box<dyn Fn() -> Vec<Coefficient<'a>> + Send + 'a>,
    /// The names of the dense columns.
    pub columns: Vec<&'a str>,
    /// The bits that strings are hashed to, where features are strings.
    pub hash_bits: Option<u32>,
    /// One for each output.
    pub intercepts: &'a [f64],
    /// Whether the optimizer reached its tolerance.
    pub converged: bool,
    /// The objective that it reached.
    pub objective: f64,
}

/// A value in a table of nodes.
pub enum Cell<'a> {
    /// The node has no such value.
    None,
    Integer(u64),
    Number(f64),
    Flag(bool),
    Numbers(&'a [f64]),
    Indices(&'a [u32]),
}

impl From<u32> for Cell<'_> {
    fn from(x: u32) -> Self {
        Cell::Integer(x as u64)
    }
}

impl From<u64> for Cell<'_> {
    fn from(x: u64) -> Self {
        Cell::Integer(x)
    }
}

impl From<f64> for Cell<'_> {
    fn from(x: f64) -> Self {
        Cell::Number(x)
    }
}

impl From<bool> for Cell<'_> {
    fn from(x: bool) -> Self {
        Cell::Flag(x)
    }
}

impl<'a> From<&'a [f64]> for Cell<'a> {
    fn from(x: &'a [f64]) -> Self {
        Cell::Numbers(x)
    }
}

impl<'a> From<&'a [u32]> for Cell<'a> {
    fn from(x: &'a [u32]) -> Self {
        Cell::Indices(x)
    }
}

impl<'a, T: Into<Cell<'a>>> From<Option<T>> for Cell<'a> {
    fn from(x: Option<T>) -> Self {
        x.map_or(Cell::None, Into::into)
    }
}

/// The columns of a table whose rows are `R`: their names, and how each reads its cell of a row.
pub type NodeColumns<R> = [(&'static str, for<'r> fn(&'r R) -> Cell<'r>)];

/// Every node and leaf of every tree of a model, one a row, whatever a row holds.
pub trait NodeRows: Send + Sync {
    /// The number of rows.
    fn rows(&self) -> usize;
    /// The names of the columns.
    fn columns(&self) -> Vec<&'static str>;
    /// The cell of a row in the column of that index.
    fn cell(&self, column: usize, row: usize) -> Cell<'_>;
}

impl<R: Send + Sync> NodeRows for (Vec<R>, &'static NodeColumns<R>) {
    fn rows(&self) -> usize {
        self.0.len()
    }

    fn columns(&self) -> Vec<&'static str> {
        self.1.iter().map(|(name, _)| *name).collect()
    }

    fn cell(&self, column: usize, row: usize) -> Cell<'_> {
        (self.1[column].1)(&self.0[row])
    }
}

/// A table of nodes whose features and categories are indices into names, because a name of any length may stand in any number of
/// nodes.
pub struct NodeTable {
    pub rows: Box<dyn NodeRows>,
    /// The names of the features.
    pub features: Vec<String>,
    /// Those of the categories of all features, one feature's behind the other's; none for null.
    pub categories: Vec<Option<String>>,
}

/// How large a model is, for what must be known before it is written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelSize {
    /// Nodes and leaves of all trees.
    pub nodes: usize,
    /// The numbers in all leaves, or the coefficients.
    pub numbers: usize,
}

/// What every model tells of itself.
pub struct Facts<'a> {
    /// The learner's name: `gbdt`.
    pub learner: &'static str,
    /// What the model is, in words: `a forest`.
    pub noun: &'static str,
    /// The target's name.
    pub target: &'a str,
    /// A classifier's labels, in the order of the classes.
    pub labels: Option<&'a Labels>,
    /// Where its classes and columns come from.
    pub provenance: &'a Provenance,
    /// The columns that its trees ask about, in the order of fitting; none where it has no trees.
    pub features: Option<&'a [Feature]>,
    /// The number of values that it predicts for a row; one for two classes.
    pub outputs: usize,
    /// The number of training rows.
    pub rows: u64,
    /// The number of rounds of boosting, trees of a forest, or passes over the rows.
    pub rounds: usize,
    /// The number of trees, each of which has a leaf for every row.
    pub trees: usize,
    /// The curve of the metric, where rows were held out.
    pub history: Option<&'a History>,
}

/// By what predictions of a model are measured (see [`score`](super::score::score)).
#[derive(Clone, Debug, PartialEq)]
pub struct Scoring {
    /// How scores become predictions.
    pub link: Link,
    /// What metrics with parameters read.
    pub params: LossParams,
    /// The metric of the loss itself.
    pub metric: MetricKind,
    /// Whether the model predicts without scores: shares of classes, or a mean, as forests do.
    pub has_no_scores: bool,
}

/// The error for a model that keeps no rounds to choose from.
pub fn no_rounds<M: FittedModel + ?Sized>(model: &M) -> Error {
    let facts = model.facts();
    Error::Data(format!(
        "the model of `{}` is {}, which keeps the result of its last pass alone and has no rounds to choose from",
        facts.target, facts.noun
    ))
}

/// Checks a number of rounds that is asked for.
///
/// # Errors
/// For 0.
pub fn check_rounds(rounds: usize) -> Result<()> {
    if rounds == 0 { Err(Error::parameter("rounds", "a model has at least one round, not 0")) } else { Ok(()) }
}

/// A fitted model of any learner.
pub trait FittedModel: Send + Sync {
    /// Returns what it tells of itself; what follows from that alone is the same for all.
    fn facts(&self) -> Facts<'_>;

    /// Returns the names of the numbers of a prediction, or of the raw scores, where there are several: the labels of classes.
    fn fields(&self, _raw: bool) -> Option<Vec<String>> {
        let facts = self.facts();
        facts.labels.filter(|_| facts.outputs > 1).map(Labels::names)
    }

    /// Returns the parameters that it was fitted with as a JSON object.
    fn params(&self) -> serde_json::Value;

    /// Returns the name of the loss, or of what stands for it; never `auto`.
    fn loss(&self) -> String;

    /// Returns the dense columns that it reads, in the order of fitting.
    fn columns(&self) -> Vec<ModelColumn<'_>> {
        self.facts().features.into_iter().flatten().map(ModelColumn::from).collect()
    }

    /// Returns the columns of lists that it reads.
    fn lists(&self) -> Option<ModelLists<'_>> {
        None
    }

    /// Returns the names of the columns that share a prediction among them: those that it reads, but for the values of lists, which
    /// are their features' part.
    fn explained_columns(&self) -> Vec<&str> {
        let lists = self.lists().map(|lists| lists.features);
        lists.into_iter().chain(self.columns().into_iter().map(|c| c.name)).collect()
    }

    /// Returns whether its predictions are explained against given rows alone, since it does not know what its training rows were like.
    fn needs_background(&self) -> bool {
        false
    }

    /// Returns how large it is.
    fn size(&self) -> ModelSize;

    /// Returns its bytes; equal models have equal bytes.
    fn to_bytes(&self) -> Vec<u8>;

    /// Returns the whole model as JSON text.
    ///
    /// # Errors
    /// Where the text would be many times the model's size.
    fn json_text(&self) -> Result<String>;

    /// Returns by what its predictions are measured.
    fn scoring(&self) -> Scoring;

    /// Makes the same model with other metadata.
    fn with_metadata(&self, metadata: Option<Metadata>) -> Box<dyn FittedModel>;

    /// Makes the model of its first rounds: of all of them where there are no more.
    ///
    /// # Errors
    /// For no rounds at all, and where the learner does not keep its rounds.
    fn head(&self, _rounds: usize) -> Result<Box<dyn FittedModel>> {
        Err(no_rounds(self))
    }

    /// Returns the borders of every column.
    fn borders(&self) -> Option<Vec<&[f64]>> {
        Some(self.facts().features?.iter().map(|f| f.borders.as_slice()).collect())
    }

    /// Computes one number a column, of the importance that the user names; none where the learner has no importance.
    ///
    /// # Errors
    /// For a kind that there is not.
    fn importance(&self, _kind: &str) -> Option<Result<Vec<f64>>> {
        None
    }

    /// Makes the table of its nodes; none where it has no trees.
    fn node_table(&self) -> Option<NodeTable> {
        None
    }

    /// Returns the out-of-bag predictions where they were asked for; none where the learner has none.
    fn out_of_bag(&self) -> Option<Option<&OutOfBag>> {
        None
    }

    /// Returns its coefficients; none where it is not linear.
    fn coefficients(&self) -> Option<Coefficients<'_>> {
        None
    }
}

/// The error for a kind of importance that there is not; `known`: those that there are.
pub fn unknown_importance(kind: &str, known: &str) -> Error {
    Error::Data(format!("kind={kind:?} is not {known}"))
}
