//! [`download`]: a GET of the host itself, with the checks and bounds of the requests of plugins: the address that is checked is
//! the one that is connected to, no redirect is followed, and the answer has a maximum size.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::{BodyExt as _, Empty};
use pilothouse_plugin::OutgoingHosts;
use tokio::runtime::Handle;
use tokio::time::Instant;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use super::client::{ExchangeLimits, HttpClient, HttpClientOptions, HttpObserver, HttpResult, RequestError};
use super::resolve::SystemResolver;

/// The time of the whole exchange: 16 MiB at a third of a megabyte a second.
const DEADLINE: Duration = Duration::from_secs(60);
/// Requests of one client a second. It makes one.
const QPS: f64 = 1.0;

/// Nobody counts the requests of the host.
struct Uncounted;

impl HttpObserver for Uncounted {
    fn request(&self, _: HttpResult) {}
    fn moved(&self, _: u64, _: u64) {}
}

/// Fetches what is at a URL of one of these hosts, and hands it to `take` piece by piece. It may have 16 MiB and take a minute.
/// Connections are tasks on `runtime`.
///
/// # Errors
/// The reason: the URL, the host, the address, the connection, the status of the answer, or what `take` says.
pub async fn download(
    url: &str,
    hosts: OutgoingHosts,
    user_agent: String,
    runtime: &Handle,
    mut take: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let client = HttpClient::new(HttpClientOptions {
        plugin: "a component".into(),
        hosts,
        qps: QPS,
        user_agent,
        resolver: Arc::new(SystemResolver),
        runtime: runtime.clone(),
        observer: Arc::new(Uncounted),
    });
    let uri: Uri = url.parse().map_err(|error| format!("it is no URL: {error}"))?;
    let body: WasiBody = Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync();
    let mut request = Request::new(body);
    *request.uri_mut() = uri;
    let to = client.check(&request).map_err(|refused| reason(&refused))?;
    let limits = ExchangeLimits::new(RequestOptions::default(), Instant::now() + DEADLINE);
    // The body of the request ends with it, and is empty.
    let lives = Arc::new(());
    let answer = client.send(to, request, limits, Arc::downgrade(&lives)).await;
    let answer = answer.map_err(|failed| reason(&failed))?;
    if !answer.status().is_success() {
        let is_redirect = answer.status().is_redirection();
        let remedy =
            if is_redirect { "; redirects are not followed: name the URL that it leads to" } else { "" };
        return Err(format!("the server answered {}{remedy}", answer.status()));
    }
    let mut body = answer.into_body();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| reason(&error.into()))?;
        if let Some(bytes) = frame.data_ref() {
            take(bytes)?;
        }
    }
    Ok(())
}

fn reason(failed: &RequestError) -> String {
    match &failed.error {
        Error::DestinationIpProhibited => {
            "it leads to an address of the host itself, of its link, or of a cloud's metadata service"
                .to_owned()
        }
        Error::HttpRequestDenied => "its host is not allowed".to_owned(),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_plugin::{ComponentHost, ComponentHosts, ComponentUrl};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// A server that gives each connection this answer; its address.
    async fn server(answer: Vec<u8>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(&answer).await;
            }
        });
        address
    }

    fn answer(head: &str, body: &[u8]) -> Vec<u8> {
        [format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
    }

    /// What is at a path of a server, if this entry allows it.
    async fn fetched(address: &str, entry: &str) -> Result<Vec<u8>, String> {
        let hosts: ComponentHosts = [ComponentHost::parse(entry).unwrap()].into_iter().collect();
        let url = ComponentUrl::parse(&format!("http://{address}/a.wasm")).unwrap();
        let hosts = hosts.of(&url).ok_or("not allowed")?;
        let mut content = Vec::new();
        let take = |bytes: &[u8]| {
            content.extend_from_slice(bytes);
            Ok(())
        };
        download(&url.to_string(), hosts.clone(), "test".to_owned(), &Handle::current(), take).await?;
        Ok(content)
    }

    #[tokio::test]
    async fn what_a_server_of_the_list_sends_is_handed_over_piece_by_piece() {
        let content: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[1]).collect();
        let address = server(answer("200 OK", &content)).await;
        assert!(fetched(&address, &format!("http://{address}")).await.unwrap() == content);
        assert_eq!(fetched(&address, &address).await.unwrap_err(), "not allowed", "an entry for HTTPS");
    }

    #[tokio::test]
    async fn a_redirect_and_an_error_are_no_component() {
        for (head, words) in [
            ("302 Found\r\nlocation: http://evil.example/", "answered 302 Found; redirects are not followed"),
            ("404 Not Found", "the server answered 404 Not Found"),
        ] {
            let address = server(answer(head, b"text")).await;
            let error = fetched(&address, &format!("http://{address}")).await.unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[tokio::test]
    async fn what_is_too_large_is_not_fetched() {
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 999999999\r\n\r\n";
        let address = server(head.into()).await;
        assert!(fetched(&address, &format!("http://{address}")).await.is_err());
    }
}
