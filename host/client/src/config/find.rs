//! Which kubeconfig is read, as kubectl chooses: the file that was named, `KUBECONFIG`, `~/.kube/config`; `None` is for the
//! service account of a pod.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::file::Kubeconfig;
use crate::error::{Error, Result};
use crate::proxy::ProxyVariables;

/// What the process was told by its environment.
pub(super) struct Environment {
    pub(super) kubeconfig: OsString,
    pub(super) home: Option<PathBuf>,
    /// Host and port of the API server, as pods are told.
    pub(super) service: Option<(String, String)>,
    pub(super) proxies: ProxyVariables,
}

impl Environment {
    pub(super) fn of_process() -> Self {
        let service = std::env::var("KUBERNETES_SERVICE_HOST")
            .ok()
            .map(|host| (host, std::env::var("KUBERNETES_SERVICE_PORT").unwrap_or_default()));
        Self {
            kubeconfig: std::env::var_os("KUBECONFIG").unwrap_or_default(),
            home: std::env::home_dir(),
            service,
            proxies: ProxyVariables::of_process(),
        }
    }
}

/// The kubeconfig and what to call it in messages; `None` when there is none and a service account may be used.
pub(super) fn find(named: Option<&Path>, environment: &Environment) -> Result<Option<(String, Kubeconfig)>> {
    if let Some(path) = named {
        return read(path).map(Some);
    }
    let mut paths: Vec<PathBuf> = std::env::split_paths(&environment.kubeconfig).collect();
    paths.retain(|path| !path.as_os_str().is_empty());
    if paths.is_empty() {
        paths.extend(environment.home.as_ref().map(|home| home.join(".kube").join("config")));
    }
    let mut tried = Vec::new();
    let mut merged: Option<(String, Kubeconfig)> = None;
    for path in &paths {
        // As kubectl: files of a list may be missing.
        if !path.exists() {
            tried.push(path.display().to_string());
            continue;
        }
        let (source, next) = read(path)?;
        match &mut merged {
            None => merged = Some((source, next)),
            Some((sources, before)) => {
                before.merge(next);
                *sources = format!("{sources}:{source}");
            }
        }
    }
    if merged.is_none() && environment.service.is_none() {
        let message = format!(
            "no kubeconfig: {} does not exist, and this is not a pod; name one with --kubeconfig or KUBECONFIG",
            if tried.is_empty() { "~/.kube/config".to_owned() } else { tried.join(", ") }
        );
        return Err(Error::Config(message));
    }
    Ok(merged)
}

fn read(path: &Path) -> Result<(String, Kubeconfig)> {
    let source = path.display().to_string();
    let error = |message: &str| Error::Config(format!("kubeconfig {source}: {message}"));
    let bytes = std::fs::read(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            error("there is no such file; name another with --kubeconfig or KUBECONFIG")
        }
        _ => error(&format!("cannot be read: {e}; check its permissions")),
    })?;
    // Some editors begin a file with a byte order mark.
    let text = std::str::from_utf8(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes))
        .map_err(|_| error("not a kubeconfig: not text; save it as UTF-8"))?;
    let kubeconfig = Kubeconfig::parse(path, text)?;
    Ok((source, kubeconfig))
}
