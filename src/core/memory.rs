//! Memory is asked for before it is taken: what would end the process on Linux is an error here.
//!
//! A stage of a fit, an encoding or a prediction says how much it will take at the least, all together, and [`reserve`]s it.
//! A [`Reservation`] stands for bytes that are promised and perhaps not taken yet: several stages that run at the same time
//! (the groups of a `group_by`) see each other's. Once a stage's arrays are filled they count by themselves and the
//! reservation may go.
//!
//! ```text
//! free    what was left when the first of the reservations that stand was made, corrected by what the system says now:
//!         no less than is left now, and no more than that and all promises together
//! ask     bytes <= free - promised; of addresses, twice as many
//! ```

pub mod limits;

use crate::error::{Error, Result};
use crate::parallel::fork::PerProcess;
use limits::MemoryLimit;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Writes a number of bytes as people read it: in B, kB, MB or GB.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

/// Returns bytes that the process can still have; none where the system does not say. On Linux what is free or can be freed, swap
/// included, as far as the process's control groups (version 1 and 2) and its own limits (`RLIMIT_AS`, `RLIMIT_DATA`) let it.
#[must_use]
pub fn available() -> Option<u64> {
    limits::all().iter().map(|limit| limit.left).min()
}

/// Limits the bytes that this process may hold as far as [`reserve`] is concerned; none lifts that. For tests: it says no to
/// what would take more, and takes nothing away from what is there.
pub fn limit(bytes: Option<u64>) {
    limits::OWN.store(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Less than this is not counted.
const TINY: u64 = 1 << 20;

/// Promises of less than this together are not worth asking the system about, unless the process has a limit of its own, which
/// is asked for cheaply.
const LITTLE: u64 = 32 << 20;

/// An allocator gives memory that was just freed back to the system after about a second.
const GIVEN_BACK: Duration = Duration::from_millis(1500);

/// Large arrays may lie where others lay that were freed. What is taken in small pieces, by any thread, needs addresses that nobody
/// had: at least so many bytes, and an eighth of what is asked for.
const PIECES: u64 = 64 << 20;

/// Returns what `bytes` need of a limit: of pages as many, of addresses twice as many. An allocator takes addresses in pieces that grow, and
/// keeps some without a use; a fit of 500,000 rows to 60 classes asked for 181 MB, and took 347 MB of addresses.
fn needed(bytes: u64, of_addresses: bool) -> u64 {
    if of_addresses { bytes.saturating_mul(2) } else { bytes }
}

/// The memory that is promised to fits under way, and what was free before.
#[derive(Default)]
struct Ledger {
    /// Of pages and of addresses.
    promised: [u64; 2],
    /// Of both: what was left before the promises that stand, where that was asked.
    free: [Option<u64>; 2],
}

static LEDGER: PerProcess<Mutex<Ledger>> = PerProcess::new();

/// Bytes that are promised to a stage that is about to take them, until it is dropped.
#[must_use = "a reservation ends where it is dropped"]
#[derive(Debug)]
pub struct Reservation(u64);

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.0 > 0 {
            let mut ledger = LEDGER.get().lock().unwrap_or_else(PoisonError::into_inner);
            for of_addresses in [false, true] {
                let promised = &mut ledger.promised[of_addresses as usize];
                *promised = promised.saturating_sub(needed(self.0, of_addresses));
            }
            if ledger.promised == [0; 2] {
                ledger.free = [None; 2];
            }
        }
    }
}

