//! What watches a fit: a progress bar; and what watches every call that may take long: Ctrl-C.

use crate::callback;
use crate::device::Note;
use crate::errors;
use crate::export::Answer;
use crate::interpreter::attached;
use indicatif::{ProgressBar, ProgressStyle};
use polars::prelude::{PolarsResult, Series};
use pyo3::prelude::*;
use std::io::{IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use taiga_engine::dataset::Monitor;
use taiga_engine::dataset::monitor::Measure;

/// A bar appears by itself once a fit has taken this long and as much again is left.
const PATIENCE: Duration = Duration::from_secs(2);

/// One bar at a time: the fits of a `group_by` run side by side.
static BAR_TAKEN: AtomicBool = AtomicBool::new(false);

/// Watches one fit. See [`Watch::new`].
pub struct Watch {
    /// The expression, and what it counts: `rounds`, say.
    function: &'static str,
    rounds: &'static str,
    device: Note,
    /// Whether a bar is wanted; by the terminal and the time it takes where nobody said.
    progress: Option<bool>,
    terminal: bool,
    started: Instant,
    bar: OnceLock<ProgressBar>,
    sigint: sigint::Watch,
    /// Every how many rounds a line is written.
    verbose: Option<u32>,
    /// The function of Python that is told of each round.
    callback: Option<u64>,
}

impl Watch {
    /// Begins to watch. `progress`: a bar always, never, or (`None`) when standard error is a
    /// terminal and the fit is long.
    pub fn new(function: &'static str, rounds: &'static str, progress: Option<bool>) -> Self {
        Watch {
            function,
            rounds,
            device: Note::new(function),
            progress,
            terminal: std::io::stderr().is_terminal(),
            started: Instant::now(),
            bar: OnceLock::new(),
            sigint: sigint::Watch::new(),
            verbose: None,
            callback: None,
        }
    }

    /// Tells of rounds besides: by a line on standard error every so many, and to a function of Python.
    pub fn telling(mut self, verbose: Option<u32>, callback: Option<u64>) -> Self {
        (self.verbose, self.callback) = (verbose.filter(|every| *every > 0), callback);
        self
    }

    /// Writes a line of a round.
    fn write_line(&self, done: u32, measured: &[Measure]) {
        let value = |m: &Measure| format!(", {}{} {}", m.set.as_ref().map(|set| format!("{set} ")).unwrap_or_default(), m.metric, m.value);
        let line = format!("{} {} {done}{}", self.function, self.rounds, measured.iter().map(value).collect::<String>());
        match self.bar.get() {
            Some(bar) => bar.println(line),
            // Where standard error is closed nobody reads it; `eprintln` would panic.
            None => drop(writeln!(std::io::stderr(), "{line}")),
        }
    }

    fn wants_bar(&self, done: u32, total: u32) -> bool {
        match self.progress {
            Some(wanted) => wanted,
            None if !self.terminal => false,
            None => {
                let spent = self.started.elapsed();
                let left = spent.mul_f64((total - done.min(total)) as f64 / done.max(1) as f64);
                spent > PATIENCE && left > PATIENCE
            }
        }
    }

    fn make_bar(&self, total: u32) {
        if BAR_TAKEN.swap(true, Ordering::AcqRel) {
            return;
        }
        let bar = ProgressBar::new(total as u64).with_elapsed(self.started.elapsed());
        let template = format!("{} {{bar:30}} {{pos}}/{{len}} {}, {{elapsed}} of {{duration}} {{msg}}", self.function, self.rounds);
        bar.set_style(ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar()));
        if self.bar.set(bar).is_err() {
            BAR_TAKEN.store(false, Ordering::Release);
        }
    }
}

impl Monitor for Watch {
    fn round(&self, done: u32, total: u32, metric: Option<f64>) {
        if self.bar.get().is_none() && self.wants_bar(done, total) {
            self.make_bar(total);
        }
        if let Some(bar) = self.bar.get() {
            if let Some(metric) = metric {
                bar.set_message(format!("(held out: {metric:.6})"));
            }
            bar.set_position(done as u64);
            // Where standard error is no terminal nothing is drawn but what is asked for: the end.
            if !self.terminal && done == total {
                let seconds = self.started.elapsed().as_secs_f64();
                // Where standard error is closed nobody reads it; `eprintln` would panic.
                let _ = writeln!(std::io::stderr(), "{} {done}/{total} {} in {seconds:.1} s", self.function, self.rounds);
            }
        }
    }

    fn after_round(&self, done: u32, measured: &[Measure]) -> taiga_engine::Result<bool> {
        if self.verbose.is_some_and(|every| done.is_multiple_of(every)) {
            self.write_line(done, measured);
        }
        self.callback.map_or(Ok(false), |number| callback::call(number, done, measured))
    }

    fn may_wait(&self) -> bool {
        self.callback.is_some()
    }

    fn device(&self, chosen: &str) {
        self.device.say(chosen);
        // Where the fit begins again, so do its rounds.
        if let Some(bar) = self.bar.get() {
            bar.set_message("");
            bar.set_position(0);
        }
    }

