//! [`Leadership`]: one term of one leader, as those see it who work under it; [`FencingToken`]: the number it leaves on
//! what it writes elsewhere.
//!
//! Invariants: `valid` only grows while the term lasts, and is zero from when it has ended; whoever asks compares it with
//! the clock, so nothing has to run for the answer to become "no". Who finds that the time is over ends the term, so the
//! answer never becomes "yes" again, whatever renewal is answered at the same moment.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock::BootInstant;

/// Tells the terms of one lock apart: a later term has more transitions, as long as the lock's object is the same.
///
/// A system that keeps the largest it was shown, and refuses smaller ones, is safe from a leader that does not yet know
/// that it is none any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FencingToken {
    /// The lock, as `NAMESPACE/NAME`.
    pub lock: String,
    /// UID of the lock's object when the term began.
    pub uid: String,
    /// How many times the lock had changed hands when the term began.
    pub transitions: i32,
    /// Version of the lock's object by which the term began. It tells two terms apart that a candidate of the same
    /// identity had one after the other, which is no transition.
    pub resource_version: String,
}

impl fmt::Display for FencingToken {
    /// `NAMESPACE/NAME/UID/TRANSITIONS/VERSION`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.lock, self.uid, self.transitions, self.resource_version)
    }
}

/// One term of a leader; a cheap clone.
#[derive(Debug, Clone)]
pub struct Leadership(Arc<Term>);

#[derive(Debug)]
struct Term {
    token: FencingToken,
    began: BootInstant,
    /// Nanoseconds from `began` for which the term is valid; zero when it has ended.
    valid: AtomicU64,
    cancelled: CancellationToken,
}

impl Leadership {
    /// A term that ends after `valid` from `began` unless it is renewed.
    pub(crate) fn new(token: FencingToken, began: BootInstant, valid: Duration) -> Self {
        let valid = AtomicU64::new(nanos(valid));
        Self(Arc::new(Term { token, began, valid, cancelled: CancellationToken::new() }))
    }

    /// What tells this term from others.
    #[must_use]
    pub fn token(&self) -> &FencingToken {
        &self.0.token
    }

    /// Whether the term still lasts, by local time. Turns false no later than the renew deadline after the last good
    /// renewal was sent, also when nothing of this process has run meanwhile: because it was stopped, or because the machine
    /// was suspended. Reads three clocks.
    ///
    /// What is begun after the answer may still outlast the term: that is what the token is for.
    #[must_use]
    pub fn is_leading(&self) -> bool {
        let now = nanos(self.0.began.elapsed());
        let mut valid = self.0.valid.load(SeqCst);
        while now >= valid {
            match self.0.valid.compare_exchange(valid, 0, SeqCst, SeqCst) {
                Ok(_) => return false,
                // It was renewed or ended meanwhile.
                Err(other) => {
                    if other == 0 {
                        return false;
                    }
                    valid = other;
                }
            }
        }
        true
    }

    /// Completes when the work must stop: the term is lost, or the one who runs the election wants it to end. In the
    /// second case the term goes on being renewed until the work has ended.
    pub async fn cancelled(&self) {
        self.0.cancelled.cancelled().await;
    }

    /// Whether the work must stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.is_cancelled()
    }

    /// When the term ends unless it is renewed; earlier if the machine is suspended.
    pub(crate) fn deadline(&self) -> Instant {
        self.0.began.awake + Duration::from_nanos(self.0.valid.load(SeqCst))
    }

    /// A renewal that was sent at `sent` was good. `false` when the term has ended, which it does not prolong.
    pub(crate) fn renewed(&self, sent: BootInstant, valid: Duration) -> bool {
        self.prolong(sent.duration_since(self.0.began) + valid)
    }

    /// The term lasts for so long from when it began, or longer. `false` when it has ended, which nothing prolongs.
    pub(crate) fn prolong(&self, valid: Duration) -> bool {
        let until = nanos(valid);
        let lasts = |before: u64| (before != 0).then(|| before.max(until));
        self.is_leading() && self.0.valid.fetch_update(SeqCst, SeqCst, lasts).is_ok()
    }

    /// Asks the work to stop.
    pub(crate) fn cancel(&self) {
        self.0.cancelled.cancel();
    }

    /// The term is over.
    pub(crate) fn end(&self) {
        self.0.valid.store(0, SeqCst);
        self.0.cancelled.cancel();
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::testing::suspend;

    #[tokio::test(start_paused = true)]
    async fn a_term_that_has_ended_is_not_renewed() {
        let second = Duration::from_secs(1);
        let token = FencingToken {
            lock: String::new(),
            uid: String::new(),
            transitions: 0,
            resource_version: String::new(),
        };
        let began = BootInstant::now();
        let after = |seconds| BootInstant { awake: began.awake + second * seconds, ..began };
        let term = Leadership::new(token.clone(), began, second * 10);
        tokio::time::advance(second * 9).await;
        assert!(term.renewed(after(2), second * 10) && term.is_leading());
        // An older one does not shorten it.
        assert!(term.renewed(after(1), second * 10));
        assert_eq!(term.deadline() - began.awake, second * 12);
        tokio::time::advance(second * 3).await;
        // Whether or not anybody has asked.
        assert!(!term.renewed(after(11), second * 10) && !term.is_leading());

        let term = Leadership::new(token, BootInstant::now(), second * 10);
        term.end();
        assert!(!term.renewed(BootInstant::now(), second * 10) && !term.is_leading());
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_does_not_outlast_the_suspension_of_the_machine() {
        let second = Duration::from_secs(1);
        let token = FencingToken {
            lock: String::new(),
            uid: String::new(),
            transitions: 0,
            resource_version: String::new(),
        };
        let term = Leadership::new(token, BootInstant::now(), second * 10);
        tokio::time::advance(second * 4).await;
        suspend(second * 5);
        assert!(term.is_leading());
        // A renewal counts from when it was sent, suspension included.
        let sent = BootInstant::now();
        suspend(second * 3);
        assert!(!term.is_leading() && !term.renewed(sent, second * 10), "twelve seconds have passed");
        let term = Leadership::new(term.token().clone(), BootInstant::now(), second * 10);
        suspend(second * 4);
        assert!(term.renewed(BootInstant::now(), second * 10));
        suspend(second * 9);
        assert!(term.is_leading());
        // A thread that is paused between its readings of two clocks takes some of the suspension for time awake.
        tokio::time::advance(second * 2).await;
        assert!(!term.is_leading());
    }
}
