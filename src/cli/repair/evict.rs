//! Evicts stuck pods: one of an owner first, and the others when its successor is where it was foretold.

use std::time::Duration;

use kube::api::Preconditions;
use kube::{Client, Error};
use mullion_engine::model::text::full_name;
use mullion_survey::repair::{RepairAction, StuckPod, check_again, read_again};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout};

use crate::cli::io_handles::Io;
use crate::cli::output_format::OutputFormat;
use crate::cli::repair::successor::{OwnerPods, SuccessorState, pods_of, uid_of, wait_for_successor};
use crate::cluster::reading::{ClusterReader, KindApi, PODS, WORKLOADS};
use crate::report::write_line;
use crate::telemetry::in_words;

/// The number of owners whose successors fail, after which nothing more is evicted.
const MAX_FAILED_OWNERS: usize = 3;
/// The limit of one eviction.
const DEADLINE: Duration = Duration::from_secs(60);

/// How pods are evicted.
pub(super) struct Evictions<'a> {
    pub(super) client: Client,
    pub(super) reader: ClusterReader<'a>,
    /// The most evictions within a minute.
    pub(super) rate: u16,
    /// How long a successor may take.
    pub(super) timeout: Duration,
    pub(super) dry_run: bool,
    pub(super) output: OutputFormat,
}

/// What happened to one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
enum EvictionResult {
    /// It was evicted; its owner, and the pods that this had.
    Evicted(Option<OwnerPods>),
    /// It, or its owner, changed since it was found: it is not evicted.
    Changed(String),
    /// The API server refuses now, because of a `PodDisruptionBudget`.
    Refused(String),
    /// The API server failed.
    Failed(String),
}

/// Evicts the pods that can be evicted, which are sorted by owner. Returns whether all were, and their successors started.
pub(super) async fn evict_all(evictions: &Evictions<'_>, pods: &[StuckPod], io: &mut Io<'_>) -> anyhow::Result<bool> {
    let all: Vec<&StuckPod> = pods.iter().filter(|pod| matches!(pod.action, RepairAction::Evict { .. })).collect();
    let mut next = Instant::now();
    let (mut failed, mut evicted) = (0, 0);
    for of_owner in all.chunk_by(|a, b| (&a.namespace, &a.owner) == (&b.namespace, &b.owner)) {
        if failed == MAX_FAILED_OWNERS {
            evictions.message(io, "the successors of three owners failed: nothing more is evicted")?;
            break;
        }
        let mut is_first = true;
        for pod in of_owner {
            sleep_until(next).await;
            let result = evictions.evict(pod, is_first).await?;
            if matches!(result, EvictionResult::Evicted(_)) {
                next = Instant::now() + Duration::from_secs(60) / u32::from(evictions.rate);
                evicted += 1;
            }
            evictions.line(io, pod, &result)?;
            match result {
                EvictionResult::Evicted(Some(owner)) if is_first => {
                    is_first = false;
                    let state = wait_for_successor(&evictions.reader, evictions.timeout, pod, &owner).await?;
                    evictions.successor_line(io, pod, &state)?;
                    match state {
                        SuccessorState::Started { .. } | SuccessorState::Placed { .. } => {}
                        SuccessorState::Late(_) => break,
                        SuccessorState::Failed(_) => {
                            failed += 1;
                            break;
                        }
                    }
                }
                EvictionResult::Evicted(_) | EvictionResult::Changed(_) => {}
                EvictionResult::Refused(_) => break,
                EvictionResult::Failed(_) => {
                    failed += 1;
                    break;
                }
            }
        }
    }
    let verb = if evictions.dry_run { "would be evicted" } else { "evicted" };
    match evictions.output {
        OutputFormat::Text => io.println(format_args!("{evicted} of {} {verb}", all.len()))?,
        OutputFormat::Json => {
            let summary = json!({"type": "evictions", "dryRun": evictions.dry_run, "evicted": evicted, "of": all.len(), "failedOwners": failed});
            write_line(io.stdout, &summary)?;
        }
    }
    Ok(failed == 0 && evicted == all.len())
}

