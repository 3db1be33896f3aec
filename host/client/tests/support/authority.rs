//! [`Authority`]: a certificate authority of a test's own, with servers and clients.

use std::sync::Arc;

use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};

/// Signs certificates.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, both PEM.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Pair {
    /// As the other side sees it.
    pub(crate) fn der(&self) -> Vec<u8> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap().to_vec()
    }
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority of a test");
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn sign(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Pair { certificate, key: key.serialize_pem() }
    }

    /// A certificate for a client.
    pub(crate) fn client(&self) -> Pair {
        self.sign("client", |_| {})
    }

    fn served(&self) -> Arc<CertifiedKey> {
        let pair = self.sign("127.0.0.1", |_| {});
        let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
        let provider = rustls::crypto::ring::default_provider();
        Arc::new(CertifiedKey::from_der(chain, key, &provider).unwrap())
    }

    /// A server of `127.0.0.1` over HTTP/2 that asks clients for certificates of this authority and takes those without too.
    pub(crate) fn server(&self) -> (Arc<ServerConfig>, Arc<ServedBy>) {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .unwrap();
        let served = Arc::new(ServedBy(Mutex::new(self.served())));
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients)
            .with_cert_resolver(Arc::clone(&served) as Arc<dyn ResolvesServerCert>);
        server.alpn_protocols = vec![b"h2".to_vec()];
        (Arc::new(server), served)
    }
}

/// Who signed the certificate that a server shows.
#[derive(Debug)]
pub(crate) struct ServedBy(Mutex<Arc<CertifiedKey>>);

impl ServedBy {
    /// New connections get a certificate of another authority.
    pub(crate) fn now(&self, authority: &Authority) {
        *self.0.lock() = authority.served();
    }
}

impl ResolvesServerCert for ServedBy {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.lock()))
    }
}
