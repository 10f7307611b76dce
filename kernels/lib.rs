//! The GPU kernels of polars-taiga: `.cuh` and `.cu` files, the build script that compiles them, and
//! what it makes of them: [`images`] for the CUDA driver to load, the host's twins of the kernels' structs ([`kernel_struct!`]), and
//! functions over CUB's device-wide algorithms ([`runtime`], [`mod@columns`]). Nothing links to the driver, so whatever links to this crate also loads where
//! there is none.
//!
//! With the feature `cuda` off the crate is empty and needs no nvcc; see `build.rs` for where nvcc
//! is looked for when it is on.

#[cfg(feature = "cuda")]
include!(concat!(env!("OUT_DIR"), "/shared_structs.rs"));

#[cfg(feature = "cuda")]
pub mod columns;
#[cfg(feature = "cuda")]
pub mod runtime;

/// Fat binaries with machine code for every GPU from compute capability 7.5 on, and PTX, for the
/// driver's `cuModuleLoadData`: one for each `.cu`.
#[cfg(feature = "cuda")]
pub mod images {
    /// The driver reads an image's header as 64-bit words.
    #[repr(align(16))]
    struct Aligned<T: ?Sized>(T);

    macro_rules! images {
        ($($(#[$doc:meta])* $name:ident = $file:literal;)*) => {
            $($(#[$doc])*
            pub fn $name() -> &'static [u8] {
                static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/", $file, ".fatbin")));
                &IMAGE.0
            })*
        };
    }

    images! {
        /// Keys of columns, and their distinct values.
        borders = "columns/borders";
        /// Codes of the distinct integers of a column.
        categories = "columns/categories";
        /// Codes by binary search.
        codes = "columns/codes";
        /// Two categorical columns made one.
        combine = "columns/combine";
        /// The smallest and the largest value, and the counts of the bins between them, in one launch.
        range = "columns/range";
        /// The smallest and the largest value, counts and weights of bins.
        stats = "columns/stats";
        /// The same of two columns.
        stats2d = "columns/stats2d";
        /// Target encoding.
        target_encode = "columns/target_encode";
        /// Boosted trees.
        trees = "trees";
        /// Statistics of categories, for boosted trees.
        ctr = "trees/ctr";
        /// Random forests.
        forest = "forest";
        /// Sparse logistic regression.
        linear = "linear";
        /// Boosted trees and forests applied.
        predict = "predict";
        /// Each elementwise function of `numerics.cuh` over an array, for the test that compares
        /// them with the engine's.
        numerics = "numerics";
    }
}

/// The losses in the order of their numbers, as lines `LOSS(formula, …)`.
pub const LOSSES: &str = include_str!("numerics/losses.def");
