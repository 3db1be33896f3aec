//! [`RestClient`]: requests put together part by part, for what the verbs on objects do not cover.
//!
//! As client-go's `rest.RESTClient`, it is bound to a group version and leads to a [`RestRequest`]. Called by programs that
//! use this crate and by the typed client, for subresources whose body is another kind than the object.

mod request;
mod response;

use http::Method;

use crate::client::Client;
use crate::params::PatchKind;

pub use request::RestRequest;
pub use response::{ByteStream, RestResponse};

/// Makes requests to one group version; a cheap clone.
///
/// ```no_run
/// # async fn example(client: pilothouse_client::Client) -> pilothouse_client::Result<()> {
/// let core = client.rest("", "v1");
/// let pods = core.get().namespace("kube-system").resource("pods").param("limit", "500").send().await?;
/// println!("{} bytes", pods.body().len());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct RestClient {
    client: Client,
    group: String,
    version: String,
}

impl Client {
    /// A client of one group version; the core group's name is empty.
    #[must_use]
    pub fn rest(&self, group: &str, version: &str) -> RestClient {
        RestClient { client: self.clone(), group: group.to_owned(), version: version.to_owned() }
    }
}

impl RestClient {
    /// A `GET` request.
    pub fn get(&self) -> RestRequest {
        self.verb(Method::GET)
    }

    /// A `POST` request.
    pub fn post(&self) -> RestRequest {
        self.verb(Method::POST)
    }

    /// A `PUT` request.
    pub fn put(&self) -> RestRequest {
        self.verb(Method::PUT)
    }

    /// A `PATCH` request; its body is of this kind.
    pub fn patch(&self, kind: PatchKind) -> RestRequest {
        self.verb(Method::PATCH).content_type(kind.content_type())
    }

    /// A `DELETE` request.
    pub fn delete(&self) -> RestRequest {
        self.verb(Method::DELETE)
    }

    /// A request of any method.
    pub fn verb(&self, method: Method) -> RestRequest {
        RestRequest::new(self.client.clone(), method, &self.group, &self.version)
    }
}
