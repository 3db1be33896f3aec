//! [`ComponentFetcher`]: gets the component of a Plugin of the cluster into the [`ComponentStore`].
//!
//! A ConfigMap or Secret is read as the plugin's ServiceAccount, and the host needs no permission of its own. URLs and
//! registries are asked on the hosts that the operator allows, and on no other. For a component that is in the store
//! already, which another Plugin of the namespace may have brought there, the source that the plugin names is checked,
//! and not the one that it came from. Called by the loader before each load; a failure leads to another try of the load.

#[cfg(feature = "oci")]
mod oci;

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use parking_lot::Mutex;
use pilothouse_client::{ApiResource, Client, Error};
use pilothouse_engine::download;
use pilothouse_object::{Gvk, ObjectKey};
use pilothouse_plugin::directory::Files;
use pilothouse_plugin::{
    ComponentHosts, ComponentUrl, Manifest, NamespacedName, ObjectEntry, OutgoingHosts, RemoteComponent,
};
#[cfg(feature = "oci")]
use pilothouse_registry::Registry;
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::access::{AccessReviews, Answer, Question};
use crate::imports::http_client::user_agent;
use crate::lifecycle::component_store::ComponentStore;
use crate::lifecycle::load::identity;
use crate::lifecycle::plugin_objects::PluginObjectsOptions;

#[cfg(feature = "oci")]
pub use oci::SignaturePolicy;

/// Objects that are read at once: each is in memory as a whole, in several forms.
const OBJECTS: usize = 4;
/// URLs and artifacts that are fetched at once: each is streamed, and a slow server holds up the others for a minute.
const URLS: usize = 16;

#[cfg(not(feature = "oci"))]
const NO_REGISTRIES: &str = "this host was built without OCI registries; build it with the feature `oci`";

/// Fetches components.
pub(crate) struct ComponentFetcher {
    client: Client,
    store: Arc<ComponentStore>,
    /// Of the home cluster.
    reviews: AccessReviews,
    /// The hosts that URLs and artifacts may name.
    hosts: ComponentHosts,
    #[cfg(feature = "oci")]
    signatures: Option<SignaturePolicy>,
    /// The runtime of connections to them.
    work: Handle,
    objects: Semaphore,
    urls: Semaphore,
    /// The fetches of each component, by namespace and digest: one at a time.
    fetches: Mutex<HashMap<(String, String), Weak<Turn>>>,
}

/// Held during a fetch.
type Turn = tokio::sync::Mutex<()>;

/// The objects that hold components.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    ConfigMap,
    Secret,
}

impl Holder {
    /// Kind, plural, and the field with bytes.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::ConfigMap => ("ConfigMap", "configmaps", "binaryData"),
            Self::Secret => ("Secret", "secrets", "data"),
        }
    }
}

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
            objects: Semaphore::new(OBJECTS),
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
            return self.check_account(remote, namespace, &files.manifest).await;
        }
        #[cfg(feature = "oci")]
        if let Some(policy) = unsignable {
            policy.check_other(&files.name)?;
        }
        let slots = match remote {
            RemoteComponent::ConfigMap(_) | RemoteComponent::Secret(_) => &self.objects,
            RemoteComponent::Url(_) | RemoteComponent::Oci(_) => &self.urls,
        };
        let _slot = slots.acquire().await.map_err(|error| error.to_string())?;
        let store = Arc::clone(&self.store);
        let incoming = blocking(move || store.incoming()).await?;
        let mut incoming = incoming.map_err(|e| format!("it cannot be written below --cache-dir: {e}"))?;
        match remote {
            RemoteComponent::ConfigMap(entry) => {
                incoming.write(&self.entry(Holder::ConfigMap, namespace, entry, &files.manifest).await?)?;
            }
            RemoteComponent::Secret(entry) => {
                incoming.write(&self.entry(Holder::Secret, namespace, entry, &files.manifest).await?)?;
            }
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
            RemoteComponent::ConfigMap(_) | RemoteComponent::Secret(_) => Ok(()),
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

    /// Checks that the plugin's ServiceAccount may read the object of the source, where nothing has to be read.
    async fn check_account(
        &self,
        remote: &RemoteComponent,
        namespace: &str,
        manifest: &Manifest,
    ) -> Result<(), String> {
        let (holder, name) = match remote {
            RemoteComponent::ConfigMap(entry) => (Holder::ConfigMap, &entry.name),
            RemoteComponent::Secret(entry) => (Holder::Secret, &entry.name),
            RemoteComponent::Oci(oci) if let Some(name) = &oci.pull_secret => (Holder::Secret, name),
            RemoteComponent::Url(_) | RemoteComponent::Oci(_) => return Ok(()),
        };
        // A Plugin of the cluster has one.
        let Some(account) = &manifest.service_account else { return Ok(()) };
        let review = self.reviews.review(Question {
            account: account.clone(),
            verb: "get",
            group: String::new(),
            resource: holder.names().1.to_owned(),
            namespace: Some(namespace.to_owned()),
            name: Some(name.clone()),
        });
        // The sender is in the review.
        let _ = review.answers().wait_for(|answer| *answer != Answer::Unknown(None)).await;
        review.refusal().map_or(Ok(()), |why| Err(format!("{why}; grant it")))
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

    /// The bytes of an entry of an object, read as the plugin's ServiceAccount.
    async fn entry(
        &self,
        holder: Holder,
        namespace: &str,
        entry: &ObjectEntry,
        manifest: &Manifest,
    ) -> Result<Vec<u8>, String> {
        let (kind, plural, _) = holder.names();
        let resource = ApiResource::new(Gvk::new("", "v1", kind), plural, true);
        let key = ObjectKey::new(Some(namespace), &entry.name).map_err(|error| error.to_string())?;
        let client = self.client.with_identity(identity(manifest));
        let object = client.get(&resource, &key, None).await;
        let object =
            object.map_err(|error| unread(&error, plural, entry, manifest.service_account.as_ref()))?;
        bytes_of(holder, object.bytes(), &entry.key)
    }
}

/// Where the component of a plugin is fetched from, and the plugin's namespace.
fn remote(files: &Files) -> Option<(&RemoteComponent, &str)> {
    Some((files.manifest.source.remote.as_ref()?, files.manifest.own_namespace()?))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())
}

