//! The controller's admin port: the routes of [every server](crate::server::admin_port), and `/policies`.

use axum::Router;
use tokio::sync::watch;

use crate::controller::lease::{LEASE_NAME, LeaseStatus};
use crate::controller::metrics::ControllerMetrics;
use crate::policy_files::PolicyReporter;
use crate::server::{LogLevelChanges, admin_port};

/// The conditions for a controller to be ready.
#[derive(Debug, Clone)]
pub(crate) struct Readiness {
    /// The lease in the view of this process.
    pub status: watch::Receiver<LeaseStatus>,
    /// Whether this process leads.
    pub leads: watch::Receiver<bool>,
    /// Whether the input of a leader has been read once.
    pub synced: watch::Receiver<bool>,
}

impl Readiness {
    /// The missing condition, for people. A leader must have read the cluster, any other process the lease.
    fn missing(&self) -> Option<String> {
        if *self.leads.borrow() {
            let synced = *self.synced.borrow();
            return (!synced).then(|| {
                "this controller leads, and has not read all nodes, namespaces, DaemonSets and RuntimeClasses yet; if this \
                 lasts, its log contains the reason"
                    .to_owned()
            });
        }
        let status = self.status.borrow();
        match &status.problem {
            Some(problem) => Some(problem.clone()),
            None if status.read => None,
            None => Some(format!("Lease {LEASE_NAME} has not been read yet")),
        }
    }
}

/// The routes.
pub(crate) fn router(metrics: ControllerMetrics, policies: &PolicyReporter, readiness: Readiness) -> Router {
    let routes = admin_port::routes(LogLevelChanges::FromPod, move || readiness.missing(), move || metrics.encode());
    policies.routes().merge(routes)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn a_leader_is_ready_once_it_has_read_the_cluster_and_others_once_they_have_read_the_lease() {
        let (status_sender, status) = watch::channel(LeaseStatus::default());
        let (leads_sender, leads) = watch::channel(false);
        let (synced_sender, synced) = watch::channel(false);
        let router = router(ControllerMetrics::new(), &PolicyReporter::default(), Readiness { status, leads, synced });
        let get = async |path: &str| {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let response = router.clone().oneshot(request).await.unwrap();
            let status = response.status().as_u16();
            (status, String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap())
        };
        assert_eq!(get("/healthz").await.0, 200);
        let unready = |why: &str| (503, format!("not ready: {why}\n"));
        assert_eq!(get("/readyz").await, unready("Lease mullion-controller has not been read yet"));
        let problem = Some("no such namespace".to_owned());
        status_sender.send_replace(LeaseStatus { problem, ..LeaseStatus::default() });
        assert_eq!(get("/readyz").await, unready("no such namespace"));
        status_sender.send_replace(LeaseStatus { read: true, ..LeaseStatus::default() });
        assert_eq!(get("/readyz").await, (200, "ok\n".to_owned()));
        leads_sender.send_replace(true);
        let (status, text) = get("/readyz").await;
        assert!(status == 503 && text.contains("has not read all nodes"), "{status} {text}");
        synced_sender.send_replace(true);
        assert_eq!(get("/readyz").await, (200, "ok\n".to_owned()));
        assert!(get("/metrics").await.1.ends_with("# EOF\n"));
        assert!(get("/policies").await.1.contains("\"problems\":[]"));
    }
}
