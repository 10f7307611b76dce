//! A queue on the first GPU. Tests that need one are `#[ignore = "needs a GPU: make test-cuda"]`, so that a run without one
//! says that they did not run; asked for, they fail where there is none.

use std::io::Write;
use std::sync::OnceLock;
use taiga_engine::cuda;
use taiga_engine::cuda::cudarc::driver::{CudaSlice, DeviceRepr, ValidAsZeroBits};
use taiga_engine::cuda::runtime::Queue;

pub struct Gpu {
    pub queue: Queue,
}

/// The GPU.
///
/// # Panics
/// Where there is none, and where there is one and it fails.
pub fn gpu() -> &'static Gpu {
    static GPU: OnceLock<Result<Gpu, String>> = OnceLock::new();
    GPU.get_or_init(open).as_ref().unwrap_or_else(|why| panic!("this test needs a GPU, but {why}"))
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
        Err(why) => Err(why.to_string()),
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
