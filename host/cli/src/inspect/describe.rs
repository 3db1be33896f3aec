//! [`describe`]: what a component says of itself; [`wakes`]: how long an instance takes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pilothouse_engine::{Code, Fault, Instance, Nothing};
use pilothouse_plugin::{Description, Limits, Manifest, printable};
use serde_json::{Map, Value};

use super::imports::Imports;

/// What `describe` of a component answered.
pub(crate) struct Described {
    /// As the component wrote it: JSON.
    pub(crate) text: Vec<u8>,
    pub(crate) description: Description,
}

/// Asks a component to describe itself with this configuration; the error is why a host would refuse it.
pub(crate) async fn describe(
    code: &Code,
    manifest: &Manifest,
    config: &Map<String, Value>,
) -> Result<Described, String> {
    let world = code.world().map_err(|error| error.to_string())?;
    let config: Arc<[u8]> = Value::Object(config.clone()).to_string().into_bytes().into();
    let (imports, limits) = (Imports { config: Arc::clone(&config) }, manifest.limits);
    let call = async {
        let mut instance = Instance::new(code, Arc::new(imports), limits.engine).await?;
        instance.describe(&config).await
    };
    let answer = call.await.map_err(|fault| {
        format!("describe failed: {fault}; see the plugin's own log lines; correct the plugin or its configuration")
    })?;
    let text = answer.map_err(|message| {
        format!("describe refused its configuration: {}; correct the configuration", printable(&message))
    })?;
    let description = Description::parse(&text, world, &limits.descriptor);
    let description = description.map_err(|error| format!("describe: {}", printable(&error.to_string())))?;
    Ok(Described { text, description })
}

/// The time from an unloaded component to an instance that can be called, so many times.
pub(crate) async fn wakes(code: &Code, limits: Limits, times: usize) -> Result<Vec<Duration>, Fault> {
    let mut wakes = Vec::with_capacity(times);
    for _ in 0..times {
        code.unload();
        let begin = Instant::now();
        let instance = Instance::new(code, Arc::new(Nothing), limits).await?;
        wakes.push(begin.elapsed());
        drop(instance);
    }
    Ok(wakes)
}
