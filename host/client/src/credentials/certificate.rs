//! [`Certificate`]: a client certificate with its key, checked to belong together. `mod` reads them from files, `exec` gets
//! them from plugins.

use std::fmt;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::validity::Validity;

/// The cryptography of every TLS configuration here, passed explicitly: the provider of the process is the application's to
/// choose.
pub(super) fn provider() -> &'static Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(ring::default_provider()));
    &PROVIDER
}

/// A client certificate and its key.
pub(crate) struct Certificate {
    pub(crate) key: Arc<CertifiedKey>,
    pub(crate) validity: Validity,
}

impl Certificate {
    /// From PEM; `names` say in messages where certificate and key stand.
    pub(crate) fn from_pem(names: (&str, &str), certificate: &[u8], key: &[u8]) -> Result<Self, String> {
        let (certificate_name, key_name) = names;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
        let chain = chain.map_err(|_| format!("{certificate_name} is not PEM of a certificate"))?;
        let Some(first) = chain.first() else {
            return Err(format!(
                "{certificate_name} holds no certificate; expected \"-----BEGIN CERTIFICATE-----\""
            ));
        };
        let validity = Validity::of(first)
            .ok_or_else(|| format!("{certificate_name} is not an X.509 certificate; get a new one"))?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| format!("{key_name} holds no PKCS#8, PKCS#1 or SEC1 key in PEM"))?;
        let key = CertifiedKey::from_der(chain, key, provider())
            .map_err(|e| format!("{key_name} cannot be used: {e}; does it belong to {certificate_name}?"))?;
        Ok(Self { key: Arc::new(key), validity })
    }

    /// Why the server will not take it any more; begins with "the certificate".
    pub(crate) fn expired(&self) -> Option<String> {
        let until = self.validity.not_after;
        (until < Timestamp::now())
            .then(|| format!("the certificate expired on {until}; renew it, or log in to the cluster again"))
    }

    /// Why the server may not take it yet; begins with "the certificate".
    pub(crate) fn not_yet_valid(&self) -> Option<String> {
        let from = self.validity.not_before;
        (from > Timestamp::now())
            .then(|| format!("the certificate is not valid before {from}; is this machine's clock right?"))
    }
}

/// The same certificate; its key is then the same too.
impl PartialEq for Certificate {
    fn eq(&self, other: &Self) -> bool {
        self.key.cert == other.key.cert
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("validity", &self.validity).finish_non_exhaustive()
    }
}
