//! The state of a fit after some of its rounds, as bytes: what a fit that was ended goes on from, to the same model.
//!
//! Where rows lie in several processes, the first has the bytes, of all rows; so as many processes as one likes may go on from them, or one.
//!
//! ```text
//! envelope "GS"   digest of rows, parameters and the given model; rounds; the model so far (an envelope "GB");
//!                 scores of all rows, [set][output][row]; what each position adds, latest and at the best round
//! ```

use super::model::Model;
use super::params::BoostingParams;
use super::rounds::Factors;
use crate::collective::RowShard;
use crate::column::{Column, FeatureType};
use crate::dataset::{Input, OwnRows};
use crate::envelope::{Envelope, Persisted};
use crate::error::{Error, Result};
use crate::memory::{self, product};
use crate::parallel::interrupt;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use xxhash_rust::xxh3::{Xxh3, xxh3_128_with_seed};

/// The envelope of snapshots.
const ENVELOPE: Envelope = Envelope {
    kind: b"GS",
    version: 1,
    provenance: u32::MAX,
    metadata: u32::MAX,
    structs: u32::MAX,
    receipt: u32::MAX,
    noun: "snapshot",
    description: "a snapshot of a fit of boosted trees",
};

/// What a snapshot holds, in this order.
#[derive(Serialize, Deserialize)]
struct Payload {
    digest: [u64; 2],
    rounds: u32,
    model: Vec<u8>,
    scores: Vec<Vec<f32>>,
    latest: Option<Vec<f64>>,
    best: Option<Vec<f64>>,
}

/// A fit after some of its rounds.
pub(super) struct Snapshot {
    /// Of what it is a fit ([`digest`]).
    pub digest: u128,
    /// The rounds that are done, those of a given model included.
    pub rounds: u32,
    /// The trees so far, with the curves of all rounds.
    pub model: Model,
    /// The scores of all rows, as devices have them; of those of one process, on the way to it.
    pub scores: Vec<Vec<f32>>,
    pub factors: Factors,
}

fn invalid(text: impl std::fmt::Display) -> Error {
    Error::parameter("snapshot", format!("{text}: delete the file to begin anew, or name another"))
}

