//! What a plugin may do: what its manifest does not grant is refused by the host before anything goes on the wire, and
//! what it does grant is done as the service account that the manifest names.
//!
//! The proof is the API server's own record of the requests it got, not what the host believes. All guests are probes
//! that reach for an object in every way there is (`snoop`).

use std::collections::BTreeMap;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, ensure};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::audit::Event;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::loglines::{self, Line};
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{Audit, Cluster, Host, guests};
use serde_json::json;

pilothouse_tests::on_both_servers!(
    what_is_not_granted_is_refused_and_never_reaches_the_wire,
    a_grant_for_reading_or_for_one_name_is_no_more_than_that,
    a_host_may_insist_on_service_accounts,
    live_calls_keep_to_the_rate_of_the_manifest,
);

pilothouse_tests::on_the_real_server!(live_calls_are_made_as_the_service_account_of_the_manifest);

/// What `snoop` does, with the API's verb and the resource's suffix in each case.
const CACHED: [&str; 3] = ["cache.get", "cache.list", "cache.keys"];
const LIVE: [(&str, &str, &str); 9] = [
    ("client.get", "get", ""),
    ("client.list", "list", ""),
    ("client.create", "create", ""),
    ("client.update", "update", ""),
    ("client.update-status", "update", "/status"),
    ("client.patch-merge", "patch", ""),
    ("client.patch-json", "patch", ""),
    ("client.apply", "patch", ""),
    ("client.delete", "delete", ""),
];
const ALL_VERBS: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];

/// The control plane of this suite on a server.
fn audit(server: Server) -> Result<&'static Audit> {
    static AUDITS: [OnceLock<Result<Audit, String>>; 2] = [const { OnceLock::new() }; 2];
    let started =
        AUDITS[server as usize].get_or_init(|| Audit::start(server).map_err(|error| format!("{error:#}")));
    started.as_ref().map_err(|error| anyhow!("the control plane: {error}"))
}

/// The manifest of a probe that watches the ConfigMaps of a namespace and reaches for a target.
fn snoop(name: &str, namespace: &str, kind: &str, key: &str) -> Manifest {
    Manifest::new(name).reads(&["configmaps"], namespace).config(json!({
        "mode": "snoop", "namespaces": [namespace], "onlyPrefix": "go", "targetKind": kind, "targetKey": key,
    }))
}

fn install(host: &Host, name: &str, manifest: &Manifest) -> Result<()> {
    host.install(name, &guests::wasm("probe")?, Some(&manifest.to_string()))?;
    plugins::wait_running(host, name).map(drop)
}

/// What came of the last whole `snoop` of a plugin, by call.
fn last_outcomes(host: &Host, plugin: &str) -> Option<BTreeMap<String, Line>> {
    let lines = loglines::said(host, plugin, "snoop");
    let last = lines.iter().rfind(|line| line.field("call") == "client.delete")?.call;
    Some(
        lines
            .into_iter()
            .filter(|line| line.call == last)
            .map(|line| (line.field("call").to_owned(), line))
            .collect(),
    )
}

fn wait_for_outcomes(host: &Host, plugin: &str) -> Result<BTreeMap<String, Line>> {
    let outcomes =
        host.wait_for(&format!("{plugin} to have tried all"), SOON, || last_outcomes(host, plugin))?;
    assert_eq!(outcomes.len(), CACHED.len() + LIVE.len(), "{outcomes:?}");
    Ok(outcomes)
}

/// Checks that each live call was refused by the host itself, naming the missing grant.
fn all_refused(outcomes: &BTreeMap<String, Line>, resource: &str) {
    let (plural, group) = resource.split_at(resource.find('.').unwrap_or(resource.len()));
    for (call, verb, suffix) in LIVE {
        let line = &outcomes[call];
        // An answer of the server has a code.
        assert_eq!((line.field("reason"), line.field("code")), ("forbidden", "0"), "{call}: {line:?}");
        let message = line.field("message");
        for words in [
            format!("no permission to {verb} {plural}{suffix}{group}"),
            "add to spec.permissions of the plugin's manifest".to_owned(),
            format!("verbs: [\"{verb}\"]"),
        ] {
            assert!(message.contains(&words), "{call} says nothing of {words:?}: {message}");
        }
    }
}

/// A write: verb, resource, namespace, and the code of an error.
type Write = (String, String, String, Option<u64>);

/// The writes in the server's audit, sorted.
fn writes(events: &[Event]) -> Vec<Write> {
    let ended = events.iter().filter(|event| event.stage == "ResponseComplete");
    let writes = ended.filter(|event| ["create", "update", "patch", "delete"].contains(&&*event.verb));
    let mut writes: Vec<Write> = writes
        .map(|event| {
            let object = event.object_ref.clone().unwrap_or_default();
            let code = event.response_status.map(|response| u64::from(response.code));
            (event.verb.clone(), object.resource, object.namespace, code.filter(|code| *code >= 400))
        })
        .collect();
    writes.sort();
    writes
}

