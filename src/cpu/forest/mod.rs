//! Random forests on this process's threads.

pub mod evaluate_splits;
pub mod grow;
