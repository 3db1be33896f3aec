//! Discovery documents: what they say, their forms on the wire and on disk, and a cache of them. `discovery` sends the
//! requests.
//!
//! ```text
//!   cache ──► document           what was fetched last, one fetch of a document at a time
//!     ├─────► root ──► wire      `/api` and `/apis` with all that they hold
//!     └─────► files ──► disk     kubectl's files
//! ```

mod cache;
#[cfg(feature = "discovery-disk")]
mod disk;
mod document;
#[cfg(feature = "discovery-disk")]
mod files;
mod root;
mod types;
mod wire;

pub(crate) use cache::{DocumentCache, Documents};
#[cfg(feature = "discovery-disk")]
pub use disk::DiskCacheOptions;
pub(crate) use document::{Access, Fetched, REFRESH_SPACING, may_pass};
#[cfg(feature = "discovery-disk")]
pub(crate) use files::DocumentFiles;
pub(crate) use root::{ResourceListResult, Root, RootPart, RootResponse, stale};
pub use types::{ApiGroup, FailedGroup, GroupVersion, GroupVersionResources, ServerResources};
pub(crate) use wire::{Group, ResourceList, RootDocument};
