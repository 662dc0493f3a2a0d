//! Look-ups of namespaces that are too new for the watch: `kubectl apply` of a namespace and a pod takes less time than the
//! watch event of the namespace.
//!
//! Each namespace is read once for all waiting reviews, and the result is kept until the watch has certainly delivered
//! it. A missing namespace is also stored. A client of the port can send any namespace, so the reads per second are
//! limited.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use kube::Client;
use mullion_engine::model::cluster::Namespace;
use tokio::time::{Instant, timeout, timeout_at};

use crate::cluster::namespace_entry;
use crate::cluster::reading::{KindApi, NAMESPACES};
use crate::telemetry::{LogLimit, in_words};
use crate::webhook::envelope::NamespaceName;
use crate::webhook::metrics::{NamespaceOutcome, RequestMetrics};

/// The longest time that a review waits, and that a read may take.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long a namespace is kept. The watch delivers it in a fraction of a second (`GATHER` of `snapshot::live`).
const KEPT: Duration = Duration::from_secs(5);
/// How long a missing namespace, or a failed read, is stored.
const MISSING: Duration = Duration::from_secs(1);
/// The maximum number that is stored at once; further namespaces stay unknown. So at most this many are read in a
/// second.
const MOST: usize = 256;

/// One read of a namespace, for all reviews that wait for it.
type SharedRead = Shared<BoxFuture<'static, Option<Arc<Namespace>>>>;

/// The API of namespaces, and its recent results.
#[derive(Debug)]
pub struct NamespaceLookups {
    api: KindApi,
    lookups: Mutex<HashMap<NamespaceName, Lookup>>,
}

#[derive(Debug)]
struct Lookup {
    since: Instant,
    answer: SharedRead,
}

impl Lookup {
    /// Whether the result is still valid; a look-up without a result gets one within [`PATIENCE`], or never.
    fn is_valid(&self) -> bool {
        let kept = if matches!(self.answer.peek(), Some(Some(_))) { KEPT } else { MISSING };
        self.since.elapsed() < kept
    }
}

impl NamespaceLookups {
    /// The namespaces of this cluster. Requires permission to `get` namespaces; without it, no namespace is found, and
    /// a warning is logged.
    pub fn of(client: Client) -> Self {
        Self { api: KindApi::all(client, &NAMESPACES), lookups: Mutex::default() }
    }

    /// The namespace of that name. Waits until `deadline`, and at most 200 ms; `None` if there is no such namespace, or
    /// no response in time. Requires a tokio runtime.
    pub async fn get(
        &self,
        name: &NamespaceName,
        deadline: Instant,
        metrics: &RequestMetrics,
    ) -> Option<Arc<Namespace>> {
        let answer = self.lookup(name, metrics)?;
        timeout_at(deadline.min(Instant::now() + PATIENCE), answer).await.ok().flatten()
    }

    /// The read of the namespace, which all callers share.
    fn lookup(&self, name: &NamespaceName, metrics: &RequestMetrics) -> Option<SharedRead> {
        let mut lookups = self.lookups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lookups.get(name).filter(|known| known.is_valid()) {
            return Some(known.answer.clone());
        }
        if lookups.len() >= MOST {
            lookups.retain(|_, one| one.is_valid());
        }
        if lookups.len() >= MOST {
            return None;
        }
        // This is a task of its own, so that a review that stops waiting does not cancel the read for others.
        let (api, read_name, metrics) = (self.api.clone(), name.clone(), metrics.clone());
        let task = tokio::spawn(async move { read_namespace(&api, &read_name, &metrics).await });
        let answer = task.map(|read| read.ok().flatten()).boxed().shared();
        lookups.insert(name.clone(), Lookup { since: Instant::now(), answer: answer.clone() });
        Some(answer)
    }
}

/// Reads a namespace from the API server.
async fn read_namespace(api: &KindApi, name: &NamespaceName, metrics: &RequestMetrics) -> Option<Arc<Namespace>> {
    let (found, outcome) = match timeout(PATIENCE, api.get_metadata(name)).await {
        Ok(Ok(Some(Ok(namespace)))) => (namespace_entry(namespace).1.map(Arc::new), NamespaceOutcome::Found),
        // It exists, but nothing is known of it: as for the watch, which names it.
        Ok(Ok(Some(Err(_)))) => (None, NamespaceOutcome::Failed),
        Ok(Ok(None)) => (None, NamespaceOutcome::Missing),
        Ok(Err(error)) => {
            log_unread(name, &in_words(&error));
            (None, NamespaceOutcome::Failed)
        }
        Err(_) => {
            log_unread(name, "the API server did not respond in time");
            (None, NamespaceOutcome::Failed)
        }
    };
    metrics.namespace_lookups.get_or_create(&outcome).inc();
    found
}

