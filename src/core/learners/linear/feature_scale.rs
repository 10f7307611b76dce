//! What a feature's values are in units of, so that sums in integers suit features of very different sizes.
//!
//! A sum has one scale for all features, from the largest |value|. Where features differ much in size, that would leave small ones
//! few bits: then each has a unit of its own, the least power of two that its largest |value| does not exceed, and sums are of
//! values in units.

use super::problem::Problem;
use crate::error::Result;
use crate::parallel::thread_pool::ThreadPool;
use std::sync::atomic::{AtomicU32, Ordering};

/// The largest ratio of two features' sizes, as a power of two, that one scale for all will do for.
const ONE_SCALE: i32 = 10;

/// Rows that a thread takes at a time.
const BLOCK: usize = 4096;

/// The units of features.
#[derive(Clone)]
pub struct FeatureScale {
    /// One over each feature's unit; none where all have the one below.
    pub inverse: Option<Vec<f64>>,
    /// One over the unit of all.
    pub common: f64,
}

impl FeatureScale {
    /// Returns those of a problem's features.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn new(problem: &Problem<'_>, pool: &ThreadPool) -> Result<FeatureScale> {
        let csr = problem.csr.as_ref().filter(|_| problem.has_values);
        let Some(csr) = csr else { return Ok(FeatureScale { inverse: None, common: 1.0 }) };
        let width = problem.width;
        // Bits of floats that are not negative ascend as they do; a maximum is exact, whoever comes first.
        let largest: Vec<AtomicU32> = (0..width).map(|_| AtomicU32::new(0)).collect();
        pool.deal(
            csr.rows().div_ceil(BLOCK),
            || (),
            |_, b| {
                for i in b * BLOCK..csr.rows().min((b + 1) * BLOCK) {
                    csr.row(i).for_each(|k, x| {
                        let bits = (x.abs() as f32).to_bits();
                        if bits > largest[k].load(Ordering::Relaxed) {
                            largest[k].fetch_max(bits, Ordering::Relaxed);
                        }
                    });
                }
            },
        );
        // The least power of two that is not below: of values that are all 1 the unit is 1, as it is without values.
        let exponent = |bits: u32| {
            let (fraction, exponent) = libm::frexp(f32::from_bits(bits) as f64);
            if fraction == 0.5 { exponent - 1 } else { exponent }
        };
        let mut largest: Vec<u32> = largest.into_iter().map(AtomicU32::into_inner).collect();
        if !problem.own.is_whole() {
            problem.own.collective.max(&mut largest)?;
        }
        let sizes: Vec<Option<i32>> = largest.into_iter().map(|b| (b > 0).then(|| exponent(b))).collect();
        let (Some(low), Some(high)) = (sizes.iter().flatten().min(), sizes.iter().flatten().max()) else {
            return Ok(FeatureScale { inverse: None, common: 1.0 });
        };
        let unit = |e: i32| libm::ldexp(1.0, -e);
        let inverse = (high - low > ONE_SCALE).then(|| sizes.iter().map(|e| e.map_or(1.0, unit)).collect());
        Ok(FeatureScale { inverse, common: unit(*high) })
    }

    /// Returns one over the unit of a feature.
    #[inline(always)]
    pub fn inverse(&self, feature: usize) -> f64 {
        self.inverse.as_ref().map_or(self.common, |i| i[feature])
    }
}
