//! The macros of `pilothouse-sdk`, which re-exports them: attributes that turn an `impl` block into the exports of one
//! world, and the derive of `Resource`.

mod export;

use proc_macro::TokenStream;

/// Exports the world `reconciler` from an `impl Reconciler for …` block.
///
/// Arguments, all optional: `state` exports the type's `State` too; `crate = path` says where `pilothouse-sdk` is, if
/// the dependency has another name.
#[proc_macro_attribute]
pub fn reconciler(arguments: TokenStream, item: TokenStream) -> TokenStream {
    export::expand(arguments, item, "reconciler", "Reconciler")
}

/// Exports the world `batch-reconciler` from an `impl BatchReconciler for …` block; arguments as of
/// [`macro@reconciler`].
#[proc_macro_attribute]
pub fn batch_reconciler(arguments: TokenStream, item: TokenStream) -> TokenStream {
    export::expand(arguments, item, "batch_reconciler", "BatchReconciler")
}

/// Exports the world `event-handler` from an `impl EventHandler for …` block; arguments as of [`macro@reconciler`].
#[proc_macro_attribute]
pub fn event_handler(arguments: TokenStream, item: TokenStream) -> TokenStream {
    export::expand(arguments, item, "event_handler", "EventHandler")
}

/// Exports the world `controller` from an `impl Controller for …` block; arguments as of [`macro@reconciler`].
#[proc_macro_attribute]
pub fn controller(arguments: TokenStream, item: TokenStream) -> TokenStream {
    export::expand(arguments, item, "controller", "Controller")
}
