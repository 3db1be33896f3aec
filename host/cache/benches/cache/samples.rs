//! Pods and events as the replay server makes them, within this process.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use pilothouse_bench::peers;
use pilothouse_client::WatchEvent;
use pilothouse_object::Object;

use crate::client::pods;

/// Calls `line` with what `peers dump` writes.
fn dump(args: &[String], mut line: impl FnMut(&[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut child = Command::new(peers::go()?)
        .arg("dump")
        .args(args)
        .stdout(Stdio::piped())
        .spawn()
        .context("peers dump")?;
    let mut out = BufReader::with_capacity(1 << 20, child.stdout.take().context("no output")?);
    let mut buffer = Vec::new();
    while out.read_until(b'\n', &mut buffer)? > 0 {
        line(&buffer)?;
        buffer.clear();
    }
    ensure!(child.wait()?.success(), "peers dump failed");
    Ok(())
}

/// So many pods.
pub(crate) fn objects(count: usize) -> anyhow::Result<Vec<Object>> {
    let kind = pods().gvk;
    let mut objects = Vec::with_capacity(count);
    dump(&["-objects".to_owned(), count.to_string()], |line| {
        objects.push(Object::decode_as(line, &kind)?);
        Ok(())
    })?;
    Ok(objects)
}

/// Lines of a watch, without their breaks: each of so many pods changes in turn.
pub(crate) fn event_lines(objects: usize, events: usize) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut lines = Vec::with_capacity(events);
    let args = ["-objects".to_owned(), objects.to_string(), "-events".to_owned(), events.to_string()];
    dump(&args, |line| {
        lines.push(line.trim_ascii_end().to_vec());
        Ok(())
    })?;
    Ok(lines)
}

/// A later version of each of so many pods.
pub(crate) fn changed(objects: usize) -> anyhow::Result<Vec<Object>> {
    let kind = pods().gvk;
    let mut changed = Vec::with_capacity(objects);
    let args = ["-objects".to_owned(), objects.to_string(), "-events".to_owned(), objects.to_string()];
    dump(&args, |line| {
        if let WatchEvent::Modified(object) = WatchEvent::decode(line.trim_ascii_end(), &kind)? {
            changed.push(object);
        }
        Ok(())
    })?;
    ensure!(changed.len() == objects, "{} of {objects} pods changed", changed.len());
    Ok(changed)
}
