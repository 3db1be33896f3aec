//! Reports missing tools before the first test runs: every end-to-end test depends on this crate.
//!
//! The script runs again only when the PATH or a folder on it changes, because each run makes Cargo rebuild all tests.

use std::env;

use tools::Tool;

#[allow(dead_code, unreachable_pub, reason = "the tests use the rest")]
#[path = "src/tools.rs"]
mod tools;

fn main() {
    let path = env::var_os("PATH").unwrap_or_default();
    println!("cargo:rerun-if-env-changed=PATH");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/tools.rs");
    let mut missing = Vec::new();
    for tool in Tool::ALL {
        match tool.require_on(&path) {
            // The control plane that Go builds contains a kubectl.
            Err(_) if tool == Tool::Kubectl && Tool::Go.require_on(&path).is_ok() => {}
            Err(error) => missing.push(error),
            // Detects a tool that is removed or replaced by an older one.
            Ok(()) => {
                for program in tool.programs() {
                    if let Some(file) = tools::find(program, &path) {
                        println!("cargo:rerun-if-changed={}", file.display());
                    }
                }
            }
        }
    }
    if missing.is_empty() {
        return;
    }
    // Detects a tool that is installed. Cargo reruns the script in every build if a watched file does not exist, so the
    // folders are watched.
    for folder in env::split_paths(&path).filter(|folder| folder.is_dir()) {
        println!("cargo:rerun-if-changed={}", folder.display());
    }
    for error in missing {
        println!("cargo:warning={error}. Skipped without it: {}", error.tool.skipped());
    }
    println!("cargo:warning=PILOTHOUSE_REQUIRE_ALL=1 makes a skipped test fail");
}
