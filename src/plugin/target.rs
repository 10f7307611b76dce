//! The target column: numbers for a regression, class codes and labels for a classification.

use crate::columns::{self, Numbers};
use crate::errors;
use crate::labels::label_type;
use crate::several::SeveralTargets;
use polars::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use taiga_engine::dataset::Target;
use taiga_engine::dataset::labels::{Label, Labels};
use taiga_engine::losses::LossKind;
use taiga_engine::provenance::LabelType;

/// More classes than this are a mistake (an identifier for a target, say) and not a task.
const MAX_CLASSES: usize = 10_000;

/// What [`Target`] borrows from.
pub enum TargetColumn {
    Numbers(Numbers),
    /// `dtype`: the column's type, where it is not the one that labels are kept as.
    Classes {
        codes: Vec<u32>,
        labels: Labels,
        dtype: Option<LabelType>,
    },
    Several(SeveralTargets),
}

fn is_text(dtype: &DataType) -> bool {
    matches!(dtype, DataType::String | DataType::Categorical(..) | DataType::Enum(..))
}

/// Whether the labels of a target of this type are classes under `loss`, as [`TargetColumn::new`] says.
///
/// # Errors
/// For types that the loss can't use, naming the column and its type.
pub fn is_of_classes(name: &str, dtype: &DataType, loss: LossKind, by: &str) -> PolarsResult<bool> {
    if dtype.is_struct() {
        let text =
            format!("its type is {dtype}, several targets, of which this model has one: fit one to each field, or `fit_gbdt` to all");
        return Err(errors::mistyped(name, text));
    }
    let text = is_text(dtype);
    let classes = match loss {
        LossKind::Auto => text || *dtype == DataType::Boolean,
        _ => loss.is_for_classes(),
    };
    if text && !classes {
        return Err(errors::mistyped(name, format!("its type is {dtype}, which {by} can't use; it needs numbers")));
    }
    if !text {
        columns::check_number(name, dtype, "a target")?;
    }
    Ok(classes)
}

impl TargetColumn {
    /// The target of `loss`, which is what the user calls `by`. Booleans, strings, categories and enums are classes unless the loss
    /// is a regression's (then only Booleans will do, as 0 and 1); numbers are classes only for a
    /// classification loss. Labels are sorted: false before true, numbers ascending, those of an Enum
    /// as their type has them, other text by its bytes; the codes of a Categorical never matter.
    /// `positive` is put last.
    ///
    /// # Errors
    /// For missing and infinite values, more than two classes for a loss of two, a
    /// `positive` that is none of two classes, and types that the loss can't use.
    pub fn new(series: &Series, loss: LossKind, by: &str, positive: Option<&Label>) -> PolarsResult<Self> {
        let name = series.name().as_str();
        let dtype = series.dtype();
        if !is_of_classes(name, dtype, loss, by)? {
            return Ok(TargetColumn::Numbers(Numbers::finite(series, "a target")?));
        }

        let (mut codes, mut labels) = if let DataType::Enum(_, mapping) = dtype {
            nulls(series)?;
            enum_classes(series, mapping)?
        } else if is_text(dtype) {
            nulls(series)?;
            text_classes(series)?
        } else if *dtype == DataType::Boolean {
            nulls(series)?;
            boolean_classes(series)?
        } else if dtype.is_integer() {
            nulls(series)?;
            let integers = series.cast_with_options(&DataType::Int64, polars::chunked_array::cast::CastOptions::Strict).map_err(|_| {
                errors::values(
                    name,
                    "a class label is beyond 2^63 - 1, and labels are integers of 64 bits with a sign; use text labels instead",
                )
            })?;
            let (codes, labels) = classes_of(name, integers.i64()?.iter().flatten())?;
            (codes, Labels::Integer(labels))
        } else {
            float_classes(series, loss)?
        };
        if loss.is_for_two_classes() && labels.len() > 2 {
            let (count, listed, loss) = (labels.len(), listed(&labels), loss.name());
            return Err(errors::values(
                name,
                format!("it has {count} classes ({listed}); loss=\"{loss}\" is for two, loss=\"multiclass\" for more"),
            ));
        }
        let dtype = label_type(dtype).filter(|dtype| *dtype != labels.kept_as());
        // Of no rows there are no labels.
        if let Some(positive) = positive.filter(|_| !labels.is_empty()) {
            // Other rows, of another group say, may have both classes.
            let is_one = labels.len() < 2;
            let alike = |error: taiga_engine::Error| if is_one { error.degenerate() } else { error };
            let ordered = labels.with_positive(positive, dtype.as_ref());
            let (ordered, changed) = ordered.map_err(|error| errors::compute(alike(error)))?;
            labels = ordered;
            if changed {
                codes.iter_mut().for_each(|code| *code = 1 - *code);
            }
        }
        Ok(TargetColumn::Classes { codes, labels, dtype })
    }

