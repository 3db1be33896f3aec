//! Child processes: [`Process`] runs in the background and its output is kept by line; [`run`] waits for the end of a
//! command within a time limit.
//!
//! Invariants of [`Process`]: dropping it kills the process and waits for it; if the test process ends before that, the
//! child's standard input closes, and for a child that ignores this a watchdog shell kills it; a signal is never sent
//! to a pid that was already waited for.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::poll;

/// Maximum number of lines that are kept; a host that logs each event of a soak test must not fill the memory.
const MOST_LINES: usize = 200_000;

/// Clock ticks per second of the CPU times in `/proc`: 100 on every architecture that the tests support.
const TICKS_PER_SECOND: f64 = 100.0;

/// Locks a mutex, also one that a failed test has poisoned.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The stream of a line of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// The lines that a process has written so far; the lines of both streams are in the order in which they were read.
#[derive(Debug, Default)]
pub struct Output {
    lines: Mutex<VecDeque<(Stream, String)>>,
    bytes: AtomicU64,
}

impl Output {
    /// The last `count` lines, joined by line feeds.
    pub fn tail(&self, count: usize) -> String {
        let lines = lock(&self.lines);
        let skipped = lines.len().saturating_sub(count);
        lines.iter().skip(skipped).map(|(_, line)| line.as_str()).collect::<Vec<_>>().join("\n")
    }

    /// All lines that contain `needle`.
    pub fn matching(&self, needle: &str) -> Vec<String> {
        let lines = lock(&self.lines);
        lines.iter().filter(|(_, line)| line.contains(needle)).map(|(_, line)| line.clone()).collect()
    }

    /// The first value that `pick` returns for a line of one stream.
    pub fn find_map<T>(&self, stream: Stream, pick: impl Fn(&str) -> Option<T>) -> Option<T> {
        lock(&self.lines).iter().filter(|(from, _)| *from == stream).find_map(|(_, line)| pick(line))
    }

    /// Bytes written so far, in whole lines.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn push(&self, stream: Stream, line: String) {
        self.bytes.fetch_add(line.len() as u64 + 1, Ordering::Relaxed);
        let mut lines = lock(&self.lines);
        if lines.len() == MOST_LINES {
            lines.pop_front();
        }
        lines.push_back((stream, line));
    }
}

/// A running child process.
#[derive(Debug)]
pub struct Process {
    child: Mutex<Child>,
    pid: u32,
    name: String,
    output: Arc<Output>,
    readers: Vec<JoinHandle<()>>,
    stdin: Option<ChildStdin>,
    watchdog: Option<Child>,
}

impl Process {
    /// Starts a command that ends when its standard input closes: at [`Process::close_stdin`], or when this process
    /// ends.
    ///
    /// # Errors
    /// When the command cannot be started.
    pub fn spawn(command: &mut Command) -> anyhow::Result<Process> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("starting {name}"))?;
        let output = Arc::new(Output::default());
        let mut readers = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            readers.push(read_lines(stdout, Stream::Out, output.clone()));
        }
        if let Some(stderr) = child.stderr.take() {
            readers.push(read_lines(stderr, Stream::Err, output.clone()));
        }
        let (pid, stdin) = (child.id(), child.stdin.take());
        Ok(Process { child: Mutex::new(child), pid, name, output, readers, stdin, watchdog: None })
    }

    /// Starts a command that ignores its standard input. A watchdog kills it if this process ends first.
    ///
    /// # Errors
    /// When the command or the watchdog cannot be started.
    pub fn spawn_watched(command: &mut Command) -> anyhow::Result<Process> {
        let mut process = Process::spawn(command)?;
        process.watchdog = Some(watchdog(process.pid)?);
        Ok(process)
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The output of the process so far.
    pub fn output(&self) -> &Output {
        &self.output
    }

    /// Closes the process's standard input.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// The exit status, if the process has ended.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        lock(&self.child).try_wait().ok().flatten()
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let mut child = lock(&self.child);
        if let Some(status) = child.try_wait()? {
            bail!("{} has ended ({status}), it cannot be sent {signal:?}", self.name);
        }
        Ok(kill_process(Pid::from_child(&child), signal)?)
    }

    /// Waits for the end of the process and of its output.
    ///
    /// # Errors
    /// When the process does not end within `deadline`.
    pub fn wait_exit(&self, deadline: Duration) -> anyhow::Result<ExitStatus> {
        let what = format!("{} (pid {}) to end", self.name, self.pid);
        let status = poll::until(&what, deadline, || self.exit_status())?;
        self.read_to_end();
        Ok(status)
    }

    /// Waits until all that the ended process said has been read; not for long, since a grandchild may keep the pipes open.
    pub fn read_to_end(&self) {
        let _ = poll::until("its output to end", Duration::from_secs(1), || {
            self.readers.iter().all(JoinHandle::is_finished)
        });
    }

    /// The CPU time (user and system) of all threads of the running process.
    pub fn cpu_time(&self) -> anyhow::Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid))?;
        cpu_time_of(&stat).with_context(|| format!("cannot read the CPU time of {} from {stat:?}", self.name))
    }

    /// The resident memory of the running process in bytes.
    pub fn resident_bytes(&self) -> anyhow::Result<u64> {
        self.memory("VmRSS:")
    }

    /// The most resident memory that the running process ever had, in bytes, or since [`reset_peak`](Self::reset_peak).
    pub fn peak_resident_bytes(&self) -> anyhow::Result<u64> {
        self.memory("VmHWM:")
    }

    /// Begins the peak of the resident memory anew.
    pub fn reset_peak(&self) -> anyhow::Result<()> {
        Ok(fs::write(format!("/proc/{}/clear_refs", self.pid), "5")?)
    }

    fn memory(&self, field: &str) -> anyhow::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let kilobytes = status.lines().find_map(|line| line.strip_prefix(field)?.split_whitespace().next());
        let kilobytes = kilobytes.with_context(|| format!("{} has ended", self.name))?;
        Ok(kilobytes.parse::<u64>()? * 1024)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
        // The pid may belong to another process now: a line on its input makes the watchdog end without a signal.
        if let Some(watchdog) = &mut self.watchdog {
            if let Some(mut stdin) = watchdog.stdin.take() {
                let _ = stdin.write_all(b"\n");
            }
            let _ = watchdog.wait();
        }
    }
}

