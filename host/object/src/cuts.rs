//! [`Cuts`]: fields that stand beside a compressed text, cut out of it and put back.

/// How many fields can be cut out.
const FIELDS: usize = 4;

/// Where in a JSON text some fields were cut out.
#[derive(Clone, Copy)]
pub(crate) struct Cuts([u16; FIELDS]);

/// Stands for a field that is not cut out.
const NONE: u16 = u16::MAX;

impl Cuts {
    /// Finds fields that are parts of `json`; one that is empty, elsewhere, or too far behind is not cut out.
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

    /// The text without the fields, added to `out`.
    pub(crate) fn cut(self, json: &str, fields: [&str; FIELDS], out: &mut String) {
        let mut from = 0;
        for (at, field) in self.in_order(fields) {
            out.push_str(&json[from..at]);
            from = at + field.len();
        }
        out.push_str(&json[from..]);
    }

    /// The text with the fields back in their places.
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
