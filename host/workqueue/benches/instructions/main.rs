//! How many instructions an operation takes, beside what was recorded:
//! `cargo bench -p pilothouse-workqueue --features valgrind --bench instructions`; with `-- --record` what it counts is recorded.
//!
//! Instructions are counted by valgrind, under which this program runs itself: each scenario with N and with 2N
//! operations, so that start-up falls out of the difference, and all of that twice, so that jitter shows. Unlike time
//! they hardly depend on what else the machine does. A reading of the clock counts for less than it costs: valgrind
//! turns it into a system call, of which it sees only the way there and back.
//!
//! Fails if a scenario takes over [`MARGIN`] more than recorded with the same compiler, target and C library (whose
//! `malloc` and `memcpy` count too); with others the drift is only shown. Fails as well if counting fails, but not
//! for want of valgrind: then it says so and ends well.
#![allow(clippy::print_stdout, reason = "a bench's result")]

mod count;
mod record;
mod scenarios;

use std::env;
use std::io;
use std::process::ExitCode;

use count::Count;
use record::{Environment, Record};
use scenarios::SCENARIOS;

/// By how many per cent a scenario may drift up without failing the run. The jitter, which is mostly that of the hash
/// seed, stays below 1 %.
const MARGIN: f64 = 15.0;

/// Runs a scenario, of which the name and the number of operations follow, and nothing else: for valgrind.
const RUN: &str = "--run";

fn main() -> io::Result<ExitCode> {
    let args: Vec<String> = env::args().skip(1).collect();
    if let [option, name, operations] = &args[..]
        && option == RUN
    {
        let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name);
        (scenario.expect("a scenario").run)(operations.parse().expect("a number"));
        return Ok(ExitCode::SUCCESS);
    }
    if cfg!(debug_assertions) {
        println!("instructions: skipped, they are counted in optimised builds only (cargo bench)");
        return Ok(ExitCode::SUCCESS);
    }
    if !count::is_possible() {
        println!("instructions: SKIPPED, valgrind is not installed");
        return Ok(ExitCode::SUCCESS);
    }
    let counts = count::all()?;
    let environment = Environment::here()?;
    if args.iter().any(|arg| arg == "--record") {
        return record(&counts, environment);
    }
    Ok(compare(&counts, &Record::read()?, &environment))
}

/// Writes the counts down, rounded: more digits would only show the jitter.
fn record(counts: &[Count], environment: Environment) -> io::Result<ExitCode> {
    let rounded = |count: &Count| (count.instructions * 10.0).round() / 10.0;
    let names = SCENARIOS.iter().map(|scenario| scenario.name.to_owned());
    let instructions = names.zip(counts.iter().map(rounded)).collect();
    println!("written to {}", Record { environment, instructions }.write()?);
    Ok(ExitCode::SUCCESS)
}

/// Shows the counts beside those recorded; whether they are within the margin, if they can be compared.
fn compare(counts: &[Count], recorded: &Record, environment: &Environment) -> ExitCode {
    println!(
        "{:<48} {:>15} {:>8} {:>9} {:>8}",
        "scenario", "instructions/op", "jitter %", "recorded", "drift %"
    );
    let mut worst = f64::NEG_INFINITY;
    for (scenario, Count { instructions, jitter }) in SCENARIOS.iter().zip(counts) {
        print!("{:<48} {instructions:>15.1} {jitter:>8.2} ", scenario.name);
        if let Some(recorded) = recorded.instructions.get(scenario.name) {
            let drift = (instructions / recorded - 1.0) * 100.0;
            worst = worst.max(drift);
            println!(
                "{recorded:>9.1} {drift:>+8.1}{}",
                if drift > MARGIN { "  ABOVE THE MARGIN" } else { "" }
            );
        } else {
            println!("{:>9} {:>8}", "none", "");
        }
    }
    let names: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
    for gone in recorded.instructions.keys().filter(|name| !names.contains(&name.as_str())) {
        println!("{gone:<48} is recorded, but no longer there");
    }
    if recorded.environment != *environment {
        println!("only shown: recorded with {}, this is {environment}", recorded.environment);
        return ExitCode::SUCCESS;
    }
    if worst > MARGIN {
        println!(
            "a scenario takes over {MARGIN} % more instructions than recorded; if that is meant: -- --record"
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
