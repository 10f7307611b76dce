//! Numbers that come out the same everywhere: see the contract in `docs/numerics.md`.

pub mod censored;
pub mod city;
pub mod fixed;
pub mod hash;
pub mod math;
pub mod random;
pub mod reduce;
