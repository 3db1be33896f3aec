//! [`Surface`]: what a server serves, told in both forms of discovery; tests change it while it is being asked.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::support::{Reply, Seen, Server, failure};

/// Which of `/api` and `/apis` the server tells in the aggregated form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Aggregated {
    Both,
    Core,
    Named,
    Neither,
}

#[derive(Clone)]
pub(super) struct Surface(Arc<Mutex<State>>);

struct State {
    aggregated: Aggregated,
    groups: Vec<Group>,
    /// Status code of all answers while there is one.
    away: Option<u16>,
}

struct Group {
    name: String,
    versions: Vec<Version>,
}

struct Version {
    name: String,
    down: bool,
    resources: Vec<Resource>,
}

/// A resource to be served.
#[derive(Clone)]
pub(super) struct Resource {
    pub(super) plural: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespaced: bool,
    pub(super) short: &'static [&'static str],
    pub(super) categories: &'static [&'static str],
    pub(super) below: &'static [&'static str],
}

pub(super) fn resource(plural: &'static str, kind: &'static str) -> Resource {
    Resource { plural, kind, namespaced: true, short: &[], categories: &[], below: &[] }
}

impl Resource {
    fn singular(&self) -> String {
        self.kind.to_lowercase()
    }

    fn legacy(&self) -> Vec<Value> {
        let verbs = ["get", "list"];
        let mut own = json!({
            "name": self.plural, "singularName": self.singular(), "namespaced": self.namespaced, "kind": self.kind,
            "verbs": verbs,
        });
        if !self.short.is_empty() {
            own["shortNames"] = json!(self.short);
        }
        if !self.categories.is_empty() {
            own["categories"] = json!(self.categories);
        }
        let below = self.below.iter().map(|part| {
            json!({
                "name": format!("{}/{part}", self.plural), "singularName": self.singular(),
                "namespaced": self.namespaced, "group": "autoscaling", "version": "v1", "kind": "Scale",
                "verbs": ["update"],
            })
        });
        std::iter::once(own).chain(below).collect()
    }

    fn aggregated(&self) -> Value {
        let below: Vec<Value> = self
            .below
            .iter()
            .map(|part| {
                let kind = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
                json!({"subresource": part, "responseKind": kind, "verbs": ["update"]})
            })
            .collect();
        json!({
            "resource": self.plural, "singularResource": self.singular(), "verbs": ["get", "list"],
            "responseKind": {"group": "", "version": "", "kind": self.kind},
            "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
            "shortNames": self.short, "categories": self.categories, "subresources": below,
        })
    }
}

pub(super) const AGGREGATED: &str = "as=APIGroupDiscoveryList";

impl Surface {
    pub(super) fn new(aggregated: Aggregated) -> Self {
        let surface = Self(Arc::new(Mutex::new(State { aggregated, groups: Vec::new(), away: None })));
        let pods = Resource { short: &["po"], categories: &["all"], ..resource("pods", "Pod") };
        let namespaces =
            Resource { namespaced: false, short: &["ns"], ..resource("namespaces", "Namespace") };
        let events = Resource { short: &["ev"], ..resource("events", "Event") };
        let deployments = Resource {
            short: &["deploy"],
            categories: &["all"],
            below: &["scale"],
            ..resource("deployments", "Deployment")
        };
        let scalers = Resource { short: &["hpa"], ..resource("scalers", "Scaler") };
        surface.serve("", "v1", &[pods, namespaces, events.clone()]);
        surface.serve("apps", "v1", &[deployments]);
        surface.serve("events.k8s.io", "v1", &[events]);
        surface.serve("scaling.example", "v2", std::slice::from_ref(&scalers));
        surface.serve("scaling.example", "v1", &[scalers, resource("oldscalers", "OldScaler")]);
        surface.serve("metrics.example", "v1beta1", &[resource("pods", "PodMetrics")]);
        surface
    }

    /// Lets a group version have these resources.
    pub(super) fn serve(&self, group: &str, version: &str, resources: &[Resource]) {
        let groups = &mut self.0.lock().groups;
        if !groups.iter().any(|g| g.name == group) {
            groups.push(Group { name: group.to_owned(), versions: Vec::new() });
        }
        let group = groups.iter_mut().find(|g| g.name == group).unwrap();
        group.versions.retain(|v| v.name != version);
        group.versions.push(Version { name: version.to_owned(), down: false, resources: resources.to_vec() });
    }

