//! What is summed over rows, and what sums are worth: one [`Impurity`] for each kind of target.
//!
//! All sums are integers, so no order of summation changes them. A split's score is f64 by one
//! formula from them. With `n` the weight of a node, `c` the sums of its classes (or its one sum of
//! targets), `L` and `R` its children, gini and squared error are lowered, times `n`, by
//!
//! ```text
//! Σ cL²/nL + cR²/nR - c²/n  =  Σ (cL·n - c·nL)² / (n·nL·nR)
//! ```
//!
//! of which the right side needs one division, and is nothing where nothing is gained.

use super::growing::GrowingTree;
use crate::numerics::math::ln64;

/// Statistics of rows and a criterion.
pub trait Impurity: Sync {
    /// A row of a node: its number, and what it adds.
    type Entry: Copy + Send + Sync;
    /// Sums of the rows with one code, in one lane.
    type Bin: Copy + Default + Send + Sync;
    /// Sums of the rows of a side of a split, in all lanes.
    type Side: Default + Send + Sync;

    /// Bins a code.
    fn lanes(&self) -> usize;
    /// Returns a row that is drawn `count` times; none where it weighs nothing.
    fn entry(&self, row: u32, count: u32) -> Option<Self::Entry>;
    fn row(entry: &Self::Entry) -> u32;
    /// Returns the entry with another row number.
    fn renumbered(entry: Self::Entry, row: u32) -> Self::Entry;
    fn lane(entry: &Self::Entry) -> usize;
    fn add(bin: &mut Self::Bin, entry: &Self::Entry);
    /// Returns whether no row has the code.
    fn is_empty(&self, bins: &[Self::Bin]) -> bool;

    fn clear(&self, side: &mut Self::Side);
    fn add_entry(&self, side: &mut Self::Side, entry: &Self::Entry);
    fn add_bins(&self, side: &mut Self::Side, bins: &[Self::Bin]);
    fn add_side(&self, side: &mut Self::Side, other: &Self::Side);
    /// Returns rows drawn.
    fn count(&self, side: &Self::Side) -> u64;
    /// Returns what they weigh, in units.
    fn weight(&self, side: &Self::Side) -> u64;

    /// Returns what a split is worth; comparable inside a node. Neither side is empty.
    fn score(&self, left: &Self::Side, total: &Self::Side) -> f64;
    /// Computes by how much a split of this score lowers the node's impurity, times its weight.
    fn gain(&self, score: f64, total: &Self::Side) -> f64;
    /// Returns whether all targets of a node are the same.
    fn is_pure(&self, rows: &[Self::Entry], total: &Self::Side) -> bool;
    /// Adds a leaf.
    fn leaf(&self, total: &Self::Side, out: &mut GrowingTree);

    /// Returns how many ways there are to put categories in order.
    fn orders(&self) -> usize;
    /// Returns what order `order` sorts categories by.
    fn order_key(&self, bins: &[Self::Bin], order: usize) -> f64;
}

/// `x log2 x`, from a table for small numbers.
pub struct Logs(Vec<f64>);

impl Logs {
    /// Returns a table of as many as are asked for often.
    pub fn new(most: u64) -> Logs {
        Logs((0..most.min(1 << 16) + 1).map(x_log_x).collect())
    }

    #[inline(always)]
    fn of(&self, x: u64) -> f64 {
        match self.0.get(x as usize) {
            Some(value) => *value,
            None => x_log_x(x),
        }
    }
}

fn x_log_x(x: u64) -> f64 {
    let x = x as f64;
    if x > 0.0 { x * (ln64(x) * std::f64::consts::LOG2_E) } else { 0.0 }
}

/// Two classes without weights: counts of both and of the second class, packed.
pub struct BinaryImpurity<'a> {
    pub codes: &'a [u32],
    /// For the entropy; gini where there is none.
    pub logs: Option<Logs>,
}

#[derive(Clone, Copy, Default)]
pub struct TwoEntry {
    row: u32,
    /// How often it is drawn, above 16 bits that hold the same for the second class, else 0.
    packed: u32,
}

#[inline(always)]
fn halves(packed: u64) -> (u64, u64) {
    (packed >> 32, packed & 0xffff_ffff)
}

