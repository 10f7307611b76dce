//! A model of any learner, ready to be applied, and the columns that it wants.

use crate::columns::Feature;
use crate::errors;
use crate::fitted::Fitted;
use crate::lists::Lists;
use polars::prelude::*;
use std::sync::Arc;
use taiga_engine::column::Column as EngineColumn;
use taiga_engine::dataset::labels::Labels;
use taiga_engine::device::predict::{PlacedForest, PlacedPredictor};
use taiga_engine::device::{Device, open};
use taiga_engine::encoding::Lookup;
use taiga_engine::learners::boosting::model::apply::Predictor;
use taiga_engine::learners::{forest, linear};
use taiga_engine::provenance::LabelType;

/// A model on the device that applies it.
pub enum Applied {
    Boosted(PlacedPredictor),
    Forest(PlacedForest),
    Linear(Box<linear::Predictor>),
}

/// What a model reads, of some rows.
pub struct Inputs {
    features: Vec<Feature>,
    /// Lists of features and of their values.
    lists: Option<(Series, Option<Series>)>,
}

impl Inputs {
    /// Rows `start .. start + len`; numbers are not copied.
    pub fn slice(&self, start: usize, len: usize) -> Self {
        let part = |s: &Series| s.slice(start as i64, len);
        Inputs {
            features: self.features.iter().map(|f| f.slice(start, len)).collect(),
            lists: self.lists.as_ref().map(|(features, values)| (part(features), values.as_ref().map(part))),
        }
    }

    /// The given rows, ascending.
    ///
    /// # Errors
    /// For a row that is not there.
    pub fn gather(&self, rows: &[usize]) -> PolarsResult<Self> {
        let taken = IdxCa::from_vec("".into(), rows.iter().map(|r| *r as IdxSize).collect());
        let part = |s: &Series| s.take(&taken);
        let lists = match &self.lists {
            Some((features, values)) => Some((part(features)?, values.as_ref().map(part).transpose()?)),
            None => None,
        };
        Ok(Inputs { features: self.features.iter().map(|f| f.gather(rows)).collect(), lists })
    }

    fn columns(&self) -> Vec<EngineColumn<'_>> {
        self.features.iter().map(Feature::column).collect()
    }
}

/// Whether a device is the CPU, which alone applies these models: an explicit choice never falls back.
fn on_cpu(device: &str, models: &str) -> PolarsResult<()> {
    match open(device).map_err(errors::compute)? {
        Device::Auto | Device::Cpu => Ok(()),
        Device::Cuda(_) => Err(errors::data(format!("parameter `device`: {device:?}: {models} are applied on the CPU only"))),
    }
}

/// What a learner's models do not have.
fn has_no(target: &str, learner: &str, what: &str) -> PolarsError {
    errors::data(format!("the model of `{target}` is {learner}, which has no {what}"))
}

impl Applied {
    /// The model on its device.
    ///
    /// # Errors
    /// Where the device can't apply it.
    pub fn new(fitted: Fitted, device: &str) -> PolarsResult<Self> {
        match fitted {
            Fitted::Boosted(model) => {
                PlacedPredictor::new(device, Arc::new(Predictor::new(model))).map(Applied::Boosted).map_err(errors::compute)
            }
            Fitted::Forest(forest) => {
                let predictor = Arc::new(forest::Predictor::new(forest));
                PlacedForest::new(device, predictor).map(Applied::Forest).map_err(errors::compute)
            }
            Fitted::Linear(model) => on_cpu(device, "linear models").map(|()| Applied::Linear(Box::new(linear::Predictor::new(model)))),
        }
    }

    /// Whether rows go to another device, which wants many at a time.
    pub fn is_remote(&self) -> bool {
        match self {
            Applied::Boosted(p) => p.is_remote(),
            Applied::Forest(p) => p.is_remote(),
            Applied::Linear(_) => false,
        }
    }

