//! The verbs a learner needs, as a trait that every device implements under one contract: the same
//! rows in the same order give the same integers, whatever the device, its threads or its blocks.
//!
//! A verb is a step of the algorithm, not an array operation, so that a device keeps its data
//! where it is and answers with a few numbers a level. [`cpu`] is the reference; the places where a
//! device is chosen are [`with_backend`] for learners and [`columns::with_columns`] for what needs none,
//! and no other. What a GPU has not the memory for after all, [`fallback`] gives to the CPU.

pub mod columns;
pub mod cpu;
pub mod ctrs;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod fallback;
pub mod forest;
pub mod linear;
pub mod predict;

use self::ctrs::{CategoryCodes, CtrData, CtrFeature, CtrSample};
use crate::boosting::loss::Loss;
use crate::boosting::params::RowSample;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::tree::Tree;
use crate::tree::params::TreeParams;
use crate::tree::split::{Scales, SplitRules, Sums};
use serde::{Deserialize, Serialize};

/// The index of a node inside the tree that grows; the root is 0.
pub type NodeId = u32;

/// A feature and the borders that its codes are made with.
#[derive(Clone, Debug)]
pub struct CodedFeature {
    /// Ascending; 1 to 255 of them.
    pub borders: Vec<f64>,
    /// Whether code 0 is kept for missing values, so that values start at code 1. Always, but for
    /// a feature with 255 borders and no missing value.
    pub missing_bin: bool,
    /// Whether codes are categories, which a node is divided by in subsets: code 0 stands for rare
    /// and unknown ones, and borders only count the others.
    pub categories: bool,
}

/// A set of codes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CodeSet([u64; 4]);

impl CodeSet {
    /// The set of the codes whose bits are set, 64 a word.
    pub fn from_words(words: [u64; 4]) -> Self {
        CodeSet(words)
    }

    /// The bits of all codes, 64 a word.
    pub fn words(&self) -> [u64; 4] {
        self.0
    }

    /// Adds a code.
    pub fn insert(&mut self, code: u8) {
        self.0[code as usize / 64] |= 1 << (code % 64);
    }

    /// Whether a code is in it.
    #[inline(always)]
    pub fn contains(&self, code: u8) -> bool {
        self.0[code as usize / 64] >> (code % 64) & 1 == 1
    }
}

impl CodedFeature {
    /// The code of the smallest values.
    pub fn first(&self) -> usize {
        self.missing_bin as usize
    }

    /// The number of codes: one more than borders, and the missing values'.
    pub fn bins(&self) -> usize {
        self.borders.len() + 1 + self.first()
    }
}

/// What a feature's codes are made from.
#[derive(Clone, Copy)]
pub enum CodeSource<'a> {
    /// Values, coded by the feature's borders.
    Values(&'a Column<'a>),
    /// The codes themselves, one for each row.
    Codes(&'a [u8]),
}

/// The index of a group of features: group 0 are those that a fit starts with.
pub type GroupId = usize;

/// What a backend is given once for a whole fit.
pub struct TrainingData<'a> {
    /// Every feature that can split from the start on.
    pub features: &'a [CodedFeature],
    /// What the codes of each of `features` come from.
    pub sources: &'a [CodeSource<'a>],
    /// The target in the units of the scores (class indices for classifiers).
    pub target: Vec<f32>,
    /// Row weights.
    pub weight: Option<Vec<f32>>,
    /// Scores to start from, `[output][row]`. Several sets of them stand one behind the other, each of
    /// as many outputs as the loss has: rows may have other codes in one than in the other, which
    /// [`Backend::replay`] follows.
    pub scores: Vec<Vec<f32>>,
    /// Rows that are measured on and not trained on.
    pub held_out: Option<&'a [bool]>,
    /// How rows are drawn for each tree, and how many.
    pub row_sample: RowSample,
    pub row_fraction: f64,
    /// `l2`, which minimal variance sampling weighs hessians by, whatever the weights are in units of.
    pub l2: f64,
    /// Whether exact row counts are asked for besides the hessian sums.
    pub count_rows: bool,
    /// Whether sparse features may be stored sparsely and bundled; changes no result.
    pub bundle: bool,
    pub seed: u64,
}

