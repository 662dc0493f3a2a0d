//! Reviews with a registry on loopback, and an API server with Secrets.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Path, Request, State as Extract};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Extension, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::client::Body as KubeBody;
use mullion::registry::AddressRule;
use mullion::server::BodyLimits;
use mullion::server::tls::{ClientCa, VerifiedClient};
use mullion::webhook::envelope::NamespaceName;
use mullion::webhook::{PoliciesInForce, PullSecrets, WebhookState, router, source_factory};
use mullion_engine::model::WorkloadKind;
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::image::ImageRef;
use mullion_engine::model::pod_view::Pod;
use mullion_policy::{PolicySet, RegistryPolicy};
use prometheus_client::metrics::family::Family;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::client_certificates::authority;
use crate::images::stored;
use crate::support::{pod_review, within};

/// Behavior of the registry.
#[derive(Debug, Default)]
struct Registry {
    hangs: bool,
    /// Requires `user:password`.
    private: bool,
    requests: AtomicUsize,
}

/// Serves a Windows-only index under every name; returns its host and port.
async fn serve(registry: Arc<Registry>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let router = Router::new().route("/v2/{repository}/manifests/{tag}", get(manifest)).with_state(registry);
    tokio::spawn(async move { axum_serve(listener, router).await });
    host
}

/// This does not use `axum::serve`, because the program does not enable its feature.
async fn axum_serve(listener: TcpListener, router: Router) {
    use mullion::server::{ConnectionLimits, ServerMetrics, serve};
    let stop = tokio_util::sync::CancellationToken::new();
    serve(listener, None, router, ConnectionLimits::default(), ServerMetrics::default(), stop).await;
}

async fn manifest(
    Extract(registry): Extract<Arc<Registry>>,
    Path((_, _)): Path<(String, String)>,
    request: Request,
) -> Response {
    registry.requests.fetch_add(1, Ordering::SeqCst);
    if registry.hangs {
        std::future::pending::<()>().await;
    }
    let login = format!("Basic {}", STANDARD.encode("user:password"));
    let authorized =
        request.headers().get(header::AUTHORIZATION).is_some_and(|found| found.as_bytes() == login.as_bytes());
    if registry.private && !authorized {
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Basic realm=\"r\"")]).into_response();
    }
    let entry = |os: &str, version: &str| {
        json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": format!("sha256:{}", "a".repeat(64)),
            "size": 1,
            "platform": {"architecture": "amd64", "os": os, "os.version": version},
        })
    };
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [entry("windows", "10.0.20348.2655")],
    });
    ([(header::CONTENT_TYPE, "application/vnd.oci.image.index.v1+json")], index.to_string()).into_response()
}

/// A webhook with policies that allow look-ups, from any address.
fn webhook(lookup: &str, host: &str, pull_secrets: &str, client: Option<kube::Client>) -> (Router, Arc<WebhookState>) {
    let spec = format!("{{plainHTTP: [\"{host}\"], pullSecrets: {pull_secrets}}}");
    let state = Arc::new(state(lookup, &spec, client, |_| AddressRule::Any));
    (router::router(Arc::clone(&state), BodyLimits::default()), state)
}

/// The state of a webhook with policies that allow look-ups, and a RegistryPolicy of this `spec`.
fn state(
    lookup: &str,
    spec: &str,
    client: Option<kube::Client>,
    addresses: fn(&RegistryPolicy) -> AddressRule,
) -> WebhookState {
    let text = format!(
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: a}}\nspec:\n  \
         detect: {{registry: {{lookup: {lookup}}}}}\n---\n\
         apiVersion: mullion.dev/v1alpha1\nkind: RegistryPolicy\nmetadata: {{name: a}}\nspec: {spec}\n"
    );
    let policies = PolicySet::from_files(&[("a.yaml", text)]).unwrap();
    let mut state = WebhookState::fixed(ClusterSnapshot::default(), PolicySet::default());
    let sources = source_factory(client, addresses, state.metrics.requests.registry_answers.clone());
    state.policies = PoliciesInForce::with_sources(PolicySet::default(), sources);
    state.policies.replace(&Arc::new(policies)).unwrap();
    state
}

fn review(image: &str, namespace: &str, secrets: &Value) -> Value {
    let mut review = pod_review("web");
    let request = &mut review["request"];
    request["namespace"] = namespace.into();
    request["object"]["spec"]["containers"][0]["image"] = image.into();
    request["object"]["spec"]["imagePullSecrets"] = secrets.clone();
    review
}

