//! A load of pod creations, and their outcomes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use mullion_cluster::{TestNamespace, wait_for};
use serde_json::json;
use tokio::task::JoinSet;

use crate::site::{DEADLINE, Site};

const PEOPLE: usize = 4;
/// Long enough to leave processor time for the trial; about a hundred pods a second.
const PAUSE: Duration = Duration::from_millis(20);

/// A load of Windows pods with only an image. They are dry runs: the API server calls every webhook and stores nothing, so
/// that no pods remain.
pub struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    people: JoinSet<Vec<Outcome>>,
}

/// One pod, from the first try to the end.
#[derive(Debug)]
pub struct Outcome {
    pub begun: Instant,
    pub took: Duration,
    /// The errors before the API server accepted the pod; each is followed by another attempt at once.
    pub rejections: Vec<String>,
    /// Whether Mullion has placed the pod. If not, the API server accepted it without a response of the webhook.
    pub placed: bool,
}

impl Load {
    /// Starts a load in a namespace of its own, until [`Load::stop`].
    pub async fn start(site: &Site) -> Result<Self> {
        Self::of_many(site, PEOPLE).await
    }

    /// Does the same with that many pods at the same time.
    pub async fn of_many(site: &Site, at_once: usize) -> Result<Self> {
        Self::by(site, at_once, "mcr.microsoft.com/windows/servercore:ltsc2022", "windows").await
    }

    /// Does the same with another image, for pods of another operating system.
    pub async fn of(site: &Site, image: &'static str, system: &'static str) -> Result<Self> {
        Self::by(site, PEOPLE, image, system).await
    }

    async fn by(site: &Site, at_once: usize, image: &'static str, system: &'static str) -> Result<Self> {
        let namespace = site.plane.namespace("load").await?;
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut people = JoinSet::new();
        for _ in 0..at_once {
            people.spawn(person(namespace.clone(), image, system, Arc::clone(&stop), Arc::clone(&done)));
        }
        let load = Self { stop, done, people };
        load.more(2 * at_once).await?;
        Ok(load)
    }

    /// Waits until that many more pods were accepted.
    pub async fn more(&self, pods: usize) -> Result<()> {
        let enough = self.done.load(Ordering::Relaxed) + pods;
        wait_for(&format!("{pods} more pods to be taken"), DEADLINE, async || {
            let done = self.done.load(Ordering::Relaxed);
            if done >= enough { Ok(()) } else { Err(format!("{done} of {enough}")) }
        })
        .await
    }

    /// All outcomes, in the order of their start.
    pub async fn stop(self) -> Vec<Outcome> {
        self.stop.store(true, Ordering::Relaxed);
        let mut outcomes: Vec<_> = self.people.join_all().await.into_iter().flatten().collect();
        outcomes.sort_by_key(|outcome| outcome.begun);
        outcomes
    }
}

/// An error with the first pods that were rejected, or accepted without a review.
pub fn all_pods_were_reviewed(outcomes: &[Outcome]) -> Result<()> {
    let bad: Vec<_> = outcomes.iter().filter(|outcome| !outcome.placed || !outcome.rejections.is_empty()).collect();
    ensure!(bad.is_empty(), "{} of {} pods: {:#?}", bad.len(), outcomes.len(), bad.iter().take(3).collect::<Vec<_>>());
    Ok(())
}

async fn person(
    namespace: TestNamespace,
    image: &str,
    system: &str,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
) -> Vec<Outcome> {
    let pods: Api<Pod> = namespace.api();
    let pod = json!({
        "metadata": {"name": "order"},
        "spec": {"containers": [{"name": "c", "image": image}]},
    });
    let pod: Pod = serde_json::from_value(pod).expect("a pod");
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let mut outcomes = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let mut rejections = Vec::new();
        // The load ends with the trial, so a pod that is always rejected ends it too, by its deadline.
        let taken = loop {
            match pods.create(&dry, &pod).await {
                Ok(taken) => break Some(taken),
                Err(_) if stop.load(Ordering::Relaxed) => break None,
                Err(error) => rejections.push(error.to_string()),
            }
            tokio::time::sleep(PAUSE).await;
        };
        if let Some(taken) = taken {
            let selector = taken.spec.and_then(|spec| spec.node_selector).unwrap_or_default();
            let placed = selector.get("kubernetes.io/os").is_some_and(|os| os == system);
            outcomes.push(Outcome { begun, took: begun.elapsed(), rejections, placed });
            done.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(PAUSE).await;
    }
    outcomes
}
