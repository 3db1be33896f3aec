//! [`ReferrerPages`]: the list of the manifests that refer to an artifact. It is that of the referrers API, page by page, or the
//! index of the fallback tag where a registry has no such API. Called by the search for signatures; [`Registry::lists_referrers`]
//! by pushes.
//!
//! Invariants: each page is asked of the registry; a page is bounded, and so are the number of pages, also of those that name one
//! another, and their size together. Of an entry little more than its digest is kept, and of a few entries alone.

use std::fmt;

use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use pilothouse_engine::HostResponse;
use pilothouse_plugin::{ComponentUrl, is_digest};
use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};

use crate::RegistryError;
use crate::artifact::{EMPTY, INDEX, check_entries, unreadable};
use crate::link::next_of;
use crate::registry::{Call, Registry, parsed, whole};
use crate::signatures::{BUNDLE, MOST};

/// Maximum number of pages. Registries list some hundred manifests on each.
const MOST_PAGES: usize = 32;
/// Maximum size in bytes of a page. Some registries list all on one.
const MAX_PAGE: usize = 1 << 20;
/// Size in bytes of the pages after which no further one is read.
const MAX_LIST: usize = 8 << 20;
/// What errors call the list.
const LIST: &str = "the list of what refers to the artifact";

/// An entry of a list that is looked at.
#[derive(Debug)]
pub(crate) struct Referrer {
    /// The least first.
    rank: u8,
    pub(crate) digest: String,
    pub(crate) size: u64,
}

/// What is kept of a list, or of a page: the entries with the type of a bundle before others, [`MOST`] of them.
#[derive(Debug, Default)]
pub(crate) struct Referrers {
    pub(crate) kept: Vec<Referrer>,
    /// There are entries that are not kept.
    pub(crate) is_cut: bool,
    /// The number of entries of a page.
    entries: usize,
}

impl Referrers {
    fn parse(page: &[u8]) -> Result<Self, RegistryError> {
        #[derive(Deserialize)]
        struct Index {
            #[serde(default)]
            manifests: Referrers,
        }
        let index: Index = serde_json::from_slice(page).map_err(|error| unreadable(LIST, &error))?;
        Ok(index.manifests)
    }

    fn add(&mut self, referrer: Referrer) {
        let place = self.kept.partition_point(|kept| kept.rank <= referrer.rank);
        if place < MOST {
            self.kept.insert(place, referrer);
        }
        self.is_cut |= place == MOST || self.kept.len() > MOST;
        self.kept.truncate(MOST);
    }

    /// Adds what is kept of another page.
    pub(crate) fn extend(&mut self, page: Self) {
        self.is_cut |= page.is_cut;
        for referrer in page.kept {
            self.add(referrer);
        }
    }
}

impl<'de> Deserialize<'de> for Referrers {
    fn deserialize<D: Deserializer<'de>>(list: D) -> Result<Self, D::Error> {
        list.deserialize_any(Entries)
    }
}

/// Reads the entries one by one: a page may have tens of thousands.
struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Referrers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of manifests")
    }

    /// An empty list, as programs in Go may write it.
    fn visit_unit<E: Error>(self) -> Result<Referrers, E> {
        Ok(Referrers::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Referrers, A::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Entry {
            digest: String,
            size: u64,
            artifact_type: Option<String>,
        }
        let mut referrers = Referrers::default();
        while let Some(Entry { digest, size, artifact_type }) = list.next_element()? {
            referrers.entries += 1;
            // Nothing is fetched by a digest that cannot be checked.
            if !is_digest(&digest) {
                referrers.is_cut = true;
                continue;
            }
            // Other documents may be many. Some registries leave the type out, and some clients write that of the configuration.
            let rank = match artifact_type.as_deref() {
                Some(kind) if kind.starts_with(BUNDLE) => 0,
                None | Some("" | EMPTY) => 1,
                Some(_) => 2,
            };
            referrers.add(Referrer { rank, digest, size });
        }
        Ok(referrers)
    }
}

/// The pages that are not read yet.
pub(crate) struct ReferrerPages<'a> {
    digest: &'a str,
    /// How many were read.
    read: usize,
    /// Their size in bytes.
    bytes: usize,
    /// The next page, or why it cannot be read; none after the last one.
    next: Option<Result<ComponentUrl, RegistryError>>,
}

