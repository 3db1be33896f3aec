//! A registry in memory, which asks for tokens and sends to another server for its layers. The modules have the tests with it.

mod pull;
mod push;
mod signatures;

use std::collections::HashMap;
use std::fmt::Write as _;
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
use crate::signature::tests::TestKey;
use crate::{ComponentWorld, Descriptor, Document, Login, Registry, RegistryError, RegistryOptions};

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

/// Type of a document that is no signature.
const SBOM: &str = "application/vnd.cyclonedx+json";

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
    /// The answers to requests for referrers, by their query; none without the referrers API.
    referrers: HashMap<String, Response>,
    /// Requests for referrers.
    lists: usize,
    /// No answer to a push says that the registry lists what is attached.
    is_silent: bool,
    /// What other clients write over the next indexes of what is attached.
    rivals: Vec<Value>,
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
            if reference.starts_with("sha256-")
                && let Some(rival) = content.rivals.pop()
            {
                content.manifests.insert(reference.to_owned(), rival.to_string().into_bytes());
            }
            let is_silent = content.is_silent || content.referrers.is_empty();
            let subject = if is_silent { "" } else { "oci-subject: sha256:0\r\n" };
            ("201 Created", subject.to_owned(), Vec::new())
        }
        // As some registries answer for a repository that does not exist.
        ("get", Some(("manifests", _))) if content.manifests.is_empty() => status("403 Forbidden"),
        ("get", Some(("manifests", reference))) => match content.manifests.get(reference) {
            Some(manifest) => ("200 OK", String::new(), manifest.clone()),
            None => status("404 Not Found"),
        },
        // As zot answers for such a repository.
        ("get", Some(("referrers", _))) if content.manifests.is_empty() => status("404 Not Found"),
        ("get", Some(("referrers", list))) => {
            content.lists += 1;
            let query = list.split_once('?').map_or("", |(_, query)| query);
            content.referrers.get(query).cloned().unwrap_or_else(|| status("404 Not Found"))
        }
        _ => status("404 Not Found"),
    }
}

/// Pushes the component of the tests.
async fn push(test: &TestRegistry, tag: Option<&str>) -> Descriptor {
    let component = Bytes::from_static(b"component");
    test.registry().push(component, &ComponentWorld::default(), tag, None).await.unwrap()
}

/// Pushes the component of the tests with a document.
async fn push_with(
    test: &TestRegistry,
    media_type: &'static str,
    document: impl Into<Bytes>,
) -> Result<Descriptor, RegistryError> {
    let component = Bytes::from_static(b"component");
    let document = Document { media_type, content: document.into() };
    test.registry().push(component, &ComponentWorld::default(), None, Some(document)).await
}
