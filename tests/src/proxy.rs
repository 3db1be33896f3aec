//! [`Proxy`]: a TCP proxy between the host and the API server with injectable network failures. TLS passes unchanged.
//!
//! Invariants: the port stays the same, also while the proxy refuses connections; a method returns when its effect is
//! in place; when one side closes, the proxy closes the other; when one side is reset or the server is unreachable, it
//! resets the other. The proxy runs on a thread and a runtime of its own; methods block for a short time.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc as orders, watch};
use tokio::task::JoinSet;

/// Counters of the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Number of accepted connections.
    pub connections: u64,
    /// Number of open connections.
    pub open: u64,
    /// Number of bytes passed from clients to the server.
    pub bytes_up: u64,
    /// Number of bytes passed from the server to clients.
    pub bytes_down: u64,
}

#[derive(Debug, Default)]
struct Counters {
    connections: AtomicU64,
    open: AtomicU64,
    up: AtomicU64,
    down: AtomicU64,
}

/// The rule by which bytes pass. After a change it also applies to bytes that were read before.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    stalled: bool,
    delay: Duration,
}

/// A command of a method to the thread.
#[derive(Debug)]
enum Order {
    Flow(Flow),
    Cut,
    Refuse,
    Accept,
}

/// A running proxy. Dropping it resets its connections and ends it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    counters: Arc<Counters>,
    orders: Option<orders::UnboundedSender<(Order, mpsc::Sender<()>)>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy to a server on a free loopback port.
    pub fn start(server: SocketAddr) -> anyhow::Result<Proxy> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let reserved = bind(0)?;
        let address = reserved.local_addr()?;
        let listener = {
            let _entered = runtime.enter();
            listen(address.port())?
        };
        let counters = Arc::new(Counters::default());
        let (sender, receiver) = orders::unbounded_channel();
        let work = Work {
            port: address.port(),
            server,
            counters: counters.clone(),
            flow: watch::Sender::default(),
            cut: watch::Sender::default(),
            connections: JoinSet::new(),
            _reserved: reserved,
        };
        let thread = thread::spawn(move || runtime.block_on(work.run(listener, receiver)));
        Ok(Proxy { address, counters, orders: Some(sender), thread: Some(thread) })
    }

    /// The address of the proxy.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The counters so far.
    pub fn seen(&self) -> Seen {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Seen {
            connections: read(&self.counters.connections),
            open: read(&self.counters.open),
            bytes_up: read(&self.counters.up),
            bytes_down: read(&self.counters.down),
        }
    }

    /// Delays each chunk of bytes, in both directions. New connections are accepted without delay.
    pub fn delay(&self, each_chunk: Duration) {
        self.order(Order::Flow(Flow { stalled: false, delay: each_chunk }));
    }

    /// Stops passing bytes in both directions. Connections stay open, and new ones are accepted.
    pub fn stall(&self) {
        self.order(Order::Flow(Flow { stalled: true, delay: Duration::ZERO }));
    }

    /// Ends the effects of [`Proxy::delay`], [`Proxy::stall`] and [`Proxy::refuse`].
    pub fn heal(&self) {
        self.order(Order::Flow(Flow::default()));
        self.order(Order::Accept);
    }

    /// Resets all connections. New ones are accepted.
    pub fn cut(&self) {
        self.order(Order::Cut);
    }

    /// Refuses new connections, like a port without a listener. Open connections stay.
    pub fn refuse(&self) {
        self.order(Order::Refuse);
    }

    fn order(&self, order: Order) {
        let (done, wait) = mpsc::channel();
        if let Some(orders) = &self.orders
            && orders.send((order, done)).is_ok()
        {
            // An error means that the thread has ended, and with it all connections.
            let _ = wait.recv();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A bound socket. A socket that is bound and never listens reserves the port: with `SO_REUSEADDR` on both, a listener
/// can bind to the same port, and the kernel does not assign the port to an outgoing connection.
pub(crate) fn bind(port: u16) -> anyhow::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket
        .bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .with_context(|| format!("binding port {port}"))?;
    Ok(socket)
}

fn listen(port: u16) -> anyhow::Result<TcpListener> {
    Ok(bind(port)?.listen(1024)?)
}

/// The state of the thread.
struct Work {
    port: u16,
    server: SocketAddr,
    counters: Arc<Counters>,
    flow: watch::Sender<Flow>,
    cut: watch::Sender<()>,
    connections: JoinSet<()>,
    _reserved: TcpSocket,
}

impl Work {
    async fn run(
        mut self,
        listener: TcpListener,
        mut orders: orders::UnboundedReceiver<(Order, mpsc::Sender<()>)>,
    ) {
        let mut listener = Some(listener);
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some((order, done)) => {
                        self.obey(order, &mut listener).await;
                        let _ = done.send(());
                    }
                    None => return,
                },
                Some(client) = accept(listener.as_ref()) => self.serve(client),
                Some(_) = self.connections.join_next() => {}
            }
        }
    }

    async fn obey(&mut self, order: Order, listener: &mut Option<TcpListener>) {
        match order {
            Order::Flow(flow) => {
                self.flow.send_replace(flow);
            }
            Order::Cut => {
                self.cut.send_replace(());
                // Waits until all connections and their sockets are closed.
                while self.connections.join_next().await.is_some() {}
            }
            Order::Refuse => *listener = None,
            Order::Accept if listener.is_none() => match listen(self.port) {
                Ok(again) => *listener = Some(again),
                Err(error) => tracing::error!("the proxy cannot listen again: {error:#}"),
            },
            Order::Accept => {}
        }
    }

    fn serve(&mut self, client: TcpStream) {
        let (server, counters) = (self.server, self.counters.clone());
        let (flow, cut) = (self.flow.subscribe(), self.cut.subscribe());
        counters.connections.fetch_add(1, Ordering::Relaxed);
        self.connections.spawn(async move {
            let _open = Open::count(&counters.open);
            connection(client, server, &counters, flow, cut).await;
        });
    }
}

