//! [`Process`]: a child process that is asked by lines and answers by lines of JSON.
//!
//! Benches measure whole programs with it: peers, and this same program started once more.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, ensure};
use serde::de::DeserializeOwned;

/// A child process; ended when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Process {
    /// Starts a program. Its first line is read by the first [`read`](Self::read).
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> anyhow::Result<Self> {
        let name = format!("{command:?}");
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.with_context(|| format!("starting {name}"))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        Ok(Self {
            name,
            child,
            requests: stdin.context("no standard input")?,
            answers: BufReader::new(stdout.context("no standard output")?),
        })
    }

    /// Its number in the system.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line.
    ///
    /// # Errors
    /// When the process has ended, or said something else.
    pub fn read<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        let mut line = String::new();
        self.answers.read_line(&mut line).with_context(|| format!("reading from {}", self.name))?;
        ensure!(!line.is_empty(), "{} has ended", self.name);
        serde_json::from_str(&line).with_context(|| format!("{} said {line:?}", self.name))
    }

    /// Asks for something, which is a line, and reads the answer.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn ask<T: DeserializeOwned>(&mut self, request: &str) -> anyhow::Result<T> {
        writeln!(self.requests, "{request}").with_context(|| format!("asking {}", self.name))?;
        self.read()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
