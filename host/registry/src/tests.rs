//! A registry in memory, which asks for tokens and sends to another server for its layers, and what is pulled from there.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use pilothouse_plugin::directory::digest_of;
use pilothouse_plugin::{ComponentHost, OciRepository};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

use crate::artifact::MANIFEST;
use crate::referrers::tag_of;
use crate::signature::SIGNED;
use crate::signature::tests::{TestKey, payload};
use crate::{ComponentWorld, Descriptor, Login, Registry, RegistryError, RegistryOptions, SignatureKeys};

/// Type of the bundles of cosign 3.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// A request, as text with its head in lower case, and as bytes of its body.
struct Request {
    head: String,
    path: String,
    body: Vec<u8>,
}

impl Request {
    fn has(&self, header: &str) -> bool {
        self.head.lines().any(|line| line == header)
    }
}

async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let end = loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let path = text.split(' ').nth(1)?.to_owned();
    let head = text.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(Ok(0), str::parse).ok()?;
    while bytes.len() < end + length {
        stream.read_buf(&mut bytes).await.ok()?;
    }
    Some(Request { head, path, body: bytes.split_off(end) })
}

/// Status, headers and body.
type Response = (&'static str, String, Vec<u8>);

fn status(status: &'static str) -> Response {
    (status, String::new(), Vec::new())
}

/// A server on a port of its own; its address.
async fn server(respond: impl Fn(&Request) -> Response + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let Some(request) = read(&mut stream).await else { continue };
            let (status, mut head, body) = respond(&request);
            // A HEAD has no body in this registry.
            let _ = write!(head, "content-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let response = [format!("HTTP/1.1 {status}\r\n{head}").as_bytes(), &body].concat();
            let _ = stream.write_all(&response).await;
        }
    });
    address
}

#[derive(Default)]
struct Content {
    blobs: HashMap<String, Vec<u8>>,
    /// By tag and by digest.
    manifests: HashMap<String, Vec<u8>>,
    /// The answer to requests for referrers, if the registry has one.
    referrers: Option<Response>,
}

/// The repository `team/web` of a registry without a login, with these entries of hosts.
fn options(registry: &str, hosts: &[String]) -> RegistryOptions {
    RegistryOptions {
        repository: OciRepository::parse_tagged(&format!("oci://{registry}/team/web")).unwrap().0,
        hosts: hosts.iter().map(|entry| ComponentHost::parse(entry).unwrap()).collect(),
        login: None,
        login_from: "the test",
        user_agent: "test".to_owned(),
        time: Duration::from_secs(60),
        runtime: Handle::current(),
    }
}

struct TestRegistry {
    address: String,
    storage: String,
    content: Arc<Mutex<Content>>,
}

impl TestRegistry {
    async fn start() -> Self {
        let content = Arc::new(Mutex::new(Content::default()));
        let of_storage = Arc::clone(&content);
        let storage = server(move |request| {
            if request.head.contains("authorization:") {
                return status("400 Bad Request");
            }
            let digest = request.path.trim_start_matches('/').split('?').next().unwrap_or_default();
            match of_storage.lock().unwrap().blobs.get(digest) {
                Some(blob) => ("200 OK", String::new(), blob.clone()),
                None => status("404 Not Found"),
            }
        })
        .await;
        let (of_registry, to) = (Arc::clone(&content), storage.clone());
        let address = server(move |request| respond(&mut of_registry.lock().unwrap(), &to, request)).await;
        Self { address, storage, content }
    }

    fn options(&self) -> RegistryOptions {
        let hosts = [&self.address, &self.storage].map(|host| format!("http://{host}"));
        let options = options(&self.address, &hosts);
        let config = json!({"auths": {(self.address.as_str()): {"auth": "dXNlcjpwYXNz"}}}).to_string();
        let login = Login::of_docker_config(config.as_bytes(), &options.repository).unwrap();
        RegistryOptions { login: Some(login), ..options }
    }

    fn registry(&self) -> Registry {
        Registry::new(self.options()).unwrap()
    }

    /// Puts content there, as others do.
    fn put(&self, media_type: &str, blob: &str) -> Value {
        let descriptor = Descriptor::of(media_type, blob.as_bytes());
        self.content.lock().unwrap().blobs.insert(descriptor.digest.clone(), blob.as_bytes().to_vec());
        json!(descriptor)
    }

