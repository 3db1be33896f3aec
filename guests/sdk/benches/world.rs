//! What a test of a reconcile costs: `cargo bench -p pilothouse-sdk --bench world`. With `cargo test` each measure is taken
//! once, to see that it works.

#[path = "../tests/foo/mod.rs"]
mod foo;

use std::time::Instant;

use foo::{Foo, FooController};
use pilothouse_sdk::prelude::*;
use pilothouse_sdk::testing::World;

/// A whole test: a world, a Foo, its Deployment, finalizer, status and Event.
fn whole() -> usize {
    let world = World::of::<FooController>(json!({}));
    let mut controller = world.start::<FooController>();
    world.create(&Foo::new(&Key::namespaced("default", "a"), 2));
    world.settle(&mut controller).len()
}

fn measure(name: &str, count: u32, mut run: impl FnMut()) {
    let began = Instant::now();
    for _ in 0..count {
        run();
    }
    let microseconds = began.elapsed().as_secs_f64() * 1e6 / f64::from(count);
    eprintln!("{name}: {microseconds:.1} µs");
}

fn main() {
    let count = if std::env::args().any(|argument| argument == "--bench") { 2_000 } else { 1 };
    measure("a world, a Foo and all that its controller makes of it", count, || assert!(whole() > 0));

    let world = World::of::<FooController>(json!({}));
    let mut controller = world.start::<FooController>();
    let key = Key::namespaced("default", "a");
    world.create(&Foo::new(&key, 2));
    world.settle(&mut controller);
    world.take_writes();
    measure("a reconcile that has nothing to write", count, || {
        world.enqueue(&key);
        assert_eq!(world.settle(&mut controller).len(), 1);
    });
    assert_eq!(world.take_writes(), []);
}
