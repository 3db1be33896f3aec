//! Structured logging: [`trace!`](crate::trace), [`debug!`](crate::debug), [`info!`](crate::info),
//! [`warn!`](crate::warn) and [`error!`](crate::error). The host adds the plugin, its generation, and the key and
//! reconcile id of the running call.
//!
//! ```no_run
//! # use pilothouse_sdk::prelude::*;
//! # let (name, total, done, all) = ("a", 1, 2, 3);
//! info!("wrote the ConfigMap", node = name, pods = total);
//! warn!("no zone on node {name}");
//! debug!("{} of {} done", done, all, round = 3);
//! ```
//!
//! The text is a format string with its arguments; what has a name becomes a field, of any type with `Display`.
//! Nothing of it is evaluated when the host does not keep lines of that level.

use crate::bindings::imports::log as raw;
pub use crate::bindings::imports::log::Level;

/// Whether lines of this level are kept. The macros ask by themselves.
pub fn enabled(level: Level) -> bool {
    raw::enabled(level)
}

/// Writes a line with further fields. The macros are shorter.
pub fn write(level: Level, message: &str, fields: &[(String, String)]) {
    raw::write(level, message, fields);
}

/// What the five macros have in common. Sorts what follows the text, one by one, into arguments of the text and
/// fields.
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

/// Logs single steps, for following them. See [`log`](crate::log).
#[macro_export]
macro_rules! trace {
    ($($line:tt)+) => { $crate::__log!(Trace $($line)+) };
}

/// Logs what developers want to know. See [`log`](crate::log).
#[macro_export]
macro_rules! debug {
    ($($line:tt)+) => { $crate::__log!(Debug $($line)+) };
}

/// Logs what happened. See [`log`](crate::log).
#[macro_export]
macro_rules! info {
    ($($line:tt)+) => { $crate::__log!(Info $($line)+) };
}

/// Logs that something is odd, but the work goes on. See [`log`](crate::log).
#[macro_export]
macro_rules! warn {
    ($($line:tt)+) => { $crate::__log!(Warn $($line)+) };
}

/// Logs that something failed. See [`log`](crate::log).
#[macro_export]
macro_rules! error {
    ($($line:tt)+) => { $crate::__log!(Error $($line)+) };
}
