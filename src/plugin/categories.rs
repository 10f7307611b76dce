//! From Polars' series to categories: String, Categorical, Enum, integers and Booleans.
//!
//! Polars' physical codes never get further than this file: they are not the same in the next
//! query, so a category is its label.

use crate::columns::Numbers;
use crate::errors;
use crate::threads::for_blocks;
use arrow2::array::{Array, Utf8ViewArray};
use polars::prelude::*;
use rayon::prelude::*;
use std::ops::Range;
use taiga_engine::column::categories::{Categories, CategoryColumn, CategoryNames, Codes, HASHED, Texts, UncodedCategories};
use taiga_engine::column::distinct::Chunks;
use taiga_engine::dataset::positions::{PositionLabels, Positions};
use taiga_engine::encoding::Lookup;
use taiga_engine::parallel::{fork, interrupt};

/// Calls `$body` with `$get`, a function from (chunk, row in the chunk) to an optional value, for
/// whichever integer type the series has.
macro_rules! with_integers {
    ($series:expr, |$get:ident| $body:expr, else $other:expr) => {
        with_integers!(@match $series, $get, $body, $other,
            Int8 i8, Int16 i16, Int32 i32, Int64 i64, Int128 i128, UInt8 u8, UInt16 u16, UInt32 u32, UInt64 u64)
    };
    (@match $series:expr, $get:ident, $body:expr, $other:expr, $($dtype:ident $name:ident),*) => {
        match $series.dtype() {
            $(DataType::$dtype => {
                let chunks: Vec<_> = $series.$name()?.downcast_iter().collect();
                let $get = |chunk: usize, row: usize| chunks[chunk].get(row);
                $body
            })*
            _ => $other,
        }
    };
}

/// Whether a column of this type can be one of categories.
pub fn is_category(dtype: &DataType) -> bool {
    let listed = matches!(dtype, DataType::String | DataType::Categorical(..) | DataType::Enum(..) | DataType::Boolean | DataType::Null);
    listed || dtype.is_integer()
}

/// An error for types that categories can't have.
pub fn check_type(name: &str, dtype: &DataType) -> PolarsResult<()> {
    if is_category(dtype) {
        return Ok(());
    }
    Err(errors::mistyped(
        name,
        format!(
            "its type is {dtype}; a category is a String, Categorical, Enum, integer or Boolean: cast it first, for example with \
             pl.col({name:?}).cast(pl.String)"
        ),
    ))
}

/// Checks that a column of this type can hold fitted categories, of the kind that [`Categories::kind`] says.
///
/// # Errors
/// If it can't, naming both.
///
/// [`Categories::kind`]: taiga_engine::column::categories::Categories::kind
pub fn check_kind(name: &str, dtype: &DataType, kind: &str) -> PolarsResult<()> {
    if is_of_kind(dtype, kind) {
        return Ok(());
    }
    Err(errors::mistyped(name, format!("its type is {dtype}; the fitted categories are {kind}")))
}

/// Whether a column of this type can hold categories of that kind.
pub fn is_of_kind(dtype: &DataType, kind: &str) -> bool {
    match dtype {
        DataType::Null => true,
        dtype if kind == HASHED => is_category(dtype),
        DataType::String | DataType::Categorical(..) | DataType::Enum(..) => kind == "text",
        DataType::Boolean => kind == "Booleans",
        dtype => dtype.is_integer() && kind == "integers",
    }
}

fn lengths(series: &Series) -> Vec<usize> {
    series.chunk_lengths().collect()
}

