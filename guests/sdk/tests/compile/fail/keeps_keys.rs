//! An iterator over keys, the values of an index and the context of a cluster, kept beyond their call.

use pilothouse_sdk::InCluster;
use pilothouse_sdk::cache::{IndexValues, Keys};
use pilothouse_sdk::prelude::*;

const POD: Kind = Kind::core("v1", "Pod");

struct Keeper {
    keys: Option<Keys<'static>>,
    values: Option<IndexValues<'static>>,
    cluster: Option<InCluster<'static>>,
}

impl Keeper {
    fn keep(&mut self, ctx: &Context) -> Result<(), Failure> {
        self.keys = Some(ctx.cache().keys(&POD, &Query::all())?);
        Ok(())
    }

    fn keep_values(&mut self, ctx: &Context) -> Result<(), Failure> {
        self.values = Some(ctx.cache().index_values(&POD, "by-node")?);
        Ok(())
    }

    fn keep_cluster(&mut self, ctx: &Context) {
        self.cluster = Some(ctx.in_cluster(1));
    }
}

fn main() {}
