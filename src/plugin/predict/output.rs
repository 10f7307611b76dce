//! What a prediction looks like, and its type, which Polars must know before there is a model.

use super::applied::{Applied, Inputs};
use crate::schema::shown;
use crate::{errors, labels};
use polars::prelude::*;
use serde::Deserialize;
use taiga_engine::learners::applied::{Output as EngineOutput, Values};
use taiga_engine::provenance::LabelType;
use taiga_engine::shap::contributions::pair;
use taiga_engine::shap::{Explanation, Terms};

/// The name of what `predict` returns.
pub const NAME: &str = "prediction";

/// What Python says of one output. It knows the model when that is a value; for a model that is
/// an expression the user says it (`dtype=`), or it is one number a row.
#[derive(Deserialize)]
pub struct OutputKwargs {
    /// One of [`OUTPUTS`].
    output: String,
    /// Where columns share a prediction, their names; of a mean over the training rows, those that are known of a row.
    columns: Option<Vec<String>>,
    /// The names of the fields where there are several numbers: the labels, where there is one a class.
    classes: Option<Vec<String>>,
    /// Where a label is asked for, its type as JSON: a [`LabelType`].
    label: Option<String>,
    /// Whether numbers come as Float32.
    narrow: bool,
}

/// What Python says of a prediction.
#[derive(Deserialize)]
pub struct PredictKwargs {
    outputs: Vec<OutputKwargs>,
    /// Whether the outputs are fields of a struct, named by what they are; else there is one.
    together: bool,
    /// The rounds that count, from the first one on; all unless told.
    pub rounds: Option<usize>,
    /// Where it is explained against a background, which then stands behind the model among the inputs: what tells it from others.
    pub background: Option<String>,
    /// Where the model is applied.
    pub device: String,
    /// The columns that the model reads ([`Wanted`](super::wanted::Wanted) as JSON), where Python knows the model. Text, so that a call
    /// reads past it.
    pub wanted: Option<String>,
}

/// Who finds an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The walk of the rows through the model.
    Walked(EngineOutput),
    /// The model's explainer: each column's part, or what each shares with each.
    Explained(Terms),
    /// The mean over the training rows where only some columns are known: partial dependence without data.
    Known,
}

/// The outputs by the names that users give them.
const OUTPUTS: &[(&str, Kind)] = &[
    ("auto", Kind::Walked(EngineOutput::Predictions)),
    ("raw", Kind::Walked(EngineOutput::Raw)),
    ("class", Kind::Walked(EngineOutput::Class)),
    ("leaf", Kind::Walked(EngineOutput::Leaves)),
    ("staged", Kind::Walked(EngineOutput::Staged)),
    ("shap", Kind::Explained(Terms::Values)),
    ("shap_interactions", Kind::Explained(Terms::Interactions)),
    ("known", Kind::Known),
];

/// The name of the field of what a row gets of which nothing is known.
const BASE: &str = "base_value";

/// The outputs of a prediction: one, or several side by side.
pub struct Outputs {
    each: Vec<Output>,
    together: bool,
}

impl Outputs {
    /// Checks what Python says.
    ///
    /// # Errors
    /// For an output that there is not.
    pub fn new(kwargs: &PredictKwargs) -> PolarsResult<Self> {
        let each = kwargs.outputs.iter().map(Output::new).collect::<PolarsResult<Vec<_>>>()?;
        if each.is_empty() || (each.len() > 1 && !kwargs.together) {
            return Err(errors::data(format!("{} outputs", each.len())));
        }
        Ok(Outputs { each, together: kwargs.together })
    }

    /// The type of the predictions.
    pub fn dtype(&self) -> DataType {
        match self.each.as_slice() {
            [one] if !self.together => one.dtype(),
            several => DataType::Struct(several.iter().map(|o| Field::new(o.name.into(), o.dtype())).collect()),
        }
    }

    /// Checks that the model gives what was announced.
    ///
    /// # Errors
    /// If not, saying which type it gives.
    pub fn check(&self, model: &Applied) -> PolarsResult<()> {
        self.each.iter().try_for_each(|output| output.check(model))
    }

