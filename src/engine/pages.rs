//! Large vectors in huge pages, where the system has them: fewer faults while they are filled, and
//! fewer misses of the page table where they are read or written in random order.

/// Below this size huge pages gain nothing.
const HUGE: usize = 2 << 20;

/// Asks for huge pages for memory that has not been written to yet.
fn advise<T>(values: &mut Vec<T>) {
    let bytes = values.capacity() * size_of::<T>();
    #[cfg(all(target_os = "linux", not(miri)))]
    if bytes >= HUGE {
        // SAFETY: the range lies inside the vector's allocation; the advice changes neither its
        // contents nor its validity, and its failure is of no consequence.
        unsafe {
            let start = (values.as_mut_ptr() as usize).next_multiple_of(4096);
            let end = values.as_mut_ptr() as usize + bytes;
            libc::madvise(start as *mut libc::c_void, (end - start) & !4095, libc::MADV_HUGEPAGE);
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (bytes, HUGE);
}

/// A vector with room for `len` values.
pub(crate) fn with_capacity<T>(len: usize) -> Vec<T> {
    let mut values = Vec::with_capacity(len);
    advise(&mut values);
    values
}

/// `len` times `value`.
pub(crate) fn filled<T: Clone>(value: T, len: usize) -> Vec<T> {
    let mut values = with_capacity(len);
    values.resize(len, value);
    values
}

/// Numbers whose zero is zero bytes.
pub(crate) trait Zero: Copy {
    const ZERO: Self;
}

macro_rules! zeros {
    ($($t:ty),*) => {$(
        impl Zero for $t {
            const ZERO: Self = 0 as $t;
        }
    )*};
}
zeros!(u8, u32, u64, i32, i64, f32, f64);

/// `len` zeros, which the system gives as pages that nobody has touched: the threads that write
/// them first bring them in.
pub(crate) fn zeroed<T: Zero>(len: usize) -> Vec<T> {
    let mut values = vec![T::ZERO; len];
    advise(&mut values);
    values
}

/// Makes `values` at least `len` long, with zeros behind.
pub(crate) fn grow<T: Zero>(values: &mut Vec<T>, len: usize) {
    if values.capacity() < len {
        let mut larger = with_capacity(len.max(2 * values.capacity()));
        larger.extend_from_slice(values);
        *values = larger;
    }
    if values.len() < len {
        values.resize(len, T::ZERO);
    }
}
