//! Connections: HTTP/1.1 and HTTP/2, TLS, sizes, and a server that stops, hangs and comes back.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Version};
use http_body_util::{BodyExt as _, Full};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use pilothouse_devserver::{DevServer, DevServerOptions, StartError};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::client::{CONFIG_MAPS, Cluster, config_map};

/// The largest body that is taken.
const LIMIT: usize = 3 << 20;
const MOMENT: Duration = Duration::from_millis(60);

fn get(url: &str) -> Request<Full<Bytes>> {
    Request::get(url).body(Full::default()).unwrap()
}

#[tokio::test]
async fn both_versions_of_http_without_tls() {
    let server = DevServer::start(DevServerOptions::default()).await.unwrap();
    let url = format!("{}/version", server.url());
    for (h2, version) in [(false, Version::HTTP_11), (true, Version::HTTP_2)] {
        let client = Client::builder(TokioExecutor::new()).http2_only(h2).build_http();
        let response = client.request(get(&url)).await.unwrap();
        assert_eq!((response.status().as_u16(), response.version()), (200, version));
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(serde_json::from_slice::<Value>(&body).unwrap()["gitVersion"].is_string());
    }
}

#[tokio::test]
async fn one_connection_carries_many_requests_at_once() {
    let cluster = Cluster::start().await;
    cluster.config_map("a").await;
    let stream = TcpStream::connect(cluster.server.address()).await.unwrap();
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = async |path: &str| {
        let mut sender = sender.clone();
        sender.ready().await.unwrap();
        sender.send_request(get(&format!("{}{path}", cluster.server.url()))).await.unwrap()
    };
    let watches = join_all((0..20).map(|_| request("/api/v1/configmaps?watch=1"))).await;
    let lists = join_all((0..200).map(|_| async {
        let response = request(CONFIG_MAPS).await;
        let body = response.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice::<Value>(&body).unwrap()["items"].as_array().unwrap().len()
    }))
    .await;
    assert_eq!(lists, [1; 200]);
    cluster.config_map("b").await;
    for watch in watches {
        let mut body = watch.into_body();
        let mut text = Vec::new();
        while text.iter().filter(|b| **b == b'\n').count() < 2 {
            text.extend_from_slice(body.frame().await.unwrap().unwrap().data_ref().unwrap());
        }
    }
    // A reset ends the connection with everything on it.
    cluster.server.stop();
    let mut late = sender.clone();
    assert!(late.send_request(get(&cluster.server.url())).await.is_err());
}

/// The authority that a kubeconfig names.
fn authority(kubeconfig: &str) -> rustls::RootCertStore {
    let line =
        kubeconfig.lines().find_map(|l| l.trim().strip_prefix("certificate-authority-data: ")).unwrap();
    let pem = STANDARD.decode(line).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
    roots
}

