//! Credentials: how a client shows who it is, and how it recognizes the server.
//!
//! ```text
//!   authorizer    `Authorization` header ──┐
//!   tls           rustls configuration ────┼──► exec          exec plugins
//!                                          ├──► file_reader   files that rotate
//!                                          └──► certificate ──► validity
//! ```

mod authorizer;
mod certificate;
mod exec;
mod file_reader;
mod tls;
mod validity;

pub(crate) use authorizer::Authorizer;
pub(crate) use exec::{Command, ExecPlugin, displayed};
pub(crate) use file_reader::blocking;
pub(crate) use tls::{Checked, ClientIdentity, Source, Tls};