/// A node whose histogram is searched for a split.
#[derive(Clone, Debug)]
pub struct SearchNode {
    pub id: NodeId,
    pub sums: Sums,
    /// Bounds of the node's value under monotone constraints.
    pub bounds: (f64, f64),
    /// The features (ascending) that may split it; `None`: all of the groups that are open.
    pub features: Option<Vec<u32>>,
}

/// A split found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Index into [`TrainingData::features`], and behind them those of the groups added.
    pub feature: u32,
    /// Index into its borders; as many as there are borders means +∞. Of a feature of categories:
    /// index into [`Backend::category_sets`], whose codes go right.
    pub border: u32,
    pub missing_left: bool,
    pub gain: f64,
}

/// A node's split carried out: its rows go to two new nodes.
#[derive(Clone, Copy, Debug)]
pub struct Division {
    pub parent: NodeId,
    pub left: NodeId,
    pub right: NodeId,
    pub split: Candidate,
    /// Whether the left child is the smaller one, whose histogram is summed from its rows.
    pub left_is_smaller: bool,
    /// Whether a child will be searched, so that histograms are needed.
    pub histograms: bool,
}

/// The sums of a leaf's rows from the unrounded derivatives.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LeafSums {
    pub gradient: f64,
    pub hessian: f64,
    pub count: u64,
}

/// What is said where derivatives overflow.
pub(crate) const NOT_FINITE: &str =
    "the gradients are no longer finite: lower `learning_rate`, raise `l2`, or bring target and weights into a smaller range";

/// What a fit will do with every tree of it.
#[derive(Clone, Copy, Debug)]
pub struct Announced {
    /// A leaf's value is that of [`SplitRules::leaf_value`] without bounds, times this, rounded to f32.
    pub learning_rate: f64,
    /// Trees over all outputs; they are grown for one output after the other, round after round.
    pub trees: u64,
}

/// A device's share of the work of fitting trees to gradients.
pub trait Backend {
    /// Told once before the first tree, where all of it is sure, no rows are held out and there is one set of
    /// scores. A device may then go on to the next tree by itself, where [`Backend::expect`] tells the same
    /// for it.
    fn announce(&mut self, _announced: Announced) {}

    /// Adds a group of features with their codes (a `Vec` of all rows for each), numbered behind
    /// those there are. It takes part in no tree that does not name or open it.
    fn add_group(&mut self, features: &[CodedFeature], codes: &[Vec<u8>]) -> Result<GroupId>;

    /// Whether [`Backend::ctr_sample`] and [`Backend::add_ctrs`] are to be asked for statistics of categories; else their
    /// codes come through [`Backend::add_group`].
    fn makes_ctrs(&self) -> bool {
        false
    }

