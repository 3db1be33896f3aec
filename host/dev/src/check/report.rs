//! [`Report`]: what is known of a checked component, as text and as JSON.

use std::collections::HashSet;
use std::fmt::{Display, Write as _};

use pilothouse_plugin::{Description, IndexSource, KeyMap, Rule, printable};
use serde::Serialize;
use serde_json::value::RawValue;

use pilothouse_hosting::inspect::interfaces::{Interfaces, short};
use pilothouse_hosting::output::size;

/// All that was found. What a refusal left unknown is absent.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    pub(crate) component: String,
    pub(crate) component_bytes: usize,
    #[serde(flatten)]
    pub(crate) interfaces: Interfaces,
    /// The name of the plugin.
    pub(crate) plugin: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) manifest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    pub(crate) code: Option<CodeReport>,
    /// As the component wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<Box<RawValue>>,
    #[serde(skip)]
    pub(crate) parsed: Option<Description>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wake: Option<Wake>,
    pub(crate) warnings: Vec<String>,
    /// Why a host refuses the plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<String>,
}

/// What is known once a component is compiled and linked.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CodeReport {
    pub(crate) digest: String,
    pub(crate) world: &'static str,
    pub(crate) machine_code_bytes: u64,
    pub(crate) compile_seconds: f64,
}

/// How long it takes from an unloaded component to an instance.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Wake {
    pub(crate) times: usize,
    pub(crate) median_seconds: f64,
    pub(crate) longest_seconds: f64,
}

/// `0.18 ms`, `2.4 s`
fn spell(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.2} ms", seconds * 1e3) } else { format!("{seconds:.1} s") }
}

/// The names of the exports, without package and version where they are of the contract.
fn export_names(interfaces: &Interfaces) -> Vec<&str> {
    interfaces.exports.iter().map(|name| short(name)).collect()
}

/// Imports with the same meaning, joined: their names and the meaning, in the order of their first.
fn grouped(interfaces: &Interfaces) -> Vec<(String, &'static str)> {
    let mut groups: Vec<(Vec<&str>, &'static str)> = Vec::new();
    // One that no host takes may have millions.
    let mut seen = HashSet::new();
    for import in &interfaces.imports {
        let name = package_or_name(&import.name);
        match groups.iter_mut().find(|(_, meaning)| *meaning == import.meaning) {
            _ if !seen.insert((name, import.meaning)) => {}
            Some((names, _)) => names.push(name),
            None => groups.push((vec![name], import.meaning)),
        }
    }
    groups.into_iter().map(|(names, meaning)| (names.join(", "), meaning)).collect()
}

/// As [`short`]; of others, the package: `wasi:io` of `wasi:io/streams@0.2.6`.
fn package_or_name(name: &str) -> &str {
    match short(name) {
        same if same.len() < name.len() => same,
        other => other.split('/').next().unwrap_or(other),
    }
}

impl Report {
    /// For people: a line for each fact.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: &dyn Display| {
            // The component chose much of it. Writing to a string cannot fail.
            let _ = writeln!(text, "{:<16}{}", format!("{name}:"), printable(&value.to_string()));
        };
        let component_bytes = u64::try_from(self.component_bytes).unwrap_or(u64::MAX);
        line("component", &format_args!("{}, {}", self.component, size(component_bytes)));
        let contract = self.interfaces.contract.as_deref().unwrap_or("none");
        let world = self.code.as_ref().map_or(String::new(), |code| format!(", world {}", code.world));
        line("contract", &format_args!("{contract}{world}"));
        let exports = export_names(&self.interfaces);
        line("exports", &if exports.is_empty() { "nothing".to_owned() } else { exports.join(", ") });
        for (names, meaning) in grouped(&self.interfaces) {
            line("import", &format_args!("{names}: {meaning}"));
        }
        if self.interfaces.contract.is_some() && self.interfaces.of_wasi().is_empty() {
            line("WASI", &"none: it has no clock of the standard library, and no standard output");
        }
        let manifest = self.manifest.as_deref().unwrap_or("none");
        line("plugin", &format_args!("{}, manifest {manifest}", self.plugin));
        if let Some(description) = &self.parsed {
            describe(description, &mut line);
        }
        if let Some(code) = &self.code {
            line("digest", &code.digest);
            let (bytes, took) = (size(code.machine_code_bytes), spell(code.compile_seconds));
            line("machine code", &format_args!("{bytes}, compiled in {took}"));
        }
        if let Some(Wake { times, median_seconds, longest_seconds }) = &self.wake {
            let (median, longest) = (spell(*median_seconds), spell(*longest_seconds));
            line("wake", &format_args!("{median}, at most {longest} ({times} times)"));
        }
        self.warnings.iter().for_each(|warning| line("warning", warning));
        text
    }
}

fn describe(description: &Description, line: &mut impl FnMut(&str, &dyn Display)) {
    for watch in &description.watches {
        let mut text = watch.kind.to_string();
        if let Some(namespaces) = &watch.namespaces {
            let _ = write!(text, " in {}", namespaces.join(", "));
        }
        for (what, selector) in
            [("labels", watch.label_selector.to_string()), ("fields", watch.field_selector.to_string())]
        {
            if !selector.is_empty() {
                let _ = write!(text, ", {what} {selector}");
            }
        }
        line(
            "watch",
            &format_args!("{text}, to {}", watch.maps.iter().map(map).collect::<Vec<_>>().join(" and ")),
        );
    }
    for index in &description.indexes {
        let source = match &index.source {
            IndexSource::Path(path) => path.to_string(),
            IndexSource::Label(name) => format!("label {name}"),
            IndexSource::Annotation(name) => format!("annotation {name}"),
            IndexSource::Owner => "UIDs of owners".to_owned(),
        };
        line("index", &format_args!("{} of {}: {source}", index.name, index.kind));
    }
    for schedule in &description.schedules {
        line("schedule", &format_args!("{} every {:?}", schedule.key, schedule.every));
    }
    if let Some(resync) = description.resync {
        line("resync", &format_args!("every {resync:?}"));
    }
    description.permissions.iter().for_each(|rule| line("asks for", &rule_text(rule)));
    description.outgoing_hosts.iter().for_each(|host| line("asks for", &format_args!("HTTP to {host}")));
}

