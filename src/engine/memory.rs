//! This machine's memory: a check before long work takes more than there is, which on Linux would end the process.

use crate::error::{Error, Result};

/// Bytes as people read them.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

/// Bytes that the process can still have; none where the system does not say. On Linux what is free or can be freed, swap
/// included, as far as the process's control group lets it.
pub fn available() -> Option<u64> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let machine = of_machine(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    Some(of_groups().map_or(machine, |group| group.min(machine)))
}

/// What `/proc/meminfo` says.
fn of_machine(text: &str) -> Option<u64> {
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    Some((field("MemAvailable:")? + field("SwapFree:").unwrap_or(0)) << 10)
}

/// What the control group (version 2) of the process and those above it leave; none where none of them limits it.
fn of_groups() -> Option<u64> {
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mut folder = std::path::Path::new("/sys/fs/cgroup").join(path);
    let mut least = None;
    while folder.starts_with("/sys/fs/cgroup") {
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        if let Some(left) = of_group(&read("memory.max"), &read("memory.current"), &read("memory.stat")) {
            least = Some(least.map_or(left, |least: u64| least.min(left)));
        }
        folder.pop();
    }
    least
}

/// What one control group leaves; cached files give way.
fn of_group(most: &str, current: &str, stat: &str) -> Option<u64> {
    let (most, current): (u64, u64) = (most.trim().parse().ok()?, current.trim().parse().ok()?);
    let files: u64 = stat.lines().find_map(|line| line.strip_prefix("file "))?.trim().parse().ok()?;
    Some(most.saturating_sub(current.saturating_sub(files)))
}

/// So little is not worth asking the system about.
const LITTLE: u64 = 256 << 20;

/// An error where the machine has not `bytes` left for `what`; to be called with what is needed at the least, before the first of
/// it is allocated. `hint`: what would need less.
///
/// # Errors
/// [`Error::Memory`] with both figures.
pub fn check(what: &str, bytes: u64, hint: &str) -> Result<()> {
    if bytes < LITTLE {
        return Ok(());
    }
    match available() {
        Some(free) if bytes > free => {
            Err(Error::Memory(format!("{what} needs at least {}, and the machine has {} free; {hint}", size(bytes), size(free))))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that the system's files are read as they are written, and that what is not there limits nothing.
    #[test]
    fn files_of_the_system_are_understood() {
        let text = "MemTotal:       24000000 kB\nMemFree:  100 kB\nMemAvailable:   1000 kB\nSwapFree:          24 kB\n";
        assert_eq!(of_machine(text), Some(1 << 20));
        assert_eq!(of_machine("MemTotal: 5 kB"), None);
        assert_eq!(of_group("max\n", "5\n", "file 3\n"), None);
        assert_eq!(of_group("100\n", "50\n", "anon 1\nfile 20\n"), Some(70));
        assert_eq!(of_group("100\n", "150\n", "file 20\n"), Some(0));
        assert_eq!(of_group("", "", ""), None);
        if cfg!(target_os = "linux") {
            assert!(available().is_none_or(|bytes| bytes > 1 << 20));
        }
    }

    #[test]
    fn what_is_too_much_is_an_error_with_both_figures() {
        assert!(check("a test", 1, "no").is_ok());
        if available().is_some() {
            let e = check("a test", 1 << 60, "ask for less").expect_err("an exabyte");
            assert!(matches!(e, Error::Memory(_)) && e.to_string().contains("a test needs at least 1152921504.61 GB"), "{e}");
            assert!(e.to_string().contains("free; ask for less"), "{e}");
        }
    }
}
