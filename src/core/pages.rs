//! Large vectors in huge pages, where the system has them: fewer faults while they are filled, and
//! fewer misses of the page table where they are read or written in random order.

use crate::error::Result;
use crate::memory;
use crate::parallel::interrupt;
use rayon::prelude::*;
use std::alloc::Layout;
use std::mem::MaybeUninit;

/// Below this size huge pages gain nothing.
const HUGE: usize = 2 << 20;

/// Asks for huge pages for memory that has not been written to yet.
fn advise<T>(values: &mut Vec<T>) {
    advise_range(values.as_mut_ptr().cast(), values.capacity() * size_of::<T>());
}

/// Asks for huge pages for `bytes` bytes from `start` on, which are one allocation, or a part of one, that has not been written to yet.
pub(crate) fn advise_range(start: *mut u8, bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    if bytes >= HUGE {
        let (first, end) = ((start as usize).next_multiple_of(4096), start as usize + bytes);
        // SAFETY: the range lies inside the allocation; the advice changes neither its
        // contents nor its validity, and its failure is of no consequence.
        unsafe {
            libc::madvise(first as *mut libc::c_void, (end - first) & !4095, libc::MADV_HUGEPAGE);
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (start, bytes, HUGE);
}

fn check_room(what: &str, bytes: usize) -> Result<()> {
    if bytes < HUGE { Ok(()) } else { memory::check_room(what, bytes as u64) }
}

/// Returns a vector with room for `len` values.
pub fn with_capacity<T>(len: usize) -> Vec<T> {
    let mut values = Vec::with_capacity(len);
    advise(&mut values);
    values
}

/// Makes a vector of `len` times `value`.
pub fn filled<T: Clone>(value: T, len: usize) -> Vec<T> {
    let mut values = with_capacity(len);
    values.resize(len, value);
    values
}

/// Returns a vector with room for `len` values, or an error where the system has no memory for it; `what` it is for.
///
/// # Errors
/// [`crate::Error::Memory`].
pub fn try_with_capacity<T>(what: &str, len: usize) -> Result<Vec<T>> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| memory::refused(what, memory::product(&[len as u64, size_of::<T>() as u64])))?;
    check_room(what, values.capacity() * size_of::<T>())?;
    advise(&mut values);
    Ok(values)
}

/// Makes a vector of what `fill(start, values)` writes over the zeros of each block of `block` values, on all threads of the pool that
/// this is called in; or an error where the system has no memory for it; `what` it is for. One thread that writes zeros to all of it
/// before would take longer than the others together.
///
/// # Errors
/// [`crate::Error::Memory`].
///
/// ```
/// use taiga_core::pages::filled_by;
/// let squares = filled_by("squares", 5, 2, |start, out: &mut [u32]| {
///     out.iter_mut().zip(start as u32..).for_each(|(out, i)| *out = i * i);
/// });
/// assert_eq!(squares.unwrap(), [0, 1, 4, 9, 16]);
/// ```
pub fn filled_by<T: Zero + Send + Sync>(what: &str, len: usize, block: usize, fill: impl Fn(usize, &mut [T]) + Sync) -> Result<Vec<T>> {
    let mut values = try_with_capacity(what, len)?;
    values.spare_capacity_mut()[..len].par_chunks_mut(block.max(1)).enumerate().for_each(|(i, part)| {
        interrupt::poll();
        part.fill(MaybeUninit::new(T::ZERO));
        // SAFETY: all of it was written by the line before.
        let part = unsafe { &mut *(std::ptr::from_mut(part) as *mut [T]) };
        fill(i * block.max(1), part);
    });
    // SAFETY: there is room for `len` values, and each lies in one of the blocks, which were all written.
    unsafe { values.set_len(len) };
    Ok(values)
}

