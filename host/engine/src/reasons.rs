//! [`ReasonSet`]: why a key is reconciled, as the contract names it.

/// The reasons for which a key is reconciled: a bit for each, in the order of [`NAMES`](Self::NAMES).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReasonSet(u16);

impl ReasonSet {
    /// The names of the reasons.
    pub const NAMES: [&str; 9] =
        ["added", "updated", "deleted", "owned", "resync", "requeued", "reloaded", "scheduled", "manual"];

    /// The set of these bits; others are left out.
    #[must_use]
    pub const fn of_bits(bits: u16) -> Self {
        Self(bits & ((1 << Self::NAMES.len()) - 1))
    }

    /// The bits.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The names of the reasons in the set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let is_in = move |(bit, _): &(usize, &str)| self.0 & (1 << bit) != 0;
        Self::NAMES.into_iter().enumerate().filter(is_in).map(|(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_names_of_its_bits_and_no_others() {
        let names = |bits| ReasonSet::of_bits(bits).names().collect::<Vec<_>>();
        assert_eq!(names(0b1_0000_0001), ["added", "manual"]);
        assert_eq!(names(u16::MAX), ReasonSet::NAMES);
        assert_eq!(ReasonSet::of_bits(u16::MAX).bits(), 0x1ff);
    }
}
