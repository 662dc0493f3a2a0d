//! Namespaces that are too new for the watch: `kubectl apply` of a namespace and a pod takes less time than the news of
//! the namespace.
//!
//! Each is asked for once, whoever waits for it, and the answer is kept until the watch has surely brought it. That there
//! is none is kept too: who reaches the port can name any namespace, and what is asked per second has a bound.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1 as core;
use kube::{Api, Client};
use mullion_engine::model::cluster::namespace::Namespace;
use tokio::sync::watch as channel;
use tokio::time::{Instant, timeout, timeout_at};

use crate::cluster::live::namespace_entry;
use crate::telemetry::error_text::in_words;
use crate::telemetry::metrics::{Metrics, NamespaceOutcome};

/// The longest that a review waits, and that is asked for.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long a namespace is kept. The watch brings it in a fraction of a second (`GATHER` of `snapshot::live`).
const KEPT: Duration = Duration::from_secs(5);
/// How long it is kept that there is none, or that nobody could say.
const MISSING: Duration = Duration::from_secs(1);
/// How many are kept at once; of more, nothing is known. So at most as many are asked for in a second.
const MOST: usize = 256;
/// The longest name: namespaces are DNS labels (`ValidateNamespaceName`, apimachinery `pkg/api/validation/generic.go`).
const LONGEST_NAME: usize = 63;

/// What is known of one; the outer `None`: nothing yet.
type Answer = Option<Option<Arc<Namespace>>>;

/// Who is asked for namespaces, and what was answered lately.
#[derive(Debug)]
pub struct Namespaces {
    api: Api<core::Namespace>,
    asked: Mutex<HashMap<Box<str>, Asked>>,
}

#[derive(Debug)]
struct Asked {
    since: Instant,
    answer: channel::Receiver<Answer>,
}

impl Asked {
    /// Whether it is still to be relied on; what is not answered yet is answered within [`PATIENCE`], or never.
    fn holds(&self) -> bool {
        let kept = if matches!(&*self.answer.borrow(), Some(Some(_))) { KEPT } else { MISSING };
        self.since.elapsed() < kept
    }
}

impl Namespaces {
    /// Those of this cluster. Needs `get` on namespaces; without, none is found, and the log says so.
    pub fn of(client: Client) -> Self {
        Self { api: Api::all(client), asked: Mutex::default() }
    }

    /// The namespace of that name, waiting until `deadline` and no longer than 200 ms; `None` if there is none, or
    /// nobody says so in time. Needs a tokio runtime.
    pub async fn get(&self, name: &str, deadline: Instant, metrics: &Metrics) -> Option<Arc<Namespace>> {
        let mut answer = self.asked(name, metrics)?;
        let deadline = deadline.min(Instant::now() + PATIENCE);
        let answered = timeout_at(deadline, answer.wait_for(Option::is_some)).await;
        answered.ok()?.ok()?.clone().flatten()
    }

    /// Where the answer is, or will be.
    fn asked(&self, name: &str, metrics: &Metrics) -> Option<channel::Receiver<Answer>> {
        if !is_name(name) {
            return None;
        }
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = asked.get(name).filter(|known| known.holds()) {
            return Some(known.answer.clone());
        }
        if asked.len() >= MOST {
            asked.retain(|_, one| one.holds());
        }
        if asked.len() >= MOST {
            return None;
        }
        let (say, answer) = channel::channel(None);
        asked.insert(name.into(), Asked { since: Instant::now(), answer: answer.clone() });
        // On its own: nobody who stops waiting takes the answer from others.
        let (api, name, metrics) = (self.api.clone(), name.to_owned(), metrics.clone());
        tokio::spawn(async move {
            let found = find(&api, &name, &metrics).await;
            say.send_replace(Some(found));
        });
        Some(answer)
    }
}