    /// The predictions for `rows` rows of `inputs`.
    ///
    /// # Errors
    /// As [`Applied::outputs`].
    pub fn apply(&self, model: &Applied, inputs: &Inputs, rows: usize) -> PolarsResult<Series> {
        let walked = |o: &Output| if let Kind::Walked(kind) = o.kind { Some(kind) } else { None };
        let wanted: Vec<EngineOutput> = self.each.iter().filter_map(walked).collect();
        let mut values = if wanted.is_empty() { vec![] } else { model.outputs(inputs, &wanted)? }.into_iter();
        let mut explained = self.terms().map(|terms| model.explain(inputs, terms)).transpose()?;
        let mut series = vec![];
        for output in &self.each {
            series.push(match (output.kind, &mut explained) {
                (Kind::Explained(terms), Some((base, explanation))) => output.explained(base, explanation, terms, rows)?,
                (Kind::Known, _) => output.numbers(model.known_scores(inputs, &output.columns)?, rows)?,
                _ => output.series(model, values.next().ok_or_else(|| errors::data("an output was not computed"))?, rows)?,
            });
        }
        match series.pop() {
            Some(one) if !self.together => Ok(one),
            last => {
                series.extend(last);
                series.iter_mut().zip(&self.each).for_each(|(s, output)| {
                    s.rename(output.name.into());
                });
                Ok(StructChunked::from_series(NAME.into(), rows, series.iter())?.into_series())
            }
        }
    }

    /// What is to be explained: both, where both are asked for, by what gives the more.
    fn terms(&self) -> Option<Terms> {
        let asked = |terms: Terms| self.each.iter().any(|o| o.kind == Kind::Explained(terms)).then_some(terms);
        asked(Terms::Interactions).or(asked(Terms::Values))
    }

    /// Returns whether predictions are explained.
    pub fn is_explained(&self) -> bool {
        self.terms().is_some()
    }

    /// Bytes of the predictions of a row.
    pub fn bytes_a_row(&self, model: &Applied) -> u64 {
        self.each.iter().map(|output| output.bytes_a_row(model)).sum()
    }
}

/// A checked [`OutputKwargs`].
struct Output {
    name: &'static str,
    kind: Kind,
    classes: Option<Vec<String>>,
    columns: Vec<String>,
    /// The type of the labels that are given, and the same as Polars has it.
    label: (LabelType, DataType),
    narrow: bool,
}

impl Output {
    fn new(kwargs: &OutputKwargs) -> PolarsResult<Self> {
        let Some((name, kind)) = OUTPUTS.iter().find(|(name, _)| *name == kwargs.output).copied() else {
            let names: Vec<String> = OUTPUTS.iter().map(|(name, _)| format!("{name:?}")).collect();
            return Err(errors::data(format!("output={:?} is not one of {}", kwargs.output, names.join(", "))));
        };
        let label = match &kwargs.label {
            Some(json) => serde_json::from_str(json).map_err(|e| errors::data(format!("the type of the labels: {e}")))?,
            None => LabelType::Float64,
        };
        let dtype = labels::data_type(&label)?;
        let columns = kwargs.columns.clone().unwrap_or_default();
        Ok(Output { name, kind, classes: kwargs.classes.clone(), columns, label: (label, dtype), narrow: kwargs.narrow })
    }

    /// Whether its numbers are raw scores, or parts of them.
    fn is_of_scores(&self) -> bool {
        !matches!(self.kind, Kind::Walked(EngineOutput::Predictions | EngineOutput::Staged))
    }

    /// The type of a number.
    fn number(&self) -> DataType {
        if self.narrow { DataType::Float32 } else { DataType::Float64 }
    }

