//! The service account of a pod, as a cluster and a user like those of a kubeconfig: its files are read again as they
//! rotate, like all files that a kubeconfig names.

use std::net::IpAddr;
use std::path::Path;

use super::choose::Chosen;
use super::file::{Cluster, User};
use crate::error::{Error, Result};

/// Where kubelets put the files of a pod's service account.
pub(super) const FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The service account whose files are in `folder`; `host` and `port` are those of the API server.
pub(super) fn in_cluster(folder: &Path, host: &str, port: &str) -> Result<Chosen> {
    let error = |what: &str, why: &str| {
        Error::Config(format!(
            "service account of the pod, {what}: {why}; set automountServiceAccountToken, or name a kubeconfig"
        ))
    };
    let port: u16 = port.parse().map_err(|_| error("KUBERNETES_SERVICE_PORT", "not a port"))?;
    if host.is_empty() {
        return Err(error("KUBERNETES_SERVICE_HOST", "empty"));
    }
    let file = |name: &str| -> Result<String> {
        let path = folder.join(name);
        // Read here for the error's sake: nobody has written these paths anywhere.
        std::fs::read(&path).map_err(|e| error(&path.display().to_string(), &e.to_string()))?;
        Ok(path.to_string_lossy().into_owned())
    };
    let host = if host.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()) {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    let namespace = std::fs::read_to_string(folder.join("namespace")).ok();
    Ok(Chosen {
        source: "service account".to_owned(),
        cluster_name: "of the pod".to_owned(),
        cluster: Cluster {
            server: Some(format!("https://{host}:{port}")),
            certificate_authority: Some(file("ca.crt")?),
            ..Cluster::default()
        },
        user_name: String::new(),
        user: User { token_file: Some(file("token")?), ..User::default() },
        namespace: namespace.map(|n| n.trim().to_owned()).filter(|n| !n.is_empty()),
    })
}
