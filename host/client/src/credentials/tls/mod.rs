//! [`Tls`]: the rustls configuration of one API server, with the authority and the client certificate that the files and the
//! exec plugin hold now.
//!
//! Invariants:
//! * A whole new rustls configuration is made when a file has changed, so that no session of the old certificate is
//!   resumed under the new one.
//! * Files are compared at each handshake, and in between when they are a minute old: the first request after that has them
//!   read in the background, and [`Tls::rotations`] tells later ones that new connections are due. The next request after
//!   a refused one waits for them. A file system that hangs delays it by a second, and no other call, by [`FileReader`].
//! * Files that cannot be used (half written, a key of another certificate) are logged once, and the old ones stay in use.
//!
//! `transport` asks for configurations, and whether certificates have rotated; `config` makes it.

mod trust;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;

use trust::{Trust, authorities, client_config};

use super::certificate::Certificate;
use super::exec::ExecPlugin;
use super::file_reader::{FileReader, blocking};
use crate::error::{Error, Result};

/// Something, or what is wrong with it: the end of a message.
pub(crate) type Checked<T> = std::result::Result<T, String>;

/// PEM in the kubeconfig, or in a file that is read again as it rotates.
pub(crate) struct Source {
    /// Field of the kubeconfig, with the file it names.
    name: String,
    place: PemLocation,
}

enum PemLocation {
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
    sources: Arc<Sources>,
    insecure: bool,
    /// What the server's certificate must be for, when it is not the host of the address.
    pub(crate) server_name: Option<ServerName<'static>>,
    state: Mutex<TlsState>,
    reading: FileReader<Checked<Material>>,
    /// How often `current` was replaced.
    rotations: AtomicU64,
}

/// Where everything comes from.
struct Sources {
    authority: Option<Source>,
    identity: ClientIdentity,
}

struct TlsState {
    current: Built,
    /// What `current` is made of.
    material: Material,
    /// The credential of the plugin that was looked at.
    serial: Option<u64>,
    /// The warning that was logged last, so that it is logged once.
    complaint: Option<String>,
}

#[derive(Clone)]
struct Built {
    server: Arc<ClientConfig>,
    proxy: Arc<ClientConfig>,
    certificate: Option<Arc<Certificate>>,
    /// Certificates of the authority that cannot be used.
    skipped: Option<String>,
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
        Self { name: format!("{field}-data"), place: PemLocation::Inline(pem) }
    }

    /// PEM in a file.
    pub(crate) fn file(field: &str, path: PathBuf) -> Self {
        Self { name: format!("{field} {}", path.display()), place: PemLocation::File(path) }
    }

    /// The PEM now.
    pub(crate) fn read(&self) -> Checked<Vec<u8>> {
        match &self.place {
            PemLocation::Inline(pem) => Ok(pem.clone()),
            PemLocation::File(path) => std::fs::read(path).map_err(|e| {
                format!("{} cannot be read: {e}; correct the path or its permissions", self.name)
            }),
        }
    }
}

impl Tls {
    /// Reads and checks what is there. Without `authority` the platform's certificates are trusted.
    pub(crate) async fn new(
        source: String,
        authority: Option<Source>,
        insecure: bool,
        identity: ClientIdentity,
        server_name: Option<ServerName<'static>>,
    ) -> Result<Self> {
        let sources = Arc::new(Sources { authority, identity });
        let (serial, certificate) = sources.credential();
        let reader = Arc::clone(&sources);
        let made = blocking(move || {
            let material = Material { plugin: certificate, ..reader.read()? };
            // The platform's certificates are files as well.
            let built = reader.build(&material, insecure)?;
            Ok((material, built))
        });
        let (material, current) = made.await?.map_err(|e: String| Error::Config(format!("{source}: {e}")))?;
        let reading = FileReader::new(format!("{source}: files of certificates are"));
        let state = Mutex::new(TlsState { current, material, serial, complaint: None });
        let rotations = AtomicU64::new(0);
        let new = Self { source, sources, insecure, server_name, state, reading, rotations };
        let mut state = new.state.lock();
        let concern = state.current.concern();
        new.complain(&mut state, concern);
        drop(state);
        Ok(new)
    }

    /// An error when the client certificate has expired: for a user who has no other credential.
    pub(crate) fn refuse_expired(&self) -> Result<()> {
        let expired = self.state.lock().current.expired();
        expired.map_or(Ok(()), |why| {
            Err(Error::Config(format!("{}: {}", self.source, self.sources.about_certificate(&why))))
        })
    }

    /// For a server without TLS; nothing is read.
    pub(crate) async fn unused() -> Result<Self> {
        // Without an authority the platform's certificates would be looked for.
        Self::new(String::new(), None, true, ClientIdentity::None, None).await
    }

    /// For a handshake that begins now, with the server itself.
    pub(crate) async fn for_handshake(&self) -> Result<Arc<ClientConfig>> {
        if let ClientIdentity::Plugin(plugin) = &self.sources.identity {
            plugin.credential().await?;
        }
        let read = self.reading.latest(self.reader()).await;
        self.take_over(read);
        Ok(Arc::clone(&self.state.lock().current.server))
    }

