//! What guests may declare, what is refused, and how it is shown.

use prometheus_client::registry::Registry;

use super::*;

fn spec(kind: MetricKind, name: &str, labels: &[&str]) -> MetricSpec {
    let labels = labels.iter().map(|label| (*label).to_owned()).collect();
    MetricSpec { kind, name: name.to_owned(), help: "Things".to_owned(), labels, buckets: Vec::new() }
}

fn values(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

fn page(all: &AllGuestMetrics) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(all.clone()));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    text
}

#[test]
fn metrics_are_shown_under_the_plugins_name() {
    let all = AllGuestMetrics::default();
    let metrics = all.of("my-quota");
    let counter = metrics.declare(spec(MetricKind::Counter, "writes_total", &["kind"]), 1, 10).unwrap();
    counter.change(&values(&["a\"b\\c\nd"]), MetricChange::Add(1.5)).unwrap();
    counter.change(&values(&["a\"b\\c\nd"]), MetricChange::Add(0.5)).unwrap();
    let gauge = metrics.declare(spec(MetricKind::Gauge, "used", &[]), 1, 10).unwrap();
    gauge.change(&[], MetricChange::Set(7.0)).unwrap();
    gauge.change(&[], MetricChange::Add(-2.0)).unwrap();
    let mut histogram = spec(MetricKind::Histogram, "took", &[]);
    histogram.buckets = vec![1.0, 2.0];
    let histogram = metrics.declare(histogram, 1, 20).unwrap();
    for value in [0.5, 1.0, 1.5, 99.0] {
        histogram.change(&[], MetricChange::Observe(value)).unwrap();
    }
    // Another plugin whose name differs in that letter only.
    let other = all.of("my.quota").declare(spec(MetricKind::Gauge, "used", &[]), 1, 10).unwrap();
    other.change(&[], MetricChange::Set(1.0)).unwrap();
    let page = page(&all);
    for line in [
        "# TYPE plugin_my_quota__writes counter",
        r#"plugin_my_quota__writes_total{plugin="my-quota",kind="a\"b\\c\nd"} 2.0"#,
        r#"plugin_my_quota__used{plugin="my-quota"} 5.0"#,
        r#"plugin_my:quota__used{plugin="my.quota"} 1.0"#,
        r#"plugin_my_quota__took_sum{plugin="my-quota"} 102.0"#,
        r#"plugin_my_quota__took_bucket{le="1.0",plugin="my-quota"} 2"#,
        r#"plugin_my_quota__took_bucket{le="2.0",plugin="my-quota"} 3"#,
        r#"plugin_my_quota__took_bucket{le="+Inf",plugin="my-quota"} 4"#,
    ] {
        assert!(page.lines().any(|shown| shown == line), "{line}\n{page}");
    }
    assert_eq!(page.matches("# TYPE plugin_my_quota__used gauge").count(), 1, "{page}");
    all.remove("my-quota");
    all.remove("my.quota");
    assert!(!self::page(&all).contains("quota"));
}

#[test]
fn runs_of_a_plugin_have_a_metric_in_common_and_one_of_another_kind_is_left_out() {
    let all = AllGuestMetrics::default();
    let set = |run: &str, kind, change| {
        let metric = all.of(run).declare(spec(kind, "used", &[]), 1, 10).unwrap();
        metric.change(&[], change).unwrap();
    };
    set("a/p", MetricKind::Gauge, MetricChange::Set(1.0));
    set("a/p@east", MetricKind::Gauge, MetricChange::Set(2.0));
    set("a/p@west", MetricKind::Counter, MetricChange::Add(3.0));
    let page = page(&all);
    let series: Vec<_> = page.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        series,
        [r#"plugin_a:p__used{plugin="a/p"} 1.0"#, r#"plugin_a:p__used{plugin="a/p@east"} 2.0"#]
    );
    assert_eq!(page.matches("# TYPE plugin_a:p__used gauge").count(), 1, "{page}");
}

