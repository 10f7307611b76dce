//! The structs that the host and the kernels share: twins of those in `kernels/trees/*.cuh`,
//! field by field. Addresses are those of the device.

use crate::runtime::layouts::assert_layouts;
use cudarc::driver::{DeviceRepr, ValidAsZeroBits};
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

macro_rules! tables {
    ($($(#[$doc:meta])* pub struct $name:ident as $twin:literal { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {
        $($(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }

        // SAFETY: plain numbers in C's layout, which is the kernels' own.
        unsafe impl DeviceRepr for $name {}
        // SAFETY: zeros are numbers.
        unsafe impl ValidAsZeroBits for $name {})*

        assert_layouts! { taiga_kernels::layouts::TREES; $($name as $twin { $($field),* })* }
    };
}

tables! {
    /// Sums over rows.
    pub struct Total as "Sums" { gradient: i64, hessian: i64, count: i64, }

    /// How the derivatives of one tree become integers.
    pub struct GradientQuantizer as "GradientQuantizer" {
        gradient: f64, hessian: f64,
        gradient32: f32, hessian32: f32,
        leaf_gradient: f64, leaf_hessian: f64,
        unit_gradient: f64, unit_hessian: f64,
        largest_gradient: u32, largest_hessian: u32,
        wide: u32, unit: u32,
    }

    /// The rows as the losses see them.
    pub struct LossRows as "LossRows" {
        rows: u64,
        target: u64, weight: u64, bag: u64, scores: u64,
        output: u32, loss: u32,
        a: f32, b: f32,
        classes: u32, unused: u32,
    }

    /// A node's rows.
    pub struct NodeRows as "NodeRows" {
        start: u32, len: u32,
        gone: u64,
        list: u32, parent: i32,
        right: u32, unused: u32,
    }

    /// A division.
    pub struct PartitionJob as "PartitionJob" {
        codes: u64,
        node: u32, last: u32, zero_right: u32, is_set: u32,
        set: [u32; 8],
        right_is_smaller: u32, slot: u32,
        moves: u32, unused: u32,
    }

    /// The rows of a launch's nodes.
    pub struct LaunchRows as "LaunchRows" { rows: u32, unused: u32, }

    /// A node's rows are summed in a slot.
    pub struct HistogramJob as "HistogramJob" { node: u32, slot: u32, }

    /// Where histograms of a group go.
    pub struct Histograms as "Histograms" {
        codes: u64, rows: u64, slots: u64, slot_size: u64,
        features: u32, bins: u32, components: u32, component: u32,
        first_sparse_bin: u64,
        packed: u32, unused: u32,
    }

    /// The lists of a group's sparse features.
    pub struct SparseRows as "SparseRows" { starts: u64, bins: u64, }

    /// How rows are added to the bins of their entries.
    pub struct SparseSumParams as "SparseSumParams" { entries: SparseRows, lanes: u32, near: u32, mean: u32, unused: u32, }

    /// The lists of rows.
    pub struct RowLists as "RowLists" { lists: [u64; 2], packed_gradients: u64, }

    /// The rows of nodes as records.
    pub struct RowRecords as "RowRecords" { codes: u64, packed_gradients: u64, lists: [u64; 2], }

    /// A feature.
    pub struct FeatureInfo as "FeatureInfo" {
        borders: u32, first: u32, categories: u32, monotone: i32,
        column: u32, usual: u32, low: u32, start: u32,
    }

    /// What makes a split good and allowed.
    pub struct Rules as "Rules" {
        l1: f64, l2: f64, min_child_weight: f64, min_gain: f64,
        min_data_in_leaf: i64,
        smooth: f64, category_l2: f64,
        most_categories: u32, constrained: u32, level_limits: u32, unused: u32,
    }

    /// A node to be searched.
    pub struct SplitInput as "SplitInput" {
        sums: Total,
        low: f64, high: f64,
        slot: u32, minus: i32,
        features: u32, state: u32,
    }

    /// What a feature offers a node.
    pub struct FeatureSplit as "FeatureSplit" { gain: f64, border: u32, side: u32, left: Total, unused: u64, }

    /// What was found for a node.
    pub struct NodeSplit as "NodeSplit" {
        gain: f64,
        feature: u32, border: u32, side: u32, unused: u32,
        left: Total,
        set: [u32; 8],
    }

    /// A search.
    pub struct SplitSearch as "SplitSearch" {
        histograms: Histograms,
        features: u64,
        first_feature: u32, first_column: u32, columns: u32, counted: u32,
        features_here: u32, unused: u32,
        split_inputs: u64, allowed: u64, quantizer: u64, best: u64, sets: u64,
        rules: Rules,
    }

    /// The scores of a level's candidates.
    pub struct LevelScores as "LevelScores" {
        scores: u64, lefts: u64, missing: u64, sums: u64, parent: u64, any: u64,
        nodes: u32, unused: u32,
    }

    /// How rows are drawn.
    pub struct RowDraw as "RowDraw" { kind: u32, bucket: u32, l2: f32, unused: u32, first: f64, second: f64, }

    /// A tree as rows walk it.
    pub struct TreeWalk as "TreeWalk" { split_tests: u64, children: u64, sets: u64, entries: u32, depth: u32, sparse: SparseRows, }

    /// The sums of leaves.
    pub struct LeafSumParams as "LeafSumParams" {
        walk: TreeWalk,
        leaf: u64, sums: u64,
        near: u32, leaves: u32, copies: u32, limbs: u32, piece: u32, unused: u32,
        codes: u64,
        cleared: u64, clears: u64,
    }

    /// The values of leaves that are found behind their sums.
    pub struct LeafValues as "LeafValues" { rules: Rules, learning_rate: f64, values: u64, log: u64, arrived: u64, }

    /// What a tree begins with once its root is summed.
    pub struct TreeStart as "TreeStart" {
        search: SplitSearch,
        slot: u32, bins: u32,
        total: u64, split_inputs: u64, root: u64, sums: u64,
        numbers: u32, unused: u32,
    }

    /// What a root's pass does before the tree's quantizer is known.
    pub struct RootGuess as "RootGuess" {
        last: u64, leaf: u64, values: u64, sums: u64, largest: u64, arrived: u64, out: u64, wrong: u64,
        unit: u32, unused: u32,
    }

    /// A level that grows without asking the host.
    pub struct ResidentLevel as "ResidentLevel" {
        search: SplitSearch,
        numbers: u64, codes: u64,
        nodes: u64, split_inputs: u64, found: u64, split_tests: u64, sets: u64,
        jobs: u64, summed: u64, starts: u64, plan: u64, arrived: u64,
        level: u32, depth: u32,
    }
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
        let SplitParams { l1, l2, min_child_weight, min_data_in_leaf, min_gain, categories } = rules.params;
        let CategoryRules { smooth, l2: category_l2, most: most_categories } = categories;
        Rules {
            l1,
            l2,
            min_child_weight,
            min_gain,
            min_data_in_leaf,
            smooth,
            category_l2,
            most_categories,
            constrained: rules.leaves_are_bounded() as u32,
            level_limits: rules.level_limits as u32,
            unused: 0,
        }
    }
}

impl LossRows {
    /// Names the loss by its number and parameters.
    pub fn with_formula(self, formula: Formula) -> LossRows {
        let Formula { name, a, b, classes } = formula;
        LossRows { loss: number_of(name), a, b, classes, ..self }
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
    let (list, name) = (taiga_kernels::layouts::LOSSES.as_bytes(), formula.as_bytes());
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

/// Whether a list has a name, and a comma behind it, at a place.
const fn is_named(list: &[u8], at: usize, name: &[u8]) -> bool {
    let mut i = 0;
    while i < name.len() && at + i < list.len() && list[at + i] == name[i] {
        i += 1;
    }
    i == name.len() && at + i < list.len() && list[at + i] == b','
}
