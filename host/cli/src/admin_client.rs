//! [`AdminArgs`]: the flags that name the admin address of a running host, and requests to it. Used by `status` and `top`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, HOST};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::hosting::DEFAULT_LISTEN;

/// The error of an answer that no host gives.
pub(crate) const NOT_A_HOST: &str = "the response is not that of a pilothouse host";

/// Longest wait for the host's answer.
const TIMEOUT: Duration = Duration::from_secs(10);

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
            anyhow::Ok((status, answer.into_body().collect().await?.to_bytes()))
        };
        let hint = || {
            format!(
                "no host answers at {address}: check that `pilothouse run` is running with this --listen address"
            )
        };
        let (status, body) =
            tokio::time::timeout(TIMEOUT, ask).await.with_context(hint)?.with_context(hint)?;
        if !status.is_success() {
            let why = String::from_utf8_lossy(&body);
            let why = why.lines().next().filter(|line| line.len() < 1000).unwrap_or(NOT_A_HOST);
            bail!("{address} answered {status}: {why}");
        }
        Ok(body)
    }
}