#[test]
fn a_metric_is_found_again_and_not_under_another_kind() {
    let metrics = GuestMetrics::default();
    let first = metrics.declare(spec(MetricKind::Counter, "n", &["a"]), 1, 10).unwrap();
    first.change(&values(&["x"]), MetricChange::Add(1.0)).unwrap();
    metrics.declare(spec(MetricKind::Counter, "n_total", &["a"]), 1, 10).unwrap();
    assert_eq!(metrics.metrics.lock().len(), 1);
    for other in [spec(MetricKind::Gauge, "n", &["a"]), spec(MetricKind::Counter, "n", &["b"])] {
        let message = metrics.declare(other, 1, 10).err().unwrap().message;
        assert!(message.contains("was declared with another kind"), "{message}");
    }
}

#[test]
fn malformed_declarations_are_refused_with_the_bound() {
    let metrics = GuestMetrics::default();
    let long = "x".repeat(MAX_NAME + 1);
    let many: Vec<String> = (0..=MAX_LABELS).map(|n| format!("l{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (name, labels, why) in [
        ("", &[][..], "letters, digits"),
        ("1a", &[], "letters, digits"),
        ("a-b", &[], "letters, digits"),
        ("é", &[], "letters, digits"),
        (&long, &[], "at most 64 bytes"),
        ("a_bucket", &[], "must not end with \"_bucket\""),
        ("a_total", &[], "must not end with \"_total\""),
        ("a_", &[], "in a row"),
        ("a__b", &[], "in a row"),
        ("a", &many, "9 labels, at most 8"),
        ("a", &["plugin"], "neither plugin nor le"),
        ("a", &["b", "b"], "there once"),
    ] {
        let message = metrics.declare(spec(MetricKind::Gauge, name, labels), 1, 10).err().unwrap().message;
        assert!(message.contains(why), "{name} {labels:?}: {message}");
    }
    for buckets in
        [vec![2.0, 1.0], vec![f64::NAN], vec![1.0, f64::INFINITY], (0..33).map(f64::from).collect()]
    {
        let spec = MetricSpec { buckets, ..spec(MetricKind::Histogram, "h", &[]) };
        assert!(metrics.declare(spec, 1, 10).err().unwrap().message.contains("at most 32 finite bounds"));
    }
    for n in 0..MAX_METRICS {
        metrics.declare(spec(MetricKind::Gauge, &format!("g{n}"), &[]), 1, 10).unwrap();
    }
    let over = metrics.declare(spec(MetricKind::Gauge, "one_more", &[]), 1, 10).err().unwrap();
    assert_eq!(over.reason, pilothouse_engine::RefusalReason::OverLimit);
}

#[test]
fn series_are_bounded_for_all_metrics_together_and_those_that_there_are_go_on() {
    let metrics = GuestMetrics::default();
    let a = metrics.declare(spec(MetricKind::Gauge, "a", &["l"]), 1, 3).unwrap();
    let b = metrics.declare(spec(MetricKind::Counter, "b", &[]), 1, 3).unwrap();
    b.change(&[], MetricChange::Add(1.0)).unwrap();
    a.change(&values(&["0"]), MetricChange::Set(0.0)).unwrap();
    a.change(&values(&["1"]), MetricChange::Set(0.0)).unwrap();
    let over = a.change(&values(&["2"]), MetricChange::Set(0.0)).unwrap_err();
    assert!(over.message.contains("3 series (limits.metricSeries)"), "{}", over.message);
    a.change(&values(&["1"]), MetricChange::Set(1.0)).unwrap();
    a.change(&values(&["0"]), MetricChange::Remove).unwrap();
    a.change(&values(&["0"]), MetricChange::Remove).unwrap();
    a.change(&values(&["2"]), MetricChange::Set(0.0)).unwrap();
    assert!(a.change(&values(&["3"]), MetricChange::Set(0.0)).is_err());
}

#[test]
fn changes_that_do_not_fit_are_refused() {
    let metrics = GuestMetrics::default();
    let counter = metrics.declare(spec(MetricKind::Counter, "c", &["l"]), 1, 10).unwrap();
    let long = "x".repeat(MAX_VALUE + 1);
    for (labels, change, why) in [
        (&[][..], MetricChange::Add(1.0), "0 values for 1 labels"),
        (&[long.as_str()], MetricChange::Add(1.0), "more than 128 bytes"),
        (&["a"], MetricChange::Add(-1.0), "which only grows"),
        (&["a"], MetricChange::Add(f64::NAN), "which only grows"),
        (&["a"], MetricChange::Set(1.0), "no meaning for a Counter"),
    ] {
        let message = counter.change(&values(labels), change).unwrap_err().message;
        assert!(message.contains(why), "{message}");
    }
    let ending = metrics.declare(spec(MetricKind::Counter, "a_sum_total", &[]), 1, 10).err().unwrap();
    assert!(ending.message.contains("\"_sum\""), "{}", ending.message);
    let histogram = metrics.declare(spec(MetricKind::Histogram, "h", &[]), 1, 20).unwrap();
    assert!(histogram.change(&[], MetricChange::Observe(f64::NAN)).is_err());
}

/// The letters that a plugin's guest chooses cannot make the name of another plugin's metric.
#[test]
fn no_plugin_has_a_name_on_the_page_that_another_may_have() {
    let mut names = std::collections::BTreeSet::new();
    let (plugins, metrics) = (["a", "a-b", "a--b", "a.b", "a-b-c", "b"], ["b", "c", "b_c", "b_c_d", "total"]);
    for plugin in plugins {
        for metric in metrics {
            let all = AllGuestMetrics::default();
            let gauge = all.of(plugin).declare(spec(MetricKind::Gauge, metric, &[]), 1, 1);
            let Ok(gauge) = gauge else { continue };
            gauge.change(&[], MetricChange::Set(1.0)).unwrap();
            let page = page(&all);
            let name = page.lines().find(|line| line.starts_with("# TYPE")).unwrap();
            assert!(names.insert(name.to_owned()), "{plugin} {metric}: {name}");
        }
    }
    assert_eq!(names.len(), 6 * 5);
}

#[test]
fn a_later_generation_may_declare_a_metric_otherwise_and_one_before_it_may_not() {
    let all = AllGuestMetrics::default();
    let metrics = all.of("p");
    let old = metrics.declare(spec(MetricKind::Gauge, "n", &["a"]), 1, 4).unwrap();
    for value in ["x", "y", "z"] {
        old.change(&values(&[value]), MetricChange::Set(1.0)).unwrap();
    }
    let new = metrics.declare(spec(MetricKind::Counter, "n", &["a", "b"]), 2, 4).unwrap();
    assert!(metrics.declare(spec(MetricKind::Gauge, "n", &["a"]), 1, 4).is_err());
    // An instance of the generation before goes on with its handle, and nobody sees it.
    old.change(&values(&["x"]), MetricChange::Set(7.0)).unwrap();
    for value in ["1", "2", "3", "4"] {
        new.change(&values(&["x", value]), MetricChange::Add(1.0)).unwrap();
    }
    assert!(new.change(&values(&["x", "5"]), MetricChange::Add(1.0)).is_err());
    let shown = page(&all);
    assert!(shown.contains("# TYPE plugin_p__n counter") && !shown.contains("7.0"), "{shown}");
    // Names that are in use no more make room.
    for n in 1..MAX_METRICS {
        metrics.declare(spec(MetricKind::Gauge, &format!("g{n}"), &[]), 2, 4).unwrap();
    }
    assert!(metrics.declare(spec(MetricKind::Gauge, "more", &[]), 2, 4).is_err());
    metrics.declare(spec(MetricKind::Gauge, "g1", &[]), 3, 4).unwrap();
    metrics.declare(spec(MetricKind::Gauge, "more", &[]), 3, 4).unwrap();
    assert!(metrics.metrics.lock().contains_key("g1"));
}

#[test]
fn a_histogram_has_as_many_series_as_it_has_lines() {
    let all = AllGuestMetrics::default();
    let metrics = all.of("p");
    let mut wanted = spec(MetricKind::Histogram, "h", &["l"]);
    wanted.buckets = vec![1.0, 2.0];
    let histogram = metrics.declare(wanted, 1, 11).unwrap();
    for value in ["a", "b"] {
        histogram.change(&values(&[value]), MetricChange::Observe(1.0)).unwrap();
    }
    assert_eq!(page(&all).lines().filter(|line| line.starts_with("plugin_p__h")).count(), 10);
    let over = histogram.change(&values(&["c"]), MetricChange::Observe(1.0)).unwrap_err();
    assert!(over.message.contains("may have 11 series"), "{}", over.message);
    histogram.change(&values(&["a"]), MetricChange::Remove).unwrap();
    histogram.change(&values(&["c"]), MetricChange::Observe(1.0)).unwrap();
}
