//! [`Shards`]: hosts share plugins. Each plugin belongs to one of a fixed number of shards, and each shard to one host.
//!
//! ```text
//!  Lease NAME            who may share at all: the group of hosts with so many shards, or a host without shards
//!  Lease NAME-host-…     one a host, renewed: whether it lives, and whether it is ready
//!  Lease NAME-shard-…    one a shard: its holder; written only when the shard changes hands
//!
//!  Shards (handle) ◄── ShardsTask ──► Machine    rules: claim, hold, give up; without I/O and without a clock
//!        │                  └───────► LeaseStore  requests and the watch
//!        └─► Leadership of each term, like that of an election
//! ```

mod handover_times;
mod lease;
mod machine;
mod names;
mod store;
mod task;
#[cfg(any(test, feature = "testing"))]
mod testing;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::config::{ConfigError, LeaderElectionConfig};
use crate::leadership::Leadership;

pub use names::shards_of_holder;
pub use task::ShardsTask;

/// How a host shares plugins with others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardsConfig {
    /// Name and times of the host. `release_on_cancel` and `name` are not used.
    pub election: LeaderElectionConfig,
    /// Shards of the group. All of its hosts must have the same number.
    pub shards: usize,
    /// For how long a host must have been ready before shards are moved to it.
    pub join_delay: Duration,
}

impl ShardsConfig {
    /// Enough for some ten hosts to have about equal parts.
    pub const DEFAULT_SHARDS: usize = 16;
    /// More than hosts would have work for; each is a Lease.
    pub const MAX_SHARDS: usize = 256;
    /// A process that crashes again and again is not ready for so long.
    pub const DEFAULT_JOIN_DELAY: Duration = Duration::from_secs(10);

    /// Checks the times, and the number of shards: 1 to [`MAX_SHARDS`](Self::MAX_SHARDS).
    ///
    /// # Errors
    /// Naming the first field that is wrong.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.election.validate()?;
        if (1..=Self::MAX_SHARDS).contains(&self.shards) {
            return Ok(());
        }
        Err(ConfigError {
            field: "shards",
            reason: format!("{} shards are too few or too many", self.shards),
            remedy: format!("use 1 to {}", Self::MAX_SHARDS),
        })
    }
}

/// The shards of one host; a cheap clone. [`ShardsTask`] claims and releases them.
#[derive(Clone)]
pub struct Shards(Arc<Inner>);

struct Inner {
    config: ShardsConfig,
    /// The group's Lease, as `NAMESPACE/NAME`.
    lease: String,
    /// The last term of each shard.
    terms: Vec<watch::Sender<Option<Leadership>>>,
    commands: UnboundedSender<Command>,
    view: Mutex<View>,
}

/// All terms of one shard, one after the other.
#[derive(Debug)]
pub struct ShardTerms(watch::Receiver<Option<Leadership>>);

impl ShardTerms {
    /// Waits for the next term, which may be over by now. Cancel-safe.
    ///
    /// The caller ends the work of the term when [`Leadership::cancelled`] completes, and then calls
    /// [`Shards::work_ended`]. Before that there is no other term of the shard, so none is left out.
    pub async fn next(&mut self) -> Leadership {
        while self.0.changed().await.is_ok() {
            let term = self.0.borrow_and_update().clone();
            if let Some(term) = term {
                return term;
            }
        }
        std::future::pending().await
    }
}

/// What the task is told.
enum Command {
    Ready,
    Leave,
    WorkEnded(usize),
}

/// What the task shows.
#[derive(Default)]
struct View {
    holders: Vec<String>,
    /// When each holder was surely at work.
    at_work: Vec<Option<Instant>>,
    hosts: Vec<String>,
    kept_out_by: Option<String>,
    /// When the task ran last.
    looked: Option<Instant>,
}

