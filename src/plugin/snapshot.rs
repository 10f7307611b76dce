//! The file that the state of a fit is kept in.

use crate::errors;
use polars::prelude::*;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use taiga_engine::learners::boosting::Snapshots;
use taiga_engine::parallel::fork::PerProcess;

/// The files that fits of this process keep their state in.
static IN_USE: PerProcess<Mutex<BTreeSet<PathBuf>>> = PerProcess::new();

/// A file of one fit, which is read when the fit begins and replaced as a whole.
pub struct SnapshotFile {
    path: PathBuf,
    every: u32,
    saved: Option<Vec<u8>>,
}

fn fault(text: String) -> taiga_engine::Error {
    taiga_engine::Error::parameter("snapshot", text)
}

impl SnapshotFile {
    /// Reads the file, where it is there.
    ///
    /// # Errors
    /// Where it can't be read, and where another fit under way keeps its state in it: of several in a query each needs its own.
    pub fn new(path: &str, every: u32) -> PolarsResult<SnapshotFile> {
        let path = PathBuf::from(path);
        let mut in_use = IN_USE.get().lock().unwrap_or_else(PoisonError::into_inner);
        if !in_use.insert(path.clone()) {
            let text = format!("another fit keeps its state in {} at this time; each fit needs a file of its own", path.display());
            return Err(errors::compute(fault(text)));
        }
        drop(in_use);
        let mut file = SnapshotFile { path, every, saved: None };
        file.saved = match std::fs::read(&file.path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(errors::compute(fault(format!("{} can't be read: {error}", file.path.display())))),
        };
        Ok(file)
    }
}

impl Snapshots for SnapshotFile {
    fn every(&self) -> u32 {
        self.every
    }

    fn saved(&self) -> Option<&[u8]> {
        self.saved.as_deref()
    }

    fn save(&self, bytes: &[u8]) -> taiga_engine::Result<()> {
        write_whole(&self.path, bytes).map_err(|error| fault(format!("{} can't be written: {error}", self.path.display())))
    }
}

impl Drop for SnapshotFile {
    fn drop(&mut self) {
        IN_USE.get().lock().unwrap_or_else(PoisonError::into_inner).remove(&self.path);
    }
}

/// Replaces a file as `Model.save` does.
fn write_whole(path: &Path, bytes: &[u8]) -> PyResult<()> {
    Python::attach(|py| {
        let path = py.import("pathlib")?.getattr("Path")?.call1((path,))?;
        py.import("polars_taiga._files")?.call_method1("write_whole", (path, PyBytes::new(py, bytes)))?;
        Ok(())
    })
}
