//! Look-ups of images in reviews: which source is used, and how long a review waits.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use base64::Engine as _;
use mullion::server::{BodyLimits, LogLevelChanges};
use mullion::webhook::envelope::{NamespaceName, SecretName};
use mullion::webhook::{
    PlatformFuture, PlatformSource, PoliciesInForce, PullSecrets, WebhookState, admin, engine_review, reload, router,
};
use mullion_engine::model::WorkloadKind;
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::image::{ImageRef, Platform, Platforms};
use mullion_engine::model::pod_view::Pod;
use mullion_policy::{PolicyReading, PolicySet, RegistryPolicy};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{pod_review, post, send};

const APP: &str = "registry.example.com/web:1";

/// A registry that responds after some time, or never; its requests; and its cache.
#[derive(Debug, Default)]
struct Slow {
    /// `None`: never.
    after: Option<Duration>,
    cache: Mutex<BTreeMap<String, Arc<Platforms>>>,
    /// The expired results.
    old: Mutex<BTreeMap<String, Arc<Platforms>>>,
    looked: AtomicUsize,
    wanted: Mutex<Vec<String>>,
}

fn windows() -> Arc<Platforms> {
    let entry = Platform {
        os: "windows".to_owned(),
        architecture: "amd64".to_owned(),
        os_version: Some("10.0.20348.2655".to_owned()),
        os_features: Vec::new(),
    };
    Arc::new(Platforms { entries: vec![entry], index: true })
}

fn name(image: &ImageRef<'_>) -> String {
    format!("{}/{}:{}", image.registry().unwrap_or(""), image.repository(), image.tag().unwrap_or(""))
}

impl Slow {
    fn answering_after(after: Option<Duration>) -> Arc<Self> {
        Arc::new(Self { after, ..Self::default() })
    }

    fn fill(&self) {
        for image in self.wanted.lock().unwrap().iter() {
            self.cache.lock().unwrap().insert(image.clone(), windows());
        }
    }
}

impl PlatformSource for Slow {
    fn known(&self, image: &ImageRef<'_>, _secrets: &PullSecrets) -> Option<Arc<Platforms>> {
        self.looked.fetch_add(1, Ordering::SeqCst);
        self.cache.lock().unwrap().get(&name(image)).cloned()
    }

    fn last_known(&self, image: &ImageRef<'_>, _secrets: &PullSecrets) -> Option<Arc<Platforms>> {
        self.old.lock().unwrap().get(&name(image)).cloned()
    }

    fn want(&self, image: &ImageRef<'_>, _secrets: &PullSecrets) {
        self.wanted.lock().unwrap().push(name(image));
    }

    fn resolve<'a>(
        &'a self,
        image: &'a ImageRef<'a>,
        _secrets: &'a PullSecrets,
        deadline: Instant,
    ) -> PlatformFuture<'a> {
        self.wanted.lock().unwrap().push(name(image));
        let answer = async {
            match self.after {
                None => std::future::pending().await,
                Some(after) => tokio::time::sleep(after).await,
            }
            windows()
        };
        Box::pin(async move { tokio::time::timeout_at(deadline, answer).await.ok() })
    }
}

fn policies(lookup: &str) -> PolicySet {
    let policy = format!(
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: a}}\nspec:\n  \
         detect: {{registry: {{lookup: {lookup}}}}}\n"
    );
    PolicySet::from_files(&[("a.yaml", policy)]).unwrap()
}

fn server(lookup: &str, source: &Arc<Slow>) -> (Router, Arc<WebhookState>) {
    let mut state = WebhookState::fixed(ClusterSnapshot::default(), PolicySet::default());
    state.policies = PoliciesInForce::fixed(policies(lookup), Some(Arc::clone(source) as _));
    let state = Arc::new(state);
    (router::router(Arc::clone(&state), BodyLimits::default()), state)
}

/// The object of a review as it would be stored.
pub(crate) async fn stored(router: &Router, query: &str, review: &Value) -> Value {
    let answer = post(router, &format!("/mutate{query}"), review.to_string()).await.review();
    assert_eq!(answer["allowed"], true);
    let mut object = review["request"]["object"].clone();
    if let Some(patch) = answer["patch"].as_str() {
        let patch = base64::engine::general_purpose::STANDARD.decode(patch).unwrap();
        let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
        json_patch::patch(&mut object, &patch).unwrap();
    }
    object
}

/// The nodeSelector that a review adds to a pod.
async fn selector(router: &Router, query: &str) -> String {
    let object = stored(router, query, &pod_review("web")).await;
    object["spec"]["nodeSelector"]["kubernetes.io/os"].as_str().unwrap_or_default().to_owned()
}

