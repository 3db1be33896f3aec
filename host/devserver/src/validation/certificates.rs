//! CertificateSigningRequests. Of the request itself only its frame is looked at.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::node::{Node, field};
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
    let has_frame = bytes.windows(35).any(|part| part == b"-----BEGIN CERTIFICATE REQUEST-----");
    if !has_frame {
        let text = super::shown_or_null(request.value());
        request.invalid_text(causes, &text, "PEM block type must be CERTIFICATE REQUEST");
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