fn map(map: &KeyMap) -> String {
    match map {
        KeyMap::Itself => "its own key".to_owned(),
        KeyMap::Owner { kind, .. } => format!("the key of its owner ({kind})"),
        KeyMap::Label { name, .. } => format!("the key in label {name}"),
        KeyMap::Field { path, .. } => format!("the keys at {path}"),
        KeyMap::Annotation { name, .. } => format!("the key in annotation {name}"),
        KeyMap::AllKeys(kind) => format!("the keys of all {kind}"),
        KeyMap::Handler => "the event handlers".to_owned(),
    }
}

/// `get, list pods (core) in a, all names`
fn rule_text(rule: &Rule) -> String {
    let groups: Vec<&str> =
        rule.groups.iter().map(|group| if group.is_empty() { "core" } else { group.as_str() }).collect();
    let mut text = format!("{} {} ({})", rule.verbs.join(", "), rule.resources.join(", "), groups.join(", "));
    match &*rule.namespaces {
        [] => {}
        [all] if all == "*" => text += " in all namespaces",
        some => _ = write!(text, " in {}", some.join(", ")),
    }
    if !rule.names.is_empty() {
        let _ = write!(text, ", named {}", rule.names.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use pilothouse_plugin::{DescriptorLimits, World};

    use super::*;
    use pilothouse_hosting::inspect::interfaces::{Import, meaning};

    #[test]
    fn times_are_short() {
        assert_eq!([0.000_18, 2.44].map(spell), ["0.18 ms", "2.4 s"]);
    }

    #[test]
    fn a_refused_component_has_the_lines_that_are_known() {
        let report = Report {
            component: "p.wasm".into(),
            component_bytes: 5,
            plugin: "p".into(),
            ..Report::default()
        };
        let text = report.text();
        assert_eq!(
            text,
            "component:      p.wasm, 5 bytes\ncontract:       none\nexports:        nothing\nplugin:         p, manifest none\n"
        );
        let json = serde_json::to_value(Report { refused: Some("no".into()), ..report }).unwrap();
        assert_eq!(json["refused"], "no");
        assert!(json.get("digest").is_none() && json["exports"].as_array().is_some(), "{json}");
    }

    #[test]
    fn a_component_without_imports_of_wasi_has_a_line_for_it() {
        let text = |name: &str| {
            let imports = vec![Import { name: name.to_owned(), meaning: meaning(name) }];
            let interfaces =
                Interfaces { contract: Some("0.2.0".to_owned()), imports, ..Interfaces::default() };
            Report { interfaces, ..Report::default() }.text()
        };
        let with = text("wasi:cli/stdout@0.2.6");
        assert!(!with.contains("WASI:"), "{with}");
        let without = text("pilothouse:controller/log@0.2.0");
        assert!(without.contains("\nWASI:           none: "), "{without}");
    }

    #[test]
    fn names_are_short_and_imports_with_one_meaning_are_one_line() {
        let import = |name: &str| Import { name: name.to_owned(), meaning: meaning(name) };
        let interfaces = Interfaces {
            contract: None,
            exports: vec!["pilothouse:controller/reconcile@0.2.1".to_owned(), "a:b/c@1.0.0".to_owned()],
            imports: [
                "pilothouse:controller/types@0.2.1",
                "wasi:io/poll@0.2.6",
                "wasi:io/error@0.2.6",
                "pilothouse:controller/log@0.2.1",
                "wasi:cli/stdout@0.2.6",
                "wasi:http/types@0.2.6",
                "wasi:sockets/tcp@0.2.6",
            ]
            .map(import)
            .into(),
        };
        assert_eq!(export_names(&interfaces), ["reconcile", "a:b/c@1.0.0"]);
        let grouped: Vec<String> = grouped(&interfaces).into_iter().map(|(names, _)| names).collect();
        assert_eq!(grouped, ["types, log", "wasi:io, wasi:cli", "wasi:http", "wasi:sockets"]);
    }

    #[test]
    fn what_a_component_chose_cannot_move_the_cursor() {
        let text = r#"{"apiVersion":"pilothouse.dev/describe/v1alpha1","name":"p","watches":[{"version":"v1","kind":"A\u001b[2J\nB"}]}"#;
        let description =
            Description::parse(text.as_bytes(), World::Reconciler, &DescriptorLimits::default());
        let interfaces = Interfaces { exports: vec!["a\u{1b}b".to_owned()], ..Interfaces::default() };
        let report = Report { parsed: Some(description.unwrap()), interfaces, ..Report::default() };
        let text = report.text();
        assert!(text.contains("\\u{1b}[2J") && text.contains("a\\u{1b}b"), "{text}");
        assert!(!text.contains('\u{1b}') && text.lines().all(|line| line.contains(':')), "{text}");
    }
}
