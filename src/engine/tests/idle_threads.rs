//! Threads end: those of sizes that nobody uses go, and all of them when nothing is fitted any more.
#![cfg(target_os = "linux")]

use serde_json::json;
use std::time::{Duration, Instant};
use taiga_engine::learners::boosting::BoostingParams;
use taiga_engine::parallel::pools;
use taiga_testing::contract::table;

/// The threads of this process that are ours.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    tasks.filter(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("taiga-"))).count()
}

/// Waits until `holds`, for a minute at most.
fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: {} threads", threads());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Proves that fits with 2 to 24 threads, one after the other and side by side, leave no more threads than twice the
/// machine's cores or twice the last fit's, that a series of fits keeps its threads, and that all end some seconds later.
#[test]
fn threads_that_nobody_uses_end() {
    // So many values keep 24 threads busy.
    let rows = table(40_000, 20, "rmse", 3);
    let fit = |threads: u32| {
        let params = json!({ "rounds": 1, "depth": 3, "n_threads": threads });
        rows.fit(&BoostingParams::from_json(&params).unwrap())
    };
    let cores = std::thread::available_parallelism().unwrap().get();
    let most = |size: usize| 2 * size.max(cores);
    for size in 2..=24 {
        fit(size);
        assert!(pools::idle_threads() <= most(size as usize), "{size}: {} threads", pools::idle_threads());
    }
    std::thread::scope(|scope| {
        (2..=24).for_each(|size| {
            scope.spawn(move || fit(size));
        });
    });
    assert!(pools::idle_threads() <= most(24), "{} threads", pools::idle_threads());
    // One more looks after them.
    wait_for("after fits side by side", || threads() <= most(24) + 1);

    fit(3);
    let ids = || -> Vec<_> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let mut ids: Vec<_> = tasks.map(|task| task.file_name()).collect();
        ids.sort();
        ids
    };
    let before = ids();
    (0..20).for_each(|_| {
        fit(3);
    });
    let new = ids().into_iter().filter(|id| !before.contains(id)).count();
    assert!(new <= 1, "{new} new threads in a series of fits");

    wait_for("after some seconds", || threads() == 0);
    assert_eq!(pools::idle_threads(), 0);
    // And they come again.
    fit(4);
    assert!(threads() >= 4);
}