/// How often each outcome was counted.
fn counted(state: &WebhookState, outcome: &str) -> u64 {
    let text = state.metrics.encode().unwrap();
    let line = format!("mullion_image_lookups_total{{outcome=\"{outcome}\"}} ");
    text.lines().find_map(|found| found.strip_prefix(&line)).map_or(0, |number| number.parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn mode_never_uses_no_source() {
    let source = Slow::answering_after(Some(Duration::ZERO));
    let (router, state) = server("Never", &source);
    assert_eq!(selector(&router, "?timeout=1s").await, "linux");
    assert_eq!(source.looked.load(Ordering::SeqCst), 0);
    assert!(source.wanted.lock().unwrap().is_empty());
    assert!(!state.metrics.encode().unwrap().contains("image_lookups_total{"));
}

#[tokio::test(start_paused = true)]
async fn in_the_background_the_first_pod_does_not_wait_and_the_second_is_correct() {
    let source = Slow::answering_after(None);
    let (router, state) = server("Background", &source);
    // Time is paused, and advances only while something waits.
    let before = Instant::now();
    assert_eq!(selector(&router, "?timeout=1s").await, "linux");
    assert_eq!(Instant::now(), before, "a registry that hangs costs nothing");
    assert_eq!(*source.wanted.lock().unwrap(), [APP]);
    source.fill();
    assert_eq!(selector(&router, "?timeout=1s").await, "windows");
    assert_eq!((counted(&state, "queued"), counted(&state, "known")), (1, 1));
    let metrics =
        send(&admin::router(&state, LogLevelChanges::FromPod), Request::get("/metrics").body(Body::empty()).unwrap())
            .await;
    assert!(metrics.text().contains("mullion_image_lookups_total{outcome=\"known\"} 1"), "{}", metrics.text());
}

#[tokio::test(start_paused = true)]
async fn the_last_answer_is_used_during_the_next_look_up() {
    for lookup in ["Background", "Inline"] {
        let source = Slow::answering_after(None);
        source.old.lock().unwrap().insert(APP.to_owned(), windows());
        let (router, _) = server(lookup, &source);
        assert_eq!(selector(&router, "?timeout=1s").await, "windows", "{lookup}");
        assert_eq!(*source.wanted.lock().unwrap(), [APP], "{lookup}: asked again");
    }
}

#[test]
fn a_registry_problem_is_shown_until_it_is_corrected() {
    let gone = Arc::new(AtomicBool::new(true));
    let flag = Arc::clone(&gone);
    let mut state = WebhookState::fixed(ClusterSnapshot::default(), PolicySet::default());
    let sources = Box::new(move |_: &RegistryPolicy| {
        anyhow::ensure!(!flag.load(Ordering::SeqCst), "no such file");
        Ok(Slow::answering_after(None) as Arc<dyn PlatformSource>)
    });
    state.policies = PoliciesInForce::with_sources(PolicySet::default(), sources);
    let step = |step| reload::policies_once(&state, &step, 1);
    step(PolicyReading::Loaded(Arc::new(policies("Inline"))));
    assert_eq!(state.policy_reporter.report().registries.as_deref(), Some("no such file"));
    assert!(state.policies.source().is_none() && state.policy_reporter.report().problems().next().is_none());
    gone.store(false, Ordering::SeqCst);
    step(PolicyReading::Unchanged);
    assert_eq!(state.policy_reporter.report().registries, None);
    assert!(state.policies.source().is_some());
}

#[tokio::test(start_paused = true)]
async fn inline_the_first_pod_is_correct() {
    let source = Slow::answering_after(Some(Duration::from_millis(400)));
    let (router, state) = server("Inline", &source);
    let before = Instant::now();
    assert_eq!(selector(&router, "?timeout=1s").await, "windows");
    assert!(before.elapsed() < Duration::from_millis(410), "{:?}", before.elapsed());
    assert_eq!((counted(&state, "resolved"), counted(&state, "late")), (1, 0));
    // A known image is not looked up again.
    source.fill();
    let before = Instant::now();
    assert_eq!(selector(&router, "?timeout=1s").await, "windows");
    assert_eq!((Instant::now(), counted(&state, "known")), (before, 1));
}

#[tokio::test(start_paused = true)]
async fn inline_no_review_waits_longer_than_half_its_time() {
    for (query, most) in [("?timeout=1s", 500), ("?timeout=100ms", 50), ("?timeout=30s", 800), ("", 800)] {
        let source = Slow::answering_after(None);
        let (router, state) = server("Inline", &source);
        let before = Instant::now();
        assert_eq!(selector(&router, query).await, "linux", "the response without a look-up");
        let waited = before.elapsed();
        let most = Duration::from_millis(most);
        // The clock of tokio has whole milliseconds.
        assert!(waited >= most && waited <= most + Duration::from_millis(2), "{query}: {waited:?}");
        assert_eq!(counted(&state, "late"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn images_of_one_pod_are_looked_up_concurrently() {
    let source = Slow::answering_after(Some(Duration::from_millis(300)));
    let (router, state) = server("Inline", &source);
    let mut review = pod_review("web");
    let containers: Vec<Value> =
        (0..20).map(|at| json!({"name": format!("c{at}"), "image": format!("registry.example.com/c:{at}")})).collect();
    review["request"]["object"]["spec"]["containers"] = containers.into();
    let before = Instant::now();
    post(&router, "/mutate?timeout=1s", review.to_string()).await.review();
    assert!(before.elapsed() < Duration::from_millis(310), "{:?}", before.elapsed());
    assert_eq!(counted(&state, "resolved"), 20);
}

#[tokio::test]
async fn without_a_source_every_mode_responds() {
    for lookup in ["Never", "Background", "Inline"] {
        let state = WebhookState::fixed(ClusterSnapshot::default(), policies(lookup));
        let router = router::router(Arc::new(state), BodyLimits::default());
        assert_eq!(selector(&router, "?timeout=1s").await, "linux");
    }
}

#[test]
fn the_source_follows_the_policies() {
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let sources = Box::new(move |policy: &RegistryPolicy| {
        count.fetch_add(1, Ordering::SeqCst);
        anyhow::ensure!(policy.ca_files.is_empty(), "no such file");
        Ok(Slow::answering_after(None) as Arc<dyn PlatformSource>)
    });
    let in_force = PoliciesInForce::with_sources(PolicySet::default(), sources);
    let registry = |spec: &str| {
        let text =
            format!("apiVersion: mullion.dev/v1alpha1\nkind: RegistryPolicy\nmetadata: {{name: a}}\nspec: {spec}\n");
        let pods = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: a}\nspec: {detect: {registry: {lookup: Inline}}}\n";
        PolicySet::from_files(&[("r.yaml", text.as_str()), ("p.yaml", pods)]).unwrap()
    };
    let follow = |set: PolicySet| {
        let outcome = in_force.replace(&Arc::new(set)).map_err(|error| error.to_string());
        (outcome, in_force.source().is_some(), made.load(Ordering::SeqCst))
    };
    assert_eq!(follow(policies("Never")), (Ok(()), false, 0));
    assert_eq!(follow(policies("Background")), (Ok(()), true, 1));
    assert_eq!(follow(policies("Inline")), (Ok(()), true, 1), "the same source");
    assert_eq!(follow(registry("{timeout: 3s}")), (Ok(()), true, 2));
    assert_eq!(follow(registry("{caFiles: [/gone]}")), (Err("no such file".to_owned()), false, 3));
    assert_eq!(follow(registry("{timeout: 3s}")), (Ok(()), true, 4));
    assert_eq!(follow(policies("Never")), (Ok(()), false, 4));
}

/// The review of a pod under policies with look-ups, while policies without look-ups come into force.
#[tokio::test(start_paused = true)]
async fn source_and_policies_of_a_review_belong_together() {
    static STATE: OnceLock<Arc<WebhookState>> = OnceLock::new();
    static HASHES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut state = WebhookState::fixed(ClusterSnapshot::default(), PolicySet::default());
    let sources =
        Box::new(|_: &_| Ok(Slow::answering_after(Some(Duration::from_millis(100))) as Arc<dyn PlatformSource>));
    state.policies = PoliciesInForce::with_sources(PolicySet::default(), sources);
    state.review = |request, snapshot, policies, endpoint| {
        HASHES.lock().unwrap().push(policies.hash.clone());
        reload::in_force(STATE.get().unwrap(), &Arc::new(self::policies("Never")));
        engine_review::review_and_respond(request, snapshot, policies, endpoint)
    };
    let state = STATE.get_or_init(|| Arc::new(state));
    reload::in_force(state, &Arc::new(policies("Inline")));
    let router = router::router(Arc::clone(state), BodyLimits::default());
    assert_eq!(selector(&router, "?timeout=1s").await, "windows", "by the policies at its begin");
    let first = policies("Inline").hash;
    assert_eq!(*HASHES.lock().unwrap(), [first.clone(), first], "before and after the look-up");
    assert_eq!(selector(&router, "?timeout=1s").await, "linux");
    assert!(state.policies.source().is_none(), "an unused source is dropped");
}

#[test]
fn pull_secrets_of_a_pod_are_limited() {
    let many: Vec<Value> = (0..1000).map(|at| json!({"name": format!("s{at}")})).collect();
    for (list, expected) in [
        (json!([{"name": "b"}, {"name": "a"}, {"name": "b"}]), vec!["b".to_owned(), "a".to_owned()]),
        (json!([{"name": ""}, {}, 7, {"name": 1}, {"name": "x".repeat(254)}, {"name": "../../pods"}]), vec![]),
        (json!(null), vec![]),
        (json!("x"), vec![]),
        (many.into(), (0..16).map(|at| format!("s{at}")).collect()),
    ] {
        let object = json!({"spec": {"template": {"spec": {"imagePullSecrets": list}}}});
        let pod = Pod::of(WorkloadKind::Deployment, &object).unwrap();
        let shop = NamespaceName::new("shop").unwrap();
        let secrets = PullSecrets::of(&pod, &shop);
        let names = |names: &[SecretName]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let found = secrets.names().map(|(namespace, found)| (namespace.to_string(), names(found)));
        assert_eq!(found, (!expected.is_empty()).then(|| ("shop".to_owned(), expected)));
    }
}
