//! [`next_status`]: the status of a Plugin of the cluster, made of what was decided about it and of how its plugin fares.
//!
//! Pure: no clock, no cluster. Conditions have the form of `metav1.Condition`, so `kubectl wait` understands them.

use pilothouse_plugin::split_run;
use serde_json::{Value, json};

use super::Admission;
use crate::observe::status::{PluginState, PluginStatus};

/// Longest message of a condition in bytes: an error of a plugin may be long, and a status is stored and watched.
const LONGEST_MESSAGE: usize = 1024;

/// What is known of the plugin of a Plugin: of its run that fares worst.
#[derive(Debug)]
pub(crate) struct PluginView {
    /// Whether the plugin directory defines the plugin of this name.
    pub(crate) in_directory: bool,
    /// The plugin as `/plugins` shows it; none before there is one.
    pub(crate) status: Option<PluginStatus>,
    /// Digest of the manifest of the generation that runs.
    pub(crate) running_manifest: Option<String>,
}

impl PluginView {
    /// Of the status and the running manifest of each run. What a run elsewhere than at home says names its cluster.
    pub(crate) fn of_runs(
        in_directory: bool,
        runs: impl Iterator<Item = (PluginStatus, Option<String>)>,
    ) -> Self {
        let Some((mut status, running_manifest)) = runs.max_by_key(|(status, _)| severity(status)) else {
            return Self { in_directory, status: None, running_manifest: None };
        };
        if let (_, Some(cluster)) = split_run(&status.name) {
            let texts = [&mut status.host_condition, &mut status.waiting_for, &mut status.last_error];
            texts.into_iter().flatten().for_each(|text| *text = format!("in cluster {cluster:?}: {text}"));
        }
        Self { in_directory, status: Some(status), running_manifest }
    }
}

/// More for a run that fares worse.
fn severity(status: &PluginStatus) -> u8 {
    let is_troubled = status.last_error.is_some() || status.waiting_for.is_some();
    match status.state {
        PluginState::Running if !is_troubled && status.rolled_back.is_none() => 0,
        PluginState::Running => 1,
        PluginState::Paused => 2,
        PluginState::Draining => 3,
        PluginState::Loading => 4,
        PluginState::Waiting => 5,
        PluginState::Quarantined => 6,
        PluginState::Failed => 7,
    }
}

/// A condition without its times.
#[derive(Debug, PartialEq, Eq)]
struct Condition {
    is_true: bool,
    reason: &'static str,
    message: String,
}

impl Condition {
    fn new(is_true: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Self { is_true, reason, message: shortened(message.into()) }
    }
}

fn shortened(mut message: String) -> String {
    if message.len() > LONGEST_MESSAGE {
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE - "…".len()));
        message.push('…');
    }
    message
}

/// The status to write in place of `present` (null where there is none); none when it says the same. `now` is the time in
/// RFC 3339.
pub(crate) fn next_status(
    present: &Value,
    admission: &Admission,
    view: &PluginView,
    now: &str,
) -> Option<Value> {
    let conditions = [
        ("Accepted", accepted(admission, view)),
        ("Loaded", loaded(admission, view)),
        ("Ready", ready(admission, view)),
    ];
    let generation = admission.generation;
    let conditions = conditions.map(|(kind, Condition { is_true, reason, message })| {
        let status = if is_true { "True" } else { "False" };
        let before = present["conditions"].as_array().into_iter().flatten();
        let before = before.filter(|condition| condition["type"] == kind && condition["status"] == status);
        let since = before.filter_map(|condition| condition["lastTransitionTime"].as_str()).next();
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": since.unwrap_or(now), "observedGeneration": generation,
        })
    });
    let mut status = json!({"observedGeneration": generation, "conditions": conditions});
    let digest = view.status.as_ref().map_or("", |status| &status.digest);
    if !digest.is_empty() && !view.in_directory {
        status["digest"] = digest.into();
    }
    (status != *present).then_some(status)
}

fn accepted(admission: &Admission, view: &PluginView) -> Condition {
    match &admission.outcome {
        _ if view.in_directory => Condition::new(
            false,
            "InPluginDirectory",
            "the plugin directory of the host has a plugin of this namespace and name, which runs instead; remove it there, or \
             delete this Plugin",
        ),
        Err(reason) => Condition::new(false, "Refused", reason),
        Ok(_) => Condition::new(true, "Accepted", "the host takes the manifest"),
    }
}

