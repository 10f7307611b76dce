//! Some of the rows of a column, copied.

use super::categories::{Categories, CategoryColumn, CategoryNames};
use super::{Bits, Chunk, Column, FeatureType, Values};

/// Values that are owned, in the type that they had.
pub enum OwnedValues {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    I128(Vec<i128>),
    U128(Vec<u128>),
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    Bool(OwnedBits),
    Decimal(Vec<i128>, u32),
}

/// A bitmap that is owned.
pub struct OwnedBits {
    bytes: Vec<u8>,
    len: usize,
}

impl OwnedBits {
    /// Returns the bits at `places`.
    pub fn of(bits: &Bits<'_>, places: &[usize]) -> OwnedBits {
        let mut bytes = vec![0u8; places.len().div_ceil(8)];
        for (i, place) in places.iter().enumerate() {
            bytes[i / 8] |= (bits.get(*place) as u8) << (i % 8);
        }
        OwnedBits { bytes, len: places.len() }
    }

    /// As the engine reads them.
    pub fn bits(&self) -> Bits<'_> {
        Bits::new(&self.bytes, 0, self.len)
    }
}

/// Turns values of one enum into the other's of the same name: `$values` are the slice, `$others` the two that are no plain numbers.
macro_rules! convert {
    ($self:expr, $from:ident => $to:ident, |$values:ident| $made:expr, { $($others:tt)* }) => {
        convert!(@ $self, $from, $to, $values, $made, { $($others)* }, F32 F64 I8 I16 I32 I64 I128 U128 U8 U16 U32 U64)
    };
    (@ $self:expr, $from:ident, $to:ident, $values:ident, $made:expr, { $($others:tt)* }, $($variant:ident)*) => {
        match $self {
            $($from::$variant($values) => $to::$variant($made),)*
            $($others)*
        }
    };
}

/// One chunk that is owned.
pub struct OwnedChunk {
    values: OwnedValues,
    validity: Option<OwnedBits>,
}

impl OwnedChunk {
    /// Returns the values at `places` of a chunk, null where they are.
    pub fn of(chunk: &Chunk<'_>, places: &[usize]) -> OwnedChunk {
        let values = convert!(chunk.values(), Values => OwnedValues, |v| places.iter().map(|i| v[*i]).collect(), {
            Values::Bool(bits) => OwnedValues::Bool(OwnedBits::of(&bits, places)),
            Values::Decimal(v, scale) => OwnedValues::Decimal(places.iter().map(|i| v[*i]).collect(), scale),
        });
        OwnedChunk { values, validity: chunk.validity().map(|v| OwnedBits::of(&v, places)) }
    }

    /// As the engine reads it.
    pub fn chunk(&self) -> Chunk<'_> {
        let values = convert!(&self.values, OwnedValues => Values, |v| v, {
            OwnedValues::Bool(bits) => Values::Bool(bits.bits()),
            OwnedValues::Decimal(v, scale) => Values::Decimal(v, *scale),
        });
        Chunk::new(values, self.validity.as_ref().map(OwnedBits::bits))
    }
}

/// A column that is owned: numbers, or categories numbered by first appearance.
pub struct OwnedColumn {
    name: String,
    dtype: FeatureType,
    chunks: Vec<OwnedChunk>,
    categories: Option<CategoryColumn>,
}

impl OwnedColumn {
    /// Returns the rows `rows` (ascending) of a column: what a filtered table would have.
    pub fn of(column: &Column<'_>, rows: &[usize]) -> OwnedColumn {
        let (name, dtype) = (column.name().to_owned(), column.dtype().clone());
        if let (Some(codes), Some(categories)) = (column.category_codes(), column.categories()) {
            let categories = Some(of_categories(&name, codes, categories, rows));
            return OwnedColumn { name, dtype, chunks: vec![], categories };
        }
        let mut chunks = vec![];
        let (mut rest, mut places) = (rows, vec![]);
        for (chunk, range) in column.chunks.iter().zip(column.starts.windows(2)) {
            let (own, others) = rest.split_at(rest.partition_point(|row| *row < range[1]));
            places.clear();
            places.extend(own.iter().map(|row| row - range[0]));
            chunks.push(OwnedChunk::of(chunk, &places));
            rest = others;
        }
        OwnedColumn { name, dtype, chunks, categories: None }
    }

