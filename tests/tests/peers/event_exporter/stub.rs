//! [`Stub`]: a search server that answers `_bulk` as a test wants it, and remembers what it was sent. For what a real one does not
//! do on demand: credentials, which take a plugin that is not in the jars, and too much work.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// When it had come.
    pub(crate) at: Instant,
    /// Its first line, as `POST /_bulk?… HTTP/1.1`.
    pub(crate) line: String,
    /// Its credentials.
    pub(crate) authorization: Option<String>,
    /// Its body.
    pub(crate) body: String,
}

impl Received {
    /// The names of the Events in it.
    pub(crate) fn names(&self) -> Vec<String> {
        let sources = self.body.lines().skip(1).step_by(2).map(serde_json::from_str::<Value>);
        sources.map(|source| source.unwrap()["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    status: u16,
    retry_after: Option<u32>,
    body: Value,
}

impl Reply {
    /// The request is refused.
    pub(crate) fn status(status: u16) -> Reply {
        Reply {
            status,
            retry_after: None,
            body: json!({"error": {"type": "stub", "reason": "as the test wants it"}}),
        }
    }

    /// The request is refused for so many seconds.
    pub(crate) fn busy(seconds: u32) -> Reply {
        Reply { retry_after: Some(seconds), ..Reply::status(429) }
    }

    /// The documents are taken, except those of Events for which `refused` has a status.
    pub(crate) fn items(request: &Received, refused: impl Fn(&str) -> Option<u16>) -> Reply {
        let item = |name: &String| match refused(name) {
            None => json!({"index": {"status": 201}}),
            Some(status) => {
                // What a server says of a document that does not fit, if it is its fault.
                let kind = if status == 400 { "mapper_parsing_exception" } else { "stub" };
                json!({"index": {"status": status, "error": {"type": kind, "reason": format!("not {name}")}}})
            }
        };
        let items: Vec<Value> = request.names().iter().map(item).collect();
        Reply { status: 200, retry_after: None, body: json!({ "items": items }) }
    }
}

/// A running stub; it serves until the test process ends.
#[derive(Debug)]
pub(crate) struct Stub {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Stub {
    /// Starts one that answers by `answer`, which is told how many requests came before.
    pub(crate) fn start(answer: impl Fn(usize, &Received) -> Reply + Send + 'static) -> Result<Stub> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let stub = Stub { address: listener.local_addr()?, received: Arc::default() };
        let received = stub.received.clone();
        thread::spawn(move || {
            // One at a time, as the exporter sends them, so the order of what was received is that of the answers.
            for connection in listener.incoming().flatten() {
                // A host that ends cuts its request short.
                let _ = serve(connection, &received, &answer);
            }
        });
        Ok(stub)
    }

    /// Address and port.
    pub(crate) fn authority(&self) -> String {
        self.address.to_string()
    }

    /// Everything received so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        lock(&self.received).clone()
    }
}

fn lock(received: &Mutex<Vec<Received>>) -> MutexGuard<'_, Vec<Received>> {
    received.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers one request and closes the connection.
fn serve(
    connection: TcpStream,
    received: &Mutex<Vec<Received>>,
    answer: &impl Fn(usize, &Received) -> Reply,
) -> Result<()> {
    let request = read(BufReader::new(&connection))?;
    let nth = lock(received).len();
    let Reply { status, retry_after, body } = answer(nth, &request);
    lock(received).push(request);
    let (retry_after, body) = (
        retry_after.map_or(String::new(), |seconds| format!("Retry-After: {seconds}\r\n")),
        body.to_string(),
    );
    write!(
        &connection,
        "HTTP/1.1 {status} Stub\r\nContent-Type: application/json\r\n{retry_after}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len(),
    )?;
    Ok(())
}

fn read(mut from: impl BufRead) -> Result<Received> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        from.read_line(&mut line)?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let header = |name: &str| {
        let found = lines.iter().skip(1).filter_map(|line| line.split_once(": "));
        found.filter(|(its, _)| its.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next()
    };
    let length = header("content-length").context("a body without a length")?.parse()?;
    let authorization = header("authorization");
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    let line = lines.into_iter().next().context("no request")?;
    Ok(Received { at: Instant::now(), line, authorization, body: String::from_utf8(body)? })
}