    /// For a handshake with a proxy: its certificate is checked as the server's, and it gets no client certificate.
    pub(crate) fn for_proxy(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.state.lock().current.proxy)
    }

    /// How often the certificates were replaced; connections of an earlier count are to be retired. Begins a read of the
    /// files when one is due.
    pub(crate) fn rotations(&self) -> u64 {
        let read = self.reading.ended();
        let new_credential = match &self.sources.identity {
            ClientIdentity::Plugin(_) => self.state.lock().serial != self.sources.credential().0,
            _ => false,
        };
        if read.is_some() || new_credential {
            self.take_over(read);
        }
        if self.reading.is_due() {
            self.reading.begin(self.reader());
        }
        self.rotations.load(Ordering::Relaxed)
    }

    /// The server did not know the user: files are read at once, and the next request waits for them.
    pub(crate) fn rejected(&self) {
        self.reading.refused();
        self.reading.begin(self.reader());
    }

    /// Waits for the files that are read since [`Tls::rejected`], a second at most, for a request that begins now.
    pub(crate) async fn after_rejection(&self) {
        if self.reading.is_refused() {
            let read = self.reading.latest(self.reader()).await;
            self.take_over(read);
        }
    }

    fn reader(&self) -> impl FnOnce() -> Checked<Material> + Send + 'static {
        let sources = Arc::clone(&self.sources);
        move || sources.read()
    }

    /// Compares with what was read, and what the plugin has given, and takes it over when it can be used.
    fn take_over(&self, read: Option<Checked<Material>>) {
        let mut state = self.state.lock();
        let (serial, certificate) = self.sources.credential();
        let new_credential = state.serial != serial;
        state.serial = serial;
        let read = match read {
            Some(read) => read,
            None if new_credential => {
                Ok(Material { authority: state.material.authority.clone(), ..Material::default() })
            }
            None => return,
        };
        let material = read.map(|material| Material { plugin: certificate, ..material });
        let complaint = match material {
            Ok(material) if material == state.material => state.current.concern(),
            Ok(material) => match self.sources.build(&material, self.insecure) {
                // Certificates are renewed before they expire; this is an old file that came back.
                Ok(built) if built.expired().is_some() && state.current.expired().is_none() => {
                    built.expired()
                }
                Ok(built) => {
                    tracing::info!(
                        event = "certificates_rotated",
                        "{}: certificates have rotated; new connections use them",
                        self.source
                    );
                    state.complaint = None;
                    let concern = built.concern();
                    state.current = built;
                    state.material = material;
                    self.rotations.fetch_add(1, Ordering::Relaxed);
                    concern
                }
                Err(why) => Some(format!("{why}; still using the previous certificates")),
            },
            Err(why) => Some(format!("{why}; still using the previous certificates")),
        };
        self.complain(&mut state, complaint);
    }

    /// Logs a complaint once.
    fn complain(&self, state: &mut TlsState, complaint: Option<String>) {
        if complaint != state.complaint {
            if let Some(complaint) = &complaint {
                tracing::warn!(
                    event = "certificate_unusable",
                    "{}: {}",
                    self.source,
                    self.sources.about_certificate(complaint)
                );
            }
            state.complaint = complaint;
        }
    }
}

impl Sources {
    /// What the files hold, while nobody swaps them: of two files that change together one may be read before, the other
    /// after.
    fn read(&self) -> Checked<Material> {
        let material = self.read_once()?;
        let torn = match &self.identity {
            ClientIdentity::Pem(..) => self.certificate(&material).is_err(),
            _ => false,
        };
        if torn { self.read_once() } else { Ok(material) }
    }

    /// Without what a plugin gives.
    fn read_once(&self) -> Checked<Material> {
        let authority = self.authority.as_ref().map(Source::read).transpose()?.unwrap_or_default();
        let (certificate, key) = match &self.identity {
            ClientIdentity::Pem(certificate, key) => (certificate.read()?, key.read()?),
            ClientIdentity::None | ClientIdentity::Plugin(_) => Default::default(),
        };
        Ok(Material { authority, certificate, key, plugin: None })
    }

    /// Number and certificate of what the plugin gave last.
    fn credential(&self) -> (Option<u64>, Option<Arc<Certificate>>) {
        let ClientIdentity::Plugin(plugin) = &self.identity else { return (None, None) };
        plugin.current().map_or((None, None), |current| (Some(current.serial), current.certificate.clone()))
    }

    fn certificate(&self, material: &Material) -> Checked<Option<Arc<Certificate>>> {
        match &self.identity {
            ClientIdentity::None => Ok(None),
            ClientIdentity::Pem(certificate, key) => {
                let names = (certificate.name.as_str(), key.name.as_str());
                Certificate::from_pem(names, &material.certificate, &material.key).map(|c| Some(Arc::new(c)))
            }
            ClientIdentity::Plugin(_) => Ok(material.plugin.clone()),
        }
    }

    fn build(&self, material: &Material, insecure: bool) -> Checked<Built> {
        let (trust, skipped) = match &self.authority {
            Some(source) => {
                let (roots, skipped) = authorities(source, &material.authority)?;
                (Trust::Authorities(roots), skipped)
            }
            None if insecure => (Trust::Anything, None),
            None => (Trust::Platform, None),
        };
        let proxy = client_config(trust)?;
        let certificate = self.certificate(material)?;
        let mut server = proxy.clone();
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        if let Some(certificate) = &certificate {
            let key = SingleCertAndKey::from(Arc::clone(&certificate.key));
            server.client_auth_cert_resolver = Arc::new(key);
        }
        Ok(Built { server: Arc::new(server), proxy: Arc::new(proxy), certificate, skipped })
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

    /// What should be logged about the certificates, although they are used.
    fn concern(&self) -> Option<String> {
        let certificate = self.certificate.as_ref();
        let own = certificate.and_then(|own| own.expired().or_else(|| own.not_yet_valid()));
        own.or_else(|| self.skipped.clone())
    }
}
