//! [`Identity`]: a certificate of the server's own making, and the authority that clients trust for it.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// A server's certificate.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) config: Arc<ServerConfig>,
    /// The authority's certificate, as PEM.
    pub(crate) authority: String,
}

impl Identity {
    /// Makes an authority and a certificate for this machine's loopback names, an address and further names.
    pub(crate) fn make(address: std::net::IpAddr, hosts: &[String]) -> Result<Self, String> {
        Self::try_make(address, hosts).map_err(|e| e.to_string())
    }

    fn try_make(address: std::net::IpAddr, hosts: &[String]) -> Result<Self, Box<dyn std::error::Error>> {
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, "pilothouse-dev-ca");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority_key = KeyPair::generate()?;
        let authority_certificate = authority.self_signed(&authority_key)?;
        let issuer = Issuer::new(authority, authority_key);

        let own = ["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned(), address.to_string()];
        let names: Vec<String> = own.into_iter().chain(hosts.iter().cloned()).collect();
        let mut server = CertificateParams::new(names)?;
        server.distinguished_name.push(DnType::CommonName, "pilothouse-dev");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = server.signed_by(&key, &issuer)?;

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
            )?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), authority: authority_certificate.pem() })
    }
}
