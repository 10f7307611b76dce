//! Memory for codes: aligned to cache lines and, where the system has them, in huge pages.

use taiga_core::error::Result;
use taiga_core::pages;

/// Bytes that start on a cache line.
pub struct Buffer {
    lines: Vec<Line>,
    len: usize,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

impl Buffer {
    /// Takes `len` zero bytes; [`Buffer::as_ptr`] may be read up to 64 bytes beyond them.
    ///
    /// # Errors
    /// [`taiga_core::Error::Memory`].
    pub fn new(len: usize) -> Result<Buffer> {
        let count = len.div_ceil(64) + 1;
        Ok(Buffer { lines: pages::try_filled("the codes of a fit", Line([0; 64]), count)?, len })
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
