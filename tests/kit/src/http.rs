//! A minimal blocking HTTP client for the admin ports of the control plane and the host, and for OpenSearch: loopback,
//! no TLS, one request per connection. It uses HTTP/1.0, so that no server sends a chunked response.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, bail};

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: String,
}

impl Response {
    /// The body of a response with a status of 200 to 299.
    ///
    /// # Errors
    /// When the status is another; the message contains the body.
    pub fn ok(self) -> anyhow::Result<String> {
        match self.status {
            200..300 => Ok(self.body),
            status => bail!("answered {status}: {}", self.body.trim()),
        }
    }
}

/// Sends a request to `base` (`http://127.0.0.1:PORT`). `timeout` limits the connection and each read and write.
///
/// # Errors
/// When the server is unreachable, does not respond in time, or the response is malformed.
pub fn request(method: &str, base: &str, path: &str, timeout: Duration) -> anyhow::Result<Response> {
    request_with(method, base, path, "", timeout)
}

/// As [`request`], with a JSON body.
///
/// # Errors
/// As [`request`].
pub fn request_with(
    method: &str,
    base: &str,
    path: &str,
    json: &str,
    timeout: Duration,
) -> anyhow::Result<Response> {
    exchange(method, base, path, "", json, timeout).with_context(|| format!("{method} {base}{path}"))
}

/// As [`request`], with a bearer token.
///
/// # Errors
/// As [`request`].
pub fn request_as(
    token: &str,
    method: &str,
    base: &str,
    path: &str,
    timeout: Duration,
) -> anyhow::Result<Response> {
    let header = format!("Authorization: Bearer {token}\r\n");
    exchange(method, base, path, &header, "", timeout).with_context(|| format!("{method} {base}{path}"))
}

/// `headers` are whole lines.
fn exchange(
    method: &str,
    base: &str,
    path: &str,
    headers: &str,
    json: &str,
    timeout: Duration,
) -> anyhow::Result<Response> {
    let host = base.strip_prefix("http://").context("not an http:// address")?.trim_end_matches('/');
    let address: SocketAddr = host.parse().context("not an IP address with a port")?;
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let content = if json.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let length = json.len();
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: {host}\r\n{headers}{content}Content-Length: {length}\r\n\r\n"
    );
    stream.write_all((head + json).as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    parse(&String::from_utf8_lossy(&answer))
}

fn parse(answer: &str) -> anyhow::Result<Response> {
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer ends within its head")?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.with_context(|| format!("not an HTTP answer: {head:?}"))?;
    Ok(Response { status, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_its_status_and_its_body() {
        let answer = parse("HTTP/1.0 409 Conflict\r\nA: b\r\n\r\nnot now\r\n").unwrap();
        assert_eq!(answer, Response { status: 409, body: "not now\r\n".into() });
        assert_eq!(answer.ok().unwrap_err().to_string(), "answered 409: not now");
    }

    #[test]
    fn half_an_answer_is_an_error() {
        assert!(parse("HTTP/1.1 200 OK\r\nA: b\r\n").is_err());
        assert!(parse("SSH-2.0\r\n\r\n").is_err());
    }
}
