//! Several targets in one column: a struct of them, lists or arrays of as many numbers in each row, or lists of the labels that rows have.

use crate::columns::{self, Numbers};
use crate::errors;
use arrow2::array::ListArray;
use polars::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use taiga_engine::dataset::Target;
use taiga_engine::error::RowsFault;
use taiga_engine::losses::LossKind;

/// More labels than this are a mistake, as in [`crate::target`].
const MAX_LABELS: usize = 10_000;

/// What a column of several targets is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// A struct: a target a field.
    Struct,
    /// Lists or arrays of numbers: a target an item, as many in each row.
    Items,
    /// Lists of text: the labels that a row has.
    Texts,
    /// Lists of integers: the labels that a row has.
    Integers,
}

/// The items' type of a list or an array.
fn item(dtype: &DataType) -> Option<&DataType> {
    match dtype {
        DataType::List(inner) => Some(inner),
        DataType::Array(inner, _) => Some(inner),
        _ => None,
    }
}

fn shape(dtype: &DataType, loss: LossKind) -> Option<Shape> {
    if matches!(dtype, DataType::Struct(_)) {
        return Some(Shape::Struct);
    }
    match item(dtype)? {
        DataType::String | DataType::Categorical(..) | DataType::Enum(..) => Some(Shape::Texts),
        // An array has as many numbers in each row: they are 0 or 1.
        inner if loss == LossKind::Multilabel && inner.is_integer() && matches!(dtype, DataType::List(_)) => Some(Shape::Integers),
        _ => Some(Shape::Items),
    }
}

/// Returns the loss of a column of this type, where it is one of several targets: `auto` is `multilabel` for labels and Booleans.
///
/// # Errors
/// For types that no target has, and labels under another loss.
pub fn loss_of(name: &str, dtype: &DataType, loss: LossKind) -> PolarsResult<Option<LossKind>> {
    let Some(shape) = shape(dtype, loss) else { return Ok(None) };
    let types: Vec<(String, &DataType)> = match dtype {
        DataType::Struct(fields) => fields.iter().map(|f| (f.name().to_string(), f.dtype())).collect(),
        _ => item(dtype).map(|inner| (name.to_string(), inner)).into_iter().collect(),
    };
    if types.is_empty() {
        return Err(errors::mistyped(name, "its structs have no fields: a target is one number at the least"));
    }
    if !matches!(shape, Shape::Texts) {
        types.iter().try_for_each(|(name, dtype)| columns::check_number(name, dtype, "a target"))?;
    } else if !matches!(loss, LossKind::Auto | LossKind::Multilabel) {
        let text =
            format!("its type is {dtype}, lists of labels, which loss=\"multilabel\" is for; loss=\"{}\" needs numbers", loss.name());
        return Err(errors::mistyped(name, text));
    }
    let labels = shape == Shape::Texts || types.iter().all(|(_, dtype)| **dtype == DataType::Boolean);
    Ok(Some(if loss == LossKind::Auto && labels { LossKind::Multilabel } else { loss }))
}

/// Returns the names of the targets in a column of this type, as far as that tells them.
pub fn names_of(dtype: &DataType) -> Option<Vec<String>> {
    match dtype {
        DataType::Struct(fields) => Some(fields.iter().map(|f| f.name().to_string()).collect()),
        DataType::Array(_, width) => Some((0..*width).map(|k| k.to_string()).collect()),
        _ => None,
    }
}

/// Several targets, owned.
pub struct SeveralTargets(Vec<Numbers>);

impl SeveralTargets {
    /// Reads the targets of a column. `known`: their names, where a model says them; else labels are those of the rows that `held_out` does
    /// not mark.
    ///
    /// # Errors
    /// For nulls and numbers that are not finite, naming the target, and lists of unequal lengths, naming the row.
    pub fn new(series: &Series, loss: LossKind, held_out: Option<&[bool]>, known: Option<&[String]>) -> PolarsResult<SeveralTargets> {
        let name = series.name().as_str();
        if series.null_count() > 0 {
            return Err(errors::values(
                name,
                format!("{} of {} are null, which a target can't be", series.null_count(), errors::count(series.len(), "row", "rows")),
            ));
        }
        let columns = match shape(series.dtype(), loss) {
            Some(Shape::Struct) => fields(series, known)?,
            Some(Shape::Texts) => labels(series, &DataType::String, held_out, known)?,
            Some(Shape::Integers) => labels(series, &DataType::Int64, held_out, known)?,
            _ => items(series, known)?,
        };
        let numbers = columns.iter().map(|column| Numbers::finite(column, "a target"));
        Ok(SeveralTargets(numbers.collect::<PolarsResult<_>>()?))
    }

    /// The engine's view.
    pub fn target(&self) -> Target<'_> {
        Target::Several(self.0.iter().map(Numbers::column).collect())
    }

    /// Returns the values, one target's behind the other's.
    pub fn values(&self) -> Vec<f64> {
        self.0.iter().flat_map(|numbers| numbers.column().to_f64()).collect()
    }
}