/// The codes of a column, on all threads of the pool that this is called in.
///
/// # Errors
/// For other types, naming the column and its type.
pub fn codes(series: &Series) -> PolarsResult<Codes<'_>> {
    let name = series.name().as_str();
    check_type(name, series.dtype())?;
    let codes = match series.dtype() {
        DataType::String => Codes::of_texts(&StringTexts::new(series)?),
        DataType::Categorical(_, mapping) | DataType::Enum(_, mapping) => {
            let physical = series.to_physical_repr();
            let label = |code| mapping.cat_to_str(code);
            let lengths = lengths(&physical);
            with_integers!(@match physical, get, Codes::dictionary(name, &lengths, get, label),
                return Err(errors::column(name, format!("physical type {}", physical.dtype()))), UInt8 u8, UInt16 u16, UInt32 u32)
        }
        DataType::Boolean => {
            let chunks: Vec<_> = series.bool()?.downcast_iter().collect();
            Codes::booleans(name, &lengths(series), |chunk, row| chunks[chunk].get(row))
        }
        DataType::Null => Codes::text(name, &[series.len()], |_, _| None),
        DataType::Int128 | DataType::UInt128 => {
            let series = narrow(series)?;
            let chunks: Vec<_> = series.i128()?.downcast_iter().collect();
            Codes::integers(name, &lengths(&series), |chunk, row| chunks[chunk].get(row))
        }
        _ => Codes::of_integers(&Numbers::feature(series)?.column()),
    };
    codes.map_err(errors::compute)
}

/// What [`UncodedCategories`] borrows from.
pub enum Uncoded<'a> {
    Integers(Numbers),
    Texts(StringTexts<'a>),
}

impl<'a> Uncoded<'a> {
    /// A column of integers of up to 64 bits or of Strings; none for other types.
    ///
    /// # Errors
    /// None, but for what Polars says of its own columns.
    pub fn new(series: &'a Series) -> PolarsResult<Option<Self>> {
        Ok(match series.dtype() {
            DataType::Int128 | DataType::UInt128 => None,
            dtype if dtype.is_integer() => Some(Uncoded::Integers(Numbers::feature(series)?)),
            DataType::String => Some(Uncoded::Texts(StringTexts::new(series)?)),
            _ => None,
        })
    }

    /// The engine's view.
    pub fn rows(&self) -> UncodedCategories<'_> {
        match self {
            Uncoded::Integers(numbers) => UncodedCategories::Integers(numbers.column()),
            Uncoded::Texts(texts) => UncodedCategories::Texts(texts),
        }
    }
}

/// The texts of a column of Strings.
pub struct StringTexts<'a> {
    name: &'a str,
    arrays: Vec<&'a Utf8ViewArray>,
    chunks: Chunks,
}

impl<'a> StringTexts<'a> {
    /// Those of a series.
    ///
    /// # Errors
    /// For another type.
    pub fn new(series: &'a Series) -> PolarsResult<Self> {
        Ok(StringTexts {
            name: series.name(),
            arrays: series.str()?.downcast_iter().collect(),
            chunks: Chunks::new(series.chunk_lengths()),
        })
    }
}

impl<'b, 'a: 'b> Texts<'b> for StringTexts<'a> {
    fn name(&self) -> &str {
        self.name
    }

    fn rows(&self) -> usize {
        self.chunks.rows()
    }

    fn visit(&self, rows: Range<usize>, visit: &mut dyn FnMut(Option<&'b str>)) {
        for (chunk, rows) in self.chunks.parts(rows) {
            let array = self.arrays[chunk];
            match array.validity() {
                None => rows.for_each(|row| visit(Some(array.value(row)))),
                Some(_) => rows.for_each(|row| visit(array.get(row))),
            }
        }
    }
}

/// Checks that a column of this type can say which rows are of a group.
///
/// # Errors
/// If it can't, naming the column and its type.
pub fn check_group_type(name: &str, dtype: &DataType) -> PolarsResult<()> {
    if is_category(dtype) || is_date(dtype) {
        return Ok(());
    }
    let text = format!("its type is {dtype}, which can't say which rows are of a group; an integer, text or a date can");
    Err(errors::mistyped(name, text))
}

fn is_date(dtype: &DataType) -> bool {
    matches!(dtype, DataType::Date | DataType::Datetime(..))
}

/// Checks that a column of this type can say at which positions rows were shown.
///
/// # Errors
/// If it can't, naming the column and its type.
pub fn check_position_type(name: &str, dtype: &DataType) -> PolarsResult<()> {
    if is_category(dtype) {
        return Ok(());
    }
    let text = format!("its type is {dtype}, which can't say at which `position` rows were shown; an integer or text can");
    Err(errors::mistyped(name, text))
}

