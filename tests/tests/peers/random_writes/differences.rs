//! The differences that are known and explained: what they look like, and why the development server has them.

use super::compare::Difference;
use super::kinds::Kind;
use super::server::Answer;
use super::step::Step;

/// Two answers that differ.
#[derive(Debug)]
pub(super) struct Case<'a> {
    pub(super) kind: &'a Kind,
    pub(super) step: &'a Step,
    pub(super) real: &'a Answer,
    pub(super) development: &'a Answer,
    pub(super) difference: &'a Difference,
}

/// A difference that is explained.
pub(super) struct Explained {
    /// The reason, as `docs/devserver.md` has it.
    pub(super) reason: &'static str,
    pub(super) fits: fn(&Case<'_>) -> bool,
}

/// All of them; the first that fits counts.
pub(super) const EXPLAINED: &[Explained] = &[];
