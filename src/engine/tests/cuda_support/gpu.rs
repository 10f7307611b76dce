//! A queue on the first GPU; or word that there is none.

use cudarc::driver::{CudaSlice, DeviceRepr, ValidAsZeroBits};
use std::io::Write;
use std::sync::OnceLock;
use taiga_engine::backend::cuda::{self, Queue};

/// With this variable set (to anything but 0 or nothing) tests without a GPU fail.
const REQUIRE: &str = "TAIGA_REQUIRE_CUDA";

pub struct Gpu {
    pub queue: Queue,
}

/// The GPU; `None`, after saying so, where there is none and none is required.
///
/// # Panics
/// Where there is none and `TAIGA_REQUIRE_CUDA` is set; where there is one and it fails.
pub fn gpu() -> Option<&'static Gpu> {
    static GPU: OnceLock<Result<Gpu, String>> = OnceLock::new();
    match GPU.get_or_init(open) {
        Ok(gpu) => Some(gpu),
        Err(why) => {
            let required = std::env::var(REQUIRE).is_ok_and(|v| !v.is_empty() && v != "0");
            assert!(!required, "{REQUIRE} is set, but {why}");
            None
        }
    }
}

/// To the terminal itself: the test harness swallows what `println!` says in a test that passes.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn open() -> Result<Gpu, String> {
    match cuda::Gpu::get(None) {
        Ok(gpu) => {
            say(&format!("GPU: {}, compute capability {:?}", gpu.name(), gpu.capability()));
            Ok(Gpu { queue: Queue::new(gpu).expect("a queue") })
        }
        Err(why) => {
            say(&format!("NOT TESTED, since {why} (with {REQUIRE}=1 this fails)"));
            Err(why.to_string())
        }
    }
}

impl Gpu {
    pub fn upload<T: DeviceRepr>(&self, values: &[T]) -> CudaSlice<T> {
        self.queue.copy_of("a test", values).expect("upload")
    }

    /// Every byte 0xff, so that what a kernel left out is seen.
    pub fn poisoned<T: DeviceRepr + ValidAsZeroBits + Copy>(&self, n: usize) -> CudaSlice<T> {
        let mut slice = self.queue.alloc::<T>("a test", n).expect("allocate");
        let words = n * size_of::<T>() / size_of::<u32>();
        // SAFETY: the slice has that many words, and any bits are a number.
        let mut view = unsafe { slice.transmute_mut::<u32>(words) }.expect("a slice of whole words");
        self.queue.write(&vec![u32::MAX; words], &mut view).expect("upload");
        slice
    }

    pub fn download<T: DeviceRepr>(&self, slice: &CudaSlice<T>) -> Vec<T> {
        self.queue.read(slice).expect("download")
    }
}