fn unread(error: &Error, plural: &str, entry: &ObjectEntry, account: Option<&NamespacedName>) -> String {
    match error {
        // What was read may be quoted.
        Error::Protocol { doing, .. } => format!("{doing}: unexpected response"),
        error if error.is_not_found() => "it does not exist; create it".to_owned(),
        error if error.is_forbidden() => {
            let account = account.map_or("", |account| &account.name);
            format!("{error}; grant ServiceAccount {account:?} the verb get on {plural} {:?}", entry.name)
        }
        error => error.to_string(),
    }
}

/// The bytes of an entry in the text of an object. Errors quote nothing of it.
fn bytes_of(holder: Holder, object: &[u8], key: &str) -> Result<Vec<u8>, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Text {
        #[serde(default)]
        data: Option<HashMap<String, String>>,
        #[serde(default)]
        binary_data: Option<HashMap<String, String>>,
    }
    let (_, _, field) = holder.names();
    let Text { data, binary_data } =
        serde_json::from_slice(object).map_err(|_| "the object cannot be read as JSON".to_owned())?;
    let entries = match holder {
        Holder::ConfigMap => binary_data,
        Holder::Secret => data,
    };
    let entries = entries.unwrap_or_default();
    let text = entries.get(key).ok_or_else(|| {
        format!("{field} has no such key; create the object with `kubectl create … --from-file={key}=FILE`")
    })?;
    BASE64_STANDARD.decode(text).map_err(|_| format!("{field} has no base64 there; create the object again"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pilothouse_plugin::directory::digest_of;
    use pilothouse_plugin::{Ceilings, ComponentHost};
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
            (json!({"configMap": {"name": "own", "key": "web.wasm"}}), None, 1),
            (json!({"secret": {"name": "foreign", "key": "web.wasm"}}), denied, 1),
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

    #[test]
    fn bytes_are_those_of_binary_data_of_a_config_map_and_of_data_of_a_secret() {
        let object = br#"{"data":{"a":"AAEC","text":"x"},"binaryData":{"a":"AwQ=","bad":"?"}}"#;
        assert_eq!(bytes_of(Holder::Secret, object, "a").unwrap(), [0, 1, 2]);
        assert_eq!(bytes_of(Holder::ConfigMap, object, "a").unwrap(), [3, 4]);
        let error = |holder, key| bytes_of(holder, object, key).unwrap_err();
        assert!(error(Holder::ConfigMap, "text").starts_with("binaryData has no such key"));
        assert!(error(Holder::Secret, "b").contains("--from-file=b=FILE`"));
        assert_eq!(
            error(Holder::ConfigMap, "bad"),
            "binaryData has no base64 there; create the object again"
        );
        for object in [&b"{}"[..], br#"{"data":null,"binaryData":null}"#] {
            assert!(bytes_of(Holder::Secret, object, "a").is_err());
        }
        assert!(!bytes_of(Holder::Secret, br#"{"data":{"a":"secret"#, "a").unwrap_err().contains("secret"));
    }
}
