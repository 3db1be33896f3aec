//! From the chosen cluster and user to [`Loaded`]: certificates, proxy, credentials in kubectl's order of precedence.

use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Uri;
use rustls::pki_types::ServerName;
use tokio::runtime::Handle;

use super::choose::Chosen;
use super::file::{Cluster, User, set};
use super::{Loaded, parse_server, plugin};
use crate::credentials::Authorizer;
use crate::credentials::ExecPlugin;
use crate::credentials::{Checked, ClientIdentity, Source, Tls};
use crate::error::{Error, Result};
use crate::identity::Impersonation;
use crate::observer::RequestObserver;
use crate::proxy::{Protocol, Proxy, ProxyVariables, is_local};

/// Certificates and credentials; an exec plugin runs.
pub(super) async fn prepare(
    chosen: Chosen,
    variables: &ProxyVariables,
    observer: Option<Arc<dyn RequestObserver>>,
) -> Result<Loaded> {
    let Chosen { source, cluster_name, cluster, user, namespace, .. } = &chosen;
    let error = |message: String| Error::Config(format!("{source}: {message}"));
    let what = if cluster_name.is_empty() {
        source.clone()
    } else {
        format!("{source}: server of cluster {cluster_name:?}")
    };
    let server = parse_server(set(cluster.server.as_ref()).unwrap_or_default(), &what)?;
    let proxy = match set(cluster.proxy_url.as_ref()) {
        Some(url) => Proxy::parse(url, &server, &format!("proxy-url of cluster {cluster_name:?}")).map(Some),
        None => variables.proxy(&server),
    };
    let proxy = proxy.map_err(error)?;
    let mut method = method(&chosen)?;
    if !matches!(method, Method::None) && is_readable_on_the_way(&server, proxy.as_ref()) {
        tracing::warn!(
            event = "credentials_withheld",
            "{source}: the credentials of the user are not sent over plain http; use https:// in {what}"
        );
        method = Method::None;
    }
    let plugin = match &method {
        Method::Plugin(exec) => {
            let command = plugin::command(exec, &chosen)?;
            Some(Arc::new(ExecPlugin::new(command, Handle::current(), observer)))
        }
        _ => None,
    };
    if let Some(plugin) = &plugin {
        plugin.credential().await?;
    }
    // With another credential a certificate that has expired is not needed.
    let alone = matches!(method, Method::None);
    let tls = tls(&chosen, &server, proxy.as_ref(), plugin.as_ref(), alone).await?;
    let authorizer = match method {
        Method::None => Authorizer::None,
        Method::Token(token) => Authorizer::token(token, &format!("{source}: token of the user"))?,
        Method::TokenFile(path, token) => Authorizer::token_file(PathBuf::from(path), token, source).await?,
        Method::Basic(name, password) => Authorizer::basic(name, password),
        Method::Plugin(_) => plugin.map_or(Authorizer::None, Authorizer::Plugin),
    };
    Ok(Loaded {
        base: server.to_string().trim_end_matches('/').to_owned(),
        host: server.authority().map(ToString::to_string).unwrap_or_default(),
        impersonate: impersonation(user),
        default_namespace: namespace.clone().unwrap_or_else(|| "default".to_owned()),
        tls: Arc::new(tls),
        proxy,
        authorizer,
    })
}

/// Whether anybody between here and the server could read what is sent. kubectl shows no credentials over plain HTTP
/// whatsoever; to this very machine they are safe, unless a proxy decides which machine that is.
fn is_readable_on_the_way(server: &Uri, proxy: Option<&Proxy>) -> bool {
    server.scheme_str() != Some("https") && (proxy.is_some() || !is_local(server))
}

/// How a user shows who it is, certificates apart.
enum Method<'a> {
    None,
    Token(&'a str),
    /// A file, and the token to use as long as it cannot be read.
    TokenFile(&'a str, Option<&'a str>),
    Basic(&'a str, &'a str),
    Plugin(&'a super::file::Exec),
}

/// A plugin is for those who have nothing else; what is there twice is an error, as for kubectl.
fn method(chosen: &Chosen) -> Result<Method<'_>> {
    let Chosen { source, user, .. } = chosen;
    let error = |message: &str| Err(Error::Config(format!("{source}: {message}")));
    let token = user.token.as_deref().filter(|token| !token.trim().is_empty());
    let file = set(user.token_file.as_ref());
    let name = set(user.username.as_ref());
    let password = set(user.password.as_ref()).unwrap_or_default();
    if name.is_some() && (token.is_some() || file.is_some()) {
        return error("the user has a token and a user name; remove one of the two");
    }
    if user.exec.is_some() && user.auth_provider.is_some() {
        return error("the user has exec and auth-provider; remove one of the two");
    }
    if let Some(path) = file {
        return Ok(Method::TokenFile(path, token));
    }
    if let Some(token) = token {
        return Ok(Method::Token(token));
    }
    if let Some(name) = name {
        return Ok(Method::Basic(name, password));
    }
    if let Some(provider) = &user.auth_provider {
        return error(&refusal(set(provider.name.as_ref()).unwrap_or_default(), &chosen.user_name));
    }
    let certificate = set(user.client_certificate.as_ref()).or(set(user.client_certificate_data.as_ref()));
    match &user.exec {
        Some(exec) if certificate.is_none() => Ok(Method::Plugin(exec)),
        _ => Ok(Method::None),
    }
}

