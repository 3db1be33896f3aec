//! [`Manifest`]: what is read, and that each refusal names field, reason and remedy.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_plugin::OutgoingHost;
use pilothouse_plugin::directory::{Files, Places};
use pilothouse_plugin::{
    ConfigFrom, Manifest, ManifestError, NamespacedName, ObjectReference, OnReload, PluginLimits,
};
use serde_json::{Value, json};

/// A manifest whose `spec` is the given lines, indented already.
fn with_spec(spec: &str) -> Result<Manifest, ManifestError> {
    let text = format!(
        "apiVersion: pilothouse.dev/v1alpha1\nkind: Plugin\nmetadata: {{ name: exporter }}\nspec:\n{spec}\n"
    );
    Manifest::parse(text.as_bytes())
}

/// The refusal's text.
#[track_caller]
fn refused(spec: &str) -> String {
    with_spec(spec).expect_err(spec).to_string()
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing from: {text}");
    }
}

#[test]
fn reads_every_field() {
    let manifest = with_spec(
        r#"
  source: { file: event-exporter.wasm, digest: "sha256:00112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff" }
  config: { endpoint: "http://localhost:9200", index: events, retries: 3, deep: { on: yes, list: [1, "2", null] } }
  configFrom: [ { file: /etc/es.json } ]
  serviceAccount: { namespace: monitoring, name: event-exporter }
  permissions:
    - { groups: [""], resources: [events], verbs: [get, list, watch], namespaces: ["*"] }
    - groups: [apps]
      resources: [deployments/scale]
      verbs: [patch]
      namespaces: [a]
      names: [web]
  onReload: keep
  limits: { callTimeout: 20s, cpuPerCall: 500ms, memory: 128Mi, maxConcurrentReconciles: 4 }"#,
    )
    .unwrap();
    assert_eq!(manifest.name, "exporter");
    assert_eq!(manifest.permissions.capacity(), 2, "without room to spare");
    assert_eq!(manifest.source.file.as_deref(), Some("event-exporter.wasm"));
    let digest = "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    assert_eq!(manifest.source.digest.as_deref(), Some(digest));
    assert_eq!(
        Value::Object(manifest.config.clone()),
        json!({
            "endpoint": "http://localhost:9200", "index": "events", "retries": 3,
            "deep": { "on": "yes", "list": [1, "2", null] },
        })
    );
    assert_eq!(manifest.config_from, [ConfigFrom::File("/etc/es.json".into())]);
    let account = NamespacedName { namespace: "monitoring".into(), name: "event-exporter".into() };
    assert_eq!(account.service_account_user(), "system:serviceaccount:monitoring:event-exporter");
    assert_eq!(manifest.service_account, Some(account));
    assert_eq!(manifest.permissions.len(), 2);
    assert_eq!(manifest.permissions[0].groups, [""]);
    assert_eq!(manifest.permissions[1].names, ["web"]);
    assert_eq!(manifest.on_reload, OnReload::Keep);
    assert_eq!(manifest.limits.engine.call_timeout, Duration::from_secs(20));
    assert_eq!(manifest.limits.engine.cpu_per_call, Duration::from_millis(500));
    assert_eq!(manifest.limits.engine.memory, 128 << 20);
    assert_eq!(manifest.limits.max_concurrent_reconciles, 4);
}

#[test]
fn a_name_is_enough() {
    let text = "apiVersion: pilothouse.dev/v1alpha1\nkind: Plugin\nmetadata:\n  name: a\n";
    let manifest = Manifest::parse(text.as_bytes()).unwrap();
    assert_eq!(manifest, Manifest::bare("a").unwrap());
    assert_eq!(manifest.limits, PluginLimits::default());
    assert!(manifest.permissions.is_empty());
    assert_eq!((manifest.config.len(), manifest.config_from.len()), (0, 0));
}

#[test]
fn the_same_in_json() {
    let text = r#"{"apiVersion":"pilothouse.dev/v1alpha1","kind":"Plugin","metadata":{"name":"a"},"spec":{"onReload":"keep"}}"#;
    assert_eq!(Manifest::parse(text.as_bytes()).unwrap().on_reload, OnReload::Keep);
}

