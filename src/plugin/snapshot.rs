//! The file that the state of a fit is kept in.

use crate::errors;
use crate::fit::FitKwargs;
use crate::interpreter::{ENDED, attached};
use polars::prelude::*;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use taiga_engine::dataset::{OwnRows, Snapshots};
use taiga_engine::parallel::fork::PerProcess;

/// The files that fits of this process keep their state in.
static IN_USE: PerProcess<Mutex<BTreeSet<PathBuf>>> = PerProcess::new();

/// A file of one fit, which is read when the fit begins and replaced as a whole. Of several processes that make a fit the first has it.
pub struct SnapshotFile {
    /// None in the others.
    path: Option<PathBuf>,
    /// What tells the file from others, however its path is written.
    place: PathBuf,
    every: u32,
    saved: Option<Vec<u8>>,
}

fn fault(text: String) -> taiga_engine::Error {
    taiga_engine::Error::parameter("snapshot", text)
}

/// Where a file lies, links followed, whether it is there yet or not.
fn place_of(path: &Path) -> PathBuf {
    let in_folder = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(folder.canonicalize().ok()?.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(in_folder).unwrap_or_else(|| path.to_path_buf())
}

impl SnapshotFile {
    /// Reads the file that a fit is asked to keep its state in, if it is; `own`: the rows of this process, where there are others.
    ///
    /// # Errors
    /// Where it can't be read, and where another fit under way keeps its state in it: of several in a query each needs its own.
    pub fn of(kwargs: &FitKwargs, own: Option<OwnRows<'_>>) -> PolarsResult<Option<SnapshotFile>> {
        let rank = own.map_or(0, |own| own.collective.rank());
        kwargs.snapshot.as_ref().map(|(path, every)| SnapshotFile::new(path, *every, rank)).transpose()
    }

    /// Reads the file, where it is there. `rank`: which of several processes this is.
    fn new(path: &str, every: u32, rank: usize) -> PolarsResult<SnapshotFile> {
        if rank > 0 {
            return Ok(SnapshotFile { path: None, place: PathBuf::new(), every, saved: None });
        }
        let path = PathBuf::from(path);
        let place = place_of(&path);
        let mut in_use = IN_USE.get().lock().unwrap_or_else(PoisonError::into_inner);
        if !in_use.insert(place.clone()) {
            let text = format!("another fit keeps its state in {} at this time; each fit needs a file of its own", path.display());
            return Err(errors::compute(fault(text)));
        }
        drop(in_use);
        let read = std::fs::read(&path);
        // Dropped, it gives the path back.
        let mut file = SnapshotFile { path: Some(path.clone()), place, every, saved: None };
        file.saved = match read {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(errors::compute(fault(format!("{} can't be read: {error}", path.display())))),
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
        let Some(path) = &self.path else { return Ok(()) };
        write_whole(path, bytes).map_err(|error| fault(format!("{} can't be written: {error}", path.display())))
    }
}

impl Drop for SnapshotFile {
    fn drop(&mut self) {
        if self.path.is_some() {
            IN_USE.get().lock().unwrap_or_else(PoisonError::into_inner).remove(&self.place);
        }
    }
}

/// Replaces a file as `Model.save` does.
fn write_whole(path: &Path, bytes: &[u8]) -> PyResult<()> {
    let written = attached(|py| {
        let path = py.import("pathlib")?.getattr("Path")?.call1((path,))?;
        py.import("polars_taiga._files")?.call_method1("write_whole", (path, PyBytes::new(py, bytes)))?;
        Ok(())
    });
    written.unwrap_or_else(|| Err(PyRuntimeError::new_err(ENDED)))
}
