//! Jobs and CronJobs.

use std::collections::HashSet;

use super::node::{Node, field};
use super::pods::template;
use super::schedule;
use super::selector::{matches, selector};
use crate::api::{JsonMap, syntax};
use crate::schema::Causes;

/// Beyond so many completions an indexed Job has stricter limits.
const MANY: i64 = 100_000;
const MANY_LIMIT: i64 = 10_000;

pub(super) fn job(object: &JsonMap, old: Option<&JsonMap>, causes: &mut Causes) {
    let (metadata, spec) = (field(object, "metadata"), field(object, "spec"));
    generated_selector(&metadata, &spec, old, causes);
    job_spec(&spec, causes);
    let wanted = spec.field("selector");
    if wanted.is_set() {
        selector(&wanted, causes);
    } else {
        wanted.required(causes, "");
    }
    let labels = spec.field("template").field("metadata").field("labels").value();
    if matches(&wanted, labels) == Some(false) {
        let template = spec.field("template");
        let metadata = template.field("metadata");
        metadata.field("labels").invalid(causes, "`selector` does not match template `labels`");
    }
    let completions = spec.field("completions").int_or_zero();
    if spec.field("completionMode").text() == "Indexed" && completions > 0 {
        let name = metadata.field("name");
        let host = format!("{}-{}", name.text(), completions - 1);
        if !syntax::dns_label(&host).is_empty() {
            name.invalid(causes, &format!("will not able to create pod with invalid DNS label: {host}"));
        }
    }
}

/// The selector of a Job that lets the server make one.
fn generated_selector(
    metadata: &Node<'_, '_>,
    spec: &Node<'_, '_>,
    old: Option<&JsonMap>,
    causes: &mut Causes,
) {
    let wanted = spec.field("selector");
    if spec.field("manualSelector").flag() || !wanted.is_set() {
        return;
    }
    let (uid, name) = (metadata.field("uid").text(), metadata.field("name").text());
    let template = spec.field("template");
    let template_metadata = template.field("metadata");
    let labels = template_metadata.field("labels");
    let expected = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    // Jobs of old servers have the first two alone.
    let had = old.and_then(|old| old.get("spec")?.pointer("/template/metadata/labels"));
    let is_old =
        old.is_some() && expected[2..].iter().any(|(key, _)| had.and_then(|had| had.get(key)).is_none());
    let expected = &expected[..if is_old { 2 } else { 4 }];
    for (key, expected) in expected {
        let label = labels.key(key);
        let why = format!("must be '{expected}'");
        if !label.is_set() {
            label.required(causes, &why);
        } else if label.text() != *expected {
            label.invalid_as(causes, labels.value(), &why);
        }
    }
    let own: serde_json::Value = expected.iter().copied().collect();
    if matches(&wanted, &own) == Some(false) {
        wanted.invalid(causes, "`selector` not auto-generated");
    }
}

fn job_spec(spec: &Node<'_, '_>, causes: &mut Causes) {
    for name in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        spec.field(name).non_negative(causes);
    }
    let limit = spec.field("backoffLimitPerIndex");
    let failed = spec.field("maxFailedIndexes");
    if failed.is_set() && !limit.is_set() {
        limit.required(causes, "when maxFailedIndexes is specified");
    }
    let manager = spec.field("managedBy");
    if manager.is_set() {
        super::domain_prefixed_path(&manager, causes);
        if manager.text().len() > 63 {
            manager.too_long(causes, 63);
        }
    }
    let mode = spec.field("completionMode");
    mode.one_of_if_set(causes, &["NonIndexed", "Indexed"]);
    let is_indexed = mode.text() == "Indexed";
    if is_indexed {
        indexed(spec, causes);
    } else if !mode.is_set() || mode.text() == "NonIndexed" {
        for number in [&limit, &failed].into_iter().filter(|number| number.is_set()) {
            number.invalid(causes, "requires indexed completion mode");
        }
    }
    let failure = spec.field("podFailurePolicy");
    if failure.is_set() {
        failure_policy(spec, &failure, causes);
    }
    let success = spec.field("successPolicy");
    if success.is_set() {
        if is_indexed {
            success_policy(spec, &success, causes);
        } else {
            success.invalid(causes, "requires indexed completion mode");
        }
    }
    let replacement = spec.field("podReplacementPolicy");
    let choices: &[&str] = if failure.is_set() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    replacement.one_of_if_set(causes, choices);
    template(&spec.field("template"), causes);
    let pods = spec.field("template");
    let pod = pods.field("spec");
    let policy = pod.field("restartPolicy");
    match policy.text() {
        "" | "Always" => policy.required(causes, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if failure.is_set() => {
            policy.invalid(causes, "only \"Never\" is supported when podFailurePolicy is specified");
        }
        "OnFailure" | "Never" => {}
        _ => policy.not_supported(causes, &["OnFailure", "Never"]),
    }
}

