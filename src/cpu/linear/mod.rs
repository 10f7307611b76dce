//! Sparse logistic regression on this process's threads.

pub mod batches;
pub mod passes;
