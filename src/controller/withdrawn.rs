//! What the controller does while Mullion is withdrawn: it leaves the cluster alone, and reports that it does.
//!
//! `mullion withdraw` writes the time into `withdrawn` of ConfigMap `mullion-state`, and `mullion withdraw --undo`, or
//! whoever removes the key or the ConfigMap, takes it back. No process needs a restart for either. The withdrawal of a
//! former release ends once a controller with another ServiceAccount reads it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch as channel;
use tokio::time::{sleep, timeout};

use crate::cluster::state::document::{Condition, State};
use crate::controller::leader::Leading;
use crate::telemetry::error_text::in_words;

/// The condition of `mullion-state` that reports whether the controller has stopped.
pub(crate) const CONDITION: &str = "Withdrawn";

/// How often the ConfigMap is read beside the watch, which may be silent for minutes before it is taken for dead.
const READ_AGAIN: Duration = Duration::from_secs(10);
/// How long to rest on where the ConfigMap was deleted. Uninstalling may delete the ServiceAccount first, and with it
/// what it owns: its token is good for 10 s more (`TokenSuccessCacheTTL` in pkg/kubeapiserver/options/authentication.go),
/// and after that this process can do no harm.
const GONE: Duration = Duration::from_secs(15);
/// After a failure to read or write it.
const RETRY: Duration = Duration::from_secs(2);

type Followed = channel::Receiver<Option<Arc<State>>>;

/// Whether the controller reports that it leaves the cluster alone.
pub(crate) fn acknowledged(state: &State) -> bool {
    state.condition(CONDITION).is_some_and(|condition| condition.status == "True")
}

/// Runs `duties` while Mullion is not withdrawn, until `leading.stop`, or until they end by themselves.
/// The ConfigMap is read before the first of them starts: a controller that knows nothing yet writes nothing.
pub(crate) async fn run_unless_withdrawn<F: Future<Output = ()>>(leading: Leading, duties: impl Fn(Leading) -> F) {
    let mut followed = leading.state.state.clone();
    loop {
        tokio::select! {
            () = leading.stop.cancelled() => return,
            () = rest(&leading, &mut followed) => {}
        }
        let stop = leading.stop.child_token();
        let working = duties(Leading { stop: stop.clone(), ..leading.clone() });
        tokio::pin!(working);
        tokio::select! {
            () = &mut working => return,
            () = wait_for_withdrawal(&leading, &mut followed) => {}
        }
        stop.cancel();
        // Requests under way end first: whoever waits for the report may rely on it.
        working.await;
    }
}

/// Ends where Mullion is not withdrawn, or no longer.
async fn rest(leading: &Leading, followed: &mut Followed) {
    let (mut rested, mut waited) = (false, false);
    loop {
        let state = read(leading).await;
        leading.metrics.withdrawn(state.withdrawn.is_some());
        let Some(since) = &state.withdrawn else {
            // Whoever removes the key leaves the report about it; a ConfigMap that was deleted and made again has none.
            if rested && !acknowledged(&state) && !std::mem::replace(&mut waited, true) {
                sleep(GONE).await;
                continue;
            }
            // The watch may not have heard yet that it is over.
            if timeout(READ_AGAIN, wait_for(followed, false)).await.is_err() && is_withdrawn(followed) {
                continue;
            }
            if rested {
                // What was read before is old.
                leading.ready.send_replace(false);
                tracing::info!("no longer withdrawn: at work again");
            }
            if acknowledged(&state) {
                report(leading, &state, "False").await;
            }
            return;
        };
        waited = false;
        if !std::mem::replace(&mut rested, true) {
            tracing::warn!(
                since,
                namespace = leading.namespace,
                "withdrawn: nodes, RuntimeClasses and pods are left alone; mullion withdraw --undo ends it"
            );
        }
        // Nothing is read here that readiness could wait for.
        leading.ready.send_replace(true);
        report(leading, &state, "True").await;
        if let Ok(Err(_)) = timeout(READ_AGAIN, followed.changed()).await {
            sleep(READ_AGAIN).await;
        }
    }
}

/// Waits until Mullion is withdrawn, by the watch or by the ConfigMap itself.
async fn wait_for_withdrawal(leading: &Leading, followed: &mut Followed) {
    while timeout(READ_AGAIN, wait_for(followed, true)).await.is_err() {
        if leading.store.read().await.is_ok_and(|state| state.withdrawn.is_some()) {
            return;
        }
    }
}

