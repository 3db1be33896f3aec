//! [`ClientConfig`]: a server and credentials from memory; [`ConfigOverrides`]: what replaces parts of a kubeconfig.

use std::fmt;
use std::path::PathBuf;

use crate::identity::Impersonation;

/// A server and the credentials for it, as client-go's `rest.Config`; no kubeconfig is read. Empty fields are unset.
///
/// ```no_run
/// use pilothouse_client::{Client, ClientConfig, ClientOptions};
///
/// # async fn example(ca: Vec<u8>, token: String) -> pilothouse_client::Result<()> {
/// let config = ClientConfig { ca, token, ..ClientConfig::new("https://10.0.0.1:6443") };
/// let client = Client::new(ClientOptions { config: Some(config), ..ClientOptions::default() }).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ClientConfig {
    /// Address of the server, as `https://10.0.0.1:6443`.
    pub server: String,
    /// PEM of the certificates that the server's certificate is checked against; the platform's when it is empty.
    pub ca: Vec<u8>,
    /// Do not check the server's certificate. Refused beside `ca`.
    pub insecure_skip_tls_verify: bool,
    /// Name that the server's certificate must be for, when it is not the host of the address.
    pub tls_server_name: String,
    /// Bearer token.
    pub token: String,
    /// File with a bearer token, which is read again as it changes. It goes before `token`.
    pub token_file: PathBuf,
    /// User name for basic authentication.
    pub username: String,
    /// Password for basic authentication.
    pub password: String,
    /// PEM of a client certificate.
    pub client_certificate: Vec<u8>,
    /// PEM of the key of `client_certificate`.
    pub client_key: Vec<u8>,
    /// Proxy, as the `proxy-url` of a kubeconfig; that of the environment when it is empty.
    pub proxy_url: String,
    /// Namespace for [`Client::default_namespace`](crate::Client::default_namespace).
    pub namespace: String,
}

impl ClientConfig {
    /// A server without credentials.
    #[must_use]
    pub fn new(server: impl Into<String>) -> Self {
        Self { server: server.into(), ..Self::default() }
    }
}

// Credentials are not printed.
impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConfig")
            .field("server", &self.server.rsplit('@').next().unwrap_or_default())
            .field("insecure_skip_tls_verify", &self.insecure_skip_tls_verify)
            .field("tls_server_name", &self.tls_server_name)
            .field("token_file", &self.token_file)
            .field("username", &self.username)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

/// What replaces parts of a kubeconfig, as clientcmd's `ConfigOverrides` and the options `--cluster`, `--user`,
/// `--namespace` and `--as` of kubectl.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigOverrides {
    /// Name of the kubeconfig's cluster, instead of that of the context.
    pub cluster: Option<String>,
    /// Name of the kubeconfig's user, instead of that of the context.
    pub user: Option<String>,
    /// Namespace, instead of that of the context, the pod or the [`ClientConfig`].
    pub namespace: Option<String>,
    /// User to act as, instead of the one that the kubeconfig's user names.
    pub impersonate: Option<Impersonation>,
}
