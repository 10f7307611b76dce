//! A model or a forest on the device that applies it.

use super::Device;
use std::sync::Arc;
use taiga_core::column::Column;
use taiga_core::error::Result;
use taiga_core::learners::boosting::model::apply::Predictor;
use taiga_core::learners::forest;
use taiga_core::memory;

/// The GPU that `device` names (as [`Device::parse`] has it); none for the CPU, which [`Device::Auto`] is: the columns are
/// there.
#[cfg(feature = "cuda")]
fn gpu_of(device: &str) -> Result<Option<&'static taiga_cuda::runtime::Gpu>> {
    match Device::parse(device)? {
        Device::Auto | Device::Cpu => Ok(None),
        Device::Cuda(number) => taiga_cuda::runtime::Gpu::get(number).map(Some),
    }
}

#[cfg(not(feature = "cuda"))]
fn gpu_of(device: &str) -> Result<Option<std::convert::Infallible>> {
    match Device::parse(device)? {
        Device::Auto | Device::Cpu => Ok(None),
        Device::Cuda(_) => Err(super::no_cuda(device)),
    }
}

/// What can be copied to a GPU to be applied there.
pub trait Placeable: Sized {
    /// Whether there is anything to do for a device: not for a constant.
    #[cfg(feature = "cuda")]
    fn needs_device(&self) -> bool {
        true
    }

    /// The copy.
    #[cfg(feature = "cuda")]
    type OnGpu;

    /// Copies it.
    ///
    /// # Errors
    /// [`taiga_core::Error::Device`].
    #[cfg(feature = "cuda")]
    fn on_gpu(&self, gpu: &'static taiga_cuda::runtime::Gpu) -> Result<Self::OnGpu>;
}

impl Placeable for Predictor {
    #[cfg(feature = "cuda")]
    type OnGpu = taiga_cuda::predict::DevicePredictor;

    #[cfg(feature = "cuda")]
    fn needs_device(&self) -> bool {
        !self.model().trees.is_empty()
    }

    #[cfg(feature = "cuda")]
    fn on_gpu(&self, gpu: &'static taiga_cuda::runtime::Gpu) -> Result<Self::OnGpu> {
        taiga_cuda::predict::DevicePredictor::new(gpu, self)
    }
}

impl Placeable for forest::Predictor {
    #[cfg(feature = "cuda")]
    type OnGpu = taiga_cuda::predict::forest::DeviceForest;

    #[cfg(feature = "cuda")]
    fn on_gpu(&self, gpu: &'static taiga_cuda::runtime::Gpu) -> Result<Self::OnGpu> {
        taiga_cuda::predict::forest::DeviceForest::new(gpu, self)
    }
}

/// A model or a forest, and its copy on a GPU where one applies it: the same bits on each.
pub struct Placed<P: Placeable> {
    predictor: Arc<P>,
    #[cfg(feature = "cuda")]
    gpu: Option<(&'static taiga_cuda::runtime::Gpu, P::OnGpu)>,
}

/// A model on the device that applies it.
pub type PlacedPredictor = Placed<Predictor>;

/// A forest on the device that applies it.
pub type PlacedForest = Placed<forest::Predictor>;

impl<P: Placeable> Placed<P> {
    /// On the device that `device` names (as [`Device::parse`] has it). [`Device::Auto`] is the CPU, where
    /// the columns are.
    ///
    /// # Errors
    /// Those of [`Device::parse`] and of the device.
    pub fn new(device: &str, predictor: Arc<P>) -> Result<Self> {
        let gpu = gpu_of(device)?;
        #[cfg(not(feature = "cuda"))]
        let _ = gpu;
        #[cfg(feature = "cuda")]
        let gpu = gpu.filter(|_| predictor.needs_device()).map(|gpu| Ok((gpu, predictor.on_gpu(gpu)?))).transpose()?;
        Ok(Placed {
            predictor,
            #[cfg(feature = "cuda")]
            gpu,
        })
    }

    /// The model by itself.
    pub fn predictor(&self) -> &P {
        &self.predictor
    }

    /// Whether rows go to another device, which wants many at a time.
    pub fn is_remote(&self) -> bool {
        #[cfg(feature = "cuda")]
        return self.gpu.is_some();
        #[cfg(not(feature = "cuda"))]
        false
    }
}

/// The answer of the copy on a GPU where there is one, else of the model by itself.
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

macro_rules! ask {
    ($self:ident.$verb:ident($columns:ident), $numbers:expr, $bytes:expr, $what:expr) => {{
        check_memory($columns, $numbers as u64, $bytes, $what)?;
        #[cfg(feature = "cuda")]
        if let Some((gpu, copy)) = &$self.gpu {
            return copy.$verb(&taiga_cuda::runtime::Queue::new(gpu)?, $columns);
        }
        Ok($self.predictor.$verb($columns))
    }};
}

impl PlacedPredictor {
    /// [`Predictor::raw`].
    ///
    /// # Errors
    /// Those of the device.
    pub fn raw(&self, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>> {
        ask!(self.raw(columns), self.predictor.model().outputs(), 8, "scores")
    }

    /// [`Predictor::leaves`].
    ///
    /// # Errors
    /// Those of the device.
    pub fn leaves(&self, columns: &[&Column<'_>]) -> Result<Vec<u32>> {
        ask!(self.leaves(columns), self.predictor.model().trees.len(), 4, "leaves")
    }

    /// [`Predictor::staged`].
    ///
    /// # Errors
    /// Those of the device.
    pub fn staged(&self, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>> {
        ask!(self.staged(columns), self.predictor.model().trees.len(), 8, "staged scores")
    }
}

impl PlacedForest {
    /// [`forest::Predictor::predict`].
    ///
    /// # Errors
    /// Those of the device.
    pub fn predict(&self, columns: &[&Column<'_>]) -> Result<Vec<Vec<f64>>> {
        ask!(self.predict(columns), self.predictor.forest().outputs(), 8, "predictions")
    }

    /// [`forest::Predictor::leaves`].
    ///
    /// # Errors
    /// Those of the device.
    pub fn leaves(&self, columns: &[&Column<'_>]) -> Result<Vec<u32>> {
        ask!(self.leaves(columns), self.predictor.forest().trees.len(), 4, "leaves")
    }
}
