//! Arrays in files of a folder, mapped: the system writes them out where memory is short, and reads them again. Large ones in memory are mapped too:
//! an allocator keeps what is freed for a while, of which a fit that fills the memory has need at once.
//!
//! Each array is a file of its own, whose name is taken away as soon as it is open: it goes with the process, however that ends. Its place
//! on the disk is taken before anything is written to it, so that a full disk is an error here and no signal later.

use crate::error::{Error, Result};
use crate::pages::{self, Zero};
use std::fs::File;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

/// A folder for arrays that need not stay in memory.
#[derive(Clone, Debug)]
pub struct SpillFolder {
    path: PathBuf,
}

fn fault(text: String) -> Error {
    Error::parameter("spill", text)
}

impl SpillFolder {
    /// Makes arrays in `path`, a folder that is there.
    ///
    /// # Errors
    /// [`Error::Parameter`] where it is none, or no file can be made in it.
    ///
    /// ```
    /// use taiga_core::spill::{Array, SpillFolder};
    /// let folder = SpillFolder::new(std::env::temp_dir()).unwrap();
    /// let mut array: Array<u32> = Array::zeroed("a test", 1000, Some(&folder)).unwrap();
    /// array[7] = 3;
    /// assert_eq!(array.iter().sum::<u32>(), 3);
    /// assert!(SpillFolder::new("/no/such/folder").is_err());
    /// ```
    pub fn new(path: impl Into<PathBuf>) -> Result<SpillFolder> {
        if cfg!(not(unix)) {
            return Err(fault("files are mapped on Unix alone yet: leave it out".into()));
        }
        let folder = SpillFolder { path: path.into() };
        folder.file().map(|_| folder)
    }

    /// Makes a file without a name.
    fn file(&self) -> Result<File> {
        let mut number = [0u8; 16];
        getrandom::fill(&mut number).map_err(|e| fault(format!("no random name for a file: {e}")))?;
        let path = self.path.join(format!(".taiga-{:032x}", u128::from_ne_bytes(number)));
        let made = File::options().read(true).write(true).create_new(true).open(&path);
        let file = made.map_err(|e| fault(format!("no file can be made in {}: {e}", self.path.display())))?;
        std::fs::remove_file(&path).map_err(|e| fault(format!("{}: {e}", path.display())))?;
        Ok(file)
    }
}

/// Numbers in memory, or in a file that is mapped. It reads and writes as a slice.
pub struct Array<T>(Place<T>);

enum Place<T> {
    Memory(Vec<T>),
    /// A file, or pages of its own in memory.
    #[cfg(unix)]
    Mapped(mapped::Mapped<T>),
}

/// Arrays of so many bytes have pages of their own.
#[cfg(all(unix, not(miri)))]
const LARGE: usize = 64 << 20;

impl<T> Default for Array<T> {
    fn default() -> Self {
        Array(Place::Memory(vec![]))
    }
}

impl<T> From<Vec<T>> for Array<T> {
    fn from(values: Vec<T>) -> Self {
        Array(Place::Memory(values))
    }
}

impl<T: Zero> Array<T> {
    /// Makes an array of `len` zeros in a file of `spill`, or in memory where that is none; `what` it is for.
    ///
    /// # Errors
    /// [`Error::Parameter`] where the disk has no room; [`Error::Memory`].
    pub fn zeroed(what: &str, len: usize, spill: Option<&SpillFolder>) -> Result<Array<T>> {
        match spill {
            Some(spill) if len > 0 => spilled(what, len, spill),
            #[cfg(all(unix, not(miri)))]
            _ if len >= LARGE / size_of::<T>().max(1) => of_own_pages(what, len),
            _ => pages::try_zeroed(what, len).map(Array::from),
        }
    }
}

#[cfg(all(unix, not(miri)))]
fn of_own_pages<T: Zero>(what: &str, len: usize) -> Result<Array<T>> {
    use crate::memory::{check_room, product, refused};
    let bytes = product(&[len as u64, size_of::<T>() as u64]);
    let mapped = mapped::Mapped::in_memory(len, bytes).map_err(|_| refused(what, bytes))?;
    check_room(what, bytes)?;
    Ok(Array(Place::Mapped(mapped)))
}

#[cfg(unix)]
fn spilled<T: Zero>(what: &str, len: usize, spill: &SpillFolder) -> Result<Array<T>> {
    use crate::memory::{product, size};
    let bytes = product(&[len as u64, size_of::<T>() as u64]);
    let full = |e: std::io::Error| fault(format!("{what} need {} in {}: {e}", size(bytes), spill.path.display()));
    mapped::Mapped::new(&spill.file()?, len, bytes).map(|mapped| Array(Place::Mapped(mapped))).map_err(full)
}

#[cfg(not(unix))]
fn spilled<T: Zero>(what: &str, len: usize, _: &SpillFolder) -> Result<Array<T>> {
    pages::try_zeroed(what, len).map(Array::from)
}

impl<T> Deref for Array<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Place::Memory(values) => values,
            #[cfg(unix)]
            Place::Mapped(mapped) => mapped,
        }
    }
}

impl<T> DerefMut for Array<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Place::Memory(values) => values,
            #[cfg(unix)]
            Place::Mapped(mapped) => mapped,
        }
    }
}

#[cfg(unix)]
mod mapped {
    use crate::pages::{self, Zero};
    use std::fs::File;
    use std::io;
    use std::ops::{Deref, DerefMut};
    use std::os::fd::AsRawFd;
    use std::ptr::NonNull;

    /// A file that is mapped whole, or pages of no file, as `len` values.
    pub struct Mapped<T> {
        start: NonNull<T>,
        len: usize,
    }

