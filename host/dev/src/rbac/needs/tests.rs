//! The rights of manifests, and that a role gives what the manifest grants and no more.

use pilothouse_plugin::{Access, DescriptorLimits, Place, World};

use super::super::rights::RoleRule;
use super::*;
use pilothouse_hosting::inspect::interfaces::Import;

fn plugin(spec: &str, watches: &str, imports: &[&str]) -> Plugin {
    let head = "apiVersion: pilothouse.dev/v1alpha1\nkind: Plugin\nmetadata: {name: p}\nspec:";
    let text =
        format!(r#"{{"apiVersion":"pilothouse.dev/describe/v1alpha1","name":"p","watches":[{watches}]}}"#);
    let description = Description::parse(text.as_bytes(), World::Reconciler, &DescriptorLimits::default());
    let import = |name: &&str| Import { name: format!("pilothouse:controller/{name}@0.2.1"), meaning: "" };
    Plugin {
        manifest: Arc::new(Manifest::parse(format!("{head} {spec}\n").as_bytes()).unwrap()),
        interfaces: Interfaces { imports: imports.iter().map(import).collect(), ..Interfaces::default() },
        description: Some(description.unwrap()),
    }
}

/// A line for each rule: `scope group resources [names] verbs`.
fn rules(plugin: &Plugin) -> Result<Vec<String>> {
    lines(|rights| of_plugin(plugin, rights))
}

fn lines(add: impl FnOnce(&mut Rights) -> Result<()>) -> Result<Vec<String>> {
    let mut rights = Rights::default();
    add(&mut rights)?;
    let mut lines = Vec::new();
    for (scope, rules) in rights.rules() {
        let scope = match scope {
            RoleScope::Cluster => "*".to_owned(),
            RoleScope::Namespace(namespace) => namespace,
        };
        for rule in rules {
            let verbs: Vec<_> = rule.verbs.iter().map(|verb| verb.as_str()).collect();
            let (resources, names) = (rule.resources.join(","), rule.names.join(","));
            lines.push(format!("{scope} {} {resources} [{names}] {}", rule.group, verbs.join(",")));
        }
    }
    Ok(lines)
}

const PODS: &str = r#"{"version":"v1","kind":"Pod"}"#;
const FOOS: &str = r#"{"group":"example.org","version":"v1","kind":"Foo"}"#;

#[test]
fn a_host_needs_what_it_does_itself_and_no_verb_more() {
    let spec = r#"{permissions: [
        {groups: [""], resources: [pods], verbs: [get, list, watch], namespaces: [b, a]},
        {groups: [""], resources: [nodes], verbs: [get], namespaces: ["*"]},
        {groups: [""], resources: [configmaps, configmaps/x], verbs: ["*"], namespaces: [a], names: [one]},
        {groups: [""], resources: [secrets, namespaces], verbs: [get]}]}"#;
    let watches = ["a  pods [] list,watch", "b  pods [] list,watch"];
    // Without the import there are no live calls.
    assert_eq!(rules(&plugin(spec, PODS, &["cache"])).unwrap(), watches);
    assert_eq!(
        rules(&plugin(spec, PODS, &["client"])).unwrap(),
        [
            "*  namespaces,nodes [] get",
            "a  configmaps [] create",
            "a  configmaps [one] get,update,patch,delete",
            "a  configmaps/x [one] get,create,update,patch,delete",
            "a  pods [] get,list,watch",
            "b  pods [] get,list,watch",
        ]
    );
}

#[test]
fn with_an_account_the_host_watches_and_impersonates_exactly_it() {
    let spec = r#"{serviceAccount: {namespace: a, name: robot}, permissions: [
        {groups: [""], resources: [pods, events], verbs: ["*"], namespaces: ["*"]}]}"#;
    for imports in [&["client", "events"][..], &["client"], &["events"]] {
        assert_eq!(
            rules(&plugin(spec, PODS, imports)).unwrap(),
            [
                "*  groups [system:authenticated,system:serviceaccounts,system:serviceaccounts:a] impersonate",
                "*  pods [] list,watch",
                "* authorization.k8s.io subjectaccessreviews [] create",
                "a  serviceaccounts [robot] impersonate",
            ],
            "{imports:?}"
        );
    }
    // Without a request of its own, nothing is sent as the account.
    assert_eq!(
        rules(&plugin(spec, PODS, &["cache"])).unwrap(),
        ["*  pods [] list,watch", "* authorization.k8s.io subjectaccessreviews [] create"]
    );
}

