//! [`OpenSearch`]: a real single-node OpenSearch, built by `tests/opensearch/build.sh` and run as a child process.
//!
//! Invariants: it is built once per state of its sources, however many test processes use it; it keeps its port and
//! data over restarts, and the port stays reserved while it is down; it ends with the test process, because its
//! standard input closes then. Without a JDK or Maven a test that starts it is skipped. All methods block.

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

/// The sources and the build script.
const SOURCES: [&str; 3] = [
    include_str!("../opensearch/pom.xml"),
    include_str!("../opensearch/Main.java"),
    include_str!("../opensearch/build.sh"),
];

/// Time limit of the build: it took 45 s when measured, mostly the download of 40 MB.
const BUILD: Duration = Duration::from_secs(900);
/// Time limit of a start: 5 to 20 s on an idle machine, far more while all cores compile.
const START: Duration = Duration::from_secs(180);
/// Time limit of a graceful shutdown.
const STOP: Duration = Duration::from_secs(60);
/// Time limit of a response.
const ANSWER: Duration = Duration::from_secs(30);

/// The size of the Java heap. The process uses about 100 MB in addition.
const HEAP: &str = "-Xmx512m";

/// The default limit of OpenSearch for the number of documents in one search result.
const MOST_HITS: usize = 10_000;

/// A document of an index.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The index of the document.
    pub index: String,
    /// The version of the document; with external versioning the writer's.
    pub version: u64,
    /// The indexed JSON.
    pub source: Value,
}

/// A running OpenSearch. Dropping it kills the process.
#[derive(Debug)]
pub struct OpenSearch {
    process: Option<Process>,
    built: PathBuf,
    port: u16,
    dir: TempDir,
    /// Reserves the port.
    _reserved: TcpSocket,
}

impl OpenSearch {
    /// Builds OpenSearch if necessary, starts it in a new temporary folder and waits until it responds.
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

    /// The URL: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.authority())
    }

    /// Address and port, in the form of a grant in a manifest.
    pub fn authority(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Stops the process with a signal, `Signal::TERM` or `Signal::KILL`. Returns when the process has ended.
    pub fn stop(&mut self, signal: Signal) -> anyhow::Result<()> {
        let process = self.process.take().context("OpenSearch does not run")?;
        process.signal(signal)?;
        process.wait_exit(STOP).map(drop)
    }

    /// Starts it again with the same data after [`OpenSearch::stop`]; returns when it responds.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        let classes = self.built.join("classes");
        let classpath = format!("{}/*:{}", self.built.join("jars").display(), classes.display());
        let mut command = Command::new("java");
        // IPv4 only, because the reserved socket is IPv4.
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

    /// Sends a request and returns the JSON of the response; a status other than success is an error.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> anyhow::Result<Value> {
        let answer = http::request_with(method, &self.url(), path, body, ANSWER)?.ok();
        let answer = answer.with_context(|| format!("{method} {path}"))?;
        serde_json::from_str(&answer).with_context(|| format!("{method} {path} answered {answer:?}"))
    }

    /// All documents of the indices that match a pattern, by id, including every write that was acknowledged. An id in
    /// two indices is an error, and so are more than 10,000 documents.
    pub fn documents(&self, indices: &str) -> anyhow::Result<BTreeMap<String, Document>> {
        // A search only finds documents of the last refresh.
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

/// The output folder of the build for this state of the sources.
fn place() -> PathBuf {
    let mut hash = Sha256::new();
    for source in SOURCES {
        // Each file is hashed by its own digest, so that moving bytes between files changes the hash.
        hash.update(Sha256::digest(source));
    }
    let name: String = hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    paths::target().join("opensearch").join(name)
}

/// Checks that OpenSearch is built or can be built, and can be run.
fn require() -> anyhow::Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Only the build needs the compiler and Maven.
    if !(place().exists() && tools::find("java", &path).is_some()) {
        Tool::Java.require()?;
    }
    Ok(())
}

/// Builds OpenSearch unless it is built already; returns the folder with the jars and classes.
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
            // The index becomes available shortly after the server.
            let documents = poll::until("the index", START, || search.documents("one").map(Some)).unwrap();
            assert_eq!(documents, BTreeMap::from([("x".to_owned(), wanted)]));
        }
        search.ask("PUT", "/two/_doc/x", &body).unwrap();
        let error = search.documents("*").unwrap_err().to_string();
        assert!(error.starts_with("x is in one and a second time in"), "{error}");
    }
}