#[test]
fn documents_of_other_kinds_are_told_apart_first() {
    let parse = |text: &str| Manifest::parse(text.as_bytes()).unwrap_err().to_string();
    says(
        &parse("apiVersion: v1\nkind: ConfigMap\ndata: {}\n"),
        &["line 1, column 13", "apiVersion", "\"v1\"", "write pilothouse.dev/v1alpha1"],
    );
    says(
        &parse("apiVersion: pilothouse.dev/v1alpha1\nkind: Plug\nmetadata: {}\n"),
        &["line 2, column 7", "kind", "\"Plug\"", "write Plugin"],
    );
    says(
        &parse("metadata: { name: a }\n"),
        &["apiVersion", "it is missing", "write `apiVersion: pilothouse.dev/v1alpha1`"],
    );
    says(&parse(""), &["apiVersion", "it is missing"]);
    for text in ["- a\n", "just text", "a: [", "a: b: c\n", "a: 1\na: 2\n", "kind: a\nkind: b\n"] {
        says(&parse(text), &["docs/manifest.md"]);
    }
    says(&Manifest::parse(b"\xff").unwrap_err().to_string(), &["not UTF-8"]);
}

#[test]
fn unknown_fields_are_refused_by_name_and_place() {
    says(&refused("  permision: []"), &["line 5, column 3", "unknown field", "permision", "permissions"]);
    says(
        &refused("  limits:\n    memory: 64Mi\n    cpu: 1"),
        &["line 7, column 5", "unknown field", "cpu", "callTimeout"],
    );
    says(&refused("  source: { path: a.wasm }"), &["line 5, column 13", "path", "file"]);
    says(&refused("  permissions:\n    - { apiGroups: [apps] }"), &["line 6", "apiGroups", "groups"]);
    says(&refused("  configFrom: [ { files: /a } ]"), &["line 5", "files"]);
    let text = "apiVersion: pilothouse.dev/v1alpha1\nkind: Plugin\nmetadata: { name: a, labels: {} }\n";
    says(&Manifest::parse(text.as_bytes()).unwrap_err().to_string(), &["line 3", "labels"]);
}

#[test]
fn wrong_types_are_refused_by_field_and_place() {
    says(
        &refused("  limits: { maxConcurrentReconciles: many }"),
        &["line 5, column 38: maxConcurrentReconciles: expected a whole number"],
    );
    says(&refused("  config: [1]"), &["line 5, column 11: config: expected an object"]);
    says(&refused("  permissions: none"), &["line 5, column 16: permissions: expected a list"]);
    says(&refused("  onReload: never"), &["line 5", "never", "resync", "keep"]);
    says(&refused("  rollback: always"), &["line 5", "always", "onFault", "never"]);
    says(&refused("  limits: { memory: [1] }"), &["line 5, column 21: memory: expected text"]);
    says(&refused("  serviceAccount: { name: a }"), &["line 5, column 21: serviceAccount: ", "namespace"]);
    says(&refused("  onReload: keep\n  onReload: keep"), &["line 6", "onReload"]);
}

