//! The device that a forest grows on: the place where it is chosen.

use super::codes::{Code, View};
use super::growing::Part;
use super::impurity::{Classes, Numbers, Two};
use super::params::{Criterion, ForestParams};
use crate::device::Device;
use crate::error::Result;
use crate::parallel::thread_pool::Team;

/// What a forest is grown from, where a device other than the CPU may do it.
pub struct Work<'a, C> {
    pub team: &'a Team,
    pub view: View<'a, C>,
    pub targets: Targets<'a>,
    /// Never [`Criterion::Auto`].
    pub criterion: Criterion,
    pub limits: Limits,
    pub params: &'a ForestParams,
    /// In what units predictions out of bag are summed, where they are wanted.
    pub oob: Option<OutOfBagScale>,
    pub interrupted: &'a (dyn Fn() -> bool + Sync),
}

/// Targets, as `forest::kind` has them.
#[derive(Clone, Copy)]
pub enum Targets<'a> {
    Two(&'a Two<'a>),
    Classes(&'a Classes<'a>),
    Numbers(&'a Numbers),
}

/// A prediction is summed as `round((value - centre) * scale)`.
#[derive(Clone, Copy, Debug)]
pub struct OutOfBagScale {
    pub scale: f64,
    pub centre: f64,
}

/// Sums of predictions in fixed point, `[row][output]`, and of each row how many trees made them.
pub struct OutOfBagSums {
    pub sums: Vec<i64>,
    pub counts: Vec<u32>,
}

/// What a device has grown.
pub struct Grown {
    pub parts: Vec<Part>,
    /// Where they were wanted.
    pub sums: Option<OutOfBagSums>,
}

/// Where trees grow, and a word on why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Cpu(String),
    /// A GPU, by its number where one was named.
    Gpu(Option<u32>, String),
}

impl Place {
    /// The word on why.
    pub fn why(&self) -> &str {
        let (Place::Cpu(why) | Place::Gpu(_, why)) = self;
        why
    }
}

/// Where a forest grows. `refused`: why a GPU can't grow this one; `seconds`: about what one thread takes.
///
/// # Errors
/// Those of [`Device::parse`]; where a GPU is named that can't grow this forest, since an explicit choice never falls
/// back.
pub fn choose(device: &str, refused: Option<&str>, seconds: f64, threads: usize) -> Result<Place> {
    #[cfg(not(feature = "cuda"))]
    let _ = (refused, seconds, threads);
    #[cfg(test)]
    if device == "auto" && crate::device::fallback::fake::is_there() {
        return Ok(Place::Gpu(None, crate::device::fallback::fake::WHY.into()));
    }
    match Device::parse(device)? {
        Device::Cpu => Ok(Place::Cpu(device.into())),
        #[cfg(feature = "cuda")]
        Device::Auto => {
            let seconds = seconds / threads as f64;
            if seconds < 2.0 && !crate::device::fallback::takes_everything() {
                return Ok(Place::Cpu(format!("cpu: an estimated {seconds:.1} s there")));
            }
            let found = crate::cuda::runtime::Gpu::get(None);
            Ok(match (refused, found) {
                (Some(why), _) => Place::Cpu(format!("cpu: {why}")),
                (None, Err(why)) => Place::Cpu(format!("cpu: {why}")),
                (None, Ok(_)) => Place::Gpu(None, format!("cuda: an estimated {seconds:.1} s on the CPU")),
            })
        }
        #[cfg(not(feature = "cuda"))]
        Device::Auto => Ok(Place::Cpu(format!("cpu: {}", crate::device::NO_CUDA))),
        Device::Cuda(number) => match refused {
            Some(why) => Err(crate::Error::parameter("device", format!("{device:?}: {why}; use \"cpu\" or \"auto\""))),
            None => Ok(Place::Gpu(number, device.into())),
        },
    }
}

/// All trees of a forest, grown on a GPU.
///
/// # Errors
/// [`crate::Error::Device`] and [`crate::Error::Interrupted`].
pub fn grow_on_gpu<C: Code>(number: Option<u32>, work: &Work<'_, C>) -> Result<Grown> {
    #[cfg(test)]
    if crate::device::fallback::fake::is_there() {
        return Err(crate::device::fallback::fake::out_of_memory());
    }
    #[cfg(feature = "cuda")]
    return crate::cuda::forest::grow(number, work);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (number, work);
        Err(crate::Error::parameter("device", crate::device::NO_CUDA))
    }
}

/// The limits of a tree.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub depth: u32,
    pub leaves: Option<u32>,
    pub min_data: u64,
    pub min_gain: f64,
    /// Features drawn at a node.
    pub drawn: usize,
}