async fn os(router: &Router, review: &Value) -> String {
    let object = stored(router, "?timeout=30s", review).await;
    object["spec"]["nodeSelector"]["kubernetes.io/os"].as_str().unwrap_or_default().to_owned()
}

/// Waits until the cache contains the image.
async fn known(state: &WebhookState, image: &str, secrets: &PullSecrets) {
    let source = state.policies.source().unwrap();
    let wait = async {
        while source.known(&ImageRef::parse(image).unwrap(), secrets).is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(wait).await;
}

#[tokio::test]
async fn in_the_background_the_second_pod_is_correct() {
    let registry = Arc::new(Registry::default());
    let host = serve(Arc::clone(&registry)).await;
    let (router, state) = webhook("Background", &host, "Never", None);
    let image = format!("{host}/web:1");
    let pod = review(&image, "shop", &Value::Null);
    assert_eq!(os(&router, &pod).await, "linux");
    known(&state, &image, &PullSecrets::none()).await;
    assert_eq!(os(&router, &pod).await, "windows");
    assert_eq!(registry.requests.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn inline_the_first_pod_is_correct() {
    let registry = Arc::new(Registry::default());
    let host = serve(Arc::clone(&registry)).await;
    let (router, _) = webhook("Inline", &host, "Never", None);
    let pod = review(&format!("{host}/web:1"), "shop", &Value::Null);
    for _ in 0..2 {
        assert_eq!(os(&router, &pod).await, "windows");
    }
    assert_eq!(registry.requests.load(Ordering::SeqCst), 1, "a known image is not looked up again");
}

#[tokio::test]
async fn a_registry_that_hangs_does_not_fail_a_review() {
    for lookup in ["Background", "Inline"] {
        let registry = Arc::new(Registry { hangs: true, ..Registry::default() });
        let host = serve(Arc::clone(&registry)).await;
        let (router, state) = webhook(lookup, &host, "Never", None);
        let pod = review(&format!("{host}/web:1"), "shop", &Value::Null);
        // The registry never responds: if anything waited for it without a limit, this would not end.
        assert_eq!(os(&router, &pod).await, "linux");
        let outcome = if lookup == "Inline" { "late" } else { "queued" };
        assert!(state.metrics.encode().unwrap().contains(&format!("image_lookups_total{{outcome=\"{outcome}\"}} 1")));
    }
}

/// An API server with one pull secret, `shop/pull`, for `host`; every other one is missing, and those of `closed` are
/// forbidden. Records the requests.
fn api_server(host: &str, requests: &Arc<Mutex<Vec<String>>>) -> kube::Client {
    let document = json!({"auths": {host: {"auth": STANDARD.encode("user:password")}}}).to_string();
    let requests = Arc::clone(requests);
    let service = tower::service_fn(move |request: axum::http::Request<KubeBody>| {
        let path = request.uri().path().to_owned();
        requests.lock().unwrap().push(path.clone());
        let status = |code: u16, reason: &str| {
            (
                code,
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": reason, "reason": reason, "code": code}),
            )
        };
        let (code, body) = match path.as_str() {
            "/api/v1/namespaces/shop/secrets/pull" => (
                200,
                json!({
                    "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull", "namespace": "shop"},
                    "type": "kubernetes.io/dockerconfigjson",
                    "data": {".dockerconfigjson": STANDARD.encode(&document)},
                }),
            ),
            path if path.contains("/closed/") => status(403, "Forbidden"),
            _ => status(404, "NotFound"),
        };
        let response = axum::http::Response::builder()
            .status(code)
            .header(header::CONTENT_TYPE, "application/json")
            .body(KubeBody::from(body.to_string().into_bytes()))
            .unwrap();
        std::future::ready(Ok::<_, std::convert::Infallible>(response))
    });
    kube::Client::new(service, "default")
}

#[tokio::test]
async fn pull_secrets_are_used_only_for_pods_that_name_them() {
    let registry = Arc::new(Registry { private: true, ..Registry::default() });
    let host = serve(registry).await;
    let requests = Arc::default();
    let (router, _) = webhook("Inline", &host, "Pods", Some(api_server(&host, &requests)));
    let image = format!("{host}/web:1");
    let named = json!([{"name": "gone"}, {"name": "pull"}]);
    assert_eq!(os(&router, &review(&image, "shop", &Value::Null)).await, "linux", "no secret");
    assert!(requests.lock().unwrap().is_empty(), "nothing to read");
    assert_eq!(os(&router, &review(&image, "shop", &named)).await, "windows");
    // Other pods must not get its result.
    assert_eq!(os(&router, &review(&image, "shop", &Value::Null)).await, "linux");
    assert_eq!(os(&router, &review(&image, "other", &named)).await, "linux");
    assert_eq!(os(&router, &review(&image, "closed", &named)).await, "linux");
    let reads = requests.lock().unwrap().len();
    assert_eq!(os(&router, &review(&image, "shop", &named)).await, "windows");
    assert_eq!(requests.lock().unwrap().len(), reads, "secrets are kept for a while");
}

/// The whole log, as text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_log_contains_a_credential() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone());
    // One thread runs all tasks, so this subscriber gets all events.
    let _guard = tracing::subscriber::set_default(subscriber.finish());
    let host = serve(Arc::new(Registry { private: true, ..Registry::default() })).await;
    let (router, _) = webhook("Inline", &host, "Pods", Some(api_server(&host, &Arc::default())));
    let pod = review(&format!("{host}/web:1"), "shop", &json!([{"name": "pull"}]));
    assert_eq!(os(&router, &pod).await, "windows");
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("TRACE"), "the level is logged");
    let login = STANDARD.encode("user:password");
    for secret in ["password", login.as_str(), STANDARD.encode(&login).as_str(), "dockerconfigjson"] {
        assert!(!text.contains(secret), "{secret}");
    }
}

