//! [`replay`]: runs a recording against a component.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_engine::{CONTRACT, Code, Event, Fault, HostImports, Instance, LoadError, LogLevel};
use pilothouse_object::{Object, ObjectKey};
use serde_json::{Value, json};

use super::compare::{Comparison, Difference, Ended};
use super::imports::ReplayImports;
use super::tape::ReplayTape;
use crate::format::{CallLine, InstanceLine, RecordedInstance, Recording};
use crate::values::{self, Back as _, OwnRequest};

/// The time of a call, of its CPU and of the wall clock: this machine may be slower than the other one.
const CALL_TIME: Duration = Duration::from_secs(60);

/// How a recording is replayed.
#[derive(Debug, Clone, Default)]
pub struct ReplayOptions {
    /// The plugin; none: all whose world is that of the component.
    pub plugin: Option<String>,
    /// Leave lines of the log and metrics out.
    pub ignore_logs: bool,
}

/// Why nothing can be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The component cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The recording has no calls.
    #[error("the recording has no instance of a plugin")]
    Empty,
    /// The recording has no such plugin.
    #[error("the recording has no plugin {wanted:?}; it has {}", known.join(", "))]
    UnknownPlugin {
        /// The name that was asked for.
        wanted: String,
        /// The names that are there.
        known: Vec<String>,
    },
    /// The component is of another world or contract.
    #[error("the component has world {found} and contract {contract}, and the recording has {}", recorded.join(", "))]
    OtherWorld {
        /// The world of the component.
        found: String,
        /// The contract of the component.
        contract: String,
        /// The plugins of the recording, with their worlds.
        recorded: Vec<String>,
    },
    /// This host has no room for an instance.
    #[error("no instance can be made: {0}")]
    Host(String),
}

/// What a replay found.
#[derive(Debug)]
pub struct ReplayReport {
    /// The plugins that were replayed.
    pub plugins: Vec<String>,
    /// Calls that were replayed.
    pub calls: usize,
    /// Instances that were replayed.
    pub instances: usize,
    /// Calls that ran out of CPU or wall-clock time then, and were compared up to there.
    pub cut: usize,
    /// Whether the component is the one that was recorded, in all instances.
    pub is_same_component: bool,
    /// The first difference.
    pub difference: Option<Box<Difference>>,
}

/// Runs the calls of a recording.
///
/// # Errors
/// When the recording has nothing that fits the component.
pub async fn replay(
    code: &Code,
    recording: &Recording,
    options: &ReplayOptions,
) -> Result<ReplayReport, ReplayError> {
    let chosen = chosen(code, recording, options)?;
    let mut plugins: Vec<String> = chosen.iter().map(|instance| instance.line.plugin.clone()).collect();
    plugins.sort_unstable();
    plugins.dedup();
    let mut report = ReplayReport {
        plugins,
        calls: 0,
        instances: 0,
        cut: 0,
        is_same_component: chosen.iter().all(|instance| instance.line.digest == code.digest()),
        difference: None,
    };
    for recorded in chosen {
        report.difference = run(code, recording, recorded, options, &mut report).await?;
        if report.difference.is_some() {
            break;
        }
    }
    Ok(report)
}

/// The instances that are replayed.
fn chosen<'a>(
    code: &Code,
    recording: &'a Recording,
    options: &ReplayOptions,
) -> Result<Vec<&'a RecordedInstance>, ReplayError> {
    if recording.instances.is_empty() {
        return Err(ReplayError::Empty);
    }
    let named = |instance: &&RecordedInstance| {
        options.plugin.as_ref().is_none_or(|plugin| *plugin == instance.line.plugin)
    };
    let named: Vec<_> = recording.instances.iter().filter(named).collect();
    if let (true, Some(wanted)) = (named.is_empty(), &options.plugin) {
        let known = recording.plugins().into_iter().map(str::to_owned).collect();
        return Err(ReplayError::UnknownPlugin { wanted: wanted.clone(), known });
    }
    let (world, contract) = (code.world()?.as_str(), CONTRACT);
    let fits = |line: &InstanceLine| line.world == world && line.contract == contract;
    let fitting: Vec<_> = named.iter().copied().filter(|instance| fits(&instance.line)).collect();
    if fitting.is_empty() {
        let shown = |line: &InstanceLine| format!("{} ({}, {})", line.plugin, line.world, line.contract);
        let mut recorded: Vec<String> = named.iter().map(|instance| shown(&instance.line)).collect();
        recorded.sort_unstable();
        recorded.dedup();
        return Err(ReplayError::OtherWorld {
            found: world.to_owned(),
            contract: contract.to_owned(),
            recorded,
        });
    }
    Ok(fitting)
}

