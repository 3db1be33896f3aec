//! Whatever comes in: no panic anywhere, an answer that a client can read, and a server that goes on.

mod apply;
mod definitions;
mod documents;
mod owners;
mod samples;

use std::sync::{Mutex, Once};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Uri};
use http_body_util::BodyExt as _;
use pilothouse_devserver::{ControllerSet, DevServerOptions};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{TestCaseError, TestError, TestRunner};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use samples::{
    ACCEPTS, DEEDS, KEYS, METHODS, OPERATIONS, PARTS, PATCHES, SEGMENTS, VALUES, part_bodies, valid,
};

use crate::client::{Answer, Cluster, SOON};
use crate::definitions::{DEFINITIONS, boats};

/// The names of threads on which a panic happened, and what it said.
static PANICS: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// Notes every panic. Other tests may panic, too: threads are told apart by their names.
fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let thread = std::thread::current().name().unwrap_or_default().to_owned();
            PANICS.lock().unwrap().push((thread, info.to_string()));
            before(info);
        }));
    });
}

/// A server on a runtime of its own, whose threads have a name of their own.
struct Tried {
    name: &'static str,
    runtime: Runtime,
    cluster: Cluster,
}

impl Tried {
    fn new(name: &'static str) -> Self {
        // What is made here at random often names owners that are not there, or is being deleted, and is to be read again.
        let controllers = ControllerSet { garbage_collector: false, pods: false, ..ControllerSet::default() };
        Self::with(name, DevServerOptions { controllers, ..DevServerOptions::default() })
    }

    fn with(name: &'static str, options: DevServerOptions) -> Self {
        watch_panics();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name(name)
            .enable_all()
            .build()
            .unwrap();
        let cluster = runtime.block_on(async { tokio::spawn(Cluster::with(options)).await.unwrap() });
        Self { name, runtime, cluster }
    }

    fn check_panics(&self) -> Result<(), TestCaseError> {
        let panics = PANICS.lock().unwrap();
        let own: Vec<&String> =
            panics.iter().filter(|(thread, _)| thread == self.name).map(|(_, text)| text).collect();
        prop_assert!(own.is_empty(), "{own:?}");
        Ok(())
    }

    fn run<S: Strategy>(
        &self,
        cases: &S,
        test: impl AsyncFn(&Cluster, S::Value) -> Result<(), TestCaseError>,
    ) {
        let config = ProptestConfig {
            cases: 256,
            max_shrink_iters: 300,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let outcome = TestRunner::new(config).run(cases, |case| {
            self.runtime.block_on(test(&self.cluster, case))?;
            self.check_panics()
        });
        match outcome {
            Ok(()) => {}
            Err(TestError::Fail(why, case)) => panic!("{why}\n{case:#?}"),
            Err(error) => panic!("{error}"),
        }
    }
}

/// A request as it is sent.
#[derive(Debug, Clone)]
struct Asked {
    /// What is made first: where, and what.
    first: Option<(&'static str, String)>,
    method: &'static str,
    uri: String,
    headers: Vec<(String, String)>,
    body: Bytes,
}

/// Values that fit nowhere.
fn junk() -> impl Strategy<Value = Value> {
    let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!({"a": [inner]}));
    prop_oneof![
        select(vec![
            json!(null),
            json!(true),
            json!(-1),
            json!(0),
            json!(1.5),
            json!(1e308),
            json!(u64::MAX),
            json!(i64::MIN),
            json!(""),
            json!("x"),
            json!("\u{0}é\u{202e}\u{1f600}"),
            json!([]),
            json!([null]),
            json!([[{}]]),
            json!({}),
            json!({"": null}),
            json!("2026-01-01T00:00:00Z"),
            json!("9999-99-99T99:99:99Z"),
            json!("9223372036854775808"),
            json!("-1"),
            json!({"matchLabels": 5}),
            json!(["a", 1, null]),
            json!("a/b/c"),
            json!("$patch"),
            json!({"$patch": "delete"}),
            json!({"$patch": "replace"}),
            json!([{"$patch": "delete"}]),
            json!("100000000000Ki"),
            json!("1e99999"),
        ]),
        Just("x".repeat(4_000).into()),
        (1_usize..130).prop_map(move |depth| nested(depth / 2)),
        "[ -~]{0,12}".prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
    ]
}

/// What is done to a valid object.
#[derive(Debug, Clone)]
enum Damage {
    Replace(Index, Value),
    Remove(Index),
    Rename(Index, String),
    Insert(Index, String, Value),
}

fn damage() -> impl Strategy<Value = Damage> {
    let name = || {
        select(
            &[
                "metadata",
                "spec",
                "status",
                "name",
                "labels",
                "finalizers",
                "resourceVersion",
                "$patch",
                "",
                "a",
            ][..],
        )
    };
    prop_oneof![
        4 => (any::<Index>(), junk()).prop_map(|(at, value)| Damage::Replace(at, value)),
        2 => any::<Index>().prop_map(Damage::Remove),
        1 => (any::<Index>(), name()).prop_map(|(at, name)| Damage::Rename(at, name.to_owned())),
        2 => (any::<Index>(), name(), junk()).prop_map(|(at, name, value)| Damage::Insert(at, name.to_owned(), value)),
    ]
}

/// The pointers of all members and elements of a tree.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    let mut each = |name: String, inner: &Value| {
        let pointer = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
        pointers(inner, &pointer, all);
        all.push(pointer);
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(name, inner)| each(name.clone(), inner)),
        Value::Array(elements) => {
            elements.iter().enumerate().for_each(|(n, inner)| each(n.to_string(), inner));
        }
        _ => {}
    }
}

