//! [`Socket`]: a TCP connection that can be made to fail as networks fail.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::control::{Control, Half, Mode};

/// A connection and its control. It lies below TLS, so that a fault does not say goodbye.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    control: Arc<Control>,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, control: Arc<Control>) -> Self {
        Self { stream, control }
    }

    fn reset(&self) -> io::Error {
        // Closing then sends RST and not FIN. If it fails the peer is gone already.
        let _ = self.stream.set_zero_linger();
        io::ErrorKind::ConnectionReset.into()
    }
}

impl Socket {
    /// Reads into nothing, until the other side is gone.
    fn discard(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut nowhere = [0; 4096];
        loop {
            let mut buf = ReadBuf::new(&mut nowhere);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buf) {
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => {}
                other => return other,
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // It may be dropped with its task before it was told.
        if self.control.is_reset() {
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.control.poll(Half::Read, cx) {
            Mode::Open => Pin::new(&mut self.stream).poll_read(cx, buf),
            Mode::Paused => Poll::Pending,
            Mode::Dead => self.discard(cx),
            Mode::Reset => Poll::Ready(Err(self.reset())),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.control.poll(Half::Write, cx) {
            Mode::Open => Pin::new(&mut self.stream).poll_write(cx, buf),
            Mode::Paused => Poll::Pending,
            Mode::Dead => Poll::Ready(Ok(buf.len())),
            Mode::Reset => Poll::Ready(Err(self.reset())),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.control.poll(Half::Write, cx) {
            Mode::Open => Pin::new(&mut self.stream).poll_write_vectored(cx, bufs),
            Mode::Paused => Poll::Pending,
            Mode::Dead => Poll::Ready(Ok(bufs.iter().map(|b| b.len()).sum())),
            Mode::Reset => Poll::Ready(Err(self.reset())),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.control.poll(Half::Write, cx) {
            Mode::Open => Pin::new(&mut self.stream).poll_flush(cx),
            Mode::Paused => Poll::Pending,
            Mode::Dead => Poll::Ready(Ok(())),
            Mode::Reset => Poll::Ready(Err(self.reset())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.control.poll(Half::Write, cx) {
            Mode::Open => Pin::new(&mut self.stream).poll_shutdown(cx),
            Mode::Paused | Mode::Dead => Poll::Pending,
            Mode::Reset => Poll::Ready(Err(self.reset())),
        }
    }
}