    /// The sums of `columns` (one, or a combination) at the rows of the sample: of counters over all training rows, of the
    /// other statistics over those before the row in permutation `order`. `counters`: those too.
    fn ctr_sample(&mut self, _data: &CtrData<'_>, _columns: &[CategoryCodes<'_>], _order: usize, _counters: bool) -> Result<CtrSample> {
        Err(Error::Data("this device makes no statistics of categories".into()))
    }

    /// [`Backend::add_group`] of statistics under permutation `order`, one for each of `features`, those of the same
    /// columns side by side.
    fn add_ctrs(&mut self, _data: &CtrData<'_>, _features: &[CodedFeature], _ctrs: &[CtrFeature<'_>], _order: usize) -> Result<GroupId> {
        Err(Error::Data("this device makes no statistics of categories".into()))
    }

    /// Frees what a group takes. It never takes part in a tree again.
    fn drop_group(&mut self, group: GroupId);

    /// Told before each tree begins: the policy and the limits it will grow under, where nothing else
    /// counts (no draws of features, no constraints on how they meet, no groups opened on the way). A
    /// device may then work ahead of the questions to come.
    fn expect(&mut self, _plan: Option<&TreeParams>) {}

    /// Starts a tree for `output`: derivatives at the current scores, the rows drawn, their
    /// rounded statistics, and the root's histogram. `tree` numbers the trees of the fit and keys
    /// the random choices. `groups` are open beside group 0: their features may split. Gives the
    /// root's sums and the units of all sums of this tree.
    fn begin_tree(&mut self, loss: &dyn Loss, tree: u64, output: usize, groups: &[GroupId]) -> Result<(Sums, Scales)>;

    /// Opens one more group in the tree that grows: sums its histograms in `nodes`, which are the
    /// ones to be searched next.
    fn open_group(&mut self, group: GroupId, nodes: &[NodeId]) -> Result<()>;

    /// The best split of each node by itself, and the sums of its left child.
    fn find_splits(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Vec<Option<(Candidate, Sums)>>>;

    /// The one split with the largest gain summed over the nodes, and the sums of each one's left
    /// child.
    fn find_level_split(&mut self, nodes: &[SearchNode], rules: &SplitRules) -> Result<Option<(Candidate, Vec<Sums>)>>;

    /// Sends the rows of each parent to its children, and sums the smaller children's histograms.
    fn divide(&mut self, divisions: &[Division]) -> Result<()>;

    /// Whether divisions can be taken back.
    fn takes_back(&self) -> bool {
        false
    }

    /// Takes divisions back whose children have not been divided: the rows are in the parents again, whose histograms
    /// are gone. Told just before the growing ends, and only where [`Backend::takes_back`].
    ///
    /// # Errors
    /// Where the backend can't.
    fn take_back(&mut self, _divisions: &[Division]) -> Result<()> {
        Err(Error::Data("a division that can't be taken back".into()))
    }

    /// Ends the growing: `leaves[i]` is the node that became leaf `i` of `tree` (whose splits
    /// count features as [`TrainingData::features`] does). Every row gets its leaf, rows that were
    /// not drawn included. Gives each leaf's sums over the rows drawn.
    fn end_tree(&mut self, loss: &dyn Loss, tree: &Tree, leaves: &[NodeId]) -> Result<Vec<LeafSums>>;

    /// Sends every row through `tree` (whose splits count features as [`TrainingData::features`]
    /// does, of whatever groups) as the last tree of `output`, which belongs to another set of scores
    /// than the tree that has grown. Gives each leaf's sums over the rows drawn of that output's
    /// derivatives. What follows ([`Backend::leaf_quantiles`], [`Backend::set_leaf_values`]) is about
    /// this tree.
    fn replay(&mut self, loss: &dyn Loss, tree: &Tree, output: usize) -> Result<Vec<LeafSums>>;

    /// For each leaf of the tree just ended the weighted quantile `alpha` of `target - score` over
    /// the rows drawn; 0 for a leaf without rows.
    fn leaf_quantiles(&mut self, alpha: f64) -> Result<Vec<f64>>;

    /// Remembers the leaf values of the tree just ended; [`Backend::update_scores`] adds them.
    fn set_leaf_values(&mut self, values: &[f32]) -> Result<()>;

    /// The subsets of categories that nodes were divided by since the fit began.
    fn category_sets(&self) -> &[CodeSet];

    /// Ends a round: adds the leaf values of its trees to the scores, one tree for each output.
    fn update_scores(&mut self) -> Result<()>;

    /// The scores of the held-out rows in row order, `[output][row]`.
    fn held_out_scores(&self) -> Result<Vec<Vec<f32>>>;
}

