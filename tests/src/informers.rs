//! [`Informer`]: an informer of `pilothouse-cache` in the test process, without a host, for the ConfigMaps of a
//! namespace.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use pilothouse_cache::{
    ClientListerWatcher, InformerOptions, ReflectorOptions, Registration, SharedInformer,
};
use pilothouse_client::{ApiResource, Client, ClientOptions};
use pilothouse_object::Gvk;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::poll;
use crate::sequence::{self, Liberties, Notes, Told, View};

const JOINING: Duration = Duration::from_secs(10);

/// The resource that these informers watch.
#[must_use]
pub fn config_maps() -> ApiResource {
    ApiResource {
        verbs: ["get", "list", "watch", "create", "update", "delete"].map(str::to_owned).to_vec(),
        ..ApiResource::new(Gvk::new("", "v1", "ConfigMap"), "configmaps", true)
    }
}

/// A client of this project from a kubeconfig. Must be called on a runtime.
///
/// # Errors
/// When the kubeconfig cannot be used.
pub async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    let options = ClientOptions { kubeconfig: Some(kubeconfig.to_owned()), ..ClientOptions::default() };
    Ok(Client::new(options).await?)
}

/// A running informer and the events that it delivered.
pub struct Informer {
    informer: SharedInformer,
    notes: Arc<Notes>,
    _registration: Registration,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

impl Informer {
    /// Starts an informer; `streaming` selects streaming lists.
    ///
    /// # Errors
    /// When the kubeconfig cannot be used.
    pub fn start(
        runtime: &Runtime,
        kubeconfig: &Path,
        namespace: &str,
        streaming: bool,
    ) -> anyhow::Result<Informer> {
        let client = runtime.block_on(client(kubeconfig))?;
        let source = ClientListerWatcher::new(client, config_maps(), Some(namespace));
        let reflector = ReflectorOptions { watch_list: streaming, ..ReflectorOptions::default() };
        let options = InformerOptions { reflector, ..InformerOptions::default() };
        let informer = SharedInformer::new(Arc::new(source), config_maps(), Some(namespace), options);
        let notes = Notes::new();
        let registration = informer.add_listener(notes.clone(), None)?;
        let (run, cancel) = (informer.clone(), CancellationToken::new());
        let token = cancel.clone();
        let task = runtime.spawn(async move { run.run(token).await });
        Ok(Informer { informer, notes, _registration: registration, cancel, task })
    }

    /// The objects in the informer's store.
    #[must_use]
    pub fn holds(&self) -> View {
        sequence::view(&self.informer.indexer().list())
    }

    /// The delivered events, in order.
    #[must_use]
    pub fn told(&self) -> Vec<Told> {
        self.notes.told()
    }

    /// Waits until the store equals `truth`, and checks that the delivered events are a legal sequence that leads
    /// there.
    ///
    /// # Errors
    /// When the store does not reach that state in time, or the events are illegal or lead to another state.
    pub fn settle(&self, truth: &View, deadline: Duration) -> anyhow::Result<()> {
        let settled =
            poll::until("the informer to hold what a list shows", deadline, || self.holds() == *truth);
        settled.with_context(|| format!("{:?}", self.informer.status().reflector))?;
        // The store is updated before the listeners are called.
        let told = || sequence::believe(&self.told(), Liberties::default());
        let agrees = poll::until("the listener to have been told of it", JOINING, || {
            told().is_ok_and(|view| view == *truth)
        });
        ensure!(told()? == *truth, "told {:?}, is {truth:?}", told()?);
        agrees
    }

    /// Stops the informer and waits until it has ended.
    ///
    /// # Errors
    /// When the informer panicked.
    pub fn stop(self, runtime: &Runtime) -> anyhow::Result<()> {
        self.cancel.cancel();
        Ok(runtime.block_on(self.task)?)
    }
}
