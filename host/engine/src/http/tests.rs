//! Tests below the guest interface: lookups return permitted addresses only, and TLS with the tests' own certificate
//! authority.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt as _, Empty};
use pilothouse_plugin::{Host, OutgoingHost, OutgoingHosts};
use proptest::prelude::*;
use rustls::ClientConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use super::client::{ExchangeLimits, RequestError};
use super::destination::Destination;
use super::resolve::{Lookup, NoAddress};
use super::*;

/// Resolves every name to the same addresses.
struct Always(Vec<IpAddr>);

impl Resolver for Always {
    fn resolve(&self, _: String, _: u16) -> ResolveFuture {
        // Another port than requested; the client must ignore it.
        let addresses = self.0.iter().map(|ip| SocketAddr::new(*ip, 22)).collect();
        Box::pin(async { Ok(addresses) })
    }
}

fn hosts(entries: &[String]) -> OutgoingHosts {
    entries.iter().map(|entry| entry.parse::<OutgoingHost>().expect("an entry")).collect()
}

fn special_or_not() -> impl Strategy<Value = IpAddr> {
    let v4 = prop_oneof![
        any::<u32>().prop_map(Ipv4Addr::from_bits),
        any::<u16>().prop_map(|low| Ipv4Addr::from_bits(0x7f00_0000 | u32::from(low))),
        any::<u16>().prop_map(|low| Ipv4Addr::from_bits(0xa9fe_0000 | u32::from(low))),
    ];
    prop_oneof![
        v4.clone().prop_map(IpAddr::V4),
        v4.clone().prop_map(|v4| IpAddr::V6(v4.to_ipv6_mapped())),
        v4.prop_map(|v4| IpAddr::V6(v4.to_ipv6_compatible())),
        any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))),
        any::<u16>().prop_map(|low| IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, low))),
    ]
}

proptest! {
    #[test]
    fn a_lookup_never_yields_an_address_that_is_refused(
        found in prop::collection::vec(special_or_not(), 0..6),
        name_one: bool,
        port in 1_u16..,
    ) {
        let mut granted = vec![format!("name.example:{port}")];
        if let (true, Some(address)) = (name_one, found.first()) {
            granted.push(format!("{}:{port}", Host::Address(pilothouse_plugin::canonical(*address))));
        }
        let granted = hosts(&granted);
        let to = Destination { tls: false, host: Host::Name("name.example".to_owned()), port };
        let lookup = Lookup::new(Arc::new(Always(found.clone())));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        match runtime.block_on(lookup.addresses(&to, &granted)) {
            Ok(addresses) => {
                prop_assert!(!addresses.is_empty());
                for address in addresses {
                    prop_assert_eq!(address.port(), port);
                    let named = name_one && Some(pilothouse_plugin::canonical(address.ip())) == found.first().map(|a| pilothouse_plugin::canonical(*a));
                    prop_assert!(named || pilothouse_plugin::special(address.ip()).is_none(), "{}", address);
                }
            }
            Err(NoAddress::Prohibited(address, _)) => prop_assert!(pilothouse_plugin::special(address.ip()).is_some()),
            Err(NoAddress::Dns(_)) => prop_assert!(found.is_empty()),
        }
    }
}

/// The marker of an instance that is never dropped.
static GUEST: LazyLock<Arc<()>> = LazyLock::new(Arc::default);

#[tokio::test]
async fn lookups_that_nobody_waits_for_any_more_still_count() {
    struct Never(Arc<AtomicUsize>);
    impl Resolver for Never {
        fn resolve(&self, _: String, _: u16) -> ResolveFuture {
            self.0.fetch_add(1, SeqCst);
            Box::pin(std::future::pending::<io::Result<Vec<SocketAddr>>>())
        }
    }
    let started = Arc::new(AtomicUsize::new(0));
    let lookup = Lookup::new(Arc::new(Never(Arc::clone(&started))));
    let to = Destination { tls: false, host: Host::Name("name.example".to_owned()), port: 80 };
    for _ in 0..50 {
        let _ = tokio::time::timeout(Duration::ZERO, lookup.addresses(&to, &OutgoingHosts::default())).await;
    }
    assert_eq!(started.load(SeqCst), 4);
}

struct Nobody;

impl HttpObserver for Nobody {
    fn request(&self, _: HttpResult) {}
    fn moved(&self, _: u64, _: u64) {}
}

/// A certificate for `name.example`, its key, and a client that trusts it.
struct Authority {
    certificate: rustls::pki_types::CertificateDer<'static>,
    key: Vec<u8>,
    client: Arc<ClientConfig>,
}

static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| {
    let made = rcgen::generate_simple_self_signed(["name.example".to_owned()]).expect("a certificate");
    let certificate = made.cert.der().clone();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Authority { certificate, key: made.signing_key.serialize_der(), client: Arc::new(client) }
});

