//! The web page of the admin address in a browser: what it shows, and that texts of plugins stay texts. At full length only, since
//! a browser is large.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use pilothouse_testkit::poll::SOON;
use pilothouse_testkit::tools::Tool;
use pilothouse_testkit::{full, process};
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{Cluster, ControlPlane, Host, guests, loglines, or_skip};
use serde_json::json;

/// Time of the page's clock that passes before it is looked at: three of its updates. The browser does not wait for it.
const LOOK_AFTER: &str = "--virtual-time-budget=7000";

/// Time limit of a browser, which starts slowly on a busy machine.
const BROWSER: Duration = Duration::from_secs(300);

/// A name that a manifest has, and that the host names in its error and in its log.
const HOSTILE: &str = "<img src=x onerror=document.title='taken'>";

#[test]
fn the_page_shows_plugins_caches_and_log_and_texts_of_plugins_stay_texts() -> Result<()> {
    full::only(|| {
        or_skip(|| {
            Tool::Chromium.require()?;
            page()
        })
    })
}

fn page() -> Result<()> {
    let plane = ControlPlane::shared(Server::Development)?;
    let cluster = Cluster::of(plane)?;
    cluster.namespace("page")?;
    for name in ["a", "b", "c"] {
        cluster.config_map("page", name)?;
    }
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    let wasm = guests::wasm("probe")?;
    let probe = Manifest::new("probe").reads(&["configmaps"], "page").config(json!({"namespaces": ["page"]}));
    host.install("probe", &wasm, Some(&probe.to_string()))?;
    plugins::wait_running(&host, "probe")?;
    let broken = Manifest::new("broken").with(HOSTILE, json!(1));
    host.install("broken", &wasm, Some(&broken.to_string()))?;
    let broken = plugins::wait_until(&host, "broken", "failed", |status| status.state == "failed")?;
    ensure!(broken.last_error.as_ref().is_some_and(|error| error.contains(HOSTILE)), "{broken:?}");
    host.wait_for("the plugin to work", SOON, || loglines::said(&host, "probe", "end").len() == 3)?;

    for (view, words) in [
        ("plugins", &["1 of 2 plugins running", ">probe</a>", ">running</td>", "&lt;img src=x onerror="][..]),
        (
            "plugin=probe",
            &["v1/ConfigMap to self, from page/* (3 objects)", "list,watch configmaps (core) in page"],
        ),
        ("plugin=broken", &["&lt;img src=x onerror=", "Errors"]),
        ("caches", &["<td>configmaps v1</td><td>page</td>", ">3</td>", ">synced</td>"]),
        ("log", &["event=plugin_running", "&lt;img src=x onerror="]),
    ] {
        let dom = look(&host, view)?;
        for word in words {
            ensure!(dom.contains(word), "#{view} has no {word:?}: {dom}");
        }
        ensure!(dom.contains("data-updates=\""), "#{view} was not updated: {dom}");
        ensure!(!dom.contains("<img") && dom.contains("<title>Pilothouse</title>"), "#{view}: {dom}");
    }
    Ok(())
}

/// The document of a view as a browser has it after some updates. What the browser has to complain of is an error.
fn look(host: &Host, view: &str) -> Result<String> {
    let profile = tempfile::tempdir()?;
    let mut command = Command::new("chromium");
    command.args([
        "--headless",
        "--disable-gpu",
        "--no-first-run",
        "--enable-logging=stderr",
        LOOK_AFTER,
        "--dump-dom",
    ]);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    if rustix::process::getuid().is_root() {
        // Chromium's sandbox is for other users.
        command.arg("--no-sandbox");
    }
    command.arg(format!("{}/#{view}", host.admin()));
    let finished = process::run(&mut command, "", BROWSER)?;
    ensure!(finished.status.success(), "{finished:?}");
    let complaint = finished.stderr.lines().find(|line| line.contains(":CONSOLE"));
    ensure!(complaint.is_none(), "#{view}: {complaint:?}");
    Ok(finished.stdout)
}