/// Asks the API server.
async fn find(api: &Api<core::Namespace>, name: &str, metrics: &Metrics) -> Option<Arc<Namespace>> {
    let (found, outcome) = match timeout(PATIENCE, api.get_metadata_opt(name)).await {
        Ok(Ok(Some(namespace))) => (namespace_entry(namespace).1.map(Arc::new), NamespaceOutcome::Found),
        Ok(Ok(None)) => (None, NamespaceOutcome::Missing),
        Ok(Err(error)) => {
            tracing::warn!(namespace = name, error = in_words(&error), "cannot read a namespace that is new");
            (None, NamespaceOutcome::Failed)
        }
        Err(_) => {
            tracing::warn!(namespace = name, "the API server does not say in time what a namespace that is new has");
            (None, NamespaceOutcome::Failed)
        }
    };
    metrics.namespace_lookup(outcome);
    found
}

/// Whether a namespace can have the name; anything else would be a path of its own.
fn is_name(name: &str) -> bool {
    let label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(label)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;
    use http::{Request, Response};
    use kube::client::Body;
    use mullion_engine::admission::response::Endpoint;
    use mullion_engine::model::cluster::snapshot::ClusterSnapshot;
    use mullion_policy::policy_set::PolicySet;
    use serde_json::json;

    use super::*;
    use crate::webhook::handler::handle;
    use crate::webhook::state::State;

    /// A server that takes `delay` for each answer: a namespace with an annotation, or `status`. And how often it was
    /// asked.
    fn server(delay: Duration, status: u16) -> (Namespaces, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            count.fetch_add(1, Ordering::SeqCst);
            let name = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
            async move {
                tokio::time::sleep(delay).await;
                let body = match status {
                    200 => json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                        "metadata": {"name": name, "annotations": {"mullion.dev/os": "windows", "other": "x"}}}),
                    code => json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no",
                        "reason": if code == 404 { "NotFound" } else { "Forbidden" }, "code": code}),
                };
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(status).body(body).expect("a response"))
            }
        });
        (Namespaces::of(Client::new(service, "default")), asked)
    }

    const QUICK: Duration = Duration::from_millis(20);

    async fn get(namespaces: &Namespaces, name: &str) -> Option<Arc<Namespace>> {
        namespaces.get(name, Instant::now() + Duration::from_secs(10), &Metrics::new()).await
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_want_it_wait_for_one_answer() {
        let (namespaces, asked) = server(QUICK, 200);
        let found = join_all((0..50).map(|_| get(&namespaces, "shop"))).await;
        assert!(found.iter().all(|one| one.as_ref().is_some_and(|one| one.annotations.len() == 1)), "{found:?}");
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        get(&namespaces, "other").await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        tokio::time::advance(KEPT).await;
        get(&namespaces, "shop").await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 3, "it may be another by then");
    }

    #[tokio::test(start_paused = true)]
    async fn that_there_is_none_is_known_for_a_while() {
        for status in [404, 403] {
            let (namespaces, asked) = server(QUICK, status);
            for _ in 0..1_000 {
                assert!(get(&namespaces, "shop").await.is_none());
            }
            assert_eq!(asked.load(Ordering::SeqCst), 1);
            tokio::time::advance(MISSING).await;
            get(&namespaces, "shop").await;
            assert_eq!(asked.load(Ordering::SeqCst), 2);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_longer_than_is_due() {
        let (namespaces, asked) = server(Duration::from_secs(60), 200);
        let start = Instant::now();
        assert!(get(&namespaces, "shop").await.is_none());
        assert_eq!(start.elapsed().as_millis() / 10, PATIENCE.as_millis() / 10);
        // Others neither ask nor wait anew while it is known that nobody answers.
        assert!(get(&namespaces, "shop").await.is_none());
        assert_eq!((start.elapsed().as_millis() / 10, asked.load(Ordering::SeqCst)), (PATIENCE.as_millis() / 10, 1));

        let (namespaces, _) = server(QUICK, 200);
        let late = Instant::now() + QUICK / 2;
        assert!(namespaces.get("shop", late, &Metrics::new()).await.is_none());
        assert_eq!(Instant::now(), late);
        // What came too late for one is there for the next.
        tokio::time::advance(QUICK).await;
        assert!(namespaces.get("shop", Instant::now() + QUICK, &Metrics::new()).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_names_has_an_end() {
        let (namespaces, asked) = server(QUICK, 404);
        let names: Vec<_> = (0..4 * MOST).map(|at| format!("n{at}")).collect();
        for _ in 0..3 {
            join_all(names.iter().map(|name| get(&namespaces, name))).await;
        }
        assert_eq!(asked.load(Ordering::SeqCst), MOST);
        // And is over when it is over.
        tokio::time::advance(MISSING).await;
        get(&namespaces, "shop").await;
        assert_eq!(asked.load(Ordering::SeqCst), MOST + 1);
        assert_eq!(namespaces.asked.lock().unwrap().len(), 1);
    }

    /// What comes of an opaque pod in a namespace that the snapshot does not have.
    async fn reviewed(namespaces: Option<Namespaces>, deadline: Duration, policy: &str) -> serde_json::Value {
        let policies = PolicySet::from_files(&[("x.yaml", policy)]).unwrap();
        let mut state = State::fixed(ClusterSnapshot::default(), policies);
        state.namespaces = namespaces;
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CREATE",
            "namespace": "shop", "object": {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "app"}]}}}});
        let deadline = Instant::now() + deadline;
        let answer = handle(&state, Endpoint::Mutate, review.to_string().as_bytes(), deadline).await.unwrap();
        serde_json::from_slice::<serde_json::Value>(&answer).unwrap()["response"].clone()
    }

    #[tokio::test(start_paused = true)]
    async fn a_review_waits_for_its_namespace() {
        let all = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: a}\nspec: {mode: Enforce}\n";
        // Where policies speak to chosen namespaces only, an unknown one may be among them.
        let chosen = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: a}\nspec: {mode: Disabled}\n---\n\
            apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: b}\n\
            spec: {priority: 1, mode: Enforce, match: {namespaceSelector: {matchExpressions: [{key: x, operator: DoesNotExist}]}}}\n";
        for policy in [all, chosen] {
            let (namespaces, asked) = server(QUICK, 200);
            let answer = reviewed(Some(namespaces), PATIENCE, policy).await;
            assert!(answer["auditAnnotations"]["decision"].as_str().unwrap().starts_with("windows"), "{answer}");
            assert!(answer["auditAnnotations"].get("namespace-unknown").is_none(), "{answer}");
            assert_eq!(asked.load(Ordering::SeqCst), 1);
        }
        let (slow, _) = server(QUICK, 200);
        let (missing, _) = server(QUICK, 404);
        for (namespaces, deadline) in [(Some(slow), QUICK / 2), (Some(missing), PATIENCE), (None, PATIENCE)] {
            let answer = reviewed(namespaces, deadline, all).await;
            assert_eq!(answer["allowed"], true);
            assert!(answer["auditAnnotations"]["namespace-unknown"].is_string(), "{answer}");
            assert!(
                answer["auditAnnotations"]["decision"].as_str().is_none_or(|by| by.starts_with("linux")),
                "{answer}"
            );
        }
        let disabled = all.replace("Enforce", "Disabled");
        let answer = reviewed(None, PATIENCE, &disabled).await;
        assert_eq!(answer, json!({"uid": "u", "allowed": true}), "silence is silence");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_name_is_not_asked_for() {
        let (namespaces, asked) = server(QUICK, 200);
        for name in ["", "a/../../nodes", "A", "a b", "a%2fb", "é", &"a".repeat(64)] {
            assert!(get(&namespaces, name).await.is_none(), "{name}");
        }
        assert_eq!(asked.load(Ordering::SeqCst), 0);
    }
}
