//! [`ComponentFetcher`]: gets the component of a Plugin of the cluster into the [`ComponentStore`].
//!
//! URLs and registries are asked on the hosts that the operator allows, and on no other. A Secret with a login is read as the
//! plugin's ServiceAccount, and the host needs no permission of its own. For a component that is in the store already, which
//! another Plugin of the namespace may have brought there, the source that the plugin names is checked, and not the one that
//! it came from. Called by the loader before each load; a failure leads to another try of the load.

#[cfg(feature = "oci")]
mod oci;

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use pilothouse_client::Client;
use pilothouse_engine::download;
use pilothouse_plugin::directory::Files;
use pilothouse_plugin::{ComponentHosts, ComponentUrl, OutgoingHosts, RemoteComponent};
#[cfg(feature = "oci")]
use pilothouse_registry::Registry;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::access::AccessReviews;
use crate::imports::http_client::user_agent;
use crate::lifecycle::component_store::ComponentStore;
use crate::lifecycle::plugin_objects::PluginObjectsOptions;

#[cfg(feature = "oci")]
pub use oci::SignaturePolicy;

/// URLs and artifacts that are fetched at once: each is streamed, and a slow server holds up the others for a minute.
const URLS: usize = 16;

#[cfg(not(feature = "oci"))]
const NO_REGISTRIES: &str = "this host was built without OCI registries; build it with the feature `oci`";

/// Fetches components.
pub(crate) struct ComponentFetcher {
    /// Of the home cluster, for Secrets with logins.
    #[cfg_attr(not(feature = "oci"), expect(dead_code, reason = "logins are of registries"))]
    client: Client,
    /// Whether accounts may read these Secrets.
    #[cfg_attr(not(feature = "oci"), expect(dead_code, reason = "logins are of registries"))]
    reviews: AccessReviews,
    store: Arc<ComponentStore>,
    /// The hosts that URLs and artifacts may name.
    hosts: ComponentHosts,
    #[cfg(feature = "oci")]
    signatures: Option<SignaturePolicy>,
    /// The runtime of connections to them.
    work: Handle,
    urls: Semaphore,
    /// The fetches of each component, by namespace and digest: one at a time.
    fetches: Mutex<HashMap<(String, String), Weak<Turn>>>,
}

/// Held during a fetch.
type Turn = tokio::sync::Mutex<()>;

impl ComponentFetcher {
    pub(crate) fn new(
        client: Client,
        store: Arc<ComponentStore>,
        reviews: AccessReviews,
        options: PluginObjectsOptions,
        work: Handle,
    ) -> Self {
        Self {
            client,
            store,
            reviews,
            hosts: options.component_hosts,
            #[cfg(feature = "oci")]
            signatures: options.signatures,
            work,
            urls: Semaphore::new(URLS),
            fetches: Mutex::default(),
        }
    }

    /// Gets the component of a plugin into the store, unless it is there. Does nothing for one of the plugin directory.
    ///
    /// # Errors
    /// The reason, and what to do.
    pub(crate) async fn fetch(&self, files: &Files) -> Result<(), String> {
        let Some((remote, namespace)) = remote(files) else { return Ok(()) };
        self.check_host(remote)?;
        #[cfg(feature = "oci")]
        let unsignable = self.signatures.as_ref().filter(|_| !matches!(remote, RemoteComponent::Oci(_)));
        #[cfg(feature = "oci")]
        if let Some(policy) = unsignable.filter(|policy| policy.required) {
            policy.check_other(&files.name)?;
        }
        // The runs of a plugin want the same component.
        let turn = self.turn(namespace, &files.digest);
        let _turn = turn.lock().await;
        let (store, digest) = (Arc::clone(&self.store), files.digest.clone());
        let of = namespace.to_owned();
        if blocking(move || store.has(&of, &digest)).await? {
            #[cfg(feature = "oci")]
            if let RemoteComponent::Oci(oci) = remote {
                return self.check_login(oci, namespace, &files.manifest).await;
            }
            return Ok(());
        }
        #[cfg(feature = "oci")]
        if let Some(policy) = unsignable {
            policy.check_other(&files.name)?;
        }
        let _slot = self.urls.acquire().await.map_err(|error| error.to_string())?;
        let store = Arc::clone(&self.store);
        let incoming = blocking(move || store.incoming()).await?;
        let mut incoming = incoming.map_err(|e| format!("it cannot be written below --cache-dir: {e}"))?;
        match remote {
            RemoteComponent::Url(url) => {
                let hosts = self.hosts_of(url)?;
                let user_agent = user_agent(&files.manifest);
                let take = |bytes: &[u8]| incoming.write(bytes);
                download(&url.to_string(), hosts.clone(), user_agent, self.work.clone(), take).await?;
            }
            #[cfg(feature = "oci")]
            RemoteComponent::Oci(oci) => self.pull(namespace, oci, files, &mut incoming).await?,
            #[cfg(not(feature = "oci"))]
            RemoteComponent::Oci(_) => return Err(NO_REGISTRIES.to_owned()),
        }
        let (store, digest, namespace) =
            (Arc::clone(&self.store), files.digest.clone(), namespace.to_owned());
        blocking(move || store.keep(incoming, &namespace, &digest)).await?
    }

