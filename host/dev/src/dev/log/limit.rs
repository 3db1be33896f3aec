//! [`Limits`]: how many lines a second each plugin gets, so that a busy one does not hide the others.
//!
//! Invariant: a window is in the table iff a line was asked for within the last second, or lines were dropped that nobody was
//! told of yet. Called by [`super::layer`] for each event, and by a timer that tells what was dropped.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Lines of one class that a plugin may write in a window.
const MOST: u64 = 25;
/// The window.
const WINDOW: Duration = Duration::from_secs(1);

/// What a line is of; each class has a count of its own, so that chatter does not hide trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// A reconcile that went well.
    Reconcile,
    /// What the guest itself logs.
    Said,
    /// Warnings and errors.
    Trouble,
}

impl Class {
    const COUNT: usize = 3;

    fn of(index: usize) -> Self {
        [Self::Reconcile, Self::Said, Self::Trouble][index]
    }

    /// What the lines of this class are called, one or many.
    fn noun(self, count: u64) -> &'static str {
        match (self, count) {
            (Self::Reconcile, 1) => "reconcile",
            (Self::Reconcile, _) => "reconciles",
            (Self::Said, 1) => "line",
            (Self::Said, _) => "lines",
            (Self::Trouble, 1) => "warning or error",
            (Self::Trouble, _) => "warnings and errors",
        }
    }
}

/// Lines of one plugin and class since `began`.
#[derive(Debug, Clone, Copy)]
struct Window {
    began: Instant,
    asked: u64,
}

impl Window {
    fn dropped(self) -> u64 {
        self.asked.saturating_sub(MOST)
    }

    fn over(self, now: Instant) -> bool {
        now.saturating_duration_since(self.began) >= WINDOW
    }
}

/// How many lines were dropped, of whom and of what.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dropped {
    pub(super) plugin: String,
    class: Class,
    count: u64,
}

impl std::fmt::Display for Dropped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "… {} more {} in the last second", grouped(self.count), self.class.noun(self.count))
    }
}

/// The windows of all plugins.
#[derive(Debug, Default)]
pub(super) struct Limits(Mutex<HashMap<String, [Option<Window>; Class::COUNT]>>);

impl Limits {
    /// Whether a line may be written, and what to tell first of the lines dropped before it.
    pub(super) fn ask(&self, plugin: &str, class: Class, now: Instant) -> (bool, Option<Dropped>) {
        let mut plugins = self.0.lock();
        // A name is copied when it is new only.
        let windows = match plugins.get_mut(plugin) {
            Some(windows) => windows,
            None => plugins.entry(plugin.to_owned()).or_default(),
        };
        let window = &mut windows[class as usize];
        let over = window.take_if(|window| window.over(now));
        let told = over.and_then(|window| told(plugin, class, window));
        let window = window.get_or_insert(Window { began: now, asked: 0 });
        window.asked += 1;
        (window.asked <= MOST, told)
    }

    /// What to tell of windows that are over.
    pub(super) fn due(&self, now: Instant) -> Vec<Dropped> {
        let mut due = Vec::new();
        self.0.lock().retain(|plugin, windows| {
            for (index, window) in windows.iter_mut().enumerate() {
                let over = window.take_if(|window| window.over(now));
                due.extend(over.and_then(|window| told(plugin, Class::of(index), window)));
            }
            windows.iter().any(Option::is_some)
        });
        due.sort_by(|a, b| a.plugin.cmp(&b.plugin));
        due
    }
}

fn told(plugin: &str, class: Class, window: Window) -> Option<Dropped> {
    let count = window.dropped();
    (count > 0).then(|| Dropped { plugin: plugin.to_owned(), class, count })
}

/// `1,234,567`
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(limits: &Limits, times: u64, now: Instant) -> u64 {
        (0..times).filter(|_| limits.ask("a", Class::Reconcile, now).0).count() as u64
    }

    #[test]
    fn a_flood_is_cut_and_counted() {
        let (limits, start) = (Limits::default(), Instant::now());
        assert_eq!(ask(&limits, MOST + 1234, start), MOST);
        assert_eq!(limits.due(start + WINDOW / 2), []);
        let due: Vec<_> = limits.due(start + WINDOW).iter().map(ToString::to_string).collect();
        assert_eq!(due, ["… 1,234 more reconciles in the last second"]);
        assert_eq!(limits.due(start + WINDOW * 2), []);
        assert!(limits.0.lock().is_empty());
    }

    #[test]
    fn the_next_line_tells_what_was_dropped_before_it() {
        let (limits, start) = (Limits::default(), Instant::now());
        ask(&limits, MOST + 1, start);
        let (allowed, told) = limits.ask("a", Class::Reconcile, start + WINDOW);
        assert!(allowed);
        assert_eq!(told.unwrap().to_string(), "… 1 more reconcile in the last second");
        assert_eq!(limits.due(start + WINDOW * 2), []);
    }

    #[test]
    fn plugins_and_classes_are_counted_on_their_own() {
        let (limits, start) = (Limits::default(), Instant::now());
        ask(&limits, MOST, start);
        assert!(!limits.ask("a", Class::Reconcile, start).0);
        assert!(limits.ask("a", Class::Trouble, start).0);
        assert!(limits.ask("b", Class::Reconcile, start).0);
    }

    #[test]
    fn a_plugin_that_keeps_within_the_limit_loses_nothing() {
        let (limits, start) = (Limits::default(), Instant::now());
        for second in 0..10 {
            assert_eq!(ask(&limits, MOST, start + WINDOW * second), MOST);
        }
        assert_eq!(limits.due(start + WINDOW * 20), []);
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
