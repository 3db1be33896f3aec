//! [`InstancePool`]: the instances of all plugins of the host, leased to calls and kept warm between them.
//!
//! A worker leases an instance when it has keys, and a pump when it has events. The [`Lease`] ends when there is nothing more
//! to call. The instance then stays warm in the pool, until it is leased again, has been idle for long, or goes for
//! another one ([`ledger`] has the rules). Waiting for a lease is no fault of anybody.
//!
//! One task for the whole host drops instances that have been idle for long. It exists only while there are any.
//!
//! Invariants: an instance runs calls of its own generation only; with the last instance of a generation the mapped code
//! goes, and the next call maps it again from the `.cwasm`. No instance is dropped under the lock.

mod ledger;
pub(crate) mod memory;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_engine::{Fault, FaultKind, GuestMemory, HostImports};
use pilothouse_executor::{Executor, Group};
use pilothouse_plugin::Limits;
use tokio::sync::oneshot;
use tokio::time::Instant;

pub(crate) use self::ledger::PoolBounds;
use self::ledger::{Granted, Ledger, TenantId, Ticket, UsedBy};
use crate::dispatch::guest::{Component, Guest};
use crate::lifecycle::generation::Generation;
use crate::lifecycle::plugin::Plugin;

/// The instances of a host; a cheap clone.
#[derive(Clone)]
pub(crate) struct InstancePool(Arc<PoolInner>);

struct PoolInner {
    state: Mutex<PoolState>,
    /// How long an instance stays warm without a call.
    idle_ttl: Duration,
    /// Number of those who wait for a lease, readable without the lock.
    waiting: AtomicUsize,
    /// Runs the task that drops idle instances.
    group: Group,
}

struct PoolState {
    ledger: Ledger<Warm>,
    waiting: HashMap<Ticket, Waiter>,
    /// The task that drops idle instances exists.
    is_sweeping: bool,
}

/// The account of one plugin.
pub(crate) struct Tenant {
    pool: InstancePool,
    id: TenantId,
    /// Number of the current generation: idle instances of others are dropped.
    generation: AtomicU64,
}

/// The right to one instance.
pub(crate) struct Lease {
    tenant: Arc<Tenant>,
    warm: Option<Warm>,
    charged: u64,
}

/// An instance and the generation it belongs to.
struct Warm {
    generation: Arc<Generation>,
    /// There until it is dropped.
    guest: Option<Box<dyn Guest>>,
}

impl Warm {
    /// Whether it is to run another call.
    fn goes_on(&self) -> bool {
        self.guest.as_ref().is_some_and(|guest| guest.is_usable() && !guest.is_worn_out())
    }
}

impl Drop for Warm {
    fn drop(&mut self) {
        // The code stays mapped until the instance is gone.
        self.guest = None;
        self.generation.instance_dropped();
    }
}

impl std::fmt::Debug for InstancePool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InstancePool").finish_non_exhaustive()
    }
}

impl InstancePool {
    /// A pool without instances.
    pub(crate) fn new(bounds: PoolBounds, idle_ttl: Duration, executor: &Executor) -> Self {
        let state = PoolState { ledger: Ledger::new(bounds), waiting: HashMap::new(), is_sweeping: false };
        Self(Arc::new(PoolInner {
            state: Mutex::new(state),
            idle_ttl,
            waiting: AtomicUsize::new(0),
            group: executor.group(),
        }))
    }

    /// Sets the bound of the memory that instances grow to in calls; idle instances go before a growth is refused.
    pub(crate) fn bound(&self, memory: &GuestMemory) {
        let pool = Arc::downgrade(&self.0);
        let make_room = move |bytes| {
            let Some(pool) = pool.upgrade().map(Self) else { return false };
            let idle = pool.0.state.lock().ledger.idle_bytes();
            idle >= bytes && pool.evict_one()
        };
        let bounds = self.0.state.lock().ledger.bounds();
        memory.set_bound(bounds.memory, make_room);
    }

    /// Adds a plugin, which may lease nothing yet.
    pub(crate) fn tenant(&self) -> Arc<Tenant> {
        let id = self.0.state.lock().ledger.add_tenant();
        Arc::new(Tenant { pool: self.clone(), id, generation: AtomicU64::new(0) })
    }

    /// Drops the idle instance that was used least recently, to make room for another; `false` if there is none.
    fn evict_one(&self) -> bool {
        let mut evicted = Vec::new();
        let any = self.0.state.lock().ledger.evict(&mut evicted);
        drop(evicted);
        any
    }

    /// Makes an instance. The engine may have no room for it although the pool has: then an idle instance goes.
    async fn instantiate(
        &self,
        code: &dyn Component,
        imports: &Arc<dyn HostImports>,
        limits: Limits,
    ) -> Result<Box<dyn Guest>, Fault> {
        let make = || code.instantiate(Arc::clone(imports), limits);
        match make().await {
            Err(fault) if fault.kind == FaultKind::HostBusy && self.evict_one() => make().await,
            made => made,
        }
    }

