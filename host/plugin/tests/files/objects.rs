//! Plugins of the cluster: what they may name, and how errors are told.

use pilothouse_plugin::{Ceilings, Manifest, ManifestError, RemoteComponent};
use serde_json::{Value, json, value::RawValue};

fn spec() -> Value {
    json!({
        "source": {"url": "https://files.example.com/p.wasm", "digest": format!("sha256:{:064x}", 0xab)},
        "serviceAccount": {"namespace": "shop", "name": "robot"},
    })
}

fn parse(spec: &Value) -> Result<Manifest, ManifestError> {
    let spec = RawValue::from_string(spec.to_string()).unwrap();
    Manifest::of_object(&Manifest::text_of_object("shop", "web", Some(&spec)), &Ceilings::default())
}

/// The error of a Plugin with this value at a field of its spec; null takes the field out.
fn refused(pointer: &str, field: &str, value: Value) -> String {
    let mut spec = spec();
    let fields = spec.pointer_mut(pointer).unwrap().as_object_mut().unwrap();
    match value {
        Value::Null => fields.remove(field),
        value => fields.insert(field.to_owned(), value),
    };
    parse(&spec).unwrap_err().to_string()
}

#[test]
fn a_plugin_of_the_cluster_is_called_after_its_namespace_and_has_the_fields_of_a_manifest() {
    let mut spec = spec();
    spec["config"] = json!({"text": "\"quoted\" \u{1f600} {}", "on": true});
    spec["permissions"] =
        json!([{"groups": [""], "resources": ["pods"], "verbs": ["get"], "namespaces": ["*"]}]);
    spec["configFrom"] = json!([{"secretRef": {"namespace": "shop", "name": "s"}}]);
    spec["outgoingHosts"] = json!(["10.0.0.7:9200", "search.example.com"]);
    let manifest = parse(&spec).unwrap();
    assert_eq!((manifest.name.as_str(), &manifest.config["text"]), ("shop/web", &spec["config"]["text"]));
    assert_eq!((manifest.permissions.len(), manifest.config_from.len()), (1, 1));
    let remote = manifest.source.remote.unwrap();
    assert_eq!(remote.place(), "https://files.example.com/p.wasm");
}

#[test]
fn components_are_urls_or_artifacts() {
    let source = |source: Value| {
        let mut spec = spec();
        spec["source"] = source;
        spec["source"]["digest"] = json!(format!("sha256:{:064x}", 0xab));
        parse(&spec).map(|manifest| manifest.source.remote.unwrap())
    };
    let url = source(json!({"url": "https://files.example.com/p.wasm"})).unwrap();
    assert_eq!(url.place(), "https://files.example.com/p.wasm");
    let oci = format!("oci://r.example:5000/team/web@sha256:{:064x}", 0xab);
    let remote = source(json!({"oci": oci, "pullSecret": "login"})).unwrap();
    assert_eq!(remote.place(), oci);
    let RemoteComponent::Oci(remote) = remote else { panic!("{remote:?}") };
    assert_eq!(remote.pull_secret.as_deref(), Some("login"));
    for (value, words) in [
        (json!({}), "spec.source: it names no component; write one of"),
        (
            json!({"oci": oci, "url": "https://a.example/p.wasm"}),
            "spec.source: it names several components; write one of url and oci",
        ),
        (json!({"file": "p.wasm"}), "spec.source.file: a Plugin of the cluster names no file"),
        (
            json!({"oci": "oci://r.example/web:v1"}),
            "spec.source.oci: \"oci://r.example/web:v1\": it has no digest",
        ),
        (
            json!({"url": "https://a.example/", "pullSecret": "s"}),
            "spec.source.pullSecret: it is for a registry",
        ),
        (json!({"oci": oci, "pullSecret": "../s"}), "spec.source.pullSecret: it is not a name"),
        (json!({"url": "file:///etc/passwd"}), "spec.source.url: \"file:///etc/passwd\": it does not begin"),
    ] {
        let error = source(value).unwrap_err().to_string();
        assert!(error.starts_with(words), "{words}: {error}");
    }
}

#[test]
fn what_is_outside_of_the_namespace_is_refused_with_field_and_remedy() {
    for (pointer, field, value, words) in [
        ("", "serviceAccount", Value::Null, "spec.serviceAccount: it is missing; name a ServiceAccount"),
        (
            "/serviceAccount",
            "namespace",
            json!("kube-system"),
            "spec.serviceAccount.namespace: namespace \"kube-system\" is not that of the Plugin; name a ServiceAccount of namespace \"shop\"",
        ),
        ("/source", "digest", Value::Null, "spec.source.digest: it is missing; write \"sha256:\""),
        (
            "",
            "configFrom",
            json!([{"file": "/etc/passwd"}]),
            "spec.configFrom[0].file: a Plugin of the cluster names no file",
        ),
        (
            "",
            "configFrom",
            json!([{"secretRef": {"namespace": "shop", "name": "a"}}, {"configMapRef": {"namespace": "other", "name": "a"}}]),
            "spec.configFrom[1].configMapRef.namespace: namespace \"other\"",
        ),
        (
            "",
            "outgoingHosts",
            json!(["a.example", "169.254.169.254:80"]),
            "spec.outgoingHosts: \"169.254.169.254:80\" is a link-local address",
        ),
        (
            "",
            "outgoingHosts",
            json!(["localhost:9470"]),
            "spec.outgoingHosts: \"localhost:9470\" is a loopback address",
        ),
        ("", "outgoingHosts", json!(["[::ffff:127.0.0.1]:9470"]), "spec.outgoingHosts: "),
        ("", "permisions", json!([]), "unknown field"),
    ] {
        let error = refused(pointer, field, value);
        assert!(error.contains(words), "{words}: {error}");
        assert!(!error.contains("line 1"), "nobody has seen the text: {error}");
    }
}

#[test]
fn limits_are_within_the_ceilings_of_the_host() {
    let mut spec = spec();
    spec["limits"] = json!({"memory": "512Mi"});
    assert!(parse(&spec).is_ok());
    let limits = b"apiVersion: pilothouse.dev/v1alpha1\nkind: Limits\nplugins: {memory: 128Mi}\n";
    let ceilings = pilothouse_plugin::HostLimits::parse(limits, "limits.yaml").unwrap().ceilings;
    let spec = RawValue::from_string(spec.to_string()).unwrap();
    let text = Manifest::text_of_object("shop", "web", Some(&spec));
    let error = Manifest::of_object(&text, &ceilings).unwrap_err().to_string();
    assert!(error.starts_with("spec.limits.memory: "), "{error}");
}

#[test]
fn a_file_of_the_directory_may_have_a_namespace_and_names_no_object_as_its_component() {
    let parse = |metadata: &str, spec: &str| {
        let head = "apiVersion: pilothouse.dev/v1alpha1\nkind: Plugin";
        Manifest::parse(format!("{head}\nmetadata: {metadata}\nspec: {spec}\n").as_bytes())
    };
    assert_eq!(parse("{namespace: shop, name: web}", "{}").unwrap().name, "shop/web");
    let error = parse("{namespace: a.b, name: web}", "{}").unwrap_err().to_string();
    assert!(error.contains("metadata.namespace: \"a.b\" is not a DNS label"), "{error}");
    for source in ["url: 'https://a.example/'", "oci: 'oci://a.example/p@sha256:…'"] {
        let error = parse("{name: web}", &format!("{{source: {{{source}}}}}")).unwrap_err().to_string();
        assert!(error.starts_with("line 4, column "), "{error}");
        assert!(error.contains("only a Plugin of the cluster has it; copy the component"), "{error}");
    }
}