    fn interrupted(&self) -> bool {
        self.sigint.came()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
            BAR_TAKEN.store(false, Ordering::Release);
        }
    }
}

/// Ctrl-C during a call. Polars and Python each have a handler for SIGINT that only sets a flag
/// which a plugin can't see, and which nobody reads before the plugin returns. So while a call is under way
/// a handler of ours counts the signals and asks the engine's work to end ([`interrupt`]), and the last call to end puts
/// the one before back. (A handler for good, as the crate signal-hook has it, would be lost whenever Python sets one of
/// its own, which notebooks do for every cell.)
///
/// A signal that ends a call reaches those handlers by [`abandon`](super::abandon) alone, which says what becomes of it. One
/// that came too late to end a call is raised again.
///
/// In a process that was forked meanwhile none of its parent's calls is under way: the handler before is put back as the
/// process begins.
#[cfg(unix)]
mod sigint {
    use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
    use std::sync::{Mutex, PoisonError};
    use taiga_engine::parallel::fork::PerProcess;
    use taiga_engine::parallel::interrupt;

    /// The signals that came during calls.
    static COUNT: AtomicU64 = AtomicU64::new(0);
    /// [`COUNT`] when Python was last told.
    static TOLD: AtomicU64 = AtomicU64::new(0);
    /// Whether one of the calls under way has ended for it.
    static USED: AtomicBool = AtomicBool::new(false);
    /// The action that ours stands for, as long as it does.
    static REPLACED: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());

    /// Tells Python of the last signal, once: its handler runs when its main thread is in Python again.
    pub fn tell_python() {
        let count = COUNT.load(Ordering::Relaxed);
        if TOLD.swap(count, Ordering::Relaxed) != count {
            // SAFETY: it may be called at any time, by any thread, with or without the GIL.
            unsafe { pyo3::ffi::PyErr_SetInterrupt() };
        }
    }

    /// Notes that a call has ended for a signal.
    pub fn used() {
        USED.store(true, Ordering::Relaxed);
    }

    #[derive(Default)]
    struct State {
        /// The calls under way.
        calls: usize,
        /// What to put back when there are none: the action, and the count when it was replaced.
        previous: Option<(libc::sigaction, u64)>,
    }
    static STATE: PerProcess<Mutex<State>> = PerProcess::new();

    extern "C" fn on_sigint(_: libc::c_int) {
        COUNT.fetch_add(1, Ordering::Relaxed);
        interrupt::request();
    }

    /// Runs in a forked process before anything else does, with one thread.
    unsafe extern "C" fn in_child() {
        interrupt::withdraw();
        let replaced = REPLACED.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: null, or an action that is never freed.
        if let Some(before) = unsafe { replaced.as_ref() }
            && current().is_some_and(|now| now.sa_sigaction == ours())
        {
            install(before);
        }
        super::forget_calls();
    }

    /// Has [`in_child`] run in processes that are forked from now on.
    fn look_after_children() {
        static DONE: AtomicBool = AtomicBool::new(false);
        if !DONE.load(Ordering::Acquire) {
            // Two threads that come here at once have it run twice, which does no harm.
            // SAFETY: the handler touches atomics and calls `sigaction`, both allowed in a child of a process with several threads.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
            DONE.store(true, Ordering::Release);
        }
    }

    /// Our handler's address, as `sigaction` holds it.
    fn ours() -> usize {
        on_sigint as extern "C" fn(libc::c_int) as usize
    }

    /// The action in place.
    fn current() -> Option<libc::sigaction> {
        // SAFETY: zeros are a valid `sigaction`, which the call fills.
        unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            (libc::sigaction(libc::SIGINT, std::ptr::null(), &mut now) == 0).then_some(now)
        }
    }

    /// Puts an action in place.
    fn install(action: &libc::sigaction) -> bool {
        // SAFETY: the action is what `sigaction` gave before, or that with our handler, which
        // only touches an atomic.
        unsafe { libc::sigaction(libc::SIGINT, action, std::ptr::null_mut()) == 0 }
    }

    /// Notices SIGINT from its making on.
    pub struct Watch {
        before: u64,
    }

    impl Watch {
        pub fn new() -> Self {
            look_after_children();
            let mut state = STATE.get().lock().unwrap_or_else(PoisonError::into_inner);
            let before = COUNT.load(Ordering::Relaxed);
            if state.calls == 0 {
                interrupt::withdraw();
            }
            state.calls += 1;
            // Again for a later call, if the handler has been replaced during an earlier one; a
            // process that ignores the signal goes on ignoring it.
            if let Some(now) = current().filter(|now| now.sa_sigaction != ours() && now.sa_sigaction != libc::SIG_IGN) {
                let mut action = now;
                action.sa_sigaction = ours();
                action.sa_flags = libc::SA_RESTART | (now.sa_flags & libc::SA_ONSTACK);
                // Never freed: a child may read it at any time. It is the same one nearly always.
                let known = REPLACED.load(Ordering::Acquire);
                // SAFETY: null, or an action that is never freed.
                if unsafe { known.as_ref() }.is_none_or(|k| k.sa_sigaction != now.sa_sigaction || k.sa_flags != now.sa_flags) {
                    REPLACED.store(Box::into_raw(Box::new(now)), Ordering::Release);
                }
                if install(&action) {
                    USED.store(false, Ordering::Relaxed);
                    state.previous = Some((now, before));
                }
            }
            Watch { before }
        }

        /// Whether a signal has come.
        pub fn came(&self) -> bool {
            let came = COUNT.load(Ordering::Relaxed) != self.before;
            if came {
                used();
            }
            came
        }
    }

    impl Drop for Watch {
        fn drop(&mut self) {
            let mut state = STATE.get().lock().unwrap_or_else(PoisonError::into_inner);
            state.calls = state.calls.saturating_sub(1);
            if state.calls > 0 {
                return;
            }
            interrupt::withdraw();
            let Some((previous, before)) = state.previous.take() else { return };
            let in_place = current().is_some_and(|now| now.sa_sigaction == ours());
            if in_place && install(&previous) && COUNT.load(Ordering::Relaxed) != before && !USED.load(Ordering::Relaxed) {
                // SAFETY: a signal to this process, handled by the handler just put back.
                unsafe { libc::raise(libc::SIGINT) };
            }
        }
    }
}

