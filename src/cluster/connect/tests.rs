#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use http::HeaderMap;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;

use super::*;
use crate::server::tls::install_crypto;

/// A certificate of `openssl x509 -req` without extensions, and its key. Such certificates are in many kubeconfigs.
const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBHDCBwwIUTNkdXBEgDYeWOWzl0ewgvWgB+iwwCgYIKoZIzj0EAwIwEDEOMAwG
A1UEAwwFYWRtaW4wIBcNMjYxMTIzMTYxOTAxWhgPMjEyNjEwMzAxNjE5MDFaMBAx
DjAMBgNVBAMMBWFkbWluMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEGe6Oqfyx
99gUTbIcBpbQwhjpEUP/MqKa9IxlSRBkGOE2/WxiXWAp32efxTPNjBJGgA1nFZWm
41m/as1PqulusTAKBggqhkjOPQQDAgNIADBFAiAYjDEzoxRWLbIdg4QeT4Tw8Pdd
fJn+dvqfLFR4iX0ixgIhANjFdfbUH2L+bcxeJ4KKmdrmYVy7L3AZCMeC8cS31FLl
-----END CERTIFICATE-----
";
const VERSION_1_KEY: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgLf0RGGAlkdQiO7lc
ULW0R4a3fbZqQXP38SXwhNak+ouhRANCAAQZ7o6p/LH32BRNshwGltDCGOkRQ/8y
opr0jGVJEGQY4Tb9bGJdYCnfZ5/FM82MEkaADWcVlabjWb9qzU+q6W6x
-----END PRIVATE KEY-----
";

/// A directory with kubeconfigs.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        install_crypto();
        Self(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// A kubeconfig with one context, `shop`, whose entries continue with the given lines.
    fn kubeconfig(&self, name: &str, cluster: &str, user: &str) -> PathBuf {
        let text = format!(
            "current-context: shop\ncontexts:\n- {{name: shop, context: {{cluster: shop, user: ann, namespace: web}}}}\n\
             clusters:\n- name: shop\n  cluster:\n    {cluster}\nusers:\n- name: ann\n  user:\n    {user}\n"
        );
        self.write(name, &text)
    }

    /// `KUBECONFIG` with these files.
    fn list(&self, names: &[&str]) -> Environment {
        let list = std::env::join_paths(names.iter().map(|name| self.path(name))).unwrap();
        Environment { kubeconfig: Some(list), ..Environment::default() }
    }
}

fn with_file(path: &Path) -> anyhow::Result<ClusterConnection> {
    connect(ConnectOptions { kubeconfig: Some(path), ..ConnectOptions::default() }, &Environment::default())
}

fn error_of(result: anyhow::Result<ClusterConnection>) -> String {
    match result {
        Ok(connection) => panic!("connected to {}", connection.context),
        Err(error) => format!("{error:#}"),
    }
}

const SERVER: &str = "server: https://127.0.0.1:1";

/// The explicit file, the context of the command line, the environment; and the context and namespace.
type Row<'a> = (Option<&'a Path>, Option<&'a str>, Environment, (&'a str, &'a str));

#[tokio::test]
async fn files_are_found_and_merged_as_by_kubectl() {
    let files = Files::new();
    files.write("current", "current-context: b\n");
    files.kubeconfig("one", SERVER, "token: a");
    files.write(
        "two",
        "contexts:\n- {name: b, context: {cluster: shop, user: ''}}\n- {name: shop, context: {cluster: other}}\n\
         clusters:\n- {name: shop, cluster: {server: 'https://other.invalid'}}\n",
    );
    let home = Environment { home: Some(files.path("home")), ..Environment::default() };
    fs::create_dir_all(files.path("home/.kube")).unwrap();
    fs::copy(files.path("one"), files.path("home/.kube/config")).unwrap();
    let empty =
        Environment { kubeconfig: Some(OsString::from(":")), home: home.home.clone(), ..Environment::default() };
    let (one, two) = (files.path("one"), files.path("two"));
    let table: [Row<'_>; 8] = [
        (Some(&one), None, files.list(&["two"]), ("shop", "web")),
        (None, None, files.list(&["current", "missing", "one", "two"]), ("b", "default")),
        // The first file that contains a name takes precedence.
        (None, Some("shop"), files.list(&["current", "one", "two"]), ("shop", "web")),
        (None, None, files.list(&["one", "current", "two"]), ("shop", "web")),
        (None, Some("b"), files.list(&["two", "one"]), ("b", "default")),
        (None, None, home, ("shop", "web")),
        (None, None, empty, ("shop", "web")),
        (Some(&two), Some("b"), Environment::default(), ("b", "default")),
    ];
    for (kubeconfig, context, environment, expected) in table {
        let options = ConnectOptions { kubeconfig, context, ..ConnectOptions::default() };
        let connection = connect(options, &environment).unwrap_or_else(|error| panic!("{environment:?}: {error:#}"));
        assert_eq!((connection.context.as_str(), connection.default_namespace.as_str()), expected, "{environment:?}");
    }
}

