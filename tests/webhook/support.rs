//! Requests in the form of the API server, a server with an engine that the name of the pod controls, and clients.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::mullion_engine;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use mullion::server::tls::Certificate;
use mullion::server::{BodyLimits, ConnectionLimits, serve};
use mullion::webhook::{WebhookState, router};
use mullion_engine::admission::{Denial, DenialCause, Endpoint, Review, ReviewResponse, review};
use mullion_engine::model::ReviewRequest;
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::settings::Action;
use mullion_engine::rules::{Finding, RejectedBy};
use mullion_policy::PolicySet;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// The name in the certificates.
pub(crate) const NAME: &str = "mullion-webhook.mullion.svc";

/// The request for `kubectl apply` of a pod, with managedFields.
pub(crate) fn pod_review(name: &str) -> Value {
    json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "0df28fbd-5f5f-11e8-bc74-36e6bb280816",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
            "requestResource": {"group": "", "version": "v1", "resource": "pods"},
            "name": name,
            "namespace": "shop",
            "operation": "CREATE",
            "userInfo": {"username": "kubernetes-admin", "groups": ["kubeadm:cluster-admins", "system:authenticated"]},
            "object": {
                "kind": "Pod",
                "apiVersion": "v1",
                "metadata": {
                    "name": name,
                    "creationTimestamp": null,
                    "labels": {"app": "web"},
                    "managedFields": [{"manager": "kubectl", "operation": "Update", "apiVersion": "v1",
                        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:containers": {}}}}],
                },
                "spec": {
                    "containers": [{"name": "web", "image": "registry.example.com/web:1", "resources": {},
                        "terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "IfNotPresent"}],
                    "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
                },
                "status": {},
            },
            "oldObject": null,
            "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "kubectl"},
        }
    })
}

/// An engine that does what the pod's name contains: `patch` (at /mutate), `deny`, `warn`, `panic`; and that writes the namespace of
/// the request into an audit annotation.
pub(crate) fn scripted_engine(
    request: &ReviewRequest<'_>,
    snapshot: &ClusterSnapshot,
    policies: &PolicySet,
    endpoint: Endpoint,
) -> (Review, ReviewResponse) {
    let mut review = review(request, snapshot, &policies.resolve(request, snapshot));
    let name = request.workload.object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("");
    assert!(name != "panic", "on purpose");
    let mut answer = ReviewResponse::default();
    answer.audit.insert("namespace", request.workload.namespace.to_owned());
    if name.contains("patch") && endpoint == Endpoint::Mutate {
        let patch = json!([{"op": "add", "path": "/spec/nodeSelector", "value": {"kubernetes.io/os": "windows"}}]);
        answer.patch = serde_json::from_value(patch).unwrap();
    }
    if name.contains("warn") {
        answer.warnings = vec!["first".to_owned(), "second".to_owned()];
    }
    if name.contains("deny") {
        review.findings = vec![finding()];
        answer.denial = Some(Denial {
            message: finding().sentence(),
            causes: vec![DenialCause {
                reason: "MUL201",
                field: finding().path,
                message: "Windows has no numeric user ids".to_owned(),
            }],
            ..Denial::default()
        });
        answer.rules = vec!["MUL201"];
    }
    (review, answer)
}

fn finding() -> Finding {
    Finding {
        code: "MUL201",
        rule: "run-as-user",
        action: Action::Deny,
        quiet: false,
        hint: false,
        about_whole: false,
        pointer: "/spec/securityContext/runAsUser".to_owned(),
        path: "spec.securityContext.runAsUser".to_owned(),
        message: "Windows has no numeric user ids".into(),
        help: "use windowsOptions.runAsUserName".into(),
        replacement: None,
        rejected_by: RejectedBy::None,
        forbidden_by_os: false,
        rejected_beside_os: false,
        pre_existing: false,
    }
}

/// State with [`scripted_engine`].
pub(crate) fn state() -> Arc<WebhookState> {
    let mut state = WebhookState::fixed(ClusterSnapshot::default(), PolicySet::default());
    state.review = scripted_engine;
    Arc::new(state)
}

/// The routes with [`state`], without a network.
pub(crate) fn router() -> Router {
    router::router(state(), BodyLimits::default())
}

/// A response with its body.
#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl TestResponse {
    pub(crate) async fn read<B>(response: Response<B>) -> Self
    where
        B: hyper::body::Body,
        B::Error: std::fmt::Debug,
    {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        Self { status: parts.status, headers: parts.headers, body }
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// `response` of a 200.
    pub(crate) fn review(&self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{}", self.text());
        let review: Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(review["apiVersion"], "admission.k8s.io/v1");
        assert_eq!(review["kind"], "AdmissionReview");
        review["response"].clone()
    }
}

/// A POST of JSON.
pub(crate) fn request(path: &str, body: impl Into<Body>) -> Request<Body> {
    let builder = Request::post(path).header(header::CONTENT_TYPE, "application/json");
    builder.header(header::HOST, NAME).body(body.into()).unwrap()
}

pub(crate) async fn send(router: &Router, request: Request<Body>) -> TestResponse {
    TestResponse::read(router.clone().oneshot(request).await.unwrap()).await
}

pub(crate) async fn post(router: &Router, path: &str, body: impl Into<Body>) -> TestResponse {
    send(router, request(path, body)).await
}

/// A self-signed certificate for [`NAME`] and its key, PEM.
pub(crate) fn pair() -> (rcgen::Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    (CertificateParams::new(vec![NAME.to_owned()]).unwrap().self_signed(&key).unwrap(), key)
}

/// Writes a pair with the file names of a mounted Secret.
pub(crate) fn write_pair(dir: &Path, certificate: &str, key: &str) {
    std::fs::write(dir.join("tls.crt"), certificate).unwrap();
    std::fs::write(dir.join("tls.key"), key).unwrap();
}

/// A server on a loopback port.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) state: Arc<WebhookState>,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) certificate: Arc<Certificate>,
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<()>,
    pub(crate) roots: RootCertStore,
}

