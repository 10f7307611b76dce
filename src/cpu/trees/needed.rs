//! The memory of a fit on the CPU, reserved before it is taken.

use super::feature_groups::Group;
use super::fill::MOST_COLUMN_BYTES;
use super::group_derivatives::GroupedRows;
use super::presorted::{self, Presorted};
use taiga_core::error::Result;
use taiga_core::learners::boosting::layout::StoragePlan;
use taiga_core::learners::boosting::steps::TrainingData;
use taiga_core::memory;
use taiga_core::memory::{Reservation, product, sum};
use taiga_core::quantize::CodedFeature;
use taiga_core::quantize::exceptions::Exceptions;

/// Reserves what the shards of `threads` threads take, beside what is in `data`: rows and their codes. `replicated`: every
/// shard has all rows; `presorted`: how trees are searched, if by sorted rows; `listed`: rows are listed. `grouped`: the rows in the order that the
/// loss needs them in.
///
/// # Errors
/// [`taiga_core::Error::Memory`].
pub fn shards(
    data: &TrainingData<'_>,
    plan: &StoragePlan,
    exceptions: &[Option<Exceptions>],
    threads: usize,
    (replicated, presorted, listed): (bool, Option<Presorted>, bool),
    grouped: Option<&GroupedRows>,
) -> Result<Reservation> {
    let (rows, scores) = (data.target.len() as u64, data.scores.len() as u64);
    let spilled = data.batches.is_some_and(|batched| batched.batches.spill().is_some());
    let copies = if replicated { threads as u64 } else { 1 };
    let bagged = !data.row_sampling.keeps_all() || data.held_out.is_some();
    // Target, weight, scores and the leaf under each, marks of held-out rows, draws, and two lists of rows.
    let weighed = 4 * data.weight.is_some() as u64;
    let flags = data.held_out.is_some() as u64 + 4 * bagged as u64;
    // What the loss reads beside the target, and the derivatives that groups give.
    let of_loss = 4 * (data.columns.len() + data.more_targets.len()) as u64;
    let given = if grouped.is_some() { 8 } else { 0 };
    // Where outputs share a tree, their statistics side by side, in whole vectors.
    let shared = super::lanes_of(data);
    let lanes = if shared > 1 { (shared as u64).next_multiple_of(8) } else { 0 };
    // The scores of a tree's outputs once more, while its leaves take further steps.
    let tried = if data.steps_on { 4 * data.shared as u64 } else { 0 };
    // The rows by piece, and the scores of bodies, which have less than two rows a row, under each permutation of ordered boosting.
    let permutations = data.pieces.of_rows.len() as u64;
    let bodies = product(&[permutations, 8 + 8 * scores / (permutations + 1)]);
    let of_groups = grouped.map_or(0, |grouped| product(&[data.shard.all as u64, grouped.row_bytes()]));
    let lists = if listed { LISTED } else { 0 };
    let of_row = sum(&[4 + lists + weighed + flags + of_loss + given + 4 * lanes + tried, bodies, product(&[6, scores])]);
    let of_rows = sum(&[product(&[copies, rows, of_row]), of_groups]);
    let strides = plan.layout.blocks.iter().map(|b| b.stride as u64);
    // The first block has the statistics, which every shard needs.
    let first = plan.layout.blocks.first().map_or(0, |b| b.stride as u64);
    let by_row = product(&[rows, strides.sum::<u64>() + (copies - 1) * first]);
    let columns = product(&[rows, plan.column_codes.len() as u64]);
    // Of codes by feature each thread makes its share, which then come together.
    let shares = if replicated { 2 } else { 1 };
    let by_feature = if presorted.is_some() || columns <= MOST_COLUMN_BYTES as u64 { shares * columns } else { 0 };
    let sorted = presorted::bytes(presorted, data);
    // By row a start, a flag and the words; by feature rows and codes.
    let unbundled = plan.sparse[..plan.unbundled].iter().filter_map(|f| exceptions[f.feature].as_ref());
    let entries: u64 = unbundled.map(|e| e.rows.len() as u64).sum();
    let of_lists = if plan.unbundled > 0 { 5 * rows + 7 * entries } else { 0 };
    let partials = product(&[8, threads as u64, plan.partial_bins() as u64, lanes.max(1)]);
    let more = if scores > 1 { format!(", with {scores} scores a row") } else { String::new() };
    let less = if scores > 1 {
        "fit on fewer rows or features, to fewer classes, or lower `permutations`"
    } else {
        "fit on fewer rows or features"
    };
    // What lies in files the system writes out where it has no room.
    let drawn = if bagged { 4 * rows } else { 0 };
    let (of_rows, by_row) = if spilled { (drawn, 0) } else { (of_rows, by_row) };
    // What threads take of the rows `data` gives up before any codes are made.
    let given_up = product(&[rows, 4 + weighed + of_loss]);
    let read = data.batches.map_or(0, |batched| batched.batches.held_bytes());
    let codes = sum(&[by_row, by_feature, sorted, of_lists, partials, read]);
    memory::reserve(
        &format!("a fit of {rows} rows and {} features{more}", data.features.len()),
        of_rows.saturating_add(codes.saturating_sub(given_up)),
        less,
    )
}

/// Bytes of a row in both lists.
const LISTED: u64 = 8;

/// Reserves what the lists of `rows` rows take, of a fit that has made none before.
///
/// # Errors
/// [`taiga_core::Error::Memory`].
pub fn lists(rows: usize, spilled: bool) -> Result<Reservation> {
    let bytes = if spilled { 0 } else { product(&[LISTED, rows as u64]) };
    memory::reserve(&format!("the lists of {rows} rows"), bytes, "give `spill` a folder, or fit on fewer rows")
}

/// Reserves what the codes of another group of features take in the shards.
///
/// # Errors
/// [`taiga_core::Error::Memory`].
pub fn group(features: &[CodedFeature], plan: &StoragePlan, rows: usize) -> Result<Reservation> {
    let strides: u64 = plan.layout.blocks.iter().map(|b| b.stride as u64).sum();
    memory::reserve(
        &format!("the codes of {} statistics of categories in {rows} rows", features.len()),
        product(&[rows as u64, strides]),
        "lower `max_combination` or `permutations`, or fit on fewer rows",
    )
}

/// Returns bytes of the histogram of one node of a group.
pub fn of_histogram(features: &[CodedFeature], plan: &StoragePlan, counted: bool) -> u64 {
    let words = plan.words() * if plan.wide { 2 } else { 1 };
    let bins: usize = plan.dense_features().map(|(f, _)| features[f].bins()).sum();
    8 * (bins * if counted { 3 } else { 2 } + words) as u64
}

/// Checks that there is memory for the histograms of as many nodes as the next search of a group needs.
///
/// # Errors
/// [`taiga_core::Error::Memory`].
pub fn histograms(group: &Group, features: usize) -> Result<()> {
    let nodes = group.used_slots;
    memory::check(
        &format!("the histograms of {features} features in {nodes} nodes"),
        product(&[nodes as u64, group.histogram_bytes]),
        "lower `depth` (or `leaves`) or `bins`",
    )
}
