//! [`OwnPod`]: which Pod the host is, for the events that it records about itself; used by `run`.

use std::path::Path;

use anyhow::{Result, anyhow};
use clap::Args;
use pilothouse_client::Client;
use pilothouse_manager::HostObject;
use pilothouse_object::ObjectKey;

/// Where kubelets tell a container the namespace of its Pod.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// What is said of the Pod that the host runs in. In a cluster all of it is found out where it is not said, unless the Pod is on the
/// host's network.
#[derive(Args, Debug, Clone, Default)]
pub struct OwnPod {
    /// Name of the host's own Pod, for its Events [default in a cluster: the host name]
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pod_name: Option<String>,
    /// Namespace of the Pod; outside a cluster Events are about this Namespace [default: the client's namespace]
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAME")]
    pod_namespace: Option<String>,
    /// UID of the Pod [default: looked up in the API server]
    #[arg(long, env = "POD_UID", value_name = "UID")]
    pod_uid: Option<String>,
}

impl OwnPod {
    /// What the host's events are about.
    ///
    /// # Errors
    /// When the name is none.
    pub fn object(self, client: &Client) -> Result<HostObject> {
        self.object_in(client.default_namespace(), Path::new(NAMESPACE_FILE))
    }

    fn object_in(self, default_namespace: &str, namespace_file: &Path) -> Result<HostObject> {
        let Self { pod_name, pod_namespace, pod_uid } = self;
        let of_pod = std::fs::read_to_string(namespace_file).ok().map(|text| text.trim().to_owned());
        let in_cluster = of_pod.is_some();
        let namespace = pod_namespace.or(of_pod).filter(|namespace| !namespace.is_empty());
        let namespace = namespace.unwrap_or_else(|| default_namespace.to_owned());
        let name = pod_name.or_else(|| in_cluster.then(pilothouse_election::hostname));
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return Ok(HostObject::Namespace(namespace));
        };
        let key = ObjectKey::new(Some(&namespace), &name)
            .map_err(|error| anyhow!("--pod-name {name:?}: {error}; use the name of the host's own Pod"))?;
        Ok(HostObject::Pod { key, uid: pod_uid.filter(|uid| !uid.is_empty()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_goes_before_what_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("namespace"), folder.path().join("none"));
        std::fs::write(&inside, "found\n").unwrap();
        let said = |name: &str, namespace: &str| OwnPod {
            pod_name: (!name.is_empty()).then(|| name.to_owned()),
            pod_namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            pod_uid: None,
        };
        let pod = |text: &str| HostObject::Pod { key: text.parse().unwrap(), uid: None };
        let host = pilothouse_election::hostname();
        for (own, file, object) in [
            (said("p", "ns"), &inside, pod("ns/p")),
            (said("p", ""), &inside, pod("found/p")),
            (said("", ""), &inside, pod(&format!("found/{host}"))),
            (said("p", ""), &outside, pod("mine/p")),
            (said("", ""), &outside, HostObject::Namespace("mine".to_owned())),
            (said("", "ns"), &outside, HostObject::Namespace("ns".to_owned())),
        ] {
            assert_eq!(own.clone().object_in("mine", file).unwrap(), object, "{own:?}");
        }
        let error = said("a/b", "").object_in("mine", &outside).unwrap_err().to_string();
        assert!(error.contains("--pod-name \"a/b\""), "{error}");
    }
}