impl Server {
    pub(crate) async fn start(limits: ConnectionLimits) -> Self {
        Self::with_state(state(), limits).await
    }

    /// A server with another engine, snapshot and policies.
    pub(crate) async fn with_state(state: Arc<WebhookState>, limits: ConnectionLimits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, key) = pair();
        write_pair(dir.path(), &certificate.pem(), &key.serialize_pem());
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        let certificate = Certificate::load(dir.path()).unwrap();
        let config = Arc::new(certificate.server_config(state.client_ca.as_ref()).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let router = router::router(Arc::clone(&state), BodyLimits::default());
        let serving = serve(listener, Some(config), router, limits, state.metrics.server.clone(), stop.clone());
        let task = tokio::spawn(serving);
        Self { address, state, dir, certificate, stop, task, roots }
    }

    pub(crate) fn trust(&mut self, certificate: &rcgen::Certificate) {
        self.roots.add(certificate.der().clone()).unwrap();
    }

    pub(crate) async fn tls(&self) -> TlsStream<TcpStream> {
        connect(self.address, &self.roots).await
    }

    /// A handshake with a client that offers these protocols.
    pub(crate) async fn handshake(&self, protocols: &[&[u8]]) -> std::io::Result<TlsStream<TcpStream>> {
        handshake(self.address, &self.roots, protocols).await
    }

    /// A handshake with a client of this configuration.
    pub(crate) async fn tls_with(&self, config: Arc<ClientConfig>) -> std::io::Result<TlsStream<TcpStream>> {
        handshake_with(self.address, config).await
    }

    /// A client that keeps its connection.
    pub(crate) async fn http1(&self) -> http1::SendRequest<Full<bytes::Bytes>> {
        let (sender, connection) = http1::handshake(TokioIo::new(self.tls().await)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    /// One review on a connection of its own.
    pub(crate) async fn review(&self, name: &str) -> Value {
        let mut client = self.http1().await;
        TestResponse::read(within(client.send_request(full("/mutate", name))).await.unwrap()).await.review()
    }
}

/// A connection after its handshake.
pub(crate) async fn connect(address: SocketAddr, roots: &RootCertStore) -> TlsStream<TcpStream> {
    handshake(address, roots, &[b"http/1.1"]).await.unwrap()
}

async fn handshake(
    address: SocketAddr,
    roots: &RootCertStore,
    protocols: &[&[u8]],
) -> std::io::Result<TlsStream<TcpStream>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots.clone())
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    handshake_with(address, Arc::new(config)).await
}

async fn handshake_with(address: SocketAddr, config: Arc<ClientConfig>) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from(NAME).unwrap();
    within(TlsConnector::from(config).connect(name, stream)).await
}

/// A POST of [`pod_review`].
pub(crate) fn full(path: &str, name: &str) -> Request<Full<bytes::Bytes>> {
    let (parts, ()) = request(path, Body::empty()).map(drop).into_parts();
    Request::from_parts(parts, Full::from(pod_review(name).to_string()))
}

/// Fails a test that would hang; far beyond any limit that tests set, and what a busy machine needs.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(180), future).await.expect("it hangs")
}

/// The routes and their state.
pub(crate) fn router_and_state() -> (Router, Arc<WebhookState>) {
    let state = state();
    (router::router(Arc::clone(&state), BodyLimits::default()), state)
}
