//! [`Condition`]: an entry of `status.conditions`.

use serde::{Deserialize, Serialize};

use crate::Context;

/// An entry of `status.conditions`, as `metav1.Condition`.
///
/// ```
/// # use pilothouse_sdk::prelude::*;
/// # fn set(ctx: &Context, generation: Option<i64>, conditions: &mut Vec<Condition>, ready: bool) {
/// let ready = Condition::new("Ready", ready, "Available", "all replicas are available");
/// conditions.set_condition(ctx, ready.observed_generation(generation));
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What the condition is about, in `UpperCamelCase`: `Ready`.
    pub r#type: String,
    /// Whether it is so.
    pub status: ConditionStatus,
    /// Machine-readable, in `UpperCamelCase`.
    #[serde(default)]
    pub reason: String,
    /// Human-readable.
    #[serde(default)]
    pub message: String,
    /// When the status changed last, in RFC 3339.
    #[serde(default)]
    pub last_transition_time: String,
    /// The generation of the object that the condition was set for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Whether a condition is so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// It is so.
    True,
    /// It is not so.
    False,
    /// It is not known.
    #[default]
    Unknown,
}

impl From<bool> for ConditionStatus {
    fn from(is_so: bool) -> Self {
        if is_so { Self::True } else { Self::False }
    }
}

impl Condition {
    /// A condition; its time is set by [`Conditions::set_condition`].
    pub fn new(
        r#type: impl Into<String>,
        status: impl Into<ConditionStatus>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            r#type: r#type.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            ..Self::default()
        }
    }

    /// Sets the generation of the object that the condition is set for.
    #[must_use]
    pub fn observed_generation(mut self, generation: Option<i64>) -> Self {
        self.observed_generation = generation;
        self
    }
}

/// Methods of a list of conditions.
pub trait Conditions {
    /// Sets the condition of this type. `lastTransitionTime` is now if the status is another than before, and stays as it
    /// is otherwise. Returns whether anything is different.
    fn set_condition(&mut self, ctx: &Context, condition: Condition) -> bool;

    /// The condition of a type.
    fn condition(&self, r#type: &str) -> Option<&Condition>;

    /// Whether the condition of a type is true.
    fn is_condition_true(&self, r#type: &str) -> bool {
        self.condition(r#type).is_some_and(|condition| condition.status == ConditionStatus::True)
    }
}

impl Conditions for Vec<Condition> {
    fn set_condition(&mut self, ctx: &Context, mut condition: Condition) -> bool {
        match self.iter_mut().find(|present| present.r#type == condition.r#type) {
            Some(present) => {
                condition.last_transition_time = if present.status == condition.status {
                    present.last_transition_time.clone()
                } else {
                    ctx.now_rfc3339()
                };
                let is_different = *present != condition;
                *present = condition;
                is_different
            }
            None => {
                condition.last_transition_time = ctx.now_rfc3339();
                self.push(condition);
                true
            }
        }
    }

    fn condition(&self, r#type: &str) -> Option<&Condition> {
        self.iter().find(|condition| condition.r#type == r#type)
    }
}
