//! The `exec` of a user, checked as kubectl checks it, as a command.

use std::io::IsTerminal as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use super::choose::Chosen;
use super::file::{Exec, set};
use super::prepare::authority;
use crate::credentials::Checked;
use crate::credentials::{Command, displayed};
use crate::error::{Error, Result};

const V1: &str = "client.authentication.k8s.io/v1";
const V1_BETA1: &str = "client.authentication.k8s.io/v1beta1";
/// The extension of a cluster that is for plugins.
const EXTENSION: &str = "client.authentication.k8s.io/exec";

/// The command of `exec`.
pub(super) fn command(exec: &Exec, chosen: &Chosen) -> Result<Command> {
    let source = &chosen.source;
    let error = |message: String| Error::Config(format!("{source}: {message}"));
    let Some(program) = set(exec.command.as_ref()) else {
        return Err(error("exec plugin for credentials has no command; set exec.command".to_owned()));
    };
    let what = format!("exec plugin {:?} for credentials", displayed(program));
    let api_version = set(exec.api_version.as_ref()).unwrap_or_default();
    if ![V1, V1_BETA1].contains(&api_version) {
        return Err(error(format!(
            "{what}: this exec.apiVersion is not supported; set {V1}, and update the plugin if it does not know that"
        )));
    }
    let mode = match set(exec.interactive_mode.as_ref()) {
        // Only the old version has a default.
        None if api_version == V1_BETA1 => "IfAvailable",
        mode => mode.unwrap_or_default(),
    };
    let terminal = std::io::stdin().is_terminal();
    let interactive = match mode {
        "Never" => false,
        "IfAvailable" => terminal,
        "Always" if terminal => true,
        "Always" => {
            return Err(error(format!(
                "{what}: exec.interactiveMode is Always, and standard input is no terminal; run in a terminal, or use another way to log in"
            )));
        }
        _ => {
            return Err(error(format!(
                "{what}: exec.interactiveMode is missing, or another word; set Never, IfAvailable or Always"
            )));
        }
    };
    let mut env = Vec::new();
    for variable in exec.env.iter().flatten() {
        let Some(name) = set(variable.name.as_ref()).filter(|name| !name.contains(['=', '\0'])) else {
            return Err(error(format!("{what}: a variable of exec.env has no name; set it")));
        };
        env.push((name.to_owned(), variable.value.clone().unwrap_or_default()));
    }
    let cluster = match exec.provide_cluster_info {
        Some(true) => Some(cluster_info(chosen).map_err(error)?),
        _ => None,
    };
    Ok(Command {
        source: source.clone(),
        program: program.to_owned(),
        args: exec.args.clone().unwrap_or_default(),
        env,
        install_hint: exec.install_hint.clone().unwrap_or_default(),
        api_version: api_version.to_owned(),
        interactive,
        cluster,
    })
}

/// What a plugin may know of the cluster, under the names of its protocol.
fn cluster_info(chosen: &Chosen) -> Checked<Value> {
    let cluster = &chosen.cluster;
    let mut info = Map::new();
    let mut text = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            info.insert(name.to_owned(), value.into());
        }
    };
    let authority = authority(cluster)?.map(|source| source.read()).transpose()?;
    let authority = authority.map(|pem| BASE64_STANDARD.encode(pem));
    text("server", set(cluster.server.as_ref()));
    text("tls-server-name", set(cluster.tls_server_name.as_ref()));
    text("certificate-authority-data", authority.as_deref());
    // With its password, since the plugin must be able to use it.
    text("proxy-url", set(cluster.proxy_url.as_ref()));
    for (name, value) in [
        ("insecure-skip-tls-verify", cluster.insecure_skip_tls_verify),
        ("disable-compression", cluster.disable_compression),
    ] {
        if value == Some(true) {
            info.insert(name.to_owned(), true.into());
        }
    }
    let extension = cluster.extensions.iter().flatten().find(|e| e.name.as_deref() == Some(EXTENSION));
    if let Some(config) = extension.and_then(|extension| extension.extension.clone()) {
        info.insert("config".to_owned(), config);
    }
    Ok(info.into())
}
