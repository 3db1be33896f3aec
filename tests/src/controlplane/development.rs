//! [`Development`]: runs the development server on a runtime of its own within the test process.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use pilothouse_devserver::{DevServer, DevServerOptions};
use tokio::runtime::Runtime;

use super::{Options, Place, Status};
use crate::poll;

/// Time limit until the port is free again.
const CLOSING: Duration = Duration::from_secs(10);

/// A running development server. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Development {
    server: DevServer,
    runtime: Runtime,
    running: AtomicBool,
    paused: AtomicBool,
    dir: PathBuf,
}

impl Development {
    /// Starts a server with TLS. Options with controllers are an error; flags of the real API server are ignored.
    pub(super) fn start(options: &Options, dir: PathBuf) -> anyhow::Result<(Development, Place)> {
        ensure!(options.controllers.is_empty(), "the development server runs no controllers");
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("devserver").enable_all().build()?;
        let mut started = DevServerOptions {
            tls: true,
            controllers: options.development_controllers,
            ..DevServerOptions::default()
        };
        started.listen.set_port(options.port.unwrap_or(0));
        let server = runtime.block_on(DevServer::start(started))?;
        let kubeconfig = dir.join("kubeconfig");
        fs::write(&kubeconfig, server.kubeconfig()).context("writing the kubeconfig")?;
        let place = Place {
            dir: dir.clone(),
            server: server.url(),
            kubeconfig_token: kubeconfig.clone(),
            kubeconfig,
        };
        let (running, paused) = (AtomicBool::new(true), AtomicBool::new(false));
        Ok((Development { server, runtime, running, paused, dir }, place))
    }

    pub(super) fn server(&self) -> &DevServer {
        &self.server
    }

    pub(super) fn status(&self) -> Status {
        let running = self.running.load(Ordering::Relaxed);
        let pid = std::process::id();
        Status {
            revision: self.server.revision().try_into().unwrap_or(i64::MAX),
            pid,
            apiserver_pid: if running { pid } else { 0 },
            controllers_pid: 0,
            apiserver_running: running,
            apiserver_paused: self.paused.load(Ordering::Relaxed),
        }
    }

    pub(super) fn stop(&self) -> Status {
        self.server.stop();
        self.running.store(false, Ordering::Relaxed);
        self.status()
    }

    pub(super) fn start_again(&self) -> anyhow::Result<Status> {
        // The task that holds the port may still be ending.
        poll::until("the port to be free again", CLOSING, || {
            self.runtime.block_on(self.server.start_again()).is_ok()
        })?;
        self.running.store(true, Ordering::Relaxed);
        Ok(self.status())
    }

    pub(super) fn pause(&self, paused: bool) -> Status {
        if paused {
            self.server.pause();
        } else {
            self.server.resume();
        }
        self.paused.store(paused, Ordering::Relaxed);
        self.status()
    }
}

impl Drop for Development {
    fn drop(&mut self) {
        self.server.stop();
        // A folder that cannot be removed does not fail the test.
        let _ = fs::remove_dir_all(&self.dir);
    }
}
