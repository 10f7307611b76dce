//! Row weights: what a weight column and class weights come to, whatever their unit.
//!
//! Training sees weights in units of a power of two, the largest one of the training rows between 1 and 2, so that no
//! factor common to all of them, and no product of a row's and a class's, leaves the range of f32 or changes a digit.
//! What has the unit of a weight (`l2`, say) is divided by it, and what is reported is multiplied by it.

use super::{ClassWeight, Input, Target};
use crate::error::{Error, Result};
use rayon::prelude::*;

/// Weights of rows, of which some may be 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// One for each row in units of `unit`, those of held-out rows in a unit of their own. No positive weight is 0 here:
    /// one below 2^-126 of the largest counts as about that.
    pub values: Vec<f32>,
    /// A power of two: what 1 is worth in a training row.
    pub unit: f64,
}

/// The exponents of the units that are told apart: beyond them `l2` and all others of its unit mean nothing beside the weights.
const EXPONENTS: std::ops::RangeInclusive<i32> = -1000..=1000;

const TWO_54: f64 = (1u64 << 54) as f64;

/// Rows that a thread takes at a time.
const ROWS: usize = 1 << 16;

/// A number with 24 binary digits, as f32 has them, and any exponent: `mantissa · 2^exponent`, `1 <= mantissa <= 2`.
#[derive(Clone, Copy)]
struct Rounded {
    mantissa: f32,
    exponent: i32,
}

impl Rounded {
    /// The nearest one to a positive finite number.
    #[inline(always)]
    fn of(x: f64) -> Rounded {
        // A subnormal number has its exponent in its leading zeros.
        let (x, more) = if x < f64::MIN_POSITIVE { (x * TWO_54, 54) } else { (x, 0) };
        let bits = x.to_bits();
        let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1f64.to_bits());
        Rounded { mantissa: mantissa as f32, exponent: (bits >> 52) as i32 - 1023 - more }
    }

    /// A product of two, rounded once.
    #[inline(always)]
    fn times(self, other: Rounded) -> Rounded {
        let product = Rounded::of(self.mantissa as f64 * other.mantissa as f64);
        Rounded { exponent: product.exponent + self.exponent + other.exponent, ..product }
    }

    /// In units of `2^unit`: at most 4, and no less than the smallest normal f32.
    #[inline(always)]
    fn over(self, unit: i32) -> f32 {
        let exponent = (self.exponent - unit).clamp(-126, 1);
        self.mantissa * f32::from_bits(((exponent + 127) as u32) << 23)
    }
}

/// Row weights: the weight column times the class weights; `None` where there is neither.
///
/// # Errors
/// For weights that are none, naming the column and the row, for class weights of classes that are not there, and where all
/// training rows or all held-out rows weigh nothing.
pub fn row_weights(input: &Input<'_>, class_weight: &ClassWeight) -> Result<Option<Weights>> {
    let column = input.weight.as_ref().map(|column| {
        let (name, values) = (column.name(), column.to_f64());
        let missing = values.iter().filter(|x| x.is_nan()).count();
        if missing > 0 {
            return Err(Error::column(
                name,
                format!("the weight is null or NaN in {missing} of {} rows: fill or filter them", values.len()),
            )
            .of_values());
        }
        if let Some((row, x)) = values.iter().enumerate().find(|(_, x)| **x < 0.0 || x.is_infinite()) {
            return Err(Error::column(name, format!("the weight is {x} in row {row}: weights are finite and not negative")).of_values());
        }
        Ok(values)
    });
    let (column, by_class) = (column.transpose()?, class_weights(input, class_weight)?);
    if column.is_none() && by_class.is_none() {
        return Ok(None);
    }
    let codes = match &input.target {
        Target::Classes { codes, .. } => *codes,
        Target::Numbers(_) | Target::Several(_) => &[],
    };
    let rows = column.as_ref().map_or(codes.len(), Vec::len);
    // Of each class; none where it weighs nothing.
    let by_class: Option<Vec<Option<Rounded>>> = by_class.map(|w| w.into_iter().map(|w| (w > 0.0).then(|| Rounded::of(w))).collect());
    let weight = |row: usize| {
        let own = column.as_ref().map_or(1.0, |c| c[row]);
        let own = (own > 0.0).then(|| Rounded::of(own))?;
        match &by_class {
            Some(by_class) => by_class[codes[row] as usize].map(|class| own.times(class)),
            None => Some(own),
        }
    };
    let held_out = |row: usize| input.held_out.is_some_and(|h| h[row]);
    // The exponents of the largest weights of training rows and of held-out ones.
    let note = |mut largest: [Option<i32>; 2], row: usize| {
        let exponent = weight(row).map(|w| w.exponent);
        let largest_of = &mut largest[held_out(row) as usize];
        *largest_of = (*largest_of).max(exponent);
        largest
    };
    let all = || (0..rows).into_par_iter().with_min_len(ROWS);
    let largest = all().fold(|| [None; 2], note).reduce(|| [None; 2], |a, b| [a[0].max(b[0]), a[1].max(b[1])]);
    let weightless = |which: &str| {
        let text = format!("all {which} rows weigh zero");
        match &input.weight {
            Some(column) => Error::column(column.name(), text),
            None => Error::parameter("class_weight", text),
        }
        .degenerate()
    };
    let Some(unit) = largest[0] else { return Err(weightless("training")) };
    if input.held_out.is_some() && largest[1].is_none() {
        return Err(weightless("held-out"));
    }
    let units = [unit, largest[1].unwrap_or(0)];
    let values = all().map(|row| weight(row).map_or(0.0, |w| w.over(units[held_out(row) as usize]))).collect();
    Ok(Some(Weights { values, unit: libm::ldexp(1.0, unit.clamp(*EXPONENTS.start(), *EXPONENTS.end())) }))
}

