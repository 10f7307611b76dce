//! A tree's launches as a CUDA graph: what is queued is recorded, the graph of the tree before is brought up to date with it
//! and launched, which spares the device some of the time between two launches.

use crate::runtime::Queue;
use crate::runtime::error::driver;
use cudarc::driver::sys::{self, CUstreamCaptureMode as Mode};
use cudarc::driver::{DriverError, result};
use taiga_core::error::Result;

/// Trees that are launched one by one before, so that all memory is there.
const PLAIN: u32 = 2;

/// Graphs made anew, after which nothing is recorded any more: making one takes as long as some trees.
const MOST_MADE: u32 = 4;

/// The graph of the trees of a fit.
#[derive(Default)]
pub struct LaunchGraph {
    made: Option<sys::CUgraphExec>,
    begun: u32,
    times_made: u32,
}

// SAFETY: the graph is the fit's own, and the driver's calls are made from any thread, one at a time.
unsafe impl Send for LaunchGraph {}

impl LaunchGraph {
    /// Whether what is queued from now on is recorded, until [`LaunchGraph::record`].
    pub fn begins(&mut self, queue: &Queue) -> Result<bool> {
        self.begun = self.begun.saturating_add(1);
        if self.begun <= PLAIN || self.times_made > MOST_MADE {
            return Ok(false);
        }
        let begun = queue.stream().begin_capture(Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        begun.map(|()| true).map_err(|e| driver(queue.gpu(), "recording a graph", e))
    }

    /// Ends the recording, and brings the graph up to date with it where that was `whole`.
    pub fn record(&mut self, queue: &Queue, whole: bool) -> Result<()> {
        self.end(queue, whole).map_err(|e| driver(queue.gpu(), "recording a graph", e))
    }

    /// Launches what was recorded last.
    pub fn launch(&mut self, queue: &Queue) -> Result<()> {
        let Some(made) = self.made else { return Ok(()) };
        // SAFETY: a graph whose launches' memory is the fit's, which outlives the stream's work.
        unsafe { result::graph::launch(made, queue.stream().cu_stream()) }.map_err(|e| driver(queue.gpu(), "launching a graph", e))
    }

    fn end(&mut self, queue: &Queue, whole: bool) -> std::result::Result<(), DriverError> {
        // SAFETY: the stream is being recorded; what comes of that is this call's own.
        let recorded = unsafe { result::stream::end_capture(queue.stream().cu_stream()) }?;
        let updated = if whole { self.update(recorded) } else { Ok(()) };
        // SAFETY: what was made of it does not need it any more.
        let destroyed = unsafe { result::graph::destroy(recorded) };
        updated.and(destroyed)
    }

    fn update(&mut self, recorded: sys::CUgraph) -> std::result::Result<(), DriverError> {
        let mut details = sys::CUgraphExecUpdateResultInfo {
            result: sys::CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_SUCCESS,
            errorNode: std::ptr::null_mut(),
            errorFromNode: std::ptr::null_mut(),
        };
        // SAFETY: both graphs are there, and no other thread has them.
        let same = self.made.is_some_and(|made| unsafe { sys::cuGraphExecUpdate_v2(made, recorded, &mut details) }.result().is_ok());
        if !same {
            self.destroy()?;
            self.times_made += 1;
            // SAFETY: a recorded graph.
            self.made = Some(unsafe { result::graph::instantiate(recorded, sys::CUgraphInstantiate_flags(0)) }?);
        }
        Ok(())
    }

    fn destroy(&mut self) -> std::result::Result<(), DriverError> {
        // SAFETY: the driver frees it when its last launch has run.
        self.made.take().map_or(Ok(()), |made| unsafe { result::graph::exec_destroy(made) })
    }
}

impl Drop for LaunchGraph {
    fn drop(&mut self) {
        let _ = self.destroy();
    }
}