    /// How many numbers are predicted of a row, and how many trees there are.
    pub fn size(&self) -> (usize, usize) {
        match self {
            Applied::Boosted(p) => (p.predictor().model().outputs(), p.predictor().model().trees.len()),
            Applied::Forest(p) => (p.predictor().forest().outputs(), p.predictor().forest().trees.len()),
            Applied::Linear(p) => (p.model().outputs(), 0),
        }
    }

    /// The target's name.
    pub fn target(&self) -> &str {
        match self {
            Applied::Boosted(p) => &p.predictor().model().target,
            Applied::Forest(p) => &p.predictor().forest().target,
            Applied::Linear(p) => &p.model().target,
        }
    }

    /// A classifier's labels.
    pub fn labels(&self) -> Option<&Labels> {
        match self {
            Applied::Boosted(p) => p.predictor().model().labels.as_ref(),
            Applied::Forest(p) => p.predictor().forest().labels.as_ref(),
            Applied::Linear(p) => Some(&p.model().labels),
        }
    }

    /// The type of a classifier's labels in the column that they come from.
    pub fn label_type(&self) -> Option<LabelType> {
        let provenance = match self {
            Applied::Boosted(p) => &p.predictor().model().provenance,
            Applied::Forest(p) => &p.predictor().forest().provenance,
            Applied::Linear(p) => &p.model().provenance,
        };
        self.labels().map(|labels| labels.label_type(provenance))
    }

    /// The labels that name the fields of a prediction, where it has one for each class.
    pub fn fields(&self) -> Option<Vec<String>> {
        let several = match self {
            Applied::Boosted(p) => p.predictor().model().outputs() > 1,
            Applied::Forest(p) => p.predictor().forest().outputs() > 2,
            Applied::Linear(p) => p.model().outputs() > 1,
        };
        self.labels().filter(|_| several).map(Labels::names)
    }

