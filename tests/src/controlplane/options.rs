//! [`Options`] of a control plane, and the flags they become.

use super::binary;

/// Which API server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Server {
    /// The real kube-apiserver on etcd.
    #[default]
    Real,
    /// The development server, `pilothouse-devserver`.
    Development,
}

impl Server {
    /// Fails when this machine cannot run it.
    ///
    /// # Errors
    /// [`MissingTool`](crate::tools::MissingTool), of the real server.
    pub fn require(self) -> anyhow::Result<()> {
        match self {
            Server::Real => binary::require(),
            Server::Development => Ok(()),
        }
    }

    /// As [`Server::test`], at full length only.
    ///
    /// # Errors
    /// That of the test.
    pub fn test_in_full(self, test: impl FnOnce(Server) -> anyhow::Result<()>) -> anyhow::Result<()> {
        crate::full::only(|| self.test(test))
    }

    /// Runs a test on it, or skips the test where this machine cannot run it or another tool that the test asks for.
    ///
    /// # Errors
    /// That of the test.
    pub fn test(self, test: impl FnOnce(Server) -> anyhow::Result<()>) -> anyhow::Result<()> {
        crate::or_skip(|| {
            // At the start: what is shared keeps the text of its error only.
            self.require()?;
            test(self)
        })
    }
}

/// Runs tests on both API servers: for each function `fn NAME(server: Server) -> anyhow::Result<()>` a module of that name
/// with two tests. Behind `full:` those that run at full length only.
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

/// Runs tests on the real API server alone: for each function `fn NAME() -> anyhow::Result<()>` a module of that name with one
/// test. Behind `full:` those that run at full length only.
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

/// How a control plane is started; the default is what most tests want.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which API server it has.
    pub server: Server,
    /// Whether the API server serves lists and watches from its cache. Without it, a watch from a version that
    /// [`compact`](super::ControlPlane::compact) has removed is refused at once.
    pub watch_cache: bool,
    /// Makes the API server end each watch after this many seconds to twice as many, instead of half an hour to an hour.
    pub min_request_timeout: Option<u32>,
    /// The controllers of kube-controller-manager to run, by name. With `serviceaccount` among them, pods need a
    /// service account as in a real cluster; without, that check is off.
    pub controllers: Vec<String>,
    /// The API server's port, where not any will do.
    pub port: Option<u16>,
    /// Further flags of kube-apiserver, as in `--watch-cache-sizes=configmaps#0`.
    pub apiserver_flags: Vec<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            server: Server::Real,
            watch_cache: true,
            min_request_timeout: None,
            controllers: Vec::new(),
            port: None,
            apiserver_flags: Vec::new(),
        }
    }
}

impl Options {
    /// The defaults on this server.
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
