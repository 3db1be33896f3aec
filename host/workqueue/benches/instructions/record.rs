//! `recorded.json`: what the operations took when that was last written down, and with what they were built.
//!
//! Called by `main`.

use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::fs;
use std::io;
use std::process::Command;

use serde_json::{Value, json};

const DIRECTORY: &str = env!("CARGO_MANIFEST_DIR");
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions/recorded.json");

/// On what the counts depend, besides our own code.
#[derive(PartialEq, Eq)]
pub(crate) struct Environment {
    /// As `rustc --version` says it.
    rustc: String,
    target: String,
    /// Name and version.
    libc: String,
}

/// The contents of the file.
pub(crate) struct Record {
    pub(crate) environment: Environment,
    /// Instructions an operation, by scenario.
    pub(crate) instructions: BTreeMap<String, f64>,
}

impl Environment {
    /// That of this program. It was built by the compiler of this directory, for the machine it runs on.
    pub(crate) fn here() -> io::Result<Self> {
        let rustc = said(Command::new(env::var_os("RUSTC").unwrap_or("rustc".into())).arg("-vV"))?;
        let target = rustc.lines().find_map(|line| line.strip_prefix("host: "));
        let libc = said(Command::new("getconf").arg("GNU_LIBC_VERSION"));
        Ok(Self {
            rustc: rustc.lines().next().unwrap_or_default().to_owned(),
            target: target.unwrap_or_default().to_owned(),
            libc: libc.map_or_else(|_| "unknown".to_owned(), |libc| libc.trim().to_owned()),
        })
    }
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {} on {}", self.rustc, self.target, self.libc)
    }
}

impl Record {
    /// Reads the file.
    pub(crate) fn read() -> io::Result<Self> {
        let file: Value = serde_json::from_slice(&fs::read(FILE)?)?;
        let text = |name: &str| file[name].as_str().unwrap_or_default().to_owned();
        let instructions = file["instructions"].as_object().into_iter().flatten();
        Ok(Self {
            environment: Environment { rustc: text("rustc"), target: text("target"), libc: text("libc") },
            instructions: instructions
                .filter_map(|(name, count)| Some((name.clone(), count.as_f64()?)))
                .collect(),
        })
    }

    /// Writes the file and tells where it is.
    pub(crate) fn write(&self) -> io::Result<&'static str> {
        let Environment { rustc, target, libc } = &self.environment;
        let file = json!({
            "note": "Instructions an operation. `cargo bench -p pilothouse-workqueue --features valgrind --bench instructions -- --record`",
            "rustc": rustc,
            "target": target,
            "libc": libc,
            "instructions": self.instructions,
        });
        fs::write(FILE, format!("{file:#}\n"))?;
        Ok(FILE)
    }
}

/// What a command prints.
fn said(command: &mut Command) -> io::Result<String> {
    let output = command.current_dir(DIRECTORY).output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("{command:?}: {}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
