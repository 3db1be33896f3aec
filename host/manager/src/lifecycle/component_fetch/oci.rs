//! Components from OCI registries, and [`SignaturePolicy`]: what becomes of those that nobody signed. Called by [`super`].

use std::collections::HashMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pilothouse_client::{ApiResource, Error};
use pilothouse_engine::HostClient;
use pilothouse_object::{Gvk, ObjectKey};
use pilothouse_plugin::directory::Files;
use pilothouse_plugin::{Manifest, OciComponent, printable};
use pilothouse_registry::{DOCKER_CONFIG_KEY, Login, Registry, RegistryError, SignatureKeys};

use serde::Deserialize;

use super::ComponentFetcher;
use crate::access::{Answer, Question};
use crate::imports::http_client::user_agent;
use crate::lifecycle::component_store::IncomingComponent;
use crate::lifecycle::load::identity;

/// What becomes of components that have no signature of one of these keys.
#[derive(Debug, Clone)]
pub struct SignaturePolicy {
    /// The keys of which one has to have signed.
    pub keys: SignatureKeys,
    /// Whether such a component is refused; else it runs, with a line in the log.
    pub required: bool,
}

impl SignaturePolicy {
    /// What becomes of a component that cannot be signed where it is.
    pub(super) fn check_other(&self, plugin: &str) -> Result<(), String> {
        self.unsigned(
            plugin,
            "only artifacts of OCI registries have signatures; push it as an artifact, sign it with cosign, and name it in spec.source.oci",
        )
    }

    /// What becomes of a component without a signature, for this reason, which may quote the registry.
    fn unsigned(&self, plugin: &str, reason: &str) -> Result<(), String> {
        let reason = &*printable(reason);
        if self.required {
            return Err(format!("this host runs signed components alone (--signatures=require): {reason}"));
        }
        tracing::warn!(
            event = "component_unsigned",
            plugin,
            reason,
            "plugin {plugin}: its component has no signature that counts, and runs: {reason}"
        );
        Ok(())
    }
}

impl ComponentFetcher {
    /// Writes the component of an artifact to `incoming`. The Secret with the login is read as the plugin's ServiceAccount.
    pub(super) async fn pull(
        &self,
        namespace: &str,
        oci: &OciComponent,
        files: &Files,
        incoming: &mut IncomingComponent,
    ) -> Result<(), String> {
        let (repository, digest) = (oci.reference.repository(), oci.reference.digest());
        let login = match &oci.pull_secret {
            None => None,
            Some(name) => {
                let of_secret = |reason| format!("Secret {namespace}/{name}: {reason}");
                let config = self.logins(namespace, name, &files.manifest).await;
                let login = Login::of_docker_config(&config.map_err(of_secret)?, repository);
                Some(login.map_err(|error| of_secret(error.to_string()))?)
            }
        };
        let client =
            HostClient::new(user_agent(&files.manifest), HostClient::COMPONENT_TIME, self.work.clone());
        let registry =
            Registry::new(client, repository.clone(), self.hosts.clone(), login, "spec.source.pullSecret");
        let mut registry = registry.map_err(|error| error.to_string())?;
        let explained = |error: RegistryError| match error {
            // The digest of the artifact is right: it is that of the component which is not.
            RegistryError::Content(reason) => {
                format!("{reason}; check spec.source.oci and spec.source.digest")
            }
            error => error.to_string(),
        };
        // Before the signatures, which an artifact that does not exist lacks as well.
        let artifact = registry.artifact(digest).await.map_err(explained)?;
        let layer = artifact.component(Some(&files.digest)).map_err(explained)?;
        if let Some(policy) = &self.signatures
            && let Err(error) = registry.verify(digest, &policy.keys).await
        {
            policy.unsigned(&files.name, &error.to_string())?;
        }
        registry.layer(layer, |bytes| incoming.write(bytes)).await.map_err(explained)
    }

