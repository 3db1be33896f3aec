//! What a plugin still has to do about the objects of a version of the cluster. For tests of plugins, which look at what is
//! *not* there: only a plugin at rest makes nothing more.
//!
//! A change goes through stages in one direction: server, informer, queue or ring, call, writes and events. They are looked
//! at in this order, so that what leaves a stage behind the look is found in the next. A call that queues its own key again
//! goes back; [`Plugin::work_left`] therefore counts calls, and a caller looks twice ([`Rest`]).

use std::time::Duration;

use crate::lifecycle::plugin::Plugin;
use crate::manager::Manager;
use crate::observe::metrics::atomics::AtomicCounter;
use crate::observe::metrics::of_plugin::FAULTS;
use crate::observe::status::PluginState;

/// Keys and events that are due within this time, as after a failure, are work at hand; later ones are not.
const SOON: Duration = Duration::from_millis(500);

/// Whether a plugin is at rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rest {
    /// It has something to do: what.
    Busy(String),
    /// Nothing was found. Two such looks with as many calls, and no write to the cluster in between, are a rest.
    Quiet {
        /// Calls that the plugin had begun.
        calls: u64,
    },
}

impl Manager {
    /// Whether a plugin has dealt with all objects up to a resource version of the cluster; none if there is no such plugin.
    #[must_use]
    pub fn rest(&self, name: &str, version: &str) -> Option<Rest> {
        let plugin = self.find(name)?;
        let calls = plugin.status().calls;
        Some(match plugin.work_left(version) {
            Some(work) => Rest::Busy(work),
            None => Rest::Quiet { calls },
        })
    }
}

/// What went wrong for a plugin since it was added. Lines of the log may be left out; these are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Troubles {
    /// Calls that ended in a fault of the plugin.
    pub faults: u64,
    /// What its manifest does not grant and it tried all the same.
    pub denials: u64,
}

impl Manager {
    /// What went wrong for a plugin; none if there is no such plugin.
    #[must_use]
    pub fn troubles(&self, name: &str) -> Option<Troubles> {
        Some(self.find(name)?.troubles())
    }
}

impl Plugin {
    fn troubles(&self) -> Troubles {
        let metrics = self.metrics();
        let faults = FAULTS.into_iter().filter(|kind| !kind.is_of_host());
        Troubles {
            faults: faults.map(|kind| metrics.faults(kind)).sum(),
            denials: metrics.denied.iter().map(AtomicCounter::get).sum(),
        }
    }

