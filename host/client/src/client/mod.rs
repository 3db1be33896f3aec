//! [`Client`]: the handle that the host and its plugins call the API server through.
//!
//! A clone is two reference counts and a few words. Clients made with [`Client::with_identity`] share connections, credentials and the
//! discovery cache, and differ in the headers that say who is asking. The verbs are in `verbs`, `list`, `watch` and
//! `discovery`.
//!
//! ```text
//!   call      what to request: method, address, headers, body
//!   send      identity, credentials, rate limits, attempts and retries
//!   body      the response: read whole, in pieces, or streamed
//!   failure   responses and connections that failed, as errors
//!   core      what the clients of all identities share
//! ```

mod body;
mod call;
mod core;
pub(crate) mod failure;
mod send;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use serde::Deserialize;
use tokio::runtime::Handle;

use self::failure::unexpected;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::identity::RequestIdentity;
use crate::options::ClientOptions;
use crate::retry::RetryPolicy;
use crate::transport::{Transport, WriteGate};
use crate::url::Target;

pub(crate) use self::body::{FullResponse, OBJECT_LIMIT};
pub(crate) use self::call::Call;
use self::core::ClientCore;

/// A client of one API server under one identity; a cheap clone.
#[derive(Clone)]
pub struct Client {
    pub(crate) core: Arc<ClientCore>,
    /// Headers of the identity, or why there are none: a call under a broken identity must fail rather than go out
    /// under another one.
    pub(crate) identity: Result<Arc<RequestIdentity>>,
    /// Where its calls go.
    connections: Arc<Transport>,
    write_gate: Option<WriteGate>,
    pub(crate) policy: Policy,
}

/// How the calls of a handle are made.
#[derive(Clone, Copy)]
pub(crate) struct Policy {
    pub(crate) request_timeout: Duration,
    pub(crate) retry: RetryPolicy,
    pub(crate) rate_limited: bool,
}

/// What `/version` says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerVersion {
    /// Major version, as `1`.
    pub major: String,
    /// Minor version, as `36`; some vendors append `+`.
    pub minor: String,
    /// Full version, as `v1.36.3`.
    pub git_version: String,
    /// Operating system and architecture, as `linux/amd64`.
    pub platform: String,
}

impl Client {
    /// Reads the configuration and prepares the transport. The server need not be up; an exec plugin for credentials
    /// runs.
    ///
    /// Connections live on the tokio runtime that this is called in, whichever runtime later calls come from.
    ///
    /// # Errors
    /// [`Error::Config`] naming the file, what is wrong with it and the remedy.
    pub async fn new(options: ClientOptions) -> Result<Self> {
        let policy =
            Policy { request_timeout: options.request_timeout, retry: options.retry, rate_limited: true };
        let core = Arc::new(ClientCore::new(options).await?);
        Ok(Self {
            identity: Ok(Arc::clone(&core.own)),
            connections: Arc::clone(&core.connections),
            core,
            write_gate: None,
            policy,
        })
    }

    /// The same client under another identity. An identity that HTTP cannot carry makes every call fail.
    #[must_use]
    pub fn with_identity(&self, identity: Identity) -> Self {
        let caller = RequestIdentity::new(&self.core.own, &identity, &self.core.runtime).map(Arc::new);
        Self { identity: caller, ..self.clone() }
    }

    /// [`with_identity`](Self::with_identity), with the limit of `other`'s identity in place of one of its own: the requests of
    /// both clients count together, also where they are of two API servers.
    #[must_use]
    pub fn with_identity_limited_with(&self, identity: Identity, other: &Self) -> Self {
        let identity = Identity { rate_limit: None, ..identity };
        let limiter = other.identity.as_ref().ok().and_then(|other| other.rate_limiter.clone());
        let caller = RequestIdentity::new(&self.core.own, &identity, &self.core.runtime);
        let limited = |mut caller: RequestIdentity| {
            caller.rate_limiter = limiter;
            Arc::new(caller)
        };
        let caller = caller.map(limited);
        Self { identity: caller, ..self.clone() }
    }

