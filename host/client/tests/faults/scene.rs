//! [`Scene`]: a server with some objects, a fault, and a client that meets it.

use std::time::Duration;

use pilothouse_client::{
    ApiResource, Client, ClientOptions, DeleteParams, Error, ListParams, Patch, Result, RetryPolicy,
    RetryWatcher, WatchEvent, WatchParams, WriteParams,
};
use pilothouse_devserver::{DevServer, DevServerOptions, Fault, FaultRule, When};
use pilothouse_object::{Gvk, Object};

use tokio::time::timeout;

use super::{Sees, Then, Watched};
use crate::support::{Kubeconfig, key, soon};

/// How long the next event is waited for.
const PATIENCE: Duration = Duration::from_secs(15);

/// How requests are carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// A server, what is wrong with it, and its user.
pub(super) struct Scene {
    pub(super) server: DevServer,
    fault: Fault,
    /// Who meets the fault.
    pub(super) user: Client,
    /// Whose calls are of verbs that are not hit.
    pub(super) other: Client,
}

pub(super) fn config_maps() -> ApiResource {
    ApiResource::new(Gvk::new("", "v1", "ConfigMap"), "configmaps", true)
}

fn config_map(name: &str, value: u32) -> Vec<u8> {
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"value":"{value}"}}}}"#
    )
    .into_bytes()
}

/// What `value` of a config map is.
fn value(object: &Object) -> String {
    let json: serde_json::Value = serde_json::from_slice(object.bytes()).unwrap();
    json["data"]["value"].as_str().unwrap_or_default().to_owned()
}

/// What a result is to its user; an answer is checked by the caller.
fn sees<T>(result: Result<T>, is_new: impl FnOnce(&T) -> bool) -> Sees {
    match result {
        Ok(answer) if is_new(&answer) => Sees::Answer,
        Ok(_) => Sees::OldState,
        Err(error) => seen(&error),
    }
}

fn seen(error: &Error) -> Sees {
    match error {
        Error::Api(status) => {
            let too_large = status.code == 504 && status.message.contains("Too large resource version");
            assert_eq!(error.is_too_large_resource_version(), too_large, "{error:?}");
            Sees::Api(status.code)
        }
        Error::Transport { timeout: true, .. } => Sees::TimedOut,
        Error::Transport { .. } => Sees::Broken,
        Error::Protocol { .. } => Sees::Garbled,
        other => panic!("no error of a server: {other:?}"),
    }
}

/// Notes what is not as it should be.
fn check<T: PartialEq + std::fmt::Debug>(wrong: &mut Vec<String>, what: &str, is: &T, wanted: &T) {
    if is != wanted {
        wrong.push(format!("{what}: {is:?}, not {wanted:?}"));
    }
}

async fn client_of(server: &DevServer, protocol: Protocol, request_timeout: Duration) -> Client {
    // Some faults stay whatever is tried.
    let retry = RetryPolicy { max_retries: 1, ..RetryPolicy::default() };
    let options = ClientOptions { request_timeout, retry, ..ClientOptions::default() };
    match protocol {
        Protocol::Http1 => {
            Client::new(ClientOptions { server: Some(server.url()), ..options }).await.unwrap()
        }
        Protocol::Http2 => {
            let file = Kubeconfig::of_text(&server.kubeconfig());
            Client::new(ClientOptions { kubeconfig: Some(file.path.clone()), ..options }).await.unwrap()
        }
    }
}

impl Scene {
    /// A server with the config maps `a`, which has changed twice, and `z`.
    pub(super) async fn start(fault: &Fault, protocol: Protocol) -> Self {
        let options = DevServerOptions {
            tls: protocol == Protocol::Http2,
            // Also what lets go an event that waits for a later one to overtake it.
            bookmark_every: Duration::from_millis(50),
            ..DevServerOptions::default()
        };
        let server = DevServer::start(options).await.unwrap();
        // What never answers is waited for no longer than must be; what does may take its time.
        let patience = if *fault == Fault::HalfOpen { 1 } else { 15 };
        let user = client_of(&server, protocol, Duration::from_secs(patience)).await;
        let other = client_of(&server, protocol, Duration::from_secs(15)).await;
        let scene = Self { server, fault: fault.clone(), user, other };
        scene.make("z").await;
        scene.make("a").await;
        for n in 2..=3 {
            scene.change(&scene.other, n).await.unwrap();
        }
        scene
    }

