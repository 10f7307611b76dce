//! What limits the memory of this process: the machine, its control groups, and the limits that a shell sets (`ulimit`).

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// A limit, and how much of it is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// What limits, as in "the machine has 3 GB free".
    pub subject: &'static str,
    /// Whether it counts addresses, touched or not, and not pages that are there.
    pub of_addresses: bool,
    /// Bytes that it allows altogether.
    pub most: u64,
    /// Bytes of those that the process can still have.
    pub left: u64,
}

/// Bytes that the process may hold as far as this engine is concerned; see [`super::limit`].
pub(super) static OWN: AtomicU64 = AtomicU64::new(u64::MAX);

/// Returns all limits that the process is under; none where the system does not say.
pub fn all() -> Vec<MemoryLimit> {
    if !cfg!(target_os = "linux") {
        return vec![];
    }
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let mut limits: Vec<MemoryLimit> = of_machine(&read("/proc/meminfo")).into_iter().collect();
    limits.extend(of_groups(&read("/proc/self/cgroup")));
    limits.extend(of_process());
    limits
}

/// Returns what `/proc/meminfo` says: what is free or can be freed, swap included.
fn of_machine(text: &str) -> Option<MemoryLimit> {
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kb| kb << 10)
    };
    let left = field("MemAvailable:")? + field("SwapFree:").unwrap_or(0);
    let most = field("MemTotal:").unwrap_or(left) + field("SwapTotal:").unwrap_or(0);
    Some(MemoryLimit { subject: "the machine has", of_addresses: false, most, left })
}

/// How a version of control groups names its files.
struct Version {
    /// Where its folders lie.
    root: &'static str,
    most: &'static str,
    used: &'static str,
    /// Of cached files, which give way, in `memory.stat`. Shared memory and tmpfs do not.
    files: [&'static str; 2],
}

const FIRST: Version = Version {
    root: "/sys/fs/cgroup/memory",
    most: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    files: ["total_inactive_file ", "total_active_file "],
};
const SECOND: Version =
    Version { root: "/sys/fs/cgroup", most: "memory.max", used: "memory.current", files: ["inactive_file ", "active_file "] };

/// Returns the path of the process's group among those of `version`, as `/proc/self/cgroup` has it.
fn path_of(text: &str, first: bool) -> Option<&str> {
    text.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let found = if first { controllers.split(',').any(|c| c == "memory") } else { controllers.is_empty() };
        found.then(|| path.trim_start_matches('/'))
    })
}

/// Returns what the control groups of the process, and those above them, leave at the least.
fn of_groups(own: &str) -> Option<MemoryLimit> {
    let mut least: Option<MemoryLimit> = None;
    for (version, first) in [(FIRST, true), (SECOND, false)] {
        let Some(path) = path_of(own, first) else { continue };
        let root = Path::new(version.root);
        // In a container the path may be the host's, and its own group the root.
        let inside = root.join(path);
        let mut folder = if inside.is_dir() { inside } else { root.to_path_buf() };
        while folder.starts_with(root) {
            let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
            let limit = of_group(&read(version.most), || (read(version.used), read("memory.stat")), version.files);
            least = least.into_iter().chain(limit).min_by_key(|l| l.left);
            folder.pop();
        }
    }
    least
}

/// More than this is how version 1 writes that there is no limit.
const UNLIMITED: u64 = 1 << 62;

/// Returns what one control group leaves; `used`: the texts of what it holds, and of `memory.stat`.
fn of_group(most: &str, used: impl FnOnce() -> (String, String), files: [&str; 2]) -> Option<MemoryLimit> {
    let most: u64 = most.trim().parse().ok().filter(|most| *most < UNLIMITED)?;
    let (used, stat) = used();
    let used: u64 = used.trim().parse().ok()?;
    let of = |name: &&str| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    let cached: u64 = files.iter().filter_map(of).sum();
    Some(MemoryLimit {
        subject: "the control group has",
        of_addresses: false,
        most,
        left: most.saturating_sub(used.saturating_sub(cached)),
    })
}

/// Returns whether a limit of the process itself is set, which is asked for without reading a file.
pub fn of_process_is_set() -> bool {
    OWN.load(Ordering::Relaxed) != u64::MAX || rlimits().iter().any(|(_, most)| most.is_some())
}

/// Returns what the process's own limits leave.
fn of_process() -> Vec<MemoryLimit> {
    if !of_process_is_set() {
        return vec![];
    }
    let Some(used) = std::fs::read_to_string("/proc/self/statm").ok().and_then(|text| usage(&text, page_size())) else { return vec![] };
    let [(of_addresses, addresses), (of_data, data)] = rlimits();
    let limit = |subject, of_addresses, most: Option<u64>, used: u64| {
        most.map(|most| MemoryLimit { subject, of_addresses, most, left: most.saturating_sub(used) })
    };
    let own = Some(OWN.load(Ordering::Relaxed)).filter(|most| *most != u64::MAX);
    let found = [
        limit(of_addresses, true, addresses, used.addresses),
        limit(of_data, true, data, used.data),
        limit("the limit of this process has", false, own, used.resident),
    ];
    found.into_iter().flatten().collect()
}

