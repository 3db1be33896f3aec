//! `pilothouse status`: asks a running host for its plugins, or for all about one of them, and prints that.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use pilothouse_manager::{
    ClusterView, ElectionView, PluginDetail, PluginList, PluginStatus, RemoteClusterView, WatchView,
};
use pilothouse_plugin::Rule;

use crate::admin_client::{AdminArgs, NOT_A_HOST};
use crate::table::{OutputFormat, Table, printable};
use pilothouse_hosting::output;

const EXAMPLES: &str = "Examples:
  # All plugins of the host on this machine
  pilothouse status

  # All about one plugin, as JSON
  pilothouse status pods-per-node -o json

  # A host elsewhere, which asks for a token
  pilothouse status --admin 10.0.0.7:9470 --token-file token";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Status {
    /// Show all about this plugin; about its run elsewhere than at home with PLUGIN@CLUSTER
    plugin: Option<String>,
    #[command(flatten)]
    admin: AdminArgs,
    /// Output format; JSON is the response of /plugins, or of /plugins/NAME
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

impl Status {
    pub(crate) fn main(&self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let path = match &self.plugin {
            Some(name) => path_of(name)?,
            None => "/plugins".to_owned(),
        };
        let body = runtime.block_on(self.admin.get(&path))?;
        let text = match self.output {
            OutputFormat::Json => String::from_utf8_lossy(&body).into_owned() + "\n",
            OutputFormat::Table if self.plugin.is_some() => {
                let detail: PluginDetail = serde_json::from_slice(&body).context(NOT_A_HOST)?;
                detail_text(&detail)
            }
            OutputFormat::Table => {
                let list: PluginList = serde_json::from_slice(&body).context(NOT_A_HOST)?;
                let head = not_ready(list.not_ready.as_deref())
                    + &list.election.as_ref().map_or_else(String::new, election)
                    + &clusters(&list.clusters);
                head + &table(&list.plugins) + &warnings(&list.plugins)
            }
        };
        output::print(&text)
    }
}

/// The path of all about a plugin. The host compares it as it is.
fn path_of(name: &str) -> Result<String> {
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-._/@".contains(c)) {
        bail!("no plugin is called {name:?}: leave the name out to see all plugins");
    }
    Ok(format!("/plugins/{name}"))
}

fn table(plugins: &[PluginStatus]) -> String {
    let header = ["NAME", "GENERATION", "STATE", "CALLS", "QUEUE", "DIGEST", "LAST ERROR"].map(str::to_owned);
    let mut rows = vec![header];
    rows.extend(plugins.iter().map(|p| {
        [
            p.name.clone(),
            p.generation.to_string(),
            p.state.as_str().to_owned(),
            p.calls.to_string(),
            p.queue_depth.to_string(),
            p.digest.strip_prefix("sha256:").map_or("", |d| &d[..d.len().min(12)]).to_owned(),
            p.last_error.as_ref().or(p.host_condition.as_ref()).cloned().unwrap_or_default(),
        ]
    }));
    Table::default().lines(&rows)
}

/// A line about a host that is not ready.
fn not_ready(why: Option<&str>) -> String {
    why.map_or_else(String::new, |why| format!("not ready: {}\n", printable(why)))
}

/// A line about the election. Control characters are escaped, since every client that may write the Lease chooses its names.
fn election(election: &ElectionView) -> String {
    printable(&format!("{election} ({}, {})", election.lease, election.identity)) + "\n"
}

/// A line for each cluster beside the home cluster.
fn clusters(clusters: &[ClusterView]) -> String {
    let line = |ClusterView { name, server, error }: &ClusterView| match error {
        None => format!("cluster {name}: {server}"),
        Some(error) => format!("cluster {name}: {server}: does not answer: {error}"),
    };
    clusters.iter().map(|cluster| printable(&line(cluster)) + "\n").collect()
}

/// A line for each warning.
fn warnings(plugins: &[PluginStatus]) -> String {
    let lines =
        plugins.iter().flat_map(|p| p.warnings.iter().map(|text| format!("{}: warning: {text}", p.name)));
    lines.map(|line| printable(&line) + "\n").collect()
}

