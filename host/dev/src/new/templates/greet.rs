//! What the plugin watches, and what it does with an object.

%% if crd
use pilothouse_sdk::prelude::*;

/// The object: `spec` is what its author wants, `status` what the plugin answers.
#[derive(Resource, Serialize, Deserialize, Debug, Clone, Default)]
#[resource(group = "__group__", version = "__version__", plural = "__plural__", crd)]
pub(crate) struct __kind__ {
    pub(crate) metadata: Metadata,
    pub(crate) spec: __kind__Spec,
    pub(crate) status: Option<__kind__Status>,
}

#[derive(Schema, Serialize, Deserialize, Debug, Clone, Default)]
pub(crate) struct __kind__Spec {
    /// Who is greeted; everybody if it is empty.
    #[serde(default)]
    pub(crate) name: String,
}

#[derive(Schema, Serialize, Deserialize, Debug, Clone, Default)]
pub(crate) struct __kind__Status {
    /// The greeting.
    #[serde(default)]
    pub(crate) greeting: String,
}

/// What the plugin asks for. Permissions follow from the types; the manifest grants them.
pub(crate) fn descriptor() -> Descriptor {
    Descriptor::new("__name__")
%% if handles
        .watch(Watch::of::<__kind__>().map(Map::handler()))
%% else
        .watch(Watch::of::<__kind__>())
%% end
        .writes_status::<__kind__>()
}

/// Greets an object: writes the greeting into its status, unless it is there.
pub(crate) fn greet(ctx: &Context, object: &__kind__) -> Result<(), Failure> {
    let greeting = greeting(&object.spec.name);
    let status = __kind__Status { greeting };
    if ctx.patch_status(object, &status)?.is_change() {
        info!("{}", status.greeting, object = object.key());
    }
    Ok(())
}
%% else
use std::collections::BTreeMap;

use pilothouse_sdk::prelude::*;

/// The fields of a ConfigMap that the plugin uses.
#[derive(Resource, Serialize, Deserialize, Debug, Clone, Default)]
#[resource(version = "v1")]
pub(crate) struct ConfigMap {
    pub(crate) metadata: Metadata,
    #[serde(default)]
    pub(crate) data: BTreeMap<String, String>,
}

/// What the plugin asks for. Permissions follow from the types; the manifest grants them.
pub(crate) fn descriptor() -> Descriptor {
%% if handles
    Descriptor::new("__name__").watch(Watch::of::<ConfigMap>().map(Map::handler()))
%% else
    Descriptor::new("__name__").watch(Watch::of::<ConfigMap>())
%% end
}

/// Greets an object: logs the greeting.
pub(crate) fn greet(_ctx: &Context, object: &ConfigMap) -> Result<(), Failure> {
    let name = object.data.get("name").map_or("", String::as_str);
    info!("{}", greeting(name), object = object.key());
    Ok(())
}
%% end

fn greeting(name: &str) -> String {
    match name.trim() {
        "" => "Hello!".to_owned(),
        name => format!("Hello, {name}!"),
    }
}
