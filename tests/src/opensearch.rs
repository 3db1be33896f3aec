//! [`OpenSearch`]: a real OpenSearch of one node, built by `tests/opensearch/build.sh` and run as a child process.
//!
//! Invariants: it is built once per state of its sources, however many test processes want it; it keeps its port and its data over
//! restarts, and nobody else gets the port while it is down; it ends with the test process, since its standard input closes then.
//! Without a JDK or Maven a test that starts one is skipped. All methods block.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::net::TcpSocket;

use crate::process::{self, Process, Stream};
use crate::tools::{self, Tool};
use crate::{Signal, http, paths, poll, proxy};

/// Everything that is built, and what builds it.
const SOURCES: [&str; 3] = [
    include_str!("../opensearch/pom.xml"),
    include_str!("../opensearch/Main.java"),
    include_str!("../opensearch/build.sh"),
];

/// How long the build may take: 45 s here, most of it the fetching of 40 MB.
const BUILD: Duration = Duration::from_secs(900);
/// How long a start may take: 5 to 20 s on an idle machine, a lot more while all cores compile.
const START: Duration = Duration::from_secs(180);
/// How long an end in good order may take.
const STOP: Duration = Duration::from_secs(60);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(30);

/// Its heap; it uses about 100 MB beside it.
const HEAP: &str = "-Xmx512m";

/// How many documents one search may return unless the index says otherwise.
const MOST_HITS: usize = 10_000;

/// A document of an index.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The index that it is in.
    pub index: String,
    /// Its version, which is the writer's where that is external.
    pub version: u64,
    /// What was indexed.
    pub source: Value,
}

/// An OpenSearch, which is killed when dropped.
#[derive(Debug)]
pub struct OpenSearch {
    process: Option<Process>,
    built: PathBuf,
    port: u16,
    dir: TempDir,
    /// Keeps the port from others.
    _reserved: TcpSocket,
}

impl OpenSearch {
    /// Builds it if need be, starts it in a new temporary folder and waits until it answers.
    pub fn start() -> anyhow::Result<OpenSearch> {
        require()?;
        let built = build()?;
        let dir = tempfile::Builder::new().prefix("opensearch-").tempdir().context("making a folder")?;
        let reserved = proxy::bind(0)?;
        let port = reserved.local_addr()?.port();
        let mut made = OpenSearch { process: None, built, port, dir, _reserved: reserved };
        made.start_again()?;
        Ok(made)
    }

    /// Its URL, as `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.authority())
    }

    /// Address and port, as a manifest grants them.
    pub fn authority(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Ends it: by `Signal::TERM` in good order, by `Signal::KILL` where it stands. Returns when its process is gone.
    pub fn stop(&mut self, signal: Signal) -> anyhow::Result<()> {
        let process = self.process.take().context("OpenSearch does not run")?;
        process.signal(signal)?;
        process.wait_exit(STOP).map(drop)
    }

    /// Starts it with its old data after [`OpenSearch::stop`]; returns when it answers.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        let classes = self.built.join("classes");
        let classpath = format!("{}/*:{}", self.built.join("jars").display(), classes.display());
        let mut command = Command::new("java");
        // IPv4 alone, since that is what holds its port while it is down.
        command
            .args([HEAP, "-Djava.net.preferIPv4Stack=true", "-cp", &classpath, "Main"])
            .arg(self.dir.path())
            .arg(self.port.to_string());
        let process = Process::spawn(&mut command)?;
        poll::until_or(
            "OpenSearch to be ready",
            START,
            || process.output().find_map(Stream::Out, |line| line.strip_prefix("ready: ").map(drop)),
            || process.exit_status().map(|status| format!("it ended ({status})")),
        )
        .with_context(|| process.output().tail(50))?;
        self.process = Some(process);
        Ok(())
    }

    /// Sends a request and returns the JSON of its answer; a status that is no success is an error.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> anyhow::Result<Value> {
        let answer = http::request_with(method, &self.url(), path, body, ANSWER)?.ok();
        let answer = answer.with_context(|| format!("{method} {path}"))?;
        serde_json::from_str(&answer).with_context(|| format!("{method} {path} answered {answer:?}"))
    }

    /// All documents of the indices that a pattern names, by their id, everything that was answered included. An id that is in
    /// two indices is an error, and so are more than 10,000 documents.
    pub fn documents(&self, indices: &str) -> anyhow::Result<BTreeMap<String, Document>> {
        // A search shows only what was there at the last refresh.
        self.ask("POST", &format!("/{indices}/_refresh"), "")?;
        let options = "version=true&track_total_hits=true&allow_partial_search_results=false";
        let search = format!("/{indices}/_search?size={MOST_HITS}&{options}");
        let found = self.ask("GET", &search, "")?;
        let hits = found["hits"]["hits"].as_array().context("a search without hits")?;
        let total = found["hits"]["total"]["value"].as_u64();
        ensure!(total == Some(hits.len() as u64), "{total:?} documents, {} were returned", hits.len());
        let mut documents = BTreeMap::new();
        for hit in hits {
            let text =
                |field: &str| hit[field].as_str().map(str::to_owned).context("a hit without _id or _index");
            let (id, index) = (text("_id")?, text("_index")?);
            let version = hit["_version"].as_u64().context("a hit without a version")?;
            let document = Document { index, version, source: hit["_source"].clone() };
            if let Some(other) = documents.insert(id.clone(), document) {
                bail!("{id} is in {} and a second time in {}", other.index, hit["_index"]);
            }
        }
        Ok(documents)
    }
}

