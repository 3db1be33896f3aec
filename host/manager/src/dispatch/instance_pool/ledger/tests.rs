//! Which tenant gets an instance, which one waits, and what is evicted for it.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;

/// Instances of these tests are numbers; each is charged 2 MiB unless said otherwise.
fn ledger(memory: u64, slots: usize) -> Ledger<u32> {
    Ledger::new(PoolBounds { memory: memory * MIB, slots })
}

fn tenant(ledger: &mut Ledger<u32>, limit: u32) -> TenantId {
    let id = ledger.add_tenant();
    ledger.set_limit(id, limit);
    id
}

/// A lease that must be granted, without any other instance going for it.
fn lease(ledger: &mut Ledger<u32>, id: TenantId) -> Granted<u32> {
    let mut evicted = Vec::new();
    let granted = ledger.lease(id, &mut evicted).expect("granted");
    assert!(evicted.is_empty(), "{evicted:?}");
    granted
}

fn give_back(ledger: &mut Ledger<u32>, id: TenantId, instance: u32) -> Vec<u32> {
    let mut evicted = Vec::new();
    ledger.give_back(id, FIRST_ESTIMATE, Some(instance), Instant::now(), &mut evicted);
    evicted
}

#[test]
fn a_tenant_has_as_many_leases_as_its_limit_and_gets_its_idle_instance_again() {
    let mut ledger = ledger(100, 100);
    let id = tenant(&mut ledger, 2);
    assert_eq!(lease(&mut ledger, id).instance, None);
    assert_eq!(lease(&mut ledger, id).instance, None);
    assert!(ledger.lease(id, &mut Vec::new()).is_none());
    assert!(give_back(&mut ledger, id, 7).is_empty());
    assert_eq!(lease(&mut ledger, id).instance, Some(7));
}

#[test]
fn before_a_tenant_waits_for_memory_the_idle_instance_used_least_recently_goes() {
    let mut ledger = ledger(6, 100);
    let [first, second, third] = [(); 3].map(|()| tenant(&mut ledger, 3));
    for (id, instance) in [(first, 1), (second, 2)] {
        lease(&mut ledger, id);
        give_back(&mut ledger, id, instance);
    }
    lease(&mut ledger, third);
    let mut evicted = Vec::new();
    assert!(ledger.lease(third, &mut evicted).is_some());
    assert_eq!(evicted, [1]);
    assert!(ledger.lease(third, &mut evicted).is_some());
    assert_eq!(evicted, [1, 2]);
    assert_eq!(ledger.used(), 6 * MIB);
}

#[test]
fn no_idle_instance_goes_where_that_makes_no_room() {
    // For memory: another instance of 6 MiB is over the bound whatever goes.
    let mut by_memory = ledger(10, 100);
    let [idle, large] = [(); 2].map(|()| tenant(&mut by_memory, 9));
    lease(&mut by_memory, idle);
    give_back(&mut by_memory, idle, 7);
    let granted = lease(&mut by_memory, large);
    by_memory.recharge(large, granted.charged, 6 * MIB);
    // For slots: that of the idle instance stays reserved for its tenant.
    let mut by_slots = ledger(1000, 3);
    let [other, greedy] = [(); 2].map(|()| tenant(&mut by_slots, 9));
    lease(&mut by_slots, other);
    give_back(&mut by_slots, other, 7);
    lease(&mut by_slots, greedy);
    lease(&mut by_slots, greedy);
    for (mut ledger, id) in [(by_memory, large), (by_slots, greedy)] {
        let mut evicted = Vec::new();
        assert!(ledger.lease(id, &mut evicted).is_none());
        ledger.wait(id);
        assert!(ledger.serve(&mut evicted).is_empty());
        assert_eq!(evicted, [0; 0]);
    }
}

#[test]
fn a_tenant_without_an_instance_gets_one_however_much_others_use() {
    let mut ledger = ledger(4, 100);
    let [greedy, other] = [(); 2].map(|()| tenant(&mut ledger, 9));
    lease(&mut ledger, greedy);
    lease(&mut ledger, greedy);
    assert!(ledger.lease(greedy, &mut Vec::new()).is_none(), "over the bound");
    assert_eq!(lease(&mut ledger, other).instance, None);
}

