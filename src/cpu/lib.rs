//! This process's threads: the reference for every other device.

pub mod columns;
pub mod forest;
pub mod linear;
pub mod trees;