fn damaged(mut object: Value, damages: Vec<Damage>) -> Value {
    for damage in damages {
        let mut all = Vec::new();
        pointers(&object, "", &mut all);
        let (Damage::Replace(at, _) | Damage::Remove(at) | Damage::Rename(at, _) | Damage::Insert(at, ..)) =
            &damage;
        if all.is_empty() {
            return object;
        }
        let pointer = at.get(&all);
        let (outer, name) = pointer.rsplit_once('/').unwrap();
        let name = name.replace("~1", "/").replace("~0", "~");
        match damage {
            Damage::Replace(_, value) => *object.pointer_mut(pointer).unwrap() = value,
            Damage::Insert(_, name, value) => {
                if let Some(Value::Object(members)) = object.pointer_mut(pointer) {
                    members.insert(name, value);
                }
            }
            Damage::Remove(_) | Damage::Rename(..) => {
                if let Some(Value::Object(members)) = object.pointer_mut(outer)
                    && let Some(value) = members.remove(&name)
                    && let Damage::Rename(_, other) = damage
                {
                    members.insert(other, value);
                }
            }
        }
    }
    object
}

/// JSON patches whose paths are those of an object.
fn json_patch(object: &Value, operations: Vec<(&'static str, Index, Index, Value)>) -> Value {
    let mut all = vec![
        "".to_owned(),
        "/a/b".to_owned(),
        "/spec/containers/-".to_owned(),
        "/spec/containers/9".to_owned(),
    ];
    pointers(object, "", &mut all);
    let operations = operations.into_iter().map(|(op, path, from, value)| {
        json!({"op": op, "path": path.get(&all), "from": from.get(&all), "value": value})
    });
    operations.collect()
}

fn query() -> impl Strategy<Value = String> {
    let pair = (
        select(&KEYS[..]),
        prop_oneof![4 => select(&VALUES[..]).prop_map(str::to_owned), 1 => "[!-~&&[^#\"<>`{}|\\\\^]]{0,10}"],
    );
    prop::collection::vec(pair, 0..4).prop_map(|pairs| {
        let pairs: Vec<String> = pairs.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        pairs.join("&")
    })
}

fn headers() -> impl Strategy<Value = Vec<(String, String)>> {
    let one = prop_oneof![
        3 => select(&ACCEPTS[..]).prop_map(|a| ("accept".to_owned(), a.to_owned())),
        1 => ("impersonate-(user|group|uid|extra-[a-z%]{0,4})", "[ -~]{0,10}"),
        1 => ("[a-z]{1,8}(-match|-encoding)?", "[ -~]{0,10}"),
        1 => ("(if-none-match|authorization|user-agent|accept)", "[ -~]{0,20}"),
    ];
    // Those say how the message itself is to be read: their damage is the raw test's.
    let framing =
        |name: &str| matches!(name, "transfer-encoding" | "te" | "upgrade" | "host" | "expect" | "trailer");
    prop::collection::vec(one, 0..3)
        .prop_map(move |headers| headers.into_iter().filter(|(name, _)| !framing(name)).collect())
}

fn body_text(value: &Value, name: &str) -> Bytes {
    value.to_string().replace("NAME", name).into()
}

/// A request that is nearly right.
fn asked() -> impl Strategy<Value = Asked> {
    let sometimes = |strategy: BoxedStrategy<String>| prop_oneof![2 => Just(String::new()), 1 => strategy];
    let of_object = (
        (select(&METHODS[..]), select(valid()), select(&["a", "b", "c"][..]), select(&DEEDS[..])),
        prop_oneof![3 => Just(""), 1 => select(&PARTS[..])],
        (prop::collection::vec(damage(), 0..4), 0..12_u8, select(part_bodies())),
        prop::collection::vec((select(&OPERATIONS[..]), any::<Index>(), any::<Index>(), junk()), 0..6),
        (
            select(&PATCHES[..]),
            prop_oneof![2 => Just(Vec::new()), 1 => headers()],
            sometimes(query().boxed()),
        ),
    )
        .prop_map(
            |(
                (method, (path, object), name, deed),
                part,
                (damages, kind, part_body),
                operations,
                (of, headers, query),
            )| {
                let first = (path, object.to_string().replace("NAME", name));
                let in_path = if path == DEFINITIONS { "boats.yard.test" } else { name };
                let uri = match (method, kind) {
                    ("POST", 0..5) => format!("{path}/{in_path}{deed}"),
                    ("GET" | "DELETE", 0..3) | ("POST", _) => path.to_owned(),
                    _ => format!("{path}/{in_path}{part}"),
                };
                let body = match kind {
                    _ if method == "PATCH" && of == "application/json-patch+json" => {
                        body_text(&json_patch(&object, operations), name)
                    }
                    0..3 => body_text(&damaged(part_body, damages), name),
                    3 if method == "GET" || method == "DELETE" => Bytes::new(),
                    4 => [b"[".repeat(3000), b"{\"a\":".repeat(3000)].concat().into(),
                    _ => body_text(&damaged(object, damages), name),
                };
                let mut headers = headers;
                headers.push((
                    "content-type".to_owned(),
                    if method == "PATCH" { of } else { "application/json" }.to_owned(),
                ));
                Asked {
                    first: Some(first).filter(|_| uri != path),
                    method,
                    uri: format!("{uri}?{query}"),
                    headers,
                    body,
                }
            },
        );
    let garbage = (
        select(&["GET", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"][..]),
        prop::collection::vec(
            prop_oneof![6 => select(&SEGMENTS[..]).prop_map(str::to_owned), 1 => "[a-zA-Z0-9%._~-]{0,8}"],
            0..7,
        ),
        (headers(), query()),
        prop::collection::vec(any::<u8>(), 0..40),
    )
        .prop_map(|(method, segments, (headers, query), body)| Asked {
            first: None,
            method,
            uri: format!("/{}?{query}", segments.join("/")),
            headers,
            body: body.into(),
        });
    prop_oneof![8 => of_object, 1 => garbage]
}

/// Whether the server says that it answers so.
fn is_documented(asked: &Asked, code: u16, message: &str) -> bool {
    let beginnings = match code {
        500 => &[
            "resourceVersion should not be set on objects to be created",
            "strconv.ParseUint: parsing",
            "target.name: Required value",
            "Internal error occurred: the spec replicas field",
            "failed to create manager for existing fields",
            "failed to create typed patch object (",
            "resourceVersion: Invalid value",
            "This pod has more than one PodDisruptionBudget",
        ][..],
        501 => &["pod \"", "node \"", "service \""],
        504 => &["Timeout: Too large resource version"],
        _ => &[],
    };
    let strategic = asked.headers.iter().any(|(_, value)| value == "application/strategic-merge-patch+json");
    // A strategic patch that contradicts itself or the type has many messages.
    beginnings.iter().any(|b| message.starts_with(b)) || (code == 500 && asked.method == "PATCH" && strategic)
}

/// Whether an answer is one that a client can read, and none that says that the server is broken: of those only the ones that
/// are known, by their message.
fn check_answer(answer: &Answer, is_known: &dyn Fn(&str) -> bool) -> Result<(), TestCaseError> {
    if answer.is_no_page() {
        return Ok(());
    }
    let read = serde_json::from_slice::<Value>(&answer.body);
    let value = read.map_err(|e| TestCaseError::fail(format!("{}: {e}: {:?}", answer.code, answer.body)))?;
    if !(200..300).contains(&answer.code) {
        prop_assert_eq!(
            (&value["kind"], &value["code"]),
            (&json!("Status"), &json!(answer.code)),
            "{}",
            value
        );
        let message = value["message"].as_str().unwrap_or_default();
        prop_assert!(!message.is_empty(), "{}", value);
        let is_expected = [
            "resourceVersion should not be set",
            "metadata.resourceVersion is not",
            "resourceVersion: Invalid value",
            "strconv.ParseUint: parsing",
        ]
        .iter()
        .any(|known| message.starts_with(known));
        prop_assert!(answer.code < 500 || is_expected || is_known(message), "{}", value);
    }
    Ok(())
}

async fn try_request(cluster: &Cluster, asked: &Asked) -> Result<(), TestCaseError> {
    if let Some((path, object)) = &asked.first {
        cluster.send("POST", path, &[("content-type", "application/json")], object.clone()).await;
    }
    let headers = asked.headers.iter().filter(|(name, value)| {
        HeaderName::try_from(name.as_str()).is_ok() && HeaderValue::try_from(value.as_str()).is_ok()
    });
    let headers: Vec<(&str, &str)> = headers.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    if Uri::try_from(format!("http://a{}", asked.uri)).is_err() {
        return Ok(());
    }
    let response = cluster.begin(asked.method, &asked.uri, &headers, asked.body.clone()).await;
    let response = response.map_err(|error| TestCaseError::fail(format!("no answer: {error:?}")))?;
    let (parts, body) = response.into_parts();
    let code = parts.status.as_u16();
    let content_type =
        parts.headers.get("content-type").map(|t| t.to_str().unwrap().to_owned()).unwrap_or_default();
    // A watch is the one answer whose end is not known.
    if code == 200 && parts.headers.get("content-length").is_none() {
        return Ok(());
    }
    let body = tokio::time::timeout(SOON, body.collect()).await.expect("a body in time");
    let body = body.map_err(|error| TestCaseError::fail(format!("half an answer: {error:?}")))?.to_bytes();
    if asked.method == "HEAD" || code == 304 || content_type.starts_with("text/plain") {
        return Ok(());
    }
    let value: Value =
        serde_json::from_slice(&body).map_err(|e| TestCaseError::fail(format!("{code}: {e}: {body:?}")))?;
    if !(200..300).contains(&code) {
        prop_assert_eq!((&value["kind"], &value["code"]), (&json!("Status"), &json!(code)), "{}", value);
        let message = value["message"].as_str().unwrap_or_default();
        prop_assert!(!message.is_empty(), "{}", value);
        prop_assert!(code < 500 || is_documented(asked, code, message), "{}", value);
    }
    Ok(())
}

/// Everything that is kept where the requests went can be listed, shown as a table and read one by one.
async fn check_objects(cluster: &Cluster, requests: &[Asked]) -> Result<(), TestCaseError> {
    let mut paths: Vec<&str> =
        valid().into_iter().map(|(path, _)| path).filter(|path| !path.contains("review")).collect();
    paths.retain(|path| {
        !path.ends_with("bindings") && requests.iter().any(|asked| asked.uri.starts_with(path))
    });
    for path in paths {
        let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
        let table = cluster.send("GET", path, &table, "").await;
        let list = cluster.get(path).await;
        // The definition of boats may be gone.
        if list.code == 404 && path.contains("boats") {
            continue;
        }
        prop_assert_eq!((table.code, list.code), (200, 200), "{}", path);
        let (table, list) = (table.json(), list.json());
        let items = list["items"].as_array().unwrap();
        prop_assert_eq!(table["rows"].as_array().unwrap().len(), items.len(), "{}", path);
        for item in items {
            let (metadata, empty) = (&item["metadata"], Map::new());
            let name = metadata["name"].as_str().unwrap_or_default();
            prop_assert!(!name.is_empty() && metadata["uid"].is_string(), "{}", item);
            if name.len() > 1000 {
                // Names of roles have no limit, but addresses have.
                continue;
            }
            let encoded = percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC);
            let one = cluster.get(&format!("{path}/{encoded}")).await;
            prop_assert_eq!(one.code, 200, "{}/{}", path, name);
            let one = one.json();
            for (field, value) in item.as_object().unwrap_or(&empty) {
                prop_assert_eq!(&one[field], value, "{}/{}: {}", path, name, field);
            }
            prop_assert!(one["kind"].is_string() && one["apiVersion"].is_string(), "{}", one);
        }
    }
    Ok(())
}

#[test]
fn random_requests_are_answered() {
    let tried = Tried::new("random-requests");
    tried.run(&prop::collection::vec(asked(), 1..12), async |cluster, requests| {
        for (path, object) in
            [(DEFINITIONS, boats()), ("/api/v1/namespaces", json!({"metadata": {"name": "default"}}))]
        {
            cluster.post(path, &object).await;
        }
        for asked in &requests {
            try_request(cluster, asked).await?;
        }
        check_objects(cluster, &requests).await
    });
}

#[test]
fn random_bytes_on_a_connection_do_no_harm() {
    let tried = Tried::new("random-bytes");
    let request = prop_oneof![
        Just("GET /api/v1/pods?watch=1 HTTP/1.1\r\nhost: a\r\n\r\n"),
        Just("POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}"),
        Just("POST /version HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
        Just("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"),
        Just("OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n"),
        Just("CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n"),
    ];
    let wounded = (request, prop::collection::vec((any::<Index>(), any::<u8>()), 0..5), any::<Index>())
        .prop_map(|(text, wounds, end)| {
            let mut bytes = text.as_bytes().to_vec();
            for (at, byte) in wounds {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(end.index(bytes.len() * 2) + 1);
            bytes
        });
    let bytes = prop_oneof![prop::collection::vec(any::<u8>(), 0..300), wounded];
    tried.run(&bytes, async |cluster, bytes| {
        let mut stream = TcpStream::connect(cluster.server.address()).await.unwrap();
        // It may be closed in the middle.
        let _ = stream.write_all(&bytes).await;
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await;
        prop_assert!(ended.is_ok(), "the server keeps a connection that has ended");
        if let Some(code) = answer.strip_prefix(b"HTTP/1.1 ") {
            prop_assert!(matches!(code[0], b'2' | b'4'), "{}", String::from_utf8_lossy(&answer));
        }
        prop_assert_eq!(cluster.get("/readyz").await.code, 200);
        Ok(())
    });
}