    fn turn(&self, namespace: &str, digest: &str) -> Arc<Turn> {
        let mut fetches = self.fetches.lock();
        fetches.retain(|_, turn| turn.strong_count() > 0);
        let turn = fetches.entry((namespace.to_owned(), digest.to_owned())).or_default();
        turn.upgrade().unwrap_or_else(|| {
            let new = Arc::default();
            *turn = Arc::downgrade(&new);
            new
        })
    }

    /// Checks that the operator allows the host of the source; nothing is sent.
    fn check_host(&self, remote: &RemoteComponent) -> Result<(), String> {
        match remote {
            RemoteComponent::Url(url) => self.hosts_of(url).map(drop),
            #[cfg(feature = "oci")]
            RemoteComponent::Oci(oci) => {
                let base = Registry::base(oci.reference.repository(), &self.hosts);
                base.map(drop).map_err(|error| error.to_string())
            }
            #[cfg(not(feature = "oci"))]
            RemoteComponent::Oci(_) => Err(NO_REGISTRIES.to_owned()),
        }
    }

    fn hosts_of(&self, url: &ComponentUrl) -> Result<&OutgoingHosts, String> {
        let remedy = "the host does not fetch from there; ask its operator to add the host of the URL to --component-hosts";
        self.hosts.of(url).ok_or_else(|| remedy.to_owned())
    }

    /// Removes a component that cannot be read from the store; the next load fetches it again.
    pub(crate) async fn forget(&self, files: &Files) {
        if let Some((_, namespace)) = remote(files) {
            let (store, digest) = (Arc::clone(&self.store), files.digest.clone());
            let namespace = namespace.to_owned();
            // A runtime that ends removes nothing.
            let _ = blocking(move || store.remove(&namespace, &digest)).await;
        }
    }
}

