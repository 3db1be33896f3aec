//! [`TypedWatch`]: a watch whose objects are of one Rust type.

use std::fmt;
use std::marker::PhantomData;

use pilothouse_object::Object;

use super::Resource;
use crate::client::failure::without_values;
use crate::error::{Error, Result};
use crate::params::WatchEvent;
use crate::watch::WatchStream;

/// The events of one watch. Dropping it closes the watch.
pub struct TypedWatch<K> {
    stream: WatchStream,
    kind: PhantomData<fn() -> K>,
}

impl<K: Resource> TypedWatch<K> {
    pub(super) fn new(stream: WatchStream) -> Self {
        Self { stream, kind: PhantomData }
    }

    /// The next event, see [`WatchStream::next`]. Cancel-safe.
    ///
    /// # Errors
    /// As [`WatchStream::next`]; [`Error::Event`] as well for an object that is not of the type.
    pub async fn next(&mut self) -> Option<Result<WatchEvent<K>>> {
        Some(self.stream.next().await?.and_then(typed))
    }
}

impl<K> fmt::Debug for TypedWatch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedWatch").field(&self.stream).finish()
    }
}

fn typed<K: Resource>(event: WatchEvent) -> Result<WatchEvent<K>> {
    let read = |object: Object| {
        let doing = || format!("watching {}: {}", K::PLURAL, object.key().as_str());
        serde_json::from_slice(object.bytes())
            .map_err(|e| Error::Event { doing: doing(), message: without_values(&e) })
    };
    Ok(match event {
        WatchEvent::Added(object) => WatchEvent::Added(read(object)?),
        WatchEvent::Modified(object) => WatchEvent::Modified(read(object)?),
        WatchEvent::Deleted(object) => WatchEvent::Deleted(read(object)?),
        WatchEvent::Bookmark { resource_version, initial_events_end } => {
            WatchEvent::Bookmark { resource_version, initial_events_end }
        }
    })
}