impl Snapshot {
    /// Returns the bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        let model = self.model.to_bytes();
        let size = model.len() + self.scores.iter().map(|s| 4 * s.len()).sum::<usize>();
        let payload = Payload {
            digest: [self.digest as u64, (self.digest >> 64) as u64],
            rounds: self.rounds,
            model,
            scores: self.scores,
            latest: self.factors.latest,
            best: self.factors.best,
        };
        ENVELOPE.seal(1, &payload, size)
    }

    /// Reads bytes that may come from anyone, in memory in proportion to their length.
    ///
    /// # Errors
    /// Where they are not a snapshot, or hold no valid model.
    pub fn from_bytes(bytes: &[u8]) -> Result<Snapshot> {
        let (_, payload) = ENVELOPE.open(bytes).map_err(invalid)?;
        let p = ENVELOPE.read::<Payload>(payload).map_err(invalid)?;
        let model: Model = Persisted::open(&p.model).map_err(invalid)?;
        let digest = u128::from(p.digest[0]) | u128::from(p.digest[1]) << 64;
        Ok(Snapshot { digest, rounds: p.rounds, model, scores: p.scores, factors: Factors { latest: p.latest, best: p.best } })
    }

    /// Reads what was saved of a fit, where that is something, with the scores of `own` rows. Where there are several processes, what the first
    /// has counts: it sends each the scores of its rows.
    ///
    /// # Errors
    /// Where it is of another fit or damaged, saying so; those of the collective.
    pub fn of_own_rows(saved: Option<&[u8]>, own: &OwnRows<'_>, of: &Expected) -> Result<Option<Snapshot>> {
        let read = |bytes: &[u8], rows: usize| -> Result<Snapshot> {
            let snapshot = Snapshot::from_bytes(bytes)?;
            snapshot.check(of, rows)?;
            Ok(snapshot)
        };
        if own.is_whole() {
            return saved.map(|bytes| read(bytes, own.count)).transpose();
        }
        let each = own.of_each()?;
        let mut pieces = vec![vec![]; each.len()];
        let mut reserved = None;
        if let Some(bytes) = saved.filter(|_| own.collective.rank() == 0) {
            let rows = each.last().map_or(0, |rows| rows.end);
            let needed = product(&[2 * 4, rows as u64, of.scores as u64]);
            reserved = Some(memory::reserve("what each process gets of a snapshot", needed, "fit on fewer rows")?);
            let all = read(bytes, rows)?;
            pieces = each.iter().map(|rows| all.of_rows(rows).into_bytes()).collect();
        }
        let received = own.collective.exchange(&pieces.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        drop((pieces, reserved));
        match received.first() {
            Some(bytes) if !bytes.is_empty() => read(bytes, own.count).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns what one process needs of it, whose rows these are.
    fn of_rows(&self, rows: &Range<usize>) -> Snapshot {
        let scores = self.scores.iter().map(|scores| scores[rows.clone()].to_vec()).collect();
        Snapshot { digest: self.digest, rounds: self.rounds, model: self.model.clone(), scores, factors: self.factors.clone() }
    }

    /// Checks that it is one of this fit, with the scores of `rows` rows.
    ///
    /// # Errors
    /// Saying what differs.
    fn check(&self, of: &Expected, rows: usize) -> Result<()> {
        let Expected { digest, scores, positions, first, last: rounds } = *of;
        if self.digest != digest {
            return Err(invalid("it is of a fit of other rows, or with other parameters"));
        }
        let factors = |of: &Option<Vec<f64>>| of.as_ref().is_none_or(|f| Some(f.len()) == positions && f.iter().all(|x| x.is_finite()));
        let fits = self.scores.len() == scores
            && self.scores.iter().all(|s| s.len() == rows && s.iter().all(|x| x.is_finite()))
            && factors(&self.factors.latest)
            && factors(&self.factors.best)
            && self.model.rounds() == self.rounds as usize
            && self.rounds >= first
            && self.model.history.as_ref().is_none_or(|history| history.values.len() == self.model.rounds());
        if !fits {
            return Err(invalid("it is damaged: its parts do not fit together"));
        }
        match self.rounds > rounds {
            true => Err(invalid(format!("it has {} rounds, and this fit has {rounds}", self.rounds))),
            false => Ok(()),
        }
    }
}

/// What a snapshot of a fit has.
pub(super) struct Expected {
    pub digest: u128,
    /// Sets of scores, times outputs.
    pub scores: usize,
    pub positions: Option<usize>,
    /// The rounds of a given model, and those that there are to be.
    pub first: u32,
    pub last: u32,
}

/// Returns a digest of everything that a model depends on beside the number of its rounds: all that is read of the rows, parameters, and the
/// bytes of the model that comes first. The same on every machine, and whatever the chunks, the device, and the processes that rows lie in, whose
/// numeric features are of the `own` whole blocks.
///
/// # Errors
/// Those of the collective.
pub(super) fn digest(input: &Input<'_>, own: &OwnRows<'_>, params: &BoostingParams, init_model: Option<&Model>) -> Result<u128> {
    let mut all = Xxh3::new();
    let params = BoostingParams { rounds: Some(1), ..params.kept() };
    text(&mut all, &serde_json::to_string(&params.to_json()).unwrap_or_default());
    text(&mut all, &input.target_name);
    let (targets, times) = (input.target.several(), &input.loss_columns.times);
    let one = match &input.target {
        crate::dataset::Target::Numbers(column) => Some(column),
        _ => None,
    };
    let roles: [Vec<&Column<'_>>; 7] = [
        input.features.iter().collect(),
        one.into_iter().chain(targets).collect(),
        input.weight.iter().collect(),
        input.baseline.iter().collect(),
        input.loss_columns.numbers.iter().collect(),
        [&times.event, &times.lower, &times.upper].into_iter().flatten().collect(),
        input.evaluation.columns.iter().collect(),
    ];
    for (number, columns) in roles.iter().enumerate() {
        all.update(&[number as u8]);
        // Of the features alone others have rows.
        let own = if number == 0 { *own } else { OwnRows::whole(input.target.rows()) };
        let mut values: Vec<i64> = columns.par_iter().flat_map_iter(|column| of_blocks(column, own.first)).collect();
        own.collective.sum(&mut values)?;
        for (column, values) in columns.iter().zip(values.as_chunks::<2>().0) {
            text(&mut all, column.name());
            text(&mut all, &column.dtype().to_string());
            values.iter().for_each(|x| all.update(&x.to_le_bytes()));
            if let Some(codes) = column.category_codes() {
                text(&mut all, &column.categories().map_or(String::new(), |labels| format!("{labels:?}")));
                integers(&mut all, codes);
            }
        }
    }
    // Of roles that are there behind a mark of which.
    let mut mark = 16u8;
    let mut next = |all: &mut Xxh3| {
        mark += 1;
        all.update(&[mark]);
    };
    if let crate::dataset::Target::Classes { codes, labels } = &input.target {
        next(&mut all);
        text(&mut all, &format!("{labels:?}"));
        integers(&mut all, codes);
    }
    next(&mut all);
    let marks: Vec<u8> = input.held_out.unwrap_or_default().iter().map(|h| u8::from(*h)).collect();
    all.update(&marks);
    next(&mut all);
    integers(&mut all, input.loss_columns.groups.as_deref().unwrap_or_default());
    next(&mut all);
    if let Some(positions) = &input.loss_columns.positions {
        text(&mut all, &format!("{:?}", positions.labels));
        integers(&mut all, &positions.codes);
    }
    next(&mut all);
    if let Some(sets) = &input.evaluation.sets {
        text(&mut all, &format!("{:?}", sets.names));
        integers(&mut all, &sets.of_row);
    }
    if let Some(places) = &input.order {
        next(&mut all);
        integers(&mut all, places);
    }
    next(&mut all);
    all.update(&init_model.map(Model::to_bytes).unwrap_or_default());
    Ok(all.digest128())
}

fn text(all: &mut Xxh3, text: &str) {
    all.update(&(text.len() as u64).to_le_bytes());
    all.update(text.as_bytes());
}

fn integers(all: &mut Xxh3, values: &[u32]) {
    all.update(&(values.len() as u64).to_le_bytes());
    values.iter().for_each(|x| all.update(&x.to_le_bytes()));
}

/// Returns a digest of a column's numbers as a fit reads them, of which the first is row `first` of the table: the sum of digests of its blocks of
/// 1,024 rows, each keyed by its place, so that what several processes have of a column adds up (Bellare and Micciancio, "A new paradigm for
/// collision-free hashing: incrementality at reduced cost", 1997). 0 for categories.
fn of_blocks(column: &Column<'_>, first: usize) -> [i64; 2] {
    let mut sum = [0i64; 2];
    if *column.dtype() == FeatureType::Categorical {
        return sum;
    }
    let (mut buffer, mut bytes) = ([0.0; RowShard::BLOCK], Vec::with_capacity(8 * RowShard::BLOCK));
    for start in (0..column.len()).step_by(RowShard::BLOCK) {
        interrupt::poll();
        let values = &mut buffer[..RowShard::BLOCK.min(column.len() - start)];
        column.read_f64(start, values);
        bytes.clear();
        // Null and all NaN are the same.
        values.iter().for_each(|x| bytes.extend_from_slice(&if x.is_nan() { f64::NAN } else { *x }.to_bits().to_le_bytes()));
        let block = xxh3_128_with_seed(&bytes, ((first + start) / RowShard::BLOCK) as u64);
        sum = [sum[0].wrapping_add(block as i64), sum[1].wrapping_add((block >> 64) as i64)];
    }
    sum
}
