//! What each mode does in a reconcile.

use std::hint::black_box;
use std::thread;
use std::time::Instant;

use pilothouse_sdk::prelude::*;
use pilothouse_sdk::serde_json::Value;

use crate::settings::{Mode, Settings};
use crate::{request, snoop};

/// How much is allocated at a time.
const BITE: usize = 1 << 20;

pub(crate) fn run(settings: &Settings, request: &Request) -> Result<Outcome, Failure> {
    match settings.mode {
        Mode::Trap => panic!("the probe was told to panic at {}", request.key),
        Mode::Spin => spin(),
        Mode::Hog => hog(),
        Mode::Block => block(settings),
        Mode::Write => write(settings),
        Mode::Read => read(settings),
        Mode::List => list(settings),
        Mode::Rewrite => rewrite(settings, &request.key),
        Mode::Await => {
            for _ in 0..settings.count.unwrap_or(1) {
                cache::wait_for_writes(Duration::from_millis(settings.milliseconds));
            }
            Ok(Outcome::Done)
        }
        Mode::Fail => fail(settings, request.attempt),
        Mode::Terminal => Err(Failure::terminal("the probe was told to fail for good")),
        Mode::RequeueAfter => {
            Ok(Outcome::RequeueAfter(settings.delay()?.ok_or("the mode `requeue-after` needs a `delay`")?))
        }
        Mode::Snoop => {
            let (kind, key) = settings.target()?;
            snoop::run(&kind, &key);
            Ok(Outcome::Done)
        }
        Mode::Http => request::run(settings),
        Mode::Slow => {
            stay_busy(Duration::from_millis(settings.milliseconds));
            Ok(Outcome::Done)
        }
        Mode::Flood => {
            for n in 0..settings.count.unwrap_or(1) {
                queue::add_after(&Key::cluster(format!("flood-{n}")), Duration::from_secs(3600));
            }
            Ok(Outcome::Done)
        }
        Mode::Sleep => {
            thread::sleep(Duration::from_millis(settings.milliseconds));
            Ok(Outcome::Done)
        }
        Mode::Log | Mode::DescribeError | Mode::DescribeUnknown | Mode::DescribeTrap => Ok(Outcome::Done),
    }
}

fn spin() -> ! {
    let mut turns: u64 = 0;
    loop {
        // Otherwise the compiler might take the loop out.
        turns = black_box(turns.wrapping_add(1));
    }
}

fn hog() -> ! {
    let mut eaten = Vec::new();
    loop {
        // Written to, so that the memory is really used.
        eaten.push(black_box(vec![1_u8; BITE]));
    }
}

fn block(settings: &Settings) -> Result<Outcome, Failure> {
    let (kind, key) = settings.target()?;
    client::get_opt(&kind, &key)?;
    Ok(Outcome::Done)
}

/// Does next to nothing itself: what it costs is the host's work.
fn read(settings: &Settings) -> Result<Outcome, Failure> {
    let (kind, key) = settings.target()?;
    loop {
        let last = cache::get(&kind, &key)?.and_then(|object| object.get_json("/data/last"));
        black_box(last);
    }
}

fn list(settings: &Settings) -> Result<Outcome, Failure> {
    let mut objects = cache::list(&settings.kind.parse()?, &Query::all())?;
    let all = objects.len();
    let taken = objects.by_ref().take(settings.count.unwrap_or(1) as usize).count();
    info!("listed", all = all, taken = taken, remain = objects.len());
    Ok(Outcome::Done)
}

fn rewrite(settings: &Settings, key: &Key) -> Result<Outcome, Failure> {
    let kind = settings.kind.parse()?;
    let Some(object) = cache::get(&kind, key)? else { return Ok(Outcome::Done) };
    let (partial, data) = (object.is_partial(), object.get_json("/data").unwrap_or_default());
    match client::update(&kind, &object.parse::<Value>()?, &WriteOptions::default()) {
        Ok(_) => info!("rewrote", partial = partial, data = data, reason = "ok"),
        Err(error) => {
            info!("rewrote", partial = partial, data = data, reason = error.reason, message = error.message);
        }
    }
    Ok(Outcome::Done)
}

fn write(settings: &Settings) -> Result<Outcome, Failure> {
    let (kind, key) = settings.target()?;
    let patch = json!({"metadata": {"labels": {"probe": "was-here"}}});
    client::patch_merge(&kind, &key, &patch, &WriteOptions::default())?;
    Ok(Outcome::Done)
}

fn fail(settings: &Settings, attempt: u32) -> Result<Outcome, Failure> {
    if settings.count.is_some_and(|count| attempt >= count) {
        return Ok(Outcome::Done);
    }
    let failure = Failure::transient(format!("the probe was told to fail, attempt {attempt}"));
    Err(match settings.delay()? {
        Some(delay) => failure.retry_after(delay),
        None => failure,
    })
}

pub(crate) fn stay_busy(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {}
}