impl Shards {
    /// Number of shards.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.config.shards
    }

    /// The shard of a plugin: the same on all hosts.
    #[must_use]
    pub fn shard_of(&self, plugin: &str) -> usize {
        names::shard_of(plugin, self.count())
    }

    /// Name of this host.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.0.config.election.identity
    }

    /// The group's Lease, as `NAMESPACE/NAME`.
    #[must_use]
    pub fn lease(&self) -> &str {
        &self.0.lease
    }

    /// How long the shards of a host that does not renew are waited for.
    #[must_use]
    pub fn lease_duration(&self) -> Duration {
        self.0.config.election.lease_duration
    }

    /// The term that this host has of a shard, unless it is over or is ending.
    #[must_use]
    pub fn term(&self, shard: usize) -> Option<Leadership> {
        let term = self.0.terms.get(shard)?.borrow().clone();
        term.filter(|term| !term.is_cancelled())
    }

    /// The terms of a shard for the one who does their work, from the last one that has begun.
    #[must_use]
    pub fn follow(&self, shard: usize) -> Option<ShardTerms> {
        let mut terms = self.0.terms.get(shard)?.subscribe();
        terms.mark_changed();
        Some(ShardTerms(terms))
    }

    /// Waits for a term of a shard that lasts. One that ends before anybody looks is left out. Cancel-safe.
    pub async fn next_term(&self, shard: usize) -> Leadership {
        if let Some(terms) = self.0.terms.get(shard) {
            let mut terms = terms.subscribe();
            let lasts = |term: &Option<Leadership>| term.as_ref().is_some_and(|term| !term.is_cancelled());
            if let Ok(term) = terms.wait_for(lasts).await
                && let Some(term) = term.clone()
            {
                return term;
            }
        }
        std::future::pending().await
    }

    /// The work of the last term of a shard has ended.
    pub fn work_ended(&self, shard: usize) {
        self.tell(Command::WorkEnded(shard));
    }

    /// The plugins are loaded: shards may be moved to this host.
    pub fn set_ready(&self) {
        self.tell(Command::Ready);
    }

    /// This host ends: it takes no shard any more, and its terms are told to end.
    pub fn leave(&self) {
        self.tell(Command::Leave);
    }

    /// The holder of a shard that was seen last; empty when it has none.
    #[must_use]
    pub fn holder(&self, shard: usize) -> String {
        self.0.view.lock().holders.get(shard).cloned().unwrap_or_default()
    }

    /// A time at which another holder of a shard was surely at work, by local time: when it was seen to renew before its last
    /// renewal was.
    #[must_use]
    pub fn holder_at_work(&self, shard: usize) -> Option<Instant> {
        self.0.view.lock().at_work.get(shard).copied().flatten()
    }

    /// The hosts that live, as far as is known.
    #[must_use]
    pub fn hosts(&self) -> Vec<String> {
        self.0.view.lock().hosts.clone()
    }

    /// The shards that this host has terms of.
    #[must_use]
    pub fn held(&self) -> usize {
        let is_held = |shard: &usize| self.term(*shard).is_some_and(|term| term.is_leading());
        (0..self.count()).filter(is_held).count()
    }

    /// Who holds the group's Lease, if hosts without shards do, or hosts with another number of shards: this one works on
    /// nothing.
    #[must_use]
    pub fn kept_out_by(&self) -> Option<String> {
        self.0.view.lock().kept_out_by.clone()
    }

    /// Whether the task that renews runs; good before it has started.
    ///
    /// # Errors
    /// When it has not run for longer than a lease lasts and `tolerance`.
    pub fn check(&self, tolerance: Duration) -> Result<(), String> {
        let Some(looked) = self.0.view.lock().looked else { return Ok(()) };
        let (age, limit) = (looked.elapsed(), self.lease_duration() + tolerance);
        if age > limit {
            return Err(format!("shards of {}: the task that renews has not run for {age:?}", self.0.lease));
        }
        Ok(())
    }

    fn tell(&self, command: Command) {
        // Without the task there are no terms.
        let _ = self.0.commands.send(command);
    }
}

impl fmt::Debug for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shards").field("lease", &self.0.lease).field("config", &self.0.config).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_work_of_a_term_is_ended_even_if_nobody_has_looked_while_it_lasted() {
        let shards = Shards::without_leases("me", 1);
        let hour = Duration::from_secs(3600);
        let mut terms = shards.follow(0).expect("a shard");
        for _ in 0..2 {
            shards.begin_term(0, hour);
            shards.cancel_term(0);
            assert!(terms.next().await.is_cancelled());
        }
        shards.begin_term(0, hour);
        assert!(terms.next().await.is_leading());
        // One that has begun before counts as well.
        assert!(shards.follow(0).expect("a shard").next().await.is_leading());
        assert!(shards.follow(1).is_none());
    }

    #[test]
    fn a_number_of_shards_that_cannot_work_is_refused_by_field_reason_and_remedy() {
        let config = |shards| ShardsConfig {
            election: LeaderElectionConfig::new("me"),
            shards,
            join_delay: ShardsConfig::DEFAULT_JOIN_DELAY,
        };
        assert_eq!(config(ShardsConfig::DEFAULT_SHARDS).validate(), Ok(()));
        for shards in [0, ShardsConfig::MAX_SHARDS + 1] {
            let error = config(shards).validate().expect_err("an error");
            assert!(error.field == "shards" && error.remedy == "use 1 to 256", "{error}");
        }
        let mut config = config(1);
        config.election.renew_deadline = Duration::ZERO;
        assert_eq!(config.validate().expect_err("an error").field, "renew_deadline");
    }
}