/// Starts a shell that kills `pid` when its standard input closes without a line, which happens when this process dies.
fn watchdog(pid: u32) -> anyhow::Result<Child> {
    Command::new("/bin/sh")
        .args(["-c", "read -r line || kill -9 \"$1\"", "watchdog", &pid.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("starting /bin/sh")
}

fn read_lines(from: impl Read + Send + 'static, stream: Stream, into: Arc<Output>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            into.push(stream, String::from_utf8_lossy(&line).trim_end().to_owned());
            line.clear();
        }
    })
}

/// Parses fields 14 and 15 of `/proc/PID/stat`. The search starts after the command's name, which may contain blanks
/// and parentheses.
fn cpu_time_of(stat: &str) -> Option<Duration> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u32>().ok()? + fields.get(12)?.parse::<u32>().ok()?;
    Some(Duration::from_secs_f64(f64::from(ticks) / TICKS_PER_SECOND))
}

/// The result of a command that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The exit status.
    pub status: ExitStatus,
    /// The standard output.
    pub stdout: String,
    /// The standard error.
    pub stderr: String,
}

/// Runs a command with `input` on its standard input; kills it when it has not ended within `deadline`.
///
/// # Errors
/// When the command cannot be started or does not end in time.
pub fn run(command: &mut Command, input: &str, deadline: Duration) -> anyhow::Result<Finished> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("starting {name}"))?;
    let feeder = child.stdin.take().map(|mut stdin| {
        let input = input.to_owned();
        // A command that does not read its input closes the pipe; the write error is ignored.
        thread::spawn(move || drop(stdin.write_all(input.as_bytes())))
    });
    let stdout = child.stdout.take().map(read_all);
    let stderr = child.stderr.take().map(read_all);
    let ended = poll::until(&format!("{name} to end"), deadline, || child.try_wait().ok().flatten());
    if ended.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let text = |reader: Option<JoinHandle<String>>| reader.and_then(|it| it.join().ok()).unwrap_or_default();
    let (stdout, stderr) = (text(stdout), text(stderr));
    let _ = feeder.map(JoinHandle::join);
    let status = ended.with_context(|| format!("it said: {stdout}{stderr}"))?;
    Ok(Finished { status, stdout, stderr })
}

fn read_all(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut all = Vec::new();
        let _ = from.read_to_end(&mut all);
        String::from_utf8_lossy(&all).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn the_lines_of_a_process_are_kept_by_stream() {
        let process = Process::spawn(&mut shell("echo one; echo two >&2; exit 3")).unwrap();
        assert_eq!(process.wait_exit(Duration::from_secs(10)).unwrap().code(), Some(3));
        let upper = |line: &str| Some(line.to_uppercase());
        assert_eq!(process.output().find_map(Stream::Out, upper).as_deref(), Some("ONE"));
        assert_eq!(process.output().find_map(Stream::Err, upper).as_deref(), Some("TWO"));
        assert_eq!(process.output().matching("tw"), ["two"]);
        assert!(process.signal(Signal::TERM).is_err());
    }

    #[test]
    fn a_dropped_process_is_gone() {
        let process = Process::spawn_watched(&mut shell("exec sleep 600")).unwrap();
        let pid = process.pid();
        assert!(process.cpu_time().unwrap() < Duration::from_secs(5));
        drop(process);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn the_watchdog_kills_when_the_test_process_is_gone() {
        let mut victim = shell("exec sleep 600").spawn().unwrap();
        let mut watchdog = watchdog(victim.id()).unwrap();
        drop(watchdog.stdin.take());
        poll::until("the victim to die", Duration::from_secs(10), || victim.try_wait().unwrap()).unwrap();
        watchdog.wait().unwrap();
    }

    #[test]
    fn a_command_that_does_not_end_is_killed() {
        let error =
            run(&mut shell("echo hello; exec sleep 600"), "", Duration::from_millis(200)).unwrap_err();
        assert!(format!("{error:#}").contains("hello"), "{error:#}");
    }

    #[test]
    fn a_command_reads_its_input() {
        let finished = run(&mut shell("cat; echo no >&2; exit 1"), "yes", Duration::from_secs(10)).unwrap();
        assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("yes", "no\n"));
        assert_eq!(finished.status.code(), Some(1));
    }

    #[test]
    fn cpu_time_is_read_behind_any_name() {
        let stat = "12 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0";
        assert_eq!(cpu_time_of(stat), Some(Duration::from_millis(1750)));
    }
}
