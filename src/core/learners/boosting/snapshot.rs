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
use crate::dataset::snapshots::{self, FitDigest, damaged, invalid};
use crate::dataset::{Input, OwnRows};
use crate::envelope::{Envelope, Persisted};
use crate::error::Result;
use crate::memory::{self, product};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The envelope of snapshots.
const ENVELOPE: Envelope = snapshots::envelope(b"GS", "a snapshot of a fit of boosted trees");

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

impl Snapshot {
    /// Returns the bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        let model = self.model.to_bytes();
        let size = model.len() + self.scores.iter().map(|s| 4 * s.len()).sum::<usize>();
        let payload = Payload {
            digest: snapshots::words(self.digest),
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
        let p: Payload = snapshots::read(&ENVELOPE, bytes)?;
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
        snapshots::check_digest(snapshots::words(self.digest), digest)?;
        let factors = |of: &Option<Vec<f64>>| of.as_ref().is_none_or(|f| Some(f.len()) == positions && f.iter().all(|x| x.is_finite()));
        let fits = self.scores.len() == scores
            && self.scores.iter().all(|s| s.len() == rows && s.iter().all(|x| x.is_finite()))
            && factors(&self.factors.latest)
            && factors(&self.factors.best)
            && self.model.rounds() == self.rounds as usize
            && self.rounds >= first
            && self.model.history.as_ref().is_none_or(|history| history.values.len() == self.model.rounds());
        if !fits {
            return Err(damaged());
        }
        snapshots::check_length(self.rounds, rounds, "rounds")
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
    let params = BoostingParams { rounds: Some(1), ..params.kept() };
    let mut digest = FitDigest::new(&params.to_json(), input, own)?;
    digest.next();
    digest.bytes(&init_model.map(Model::to_bytes).unwrap_or_default());
    Ok(digest.finish())
}
