//! `device="auto"` never fails for want of device memory: whenever it runs out, the CPU does all of the work, with the same bytes.
//!
//! These tests are ignored unless asked for (`make test-cuda`), and then fail without a GPU. Memory is the whole process's (and the
//! GPU's), so they take turns.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use taiga_engine::column::Column;
use taiga_engine::column::categories::CategoryColumn;
use taiga_engine::cuda::cudarc::driver::sys::CUmemPool_attribute as PoolAttribute;
use taiga_engine::cuda::cudarc::driver::{CudaSlice, result};
use taiga_engine::cuda::runtime::{Queue, memory};
use taiga_engine::dataset::{Monitor, Quiet};
use taiga_engine::device::columns::{with_columns, with_sorting_columns};
use taiga_engine::device::fallback::take_a_gpu_for_everything;
use taiga_engine::device::predict::{PlacedForest, PlacedPredictor};
use taiga_engine::device::{clear_device_cache, device_info};
use taiga_engine::encoding::target::{EncodingInput, EncodingKind, EncodingPlan, EncodingTarget, TargetParams};
use taiga_engine::learners::boosting::BoostingParams;
use taiga_engine::learners::boosting::model::apply::Predictor;
use taiga_engine::learners::forest::ForestParams;
use taiga_engine::learners::linear::LinearParams;
use taiga_engine::learners::{boosting, forest, linear};
use taiga_engine::quantize::BorderMethod;
use taiga_engine::quantize::borders::BorderParams;
use taiga_engine::stats::{AxisParams, Histogram2dParams, HistogramParams};
use taiga_engine::{Error, Result};
use taiga_testing::contract::table;
use taiga_testing::gpu::patterns;
use taiga_testing::gpu::{Gpu, gpu, say};
use taiga_testing::{Table, params};

/// One test at a time.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // Where the test before has failed.
    memory::limit_grants(None);
    take_a_gpu_for_everything(false);
    turn
}

/// The devices that a monitor is told of.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Monitor for Notes {
    fn device(&self, chosen: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(chosen.into());
    }
}

impl Notes {
    fn told(self) -> Vec<String> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives bytes of its result under a `device`, and tells where it is done.
type Work<'a> = Box<dyn Fn(&str, &dyn Monitor) -> Result<Vec<u8>> + Sync + 'a>;

/// What is fitted, predicted, counted and encoded.
struct Everything {
    numbers: Table,
    classes: Table,
    several: Table,
    text: Vec<CategoryColumn>,
    rows_of_features: taiga_testing::linear::Table,
    boosted: Predictor,
    grown: std::sync::Arc<forest::Predictor>,
}

fn fitted(t: &Table, p: Value, device: &str, monitor: &dyn Monitor) -> Result<Vec<u8>> {
    let p = BoostingParams { device: device.into(), n_threads: Some(1), ..params(p) };
    boosting::fit(&t.input(), &p, monitor).map(|model| model.to_bytes())
}

fn forest_of(t: &Table, p: Value, device: &str, monitor: &dyn Monitor) -> Result<forest::Forest> {
    let of = t.input();
    let input = forest::Input { features: of.features, target: of.target, target_name: of.target_name, weight: None };
    let p = ForestParams { device: device.into(), n_threads: Some(1), ..ForestParams::from_json(&p).expect("parameters") };
    forest::fit(&input, &p, monitor)
}

fn bytes(values: impl IntoIterator<Item = f64>) -> Vec<u8> {
    values.into_iter().flat_map(|x| x.to_bits().to_ne_bytes()).collect()
}

impl Everything {
    fn new(rows: usize) -> Everything {
        let r = patterns::random(40);
        let category = |stream: u64, kinds: u64| {
            let names: Vec<String> = (0..rows as u64).map(|i| format!("c{}", r.u64(stream * rows as u64 + i) % kinds)).collect();
            CategoryColumn::text(&format!("c{stream}"), &[rows], |_, i| Some(names[i].as_str())).expect("a column")
        };
        let numbers = table(rows, 6, "rmse", 4);
        let mut sparse = taiga_testing::linear::Table { offsets: vec![0], classes: 2, ..Default::default() };
        for i in 0..rows as u64 {
            sparse.numbers.extend((0..r.u64(i) % 12).map(|k| (r.u64(7 * i + k) % 5000) as i64));
            sparse.offsets.push(sparse.numbers.len() as i64);
            sparse.codes.push((r.u64(i + 3) % 7 < 3) as u32);
        }
        let model = numbers.fit(&params(json!({ "rounds": 5, "policy": "depthwise", "device": "cpu" })));
        let grown = forest_of(&numbers, json!({ "trees": 3, "depth": 8 }), "cpu", &Quiet).expect("a forest");
        Everything {
            classes: table(rows, 6, "logloss", 5),
            several: table(rows, 6, "multiclass", 6),
            numbers,
            text: vec![category(1, 30), category(2, 400), category(3, 9)],
            rows_of_features: sparse,
            boosted: Predictor::new(model),
            grown: std::sync::Arc::new(forest::Predictor::new(grown)),
        }
    }

