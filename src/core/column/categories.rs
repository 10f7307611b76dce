//! The engine's view of a categorical column: a dense code for each row and the label of each code.

use crate::column::distinct::{self, Chunks, Coded, Integer, Read};
use crate::column::{Chunk, Column, Values};
use crate::error::{Error, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::Range;

/// How many codes categories have that are known by a hash of 32 bits.
const HASHES: usize = 1 << 32;

/// The kind of values that are known by a hash, in words: see [`Categories::kind`].
pub const HASHED: &str = "text, integers or Booleans";

/// The label of each code, in the column's own kind of values. Where the column has nulls, the
/// entry of null's code is a placeholder (empty text, 0, false).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CategoryNames {
    /// Labels of String, Categorical and Enum alike.
    Text(Vec<String>),
    /// Labels of integers of any width.
    Integer(Vec<i128>),
    /// Labels of Booleans.
    Boolean(Vec<bool>),
    /// Labels of text, of integers as their digits and of Booleans as 0 and 1, of which a hash alone is known
    /// ([`crate::numerics::city::hash_of`]): any text is a category, and its hash is its code. Here stand those texts that are known,
    /// each behind its hash, which ascend.
    Hashed(Vec<(u32, String)>),
}

/// The distinct values of a categorical column in order of first appearance, null among them
/// where it occurs. A value's place is its code, unless codes are hashes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Categories {
    pub labels: CategoryNames,
    /// The code of null.
    pub null: Option<u32>,
}

impl Categories {
    /// Returns the number of categories, null included.
    pub fn len(&self) -> usize {
        match &self.labels {
            CategoryNames::Text(v) => v.len(),
            CategoryNames::Integer(v) => v.len(),
            CategoryNames::Boolean(v) => v.len(),
            CategoryNames::Hashed(_) => HASHES,
        }
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether codes are hashes of labels.
    pub fn are_hashed(&self) -> bool {
        matches!(self.labels, CategoryNames::Hashed(_))
    }

    /// Returns what kind of values these are, in words: `text`, `integers`, `Booleans`, or `text, integers or Booleans` where they are hashed.
    pub fn kind(&self) -> &'static str {
        match &self.labels {
            CategoryNames::Text(_) => "text",
            CategoryNames::Integer(_) => "integers",
            CategoryNames::Boolean(_) => "Booleans",
            CategoryNames::Hashed(_) => HASHED,
        }
    }

    /// Returns these categories and behind them those that only `others` has, with the code there of each of `others`, which are of the
    /// same kind.
    pub fn joined(&self, others: &Categories) -> (Categories, Vec<u32>) {
        let mut all = self.clone();
        let codes = match (&mut all.labels, &others.labels) {
            (CategoryNames::Text(own), CategoryNames::Text(labels)) => join_labels((own, &mut all.null), (labels, others.null)),
            (CategoryNames::Integer(own), CategoryNames::Integer(labels)) => join_labels((own, &mut all.null), (labels, others.null)),
            (CategoryNames::Boolean(own), CategoryNames::Boolean(labels)) => join_labels((own, &mut all.null), (labels, others.null)),
            _ => vec![],
        };
        (all, codes)
    }

    /// Returns the label of `code`, written out; `null` for null, and `#` with the code for a hash whose text is not known.
    pub fn name(&self, code: u32) -> String {
        if self.null == Some(code) {
            return "null".into();
        }
        match &self.labels {
            CategoryNames::Text(v) => v[code as usize].clone(),
            CategoryNames::Integer(v) => v[code as usize].to_string(),
            CategoryNames::Boolean(v) => v[code as usize].to_string(),
            CategoryNames::Hashed(_) => self.text(code).map_or_else(|| format!("#{code}"), str::to_owned),
        }
    }

    /// Returns the label of `code` where it is a text, and known.
    pub fn text(&self, code: u32) -> Option<&str> {
        match &self.labels {
            _ if self.null == Some(code) => None,
            CategoryNames::Text(v) => v.get(code as usize).map(String::as_str),
            CategoryNames::Hashed(v) => v.binary_search_by_key(&code, |known| known.0).ok().map(|at| v[at].1.as_str()),
            CategoryNames::Integer(_) | CategoryNames::Boolean(_) => None,
        }
    }
}