#[tokio::test]
async fn errors_name_file_and_entry_and_what_to_do() {
    let files = Files::new();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    let current = params.self_signed(&key).unwrap().pem();
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
    let expired = params.self_signed(&key).unwrap().pem();
    let other_key = KeyPair::generate().unwrap().serialize_pem();
    for (name, text) in [
        ("v1.pem", VERSION_1),
        ("v1.key", VERSION_1_KEY),
        ("now.pem", &current),
        ("old.pem", &expired),
        ("other.key", &other_key),
        ("ca.pem", "no certificate"),
    ] {
        files.write(name, text);
    }
    let certificate = |name: &str, key: &str| format!("client-certificate: {name}\n    client-key: {key}");
    let plugin = |command: &str, arguments: &str| {
        format!(
            "exec: {{apiVersion: client.authentication.k8s.io/v1, command: {command}, args: {arguments}, \
             interactiveMode: Never, installHint: See example.com.}}"
        )
    };
    let (failing, absent) =
        (plugin("sh", "[-c, 'echo secret; echo log in first >&2; exit 3']"), plugin("/absent", "[]"));
    let user = "FILE: user \"ann\": ";
    // Lines of the cluster, lines of the user, and parts of the error.
    let table: [(&str, &str, &[&str]); 12] = [
        ("{}", "token: a", &["FILE: cluster \"shop\": it has no server"]),
        ("server: 'not a url'", "token: a", &["cluster \"shop\": server \"not a url\" is not a URL"]),
        (
            "{server: 'https://a', proxy-url: 'ftp://b'}",
            "token: a",
            &["cluster \"shop\": proxy-url \"ftp://b\": only http://, https:// and socks5:// are possible"],
        ),
        (
            "{server: 'https://a', certificate-authority: absent}",
            "token: a",
            &["cluster \"shop\"", "/absent cannot be read"],
        ),
        ("{server: 'https://a', certificate-authority: ca.pem}", "token: a", &["there is no certificate in it"]),
        ("{server: 'https://a', certificate-authority-data: '???'}", "token: a", &["its data is not base64"]),
        (
            SERVER,
            &certificate("v1.pem", "v1.key"),
            &[user, "is X.509 version 1, which kubectl accepts and Mullion does not", "CertificateSigningRequest"],
        ),
        (SERVER, &certificate("old.pem", "other.key"), &[user, "expired at 2021-01-01T00:00:00Z", "log in again"]),
        (
            SERVER,
            &certificate("now.pem", "other.key"),
            &[user, "its client key does not belong to its client certificate"],
        ),
        (SERVER, &certificate("now.pem", "absent.key"), &[user, "no client can be made with it", "absent.key"]),
        (SERVER, &failing, &[user, "exec plugin failed (exit status: 3): log in first", "sh -c", "See example.com."]),
        (SERVER, &absent, &[user, "exec plugin cannot be started", "/absent", "See example.com."]),
    ];
    for (cluster, user, expected) in table {
        let path = files.kubeconfig("config", cluster, user);
        let error = error_of(with_file(&path));
        for part in expected {
            let part = part.replace("FILE", &path.display().to_string());
            assert!(error.contains(&part), "{cluster}, {user}: {error}");
        }
        assert!(!error.contains("secret\n") && !error.contains("stdout"), "output of a plugin may be a token: {error}");
    }
}

