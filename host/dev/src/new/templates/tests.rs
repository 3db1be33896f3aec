//! The plugin in a world of its own: a cluster and a host in memory.

use pilothouse_sdk::prelude::*;
use pilothouse_sdk::testing::World;

use super::Plugin;
%% if crd
use super::greet::{__kind__, __kind__Spec};
%% else
use super::greet::ConfigMap;
%% end

/// An object with a name to greet.
fn named(key: &Key, name: &str) -> __kind__ {
    __kind__ {
        metadata: Metadata::new(key),
%% if crd
        spec: __kind__Spec {
            name: name.to_owned(),
        },
        status: None,
%% else
        data: [("name".to_owned(), name.to_owned())].into(),
%% end
    }
}

#[test]
fn an_object_is_greeted_and_again_when_its_name_changes() {
    let world = World::of::<Plugin>(json!({}));
    let mut plugin = world.start::<Plugin>();
    let key = Key::namespaced("default", "example");
%% if crd
    let greeting = || {
        let object: __kind__ = world.get(&key).unwrap();
        object.status.unwrap_or_default().greeting
    };
%% else
    let greeting = || {
        let lines = world.take_log();
        lines.iter().map(ToString::to_string).collect::<String>()
    };
%% end
    world.create(&named(&key, "world"));
    world.settle(&mut plugin);
    assert!(greeting().starts_with("Hello, world!"));

    world.modify::<__kind__>(&key, |object| {
%% if crd
        object.spec.name.clear();
%% else
        object.data.clear();
%% end
    });
    world.settle(&mut plugin);
    assert!(greeting().starts_with("Hello!"));
}
