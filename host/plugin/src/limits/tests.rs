//! The table of the bounds, ceilings from a limits file, and manifests under them.

use std::time::Duration;

use super::*;
use crate::manifest::Manifest;

fn host(sections: &str) -> Result<HostLimits, String> {
    let text = format!("apiVersion: pilothouse.dev/v1alpha1\nkind: Limits\n{sections}");
    HostLimits::parse(text.as_bytes(), "/etc/limits.yaml").map_err(|error| error.to_string())
}

fn manifest(limits: &str, host: &HostLimits) -> Result<PluginLimits, String> {
    let text = format!(
        "apiVersion: pilothouse.dev/v1alpha1\nkind: Plugin\nmetadata: {{ name: a }}\nspec:\n  limits: {limits}\n"
    );
    let parsed = Manifest::parse_within(text.as_bytes(), &host.ceilings);
    parsed.map(|manifest| manifest.limits).map_err(|error| error.to_string())
}

fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}

#[test]
fn each_bound_has_a_name_of_its_own_and_a_default_within_its_range() {
    for (position, bound) in BOUNDS.iter().enumerate() {
        assert!(BOUNDS[..position].iter().all(|other| other.name != bound.name), "{}", bound.name);
        if let Some(default) = bound.get(&PluginLimits::default()) {
            assert!((bound.range.0..=bound.range.1).contains(&default), "{}: {default}", bound.name);
        }
    }
}

/// A row that reads one field and writes another would pass any test of a single value.
#[test]
fn each_bound_reads_the_field_that_it_writes_and_no_other() {
    for bound in &BOUNDS {
        let mut limits = PluginLimits::default();
        for value in [bound.range.0, bound.range.1] {
            bound.set(&mut limits, value);
            assert_eq!(bound.get(&limits), Some(value), "{}", bound.name);
        }
        let changed = BOUNDS.iter().filter(|b| b.get(&limits) != b.get(&PluginLimits::default()));
        let changed: Vec<_> = changed.map(|b| b.name).filter(|name| *name != bound.name).collect();
        assert_eq!(changed, [""; 0], "{}", bound.name);
    }
}

#[test]
fn each_bound_is_set_in_a_manifest_with_the_texts_of_its_own_range() {
    for bound in &BOUNDS {
        // The CPU time is at most the call's.
        let more = if bound.name == "cpuPerCall" { ", callTimeout: 10m" } else { "" };
        for value in [bound.range.0, bound.range.1] {
            let text = format!("{{ {}: {}{more} }}", bound.name, bound.unit.write(value));
            let limits = manifest(&text, &HostLimits::default()).unwrap();
            assert_eq!(bound.get(&limits), Some(value), "{text}");
        }
    }
}

#[test]
fn a_limits_file_sets_ceilings_and_bounds_of_the_host() {
    let host = host(
        "plugins: { memory: 32Mi, watches: 8, apiQPS: 5, shortestResync: 1m, callTimeout: 500ms }\n\
         host: { maxConnections: 4, guestMemory: 1Gi }\n",
    )
    .unwrap();
    assert_eq!((host.max_connections, host.guest_memory), (Some(4), Some(1 << 30)));
    // A manifest that asks for nothing gets the defaults, narrowed.
    let limits = manifest("{}", &host).unwrap();
    assert_eq!((limits.engine.memory, limits.descriptor.watches), (32 << 20, 8));
    assert_eq!(limits.api_qps, Some(5.0));
    assert_eq!(limits.descriptor.shortest_resync, Duration::from_secs(60));
    assert_eq!(limits.engine.cpu_per_call, Duration::from_millis(500));
    assert_eq!(limits.descriptor.indexes, DescriptorLimits::default().indexes);
    assert_eq!(Manifest::bare_within("a", &host.ceilings).unwrap().limits, limits);
    // A narrower value is taken.
    let limits = manifest("{ memory: 16Mi, shortestResync: 2m, apiQPS: 1 }", &host).unwrap();
    assert_eq!((limits.engine.memory, limits.api_qps), (16 << 20, Some(1.0)));
    assert_eq!(limits.descriptor.shortest_resync, Duration::from_secs(120));
}