    fn put_manifest(&self, tag: &str, manifest: &Value) {
        self.content.lock().unwrap().manifests.insert(tag.to_owned(), manifest.to_string().into_bytes());
    }

    /// Puts a signature of an artifact there, as cosign 2 does.
    fn put_signature(&self, artifact: &Descriptor, key: &TestKey) {
        let text = payload(&artifact.digest);
        let mut layer = self.put("application/vnd.dev.cosign.simplesigning.v1+json", &text);
        layer["annotations"] = json!({"dev.cosignproject.cosign/signature": key.sign(text.as_bytes())});
        let tag = format!("{}.sig", tag_of(&artifact.digest));
        self.put_manifest(&tag, &json!({"schemaVersion": 2, "layers": [layer]}));
    }

    /// Puts a manifest there by its digest.
    fn put_artifact(&self, manifest: &Value) -> Descriptor {
        let descriptor = Descriptor::of(MANIFEST, manifest.to_string().as_bytes());
        self.put_manifest(&descriptor.digest, manifest);
        descriptor
    }
}

/// The registry's answer to a request.
fn respond(content: &mut Content, storage: &str, request: &Request) -> Response {
    if request.path.starts_with("/token?service=s&scope=repository%3Ateam%2Fweb%3Apull") {
        return match request.has("authorization: basic dxnlcjpwyxnz") {
            true => ("200 OK", String::new(), br#"{"token":"t"}"#.to_vec()),
            false => status("401 Unauthorized"),
        };
    }
    if !request.has("authorization: bearer t") {
        let challenge =
            "www-authenticate: Bearer realm=\"/token\",service=s,scope=\"repository:team/web:pull,push\"\r\n";
        return ("401 Unauthorized", challenge.to_owned(), Vec::new());
    }
    let Some(path) = request.path.strip_prefix("/v2/team/web/") else { return status("404 Not Found") };
    let method = request.head.split(' ').next().unwrap_or_default();
    match (method, path.split_once('/')) {
        ("head", Some(("blobs", digest))) if content.blobs.contains_key(digest) => status("200 OK"),
        ("get", Some(("blobs", digest))) => {
            ("307 Temporary Redirect", format!("location: http://{storage}/{digest}?secret\r\n"), Vec::new())
        }
        ("post", Some(("blobs", "uploads/"))) => {
            ("202 Accepted", "location: /v2/team/web/blobs/uploads/1?state=x\r\n".to_owned(), Vec::new())
        }
        ("put", Some(("blobs", upload))) => {
            let digest = upload.strip_prefix("uploads/1?state=x&digest=").unwrap_or_default();
            if digest_of(&request.body) != digest {
                return status("400 Bad Request");
            }
            content.blobs.insert(digest.to_owned(), request.body.clone());
            status("201 Created")
        }
        ("put", Some(("manifests", reference))) => {
            for name in [reference.to_owned(), digest_of(&request.body)] {
                content.manifests.insert(name, request.body.clone());
            }
            status("201 Created")
        }
        ("get", Some(("manifests", reference))) => match content.manifests.get(reference) {
            Some(manifest) => ("200 OK", String::new(), manifest.clone()),
            None => status("404 Not Found"),
        },
        ("get", Some(("referrers", _))) => {
            content.referrers.clone().unwrap_or_else(|| status("404 Not Found"))
        }
        _ => status("404 Not Found"),
    }
}

async fn pulled(registry: &mut Registry, manifest: &str) -> Result<Vec<u8>, RegistryError> {
    let artifact = registry.artifact(manifest).await?;
    let mut content = Vec::new();
    let take = |bytes: &[u8]| {
        content.extend_from_slice(bytes);
        Ok(())
    };
    registry.layer(artifact.component()?, take).await?;
    Ok(content)
}

async fn push(test: &TestRegistry, tag: Option<&str>) -> Descriptor {
    let component = Bytes::from_static(b"component");
    test.registry().push(component, &ComponentWorld::default(), tag).await.unwrap()
}

#[tokio::test]
async fn what_was_pushed_is_pulled_with_a_token_and_from_the_storage_without_it() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, Some("v1")).await;
    assert_eq!(push(&test, None).await, pushed, "the same component is the same artifact");
    assert_eq!(pulled(&mut test.registry(), &pushed.digest).await.unwrap(), b"component");
    let tagged = test.content.lock().unwrap().manifests["v1"].clone();
    assert_eq!(digest_of(&tagged), pushed.digest);
    let artifact = test.registry().artifact(&pushed.digest).await.unwrap();
    assert!(artifact.layer(&digest_of(b"component")).is_ok());
    let error = artifact.layer(&digest_of(b"other")).unwrap_err().to_string();
    assert!(error.contains(&digest_of(b"component")) && error.contains(&digest_of(b"other")), "{error}");
    let other = test.put_artifact(&json!({"layers": [test.put("text/plain", "component")]}));
    let other = test.registry().artifact(&other.digest).await.unwrap();
    let error = other.layer(&digest_of(b"component")).unwrap_err().to_string();
    assert!(error.contains("does not have the type application/wasm"), "{error}");
}

