//! What the threads of a spin_pool are made of: the standard library's, in whose place loom/ puts those of a model.

pub use std::hint::spin_loop;
pub use std::sync::atomic::{AtomicBool, AtomicUsize};
pub use std::sync::{Arc, Condvar, Mutex, MutexGuard};
pub use std::thread;

/// How often a waiting thread looks before it lets others run, and how often it does that before it sleeps.
pub const LOOKS: usize = if cfg!(miri) { 2 } else { 2_000 };
pub const YIELDS: usize = if cfg!(miri) { 2 } else { 50 };
