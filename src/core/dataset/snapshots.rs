//! The state of a fit after a part of it, as bytes: what snapshots of all learners share.
//!
//! A snapshot is an envelope of its learner's, whose payload begins with a digest of everything that the model depends on ([`FitDigest`]). A fit
//! that finds one of another fit, or bytes that are none, is an error: it never begins anew by itself.

use super::{Input, OwnRows, Target};
use crate::collective::RowShard;
use crate::column::{Column, FeatureType};
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::parallel::interrupt;
use rayon::prelude::*;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::{Xxh3, xxh3_128_with_seed};

/// Keeps the state of a fit from time to time, so that one that is ended goes on where it was.
pub trait Snapshots: Sync {
    /// Returns after how many rounds, trees or passes each.
    fn every(&self) -> u32;

    /// Returns the bytes that were saved last, where there are some. Of several processes the first is asked alone, here and to save.
    fn saved(&self) -> Option<&[u8]>;

    /// Saves the state in place of the one before.
    ///
    /// # Errors
    /// What keeps it from being saved, which ends the fit.
    fn save(&self, bytes: &[u8]) -> Result<()>;
}

/// Returns the envelope of a learner's snapshots.
pub const fn envelope(kind: &'static [u8; 2], description: &'static str) -> Envelope {
    Envelope {
        kind,
        version: 1,
        provenance: u32::MAX,
        metadata: u32::MAX,
        structs: u32::MAX,
        receipt: u32::MAX,
        noun: "snapshot",
        description,
    }
}

/// Returns the error about a snapshot that a fit can't go on from.
pub fn invalid(text: impl std::fmt::Display) -> Error {
    Error::parameter("snapshot", format!("{text}: delete the file to begin anew, or name another"))
}

/// Returns the error about a snapshot whose parts do not fit together.
pub fn damaged() -> Error {
    invalid("it is damaged: its parts do not fit together")
}

/// Returns the payload of bytes that may come from anyone, in memory in proportion to their length.
///
/// # Errors
/// Where they are no snapshot of this kind.
pub fn read<T: DeserializeOwned>(envelope: &Envelope, bytes: &[u8]) -> Result<T> {
    let (_, payload) = envelope.open(bytes).map_err(invalid)?;
    envelope.read(payload).map_err(invalid)
}

/// Checks that a snapshot is one of the fit of this digest.
///
/// # Errors
/// If not.
pub fn check_digest(found: [u64; 2], expected: u128) -> Result<()> {
    match found == words(expected) {
        true => Ok(()),
        false => Err(invalid("it is of a fit of other rows, or with other parameters")),
    }
}

/// Checks that a snapshot has no more than this fit is to have; `noun`: of what, several of them.
///
/// # Errors
/// Saying how many it has.
pub fn check_length(found: u32, wanted: u32, noun: &str) -> Result<()> {
    match found > wanted {
        true => Err(invalid(format!("it has {found} {noun}, and this fit has {wanted}"))),
        false => Ok(()),
    }
}

/// Returns a digest as payloads have it.
pub fn words(digest: u128) -> [u64; 2] {
    [digest as u64, (digest >> 64) as u64]
}

/// A digest of everything that a model depends on beside how long it is fitted: all that is read of the rows, and parameters. The same on every
/// machine, and whatever the chunks, the device, and the processes that rows lie in.
pub struct FitDigest {
    all: Xxh3,
    mark: u8,
}

impl FitDigest {
    /// Begins with a table and its parameters as JSON. Numeric features of `input` are of the `own` rows, which are whole blocks; of all else it
    /// has all rows.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn new(params: &serde_json::Value, input: &Input<'_>, own: &OwnRows<'_>) -> Result<FitDigest> {
        // Of roles that are there behind a mark of which; the columns' are below this one.
        let mut digest = FitDigest { all: Xxh3::new(), mark: 16 };
        digest.text(&serde_json::to_string(params).unwrap_or_default());
        digest.text(&input.target_name);
        digest.columns(input, own)?;
        if let Target::Classes { codes, labels } = &input.target {
            digest.next();
            digest.text(&format!("{labels:?}"));
            digest.integers(codes);
        }
        digest.next();
        let marks: Vec<u8> = input.held_out.unwrap_or_default().iter().map(|h| u8::from(*h)).collect();
        digest.all.update(&marks);
        digest.next();
        digest.integers(input.loss_columns.groups.as_deref().unwrap_or_default());
        digest.next();
        if let Some(positions) = &input.loss_columns.positions {
            digest.text(&format!("{:?}", positions.labels));
            digest.integers(&positions.codes);
        }
        digest.next();
        if let Some(sets) = &input.evaluation.sets {
            digest.text(&format!("{:?}", sets.names));
            digest.integers(&sets.of_row);
        }
        if let Some(places) = &input.order {
            digest.next();
            digest.integers(places);
        }
        Ok(digest)
    }

    /// Adds the columns of all roles.
    fn columns(&mut self, input: &Input<'_>, own: &OwnRows<'_>) -> Result<()> {
        let (targets, times) = (input.target.several(), &input.loss_columns.times);
        let one = match &input.target {
            Target::Numbers(column) => Some(column),
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
            self.all.update(&[number as u8]);
            // Of the features alone others have rows.
            let own = if number == 0 { *own } else { OwnRows::whole(input.target.rows()) };
            let mut values: Vec<i64> = columns.par_iter().flat_map_iter(|column| of_blocks(column, own.first)).collect();
            own.collective.sum(&mut values)?;
            for (column, values) in columns.iter().zip(values.as_chunks::<2>().0) {
                self.text(column.name());
                self.text(&column.dtype().to_string());
                values.iter().for_each(|x| self.all.update(&x.to_le_bytes()));
                if let Some(codes) = column.category_codes() {
                    self.text(&column.categories().map_or(String::new(), |labels| format!("{labels:?}")));
                    self.integers(codes);
                }
            }
        }
        Ok(())
    }

    /// Adds the mark of what comes next.
    pub fn next(&mut self) {
        self.mark += 1;
        self.all.update(&[self.mark]);
    }

    /// Adds bytes, whose number is told otherwise, or follows from what stands before.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.all.update(bytes);
    }

    /// Adds a text.
    pub fn text(&mut self, text: &str) {
        self.all.update(&(text.len() as u64).to_le_bytes());
        self.all.update(text.as_bytes());
    }

    /// Adds integers.
    pub fn integers(&mut self, values: &[u32]) {
        self.all.update(&(values.len() as u64).to_le_bytes());
        values.iter().for_each(|x| self.all.update(&x.to_le_bytes()));
    }

    /// Returns the digest.
    pub fn finish(self) -> u128 {
        self.all.digest128()
    }
}

/// Returns a digest of a column's numbers as a fit reads them, of which the first is row `first` of the table: the [sum](add_block) of digests of
/// its blocks of 1,024 rows. 0 for categories.
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
        add_block(&mut sum, &bytes, ((first + start) / RowShard::BLOCK) as u64);
    }
    sum
}

/// Adds the digest of a block's bytes, keyed by its place in the table, so that what several processes have of a table adds up (Bellare and
/// Micciancio, "A new paradigm for collision-free hashing: incrementality at reduced cost", 1997).
pub fn add_block(sum: &mut [i64; 2], bytes: &[u8], place: u64) {
    let block = xxh3_128_with_seed(bytes, place);
    *sum = [sum[0].wrapping_add(block as i64), sum[1].wrapping_add((block >> 64) as i64)];
}