/// All about one plugin, a line for each fact.
fn detail_text(detail: &PluginDetail) -> String {
    let PluginDetail { status, current, .. } = detail;
    let mut text = String::new();
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<18}{}", format!("{name}:"), printable(&value.to_string()));
    };
    line("name", &status.name);
    line("state", &status.state.as_str());
    let reasons = [&status.waiting_for, &status.last_error, &status.host_condition];
    for (name, reason) in ["waiting for", "last error", "host condition"].into_iter().zip(reasons) {
        reason.iter().for_each(|reason| line(name, reason));
    }
    status.warnings.iter().for_each(|warning| line("warning", warning));
    detail.quarantined_until.iter().for_each(|until| line("quarantined until", until));
    line("generation", &status.generation);
    line("component", &status.digest);
    if let Some(good) = &detail.last_good {
        line("last good", &format_args!("generation {}, {}", good.generation, good.digest));
    }
    if let Some(rollback) = &status.rolled_back {
        line("rolled back", &format_args!("from generation {}: {}", rollback.from, rollback.reason));
    }
    line("calls", &format_args!("{}, {} instances in use", status.calls, detail.usage.in_flight));
    line("queue", &format_args!("{} ready, {} delayed", status.queue_depth, detail.usage.queue_delayed));
    line("cpu", &format_args!("{:.3} s", detail.usage.cpu_seconds));
    let mebibytes = detail.usage.memory_bytes as f64 / f64::from(1 << 20);
    line("memory", &format_args!("{mebibytes:.1} MiB in {} instances", detail.usage.instances));
    if let Some(current) = current {
        line("manifest", &current.manifest_digest);
        line("config", &current.config_digest);
        current.service_account.iter().for_each(|account| line("service account", account));
        current.grants.iter().for_each(|rule| line("granted", &rule_text(rule)));
        for remote in &current.remote_clusters {
            let names: Vec<&str> = remote.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
            let granted = |rule: &Rule| format!("{}, in cluster {}", rule_text(rule), names.join(","));
            remote.grants.iter().for_each(|rule| line("granted", &granted(rule)));
            for RemoteClusterView { name, error } in &remote.clusters {
                error.iter().for_each(|error| line("remote cluster", &format_args!("{name}: {error}")));
            }
        }
        current.watches.iter().for_each(|watch| line("watch", &watch_text(watch)));
        for limit in &current.limits {
            let used = limit.used.as_ref().map_or(String::new(), |used| format!(", {used} used"));
            line("limit", &format_args!("{} {}{used}", limit.name, limit.limit.as_deref().unwrap_or("none")));
        }
    }
    for error in &detail.errors {
        line("error", &format_args!("{} ({} times, last at {})", error.message, error.count, error.last));
    }
    text
}

fn rule_text(rule: &Rule) -> String {
    let all = |list: &[String], none: &str| if list.is_empty() { none.to_owned() } else { list.join(",") };
    let groups = rule.groups.iter().map(|group| if group.is_empty() { "core" } else { group });
    let (groups, resources) = (groups.collect::<Vec<_>>().join(","), rule.resources.join(","));
    let (verbs, names) = (rule.verbs.join(","), all(&rule.names, "all names"));
    format!("{verbs} {resources} ({groups}) in {}, {names}", all(&rule.namespaces, "the cluster"))
}

