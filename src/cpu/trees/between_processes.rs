//! What processes that fit together tell each other while a tree grows. Each searches features of its own: it gets their bins from all the
//! others, which add theirs to no others' (a reduce-scatter, as in LightGBM's data-parallel learner; Ke et al., "LightGBM", NeurIPS 2017),
//! and tells all the best split that it has found. All then know the same.

use super::evaluate_splits::FoundSplit;
use super::feature_groups::{Group, TieOrder, group_of, open_groups};
use super::feature_share::{Merge, Pending, sum_bins};
use super::shard::Shard;
use super::{CpuTrees, read, write};
use std::ops::Range;
use std::sync::RwLock;
use taiga_core::collective::fault;
use taiga_core::error::{Error, Result};
use taiga_core::quantize::CodeSet;
use taiga_core::tree::split::Sums;
use taiga_core::tree::steps::Candidate;

/// Numbers that a candidate, sums and a subset of categories are told in.
const CANDIDATE: usize = 6;
const SUMS: usize = 3;
const SUBSET: usize = 4;

/// A split of a node as it is told: what it is (nothing, a border, a subset), then all of it.
const SPLIT: usize = 1 + CANDIDATE + SUMS + SUBSET;

/// Where the bins of a feature in a smaller child go.
struct Job<'r> {
    numbers: &'r mut [i64],
    feature: usize,
    pending: &'r Pending,
}

impl CpuTrees<'_> {
    /// Merges the pending histograms of the features that this process searches, with the sums over all processes' rows.
    pub(super) fn complete_histograms(&self, pending: &[Vec<Pending>]) -> Result<()> {
        let quantizer = self.quantizer()?;
        let shards: Vec<_> = self.shards.iter().map(read).collect();
        let shards: Vec<&Shard> = shards.iter().map(|s| &**s).collect();
        let lanes = self.tree_context(quantizer).lanes();
        // Kept from level to level: memory that was just taken costs more to touch than these numbers to add.
        let mut room = write(&self.exchanged);
        // Not in the order of their numbers, which in each process are by what it had no memory to keep.
        for index in open_groups(&self.groups).filter(|index| !pending[*index].is_empty()) {
            let (group, pending) = (&self.groups[index], &pending[index]);
            let merge = Merge { pending, slots: group.used_slots * group.outputs, shards: &shards, quantizer, lanes };
            let numbers = |feature: usize| group.dense[feature].1 * if self.row_counts.any() { 3 } else { 2 };
            let parts = parts(group, pending.len(), numbers);
            let all = parts.last().map_or(0, |last| last.end);
            if room.len() < all {
                room.resize(all, 0);
            }
            let sums = &mut room[..all];
            let jobs = jobs(group, pending, self.pool.size(), sums, numbers);
            self.pool.step(|t| {
                for Job { numbers, feature, pending } in write(&jobs[t]).iter_mut() {
                    let (column, n) = group.dense[*feature];
                    sum_bins(numbers, (index, column, n), pending, &merge, self.row_counts.any());
                }
            });
            drop(jobs);
            self.of.collective.sum_parts(sums, &parts)?;
            let own = &sums[parts[self.of.collective.rank()].clone()];
            let sizes: Vec<usize> = group.shares.iter().map(|share| read(share).slot_size()).collect();
            let node: usize = sizes.iter().sum();
            self.pool.step(|t| {
                let first: usize = sizes[..t].iter().sum();
                write(&group.shares[t]).take_sums(&merge, |i| &own[i * node + first..][..sizes[t]]);
            });
        }
        Ok(())
    }

    /// Returns the best split of each node, of those that each process has found among its features.
    ///
    /// # Errors
    /// Of the exchange.
    pub(super) fn best_of_all(&self, found: Vec<Option<FoundSplit>>) -> Result<Vec<Option<FoundSplit>>> {
        if self.of.is_whole() {
            return Ok(found);
        }
        let told = found.iter().flat_map(|found| self.split_words(found)).collect();
        let (mut best, ties) = (vec![None; found.len()], TieOrder(&self.groups));
        for words in self.tell(told)? {
            if words.len() != SPLIT * found.len() {
                return Err(garbage());
            }
            for (best, words) in best.iter_mut().zip(words.as_chunks::<SPLIT>().0) {
                *best = ties.best_of(*best, self.split_of(words)?);
            }
        }
        Ok(best)
    }

    /// Returns the best split of a level, and the sums on its left in each of so many nodes, of those that each process has found.
    ///
    /// # Errors
    /// Of the exchange.
    pub(super) fn best_level_of_all(&self, found: Option<(Candidate, Vec<Sums>)>, nodes: usize) -> Result<Option<(Candidate, Vec<Sums>)>> {
        if self.of.is_whole() {
            return Ok(found);
        }
        let words = |(candidate, left): (Candidate, Vec<Sums>)| {
            self.candidate_words(&candidate).into_iter().chain(left.iter().flat_map(sums_words)).collect::<Vec<i64>>()
        };
        let mut best: Option<(Candidate, Vec<Sums>)> = None;
        for words in self.tell(found.map(words).unwrap_or_default())?.iter().filter(|words| !words.is_empty()) {
            if words.len() != CANDIDATE + SUMS * nodes {
                return Err(garbage());
            }
            let (candidate, left) = words.split_at(CANDIDATE);
            let candidate = self.candidate_of(candidate)?;
            if best.as_ref().is_none_or(|(best, _)| TieOrder(&self.groups).better(&candidate, best)) {
                best = Some((candidate, left.chunks_exact(SUMS).map(sums_of).collect()));
            }
        }
        Ok(best)
    }

    /// Returns so many sums over all rows, which any process knows that has features.
    ///
    /// # Errors
    /// Of the exchange.
    pub(super) fn sums_of_any(&self, own: Option<Vec<Sums>>, outputs: usize) -> Result<Option<Vec<Sums>>> {
        if self.of.is_whole() {
            return Ok(own);
        }
        let told = self.tell(own.iter().flatten().flat_map(sums_words).collect())?;
        let Some(words) = told.iter().find(|words| !words.is_empty()) else { return Ok(None) };
        if words.len() != SUMS * outputs {
            return Err(garbage());
        }
        Ok(Some(words.chunks_exact(SUMS).map(sums_of).collect()))
    }

    /// Tells numbers to all processes, and returns what each has told.
    fn tell(&self, own: Vec<i64>) -> Result<Vec<Vec<i64>>> {
        let bytes: Vec<u8> = own.iter().flat_map(|word| word.to_le_bytes()).collect();
        let words = |bytes: Vec<u8>| bytes.as_chunks::<8>().0.iter().map(|word| i64::from_le_bytes(*word)).collect();
        Ok(self.of.collective.gather_bytes(&bytes)?.into_iter().map(words).collect())
    }

    fn split_of(&self, words: &[i64; SPLIT]) -> Result<Option<FoundSplit>> {
        let (candidate, rest) = words[1..].split_at(CANDIDATE);
        let (left, subset) = rest.split_at(SUMS);
        if words[0] == 0 {
            return Ok(None);
        }
        let subset = (words[0] == 2).then(|| CodeSet::from_words(std::array::from_fn(|i| subset[i] as u64)));
        Ok(Some(FoundSplit { candidate: self.candidate_of(candidate)?, left: sums_of(left), subset }))
    }

    fn split_words(&self, found: &Option<FoundSplit>) -> [i64; SPLIT] {
        let mut words = [0; SPLIT];
        let Some(FoundSplit { candidate, left, subset }) = found else { return words };
        words[0] = 1 + subset.is_some() as i64;
        let subset = subset.map_or([0; SUBSET], |subset| subset.words().map(|word| word as i64));
        for (to, word) in words[1..].iter_mut().zip(self.candidate_words(candidate).into_iter().chain(sums_words(left)).chain(subset)) {
            *to = word;
        }
        words
    }

    /// Returns a candidate as it is told. Its feature is told by the place of its group and its own one there: numbers of features are by what a
    /// process had no memory to keep.
    fn candidate_words(&self, candidate: &Candidate) -> [i64; CANDIDATE] {
        let (group, inside) = group_of(&self.groups, candidate.feature as usize);
        let [gain, rank] = [candidate.gain, candidate.rank].map(|x| x.to_bits() as i64);
        [self.groups[group].place as i64, inside as i64, i64::from(candidate.border), candidate.missing_left as i64, gain, rank]
    }

    /// Reads a candidate, of which everything that is an index is one of this fit.
    fn candidate_of(&self, words: &[i64]) -> Result<Candidate> {
        let &[place, inside, border, missing_left, gain, rank] = words else { return Err(garbage()) };
        let [place, inside] = [place, inside].map(|index| usize::try_from(index).ok());
        let group = place.and_then(|place| open_groups(&self.groups).nth(place)).ok_or_else(garbage)?;
        let end = self.groups.get(group + 1).map_or(self.features.len(), |next| next.first);
        let feature = inside.and_then(|inside| (self.groups[group].first..end).nth(inside)).ok_or_else(garbage)?;
        let of = &self.features[feature];
        let (gain, rank) = (f64::from_bits(gain as u64), f64::from_bits(rank as u64));
        if !(0..=of.borders.len() as i64).contains(&border) || gain.is_nan() || rank.is_nan() {
            return Err(garbage());
        }
        Ok(Candidate { feature: feature as u32, border: border as u32, missing_left: missing_left != 0, gain, rank })
    }
}

