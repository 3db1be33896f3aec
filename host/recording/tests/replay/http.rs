//! Requests over HTTP are replayed without a network.

use anyhow::Result;
use pilothouse_engine::{HttpClient, HttpClientOptions, HttpObserver, HttpResult, SystemResolver};
use pilothouse_plugin::Limits;
use pilothouse_recording::ReplayOptions;
use serde_json::json;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::runtime::Handle;

use super::host::{Bounds, Cluster, SECRET_MEMBER, Stage, assert_same};

struct Nobody;

impl HttpObserver for Nobody {
    fn request(&self, _: HttpResult) {}
    fn moved(&self, _: u64, _: u64) {}
}

const TOKEN: &str = "token=0123abcd-4567";

/// Answers each request with its head, cut in the middle of the token, and closes.
async fn serve(listener: TcpListener) -> Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let mut request = Vec::new();
        while !request.windows(4).any(|end| end == b"\r\n\r\n") {
            stream.read_buf(&mut request).await?;
        }
        let head =
            format!("HTTP/1.1 200 OK\r\nx-echo: {TOKEN}\r\ncontent-length: {}\r\n\r\n", 2 * request.len());
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(&request).await?;
        let middle =
            request.windows(TOKEN.len()).position(|at| at == TOKEN.as_bytes()).unwrap_or_default() + 5;
        stream.write_all(&request[..middle]).await?;
        stream.flush().await?;
        tokio::task::yield_now().await;
        stream.write_all(&request[middle..]).await?;
    }
}

#[tokio::test]
async fn answers_and_failures_come_from_the_recording() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let closed = TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port();
    let server = tokio::spawn(serve(listener));
    let hosts = [format!("127.0.0.1:{port}"), format!("127.0.0.1:{closed}")];
    let client = HttpClient::new(HttpClientOptions {
        plugin: "it".into(),
        hosts: hosts.iter().map(|host| host.parse()).collect::<Result<_, _>>()?,
        qps: 1000.0,
        user_agent: "test".to_owned(),
        resolver: Arc::new(SystemResolver),
        runtime: Handle::current(),
        observer: Arc::new(Nobody),
    });
    let urls = [port, closed, 1].map(|port| format!("http://127.0.0.1:{port}/{TOKEN}"));
    let config = json!({"mode": "http", "count": 1, SECRET_MEMBER: TOKEN, "request": {
        "urls": urls, "method": "POST", "headers": [["authorization", format!("Bearer {TOKEN}")]], "body": 9,
    }});
    let mut stage = Stage::new("probe", Bounds::default()).await?;
    let cluster = Cluster { http: Some(client), ..Cluster::new(&config) };
    let mut recorded = stage.instance(cluster, false, Limits::default()).await?;
    recorded.reconcile("a/b", 1).await?.expect("done");
    drop(recorded);
    server.abort();
    assert!(server.await.is_err_and(|error| error.is_cancelled()));
    let text = stage.text()?;
    assert!(!text.contains(TOKEN) && !text.contains("0123abcd"), "{text}");
    for known in [
        "\"failed\":\"connection-refused\"",
        "\"failed\":\"http-request-denied\"",
        "\"status\":200",
        "xxxxxxxxx",
    ] {
        assert!(text.contains(known), "{known}: {text}");
    }
    assert_same(&stage.replay(&ReplayOptions::default()).await?, 1);
    // A build that sends a request more often gets no answer from then on.
    let what = stage.difference_to(r#"\"count\":1"#, r#"\"count\":2"#).await?;
    assert_eq!(what, "the guest calls http in place of log");
    Ok(())
}
