//! Memory for codes: aligned to cache lines and, where the system has them, in huge pages.

use taiga_core::error::Result;
use taiga_core::pages::{self, Zero};
use taiga_core::spill::{Array, SpillFolder};

/// Bytes that start on a cache line.
pub struct Buffer {
    lines: Array<Line>,
    len: usize,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

impl Zero for Line {
    const ZERO: Self = Line([0; 64]);
}

const WHAT: &str = "the codes of a fit";

impl Buffer {
    /// Takes `len` zero bytes, in a file of `spill` where that is given; [`Buffer::as_ptr`] may be read up to 64 bytes beyond them.
    ///
    /// # Errors
    /// [`taiga_core::Error::Memory`]; that of a full disk.
    pub fn new(len: usize, spill: Option<&SpillFolder>) -> Result<Buffer> {
        let count = len.div_ceil(64) + 1;
        let lines = match spill {
            Some(_) => Array::zeroed(WHAT, count, spill)?,
            None => pages::try_filled(WHAT, Line::ZERO, count)?.into(),
        };
        Ok(Buffer { lines, len })
    }

    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `lines` owns at least `len` initialised bytes without padding between them.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr() as *const u8, self.len) }
    }

    /// Returns the bytes, to change them.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr() as *mut u8, self.len) }
    }
}
