//! The admin endpoints: `/livez`, `/readyz`, `/healthz`, `/metrics`, `/plugins`.
//!
//! Plain HTTP for operators, on the loopback address by default; all endpoints are read-only.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

use crate::manager::Manager;
use crate::observe::metrics::Metrics;
use crate::observe::pages::Pages;

/// Serves the admin endpoints on a listener until the future is dropped. Large pages are made on the threads for what grows
/// with plugins.
pub async fn serve(listener: TcpListener, manager: Manager, metrics: Metrics) {
    let pages = Pages::new(manager.clone(), metrics);
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // Out of file descriptors, most likely: let some close.
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            continue;
        };
        let (manager, pages) = (manager.clone(), pages.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let (manager, pages) = (manager.clone(), pages.clone());
                async move { Ok::<_, Infallible>(answer(&request, &manager, &pages).await) }
            });
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new());
            if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!(%peer, %error, "admin connection");
            }
        });
    }
}

/// Binds the admin address.
///
/// # Errors
/// When the address is taken or not this machine's.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address).await.map_err(|e| {
        format!(
            "cannot listen on {address}: {e}; choose another address with --listen (port 0 takes a free one)"
        )
    })
}

async fn answer(request: &Request<Incoming>, manager: &Manager, pages: &Pages) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "use GET\n");
    }
    match request.uri().path() {
        "/livez" | "/healthz" if let Some(why) = manager.unhealthy() => {
            text(StatusCode::INTERNAL_SERVER_ERROR, &format!("unhealthy: {why}\n"))
        }
        "/livez" => text(StatusCode::OK, "ok\n"),
        "/readyz" | "/healthz" => match manager.not_ready() {
            None => match manager.election() {
                None => text(StatusCode::OK, "ok\n"),
                Some(election) => text(StatusCode::OK, &format!("ok, {election}\n")),
            },
            // The host as a whole is healthy while it waits for a cluster.
            Some(why) if request.uri().path() == "/healthz" => {
                text(StatusCode::OK, &format!("ok, not ready: {why}\n"))
            }
            Some(why) => text(StatusCode::SERVICE_UNAVAILABLE, &format!("not ready: {why}\n")),
        },
        "/metrics" => {
            page(pages.metrics().await, "application/openmetrics-text; version=1.0.0; charset=utf-8")
        }
        "/plugins" => page(pages.plugins().await, "application/json"),
        _ => text(
            StatusCode::NOT_FOUND,
            "not found; the paths are /livez, /readyz, /healthz, /metrics and /plugins\n",
        ),
    }
}

fn page(body: Result<Bytes, String>, content_type: &'static str) -> Response<Full<Bytes>> {
    match body {
        Ok(body) => typed(StatusCode::OK, content_type, body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
    }
}

fn text(status: StatusCode, body: &str) -> Response<Full<Bytes>> {
    typed(status, "text/plain; charset=utf-8", Bytes::copy_from_slice(body.as_bytes()))
}

fn typed(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response
}