    /// What the model reads of the columns that `find` finds by name, which are known to be there and of the right types
    /// ([`Wanted::check`](super::wanted::Wanted::check)). What the model does not name is not looked at.
    ///
    /// # Errors
    /// Polars' own.
    pub fn inputs<'s>(&self, find: impl Fn(&str) -> Option<&'s Series>) -> PolarsResult<Inputs> {
        let read = |name: &str, dtype: &_, lookup: Option<&Lookup>| {
            let series = find(name)?;
            Some(Feature::of_model(series, dtype, lookup))
        };
        let (features, lists): (PolarsResult<Vec<Feature>>, _) = match self {
            Applied::Boosted(p) => {
                let features = p.predictor().model().features.iter().enumerate();
                (features.filter_map(|(i, f)| read(&f.name, &f.dtype, p.predictor().lookup(i))).collect(), None)
            }
            Applied::Forest(p) => {
                let features = p.predictor().forest().features.iter().enumerate();
                (features.filter_map(|(i, f)| read(&f.name, &f.dtype, p.predictor().lookup(i))).collect(), None)
            }
            Applied::Linear(p) => {
                let lists = p.model().sparse.as_ref().and_then(|sparse| {
                    let features = find(&sparse.column)?.clone();
                    // Values inside structs come with their features.
                    let values = sparse.values.as_ref().and_then(|name| find(name)).filter(|_| !holds_structs(&features));
                    Some((features, values.cloned()))
                });
                (p.model().dense.iter().filter_map(|d| read(&d.name, &d.dtype, None)).collect(), lists)
            }
        };
        Ok(Inputs { features: features?, lists })
    }

    /// Raw scores, one vector for each output.
    ///
    /// # Errors
    /// For inputs that do not fit the model, what has no raw scores, and the device's own errors.
    pub fn raw(&self, inputs: &Inputs) -> PolarsResult<Vec<Vec<f64>>> {
        let columns = inputs.columns();
        let values = match self {
            Applied::Boosted(p) => p.predictor().bind(&columns).and_then(|columns| p.raw(&columns)),
            Applied::Forest(p) => {
                return Err(has_no(&p.predictor().forest().target, "a forest", "raw scores; its output=\"auto\" is a mean over trees"));
            }
            Applied::Linear(p) => {
                let lists = inputs.lists.as_ref().map(|(features, values)| Lists::new(features, values.as_ref())).transpose()?;
                p.bind(&columns).and_then(|dense| p.raw(lists.as_ref().map(Lists::rows).as_ref(), &dense))
            }
        };
        values.map_err(errors::compute)
    }

    /// Values of a regression, probabilities of the second of two classes, or of each of more.
    ///
    /// # Errors
    /// As [`Applied::raw`].
    pub fn predict(&self, inputs: &Inputs) -> PolarsResult<Vec<Vec<f64>>> {
        if let Applied::Forest(p) = self {
            let columns = inputs.columns();
            let shares = p.predictor().bind(&columns).and_then(|columns| p.predict(&columns));
            let mut shares = shares.map_err(errors::compute)?;
            return Ok(if shares.len() == 2 { shares.split_off(1) } else { shares });
        }
        let mut values = self.raw(inputs)?;
        self.link(&mut values);
        Ok(values)
    }

    fn link(&self, raw: &mut [Vec<f64>]) {
        match self {
            Applied::Boosted(p) => p.predictor().link(raw),
            Applied::Forest(_) => {}
            Applied::Linear(p) => p.link(raw),
        }
    }

    /// The index of the likeliest class.
    ///
    /// # Errors
    /// As [`Applied::raw`].
    pub fn class(&self, inputs: &Inputs) -> PolarsResult<Vec<u32>> {
        Ok(match self {
            Applied::Boosted(p) => p.predictor().class(&self.raw(inputs)?),
            Applied::Forest(p) => {
                let columns = inputs.columns();
                let shares = p.predictor().bind(&columns).and_then(|columns| p.predict(&columns));
                p.predictor().class(&shares.map_err(errors::compute)?)
            }
            Applied::Linear(p) => p.class(&self.raw(inputs)?),
        })
    }

    /// The number of trees, and the leaf of each row in each.
    ///
    /// # Errors
    /// As [`Applied::raw`], and for what has no leaves.
    pub fn leaves(&self, inputs: &Inputs) -> PolarsResult<(usize, Vec<u32>)> {
        let columns = inputs.columns();
        match self {
            Applied::Boosted(p) => {
                let leaves = p.predictor().bind(&columns).and_then(|columns| p.leaves(&columns));
                Ok((p.predictor().model().trees.len(), leaves.map_err(errors::compute)?))
            }
            Applied::Forest(p) => {
                let leaves = p.predictor().bind(&columns).and_then(|columns| p.leaves(&columns));
                Ok((p.predictor().forest().trees.len(), leaves.map_err(errors::compute)?))
            }
            Applied::Linear(p) => Err(has_no(&p.model().target, "linear", "leaves")),
        }
    }

    /// The number of rounds, and the predictions after each of them.
    ///
    /// # Errors
    /// As [`Applied::raw`], and for what has no rounds.
    pub fn staged(&self, inputs: &Inputs) -> PolarsResult<(usize, Vec<Vec<f64>>)> {
        let Applied::Boosted(p) = self else { return Err(has_no(self.target(), "not of boosted trees", "stages")) };
        let columns = inputs.columns();
        let stages = p.predictor().bind(&columns).and_then(|columns| p.staged(&columns));
        let mut stages = stages.map_err(errors::compute)?;
        self.link(&mut stages);
        Ok((p.predictor().model().rounds(), stages))
    }
}

/// Whether a column is of lists of structs.
fn holds_structs(series: &Series) -> bool {
    matches!(series.dtype(), DataType::List(inner) | DataType::Array(inner, _) if matches!(**inner, DataType::Struct(_)))
}
