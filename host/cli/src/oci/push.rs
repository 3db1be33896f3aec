//! `pilothouse push`: pushes a component to an OCI registry, and attaches its SBOM.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use pilothouse_plugin::OciRepository;
use pilothouse_plugin::directory::digest_of;
use pilothouse_registry::{ComponentWorld, Document};
use serde::Deserialize;
use wasmparser::Parser;

use super::{RegistryArgs, read};
use crate::inspect::{self, interfaces::Interfaces};
use crate::output::print;

const EXAMPLES: &str = "Examples:
  # A component; what is printed is spec.source of a Plugin
  pilothouse push web.wasm oci://registry.example.com/team/web:v1

  # With an SBOM, and with a login
  pilothouse push web.wasm oci://registry.example.com/team/web:v1 --sbom sbom.json --docker-config config.json

  # A registry on this machine, which has no TLS
  pilothouse push web.wasm oci://127.0.0.1:5000/web --component-hosts http://127.0.0.1:5000";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Push {
    /// Component (.wasm)
    #[arg(value_name = "FILE")]
    component: PathBuf,
    /// Where to, as oci://REGISTRY/REPOSITORY[:TAG]
    #[arg(value_name = "TARGET", value_parser = OciRepository::parse_tagged)]
    target: Target,
    /// SBOM to attach: CycloneDX or SPDX in JSON
    #[arg(long, value_name = "FILE")]
    sbom: Option<PathBuf>,
    #[command(flatten)]
    registry: RegistryArgs,
}

/// A repository, and the tag of what is pushed.
type Target = (OciRepository, Option<String>);

impl Push {
    pub(crate) fn main(self) -> Result<()> {
        inspect::run(self.push())
    }

    async fn push(self) -> Result<()> {
        let component = read(&self.component)?;
        if !Parser::is_component(&component) {
            bail!("{} is no component; build one with `pilothouse build`", self.component.display());
        }
        let sbom = self.sbom.as_ref().map(|file| -> Result<_> {
            let text = read(file)?;
            let media_type = document_type(&text).with_context(|| format!("--sbom: {}", file.display()))?;
            Ok(Document { media_type, content: text.into() })
        });
        let sbom = sbom.transpose()?;
        let Interfaces { exports, imports, .. } = Interfaces::of(&component);
        let world =
            ComponentWorld { exports, imports: imports.into_iter().map(|import| import.name).collect() };
        let (repository, tag) = self.target;
        let mut registry = self.registry.registry(repository.clone())?;
        let digest = digest_of(&component);
        let pushed = registry.push(component.into(), &world, tag.as_deref(), sbom).await?;
        let reference = repository.at(&pushed.digest).map_err(anyhow::Error::msg)?;
        print(&format!("source:\n  oci: \"{reference}\"\n  digest: \"{digest}\"\n"))
    }
}

/// The media type of an SBOM.
fn document_type(text: &[u8]) -> Result<&'static str> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Sbom {
        bom_format: Option<String>,
        spdx_version: Option<String>,
    }
    let Sbom { bom_format, spdx_version } = serde_json::from_slice(text).context("it is no JSON object")?;
    match (bom_format.as_deref(), spdx_version) {
        (Some("CycloneDX"), _) => Ok("application/vnd.cyclonedx+json"),
        (_, Some(_)) => Ok("application/spdx+json"),
        _ => bail!("it is neither CycloneDX nor SPDX in JSON; cargo-cyclonedx writes such a document"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_an_sbom_is_read_from_it() {
        let kind = |text: &str| document_type(text.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(
            kind(r#"{"bomFormat":"CycloneDX","specVersion":"1.6"}"#),
            Ok("application/vnd.cyclonedx+json")
        );
        assert_eq!(kind(r#"{"spdxVersion":"SPDX-2.3"}"#), Ok("application/spdx+json"));
        for text in ["{}", r#"{"bomFormat":"other"}"#, "bom"] {
            assert!(kind(text).is_err(), "{text}");
        }
    }
}
