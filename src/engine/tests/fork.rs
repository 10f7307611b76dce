//! A forked process fits and predicts as its parent does, and never waits for a thread that its parent alone has.
#![cfg(unix)]

use serde_json::json;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use taiga_engine::learners::boosting::BoostingParams;
use taiga_engine::parallel::{fork, pools};
use taiga_testing::Dice;
use taiga_testing::contract::table;
use taiga_testing::forest::grow;

/// Runs `body` in a forked process; fails where that does not end well within a minute.
fn in_a_child(body: impl FnOnce()) {
    // SAFETY: the child has this thread alone. It runs our code, which is what is tested, and the allocator, which glibc
    // and macOS make usable there; it leaves by `_exit`, without what the parent has registered for its own end.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        let well = catch_unwind(AssertUnwindSafe(body)).is_ok();
        // SAFETY: ends the process.
        unsafe { libc::_exit(if well { 0 } else { 1 }) };
    }
    let begun = Instant::now();
    let mut status = 0;
    // SAFETY: asks about a process that is ours.
    while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
        if begun.elapsed() > Duration::from_secs(60) {
            // SAFETY: ends a process that is ours.
            unsafe { libc::kill(child, libc::SIGKILL) };
            // SAFETY: as above.
            unsafe { libc::waitpid(child, &mut status, 0) };
            panic!("the forked process hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(status, 0, "the forked process failed");
}

/// Proves that a child of a process that has fitted, and whose other threads fit at this moment and hold whatever they hold,
/// makes the same models on pools of its own, and so does the child's child.
#[test]
fn forked_processes_fit_like_their_parent() {
    let rows = table(20_000, 6, "rmse", 3);
    let boosted = |threads: u32| {
        let params = json!({ "rounds": 3, "depth": 4, "n_threads": threads });
        rows.fit(&BoostingParams::from_json(&params).unwrap()).to_bytes()
    };
    let forest = || grow(&rows, &taiga_testing::forest::params(json!({ "trees": 3, "n_threads": 2 }))).to_bytes();
    let mut dice = Dice::new(5);
    let lists: Vec<Vec<(i64, f64)>> = (0..5_000).map(|_| (0..10).map(|_| (dice.below(300) as i64, 1.0)).collect()).collect();
    let lists = taiga_testing::linear::Table::new(&lists, (0..5_000).map(|i| i % 2).collect(), 2);
    let linear = || lists.fit(json!({ "n_threads": 2 })).to_bytes();
    let all = || {
        // On a thread that is a pool of one, as a plugin's calls are; the child inherits that too.
        pools::keep_to_this_thread();
        (boosted(1), boosted(2), boosted(3), forest(), linear())
    };
    let expected = all();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for threads in [2, 3, 5] {
            let (boosted, over) = (&boosted, &over);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    boosted(threads);
                }
            });
        }
        let failed = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..10 {
                in_a_child(|| {
                    assert!(fork::generation() > 0);
                    assert_eq!(pools::idle_threads(), 0);
                    assert!(all() == expected);
                    in_a_child(|| assert!(all() == expected));
                });
            }
        }));
        over.store(true, Ordering::Relaxed);
        failed.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    assert_eq!(fork::generation(), 0);
}