/// The target of the lines of the host's audit.
const AUDIT: &str = "pilothouse::audit";

/// The writes in the host's audit, all of which are of the plugin `granted`, sorted.
fn audited_writes(host: &Host) -> Result<Vec<Write>> {
    let mut writes = Vec::new();
    for line in host.log().matching(AUDIT) {
        ensure!(!line.contains("hunter2"), "{line}");
        let line: serde_json::Value = serde_json::from_str(&line)?;
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        ensure!(text("plugin") == "granted" && text("key") == "snoopers/go", "{line}");
        let verb = if text("verb") == "apply" { "patch".to_owned() } else { text("verb") };
        writes.push((verb, text("resource"), text("namespace"), line["code"].as_u64()));
    }
    writes.sort();
    Ok(writes)
}

fn what_is_not_granted_is_refused_and_never_reaches_the_wire(server: Server) -> Result<()> {
    let (audit, namespace) = (audit(server)?, "snoopers");
    let cluster = Cluster::of(audit.plane())?;
    cluster.namespace(namespace)?;
    cluster.namespace("vault")?;
    cluster.config_map("vault", "target")?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": "target"},
        "stringData": {"password": "hunter2"},
    });
    cluster.create(&secret)?;
    let mut options = HostOptions::new(audit.plane().kubeconfig());
    options.env.push(("RUST_LOG".to_owned(), format!("info,{AUDIT}=debug")));
    let host = Host::start(options)?;

    // Not granted at all: a kind of a group that it has other grants in, one of another group, one without namespaces.
    // Granted in another namespace, for another name, for reading only.
    let target = "snoopers/target";
    let secrets = |name| snoop(name, namespace, "v1/Secret", target);
    let refused = [
        ("secret", secrets("secret"), "secrets"),
        ("group", snoop("group", namespace, "apps/v1/Deployment", target), "deployments.apps"),
        ("node", snoop("node", namespace, "v1/Node", "target"), "nodes"),
        ("vault", snoop("vault", namespace, "v1/ConfigMap", "vault/target"), "configmaps"),
        ("elsewhere", secrets("elsewhere").grant(&["secrets"], &ALL_VERBS, &["vault"]), "secrets"),
    ];
    for (name, manifest, _) in &refused {
        install(&host, name, manifest)?;
    }
    // And one that may do it all: it shows that such calls would be on record.
    install(
        &host,
        "granted",
        &secrets("granted").grant(&["secrets", "secrets/status"], &ALL_VERBS, &[namespace]),
    )?;

    cluster.config_map(namespace, "go")?;
    for (name, _, resource) in &refused {
        let outcomes = wait_for_outcomes(&host, name)?;
        all_refused(&outcomes, resource);
        // The one kind that it watches is hidden outside of its namespaces; of others there is no cache at all.
        let (reason, words) = match *name {
            "vault" => ("forbidden", "no permission to "),
            _ => ("not-watched", "add it to `watches` of the descriptor"),
        };
        for call in CACHED {
            let line = &outcomes[call];
            assert_eq!(line.field("reason"), reason, "{name}: {line:?}");
            assert!(line.field("message").contains(words), "{name}: {line:?}");
        }
    }
    let allowed = wait_for_outcomes(&host, "granted")?;
    assert_eq!(allowed["client.get"].field("reason"), "ok", "{:?}", allowed["client.get"]);

    let sent = audit.of_plugin("granted")?;
    for (call, verb, _) in LIVE {
        assert!(sent.iter().any(|event| event.verb == verb), "{call} is not on record: {sent:?}");
    }
    for (name, ..) in &refused {
        assert_eq!(audit.of_plugin(name)?, [], "{name} was refused, and yet this went on the wire");
    }
    // The host's own audit of writes has what the server's has, and nothing of those that were refused.
    host.wait_for("both audits to have the same writes", SOON, || {
        let (ours, theirs) = (audited_writes(&host)?, writes(&audit.of_plugin("granted")?));
        ensure!(ours == theirs, "ours {ours:?}, the server's {theirs:?}");
        anyhow::Ok(!ours.is_empty())
    })?;
    // Nor did the host ask for it under its own name or another's.
    let of_host = |event: &Event| {
        event.user_agent.starts_with("pilothouse/") && !event.user_agent.ends_with("(granted)")
    };
    for event in audit.events()?.iter().filter(|event| of_host(event)) {
        let object = event.object_ref.clone().unwrap_or_default();
        let secret = ["secrets", "deployments", "nodes"].contains(&object.resource.as_str());
        assert!(!secret && object.namespace != "vault", "{event:?}");
    }
    Ok(())
}

