//! What is measured.

use std::ops::Range;
use std::time::Instant;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use pilothouse_bench::{Better, Report};

use crate::load::{Alike, Client, PODS, Server, on_clients, pod};

const RUNS: usize = 5;
const CONNECTIONS: usize = 8;
const WATCHERS: usize = 100;
const CHANGES: usize = 1_000;

/// Makes pods over several connections; each has a number.
async fn fill(server: &Server, owner: &str, numbers: Range<usize>, alike: Alike) -> Result<()> {
    let share = numbers.len().div_ceil(CONNECTIONS);
    let bodies: Vec<Bytes> = numbers.map(|number| pod(number, owner, alike)).collect();
    let address = server.address;
    let mut tasks = tokio::task::JoinSet::new();
    for bodies in bodies.chunks(share).map(<[Bytes]>::to_vec) {
        tasks.spawn(async move {
            let mut client = Client::connect(address).await?;
            for body in bodies {
                client.send("POST", PODS, body).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

/// A server, and the UID of the ReplicaSet that owns all pods.
async fn start() -> Result<(Server, String)> {
    let server = Server::start()?;
    let owner = Client::connect(server.address).await?.make_owner().await?;
    Ok((server, owner))
}

/// Creations of 3.5-KB pods.
pub(crate) fn create(report: &mut Report) -> Result<()> {
    const PODS_A_RUN: usize = 10_000;
    let (mut by_wall, mut by_cpu) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (wall, cpu) = on_clients(async {
            let (server, owner) = start().await?;
            let (cpu, began) = (server.cpu().await?, Instant::now());
            fill(&server, &owner, 0..PODS_A_RUN, Alike::Workload).await?;
            anyhow::Ok((began.elapsed(), server.cpu().await? - cpu))
        })?;
        by_wall.push(PODS_A_RUN as f64 / wall.as_secs_f64());
        by_cpu.push(PODS_A_RUN as f64 / cpu.as_secs_f64());
    }
    let size = pod(0, &"0".repeat(36), Alike::Workload).len() as f64;
    report.bound("create/size of a pod as sent", "bytes", Better::Lower, &mut [size], None);
    report.bound(
        "create/8 connections, server on one core",
        "pods/s",
        Better::Higher,
        &mut by_wall,
        Some(3_000.0),
    );
    report.bound("create/per second of the server's CPU", "pods/s", Better::Higher, &mut by_cpu, None);
    Ok(())
}

/// A list of 10,000 pods in one answer: as the host asks for it, without managed fields, and whole.
pub(crate) fn list(report: &mut Report) -> Result<()> {
    const FORMS: [(&str, &str, Option<f64>); 2] = [
        (
            "without managed fields, as the host asks",
            "application/json;drop=metadata.managedFields",
            Some(30.0),
        ),
        ("whole", "application/json", None),
    ];
    let measured = on_clients(async {
        let (server, owner) = start().await?;
        fill(&server, &owner, 0..10_000, Alike::Workload).await?;
        let mut client = Client::connect(server.address).await?;
        let mut measured = Vec::new();
        for (_, accept, _) in FORMS {
            let (mut times, mut size) = (Vec::new(), 0);
            for _ in 0..RUNS * 2 {
                let began = Instant::now();
                size = client.get(PODS, accept).await?;
                times.push(began.elapsed().as_secs_f64() * 1e3);
            }
            measured.push((times, size as f64 / 1e6));
        }
        anyhow::Ok(measured)
    })?;
    for ((form, _, aim), (mut times, mut size)) in FORMS.into_iter().zip(measured) {
        report.bound(&format!("list/10,000 pods {form}"), "ms", Better::Lower, &mut times, aim);
        report.bound(
            &format!("list/size {form}"),
            "MB",
            Better::Lower,
            std::slice::from_mut(&mut size),
            None,
        );
    }
    Ok(())
}

/// Changes of pods told to 100 watches.
pub(crate) fn fan_out(report: &mut Report) -> Result<()> {
    let (mut each, mut rate) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (cpu, wall) = on_clients(run_fan_out())?;
        let lines = (WATCHERS * CHANGES) as f64;
        each.push(cpu * 1e6 / lines);
        rate.push(lines / wall);
    }
    let what = "fanout/server's CPU per line told, 100 watches, 3.5-KB pods";
    report.bound(what, "µs", Better::Lower, &mut each, None);
    report.bound("fanout/lines told", "lines/s", Better::Higher, &mut rate, None);
    Ok(())
}

/// CPU of the server and wall clock, in seconds, of making pods under 100 watches until all were told of all.
async fn run_fan_out() -> Result<(f64, f64)> {
    let (server, owner) = start().await?;
    let mut watches = tokio::task::JoinSet::new();
    for _ in 0..WATCHERS {
        let mut client = Client::connect(server.address).await?;
        let mut body = client.begin("GET", &format!("{PODS}?watch=1"), Bytes::new()).await?.into_body();
        watches.spawn(async move {
            // The connection ends with its client.
            let _client = client;
            let mut lines = 0;
            while lines < CHANGES {
                let frame = body.frame().await.context("a watch ended")??;
                lines += frame.data_ref().map_or(0, |data| data.iter().filter(|b| **b == b'\n').count());
            }
            anyhow::Ok(())
        });
    }
    let (cpu, began) = (server.cpu().await?, Instant::now());
    fill(&server, &owner, 0..CHANGES, Alike::Workload).await?;
    while let Some(done) = watches.join_next().await {
        done??;
    }
    Ok(((server.cpu().await? - cpu).as_secs_f64(), began.elapsed().as_secs_f64()))
}

/// What an object retains.
pub(crate) fn memory(report: &mut Report) -> Result<()> {
    // What one leaves in the allocator would be the next one's.
    let mut servers = Vec::new();
    let forms = [
        ("of 200 workloads", Alike::Workload, Some(6.0)),
        ("no two with the same fields", Alike::Nothing, None),
    ];
    for (form, alike, aim) in forms {
        let (server, mut each) = on_clients(retained(alike))?;
        servers.push(server);
        let what = format!("memory/anonymous memory per 3.5-KB pod, {form}, process of server and clients");
        report.bound(&what, "KiB", Better::Lower, std::slice::from_mut(&mut each), aim);
    }
    Ok(())
}

/// A server with pods, and how many KiB it holds for each.
async fn retained(alike: Alike) -> Result<(Server, f64)> {
    const OBJECTS: usize = 40_000;
    const PART: usize = 250;
    /// Past the window of changes, whose records are there from then on.
    const BEFORE: usize = 10_000;
    let (server, owner) = start().await?;
    let mut before = 0.0;
    // In small parts, so that the clients' own memory is used again and again.
    for from in (0..BEFORE + OBJECTS).step_by(PART) {
        if from == BEFORE {
            before = anonymous()?;
        }
        fill(&server, &owner, from..from + PART, alike).await?;
    }
    let each = (anonymous()? - before) / OBJECTS as f64 / 1024.0;
    Ok((server, each))
}

/// The process's anonymous memory in bytes.
fn anonymous() -> Result<f64> {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let line =
        rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).context("no line Anonymous")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? * 1024.0)
}
