//! `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`: in a process of their own, because they are read from its environment.

use std::process::Command;

use axum::body::Body;
use axum::http::{Response, header};
use mullion::registry::{AddressRule, LookupError, RegistryClient, RegistrySettings};
use mullion_cluster::ServingCert;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::scripted::{Scripted, Seen, head};
use crate::server::Registry;
use crate::support::{ask, settings, shown};

const INDEX: &str = r#"{"manifests": [{"platform": {"os": "windows", "architecture": "amd64"}}]}"#;
/// Input of the test below from its parent process: image, host for plain HTTP, file with authorities.
const IMAGE: &str = "MULLION_TEST_IMAGE";
const PLAIN: &str = "MULLION_TEST_PLAIN";
const AUTHORITIES: &str = "MULLION_TEST_AUTHORITIES";
const REFUSED: &str = "MULLION_TEST_REFUSED";

#[tokio::test]
#[ignore = "run by the other tests of this file"]
async fn child() {
    let plain = std::env::var(PLAIN).unwrap_or_default();
    let mut settings = settings(&[&plain]);
    settings.ca_files.extend(std::env::var_os(AUTHORITIES).map(Into::into));
    let answer = ask(&RegistryClient::new(settings).unwrap(), &std::env::var(IMAGE).unwrap()).await;
    assert_eq!(shown(&answer.unwrap()), ["windows/amd64"]);
}

/// The same with only public addresses allowed: [`REFUSED`] is in the error.
#[tokio::test]
#[ignore = "run by the other tests of this file"]
async fn refused() {
    let plain = std::env::var(PLAIN).unwrap();
    let hosts: Vec<_> = plain.split(' ').collect();
    let settings = RegistrySettings { addresses: AddressRule::Public, ..settings(&hosts) };
    let answer = ask(&RegistryClient::new(settings).unwrap(), &std::env::var(IMAGE).unwrap()).await;
    let Err(LookupError::Refused(reason)) = &answer else { panic!("{answer:?}") };
    assert!(reason.contains(&std::env::var(REFUSED).unwrap()), "{reason}");
}

/// Runs [`child`] with these variables.
async fn run(variables: &[(&str, &str)]) {
    run_test("proxies::child", variables).await;
}

async fn run_test(name: &str, variables: &[(&str, &str)]) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", name]);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_ascii_lowercase());
    }
    command.envs(variables.iter().copied());
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn index() -> Response<Body> {
    Response::new(INDEX.into())
}

#[tokio::test]
async fn plain_http() {
    let proxy = Scripted::start(|_| index()).await;
    let url = format!("http://user:pass@{}", proxy.address);
    let registry = "registry.invalid:5000";
    let image = format!("{registry}/a:1");
    run(&[("HTTP_PROXY", &url), (IMAGE, &image), (PLAIN, registry)]).await;
    let seen = proxy.seen();
    assert_eq!(seen[0].uri, "http://registry.invalid:5000/v2/a/manifests/1");
    assert_eq!(seen[0].headers[header::PROXY_AUTHORIZATION], "Basic dXNlcjpwYXNz");
    assert_eq!(seen[0].headers[header::HOST], "registry.invalid:5000");
}

#[tokio::test]
async fn exceptions() {
    let (proxy, server) = (Scripted::start(|_| index()).await, Scripted::start(|_| index()).await);
    let url = format!("http://{}", proxy.address);
    let image = format!("{}/a:1", server.address);
    let variables = [("HTTP_PROXY", &*url), ("NO_PROXY", "127.0.0.0/8"), (IMAGE, &image), (PLAIN, &server.host())];
    run(&variables).await;
    assert_eq!((proxy.seen().len(), server.seen().len()), (0, 1));
    assert!(!server.seen()[0].headers.contains_key(header::PROXY_AUTHORIZATION));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_for_tls() {
    let certificate = ServingCert::for_names(&["registry.invalid"]).unwrap();
    let file = |name: &str| certificate.folder().join(name);
    let registry = Registry::start(&json!({}), &json!({"certificate": file("tls.crt"), "key": file("tls.key")}));
    let target = format!("{}/a:1", registry.host());
    registry.crane(&["--insecure", "append", "-f", "/dev/null", "-t", &target]);
    registry.crane(&["--insecure", "mutate", "--set-platform", "windows/amd64", &target, "-t", &target]);

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://user:pass@{}", listener.local_addr().unwrap());
    let address = registry.address;
    let proxy = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let request = head(&mut client).await;
        let mut server = TcpStream::connect(address).await.unwrap();
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
        request
    });
    let authorities = file("ca.crt").display().to_string();
    run(&[("HTTPS_PROXY", &url), (IMAGE, "registry.invalid:5000/a:1"), (AUTHORITIES, &authorities)]).await;
    let request = proxy.await.unwrap();
    assert!(request.starts_with("CONNECT registry.invalid:5000 HTTP/1.1\r\n"), "{request}");
    assert!(request.to_ascii_lowercase().contains("proxy-authorization: basic dxnlcjpwyxnz\r\n"), "{request}");
}

/// The proxy resolves names, so that any name may be queried. A registry, a token service or a redirect with an address
/// that is not public is rejected.
#[tokio::test]
async fn addresses_that_are_not_public_are_not_asked_through_a_proxy_either() {
    let registry = "registry.invalid:5000";
    let redirect = |to: &'static str| {
        move |_: &Seen| Response::builder().status(307).header(header::LOCATION, to).body(Body::empty()).unwrap()
    };
    let challenge = |realm: &'static str| {
        let challenge = format!("Bearer realm=\"{realm}\"");
        move |_: &Seen| {
            let response = Response::builder().status(401).header(header::WWW_AUTHENTICATE, &challenge);
            response.body(Body::empty()).unwrap()
        }
    };
    let cases: [(Scripted, &str, usize, &str); 6] = [
        (
            Scripted::start(redirect("http://10.1.2.3/a")).await,
            registry,
            1,
            "10.1.2.3 has the private address 10.1.2.3, so",
        ),
        (Scripted::start(redirect("https://[::ffff:169.254.169.254]/a")).await, registry, 1, "link-local address"),
        (Scripted::start(redirect("http://localhost/a")).await, registry, 1, "localhost has the loopback address"),
        (
            Scripted::start(challenge("http://169.254.169.254/t")).await,
            registry,
            1,
            "link-local address 169.254.169.254, which",
        ),
        (Scripted::start(challenge("https://[fd00::1]:8443/t")).await, registry, 1, "private address fd00::1"),
        (Scripted::start(|_| index()).await, "192.168.7.7:5000", 0, "192.168.7.7 has the private address"),
    ];
    for (proxy, host, requests, expected) in &cases {
        let url = format!("http://{}", proxy.address);
        let image = format!("{host}/a:1");
        let plain = format!("{host} 10.1.2.3 169.254.169.254 localhost");
        let variables = [("HTTP_PROXY", &*url), (IMAGE, &image), (PLAIN, &plain), (REFUSED, expected)];
        run_test("proxies::refused", &variables).await;
        assert_eq!(proxy.seen().len(), *requests, "{expected}");
    }
}
