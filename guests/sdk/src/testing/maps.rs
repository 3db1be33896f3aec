//! The maps of the descriptor under test: from the state of an object to keys.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::descriptor::{WatchSpec, texts};
use crate::sys::select;
use crate::{Key, Kind};

/// The most maps of a watch.
const MAPS: usize = 8;

#[derive(Deserialize, Clone, PartialEq, Eq)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum MapSpec {
    #[serde(rename = "self")]
    Itself,
    Owner {
        #[serde(default)]
        group: String,
        kind: String,
        #[serde(default)]
        controller_only: bool,
    },
    Label {
        name: String,
        #[serde(default)]
        same_namespace: bool,
    },
    Annotation {
        name: String,
        #[serde(default)]
        same_namespace: bool,
    },
    Field {
        path: String,
        #[serde(default)]
        same_namespace: bool,
    },
    AllKeys {
        #[serde(default)]
        group: String,
        version: String,
        kind: String,
    },
    Handler,
}

/// One map, or a list of them.
pub(super) fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<MapSpec>, D::Error> {
    let value = Value::deserialize(from)?;
    let maps = match value {
        Value::Array(maps) if maps.is_empty() => return Err(D::Error::custom("a list of maps is empty")),
        Value::Array(maps) => maps,
        map => vec![map],
    };
    maps.into_iter().map(|map| serde_json::from_value(map).map_err(D::Error::custom)).collect()
}

/// Checks the maps of a watch, as the host does.
pub(super) fn check(maps: &[MapSpec], watches: &[WatchSpec]) -> Result<(), String> {
    if maps.len() > MAPS {
        return Err(format!("a watch has {} maps, more than {MAPS}", maps.len()));
    }
    if maps.len() > 1 && maps.contains(&MapSpec::Handler) {
        return Err("the map handler is one of several maps of a watch".to_owned());
    }
    for kind in maps.iter().filter_map(MapSpec::all_keys_of) {
        if !watches.iter().any(|watch| watch.has_keys_of(&kind)) {
            return Err(format!("a watch maps to all keys of {kind}, and no watch of it has the map self"));
        }
    }
    Ok(())
}

impl MapSpec {
    /// The kind whose cached objects are the keys, if they are.
    pub(super) fn all_keys_of(&self) -> Option<Kind> {
        match self {
            Self::AllKeys { group, version, kind } => {
                Some(Kind::from_parts(group.clone(), version.clone(), kind.clone()))
            }
            _ => None,
        }
    }

    /// The keys of one state of an object. `is_namespaced` says whether objects of a kind have a namespace.
    pub(super) fn keys(&self, object: &Value, is_namespaced: &dyn Fn(&str, &str) -> bool) -> Vec<Key> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let named = |value: Value, same_namespace: bool| -> Vec<Key> {
            let key = |text: String| {
                if same_namespace { Some(Key::namespaced(namespace, text)) } else { text.parse().ok() }
            };
            texts(value).into_iter().filter_map(key).collect()
        };
        match self {
            Self::Itself => {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                vec![Key::namespaced(namespace, name)]
            }
            Self::Owner { group, kind, controller_only } => {
                let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
                let text = |owner: &Value, field: &str| owner[field].as_str().unwrap_or_default().to_owned();
                owners
                    .iter()
                    .filter(|owner| {
                        let own = Kind::of_api_version(&text(owner, "apiVersion"), &text(owner, "kind"));
                        own.group() == group
                            && own.kind() == kind
                            && (!controller_only || owner["controller"] == true)
                    })
                    .map(|owner| {
                        let namespace = if is_namespaced(group, kind) { namespace } else { "" };
                        Key::namespaced(namespace, text(owner, "name"))
                    })
                    .collect()
            }
            Self::Label { name, same_namespace } => {
                named(object["metadata"]["labels"][name].clone(), *same_namespace)
            }
            Self::Annotation { name, same_namespace } => {
                named(object["metadata"]["annotations"][name].clone(), *same_namespace)
            }
            Self::Field { path, same_namespace } => {
                named(select(object, path).unwrap_or_default(), *same_namespace)
            }
            Self::AllKeys { .. } | Self::Handler => Vec::new(),
        }
    }
}
