//! `pilothouse compile`: fills the compile cache before a host starts, as for an image.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use pilothouse_hosting::hosting::default_cache_dir;
use pilothouse_hosting::inspect::{self, Inspector};
use pilothouse_hosting::output::{complain, print, size};

const EXAMPLES: &str = "Examples:
  # The components of a plugin directory, into the cache that `run` uses
  pilothouse compile plugins

  # In the build of an image, as the user that the host runs as
  pilothouse compile /plugins --cache-dir /var/cache/pilothouse";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Compile {
    /// Components (.wasm), and directories of them
    #[arg(value_name = "FILE|DIR", required = true)]
    paths: Vec<PathBuf>,
    /// Directory of compiled plugins, private to this user [default: $XDG_CACHE_HOME/pilothouse or ~/.cache/pilothouse]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
}

impl Compile {
    pub(crate) fn main(self) -> Result<()> {
        inspect::run(self.compile())
    }

    async fn compile(self) -> Result<()> {
        let cache_dir = self.cache_dir.map_or_else(default_cache_dir, Ok)?;
        let components = components(&self.paths)?;
        let inspector = Inspector::new(cache_dir.clone())?;
        let mut failed = 0;
        for path in &components {
            match compile(&inspector, path, &cache_dir).await {
                Ok(outcome) => print(&format!("{}: {outcome}\n", path.display()))?,
                Err(error) => {
                    failed += 1;
                    complain(&format!("{}: {error:#}", path.display()));
                }
            }
        }
        if failed > 0 {
            bail!("{failed} of {} components are not compiled, see above", components.len());
        }
        Ok(())
    }
}

/// Compiles one component unless the cache has it, and says which it was.
async fn compile(inspector: &Inspector, path: &Path, cache_dir: &Path) -> Result<String> {
    let wasm =
        fs::read(path).context("it cannot be read; name a component (.wasm) or a directory of them")?;
    let before = entries(cache_dir)?;
    let begin = Instant::now();
    inspector.prepare(wasm).await?;
    let mut new = Vec::from_iter(entries(cache_dir)?.difference(&before).cloned());
    new.retain(|path| path.extension().is_some_and(|ending| ending == "cwasm"));
    Ok(match new.first() {
        None => "in the cache".to_owned(),
        Some(code) => {
            let bytes = fs::metadata(code).map_or(0, |code| code.len());
            format!("compiled in {:.1} s, {} of machine code", begin.elapsed().as_secs_f64(), size(bytes))
        }
    })
}

/// The files of the cache.
fn entries(cache_dir: &Path) -> Result<BTreeSet<PathBuf>> {
    let compiled = cache_dir.join("compiled");
    let entries = fs::read_dir(&compiled).with_context(|| format!("reading {}", compiled.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

/// The components of all paths, in their order, each once.
fn components(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut components = Vec::new();
    for path in paths {
        if !path.is_dir() {
            components.push(path.clone());
            continue;
        }
        let entries = fs::read_dir(path)
            .with_context(|| format!("{} cannot be read; name a directory of components", path.display()))?;
        let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        found.retain(|path| {
            let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
            !hidden && path.extension().is_some_and(|ending| ending == "wasm")
        });
        if found.is_empty() {
            bail!("{} has no component: name a directory with .wasm files in it, or a file", path.display());
        }
        found.sort();
        components.extend(found);
    }
    let mut seen = BTreeSet::new();
    components.retain(|path| seen.insert(path.clone()));
    Ok(components)
}