impl Impurity for BinaryImpurity<'_> {
    type Entry = TwoEntry;
    type Bin = u64;
    type Side = u64;

    fn lanes(&self) -> usize {
        1
    }
    fn entry(&self, row: u32, count: u32) -> Option<TwoEntry> {
        Some(TwoEntry { row, packed: (count << 16) | (count * self.codes[row as usize]) })
    }
    #[inline(always)]
    fn row(entry: &TwoEntry) -> u32 {
        entry.row
    }
    #[inline(always)]
    fn renumbered(entry: TwoEntry, row: u32) -> TwoEntry {
        TwoEntry { row, ..entry }
    }
    #[inline(always)]
    fn lane(_: &TwoEntry) -> usize {
        0
    }
    #[inline(always)]
    fn add(bin: &mut u64, entry: &TwoEntry) {
        *bin += ((entry.packed as u64 >> 16) << 32) | (entry.packed as u64 & 0xffff);
    }
    #[inline(always)]
    fn is_empty(&self, bins: &[u64]) -> bool {
        bins[0] == 0
    }
    #[inline(always)]
    fn clear(&self, side: &mut u64) {
        *side = 0;
    }
    #[inline(always)]
    fn add_entry(&self, side: &mut u64, entry: &TwoEntry) {
        Self::add(side, entry);
    }
    #[inline(always)]
    fn add_bins(&self, side: &mut u64, bins: &[u64]) {
        *side += bins[0];
    }
    #[inline(always)]
    fn add_side(&self, side: &mut u64, other: &u64) {
        *side += other;
    }
    #[inline(always)]
    fn count(&self, side: &u64) -> u64 {
        side >> 32
    }
    #[inline(always)]
    fn weight(&self, side: &u64) -> u64 {
        side >> 32
    }
    #[inline(always)]
    fn score(&self, left: &u64, total: &u64) -> f64 {
        if let Some(logs) = &self.logs {
            let side = |packed: u64| {
                let (n, ones) = halves(packed);
                logs.of(n - ones) + logs.of(ones) - logs.of(n)
            };
            return side(*left) + side(*total - *left);
        }
        let ((n, c), (nl, cl)) = (halves(*total), halves(*left));
        let (n, c, nl, cl) = (n as f64, c as f64, nl as f64, cl as f64);
        let d = cl * n - c * nl;
        2.0 * (d * d) / (nl * (n - nl))
    }
    fn gain(&self, score: f64, total: &u64) -> f64 {
        let (n, ones) = halves(*total);
        match &self.logs {
            Some(logs) => score - (logs.of(n - ones) + logs.of(ones) - logs.of(n)),
            None => score / n as f64,
        }
    }
    fn is_pure(&self, _: &[TwoEntry], total: &u64) -> bool {
        let (n, ones) = halves(*total);
        ones == 0 || ones == n
    }
    fn leaf(&self, total: &u64, out: &mut GrowingTree) {
        let (n, ones) = halves(*total);
        out.counts.push(n as u32);
        out.sums.extend([n - ones, ones]);
    }
    fn orders(&self) -> usize {
        1
    }
    fn order_key(&self, bins: &[u64], _: usize) -> f64 {
        let (n, ones) = halves(bins[0]);
        ones as f64 / n as f64
    }
}

/// Classes in lanes of their own, with or without weights.
pub struct ClassImpurity<'a> {
    pub codes: &'a [u32],
    pub classes: usize,
    /// Of each row, in units; 1 where there are none.
    pub weights: Option<Vec<u32>>,
    pub logs: Option<Logs>,
}

#[derive(Clone, Copy)]
pub struct ClassEntry {
    row: u32,
    class: u16,
    count: u16,
    weight: u64,
}

/// Rows drawn, and their weight.
#[derive(Clone, Copy, Default)]
pub struct Weighed {
    weight: u64,
    count: u64,
}

#[derive(Default)]
pub struct ClassSide {
    weights: Vec<u64>,
    all: Weighed,
}
impl ClassSide {
    /// Of rows with these weights of their classes.
    pub fn new(weights: &[u64], weight: u64, count: u64) -> ClassSide {
        ClassSide { weights: weights.to_vec(), all: Weighed { weight, count } }
    }
}

