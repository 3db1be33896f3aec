//! [`RecentLog`]: the last lines of the log, as `/log` and the web page show them.
//!
//! Invariant: a bounded number of lines, each of bounded length, whatever a guest says: half a megabyte at most. Called by
//! tracing on whatever thread logs, so the lock is held for the exchange of a line alone.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use pilothouse_plugin::printable;
use serde::Serialize;

/// Lines that are kept.
const MOST: usize = 500;
/// Most bytes of each text of a line.
const LONGEST: usize = 512;

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    /// Its number; those of a host have no gaps.
    pub number: u64,
    /// When it was logged (RFC 3339).
    pub time: String,
    /// `ERROR`, `WARN`, `INFO`, `DEBUG` or `TRACE`.
    pub level: &'static str,
    /// Where it comes from: `guest`, or a module of the host.
    pub target: String,
    /// The plugin that it is of or about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// The message.
    pub message: String,
    /// All other fields, as `name=value`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fields: String,
}

/// The last lines; a cheap clone.
#[derive(Debug, Clone, Default)]
pub struct RecentLog(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    lines: VecDeque<LogLine>,
    /// Lines so far, which is the number of the last one.
    so_far: u64,
}

/// The answer of `/log`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct LogPage {
    /// Lines, the oldest first.
    pub lines: Vec<LogLine>,
    /// The number to ask for the lines after these.
    pub next: u64,
    /// Lines after the number asked for that are not kept any more.
    pub missed: u64,
}

impl RecentLog {
    /// Adds a line, with its texts cut and their control characters escaped.
    pub fn push(&self, level: &'static str, target: &str, plugin: Option<&str>, message: &str, fields: &str) {
        let cut = |text: &str| text.floor_char_boundary(LONGEST);
        let clip = |text: &str| {
            let mut text = printable(&text[..cut(text)]);
            text.truncate(cut(&text));
            text
        };
        let mut line = LogLine {
            number: 0,
            time: Timestamp::now().to_string(),
            level,
            target: clip(target),
            plugin: plugin.map(clip),
            message: clip(message),
            fields: clip(fields),
        };
        let oldest = {
            let mut lines = self.0.lock();
            lines.so_far += 1;
            line.number = lines.so_far;
            lines.lines.push_back(line);
            if lines.lines.len() > MOST { lines.lines.pop_front() } else { None }
        };
        // Freed without the lock.
        drop(oldest);
    }

    /// The lines after that of this number. One that is not there yet, as of another host before this one, is taken for 0.
    #[must_use]
    pub fn after(&self, number: u64) -> LogPage {
        let lines = self.0.lock();
        let number = if number > lines.so_far { 0 } else { number };
        let first = lines.lines.front().map_or(lines.so_far + 1, |line| line.number);
        let skipped = number.saturating_sub(first - 1);
        LogPage {
            lines: lines.lines.iter().skip(usize::try_from(skipped).unwrap_or(usize::MAX)).cloned().collect(),
            next: lines.so_far,
            missed: (first - 1).saturating_sub(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(log: &RecentLog, number: u64) -> (Vec<u64>, u64, u64) {
        let LogPage { lines, next, missed } = log.after(number);
        (lines.iter().map(|line| line.number).collect(), next, missed)
    }

    #[test]
    fn lines_come_once_in_their_order_and_the_oldest_go() {
        let log = RecentLog::default();
        assert_eq!(page(&log, 0), (vec![], 0, 0));
        let push = || log.push("INFO", "guest", Some("p"), "hello", "key=a/b");
        (0..3).for_each(|_| push());
        assert_eq!(page(&log, 0), (vec![1, 2, 3], 3, 0));
        assert_eq!(page(&log, 2), (vec![3], 3, 0));
        assert_eq!(page(&log, 3), (vec![], 3, 0));
        // The host was started again, and has fewer lines.
        assert_eq!(page(&log, 1000), (vec![1, 2, 3], 3, 0));
        (0..MOST).for_each(|_| push());
        let (numbers, next, missed) = page(&log, 1);
        assert_eq!((numbers.len(), numbers[0], next, missed), (MOST, 4, MOST as u64 + 3, 2));
        assert_eq!(page(&log, next - 1), (vec![next], next, 0));
    }

    /// JSON leaves some of them as they are, and a terminal may show the answer.
    #[test]
    fn control_characters_are_escaped() {
        let log = RecentLog::default();
        log.push("WARN", "guest", Some("p"), "a\u{1b}[2J\u{9b}b", "key=ns/x\ny");
        let line = &log.after(0).lines[0];
        assert_eq!((&*line.message, &*line.fields), ("a\\u{1b}[2J\\u{9b}b", "key=ns/x\\ny"));
        log.push("WARN", "guest", None, &"\u{9b}".repeat(10_000), "");
        assert!(log.after(1).lines[0].message.len() <= LONGEST);
    }

    #[test]
    fn a_line_is_of_bounded_length() {
        let log = RecentLog::default();
        let long = "ü".repeat(10_000);
        log.push("WARN", &long, Some(&long), &long, &long);
        let text = serde_json::to_string(&log.after(0)).unwrap();
        assert!(text.len() < 4 * LONGEST + 300, "{}", text.len());
    }
}
