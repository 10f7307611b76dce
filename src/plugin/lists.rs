//! Sparse rows from Polars' columns of lists: the Arrow arrays are borrowed as they are.

use crate::columns::bits;
use crate::errors;
use arrow2::array::{Array, BooleanArray, FixedSizeListArray, ListArray, PrimitiveArray, StructArray, Utf8ViewArray};
use arrow2::bitmap::Bitmap;
use arrow2::offset::OffsetsBuffer;
use polars::prelude::*;
use taiga_engine::column::{Bits, Chunk, Values};
use taiga_engine::learners::linear::{Items, ListChunk, ListColumn, Offsets, SparseRows, Texts};

/// The features of each row, and their values where they have some. It owns (shares with the query, that
/// is) the arrays that [`Lists::rows`] borrows.
pub struct Lists {
    features: Lines,
    values: Option<Lines>,
}

impl Lists {
    /// Of the columns of a table, whose `indices` and `values` the function gives; none where there are no `indices`.
    ///
    /// # Errors
    /// The function's; as [`Lists::new`].
    pub fn of(column: impl Fn(&str) -> PolarsResult<Option<Series>>) -> PolarsResult<Option<Self>> {
        let (indices, values) = (column("indices")?, column("values")?);
        indices.map(|indices| Lists::new(&indices, values.as_ref())).transpose()
    }

    /// Of a column of lists of feature numbers or strings, or of structs of a feature and its value; and of one
    /// of lists of values.
    ///
    /// # Errors
    /// For other types, naming the column.
    pub fn new(features: &Series, values: Option<&Series>) -> PolarsResult<Self> {
        let items = check(&features.field(), values.map(|v| v.field()).as_deref())?;
        let lists = with_item(features, items.features.clone())?;
        let chunks_of_features = chunks(&lists)?;
        if let DataType::Struct(fields) = &items.features {
            let part = |i: usize| chunks_of_features.iter().map(|c| c.field(i)).collect::<PolarsResult<Vec<_>>>();
            return Ok(Lists {
                features: Lines { name: features.name().to_string(), chunks: part(0)? },
                values: Some(Lines { name: field_name(features.name(), &fields[1]), chunks: part(1)? }),
            });
        }
        let values = match (values, items.values) {
            (Some(series), Some(wanted)) => Some(Lines { name: series.name().to_string(), chunks: chunks(&with_item(series, wanted)?)? }),
            _ => None,
        };
        Ok(Lists { features: Lines { name: features.name().to_string(), chunks: chunks_of_features }, values })
    }

    /// The engine's view.
    pub fn rows(&self) -> SparseRows<'_> {
        SparseRows { features: self.features.column(), values: self.values.as_ref().map(Lines::column) }
    }
}

/// The types that the items of sparse rows are read as.
pub struct ItemTypes {
    /// Of features: an integer, a String, or a struct of one and its value.
    features: DataType,
    values: Option<DataType>,
}

impl ItemTypes {
    /// Whether the features are strings.
    pub fn holds_text(&self) -> bool {
        match &self.features {
            DataType::Struct(fields) => *fields[0].dtype() == DataType::String,
            dtype => *dtype == DataType::String,
        }
    }

    /// Whether features have values.
    pub fn has_values(&self) -> bool {
        self.values.is_some() || matches!(self.features, DataType::Struct(_))
    }
}

/// Checks the types of a column of features and of one of values.
///
/// # Errors
/// As [`Lists::new`].
pub fn check(features: &Field, values: Option<&Field>) -> PolarsResult<ItemTypes> {
    let name = features.name();
    let of = |field: &Field| item(field.dtype()).ok_or_else(|| not_a_list(field));
    let DataType::Struct(fields) = of(features)? else {
        let values = values.map(|v| value_type(v.name(), &of(v)?)).transpose()?;
        return Ok(ItemTypes { features: feature_type(name, &of(features)?)?, values });
    };
    if let Some(values) = values {
        return Err(errors::mistyped(name, format!("holds structs, which have their values in them; leave `{}` out", values.name())));
    }
    let [feature, value] = fields.as_slice() else {
        return Err(errors::mistyped(name, format!("its structs have {} fields, not two: a feature and its value", fields.len())));
    };
    let features = DataType::Struct(vec![
        Field::new(feature.name().clone(), feature_type(&field_name(name, feature), feature.dtype())?),
        Field::new(value.name().clone(), value_type(&field_name(name, value), value.dtype())?),
    ]);
    Ok(ItemTypes { features, values: None })
}