/// The position of each row: integers by their value, everything else as text.
///
/// # Errors
/// For nulls, and for types that name no positions.
pub fn positions(series: &Series) -> PolarsResult<Positions<'static>> {
    let name = series.name().as_str();
    check_position_type(name, series.dtype())?;
    if series.null_count() > 0 {
        let text = format!("the `position` is null in {} of {} rows", series.null_count(), series.len());
        return Err(errors::values(name, text));
    }
    let column = category_column(series)?;
    let text = |categories: &Categories| (0..categories.len() as u32).map(|code| categories.name(code)).collect();
    let labels = match &column.categories.labels {
        CategoryNames::Integer(labels) => labels.iter().map(|label| i64::try_from(*label).ok()).collect::<Option<Vec<i64>>>(),
        _ => None,
    };
    let labels = labels.map_or_else(|| PositionLabels::Text(text(&column.categories)), PositionLabels::Numbers);
    Ok(Positions { codes: column.codes.into(), labels })
}

/// The group of each row, numbered by first appearance.
///
/// # Errors
/// For nulls, and for types that name no groups.
pub fn groups(series: &Series) -> PolarsResult<Vec<u32>> {
    let name = series.name().as_str();
    check_group_type(name, series.dtype())?;
    if series.null_count() > 0 {
        return Err(errors::values(name, format!("the group is null in {} of {} rows", series.null_count(), series.len())));
    }
    if is_date(series.dtype()) {
        return Ok(codes(&series.to_physical_repr())?.codes);
    }
    Ok(codes(series)?.codes)
}

/// The codes and labels of a column, likewise.
///
/// # Errors
/// As [`codes`].
pub fn category_column(series: &Series) -> PolarsResult<CategoryColumn> {
    Ok(codes(series)?.into_column(series.name()))
}

/// Rows that are looked at between two looks whether the work is still wanted.
const BLOCK: usize = 1 << 18;

/// Whether the values of an integer or temporal column ascend, so that nothing needs sorting.
pub fn ascends(series: &Series) -> PolarsResult<bool> {
    let physical = series.to_physical_repr();
    with_integers!(physical, |get| {
        let mut last = None;
        for (chunk, len) in physical.chunk_lengths().enumerate().filter(|(_, len)| *len > 0) {
            let ascends = |start: usize, n: usize| (start.max(1)..start + n).all(|row| get(chunk, row - 1) <= get(chunk, row));
            if get(chunk, 0) < last || for_blocks(len, BLOCK, ascends).contains(&false) {
                return Ok(false);
            }
            last = get(chunk, len - 1);
        }
        Ok(true)
    }, else Ok(false))
}

/// The rows in ascending order of a column without nulls, equal values as they come; on all threads of the pool that this is called
/// in. Polars' own sort has a pool for itself, which Ctrl-C does not reach and which no forked process finds alive.
///
/// # Errors
/// In a forked process for types that only Polars sorts (structs).
pub fn sorted(series: &Series) -> PolarsResult<Vec<u32>> {
    if let DataType::Categorical(..) = series.dtype() {
        return sorted(&series.cast(&DataType::String)?);
    }
    let physical = series.to_physical_repr();
    // Ascending as the float does; zeros are equal.
    let float = |x: f64| {
        let bits = (x + 0.0).to_bits() as i64;
        bits ^ ((bits >> 63) as u64 >> 1) as i64
    };
    Ok(match physical.dtype() {
        DataType::String => sorted_keys(physical.str()?.iter()),
        DataType::Binary => sorted_keys(physical.binary()?.iter()),
        DataType::Boolean => sorted_keys(physical.bool()?.iter()),
        DataType::UInt128 => sorted_keys(physical.u128()?.iter()),
        DataType::Float32 => sorted_keys(physical.f32()?.iter().map(|x| x.map(|x| float(x.into())))),
        DataType::Float64 => sorted_keys(physical.f64()?.iter().map(|x| x.map(float))),
        _ => with_integers!(physical, |get| {
            let rows = |(chunk, len)| (0..len).map(move |row| (chunk, row));
            sorted_keys(physical.chunk_lengths().enumerate().flat_map(rows).map(|(chunk, row)| get(chunk, row)))
        }, else {
            if fork::generation() > 0 {
                let dtype = series.dtype();
                let spawn = "this process was forked, and Polars sorts this type on threads that do not survive a fork: start processes by \
                             the method \"spawn\" (multiprocessing.get_context(\"spawn\"))";
                return Err(errors::column(series.name(), format!("its type is {dtype}; {spawn}")));
            }
            let options = SortOptions { maintain_order: true, ..Default::default() };
            series.arg_sort(options).iter().map(Option::unwrap_or_default).collect()
        }),
    })
}

