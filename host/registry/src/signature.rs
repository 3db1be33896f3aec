//! [`SignatureKeys`]: whether a text that was signed with cosign says that an artifact may run. Nothing here asks a registry.
//!
//! The form is the Sigstore bundle of a DSSE envelope, which cosign 3 writes: a text that has the digest of the manifest is signed.
//! Certificates, and entries of transparency logs, are not looked at: the key alone counts.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pilothouse_plugin::directory::digest_of;
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;

/// The DER of a public key on P-256 up to the point: algorithm `ecPublicKey`, curve `prime256v1`, and the head of a bit string of 65
/// bytes (RFC 5480).
const P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// An uncompressed point.
const POINT: usize = 65;

/// Type of what a bundle has signed.
const STATEMENT: &str = "application/vnd.in-toto+json";
/// What a statement says that is a signature, and no attestation.
pub(crate) const SIGNED: &str = "https://sigstore.dev/cosign/sign/v1";

/// Public keys, of which one has to have signed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignatureKeys {
    points: BTreeSet<Vec<u8>>,
}

impl SignatureKeys {
    /// Adds the keys of a PEM text.
    ///
    /// # Errors
    /// Reason and remedy.
    pub fn add(&mut self, pem: &[u8]) -> Result<(), String> {
        let refused =
            |what: &str| format!("{what}; name the cosign.pub that `cosign generate-key-pair` writes");
        let before = self.points.len();
        for key in SubjectPublicKeyInfoDer::pem_slice_iter(pem) {
            let key = key.map_err(|error| refused(&format!("it is no PEM ({error})")))?;
            let point = key.strip_prefix(P256.as_slice()).filter(|point| point.len() == POINT);
            let point = point.ok_or_else(|| refused("it has a key that is not ECDSA on the curve P-256"))?;
            self.points.insert(point.to_vec());
        }
        if self.points.len() == before {
            return Err(refused("it has no public key that is not named already"));
        }
        Ok(())
    }

    /// A text that names this set of keys: 16 hexadecimal digits.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let points: Vec<u8> = self.points.iter().flatten().copied().collect();
        digest_of(&points).trim_start_matches("sha256:").chars().take(16).collect()
    }

    /// Whether one of the keys has signed a text.
    fn have_signed(&self, text: &[u8], signature: &str) -> bool {
        let Ok(signature) = BASE64_STANDARD.decode(signature) else { return false };
        let has_signed = |point: &Vec<u8>| {
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(text, &signature).is_ok()
        };
        self.points.iter().any(has_signed)
    }

    /// Whether a bundle is signed, and a signature of the manifest with this digest.
    pub(crate) fn accept_bundle(&self, bundle: &[u8], manifest: &str) -> bool {
        let bundle: Value = serde_json::from_slice(bundle).unwrap_or_default();
        let envelope = &bundle["dsseEnvelope"];
        // cosign writes one signature. Each one more would be a check that whoever may push could ask for.
        let Some([signature]) = envelope["signatures"].as_array().map(Vec::as_slice) else { return false };
        let (Some(payload), Some(signature)) = (envelope["payload"].as_str(), signature["sig"].as_str())
        else {
            return false;
        };
        let Ok(payload) = BASE64_STANDARD.decode(payload) else { return false };
        if envelope["payloadType"] != STATEMENT
            || !self.have_signed(&signed_text(STATEMENT, &payload), signature)
        {
            return false;
        }
        let statement: Value = serde_json::from_slice(&payload).unwrap_or_default();
        let is_of_manifest = |subject: &Value| {
            let digits = subject["digest"]["sha256"].as_str();
            digits.is_some() && digits == manifest.strip_prefix("sha256:")
        };
        statement["predicateType"] == SIGNED
            && statement["subject"].as_array().is_some_and(|subjects| subjects.iter().any(is_of_manifest))
    }
}