/// Runs the calls of one instance.
async fn run(
    code: &Code,
    recording: &Recording,
    recorded: &RecordedInstance,
    options: &ReplayOptions,
    report: &mut ReplayReport,
) -> Result<Option<Box<Difference>>, ReplayError> {
    let line = &recorded.line;
    let start = Arc::new(line.start.clone());
    let tape = Arc::new(ReplayTape::new(Arc::clone(&start), options.ignore_logs));
    let config = line.config.get("json").and_then(Value::as_str).map(str::as_bytes).map(<[u8]>::to_vec);
    let imports: Arc<dyn HostImports> = Arc::new(ReplayImports {
        tape: Arc::clone(&tape),
        config: config.or_else(|| Vec::back(&line.config)).unwrap_or_default().into(),
        clusters: line.clusters.clone().into(),
        log: line.log.as_deref().and_then(|name| LogLevel::back(&name.into())),
        seed: u128::from_str_radix(&line.seed, 16).unwrap_or_default(),
    });
    let mut comparison = Comparison::new(line, recording.header.masked, options.ignore_logs);
    report.instances += 1;
    let made = Instance::new(code, imports, line.limits.with_time(CALL_TIME)).await;
    let (result, mut instance) = match made {
        Ok(instance) => (json!({}), Some(instance)),
        Err(fault) if fault.kind.is_of_host() => return Err(ReplayError::Host(fault.message)),
        Err(fault) => (values::fault(&fault), None),
    };
    let then = CallLine {
        instance: line.id,
        number: 0,
        call: 0,
        export: "start".to_owned(),
        args: json!({}),
        effects: line.start.clone(),
        result: line.fault.clone().unwrap_or_else(|| json!({})),
    };
    match comparison.compare(&then, tape.end(), result) {
        Ok(Ended::Same) => {}
        Ok(Ended::Cut) => report.cut += 1,
        Err(difference) => return Ok(Some(difference)),
    }
    for call in &recorded.calls {
        let Some(running) = instance.as_mut().filter(|instance| instance.is_usable()) else {
            // It could not go on then either.
            break;
        };
        tape.begin(Arc::new(call.effects.clone()));
        report.calls += 1;
        let result = match again(running, call).await {
            Some(Ok(result)) => result,
            Some(Err(fault)) => values::fault(&fault),
            None => return Ok(Some(comparison.unreadable(call))),
        };
        match comparison.compare(call, tape.end(), result) {
            Ok(Ended::Same) => {}
            Ok(Ended::Cut) => {
                report.cut += 1;
                break;
            }
            Err(difference) => return Ok(Some(difference)),
        }
    }
    Ok(None)
}

/// An event that was recorded.
struct OwnEvent {
    object: Option<Object>,
    old: Option<Object>,
    key: Option<ObjectKey>,
    flag: bool,
}

impl OwnEvent {
    fn read(value: &Value) -> Option<Self> {
        let object = |name: &str| match value.get(name) {
            None | Some(Value::Null) => Some(None),
            Some(object) => Object::back(object).map(Some),
        };
        let flag = |name: &str| value.get(name).is_some_and(|flag| flag == true);
        if value.get("added").is_some() {
            let object = object("added")?;
            return Some(Self { object, old: None, key: None, flag: flag("initial") });
        }
        if value.get("updated").is_some() {
            let (object, old) = (object("updated")?, object("old")?);
            return Some(Self { object, old, key: None, flag: true });
        }
        let key = value.get("deleted")?.as_str()?.parse().ok()?;
        let flag = flag("finalStateUnknown");
        Some(Self { object: object("object")?, old: None, key: Some(key), flag })
    }

    fn as_event(&self, value: &Value) -> Option<Event<'_>> {
        Some(match &self.key {
            Some(key) => Event::Deleted { key, object: self.object.as_ref(), final_state_unknown: self.flag },
            _ if value.get("updated").is_some() => {
                Event::Updated { old: self.old.as_ref(), new: self.object.as_ref()? }
            }
            _ => Event::Added { object: self.object.as_ref()?, initial: self.flag },
        })
    }
}

/// Makes a recorded call again. None where its arguments cannot be read.
async fn again(instance: &mut Instance, call: &CallLine) -> Option<Result<Value, Fault>> {
    let args = &call.args;
    Some(match &*call.export {
        "describe" => {
            let config = args.get("config")?;
            let config = match config.get("json").and_then(Value::as_str) {
                Some(text) => text.as_bytes().to_vec(),
                None => Vec::back(config)?,
            };
            instance.describe(&config).await.map(|answer| values::described(&answer))
        }
        "reconcile" => {
            let request = OwnRequest::back(args)?;
            let answer = instance.reconcile(&request.as_request(), call.call).await;
            answer.map(|answer| values::outcome(&answer))
        }
        "reconcile-many" => {
            let requests = args.get("requests")?.as_array()?;
            let requests: Vec<OwnRequest> = requests.iter().map(OwnRequest::back).collect::<Option<_>>()?;
            let requests: Vec<_> = requests.iter().map(OwnRequest::as_request).collect();
            let answers = instance.reconcile_many(&requests, call.call).await;
            answers.map(|answers| answers.iter().map(values::outcome).collect())
        }
        "on-events" => {
            let recorded = args.get("events")?.as_array()?;
            let events: Vec<OwnEvent> = recorded.iter().map(OwnEvent::read).collect::<Option<_>>()?;
            let events = events.iter().zip(recorded).map(|(event, value)| event.as_event(value));
            let events: Vec<Event<'_>> = events.collect::<Option<_>>()?;
            let answers = instance.handle(args.get("watch")?.as_str()?, &events, call.call).await;
            answers.map(|answers| values::handled(&answers))
        }
        "on-synced" => instance.synced(args.get("watch")?.as_str()?, call.call).await.map(|()| json!({})),
        _ => return None,
    })
}
