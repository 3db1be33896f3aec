//! Requests of guests over `wasi:http`: permitted destinations, limits, and the errors that the guest reads.

mod bounds;
mod grants;
mod hostile;
mod plugin;
mod server;

use anyhow::Result;
use pilothouse_engine::HttpResult;
use serde_json::json;

use plugin::{Plugin, Setup};
use server::Server;

#[tokio::test(flavor = "multi_thread")]
async fn a_granted_host_answers_and_the_connection_serves_the_next_request() -> Result<()> {
    let server = Server::start("127.0.0.1").await?;
    let url = format!("http://LocalHost.:{}/x?y=1", server.port());
    let plugin = Plugin::new(Setup {
        request: json!({"urls": [url], "method": "POST", "body": 300_000, "headers": [["X-A", "b"]]}),
        count: Some(5),
        hosts: vec![format!("localhost:{}", server.port())],
        ..Setup::default()
    })?;
    let said = plugin.run().await?;
    assert_eq!(said.len(), 5, "{said:?}");
    for line in &said {
        assert_eq!(line["status"], "200", "{line}");
    }
    assert_eq!(server.accepted(), 1, "connections");
    let head = &server.requests()[0];
    assert!(head.starts_with("POST /x?y=1 HTTP/1.1\r\n"), "{head}");
    let head = head.to_lowercase();
    for header in [
        &format!("\r\nhost: localhost:{}\r\n", server.port()),
        "\r\nuser-agent: pilothouse/test (probe)\r\n",
        "\r\ncontent-length: 300000\r\n",
        "\r\nx-a: b\r\n",
    ] {
        assert!(head.contains(header), "{header:?} is not in {head}");
    }
    assert!(!head.contains("transfer-encoding"), "{head}");
    assert_eq!(plugin.results(), [HttpResult::Status(200); 5]);
    assert_eq!(plugin.counted.moved.lock().unwrap().0, 5 * 300_000);
    assert!(plugin.warnings().is_empty());
    // Dropping the generation closes its idle connections.
    drop(plugin);
    server.open(0).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_s_own_user_agent_stays_and_a_redirect_is_its_own_business() -> Result<()> {
    let server = Server::start("127.0.0.1").await?;
    let plugin = Plugin::new(Setup {
        request: json!({
            "urls": [format!("http://127.0.0.1:{}/redirect", server.port())],
            "headers": [["User-Agent", "mine"]],
        }),
        hosts: vec![format!("127.0.0.1:{}", server.port())],
        ..Setup::default()
    })?;
    let said = plugin.run().await?;
    assert_eq!(said[0]["status"], "302");
    let head = server.requests()[0].to_lowercase();
    assert!(head.contains("\r\nuser-agent: mine\r\n") && !head.contains("pilothouse"), "{head}");
    assert!(
        !head.contains("transfer-encoding") && !head.contains("content-length"),
        "no body, no framing: {head}"
    );
    assert_eq!(plugin.results(), [HttpResult::Status(302)]);
    Ok(())
}
