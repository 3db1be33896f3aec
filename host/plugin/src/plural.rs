//! [`guess_plural`]: what the resource of a kind is most likely called.

/// The plural of a kind, as API servers guess it. It is right for every kind of Kubernetes; that of a
/// CustomResourceDefinition is the author's choice, and nearly always the same.
#[must_use]
pub fn guess_plural(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    match kind.as_bytes() {
        b"endpoints" => kind,
        [.., b's'] | [.., b'x'] | [.., b'c', b'h'] | [.., b's', b'h'] => format!("{kind}es"),
        [.., b'y'] => format!("{}ies", &kind[..kind.len() - 1]),
        _ => format!("{kind}s"),
    }
}