    /// A fit with statistics of categories and of their combinations, whose memory is asked for in the middle.
    fn categories(&self, p: Value, device: &str, monitor: &dyn Monitor) -> Result<Vec<u8>> {
        let mut input = self.numbers.input();
        input.features.truncate(2);
        input.features.extend(self.text.iter().map(Column::categorical));
        let p = BoostingParams { device: device.into(), n_threads: Some(1), ..params(p) };
        boosting::fit(&input, &p, monitor).map(|model| model.to_bytes())
    }

    fn linear(&self, p: Value, device: &str, monitor: &dyn Monitor) -> Result<Vec<u8>> {
        let p = LinearParams { device: device.into(), n_threads: Some(1), ..taiga_testing::linear::params(p) };
        linear::fit(&self.rows_of_features.input(), &p, monitor).map(|model| model.to_bytes())
    }

    fn borders(&self, sample: usize, device: &str, monitor: &dyn Monitor) -> Result<Vec<u8>> {
        let p = BorderParams { bins: 101, method: BorderMethod::Quantile, sample, seed: 1 };
        let column = Column::from_f64("x", &self.numbers.columns[0]);
        with_sorting_columns(device, sample.min(column.len()), &|told| monitor.device(told), |backend| backend.borders(&column, &p))
            .map(bytes)
    }

    /// Everything that `"auto"` may take a GPU for.
    fn by_auto(&self) -> Vec<(&'static str, Work<'_>)> {
        vec![
            ("symmetric", Box::new(|d, m| fitted(&self.numbers, json!({ "rounds": 8, "depth": 5 }), d, m))),
            (
                "depthwise",
                Box::new(|d, m| fitted(&self.classes, json!({ "rounds": 4, "policy": "depthwise", "row_sample": "goss" }), d, m)),
            ),
            ("leafwise", Box::new(|d, m| fitted(&self.several, json!({ "rounds": 3, "policy": "leafwise", "leaves": 20 }), d, m))),
            ("quantiles", Box::new(|d, m| fitted(&self.numbers, json!({ "rounds": 3, "loss": "mae" }), d, m))),
            ("categories", Box::new(|d, m| self.categories(json!({ "rounds": 4, "max_combination": 2, "permutations": 3 }), d, m))),
            ("subsets", Box::new(|d, m| self.categories(json!({ "rounds": 3, "policy": "leafwise", "cat_method": "partition" }), d, m))),
            ("forest", Box::new(|d, m| forest_of(&self.numbers, json!({ "trees": 3, "depth": 8 }), d, m).map(|f| f.to_bytes()))),
            (
                "exact",
                Box::new(|d, m| {
                    forest_of(&self.several, json!({ "trees": 2, "depth": 6, "splitter": "exact" }), d, m).map(|f| f.to_bytes())
                }),
            ),
            (
                "random",
                Box::new(|d, m| {
                    forest_of(&self.classes, json!({ "trees": 2, "depth": 6, "splitter": "random" }), d, m).map(|f| f.to_bytes())
                }),
            ),
            ("lbfgs", Box::new(|d, m| self.linear(json!({ "epochs": 4 }), d, m))),
            ("ftrl", Box::new(|d, m| self.linear(json!({ "optimizer": "ftrl", "epochs": 2, "batch": 4096 }), d, m))),
            ("borders", Box::new(|d, m| self.borders(usize::MAX, d, m))),
            ("borders of a sample", Box::new(|d, m| self.borders(self.numbers.rows() * 2 / 3, d, m))),
        ]
    }

