//! [`Proxy`]: a TCP proxy between the host and the API server that misbehaves on demand. TLS passes through unseen.
//!
//! Invariants: its port stays the same from start to end, also while it refuses; an order has taken effect when its
//! method returns; a side that ends makes the other end, one that is reset, or a server that cannot be reached, resets the
//! other. It runs on a thread and a runtime of its own, so all methods
//! block, shortly.

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

/// What the proxy has seen so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Connections accepted.
    pub connections: u64,
    /// Connections open now.
    pub open: u64,
    /// Bytes from clients that were passed on.
    pub bytes_up: u64,
    /// Bytes from the server that were passed on.
    pub bytes_down: u64,
}

#[derive(Debug, Default)]
struct Counters {
    connections: AtomicU64,
    open: AtomicU64,
    up: AtomicU64,
    down: AtomicU64,
}

/// How bytes pass. What was read before a change passes by the new rule.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    stalled: bool,
    delay: Duration,
}

/// What a method asks of the thread.
#[derive(Debug)]
enum Order {
    Flow(Flow),
    Cut,
    Refuse,
    Accept,
}

/// A running proxy, which cuts its connections and ends when dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    counters: Arc<Counters>,
    orders: Option<orders::UnboundedSender<(Order, mpsc::Sender<()>)>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy to a server, on a loopback port of its own.
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

    /// Where to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What has passed so far.
    pub fn seen(&self) -> Seen {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Seen {
            connections: read(&self.counters.connections),
            open: read(&self.counters.open),
            bytes_up: read(&self.counters.up),
            bytes_down: read(&self.counters.down),
        }
    }

    /// Holds each chunk of bytes back for a while, in both directions. New connections are made without delay.
    pub fn delay(&self, each_chunk: Duration) {
        self.order(Order::Flow(Flow { stalled: false, delay: each_chunk }));
    }

    /// Passes nothing any more, in either direction; connections stay open, and new ones are accepted.
    pub fn stall(&self) {
        self.order(Order::Flow(Flow { stalled: true, delay: Duration::ZERO }));
    }

    /// Ends what [`Proxy::delay`], [`Proxy::stall`] and [`Proxy::refuse`] have done.
    pub fn heal(&self) {
        self.order(Order::Flow(Flow::default()));
        self.order(Order::Accept);
    }

    /// Resets all connections; new ones are accepted.
    pub fn cut(&self) {
        self.order(Order::Cut);
    }

    /// Refuses new connections from now on, as a port where nobody listens does; those that are open stay.
    pub fn refuse(&self) {
        self.order(Order::Refuse);
    }

    fn order(&self, order: Order) {
        let (done, wait) = mpsc::channel();
        if let Some(orders) = &self.orders
            && orders.send((order, done)).is_ok()
        {
            // An error means that the thread is gone, and all connections with it.
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

/// A bound socket. One that never listens keeps the port while nobody does: with `SO_REUSEADDR` on both, a listener may
/// bind beside it, and the kernel gives the port to no outgoing connection.
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

/// What the thread works with.
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
                // They are gone, and their sockets with them, when this returns.
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

/// Makes the coming close a reset, so that the other side sees an error rather than an end in good order.
fn reset(stream: &TcpStream) {
    // It can fail only for a socket that is none any more.
    let _ = stream.set_zero_linger();
}

/// The next connection; never one while nobody listens.
async fn accept(listener: Option<&TcpListener>) -> Option<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.ok().map(|(client, _)| client),
        None => std::future::pending().await,
    }
}

/// Counts a connection as open while it lives.
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

/// One connection, until both sides have ended, or one has failed, or it is cut.
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

/// Passes bytes one way until they end; then tells that to the other side.
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
        // An error means that the proxy ends.
        if flow.wait_for(|flow| !flow.stalled).await.is_err() || read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
        passed.fetch_add(read as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
