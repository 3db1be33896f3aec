//! [`Target`]: what a path names, by the rules of the API's paths.

use percent_encoding::percent_decode_str;

/// What a request is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// The path began with `watch/`, as old clients write it.
    pub(crate) old_watch: bool,
}

/// A path of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Path {
    /// `/version`, `/healthz`, `/_faults` …: the decoded segments.
    Other(Vec<String>),
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1` or `/apis/GROUP/VERSION`
    Resources { group: String, version: String },
    /// Objects.
    Target(Target),
}

impl Path {
    /// Reads a path; `None` when it is of no form that the server knows, or names what no object can be named.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let mut segments = Vec::new();
        for segment in path.trim_matches('/').split('/') {
            segments.push(percent_decode_str(segment).decode_utf8().ok()?.into_owned());
        }
        let bad = |s: &String| s == "." || s == ".." || s.contains('/') || s.contains('%');
        if segments.iter().any(bad) || path.contains("//") {
            return None;
        }
        let rest = segments.get(1..).unwrap_or_default();
        match segments[0].as_str() {
            "api" => match rest {
                [] => Some(Self::CoreVersions),
                [version] => Some(Self::Resources { group: String::new(), version: version.clone() }),
                [version, rest @ ..] => target("", version, rest).map(Self::Target),
            },
            "apis" => match rest {
                [] => Some(Self::Groups),
                [group] => Some(Self::Group(group.clone())),
                [group, version] => Some(Self::Resources { group: group.clone(), version: version.clone() }),
                [group, version, rest @ ..] => target(group, version, rest).map(Self::Target),
            },
            _ => Some(Self::Other(segments)),
        }
    }
}

fn target(group: &str, version: &str, segments: &[String]) -> Option<Target> {
    let (old_watch, segments) = match segments {
        [watch, rest @ ..] if watch == "watch" && !rest.is_empty() => (true, rest),
        all => (false, all),
    };
    let (namespace, segments) = match segments {
        // What stands behind a namespace's name is a resource in it, except its own parts.
        [namespaces, namespace, rest @ ..]
            if namespaces == "namespaces" && !rest.is_empty() && !is_part_of_namespace(rest) =>
        {
            (Some(namespace.clone()), rest)
        }
        all => (None, all),
    };
    let (resource, name, subresource) = match segments {
        [resource] => (resource, None, None),
        [resource, name] => (resource, Some(name.clone()), None),
        // What stands behind `proxy` is a path of its own.
        [resource, name, parts @ ..] => (resource, Some(name.clone()), Some(parts.join("/"))),
        [] => return None,
    };
    Some(Target {
        group: group.to_owned(),
        version: version.to_owned(),
        resource: resource.clone(),
        namespace,
        name,
        subresource,
        old_watch,
    })
}

fn is_part_of_namespace(segments: &[String]) -> bool {
    matches!(segments, [part] if part == "status" || part == "finalize")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> String {
        match Path::parse(path) {
            Some(Path::Target(t)) => format!(
                "{}/{} {} ns={} name={} sub={}{}",
                t.group,
                t.version,
                t.resource,
                t.namespace.unwrap_or_default(),
                t.name.unwrap_or_default(),
                t.subresource.unwrap_or_default(),
                if t.old_watch { " watch" } else { "" },
            ),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn paths_of_objects() {
        for (path, expected) in [
            ("/api/v1/pods", "/v1 pods ns= name= sub="),
            ("/api/v1/namespaces", "/v1 namespaces ns= name= sub="),
            ("/api/v1/namespaces/a", "/v1 namespaces ns= name=a sub="),
            ("/api/v1/namespaces/a/status", "/v1 namespaces ns= name=a sub=status"),
            ("/api/v1/namespaces/a/finalize", "/v1 namespaces ns= name=a sub=finalize"),
            ("/api/v1/namespaces/a/pods", "/v1 pods ns=a name= sub="),
            ("/api/v1/namespaces/a/pods/b/log", "/v1 pods ns=a name=b sub=log"),
            ("/apis/apps/v1/namespaces/a/deployments/b/scale", "apps/v1 deployments ns=a name=b sub=scale"),
            (
                "/apis/rbac.x/v1/clusterroles/system%3Aadmin/",
                "rbac.x/v1 clusterroles ns= name=system:admin sub=",
            ),
            ("/api/v1/watch/namespaces/a/pods", "/v1 pods ns=a name= sub= watch"),
            ("/api/v1/nodes/n/proxy/a/b", "/v1 nodes ns= name=n sub=proxy/a/b"),
        ] {
            assert_eq!(of(path), expected, "{path}");
        }
    }

    #[test]
    fn paths_that_name_nothing() {
        for path in [
            "/api/v1/pods/..",
            "/api/v1//pods",
            "/api/v1/pods/a%2Fb",
            "/api/v1/pods/a%25",
            "/api/v1/pods/%ff",
        ] {
            assert_eq!(Path::parse(path), None, "{path}");
        }
    }
}