/// Reserves `bytes` for `what`: to be called with the sum of what a stage takes at the least, before the first of it is
/// allocated. `hint`: what would need less.
///
/// # Errors
/// [`Error::Memory`] with both figures where the process can't have as much.
///
/// ```
/// use taiga_core::memory::reserve;
/// let reserved = reserve("a table", 1 << 20, "use fewer rows").unwrap();
/// let table = vec![0u8; 1 << 20];
/// drop(reserved);
/// ```
pub fn reserve(what: &str, bytes: u64, hint: &str) -> Result<Reservation> {
    if bytes < TINY {
        return Ok(Reservation(0));
    }
    let until = Instant::now() + GIVEN_BACK;
    loop {
        let mut ledger = LEDGER.get().lock().unwrap_or_else(PoisonError::into_inner);
        let little = ledger.promised[0].saturating_add(bytes) < LITTLE && !limits::of_process_is_set();
        let refusal = if little { None } else { ledger.refusal(bytes, &limits::all()) };
        let Some(Refusal { limit, free }) = refusal else {
            for of_addresses in [false, true] {
                ledger.promised[of_addresses as usize] += needed(bytes, of_addresses);
            }
            return Ok(Reservation(bytes));
        };
        let others = ledger.promised[limit.of_addresses as usize];
        drop(ledger);
        let never = bytes > limit.most;
        if never || limit.of_addresses || Instant::now() >= until {
            let others = if others == 0 { String::new() } else { format!(" beside {} for other work that runs", size(others)) };
            return Err(Error::Memory(format!(
                "{what} needs at least {}, and {} {} free{others}; {hint}",
                size(needed(bytes, limit.of_addresses)),
                limit.subject,
                size(free)
            )));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Reserves as [`reserve`] does, for a moment: where what is taken next counts by itself at once.
///
/// # Errors
/// Those of [`reserve`].
pub fn check(what: &str, bytes: u64, hint: &str) -> Result<()> {
    reserve(what, bytes, hint).map(drop)
}

/// Returns a product of numbers that may be beyond 64 bits.
#[must_use]
pub fn product(factors: &[u64]) -> u64 {
    factors.iter().fold(1, |product: u64, factor| product.saturating_mul(*factor))
}

/// Returns a sum of numbers that may be beyond 64 bits.
#[must_use]
pub fn sum(parts: &[u64]) -> u64 {
    parts.iter().fold(0, |sum: u64, part| sum.saturating_add(*part))
}

/// Addresses that no large array takes, for small pieces: where these can't be had the process ends.
const FOR_PIECES: u64 = PIECES / 2;

/// Checks that a large array of `bytes`, which was just made for `what`, leaves addresses for small pieces.
///
/// # Errors
/// [`Error::Memory`].
pub fn check_room(what: &str, bytes: u64) -> Result<()> {
    match limits::of_process_is_set() && addresses_left() < FOR_PIECES {
        true => Err(refused(what, bytes.saturating_add(FOR_PIECES))),
        false => Ok(()),
    }
}

/// Returns the error where the system gives no memory that [`reserve`] thought was there.
pub fn refused(what: &str, bytes: u64) -> Error {
    let least = limits::all().into_iter().min_by_key(|limit| limit.left);
    let free = least.map_or_else(|| "the system refuses".into(), |limit| format!("{} {} free", limit.subject, size(limit.left)));
    Error::Memory(format!("{what} needs at least {} in one piece, and {free}", size(bytes)))
}

/// A limit that says no, and what it leaves.
struct Refusal {
    limit: MemoryLimit,
    free: u64,
}

impl Ledger {
    /// Returns the limit that leaves less than `bytes`, beside what is promised.
    fn refusal(&mut self, bytes: u64, limits: &[MemoryLimit]) -> Option<Refusal> {
        let mut refusal = None;
        for of_addresses in [false, true] {
            let Some(limit) = limits.iter().filter(|l| l.of_addresses == of_addresses).min_by_key(|l| l.left) else { continue };
            let known = &mut self.free[of_addresses as usize];
            let (needed, promised) = (needed(bytes, of_addresses), self.promised[of_addresses as usize]);
            let most = limit.left.saturating_add(promised);
            let before = known.map_or(most, |free| free.clamp(limit.left, most));
            *known = Some(before);
            let free = before - promised.min(before);
            // What all that is promised lacks, this included: others count on what is kept as well.
            let lacking = needed.saturating_add(promised).saturating_sub(before);
            // Twice: what another thread gives back in just that moment is not kept.
            let kept = || limit.left >= PIECES.max(bytes / 8) && (0..2).all(|_| reusable(lacking, limit.left, addresses_left));
            if needed > free && !(of_addresses && kept()) {
                refusal = Some(Refusal { limit: *limit, free });
            }
        }
        refusal
    }
}

/// Addresses that the process can still have.
fn addresses_left() -> u64 {
    limits::all().iter().filter(|l| l.of_addresses).map(|l| l.left).min().unwrap_or(u64::MAX)
}

/// Tells whether the allocator has `bytes` of addresses that were freed and kept, as some do. Only pieces are tried that are larger
/// than what the system would still give (`left`), so that none of that is taken from anybody meanwhile. Where a thread has ended
/// since `left` was asked for, the system gives such a piece after all: what it gave, by `left_now`, does not count.
fn reusable(bytes: u64, left: u64, left_now: impl Fn() -> u64) -> bool {
    let before = left_now();
    let least = left.saturating_add(TINY);
    let (mut pieces, mut found, mut size) = (vec![], 0u64, bytes.max(least));
    while found < bytes && size >= least && size <= isize::MAX as u64 {
        let mut piece: Vec<u8> = vec![];
        if piece.try_reserve_exact(size as usize).is_ok() {
            pieces.push(std::hint::black_box(piece));
            found += size;
        } else {
            size /= 2;
        }
    }
    found.saturating_sub(before.saturating_sub(left_now())) >= bytes
}

/// Asks for a line that is read soon.
#[inline(always)]
pub fn prefetch_near(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing; any address is allowed.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(p as *const i8)
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_an_error_with_both_figures() {
        assert!(check("a test", 1, "no").is_ok());
        if available().is_some() {
            let e = check("a test", 1 << 60, "ask for less").expect_err("an exabyte");
            assert!(matches!(e, Error::Memory(_)) && e.to_string().contains("a test needs at least 1152921504.61 GB"), "{e}");
            assert!(e.to_string().contains("ask for less") && e.to_string().contains(" free"), "{e}");
        }
    }

    fn limit_of(left: u64) -> [MemoryLimit; 1] {
        [MemoryLimit { subject: "the machine has", of_addresses: false, most: 1000, left }]
    }

    /// Proves that promises that are not taken yet are not given away twice, that those that are taken do not count twice, and
    /// that memory which others free or take meanwhile is seen.
    #[test]
    fn promises_count_until_they_are_taken_and_no_longer() {
        let mut ledger = Ledger::default();
        let mut free_at = |promised: u64, left: u64| {
            ledger.promised = [promised; 2];
            (0..=1000).rev().find(|bytes| ledger.refusal(*bytes, &limit_of(left)).is_none()).unwrap()
        };
        assert_eq!(free_at(0, 100), 100);
        assert_eq!(free_at(60, 100), 40, "promised, and none of it taken");
        assert_eq!(free_at(60, 70), 40, "half of it taken");
        assert_eq!(free_at(60, 40), 40, "all of it taken");
        assert_eq!(free_at(60, 10), 10, "others have taken 30 more");
        assert_eq!(free_at(60, 90), 30, "and given back: 90 are left, of which 60 may be promised");
        assert_eq!(free_at(60, 500), 440, "much more was freed");
    }

    /// Proves that a piece which the system gave, and not what the allocator had kept, is none that can be used again: a thread
    /// that ends between two questions would make it so.
    #[test]
    fn what_the_system_gives_is_not_what_was_kept() {
        use std::cell::Cell;
        let asked = Cell::new(0);
        let left = |figures: [u64; 2]| {
            asked.set(0);
            let asked = &asked;
            move || figures[asked.replace(1)]
        };
        let bytes = 64 << 20;
        assert!(reusable(bytes, 1 << 20, left([1 << 20, 1 << 20])), "the system gave nothing");
        assert!(!reusable(bytes, 1 << 20, left([99 << 20, 35 << 20])), "the system gave all of it");
        assert!(!reusable(bytes, 1 << 20, left([99 << 20, 98 << 20])), "and a part of it");
    }

    /// Proves that no limit is asked for what is tiny, and that a reservation that is dropped is forgotten.
    #[test]
    fn a_reservation_ends_where_it_is_dropped() {
        let kept = reserve("a test", TINY, "no").unwrap();
        assert_eq!(kept.0, TINY);
        assert_eq!(reserve("a test", TINY - 1, "no").unwrap().0, 0);
        drop(kept);
        assert_eq!((product(&[u64::MAX, 3]), sum(&[u64::MAX, 1])), (u64::MAX, u64::MAX));
        assert_eq!((product(&[2, 3, 5]), sum(&[2, 3, 5])), (30, 10));
    }
}