/// Where the work is asked to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// A GPU where there is one and the work is large enough to gain, else the CPU; which also does what the GPU turns out to have
    /// no memory for ([`fallback`]).
    Auto,
    Cpu,
    /// A GPU, by its number where one is named.
    Cuda(Option<u32>),
}

impl Device {
    /// The device that `"auto"`, `"cpu"`, `"cuda"` or `"cuda:N"` names.
    ///
    /// # Errors
    /// For any other text, and for a device that is not there: an explicit choice never falls back.
    pub fn parse(text: &str) -> Result<Device> {
        let number = text.strip_prefix("cuda:").map(str::parse);
        match (text, number) {
            ("auto", _) => Ok(Device::Auto),
            ("cpu", _) => Ok(Device::Cpu),
            ("cuda", _) => Device::Cuda(None).available(text),
            (_, Some(Ok(number))) => Device::Cuda(Some(number)).available(text),
            _ => Err(Error::parameter("device", format!("{text:?} is not \"auto\", \"cpu\", \"cuda\" or \"cuda:N\""))),
        }
    }

    /// Opens the GPU that is named, so that its absence is told before any work.
    #[cfg(feature = "cuda")]
    fn available(self, _: &str) -> Result<Device> {
        match self {
            Device::Auto | Device::Cpu => {}
            Device::Cuda(number) => drop(cuda::Gpu::get(number)?),
        }
        Ok(self)
    }

    #[cfg(not(feature = "cuda"))]
    fn available(self, text: &str) -> Result<Device> {
        match self {
            Device::Auto | Device::Cpu => Ok(self),
            Device::Cuda(_) => Err(no_cuda(text)),
        }
    }
}

#[cfg(not(feature = "cuda"))]
const NO_CUDA: &str = "this build of polars-taiga has no CUDA backend";

#[cfg(not(feature = "cuda"))]
fn no_cuda(device: &str) -> Error {
    Error::parameter("device", format!("{device:?}: {NO_CUDA}; use \"cpu\" or \"auto\""))
}

/// The GPUs of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicesInfo {
    /// The newest CUDA that the NVIDIA driver supports, such as `13.0`; none where there is no driver.
    pub driver: Option<String>,
    pub devices: Vec<DeviceInfo>,
    /// Why there is no GPU to use, or why one of them can't be.
    pub unavailable: Option<String>,
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// `N` of `"cuda:N"`.
    pub number: u32,
    pub name: String,
    /// Compute capability.
    pub capability: (u32, u32),
    /// Bytes.
    pub total_memory: u64,
    /// Bytes, those that this process keeps for later included.
    pub free_memory: u64,
    pub cache: CacheInfo,
}

/// The columns that stay on a GPU for the next expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheInfo {
    pub columns: usize,
    /// Of device memory.
    pub bytes: u64,
    /// The most bytes; 0 where it is off.
    pub limit: u64,
    /// Columns that were there, and that were not, since the process began.
    pub hits: u64,
    pub misses: u64,
}

/// Frees the columns that stay on GPUs for the next expression.
///
/// # Errors
/// [`Error::Device`].
pub fn clear_device_cache() -> Result<()> {
    #[cfg(feature = "cuda")]
    cuda::device::each_cache(|gpu, cache| cache.clear(gpu).map(drop))?;
    Ok(())
}

/// Sets how many bytes of columns may stay on each GPU: 0 turns that off, none is a quarter of the device's memory
/// (or what `TAIGA_CUDA_CACHE` says). Frees what is too much.
///
/// # Errors
/// [`Error::Device`].
pub fn limit_device_cache(bytes: Option<u64>) -> Result<()> {
    #[cfg(feature = "cuda")]
    cuda::device::each_cache(|gpu, cache| {
        cache.set_limit(gpu, bytes);
        Ok(())
    })?;
    #[cfg(not(feature = "cuda"))]
    let _ = bytes;
    Ok(())
}