fn class_weights(input: &Input<'_>, class_weight: &ClassWeight) -> Result<Option<Vec<f64>>> {
    let Target::Classes { codes, labels } = &input.target else {
        let none = *class_weight == ClassWeight::None;
        return if none { Ok(None) } else { Err(Error::parameter("class_weight", "there are no classes to weigh")) };
    };
    match class_weight {
        ClassWeight::None => Ok(None),
        ClassWeight::Balanced => {
            let mut counts = vec![0u64; labels.len()];
            let training = codes.iter().enumerate().filter(|(i, _)| !input.held_out.is_some_and(|h| h[*i]));
            training.for_each(|(_, c)| counts[*c as usize] += 1);
            let (rows, classes) = (counts.iter().sum::<u64>() as f64, counts.iter().filter(|c| **c > 0).count() as f64);
            Ok(Some(counts.into_iter().map(|c| if c > 0 { rows / (classes * c as f64) } else { 1.0 }).collect()))
        }
        ClassWeight::ByLabel(by_label) => {
            let names = labels.names();
            if let Some(unknown) = by_label.keys().find(|k| !names.contains(k)) {
                return Err(Error::parameter(
                    "class_weight",
                    format!("the target has no class `{unknown}`; its classes are {}", names.join(", ")),
                )
                .degenerate());
            }
            Ok(Some(names.iter().map(|n| by_label.get(n).map_or(1.0, |w| w.0)).collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Column;
    use crate::dataset::labels::Labels;
    use serde_json::json;

    fn weights(weight: Option<&[f64]>, codes: &[u32], class_weight: serde_json::Value) -> Weights {
        let input = Input {
            features: vec![],
            target: Target::Classes { codes, labels: Labels::Text(vec!["a".into(), "b".into()]) },
            target_name: "y".into(),
            weight: weight.map(|w| Column::from_f64("w", w)),
            baseline: vec![],
            held_out: None,
            loss_columns: Default::default(),
            evaluation: Default::default(),
            order: None,
        };
        row_weights(&input, &serde_json::from_value(class_weight).unwrap()).unwrap().unwrap()
    }

    /// What weights came to before they had a unit: a product of f32. In its range the digits are the same.
    #[test]
    fn weights_are_products_of_single_floats() {
        let own: Vec<f64> = (0..200).map(|i| 0.1 + (i as f64 * 0.37).sin().abs() * 9.0).collect();
        let codes: Vec<u32> = (0..200).map(|i| i % 2).collect();
        let w = weights(Some(&own), &codes, json!({ "a": 0.3, "b": 1.7 }));
        for (i, value) in w.values.iter().enumerate() {
            let before = own[i] as f32 * if i % 2 == 0 { 0.3 } else { 1.7 };
            assert_eq!(*value as f64 * w.unit, before as f64);
        }
        assert_eq!(w.unit.log2().fract(), 0.0);
        assert!((1.0..=2.0).contains(&w.values.iter().fold(0.0f32, |m, w| m.max(*w))));
    }

    /// Products far outside of f32, and of f64, keep their ratios.
    #[test]
    fn weights_of_any_size_keep_their_ratios() {
        for (own, class) in [(1.0, 1e39), (3e38, 10.0), (1e300, 1e300), (1e-300, 1e-300), (1e-45, 1.0), (5e-324, 1.0)] {
            let w = weights(Some(&[own, own, 0.5 * own, 0.0]), &[0, 1, 1, 1], json!({ "a": class, "b": 0.25 * class }));
            assert_eq!(w.values[1] / w.values[0], 0.25);
            assert_eq!(w.values[2] / w.values[0], if own == 5e-324 { 0.0 } else { 0.125 }, "{own}");
            assert_eq!(w.values[3], 0.0);
        }
        // What is too small to tell beside the largest is not nothing.
        let w = weights(None, &[0, 1], json!({ "a": 1e39, "b": 1.0 }));
        assert_eq!(w.values[1], f32::MIN_POSITIVE);
        assert!(w.values[0] >= 1.0);
    }
}
