//! Connections of the admin addresses: a bounded number, each for a bounded time, so that nobody who reaches an address takes
//! the file descriptors that the watches need.

use std::convert::Infallible;
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
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// Connections of one address at a time; further ones wait to be accepted.
const MOST_CONNECTIONS: usize = 64;
/// The longest time for the head of a request, and between two requests.
const HEAD: Duration = Duration::from_secs(10);
/// The longest life of a connection. A client that goes on connects again.
const LIFE: Duration = Duration::from_secs(60);
/// How much longer the last answer may take.
const LAST_ANSWER: Duration = Duration::from_secs(10);

/// Answers requests.
pub(super) trait Answering: Send + Sync + 'static {
    fn answer(self: Arc<Self>, request: Request<Incoming>) -> BoxFuture<'static, Response<Full<Bytes>>>;
}

/// Serves an address until the future is dropped; connections that are open then end by themselves.
pub(super) async fn serve_connections<A: Answering>(listener: TcpListener, answering: Arc<A>) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let Ok((stream, peer)) = listener.accept().await else {
            // Out of file descriptors, most likely: let some close.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let answering = Arc::clone(&answering);
        tokio::spawn(async move {
            let _permit = permit;
            let service = service_fn(move |request| {
                let answer = Arc::clone(&answering).answer(request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(HEAD);
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
        });
    }
}
