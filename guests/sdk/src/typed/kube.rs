//! Types of kube-rs and k8s-openapi are [`Resource`]s.

use std::any::TypeId;
use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference as KubeOwner};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{ObjectMetadata, Resource, Scope};
use crate::{Key, Kind, OwnerReference};

impl<K> Resource for K
where
    K: kube_core::Resource<DynamicType = ()> + Serialize + DeserializeOwned,
    K::Scope: 'static,
{
    type Metadata = ObjectMeta;

    fn resource_kind() -> Kind {
        Kind::from_parts(K::group(&()), K::version(&()), K::kind(&()))
    }

    fn resource_plural() -> Cow<'static, str> {
        K::plural(&())
    }

    fn resource_scope() -> Scope {
        if TypeId::of::<K::Scope>() == TypeId::of::<ClusterResourceScope>() {
            Scope::Cluster
        } else {
            Scope::Namespaced
        }
    }

    fn metadata(&self) -> &ObjectMeta {
        self.meta()
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        self.meta_mut()
    }
}

fn text(text: Option<&String>) -> &str {
    text.map_or("", String::as_str)
}

fn entry<'a>(map: Option<&'a BTreeMap<String, String>>, name: &str) -> Option<&'a str> {
    map?.get(name).map(String::as_str)
}

impl ObjectMetadata for ObjectMeta {
    fn name(&self) -> &str {
        text(self.name.as_ref())
    }

    fn namespace(&self) -> &str {
        text(self.namespace.as_ref())
    }

    fn uid(&self) -> &str {
        text(self.uid.as_ref())
    }

    fn resource_version(&self) -> &str {
        text(self.resource_version.as_ref())
    }

    fn generation(&self) -> Option<i64> {
        self.generation
    }

    fn is_being_deleted(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    fn label(&self, name: &str) -> Option<&str> {
        entry(self.labels.as_ref(), name)
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        entry(self.annotations.as_ref(), name)
    }

    fn finalizers(&self) -> &[String] {
        self.finalizers.as_deref().unwrap_or_default()
    }

    fn owner_references(&self) -> Vec<OwnerReference> {
        let owners = self.owner_references.iter().flatten();
        owners
            .map(|owner| OwnerReference {
                api_version: owner.api_version.clone(),
                kind: owner.kind.clone(),
                name: owner.name.clone(),
                uid: owner.uid.clone(),
                controller: owner.controller.unwrap_or_default(),
                block_owner_deletion: owner.block_owner_deletion.unwrap_or_default(),
            })
            .collect()
    }

    fn set_owner_references(&mut self, owners: Vec<OwnerReference>) {
        let owner = |owner: OwnerReference| KubeOwner {
            api_version: owner.api_version,
            kind: owner.kind,
            name: owner.name,
            uid: owner.uid,
            controller: Some(owner.controller),
            block_owner_deletion: Some(owner.block_owner_deletion),
        };
        self.owner_references = Some(owners.into_iter().map(owner).collect());
    }

    fn set_key(&mut self, key: &Key) {
        self.name = Some(key.name.clone());
        self.namespace = Some(key.namespace.clone()).filter(|namespace| !namespace.is_empty());
    }
}