fn tls(roots: rustls::RootCertStore) -> rustls::ClientConfig {
    rustls::ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

#[tokio::test]
async fn tls_with_the_authority_of_the_kubeconfig() {
    let options = DevServerOptions { tls: true, ..DevServerOptions::default() };
    let server = DevServer::start(options.clone()).await.unwrap();
    let other = DevServer::start(options).await.unwrap();
    let kubeconfig = server.kubeconfig();
    assert!(kubeconfig.contains(&format!("server: {}", server.url())), "{kubeconfig}");
    assert!(server.url().starts_with("https://127.0.0.1:"));

    let trust = || tls(authority(&server.kubeconfig()));
    let h1 = HttpsConnectorBuilder::new().with_tls_config(trust()).https_only().enable_http1().build();
    let both =
        HttpsConnectorBuilder::new().with_tls_config(trust()).https_only().enable_all_versions().build();
    for (connector, version) in [(h1, Version::HTTP_11), (both, Version::HTTP_2)] {
        let client = Client::builder(TokioExecutor::new()).build(connector);
        for host in [server.url(), format!("https://localhost:{}", server.address().port())] {
            let response = client.request(get(&format!("{host}/readyz"))).await.unwrap();
            assert_eq!((response.status().as_u16(), response.version()), (200, version), "{host}");
        }
        // Each server has an authority of its own.
        assert!(client.request(get(&format!("{}/readyz", other.url()))).await.is_err());
    }
    let nobody = HttpsConnectorBuilder::new()
        .with_tls_config(tls(rustls::RootCertStore::empty()))
        .https_only()
        .enable_http1()
        .build();
    let client = Client::builder(TokioExecutor::new()).build::<_, Full<Bytes>>(nobody);
    assert!(client.request(get(&format!("{}/readyz", server.url()))).await.is_err());
    // Who speaks no TLS gets no answer and does no harm.
    let plain = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    assert!(plain.request(get(&format!("http://{}/readyz", server.address()))).await.is_err());
}

/// A ConfigMap that is so many bytes of JSON, most of them spaces: the largest object is smaller than the largest body.
fn of_size(name: &str, bytes: usize) -> String {
    let object = config_map(name).to_string();
    let spaces = " ".repeat(bytes - object.len());
    object + &spaces
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let cluster = Cluster::start().await;
    let json = [("content-type", "application/json")];
    let fits = cluster.send("POST", CONFIG_MAPS, &json, of_size("fits", LIMIT)).await;
    assert_eq!(fits.code, 201);
    for bytes in [LIMIT + 1, 4 * LIMIT] {
        let (code, reason, message) =
            cluster.send("POST", CONFIG_MAPS, &json, of_size("large", bytes)).await.failed();
        assert_eq!((code, reason.as_str()), (413, "RequestEntityTooLarge"));
        assert!(message.contains(&LIMIT.to_string()), "{message}");
    }
    assert_eq!(cluster.get(&format!("{CONFIG_MAPS}/large")).await.code, 404);
    assert_eq!(cluster.get(&format!("{CONFIG_MAPS}/fits")).await.code, 200);
}

#[tokio::test]
async fn a_stopped_server_comes_back_with_its_port_and_its_objects() {
    let cluster = Cluster::start().await;
    let made = cluster.config_map("a").await;
    let address = cluster.server.address();
    for round in 0..3 {
        let mut watch =
            cluster.watch(&format!("{CONFIG_MAPS}?watch=1&fieldSelector=metadata.name%3Da")).await;
        assert_eq!(watch.told().await, "ADDED a");
        cluster.server.stop();
        assert!(watch.line().await.is_err(), "reset, not ended: {round}");
        assert!(TcpStream::connect(address).await.is_err(), "nobody listens: {round}");
        cluster.server.stop();
        cluster.server.start_again().await.unwrap();
        assert_eq!(cluster.server.address(), address);
        assert_eq!(cluster.get(&format!("{CONFIG_MAPS}/a")).await.ok(), made);
    }
    // At once, too.
    cluster.server.stop();
    cluster.server.start_again().await.unwrap();
    cluster.config_map("b").await;
    // One that runs need not be started again: that is no error of its own, but the port is taken.
    assert!(matches!(cluster.server.start_again().await, Err(StartError::Listen { .. })));
    assert_eq!(cluster.get(CONFIG_MAPS).await.ok()["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_paused_server_is_silent_and_goes_on() {
    let cluster = Cluster::start().await;
    cluster.config_map("a").await;
    let path = format!("{CONFIG_MAPS}/a");
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    assert_eq!(watch.told().await, "ADDED a");
    cluster.server.pause();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), config_map("meanwhile").to_string()).unwrap();
    cluster.server.seed(file.path()).unwrap();
    assert!(watch.is_silent(MOMENT).await);
    let mut waits = std::pin::pin!(cluster.begin("GET", &path, &[], ""));
    assert!(tokio::time::timeout(MOMENT, &mut waits).await.is_err());
    // A new connection is taken, and nothing moves on it either.
    assert!(TcpStream::connect(cluster.server.address()).await.is_ok());
    cluster.server.resume();
    assert_eq!(waits.await.unwrap().status(), 200);
    assert_eq!(watch.told().await, "ADDED meanwhile");
    cluster.config_map("b").await;
    assert_eq!(watch.told().await, "ADDED b");
    // Stopping ends a pause of connections.
    cluster.server.pause();
    cluster.server.stop();
    assert!(watch.line().await.is_err());
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let first = DevServer::start(DevServerOptions::default()).await.unwrap();
    let options = DevServerOptions { listen: first.address(), ..DevServerOptions::default() };
    let error = DevServer::start(options).await.unwrap_err();
    assert!(matches!(error, StartError::Listen { address, .. } if address == first.address()));
    let text = error.to_string();
    assert!(text.contains(&first.address().to_string()) && text.contains("choose another port"), "{text}");
}

#[tokio::test]
async fn a_server_that_is_shut_down_or_dropped_is_gone() {
    for dropped in [false, true] {
        let cluster = Cluster::start().await;
        let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
        let address = cluster.server.address();
        if dropped {
            drop(cluster);
        } else {
            cluster.server.shutdown().await;
        }
        assert!(!matches!(watch.line().await, Ok(Some(_))), "nothing more comes");
        assert!(TcpStream::connect(address).await.is_err());
        // And the port is free.
        let options = DevServerOptions { listen: address, ..DevServerOptions::default() };
        let next = DevServer::start(options).await.unwrap();
        assert_eq!(next.address(), address);
    }
}

#[tokio::test]
async fn many_connections_write_without_losing_anything() {
    let cluster = Cluster::start().await;
    cluster.config_map("a").await;
    let path = format!("{CONFIG_MAPS}/a");
    let writes = (0..50).map(|n| {
        let (cluster, path) = (&cluster, &path);
        async move { cluster.merge(path, &json!({"data": {format!("k{n}"): "x"}})).await.ok() }
    });
    join_all(writes).await;
    assert_eq!(cluster.get(&path).await.ok()["data"].as_object().unwrap().len(), 51);
}

/// Sends a request with these headers; code, and message of a refusal.
async fn asked(cluster: &Cluster, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let answer = cluster.send(method, path, headers, "").await;
    if answer.code == 200 { (200, String::new()) } else { (answer.code, answer.failed().2) }
}

#[tokio::test]
async fn no_page_in_a_browser_reaches_the_server() {
    let cluster = Cluster::start().await;
    let own = format!("http://{}", cluster.server.address());
    let paths = [
        ("GET", CONFIG_MAPS),
        ("GET", "/_requests"),
        ("GET", "/version"),
        ("POST", "/_compact"),
        ("DELETE", "/_faults"),
    ];
    for (method, path) in paths {
        for host in ["localhost", "LOCALHOST:6443", "127.0.0.1:1", "127.8.9.1", "[::1]:6443"] {
            assert_eq!(asked(&cluster, method, path, &[("host", host)]).await.0, 200, "{path} {host}");
        }
        for host in
            ["example.org", "localhost.example.org:80", "192.168.0.1", "127.0.0.1.example.org", "not a host"]
        {
            let (code, message) = asked(&cluster, method, path, &[("host", host)]).await;
            assert_eq!(code, 403, "{path} {host}");
            assert!(message.contains(host) && message.contains("localhost"), "{message}");
        }
        for headers in [
            [("origin", "https://example.org")],
            [("origin", "null")],
            [("origin", "http://127.0.0.1:1")],
            [("origin", "file://")],
            [("sec-fetch-site", "cross-site")],
            [("sec-fetch-site", "same-site")],
        ] {
            let (code, message) = asked(&cluster, method, path, &headers).await;
            assert_eq!(code, 403, "{path} {headers:?}");
            assert!(message.contains(headers[0].1) && message.contains("kubectl"), "{message}");
        }
        for headers in
            [[("origin", own.as_str())], [("sec-fetch-site", "none")], [("sec-fetch-site", "same-origin")]]
        {
            assert_eq!(asked(&cluster, method, path, &headers).await.0, 200, "{path} {headers:?}");
        }
    }
    let refused = cluster.server.requests().into_iter().find(|request| request.code == 403).unwrap();
    assert_eq!(
        (refused.verb.as_str(), refused.resource.as_str()),
        ("list", "configmaps"),
        "it is in the log"
    );
}

#[tokio::test]
async fn the_host_of_http_2_counts_too() {
    let cluster = Cluster::start().await;
    let stream = TcpStream::connect(cluster.server.address()).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for (url, code) in [("http://localhost/version", 200), ("http://example.org/version", 403)] {
        sender.ready().await.unwrap();
        assert_eq!(sender.send_request(get(url)).await.unwrap().status().as_u16(), code, "{url}");
    }
}

#[tokio::test]
async fn further_names_are_given_at_the_start() {
    let options =
        DevServerOptions { hosts: vec!["Dev.example.org".to_owned()], ..DevServerOptions::default() };
    let cluster = Cluster::with(options).await;
    assert_eq!(asked(&cluster, "GET", "/version", &[("host", "dev.example.org:80")]).await.0, 200);
    assert_eq!(asked(&cluster, "GET", "/version", &[("host", "example.org")]).await.0, 403);
    let everywhere = ([0, 0, 0, 0], 0).into();
    let cluster = Cluster::with(DevServerOptions { listen: everywhere, ..DevServerOptions::default() }).await;
    assert_eq!(asked(&cluster, "GET", "/version", &[("host", "192.168.0.1:80")]).await.0, 200);
    assert_eq!(asked(&cluster, "GET", "/version", &[("host", "example.org")]).await.0, 403);
}

#[tokio::test]
async fn bodies_of_the_types_of_forms_are_refused() {
    let cluster = Cluster::start().await;
    cluster.config_map("a").await;
    let named = format!("{CONFIG_MAPS}/a");
    let rule = json!({"fault": {"type": "reset"}}).to_string();
    for media_type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        for (method, path, body) in [
            ("POST", CONFIG_MAPS, config_map("b").to_string()),
            ("PUT", &named, config_map("a").to_string()),
            ("PATCH", &named, "{}".to_owned()),
            ("DELETE", &named, "{}".to_owned()),
            ("DELETE", CONFIG_MAPS, "{}".to_owned()),
            ("POST", "/_faults", rule.clone()),
            ("POST", "/_compact", "x".to_owned()),
        ] {
            let answer = cluster.send(method, path, &[("content-type", media_type)], body).await;
            assert_eq!(answer.reason(), (415, "UnsupportedMediaType".to_owned()), "{method} {path}");
        }
    }
    assert_eq!(cluster.get(CONFIG_MAPS).await.ok()["items"].as_array().unwrap().len(), 1);
    // Programs that name no type mean JSON.
    assert_eq!(cluster.send("POST", "/_faults", &[], rule).await.code, 200);
    cluster.server.faults().clear();
    assert_eq!(cluster.send("POST", CONFIG_MAPS, &[], config_map("b").to_string()).await.code, 201);
}
