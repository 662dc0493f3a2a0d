//! Checks with pods that are created: where the scheduler binds them, and whether their containers start. No pod is created
//! for which no node has room, and a pod that the scheduler cannot place is deleted at once, so that no autoscaler adds a
//! node for it.

use std::time::Duration;

use kube::api::DeleteParams;
use mullion_engine::model::text::{counted, shorten};
use mullion_engine::model::windows::Build;
use mullion_engine::model::{Os, WorkloadKind};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::cli::verify::checks::admission::{limits_builds, selects};
use crate::cli::verify::checks::context::CheckContext;
use crate::cli::verify::checks::outcome::CheckOutcome;
use crate::cli::verify::fleet::{Fleet, FleetNode};
use crate::cli::verify::placement::{PossibleNodes, node_names, possible_nodes, reasons};
use crate::cli::verify::requests::create;
use crate::cli::verify::room::Amounts;
use crate::cli::verify::scenarios::{CHECK_LABEL, host_process_pod, job, linux_pod, stateful_set, windows_pod};
use crate::cluster::await_answer;
use crate::cluster::reading::{Absence, JOBS, Kind, KindApi, ListQuery, NODES, PODS, STATEFUL_SETS};

/// The most nodes whose pods are counted for one check.
const LOOKED_AT: usize = 10;
/// How long the scheduler, or the controller of an owner, may take.
const BOUND: Duration = Duration::from_secs(60);
/// How long a container may take to start. A base image of Windows has more than 100 MB.
const STARTED: Duration = Duration::from_secs(300);
/// The first and the longest time between two looks at a pod.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));
/// The longest text of a status that is shown, in characters.
const MAX_TEXT: usize = 200;
/// Texts with which a runtime says that an image is for another platform: containerd, docker, HCS.
const OTHER_PLATFORM: [&str; 4] =
    ["no match for platform", "no matching manifest", "does not match the host operating system", "0xc0370101"];

/// `linux-pod`.
pub(in crate::cli::verify) async fn linux(cx: &CheckContext<'_>) -> Result<CheckOutcome, CheckOutcome> {
    let pod = linux_pod("linux-pod", &cx.images.linux());
    Trial { cx, pod, owner: None, os: Os::Linux, runs: Box::new(|node| node.os == Some(Os::Linux)) }.run().await
}

/// `windows-pod` for one build.
pub(in crate::cli::verify) async fn windows(cx: &CheckContext<'_>, build: Build) -> Result<CheckOutcome, CheckOutcome> {
    let Some(image) = cx.images.windows(build) else {
        return Ok(CheckOutcome::not_tried("no image of this build is published; set --image windows=REF"));
    };
    let pod = windows_pod(&format!("windows-pod-{}", build.number()), &image);
    Trial { cx, pod, owner: None, os: Os::Windows, runs: runs_image(cx.fleet()?, build) }.run().await
}

/// `job-pod`.
pub(in crate::cli::verify) async fn job_pod(cx: &CheckContext<'_>) -> Result<CheckOutcome, CheckOutcome> {
    let (build, image) = cx.newest()?;
    let pod = windows_pod("job-pod", &image);
    let owner = Some((&JOBS, job("job-pod", &pod)));
    Trial { cx, pod, owner, os: Os::Windows, runs: runs_image(cx.fleet()?, build) }.run().await
}

/// `stateful-set-pod`.
pub(in crate::cli::verify) async fn stateful_set_pod(cx: &CheckContext<'_>) -> Result<CheckOutcome, CheckOutcome> {
    let (build, image) = cx.newest()?;
    let pod = windows_pod("stateful-set-pod", &image);
    let owner = Some((&STATEFUL_SETS, stateful_set("stateful-set-pod", &pod)));
    Trial { cx, pod, owner, os: Os::Windows, runs: runs_image(cx.fleet()?, build) }.run().await
}

