//! A controller in the style of client-go: each event logs a line `add KEY`, `update KEY` or `delete KEY` and puts
//! the key on the queue; each reconcile logs `reconcile KEY`. Tests of the world `controller` use it.

use pilothouse_sdk::prelude::*;

struct Handlers;

#[pilothouse_sdk::controller]
impl Controller for Handlers {
    fn describe(_config: &Config) -> Result<Descriptor, String> {
        Ok(Descriptor::new("handlers").watch(Watch::new(Kind::core("v1", "ConfigMap")).map(Map::handler())))
    }

    fn new(_config: &Config) -> Result<Self, String> {
        Ok(Self)
    }

    fn on_add(&mut self, object: &Object, initial: bool) {
        enqueue("add", &object.key(), &format!("initial={initial}"));
    }

    fn on_update(&mut self, old: Option<&Object>, new: &Object) {
        let old = old.map_or_else(|| "unknown".to_owned(), Object::resource_version);
        enqueue("update", &new.key(), &format!("{old}->{}", new.resource_version()));
    }

    fn on_delete(&mut self, deleted: &Deleted<'_>) {
        enqueue("delete", &deleted.key, &format!("final-state-unknown={}", deleted.final_state_unknown));
    }

    fn reconcile(&mut self, request: &Request) -> Result<Outcome, Failure> {
        let Request { key, attempt, reasons } = request;
        info!("reconcile {key}", reasons = reasons.join(","), attempt = attempt, waiting = queue::len());
        Ok(Outcome::Done)
    }
}

fn enqueue(event: &str, key: &Key, detail: &str) {
    info!("{event} {key}", detail = detail);
    queue::add(key);
}
