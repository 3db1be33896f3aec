//! [`Login`]: user and password of a registry, from the form that `docker login` writes and that Secrets of the type
//! `kubernetes.io/dockerconfigjson` hold.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pilothouse_plugin::OciRepository;
use serde_json::Value;

use crate::RegistryError;

/// The key of a Secret of the type `kubernetes.io/dockerconfigjson`.
pub const DOCKER_CONFIG_KEY: &str = ".dockerconfigjson";

/// User and password of a registry.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// `user:password`
    text: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(..)")
    }
}

impl Login {
    /// The login of a repository. Of several, that for the longest part of its name is taken, then that of the registry, which is
    /// named with its port where it has one.
    ///
    /// # Errors
    /// Reason and remedy. It quotes nothing of the text.
    pub fn of_docker_config(text: &[u8], repository: &OciRepository) -> Result<Self, RegistryError> {
        let registry = repository.registry();
        let refused = |what: &str| {
            RegistryError::Content(format!(
                "{what}; make it with `kubectl create secret docker-registry --docker-server={registry}`, or with `docker login` \
                 without a credential store"
            ))
        };
        let config: Value = serde_json::from_slice(text)
            .map_err(|_| refused("the logins are not JSON of the form of Docker"))?;
        let login = names(repository).iter().find_map(|name| config["auths"].get(name));
        let login = login.ok_or_else(|| refused("there is no login of this registry"))?;
        let field = |name| login[name].as_str();
        if let (Some(user), Some(password)) = (field("username"), field("password")) {
            return Ok(Self { text: format!("{user}:{password}") });
        }
        let auth = field("auth").filter(|auth| !auth.is_empty());
        let auth = auth.ok_or_else(|| refused("the login has no user and password"))?;
        let text = BASE64_STANDARD.decode(auth).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let text = text.filter(|text| text.contains(':'));
        Ok(Self { text: text.ok_or_else(|| refused("the login is not base64 of user:password"))? })
    }

    /// The value of the header `Authorization`.
    pub(crate) fn basic(&self) -> String {
        format!("Basic {}", BASE64_STANDARD.encode(&self.text))
    }
}

/// The names under which clients write a login that holds for a repository; the one to take comes first.
fn names(repository: &OciRepository) -> Vec<String> {
    let name = format!("{}/{}", repository.registry(), repository.name());
    let ends = name.match_indices('/').map(|(end, _)| end).chain([name.len()]);
    let mut names: Vec<&str> = ends.map(|end| &name[..end]).collect();
    names.reverse();
    // Some write the registry as a URL.
    let forms = |name: &str| {
        let urls = ["", "/", "/v1/", "/v2/"].map(|end| format!("https://{name}{end}"));
        [name.to_owned()].into_iter().chain(urls).collect::<Vec<_>>()
    };
    names.into_iter().flat_map(forms).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::repository;

    #[test]
    fn a_login_is_found_by_its_registry_in_both_forms() {
        let config = br#"{"auths":{
            "a.example":{"auth":"dXNlcjpwYXNz"},
            "https://b.example:5000/v1/":{"username":"user","password":"secret","auth":"?"},
            "c.example":{"auth":"?"}, "d.example":{}, "e.example":{"auth":"","identitytoken":"secret"}}}"#;
        let login = |registry| Login::of_docker_config(config, &repository(registry)).map(|login| login.text);
        assert_eq!(login("a.example").unwrap(), "user:pass");
        assert_eq!(login("b.example:5000").unwrap(), "user:secret");
        for (registry, words) in [
            ("b.example", "no login of this registry; make it with"),
            ("c.example", "not base64 of user:password"),
            ("d.example", "no user and password"),
            ("e.example", "no user and password"),
        ] {
            let error = login(registry).unwrap_err().to_string();
            // The remedy has `create secret`.
            assert!(
                error.contains(words) && !error.replace("create secret", "").contains("secret"),
                "{error}"
            );
        }
        let error = Login::of_docker_config(b"secret", &repository("a.example")).unwrap_err().to_string();
        assert!(error.contains("not JSON of the form"), "{error}");
    }

    #[test]
    fn of_several_logins_the_one_for_most_of_the_name_is_taken_and_then_the_host() {
        // Each line is taken if those before are not there.
        let names = [
            "r.example/team/web",
            "https://r.example/team/",
            "r.example",
            "https://r.example",
            "https://r.example/v1/",
            "https://r.example/v2/",
        ];
        let others = ["r.example/te", "r.example/other", "r.example:5000", "other.example", "zr.example"];
        for first in 0..=names.len() {
            let names = names[first..].iter().chain(&others);
            let auths: std::collections::BTreeMap<_, _> = names
                .clone()
                .map(|name| (name, serde_json::json!({"username": name, "password": ""})))
                .collect();
            let config = serde_json::json!({"auths": auths}).to_string();
            let login = Login::of_docker_config(config.as_bytes(), &repository("r.example"));
            match names.clone().next().filter(|_| first < 6) {
                Some(name) => assert_eq!(login.unwrap().text, format!("{name}:")),
                None => assert!(login.unwrap_err().to_string().contains("no login of this registry")),
            }
        }
    }

    #[test]
    fn a_login_is_sent_as_basic_and_not_printed() {
        let login = Login { text: "user:pass".to_owned() };
        assert_eq!(login.basic(), "Basic dXNlcjpwYXNz");
        assert!(!format!("{login:?}").contains("pass"));
    }
}
