//! As whom a request acts: the administrator, or whom its headers impersonate.

use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::Served;
use crate::verbs::User;

/// As whom a request acts. Every token is good and stands for the administrator; a token is a secret and is not noted.
pub(super) fn impersonated(headers: &HeaderMap, entry: &mut Served) -> User {
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let by_token = headers.get(AUTHORIZATION).is_some();
    entry.user = "system:admin".to_owned();
    let Some(name) = text("impersonate-user") else {
        let groups = ["system:masters", "system:authenticated"].map(str::to_owned).to_vec();
        let extra = if by_token {
            vec![("authenticated-by".to_owned(), vec!["token".to_owned()])]
        } else {
            Vec::new()
        };
        return User { name: entry.user.clone(), groups, extra, ..User::default() };
    };
    let groups: Vec<String> = headers
        .get_all("impersonate-group")
        .iter()
        .filter_map(|v| v.to_str().ok())
        .map(str::to_owned)
        .collect();
    let mut extra: Vec<(String, Vec<String>)> = Vec::new();
    for (header, value) in headers {
        let (Some(key), Ok(value)) = (header.as_str().strip_prefix("impersonate-extra-"), value.to_str())
        else {
            continue;
        };
        match extra.iter_mut().find(|(k, _)| k == key) {
            Some((_, values)) => values.push(value.to_owned()),
            None => extra.push((key.to_owned(), vec![value.to_owned()])),
        }
    }
    entry.impersonated = Some(name.clone());
    entry.impersonated_groups.clone_from(&groups);
    User { name, groups, uid: text("impersonate-uid").unwrap_or_default(), extra }
}
