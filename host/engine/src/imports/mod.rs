//! The generated traits of a guest's imports, implemented on [`HostImports`](crate::HostImports): one file per interface.

mod builders;
mod cache;
mod client;
mod events;
mod kinds;
mod log;
mod metrics;
mod objects;
mod queue;
mod reading;
mod resources;
mod scan;
mod sorted;

use std::ops::{Deref, DerefMut};

use pilothouse_object::ObjectKey;
use wasmtime::component::{HasData, Linker};

pub(crate) use self::kinds::MAX_KINDS;
pub(crate) use self::metrics::MAX_METRICS;
pub(crate) use self::queue::MAX_DELAY;
pub(crate) use self::resources::Kept;
#[expect(unreachable_pub, reason = "the generated bindings re-export them")]
pub use self::resources::{Cursor, Kind, Metric, NewEvent, Options, Page, Query, Values};
use crate::bindings::pilothouse::controller as wit;
use crate::error::OverLimit;
use crate::host::{ClientError, Refusal, RefusalReason};
use crate::state::StoreState;

/// A call of an import: the state of the guest's store. The time until it is dropped is the host's.
pub(crate) struct ImportCall<'a>(&'a mut StoreState);

/// A guest calls an import.
fn import_call(state: &mut StoreState) -> ImportCall<'_> {
    state.budget.import_begins();
    ImportCall(state)
}

impl Drop for ImportCall<'_> {
    fn drop(&mut self) {
        self.0.budget.import_ends();
    }
}

impl Deref for ImportCall<'_> {
    type Target = StoreState;

    fn deref(&self) -> &StoreState {
        self.0
    }
}

impl DerefMut for ImportCall<'_> {
    fn deref_mut(&mut self) -> &mut StoreState {
        self.0
    }
}

/// What the generated bindings call: [`ImportCall`].
struct ImportCalls;

impl HasData for ImportCalls {
    type Data<'a> = ImportCall<'a>;
}

/// Counts the bytes that one call of an import answers, against `limits.answerBytes`: the guest chooses how much it asks
/// for, and the host holds the answer until it is copied.
struct Answer {
    import: &'static str,
    bytes: usize,
    max: usize,
}

impl Answer {
    fn new(import: &'static str, max: usize) -> Self {
        Self { import, bytes: 0, max }
    }

    /// Adds a part of the answer; an error when the answer becomes too large.
    fn add(&mut self, bytes: usize) -> Result<(), OverLimit> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes <= self.max {
            return Ok(());
        }
        Err(OverLimit::new(format_args!(
            "the answer of {} exceeds {} bytes (limits.answerBytes): ask for less at a time, or raise the limit",
            self.import, self.max
        )))
    }
}

/// Maximum length in bytes of a text in options.
const MAX_TEXT: usize = 64 << 10;

/// Links the interfaces.
pub(crate) fn add_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    wit::types::add_to_linker::<StoreState, ImportCalls>(linker, import_call)?;
    wit::kinds::add_to_linker::<StoreState, ImportCalls>(linker, import_call)?;
    wit::objects::add_to_linker::<StoreState, ImportCalls>(linker, import_call)?;
    wit::cache::add_to_linker::<StoreState, ImportCalls>(linker, import_call)?;
    wit::client::add_to_linker::<StoreState, ImportCalls>(linker, import_call)?;
    wit::queue::add_to_linker::<StoreState, ImportCalls>(linker, import_call)?;
    wit::config::add_to_linker::<StoreState, ImportCalls>(linker, import_call)?;
    wit::clock::add_to_linker::<StoreState, ImportCalls>(linker, import_call)?;
    wit::log::add_to_linker::<StoreState, ImportCalls>(linker, import_call)?;
    wit::events::add_to_linker::<StoreState, ImportCalls>(linker, import_call)?;
    wit::metrics::add_to_linker::<StoreState, ImportCalls>(linker, import_call)
}

