//! What a prediction looks like, and its type, which Polars must know before there is a model.

use super::applied::{Applied, Inputs};
use crate::{errors, labels};
use polars::prelude::*;
use serde::Deserialize;
use taiga_engine::provenance::LabelType;
use taiga_engine::shap::Terms;
use taiga_engine::shap::contributions::pair;

/// The name of what `predict` returns.
pub const NAME: &str = "prediction";

/// What Python says of the output. It knows the model when that is a value; for a model that is
/// an expression the user says it (`dtype=`), or it is one number a row.
#[derive(Deserialize)]
pub struct PredictKwargs {
    /// `auto`, `raw`, `class`, `leaf`, `staged`, `shap` or `shap_interactions`.
    output: String,
    /// Where columns share a prediction, their names.
    columns: Option<Vec<String>>,
    /// Where it is explained against a background, which then stands behind the model among the inputs: what tells it from others.
    pub background: Option<String>,
    /// The labels that name the fields where there is one number a class.
    classes: Option<Vec<String>>,
    /// Where a label is asked for, its type as JSON: a [`LabelType`].
    label: Option<String>,
    /// Where the model is applied.
    pub device: String,
    /// The columns that the model reads ([`Wanted`](super::wanted::Wanted) as JSON), where Python knows the model. Text, so that a call
    /// reads past it.
    pub wanted: Option<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Auto,
    Raw,
    Class,
    Leaf,
    Staged,
    Shap,
    Interactions,
}

/// The name of the field of what a row gets of which nothing is known.
const BASE: &str = "base_value";

/// All kinds, for whom names another.
const KINDS: &str = r#""auto", "raw", "class", "leaf", "staged", "shap" and "shap_interactions""#;

/// A checked [`PredictKwargs`].
pub struct Output {
    kind: Kind,
    classes: Option<Vec<String>>,
    columns: Vec<String>,
    /// The type of the labels that are given, and the same as Polars has it.
    label: (LabelType, DataType),
}

impl Output {
    pub fn new(kwargs: &PredictKwargs) -> PolarsResult<Self> {
        let kind = match kwargs.output.as_str() {
            "auto" => Kind::Auto,
            "raw" => Kind::Raw,
            "class" => Kind::Class,
            "leaf" => Kind::Leaf,
            "staged" => Kind::Staged,
            "shap" => Kind::Shap,
            "shap_interactions" => Kind::Interactions,
            other => return Err(errors::data(format!("output={other:?} is none of {KINDS}"))),
        };
        let label = match &kwargs.label {
            Some(json) => serde_json::from_str(json).map_err(|e| errors::data(format!("the type of the labels: {e}")))?,
            None => LabelType::Float64,
        };
        let dtype = labels::data_type(&label)?;
        Ok(Output { kind, classes: kwargs.classes.clone(), columns: kwargs.columns.clone().unwrap_or_default(), label: (label, dtype) })
    }

    /// The type of the predictions.
    pub fn dtype(&self) -> DataType {
        let list = |inner| DataType::List(Box::new(inner));
        let item = match self.kind {
            Kind::Leaf => return list(DataType::UInt32),
            Kind::Class => return self.label.1.clone(),
            Kind::Staged => list(DataType::Float64),
            Kind::Auto | Kind::Raw => DataType::Float64,
            Kind::Shap => self.of_columns(&DataType::Float64, true),
            Kind::Interactions => self.of_columns(&self.of_columns(&DataType::Float64, false), false),
        };
        match &self.classes {
            Some(names) => DataType::Struct(names.iter().map(|n| Field::new(n.as_str().into(), item.clone())).collect()),
            None => item,
        }
    }

    /// A struct of one field a column, and perhaps one for the base value.
    fn of_columns(&self, item: &DataType, has_base: bool) -> DataType {
        let names = self.columns.iter().map(String::as_str).chain(has_base.then_some(BASE));
        DataType::Struct(names.map(|n| Field::new(n.into(), item.clone())).collect())
    }

    /// Whether predictions are explained.
    pub fn is_explained(&self) -> bool {
        matches!(self.kind, Kind::Shap | Kind::Interactions)
    }

    /// Whether the model gives what was announced.
    pub fn check(&self, model: &Applied) -> PolarsResult<()> {
        let target = model.target();
        let other = |own: &dyn std::fmt::Display, announced: &dyn std::fmt::Display| {
            Err(errors::data(format!(
                "the model of `{target}` gives {own}, and the query was planned for {announced}; say so with dtype=, or give the model as a value"
            )))
        };
        if self.kind == Kind::Class {
            let (Some(labels), Some(own)) = (model.labels(), model.label_type()) else {
                return Err(errors::data(format!("output=\"class\": the model of `{target}` is a regression and has no classes")));
            };
            // Models whose labels differ in type meet in what labels are kept as.
            let announced = &self.label.0;
            return if *announced == own || *announced == labels.kept_as() { Ok(()) } else { other(&own, announced) };
        }
        let columns: Vec<String> = if self.is_explained() { model.explained_columns() } else { vec![] };
        if self.kind == Kind::Shap && columns.iter().any(|c| c == BASE) {
            return Err(errors::mistyped(BASE, "output=\"shap\" gives the base value this name: fit with another name"));
        }
        let own = Output { kind: self.kind, classes: model.fields(), columns, label: self.label.clone() }.dtype();
        let announced = self.dtype();
        if own == announced { Ok(()) } else { other(&own, &announced) }
    }

