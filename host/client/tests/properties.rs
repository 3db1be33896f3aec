//! Whatever a name, a selector or a path is: it is refused before anything is sent, or reaches the server as exactly the part of the
//! request that it was given as.

use http::Method;
use pilothouse_client::{
    Client, DeleteParams, Error, ListParams, Patch, Result, RetryWatcher, WatchParams, WriteParams,
};
use pilothouse_object::ObjectKey;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tokio::runtime::Runtime;

use crate::support::{Seen, Server, client, failure, pods, soon};

const CASES: u32 = 400;

/// Calls `check` with a client and what was sent for each of many inputs.
fn for_all<T: std::fmt::Debug>(
    inputs: &impl Strategy<Value = T>,
    check: impl Fn(&Runtime, &Client, &Server, T) -> std::result::Result<(), TestCaseError>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (server, client) = runtime.block_on(async {
        let server = Server::always(404, &failure(404, "NotFound", "not here")).await;
        let client = client(&server).await;
        (server, client)
    });
    let mut runner =
        TestRunner::new(ProptestConfig { cases: CASES, failure_persistence: None, ..Default::default() });
    runner.run(inputs, |input| check(&runtime, &client, &server, input)).unwrap();
}

/// What a call sent; `None` when it was refused.
fn sent<T: std::fmt::Debug>(
    runtime: &Runtime,
    server: &Server,
    call: impl Future<Output = Result<T>>,
) -> std::result::Result<Option<Seen>, TestCaseError> {
    let before = server.seen().len();
    let result = runtime.block_on(soon(call));
    let mut seen = server.seen().split_off(before);
    match result {
        Err(Error::Request(_)) => {
            prop_assert!(seen.is_empty(), "refused, and yet sent: {seen:?}");
            Ok(None)
        }
        Err(Error::Api(status)) => {
            prop_assert_eq!((status.code, seen.len()), (404, 1));
            Ok(seen.pop())
        }
        other => Err(TestCaseError::fail(format!("{other:?}"))),
    }
}

/// Names as people have them, and such as try to be more.
fn name() -> impl Strategy<Value = String> {
    let bits = [
        "a", "web-0", ".", "..", "/", "\\", "%", "%2e", "%2F", "%00", "?", "#", "&", "=", ";", ":", "@", " ",
        "\r\n", "\u{0}", "\u{e4}", "\u{202e}",
    ];
    prop_oneof![
        prop::collection::vec(prop::sample::select(bits.to_vec()), 0..5).prop_map(|bits| bits.concat()),
        any::<String>(),
    ]
}

/// Whether a text can be a segment of a path: proxies resolve the others, also when they are encoded.
fn can_be_a_segment(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains('/')
}

