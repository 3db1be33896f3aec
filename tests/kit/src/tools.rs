//! [`Tool`]: programs outside the workspace that some tests run. [`crate::skip`] uses this module at run time, and the
//! build script uses it to report missing tools before the first test; therefore it depends on the standard library
//! only.

use std::error::Error;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The minimum Go version of `tests/controlplane` and `tests/clientgo`, as in their `go.mod`.
const OLDEST_GO: (u32, u32) = (1, 26);

/// A program that some tests need, or a group of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Go 1.26 or newer.
    Go,
    /// A Java runtime and compiler, and Maven.
    Java,
    /// kubectl.
    Kubectl,
    /// valgrind.
    Valgrind,
    /// Python 3 with `venv`.
    Python,
    /// Node.js with npm.
    Node,
    /// clang and wit-bindgen.
    C,
    /// The right to mount, which root has except in most containers, and the programs that use it.
    Root,
    /// Chromium.
    Chromium,
    /// A C compiler for arm64 on another architecture.
    Arm64,
    /// systemd's analysis of units; no running systemd.
    Systemd,
    /// git, and the history of this repository.
    Git,
}

impl Tool {
    /// All tools.
    pub const ALL: [Tool; 12] = [
        Tool::Go,
        Tool::Java,
        Tool::Kubectl,
        Tool::Valgrind,
        Tool::Python,
        Tool::Node,
        Tool::C,
        Tool::Root,
        Tool::Chromium,
        Tool::Arm64,
        Tool::Systemd,
        Tool::Git,
    ];

    /// Whether a machine that lacks it can have it by an installation.
    pub fn can_be_installed(self) -> bool {
        self != Tool::Root
    }

    /// The programs that must be on the PATH.
    pub fn programs(self) -> &'static [&'static str] {
        match self {
            Tool::Go => &["go"],
            Tool::Java => &["java", "javac", "mvn"],
            Tool::Kubectl => &["kubectl"],
            Tool::Valgrind => &["valgrind"],
            Tool::Python => &["python3"],
            Tool::Node => &["node", "npm"],
            Tool::C => &["clang", "wit-bindgen"],
            Tool::Root => &["unshare", "mount", "chroot"],
            Tool::Chromium => &["chromium"],
            Tool::Arm64 => &["aarch64-linux-gnu-gcc"],
            Tool::Systemd => &["systemd-analyze"],
            Tool::Git => &["git", "tar"],
        }
    }

    /// The tests that are skipped without this tool.
    pub fn skipped(self) -> &'static str {
        match self {
            Tool::Go => {
                "tests on the real kube-apiserver (unless it was built before), tests beside client-go"
            }
            Tool::Java => "tests of the event exporter on a real OpenSearch",
            Tool::Kubectl => {
                "tests that run kubectl (it is also a part of the kube-apiserver that Go builds)"
            }
            Tool::Valgrind => "the count of the work queue's instructions",
            Tool::Python => {
                "the test at full length of the plugin in Python, and its figures in the benchmark `languages`"
            }
            Tool::Node => {
                "the test at full length of the plugin in JavaScript, and its figures in the benchmark `languages`"
            }
            Tool::C => {
                "the test at full length of the plugin in C, and its figures in the benchmark `languages`"
            }
            Tool::Root => {
                "tests that run the container image's root file system, and the build at full length without a network"
            }
            Tool::Chromium => "the test at full length of the host's web page",
            Tool::Arm64 => "the build at full length of the image for arm64",
            Tool::Systemd => "the check at full length of the systemd unit",
            Tool::Git => "the rolling upgrade at full length from an older version and back",
        }
    }

    /// How to install this tool.
    pub fn install(self) -> &'static str {
        match self {
            Tool::Go => "install Go 1.26 or newer: https://go.dev/dl",
            Tool::Java => {
                "install a JDK of version 17 or newer and Maven: apt-get install openjdk-17-jdk-headless maven"
            }
            Tool::Kubectl => "install kubectl: https://kubernetes.io/docs/tasks/tools",
            Tool::Valgrind => "install valgrind: apt-get install valgrind",
            Tool::Python => "install Python 3 with venv: apt-get install python3-venv",
            Tool::Node => "install Node.js with npm: https://nodejs.org",
            Tool::C => "install what guests/other-languages/c/README.md lists",
            Tool::Root => "run the tests as a root that may mount, with util-linux and coreutils",
            Tool::Chromium => "install Chromium: apt-get install chromium",
            Tool::Arm64 => {
                "install a cross compiler: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
            }
            Tool::Systemd => "install systemd, which need not run: apt-get install systemd",
            Tool::Git => "install git and tar, and fetch the whole history: git fetch --unshallow",
        }
    }

    /// Checks that the tool can be used.
    ///
    /// # Errors
    /// When a program is missing or too old.
    pub fn require(self) -> Result<(), MissingTool> {
        self.require_on(&std::env::var_os("PATH").unwrap_or_default())
    }

    /// As [`Tool::require`], with another PATH.
    ///
    /// # Errors
    /// As [`Tool::require`].
    pub fn require_on(self, path: &OsStr) -> Result<(), MissingTool> {
        let missing = |reason: String| Err(MissingTool { tool: self, reason });
        for program in self.programs() {
            let Some(found) = find(program, path) else {
                return missing(format!("`{program}` is not on the PATH"));
            };
            let checked = match (self, *program) {
                (Tool::Go, _) => check_go(&found),
                (Tool::Root, "unshare") => check_mounts(&found),
                _ => Ok(()),
            };
            if let Err(reason) = checked {
                return missing(reason);
            }
        }
        Ok(())
    }
}