    /// The logins of a Secret, read as the plugin's ServiceAccount.
    async fn logins(&self, namespace: &str, name: &str, manifest: &Manifest) -> Result<Vec<u8>, String> {
        let resource = ApiResource::new(Gvk::new("", "v1", "Secret"), "secrets", true);
        let key = ObjectKey::new(Some(namespace), name).map_err(|error| error.to_string())?;
        let client = self.client.with_identity(identity(manifest));
        let secret = client.get(&resource, &key, None).await.map_err(|error| match error {
            // What was read may be quoted.
            Error::Protocol { doing, .. } => format!("{doing}: unexpected response"),
            error if error.is_not_found() => "it does not exist; create it".to_owned(),
            error if error.is_forbidden() => {
                let account = manifest.service_account.as_ref().map_or("", |account| &account.name);
                format!("{error}; grant ServiceAccount {account:?} the verb get on secrets {name:?}")
            }
            error => error.to_string(),
        })?;
        logins_of(secret.bytes())
    }

    /// Checks that the plugin's ServiceAccount may read the login of the source, where nothing has to be read.
    pub(super) async fn check_login(
        &self,
        oci: &OciComponent,
        namespace: &str,
        manifest: &Manifest,
    ) -> Result<(), String> {
        // A Plugin of the cluster has an account.
        let (Some(name), Some(account)) = (&oci.pull_secret, &manifest.service_account) else {
            return Ok(());
        };
        let review = self.reviews.review(Question {
            account: account.clone(),
            verb: "get",
            group: String::new(),
            resource: "secrets".to_owned(),
            namespace: Some(namespace.to_owned()),
            name: Some(name.clone()),
        });
        // The sender is in the review.
        let _ = review.answers().wait_for(|answer| *answer != Answer::Unknown(None)).await;
        review.refusal().map_or(Ok(()), |why| Err(format!("{why}; grant it")))
    }
}