/// The text of an envelope that is signed: type and payload, each with its length (DSSE, version 1).
pub(crate) fn signed_text(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut text = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    text.extend_from_slice(payload);
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
    use serde_json::json;

    use super::*;

    /// A key that signs as cosign does.
    pub(crate) struct TestKey(EcdsaKeyPair);

    impl TestKey {
        pub(crate) fn generate() -> Self {
            let (algorithm, random) = (&ECDSA_P256_SHA256_ASN1_SIGNING, SystemRandom::new());
            let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
            Self(EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap())
        }

        pub(crate) fn pem(&self) -> String {
            let der = [P256.as_slice(), self.0.public_key().as_ref()].concat();
            format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", BASE64_STANDARD.encode(der))
        }

        pub(crate) fn keys(&self) -> SignatureKeys {
            let mut keys = SignatureKeys::default();
            keys.add(self.pem().as_bytes()).unwrap();
            keys
        }

        pub(crate) fn sign(&self, text: &[u8]) -> String {
            BASE64_STANDARD.encode(self.0.sign(&SystemRandom::new(), text).unwrap())
        }

        /// A bundle about a manifest.
        pub(crate) fn bundle(&self, predicate: &str, manifest: &str) -> String {
            let digits = manifest.trim_start_matches("sha256:");
            let statement = json!({
                "_type": "https://in-toto.io/Statement/v1", "predicateType": predicate,
                "subject": [{"digest": {"sha256": digits}}], "predicate": {},
            });
            let payload = statement.to_string();
            json!({
                "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
                "verificationMaterial": {"publicKey": {"hint": "key"}},
                "dsseEnvelope": {
                    "payload": BASE64_STANDARD.encode(&payload), "payloadType": STATEMENT,
                    "signatures": [{"sig": self.sign(&signed_text(STATEMENT, payload.as_bytes()))}],
                },
            })
            .to_string()
        }
    }

    fn digest(number: u8) -> String {
        format!("sha256:{number:064x}")
    }

    #[test]
    fn a_bundle_is_accepted_if_it_signs_the_digest_and_is_no_attestation() {
        let (key, other) = (TestKey::generate(), TestKey::generate());
        let mut both = other.keys();
        both.add(key.pem().as_bytes()).unwrap();
        let bundle = key.bundle(SIGNED, &digest(1));
        let accepted = |keys: &SignatureKeys, bundle: &str, manifest: &str| {
            keys.accept_bundle(bundle.as_bytes(), manifest)
        };
        assert!(accepted(&key.keys(), &bundle, &digest(1)) && accepted(&both, &bundle, &digest(1)));
        assert!(!accepted(&SignatureKeys::default(), &bundle, &digest(1)), "no key");
        assert!(!accepted(&other.keys(), &bundle, &digest(1)), "another key");
        assert!(!accepted(&key.keys(), &bundle, &digest(2)), "another artifact");
        let attestation = key.bundle("https://cyclonedx.org/bom", &digest(1));
        assert!(!accepted(&key.keys(), &attestation, &digest(1)), "an attestation of the same key");
        let retyped = bundle.replace(STATEMENT, "application/json");
        assert!(retyped != bundle && !accepted(&key.keys(), &retyped, &digest(1)), "another type");
        assert!(!accepted(&key.keys(), "{}", &digest(1)));
        let mut foreign: Value = serde_json::from_str(&bundle).unwrap();
        let other: Value = serde_json::from_str(&key.bundle(SIGNED, &digest(2))).unwrap();
        foreign["dsseEnvelope"]["payload"] = other["dsseEnvelope"]["payload"].clone();
        assert!(!accepted(&key.keys(), &foreign.to_string(), &digest(2)), "another text");
        foreign["dsseEnvelope"]["signatures"][0]["sig"] = json!("?");
        assert!(!accepted(&key.keys(), &foreign.to_string(), &digest(2)), "no signature");
        let mut several: Value = serde_json::from_str(&bundle).unwrap();
        let signatures = several["dsseEnvelope"]["signatures"].as_array_mut().unwrap();
        let second = signatures[0].clone();
        signatures.push(second);
        assert!(!accepted(&key.keys(), &several.to_string(), &digest(1)), "two signatures");
    }

    #[test]
    fn the_text_that_is_signed_has_the_lengths_of_its_parts() {
        assert_eq!(signed_text("a/b", "ä x".as_bytes()), "DSSEv1 3 a/b 4 ä x".as_bytes());
    }

    #[test]
    fn keys_are_public_keys_of_p256_in_pem() {
        let (one, two) = (TestKey::generate(), TestKey::generate());
        let (mut keys, mut reversed) = (SignatureKeys::default(), two.keys());
        keys.add(format!("{}{}", one.pem(), two.pem()).as_bytes()).unwrap();
        reversed.add(one.pem().as_bytes()).unwrap();
        assert_eq!((&keys, keys.fingerprint()), (&reversed, reversed.fingerprint()));
        assert!(keys.fingerprint().len() == 16 && keys.fingerprint() != one.keys().fingerprint());
        assert!(keys.add(one.pem().as_bytes()).unwrap_err().contains("not named already"));
        let private = one.pem().replace("PUBLIC KEY", "PRIVATE KEY");
        for text in ["", "key", &private] {
            let error = SignatureKeys::default().add(text.as_bytes()).unwrap_err();
            assert!(error.contains("no public key") && error.contains("cosign.pub"), "{error}");
        }
        let other_curve = one.pem().replace("MFkwEwYHKoZIzj0CAQ", "MFkwEwYHKoZIzj0CAR");
        let error = SignatureKeys::default().add(other_curve.as_bytes()).unwrap_err();
        assert!(error.contains("not ECDSA on the curve P-256"), "{error}");
    }
}
