//! Names of images, as far as the pull policy depends on them.

/// The policy of a container that names none: an image whose tag is `latest`, said or not, is pulled always.
pub(super) fn pull_policy(image: &str) -> &'static str {
    if tag(image) == Some("latest") { "Always" } else { "IfNotPresent" }
}

/// The tag of an image: `latest` if it has neither a tag nor a digest; `None` if it has a digest alone, or is malformed.
fn tag(image: &str) -> Option<&str> {
    let (tagged, digest) = match image.split_once('@') {
        Some((tagged, digest)) => (tagged, Some(digest)),
        None => (image, None),
    };
    // A colon before the last slash is that of a port.
    let path_start = tagged.rfind('/').map_or(0, |at| at + 1);
    let (name, tag) = match tagged[path_start..].split_once(':') {
        Some((name, tag)) => (&tagged[..path_start + name.len()], Some(tag)),
        None => (tagged, None),
    };
    let is_sound = is_name(name) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest);
    if !is_sound {
        return None;
    }
    match (tag, digest) {
        (None, None) => Some("latest"),
        (tag, _) => tag,
    }
}

/// Longer names are refused.
const NAME_LENGTH: usize = 255;
/// What stands for names without a registry, and for those without a path too.
const REGISTRY: &str = "docker.io/";
const LIBRARY: &str = "library/";

fn is_name(name: &str) -> bool {
    let is_identifier = name.len() == 64 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let is_host =
        |host: &str| host.contains(['.', ':']) || host == "localhost" || host.to_lowercase() != host;
    let (host, path) = match name.split_once('/') {
        Some((host, path)) if is_host(host) => (Some(host), path),
        _ => (None, name),
    };
    let implied = match host {
        Some(_) => 0,
        None if path.contains('/') => REGISTRY.len(),
        None => REGISTRY.len() + LIBRARY.len(),
    };
    !is_identifier
        && implied + name.len() <= NAME_LENGTH
        && host.is_none_or(is_registry)
        && path.split('/').all(is_component)
}

fn is_registry(host: &str) -> bool {
    let (host, port) = match host.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (host, None),
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let is_host = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':'),
        None => host.split('.').all(is_label),
    };
    is_host && port.is_none_or(is_port)
}

/// Small letters and digits, and between them a dot, one or two underscores, or dashes.
fn is_component(part: &str) -> bool {
    let is_letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let mut separator = 0..0;
    let bytes = part.as_bytes();
    let is_separator = |run: &[u8]| matches!(run, b"." | b"_" | b"__") || run.iter().all(|b| *b == b'-');
    for (at, byte) in bytes.iter().enumerate() {
        if is_letter(*byte) {
            if !is_separator(&bytes[separator.clone()]) {
                return false;
            }
            separator = at + 1..at + 1;
        } else {
            separator.end = at + 1;
        }
    }
    bytes.first().is_some_and(|b| is_letter(*b)) && bytes.last().is_some_and(|b| is_letter(*b))
}

fn is_tag(tag: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (1..=128).contains(&tag.len())
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|b| is_word(b) || matches!(b, b'.' | b'-'))
}

/// Of the algorithms that the server knows.
fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hash)) = digest.split_once(':') else { return false };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    hash.len() == length && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_tag_latest_is_always_pulled() {
        let digest = format!("nginx@sha256:{}", "0".repeat(64));
        let both = format!("nginx:latest@sha256:{}", "0".repeat(64));
        for (image, expected) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.2", "IfNotPresent"),
            ("r.example:80/a/b", "Always"),
            ("r.example:80/a/b:v1", "IfNotPresent"),
            ("localhost/a", "Always"),
            (&digest, "IfNotPresent"),
            (&both, "Always"),
            ("", "IfNotPresent"),
            ("NGINX", "IfNotPresent"),
            ("UPPER/a", "Always"),
            ("a//b", "IfNotPresent"),
            ("a..b", "IfNotPresent"),
            ("a__b--c.d", "Always"),
            ("a___b", "IfNotPresent"),
            ("nginx:", "IfNotPresent"),
            ("nginx@sha256:1", "IfNotPresent"),
            ("é", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), expected, "{image}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(image in ".{0,100}") {
            pull_policy(&image);
        }
    }
}