/// The segments of a path, as a server decodes them.
fn segments(seen: &Seen) -> Vec<String> {
    let path = seen.uri.path();
    path.strip_prefix('/').unwrap().split('/').map(decoded).collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        rest = more;
        match (first, more) {
            (b'%', [high, low, more @ ..]) => {
                let digits = [*high, *low];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
                rest = more;
            }
            _ => bytes.push(*first),
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// The pairs of a query, as a server decodes them.
fn pairs(seen: &Seen) -> Vec<(String, String)> {
    let query = seen.uri.query().unwrap_or_default();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').map(|(n, v)| (decoded(n), decoded(v))).unwrap()).collect()
}

#[derive(Debug, Clone, Copy)]
enum Verb {
    Get,
    Create,
    Patch,
    Delete,
    Rest,
}

async fn call(client: &Client, verb: Verb, namespace: &str, name: &str, below: &str) -> Result<()> {
    let pods = pods();
    if let Verb::Rest = verb {
        let request = client.rest("", "v1").get().namespace(namespace).resource("pods").name(name);
        return request.subresource([below]).send().await.map(drop);
    }
    // What is no key cannot be asked for.
    let key = ObjectKey::new(Some(namespace), name).map_err(|error| Error::Request(error.to_string()))?;
    let write = WriteParams { subresource: Some(below.to_owned()), ..WriteParams::default() };
    match verb {
        Verb::Get => client.get(&pods, &key, Some(below)).await.map(drop),
        Verb::Patch => client.patch(&pods, &key, Patch::Merge(b"{}"), &write).await.map(drop),
        Verb::Delete => client.delete(&pods, &key, &DeleteParams::default()).await.map(drop),
        Verb::Create | Verb::Rest => {
            client.create(&pods, Some(namespace), b"{}", &WriteParams::default()).await.map(drop)
        }
    }
}

#[test]
fn a_name_is_refused_or_reaches_the_server_as_one_segment() {
    let verbs = vec![Verb::Get, Verb::Create, Verb::Patch, Verb::Delete, Verb::Rest];
    let parts = (prop::sample::select(verbs), name(), name(), name());
    for_all(&parts, |runtime, client, server, (verb, namespace, name, below)| {
        let seen = sent(runtime, server, call(client, verb, &namespace, &name, &below))?;
        let mut given = vec!["api", "v1"];
        // An empty namespace is none; only RestClient asks for a pod without one.
        if !namespace.is_empty() {
            given.extend(["namespaces", &*namespace]);
        }
        given.push("pods");
        match verb {
            Verb::Get | Verb::Patch | Verb::Rest => given.extend([&*name, &*below]),
            Verb::Delete => given.push(&name),
            Verb::Create => {}
        }
        let has_key = can_be_a_segment(&name)
            && (can_be_a_segment(&namespace) || (namespace.is_empty() && matches!(verb, Verb::Rest)));
        let good = given.iter().all(|part| can_be_a_segment(part)) && has_key;
        match seen {
            None => prop_assert!(!good, "{given:?} was refused"),
            Some(seen) => {
                prop_assert_eq!(segments(&seen), given);
                let manager = |(name, _): &(String, String)| name == "fieldManager";
                prop_assert!(pairs(&seen).iter().all(manager), "{seen:?}");
            }
        }
        Ok(())
    });
}

#[test]
fn a_selector_reaches_the_server_as_one_parameter() {
    let given = (name(), name(), name(), any::<bool>());
    for_all(&given, |runtime, client, server, (label_selector, field_selector, token, watch)| {
        let seen = sent(runtime, server, async {
            let pods = pods();
            if watch {
                let params = WatchParams {
                    label_selector: label_selector.clone(),
                    field_selector: field_selector.clone(),
                    resource_version: Some(token.clone()),
                    ..WatchParams::default()
                };
                return client.watch(&pods, None, &params).await.map(drop);
            }
            let params = ListParams {
                label_selector: label_selector.clone(),
                field_selector: field_selector.clone(),
                continue_token: Some(token.clone()),
                ..ListParams::default()
            };
            client.list_page(&pods, None, &params, &mut |_| {}).await.map(drop)
        })?;
        let Some(seen) = seen else { return Err(TestCaseError::fail("refused")) };
        prop_assert_eq!(seen.uri.path(), "/api/v1/pods");
        let third = if watch { "resourceVersion" } else { "continue" };
        let given = [("labelSelector", &label_selector), ("fieldSelector", &field_selector), (third, &token)];
        let given: Vec<_> = given
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(n, v)| ((*n).to_owned(), (*v).clone()))
            .collect();
        let mut got = pairs(&seen);
        got.retain(|(name, _)| !matches!(name.as_str(), "watch" | "allowWatchBookmarks"));
        prop_assert_eq!(got, given);
        Ok(())
    });
}

#[test]
fn a_path_is_refused_or_reaches_the_server_byte_for_byte_without_dots() {
    let path = prop::collection::vec(name(), 0..4).prop_map(|parts| format!("/{}", parts.join("/")));
    for_all(&path, |runtime, client, server, path| {
        let call = async {
            let (status, _) = client.request_raw(Method::GET, &path, None).await?;
            Err::<(), _>(Error::Api(Box::new(pilothouse_client::Status {
                code: status.as_u16(),
                ..Default::default()
            })))
        };
        if let Some(seen) = sent(runtime, server, call)? {
            prop_assert_eq!(seen.path(), &path);
            let whole = seen.uri.path().to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/");
            prop_assert!(!whole.split('/').any(|part| matches!(part, "." | "..")), "{path}");
        }
        Ok(())
    });
}

#[tokio::test]
async fn who_watches_again_does_not_try_what_cannot_be_sent() {
    let server = Server::always(404, "").await;
    let client = client(&server).await;
    let params = WatchParams { resource_version: Some("1".to_owned()), ..WatchParams::default() };
    let mut watcher = RetryWatcher::new(&client, &pods(), Some("a/b"), params).unwrap();
    let error = soon(watcher.next()).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Request(_)), "{error:?}");
    assert!(soon(watcher.next()).await.is_none());
}
