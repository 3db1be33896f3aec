//! [`Log`]: the running log of `dev` on standard output, for people.
//!
//! ```text
//! 12:01:02.123  pods-per-node  wrote default/pods-on-worker-1 node=worker-1 total=7
//! ^ UTC, as     ^ who: a plugin, ^ what; `warning: ` and `error: ` before trouble
//!   Kubernetes    `api`, `host`
//!   shows times   or `dev`
//! ```
//!
//! Invariants: a line is written whole; what a guest says cannot move the cursor or change colours; a reader that went away
//! stops nothing. Called by all parts of `dev`; [`layer`] brings the events of the host and the guests.

mod layer;
mod limit;

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::limit::Limits;
use pilothouse_hosting::log_filter::log_filter;
use pilothouse_hosting::output::harmless;

/// What is shown unless `RUST_LOG` says otherwise: what a guest and its calls do, and the host's troubles.
const SHOWN: &str = "warn,pilothouse_manager=info,pilothouse::reconciles=debug,guest=info";

/// How often the lines that were dropped are told of.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// The longest name that others are aligned with.
const WIDEST: usize = 32;

/// How a line is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Seen again and again, of little interest each time.
    Quiet,
    Plain,
    /// Good news that one waits for.
    Good,
    Warning,
    Error,
}

impl Tone {
    fn prefix(self) -> &'static str {
        match self {
            Self::Quiet | Self::Plain | Self::Good => "",
            Self::Warning => "warning: ",
            Self::Error => "error: ",
        }
    }

    /// The escape sequence's number; none for the usual colour.
    fn colour(self) -> Option<u8> {
        match self {
            Self::Quiet => Some(2),
            Self::Plain => None,
            Self::Good => Some(32),
            Self::Warning => Some(33),
            Self::Error => Some(31),
        }
    }
}

/// The running log; a cheap clone.
#[derive(Clone)]
pub(crate) struct Log(Arc<Inner>);

struct Inner {
    out: Mutex<Box<dyn Write + Send>>,
    colours: bool,
    /// Width of the longest name so far.
    width: AtomicUsize,
    limits: Limits,
}

impl Log {
    /// The log on standard output.
    pub(crate) fn to_stdout() -> Self {
        let colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self::new(Box::new(std::io::stdout()), colours)
    }

    /// The log on standard error, for a command whose standard output is for its result.
    pub(crate) fn to_stderr() -> Self {
        let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self::new(Box::new(std::io::stderr()), colours)
    }

    /// A log that is kept for later.
    pub(crate) fn to(out: impl Write + Send + 'static) -> Self {
        Self::new(Box::new(out), false)
    }

    fn new(out: Box<dyn Write + Send>, colours: bool) -> Self {
        let inner =
            Inner { out: Mutex::new(out), colours, width: AtomicUsize::new(4), limits: Limits::default() };
        Self(Arc::new(inner))
    }

    /// Shows the events of the host and its guests from now on.
    ///
    /// # Errors
    /// When `RUST_LOG` cannot be read.
    pub(crate) fn show_events(&self) -> anyhow::Result<()> {
        let log = self.clone();
        tracing_subscriber::registry().with(events(move || Some(log.clone()))?).init();
        Ok(())
    }

    /// Tells of dropped lines, for as long as it is polled.
    pub(crate) async fn tell_of_dropped(&self) {
        let mut ticks = tokio::time::interval(TELL_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            for dropped in self.0.limits.due(Instant::now()) {
                self.say(&dropped.plugin, Tone::Quiet, &dropped.to_string());
            }
        }
    }

    /// Whether what is written is coloured.
    pub(crate) fn colours(&self) -> bool {
        self.0.colours
    }

    /// Makes room for a name, so that the lines of all plugins are aligned from the first on.
    pub(crate) fn expect_name(&self, name: &str) {
        self.0.width.fetch_max(name.chars().count().min(WIDEST), Relaxed);
    }

    /// One line, or several where the text has several.
    pub(crate) fn say(&self, who: &str, tone: Tone, text: &str) {
        self.expect_name(who);
        let width = self.0.width.load(Relaxed);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let lines = line(since, who, width, tone, text, self.0.colours);
        self.write(&lines);
    }

