//! The controller's admin port: what [every server](crate::server::admin) has, and `/policies`.

use axum::Router;
use tokio::sync::watch;

use crate::controller::lease::NAME;
use crate::controller::lease::follow::Standing;
use crate::controller::metrics::Metrics;
use crate::policy_files::report::PolicyReporter;
use crate::server::admin;

/// What makes a controller ready.
#[derive(Debug, Clone)]
pub struct Readiness {
    /// The lease as this process sees it.
    pub standing: watch::Receiver<Standing>,
    /// Whether this process leads.
    pub leads: watch::Receiver<bool>,
    /// Whether what a leader works from has been read once.
    pub synced: watch::Receiver<bool>,
}

impl Readiness {
    /// What is missing, for people. A leader must have read the cluster; one that stands by must see the lease.
    fn missing(&self) -> Option<String> {
        if *self.leads.borrow() {
            let synced = *self.synced.borrow();
            return (!synced).then(|| {
                "this controller leads, and has not read all nodes, namespaces, DaemonSets and RuntimeClasses yet; if that lasts, its log says why"
                    .to_owned()
            });
        }
        let standing = self.standing.borrow();
        match &standing.problem {
            Some(problem) => Some(problem.clone()),
            None if standing.read => None,
            None => Some(format!("Lease {NAME} has not been read yet")),
        }
    }
}

/// The routes.
pub fn router(metrics: Metrics, policies: &PolicyReporter, readiness: Readiness) -> Router {
    policies.routes().merge(admin::routes(move || readiness.missing(), move || metrics.encode()))
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
    async fn a_leader_is_ready_once_the_cluster_has_been_read_and_others_once_the_lease_has() {
        let (say_standing, standing) = watch::channel(Standing::default());
        let (say_leads, leads) = watch::channel(false);
        let (say_synced, synced) = watch::channel(false);
        let router = router(Metrics::new(), &PolicyReporter::default(), Readiness { standing, leads, synced });
        let get = async |path: &str| {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let response = router.clone().oneshot(request).await.unwrap();
            let status = response.status().as_u16();
            (status, String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap())
        };
        assert_eq!(get("/healthz").await.0, 200);
        let unready = |why: &str| (503, format!("not ready: {why}\n"));
        assert_eq!(get("/readyz").await, unready("Lease mullion-controller has not been read yet"));
        say_standing.send_replace(Standing { problem: Some("no such namespace".to_owned()), ..Standing::default() });
        assert_eq!(get("/readyz").await, unready("no such namespace"));
        say_standing.send_replace(Standing { read: true, ..Standing::default() });
        assert_eq!(get("/readyz").await, (200, "ok\n".to_owned()));
        say_leads.send_replace(true);
        let (status, text) = get("/readyz").await;
        assert!(status == 503 && text.contains("has not read all nodes"), "{status} {text}");
        say_synced.send_replace(true);
        assert_eq!(get("/readyz").await, (200, "ok\n".to_owned()));
        assert!(get("/metrics").await.1.ends_with("# EOF\n"));
        assert!(get("/policies").await.1.contains("\"problems\":[]"));
    }
}
