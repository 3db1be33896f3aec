//! Connections of the admin addresses: a bounded number, each for one request and a bounded time, so that nobody who reaches an
//! address takes the file descriptors that the watches need, or keeps others from being answered by being silent.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

/// Connections of one address at a time. For a further one the oldest is closed whose request has not come.
const MOST_CONNECTIONS: usize = 64;
/// How long a request may take to come while others wait for the place: more than it takes on a network, and so little that
/// thousands of silent connections are gone before a probe ends.
const GRACE: Duration = Duration::from_millis(10);
/// The longest time for the head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// The longest life of a connection.
const LIFE: Duration = Duration::from_secs(60);
/// How much longer the answer may take.
const LAST_ANSWER: Duration = Duration::from_secs(10);

/// Answers requests.
pub(super) trait Answering: Send + Sync + 'static {
    fn answer(self: Arc<Self>, request: Request<Incoming>) -> BoxFuture<'static, Response<Full<Bytes>>>;
}

/// Connections whose request has not come, by their number. None is there that is being answered.
#[derive(Default)]
struct Silent {
    connections: Mutex<BTreeMap<u64, (Instant, CancellationToken)>>,
}

/// One of the connections, until it is dropped or its request has come.
struct SilentConnection {
    silent: Arc<Silent>,
    number: u64,
    end: CancellationToken,
}

impl Silent {
    fn add(self: &Arc<Self>, number: u64) -> SilentConnection {
        let end = CancellationToken::new();
        self.connections.lock().insert(number, (Instant::now(), end.clone()));
        SilentConnection { silent: Arc::clone(self), number, end }
    }

    /// When the oldest one came.
    fn oldest(&self) -> Option<Instant> {
        self.connections.lock().first_key_value().map(|(_, (came, _))| *came)
    }

    /// Ends the oldest one, if it has been silent for long enough.
    fn end_oldest(&self) -> bool {
        let mut connections = self.connections.lock();
        let Some(oldest) = connections.first_entry().filter(|oldest| oldest.get().0.elapsed() >= GRACE)
        else {
            return false;
        };
        oldest.remove().1.cancel();
        true
    }

    /// A place for one more connection; at the cost of a silent one if there is none.
    async fn make_room(&self, room: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        loop {
            let next = Arc::clone(room).acquire_owned();
            // All that are there are being answered.
            let Some(came) = self.oldest() else { return next.await.ok() };
            match timeout_at(came + GRACE, next).await {
                Ok(permit) => return permit.ok(),
                Err(_) if self.end_oldest() => return Arc::clone(room).acquire_owned().await.ok(),
                Err(_) => {}
            }
        }
    }
}

impl SilentConnection {
    fn has_come(&self) {
        self.silent.connections.lock().remove(&self.number);
    }
}

impl Drop for SilentConnection {
    fn drop(&mut self) {
        self.has_come();
    }
}

/// Serves an address until the future is dropped; connections that are open then end by themselves.
pub(super) async fn serve_connections<A: Answering>(listener: TcpListener, answering: Arc<A>) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let silent = Arc::new(Silent::default());
    let mut number = 0;
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // Out of file descriptors, most likely: let some close.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Some(permit) = silent.make_room(&room).await else { return };
        number += 1;
        let connection = silent.add(number);
        let answering = Arc::clone(&answering);
        tokio::spawn(async move {
            let _permit = permit;
            let end = connection.end.clone();
            end.run_until_cancelled(serve(stream, peer, answering, connection)).await;
        });
    }
}

/// Answers the one request of a connection.
async fn serve<A: Answering>(
    stream: TcpStream,
    peer: SocketAddr,
    answering: Arc<A>,
    silent: SilentConnection,
) {
    let service = service_fn(|request| {
        silent.has_come();
        let answer = Arc::clone(&answering).answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut server = http1::Builder::new();
    // A connection that is kept after its answer would be one more silent one.
    server.timer(TokioTimer::new()).header_read_timeout(HEAD).keep_alive(false);
    let mut connection = std::pin::pin!(server.serve_connection(TokioIo::new(stream), service));
    let ended = match timeout(LIFE, connection.as_mut()).await {
        Ok(ended) => ended,
        Err(_) => {
            connection.as_mut().graceful_shutdown();
            // One that does not read its answer is cut.
            timeout(LAST_ANSWER, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "admin connection");
    }
}
