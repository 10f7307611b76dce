//! What the gains of a fit's splits and the weights of its leaves are in units of.

use super::model::Units;
use crate::tree::Tree;
use std::ops::RangeInclusive;

/// The exponents of a largest number that f32 has room for, and for those 2^-26 of it and less.
const ROOM: RangeInclusive<i32> = -100..=127;

/// The exponents of powers of two that f64 has.
const POWERS: RangeInclusive<i32> = -1022..=1023;

/// Returns the exponent of the unit that numbers, the largest of which has this exponent, are kept in as f32: 0 where they fit as
/// they are.
pub fn unit_exponent(largest: Option<i32>) -> i32 {
    match largest {
        Some(exponent) if !ROOM.contains(&exponent) => exponent.clamp(*POWERS.start(), *POWERS.end()),
        _ => 0,
    }
}

/// Returns the exponent of a largest number in units of `2^unit`; none of 0.
pub fn exponent(largest: f32, unit: i32) -> Option<i32> {
    (largest > 0.0).then(|| libm::ilogb(largest as f64) + unit)
}

/// Multiplication by `rest * 2^by`, for many numbers.
struct Shift {
    rest: f64,
    by: i32,
    /// The power, where f64 has it.
    power: Option<f64>,
}

impl Shift {
    fn new(rest: f64, by: i32) -> Shift {
        Shift { rest, by, power: POWERS.contains(&by).then(|| libm::ldexp(1.0, by)) }
    }

    fn changes_nothing(&self) -> bool {
        self.rest == 1.0 && self.by == 0
    }

    fn of(&self, x: f32) -> f32 {
        let x = x as f64 * self.rest;
        self.power.map_or_else(|| libm::ldexp(x, self.by), |power| x * power).min(f32::MAX as f64) as f32
    }
}

/// Brings gains and weights of leaves, which are in units of each tree's `gains` (exponents), of the gradients' and of the
/// weights' unit, into units of the model's: 1 wherever f32 has room for them. Returns the units of gains and of weights.
pub fn settle(trees: &mut [Tree], gains: &[i32], gradient_unit: f64, weight_unit: f64) -> Units {
    // The weights' unit may be no power of two, where targets are tiny; the gradients' is.
    let weight = libm::ilogb(weight_unit);
    let rest = libm::ldexp(weight_unit, -weight);
    let common = 2 * libm::ilogb(gradient_unit) + weight;
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let largest = trees.iter().zip(gains).map(|(t, own)| exponent(t.splits().map(|s| s.gain).fold(0.0, larger), own + common));
    let gain_exponent = unit_exponent(largest.max().flatten());
    let largest = trees.iter().flat_map(|t| t.leaves()).map(|leaf| leaf.weight).fold(0.0, larger);
    let weight_exponent = unit_exponent(exponent(largest, weight));
    let of_weights = Shift::new(rest, weight - weight_exponent);
    for (tree, own) in trees.iter_mut().zip(gains) {
        let of_gains = Shift::new(rest, own + common - gain_exponent);
        if !of_gains.changes_nothing() {
            tree.splits_mut().for_each(|s| s.gain = of_gains.of(s.gain));
        }
        if !of_weights.changes_nothing() {
            tree.leaves_mut().iter_mut().for_each(|leaf| leaf.weight = of_weights.of(leaf.weight));
        }
    }
    Units { gain: libm::ldexp(1.0, gain_exponent), weight: libm::ldexp(1.0, weight_exponent) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{Leaf, Split};

    /// Gains and weights come out as they went in, in whatever units.
    #[test]
    fn units_change_no_number() {
        let split = |gain: f32| Split { feature: 0, border: 0, missing_left: false, gain };
        let leaf = |weight: f32| Leaf { value: 0.0, weight, count: 1 };
        for (gradient, weight) in [(0, 0), (66, 0), (-83, 0), (0, 100), (0, -100), (200, 300), (3, -5)] {
            for own in [0, 40, -40] {
                let mut trees =
                    vec![Tree::Symmetric { splits: vec![split(1.5), split(0.25), split(0.0)], leaves: vec![leaf(3.0), leaf(0.0)] }];
                let units = settle(&mut trees, &[own], libm::ldexp(1.0, gradient), libm::ldexp(1.0, weight));
                let scale = libm::ldexp(1.0, own + 2 * gradient + weight);
                let gains: Vec<f64> = trees[0].splits().map(|s| s.gain as f64 * units.gain).collect();
                assert_eq!(gains, [1.5 * scale, 0.25 * scale, 0.0]);
                assert_eq!(trees[0].leaves()[0].weight as f64 * units.weight, libm::ldexp(3.0, weight));
                assert_eq!(trees[0].leaves()[1].weight, 0.0);
                assert_eq!(units.gain == 1.0, ROOM.contains(&(own + 2 * gradient + weight)));
            }
        }
    }
}
