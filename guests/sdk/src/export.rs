//! Connects the exports of a component to the trait that a plugin implements. The attribute macros generate the code
//! with [`__export!`](crate::__export).
//!
//! An instance runs one call at a time, so its state needs a cell and no lock. The first call that needs the state
//! creates it; `describe` runs without it.

use std::cell::RefCell;
use std::thread::LocalKey;

use crate::bindings::imports::types as raw;
use crate::bindings::{handler, reconcile_many};
use crate::{Added, Config, Deleted, Descriptor, Event, Failure, Key, Object, Request, Updated};

/// The state of an instance.
pub type Slot<T> = RefCell<Option<T>>;

type StateKey<T> = &'static LocalKey<Slot<T>>;
type New<T> = fn(&Config) -> Result<T, String>;

/// Runs `describe`.
pub fn describe(
    config: Vec<u8>,
    describe: fn(&Config) -> Result<Descriptor, String>,
) -> Result<Vec<u8>, String> {
    log_panics();
    describe(&Config::from_json(config))?.to_json()
}

/// Runs `call` on the state of this instance, and creates the state if it does not exist. An error of `new` is
/// terminal: only another configuration can mend it.
pub fn with_state<T: 'static, R>(
    slot: StateKey<T>,
    new: New<T>,
    call: impl FnOnce(&mut T) -> R,
) -> Result<R, Failure> {
    slot.with_borrow_mut(|slot| {
        let state = match slot {
            Some(state) => state,
            None => {
                log_panics();
                slot.insert(new(&Config::fetch()).map_err(Failure::terminal)?)
            }
        };
        Ok(call(state))
    })
}

/// Has panics logged. Without WASI they have no standard error, which the host logs.
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        // The place and the message are two lines.
        crate::log::write(crate::log::Level::Error, &panic.to_string().replacen('\n', " ", 1), &[]);
    }));
}

/// Panics are written to standard error.
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
fn log_panics() {}

/// The result of one key or event, as the host takes it.
pub fn result<R, S: From<R>>(result: Result<R, Failure>) -> Result<S, raw::Failure> {
    result.map(Into::into).map_err(Into::into)
}

/// The results of several events or keys; the same failure for all if the call was not made.
pub fn results<R, S: From<R>>(
    results: Result<Vec<Result<R, Failure>>, Failure>,
    count: usize,
) -> Vec<Result<S, raw::Failure>> {
    match results {
        Ok(results) => results.into_iter().map(result).collect(),
        Err(failure) => (0..count).map(|_| Err(failure.clone().into())).collect(),
    }
}

/// A request as the SDK has it.
pub fn request(
    cluster: u32,
    namespace: String,
    name: String,
    attempt: u32,
    reasons: raw::Reasons,
    priority: i32,
) -> Request {
    Request { key: Key { namespace, name }, attempt, reasons: reasons.into(), priority, cluster }
}

/// Requests as the SDK has them.
pub fn requests(raw: Vec<reconcile_many::Request>) -> Vec<Request> {
    raw.into_iter()
        .map(|raw| {
            request(raw.cluster, raw.key.namespace, raw.key.name, raw.attempt, raw.reasons, raw.priority)
        })
        .collect()
}

/// Events as the SDK has them.
pub fn events(watch: &str, raw: Vec<handler::Event>) -> Vec<Event<'_>> {
    raw.into_iter().map(|raw| event(watch, raw)).collect()
}

fn event(watch: &str, raw: handler::Event) -> Event<'_> {
    let key = raw.key.into();
    match (raw.change, raw.object.map(native)) {
        (handler::Change::Added, Some(object)) => {
            Event::Added(Added { watch, key, object, is_initial: raw.is_in_initial_list })
        }
        (handler::Change::Updated, Some(object)) => {
            Event::Updated(Updated { watch, key, old: raw.old.map(native), object })
        }
        // The contract gives an object to every event but a deletion.
        (_, object) => {
            Event::Deleted(Deleted { watch, key, object, final_state_unknown: raw.final_state_unknown })
        }
    }
}

#[cfg(target_family = "wasm")]
fn native<'call>(raw: crate::bindings::imports::objects::Object) -> Object<'call> {
    Object::new(raw)
}