/// Texts of rows, which live for `'a` wherever they lie.
pub trait Texts<'a>: Sync {
    /// Returns the column's name.
    fn name(&self) -> &str;

    /// Returns the number of rows.
    fn rows(&self) -> usize;

    /// Calls `visit` with the text of each of `rows` in their order, none for null.
    fn visit(&self, rows: Range<usize>, visit: &mut dyn FnMut(Option<&'a str>));
}

/// The categories of rows as they come, without codes. Whoever asks for no more than which rows belong together need not number them
/// by first appearance, so a device numbers them as it likes.
#[derive(Clone)]
pub enum UncodedCategories<'a> {
    /// A column of integers of up to 64 bits.
    Integers(Column<'a>),
    /// Texts.
    Texts(&'a dyn Texts<'a>),
}

impl<'a> UncodedCategories<'a> {
    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        match self {
            UncodedCategories::Integers(column) => column.len(),
            UncodedCategories::Texts(texts) => texts.rows(),
        }
    }

    /// Returns the codes of the rows, numbered by first appearance.
    ///
    /// # Errors
    /// For more rows than 32 bits can number, and for a column of something else than integers.
    pub fn codes(&self) -> Result<Codes<'a>> {
        match self {
            UncodedCategories::Integers(column) => Codes::of_integers(column),
            UncodedCategories::Texts(texts) => Codes::of_texts(*texts),
        }
    }
}

/// The codes of a column, with its distinct values still borrowed: all that an encoding of the
/// column itself needs, which makes no labels.
pub struct Codes<'a> {
    /// One for each row, numbered by first appearance.
    pub codes: Vec<u32>,
    keys: CategoryValues<'a>,
    null: Option<u32>,
}

enum CategoryValues<'a> {
    Text(Vec<&'a str>),
    Integer(Vec<i128>),
    Boolean(Vec<bool>),
}

/// Returns what reads rows by a function of one.
fn one_by_one<K>(get: impl Fn(usize, usize) -> Option<K> + Sync) -> impl Read<K> {
    move |chunk, rows: Range<usize>, out: &mut [Option<K>]| out.iter_mut().zip(rows).for_each(|(out, row)| *out = get(chunk, row))
}

impl<'a> Codes<'a> {
    /// As [`CategoryColumn::text`].
    ///
    /// # Errors
    /// For more rows than 32 bits can number.
    pub fn text(name: &str, lengths: &[usize], get: impl Fn(usize, usize) -> Option<&'a str> + Sync) -> Result<Self> {
        let chunks = Chunks::new(lengths.iter().copied());
        distinct::check_rows(name, chunks.rows())?;
        let coded = distinct::by_hash(&chunks, &one_by_one(get));
        Ok(Codes { codes: coded.codes, keys: CategoryValues::Text(coded.keys), null: coded.null })
    }

    /// Returns the codes of texts.
    ///
    /// # Errors
    /// For more rows than 32 bits can number.
    pub fn of_texts(texts: &dyn Texts<'a>) -> Result<Self> {
        let rows = texts.rows();
        distinct::check_rows(texts.name(), rows)?;
        let read = |_: usize, rows: Range<usize>, out: &mut [Option<&'a str>]| {
            let mut places = out.iter_mut();
            texts.visit(rows, &mut |text| {
                if let Some(place) = places.next() {
                    *place = text;
                }
            });
        };
        let coded = distinct::by_hash(&Chunks::new([rows]), &read);
        Ok(Codes { codes: coded.codes, keys: CategoryValues::Text(coded.keys), null: coded.null })
    }

    /// As [`CategoryColumn::dictionary`].
    ///
    /// # Errors
    /// For more rows than 32 bits can number, and for a code without a label.
    pub fn dictionary<T: Integer>(
        name: &str,
        lengths: &[usize],
        get: impl Fn(usize, usize) -> Option<T> + Sync,
        label: impl Fn(u32) -> Option<&'a str> + Sync,
    ) -> Result<Self> {
        let chunks = Chunks::new(lengths.iter().copied());
        distinct::check_rows(name, chunks.rows())?;
        let mut physical = distinct::integers(&chunks, &one_by_one(|chunk, row| get(chunk, row).map(T::short)));
        let null = physical.null;
        let texts: Vec<Option<&str>> = physical.keys.iter().map(|code| u32::try_from(T::of_short(*code)).ok().and_then(&label)).collect();
        if let Some(code) = (0..texts.len()).find(|i| texts[*i].is_none() && null != Some(*i as u32)) {
            return Err(Error::column(name, format!("its code {} has no category", T::of_short(physical.keys[code]))));
        }
        let is_null = |code: usize| null == Some(code as u32);
        let read = one_by_one(|_, i| if is_null(i) { None } else { texts[i] });
        let coded = distinct::by_hash(&Chunks::new([texts.len()]), &read);
        if coded.keys.len() < texts.len() {
            physical.codes.par_iter_mut().for_each(|code| *code = coded.codes[*code as usize]);
        }
        Ok(Codes { codes: physical.codes, keys: CategoryValues::Text(coded.keys), null: coded.null })
    }

