//! [`ShardsTask`]: carries out the rules of one host: clock, requests, watch, and the terms that others see.
//!
//! Invariant: a term that others see ends no later, by its own reading of the clock, than the machine's does: both count
//! from the same reading.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use pilothouse_client::Client;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::handover_times::HandoverTimes;
use super::lease::ShardLease;
use super::machine::{Effect, Machine, MachineConfig};
use super::names::{LeaseNames, shards_of_holder};
use super::store::{LeaseStore, Seen};
use super::{Command, Inner, Shards, ShardsConfig, View};
use crate::clock::BootInstant;
use crate::config::ConfigError;
use crate::leadership::{FencingToken, Leadership};
use crate::lock::LockError;

/// Shares plugins with other hosts, for as long as it runs.
pub struct ShardsTask {
    shards: Shards,
    machine: Machine,
    store: Arc<LeaseStore>,
    commands: UnboundedReceiver<Command>,
    /// The zero of the machine's clock.
    origin: BootInstant,
    terms: Terms,
    times: HandoverTimes,
}

/// The terms that last, with when each began by the machine's clock. All end when this is dropped.
struct Terms(Vec<Option<(Leadership, Duration)>>);

impl Drop for Terms {
    fn drop(&mut self) {
        self.0.iter().flatten().for_each(|(term, _)| term.end());
    }
}

impl Shards {
    /// A host that shares plugins by the Leases of this name, and the task that does it. Requests are made on `runtime`,
    /// where nothing else should delay a renewal.
    ///
    /// # Errors
    /// As [`ShardsConfig::validate`], and when namespace or name cannot be those of Leases.
    pub fn new(
        client: &Client,
        namespace: &str,
        name: &str,
        config: ShardsConfig,
        runtime: &Handle,
    ) -> Result<(Self, ShardsTask), ConfigError> {
        config.validate()?;
        let names = LeaseNames::new(name);
        let times = (config.election.lease_duration, config.election.retry_period);
        let store = LeaseStore::new(client, namespace, names.clone(), times, runtime)?;
        let machine = Machine::new(MachineConfig {
            names,
            identity: config.election.identity.clone(),
            shards: config.shards,
            lease_duration: config.election.lease_duration,
            renew_deadline: config.election.renew_deadline,
            retry_period: config.election.retry_period,
            join_delay: config.join_delay,
        });
        let (sender, commands) = unbounded_channel();
        let terms = Terms((0..config.shards).map(|_| None).collect());
        let times = HandoverTimes::new(config.shards);
        let shards = Self(Arc::new(Inner {
            lease: store.describe(),
            terms: (0..config.shards).map(|_| watch::Sender::new(None)).collect(),
            commands: sender,
            view: Mutex::new(View::default()),
            config,
        }));
        let (store, origin) = (Arc::new(store), BootInstant::now());
        Ok((shards.clone(), ShardsTask { shards, machine, store, commands, origin, terms, times }))
    }
}