/// Where the component of a plugin is fetched from, and the plugin's namespace.
fn remote(files: &Files) -> Option<(&RemoteComponent, &str)> {
    Some((files.manifest.source.remote.as_ref()?, files.manifest.own_namespace()?))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pilothouse_plugin::directory::digest_of;
    use pilothouse_plugin::{Ceilings, ComponentHost, Manifest};
    use serde_json::value::RawValue;
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::testing::{FakeRules, unreachable_client};

    /// The options of a host that keeps components in this folder, and may ask this host for them.
    pub(super) fn options(folder: &Path, host: &str) -> PluginObjectsOptions {
        let hosts = [ComponentHost::parse(host).unwrap()].into_iter().collect();
        PluginObjectsOptions::new(None, folder.join("components"), hosts)
    }

    /// A fetcher without an API server.
    pub(super) async fn fetcher(options: PluginObjectsOptions) -> ComponentFetcher {
        let store = Arc::new(options.open_store().unwrap());
        let reviews = AccessReviews::new(Arc::new(FakeRules::default()));
        ComponentFetcher::new(unreachable_client().await, store, reviews, options, Handle::current())
    }

    /// Puts a component of the namespace `shop` into the store.
    pub(super) fn keep(fetcher: &ComponentFetcher, component: &[u8]) {
        let mut incoming = fetcher.store.incoming().unwrap();
        incoming.write(component).unwrap();
        fetcher.store.keep(incoming, "shop", &digest_of(component)).unwrap();
    }

    /// A server of content by path: its URL, and the paths that were asked for.
    pub(super) async fn serve(
        content: impl Fn(&str) -> Option<Vec<u8>> + Send + 'static,
    ) -> (String, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let paths = Arc::<Mutex<Vec<String>>>::default();
        let asked = Arc::clone(&paths);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 4096];
                let length = stream.read(&mut request).await.unwrap_or_default();
                let request = String::from_utf8_lossy(&request[..length]);
                let path = request.split(' ').nth(1).unwrap_or_default();
                asked.lock().push(path.to_owned());
                let (status, body) = match content(path) {
                    Some(body) => ("200 OK", body),
                    None => ("404 Not Found", Vec::new()),
                };
                let head = format!(
                    "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
            }
        });
        (url, paths)
    }

    /// The files of the Plugin `shop/web` with this source of a component.
    pub(super) fn files(component: &[u8], mut source: Value) -> Files {
        let digest = digest_of(component);
        source["digest"] = json!(digest);
        let spec = json!({"source": source, "serviceAccount": {"namespace": "shop", "name": "web"}});
        let spec = RawValue::from_string(spec.to_string()).unwrap();
        let text = Manifest::text_of_object("shop", "web", Some(&spec));
        let manifest = Manifest::of_object(&text, &Ceilings::default()).unwrap();
        let others = crate::testing::files(b"", &json!({}));
        Files { name: "shop/web".to_owned(), digest, manifest: Arc::new(manifest), ..others }
    }

    #[tokio::test]
    async fn a_component_that_two_want_at_the_same_time_is_fetched_once() {
        let (host, paths) = serve(|_| Some(b"wasm".to_vec())).await;
        let folder = tempfile::tempdir().unwrap();
        let fetcher = fetcher(options(folder.path(), &host)).await;
        let files = files(b"wasm", json!({"url": format!("{host}/web.wasm")}));
        let fetched = tokio::join!(fetcher.fetch(&files), fetcher.fetch(&files));
        assert_eq!((fetched, paths.lock().len()), ((Ok(()), Ok(())), 1));
        assert!(fetcher.store.has("shop", &files.digest));
        let again = fetcher.turn("shop", "sha256:other");
        assert_eq!(fetcher.fetches.lock().len(), 1, "those that are over are forgotten");
        drop(again);
    }

    #[tokio::test]
    async fn a_component_that_is_in_the_store_runs_only_from_a_source_that_its_plugin_may_use() {
        let folder = tempfile::tempdir().unwrap();
        let rules = FakeRules::default();
        rules.deny(&["\"foreign\""]);
        let reviews = AccessReviews::new(Arc::new(rules.clone()));
        let fetcher = ComponentFetcher { reviews, ..fetcher(options(folder.path(), "files.example")).await };
        keep(&fetcher, b"wasm");
        let artifact = |host: &str| format!("oci://{host}/web@sha256:{:064}", 0);
        let not_built = if cfg!(feature = "oci") { None } else { Some("the feature `oci`") };
        let not_allowed = Some("--component-hosts");
        let denied = Some("may not get secrets \"foreign\" in namespace shop");
        for (source, refused, asked) in [
            (json!({"url": "https://files.example/web.wasm"}), None, 0),
            (json!({"url": "https://other.example/web.wasm"}), not_allowed, 0),
            (json!({"oci": artifact("files.example")}), not_built, 0),
            (json!({"oci": artifact("other.example")}), not_built.or(not_allowed), 0),
            (
                json!({"oci": artifact("files.example"), "pullSecret": "foreign"}),
                not_built.or(denied),
                usize::from(not_built.is_none()),
            ),
            (
                json!({"oci": artifact("files.example"), "pullSecret": "own"}),
                not_built,
                usize::from(not_built.is_none()),
            ),
        ] {
            let fetched = fetcher.fetch(&files(b"wasm", source.clone())).await;
            match (&fetched, refused) {
                (Ok(()), None) => {}
                (Err(error), Some(words)) if error.contains(words) => {}
                _ => panic!("{source}: {fetched:?}"),
            }
            assert_eq!(rules.asked().len(), asked, "{source}");
        }
    }
}