fn a_grant_for_reading_or_for_one_name_is_no_more_than_that(server: Server) -> Result<()> {
    let (audit, namespace) = (audit(server)?, "narrow");
    let cluster = Cluster::of(audit.plane())?;
    cluster.namespace(namespace)?;
    cluster.config_map(namespace, "target")?;
    let host = Host::start(HostOptions::new(audit.plane().kubeconfig()))?;
    // It may read all that it reaches for, from the cache too, and write something else.
    let names = json!({
        "groups": [""], "resources": ["configmaps"], "verbs": ["*"], "namespaces": [namespace], "names": ["other"],
    });
    let read = json!({
        "groups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"], "namespaces": [namespace],
    });
    let manifest =
        snoop("reader", namespace, "v1/ConfigMap", "narrow/target").with("permissions", json!([read, names]));
    install(&host, "reader", &manifest)?;
    cluster.config_map(namespace, "go")?;
    let outcomes = wait_for_outcomes(&host, "reader")?;
    for call in CACHED.into_iter().chain(["client.get", "client.list"]) {
        assert_eq!(outcomes[call].field("reason"), "ok", "{:?}", outcomes[call]);
    }
    for (call, verb, _) in &LIVE[2..] {
        let line = &outcomes[*call];
        assert_eq!((line.field("reason"), line.field("code")), ("forbidden", "0"), "{line:?}");
        assert!(line.field("message").contains(&format!("no permission to {verb} configmaps")), "{line:?}");
    }
    let mut sent: Vec<String> = audit.of_plugin("reader")?.into_iter().map(|event| event.verb).collect();
    sent.sort();
    sent.dedup();
    assert_eq!(sent, ["get", "list"], "what was refused went on the wire");
    let target = cluster.get("v1/ConfigMap", namespace, "target")?.context("it was deleted")?;
    assert_eq!(target["metadata"].get("labels"), None, "it was changed");
    Ok(())
}

fn live_calls_keep_to_the_rate_of_the_manifest(server: Server) -> Result<()> {
    let (audit, namespace) = (audit(server)?, "paced");
    let cluster = Cluster::of(audit.plane())?;
    cluster.namespace(namespace)?;
    let host = Host::start(HostOptions::new(audit.plane().kubeconfig()))?;
    // One call, and the next after 50 s, which is longer than a reconcile may take.
    let limits = json!({"apiQPS": 0.02, "callTimeout": "3s"});
    for (name, limits) in [("slow", limits), ("swift", json!({"apiQPS": 1000}))] {
        let manifest = snoop(name, namespace, "v1/ConfigMap", "paced/target").limits(limits);
        install(
            &host,
            name,
            &manifest.grant(&["configmaps", "configmaps/status"], &ALL_VERBS, &[namespace]),
        )?;
    }
    cluster.config_map(namespace, "go")?;
    wait_for_outcomes(&host, "swift")?;
    let failed = [("controller", "slow")];
    host.wait_for("the slow plugin's reconcile to fail", SOON, || {
        let errors = host.metrics().ok()?.sum("controller_runtime_reconcile_errors_total", &failed);
        errors.filter(|errors| *errors > 0.0)
    })?;
    // Nine calls each; a reconcile that was cut is tried again and gets no turn either.
    let answered = |plugin| -> Result<usize> {
        let events = audit.of_plugin(plugin)?;
        Ok(events.iter().filter(|event| event.stage == "ResponseComplete").count())
    };
    assert_eq!(answered("slow")?, 1);
    assert!(answered("swift")? >= LIVE.len());
    let metrics = host.metrics()?;
    let turns = metrics.sum("rest_client_rate_limiter_duration_seconds_count", &[]);
    assert!(turns >= Some(LIVE.len() as f64 + 1.0), "{turns:?}");
    Ok(())
}