#[tokio::test]
async fn each_host_is_one_of_the_list_and_a_login_that_is_missing_is_named() {
    let test = TestRegistry::start().await;
    let manifest = push(&test, None).await.digest;
    let only = |host: &str| [ComponentHost::parse(&format!("http://{host}")).unwrap()].into_iter().collect();
    let mut registry =
        Registry::new(RegistryOptions { hosts: only(&test.address), ..test.options() }).unwrap();
    let error = pulled(&mut registry, &manifest).await.unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("{} is not among", test.storage)) && !error.contains("secret"),
        "{error}"
    );
    let refused = Registry::new(RegistryOptions { hosts: only(&test.storage), ..test.options() });
    let error = refused.unwrap_err().to_string();
    assert!(error.starts_with(&format!("{} is not among", test.address)), "{error}");
    let mut registry = Registry::new(RegistryOptions { login: None, ..test.options() }).unwrap();
    let error = pulled(&mut registry, &manifest).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "the registry refuses a token (401 Unauthorized); name a login that may have it in the test"
    );
}

#[tokio::test]
async fn a_registry_with_tls_leads_nowhere_without() {
    let entries = ["r.example", "http://r.example", "http://other.example"].map(str::to_owned);
    let registry = Registry::new(options("r.example", &entries)).unwrap();
    let from = registry.url("manifests/v1").unwrap();
    assert_eq!(from.to_string(), "https://r.example/v2/team/web/manifests/v1");
    let presigned = format!("https://storage.example/1?token={}", "x".repeat(5000));
    for (location, wanted) in [
        ("/v2/web/blobs/1?x", Some("https://r.example/v2/web/blobs/1?x")),
        ("https://storage.example/1", Some("https://storage.example/1")),
        ("http://r.example/1", None),
        ("http://other.example/1", None),
        ("//other.example/1", None),
        ("https://user@other.example/1", None),
        ("1", None),
        (presigned.as_str(), Some(presigned.as_str())),
    ] {
        let url = registry.resolve(&from, location).map(|url| url.to_string());
        assert_eq!(url.ok().as_deref(), wanted, "{location}");
    }
}

#[tokio::test]
async fn a_registry_that_leads_nowhere_or_refuses_each_token_is_asked_a_few_times() {
    let again: Response = ("307 Temporary Redirect", "location: /again\r\n".to_owned(), Vec::new());
    let challenge = "www-authenticate: Bearer realm=\"/token\"\r\n".to_owned();
    let refused: Response = ("401 Unauthorized", challenge, Vec::new());
    let token = |length| json!({"token": "t".repeat(length)}).to_string().into_bytes();
    for (answer, token, requests, words) in [
        (again, token(1), 4, "the registry sends from one server to the next"),
        (refused.clone(), token(1), 3, "the registry refuses the manifest (401 Unauthorized)"),
        (refused, token(65_536), 2, "a token: it has more than 65536 bytes"),
    ] {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let address = server(move |request| {
            counted.fetch_add(1, Relaxed);
            match request.path.as_str() {
                "/token" => ("200 OK", String::new(), token.clone()),
                _ => answer.clone(),
            }
        })
        .await;
        let mut registry = Registry::new(options(&address, &[format!("http://{address}")])).unwrap();
        let error = registry.artifact(&digest_of(b"")).await.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(count.load(Relaxed), requests, "{words}");
    }
}