    /// Makes an instance for calls of a plugin.
    async fn instantiate_for(
        &self,
        plugin: &Arc<Plugin>,
        generation: &Arc<Generation>,
    ) -> Result<Box<dyn Guest>, Fault> {
        let began = Instant::now();
        let imports: Arc<dyn HostImports> = generation.imports.clone();
        let made = self.instantiate(&*generation.code, &imports, generation.limits).await;
        let guest = made.inspect_err(|fault| {
            if fault.kind == FaultKind::CodeUnavailable {
                plugin.code_lost(generation, fault);
            }
        })?;
        plugin.metrics().instantiations.inc();
        plugin.metrics().instantiate_time.observe(began.elapsed().as_secs_f64());
        Ok(guest)
    }

    /// Bytes of all instances.
    #[cfg(test)]
    pub(crate) fn used(&self) -> u64 {
        self.0.state.lock().ledger.used()
    }

    /// Changes the ledger, and grants the leases that become possible.
    fn change(&self, change: impl FnOnce(&mut Ledger<Warm>, &mut Vec<Warm>)) {
        let mut evicted = Vec::new();
        let mut state = self.0.state.lock();
        change(&mut state.ledger, &mut evicted);
        let granted = state.ledger.serve(&mut evicted);
        let granted: Vec<_> = granted
            .into_iter()
            .filter_map(|(ticket, granted)| Some((state.waiting.remove(&ticket)?, granted)))
            .collect();
        self.0.waiting.store(state.waiting.len(), Relaxed);
        drop(state);
        drop(evicted);
        for (Waiter { tenant, sender }, granted) in granted {
            // A waiter that gave up meanwhile drops the lease, which ends it.
            let _ = sender.send(tenant.lease_of(granted));
        }
    }

    /// Starts the task that drops idle instances, unless it runs.
    fn sweep(&self) {
        if std::mem::replace(&mut self.0.state.lock().is_sweeping, true) {
            return;
        }
        let pool = self.clone();
        self.0.group.spawn(async move { pool.run_sweeper().await });
    }

    async fn run_sweeper(&self) {
        while let Some(since) = self.drop_expired() {
            tokio::time::sleep_until(since + self.0.idle_ttl).await;
        }
    }

    /// Drops what has been idle for long; since when the next instance has been idle. None: the task ends.
    fn drop_expired(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut state = self.0.state.lock();
        let (expired, next) = match now.checked_sub(self.0.idle_ttl) {
            Some(limit) => state.ledger.expire(limit),
            None => (Vec::new(), Some(now)),
        };
        state.is_sweeping = next.is_some();
        drop(state);
        drop(expired);
        next
    }
}

impl Tenant {
    /// Waits for an instance; those who wait are served in their order. Cancel-safe.
    async fn lease(self: &Arc<Self>) -> Lease {
        let (receiver, _wait) = match self.try_lease() {
            Ok(lease) => return lease,
            Err(wait) => wait,
        };
        match receiver.await {
            Ok(lease) => lease,
            // The pool keeps the sender until it sends.
            Err(_) => std::future::pending().await,
        }
    }

    /// A lease, or a place among those who wait.
    fn try_lease(self: &Arc<Self>) -> Result<Lease, (oneshot::Receiver<Lease>, Wait<'_>)> {
        let mut evicted = Vec::new();
        let mut state = self.pool.0.state.lock();
        if let Some(granted) = state.ledger.lease(self.id, &mut evicted) {
            drop(state);
            drop(evicted);
            return Ok(self.lease_of(granted));
        }
        let ticket = state.ledger.wait(self.id);
        let (sender, receiver) = oneshot::channel();
        state.waiting.insert(ticket, Waiter { tenant: Arc::clone(self), sender });
        self.pool.0.waiting.store(state.waiting.len(), Relaxed);
        drop(state);
        Err((receiver, Wait { pool: &self.pool, ticket }))
    }

    /// Whether somebody waits for a lease. A worker that goes on for long then gives its own back in between.
    pub(crate) fn is_contended(&self) -> bool {
        self.pool.0.waiting.load(Relaxed) > 0
    }

    fn lease_of(self: &Arc<Self>, granted: Granted<Warm>) -> Lease {
        Lease { tenant: Arc::clone(self), warm: granted.instance, charged: granted.charged }
    }

    /// Makes an instance besides those of the plugin's calls, for `describe`: it counts among the instances of the host, and
    /// idle ones of other plugins go for it. The caller drops it before the lease.
    pub(crate) async fn extra(
        &self,
        code: &dyn Component,
        imports: Arc<dyn HostImports>,
        limits: Limits,
    ) -> Result<(Lease, Box<dyn Guest>), Fault> {
        let tenant = self.pool.tenant();
        tenant.set_limit(1);
        let mut lease = tenant.lease().await;
        let guest = self.pool.instantiate(code, &imports, limits).await?;
        lease.charge(guest.memory());
        Ok((lease, guest))
    }

    fn set_limit(&self, instances: u32) {
        self.pool.change(|ledger, _| ledger.set_limit(self.id, instances));
    }