impl Impurity for ClassImpurity<'_> {
    type Entry = ClassEntry;
    type Bin = Weighed;
    type Side = ClassSide;

    fn lanes(&self) -> usize {
        self.classes
    }
    fn entry(&self, row: u32, count: u32) -> Option<ClassEntry> {
        let weight = self.weights.as_ref().map_or(1, |w| w[row as usize]) as u64 * count as u64;
        (weight > 0).then(|| ClassEntry { row, class: self.codes[row as usize] as u16, count: count as u16, weight })
    }
    #[inline(always)]
    fn row(entry: &ClassEntry) -> u32 {
        entry.row
    }
    #[inline(always)]
    fn renumbered(entry: ClassEntry, row: u32) -> ClassEntry {
        ClassEntry { row, ..entry }
    }
    #[inline(always)]
    fn lane(entry: &ClassEntry) -> usize {
        entry.class as usize
    }
    #[inline(always)]
    fn add(bin: &mut Weighed, entry: &ClassEntry) {
        bin.weight += entry.weight;
        bin.count += entry.count as u64;
    }
    #[inline(always)]
    fn is_empty(&self, bins: &[Weighed]) -> bool {
        bins.iter().all(|b| b.count == 0)
    }
    fn clear(&self, side: &mut ClassSide) {
        side.weights.clear();
        side.weights.resize(self.classes, 0);
        side.all = Weighed::default();
    }
    #[inline(always)]
    fn add_entry(&self, side: &mut ClassSide, entry: &ClassEntry) {
        side.weights[entry.class as usize] += entry.weight;
        Self::add(&mut side.all, entry);
    }
    #[inline(always)]
    fn add_bins(&self, side: &mut ClassSide, bins: &[Weighed]) {
        for (sum, bin) in side.weights.iter_mut().zip(bins) {
            *sum += bin.weight;
            side.all.weight += bin.weight;
            side.all.count += bin.count;
        }
    }
    fn add_side(&self, side: &mut ClassSide, other: &ClassSide) {
        side.weights.iter_mut().zip(&other.weights).for_each(|(a, b)| *a += b);
        side.all.weight += other.all.weight;
        side.all.count += other.all.count;
    }
    fn count(&self, side: &ClassSide) -> u64 {
        side.all.count
    }
    fn weight(&self, side: &ClassSide) -> u64 {
        side.all.weight
    }
    #[inline(always)]
    fn score(&self, left: &ClassSide, total: &ClassSide) -> f64 {
        let sums = left.weights.iter().zip(&total.weights);
        if let Some(logs) = &self.logs {
            let inside: f64 = sums.map(|(l, t)| logs.of(*l) + logs.of(t - l)).sum();
            return inside - (logs.of(left.all.weight) + logs.of(total.all.weight - left.all.weight));
        }
        let (n, nl) = (total.all.weight as f64, left.all.weight as f64);
        let squares: f64 = sums.map(|(l, t)| *l as f64 * n - *t as f64 * nl).map(|d| d * d).sum();
        squares / (nl * (n - nl))
    }
    fn gain(&self, score: f64, total: &ClassSide) -> f64 {
        match &self.logs {
            Some(logs) => score - (total.weights.iter().map(|c| logs.of(*c)).sum::<f64>() - logs.of(total.all.weight)),
            None => score / total.all.weight as f64,
        }
    }
    fn is_pure(&self, _: &[ClassEntry], total: &ClassSide) -> bool {
        total.weights.contains(&total.all.weight)
    }
    fn leaf(&self, total: &ClassSide, out: &mut GrowingTree) {
        out.counts.push(total.all.count as u32);
        out.sums.extend(&total.weights);
    }
    /// Returns each class against the others; the second against the first where there are no others.
    fn orders(&self) -> usize {
        if self.classes == 2 { 1 } else { self.classes }
    }
    fn order_key(&self, bins: &[Weighed], order: usize) -> f64 {
        let class = if self.classes == 2 { 1 } else { order };
        bins[class].weight as f64 / bins.iter().map(|b| b.weight).sum::<u64>() as f64
    }
}

/// Targets that are numbers.
pub struct RegressionImpurity {
    /// Of each row `(target - centre) * weight`, in fixed point.
    pub values: Vec<i64>,
    /// Equal for rows with equal targets.
    pub levels: Vec<u32>,
    /// Of each row, in units; 1 where there are none.
    pub weights: Option<Vec<u32>>,
    /// What a mean of values, over weights, is multiplied by to be in units of the target.
    pub unit: f64,
    /// What gains are told in units of (see [`super::Forest::gain_unit`]).
    pub gain_unit: f64,
    pub centre: f64,
    pub poisson: bool,
}

#[derive(Clone, Copy)]
pub struct NumberEntry {
    row: u32,
    level: u32,
    value: i64,
    weight: u32,
    count: u32,
}

