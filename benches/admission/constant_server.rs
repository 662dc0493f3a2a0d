//! A webhook that returns constants, in a process of its own so that its processor time can be measured separately.
//!
//! `/allow` allows; `/patch` also returns a patch that places the pod on Windows.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::serve::Listener;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mullion_cluster::ServingCert;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The argument with which this program runs the server.
pub const PART: &str = "constant-server";

/// A running server. Dropping it ends the process.
pub struct ConstantServer {
    child: Child,
    /// `https://127.0.0.1:PORT`.
    pub url: String,
    pub certificate: ServingCert,
}

impl Drop for ConstantServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl ConstantServer {
    pub fn start() -> Self {
        let certificate = ServingCert::for_loopback().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg(PART)
            .arg(certificate.folder())
            .stdin(Stdio::piped()) // closed when this process ends, however it ends
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let url = format!("https://{}", first_line(child.stdout.take().unwrap()));
        Self { child, url, certificate }
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }
}

fn first_line(output: ChildStdout) -> String {
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
    line.trim().to_owned()
}

/// The server: prints its address and serves until its standard input is closed.
pub async fn run(folder: &Path) {
    let chain = CertificateDer::pem_file_iter(folder.join("tls.crt")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(folder.join("tls.key")).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    let patch = json!([
        {"op": "add", "path": "/spec/nodeSelector", "value": {"kubernetes.io/os": "windows"}},
        {"op": "add", "path": "/spec/tolerations/-",
            "value": {"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}},
    ]);
    let patch = STANDARD.encode(patch.to_string());
    let with_patch: &'static str = format!(r#""allowed":true,"patchType":"JSONPatch","patch":"{patch}""#).leak();
    let router = Router::new()
        .route("/allow", post(move |body: Bytes| std::future::ready(answer(&body, r#""allowed":true"#))))
        .route("/patch", post(move |body: Bytes| std::future::ready(answer(&body, with_patch))));
    let listener = TlsListener { tcp: listener, tls: TlsAcceptor::from(Arc::new(config)) };
    let closed = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    tokio::select! {
        served = async { axum::serve(listener, router).await } => served.unwrap(),
        _ = closed => {}
    }
}

/// An AdmissionReview with these members of the response; the request is not parsed.
fn answer(request: &Bytes, members: &str) -> Response {
    // The API server writes the request's `uid` first.
    let key = br#""uid":""#;
    let start = request.windows(key.len()).position(|window| window == key).unwrap() + key.len();
    let length = request[start..].iter().position(|byte| *byte == b'"').unwrap();
    let uid = std::str::from_utf8(&request[start..start + length]).unwrap();
    let review = format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{{"uid":"{uid}",{members}}}}}"#
    );
    ([(CONTENT_TYPE, "application/json")], review).into_response()
}

struct TlsListener {
    tcp: TcpListener,
    tls: TlsAcceptor,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, address)) = self.tcp.accept().await else {
                tokio::time::sleep(Duration::from_millis(10)).await; // for example, if file descriptors ran out
                continue;
            };
            stream.set_nodelay(true).ok();
            if let Ok(stream) = self.tls.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}
