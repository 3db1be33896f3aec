//! Owner references of typed objects.

use super::{ObjectMetadata, Resource, Scope};
use crate::{AlreadyOwned, Error, Key, Kind, Object, OwnerReference, Refusal};

/// A reference to an owner that is not the managing controller.
pub fn owner_reference<K: Resource>(owner: &K) -> OwnerReference {
    OwnerReference { controller: false, block_owner_deletion: false, ..controller_reference(owner) }
}

/// A reference to the owner that is the managing controller.
pub fn controller_reference<K: Resource>(owner: &K) -> OwnerReference {
    let metadata = owner.metadata();
    reference(&K::resource_kind(), metadata.name(), metadata.uid())
}

/// The part of a reference that is the same for all types.
#[inline(never)]
fn reference(kind: &Kind, name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: kind.api_version(),
        kind: kind.kind().to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: true,
        block_owner_deletion: true,
    }
}

impl OwnerReference {
    /// A reference to an object as the managing controller, for children that are written as JSON.
    pub fn controller_of(owner: &Object<'_>) -> Self {
        reference(&owner.kind(), &owner.name(), &owner.uid())
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
    let namespace = match O::resource_scope() {
        Scope::Namespaced => Some(owner.metadata().namespace()),
        Scope::Cluster => None,
    };
    let owners = child.metadata().owner_references();
    let owners =
        with_controller(owners, controller_reference(owner), namespace, &Kind::of::<C>(), &child.key())?;
    child.metadata_mut().set_owner_references(owners);
    Ok(())
}

/// The owners of an object with its new controller, which is in this namespace if its kind has them. The same for all types.
fn with_controller(
    mut owners: Vec<OwnerReference>,
    reference: OwnerReference,
    namespace: Option<&str>,
    kind: &Kind,
    key: &Key,
) -> Result<Vec<OwnerReference>, Error> {
    let why = if reference.uid.is_empty() {
        "the owner has no UID, since it was not created yet"
    } else if namespace.is_some_and(|namespace| namespace != key.namespace) {
        "an owner with a namespace may own only objects of that namespace"
    } else if let Some(other) = owners.iter().find(|other| other.controller && other.uid != reference.uid) {
        return Err(AlreadyOwned::new(kind.clone(), key.clone(), other.clone()).into());
    } else {
        owners.retain(|other| other.uid != reference.uid);
        owners.push(reference);
        return Ok(owners);
    };
    let owner = Key::namespaced(namespace.unwrap_or_default(), reference.name);
    let (owner_kind, kind) = (&reference.kind, kind.kind());
    Err(Refusal::invalid(format!("{owner_kind} {owner} cannot own {kind} {key}: {why}")).into())
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
