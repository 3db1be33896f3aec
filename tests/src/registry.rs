//! [`RegistryProgram`]: a real OCI registry on loopback, which asks for a login.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::go_program::REGISTRY;
use crate::poll;
use crate::process::{Process, Stream};

/// Time limit until the registry listens.
const START: Duration = Duration::from_secs(60);

/// A running registry. Dropping it ends the process and removes what was pushed.
#[derive(Debug)]
pub struct RegistryProgram {
    address: String,
    config: Value,
    folder: TempDir,
    _process: Process,
}

impl RegistryProgram {
    /// Builds the registry if necessary, starts it, and waits until it listens.
    ///
    /// # Errors
    /// When it cannot be built or started.
    pub fn start() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("registry-").tempdir()?;
        let config = json!({
            "version": 0.1,
            "log": {"level": "info"},
            "storage": {"filesystem": {"rootdirectory": folder.path().join("storage")}},
            "http": {"addr": "127.0.0.1:0", "secret": "test"},
            // The registry writes the file, with a password that it logs.
            "auth": {"htpasswd": {"realm": "test", "path": folder.path().join("htpasswd")}},
        });
        let file = folder.path().join("config.yml");
        fs::write(&file, config.to_string())?;
        let mut command = Command::new(REGISTRY.built()?);
        command.arg("serve").arg(&file).env("OTEL_TRACES_EXPORTER", "none");
        let process = Process::spawn_watched(&mut command)?;
        let said = |before: &'static str| {
            let word = move |line: &str| {
                let rest = line.split_once(before)?.1;
                rest.split([' ', '"']).next().map(str::to_owned)
            };
            process.output().find_map(Stream::Err, word)
        };
        let ended = || {
            process.exit_status().map(|status| format!("it ended ({status}): {}", process.output().tail(20)))
        };
        let address = poll::until_or("the registry to listen", START, || said("listening on "), ended)?;
        let password = said("password=").context("the registry logged no password")?;
        let login = BASE64_STANDARD.encode(format!("docker:{password}"));
        let config = json!({"auths": {(address.as_str()): {"auth": login}}});
        fs::write(folder.path().join("config.json"), config.to_string())?;
        Ok(Self { address, config, folder, _process: process })
    }

    /// Host and port.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The login, in the form of Docker.
    #[must_use]
    pub fn login(&self) -> &Value {
        &self.config
    }

    /// Pushes a component under a tag, as the artifact that `oras push --artifact-type application/vnd.wasm.component.v1+wasm
    /// FILE:application/wasm` makes of it: what `spec.source` of a Plugin has to be.
    ///
    /// # Errors
    /// When the registry refuses it.
    pub fn push(&self, repository: &str, tag: &str, component: &[u8]) -> anyhow::Result<Value> {
        let config = self.upload(repository, "application/vnd.oci.empty.v1+json", b"{}")?;
        let layer = self.upload(repository, "application/wasm", component)?;
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let manifest = json!({
            "schemaVersion": 2, "mediaType": kind, "artifactType": "application/vnd.wasm.component.v1+wasm",
            "config": config, "layers": [layer],
        });
        let manifest = manifest.to_string();
        self.send("PUT", &format!("/v2/{repository}/manifests/{tag}"), kind, manifest.as_bytes())?;
        let artifact = format!("oci://{}/{repository}@{}", self.address, digest_of(manifest.as_bytes()));
        Ok(json!({"oci": artifact, "digest": layer["digest"]}))
    }

    /// Uploads content; its descriptor.
    fn upload(&self, repository: &str, kind: &str, content: &[u8]) -> anyhow::Result<Value> {
        let digest = digest_of(content);
        let begun = self.send("POST", &format!("/v2/{repository}/blobs/uploads/"), kind, b"")?;
        let place = begun.context("the registry does not say where an upload goes to")?;
        let place = place.trim_start_matches(&format!("http://{}", self.address));
        self.send("PUT", &format!("{place}&digest={digest}"), "application/octet-stream", content)?;
        Ok(json!({"mediaType": kind, "digest": digest, "size": content.len()}))
    }

    /// Sends a request with the login; the header `Location` of its answer, which has to be a success.
    fn send(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> anyhow::Result<Option<String>> {
        let login = self.config["auths"][&self.address]["auth"].as_str().context("no login")?;
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: {}\r\nAuthorization: Basic {login}\r\nContent-Type: {kind}\r\n\
             Content-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(START))?;
        stream.write_all(&[head.as_bytes(), body].concat())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(
            answer.split(' ').nth(1).is_some_and(|status| status.starts_with('2')),
            "{method} {path}: {answer}"
        );
        let mut headers = answer.lines().filter_map(|line| line.split_once(": "));
        let location = headers.find(|(name, _)| name.eq_ignore_ascii_case("location"));
        Ok(location.map(|(_, place)| place.to_owned()))
    }

    /// The folder with a `config.json` that has the login.
    #[must_use]
    pub fn docker_config(&self) -> PathBuf {
        self.folder.path().to_owned()
    }
}

fn digest_of(content: &[u8]) -> String {
    format!("sha256:{:x}", Sha256::digest(content))
}