/// Whether the query of the main thread has been given up: what its calls give is not seen by anybody.
static ABANDONED: AtomicBool = AtomicBool::new(false);

/// Begins anew in a forked process: whatever was under way is its parent's.
fn forget_calls() {
    ABANDONED.store(false, Ordering::Release);
    BAR_TAKEN.store(false, Ordering::Release);
}

/// Notes that a call has ended because the engine was asked to end its work.
pub fn unwound() {
    sigint::used();
}

/// Runs the body of the expression `function`, as [`errors::expression`] does, so that Ctrl-C ends it; `long`: whether it may take
/// longer than some milliseconds. After Ctrl-C in a query that Python will end by a `KeyboardInterrupt` it gives none, at once for
/// calls that have not begun.
pub fn expression(function: &str, long: bool, body: impl FnOnce() -> PolarsResult<Series>) -> Answer {
    if ABANDONED.load(Ordering::Acquire) {
        return Ok(None);
    }
    let watch = long.then(sigint::Watch::new);
    let ended = match errors::expression(function, body) {
        Err(error) if errors::is_interrupted(&error) && abandon() => Ok(None),
        // Polars knows of text alone.
        Err(error) => Err(errors::data(errors::text(&error))),
        Ok(series) => Ok(Some(series)),
    };
    drop(watch);
    ended
}

/// So many rows and more may take a call longer than some milliseconds.
pub const LONG: usize = 1 << 14;

/// The rows of what is given row by row: as many as the inputs have, a literal aside.
pub fn rows(inputs: &[Series]) -> usize {
    inputs.iter().map(|s| s.len()).find(|n| *n != 1).unwrap_or(1)
}

/// Decides how Ctrl-C, which has ended a call, ends its query; true where the call shall give anything, without an error.
///
/// Polars makes any error of a plugin a `ComputeError`, and a signal that is passed on as well would raise `KeyboardInterrupt` in
/// the midst of whatever handles that. But a query that ends without an error returns to Python, which looks for signals
/// first: so where the one query under way is the main thread's, Python is told, the query comes to its end without further
/// work of ours, and `KeyboardInterrupt` is raised in the place of its result. Where it is another thread's, the main
/// thread gets its `KeyboardInterrupt` and the query the error; and where nobody can tell, or a file would be written,
/// there is the error alone.
fn abandon() -> bool {
    let verdict = attached(|py| -> PyResult<String> { py.import("polars_taiga._interrupt")?.call_method0("verdict")?.extract() });
    match verdict.and_then(Result::ok).as_deref() {
        Some("return") => {
            if !ABANDONED.swap(true, Ordering::AcqRel) {
                // SAFETY: the function is there for ever, and the call needs neither a thread state nor the GIL.
                if unsafe { pyo3::ffi::Py_AddPendingCall(Some(on_python_again), std::ptr::null_mut()) } != 0 {
                    ABANDONED.store(false, Ordering::Release);
                    return false;
                }
            }
            sigint::tell_python();
            true
        }
        Some("tell") => {
            sigint::tell_python();
            false
        }
        _ => false,
    }
}

/// Runs in the main thread once it is in Python again: the query has ended.
extern "C" fn on_python_again(_: *mut std::ffi::c_void) -> std::ffi::c_int {
    ABANDONED.store(false, Ordering::Release);
    0
}

/// Elsewhere Ctrl-C is noticed when the call has ended.
#[cfg(not(unix))]
mod sigint {
    pub struct Watch;
    pub fn tell_python() {}
    pub fn used() {}
    impl Watch {
        pub fn new() -> Self {
            Watch
        }
        pub fn came(&self) -> bool {
            false
        }
    }
}
