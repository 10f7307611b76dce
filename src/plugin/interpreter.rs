//! Python's interpreter, from within expressions.

use pyo3::ffi::{Py_IsInitialized, PyGILState_Ensure, PyGILState_Release, PyGILState_STATE};
use pyo3::prelude::*;

/// Why nothing comes of a call where there is no interpreter any more.
pub const ENDED: &str = "Python has ended";

/// This thread has the interpreter until it is dropped.
struct Held(PyGILState_STATE);

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: of the call that made it, by the same thread, which made others in between and dropped them.
        unsafe { PyGILState_Release(self.0) };
    }
}

/// Calls `body` with the interpreter, which Polars has given up; none where Python has not begun or has ended.
///
/// `Python::attach` won't do here. It counts by itself whether this thread has the interpreter, and where `body` runs a query Polars gives
/// the interpreter up behind that count's back: an expression of that query, on this very thread, would take it for had. This asks the
/// interpreter each time. What holds a value of Python beyond `body` gives it back when pyo3 is next at work.
pub fn attached<R>(body: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    // SAFETY: it may be called at any time.
    if unsafe { Py_IsInitialized() } == 0 {
        return None;
    }
    // SAFETY: any thread may call it once Python has begun, whether it has the interpreter or not.
    let held = Held(unsafe { PyGILState_Ensure() });
    // SAFETY: this thread has the interpreter as long as `held` is there, which outlives the call; the token does not leave it.
    let done = body(unsafe { Python::assume_attached() });
    drop(held);
    Some(done)
}
