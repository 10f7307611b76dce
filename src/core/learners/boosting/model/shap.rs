//! Shapley values of rows: each column's part in a row's score.

use super::Model;
use super::apply::Predictor;
use super::plan::{Block, Plan};
use crate::column::Column;
use crate::error::{Error, Result};
use crate::shap::known::{players_of, uncounted};
use crate::shap::{Answers, ExplainedNode, ExplainedTree, Explainer, Explanation, Game, KnownMeans, Terms};
use crate::tree::model::{Child, Leaf, Tree};
use std::collections::HashMap;

/// The answers of a block of rows.
struct Answered<'a>(&'a Plan, &'a Block);

impl Answers for Answered<'_> {
    fn goes_right(&self, tree: usize, test: usize, out: &mut [u8]) {
        self.0.goes_right(tree, test, self.1, out);
    }
}

impl Model {
    /// Makes its trees as explanations take them, and the columns of each of their players.
    ///
    /// Players are sets of columns: a column with all that is derived from it alone is one, a combination of columns is another,
    /// whose value its columns share equally.
    fn explained(&self) -> (Vec<ExplainedTree>, Vec<Vec<u32>>) {
        let mut players: Vec<Vec<u32>> = vec![];
        let mut by_columns: HashMap<Vec<u32>, u32> = HashMap::new();
        let features = self.features.len() + self.derived.len();
        let mut player_of = vec![u32::MAX; features];
        for split in self.trees.iter().flat_map(Tree::splits) {
            let player = &mut player_of[split.feature as usize];
            if *player == u32::MAX {
                *player = *by_columns.entry(self.columns_of(split.feature)).or_insert_with_key(|columns| {
                    players.push(columns.clone());
                    players.len() as u32 - 1
                });
            }
        }
        let player = |feature: u32| player_of[feature as usize];
        let trees = self.trees.iter().enumerate().map(|(t, tree)| explained(tree, t % self.outputs(), player)).collect();
        (trees, players)
    }

    /// Checks that each leaf is a number: what a linear function is in the mean where some columns are known, the trees do not tell.
    ///
    /// # Errors
    /// Where one is not.
    fn check_explained(&self) -> Result<()> {
        if self.linear.is_empty() {
            return Ok(());
        }
        Err(Error::Data(format!(
            "the model of `{}` has leaves that are linear functions, of which its trees do not tell the means: explain it by \
             importance(\"permutation\"), or by partial dependence on data",
            self.target
        )))
    }

    /// Makes the explainer of its trees, over the training rows or a background.
    ///
    /// # Errors
    /// As [`Explainer::new`], and for leaves that are linear functions.
    fn explainer(&self, game: &Game<'_>) -> Result<Explainer> {
        self.check_explained()?;
        let (trees, players) = self.explained();
        Explainer::new(trees, players, self.features.len(), self.outputs(), game)
    }

    /// Reduces its trees to what some of the columns decide.
    ///
    /// # Errors
    /// As [`KnownMeans::new`], for leaves that are linear functions, and where a split asks about one of these columns together with another.
    fn known_means(&self, known: &[u32]) -> Result<KnownMeans> {
        self.check_explained()?;
        let are_counted = |tree: &Tree| tree.leaves().len() == 1 || tree.leaves().iter().any(|leaf| leaf.count > 0);
        if !self.trees.iter().all(are_counted) {
            return Err(uncounted());
        }
        let (trees, players) = self.explained();
        let in_set = players_of(&players, known).map_err(|columns| {
            let names = |is_known: bool| -> String {
                let of = columns.iter().filter(|c| known.contains(c) == is_known);
                of.map(|c| format!("`{}`", self.features[*c as usize].name)).collect::<Vec<_>>().join(", ")
            };
            Error::Data(format!(
                "the model of `{}` asks about {} together with {} (statistics of their combinations), which the training rows' numbers \
                 in its trees do not tell apart: give data",
                self.target,
                names(true),
                names(false)
            ))
        })?;
        KnownMeans::new(trees, |player| in_set[player as usize], self.outputs())
    }
}

/// The parts of a tree's leaves: their numbers of training rows; of imported trees that do not tell these, their weights.
fn covers(leaves: &[Leaf]) -> Vec<f64> {
    let are_counted = leaves.iter().any(|leaf| leaf.count > 0);
    leaves.iter().map(|leaf| if are_counted { leaf.count as f64 } else { leaf.weight as f64 }).collect()
}

