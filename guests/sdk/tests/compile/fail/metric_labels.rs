//! A metric with more values than labels.

use pilothouse_sdk::prelude::*;

static SENT: Counter<1> = Counter::new("sent_total", "Sent.", ["result"]);

fn sent(ctx: &Context) {
    SENT.inc(ctx, ["ok", "web"]);
}

fn main() {}