/// Logs some of the namespaces that could not be read: any client can send names, and each is read.
fn log_unread(namespace: &str, error: &str) {
    static LOG: LogLimit = LogLimit::new();
    if let Some(omitted) = LOG.pass(std::time::Instant::now()) {
        let text = "cannot read a new namespace";
        tracing::warn!(namespace, error, not_logged_since_the_last = omitted, "{text}");
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;
    use http::{Request, Response};
    use kube::client::Body;
    use mullion_engine::admission::Endpoint;
    use mullion_engine::model::cluster::ClusterSnapshot;
    use mullion_policy::PolicySet;
    use serde_json::json;

    use super::*;
    use crate::server::{ReceivedBody, RequestDeadline};
    use crate::webhook::caller::ReviewCaller;
    use crate::webhook::handler::handle;
    use crate::webhook::state::WebhookState;

    /// A server that takes `delay` for each response, a namespace with an annotation, or `status`; and the number of requests.
    fn server(delay: Duration, status: u16) -> (NamespaceLookups, Arc<AtomicUsize>) {
        let requests = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&requests);
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
        (NamespaceLookups::of(Client::new(service, "default")), requests)
    }

    const QUICK: Duration = Duration::from_millis(20);

    async fn get(namespaces: &NamespaceLookups, name: &str) -> Option<Arc<Namespace>> {
        let name = NamespaceName::new(name).unwrap();
        namespaces.get(&name, Instant::now() + Duration::from_secs(10), &RequestMetrics::default()).await
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_reviews_share_one_read() {
        let (namespaces, requests) = server(QUICK, 200);
        let found = join_all((0..50).map(|_| get(&namespaces, "shop"))).await;
        assert!(found.iter().all(|one| one.as_ref().is_some_and(|one| one.os().is_some())), "{found:?}");
        assert_eq!(requests.load(Ordering::SeqCst), 1);
        get(&namespaces, "other").await.unwrap();
        assert_eq!(requests.load(Ordering::SeqCst), 2);
        tokio::time::advance(KEPT).await;
        get(&namespaces, "shop").await.unwrap();
        assert_eq!(requests.load(Ordering::SeqCst), 3, "the namespace can have changed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_namespace_is_remembered_for_a_second() {
        for status in [404, 403] {
            let (namespaces, requests) = server(QUICK, status);
            for _ in 0..1_000 {
                assert!(get(&namespaces, "shop").await.is_none());
            }
            assert_eq!(requests.load(Ordering::SeqCst), 1);
            tokio::time::advance(MISSING).await;
            get(&namespaces, "shop").await;
            assert_eq!(requests.load(Ordering::SeqCst), 2);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_review_waits_until_its_deadline_and_at_most_200_ms() {
        let (namespaces, requests) = server(Duration::from_secs(60), 200);
        let start = Instant::now();
        assert!(get(&namespaces, "shop").await.is_none());
        assert_eq!(start.elapsed().as_millis() / 10, PATIENCE.as_millis() / 10);
        // Other reviews neither read nor wait again while the failure is stored.
        assert!(get(&namespaces, "shop").await.is_none());
        assert_eq!((start.elapsed().as_millis() / 10, requests.load(Ordering::SeqCst)), (PATIENCE.as_millis() / 10, 1));

        let (namespaces, _) = server(QUICK, 200);
        let late = Instant::now() + QUICK / 2;
        let shop = NamespaceName::new("shop").unwrap();
        assert!(namespaces.get(&shop, late, &RequestMetrics::default()).await.is_none());
        assert_eq!(Instant::now(), late);
        // A result that is too late for one review is available for the next.
        tokio::time::advance(QUICK).await;
        assert!(namespaces.get(&shop, Instant::now() + QUICK, &RequestMetrics::default()).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn many_names_cause_a_limited_number_of_reads() {
        let (namespaces, requests) = server(QUICK, 404);
        let names: Vec<_> = (0..4 * MOST).map(|at| format!("n{at}")).collect();
        for _ in 0..3 {
            join_all(names.iter().map(|name| get(&namespaces, name))).await;
        }
        assert_eq!(requests.load(Ordering::SeqCst), MOST);
        // After that, new names are read again.
        tokio::time::advance(MISSING).await;
        get(&namespaces, "shop").await;
        assert_eq!(requests.load(Ordering::SeqCst), MOST + 1);
        assert_eq!(namespaces.lookups.lock().unwrap().len(), 1);
    }

    /// The response for a pod of unknown system in a namespace that the snapshot does not contain.
    async fn reviewed(namespaces: Option<NamespaceLookups>, deadline: Duration, policy: &str) -> serde_json::Value {
        let policies = PolicySet::from_files(&[("x.yaml", policy)]).unwrap();
        let mut state = WebhookState::fixed(ClusterSnapshot::default(), policies);
        state.namespaces = namespaces;
        let state = Arc::new(state);
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CREATE",
            "namespace": "shop", "object": {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "app"}]}}}});
        let body = ReceivedBody::of_bytes(review.to_string().into(), &state.memory);
        let answer = handle(&state, Endpoint::Mutate, ReviewCaller::ApiServer, body, RequestDeadline::after(deadline))
            .await
            .unwrap();
        serde_json::from_slice::<serde_json::Value>(&answer).unwrap()["response"].clone()
    }

    #[tokio::test(start_paused = true)]
    async fn a_review_waits_for_its_namespace() {
        let all = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: a}\nspec: {mode: Enforce}\n";
        // If policies select namespaces by labels, they can select an unknown one.
        let chosen = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: a}\nspec: {mode: Disabled}\n---\n\
            apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: b}\n\
            spec: {priority: 1, mode: Enforce, match: {namespaceSelector: {matchExpressions: [{key: x, operator: DoesNotExist}]}}}\n";
        for policy in [all, chosen] {
            let (namespaces, requests) = server(QUICK, 200);
            let answer = reviewed(Some(namespaces), PATIENCE, policy).await;
            assert!(answer["auditAnnotations"]["decision"].as_str().unwrap().starts_with("windows"), "{answer}");
            assert!(answer["auditAnnotations"].get("namespace-unknown").is_none(), "{answer}");
            assert_eq!(requests.load(Ordering::SeqCst), 1);
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
        assert_eq!(answer, json!({"uid": "u", "allowed": true}), "a disabled policy adds nothing");
    }
}
