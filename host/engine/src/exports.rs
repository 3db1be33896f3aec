//! The exports of a guest.

use std::time::Duration;

use pilothouse_object::{Object, ObjectKey};
use pilothouse_plugin::{World, printable};
use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre, Resource};

use crate::bindings::exports::pilothouse::controller as exports;
use crate::bindings::pilothouse::controller::types as wit;
use crate::imports::{MAX_DELAY, wit_key};
use crate::instance::{Event, Failure, Outcome, Request};
use crate::reasons::ReasonSet;
use crate::state::StoreState;

/// The answer for one key.
type KeyAnswer = Result<Outcome, Failure>;

/// The answer for one event.
type EventAnswer = Result<(), Failure>;

/// An export that the component does not have.
#[derive(Debug, thiserror::Error)]
#[error("the component exports no {0} interface")]
pub(crate) struct NotExported(&'static str);

/// Where the exports of a component are.
pub(crate) struct Indices {
    descriptor: exports::descriptor::GuestIndices,
    reconcile: Option<exports::reconcile::GuestIndices>,
    reconcile_many: Option<exports::reconcile_many::GuestIndices>,
    handler: Option<exports::handler::GuestIndices>,
}

/// The exports of an instance.
pub(crate) struct Exports {
    descriptor: exports::descriptor::Guest,
    reconcile: Option<exports::reconcile::Guest>,
    reconcile_many: Option<exports::reconcile_many::Guest>,
    handler: Option<exports::handler::Guest>,
}

impl Indices {
    /// Looks the exports up.
    ///
    /// # Errors
    /// When one of them is of another type.
    pub(crate) fn new(world: World, pre: &InstancePre<StoreState>) -> wasmtime::Result<Self> {
        let one = world.reconciles() && !world.batches();
        Ok(Self {
            descriptor: exports::descriptor::GuestIndices::new(pre)?,
            reconcile: one.then(|| exports::reconcile::GuestIndices::new(pre)).transpose()?,
            reconcile_many: world
                .batches()
                .then(|| exports::reconcile_many::GuestIndices::new(pre))
                .transpose()?,
            handler: world.handles().then(|| exports::handler::GuestIndices::new(pre)).transpose()?,
        })
    }

    pub(crate) fn load(&self, store: &mut Store<StoreState>, of: &Instance) -> wasmtime::Result<Exports> {
        Ok(Exports {
            descriptor: self.descriptor.load(&mut *store, of)?,
            reconcile: self.reconcile.as_ref().map(|i| i.load(&mut *store, of)).transpose()?,
            reconcile_many: self.reconcile_many.as_ref().map(|i| i.load(&mut *store, of)).transpose()?,
            handler: self.handler.as_ref().map(|i| i.load(&mut *store, of)).transpose()?,
        })
    }
}

impl Exports {
    pub(crate) async fn describe(
        &self,
        store: &mut Store<StoreState>,
        config: &[u8],
    ) -> wasmtime::Result<Result<Vec<u8>, String>> {
        self.descriptor.call_describe(store, config).await
    }

    pub(crate) async fn reconcile(
        &self,
        store: &mut Store<StoreState>,
        request: &Request<'_>,
    ) -> wasmtime::Result<KeyAnswer> {
        let guest = exported(&self.reconcile, "reconcile")?;
        let Request { key, attempt, reasons, priority } = *request;
        let namespace = key.namespace().unwrap_or_default();
        let answer =
            guest.call_reconcile(store, 0, namespace, key.name(), attempt, flags(reasons), priority).await?;
        Ok(outcome(answer))
    }

    pub(crate) async fn reconcile_many(
        &self,
        store: &mut Store<StoreState>,
        requests: &[Request<'_>],
    ) -> wasmtime::Result<Vec<KeyAnswer>> {
        let guest = exported(&self.reconcile_many, "reconcile-many")?;
        let requests: Vec<_> = requests
            .iter()
            .map(|request| exports::reconcile_many::Request {
                cluster: 0,
                key: wit_key(request.key),
                attempt: request.attempt,
                reasons: flags(request.reasons),
                priority: request.priority,
            })
            .collect();
        let answers = guest.call_reconcile_many(store, &requests).await?;
        Ok(answers.into_iter().map(outcome).collect())
    }

    pub(crate) async fn handle(
        &self,
        store: &mut Store<StoreState>,
        watch: &str,
        events: &[Event<'_>],
    ) -> wasmtime::Result<Vec<EventAnswer>> {
        let guest = exported(&self.handler, "handler")?;
        let events: Vec<_> = events.iter().map(|event| wit_event(store, event)).collect::<Result<_, _>>()?;
        let answers = guest.call_on_events(store, watch, &events).await?;
        Ok(answers.into_iter().map(|answer| answer.map_err(failure)).collect())
    }

    pub(crate) async fn synced(&self, store: &mut Store<StoreState>, watch: &str) -> wasmtime::Result<()> {
        exported(&self.handler, "handler")?.call_on_synced(store, watch).await
    }
}

/// The interface of an instance, or an error that names it.
fn exported<'a, T>(interface: &'a Option<T>, name: &'static str) -> wasmtime::Result<&'a T> {
    interface.as_ref().ok_or_else(|| NotExported(name).into())
}

fn wit_event(store: &mut Store<StoreState>, event: &Event<'_>) -> wasmtime::Result<exports::handler::Event> {
    use exports::handler::Change;
    let mut push = |object: &Object| -> wasmtime::Result<Resource<Object>> {
        Ok(store.data_mut().handles.push_cached(object.clone())?)
    };
    let of = |change, key: &ObjectKey| exports::handler::Event {
        change,
        cluster: 0,
        key: wit_key(key),
        old: None,
        object: None,
        is_in_initial_list: false,
        final_state_unknown: false,
    };
    Ok(match event {
        Event::Added { object, initial } => exports::handler::Event {
            object: Some(push(object)?),
            is_in_initial_list: *initial,
            ..of(Change::Added, object.key())
        },
        Event::Updated { old, new } => exports::handler::Event {
            old: old.map(&mut push).transpose()?,
            object: Some(push(new)?),
            ..of(Change::Updated, new.key())
        },
        Event::Deleted { key, object, final_state_unknown } => exports::handler::Event {
            object: object.map(&mut push).transpose()?,
            final_state_unknown: *final_state_unknown,
            ..of(Change::Deleted, key)
        },
    })
}

/// The flags of the contract, in the order of the names of [`ReasonSet`].
const FLAGS: [wit::Reasons; ReasonSet::NAMES.len()] = [
    wit::Reasons::ADDED,
    wit::Reasons::UPDATED,
    wit::Reasons::DELETED,
    wit::Reasons::OWNED,
    wit::Reasons::RESYNC,
    wit::Reasons::REQUEUED,
    wit::Reasons::RELOADED,
    wit::Reasons::SCHEDULED,
    wit::Reasons::MANUAL,
];

fn flags(reasons: ReasonSet) -> wit::Reasons {
    let mut flags = wit::Reasons::empty();
    for (bit, flag) in FLAGS.into_iter().enumerate() {
        if reasons.bits() & (1 << bit) != 0 {
            flags |= flag;
        }
    }
    flags
}

/// A time that the guest chose.
fn delay(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds).min(MAX_DELAY)
}

/// Converts the guest's result for one key.
fn outcome(answer: Result<wit::Outcome, wit::Failure>) -> KeyAnswer {
    match answer {
        Ok(wit::Outcome::Done) => Ok(Outcome::Done),
        Ok(wit::Outcome::Requeue) => Ok(Outcome::Requeue),
        Ok(wit::Outcome::RequeueAfter(after)) => Ok(Outcome::RequeueAfter(delay(after))),
        Err(failed) => Err(failure(failed)),
    }
}

fn failure(failure: wit::Failure) -> Failure {
    Failure {
        message: printable(&failure.message),
        terminal: failure.retry == wit::Retry::Terminal,
        retry_after: failure.retry_after.map(delay),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_flag() {
        for (bit, flag) in FLAGS.into_iter().enumerate() {
            assert_eq!(flags(ReasonSet::of_bits(1 << bit)), flag);
        }
        assert_eq!(flags(ReasonSet::of_bits(u16::MAX)), wit::Reasons::all());
    }

    #[test]
    fn delays_are_cut_to_a_year() {
        assert_eq!(outcome(Ok(wit::Outcome::RequeueAfter(u64::MAX))), Ok(Outcome::RequeueAfter(MAX_DELAY)));
        let failed = failure(wit::Failure {
            message: "a\nb".to_owned(),
            retry: wit::Retry::Terminal,
            retry_after: Some(u64::MAX),
        });
        assert!(failed.terminal && failed.retry_after == Some(MAX_DELAY) && !failed.message.contains('\n'));
    }
}