/// Bytes that a process uses.
#[derive(Debug, PartialEq, Eq)]
struct Usage {
    addresses: u64,
    resident: u64,
    data: u64,
}

/// Returns what `/proc/self/statm` says, which counts pages.
fn usage(text: &str, page: u64) -> Option<Usage> {
    let fields: Vec<u64> = text.split_whitespace().map(|n| n.parse().ok()).collect::<Option<_>>()?;
    let bytes = |i: usize| fields.get(i).map(|pages| pages * page);
    Some(Usage { addresses: bytes(0)?, resident: bytes(1)?, data: bytes(5)? })
}

/// Returns bytes of this process that are there; none where the system does not say.
#[must_use]
pub fn resident() -> Option<u64> {
    usage(&std::fs::read_to_string("/proc/self/statm").ok()?, page_size()).map(|used| used.resident)
}

#[cfg(target_os = "linux")]
fn page_size() -> u64 {
    // SAFETY: the call reads a constant of the system.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(not(target_os = "linux"))]
fn page_size() -> u64 {
    4096
}

/// Returns the limits of addresses and of data that a shell may set, each with its subject.
#[cfg(target_os = "linux")]
fn rlimits() -> [(&'static str, Option<u64>); 2] {
    let most = |resource| {
        let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the call writes to the structure that it is given, which outlives it.
        let done = unsafe { libc::getrlimit(resource, &mut limit) } == 0;
        Some(limit.rlim_cur).filter(|most| done && *most != libc::RLIM_INFINITY)
    };
    [
        ("the limit RLIMIT_AS (ulimit -v) leaves", most(libc::RLIMIT_AS)),
        ("the limit RLIMIT_DATA (ulimit -d) leaves", most(libc::RLIMIT_DATA)),
    ]
}

#[cfg(not(target_os = "linux"))]
fn rlimits() -> [(&'static str, Option<u64>); 2] {
    [("", None), ("", None)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves that the machine's file is read as it is written, and that what is not there limits nothing.
    #[test]
    fn the_machine_s_memory_is_what_can_be_had() {
        let text = "MemTotal:       24000 kB\nMemFree:  100 kB\nMemAvailable:   1000 kB\nSwapTotal: 100 kB\nSwapFree:          24 kB\n";
        let limit = of_machine(text).unwrap();
        assert_eq!((limit.left, limit.most, limit.of_addresses), (1 << 20, 24_100 << 10, false));
        assert_eq!(of_machine("MemTotal: 5 kB"), None);
        assert_eq!(of_machine(""), None);
    }

    /// Proves that both versions of control groups are read, that cached files give way and shared memory does not, and that a
    /// group without a limit is none.
    #[test]
    fn control_groups_of_both_versions_are_read() {
        let left = |most: &str, used: &str, stat: &str, version: Version| {
            of_group(most, || (used.into(), stat.into()), version.files).map(|l| (l.most, l.left))
        };
        assert_eq!(left("max\n", "5\n", "inactive_file 3\n", SECOND), None);
        assert_eq!(left("100\n", "50\n", "anon 1\nfile 40\nshmem 20\ninactive_file 15\nactive_file 5\n", SECOND), Some((100, 70)));
        assert_eq!(left("100\n", "150\n", "inactive_file 20\n", SECOND), Some((100, 0)));
        assert_eq!(left("100\n", "40\n", "", SECOND), Some((100, 60)));
        assert_eq!(left("", "", "", SECOND), None);
        assert_eq!(left("9223372036854771712\n", "5\n", "", FIRST), None);
        let stat = "cache 9\ninactive_file 1\nactive_file 1\ntotal_inactive_file 30\ntotal_active_file 10\n";
        assert_eq!(left("1000\n", "500\n", stat, FIRST), Some((1000, 540)));
    }

    /// Proves that the process's group is found for each version, beside other controllers and in a container.
    #[test]
    fn the_process_s_group_is_found() {
        let first = "9:name=systemd:/\n8:pids:/a\n4:cpu,memory:/docker/abc\n0::/\n";
        assert_eq!(path_of(first, true), Some("docker/abc"));
        assert_eq!(path_of(first, false), Some(""));
        assert_eq!(path_of("0::/user.slice/x.scope\n", false), Some("user.slice/x.scope"));
        assert_eq!(path_of("0::/user.slice/x.scope\n", true), None);
        assert_eq!(path_of("", false), None);
        assert_eq!(path_of("3:memorylike:/x\n", true), None);
    }

    /// Proves that what the process uses is counted in pages, and that a shorter line says nothing.
    #[test]
    fn usage_is_counted_in_pages() {
        assert_eq!(usage("10 4 3 1 0 6 0\n", 4096), Some(Usage { addresses: 40_960, resident: 16_384, data: 24_576 }));
        assert_eq!(usage("10 4\n", 4096), None);
        assert_eq!(usage("a b\n", 4096), None);
        if cfg!(target_os = "linux") {
            assert!(resident().is_some_and(|bytes| bytes > 1 << 20));
            assert!(all().iter().any(|limit| limit.most > 1 << 20));
        }
    }
}
