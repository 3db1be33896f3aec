//! [`default_identity`]: `HOSTNAME_UUID`, as users of client-go name their candidates.

use std::fmt::Write as _;

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
    let mut identity = format!("{}_", hostname());
    for (at, byte) in uuid().into_iter().enumerate() {
        let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(identity, "{dash}{byte:02x}");
    }
    identity
}

/// A UUID of version 4.
fn uuid() -> [u8; 16] {
    let mut bytes: [u8; 16] = rand::random();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
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
