//! From a kubeconfig, or a pod's service account, to what the transport and the calls need.
//!
//! Looked for as kubectl does: the file that was named, `KUBECONFIG`, `~/.kube/config`, then the service account.
//! kube-client reads, merges and decodes; here the choice is checked first, so that an error names the file, what is
//! wrong in it and the remedy. kube-client's types end in this file and in `auth`. Contents of the file never reach a
//! message: a token may stand where something else was expected.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use kube_client::Config;
use kube_client::client::{ConfigExt, RustlsTlsError};
use kube_client::config::{
    AuthInfo, ExecInteractiveMode, InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError,
    LoadDataError,
};
use rustls::pki_types::ServerName;
use secrecy::ExposeSecret as _;
use tokio::time::timeout;

use crate::auth::{Authorizer, explain};
use crate::error::{Error, Result};
use crate::options::{ClientOptions, Impersonation};

/// A plugin may wait for somebody to log in, but not for ever.
const PLUGIN_TIME: Duration = Duration::from_secs(120);

/// A configuration that has been read and checked.
pub(crate) struct Loaded {
    /// Scheme, host, port and path prefix, without a `/` at the end.
    pub(crate) base: String,
    /// Host and port.
    pub(crate) host: String,
    pub(crate) default_namespace: String,
    pub(crate) tls: rustls::ClientConfig,
    pub(crate) server_name: Option<ServerName<'static>>,
    pub(crate) authorizer: Authorizer,
    pub(crate) impersonate: Option<Impersonation>,
}

/// Reads the configuration that the options ask for.
pub(crate) async fn load(options: &ClientOptions) -> Result<Loaded> {
    // Two providers could be compiled in by others; rustls then wants to be told.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let (source, config) = if let Some(server) = &options.server {
        if options.kubeconfig.is_some() || options.context.is_some() {
            let message = "a server address without a kubeconfig, or a kubeconfig: name one of the two";
            return Err(Error::Config(message.to_owned()));
        }
        ("server address".to_owned(), Config::new(parse_server(server, "server address")?))
    } else {
        match find(options.kubeconfig.as_deref(), &Environment::of_process())? {
            Some((source, kubeconfig)) => {
                let config = choose(&source, kubeconfig, options.context.as_deref()).await?;
                (source, config)
            }
            None => ("service account".to_owned(), in_cluster()?),
        }
    };
    let name = source.clone();
    let prepared = tokio::task::spawn_blocking(move || prepare(&source, config));
    match timeout(PLUGIN_TIME, prepared).await {
        Ok(Ok(loaded)) => loaded,
        // kube-client panics on such a token.
        Ok(Err(_)) => Err(Error::Config(format!(
            "{name}: exec plugin for credentials printed a token that a header cannot carry"
        ))),
        Err(_) => Err(Error::Config(format!(
            "{name}: exec plugin for credentials gave nothing within {PLUGIN_TIME:?}; run its command by hand"
        ))),
    }
}

/// Where kubectl would look.
struct Environment {
    kubeconfig: OsString,
    home: Option<PathBuf>,
    pod: bool,
}

impl Environment {
    fn of_process() -> Self {
        Self {
            kubeconfig: std::env::var_os("KUBECONFIG").unwrap_or_default(),
            home: std::env::home_dir(),
            pod: std::env::var_os("KUBERNETES_SERVICE_HOST").is_some(),
        }
    }
}

