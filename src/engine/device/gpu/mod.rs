//! All that the engine asks of GPUs, and the only place that knows whether this build has any: `cuda` answers with `taiga-cuda`,
//! `absent` in a build without it. Unit tests have a GPU of their own, `fake`, which runs out of memory when they want.
//!
//! GPUs are named by their number, none being the first that there is. Where there is none, every question is an error that says why.

#[cfg(all(feature = "cuda", not(test)))]
#[path = "cuda.rs"]
mod backend;

#[cfg(not(any(feature = "cuda", test)))]
#[path = "absent.rs"]
mod backend;

#[cfg(test)]
#[path = "fake.rs"]
mod backend;

pub(crate) use backend::*;
