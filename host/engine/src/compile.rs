//! Compiles components in a separate process with resource limits. Cranelift may need seconds of CPU and hundreds of
//! megabytes for a large guest, and a hostile guest may try to make it use more.
//!
//! The host starts its own binary as the worker process. That process calls [`compile_worker`], which sets its resource
//! limits before it reads the component. One compilation runs at a time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::engine::{self, InstancePool};
use crate::error::LoadError;

/// Where components are compiled.
#[derive(Debug, Clone)]
pub enum Compiler {
    /// In this process, without limits: for tests and benchmarks with trusted guests.
    InProcess,
    /// In a separate process, `program args… INPUT OUTPUT`, which calls [`compile_worker`].
    Worker {
        /// The binary to start.
        program: PathBuf,
        /// The arguments before the two paths.
        args: Vec<String>,
    },
}

/// Address space of the worker in bytes: about six times the measured need of a guest with all of k8s-openapi.
const WORKER_MEMORY: u64 = 4 << 30;
/// CPU time of the worker in seconds. Such a guest takes 4 s in a release build and some minutes in an
/// unoptimised build.
const WORKER_CPU_SECONDS: u64 = 300;
/// Wall-clock limit of the worker.
const WORKER_TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum size of a component in bytes; a larger one is rejected before compilation.
const MAX_COMPONENT: usize = 64 << 20;

/// The main function of the worker process: limits its own address space and CPU time, then compiles the component in
/// the file `input` into the file `output`.
///
/// # Errors
/// When the limits cannot be set, the component cannot be read or compiled, or the output cannot be written.
pub fn compile_worker(input: &Path, output: &Path) -> Result<(), LoadError> {
    let fail = |e: &dyn std::fmt::Display| LoadError::Compile(e.to_string());
    for (resource, limit) in
        [(Resource::As, WORKER_MEMORY), (Resource::Cpu, WORKER_CPU_SECONDS), (Resource::Core, 0)]
    {
        setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) }).map_err(|e| fail(&e))?;
    }
    let bytes = std::fs::read(input).map_err(|e| fail(&e))?;
    let engine = engine::wasmtime_engine(&InstancePool::None).map_err(|e| fail(&e))?;
    let code = precompile(&engine, &bytes)?;
    std::fs::write(output, code).map_err(|e| fail(&e))
}

fn precompile(engine: &wasmtime::Engine, bytes: &[u8]) -> Result<Vec<u8>, LoadError> {
    engine.precompile_component(bytes).map_err(|e| {
        let text = format!("{e:#}");
        // The parser's messages for a truncated file and for inconsistent section sizes contain these words.
        if text.contains("unexpected end") || text.contains("section") {
            LoadError::Damaged(text)
        } else {
            LoadError::Compile(text)
        }
    })
}

/// Rejects bytes that cannot be a component, before a compiler is started.
pub(crate) fn check_header(bytes: &[u8]) -> Result<(), LoadError> {
    let Some(header) = bytes.get(..8) else {
        return Err(match bytes {
            [] => LoadError::Damaged("the file is empty".to_owned()),
            _ if b"\0asm".starts_with(&bytes[..bytes.len().min(4)]) => {
                LoadError::Damaged(format!("only {} bytes", bytes.len()))
            }
            _ => not_wasm(bytes),
        });
    };
    if &header[..4] != b"\0asm" {
        return Err(not_wasm(bytes));
    }
    // Bytes 6..8 are the layer: 0 for core modules, 1 for components.
    if header[6..8] == [0, 0] {
        return Err(LoadError::CoreModule);
    }
    if bytes.len() > MAX_COMPONENT {
        return Err(LoadError::Compile(format!(
            "{} bytes, and at most {MAX_COMPONENT} are compiled",
            bytes.len()
        )));
    }
    Ok(())
}

fn not_wasm(bytes: &[u8]) -> LoadError {
    LoadError::NotWasm(format!("{:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(8)])))
}

impl Compiler {
    /// Compiles `bytes` into the file `output`. The folder of the file must be private to the user of this process.
    pub(crate) async fn compile(
        &self,
        engine: &wasmtime::Engine,
        bytes: &[u8],
        output: &Path,
    ) -> Result<(), LoadError> {
        let fail = |e: std::io::Error| LoadError::Compile(e.to_string());
        match self {
            Self::InProcess => {
                let (engine, bytes, output) = (engine.clone(), bytes.to_vec(), output.to_owned());
                tokio::task::spawn_blocking(move || {
                    let code = precompile(&engine, &bytes)?;
                    std::fs::write(output, code).map_err(|e| LoadError::Compile(e.to_string()))
                })
                .await
                .map_err(|e| LoadError::Compile(e.to_string()))?
            }
            Self::Worker { program, args } => {
                let input = output.with_extension("wasm");
                std::fs::write(&input, bytes).map_err(fail)?;
                let outcome = run_worker(program, args, &input, output).await;
                let _ = std::fs::remove_file(&input);
                outcome
            }
        }
    }
}

async fn run_worker(program: &Path, args: &[String], input: &Path, output: &Path) -> Result<(), LoadError> {
    let child = tokio::process::Command::new(program)
        .args(args)
        .args([input, output])
        .env_clear()
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| LoadError::Compile(format!("cannot start the compiler {}: {e}", program.display())))?;
    let out = tokio::time::timeout(WORKER_TIMEOUT, child.wait_with_output())
        .await
        .map_err(|_| LoadError::Compile(format!("stopped after {WORKER_TIMEOUT:?}")))?
        .map_err(|e| LoadError::Compile(e.to_string()))?;
    if out.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&out.stderr);
    let text = text.trim();
    Err(match text.split_once(WORKER_DAMAGED) {
        Some((_, reason)) => LoadError::Damaged(reason.trim().to_owned()),
        None if text.is_empty() => LoadError::Compile(format!("the compiler ended with {}", out.status)),
        None => LoadError::Compile(text.to_owned()),
    })
}

/// Marks a damaged component in the worker's error output.
const WORKER_DAMAGED: &str = "damaged-component: ";

impl LoadError {
    /// The text that the worker process writes to standard error for this error; the host parses it.
    #[must_use]
    pub fn to_worker_output(&self) -> String {
        match self {
            Self::Damaged(reason) => format!("{WORKER_DAMAGED}{reason}"),
            Self::Compile(reason) => reason.clone(),
            other => other.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(bytes: &[u8]) -> String {
        check_header(bytes).unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_a_component_is_refused_before_compiling() {
        assert!(refused(b"").contains("empty"));
        assert!(refused(b"\0as").contains("incomplete"));
        assert!(refused(b"#!/bin/sh\n").contains("not a WebAssembly file"));
        assert!(refused(b"\0asm\x01\0\0\0").contains("core module"));
        assert!(check_header(b"\0asm\x0d\0\x01\0").is_ok());
    }

    #[test]
    fn errors_pass_through_the_worker_s_output() {
        let damaged = LoadError::Damaged("unexpected end".to_owned()).to_worker_output();
        assert_eq!(damaged.strip_prefix(WORKER_DAMAGED), Some("unexpected end"));
        assert_eq!(LoadError::Compile("too large".to_owned()).to_worker_output(), "too large");
    }
}
