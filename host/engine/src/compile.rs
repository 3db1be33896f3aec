//! Compiles components in a separate process with resource limits and without access to anything. Cranelift may need
//! seconds of CPU and hundreds of megabytes for a large guest, and a hostile guest may try to make it use more, or to
//! exploit an error in it.
//!
//! The host starts its own binary as the worker process, with the component on standard input and the open output file as
//! standard output. That process calls [`compile_worker`], which reads the component, takes all further access from
//! itself (`sandbox.rs`) and compiles. `lanes.rs` says how many compilations run.

pub(crate) mod lanes;
mod sandbox;

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use bytes::Bytes;
use pilothouse_plugin::printable;
use rustix::process::{Resource, Rlimit, setrlimit};
use tokio::io::AsyncWriteExt as _;

use crate::engine::{self, InstancePool};
use crate::error::LoadError;

/// Where components are compiled.
#[derive(Debug, Clone)]
pub enum Compiler {
    /// In this process, without limits: for tests and benchmarks with trusted guests.
    InProcess,
    /// In a separate process, `program args…`, which calls [`compile_worker`].
    Worker {
        /// The binary to start.
        program: PathBuf,
        /// Its arguments.
        args: Vec<String>,
    },
}

/// Address space of the worker in bytes: about six times the measured need of a guest with all of k8s-openapi.
const WORKER_MEMORY: u64 = 4 << 30;
/// CPU time of the worker in seconds. Such a guest takes 4 s in a release build and some minutes in an
/// unoptimised build.
const WORKER_CPU_SECONDS: u64 = 300;
/// Wall-clock limit of one compilation.
pub(crate) const WORKER_TIMEOUT: Duration = Duration::from_secs(300);
/// How often the worker looks whether the host is still there.
const PARENT_POLL: Duration = Duration::from_secs(1);
/// Size of the machine code in bytes: twice what the largest component needs at the usual four bytes a byte.
const WORKER_OUTPUT: u64 = 512 << 20;
/// A low priority: watches and guests go before. Not the lowest: on a machine whose cores are all busy that is 1.5 % of one,
/// and a component would not be compiled before [`WORKER_TIMEOUT`]; this is 10 %.
const WORKER_NICE: i32 = 10;
/// Maximum size of a component in bytes; a larger one is rejected before compilation.
const MAX_COMPONENT: usize = 64 << 20;

/// Exit code of the worker when the compiler refused the component; every other failure is one of the host.
const REFUSED: u8 = 3;
/// Marks a line of the worker that is not about the component: parts of the sandbox that this kernel does not have.
const NOTE: &str = "note: ";
/// Bytes of the worker's error output that are read.
const MAX_WORKER_ERROR: u64 = 64 << 10;

/// The main function of the worker process: limits its own resources, reads a component from standard input, takes all
/// further access from itself, and writes the machine code to standard output. Reasons go to standard error.
#[must_use]
pub fn compile_worker() -> ExitCode {
    let (code, text) = match compile_stdin() {
        Ok(notes) => (ExitCode::SUCCESS, notes),
        Err(LoadError::Compile(reason)) => (ExitCode::from(REFUSED), reason),
        Err(error) => (ExitCode::FAILURE, error.to_string()),
    };
    let _ = io::stderr().write_all(text.as_bytes());
    code
}

/// Returns notes for the host.
fn compile_stdin() -> Result<String, LoadError> {
    let fail = |e: &dyn std::fmt::Display| LoadError::Stopped(e.to_string());
    for (resource, limit) in [
        (Resource::As, WORKER_MEMORY),
        (Resource::Cpu, WORKER_CPU_SECONDS),
        (Resource::Fsize, WORKER_OUTPUT),
        (Resource::Core, 0),
    ] {
        setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) }).map_err(|e| fail(&e))?;
    }
    rustix::process::nice(WORKER_NICE).map_err(|e| fail(&e))?;
    let host = rustix::process::getppid();
    let mut bytes = Vec::new();
    io::stdin().take(MAX_COMPONENT as u64).read_to_end(&mut bytes).map_err(|e| fail(&e))?;
    let mut output = File::from(io::stdout().as_fd().try_clone_to_owned().map_err(|e| fail(&e))?);
    let notes: String = sandbox::enter().into_iter().map(|missing| format!("{NOTE}{missing}\n")).collect();
    end_with(host).map_err(|e| fail(&e))?;
    let engine = engine::wasmtime_engine(&InstancePool::None).map_err(|e| fail(&e))?;
    let code = precompile(&engine, &bytes)?;
    output.write_all(&code).map_err(|e| fail(&e))?;
    Ok(notes)
}

