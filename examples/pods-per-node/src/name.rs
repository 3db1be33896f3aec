//! Names of the ConfigMaps.

/// What every name begins with.
const PREFIX: &str = "pods-on-";

/// How long a name may be. A node's name may be as long, so the prefix may not fit.
const MAX: usize = 253;

/// The name of a node's ConfigMap: `pods-on-NODE`. Where that is too long, the end of the node's name gives way to
/// a hash of the whole, so that two such nodes do not share a ConfigMap.
pub(crate) fn of_config_map(node: &str) -> String {
    let name = format!("{PREFIX}{node}");
    if name.len() <= MAX {
        return name;
    }
    let hash = format!("-{:016x}", fnv1a(node));
    let kept: String = name.chars().take(MAX - hash.len()).collect();
    // A dot or dash must not stand before the dash.
    format!("{}{hash}", kept.trim_end_matches(['.', '-']))
}

/// The FNV-1a hash: short to write down, and the same with every compiler, which std's hashers do not promise.
fn fnv1a(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_names_are_kept() {
        assert_eq!(of_config_map("node-1.example.com"), "pods-on-node-1.example.com");
        let longest = "a".repeat(MAX - PREFIX.len());
        assert_eq!(of_config_map(&longest), format!("pods-on-{longest}"));
    }

    #[test]
    fn long_names_fit_and_differ() {
        let names: Vec<String> =
            ["a", "b"].iter().map(|end| of_config_map(&format!("{}{end}", "x".repeat(252)))).collect();
        assert_ne!(names[0], names[1]);
        assert!(names.iter().all(|name| name.len() == MAX && name.starts_with("pods-on-xxx")));
    }

    #[test]
    fn no_label_of_a_name_ends_in_a_dash() {
        let node = format!("{}...{}", "x".repeat(225), "y".repeat(25));
        assert!(!of_config_map(&node).contains(".-"));
    }

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(fnv1a("a"), 0xaf63_dc4c_8601_ec8c);
    }
}