#[test]
fn values_out_of_bounds_are_refused_with_a_remedy() {
    for (spec, parts) in [
        ("  source: { file: ../a.wasm }", ["spec.source.file", "is a path", "without a path"]),
        ("  source: { file: a/b.wasm }", ["spec.source.file", "is a path", "without a path"]),
        ("  source: { file: .a.wasm }", ["spec.source.file", "hidden", "exporter.wasm"]),
        ("  source: { file: a.wat }", ["spec.source.file", "does not end in .wasm", "exporter.wasm"]),
        ("  source: { digest: abc }", ["spec.source.digest", "\"abc\"", "sha256sum"]),
        (
            "  configFrom: [ { file: es.json } ]",
            ["spec.configFrom[0]", "not an absolute path", "beginning with /"],
        ),
        ("  configFrom: [ {} ]", ["spec.configFrom[0]", "exactly one", "one entry for each"]),
        (
            "  serviceAccount: { namespace: 'a:b', name: c }",
            ["spec.serviceAccount.namespace", "not a name", "ServiceAccount"],
        ),
        ("  limits: { callTimeout: 10 }", ["spec.limits.callTimeout", "unit is missing", "1m30s"]),
        ("  limits: { callTimeout: 11m }", ["spec.limits.callTimeout", "out of bounds", "from 1ms to 10m"]),
        ("  limits: { callTimeout: 0s }", ["spec.limits.callTimeout", "out of bounds", "from 1ms to 10m"]),
        ("  limits: { cpuPerCall: 11s }", ["spec.limits.cpuPerCall", "longer than callTimeout", "raise"]),
        ("  limits: { memory: 64MB }", ["spec.limits.memory", "\"64MB\"", "64Mi"]),
        ("  limits: { memory: 4Gi }", ["spec.limits.memory", "out of bounds", "from 1Mi to 1Gi"]),
        ("  limits: { memory: 64 }", ["spec.limits.memory", "out of bounds", "from 1Mi"]),
        (
            "  limits: { maxConcurrentReconciles: 0 }",
            ["spec.limits.maxConcurrentReconciles", "0 is", "from 1 to 1024"],
        ),
        ("  limits: { apiQPS: 0 }", ["spec.limits.apiQPS", "0 is", "from 0.01 to 10000"]),
        ("  limits: { apiQPS: 20000 }", ["spec.limits.apiQPS", "20000 is", "from 0.01 to 10000"]),
        ("  limits: { queueDepth: 0 }", ["spec.limits.queueDepth", "0 is", "from 1 to 10000000"]),
        (
            "  permissions:\n    - { groups: [''], resources: [pods], verbs: [get] }\n    - { groups: [''], resources: [Pod], verbs: [get] }",
            ["spec.permissions[1].resources", "\"Pod\"", "lower case"],
        ),
    ] {
        let text = refused(spec);
        says(&text, &parts);
        says(&text, &["line ", "column "]);
    }
}

#[test]
fn the_default_cpu_budget_gives_way_to_a_shorter_call() {
    let manifest = with_spec("  limits: { callTimeout: 200ms }").unwrap();
    assert_eq!(manifest.limits.engine.cpu_per_call, Duration::from_millis(200));
}

#[test]
fn memory_may_be_a_plain_number() {
    assert_eq!(with_spec("  limits: { memory: 67108864 }").unwrap().limits.engine.memory, 64 << 20);
}

#[test]
fn names_are_dns_labels() {
    let named = |name: &str| {
        Manifest::parse(
            format!("apiVersion: pilothouse.dev/v1alpha1\nkind: Plugin\nmetadata: {{ name: {name:?} }}\n")
                .as_bytes(),
        )
    };
    for good in ["a", "0", "a-b-0", &"a".repeat(63)] {
        assert_eq!(named(good).unwrap().name, good);
    }
    for bad in ["", "A", "a.b", "a_b", "-a", "a-", "a/b", &"a".repeat(64)] {
        says(&named(bad).unwrap_err().to_string(), &["line 3", "metadata.name", "DNS label", "63 at most"]);
    }
}

#[test]
fn a_component_alone_is_named_after_its_file() {
    assert_eq!(Manifest::bare("pods_per_Node").unwrap().name, "pods-per-node");
    says(
        &Manifest::bare("a.b").unwrap_err().to_string(),
        &["the plugin's name", "\"a.b\"", "rename the file"],
    );
}

#[test]
fn an_outgoing_host_is_host_and_port_and_nothing_else() {
    let manifest =
        with_spec("  outgoingHosts: [\"localhost:9200\", \"*.example.com\", \"[::1]:80\"]").unwrap();
    let asked = |host: &str| [host.parse::<OutgoingHost>().unwrap()];
    assert!(manifest.outgoing_hosts.not_granted(&asked("LOCALHOST:9200")).is_empty());
    assert_eq!(manifest.outgoing_hosts.not_granted(&asked("localhost:9201")).len(), 1);
    assert!(with_spec("  outgoingHosts: []").unwrap().outgoing_hosts.is_empty());
    assert!(with_spec("").unwrap().outgoing_hosts.is_empty());
    says(
        &refused("  outgoingHosts: [\"a:1\", \"https://b\"]"),
        &["line 5", "spec.outgoingHosts[1]", "\"https://b\": it has a scheme", "write host:port"],
    );
    for bad in ["*", "a@b:1", "a/b", "a:0", "127.1"] {
        says(&refused(&format!("  outgoingHosts: [\"{bad}\"]")), &["spec.outgoingHosts[0]", bad]);
    }
}

