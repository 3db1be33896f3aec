//! Counting the instructions of scenarios with valgrind.
//!
//! Invariant: nothing but the number of operations differs between the two runs whose difference is taken. Called by
//! `main`.

use std::collections::BTreeMap;
use std::env;
use std::io;
use std::num::NonZero;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use parking_lot::Mutex;

use crate::RUN;
use crate::scenarios::{SCENARIOS, Scenario};

/// What one operation of a scenario takes.
#[derive(Clone, Copy)]
pub(crate) struct Count {
    /// Instructions an operation, the lower of two counts.
    pub(crate) instructions: f64,
    /// By how many per cent the other count was higher.
    pub(crate) jitter: f64,
}

/// Whether there is a valgrind.
pub(crate) fn is_possible() -> bool {
    Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// The counts of all scenarios, in their order; as many at once as there are cores.
pub(crate) fn all() -> io::Result<Vec<Count>> {
    let program = env::current_exe()?;
    let (next, counts) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(scenario) = SCENARIOS.get(number) else { return Ok(()) };
            let count = count(&program, scenario)?;
            counts.lock().insert(number, count);
        }
    };
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("errors are returned"))
    })
    .map(|()| counts.into_inner().into_values().collect())
}

fn count(program: &Path, scenario: &Scenario) -> io::Result<Count> {
    let difference = || {
        let once = instructions(program, scenario, scenario.operations)?;
        let twice = instructions(program, scenario, 2 * scenario.operations)?;
        io::Result::Ok((twice - once) / scenario.operations as f64)
    };
    let (one, other) = (difference()?, difference()?);
    let instructions = one.min(other);
    Ok(Count { instructions, jitter: (one.max(other) / instructions - 1.0) * 100.0 })
}

/// All instructions of a run of the program that does so many operations.
fn instructions(program: &Path, scenario: &Scenario, operations: usize) -> io::Result<f64> {
    // Without its simulated caches cachegrind is the quickest of valgrind's tools that count: 1 s for 400 million,
    // where callgrind takes 3 s and lackey 24 s.
    let output = Command::new("valgrind")
        .args(["--command-line-only=yes", "--tool=cachegrind", "--cache-sim=no"])
        .arg("--cachegrind-out-file=/dev/null")
        .arg(program)
        .args([RUN, scenario.name, &operations.to_string()])
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let total = output.status.success().then(|| total(&said)).flatten();
    total.ok_or_else(|| io::Error::other(format!("{}: {}\n{said}", scenario.name, output.status)))
}

/// The total of cachegrind's summary, `==PID== I refs: 1,234,567` (with more blanks in older versions).
fn total(said: &str) -> Option<f64> {
    said.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_total = words.next() == Some("I") && words.next() == Some("refs:");
        is_total.then(|| words.next()?.replace(',', "").parse().ok()).flatten()
    })
}