#[test]
fn elsewhere_a_host_needs_what_the_run_does_and_the_configuration_is_at_home() {
    let spec = r#"{clusters: [east], serviceAccount: {namespace: a, name: robot},
        configFrom: [{secretRef: {namespace: c, name: s}}],
        permissions: [{groups: [""], resources: [pods], verbs: [list, watch], namespaces: ["*"]}]}"#;
    let plugin = plugin(spec, PODS, &["client"]);
    assert_eq!(
        lines(|rights| of_run(&plugin, rights)).unwrap(),
        [
            "*  groups [system:authenticated,system:serviceaccounts,system:serviceaccounts:a] impersonate",
            "*  pods [] list,watch",
            "* authorization.k8s.io subjectaccessreviews [] create",
            "a  serviceaccounts [robot] impersonate",
        ]
    );
    assert_eq!(
        lines(|rights| of_config_sources(&plugin.manifest, rights)).unwrap(),
        ["* authorization.k8s.io subjectaccessreviews [] create", "c  secrets [s] list,watch"]
    );
    assert!(plugin.manifest.runs_in("east") && !plugin.manifest.runs_in("home"));
}

#[test]
fn in_a_remote_cluster_a_host_needs_the_live_calls_or_the_account_that_makes_them() {
    let remote = r#"remoteClusters: [{clusters: [west, east], permissions: [
        {groups: [""], resources: [configmaps], verbs: [get, patch], namespaces: [a]},
        {groups: [""], resources: ["pods/*"], verbs: [get], namespaces: [b]}]}]"#;
    let of = |spec: &str, imports: &[&str], cluster: &str| {
        let plugin = plugin(spec, PODS, imports);
        lines(|rights| of_remote_cluster(&plugin, cluster, rights))
    };
    let by_host = format!("{{{remote}}}").replace("pods/*", "pods/log");
    let calls = ["a  configmaps [] get,patch", "b  pods/log [] get"];
    assert_eq!(of(&by_host, &["client"], "east").unwrap(), calls);
    for (imports, cluster) in [(&["cache"][..], "east"), (&["client"], "home"), (&["client"], "mars")] {
        assert_eq!(of(&by_host, imports, cluster).unwrap(), [""; 0], "{imports:?} {cluster}");
    }
    let error = of(&format!("{{{remote}}}"), &["client"], "east").unwrap_err().to_string();
    assert!(
        error.starts_with("spec.remoteClusters, permissions in east[1]: \"pods/*\" has no form"),
        "{error}"
    );
    let by_account = format!("{{serviceAccount: {{namespace: a, name: robot}}, {remote}}}");
    assert_eq!(
        of(&by_account, &["client"], "east").unwrap(),
        [
            "*  groups [system:authenticated,system:serviceaccounts,system:serviceaccounts:a] impersonate",
            "a  serviceaccounts [robot] impersonate",
        ]
    );
}

#[test]
fn events_and_configuration_need_rights_of_their_own() {
    let spec = r#"{configFrom: [{secretRef: {namespace: c, name: s}}, {file: /f}], permissions: [
        {groups: [events.k8s.io], resources: [events], verbs: [create], namespaces: [a]},
        {groups: [""], resources: [pods], verbs: [list, watch], namespaces: ["*"], names: [one]}]}"#;
    let pods = r#"{"version":"v1","kind":"Pod","namespaces":["a"]}"#;
    assert_eq!(
        rules(&plugin(spec, pods, &["events"])).unwrap(),
        ["a  events [] create,patch", "a  pods [one] list,watch", "c  secrets [s] list,watch"]
    );
    // With a configuration that only a host knows it may watch all that is granted.
    let unknown = Plugin { description: None, ..plugin(spec, pods, &[]) };
    assert_eq!(rules(&unknown).unwrap(), ["*  pods [one] list,watch", "c  secrets [s] list,watch"]);
}

#[test]
fn a_custom_kind_is_watched_under_the_plural_that_the_permissions_name() {
    let granted = |resources: &str| {
        format!(
            "{{permissions: [{{groups: [example.org], resources: [{resources}], verbs: [list, watch], namespaces: [a]}}]}}"
        )
    };
    let definitions = "* apiextensions.k8s.io customresourcedefinitions [] list,watch";
    for (resources, wanted) in [
        ("foos, bars", "a example.org foos [] list,watch"),
        // Guesses that a cluster may not confirm: all that may be meant.
        ("fooes, bars", "a example.org bars,fooes [] list,watch"),
        ("\"*\"", "a example.org * [] list,watch"),
    ] {
        assert_eq!(rules(&plugin(&granted(resources), FOOS, &[])).unwrap(), [definitions, wanted]);
    }
}