/// Returns which numbers are of the features that each process searches: `[process][pending][feature]`.
fn parts(group: &Group, pending: usize, numbers: impl Fn(usize) -> usize) -> Vec<Range<usize>> {
    let mut end = 0;
    let part = |features: &Range<usize>| {
        let start = end;
        end += pending * features.clone().map(&numbers).sum::<usize>();
        start..end
    };
    group.searched_by.iter().map(part).collect()
}

/// Deals the sums of all features in all smaller children to so many threads.
fn jobs<'r>(
    group: &Group,
    pending: &'r [Pending],
    threads: usize,
    mut room: &'r mut [i64],
    numbers: impl Fn(usize) -> usize,
) -> Vec<RwLock<Vec<Job<'r>>>> {
    let mut jobs: Vec<Vec<Job<'r>>> = (0..threads).map(|_| vec![]).collect();
    for features in &group.searched_by {
        for pending in pending {
            for feature in features.clone() {
                let (own, rest) = room.split_at_mut(numbers(feature));
                room = rest;
                jobs[feature * threads / group.dense.len()].push(Job { numbers: own, feature, pending });
            }
        }
    }
    jobs.into_iter().map(RwLock::new).collect()
}

fn garbage() -> Error {
    fault("another process tells something that is no split of this fit")
}

fn sums_words(sums: &Sums) -> [i64; SUMS] {
    [sums.gradient, sums.hessian, sums.count]
}

fn sums_of(words: &[i64]) -> Sums {
    Sums { gradient: words[0], hessian: words[1], count: words[2] }
}
