//! What is asked of no resource: OpenAPI documents with any path and header, any `Host` and `Origin`, any file of objects.

use std::fs;

use http::HeaderValue;
use proptest::prelude::*;
use proptest::sample::select;

use super::Tried;
use crate::definitions::{DEFINITIONS, boats};

#[test]
fn any_request_for_openapi_is_answered() {
    let tried = Tried::new("random-openapi");
    let segment = prop_oneof![
        6 => select(&["v2", "v3", "api", "apis", "v1", "apps", "yard.test", "version", "", "..", "%2F", "%ff"][..])
            .prop_map(str::to_owned),
        1 => "[ -~&&[^?#\"<>`{}|\\\\^ ]]{0,8}",
    ];
    let query = select(
        &["", "?hash=", "?hash=0000000000000000", "?hash=%ff&hash=1", "?timeout=32s", "?&&=", "?hash=é"][..],
    );
    let header = (
        select(&["accept", "if-none-match", "accept-encoding", "range"][..]),
        prop_oneof![
            select(
                &[
                    "*/*",
                    "application/json",
                    "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
                    "\"0\"",
                    "*",
                    "gzip;q=0",
                    "application/json;q=x,;;,",
                    "W/\"a\", \"b\"",
                    "bytes=0-1"
                ][..]
            )
            .prop_map(str::to_owned),
            "[ -~]{0,20}",
        ],
    );
    let cases = (
        select(&["GET", "GET", "GET", "HEAD", "POST", "DELETE", "OPTIONS"][..]),
        prop::collection::vec(segment, 0..6),
        query,
        prop::collection::vec(header, 0..3),
    );
    tried.run(&cases, async |cluster, (method, segments, query, headers)| {
        cluster.post(DEFINITIONS, &boats()).await;
        let uri = format!("/openapi/{}{query}", segments.join("/"));
        if http::Uri::try_from(uri.as_str()).is_err() {
            return Ok(());
        }
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = cluster.send(method, &uri, &headers, "").await;
        prop_assert!(answer.code < 500, "{}", answer.code);
        if answer.code == 200 && method == "GET" {
            prop_assert!(serde_json::from_slice::<serde_json::Value>(&answer.body).is_ok());
        }
        Ok(())
    });
}

#[test]
fn foreign_hosts_and_pages_are_refused_whatever_they_are_called() {
    let tried = Tried::new("random-hosts");
    let host = prop_oneof![
        3 => select(&["localhost", "127.0.0.1", "[::1]", "LOCALHOST:1", "127.9.9.9:80", "evil.example", "localhost.evil.example", "localhost.",
            "127.0.0.1.nip.io", "0x7f000001", "[::ffff:127.0.0.1]", "a@localhost", "localhost@evil.example", "", "[", "10.0.0.1", "é"][..])
            .prop_map(str::to_owned),
        1 => "[ -~]{0,20}",
    ];
    let origin = prop_oneof![
        3 => select(&["null", "http://localhost", "https://127.0.0.1", "http://evil.example", "http://", "file:///", "localhost", "", "http://localhost:1"][..])
            .prop_map(str::to_owned),
        1 => "[ -~]{0,20}",
    ];
    let cases = (
        host,
        prop::option::of(origin),
        prop::option::of(select(&["cross-site", "same-site", "same-origin", "none", "x"][..])),
    );
    tried.run(&cases, async |cluster, (host, origin, site)| {
        let mut headers = vec![("host", host.as_str())];
        headers.extend(origin.as_deref().map(|origin| ("origin", origin)));
        headers.extend(site.map(|site| ("sec-fetch-site", site)));
        if headers.iter().any(|(_, value)| HeaderValue::try_from(*value).is_err()) {
            return Ok(());
        }
        let answer = cluster.send("GET", "/api/v1/namespaces/default/configmaps", &headers, "").await;
        prop_assert!(matches!(answer.code, 200 | 400 | 403), "{}", answer.code);
        let after_user = host.rsplit_once('@').map_or(host.as_str(), |(_, rest)| rest);
        let name = after_user
            .rsplit_once(':')
            .filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
            .map_or(after_user, |(name, _)| name);
        let is_own =
            ["localhost", "[::1]"].contains(&name.to_ascii_lowercase().as_str()) || name.starts_with("127.");
        if answer.code == 200 {
            prop_assert!(is_own && !name.ends_with(".io"), "{:?} is foreign", host);
            prop_assert!(!matches!(site, Some("cross-site" | "same-site")));
            if let Some(origin) = origin {
                prop_assert!(
                    origin.to_ascii_lowercase().ends_with(&host.to_ascii_lowercase()),
                    "{} at {}",
                    origin,
                    host
                );
            }
        }
        prop_assert_eq!(cluster.get("/readyz").await.code, 200);
        Ok(())
    });
}

#[test]
fn any_file_of_objects_is_read_or_refused() {
    let tried = Tried::new("random-files");
    let pieces = prop::collection::vec(
        select(
            &[
                "apiVersion: v1\n",
                "kind: ConfigMap\n",
                "kind: List\n",
                "kind: Namespace\n",
                "metadata: {name: a}\n",
                "metadata:\n",
                "  name: b\n",
                "items:\n",
                "- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: c}\n",
                "data: {k: v}\n",
                "data: {k: 1}\n",
                "---\n",
                "...\n",
                "# x\n",
                "%YAML 1.1\n",
                "status: {phase: x}\n",
                "&a ",
                "*a",
                "\t",
                "{",
                "]",
                "\u{0}",
                "\r\n",
                "null\n",
                "5\n",
                "<<: *a\n",
            ][..],
        ),
        0..24,
    )
    .prop_map(|pieces| pieces.concat().into_bytes());
    let files =
        prop::collection::vec(prop_oneof![4 => pieces, 1 => prop::collection::vec(any::<u8>(), 0..60)], 1..4);
    tried.run(&files, async |cluster, files| {
        let folder = tempfile::tempdir().unwrap();
        let mut paths = Vec::new();
        for (index, file) in files.iter().enumerate() {
            paths.push(folder.path().join(format!("{index}.yaml")));
            fs::write(&paths[index], file).unwrap();
        }
        // On the test's own thread: a panic would end the test.
        let (seeded, faults) = cluster.server.seed_files(&paths);
        for fault in &faults {
            prop_assert!(fault.to_string().contains(".yaml"), "{}", fault);
        }
        let again = cluster.server.seed(folder.path());
        prop_assert_eq!(again.is_err(), !faults.is_empty(), "{:?} {:?}", faults, again);
        if let Ok(again) = again {
            prop_assert_eq!((again.created, again.updated), (0, seeded.created + seeded.updated));
        }
        Ok(())
    });
}
