//! The real kube-controller-manager against the development server: its controllers make of users' commands what they make
//! on the real server, object by object, and its log has no errors that it has not there.
//!
//! The same commands go to three servers at the same time: the real one, the development server without controllers of its
//! own that kube-controller-manager has too, and the development server with all of its own beside the others of
//! kube-controller-manager. After each step the objects of all three become equal, whatever the order in which the
//! controllers acted.

mod errors;
mod kubelet;
mod managed;
mod objects;
mod sample;
mod steps;

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use pilothouse_devserver::ControllerSet;
use pilothouse_testkit::poll;
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::full;

use errors::LoggedError;
use managed::ManagedPlane;
use objects::Objects;
use steps::{STEPS, Step};

pilothouse_tests::on_the_real_server!(the_real_controllers_do_the_same_on_the_development_server);

/// Controllers wait between tries, and a CronJob for two minutes.
const SOON: Duration = Duration::from_secs(240);

fn the_real_controllers_do_the_same_on_the_development_server() -> Result<()> {
    let all = ControllerSet::default();
    let none_of_the_real_ones =
        ControllerSet { garbage_collector: false, namespaces: false, volume_protection: false, ..all };
    let others = "*,-garbage-collector-controller,-namespace-controller";
    let development = |own| Options { development_controllers: own, ..Options::on(Server::Development) };
    let planes = [
        ManagedPlane::start("the real server", Options::on(Server::Real), "*")?,
        ManagedPlane::start("the development server", development(none_of_the_real_ones), "*")?,
        ManagedPlane::start("the development server with its own controllers", development(all), others)?,
    ];
    let begin = Instant::now();
    for step in STEPS.iter().filter(|step| full::is_full() || !step.is_slow) {
        play(&planes, step).with_context(|| format!("the step {:?}", step.name))?;
        eprintln!("{:>6.1} s  {}", begin.elapsed().as_secs_f64(), step.name);
    }
    let real = planes[0].errors()?;
    planes[1..].iter().try_for_each(|plane| compare_errors(&real, &plane.errors()?, plane.name))
}

/// Does a step on all servers, and waits until it has had its effect and all have the same objects.
fn play(planes: &[ManagedPlane], step: &Step) -> Result<()> {
    on_all(planes, |plane| plane.run(step.commands, step.manifest))?;
    let names: Vec<&str> = planes.iter().map(|plane| plane.name).collect();
    await_equal(&names, || planes.iter().map(ManagedPlane::objects).collect(), step.until)
}

/// Does something on several servers at the same time.
fn on_all<T: Sync>(servers: &[T], act: impl Fn(&T) -> Result<()> + Sync) -> Result<()> {
    thread::scope(|scope| {
        let running: Vec<_> = servers.iter().map(|server| scope.spawn(|| act(server))).collect();
        running.into_iter().try_for_each(|done| done.join().map_err(|_| anyhow!("a panic"))?)
    })
}

/// Waits until something holds for the objects of each server, and those of all are equal.
fn await_equal(
    names: &[&str],
    mut read: impl FnMut() -> Result<Vec<Objects>>,
    until: impl Fn(&Objects) -> bool,
) -> Result<()> {
    poll::until("equal objects", SOON, || {
        let objects = read()?;
        for (name, objects) in names.iter().zip(&objects) {
            ensure!(until(objects), "{name} has\n{}", objects.summary());
        }
        for (name, other) in names.iter().zip(&objects).skip(1) {
            let difference = objects[0].difference(other);
            ensure!(difference.is_empty(), "{} differs (-) from {name} (+)\n{difference}", names[0]);
        }
        Ok(true)
    })
}

/// The log of a program on one server against its log on the real one.
fn compare_errors(
    real: &BTreeMap<LoggedError, String>,
    other: &BTreeMap<LoggedError, String>,
    name: &str,
) -> Result<()> {
    let is_new = |error: &LoggedError| !real.contains_key(error) && !error.is_race();
    let new: Vec<&String> = other.iter().filter(|(error, _)| is_new(error)).map(|(_, line)| line).collect();
    ensure!(new.is_empty(), "errors on {name} that the real server does not give: {new:#?}");
    Ok(())
}