async fn tls(
    chosen: &Chosen,
    server: &Uri,
    proxy: Option<&Proxy>,
    plugin: Option<&Arc<ExecPlugin>>,
    alone: bool,
) -> Result<Tls> {
    let Chosen { source, cluster, user, .. } = chosen;
    let error = |message: String| Error::Config(format!("{source}: {message}"));
    let server_name = set(cluster.tls_server_name.as_ref())
        .map(|name| {
            ServerName::try_from(name.to_owned())
                .map_err(|_| error("tls-server-name is not a host name".to_owned()))
        })
        .transpose()?;
    let insecure = cluster.insecure_skip_tls_verify == Some(true);
    let authority = authority(cluster).map_err(error)?;
    if insecure && authority.is_some() {
        return Err(error(
            "the cluster has insecure-skip-tls-verify and certificate-authority, which would not be used; remove one of the two"
                .to_owned(),
        ));
    }
    let secure = server.scheme_str() == Some("https");
    if !secure && proxy.is_none_or(|proxy| proxy.protocol != Protocol::Https) {
        return Tls::unused().await;
    }
    if insecure {
        let whose = if secure { "the server's" } else { "the proxy's" };
        tracing::warn!(
            event = "tls_unverified",
            "{source}: insecure-skip-tls-verify is set: {whose} certificate is not verified"
        );
    }
    let certificate = pem("client-certificate", &user.client_certificate, &user.client_certificate_data);
    let key = pem("client-key", &user.client_key, &user.client_key_data);
    let identity = match (certificate.map_err(error)?, key.map_err(error)?, plugin) {
        (Some(certificate), Some(key), _) => ClientIdentity::Pem(certificate, key),
        (None, None, None) => ClientIdentity::None,
        (None, None, Some(plugin)) => ClientIdentity::Plugin(Arc::clone(plugin)),
        (Some(_), None, _) => {
            return Err(error(
                "client-key is missing: client-certificate and client-key go together".to_owned(),
            ));
        }
        (None, Some(_), _) => {
            let message = "client-certificate is missing: client-certificate and client-key go together";
            return Err(error(message.to_owned()));
        }
    };
    let tls = Tls::new(source.clone(), authority, insecure, identity, server_name).await?;
    if alone {
        tls.refuse_expired()?;
    }
    Ok(tls)
}

/// Where the certificates of the cluster's authority stand.
pub(super) fn authority(cluster: &Cluster) -> Checked<Option<Source>> {
    let (file, data) = (&cluster.certificate_authority, &cluster.certificate_authority_data);
    pem("certificate-authority", file, data)
}

/// Data in the kubeconfig goes before a file.
fn pem(field: &str, file: &Option<String>, data: &Option<String>) -> Checked<Option<Source>> {
    if let Some(data) = set(data.as_ref()) {
        // YAML may fold it into lines.
        let data: String = data.split_whitespace().collect();
        let pem = BASE64_STANDARD.decode(data).map_err(|_| {
            format!("{field}-data is not base64; expected the base64 of a PEM file, in one line")
        })?;
        return Ok(Some(Source::inline(field, pem)));
    }
    Ok(set(file.as_ref()).map(|path| Source::file(field, PathBuf::from(path))))
}

/// Why the auth-provider `name` of the kubeconfig's user `user` is refused, and what to use instead.
fn refusal(name: &str, user: &str) -> String {
    let (problem, remedy) = match name {
        // Where refresh tokens rotate (Keycloak, Okta, Dex), a renewal that is not written back to the kubeconfig ends the
        // user's login, kubectl's included.
        "oidc" => (
            "auth-provider oidc is not supported, since a client that renews its token can end the login of other clients",
            "use the exec plugin kubelogin: `kubectl oidc-login setup` prints the entry for the kubeconfig",
        ),
        "gcp" => (
            "auth-provider gcp was removed from Kubernetes clients",
            "use the exec plugin gke-gcloud-auth-plugin: gcloud container clusters get-credentials",
        ),
        "azure" => (
            "auth-provider azure was removed from Kubernetes clients",
            "use the exec plugin kubelogin: kubelogin convert-kubeconfig",
        ),
        _ => ("auth-provider: its name is not known", "use an exec plugin of your provider"),
    };
    format!("user {user:?}: {problem}; {remedy}")
}

fn impersonation(user: &User) -> Option<Impersonation> {
    let extra = user.as_user_extra.clone().unwrap_or_default();
    let out = Impersonation {
        user: user.impersonate.clone().unwrap_or_default(),
        groups: user.as_groups.clone().unwrap_or_default(),
        uid: user.as_uid.clone().filter(|uid| !uid.is_empty()),
        extra: extra.into_iter().map(|(key, values)| (key, values.unwrap_or_default())).collect(),
    };
    (out != Impersonation::default()).then_some(out)
}
