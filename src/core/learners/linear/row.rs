//! What is computed from one sparse row: its products with coefficients, and what it adds to sums by feature.

use super::csr::Row;
use super::feature_scale::FeatureScale;
use super::vectors::lanes;
use super::whole::{WholeVector, value_of};
use crate::memory::prefetch_near;
use crate::numerics::fixed::round64;

impl Row<'_> {
    /// Calls `visit` for each (feature, value) entry.
    #[inline(always)]
    pub fn for_each(&self, mut visit: impl FnMut(usize, f64)) {
        match self.values {
            None => self.keys.iter().for_each(|k| visit(*k as usize, 1.0)),
            Some(values) => self.keys.iter().zip(values).for_each(|(k, x)| visit(*k as usize, *x as f64)),
        }
    }

    /// Computes Σ coefficient · value of one output.
    #[inline(always)]
    pub fn dot(&self, vector: &[f64]) -> f64 {
        match self.values {
            None => lanes(0..self.keys.len(), |i| vector[self.keys[i] as usize]),
            Some(values) => lanes(0..self.keys.len(), |i| vector[self.keys[i] as usize] * values[i] as f64),
        }
    }

    /// Adds Σ coefficient of each output, from coefficients that are integers; entries are 1 each.
    #[inline(always)]
    pub fn add_whole(&self, whole: &WholeVector, out: &mut [f64]) {
        let (numbers, n) = (whole.numbers.as_slice(), out.len());
        if let [o] = out {
            *o += value_of(self.sum(numbers), whole.scale);
            return;
        }
        for (k, o) in out.iter_mut().enumerate() {
            let sum = self.keys.iter().fold(0i64, |sum, key| sum + numbers[*key as usize * n + k] as i64);
            *o += value_of(sum, whole.scale);
        }
    }

    /// Σ number of each entry, as four sums, so that additions need not wait for each other.
    #[inline(always)]
    pub fn sum(&self, numbers: &[i32]) -> i64 {
        let (fours, rest) = self.keys.as_chunks::<4>();
        let mut sums = [0i64; 4];
        for keys in fours {
            sums.iter_mut().zip(keys).for_each(|(s, key)| *s += numbers[*key as usize] as i64);
        }
        let rest = rest.iter().fold(0, |sum, key| sum + numbers[*key as usize] as i64);
        (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
    }

    /// Asks for what stands at the row's features in an array of `outputs` numbers each.
    #[inline(always)]
    pub fn fetch<T>(&self, array: &[T], outputs: usize) {
        self.keys.iter().for_each(|k| prefetch_near(array.as_ptr().wrapping_add(*k as usize * outputs) as *const u8));
    }

    /// Adds Σ coefficient · value of each output.
    pub fn dots(&self, vector: &[f64], out: &mut [f64]) {
        let n = out.len();
        self.for_each(|k, x| out.iter_mut().zip(&vector[k * n..(k + 1) * n]).for_each(|(o, w)| *o += w * x));
    }

    /// Adds `residual · value in units`, rounded, to each feature's sum.
    #[inline(always)]
    pub fn add(&self, residual: f64, feature_scale: &FeatureScale, sums: &mut [i64]) {
        match self.values {
            None => {
                let q = round64(residual);
                if q != 0 {
                    self.keys.iter().for_each(|k| sums[*k as usize] += q);
                }
            }
            Some(_) => self.for_each(|k, x| sums[k] += round64(residual * (x * feature_scale.inverse(k)))),
        }
    }

    /// The same for each output.
    pub fn add_all(&self, residuals: &[f64], scale: f64, feature_scale: &FeatureScale, sums: &mut [i64]) {
        let n = residuals.len();
        self.for_each(|k, x| {
            let x = x * feature_scale.inverse(k);
            sums[k * n..(k + 1) * n].iter_mut().zip(residuals).for_each(|(s, r)| *s += round64(r * scale * x));
        });
    }
}