impl ShardsTask {
    /// Shares plugins until everything was given up after [`Shards::leave`]. When the future is dropped, all terms end, and
    /// others wait for the end of the lease.
    pub async fn run(mut self) {
        let (seen, mut changes) = unbounded_channel();
        let store = Arc::clone(&self.store);
        let mut following = std::pin::pin!(store.follow(&seen));
        let mut requests = JoinSet::new();
        loop {
            // One reading, before anything is decided by it.
            let reading = BootInstant::now();
            let now = reading.duration_since(self.origin);
            let mut is_lost = false;
            for effect in self.machine.poll(now, Timestamp::now()) {
                match effect {
                    Effect::Send { id, request } => {
                        let store = Arc::clone(&self.store);
                        let limit = self.shards.0.config.election.request_timeout();
                        requests.spawn(async move {
                            let late = || LockError::NoAnswer(format!("no answer within {limit:?}"));
                            let answer = timeout(limit, store.carry_out(request)).await;
                            (id, answer.unwrap_or_else(|_| Err(late())))
                        });
                    }
                    Effect::Left => return,
                    effect => is_lost |= self.change_terms(effect, reading, now),
                }
            }
            self.show(now);
            if is_lost {
                continue;
            }
            let pause = self.machine.wake_at().saturating_sub(now);
            tokio::select! {
                Some(command) = self.commands.recv() => match command {
                    Command::Ready => self.machine.set_ready(),
                    Command::Leave => self.machine.leave(),
                    Command::WorkEnded(shard) => self.machine.work_ended(shard),
                },
                Some(answered) = requests.join_next() => {
                    // A request that panicked has no number; the machine would wait for its answer.
                    let (id, answer) = answered.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
                    if let Err(error) = &answer {
                        tracing::debug!(lease = self.shards.lease(), "a request on a Lease failed: {error}");
                    }
                    self.machine.answered(self.now(), id, answer);
                }
                Some(seen) = changes.recv() => {
                    let now = self.now();
                    match seen {
                        Seen::Listed { version, leases } => self.machine.listed(now, version, leases),
                        Seen::Changed(lease) => self.machine.changed(now, lease),
                        Seen::Deleted { name, version } => self.machine.deleted(now, &name, version),
                    }
                }
                () = &mut following => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// The machine's clock.
    fn now(&self) -> Duration {
        BootInstant::now().duration_since(self.origin)
    }

    /// Begins and ends terms; `reading` is `now` by the clock of terms. Whether a term was lost meanwhile.
    fn change_terms(&mut self, effect: Effect, reading: BootInstant, now: Duration) -> bool {
        let mut is_lost = false;
        match effect {
            Effect::Begin { shard, claim, until } => {
                let token = self.token(claim);
                let free_for = self.times.taken(shard, now).map(tracing::field::debug);
                tracing::info!(
                    event = "shard_taken",
                    shard,
                    token = %token,
                    free_for,
                    "this host runs the plugins of a shard"
                );
                let term = Leadership::new(token, reading, until.saturating_sub(now));
                self.terms.0[shard] = Some((term.clone(), now));
                self.shards.0.terms[shard].send_replace(Some(term));
            }
            Effect::Renewed { until } => {
                for (shard, term) in self.terms.0.iter().enumerate() {
                    let Some((term, began)) = term else { continue };
                    if !term.prolong(until.saturating_sub(*began)) {
                        is_lost = true;
                        self.machine.term_lost(shard);
                    }
                }
            }
            Effect::Cancel { shard } => {
                tracing::info!(
                    event = "shard_yielding",
                    shard,
                    "shard given up: no new calls of its plugins"
                );
                self.times.yields(shard, now);
                self.terms.0[shard].iter().for_each(|(term, _)| term.cancel());
            }
            Effect::End { shard } => {
                let took = self.times.ended(shard, now);
                if let Some((term, began)) = self.terms.0[shard].take() {
                    // A term that is given up lasts until its work has ended, unless it is lost before.
                    if let Some(took) = took.filter(|_| term.is_leading()) {
                        tracing::info!(
                            event = "shard_released",
                            shard,
                            ?took,
                            held = ?now.saturating_sub(began),
                            "the last calls of the shard have ended: others may take it"
                        );
                    } else {
                        tracing::error!(
                            event = "shard_lost",
                            shard,
                            "shard lost: this host could not renew its Lease in time, or somebody else has the shard"
                        );
                    }
                    term.end();
                }
            }
            Effect::Send { .. } | Effect::Left => {}
        }
        is_lost
    }

    fn token(&self, claim: ShardLease) -> FencingToken {
        let (namespace, _) = self.shards.lease().split_once('/').unwrap_or_default();
        FencingToken {
            lock: format!("{namespace}/{}", claim.name),
            transitions: claim.record().leader_transitions,
            uid: claim.stored.uid,
            resource_version: claim.stored.resource_version,
        }
    }

    /// Shows others what is known.
    fn show(&mut self, now: Duration) {
        let looked = Instant::now();
        let instant = |at: Duration| looked.checked_sub(now.saturating_sub(at));
        let (own, machine) = (self.shards.identity(), &self.machine);
        let hosts = machine.hosts(now);
        for shard in 0..self.shards.count() {
            let (holder, _) = machine.holder(shard);
            // Between the answer to its claim and its term the shard has nobody yet.
            if holder != own {
                self.times.saw(shard, !hosts.iter().any(|host| host == holder), now);
            }
        }
        let of_shards = || (0..self.shards.count()).map(|shard| machine.holder(shard));
        let at_work = |(holder, at): (&str, Option<Duration>)| at.filter(|_| holder != own).and_then(instant);
        let view = View {
            holders: of_shards().map(|(holder, _)| holder.to_owned()).collect(),
            at_work: of_shards().map(at_work).collect(),
            hosts,
            kept_out_by: machine.kept_out_by().map(str::to_owned),
            looked: Some(looked),
        };
        let before = std::mem::replace(&mut *self.shards.0.view.lock(), view);
        let kept_out_by = machine.kept_out_by();
        if before.kept_out_by.as_deref() != kept_out_by
            && let Some(holder) = kept_out_by
        {
            let lease = self.shards.lease();
            let own = self.shards.count();
            match shards_of_holder(holder) {
                None => tracing::warn!(
                    event = "shards_kept_out",
                    lease,
                    holder,
                    "no shards are taken: the Lease is held by a host without shards; this host waits until it leads no more"
                ),
                Some(shards) => tracing::warn!(
                    event = "shards_differ",
                    lease,
                    holder,
                    "no shards are taken: the Lease {lease} is held by hosts with {shards} shards, and this host has {own}. It \
                     takes none before the Lease is deleted, even when those hosts are gone: start it with --shards={shards}, \
                     or stop all hosts and delete the Lease"
                ),
            }
        }
    }
}