#[test]
fn configuration_may_come_from_files_secrets_and_config_maps() {
    let manifest = with_spec(
        "  configFrom: [ { file: /a }, { secretRef: { namespace: a, name: b.c } }, \
         { configMapRef: { namespace: a, name: b, optional: true } } ]",
    );
    let reference =
        |name: &str, optional| ObjectReference { namespace: "a".into(), name: name.into(), optional };
    let wanted = [
        ConfigFrom::File("/a".into()),
        ConfigFrom::Secret(reference("b.c", false)),
        ConfigFrom::ConfigMap(reference("b", true)),
    ];
    assert_eq!(manifest.unwrap().config_from, wanted);
}

#[test]
fn what_names_no_object_is_refused_and_so_are_too_many_entries() {
    let entry = |text: &str| refused(&format!("  configFrom: [ {{ file: /a }}, {text} ]"));
    for (text, field) in [
        ("{ secretRef: { namespace: 'a/b', name: c } }", "spec.configFrom[1].secretRef.namespace: "),
        ("{ secretRef: { namespace: a, name: 'b,c' } }", "spec.configFrom[1].secretRef.name: "),
        ("{ configMapRef: { namespace: a, name: '../c' } }", "spec.configFrom[1].configMapRef.name: "),
        ("{ configMapRef: { namespace: '', name: c } }", "spec.configFrom[1].configMapRef.namespace: "),
    ] {
        says(&entry(text), &["line 5", field, "not a name of Kubernetes", "namespace and name"]);
    }
    says(&entry("{ secretRef: { namespace: a } }"), &["line 5", "name"]);
    says(&entry("{ secretRef: { namespace: a, name: b, key: c } }"), &["line 5", "key"]);
    says(&entry("{ file: /a, optional: true }"), &["line 5", "optional"]);
    let both = entry("{ file: /a, secretRef: { namespace: a, name: b } }");
    says(&both, &["spec.configFrom[1]: ", "exactly one", "one entry for each"]);

    let entries = |count: usize| with_spec(&format!("  configFrom: [ {} ]", "{ file: /a }, ".repeat(count)));
    assert_eq!(entries(32).unwrap().config_from.len(), 32);
    says(&entries(33).unwrap_err().to_string(), &["spec.configFrom: there are 33 entries", "at most 32"]);
}

#[test]
fn clusters_are_named_once_each_and_like_nothing_else() {
    let names = |list: &str| with_spec(&format!("  clusters: {list}")).map(|manifest| manifest.clusters);
    assert_eq!(names("[home, east]").unwrap(), ["home", "east"]);
    assert_eq!(with_spec("  clusters: []").unwrap().clusters, [""; 0]);
    says(
        &refused("  clusters: [East]"),
        &["line 5, column 14", "spec.clusters[0]", "\"East\" is not a DNS label"],
    );
    says(&refused("  clusters: [a@b]"), &["spec.clusters[0]", "is not a DNS label"]);
    says(&refused("  clusters: [a, b, a]"), &["spec.clusters[2]", "\"a\" is there twice", "name it once"]);
    let many: Vec<String> = (0..257).map(|number| format!("c{number}")).collect();
    says(
        &refused(&format!("  clusters: {many:?}")),
        &["spec.clusters", "257 names", "256", "second manifest"],
    );
    assert_eq!(names(&format!("{:?}", &many[1..])).unwrap().len(), 256);
}

/// A rule in flow style with these verbs.
fn rule(verbs: &str) -> String {
    format!("{{ groups: [\"\"], resources: [configmaps], verbs: [{verbs}], namespaces: [a] }}")
}

/// The remote clusters of a run, each with the number of its rules.
fn remote(manifest: &Manifest, cluster: &str) -> Vec<(String, usize)> {
    manifest.remote_clusters_of(cluster).map(|(name, rules)| (name.to_owned(), rules.len())).collect()
}

