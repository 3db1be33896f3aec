//! Grants of destinations: checked by name and then by address.

use anyhow::Result;
use pilothouse_engine::HttpResult;
use serde_json::json;

use crate::plugin::{Plugin, Setup};
use crate::server::Server;

/// Makes one request and returns its result with the plugin.
async fn ask(
    url: &str,
    hosts: &[String],
    names: Vec<(&'static str, Vec<&'static str>)>,
) -> Result<(serde_json::Value, std::sync::Arc<Plugin>)> {
    let plugin = Plugin::new(Setup {
        request: json!({"urls": [url]}),
        hosts: hosts.to_vec(),
        names,
        ..Setup::default()
    })?;
    let mut said = plugin.run().await?;
    assert_eq!(said.len(), 1, "{said:?}");
    Ok((said.remove(0), plugin))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_not_named_is_denied_before_anything_is_looked_up_or_connected() -> Result<()> {
    let server = Server::start("127.0.0.1").await?;
    let port = server.port();
    let other = port.wrapping_add(1).max(1);
    for hosts in [
        vec![],
        vec![format!("localhost:{other}")],
        vec!["localhost".to_owned()],
        vec![format!("other.example:{port}"), format!("*.example.com:{port}")],
    ] {
        let (said, plugin) = ask(&format!("http://localhost:{port}/"), &hosts, vec![]).await?;
        assert_eq!(said["kind"], "Denied", "{said}");
        let message = said["message"].as_str().unwrap_or_default();
        assert!(
            message.contains(&format!("localhost:{port}")) && message.contains("spec.outgoingHosts"),
            "{message}"
        );
        let warnings = plugin.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        for part in [
            "plugin probe",
            &format!("localhost:{port}"),
            &format!("spec.outgoingHosts: [\"localhost:{port}\"]"),
        ] {
            assert!(warnings[0].contains(part), "{part} is not in {}", warnings[0]);
        }
        assert_eq!(plugin.results(), [HttpResult::Denied]);
        assert!(plugin.asked().is_empty(), "{:?} was looked up", plugin.asked());
    }
    assert_eq!(server.accepted(), 0, "connections");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_without_a_network_loads_and_reads_why_its_request_is_denied() -> Result<()> {
    let request = json!({"urls": ["http://search.example.com:9200/"]});
    let plugin = Plugin::without_network(Setup { request, ..Setup::default() })?;
    let said = plugin.run().await?;
    assert_eq!(said[0]["kind"], "Denied", "{said:?}");
    assert!(plugin.warnings()[0].contains("search.example.com:9200"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_leads_to_loopback_is_refused_unless_the_address_is_named() -> Result<()> {
    let server = Server::start("127.0.0.1").await?;
    let port = server.port();
    let url = format!("http://rebound.example:{port}/");
    let granted = format!("rebound.example:{port}");
    for address in [
        "127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:7f00:1",
        "0.0.0.0",
        "::",
        "169.254.169.254",
        "fd00:ec2::254",
    ] {
        let (said, plugin) =
            ask(&url, std::slice::from_ref(&granted), vec![("rebound.example", vec![address])]).await?;
        assert_eq!(said["kind"], "AddressProhibited", "{address}: {said}");
        assert!(plugin.warnings()[0].contains("spec.outgoingHosts: [\""), "{:?}", plugin.warnings());
        assert_eq!(plugin.results(), [HttpResult::Denied]);
    }
    assert_eq!(server.accepted(), 0, "connections");

    for named in
        [format!("127.0.0.1:{port}"), format!("localhost:{port}"), format!("[::ffff:127.0.0.1]:{port}")]
    {
        let names = vec![("rebound.example", vec!["127.0.0.1"])];
        let (said, plugin) = ask(&url, &[granted.clone(), named], names).await?;
        assert_eq!(said["status"], "200", "{said}");
        assert_eq!(plugin.asked(), ["rebound.example"], "looked up once");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_addresses_only_those_that_are_permitted_are_tried() -> Result<()> {
    let server = Server::start("127.0.0.1").await?;
    let forbidden = Server::start("127.0.0.2").await;
    let port = server.port();
    let hosts = [format!("two.example:{port}"), format!("127.0.0.1:{port}")];
    let names = vec![("two.example", vec!["127.0.0.2", "169.254.169.254", "127.0.0.1"])];
    let (said, _) = ask(&format!("http://two.example:{port}/"), &hosts, names).await?;
    assert_eq!(said["status"], "200", "{said}");
    assert_eq!(server.accepted(), 1);
    if let Ok(forbidden) = forbidden {
        assert_eq!(forbidden.accepted(), 0);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_on_the_way_has_a_kind_of_its_own() -> Result<()> {
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.local_addr()?.port()
    };
    let server = Server::start("127.0.0.1").await?;
    let port = server.port();
    let hosts = [
        format!("127.0.0.1:{closed}"),
        format!("127.0.0.1:{port}"),
        "unknown.example:80".to_owned(),
        format!("nowhere.example:{port}"),
    ];
    for (url, kind) in [
        (format!("http://127.0.0.1:{closed}/"), "ConnectionRefused"),
        ("http://unknown.example/".to_owned(), "Dns"),
        (format!("http://nowhere.example:{port}/"), "Dns"),
        (format!("http://127.0.0.1:{port}/close"), "ConnectionLost"),
        (format!("http://127.0.0.1:{port}/cut-body"), "ConnectionLost"),
        (format!("http://127.0.0.1:{port}/garbage"), "Protocol"),
        (format!("http://127.0.0.1:{port}/upgrade"), "Protocol"),
        (format!("https://127.0.0.1:{port}/"), "Tls"),
        (format!("ftp://127.0.0.1:{port}/"), "Invalid"),
        (format!("http://user@127.0.0.1:{port}/"), "Invalid"),
        ("http://127.0.0.1:99999/".to_owned(), "Invalid"),
    ] {
        let (said, _) = ask(&url, &hosts, vec![("nowhere.example", vec![])]).await?;
        assert_eq!(said["kind"], kind, "{url}: {said}");
    }
    Ok(())
}
