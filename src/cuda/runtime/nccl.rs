//! Sums over GPUs that don't read each other's memory, by NVIDIA's collectives (NCCL), which are found at run time.
//!
//! Nothing of the library is needed to build, and no fit needs it: without it sums go through the host. It is `libnccl.so.2` where
//! `TAIGA_NCCL` says, of the system, or of NVIDIA's wheel beside this one; `TAIGA_NCCL=0` keeps it out.

use super::device::Gpu;
use super::queue::Queue;
use cudarc::driver::sys;
use libloading::Library;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use taiga_core::collective::Collective;
use taiga_core::error::{Error, Result};

/// Says where the library lies; `0`: nowhere.
const PATH: &str = "TAIGA_NCCL";
/// Keeps NCCL from multicast, where it is `0`.
const MULTICAST: &str = "NCCL_NVLS_ENABLE";
/// The name of the second version, which has been the only one since 2016.
const NAME: &str = "libnccl.so.2";

/// The time in which all have a communicator, or none gets one.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time of a sum, from when the work of all GPUs before it is done.
const LONGEST_SUM: Duration = Duration::from_secs(20);

/// Names a communicator: `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId([u8; 128]);

/// What a communicator is made by: the part of `ncclConfig_t` that every version since 2.14 has.
#[repr(C)]
struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
}

/// `ncclResult_t`, of which the first is success.
type Code = c_int;
const SUCCESS: Code = 0;
const IN_PROGRESS: Code = 7;
/// `ncclInt64` and `ncclSum`.
const INT64: c_int = 4;
const SUM: c_int = 0;

/// Returns where the library lies in NVIDIA's wheel, which pip puts beside the package that this code is part of.
fn in_wheel() -> Option<PathBuf> {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the address is that of this code, and what is found has room.
    let is_known = unsafe { libc::dladdr(in_wheel as *const c_void, found.as_mut_ptr()) } != 0;
    // SAFETY: zeros or what was found, of which the name is a text that stays.
    let name = is_known.then(|| unsafe { CStr::from_ptr(found.assume_init().dli_fname) })?;
    let site_packages = Path::new(OsStr::from_bytes(name.to_bytes())).parent()?.parent()?;
    Some(site_packages.join("nvidia/nccl/lib").join(NAME))
}

/// The calls of the library.
struct Nccl {
    get_unique_id: unsafe extern "C" fn(*mut UniqueId) -> Code,
    init_rank: unsafe extern "C" fn(*mut *mut c_void, c_int, UniqueId, c_int, *mut Config) -> Code,
    all_reduce: unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, *mut c_void, sys::CUstream) -> Code,
    async_error: unsafe extern "C" fn(*mut c_void, *mut Code) -> Code,
    abort: unsafe extern "C" fn(*mut c_void) -> Code,
    error_string: unsafe extern "C" fn(Code) -> *const c_char,
    _library: Library,
}

impl Nccl {
    /// Loads the library, where it is and has every call.
    fn load(path: &OsStr) -> std::result::Result<Nccl, libloading::Error> {
        // SAFETY: NVIDIA's library, by its own name or where the user says that it is; what it does when it is loaded is its own.
        let library = unsafe { Library::new(path) }?;
        // SAFETY: the types are those that nccl.h of the second version declares.
        unsafe {
            Ok(Nccl {
                get_unique_id: *library.get(c"ncclGetUniqueId")?,
                init_rank: *library.get(c"ncclCommInitRankConfig")?,
                all_reduce: *library.get(c"ncclAllReduce")?,
                async_error: *library.get(c"ncclCommGetAsyncError")?,
                abort: *library.get(c"ncclCommAbort")?,
                error_string: *library.get(c"ncclGetErrorString")?,
                _library: library,
            })
        }
    }