    fn work_left(&self, version: &str) -> Option<String> {
        let status = self.status();
        let Some(generation) = self.current().filter(|_| status.state == PluginState::Running) else {
            let reason = [status.waiting_for, status.last_error].into_iter().flatten().next();
            let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
            return Some(format!("the plugin is {}{reason}", status.state.as_str()));
        };
        for lease in generation.imports.kinds.get().into_iter().flatten().flat_map(|(_, view)| &view.leases) {
            if !lease.indexer().has_seen(version) {
                return Some(format!("its cache of {} has not caught up", lease.resource().gvr()));
            }
            if !lease.informer().is_at_rest() {
                return Some(format!("changes of {} are on their way", lease.resource().gvr()));
            }
        }
        let (waiting, any_delivery) = generation.deliveries(SOON);
        if any_delivery {
            return Some("events wait for its handlers".to_owned());
        }
        let ready = self.queue().len();
        if ready > 0 || self.backfill().is_pending() {
            return Some(format!("{ready} keys wait to be reconciled"));
        }
        if self.queue().is_due_within(SOON) {
            return Some(format!("{} keys wait to be reconciled again", self.queue().len_delayed()));
        }
        // Workers, pumps and writes; there are none while there is nothing to do.
        if self.tasks().len() > waiting {
            return Some("a call is in progress".to_owned());
        }
        (!self.events().are_written()).then(|| "Events that it recorded are being written".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pilothouse_engine::{Failure, FaultKind, Outcome};
    use pilothouse_plugin::World;
    use serde_json::json;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::observe::denials::Denied;
    use crate::testing::{Answers, FakeComponent, GuestCall, TestPlugin, done, fault, settle};

    type Answered = Option<Result<Outcome, Failure>>;

    /// A reconciler whose calls for keys of namespace `b` wait for a permit, and whose others are answered so.
    fn reconciler(
        gate: &Arc<Semaphore>,
        answer: impl Fn() -> Answered + Send + Sync + 'static,
    ) -> FakeComponent {
        let described = json!({"watches": [{"version": "v1", "kind": "ConfigMap"}]});
        let (component, _) = FakeComponent::new("sha256:a", World::Reconciler, described);
        let gate = Arc::clone(gate);
        component.script(move |call: GuestCall| {
            let (gate, answer) = (Arc::clone(&gate), answer());
            async move {
                if call.keys[0].starts_with("b/") {
                    gate.acquire().await.unwrap().forget();
                }
                let answers: Answers = answer.map_or_else(|| done(&call), |answer| Ok(vec![answer]));
                answers
            }
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_is_at_rest_when_it_has_dealt_with_all_that_the_server_had() {
        let test = TestPlugin::new().await;
        let left = || test.plugin.work_left(&test.server.version());
        assert!(left().unwrap().starts_with("the plugin is "), "{:?}", left());
        let gate = Arc::new(Semaphore::new(0));
        test.run(reconciler(&gate, || None)).await;
        settle().await;
        assert_eq!(left(), None);
        // The stages of a change.
        test.server.create("b/one", json!({}));
        assert_eq!(left().unwrap(), "its cache of configmaps.v1 has not caught up");
        settle().await;
        assert_eq!(left().unwrap(), "a call is in progress");
        gate.add_permits(1);
        settle().await;
        assert_eq!(left(), None);
        // A write of another kind is seen by a bookmark.
        test.server.skip_versions(5);
        test.server.create("a/two", json!({}));
        settle().await;
        test.server.skip_versions(5);
        assert_eq!(left().unwrap(), "its cache of configmaps.v1 has not caught up");
        test.server.bookmark();
        settle().await;
        assert_eq!(left(), None);
        test.end().await;
    }

    #[tokio::test(start_paused = true)]
    async fn faults_and_denials_are_counted_whatever_the_log_leaves_out() {
        // What is a fault of the host is none of the plugin.
        for (kind, faults) in [(FaultKind::HostBusy, 0), (FaultKind::Trap, 1)] {
            let test = TestPlugin::new().await;
            let described = json!({"watches": [{"version": "v1", "kind": "ConfigMap"}]});
            let (component, _calls) = FakeComponent::new("sha256:a", World::Reconciler, described);
            let component = component.script(move |call: GuestCall| async move {
                match &*call.keys[0] {
                    "a/faults" => Err(fault(kind)),
                    _ => done(&call),
                }
            });
            test.run(component).await;
            test.server.create("a/fine", json!({}));
            test.server.create("a/faults", json!({}));
            settle().await;
            assert_eq!(test.plugin.metrics().faults(kind), 1, "it was called");
            assert_eq!(test.plugin.troubles(), Troubles { faults, denials: 0 });
            test.plugin.denials().record(Denied::Http, "no");
            assert_eq!(test.plugin.troubles(), Troubles { faults, denials: 1 });
            test.end().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_comes_again_soon_is_work_and_one_that_comes_later_is_not() {
        let later = || Some(Ok(Outcome::RequeueAfter(Duration::from_secs(600))));
        let soon = || Some(Err(Failure { message: "no".to_owned(), terminal: false, retry_after: None }));
        let cases: [(fn() -> Answered, _); 2] =
            [(later, None), (soon, Some("1 keys wait to be reconciled again".to_owned()))];
        for (answer, wanted) in cases {
            let test = TestPlugin::new().await;
            test.run(reconciler(&Arc::new(Semaphore::new(0)), answer)).await;
            test.server.create("a/one", json!({}));
            settle().await;
            assert_eq!(test.plugin.work_left(&test.server.version()), wanted);
            test.end().await;
        }
    }
}
