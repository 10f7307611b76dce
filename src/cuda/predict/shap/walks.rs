//! Walks over all edges of trees whose paths meet too many players for tables.

use super::Block;
use crate::launch;
use crate::predict::PREDICT;
use crate::predict::answers::rows_by;
use crate::runtime::layouts::kernel_structs;
use crate::runtime::queue::{Queue, grid};
use crate::runtime::upload::upload;
use cudarc::driver::{CudaSlice, CudaViewMut};
use taiga_core::error::Result;
use taiga_core::shap::walk::{LANES, Step, Walk};
use taiga_core::shap::{ExplainedTree, Terms};

kernel_structs! { ShapStep, ShapWalkShape }

/// Threads of a block, and the rows that they take.
const THREADS: usize = 128;
pub(super) const ROWS: usize = THREADS / LANES;

/// What a step is, `WalkKind` there; and the player of no step.
const DOWN: u32 = 0;
const UP: u32 = 1;
const LEAF: u32 = 2;
const NOBODY: u32 = u32::MAX;

/// A tree's walk.
pub(super) struct DeviceWalk {
    shape: ShapWalkShape,
    steps: CudaSlice<ShapStep>,
    players: CudaSlice<u32>,
    points: CudaSlice<f64>,
    weights: CudaSlice<f64>,
    values: CudaSlice<f64>,
}

impl DeviceWalk {
    /// Copies the walk of a tree.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn new(queue: &Queue, walk: &Walk, tree: &ExplainedTree) -> Result<Self> {
        let kernel_step = |step: &Step| {
            let (kind, edge) = match step {
                Step::Leaf(leaf) => return ShapStep { kind: LEAF, at: *leaf, ..Default::default() },
                Step::Down(edge) => (DOWN, edge),
                Step::Up(down) => (UP, walk.edge(*down)),
            };
            ShapStep {
                own_share: edge.own_share,
                share: edge.share,
                share_above: edge.share_above,
                kind,
                at: edge.test,
                right: edge.right as u32,
                player: edge.player,
                above: edge.above,
                depth: edge.depth,
                end: edge.end as u32,
                unused: 0,
            }
        };
        let (points, weights) = walk.points();
        Ok(DeviceWalk {
            shape: ShapWalkShape {
                steps: walk.steps().len() as u32,
                width: points.len() as u32,
                depths: walk.depth() as u32 + 1,
                players: walk.players.len() as u32,
                outputs: tree.outputs as u32,
                first_output: tree.first_output as u32,
            },
            steps: upload(queue, "a walk", &walk.steps().iter().map(kernel_step).collect::<Vec<_>>())?,
            players: upload(queue, "a walk", &walk.players)?,
            points: upload(queue, "a walk", points.as_flattened())?,
            weights: upload(queue, "a walk", weights.as_flattened())?,
            values: upload(queue, "a walk", &tree.values)?,
        })
    }

    /// The numbers and the bytes that a thread has of every depth.
    fn of_thread(&self) -> (usize, usize) {
        let (depths, width) = (self.shape.depths as usize, self.shape.width as usize);
        (depths * width * (2 + self.shape.outputs as usize), depths)
    }

    /// The values of a row's players.
    fn values_a_row(&self) -> usize {
        (self.shape.players * self.shape.outputs) as usize
    }

    /// The numbers and the marks of a row that [`DeviceWalk::add`] works with.
    pub fn work_a_row(&self, terms: Terms) -> (usize, usize) {
        let (numbers, leads) = self.of_thread();
        let found = if terms == Terms::Interactions { 2 } else { 1 };
        (LANES * numbers + found * self.values_a_row(), LANES * leads)
    }

    /// Adds what the tree gives to the rows' sums, from their answers; does not wait.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    pub fn add(&self, queue: &Queue, terms: Terms, block: &mut Block<'_>) -> Result<()> {
        let Block { rows, all, all_terms, answers, work, sums } = block;
        let (rows, answers) = (*rows, &**answers);
        let (n, found) = (rows as u64, rows * self.values_a_row());
        let (mut with, mut rest) = work.numbers.split_at_mut(found);
        let (mut without, mut way) = rest.split_at_mut(if terms == Terms::Values { 0 } else { found });
        let mut room = (&mut way, &mut work.marks);
        self.walk(queue, answers, rows, (NOBODY, false), &mut room, &mut with)?;
        let kernel = queue.gpu().kernel(PREDICT, "add_walked")?;
        // SAFETY: the arguments are those of `add_walked`: values of all players and rows, and room for each row and output's terms.
        unsafe {
            launch!(queue, kernel, rows_by(rows, self.values_a_row()); &n, &self.shape, &self.players, &*all_terms, &mut with, &mut **sums)
        }?;
        if terms == Terms::Values {
            return Ok(());
        }
        let kernel = queue.gpu().kernel(PREDICT, "add_walked_pairs")?;
        for given in 0..self.shape.players.saturating_sub(1) {
            self.walk(queue, answers, rows, (given, true), &mut room, &mut with)?;
            self.walk(queue, answers, rows, (given, false), &mut room, &mut without)?;
            let pairs = (self.shape.players - given - 1) * self.shape.outputs;
            // SAFETY: the arguments are those of `add_walked_pairs`: as above, and a player that is not the last.
            unsafe {
                launch!(queue, kernel, rows_by(rows, pairs as usize);
                    &n, &self.shape, &self.players, &given, &*all, &*all_terms, &mut with, &mut without, &mut **sums)
            }?;
        }
        Ok(())
    }

    /// Walks rows: `found[output][player][row]`, the values of all players but one whose answer is given; does not wait.
    fn walk(
        &self,
        queue: &Queue,
        answers: &CudaSlice<u8>,
        rows: usize,
        (given, in_set): (u32, bool),
        (way, leads): &mut (&mut CudaViewMut<'_, f64>, &mut CudaSlice<u8>),
        found: &mut CudaViewMut<'_, f64>,
    ) -> Result<()> {
        let kernel = queue.gpu().kernel(PREDICT, "explain_walk")?;
        let (n, in_set) = (rows as u64, in_set as u32);
        // SAFETY: the arguments are those of `explain_walk`: an answer to each test of the tree of each row, steps, points, weights and
        // values of its shape, and room for what every thread has of all depths and for the players of each row.
        unsafe {
            launch!(queue, kernel, grid((LANES * rows).div_ceil(THREADS) as u32, THREADS as u32, 0);
                &n, &n, answers, &self.shape, &self.steps, &self.points, &self.weights, &self.values, &given, &in_set, &mut **way,
                &mut **leads, found)
        }
    }
}
