//! From a table to what the optimizers work on: checks, rows, weights.

use super::checks::{LARGEST, check_dense_columns, check_target, too_large};
use super::csr::{Csr, FeatureNumbers};
use super::model::{DenseFeature, Numbering, SparseFeatures};
use super::params::{HASH_BITS, LinearParams};
use super::rows::SparseRows;
use super::schema::check_numbering;
use super::{Input, model};
use crate::collective::{Collective, fault};
use crate::column::Column;
use crate::dataset::labels::Labels;
use crate::dataset::own_rows::BlockMoves;
use crate::dataset::target::TargetData;
use crate::dataset::{OwnRows, Target};
use crate::error::{Error, Result};
use crate::numerics::reduce::{sum as serial_sum, total_weight};
use crate::parallel::thread_pool::ThreadPool;
use crate::{memory, pages};
use std::borrow::Cow;
use std::ops::Range;

/// Coefficients of so many features stand in arrays by feature number; beyond that, where most would be of features that no
/// row has, features are numbered anew.
const ARRAY_FEATURES: u64 = 1 << 24;

/// The problem that a fit solves: rows, classes and weights, and the objective's constants.
///
/// The coefficients of a vector stand by feature (sparse ones, dense columns, the intercept), and of each feature by output:
/// `vector[feature * outputs + output]`.
pub struct Problem<'a> {
    /// The rows of the table that are here: all of them where there are no other processes, else whole blocks of [`super::vectors::BLOCK`].
    pub own: OwnRows<'a>,
    /// These rows, held-out ones too; empty lists where there are none.
    pub csr: Option<Csr<'a>>,
    /// How many features the sparse rows have.
    pub width: usize,
    /// What their numbers were before they were numbered anew, ascending.
    pub numbers: Option<Vec<u64>>,
    /// Whether entries have values, and how many entries there are, in all processes.
    pub has_values: bool,
    pub entries: usize,
    pub dense: &'a [Column<'a>],
    /// How many rows are here.
    pub rows: usize,
    pub outputs: usize,
    pub codes: &'a [u32],
    /// 0 for held-out rows.
    pub weight: Option<Vec<f32>>,
    /// The classes of all rows of the table, and their weights where `weight` has not all of them.
    pub all_codes: &'a [u32],
    weight_of_all: Option<Cow<'a, [f32]>>,
    /// The held-out rows' own (and the training rows') where they are not all 1, of all rows of the table.
    pub all_weights: Option<Vec<f32>>,
    /// Of the training rows.
    pub total_weight: f64,
    pub l1: f64,
    pub l2: f64,
    pub fit_intercept: bool,
}

impl Problem<'_> {
    /// Returns the length of a vector of coefficients.
    pub fn coefficients(&self) -> usize {
        (self.width + self.dense.len() + 1) * self.outputs
    }

    /// Returns where the intercepts stand.
    pub fn intercepts(&self) -> usize {
        (self.width + self.dense.len()) * self.outputs
    }

    /// Returns the largest weight of all rows of the table.
    pub fn largest_weight(&self) -> f64 {
        self.weight_of_training().map_or(1.0, |w| w.iter().fold(0.0, |m, w| if *w as f64 > m { *w as f64 } else { m }))
    }

    /// Returns the weights of all rows of the table, 0 for held-out ones.
    fn weight_of_training(&self) -> Option<&[f32]> {
        self.weight_of_all.as_deref().or(self.weight.as_deref())
    }

    /// Returns the total weight of a class.
    pub(super) fn weight_of_class(&self, class: u32) -> f64 {
        let weight = self.weight_of_training();
        let weight = |i: usize| weight.map_or(1.0, |w| w[i] as f64);
        serial_sum(self.all_codes.len(), |i| if self.all_codes[i] == class { weight(i) } else { 0.0 })
    }

    /// Returns the sums of blocks of rows that all processes have, those of this process being `own`.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn of_all_blocks(&self, own: Vec<f64>) -> Result<Vec<f64>> {
        if self.own.is_whole() { Ok(own) } else { self.own.collective.gather(&own) }
    }

    /// Returns the problem of some of the rows that are here, whole blocks of [`super::vectors::BLOCK`] but at the end; `dense`: these rows of the
    /// dense columns; `collective`: between all who have a part of the table.
    pub fn part<'p>(&'p self, rows: Range<usize>, dense: &'p [Column<'p>], collective: &'p dyn Collective) -> Problem<'p> {
        Problem {
            own: OwnRows { collective, first: self.own.first + rows.start, count: rows.len() },
            csr: self.csr.as_ref().map(|csr| csr.part(rows.clone())),
            width: self.width,
            numbers: None,
            has_values: self.has_values,
            entries: self.entries,
            dense,
            rows: rows.len(),
            outputs: self.outputs,
            codes: &self.codes[rows.clone()],
            weight: self.weight.as_ref().map(|weight| weight[rows].to_vec()),
            all_codes: self.all_codes,
            weight_of_all: self.weight_of_training().map(Cow::Borrowed),
            all_weights: None,
            total_weight: self.total_weight,
            l1: self.l1,
            l2: self.l2,
            fit_intercept: self.fit_intercept,
        }
    }

    /// Returns the weight of row `i`; 0 where it is held out.
    #[inline(always)]
    pub fn weight(&self, i: usize) -> f64 {
        self.weight.as_ref().map_or(1.0, |w| w[i] as f64)
    }
}