    // SAFETY: it owns its values as a vector does: nobody else has the mapping or the file.
    unsafe impl<T: Send> Send for Mapped<T> {}
    // SAFETY: as above.
    unsafe impl<T: Sync> Sync for Mapped<T> {}

    /// Takes the place of `bytes` zeros on the disk.
    fn take_place(file: &File, bytes: u64) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            let len = libc::off_t::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
            // SAFETY: a call about a file that is open.
            match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, len) } {
                0 => Ok(()),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        }
        #[cfg(not(target_os = "linux"))]
        {
            use std::io::Write;
            let (mut file, zeros, mut left) = (file, vec![0u8; 1 << 20], bytes);
            while left > 0 {
                let n = left.min(zeros.len() as u64) as usize;
                file.write_all(&zeros[..n])?;
                left -= n as u64;
            }
            Ok(())
        }
    }

    impl<T: Zero> Mapped<T> {
        /// Maps an empty file as `len` zeros, which are `bytes` bytes and not none.
        pub fn new(file: &File, len: usize, bytes: u64) -> io::Result<Mapped<T>> {
            take_place(file, bytes)?;
            Mapped::of(len, bytes, libc::MAP_SHARED, file.as_raw_fd())
        }

        /// Maps `len` zeros, which are `bytes` bytes and not none, in memory: they take none until they are written, and go back to the system where
        /// this is dropped.
        pub fn in_memory(len: usize, bytes: u64) -> io::Result<Mapped<T>> {
            let mapped: Mapped<T> = Mapped::of(len, bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
            pages::advise_range(mapped.start.as_ptr().cast(), len * size_of::<T>());
            Ok(mapped)
        }

        fn of(len: usize, bytes: u64, flags: libc::c_int, file: libc::c_int) -> io::Result<Mapped<T>> {
            let size = usize::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: a new mapping, at an address that the system chooses, of no file or of one that is as long.
            let start = unsafe { libc::mmap(std::ptr::null_mut(), size, access, flags, file, 0) };
            if start == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let start = NonNull::new(start.cast::<T>()).ok_or_else(io::Error::last_os_error)?;
            Ok(Mapped { start, len })
        }
    }

    impl<T> Deref for Mapped<T> {
        type Target = [T];

        fn deref(&self) -> &[T] {
            // SAFETY: the mapping is of `len` values, at the beginning of a page, which is aligned for any of them; bytes of zero are
            // one of their values ([`Zero`]), and nobody but this writes to them.
            unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
        }
    }

    impl<T> DerefMut for Mapped<T> {
        fn deref_mut(&mut self) -> &mut [T] {
            // SAFETY: as above, and `self` is borrowed mutably.
            unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
        }
    }

    impl<T> Drop for Mapped<T> {
        fn drop(&mut self) {
            // SAFETY: what was mapped, as a whole; nobody has a reference to it any more.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.len * size_of::<T>()) };
        }
    }
}

#[cfg(all(test, unix, not(miri)))]
mod tests {
    use super::*;

    /// Proves that an array in a file is one of zeros that keeps what is written, and leaves no file behind.
    #[test]
    fn an_array_in_a_file_reads_and_writes() {
        let path = std::env::temp_dir().join(format!("taiga-spill-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let folder = SpillFolder::new(&path).unwrap();
        let mut array: Array<f32> = Array::zeroed("a test", 300_000, Some(&folder)).unwrap();
        assert!(array.len() == 300_000 && array.iter().all(|x| *x == 0.0));
        array.iter_mut().enumerate().for_each(|(i, x)| *x = i as f32);
        assert_eq!((array[299_999], std::fs::read_dir(&path).unwrap().count()), (299_999.0, 0));
        let taken = std::mem::take(&mut array);
        assert_eq!((array.len(), taken[17]), (0, 17.0));
        assert!(Array::<bool>::zeroed("a test", 0, Some(&folder)).unwrap().is_empty());
        drop(taken);
        std::fs::remove_dir(&path).unwrap();
    }

    /// Proves that a large array in memory is one of zeros that keeps what is written, and is there until it is dropped; and that one for which there are no
    /// addresses is an error.
    #[test]
    fn a_large_array_has_pages_of_its_own() {
        for len in [LARGE / 8 - 1, LARGE / 8, LARGE / 8 + 513] {
            let mut array: Array<u64> = Array::zeroed("a test", len, None).unwrap();
            assert_eq!((array.len(), matches!(array.0, Place::Mapped(_))), (len, len >= LARGE / 8));
            assert!(array.iter().all(|x| *x == 0));
            array.iter_mut().zip(1..).for_each(|(x, i)| *x = i);
            let taken = std::mem::take(&mut array);
            assert_eq!((array.len(), taken[len - 1], taken[0]), (0, len as u64, 1));
        }
        for len in [1usize << 46, 1 << 56, usize::MAX] {
            let error = Array::<u64>::zeroed("the rows of a test", len, None).err().expect("more than there are addresses").to_string();
            assert!(error.contains("the rows of a test needs at least "), "{error}");
        }
    }

    /// Proves that what the disk has no room for is an error that says how much it is, and where.
    #[test]
    fn a_full_disk_is_an_error() {
        let folder = SpillFolder::new(std::env::temp_dir()).unwrap();
        for len in [1usize << 50, usize::MAX] {
            let error = Array::<u64>::zeroed("the codes of a test", len, Some(&folder)).err().expect("more than a disk has").to_string();
            assert!(error.starts_with("parameter `spill`: the codes of a test need ") && error.contains(" GB in "), "{error}");
        }
        let none = SpillFolder::new("/no/such/folder").expect_err("no folder").to_string();
        assert!(none.starts_with("parameter `spill`: no file can be made in /no/such/folder: "), "{none}");
    }
}
