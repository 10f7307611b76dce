//! A fitted target encoder: categories by their labels, the value of each, and the prior for what
//! was never seen; and its bytes.

use super::lookup::Lookup;
use super::target::{EncodingInput, EncodingTarget, TargetParams, category_values};
use crate::column::categories::{Categories, CategoryColumn, CategoryNames, UncodedCategories};
use crate::column::select::of_categories;
use crate::envelope::{Contents, Envelope, Persisted};
use crate::error::{Error, Result};
use crate::provenance::Provenance;
use crate::{memory, pages};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashSet;

/// A target encoder of one column or several.
#[derive(Debug)]
pub struct TargetEncoder {
    target: String,
    /// The labels of a target with several classes, written out; a value for each.
    classes: Option<Vec<String>>,
    columns: Vec<EncodedColumn>,
    provenance: Provenance,
}

/// A column of an encoder: its categories and their values.
#[derive(Debug)]
pub struct EncodedColumn {
    name: String,
    lookup: Lookup,
    /// Category after category, the prior behind the last one, with a value for each output.
    values: Vec<f64>,
}

/// The fields of an encoder's payload, in this order.
#[derive(Serialize, Deserialize)]
pub struct EncoderPayload<'a> {
    target: Cow<'a, str>,
    classes: Cow<'a, Option<Vec<String>>>,
    columns: Vec<ColumnPayload<'a>>,
}

#[derive(Serialize, Deserialize)]
pub struct ColumnPayload<'a> {
    name: Cow<'a, str>,
    categories: Cow<'a, Categories>,
    values: Cow<'a, [f64]>,
}

fn invalid(message: impl Into<String>) -> Error {
    Error::Encoder(message.into())
}

impl EncodedColumn {
    /// Returns the column's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the table from labels to codes. The code of what is not in it, the prior's, is the number of categories.
    pub fn lookup(&self) -> &Lookup {
        &self.lookup
    }
}

impl TargetEncoder {
    /// Fits an encoder of `columns`: the value of each category is that of `kind="full"`.
    ///
    /// # Errors
    /// As [`super::target::target_encode`]; and when there are no columns, no rows, or a name stands
    /// twice.
    ///
    /// ```
    /// use taiga_core::encoding::target::{EncodingTarget, TargetParams};
    /// use taiga_core::encoding::{CategoryColumn, TargetEncoder};
    /// let city = CategoryColumn::text("city", &[4], |_, row| Some(["a", "a", "b", "b"][row])).unwrap();
    /// let target = EncodingTarget::Flags(&[1, 1, 0, 0]);
    /// let encoder = TargetEncoder::fit(vec![city], "y", target, None, None, &TargetParams::default()).unwrap();
    /// let encoder = TargetEncoder::from_bytes(&encoder.to_bytes()).unwrap();
    /// assert_eq!(encoder.values(0, &[0, 1, 2], 0), [2.5 / 3.0, 0.5 / 3.0, 0.5]);
    /// ```
    pub fn fit(
        columns: Vec<CategoryColumn>,
        target_name: &str,
        target: EncodingTarget<'_>,
        classes: Option<Vec<String>>,
        weight: Option<&[f64]>,
        params: &TargetParams,
    ) -> Result<Self> {
        TargetEncoder::fit_by(columns, target_name, target, classes, weight, |input| category_values(input, params))
    }

