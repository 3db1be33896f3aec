//! What docs/devserver.md shows of faults is taken by the server, and its Rust is the code below.

use anyhow::{Context, Result, ensure};
use pilothouse_devserver::{DevServer, DevServerOptions, Fault, FaultRule, When};
use pilothouse_testkit::documents::blocks_in;

use super::client::Cluster;

const PAGE: &str = "docs/devserver.md";

#[tokio::test]
async fn the_code_of_the_page_is_this_code() -> Result<()> {
    let server = DevServer::start(DevServerOptions::default()).await?;
    let unavailable = Fault::Status { code: 503, retry_after: Some(2) };
    server.faults().add(FaultRule::on("list", "configmaps", unavailable).when(When::first(3)));
    ensure!(server.faults().list().len() == 1);

    let here: Vec<&str> = include_str!("documents.rs").lines().map(str::trim).collect();
    let shown = blocks_in(PAGE, "rust,ignore")?;
    ensure!(shown.len() == 1, "{shown:?}");
    for line in shown.iter().flat_map(|block| block.lines()) {
        ensure!(here.contains(&line.trim()), "{PAGE} shows a line that is not in this test: {line}");
    }
    Ok(())
}

#[tokio::test]
async fn the_rule_that_the_page_posts_is_taken_with_the_answer_that_it_shows() -> Result<()> {
    let console = blocks_in(PAGE, "console")?;
    let posted =
        console.iter().find(|block| block.contains("localhost:PORT/_faults")).context("no rule is posted")?;
    let (command, answer) = posted.rsplit_once('\n').context("no answer")?;
    let mut quoted = command.split('\'').skip(1).step_by(2);
    let header = quoted.next().and_then(|header| header.split_once(": ")).context("no header")?;
    let rule = quoted.next().context("no body")?.to_owned();
    let said = Cluster::start().await.send("POST", "/_faults", &[header], rule).await;
    ensure!(*said.body == *answer.as_bytes(), "{:?} instead of {answer}", said.body);
    Ok(())
}