fn watch_text(watch: &WatchView) -> String {
    let all = |part: &Option<String>| part.clone().unwrap_or_else(|| "*".to_owned());
    let informers = watch.informers.iter().map(|informer| {
        let error = informer.error.as_ref().map_or(String::new(), |error| format!(", {error}"));
        let (namespace, name) = (all(&informer.namespace), all(&informer.name));
        format!("{namespace}/{name} ({} objects{error})", informer.objects)
    });
    format!("{} to {}, from {}", watch.kind, watch.map, informers.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_lines_up_and_shortens_digests() {
        let list: PluginList = serde_json::from_str(
            r#"{"plugins":[{"name":"a-long-name","generation":3,"digest":"sha256:0123456789abcdef","state":"running",
                "lastError":null,"warnings":["too much"],"calls":12,"queueDepth":0},
                {"name":"b","generation":0,"digest":"","state":"failed","lastError":"b.wasm: not wasm","calls":0,
                "queueDepth":0}]}"#,
        )
        .unwrap();
        let text = table(&list.plugins);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(
            lines[1].starts_with("a-long-name  3           running  12     0      0123456789ab"),
            "{text}"
        );
        assert!(lines[2].ends_with("b.wasm: not wasm"), "{text}");
        assert_eq!(warnings(&list.plugins), "a-long-name: warning: too much\n");
        assert_eq!(clusters(&list.clusters), "", "as of a host without other clusters");
        assert_eq!(not_ready(list.not_ready.as_deref()), "");
        let waits: PluginList = serde_json::from_str(r#"{"notReady":"no kind","plugins":[]}"#).unwrap();
        assert_eq!(not_ready(waits.not_ready.as_deref()), "not ready: no kind\n");
    }

    #[test]
    fn a_cluster_that_does_not_answer_says_why() {
        let list: PluginList = serde_json::from_str(
            r#"{"plugins":[],"clusters":[{"name":"east","server":"https://e"},
                {"name":"west","server":"https://w","error":"no route"}]}"#,
        )
        .unwrap();
        let wanted = "cluster east: https://e\ncluster west: https://w: does not answer: no route\n";
        assert_eq!(clusters(&list.clusters), wanted);
    }

    #[test]
    fn what_plugins_and_users_of_the_cluster_wrote_makes_no_line_and_commands_no_terminal() {
        let hostile = "x\u{1b}[2J\ny";
        let text = |json: &str| json.replace("HOSTILE", "x\\u001b[2J\\ny");
        let list: PluginList = serde_json::from_str(&text(
            r#"{"plugins":[{"name":"p","generation":1,"digest":"","state":"running","lastError":"HOSTILE","calls":1,
                "queueDepth":0,"warnings":["HOSTILE"]}],"clusters":[{"name":"east","server":"HOSTILE","error":"HOSTILE"}],
                "election":{"role":"standby","lease":"a/b","identity":"i","leader":"HOSTILE","transitions":null}}"#,
        ))
        .unwrap();
        assert_eq!(list.plugins[0].last_error.as_deref(), Some(hostile));
        let detail: PluginDetail = serde_json::from_str(&text(
            r#"{"name":"p","generation":1,"digest":"","state":"running","lastError":"HOSTILE","calls":1,"queueDepth":0,
                "warnings":["HOSTILE"],"hostCondition":"HOSTILE","errors":[{"message":"HOSTILE","count":7,"last":"HOSTILE"}]}"#,
        ))
        .unwrap();
        for (text, shown) in [
            (table(&list.plugins), 1),
            (warnings(&list.plugins), 1),
            (clusters(&list.clusters), 2),
            (election(list.election.as_ref().unwrap()), 1),
            (detail_text(&detail), 5),
        ] {
            assert_eq!(text.matches("x\u{fffd}[2J\u{fffd}y").count(), shown, "{text:?}");
            assert!(
                !text.contains(|c: char| c.is_control() && c != '\n') && !text.contains("\ny"),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_name_that_no_plugin_has_is_refused_with_the_remedy() {
        for name in ["p", "team-a/foo.v1", "p@east", "a_b"] {
            assert_eq!(path_of(name).unwrap(), format!("/plugins/{name}"));
        }
        for name in ["", "a b", "p?usage=true", "a\nb", "ü", "#"] {
            let error = path_of(name).unwrap_err().to_string();
            assert!(error.contains(&format!("{name:?}")) && error.contains("leave the name out"), "{error}");
        }
    }

    #[test]
    fn the_detail_has_a_line_for_each_fact() {
        let detail: PluginDetail = serde_json::from_str(
            r#"{"name":"p","generation":3,"digest":"sha256:01","state":"waiting","lastError":null,
                "waitingFor":"a right","calls":12,"queueDepth":1,"cpuSeconds":1.5,"memoryBytes":3145728,"instances":2,
                "inFlight":1,"queueDelayed":4,"lastGood":{"generation":2,"digest":"sha256:02"},
                "errors":[{"message":"ns/x: no","count":7,"last":"2026-11-23T12:00:00Z"}],
                "current":{"manifestDigest":"sha256:03","configDigest":"04","serviceAccount":"ns/robot",
                "grants":[{"groups":[""],"resources":["pods"],"verbs":["get"],"namespaces":["a"]}],
                "remoteClusters":[{"clusters":[{"name":"east","error":"no route"},{"name":"west"}],
                "grants":[{"groups":["apps"],"resources":["deployments"],"verbs":["patch"],"namespaces":["b"]}]}],
                "watches":[{"kind":"v1/Pod","map":"self","informers":[{"namespace":"a","objects":5}]}],
                "limits":[{"name":"queueDepth","limit":"7","used":"1"}]}}"#,
        )
        .unwrap();
        let text = detail_text(&detail);
        for wanted in [
            "state:            waiting\n",
            "waiting for:      a right\n",
            "last good:        generation 2, sha256:02\n",
            "calls:            12, 1 instances in use\n",
            "queue:            1 ready, 4 delayed\n",
            "memory:           3.0 MiB in 2 instances\n",
            "service account:  ns/robot\n",
            "granted:          get pods (core) in a, all names\n",
            "granted:          patch deployments (apps) in b, all names, in cluster east,west\n",
            "remote cluster:   east: no route\n",
            "watch:            v1/Pod to self, from a/* (5 objects)\n",
            "limit:            queueDepth 7, 1 used\n",
            "error:            ns/x: no (7 times, last at 2026-11-23T12:00:00Z)\n",
        ] {
            assert!(text.contains(wanted), "{wanted}{text}");
        }
    }
}
