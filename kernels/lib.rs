//! The GPU kernels of polars-taiga: `.cuh` and `.cu` files, the build script that compiles them, and
//! what it makes of them: [`images`] for the CUDA driver to load, and CUB's device-wide
//! [`algorithms`]. Nothing links to the driver, so whatever links to this crate also loads where
//! there is none.
//!
//! With the feature `cuda` off the crate is empty and needs no nvcc; see `build.rs` for where nvcc
//! is looked for when it is on.

#[cfg(feature = "cuda")]
pub mod algorithms;

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
        borders = "borders";
        /// Codes by binary search.
        codes = "codes";
        /// Target encoding and statistics of categories.
        encoding = "encoding";
        /// Random forests.
        forest = "forest";
        /// Sparse logistic regression.
        linear = "linear";
        /// Each elementwise function of `numerics.cuh` over an array, for the test that compares
        /// them with the engine's.
        numerics = "numerics";
        /// Boosted trees.
        trees = "trees";
        /// Trees applied to codes.
        predict = "predict";
        /// The smallest and the largest value, counts and weights of bins.
        stats = "stats";
        /// The same of two columns.
        stats2d = "stats2d";
    }
}

/// Sizes and offsets of the structs that kernels and host share, as lines `TABLE(type, size)` and `FIELD(type, field, offset)`.
pub mod layouts {
    /// The numbers of losses, as lines `LOSS(formula, name, number)`.
    pub const LOSSES: &str = include_str!("numerics/losses.def");
    /// Of boosted trees.
    pub const TREES: &str = include_str!("trees/layouts.def");
    /// Of forests.
    pub const FOREST: &str = include_str!("forest/layouts.def");
    /// Of sparse logistic regression.
    pub const LINEAR: &str = include_str!("linear/layouts.def");
}