#[test]
fn a_manifest_above_a_ceiling_is_refused_with_the_name_of_the_ceiling() {
    let host = host("plugins: { memory: 128Mi, watches: 200, shortestResync: 1m }\n").unwrap();
    for (limits, parts) in [
        (
            "{ memory: 256Mi }",
            [
                "spec.limits.memory",
                "\"256Mi\" is above",
                "128Mi (plugins.memory in /etc/limits.yaml)",
                "at most 128Mi",
            ],
        ),
        ("{ watches: 201 }", ["spec.limits.watches", "201 is above", "200 (plugins.watches", "at most 200"]),
        (
            "{ shortestResync: 30s }",
            ["spec.limits.shortestResync", "\"30s\" is below", "1m (plugins.", "at least 1m"],
        ),
    ] {
        let error = manifest(limits, &host).unwrap_err();
        says(&error, &parts);
        says(&error, &["line 5, column "]);
    }
    // The ceiling is above the default: a manifest may ask for more than the default.
    assert_eq!(manifest("{}", &host).unwrap().descriptor.watches, 64);
    assert_eq!(manifest("{ watches: 200 }", &host).unwrap().descriptor.watches, 200);
}

#[test]
fn errors_of_a_limits_file_name_line_field_reason_and_remedy() {
    for (text, parts) in [
        (
            "plugins: { memory: 1Ti }",
            ["line 3, column 20", "plugins.memory", "suffixes", "write one like 64Mi"],
        ),
        ("plugins: { memory: 2Gi }", ["line 3", "plugins.memory", "out of bounds", "from 1Mi to 1Gi"]),
        ("plugins:\n  watches: 257", ["line 4", "plugins.watches", "257 is out of bounds", "from 0 to 256"]),
        (
            "plugins:\n  memory: 1Gi\n  wathces: 2",
            ["line 5, column 3", "unknown field", "wathces", "watches"],
        ),
        ("plugins: { watches: many }", ["line 3", "watches", "expected a whole number", "docs/limits.md"]),
        ("plugins: { watches: 1, watches: 2 }", ["line 3", "watches", "duplicate", "docs/limits.md"]),
        ("limits: {}", ["line 3", "unknown field", "limits", "plugins"]),
        (
            "host: { maxConnections: 0 }",
            ["line 3", "host.maxConnections", "0 is out of bounds", "from 1 to 1024"],
        ),
        ("host: { guestMemory: 1Mi }", ["line 3", "host.guestMemory", "out of bounds", "at least 64Mi"]),
    ] {
        says(&host(text).unwrap_err(), &parts);
    }
    let parse = |text: &[u8]| HostLimits::parse(text, "l").unwrap_err().to_string();
    says(&parse(b"apiVersion: v1"), &["line 1", "apiVersion", "pilothouse.dev/v1alpha1", "--limits"]);
    says(&parse(b"apiVersion: pilothouse.dev/v1alpha1\nkind: Plugin"), &["line 2", "kind", "write Limits"]);
    says(&parse(b""), &["apiVersion", "missing"]);
    says(&parse(b"\xff"), &["not UTF-8", "docs/limits.md"]);
}

#[test]
fn values_are_written_with_the_largest_unit_that_fits() {
    assert_eq!(Unit::Duration.write(90e9), "90s");
    assert_eq!(Unit::Duration.write(600e9), "10m");
    assert_eq!(Unit::Bytes.write(f64::from(1 << 30)), "1Gi");
    assert_eq!(Unit::Bytes.write(1000.0), "1000");
    assert_eq!((Unit::Rate.write(0.01), Unit::Count.write(0.0)), ("0.01".to_owned(), "0".to_owned()));
}

#[test]
fn describe_has_a_short_limit_of_its_own_and_none_above_that_of_calls() {
    let limits = |timeout, cpu| {
        let calls = Limits {
            call_timeout: Duration::from_secs(timeout),
            cpu_per_call: Duration::from_secs(cpu),
            ..Limits::default()
        };
        let limits = calls.for_describe();
        (limits.call_timeout.as_secs(), limits.cpu_per_call.as_secs())
    };
    assert_eq!(limits(600, 600), (5, 2));
    assert_eq!(limits(3, 1), (3, 1));
}