/// `host-process-pod`.
pub(in crate::cli::verify) async fn host_process(cx: &CheckContext<'_>) -> Result<CheckOutcome, CheckOutcome> {
    if !cx.args.host_process {
        return Ok(CheckOutcome::not_tried("pass --host-process to create one"));
    }
    let (_, image) = cx.newest()?;
    let pod = host_process_pod("host-process-pod", &image);
    Trial { cx, pod, owner: None, os: Os::Windows, runs: Box::new(|node| node.os == Some(Os::Windows)) }.run().await
}

type Runs<'a> = Box<dyn Fn(&FleetNode) -> bool + 'a>;

fn runs_image(fleet: &Fleet, build: Build) -> Runs<'_> {
    Box::new(move |node| node.runs_image(build, &fleet.releases))
}

/// One pod, by itself or of an owner.
struct Trial<'a> {
    cx: &'a CheckContext<'a>,
    pod: Value,
    owner: Option<(&'static Kind, Value)>,
    os: Os,
    /// Whether a node runs the pod.
    runs: Runs<'a>,
}

impl Trial<'_> {
    async fn run(&self) -> Result<CheckOutcome, CheckOutcome> {
        let cx = self.cx;
        let fleet = cx.fleet()?;
        if !fleet.nodes.iter().any(|node| (self.runs)(node)) {
            return Ok(CheckOutcome::skipped("no node runs such a pod"));
        }
        let foreseen = cx.dry_run(&PODS, &self.pod).await?;
        let spec = foreseen.pointer("/spec").unwrap_or(&Value::Null);
        let possible = possible_nodes(spec, &fleet.nodes, &cx.facts.node_settings(), &self.runs);
        if let Some(outcome) = self.before_creation(&possible) {
            return Ok(outcome);
        }
        if !cx.args.allow_scale_up
            && let Err(why) = self.room(&possible.candidates, Amounts::of_pod(&foreseen)).await
        {
            return Ok(CheckOutcome::not_tried(why));
        }
        let (kind, object) = self.owner.as_ref().map_or((&PODS, &self.pod), |(kind, owner)| (*kind, owner));
        create(cx.client, kind, cx.namespace, object, false)
            .await
            .map_err(|refused| CheckOutcome::refused(&refused))?;
        let name = name_of(object);
        let outcome = match &self.owner {
            None => self.watch(name).await,
            Some(_) => match self.pod_of_owner(name).await {
                Ok(pod) => self.watch(&pod).await,
                Err(outcome) => outcome,
            },
        };
        // One that waits for a node is never kept.
        if !cx.args.keep || outcome.status != crate::report::verify::VerifyStatus::Ok {
            delete(cx, kind, name).await;
        }
        Ok(outcome)
    }

    /// The outcome if the stored pod can land on a wrong node, or on none.
    fn before_creation(&self, possible: &PossibleNodes<'_>) -> Option<CheckOutcome> {
        let PossibleNodes { candidates, wrong, excluded, closed } = possible;
        let outcome = if !wrong.is_empty() {
            CheckOutcome::failed(format!("it could land on {}, which cannot run it", node_names(wrong.iter().copied())))
        } else if !candidates.is_empty() {
            return None;
        } else if closed.is_empty() {
            CheckOutcome::failed("its nodes are excluded").with_items(reasons(excluded))
        } else {
            return Some(CheckOutcome::not_tried("no fitting node takes a pod now").with_items(reasons(closed)));
        };
        let one_build = self.cx.facts.fleet.as_ref().is_ok_and(|fleet| fleet.builds().len() <= 1);
        let asks = |foreseen: &crate::report::Admission| {
            let of_class = foreseen.stored.pointer("/spec/runtimeClassName").is_some();
            let system = of_class || selects(&foreseen.stored, "/spec", self.os);
            system && (self.os == Os::Linux || one_build || wrong.is_empty() || limits_builds(&foreseen.stored))
        };
        Some(self.cx.under_policies(outcome, WorkloadKind::Pod, &self.pod, asks))
    }

    /// Whether one of the nodes has room, or why the pod is not created.
    async fn room(&self, candidates: &[&FleetNode], pod: Amounts) -> Result<(), String> {
        let step = candidates.len().div_ceil(LOOKED_AT).max(1);
        for node in candidates.iter().step_by(step) {
            let fields = format!("spec.nodeName={},status.phase!=Succeeded,status.phase!=Failed", node.name);
            let query = ListQuery { fields: Some(&fields), ..ListQuery::default() };
            let mut used = pod;
            let mut visit = |object: Result<Value, _>| {
                // A pod that cannot be read takes a place.
                used = used.plus(object.map_or(Amounts { pods: 1, ..Amounts::default() }, |pod| Amounts::of_pod(&pod)));
                Ok(())
            };
            match self.cx.reader.list(&PODS, query, &mut visit, &mut |_, _| Ok(())).await {
                Ok(Ok(_)) if used.fits_within(node.allocatable) => return Ok(()),
                Ok(Ok(_)) => {}
                Ok(Err(unread)) => return Err(format!("room not known: {}", shorten(&unread.message, MAX_TEXT))),
                Err(error) => return Err(format!("room not known: {}", shorten(&format!("{error:#}"), MAX_TEXT))),
            }
        }
        let looked_at = counted(candidates.len().div_ceil(step), "node");
        Err(format!("no room on {looked_at} of {}; pass --allow-scale-up to create it anyway", candidates.len()))
    }

    /// The name of the first pod of the owner.
    async fn pod_of_owner(&self, check: &str) -> Result<String, CheckOutcome> {
        let (began, mut interval) = (Instant::now(), INTERVALS.0);
        let labels = format!("{CHECK_LABEL}={check}");
        while began.elapsed() < BOUND {
            let mut name = None;
            let mut visit = |object: Result<Value, _>| {
                if let Ok(pod) = object {
                    name.get_or_insert_with(|| name_of(&pod).to_owned());
                }
                Ok(())
            };
            let query = ListQuery { namespace: Some(self.cx.namespace), labels: Some(&labels), ..ListQuery::default() };
            // What fails now may work next time.
            self.cx.reader.list(&PODS, query, &mut visit, &mut |_, _| Ok(())).await.ok();
            if let Some(name) = name {
                return Ok(name);
            }
            sleep(interval).await;
            interval = (interval * 2).min(INTERVALS.1);
        }
        Err(CheckOutcome::failed(format!("its controller created no pod within {} s", BOUND.as_secs())))
    }

    /// Waits until the pod is placed and started, or cannot be.
    async fn watch(&self, name: &str) -> CheckOutcome {
        let (began, mut interval) = (Instant::now(), INTERVALS.0);
        loop {
            let last = match self.cx.reader.get(&PODS, Some(self.cx.namespace), name).await {
                Ok(Ok(pod)) => match PodState::of(&pod) {
                    PodState::Unschedulable(why) if !self.cx.args.allow_scale_up => {
                        return CheckOutcome::not_tried(format!("no room: {why}"));
                    }
                    PodState::Unschedulable(why) => format!("not scheduled: {why}"),
                    PodState::Waiting { node: None, .. } if began.elapsed() > BOUND => {
                        return CheckOutcome::failed(format!("no scheduler placed it within {} s", BOUND.as_secs()));
                    }
                    PodState::Waiting { node, why } => {
                        if let Some(outcome) = self.wrong_node(node.as_deref()).await {
                            return outcome;
                        }
                        why
                    }
                    PodState::Ended { node, outcome } => {
                        return self.wrong_node(node.as_deref()).await.unwrap_or(outcome);
                    }
                },
                Ok(Err(unread)) if unread.absence == Absence::NotFound => {
                    return CheckOutcome::failed("something else deleted the pod");
                }
                Ok(Err(unread)) => shorten(&unread.message, MAX_TEXT),
                Err(error) => shorten(&format!("{error:#}"), MAX_TEXT),
            };
            if began.elapsed() > STARTED {
                return CheckOutcome::failed(format!("not started within {} s; last seen: {last}", STARTED.as_secs()));
            }
            sleep(interval).await;
            interval = (interval * 2).min(INTERVALS.1);
        }
    }

    /// The outcome if the pod was bound to a node that cannot run it.
    async fn wrong_node(&self, name: Option<&str>) -> Option<CheckOutcome> {
        let name = name?;
        let known = self.cx.facts.fleet.as_ref().ok().and_then(|fleet| fleet.node(name)).cloned();
        let node = match known {
            Some(node) => Some(node),
            // It joined after the nodes were read.
            None => {
                self.cx.reader.get(&NODES, None, name).await.ok()?.ok().and_then(|node| FleetNode::from_json(&node))
            }
        };
        node.filter(|node| !(self.runs)(node))
            .map(|node| CheckOutcome::failed(format!("it landed on {}, which cannot run it", node_names([&node]))))
    }
}

