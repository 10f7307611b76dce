//! Shapley values of rows: each column's part in a row's prediction.

use super::apply::{Block, Predictor};
use super::model::{Forest, Tree};
use crate::column::Column;
use crate::error::Result;
use crate::shap::{Answers, ExplainedNode, ExplainedTree, Explainer, Explanation, Game, KnownMeans, Terms};

/// The answers of a block of rows.
struct Answered<'a>(&'a Predictor, &'a Block);

impl Answers for Answered<'_> {
    fn goes_right(&self, tree: usize, test: usize, out: &mut [u8]) {
        self.0.goes_right(tree, test, self.1, out);
    }
}

impl Forest {
    /// A tree as the explainer takes it: of two classes the second's share alone. Its covers are the numbers of rows drawn.
    fn explained(&self, tree: &Tree, outputs: usize) -> ExplainedTree {
        let node = |(test, n): (usize, &crate::tree::model::Node)| ExplainedNode {
            player: n.split.feature,
            test: test as u32,
            left: n.left,
            right: n.right,
        };
        let mut shares = vec![0.0; self.outputs()];
        let mut values = Vec::with_capacity(tree.leaves() * outputs);
        for leaf in 0..tree.leaves() {
            tree.value(leaf, &mut shares);
            values.extend_from_slice(&shares[shares.len() - outputs..]);
        }
        ExplainedTree {
            nodes: tree.nodes.iter().enumerate().map(node).collect(),
            tests: tree.nodes.len(),
            is_symmetric: false,
            covers: tree.counts.iter().map(|n| *n as f64).collect(),
            first_output: 0,
            outputs,
            values,
        }
    }
}

/// A forest's trees made ready to explain rows.
pub struct ShapValues {
    explainer: Explainer,
    /// The prediction for each output that nothing is known of.
    pub base: Vec<f64>,
}

impl ShapValues {
    /// Returns what explains the sums of the trees' predictions.
    pub fn explainer(&self) -> &Explainer {
        &self.explainer
    }
}

impl Predictor {
    /// The number of predictions that are explained: of two classes the second's alone.
    fn explained_outputs(&self) -> usize {
        if self.forest().outputs() == 2 { 1 } else { self.forest().outputs() }
    }

    /// Prepares explanations over the training rows, or over the rows of `background`, as [`Predictor::bind`] gives them.
    ///
    /// # Errors
    /// As [`Explainer::new`].
    pub fn shap_values(&self, background: Option<&[&Column<'_>]>) -> Result<ShapValues> {
        let (forest, outputs) = (self.forest(), self.explained_outputs());
        let trees = forest.trees.iter().map(|tree| forest.explained(tree, outputs)).collect();
        let players = (0..forest.features.len() as u32).map(|p| vec![p]).collect();
        let rows = background.and_then(|columns| columns.first()).map_or(0, |c| c.len());
        let blocks = background.map(|columns| Blocks::new(self, columns, rows));
        let game = blocks.as_ref().map_or(Game::Training, |blocks| Game::Background(rows, blocks));
        let explainer = Explainer::new(trees, players, forest.features.len(), outputs, &game)?;
        let base = explainer.means().iter().map(|sum| sum / forest.trees.len() as f64).collect();
        Ok(ShapValues { explainer, base })
    }

    /// Explains the predictions of all rows: the columns' values (and interactions, for those terms) of a row sum to its
    /// prediction, a probability or a mean, less [`ShapValues::base`]. `columns` as [`Predictor::bind`] gives them.
    pub fn explain(&self, shap: &ShapValues, columns: &[&Column<'_>], terms: Terms) -> Explanation {
        let rows = columns.first().map_or(0, |c| c.len());
        let mut all = Explanation::with_capacity(self.explained_outputs(), columns.len(), rows, terms);
        let mut block = Block::default();
        let step = shap.explainer.rows_at_a_time(terms).min(self.block_rows());
        for start in (0..rows).step_by(step) {
            let n = step.min(rows - start);
            self.read(columns, start, n, &mut block);
            all.append(shap.explainer.explain(&Answered(self, &block), n, terms));
        }
        all.scale(1.0 / self.forest().trees.len() as f64);
        all
    }
}

impl Predictor {
    /// Computes the mean prediction of rows of which only some columns are known, `[output][row]` (of two classes the second's): at
    /// splits on others both branches count, by the training rows that took them. `columns` as [`Predictor::bind`] gives them, `known`
    /// by their index.
    ///
    /// # Errors
    /// As [`KnownMeans::new`].
    pub fn known_predictions(&self, columns: &[&Column<'_>], known: &[u32]) -> Result<Vec<Vec<f64>>> {
        let (forest, outputs) = (self.forest(), self.explained_outputs());
        let trees = forest.trees.iter().map(|tree| forest.explained(tree, outputs)).collect();
        let means = KnownMeans::new(trees, |player| known.contains(&player), outputs)?;
        let rows = columns.first().map_or(0, |c| c.len());
        let mut predictions = vec![Vec::with_capacity(rows); outputs];
        let mut block = Block::default();
        let step = means.rows_at_a_time().min(self.block_rows());
        for start in (0..rows).step_by(step) {
            let n = step.min(rows - start);
            self.read(columns, start, n, &mut block);
            for (out, sums) in predictions.iter_mut().zip(means.of(&Answered(self, &block), n)) {
                out.extend(sums.into_iter().map(|sum| sum / forest.trees.len() as f64));
            }
        }
        Ok(predictions)
    }
}

/// The answers of more rows than a block has.
struct Blocks<'a>(&'a Predictor, Vec<Block>);

impl<'a> Blocks<'a> {
    fn new(predictor: &'a Predictor, columns: &[&Column<'_>], rows: usize) -> Self {
        let step = predictor.block_rows();
        let read = |start: usize| {
            let mut block = Block::default();
            predictor.read(columns, start, step.min(rows - start), &mut block);
            block
        };
        Blocks(predictor, (0..rows).step_by(step).map(read).collect())
    }
}

impl Answers for Blocks<'_> {
    fn goes_right(&self, tree: usize, test: usize, out: &mut [u8]) {
        for (block, out) in self.1.iter().zip(out.chunks_mut(self.0.block_rows())) {
            self.0.goes_right(tree, test, block, out);
        }
    }
}