/// From now on this process ends soon after its parent, which may have been killed: nobody waits for the code any more. A signal
/// of the kernel would follow the thread that started the process, which may end before the host.
fn end_with(parent: Option<rustix::process::Pid>) -> io::Result<()> {
    let watch = move || {
        while rustix::process::getppid() == parent {
            std::thread::sleep(PARENT_POLL);
        }
        std::process::exit(1);
    };
    std::thread::Builder::new().spawn(watch).map(drop)
}

fn precompile(engine: &wasmtime::Engine, bytes: &[u8]) -> Result<Vec<u8>, LoadError> {
    engine.precompile_component(bytes).map_err(|e| LoadError::Compile(printable(&format!("{e:#}"))))
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
    check_sections(&bytes[8..])
}

/// Checks that the sections end where the file ends: each is one byte, its size in LEB128, and its content.
fn check_sections(mut rest: &[u8]) -> Result<(), LoadError> {
    let whole = rest.len() + 8;
    while let [_, after @ ..] = rest {
        let mut size = 0_u64;
        // A size has 32 bits: at most five bytes.
        let length = after.iter().take(5).position(|byte| byte & 0x80 == 0);
        let fields = length.map_or(after, |last| &after[..=last]);
        for (n, byte) in fields.iter().enumerate().take(5) {
            size |= u64::from(byte & 0x7f) << (7 * n);
        }
        let content = &after[fields.len().min(after.len())..];
        let end = usize::try_from(size).ok().filter(|size| length.is_some() && *size <= content.len());
        let Some(end) = end else {
            return Err(LoadError::Damaged(format!(
                "it has {whole} bytes, and a section at byte {} goes on after the end",
                whole - rest.len()
            )));
        };
        rest = &content[end..];
    }
    Ok(())
}

