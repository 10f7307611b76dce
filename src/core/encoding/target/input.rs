//! What a target encoding reads, checked, and its target in the forms that statistics borrow.

use super::params::{Auto, PriorWeight, TargetParams};
use crate::column::categories::UncodedCategories;
use crate::encoding::statistic::{AnyStatistic, Flags, check_finite};
use crate::error::{Error, Result};
use crate::memory::product;
use rayon::prelude::*;
use std::borrow::Cow;

/// The target of an encoding.
#[derive(Clone, Copy, Debug)]
pub enum EncodingTarget<'a> {
    /// 0 and 1: one value a row.
    Flags(&'a [u8]),
    /// Finite numbers: one value a row.
    Numbers(&'a [f64]),
    /// A class for each row and the number of classes: a value a row for each class.
    Classes(&'a [u32], usize),
}

impl EncodingTarget<'_> {
    pub(super) fn rows(&self) -> usize {
        match self {
            EncodingTarget::Flags(v) => v.len(),
            EncodingTarget::Numbers(v) => v.len(),
            EncodingTarget::Classes(v, _) => v.len(),
        }
    }

    /// Returns the number of values that a row gets.
    pub fn outputs(&self) -> usize {
        match self {
            EncodingTarget::Classes(_, classes) => *classes,
            _ => 1,
        }
    }
}

/// The rows that [`target_encode`](super::target_encode) reads: categories, target and weights.
#[derive(Clone, Copy, Debug)]
pub struct EncodingInput<'a> {
    /// The category of each row.
    pub codes: &'a [u32],
    /// The number of categories; codes are below it.
    pub categories: usize,
    pub target: EncodingTarget<'a>,
    /// A weight for each row: finite and not negative.
    pub weight: Option<&'a [f64]>,
}

impl EncodingInput<'_> {
    /// Checks that target and weights are of as many rows, finite, and that weights are not negative and not all zero.
    ///
    /// # Errors
    /// [`Error::Data`].
    pub fn check(&self) -> Result<()> {
        check_rows(self.codes.len(), self.target, self.weight)
    }
}

/// The rows of an encoding whose categories have no codes.
#[derive(Clone)]
pub struct UncodedInput<'a> {
    pub categories: UncodedCategories<'a>,
    pub target: EncodingTarget<'a>,
    /// A weight for each row: finite and not negative.
    pub weight: Option<&'a [f64]>,
}

impl UncodedInput<'_> {
    /// Checks what [`EncodingInput::check`] does.
    ///
    /// # Errors
    /// As there.
    pub fn check(&self) -> Result<()> {
        check_rows(self.categories.rows(), self.target, self.weight)
    }
}

fn check_rows(rows: usize, target: EncodingTarget<'_>, weight: Option<&[f64]>) -> Result<()> {
    let lengths = [("target", Some(target.rows())), ("weight", weight.map(<[f64]>::len))];
    for (what, len) in lengths {
        if let Some(n) = len.filter(|n| *n != rows) {
            return Err(Error::Data(format!("the {what} has {n} rows and the categories have {rows}")));
        }
    }
    if let EncodingTarget::Numbers(values) = target {
        check_finite("target", values, true)?;
    }
    if let Some(weight) = weight {
        check_finite("weight", weight, false)?;
        if rows > 0 && weight.par_iter().all(|w| *w == 0.0) {
            return Err(Error::Data("all weights are zero".into()).degenerate());
        }
    }
    Ok(())
}

/// Returns a row that weighs something, where some row weighs nothing.
fn counting(weight: &[f64]) -> Option<usize> {
    weight.par_iter().any(|w| *w == 0.0).then(|| weight.iter().position(|w| *w > 0.0)).flatten()
}

/// The target in the forms that statistics borrow.
pub struct Prepared<'a> {
    flags: Vec<Cow<'a, [u8]>>,
    numbers: Vec<Cow<'a, [f64]>>,
    weight: Option<&'a [f64]>,
    squares: bool,
    /// The prior times what it counts for.
    beside: f64,
}

/// Returns bytes a row of what [`Prepared::new`] makes.
pub(super) fn prepared_bytes(target: EncodingTarget<'_>, weight: Option<&[f64]>, params: &TargetParams) -> u64 {
    let numbers = params.prior_weight == PriorWeight::Named(Auto::Auto) || weight.is_some();
    let each = if numbers { 8 } else { 1 };
    match target {
        EncodingTarget::Flags(_) if numbers => 8,
        EncodingTarget::Flags(_) | EncodingTarget::Numbers(_) => 0,
        EncodingTarget::Classes(_, classes) => product(&[each, classes as u64]),
    }
}

impl<'a> Prepared<'a> {
    pub fn new(target: EncodingTarget<'a>, weight: Option<&'a [f64]>, params: &TargetParams) -> Self {
        let squares = params.prior_weight == PriorWeight::Named(Auto::Auto);
        let times = if let PriorWeight::Fixed(weight) = params.prior_weight { weight.max(1.0) } else { 1.0 };
        let beside = (params.prior.unwrap_or(0.0).abs() * times).min(f64::MAX);
        let mut prepared = Prepared { flags: vec![], numbers: vec![], weight, squares, beside };
        match target {
            EncodingTarget::Flags(v) => prepared.flags.push(v.into()),
            EncodingTarget::Numbers(v) => prepared.numbers.push(v.into()),
            EncodingTarget::Classes(codes, classes) => {
                let of = |class: usize| codes.par_iter().map(|c| (*c as usize == class) as u8).collect::<Vec<u8>>();
                prepared.flags.extend((0..classes).map(|class| Cow::Owned(of(class))));
            }
        }
        if squares || weight.is_some() {
            let numbers = |flags: Cow<'_, [u8]>| flags.par_iter().map(|f| *f as f64).collect::<Vec<f64>>();
            prepared.numbers.extend(std::mem::take(&mut prepared.flags).into_iter().map(|flags| Cow::Owned(numbers(flags))));
        }
        if let Some(weight) = weight
            && let Some(row) = counting(weight)
        {
            // A row of weight 0 is as if it were not there: no unit and no centre may know its target.
            for numbers in &mut prepared.numbers {
                let neutral = numbers[row];
                numbers.to_mut().par_iter_mut().zip(weight).filter(|(_, w)| **w == 0.0).for_each(|(y, _)| *y = neutral);
            }
        }
        prepared
    }

    /// Returns the statistic of each output.
    pub fn statistics(&self) -> Vec<AnyStatistic<'_>> {
        let flags = self.flags.iter().map(|f| AnyStatistic::Flags(Flags(f)));
        flags.chain(self.numbers.iter().map(|n| AnyStatistic::numbers(n, self.weight, self.squares, self.beside))).collect()
    }
}