impl<'a> ReferrerPages<'a> {
    /// The pages about the manifest with this digest.
    pub(crate) fn of(registry: &Registry, digest: &'a str) -> Self {
        Self { digest, read: 0, bytes: 0, next: Some(registry.referrers_url(digest)) }
    }

    /// What is kept of the next page; none after the last page. Another page may follow an error.
    pub(crate) async fn next(&mut self, registry: &mut Registry) -> Option<Result<Referrers, RegistryError>> {
        let url = self.next.take()?;
        Some(self.page(registry, url).await)
    }

    async fn page(
        &mut self,
        registry: &mut Registry,
        url: Result<ComponentUrl, RegistryError>,
    ) -> Result<Referrers, RegistryError> {
        let url = url?;
        if self.read == MOST_PAGES || self.bytes >= MAX_LIST {
            return Err(RegistryError::Content(format!(
                "{LIST} has more than {MOST_PAGES} pages, each of which names the next one, or more than {MAX_LIST} bytes; remove \
                 what is not needed from the registry"
            )));
        }
        self.read += 1;
        let (url, response) = registry.answer(&list_call(url)).await?;
        if self.read == 1 && lacks_list(&response) {
            let Some(index) = registry.tagged(&tag_of(self.digest)).await? else {
                return Ok(Referrers::default());
            };
            let referrers = parsed(index, Referrers::parse).await?;
            check_entries("manifests", referrers.entries)?;
            return Ok(referrers);
        }
        let response = registry.succeeded(response, LIST)?;
        let target = next_of(response.headers()).transpose();
        self.next = target.map(|target| next_page(registry, &url, target));
        let page = whole(response, MAX_PAGE, LIST).await;
        self.bytes += page.as_ref().map_or(MAX_PAGE, Vec::len);
        parsed(page?, Referrers::parse).await
    }
}

impl Registry {
    /// Whether the registry lists by itself what refers to a manifest: it then answers for each manifest of a repository, if only
    /// with an empty list.
    pub(crate) async fn lists_referrers(&mut self, digest: &str) -> Result<bool, RegistryError> {
        let (_, response) = self.answer(&list_call(self.referrers_url(digest)?)).await?;
        if lacks_list(&response) {
            return Ok(false);
        }
        self.succeeded(response, LIST).map(|_| true)
    }

    fn referrers_url(&self, digest: &str) -> Result<ComponentUrl, RegistryError> {
        self.url(&format!("referrers/{digest}"))
    }
}

fn list_call(url: ComponentUrl) -> Call {
    Call::new(Method::GET, url).accept(INDEX).stays()
}

/// Whether the answer is that of a registry without the referrers API. Some lead to a page for people, as `ghcr.io` does, or send
/// one.
fn lacks_list(response: &HostResponse) -> bool {
    let status = response.status();
    let kind = response.headers().get(CONTENT_TYPE);
    let is_for_people = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    let is_unknown = matches!(
        status,
        StatusCode::NOT_FOUND
            | StatusCode::BAD_REQUEST
            | StatusCode::METHOD_NOT_ALLOWED
            | StatusCode::NOT_ACCEPTABLE
            | StatusCode::NOT_IMPLEMENTED
    );
    is_unknown || status.is_redirection() || (status.is_success() && is_for_people)
}

/// The page that a link of another page leads to.
fn next_page(
    registry: &Registry,
    page: &ComponentUrl,
    target: Result<String, &'static str>,
) -> Result<ComponentUrl, RegistryError> {
    let target = target.map_err(|reason| {
        RegistryError::Content(format!(
            "{LIST} may have a next page, and the header Link that would name it cannot be read: {reason}; have the registry \
             corrected"
        ))
    })?;
    let next = registry.resolve(page, &target)?;
    if !registry.is_own(&next) {
        return Err(RegistryError::Content(format!(
            "{LIST} has its next page on {}, which is another server than the registry; name the registry as its links \
             name it, or have its links corrected",
            next.authority()
        )));
    }
    Ok(next)
}

/// The fallback tag of a digest, for registries without the referrers API.
pub(crate) fn tag_of(digest: &str) -> String {
    digest.replace(':', "-")
}
