//! Owner references of typed objects.

use super::{ObjectMetadata, Resource, Scope};
use crate::{Failure, Kind, Object, OwnerReference};

/// A reference to an owner that is not the managing controller.
pub fn owner_reference<K: Resource>(owner: &K) -> OwnerReference {
    OwnerReference { controller: false, block_owner_deletion: false, ..controller_reference(owner) }
}

/// A reference to the owner that is the managing controller.
pub fn controller_reference<K: Resource>(owner: &K) -> OwnerReference {
    let (kind, metadata) = (K::resource_kind(), owner.metadata());
    OwnerReference {
        api_version: kind.api_version(),
        kind: kind.kind().to_owned(),
        name: metadata.name().to_owned(),
        uid: metadata.uid().to_owned(),
        controller: true,
        block_owner_deletion: true,
    }
}

impl OwnerReference {
    /// A reference to an object as the managing controller, for children that are written as JSON.
    pub fn controller_of(owner: &Object<'_>) -> Self {
        let kind = owner.kind();
        Self {
            api_version: kind.api_version(),
            kind: kind.kind().to_owned(),
            name: owner.name(),
            uid: owner.uid(),
            controller: true,
            block_owner_deletion: true,
        }
    }
}

/// Makes `owner` the managing controller of `child`, and replaces an older reference to it.
///
/// ```
/// # use pilothouse_sdk::prelude::*;
/// # #[derive(Resource, Serialize, Deserialize, Default)]
/// # #[resource(version = "v1")]
/// # struct ConfigMap { metadata: Metadata }
/// # fn child(owner: &ConfigMap) -> Result<ConfigMap, Failure> {
/// let mut child = ConfigMap { metadata: Metadata::new(&owner.key().child("-config")) };
/// set_controller_reference(owner, &mut child)?;
/// # Ok(child)
/// # }
/// ```
///
/// # Errors
/// A terminal failure when the child has another controller, when the owner was not created yet, or when the owner has a
/// namespace and the child is not in it: the garbage collector would delete such a child.
pub fn set_controller_reference<O: Resource, C: Resource>(owner: &O, child: &mut C) -> Result<(), Failure> {
    let reference = controller_reference(owner);
    let (owner_kind, child_kind) = (Kind::of::<O>(), Kind::of::<C>());
    let (owner_key, child_key) = (owner.key(), child.key());
    let refuse = |why: String| {
        let (owner, child) = (owner_kind.kind(), child_kind.kind());
        Err(Failure::terminal(format!("{owner} {owner_key} cannot own {child} {child_key}: {why}")))
    };
    if reference.uid.is_empty() {
        return refuse("the owner has no UID, since it was not created yet".to_owned());
    }
    if O::resource_scope() == Scope::Namespaced && owner_key.namespace != child_key.namespace {
        return refuse("an owner with a namespace may own only objects of that namespace".to_owned());
    }
    let mut owners = child.metadata().owner_references();
    if let Some(other) = owners.iter().find(|other| other.controller && other.uid != reference.uid) {
        return refuse(format!("its controller is {} {} already", other.kind, other.name));
    }
    owners.retain(|other| other.uid != reference.uid);
    owners.push(reference);
    child.metadata_mut().set_owner_references(owners);
    Ok(())
}
