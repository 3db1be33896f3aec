//! What the binary for clusters, built without the feature `dev`, is made of.

use std::collections::BTreeSet;
use std::process::Command;

/// Crates of the normal dependencies of `pilothouse`, as Cargo resolves them with these features.
fn crates(features: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--package", "pilothouse", "--edges", "normal", "--prefix", "none", "--format", "{p}"])
        .args([
            "--offline",
            "--locked",
            "--manifest-path",
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        ])
        .args(features)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn the_binary_for_clusters_has_no_crate_that_is_for_development_alone() {
    let production = crates(&["--no-default-features"]);
    // Else the command would not tell anything.
    assert!(production.contains("pilothouse-manager") && production.contains("wasmtime"), "{production:?}");
    let development = ["pilothouse-dev", "pilothouse-devserver", "rcgen"];
    assert!(development.iter().all(|name| crates(&[]).contains(*name)), "`dev` is no default feature");
    for name in development.into_iter().chain(["pilothouse-tests", "pilothouse-testkit", "pilothouse-bench"])
    {
        assert!(!production.contains(name), "{name} is in the binary for clusters");
    }
}

#[test]
fn neither_binary_has_kube_client_or_the_types_of_kubernetes() {
    let all = crates(&[]);
    for name in ["kube-client", "kube-core", "k8s-openapi"] {
        assert!(
            !all.contains(name),
            "{name} is in the binary: it would add up to a minute to its first build"
        );
    }
}

#[test]
fn traces_are_not_in_the_default_binary() {
    let all = crates(&[]);
    for name in ["opentelemetry", "opentelemetry_sdk", "opentelemetry-otlp", "tracing-opentelemetry", "prost"]
    {
        assert!(!all.contains(name), "{name} is in the binary without the feature `traces`");
    }
}

#[test]
fn registries_are_in_the_binary_with_their_feature_alone() {
    let (default, with) = (crates(&[]), crates(&["--features", "oci"]));
    for name in ["pilothouse-registry", "http-auth"] {
        assert!(!default.contains(name), "{name} is in the binary without the feature `oci`");
        assert!(with.contains(name), "{name} is not in the binary with the feature `oci`");
    }
    // A second implementation of anything that the host has would be one more to trust.
    let more: Vec<&String> = with.difference(&default).collect();
    assert_eq!(more, ["http-auth", "pilothouse-registry"]);
}