    /// Everything else that a GPU does, where it is named.
    fn by_name(&self) -> Vec<(&'static str, Work<'_>)> {
        let column = |i: usize| Column::from_f64(format!("x{i}"), &self.numbers.columns[i]);
        let axis = |bins: i64| AxisParams { bins: Some(bins), range: None, edges: None };
        let encoded = move |kind: EncodingKind, device: &str| {
            let (codes, y) = (&self.text[1], self.numbers.y());
            let input = EncodingInput {
                codes: &codes.codes,
                categories: codes.categories.len(),
                target: EncodingTarget::Numbers(&y),
                weight: None,
            };
            let p = TargetParams { kind, ..TargetParams::default() };
            let plan = EncodingPlan::random(y.len(), &p).unwrap_or(EncodingPlan::Plain);
            with_columns(device, |backend| backend.target_encode(&input, &plan, &p)).map(|v| bytes(v.concat()))
        };
        let predicted = move |device: &str| {
            let placed = PlacedPredictor::new(device, std::sync::Arc::new(Predictor::new(self.boosted.model().clone())))?;
            let columns: Vec<Column<'_>> = (0..6).map(column).collect();
            let columns: Vec<&Column<'_>> = columns.iter().collect();
            let mut all = bytes(placed.raw(&columns)?.concat());
            all.extend(placed.leaves(&columns)?.iter().flat_map(|leaf| leaf.to_ne_bytes()));
            all.extend(bytes(placed.staged(&columns)?.concat()));
            Ok(all)
        };
        let by_forest = move |device: &str| {
            let placed = PlacedForest::new(device, self.grown.clone())?;
            let columns: Vec<Column<'_>> = (0..6).map(column).collect();
            Ok(bytes(placed.predict(&columns.iter().collect::<Vec<_>>())?.concat()))
        };
        vec![
            ("min_max", Box::new(move |d, _| with_columns(d, |b| b.min_max(&column(0))).map(|m| format!("{m:?}").into_bytes()))),
            (
                "histogram",
                Box::new(move |d, _| {
                    let p = HistogramParams { axis: axis(40), density: false };
                    with_columns(d, |b| b.histogram(&column(0), Some(&column(3)), &p)).map(|h| format!("{h:?}").into_bytes())
                }),
            ),
            (
                "histogram2d",
                Box::new(move |d, _| {
                    let p = Histogram2dParams { x: axis(30), y: axis(20), density: false };
                    with_columns(d, |b| b.histogram2d(&column(0), &column(3), None, &p)).map(|h| format!("{h:?}").into_bytes())
                }),
            ),
            (
                "codes",
                Box::new(move |d, _| {
                    let codes = Mutex::new(vec![]);
                    let take = |block: usize, of_block: &[u16]| codes.lock().expect("codes").push((block, of_block.to_vec()));
                    with_columns(d, |b| b.codes(&column(0), &[-20.0, 0.5, 11.0], &take))?;
                    let mut codes = codes.into_inner().expect("codes");
                    codes.sort_unstable();
                    Ok(codes.into_iter().flat_map(|c| c.1).flat_map(u16::to_ne_bytes).collect())
                }),
            ),
            (
                "combine",
                Box::new(move |d, _| {
                    let columns: Vec<(&[u32], usize)> = self.text.iter().map(|c| (&c.codes[..], c.categories.len())).collect();
                    with_columns(d, |b| b.combine(&columns))
                        .map(|(codes, n)| codes.iter().flat_map(|c| c.to_ne_bytes()).chain([n as u8]).collect())
                }),
            ),
            ("ordered", Box::new(move |d, _| encoded(EncodingKind::Ordered, d))),
            ("kfold", Box::new(move |d, _| encoded(EncodingKind::Kfold, d))),
            ("full", Box::new(move |d, _| encoded(EncodingKind::Full, d))),
            ("predictions", Box::new(move |d, _| predicted(d))),
            ("predictions of a forest", Box::new(move |d, _| by_forest(d))),
        ]
    }
}

/// What happened under `"auto"`.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
enum Outcome {
    Gpu,
    /// Known before it was begun.
    Cpu,
    /// Begun on the GPU, and again on the CPU.
    Again,
}

/// Proves that the work under `"auto"` gives these bytes, and that what is told says where it was done and why not on the GPU.
fn check_auto(what: &str, work: &Work<'_>, expected: &[u8]) -> Outcome {
    let notes = Notes::default();
    let done = work("auto", &notes).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(done == expected, "{what}: other bytes than the CPU's");
    let told = notes.told();
    let last = told.last().unwrap_or_else(|| panic!("{what}: nothing was told"));
    match (told.len(), last.as_str()) {
        (1, last) if last.starts_with("cuda: ") => Outcome::Gpu,
        (1, last) if last.starts_with("cpu: ") && last.contains("memory") => Outcome::Cpu,
        (2, last) if last.starts_with("cpu: again from the start: GPU cuda:0: not enough memory: ") => Outcome::Again,
        _ => panic!("{what}: {told:?}"),
    }
}

/// What the driver has to give to any process.
fn free_to_all(gpu: &Gpu) -> u64 {
    gpu.queue.gpu().context().mem_get_info().expect("its memory").0 as u64
}

/// Bytes of the pool that buffers come from: those that this process has from the driver, and those in use.
fn pooled(gpu: &Gpu) -> (u64, u64) {
    let context = gpu.queue.gpu().context();
    context.bind_to_thread().expect("a context");
    let value = |attribute| {
        let mut value = 0u64;
        // SAFETY: the pool is the device's, and both attributes are u64.
        unsafe {
            let pool = result::device::get_default_mem_pool(context.cu_device()).expect("a pool");
            result::mem_pool::get_attribute(pool, attribute, &mut value as *mut u64 as *mut _).expect("an attribute");
        }
        value
    };
    (value(PoolAttribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), value(PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT))
}

/// Proves that a failure has left no memory with this process: nothing is in use that was not before, and what is free is the driver's,
/// but for a rest of the pieces that it gives it in. Whether that was so at once.
fn check_given_back(gpu: &Gpu, what: &str, before: (u64, u64)) -> bool {
    let given_back = || {
        let (had, used) = pooled(gpu);
        used <= before.1 && had <= before.0 + (64 << 20)
    };
    // Buffers are freed when the GPU comes there.
    let pause = || std::thread::sleep(std::time::Duration::from_millis(10));
    if (0..50).any(|_| {
        given_back() || {
            pause();
            false
        }
    }) {
        return true;
    }
    gpu.queue.gpu().release().expect("given back");
    assert!(
        (0..50).any(|_| given_back() || {
            pause();
            false
        }),
        "{what}: {before:?} before, {:?} after",
        pooled(gpu)
    );
    false
}

/// Proves that whichever request of some work for memory is the one that fails (the first, the second, …, and all behind it), `"auto"` gives
/// the bytes of the CPU and leaves no memory with this process. The first rounds are those in which kernels are loaded.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn auto_survives_a_failure_of_any_request_for_memory() {
    let (gpu, _turn) = (gpu(), turn());
    let everything = Everything::new(30_000);
    take_a_gpu_for_everything(true);
    for (what, work) in everything.by_auto() {
        let expected = work("cpu", &Quiet).expect("the CPU's");
        gpu.queue.gpu().release().expect("given back");
        let before = pooled(gpu);
        let (mut requests, mut late, mut outcomes) = (0, 0, vec![]);
        loop {
            memory::limit_grants(Some(requests));
            let outcome = check_auto(&format!("{what}, {requests} requests granted"), &work, &expected);
            let left = memory::limit_grants(None);
            outcomes.push(outcome);
            if outcome == Outcome::Gpu {
                assert!(left > 0 || requests > 0, "{what}: nothing was asked for");
                break;
            }
            late += !check_given_back(gpu, what, before) as u64;
            requests += 1;
        }
        let again = outcomes.iter().filter(|o| **o == Outcome::Again).count();
        say(&format!("{what}: {requests} requests, {again} of them in the middle; {late} times memory came back later"));
        assert!(again > 2, "{what}: {outcomes:?}");
    }
    take_a_gpu_for_everything(false);
}

