//! [`Clusters`]: the clusters of a host as a manager is started with them; [`Cluster`]: one of them, with its loader.
//!
//! Invariant: a cluster that does not answer holds up the runs in it and nothing else, unless it is the home cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_cache::{InformerStatus, SharedInformerFactory};
use pilothouse_client::{Client, Error};
use pilothouse_plugin::HOME_CLUSTER;
use tokio::runtime::Handle;

use crate::lifecycle::load::Loader;
use crate::lifecycle::plugin::Plugin;
use crate::observe::status::ClusterView;

/// Wait between two requests for the version of a server that does not answer.
const VERSION_RETRY: Duration = Duration::from_secs(2);

/// Wait between two requests for the version of a server that answers, and that no informer watches.
const VERSION_AGAIN: Duration = Duration::from_secs(30);

/// How often it is looked whether a cluster is away while a first load in it is waited for.
const AWAY_LOOK: Duration = Duration::from_secs(1);

/// How a host reaches one cluster.
#[derive(Debug, Clone)]
pub struct ClusterClient {
    /// Sends the requests.
    pub client: Client,
    /// The informers of that client.
    pub factory: SharedInformerFactory,
}

/// The clusters of a host.
#[derive(Debug, Clone)]
pub struct Clusters {
    /// The home cluster, which holds what is the host's own.
    pub home: ClusterClient,
    /// The others by the names that manifests use; each is a DNS label and none is `home`.
    pub others: BTreeMap<String, ClusterClient>,
}

impl Clusters {
    /// The same clients, with the connections of live calls on a runtime.
    pub(super) fn with_connections_on(mut self, runtime: &Handle) -> Self {
        for cluster in std::iter::once(&mut self.home).chain(self.others.values_mut()) {
            cluster.client = cluster.client.clone().with_connections_on(runtime);
        }
        self
    }

    /// All of them by name, with clients and informers.
    pub(super) fn named(&self) -> impl Iterator<Item = (&str, &Client, &SharedInformerFactory)> {
        let others = self.others.iter().map(|(name, cluster)| (name.as_str(), cluster));
        let all = std::iter::once((HOME_CLUSTER, &self.home)).chain(others);
        all.map(|(name, ClusterClient { client, factory })| (name, client, factory))
    }
}

/// A cluster of a running host.
pub(crate) struct Cluster {
    /// None of the home cluster.
    name: Option<String>,
    pub(crate) loader: Loader,
    reach: Mutex<Reach>,
}

/// What came of the last request for the version of the API server.
enum Reach {
    /// Nothing yet.
    NotTried,
    /// No answer, for this reason.
    Failed(String),
    Answered,
}

impl Cluster {
    pub(super) fn new(name: Option<&str>, loader: Loader) -> Self {
        Self { name: name.map(str::to_owned), loader, reach: Mutex::new(Reach::NotTried) }
    }

    /// Its name; none of the home cluster.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Asks the API server for its version until it answers. A server of another cluster is asked again while no informer would
    /// notice that it is away: live calls alone go there.
    pub(super) async fn ask_for_version(&self) {
        loop {
            if self.unanswered().is_some() || self.loader.factory.informers().is_empty() {
                self.ask_once().await;
            }
            let pause = match (self.unanswered(), self.name()) {
                (Some(_), _) => VERSION_RETRY,
                (None, None) => return,
                (None, Some(_)) => VERSION_AGAIN,
            };
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.8..1.2))).await;
        }
    }

    /// Asks the API server for its version. Logs the first answer, also after an error.
    async fn ask_once(&self) {
        let Loader { client, factory, .. } = &self.loader;
        let cluster = self.name();
        let permit = factory.availability().enter().await;
        let answer = client.server_version().await;
        permit.settle(answer.as_ref().is_err_and(Error::is_connection_refused));
        match answer {
            Ok(version) => {
                let before = std::mem::replace(&mut *self.reach.lock(), Reach::Answered);
                if !matches!(before, Reach::Answered) {
                    tracing::info!(
                        event = "connected",
                        cluster,
                        server = client.server(),
                        version = version.git_version,
                        "connected"
                    );
                }
            }
            Err(error) => {
                let message = format!("{}: {error}", client.server());
                tracing::warn!(
                    event = "api_server_unreachable",
                    cluster,
                    "the API server does not answer, trying again: {message}"
                );
                *self.reach.lock() = Reach::Failed(message);
            }
        }
    }

    /// Why the API server did not answer the last request for its version; none if it did.
    pub(super) fn unanswered(&self) -> Option<String> {
        match &*self.reach.lock() {
            Reach::NotTried => Some("not tried yet".to_owned()),
            Reach::Failed(why) => Some(why.clone()),
            Reach::Answered => None,
        }
    }

    /// Why it does not answer, now or yet; none where it does, as far as is known.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.unanswered().or_else(|| {
            let Loader { client, factory, .. } = &self.loader;
            let transport = |status: InformerStatus| {
                let error = status.reflector.last_error?;
                matches!(error, Error::Transport { .. }).then(|| error.to_string())
            };
            let of_informer = factory.informers().into_iter().find_map(|(_, status)| transport(status));
            let refuses = || format!("{}: connections are refused", client.server());
            of_informer.or_else(|| (!factory.availability().is_up()).then(refuses))
        })
    }

    /// Waits until the first load of a run is over, or is not to be waited for because this cluster is away.
    pub(super) async fn first_load_over(&self, plugin: &Plugin) {
        if self.name.is_none() {
            return plugin.first_load_over().await;
        }
        while tokio::time::timeout(AWAY_LOOK, plugin.first_load_over()).await.is_err() {
            if self.was_tried() && self.trouble().is_some() {
                return;
            }
        }
    }

    fn was_tried(&self) -> bool {
        !matches!(*self.reach.lock(), Reach::NotTried)
    }

    /// The cluster as `/plugins` shows it; none for the home cluster.
    pub(super) fn view(&self) -> Option<ClusterView> {
        let (name, server) = (self.name.clone()?, self.loader.client.server().to_owned());
        Some(ClusterView { name, server, error: self.trouble() })
    }
}

#[cfg(test)]
impl Cluster {
    /// As if the API server had answered; or not, for this reason.
    pub(crate) fn answers(&self, why_not: Option<&str>) {
        *self.reach.lock() = why_not.map_or(Reach::Answered, |why| Reach::Failed(why.to_owned()));
    }
}

#[cfg(test)]
mod tests;