/// The fields of a struct, those of `known` by their names.
fn fields(series: &Series, known: Option<&[String]>) -> PolarsResult<Vec<Series>> {
    let fields = series.struct_()?.fields_as_series();
    let Some(known) = known else { return Ok(fields) };
    let of_name = |name: &String| {
        let missing = || errors::column(series.name(), format!("it has no field `{name}`, which is one of the model's targets"));
        fields.iter().find(|field| field.name().as_str() == name).cloned().ok_or_else(missing)
    };
    known.iter().map(of_name).collect()
}

/// The lengths of a column's lists, none of which is null, and their items as one column of type `wanted`.
fn flat(series: &Series, wanted: &DataType) -> PolarsResult<(Vec<usize>, Series)> {
    let lists = series.strict_cast(&DataType::List(Box::new(wanted.clone()))).map_err(|e| errors::column(series.name(), e))?;
    let (mut lengths, mut all) = (Vec::with_capacity(series.len()), Series::new_empty(series.name().clone(), wanted));
    for chunk in lists.list()?.downcast_iter() {
        let chunk: &ListArray<i64> = chunk;
        let offsets = chunk.offsets().as_slice();
        lengths.extend(offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize));
        let (first, last) = (offsets[0] as usize, offsets[offsets.len() - 1] as usize);
        let items = chunk.values().sliced(first, last - first);
        all.append(&Series::try_from((series.name().clone(), items))?)?;
    }
    Ok((lengths, all))
}

/// The columns of lists of as many numbers each.
fn items(series: &Series, known: Option<&[String]>) -> PolarsResult<Vec<Series>> {
    let name = series.name().as_str();
    let (lengths, all) = flat(series, &DataType::Float64)?;
    let width = known.map_or_else(|| lengths.first().copied().unwrap_or(0), <[String]>::len);
    if let Some(row) = lengths.iter().position(|n| *n != width) {
        let others = if known.is_some() { "the model has" } else { "the first row has" };
        let text = format!(
            "its list in row {row} has {}, and {others} {width}: targets are as many in each row",
            errors::count(lengths[row], "item", "items")
        );
        return Err(errors::values(name, text));
    }
    if width == 0 {
        return Err(errors::of_rows(RowsFault::Degenerate, format!("column `{name}`: its lists are empty: there is no target")));
    }
    let mut columns = vec![Vec::with_capacity(lengths.len()); width];
    for (place, value) in all.f64()?.iter().enumerate() {
        match value.filter(|x| x.is_finite()) {
            Some(x) => columns[place % width].push(x),
            None => {
                let what = value.map_or("null".into(), |x| x.to_string());
                return Err(errors::values(
                    name,
                    format!("item {} is {what} in row {}, which a target can't be", place % width, place / width),
                ));
            }
        }
    }
    Ok(columns.into_iter().enumerate().map(|(k, values)| Series::new(k.to_string().into(), values)).collect())
}

/// A column of 0 and 1 for each label of lists of labels.
fn labels(series: &Series, wanted: &DataType, held_out: Option<&[bool]>, known: Option<&[String]>) -> PolarsResult<Vec<Series>> {
    let name = series.name().as_str();
    let (lengths, all) = flat(series, wanted)?;
    if all.null_count() > 0 {
        return Err(errors::values(name, format!("{} of its items are null, which no label is", all.null_count())));
    }
    let texts: Vec<String> = match wanted {
        DataType::Int64 => all.i64()?.iter().flatten().map(|n| n.to_string()).collect(),
        _ => all.str()?.iter().flatten().map(str::to_owned).collect(),
    };
    let rows: Vec<usize> = lengths.iter().enumerate().flat_map(|(row, n)| std::iter::repeat_n(row, *n)).collect();
    let names = match known {
        Some(known) => known.to_vec(),
        None => {
            let trains = |row: usize| !held_out.is_some_and(|marks| marks[row]);
            let own = rows.iter().zip(&texts).filter(|(row, _)| trains(**row)).map(|(_, text)| text);
            let distinct: BTreeSet<&String> = own.collect();
            // Integers by their values, text by its bytes.
            let order: BTreeMap<(i64, &String), ()> = distinct
                .into_iter()
                .map(|text| ((if *wanted == DataType::Int64 { text.parse().unwrap_or(0) } else { 0 }, text), ()))
                .collect();
            order.into_keys().map(|(_, text)| text.clone()).collect()
        }
    };
    if names.is_empty() {
        return Err(errors::of_rows(RowsFault::Degenerate, format!("column `{name}`: no training row has a label")));
    }
    names.iter().try_for_each(|label| columns::check_label(name, label))?;
    if names.len() > MAX_LABELS {
        return Err(errors::column(name, format!("it has more than {MAX_LABELS} distinct labels; are they labels?")));
    }
    let places: HashMap<&str, usize> = names.iter().map(String::as_str).zip(0..).collect();
    let mut columns = vec![vec![0u8; lengths.len()]; names.len()];
    for (row, text) in rows.into_iter().zip(&texts) {
        // A label that no training row has is none of the model's.
        if let Some(place) = places.get(text.as_str()) {
            columns[*place][row] = 1;
        }
    }
    Ok(names.iter().zip(columns).map(|(name, values)| Series::new(name.as_str().into(), values)).collect())
}
