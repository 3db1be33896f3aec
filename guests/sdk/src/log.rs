//! Structured logging: [`trace!`](crate::trace), [`debug!`](crate::debug), [`info!`](crate::info),
//! [`warn!`](crate::warn) and [`error!`](crate::error). The host adds the plugin, its generation, and the key and
//! reconcile id of the running call.
//!
//! ```
//! # use pilothouse_sdk::prelude::*;
//! # let (name, total, done, all) = ("a", 1, 2, 3);
//! info!("wrote the ConfigMap", node = name, pods = total);
//! warn!("no zone on node {name}");
//! debug!("{} of {} done", done, all, round = 3);
//! ```
//!
//! The text is a format string with its arguments. Named arguments after it become fields of the line; their types must
//! implement `Display`. Arguments are evaluated only if the host logs lines of that level.
//!
//! In native builds the lines go to the [`testing::World`](crate::testing::World) of the thread, or to standard error.

pub use crate::bindings::imports::log::Level;
use crate::sys;

/// Whether the host logs lines of this level. The macros check this themselves.
pub fn enabled(level: Level) -> bool {
    sys::log_enabled(level)
}

/// Writes a line with fields (name and value). Prefer the macros.
pub fn write(level: Level, message: &str, fields: &[(String, String)]) {
    sys::log_write(level, message, fields);
}

/// Shared implementation of the five macros. Sorts the tokens after the text into format arguments and fields.
#[doc(hidden)]
#[macro_export]
macro_rules! __log {
    (@sort $level:ident $message:literal ($($argument:expr,)*) ($($field:ident = $value:expr,)*)) => {
        if $crate::log::enabled($crate::log::Level::$level) {
            $crate::log::write(
                $crate::log::Level::$level,
                &::std::format!($message, $($argument),*),
                &[$((::std::stringify!($field).to_owned(), ::std::string::ToString::to_string(&$value))),*],
            );
        }
    };
    (@sort $level:ident $message:literal ($($arguments:tt)*) ($($fields:tt)*)
        $field:ident = $value:expr $(, $($rest:tt)*)?) => {
        $crate::__log!(@sort $level $message ($($arguments)*) ($($fields)* $field = $value,) $($($rest)*)?)
    };
    (@sort $level:ident $message:literal ($($arguments:tt)*) ($($fields:tt)*)
        $argument:expr $(, $($rest:tt)*)?) => {
        $crate::__log!(@sort $level $message ($($arguments)* $argument,) ($($fields)*) $($($rest)*)?)
    };
    ($level:ident $message:literal $(, $($rest:tt)*)?) => {
        $crate::__log!(@sort $level $message () () $($($rest)*)?)
    };
}

/// Logs single steps. See [`log`](crate::log).
#[macro_export]
macro_rules! trace {
    ($($line:tt)+) => { $crate::__log!(Trace $($line)+) };
}

/// Logs details for developers. See [`log`](crate::log).
#[macro_export]
macro_rules! debug {
    ($($line:tt)+) => { $crate::__log!(Debug $($line)+) };
}

/// Logs normal operation. See [`log`](crate::log).
#[macro_export]
macro_rules! info {
    ($($line:tt)+) => { $crate::__log!(Info $($line)+) };
}

/// Logs an unexpected condition that does not stop the work. See [`log`](crate::log).
#[macro_export]
macro_rules! warn {
    ($($line:tt)+) => { $crate::__log!(Warn $($line)+) };
}

/// Logs a failure. See [`log`](crate::log).
#[macro_export]
macro_rules! error {
    ($($line:tt)+) => { $crate::__log!(Error $($line)+) };
}