/// The logins in the text of a Secret. Errors quote nothing of it.
fn logins_of(secret: &[u8]) -> Result<Vec<u8>, String> {
    #[derive(Deserialize)]
    struct Text {
        #[serde(default)]
        data: Option<HashMap<String, String>>,
    }
    let Text { data } =
        serde_json::from_slice(secret).map_err(|_| "the object cannot be read as JSON".to_owned())?;
    let data = data.unwrap_or_default();
    let text = data.get(DOCKER_CONFIG_KEY).ok_or_else(|| {
        format!("data has no key {DOCKER_CONFIG_KEY}; create it with `kubectl create secret docker-registry`")
    })?;
    BASE64_STANDARD.decode(text).map_err(|_| "data has no base64 there; create the Secret again".to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::path::Path;

    use pilothouse_plugin::directory::digest_of;
    use serde_json::json;

    use super::super::tests::{fetcher, files, keep, options, serve};
    use super::*;
    use crate::lifecycle::plugin_objects::PluginObjectsOptions;

    fn policy(required: bool) -> SignaturePolicy {
        SignaturePolicy { keys: SignatureKeys::default(), required }
    }

    /// The fetcher of a host with this policy.
    async fn fetcher_of(signatures: Option<SignaturePolicy>, folder: &Path, host: &str) -> ComponentFetcher {
        fetcher(PluginObjectsOptions { signatures, ..options(folder, host) }).await
    }

    #[test]
    fn logins_are_those_of_the_key_of_docker_and_an_error_quotes_nothing() {
        let of = |text: &str| logins_of(text.as_bytes());
        assert_eq!(of(r#"{"data":{".dockerconfigjson":"AAEC","a":"?"}}"#).unwrap(), [0, 1, 2]);
        for (secret, words) in [
            (r#"{"data":{"config.json":"AAEC"}}"#, "data has no key .dockerconfigjson; create it with"),
            (r#"{"data":null}"#, "data has no key"),
            ("{}", "data has no key"),
            (r#"{"data":{".dockerconfigjson":"?"}}"#, "data has no base64 there"),
            (r#"{"data":{".dockerconfigjson":"hidden"#, "cannot be read as JSON"),
        ] {
            let error = of(secret).unwrap_err();
            assert!(error.contains(words) && !error.contains("hidden"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_component_that_is_in_the_store_needs_a_source_that_can_be_signed() {
        let folder = tempfile::tempdir().unwrap();
        let fetcher = fetcher_of(Some(policy(true)), folder.path(), "r.example").await;
        keep(&fetcher, b"wasm");
        let files = files(b"wasm", json!({"url": "https://r.example/web.wasm"}));
        let error = fetcher.fetch(&files).await.unwrap_err();
        assert!(error.contains("--signatures=require"), "{error}");
    }

    #[test]
    fn a_component_without_signature_is_refused_or_runs_as_the_policy_says() {
        let error = policy(true).check_other("shop/web").unwrap_err();
        assert!(
            error.contains("--signatures=require") && error.contains("push it as an artifact"),
            "{error}"
        );
        assert_eq!(policy(false).check_other("shop/web"), Ok(()));
        let error = policy(true).unsigned("shop/web", "no\nforged").unwrap_err();
        assert!(error.ends_with(": no\\nforged"), "{error}");
    }

    #[tokio::test]
    async fn a_host_that_requires_signatures_fetches_nothing_that_can_have_none() {
        let folder = tempfile::tempdir().unwrap();
        let (url, paths) = serve(|_| Some(b"wasm".to_vec())).await;
        let fetcher = fetcher_of(Some(policy(true)), folder.path(), &url).await;
        let error =
            fetcher.fetch(&files(b"wasm", json!({"url": format!("{url}/web.wasm")}))).await.unwrap_err();
        assert!(error.contains("--signatures=require"), "{error}");
        assert_eq!(*paths.lock(), [""; 0]);
    }

    #[tokio::test]
    async fn what_a_host_has_fetched_without_a_signature_does_not_run_once_signatures_are_required() {
        let folder = tempfile::tempdir().unwrap();
        let (url, paths) = serve(|_| Some(b"wasm".to_vec())).await;
        let files = files(b"wasm", json!({"url": format!("{url}/web.wasm")}));
        let fetch = async |signatures| fetcher_of(signatures, folder.path(), &url).await.fetch(&files).await;
        assert_eq!(fetch(Some(policy(false))).await, Ok(()));
        let error = fetch(Some(policy(true))).await.unwrap_err();
        assert!(error.contains("--signatures=require"), "{error}");
        // It is there all the same, for hosts that do not require any.
        assert_eq!((fetch(None).await, paths.lock().len()), (Ok(()), 1));
    }

    #[tokio::test]
    async fn an_artifact_that_does_not_exist_is_not_said_to_lack_a_signature() {
        let folder = tempfile::tempdir().unwrap();
        let (url, _) = serve(|_| None).await;
        let fetcher = fetcher_of(Some(policy(true)), folder.path(), &url).await;
        let artifact = format!("oci://{}/web@{}", url.trim_start_matches("http://"), digest_of(b"none"));
        let error = fetcher.fetch(&files(b"wasm", json!({"oci": artifact}))).await.unwrap_err();
        assert_eq!(error, "the registry answered 404 Not Found for the manifest");
    }

    #[tokio::test]
    async fn a_host_without_a_policy_runs_what_nobody_signed_and_asks_for_no_signature() {
        let digest = digest_of(b"wasm");
        let layer = json!({"mediaType": "application/wasm", "digest": digest, "size": 4});
        let manifest = json!({"schemaVersion": 2, "layers": [layer]}).to_string().into_bytes();
        let artifact = digest_of(&manifest);
        let component = [format!("/v2/web/manifests/{artifact}"), format!("/v2/web/blobs/{digest}")];
        let content: HashMap<_, _> =
            component.clone().into_iter().zip([manifest, b"wasm".to_vec()]).collect();
        let (url, paths) = serve(move |path| content.get(path).cloned()).await;
        let host = url.trim_start_matches("http://");
        let files = files(b"wasm", json!({"oci": format!("oci://{host}/web@{artifact}")}));
        for signatures in [None, Some(policy(false)), Some(policy(true))] {
            let folder = tempfile::tempdir().unwrap();
            let fetcher = fetcher_of(signatures.clone(), folder.path(), &url).await;
            let fetched = fetcher.fetch(&files).await;
            let refused = signatures.as_ref().is_some_and(|policy| policy.required);
            assert_eq!(fetched.is_err(), refused, "{signatures:?}: {fetched:?}");
            let asked = std::mem::take(&mut *paths.lock());
            assert_eq!(asked == component, signatures.is_none(), "{signatures:?}: {asked:?}");
        }
    }
}
