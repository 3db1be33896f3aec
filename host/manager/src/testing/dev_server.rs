//! What tests on a development server share, which run on the real clock.

use std::time::Duration;

use pilothouse_client::{ApiResource, Client, ClientOptions, Patch, WriteParams};
use pilothouse_devserver::DevServer;
use pilothouse_object::Gvk;
use pilothouse_testkit::poll::SOON;
use tokio::time::{sleep, timeout};

/// Waits until this holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// A client of the server.
pub(crate) async fn client(server: &DevServer) -> Client {
    Client::new(ClientOptions { server: Some(server.url()), ..ClientOptions::default() }).await.unwrap()
}

/// Writes another holder into the Lease of the first shard of the group `default/hosts`, who does not live.
pub(crate) async fn take_shard(server: &DevServer) {
    let leases = ApiResource::new(Gvk::new("coordination.k8s.io", "v1", "Lease"), "leases", true);
    let patch = Patch::Merge(br#"{"spec":{"holderIdentity":"nobody"}}"#);
    let key = "default/hosts-shard-0".parse().unwrap();
    client(server).await.patch(&leases, &key, patch, &WriteParams::default()).await.unwrap();
}
