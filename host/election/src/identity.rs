//! [`default_identity`]: `HOSTNAME_UUID`, as users of client-go name their candidates.

/// This machine's host name, which in a pod is the pod's name; `unknown` where there is none.
#[must_use]
pub fn hostname() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    if host.is_empty() { "unknown" } else { host }.to_owned()
}

/// A name for a candidate that nobody else has: this machine's host name, `_`, and a random UUID.
#[must_use]
pub fn default_identity() -> String {
    format!("{}_{}", hostname(), uuid::Uuid::new_v4())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_the_host_s_name_and_a_uuid_of_its_own() {
        let (first, second) = (default_identity(), default_identity());
        assert_ne!(first, second);
        let (host, uuid) = first.rsplit_once('_').unwrap();
        assert!(!host.is_empty());
        let lengths: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert!(uuid.as_bytes()[14] == b'4' && b"89ab".contains(&uuid.as_bytes()[19]), "{uuid}");
    }
}
