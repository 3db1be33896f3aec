//! A type that is no kind of objects.

use pilothouse_sdk::prelude::*;

#[derive(Serialize, Deserialize)]
struct Pod {
    metadata: Metadata,
}

fn read(ctx: &Context, key: &Key) -> Result<Option<Pod>, Error> {
    ctx.get::<Pod>(key)
}

fn main() {}
