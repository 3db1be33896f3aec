//! Limits on size, time and number, and the cancellation of running requests when an instance is dropped.

use std::time::Duration;

use anyhow::Result;
use pilothouse_engine::FaultKind;
use pilothouse_plugin::Limits;
use serde_json::{Value, json};

use crate::plugin::{Plugin, Setup, limits, reconcile};
use crate::server::Server;

/// A plugin that makes one kind of request to the server.
fn plugin(server: &Server, path: &str, more: Value) -> Result<std::sync::Arc<Plugin>> {
    let mut request = json!({"urls": [format!("http://127.0.0.1:{}{path}", server.port())]});
    if let (Some(request), Some(more)) = (request.as_object_mut(), more.as_object()) {
        request.extend(more.clone());
    }
    Plugin::new(Setup { request, hosts: vec![format!("127.0.0.1:{}", server.port())], ..Setup::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_is_too_large_is_cut_and_its_connection_closed() -> Result<()> {
    let server = Server::start("127.0.0.1").await?;
    for path in ["/announced", "/endless", "/headers"] {
        let plugin = plugin(&server, path, json!({}))?;
        let said = plugin.run().await?;
        assert_eq!(said[0]["kind"], "ResponseTooLarge", "{path}: {said:?}");
        server.open(0).await?;
    }
    let most = plugin(&server, "/most", json!({}))?.run().await?;
    assert_eq!(most[0]["bytes"], (16 << 20).to_string(), "{most:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_too_large_is_not_sent() -> Result<()> {
    let server = Server::start("127.0.0.1").await?;
    let plugin = plugin(&server, "/", json!({"method": "POST", "body": (16 << 20) + 1}))?;
    let said = plugin.run().await?;
    assert_eq!(said[0]["kind"], "RequestTooLarge", "{said:?}");
    assert_eq!(server.accepted(), 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_before_the_body_is_sent_is_read() -> Result<()> {
    let server = Server::start("127.0.0.1").await?;
    let plugin = plugin(&server, "/early", json!({"method": "POST", "body": 8 << 20}))?;
    let said = plugin.run().await?;
    assert_eq!((&said[0]["status"], &said[0]["body"]), (&json!("413"), &json!("enough")), "{said:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_server_is_cut_at_the_deadline_of_the_call() -> Result<()> {
    let server = Server::start("127.0.0.1").await?;
    for (count, path) in ["/stall", "/stall-body"].into_iter().enumerate() {
        let plugin = plugin(&server, path, json!({}))?;
        let mut instance =
            plugin.instance(Limits { call_timeout: Duration::from_secs(1), ..Limits::default() }).await?;
        let fault = reconcile(&mut instance).await.err();
        assert_eq!(fault.map(|fault| fault.kind), Some(FaultKind::Waiting));
        server.arrived(count + 1).await?;
        drop(instance);
        // Cancelled with the instance; the connection does not return to the pool.
        server.open(0).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_s_own_timeout_is_an_error_that_the_guest_reads() -> Result<()> {
    let server = Server::start("127.0.0.1").await?;
    for path in ["/stall", "/stall-body"] {
        let plugin = plugin(&server, path, json!({"timeoutMilliseconds": 200}))?;
        let said = plugin.run().await?;
        assert_eq!(said[0]["kind"], "Timeout", "{path}: {said:?}");
        server.open(0).await?;
    }
    Ok(())
}

// On one thread, whose CPU clock includes the time of the other tasks.
#[tokio::test]
async fn waiting_for_an_answer_costs_no_cpu_budget() -> Result<()> {
    let server = Server::start("127.0.0.1").await?;
    // Ticks after the response would charge the wait if it were part of the slice.
    let plugin = plugin(&server, "/wait", json!({"busyMilliseconds": 50}))?;
    let budget = Duration::from_millis(300);
    let mut instance = plugin.instance(Limits { cpu_per_call: budget, ..limits() }).await?;
    let told = {
        let server = server.clone();
        tokio::spawn(async move {
            server.arrived(1).await?;
            burn(2 * budget);
            server.go();
            anyhow::Ok(())
        })
    };
    reconcile(&mut instance).await??;
    told.await??;
    assert_eq!(plugin.said()[0]["body"], "told");
    Ok(())
}

/// Keeps a thread busy.
fn burn(time: Duration) {
    let began = std::time::Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generation_has_sixteen_connections_and_no_more() -> Result<()> {
    let server = Server::start("127.0.0.1").await?;
    let plugin = plugin(&server, "/wait", json!({}))?;
    let mut running = Vec::new();
    for _ in 0..20 {
        let mut instance = plugin.instance(limits()).await?;
        running.push(tokio::spawn(async move { reconcile(&mut instance).await }));
    }
    server.arrived(16).await?;
    for answered in 1..=20 {
        assert!(server.accepted() <= 16, "connections");
        server.go();
        server.arrived((16 + answered).min(20)).await?;
    }
    for each in running {
        each.await???;
    }
    assert_eq!(server.accepted(), 16, "later requests took the connections of earlier ones");
    Ok(())
}