/// Waits until Mullion is withdrawn, or is not, by the watch. For ever, where nothing is watched any more.
async fn wait_for(followed: &mut Followed, withdrawn: bool) {
    let is_so = |state: &Option<Arc<State>>| state.as_ref().is_some_and(|state| state.withdrawn.is_some() == withdrawn);
    if followed.wait_for(is_so).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn is_withdrawn(followed: &Followed) -> bool {
    followed.borrow().as_ref().is_some_and(|state| state.withdrawn.is_some())
}

/// From the API server itself, however long that takes. What hinders it is logged once, not with each attempt.
async fn read(leading: &Leading) -> State {
    let mut logged = String::new();
    loop {
        let error = match leading.store.claim().await {
            Ok(state) => return state,
            Err(error) => in_words(error.as_ref()),
        };
        if error != logged {
            tracing::warn!(error, "nothing is done about nodes, RuntimeClasses and pods until this can be read");
            logged = error;
        }
        sleep(RETRY).await;
    }
}

/// Writes the condition unless it stands already. What cannot be written is tried again at the next turn.
async fn report(leading: &Leading, state: &State, status: &str) {
    if state.condition(CONDITION).is_some_and(|condition| condition.status == status) {
        return;
    }
    let (reason, message) = match status {
        "True" => ("Asked", "Mullion changes no nodes, RuntimeClasses and pods; mullion withdraw --undo ends it"),
        _ => ("AtWork", "Mullion is at work"),
    };
    let condition = Condition::new(CONDITION, status, reason, message);
    // Not where `withdrawn` has changed meanwhile: then the next turn reports that.
    let written = leading
        .store
        .update(|newest| {
            if newest.withdrawn == state.withdrawn {
                newest.set_condition(condition.clone());
            }
        })
        .await;
    if let Err(error) = written {
        tracing::warn!(error = in_words(error.as_ref()), "cannot report that Mullion is withdrawn, or no longer");
        sleep(RETRY).await;
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::convert::Infallible;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use mullion_policy::policy_set::PolicySet;
    use serde_json::{Value, json};
    use tokio::task::JoinSet;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::controller::leading::{Ended, until_the_end};
    use crate::controller::metrics::Metrics;

    /// A cluster of one ConfigMap that is only ever read and patched: every watch and everything else is refused.
    #[derive(Clone, Default)]
    struct Cluster {
        /// `None`: it is refused as well.
        data: Arc<Mutex<Option<Value>>>,
        patches: Arc<Mutex<Vec<String>>>,
    }

    impl Cluster {
        fn client(&self) -> Client {
            let cluster = self.clone();
            Client::new(
                tower::service_fn(move |request: Request<Body>| {
                    let data = cluster.data.lock().unwrap().clone();
                    let data = data.filter(|_| request.uri().path().ends_with("/configmaps/mullion-state"));
                    if request.method() == "PATCH" {
                        cluster.patches.lock().unwrap().push(request.uri().path().to_owned());
                    }
                    let (code, body) = match data {
                        Some(data) => (200, json!({"metadata": {"name": "mullion-state"}, "data": data})),
                        None => {
                            (403, json!({"status": "Failure", "message": "no", "reason": "Forbidden", "code": 403}))
                        }
                    };
                    let body = Body::from(body.to_string().into_bytes());
                    std::future::ready(Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()))
                }),
                "own",
            )
        }

        fn set(&self, data: Value) {
            *self.data.lock().unwrap() = Some(data);
        }
    }

    /// Nothing is watched here: what is read by the way must do.
    #[tokio::test(start_paused = true)]
    async fn duties_run_only_while_it_is_known_that_they_may() {
        let cluster = Cluster::default();
        let (_policies, policies) = channel::channel(Arc::new(PolicySet::built_in()));
        let (say_ready, ready) = channel::channel(false);
        let (metrics, stop) = (Metrics::new(), CancellationToken::new());
        let leading = Leading::new(cluster.client(), "own", policies, metrics.clone(), say_ready, stop.clone()).await;
        let (started, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counts = (Arc::clone(&started), Arc::clone(&ended));
        let running = tokio::spawn(run_unless_withdrawn(leading, move |leading| {
            let (started, ended) = counts.clone();
            async move {
                started.fetch_add(1, Ordering::SeqCst);
                leading.stop.cancelled().await;
                ended.fetch_add(1, Ordering::SeqCst);
            }
        }));
        let after_a_minute = async || {
            sleep(Duration::from_secs(60)).await;
            (started.load(Ordering::SeqCst), ended.load(Ordering::SeqCst))
        };
        assert_eq!(after_a_minute().await, (0, 0), "it cannot know");
        assert!(!*ready.borrow());

        let withdrawn = json!({"withdrawn": "2026-01-01T00:00:00Z"});
        cluster.set(withdrawn.clone());
        assert_eq!(after_a_minute().await, (0, 0), "it is withdrawn");
        assert!(*ready.borrow() && metrics.encode().unwrap().contains("mullion_withdrawn 1"));
        assert!(!cluster.patches.lock().unwrap().is_empty(), "it reports so");

        cluster.set(json!({}));
        assert_eq!(after_a_minute().await, (1, 0), "it is at work");
        assert!(!*ready.borrow(), "and reads the cluster anew");
        assert!(metrics.encode().unwrap().contains("mullion_withdrawn 0"));
        cluster.set(withdrawn);
        assert_eq!(after_a_minute().await, (1, 1), "it has stopped");
        cluster.set(json!({"withdrawn": ""}));
        assert_eq!(after_a_minute().await, (2, 1), "it is at work again");
        stop.cancel();
        running.await.unwrap();
        assert_eq!((started.load(Ordering::SeqCst), ended.load(Ordering::SeqCst)), (2, 2));
    }

    /// The term's end then is a defect, and not a wish.
    #[tokio::test(start_paused = true)]
    async fn duties_that_end_by_themselves_break_the_term() {
        let cluster = Cluster::default();
        cluster.set(json!({}));
        let (_policies, policies) = channel::channel(Arc::new(PolicySet::built_in()));
        let (say_ready, _ready) = channel::channel(false);
        let stop = CancellationToken::new();
        let leading = Leading::new(cluster.client(), "own", policies, Metrics::new(), say_ready, stop.clone()).await;
        let mut duties = JoinSet::new();
        duties.spawn(run_unless_withdrawn(leading, |_| std::future::ready(())));
        assert_eq!(until_the_end(duties, &stop, std::future::pending()).await, Ended::Broken);
        assert!(stop.is_cancelled());
    }
}
