//! From Polars' series to the engine's columns: the Arrow chunks are borrowed as they are, and
//! only types that the engine has no word for are cast.

use crate::categories::{category_column, check_type, is_category, lookup_codes};
use crate::errors;
use crate::threads::for_blocks;
use arrow2::bitmap::Bitmap;
use polars::prelude::*;
use taiga_engine::column::categories::CategoryColumn;
use taiga_engine::column::{Bits, Chunk, Column, FeatureType, TimeUnit, Values};
use taiga_engine::encoding::Lookup;

/// A feature: a series of numbers, or of categories.
pub enum Feature {
    Numbers(Numbers),
    Categories(CategoryColumn),
    /// Codes into the categories of a model.
    Codes(String, Vec<u32>),
    /// Values gathered from rows.
    Values(String, FeatureType, Vec<f64>),
}

/// The code of categories that a model does not know.
const UNSEEN: u32 = u32::MAX;

impl Feature {
    /// A feature to fit on: a numeric, temporal or categorical column. `categories`: integers and
    /// Booleans are categories too.
    ///
    /// # Errors
    /// For other types, naming the column and its type.
    pub fn new(series: &Series, categories: bool) -> PolarsResult<Self> {
        match feature_type(series.name(), series.dtype(), categories)? {
            FeatureType::Categorical => Ok(Feature::Categories(category_column(series)?)),
            _ => Ok(Feature::Numbers(Numbers::feature(series)?)),
        }
    }

    /// A feature to predict from; the categories of a categorical one are looked up.
    ///
    /// # Errors
    /// For a type that can't serve, naming the column.
    pub fn of_model(series: &Series, dtype: &FeatureType, lookup: Option<&Lookup>) -> PolarsResult<Self> {
        match (dtype, series.dtype()) {
            (FeatureType::Categorical, dtype) if is_category(dtype) => {
                let codes = lookup.map_or_else(|| Ok(vec![UNSEEN; series.len()]), |lookup| lookup_codes(series, lookup, UNSEEN))?;
                Ok(Feature::Codes(series.name().to_string(), codes))
            }
            _ => Ok(Feature::Numbers(Numbers::feature(series)?)),
        }
    }

    /// The column's name.
    fn name(&self) -> &str {
        match self {
            Feature::Numbers(n) => n.name(),
            Feature::Categories(c) => &c.name,
            Feature::Codes(name, _) | Feature::Values(name, ..) => name,
        }
    }

    /// Rows `start .. start + len` of a feature to predict from; numbers are not copied.
    pub fn slice(&self, start: usize, len: usize) -> Self {
        match self {
            Feature::Numbers(n) => Feature::Numbers(n.slice(start, len)),
            _ => self.gather(&(start..start + len).collect::<Vec<_>>()),
        }
    }

    /// The given rows of a feature to predict from, fastest where neighbours stand in one chunk.
    pub fn gather(&self, rows: &[usize]) -> Self {
        match self {
            Feature::Codes(name, codes) => Feature::Codes(name.clone(), rows.iter().map(|r| codes[*r]).collect()),
            Feature::Categories(c) => Feature::Codes(c.name.clone(), rows.iter().map(|r| c.codes[*r]).collect()),
            _ => {
                let column = self.column();
                Feature::Values(self.name().into(), column.dtype().clone(), column.gather_f64(rows))
            }
        }
    }

    /// The engine's view.
    pub fn column(&self) -> Column<'_> {
        match self {
            Feature::Numbers(n) => n.column(),
            Feature::Categories(c) => Column::categorical(c),
            Feature::Codes(name, codes) => Column::codes(name.as_str(), codes),
            Feature::Values(name, dtype, values) => Column::new(name.as_str(), dtype.clone(), vec![Chunk::new(Values::F64(values), None)]),
        }
    }
}

/// A series that is read as numbers. It owns (shares with the query, that is) the arrays that
/// [`Numbers::column`] borrows.
#[derive(Clone)]
pub struct Numbers {
    dtype: FeatureType,
    /// In a physical type that [`Values`] knows.
    physical: Series,
    /// Decimal's digits behind the point.
    scale: Option<u32>,
}

/// Rows whose numbers are checked at a time.
const CHECKED: usize = 1 << 15;