    /// The type of the labels, where it is not the one that they are kept as.
    pub fn label_type(&self) -> Option<LabelType> {
        match self {
            TargetColumn::Numbers(_) | TargetColumn::Several(_) => None,
            TargetColumn::Classes { dtype, .. } => dtype.clone(),
        }
    }

    /// The engine's view.
    pub fn target(&self) -> Target<'_> {
        match self {
            TargetColumn::Numbers(numbers) => Target::Numbers(numbers.column()),
            TargetColumn::Classes { codes, labels, .. } => Target::Classes { codes, labels: labels.clone() },
            TargetColumn::Several(targets) => targets.target(),
        }
    }
}

/// The first few labels.
fn listed(labels: &Labels) -> String {
    let names = labels.names();
    let mut text = names.iter().take(5).map(|s| s.as_str()).collect::<Vec<_>>().join(", ");
    if names.len() > 5 {
        text.push_str(", …");
    }
    text
}

fn nulls(series: &Series) -> PolarsResult<()> {
    let (n, name) = (series.null_count(), series.name().as_str());
    if n == 0 {
        return Ok(());
    }
    Err(errors::values(
        name,
        format!(
            "{n} of {} null, which a target can't be; leave those rows out first with .filter(pl.col({name:?}).is_not_null())",
            errors::count(series.len(), "value is", "values are")
        ),
    ))
}

/// Ascending distinct values, and the index of each value among them.
pub fn classes_of<T: Ord + Hash + Copy>(name: &str, values: impl Iterator<Item = T>) -> PolarsResult<(Vec<u32>, Vec<T>)> {
    let mut seen: HashMap<T, u32> = HashMap::new();
    let mut distinct = vec![];
    let mut codes = Vec::with_capacity(values.size_hint().0);
    let mut last: Option<(T, u32)> = None;
    for value in values {
        let code = match last {
            Some((v, code)) if v == value => code,
            _ => *seen.entry(value).or_insert_with(|| {
                distinct.push(value);
                distinct.len() as u32 - 1
            }),
        };
        last = Some((value, code));
        if distinct.len() > MAX_CLASSES {
            let text =
                format!("it has more than {MAX_CLASSES} distinct values, and a target has at most so many classes; is it a class label?");
            return Err(errors::column(name, text));
        }
        codes.push(code);
    }
    let order: BTreeMap<T, u32> = distinct.iter().copied().zip(0..).collect();
    let mut rank = vec![0u32; distinct.len()];
    for (r, first) in order.values().enumerate() {
        rank[*first as usize] = r as u32;
    }
    for code in &mut codes {
        *code = rank[*code as usize];
    }
    Ok((codes, order.into_keys().collect()))
}

/// Checks that a column of type `given` can have a model's labels, which are kept as the type `kept`; in the fitted column they were of the
/// type `dtype`.
///
/// # Errors
/// If it can't, naming the column and both types.
pub fn check_label_type(name: &str, given: &DataType, kept: &DataType, dtype: &LabelType) -> PolarsResult<()> {
    let fits = match kept {
        DataType::String => is_text(given),
        DataType::Boolean => *given == DataType::Boolean,
        _ => given.is_primitive_numeric() || matches!(given, DataType::Decimal(..)),
    };
    match fits {
        true => Ok(()),
        false => Err(errors::mistyped(name, format!("its type is {given}; the model's classes are of type {dtype}"))),
    }
}