    pub(super) async fn make(&self, name: &str) {
        let (map, write) = (config_map(name, 1), WriteParams::default());
        self.other.create(&config_maps(), Some("default"), &map, &write).await.unwrap();
    }

    async fn change(&self, client: &Client, value: u32) -> Result<Object> {
        let patch = format!(r#"{{"data":{{"value":"{value}"}}}}"#);
        let write = WriteParams::default();
        client.patch(&config_maps(), &key("default/a"), Patch::Merge(patch.as_bytes()), &write).await
    }

    async fn list(&self, client: &Client, params: &ListParams) -> Result<Vec<String>> {
        let list = client.list_all(&config_maps(), Some("default"), params).await?;
        Ok(list.items.iter().map(|object| format!("{}={}", object.name(), value(object))).collect())
    }

    fn strike(&self, verbs: &[&str], when: When) {
        let rule = FaultRule::on("", "configmaps", self.fault.clone()).when(when);
        let verbs = verbs.iter().map(|verb| (*verb).to_owned()).collect();
        self.server.faults().add(FaultRule { verbs, ..rule });
    }

    /// A call behind the fault. The time limit of a user of half-open connections is short, so that nobody waits long for what
    /// never answers; what answers may take longer on a busy machine, so it is asked again.
    async fn behind<T>(&self, mut call: impl AsyncFnMut() -> Result<T>) -> Result<T> {
        let answered = async {
            loop {
                match call().await {
                    Err(error) if self.fault == Fault::HalfOpen && seen(&error) == Sees::TimedOut => {}
                    answer => return answer,
                }
            }
        };
        soon(answered).await
    }

    /// What is wrong with gets and lists.
    pub(super) async fn reads(&self, read: Sees, second_page: Sees) -> Vec<String> {
        let mut wrong = Vec::new();
        let new = |list: &Vec<String>| list == &["a=3", "z=1"];
        let get = async || soon(self.user.get(&config_maps(), &key("default/a"), None)).await;
        let list = async |params: &ListParams| soon(self.list(&self.user, params)).await;
        let is_new = |a: &Object| value(a) == "3";
        let (whole, pages) = (ListParams::default(), ListParams { limit: 1, ..ListParams::default() });

        self.strike(&["get", "list"], When::default());
        check(&mut wrong, "get", &sees(get().await, is_new), &read);
        check(&mut wrong, "list", &sees(list(&whole).await, new), &read);
        self.server.faults().clear();
        let got = self.behind(get).await;
        check(&mut wrong, "get behind it", &sees(got, is_new), &Sees::Answer);
        let listed = self.behind(async || list(&whole).await).await;
        check(&mut wrong, "list behind it", &sees(listed, new), &Sees::Answer);

        self.strike(&["list"], When::nth(2));
        check(&mut wrong, "second page", &sees(list(&pages).await, new), &second_page);
        let listed = self.behind(async || list(&pages).await).await;
        check(&mut wrong, "pages behind it", &sees(listed, new), &Sees::Answer);
        wrong
    }

    /// What is wrong with writes, and with what was written.
    pub(super) async fn writes(&self, write: Sees, written: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        let (maps, params) = (config_maps(), WriteParams::default());
        self.strike(&["create", "update", "patch", "delete"], When::default());
        let created = soon(self.user.create(&maps, Some("default"), &config_map("new", 1), &params)).await;
        check(&mut wrong, "create", &sees(created, |_| true), &write);
        let patched = soon(self.change(&self.user, 4)).await;
        check(&mut wrong, "patch", &sees(patched, |_| true), &write);
        let is = self.names_and_values().await;
        check(
            &mut wrong,
            "create and patch wrote",
            &&*is,
            &if written { "a=4 new=1 z=1" } else { "a=3 z=1" },
        );

        let updated = soon(self.user.update(&maps, &key("default/a"), &config_map("a", 5), &params)).await;
        check(&mut wrong, "update", &sees(updated, |_| true), &write);
        let deleted = soon(self.user.delete(&maps, &key("default/z"), &DeleteParams::default())).await;
        check(&mut wrong, "delete", &sees(deleted, |_| true), &write);
        let is = self.names_and_values().await;
        check(&mut wrong, "update and delete wrote", &&*is, &if written { "a=5 new=1" } else { "a=3 z=1" });

        self.server.faults().clear();
        let changed = self.behind(async || self.change(&self.user, 6).await).await;
        check(&mut wrong, "patch behind it", &sees(changed, |a| value(a) == "6"), &Sees::Answer);
        wrong
    }

    /// What there is.
    async fn names_and_values(&self) -> String {
        soon(self.list(&self.other, &ListParams::default())).await.unwrap().join(" ")
    }

    /// Parameters of a watch that begins now, and then `b` and `c` are made.
    async fn params(&self, then: Then) -> WatchParams {
        let params = WatchParams {
            resource_version: Some(self.server.revision().to_string()),
            timeout_seconds: Some(if then == Then::Ends { 1 } else { 30 }),
            ..WatchParams::default()
        };
        self.make("b").await;
        self.make("c").await;
        params
    }

    /// What is wrong with a watch.
    pub(super) async fn watch(&self, wanted: &Watched) -> Vec<String> {
        let params = self.params(wanted.1).await;
        self.strike(&["watch"], When::default());
        let mut wrong = Vec::new();
        match soon(self.user.watch(&config_maps(), Some("default"), &params)).await {
            Err(error) => {
                check(&mut wrong, "watch", &Watched(Vec::new(), Then::Error(seen(&error))), wanted);
            }
            Ok(mut stream) => {
                let mut next = async || stream.next().await;
                let found = self.follow(&mut next, wanted.0.len()).await;
                // A connection that breaks takes along what was sent and not read yet.
                let is_cut_short = wanted.1 == Then::Error(Sees::Broken)
                    && found.1 == wanted.1
                    && wanted.0.starts_with(&found.0);
                if !is_cut_short {
                    check(&mut wrong, "watch", &found, wanted);
                }
            }
        }
        self.server.faults().clear();
        // A watch does not repeat a request that a broken connection may have carried.
        let opened = async {
            loop {
                let open = async || self.user.watch(&config_maps(), Some("default"), &params).await;
                match self.behind(open).await {
                    Err(error) if seen(&error) == Sees::Broken => {}
                    opened => return opened,
                }
            }
        };
        let mut stream = soon(opened).await.unwrap();
        for name in ["b", "c"] {
            let event = loop {
                match soon(stream.next()).await {
                    Some(Ok(WatchEvent::Bookmark { .. })) => {}
                    other => break other,
                }
            };
            if !matches!(&event, Some(Ok(WatchEvent::Added(object))) if object.name() == name) {
                wrong.push(format!("watch behind it: {event:?}, not {name}"));
            }
        }
        wrong
    }

    /// What is wrong with a `RetryWatcher`.
    pub(super) async fn retry_watcher(&self, wanted: &Watched) -> Vec<String> {
        // A watch that shows nothing is to end soon, so that the next one comes.
        let silent = if self.fault == Fault::Silent { Then::Ends } else { wanted.1 };
        let params = self.params(silent).await;
        self.strike(&["watch"], When::first(1));
        let mut watcher = RetryWatcher::new(&self.user, &config_maps(), Some("default"), params).unwrap();
        let mut next = async || watcher.next().await;
        let mut wrong = Vec::new();
        check(&mut wrong, "retry watcher", &self.follow(&mut next, wanted.0.len()).await, wanted);
        wrong
    }

    /// So many events of a watch, and what is behind them.
    async fn follow(
        &self,
        next: &mut impl AsyncFnMut() -> Option<Result<WatchEvent>>,
        count: usize,
    ) -> Watched {
        let (mut events, mut made) = (Vec::new(), false);
        loop {
            if events.len() >= count && !std::mem::replace(&mut made, true) {
                // Where nothing more comes, this is made in vain.
                self.make("d").await;
            }
            let Ok(event) = timeout(PATIENCE, next()).await else { return Watched(events, Then::Nothing) };
            match event {
                Some(Ok(WatchEvent::Bookmark { .. })) => {}
                Some(Ok(WatchEvent::Added(object))) if object.name() == "d" => {
                    return Watched(events, Then::GoesOn);
                }
                Some(Ok(WatchEvent::Added(object))) => events.push(object.name().to_owned()),
                Some(Ok(other)) => panic!("nothing else happened: {other:?}"),
                Some(Err(error)) => {
                    assert!(next().await.is_none(), "an error ends it");
                    return Watched(events, Then::Error(seen(&error)));
                }
                None => return Watched(events, Then::Ends),
            }
        }
    }
}