/// Proves that where a GPU is named the same failures are errors that say what was needed, and that the work can be done afterwards.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn a_gpu_that_is_named_never_falls_back() {
    let (gpu, _turn) = (gpu(), turn());
    let everything = Everything::new(30_000);
    for (what, work) in everything.by_auto().into_iter().chain(everything.by_name()) {
        let expected = work("cpu", &Quiet).expect("the CPU's");
        let mut requests = 0;
        let done = loop {
            gpu.queue.gpu().release().expect("given back");
            memory::limit_grants(Some(requests));
            let done = work("cuda", &Quiet);
            let left = memory::limit_grants(None);
            match done {
                Ok(done) => break done,
                Err(e) => {
                    assert!(e.is_device_memory() && e.to_string().starts_with("GPU cuda:0: not enough memory: "), "{what}: {e}");
                    assert_eq!(left, 0, "{what}");
                }
            }
            requests += 1;
        };
        assert!(done == expected, "{what}: other bytes than the CPU's");
        assert!(requests > 2, "{what}: {requests} requests");
        say(&format!("{what}: {requests} requests"));
    }
}

/// Takes all memory but so many bytes (and up to 2 MiB), in pieces.
fn leave(gpu: &Gpu, bytes: u64) -> Vec<CudaSlice<u8>> {
    let (mut ballast, mut piece) = (vec![], 16u64 << 30);
    while piece >= 1 << 20 {
        let there = memory::of(gpu.queue.gpu()).expect("its memory").free >= bytes + piece;
        match there.then(|| gpu.queue.alloc("ballast", piece as usize)) {
            Some(Ok(slice)) => ballast.push(slice),
            _ => piece /= 2,
        }
    }
    ballast
}

