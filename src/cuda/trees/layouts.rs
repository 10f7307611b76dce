//! The structs that the host and the kernels share: twins of those in `kernels/trees/*.cuh`. Addresses are those of the device.

use crate::runtime::layouts::kernel_structs;
use taiga_core::losses::{Formula, LossKind};
use taiga_core::tree::params::SplitParams;
use taiga_core::tree::split::{CategoryRules, SplitRules, Sums};

/// Features of a block of codes: a row of a block is one 32-byte sector.
pub const LANES: usize = 32;

/// Features of a record, which is a row's codes and its packed gradient.
pub const RECORD_FEATURES: usize = 28;

/// Bytes of a record.
pub const RECORD: usize = 32;

/// The number that stands for "all rows in order" where a list is named.
pub const IN_ORDER: u32 = 2;

/// [`FeatureInfo::usual`] of a feature with a column of its own, which has all codes.
pub const ALL_STORED: u32 = u32::MAX;

/// [`FeatureInfo::column`] of a sparse feature.
pub const SPARSE_COLUMN: u32 = u32::MAX;

/// Marks what stands for an address of codes where a sparse feature's are meant.
pub const SPARSE: u64 = 1 << 60;

/// [`SplitInput::state`] of a node that is there and is searched.
pub const SEARCHED: u32 = 3;

/// Sides of a found split.
pub const NO_SIDE: u32 = 0;
pub const MISSING_LEFT: u32 = 1;
pub const SUBSET: u32 = 3;

/// What a split test has beside the address of its feature's codes ([`split_test`]).
const ADDRESS_BITS: u32 = 49;
const ZERO_RIGHT: u64 = 1 << 57;
pub const BY_SET: u64 = 1 << 58;
const LEAF: u64 = 1 << 59;

/// A split test that rows walk by: codes up to `last` go left, code 0 right where `zero_right`.
pub fn split_test(codes: u64, last: u32, zero_right: bool) -> u64 {
    debug_assert!((codes & !SPARSE) >> ADDRESS_BITS == 0);
    codes | (last.min(255) as u64) << ADDRESS_BITS | if zero_right { ZERO_RIGHT } else { 0 }
}

/// Where rows end.
pub fn leaf(number: usize) -> u64 {
    LEAF | number as u64
}

kernel_structs! {
    Total, GradientQuantizer, LossProgram, LossRows, NodeRows, PartitionJob, LaunchRows, HistogramJob, Histograms, SparseRows, SparseSumParams, RowLists,
    RowRecords, FeatureInfo, Rules, SplitInput, FeatureSplit, NodeSplit, SplitSearch, LevelScores, RowDraw, TreeWalk, LeafSumParams,
    LeafValues, TreeStart, RootGuess, ResidentLevel, GroupRows, PositionRows, RiskRows, RiskTie, SharedOutput, SharedOutputs,
    KeptTree, LinearColumn, LinearLeafColumns, LinearRounding, LinearSums, LinearFunction, LinearCoefficient, ShardMagnitudes, DeviceGroup, AllReduce, QuantizerReduce, LeafReduce, ScoreGather, SmallTable, SmallFit,
    SmallNode, SmallLeaf, SmallBest,
}

impl From<Sums> for Total {
    fn from(s: Sums) -> Total {
        Total { gradient: s.gradient, hessian: s.hessian, count: s.count }
    }
}

impl From<Total> for Sums {
    fn from(t: Total) -> Sums {
        Sums { gradient: t.gradient, hessian: t.hessian, count: t.count }
    }
}

impl Rules {
    /// Makes the rules of a tree; units come from its quantizer, which the device has.
    pub fn new(rules: &SplitRules) -> Rules {
        let SplitParams { l1, l2, min_child_weight, min_data_in_leaf, min_gain, max_delta_step, path_smooth, categories } = rules.params;
        let CategoryRules { smooth, l2: category_l2, most: most_categories } = categories;
        Rules {
            l1,
            l2,
            min_child_weight,
            min_gain,
            max_delta_step,
            path_smooth,
            min_data_in_leaf,
            smooth,
            category_l2,
            most_categories,
            constrained: rules.scores_by_values() as u32,
            level_limits: rules.level_limits as u32,
            moved: rules.moves_values() as u32,
        }
    }
}

impl LossRows {
    /// Names the loss by its number and parameters.
    pub fn with_formula(self, formula: Formula) -> LossRows {
        let Formula { name, a, b, classes } = formula;
        LossRows { loss: number_of(name), a, b, classes, ..self }
    }

    /// Names derivatives that were found before, by row, instead of a loss.
    pub fn with_derivatives(self, gradient: u64, hessian: u64) -> LossRows {
        LossRows { loss: number_of("custom"), gradient, hessian, ..self }
    }
}

// Every loss has a formula that the kernels compute.
const _: () = {
    let mut i = 0;
    while i < LossKind::FORMULAS.len() {
        number_of(LossKind::FORMULAS[i]);
        i += 1;
    }
};

/// Returns the number of a formula that the kernels compute, as `kernels/numerics/losses.def` has it; for others the crate does not compile.
const fn number_of(formula: &str) -> u32 {
    let (list, name) = (taiga_kernels::LOSSES.as_bytes(), formula.as_bytes());
    let (mut at, mut number) = (0, 0);
    while at < list.len() {
        let is_entry = list[at] == b'L';
        // On to the bracket, or to the next line.
        while list[at] != b'(' && list[at] != b'\n' {
            at += 1;
        }
        if is_entry && is_named(list, at + 1, name) {
            return number;
        }
        number += is_entry as u32;
        while list[at] != b'\n' {
            at += 1;
        }
        at += 1;
    }
    panic!("no kernel computes this loss")
}

/// Whether a list has a name, and a comma or a bracket behind it, at a place.
const fn is_named(list: &[u8], at: usize, name: &[u8]) -> bool {
    let mut i = 0;
    while i < name.len() && at + i < list.len() && list[at + i] == name[i] {
        i += 1;
    }
    i == name.len() && at + i < list.len() && (list[at + i] == b',' || list[at + i] == b')')
}