#[tokio::test]
async fn pull_secrets_are_read_in_the_background_too() {
    let registry = Arc::new(Registry { private: true, ..Registry::default() });
    let host = serve(registry).await;
    let (router, state) = webhook("Background", &host, "Pods", Some(api_server(&host, &Arc::default())));
    let image = format!("{host}/web:1");
    let pod = review(&image, "shop", &json!([{"name": "pull"}]));
    assert_eq!(os(&router, &pod).await, "linux");
    let object = &pod["request"]["object"];
    let secrets = PullSecrets::of(&Pod::of(WorkloadKind::Pod, object).unwrap(), &NamespaceName::new("shop").unwrap());
    known(&state, &image, &secrets).await;
    assert_eq!(os(&router, &pod).await, "windows");
}

#[tokio::test]
async fn pull_secrets_are_read_only_if_a_policy_allows_it() {
    let registry = Arc::new(Registry { private: true, ..Registry::default() });
    let host = serve(registry).await;
    let requests = Arc::default();
    let (router, _) = webhook("Inline", &host, "Never", Some(api_server(&host, &requests)));
    let pod = review(&format!("{host}/web:1"), "shop", &json!([{"name": "pull"}]));
    assert_eq!(os(&router, &pod).await, "linux");
    assert!(requests.lock().unwrap().is_empty());
}

#[tokio::test]
async fn no_pull_secrets_are_used_for_callers_without_a_certificate() {
    let host = serve(Arc::new(Registry { private: true, ..Registry::default() })).await;
    let requests = Arc::default();
    let spec = format!("{{plainHTTP: [\"{host}\"], pullSecrets: Pods}}");
    let mut state = state("Inline", &spec, Some(api_server(&host, &requests)), |_| AddressRule::Any);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), authority().pem()).unwrap();
    state.client_ca = Some(ClientCa::load(file.path()).unwrap());
    let state = Arc::new(state);
    let unknown = router::router(Arc::clone(&state), BodyLimits::default());
    let verified = unknown.clone().layer(Extension(VerifiedClient));
    let pod = review(&format!("{host}/web:1"), "shop", &json!([{"name": "pull"}]));
    assert_eq!(os(&unknown, &pod).await, "linux");
    assert!(requests.lock().unwrap().is_empty(), "no Secret was read");
    assert_eq!(os(&verified, &pod).await, "windows");
    assert_eq!(os(&unknown, &pod).await, "linux", "what the other review made known stays hidden");
    assert!(state.metrics.encode().unwrap().contains("mullion_unknown_callers_total 2\n"));
}

