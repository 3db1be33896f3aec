//! [`DevServer`]: a running server, and what tests do to it as a whole.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::controllers::Controllers;
use crate::faults::Faults;
use crate::http::{AllowedHosts, Connections, Identity, LONG_ANSWERS, Listener, Log, Served, Service, bind};
use crate::openapi::OpenApi;
use crate::seed::{seed, seed_files};
use crate::store::{HistoryLimits, Store};
use crate::verbs::Core;
use crate::{DevServerOptions, StartError};

/// A running API server; it ends when dropped.
#[derive(Debug)]
pub struct DevServer {
    address: SocketAddr,
    identity: Option<Identity>,
    service: Arc<Service>,
    connections: Arc<Connections>,
    controllers: Controllers,
    /// The last one is closed while the server is stopped.
    listener: Mutex<Option<Listener>>,
}

/// What came of the objects of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seeded {
    /// Objects that were made.
    pub created: usize,
    /// Objects that were there already and were brought to what the file says.
    pub updated: usize,
}

impl DevServer {
    /// Starts a server with the namespaces a new cluster has; it listens when this returns. It lives on the runtime on which
    /// it is started.
    ///
    /// # Errors
    /// When the address cannot be had or no certificate can be made.
    pub async fn start(options: DevServerOptions) -> Result<Self, StartError> {
        let failed = |source| StartError::Listen { address: options.listen, source };
        let listener = bind(options.listen).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let identity = options.tls.then(|| Identity::make(address.ip(), &options.hosts));
        let identity = identity.transpose().map_err(StartError::Certificate)?;
        // Neither all the time nor beyond what a clock can add.
        let bookmark_every =
            options.bookmark_every.clamp(Duration::from_millis(1), Duration::from_secs(86_400));
        let limits = HistoryLimits {
            changes: options.window,
            bytes: options.window_bytes,
            total_bytes: options.total_window_bytes,
        };
        let core = Core::new(Store::new(limits), bookmark_every);
        let controllers = Controllers::start(&core, options.controllers);
        let hosts = AllowedHosts::new(address, &options.hosts);
        let service = Arc::new(Service {
            core,
            openapi: OpenApi::default(),
            faults: Faults::default(),
            log: Log::default(),
            hosts,
            long_answers: Arc::new(Semaphore::new(LONG_ANSWERS)),
        });
        let connections = Arc::new(Connections::default());
        let serving = Listener::serve(listener, identity.clone(), connections.clone(), service.clone());
        Ok(Self { address, identity, service, connections, controllers, listener: Mutex::new(Some(serving)) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL, `http://127.0.0.1:PORT` or with `https`.
    pub fn url(&self) -> String {
        let scheme = if self.identity.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// A kubeconfig for it, as YAML; it works from any folder.
    pub fn kubeconfig(&self) -> String {
        use base64::Engine as _;
        use base64::engine::general_purpose::STANDARD;

        let authority = self.identity.as_ref().map_or_else(String::new, |identity| {
            format!("\n    certificate-authority-data: {}", STANDARD.encode(&identity.authority))
        });
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: pilothouse-dev\n  cluster:\n    server: {}{authority}\n\
             contexts:\n- name: pilothouse-dev\n  context:\n    cluster: pilothouse-dev\n    user: dev\n\
             current-context: pilothouse-dev\nusers:\n- name: dev\n  user:\n    token: dev\n",
            self.url()
        )
    }

    /// Makes the objects of a YAML or JSON file, or of all such files of a folder: definitions of resources and
    /// namespaces first, whatever the order of the files.
    ///
    /// # Errors
    /// At the first document that the server does not take; those before it stay.
    pub fn seed(&self, path: &Path) -> Result<Seeded, StartError> {
        seed(&self.service.core, path)
    }

    /// Waits until the server's own controllers have done all that follows from the writes so far: what is collected is
    /// gone, and so is what was in a deleted namespace. The end of pods, which takes time, is not waited for.
    pub async fn settled(&self) {
        self.controllers.settled(&self.service.core).await;
    }

    /// As [`DevServer::settled`], once there was a write after this revision; answers the revision up to which they have.
    /// Never ends without such a write. Cancel-safe.
    pub async fn settled_beyond(&self, revision: u64) -> u64 {
        self.controllers.settled_beyond(revision).await
    }

    /// As [`DevServer::seed`] with some files that have changed, in any order. Nothing is taken of a file that is not YAML or
    /// JSON; each object that the server does not take is an error, and the others are made or brought up to date.
    pub fn seed_files(&self, paths: &[PathBuf]) -> (Seeded, Vec<StartError>) {
        seed_files(&self.service.core, paths)
    }

    /// The faults it produces.
    pub fn faults(&self) -> &Faults {
        &self.service.faults
    }

    /// The last requests, in the order in which they were answered.
    pub fn requests(&self) -> Vec<Served> {
        self.service.log.all()
    }

    /// Forgets the requests so far.
    pub fn clear_requests(&self) {
        self.service.log.clear();
    }

    /// The resource version of the last write.
    pub fn revision(&self) -> u64 {
        self.service.core.store.revision()
    }

    /// Forgets all states but the current one, as etcd does when it is compacted: lists and watches at older resource
    /// versions get 410, open watches go on. The answer is the oldest version that is known from here on.
    pub fn compact(&self) -> u64 {
        self.service.core.store.compact()
    }

    /// Closes the port and resets all connections, as a killed process would. Objects stay.
    pub fn stop(&self) {
        self.connections.reset();
        if let Some(listener) = &mut *self.listener.lock() {
            listener.close();
        }
    }

    /// Opens the port again after [`DevServer::stop`].
    ///
    /// # Errors
    /// When somebody else has taken the port.
    pub async fn start_again(&self) -> Result<(), StartError> {
        let failed = |source| StartError::Listen { address: self.address, source };
        self.closed().await;
        let listener = bind(self.address).map_err(failed)?;
        let (identity, connections) = (self.identity.clone(), self.connections.clone());
        *self.listener.lock() = Some(Listener::serve(listener, identity, connections, self.service.clone()));
        Ok(())
    }

    /// Stops all traffic, as a process that hangs: connections are taken and stay open, and nothing moves on them.
    pub fn pause(&self) {
        self.connections.pause(true);
    }

    /// Lets the traffic go on.
    pub fn resume(&self) {
        self.connections.pause(false);
    }

    /// Ends all connections and stops listening.
    pub async fn shutdown(self) {
        self.stop();
        self.closed().await;
    }

    /// Waits until the port is closed, if it was told to.
    async fn closed(&self) {
        let closing = self.listener.lock().take_if(|listener| listener.is_closing());
        if let Some(listener) = closing {
            listener.closed().await;
        }
    }
}
