//! [`Tls`]: how to know the server, and who to be to it, as the files and the exec plugin have it now.
//!
//! Invariants:
//! * A whole new rustls configuration is made when a file has changed, so that no session of the old certificate is
//!   resumed under the new one.
//! * Files are compared at each handshake, and at most once in [`LOOK_AGAIN`] in between; [`Tls::take_rotated`] then tells
//!   that new connections are due. Streams that are open go on.
//! * What cannot be used (half a file, a key of another certificate) is told once, and the old goes on.
//!
//! `connect` and `dial` ask for configurations, `call` whether something has rotated, `config` makes it.

mod certificate;
mod validity;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Uri;
use kube_client::Config;
use kube_client::client::{ConfigExt, RustlsTlsError};
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::sign::SingleCertAndKey;
use tokio::time::Instant;

pub(crate) use certificate::Certificate;

use crate::error::{Error, Result};
use crate::exec::{ExecPlugin, SharedCredential};

/// Kubelets and cert-manager rotate long before a certificate expires.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Something, or what is wrong with it: the end of a message.
pub(crate) type Checked<T> = std::result::Result<T, String>;

/// PEM that stands in the kubeconfig, or in a file that is read again as it rotates.
pub(crate) struct Source {
    /// Field of the kubeconfig, with the file it names.
    name: String,
    place: Place,
}

enum Place {
    Inline(Vec<u8>),
    File(PathBuf),
}

/// How a client shows who it is.
pub(crate) enum ClientIdentity {
    /// Not in TLS.
    None,
    /// Certificate and key.
    Pem(Source, Source),
    /// Whatever the plugin gives; maybe no certificate.
    Plugin(Arc<ExecPlugin>),
}

/// TLS towards one API server.
pub(crate) struct Tls {
    /// What to call the configuration in messages.
    source: String,
    authority: Option<Source>,
    insecure: bool,
    identity: ClientIdentity,
    /// What the server's certificate must be for, when it is not the host of the address.
    pub(crate) server_name: Option<ServerName<'static>>,
    state: Mutex<State>,
    rotated: AtomicBool,
}

struct State {
    current: Built,
    /// What `current` is made of.
    material: Material,
    /// The credential of the plugin that was looked at.
    serial: Option<u64>,
    /// `None`: at the next opportunity.
    looked: Option<Instant>,
    /// The last thing that was complained of, so that it is told once.
    complaint: Option<String>,
}

#[derive(Clone)]
struct Built {
    server: Arc<ClientConfig>,
    proxy: Arc<ClientConfig>,
    certificate: Option<Arc<Certificate>>,
}

/// What a configuration is made of.
#[derive(Default, PartialEq)]
struct Material {
    authority: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
    /// The certificate that the plugin gave, by its bytes.
    plugin: Option<Arc<Certificate>>,
}

impl Source {
    /// PEM in the kubeconfig.
    pub(crate) fn inline(field: &str, pem: Vec<u8>) -> Self {
        Self { name: format!("{field}-data"), place: Place::Inline(pem) }
    }

    /// PEM in a file.
    pub(crate) fn file(field: &str, path: PathBuf) -> Self {
        Self { name: format!("{field} {}", path.display()), place: Place::File(path) }
    }

    /// The PEM now.
    pub(crate) fn read(&self) -> Checked<Vec<u8>> {
        match &self.place {
            Place::Inline(pem) => Ok(pem.clone()),
            Place::File(path) => std::fs::read(path).map_err(|e| {
                format!("{} cannot be read: {e}; correct the path or its permissions", self.name)
            }),
        }
    }
}

impl Tls {
    /// Reads and checks what is there. Without `authority` the platform's certificates are trusted.
    pub(crate) fn new(
        source: String,
        authority: Option<Source>,
        insecure: bool,
        identity: ClientIdentity,
        server_name: Option<ServerName<'static>>,
    ) -> Result<Self> {
        let material = Material::read(authority.as_ref(), &identity);
        let made = material.and_then(|material| {
            let built = material.build(authority.as_ref(), insecure, &identity)?;
            Ok((material, built))
        });
        let (material, current) = made.map_err(|e| Error::Config(format!("{source}: {e}")))?;
        let state = State { current, material, serial: None, looked: None, complaint: None };
        let rotated = AtomicBool::new(false);
        let new =
            Self { source, authority, insecure, identity, server_name, state: Mutex::new(state), rotated };
        if let Some(why) = new.state.lock().current.expired() {
            return Err(Error::Config(format!("{}: {}", new.source, new.about_certificate(&why))));
        }
        new.look();
        Ok(new)
    }

    /// For a server without TLS; nothing is read.
    pub(crate) fn unused() -> Result<Self> {
        // Without an authority the platform's certificates would be looked for.
        Self::new(String::new(), None, true, ClientIdentity::None, None)
    }

    /// For a handshake that begins now, with the server itself.
    pub(crate) async fn for_handshake(&self) -> Result<Arc<ClientConfig>> {
        if let ClientIdentity::Plugin(plugin) = &self.identity {
            plugin.credential().await?;
        }
        self.look();
        Ok(Arc::clone(&self.state.lock().current.server))
    }

