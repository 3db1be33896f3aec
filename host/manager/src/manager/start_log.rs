//! [`StartLog`]: what is logged about a host that is not ready yet. A kubelet's probe gets no reasons, so the log has them.
//!
//! Invariants: a reason why the Plugins of the cluster cannot be listed is logged when it differs from the last one; that the host
//! is late is logged once, and so is that it became ready after either. Nothing is logged of a host that is ready in time.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use super::Manager;
use crate::lifecycle::plugin_objects::PluginTable;

/// How often a host that is not ready is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long a start may take without a line: longer than the compilation of most components.
const LATE: Duration = Duration::from_secs(10);

/// What was logged so far.
#[derive(Debug, Default)]
struct StartLog {
    /// The last reason why the Plugins cannot be listed.
    unlisted: Option<String>,
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
        let unlisted = unlisted.filter(|why| self.unlisted.as_ref() != Some(why));
        if let Some(why) = unlisted {
            self.unlisted = Some(why.clone());
            return Some(Line::Unlisted(why));
        }
        match not_ready {
            Some(why) if waited >= LATE && !self.is_late => {
                self.is_late = true;
                Some(Line::Late(why))
            }
            None if self.is_late || self.unlisted.is_some() => Some(Line::Ready),
            _ => None,
        }
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
        let mut quick = StartLog::default();
        assert_eq!(quick.look(Duration::ZERO, Some("listing".to_owned()), None), None);
        assert_eq!(quick.look(Duration::from_secs(1), None, None), None);
    }
}
