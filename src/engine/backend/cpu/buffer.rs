//! Memory for codes: aligned to cache lines and, where the system has them, in huge pages.

/// Bytes that start on a cache line.
pub struct Buffer {
    lines: Vec<Line>,
    len: usize,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Below this size huge pages gain nothing.
const HUGE: usize = 4 << 20;

impl Buffer {
    /// `len` zero bytes; [`Buffer::as_ptr`] may be read up to 64 bytes beyond them.
    pub fn new(len: usize) -> Buffer {
        let count = len.div_ceil(64) + 1;
        let mut lines: Vec<Line> = Vec::with_capacity(count);
        #[cfg(target_os = "linux")]
        if len >= HUGE {
            // SAFETY: the range lies inside the allocation just made; the advice changes neither
            // its contents nor its validity, and its failure is of no consequence.
            unsafe {
                let start = (lines.as_mut_ptr() as usize).next_multiple_of(4096);
                let end = lines.as_mut_ptr() as usize + count * 64;
                libc::madvise(start as *mut libc::c_void, (end - start) & !4095, libc::MADV_HUGEPAGE);
            }
        }
        lines.resize(count, Line([0; 64]));
        Buffer { lines, len }
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `lines` owns at least `len` initialised bytes without padding between them.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr() as *const u8, self.len) }
    }

    /// The bytes, to change them.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr() as *mut u8, self.len) }
    }
}
