//! [`World`]: the world that a component targets.

/// The world that a component targets, derived from its exports before any of its code runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// `descriptor` and `reconcile`.
    Reconciler,
    /// `descriptor` and `reconcile-many`.
    BatchReconciler,
    /// `descriptor` and `handler`.
    EventHandler,
    /// `descriptor`, `handler` and `reconcile`.
    Controller,
    /// `descriptor`, `handler` and `reconcile-many`.
    BatchController,
}

impl World {
    /// The name in logs and documents.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reconciler => "reconciler",
            Self::BatchReconciler => "batch-reconciler",
            Self::EventHandler => "event-handler",
            Self::Controller => "controller",
            Self::BatchController => "batch-controller",
        }
    }

    /// Whether the component reconciles keys.
    #[must_use]
    pub fn reconciles(self) -> bool {
        self != Self::EventHandler
    }

    /// Whether the component handles events.
    #[must_use]
    pub fn handles(self) -> bool {
        matches!(self, Self::EventHandler | Self::Controller | Self::BatchController)
    }

    /// Whether the component reconciles many keys per call.
    #[must_use]
    pub fn batches(self) -> bool {
        matches!(self, Self::BatchReconciler | Self::BatchController)
    }
}
