//! `pilothouse top`: what the plugins of a running host do and use, again and again.
//!
//! Each interval is the difference of two answers of the host, by the host's own clock ([`rates`]). On a terminal the table is
//! drawn again in place ([`screen`]); elsewhere each interval is a table, or a line of JSON.

mod rates;
mod screen;

use std::io::IsTerminal as _;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use pilothouse_manager::UsageList;
use tokio::time::sleep;

use self::rates::{Column, Rates, rates};
use self::screen::{Quit, Screen};
use crate::admin_client::{AdminArgs, NOT_A_HOST};
use crate::table::{OutputFormat, printable};
use pilothouse_hosting::output;
use pilothouse_hosting::signals::Signals;

const EXAMPLES: &str = "Examples:
  # The plugins of the host on this machine, those that use most CPU time first; q and Enter, or Ctrl-C, ends it
  pilothouse top

  # Those with most failures first, every ten seconds
  pilothouse top --sort failures --interval 10

  # The rates of one interval, for a script
  pilothouse top --once -o json";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Top {
    #[command(flatten)]
    admin: AdminArgs,
    /// Column to sort by
    #[arg(long, value_enum, default_value_t = Column::Cpu)]
    sort: Column,
    /// Seconds between two looks at the host
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// Print one interval and end
    #[arg(long)]
    once: bool,
    /// Output format; JSON is an object on one line for each interval
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

impl Top {
    pub(crate) fn main(&self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let is_live = !self.once && self.output == OutputFormat::Table && std::io::stdout().is_terminal();
        runtime.block_on(async {
            let mut signals = Signals::catch()?;
            let showing = async { if is_live { self.show().await } else { self.print().await } };
            tokio::select! {
                shown = showing => shown,
                () = signals.next() => Ok(()),
            }
        })
    }

    async fn ask(&self) -> Result<UsageList> {
        let body = self.admin.get("/plugins?usage=true").await?;
        serde_json::from_slice(&body).context(NOT_A_HOST)
    }

    async fn pause(&self) {
        sleep(Duration::from_secs(self.interval)).await;
    }

    /// What was done since `before`, and the answer that says it.
    async fn since(&self, before: &UsageList) -> Result<(Rates, UsageList)> {
        let after = self.ask().await?;
        let mut rates = rates(before, &after);
        rates.sort_by(self.sort);
        Ok((rates, after))
    }

    /// Prints interval after interval, for as long as somebody reads.
    async fn print(&self) -> Result<()> {
        let mut before = self.ask().await?;
        loop {
            self.pause().await;
            let (rates, after) = self.since(&before).await?;
            let text = match self.output {
                OutputFormat::Json => serde_json::to_string(&rates)? + "\n",
                OutputFormat::Table => screen::summary(&rates, &after) + "\n" + &screen::table(&rates),
            };
            if !output::print_on(&text)? || self.once {
                return Ok(());
            }
            before = after;
        }
    }

    /// Draws the last interval in place. A host that does not answer any more may do so again.
    async fn show(&self) -> Result<()> {
        let mut before = self.ask().await?;
        let mut quit = Quit::listen();
        let mut screen = Screen::take()?;
        screen.draw("reading…\n")?;
        loop {
            tokio::select! {
                () = self.pause() => {}
                () = quit.pressed() => return Ok(()),
            }
            let since = tokio::select! {
                since = self.since(&before) => since,
                () = quit.pressed() => return Ok(()),
            };
            match since {
                Ok((rates, after)) => {
                    screen.draw(&(screen::summary(&rates, &after) + "\n\n" + &screen::table(&rates)))?;
                    before = after;
                }
                Err(error) => {
                    let error = printable(&format!("{error:#}"));
                    screen.draw(&format!("{error}\ntrying again; q and Enter ends this\n"))?;
                }
            }
        }
    }
}
