//! A controller that writes an object again and again and looks each time whether the cache shows what it wrote last.
//!
//! ConfigMaps of its namespace with these names set it going; it writes `NAME-own`:
//! - `steps`: each reconcile logs `read` with what the cache showed, whether that is `right`, and the number of the step;
//!   makes the next write, logs `wrote`, and puts its own key on the queue, so that the next reconcile begins at once.
//! - `handler`: the handler writes within its call and logs `read` before and after it has waited for the cache.

mod step;

use pilothouse_sdk::prelude::*;

use step::{CONFIG_MAP, Wanted};

#[derive(Deserialize)]
#[serde(crate = "pilothouse_sdk::serde", rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    namespace: String,
    /// How many steps are made.
    steps: usize,
    /// How long the handler waits.
    milliseconds: u64,
}

struct OwnWrites {
    settings: Settings,
    /// The steps made so far, and what the cache must show after the last.
    made: usize,
    wanted: Option<Wanted>,
}

#[pilothouse_sdk::controller]
impl Controller for OwnWrites {
    fn describe(config: &Config) -> Result<Descriptor, String> {
        let Settings { namespace, .. } = config.parse()?;
        let maps = Watch::new(CONFIG_MAP).namespaces([namespace]).map(Map::handler());
        Ok(Descriptor::new("own-writes").watch(maps))
    }

    fn new(config: &Config) -> Result<Self, String> {
        Ok(Self { settings: config.parse()?, made: 0, wanted: None })
    }

    fn on_add(&mut self, object: &Object, _initial: bool) {
        match object.name().as_str() {
            "steps" => queue::add(&object.key()),
            "handler" => {
                let own = Key::namespaced(&self.settings.namespace, "handler-own");
                match step::make(&own, 0) {
                    Ok(wanted) => {
                        log(&own, &wanted, "at once");
                        let limit = Duration::from_millis(self.settings.milliseconds);
                        let seen = cache::wait_for_writes(limit);
                        log(&own, &wanted, if seen { "seen" } else { "not seen" });
                    }
                    Err(error) => error!("{error}"),
                }
            }
            _ => {}
        }
    }

    fn reconcile(&mut self, request: &Request) -> Result<Outcome, Failure> {
        let own = Key::namespaced(&self.settings.namespace, "steps-own");
        if let Some(wanted) = &self.wanted {
            log(&own, wanted, &format!("step {}", self.made));
        }
        if self.made < self.settings.steps {
            self.wanted = Some(step::make(&own, self.made)?);
            self.made += 1;
            info!("wrote", when = format!("step {}", self.made));
            queue::add(&request.key);
        }
        Ok(Outcome::Done)
    }
}

fn log(own: &Key, wanted: &Wanted, when: &str) {
    match cache::get(&CONFIG_MAP, own) {
        Ok(found) => {
            let shown = found.as_ref().map_or_else(|| "none".to_owned(), Object::resource_version);
            let right = wanted.is_met(found.as_ref());
            info!("read", when = when, right = right, shown = shown, wanted = format!("{wanted:?}"));
        }
        Err(error) => error!("{error}"),
    }
}
