//! [`TestProxy`]: a proxy that serves `CONNECT`, plain or under TLS, or SOCKS 5, and keeps where it was asked to go.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A proxy that wants the user `me` with the password `s3cret`; stops when dropped.
pub(crate) struct TestProxy {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for TestProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
enum Kind {
    Connect(Option<TlsAcceptor>),
    Socks,
}

impl TestProxy {
    pub(crate) async fn connect() -> Self {
        Self::start(Kind::Connect(None)).await
    }

    pub(crate) async fn connect_tls(tls: Arc<rustls::ServerConfig>) -> Self {
        Self::start(Kind::Connect(Some(TlsAcceptor::from(tls)))).await
    }

    pub(crate) async fn socks() -> Self {
        Self::start(Kind::Socks).await
    }

    /// Where it was asked to go, as `HOST:PORT`.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }

    async fn start(kind: Kind) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            let mut tunnels = tokio::task::JoinSet::new();
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let (kind, list) = (kind.clone(), Arc::clone(&list));
                // A client that hangs up is no failure of the proxy.
                tunnels.spawn(async move {
                    let _ = match kind {
                        Kind::Socks => socks(near, &list).await,
                        Kind::Connect(None) => tunnel(near, &list).await,
                        Kind::Connect(Some(tls)) => match tls.accept(near).await {
                            Ok(near) => tunnel(near, &list).await,
                            Err(e) => Err(e),
                        },
                    };
                });
            }
        });
        Self { address, asked, task }
    }
}

async fn tunnel(mut near: impl AsyncRead + AsyncWrite + Unpin, asked: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(near.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap();
    let target = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()).unwrap().to_owned();
    asked.lock().push(target.clone());
    // me:s3cret
    if !head.contains("Basic bWU6czNjcmV0") {
        return near.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await;
    }
    let Ok(mut far) = TcpStream::connect(&target).await else {
        return near.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n").await;
    };
    near.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    copy_bidirectional(&mut near, &mut far).await.map(drop)
}

/// RFC 1928 and RFC 1929, with IPv4 addresses and names.
async fn socks(mut near: TcpStream, asked: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut two = [0; 2];
    near.read_exact(&mut two).await?;
    let mut methods = vec![0; two[1].into()];
    near.read_exact(&mut methods).await?;
    if !methods.contains(&2) {
        return near.write_all(&[5, 0xff]).await;
    }
    near.write_all(&[5, 2]).await?;
    assert_eq!(near.read_u8().await?, 1);
    let user = text(&mut near).await?;
    let password = text(&mut near).await?;
    let good = (user.as_str(), password.as_str()) == ("me", "s3cret");
    near.write_all(&[1, u8::from(!good)]).await?;
    let mut request = [0; 4];
    near.read_exact(&mut request).await?;
    let host = match request[3] {
        1 => std::net::Ipv4Addr::from_bits(near.read_u32().await?).to_string(),
        _ => text(&mut near).await?,
    };
    let target = format!("{host}:{}", near.read_u16().await?);
    asked.lock().push(target.clone());
    let Ok(mut far) = TcpStream::connect(&target).await else {
        // Connection refused.
        return near.write_all(&[5, 5, 0, 1, 0, 0, 0, 0, 0, 0]).await;
    };
    near.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    copy_bidirectional(&mut near, &mut far).await.map(drop)
}

/// A text with its length before it.
async fn text(near: &mut TcpStream) -> io::Result<String> {
    let mut bytes = vec![0; near.read_u8().await?.into()];
    near.read_exact(&mut bytes).await?;
    Ok(String::from_utf8(bytes).unwrap())
}
