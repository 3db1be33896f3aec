//! The macros of `pilothouse-sdk`, which re-exports them: attributes that turn an `impl` block into the exports of one
//! world, and the derive of `Resource`.

mod crd;
mod export;
mod resource;
mod schema;

use proc_macro::TokenStream;

/// Exports the world `reconciler` from an `impl Reconciler for …` block. If the block has no `new`, the attribute adds one,
/// for a type without fields.
///
/// The argument `crate = path`, which is optional, says where `pilothouse-sdk` is, if the dependency has another name.
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

/// Exports the world `event-handler` from an `impl EventHandler for …` block; with the arguments of [`macro@reconciler`].
#[proc_macro_attribute]
pub fn event_handler(arguments: TokenStream, item: TokenStream) -> TokenStream {
    export::expand(arguments, item, "event_handler", "EventHandler")
}

/// Exports the world `controller` from an `impl Controller for …` block; with the arguments of [`macro@reconciler`].
#[proc_macro_attribute]
pub fn controller(arguments: TokenStream, item: TokenStream) -> TokenStream {
    export::expand(arguments, item, "controller", "Controller")
}

/// Implements `Resource` for a struct with a field `metadata`.
///
/// `#[resource(…)]` says what it is:
///
/// - `version = "v1"`: the API version; required.
/// - `group = "apps"`: the API group; without it, the core group.
/// - `kind = "Deployment"`: the kind; without it, the name of the struct.
/// - `plural = "deployments"`: the plural; without it, the kind in lower case with the ending of an English plural.
/// - `scope = "Cluster"`: objects have no namespace; without it, or with `"Namespaced"`, they have one.
/// - `crate = path`: where `pilothouse-sdk` is, if the dependency has another name.
///
/// For a kind that the plugin defines:
///
/// - `crd`: makes a CustomResourceDefinition of the struct. Its fields, other than `metadata`, need `Schema`. A field
///   `status` is a subresource.
/// - `short_names("fo")`, `categories("all")`.
/// - `column("Ready", "string", ".status.ready")`: a column of `kubectl get`; several are allowed.
#[proc_macro_derive(Resource, attributes(resource))]
pub fn resource(item: TokenStream) -> TokenStream {
    resource::derive(item.into()).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Implements `Schema` for a struct with named fields, or an enum of names: a part of a CustomResourceDefinition.
///
/// Names, defaults and skipped fields are those of serde's attributes. A field is required unless it is an `Option` or has
/// a default. Documentation comments become descriptions. `#[schema(…)]` at a field adds `minimum`, `maximum`,
/// `min_length`, `max_length`, `min_items`, `max_items`, `pattern`, `format`, `default = …`, and validations by CEL:
/// `rule("self >= oldSelf", "must not shrink")`, at a struct too; or replaces the schema: `json = "{…}"`.
#[proc_macro_derive(Schema, attributes(schema))]
pub fn schema(item: TokenStream) -> TokenStream {
    schema::derive(item.into()).unwrap_or_else(|error| error.to_compile_error()).into()
}
