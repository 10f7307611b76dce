//! What a model tells of the columns it was fitted on beyond what predictions are computed from: the type of its
//! class labels, and which of its columns were computed.
//!
//! In bytes it stands behind the payload, from the version of `provenance` on; where there is nothing
//! to tell, the version before is written, which has none.

use crate::metadata::Metadata;
use crate::receipt::Receipt;
use serde::{Deserialize, Serialize};

/// The type of class labels in the column that they come from.
///
/// Bytes name the variants by their places: new ones go to the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LabelType {
    Boolean,
    Int8,
    Int16,
    Int32,
    Int64,
    Int128,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    UInt128,
    Float16,
    Float32,
    Float64,
    /// Numbers of so many digits in all and behind the point.
    Decimal {
        precision: u32,
        scale: u32,
    },
    String,
    /// Text of a set of categories that grows. Those of no name and 32 bits are the ones that all columns share.
    Categorical {
        name: String,
        namespace: String,
        bits: u32,
    },
    /// Text of these categories, in this order.
    Enum(Vec<String>),
}

impl std::fmt::Display for LabelType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LabelType::Decimal { precision, scale } => write!(f, "Decimal({precision}, {scale})"),
            LabelType::Categorical { name, namespace, bits } => match (name.as_str(), namespace.as_str(), bits) {
                ("", "", 32) => write!(f, "Categorical"),
                _ => write!(f, "Categorical({name:?}, {namespace:?}, UInt{bits})"),
            },
            LabelType::Enum(categories) => {
                let shown: Vec<String> = categories.iter().take(5).map(|c| format!("{c:?}")).collect();
                let more = if categories.len() > shown.len() { ", …" } else { "" };
                write!(f, "Enum([{}{more}])", shown.join(", "))
            }
            other => write!(f, "{other:?}"),
        }
    }
}

/// Where a model's classes and columns come from; see the module's text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The type of the labels, where it is not the one that they are kept as
    /// ([`Labels::kept_as`](crate::dataset::labels::Labels::kept_as)).
    pub label_type: Option<LabelType>,
    /// Of the columns that the model reads, counted from 0 in their order, those that were not columns under their
    /// own name when it was fitted: the results of expressions, or fields of a struct. Ascending.
    pub computed: Vec<u32>,
    /// The structs that computed columns were fields of, where these were columns under their own name. In bytes they stand behind the
    /// metadata, from the version of [`Envelope::structs`](crate::envelope::Envelope::structs) on.
    #[serde(skip)]
    pub structs: Vec<StructColumn>,
    /// What the user says of the model. In bytes it stands behind all else, from the version of
    /// [`Envelope::metadata`](crate::envelope::Envelope::metadata) on.
    #[serde(skip)]
    pub metadata: Option<Metadata>,
    /// Of which rows it was fitted, where these have keys. In bytes it stands behind the structs, from the version of
    /// [`Envelope::receipt`](crate::envelope::Envelope::receipt) on.
    #[serde(skip)]
    pub receipt: Option<Receipt>,
}

/// A column of structs whose fields a model was fitted on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StructColumn {
    pub name: String,
    /// The columns that are its fields, counted from 0 as in [`Provenance::computed`]. Ascending.
    pub columns: Vec<u32>,
}

impl Provenance {
    /// Returns the provenance of columns in the model's order, of which it is said whether they were computed.
    pub fn new(label_type: Option<LabelType>, computed: impl IntoIterator<Item = bool>) -> Self {
        let computed = computed.into_iter().zip(0..).filter_map(|(computed, i)| computed.then_some(i)).collect();
        Provenance { label_type, computed, structs: vec![], metadata: None, receipt: None }
    }

    /// Returns the provenance with these structs, of columns behind `before` others.
    pub fn with_structs(mut self, structs: Vec<StructColumn>, before: usize) -> Self {
        self.structs = structs;
        self.structs.iter_mut().flat_map(|s| &mut s.columns).for_each(|column| *column += before as u32);
        self
    }

    /// Returns whether there is nothing to tell of classes and columns.
    pub fn is_empty(&self) -> bool {
        self.label_type.is_none() && self.computed.is_empty()
    }

    /// Returns the names of the computed columns among those that the model reads.
    pub fn computed_names<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
        let (mut computed, mut i) = (self.computed.iter().peekable(), 0..);
        names.into_iter().filter(|_| computed.next_if_eq(&&i.next().unwrap_or_default()).is_some()).collect()
    }

    /// Returns whether the computed columns are some of so many; if not, what is wrong, in words.
    pub fn check_columns(&self, columns: usize) -> Result<(), String> {
        let ascending = self.computed.windows(2).all(|w| w[0] < w[1]);
        if !ascending || self.computed.last().is_some_and(|c| *c as usize >= columns) {
            return Err(format!("its computed columns {:?} are not some of {columns}", self.computed));
        }
        let mut rest = self.computed.as_slice();
        for (i, of) in self.structs.iter().enumerate() {
            // A struct's fields stand beside each other, one struct's before another's.
            let first = of.columns.first().and_then(|first| rest.binary_search(first).ok());
            let fields = first.and_then(|first| rest.get(first..first + of.columns.len())).filter(|fields| **fields == of.columns);
            let is_new = self.structs[..i].iter().all(|before| before.name != of.name);
            let (Some(first), Some(_), true) = (first, fields, is_new) else {
                return Err(format!("its struct `{}` is given twice, or its fields are not some of the computed columns", of.name));
            };
            rest = &rest[first + of.columns.len()..];
        }
        Ok(())
    }
}
