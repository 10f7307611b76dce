//! Ends work that is under way, on whatever threads it is done.
//!
//! Work looks between blocks of rows whether it is still wanted ([`poll`]); where it is not, it unwinds, as from a panic but
//! without a message, through rayon's pools to the [`catch`] around it, which gives [`Error::Interrupted`]. So a pass over rows needs
//! no second way out, and no loop over values looks at anything.
//!
//! A request is of the whole process: it ends all work that looks, until it is withdrawn. (What a fit's
//! [`Monitor`](crate::dataset::Monitor) says is of that fit alone.)

use crate::error::{Error, Result};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Rows of a pass between two looks: some tens of microseconds of the quickest passes.
pub const ROWS: usize = 1 << 16;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// The payload with which work that is no longer wanted unwinds.
pub struct Interrupted;

/// Asks all work under way to end. It may be called from a signal's handler.
pub fn request() {
    REQUESTED.store(true, Ordering::Relaxed);
}

/// Withdraws a request.
pub fn withdraw() {
    REQUESTED.store(false, Ordering::Relaxed);
}

/// Returns, or unwinds where work is asked to end: to [`catch`].
#[inline]
pub fn poll() {
    if REQUESTED.load(Ordering::Relaxed) {
        unwind();
    }
}

#[cold]
fn unwind() {
    // Unwinding twice at once would end the process.
    if !std::thread::panicking() {
        resume_unwind(Box::new(Interrupted));
    }
}

/// Divides `rows` into pieces of at most [`ROWS`], before each of which it [`poll`]s.
///
/// ```
/// use taiga_core::parallel::interrupt::pieces;
/// assert_eq!(pieces(5..70_000).collect::<Vec<_>>(), [5..65_541, 65_541..70_000]);
/// ```
pub fn pieces(rows: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    rows.clone().step_by(ROWS).map(move |start| {
        poll();
        start..rows.end.min(start + ROWS)
    })
}

/// Runs `body`, to its end or until it unwinds from [`poll`].
///
/// # Errors
/// [`Error::Interrupted`] where it did.
///
/// # Panics
/// When `body` does.
///
/// ```
/// use taiga_core::Error;
/// use taiga_core::parallel::interrupt::{catch, poll, request, withdraw};
/// request();
/// assert_eq!(catch(poll), Err(Error::Interrupted));
/// withdraw();
/// assert_eq!(catch(poll), Ok(()));
/// ```
pub fn catch<R>(body: impl FnOnce() -> R) -> Result<R> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| match payload.downcast::<Interrupted>() {
        Ok(_) => Error::Interrupted,
        Err(panic) => resume_unwind(panic),
    })
}