fn indexed(spec: &Node<'_, '_>, causes: &mut Causes) {
    let (completions, parallelism) = (spec.field("completions"), spec.field("parallelism"));
    let failed = spec.field("maxFailedIndexes");
    if !completions.is_set() {
        completions.required(causes, "when completion mode is Indexed");
    }
    let at_most = |number: &Node<'_, '_>, most: i64| number.int().is_none_or(|number| number <= most);
    if !at_most(&parallelism, MANY) {
        let why = format!("must be less than or equal to {MANY} when completion mode is Indexed");
        parallelism.invalid(causes, &why);
    }
    if completions.int().is_some_and(|all| !at_most(&failed, all)) {
        failed.invalid(causes, "must be less than or equal to completions");
    }
    if !at_most(&failed, MANY) {
        failed.invalid(causes, &format!("must be less than or equal to {MANY}"));
    }
    if at_most(&completions, MANY) || !spec.field("backoffLimitPerIndex").is_set() {
        return;
    }
    let why = format!(
        "must be less than or equal to {MANY_LIMIT} when completions are above {MANY} and used with backoff limit per index"
    );
    if !failed.is_set() {
        failed.required(causes, &format!("must be specified when completions is above {MANY}"));
    }
    if !at_most(&parallelism, MANY_LIMIT) {
        parallelism.invalid(causes, &why);
    }
    if !at_most(&failed, MANY_LIMIT) {
        failed.invalid(causes, &why);
    }
}

fn failure_policy(spec: &Node<'_, '_>, policy: &Node<'_, '_>, causes: &mut Causes) {
    const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
    let rules = policy.field("rules");
    if rules.len() > 20 {
        rules.too_many(causes, 20);
    }
    let pods = spec.field("template").field("spec").value();
    let names: HashSet<&str> = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| pods[list].as_array().into_iter().flatten())
        .map(|container| container["name"].as_str().unwrap_or_default())
        .collect();
    for rule in rules.each() {
        let action = rule.field("action");
        match action.text() {
            "" => {
                let why = "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]";
                action.required(causes, why);
            }
            "FailIndex" => {
                if !spec.field("backoffLimitPerIndex").is_set() {
                    action.invalid(causes, "requires the backoffLimitPerIndex to be set");
                }
            }
            _ => action.one_of(causes, ACTIONS),
        }
        let (codes, conditions) = (rule.field("onExitCodes"), rule.field("onPodConditions"));
        if codes.is_set() {
            exit_codes(&codes, &names, causes);
        }
        pod_conditions(&conditions, causes);
        match (codes.is_set(), conditions.is_empty()) {
            (true, false) => {
                let why = "specifying both OnExitCodes and OnPodConditions is not supported";
                rule.invalid_omitted(causes, why);
            }
            (false, true) => {
                let why = "specifying one of OnExitCodes and OnPodConditions is required";
                rule.invalid_omitted(causes, why);
            }
            _ => {}
        }
    }
}

fn pod_conditions(conditions: &Node<'_, '_>, causes: &mut Causes) {
    if conditions.len() > 20 {
        conditions.too_many(causes, 20);
    }
    for pattern in conditions.each() {
        let (kind, status) = (pattern.field("type"), pattern.field("status"));
        kind.faults(causes, syntax::qualified_name(kind.text()));
        if status.text().is_empty() {
            status.required(causes, "valid values: [\"False\" \"True\" \"Unknown\"]");
        } else {
            status.one_of(causes, &["False", "True", "Unknown"]);
        }
    }
}

fn exit_codes(codes: &Node<'_, '_>, names: &HashSet<&str>, causes: &mut Causes) {
    let (operator, container) = (codes.field("operator"), codes.field("containerName"));
    if operator.text().is_empty() {
        operator.required(causes, "valid values: [\"In\" \"NotIn\"]");
    } else {
        operator.one_of(causes, &["In", "NotIn"]);
    }
    if container.is_set() && !names.contains(container.text()) {
        let why = "must be one of the container or initContainer names in the pod template";
        container.invalid(causes, why);
    }
    let values = codes.field("values");
    if values.is_empty() {
        values.invalid(causes, "at least one value is required");
    } else if values.len() > 255 {
        values.too_many(causes, 255);
    }
    let (mut last, mut is_ordered, mut seen) = (None, true, HashSet::new());
    for value in values.each() {
        let code = value.int_or_zero();
        if operator.text() == "In" && code == 0 {
            value.invalid(causes, "must not be 0 for the In operator");
        }
        if !seen.insert(code) {
            value.duplicate(causes);
        }
        is_ordered &= last.is_none_or(|last| last <= code);
        last = Some(code);
    }
    if !is_ordered {
        values.invalid(causes, "must be ordered");
    }
}

