//! [`DiscoveryClient`]: asks the server itself each time; nothing is kept.
//!
//! Invariants: a request is sent once, retries are the caller's; the aggregated form is asked for first and whatever comes
//! is read by what the document says it is, since proxies change content types. `/api` may be missing, as on servers that
//! have no core group.

use http::header::{ETAG, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use serde::de::DeserializeOwned;

use super::cached::CachedDiscovery;
use crate::client::failure;
use crate::client::{
    Call, OBJECT_LIMIT,
    failure::{protocol, without_values},
};
use crate::client::{Client, ServerVersion};
use crate::documents::{
    ApiGroup, Group, GroupVersion, ResourceList, RootDocument, RootResponse, ServerResources, stale,
};
use crate::error::Result;
use crate::params::ApiResource;
use crate::text::short;
use crate::url::Target;

/// The parameters stand in the order in which old servers compare them.
const AGGREGATED_FIRST: HeaderValue = HeaderValue::from_static(
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
     application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
     application/json",
);

/// Asks an API server what it serves.
///
/// All requests go out under the identity of the client it was made from.
#[derive(Debug, Clone)]
pub struct DiscoveryClient {
    pub(super) client: Client,
    legacy: bool,
}

/// One of the two documents that all else is reached from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RootPath {
    /// `/api`: the core group.
    Core,
    /// `/apis`: all others.
    Named,
}

impl DiscoveryClient {
    /// Discovery of a client's server.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, legacy: false }
    }

    /// Asks for the old form only, a document per group version.
    #[must_use]
    pub fn legacy(self) -> Self {
        Self { legacy: true, ..self }
    }

    /// The groups, the core group first.
    ///
    /// # Errors
    /// When `/api` or `/apis` could not be read; a missing `/api` is none.
    pub async fn groups(&self) -> Result<Vec<ApiGroup>> {
        let ask = |part| async move { self.part(part, None).await };
        let (core, named) = futures_util::try_join!(ask(RootPath::Core), ask(RootPath::Named))?;
        let all = [core, named].into_iter().flatten();
        Ok(all.flat_map(|answered| answered.groups).collect())
    }

    /// The resources of one group version.
    ///
    /// # Errors
    /// A `NotFound` when there is no such group version; otherwise why it could not be asked.
    pub async fn resources(&self, group: &str, version: &str) -> Result<Vec<ApiResource>> {
        let place = GroupVersion::new(group, version);
        Ok(self.list(&place).await?.fold(&place))
    }

    /// Whether the server has a resource: by the list of its group version, or where that is 404 by the list of groups.
    ///
    /// # Errors
    /// When no discovery document decides it. A 404 alone confirms nothing, since a proxy answers it too; nor does an
    /// answer that is not of this group version, or a list without any group.
    pub async fn is_served(&self, resource: &ApiResource) -> Result<bool> {
        let place = GroupVersion::new(&resource.gvk.group, &resource.gvk.version);
        let call = Call::new(Method::GET, Target::group_version(&place.group, &place.version)?);
        let not_found = match self.document::<ResourceList>(&call).await {
            Ok(list) if list.is_of(&place) => {
                return Ok(list.fold(&place).iter().any(|served| served.plural == resource.plural));
            }
            Ok(_) => {
                return Err(protocol(
                    self.client.doing(&call),
                    &format!("no list of the resources of {place}"),
                ));
            }
            Err(error) if error.is_not_found() && !place.group.is_empty() => error,
            Err(error) => return Err(error),
        };
        let groups =
            self.part(RootPath::Named, None).await?.map(|answered| answered.groups).unwrap_or_default();
        let has_version =
            |group: &ApiGroup| group.name == place.group && group.versions.contains(&place.version);
        if groups.is_empty() || groups.iter().any(has_version) { Err(not_found) } else { Ok(false) }
    }

    /// All groups and the resources of all their versions: two requests, or one per group version from servers
    /// that do not know the aggregated form.
    ///
    /// # Errors
    /// When the groups could not be read. Failures of single groups are in the result.
    pub async fn groups_and_resources(&self) -> Result<ServerResources> {
        CachedDiscovery::in_memory(self.clone()).groups_and_resources().await
    }

    /// The server's version.
    ///
    /// # Errors
    /// When no answer came, or it is not that of an API server.
    pub async fn server_version(&self) -> Result<ServerVersion> {
        self.client.server_version().await
    }

    /// One of the two documents; nothing when it is still the one of this `ETag`.
    pub(super) async fn part(&self, part: RootPath, etag: Option<&str>) -> Result<Option<RootResponse>> {
        let path = if part == RootPath::Core { "/api" } else { "/apis" };
        let mut call = Call::new(Method::GET, Target::raw(path)?);
        if !self.legacy {
            call = call.accept(AGGREGATED_FIRST);
        }
        // A tag that no header can carry is one that this server never gave.
        if let Some(etag) = etag.and_then(|etag| HeaderValue::from_str(etag).ok()) {
            call = call.if_none_match(etag);
        }
        let answer = self.client.fetch(&call, OBJECT_LIMIT).await?;
        if answer.status == StatusCode::NOT_MODIFIED && etag.is_some() {
            return Ok(None);
        }
        if answer.status == StatusCode::NOT_FOUND && part == RootPath::Core {
            return Ok(Some(RootResponse { groups: Vec::new(), lists: Some(Vec::new()), etag: None }));
        }
        if !answer.status.is_success() {
            return Err(failure::of_response(self.client.doing(&call), &answer));
        }
        let root: RootDocument = self.decode(&call, &answer.body)?;
        let groups = match root.kind.as_str() {
            "APIGroupDiscoveryList" => return Ok(Some(aggregated(root, &answer.headers))),
            "APIGroupList" => root.groups.into_iter().map(Group::into_api).collect(),
            "APIVersions" if root.versions.is_empty() => Vec::new(),
            "APIVersions" => vec![ApiGroup { name: String::new(), versions: root.versions }],
            other => {
                let message = format!("{other:?} is no list of groups; is this a Kubernetes API server?");
                return Err(protocol(self.client.doing(&call), &message));
            }
        };
        Ok(Some(RootResponse { groups, lists: None, etag: None }))
    }

    /// The list of one group version.
    pub(super) async fn list(&self, place: &GroupVersion) -> Result<ResourceList> {
        let call = Call::new(Method::GET, Target::group_version(&place.group, &place.version)?);
        Ok(self.document::<ResourceList>(&call).await?.named(place))
    }

    pub(super) async fn document<T: DeserializeOwned>(&self, call: &Call) -> Result<T> {
        let body = self.client.fetch_ok(call, OBJECT_LIMIT).await?;
        self.decode(call, &body)
    }

    fn decode<T: DeserializeOwned>(&self, call: &Call, body: &[u8]) -> Result<T> {
        serde_json::from_slice(body).map_err(|error| {
            let shown = short(body);
            let shown = if shown.starts_with('{') { String::new() } else { format!(": {shown}") };
            protocol(
                self.client.doing(call),
                &format!("no discovery document: {}{shown}", without_values(&error)),
            )
        })
    }
}

fn aggregated(root: RootDocument, headers: &HeaderMap) -> RootResponse {
    let etag = headers.get(ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
    let mut answered = RootResponse { groups: Vec::new(), lists: None, etag };
    let lists = answered.lists.insert(Vec::new());
    for group in root.items {
        let split = group.split();
        answered.groups.push(split.group);
        lists.extend(split.lists.into_iter().map(|(place, list)| {
            let list = list.ok_or_else(|| stale(&place));
            (place, list)
        }));
    }
    answered
}
