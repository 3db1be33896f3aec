//! WASI with minimal capabilities: clocks, random numbers, and standard output and error into the plugin's log. The
//! environment and the arguments are empty. `wasi:filesystem` and `wasi:sockets` are linked, since the runtimes of Python and
//! JavaScript import them, and give nothing: there is no folder to open, and no socket is made and no name is resolved.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::AsyncWrite;
use wasmtime::component::Linker;
use wasmtime_wasi::WasiCtx;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::{HostMonotonicClock, HostWallClock};

use crate::host::{HostImports, LogLevel, RandomSource, System};
use crate::state::{CurrentCall, StoreState};

/// Maximum number of random bytes in one call of the import.
const MAX_RANDOM: u64 = 64 << 10;

/// Maximum length in bytes of a logged line of standard output; the rest of a longer line is dropped.
const MAX_LINE: usize = 8 << 10;

pub(crate) fn add_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)
}

pub(crate) fn context(
    host: &Arc<dyn HostImports>,
    call: &CurrentCall,
    system: Option<&Arc<dyn System>>,
) -> WasiCtx {
    let stream = |level| LogStream { host: Arc::clone(host), call: call.clone(), level };
    // The defaults are said again: they are what keeps a guest from files and the network.
    let mut context = WasiCtx::builder();
    context
        .stdout(stream(LogLevel::Info))
        .stderr(stream(LogLevel::Error))
        .max_random_size(MAX_RANDOM)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false);
    if let Some(system) = system {
        let random = |source| Random { system: Arc::clone(system), source };
        context
            .wall_clock(WallClock(Arc::clone(system)))
            .monotonic_clock(MonotonicClock(Arc::clone(system)))
            .secure_random(random(RandomSource::Secure))
            .insecure_random(random(RandomSource::Insecure))
            .insecure_random_seed(system.seed());
    }
    context.build()
}

struct WallClock(Arc<dyn System>);

impl HostWallClock for WallClock {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        self.0.wall_clock()
    }
}

struct MonotonicClock(Arc<dyn System>);

impl HostMonotonicClock for MonotonicClock {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        u64::try_from(self.0.monotonic_clock().as_nanos()).unwrap_or(u64::MAX)
    }
}

struct Random {
    system: Arc<dyn System>,
    source: RandomSource,
}

impl rand::TryRng for Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.system.random(self.source, &mut bytes);
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.system.random(self.source, &mut bytes);
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.system.random(self.source, bytes);
        Ok(())
    }
}

/// Standard output or standard error of a guest: each line becomes a line of the plugin's log, with the context of the
/// running call.
#[derive(Clone)]
struct LogStream {
    host: Arc<dyn HostImports>,
    call: CurrentCall,
    level: LogLevel,
}

impl IsTerminal for LogStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for LogStream {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(LineWriter { log: self.clone(), line: Vec::new() })
    }

    // The default implementation writes in a separate task. A panic message would then be logged after its trap.
    fn p2_stream(&self) -> Box<dyn wasmtime_wasi::p2::OutputStream> {
        Box::new(LineWriter { log: self.clone(), line: Vec::new() })
    }
}

struct LineWriter {
    log: LogStream,
    line: Vec<u8>,
}

impl LineWriter {
    fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                self.flush_line();
            } else if self.line.len() < MAX_LINE {
                self.line.push(byte);
            }
        }
    }

    fn flush_line(&mut self) {
        if !self.line.is_empty() {
            let text = String::from_utf8_lossy(&self.line);
            self.log.host.log(&self.log.call.get(), self.log.level, &text, &[]);
            self.line.clear();
        }
    }
}

impl Drop for LineWriter {
    fn drop(&mut self) {
        self.flush_line();
    }
}

impl wasmtime_wasi::p2::OutputStream for LineWriter {
    fn write(&mut self, bytes: bytes::Bytes) -> wasmtime_wasi::p2::StreamResult<()> {
        self.push(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> wasmtime_wasi::p2::StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> wasmtime_wasi::p2::StreamResult<usize> {
        Ok(MAX_LINE)
    }
}

#[wasmtime_wasi::async_trait]
impl wasmtime_wasi::p2::Pollable for LineWriter {
    async fn ready(&mut self) {}
}

impl AsyncWrite for LineWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.push(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
