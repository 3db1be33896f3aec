//! A server whose name leads to another address after a while.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::connect::dns::Name;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tower::service_fn;
use tower::util::BoxCloneSyncService;

use super::{Connector, SendOptions, Transport};
use crate::credentials::Tls;

/// Answers each connection once with this text, and closes it.
fn serve(listener: TcpListener, text: &'static str) {
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") && stream.read_buf(&mut request).await.unwrap() > 0 {}
            let length = text.len();
            let response =
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{text}");
            stream.write_all(response.as_bytes()).await.unwrap();
        }
    });
}

#[tokio::test]
async fn a_name_is_resolved_again_for_each_connection() {
    let (before, after) = (Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::new(127, 0, 0, 2));
    let first = TcpListener::bind((before, 0)).await.unwrap();
    let port = first.local_addr().unwrap().port();
    let second = TcpListener::bind((after, port)).await.unwrap();
    serve(first, "first");
    serve(second, "second");
    let address = Arc::new(Mutex::new(before));
    let resolver = service_fn({
        let address = Arc::clone(&address);
        move |name: Name| {
            assert_eq!(name.as_str(), "api.example");
            let found = vec![SocketAddr::from((*address.lock(), 0))];
            async move { Ok(found.into_iter()) }
        }
    });
    let tls = Arc::new(Tls::unused().await.unwrap());
    let resolver = BoxCloneSyncService::new(resolver);
    let connector = Connector::new(resolver, Handle::current(), tls, None, Duration::from_secs(60));
    let server: Uri = format!("http://api.example:{port}").parse().unwrap();
    let transport = Transport::new(&connector, &server, 1);
    let ask = async || {
        let request = Request::get(server.clone()).body(Full::<Bytes>::default()).unwrap();
        transport
            .send(request, SendOptions::default())
            .await
            .unwrap()
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes()
    };
    assert_eq!(ask().await, "first");
    *address.lock() = after;
    assert_eq!(ask().await, "second");
}
