//! `pilothouse pull`: fetches a component from an OCI registry, for a plugin directory.

use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use pilothouse_plugin::OciReference;

use super::RegistryArgs;
use super::signatures::read_keys;
use pilothouse_hosting::inspect;
use pilothouse_hosting::output::{print, size};
use pilothouse_hosting::put::put;

const EXAMPLES: &str = "Examples:
  # A component into a plugin directory, as oci://REGISTRY/REPOSITORY@sha256:DIGITS
  pilothouse pull $ARTIFACT --out plugins/web.wasm

  # One that a key has signed
  pilothouse pull $ARTIFACT --out plugins/web.wasm --signature-key cosign.pub";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Pull {
    /// The artifact, as oci://REGISTRY/REPOSITORY@sha256:DIGITS
    reference: String,
    /// File for the component; a host that watches the directory sees it whole
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// File with public keys in PEM, as cosign.pub, of which one has to have signed the artifact; may be repeated
    #[arg(long, value_name = "FILE")]
    signature_key: Vec<PathBuf>,
    #[command(flatten)]
    registry: RegistryArgs,
}

impl Pull {
    pub(crate) fn main(self) -> Result<()> {
        inspect::run(self.pull())
    }

    async fn pull(self) -> Result<()> {
        let Self { reference, out, signature_key, registry } = self;
        let reference = OciReference::parse(&reference).map_err(|reason| {
            anyhow!("{reference:?}: {reason}; name the artifact as oci://REGISTRY/REPOSITORY@sha256:DIGITS")
        })?;
        let keys = read_keys(&signature_key)?;
        let mut registry = registry.registry(reference.repository().clone())?;
        let of_artifact = || reference.to_string();
        let artifact = registry.artifact(reference.digest()).await.with_context(of_artifact)?;
        if !signature_key.is_empty() {
            registry.verify(reference.digest(), &keys).await.with_context(of_artifact)?;
        }
        let layer = artifact.component(None).with_context(of_artifact)?;
        let component = registry.layer_content(layer).await.with_context(of_artifact)?;
        put(&out, &component)?;
        print(&format!("{}: {}, {}\n", out.display(), size(layer.size), layer.digest))
    }
}
