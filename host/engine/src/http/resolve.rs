//! Resolves a host into the addresses that a plugin may connect to: one lookup, and a check of each address.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use pilothouse_plugin::{Host, OutgoingHosts};
use tokio::sync::Semaphore;
use wasmtime_wasi_http::Error;

use super::destination::Destination;

/// A running lookup.
pub type ResolveFuture = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Resolves names.
pub trait Resolver: Send + Sync + 'static {
    /// The addresses of a name, each with this port. The caller must be in a tokio runtime.
    fn resolve(&self, name: String, port: u16) -> ResolveFuture;
}

/// The system's resolver: `/etc/hosts`, DNS, and the other sources in its configuration.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, name: String, port: u16) -> ResolveFuture {
        Box::pin(async move { Ok(tokio::net::lookup_host((name, port)).await?.collect()) })
    }
}

/// Maximum number of concurrent lookups of one generation. A lookup of the system's resolver blocks a thread and cannot
/// be cancelled, so a guest that starts and abandons lookups in a loop would occupy all threads.
const LOOKUPS: usize = 4;

/// The reason why a destination has no usable address.
pub(super) enum NoAddress {
    /// The lookup failed.
    Dns(Error),
    /// No address is permitted: the first one, and its class (such as loopback).
    Prohibited(SocketAddr, &'static str),
}

/// The lookups of one generation of a plugin.
pub(super) struct Lookup {
    resolver: Arc<dyn Resolver>,
    running: Arc<Semaphore>,
}

impl Lookup {
    pub(super) fn new(resolver: Arc<dyn Resolver>) -> Self {
        Self { resolver, running: Arc::new(Semaphore::new(LOOKUPS)) }
    }

    /// The permitted addresses of a destination; at least one.
    pub(super) async fn addresses(
        &self,
        to: &Destination,
        hosts: &OutgoingHosts,
    ) -> Result<Vec<SocketAddr>, NoAddress> {
        let found = match &to.host {
            Host::Address(address) => vec![SocketAddr::new(*address, to.port)],
            Host::Name(name) => self.look_up(name.clone(), to.port).await.map_err(NoAddress::Dns)?,
        };
        let mut refused = None;
        let mut permitted = found;
        permitted.retain(|address| match hosts.permits_address(address.ip(), to.port) {
            Ok(()) => true,
            Err(what) => {
                refused.get_or_insert((*address, what));
                false
            }
        });
        match refused {
            Some((address, what)) if permitted.is_empty() => Err(NoAddress::Prohibited(address, what)),
            None if permitted.is_empty() => Err(NoAddress::Dns(dns("the name has no address"))),
            _ => Ok(permitted),
        }
    }

    async fn look_up(&self, name: String, port: u16) -> Result<Vec<SocketAddr>, Error> {
        let running = Arc::clone(&self.running).acquire_owned().await.map_err(|e| dns(&e))?;
        let lookup = self.resolver.resolve(name, port);
        // A task of its own: the lookup continues after the caller is dropped, and holds its permit until it ends.
        let found = tokio::spawn(async move {
            let found = lookup.await;
            drop(running);
            found
        });
        let found = found.await.map_err(|e| dns(&e))?.map_err(|e| dns(&e))?;
        // The port is the requested one, whatever the resolver returned.
        Ok(found.into_iter().map(|address| SocketAddr::new(address.ip(), port)).collect())
    }
}

fn dns(error: &(impl ToString + ?Sized)) -> Error {
    Error::DnsError { rcode: Some(error.to_string()), info_code: None }
}
