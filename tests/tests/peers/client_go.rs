//! client-go, unmodified, on both servers: the Go tests of `tests/clientgo`, which compare what informers hold with fresh
//! lists, and check discovery, leader election, event recorders and the answers that client-go's helpers look at.
//!
//! They pass on the real server, so what they ask for is what it does.

use std::time::Duration;

use anyhow::{Result, ensure};
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::{ControlPlane, clientgo, process};

/// For the tests, 20 to 90 s, and on a new machine for downloading and compiling client-go.
const PATIENCE: Duration = Duration::from_secs(900);

const JSON: &str = "application/json";

/// Runs the Go tests; `content_type` is what typed clients speak, client-go's own choice if empty.
fn go_test(server: Server, content_type: &str) -> Result<()> {
    // Only the real server needs help to empty a namespace.
    let controllers = match server {
        Server::Real => vec!["namespace".to_owned()],
        Server::Development => Vec::new(),
    };
    let plane = ControlPlane::start(Options { controllers, ..Options::on(server) })?;
    let mut go = clientgo::command("test")?;
    go.args(["-count=1", "./..."])
        .env("KUBECONFIG", plane.kubeconfig())
        .env("CLIENTGO_CONTENT_TYPE", content_type);
    let finished = process::run(&mut go, "", PATIENCE)?;
    eprintln!("{}", finished.stdout);
    ensure!(finished.status.success(), "{}\n{}{}", finished.status, finished.stdout, finished.stderr);
    Ok(())
}

#[test]
fn on_the_real_server() -> Result<()> {
    Server::Real.test(|server| go_test(server, ""))
}

#[test]
fn on_the_development_server() -> Result<()> {
    Server::Development.test(|server| go_test(server, ""))
}

#[test]
fn on_the_development_server_in_json() -> Result<()> {
    Server::Development.test(|server| go_test(server, JSON))
}
