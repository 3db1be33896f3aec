//! `pilothouse status`: asks a running host for its plugins and prints them.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use pilothouse_manager::{PluginList, PluginStatus};
use tokio::net::TcpStream;

use crate::hosting::DEFAULT_LISTEN;
use crate::table::Table;

#[derive(Args)]
pub(crate) struct Status {
    /// Admin address of the host
    #[arg(long, value_name = "ADDR", default_value = DEFAULT_LISTEN)]
    admin: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Output {
    /// For people
    Table,
    /// The response of /plugins
    Json,
}

/// Longest wait for the host's answer.
const TIMEOUT: Duration = Duration::from_secs(10);

impl Status {
    pub(crate) fn main(&self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let body = runtime.block_on(self.fetch())?;
        let text = match self.output {
            Output::Json => String::from_utf8_lossy(&body).into_owned() + "\n",
            Output::Table => {
                let list: PluginList =
                    serde_json::from_slice(&body).context("the response is not that of a pilothouse host")?;
                let election = list.election.map(|e| format!("{e} ({}, {})\n", e.lease, e.identity));
                election.unwrap_or_default() + &table(&list.plugins) + &warnings(&list.plugins)
            }
        };
        std::io::stdout().write_all(text.as_bytes())?;
        Ok(())
    }

    async fn fetch(&self) -> Result<Bytes> {
        let address = self.admin.trim_start_matches("http://").trim_end_matches('/');
        let request = Request::get("/plugins").header(HOST, address).body(Empty::<Bytes>::new());
        let request = request.with_context(|| format!("address {address:?}"))?;
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
            bail!("{address} answered {status}: is it a pilothouse host?");
        }
        Ok(body)
    }
}

fn table(plugins: &[PluginStatus]) -> String {
    let header = ["NAME", "GENERATION", "STATE", "CALLS", "QUEUE", "DIGEST", "LAST ERROR"].map(str::to_owned);
    let mut rows = vec![header];
    rows.extend(plugins.iter().map(|p| {
        [
            p.name.clone(),
            p.generation.to_string(),
            p.state.as_str().to_owned(),
            p.calls.to_string(),
            p.queue_depth.to_string(),
            p.digest.strip_prefix("sha256:").map_or("", |d| &d[..d.len().min(12)]).to_owned(),
            p.last_error.as_ref().or(p.host_condition.as_ref()).cloned().unwrap_or_default(),
        ]
    }));
    Table::default().lines(&rows)
}

/// A line for each warning.
fn warnings(plugins: &[PluginStatus]) -> String {
    let lines =
        plugins.iter().flat_map(|p| p.warnings.iter().map(|text| format!("{}: warning: {text}\n", p.name)));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_lines_up_and_shortens_digests() {
        let list: PluginList = serde_json::from_str(
            r#"{"plugins":[{"name":"a-long-name","generation":3,"digest":"sha256:0123456789abcdef","state":"running",
                "lastError":null,"warnings":["too much"],"calls":12,"queueDepth":0},
                {"name":"b","generation":0,"digest":"","state":"failed","lastError":"b.wasm: not wasm","calls":0,
                "queueDepth":0}]}"#,
        )
        .unwrap();
        let text = table(&list.plugins);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(
            lines[1].starts_with("a-long-name  3           running  12     0      0123456789ab"),
            "{text}"
        );
        assert!(lines[2].ends_with("b.wasm: not wasm"), "{text}");
        assert_eq!(warnings(&list.plugins), "a-long-name: warning: too much\n");
    }
}
