//! [`Call`]: a request as the verbs describe it, before an identity and credentials are added. `send` sends it.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{HeaderName, HeaderValue, IF_NONE_MATCH};

use crate::params::{ListParams, WatchParams};
use crate::url::Target;

const ACCEPT_JSON: HeaderValue = HeaderValue::from_static("application/json");
/// New servers leave the field managers out, which is the larger part of many objects; old ones ignore the parameter.
const ACCEPT_OBJECTS: HeaderValue =
    HeaderValue::from_static("application/json;drop=metadata.managedFields, application/json");

/// Metadata only, of a list, and of a watch or an object; servers that do not know the transformation take the second form.
const ACCEPT_METADATA_LIST: HeaderValue = HeaderValue::from_static(
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json",
);
const ACCEPT_METADATA: HeaderValue = HeaderValue::from_static(
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json",
);

/// A request, before an identity and credentials are put to it.
pub(crate) struct Call {
    pub(super) method: Method,
    pub(super) target: Target,
    pub(super) accept: HeaderValue,
    pub(super) content_type: Option<&'static str>,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Bytes,
    /// Instead of the client's; zero is none.
    pub(super) timeout: Option<Duration>,
    pub(super) is_list: bool,
}

impl Call {
    pub(crate) fn new(method: Method, target: Target) -> Self {
        Self {
            method,
            target,
            accept: ACCEPT_JSON,
            content_type: None,
            headers: Vec::new(),
            body: Bytes::new(),
            timeout: None,
            is_list: false,
        }
    }

    /// A read of objects.
    pub(crate) fn read(target: Target) -> Self {
        Self { accept: ACCEPT_OBJECTS, ..Self::new(Method::GET, target) }
    }

    /// A list of objects.
    pub(crate) fn list(target: Target, params: &ListParams) -> Self {
        Self { is_list: true, ..Self::read(target).accept_if(params.metadata_only, ACCEPT_METADATA_LIST) }
    }

    /// A watch of objects.
    pub(crate) fn watch(target: Target, params: &WatchParams) -> Self {
        Self::read(target).accept_if(params.metadata_only, ACCEPT_METADATA)
    }

    /// Asks for the metadata of the object only.
    #[cfg(feature = "dynamic")]
    pub(crate) fn metadata_only(self) -> Self {
        self.accept(ACCEPT_METADATA)
    }

    fn accept_if(self, condition: bool, accept: HeaderValue) -> Self {
        if condition { self.accept(accept) } else { self }
    }

    /// Asks for these media types.
    pub(crate) fn accept(self, accept: HeaderValue) -> Self {
        Self { accept, ..self }
    }

    /// Asks for a response only if it is not that of this `ETag`; otherwise the status is 304.
    pub(crate) fn if_none_match(mut self, etag: HeaderValue) -> Self {
        self.headers.push((IF_NONE_MATCH, etag));
        self
    }

    pub(crate) fn body(self, content_type: &'static str, body: &[u8]) -> Self {
        self.owned_body(content_type, Bytes::copy_from_slice(body))
    }

    pub(crate) fn owned_body(mut self, content_type: &'static str, body: Bytes) -> Self {
        self.content_type = Some(content_type);
        self.body = body;
        self
    }

    /// Headers beside those that every call has, or instead of them.
    #[cfg(feature = "rest")]
    pub(crate) fn headers(mut self, headers: Vec<(HeaderName, HeaderValue)>) -> Self {
        self.headers = headers;
        self
    }

    #[cfg(feature = "rest")]
    pub(crate) fn timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }
}
