//! The manifests and descriptors in the documents are ones that the host takes, and the messages shown are its
//! messages.

use pilothouse_plugin::{
    Access, BOUNDS, Ceilings, Description, DescriptorLimits, Grants, HostLimits, Manifest, Place, World,
};
use pilothouse_testkit::documents::{blocks_in, documents};
use pilothouse_testkit::paths::repository;

#[test]
fn every_manifest_in_the_documents_is_taken() {
    let mut manifests = 0;
    for document in documents().unwrap() {
        for block in blocks_in(&document, "yaml").unwrap() {
            if !block.contains("kind: Plugin") {
                continue;
            }
            manifests += 1;
            // A file names a file as its component, and a Plugin of the cluster does not.
            let is_object = ["url:", "oci:"].iter().any(|field| block.contains(field));
            let parsed = match is_object {
                true => Manifest::of_object(&block, &Ceilings::default()),
                false => Manifest::parse(block.as_bytes()),
            };
            parsed.unwrap_or_else(|error| panic!("{document}: {error}\n{block}"));
        }
    }
    assert!(manifests >= 3, "only {manifests} manifests were found");
}

/// `docs/limits.md` has one row for each adjustable limit, with the values of the code.
#[test]
fn the_table_of_limits_is_that_of_the_code() {
    let document = std::fs::read_to_string(repository().join("docs/limits.md")).unwrap();
    let header = "| limit | default | range | what is limited | beyond it |\n|---|---|---|---|---|\n";
    let (_, rows) = document.split_once(header).expect("the table of limits");
    let shown: Vec<&str> = rows.lines().take_while(|line| line.starts_with('|')).collect();
    let wanted: Vec<String> = BOUNDS
        .iter()
        .map(|bound| {
            let (low, high) = (bound.unit.write(bound.range.0), bound.unit.write(bound.range.1));
            let default = bound.default_text().unwrap_or_else(|| "none".to_owned());
            format!("| `{}` | {default} | {low} to {high} | {} | {} |", bound.name, bound.what, bound.beyond)
        })
        .collect();
    assert_eq!(shown, wanted);
}

#[test]
fn the_limits_file_in_the_documents_is_taken() {
    let [file] = &blocks_in("docs/limits.md", "yaml").unwrap()[..] else { panic!("one limits file") };
    let limits = HostLimits::parse(file.as_bytes(), "limits.yaml").unwrap();
    assert_eq!(limits.max_connections, Some(32));
}

#[test]
fn the_descriptor_in_the_documents_is_taken() {
    let [descriptor] = &blocks_in("docs/describe.md", "json").unwrap()[..] else { panic!("one descriptor") };
    let description =
        Description::parse(descriptor.as_bytes(), World::Reconciler, &DescriptorLimits::default()).unwrap();
    assert_eq!(description.name, "node-report");
}

#[test]
fn the_cargo_manifest_in_the_documents_is_that_of_the_example() {
    let [shown] = &blocks_in("docs/guests.md", "toml").unwrap()[..] else { panic!("one Cargo.toml") };
    let example = std::fs::read_to_string(repository().join("examples/pods-per-node/Cargo.toml")).unwrap();
    // A reader's folder lies beside the repository.
    let shown = shown.replace("../pilothouse/guests/sdk", "../../guests/sdk");
    for line in shown.lines().filter(|line| !line.starts_with('#')) {
        assert!(
            example.lines().any(|own| own == line),
            "docs/guests.md shows {line:?}, the example has none"
        );
    }
}

#[test]
fn the_messages_in_the_documents_are_those_of_the_host() {
    let [limit, denied] = &blocks_in("docs/manifest.md", "text").unwrap()[..] else { panic!("two messages") };
    let one_line = |block: &str| block.replace('\n', " ");
    let manifest = blocks_in("docs/manifest.md", "yaml").unwrap()[0].replace("memory: 64Mi", "memory: 64MB");
    let error = Manifest::parse(manifest.as_bytes()).unwrap_err().to_string();
    let shown = one_line(limit);
    // The position depends on the file; the rest does not.
    let (_, reason) = shown.split_once("spec.limits.memory").unwrap();
    assert!(error.ends_with(&format!("spec.limits.memory{reason}")), "{error}\n{shown}");

    let access = Access {
        verb: "patch",
        group: "apps",
        resource: "deployments",
        subresource: Some("scale"),
        place: Place::Namespace("shop"),
        name: Some("web"),
    };
    let missing = Grants::default().check(&access).unwrap_err().to_string();
    assert_eq!(missing, one_line(denied));
}
