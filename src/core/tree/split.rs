//! How a split is scored: second-order gains (Chen and Guestrin, "XGBoost", 2016) in f64 from
//! integer sums.

use super::params::{SplitParams, TreeParams};

/// Exact sums over rows, in the integer units of a tree's [`Scales`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub gradient: i64,
    pub hessian: i64,
    /// Rows; 0 throughout where rows are not counted.
    pub count: i64,
}

impl std::ops::Add for Sums {
    type Output = Sums;
    #[inline(always)]
    fn add(self, other: Sums) -> Sums {
        Sums { gradient: self.gradient + other.gradient, hessian: self.hessian + other.hessian, count: self.count + other.count }
    }
}

impl std::ops::Sub for Sums {
    type Output = Sums;
    #[inline(always)]
    fn sub(self, other: Sums) -> Sums {
        Sums { gradient: self.gradient - other.gradient, hessian: self.hessian - other.hessian, count: self.count - other.count }
    }
}

/// What one integer unit of a tree's gradient and hessian sums is worth: powers of two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scales {
    pub gradient: f64,
    pub hessian: f64,
}

/// What makes a split good, and what makes it allowed, in a tree; [`SplitParams`] are its fields too.
#[derive(Clone, Debug, PartialEq)]
pub struct SplitRules {
    pub scales: Scales,
    /// What is the same in every tree.
    pub params: SplitParams,
    /// Whether the two limits of a child bind a split that serves all nodes of a level: none of them may get a child that has rows
    /// and is too small. Rows are counted then.
    pub level_limits: bool,
    /// -1, 0 or 1 for each coded feature; empty: no constraints.
    pub monotone: Vec<i8>,
}

impl std::ops::Deref for SplitRules {
    type Target = SplitParams;

    #[inline(always)]
    fn deref(&self) -> &SplitParams {
        &self.params
    }
}

/// What a node hands on to the values of its children.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inherited {
    /// Under monotone constraints, the least and the largest value that leaves below the node may have.
    pub bounds: (f64, f64),
    /// The node's own value, which smoothing draws its children's to.
    pub value: f64,
}

impl Inherited {
    /// That values have no bounds, and nothing to be drawn to.
    pub const NOTHING: Inherited = Inherited { bounds: (f64::NEG_INFINITY, f64::INFINITY), value: 0.0 };
}

/// What divisions of a node by a subset of categories keep to (LightGBM's `cat_smooth`, `cat_l2`
/// and `max_cat_threshold`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CategoryRules {
    /// Added to the hessians that categories are sorted by.
    pub smooth: f64,
    /// Added to `l2`.
    pub l2: f64,
    /// The largest number of categories in the subset.
    pub most: u32,
}

impl Default for CategoryRules {
    fn default() -> Self {
        CategoryRules { smooth: 10.0, l2: 10.0, most: 32 }
    }
}

/// Lowers the absolute value of `gradient` by `l1`, but not through zero.
#[inline(always)]
pub fn soft_threshold(gradient: f64, l1: f64) -> f64 {
    let lowered = gradient.abs() - l1;
    let lowered = if lowered > 0.0 { lowered } else { 0.0 };
    if gradient < 0.0 { -lowered } else { lowered }
}

impl SplitRules {
    /// Returns the rules of a tree whose sums are in units of `scales`.
    pub fn new(params: &TreeParams, scales: Scales) -> SplitRules {
        SplitRules { scales, params: params.split, level_limits: params.level_limits(), monotone: params.monotone.clone() }
    }

    /// Returns whether splits are scored by the values that leaves get, which need not be those that lower the loss most: under monotone
    /// constraints, and where values have a limit or are smoothed.
    #[inline]
    pub fn scores_by_values(&self) -> bool {
        !self.monotone.is_empty() || self.moves_values()
    }

    /// Returns whether rows are counted beside hessians.
    #[inline]
    pub fn counts_rows(&self) -> bool {
        self.min_data_in_leaf > 0 || self.path_smooth > 0.0 || self.level_limits
    }

    /// Returns the gradient and hessian of `sums` as numbers.
    #[inline]
    pub fn values(&self, sums: Sums) -> (f64, f64) {
        (sums.gradient as f64 * self.scales.gradient, sums.hessian as f64 * self.scales.hessian)
    }

    /// Returns the value that a node with these derivatives would have as a tree of its own: `-T(G) / (H + l2)`, no larger than
    /// `max_delta_step`.
    pub fn own_value(&self, gradient: f64, hessian: f64) -> f64 {
        let divisor = hessian + self.l2;
        let value = if divisor > 0.0 { -soft_threshold(gradient, self.l1) / divisor } else { 0.0 };
        value.max(-self.max_delta_step).min(self.max_delta_step)
    }

    /// Returns the value of a leaf with these derivatives and so many rows: its own one, between which and the parent's `path_smooth` chooses
    /// by the rows (LightGBM's `path_smooth`), within the bounds.
    pub fn leaf_value(&self, gradient: f64, hessian: f64, rows: f64, inherited: &Inherited) -> f64 {
        let mut value = self.own_value(gradient, hessian);
        if self.path_smooth > 0.0 {
            let share = rows / self.path_smooth;
            value = value * share / (share + 1.0) + inherited.value / (share + 1.0);
        }
        value.max(inherited.bounds.0).min(inherited.bounds.1)
    }

    /// Computes by how much a leaf of this value lowers twice the loss of its rows.
    pub fn leaf_score(&self, gradient: f64, hessian: f64, value: f64) -> f64 {
        -(2.0 * (gradient * value + self.l1 * value.abs()) + (hessian + self.l2) * value * value)
    }

    /// Returns the score of a node that is not split.
    pub fn node_score(&self, sums: Sums, inherited: &Inherited) -> f64 {
        let (g, h) = self.values(sums);
        if !self.scores_by_values() {
            let t = soft_threshold(g, self.l1);
            let divisor = h + self.l2;
            if divisor > 0.0 { t * t / divisor } else { 0.0 }
        } else {
            self.leaf_score(g, h, self.leaf_value(g, h, sums.count as f64, inherited))
        }
    }

    /// Returns whether a node with these sums is searched: could have two allowed children at all, or may forbid a level's split.
    pub fn is_searched(&self, sums: Sums) -> bool {
        if self.level_limits {
            return sums.count > 0;
        }
        let h = sums.hessian as f64 * self.scales.hessian;
        sums.hessian >= 2 && h >= 2.0 * self.min_child_weight && (self.min_data_in_leaf == 0 || sums.count >= 2 * self.min_data_in_leaf)
    }
}

impl SplitRules {
    /// Returns whether a child with these sums is allowed.
    #[inline]
    pub fn large_enough(&self, sums: Sums) -> bool {
        let (_, h) = self.values(sums);
        sums.hessian > 0 && h >= self.min_child_weight && (self.min_data_in_leaf == 0 || sums.count >= self.min_data_in_leaf)
    }

    /// Returns the score of a child of a division by categories, which is regularised more.
    pub fn category_score(&self, sums: Sums, inherited: &Inherited) -> f64 {
        let (g, h) = self.values(sums);
        if self.moves_values() {
            let h = h + self.categories.l2;
            return self.leaf_score(g, h, self.leaf_value(g, h, sums.count as f64, inherited));
        }
        let t = soft_threshold(g, self.l1);
        t * t / (h + self.l2 + self.categories.l2)
    }
}
