//! The GPU kernels of polars-taiga: `.cuh` and `.cu` files, the build script that compiles them,
//! and the compiled images for the CUDA driver to load. Nothing links to CUDA.
//!
//! With the feature `cuda` off the crate is empty and needs no nvcc; see `build.rs` for where nvcc
//! is looked for when it is on.

#[cfg(feature = "cuda")]
mod images {
    /// The driver reads an image's header as 64-bit words.
    #[repr(align(16))]
    struct Aligned<T: ?Sized>(T);

    static NUMERICS: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/numerics.fatbin")));

    /// The kernels of `numerics.cu`, which apply each elementwise function to an array: a fat
    /// binary with code for every GPU from compute capability 7.5 on, for the driver's
    /// `cuModuleLoadData`.
    pub fn numerics_image() -> &'static [u8] {
        &NUMERICS.0
    }
}

#[cfg(feature = "cuda")]
pub use images::numerics_image;