/// In native builds the exports are only type-checked, and never run.
#[cfg(not(target_family = "wasm"))]
fn native<'call>(_raw: crate::bindings::imports::objects::Object) -> Object<'call> {
    panic!("an export was called in a native build")
}

/// Exports a type as a component of one of the worlds.
#[doc(hidden)]
#[macro_export]
macro_rules! __export {
    (reconciler, $guest:ty) => {
        $crate::__export!(@world $guest, Reconciler: descriptor reconcile);
    };
    (batch_reconciler, $guest:ty) => {
        $crate::__export!(@world $guest, BatchReconciler: descriptor reconcile_many);
    };
    (event_handler, $guest:ty) => {
        $crate::__export!(@world $guest, EventHandler: descriptor handler);
    };
    (controller, $guest:ty) => {
        $crate::__export!(@world $guest, Controller: descriptor handler reconcile);
    };

    (@world $guest:ty, $world:ident: $($interface:ident)+) => {
        const _: () = {
            // Names of items are not hygienic: these are not to meet the user's.
            struct __Export;
            type __Guest = $guest;
            ::std::thread_local! {
                static __STATE: $crate::export::Slot<__Guest> = const { ::std::cell::RefCell::new(None) };
            }
            $($crate::__export!(@$interface $world);)+
            // Native linkers do not support the export names of components. In native builds (tests, editors) the code
            // is only type-checked, and counts as used.
            #[cfg(not(target_family = "wasm"))]
            const _: fn() = || { $(let _ = $crate::__export!(@used $interface);)+ };
            // For tests, which call the trait.
            #[cfg(not(target_family = "wasm"))]
            impl $crate::testing::Plugin for __Guest {
                const RECONCILES: bool = $crate::__export!(@reconciles $world);
                $($crate::__export!(@plugin $interface $world);)+
            }
        };
    };

    (@reconciles EventHandler) => { false };
    (@reconciles $world:ident) => { true };

    (@plugin descriptor $world:ident) => {
        fn describe(config: &$crate::Config) -> ::std::result::Result<$crate::Descriptor, ::std::string::String> {
            <__Guest as $crate::$world>::describe(config)
        }
        fn new(config: &$crate::Config) -> ::std::result::Result<Self, ::std::string::String> {
            <__Guest as $crate::$world>::new(config)
        }
    };
    (@plugin reconcile $world:ident) => {
        fn reconcile_requests(
            &mut self,
            ctx: &$crate::Context,
            requests: &[$crate::Request],
        ) -> ::std::vec::Vec<::std::result::Result<$crate::Outcome, $crate::Failure>> {
            requests.iter().map(|request| <__Guest as $crate::$world>::reconcile(self, ctx, request)).collect()
        }
    };
    (@plugin reconcile_many $world:ident) => {
        fn reconcile_requests(
            &mut self,
            ctx: &$crate::Context,
            requests: &[$crate::Request],
        ) -> ::std::vec::Vec<::std::result::Result<$crate::Outcome, $crate::Failure>> {
            <__Guest as $crate::$world>::reconcile_many(self, ctx, requests)
        }
        const TAKES_MANY: bool = true;
    };
    (@plugin handler $world:ident) => {
        fn handle_events(
            &mut self,
            ctx: &$crate::Context,
            events: &[$crate::Event<'_>],
        ) -> ::std::vec::Vec<::std::result::Result<(), $crate::Failure>> {
            <__Guest as $crate::$world>::on_events(self, ctx, events)
        }
        fn handle_synced(&mut self, ctx: &$crate::Context, watch: &str) {
            <__Guest as $crate::$world>::on_synced(self, ctx, watch);
        }
    };

    (@used descriptor) => { <__Export as $crate::bindings::descriptor::Guest>::describe };
    (@used reconcile) => { <__Export as $crate::bindings::reconcile::Guest>::reconcile };
    (@used reconcile_many) => { <__Export as $crate::bindings::reconcile_many::Guest>::reconcile_many };
    (@used handler) => { <__Export as $crate::bindings::handler::Guest>::on_events };

    (@descriptor $world:ident) => {
        impl $crate::bindings::descriptor::Guest for __Export {
            fn describe(
                config: ::std::vec::Vec<u8>,
            ) -> ::std::result::Result<::std::vec::Vec<u8>, ::std::string::String> {
                $crate::export::describe(config, <__Guest as $crate::$world>::describe)
            }
        }
        #[cfg(target_family = "wasm")]
        $crate::bindings::descriptor::export_descriptor!(__Export with_types_in $crate::bindings::descriptor);
    };

    (@reconcile $world:ident) => {
        impl $crate::bindings::reconcile::Guest for __Export {
            fn reconcile(
                cluster: u32,
                namespace: ::std::string::String,
                name: ::std::string::String,
                attempt: u32,
                reasons: $crate::bindings::imports::types::Reasons,
                priority: i32,
            ) -> ::std::result::Result<
                $crate::bindings::imports::types::Outcome,
                $crate::bindings::imports::types::Failure,
            > {
                let request = $crate::export::request(cluster, namespace, name, attempt, reasons, priority);
                let answer = $crate::export::with_state(&__STATE, <__Guest as $crate::$world>::new, |guest| {
                    <__Guest as $crate::$world>::reconcile(guest, &$crate::Context::of_call(cluster, ::std::env!("CARGO_PKG_NAME")), &request)
                });
                $crate::export::result(answer.flatten())
            }
        }
        #[cfg(target_family = "wasm")]
        $crate::bindings::reconcile::export_reconcile!(__Export with_types_in $crate::bindings::reconcile);
    };

    (@reconcile_many $world:ident) => {
        impl $crate::bindings::reconcile_many::Guest for __Export {
            fn reconcile_many(
                requests: ::std::vec::Vec<$crate::bindings::reconcile_many::Request>,
            ) -> ::std::vec::Vec<
                ::std::result::Result<
                    $crate::bindings::imports::types::Outcome,
                    $crate::bindings::imports::types::Failure,
                >,
            > {
                let requests = $crate::export::requests(requests);
                let answers = $crate::export::with_state(&__STATE, <__Guest as $crate::$world>::new, |guest| {
                    <__Guest as $crate::$world>::reconcile_many(guest, &$crate::Context::of_call(0, ::std::env!("CARGO_PKG_NAME")), &requests)
                });
                $crate::export::results(answers, requests.len())
            }
        }
        #[cfg(target_family = "wasm")]
        $crate::bindings::reconcile_many::export_reconcile_many!(
            __Export with_types_in $crate::bindings::reconcile_many
        );
    };

    (@handler $world:ident) => {
        impl $crate::bindings::handler::Guest for __Export {
            fn on_events(
                watch: ::std::string::String,
                events: ::std::vec::Vec<$crate::bindings::handler::Event>,
            ) -> ::std::vec::Vec<::std::result::Result<(), $crate::bindings::imports::types::Failure>> {
                let events = $crate::export::events(&watch, events);
                let answers = $crate::export::with_state(&__STATE, <__Guest as $crate::$world>::new, |guest| {
                    <__Guest as $crate::$world>::on_events(guest, &$crate::Context::of_call(0, ::std::env!("CARGO_PKG_NAME")), &events)
                });
                $crate::export::results(answers, events.len())
            }
            fn on_synced(watch: ::std::string::String) {
                // A state that cannot be made is a failure of the next call with an answer.
                let _ = $crate::export::with_state(&__STATE, <__Guest as $crate::$world>::new, |guest| {
                    <__Guest as $crate::$world>::on_synced(guest, &$crate::Context::of_call(0, ::std::env!("CARGO_PKG_NAME")), &watch);
                });
            }
        }
        #[cfg(target_family = "wasm")]
        $crate::bindings::handler::export_handler!(__Export with_types_in $crate::bindings::handler);
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_cannot_be_made_fails_every_key_for_good() {
        thread_local! {
            static NONE: Slot<u8> = const { RefCell::new(None) };
        }
        let refused = with_state(&NONE, |_| Err("no".to_owned()), |_: &mut u8| Vec::new());
        let answers: Vec<Result<(), raw::Failure>> = results(refused, 2);
        assert!(
            answers.iter().all(|answer| answer.as_ref().is_err_and(|it| it.retry == raw::Retry::Terminal))
        );
        assert_eq!(answers.len(), 2);
    }
}
