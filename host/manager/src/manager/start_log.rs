//! [`StartLog`]: what is logged about a host that is not ready yet. A kubelet's probe gets no reasons, so the log has them.
//!
//! Invariants: each reason why the Plugins of the cluster cannot be listed is logged once, up to a number of them, since servers
//! write reasons; that the host is late is logged once, and so is that it became ready after either. Nothing is logged of a
//! host that is ready in time.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use super::Manager;
use crate::lifecycle::plugin_objects::PluginTable;

/// How often a host that is not ready is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long a start may take without a line: longer than the compilation of most components.
const LATE: Duration = Duration::from_secs(10);
/// Reasons that are remembered, and named in one text.
const MOST_REASONS: usize = 8;

/// What was logged so far.
#[derive(Debug, Default)]
struct StartLog {
    /// The reasons why the Plugins could not be listed.
    unlisted: Vec<String>,
    is_late: bool,
}

/// A line.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// The Plugins of the cluster cannot be listed, for this reason.
    Unlisted(String),
    /// The host is late, for this reason.
    Late(String),
    Ready,
}

impl StartLog {
    /// The line to log now, if there is one: `waited` after the start, of a host that is not ready for the first reason, and
    /// cannot list the Plugins for the second.
    fn look(
        &mut self,
        waited: Duration,
        not_ready: Option<String>,
        unlisted: Option<String>,
    ) -> Option<Line> {
        let is_new = |why: &String| self.unlisted.len() < MOST_REASONS && !self.unlisted.contains(why);
        if let Some(why) = unlisted.filter(is_new) {
            self.unlisted.push(why.clone());
            return Some(Line::Unlisted(why));
        }
        match not_ready {
            Some(why) if waited >= LATE && !self.is_late => {
                self.is_late = true;
                Some(Line::Late(why))
            }
            None if self.is_late || !self.unlisted.is_empty() => Some(Line::Ready),
            _ => None,
        }
    }
}

/// Some reasons in one text: the first ones, and the number of the others. None if there are none.
pub(super) fn in_one_text(mut reasons: impl Iterator<Item = String>) -> Option<String> {
    let named: Vec<String> = reasons.by_ref().take(MOST_REASONS).collect();
    let others = reasons.count();
    let text = named.join("; ");
    match others {
        _ if named.is_empty() => None,
        0 => Some(text),
        others => Some(format!("{text}; and {others} more")),
    }
}

impl Manager {
    /// Logs why the host is not ready, until it is.
    pub(super) async fn log_start(&self) {
        let (mut log, started) = (StartLog::default(), Instant::now());
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let not_ready = self.not_ready();
            let is_ready = not_ready.is_none();
            let unlisted = self.0.objects.get().and_then(PluginTable::why_refused);
            match log.look(started.elapsed(), not_ready, unlisted) {
                Some(Line::Unlisted(why)) => {
                    tracing::warn!(
                        event = "plugins_unlisted",
                        "the host is not ready and tries again: {why}"
                    );
                }
                Some(Line::Late(why)) => {
                    tracing::warn!(event = "host_not_ready", "the host is not ready yet: {why}");
                }
                Some(Line::Ready) => tracing::info!(event = "host_ready", "the host is ready"),
                None => {}
            }
            if is_ready {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_logged_once_and_a_host_that_is_ready_in_time_logs_nothing() {
        let mut log = StartLog::default();
        let mut look = |seconds, not_ready: &str, unlisted: &str| {
            let some = |why: &str| (!why.is_empty()).then(|| why.to_owned());
            log.look(Duration::from_secs(seconds), some(not_ready), some(unlisted))
        };
        assert_eq!(look(0, "listing", ""), None);
        assert_eq!(look(1, "no kind", "no kind"), Some(Line::Unlisted("no kind".to_owned())));
        assert_eq!(look(2, "no kind", "no kind"), None, "the same at each retry is no news");
        assert_eq!(look(3, "forbidden", "forbidden"), Some(Line::Unlisted("forbidden".to_owned())));
        assert_eq!(look(9, "plugin p: loading", ""), None);
        assert_eq!(look(10, "plugin p: loading", ""), Some(Line::Late("plugin p: loading".to_owned())));
        assert_eq!(look(11, "plugin q: loading", ""), None);
        assert_eq!(look(12, "", ""), Some(Line::Ready));
        assert_eq!(look(13, "", "no kind"), Some(Line::Ready), "a reason that comes back is no news");
        let mut quick = StartLog::default();
        assert_eq!(quick.look(Duration::ZERO, Some("listing".to_owned()), None), None);
        assert_eq!(quick.look(Duration::from_secs(1), None, None), None);
    }

    #[test]
    fn a_server_that_refuses_for_ever_new_reasons_does_not_fill_the_log() {
        let mut log = StartLog::default();
        let look = |n: usize| {
            let why = format!("request {n} is forbidden");
            log.look(Duration::from_secs(1), Some("listing".to_owned()), Some(why))
        };
        let lines = (0..1000).filter_map(look).count();
        assert_eq!((lines, log.unlisted.len()), (MOST_REASONS, MOST_REASONS));
    }

    #[test]
    fn the_first_reasons_are_named_and_the_others_counted() {
        let text = |count: usize| in_one_text((0..count).map(|n| format!("plugin p{n}: loading")));
        assert_eq!(text(0), None);
        assert_eq!(text(2).as_deref(), Some("plugin p0: loading; plugin p1: loading"));
        let all = text(MOST_REASONS).unwrap();
        assert!(all.ends_with("plugin p7: loading"), "{all}");
        assert_eq!(text(MOST_REASONS + 3), Some(format!("{all}; and 3 more")));
    }
}
