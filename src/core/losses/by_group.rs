//! Losses of groups of rows: what the derivatives at a row are depends on the other rows of its group, as those of a query's documents do.

use super::pointwise::finite;
use crate::numerics::random::Random;

/// Sums over a group's rows are added in so many lanes, row `i` in lane `i % LANES`, and then the lanes from first to last: an order that
/// vector code and a GPU's threads can both keep to.
pub const LANES: usize = 16;

/// A loss whose derivatives at a row depend on the other rows of its group.
pub trait GroupLoss: Send + Sync {
    /// Returns a number of the group that its targets alone decide, which every tree reads again ([`Group::number`]).
    fn number(&self, _target: &[f32]) -> f32 {
        1.0
    }

    /// Writes first and second derivative of the loss with respect to the score of each row of a group, both finite and the hessian
    /// positive. From plain f32 operations, [`crate::numerics::math`] and [`Random`] only, so that every device computes the same bits.
    fn derivatives(&self, group: &Group<'_>, work: &mut GroupWork, gradient: &mut [f32], hessian: &mut [f32]);

    /// Returns what [`GroupLoss::derivatives`] computes, for devices with code of their own.
    fn formula(&self) -> GroupFormula;
}

/// The rows of one group.
#[derive(Clone, Copy)]
pub struct Group<'a> {
    /// The raw scores.
    pub scores: &'a [f32],
    /// The targets.
    pub target: &'a [f32],
    /// The rows' numbers in the table, by which random choices are keyed.
    pub rows: &'a [u32],
    /// [`GroupLoss::number`] of the group.
    pub number: f32,
    /// The random numbers of the tree.
    pub random: Random,
}

/// Room that a thread needs for its groups, one after the other.
#[derive(Default)]
pub struct GroupWork {
    /// [`discount`] of each place.
    pub(super) discounts: Vec<f32>,
    /// A key for each row whose order is the one wanted.
    pub(super) keys: Vec<u64>,
    /// Numbers by place in that order.
    pub(super) scores: Vec<f32>,
    pub(super) gains: Vec<f32>,
    pub(super) gradient: Vec<f32>,
    pub(super) hessian: Vec<f32>,
}

/// What the derivatives of a group are, with the numbers that the formula reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GroupFormula {
    Pairs(super::ranked_pairs::RankedPairs),
    Xendcg,
    Yetirank(super::yetirank::Yetirank),
}

/// Returns what the gain of a document counts at place `place` (from 0) of a list: `1 / log2(place + 2)` (Järvelin and Kekäläinen,
/// "Cumulated gain-based evaluation of IR techniques", 2002).
///
/// ```
/// assert_eq!(taiga_core::losses::by_group::discount(0), 1.0);
/// assert_eq!(taiga_core::losses::by_group::discount(2), 0.5);
/// ```
pub fn discount(place: usize) -> f32 {
    (1.0 / libm::log2(place as f64 + 2.0)) as f32
}

/// Returns the gain of a document of grade `grade`, a whole number: `2^grade - 1`.
pub fn gain(grade: f32) -> f32 {
    ((1u64 << (grade.clamp(0.0, LARGEST_GRADE as f32) as u32)) - 1) as f32
}

/// The largest grade of losses and metrics that gain `2^grade - 1`.
pub const LARGEST_GRADE: u32 = 30;

/// Whether a target is a grade, else what it must be.
pub(super) fn check_grade(target: f64) -> std::result::Result<(), &'static str> {
    let fits = target >= 0.0 && target <= LARGEST_GRADE as f64 && target == libm::floor(target);
    if fits { Ok(()) } else { Err("grades are whole numbers from 0 to 30, of which a document gains 2^grade - 1") }
}

/// Returns a key by which higher scores stand first, and equal ones in the order of their places.
#[inline(always)]
pub(super) fn descending(score: f32, place: usize) -> u64 {
    // -0 and 0 are equal.
    let bits = (score + 0.0).to_bits();
    let ascending = bits ^ (((bits as i32 >> 31) as u32) | 1 << 31);
    (!ascending as u64) << 32 | place as u64
}

impl GroupWork {
    /// Sorts the rows of a group by score, the highest first and equal ones in row order: row `keys[place] as u32` stands at `place`.
    pub(super) fn sort(&mut self, scores: impl Iterator<Item = f32>) {
        self.keys.clear();
        self.keys.extend(scores.enumerate().map(|(place, score)| descending(score, place)));
        self.keys.sort_unstable();
    }

    /// Makes discounts for `places` places.
    pub(super) fn discount_places(&mut self, places: usize) {
        self.discounts.extend((self.discounts.len()..places).map(discount));
    }
}

/// Multiplies the derivatives of rows by what these weigh.
pub fn weigh(weight: &[f32], gradient: &mut [f32], hessian: &mut [f32]) {
    for (w, (g, h)) in weight.iter().zip(gradient.iter_mut().zip(hessian)) {
        (*g, *h) = (finite(*g * *w), finite(*h * *w));
    }
}

/// Adds lanes from first to last.
#[inline(always)]
pub(super) fn add_lanes(lanes: &[f32; LANES]) -> f32 {
    lanes.iter().fold(0.0, |total, lane| total + lane)
}
