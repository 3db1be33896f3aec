//! [`Server`]: hyper serving what a closure returns, plain or under TLS.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_rustls::TlsAcceptor;

use super::soon;

/// Streams on a connection; as API servers.
const STREAMS: u32 = 100;

/// A request as the server got it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Number of the connection it came over.
    pub(crate) connection: usize,
    /// The certificate that the client showed, in DER.
    pub(crate) peer: Option<Vec<u8>>,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Path and query.
    pub(crate) fn path(&self) -> &str {
        self.uri.path_and_query().unwrap().as_str()
    }

    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.uri.query()?.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }
}

/// What to answer.
pub(crate) struct Reply {
    head: Response<()>,
    body: Body,
    /// The head is sent when this fires.
    held: Option<oneshot::Receiver<()>>,
}

enum Body {
    Whole(Bytes),
    /// `Err` breaks the connection; the end of the channel ends the body.
    Pieces(mpsc::UnboundedReceiver<io::Result<Bytes>>),
}

impl Reply {
    pub(crate) fn json(body: impl Into<Bytes>) -> Self {
        Self::new(200, body).header("content-type", "application/json")
    }

    pub(crate) fn new(status: u16, body: impl Into<Bytes>) -> Self {
        let mut head = Response::new(());
        *head.status_mut() = StatusCode::from_u16(status).unwrap();
        Self { head, body: Body::Whole(body.into()), held: None }
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.head.headers_mut().insert(name, value.parse().unwrap());
        self
    }

    /// A body whose pieces the test sends.
    pub(crate) fn pieces() -> (mpsc::UnboundedSender<io::Result<Bytes>>, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (sender, Self { body: Body::Pieces(receiver), ..Self::json("") })
    }

    /// Holds the answer back until the sender fires.
    pub(crate) fn held(mut self) -> (oneshot::Sender<()>, Self) {
        let (sender, receiver) = oneshot::channel();
        self.held = Some(receiver);
        (sender, self)
    }
}

/// A server; stops when dropped.
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    count: watch::Receiver<usize>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Handler = dyn Fn(&Seen) -> Reply + Send + Sync;

impl Server {
    /// Plain HTTP.
    pub(crate) async fn start(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::serve(None, STREAMS, Arc::new(answer)).await
    }

    pub(crate) async fn start_tls(
        tls: Arc<rustls::ServerConfig>,
        answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::serve(Some(TlsAcceptor::from(tls)), STREAMS, Arc::new(answer)).await
    }

    /// As [`start_tls`](Self::start_tls), with so many streams on a connection at most.
    pub(crate) async fn start_tls_narrow(
        tls: Arc<rustls::ServerConfig>,
        streams: u32,
        answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::serve(Some(TlsAcceptor::from(tls)), streams, Arc::new(answer)).await
    }

    /// Answers the same to everything.
    pub(crate) async fn always(status: u16, body: &str) -> Self {
        let body = body.to_owned();
        Self::start(move |_| Reply::new(status, body.clone())).await
    }

    async fn serve(tls: Option<TlsAcceptor>, streams: u32, handler: Arc<Handler>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (counter, count) = watch::channel(0);
        let state = Arc::new(State { handler, streams, seen: Arc::clone(&seen), counter });
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            for connection in 0.. {
                let (tcp, _) = listener.accept().await.unwrap();
                tcp.set_nodelay(true).unwrap();
                let (state, tls) = (Arc::clone(&state), tls.clone());
                connections.spawn(async move {
                    match tls {
                        None => state.connection(tcp, connection, None).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(tcp).await {
                                let shown = stream.get_ref().1.peer_certificates();
                                let peer = shown.and_then(|chain| Some(chain.first()?.to_vec()));
                                state.connection(stream, connection, peer).await;
                            }
                        }
                    }
                });
            }
        });
        Self { url: format!("{scheme}://{address}"), address, seen, count, task }
    }

    /// All requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    /// The only request so far.
    pub(crate) fn only(&self) -> Seen {
        let seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen.into_iter().next().unwrap()
    }

    /// Waits until so many requests have come.
    pub(crate) async fn until_seen(&self, number: usize) {
        soon(self.count.clone().wait_for(|count| *count >= number)).await.unwrap();
    }
}

struct State {
    handler: Arc<Handler>,
    streams: u32,
    seen: Arc<Mutex<Vec<Seen>>>,
    counter: watch::Sender<usize>,
}

impl State {
    async fn connection(
        self: Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        connection: usize,
        peer: Option<Vec<u8>>,
    ) {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http2().max_concurrent_streams(self.streams);
        let service = service_fn(move |request| {
            let (state, peer) = (Arc::clone(&self), peer.clone());
            async move { state.answer(request, connection, peer).await }
        });
        let _ = builder.serve_connection(TokioIo::new(stream), service).await;
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        connection: usize,
        peer: Option<Vec<u8>>,
    ) -> Result<Response<UnsyncBoxBody<Bytes, io::Error>>, io::Error> {
        let (parts, body) = request.into_parts();
        let seen = Seen {
            method: parts.method,
            uri: parts.uri,
            version: parts.version,
            headers: parts.headers,
            body: body.collect().await.map_err(io::Error::other)?.to_bytes(),
            connection,
            peer,
        };
        let Reply { head, body, held } = (self.handler)(&seen);
        let total = {
            let mut all = self.seen.lock();
            all.push(seen);
            all.len()
        };
        self.counter.send_replace(total);
        if let Some(held) = held {
            held.await.map_err(io::Error::other)?;
        }
        Ok(head.map(|()| match body {
            Body::Whole(bytes) => Full::new(bytes).map_err(|never| match never {}).boxed_unsync(),
            Body::Pieces(pieces) => {
                let pieces = stream::unfold(pieces, |mut pieces| async move {
                    let piece = pieces.recv().await?;
                    Some((piece.map(Frame::data), pieces))
                });
                StreamBody::new(pieces).boxed_unsync()
            }
        }))
    }
}

/// Counts what it is told, for servers whose answers differ from one to the next.
#[derive(Default, Clone)]
pub(crate) struct Counter(Arc<AtomicUsize>);

impl Counter {
    /// How often this was called before.
    pub(crate) fn next(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}