/// How errors call a field of the structs in a column of lists.
fn field_name(column: &str, field: &Field) -> String {
    format!("{column}.{}", field.name())
}

fn not_a_list(field: &Field) -> PolarsError {
    errors::mistyped(
        field.name(),
        format!(
            "its type is {}; sparse rows are lists (or arrays) of integers, of strings, or of structs of a feature and its value",
            field.dtype()
        ),
    )
}

/// The type of a list's items; none for another type.
fn item(dtype: &DataType) -> Option<DataType> {
    match dtype {
        DataType::List(inner) => Some((**inner).clone()),
        DataType::Array(inner, _) => Some((**inner).clone()),
        DataType::Null => Some(DataType::Null),
        _ => None,
    }
}

/// The type that features are read as.
fn feature_type(name: &str, dtype: &DataType) -> PolarsResult<DataType> {
    match dtype {
        DataType::Null => Ok(DataType::UInt32),
        DataType::Categorical(..) | DataType::Enum(..) => Ok(DataType::String),
        DataType::Int128 | DataType::UInt128 => Ok(DataType::Int64),
        dtype if dtype.is_integer() || *dtype == DataType::String => Ok(dtype.clone()),
        dtype => Err(errors::mistyped(name, format!("its lists hold {dtype}; features are integers or strings"))),
    }
}

/// The type that values are read as.
fn value_type(name: &str, dtype: &DataType) -> PolarsResult<DataType> {
    match dtype {
        DataType::Float32 | DataType::Float64 | DataType::Boolean => Ok(dtype.clone()),
        DataType::Null | DataType::Float16 => Ok(DataType::Float32),
        DataType::Int128 | DataType::UInt128 | DataType::Decimal(..) => Ok(DataType::Float64),
        dtype if dtype.is_integer() => Ok(dtype.clone()),
        dtype => Err(errors::mistyped(name, format!("its lists hold {dtype}; values are numbers"))),
    }
}

/// The column with items of another type, if it is another.
fn with_item(series: &Series, wanted: DataType) -> PolarsResult<Series> {
    let dtype = match series.dtype() {
        DataType::Array(_, width) => DataType::Array(Box::new(wanted), *width),
        _ => DataType::List(Box::new(wanted)),
    };
    if *series.dtype() == dtype {
        return Ok(series.clone());
    }
    series.strict_cast(&dtype).map_err(|e| errors::column(series.name(), e))
}

/// A column of lists.
struct Lines {
    name: String,
    chunks: Vec<Line>,
}

impl Lines {
    fn column(&self) -> ListColumn<'_> {
        ListColumn { name: self.name.clone(), chunks: self.chunks.iter().map(Line::chunk).collect() }
    }
}

/// A chunk of lists.
struct Line {
    offsets: Bounds,
    validity: Option<Bitmap>,
    items: Leaf,
}

enum Bounds {
    Offsets(OffsetsBuffer<i64>),
    Fixed { width: usize, rows: usize },
}

/// The items of a chunk.
enum Leaf {
    Numbers(Box<dyn Array>),
    Texts(Strings),
    /// Of structs: their own validity, and the fields.
    Pairs(Option<Bitmap>, Vec<Box<dyn Array>>),
}

/// Strings as the engine wants them.
struct Strings(Utf8ViewArray);

impl Texts for Strings {
    fn len(&self) -> usize {
        Array::len(&self.0)
    }

