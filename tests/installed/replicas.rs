//! One replica of the webhook goes, under load.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use mullion_cluster::{Seen, wait_for};

use crate::load::{Load, Outcome, nothing_was_missed};
use crate::site::{DEADLINE, NAMESPACE, Site};

/// Deleted, evicted, drained, rolled over: whatever asks a replica to go waits until it has answered everybody.
pub async fn one_that_is_asked_to_go_is_not_missed(site: &Site) -> Result<()> {
    site.install(&[]).await?;
    let load = Load::start(site).await?;
    // Each in turn: the API server keeps its connection to one of them.
    for pod in site.pods_of("mullion-webhook").await? {
        site.pods().delete(&pod.name_any(), &DeleteParams::default()).await?;
        site.whole("mullion-webhook").await?;
        // The old one still drains when the new one is ready.
        wait_for(&format!("{} to be gone", pod.name_any()), DEADLINE, async || {
            match site.pods().get_opt(&pod.name_any()).await {
                Ok(None) => Seen::Done(()),
                Ok(Some(_)) => Seen::NotYet("still there".to_owned()),
                Err(error) => Seen::NotYet(error.to_string()),
            }
        })
        .await?;
        load.more(50).await?;
    }
    nothing_was_missed(&load.stop().await)
}

/// A crash breaks connections that hold questions. With `failurePolicy: Ignore` the pods in question pass unseen, and no
/// other pod is worse off; with `Fail` they are refused, and whoever tries again gets through. Both end with the first
/// pods after the API server has heard that the replica is gone.
pub async fn one_that_crashes_is_missed_for_a_moment(site: &Site) -> Result<()> {
    for policy in ["Ignore", "Fail"] {
        site.install(&["--set", &format!("admission.failurePolicy={policy}")]).await?;
        let load = Load::start(site).await?;
        let mut crashes = Vec::new();
        for pod in site.pods_of("mullion-webhook").await? {
            let name = pod.name_any();
            site.kubelet.kill(NAMESPACE, &name, "webhook")?;
            let begun = Instant::now();
            wait_for(&format!("{name} to be ready again"), DEADLINE, async || {
                let pod = match site.pods().get(&name).await {
                    Ok(pod) => pod,
                    Err(error) => return Seen::NotYet(error.to_string()),
                };
                let statuses = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
                match statuses.first() {
                    Some(status) if status.ready && status.restart_count > 0 => Seen::Done(()),
                    other => Seen::NotYet(format!("{other:?}")),
                }
            })
            .await?;
            load.more(100).await?;
            let settled = Instant::now();
            load.more(100).await?;
            crashes.push((begun, settled));
        }
        let outcomes = load.stop().await;
        let within = |outcome: &Outcome| {
            crashes.iter().any(|(begun, settled)| outcome.begun + outcome.took >= *begun && outcome.begun <= *settled)
        };
        let (hurt, fine): (Vec<Outcome>, Vec<Outcome>) = outcomes.into_iter().partition(within);
        nothing_was_missed(&fine).context("long after, or before, a replica crashed")?;
        let unseen = hurt.iter().filter(|outcome| !outcome.placed).count();
        let refused: Vec<_> = hurt.iter().filter(|outcome| !outcome.refusals.is_empty()).collect();
        let longest = refused.iter().map(|outcome| outcome.took).max().unwrap_or_default();
        eprintln!(
            "{policy}: two crashes; of {} pods around them {unseen} unseen, {} refused at first, {longest:?} at most",
            hurt.len(),
            refused.len()
        );
        match policy {
            "Ignore" => ensure!(refused.is_empty(), "{:?}", refused.first()),
            _ => {
                let asked = |refusal: &String| refusal.contains("failed calling webhook");
                ensure!(refused.iter().all(|outcome| outcome.refusals.iter().all(asked)), "{refused:#?}");
            }
        }
    }
    Ok(())
}
