//! A server that answers as a test says and keeps what it was asked; resources and objects to ask it for.

mod authority;
mod kubeconfig;
mod logs;
mod proxy;
mod server;

use std::time::Duration;

use pilothouse_client::{ApiResource, Client, ClientOptions, Status};
use pilothouse_object::{Gvk, ObjectKey};

pub(crate) use authority::{Authority, Pair};
pub(crate) use kubeconfig::{Kubeconfig, tls};
pub(crate) use logs::Logs;
pub(crate) use proxy::TestProxy;
pub(crate) use server::{Counter, Reply, Seen, Server};

/// Nothing in these tests takes that long; a test that hangs says where.
const PATIENCE: Duration = Duration::from_secs(20);

/// Awaits what must happen soon.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("it should have happened by now")
}

/// A client of a plain server, without credentials.
pub(crate) async fn client(server: &Server) -> Client {
    client_with(server, |_| {}).await
}

pub(crate) async fn client_with(server: &Server, change: impl FnOnce(&mut ClientOptions)) -> Client {
    let mut options = ClientOptions { server: Some(server.url.clone()), ..ClientOptions::default() };
    change(&mut options);
    Client::new(options).await.unwrap()
}

pub(crate) fn pods() -> ApiResource {
    ApiResource {
        subresources: vec!["status".to_owned()],
        ..ApiResource::new(Gvk::new("", "v1", "Pod"), "pods", true)
    }
}

pub(crate) fn key(text: &str) -> ObjectKey {
    text.parse().unwrap()
}

/// JSON of a pod as a list item or an event holds it.
pub(crate) fn pod(name: &str, version: u32) -> String {
    format!(r#"{{"metadata":{{"namespace":"default","name":"{name}","resourceVersion":"{version}"}}}}"#)
}

pub(crate) fn event(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

/// JSON of a list page.
pub(crate) fn page(version: u32, next: &str, items: &[String]) -> String {
    format!(
        r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","continue":"{next}"}},"items":[{}]}}"#,
        items.join(",")
    )
}

/// JSON of a failure.
pub(crate) fn failure(code: u16, reason: &str, message: &str) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","code":{code},"reason":"{reason}","message":"{message}"}}"#
    )
}

/// The `Status` of an error that must be one.
pub(crate) fn status<T: std::fmt::Debug>(result: pilothouse_client::Result<T>) -> Status {
    match result.unwrap_err() {
        pilothouse_client::Error::Api(status) => *status,
        other => panic!("no status: {other:?}"),
    }
}
