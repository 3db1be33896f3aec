//! [`KeyMap`]: a mapping of changed objects to keys, parsed and validated.

use pilothouse_object::{Gvk, Pointer};

use super::text::{MapText, MapsText};
use super::{DescribeError, WatchSpec, error, kind, pointer, required};
use crate::world::World;

/// Maps a changed object to keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyMap {
    /// The object's own key.
    Itself,
    /// The owners of this group and kind.
    Owner {
        /// API group of the owner.
        group: String,
        /// Kind of the owner.
        kind: String,
        /// Only the owner that is the managing controller.
        controller_only: bool,
    },
    /// The value of a label.
    Label {
        /// Name of the label.
        name: String,
        /// Whether the value is a name in the object's namespace instead of a key.
        same_namespace: bool,
    },
    /// The value of an annotation.
    Annotation {
        /// Name of the annotation.
        name: String,
        /// Whether the value is a name in the object's namespace instead of a key.
        same_namespace: bool,
    },
    /// The strings at a pointer.
    Field {
        /// The pointer.
        path: Pointer,
        /// Whether the value is a name in the object's namespace instead of a key.
        same_namespace: bool,
    },
    /// All objects of this kind that the first watch of it with [`KeyMap::Itself`] shows.
    AllKeys(Gvk),
    /// The guest's event handlers are called instead.
    Handler,
}

/// Maximum number of maps of a watch.
const MOST_MAPS: usize = 8;

pub(super) fn maps(at: &str, text: Option<MapsText>, world: World) -> Result<Vec<KeyMap>, DescribeError> {
    let texts = match text {
        None => return Ok(vec![if world.reconciles() { KeyMap::Itself } else { KeyMap::Handler }]),
        Some(MapsText::One(text)) => return Ok(vec![map(at, text, world)?]),
        Some(MapsText::Many(texts)) => texts,
    };
    if !(1..=MOST_MAPS).contains(&texts.len()) {
        let reason = format!("there are {} maps", texts.len());
        return Err(error(at, reason, format!("write 1 to {MOST_MAPS}, or leave the map out")));
    }
    let maps = texts.into_iter().enumerate().map(|(i, text)| map(&format!("{at}[{i}]"), text, world));
    let maps = maps.collect::<Result<Vec<_>, _>>()?;
    if maps.len() > 1 && maps.contains(&KeyMap::Handler) {
        let remedy = "map to keys in the handler, or watch the kind a second time";
        return Err(error(at, "handler is one of several maps", remedy));
    }
    Ok(maps)
}

fn map(at: &str, text: MapText, world: World) -> Result<KeyMap, DescribeError> {
    let map = match text {
        MapText::Itself {} => KeyMap::Itself,
        MapText::Owner { group, kind, controller_only } => {
            required(at, "kind", &kind)?;
            KeyMap::Owner { group, kind, controller_only }
        }
        MapText::Label { name, same_namespace } => {
            required(at, "name", &name)?;
            KeyMap::Label { name, same_namespace }
        }
        MapText::Annotation { name, same_namespace } => {
            required(at, "name", &name)?;
            KeyMap::Annotation { name, same_namespace }
        }
        MapText::Field { path, same_namespace } => {
            KeyMap::Field { path: pointer(at, &path)?, same_namespace }
        }
        MapText::AllKeys { group, version, kind: name } => {
            KeyMap::AllKeys(kind(at, &group, &version, &name)?)
        }
        MapText::Handler {} => KeyMap::Handler,
    };
    match (&map, world.handles(), world.reconciles()) {
        (KeyMap::Handler, false, _) => Err(error(
            at,
            "the guest exports no handler, so nothing would be called",
            "use self, owner, label, annotation, field or allKeys, or build the guest for the world controller",
        )),
        (KeyMap::Handler, true, _) | (_, _, true) => Ok(map),
        (_, _, false) => Err(error(
            at,
            "the guest exports no reconcile, so no key would be worked on",
            "leave the map out, or build the guest for a world with reconcile or reconcile-many",
        )),
    }
}

/// Checks that all keys of a kind are taken from a watch whose objects are the keys.
pub(super) fn check(watches: &[WatchSpec]) -> Result<(), DescribeError> {
    for (position, watch) in watches.iter().enumerate() {
        for map in &watch.maps {
            let KeyMap::AllKeys(kind) = map else { continue };
            let has_keys = |other: &WatchSpec| other.kind == *kind && other.maps.contains(&KeyMap::Itself);
            if !watches.iter().any(has_keys) {
                let at = format!("watches[{position}] ({}).map", watch.kind);
                let reason = format!("no watch of {kind} maps to its own keys, so it has none");
                return Err(error(at, reason, "watch that kind with the map self"));
            }
        }
    }
    Ok(())
}