/// What GPUs there are, and why they can't be used where they can't.
pub fn device_info() -> DevicesInfo {
    #[cfg(feature = "cuda")]
    return cuda::device::device_info();
    #[cfg(not(feature = "cuda"))]
    DevicesInfo { driver: None, devices: vec![], unavailable: Some(NO_CUDA.into()) }
}

/// How large a fit is: what it is to be done on, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// How many nodes' histograms may be needed at once.
    pub most_nodes: usize,
    /// Trees, over all outputs.
    pub trees: usize,
}

/// Runs `body` on the backend of the device that is asked for (as [`Device::parse`] has it), with the data brought there. The one place
/// where a device is chosen; `chosen` is told which one was taken, and why where it was ours to say.
///
/// # Errors
/// What [`Device::parse`], the backend and `body` report.
pub fn with_backend<R>(
    asked: &str,
    team: &cpu::team::Team,
    data: TrainingData<'_>,
    extent: Extent,
    interrupted: &(dyn Fn() -> bool + Sync),
    chosen: &dyn Fn(&str),
    body: impl FnOnce(&mut dyn Backend) -> Result<R>,
) -> Result<R> {
    let device = match Device::parse(asked)? {
        Device::Auto => {
            let (device, why) = choose(team, &data, extent, interrupted)?;
            chosen(&why);
            device
        }
        named => {
            chosen(asked);
            named
        }
    };
    #[cfg(test)]
    if asked == "auto" && fallback::fake::is_there() {
        return body(&mut fallback::fake::Failing(cpu::CpuBackend::new(team, data, interrupted)?));
    }
    match device {
        Device::Auto | Device::Cpu => body(&mut cpu::CpuBackend::new(team, data, interrupted)?),
        #[cfg(feature = "cuda")]
        Device::Cuda(number) => body(&mut cuda::trees::CudaBackend::new(number, team, data, extent.most_nodes, interrupted)?),
        #[cfg(not(feature = "cuda"))]
        Device::Cuda(_) => Err(Error::parameter("device", NO_CUDA)),
    }
}

/// Seconds that a fit takes on the CPU and on a GPU, about: the CPU reads a value for a tree in 1.1 ns
/// on one thread (measured on Zen 4 at 3.5 GHz); a GPU takes 0.1 s to begin, 1 ns to upload a value,
/// 0.3 ms a tree and 7 ps a value (measured on an H200; 30 ps here, for lesser ones).
#[cfg(feature = "cuda")]
fn seconds(threads: usize, data: &TrainingData<'_>, extent: Extent) -> (f64, f64) {
    let values = data.target.len() as f64 * data.features.len() as f64;
    let trees = extent.trees as f64;
    (values * trees * 1.1e-9 / threads as f64, 0.1 + values * 1e-9 + trees * (3e-4 + values * 3e-11))
}

/// The device that `"auto"` stands for, and why.
#[cfg(feature = "cuda")]
fn choose(
    team: &cpu::team::Team,
    data: &TrainingData<'_>,
    extent: Extent,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<(Device, String)> {
    let (cpu, gpu) = seconds(team.size(), data, extent);
    let times = format!("an estimated {cpu:.2} s there and {gpu:.2} s on a GPU");
    if cpu <= gpu && !fallback::takes_everything() {
        return Ok((Device::Cpu, format!("cpu: {times}")));
    }
    Ok(match cuda::trees::CudaBackend::check(None, team, data, extent.most_nodes, interrupted) {
        Ok(()) => (Device::Cuda(None), format!("cuda: an estimated {gpu:.2} s there and {cpu:.2} s on the CPU")),
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(why) => (Device::Cpu, format!("cpu: {why}")),
    })
}

#[cfg(not(feature = "cuda"))]
fn choose(_: &cpu::team::Team, _: &TrainingData<'_>, _: Extent, _: &(dyn Fn() -> bool + Sync)) -> Result<(Device, String)> {
    Ok((Device::Cpu, format!("cpu: {NO_CUDA}")))
}
