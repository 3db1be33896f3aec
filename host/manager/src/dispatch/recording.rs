//! [`RecordedComponent`]: a component whose instances are recorded. A host without a recording has none of this on its way.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use pilothouse_engine::{CallStart, Event, Failure, Fault, HostImports, LoadError, Outcome, Request};
use pilothouse_plugin::{Limits, Scope, World};
use pilothouse_recording::{InstanceInfo, Recorder, RecordingImports, Tape};

use crate::dispatch::guest::{Answer, Component, Guest};
use crate::imports::plugin_imports::PluginImports;
use crate::lifecycle::load::Load;

/// A component whose instances are recorded.
pub(crate) struct RecordedComponent {
    code: Arc<dyn Component>,
    recorder: Recorder,
    info: InstanceInfo,
}

impl RecordedComponent {
    /// The component of a load, as its instances are to be made.
    pub(crate) fn of(
        recorder: &Recorder,
        load: &Load<'_>,
        world: World,
        imports: &PluginImports,
    ) -> Arc<dyn Component> {
        let PluginImports { plugin, api_calls, remote_clusters, .. } = imports;
        let code = Arc::clone(load.code);
        if !recorder.takes(plugin) {
            return code;
        }
        let may = |verb| {
            let mut grants = std::iter::once(&api_calls.grants).chain(remote_clusters.grants());
            grants.any(|grants| grants.scope(verb, "", "secrets", true) != Scope::None)
        };
        let info = InstanceInfo {
            plugin: Arc::clone(plugin),
            generation: load.number,
            digest: code.digest().to_owned(),
            world,
            clusters: remote_clusters.names(),
            secret_config: load.config.secret_members(),
            may_write_secrets: ["create", "update", "patch"].into_iter().any(may),
        };
        Arc::new(Self { code, recorder: recorder.clone(), info })
    }
}

impl Component for RecordedComponent {
    fn digest(&self) -> &str {
        self.code.digest()
    }

    fn world(&self) -> Result<World, LoadError> {
        self.code.world()
    }

    fn unload(&self) {
        self.code.unload();
    }

    fn instantiate(
        &self,
        imports: Arc<dyn HostImports>,
        limits: Limits,
    ) -> BoxFuture<'_, Result<Box<dyn Guest>, Fault>> {
        Box::pin(async move {
            let tape = self.recorder.instance(self.info.clone(), &imports.config(), limits);
            let recording = Arc::new(RecordingImports::new(Arc::clone(&imports), Arc::clone(&tape)));
            let made = self.code.instantiate(recording, limits).await;
            tape.started(|level| imports.log_enabled(level), made.as_ref().err());
            Ok(Box::new(RecordedGuest { guest: made?, tape }) as Box<dyn Guest>)
        })
    }
}

/// An instance that is recorded.
struct RecordedGuest {
    guest: Box<dyn Guest>,
    tape: Arc<Tape>,
}

impl Guest for RecordedGuest {
    fn is_usable(&self) -> bool {
        self.guest.is_usable()
    }

    fn is_worn_out(&self) -> bool {
        self.guest.is_worn_out()
    }

    fn memory(&self) -> usize {
        self.guest.memory()
    }

    fn describe<'a>(&'a mut self, config: &'a [u8]) -> BoxFuture<'a, Result<Result<Vec<u8>, String>, Fault>> {
        Box::pin(self.tape.describe(config, self.guest.describe(config)))
    }

    fn reconcile<'a>(
        &'a mut self,
        request: &'a Request<'a>,
        call: CallStart,
    ) -> BoxFuture<'a, Result<Answer, Fault>> {
        Box::pin(self.tape.reconcile(request, call.id, self.guest.reconcile(request, call)))
    }

    fn reconcile_many<'a>(
        &'a mut self,
        requests: &'a [Request<'a>],
        call: CallStart,
    ) -> BoxFuture<'a, Result<Vec<Result<Outcome, Failure>>, Fault>> {
        Box::pin(self.tape.reconcile_many(requests, call.id, self.guest.reconcile_many(requests, call)))
    }

    fn handle<'a>(
        &'a mut self,
        watch: &'a str,
        events: &'a [Event<'a>],
        call: CallStart,
    ) -> BoxFuture<'a, Result<Vec<Result<(), Failure>>, Fault>> {
        Box::pin(self.tape.handle(watch, events, call.id, self.guest.handle(watch, events, call)))
    }

    fn synced<'a>(&'a mut self, watch: &'a str, call: CallStart) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.tape.synced(watch, call.id, self.guest.synced(watch, call)))
    }
}
