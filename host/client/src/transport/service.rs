//! [`Middleware`]: tower layers around the transport, and a service in its place.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::Full;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Layer, Service, ServiceExt as _};

use super::{ResponseBody, Transport};

/// The body of a request.
pub type RequestBody = Full<Bytes>;

/// Sends requests: the transport, or what is in its place. Each attempt of a call is one request, with all its headers,
/// credentials included.
pub type HttpService = BoxCloneSyncService<Request<RequestBody>, Response<ResponseBody>, BoxError>;

type Wrap = dyn Fn(HttpService) -> HttpService + Send + Sync;

/// Middleware between the calls of a client and its connections, as client-go's `WrapTransport`.
///
/// ```
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use pilothouse_client::{Client, ClientOptions, Middleware, RequestBody, ResponseBody};
///
/// # async fn example() -> pilothouse_client::Result<()> {
/// // A test: no server, and each request has the same response.
/// let service = tower::service_fn(|_: Request<RequestBody>| async {
///     Ok::<_, std::io::Error>(Response::new(ResponseBody::new(Full::new(Bytes::from("ok")))))
/// });
/// let middleware = Some(Middleware::in_place_of_transport(service));
/// let server = Some("http://localhost".to_owned());
/// let client = Client::new(ClientOptions { server, middleware, ..ClientOptions::default() }).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Middleware(Arc<Wrap>);

impl Middleware {
    /// A layer around the transport.
    pub fn layer<L>(layer: L) -> Self
    where
        L: Layer<HttpService> + Send + Sync + 'static,
        L::Service: Service<
                Request<RequestBody>,
                Response = Response<ResponseBody>,
                Error: Into<BoxError>,
                Future: Send,
            > + Clone
            + Send
            + Sync
            + 'static,
    {
        Self(Arc::new(move |inner| BoxCloneSyncService::new(layer.layer(inner).map_err(Into::into))))
    }

    /// A service in place of the transport: no connection is made. For tests of programs that use this crate.
    pub fn in_place_of_transport<S>(service: S) -> Self
    where
        S: Service<
                Request<RequestBody>,
                Response = Response<ResponseBody>,
                Error: Into<BoxError>,
                Future: Send,
            > + Clone
            + Send
            + Sync
            + 'static,
    {
        let service: HttpService = BoxCloneSyncService::new(service.map_err(Into::into));
        Self(Arc::new(move |_| service.clone()))
    }

    /// This one, and `outer` around it.
    #[must_use]
    pub fn and(self, outer: Self) -> Self {
        Self(Arc::new(move |inner| (outer.0)((self.0)(inner))))
    }

    pub(crate) fn around(&self, transport: Arc<Transport>) -> HttpService {
        (self.0)(BoxCloneSyncService::new(TransportService(transport)))
    }
}

impl fmt::Debug for Middleware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Middleware")
    }
}

/// The transport as the innermost service.
#[derive(Clone)]
struct TransportService(Arc<Transport>);

impl Service<Request<RequestBody>> for TransportService {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let transport = Arc::clone(&self.0);
        async move { Ok(transport.send(request).await?) }.boxed()
    }
}