/// Makes the next close a reset, so that the other side sees an error instead of an orderly end.
fn reset(stream: &TcpStream) {
    // This only fails for a closed socket.
    let _ = stream.set_zero_linger();
}

/// The next connection; pending while the proxy does not listen.
async fn accept(listener: Option<&TcpListener>) -> Option<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.ok().map(|(client, _)| client),
        None => std::future::pending().await,
    }
}

/// Counts a connection as open until it is dropped.
struct Open<'a>(&'a AtomicU64);

impl Open<'_> {
    fn count(open: &AtomicU64) -> Open<'_> {
        open.fetch_add(1, Ordering::Relaxed);
        Open(open)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs one connection until both sides have closed, one has failed, or it is cut.
async fn connection(
    mut client: TcpStream,
    server: SocketAddr,
    counters: &Counters,
    flow: watch::Receiver<Flow>,
    mut cut: watch::Receiver<()>,
) {
    let connected = tokio::select! {
        connected = TcpStream::connect(server) => connected.ok(),
        _ = cut.changed() => None,
    };
    let Some(mut upstream) = connected else { return reset(&client) };
    let _ = client.set_nodelay(true);
    let _ = upstream.set_nodelay(true);
    let ended_well = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = upstream.split();
        let up = copy(from_client, to_server, &counters.up, flow.clone());
        let down = copy(from_server, to_client, &counters.down, flow);
        tokio::select! {
            result = async { tokio::try_join!(up, down) } => result.is_ok(),
            _ = cut.changed() => false,
        }
    };
    if !ended_well {
        reset(&client);
        reset(&upstream);
    }
}

/// Passes bytes in one direction until the sender closes; then closes that direction to the receiver.
async fn copy(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    passed: &AtomicU64,
    mut flow: watch::Receiver<Flow>,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut buffer).await?;
        let delay = flow.borrow().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        // An error means that the proxy is ending.
        if flow.wait_for(|flow| !flow.stalled).await.is_err() || read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
        passed.fetch_add(read as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