    /// The same client with another time for its calls than [`ClientOptions::request_timeout`].
    #[must_use]
    pub fn with_request_timeout(mut self, timeout: Duration) -> Self {
        self.policy.request_timeout = timeout;
        self
    }

    /// The same client with another policy than [`ClientOptions::retry`].
    #[must_use]
    pub fn with_retry_policy(mut self, policy: RetryPolicy) -> Self {
        self.policy.retry = policy;
        self
    }

    /// The same client for calls that must not wait behind others, such as the renewal of a lease: the rate limits do not
    /// hold for it.
    #[must_use]
    pub fn without_rate_limit(mut self) -> Self {
        self.policy.rate_limited = false;
        self
    }

    /// The same client with connections of its own, for calls that must not wait behind others, such as the renewal of a
    /// lease: they are made when they are needed, and closed with the last clone of this client.
    #[must_use]
    pub fn with_own_connections(self) -> Self {
        let runtime = self.core.runtime.clone();
        self.with_connections_on(&runtime)
    }

    /// As [`with_own_connections`](Self::with_own_connections), with connections that live on another runtime than those of
    /// this client: a runtime that is busy does not delay them.
    #[must_use]
    pub fn with_connections_on(mut self, runtime: &Handle) -> Self {
        self.connections = self.core.connections_on(runtime);
        self
    }

    /// The same client for writes that may be sent as long as `gate` says so. One that may not fails with
    /// [`Error::Transport`], `unsent`.
    #[must_use]
    pub fn with_write_gate(mut self, gate: WriteGate) -> Self {
        self.write_gate = Some(gate);
        self
    }

    /// The same client under the host's own identity; what is shared by all identities is fetched with it.
    pub(crate) fn as_host(&self) -> Self {
        Self { identity: Ok(Arc::clone(&self.core.own)), ..self.clone() }
    }

    /// Address of the server, as `https://10.0.0.1:6443`.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.core.base
    }

    /// Namespace of the kubeconfig's context, or of the pod; `default` when neither says.
    #[must_use]
    pub fn default_namespace(&self) -> &str {
        &self.core.default_namespace
    }

    /// Sends a request to an endpoint that has no verb here, as `/readyz`, and gives the response whatever its status.
    ///
    /// `path_and_query` begins with `/` and is sent as it is; a body is sent as JSON.
    ///
    /// # Errors
    /// When the path is not one, no response came, or it is larger than 16 MiB.
    pub async fn request_raw(
        &self,
        method: Method,
        path_and_query: &str,
        body: Option<&[u8]>,
    ) -> Result<(StatusCode, Bytes)> {
        let mut call = Call::new(method, Target::raw(path_and_query)?);
        if let Some(body) = body {
            call = call.body("application/json", body);
        }
        let response = self.fetch(&call, OBJECT_LIMIT).await?;
        Ok((response.status, response.body))
    }

    /// The server's version.
    ///
    /// # Errors
    /// When no response came, or it is not that of an API server.
    pub async fn server_version(&self) -> Result<ServerVersion> {
        let call = Call::new(Method::GET, Target::raw("/version")?);
        let body = self.fetch_ok(&call, OBJECT_LIMIT).await?;
        let version: ServerVersion =
            serde_json::from_slice(&body).map_err(|e| unexpected(self.doing(&call), &e))?;
        if version.git_version.is_empty() {
            return Err(Error::Protocol {
                doing: self.doing(&call),
                message: "no gitVersion; is this a Kubernetes API server?".to_owned(),
            });
        }
        Ok(version)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Client");
        out.field("server", &self.core.base);
        if let Ok(identity) = &self.identity {
            out.field("user_agent", &identity.user_agent);
        }
        out.finish_non_exhaustive()
    }
}
