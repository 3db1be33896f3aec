//! How much memory guests may use unless the operator says otherwise.

use std::fs;
use std::path::Path;

/// Bytes of guest memory in use by default: half of what this process may have, by its cgroup or the machine. 1 GiB where
/// neither says so.
pub(crate) fn default_guest_memory() -> u64 {
    let limits = [cgroup_limit(Path::new("/sys/fs/cgroup")), machine_memory(Path::new("/proc/meminfo"))];
    limits.into_iter().flatten().min().unwrap_or(2 << 30) / 2
}

/// The limit of the cgroup at this mount point, of version 2 or 1. In a container the process's own cgroup is mounted there.
fn cgroup_limit(mount: &Path) -> Option<u64> {
    let files = ["memory.max", "memory/memory.limit_in_bytes"];
    let text = files.iter().find_map(|file| fs::read_to_string(mount.join(file)).ok())?;
    // Without a limit: `max`.
    text.trim().parse().ok()
}

fn machine_memory(meminfo: &Path) -> Option<u64> {
    let text = fs::read_to_string(meminfo).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_the_kernel_writes_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert_eq!(cgroup_limit(path), None);
        fs::write(path.join("memory.max"), "max\n").unwrap();
        assert_eq!(cgroup_limit(path), None);
        fs::write(path.join("memory.max"), "536870912\n").unwrap();
        assert_eq!(cgroup_limit(path), Some(512 << 20));
        fs::write(path.join("meminfo"), "MemTotal:       24576000 kB\nMemFree: 1 kB\n").unwrap();
        assert_eq!(machine_memory(&path.join("meminfo")), Some(24_576_000 * 1024));
        assert!(default_guest_memory() > 0);
    }
}
