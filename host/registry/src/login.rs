//! [`Login`]: user and password of a registry, from the form that `docker login` writes and that Secrets of the type
//! `kubernetes.io/dockerconfigjson` hold.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pilothouse_plugin::OciRepository;
use serde::Deserialize;

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

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, DockerLogin>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
struct DockerLogin {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

impl Login {
    /// The login of a repository. Of several, that for the longest part of its name is taken, then that of the registry, which is
    /// named with its port where it has one.
    ///
    /// # Errors
    /// [`RegistryError::Login`] with reason and remedy. It quotes nothing of the text.
    pub fn of_docker_config(text: &[u8], repository: &OciRepository) -> Result<Self, RegistryError> {
        let registry = repository.registry();
        let refused = |what: &str| {
            RegistryError::Login(format!(
                "{what}; make it with `kubectl create secret docker-registry --docker-server={registry}`, or with `docker login` \
                 without a credential store"
            ))
        };
        let DockerConfig { auths } = serde_json::from_slice(text)
            .map_err(|_| refused("the logins are not JSON of the form of Docker"))?;
        let logins = auths.iter().filter_map(|(name, login)| Some((precedence(name, repository)?, login)));
        let login = logins.min_by_key(|(precedence, _)| *precedence).map(|(_, login)| login);
        match login.ok_or_else(|| refused("there is no login of this registry"))? {
            DockerLogin { username: Some(user), password: Some(password), .. } => {
                Ok(Self { text: format!("{user}:{password}") })
            }
            DockerLogin { auth: Some(auth), .. } if !auth.is_empty() => {
                let text = BASE64_STANDARD.decode(auth).ok().and_then(|bytes| String::from_utf8(bytes).ok());
                let text = text.filter(|text| text.contains(':'));
                let text = text.ok_or_else(|| refused("the login is not base64 of user:password"))?;
                Ok(Self { text })
            }
            DockerLogin { identitytoken: Some(_), .. } => {
                Err(refused("the login is an identity token, which is not supported"))
            }
            _ => Err(refused("the login has no user and password")),
        }
    }

    /// The value of the header `Authorization`.
    pub(crate) fn basic(&self) -> String {
        format!("Basic {}", BASE64_STANDARD.encode(&self.text))
    }
}

/// The precedence of a login's name for a repository, of which the least is taken; none for a name of other repositories.
fn precedence<'a>(name: &'a str, repository: &OciRepository) -> Option<(Reverse<usize>, &'a str, bool)> {
    // Some write the registry as a URL.
    let url = name.trim_start_matches("https://").trim_start_matches("http://");
    let (host, path) = url.split_once('/').unwrap_or((url, ""));
    let path = path.trim_end_matches('/');
    let is_in_path =
        || repository.name().strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let length = match path {
        "" | "v1" | "v2" => 0,
        _ if is_in_path() => path.len(),
        _ => return None,
    };
    (host == repository.registry()).then_some((Reverse(length), path, name != host))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The repository `team/web` of a registry.
    fn repository(registry: &str) -> OciRepository {
        OciRepository::parse_tagged(&format!("oci://{registry}/team/web")).unwrap().0
    }

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
            ("e.example", "an identity token"),
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
            let auths: BTreeMap<_, _> = names
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