/// On the real server alone: the development server has no rules of access yet.
fn live_calls_are_made_as_the_service_account_of_the_manifest() -> Result<()> {
    const ACCOUNT: &str = "system:serviceaccount:acting:robot";

    let (audit, namespace) = (audit(Server::Real)?, "acting");
    let cluster = Cluster::of(audit.plane())?;
    cluster.namespace(namespace)?;
    let host = Host::start(HostOptions::new(audit.plane().kubeconfig()))?;
    let bind = |binding: &str, role: &str| {
        let account = format!("--serviceaccount={namespace}:robot");
        audit.plane().kubectl(&["create", "rolebinding", binding, role, &account, "-n", namespace])
    };
    let reads = ["--verb=get,list,watch", "--resource=configmaps", "-n", namespace];
    audit.plane().kubectl(&[&["create", "role", "reader"], reads.as_slice()].concat())?;
    bind("reader", "--role=reader")?;
    host.wait_for("the role to count", SOON, || {
        let ask = ["auth", "can-i", "watch", "configmaps", "-n", namespace, "--as", ACCOUNT];
        audit.plane().kubectl(&ask).map(|answer| answer.trim() == "yes")
    })?;
    let mut manifest = snoop("robot", namespace, "v1/ConfigMap", "acting/target")
        .grant(&["configmaps", "configmaps/status"], &ALL_VERBS, &[namespace])
        .with("serviceAccount", json!({"namespace": namespace, "name": "robot"}));
    install(&host, "robot", &manifest)?;
    cluster.config_map(namespace, "go")?;

    // The host grants it all, the cluster no writes yet; that is the server's answer, not the host's.
    let outcomes = wait_for_outcomes(&host, "robot")?;
    for (call, verb, _) in LIVE {
        let line = &outcomes[call];
        if ["get", "list"].contains(&verb) {
            assert_ne!(line.field("code"), "403", "{line:?}");
            continue;
        }
        assert_eq!((line.field("reason"), line.field("code")), ("Forbidden", "403"), "{line:?}");
        assert!(line.field("message").contains(ACCOUNT), "{line:?}");
    }
    // Its end is written down when the answer is out.
    let done: Vec<Event> = host.wait_for("all calls on record", SOON, || {
        let mut done = audit.of_plugin("robot")?;
        done.retain(|event| event.stage == "ResponseComplete");
        anyhow::Ok((done.len() >= LIVE.len()).then_some(done))
    })?;
    assert_eq!(done.len(), LIVE.len(), "{done:?}");
    for event in &done {
        let user = event.impersonated_user.as_ref().context("not impersonated")?;
        assert_eq!((user.username.as_str(), event.user.username.as_str()), (ACCOUNT, "admin"), "{event:?}");
        for group in ["system:serviceaccounts", "system:serviceaccounts:acting", "system:authenticated"] {
            assert!(user.groups.iter().any(|it| it == group), "{group} is missing: {event:?}");
        }
    }
    // The shared watch is the host's own.
    let watches = audit.events()?;
    let watch = watches.iter().find(|event| {
        event.verb == "watch" && event.object_ref.as_ref().is_some_and(|object| object.namespace == namespace)
    });
    assert_eq!(watch.context("no watch on record")?.impersonated_user, None);

    // What the account may do, the plugin may.
    bind("writer", "--clusterrole=cluster-admin")?;
    let mut turn = 0;
    let outcomes = host.wait_for("the role to count", SOON, || {
        turn += 1;
        cluster.config_map(namespace, &format!("go-{turn}"))?;
        let outcomes = last_outcomes(&host, "robot");
        anyhow::Ok(outcomes.filter(|outcomes| outcomes["client.create"].field("reason") == "ok"))
    })?;
    for call in [
        "client.list",
        "client.create",
        "client.update",
        "client.patch-merge",
        "client.patch-json",
        "client.delete",
    ] {
        assert_eq!(outcomes[call].field("reason"), "ok", "{:?}", outcomes[call]);
    }

    // And another one may not even watch: the version with it waits.
    manifest = manifest.with("serviceAccount", json!({"namespace": namespace, "name": "stranger"}));
    host.install_manifest("robot", &manifest.to_string())?;
    let words = "ServiceAccount acting/stranger may not list configmaps in namespace acting";
    let status = plugins::wait_until(&host, "robot", "waiting for a right", |status| {
        status.waiting_for.as_ref().is_some_and(|reason| reason.contains(words))
    })?;
    assert_eq!(status.generation, 1, "{status:?}");
    Ok(())
}

fn a_host_may_insist_on_service_accounts(server: Server) -> Result<()> {
    let audit = audit(server)?;
    let mut options = HostOptions::new(audit.plane().kubeconfig());
    options.args = vec!["--require-service-account".to_owned()];
    let host = Host::start(options)?;
    let manifest = snoop("nobody", "default", "v1/ConfigMap", "default/target");
    host.install("nobody", &guests::wasm("probe")?, Some(&manifest.to_string()))?;
    let status = plugins::wait_until(&host, "nobody", "refused", |status| status.state == "failed")?;
    let error = status.last_error.unwrap_or_default();
    assert!(error.contains("nobody.yaml") && error.contains("spec.serviceAccount is missing"), "{error}");

    let account = json!({"namespace": "default", "name": "somebody"});
    host.install_manifest("nobody", &manifest.with("serviceAccount", account).to_string())?;
    // With one it is not refused. The real server has rules, and none for this account.
    plugins::wait_until(&host, "nobody", "accepted", |status| match server {
        Server::Development => status.state == "running",
        Server::Real => {
            let words = "ServiceAccount default/somebody may not";
            status.waiting_for.as_ref().is_some_and(|reason| reason.contains(words))
        }
    })
    .map(drop)
}