#[tokio::test]
async fn content_is_that_of_its_digest_and_size() {
    let test = TestRegistry::start().await;
    let manifest = push(&test, None).await.digest;
    let component = digest_of(b"component");
    for (blob, words) in [
        (&b"componenT"[..], format!("the registry sent {} for", digest_of(b"componenT"))),
        (&b"component and more"[..], "it has more than the 9 bytes".to_owned()),
    ] {
        test.content.lock().unwrap().blobs.insert(component.clone(), blob.to_vec());
        let error = pulled(&mut test.registry(), &manifest).await.unwrap_err().to_string();
        assert!(error.contains(&words), "{error}");
    }
    test.put_manifest(&manifest, &json!({"layers": []}));
    let error = pulled(&mut test.registry(), &manifest).await.unwrap_err().to_string();
    assert!(error.contains("the registry sent the manifest sha256:"), "{error}");
    let error = pulled(&mut test.registry(), &digest_of(b"none")).await.unwrap_err().to_string();
    assert_eq!(error, "the registry answered 404 Not Found for the manifest");
}

#[tokio::test]
async fn a_manifest_and_an_index_have_a_size_and_a_number_of_entries_at_most() {
    let test = TestRegistry::start().await;
    let long = test.put_artifact(&json!({"layers": [], "annotations": {"a": "x".repeat(300_000)}}));
    let error = test.registry().artifact(&long.digest).await.unwrap_err().to_string();
    assert_eq!(error, "the manifest: it has more than 262144 bytes");
    let layer = test.put("text/plain", "a");
    let most = test.put_artifact(&json!({"layers": vec![&layer; 512]}));
    test.registry().artifact(&most.digest).await.unwrap();
    let many = test.put_artifact(&json!({"layers": vec![&layer; 513]}));
    let error = test.registry().artifact(&many.digest).await.unwrap_err().to_string();
    assert_eq!(error, "`layers` has 513 entries; it may have 512");
    let mut forged = layer.clone();
    forged["digest"] = json!("sha256:a\nforged");
    let forged = test.put_artifact(&json!({"layers": [layer, forged]}));
    let error = test.registry().artifact(&forged.digest).await.unwrap_err().to_string();
    assert!(error.contains("a layer whose digest is not sha256:") && !error.contains("forged"), "{error}");
    let pushed = push(&test, None).await;
    test.put_manifest(&tag_of(&pushed.digest), &json!({"manifests": vec![&layer; 513]}));
    let error = test.registry().verify(&pushed.digest, &SignatureKeys::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "`manifests` has 513 entries; it may have 512");
}

#[tokio::test]
async fn documents_are_attached_beside_those_of_others() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, None).await;
    let index = || -> Value {
        let tag = tag_of(&pushed.digest);
        serde_json::from_slice(&test.content.lock().unwrap().manifests[&tag]).unwrap()
    };
    let kind = "application/vnd.cyclonedx+json";
    let attached = test.registry().attach(&pushed, kind, "{}".into()).await.unwrap();
    assert_eq!(index()["manifests"], json!([attached]));
    test.registry().attach(&pushed, kind, "{}".into()).await.unwrap();
    assert_eq!(index()["manifests"].as_array().unwrap().len(), 1, "the same document");
    test.registry().attach(&pushed, kind, "{\"a\": 1}".into()).await.unwrap();
    assert_eq!(index()["manifests"].as_array().unwrap().len(), 2);
    let manifest: Value =
        serde_json::from_slice(&test.content.lock().unwrap().manifests[&attached.digest]).unwrap();
    assert_eq!(manifest["subject"]["digest"], json!(pushed.digest));
}

#[tokio::test]
async fn a_signature_is_found_in_both_forms_and_counts_by_its_key() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, None).await;
    let (key, other) = (TestKey::generate(), TestKey::generate());
    let verify = async |key: &TestKey| test.registry().verify(&pushed.digest, &key.keys()).await;
    let error = verify(&key).await.unwrap_err().to_string();
    assert!(error.contains("has no signature; sign it with"), "{error}");

    test.put_signature(&pushed, &key);
    verify(&key).await.unwrap();
    let error = verify(&other).await.unwrap_err();
    assert!(
        matches!(error, RegistryError::Unsigned(_)) && error.to_string().contains("none of 1 signatures"),
        "{error}"
    );

    // As cosign 3 does, beside a document that is no signature.
    let attach = async |kind: &str, text: String| {
        test.registry().attach(&pushed, kind, text.into()).await.unwrap();
    };
    attach("application/vnd.cyclonedx+json", "{}".to_owned()).await;
    attach(BUNDLE, other.bundle(SIGNED, &pushed.digest)).await;
    verify(&other).await.unwrap();
    let error = verify(&TestKey::generate()).await.unwrap_err().to_string();
    assert!(error.contains("none of 2 signatures"), "{error}");
}

