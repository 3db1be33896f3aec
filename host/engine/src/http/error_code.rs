//! `wasi:http/types.http-error-code`: the HTTP error behind the failure of a stream.
//!
//! wasmtime-wasi-http 48 looks for the error type of its bindings in the stream's error, but stores another type there.
//! So its function always returns "none", and a guest cannot distinguish a response that is too large from a broken
//! connection. This module replaces the function.

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::WasiView as _;
use wasmtime_wasi::p2::bindings::io::error::Error as IoError;
use wasmtime_wasi_http::Error;
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;

use crate::state::StoreState;

/// Name of the interface in wasmtime-wasi-http 48. A test fails when the name changes.
const INTERFACE: &str = "wasi:http/types@0.2.12";

pub(super) fn add_to_linker(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    define(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

pub(super) fn define(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    linker.instance(INTERFACE)?.func_wrap(
        "http-error-code",
        |mut store: StoreContextMut<'_, StoreState>, (error,): (Resource<IoError>,)| {
            let error = store.data_mut().ctx().table.get(&error)?;
            let code = error.downcast_ref::<ErrorCode>().cloned();
            Ok((code.or_else(|| error.downcast_ref::<Error>().map(code_of)),))
        },
    )
}

/// The error code for an error of a [body](super::body).
fn code_of(error: &Error) -> ErrorCode {
    match error {
        Error::HttpResponseBodySize(size) => ErrorCode::HttpResponseBodySize(*size),
        Error::HttpRequestBodySize(size) => ErrorCode::HttpRequestBodySize(*size),
        Error::ConnectionReadTimeout => ErrorCode::ConnectionReadTimeout,
        Error::ConnectionTerminated => ErrorCode::ConnectionTerminated,
        Error::HttpResponseIncomplete => ErrorCode::HttpResponseIncomplete,
        Error::HttpProtocolError => ErrorCode::HttpProtocolError,
        other => ErrorCode::InternalError(Some(other.to_string())),
    }
}
