//! [`LeaderElectionConfig`]: who competes, and how fast; checked before anything runs.

use std::time::Duration;

/// Most that a pause between two tries to acquire is longer than the retry period, as a share of it; client-go's.
pub(crate) const JITTER_FACTOR: f64 = 1.2;

/// Who competes, and how fast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderElectionConfig {
    /// The label `name` of the metrics; empty takes the lock's own, `NAMESPACE/NAME`.
    pub name: String,
    /// Name of this candidate. No two that run may share one.
    pub identity: String,
    /// Others may take over when they have seen no renewal for so long. Whole seconds, as a Lease holds it.
    pub lease_duration: Duration,
    /// The leader stops when it has not renewed for so long.
    pub renew_deadline: Duration,
    /// Pause between two renewals, and shortest between two tries to acquire.
    pub retry_period: Duration,
    /// Give the lease up when the work has ended, so that the next candidate need not wait for its end.
    pub release_on_cancel: bool,
}

/// A configuration that cannot work: the field, what is wrong with it and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}; {remedy}")]
pub struct ConfigError {
    /// The field, as it is called in [`LeaderElectionConfig`] or in the arguments of [`LeaseLock`](crate::LeaseLock).
    pub field: &'static str,
    /// What is wrong with it.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
}

impl LeaderElectionConfig {
    /// Kubernetes' own default.
    pub const DEFAULT_LEASE_DURATION: Duration = Duration::from_secs(15);
    /// Kubernetes' own default.
    pub const DEFAULT_RENEW_DEADLINE: Duration = Duration::from_secs(10);
    /// Kubernetes' own default.
    pub const DEFAULT_RETRY_PERIOD: Duration = Duration::from_secs(2);

    /// The usual times for a candidate, who releases at the end.
    #[must_use]
    pub fn new(identity: impl Into<String>) -> Self {
        Self {
            name: String::new(),
            identity: identity.into(),
            lease_duration: Self::DEFAULT_LEASE_DURATION,
            renew_deadline: Self::DEFAULT_RENEW_DEADLINE,
            retry_period: Self::DEFAULT_RETRY_PERIOD,
            release_on_cancel: true,
        }
    }

    /// Checks that the candidate has a name and the times leave room for retries: lease duration > renew deadline >
    /// 1.2 × retry period > 0.
    ///
    /// # Errors
    /// Naming the first field that is wrong.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let Self { lease_duration, renew_deadline, retry_period, .. } = *self;
        let wrong = |field, reason: String, remedy: String| Err(ConfigError { field, reason, remedy });
        if self.identity.is_empty() {
            let remedy = "name the candidate, as by its host and a UUID".to_owned();
            return wrong("identity", "it is empty".to_owned(), remedy);
        }
        for (field, value) in [
            ("lease_duration", lease_duration),
            ("renew_deadline", renew_deadline),
            ("retry_period", retry_period),
        ] {
            if value.is_zero() {
                return wrong(field, "it is zero".to_owned(), "set a time above zero".to_owned());
            }
        }
        if lease_duration.subsec_nanos() != 0 || lease_duration.as_secs() > i32::MAX as u64 {
            let reason = format!("{lease_duration:?} is not what a Lease can hold");
            return wrong("lease_duration", reason, format!("use whole seconds, at most {}", i32::MAX));
        }
        if lease_duration <= renew_deadline {
            let reason =
                format!("{lease_duration:?} is not longer than the renew deadline, {renew_deadline:?}");
            let remedy = "others would take over before the leader has stopped: make it longer".to_owned();
            return wrong("lease_duration", reason, remedy);
        }
        let least = retry_period.mul_f64(JITTER_FACTOR);
        if renew_deadline <= least {
            let reason = format!("{renew_deadline:?} leaves no time for a retry after {retry_period:?}");
            return wrong("renew_deadline", reason, format!("make it longer than {least:?}"));
        }
        Ok(())
    }

    /// How long one request may take: as client-go's, half the renew deadline, a second at least.
    pub(crate) fn request_timeout(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_that_cannot_work_is_refused_by_field_reason_and_remedy() {
        let good = LeaderElectionConfig::new("me");
        assert_eq!(good.validate(), Ok(()));
        let (zero, second) = (Duration::ZERO, Duration::from_secs(1));
        type Change = fn(&mut LeaderElectionConfig, Duration);
        let cases: [(&str, Duration, Change, &str); 8] = [
            ("identity", zero, |c, _| c.identity.clear(), "empty"),
            ("lease_duration", zero, |c, d| c.lease_duration = d, "zero"),
            ("renew_deadline", zero, |c, d| c.renew_deadline = d, "zero"),
            ("retry_period", zero, |c, d| c.retry_period = d, "zero"),
            ("lease_duration", second * 31 / 2, |c, d| c.lease_duration = d, "whole seconds"),
            ("lease_duration", second * 10, |c, d| c.lease_duration = d, "renew deadline, 10s"),
            ("renew_deadline", second * 12 / 5, |c, d| c.renew_deadline = d, "2.4s"),
            ("renew_deadline", second, |c, d| c.renew_deadline = d, "longer than 2.4s"),
        ];
        for (field, value, change, words) in cases {
            let mut config = good.clone();
            change(&mut config, value);
            let error = config.validate().expect_err(field);
            assert_eq!(error.field, field, "{error}");
            assert!(error.to_string().contains(words) && !error.remedy.is_empty(), "{error}");
        }
    }
}
