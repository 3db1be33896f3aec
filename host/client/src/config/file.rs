//! [`Kubeconfig`]: what stands in kubeconfig files, and how several become one.
//!
//! The rules are kubectl's: of two entries of one name that of the first file counts, whole; the first file that sets
//! `current-context` sets it; relative paths are relative to their file; two entries of one name in one file are an
//! error. Absent, empty and `null` are the same. `find` reads and merges, `choose` picks. Nothing here has a debug print:
//! the fields hold secrets.

use std::collections::BTreeMap;
use std::path::{MAIN_SEPARATOR, Path};

use serde::Deserialize;

use crate::error::{Error, Result};

/// The one API version of the format.
const API_VERSION: &str = "v1";
const KIND: &str = "Config";

/// Kubeconfig files, merged.
#[derive(Default)]
pub(super) struct Kubeconfig {
    pub(super) current_context: Option<String>,
    pub(super) contexts: BTreeMap<String, Context>,
    pub(super) clusters: BTreeMap<String, Cluster>,
    pub(super) users: BTreeMap<String, User>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct File {
    kind: Option<String>,
    #[serde(rename = "apiVersion")]
    api_version: Option<String>,
    current_context: Option<String>,
    contexts: Option<Vec<NamedContext>>,
    clusters: Option<Vec<NamedCluster>>,
    users: Option<Vec<NamedUser>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedContext {
    name: Option<String>,
    context: Option<Context>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedCluster {
    name: Option<String>,
    cluster: Option<Cluster>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedUser {
    name: Option<String>,
    user: Option<User>,
}

/// A cluster and a user that belong together.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Context {
    pub(super) cluster: Option<String>,
    pub(super) user: Option<String>,
    pub(super) namespace: Option<String>,
}

/// How to reach a server, and how to know it.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct Cluster {
    pub(super) server: Option<String>,
    pub(super) tls_server_name: Option<String>,
    pub(super) insecure_skip_tls_verify: Option<bool>,
    pub(super) certificate_authority: Option<String>,
    pub(super) certificate_authority_data: Option<String>,
    pub(super) proxy_url: Option<String>,
    pub(super) disable_compression: Option<bool>,
    pub(super) extensions: Option<Vec<Extension>>,
}

/// Something of a cluster that others may want to know; one name is for exec plugins.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Extension {
    pub(super) name: Option<String>,
    pub(super) extension: Option<serde_json::Value>,
}

/// Who to be.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct User {
    pub(super) client_certificate: Option<String>,
    pub(super) client_certificate_data: Option<String>,
    pub(super) client_key: Option<String>,
    pub(super) client_key_data: Option<String>,
    pub(super) token: Option<String>,
    #[serde(rename = "tokenFile")]
    pub(super) token_file: Option<String>,
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    #[serde(rename = "as")]
    pub(super) impersonate: Option<String>,
    pub(super) as_uid: Option<String>,
    pub(super) as_groups: Option<Vec<String>>,
    pub(super) as_user_extra: Option<BTreeMap<String, Option<Vec<String>>>>,
    pub(super) auth_provider: Option<AuthProvider>,
    pub(super) exec: Option<Exec>,
}

/// A way to log in that was built into clients; only its name matters, for the error that refuses it.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct AuthProvider {
    pub(super) name: Option<String>,
}

/// A program that gives credentials.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Exec {
    pub(super) api_version: Option<String>,
    pub(super) command: Option<String>,
    pub(super) args: Option<Vec<String>>,
    pub(super) env: Option<Vec<EnvVar>>,
    pub(super) install_hint: Option<String>,
    pub(super) interactive_mode: Option<String>,
    pub(super) provide_cluster_info: Option<bool>,
}

/// A variable of a program's environment.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct EnvVar {
    pub(super) name: Option<String>,
    pub(super) value: Option<String>,
}

