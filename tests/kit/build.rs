//! Reports tools that are missing before the first test runs: every end-to-end test depends on this crate.
//!
//! It runs again when the PATH or a folder on it changes, and not otherwise: a run of it makes Cargo build all tests anew.

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
            // The kube-apiserver that Go builds brings a kubectl.
            Err(_) if tool == Tool::Kubectl && Tool::Go.require_on(&path).is_ok() => {}
            Err(error) => missing.push(error),
            // One that is taken away, or replaced by an older one.
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
    // One that is installed. A file that does not exist would make each build run this again, so its folder is watched.
    for folder in env::split_paths(&path).filter(|folder| folder.is_dir()) {
        println!("cargo:rerun-if-changed={}", folder.display());
    }
    for error in missing {
        println!("cargo:warning={error}. Skipped without it: {}", error.tool.skipped());
    }
    println!("cargo:warning=PILOTHOUSE_REQUIRE_ALL=1 makes a skipped test fail");
}
