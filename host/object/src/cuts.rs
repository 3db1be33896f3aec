//! [`Cuts`]: removes fields that are stored uncompressed from a text before compression, and inserts them again after
//! decompression.

/// Number of fields that can be cut out.
const FIELDS: usize = 4;

/// The offsets in a JSON text at which fields were cut out.
#[derive(Clone, Copy)]
pub(crate) struct Cuts([u16; FIELDS]);

/// Marks a field that is not cut out.
const NONE: u16 = u16::MAX;

impl Cuts {
    /// Computes the offsets of fields that are slices of `json`. A field is not cut out when it is empty, is not a
    /// slice of `json`, or starts at or beyond offset 65,535.
    pub(crate) fn find(json: &str, fields: [&str; FIELDS]) -> Self {
        Self(fields.map(|field| {
            let start = field.as_ptr().addr().wrapping_sub(json.as_ptr().addr());
            let inside = !field.is_empty() && start < json.len();
            u16::try_from(start).ok().filter(|_| inside).unwrap_or(NONE)
        }))
    }

    /// Whether a field is cut out.
    pub(crate) fn has(self, field: usize) -> bool {
        self.0[field] != NONE
    }

    /// Appends the text without the fields to `out`.
    pub(crate) fn cut(self, json: &str, fields: [&str; FIELDS], out: &mut String) {
        let mut from = 0;
        for (at, field) in self.in_order(fields) {
            out.push_str(&json[from..at]);
            from = at + field.len();
        }
        out.push_str(&json[from..]);
    }

    /// Inserts the fields again; `len` is the length of the whole text in bytes.
    pub(crate) fn fill(self, mut rest: &str, fields: [&str; FIELDS], len: usize) -> String {
        let mut json = String::with_capacity(len);
        for (at, field) in self.in_order(fields) {
            let (before, behind) = rest.split_at(at - json.len());
            json.extend([before, field]);
            rest = behind;
        }
        json.push_str(rest);
        json
    }

    fn in_order(self, fields: [&str; FIELDS]) -> impl Iterator<Item = (usize, &str)> {
        let mut cuts: [(u16, &str); FIELDS] = std::array::from_fn(|n| (self.0[n], fields[n]));
        cuts.sort_unstable();
        cuts.into_iter().take_while(|(at, _)| *at != NONE).map(|(at, field)| (usize::from(at), field))
    }
}
