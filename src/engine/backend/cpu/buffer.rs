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
const HUGE: usize = 2 << 20;

/// Asks for huge pages for an allocation that has not been written to yet.
fn advise<T>(values: &mut Vec<T>) {
    let bytes = values.capacity() * size_of::<T>();
    #[cfg(target_os = "linux")]
    if bytes >= HUGE && values.is_empty() {
        // SAFETY: the range lies inside the vector's allocation; the advice changes neither its
        // contents nor its validity, and its failure is of no consequence.
        unsafe {
            let start = (values.as_mut_ptr() as usize).next_multiple_of(4096);
            let end = values.as_mut_ptr() as usize + bytes;
            libc::madvise(start as *mut libc::c_void, (end - start) & !4095, libc::MADV_HUGEPAGE);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (bytes, HUGE);
}

/// A vector with room for `len` values, in huge pages where the system has them.
pub fn with_capacity<T>(len: usize) -> Vec<T> {
    let mut values = Vec::with_capacity(len);
    advise(&mut values);
    values
}

/// `len` times `value`, likewise.
pub fn filled<T: Clone>(value: T, len: usize) -> Vec<T> {
    let mut values = with_capacity(len);
    values.resize(len, value);
    values
}

impl Buffer {
    /// `len` zero bytes; [`Buffer::as_ptr`] may be read up to 64 bytes beyond them.
    pub fn new(len: usize) -> Buffer {
        let count = len.div_ceil(64) + 1;
        let mut lines: Vec<Line> = Vec::with_capacity(count);
        advise(&mut lines);
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
