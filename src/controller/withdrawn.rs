//! The suspension of control loops while Mullion is withdrawn, and the condition that reports it.
//!
//! `mullion withdraw` writes the time into `withdrawn` of ConfigMap `mullion-state`. `mullion withdraw --undo`, or the
//! removal of the key or the ConfigMap, ends the withdrawal. Neither requires a restart. The withdrawal of an earlier
//! release ends once a controller with another ServiceAccount reads it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::cluster::state::{MullionState, StateCondition, StateReceiver};
use crate::controller::leader_context::LeaderContext;
use crate::telemetry::in_words;

/// The condition of `mullion-state` that reports whether the controller has stopped.
pub(crate) const CONDITION: &str = "Withdrawn";

/// How often the ConfigMap is read in addition to the watch, which may be silent for minutes before it counts as failed.
const READ_INTERVAL: Duration = Duration::from_secs(10);
/// How long the suspension lasts after the deletion of the ConfigMap. An uninstallation may delete the ServiceAccount
/// first, and with it the objects that it owns. Its token stays valid for 10 s (`TokenSuccessCacheTTL` in
/// pkg/kubeapiserver/options/authentication.go); after that, this process can no longer write.
const DELETION_DELAY: Duration = Duration::from_secs(15);
/// The delay after a failure to read or write it.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// Whether the controller reports that it is suspended.
pub(crate) fn reports_withdrawn(state: &MullionState) -> bool {
    state.condition(CONDITION).is_some_and(|condition| condition.status == "True")
}

/// Runs the control loops of `run` while Mullion is not withdrawn, until `leading.stop`, or until they end by themselves.
/// The ConfigMap is read before the first of them starts, so that nothing is written before that.
pub(crate) async fn run_unless_withdrawn<F: Future<Output = ()>>(
    leading: LeaderContext,
    run: impl Fn(LeaderContext) -> F,
) {
    let mut states = leading.state.state.clone();
    loop {
        tokio::select! {
            () = leading.stop.cancelled() => return,
            () = wait_while_withdrawn(&leading, &mut states) => {}
        }
        let stop = leading.stop.child_token();
        let running = run(LeaderContext { stop: stop.clone(), ..leading.clone() });
        tokio::pin!(running);
        tokio::select! {
            () = &mut running => return,
            () = wait_for_withdrawal(&leading, &mut states) => {}
        }
        stop.cancel();
        // Pending requests end before the condition is written.
        running.await;
    }
}

/// Returns when Mullion is not, or no longer, withdrawn.
async fn wait_while_withdrawn(leading: &LeaderContext, states: &mut StateReceiver) {
    let (mut suspended, mut delayed) = (false, false);
    loop {
        let state = read_state(leading).await;
        leading.metrics.set_withdrawn(state.withdrawn.is_some());
        let Some(since) = &state.withdrawn else {
            // The condition stays if only the key is removed; a ConfigMap that was deleted and created again has none.
            if suspended && !reports_withdrawn(&state) && !std::mem::replace(&mut delayed, true) {
                sleep(DELETION_DELAY).await;
                continue;
            }
            // The watch may be behind.
            let ended = timeout(READ_INTERVAL, wait_for(states, false)).await.is_ok();
            if !ended && is_withdrawn(states.borrow().as_deref()) == Some(true) {
                continue;
            }
            if suspended {
                // The state that was read before the suspension is outdated.
                leading.ready.send_replace(false);
                tracing::info!("no longer withdrawn: nodes, RuntimeClasses and pods are managed again");
            }
            if reports_withdrawn(&state) {
                report(leading, &state, "False").await;
            }
            return;
        };
        delayed = false;
        if !std::mem::replace(&mut suspended, true) {
            tracing::warn!(
                since,
                namespace = leading.namespace,
                "withdrawn: nodes, RuntimeClasses and pods are not changed; run mullion withdraw --undo to end this"
            );
        }
        // During a withdrawal, readiness does not depend on the watches.
        leading.ready.send_replace(true);
        report(leading, &state, "True").await;
        if let Ok(Err(_)) = timeout(READ_INTERVAL, states.changed()).await {
            sleep(READ_INTERVAL).await;
        }
    }
}

/// Waits until Mullion is withdrawn, according to the watch or the ConfigMap itself.
async fn wait_for_withdrawal(leading: &LeaderContext, states: &mut StateReceiver) {
    while timeout(READ_INTERVAL, wait_for(states, true)).await.is_err() {
        if leading.store.load().await.is_ok_and(|state| state.withdrawn.is_some()) {
            return;
        }
    }
}

