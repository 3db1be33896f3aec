//! `pilothouse events`: prints the Kubernetes Events that plugins recorded, and those that hosts recorded about them. It asks the API
//! server, so it needs no running host.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use jiff::Timestamp;
use pilothouse_client::{
    ApiResource, Client, ClientOptions, ListParams, RetryWatcher, WatchEvent, WatchParams,
};
use pilothouse_manager::PLUGIN_ANNOTATION;
use pilothouse_object::{Gvk, Object, human_duration};
use pilothouse_plugin::split_run;

use crate::table::Table;
use pilothouse_hosting::output;

const EXAMPLES: &str = "Examples:
  # Events of and about all plugins, in all namespaces
  pilothouse events

  # Those of one plugin in one namespace, and new ones as they come
  pilothouse events --plugin pods-per-node -n default -w";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Events {
    /// Only Events of this plugin, or of its run PLUGIN@CLUSTER, and Events of hosts about it
    #[arg(long, value_name = "NAME")]
    plugin: Option<String>,
    /// Only Events in this namespace; Events about cluster-scoped objects are in `default` [default: all namespaces]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Print new Events until interrupted
    #[arg(short, long)]
    watch: bool,
    /// Kubeconfig file; without it $KUBECONFIG, ~/.kube/config, then the service account of the pod
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

const HEADER: [&str; 8] = ["LAST SEEN", "TYPE", "REASON", "NAMESPACE", "OBJECT", "FROM", "COUNT", "MESSAGE"];

impl Events {
    pub(crate) fn main(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.print())
    }

    async fn print(self) -> Result<()> {
        let Self { plugin, namespace, watch, kubeconfig, context } = self;
        let client = Client::new(ClientOptions { kubeconfig, context, ..ClientOptions::default() }).await?;
        let resource = ApiResource::new(Gvk::new("", "v1", "Event"), "events", true);
        let namespace = namespace.as_deref();
        let mut printer = Printer { plugin, table: Table::default(), seen: BTreeMap::new() };
        let mut first = true;
        loop {
            let listed = printer.list(&client, &resource, namespace, first).await?;
            first = false;
            let Some(version) = listed.filter(|_| watch) else { return Ok(()) };
            let params = WatchParams { resource_version: Some(version), ..WatchParams::default() };
            let mut changes = RetryWatcher::new(&client, &resource, namespace, params)?;
            loop {
                match changes.next().await {
                    Some(Ok(WatchEvent::Added(event) | WatchEvent::Modified(event))) => {
                        if !printer.show(&event)? {
                            return Ok(());
                        }
                    }
                    Some(Ok(WatchEvent::Deleted(event))) => printer.forget(&event),
                    Some(Ok(WatchEvent::Bookmark { .. })) => {}
                    // Changes were missed: a new list has them.
                    Some(Err(error)) if error.is_expired() => break,
                    Some(Err(error)) => {
                        return Err(error)
                            .context("watching Events, which needs the permission `watch` on events");
                    }
                    None => break,
                }
            }
        }
    }
}

struct Printer {
    plugin: Option<String>,
    table: Table,
    /// Versions of the events that were printed, by UID.
    seen: BTreeMap<String, String>,
}

impl Printer {
    /// Prints what is there and was not printed before, the oldest first; answers the version of the list, or `None` where nobody
    /// reads any more.
    async fn list(
        &mut self,
        client: &Client,
        resource: &ApiResource,
        namespace: Option<&str>,
        header: bool,
    ) -> Result<Option<String>> {
        let mut keep = |event: Object| self.wants(&event).then_some(event);
        let params = ListParams::default();
        let list = client.list_all_with(resource, namespace, &params, &mut keep).await;
        let list = list.context(
            "listing Events, which needs the permission `list` on events; --namespace asks for one namespace",
        )?;
        let mut events = list.items;
        events.sort_by_cached_key(|event| last_seen(event).map(|time| time.parse::<Timestamp>().ok()));
        // What is gone meanwhile is not remembered any longer.
        let before = std::mem::take(&mut self.seen);
        let now = Timestamp::now();
        let mut rows: Vec<_> = header.then(|| HEADER.map(str::to_owned)).into_iter().collect();
        for event in &events {
            let (uid, version) = (event.uid().to_owned(), event.resource_version().to_owned());
            if before.get(&uid) != Some(&version) {
                rows.push(row(event, now));
            }
            self.seen.insert(uid, version);
        }
        let is_read = self.write(&rows)?;
        Ok(is_read.then_some(list.meta.resource_version))
    }

    fn wants(&self, event: &Object) -> bool {
        let plugin = event.annotation(PLUGIN_ANNOTATION);
        let is_wanted = |plugin: &str| {
            self.plugin.as_deref().is_none_or(|wanted| wanted == plugin || wanted == split_run(plugin).0)
        };
        plugin.is_some_and(|plugin| is_wanted(&plugin))
    }