/// The numbers of keys in their ascending order, equal ones as they come.
fn sorted_keys<K: Ord + Send + Default>(keys: impl Iterator<Item = Option<K>>) -> Vec<u32> {
    let mut pairs: Vec<(K, u32)> = keys.map(Option::unwrap_or_default).zip(0..).collect();
    pairs.par_sort_unstable_by(|a, b| {
        interrupt::poll();
        a.cmp(b)
    });
    pairs.into_iter().map(|(_, row)| row).collect()
}

/// The one integer type that is wider than what the engine reads.
fn narrow(series: &Series) -> PolarsResult<Series> {
    match series.dtype() {
        DataType::UInt128 => series
            .strict_cast(&DataType::Int128)
            .map_err(|_| errors::values(series.name(), "it is 2^127 or more in some row, and categories are integers below")),
        _ => Ok(series.clone()),
    }
}

/// The code of each value among fitted categories; `unseen` for those that are not among them,
/// null too where it is not. On the calling thread: a query calls morsel by morsel.
///
/// # Errors
/// When the column is of another kind than the categories, naming both.
// One body for every integer type: for the widest the casts change nothing.
#[allow(clippy::unnecessary_cast)]
pub fn lookup_codes(series: &Series, lookup: &Lookup, unseen: u32) -> PolarsResult<Vec<u32>> {
    let name = series.name().as_str();
    let dtype = series.dtype();
    check_kind(name, dtype, lookup.categories().kind())?;
    let null = lookup.null().unwrap_or(unseen);
    let mut codes = Vec::with_capacity(series.len());
    if *dtype == DataType::String {
        series.str()?.downcast_iter().for_each(|chunk| lookup.extend_texts(chunk.iter(), unseen, &mut codes));
        return Ok(codes);
    }
    if dtype.is_integer() {
        let series = narrow(series)?;
        with_integers!(series, |get| for (chunk, len) in series.chunk_lengths().enumerate() {
            lookup.extend_integers((0..len).map(|row| get(chunk, row).map(|x| x as i128)), unseen, &mut codes);
        }, else return Err(errors::column(name, format!("type {}", series.dtype()))));
        return Ok(codes);
    }
    let mut add = |code: Option<Option<u32>>| codes.push(code.map_or(null, |c| c.unwrap_or(unseen)));
    match dtype {
        DataType::Categorical(_, mapping) | DataType::Enum(_, mapping) => {
            // Each physical code is looked up once.
            let mut found: Vec<Option<Option<u32>>> = vec![None; mapping.num_cats_upper_bound()];
            let mut of = |code: u32| match found.get_mut(code as usize) {
                Some(entry) => *entry.get_or_insert_with(|| mapping.cat_to_str(code).and_then(|s| lookup.text(s))),
                None => mapping.cat_to_str(code).and_then(|s| lookup.text(s)),
            };
            let physical = series.to_physical_repr();
            with_integers!(physical, |get| for (chunk, len) in physical.chunk_lengths().enumerate() {
                (0..len).for_each(|row| add(get(chunk, row).map(|x| of(x as u32))));
            }, else return Err(errors::column(name, format!("physical type {}", physical.dtype()))));
        }
        DataType::Boolean => {
            series.bool()?.downcast_iter().for_each(|chunk| chunk.iter().for_each(|x| add(x.map(|b| lookup.boolean(b)))));
        }
        _ => (0..series.len()).for_each(|_| add(None)),
    }
    Ok(codes)
}
