//! [`Churn`]: creates, deletes, moves and changes pods in the background.
//!
//! Invariants: one operation at a time works on a pod; a pod whose operation failed is not used any more, because its
//! state is unknown.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;

use super::{PHASES, Pods};
use crate::load::{Load, Tally};

/// Background operations on pods.
pub struct Churn {
    load: Load,
    world: Arc<World>,
}

/// The operations that a churn has done.
#[derive(Debug, Clone)]
pub struct Done {
    /// All operations.
    pub tally: Tally,
    /// Number of created pods.
    pub created: u64,
    /// Number of deleted pods.
    pub deleted: u64,
    /// Number of pods deleted and created again on another node, half of them under the same name.
    pub moved: u64,
    /// Number of phase changes.
    pub changed: u64,
}

struct World {
    pods: Pods,
    nodes: Vec<String>,
    state: Mutex<State>,
    counts: [AtomicU64; 4],
}

struct State {
    /// Existing pods without a running operation.
    idle: Vec<String>,
    /// The target number of pods.
    target: usize,
    random: u64,
}

/// One operation. Each variant has the counter at its position.
enum Step {
    Create { name: String },
    Delete { name: String },
    Move { from: String, to: String },
    Change { name: String, phase: &'static str },
}

impl Churn {
    pub(super) fn start(
        runtime: &Handle,
        pods: Pods,
        per_second: u32,
        seed: u64,
        nodes: &[String],
        idle: Vec<String>,
    ) -> Churn {
        let state = State { target: idle.len(), idle, random: seed };
        let nodes = nodes.to_vec();
        let world = Arc::new(World { pods, nodes, state: Mutex::new(state), counts: Default::default() });
        let for_load = world.clone();
        let load = Load::start(runtime, per_second, move |number| for_load.clone().step(seed, number));
        Churn { load, world }
    }

    /// Waits until `count` operations have begun since the start.
    pub fn wait_begun(&self, count: u64, deadline: Duration) -> anyhow::Result<()> {
        self.load.wait_begun(count, deadline)
    }

    /// Number of operations that have begun.
    pub fn begun(&self) -> u64 {
        self.load.begun()
    }

    /// Waits for the running operations, ends the churn and returns what it has done.
    pub fn stop(self) -> Done {
        let tally = self.load.stop();
        let [created, deleted, moved, changed] =
            [0, 1, 2, 3].map(|kind| self.world.counts[kind].load(Ordering::Relaxed));
        Done { tally, created, deleted, moved, changed }
    }
}

impl World {
    async fn step(self: Arc<Self>, seed: u64, number: u64) -> anyhow::Result<()> {
        let (step, node) = {
            let mut state = self.lock();
            let node = state.below(self.nodes.len());
            (state.choose(&format!("churn-{seed}-{number}")), &self.nodes[node])
        };
        let pods = &self.pods;
        let (kind, left) = match step {
            Step::Create { name } => {
                pods.create(&name, node).await?;
                (0, Some(name))
            }
            Step::Delete { name } => {
                pods.delete(&name).await?;
                (1, None)
            }
            Step::Move { from, to } => {
                pods.delete(&from).await?;
                pods.create(&to, node).await?;
                (2, Some(to))
            }
            Step::Change { name, phase } => {
                pods.set_phase(&name, phase).await?;
                (3, Some(name))
            }
        };
        self.counts[kind].fetch_add(1, Ordering::Relaxed);
        self.lock().idle.extend(left);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Chooses the next operation: half of the time a move or a change, otherwise a creation or deletion towards the
    /// target number of pods. A new pod gets the given name.
    fn choose(&mut self, name: &str) -> Step {
        let (kind, at) = (self.below(8), self.below(self.idle.len().max(1)));
        let (name, few) = (name.to_owned(), self.idle.len() < self.target.max(1));
        if self.idle.is_empty() || (kind < 4 && few) {
            return Step::Create { name };
        }
        let taken = self.idle.swap_remove(at);
        match kind {
            0..4 => Step::Delete { name: taken },
            4 => Step::Move { from: taken, to: name },
            5 => Step::Move { to: taken.clone(), from: taken },
            _ => Step::Change { name: taken, phase: PHASES[self.below(PHASES.len())] },
        }
    }

    /// A random number below `bound` (SplitMix64).
    fn below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize % bound.max(1)
    }
}