/// Waits until Mullion is withdrawn, or is not, according to the watch. Never returns if the watch has ended.
async fn wait_for(states: &mut StateReceiver, withdrawn: bool) {
    let matches = |state: &Option<Arc<MullionState>>| is_withdrawn(state.as_deref()) == Some(withdrawn);
    if states.wait_for(matches).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn is_withdrawn(state: Option<&MullionState>) -> Option<bool> {
    state.map(|state| state.withdrawn.is_some())
}

/// Reads the state from the API server, however long that takes. Each error is logged once, not with each attempt.
async fn read_state(leading: &LeaderContext) -> MullionState {
    let mut logged = String::new();
    loop {
        let error = match leading.store.claim().await {
            Ok(state) => return state,
            Err(error) => in_words(error.as_ref()),
        };
        if error != logged {
            tracing::warn!(error, "cannot read ConfigMap mullion-state; nothing is changed until it can be read");
            logged = error;
        }
        sleep(RETRY_DELAY).await;
    }
}

/// Writes the condition unless it is present. After an error, the caller retries.
async fn report(leading: &LeaderContext, state: &MullionState, status: &str) {
    if state.condition(CONDITION).is_some_and(|condition| condition.status == status) {
        return;
    }
    let (reason, message) = match status {
        "True" => {
            ("Withdrawn", "Mullion changes no nodes, RuntimeClasses and pods; run mullion withdraw --undo to end this")
        }
        _ => ("Active", "Mullion is active"),
    };
    let condition = StateCondition::new(CONDITION, status, reason, message);
    // If `withdrawn` has changed meanwhile, the next round reports that.
    let written = leading
        .store
        .update(|newest| {
            if newest.withdrawn == state.withdrawn {
                newest.set_condition(condition.clone());
            }
        })
        .await;
    if let Err(error) = written {
        tracing::warn!(error = in_words(error.as_ref()), "cannot write the condition Withdrawn");
        sleep(RETRY_DELAY).await;
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
    use mullion_policy::PolicySet;
    use serde_json::{Value, json};
    use tokio::sync::watch as channel;
    use tokio::task::JoinSet;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::controller::control_loops::{LeadershipEnd, run_until_end};
    use crate::controller::metrics::ControllerMetrics;

    /// A cluster of one ConfigMap that can be read and patched: every watch and everything else is rejected.
    #[derive(Clone, Default)]
    struct Cluster {
        /// `None` if it cannot be read either.
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

    /// Without a watch, the reads at an interval are enough.
    #[tokio::test(start_paused = true)]
    async fn control_loops_run_only_while_mullion_is_known_to_be_active() {
        let cluster = Cluster::default();
        let (_policies, policies) = channel::channel(Arc::new(PolicySet::built_in()));
        let (ready_sender, ready) = channel::channel(false);
        let (metrics, stop) = (ControllerMetrics::new(), CancellationToken::new());
        let leading =
            LeaderContext::new(cluster.client(), "own", policies, metrics.clone(), ready_sender, stop.clone()).await;
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
        assert_eq!(after_a_minute().await, (0, 0), "the state is unknown");
        assert!(!*ready.borrow());

        let withdrawn = json!({"withdrawn": "2026-01-01T00:00:00Z"});
        cluster.set(withdrawn.clone());
        assert_eq!(after_a_minute().await, (0, 0), "it is withdrawn");
        assert!(*ready.borrow() && metrics.encode().unwrap().contains("mullion_withdrawn 1"));
        assert!(!cluster.patches.lock().unwrap().is_empty(), "it reports that");

        cluster.set(json!({}));
        assert_eq!(after_a_minute().await, (1, 0), "it is active");
        assert!(!*ready.borrow(), "and reads the cluster again");
        assert!(metrics.encode().unwrap().contains("mullion_withdrawn 0"));
        cluster.set(withdrawn);
        assert_eq!(after_a_minute().await, (1, 1), "it has stopped");
        cluster.set(json!({"withdrawn": ""}));
        assert_eq!(after_a_minute().await, (2, 1), "it is active again");
        stop.cancel();
        running.await.unwrap();
        assert_eq!((started.load(Ordering::SeqCst), ended.load(Ordering::SeqCst)), (2, 2));
    }

    /// If they end by themselves, the end of the term is a defect and not a request.
    #[tokio::test(start_paused = true)]
    async fn control_loops_that_end_by_themselves_break_the_term() {
        let cluster = Cluster::default();
        cluster.set(json!({}));
        let (_policies, policies) = channel::channel(Arc::new(PolicySet::built_in()));
        let (ready_sender, _ready) = channel::channel(false);
        let stop = CancellationToken::new();
        let leading =
            LeaderContext::new(cluster.client(), "own", policies, ControllerMetrics::new(), ready_sender, stop.clone())
                .await;
        let mut control_loops = JoinSet::new();
        control_loops.spawn(run_unless_withdrawn(leading, |_| std::future::ready(())));
        assert_eq!(run_until_end(control_loops, &stop, std::future::pending()).await, LeadershipEnd::Broken);
        assert!(stop.is_cancelled());
    }
}