    /// [`TargetEncoder::fit`] with the values of categories from `category_values`, which a device
    /// computes as [`category_values`] does.
    ///
    /// # Errors
    /// As [`TargetEncoder::fit`].
    pub fn fit_by(
        columns: Vec<CategoryColumn>,
        target_name: &str,
        target: EncodingTarget<'_>,
        classes: Option<Vec<String>>,
        weight: Option<&[f64]>,
        category_values: impl Fn(&EncodingInput<'_>) -> Result<(Vec<f64>, Vec<f64>)>,
    ) -> Result<Self> {
        if let Some(weight) = weight
            && weight.contains(&0.0)
            && weight.iter().any(|w| *w > 0.0)
        {
            // A row of weight 0 is as if it were not there.
            let rows: Vec<usize> = (0..weight.len()).filter(|row| weight[*row] != 0.0).collect();
            for column in &columns {
                let input = EncodingInput { codes: &column.codes, categories: column.categories.len(), target, weight: Some(weight) };
                input.check()?;
            }
            let bytes = memory::product(&[4, rows.len() as u64, 2 + columns.len() as u64]);
            memory::check("a copy of the rows whose weight is not 0", bytes, "leave rows of weight 0 out by .filter() before the fit")?;
            let columns = columns.iter().map(|c| of_categories(&c.name, &c.codes, &c.categories, &rows)).collect();
            let weight: Vec<f64> = rows.iter().map(|row| weight[*row]).collect();
            let fit = |target| TargetEncoder::fit_by(columns, target_name, target, classes, Some(&weight), category_values);
            return match target {
                EncodingTarget::Flags(v) => fit(EncodingTarget::Flags(&rows.iter().map(|row| v[*row]).collect::<Vec<u8>>())),
                EncodingTarget::Numbers(v) => fit(EncodingTarget::Numbers(&rows.iter().map(|row| v[*row]).collect::<Vec<f64>>())),
                EncodingTarget::Classes(v, n) => fit(EncodingTarget::Classes(&rows.iter().map(|row| v[*row]).collect::<Vec<u32>>(), n)),
            };
        }
        let mut encoded = vec![];
        for column in columns {
            let input = EncodingInput { codes: &column.codes, categories: column.categories.len(), target, weight };
            if column.codes.is_empty() {
                return Err(Error::Data("the table has no rows".into()).degenerate());
            }
            let (mut values, priors) = category_values(&input)?;
            values.extend(priors);
            encoded.push(EncodedColumn { name: column.name, lookup: Lookup::new(column.categories)?, values });
        }
        let encoder = TargetEncoder { target: target_name.into(), classes, columns: encoded, provenance: Provenance::default() };
        encoder.validate()?;
        Ok(encoder)
    }

    /// Returns the encoder with a note of which of its columns, counted from 0, were computed when it was fitted: see
    /// [`Provenance::computed`].
    ///
    /// # Errors
    /// For columns that it has not.
    pub fn with_computed(mut self, computed: impl IntoIterator<Item = bool>) -> Result<Self> {
        self.provenance = Provenance::new(None, computed);
        self.validate()?;
        Ok(self)
    }

    /// Returns the names of the columns that were computed when it was fitted.
    pub fn computed(&self) -> Vec<&str> {
        self.provenance.computed_names(self.columns.iter().map(EncodedColumn::name))
    }

    /// Returns the target's name.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Returns the labels of a target with several classes.
    pub fn classes(&self) -> Option<&[String]> {
        self.classes.as_deref()
    }

    /// Returns the columns, in the order of fitting.
    pub fn columns(&self) -> &[EncodedColumn] {
        &self.columns
    }

    /// Returns the number of values that a row gets.
    pub fn outputs(&self) -> usize {
        self.classes.as_ref().map_or(1, Vec::len)
    }

    /// Returns the values of `codes` (the number of categories for what was never seen) for one output.
    ///
    /// # Panics
    /// When there is no such column, output or code.
    pub fn values(&self, column: usize, codes: &[u32], output: usize) -> Vec<f64> {
        let (values, outputs) = (&self.columns[column].values, self.outputs());
        let mut out = pages::with_capacity(codes.len());
        out.extend(codes.iter().map(|code| values[*code as usize * outputs + output]));
        out
    }

    /// Returns the value of each category of a column for one output, and behind them that of what was never seen.
    ///
    /// # Panics
    /// When there is no such column or output.
    pub fn values_of(&self, column: usize, output: usize) -> Vec<f64> {
        self.columns[column].values.chunks_exact(self.outputs()).map(|values| values[output]).collect()
    }

    /// Returns the values of rows by one of the columns, a vector for each output.
    ///
    /// # Errors
    /// [`Error::Data`] where the rows are of another kind than the column's categories.
    ///
    /// # Panics
    /// When there is no such column.
    ///
    /// ```
    /// use taiga_core::column::categories::UncodedCategories;
    /// use taiga_core::column::{Chunk, Column, FeatureType, Values};
    /// use taiga_core::encoding::target::{EncodingTarget, TargetParams};
    /// use taiga_core::encoding::{CategoryColumn, TargetEncoder};
    /// let street = CategoryColumn::integers("street", &[2], |_, row| Some([7i64, 9][row])).unwrap();
    /// let target = EncodingTarget::Numbers(&[1.0, 3.0]);
    /// let encoder = TargetEncoder::fit(vec![street], "y", target, None, None, &TargetParams::default()).unwrap();
    /// let rows = Column::new("street", FeatureType::Numeric, vec![Chunk::new(Values::I16(&[9, 7, 1]), None)]);
    /// assert_eq!(encoder.encode(0, &UncodedCategories::Integers(rows)).unwrap(), [[2.5, 1.5, 2.0]]);
    /// ```
    pub fn encode(&self, column: usize, rows: &UncodedCategories<'_>) -> Result<Vec<Vec<f64>>> {
        let (lookup, own) = (self.columns[column].lookup(), rows.codes()?.into_column(self.columns[column].name()));
        let (kind, unseen) = (lookup.categories().kind(), lookup.categories().len() as u32);
        if own.categories.kind() != kind {
            return Err(Error::Data(format!("the fitted categories are {kind}")));
        }
        let mut map: Vec<u32> = match &own.categories.labels {
            CategoryNames::Text(labels) => labels.iter().map(|label| lookup.text(label).unwrap_or(unseen)).collect(),
            CategoryNames::Integer(labels) => labels.iter().map(|label| lookup.integer(*label).unwrap_or(unseen)).collect(),
            CategoryNames::Boolean(labels) => labels.iter().map(|label| lookup.boolean(*label).unwrap_or(unseen)).collect(),
            // A column of a table has labels.
            CategoryNames::Hashed(_) => vec![],
        };
        if let Some(null) = own.categories.null {
            map[null as usize] = lookup.null().unwrap_or(unseen);
        }
        let codes: Vec<u32> = own.codes.par_iter().map(|code| map[*code as usize]).collect();
        Ok((0..self.outputs()).map(|output| self.values(column, &codes, output)).collect())
    }

    fn validate(&self) -> Result<()> {
        let outputs = self.outputs();
        if outputs == 0 || self.columns.is_empty() {
            return Err(invalid("it has no columns or no classes"));
        }
        self.provenance.check_columns(self.columns.len()).map_err(invalid)?;
        if self.provenance.label_type.is_some() {
            return Err(invalid("it has a type of labels, which only models have"));
        }
        let mut names = HashSet::new();
        if let Some(name) = self.classes.iter().flatten().find(|name| !names.insert(name.as_str())) {
            return Err(invalid(format!("the class {name:?} stands twice")));
        }
        names.clear();
        for column in &self.columns {
            if !names.insert(&column.name) {
                return Err(invalid(format!("the column `{}` stands twice", column.name)));
            }
            let (n, values) = (column.lookup.categories().len(), column.values.len());
            if (n + 1).checked_mul(outputs) != Some(values) {
                return Err(invalid(format!("column `{}`: {values} values for {n} categories and {outputs} outputs", column.name)));
            }
            if let Some(value) = column.values.iter().find(|v| !v.is_finite()) {
                return Err(invalid(format!("column `{}`: the value {value} is not finite", column.name)));
            }
        }
        Ok(())
    }

    /// Returns the encoder's bytes; equal encoders have equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.seal()
    }