    /// Returns the library, which is looked for once in a process.
    fn get() -> Option<&'static Nccl> {
        static FOUND: OnceLock<Option<Nccl>> = OnceLock::new();
        FOUND
            .get_or_init(|| match std::env::var_os(PATH) {
                Some(path) if path == "0" => None,
                Some(path) => Nccl::load(&path).ok(),
                None => Nccl::load(NAME.as_ref()).ok().or_else(|| Nccl::load(in_wheel()?.as_os_str()).ok()),
            })
            .as_ref()
    }

    /// Returns the library's words for an error.
    fn text(&self, code: Code) -> String {
        // SAFETY: takes any number, and gives a text that is never freed.
        let text = unsafe { (self.error_string)(code) };
        if text.is_null() {
            return format!("error {code}");
        }
        // SAFETY: as above.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

/// What a shard tells the others before they make a communicator.
struct Told {
    has_library: bool,
    /// NCCL may not use multicast, which is a hazard to all work on a host's GPUs.
    is_without_multicast: bool,
    gpu: [u8; 16],
    id: UniqueId,
}

impl Told {
    const BYTES: usize = 2 + 16 + 128;

    fn bytes(&self) -> Vec<u8> {
        [&[self.has_library as u8, self.is_without_multicast as u8][..], &self.gpu, &self.id.0].concat()
    }

    fn of(bytes: &[u8]) -> Result<Told> {
        let bytes: &[u8; Told::BYTES] =
            bytes.try_into().map_err(|_| Error::Data("another process says nothing of its GPU that is understood".into()))?;
        let (gpu, id) = (std::array::from_fn(|i| bytes[2 + i]), UniqueId(std::array::from_fn(|i| bytes[18 + i])));
        Ok(Told { has_library: bytes[0] == 1, is_without_multicast: bytes[1] == 1, gpu, id })
    }
}

/// A GPU's part in sums over the GPUs of all shards.
pub struct Communicator {
    nccl: &'static Nccl,
    gpu: &'static Gpu,
    handle: *mut c_void,
}

// SAFETY: NCCL takes a communicator's calls from any thread, one at a time.
unsafe impl Send for Communicator {}

/// Returns how many sums this process has asked NCCL for.
pub fn sums() -> u64 {
    SUMS.load(Ordering::Relaxed)
}

static SUMS: AtomicU64 = AtomicU64::new(0);

/// Returns whether the library is there.
pub fn is_there() -> bool {
    Nccl::get().is_some()
}

impl Communicator {
    /// Makes a communicator between the GPUs of all shards, to be called in all of them at once; none where some shard can't have one: without the
    /// library, where two have the same GPU, of more than two where NCCL might use multicast.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn connect(queue: &Queue, between: &dyn Collective) -> Result<Option<Communicator>> {
        let told = Communicator::told(queue, between.rank()).bytes();
        let all = between.gather_bytes(&told)?.iter().map(|bytes| Told::of(bytes)).collect::<Result<Vec<_>>>()?;
        let same = (1..all.len()).any(|k| all[..k].iter().any(|other| other.gpu == all[k].gpu));
        let may_multicast = all.len() > 2 && !all.iter().all(|told| told.is_without_multicast);
        let Some(nccl) = Nccl::get().filter(|_| !same && !may_multicast && all.iter().all(|told| told.has_library)) else {
            return Ok(None);
        };
        let made = Communicator::make(nccl, queue, (between.rank(), between.world()), all[0].id);
        let mut failures = [made.is_none() as u32];
        between.max(&mut failures)?;
        Ok(made.filter(|_| failures == [0]))
    }

    fn told(queue: &Queue, rank: usize) -> Told {
        let gpu = queue.gpu().context().uuid().map(|uuid| uuid.bytes.map(|byte| byte as u8));
        let mut id = UniqueId([0; 128]);
        let found = Nccl::get().filter(|nccl| {
            // SAFETY: there is room for a name.
            rank > 0 || unsafe { (nccl.get_unique_id)(&mut id) } == SUCCESS
        });
        Told {
            has_library: found.is_some() && gpu.is_ok(),
            is_without_multicast: std::env::var_os(MULTICAST).is_some_and(|value| value == "0"),
            gpu: gpu.unwrap_or_default(),
            id,
        }
    }

    /// Makes this shard's part, unless that fails or takes too long.
    fn make(nccl: &'static Nccl, queue: &Queue, (rank, world): (usize, usize), id: UniqueId) -> Option<Communicator> {
        let gpu = queue.gpu();
        gpu.context().bind_to_thread().ok()?;
        let mut config = Config { size: size_of::<Config>(), magic: 0xcafe_beef, version: 21_400, blocking: 0 };
        let mut handle = ptr::null_mut();
        // SAFETY: the GPU is this thread's, and the config is one of the version that it names.
        let code = unsafe { (nccl.init_rank)(&mut handle, world as c_int, id, rank as c_int, &mut config) };
        if handle.is_null() {
            return None;
        }
        let made = Communicator { nccl, gpu, handle };
        made.done(code, PATIENCE).is_ok().then_some(made)
    }

    /// Returns how the calls before fare: the first error, or whether one is in progress.
    fn state(&self) -> Code {
        let mut code = SUCCESS;
        // SAFETY: the communicator is there, and the code has room.
        let asked = unsafe { (self.nccl.async_error)(self.handle, &mut code) };
        if asked == SUCCESS { code } else { asked }
    }

    /// Waits until a call is done that has returned `code`.
    fn done(&self, mut code: Code, patience: Duration) -> std::result::Result<(), String> {
        let start = Instant::now();
        while code == IN_PROGRESS {
            if start.elapsed() > patience {
                return Err(format!("NCCL: no answer within {} s", patience.as_secs()));
            }
            std::thread::yield_now();
            code = self.state();
        }
        if code == SUCCESS { Ok(()) } else { Err(format!("NCCL: {}", self.nccl.text(code))) }
    }

    /// Replaces `count` numbers at each of the addresses by the sums of all GPUs' numbers in their places, which are there when it returns.
    ///
    /// # Errors
    /// [`Error::Device`]; those of the collective, where a shard is gone.
    ///
    /// # Safety
    /// The numbers are there, and no less in any other shard.
    pub unsafe fn sum(&self, queue: &Queue, between: &dyn Collective, numbers: &[(u64, usize)]) -> Result<()> {
        let failed = |text: String| Error::device(self.gpu.number(), text);
        queue.synchronize()?;
        // Whoever is lost is noticed here, before a GPU waits for it.
        between.max(&mut [0])?;
        self.gpu.context().bind_to_thread().map_err(|e| queue.late(e))?;
        queue.note("ncclAllReduce");
        for (address, count) in numbers {
            let stream = queue.stream().cu_stream();
            let place = *address as *mut c_void;
            // SAFETY: the caller's.
            let code = unsafe { (self.nccl.all_reduce)(place, place, *count, INT64, SUM, self.handle, stream) };
            self.done(code, PATIENCE).map_err(failed)?;
            SUMS.fetch_add(1, Ordering::Relaxed);
        }
        self.wait(queue)
    }

    /// Waits until the GPU has done what is queued, or another one is lost.
    fn wait(&self, queue: &Queue) -> Result<()> {
        let failed = |text: String| Error::device(self.gpu.number(), text);
        let start = Instant::now();
        loop {
            // SAFETY: the stream is there.
            match unsafe { sys::cuStreamQuery(queue.stream().cu_stream()) } {
                sys::CUresult::CUDA_ERROR_NOT_READY => {}
                code => return code.result().map_err(|e| queue.late(e)),
            }
            let code = self.state();
            if code != SUCCESS && code != IN_PROGRESS {
                return Err(failed(format!("NCCL: {}", self.nccl.text(code))));
            }
            if start.elapsed() > LONGEST_SUM {
                return Err(failed(format!("NCCL: a sum is not done after {} s; another GPU may be lost", LONGEST_SUM.as_secs())));
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Communicator {
    /// Ends this GPU's part alone: nothing is under way any more, or never ends by itself.
    fn drop(&mut self) {
        if self.gpu.context().bind_to_thread().is_ok() {
            // SAFETY: the communicator is there, and nobody has it any more.
            unsafe { (self.nccl.abort)(self.handle) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a shard tells comes back, and bytes that are none are an error.
    #[test]
    fn told_and_understood() {
        let own = Told { has_library: true, is_without_multicast: false, gpu: [7; 16], id: UniqueId([9; 128]) };
        let back = Told::of(&own.bytes()).unwrap();
        assert!((back.has_library, back.is_without_multicast, back.gpu, back.id.0) == (true, false, [7; 16], [9; 128]));
        for bytes in [&[][..], &[0; 145], &[0; 147]] {
            assert!(Told::of(bytes).is_err_and(|e| e.to_string().contains("another process")));
        }
    }
}
