//! Memory that a thread holds, and its peak, counted by the allocator of a whole test.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the bytes that a thread holds, and their peak.
pub struct Counting;

thread_local! {
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn count(change: isize) {
    let _ = HELD.try_with(|h| {
        let (held, peak) = h.get();
        h.set((held + change, peak.max(held + change)));
    });
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(p, layout) }
    }
}

/// The result of `work`, and the most bytes that this thread held for it at a time.
pub fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    HELD.with(|h| h.set((0, 0)));
    let result = work();
    (result, HELD.with(|h| h.get().1).max(0) as usize)
}
