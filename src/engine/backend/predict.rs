//! A model or a forest on the device that applies it.

use super::Device;
use crate::column::Column;
use crate::error::Result;
use crate::forest;
use crate::model::apply::Predictor;
use std::sync::Arc;

/// The GPU that `device` names (as [`Device::parse`] has it); none for the CPU, which [`Device::Auto`] is: the columns are
/// there.
#[cfg(feature = "cuda")]
fn gpu_of(device: &str) -> Result<Option<&'static super::cuda::Gpu>> {
    match Device::parse(device)? {
        Device::Auto | Device::Cpu => Ok(None),
        Device::Cuda(number) => super::cuda::Gpu::get(number).map(Some),
    }
}

#[cfg(not(feature = "cuda"))]
fn gpu_of(device: &str) -> Result<Option<std::convert::Infallible>> {
    match Device::parse(device)? {
        Device::Auto | Device::Cpu => Ok(None),
        Device::Cuda(_) => Err(super::no_cuda(device)),
    }
}

/// A forest, and its copy on a GPU where one applies it: the same bits on each.
pub struct PlacedForest {
    predictor: Arc<forest::Predictor>,
    #[cfg(feature = "cuda")]
    gpu: Option<(&'static super::cuda::Gpu, super::cuda::forest::apply::DeviceForest)>,
}

impl PlacedForest {
    /// On the device that `device` names: [`PlacedPredictor::new`].
    ///
    /// # Errors
    /// As there.
    pub fn new(device: &str, predictor: Arc<forest::Predictor>) -> Result<Self> {
        let gpu = gpu_of(device)?;
        #[cfg(not(feature = "cuda"))]
        let _ = gpu;
        #[cfg(feature = "cuda")]
        let gpu = gpu.map(|gpu| Ok((gpu, super::cuda::forest::apply::DeviceForest::new(gpu, &predictor)?))).transpose()?;
        Ok(PlacedForest {
            predictor,
            #[cfg(feature = "cuda")]
            gpu,
        })
    }

    /// The forest by itself.
    pub fn predictor(&self) -> &forest::Predictor {
        &self.predictor
    }

    /// Whether rows go to another device, which wants many at a time.
    pub fn is_remote(&self) -> bool {
        #[cfg(feature = "cuda")]
        return self.gpu.is_some();
        #[cfg(not(feature = "cuda"))]
        false
    }

    /// [`forest::Predictor::predict`].
    ///
    /// # Errors
    /// Those of the device.
    pub fn predict(&self, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>> {
        #[cfg(feature = "cuda")]
        if let Some((gpu, placed)) = &self.gpu {
            return placed.predict(&super::cuda::Queue::new(gpu)?, columns);
        }
        Ok(self.predictor.predict(columns))
    }

    /// [`forest::Predictor::leaves`].
    ///
    /// # Errors
    /// Those of the device.
    pub fn leaves(&self, columns: &[&Column<'_>]) -> Result<Vec<u32>> {
        #[cfg(feature = "cuda")]
        if let Some((gpu, placed)) = &self.gpu {
            return placed.leaves(&super::cuda::Queue::new(gpu)?, columns);
        }
        Ok(self.predictor.leaves(columns))
    }
}

/// A model, and its copy on a GPU where one applies it: the same bits on each.
pub struct PlacedPredictor {
    predictor: Arc<Predictor>,
    #[cfg(feature = "cuda")]
    gpu: Option<(&'static super::cuda::Gpu, super::cuda::predict::DevicePredictor)>,
}

impl PlacedPredictor {
    /// On the device that `device` names (as [`Device::parse`] has it). [`Device::Auto`] is the CPU, where
    /// the columns are.
    ///
    /// # Errors
    /// Those of [`Device::parse`] and of the device.
    pub fn new(device: &str, predictor: Arc<Predictor>) -> Result<Self> {
        let gpu = gpu_of(device)?;
        #[cfg(not(feature = "cuda"))]
        let _ = gpu;
        #[cfg(feature = "cuda")]
        let gpu = gpu.map(|gpu| Ok((gpu, super::cuda::predict::DevicePredictor::new(gpu, &predictor)?))).transpose()?;
        Ok(PlacedPredictor {
            predictor,
            #[cfg(feature = "cuda")]
            gpu,
        })
    }

    /// The model by itself.
    pub fn predictor(&self) -> &Predictor {
        &self.predictor
    }

    /// Whether rows go to another device, which wants many at a time.
    pub fn is_remote(&self) -> bool {
        #[cfg(feature = "cuda")]
        return self.gpu.is_some();
        #[cfg(not(feature = "cuda"))]
        false
    }

    /// [`Predictor::raw`].
    ///
    /// # Errors
    /// Those of the device.
    pub fn raw(&self, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>> {
        #[cfg(feature = "cuda")]
        if let Some((gpu, placed)) = &self.gpu {
            return placed.raw(&super::cuda::Queue::new(gpu)?, columns);
        }
        Ok(self.predictor.raw(columns))
    }

    /// [`Predictor::leaves`].
    ///
    /// # Errors
    /// Those of the device.
    pub fn leaves(&self, columns: &[&Column<'_>]) -> Result<Vec<u32>> {
        #[cfg(feature = "cuda")]
        if let Some((gpu, placed)) = &self.gpu {
            return placed.leaves(&super::cuda::Queue::new(gpu)?, columns);
        }
        Ok(self.predictor.leaves(columns))
    }

    /// [`Predictor::staged`].
    ///
    /// # Errors
    /// Those of the device.
    pub fn staged(&self, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>> {
        #[cfg(feature = "cuda")]
        if let Some((gpu, placed)) = &self.gpu {
            return placed.staged(&super::cuda::Queue::new(gpu)?, columns);
        }
        Ok(self.predictor.staged(columns))
    }
}
