//! [`Screen`]: a terminal on which a text is drawn again in place, and the texts that `top` draws.

use std::io::{BufRead as _, Write};

use anyhow::Result;
use pilothouse_manager::{PluginState, UsageList};
use tokio::sync::oneshot;

use super::rates::{PluginRates, Quantile, Rates};
use crate::table::{Table, printable};
use pilothouse_hosting::output::size;

/// The other screen of the terminal, without a cursor, on which long lines are cut.
const TAKE: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const GIVE_BACK: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// The terminal, which is as it was when this is dropped.
pub(super) struct Screen(());

impl Screen {
    pub(super) fn take() -> Result<Self> {
        write(TAKE)?;
        Ok(Self(()))
    }

    /// Draws a text from the first line on.
    pub(super) fn draw(&mut self, text: &str) -> Result<()> {
        write(&frame(text))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = write(GIVE_BACK);
    }
}

fn write(text: &str) -> Result<()> {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Each line goes to its own row, and rows that a screen does not have are its last one: nothing is scrolled, so the first lines
/// stay, however many there are. What was there is erased line by line, which does not flicker.
fn frame(text: &str) -> String {
    let rows = text.lines().enumerate().map(|(row, line)| format!("\x1b[{};1H{line}\x1b[K", row + 1));
    rows.collect::<String>() + "\x1b[J"
}

/// Waits for a line on standard input that begins with `q`. A terminal hands lines over, and not keys.
pub(super) struct Quit(Option<oneshot::Receiver<()>>);

impl Quit {
    pub(super) fn listen() -> Self {
        let (pressed, quit) = oneshot::channel();
        // A thread that the end of the process does not wait for, as it would for one of tokio.
        std::thread::spawn(move || {
            let lines = std::io::stdin().lock().lines().map_while(Result::ok);
            if lines.into_iter().any(|line| line.trim_start().starts_with('q')) {
                // Nobody waits any more where the command has ended.
                let _ = pressed.send(());
            }
        });
        Self(Some(quit))
    }

    /// Pending once the input has ended without such a line. Cancel-safe.
    pub(super) async fn pressed(&mut self) {
        if let Some(quit) = &mut self.0 {
            if quit.await.is_ok() {
                return;
            }
            self.0 = None;
        }
        std::future::pending::<()>().await;
    }
}

/// The host in one line.
pub(super) fn summary(rates: &Rates, after: &UsageList) -> String {
    let plugins = &rates.plugins;
    let running = plugins.iter().filter(|plugin| plugin.state == PluginState::Running).count();
    // The sum of no floats is -0.
    let sum = |of: fn(&PluginRates) -> f64| 0.0 + plugins.iter().map(of).sum::<f64>();
    let election =
        after.election.as_ref().map_or(String::new(), |election| printable(&format!("{election}; ")));
    format!(
        "up {}; {election}{running} of {} plugins running; {:.1} reconciles/s, {:.1} events/s, {:.1} failures/s; CPU {:.1} %; \
         memory {}",
        span(after.seconds),
        plugins.len(),
        sum(|p| p.reconciles_per_second),
        sum(|p| p.events_per_second),
        sum(|p| p.failures_per_second),
        100.0 * sum(|p| p.cpu),
        size(plugins.iter().map(|plugin| plugin.memory_bytes).sum()),
    )
}

/// A line for each plugin.
pub(super) fn table(rates: &Rates) -> String {
    let header = [
        "NAME", "STATE", "GEN", "RECONC/S", "EVENTS/S", "FAIL/S", "MEAN", "P50", "P99", "CPU %", "MEMORY",
        "READY", "DELAYED", "BUSY",
    ];
    let mut rows = vec![header.map(str::to_owned)];
    rows.extend(rates.plugins.iter().map(|p| {
        [
            p.name.clone(),
            p.state.as_str().to_owned(),
            p.generation.to_string(),
            format!("{:.1}", p.reconciles_per_second),
            format!("{:.1}", p.events_per_second),
            format!("{:.1}", p.failures_per_second),
            p.mean_seconds.map_or("-".to_owned(), duration),
            quantile(p.p50_seconds),
            quantile(p.p99_seconds),
            format!("{:.1}", 100.0 * p.cpu),
            size(p.memory_bytes),
            p.queue_ready.to_string(),
            p.queue_delayed.to_string(),
            p.in_flight.to_string(),
        ]
    }));
    Table::default().lines(&rows)
}

fn quantile(quantile: Option<Quantile>) -> String {
    match quantile {
        None => "-".to_owned(),
        Some(Quantile::AtMost(bound)) => format!("≤{}", duration(bound)),
        Some(Quantile::Above(bound)) => format!(">{}", duration(bound)),
    }
}

/// `250µs`, `1.5ms`, `2.50s`
fn duration(seconds: f64) -> String {
    match seconds {
        _ if seconds < 0.001 => format!("{:.0}µs", seconds * 1e6),
        _ if seconds < 1.0 => format!("{:.1}ms", seconds * 1e3),
        _ => format!("{seconds:.2}s"),
    }
}

/// `12s`, `5m12s`, `3h5m`, `2d3h`
fn span(seconds: f64) -> String {
    // A host does not run for 2^53 seconds.
    let seconds = seconds as u64;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m{}s", seconds % 60),
        3600..86400 => format!("{hours}h{}m", minutes % 60),
        _ => format!("{days}d{}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin() -> PluginRates {
        PluginRates {
            name: "a".to_owned(),
            state: PluginState::Running,
            generation: 3,
            reconciles_per_second: 1.5,
            events_per_second: 0.0,
            failures_per_second: 0.5,
            mean_seconds: Some(0.000_25),
            p50_seconds: Some(Quantile::AtMost(0.005)),
            p99_seconds: Some(Quantile::Above(60.0)),
            cpu: 0.5,
            memory_bytes: 3 << 20,
            queue_ready: 1,
            queue_delayed: 2,
            in_flight: 4,
        }
    }

    #[test]
    fn a_row_has_each_figure_with_its_unit() {
        let idle = PluginRates { mean_seconds: None, p50_seconds: None, p99_seconds: None, ..plugin() };
        let text = table(&Rates { seconds: 1.0, plugins: vec![plugin(), idle] });
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let wanted = "a running 3 1.5 0.0 0.5 250µs ≤5.0ms >60.00s 50.0 3.0 MiB 1 2 4";
        assert_eq!(rows[1].join(" "), wanted);
        assert_eq!(rows[2].join(" "), "a running 3 1.5 0.0 0.5 - - - 50.0 3.0 MiB 1 2 4");
    }

    #[test]
    fn the_summary_adds_the_plugins_up() {
        let plugins = vec![plugin(), PluginRates { state: PluginState::Failed, ..plugin() }];
        let list: UsageList =
            serde_json::from_str(r#"{"started":"","seconds":3725.5,"plugins":[]}"#).unwrap();
        assert_eq!(
            summary(&Rates { seconds: 1.0, plugins }, &list),
            "up 1h2m; 1 of 2 plugins running; 3.0 reconciles/s, 0.0 events/s, 1.0 failures/s; CPU 100.0 %; memory 6.0 MiB"
        );
    }

    #[test]
    fn a_host_without_plugins_does_nothing() {
        let list: UsageList = serde_json::from_str(r#"{"started":"","seconds":1,"plugins":[]}"#).unwrap();
        let text = summary(&Rates { seconds: 1.0, plugins: Vec::new() }, &list);
        assert!(text.contains("0 of 0 plugins running; 0.0 reconciles/s") && !text.contains('-'), "{text}");
    }

    #[test]
    fn spans_have_two_units() {
        assert_eq!([12.0, 312.9, 11_100.0, 183_600.0].map(span), ["12s", "5m12s", "3h5m", "2d3h"]);
    }

    /// No line feed, which scrolls a screen that is full.
    #[test]
    fn a_frame_goes_row_by_row_and_scrolls_nothing() {
        assert_eq!(frame("a\nb\n"), "\x1b[1;1Ha\x1b[K\x1b[2;1Hb\x1b[K\x1b[J");
    }

    #[tokio::test]
    async fn without_input_there_is_nothing_to_wait_for() {
        let (pressed, quit) = oneshot::channel();
        let mut ended = Quit(Some(quit));
        drop(pressed);
        assert!(futures_pending(&mut ended).await);
        let (pressed, quit) = oneshot::channel();
        let mut asked = Quit(Some(quit));
        pressed.send(()).unwrap();
        assert!(!futures_pending(&mut asked).await);
    }

    /// Whether it waits on after all that can run has run.
    async fn futures_pending(quit: &mut Quit) -> bool {
        tokio::select! {
            biased;
            () = quit.pressed() => false,
            () = tokio::task::yield_now() => true,
        }
    }
}
