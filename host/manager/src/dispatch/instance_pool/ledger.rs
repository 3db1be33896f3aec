//! [`Ledger`]: who may have an instance, and which idle instance goes for it.
//!
//! Rules:
//! - a tenant (a plugin) has at most `limit` leases; each is for one instance;
//! - the memory of all instances is within the host's bound, or a tenant beyond its first lease waits: each tenant may always
//!   have one; [`GuestMemory`](pilothouse_engine::GuestMemory) may refuse that one its memory;
//! - before a tenant waits for memory or a slot, the idle instances used least recently go, whosever they are; none go if
//!   that would not make room;
//! - tenants that wait are served in their order, and none before those of the same tenant that came earlier.
//!
//! The memory of an instance that is not made yet is taken to be that of the tenant's last one. Memory that grows in a call
//! counts here from the end of that call; [`GuestMemory`](pilothouse_engine::GuestMemory) refuses growth beyond the bound at
//! once.
//!
//! Invariants: `used` is the sum of what leases and idle instances are charged; `live` is the number of leases and idle instances;
//! `idle_bytes` is what idle instances are charged; `unleased` is the number of tenants without a lease.
//!
//! No lock, no clock and no task in this file.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use tokio::time::Instant;

/// Number of a tenant.
pub(crate) type TenantId = u64;
/// Number of a waiting lease.
pub(crate) type Ticket = u64;

/// The memory that a first instance is taken to have.
const FIRST_ESTIMATE: u64 = 2 << 20;

/// What all instances of the host together may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolBounds {
    /// Bytes of guest memory.
    pub(crate) memory: u64,
    /// Number of instances.
    pub(crate) slots: usize,
}

/// Leases and idle instances `I` of all tenants.
#[derive(Debug)]
pub(crate) struct Ledger<I> {
    bounds: PoolBounds,
    tenants: HashMap<TenantId, TenantAccount>,
    /// The least recently used first.
    idle: BTreeMap<u64, Idle<I>>,
    waiting: VecDeque<(Ticket, TenantId)>,
    used: u64,
    idle_bytes: u64,
    live: usize,
    /// Tenants without a live instance, each with a slot reserved.
    dormant: usize,
    unleased: usize,
    last: u64,
}

#[derive(Debug)]
struct TenantAccount {
    limit: u32,
    leased: u32,
    /// Its entries of `idle`, the most recently used last.
    idle: Vec<u64>,
    estimate: u64,
}

#[derive(Debug)]
struct Idle<I> {
    tenant: TenantId,
    instance: I,
    charged: u64,
    since: Instant,
}

/// Instances of one tenant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct UsedBy {
    pub(crate) leased: usize,
    pub(crate) idle: usize,
    /// Bytes.
    pub(crate) memory: u64,
}

/// A lease that was granted.
#[derive(Debug)]
pub(crate) struct Granted<I> {
    /// An idle instance of the tenant; none: it has to be made.
    pub(crate) instance: Option<I>,
    /// What the lease is charged.
    pub(crate) charged: u64,
}

impl TenantAccount {
    fn is_dormant(&self) -> bool {
        self.leased == 0 && self.idle.is_empty()
    }
}

impl<I> Ledger<I> {
    /// A ledger without tenants.
    pub(crate) fn new(bounds: PoolBounds) -> Self {
        Self {
            bounds,
            tenants: HashMap::new(),
            idle: BTreeMap::new(),
            waiting: VecDeque::new(),
            used: 0,
            idle_bytes: 0,
            live: 0,
            dormant: 0,
            unleased: 0,
            last: 0,
        }
    }

    /// What all instances together may use.
    pub(crate) fn bounds(&self) -> PoolBounds {
        self.bounds
    }

    /// Bytes of all idle instances.
    pub(crate) fn idle_bytes(&self) -> u64 {
        self.idle_bytes
    }

    fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Adds a tenant that may have no lease yet.
    pub(crate) fn add_tenant(&mut self) -> TenantId {
        let id = self.next_number();
        let account = TenantAccount { limit: 0, leased: 0, idle: Vec::new(), estimate: FIRST_ESTIMATE };
        self.tenants.insert(id, account);
        self.dormant += 1;
        self.unleased += 1;
        id
    }

    /// Removes a tenant without leases; its idle instances are returned.
    pub(crate) fn remove_tenant(&mut self, id: TenantId) -> Vec<I> {
        let idle = self.take_idle_of(id);
        if self.tenants.remove(&id).is_some_and(|account| account.is_dormant()) {
            self.dormant -= 1;
            self.unleased -= 1;
        }
        idle
    }

    /// Sets the most leases of a tenant.
    pub(crate) fn set_limit(&mut self, id: TenantId, limit: u32) {
        if let Some(account) = self.tenants.get_mut(&id) {
            account.limit = limit;
        }
    }

    /// Grants a lease, unless the tenant has to wait. Instances that go for it are added to `evicted`.
    pub(crate) fn lease(&mut self, id: TenantId, evicted: &mut Vec<I>) -> Option<Granted<I>> {
        if self.waiting.iter().any(|(_, tenant)| *tenant == id) { None } else { self.grant(id, evicted) }
    }

    /// Lets a tenant wait for a lease.
    pub(crate) fn wait(&mut self, id: TenantId) -> Ticket {
        let ticket = self.next_number();
        self.waiting.push_back((ticket, id));
        ticket
    }