#[test]
fn what_cannot_be_given_is_an_error_that_names_it() {
    let error = |spec: &str| rules(&plugin(spec, PODS, &["client"])).unwrap_err().to_string();
    assert!(error("{}").contains("a host refuses it: cannot watch v1/Pod"));
    let spec =
        r#"{permissions: [{groups: [""], resources: [pods, pods/*], verbs: ["*"], namespaces: ["*"]}]}"#;
    let text = error(spec);
    assert!(text.contains("spec.permissions[0]: \"pods/*\"") && text.contains("name each"), "{text}");
    // Without namespaces they are cluster-scoped objects, and a ClusterRole would give Secrets as well.
    for (entry, wanted) in [
        (r#"{groups: [""], resources: ["*"], verbs: [get]}"#, "\"*\" in resources without namespaces"),
        (r#"{groups: [apps], resources: ["*/status"], verbs: [get]}"#, "\"*/status\" in resources"),
        (r#"{groups: ["*"], resources: [secrets], verbs: [get]}"#, "\"*\" in groups without namespaces"),
    ] {
        let spec = format!(
            r#"{{permissions: [{{groups: [""], resources: [pods], verbs: [list, watch], namespaces: ["*"]}}, {entry}]}}"#
        );
        let text = error(&spec);
        assert!(text.contains("spec.permissions[1]: ") && text.contains(wanted), "{text}");
    }
    let spec = r#"{permissions: [
        {groups: [""], resources: ["*"], verbs: [list, watch], namespaces: [a]},
        {groups: [""], resources: ["*"], verbs: [create], namespaces: [a], names: [robot]}]}"#;
    let text = error(spec);
    assert!(text.contains("spec.permissions[1]: create of \"*\" for some names"), "{text}");
    // The same where only a host knows what is watched.
    let spec = r#"{configFrom: [{file: /f}], permissions: [{groups: [""], resources: ["*"], verbs: [list, watch]}]}"#;
    let text = rules(&Plugin { description: None, ..plugin(spec, "", &[]) }).unwrap_err().to_string();
    assert!(text.contains("without namespaces"), "{text}");
}

/// An access of a plugin, and what the API server's authorizer is asked for it.
struct Asked<'a> {
    access: Access<'a>,
    /// With the subresource.
    resource: String,
    namespace: Option<&'a str>,
    name: Option<&'a str>,
}

impl Asked<'_> {
    fn is_allowed_by(&self, scope: &RoleScope, rule: &RoleRule) -> bool {
        let in_scope = match scope {
            RoleScope::Cluster => true,
            RoleScope::Namespace(namespace) => self.namespace == Some(namespace),
        };
        let of_all = self.access.subresource.map(|subresource| format!("*/{subresource}"));
        in_scope
            && (rule.group == EVERY || rule.group == self.access.group)
            && rule
                .resources
                .iter()
                .any(|entry| entry == EVERY || *entry == self.resource || Some(entry) == of_all.as_ref())
            && (rule.names.is_empty() || self.name.is_some_and(|name| rule.names.iter().any(|n| n == name)))
            && rule.verbs.iter().any(|verb| verb.as_str() == self.access.verb)
    }
}

/// Every live call on a few resources, each possible one.
fn live_calls() -> Vec<Asked<'static>> {
    let mut calls = Vec::new();
    let resources = [
        ("", "pods", true),
        ("", "serviceaccounts", true),
        ("", "nodes", false),
        ("example.org", "foos", false),
    ];
    for (group, resource, namespaced) in resources {
        for subresource in [None, Some("log"), Some("token")] {
            for (verb, _) in LIVE {
                let has_name = !matches!(verb, "list" | "deletecollection");
                let places = match (namespaced, has_name) {
                    (false, _) => &[Place::Cluster][..],
                    (true, true) => &[Place::Namespace("a"), Place::Namespace("b")],
                    (true, false) => &[Place::Namespace("a"), Place::AllNamespaces],
                };
                let names = if has_name { &[Some("one"), Some("two")][..] } else { &[None] };
                for (place, name) in
                    places.iter().flat_map(|place| names.iter().map(move |name| (place, name)))
                {
                    let access = Access { verb, group, resource, subresource, place: *place, name: *name };
                    let is_new = verb == "create" && subresource.is_none();
                    calls.push(Asked {
                        access,
                        resource: subresource.map_or(resource.to_owned(), |of| format!("{resource}/{of}")),
                        namespace: match place {
                            Place::Namespace(namespace) => Some(*namespace),
                            Place::Cluster | Place::AllNamespaces => None,
                        },
                        name: name.filter(|_| !is_new),
                    });
                }
            }
        }
    }
    calls
}