impl Evictions<'_> {
    /// Reads the pod and its owner again, and evicts it if nothing changed.
    async fn evict(&self, pod: &StuckPod, is_first: bool) -> anyhow::Result<EvictionResult> {
        let namespace = Some(pod.namespace.as_str());
        let changed = |why: &str| Ok(EvictionResult::Changed(why.to_owned()));
        let stored = match self.reader.get(&PODS, namespace, &pod.name).await? {
            Ok(stored) => stored,
            Err(unread) => return Ok(EvictionResult::Changed(unread.to_string())),
        };
        let Some(fresh) = check_again(pod, &stored) else { return changed("it changed since it was read") };
        let Some(owner) = &pod.owner else { return changed("it has no owner") };
        let Some(kind) = WORKLOADS.iter().find(|kind| kind.name == owner.kind) else {
            return changed("its owner is of another kind");
        };
        let owner = match self.reader.get(kind, namespace, &owner.name).await? {
            Ok(owner) => owner,
            Err(unread) => return Ok(EvictionResult::Changed(unread.to_string())),
        };
        if read_again(pod, &fresh, &owner).is_err() {
            return changed("its owner changed since it was read");
        }
        let owner = if is_first && !self.dry_run {
            let mut of = OwnerPods { uid: fresh.owner_uid, labels: labels_of(&owner), known: Vec::new() };
            let Ok(pods) = pods_of(&self.reader, &pod.namespace, &of).await? else {
                return Ok(EvictionResult::Failed("the pods of its owner cannot be listed".to_owned()));
            };
            of.known = pods.iter().filter_map(uid_of).map(str::to_owned).collect();
            Some(of)
        } else {
            None
        };
        let preconditions =
            Preconditions { uid: Some(pod.uid.clone()), resource_version: Some(fresh.resource_version) };
        let api = KindApi::namespaced(self.client.clone(), &PODS, &pod.namespace);
        let Ok(sent) = timeout(DEADLINE, api.evict(&pod.name, preconditions, self.dry_run)).await else {
            return Ok(EvictionResult::Failed(format!("no response within {} s", DEADLINE.as_secs())));
        };
        Ok(match sent {
            Ok(()) => EvictionResult::Evicted(owner),
            Err(Error::Api(status)) if status.code == 429 => EvictionResult::Refused(status.message),
            Err(Error::Api(status)) if matches!(status.code, 404 | 409) => {
                EvictionResult::Changed("it changed while it was evicted".to_owned())
            }
            Err(error) => EvictionResult::Failed(in_words(&error)),
        })
    }

    fn message(&self, io: &mut Io<'_>, message: &str) -> std::io::Result<()> {
        match self.output {
            OutputFormat::Text => io.println(message),
            OutputFormat::Json => io.eprintln(message),
        }
    }

    fn line(&self, io: &mut Io<'_>, pod: &StuckPod, result: &EvictionResult) -> std::io::Result<()> {
        let verb = if self.dry_run { "would be evicted" } else { "evicted" };
        let (word, why) = match result {
            EvictionResult::Evicted(_) => (verb, None),
            EvictionResult::Changed(why) => ("not evicted", Some(why)),
            EvictionResult::Refused(why) => ("not evicted now", Some(why)),
            EvictionResult::Failed(why) => ("failed", Some(why)),
        };
        match self.output {
            OutputFormat::Text => {
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                io.print_folded(&format!("{}/{} on {}: {word}{why}", pod.namespace, pod.name, pod.node))
            }
            OutputFormat::Json => write_line(
                io.stdout,
                &json!({"type": "eviction", "namespace": pod.namespace, "name": pod.name, "node": pod.node,
                    "result": word, "reason": why}),
            ),
        }
    }

    fn successor_line(&self, io: &mut Io<'_>, pod: &StuckPod, state: &SuccessorState) -> std::io::Result<()> {
        match self.output {
            OutputFormat::Text => io.print_folded(&format!("    {state}")),
            OutputFormat::Json => {
                let word = match state {
                    SuccessorState::Started { .. } => "started",
                    SuccessorState::Placed { .. } => "placed",
                    SuccessorState::Late(_) => "late",
                    SuccessorState::Failed(_) => "failed",
                };
                let of = full_name(&pod.namespace, &pod.name);
                write_line(io.stdout, &json!({"type": "successor", "of": of, "state": word, "text": state.to_string()}))
            }
        }
    }
}

/// The labels that the selector of an owner requires, as a label selector. More pods than those of the owner may have them.
fn labels_of(owner: &Value) -> String {
    // ReplicationControllers have a map.
    let selector = owner
        .pointer("/spec/selector/matchLabels")
        .or_else(|| owner.pointer("/spec/selector").filter(|selector| selector.get("matchExpressions").is_none()));
    let pairs = selector.and_then(Value::as_object).into_iter().flatten();
    let pairs: Vec<String> = pairs.filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
    pairs.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_owners() {
        for (selector, expected) in [
            (json!({"matchLabels": {"app": "web", "tier": "front"}}), "app=web,tier=front"),
            (json!({"matchExpressions": []}), ""),
            (json!({"app": "web"}), "app=web"),
            (json!(7), ""),
        ] {
            assert_eq!(labels_of(&json!({"spec": {"selector": selector}})), expected);
        }
    }
}
