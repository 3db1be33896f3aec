//! [`Options`] of a control plane, and the flags for `controlplane serve`.

use pilothouse_devserver::ControllerSet;

use crate::go_program::CONTROLPLANE;

/// The kind of API server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Server {
    /// The real kube-apiserver with etcd.
    #[default]
    Real,
    /// The development server, `pilothouse-devserver`.
    Development,
}

impl Server {
    /// Checks that this machine can run the server.
    ///
    /// # Errors
    /// [`MissingTool`](crate::tools::MissingTool), for the real server only.
    pub fn require(self) -> anyhow::Result<()> {
        match self {
            Server::Real => CONTROLPLANE.require(),
            Server::Development => Ok(()),
        }
    }

    /// As [`Server::test`], at full length only.
    ///
    /// # Errors
    /// The error of the test.
    pub fn test_in_full(self, test: impl FnOnce(Server) -> anyhow::Result<()>) -> anyhow::Result<()> {
        crate::full::only(|| self.test(test))
    }

    /// Runs a test on this server. Skips the test if a tool is missing, for the server or for the test.
    ///
    /// # Errors
    /// The error of the test.
    pub fn test(self, test: impl FnOnce(Server) -> anyhow::Result<()>) -> anyhow::Result<()> {
        crate::or_skip(|| {
            // Checked first, because the shared control plane keeps only the text of an error and not its type.
            self.require()?;
            test(self)
        })
    }
}

/// Runs tests on both API servers: for each function `fn NAME(server: Server) -> anyhow::Result<()>` it makes a module
/// of that name with two tests. The functions after `full:` run at full length only.
#[macro_export]
macro_rules! on_both_servers {
    (full: $($name:ident),+ $(,)?) => {$(
        mod $name {
            use $crate::controlplane::Server;

            #[test]
            fn on_the_real_server() -> anyhow::Result<()> {
                Server::Real.test_in_full(super::$name)
            }

            #[test]
            fn on_the_development_server() -> anyhow::Result<()> {
                Server::Development.test_in_full(super::$name)
            }
        }
    )+};
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            use $crate::controlplane::Server;

            #[test]
            fn on_the_real_server() -> anyhow::Result<()> {
                Server::Real.test(super::$name)
            }

            #[test]
            fn on_the_development_server() -> anyhow::Result<()> {
                Server::Development.test(super::$name)
            }
        }
    )+};
}

/// Runs tests on the real API server only: for each function `fn NAME() -> anyhow::Result<()>` it makes a module of
/// that name with one test. The functions after `full:` run at full length only.
#[macro_export]
macro_rules! on_the_real_server {
    (full: $($name:ident),+ $(,)?) => {$(
        mod $name {
            #[test]
            fn on_the_real_server() -> anyhow::Result<()> {
                $crate::controlplane::Server::Real.test_in_full(|_| super::$name())
            }
        }
    )+};
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[test]
            fn on_the_real_server() -> anyhow::Result<()> {
                $crate::controlplane::Server::Real.test(|_| super::$name())
            }
        }
    )+};
}

/// The options of a control plane; most tests use the default.
#[derive(Debug, Clone)]
pub struct Options {
    /// The kind of API server.
    pub server: Server,
    /// Whether the API server serves lists and watches from its watch cache. Without the cache, a watch from a version
    /// that [`compact`](super::ControlPlane::compact) has removed is refused at once.
    pub watch_cache: bool,
    /// Minimum lifetime of a watch in seconds: the API server ends each watch after one to two times this value. The
    /// default is half an hour.
    pub min_request_timeout: Option<u32>,
    /// The controllers of kube-controller-manager to run, by name. With `serviceaccount`, pods need a service account
    /// as in a real cluster; otherwise that check is off.
    pub controllers: Vec<String>,
    /// The controllers of the development server itself; the real server has none of these.
    pub development_controllers: ControllerSet,
    /// The port of the API server; by default a free one.
    pub port: Option<u16>,
    /// Further flags of kube-apiserver, such as `--watch-cache-sizes=configmaps#0`.
    pub apiserver_flags: Vec<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            server: Server::Real,
            watch_cache: true,
            min_request_timeout: None,
            controllers: Vec::new(),
            development_controllers: ControllerSet::default(),
            port: None,
            apiserver_flags: Vec::new(),
        }
    }
}

impl Options {
    /// The default options with this server.
    pub fn on(server: Server) -> Options {
        Options { server, ..Options::default() }
    }

    /// The flags of `controlplane serve`.
    pub(super) fn args(&self) -> Vec<String> {
        let mut args = vec![format!("--watch-cache={}", self.watch_cache)];
        args.extend(self.min_request_timeout.map(|seconds| format!("--min-request-timeout={seconds}")));
        args.extend(self.port.map(|port| format!("--port={port}")));
        if !self.controllers.is_empty() {
            args.push(format!("--controllers={}", self.controllers.join(",")));
        }
        args.extend(self.apiserver_flags.iter().map(|flag| format!("--apiserver-flag={flag}")));
        args
    }
}
