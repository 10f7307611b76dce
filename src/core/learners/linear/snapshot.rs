//! The state of a search for coefficients between two passes, as bytes: what a fit that was ended goes on from, to the same bits.
//!
//! Where rows lie in several processes, the first has the bytes, with the scores of all rows; so as many processes as one likes may go on from
//! them, or one.
//!
//! ```text
//! envelope "LS"   digest of rows and parameters; passes; the curve of the held-out rows, and the best coefficients under early stopping;
//!                 L-BFGS: the point, its scores and gradient, and the pairs that are remembered
//!                 batches: of each coefficient what its rule remembers
//! ```

use super::held_out::PassMonitor;
use super::lbfgs::MEMORY;
use super::problem::Problem;
use super::{Input, LinearParams, Optimizer};
use crate::collective::{RowShard, bytes_of, fault, numbers_of};
use crate::dataset::own_rows::OwnRows;
use crate::dataset::snapshots::{self, FitDigest, Snapshots, add_block, damaged};
use crate::envelope::Envelope;
use crate::error::Result;
use crate::memory;
use crate::parallel::interrupt;
use crate::parallel::thread_pool::ThreadPool;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The envelope of snapshots.
const ENVELOPE: Envelope = snapshots::envelope(b"LS", "a snapshot of a fit of sparse logistic regression");

/// What a snapshot holds, in this order.
#[derive(Serialize, Deserialize)]
struct Payload<'a> {
    digest: [u64; 2],
    passes: u32,
    /// The metric after each pass; none where no rows are held out.
    curve: Cow<'a, [f64]>,
    best: Option<Cow<'a, [f64]>>,
    state: State<'a>,
}

/// Where a search is.
#[derive(Serialize, Deserialize)]
pub enum State<'a> {
    Whole(SearchState<'a>),
    Batches(BatchState),
}

/// The state of L-BFGS.
#[derive(Serialize, Deserialize)]
pub struct SearchState<'a> {
    /// The coefficients.
    pub vector: Cow<'a, [f64]>,
    /// The gradient of the smooth part there.
    pub gradient: Cow<'a, [f64]>,
    pub objective: f64,
    /// The length of the first gradient.
    pub first: f64,
    /// From the oldest on.
    pub pairs: Vec<PairState<'a>>,
    /// `[row][output]`; of those of one process, on the way to it.
    pub scores: Cow<'a, [f64]>,
}

/// A step and what it changed in the gradient.
#[derive(Serialize, Deserialize)]
pub struct PairState<'a> {
    pub s: Cow<'a, [f32]>,
    pub y: Cow<'a, [f32]>,
    pub sy: f64,
    pub yy: f64,
}

/// What the rule of batches remembers at the end of an epoch.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct BatchState {
    /// Of the coefficients of sparse features c, n and z (see [`Cell`](super::rule::Cell)), which are kept in f32; empty where all are 0.
    pub c: Vec<f32>,
    pub n: Vec<f32>,
    pub z: Vec<f32>,
    /// The same of dense columns and intercepts.
    pub others: Vec<[f64; 3]>,
}

impl BatchState {
    /// Makes the state of cells.
    pub fn new(c: Vec<f32>, n: Vec<f32>, z: Vec<f32>, others: Vec<[f64; 3]>) -> BatchState {
        let stored = |values: Vec<f32>| if values.iter().all(|x| x.to_bits() == 0) { vec![] } else { values };
        BatchState { c: stored(c), n: stored(n), z: stored(z), others }
    }

    /// Returns c, n and z of a coefficient of a sparse feature.
    pub fn of(&self, at: usize) -> [f32; 3] {
        [&self.c, &self.n, &self.z].map(|values| values.get(at).copied().unwrap_or(0.0))
    }
}

/// Where a search keeps its state, and what fit it is.
pub struct KeptSearch<'a> {
    snapshots: Option<&'a dyn Snapshots>,
    own: OwnRows<'a>,
    digest: u128,
    epochs: u32,
    by_batches: bool,
    /// Rows of the table, coefficients that are sparse features', all of them, and outputs.
    rows: usize,
    sparse: usize,
    coefficients: usize,
    outputs: usize,
}

