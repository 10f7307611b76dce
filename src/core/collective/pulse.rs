//! Long work that exchanges nothing, and a pulse beside it: whoever is lost meanwhile is noticed, and whoever works long is no one that is
//! silent.

use super::{Collective, fault};
use crate::error::{Error, Result};
use crate::parallel::interrupt::catch;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// The time between two beats: a part of what has gone by, and no more than what a lost process may go unnoticed for.
const PART: u32 = 16;
const LEAST: Duration = Duration::from_millis(1);
const MOST: Duration = Duration::from_millis(200);

/// Does `work`, which exchanges nothing, while a thread beside it exchanges a beat with all other shards again and again; returns when all
/// have done theirs. What `work` is given says whether another shard is gone: then it is to end, with whatever error.
///
/// # Errors
/// Those of `work`, and of the collective.
///
/// ```
/// use taiga_core::collective::{Collective, local, pulse::with_pulse};
/// let done: Vec<usize> = std::thread::scope(|scope| {
///     let shard = |end: taiga_core::collective::LocalCollective| scope.spawn(move || with_pulse(&end, |_| Ok(end.rank())));
///     let threads: Vec<_> = local(3).into_iter().map(shard).collect();
///     threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
/// });
/// assert_eq!(done, [0, 1, 2]);
/// ```
pub fn with_pulse<R>(collective: &dyn Collective, work: impl FnOnce(&(dyn Fn() -> bool + Sync)) -> Result<R>) -> Result<R> {
    if collective.world() == 1 {
        return work(&|| false);
    }
    let lost = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (done, is_done) = channel();
        let lost = &lost;
        let pulse = move || {
            let ended = catch(|| beat(collective, &is_done)).and_then(|ended| ended);
            lost.store(ended.is_err(), Ordering::Relaxed);
            ended
        };
        let pulse = Builder::new().spawn_scoped(scope, pulse).map_err(|error| fault(format!("no thread can be started: {error}")))?;
        let result = work(&|| lost.load(Ordering::Relaxed));
        if result.is_ok() {
            // A pulse that has ended says why below.
            let _ = done.send(());
        }
        drop(done);
        match (result, pulse.join().unwrap_or_else(|panic| resume_unwind(panic))) {
            (Ok(_) | Err(Error::Interrupted), Err(of_pulse)) => Err(of_pulse),
            (result, _) => result,
        }
    })
}

/// Exchanges beats until all shards are done, or until this one ends without being done.
fn beat(collective: &dyn Collective, is_done: &Receiver<()>) -> Result<()> {
    let (begun, mut busy) = (Instant::now(), true);
    loop {
        // One that is done waits for the others in the exchange.
        if busy {
            match is_done.recv_timeout((begun.elapsed() / PART).clamp(LEAST, MOST)) {
                Ok(()) => busy = false,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
        let mut others = [u32::from(busy)];
        collective.max(&mut others)?;
        if others == [0] {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::local;

    /// Proves that work in one shard ends when another is gone, and that both errors are told.
    #[test]
    fn work_ends_when_a_shard_is_gone() {
        let work = |rank: usize, lost: &(dyn Fn() -> bool + Sync)| -> Result<()> {
            if rank == 1 {
                return Err(Error::Data("this one fails".into()));
            }
            while !lost() {
                std::thread::sleep(LEAST);
            }
            Err(Error::Interrupted)
        };
        let errors: Vec<String> = std::thread::scope(|scope| {
            let shard = |end: crate::collective::LocalCollective| {
                scope.spawn(move || with_pulse(&end, |lost| work(end.rank(), lost)).unwrap_err().to_string())
            };
            let threads: Vec<_> = local(3).into_iter().map(shard).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(errors[1], "this one fails");
        assert!(errors[0].contains("another shard of this fit has ended") && errors[2] == errors[0], "{errors:?}");
    }

    /// Proves that shards of different speeds wait for each other.
    #[test]
    fn the_slow_are_waited_for() {
        let ends = std::thread::scope(|scope| {
            let shard = |end: crate::collective::LocalCollective| {
                scope.spawn(move || {
                    let wait = Duration::from_millis(30 * end.rank() as u64);
                    let slow = |_: &(dyn Fn() -> bool + Sync)| {
                        std::thread::sleep(wait);
                        Ok(Instant::now())
                    };
                    with_pulse(&end, slow)
                })
            };
            let threads: Vec<_> = local(3).into_iter().map(shard).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Result<Vec<_>>>()
        });
        assert_eq!(ends.map(|ends| ends.len()), Ok(3));
    }
}