    /// Prints an event that has come or changed. Answers whether somebody still reads, as far as is known.
    fn show(&mut self, event: &Object) -> Result<bool> {
        if !self.wants(event) {
            return Ok(true);
        }
        self.seen.insert(event.uid().to_owned(), event.resource_version().to_owned());
        self.write(&[row(event, Timestamp::now())])
    }

    fn forget(&mut self, event: &Object) {
        self.seen.remove(event.uid());
    }

    fn write(&mut self, rows: &[[String; 8]]) -> Result<bool> {
        output::print_on(&self.table.lines(rows))
    }
}

/// When an event was seen last, by whichever field its API has for it.
fn last_seen(event: &Object) -> Option<String> {
    let at = |pointer| event.get_string(pointer).filter(|time| !time.is_empty()).map(String::from);
    ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"]
        .into_iter()
        .find_map(at)
}

/// How long ago an event was seen last.
fn age(event: &Object, now: Timestamp) -> String {
    let time = last_seen(event).and_then(|time| time.parse().ok());
    time.map_or_else(|| "<unknown>".to_owned(), |time| human_duration(now.duration_since(time).as_secs()))
}

fn row(event: &Object, now: Timestamp) -> [String; 8] {
    let text = |pointer: &str| event.get_string(pointer).map(String::from).unwrap_or_default();
    let number = |pointer: &str| event.get(pointer).and_then(|count| count.parse::<u64>().ok());
    let count = number("/series/count").max(number("/count")).unwrap_or(1).max(1);
    let from = [text("/reportingComponent"), text("/source/component")];
    let object = format!("{}/{}", text("/involvedObject/kind").to_lowercase(), text("/involvedObject/name"));
    [
        age(event, now),
        text("/type"),
        text("/reason"),
        text("/metadata/namespace"),
        object,
        from.into_iter().find(|from| !from.is_empty()).unwrap_or_default(),
        count.to_string(),
        // As kubectl: what a message says on further lines stays on this one.
        text("/message").split_whitespace().collect::<Vec<_>>().join(" "),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(json: &str) -> Object {
        Object::decode(json.as_bytes()).expect("an object")
    }

    #[test]
    fn a_row_has_what_either_api_says() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let core = event(
            r#"{"apiVersion":"v1","kind":"Event","metadata":{"name":"a","namespace":"ns"},"type":"Normal","reason":"Scaled",
                "involvedObject":{"kind":"Pod","name":"web"},"message":"one\n two","count":3,"source":{"component":"old"},
                "firstTimestamp":"2026-01-01T00:00:00Z","lastTimestamp":"2026-01-01T00:09:00Z"}"#,
        );
        assert_eq!(row(&core, now), ["60s", "Normal", "Scaled", "ns", "pod/web", "old", "3", "one two"]);
        let series = event(
            r#"{"apiVersion":"v1","kind":"Event","metadata":{"name":"a","namespace":"ns"},"type":"Normal","reason":"Scaled",
                "involvedObject":{"kind":"Node","name":"n"},"eventTime":"2026-01-01T00:00:00.000000Z",
                "reportingComponent":"p","series":{"count":7,"lastObservedTime":"2026-01-01T00:09:30.000000Z"}}"#,
        );
        assert_eq!(row(&series, now), ["30s", "Normal", "Scaled", "ns", "node/n", "p", "7", ""]);
    }

    #[test]
    fn events_are_a_plugin_s_by_their_annotation() {
        let of = |plugin: Option<&str>| Printer {
            plugin: plugin.map(str::to_owned),
            table: Table::default(),
            seen: BTreeMap::new(),
        };
        let marked = event(
            r#"{"apiVersion":"v1","kind":"Event","metadata":{"name":"a","annotations":{"pilothouse.dev/plugin":"p"}}}"#,
        );
        let other =
            event(r#"{"apiVersion":"v1","kind":"Event","metadata":{"name":"a"},"reportingComponent":"p"}"#);
        assert!(of(None).wants(&marked) && of(Some("p")).wants(&marked) && !of(Some("q")).wants(&marked));
        assert!(!of(Some("p@east")).wants(&marked));
        let elsewhere = event(
            r#"{"apiVersion":"v1","kind":"Event","metadata":{"name":"a","annotations":{"pilothouse.dev/plugin":"p@east"}}}"#,
        );
        assert!(of(Some("p")).wants(&elsewhere) && of(Some("p@east")).wants(&elsewhere));
        assert!(!of(Some("p@west")).wants(&elsewhere) && !of(Some("east")).wants(&elsewhere));
        assert!(!of(None).wants(&other) && !of(Some("p")).wants(&other));
    }
}
