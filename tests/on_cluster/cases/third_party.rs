//! Third-party webhooks, simulated by this program: one server, a path for each webhook of each case.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use k8s_openapi::ByteString;
use mullion_cluster::ServingCert;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::format::Webhook;

/// The response at a path, and how often it was called.
#[derive(Debug, Default)]
struct Hook {
    unless: Option<String>,
    operations: Vec<Value>,
    calls: usize,
}

type Hooks = Arc<Mutex<HashMap<String, Hook>>>;

/// The server; it ends when this is dropped.
pub struct ThirdPartyServer {
    url: String,
    certificate: ServingCert,
    hooks: Hooks,
    accepting: JoinHandle<()>,
}

impl Drop for ThirdPartyServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl ThirdPartyServer {
    pub async fn start() -> Result<Self> {
        let certificate = ServingCert::for_loopback()?;
        let chain = CertificateDer::pem_file_iter(certificate.folder().join("tls.crt"))?.collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_file(certificate.folder().join("tls.key"))?;
        let config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("https://{}", listener.local_addr()?);
        let hooks = Hooks::default();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&hooks));
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, service) = (acceptor.clone(), TowerToHyperService::new(router.clone()));
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let server = hyper::server::conn::http1::Builder::new();
                        // It ends when the API server closes the connection.
                        server.serve_connection(TokioIo::new(stream), service).await.ok();
                    }
                });
            }
        });
        Ok(Self { url, certificate, hooks, accepting })
    }

    /// Adds a path with its response; returns the `clientConfig` for it.
    pub fn serve(&self, path: &str, unless: Option<String>, operations: Vec<Value>) -> Value {
        self.hooks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(path.to_owned(), Hook { unless, operations, calls: 0 });
        let ca = ByteString(self.certificate.ca_pem().as_bytes().to_vec());
        json!({"url": format!("{}{path}", self.url), "caBundle": ca})
    }

    /// The authority that signed the server's certificate, PEM.
    pub fn ca(&self) -> &str {
        self.certificate.ca_pem()
    }

    pub fn calls(&self, path: &str) -> usize {
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner).get(path).map_or(0, |hook| hook.calls)
    }
}

/// A MutatingWebhookConfiguration of these webhooks, which are `(definition, clientConfig)`, for one namespace.
pub fn configuration(name: &str, namespace: &str, webhooks: &[(&Webhook, Value)]) -> Value {
    let webhooks: Vec<Value> = webhooks
        .iter()
        .map(|(webhook, client)| {
            json!({
                // A webhook's name must have at least three parts.
                "name": format!("{}.third-party.example.com", webhook.name),
                "clientConfig": client,
                "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": webhook.resources,
                    "operations": webhook.operations, "scope": "Namespaced"}],
                "reinvocationPolicy": webhook.reinvocation_policy,
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "timeoutSeconds": 30, // the maximum, for busy machines
                "admissionReviewVersions": ["v1"],
            })
        })
        .collect();
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name}, "webhooks": webhooks})
}

async fn answer(State(hooks): State<Hooks>, uri: http::Uri, body: bytes::Bytes) -> impl IntoResponse {
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let request = &review["request"];
    let patch = {
        let mut hooks = hooks.lock().unwrap_or_else(PoisonError::into_inner);
        hooks.get_mut(uri.path()).map_or_else(
            || Err(anyhow::anyhow!("no webhook is at {}", uri.path())),
            |hook| {
                hook.calls += 1;
                let done = hook.unless.as_ref().is_some_and(|at| request["object"].pointer(at).is_some());
                if done { Ok(Vec::new()) } else { complete(&request["object"], &hook.operations) }
            },
        )
    };
    let mut response = json!({"uid": request["uid"], "allowed": patch.is_ok()});
    match patch {
        Ok(patch) if patch.is_empty() => {}
        Ok(patch) => {
            let bytes = Value::Array(patch).to_string().into_bytes();
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(ByteString(bytes));
        }
        Err(why) => response["status"] = json!({"message": format!("{why:#}")}),
    }
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    ([(http::header::CONTENT_TYPE, "application/json")], review.to_string())
}

/// The patch with operations that create missing parents.
pub fn complete(object: &Value, operations: &[Value]) -> Result<Vec<Value>> {
    let mut object = object.clone();
    let mut all = Vec::new();
    for operation in operations {
        let path = operation["path"].as_str().context("an operation has a `path`")?;
        let mut steps = Vec::new();
        if operation["op"] == "add" {
            let tokens: Vec<&str> = path.split('/').skip(1).collect();
            for depth in 1..tokens.len() {
                let parent = format!("/{}", tokens[..depth].join("/"));
                if object.pointer(&parent).is_none_or(Value::is_null) {
                    let value = if tokens[depth] == "-" { json!([]) } else { Value::Object(Map::new()) };
                    steps.push(json!({"op": "add", "path": parent, "value": value}));
                    apply(&mut object, &steps[steps.len() - 1])?;
                }
            }
        }
        apply(&mut object, operation)?;
        all.append(&mut steps);
        all.push(operation.clone());
    }
    Ok(all)
}

fn apply(object: &mut Value, operation: &Value) -> Result<()> {
    let patch: json_patch::Patch = serde_json::from_value(json!([operation]))?;
    json_patch::patch(object, &patch).with_context(|| operation.to_string())
}