    /// The encoder of these bytes, in memory in proportion to their length.
    ///
    /// # Errors
    /// [`Error::Encoder`], as [`Persisted::open`].
    pub fn from_bytes(bytes: &[u8]) -> Result<TargetEncoder> {
        Persisted::open(bytes)
    }
}

impl Persisted for TargetEncoder {
    const ENVELOPE: Envelope = Envelope {
        kind: b"TE",
        version: 2,
        provenance: 2,
        metadata: u32::MAX,
        structs: u32::MAX,
        receipt: u32::MAX,
        noun: "encoder",
        description: "a target encoder",
    };
    const INVALID: fn(String) -> Error = Error::Encoder;
    type Payload<'a> = EncoderPayload<'a>;
    type Extra = ();
    type Last = ();
    const NO_EXTRA: () = ();

    fn contents(&self) -> Contents<'_, EncoderPayload<'_>, ()> {
        let columns = self.columns.iter().map(|c| ColumnPayload {
            name: c.name.as_str().into(),
            categories: Cow::Borrowed(c.lookup.categories()),
            values: c.values.as_slice().into(),
        });
        let payload =
            EncoderPayload { target: self.target.as_str().into(), classes: Cow::Borrowed(&self.classes), columns: columns.collect() };
        let size = self.columns.iter().map(|c| 16 * c.values.len()).sum();
        Contents { payload, extra: (), provenance: &self.provenance, is_new: false, size }
    }

    fn from_contents(payload: EncoderPayload<'_>, (): (), provenance: Provenance) -> Result<Self> {
        let column = |c: ColumnPayload<'_>| {
            let lookup = Lookup::new(c.categories.into_owned()).map_err(|e| invalid(format!("column `{}`: {e}", c.name)))?;
            Ok(EncodedColumn { name: c.name.into_owned(), lookup, values: c.values.into_owned() })
        };
        let columns = payload.columns.into_iter().map(column).collect::<Result<Vec<_>>>()?;
        let encoder = TargetEncoder { target: payload.target.into_owned(), classes: payload.classes.into_owned(), columns, provenance };
        encoder.validate()?;
        Ok(encoder)
    }
}