/// Proves the same with memory that is really short: so much of it that the work does not begin on the GPU, that it ends in the
/// middle, and that there is enough.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn auto_finishes_whatever_memory_is_left() {
    let (gpu, _turn) = (gpu(), turn());
    let everything = Everything::new(400_000);
    take_a_gpu_for_everything(true);
    let works = everything.by_auto();
    let expected: Vec<Vec<u8>> = works.iter().map(|(_, work)| work("cpu", &Quiet).expect("the CPU's")).collect();
    let mut seen: Vec<BTreeSet<Outcome>> = vec![BTreeSet::new(); works.len()];
    for left in [0u64, 8, 24, 40, 56, 72, 80, 88, 96, 104, 112, 120, 136, 152, 168, 200, 232, 264, 328, 392, 520, 1100, 4000] {
        clear_device_cache().expect("cleared");
        let ballast = leave(gpu, left << 20);
        for (((what, work), expected), seen) in works.iter().zip(&expected).zip(&mut seen) {
            seen.insert(check_auto(&format!("{what}, {left} MiB left"), work, expected));
        }
        drop(ballast);
        gpu.queue.synchronize().expect("freed");
    }
    for ((what, _), seen) in works.iter().zip(&seen) {
        say(&format!("{what}: {seen:?}"));
        assert!(seen.contains(&Outcome::Gpu) && seen.len() > 1, "{what}: {seen:?}");
    }
    // Statistics of categories are asked for in the middle of a fit.
    let categories = works.iter().position(|(what, _)| *what == "categories").expect("categories");
    assert!(seen[categories].contains(&Outcome::Again), "{:?}", seen[categories]);
    gpu.queue.gpu().release().expect("given back");
    take_a_gpu_for_everything(false);
}

/// Proves that groups that are fitted at the same time, with memory for only some of them, are all fitted: those that have found
/// enough when they began, and then have not, too.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn groups_at_once_are_all_fitted() {
    let (gpu, _turn) = (gpu(), turn());
    take_a_gpu_for_everything(true);
    let groups: Vec<Table> = (0..8).map(|seed| table(600_000, 6, "rmse", seed)).collect();
    type Fit<'a> = &'a (dyn Fn(&Table, &str, &dyn Monitor) -> Result<Vec<u8>> + Sync);
    let boosted: Fit<'_> = &|t, d, m| fitted(t, json!({ "rounds": 6, "policy": "depthwise" }), d, m);
    let grown: Fit<'_> = &|t, d, m| forest_of(t, json!({ "trees": 2, "depth": 6 }), d, m).map(|f| f.to_bytes());
    for (what, fit) in [("boosted trees", boosted), ("forests", grown)] {
        let expected: Vec<Vec<u8>> = groups.iter().map(|t| fit(t, "cpu", &Quiet).expect("a fit")).collect();
        let mut seen = BTreeSet::new();
        for left in [130u64, 180, 240, 320, 450, 900, 1800] {
            clear_device_cache().expect("cleared");
            let ballast = leave(gpu, left << 20);
            let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
                let one = |(t, expected): (&'_ Table, &'_ Vec<u8>)| {
                    let work: Work<'_> = Box::new(|d, m| fit(t, d, m));
                    check_auto(&format!("{what}, {left} MiB left"), &work, expected)
                };
                let threads: Vec<_> = groups.iter().zip(&expected).map(|group| scope.spawn(move || one(group))).collect();
                threads.into_iter().map(|t| t.join().expect("a group")).collect()
            });
            say(&format!("{what}, {left} MiB left: {outcomes:?}"));
            seen.extend(outcomes);
            drop(ballast);
            gpu.queue.synchronize().expect("freed");
        }
        assert!(seen.len() > 1, "{what}: {seen:?}");
    }
    gpu.queue.gpu().release().expect("given back");
    take_a_gpu_for_everything(false);
}

