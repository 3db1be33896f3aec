//! Which resources the server serves: kind or plural name to [`ApiResource`].
//!
//! One document per group version, fetched when first asked for, under the host's own identity, and kept in memory for
//! the clients of all identities. What is not in a kept document may have been added since, so a miss fetches it
//! again, but not more often than every 10 s; a failure to fetch is not kept, and concerns its group alone. Whoever
//! asks while a document is being fetched waits for that one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use parking_lot::Mutex;
use pilothouse_object::{Gvk, Gvr};
use serde::Deserialize;
use tokio::time::Instant;

use crate::call::{Call, OBJECT_LIMIT, protocol};
use crate::client::Client;
use crate::error::{Error, Result, Status, StatusDetails};
use crate::params::ApiResource;
use crate::url::Target;

/// How long a kept document is trusted about what it does not hold.
const REFRESH_SPACING: Duration = Duration::from_secs(10);

/// The documents fetched so far.
#[derive(Default)]
pub(crate) struct Discovery {
    resources: Cache<Vec<ApiResource>>,
    /// Versions of each named group, preferred first.
    versions: Cache<Vec<String>>,
}

/// Documents by name.
struct Cache<T>(Mutex<HashMap<String, Arc<Entry<T>>>>);

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

struct Entry<T> {
    kept: Mutex<Option<Kept<T>>>,
    /// Held while fetching.
    fetching: tokio::sync::Mutex<()>,
}

struct Kept<T> {
    document: Arc<T>,
    fetched: Instant,
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self { document: Arc::clone(&self.document), fetched: self.fetched }
    }
}

impl<T: Default> Cache<T> {
    fn entry(&self, name: &str) -> Arc<Entry<T>> {
        let mut entries = self.0.lock();
        if let Some(entry) = entries.get(name) {
            return Arc::clone(entry);
        }
        let entry = Arc::new(Entry { kept: Mutex::new(None), fetching: tokio::sync::Mutex::new(()) });
        entries.insert(name.to_owned(), Arc::clone(&entry));
        entry
    }

    /// What `find` finds in the document `name`, fetched with `fetch` where that could help.
    async fn find<R>(
        &self,
        name: &str,
        find: impl Fn(&T) -> Option<R>,
        fetch: impl Future<Output = Result<T>>,
    ) -> Result<Option<R>> {
        let entry = self.entry(name);
        let kept = entry.kept.lock().clone();
        if let Some(found) = kept.as_ref().and_then(|kept| find(&kept.document)) {
            return Ok(Some(found));
        }
        let fetching = entry.fetching.lock().await;
        // Another may have fetched it while this one waited.
        let kept = entry.kept.lock().clone();
        if let Some(kept) = kept {
            let found = find(&kept.document);
            if found.is_some() || kept.fetched.elapsed() < REFRESH_SPACING {
                return Ok(found);
            }
        }
        let document = match fetch.await {
            Err(error) if error.is_not_found() => T::default(),
            fetched => fetched?,
        };
        let kept = Kept { document: Arc::new(document), fetched: Instant::now() };
        let found = find(&kept.document);
        *entry.kept.lock() = Some(kept);
        drop(fetching);
        Ok(found)
    }
}

impl Client {
    /// The resource of a kind, as `apps/v1` `Deployment`.
    ///
    /// # Errors
    /// A `NotFound` that names the kind when the server does not serve it; otherwise why it could not be asked.
    pub async fn discover(&self, kind: &Gvk) -> Result<ApiResource> {
        let found = self.find_resource(&kind.group, &kind.version, |r| r.gvk.kind == kind.kind).await?;
        found.ok_or_else(|| not_served("kind", &kind.kind, &kind.group, &kind.api_version()))
    }

    /// The resource of a plural name, as `deployments` of `apps/v1`.
    ///
    /// # Errors
    /// A `NotFound` that names the resource when the server does not serve it; otherwise why it could not be asked.
    pub async fn discover_resource(&self, resource: &Gvr) -> Result<ApiResource> {
        let plural = &resource.resource;
        let found = self.find_resource(&resource.group, &resource.version, |r| r.plural == *plural).await?;
        found.ok_or_else(|| not_served("resource", plural, &resource.group, &resource.api_version()))
    }

