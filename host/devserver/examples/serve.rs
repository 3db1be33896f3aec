//! The server alone, for a look at it: `cargo run -p pilothouse-devserver --example serve -- [PORT] [OBJECTS]`.

use std::error::Error;
use std::io::Write as _;
use std::path::Path;

use pilothouse_devserver::{DevServer, DevServerOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let mut options = DevServerOptions::default();
    if let Some(port) = args.next() {
        options.listen.set_port(port.parse()?);
    }
    let server = DevServer::start(options).await?;
    if let Some(objects) = args.next() {
        server.seed(Path::new(&objects))?;
    }
    writeln!(std::io::stdout(), "{}", server.kubeconfig())?;
    tokio::signal::ctrl_c().await?;
    server.shutdown().await;
    Ok(())
}