/// Why a call of an import fails. The generated bindings name it.
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
#[derive(Debug)]
pub enum Refused {
    /// The guest hears why.
    Refusal(Refusal),
    /// The guest traps.
    Trap(wasmtime::Error),
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

impl From<OverLimit> for Refused {
    fn from(over: OverLimit) -> Self {
        Self::Refusal(over.into())
    }
}

impl From<wasmtime::Error> for Refused {
    fn from(trap: wasmtime::Error) -> Self {
        Self::Trap(trap)
    }
}

/// Why a live call fails.
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
#[derive(Debug)]
pub enum CallFailed {
    /// The guest hears why.
    Error(ClientError),
    /// The guest traps.
    Trap(wasmtime::Error),
}

impl<E: Into<Refused>> From<E> for CallFailed {
    fn from(error: E) -> Self {
        match error.into() {
            Refused::Refusal(refusal) => Self::Error(refusal.into()),
            Refused::Trap(trap) => Self::Trap(trap),
        }
    }
}

fn wit_refusal(refusal: Refusal) -> wit::types::Refusal {
    use wit::types::RefusalReason as Reason;
    let reason = match refusal.reason {
        RefusalReason::Forbidden => Reason::Forbidden,
        RefusalReason::Invalid => Reason::Invalid,
        RefusalReason::NotWatched => Reason::NotWatched,
        RefusalReason::UnknownIndex => Reason::UnknownIndex,
        RefusalReason::OverLimit => Reason::OverLimit,
        RefusalReason::Unavailable => Reason::Unavailable,
        RefusalReason::Unsupported => Reason::Unsupported,
    };
    wit::types::Refusal { reason, message: cut(refusal.message, builders::MAX_MESSAGE) }
}

/// The first `most` bytes of a text, or one to three less where a character would be cut.
fn cut(mut text: String, most: usize) -> String {
    text.truncate(text.floor_char_boundary(most));
    text
}

impl wit::types::Host for ImportCall<'_> {
    fn convert_refusal(&mut self, error: Refused) -> wasmtime::Result<wit::types::Refusal> {
        match error {
            Refused::Refusal(refusal) => Ok(wit_refusal(refusal)),
            Refused::Trap(trap) => Err(trap),
        }
    }

    fn convert_client_error(&mut self, error: CallFailed) -> wasmtime::Result<wit::types::ClientError> {
        use wit::types::{ClientError as Error, Status, StatusCause};
        let status = match error {
            CallFailed::Error(ClientError::Refused(refusal)) => {
                return Ok(Error::Refused(wit_refusal(refusal)));
            }
            CallFailed::Error(ClientError::Api(status)) => status,
            CallFailed::Trap(trap) => return Err(trap),
        };
        let causes = status.causes.into_iter().map(|cause| StatusCause {
            reason: cause.reason,
            message: cause.message,
            field: cause.field,
        });
        Ok(Error::Api(Status {
            code: status.code,
            reason: status.reason,
            message: cut(status.message, MAX_TEXT),
            causes: causes.collect(),
            retry_after: status.retry_after.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        }))
    }
}

impl wit::config::Host for ImportCall<'_> {
    fn get(&mut self) -> wasmtime::Result<Vec<u8>> {
        Ok(self.host.config().to_vec())
    }
}

impl wit::clock::Host for ImportCall<'_> {
    fn now(&mut self) -> wasmtime::Result<u64> {
        Ok(u64::try_from(self.wall_time().as_millisecond()).unwrap_or_default())
    }

    fn now_rfc3339(&mut self) -> wasmtime::Result<String> {
        Ok(self.wall_time().strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
    }
}

impl StoreState {
    fn wall_time(&self) -> jiff::Timestamp {
        let Some(system) = &self.system else { return jiff::Timestamp::now() };
        let since = jiff::SignedDuration::try_from(system.wall_clock()).unwrap_or(jiff::SignedDuration::MAX);
        jiff::Timestamp::from_duration(since).unwrap_or(jiff::Timestamp::MAX)
    }
}

/// Keys of the work queue are of the cluster that the plugin runs in.
fn check_cluster(cluster: u32) -> Result<(), Refusal> {
    if cluster == 0 {
        return Ok(());
    }
    Err(Refusal::unsupported(format_args!(
        "cluster {cluster}: the work queue has keys of cluster 0 only, the one that the plugin runs in"
    )))
}

fn key(namespace: &str, name: &str) -> Result<ObjectKey, Refusal> {
    ObjectKey::new(Some(namespace).filter(|namespace| !namespace.is_empty()), name).map_err(Refusal::invalid)
}

pub(crate) fn wit_key(key: &ObjectKey) -> wit::types::ObjectKey {
    wit::types::ObjectKey {
        namespace: key.namespace().unwrap_or_default().to_owned(),
        name: key.name().to_owned(),
    }
}

/// Refuses a text of options that is too long.
fn check_text(what: &str, text: &str, most: usize) -> Result<(), Refusal> {
    if text.len() <= most {
        return Ok(());
    }
    Err(Refusal::invalid(format_args!("{what} has {} bytes, at most {most} are allowed", text.len())))
}

#[cfg(test)]
mod tests;
