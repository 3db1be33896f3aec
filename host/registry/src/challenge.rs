//! [`Challenge`]: how a registry asks for a login, and the URL of the token that it wants.

use http_auth::{ChallengeRef, parse_challenges};
use serde::Deserialize;

use crate::RegistryError;

/// What a registry wants in the header `Authorization`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// User and password.
    Basic,
    /// A token of a server.
    Bearer {
        /// The URL of the server, without what is asked of it.
        realm: String,
        /// Parameters of the request for a token.
        parameters: Vec<(&'static str, String)>,
    },
}

impl Challenge {
    /// The first one that is known, of the values of `WWW-Authenticate`. Without a login one that needs none goes before.
    pub(crate) fn of<'a>(values: impl IntoIterator<Item = &'a str>, has_login: bool) -> Option<Self> {
        // A value that cannot be read may stand beside one that can.
        let challenges = values.into_iter().flat_map(|value| parse_challenges(value).unwrap_or_default());
        let known = challenges.filter_map(|one| known(&one));
        known.min_by_key(|one| !has_login && *one == Self::Basic)
    }

    /// The URL of the token.
    pub(crate) fn token_url(realm: &str, parameters: &[(&'static str, String)]) -> String {
        let query: String = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        match query.is_empty() {
            true => realm.to_owned(),
            false => format!("{realm}{}{query}", if realm.contains('?') { '&' } else { '?' }),
        }
    }
}

fn known(challenge: &ChallengeRef<'_>) -> Option<Challenge> {
    if challenge.scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !challenge.scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let parameter = |wanted: &str| {
        let found = challenge.params.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.to_unescaped())
    };
    let parameters =
        ["service", "scope"].into_iter().filter_map(|name| Some((name, parameter(name)?))).collect();
    Some(Challenge::Bearer { realm: parameter("realm")?, parameters })
}

/// The token in the answer of a server of tokens. Errors quote nothing of it.
pub(crate) fn token(answer: &[u8]) -> Result<String, RegistryError> {
    #[derive(Deserialize)]
    struct Answer {
        token: Option<String>,
        access_token: Option<String>,
    }
    let answer: Option<Answer> = serde_json::from_slice(answer).ok();
    let mut tokens = answer.into_iter().flat_map(|answer| [answer.token, answer.access_token]).flatten();
    // Some servers leave one of the two empty.
    let token = tokens.find(|token| !token.is_empty());
    token.ok_or_else(|| RegistryError::Content("the answer to the request for a token has none".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        let bearer = |realm: &str, parameters: &[(&'static str, &str)]| {
            let parameters = parameters.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
            Some(Challenge::Bearer { realm: realm.to_owned(), parameters })
        };
        for (value, wanted) in [
            (
                r#"Bearer realm="https://a/token",service="b",scope="repository:c:pull,push""#,
                bearer("https://a/token", &[("service", "b"), ("scope", "repository:c:pull,push")]),
            ),
            (r#"bearer Realm="https://a/token", error="invalid_token""#, bearer("https://a/token", &[])),
            (r#"Basic realm="x""#, Some(Challenge::Basic)),
            (r#"Negotiate, Basic realm="x""#, Some(Challenge::Basic)),
            (r#"Bearer realm="a"#, None),
            (r#"Bearer service="a""#, None),
            ("Negotiate", None),
        ] {
            assert_eq!(Challenge::of([value], true), wanted, "{value}");
        }
        assert_eq!(Challenge::of(["?", r#"Basic realm="x""#], true), Some(Challenge::Basic));
        let both = [r#"Basic realm="x""#, r#"Bearer realm="https://a/token""#];
        assert_eq!(Challenge::of(both, true), Some(Challenge::Basic));
        assert_eq!(Challenge::of(both, false), bearer("https://a/token", &[]));
        assert_eq!(Challenge::of([both[0]], false), Some(Challenge::Basic));
    }

    #[test]
    fn the_url_of_a_token_has_what_the_registry_asks_for() {
        let parameters = [("service", "a b".to_owned()), ("scope", "repository:c:pull".to_owned())];
        assert_eq!(
            Challenge::token_url("https://a/token", &parameters),
            "https://a/token?service=a+b&scope=repository%3Ac%3Apull"
        );
        assert_eq!(Challenge::token_url("https://a/?x=1", &parameters[..1]), "https://a/?x=1&service=a+b");
        assert_eq!(Challenge::token_url("https://a/token", &[]), "https://a/token");
    }

    #[test]
    fn a_token_is_found_under_both_names_and_an_error_quotes_nothing() {
        assert_eq!(token(br#"{"token":"t","access_token":"a"}"#).unwrap(), "t");
        assert_eq!(token(br#"{"access_token":"a","expires_in":300}"#).unwrap(), "a");
        assert_eq!(token(br#"{"token":"","access_token":"a","expires_in":0}"#).unwrap(), "a");
        for answer in [&br#"{"secret":"s"}"#[..], br#"{"token":"","access_token":null}"#, b"secret"] {
            assert!(!token(answer).unwrap_err().to_string().contains("secret"));
        }
    }
}
