//! [`download`]: a GET of the host itself, through its [`HostClient`].

use bytes::Bytes;
use http::Request;
use pilothouse_plugin::OutgoingHosts;
use tokio::runtime::Handle;

use super::host_client::HostClient;

/// Fetches what is at a URL of one of these hosts, and hands it to `take` piece by piece. It may have 16 MiB and take a minute.
/// Connections are tasks on `runtime`.
///
/// # Errors
/// The reason: the URL, the host, the address, the connection, the status of the answer, or what `take` says.
pub async fn download(
    url: &str,
    hosts: OutgoingHosts,
    user_agent: String,
    runtime: Handle,
    take: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let request = Request::get(url).body(Bytes::new()).map_err(|error| format!("it is no URL: {error}"))?;
    let response =
        HostClient::new(user_agent, HostClient::COMPONENT_TIME, runtime).send(request, hosts).await?;
    let status = response.status();
    if !status.is_success() {
        let remedy = if status.is_redirection() {
            "; redirects are not followed: name the URL that it leads to"
        } else {
            ""
        };
        return Err(format!("the server answered {status}{remedy}"));
    }
    response.read(take).await
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
        download(&url.to_string(), hosts.clone(), "test".to_owned(), Handle::current(), take).await?;
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
        let error = fetched(&address, &format!("http://{address}")).await.unwrap_err();
        assert_eq!(error, "HTTP response body size exceeds limit: 999999999 bytes");
    }
}
