//! Plugins by the thousand out of one guest: each with another text among its data, so that it has its own digest, its own
//! machine code and its own mapping, as a thousand different plugins would; or all of one component.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use pilothouse_tests::{Host, guests};

/// Longest time that the plugins may take to be compiled and loaded.
pub(crate) const LOAD: Duration = Duration::from_secs(900);

pub(crate) fn name(number: usize) -> String {
    format!("noop-{number:04}")
}

/// A text among the data of each guest in Rust, which it never shows.
const TEXT: &[u8] = b"called `Option::unwrap()` on a `None` value";

/// The guest with its number in a text. A custom section would not do: the compiler leaves it out.
pub(crate) fn component(number: usize) -> anyhow::Result<Vec<u8>> {
    let mut bytes = std::fs::read(guests::wasm("noop")?)?;
    let at = bytes.windows(TEXT.len()).position(|text| text == TEXT).context("the guest has no such text")?;
    let tag = format!("{number:08}");
    bytes[at..at + tag.len()].copy_from_slice(tag.as_bytes());
    Ok(bytes)
}

/// Which components the plugins have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Components {
    /// Each its own.
    Different,
    /// All the same.
    Same,
}

/// A manifest that lets a plugin watch ConfigMaps.
pub(crate) fn manifest(name: &str, config: &str) -> String {
    manifest_of(name, name, config)
}

/// The manifest of a plugin that has this component.
fn manifest_of(name: &str, component: &str, config: &str) -> String {
    format!(
        "apiVersion: pilothouse.dev/v1alpha1\nkind: Plugin\nmetadata: {{ name: {name} }}\nspec:\n  \
         source: {{ file: {component}.wasm }}\n  config: {config}\n  \
         permissions:\n    - {{ groups: [\"\"], resources: [configmaps], verbs: [get, list, watch], namespaces: [\"*\"] }}\n"
    )
}

/// Installs so many plugins into a host that is up. Those of one component have it from the first.
pub(crate) fn install(
    host: &Host,
    numbers: std::ops::Range<usize>,
    components: Components,
) -> anyhow::Result<()> {
    let scratch = tempfile::tempdir()?;
    for number in numbers {
        let own = name(number);
        if components == Components::Same && number > 0 {
            host.install_manifest(&own, &manifest_of(&own, &name(0), "{}"))?;
            continue;
        }
        let wasm: PathBuf = scratch.path().join("component.wasm");
        std::fs::write(&wasm, component(number)?)?;
        host.install(&own, &wasm, Some(&manifest(&own, "{}")))?;
    }
    Ok(())
}

/// How many plugins are in a state, and the calls of all.
pub(crate) fn states(host: &Host, state: &str) -> anyhow::Result<(usize, u64)> {
    let list = host.plugins()?;
    let plugins = list["plugins"].as_array().context("plugins is no list")?;
    let count = plugins.iter().filter(|plugin| plugin["state"] == state).count();
    Ok((count, plugins.iter().filter_map(|plugin| plugin["calls"].as_u64()).sum()))
}
