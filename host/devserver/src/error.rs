//! [`StartError`]: why a server does not start, or cannot be filled.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a [`DevServer`](crate::DevServer) does not start, or an object is not taken from a file.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is taken or not ours.
    #[error("listening on {address}: {source}; choose another port, or 0 for a free one")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// No certificate could be made.
    #[error("making the certificate: {0}")]
    Certificate(String),
    /// A file or folder cannot be read.
    #[error("reading {path}: {source}", path = path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A document of a file is not an object the server takes.
    #[error("{path}, document {document} (line {line}): {message}", path = path.display())]
    Object {
        /// The file.
        path: PathBuf,
        /// Which of its documents, from 1.
        document: usize,
        /// On which line of the file it begins, from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
}
