//! Threads, and what becomes of work on them: the pools that every computation takes its threads from, what a process
//! that was forked does with them, and how work that is under way is ended.
//!
//! - [`pools`]: thread pools by their size. They are kept from one computation to the next and end when nobody has used
//!   them for some seconds.
//! - [`fork`]: values of which a forked process gets new ones. No thread survives a fork, and a lock may have been held
//!   by one.
//! - [`numbered`]: pieces of work on the threads of the pool that the caller is in.
//! - [`interrupt`]: work in blocks that looks, between them, whether it is still wanted (Ctrl-C).

pub mod fork;
pub mod interrupt;
pub mod numbered;
pub mod once;
pub mod pools;
pub mod thread_pool;
