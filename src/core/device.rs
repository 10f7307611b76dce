//! The names of devices, where work is to be done, and what is known of GPUs; nothing that runs.

use crate::error::{Error, Result};

/// The devices that work is asked to be done on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceSet {
    /// A GPU where there is one and the work is large enough to gain, else the CPU; which also does what the GPU turns out to have
    /// no memory for.
    Auto,
    Cpu,
    Cuda(Gpus),
}

/// GPUs of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gpus {
    /// The first that there is.
    First,
    /// Those of these numbers, each once, in the order of the shards of rows that they are to have.
    Numbers(Vec<u32>),
    All,
}

impl DeviceSet {
    /// Parses the name of a set of devices: `"auto"`, `"cpu"`, `"cuda"`, `"cuda:N"`, `"cuda:N,M"` or `"cuda:all"`. Whether they
    /// are there is not looked at, nor whether the work can be shared between them.
    ///
    /// # Errors
    /// [`Error::Parameter`] for any other text.
    ///
    /// ```
    /// use taiga_core::device::{DeviceSet, Gpus};
    /// assert_eq!(DeviceSet::parse("cuda:1"), Ok(DeviceSet::Cuda(Gpus::Numbers(vec![1]))));
    /// assert_eq!(DeviceSet::parse("cuda:0,2"), Ok(DeviceSet::Cuda(Gpus::Numbers(vec![0, 2]))));
    /// assert!(DeviceSet::parse("gpu").is_err() && DeviceSet::parse("cuda:1,1").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<DeviceSet> {
        let gpus = match (text, text.strip_prefix("cuda:")) {
            ("auto", _) => return Ok(DeviceSet::Auto),
            ("cpu", _) => return Ok(DeviceSet::Cpu),
            ("cuda", _) => Some(Gpus::First),
            (_, Some("all")) => Some(Gpus::All),
            (_, Some(numbers)) => numbers.split(',').map(|number| number.parse().ok()).collect::<Option<_>>().map(Gpus::Numbers),
            _ => None,
        };
        match gpus {
            Some(Gpus::Numbers(numbers)) if (1..numbers.len()).any(|i| numbers[..i].contains(&numbers[i])) => Err(unknown(text)),
            Some(gpus) => Ok(DeviceSet::Cuda(gpus)),
            None => Err(unknown(text)),
        }
    }

    /// Returns the name for work that comes along with a fit, and that GPUs do not share: that of the first of several.
    ///
    /// ```
    /// use taiga_core::device::DeviceSet;
    /// assert_eq!(DeviceSet::first_name("cuda:2,0"), "cuda:2");
    /// assert_eq!(DeviceSet::first_name("cuda:all"), "cuda");
    /// assert_eq!(DeviceSet::first_name("cpu"), "cpu");
    /// ```
    #[must_use]
    pub fn first_name(text: &str) -> &str {
        if text == "cuda:all" { "cuda" } else { text.split(',').next().unwrap_or(text) }
    }

    /// Returns the set for work that is not shared between GPUs.
    ///
    /// # Errors
    /// [`Error::Parameter`] for more than one GPU, which says what to write instead.
    pub fn at_most_one(self) -> Result<DeviceSet> {
        match &self {
            DeviceSet::Cuda(Gpus::All) => Err(several("cuda:all", "cuda")),
            DeviceSet::Cuda(Gpus::Numbers(numbers)) if numbers.len() > 1 => {
                let all: Vec<String> = numbers.iter().map(u32::to_string).collect();
                Err(several(&format!("cuda:{}", all.join(",")), &format!("cuda:{}", numbers[0])))
            }
            _ => Ok(self),
        }
    }
}

impl Gpus {
    /// Returns the number of the first of them, where one is named.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        if let Gpus::Numbers(numbers) = self { numbers.first().copied() } else { None }
    }
}

fn unknown(text: &str) -> Error {
    Error::parameter("device", format!("{text:?} is not \"auto\", \"cpu\", \"cuda\", \"cuda:N\", \"cuda:N,M\" or \"cuda:all\""))
}

fn several(text: &str, one: &str) -> Error {
    Error::parameter(
        "device",
        format!(
            "{text:?} names several GPUs, which share fits of boosted trees, of forests and of sparse logistic regression by \"lbfgs\", \
             predictions, statistics, and encodings that are not ordered; write {one:?}"
        ),
    )
}

/// Where work is done, and a word on why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Cpu(String),
    /// A GPU, by its number where one was named.
    Gpu(Option<u32>, String),
}

impl Place {
    /// Returns the word on why.
    pub fn why(&self) -> &str {
        let (Place::Cpu(why) | Place::Gpu(_, why)) = self;
        why
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves which names there are, and that work for one device refuses several and says what to write.
    #[test]
    fn names_are_parsed_and_several_are_refused_where_one_is_wanted() {
        let numbers = |numbers: &[u32]| Ok(DeviceSet::Cuda(Gpus::Numbers(numbers.to_vec())));
        for (text, set) in [
            ("auto", Ok(DeviceSet::Auto)),
            ("cpu", Ok(DeviceSet::Cpu)),
            ("cuda", Ok(DeviceSet::Cuda(Gpus::First))),
            ("cuda:all", Ok(DeviceSet::Cuda(Gpus::All))),
            ("cuda:7", numbers(&[7])),
            ("cuda:3,0,1", numbers(&[3, 0, 1])),
        ] {
            assert_eq!(DeviceSet::parse(text), set, "{text}");
            assert_eq!(DeviceSet::parse(text).and_then(DeviceSet::at_most_one).is_ok(), !text.contains([',', 'l']), "{text}");
        }
        for text in ["", "gpu", "CUDA", "cuda:", "cuda:-1", "cuda:1,", "cuda:1,1", "cuda:1, 2", "cuda:99999999999", "auto:1"] {
            assert_eq!(DeviceSet::parse(text), Err(unknown(text)), "{text}");
        }
        for (text, one) in [("cuda:all", "cuda"), ("cuda:3,1", "cuda:3")] {
            let told = DeviceSet::parse(text).and_then(DeviceSet::at_most_one).expect_err("several").to_string();
            assert!(told.contains(text) && told.ends_with(&format!("write {one:?}")), "{told}");
        }
        assert_eq!((Gpus::First.first(), Gpus::All.first(), Gpus::Numbers(vec![4, 2]).first()), (None, None, Some(4)));
    }
}
