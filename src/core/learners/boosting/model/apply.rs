//! Scores, probabilities, classes and leaves of rows.

use super::Model;
use super::plan::{BLOCK, Block, LeafIndices, Plan};
use crate::column::Column;
use crate::dataset::labels::Labels;
use crate::encoding::Lookup;
use crate::error::Result;
use crate::losses::loss;
use crate::model::bind::{bind, largest};
use crate::objective::Link;
use crate::parallel::interrupt;

/// Trees that a block of rows meets between two looks whether the predictions are still wanted.
const TREES: usize = 64;

/// What a walk of rows through the trees is to collect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub raw: bool,
    pub leaves: bool,
    pub staged: bool,
}

/// What a walk collected: of what was not asked for nothing.
#[derive(Debug, Default, PartialEq)]
pub struct Walked {
    /// Raw scores, `[output][row]`.
    pub raw: Option<Vec<Vec<f64>>>,
    /// The leaf of every row in every tree, `[row * trees + tree]`.
    pub leaves: Option<Vec<u32>>,
    /// Raw scores after every round, `[output][row * rounds + round]`.
    pub staged: Option<Vec<Vec<f64>>>,
}

/// A model made ready to be applied many times: its splits become tests of bytes, which run on
/// many rows at once (the idea of CatBoost's evaluator of oblivious trees, for both kinds of tree).
///
/// One thread does the work; callers split the rows. The result of a row depends on nothing but
/// the model and the row.
///
/// ```
/// use taiga_core::column::{Column, FeatureType};
/// use taiga_core::learners::boosting::BoostingParams;
/// use taiga_core::learners::boosting::model::{Model, apply::Predictor};
/// use taiga_core::losses::LossKind;
/// use taiga_core::model::Feature;
/// use taiga_core::tree::{Leaf, Split, Tree};
///
/// let model = Model {
///     params: BoostingParams::default(),
///     loss: LossKind::Rmse,
///     target: "y".into(),
///     features: vec![Feature { name: "x".into(), dtype: FeatureType::Numeric, borders: vec![2.5], categories: None }],
///     derived: vec![],
///     tables: vec![],
///     labels: None,
///     start: vec![10.0],
///     scale: 1.0,
///     units: Default::default(),
///     trees: vec![Tree::Symmetric {
///         splits: vec![Split { feature: 0, border: 0, missing_left: false, gain: 1.0 }],
///         leaves: [-1.0, 1.0].map(|value| Leaf { value, weight: 2.0, count: 2 }).to_vec(),
///     }],
///     linear: vec![],
///     rows: 4,
///     history: None,
///     provenance: Default::default(),
/// };
/// let predictor = Predictor::new(model);
/// let table = [Column::from_f64("z", &[0.0; 3]), Column::from_f64("x", &[2.5, 3.0, f64::NAN])];
/// let columns = predictor.bind(&table)?;
/// assert_eq!(predictor.raw(&columns), [[9.0, 11.0, 11.0]]);
/// # Ok::<(), taiga_core::Error>(())
/// ```
pub struct Predictor {
    model: Model,
    plan: Plan,
    link: Link,
    /// Of each feature that is asked about by its categories.
    lookups: Vec<Option<Lookup>>,
}

impl Predictor {
    /// Prepares `model`: in time of the order of its splits, borders and leaves.
    ///
    /// # Panics
    /// May panic for a model for which [`Model::validate`] fails; a fitted or parsed one is valid.
    pub fn new(model: Model) -> Self {
        let plan = Plan::new(&model);
        // A valid model names its loss.
        let link = loss(model.loss, &model.params.loss_params(), model.outputs(), 1.0).map_or(Link::Identity, |l| l.link());
        let lookups = model.features.iter().map(|f| f.categories.clone().and_then(|c| Lookup::new(c).ok())).collect();
        Predictor { model, plan, link, lookups }
    }

    /// Finds the codes of a feature's categories, where it is asked about by them: what
    /// [`Column::codes`] takes.
    pub fn lookup(&self, feature: usize) -> Option<&Lookup> {
        self.lookups.get(feature)?.as_ref()
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Its splits, compiled.
    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What a device needs.
    pub fn parts(&self) -> super::plan::parts::Parts<'_> {
        self.plan.parts(&self.model)
    }