fn not_wasm(bytes: &[u8]) -> LoadError {
    LoadError::NotWasm(format!("{:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(8)])))
}

impl Compiler {
    /// Compiles `bytes` into the open file `output`. Dropping the future ends the worker process.
    pub(crate) async fn compile(
        &self,
        engine: &wasmtime::Engine,
        bytes: &Bytes,
        mut output: File,
    ) -> Result<(), LoadError> {
        match self {
            Self::InProcess => {
                let (engine, bytes) = (engine.clone(), bytes.clone());
                let compiled = tokio::task::spawn_blocking(move || {
                    let code = precompile(&engine, &bytes)?;
                    output.write_all(&code).map_err(|e| LoadError::Stopped(e.to_string()))
                });
                compiled.await.map_err(|e| LoadError::Stopped(e.to_string()))?
            }
            Self::Worker { program, args } => run_worker(program, args, bytes, output).await,
        }
    }
}

async fn run_worker(program: &Path, args: &[String], input: &Bytes, output: File) -> Result<(), LoadError> {
    let stopped = |e: io::Error| LoadError::Stopped(e.to_string());
    let mut child = tokio::process::Command::new(program)
        .args(args)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(output)
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| LoadError::Stopped(format!("cannot start the compiler {}: {e}", program.display())))?;
    let (mut stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let feed = async {
        // A worker that ends early closes its end; its status says why.
        if let Some(stdin) = &mut stdin {
            let _ = stdin.write_all(input).await;
        }
        drop(stdin.take());
    };
    let listen = async {
        let mut text = Vec::new();
        if let Some(stderr) = stderr {
            use tokio::io::AsyncReadExt as _;
            let _ = stderr.take(MAX_WORKER_ERROR).read_to_end(&mut text).await;
        }
        String::from_utf8_lossy(&text).into_owned()
    };
    let ((), text, status) = tokio::join!(feed, listen, child.wait());
    outcome(status.map_err(stopped)?, text.trim())
}

/// What the end of a worker means.
fn outcome(status: ExitStatus, text: &str) -> Result<(), LoadError> {
    if status.success() {
        for note in text.lines().filter_map(|line| line.strip_prefix(NOTE)) {
            tracing::warn!(
                event = "compile_sandbox_incomplete",
                "the compiler of components ran with less protection: {note}"
            );
        }
        return Ok(());
    }
    let text = printable(text);
    Err(match (status.code(), text.is_empty()) {
        (Some(code), _) if code == i32::from(REFUSED) => LoadError::Compile(text),
        (_, true) => LoadError::Stopped(format!(
            "the compiler ended with {status}; it has {WORKER_CPU_SECONDS} s of CPU time, {} MiB of memory and {} MiB of output",
            WORKER_MEMORY >> 20,
            WORKER_OUTPUT >> 20
        )),
        (_, false) => LoadError::Stopped(format!("the compiler ended with {status}: {text}")),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use proptest::prelude::*;

    use super::*;

    fn refused(bytes: &[u8]) -> String {
        check_header(bytes).unwrap_err().to_string()
    }

    /// A component with sections of these sizes.
    fn component(sizes: &[usize]) -> Vec<u8> {
        let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
        for &size in sizes {
            bytes.push(0);
            let mut left = size;
            while left >= 0x80 {
                bytes.push(u8::try_from(left & 0x7f).unwrap() | 0x80);
                left >>= 7;
            }
            bytes.push(u8::try_from(left).unwrap());
            bytes.resize(bytes.len() + size, 0xff);
        }
        bytes
    }

    #[test]
    fn what_cannot_be_a_component_is_refused_before_compiling() {
        assert!(refused(b"").contains("empty"));
        assert!(refused(b"\0as").contains("incomplete"));
        assert!(refused(b"#!/bin/sh\n").contains("not a WebAssembly file"));
        assert!(refused(b"\0asm\x01\0\0\0").contains("core module"));
        assert!(check_header(b"\0asm\x0d\0\x01\0").is_ok());
        assert!(refused(b"\0asm\x0d\0\x01\0\0\xff\xff\xff\xff\xff\x01").contains("goes on after the end"));
    }

    proptest! {
        #[test]
        fn a_file_that_ends_within_a_section_is_incomplete_and_a_whole_one_is_not(
            sizes in proptest::collection::vec(0..40_000_usize, 1..5), cut in any::<proptest::sample::Index>(),
        ) {
            let whole = component(&sizes);
            prop_assert!(check_header(&whole).is_ok());
            let ends: Vec<usize> = (0..=sizes.len()).map(|n| component(&sizes[..n]).len()).collect();
            let cut = 8 + cut.index(whole.len() - 8);
            let damaged = matches!(check_header(&whole[..cut]), Err(LoadError::Damaged(_)));
            prop_assert_eq!(damaged, !ends.contains(&cut), "cut at {}", cut);
        }
    }

    #[test]
    fn a_worker_that_refuses_is_told_from_one_that_was_stopped() {
        let exit = |code: i32| ExitStatus::from_raw(code << 8);
        assert!(outcome(exit(0), "note: no landlock").is_ok());
        let error = outcome(exit(i32::from(REFUSED)), "invalid\u{1b} name").unwrap_err();
        assert!(error.is_refusal());
        assert_eq!(error.to_string(), "compilation failed: invalid\\u{1b} name");
        for (status, text) in [(exit(1), "no memory"), (ExitStatus::from_raw(9), ""), (exit(101), "")] {
            let error = outcome(status, text).unwrap_err();
            assert!(!error.is_refusal(), "{error}");
            assert!(
                error.to_string().contains(text) && error.to_string().contains(&status.to_string()),
                "{error}"
            );
        }
    }
}
