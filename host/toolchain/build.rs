//! Warns during the build of the host when components cannot be built later: the compiler lacks the target, and rustup
//! is not installed to add it.

use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "wasm32-wasip2";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=PATH");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    if let Some(rustup) = on_the_path("rustup") {
        println!("cargo:rerun-if-changed={}", rustup.display());
        return;
    }
    let answer = Command::new(rustc).args(["--print", "target-libdir", "--target", TARGET]).output();
    let libraries = answer.map(|answer| String::from_utf8_lossy(&answer.stdout).trim().to_owned());
    let libraries = libraries.unwrap_or_default();
    if Path::new(&libraries).is_dir() {
        println!("cargo:rerun-if-changed={libraries}");
        return;
    }
    // The folder of the toolchain's libraries changes when a target is added.
    if let Some(there) = Path::new(&libraries).ancestors().find(|folder| folder.is_dir()) {
        println!("cargo:rerun-if-changed={}", there.display());
    }
    println!(
        "cargo:warning=components cannot be built on this machine: the Rust compiler has no standard library for {TARGET} and \
         rustup, which would add it, is not on the PATH. Install Rust with rustup (https://rustup.rs), or {TARGET} by the means \
         that installed this compiler."
    );
}

fn on_the_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}