/// The classes and columns that the model records.
pub struct Columns {
    pub labels: Labels,
    pub sparse: Option<SparseFeatures>,
    pub dense: Vec<DenseFeature>,
}

/// Returns the problem of a table for which [`super::checks::check_table`] holds.
///
/// # Errors
/// What is wrong with the table or the parameters, naming the column or the parameter.
pub fn problem<'a>(input: &'a Input<'a>, params: &LinearParams, pool: &ThreadPool) -> Result<(Problem<'a>, Columns)> {
    problem_of_blocks(input, &BlockMoves::whole(input.target.rows()), params, pool)
}

/// Returns the problem of the rows that this process has after the `moves`, as the dense columns have been moved; the lists will be.
///
/// # Errors
/// As [`problem`], and those of the collective.
pub fn problem_of_blocks<'a>(
    input: &'a Input<'a>,
    moves: &BlockMoves<'a>,
    params: &LinearParams,
    pool: &ThreadPool,
) -> Result<(Problem<'a>, Columns)> {
    let Target::Classes { codes, labels } = &input.target else { return Err(Error::Data("a target of classes is needed".into())) };
    let (codes, labels) = (*codes, labels.clone());
    let TargetData { weights: all_weights, weight_unit, .. } = check_target(input, params)?;
    let weight = match (input.held_out, &all_weights) {
        (None, weights) => weights.clone(),
        (Some(h), None) => Some(h.iter().map(|h| !*h as u8 as f32).collect::<Vec<f32>>()),
        (Some(h), Some(w)) => Some(w.iter().zip(h).map(|(w, h)| if *h { 0.0 } else { *w }).collect()),
    };
    let total_weight = total_weight(codes.len(), weight.as_deref());
    let Sparse { csr, has_values, entries, width, numbers, features } = sparse(input, moves, params, pool)?;
    let own = moves.own;
    let (weight, weight_of_all) = match weight {
        Some(weight) if !own.is_whole() => (Some(weight[own.range()].to_vec()), Some(Cow::Owned(weight))),
        weight => (weight, None),
    };
    let problem = Problem {
        own,
        csr,
        has_values,
        entries,
        width,
        numbers,
        dense: &input.dense,
        rows: own.count,
        outputs: model::outputs(labels.len()),
        codes: &codes[own.range()],
        weight,
        all_codes: codes,
        weight_of_all,
        all_weights,
        total_weight,
        l1: params.l1,
        l2: params.l2(total_weight * weight_unit),
        fit_intercept: params.fit_intercept,
    };
    let cells = memory::product(&[(problem.width + problem.dense.len() + 1) as u64, problem.outputs as u64]);
    if cells > isize::MAX as u64 / 512 {
        let what = format!("a fit of {} features to {} classes", problem.width, labels.len());
        memory::check(&what, memory::product(&[36, cells]), "lower `hash_bits`, or fit to fewer classes")?;
    }
    Ok((problem, Columns { labels, sparse: features, dense: dense(input) }))
}

/// The features of a table for which [`super::checks::check_columns`] holds, without their values.
pub struct Features {
    pub sparse: Option<SparseFeatures>,
    pub dense: Vec<DenseFeature>,
}

/// Checks the features; returns what a model says of them.
pub fn features(input: &Input<'_>, params: &LinearParams, pool: &ThreadPool) -> Result<Features> {
    let moves = BlockMoves::whole(input.target.rows());
    Ok(Features { sparse: sparse(input, &moves, params, pool)?.features, dense: dense(input) })
}

fn dense(input: &Input<'_>) -> Vec<DenseFeature> {
    input.dense.iter().map(|c| DenseFeature { name: c.name().into(), dtype: c.dtype().clone() }).collect()
}

/// The sparse rows, and what is known of those of all processes.
#[derive(Default)]
struct Sparse<'a> {
    csr: Option<Csr<'a>>,
    has_values: bool,
    entries: usize,
    width: usize,
    numbers: Option<Vec<u64>>,
    features: Option<SparseFeatures>,
}

