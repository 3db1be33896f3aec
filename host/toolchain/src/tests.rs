//! Tests with shell scripts as compiler and rustup.

use std::cell::RefCell;
use std::fs;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;

/// A folder with scripts in `bin`, which is the whole PATH, and the folder of a crate.
struct Machine {
    dir: PathBuf,
}

impl Machine {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("toolchain-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("bin")).unwrap();
        fs::create_dir_all(dir.join("crate")).unwrap();
        Self { dir }
    }

    /// Writes a compiler that prints a folder for the target's libraries, whether it exists or not.
    fn with_compiler(self) -> Self {
        let script = format!("echo {}", self.libraries().display());
        self.with("rustc", &script)
    }

    /// Writes a rustup with a toolchain, which runs this script to add a target.
    fn with_rustup(self, add: &str) -> Self {
        let script = format!(
            "echo \"$PWD $*\" >> {log}\ncase $1 in show) echo '1.95.0-test (active because: x)' ;; *) {add} ;; esac",
            log = self.dir.join("rustup.log").display()
        );
        self.with("rustup", &script)
    }

    fn with(self, program: &str, script: &str) -> Self {
        pilothouse_testkit::script::write(&self.dir.join("bin").join(program), script).unwrap();
        self
    }

    fn libraries(&self) -> PathBuf {
        self.dir.join("libraries")
    }

    fn folder(&self) -> PathBuf {
        self.dir.join("crate")
    }

    /// Ensures the target; returns the result and the reported lines.
    fn ensure(&self) -> (Result<(), TargetError>, Vec<String>) {
        let lines = RefCell::new(Vec::new());
        let command = |program: &str| {
            let own = self.dir.join("bin").join(program);
            let mut command = Command::new(if own.exists() { own } else { self.dir.join("absent") });
            command.current_dir(self.folder());
            command
        };
        let folder = self.folder();
        let report = |line: &str| lines.borrow_mut().push(line.to_owned());
        let work = ensure_target(TARGET, &folder, command, async |mut command| command.output(), report);
        let Poll::Ready(result) = pin!(work).poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("it waits for something")
        };
        (result, lines.into_inner())
    }

    fn asked_of_rustup(&self) -> Vec<String> {
        let log = fs::read_to_string(self.dir.join("rustup.log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn a_target_that_is_there_costs_one_question() {
    let machine = Machine::new("there").with_compiler().with_rustup("exit 1");
    fs::create_dir(machine.libraries()).unwrap();
    let (result, lines) = machine.ensure();
    result.unwrap();
    assert_eq!(lines, [""; 0]);
    assert_eq!(machine.asked_of_rustup(), [""; 0]);
}

#[test]
fn a_missing_target_is_added_to_the_toolchain_of_the_folder_and_reported() {
    let machine = Machine::new("added").with_compiler();
    let add = format!("mkdir {}", machine.libraries().display());
    let machine = machine.with_rustup(&add);
    let (result, lines) = machine.ensure();
    result.unwrap();
    assert_eq!(
        lines,
        ["adding the Rust target wasm32-wasip2 to the toolchain 1.95.0-test (rustup target add)"]
    );
    let folder = machine.folder().canonicalize().unwrap();
    assert_eq!(
        machine.asked_of_rustup(),
        [
            format!("{} show active-toolchain", folder.display()),
            format!("{} target add wasm32-wasip2", folder.display())
        ]
    );
}

#[test]
fn without_rustup_the_error_says_what_to_install() {
    let machine = Machine::new("no-rustup").with_compiler();
    let (result, lines) = machine.ensure();
    let error = result.unwrap_err().to_string();
    assert!(
        error.contains("cannot build for wasm32-wasip2; install Rust with rustup (https://rustup.rs)"),
        "{error}"
    );
    assert!(error.contains(&machine.folder().display().to_string()), "{error}");
    assert_eq!(lines, [""; 0]);
}

#[test]
fn a_compiler_that_fails_is_quoted_and_no_target_is_added() {
    let script = "echo \"error: toolchain '1.95.0' is not installed\" >&2; echo 'help: run x' >&2; exit 1";
    let machine = Machine::new("fails").with("rustc", script).with_rustup("exit 0");
    let (result, lines) = machine.ensure();
    let error = result.unwrap_err().to_string();
    assert!(
        error.contains("toolchain '1.95.0' is not installed; run `rustup toolchain install` there"),
        "{error}"
    );
    assert_eq!((lines.len(), machine.asked_of_rustup().len()), (0, 0));
}

#[test]
fn without_a_compiler_the_error_says_where_rust_is_to_be_had() {
    let error = Machine::new("no-rustc").ensure().0.unwrap_err().to_string();
    assert_eq!(
        error,
        "the Rust compiler (rustc) is not installed: install Rust with rustup (https://rustup.rs)"
    );
}

#[test]
fn the_reason_of_a_rustup_that_fails_is_in_the_error() {
    let script =
        "echo 'info: downloading' >&2; echo 'error: could not download file' >&2; echo 'note: x' >&2; exit 1";
    let machine = Machine::new("offline").with_compiler().with_rustup(script);
    let (result, lines) = machine.ensure();
    let error = result.unwrap_err().to_string();
    assert!(
        error.starts_with(
            "cannot add the Rust target wasm32-wasip2: could not download file; run `rustup target add"
        ),
        "{error}"
    );
    assert_eq!(lines.len(), 1);
}

#[test]
fn a_compiler_that_rustup_does_not_know_is_named() {
    let machine = Machine::new("other").with_compiler().with_rustup("exit 0");
    let error = machine.ensure().0.unwrap_err().to_string();
    assert!(error.contains("the compiler in use (rustc) does not have it: unset RUSTC"), "{error}");
}