fn name_of(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// Deletes an object of the run. The namespace goes later in any case, so a failure is not reported.
async fn delete(cx: &CheckContext<'_>, kind: &'static Kind, name: &str) {
    let api = KindApi::namespaced(cx.client.clone(), kind, cx.namespace);
    await_answer(api.delete(name, &DeleteParams::background())).await.ok();
}

/// What a pod shows.
#[derive(Debug, PartialEq, Eq)]
enum PodState {
    /// The scheduler found no node.
    Unschedulable(String),
    /// It is not placed, or not started.
    Waiting {
        node: Option<String>,
        why: String,
    },
    Ended {
        node: Option<String>,
        outcome: CheckOutcome,
    },
}

impl PodState {
    fn of(pod: &Value) -> Self {
        let text = |value: Option<&Value>| {
            value.and_then(Value::as_str).map(|text| shorten(text, MAX_TEXT)).unwrap_or_default()
        };
        let status = pod.pointer("/status").unwrap_or(&Value::Null);
        let Some(node) = pod.pointer("/spec/nodeName").and_then(Value::as_str) else {
            let mut conditions = status.pointer("/conditions").and_then(Value::as_array).into_iter().flatten();
            let unscheduled = conditions.find(|one| {
                text(one.get("type")) == "PodScheduled"
                    && text(one.get("status")) == "False"
                    && text(one.get("reason")) == "Unschedulable"
            });
            return unscheduled.map_or_else(
                || Self::Waiting { node: None, why: "not scheduled".to_owned() },
                |condition| Self::Unschedulable(text(condition.get("message"))),
            );
        };
        let (node, shown) = (Some(node.to_owned()), shorten(node, MAX_TEXT));
        let ended = |outcome: CheckOutcome| Self::Ended { node: node.clone(), outcome };
        let container = status.pointer("/containerStatuses/0").unwrap_or(&Value::Null);
        let exit = ["/state/terminated", "/lastState/terminated"].iter().find_map(|path| container.pointer(path));
        if container.pointer("/state/running").is_some()
            || exit.is_some_and(|exit| exit.get("exitCode") == Some(&0.into()))
        {
            // Every kubelet reports the id of a container that runs (`convertToAPIContainerStatuses`).
            let is_real = !text(container.get("containerID")).is_empty()
                || !text(exit.and_then(|exit| exit.get("containerID"))).is_empty();
            let seen = if is_real { "started" } else { "not started: simulated node" };
            return ended(CheckOutcome::ok(format!("placed on node {shown}, {seen}")));
        }
        if let Some(exit) = exit {
            let code = exit.get("exitCode").map(ToString::to_string).unwrap_or_default();
            let why = [text(exit.get("reason")), text(exit.get("message"))].join(" ");
            return ended(CheckOutcome::failed(format!(
                "on node {shown}, the container ended with exit code {code}: {}",
                why.trim()
            )));
        }
        if text(status.get("phase")) == "Failed" {
            let (reason, message) = (text(status.get("reason")), text(status.get("message")));
            return ended(CheckOutcome::failed(format!(
                "the kubelet of node {shown} rejected it: {reason}: {message}"
            )));
        }
        let waiting = container.pointer("/state/waiting").unwrap_or(&Value::Null);
        let (reason, message) = (text(waiting.get("reason")), text(waiting.get("message")));
        let full = waiting.get("message").and_then(Value::as_str).unwrap_or_default();
        let is_pull = ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"].contains(&&*reason);
        if OTHER_PLATFORM.iter().any(|part| full.contains(part)) {
            return ended(CheckOutcome::failed(format!("node {shown} does not run the image: {reason}: {message}")));
        }
        if is_pull {
            return ended(CheckOutcome::not_tried(format!(
                "placed on node {shown}, not started: the image was not pulled: {message}; set --image to one that the node can pull"
            )));
        }
        if ["CreateContainerConfigError", "CreateContainerError", "RunContainerError"].contains(&&*reason) {
            return ended(CheckOutcome::failed(format!(
                "on node {shown}, the container was not started: {reason}: {message}"
            )));
        }
        let why =
            if reason.is_empty() { format!("bound to node {shown}") } else { format!("on node {shown}: {reason}") };
        Self::Waiting { node, why }
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::panic, clippy::needless_pass_by_value, reason = "tests")]

    use serde_json::json;

    use super::*;
    use crate::report::verify::VerifyStatus::{Failed, NotTried, Ok as Good};

    fn state(status: &Value) -> PodState {
        PodState::of(&json!({"spec": {"nodeName": "w1"}, "status": status}))
    }

    fn container(state: Value) -> Value {
        json!({"phase": "Pending", "containerStatuses": [state]})
    }

    #[test]
    fn statuses_of_kubelets_have_their_meaning() {
        let waiting = |reason: &str, message: &str| {
            container(json!({"state": {"waiting": {"reason": reason, "message": message}}}))
        };
        for (status, expected, part) in [
            (
                container(json!({"state": {"running": {}}, "containerID": "containerd://a"})),
                Good,
                "placed on node w1, started",
            ),
            (container(json!({"state": {"running": {}}})), Good, "placed on node w1, not started: simulated node"),
            (
                container(json!({"state": {"terminated": {"exitCode": 0, "containerID": "containerd://a"}}})),
                Good,
                ", started",
            ),
            (
                container(
                    json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "containerID": "containerd://a",
                "lastState": {"terminated": {"exitCode": 0}}}),
                ),
                Good,
                ", started",
            ),
            (
                container(json!({"state": {"terminated": {"exitCode": 3_221_225_786_u32, "reason": "Error"}}})),
                Failed,
                "exit code 3221225786: Error",
            ),
            (
                waiting("ErrImagePull", "failed to pull: no match for platform in manifest: not found"),
                Failed,
                "does not run the image",
            ),
            (
                waiting("CreateContainerError", "hcs::System::CreateProcess: 0xc0370101"),
                Failed,
                "does not run the image",
            ),
            (
                waiting("ImagePullBackOff", "dial tcp: no such host"),
                NotTried,
                "placed on node w1, not started: the image was not pulled",
            ),
            (waiting("RunContainerError", "no space"), Failed, "RunContainerError: no space"),
            (
                json!({"phase": "Failed", "reason": "PodOSNotSupported", "message": "no"}),
                Failed,
                "rejected it: PodOSNotSupported: no",
            ),
        ] {
            let PodState::Ended { outcome, .. } = state(&status) else { panic!("{status}") };
            assert!(outcome.status == expected && outcome.seen.contains(part), "{outcome:?}");
        }
        assert!(matches!(state(&waiting("ContainerCreating", "")), PodState::Waiting { node: Some(_), .. }));
        assert!(matches!(state(&json!({})), PodState::Waiting { node: Some(_), .. }));
    }

    #[test]
    fn a_pod_without_a_node_waits_or_has_no_room() {
        let condition = |reason: &str| json!({"type": "PodScheduled", "status": "False", "reason": reason, "message": "0/3 nodes\u{1b}"});
        let state = |reason: &str| PodState::of(&json!({"spec": {}, "status": {"conditions": [condition(reason)]}}));
        assert_eq!(state("Unschedulable"), PodState::Unschedulable("0/3 nodes\\u{1b}".to_owned()));
        assert!(matches!(state("SchedulingGated"), PodState::Waiting { node: None, .. }));
        assert!(matches!(PodState::of(&json!({})), PodState::Waiting { node: None, .. }));
    }
}