    /// Text as it is: what a compiler wrote, or what is to be copied.
    pub(crate) fn verbatim(&self, text: &str) {
        let newline = if text.ends_with('\n') { "" } else { "\n" };
        self.write(&format!("{text}{newline}"));
    }

    fn write(&self, text: &str) {
        let mut out = self.0.out.lock();
        // Whoever read it may be gone.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

/// A layer that shows the events of the host and its guests in the log that `find` names on the thread of an event.
///
/// # Errors
/// When `RUST_LOG` cannot be read.
pub(crate) fn events<S: Subscriber + for<'a> LookupSpan<'a>>(
    find: impl Fn() -> Option<Log> + Send + Sync + 'static,
) -> anyhow::Result<impl Layer<S>> {
    Ok(layer::Readable(find).with_filter(log_filter(SHOWN)?))
}

fn line(since: Duration, who: &str, width: usize, tone: Tone, text: &str, colours: bool) -> String {
    let (seconds, millis) = (since.as_secs() % 86_400, since.subsec_millis());
    let time = format!("{:02}:{:02}:{:02}.{millis:03}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    let text = harmless(text.trim_end());
    let indent = " ".repeat(time.len() + width + 4);
    let mut lines = String::new();
    for (index, part) in text.split('\n').enumerate() {
        let prefix = if index == 0 { tone.prefix() } else { "" };
        let head = match (index, colours) {
            (0, false) => format!("{time}  {who:<width$}  "),
            (0, true) => format!("\x1b[2m{time}\x1b[0m  \x1b[1m{who:<width$}\x1b[0m  "),
            _ => indent.clone(),
        };
        let _ = match tone.colour().filter(|_| colours) {
            Some(colour) => writeln!(lines, "{head}\x1b[{colour}m{prefix}{part}\x1b[0m"),
            None => writeln!(lines, "{head}{prefix}{part}"),
        };
    }
    lines
}

/// `12 ms`, `3.4 s`, `2 min 5 s`
pub(crate) fn spell(took: Duration) -> String {
    match took.as_secs() {
        0 => format!("{} ms", took.as_millis()),
        1..60 => format!("{:.1} s", took.as_secs_f64()),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// `one plugin`, `3 plugins`: the noun with its number.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// What a log has written, for tests.
    #[derive(Clone, Default)]
    pub(crate) struct Written(Arc<Mutex<Vec<u8>>>);

    impl Written {
        /// A log that writes here.
        pub(crate) fn log(&self) -> Log {
            Log::new(Box::new(self.clone()), false)
        }

        /// What was said, without the times.
        pub(crate) fn lines(&self) -> Vec<String> {
            let text = String::from_utf8(self.0.lock().clone()).unwrap();
            text.lines().map(|line| line.get(14..).unwrap_or_default().to_owned()).collect()
        }
    }

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 12:01:02.123
    const SINCE: Duration = Duration::from_millis(((12 * 60 + 1) * 60 + 2) * 1000 + 123 + 86_400_000 * 365);

    #[test]
    fn lines_are_aligned_and_trouble_is_marked() {
        let text = line(SINCE, "api", 8, Tone::Error, "no\nmore\n", false);
        assert_eq!(text, "12:01:02.123  api       error: no\n                        more\n");
    }

    #[test]
    fn colours_end_with_the_line() {
        let text = line(SINCE, "a", 1, Tone::Warning, "x", true);
        assert_eq!(text, "\x1b[2m12:01:02.123\x1b[0m  \x1b[1ma\x1b[0m  \x1b[33mwarning: x\x1b[0m\n");
    }

    #[test]
    fn a_guest_cannot_command_the_terminal() {
        let text = line(SINCE, "a", 1, Tone::Plain, "tab\t bell\x07 \x1b[2J\r", false);
        assert_eq!(text, "12:01:02.123  a  tab\t bell\\u{7} \\u{1b}[2J\n");
    }

    #[test]
    fn a_reader_that_went_away_stops_nothing() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
        }
        Log::new(Box::new(Gone), false).say("a", Tone::Plain, "hello");
    }

    #[test]
    fn times_are_short() {
        let spelt = [12, 3400, 125_000].map(|millis| spell(Duration::from_millis(millis)));
        assert_eq!(spelt, ["12 ms", "3.4 s", "2 min 5 s"]);
    }
}
