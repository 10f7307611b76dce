//! A queue on the first GPU. Tests that need one are `#[ignore = "needs a GPU: make test-cuda"]`, so that a run without one
//! says that they did not run; asked for, they fail where there is none.

pub mod every_type;
pub mod patterns;
pub mod shards;

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

/// A number as its bits, all NaN alike: their payload is the one thing IEEE 754 leaves open.
pub trait Bits: Copy + std::fmt::Debug {
    fn bits(self) -> u64;
}

macro_rules! bits {
    ($($t:ty: $x:ident => $bits:expr;)*) => { $(impl Bits for $t { fn bits(self) -> u64 { let $x = self; $bits } })* };
}

bits! {
    f32: x => if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() as u64 };
    f64: x => if x.is_nan() { 0x7ff8_0000_0000_0000 } else { x.to_bits() };
    u32: x => x as u64;
    i32: x => x as u32 as u64;
    u64: x => x;
    i64: x => x as u64;
}

/// Fails unless both sides have the same bits everywhere; `row` describes what went in.
pub fn assert_same<T: Bits>(what: &str, gpu: &[T], cpu: &[T], row: impl Fn(usize) -> String) {
    assert_eq!(gpu.len(), cpu.len());
    let differs = |i: &usize| gpu[*i].bits() != cpu[*i].bits();
    if let Some(i) = (0..gpu.len()).find(differs) {
        let count = (0..gpu.len()).filter(differs).count();
        panic!("{what}: {count} of {} differ; the first is {}: GPU {:?}, CPU {:?}", gpu.len(), row(i), gpu[i], cpu[i]);
    }
}
