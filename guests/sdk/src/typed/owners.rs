//! Owner references of typed objects.

use super::{ObjectMetadata, Resource, Scope};
use crate::{AlreadyOwned, Error, Key, Kind, Object, OwnerReference, Refusal};

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

/// Makes `owner` the managing controller of `child`, and replaces an older reference to it. A child without a controller
/// is adopted.
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
/// [`Error::AlreadyOwned`] when the child has another controller. Refused, and terminal as a [`Failure`](crate::Failure),
/// when the owner was not created yet, or has a namespace that the child is not in: the garbage collector would delete
/// such a child.
pub fn set_controller_reference<O: Resource, C: Resource>(owner: &O, child: &mut C) -> Result<(), Error> {
    let reference = controller_reference(owner);
    let mut owners = child.metadata().owner_references();
    check_owner(owner, &Kind::of::<C>(), &child.key(), &reference, &owners)?;
    owners.retain(|other| other.uid != reference.uid);
    owners.push(reference);
    child.metadata_mut().set_owner_references(owners);
    Ok(())
}

/// Checks that an object may become the controller of another one with these owners.
fn check_owner<O: Resource>(
    owner: &O,
    kind: &Kind,
    key: &Key,
    reference: &OwnerReference,
    owners: &[OwnerReference],
) -> Result<(), Error> {
    let namespace = owner.metadata().namespace();
    let why = if reference.uid.is_empty() {
        "the owner has no UID, since it was not created yet"
    } else if O::resource_scope() == Scope::Namespaced && namespace != key.namespace {
        "an owner with a namespace may own only objects of that namespace"
    } else {
        return match owners.iter().find(|other| other.controller && other.uid != reference.uid) {
            Some(other) => Err(AlreadyOwned::new(kind.clone(), key.clone(), other.clone()).into()),
            None => Ok(()),
        };
    };
    let (owner_kind, owner_key, kind) = (&reference.kind, owner.key(), kind.kind());
    Err(Refusal::invalid(format!("{owner_kind} {owner_key} cannot own {kind} {key}: {why}")).into())
}

/// Whether the controller among these owners is the object with this UID.
pub(super) fn is_controller(uid: &str, owners: &[OwnerReference]) -> bool {
    !uid.is_empty() && owners.iter().any(|other| other.controller && other.is_to(uid))
}

impl Object<'_> {
    /// Whether this object is the managing controller of the object.
    pub fn is_controlled_by<O: Resource>(&self, owner: &O) -> bool {
        is_controller(owner.metadata().uid(), &self.owner_references())
    }
}