/// A text that is there: empty is as good as absent.
pub(super) fn set(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

impl Kubeconfig {
    /// The content of one file; `path` is for messages, and what relative paths are relative to.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self> {
        let source = path.display();
        let error = |message: String| Error::Config(format!("kubeconfig {source}: {message}"));
        let file = if text.trim().is_empty() {
            File::default()
        } else {
            // A file that holds comments only is one `null`.
            let file: Option<File> = serde_saphyr::from_str(text).map_err(|e| {
                let place = e.location().map(|l| format!(" at line {}, column {}", l.line(), l.column()));
                let message = without_values(&e.without_snippet().to_string());
                error(format!("not a kubeconfig{}: {message}", place.unwrap_or_default()))
            })?;
            file.unwrap_or_default()
        };
        if set(file.kind.as_ref()).is_some_and(|kind| kind != KIND) {
            return Err(error(format!("its kind is another; expected kind: {KIND}")));
        }
        if set(file.api_version.as_ref()).is_some_and(|version| version != API_VERSION) {
            return Err(error(format!("its apiVersion is another; expected apiVersion: {API_VERSION}")));
        }
        let contexts = file.contexts.unwrap_or_default().into_iter().map(|c| (c.name, c.context));
        let clusters = file.clusters.unwrap_or_default().into_iter().map(|c| (c.name, c.cluster));
        let users = file.users.unwrap_or_default().into_iter().map(|u| (u.name, u.user));
        let twice = |section: &str, name: &str| {
            error(format!("{section} holds two entries of the name {name:?}; remove one"))
        };
        let mut kubeconfig = Self {
            current_context: file.current_context.filter(|name| !name.is_empty()),
            contexts: by_name(contexts).map_err(|name| twice("contexts", &name))?,
            clusters: by_name(clusters).map_err(|name| twice("clusters", &name))?,
            users: by_name(users).map_err(|name| twice("users", &name))?,
        };
        kubeconfig.resolve(path.parent().unwrap_or(Path::new("")));
        Ok(kubeconfig)
    }

    /// Takes over from a later file what no file before it had.
    pub(super) fn merge(&mut self, next: Self) {
        self.current_context = self.current_context.take().or(next.current_context);
        for (name, context) in next.contexts {
            self.contexts.entry(name).or_insert(context);
        }
        for (name, cluster) in next.clusters {
            self.clusters.entry(name).or_insert(cluster);
        }
        for (name, user) in next.users {
            self.users.entry(name).or_insert(user);
        }
    }

    /// Makes paths of files independent of where the process runs.
    fn resolve(&mut self, folder: &Path) {
        let absolute = |path: &mut Option<String>| {
            if let Some(relative) = set(path.as_ref()).filter(|path| Path::new(path).is_relative()) {
                let joined = folder.join(relative);
                *path = Some(std::path::absolute(&joined).unwrap_or(joined).to_string_lossy().into_owned());
            }
        };
        for cluster in self.clusters.values_mut() {
            absolute(&mut cluster.certificate_authority);
        }
        for user in self.users.values_mut() {
            absolute(&mut user.client_certificate);
            absolute(&mut user.client_key);
            absolute(&mut user.token_file);
            // A bare name is looked up on PATH.
            if let Some(exec) = &mut user.exec
                && set(exec.command.as_ref()).is_some_and(|command| command.contains(MAIN_SEPARATOR))
            {
                absolute(&mut exec.command);
            }
        }
    }
}

/// Entries by name, or the name that stands there twice.
fn by_name<T: Default>(
    entries: impl Iterator<Item = (Option<String>, Option<T>)>,
) -> std::result::Result<BTreeMap<String, T>, String> {
    let mut out = BTreeMap::new();
    for (name, entry) in entries {
        let name = name.unwrap_or_default();
        if out.contains_key(&name) {
            return Err(name);
        }
        out.insert(name, entry.unwrap_or_default());
    }
    Ok(out)
}

/// A parser's message without what it could quote of the file: up to the first sign that begins a quotation, and what was
/// expected instead.
pub(super) fn without_values(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let signs = [':', '"', '\'', '`', '[', '{', '(', '<', '*'];
    let Some((what, quoted)) = line.split_once(signs) else {
        return crate::text::short(line.as_bytes());
    };
    // serde's own words: they end the line. Whatever the value was stands before them.
    let expected = match quoted.rsplit_once(", expected ") {
        Some((_, expected)) if what.starts_with("invalid ") && !expected.contains(signs) => expected,
        _ => return crate::text::short(what.as_bytes()),
    };
    crate::text::short(format!("{what}, expected {expected}").as_bytes())
}
