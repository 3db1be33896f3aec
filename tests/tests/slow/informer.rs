//! Informers alone, without a host, on a server that restarts and forgets: in both ways to list, at rest the store is
//! what a fresh list shows, and what the listener was told is a legal sequence.

use std::time::Duration;

use anyhow::{Result, ensure};
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::informers::{self, Informer};
use pilothouse_tests::sequence::What;
use pilothouse_tests::workload::Workload;
use pilothouse_tests::{Cluster, ControlPlane, Proxy, Signal, full};

pilothouse_tests::on_both_servers!(restarts_and_compactions_leave_nothing_out_and_nothing_behind);

const NAMESPACE: &str = "informed";
const KEYS: u64 = 40;
const WRITES: usize = 150;
const SEED: u64 = 11;
/// Backoffs of up to 30 s.
const REST: Duration = Duration::from_secs(90);

struct ProxiedInformers<'a> {
    plane: &'a ControlPlane,
    proxy: Proxy,
    runtime: tokio::runtime::Runtime,
    workload: Workload,
    /// With lists, and with streaming lists.
    informers: [Informer; 2],
}

impl ProxiedInformers<'_> {
    fn set(plane: &ControlPlane) -> Result<ProxiedInformers<'_>> {
        Cluster::of(plane)?.namespace(NAMESPACE)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let proxy = Proxy::start(plane.address())?;
        let kubeconfig = plane.kubeconfig_via(&proxy)?;
        let writer = runtime.block_on(informers::client(plane.kubeconfig()))?;
        let workload = Workload::new(writer, NAMESPACE, KEYS, full::seed(SEED)?);
        let informer = |streaming| Informer::start(&runtime, &kubeconfig, NAMESPACE, streaming);
        let informers = [informer(false)?, informer(true)?];
        Ok(ProxiedInformers { plane, proxy, runtime, workload, informers })
    }

    fn churn(&mut self) -> Result<()> {
        for _ in 0..WRITES {
            self.runtime.block_on(self.workload.write())?;
        }
        Ok(())
    }

    fn settle(&self, what: &str) -> Result<()> {
        let truth = self.runtime.block_on(self.workload.list())?;
        ensure!(truth.len() > 10, "only {} objects prove nothing", truth.len());
        for (informer, way) in self.informers.iter().zip(["lists", "streaming lists"]) {
            let began = std::time::Instant::now();
            informer.settle(&truth, REST).map_err(|error| error.context(format!("{what}, {way}")))?;
            eprintln!("{what}, {way}: {} events, right after {:?}", informer.told().len(), began.elapsed());
            let told = informer.told();
            ensure!(
                self.workload.invented(&told).is_none(),
                "{what}, {way}: {:?}",
                self.workload.invented(&told)
            );
        }
        Ok(())
    }

    /// Deletions that only a list showed, of each informer.
    fn missing(&self) -> [usize; 2] {
        let count =
            |informer: &Informer| informer.told().iter().filter(|told| told.what == What::Missing).count();
        [count(&self.informers[0]), count(&self.informers[1])]
    }

    /// The connections break; all kinds of changes are made, and nobody will ever tell of them one by one.
    fn forget(&mut self) -> Result<()> {
        self.proxy.refuse();
        self.proxy.cut();
        self.churn()?;
        self.plane.compact()?;
        // A server that has just started has nothing older in its watch cache.
        self.restart(Signal::KILL)?;
        self.proxy.heal();
        Ok(())
    }

    fn restart(&mut self, signal: Signal) -> Result<()> {
        self.plane.restart_apiserver(signal)?;
        let writer = self.runtime.block_on(informers::client(self.plane.kubeconfig()))?;
        self.workload.reconnect(writer);
        Ok(())
    }
}

fn restarts_and_compactions_leave_nothing_out_and_nothing_behind(server: Server) -> Result<()> {
    let plane = ControlPlane::start(Options::on(server))?;
    let mut both = ProxiedInformers::set(&plane)?;
    both.churn()?;
    both.settle("at first")?;

    let before = both.missing();
    both.forget()?;
    both.settle("compacted")?;
    let after = both.missing();
    ensure!(
        before.iter().zip(&after).all(|(before, after)| after > before),
        "not all had to list: {before:?} {after:?} deletions were missed"
    );

    // The history is there: no list is needed, and whatever it takes nothing is lost.
    both.restart(Signal::KILL)?;
    both.churn()?;
    both.settle("killed")?;
    both.proxy.cut();
    both.churn()?;
    both.restart(Signal::TERM)?;
    both.churn()?;
    both.settle("restarted under load")?;

    for informer in both.informers {
        informer.stop(&both.runtime)?;
    }
    Ok(())
}
