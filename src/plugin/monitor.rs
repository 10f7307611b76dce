//! What watches a fit: a progress bar, and Ctrl-C.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};
use taiga_engine::boosting::Monitor;

/// A bar appears by itself once a fit has taken this long and as much again is left.
const PATIENCE: Duration = Duration::from_secs(2);

/// One bar at a time: the fits of a `group_by` run side by side.
static BAR_TAKEN: AtomicBool = AtomicBool::new(false);

/// Watches one fit. See [`Watch::new`].
pub struct Watch {
    /// Whether a bar is wanted; by the terminal and the time it takes where nobody said.
    progress: Option<bool>,
    terminal: bool,
    started: Instant,
    bar: OnceLock<ProgressBar>,
    sigint: sigint::Watch,
}

impl Watch {
    /// Begins to watch. `progress`: a bar always, never, or (`None`) when standard error is a
    /// terminal and the fit is long.
    pub fn new(progress: Option<bool>) -> Self {
        Watch {
            progress,
            terminal: std::io::stderr().is_terminal(),
            started: Instant::now(),
            bar: OnceLock::new(),
            sigint: sigint::Watch::new(),
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
        let style = ProgressStyle::with_template("fit_gbdt {bar:30} {pos}/{len} trees, {elapsed} of {duration} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
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
                eprintln!("fit_gbdt {done}/{total} trees in {:.1} s", self.started.elapsed().as_secs_f64());
            }
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

/// Ctrl-C during a fit. Polars and Python each have a handler for SIGINT that only sets a flag
/// which a plugin can't see, and which nobody reads before the plugin returns. So while a fit
/// runs, a handler of ours counts the signals and passes each on to the handler before it; the
/// last fit to end puts that one back. (A handler for good, as the crate signal-hook has it, would
/// be lost whenever Python sets one of its own, which notebooks do for every cell.)
#[cfg(unix)]
mod sigint {
    use super::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

    static COUNT: AtomicU64 = AtomicU64::new(0);
    /// The address and the flags of the handler before ours, as `sigaction` gave them.
    static PREVIOUS: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
    static PREVIOUS_FLAGS: AtomicI32 = AtomicI32::new(0);
    static PASSING_ON: AtomicBool = AtomicBool::new(false);

    /// The fits under way, and the action to put back when there are none.
    static STATE: Mutex<(usize, Option<libc::sigaction>)> = Mutex::new((0, None));

    extern "C" fn on_sigint(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // A handler set during a fit may pass its signals back to us: no going round in circles.
        if PASSING_ON.swap(true, Ordering::AcqRel) {
            return;
        }
        pass_on(signal, info, context);
        PASSING_ON.store(false, Ordering::Release);
    }

    fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        let previous = PREVIOUS.load(Ordering::Acquire);
        if previous == libc::SIG_DFL || previous == libc::SIG_IGN {
            return;
        }
        // SAFETY: the address came from `sigaction` as the handler of this very signal, and its
        // flags say which of the two signatures it has. Only atomics are touched besides.
        unsafe {
            if PREVIOUS_FLAGS.load(Ordering::Acquire) & libc::SA_SIGINFO != 0 {
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = std::mem::transmute(previous);
                handler(signal, info, context);
            } else {
                let handler: extern "C" fn(libc::c_int) = std::mem::transmute(previous);
                handler(signal);
            }
        }
    }

    /// Our handler's address, as `sigaction` holds it.
    fn ours() -> usize {
        on_sigint as extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) as usize
    }

    /// Notices SIGINT from its making on.
    pub struct Watch {
        before: u64,
    }

    impl Watch {
        pub fn new() -> Self {
            let mut state = STATE.lock().unwrap_or_else(|e| e.into_inner());
            state.0 += 1;
            // SAFETY: plain calls of `sigaction` with whole structs; the handler only touches
            // atomics and the handler before it, which must be fit for signals itself.
            unsafe {
                let mut now: libc::sigaction = std::mem::zeroed();
                if libc::sigaction(libc::SIGINT, std::ptr::null(), &mut now) == 0 && now.sa_sigaction != ours() {
                    PREVIOUS.store(now.sa_sigaction, Ordering::Release);
                    PREVIOUS_FLAGS.store(now.sa_flags, Ordering::Release);
                    let mut action = now;
                    action.sa_sigaction = ours();
                    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | (now.sa_flags & libc::SA_ONSTACK);
                    if libc::sigaction(libc::SIGINT, &action, std::ptr::null_mut()) == 0 {
                        state.1 = Some(now);
                    }
                }
            }
            Watch { before: COUNT.load(Ordering::Relaxed) }
        }

        /// Whether a signal has come.
        pub fn came(&self) -> bool {
            COUNT.load(Ordering::Relaxed) != self.before
        }
    }

    impl Drop for Watch {
        fn drop(&mut self) {
            let mut state = STATE.lock().unwrap_or_else(|e| e.into_inner());
            state.0 -= 1;
            if state.0 > 0 {
                return;
            }
            if let Some(previous) = state.1.take() {
                // SAFETY: as above; what is put back is what `sigaction` gave, and only where our
                // handler is still the one in place.
                unsafe {
                    let mut now: libc::sigaction = std::mem::zeroed();
                    if libc::sigaction(libc::SIGINT, std::ptr::null(), &mut now) == 0 && now.sa_sigaction == ours() {
                        libc::sigaction(libc::SIGINT, &previous, std::ptr::null_mut());
                    }
                }
            }
        }
    }
}

/// Elsewhere Ctrl-C is noticed when the fit has ended.
#[cfg(not(unix))]
mod sigint {
    pub struct Watch;
    impl Watch {
        pub fn new() -> Self {
            Watch
        }
        pub fn came(&self) -> bool {
            false
        }
    }
}