#[test]
fn each_tenant_without_an_instance_has_a_slot_reserved() {
    let mut ledger = ledger(1000, 4);
    let [greedy, other, third] = [(); 3].map(|()| tenant(&mut ledger, 9));
    lease(&mut ledger, greedy);
    lease(&mut ledger, greedy);
    assert!(ledger.lease(greedy, &mut Vec::new()).is_none(), "two slots are of the others");
    lease(&mut ledger, other);
    lease(&mut ledger, third);
    ledger.give_back(third, FIRST_ESTIMATE, None, Instant::now(), &mut Vec::new());
    assert!(ledger.lease(greedy, &mut Vec::new()).is_none());
    assert!(ledger.remove_tenant(third).is_empty());
    lease(&mut ledger, greedy);
}

#[test]
fn those_who_wait_are_served_in_their_order_and_nobody_goes_before_them() {
    let mut ledger = ledger(100, 100);
    let id = tenant(&mut ledger, 1);
    lease(&mut ledger, id);
    let (first, second) = (ledger.wait(id), ledger.wait(id));
    give_back(&mut ledger, id, 7);
    assert!(ledger.lease(id, &mut Vec::new()).is_none(), "others wait");
    let served: Vec<_> = ledger.serve(&mut Vec::new()).into_iter().map(|(ticket, _)| ticket).collect();
    assert_eq!(served, [first]);
    assert!(ledger.give_up(second) && !ledger.give_up(first));
}

#[test]
fn an_instance_that_grew_is_charged_and_the_next_one_is_taken_to_be_as_large() {
    let mut ledger = ledger(100, 100);
    let id = tenant(&mut ledger, 2);
    let granted = lease(&mut ledger, id);
    ledger.recharge(id, granted.charged, 50 * MIB);
    assert_eq!(lease(&mut ledger, id).charged, 50 * MIB);
    assert_eq!(ledger.used(), 100 * MIB);
    // It grew more in its last call: over the bound, it is not kept.
    ledger.recharge(id, 50 * MIB, 60 * MIB);
    let mut evicted = Vec::new();
    ledger.give_back(id, 60 * MIB, Some(7), Instant::now(), &mut evicted);
    assert_eq!((evicted, ledger.used()), (vec![7], 50 * MIB));
}

#[tokio::test(start_paused = true)]
async fn instances_expire_in_the_order_of_their_last_use() {
    let mut ledger = ledger(100, 100);
    let id = tenant(&mut ledger, 2);
    let began = Instant::now();
    for instance in [1, 2] {
        lease(&mut ledger, id);
        lease(&mut ledger, id);
        give_back(&mut ledger, id, instance);
        ledger.give_back(id, FIRST_ESTIMATE, None, Instant::now(), &mut Vec::new());
        if instance == 1 {
            // Taken and given back: its time begins again.
            tokio::time::advance(Duration::from_secs(1)).await;
            ledger.take_idle_of(id);
        }
    }
    assert_eq!(ledger.expire(began), (vec![], Some(began + Duration::from_secs(1))));
    assert_eq!(ledger.expire(Instant::now()), (vec![2], None));
    assert_eq!(ledger.used(), 0);
}

#[derive(Debug, Clone)]
enum Step {
    Lease(usize),
    GiveBack(usize, bool),
    Resize(usize, u64),
    SetLimit(usize, u32),
    Retire(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0_usize..3).prop_map(Step::Lease),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(lease, keep)| Step::GiveBack(lease, keep)),
        1 => (any::<usize>(), 1_u64..8).prop_map(|(lease, mib)| Step::Resize(lease, mib)),
        1 => (0_usize..3, 1_u32..4).prop_map(|(tenant, limit)| Step::SetLimit(tenant, limit)),
        1 => (0_usize..3).prop_map(Step::Retire),
    ]
}