    /// Ends a wait; `false` if it is over already.
    pub(crate) fn give_up(&mut self, ticket: Ticket) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|(other, _)| *other != ticket);
        before != self.waiting.len()
    }

    /// Grants leases to those that wait and need wait no longer.
    pub(crate) fn serve(&mut self, evicted: &mut Vec<I>) -> Vec<(Ticket, Granted<I>)> {
        let mut granted = Vec::new();
        // Those of them who come later wait as well.
        let mut refused = HashSet::new();
        for (ticket, id) in std::mem::take(&mut self.waiting) {
            let lease = if refused.contains(&id) { None } else { self.grant(id, evicted) };
            if let Some(lease) = lease {
                granted.push((ticket, lease));
            } else {
                refused.insert(id);
                self.waiting.push_back((ticket, id));
            }
        }
        granted
    }

    /// The instance of a lease has another size than the lease is charged.
    pub(crate) fn recharge(&mut self, id: TenantId, charged: u64, bytes: u64) {
        self.used = self.used - charged + bytes;
        if let Some(account) = self.tenants.get_mut(&id) {
            account.estimate = bytes;
        }
    }

    /// What a tenant has. A leased instance is taken to have the memory of the last one.
    pub(crate) fn used_by(&self, id: TenantId) -> UsedBy {
        let Some(account) = self.tenants.get(&id) else { return UsedBy::default() };
        let idle = account.idle.iter().filter_map(|number| self.idle.get(number));
        let idle_bytes = idle.map(|idle| idle.charged).sum::<u64>();
        UsedBy {
            leased: account.leased as usize,
            idle: account.idle.len(),
            memory: u64::from(account.leased) * account.estimate + idle_bytes,
        }
    }

    /// Ends a lease. An instance is kept idle; over the bound, the least recently used idle instances go.
    pub(crate) fn give_back(
        &mut self,
        id: TenantId,
        charged: u64,
        instance: Option<I>,
        now: Instant,
        evicted: &mut Vec<I>,
    ) {
        let Some(account) = self.tenants.get_mut(&id) else { return };
        account.leased -= 1;
        self.unleased += usize::from(account.leased == 0);
        if let Some(instance) = instance {
            self.last += 1;
            self.idle_bytes += charged;
            account.idle.push(self.last);
            self.idle.insert(self.last, Idle { tenant: id, instance, charged, since: now });
        } else {
            self.used -= charged;
            self.live -= 1;
            self.dormant += usize::from(account.is_dormant());
        }
        while self.used > self.bounds.memory && self.evict(evicted) {}
    }

    /// Takes the idle instances of a tenant.
    pub(crate) fn take_idle_of(&mut self, id: TenantId) -> Vec<I> {
        let numbers = self.tenants.get_mut(&id).map(|account| std::mem::take(&mut account.idle));
        let numbers = numbers.unwrap_or_default();
        if numbers.is_empty() {
            return Vec::new();
        }
        let taken = numbers.into_iter().filter_map(|number| self.take_idle(number)).collect();
        self.dormant += usize::from(self.tenants.get(&id).is_some_and(TenantAccount::is_dormant));
        taken
    }

    /// Takes the instances that have been idle since `limit` or longer; and since when the next one has been.
    pub(crate) fn expire(&mut self, limit: Instant) -> (Vec<I>, Option<Instant>) {
        let mut expired = Vec::new();
        while self.idle.first_key_value().is_some_and(|(_, idle)| idle.since <= limit) {
            self.evict(&mut expired);
        }
        (expired, self.idle.first_key_value().map(|(_, idle)| idle.since))
    }

    /// Takes the idle instance that was used least recently; `false` if there is none.
    pub(crate) fn evict(&mut self, evicted: &mut Vec<I>) -> bool {
        let Some((&number, idle)) = self.idle.first_key_value() else { return false };
        if let Some(account) = self.tenants.get_mut(&idle.tenant) {
            account.idle.retain(|other| *other != number);
            self.dormant += usize::from(account.is_dormant());
        }
        evicted.extend(self.take_idle(number));
        true
    }

    fn take_idle(&mut self, number: u64) -> Option<I> {
        let idle = self.idle.remove(&number)?;
        self.used -= idle.charged;
        self.idle_bytes -= idle.charged;
        self.live -= 1;
        Some(idle.instance)
    }

    fn grant(&mut self, id: TenantId, evicted: &mut Vec<I>) -> Option<Granted<I>> {
        let account = self.tenants.get_mut(&id)?;
        if account.leased >= account.limit {
            return None;
        }
        let is_first = account.leased == 0;
        if let Some(number) = account.idle.pop() {
            account.leased += 1;
            self.unleased -= usize::from(is_first);
            let Idle { instance, charged, .. } = self.idle.remove(&number)?;
            self.idle_bytes -= charged;
            return Some(Granted { instance: Some(instance), charged });
        }
        let charged = account.estimate;
        if is_first || self.can_make_room(charged) {
            while !self.has_room(is_first, charged) && self.evict(evicted) {}
        }
        let is_granted = if is_first { self.live < self.bounds.slots } else { self.has_room(false, charged) };
        if !is_granted {
            return None;
        }
        self.tenants.get_mut(&id)?.leased += 1;
        self.dormant -= usize::from(is_first);
        self.unleased -= usize::from(is_first);
        self.live += 1;
        self.used += charged;
        Some(Granted { instance: None, charged })
    }

    /// Whether another instance of a tenant with leases would be within the bounds without any idle instance.
    fn can_make_room(&self, charged: u64) -> bool {
        let leased = self.live - self.idle.len();
        self.used - self.idle_bytes + charged <= self.bounds.memory
            && leased + self.unleased < self.bounds.slots
    }

    /// Whether another instance is within the bounds; `is_first`: of a tenant without one, which has a slot reserved.
    fn has_room(&self, is_first: bool, charged: u64) -> bool {
        // The slots of the others count for those who could wait.
        let reserved = if is_first { 0 } else { self.dormant };
        self.used + charged <= self.bounds.memory && self.live + reserved < self.bounds.slots
    }

    /// Bytes of all instances.
    #[cfg(test)]
    pub(crate) fn used(&self) -> u64 {
        self.used
    }
}

#[cfg(test)]
mod tests;
