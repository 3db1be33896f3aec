//! [`Threads`]: the threads of a host, and [`on_runtimes`], which starts them.
//!
//! ```text
//!   io      watches, lists, decoding, connections to the API server: steps of about a millisecond
//!   lease   the renewal of the Lease, with connections of its own; only with leader election
//!   guests  calls of plugins, and what the host does for them while they wait
//!   work    loads, index builds, writes of plugins and their HTTP, pages of metrics
//!   admin   the admin listener
//! ```
//!
//! Nothing whose size a plugin chooses runs on `io` or `lease`: a plugin delays neither a watch nor a renewal. Decision
//! record 23 has the reasons and the cost of the threads.

use std::num::NonZeroUsize;

use anyhow::Result;
use pilothouse_executor::Executor;
use tokio::runtime::{Builder, Handle, Runtime};

/// The threads of a host. Its own runtime is `io`.
#[derive(Clone)]
pub struct Threads {
    /// Calls of plugins.
    pub guests: Executor,
    /// Work for plugins.
    pub work: Handle,
    /// The admin address.
    pub admin: Handle,
    /// None without leader election.
    pub lease: Option<Handle>,
}

/// Runs `host` on the runtime `io`, and hands it the other threads. Tasks that still run when it ends are dropped: they were
/// given their time.
pub fn on_runtimes<T, W: Future<Output = Result<T>>>(
    elects: bool,
    host: impl FnOnce(Threads) -> W,
) -> Result<T> {
    let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    // Timers and connections of guest tasks.
    let timers = runtime("guest-timers", 1)?;
    let (guests, guest_threads) = Executor::start("guest", cores, timers.handle())?;
    let work = runtime("work", work_threads(cores.get()))?;
    let admin = runtime("admin", 1)?;
    let lease = elects.then(|| runtime("lease", 1)).transpose()?;
    let io = runtime("io", io_threads(cores.get()))?;
    let threads = Threads {
        guests,
        work: work.handle().clone(),
        admin: admin.handle().clone(),
        lease: lease.as_ref().map(|lease| lease.handle().clone()),
    };
    let outcome = io.block_on(host(threads));
    drop(guest_threads);
    for runtime in [timers, work, admin, io].into_iter().chain(lease) {
        runtime.shutdown_background();
    }
    outcome
}

fn runtime(name: &str, threads: usize) -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(threads).thread_name(name).enable_all().build()
}

/// An event passes from task to task, and each thread that might take one is woken for it: with two threads an event costs a
/// fifth more than with one, which keeps up with 20,000 events of 9 KB a second.
fn io_threads(cores: usize) -> usize {
    (cores / 4).clamp(1, 4)
}

/// Steps that take long hand their thread over to other tasks, so one is enough on a small machine.
fn work_threads(cores: usize) -> usize {
    (cores / 2).clamp(1, 4)
}
