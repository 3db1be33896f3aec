//! `wasi:http/types.http-error-code`: which error of HTTP made a stream fail.
//!
//! wasmtime-wasi-http 48 looks for its binding's type in the stream's error, but puts its own error type there, so the answer would
//! always be "none" and a guest could not tell a response that is too large from a broken connection. This definition takes its place.

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::WasiView as _;
use wasmtime_wasi::p2::bindings::io::error::Error as IoError;
use wasmtime_wasi_http::Error;
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;

use crate::state::State;

/// The interface as wasmtime-wasi-http 48 names it; a test sees to it that this stays so.
const INTERFACE: &str = "wasi:http/types@0.2.12";

pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    define(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

pub(super) fn define(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.instance(INTERFACE)?.func_wrap(
        "http-error-code",
        |mut store: StoreContextMut<'_, State>, (error,): (Resource<IoError>,)| {
            let error = store.data_mut().ctx().table.get(&error)?;
            let code = error.downcast_ref::<ErrorCode>().cloned();
            Ok((code.or_else(|| error.downcast_ref::<Error>().map(code_of)),))
        },
    )
}

/// What the errors of a [body](super::body) are called in the interface.
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