#[test]
fn remote_clusters_have_permissions_of_their_own_and_that_of_the_run_is_none() {
    let (read, write) = (rule("get, list"), rule("patch"));
    let manifest = with_spec(&format!(
        "  permissions: [ {read} ]\n  remoteClusters:\n    - {{ clusters: [west, home], permissions: [ {read}, {write} ] }}\n    \
         - {{ clusters: [east], permissions: [ {write} ] }}"
    ))
    .unwrap();
    let named = |names: &[(&str, usize)]| -> Vec<(String, usize)> {
        names.iter().map(|(name, rules)| ((*name).to_owned(), *rules)).collect()
    };
    assert_eq!(remote(&manifest, "home"), named(&[("west", 2), ("east", 1)]));
    assert_eq!(remote(&manifest, "east"), named(&[("west", 2), ("home", 2)]));
    assert_eq!(manifest.permissions.len(), 1, "which hold in the cluster of the run alone");
    // The only run is at home.
    assert_eq!(manifest.remote_permissions("east").map(|rules| rules.len()), Some(1));
    assert_eq!(manifest.remote_permissions("home"), None);
    assert_eq!(manifest.remote_permissions("mars"), None);
    let both = Manifest { clusters: vec!["home".to_owned(), "east".to_owned()], ..manifest };
    assert_eq!(both.remote_permissions("home").map(|rules| rules.len()), Some(2));
}

#[test]
fn entries_of_remote_clusters_that_could_never_take_effect_are_refused() {
    let entry = |text: &str| refused(&format!("  remoteClusters:\n    - {text}"));
    let get = rule("get");
    says(
        &entry(&format!("{{ clusters: [East], permissions: [ {get} ] }}")),
        &["line 6", "spec.remoteClusters[0].clusters[0]", "\"East\" is not a DNS label"],
    );
    says(
        &entry(&format!(
            "{{ clusters: [a], permissions: [ {get} ] }}\n    - {{ clusters: [b, a], permissions: [ {get} ] }}"
        )),
        &["line 7", "spec.remoteClusters[1].clusters[1]", "\"a\" is there twice", "name it once"],
    );
    says(
        &entry(&format!("{{ clusters: [], permissions: [ {get} ] }}")),
        &["spec.remoteClusters[0].clusters", "it is empty", "name the clusters"],
    );
    says(
        &entry("{ clusters: [a], permissions: [] }"),
        &["spec.remoteClusters[0].permissions", "grants nothing", "what the plugin may do there"],
    );
    says(&entry("{ clusters: [a] }"), &["line 6", "permissions"]);
    says(
        &entry(&format!("{{ clusters: [a], permissions: [ {get}, {} ] }}", rule("read"))),
        &["spec.remoteClusters[0].permissions[1].verbs", "\"read\" is not a verb"],
    );
    says(
        &entry(&format!("{{ clusters: [a], permissions: [ {} ] }}", rule("get, watch"))),
        &["spec.remoteClusters[0].permissions[0].verbs", "live calls alone", "spec.clusters"],
    );
    let many: Vec<String> = (0..257).map(|number| format!("c{number}")).collect();
    says(
        &entry(&format!("{{ clusters: {many:?}, permissions: [ {get} ] }}")),
        &["spec.remoteClusters: ", "257 names", "256"],
    );
}

#[test]
fn there_is_a_run_for_each_cluster_with_its_name_in_the_configuration() {
    let files = |spec: &str| Files {
        name: "exporter".to_owned(),
        wasm_path: "a.wasm".into(),
        digest: String::new(),
        places: Places { component: "a.wasm".to_owned(), manifest: None },
        manifest_digest: "sha256:1".to_owned(),
        manifest: Arc::new(with_spec(spec).unwrap()),
    };
    let here = files("  config: { where: $(cluster) }");
    assert_eq!(here.clone().runs(), [here], "without clusters nothing is changed");
    let runs = files("  clusters: [east, home]\n  config: { where: $(cluster) }").runs();
    let shown = runs.iter().map(|run| (run.name.as_str(), run.manifest.config["where"].as_str().unwrap()));
    assert_eq!(shown.collect::<Vec<_>>(), [("exporter@east", "east"), ("exporter", "home")]);
    assert_eq!(runs[0].manifest.name, "exporter", "which is the field manager in each cluster");
}

#[test]
fn secrets_are_not_printed() {
    let manifest = with_spec("  config: { password: hunter2 }\n  configFrom: [ { file: /s } ]").unwrap();
    let printed = format!("{manifest:?}");
    assert!(printed.contains("password") && !printed.contains("hunter2"), "{printed}");
}

#[test]
fn no_text_makes_it_panic() {
    proptest::proptest!(|(text in "[a-z:{}\\[\\]*&!|>\" \n-]{0,60}")| {
        let _ = Manifest::parse(text.as_bytes());
        let _ = with_spec(&text);
    });
}