impl<'a> KeptSearch<'a> {
    /// Prepares to keep the state of a search for a problem's coefficients. `input` is the table whose dense columns have the problem's rows.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn new(
        snapshots: Option<&'a dyn Snapshots>,
        (input, problem): (&Input<'_>, &Problem<'a>),
        params: &LinearParams,
        pool: &ThreadPool,
    ) -> Result<KeptSearch<'a>> {
        let digest = if snapshots.is_some() { digest(input, problem, params, pool)? } else { 0 };
        Ok(KeptSearch {
            snapshots,
            own: problem.own,
            digest,
            epochs: params.epochs(),
            by_batches: params.optimizer != Optimizer::Lbfgs,
            rows: problem.all_codes.len(),
            sparse: problem.width * problem.outputs,
            coefficients: problem.coefficients(),
            outputs: problem.outputs,
        })
    }

    /// Returns the passes that are done and the state after them, where that has been kept; the `watch` then knows what was measured. Where there
    /// are several processes, what the first has counts.
    ///
    /// # Errors
    /// Where it is of another fit or damaged, saying so; those of the collective.
    pub fn restored(&self, watch: &mut PassMonitor<'_>) -> Result<Option<(u32, State<'static>)>> {
        let Some(snapshots) = self.snapshots else { return Ok(None) };
        let is_first = self.own.collective.rank() == 0;
        let mut kept = snapshots.saved().filter(|_| is_first).map(|bytes| self.read(bytes)).transpose()?;
        if !self.own.is_whole() {
            kept = self.first_has(kept)?;
        }
        let Some(Payload { passes, curve, best, state, .. }) = kept else { return Ok(None) };
        if curve.len() != if watch.marks().is_some() { passes as usize } else { 0 } {
            return Err(damaged());
        }
        watch.restore(&curve, best.map(Cow::into_owned));
        Ok(Some((passes, state)))
    }

    /// Reads bytes that may come from anyone, in memory in proportion to their length.
    fn read(&self, bytes: &[u8]) -> Result<Payload<'static>> {
        let payload: Payload<'static> = snapshots::read(&ENVELOPE, bytes)?;
        snapshots::check_digest(payload.digest, self.digest)?;
        snapshots::check_length(payload.passes, self.epochs, "passes")?;
        if self.fits(&payload, self.rows) { Ok(payload) } else { Err(damaged()) }
    }

    /// Returns whether the parts of a snapshot go with the problem, with scores of `rows` rows.
    fn fits(&self, payload: &Payload<'_>, rows: usize) -> bool {
        let finite = |values: &[f64]| values.iter().all(|x| x.is_finite());
        let full = |values: &[f64]| values.len() == self.coefficients && finite(values);
        let of_state = match &payload.state {
            State::Whole(_) if self.by_batches => false,
            State::Batches(_) if !self.by_batches => false,
            State::Whole(s) => {
                let of_pair = |pair: &PairState<'_>| {
                    let lengths = [pair.s.len(), pair.y.len()] == [self.coefficients; 2];
                    lengths && finite(&[pair.sy, pair.yy]) && pair.s.iter().chain(pair.y.iter()).all(|x| x.is_finite())
                };
                full(&s.vector)
                    && full(&s.gradient)
                    && finite(&[s.objective, s.first])
                    && s.pairs.len() <= MEMORY
                    && s.pairs.iter().all(of_pair)
                    && Some(s.scores.len()) == rows.checked_mul(self.outputs)
                    && finite(&s.scores)
            }
            State::Batches(s) => {
                let stored = |values: &Vec<f32>| [0, self.sparse].contains(&values.len()) && values.iter().all(|x| x.is_finite());
                let others = s.others.len() == self.coefficients - self.sparse && s.others.iter().all(|cell| finite(cell));
                // What is remembered of gradients is a sum of squares.
                let squares = s.n.iter().all(|n| *n >= 0.0) && s.others.iter().all(|[_, n, _]| *n >= 0.0);
                [&s.c, &s.n, &s.z].into_iter().all(stored) && others && squares
            }
        };
        of_state && payload.best.as_ref().is_none_or(|best| full(best)) && payload.passes > 0
    }

    /// Returns what the first process has, with the scores of this one's rows.
    fn first_has(&self, kept: Option<Payload<'static>>) -> Result<Option<Payload<'static>>> {
        let each = self.own.of_each()?;
        let (mut sent, mut scores) = (vec![], vec![vec![]; each.len()]);
        if let Some(mut payload) = kept {
            if let State::Whole(state) = &mut payload.state {
                let all = std::mem::take(&mut state.scores);
                scores = each.iter().map(|rows| bytes_of(&all[rows.start * self.outputs..rows.end * self.outputs])).collect();
            }
            sent = postcard::to_allocvec(&payload).map_err(|error| fault(error.to_string()))?;
        }
        let received = self.own.collective.gather_bytes(&sent)?.into_iter().next().unwrap_or_default();
        let scores = self.own.collective.exchange(&scores.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        if received.is_empty() {
            return Ok(None);
        }
        let none = || fault("rank 0 sends a state that is none");
        let mut payload: Payload<'static> = postcard::from_bytes(&received).map_err(|_| none())?;
        if let State::Whole(state) = &mut payload.state {
            state.scores = numbers_of(scores.first().map_or(&[], Vec::as_slice))?.into();
        }
        if self.fits(&payload, self.own.count) { Ok(Some(payload)) } else { Err(none()) }
    }

    /// Returns whether the state is to be kept after pass `done`. After the last one there is nothing to go on with.
    pub fn is_due(&self, done: u32) -> bool {
        done < self.epochs && self.snapshots.is_some_and(|s| done.is_multiple_of(s.every().max(1)))
    }

    /// Keeps the state after pass `done`, unless a number in it is no longer finite, which the fit will tell of.
    ///
    /// # Errors
    /// Where there is no memory for its bytes; those of the collective, and of whoever keeps it.
    pub fn keep(&self, done: u32, watch: &PassMonitor<'_>, mut state: State<'_>) -> Result<()> {
        let Some(snapshots) = self.snapshots else { return Ok(()) };
        let keeps = self.own.collective.rank() == 0;
        let size = self.bytes(&state);
        let _reserved = memory::reserve("a snapshot of a fit", memory::product(&[2, size]), "leave `snapshot` out, or fit on fewer rows")?;
        if let (State::Whole(state), false) = (&mut state, self.own.is_whole()) {
            let all = self.own.collective.gather_to_first(&bytes_of(&state.scores))?;
            let all = if keeps { all } else { vec![] };
            state.scores = all.iter().map(|bytes| numbers_of(bytes)).collect::<Result<Vec<_>>>()?.concat().into();
        }
        if !keeps {
            return Ok(());
        }
        let curve = watch.history.as_ref().map_or(&[][..], |history| &history.values);
        let best = watch.best.as_deref().map(Cow::Borrowed);
        let payload = Payload { digest: snapshots::words(self.digest), passes: done, curve: curve.into(), best, state };
        if !self.fits(&payload, self.rows) {
            return Ok(());
        }
        snapshots.save(&ENVELOPE.seal(1, &payload, size as usize))
    }

    /// Returns about how many bytes a state is written in.
    fn bytes(&self, state: &State<'_>) -> u64 {
        let of_state = match state {
            State::Whole(s) => 16 + 8 * s.pairs.len() as u64,
            State::Batches(_) => 12,
        };
        let scores = if matches!(state, State::Whole(_)) { memory::product(&[8, self.rows as u64, self.outputs as u64]) } else { 0 };
        memory::sum(&[memory::product(&[8 + of_state, self.coefficients as u64]), scores, 1024])
    }
}

/// Returns a digest of everything that the coefficients of a fit depend on.
fn digest(input: &Input<'_>, problem: &Problem<'_>, params: &LinearParams, pool: &ThreadPool) -> Result<u128> {
    let params = LinearParams { epochs: Some(1), ..params.clone() };
    let mut all = FitDigest::new(&params.to_json(), &input.table(), &problem.own)?;
    all.next();
    if let Some(sparse) = &input.sparse {
        all.text(&sparse.features.name);
        all.text(sparse.values.as_ref().map_or("", |values| &values.name));
    }
    all.text(&format!("{} {} {:?}", problem.width, problem.has_values, problem.numbers.as_ref().map(Vec::len)));
    problem.numbers.iter().flatten().for_each(|number| all.bytes(&number.to_le_bytes()));
    let Some(csr) = &problem.csr else { return Ok(all.finish()) };
    let blocks = problem.rows.div_ceil(RowShard::BLOCK);
    let of_block = |bytes: &mut Vec<u8>, block: usize| {
        interrupt::poll();
        bytes.clear();
        let first = block * RowShard::BLOCK;
        for i in first..problem.rows.min(first + RowShard::BLOCK) {
            let row = csr.row(i);
            bytes.extend_from_slice(&(row.keys.len() as u32).to_le_bytes());
            row.keys.iter().for_each(|key| bytes.extend_from_slice(&key.to_le_bytes()));
            (0..row.keys.len()).for_each(|j| bytes.extend_from_slice(&row.values.map_or(1.0, |x| x[j]).to_bits().to_le_bytes()));
        }
        let mut sum = [0; 2];
        add_block(&mut sum, bytes, ((problem.own.first + first) / RowShard::BLOCK) as u64);
        sum
    };
    let mut sum = pool
        .deal(blocks, Vec::new, of_block)
        .into_iter()
        .fold([0i64; 2], |sum, of_block| [sum[0].wrapping_add(of_block[0]), sum[1].wrapping_add(of_block[1])]);
    problem.own.collective.sum(&mut sum)?;
    sum.iter().for_each(|x| all.bytes(&x.to_le_bytes()));
    Ok(all.finish())
}
