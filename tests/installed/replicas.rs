//! Replicas of the webhook under load: one stops, or many pods are created at the same time.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use mullion_cluster::{Release, Seen, metric, sum_of_metrics, wait_for};

use crate::load::{Load, Outcome, all_pods_were_reviewed};
use crate::site::{DEADLINE, NAMESPACE, Site};

/// The requests that change objects and are processed by an API server at the same time: its default of
/// `--max-mutating-requests-inflight`. Each waits for one review.
const IN_FLIGHT: usize = 200;
/// The free connections that an API server keeps for each host of webhooks: `idleConnsPerHost` of `client-go`
/// `transport/cache.go`.
const KEPT: usize = 25;
/// From this release on, the API server chooses a replica for each review and not for each connection
/// (`WebhookRoundTripLoadBalancing`).
const PER_REVIEW: Release = Release::v1(37);

/// Deleted, evicted, drained or replaced in a rollout: a replica handles all its requests before it stops.
pub async fn stopping_one_replica_causes_no_unreviewed_pod(site: &Site) -> Result<()> {
    site.install(&[]).await?;
    let load = Load::start(site).await?;
    // Each in turn, because the API server keeps its connection to one of them.
    for pod in site.pods_of("mullion-webhook").await? {
        site.pods().delete(&pod.name_any(), &DeleteParams::default()).await?;
        wait_for(&format!("{} to be gone", pod.name_any()), DEADLINE, async || {
            match site.pods().get_opt(&pod.name_any()).await {
                Ok(None) => Seen::Done(()),
                Ok(Some(_)) => Seen::NotYet("still there".to_owned()),
                Err(error) => Seen::NotYet(error.to_string()),
            }
        })
        .await?;
        site.whole("mullion-webhook").await?;
        load.more(50).await?;
    }
    all_pods_were_reviewed(&load.stop().await)
}

/// A crash breaks connections with requests. With `failurePolicy: Ignore` their pods are admitted without a review, and
/// no other pod is affected; with `Fail` they are rejected, and another attempt succeeds. Both end with the first pods
/// after the API server has detected that the replica is gone.
pub async fn a_crash_of_one_replica_has_a_short_impact(site: &Site) -> Result<()> {
    for (policy, replica) in [("Ignore", 0), ("Fail", 1)] {
        site.install(&["--set", &format!("admission.failurePolicy={policy}")]).await?;
        let load = Load::start(site).await?;
        // Another pod each time, because the second crash of a container is followed by a pause of ten seconds.
        let pods = site.pods_of("mullion-webhook").await?;
        let pod = pods.get(replica).context("two replicas")?;
        let name = pod.name_any();
        let runs = restarts(pod) + 1;
        let begun = Instant::now();
        site.kubelet.kill(NAMESPACE, &name, "webhook")?;
        wait_for(&format!("{name} to be ready again"), DEADLINE, async || match site.pods().get(&name).await {
            Ok(pod) if restarts(&pod) >= runs && ready(&pod) => Seen::Done(()),
            Ok(pod) => Seen::NotYet(format!("{:?}", pod.status)),
            Err(error) => Seen::NotYet(error.to_string()),
        })
        .await?;
        load.more(50).await?;
        let ended = Instant::now();
        load.more(100).await?;
        let outcomes = load.stop().await;
        let within = |outcome: &Outcome| outcome.begun + outcome.took >= begun && outcome.begun <= ended;
        let (affected, fine): (Vec<Outcome>, Vec<Outcome>) = outcomes.into_iter().partition(within);
        all_pods_were_reviewed(&fine).context("long after, or before, a replica crashed")?;
        let unseen = affected.iter().filter(|outcome| !outcome.placed).count();
        let rejected: Vec<_> = affected.iter().filter(|outcome| !outcome.rejections.is_empty()).collect();
        let longest = rejected.iter().map(|outcome| outcome.took).max().unwrap_or_default();
        eprintln!(
            "{policy}: of {} pods around a crash {unseen} unreviewed, {} rejected at first and created after {longest:?} at most",
            affected.len(),
            rejected.len()
        );
        let unreachable = |rejection: &String| policy == "Fail" && rejection.contains("failed calling webhook");
        ensure!(rejected.iter().all(|outcome| outcome.rejections.iter().all(unreachable)), "{policy}: {rejected:#?}");
    }
    Ok(())
}

/// As many pods at the same time as an API server processes: each replica has free slots for more API servers, and from
/// 1.37 on each gets a share of the reviews.
pub async fn many_creates_at_once_leave_slots_free(site: &Site) -> Result<()> {
    site.install(&[]).await?;
    let replicas = site.pods_of("mullion-webhook").await?;
    let load = Load::of_many(site, IN_FLIGHT).await?;
    let mut most = vec![0; replicas.len()];
    for _ in 0..5 {
        load.more(IN_FLIGHT).await?;
        for (most, pod) in most.iter_mut().zip(&replicas) {
            *most = (*most).max(metric(&metrics(site, pod).await?, "mullion_connections")?.unwrap_or(0));
        }
    }
    let outcomes = load.stop().await;
    // On a busy machine a few reviews take longer than the timeout. The metrics below show that no connection was refused.
    let (reviewed, missed): (Vec<Outcome>, Vec<Outcome>) = outcomes.into_iter().partition(|outcome| outcome.placed);
    ensure!(missed.len() <= reviewed.len() / 10, "{} of {} pods were not reviewed", missed.len(), reviewed.len());
    all_pods_were_reviewed(&reviewed)?;
    let mut reviews = Vec::<usize>::new();
    for pod in &replicas {
        let metrics = metrics(site, pod).await?;
        reviews.push(sum_of_metrics(&metrics, "mullion_admission_reviews_total{"));
        let refused: usize = sum_of_metrics(&metrics, "mullion_connections_closed_total{reason=\"no_slot\"");
        ensure!(refused == 0, "{}: {refused} connections were closed because no slot was free", pod.name_any());
    }
    eprintln!("{IN_FLIGHT} creates at once, by replica: at most {most:?} connections, {reviews:?} reviews");
    ensure!(most.iter().all(|most| *most <= IN_FLIGHT + KEPT), "more connections than reviews: {most:?}");
    let share = reviews.iter().sum::<usize>() / replicas.len() / 2;
    let is_spread = reviews.iter().all(|reviews| *reviews >= share);
    ensure!(is_spread || Release::under_test()? < PER_REVIEW, "one replica does nearly everything: {reviews:?}");
    Ok(())
}

/// The metrics of a pod, through the API server.
async fn metrics(site: &Site, pod: &Pod) -> Result<String> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{}:8080/proxy/metrics", pod.name_any());
    Ok(site.plane.client().request_text(http::Request::get(path).body(Vec::new())?).await?)
}

fn status(pod: &Pod) -> Option<&ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_deref()?.first()
}

fn restarts(pod: &Pod) -> i32 {
    status(pod).map_or(0, |status| status.restart_count)
}

fn ready(pod: &Pod) -> bool {
    status(pod).is_some_and(|status| status.ready)
}
