//! The verbs of the API on the store: what a request that names objects does.
//!
//! Everything here is pure state: a [`ResourceRequest`] goes in, an [`Answer`] comes out at once; only a watch goes on. Writes go
//! through one `pipeline`, those of the server's own controllers too. Faults, the log of what was served and the network are
//! the `http` module's.

mod apply;
mod configuration;
mod containers;
mod create;
mod definitions;
mod delete;
mod identity;
mod list;
mod ownership;
mod patch;
mod pipeline;
mod read;
mod render;
mod request;
mod reviews;
mod scale;
mod selection;
mod services;
mod subresource;
mod update;
mod watch;
mod write;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use crate::api::{ApiError, JsonMap, Timestamp};
use crate::resources::{NAMESPACES, Registry};
use crate::store::Store;
use services::ServiceNumbers;

pub(crate) use definitions::{CLEANUP, definition_name};
pub(crate) use delete::{DeleteOptions, FOREGROUND, ORPHAN, Propagation};
pub(crate) use pipeline::ObjectPart;
pub(crate) use read::ListTwist;
pub(crate) use render::Rendering;
pub(crate) use request::{ResourceRequest, User, verb};
pub(crate) use watch::{Piece, WatchStream};
pub(crate) use write::Write;

/// The namespaces of a new cluster.
const FIRST: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
/// A ConfigMap that an API server makes: since when it notes the use of service accounts' old tokens. A controller of
/// kube-controller-manager reads it.
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";

/// All state of the server.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) store: Arc<Store>,
    pub(crate) registry: Registry,
    pub(crate) bookmark_every: Duration,
    service_numbers: ServiceNumbers,
}

/// What comes of a request.
#[derive(Debug)]
pub(crate) enum Answer {
    Whole { code: StatusCode, body: Bytes },
    Watch(Box<WatchStream>),
}

impl Answer {
    pub(crate) fn json(code: StatusCode, value: &Value) -> Self {
        Self::Whole { code, body: value.to_string().into() }
    }
}

type Outcome = Result<Answer, ApiError>;

impl Core {
    /// With the namespaces of a new cluster.
    pub(crate) fn new(store: Arc<Store>, bookmark_every: Duration) -> Arc<Self> {
        let core = Arc::new(Self {
            store,
            registry: Registry::new(),
            bookmark_every,
            service_numbers: ServiceNumbers::default(),
        });
        for name in FIRST {
            core.begin_with(NAMESPACES, None, name, json!({"metadata": {"name": name}}));
        }
        let since = Timestamp::now().0.strftime("%Y-%m-%d").to_string();
        let tracking = json!({"metadata": {"name": TRACKING}, "data": {"since": since}});
        core.begin_with("/configmaps", Some("kube-system"), TRACKING, tracking);
        core
    }

    /// Makes an object of a new cluster.
    fn begin_with(&self, table: &str, namespace: Option<&str>, name: &str, object: Value) {
        let Some(write) = self.own_write(table, namespace, name) else { return };
        let Value::Object(object) = object else { return };
        if let Err(error) = self.create_object(&write, object) {
            tracing::error!(name, "an object of a new cluster could not be made: {}", error.message);
        }
    }

    /// Does what a request asks for.
    pub(crate) fn answer(&self, verb: &str, request: &ResourceRequest) -> Outcome {
        request.check_scope(verb)?;
        if let Some(part) = &request.target.subresource {
            return self.on_subresource(part, verb, request);
        }
        if !request.resource.allows(verb) {
            return Err(ApiError::method_not_allowed());
        }
        match verb {
            "get" => self.get(request),
            "list" => self.list(request),
            "watch" => self.watch(request),
            "create" => self.create(request),
            "update" => self.update(request),
            "patch" => self.patch(request),
            "delete" => self.delete(request),
            "deletecollection" => self.delete_collection(request),
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    /// A write of the server itself on an object of a table; `None` if no version of it is served.
    pub(crate) fn own_write(&self, table: &str, namespace: Option<&str>, name: &str) -> Option<Write> {
        let resource = self.registry.now().all().find(|r| *r.storage == *table)?.clone();
        Some(Write::own(resource, namespace.map(str::to_owned), name))
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::config_maps;