#[tokio::test]
async fn only_registries_with_an_allowed_name_and_address_are_asked() {
    let registry = Arc::new(Registry::default());
    let host = serve(Arc::clone(&registry)).await;
    let port = host.rsplit_once(':').unwrap().1;
    let by_name = format!("localhost:{port}");
    for (spec, image, reason) in [
        ("{}", &host, "has the loopback address 127.0.0.1, which no registry may have"),
        ("{registries: ['*']}", &host, "has the loopback address 127.0.0.1, which no registry may have"),
        ("{registries: ['localhost:*']}", &by_name, "localhost has the loopback address 127.0.0.1"),
        (
            "{registries: [docker.io, '*.corp.example']}",
            &host,
            "spec.registries of the RegistryPolicy does not list 127.0.0.1",
        ),
    ] {
        let spec = spec.replacen('{', &format!("{{plainHTTP: ['{host}', '{by_name}'], "), 1);
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone());
        let guard = tracing::subscriber::set_default(subscriber.finish());
        let state = Arc::new(state("Inline", &spec, None, AddressRule::of));
        let router = router::router(Arc::clone(&state), BodyLimits::default());
        assert_eq!(os(&router, &review(&format!("{image}/web:1"), "shop", &Value::Null)).await, "linux", "{spec}");
        drop(guard);
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert!(text.contains(reason), "{spec}: {text}");
        let text = state.metrics.encode().unwrap();
        assert!(text.contains("mullion_registry_answers_total{outcome=\"refused\"} 1\n"), "{text}");
    }
    assert_eq!(registry.requests.load(Ordering::SeqCst), 0);
}

#[test]
fn unusable_registry_settings_are_errors() {
    let policy = |spec: &str| {
        let text = format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: RegistryPolicy\nmetadata: {{name: a}}\nspec: {spec}\n---\n\
             apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: a}}\nspec: {{detect: {{registry: {{lookup: Inline}}}}}}\n"
        );
        PolicySet::from_files(&[("a.yaml", text)]).unwrap()
    };
    let sources = source_factory(None, |_| AddressRule::Any, Family::default());
    let in_force = PoliciesInForce::with_sources(PolicySet::default(), sources);
    for (spec, expected) in [
        ("{caFiles: [/nowhere/ca.pem]}", "/nowhere/ca.pem: "),
        ("{pullSecrets: Pods}", "there is no cluster to read Secrets from"),
    ] {
        let error = in_force.replace(&Arc::new(policy(spec))).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(in_force.source().is_none());
    }
}

/// `mullion image --registry` with these references, under a RegistryPolicy of this `spec` and a docker configuration with these
/// logins: exit code, stdout and stderr.
async fn image_command(spec: &str, logins: Value, references: &[&str]) -> (Option<i32>, String, String) {
    let directory = tempfile::tempdir().unwrap();
    let policy =
        format!("apiVersion: mullion.dev/v1alpha1\nkind: RegistryPolicy\nmetadata: {{name: a}}\nspec: {spec}\n");
    std::fs::create_dir(directory.path().join("policies")).unwrap();
    std::fs::write(directory.path().join("policies/a.yaml"), policy).unwrap();
    std::fs::write(directory.path().join("config.json"), logins.to_string()).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mullion"));
    command.args(["image", "--registry", "-o", "json", "--policies"]).arg(directory.path().join("policies"));
    command.args(references).env("DOCKER_CONFIG", directory.path());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn the_command_queries_registries_with_the_logins_of_docker() {
    let host = serve(Arc::new(Registry { private: true, ..Registry::default() })).await;
    let (web, other) = (format!("{host}/web:1"), format!("{host}/other:alpine"));
    let spec = format!("{{plainHTTP: [\"{host}\"]}}");
    let row = |reference: &str, os: &str, builds: &str, source: &str| {
        format!("{{\"reference\":\"{reference}\",\"os\":\"{os}\",\"builds\":[{builds}],\"source\":\"{source}\"}}\n")
    };
    let logins = json!({"auths": {&host: {"auth": STANDARD.encode("user:password")}}, "credsStore": "desktop"});
    let (code, out, err) = image_command(&spec, logins, &[&web, &other, &web]).await;
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let windows = |reference| row(reference, "windows", "\"10.0.20348\"", "registry");
    assert_eq!(out, [windows(&web), windows(&other), windows(&web)].concat());
    // Without a login: one message for each image, and the result by name.
    let (code, out, err) = image_command(&spec, json!({}), &[&web, &other, &web]).await;
    assert_eq!(code, Some(2));
    let unknown = row(&web, "unknown", "", "none");
    assert_eq!(out, [unknown.as_str(), &row(&other, "linux", "", "tag"), &unknown].concat());
    assert_eq!(err.lines().count(), 2, "{err}");
    assert!(err.contains(&format!("mullion: {other}: the registry does not show the image")), "{err}");
    let listed = "{registries: [docker.io]}";
    let (code, _, err) = image_command(listed, json!({}), &[&web]).await;
    let refusal = format!("the registry is not queried: spec.registries of the RegistryPolicy does not list {host}");
    assert!(code == Some(2) && err.contains(&refusal), "{err}");
    let (code, _, err) = image_command(&spec, json!({"auths": []}), &[&web]).await;
    assert!(code == Some(2) && err.contains("config.json: line 1"), "{err}");
}
