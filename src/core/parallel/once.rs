//! What is made when it is first asked for, where that may fail.

use std::sync::OnceLock;

/// Returns what a cell holds, which `make` makes where it is empty. An error stays out of it: what lacked then may be there the next time. Two
/// threads that ask at once may both make it, and have the same one then.
///
/// # Errors
/// Those of `make`.
///
/// ```
/// use std::sync::OnceLock;
/// use taiga_core::parallel::once::get_or_try;
/// let cell = OnceLock::new();
/// assert_eq!(get_or_try(&cell, || Err("no memory")), Err("no memory"));
/// assert_eq!(get_or_try(&cell, || Ok::<_, &str>(7)), Ok(&7));
/// assert_eq!(get_or_try(&cell, || Err("never asked")), Ok(&7));
/// ```
pub fn get_or_try<T, E>(cell: &OnceLock<T>, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
    match cell.get() {
        Some(value) => Ok(value),
        None => make().map(|made| cell.get_or_init(|| made)),
    }
}