#[derive(Clone, Copy, Default)]
pub struct NumberSums {
    sum: i64,
    weight: u64,
    count: u64,
}
impl NumberSums {
    /// Of rows with these sums.
    pub fn new(sum: i64, weight: u64, count: u64) -> NumberSums {
        NumberSums { sum, weight, count }
    }
}

impl RegressionImpurity {
    /// Returns what a gain from fixed point is multiplied by: the unit of values, squared unless under "poisson", over that of
    /// gains.
    pub fn gain_factor(&self) -> f64 {
        if self.poisson {
            return self.unit / self.gain_unit;
        }
        // A power of four's root is a power of two: no square leaves the range that its share of the gains' unit stays in.
        let unit = self.unit / self.gain_unit.sqrt();
        unit * unit
    }
}

impl Impurity for RegressionImpurity {
    type Entry = NumberEntry;
    type Bin = NumberSums;
    type Side = NumberSums;

    fn lanes(&self) -> usize {
        1
    }
    fn entry(&self, row: u32, count: u32) -> Option<NumberEntry> {
        let i = row as usize;
        let weight = self.weights.as_ref().map_or(1, |w| w[i]);
        (weight > 0).then(|| NumberEntry { row, level: self.levels[i], value: self.values[i], weight, count })
    }
    #[inline(always)]
    fn row(entry: &NumberEntry) -> u32 {
        entry.row
    }
    #[inline(always)]
    fn renumbered(entry: NumberEntry, row: u32) -> NumberEntry {
        NumberEntry { row, ..entry }
    }
    #[inline(always)]
    fn lane(_: &NumberEntry) -> usize {
        0
    }
    #[inline(always)]
    fn add(bin: &mut NumberSums, e: &NumberEntry) {
        bin.sum += e.count as i64 * e.value;
        bin.weight += e.count as u64 * e.weight as u64;
        bin.count += e.count as u64;
    }
    #[inline(always)]
    fn is_empty(&self, bins: &[NumberSums]) -> bool {
        bins[0].count == 0
    }
    #[inline(always)]
    fn clear(&self, side: &mut NumberSums) {
        *side = NumberSums::default();
    }
    #[inline(always)]
    fn add_entry(&self, side: &mut NumberSums, entry: &NumberEntry) {
        Self::add(side, entry);
    }
    #[inline(always)]
    fn add_bins(&self, side: &mut NumberSums, bins: &[NumberSums]) {
        self.add_side(side, &bins[0]);
    }
    #[inline(always)]
    fn add_side(&self, side: &mut NumberSums, other: &NumberSums) {
        side.sum += other.sum;
        side.weight += other.weight;
        side.count += other.count;
    }
    #[inline(always)]
    fn count(&self, side: &NumberSums) -> u64 {
        side.count
    }
    fn weight(&self, side: &NumberSums) -> u64 {
        side.weight
    }
    #[inline(always)]
    fn score(&self, left: &NumberSums, total: &NumberSums) -> f64 {
        let (n, s, nl, sl) = (total.weight as f64, total.sum as f64, left.weight as f64, left.sum as f64);
        if self.poisson {
            let (sr, nr) = ((total.sum - left.sum) as f64, n - nl);
            // A mean of zero has no logarithm: as in scikit-learn such a child is none.
            return if sl > 0.0 && sr > 0.0 { sl * ln64(sl / nl) + sr * ln64(sr / nr) } else { f64::NEG_INFINITY };
        }
        let d = sl * n - s * nl;
        d * d / (nl * (n - nl))
    }
    fn gain(&self, score: f64, total: &NumberSums) -> f64 {
        let (n, s) = (total.weight as f64, total.sum as f64);
        if self.poisson { (score - s * ln64(s / n)) * self.gain_factor() } else { score / n * self.gain_factor() }
    }
    fn is_pure(&self, rows: &[NumberEntry], _: &NumberSums) -> bool {
        rows.iter().all(|e| e.level == rows[0].level)
    }
    fn leaf(&self, total: &NumberSums, out: &mut GrowingTree) {
        out.counts.push(total.count as u32);
        out.sums.push(total.weight);
        out.means.push(self.centre + total.sum as f64 / total.weight as f64 * self.unit);
    }
    fn orders(&self) -> usize {
        1
    }
    fn order_key(&self, bins: &[NumberSums], _: usize) -> f64 {
        bins[0].sum as f64 / bins[0].weight as f64
    }
}