/// A tool that a test needs and the machine lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingTool {
    /// The tool.
    pub tool: Tool,
    /// The reason why the tool cannot be used.
    pub reason: String,
}

impl fmt::Display for MissingTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.reason, self.tool.install())
    }
}

impl Error for MissingTool {}

/// Finds the file of a program on a PATH.
pub fn find(program: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Checks that this process may have mounts of its own.
fn check_mounts(unshare: &Path) -> Result<(), String> {
    let answer = Command::new(unshare).args(["--mount", "--pid", "--fork", "true"]).output();
    let answer = answer.map_err(|error| format!("`unshare` cannot be run ({error})"))?;
    if answer.status.success() {
        return Ok(());
    }
    Err(format!("mounts are not permitted: {}", String::from_utf8_lossy(&answer.stderr).trim()))
}

/// Checks that this Go is new enough, or the toolchain that it downloads for a `go.mod` which requires a newer one.
fn check_go(go: &Path) -> Result<(), String> {
    let module = concat!(env!("CARGO_MANIFEST_DIR"), "/../controlplane");
    let answer = Command::new(go).args(["env", "GOVERSION"]).current_dir(module).output();
    let answer = answer.map_err(|error| format!("`go` cannot be run ({error})"))?;
    let said = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    if answer.status.success() && is_new_enough(&said) {
        return Ok(());
    }
    let said = format!("{said} {}", String::from_utf8_lossy(&answer.stderr).trim());
    Err(format!("this Go cannot be used: {}", said.trim()))
}

/// Whether a version such as `go1.26.8` or `go1.26rc1` is not older than [`OLDEST_GO`].
fn is_new_enough(version: &str) -> bool {
    let numbers = || {
        let mut numbers = version.strip_prefix("go")?.split(|other: char| !other.is_ascii_digit());
        Some((numbers.next()?.parse::<u32>().ok()?, numbers.next()?.parse::<u32>().ok()?))
    };
    numbers().is_some_and(|version| version >= OLDEST_GO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_on_the_path_is_named_with_its_remedy() {
        let missing = Tool::Java.require_on(OsStr::new("/nowhere")).unwrap_err();
        assert_eq!(missing.tool, Tool::Java);
        let said = missing.to_string();
        assert!(said.starts_with("`java` is not on the PATH; install a JDK"), "{said}");
    }

    #[test]
    fn mounts_are_permitted_if_unshare_can_make_them() {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = |name: &str| find(name, &path).unwrap();
        assert_eq!(check_mounts(&program("true")), Ok(()));
        let refused = check_mounts(&program("false")).unwrap_err();
        assert!(refused.starts_with("mounts are not permitted"), "{refused}");
    }

    #[test]
    fn a_go_that_is_too_old_is_not_used() {
        for (text, usable) in
            [("go1.25.9", false), ("go1.26.0", true), ("go1.26rc1", true), ("go2.0", true), ("devel", false)]
        {
            assert_eq!(is_new_enough(text), usable, "{text}");
        }
    }
}