    /// For a handshake with a proxy: it is checked like the server, and not told who we are.
    pub(crate) fn for_proxy(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.state.lock().current.proxy)
    }

    /// Whether new connections are due since this was asked last; looks at the files when it is time.
    pub(crate) fn take_rotated(&self) -> bool {
        let due = match &self.identity {
            ClientIdentity::Plugin(plugin) => {
                let serial = plugin.current().map(|credential| credential.serial);
                self.state.lock().serial != serial || self.is_time()
            }
            _ => self.is_time(),
        };
        if due {
            self.look();
        }
        self.rotated.load(Ordering::Relaxed) && self.rotated.swap(false, Ordering::Relaxed)
    }

    /// The server did not know the user: files are looked at before the next request.
    pub(crate) fn rejected(&self) {
        self.state.lock().looked = None;
    }

    fn is_time(&self) -> bool {
        self.state.lock().looked.is_none_or(|looked| looked.elapsed() >= LOOK_AGAIN)
    }

    /// Compares with what is there now, and takes it over when it can be used.
    fn look(&self) {
        let mut state = self.state.lock();
        state.looked = Some(Instant::now());
        if let ClientIdentity::Plugin(plugin) = &self.identity {
            state.serial = plugin.current().map(|credential| credential.serial);
        }
        let complaint = match Material::read(self.authority.as_ref(), &self.identity) {
            Ok(material) if material == state.material => state.current.concern(),
            Ok(material) => match material.build(self.authority.as_ref(), self.insecure, &self.identity) {
                // Certificates are renewed before they expire; this is an old file that came back.
                Ok(built) if built.expired().is_some() && state.current.expired().is_none() => {
                    built.expired()
                }
                Ok(built) => {
                    tracing::info!("{}: certificates have rotated; new connections use them", self.source);
                    state.complaint = None;
                    let concern = built.concern();
                    state.current = built;
                    state.material = material;
                    self.rotated.store(true, Ordering::Relaxed);
                    concern
                }
                Err(why) => Some(format!("{why}; going on with the certificates read before")),
            },
            Err(why) => Some(format!("{why}; going on with the certificates read before")),
        };
        if complaint != state.complaint {
            if let Some(complaint) = &complaint {
                tracing::warn!("{}: {}", self.source, self.about_certificate(complaint));
            }
            state.complaint = complaint;
        }
    }

    /// `why`, with the certificate it is about if it begins like a sentence on one.
    fn about_certificate(&self, why: &str) -> String {
        let name = match &self.identity {
            ClientIdentity::Pem(certificate, _) => certificate.name.clone(),
            ClientIdentity::Plugin(plugin) => format!("clientCertificateData of {plugin}"),
            ClientIdentity::None => return why.to_owned(),
        };
        match why.strip_prefix("the certificate ") {
            Some(rest) => format!("{name} {rest}"),
            None => why.to_owned(),
        }
    }
}

impl Built {
    /// Why the server will not take the certificate any more.
    fn expired(&self) -> Option<String> {
        self.certificate.as_ref()?.expired()
    }

    /// What somebody should know of the certificate.
    fn concern(&self) -> Option<String> {
        let certificate = self.certificate.as_ref()?;
        certificate.expired().or_else(|| certificate.not_yet_valid())
    }
}

impl Material {
    fn read(authority: Option<&Source>, identity: &ClientIdentity) -> Checked<Self> {
        let mut material = Self {
            authority: authority.map(Source::read).transpose()?.unwrap_or_default(),
            ..Self::default()
        };
        match identity {
            ClientIdentity::None => {}
            ClientIdentity::Pem(certificate, key) => {
                material.certificate = certificate.read()?;
                material.key = key.read()?;
            }
            ClientIdentity::Plugin(plugin) => {
                material.plugin = plugin.current().and_then(|c: SharedCredential| c.certificate.clone());
            }
        }
        Ok(material)
    }

    fn build(&self, authority: Option<&Source>, insecure: bool, identity: &ClientIdentity) -> Checked<Built> {
        // kube-client knows how to trust the platform, a bundle or everybody; the rest of its configuration is not used.
        let mut config = Config::new(Uri::from_static("https://localhost"));
        config.accept_invalid_certs = insecure;
        if let Some(source) = authority {
            config.root_cert = Some(bundle(source, &self.authority)?);
        }
        if insecure {
            // Nor are the platform's certificates looked for, which a container may lack.
            config.root_cert.get_or_insert_default();
        }
        let proxy = config.rustls_client_config().map_err(|e| explain(&e))?;
        let certificate = match identity {
            ClientIdentity::None => None,
            ClientIdentity::Pem(certificate, key) => {
                let names = (certificate.name.as_str(), key.name.as_str());
                Some(Arc::new(Certificate::from_pem(names, &self.certificate, &self.key)?))
            }
            ClientIdentity::Plugin(_) => self.plugin.clone(),
        };
        let mut server = proxy.clone();
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        if let Some(certificate) = &certificate {
            let key = SingleCertAndKey::from(Arc::clone(&certificate.key));
            server.client_auth_cert_resolver = Arc::new(key);
        }
        Ok(Built { server: Arc::new(server), proxy: Arc::new(proxy), certificate })
    }
}

fn bundle(source: &Source, pem: &[u8]) -> Checked<Vec<Vec<u8>>> {
    let certificates: std::result::Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(pem).map(|der| der.map(|der| der.to_vec())).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(format!("{} is not PEM; expected \"-----BEGIN CERTIFICATE-----\"", source.name)),
    }
}

fn explain(error: &kube_client::Error) -> String {
    match error {
        kube_client::Error::RustlsTls(RustlsTlsError::AddRootCertificate(e)) => format!(
            "certificate authority cannot be used: {e}; set certificate-authority to the PEM of the server's CA"
        ),
        other => other.to_string(),
    }
}
