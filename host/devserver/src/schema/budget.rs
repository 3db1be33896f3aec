//! [`Budget`]: how much work may go into one object.
//!
//! A schema and an object are both the client's, and checking one against the other costs up to the product of their
//! sizes. A budget is spent step by step; when none is left, the walk ends and the object is refused.

use serde_json::Value;

/// Steps for one object: a second at most, and a thousand times what the largest of usual objects needs.
const STEPS: u64 = 20_000_000;

/// How many bytes of a text are looked at in the time of a step.
const BYTES_A_STEP: u64 = 16;

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

    /// Whether the steps may be gone that a look at every byte of a text takes.
    pub(crate) fn spend_text(&mut self, text: &str) -> bool {
        self.spend(1 + text.len() as u64 / BYTES_A_STEP)
    }

    /// Whether the steps may be gone that a look at everything in a value takes.
    pub(crate) fn spend_value(&mut self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.spend_text(text),
            Value::Array(list) => self.spend(1) && list.iter().all(|element| self.spend_value(element)),
            Value::Object(object) => {
                self.spend(1)
                    && object.iter().all(|(name, value)| self.spend_text(name) && self.spend_value(value))
            }
            _ => self.spend(1),
        }
    }

    /// Whether two values are equal; not if that costs too much to know.
    pub(crate) fn are_equal(&mut self, one: &Value, other: &Value) -> bool {
        if !self.spend(1) {
            return false;
        }
        match (one, other) {
            (Value::String(one), Value::String(other)) => {
                one.len() == other.len() && self.spend_text(one) && one == other
            }
            (Value::Array(one), Value::Array(other)) => {
                one.len() == other.len()
                    && one.iter().zip(other).all(|(one, other)| self.are_equal(one, other))
            }
            (Value::Object(one), Value::Object(other)) => {
                one.len() == other.len()
                    && one.iter().all(|(name, value)| {
                        self.spend_text(name)
                            && other.get(name).is_some_and(|other| self.are_equal(value, other))
                    })
            }
            (one, other) => one == other,
        }
    }

    /// The steps that are gone.
    #[cfg(test)]
    pub(crate) fn spent(&self) -> u64 {
        STEPS - self.0
    }
}
