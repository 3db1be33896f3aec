//! Prints every resource that the server of the current kubeconfig serves, as `kubectl api-resources -o wide` does, and
//! names the groups that could not be asked.
//!
//! ```text
//! cargo run -p pilothouse-client --features discovery-disk --example discovery             asks the server
//! cargo run -p pilothouse-client --features discovery-disk --example discovery -- --cached uses ~/.kube/cache, which kubectl shares
//! ```

use std::io::{self, Write as _};
use std::process::ExitCode;

use pilothouse_client::{ApiResource, CachedDiscovery, Client, ClientOptions, DiskCacheOptions};

const HEADER: [&str; 7] = ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND", "VERBS", "CATEGORIES"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(std::env::args().any(|argument| argument == "--cached")).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Whether all groups could be asked.
async fn run(cached: bool) -> Result<bool, Box<dyn std::error::Error>> {
    let discovery = Client::new(ClientOptions::default()).await?.discovery();
    let all = if cached {
        CachedDiscovery::on_disk(discovery, &DiskCacheOptions::default()).groups_and_resources().await?
    } else {
        discovery.groups_and_resources().await?
    };
    let complete = all.failed.is_empty();
    for failed in &all.failed {
        complain(&failed.to_string());
    }
    let preferred = all.preferred();
    let mut resources: Vec<&ApiResource> = preferred.iter().filter(|r| !r.verbs.is_empty()).collect();
    resources.sort_by_key(|resource| (&resource.gvk.group, &resource.plural));
    let rows = resources.into_iter().map(|resource| {
        [
            resource.plural.clone(),
            resource.short_names.join(","),
            resource.gvk.api_version(),
            resource.namespaced.to_string(),
            resource.gvk.kind.clone(),
            resource.verbs.join(","),
            resource.categories.join(","),
        ]
    });
    print(&std::iter::once(HEADER.map(str::to_owned)).chain(rows).collect::<Vec<_>>())?;
    Ok(complete)
}

/// Columns as wide as their widest cell and three spaces; the last one as it is.
fn print(rows: &[[String; 7]]) -> io::Result<()> {
    let width = |column: usize| rows.iter().map(|row| row[column].len() + 3).max().unwrap_or_default();
    let widths: Vec<usize> = (0..HEADER.len()).map(width).collect();
    let mut out = io::stdout().lock();
    for row in rows {
        let (last, cells) = row.split_last().unwrap_or((&row[0], &[]));
        for (cell, width) in cells.iter().zip(&widths) {
            write!(out, "{cell:width$}")?;
        }
        writeln!(out, "{last}")?;
    }
    out.flush()
}

fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "error: {message}");
}
