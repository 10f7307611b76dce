//! What a prediction looks like, and its type, which Polars must know before there is a model.

use crate::errors;
use polars::prelude::*;
use serde::Deserialize;
use taiga_engine::backend::predict::PlacedPredictor;
use taiga_engine::column::Column as EngineColumn;
use taiga_engine::model::{Labels, Model};

/// The name of what `predict` returns.
pub const NAME: &str = "prediction";

/// What Python says of the output. It knows the model when that is a value; for a model that is
/// an expression the user says it (`dtype=`), or it is one number a row.
#[derive(Deserialize)]
pub struct PredictKwargs {
    /// `auto`, `raw`, `class`, `leaf` or `staged`.
    output: String,
    /// The labels that name the fields where there is one number a class.
    classes: Option<Vec<String>>,
    /// The labels' type where a label is asked for: `boolean`, `integer`, `float` or `text`.
    label: Option<String>,
    /// Where the model is applied.
    pub device: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Auto,
    Raw,
    Class,
    Leaf,
    Staged,
}

/// A checked [`PredictKwargs`].
pub struct Output {
    kind: Kind,
    classes: Option<Vec<String>>,
    label: DataType,
}

/// The type of labels.
fn label_type(labels: &Labels) -> DataType {
    match labels {
        Labels::Boolean => DataType::Boolean,
        Labels::Integer(_) => DataType::Int64,
        Labels::Float(_) => DataType::Float64,
        Labels::Text(_) => DataType::String,
    }
}

impl Output {
    pub fn new(kwargs: &PredictKwargs) -> PolarsResult<Self> {
        let kind = match kwargs.output.as_str() {
            "auto" => Kind::Auto,
            "raw" => Kind::Raw,
            "class" => Kind::Class,
            "leaf" => Kind::Leaf,
            "staged" => Kind::Staged,
            other => return Err(errors::data(format!("output={other:?} is not \"auto\", \"raw\", \"class\", \"leaf\" or \"staged\""))),
        };
        let label = match kwargs.label.as_deref() {
            Some("boolean") => DataType::Boolean,
            Some("integer") => DataType::Int64,
            Some("text") => DataType::String,
            _ => DataType::Float64,
        };
        Ok(Output { kind, classes: kwargs.classes.clone(), label })
    }

    /// The type of the predictions.
    pub fn dtype(&self) -> DataType {
        let list = |inner| DataType::List(Box::new(inner));
        let item = match self.kind {
            Kind::Leaf => return list(DataType::UInt32),
            Kind::Class => return self.label.clone(),
            Kind::Staged => list(DataType::Float64),
            Kind::Auto | Kind::Raw => DataType::Float64,
        };
        match &self.classes {
            Some(names) => DataType::Struct(names.iter().map(|n| Field::new(n.as_str().into(), item.clone())).collect()),
            None => item,
        }
    }

    /// Whether the model gives what was announced.
    pub fn check(&self, model: &Model) -> PolarsResult<()> {
        let own = Output {
            kind: self.kind,
            classes: (model.outputs() > 1).then(|| model.labels.as_ref().map(Labels::names)).flatten(),
            label: model.labels.as_ref().map_or(DataType::Float64, label_type),
        };
        if self.kind == Kind::Class && model.labels.is_none() {
            return Err(errors::data(format!("output=\"class\": the model of `{}` is a regression and has no classes", model.target)));
        }
        let (own, announced) = (own.dtype(), self.dtype());
        if own != announced {
            return Err(errors::data(format!(
                "the model of `{}` gives {own}, and the query was planned for {announced}; say so with dtype=, or give the model as a value",
                model.target
            )));
        }
        Ok(())
    }

    /// The predictions for `rows` rows of `columns`.
    pub fn apply(&self, placed: &PlacedPredictor, columns: &[EngineColumn<'_>], rows: usize) -> PolarsResult<Series> {
        let predictor = placed.predictor();
        let columns = predictor.bind(columns).map_err(errors::compute)?;
        let model = predictor.model();
        let name = || PlSmallStr::from_static(NAME);
        match self.kind {
            Kind::Auto | Kind::Raw => {
                let mut values = placed.raw(&columns).map_err(errors::compute)?;
                if self.kind == Kind::Auto {
                    predictor.link(&mut values);
                }
                let series = values.into_iter().map(|v| Float64Chunked::from_vec(name(), v).into_series());
                self.fields(rows, series.collect())
            }
            Kind::Class => {
                let labels = match &model.labels {
                    Some(Labels::Boolean) => Series::new(name(), [false, true]),
                    Some(Labels::Integer(v)) => Series::new(name(), v),
                    Some(Labels::Float(v)) => Series::new(name(), v),
                    Some(Labels::Text(v)) => Series::new(name(), v),
                    None => return Err(errors::data("the model has no classes")),
                };
                let class = predictor.class(&placed.raw(&columns).map_err(errors::compute)?);
                labels.take(&IdxCa::from_vec("".into(), class.into_iter().map(|c| c as IdxSize).collect()))
            }
            Kind::Leaf => {
                let trees = model.trees.len();
                Ok(lists::<UInt32Type>(rows, trees, &placed.leaves(&columns).map_err(errors::compute)?, DataType::UInt32))
            }
            Kind::Staged => {
                let mut stages = placed.staged(&columns).map_err(errors::compute)?;
                predictor.link(&mut stages);
                let series = stages.iter().map(|v| lists::<Float64Type>(rows, model.rounds(), v, DataType::Float64));
                self.fields(rows, series.collect())
            }
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
fn lists<T: PolarsNumericType>(rows: usize, width: usize, values: &[T::Native], inner: DataType) -> Series {
    let mut builder = ListPrimitiveChunkedBuilder::<T>::new(NAME.into(), rows, rows * width, inner);
    for row in 0..rows {
        builder.append_slice(&values[row * width..(row + 1) * width]);
    }
    builder.finish().into_series()
}
