//! Where the threads meet that drive the GPUs of a fit: they come and go within microseconds, many times a tree, so they wait awake.

use super::all_reduce::MOST_DEVICES;
use crate::runtime::shard_threads::gone;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use taiga_core::error::Result;

/// An address on each GPU of a fit.
pub type Addresses = [u64; MOST_DEVICES];

/// Addresses that a thread brings.
const EACH: usize = 4;

/// How long a thread waits awake.
const AWAKE: Duration = Duration::from_millis(2);

/// A place where so many threads exchange addresses.
pub struct Rendezvous {
    world: u32,
    arrived: AtomicU32,
    /// Meetings that are complete.
    round: AtomicU32,
    gone: AtomicBool,
    /// Of this meeting and of the one before, which some may still read.
    brought: [[[AtomicU64; EACH]; MOST_DEVICES]; 2],
}

impl Rendezvous {
    /// Makes one for `world` threads.
    pub fn new(world: usize) -> Rendezvous {
        let (arrived, round) = (AtomicU32::new(0), AtomicU32::new(0));
        Rendezvous { world: world as u32, arrived, round, gone: AtomicBool::new(false), brought: Default::default() }
    }

    /// Says that a thread does not come any more.
    pub fn leave(&self) {
        self.gone.store(true, Ordering::SeqCst);
    }

    /// Brings addresses of the thread `rank`, and returns all threads' when they are there.
    ///
    /// # Errors
    /// Where a thread does not come any more.
    pub fn exchange(&self, rank: usize, own: [u64; EACH]) -> Result<[Addresses; EACH]> {
        let round = self.round.load(Ordering::Acquire);
        let brought = &self.brought[round as usize % 2];
        brought[rank].iter().zip(own).for_each(|(place, address)| place.store(address, Ordering::Relaxed));
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.world {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.store(round.wrapping_add(1), Ordering::Release);
        }
        let start = Instant::now();
        while self.round.load(Ordering::Acquire) == round {
            if self.gone.load(Ordering::SeqCst) {
                return Err(gone());
            }
            if start.elapsed() < AWAKE { std::hint::spin_loop() } else { std::thread::sleep(AWAKE / 20) }
        }
        Ok(std::array::from_fn(|i| std::array::from_fn(|gpu| brought[gpu][i].load(Ordering::Relaxed))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that meetings follow one another without mixing, and that nobody waits for a thread that is gone.
    #[test]
    fn meetings_do_not_mix() {
        let place = Rendezvous::new(3);
        std::thread::scope(|scope| {
            for rank in 0..3 {
                let place = &place;
                scope.spawn(move || {
                    for i in 0..2000u64 {
                        let [a, b, ..] = place.exchange(rank, [i * 10 + rank as u64, i, 0, 0]).expect("all are there");
                        assert_eq!((&a[..3], &b[..3]), (&[i * 10, i * 10 + 1, i * 10 + 2][..], &[i, i, i][..]));
                    }
                });
            }
        });
        place.leave();
        assert!(place.exchange(0, [0; EACH]).is_err());
    }
}
