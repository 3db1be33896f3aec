//! The tools of plugin authors: the commands `new`, `build`, `dev`, `test`, `check`, `crd` and `rbac` of `pilothouse`.
//!
//! A binary without the feature `dev` links none of this crate.

mod build;
mod check;
mod component_names;
mod crd;
mod dev;
mod fixtures;
mod new;
mod no_wasi;
mod rbac;

pub use build::Build;
pub use check::Check;
pub use crd::Crd;
pub use dev::Dev;
pub use fixtures::Test;
pub use new::New;
pub use rbac::Rbac;
