//! An HTTP server for tests: the path of a request selects the response, valid or broken. It counts connections.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

/// A server whose behaviour is selected by the path of each request.
#[derive(Clone)]
pub(crate) struct Server(Arc<Inner>);

struct Inner {
    address: SocketAddr,
    accepted: AtomicUsize,
    /// Number of open connections.
    open: watch::Sender<usize>,
    /// The received requests with their bodies.
    requests: Mutex<Vec<String>>,
    arrived: watch::Sender<usize>,
    /// Permits for responses to `/wait`.
    go: Semaphore,
}

impl Server {
    pub(crate) async fn start(ip: &str) -> Result<Self> {
        let listener = TcpListener::bind((ip.parse::<IpAddr>()?, 0)).await?;
        let server = Self(Arc::new(Inner {
            address: listener.local_addr()?,
            accepted: AtomicUsize::new(0),
            open: watch::Sender::new(0),
            requests: Mutex::default(),
            arrived: watch::Sender::new(0),
            go: Semaphore::new(0),
        }));
        let own = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                own.0.accepted.fetch_add(1, SeqCst);
                own.0.open.send_modify(|open| *open += 1);
                let own = own.clone();
                tokio::spawn(async move {
                    // Some tests disconnect the client.
                    let _ = own.serve(stream).await;
                    own.0.open.send_modify(|open| *open -= 1);
                });
            }
        });
        Ok(server)
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.address.port()
    }

    /// Number of connections accepted so far.
    pub(crate) fn accepted(&self) -> usize {
        self.0.accepted.load(SeqCst)
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.0.requests.lock().unwrap().clone()
    }

    /// Waits until the server has received this number of requests.
    pub(crate) async fn arrived(&self, count: usize) -> Result<()> {
        self.0.arrived.subscribe().wait_for(|arrived| *arrived >= count).await?;
        Ok(())
    }

    /// Waits until this number of connections is open.
    pub(crate) async fn open(&self, count: usize) -> Result<()> {
        self.0.open.subscribe().wait_for(|open| *open == count).await?;
        Ok(())
    }

    /// Lets the server respond to one request to `/wait`.
    pub(crate) fn go(&self) {
        self.0.go.add_permits(1);
    }

    async fn serve(&self, mut stream: TcpStream) -> Result<()> {
        let mut buffer = Vec::new();
        loop {
            let end = loop {
                if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                    break end + 4;
                }
                if stream.read_buf(&mut buffer).await? == 0 {
                    return Ok(());
                }
                // The first byte of a TLS handshake, which this server does not support.
                if buffer.first() == Some(&0x16) {
                    return answer(&mut stream, "400 Bad Request", "").await;
                }
            };
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            buffer.drain(..end);
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok()
            });
            let length: usize = length.unwrap_or(0);
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            if path == "/early" {
                answer(&mut stream, "413 Too Much", "enough").await?;
            }
            while buffer.len() < length {
                if stream.read_buf(&mut buffer).await? == 0 {
                    return Ok(());
                }
            }
            buffer.drain(..length);
            self.0.requests.lock().unwrap().push(head.clone());
            self.0.arrived.send_modify(|arrived| *arrived += 1);
            match path.as_str() {
                "/early" => {}
                "/wait" => {
                    self.0.go.acquire().await?.forget();
                    answer(&mut stream, "200 OK", "told").await?;
                }
                "/stall" => until_closed(&mut stream).await?,
                "/stall-body" => {
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").await?;
                    until_closed(&mut stream).await?;
                }
                "/cut-body" => {
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").await?;
                    return Ok(());
                }
                "/close" => return Ok(()),
                "/garbage" => stream.write_all(b"SSH-2.0-OpenSSH\r\n\r\n").await?,
                "/upgrade" => {
                    stream
                        .write_all(
                            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
                        )
                        .await?;
                    until_closed(&mut stream).await?;
                }
                "/announced" => {
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 16777217\r\n\r\n").await?;
                    until_closed(&mut stream).await?;
                }
                "/endless" => {
                    stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await?;
                    let chunk = [b"10000\r\n".as_slice(), &[b'y'; 0x10000], b"\r\n"].concat();
                    loop {
                        stream.write_all(&chunk).await?;
                    }
                }
                "/headers" => {
                    stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
                    loop {
                        stream.write_all(b"X-More: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n").await?;
                    }
                }
                "/redirect" => {
                    stream
                        .write_all(b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n")
                        .await?;
                }
                "/most" => answer(&mut stream, "200 OK", &"z".repeat(16 << 20)).await?,
                _ => answer(&mut stream, "200 OK", &head).await?,
            }
        }
    }
}

async fn answer(stream: &mut TcpStream, status: &str, body: &str) -> Result<()> {
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    Ok(stream.write_all(text.as_bytes()).await?)
}

async fn until_closed(stream: &mut TcpStream) -> Result<()> {
    while stream.read(&mut [0; 1024]).await? > 0 {}
    Ok(())
}
