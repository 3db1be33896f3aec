//! Hostile guests that use the raw interface.

use std::sync::Arc;

use anyhow::Result;
use pilothouse_engine::FaultKind;
use serde_json::{Value, json};

use crate::plugin::{Plugin, Setup, limits, reconcile};
use crate::server::Server;

fn plugin(way: &str, url: &str, server: &Server) -> Result<Arc<Plugin>> {
    let hosts = vec![format!("localhost:{}", server.port()), format!("allowed.example:{}", server.port())];
    let request = json!({"urls": [url], "hostile": way});
    Plugin::new(Setup {
        request,
        hosts,
        names: vec![("allowed.example", vec!["127.0.0.1"])],
        ..Setup::default()
    })
}

fn said(lines: &[Value]) -> Vec<(&str, &str)> {
    lines.iter().map(|l| (l["what"].as_str().unwrap_or(""), l["said"].as_str().unwrap_or(""))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_hoards_requests_is_stopped_and_its_connections_go_with_it() -> Result<()> {
    let server = Server::start("127.0.0.1").await?;
    let plugin = plugin("hoard", &format!("http://localhost:{}", server.port()), &server)?;
    let mut instance = plugin.instance(limits()).await?;
    let fault = reconcile(&mut instance).await.err();
    assert_eq!(fault.map(|fault| fault.kind), Some(FaultKind::Trap));
    assert!(server.accepted() <= 16, "{} connections", server.accepted());
    drop(instance);
    drop(plugin);
    server.open(0).await
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_abandoned_leave_nothing_behind() -> Result<()> {
    let server = Server::start("127.0.0.1").await?;
    for way in ["abandon", "half-body"] {
        let plugin = plugin(way, &format!("http://localhost:{}", server.port()), &server)?;
        let lines = plugin.run().await?;
        assert_eq!(lines.len(), 1, "{lines:?}");
        // The next request is served.
        let honest = Plugin::new(Setup {
            request: json!({"urls": [format!("http://localhost:{}/", server.port())]}),
            hosts: vec![format!("localhost:{}", server.port())],
            ..Setup::default()
        })?;
        assert_eq!(honest.run().await?[0]["status"], "200");
        drop((plugin, honest));
        server.open(0).await?;
    }
    let requests = server.requests();
    assert!(
        !requests.iter().any(|head| head.to_lowercase().contains("content-length: 1000")),
        "half a body was taken for whole"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_of_the_connection_and_malformed_ones_are_not_taken() -> Result<()> {
    let server = Server::start("127.0.0.1").await?;
    let lines = plugin("headers", "", &server)?.run().await?;
    for (name, said) in said(&lines) {
        let expected = if name.starts_with('X') { "InvalidSyntax" } else { "Forbidden" };
        assert!(said.contains(expected), "{name:?}: {said}");
    }
    assert_eq!(lines.len(), 12);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_cannot_be_read_in_two_ways() -> Result<()> {
    let server = Server::start("127.0.0.1").await?;
    let port = server.port();
    for authority in [
        format!("allowed.example:{port}@evil.example"),
        format!("allowed.example@localhost:{port}"),
        format!("allowed.example:{port}#@evil.example"),
        format!("allowed.example:{port}/../@evil.example"),
        format!("evil.example\\@allowed.example:{port}"),
        "localhost:0".to_owned(),
        "localhost:".to_owned(),
        format!("localhost:+{port}"),
        format!("localhost:{}", 65536 + u32::from(port)),
        format!("127.1:{port}"),
        format!("2130706433:{port}"),
        format!("0x7f000001:{port}"),
        format!("%6cocalhost:{port}"),
        format!("localhost..:{port}"),
        format!(" localhost:{port}"),
        format!("localhost:{port}\r\nX: y"),
        format!("127.0.0.1:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("[::1]:{port}"),
        String::new(),
    ] {
        let plugin = plugin("authority", &authority, &server)?;
        let lines = plugin.run().await?;
        let what = said(&lines)[0].1;
        assert!(
            ["not taken", "HttpRequestUriInvalid", "HttpRequestDenied", "HttpProtocolError"]
                .iter()
                .any(|no| what.contains(no)),
            "{authority:?}: {what}"
        );
        assert!(plugin.asked().is_empty(), "{authority:?} was looked up");
    }
    assert_eq!(server.accepted(), 0);
    for authority in
        [format!("LOCALHOST:{port}"), format!("localhost.:{port}"), format!("Allowed.Example.:{port}")]
    {
        let lines = plugin("authority", &authority, &server)?.run().await?;
        assert!(said(&lines)[0].1 == "200", "{authority}: {lines:?}");
    }
    assert!(server.requests().iter().all(|head| !head.contains("LOCALHOST") && !head.contains(".:")));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_as_path_a_foreign_scheme_and_connect_are_refused() -> Result<()> {
    let server = Server::start("127.0.0.1").await?;
    let url = format!("http://localhost:{}", server.port());
    for (way, expected) in [
        ("absolute-path", "not taken"),
        ("scheme", "HttpProtocolError"),
        ("connect", "HttpRequestMethodInvalid"),
    ] {
        let lines = plugin(way, &url, &server)?.run().await?;
        assert!(said(&lines)[0].1.contains(expected), "{way}: {lines:?}");
    }
    assert_eq!(server.accepted(), 0);
    Ok(())
}