    /// As the engine reads it.
    pub fn column(&self) -> Column<'_> {
        match &self.categories {
            Some(categories) => Column::categorical(categories),
            None => Column::new(self.name.as_str(), self.dtype.clone(), self.chunks.iter().map(OwnedChunk::chunk).collect()),
        }
    }
}

/// Returns the rows `rows` of a column of categories, with those categories that occur among them.
pub fn of_categories(name: &str, codes: &[u32], categories: &Categories, rows: &[usize]) -> CategoryColumn {
    if categories.are_hashed() {
        let codes = rows.iter().map(|row| codes[*row]).collect();
        return CategoryColumn { name: name.into(), codes, categories: categories.clone() };
    }
    let mut number = vec![u32::MAX; categories.len()];
    let mut occur = vec![];
    let renumbered = rows.iter().map(|row| {
        let number = &mut number[codes[*row] as usize];
        if *number == u32::MAX {
            *number = occur.len() as u32;
            occur.push(codes[*row] as usize);
        }
        *number
    });
    let codes = renumbered.collect();
    let labels = match &categories.labels {
        CategoryNames::Text(v) => CategoryNames::Text(occur.iter().map(|c| v[*c].clone()).collect()),
        CategoryNames::Integer(v) => CategoryNames::Integer(occur.iter().map(|c| v[*c]).collect()),
        CategoryNames::Boolean(v) => CategoryNames::Boolean(occur.iter().map(|c| v[*c]).collect()),
        CategoryNames::Hashed(v) => CategoryNames::Hashed(v.clone()),
    };
    let null = categories.null.map(|code| number[code as usize]).filter(|number| *number != u32::MAX);
    CategoryColumn { name: name.into(), codes, categories: Categories { labels, null } }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers, Booleans and nulls over several chunks, and categories: what the rows say one by one.
    #[test]
    fn some_rows_are_those_rows() {
        let (a, b) = ([1.5f32, 2.5, f32::NAN, 4.5], [5.5f32, 6.5]);
        let valid = [0b0000_1011u8];
        let chunks = vec![Chunk::new(Values::F32(&a), Some(Bits::new(&valid, 0, 4))), Chunk::new(Values::F32(&b), None)];
        let column = Column::new("x", FeatureType::Numeric, chunks);
        let flags = [0b0010_0110u8];
        let bits = Column::new("b", FeatureType::Numeric, vec![Chunk::new(Values::Bool(Bits::new(&flags, 1, 6)), None)]);
        for rows in [vec![], vec![0], vec![1, 2, 3], vec![4, 5], vec![0, 2, 3, 5], (0..6).collect()] {
            for column in [&column, &bits] {
                let owned = OwnedColumn::of(column, &rows);
                let (own, wanted) = (owned.column().to_f64(), column.gather_f64(&rows));
                assert!(
                    own.iter().zip(&wanted).all(|(a, b)| a.to_bits() == b.to_bits()) && own.len() == wanted.len(),
                    "{own:?} {wanted:?}"
                );
                assert_eq!((owned.column().name(), owned.column().width()), (column.name(), column.width()));
            }
        }
        let text = [Some("u"), None, Some("v"), Some("u"), Some("w")];
        let column = CategoryColumn::text("c", &[5], |_, row| text[row]).unwrap();
        let owned = OwnedColumn::of(&Column::categorical(&column), &[1, 2, 4]);
        let wanted = CategoryColumn::text("c", &[3], |_, row| [None, Some("v"), Some("w")][row]).unwrap();
        assert_eq!(owned.categories, Some(wanted));
        let owned = OwnedColumn::of(&Column::categorical(&column), &[2, 3]);
        assert_eq!(owned.categories, Some(CategoryColumn::text("c", &[2], |_, row| [Some("v"), Some("u")][row]).unwrap()));
    }
}
