//! A model or a forest on the device that applies it.

use super::shared_copies::SharedCopies;
use super::{gpu, open_gpus};
use std::sync::{Arc, OnceLock};
use taiga_core::column::Column;
use taiga_core::error::{Error, Result};
use taiga_core::learners::boosting::model::apply::{Asked, Predictor, Walked};
use taiga_core::learners::boosting::model::shap::ShapValues;
use taiga_core::learners::linear::predict::ReadRows;
use taiga_core::learners::linear::rows::SparseRows;
use taiga_core::learners::linear::shap::Parts;
use taiga_core::learners::{forest, linear};
use taiga_core::memory;
use taiga_core::parallel::once::get_or_try;
use taiga_core::shap::{Explanation, Terms};

/// The copy of boosted trees on another device, which answers with the same bits.
pub trait ModelCopy: Send + Sync {
    /// [`Predictor::raw`].
    ///
    /// # Errors
    /// Those of the device.
    fn raw(&self, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>>;

    /// [`Predictor::leaves`].
    ///
    /// # Errors
    /// Those of the device.
    fn leaves(&self, columns: &[&Column<'_>]) -> Result<Vec<u32>>;

    /// [`Predictor::staged`].
    ///
    /// # Errors
    /// Those of the device.
    fn staged(&self, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>>;

    /// Brings what explains the scores of this model to the device.
    ///
    /// # Errors
    /// Those of the device.
    fn explainer(&self, predictor: &Predictor, shap: Arc<ShapValues>, terms: Terms) -> Result<Box<dyn ExplainerCopy>>;
}

/// What explains boosted trees or a forest on another device, with the same bits.
pub trait ExplainerCopy: Send + Sync {
    /// [`Predictor::explain`], or [`forest::Predictor::explain`].
    ///
    /// # Errors
    /// Those of the device.
    fn explain(&self, columns: &[&Column<'_>]) -> Result<Explanation>;
}

/// The copy of a forest on another device, which answers with the same bits.
pub trait ForestCopy: Send + Sync {
    /// [`forest::Predictor::predict`].
    ///
    /// # Errors
    /// Those of the device.
    fn predict(&self, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>>;

    /// [`forest::Predictor::leaves`].
    ///
    /// # Errors
    /// Those of the device.
    fn leaves(&self, columns: &[&Column<'_>]) -> Result<Vec<u32>>;

    /// Brings what explains the predictions of this forest to the device.
    ///
    /// # Errors
    /// Those of the device.
    fn explainer(&self, predictor: &forest::Predictor, shap: Arc<forest::shap::ShapValues>, terms: Terms)
    -> Result<Box<dyn ExplainerCopy>>;
}

/// The copy of a linear model on another device, which answers with the same bits.
pub trait LinearCopy: Send + Sync {
    /// [`linear::Predictor::raw`] of rows that [`linear::Predictor::read`] gives.
    ///
    /// # Errors
    /// As there, and those of the device.
    fn raw(&self, rows: &ReadRows<'_, '_>) -> Result<Vec<Vec<f64>>>;

    /// Computes what each column gives to each row's scores, less what it gives in the mean: `[output][column][row]`.
    ///
    /// # Errors
    /// As [`LinearCopy::raw`].
    fn explain(&self, rows: &ReadRows<'_, '_>, means: &[Vec<f64>]) -> Result<Parts>;
}

/// What explains a model on another device: of values, and of interactions, each brought there when it is first asked for.
#[derive(Default)]
pub struct ExplainerCopies([OnceLock<Box<dyn ExplainerCopy>>; 2]);

impl ExplainerCopies {
    /// Explains rows there, by what `bring` brings.
    ///
    /// # Errors
    /// Those of `bring` and of the device.
    pub fn explain(
        &self,
        columns: &[&Column<'_>],
        terms: Terms,
        bring: impl FnOnce() -> Result<Box<dyn ExplainerCopy>>,
    ) -> Result<Explanation> {
        get_or_try(&self.0[terms as usize], bring)?.explain(columns)
    }
}

/// What predicts on this process's threads, and its copy on another device where one is asked to.
pub struct Placed<P, C: ?Sized> {
    predictor: Arc<P>,
    copy: Option<Arc<C>>,
}

/// A model on the device that applies it.
pub type PlacedPredictor = Placed<Predictor, dyn ModelCopy>;

/// A forest on the device that applies it.
pub type PlacedForest = Placed<forest::Predictor, dyn ForestCopy>;

/// A linear model on the device that applies it.
pub type PlacedLinear = Placed<linear::Predictor, dyn LinearCopy>;

impl<P, C: ?Sized> Placed<P, C> {
    /// Returns the model by itself.
    pub fn predictor(&self) -> &P {
        &self.predictor
    }

    /// Returns the model by itself, to keep.
    pub fn shared(&self) -> Arc<P> {
        self.predictor.clone()
    }

    /// Returns the copy on another device, to keep, where there is one.
    pub fn copy(&self) -> Option<Arc<C>> {
        self.copy.clone()
    }

    /// Returns the model by itself, to keep, where it is applied on this process's threads.
    ///
    /// # Errors
    /// Where another device applies it, which does not do `what`.
    pub fn own(&self, what: &str) -> Result<Arc<P>> {
        if self.copy.is_some() {
            return Err(Error::parameter("device", format!("{what} is computed on the CPU only; leave the device out, or name \"cpu\"")));
        }
        Ok(self.predictor.clone())
    }

    /// Returns whether rows go to another device, which wants many at a time.
    pub fn is_remote(&self) -> bool {
        self.copy.is_some()
    }

    /// Asks the copy on another device where there is one, else the model by itself.
    fn ask<R>(&self, copy: impl FnOnce(&C) -> Result<R>, own: impl FnOnce(&P) -> R) -> Result<R> {
        self.copy.as_deref().map_or_else(|| Ok(own(&self.predictor)), copy)
    }
}

/// Makes one copy of those on each GPU: none of none, and by `share` of several.
fn one_of<C: ?Sized>(mut copies: Vec<Box<C>>, share: impl FnOnce(Vec<Box<C>>) -> Arc<C>) -> Option<Arc<C>> {
    if copies.len() > 1 { Some(share(copies)) } else { copies.pop().map(Arc::from) }
}

/// Checks that there is memory for `numbers` of `bytes` bytes each of every row.
fn check_memory(columns: &[&Column<'_>], numbers: u64, bytes: u64, what: &str) -> Result<()> {
    let rows = columns.first().map_or(0, |c| c.len()) as u64;
    let needed = memory::product(&[rows, numbers, bytes]);
    // A text is made for what is large alone.
    if needed < 1 << 20 {
        return Ok(());
    }
    memory::check(&format!("{numbers} {what} of {rows} rows"), needed, "predict fewer rows at a time (a lazy query streams)")
}

impl PlacedPredictor {
    /// Brings a model to the devices that `device` names (as [`super::DeviceSet::parse`] has it). [`super::DeviceSet::Auto`] is the CPU, where
    /// the columns are.
    ///
    /// # Errors
    /// Those of [`super::DeviceSet::parse`] and of the device.
    pub fn new(device: &str, predictor: Arc<Predictor>) -> Result<Self> {
        // A constant needs no device.
        let mut gpus = open_gpus(device)?;
        gpus.retain(|_| !predictor.model().trees.is_empty());
        let copies = gpus.into_iter().map(|number| gpu::copy_model(number, &predictor)).collect::<Result<_>>()?;
        let copy = one_of(copies, |copies| Arc::new(SharedCopies::new(copies)));
        Ok(Placed { predictor, copy })
    }

    /// [`Predictor::walk`]; another device walks once for each thing that is asked for.
    ///
    /// # Errors
    /// Those of the device, and where there is no memory for what is asked for.
    pub fn walk(&self, columns: &[&Column<'_>], asked: Asked) -> Result<Walked> {
        let (outputs, trees) = (self.predictor.model().outputs() as u64, self.predictor.model().trees.len() as u64);
        let asked_for = [(asked.raw, outputs, 8, "scores"), (asked.leaves, trees, 4, "leaves"), (asked.staged, trees, 8, "staged scores")];
        asked_for.iter().filter(|a| a.0).try_for_each(|(_, numbers, bytes, what)| check_memory(columns, *numbers, *bytes, what))?;
        let of_copy = |copy: &(dyn ModelCopy + 'static)| {
            Ok(Walked {
                raw: asked.raw.then(|| copy.raw(columns)).transpose()?,
                leaves: asked.leaves.then(|| copy.leaves(columns)).transpose()?,
                staged: asked.staged.then(|| copy.staged(columns)).transpose()?,
            })
        };
        self.ask(of_copy, |own| own.walk(columns, asked))
    }

    /// [`Predictor::raw`].
    ///
    /// # Errors
    /// As [`PlacedPredictor::walk`].
    pub fn raw(&self, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>> {
        Ok(self.walk(columns, Asked { raw: true, ..Asked::default() })?.raw.unwrap_or_default())
    }

    /// [`Predictor::leaves`].
    ///
    /// # Errors
    /// As [`PlacedPredictor::walk`].
    pub fn leaves(&self, columns: &[&Column<'_>]) -> Result<Vec<u32>> {
        Ok(self.walk(columns, Asked { leaves: true, ..Asked::default() })?.leaves.unwrap_or_default())
    }

    /// [`Predictor::staged`].
    ///
    /// # Errors
    /// As [`PlacedPredictor::walk`].
    pub fn staged(&self, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>> {
        Ok(self.walk(columns, Asked { staged: true, ..Asked::default() })?.staged.unwrap_or_default())
    }
}

impl PlacedForest {
    /// Brings a forest to the devices that `device` names, as [`PlacedPredictor::new`] does.
    ///
    /// # Errors
    /// As there.
    pub fn new(device: &str, predictor: Arc<forest::Predictor>) -> Result<Self> {
        let copies = open_gpus(device)?.into_iter().map(|number| gpu::copy_forest(number, &predictor)).collect::<Result<_>>()?;
        let copy = one_of(copies, |copies| Arc::new(SharedCopies::new(copies)));
        Ok(Placed { predictor, copy })
    }

    /// [`forest::Predictor::walk`]; another device walks once for each thing that is asked for.
    ///
    /// # Errors
    /// Those of the device, and where there is no memory for what is asked for.
    pub fn walk(&self, columns: &[&Column<'_>], asked: forest::apply::Asked) -> Result<forest::apply::Walked> {
        let forest = self.predictor.forest();
        if asked.predictions {
            check_memory(columns, forest.outputs() as u64, 8, "predictions")?;
        }
        if asked.leaves {
            check_memory(columns, forest.trees.len() as u64, 4, "leaves")?;
        }
        let of_copy = |copy: &(dyn ForestCopy + 'static)| {
            Ok(forest::apply::Walked {
                predictions: asked.predictions.then(|| copy.predict(columns)).transpose()?,
                leaves: asked.leaves.then(|| copy.leaves(columns)).transpose()?,
            })
        };
        self.ask(of_copy, |own| own.walk(columns, asked))
    }

    /// [`forest::Predictor::predict`].
    ///
    /// # Errors
    /// As [`PlacedForest::walk`].
    pub fn predict(&self, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>> {
        Ok(self.walk(columns, forest::apply::Asked { predictions: true, leaves: false })?.predictions.unwrap_or_default())
    }

    /// [`forest::Predictor::leaves`].
    ///
    /// # Errors
    /// As [`PlacedForest::walk`].
    pub fn leaves(&self, columns: &[&Column<'_>]) -> Result<Vec<u32>> {
        Ok(self.walk(columns, forest::apply::Asked { predictions: false, leaves: true })?.leaves.unwrap_or_default())
    }
}

impl PlacedLinear {
    /// Brings a linear model to the devices that `device` names, as [`PlacedPredictor::new`] does.
    ///
    /// # Errors
    /// As there.
    pub fn new(device: &str, predictor: Arc<linear::Predictor>) -> Result<Self> {
        let copies = open_gpus(device)?.into_iter().map(|number| gpu::copy_linear(number, &predictor)).collect::<Result<_>>()?;
        let copy = one_of(copies, |copies| Arc::new(SharedCopies::new(copies)));
        Ok(Placed { predictor, copy })
    }

    /// [`linear::Predictor::raw`].
    ///
    /// # Errors
    /// As there, and those of the device.
    pub fn raw(&self, sparse: Option<&SparseRows<'_>>, dense: &[&Column<'_>]) -> Result<Vec<Vec<f64>>> {
        match &self.copy {
            Some(copy) => copy.raw(&self.predictor.read(sparse, dense)?),
            None => self.predictor.raw(sparse, dense),
        }
    }
}