    /// The predictions for `rows` rows of `inputs`.
    pub fn apply(&self, model: &Applied, inputs: &Inputs, rows: usize) -> PolarsResult<Series> {
        let name = || PlSmallStr::from_static(NAME);
        match self.kind {
            Kind::Auto | Kind::Raw => {
                let values = if self.kind == Kind::Auto { model.predict(inputs)? } else { model.raw(inputs)? };
                let series = values.into_iter().map(|v| Float64Chunked::from_vec(name(), v).into_series());
                self.fields(rows, series.collect())
            }
            Kind::Class => {
                let labels = model.labels().ok_or_else(|| errors::data("the model has no classes"))?;
                let labels = labels::series(name(), labels, &self.label.0)?;
                let class = model.class(inputs)?;
                labels.take(&IdxCa::from_vec("".into(), class.into_iter().map(|c| c as IdxSize).collect()))
            }
            Kind::Leaf => {
                let (trees, leaves) = model.leaves(inputs)?;
                lists::<UInt32Type>(rows, trees, &leaves, DataType::UInt32)
            }
            Kind::Staged => {
                let (rounds, stages) = model.staged(inputs)?;
                let series = stages.iter().map(|v| lists::<Float64Type>(rows, rounds, v, DataType::Float64));
                self.fields(rows, series.collect::<PolarsResult<_>>()?)
            }
            Kind::Shap => {
                let (base, explanation) = model.explain(inputs, Terms::Values)?;
                let of_output = |(values, base): (Vec<Vec<f64>>, &f64)| {
                    let base = Float64Chunked::full(name(), *base, rows).into_series();
                    let values = values.into_iter().map(|v| Float64Chunked::from_vec(name(), v).into_series());
                    self.share(rows, values.chain([base]).collect())
                };
                let series = explanation.values.into_iter().zip(&base).map(of_output);
                self.fields(rows, series.collect::<PolarsResult<_>>()?)
            }
            Kind::Interactions => {
                let (_, explanation) = model.explain(inputs, Terms::Interactions)?;
                let series = explanation.interactions.into_iter().map(|terms| self.matrix(rows, terms));
                self.fields(rows, series.collect::<PolarsResult<_>>()?)
            }
        }
    }

    /// A struct of these series, one a column, and perhaps one for the base value.
    fn share(&self, rows: usize, mut series: Vec<Series>) -> PolarsResult<Series> {
        let names = self.columns.iter().map(String::as_str).chain([BASE]);
        series.iter_mut().zip(names).for_each(|(s, n)| {
            s.rename(n.into());
        });
        Ok(StructChunked::from_series(NAME.into(), rows, series.iter())?.into_series())
    }

    /// A struct of structs of what each column shares with each: the two halves of a pair are the same buffer.
    fn matrix(&self, rows: usize, terms: Vec<Vec<f64>>) -> PolarsResult<Series> {
        let terms: Vec<Series> = terms.into_iter().map(|v| Float64Chunked::from_vec(NAME.into(), v).into_series()).collect();
        let m = self.columns.len();
        let term = |i: usize, j: usize| if i == j { i } else { pair(m, i.min(j), i.max(j)) };
        let lines = (0..m).map(|i| self.share(rows, (0..m).map(|j| terms[term(i, j)].clone()).collect()));
        self.share(rows, lines.collect::<PolarsResult<_>>()?)
    }

    /// Bytes of the predictions of a row.
    pub fn bytes_a_row(&self, model: &Applied) -> u64 {
        let (outputs, trees) = model.size();
        match self.kind {
            Kind::Auto | Kind::Raw => 8 * outputs as u64,
            Kind::Class => 4,
            Kind::Leaf => 4 * trees as u64,
            Kind::Staged => 8 * trees as u64,
            Kind::Shap => 8 * (outputs * (self.columns.len() + 1)) as u64,
            Kind::Interactions => 8 * outputs as u64 * Terms::Interactions.count(self.columns.len()) as u64,
        }
    }

    /// One series, or a struct of one for each class.
    fn fields(&self, rows: usize, mut series: Vec<Series>) -> PolarsResult<Series> {
        match &self.classes {
            None => series.pop().ok_or_else(|| errors::data("the model has no output")),
            Some(names) => {
                for (s, n) in series.iter_mut().zip(names) {
                    s.rename(n.as_str().into());
                }
                Ok(StructChunked::from_series(NAME.into(), rows, series.iter())?.into_series())
            }
        }
    }
}

/// `rows` lists of `width` values each.
fn lists<T: PolarsNumericType>(rows: usize, width: usize, values: &[T::Native], inner: DataType) -> PolarsResult<Series> {
    let bytes = size_of_val(values) as u64;
    errors::check_memory(|| format!("the lists of {rows} rows"), bytes, "predict fewer rows at a time (a lazy query streams)")?;
    let mut builder = ListPrimitiveChunkedBuilder::<T>::new(NAME.into(), rows, rows * width, inner);
    for row in 0..rows {
        builder.append_slice(&values[row * width..(row + 1) * width]);
    }
    Ok(builder.finish().into_series())
}