impl Numbers {
    /// A feature: any numeric or temporal type.
    ///
    /// # Errors
    /// For other types, naming the column and its type.
    pub fn feature(series: &Series) -> PolarsResult<Self> {
        let dtype = number_type(series.dtype()).ok_or_else(|| no_feature(series.name(), series.dtype()))?;
        let scale = match series.dtype() {
            DataType::Decimal(_, scale) => Some(*scale as u32),
            _ => None,
        };
        let physical = series.to_physical_repr();
        let physical = match physical.dtype() {
            DataType::Float16 | DataType::Null => physical.cast(&DataType::Float32)?,
            _ => physical.into_owned(),
        };
        Ok(Numbers { dtype, physical, scale })
    }

    /// A target, weight or baseline: numeric or Boolean, and every value finite.
    ///
    /// # Errors
    /// For other types, nulls, NaN and infinite values; says how many, and the filter that leaves
    /// them out.
    pub fn finite(series: &Series, role: &str) -> PolarsResult<Self> {
        check_number(series.name(), series.dtype(), role)?;
        let numbers = Numbers::feature(series)?;
        let nulls = series.null_count();
        let (mut nan, mut infinite) = (0usize, 0usize);
        if matches!(numbers.physical.dtype(), DataType::Float32 | DataType::Float64) {
            let column = numbers.column();
            let counts = for_blocks(column.len(), CHECKED, |start, n| {
                let mut values = vec![0.0; n];
                column.read_f64(start, &mut values);
                (values.iter().filter(|x| x.is_nan()).count(), values.iter().filter(|x| x.is_infinite()).count())
            });
            (nan, infinite) = counts.into_iter().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
            nan -= nulls;
        }
        let name = series.name().as_str();
        for (n, what, filter) in [(nulls, "null", "is_not_null"), (nan, "NaN", "is_not_nan"), (infinite, "infinite", "is_finite")] {
            if n > 0 {
                return Err(errors::values(
                    name,
                    format!(
                        "{} of {} {what}, which {role} can't be; leave those rows out first with .filter(pl.col({name:?}).{filter}())",
                        n,
                        errors::count(series.len(), "value is", "values are"),
                    ),
                ));
            }
        }
        Ok(numbers)
    }

    /// The column's name.
    pub fn name(&self) -> &str {
        self.physical.name()
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.physical.len()
    }

    /// Rows `start .. start + len`, not copied.
    pub fn slice(&self, start: usize, len: usize) -> Self {
        Numbers { dtype: self.dtype.clone(), physical: self.physical.slice(start as i64, len), scale: self.scale }
    }

    /// The engine's view of the chunks.
    pub fn column(&self) -> Column<'_> {
        macro_rules! primitive {
            ($chunked:ident, $variant:ident) => {
                self.physical
                    .$chunked()
                    .map(|ca| ca.downcast_iter().map(|a| Chunk::new(Values::$variant(a.values().as_slice()), bits(a.validity()))).collect())
            };
        }
        let chunks: PolarsResult<Vec<Chunk<'_>>> = match (self.physical.dtype(), self.scale) {
            (DataType::Float32, _) => primitive!(f32, F32),
            (DataType::Float64, _) => primitive!(f64, F64),
            (DataType::Int8, _) => primitive!(i8, I8),
            (DataType::Int16, _) => primitive!(i16, I16),
            (DataType::Int32, _) => primitive!(i32, I32),
            (DataType::Int64, _) => primitive!(i64, I64),
            (DataType::UInt8, _) => primitive!(u8, U8),
            (DataType::UInt16, _) => primitive!(u16, U16),
            (DataType::UInt32, _) => primitive!(u32, U32),
            (DataType::UInt64, _) => primitive!(u64, U64),
            (DataType::UInt128, _) => primitive!(u128, U128),
            (DataType::Int128, None) => primitive!(i128, I128),
            (DataType::Int128, Some(scale)) => self.physical.i128().map(|ca| {
                ca.downcast_iter().map(|a| Chunk::new(Values::Decimal(a.values().as_slice(), scale), bits(a.validity()))).collect()
            }),
            (DataType::Boolean, _) => self.physical.bool().map(|ca| {
                ca.downcast_iter()
                    .map(|a| {
                        let (bytes, offset, len) = a.values().as_slice();
                        Chunk::new(Values::Bool(Bits::new(bytes, offset, len)), bits(a.validity()))
                    })
                    .collect()
            }),
            (dtype, _) => Err(errors::column(self.name(), format!("physical type {dtype}"))),
        };
        // `feature` has seen to it that the type is one of the above.
        Column::new(self.name(), self.dtype.clone(), chunks.unwrap_or_default())
    }
}

