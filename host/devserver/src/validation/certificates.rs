//! CertificateSigningRequests with the requests in them, PodCertificateRequests, and ClusterTrustBundles with their certificates.

use std::collections::{BTreeMap, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use x509_parser::prelude::{
    FromDer as _, SubjectPublicKeyInfo, X509Certificate, X509CertificationRequest, X509Error,
};
use x509_parser::public_key::PublicKey;

use super::node::{Node, field};
use super::pem;
use crate::api::{JsonMap, syntax};
use crate::schema::{Causes, shown};

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
const LEGACY: &str = "kubernetes.io/legacy-unknown";

pub(super) fn signing_request(object: &JsonMap, causes: &mut Causes) {
    let spec = field(object, "spec");
    let request = spec.field("request");
    let bytes = STANDARD.decode(request.text()).unwrap_or_default();
    if let Some(why) = request_fault(&bytes) {
        let text = super::shown_or_null(request.value());
        request.invalid_text(causes, &text, why);
    }
    let usages = spec.field("usages");
    if usages.is_empty() {
        usages.required(causes, "");
    }
    usages.each().for_each(|usage| usage.one_of(causes, USAGES));
    let mut seen = HashSet::new();
    for usage in usages.each() {
        if !seen.insert(usage.text()) {
            usage.duplicate_as(causes, &shown(&usage.text().into()), "");
        }
    }
    let signer = spec.field("signerName");
    if signer.text() == LEGACY {
        signer.invalid(causes, "the legacy signerName is not allowed via this API version");
    } else {
        signer_name(&signer, causes);
    }
    let seconds = spec.field("expirationSeconds");
    if seconds.int().is_some_and(|seconds| seconds < 600) {
        seconds.invalid(causes, "may not specify a duration less than 600 seconds (10 minutes)");
    }
}

/// A ClusterTrustBundle; `old` is the state that it replaces.
pub(super) fn trust_bundle(object: &JsonMap, old: Option<&JsonMap>, causes: &mut Causes) {
    let (metadata, spec) = (field(object, "metadata"), field(object, "spec"));
    let (name, signer) = (metadata.field("name"), spec.field("signerName"));
    let prefix = format!("{}:", signer.text().replace('/', ":"));
    if signer.text().is_empty() {
        if name.text().contains(':') {
            name.invalid(causes, "ClusterTrustBundle without signer name must not have \":\" in its name");
        } else {
            name.faults(causes, syntax::dns_subdomain(name.text()));
        }
    } else {
        match name.text().strip_prefix(&prefix) {
            Some(rest) => name.faults(causes, syntax::dns_subdomain(rest)),
            None => {
                let signer = signer.text();
                let why =
                    format!("ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}");
                name.invalid(causes, &why);
            }
        }
        signer_name(&signer, causes);
    }
    let bundle = spec.field("trustBundle");
    if !old.is_some_and(|old| field(old, "spec").field("trustBundle").value() == bundle.value()) {
        anchors(&bundle, causes);
    }
}

/// The certificates that are trusted.
fn anchors(bundle: &Node<'_, '_>, causes: &mut Causes) {
    const MAX: usize = 1 << 20;
    if bundle.text().len() > MAX {
        return bundle.too_long(causes, MAX);
    }
    let mut invalid = |why: &str| bundle.invalid_as(causes, &"<value omitted>".into(), why);
    let mut all_good = true;
    let mut places: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
    for (index, block) in pem::blocks(bundle.text().as_bytes()).enumerate() {
        let fault = anchor_fault(&block);
        if let Some(why) = fault {
            all_good = false;
            invalid(&format!("entry {index} {why}"));
        } else {
            places.entry(block.bytes).or_default().push(index);
        }
    }
    if !all_good {
        return;
    }
    if places.is_empty() {
        invalid("at least one trust anchor must be provided");
    }
    for indices in places.into_values().filter(|indices| indices.len() > 1) {
        let indices = indices.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
        invalid(&format!("duplicate trust anchor (indices [{indices}])"));
    }
}

fn anchor_fault(block: &pem::Block) -> Option<String> {
    if block.kind != "CERTIFICATE" {
        return Some(format!("has bad block type: {}", block.kind));
    }
    if block.has_headers {
        return Some("has PEM block headers".to_owned());
    }
    match X509Certificate::from_der(&block.bytes) {
        Ok(([], certificate)) if certificate.is_ca() => None,
        Ok(([], _)) => Some("does not have the CA bit set".to_owned()),
        _ => Some("does not parse as X.509".to_owned()),
    }
}

/// A request that only shows that somebody has a key.
fn stub_fault(stub: &Node<'_, '_>, causes: &mut Causes) {
    let bytes = STANDARD.decode(stub.text()).unwrap_or_default();
    let Ok(([], request)) = X509CertificationRequest::from_der(&bytes) else {
        return stub.invalid_omitted(causes, "must be a valid PKCS#10 CSR");
    };
    if let Ok(PublicKey::RSA(key)) = request.certification_request_info.subject_pki.parsed()
        && !matches!(key.key_size(), 3072 | 4096)
    {
        let value = format!("{}-bit modulus", key.key_size());
        return stub.invalid_as(causes, &value.into(), "RSA keys must have modulus size 3072 or 4096");
    }
    if matches!(request.verify_signature(), Err(X509Error::SignatureVerificationError)) {
        stub.invalid_omitted(causes, "invalid signature");
    }
}

/// A PodCertificateRequest. Whether its proof is a signature of its key is not looked at; its spec stays as it was made.
pub(super) fn pod_request(object: &JsonMap, is_new: bool, causes: &mut Causes) {
    const KEYS: &str = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
    const HOUR: i64 = 60 * 60;
    const MAX_KEY: usize = 10 << 10;
    if !is_new {
        return;
    }
    let spec = field(object, "spec");
    let signer = spec.field("signerName");
    signer_name(&signer, causes);
    let notes = spec.field("unverifiedUserAnnotations");
    for (key, _) in notes.entries() {
        let key = key.to_lowercase();
        let faults = syntax::qualified_name(&key);
        if faults.is_empty() && !key.contains('/') {
            notes.invalid_as(causes, &key.into(), "must be a domain-prefixed key (such as \"acme.io/foo\")");
        } else {
            notes.faults_of(causes, &key, faults);
        }
    }
    for (name, uid) in
        [("podName", "podUID"), ("serviceAccountName", "serviceAccountUID"), ("nodeName", "nodeUID")]
    {
        let (name, uid) = (spec.field(name), spec.field(uid));
        name.faults(causes, syntax::dns_subdomain(name.text()));
        if uid.text().is_empty() {
            uid.invalid(causes, "must not be empty");
        }
        if uid.text().len() > 128 {
            uid.too_long(causes, 128);
        }
    }
    let seconds = spec.field("maxExpirationSeconds");
    let Some(number) = seconds.int() else { return seconds.required(causes, "must be set") };
    let domain = signer.text().split('/').next().unwrap_or_default();
    let is_kubernetes = domain == "kubernetes.io" || domain.ends_with(".kubernetes.io");
    let max = if is_kubernetes { 24 * HOUR } else { 91 * 24 * HOUR };
    if !(HOUR..=max).contains(&number) {
        seconds.invalid(causes, &format!("must be in the range [{HOUR}, {max}]"));
    }
    let parts = ["stubPKCS10Request", "pkixPublicKey", "proofOfPossession"].map(|name| spec.field(name));
    match parts.each_ref().map(|part| !part.text().is_empty()) {
        [true, false, false] | [false, true, true] => {
            let size = |part: &Node<'_, '_>| STANDARD.decode(part.text()).map_or(0, |bytes| bytes.len());
            let [stub, key, _] = &parts;
            if let Some(part) = parts.iter().find(|part| size(part) > MAX_KEY) {
                part.too_long(causes, MAX_KEY);
            } else if stub.text().is_empty() {
                let bytes = STANDARD.decode(key.text()).unwrap_or_default();
                if !matches!(SubjectPublicKeyInfo::from_der(&bytes), Ok(([], _))) {
                    key.invalid(causes, "must be a valid PKIX-serialized public key");
                }
            } else {
                stub_fault(stub, causes);
            }
        }
        _ => spec.invalid_omitted(causes, KEYS),
    }
}

/// What is wrong with a request: its frame, its form, or its signature. A server in Go has other words for a wrong form.
fn request_fault(text: &[u8]) -> Option<&'static str> {
    let Some(block) = pem::blocks(text).next().filter(|block| block.kind == "CERTIFICATE REQUEST") else {
        return Some("PEM block type must be CERTIFICATE REQUEST");
    };
    let request = match X509CertificationRequest::from_der(&block.bytes) {
        Ok(([], request)) => request,
        Ok(_) => return Some("asn1: syntax error: trailing data"),
        Err(_) => return Some("asn1: structure error: not a certificate request"),
    };
    if !matches!(request.verify_signature(), Err(X509Error::SignatureVerificationError)) {
        // The signature is right, or of an algorithm that is not known here.
        return None;
    }
    match request.certification_request_info.subject_pki.parsed() {
        Ok(PublicKey::EC(_)) => Some("x509: ECDSA verification failure"),
        // Shorter and longer keys are not looked at.
        Ok(PublicKey::RSA(key)) => {
            (2048..=8192).contains(&key.key_size()).then_some("crypto/rsa: verification error")
        }
        Ok(PublicKey::Unknown(_)) => Some("x509: Ed25519 verification failure"),
        _ => None,
    }
}

/// `example.com/name`.
fn signer_name(signer: &Node<'_, '_>, causes: &mut Causes) {
    if !signer.is_given(causes) {
        return;
    }
    let parts = signer.text().split_once('/').filter(|(_, path)| !path.contains('/'));
    let Some((domain, path)) = parts else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return signer.invalid(causes, why);
    };
    if domain.len() > 253 {
        signer.too_long(causes, 253);
    }
    label_faults(signer, domain, syntax::dns_label, causes);
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        signer.invalid_as(causes, &domain.into(), why);
    }
    label_faults(signer, path, syntax::dns_subdomain, causes);
    if signer.text().len() > 571 {
        signer.too_long(causes, 571);
    }
}

/// What is wrong with the first label that anything is wrong with.
fn label_faults(signer: &Node<'_, '_>, part: &str, check: fn(&str) -> syntax::Faults, causes: &mut Causes) {
    let wrong = part.split('.').map(|label| (label, check(label))).find(|(_, faults)| !faults.is_empty());
    let (label, faults) = wrong.unwrap_or_default();
    for fault in faults {
        signer.invalid_as(causes, &part.into(), &format!("validating label {label:?}: {fault}"));
    }
}
