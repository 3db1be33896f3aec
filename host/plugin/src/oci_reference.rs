//! [`OciRepository`]: a repository of an OCI registry; [`OciReference`]: an artifact in it, by the digest of its manifest.

use std::fmt;

use crate::outgoing_hosts::{Host, split_port};

/// Maximum length of a reference in bytes.
const MAX_REFERENCE: usize = 512;

const SCHEME: &str = "oci://";

/// `oci://REGISTRY/REPOSITORY`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OciRepository {
    registry: String,
    name: String,
}

impl OciRepository {
    fn of(registry: &str, name: &str) -> Result<Self, &'static str> {
        let (host, _) = split_port(registry)?;
        Host::parse(host)?;
        if !name.split('/').all(is_component) {
            return Err("its repository has other characters than a-z, 0-9, '.', '_', '-' and '/'");
        }
        Ok(Self { registry: registry.to_owned(), name: name.to_owned() })
    }

    /// Host and port of the registry.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The name of the repository in the registry.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// `oci://REGISTRY/REPOSITORY@sha256:…`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OciReference {
    repository: OciRepository,
    digest: String,
}

impl OciReference {
    /// Parses a reference.
    ///
    /// # Errors
    /// The reason.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let rest = strip_scheme(text)?;
        let (name, digest) =
            rest.split_once('@').ok_or("it has no digest; a tag may name another content later")?;
        let (registry, name) = name.split_once('/').ok_or("it has no repository")?;
        if !is_digest(digest) {
            return Err("its digest is not sha256: and 64 lower-case digits");
        }
        Ok(Self { repository: OciRepository::of(registry, name)?, digest: digest.to_owned() })
    }

    /// The repository that holds the artifact.
    #[must_use]
    pub fn repository(&self) -> &OciRepository {
        &self.repository
    }

    /// `sha256:…` of the manifest.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

impl fmt::Display for OciReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OciRepository { registry, name } = &self.repository;
        write!(f, "{SCHEME}{registry}/{name}@{}", self.digest)
    }
}

fn strip_scheme(text: &str) -> Result<&str, &'static str> {
    if text.len() > MAX_REFERENCE {
        return Err("it is longer than 512 bytes");
    }
    text.strip_prefix(SCHEME).ok_or("it does not begin with oci://")
}

/// Whether a text is `sha256:` and 64 lower-case hexadecimal digits, as registries name content.
#[must_use]
pub fn is_digest(text: &str) -> bool {
    let hex = text.strip_prefix("sha256:").unwrap_or_default();
    hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a text is a part of a repository's name between two slashes.
fn is_component(text: &str) -> bool {
    let bytes = text.as_bytes();
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|byte| alphanumeric(byte) || matches!(byte, b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest() -> String {
        format!("sha256:{:064x}", 0xab)
    }

    #[test]
    fn a_reference_is_registry_repository_and_digest() {
        let text = format!("oci://r.example:5000/team/web@{}", digest());
        let reference = OciReference::parse(&text).unwrap();
        let repository = reference.repository();
        assert_eq!((repository.registry(), repository.name()), ("r.example:5000", "team/web"));
        assert_eq!((reference.digest(), reference.to_string()), (digest().as_str(), text));
    }

    #[test]
    fn what_may_name_another_content_or_could_be_read_in_two_ways_is_no_reference() {
        let digest = digest();
        for text in [
            "oci://r.example/team/web".to_owned(),
            "oci://r.example/team/web:latest".to_owned(),
            format!("oci://r.example/team/web:v1@{digest}"),
            format!("https://r.example/team/web@{digest}"),
            format!("oci://r.example@{digest}"),
            format!("oci://user@r.example/web@{digest}"),
            format!("oci://127.1/web@{digest}"),
            format!("oci://r.example/../web@{digest}"),
            format!("oci://r.example/web?x@{digest}"),
            format!("oci://r.example/web@{}", digest.to_uppercase()),
            "oci://r.example/web@sha256:ab".to_owned(),
            format!("oci://r.example/{}@{digest}", "a".repeat(MAX_REFERENCE)),
        ] {
            assert!(OciReference::parse(&text).is_err(), "{text}");
        }
    }
}
