//! Work on numbered pieces, on all threads of the Rayon pool that the caller is in. All of it goes through one function of Rayon's, which is
//! compiled once: a parallel iterator of its own costs each place some kilobytes of code and a quarter of a second of the compiler's.

use rayon::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What numbered pieces of work have come to, whoever is through with which.
pub struct Slots<R>(Vec<Mutex<Option<R>>>);

impl<R> Slots<R> {
    /// Makes room for so many.
    pub fn new(count: usize) -> Slots<R> {
        Slots((0..count).map(|_| Mutex::new(None)).collect())
    }

    /// Keeps what the piece `i` has come to.
    pub fn put(&self, i: usize, result: R) {
        *lock(&self.0[i]) = Some(result);
    }

    /// Returns all results that were kept, in order.
    pub fn into_vec(self) -> Vec<R> {
        self.0.into_iter().filter_map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
    }
}

/// Calls `work(i)` for each `i` below `count`; a thread takes `least` of them at a time, or more.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// let sum = AtomicUsize::new(0);
/// taiga_core::parallel::numbered::for_each(100, 8, &|i| drop(sum.fetch_add(i, Ordering::Relaxed)));
/// assert_eq!(sum.into_inner(), 4950);
/// ```
pub fn for_each(count: usize, least: usize, work: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().with_min_len(least.max(1)).for_each(work);
}

/// Calls `work(memory, i)` for each `i` below `count`; a thread uses its `memory` again from one to the next.
pub fn for_each_with<M>(count: usize, memory: impl Fn() -> M + Sync, work: impl Fn(&mut M, usize) + Sync) {
    let next = AtomicUsize::new(0);
    for_each(rayon::current_num_threads().min(count), 1, &|_| {
        let mut memory = memory();
        loop {
            match next.fetch_add(1, Ordering::Relaxed) {
                i if i < count => work(&mut memory, i),
                _ => return,
            }
        }
    });
}

/// Returns what `work(i)` gives for each `i` below `count`, in order; a thread takes `least` of them at a time, or more.
///
/// ```
/// assert_eq!(taiga_core::parallel::numbered::map(4, 1, |i| 10 * i), [0, 10, 20, 30]);
/// ```
pub fn map<R: Send>(count: usize, least: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let made = Slots::new(count);
    for_each(count, least, &|i| made.put(i, work(i)));
    made.into_vec()
}

/// Returns what `work(item)` gives for each item, in order.
pub fn map_items<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let made = Slots::new(items.len());
    let items: Vec<Mutex<Option<T>>> = items.into_iter().map(|item| Mutex::new(Some(item))).collect();
    for_each(items.len(), 1, &|i| {
        if let Some(item) = lock(&items[i]).take() {
            made.put(i, work(item));
        }
    });
    made.into_vec()
}

/// Calls `work(i, chunk)` for the `i`-th chunk of `size` items, the last of which may have fewer.
///
/// ```
/// let mut squares = [0; 10];
/// taiga_core::parallel::numbered::for_each_chunk(&mut squares, 4, |i, chunk| (4 * i..).zip(chunk).for_each(|(k, x)| *x = k * k));
/// assert_eq!(squares[8..], [64, 81]);
/// ```
pub fn for_each_chunk<T: Send>(items: &mut [T], size: usize, work: impl Fn(usize, &mut [T]) + Sync) {
    let chunks: Vec<Mutex<&mut [T]>> = items.chunks_mut(size.max(1)).map(Mutex::new).collect();
    for_each(chunks.len(), 1, &|i| work(i, &mut lock(&chunks[i])));
}

/// Returns what `work(i, chunk)` gives for the `i`-th chunk of `size` items, in order.
pub fn map_chunks<T: Send, R: Send>(items: &mut [T], size: usize, work: impl Fn(usize, &mut [T]) -> R + Sync) -> Vec<R> {
    let made = Slots::new(items.len().div_ceil(size.max(1)));
    for_each_chunk(items, size, |i, chunk| made.put(i, work(i, chunk)));
    made.into_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that each piece is done once and that results come in order, of none, of one and of many, on several threads.
    #[test]
    fn each_piece_is_done_once() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().expect("threads");
        for count in [0, 1, 2, 7, 1000] {
            pool.install(|| {
                let expected: Vec<usize> = (0..count).collect();
                assert_eq!(map(count, 3, |i| i), expected);
                assert_eq!(map_items(expected.iter().map(|i| vec![*i]).collect(), |item| item[0]), expected);
                let seen: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                for_each_with(count, Vec::new, |own: &mut Vec<usize>, i| {
                    own.push(i);
                    seen[i].fetch_add(1, Ordering::Relaxed);
                });
                assert!(seen.iter().all(|s| s.load(Ordering::Relaxed) == 1));
                let mut items = vec![0; count];
                let sizes = map_chunks(&mut items, 4, |i, chunk| {
                    (4 * i..).zip(&mut *chunk).for_each(|(k, x)| *x = k);
                    chunk.len()
                });
                assert_eq!((items, sizes.iter().sum::<usize>()), (expected, count));
            });
        }
    }

    /// Proves that a panic of a piece comes out.
    #[test]
    #[should_panic(expected = "seven")]
    fn a_panic_comes_out() {
        for_each(9, 1, &|i| assert!(i != 7, "seven"));
    }
}
