//! [`Challenge`]: how a registry asks for a login, and the URL of the token that it wants.

use http_auth::{ChallengeRef, parse_challenges};
use serde_json::Value;
use url::form_urlencoded;

use crate::RegistryError;

/// What a registry wants in the header `Authorization`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// User and password.
    Basic,
    /// A token of a server.
    Bearer {
        /// The URL of the token.
        url: String,
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
    let realm = parameter("realm")?;
    let asked = ["service", "scope"].into_iter().filter_map(|name| Some((name, parameter(name)?)));
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(asked).finish();
    let url = match query.is_empty() {
        true => realm,
        false => format!("{realm}{}{query}", if realm.contains('?') { '&' } else { '?' }),
    };
    Some(Challenge::Bearer { url })
}

/// The token in the answer of a server of tokens. Errors quote nothing of it.
pub(crate) fn token(answer: &[u8]) -> Result<String, RegistryError> {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let tokens = ["token", "access_token"].map(|name| answer[name].as_str());
    // Some servers leave one of the two empty.
    let token = tokens.into_iter().flatten().find(|token| !token.is_empty()).map(str::to_owned);
    token.ok_or_else(|| RegistryError::Content("the answer to the request for a token has none".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        let bearer = |url: &str| Some(Challenge::Bearer { url: url.to_owned() });
        for (value, wanted) in [
            (
                r#"Bearer realm="https://a/token",service="b",scope="repository:c:pull,push""#,
                bearer("https://a/token?service=b&scope=repository%3Ac%3Apull%2Cpush"),
            ),
            (r#"Bearer realm="https://a/?x=1",service="a b""#, bearer("https://a/?x=1&service=a+b")),
            (r#"bearer Realm="https://a/token", error="invalid_token""#, bearer("https://a/token")),
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
        assert_eq!(Challenge::of(both, false), bearer("https://a/token"));
        assert_eq!(Challenge::of([both[0]], false), Some(Challenge::Basic));
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