#[tokio::test]
async fn a_search_looks_at_32_signatures_and_says_that_there_are_more() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, None).await;
    let key = TestKey::generate();
    let put = |key: &TestKey| test.put(BUNDLE, &key.bundle(SIGNED, &pushed.digest));
    let wrong = put(&TestKey::generate());
    for (before, is_found) in [(31, true), (32, false)] {
        let mut layers = vec![wrong.clone(); before];
        layers.push(put(&key));
        let manifests: Vec<Descriptor> =
            layers.chunks(20).map(|layers| test.put_artifact(&json!({"layers": layers}))).collect();
        test.put_manifest(&tag_of(&pushed.digest), &json!({"manifests": manifests}));
        let verified = test.registry().verify(&pushed.digest, &key.keys()).await;
        assert_eq!(verified.is_ok(), is_found, "after {before}: {verified:?}");
        if let Err(error) = verified {
            let error = error.to_string();
            assert!(error.contains("none of 32 signatures") && error.contains("more is attached"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_list_of_referrers_that_fails_hides_no_payload_and_is_the_error_without_one() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, None).await;
    let key = TestKey::generate();
    let verify = async |referrers: Response| {
        test.content.lock().unwrap().referrers = Some(referrers);
        test.registry().verify(&pushed.digest, &key.keys()).await.map_err(|error| error.to_string())
    };
    let long = ("200 OK", String::new(), vec![b' '; 300_000]);
    let broken = ("200 OK", String::new(), b"{".to_vec());
    let failures = [
        (status("503 Service Unavailable"), "answered 503 Service Unavailable"),
        (status("429 Too Many Requests"), "answered 429 Too Many Requests"),
        (status("401 Unauthorized"), "refuses the list"),
        (long, "it has more than 262144 bytes"),
        (broken, "cannot be read"),
    ];
    for (referrers, words) in &failures {
        let error = verify(referrers.clone()).await.unwrap_err();
        assert!(error.contains(words), "{error}");
    }
    test.put_signature(&pushed, &key);
    for (referrers, _) in failures {
        verify(referrers).await.unwrap();
    }
    test.content.lock().unwrap().manifests.retain(|name, _| !name.ends_with(".sig"));
    let bundle = test.put(BUNDLE, &key.bundle(SIGNED, &pushed.digest));
    let manifest = test.put_artifact(&json!({"layers": [bundle]}));
    test.put_manifest(&tag_of(&pushed.digest), &json!({"manifests": [manifest]}));
    for absent in ["404 Not Found", "400 Bad Request", "406 Not Acceptable"] {
        verify(status(absent)).await.unwrap();
    }
}

#[tokio::test]
async fn other_documents_hide_no_bundle_and_too_many_are_in_the_error() {
    let test = TestRegistry::start().await;
    let pushed = push(&test, None).await;
    let (key, other) = (TestKey::generate(), TestKey::generate());
    let attached = |layer: Value, kind: Option<&str>| {
        let mut manifest = test.put_artifact(&json!({"layers": [layer]}));
        manifest.artifact_type = kind.map(str::to_owned);
        manifest
    };
    let document =
        attached(test.put("application/vnd.cyclonedx+json", "{}"), Some("application/vnd.cyclonedx+json"));
    let mut foreign = document.clone();
    foreign.digest = "sha512:a\nb".to_owned();
    for kind in [Some(BUNDLE), None] {
        let mut manifests = vec![document.clone(); 31];
        manifests.extend([&foreign, &document].map(Descriptor::clone));
        manifests.push(attached(test.put(BUNDLE, &key.bundle(SIGNED, &pushed.digest)), kind));
        test.put_manifest(&tag_of(&pushed.digest), &json!({"manifests": manifests}));
        test.registry().verify(&pushed.digest, &key.keys()).await.unwrap();
        let error = test.registry().verify(&pushed.digest, &other.keys()).await.unwrap_err().to_string();
        assert!(error.contains("none of 1 signatures") && error.contains("more is attached"), "{error}");
    }
}