/// A tree as the explainer takes it.
fn explained(tree: &Tree, output: usize, player: impl Fn(u32) -> u32) -> ExplainedTree {
    let mut nodes = vec![];
    match tree {
        Tree::Symmetric { splits, .. } => {
            for (level, split) in splits.iter().enumerate() {
                let child = |k: u32| if level + 1 == splits.len() { Child::Leaf(k) } else { Child::Node((2 << level) - 1 + k) };
                nodes.extend((0..1u32 << level).map(|k| ExplainedNode {
                    player: player(split.feature),
                    test: level as u32,
                    left: child(2 * k),
                    right: child(2 * k + 1),
                }));
            }
        }
        Tree::Branching { nodes: own, .. } => nodes.extend(own.iter().enumerate().map(|(test, node)| ExplainedNode {
            player: player(node.split.feature),
            test: test as u32,
            left: node.left,
            right: node.right,
        })),
    }
    ExplainedTree {
        nodes,
        tests: tree.splits().count(),
        is_symmetric: matches!(tree, Tree::Symmetric { .. }),
        covers: covers(tree.leaves()),
        first_output: output,
        outputs: 1,
        values: tree.leaves().iter().map(|leaf| leaf.value).collect(),
    }
}

/// A model's trees made ready to explain rows.
pub struct ShapValues {
    explainer: Explainer,
    /// The score of each output that nothing is known of.
    pub base: Vec<f64>,
}

impl ShapValues {
    /// Returns what explains the scores.
    pub fn explainer(&self) -> &Explainer {
        &self.explainer
    }
}

impl Predictor {
    /// Prepares explanations over the training rows, or over the rows of `background`, as [`Predictor::bind`] gives them.
    ///
    /// # Errors
    /// As [`Explainer::new`].
    pub fn shap_values(&self, background: Option<&[&Column<'_>]>) -> Result<ShapValues> {
        let mut block = Block::default();
        let rows = background.and_then(|columns| columns.first()).map_or(0, |c| c.len());
        if let Some(columns) = background {
            self.plan().read(columns, 0, rows, &mut block);
        }
        let answered = Answered(self.plan(), &block);
        let game = if background.is_some() { Game::Background(rows, &answered) } else { Game::Training };
        let explainer = self.model().explainer(&game)?;
        let model = self.model();
        let base = model.start.iter().zip(explainer.means()).map(|(start, mean)| start + model.scale * mean).collect();
        Ok(ShapValues { explainer, base })
    }

    /// Explains the scores of all rows: the columns' values (and interactions, for those terms) of a row sum to its raw score
    /// less [`ShapValues::base`]. `columns` as [`Predictor::bind`] gives them.
    pub fn explain(&self, shap: &ShapValues, columns: &[&Column<'_>], terms: Terms) -> Explanation {
        let rows = columns.first().map_or(0, |c| c.len());
        let (outputs, scale) = (self.model().outputs(), self.model().scale);
        let mut all = Explanation::with_capacity(outputs, columns.len(), rows, terms);
        let mut block = Block::default();
        let step = shap.explainer.rows_at_a_time(terms);
        for start in (0..rows).step_by(step) {
            let n = step.min(rows - start);
            self.plan().read(columns, start, n, &mut block);
            all.append(shap.explainer.explain(&Answered(self.plan(), &block), n, terms));
        }
        all.scale(scale);
        all
    }

    /// Computes the mean raw score of rows of which only some columns are known, `[output][row]`: at splits on others both branches
    /// count, by the training rows that took them. `columns` as [`Predictor::bind`] gives them, `known` by their index.
    ///
    /// # Errors
    /// Where a split asks about one of these columns together with another.
    pub fn known_scores(&self, columns: &[&Column<'_>], known: &[u32]) -> Result<Vec<Vec<f64>>> {
        let (model, means) = (self.model(), self.model().known_means(known)?);
        let rows = columns.first().map_or(0, |c| c.len());
        let mut scores = vec![Vec::with_capacity(rows); model.outputs()];
        let mut block = Block::default();
        let step = means.rows_at_a_time();
        for start in (0..rows).step_by(step) {
            let n = step.min(rows - start);
            self.plan().read(columns, start, n, &mut block);
            for ((out, sums), begin) in scores.iter_mut().zip(means.of(&Answered(self.plan(), &block), n)).zip(&model.start) {
                out.extend(sums.into_iter().map(|sum| begin + model.scale * sum));
            }
        }
        Ok(scores)
    }
}