    /// As [`CategoryColumn::integers`].
    ///
    /// # Errors
    /// For more rows than 32 bits can number.
    pub fn integers<T: Integer>(name: &str, lengths: &[usize], get: impl Fn(usize, usize) -> Option<T> + Sync) -> Result<Self> {
        let chunks = Chunks::new(lengths.iter().copied());
        distinct::check_rows(name, chunks.rows())?;
        if T::LONG {
            let coded = distinct::long_integers(&chunks, &one_by_one(|chunk, row| get(chunk, row).map(T::wide)));
            return Ok(Codes { codes: coded.codes, keys: CategoryValues::Integer(coded.keys), null: coded.null });
        }
        let coded = distinct::integers(&chunks, &one_by_one(|chunk, row| get(chunk, row).map(T::short)));
        Ok(Codes::of_short(coded, T::of_short))
    }

    /// Returns the codes of a borrowed column of integers of up to 64 bits.
    ///
    /// # Errors
    /// As [`CategoryColumn::integers`]; and for a column of something else.
    ///
    /// ```
    /// use taiga_core::column::categories::Codes;
    /// use taiga_core::column::{Chunk, Column, FeatureType, Values};
    /// let column = Column::new("x", FeatureType::Numeric, vec![Chunk::new(Values::I16(&[7, -1, 7]), None)]);
    /// assert_eq!(Codes::of_integers(&column).unwrap().codes, [0, 1, 0]);
    /// ```
    pub fn of_integers(column: &Column<'_>) -> Result<Self> {
        let (mut chunks, mut lengths) = (vec![], vec![]);
        column.segments(0, column.len(), |chunk, inner, _, n| {
            chunks.push(chunk.slice(inner, n));
            lengths.push(n);
        });
        let parts = Chunks::new(lengths);
        distinct::check_rows(column.name(), parts.rows())?;
        macro_rules! of {
            ($($variant:ident $type:ty),*) => {
                match chunks.first().map(Chunk::values) {
                    None => Ok(Codes { codes: vec![], keys: CategoryValues::Integer(vec![]), null: None }),
                    $(Some(Values::$variant(_)) => {
                        let values = chunks.iter().map(|chunk| match chunk.values() {
                            Values::$variant(values) => Ok((values, chunk.validity())),
                            _ => Err(Error::column(column.name(), "its chunks are of several types")),
                        });
                        let values = values.collect::<Result<Vec<_>>>()?;
                        let read = |chunk: usize, rows: Range<usize>, out: &mut [Option<i64>]| {
                            let (values, validity) = &values[chunk];
                            match validity {
                                None => out.iter_mut().zip(&values[rows]).for_each(|(out, x)| *out = Some(x.short())),
                                Some(valid) => out.iter_mut().zip(rows).for_each(|(out, row)| *out = valid.get(row).then(|| values[row].short())),
                            }
                        };
                        Ok(Codes::of_short(distinct::integers(&parts, &read), <$type>::of_short))
                    })*
                    _ => Err(Error::column(column.name(), "it is no column of integers of up to 64 bits")),
                }
            };
        }
        of!(I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64)
    }

    fn of_short(coded: Coded<i64>, label: fn(i64) -> i128) -> Self {
        let mut labels: Vec<i128> = coded.keys.into_iter().map(label).collect();
        if let Some(null) = coded.null {
            labels[null as usize] = 0;
        }
        Codes { codes: coded.codes, keys: CategoryValues::Integer(labels), null: coded.null }
    }

    /// As [`CategoryColumn::booleans`].
    ///
    /// # Errors
    /// For more rows than 32 bits can number.
    pub fn booleans(name: &str, lengths: &[usize], get: impl Fn(usize, usize) -> Option<bool> + Sync) -> Result<Self> {
        let chunks = Chunks::new(lengths.iter().copied());
        distinct::check_rows(name, chunks.rows())?;
        let coded = distinct::integers(&chunks, &one_by_one(|chunk, row| get(chunk, row).map(i64::from)));
        let keys = CategoryValues::Boolean(coded.keys.into_iter().map(|x| x != 0).collect());
        Ok(Codes { codes: coded.codes, keys, null: coded.null })
    }

    /// Returns the number of categories, null included.
    pub fn categories(&self) -> usize {
        match &self.keys {
            CategoryValues::Text(v) => v.len(),
            CategoryValues::Integer(v) => v.len(),
            CategoryValues::Boolean(v) => v.len(),
        }
    }