/// The class of each row of a target, as an index into `labels`, which are as they are kept; in the fitted column they were of the
/// type `dtype`.
///
/// # Errors
/// For nulls, labels of another type, and a label that is none of these.
pub fn class_codes(series: &Series, labels: &Series, dtype: &LabelType) -> PolarsResult<Vec<u32>> {
    let name = series.name().as_str();
    nulls(series)?;
    check_label_type(name, series.dtype(), labels.dtype(), dtype)?;
    let unknown = |label: &dyn std::fmt::Display| {
        let known: Vec<String> = (0..labels.len().min(20)).filter_map(|i| labels.get(i).ok()).map(|l| l.to_string()).collect();
        let more = if labels.len() > known.len() { ", …" } else { "" };
        errors::values(name, format!("{label} is none of the model's classes ({}{more})", known.join(", ")))
    };
    if let Ok(own) = labels.str() {
        let places: HashMap<&str, u32> = own.iter().flatten().zip(0..).collect();
        let values = series.cast(&DataType::String)?;
        return values.str()?.iter().flatten().map(|v| places.get(v).copied().ok_or_else(|| unknown(&format_args!("{v:?}")))).collect();
    }
    if let Ok(own) = labels.bool() {
        let places: HashMap<bool, u32> = own.iter().flatten().zip(0..).collect();
        return series.bool()?.iter().flatten().map(|v| places.get(&v).copied().ok_or_else(|| unknown(&v))).collect();
    }
    let integers = series.dtype().is_integer() && labels.dtype().is_integer();
    let dtype = if integers { DataType::Int64 } else { DataType::Float64 };
    // A value beyond 64 bits becomes null, and is no label.
    let (values, own) = (series.cast(&dtype)?, labels.cast(&dtype)?);
    if integers {
        let places: HashMap<i64, u32> = own.i64()?.iter().flatten().zip(0..).collect();
        let find = |(row, v): (usize, Option<i64>)| {
            let label = || series.get(row).map_or_else(|_| String::new(), |v| v.to_string());
            v.and_then(|v| places.get(&v).copied()).ok_or_else(|| unknown(&label()))
        };
        return values.i64()?.iter().enumerate().map(find).collect();
    }
    let bits = |x: f64| (x + 0.0).to_bits();
    let places: HashMap<u64, u32> = own.f64()?.iter().flatten().map(bits).zip(0..).collect();
    values.f64()?.iter().flatten().map(|v| places.get(&bits(v)).copied().ok_or_else(|| unknown(&v))).collect()
}

fn boolean_classes(series: &Series) -> PolarsResult<(Vec<u32>, Labels)> {
    let codes: Vec<u32> = series.bool()?.iter().map(|b| b.unwrap_or(false) as u32).collect();
    Ok((codes, Labels::Boolean))
}

fn text_classes(series: &Series) -> PolarsResult<(Vec<u32>, Labels)> {
    let strings = series.cast(&DataType::String)?;
    let (codes, labels) = classes_of(series.name(), strings.str()?.iter().flatten())?;
    labels.iter().try_for_each(|label| columns::check_label(series.name(), label))?;
    Ok((codes, Labels::Text(labels.into_iter().map(|s| s.to_string()).collect())))
}

/// Those that occur, in the order of the type; of a type of two both, as of Booleans.
fn enum_classes(series: &Series, mapping: &CategoricalMapping) -> PolarsResult<(Vec<u32>, Labels)> {
    let physical = series.to_physical_repr().cast(&DataType::UInt32)?;
    let physical = physical.u32()?.iter().flatten();
    let (codes, present) = match mapping.num_cats_upper_bound() {
        2 => (physical.collect(), vec![0, 1]),
        _ => classes_of(series.name(), physical)?,
    };
    let label = |code: u32| {
        let unknown = || errors::column(series.name(), format!("its category number {code} has no name"));
        mapping.cat_to_str(code).map(str::to_owned).ok_or_else(unknown)
    };
    let labels = present.into_iter().map(label).collect::<PolarsResult<Vec<String>>>()?;
    labels.iter().try_for_each(|label| columns::check_label(series.name(), label))?;
    Ok((codes, Labels::Text(labels)))
}

fn float_classes(series: &Series, loss: LossKind) -> PolarsResult<(Vec<u32>, Labels)> {
    let name = series.name().as_str();
    let numbers = Numbers::finite(series, "a target")?;
    let values = numbers.column().to_f64();
    let unfit = |x: f64| if loss.is_for_two_classes() { x != 0.0 && x != 1.0 } else { x != x.trunc() || x.abs() > 1e15 };
    if let Some(x) = values.iter().find(|x| unfit(**x)) {
        return Err(errors::values(
            name,
            match loss.is_for_two_classes() {
                true => format!(
                    "{x} is no label of loss=\"{}\": a float target holds 0 and 1 (cast labels to integers or text, and take \
                     loss=\"cross_entropy\" for probabilities)",
                    loss.name()
                ),
                false => format!("{x} is no class label: it is not a whole number (cast labels to integers or text)"),
            },
        ));
    }
    let (codes, labels) = classes_of(name, values.iter().map(|x| *x as i64))?;
    Ok((codes, Labels::Float(labels.into_iter().map(|x| x as f64).collect())))
}
