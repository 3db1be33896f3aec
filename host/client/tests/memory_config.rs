//! A client from memory, overrides of a kubeconfig, middleware, and a service in place of the transport.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use pilothouse_client::{
    Client, ClientConfig, ClientOptions, ConfigOverrides, Error, Impersonation, ListParams, Middleware,
    RequestBody, ResponseBody, WatchEvent, WatchParams,
};
use tower::{BoxError, service_fn};

use crate::config::has;
use crate::support::{Authority, Kubeconfig, Reply, Server, event, key, page, pod, pods, soon};

async fn with(config: ClientConfig) -> pilothouse_client::Result<Client> {
    Client::new(ClientOptions { config: Some(config), ..ClientOptions::default() }).await
}

#[tokio::test]
async fn a_client_needs_no_file() {
    let authority = Authority::new();
    let server = Server::start_tls(authority.server().0, |_| Reply::json(pod("a", 1))).await;
    let pair = authority.client();
    let config = ClientConfig {
        ca: authority.pem.clone().into_bytes(),
        token: "s3cret".to_owned(),
        client_certificate: pair.certificate.clone().into_bytes(),
        client_key: pair.key.clone().into_bytes(),
        namespace: "mine".to_owned(),
        ..ClientConfig::new(&server.url)
    };
    assert!(!format!("{config:?}").contains("s3cret"));
    let client = with(config.clone()).await.unwrap();
    soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
    let seen = server.only();
    assert_eq!((seen.header("authorization"), seen.peer.clone()), (Some("Bearer s3cret"), Some(pair.der())));
    assert_eq!(client.default_namespace(), "mine");
    let refused = with(ClientConfig { insecure_skip_tls_verify: true, ..config.clone() }).await;
    has(&refused.unwrap_err().to_string(), &["insecure-skip-tls-verify", "certificate-authority"]);
    let both =
        ClientOptions { config: Some(config), server: Some(server.url.clone()), ..ClientOptions::default() };
    has(&Client::new(both).await.unwrap_err().to_string(), &["one of"]);
}

#[tokio::test]
async fn overrides_replace_parts_of_the_context() {
    let server = Server::always(200, &pod("a", 1)).await;
    let text = format!(
        "current-context: here\ncontexts: [{{name: here, context: {{cluster: gone, user: me, namespace: mine}}}}]\n\
         clusters: [{{name: gone, cluster: {{server: 'http://127.0.0.1:1'}}}}, {{name: other, cluster: {{server: '{}'}}}}]\n\
         users: [{{name: me, user: {{token: first}}}}, {{name: you, user: {{token: second, as: boss}}}}]\n",
        server.url
    );
    let kubeconfig = Kubeconfig::of_text(&text);
    let someone = Impersonation { user: "someone".to_owned(), ..Impersonation::default() };
    let overrides = ConfigOverrides {
        cluster: Some("other".to_owned()),
        user: Some("you".to_owned()),
        namespace: Some("yours".to_owned()),
        impersonate: Some(someone),
    };
    let options = ClientOptions { overrides, ..kubeconfig.options() };
    let client = Client::new(options.clone()).await.unwrap();
    client.get(&pods(), &key("default/a"), None).await.unwrap();
    let seen = server.only();
    assert_eq!(seen.header("authorization"), Some("Bearer second"));
    assert_eq!(seen.header("impersonate-user"), Some("someone"));
    assert_eq!(client.default_namespace(), "yours");
    let overrides = ConfigOverrides { cluster: Some("none".to_owned()), ..ConfigOverrides::default() };
    let error = Client::new(ClientOptions { overrides, ..options.clone() }).await.unwrap_err().to_string();
    has(&error, &["no cluster \"none\"", "gone, other"]);
    // As with kubectl, no context is needed where the overrides name a cluster.
    let kubeconfig = Kubeconfig::of_text(&text.replace("current-context: here", ""));
    let client = Client::new(ClientOptions { kubeconfig: Some(kubeconfig.path.clone()), ..options }).await;
    client.unwrap().get(&pods(), &key("default/a"), None).await.unwrap();
}

#[tokio::test]
async fn a_layer_sees_each_attempt_and_may_change_it() {
    let server = Server::start(|seen| match seen.header("x-trace") {
        Some("1") => Reply::new(429, "later").header("retry-after", "0"),
        Some(_) if seen.query("watch").is_some() => Reply::json(event("ADDED", &pod("a", 1))),
        Some(_) => Reply::json(pod("a", 1)),
        None => Reply::new(400, "no trace"),
    })
    .await;
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let layer = tower::util::MapRequestLayer::new(move |mut request: Request<RequestBody>| {
        let number = counter.fetch_add(1, Ordering::SeqCst) + 1;
        request.headers_mut().insert("x-trace", HeaderValue::from(number));
        request
    });
    let middleware = Some(Middleware::layer(layer));
    let options = ClientOptions { server: Some(server.url.clone()), middleware, ..ClientOptions::default() };
    let client = Client::new(options).await.unwrap();
    soon(client.get(&pods(), &key("default/a"), None)).await.unwrap();
    let mut watch = soon(client.watch(&pods(), None, &WatchParams::default())).await.unwrap();
    assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Added(_)))));
    soon(client.with_own_connections().get(&pods(), &key("default/a"), None)).await.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn a_service_in_place_of_the_transport_needs_no_server() {
    let service = service_fn(|request: Request<RequestBody>| async move {
        let path = request.uri().path().to_owned();
        let body = request.into_body().collect().await?.to_bytes();
        let body = match path.as_str() {
            "/api/v1/pods" => page(7, "", &[pod("a", 1)]),
            "/api/v1/namespaces/default/pods" => String::from_utf8(body.to_vec())?,
            _ => return Err(BoxError::from("no such pod")),
        };
        Ok::<_, BoxError>(Response::new(ResponseBody::new(Full::new(Bytes::from(body)))))
    });
    let middleware = Some(Middleware::in_place_of_transport(service));
    let server = Some("http://nowhere".to_owned());
    let client = Client::new(ClientOptions { server, middleware, ..ClientOptions::default() }).await.unwrap();
    let list = client.list_all(&pods(), None, &ListParams::default()).await.unwrap();
    assert_eq!((list.items.len(), list.meta.resource_version.as_str()), (1, "7"));
    let created =
        client.create(&pods(), Some("default"), pod("b", 2).as_bytes(), &Default::default()).await.unwrap();
    assert_eq!(created.name(), "b");
    let error = client.get(&pods(), &key("default/a"), None).await.unwrap_err();
    assert!(
        matches!(&error, Error::Transport { message, .. } if message.contains("no such pod")),
        "{error:?}"
    );
}
