//! The parameters of a request's URL.

use std::borrow::Cow;
use std::time::Duration;

use super::{About, ApiError, Cause};

/// The parameters, the first of each name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Params(Vec<(String, String)>);

/// What `resourceVersionMatch` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    Exact,
    NotOlderThan,
}

/// What `fieldValidation` asks to be done about unknown and duplicate fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    /// What a request without the parameter gets.
    Warn,
    Strict,
}

impl Params {
    pub(crate) fn parse(query: &str) -> Self {
        let own = |text: Cow<'_, str>| text.into_owned();
        Self(form_urlencoded::parse(query.as_bytes()).map(|(k, v)| (own(k), own(v))).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    /// As [`Params::get`]; an empty value is as none.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|v| !v.is_empty())
    }

    /// Whether a switch is on: as the API reads it, anything but `false` and `0`.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|v| !matches!(v, "false" | "0"))
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, ApiError> {
        self.filled(name)
            .map(|text| {
                text.parse().map_err(|_| ApiError::bad_request(format!("{name} is not a number: {text:?}")))
            })
            .transpose()
    }

    /// `limit`; 0 is none.
    pub(crate) fn limit(&self) -> Result<usize, ApiError> {
        Ok(self.number("limit")?.unwrap_or(0))
    }

    /// `timeoutSeconds`; 0 is none.
    pub(crate) fn timeout(&self) -> Result<Option<Duration>, ApiError> {
        // Longer than this no watch is kept anyway, and no clock overflows.
        let seconds: Option<u64> = self.number("timeoutSeconds")?;
        Ok(seconds.filter(|s| *s > 0).map(|s| Duration::from_secs(s.min(86_400))))
    }

    /// `gracePeriodSeconds`
    pub(crate) fn grace(&self) -> Result<Option<i64>, ApiError> {
        self.number("gracePeriodSeconds")
    }

    /// Whether nothing is to be kept of this write.
    pub(crate) fn dry_run(&self) -> Result<bool, ApiError> {
        let mut dry = false;
        for (_, value) in self.0.iter().filter(|(k, v)| k == "dryRun" && !v.is_empty()) {
            if value != "All" {
                let about = About::new("meta.k8s.io", "CreateOptions", "");
                return Err(ApiError::invalid(about, vec![Cause::not_supported("dryRun", value, &["All"])]));
            }
            dry = true;
        }
        Ok(dry)
    }

    /// `fieldValidation`; `options` is the kind of the request's options.
    pub(crate) fn field_validation(&self, options: &str) -> Result<FieldValidation, ApiError> {
        match self.filled("fieldValidation") {
            None | Some("Warn") => Ok(FieldValidation::Warn),
            Some("Ignore") => Ok(FieldValidation::Ignore),
            Some("Strict") => Ok(FieldValidation::Strict),
            Some(other) => {
                let cause = Cause::not_supported("fieldValidation", other, &["", "Ignore", "Strict", "Warn"]);
                Err(ApiError::invalid(About::new("meta.k8s.io", options, ""), vec![cause]))
            }
        }
    }

    /// `resourceVersion`: `None` when absent or empty.
    pub(crate) fn resource_version(&self) -> Result<Option<u64>, ApiError> {
        let Some(text) = self.filled("resourceVersion") else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            let cause = Cause::invalid("resourceVersion", text, "must be a number");
            ApiError::bad_request(format!("{}: {}", cause.field, cause.message))
        })
    }

    pub(crate) fn version_match(&self) -> Result<Option<VersionMatch>, ApiError> {
        match self.filled("resourceVersionMatch") {
            None => Ok(None),
            Some("Exact") => Ok(Some(VersionMatch::Exact)),
            Some("NotOlderThan") => Ok(Some(VersionMatch::NotOlderThan)),
            Some(other) => {
                let cause = Cause::not_supported("resourceVersionMatch", other, &["Exact", "NotOlderThan"]);
                Err(list_options_invalid(vec![cause]))
            }
        }
    }
}

/// The options of a list or a watch do not go together.
pub(crate) fn list_options_invalid(causes: Vec<Cause>) -> ApiError {
    ApiError::invalid(About::new("meta.k8s.io", "ListOptions", ""), causes)
}