proptest! {
    /// In any order of steps: the sums are right, a second lease of a tenant is granted within the bounds alone, nothing idle
    /// is kept over the bound, nobody waits without reason, and all tenants that wait are served once all leases have ended.
    #[test]
    fn sums_are_right_bounds_hold_and_nobody_waits_without_reason(steps in prop::collection::vec(step(), 1..120)) {
        let bounds = PoolBounds { memory: 12 * MIB, slots: 5 };
        let mut ledger: Ledger<u32> = Ledger::new(bounds);
        let tenants: Vec<TenantId> = (0..3).map(|_| tenant(&mut ledger, 2)).collect();
        let mut leases: Vec<(TenantId, u64)> = Vec::new();
        let mut next = 0;
        // What holds where an instance was made that could have waited.
        let is_within = |ledger: &Ledger<u32>| {
            let slots = ledger.live + ledger.dormant;
            ledger.used() <= bounds.memory && slots <= bounds.slots
        };
        for step in steps {
            let mut evicted = Vec::new();
            let gives_back = matches!(step, Step::GiveBack(..)) && !leases.is_empty();
            match step {
                Step::Lease(of) => {
                    let is_first = ledger.tenants[&tenants[of]].leased == 0;
                    match ledger.lease(tenants[of], &mut evicted) {
                        Some(granted) => {
                            let is_new = granted.instance.is_none();
                            prop_assert!(is_first || !is_new || is_within(&ledger), "over a bound");
                            leases.push((tenants[of], granted.charged));
                        }
                        None => _ = ledger.wait(tenants[of]),
                    }
                }
                Step::GiveBack(at, keep) if !leases.is_empty() => {
                    let (id, charged) = leases.swap_remove(at % leases.len());
                    next += 1;
                    ledger.give_back(id, charged, keep.then_some(next), Instant::now(), &mut evicted);
                }
                Step::Resize(at, mib) if !leases.is_empty() => {
                    let at = at % leases.len();
                    let (id, charged) = leases[at];
                    ledger.recharge(id, charged, mib * MIB);
                    leases[at].1 = mib * MIB;
                }
                Step::SetLimit(of, limit) => ledger.set_limit(tenants[of], limit),
                Step::Retire(of) => evicted.extend(ledger.take_idle_of(tenants[of])),
                Step::GiveBack(..) | Step::Resize(..) => {}
            }
            let mut leased: HashMap<TenantId, u32> =
                tenants.iter().map(|id| (*id, ledger.tenants[id].leased)).collect();
            let (mut any_first, mut any_further) = (false, false);
            for Served { id, charged, is_new } in served(&mut ledger, &mut evicted) {
                leases.push((id, charged));
                let count = leased.entry(id).or_default();
                any_first |= is_new && *count == 0;
                any_further |= is_new && *count > 0;
                *count += 1;
            }
            prop_assert!(any_first || !any_further || is_within(&ledger), "over a bound");
            prop_assert!(!gives_back || ledger.idle.is_empty() || ledger.used() <= bounds.memory, "idle over the bound");
            let leased: u64 = leases.iter().map(|(_, charged)| charged).sum();
            let idle: u64 = ledger.idle.values().map(|idle| idle.charged).sum();
            prop_assert_eq!(ledger.used(), leased + idle);
            prop_assert_eq!(ledger.live, leases.len() + ledger.idle.len());
            prop_assert!(ledger.live + ledger.dormant <= bounds.slots, "a tenant has no slot");
            prop_assert_eq!(ledger.idle_bytes, idle);
            let unleased = tenants.iter().filter(|id| ledger.tenants[id].leased == 0).count();
            prop_assert_eq!(ledger.unleased, unleased);
            let dormant = tenants.iter().filter(|id| ledger.tenants[id].is_dormant()).count();
            prop_assert_eq!(ledger.dormant, dormant);
            for (_, id) in &ledger.waiting {
                let account = &ledger.tenants[id];
                let is_full = account.leased >= account.limit;
                prop_assert!(is_full || account.leased > 0, "one without any instance waits");
                let has_room = !account.idle.is_empty() || ledger.can_make_room(account.estimate);
                prop_assert!(is_full || !has_room, "there is room");
            }
        }
        while let Some((id, charged)) = leases.pop() {
            ledger.give_back(id, charged, None, Instant::now(), &mut Vec::new());
            leases.extend(served(&mut ledger, &mut Vec::new()).into_iter().map(|it| (it.id, it.charged)));
        }
        prop_assert!(ledger.waiting.is_empty());
    }
}

/// A lease of one that waited.
struct Served {
    id: TenantId,
    charged: u64,
    /// Whether an instance has to be made.
    is_new: bool,
}

/// Serves those who wait.
fn served(ledger: &mut Ledger<u32>, evicted: &mut Vec<u32>) -> Vec<Served> {
    let waiting = ledger.waiting.clone();
    let of = |ticket| waiting.iter().find(|(other, _)| *other == ticket).map_or(0, |(_, id)| *id);
    let served = ledger.serve(evicted).into_iter();
    served
        .map(|(ticket, granted)| Served {
            id: of(ticket),
            charged: granted.charged,
            is_new: granted.instance.is_none(),
        })
        .collect()
}