    fn dtype(&self) -> DataType {
        let list = |inner| DataType::List(Box::new(inner));
        let item = match self.kind {
            Kind::Walked(EngineOutput::Leaves) => return list(DataType::UInt32),
            Kind::Walked(EngineOutput::Class) => return self.label.1.clone(),
            Kind::Walked(EngineOutput::Staged) => list(self.number()),
            Kind::Walked(EngineOutput::Predictions | EngineOutput::Raw) | Kind::Known => self.number(),
            Kind::Explained(Terms::Values) => self.of_columns(&DataType::Float64, true),
            Kind::Explained(Terms::Interactions) => self.of_columns(&self.of_columns(&DataType::Float64, false), false),
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

    fn check(&self, model: &Applied) -> PolarsResult<()> {
        let target = model.target();
        let other = |own: &dyn std::fmt::Display, announced: &dyn std::fmt::Display| {
            Err(errors::data(format!(
                "the model of `{target}` gives {own}, and the query was planned for {announced}; say so with dtype=, or give the model as a value"
            )))
        };
        if self.kind == Kind::Walked(EngineOutput::Class) {
            let (Some(labels), Some(own)) = (model.labels(), model.label_type()) else {
                let what = match model.fitted().loss().as_str() {
                    "multilabel" => "has no classes but labels, any of which a row may have: output=\"auto\" gives the probability of each",
                    _ => "is a regression and has no classes",
                };
                return Err(errors::data(format!("output=\"class\": the model of `{target}` {what}")));
            };
            // Models whose labels differ in type meet in what labels are kept as.
            let announced = &self.label.0;
            return if *announced == own || *announced == labels.kept_as() { Ok(()) } else { other(&own, announced) };
        }
        let columns = if matches!(self.kind, Kind::Explained(_)) { model.explained_columns() } else { vec![] };
        if self.kind == Kind::Explained(Terms::Values) && columns.iter().any(|c| c == BASE) {
            return Err(errors::mistyped(BASE, "output=\"shap\" gives the base value this name: fit with another name"));
        }
        let own = Output { classes: model.fields(self.is_of_scores()), columns, label: self.label.clone(), ..*self }.dtype();
        let announced = self.dtype();
        if own == announced { Ok(()) } else { other(&shown(&own), &shown(&announced)) }
    }

    /// The values as a series.
    fn series(&self, model: &Applied, values: Values, rows: usize) -> PolarsResult<Series> {
        let name = || PlSmallStr::from_static(NAME);
        let facts = model.fitted().facts();
        let Kind::Walked(kind) = self.kind else { return Err(errors::data(format!("values for output={:?}", self.name))) };
        match (kind, values) {
            (EngineOutput::Predictions | EngineOutput::Raw, Values::Numbers(values)) => self.numbers(values, rows),
            (EngineOutput::Staged, Values::Numbers(stages)) => {
                let series = stages.iter().map(|v| match self.narrow {
                    true => lists::<Float32Type>(rows, facts.rounds, &narrowed(v), DataType::Float32),
                    false => lists::<Float64Type>(rows, facts.rounds, v, DataType::Float64),
                });
                self.fields(rows, series.collect::<PolarsResult<_>>()?)
            }
            (EngineOutput::Class, Values::Indices(class)) => {
                let labels = model.labels().ok_or_else(|| errors::data("the model has no classes"))?;
                let labels = labels::series(name(), labels, &self.label.0)?;
                labels.take(&IdxCa::from_vec("".into(), class.into_iter().map(|c| c as IdxSize).collect()))
            }
            (_, Values::Indices(leaves)) => lists::<UInt32Type>(rows, facts.trees, &leaves, DataType::UInt32),
            (_, Values::Numbers(_)) => Err(errors::data(format!("numbers for output={:?}", self.name))),
        }
    }

    /// One number a row, or one a row and field.
    fn numbers(&self, values: Vec<Vec<f64>>, rows: usize) -> PolarsResult<Series> {
        let series = values.into_iter().map(|v| match self.narrow {
            true => Float32Chunked::from_vec(NAME.into(), narrowed(&v)).into_series(),
            false => Float64Chunked::from_vec(NAME.into(), v).into_series(),
        });
        self.fields(rows, series.collect())
    }

    /// Each column's part as a series, or what each shares with each.
    /// The values, or the interactions, which are taken out of `explanation`: no number is copied.
    fn explained(&self, base: &[f64], explanation: &mut Explanation, terms: Terms, rows: usize) -> PolarsResult<Series> {
        let series = match terms {
            Terms::Values => std::mem::take(&mut explanation.values)
                .into_iter()
                .zip(base)
                .map(|(values, base)| {
                    let base = Float64Chunked::full(NAME.into(), *base, rows).into_series();
                    self.share(rows, values.into_iter().map(numbers).chain([base]).collect())
                })
                .collect::<PolarsResult<_>>()?,
            Terms::Interactions => {
                let each = std::mem::take(&mut explanation.interactions).into_iter();
                each.map(|terms| self.matrix(rows, terms)).collect::<PolarsResult<_>>()?
            }
        };
        self.fields(rows, series)
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
        let terms: Vec<Series> = terms.into_iter().map(numbers).collect();
        let m = self.columns.len();
        let term = |i: usize, j: usize| if i == j { i } else { pair(m, i.min(j), i.max(j)) };
        let lines = (0..m).map(|i| self.share(rows, (0..m).map(|j| terms[term(i, j)].clone()).collect()));
        self.share(rows, lines.collect::<PolarsResult<_>>()?)
    }

    fn bytes_a_row(&self, model: &Applied) -> u64 {
        let (outputs, trees) = (model.numbers_a_row() as u64, model.fitted().facts().trees as u64);
        match self.kind {
            Kind::Walked(EngineOutput::Predictions | EngineOutput::Raw) | Kind::Known => 8 * outputs,
            Kind::Walked(EngineOutput::Class) => 4,
            Kind::Walked(EngineOutput::Leaves) => 4 * trees,
            Kind::Walked(EngineOutput::Staged) => 8 * trees,
            Kind::Explained(Terms::Values) => 8 * outputs * (self.columns.len() + 1) as u64,
            Kind::Explained(Terms::Interactions) => 8 * outputs * Terms::Interactions.count(self.columns.len()) as u64,
        }
    }

    /// One series, or a struct of one for each field.
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

/// Numbers rounded to the nearest f32.
fn narrowed(values: &[f64]) -> Vec<f32> {
    values.iter().map(|x| *x as f32).collect()
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

/// A column of these numbers.
fn numbers(values: Vec<f64>) -> Series {
    Float64Chunked::from_vec(NAME.into(), values).into_series()
}
