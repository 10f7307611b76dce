//! A model on the device that applies it.

use super::Device;
use crate::column::Column;
use crate::error::Result;
use crate::model::apply::Predictor;
use std::sync::Arc;

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
        match Device::parse(device)? {
            Device::Auto | Device::Cpu => Ok(PlacedPredictor {
                predictor,
                #[cfg(feature = "cuda")]
                gpu: None,
            }),
            #[cfg(feature = "cuda")]
            Device::Cuda(number) => {
                let gpu = super::cuda::Gpu::get(number)?;
                let placed = super::cuda::predict::DevicePredictor::new(gpu, &predictor)?;
                Ok(PlacedPredictor { predictor, gpu: Some((gpu, placed)) })
            }
            #[cfg(not(feature = "cuda"))]
            Device::Cuda(_) => Err(super::no_cuda(device)),
        }
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
