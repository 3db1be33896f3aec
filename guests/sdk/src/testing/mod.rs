//! Tests without a host: [`World`] is a cluster and a host in memory, for `cargo test`.
//!
//! ```
//! use pilothouse_sdk::prelude::*;
//! use pilothouse_sdk::testing::World;
//!
//! #[derive(Resource, Serialize, Deserialize, Default)]
//! #[resource(version = "v1")]
//! struct ConfigMap {
//!     metadata: Metadata,
//!     #[serde(default)]
//!     data: std::collections::BTreeMap<String, String>,
//! }
//!
//! /// Copies each ConfigMap with the label `copy: yes` to `NAME-copy`.
//! struct Copier;
//!
//! #[pilothouse_sdk::reconciler]
//! impl Reconciler for Copier {
//!     fn describe(_config: &Config) -> Result<Descriptor, String> {
//!         Ok(Descriptor::new("copier")
//!             .watch(Watch::of::<ConfigMap>().label_selector("copy=yes"))
//!             .owns::<ConfigMap>()
//!             .writes::<ConfigMap>(Verb::APPLY))
//!     }
//!
//!     fn reconcile(&mut self, ctx: &Context, request: &Request) -> Result<Outcome, Failure> {
//!         let Some(map) = ctx.get::<ConfigMap>(&request.key)? else { return Ok(Outcome::Done) };
//!         let metadata = Metadata::new(&request.key.child("-copy"));
//!         let mut copy = ConfigMap { metadata, data: map.data.clone() };
//!         set_controller_reference(&map, &mut copy)?;
//!         if ctx.apply(&copy)?.is_change() {
//!             info!("copied", map = request.key);
//!         }
//!         Ok(Outcome::Done)
//!     }
//! }
//!
//! let world = World::of::<Copier>(json!({}));
//! let mut copier = world.start::<Copier>();
//! let metadata = Metadata::new(&Key::namespaced("default", "a")).with_label("copy", "yes");
//! world.create(&ConfigMap { metadata, data: [("k".to_owned(), "v".to_owned())].into() });
//!
//! world.settle(&mut copier);
//! let copy: ConfigMap = world.get(&Key::namespaced("default", "a-copy")).unwrap();
//! assert_eq!(copy.data["k"], "v");
//!
//! // A second reconcile has nothing to write.
//! world.take_writes();
//! world.enqueue(&Key::namespaced("default", "a"));
//! world.settle(&mut copier);
//! assert_eq!(world.take_writes(), []);
//! ```
//!
//! # What it does as the real ones do
//! - **The API server**: resource versions and conflicts, UIDs, generations, `status` as a subresource, JSON and merge
//!   patches, server-side apply with managers, conflicts and removal of fields that are no longer applied, finalizers and
//!   deletion, deletion of owned objects, dry runs, selectors, pages, evictions, bindings, tokens, scales.
//! - **The host**: only watched kinds can be read from the cache, only permissions that the descriptor asks for are
//!   granted ([`World::revoke`] takes them away), indexes and projections are those of the descriptor, watches select, filter
//!   and map as it says, the queue deduplicates and delays, events of handlers are merged,
//!   judged by predicates as what they were merged into, and come again.
//!
//! # What it does not do
//! - It does not validate or default objects, has no admission, and starts no controllers: no Deployment becomes ready by
//!   itself ([`World::set_status`] says that it is).
//! - Lists are single fields of an apply: they are not merged by keys. There are no strategic merge patches.
//! - A foreground deletion deletes dependents as a background one does. Every field can be selected by. Every kind has the
//!   subresource `status`.
//! - Events of watches with [`Delivery::Every`](crate::Delivery::Every) are merged as well.
//! - Resource versions of lists, schedules, resyncs, priorities of reloads, and limits of time, CPU and memory are not
//!   there. The rate limiter is the default one.
//!
//! `pilothouse dev` and `pilothouse test` run the component on a server that does these things.

mod checks;
mod clusters;
mod descriptor;
mod fields;
mod grants;
mod host;
mod json_patch;
mod maps;
mod plugin;
mod predicates;
mod queue;
mod records;
mod selector;
mod server;
mod state;
#[cfg(test)]
mod tests;
mod time;
mod world;

pub use plugin::{Call, Plugin};
pub use records::{LogLine, RecordedEvent, Write};
pub use world::{HttpRequest, World};
