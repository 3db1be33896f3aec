//! A registry in memory, which asks for tokens and sends to another server for its layers. The modules have the tests with it.

mod pull;
mod signatures;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pilothouse_engine::HostClient;
use pilothouse_plugin::directory::digest_of;
use pilothouse_plugin::{ComponentHost, ComponentHosts, OciReference, OciRepository};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

use crate::signature::tests::TestKey;
use crate::{Login, Registry, RegistryError};

/// The head of a request as text in lower case, and its path.
struct Request {
    head: String,
    path: String,
}

impl Request {
    fn has(&self, header: &str) -> bool {
        self.head.lines().any(|line| line == header)
    }
}

async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let path = text.split(' ').nth(1)?.to_owned();
    Some(Request { head: text.to_lowercase(), path })
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
}

/// The repository `team/web` of a registry.
pub(crate) fn repository(registry: &str) -> OciRepository {
    OciReference::parse(&format!("oci://{registry}/team/web@{}", digest_of(b"")))
        .unwrap()
        .repository()
        .clone()
}

/// The repository `team/web` of a registry, with these entries of hosts.
fn registry(registry: &str, hosts: &[String], login: Option<Login>) -> Result<Registry, RegistryError> {
    let client = HostClient::new("test".to_owned(), Duration::from_secs(60), Handle::current());
    let hosts: ComponentHosts = hosts.iter().map(|entry| ComponentHost::parse(entry).unwrap()).collect();
    Registry::new(client, repository(registry), hosts, login, "the test")
}

/// The descriptor of some content.
fn descriptor(media_type: &str, content: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": digest_of(content), "size": content.len()})
}

/// The digest of a descriptor.
fn digest(descriptor: &Value) -> String {
    descriptor["digest"].as_str().unwrap().to_owned()
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

    /// The entries of both servers.
    fn hosts(&self) -> [String; 2] {
        [&self.address, &self.storage].map(|host| format!("http://{host}"))
    }

    fn login(&self) -> Login {
        let config = json!({"auths": {(self.address.as_str()): {"auth": "dXNlcjpwYXNz"}}}).to_string();
        Login::of_docker_config(config.as_bytes(), &repository(&self.address)).unwrap()
    }

    fn registry(&self) -> Registry {
        registry(&self.address, &self.hosts(), Some(self.login())).unwrap()
    }

    /// Puts content there; its descriptor.
    fn put(&self, media_type: &str, blob: &str) -> Value {
        let descriptor = descriptor(media_type, blob.as_bytes());
        self.content.lock().unwrap().blobs.insert(digest(&descriptor), blob.as_bytes().to_vec());
        descriptor
    }

    fn put_manifest(&self, tag: &str, manifest: &Value) {
        self.content.lock().unwrap().manifests.insert(tag.to_owned(), manifest.to_string().into_bytes());
    }

    /// Puts a manifest there by its digest; its descriptor.
    fn put_artifact(&self, manifest: &Value) -> Value {
        let text = manifest.to_string();
        self.put_manifest(&digest_of(text.as_bytes()), manifest);
        descriptor("application/vnd.oci.image.manifest.v1+json", text.as_bytes())
    }

    /// Puts the component of the tests there, as `oras` does; the digest of its artifact.
    fn put_component(&self) -> String {
        let config = self.put("application/vnd.oci.empty.v1+json", "{}");
        let layer = self.put("application/wasm", "component");
        digest(&self.put_artifact(&json!({"schemaVersion": 2, "config": config, "layers": [layer]})))
    }
}

/// The fallback tag of a digest.
fn tag_of(digest: &str) -> String {
    digest.replace(':', "-")
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
            "www-authenticate: Bearer realm=\"/token\",service=s,scope=\"repository:team/web:pull\"\r\n";
        return ("401 Unauthorized", challenge.to_owned(), Vec::new());
    }
    let Some(path) = request.path.strip_prefix("/v2/team/web/") else { return status("404 Not Found") };
    if !request.head.starts_with("get ") {
        return status("405 Method Not Allowed");
    }
    match path.split_once('/') {
        Some(("blobs", digest)) => {
            ("307 Temporary Redirect", format!("location: http://{storage}/{digest}?secret\r\n"), Vec::new())
        }
        Some(("manifests", reference)) => match content.manifests.get(reference) {
            Some(manifest) => ("200 OK", String::new(), manifest.clone()),
            None => status("404 Not Found"),
        },
        Some(("referrers", list)) => {
            content.lists += 1;
            let query = list.split_once('?').map_or("", |(_, query)| query);
            content.referrers.get(query).cloned().unwrap_or_else(|| status("404 Not Found"))
        }
        _ => status("404 Not Found"),
    }
}