    /// Returns the column, with labels of its own.
    pub fn into_column(self, name: &str) -> CategoryColumn {
        let labels = match self.keys {
            CategoryValues::Text(v) => CategoryNames::Text(v.into_iter().map(str::to_owned).collect()),
            CategoryValues::Integer(v) => CategoryNames::Integer(v),
            CategoryValues::Boolean(v) => CategoryNames::Boolean(v),
        };
        CategoryColumn { name: name.into(), codes: self.codes, categories: Categories { labels, null: self.null } }
    }
}

/// Adds the labels of `others` that are missing to `own`, each with null's code; returns the code of each of them.
fn join_labels<T: Clone + Eq + std::hash::Hash>(
    (own, own_null): (&mut Vec<T>, &mut Option<u32>),
    (others, null): (&[T], Option<u32>),
) -> Vec<u32> {
    let mut known: HashMap<T, u32> = HashMap::with_capacity(own.len());
    known.extend(own.iter().cloned().zip(0..).filter(|(_, code)| *own_null != Some(*code)));
    let code = |(label, code): (&T, u32)| {
        let is_null = null == Some(code);
        if let Some(code) = if is_null { *own_null } else { known.get(label).copied() } {
            return code;
        }
        own.push(label.clone());
        let code = own.len() as u32 - 1;
        if is_null {
            *own_null = Some(code);
        }
        code
    };
    others.iter().zip(0..).map(code).collect()
}

/// A categorical column: a dense code for each row, numbered by first appearance in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CategoryColumn {
    pub name: String,
    /// One for each row, below `categories.len()`.
    pub codes: Vec<u32>,
    pub categories: Categories,
}

impl CategoryColumn {
    /// Returns a column of text in chunks of the given lengths; `get(chunk, row in the chunk)`. Every value is hashed once.
    ///
    /// # Errors
    /// For more rows than 32 bits can number.
    ///
    /// ```
    /// use taiga_core::column::categories::CategoryColumn;
    /// let chunks = [vec![Some("b"), None], vec![Some("a"), Some("b")]];
    /// let column = CategoryColumn::text("x", &[2, 2], |chunk, row| chunks[chunk][row]).unwrap();
    /// assert_eq!(column.codes, [0, 1, 2, 0]);
    /// assert_eq!(column.categories.null, Some(1));
    /// ```
    pub fn text<'a>(name: &str, lengths: &[usize], get: impl Fn(usize, usize) -> Option<&'a str> + Sync) -> Result<Self> {
        Ok(Codes::text(name, lengths, get)?.into_column(name))
    }

    /// Returns a column of physical codes with a dictionary: `label(code)`, looked at once for each code that occurs. Two codes
    /// with an equal label are one category.
    ///
    /// # Errors
    /// For more rows than 32 bits can number, and for a code without a label.
    ///
    /// ```
    /// use taiga_core::column::categories::CategoryColumn;
    /// let column = CategoryColumn::dictionary("x", &[3], |_, row| [Some(9u32), None, Some(4)][row], |code| [(4, "u"), (9, "v")].iter().find(|p| p.0 == code).map(|p| p.1));
    /// let column = column.unwrap();
    /// assert_eq!(column.codes, [0, 1, 2]);
    /// assert_eq!(column.categories.name(2), "u");
    /// ```
    pub fn dictionary<'a, T: Integer>(
        name: &str,
        lengths: &[usize],
        get: impl Fn(usize, usize) -> Option<T> + Sync,
        label: impl Fn(u32) -> Option<&'a str> + Sync,
    ) -> Result<Self> {
        Ok(Codes::dictionary(name, lengths, get, label)?.into_column(name))
    }

    /// Returns a column of integers, likewise.
    ///
    /// # Errors
    /// For more rows than 32 bits can number.
    ///
    /// ```
    /// use taiga_core::encoding::{CategoryColumn, CategoryNames};
    /// let column = CategoryColumn::integers("x", &[3], |_, row| Some([7i64, -1, 7][row])).unwrap();
    /// assert_eq!(column.codes, [0, 1, 0]);
    /// assert_eq!(column.categories.labels, CategoryNames::Integer(vec![7, -1]));
    /// ```
    pub fn integers<T: Integer>(name: &str, lengths: &[usize], get: impl Fn(usize, usize) -> Option<T> + Sync) -> Result<Self> {
        Ok(Codes::integers(name, lengths, get)?.into_column(name))
    }

    /// Returns a column of Booleans, likewise.
    ///
    /// # Errors
    /// For more rows than 32 bits can number.
    pub fn booleans(name: &str, lengths: &[usize], get: impl Fn(usize, usize) -> Option<bool> + Sync) -> Result<Self> {
        Ok(Codes::booleans(name, lengths, get)?.into_column(name))
    }
}
