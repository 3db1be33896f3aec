//! Lengths and names that the API server accepts in Events, and how texts are made to fit.

use std::fmt::{self, Write};

use pilothouse_object::is_dns_subdomain;
use uuid::Uuid;

/// Bytes of a message or note, from the API server's validation of events.k8s.io/v1. core/v1 has no limit of its own, but the
/// same Event is served under both.
pub const MESSAGE_LIMIT: usize = 1024;
/// Bytes of a reason, of an action and of a reporting instance, from the same validation.
pub const FIELD_LIMIT: usize = 128;

/// The beginning of a text that has at most so many bytes and ends between two characters.
#[must_use]
pub(crate) fn truncated(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// Formats a text and keeps no more of it than the limit allows.
#[must_use]
pub(crate) fn bounded(text: fmt::Arguments<'_>, limit: usize) -> String {
    if let Some(text) = text.as_str() {
        return truncated(text, limit).to_owned();
    }
    let mut kept = Bounded { text: String::new(), limit, full: false };
    // The text that a `Display` wrote before it failed is kept.
    let _ = kept.write_fmt(text);
    kept.text
}

struct Bounded {
    text: String,
    limit: usize,
    full: bool,
}

impl Write for Bounded {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        if self.full {
            // Ends the formatting: nothing more would be kept.
            return Err(fmt::Error);
        }
        let kept = truncated(piece, self.limit - self.text.len());
        self.full = kept.len() < piece.len();
        self.text.push_str(kept);
        Ok(())
    }
}

/// The name of an Event about an object of this name: `<name>.<nanoseconds in hex>`, or a UUID where that cannot be a name.
#[must_use]
pub(crate) fn event_name(about: &str, nanoseconds: u64) -> String {
    let mut name = String::with_capacity(about.len() + 17);
    name.push_str(about);
    // Into memory it cannot fail.
    let _ = write!(name, ".{nanoseconds:x}");
    if is_dns_subdomain(&name) { name } else { Uuid::new_v4().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(truncated("añb", 2), "a");
        assert_eq!(truncated("añb", 3), "añ");
        assert_eq!(truncated("añb", 9), "añb");
        let (long, cut) = ("é".repeat(600), "é".repeat(512));
        assert_eq!(bounded(format_args!("{long}"), MESSAGE_LIMIT), cut);
        assert_eq!(bounded(format_args!("x{long}"), MESSAGE_LIMIT), format!("x{}", "é".repeat(511)));
    }

    #[test]
    fn nothing_is_kept_behind_what_was_cut() {
        assert_eq!(bounded(format_args!("{}{}", "é".repeat(2), "x"), 3), "é");
    }

    #[test]
    fn formatting_ends_where_the_limit_is_reached() {
        struct Endless;
        impl fmt::Display for Endless {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                loop {
                    f.write_str("more and more ")?;
                }
            }
        }
        assert_eq!(bounded(format_args!("{Endless}"), MESSAGE_LIMIT).len(), MESSAGE_LIMIT);
    }

    #[test]
    fn a_name_is_that_of_the_object_and_the_time_in_hex() {
        assert_eq!(event_name("web", 0x18a_2b3c), "web.18a2b3c");
        assert_eq!(event_name("web.example.com", 10), "web.example.com.a");
    }

    #[test]
    fn what_cannot_be_a_name_becomes_a_uuid() {
        for about in ["system:node", "UPPER", "-a", "a..b", "", "a_b", &"a".repeat(253)] {
            let name = event_name(about, 7);
            let version = Uuid::try_parse(&name).map(|uuid| uuid.get_version_num());
            assert_eq!(version, Ok(4), "{about}: {name}");
            assert!(is_dns_subdomain(&name));
        }
        assert_eq!(event_name(&"a".repeat(251), 7).len(), 253);
    }
}