fn success_policy(spec: &Node<'_, '_>, policy: &Node<'_, '_>, causes: &mut Causes) {
    let rules = policy.field("rules");
    if rules.is_empty() {
        rules.required(causes, "at least one rules must be specified when the successPolicy is specified");
    }
    if rules.len() > 20 {
        rules.too_many(causes, 20);
    }
    let completions = spec.field("completions").int_or_zero();
    for rule in rules.each() {
        let (count, indexes) = (rule.field("succeededCount"), rule.field("succeededIndexes"));
        if !count.is_set() && !indexes.is_set() {
            rule.required(causes, "at least one of succeededCount or succeededIndexes must be specified");
        }
        let mut total = 0;
        if indexes.is_set() {
            if indexes.text().len() > 64 << 10 {
                indexes.too_long(causes, 64 << 10);
            }
            match count_indexes(indexes.text(), completions) {
                Ok(count) => total = count,
                Err(why) => indexes.invalid(causes, &format!("error parsing succeededIndexes: {why}")),
            }
        }
        let Some(wanted) = count.int() else { continue };
        count.non_negative(causes);
        if wanted > completions {
            let why =
                format!("must be less than or equal to {completions} (the number of specified completions)");
            count.invalid(causes, &why);
        }
        if indexes.is_set() && wanted > total {
            let why = format!(
                "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            );
            count.invalid(causes, &why);
        }
    }
}

/// How many indexes a list like `0,2-4` names.
fn count_indexes(list: &str, completions: i64) -> Result<i64, String> {
    if list.is_empty() {
        return Ok(0);
    }
    let number = |text: &str| -> Result<i64, String> {
        let number: i64 =
            text.parse().map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
        if number >= completions { Err(format!("too large index: {text:?}")) } else { Ok(number) }
    };
    let not_more = |last: i64, next: i64| format!("non-increasing order, previous: {last}, current: {next}");
    let (mut total, mut last) = (0, None);
    for interval in list.split(',') {
        let limits: Vec<&str> = interval.splitn(4, '-').collect();
        if limits.len() > 2 {
            return Err(format!(
                "the fragment {interval:?} violates the requirement that an index interval can have at most two parts separated by '-'"
            ));
        }
        let first = number(limits[0])?;
        let end = limits.get(1).map_or(Ok(first), |end| number(end))?;
        if limits.len() == 2 && first >= end {
            return Err(not_more(first, end));
        }
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(not_more(last, first));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

pub(super) fn cron_job(object: &JsonMap, old: Option<&JsonMap>, causes: &mut Causes) {
    let (metadata, spec) = (field(object, "metadata"), field(object, "spec"));
    let old = old.map(|old| field(old, "spec"));
    let schedule = spec.field("schedule");
    let zone = spec.field("timeZone");
    if schedule.is_given(causes) {
        if let Some(why) = schedule::fault(schedule.text()) {
            schedule.invalid(causes, &why);
        }
        let had_zone = old.as_ref().is_some_and(|old| old.field("schedule").text().contains("TZ"));
        if schedule.text().contains("TZ") {
            if had_zone && zone.is_set() {
                schedule.invalid(causes, "cannot use both timeZone field and TZ or CRON_TZ in schedule");
            } else if !had_zone {
                schedule.invalid(causes, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
            }
        }
    }
    spec.field("startingDeadlineSeconds").non_negative(causes);
    let is_same = old.as_ref().is_some_and(|old| old.field("timeZone").value() == zone.value());
    if zone.is_set() && !is_same {
        time_zone(&zone, causes);
    }
    spec.field("concurrencyPolicy").given_one_of(causes, &["Allow", "Forbid", "Replace"]);
    let template = spec.field("jobTemplate");
    let job = template.field("spec");
    job_spec(&job, causes);
    if job.field("selector").is_set() {
        job.field("selector").invalid(causes, "`selector` will be auto-generated");
    }
    if job.field("manualSelector").flag() {
        job.field("manualSelector").not_supported(causes, &["nil", "false"]);
    }
    spec.field("successfulJobsHistoryLimit").non_negative(causes);
    spec.field("failedJobsHistoryLimit").non_negative(causes);
    let name = metadata.field("name");
    if old.is_none() && name.text().len() > 52 {
        name.invalid(causes, "must be no more than 52 characters");
    }
}

/// Where the machine keeps its time zones, if it does.
const ZONES: &str = "/usr/share/zoneinfo";

fn time_zone(zone: &Node<'_, '_>, causes: &mut Causes) {
    let name = zone.text();
    if name.is_empty() {
        return zone.invalid(causes, "timeZone must be nil or non-empty string");
    }
    let is_part = |part: &str| {
        (1..=14).contains(&part.len())
            && !matches!(part, "." | "..")
            && !part.starts_with('-')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte))
    };
    let unknown = format!("unknown time zone {name}");
    if !name.split('/').all(is_part) {
        return zone.invalid(causes, &unknown);
    }
    if name.eq_ignore_ascii_case("local") {
        let why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        zone.invalid(causes, why);
    }
    let zones = std::path::Path::new(ZONES);
    let is_known = matches!(name, "UTC" | "Local") || !zones.is_dir() || zones.join(name).is_file();
    if !is_known {
        zone.invalid(causes, &unknown);
    }
}