/// Serves HTTP over TLS and counts the connections.
async fn secure_server() -> (u16, Arc<AtomicUsize>) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::try_from(AUTHORITY.key.clone()).expect("a key");
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_no_client_auth()
        .with_single_cert(vec![AUTHORITY.certificate.clone()], key)
        .expect("a certificate and its key");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&accepted);
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, SeqCst);
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut buffer = Vec::new();
                while stream.read_buf(&mut buffer).await.is_ok_and(|read| read > 0) {
                    if buffer.ends_with(b"\r\n\r\n") {
                        buffer.clear();
                        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                        if stream.write_all(answer).await.is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    (port, accepted)
}

async fn get(client: &HttpClient, url: &str) -> Result<(u16, Vec<u8>), Error> {
    let body: WasiBody = Empty::new().map_err(|never| match never {}).boxed_unsync();
    let request = Request::get(url).body(body).expect("a request");
    let to = client.check(&request).map_err(|refused: RequestError| refused.error)?;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    let times = ExchangeLimits::new(RequestOptions::default(), deadline);
    let answer = client
        .clone()
        .send(to, request, times, Arc::downgrade(&GUEST))
        .await
        .map_err(|refused| refused.error)?;
    let status = answer.status().as_u16();
    Ok((status, answer.into_body().collect().await?.to_bytes().to_vec()))
}

fn client(port: u16, trusting: bool) -> HttpClient {
    client_at_rate(port, trusting, 1000.0, Arc::new(Nobody))
}

fn client_at_rate(port: u16, trusting: bool, qps: f64, observer: Arc<dyn HttpObserver>) -> HttpClient {
    let granted =
        [format!("name.example:{port}"), format!("other.example:{port}"), format!("127.0.0.1:{port}")];
    let options = HttpClientOptions {
        plugin: "p".into(),
        hosts: hosts(&granted),
        user_agent: "test".to_owned(),
        resolver: Arc::new(Always(vec![Ipv4Addr::LOCALHOST.into()])),
        runtime: tokio::runtime::Handle::current(),
        qps,
        observer,
    };
    if trusting {
        HttpClient::with_tls(options, || Some(Arc::clone(&AUTHORITY.client)))
    } else {
        HttpClient::new(options)
    }
}

#[tokio::test]
async fn a_server_must_have_a_trusted_certificate_with_its_name() {
    let (port, accepted) = secure_server().await;
    let trusting = client(port, true);
    let url = format!("https://name.example:{port}/");
    for _ in 0..3 {
        assert_eq!(get(&trusting, &url).await.unwrap(), (200, b"ok".to_vec()));
    }
    assert_eq!(accepted.load(SeqCst), 1, "one handshake");
    for host in ["other.example", "127.0.0.1"] {
        let error = get(&trusting, &format!("https://{host}:{port}/")).await.unwrap_err();
        assert!(matches!(error, Error::TlsCertificateError), "{error:?}");
    }
    let error = get(&client(port, false), &url).await.unwrap_err();
    assert!(matches!(error, Error::TlsCertificateError), "{error:?}");
    // Idle connections are not shared between schemes.
    let error = get(&trusting, &format!("http://name.example:{port}/")).await.unwrap_err();
    assert!(!matches!(error, Error::HttpRequestDenied), "{error:?}");
}

#[tokio::test]
async fn requests_beyond_the_rate_wait_and_those_that_cannot_wait_so_long_are_told_why() {
    let (port, _) = secure_server().await;
    // The burst of two seconds is one request; the next one is two seconds later.
    let slow = client_at_rate(port, true, 0.5, Arc::new(Nobody));
    let url = format!("https://name.example:{port}/");
    assert_eq!(get(&slow, &url).await.unwrap().0, 200);
    let body: WasiBody = Empty::new().map_err(|never| match never {}).boxed_unsync();
    let request = Request::get(&url).body(body).unwrap();
    let to = slow.check(&request).map_err(|refused| refused.error).unwrap();
    let hasty =
        RequestOptions { connect_timeout: Some(Duration::from_millis(1)), ..RequestOptions::default() };
    let times = ExchangeLimits::new(hasty, tokio::time::Instant::now() + Duration::from_secs(30));
    let refused = slow.clone().send(to, request, times, Arc::downgrade(&GUEST)).await.map(drop).unwrap_err();
    assert!(matches!(refused.error, Error::ConnectionLimitReached), "{refused:?}");
    let message = refused.message.unwrap_or_default();
    assert!(message.contains("spec.limits.httpQPS") && message.contains("plugin p"), "{message}");
    // It took no turn: this one waits for the one that it did not get.
    let began = tokio::time::Instant::now();
    assert_eq!(get(&slow, &url).await.unwrap().0, 200);
    assert!(began.elapsed() > Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test]
async fn the_work_for_requests_is_told_to_the_observer() {
    /// Adds up the work of connections.
    #[derive(Default)]
    struct Work(std::sync::Mutex<Duration>);
    impl HttpObserver for Work {
        fn request(&self, _: HttpResult) {}
        fn moved(&self, _: u64, _: u64) {}
        fn worked(&self, time: Duration) {
            *self.0.lock().unwrap() += time;
        }
    }
    let (port, _) = secure_server().await;
    let work = Arc::new(Work::default());
    let client = client_at_rate(port, true, 1000.0, Arc::clone(&work) as _);
    assert_eq!(get(&client, &format!("https://name.example:{port}/")).await.unwrap().0, 200);
    assert!(*work.0.lock().unwrap() > Duration::ZERO, "the connection's task was not measured");
}

#[test]
fn the_error_code_is_defined_where_wasmtime_defines_the_others() {
    let engine = crate::engine::wasmtime_engine(&crate::engine::InstancePool::None).unwrap();
    let mut linker = Linker::<StoreState>::new(&engine);
    linker.allow_shadowing(false);
    let options = bindings::LinkOptions::default();
    bindings::http::types::add_to_linker::<StoreState, WasiHttp>(
        &mut linker,
        &(&options).into(),
        StoreState::http,
    )
    .unwrap();
    // The linker rejects a second definition of a name. It would accept one under the name of another version.
    let twice = error_code::define(&mut linker);
    assert!(twice.is_err(), "wasmtime-wasi-http calls the interface otherwise now");
}