    /// A generation becomes the current one, with at most so many instances. Idle instances of the one before are dropped.
    pub(crate) fn set_generation(&self, number: u64, instances: u32) {
        self.generation.store(number, Relaxed);
        self.pool.change(|ledger, dropped| {
            dropped.extend(ledger.take_idle_of(self.id));
            ledger.set_limit(self.id, instances);
        });
    }

    /// The instances of this plugin.
    pub(crate) fn used(&self) -> UsedBy {
        self.pool.0.state.lock().ledger.used_by(self.id)
    }

    /// Drops the idle instances; those that are leased go with their lease.
    pub(crate) fn retire(&self) {
        self.generation.store(u64::MAX, Relaxed);
        self.pool.change(|ledger, dropped| dropped.extend(ledger.take_idle_of(self.id)));
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        let left = self.pool.0.state.lock().ledger.remove_tenant(self.id);
        drop(left);
    }
}

/// One that waits for a lease.
struct Waiter {
    tenant: Arc<Tenant>,
    sender: oneshot::Sender<Lease>,
}

/// Ends a wait that is dropped.
struct Wait<'a> {
    pool: &'a InstancePool,
    ticket: Ticket,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.0.state.lock();
        state.ledger.give_up(self.ticket);
        let waiter = state.waiting.remove(&self.ticket);
        self.pool.0.waiting.store(state.waiting.len(), Relaxed);
        drop(state);
        drop(waiter);
    }
}

impl Lease {
    /// Whether there is an instance that is usable and of this generation.
    fn is_ready(&self, generation: &Generation) -> bool {
        let usable = |warm: &Warm| warm.generation.number == generation.number && warm.goes_on();
        self.warm.as_ref().is_some_and(usable)
    }

    /// The instance, if it is usable and of this generation, or a new one.
    async fn guest(
        &mut self,
        plugin: &Arc<Plugin>,
        generation: &Arc<Generation>,
    ) -> Result<&mut dyn Guest, Fault> {
        if !self.is_ready(generation) {
            self.warm = None;
            let guest = self.tenant.pool.instantiate_for(plugin, generation).await?;
            generation.instance_made();
            self.warm = Some(Warm { generation: Arc::clone(generation), guest: Some(guest) });
        }
        self.recharge();
        match self.warm.as_mut().and_then(|warm| warm.guest.as_mut()) {
            Some(guest) => Ok(&mut **guest),
            None => Err(Fault { kind: FaultKind::HostBusy, message: "no instance".to_owned() }),
        }
    }

    /// Charges the lease what its instance has.
    fn recharge(&mut self) {
        if let Some(guest) = self.warm.as_ref().and_then(|warm| warm.guest.as_ref()) {
            let memory = guest.memory();
            self.charge(memory);
        }
    }

    fn charge(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        if bytes != self.charged {
            self.tenant.pool.0.state.lock().ledger.recharge(self.tenant.id, self.charged, bytes);
            self.charged = bytes;
        }
    }
}

/// Ends the lease: the instance stays warm in the pool if it can run another call of the current generation.
impl Drop for Lease {
    fn drop(&mut self) {
        self.recharge();
        let Tenant { pool, id, generation } = &*self.tenant;
        let current = generation.load(Relaxed);
        let kept = self.warm.take_if(|warm| warm.goes_on() && warm.generation.number == current);
        // One that is not kept goes before its charge does.
        self.warm = None;
        let is_idle = kept.is_some();
        let charged = self.charged;
        pool.change(|ledger, evicted| ledger.give_back(*id, charged, kept, Instant::now(), evicted));
        if is_idle {
            pool.sweep();
        }
    }
}

/// A place for the instance of a worker or a pump: empty while there is nothing to call.
#[derive(Default)]
pub(crate) struct WarmInstance(Option<Lease>);

impl WarmInstance {
    /// Waits for a lease, unless there is one, and for the machine code if that is lost. The wait may be long: what must
    /// hold for a call is checked after it. Cancel-safe.
    pub(crate) async fn lease(&mut self, plugin: &Plugin) {
        if self.0.is_none() {
            plugin.await_code().await;
            self.0 = Some(plugin.instances().lease().await);
        }
    }

    /// Whether [`get`](Self::get) answers at once, with an instance that is there.
    pub(crate) fn is_ready(&self, generation: &Generation) -> bool {
        self.0.as_ref().is_some_and(|lease| lease.is_ready(generation))
    }

    /// The instance, if it is usable and of this generation, or another one; waits for a lease if there is none.
    pub(crate) async fn get(
        &mut self,
        plugin: &Arc<Plugin>,
        generation: &Arc<Generation>,
    ) -> Result<&mut dyn Guest, Fault> {
        let lease = match self.0.take() {
            Some(lease) => lease,
            None => plugin.instances().lease().await,
        };
        self.0.insert(lease).guest(plugin, generation).await
    }

    /// Drops the instance, and keeps the lease.
    pub(crate) fn discard(&mut self) {
        if let Some(lease) = &mut self.0 {
            lease.warm = None;
        }
    }

    /// Ends the lease.
    pub(crate) fn release(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests;