#[test]
fn the_roles_allow_what_the_manifest_grants_and_nothing_else() {
    let mut entries = Vec::new();
    for group in [r#""""#, "example.org", r#""*""#] {
        for resource in [
            "pods",
            "pods/log",
            "serviceaccounts/token",
            "nodes",
            "nodes/log",
            "foos",
            r#""*""#,
            r#""*/token""#,
        ] {
            for namespaces in
                ["", r#", namespaces: [a]"#, r#", namespaces: ["*"]"#, ", namespaces: [b, a, b]"]
            {
                for names in ["", ", names: [one]"] {
                    for verbs in [r#""*""#, "get, create, list"] {
                        entries.push(format!(
                            "{{groups: [{group}], resources: [{resource}], verbs: [{verbs}]{namespaces}{names}}}"
                        ));
                    }
                }
            }
        }
    }
    let (calls, mut checked, mut allowed, mut refused) = (live_calls(), 0, 0, 0);
    for (number, entry) in entries.iter().enumerate() {
        let other = &entries[(number * 37 + 11) % entries.len()];
        for spec in [format!("{{permissions: [{entry}]}}"), format!("{{permissions: [{entry}, {other}]}}")] {
            let plugin = plugin(&spec, "", &["client"]);
            let mut rights = Rights::default();
            if let Err(error) = of_plugin(&plugin, &mut rights) {
                assert!(error.to_string().contains("has no form in RBAC"), "{error}");
                refused += 1;
                continue;
            }
            let (rules, grants) = (rights.rules(), Grants::new(plugin.manifest.permissions.clone()));
            for asked in &calls {
                let by_roles = rules
                    .iter()
                    .any(|(scope, rules)| rules.iter().any(|rule| asked.is_allowed_by(scope, rule)));
                let granted = |name| grants.check(&Access { name, ..asked.access }).is_ok();
                // The name of a new object is not known to RBAC, so it is any that is granted.
                let by_manifest = match asked.name {
                    None if asked.access.name.is_some() => granted(Some("one")) || granted(Some("two")),
                    _ => granted(asked.access.name),
                };
                assert_eq!(by_roles, by_manifest, "{:?} of {spec}: {rules:#?}", asked.access);
                checked += 1;
                allowed += usize::from(by_roles);
            }
        }
    }
    assert!(checked > 100_000 && allowed > 5_000 && refused > 50, "{checked}, {allowed}, {refused}");
}

#[test]
fn a_host_of_plugins_of_the_cluster_acts_as_accounts_of_their_namespaces_alone() {
    let mut rights = Rights::default();
    of_plugin_objects(&["a".to_owned(), "b".to_owned()].into(), &mut rights).unwrap();
    let line = |(scope, rule): (&RoleScope, &RoleRule)| {
        let verbs: Vec<_> = rule.verbs.iter().map(|verb| verb.as_str()).collect();
        let (resources, names) = (rule.resources.join(","), rule.names.join(","));
        format!("{scope:?} {} {resources} [{names}] {}", rule.group, verbs.join(","))
    };
    let rules = rights.rules();
    let lines: Vec<String> =
        rules.iter().flat_map(|(scope, rules)| rules.iter().map(move |rule| line((scope, rule)))).collect();
    assert_eq!(
        lines,
        [
            "Cluster  groups [system:authenticated,system:serviceaccounts,system:serviceaccounts:a,system:serviceaccounts:b] impersonate",
            "Cluster authorization.k8s.io subjectaccessreviews [] create",
            r#"Namespace("a")  serviceaccounts [] impersonate"#,
            r#"Namespace("a") pilothouse.dev plugins [] list,watch"#,
            r#"Namespace("a") pilothouse.dev plugins/status [] patch"#,
            r#"Namespace("b")  serviceaccounts [] impersonate"#,
            r#"Namespace("b") pilothouse.dev plugins [] list,watch"#,
            r#"Namespace("b") pilothouse.dev plugins/status [] patch"#,
        ]
    );
}
