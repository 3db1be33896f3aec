//! [`Budget`]: how much work may go into one object.
//!
//! A schema and an object are both the client's, and checking one against the other costs up to the product of their
//! sizes. A budget is spent step by step; when none is left, the walk ends and the object is refused.

/// Steps for one object: a second at most, and a thousand times what the largest of usual objects needs.
const STEPS: u64 = 20_000_000;

/// What is left of the steps that an object may cost.
#[derive(Debug)]
pub(crate) struct Budget(u64);

impl Budget {
    pub(crate) fn new() -> Self {
        Self(STEPS)
    }

    /// Whether these steps may be gone.
    pub(crate) fn spend(&mut self, steps: u64) -> bool {
        self.0 = self.0.saturating_sub(steps.max(1));
        self.0 > 0
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.0 == 0
    }
}
