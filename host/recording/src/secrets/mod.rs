//! Masking: values of Secrets become tokens.
//!
//! ```text
//!  Secret in an answer or in a write ── leaves below data and stringData ──► Masker::learn ──► Dictionary
//!                                                                                                │
//!  every string of the call ─────────────────────────────────────────────────────────► replaced ◄┘
//! ```
//!
//! A token has the length of its value and is the same for the same value, so a guest that copies or compares values behaves
//! as it did. One that reads into them (as JSON, as a number, as a key) does not; such a guest needs a recording with secrets.

mod body;
mod dictionary;
mod json_text;
mod masker;
mod token;

pub(crate) use masker::{Masker, TooManyValues, secrets_of};