    /// Lets a group be no more.
    pub(super) fn remove(&self, group: &str) {
        self.0.lock().groups.retain(|g| g.name != group);
    }

    /// Lets the server behind a group be down, or up again.
    pub(super) fn down(&self, group: &str, down: bool) {
        let mut state = self.0.lock();
        let group = state.groups.iter_mut().find(|g| g.name == group).unwrap();
        group.versions.iter_mut().for_each(|v| v.down = down);
    }

    /// Lets everything be answered with this status, or as it is again.
    pub(super) fn away(&self, code: Option<u16>) {
        self.0.lock().away = code;
    }

    pub(super) async fn start(&self) -> Server {
        let surface = self.clone();
        Server::start(move |seen| surface.reply(seen)).await
    }

    pub(super) fn reply(&self, seen: &Seen) -> Reply {
        let state = self.0.lock();
        if let Some(code) = state.away {
            return Reply::new(code, failure(code, "", "away"));
        }
        let wanted = seen.header("accept").is_some_and(|accept| accept.contains(AGGREGATED));
        let path: Vec<&str> = seen.path().split('/').skip(1).collect();
        let is_core = path[0] == "api";
        let aggregated = wanted
            && match state.aggregated {
                Aggregated::Both => true,
                Aggregated::Core => is_core,
                Aggregated::Named => !is_core,
                Aggregated::Neither => false,
            };
        let group = |name: &str| state.groups.iter().find(|group| group.name == name);
        let document = match path.as_slice() {
            ["api" | "apis"] if aggregated => {
                let here = state.groups.iter().filter(|group| group.name.is_empty() == is_core);
                let items: Vec<Value> = here.map(Group::aggregated).collect();
                let body =
                    json!({"kind": "APIGroupDiscoveryList", "metadata": {}, "items": items}).to_string();
                return tagged(seen, body);
            }
            ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"]})),
            ["apis"] => {
                let groups: Vec<Value> =
                    state.groups.iter().filter(|g| !g.name.is_empty()).map(Group::legacy).collect();
                Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
            }
            ["apis", name] => group(name).map(Group::legacy),
            ["api", version] => group("").and_then(|group| group.version(version)),
            ["apis", name, version] => group(name).and_then(|group| group.version(version)),
            _ => None,
        };
        match document {
            None => Reply::new(404, "404 page not found"),
            Some(Value::Null) => Reply::new(503, failure(503, "ServiceUnavailable", "nobody is there")),
            Some(document) => Reply::json(document.to_string()),
        }
    }
}

/// An answer that is sent only to who does not have it.
fn tagged(seen: &Seen, body: String) -> Reply {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    let etag = format!("\"{:X}\"", hasher.finish());
    let reply = if seen.header("if-none-match") == Some(&etag) {
        Reply::new(304, "")
    } else {
        Reply::new(200, body)
            .header("content-type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
    };
    reply.header("etag", &etag)
}

impl Group {
    fn legacy(&self) -> Value {
        let version =
            |v: &Version| json!({"groupVersion": format!("{}/{}", self.name, v.name), "version": v.name});
        let versions: Vec<Value> = self.versions.iter().map(version).collect();
        json!({"name": self.name, "versions": versions, "preferredVersion": versions[0]})
    }

    /// `null` when the server behind it is down.
    fn version(&self, name: &str) -> Option<Value> {
        let version = self.versions.iter().find(|v| v.name == name)?;
        if version.down {
            return Some(Value::Null);
        }
        let resources: Vec<Value> = version.resources.iter().flat_map(Resource::legacy).collect();
        let place = if self.name.is_empty() { name.to_owned() } else { format!("{}/{name}", self.name) };
        Some(
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": place, "resources": resources}),
        )
    }

    fn aggregated(&self) -> Value {
        let version = |version: &Version| {
            if version.down {
                return json!({"version": version.name, "freshness": "Stale"});
            }
            let resources: Vec<Value> = version.resources.iter().map(Resource::aggregated).collect();
            json!({"version": version.name, "resources": resources, "freshness": "Current"})
        };
        let versions: Vec<Value> = self.versions.iter().map(version).collect();
        json!({"metadata": {"name": self.name, "creationTimestamp": null}, "versions": versions})
    }
}

/// What was asked for, in alphabetical order.
pub(super) fn paths(server: &Server) -> Vec<String> {
    let mut paths: Vec<String> = server.seen().iter().map(|seen| seen.path().to_owned()).collect();
    paths.sort();
    paths
}