    fn get(&self, i: usize) -> Option<&str> {
        self.0.get(i)
    }
}

/// The chunks of a column of lists, whose items are numbers, strings or structs of them.
fn chunks(series: &Series) -> PolarsResult<Vec<Line>> {
    if let Ok(lists) = series.list() {
        let chunk = |a: &ListArray<i64>| {
            Ok(Line {
                offsets: Bounds::Offsets(a.offsets().clone()),
                validity: a.validity().cloned(),
                items: Leaf::new(a.values().clone())?,
            })
        };
        return lists.downcast_iter().map(chunk).collect();
    }
    let chunk = |a: &FixedSizeListArray| {
        let offsets = Bounds::Fixed { width: a.size(), rows: Array::len(a) };
        Ok(Line { offsets, validity: a.validity().cloned(), items: Leaf::new(a.values().clone())? })
    };
    series.array()?.downcast_iter().map(chunk).collect()
}

impl Leaf {
    fn new(items: Box<dyn Array>) -> PolarsResult<Self> {
        if let Some(strings) = items.as_any().downcast_ref::<Utf8ViewArray>() {
            return Ok(Leaf::Texts(Strings(strings.clone())));
        }
        if let Some(pairs) = items.as_any().downcast_ref::<StructArray>() {
            return Ok(Leaf::Pairs(pairs.validity().cloned(), pairs.values().to_vec()));
        }
        numbers(items.as_ref()).map(|_| ())?;
        Ok(Leaf::Numbers(items))
    }
}

/// An array of numbers as the engine sees it.
fn numbers(array: &dyn Array) -> PolarsResult<Chunk<'_>> {
    macro_rules! primitive {
        ($($type:ty => $variant:ident),*) => {
            $(if let Some(a) = array.as_any().downcast_ref::<PrimitiveArray<$type>>() {
                return Ok(Chunk::new(Values::$variant(a.values().as_slice()), bits(a.validity())));
            })*
        };
    }
    primitive!(i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64, f32 => F32, f64 => F64);
    match array.as_any().downcast_ref::<BooleanArray>() {
        Some(a) => {
            let (bytes, offset, len) = a.values().as_slice();
            Ok(Chunk::new(Values::Bool(Bits::new(bytes, offset, len)), bits(a.validity())))
        }
        None => Err(errors::data(format!("lists of {:?}", array.dtype()))),
    }
}

impl Line {
    /// The lists of field `i` of lists of structs. A null struct is null in each.
    fn field(&self, i: usize) -> PolarsResult<Line> {
        let Leaf::Pairs(validity, fields) = &self.items else { return Err(errors::data("lists of structs")) };
        let field = &fields[i];
        let validity = match (validity, field.validity()) {
            (Some(outer), Some(inner)) => Some(outer & inner),
            (outer, inner) => outer.as_ref().or(inner).cloned(),
        };
        let offsets = match &self.offsets {
            Bounds::Offsets(o) => Bounds::Offsets(o.clone()),
            Bounds::Fixed { width, rows } => Bounds::Fixed { width: *width, rows: *rows },
        };
        Ok(Line { offsets, validity: self.validity.clone(), items: Leaf::new(field.with_validity(validity))? })
    }

    fn chunk(&self) -> ListChunk<'_> {
        let items = match &self.items {
            // Both were found to be so when they were made.
            Leaf::Numbers(array) => Items::Numbers(numbers(array.as_ref()).unwrap_or_else(|_| Chunk::new(Values::F32(&[]), None))),
            Leaf::Pairs(..) => Items::Numbers(Chunk::new(Values::F32(&[]), None)),
            Leaf::Texts(texts) => Items::Texts(texts),
        };
        let offsets = match &self.offsets {
            Bounds::Offsets(o) => Offsets::I64(o.as_slice()),
            Bounds::Fixed { width, rows } => Offsets::Fixed { width: *width, rows: *rows },
        };
        ListChunk { offsets, validity: bits(self.validity.as_ref()), items }
    }
}