/// Returns the sparse rows. Checks the dense columns too.
fn sparse<'a>(input: &'a Input<'a>, moves: &BlockMoves<'_>, params: &LinearParams, pool: &ThreadPool) -> Result<Sparse<'a>> {
    let own = &moves.own;
    check_dense_columns(&input.dense, own, params)?;
    check_numbering(input.sparse.as_ref().map(SparseRows::columns), params)?;
    let Some(sparse) = &input.sparse else { return Ok(Sparse::default()) };
    let hash_bits = hash_bits(sparse, params);
    let mut csr = Csr::new(sparse, hash_bits, pool)?.moved(moves)?;
    if let (Some(column), Some((row, x))) = (&sparse.values, csr.find_value(|x| x.abs() > LARGEST)) {
        return Err(too_large(&column.name, x as f32, own.first + row));
    }
    let Totals { has_values, entries, largest } = Totals::of(&csr, own)?;
    if !has_values {
        csr.forget_values();
    }
    if let (Some(features), Some(largest)) = (params.features, largest)
        && largest >= features
        && let Some((row, number)) = csr.find(|k| k >= features)
    {
        return Err(Error::column(
            &sparse.features.name,
            format!("the feature number {number} in row {} is not below features={features}", own.first + row),
        )
        .of_values());
    }
    let limit = match largest {
        Some(u64::MAX) => return Err(Error::column(&sparse.features.name, format!("the feature number {} is too large", u64::MAX))),
        largest => largest.map_or(0, |l| l + 1),
    };
    let numbering = match hash_bits {
        Some(bits) => Numbering::Hashed { bits },
        None => Numbering::Numbers { features: params.features.unwrap_or(limit) },
    };
    let many = limit > ARRAY_FEATURES.max(2 * entries as u64).min(u32::MAX as u64);
    let numbers = many.then(|| renumber(&mut csr, own)).transpose()?;
    let width = numbers.as_ref().map_or(limit as usize, Vec::len);
    let features =
        SparseFeatures { column: sparse.features.name.clone(), values: sparse.values.as_ref().map(|v| v.name.clone()), numbering };
    Ok(Sparse { csr: Some(csr), has_values, entries, width, numbers, features: Some(features) })
}

/// Returns to how many bits the strings of lists are hashed; none where they hold numbers.
pub(super) fn hash_bits(sparse: &SparseRows<'_>, params: &LinearParams) -> Option<u32> {
    sparse.holds_texts().then_some(params.hash_bits.unwrap_or(HASH_BITS))
}

/// What is known of the entries of all processes.
struct Totals {
    has_values: bool,
    entries: usize,
    /// The largest feature number.
    largest: Option<u64>,
}

impl Totals {
    fn of(csr: &Csr<'_>, own: &OwnRows<'_>) -> Result<Totals> {
        let here = (!csr.has_only_ones(), csr.entries() as u64, csr.largest());
        if own.is_whole() {
            return Ok(Totals { has_values: here.0, entries: csr.entries(), largest: here.2 });
        }
        let mut all = Totals { has_values: false, entries: 0, largest: None };
        for bytes in own.collective.gather_bytes(&postcard::to_allocvec(&here).map_err(|error| fault(error.to_string()))?)? {
            let (has_values, entries, largest): (bool, u64, Option<u64>) =
                postcard::from_bytes(&bytes).map_err(|error| fault(format!("totals that can't be read: {error}")))?;
            all.has_values |= has_values;
            all.entries = all.entries.saturating_add(entries as usize);
            all.largest = all.largest.max(largest);
        }
        Ok(all)
    }
}

/// Numbers the features that occur in some process from 0 in ascending order; returns what they were.
fn renumber(csr: &mut Csr<'_>, own: &OwnRows<'_>) -> Result<Vec<u64>> {
    let what = format!("numbering the features of {} entries anew", csr.entries());
    let _reserved = memory::reserve(&what, 12 * csr.entries() as u64, "number features from 0 on")?;
    let mut numbers = pages::try_with_capacity("the numbers of the features", csr.entries())?;
    for piece in &csr.pieces {
        match &piece.keys {
            FeatureNumbers::Narrow(k) => numbers.extend(k.iter().map(|k| *k as u64)),
            FeatureNumbers::Wide(k) => numbers.extend_from_slice(k),
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    if !own.is_whole() {
        let sent: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        numbers.clear();
        for bytes in own.collective.gather_bytes(&sent)? {
            let (all, rest) = bytes.as_chunks::<8>();
            if !rest.is_empty() {
                return Err(fault("a process sends numbers of features that can't be read"));
            }
            numbers.extend(all.iter().map(|bytes| u64::from_le_bytes(*bytes)));
        }
        numbers.sort_unstable();
        numbers.dedup();
    }
    if numbers.len() > u32::MAX as usize {
        return Err(Error::Memory(format!("{} different features; at most {} can be fitted", numbers.len(), u32::MAX)));
    }
    let place = |k: u64| numbers.partition_point(|n| *n < k) as u32;
    for piece in &mut csr.pieces {
        let renumbered: Vec<u32> = match &piece.keys {
            FeatureNumbers::Narrow(k) => k.iter().map(|k| place(*k as u64)).collect(),
            FeatureNumbers::Wide(k) => k.iter().map(|k| place(*k)).collect(),
        };
        piece.keys = FeatureNumbers::Narrow(Cow::Owned(renumbered));
    }
    Ok(numbers)
}