/// Where a state of the sources is built to.
fn place() -> PathBuf {
    let mut hash = Sha256::new();
    for source in SOURCES {
        // Each file by its own digest, so that no byte can move from one to the next unseen.
        hash.update(Sha256::digest(source));
    }
    let name: String = hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    paths::target().join("opensearch").join(name)
}

/// Fails when it is not built and cannot be, or cannot be run.
fn require() -> anyhow::Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // The compiler and Maven are for the build.
    if !(place().exists() && tools::find("java", &path).is_some()) {
        Tool::Java.require()?;
    }
    Ok(())
}

/// The folder with the jars and classes, which is filled unless that was done before.
fn build() -> anyhow::Result<PathBuf> {
    let place = place();
    let folder = place.parent().unwrap_or(Path::new("/")).to_owned();
    paths::locked(&folder, || {
        if place.exists() {
            return Ok(());
        }
        eprintln!("fetching OpenSearch for tests");
        let unfinished = folder.join("unfinished");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).with_context(|| format!("removing {}", unfinished.display()))?;
        }
        let mut script = Command::new("/bin/sh");
        script.arg(paths::repository().join("tests/opensearch/build.sh")).arg(&unfinished);
        let finished = process::run(&mut script, "", BUILD)?;
        let said = format!("{}{}", finished.stdout, finished.stderr);
        ensure!(finished.status.success(), "tests/opensearch/build.sh failed ({}):\n{said}", finished.status);
        fs::rename(&unfinished, &place).with_context(|| format!("naming {}", place.display()))
    })?;
    Ok(place)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{full, or_skip};

    #[test]
    fn what_was_acknowledged_survives_a_kill_and_an_end_in_good_order() -> anyhow::Result<()> {
        full::only(|| or_skip(|| OpenSearch::start().map(kill_and_end)))
    }

    fn kill_and_end(mut search: OpenSearch) {
        let body = json!({"a": 1}).to_string();
        let one = search.ask("PUT", "/one/_doc/x?version=7&version_type=external", &body).unwrap();
        assert_eq!(one["result"], "created");
        for signal in [Signal::KILL, Signal::TERM] {
            search.stop(signal).unwrap();
            assert!(search.ask("GET", "/", "").is_err());
            search.start_again().unwrap();
            let wanted = Document { index: "one".into(), version: 7, source: json!({"a": 1}) };
            // The index opens some moments after the server.
            let documents = poll::until("the index", START, || search.documents("one").map(Some)).unwrap();
            assert_eq!(documents, BTreeMap::from([("x".to_owned(), wanted)]));
        }
        search.ask("PUT", "/two/_doc/x", &body).unwrap();
        let error = search.documents("*").unwrap_err().to_string();
        assert!(error.starts_with("x is in one and a second time in"), "{error}");
    }
}
