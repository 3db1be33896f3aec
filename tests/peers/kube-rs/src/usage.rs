//! What the client says about itself, and the conversation with the benchmark: as `tests/peers/clientgo/usage.go`.

use std::sync::Mutex;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::bail;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, BufReader};

#[derive(Serialize, Default)]
struct Usage {
    cpu_us: f64,
    wall_us: f64,
    rss_kb: u64,
    pss_kb: u64,
    peak_kb: u64,
    objects: usize,
    events: usize,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
}

/// How late the events since the last reset came, in microseconds.
#[derive(Default)]
pub struct Latencies(Mutex<Vec<f64>>);

impl Latencies {
    /// Notes an event that was sent at a time, as its annotation says.
    pub fn came(&self, sent: &str) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        match sent.parse::<u128>() {
            Ok(at) if at > 0 => {
                self.0.lock().expect("not poisoned").push(now.saturating_sub(at) as f64 / 1e3);
            }
            _ => {}
        }
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.lock().expect("not poisoned").clone();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted
    }
}

/// A line of a file of `/proc/self`, in KiB.
pub fn kilobytes(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or_default()
}

/// Processor time of the process, user and system, in microseconds.
pub fn cpu_us() -> f64 {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    cpu.tv_sec as f64 * 1e6 + cpu.tv_nsec as f64 / 1e3
}

fn usage(begun: Instant, events: &Latencies, objects: usize) -> Usage {
    let cpu_us = cpu_us();
    let wall_us = begun.elapsed().as_secs_f64() * 1e6;
    let peak_kb = kilobytes("status", "VmHWM");
    let (rss_kb, pss_kb) = (kilobytes("smaps_rollup", "Rss"), kilobytes("smaps_rollup", "Pss"));
    let sorted = events.sorted();
    let at = |permille: usize| sorted.get(sorted.len() * permille / 1000).copied().unwrap_or_default();
    Usage {
        cpu_us,
        wall_us,
        rss_kb,
        pss_kb,
        peak_kb,
        objects,
        events: sorted.len(),
        p50_us: at(500),
        p99_us: at(990),
        p999_us: at(999),
    }
}

/// Answers the commands of the benchmark until it says quit.
pub async fn converse(begun: Instant, events: &Latencies, objects: impl Fn() -> usize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(&usage(begun, events, objects()))?);
    let mut commands = BufReader::new(tokio::io::stdin()).lines();
    while let Some(command) = commands.next_line().await? {
        match command.as_str() {
            // The allocator gives memory back by itself.
            "usage" | "trim" => {}
            "reset" => {
                std::fs::write("/proc/self/clear_refs", "5")?;
                events.0.lock().expect("not poisoned").clear();
            }
            "quit" => return Ok(()),
            other => bail!("unknown command {other:?}"),
        }
        println!("{}", serde_json::to_string(&usage(begun, events, objects()))?);
    }
    Ok(())
}
