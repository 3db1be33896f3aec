//! [`call`]: lets a component describe itself; [`parse`]: reads what it answered. The errors are why a host would refuse it.

use std::sync::Arc;

use pilothouse_engine::{Code, Instance};
use pilothouse_plugin::{Description, Manifest, printable};
use serde_json::{Map, Value};

use super::imports::Imports;

/// Asks a component to describe itself with this configuration; the answer is JSON.
pub async fn call(code: &Code, manifest: &Manifest, config: &Map<String, Value>) -> Result<Vec<u8>, String> {
    let config: Arc<[u8]> = Value::Object(config.clone()).to_string().into_bytes().into();
    let (imports, limits) = (Imports { config: Arc::clone(&config) }, manifest.limits.engine.for_describe());
    let call = async {
        let mut instance = Instance::new(code, Arc::new(imports), limits).await?;
        instance.describe(&config).await
    };
    let answer = call.await.map_err(|fault| {
        format!("describe failed: {fault}; see the plugin's own log lines; correct the plugin or its configuration")
    })?;
    answer.map_err(|message| {
        format!("describe refused its configuration: {}; correct the configuration", printable(&message))
    })
}

/// Reads the answer of a component.
pub fn parse(answer: &[u8], code: &Code, manifest: &Manifest) -> Result<Description, String> {
    let world = code.world().map_err(|error| error.to_string())?;
    let description = Description::parse(answer, world, &manifest.limits.descriptor);
    description.map_err(|error| format!("describe: {}", printable(&error.to_string())))
}
