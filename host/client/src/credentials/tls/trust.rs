//! [`client_config`]: which server certificates a client accepts. `mod` adds the client certificate and the protocols.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_platform_verifier::BuilderVerifierExt as _;

use super::{Checked, Source};
use crate::credentials::certificate::provider;

/// Which certificates of servers are accepted.
pub(super) enum Trust {
    /// Those that the platform's certificate authorities have signed.
    Platform,
    /// Those that one of these authorities has signed.
    Authorities(RootCertStore),
    /// All.
    Anything,
}

/// A configuration without a client certificate. The platform's certificates are read only for [`Trust::Platform`], since
/// a container may have none.
pub(super) fn client_config(trust: Trust) -> Checked<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::clone(provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| format!("TLS cannot be used: {e}"))?;
    let builder = match trust {
        Trust::Platform => builder.with_platform_verifier().map_err(|e| {
            format!(
                "the platform's certificates cannot be used: {e}; set certificate-authority to the PEM of the server's CA, or install the system's CA certificates"
            )
        })?,
        Trust::Authorities(roots) => builder.with_root_certificates(roots),
        Trust::Anything => builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAll)),
    };
    Ok(builder.with_no_client_auth())
}

/// The authorities in `pem`, which was read from `source`: at least one, and a complaint about those that cannot be used, as
/// a damaged one, or one that webpki does not read. Go skips them as well.
pub(super) fn authorities(source: &Source, pem: &[u8]) -> Checked<(RootCertStore, Option<String>)> {
    let mut roots = RootCertStore::empty();
    let (mut all, mut fault) = (0, None);
    for der in CertificateDer::pem_slice_iter(pem) {
        all += 1;
        let added = match der {
            Ok(der) => roots.add(der).map_err(|e| e.to_string()),
            Err(_) => Err("not PEM".to_owned()),
        };
        if let Err(why) = added {
            fault.get_or_insert(why);
        }
    }
    match (roots.len(), fault) {
        (0, Some(why)) => Err(format!(
            "certificate authority cannot be used: {why}; set certificate-authority to the PEM of the server's CA"
        )),
        (0, None) => Err(format!("{} is not PEM; expected \"-----BEGIN CERTIFICATE-----\"", source.name)),
        (used, Some(why)) => {
            let skipped = all - used;
            let complaint = format!(
                "{skipped} of {all} certificates in {} cannot be used and are skipped: {why}",
                source.name
            );
            Ok((roots, Some(complaint)))
        }
        (_, None) => Ok((roots, None)),
    }
}

/// The verifier of `insecure-skip-tls-verify`. It checks no signature either, so that certificates that webpki cannot parse
/// (X.509 version 1) are accepted as Go accepts them.
#[derive(Debug)]
struct AcceptAll;

impl ServerCertVerifier for AcceptAll {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
