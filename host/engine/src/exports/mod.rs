//! The exports of a guest, one module for each version of the contract.

mod v0_1;
mod v0_2;

use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};

use crate::contract::{ContractVersion, Exported};
use crate::instance::{Event, Failure, Outcome, Request};
use crate::state::StoreState;

/// The answer for one key.
pub(crate) type KeyAnswer = Result<Outcome, Failure>;

/// The answer for one event.
pub(crate) type EventAnswer = Result<(), Failure>;

/// An export that the component does not have.
#[derive(Debug, thiserror::Error)]
#[error("the component exports no {0} interface")]
pub(crate) struct NotExported(&'static str);

/// Where the exports of a component are.
pub(crate) enum Indices {
    V0_1(v0_1::Indices),
    V0_2(v0_2::Indices),
}

/// The exports of an instance.
pub(crate) enum Exports {
    V0_1(v0_1::Exports),
    V0_2(v0_2::Exports),
}

impl Indices {
    /// Looks the exports up.
    ///
    /// # Errors
    /// When one of them is of another type.
    pub(crate) fn new(exported: Exported, pre: &InstancePre<StoreState>) -> wasmtime::Result<Self> {
        Ok(match exported.version {
            ContractVersion::V0_1 => Self::V0_1(v0_1::Indices::new(exported, pre)?),
            ContractVersion::V0_2 => Self::V0_2(v0_2::Indices::new(exported, pre)?),
        })
    }

    pub(crate) fn load(&self, store: &mut Store<StoreState>, of: &Instance) -> wasmtime::Result<Exports> {
        Ok(match self {
            Self::V0_1(indices) => Exports::V0_1(indices.load(store, of)?),
            Self::V0_2(indices) => Exports::V0_2(indices.load(store, of)?),
        })
    }
}

impl Exports {
    pub(crate) async fn describe(
        &self,
        store: &mut Store<StoreState>,
        config: &[u8],
    ) -> wasmtime::Result<Result<Vec<u8>, String>> {
        match self {
            Self::V0_1(exports) => exports.describe(store, config).await,
            Self::V0_2(exports) => exports.describe(store, config).await,
        }
    }

    pub(crate) async fn reconcile(
        &self,
        store: &mut Store<StoreState>,
        request: &Request<'_>,
    ) -> wasmtime::Result<KeyAnswer> {
        match self {
            Self::V0_1(exports) => exports.reconcile(store, request).await,
            Self::V0_2(exports) => exports.reconcile(store, request).await,
        }
    }

    pub(crate) async fn reconcile_many(
        &self,
        store: &mut Store<StoreState>,
        requests: &[Request<'_>],
    ) -> wasmtime::Result<Vec<KeyAnswer>> {
        match self {
            Self::V0_1(exports) => exports.reconcile_many(store, requests).await,
            Self::V0_2(exports) => exports.reconcile_many(store, requests).await,
        }
    }

    pub(crate) async fn handle(
        &self,
        store: &mut Store<StoreState>,
        watch: &str,
        events: &[Event<'_>],
    ) -> wasmtime::Result<Vec<EventAnswer>> {
        match self {
            Self::V0_1(exports) => exports.handle(store, events).await,
            Self::V0_2(exports) => exports.handle(store, watch, events).await,
        }
    }

    /// Contract 0.1 has no such call.
    pub(crate) async fn synced(&self, store: &mut Store<StoreState>, watch: &str) -> wasmtime::Result<()> {
        match self {
            Self::V0_1(_) => Ok(()),
            Self::V0_2(exports) => exports.synced(store, watch).await,
        }
    }

    /// Contract 0.1 has no state.
    pub(crate) async fn save(&self, store: &mut Store<StoreState>) -> wasmtime::Result<Option<Vec<u8>>> {
        match self {
            Self::V0_1(_) => Ok(None),
            Self::V0_2(exports) => exports.save(store).await,
        }
    }

    /// Contract 0.1 has no state.
    pub(crate) async fn restore(
        &self,
        store: &mut Store<StoreState>,
        saved: &[u8],
    ) -> wasmtime::Result<Result<(), String>> {
        match self {
            Self::V0_1(_) => Ok(Ok(())),
            Self::V0_2(exports) => exports.restore(store, saved).await,
        }
    }
}

/// The interface of an instance, or an error that names it.
fn exported<'a, T>(interface: &'a Option<T>, name: &'static str) -> wasmtime::Result<&'a T> {
    interface.as_ref().ok_or_else(|| NotExported(name).into())
}