/// Whether the newest version runs.
fn loaded(admission: &Admission, view: &PluginView) -> Condition {
    let (Ok(manifest), false) = (&admission.outcome, view.in_directory) else {
        return Condition::new(false, "NotAccepted", "see the condition Accepted");
    };
    let Some(status) = &view.status else {
        return Condition::new(false, "Loading", "the host begins to load it");
    };
    if let Some(rolled_back) = &status.rolled_back {
        let reason = &rolled_back.reason;
        return Condition::new(
            false,
            "RolledBack",
            format!("its first calls faulted, so the version before runs: {reason}"),
        );
    }
    if view.running_manifest.as_ref() == Some(manifest) {
        return Condition::new(true, "Loaded", "the newest version runs");
    }
    if let Some(waiting_for) = &status.waiting_for {
        return Condition::new(false, "Waiting", waiting_for);
    }
    match &status.last_error {
        Some(error) => Condition::new(false, "Failed", error),
        None => {
            Condition::new(false, "Loading", "the component is compiled, described, or waits for its caches")
        }
    }
}

/// Whether the plugin works, in its newest version or in the one before.
fn ready(admission: &Admission, view: &PluginView) -> Condition {
    if view.in_directory {
        return Condition::new(false, "NotAccepted", "see the condition Accepted");
    }
    let Some(status) = &view.status else {
        let reason = if admission.outcome.is_ok() { "Loading" } else { "NotAccepted" };
        return Condition::new(false, reason, "no version runs");
    };
    let why = || {
        let words = [&status.host_condition, &status.waiting_for, &status.last_error];
        words.into_iter().flatten().next().cloned().unwrap_or_default()
    };
    match status.state {
        PluginState::Running => {
            Condition::new(true, "Running", status.host_condition.clone().unwrap_or_default())
        }
        PluginState::Loading => Condition::new(false, "Loading", "no version runs yet"),
        PluginState::Waiting => Condition::new(false, "Waiting", why()),
        PluginState::Failed => Condition::new(false, "Failed", why()),
        PluginState::Quarantined => Condition::new(false, "Quarantined", why()),
        PluginState::Paused => Condition::new(false, "Paused", "an operator paused the plugin"),
        PluginState::Draining => Condition::new(false, "Draining", "the plugin is being removed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::status::RollbackView;

    const NOW: &str = "2026-01-02T03:04:05Z";

    fn admitted(outcome: Result<&str, &str>) -> Admission {
        Admission { generation: 7, outcome: outcome.map(str::to_owned).map_err(str::to_owned) }
    }

    fn plugin(state: PluginState) -> PluginStatus {
        PluginStatus {
            name: "a/p".to_owned(),
            generation: 3,
            digest: "sha256:1".to_owned(),
            state,
            last_error: None,
            warnings: Vec::new(),
            waiting_for: None,
            next_try: None,
            host_condition: None,
            rolled_back: None,
            calls: 5,
            queue_depth: 6,
            shard: None,
            holder: None,
        }
    }

    fn view(status: Option<PluginStatus>, running_manifest: Option<&str>) -> PluginView {
        PluginView { in_directory: false, status, running_manifest: running_manifest.map(str::to_owned) }
    }

    /// `status reason` of Accepted, Loaded and Ready, and their messages.
    fn shown(admission: &Admission, view: &PluginView) -> ([String; 3], String) {
        let status = next_status(&Value::Null, admission, view, NOW).unwrap();
        let text = |condition: usize, field: &str| {
            status["conditions"][condition][field].as_str().unwrap().to_owned()
        };
        let words = [0, 1, 2].map(|at| format!("{} {}", text(at, "status"), text(at, "reason")));
        (words, [0, 1, 2].map(|at| text(at, "message")).join("\n"))
    }

    #[test]
    fn conditions_say_what_was_decided_what_is_loaded_and_whether_it_works() {
        let ok = admitted(Ok("new"));
        let waiting =
            PluginStatus { waiting_for: Some("no ConfigMap".into()), ..plugin(PluginState::Waiting) };
        let failed = PluginStatus { last_error: Some("no component".into()), ..plugin(PluginState::Failed) };
        let newer_failed =
            PluginStatus { last_error: Some("no component".into()), ..plugin(PluginState::Running) };
        let rolled_back = RollbackView { from: 2, digest: String::new(), to: 1, reason: "trap".into() };
        let rolled_back = PluginStatus { rolled_back: Some(rolled_back), ..plugin(PluginState::Running) };
        let faulted = PluginStatus { last_error: Some("trap".into()), ..plugin(PluginState::Quarantined) };
        for (admission, view, words, message) in [
            (&ok, view(None, None), ["True Accepted", "False Loading", "False Loading"], "begins to load"),
            (
                &ok,
                view(Some(plugin(PluginState::Loading)), None),
                ["True Accepted", "False Loading", "False Loading"],
                "compiled",
            ),
            (
                &ok,
                view(Some(waiting), None),
                ["True Accepted", "False Waiting", "False Waiting"],
                "no ConfigMap",
            ),
            (
                &ok,
                view(Some(failed), None),
                ["True Accepted", "False Failed", "False Failed"],
                "no component",
            ),
            (
                &ok,
                view(Some(plugin(PluginState::Running)), Some("new")),
                ["True Accepted", "True Loaded", "True Running"],
                "newest version runs",
            ),
            (
                &ok,
                view(Some(newer_failed), Some("old")),
                ["True Accepted", "False Failed", "True Running"],
                "no component",
            ),
            (
                &ok,
                view(Some(rolled_back), Some("new")),
                ["True Accepted", "False RolledBack", "True Running"],
                "version before runs: trap",
            ),
            (
                &ok,
                view(Some(faulted), Some("new")),
                ["True Accepted", "True Loaded", "False Quarantined"],
                "trap",
            ),
            (
                &admitted(Err("spec.serviceAccount: it is missing")),
                view(Some(plugin(PluginState::Running)), Some("old")),
                ["False Refused", "False NotAccepted", "True Running"],
                "spec.serviceAccount: it is missing",
            ),
            (
                &ok,
                PluginView { in_directory: true, ..view(Some(plugin(PluginState::Running)), Some("file")) },
                ["False InPluginDirectory", "False NotAccepted", "False NotAccepted"],
                "plugin directory of the host has a plugin",
            ),
        ] {
            let (found, messages) = shown(admission, &view);
            assert_eq!(found, words, "{view:?}");
            assert!(messages.contains(message), "{view:?}: {messages}");
        }
    }

    #[test]
    fn a_status_is_written_again_only_when_it_says_something_else() {
        let ok = admitted(Ok("new"));
        let running = view(Some(plugin(PluginState::Running)), Some("new"));
        let first = next_status(&Value::Null, &ok, &running, NOW).unwrap();
        assert_eq!(
            (first["observedGeneration"].as_i64(), first["digest"].as_str()),
            (Some(7), Some("sha256:1"))
        );
        let later = "2026-01-02T03:05:00Z";
        // Numbers of calls and generations are of one host, and change all the time.
        let busy = PluginStatus { calls: 9, queue_depth: 0, generation: 4, ..plugin(PluginState::Running) };
        assert_eq!(next_status(&first, &ok, &view(Some(busy), Some("new")), later), None);
        // The time of a condition is that of its last change between true and false.
        let paused = view(Some(plugin(PluginState::Paused)), Some("new"));
        let second = next_status(&first, &ok, &paused, later).unwrap();
        let times = [0, 1, 2].map(|at| second["conditions"][at]["lastTransitionTime"].as_str().unwrap());
        assert_eq!(times, [NOW, NOW, later]);
        let newer = Admission { generation: 8, ..ok };
        assert_eq!(next_status(&first, &newer, &running, later).unwrap()["observedGeneration"], 8);
    }

    #[test]
    fn of_several_runs_the_one_that_fares_worst_is_shown_with_its_cluster() {
        let named = |name: &str, status: PluginStatus| {
            (PluginStatus { name: name.to_owned(), ..status }, Some("new".into()))
        };
        let failed =
            || PluginStatus { last_error: Some("no component".into()), ..plugin(PluginState::Failed) };
        let of = |runs: Vec<(PluginStatus, Option<String>)>| {
            let status = PluginView::of_runs(false, runs.into_iter()).status.unwrap();
            (status.name, status.last_error)
        };
        let home = || named("a/p", plugin(PluginState::Running));
        let waiting = || named("a/p@west", plugin(PluginState::Waiting));
        let shown = of(vec![home(), named("a/p@east", failed()), waiting()]);
        assert_eq!(shown, ("a/p@east".to_owned(), Some("in cluster \"east\": no component".to_owned())));
        assert_eq!(of(vec![home(), waiting()]).0, "a/p@west");
        assert_eq!(of(vec![named("a/p", failed()), waiting()]).1.as_deref(), Some("no component"));
        assert!(PluginView::of_runs(true, std::iter::empty()).status.is_none());
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        for length in LONGEST_MESSAGE - 4..LONGEST_MESSAGE + 4 {
            let message = shortened("a".repeat(length) + &"ä".repeat(length));
            assert!(message.len() <= LONGEST_MESSAGE && message.ends_with('…'), "{length}");
        }
        assert_eq!(shortened("a".repeat(LONGEST_MESSAGE)).len(), LONGEST_MESSAGE);
    }
}
