//! Connects the exports of a component to the trait that a plugin implements. The attribute macros generate the code
//! with [`__export!`](crate::__export).
//!
//! An instance runs one call at a time, so its state needs a cell and no lock. The first call that needs the state
//! creates it; `describe` runs without it.

use std::cell::RefCell;
use std::thread::LocalKey;

use crate::{Config, Descriptor, Failure, Outcome};

/// The state of an instance.
pub type State<T> = RefCell<Option<T>>;

/// Runs `describe`.
pub fn describe(
    config: Vec<u8>,
    describe: fn(&Config) -> Result<Descriptor, String>,
) -> Result<Vec<u8>, String> {
    describe(&Config::from_json(config))?.to_json()
}

/// Runs `call` on the state of this instance, and creates the state if it does not exist.
pub fn with_state<T: 'static, R>(
    state: &'static LocalKey<State<T>>,
    new: fn(&Config) -> Result<T, String>,
    call: impl FnOnce(&mut T) -> R,
) -> Result<R, String> {
    state.with_borrow_mut(|slot| {
        let state = match slot {
            Some(state) => state,
            None => slot.insert(new(&Config::fetch())?),
        };
        Ok(call(state))
    })
}

/// Ends an event handler whose state could not be created. Event handlers return nothing, so only a panic can report
/// the failure to the host.
pub fn handled(result: Result<(), String>) {
    if let Err(message) = result {
        panic!("{message}");
    }
}

/// One failure per key, for a call whose state could not be created.
pub fn failed_many(message: &str, keys: usize) -> Vec<Result<Outcome, Failure>> {
    vec![Err(Failure::transient(message)); keys]
}

/// Exports a type as a component of one of the worlds.
#[doc(hidden)]
#[macro_export]
macro_rules! __export {
    (reconciler, $guest:ty) => { $crate::__export!(@world $guest, Reconciler: descriptor reconcile); };
    (batch_reconciler, $guest:ty) => {
        $crate::__export!(@world $guest, BatchReconciler: descriptor reconcile_many);
    };
    (event_handler, $guest:ty) => { $crate::__export!(@world $guest, EventHandler: descriptor handler); };
    (controller, $guest:ty) => { $crate::__export!(@world $guest, Controller: descriptor handler reconcile); };

    (@world $guest:ty, $world:ident: $($interface:ident)+) => {
        const _: () = {
            struct Export;
            type Guest = $guest;
            ::std::thread_local! {
                static STATE: $crate::export::State<Guest> = const { ::std::cell::RefCell::new(None) };
            }
            $($crate::__export!(@$interface $world);)+
            // Native linkers do not support the export names of components. In native builds (tests, editors) the code
            // is only type-checked, and counts as used.
            #[cfg(not(target_family = "wasm"))]
            const _: fn() = || { $(let _ = $crate::__export!(@used $interface);)+ };
        };
    };

    (@used descriptor) => { <Export as $crate::bindings::descriptor::Guest>::describe };
    (@used reconcile) => { <Export as $crate::bindings::reconcile::Guest>::reconcile };
    (@used reconcile_many) => { <Export as $crate::bindings::reconcile_many::Guest>::reconcile_many };
    (@used handler) => { <Export as $crate::bindings::handler::Guest>::on_delete };

    (@descriptor $world:ident) => {
        impl $crate::bindings::descriptor::Guest for Export {
            fn describe(
                config: ::std::vec::Vec<u8>,
            ) -> ::std::result::Result<::std::vec::Vec<u8>, ::std::string::String> {
                $crate::export::describe(config, <Guest as $crate::$world>::describe)
            }
        }
        #[cfg(target_family = "wasm")]
        $crate::bindings::descriptor::export_descriptor!(Export with_types_in $crate::bindings::descriptor);
    };

    (@reconcile $world:ident) => {
        impl $crate::bindings::reconcile::Guest for Export {
            fn reconcile(
                request: $crate::bindings::imports::types::Request,
            ) -> ::std::result::Result<$crate::bindings::imports::types::Outcome, $crate::bindings::imports::types::Failure> {
                $crate::export::with_state(&STATE, <Guest as $crate::$world>::new, |guest| {
                    <Guest as $crate::$world>::reconcile(guest, &request.into())
                })
                .unwrap_or_else(|message| Err($crate::Failure::transient(message)))
                .map(Into::into)
                .map_err(Into::into)
            }
        }
        #[cfg(target_family = "wasm")]
        $crate::bindings::reconcile::export_reconcile!(Export with_types_in $crate::bindings::reconcile);
    };

    (@reconcile_many $world:ident) => {
        impl $crate::bindings::reconcile_many::Guest for Export {
            fn reconcile_many(
                requests: ::std::vec::Vec<$crate::bindings::imports::types::Request>,
            ) -> ::std::vec::Vec<
                ::std::result::Result<
                    $crate::bindings::imports::types::Outcome,
                    $crate::bindings::imports::types::Failure,
                >,
            > {
                let requests: ::std::vec::Vec<$crate::Request> =
                    requests.into_iter().map(Into::into).collect();
                $crate::export::with_state(&STATE, <Guest as $crate::$world>::new, |guest| {
                    <Guest as $crate::$world>::reconcile_many(guest, &requests)
                })
                .unwrap_or_else(|message| $crate::export::failed_many(&message, requests.len()))
                .into_iter()
                .map(|answer| answer.map(Into::into).map_err(Into::into))
                .collect()
            }
        }
        #[cfg(target_family = "wasm")]
        $crate::bindings::reconcile_many::export_reconcile_many!(
            Export with_types_in $crate::bindings::reconcile_many
        );
    };

    (@handler $world:ident) => {
        impl $crate::bindings::handler::Guest for Export {
            fn on_add(object: &$crate::bindings::imports::objects::Object, initial: bool) {
                $crate::export::handled($crate::export::with_state(&STATE, <Guest as $crate::$world>::new, |guest| {
                    <Guest as $crate::$world>::on_add(guest, $crate::Object::from_raw(object), initial);
                }));
            }
            fn on_update(
                old: ::std::option::Option<&$crate::bindings::imports::objects::Object>,
                new: &$crate::bindings::imports::objects::Object,
            ) {
                $crate::export::handled($crate::export::with_state(&STATE, <Guest as $crate::$world>::new, |guest| {
                    let old = old.map($crate::Object::from_raw);
                    <Guest as $crate::$world>::on_update(guest, old, $crate::Object::from_raw(new));
                }));
            }
            fn on_delete(
                kind: $crate::bindings::imports::types::Gvk,
                key: $crate::Key,
                object: ::std::option::Option<&$crate::bindings::imports::objects::Object>,
                final_state_unknown: bool,
            ) {
                $crate::export::handled($crate::export::with_state(&STATE, <Guest as $crate::$world>::new, |guest| {
                    let object = object.map($crate::Object::from_raw);
                    let deleted = $crate::Deleted { kind: kind.into(), key, object, final_state_unknown };
                    <Guest as $crate::$world>::on_delete(guest, &deleted);
                }));
            }
        }
        #[cfg(target_family = "wasm")]
        $crate::bindings::handler::export_handler!(Export with_types_in $crate::bindings::handler);
    };
}
