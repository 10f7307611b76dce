//! Threads that do the same with a shard of the rows each, on a GPU of its own, and exchange meanwhile what they know of theirs.

use super::driver_threads::DriverThreads;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use taiga_core::collective::{Collective, LocalCollective, local};
use taiga_core::error::{Error, Result};

/// The error of those that wait for a thread that does not come any more.
pub fn gone() -> Error {
    Error::Data("another GPU of this fit has ended".into())
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Deals rows to so many GPUs, as evenly as whole blocks allow: those that get none are not there, but for the first.
pub fn deal(rows: usize, gpus: usize, block: usize) -> Vec<Range<usize>> {
    let each = rows.div_ceil(gpus).next_multiple_of(block).max(block);
    (0..rows.div_ceil(each).max(1)).map(|k| k * each..rows.min((k + 1) * each)).collect()
}

/// One thread's end of the exchange, which it leaves where it fails, so that nobody waits for it.
pub struct ShardEnd {
    end: RwLock<Option<LocalCollective>>,
    rank: usize,
    world: usize,
    /// Whether an exchange failed: then another one's error says why.
    is_bereft: AtomicBool,
}

/// Makes the ends of an exchange between so many threads.
pub fn shard_ends(count: usize) -> Vec<ShardEnd> {
    let of = |end: LocalCollective| {
        let (rank, world) = (end.rank(), end.world());
        ShardEnd { rank, world, end: RwLock::new(Some(end)), is_bereft: AtomicBool::new(false) }
    };
    local(count).into_iter().map(of).collect()
}

impl ShardEnd {
    fn leave(&self) {
        drop(self.end.write().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn with<R>(&self, exchange: impl FnOnce(&LocalCollective) -> Result<R>) -> Result<R> {
        let end = self.end.read().unwrap_or_else(PoisonError::into_inner);
        let done = end.as_ref().ok_or_else(|| Error::Data("this fit has ended".into())).and_then(exchange);
        if done.is_err() {
            self.is_bereft.store(true, Ordering::Relaxed);
        }
        done
    }
}

impl Collective for ShardEnd {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world(&self) -> usize {
        self.world
    }

    fn max(&self, values: &mut [u32]) -> Result<()> {
        self.with(|end| end.max(values))
    }

    fn sum(&self, values: &mut [i64]) -> Result<()> {
        self.with(|end| end.sum(values))
    }

    fn exchange(&self, pieces: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        self.with(|end| end.exchange(pieces))
    }
}

/// Leaves the exchange, and says so, unless it is told that all went well.
struct Leaving<'a> {
    end: &'a ShardEnd,
    failed: &'a (dyn Fn() + Sync),
    stays: bool,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if !self.stays {
            (self.failed)();
            self.end.leave();
        }
    }
}

/// Does the same for each shard at once, by its number in the fit, each on its own thread; `failed` ends what others wait for in another way
/// than by the exchange.
///
/// # Errors
/// Of those that failed for themselves the first.
pub fn each<R: Send>(
    threads: &DriverThreads,
    ends: &[ShardEnd],
    failed: &(dyn Fn() + Sync),
    work: &(impl Fn(usize) -> Result<R> + Sync),
) -> Result<Vec<R>> {
    let answers: Vec<Mutex<Option<Result<R>>>> = ends.iter().map(|_| Mutex::new(None)).collect();
    threads.run(&|rank| {
        let mut leaving = Leaving { end: &ends[rank], failed, stays: false };
        let answer = work(rank);
        leaving.stays = answer.is_ok();
        *lock(&answers[rank]) = Some(answer);
    });
    let answers: Vec<Result<R>> = answers.into_iter().filter_map(|own| own.into_inner().unwrap_or_else(PoisonError::into_inner)).collect();
    let is_told =
        |(answer, end): &(&Result<R>, &ShardEnd)| answer.as_ref().is_err_and(|e| *e != gone()) && !end.is_bereft.load(Ordering::Relaxed);
    let first = answers.iter().zip(ends).position(|pair| is_told(&pair)).or_else(|| answers.iter().position(Result::is_err));
    match first {
        None => answers.into_iter().collect(),
        Some(failed) => Err(answers.into_iter().nth(failed).and_then(Result::err).unwrap_or(Error::Interrupted)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that all rows are dealt in order, in whole blocks but for the last, and to as few GPUs as have any.
    #[test]
    fn rows_are_dealt_in_whole_blocks() {
        for block in [1024, 16_384] {
            for rows in [1, 2, block - 1, block, block + 1, 2 * block, 5000, 1 << 20, 11_000_001] {
                for gpus in 1..=8 {
                    let dealt = deal(rows, gpus, block);
                    assert!((1..=gpus).contains(&dealt.len()) && dealt[0].start == 0 && dealt[dealt.len() - 1].end == rows);
                    assert!(dealt.windows(2).all(|pair| pair[0].end == pair[1].start && pair[0].len().is_multiple_of(block)));
                    assert!(dealt.iter().all(|rows| !rows.is_empty()));
                }
            }
        }
        assert_eq!(deal(3000, 2, 1024), [0..2048, 2048..3000]);
        assert!(deal(0, 3, 1024).iter().eq([&(0..0)]));
    }
}
