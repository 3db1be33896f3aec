//! [`Patience`]: when an open watch is taken for dead although its connection says nothing of it.
//!
//! Two rules. A server ends a watch after `timeoutSeconds`: one that is still open some time later is dead. And a server that sends
//! bookmarks sends them about every minute: once one has come, a watch without a byte for much longer is dead, as behind a load
//! balancer that has forgotten the connection while it answers pings itself.
//!
//! Invariants: one timer for a watch, moved only when it fires, so that an event costs a look at the clock and no more; a watch that has
//! shown no periodic bookmark is never called silent. [`WatchStream`](super::WatchStream) calls this.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// How long after `timeoutSeconds` a server that has not ended the watch is taken for dead.
const SLACK: Duration = Duration::from_secs(30);

/// When a watch is given up.
pub(super) struct Patience {
    /// When the server should have ended it long since.
    overdue: Option<Instant>,
    /// How long it may be silent.
    age: Option<Duration>,
    /// When something last came; `None` while no bookmark has said that something will.
    heard: Option<Instant>,
    /// Fires when one of the two may have come, or sooner.
    timer: Option<Pin<Box<Sleep>>>,
}

/// Why a watch is taken for dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dead {
    /// It outlived its timeout.
    Overdue,
    /// Nothing came for so long.
    Silent(Duration),
}

impl Dead {
    /// For people.
    pub(super) fn message(self) -> String {
        match self {
            Self::Overdue => {
                format!("still open {} s after its timeout: the connection is dead", SLACK.as_secs())
            }
            Self::Silent(age) => format!(
                "neither an event nor a bookmark for {age:?}, though bookmarks had come: the connection is dead"
            ),
        }
    }
}

impl Patience {
    /// For a watch that has been opened now.
    pub(super) fn new(timeout_seconds: Option<u32>, age: Option<Duration>) -> Self {
        let overdue = timeout_seconds.map(|s| Instant::now() + Duration::from_secs(s.into()) + SLACK);
        Self { overdue, age, heard: None, timer: None }
    }

    /// Bytes have come.
    pub(super) fn heard(&mut self) {
        if self.heard.is_some() {
            self.heard = Some(Instant::now());
        }
    }

    /// A bookmark has come that is one of a row: not that which ends initial events, which comes once.
    pub(super) fn bookmark(&mut self) {
        if self.age.is_some() {
            self.heard = Some(Instant::now());
        }
    }

    /// Ready when the watch is to be given up; to be asked when nothing else is to do.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Dead> {
        loop {
            let silent =
                self.heard.zip(self.age).and_then(|(heard, age)| Some((heard.checked_add(age)?, age)));
            let (due, why) = match (silent, self.overdue) {
                (Some((at, age)), overdue) if overdue.is_none_or(|overdue| at < overdue) => {
                    (at, Dead::Silent(age))
                }
                (_, Some(overdue)) => (overdue, Dead::Overdue),
                // Not without an overdue time where silence is not watched for.
                (_, None) => return Poll::Pending,
            };
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
            if timer.deadline() > due {
                timer.as_mut().reset(due);
            }
            ready!(timer.as_mut().poll(cx));
            if Instant::now() >= due {
                return Poll::Ready(why);
            }
            // Something has come since the timer was set.
            timer.as_mut().reset(due);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    const AGE: Duration = Duration::from_secs(300);

    fn seconds(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    async fn dead(patience: &mut Patience) -> Dead {
        poll_fn(|cx| patience.poll(cx)).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_is_dead_some_time_after_its_timeout() {
        let began = Instant::now();
        let mut patience = Patience::new(Some(600), Some(AGE));
        assert_eq!(dead(&mut patience).await, Dead::Overdue);
        assert_eq!(began.elapsed(), seconds(630));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_counts_from_the_last_byte_once_a_bookmark_has_come() {
        let began = Instant::now();
        let mut patience = Patience::new(Some(6000), Some(AGE));
        let quiet = async |patience: &mut Patience, s| {
            assert!(tokio::time::timeout(seconds(s), dead(patience)).await.is_err(), "dead within {s} s");
        };
        // Events alone promise nothing.
        patience.heard();
        quiet(&mut patience, 1000).await;
        patience.bookmark();
        quiet(&mut patience, 299).await;
        patience.heard();
        quiet(&mut patience, 299).await;
        assert_eq!(dead(&mut patience).await, Dead::Silent(AGE));
        assert_eq!(began.elapsed(), seconds(1000 + 299 + 300));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_timeout_and_without_bookmarks_there_is_no_end() {
        for (age, bookmark) in [(None, true), (Some(AGE), false), (Some(Duration::MAX), true)] {
            let mut patience = Patience::new(None, age);
            if bookmark {
                patience.bookmark();
            }
            let waited = tokio::time::timeout(seconds(100_000), dead(&mut patience)).await;
            assert!(waited.is_err(), "{age:?}");
        }
    }
}
