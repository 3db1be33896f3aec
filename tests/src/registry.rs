//! [`RegistryProgram`]: a real OCI registry on loopback, which asks for a login.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
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

    /// The folder with a `config.json` that has the login.
    #[must_use]
    pub fn docker_config(&self) -> PathBuf {
        self.folder.path().to_owned()
    }
}