    /// The columns that the model names, in its order, found by name among `columns`; others are
    /// ignored.
    ///
    /// # Errors
    /// Names every column that is missing, or whose type differs from the fitted one; and a name
    /// of the model's that two columns bear, and columns that differ in length.
    pub fn bind<'c, 'a>(&self, columns: &'c [Column<'a>]) -> Result<Vec<&'c Column<'a>>> {
        bind(&self.model.features, columns)
    }

    /// Collects what is asked for in one walk of the rows through the trees: codes and leaves of a block are found once, whatever
    /// is made of them. `columns` as [`Predictor::bind`] gives them.
    pub fn walk(&self, columns: &[&Column<'_>], asked: Asked) -> Walked {
        let rows = columns.first().map_or(0, |c| c.len());
        let (outputs, rounds, trees) = (self.model.outputs(), self.model.rounds(), self.model.trees.len());
        let mut raw = asked.raw.then(|| (0..outputs).map(|_| Vec::with_capacity(rows)).collect::<Vec<_>>());
        let mut leaf_indices = asked.leaves.then(|| vec![0; rows * trees]);
        let mut staged = asked.staged.then(|| vec![vec![0.0; rows * rounds]; outputs]);
        // Of the rows of a block, the trees' values so far: `[output][row]`.
        let most = rows.min(BLOCK);
        let mut sums = vec![0.0; if asked.raw || asked.staged { most * outputs } else { 0 }];
        let (mut block, mut leaves) = (Block::default(), LeafIndices::default());
        for start in (0..rows).step_by(BLOCK) {
            let n = BLOCK.min(rows - start);
            self.plan.read(columns, start, n, &mut block);
            sums.fill(0.0);
            for tree in 0..trees {
                if tree % TREES == 0 {
                    interrupt::poll();
                }
                let (output, round) = (tree % outputs, tree / outputs);
                self.plan.leaves(tree, &block, &mut leaves);
                if let Some(sums) = sums.get_mut(output * most..output * most + n) {
                    self.plan.add(tree, &block, &leaves, sums);
                    if let Some(out) = &mut staged {
                        for (row, sum) in sums.iter().enumerate() {
                            out[output][(start + row) * rounds + round] = self.model.start[output] + self.model.scale * sum;
                        }
                    }
                }
                if let Some(out) = &mut leaf_indices {
                    for row in 0..n {
                        out[(start + row) * trees + tree] = self.plan.leaf(tree, &leaves, row);
                    }
                }
            }
            for ((out, sums), first) in raw.iter_mut().flatten().zip(sums.chunks_exact(most)).zip(&self.model.start) {
                out.extend(sums[..n].iter().map(|sum| first + self.model.scale * sum));
            }
        }
        Walked { raw, leaves: leaf_indices, staged }
    }

    /// Raw scores of all rows, one vector for each output. `columns` as [`Predictor::bind`] gives them.
    pub fn raw(&self, columns: &[&Column<'_>]) -> Vec<Vec<f64>> {
        self.walk(columns, Asked { raw: true, ..Asked::default() }).raw.unwrap_or_default()
    }

    /// Turns raw scores into predictions in place: the identity, probabilities (of the second
    /// class, or one for each class), the exponential, quantiles that ascend, or a mean and a variance, by the loss's link.
    pub fn link(&self, raw: &mut [Vec<f64>]) {
        self.link.apply(raw);
    }

    /// The index of the class with the largest raw score, the lower one at a tie. Under one output
    /// the second class's score is above 0 where its probability is above a half.
    pub fn class(&self, raw: &[Vec<f64>]) -> Vec<u32> {
        largest(raw, self.model.labels.as_ref().map_or(0, Labels::len))
    }

    /// The leaf of every row in every tree, row after row: `out[row * trees + tree]`.
    pub fn leaves(&self, columns: &[&Column<'_>]) -> Vec<u32> {
        self.walk(columns, Asked { leaves: true, ..Asked::default() }).leaves.unwrap_or_default()
    }

    /// Raw scores after every round: `out[output][row * rounds + round]`.
    pub fn staged(&self, columns: &[&Column<'_>]) -> Vec<Vec<f64>> {
        self.walk(columns, Asked { staged: true, ..Asked::default() }).staged.unwrap_or_default()
    }
}
