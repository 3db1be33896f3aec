//! Components in OCI registries: `pilothouse pull`, and the flags of `run` for signatures. Only with the Cargo feature `oci`.

pub(crate) mod pull;
pub(crate) mod signatures;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use pilothouse_engine::HostClient;
use pilothouse_plugin::{ComponentHost, ComponentHosts, ComponentUrl, OciRepository};
use pilothouse_registry::{Login, Registry};
use tokio::runtime::Handle;

/// The time of all requests of a command: 16 MiB at half a megabit a second.
const TIME: Duration = Duration::from_secs(300);

/// The flags for a registry.
#[derive(Args)]
pub(crate) struct RegistryArgs {
    /// File with the login of the registry, as `docker login` writes it
    #[arg(long, value_name = "FILE")]
    docker_config: Option<PathBuf>,
    /// Hosts that the registry may send to, for tokens and layers, as HOST[:PORT]; http://HOST[:PORT] for a registry without TLS;
    /// separated by commas [default: the registry alone]
    #[arg(long, value_name = "HOSTS", value_delimiter = ',', value_parser = ComponentHost::parse)]
    component_hosts: Vec<ComponentHost>,
}

impl RegistryArgs {
    /// A repository of the registry. Must be called within a runtime.
    pub(crate) fn registry(self, repository: OciRepository) -> Result<Registry> {
        let name = repository.registry();
        let login = match &self.docker_config {
            None => None,
            Some(file) => {
                let login = Login::of_docker_config(&read(file)?, &repository);
                Some(login.with_context(|| format!("--docker-config: {}: {name}", file.display()))?)
            }
        };
        let hosts = with_registry(self.component_hosts, name)?;
        let user_agent = format!("pilothouse/{}", env!("CARGO_PKG_VERSION"));
        let client = HostClient::new(user_agent, TIME, Handle::current());
        Ok(Registry::new(client, repository, hosts, login, "--docker-config")?)
    }
}

/// The hosts, and the registry itself unless one of them is it: then the entry says whether it has TLS.
fn with_registry(mut hosts: Vec<ComponentHost>, registry: &str) -> Result<ComponentHosts> {
    let listed: ComponentHosts = hosts.iter().cloned().collect();
    let urls = ["https", "http"].map(|scheme| ComponentUrl::parse(&format!("{scheme}://{registry}")));
    if !urls.iter().flatten().any(|url| listed.of(url).is_some()) {
        hosts.push(ComponentHost::parse(registry).map_err(anyhow::Error::msg)?);
    }
    Ok(hosts.into_iter().collect())
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("reading {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_is_asked_with_tls_unless_an_entry_says_otherwise() {
        let allowed = |entries: &[&str], url: &str| {
            let entries = entries.iter().map(|entry| ComponentHost::parse(entry).unwrap()).collect();
            let hosts = with_registry(entries, "r.example:5000").unwrap();
            hosts.of(&ComponentUrl::parse(url).unwrap()).is_some()
        };
        for (entries, url, wanted) in [
            (&[] as &[&str], "https://r.example:5000/", true),
            (&[], "http://r.example:5000/", false),
            (&["storage.example"], "https://r.example:5000/", true),
            (&["storage.example"], "https://storage.example/", true),
            (&["http://r.example:5000"], "http://r.example:5000/", true),
            (&["http://r.example:5000"], "https://r.example:5000/", false),
        ] {
            assert_eq!(allowed(entries, url), wanted, "{entries:?} {url}");
        }
    }
}
