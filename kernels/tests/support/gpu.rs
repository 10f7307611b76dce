//! The first GPU, with the image of `numerics.cu` loaded; or word that there is none.

use cudarc::driver::{CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, DeviceRepr, ValidAsZeroBits, sys};
use cudarc::nvrtc::Ptx;
use std::io::Write;
use std::sync::{Arc, OnceLock};

/// With this variable set (to anything but 0 or nothing) tests without a GPU fail.
const REQUIRE: &str = "TAIGA_REQUIRE_CUDA";

pub struct Gpu {
    pub stream: Arc<CudaStream>,
    module: Arc<CudaModule>,
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
    let opened = find();
    match &opened {
        Ok((context, _)) => say(&format!(
            "GPU: {}, compute capability {:?}",
            context.name().unwrap_or_default(),
            context.compute_capability().unwrap_or_default()
        )),
        Err(why) => say(&format!("NOT TESTED, since {why} (with {REQUIRE}=1 this fails)")),
    }
    let (context, image) = opened?;
    // A GPU that cannot load the image is a failure, not a missing GPU.
    let module = context.load_module(image).expect("the driver loads the image of numerics.cu");
    Ok(Gpu { stream: context.default_stream(), module })
}

fn find() -> Result<(Arc<CudaContext>, Ptx), String> {
    // SAFETY: looks for the library and, where found, keeps it loaded; no other precondition.
    if !unsafe { sys::is_culib_present() } {
        return Err("no CUDA driver (libcuda) was found".into());
    }
    let context = CudaContext::new(0).map_err(|e| format!("the CUDA driver has no GPU to offer: {e}"))?;
    Ok((context, Ptx::from_binary(taiga_kernels::numerics_image().to_vec())))
}

impl Gpu {
    pub fn function(&self, name: &str) -> CudaFunction {
        self.module.load_function(name).unwrap_or_else(|e| panic!("kernel {name}: {e}"))
    }

    pub fn upload<T: DeviceRepr>(&self, values: &[T]) -> CudaSlice<T> {
        self.stream.clone_htod(values).expect("upload")
    }

    /// Every byte 0xff, so that what a kernel left out is seen.
    pub fn poisoned<T: DeviceRepr + ValidAsZeroBits + Copy>(&self, n: usize) -> CudaSlice<T> {
        let mut slice = self.stream.alloc_zeros::<T>(n).expect("allocate");
        let words = n * size_of::<T>() / size_of::<u32>();
        // SAFETY: the slice has that many words, and any bits are a number.
        let mut view = unsafe { slice.transmute_mut::<u32>(words) }.expect("a slice of whole words");
        self.stream.memcpy_htod(&vec![u32::MAX; words], &mut view).expect("upload");
        slice
    }

    pub fn download<T: DeviceRepr>(&self, slice: &CudaSlice<T>) -> Vec<T> {
        self.stream.clone_dtoh(slice).expect("download")
    }
}

/// Launches a kernel over `n` rows with the arguments after them, and waits.
#[macro_export]
macro_rules! launch {
    ($gpu:expr, $name:expr, $n:expr $(, $argument:expr)*) => {{
        use cudarc::driver::{LaunchConfig, PushKernelArg};
        let function = $gpu.function($name);
        let rows = $n as u64;
        let mut builder = $gpu.stream.launch_builder(&function);
        builder.arg(&rows);
        $(builder.arg($argument);)*
        // Fewer threads than rows, so that each thread takes several.
        let config = LaunchConfig { grid_dim: (1024, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the arguments are those of the kernel's signature, and every array has `n` rows.
        unsafe { builder.launch(config) }.unwrap_or_else(|e| panic!("{}: {e}", $name));
        $gpu.stream.synchronize().unwrap_or_else(|e| panic!("{}: {e}", $name));
    }};
}
