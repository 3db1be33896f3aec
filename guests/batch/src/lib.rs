//! A batch reconciler over ConfigMaps that treats each key as the object's `data.do` says: `fail`, `terminal`, `later`, `trap`, or
//! anything else, which is done. Each call logs `batch` with its keys in order; with `short` one answer is missing.

use pilothouse_sdk::prelude::*;

const CONFIG_MAP: Kind = Kind::core("v1", "ConfigMap");

#[derive(Deserialize, Default)]
#[serde(crate = "pilothouse_sdk::serde", rename_all = "camelCase", deny_unknown_fields, default)]
struct Settings {
    max_batch: Option<u32>,
    /// As `500ms`.
    linger: Option<String>,
    /// Only these namespaces.
    namespaces: Vec<String>,
}

struct Batch;

#[pilothouse_sdk::batch_reconciler]
impl BatchReconciler for Batch {
    fn describe(config: &Config) -> Result<Descriptor, String> {
        let settings: Settings = config.parse()?;
        let mut descriptor =
            Descriptor::new("batch").watch(Watch::new(CONFIG_MAP).namespaces(&settings.namespaces));
        if let Some(keys) = settings.max_batch {
            descriptor = descriptor.max_batch(keys);
        }
        if let Some(time) = &settings.linger {
            descriptor = descriptor.linger(pilothouse_sdk::duration::parse(time)?);
        }
        Ok(descriptor)
    }

    fn new(_config: &Config) -> Result<Self, String> {
        Ok(Self)
    }

    fn reconcile_many(&mut self, requests: &[Request]) -> Vec<Result<Outcome, Failure>> {
        let keys: Vec<String> =
            requests.iter().map(|request| format!("{}:{}", request.key, request.attempt)).collect();
        info!("batch", keys = keys.join(" "));
        let mut answers: Vec<_> = requests.iter().map(answer).collect();
        let short = |request: &Request| told(request).is_some_and(|what| what == "short");
        if requests.iter().any(short) {
            answers.pop();
        }
        answers
    }
}

fn told(request: &Request) -> Option<String> {
    cache::get(&CONFIG_MAP, &request.key).ok()??.get("/data/do").ok()?
}

fn answer(request: &Request) -> Result<Outcome, Failure> {
    match told(request).as_deref() {
        Some("fail") => Err(Failure::transient("told to fail")),
        Some("terminal") => Err(Failure::terminal("told to fail for good")),
        Some("later") => Ok(Outcome::RequeueAfter(Duration::from_secs(3600))),
        Some("trap") => panic!("told to panic at {}", request.key),
        _ => Ok(Outcome::Done),
    }
}
