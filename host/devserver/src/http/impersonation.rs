//! As whom a request acts: the administrator, or whom its headers impersonate.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use percent_encoding::percent_decode_str;

use super::Served;
use crate::verbs::User;

const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";

/// As whom a request acts. Every token is good and stands for the administrator; a token is a secret and is not noted.
pub(super) fn impersonated(headers: &HeaderMap, entry: &mut Served) -> User {
    entry.user = "system:admin".to_owned();
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).filter(|text| !text.is_empty());
    let Some(name) = text("impersonate-user") else {
        return administrator(&entry.user, headers.contains_key(AUTHORIZATION));
    };
    let groups: Vec<String> = headers
        .get_all("impersonate-group")
        .iter()
        .filter_map(|v| v.to_str().ok())
        .map(str::to_owned)
        .collect();
    entry.impersonated = Some(name.to_owned());
    entry.impersonated_groups.clone_from(&groups);
    User {
        name: name.to_owned(),
        groups: with_implied(name, groups),
        uid: text("impersonate-uid").unwrap_or_default().to_owned(),
        extra: extra(headers),
    }
}

fn administrator(name: &str, by_token: bool) -> User {
    let groups = ["system:masters", AUTHENTICATED].map(str::to_owned).to_vec();
    let extra = by_token.then(|| ("authenticated-by".to_owned(), vec!["token".to_owned()]));
    User { name: name.to_owned(), groups, extra: extra.into_iter().collect(), ..User::default() }
}

/// The groups of an impersonated user: those of a ServiceAccount if none were given, and whether it is authenticated.
fn with_implied(user: &str, mut groups: Vec<String>) -> Vec<String> {
    let account = user.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':'));
    if let (true, Some((namespace, _))) = (groups.is_empty(), account) {
        groups.push("system:serviceaccounts".to_owned());
        groups.push(format!("system:serviceaccounts:{namespace}"));
    }
    let has = |group: &str| groups.iter().any(|g| g == group);
    let implied = match (user, has(UNAUTHENTICATED)) {
        (_, true) => None,
        (ANONYMOUS, false) => Some(UNAUTHENTICATED),
        (_, false) => (!has(AUTHENTICATED)).then_some(AUTHENTICATED),
    };
    groups.extend(implied.map(str::to_owned));
    groups
}

/// What `Impersonate-Extra-KEY` headers say; keys are percent-encoded.
fn extra(headers: &HeaderMap) -> Vec<(String, Vec<String>)> {
    let mut extra: Vec<(String, Vec<String>)> = Vec::new();
    for name in headers.keys() {
        let Some(key) = name.as_str().strip_prefix("impersonate-extra-") else { continue };
        let values = headers.get_all(name).iter().filter_map(|v| v.to_str().ok()).map(str::to_owned);
        let key = decoded(key);
        match extra.iter_mut().find(|(k, _)| *k == key) {
            Some((_, known)) => known.extend(values),
            None => extra.push((key, values.collect())),
        }
    }
    extra
}

/// The key as it was before it was encoded; as it is if it is malformed.
fn decoded(key: &str) -> String {
    let is_escape =
        |tail: &str| tail.as_bytes().get(..2).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit));
    if key.split('%').skip(1).all(is_escape) {
        percent_decode_str(key).decode_utf8_lossy().into_owned()
    } else {
        key.to_owned()
    }
}
