//! Plugins by the thousand out of one guest: the same code with a custom section of its own, so that each has its own
//! digest, its own compiled file and its own mapping, as a thousand different plugins would.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use pilothouse_tests::{Host, guests};

/// Longest time that the plugins may take to be compiled and loaded.
pub(crate) const LOAD: Duration = Duration::from_secs(900);

pub(crate) fn name(number: usize) -> String {
    format!("noop-{number:04}")
}

/// The guest with a custom section that says its number.
pub(crate) fn component(number: usize) -> anyhow::Result<Vec<u8>> {
    let mut bytes = std::fs::read(guests::wasm("noop")?)?;
    let tag = number.to_string();
    let payload = [&[6][..], b"number", tag.as_bytes()].concat();
    bytes.push(0);
    bytes.push(u8::try_from(payload.len()).context("a section of one length byte")?);
    bytes.extend(payload);
    Ok(bytes)
}

/// A manifest that lets a plugin watch ConfigMaps.
pub(crate) fn manifest(name: &str, config: &str) -> String {
    format!(
        "apiVersion: pilothouse.dev/v1alpha1\nkind: Plugin\nmetadata: {{ name: {name} }}\nspec:\n  config: {config}\n  \
         permissions:\n    - {{ groups: [\"\"], resources: [configmaps], verbs: [get, list, watch], namespaces: [\"*\"] }}\n"
    )
}

/// Installs so many plugins into a host that is up.
pub(crate) fn install(host: &Host, numbers: std::ops::Range<usize>) -> anyhow::Result<()> {
    let scratch = tempfile::tempdir()?;
    for number in numbers {
        let wasm: PathBuf = scratch.path().join("component.wasm");
        std::fs::write(&wasm, component(number)?)?;
        let name = name(number);
        host.install(&name, &wasm, Some(&manifest(&name, "{}")))?;
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
