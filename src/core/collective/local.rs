//! Shards of one process, each on a thread of its own.

use super::{Collective, fault};
use crate::error::{Error, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The numbers that a shard brings to an exchange.
enum Contribution {
    Max(Vec<u32>),
    Sum(Vec<i64>),
    Exchange(Vec<Vec<u8>>),
}

#[derive(Default)]
struct MeetingState {
    shares: Vec<Option<Arc<Contribution>>>,
    /// Shards that have not yet read what was brought.
    readers: usize,
    /// Exchanges that are complete.
    round: u64,
    /// Whether a shard is gone.
    gone: bool,
}

struct Meeting {
    state: Mutex<MeetingState>,
    changed: Condvar,
}

/// One shard's end of the exchange.
pub struct LocalCollective {
    meeting: Arc<Meeting>,
    rank: usize,
    world: usize,
}

/// Makes the ends of an exchange between `world` shards, each for a thread of its own. A shard that drops its end before the others do is
/// gone for them.
///
/// ```
/// use taiga_core::collective::{Collective, local};
/// let sums: Vec<i64> = std::thread::scope(|scope| {
///     let shard = |(rank, end): (usize, taiga_core::collective::LocalCollective)| {
///         scope.spawn(move || {
///             let mut values = [rank as i64 + 1];
///             end.sum(&mut values).map(|()| values[0])
///         })
///     };
///     let threads: Vec<_> = local(3).into_iter().enumerate().map(shard).collect();
///     threads.into_iter().map(|t| t.join().unwrap().unwrap()).collect()
/// });
/// assert_eq!(sums, [6, 6, 6]);
/// ```
pub fn local(world: usize) -> Vec<LocalCollective> {
    let state = MeetingState { shares: vec![None; world], ..MeetingState::default() };
    let meeting = Arc::new(Meeting { state: Mutex::new(state), changed: Condvar::new() });
    (0..world).map(|rank| LocalCollective { meeting: meeting.clone(), rank, world }).collect()
}

fn gone() -> Error {
    fault("another shard of this fit has ended")
}

impl LocalCollective {
    fn lock(&self) -> MutexGuard<'_, MeetingState> {
        self.meeting.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while `waits` holds.
    fn wait(&self, state: MutexGuard<'_, MeetingState>, waits: impl Fn(&MeetingState) -> bool) -> Result<()> {
        let state = self.meeting.changed.wait_while(state, |s| waits(s) && !s.gone).unwrap_or_else(PoisonError::into_inner);
        if waits(&state) { Err(gone()) } else { Ok(()) }
    }

    /// Brings a share, and returns all shards' when they are there.
    fn exchange_all(&self, own: Contribution) -> Result<Vec<Arc<Contribution>>> {
        // The exchange before this one has been read by all.
        self.wait(self.lock(), |s| s.readers > 0)?;
        let mut state = self.lock();
        let round = state.round;
        state.shares[self.rank] = Some(Arc::new(own));
        if state.shares.iter().all(Option::is_some) {
            (state.round, state.readers) = (round + 1, self.world);
            self.meeting.changed.notify_all();
        }
        self.wait(state, |s| s.round == round)?;
        let mut state = self.lock();
        let all = state.shares.iter().flatten().cloned().collect();
        state.readers -= 1;
        if state.readers == 0 {
            state.shares.fill(None);
            self.meeting.changed.notify_all();
        }
        Ok(all)
    }
}

impl Drop for LocalCollective {
    fn drop(&mut self) {
        self.lock().gone = true;
        self.meeting.changed.notify_all();
    }
}

fn mismatched() -> Error {
    fault("the shards of a fit ask for different things")
}

impl Collective for LocalCollective {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world(&self) -> usize {
        self.world
    }

    fn max(&self, values: &mut [u32]) -> Result<()> {
        for share in self.exchange_all(Contribution::Max(values.to_vec()))? {
            let Contribution::Max(other) = &*share else { return Err(mismatched()) };
            if other.len() != values.len() {
                return Err(mismatched());
            }
            values.iter_mut().zip(other).for_each(|(a, b)| *a = (*a).max(*b));
        }
        Ok(())
    }

    fn sum(&self, values: &mut [i64]) -> Result<()> {
        let shares = self.exchange_all(Contribution::Sum(values.to_vec()))?;
        values.fill(0);
        for share in shares {
            let Contribution::Sum(other) = &*share else { return Err(mismatched()) };
            if other.len() != values.len() {
                return Err(mismatched());
            }
            values.iter_mut().zip(other).for_each(|(a, b)| *a = a.wrapping_add(*b));
        }
        Ok(())
    }

    fn exchange(&self, pieces: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        let pieces = pieces.iter().map(|piece| piece.to_vec()).collect();
        let to_this = |share: Arc<Contribution>| match &*share {
            Contribution::Exchange(pieces) if pieces.len() == self.world => Ok(pieces[self.rank].clone()),
            _ => Err(mismatched()),
        };
        self.exchange_all(Contribution::Exchange(pieces))?.into_iter().map(to_this).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that exchanges follow one another without mixing, with shards of any speed, and that lists keep the shards' order.
    #[test]
    fn exchanges_do_not_mix() {
        let work = |(rank, end): (usize, LocalCollective)| {
            move || {
                for i in 0..500i64 {
                    if (i as usize + rank).is_multiple_of(97) {
                        std::thread::yield_now();
                    }
                    let (mut sum, mut max) = ([i, rank as i64], [rank as u32, 7]);
                    end.sum(&mut sum).unwrap();
                    end.max(&mut max).unwrap();
                    let list = end.gather(&vec![rank as f64; rank]).unwrap();
                    assert_eq!((sum, max, list), ([3 * i, 3], [2, 7], vec![1.0, 2.0, 2.0]));
                }
            }
        };
        std::thread::scope(|scope| {
            local(3).into_iter().enumerate().for_each(|end| drop(scope.spawn(work(end))));
        });
    }

    /// Proves that nobody waits for a shard that is gone.
    #[test]
    fn a_shard_that_is_gone_is_an_error() {
        let mut ends = local(2);
        drop(ends.pop());
        assert_eq!(ends[0].sum(&mut [1]), Err(gone()));
    }
}
