//! [`AdminArgs`]: the flags that name the admin address of a running host, and requests to it. Used by `status` and `top`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, HOST};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::table::printable;
use pilothouse_hosting::hosting::DEFAULT_LISTEN;

/// The error of an answer that no host gives.
pub(crate) const NOT_A_HOST: &str = "the response is not that of a pilothouse host";

/// Longest wait for the host's answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Most bytes of an answer: ten thousand plugins have a few kilobytes each.
const LARGEST: usize = 64 << 20;

#[derive(Args)]
pub(crate) struct AdminArgs {
    /// Admin address of the host
    #[arg(long, value_name = "ADDR", default_value = DEFAULT_LISTEN)]
    admin: String,
    /// File with the token for a host that asks for one
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl AdminArgs {
    /// The body of the host's answer to a GET of this path.
    ///
    /// # Errors
    /// When no host answers, or it refuses the request.
    pub(crate) async fn get(&self, path: &str) -> Result<Bytes> {
        let address = self.admin.trim_start_matches("http://").trim_end_matches('/');
        let mut request = Request::get(path).header(HOST, address);
        if let Some(file) = &self.token_file {
            let token = std::fs::read_to_string(file).with_context(|| {
                format!(
                    "--token-file: {} cannot be read; name the file with the host's token",
                    file.display()
                )
            })?;
            request = request.header(AUTHORIZATION, format!("Bearer {}", token.trim()));
        }
        let request = request.body(Empty::<Bytes>::new());
        let request = request
            .with_context(|| format!("--admin: {address:?} is no address; name one as {DEFAULT_LISTEN}"))?;
        let ask = async {
            let (mut sender, connection) =
                http1::handshake(TokioIo::new(TcpStream::connect(address).await?)).await?;
            tokio::spawn(connection);
            let answer = sender.send_request(request).await?;
            let status = answer.status();
            anyhow::Ok((status, Limited::new(answer.into_body(), LARGEST).collect().await))
        };
        let hint = || {
            format!(
                "no host answers at {address}: check that `pilothouse run` is running with this --listen address"
            )
        };
        let (status, body) =
            tokio::time::timeout(TIMEOUT, ask).await.with_context(hint)?.with_context(hint)?;
        let body = body.map_err(|error| anyhow!("{address}: {NOT_A_HOST}: {error}"))?.to_bytes();
        if !status.is_success() {
            let why = String::from_utf8_lossy(&body);
            let why = why.lines().next().filter(|line| line.len() < 1000).unwrap_or(NOT_A_HOST);
            bail!("{address} answered {status}: {}", printable(why));
        }
        Ok(body)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// What comes of an answer that has this head and, after it, this part again and again.
    async fn asked(head: &'static str, part: &'static [u8], times: usize) -> Result<Bytes> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let admin = listener.local_addr().unwrap().to_string();
        let answering = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await;
            stream.write_all(head.as_bytes()).await.unwrap();
            for _ in 0..times {
                // Who has had enough closes the connection.
                if stream.write_all(part).await.is_err() {
                    break;
                }
            }
        };
        let args = AdminArgs { admin, token_file: None };
        let (answer, ()) = tokio::join!(args.get("/plugins"), answering);
        answer
    }

    #[tokio::test]
    async fn an_answer_ends_with_its_connection_and_a_refusal_commands_no_terminal() {
        let answer = asked("HTTP/1.1 200 OK\r\n\r\n", b"{}", 2).await.unwrap();
        assert_eq!(&answer[..], b"{}{}");
        let refused =
            asked("HTTP/1.1 403 Forbidden\r\n\r\n", b"user \x1b[2J may not\n", 2).await.unwrap_err();
        let error = refused.to_string();
        assert!(error.ends_with("answered 403 Forbidden: user \u{fffd}[2J may not"), "{error:?}");
    }

    #[tokio::test]
    async fn an_answer_that_does_not_end_is_no_host_s() {
        static PART: [u8; 1 << 20] = [b' '; 1 << 20];
        let times = LARGEST / PART.len() + 2;
        let error = asked("HTTP/1.1 200 OK\r\n\r\n", &PART, times).await.unwrap_err();
        assert!(error.to_string().contains(NOT_A_HOST), "{error:#}");
    }
}
