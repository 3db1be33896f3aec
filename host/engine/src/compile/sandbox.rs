//! Takes from a process whatever a compiler does not need: files, network, other processes.
//!
//! Two layers, since not every kernel has both: landlock denies every path, every TCP port and signals to others; seccomp
//! allows only the system calls by which threads compute in memory and write to descriptors that are already open.

use std::collections::BTreeMap;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetStatus, Scope,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

/// The system calls of a compilation, beside those that only some architectures have. Any other fails with EPERM.
const ALLOWED: &[libc::c_long] = &[
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // Threads.
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_membarrier,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_restart_syscall,
    // Signals of the process to itself, on a fault.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    // Clocks and random numbers.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_nanosleep,
    // Open descriptors.
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Restricts this thread and the threads that it starts from now on. Returns what could not be enforced, for people.
pub(super) fn enter() -> Vec<String> {
    let landlock = deny_paths().map_err(|e| format!("landlock: {e}"));
    let seccomp = deny_calls().map_err(|e| format!("seccomp: {e}"));
    [landlock, seccomp].into_iter().filter_map(Result::err).collect()
}

fn deny_paths() -> Result<(), String> {
    let rules = || {
        // The newest version that the kernel and this crate both know; a part that the kernel lacks is left out.
        Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(ABI::V6))?
            .handle_access(AccessNet::from_all(ABI::V6))?
            .scope(Scope::from_all(ABI::V6))?
            .create()?
            .restrict_self()
    };
    match rules().map_err(|e| e.to_string())?.ruleset {
        RulesetStatus::NotEnforced => Err("not in this kernel".to_owned()),
        RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced => Ok(()),
    }
}

fn deny_calls() -> Result<(), String> {
    let arch: TargetArch = std::env::consts::ARCH.try_into().map_err(|e| format!("{e}"))?;
    let rules: BTreeMap<i64, Vec<_>> = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    let eperm = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules, eperm, SeccompAction::Allow, arch).map_err(|e| e.to_string())?;
    let program: BpfProgram = filter.try_into().map_err(|e: seccompiler::BackendError| e.to_string())?;
    seccompiler::apply_filter(&program).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{ErrorKind, Read as _};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixStream;
    use std::process::Command;
    use std::thread;

    use super::*;

    /// Runs a test in a thread of its own: a sandbox has no way out.
    fn inside(enter: fn() -> Result<(), String>, test: impl FnOnce() + Send) {
        thread::scope(|scope| {
            let run = || match enter() {
                Ok(()) => test(),
                Err(missing) => eprintln!("not tested here: {missing}"),
            };
            scope.spawn(run).join().expect("the test in the sandbox");
        });
    }

    #[test]
    fn seccomp_denies_files_sockets_and_processes_and_computing_goes_on() {
        let me = std::env::current_exe().unwrap();
        let mut open = File::open(&me).unwrap();
        inside(deny_calls, move || {
            let denied = |error: std::io::Error| {
                assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
            };
            denied(File::open(&me).unwrap_err());
            denied(File::create("/tmp/pilothouse-sandbox").unwrap_err());
            denied(std::fs::remove_file(&me).unwrap_err());
            denied(TcpStream::connect("127.0.0.1:1").unwrap_err());
            denied(TcpListener::bind("127.0.0.1:0").unwrap_err());
            denied(UdpSocket::bind("127.0.0.1:0").unwrap_err());
            denied(UnixStream::connect("/run/x").unwrap_err());
            denied(Command::new(&me).arg("--list").spawn().map(drop).unwrap_err());
            // An open descriptor, memory and threads stay usable.
            let mut head = [0; 4];
            open.read_exact(&mut head).unwrap();
            assert_eq!(&head, b"\x7fELF");
            let sum: u64 =
                thread::spawn(|| (0..1_000_000_u64).collect::<Vec<_>>().iter().sum()).join().unwrap();
            assert_eq!(sum, 499_999_500_000);
        });
    }

    #[test]
    fn landlock_denies_files_and_ports() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        inside(deny_paths, move || {
            let denied = |error: std::io::Error| {
                assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
            };
            denied(File::open("/etc/passwd").unwrap_err());
            denied(File::create("/tmp/pilothouse-sandbox").unwrap_err());
            denied(TcpStream::connect(address).unwrap_err());
        });
    }
}