#[tokio::test]
async fn names_that_do_not_exist() {
    let files = Files::new();
    files.kubeconfig("config", SERVER, "token: a");
    let contexts = "contexts:\n- {name: a, context: {cluster: shop, user: bob}}\n- {name: b, context: {cluster: no}}\n";
    files.write("more", contexts);
    files.write("broken", "contexts: 1\n");
    files.write("empty", "");
    // The files, the context, and part of the error.
    let table: [(&[&str], Option<&str>, &str); 8] = [
        (&["config"], Some("shpo"), "/config: there is no context \"shpo\"; did you mean \"shop\"?"),
        (&["config", "more"], Some("production"), "/more: there is no context \"production\": shop, a, b"),
        (&["config", "more"], Some("a"), "/more: context \"a\" names the user \"bob\", which does not exist"),
        (&["config", "more"], Some("b"), "/more: context \"b\" names the cluster \"no\", which does not exist"),
        (&["more"], None, "it has no current context; set one with kubectl config use-context: a, b"),
        (&["empty"], None, "/empty: it has no current context; set one with kubectl config use-context"),
        (&["config", "broken"], None, "/broken: not usable as a kubeconfig; correct KUBECONFIG"),
        (&["absent"], Some("a"), "there is no kubeconfig with a context \"a\" (KUBECONFIG: "),
    ];
    for (list, context, expected) in table {
        let options = ConnectOptions { context, ..ConnectOptions::default() };
        let error = error_of(connect(options, &files.list(list)));
        assert!(error.contains(expected), "{list:?}: {error}");
    }
    let error = error_of(with_file(&files.path("absent")));
    assert!(error.contains("/absent: not usable as a kubeconfig; pass another file to --kubeconfig"), "{error}");
    let error = error_of(connect(ConnectOptions::default(), &Environment::default()));
    assert_eq!(error, "there is no kubeconfig, and this process runs in no pod; pass --kubeconfig FILE");
}

/// A server of empty lists, and the headers of its requests.
async fn server() -> (String, Arc<Mutex<Vec<HeaderMap>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let headers = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&headers);
    let router = axum::Router::new().fallback(async move |headers: HeaderMap| {
        log.lock().unwrap().push(headers);
        r#"{"apiVersion":"v1","kind":"NodeList","metadata":{},"items":[]}"#
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, headers)
}

#[tokio::test]
async fn requests_carry_the_token_of_a_plugin_and_the_impersonated_user() {
    let files = Files::new();
    let (url, headers) = server().await;
    let credential =
        r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t-1"}}"#;
    files.write("credential", credential);
    let exec = format!(
        "exec: {{apiVersion: client.authentication.k8s.io/v1, command: cat, args: ['{}'], interactiveMode: Never}}",
        files.path("credential").display()
    );
    let path = files.kubeconfig("config", &format!("server: {url}"), &exec);
    let groups = ["dev".to_owned(), "ops".to_owned()];
    let options = ConnectOptions {
        kubeconfig: Some(&path),
        impersonated_user: Some("bob"),
        impersonated_groups: &groups,
        ..ConnectOptions::default()
    };
    let client = connect(options, &Environment::default()).unwrap().client;
    Api::<Node>::all(client).list(&ListParams::default()).await.unwrap();
    let headers = headers.lock().unwrap();
    let all = |name: &str| headers.first().unwrap().get_all(name).iter().map(|v| v.to_str().unwrap().to_owned());
    assert_eq!(all("authorization").collect::<Vec<_>>(), ["Bearer t-1"]);
    assert_eq!(all("impersonate-user").collect::<Vec<_>>(), ["bob"]);
    assert_eq!(all("impersonate-group").collect::<Vec<_>>(), groups);
}

#[tokio::test]
async fn requests_go_through_the_proxy_unless_an_exception_names_the_server() {
    let files = Files::new();
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = proxy.local_addr().unwrap().to_string();
    let (direct, _) = server().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((stream, _)) = proxy.accept().await {
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            stream.read_line(&mut line).await.unwrap();
            log.lock().unwrap().push(line.trim().to_owned());
            stream.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").await.unwrap();
        }
    });
    let environment = |no_proxy: Option<&str>| Environment {
        https_proxy: Some(address.clone()),
        no_proxy: no_proxy.map(str::to_owned),
        ..Environment::default()
    };
    let (in_file, https) = (format!("\n    proxy-url: http://{address}"), "server: https://api.invalid:6443");
    // The server, the kubeconfig's proxy, the environment, and whether the proxy is used.
    let table = [
        (https, in_file.as_str(), Environment::default(), true),
        // An exception applies only to proxies of the environment, as in client-go.
        (https, &in_file, environment(Some("api.invalid")), true),
        (https, "", environment(None), true),
        (https, "", environment(Some("other.invalid,")), true),
        (https, "", environment(Some(".example.com, api.invalid,")), false),
        (&format!("server: {direct}"), "", environment(None), false),
    ];
    for (server, proxy_url, environment, expected) in table {
        let path = files.kubeconfig("config", &format!("{server}{proxy_url}"), "token: a");
        let options = ConnectOptions { kubeconfig: Some(&path), ..ConnectOptions::default() };
        let client = connect(options, &environment).unwrap().client;
        drop(Api::<Node>::all(client).list(&ListParams::default()).await);
        let lines = std::mem::take(&mut *seen.lock().unwrap());
        let used = lines.first().is_some_and(|line| line == "CONNECT api.invalid:6443 HTTP/1.1");
        assert_eq!(used, expected, "{server}{proxy_url}, {environment:?}: {lines:?}");
    }
}
