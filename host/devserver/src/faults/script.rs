//! [`Faults`]: the rules that are set, and which of them hits a call.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::Serialize;

use super::{Fault, FaultRule};

/// How many rules there may be when some are set over HTTP: each request is compared with all of them.
const MAX_RULES: usize = 1000;

/// What a request is, for the rules.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestAttributes<'a> {
    pub(crate) verb: &'a str,
    pub(crate) path: &'a str,
    pub(crate) group: &'a str,
    /// Empty for a path that names no objects.
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) user: &'a str,
}

/// A rule that hit a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Hit {
    pub(crate) id: u64,
    pub(crate) fault: Fault,
}

/// A rule, and how it has fared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FaultState {
    /// By which it is removed.
    pub id: u64,
    /// How many calls it fitted.
    pub seen: u64,
    /// How many it hit.
    pub hits: u64,
    /// The rule.
    pub rule: FaultRule,
}

#[derive(Debug)]
struct Active {
    state: FaultState,
    since: Instant,
    random: StdRng,
}

#[derive(Debug, Default)]
struct Rules {
    next: u64,
    active: Vec<Active>,
}

impl Rules {
    fn add(&mut self, rule: FaultRule) -> u64 {
        self.next += 1;
        let id = self.next;
        let random = StdRng::seed_from_u64(rule.when.seed);
        self.active.push(Active {
            state: FaultState { id, seen: 0, hits: 0, rule },
            since: Instant::now(),
            random,
        });
        id
    }
}

/// The faults of a server.
#[derive(Debug, Default)]
pub struct Faults(Mutex<Rules>);

impl Faults {
    /// Sets a rule behind those that are set already; the answer is by what it can be removed.
    pub fn add(&self, rule: FaultRule) -> u64 {
        self.0.lock().add(rule)
    }

    /// Sets rules that came over HTTP: all of them, or none when there would be too many.
    pub(crate) fn add_all(&self, added: Vec<FaultRule>) -> Result<Vec<u64>, String> {
        let mut rules = self.0.lock();
        if rules.active.len() + added.len() > MAX_RULES {
            return Err(format!(
                "there are at most {MAX_RULES} rules, and {} are set; remove some with DELETE /_faults",
                rules.active.len()
            ));
        }
        Ok(added.into_iter().map(|rule| rules.add(rule)).collect())
    }

    /// Removes a rule; whether it was there.
    pub fn remove(&self, id: u64) -> bool {
        let mut rules = self.0.lock();
        let before = rules.active.len();
        rules.active.retain(|rule| rule.state.id != id);
        rules.active.len() < before
    }

    /// Removes all rules. What already goes on, such as a silent watch, goes on.
    pub fn clear(&self) {
        self.0.lock().active.clear();
    }

    /// The rules that are set.
    pub fn list(&self) -> Vec<FaultState> {
        self.0.lock().active.iter().map(|rule| rule.state.clone()).collect()
    }

    /// The rules that hit a call: all that leave the answer whole, and the first of the others.
    pub(crate) fn hits(&self, request: &RequestAttributes<'_>) -> Vec<Hit> {
        let mut hits = Vec::new();
        let mut decided = false;
        let mut rules = self.0.lock();
        for rule in &mut rules.active {
            let leaves_whole = leaves_whole(&rule.state.rule.fault);
            if (leaves_whole || !decided) && rule.hits(request) {
                decided |= !leaves_whole;
                hits.push(Hit { id: rule.state.id, fault: rule.state.rule.fault.clone() });
            }
        }
        hits
    }
}

/// Whether a fault is about when and in what order something comes, so that it can stand beside any other.
fn leaves_whole(fault: &Fault) -> bool {
    matches!(fault, Fault::Delay { .. } | Fault::Lag { .. } | Fault::Duplicate | Fault::OutOfOrder)
}

impl Active {
    fn hits(&mut self, request: &RequestAttributes<'_>) -> bool {
        if !fits(&self.state.rule, request) {
            return false;
        }
        self.state.seen += 1;
        let when = &self.state.rule.when;
        // One number for each call that fits, whatever else decides: a seed stands for one sequence.
        let drawn = when.probability.is_none_or(|share| self.random.random::<f64>() < share);
        let over = when.times.is_some_and(|times| self.state.hits >= times)
            || when.for_milliseconds.is_some_and(|ms| self.since.elapsed() >= Duration::from_millis(ms));
        let hit = drawn && !over && self.state.seen > when.skip;
        self.state.hits += u64::from(hit);
        hit
    }
}

fn fits(rule: &FaultRule, request: &RequestAttributes<'_>) -> bool {
    let same = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
    (rule.verbs.is_empty() || rule.verbs.iter().any(|verb| verb == request.verb))
        && (rule.resources.is_empty() || rule.resources.iter().any(|r| names(r, request)))
        && same(&rule.namespace, request.namespace)
        && same(&rule.name, request.name)
        && same(&rule.user, request.user)
        && rule.path.as_deref().is_none_or(|path| request.path.starts_with(path))
        && suits(&rule.fault, request)
}

/// Whether a rule's `deployments.apps/scale` names the resource.
fn names(text: &str, request: &RequestAttributes<'_>) -> bool {
    let (resource, subresource) = text.split_once('/').unwrap_or((text, ""));
    let (name, group) = resource.split_once('.').unwrap_or((resource, ""));
    name == request.resource && group == request.group && subresource == request.subresource
}

/// Whether the fault can happen to such a call at all.
fn suits(fault: &Fault, request: &RequestAttributes<'_>) -> bool {
    match fault {
        Fault::Silent
        | Fault::NoInitialEventsEnd
        | Fault::Lag { .. }
        | Fault::Duplicate
        | Fault::OutOfOrder
        | Fault::Gone { after: Some(_) } => request.verb == "watch",
        Fault::Stale { .. } => !request.resource.is_empty() && matches!(request.verb, "get" | "list"),
        Fault::Truncate => request.verb != "watch",
        _ => true,
    }
}