/// A type written out, with the categories of an Enum.
pub fn type_text(dtype: &DataType) -> String {
    match dtype {
        DataType::Enum(categories, _) => format!("enum{:?}", categories.categories().values_iter().collect::<Vec<_>>()),
        DataType::Struct(fields) => {
            let of = |f: &Field| format!("{} ({})", f.name(), type_text(f.dtype()));
            format!("struct of {}", fields.iter().map(of).collect::<Vec<_>>().join(", "))
        }
        DataType::List(items) => format!("list[{}]", type_text(items)),
        DataType::Array(items, width) => format!("array[{}, {width}]", type_text(items)),
        dtype => dtype.to_string(),
    }
}

/// The type of feature that a column of this type is as it stands; none for text and what is no feature.
pub fn number_type(dtype: &DataType) -> Option<FeatureType> {
    let unit = |u: &polars::prelude::TimeUnit| match u {
        polars::prelude::TimeUnit::Milliseconds => TimeUnit::Milliseconds,
        polars::prelude::TimeUnit::Microseconds => TimeUnit::Microseconds,
        polars::prelude::TimeUnit::Nanoseconds => TimeUnit::Nanoseconds,
    };
    match dtype {
        DataType::Date => Some(FeatureType::Date),
        DataType::Time => Some(FeatureType::Time),
        DataType::Datetime(u, _) => Some(FeatureType::Datetime(unit(u))),
        DataType::Duration(u) => Some(FeatureType::Duration(unit(u))),
        dtype if dtype.is_numeric() || matches!(dtype, DataType::Boolean | DataType::Null) => Some(FeatureType::Numeric),
        _ => None,
    }
}

/// Whether a column of this type is one of categories, whatever anybody says.
pub fn is_listed(dtype: &DataType) -> bool {
    matches!(dtype, DataType::String | DataType::Categorical(..) | DataType::Enum(..))
}

/// The type of feature that a fit makes of a column. `categories`: integers and Booleans are categories too.
///
/// # Errors
/// For a type that is none of a feature's, naming the column and its type.
pub fn feature_type(name: &str, dtype: &DataType, categories: bool) -> PolarsResult<FeatureType> {
    if categories {
        return check_type(name, dtype).map(|()| FeatureType::Categorical);
    }
    match dtype {
        dtype if is_listed(dtype) => Ok(FeatureType::Categorical),
        _ => number_type(dtype).ok_or_else(|| no_feature(name, dtype)),
    }
}

fn no_feature(name: &str, dtype: &DataType) -> PolarsError {
    errors::mistyped(name, format!("its type is {dtype}; a feature is a number, a Boolean, temporal, or a String, Categorical or Enum"))
}

/// Checks the type of a column of numbers in the role of a target, weight or baseline.
///
/// # Errors
/// For anything but numbers and Booleans, naming the column and its type.
pub fn check_number(name: &str, dtype: &DataType, role: &str) -> PolarsResult<()> {
    if dtype.is_numeric() || *dtype == DataType::Boolean {
        return Ok(());
    }
    Err(errors::mistyped(name, format!("its type is {dtype}; {role} is a number: cast it first")))
}

/// A validity that says something; all valid is none.
pub fn bits(validity: Option<&Bitmap>) -> Option<Bits<'_>> {
    let validity = validity.filter(|v| v.unset_bits() > 0)?;
    let (bytes, offset, len) = validity.as_slice();
    Some(Bits::new(bytes, offset, len))
}

/// The series with every struct among them replaced by its fields, and theirs; a null struct is
/// null in each of its fields.
pub fn unnest(series: &[Series]) -> PolarsResult<Vec<Series>> {
    let mut out = vec![];
    for s in series {
        match s.dtype() {
            DataType::Struct(_) => {
                let s = s.propagate_nulls().unwrap_or_else(|| s.clone());
                out.extend(unnest(&s.struct_()?.fields_as_series())?);
            }
            _ => out.push(s.clone()),
        }
    }
    Ok(out)
}

/// Checks that a label can be the name of a column, as it is where its probability is given.
///
/// # Errors
/// For the character NUL, which ends names where columns pass from a plugin to Polars.
pub fn check_label(name: &str, label: &str) -> PolarsResult<()> {
    match label.contains('\0') {
        true => Err(errors::values(name, format!("its label {label:?} has the character NUL, which the name of a column can't have"))),
        false => Ok(()),
    }
}