/// What a test asks a process of its own to do; see `in_a_process_of_its_own`.
const ROLE: &str = "TAIGA_TEST_ROLE";

fn process(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "in_a_process_of_its_own", "--ignored", "--nocapture", "--test-threads=1"]).env(ROLE, role);
    command
}

/// Not a test by itself: what the test below starts as a process. `fill`: takes all memory until its standard input ends. `fit`: fits under
/// `"auto"` in a process that has not opened the GPU yet.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn in_a_process_of_its_own() {
    match std::env::var(ROLE).as_deref() {
        Ok("fill") => {
            let _ballast = leave(gpu(), 0);
            println!("all memory is taken: {} left", memory::size(free_to_all(gpu())));
            let _ = std::io::stdin().lines().count();
        }
        Ok("fit") => {
            take_a_gpu_for_everything(true);
            let everything = Everything::new(20_000);
            for (what, work) in everything.by_auto() {
                let expected = work("cpu", &Quiet).expect("the CPU's");
                let notes = Notes::default();
                assert!(work("auto", &notes).expect("under auto") == expected, "{what}");
                let told = notes.told();
                assert!(told.last().is_some_and(|last| last.starts_with("cpu: ")), "{what}: {told:?}");
                println!("{what}: {told:?}");
            }
            println!("{:?}", device_info().unavailable);
            println!("everything was done");
        }
        _ => {}
    }
}

/// Proves that a GPU that another process fills is no reason to fail: in this process, which has opened the GPU before; and in one that
/// opens it now, for which the driver has not even the memory of a context.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn a_gpu_that_another_process_fills_is_left_alone() {
    let (gpu, _turn) = (gpu(), turn());
    let everything = Everything::new(400_000);
    gpu.queue.gpu().release().expect("given back");
    take_a_gpu_for_everything(true);
    let mut hog = process("fill").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
    let mut lines = BufReader::new(hog.stdout.take().expect("its output")).lines().map_while(std::result::Result::ok);
    let full = lines.find(|line| line.contains("all memory is taken")).expect("a full GPU");
    say(&format!("{full}; {} free here", memory::size(free_to_all(gpu))));
    // What needs little may find it in this process.
    for (what, work) in everything.by_auto().into_iter().filter(|(what, _)| !what.starts_with("borders")) {
        let expected = work("cpu", &Quiet).expect("the CPU's");
        let outcome = check_auto(what, &work, &expected);
        assert_ne!(outcome, Outcome::Gpu, "{what}");
    }
    let e = fitted(&everything.numbers, json!({ "rounds": 2 }), "cuda", &Quiet).expect_err("a GPU that is full");
    assert!(e.is_device_memory(), "{e}");
    let other = process("fit").output().expect("a process");
    let said = String::from_utf8_lossy(&other.stdout);
    assert!(other.status.success() && said.contains("everything was done"), "{said}\n{}", String::from_utf8_lossy(&other.stderr));
    say(&said);
    drop(hog.stdin.take());
    assert!(hog.wait().expect("its end").success());
    // And then the GPU is used again.
    let (what, work) = &everything.by_auto()[0];
    assert_eq!(check_auto(what, work, &work("cpu", &Quiet).expect("the CPU's")), Outcome::Gpu);
    take_a_gpu_for_everything(false);
}

/// Proves that a request which fails by itself, of the host's memory, is no reason to begin again: the CPU has no more of it.
#[test]
#[ignore = "needs a GPU: make test-cuda"]
fn other_errors_are_errors_under_auto_too() {
    let (_gpu, _turn) = (gpu(), turn());
    take_a_gpu_for_everything(true);
    let everything = Everything::new(30_000);
    let notes = Notes::default();
    let p = json!({ "rounds": 60, "depth": 10, "max_combination": 2, "ctr_table_limit": 1 });
    let e = everything.categories(p, "auto", &notes).expect_err("too many entries");
    assert!(matches!(e, Error::Memory(_)), "{e}");
    let told = notes.told();
    assert!(told.len() == 1 && told[0].starts_with("cuda: "), "{told:?}");
    drop(Queue::new(gpu().queue.gpu()).expect("a queue"));
    take_a_gpu_for_everything(false);
}