/// The kubeconfig and what to call it in messages; `None` when there is none and a service account may be used.
fn find(named: Option<&Path>, environment: &Environment) -> Result<Option<(String, Kubeconfig)>> {
    if let Some(path) = named {
        return read(path).map(Some);
    }
    let mut tried = Vec::new();
    let mut merged: Option<(String, Kubeconfig)> = None;
    let mut paths: Vec<PathBuf> = std::env::split_paths(&environment.kubeconfig).collect();
    paths.retain(|path| !path.as_os_str().is_empty());
    if paths.is_empty() {
        paths.extend(environment.home.as_ref().map(|home| home.join(".kube").join("config")));
    }
    for path in &paths {
        // As kubectl: files of a list may be missing.
        if !path.exists() {
            tried.push(path.display().to_string());
            continue;
        }
        let (source, next) = read(path)?;
        merged = Some(match merged {
            None => (source, next),
            Some((sources, before)) => {
                let sources = format!("{sources}:{source}");
                let both = before.merge(next).map_err(|e| Error::Config(format!("{sources}: {e}")))?;
                (sources, both)
            }
        });
    }
    if merged.is_none() && !environment.pod {
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
    let error = |message: String| Error::Config(format!("kubeconfig {source}: {message}"));
    let kubeconfig = Kubeconfig::read_from(path).map_err(|e| match e {
        KubeconfigError::ReadConfig(e, _) if e.kind() == std::io::ErrorKind::NotFound => {
            error("there is no such file; name another with --kubeconfig or KUBECONFIG".to_owned())
        }
        KubeconfigError::ReadConfig(e, _) => error(format!("cannot be read: {e}; check its permissions")),
        KubeconfigError::Parse(e) => {
            let place = e.location().map(|l| format!(" at line {}, column {}", l.line(), l.column()));
            let message = without_values(&e.without_snippet().to_string());
            error(format!("not a kubeconfig{}: {message}", place.unwrap_or_default()))
        }
        other => error(other.to_string()),
    })?;
    Ok((source, kubeconfig))
}

/// A parser's message, cut before it could quote the file.
fn without_values(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let mut out = String::new();
    for (index, part) in line.split('"').enumerate() {
        out.push_str(if index % 2 == 0 { part } else { "\"…\"" });
    }
    crate::answer::short(out.as_bytes())
}

/// The configuration of a context, once it is known to be complete.
async fn choose(source: &str, mut kubeconfig: Kubeconfig, context: Option<&str>) -> Result<Config> {
    let error = |message: String| Error::Config(format!("kubeconfig {source}: {message}"));
    let names = |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let contexts = names(kubeconfig.contexts.iter().map(|c| c.name.as_str()).collect());
    let chosen = context.or(kubeconfig.current_context.as_deref()).filter(|name| !name.is_empty());
    let Some(chosen) = chosen.map(str::to_owned) else {
        return Err(error(format!("no current-context; choose one with --context (there are: {contexts})")));
    };
    let found = kubeconfig.contexts.iter().find(|c| c.name == chosen).and_then(|c| c.context.clone());
    let Some(found) = found else {
        return Err(error(format!("no context {chosen:?}; there are: {contexts}")));
    };
    let cluster =
        kubeconfig.clusters.iter().find(|c| c.name == found.cluster).and_then(|c| c.cluster.clone());
    let Some(cluster) = cluster else {
        let clusters = names(kubeconfig.clusters.iter().map(|c| c.name.as_str()).collect());
        let message = format!("context {chosen:?} names cluster {:?}; there are: {clusters}", found.cluster);
        return Err(error(message));
    };
    if let Some(proxy) = cluster.proxy_url.filter(|proxy| !proxy.is_empty()) {
        let host =
            proxy.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default();
        let message =
            format!("cluster {:?} has proxy-url {host}: proxies are not supported yet", found.cluster);
        return Err(error(message));
    }
    let server = cluster.server.unwrap_or_default();
    parse_server(&server, &format!("kubeconfig {source}: server of cluster {:?}", found.cluster))?;
    if let Some(user) = found.user.filter(|user| !user.is_empty()) {
        let Some(info) = kubeconfig.auth_infos.iter_mut().find(|u| u.name == user) else {
            let users = names(kubeconfig.auth_infos.iter().map(|u| u.name.as_str()).collect());
            return Err(error(format!("context {chosen:?} names user {user:?}; there are: {users}")));
        };
        // A plugin that may ask questions would wait for ever where nobody can answer.
        if let Some(exec) = info.auth_info.as_mut().and_then(|info| info.exec.as_mut()) {
            let if_available = !matches!(exec.interactive_mode, Some(ExecInteractiveMode::Always));
            if if_available && !std::io::stdin().is_terminal() {
                exec.interactive_mode = Some(ExecInteractiveMode::Never);
            }
        }
    }
    let options = KubeConfigOptions { context: Some(chosen), cluster: None, user: None };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    config.map_err(|e| error(explain_kubeconfig(&e)))
}

fn in_cluster() -> Result<Config> {
    Config::incluster().map_err(|e| {
        let what = match &e {
            InClusterError::ReadDefaultNamespace(_) => "its namespace file",
            InClusterError::ReadCertificateBundle(_) | InClusterError::ParseCertificates(_) => "its ca.crt",
            _ => "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT",
        };
        Error::Config(format!(
            "service account of the pod, {what}: {e}; set automountServiceAccountToken, or name a kubeconfig"
        ))
    })
}

fn explain_kubeconfig(error: &KubeconfigError) -> String {
    let data = |field: &str, error: &LoadDataError| match error {
        LoadDataError::ReadFile(e, path) => {
            format!("{field} {} cannot be read: {e}; correct the path or its permissions", path.display())
        }
        LoadDataError::DecodeBase64(e) => format!("{field}-data is not base64: {e}"),
        LoadDataError::NoBase64DataOrFile => {
            format!("{field} is missing: client-certificate and client-key go together")
        }
    };
    match error {
        KubeconfigError::LoadCertificateAuthority(e) => data("certificate-authority", e),
        KubeconfigError::LoadClientCertificate(e) => data("client-certificate", e),
        KubeconfigError::LoadClientKey(e) => data("client-key", e),
        KubeconfigError::ParseCertificates(_) => {
            "certificate-authority is not PEM; expected \"-----BEGIN CERTIFICATE-----\"".to_owned()
        }
        other => other.to_string(),
    }
}

fn explain_tls(error: &kube_client::Error) -> String {
    match error {
        kube_client::Error::InferKubeconfig(e) => explain_kubeconfig(e),
        kube_client::Error::Auth(e) => explain(e),
        kube_client::Error::RustlsTls(e) => match e {
            RustlsTlsError::InvalidIdentityPem(_) | RustlsTlsError::UnknownPrivateKeyFormat => {
                "client-certificate or client-key is not PEM of a certificate and its key".to_owned()
            }
            RustlsTlsError::MissingCertificate => "client-certificate holds no certificate".to_owned(),
            RustlsTlsError::MissingPrivateKey => "client-key holds no PKCS#8, PKCS#1 or SEC1 key".to_owned(),
            RustlsTlsError::InvalidPrivateKey(e) => {
                format!("client-key cannot be used: {e}; does it belong to client-certificate?")
            }
            RustlsTlsError::AddRootCertificate(e) => format!(
                "certificate authority cannot be used: {e}; set certificate-authority to the PEM of the server's CA"
            ),
            other => other.to_string(),
        },
        other => other.to_string(),
    }
}

fn parse_server(server: &str, what: &str) -> Result<Uri> {
    let error = |why: &str| Error::Config(format!("{what}: {why}; expected https://HOST:PORT"));
    let uri: Uri = server.trim().parse().map_err(|_| error("not an address"))?;
    match uri.scheme_str() {
        Some("http" | "https") => {}
        _ => return Err(error(&format!("{server:?} does not begin with https:// or http://"))),
    }
    let authority = uri.authority().ok_or_else(|| error("no host"))?;
    if authority.as_str().contains('@') {
        return Err(error(
            "a user name in the address is not supported, put it into a user of the kubeconfig",
        ));
    }
    if uri.query().is_some() {
        return Err(error("it has a query"));
    }
    Ok(uri)
}

/// Certificates and credentials; blocks while it reads files and runs plugins.
fn prepare(source: &str, mut config: Config) -> Result<Loaded> {
    let error = |message: String| Error::Config(format!("{source}: {message}"));
    let authorizer = authorizer(&config, source)?;
    let https = config.cluster_url.scheme_str() == Some("https");
    if matches!(authorizer, Authorizer::Layer(_)) {
        // The plugin has given a token; asking it for a certificate would run it once more.
        config.auth_info.exec = None;
    }
    if config.accept_invalid_certs {
        tracing::warn!(
            "{source}: insecure-skip-tls-verify is set: whoever answers is taken for the API server"
        );
        // Nor are the platform's certificates looked for, which a container may lack.
        config.root_cert.get_or_insert_default();
    }
    if config.proxy_url.is_some() {
        tracing::info!("HTTPS_PROXY is set and not used: proxies are not supported yet");
    }
    let tls = if https {
        config.rustls_client_config().map_err(|e| error(explain_tls(&e)))?
    } else {
        // Never used.
        let roots = Arc::new(rustls::RootCertStore::empty());
        rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()
    };
    let server_name = config.tls_server_name.clone().filter(|name| !name.is_empty());
    let server_name = server_name
        .map(|name| {
            ServerName::try_from(name.clone())
                .map_err(|_| error(format!("tls-server-name {name:?} is not a host name")))
        })
        .transpose()?;
    Ok(Loaded {
        base: config.cluster_url.to_string().trim_end_matches('/').to_owned(),
        host: config.cluster_url.authority().map(ToString::to_string).unwrap_or_default(),
        impersonate: impersonation(&config.auth_info),
        default_namespace: Some(config.default_namespace)
            .filter(|n| !n.is_empty())
            .unwrap_or("default".into()),
        tls,
        server_name,
        authorizer,
    })
}

/// Credentials in kube-client's order of precedence.
fn authorizer(config: &Config, source: &str) -> Result<Authorizer> {
    let info = &config.auth_info;
    let password = info.username.is_some() && info.password.is_some();
    if info.auth_provider.is_none() && !password {
        if let Some(token) = info.token.as_ref().filter(|token| !token.expose_secret().trim().is_empty()) {
            return Authorizer::token(token.expose_secret(), &format!("{source}: token of the user"));
        }
        if let Some(file) = info.token_file.as_ref().filter(|file| !file.is_empty()) {
            return Authorizer::token_file(PathBuf::from(file), source);
        }
    }
    if info.auth_provider.is_none() && !password && info.exec.is_none() {
        return Ok(Authorizer::None);
    }
    match config.auth_layer() {
        Ok(Some(layer)) => Ok(Authorizer::layer(&layer)),
        Ok(None) => Ok(Authorizer::None),
        Err(kube_client::Error::Auth(e)) => {
            let command = info.exec.as_ref().and_then(|exec| exec.command.as_deref()).unwrap_or_default();
            let command = if command.is_empty() { String::new() } else { format!(" ({command})") };
            Err(Error::Config(format!("{source}: {}{command}", explain(&e))))
        }
        Err(other) => {
            Err(Error::Config(format!("{source}: {}", crate::answer::short(other.to_string().as_bytes()))))
        }
    }
}

fn impersonation(info: &AuthInfo) -> Option<Impersonation> {
    let user = info.impersonate.clone().unwrap_or_default();
    let groups = info.impersonate_groups.clone().unwrap_or_default();
    let uid = info.impersonate_uid.clone();
    let extra: std::collections::BTreeMap<_, _> =
        info.impersonate_user_extra.clone().unwrap_or_default().into_iter().collect();
    let any = !user.is_empty() || !groups.is_empty() || uid.is_some() || !extra.is_empty();
    any.then_some(Impersonation { user, groups, uid, extra })
}

#[cfg(test)]
mod tests;