/// Makes a vector of `len` times `value`, or an error where the system has no memory for them; `what` they are for.
///
/// # Errors
/// [`crate::Error::Memory`].
pub fn try_filled<T: Clone>(what: &str, value: T, len: usize) -> Result<Vec<T>> {
    let mut values = try_with_capacity(what, len)?;
    values.resize(len, value);
    Ok(values)
}

/// Makes a vector as [`zeroed`] does, or an error where the system has no memory for it; `what` it is for.
///
/// # Errors
/// [`crate::Error::Memory`].
pub fn try_zeroed<T: Zero>(what: &str, len: usize) -> Result<Vec<T>> {
    let refused = || memory::refused(what, memory::product(&[len as u64, size_of::<T>() as u64]));
    let layout = Layout::array::<T>(len).map_err(|_| refused())?;
    if layout.size() == 0 {
        return Ok(vec![]);
    }
    // SAFETY: the layout is that of `len` values of T and not of size 0; T is a number, all of whose bytes may be zero; and a
    // vector frees what it is given with the layout of its capacity, which is this one.
    let mut values = unsafe {
        let start = std::alloc::alloc_zeroed(layout).cast::<T>();
        if start.is_null() {
            return Err(refused());
        }
        Vec::from_raw_parts(start, len, len)
    };
    check_room(what, layout.size())?;
    advise(&mut values);
    Ok(values)
}

/// Numbers, and what else may be of zero bytes, which are its zero.
pub trait Zero: Copy {
    const ZERO: Self;
}

macro_rules! zeros {
    ($($t:ty),*) => {$(
        impl Zero for $t {
            const ZERO: Self = 0 as $t;
        }
    )*};
}
zeros!(u8, u16, u32, u64, i32, i64, f32, f64);

impl Zero for bool {
    const ZERO: Self = false;
}

/// Makes a vector of `len` zeros, which the system gives as pages that nobody has touched: the threads that write
/// them first bring them in.
pub fn zeroed<T: Zero>(len: usize) -> Vec<T> {
    let mut values = vec![T::ZERO; len];
    advise(&mut values);
    values
}

/// Makes room in `values` for `len` of them, or for twice as many as there was; `what` they are for.
///
/// # Errors
/// [`crate::Error::Memory`].
pub fn make_room<T: Copy>(what: &str, values: &mut Vec<T>, len: usize) -> Result<()> {
    if values.capacity() < len {
        let mut larger = try_with_capacity(what, len.max(2 * values.capacity())).or_else(|_| try_with_capacity(what, len))?;
        larger.extend_from_slice(values);
        *values = larger;
    }
    Ok(())
}

/// Makes `values` at least `len` long, with zeros behind.
pub fn grow<T: Zero>(values: &mut Vec<T>, len: usize) {
    if values.capacity() < len {
        let mut larger = with_capacity(len.max(2 * values.capacity()));
        larger.extend_from_slice(values);
        *values = larger;
    }
    if values.len() < len {
        values.resize(len, T::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    /// Proves that what the system gives is what was asked for, and that what it can't give is an error and not the end.
    #[test]
    fn what_the_system_refuses_is_an_error() {
        assert_eq!(try_zeroed::<f64>("a test", 3).unwrap(), [0.0; 3]);
        assert_eq!(try_zeroed::<u8>("a test", 0).unwrap(), [0u8; 0]);
        assert_eq!(try_filled("a test", 7u32, 2).unwrap(), [7; 2]);
        let large = try_zeroed::<u64>("a test", 1 << 19).unwrap();
        assert!(large.len() == 1 << 19 && large.iter().all(|x| *x == 0));
        for len in [usize::MAX, usize::MAX / 16, 1 << 56] {
            let errors = [try_zeroed::<u64>("a test", len).err(), try_filled("a test", 0u64, len).err()];
            for e in errors {
                let e = e.expect("more than any address space has");
                assert!(matches!(e, Error::Memory(_)) && e.to_string().contains("a test needs"), "{e}");
            }
        }
    }
}
