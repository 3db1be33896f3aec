//! What the plugin watches, and what it does with an object.

use pilothouse_sdk::prelude::*;

%% if crd
pub(crate) const KIND: Kind = Kind::new("__group__", "__version__", "__kind__");
%% else
pub(crate) const KIND: Kind = Kind::core("v1", "ConfigMap");
%% end

/// What the plugin asks for. The manifest grants it.
pub(crate) fn descriptor() -> Descriptor {
    Descriptor::new("__name__")
%% if controller
        .watch(Watch::new(KIND).map(Map::handler()))
%% else
        .watch(Watch::new(KIND))
%% end
        .permission(Permission::new("__group__", ["__plural__"]))
%% if crd
        .permission(Permission::new("__group__", ["__plural__/status"]).verbs(["patch"]))
%% end
}

/// Greets an object.
pub(crate) fn greet(object: &Object) -> Result<(), Failure> {
%% if crd
    let greeting = greeting(&object.get::<String>("/spec/name")?.unwrap_or_default());
    // Each write is a change for the plugin as well: what is right already is not written.
    if object.get::<String>("/status/greeting")?.as_ref() == Some(&greeting) {
        return Ok(());
    }
    let status = json!({"status": {"greeting": greeting}});
    let options = WriteOptions {
        subresource: Some("status".to_owned()),
        ..WriteOptions::default()
    };
    client::patch_merge(&KIND, &object.key(), &status, &options)?;
%% else
    let greeting = greeting(&object.get::<String>("/data/name")?.unwrap_or_default());
%% end
    info!("{greeting}", object = object.key());
    Ok(())
}

/// The greeting for a name, which may be empty. It calls nothing of the host, so it is tested natively.
fn greeting(name: &str) -> String {
    match name.trim() {
        "" => "Hello!".to_owned(),
        name => format!("Hello, {name}!"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_has_the_name_if_there_is_one() {
        assert_eq!(greeting("world"), "Hello, world!");
        assert_eq!(greeting(" "), "Hello!");
    }
}
