//! [`Listener`]: takes connections and serves HTTP/1.1 and HTTP/2 on them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::connection::Socket;
use super::control::Control;
use super::{Connections, Identity, Service};

/// Requests that a connection may have under way, as a real API server allows.
const STREAMS: u32 = 1000;
/// Connections at a time; others wait to be taken.
const CONNECTIONS: usize = 2048;
/// How long a new connection has for its TLS handshake and the head of its first request.
const FIRST_REQUEST: Duration = Duration::from_secs(30);
/// How long an HTTP/1 connection may be idle, the time to send the head of a request included; as in a real API server.
const IDLE: Duration = Duration::from_secs(90);
/// How often an HTTP/2 client is asked whether it is there, and how long it has to answer.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How long to rest when no connection can be taken for want of files.
const REST: Duration = Duration::from_millis(50);

/// Opens a port; one that was used a moment ago can be had again.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(1024)
}

/// A port that is being served; it is closed, and every connection with it, when this is dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    task: JoinHandle<()>,
    closing: bool,
}

impl Listener {
    pub(crate) fn serve(
        listener: TcpListener,
        identity: Option<Identity>,
        connections: Arc<Connections>,
        service: Arc<Service>,
    ) -> Self {
        let acceptor = identity.map(|i| TlsAcceptor::from(i.config));
        Self { task: tokio::spawn(accept(listener, acceptor, connections, service)), closing: false }
    }

    /// Closes the port, which is free when [`Listener::closed`] returns.
    pub(crate) fn close(&mut self) {
        self.task.abort();
        self.closing = true;
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Waits until the port is closed.
    pub(crate) async fn closed(mut self) {
        // It ends because it was told to.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    connections: Arc<Connections>,
    service: Arc<Service>,
) {
    // Ends all connections when this task ends.
    let mut served = JoinSet::new();
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // It is never closed.
        let slot = slots.clone().acquire_owned().await.ok();
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!("taking a connection: {error}");
                tokio::time::sleep(REST).await;
                continue;
            }
        };
        while served.try_join_next().is_some() {}
        let serving = serve(stream, acceptor.clone(), connections.add(), service.clone());
        served.spawn(async move {
            serving.await;
            drop(slot);
        });
    }
}

async fn serve(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    control: Arc<Control>,
    service: Arc<Service>,
) {
    // Events are small and should not wait for each other.
    let _ = stream.set_nodelay(true);
    let socket = Socket::new(stream, control.clone());
    let serving = async {
        match acceptor {
            None => serve_http(socket, control.clone(), service).await,
            Some(acceptor) => match acceptor.accept(socket).await {
                Ok(stream) => serve_http(stream, control.clone(), service).await,
                Err(error) => Err(error.into()),
            },
        }
    };
    let outcome = tokio::select! {
        outcome = serving => outcome,
        () = without_request(&control) => Err(format!("no request came within {FIRST_REQUEST:?}").into()),
    };
    if let Err(error) = outcome {
        // Clients go away in many ways, and faults make more.
        tracing::debug!("a connection ended: {error}");
    }
}

/// Returns when a connection has had its time for a first request; while it is paused it has all the time.
async fn without_request(control: &Control) {
    loop {
        tokio::time::sleep(FIRST_REQUEST).await;
        if control.is_requested() {
            std::future::pending::<()>().await;
        }
        if control.is_open() {
            return;
        }
    }
}

async fn serve_http<S>(
    stream: S,
    control: Arc<Control>,
    service: Arc<Service>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(IDLE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT);
    let handle = hyper::service::service_fn(move |request| {
        let (service, control) = (service.clone(), control.clone());
        async move { service.handle(request, &control).await }
    });
    builder.serve_connection(TokioIo::new(stream), handle).await
}
