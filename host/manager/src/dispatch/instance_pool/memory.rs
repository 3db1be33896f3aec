//! How much memory guests may use unless the operator says otherwise.

use std::fs;
use std::path::{Component, Path};

/// Bytes of guest memory in use by default: half of what this process may have, by its cgroups or the machine. 1 GiB where
/// neither says so.
pub(crate) fn default_guest_memory() -> u64 {
    let cgroups = cgroup_limit(Path::new("/proc/self/cgroup"), Path::new("/sys/fs/cgroup"));
    let limits = [cgroups, machine_memory(Path::new("/proc/meminfo"))];
    limits.into_iter().flatten().min().unwrap_or(2 << 30) / 2
}

/// The least limit of the cgroup of a process and of those above it, of version 2 or 1. `of_process` says which it is in, and
/// `mount` is where cgroups are mounted.
///
/// A container may have its own cgroup mounted in place of the root. Then the path is not there, or is `/`, and the limit
/// is found at the root.
fn cgroup_limit(of_process: &Path, mount: &Path) -> Option<u64> {
    let text = fs::read_to_string(of_process).unwrap_or_default();
    let mut limits = Vec::new();
    // `ID:CONTROLLERS:PATH`; version 2 has no controllers.
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        if controllers.is_empty() {
            limits.extend(limits_above(mount, path, "memory.max"));
        } else if controllers.split(',').any(|controller| controller == "memory") {
            limits.extend(limits_above(&mount.join("memory"), path, "memory.limit_in_bytes"));
        }
    }
    limits.into_iter().min()
}

/// The limits in the files of this name from the root of a hierarchy down to a path.
fn limits_above(root: &Path, path: &str, file: &str) -> Vec<u64> {
    let mut folder = root.to_owned();
    let mut folders = vec![folder.clone()];
    for part in Path::new(path).components() {
        // A process may be outside of the part that is mounted here: `/../other`.
        if let Component::Normal(name) = part {
            folder.push(name);
            folders.push(folder.clone());
        }
    }
    let read = |folder: &std::path::PathBuf| {
        // Without a limit: `max`, or a number beyond all memory.
        fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
    };
    folders.iter().filter_map(read).collect()
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

    const MIB: u64 = 1 << 20;

    /// The limit of a process in `cgroup`, where these files are.
    fn limit(cgroup: &str, files: &[(&str, &str)]) -> Option<u64> {
        let folder = tempfile::tempdir().unwrap();
        let mount = folder.path().join("cgroup");
        for (path, content) in files {
            let path = mount.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{content}\n")).unwrap();
        }
        let of_process = folder.path().join("self");
        fs::write(&of_process, cgroup).unwrap();
        cgroup_limit(&of_process, &mount)
    }

    #[test]
    fn the_least_limit_of_the_own_cgroup_and_those_above_it_counts() {
        let slice = "0::/system.slice/pilothouse.service\n";
        let (own, above) = ("system.slice/pilothouse.service/memory.max", "system.slice/memory.max");
        assert_eq!(limit(slice, &[]), None);
        assert_eq!(limit(slice, &[(own, "max"), (above, "max")]), None);
        assert_eq!(limit(slice, &[(own, "536870912"), (above, "max")]), Some(512 * MIB));
        assert_eq!(limit(slice, &[(own, "max"), (above, "268435456")]), Some(256 * MIB));
        assert_eq!(limit(slice, &[(own, "536870912"), (above, "268435456")]), Some(256 * MIB));
        assert_eq!(limit(slice, &[("other/memory.max", "1")]), None, "of another process");
    }

    #[test]
    fn in_a_container_the_limit_is_at_the_root_of_the_mount() {
        let files = [("memory.max", "1048576")];
        for cgroup in ["0::/\n", "0::/../elsewhere\n", "0::/kubepods/pod1/abc\n"] {
            assert_eq!(limit(cgroup, &files), Some(MIB), "{cgroup}");
        }
    }

    #[test]
    fn version_1_is_read_by_its_memory_controller() {
        let cgroup = "12:cpu,cpuacct:/docker/a\n5:hugetlb,memory:/docker/a\n1:name=systemd:/docker/a\n";
        let (own, root) = ("memory/docker/a/memory.limit_in_bytes", "memory/memory.limit_in_bytes");
        let unlimited = "9223372036854771712";
        assert_eq!(limit(cgroup, &[(own, "2097152"), (root, unlimited)]), Some(2 * MIB));
        // The own cgroup is mounted in place of the root.
        assert_eq!(limit(cgroup, &[(root, "1048576")]), Some(MIB));
        assert_eq!(limit("3:cpu:/a\n", &[("memory/a/memory.limit_in_bytes", "1")]), None);
    }

    #[test]
    fn the_memory_of_the_machine_is_read_as_the_kernel_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let meminfo = folder.path().join("meminfo");
        fs::write(&meminfo, "MemTotal:       24576000 kB\nMemFree: 1 kB\n").unwrap();
        assert_eq!(machine_memory(&meminfo), Some(24_576_000 * 1024));
        assert!(default_guest_memory() > 0);
    }
}
