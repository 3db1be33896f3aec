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
    /// Parses `oci://REGISTRY/REPOSITORY[:TAG]`; the tag, where there is one.
    ///
    /// # Errors
    /// The reason.
    pub fn parse_tagged(text: &str) -> Result<(Self, Option<String>), &'static str> {
        let rest = strip_scheme(text)?;
        if rest.contains('@') {
            return Err("it has a digest, which is known once the artifact is pushed");
        }
        let (registry, name) = rest.split_once('/').ok_or("it has no repository")?;
        let (name, tag) = name.split_once(':').map_or((name, None), |(name, tag)| (name, Some(tag)));
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(
                "its tag has other characters than letters, digits, '_', '.' and '-', or more than 128",
            );
        }
        Ok((Self::of(registry, name)?, tag.map(str::to_owned)))
    }

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

    /// The artifact in it whose manifest has this digest, `sha256:` and 64 lower-case digits.
    ///
    /// # Errors
    /// The reason.
    pub fn at(self, digest: &str) -> Result<OciReference, &'static str> {
        if !is_digest(digest) {
            return Err("its digest is not sha256: and 64 lower-case digits");
        }
        Ok(OciReference { repository: self, digest: digest.to_owned() })
    }
}

impl fmt::Display for OciRepository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.registry, self.name)
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
        OciRepository::of(registry, name)?.at(digest)
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
        write!(f, "{}@{}", self.repository, self.digest)
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

/// Whether a text is a tag: it begins with a letter, a digit or an underscore.
fn is_tag(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=128).contains(&text.len())
        && text.bytes().next().is_some_and(word)
        && text.bytes().all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
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

    #[test]
    fn a_place_to_push_to_may_have_a_tag_and_no_digest() {
        let parse = |text: &str| {
            OciRepository::parse_tagged(text).map(|(repository, tag)| (repository.to_string(), tag))
        };
        let repository = "oci://r.example:5000/team/web".to_owned();
        assert_eq!(parse(&repository), Ok((repository.clone(), None)));
        assert_eq!(parse(&format!("{repository}:v1.2")), Ok((repository.clone(), Some("v1.2".to_owned()))));
        for tag in [":", ":.v1", ":a/b", ":a:b", &format!("@{}", digest())] {
            assert!(parse(&format!("{repository}{tag}")).is_err(), "{tag}");
        }
    }
}