    /// The resource of a plural name in whichever version of its group the server prefers.
    ///
    /// # Errors
    /// As [`Client::discover_resource`].
    pub async fn discover_group_resource(&self, group: &str, plural: &str) -> Result<ApiResource> {
        let host = self.as_host();
        let versions = if group.is_empty() {
            vec!["v1".to_owned()]
        } else {
            let versions = &self.shared.discovery.versions;
            let all = |v: &Vec<String>| (!v.is_empty()).then(|| v.clone());
            versions.find(group, all, host.fetch_versions(group)).await?.unwrap_or_default()
        };
        for version in &versions {
            if let Some(found) = self.find_resource(group, version, |r| r.plural == plural).await? {
                return Ok(found);
            }
        }
        Err(not_served("resource", plural, group, if group.is_empty() { "v1" } else { group }))
    }

    async fn find_resource(
        &self,
        group: &str,
        version: &str,
        is: impl Fn(&ApiResource) -> bool,
    ) -> Result<Option<ApiResource>> {
        let host = self.as_host();
        let name = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let find = |all: &Vec<ApiResource>| all.iter().find(|r| is(r)).cloned();
        self.shared.discovery.resources.find(&name, find, host.fetch_resources(group, version)).await
    }

    async fn fetch_resources(&self, group: &str, version: &str) -> Result<Vec<ApiResource>> {
        let call = Call::new(Method::GET, Target::group_version(group, version)?);
        let body = self.fetch_ok(&call, OBJECT_LIMIT).await?;
        let document: ResourceList =
            serde_json::from_slice(&body).map_err(|e| protocol(self.doing(&call), &e.to_string()))?;
        Ok(document.fold(group, version))
    }

    async fn fetch_versions(&self, group: &str) -> Result<Vec<String>> {
        let call = Call::new(Method::GET, Target::group(group)?);
        let body = self.fetch_ok(&call, OBJECT_LIMIT).await?;
        let document: Group =
            serde_json::from_slice(&body).map_err(|e| protocol(self.doing(&call), &e.to_string()))?;
        let mut versions: Vec<String> = document.versions.into_iter().map(|v| v.version).collect();
        // The server lists them by preference already, but only this field promises it.
        let preferred = document.preferred_version.map(|v| v.version);
        versions.sort_by_key(|version| Some(version) != preferred.as_ref());
        Ok(versions)
    }
}

fn not_served(what: &str, name: &str, group: &str, place: &str) -> Error {
    let remedy =
        if group.is_empty() { "check its spelling" } else { "is its CustomResourceDefinition installed?" };
    Error::Api(Box::new(Status {
        code: 404,
        reason: "NotFound".to_owned(),
        message: format!("the server does not serve {what} {name:?} in {place}; {remedy}"),
        details: Some(StatusDetails {
            group: group.to_owned(),
            kind: name.to_owned(),
            ..StatusDetails::default()
        }),
        ..Status::default()
    }))
}

/// `APIGroup`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    versions: Vec<GroupVersion>,
    #[serde(default)]
    preferred_version: Option<GroupVersion>,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
}

/// `APIResourceList`.
#[derive(Deserialize)]
struct ResourceList {
    resources: Option<Vec<ResourceEntry>>,
}

#[derive(Deserialize)]
struct ResourceEntry {
    /// `deployments`, `deployments/status`.
    name: String,
    kind: String,
    namespaced: bool,
    #[serde(default)]
    verbs: Option<Vec<String>>,
}

impl ResourceList {
    /// Resources with their subresources folded in.
    fn fold(self, group: &str, version: &str) -> Vec<ApiResource> {
        let entries = self.resources.unwrap_or_default();
        let (below, resources): (Vec<_>, Vec<_>) = entries.into_iter().partition(|r| r.name.contains('/'));
        let mut resources: Vec<ApiResource> = resources
            .into_iter()
            .map(|entry| ApiResource {
                gvk: Gvk::new(group, version, &entry.kind),
                plural: entry.name,
                namespaced: entry.namespaced,
                verbs: entry.verbs.unwrap_or_default(),
                subresources: Vec::new(),
            })
            .collect();
        for entry in below {
            let Some((plural, subresource)) = entry.name.split_once('/') else { continue };
            if let Some(resource) = resources.iter_mut().find(|r| r.plural == plural) {
                resource.subresources.push(subresource.to_owned());
            }
        }
        resources
    }
}
