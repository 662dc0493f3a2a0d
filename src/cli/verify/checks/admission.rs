//! Checks of what the API server stores, by dry runs: nothing that they send is kept.

use std::time::Duration;

use mullion_engine::model::names::{DECISION_ANNOTATION, OS_LABEL};
use mullion_engine::model::text::{counted, list};
use mullion_engine::model::{Os, WorkloadKind};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::cli::verify::checks::context::CheckContext;
use crate::cli::verify::checks::outcome::{CheckOutcome, audit};
use crate::cli::verify::fleet::FleetNode;
use crate::cli::verify::placement::{node_names, possible_nodes};
use crate::cli::verify::requests::{RefusedBy, create};
use crate::cli::verify::scenarios::{daemon_set, explicit_linux_pod, linux_pod, refused_pod, windows_pod};
use crate::cluster::reading::{DAEMON_SETS, PODS};
use crate::controller::{CONFIGURATION, Probe, Reach, send_probe};
use crate::report::Admission;

/// The rules that deny the fields of [`refused_pod`].
const DENIED: [&str; 3] = ["MUL201", "MUL203", "MUL204"];
/// How long the webhook may take to learn about a new namespace.
const NAMESPACE_SEEN: Duration = Duration::from_secs(20);
/// How often it is asked.
const INTERVAL: Duration = Duration::from_millis(500);

/// `webhook-called`.
pub(in crate::cli::verify) async fn webhook_called(cx: &CheckContext<'_>) -> CheckOutcome {
    match &cx.facts.registration {
        Ok(Some(_)) => {}
        Ok(None) => {
            return CheckOutcome::failed(format!(
                "there are no webhook configurations {CONFIGURATION}: Mullion is not installed, or they were deleted"
            ));
        }
        Err(why) => return CheckOutcome::skipped(format!("webhook configurations not known: {why}")),
    }
    let probe = send_probe(cx.client, cx.namespace).await;
    match (reached(&probe), cx.without_effect()) {
        (Ok(()), _) => CheckOutcome::ok("both endpoints answered a dry run of a pod"),
        // A namespace that a selector excludes is not called for.
        (Err(_), Some(why)) => audit(&why),
        (Err(outcome), None) => outcome,
    }
}

fn reached(probe: &Probe) -> Result<(), CheckOutcome> {
    let endpoints = [("/mutate", probe.mutate), ("/validate", probe.validate)];
    let with = |reach: Reach| list(endpoints.iter().filter(|(_, found)| *found == reach).map(|(name, _)| name));
    let (missed, unknown) = (with(Reach::Missed), with(Reach::Unknown));
    if !missed.is_empty() {
        return Err(CheckOutcome::failed(format!("not called: {missed}; the API server answered {}", probe.response)));
    }
    if !unknown.is_empty() {
        return Err(CheckOutcome::skipped(format!("not known for {unknown}: {}", probe.response)));
    }
    Ok(())
}

/// `changes-stored`.
pub(in crate::cli::verify) async fn changes_stored(cx: &CheckContext<'_>) -> CheckOutcome {
    let name = "changes-stored";
    let (mut missing, mut changed) = (Vec::new(), 0);
    for pod in [linux_pod(name, &cx.images.linux()), windows_pod(name, &cx.any_windows_image())] {
        let Some(foreseen) = cx.foreseen(WorkloadKind::Pod, &pod, cx.namespace) else {
            let why = cx.facts.policies.as_ref().err().cloned().unwrap_or_default();
            return CheckOutcome::skipped(format!("the policies in force are not known: {why}"));
        };
        if foreseen.patch.is_empty() {
            continue;
        }
        changed += 1;
        match cx.dry_run(&PODS, &pod).await {
            Ok(stored) => missing.extend(missing_changes(&foreseen.stored, &stored)),
            Err(outcome) => return outcome,
        }
    }
    if changed == 0 {
        return CheckOutcome::skipped("policy: the policies in force change neither a Linux nor a Windows pod");
    }
    CheckOutcome::of_faults(format!("all of {}", counted(changed, "pod")), "missing in the stored pod", missing)
}

/// What Mullion sets and the stored pod does not have.
fn missing_changes(foreseen: &Value, stored: &Value) -> Vec<String> {
    let of = |object: &Value, path: &str| object.pointer(path).cloned().unwrap_or_default();
    let selector = |object: &Value| of(object, "/spec/nodeSelector").as_object().cloned().unwrap_or_default();
    let tolerations = |object: &Value| of(object, "/spec/tolerations").as_array().cloned().unwrap_or_default();
    let (stored_selector, stored_tolerations) = (selector(stored), tolerations(stored));
    let mut missing = Vec::new();
    for (key, value) in selector(foreseen) {
        if stored_selector.get(&key) != Some(&value) {
            missing.push(format!("spec.nodeSelector[{key}]: {value}"));
        }
    }
    let lost = tolerations(foreseen).into_iter().filter(|toleration| !stored_tolerations.contains(toleration));
    missing.extend(lost.map(|toleration| format!("spec.tolerations: {toleration}")));
    for (path, name) in [("/spec/affinity", "spec.affinity"), ("/spec/os", "spec.os")] {
        if !of(foreseen, path).is_null() && of(stored, path).is_null() {
            missing.push(name.to_owned());
        }
    }
    if decision(foreseen).is_some() && decision(stored).is_none() {
        missing.push(format!("metadata.annotations[{DECISION_ANNOTATION}]"));
    }
    missing
}

fn decision(object: &Value) -> Option<&str> {
    object.pointer("/metadata/annotations")?.get(DECISION_ANNOTATION)?.as_str()
}

/// Whether the pod spec at `path` selects that operating system.
pub(super) fn selects(object: &Value, path: &str, os: Os) -> bool {
    let selector = object.pointer(path).and_then(|spec| spec.pointer("/nodeSelector"));
    selector.and_then(|selector| selector.get(OS_LABEL)?.as_str()) == Some(os.name())
}

fn is_windows(node: &FleetNode) -> bool {
    node.os == Some(Os::Windows)
}

/// The outcome for a Linux pod spec: no Windows node may get it.
fn off_windows(cx: &CheckContext<'_>, spec: &Value) -> Result<CheckOutcome, CheckOutcome> {
    let fleet = cx.fleet()?;
    let windows = fleet.windows().count();
    if windows == 0 {
        return Ok(CheckOutcome::skipped("there is no Windows node"));
    }
    let possible = possible_nodes(spec, &fleet.nodes, &cx.facts.node_settings(), |node| !is_windows(node));
    if possible.wrong.is_empty() {
        return Ok(CheckOutcome::ok(format!("kept off {}", counted(windows, "Windows node"))));
    }
    Ok(CheckOutcome::failed(format!("it could land on {}", node_names(possible.wrong))))
}

/// `no-toleration`.
pub(in crate::cli::verify) async fn no_toleration(cx: &CheckContext<'_>) -> Result<CheckOutcome, CheckOutcome> {
    let pod = linux_pod("no-toleration", &cx.images.linux());
    let stored = cx.dry_run(&PODS, &pod).await?;
    let outcome = off_windows(cx, stored.pointer("/spec").unwrap_or(&Value::Null))?;
    Ok(cx.under_policies(outcome, WorkloadKind::Pod, &pod, |foreseen| selects(&foreseen.stored, "/spec", Os::Linux)))
}

/// `daemon-set`.
pub(in crate::cli::verify) async fn daemon_set_stays_off(cx: &CheckContext<'_>) -> Result<CheckOutcome, CheckOutcome> {
    const SPEC: &str = "/spec/template/spec";
    let set = daemon_set("daemon-set", &cx.images.daemon_set());
    let stored = cx.dry_run(&DAEMON_SETS, &set).await?;
    let outcome = off_windows(cx, stored.pointer(SPEC).unwrap_or(&Value::Null))?;
    Ok(cx.under_policies(outcome, WorkloadKind::DaemonSet, &set, |foreseen| selects(&foreseen.stored, SPEC, Os::Linux)))
}

/// `explicit-linux`.
pub(in crate::cli::verify) async fn explicit_linux(cx: &CheckContext<'_>) -> Result<CheckOutcome, CheckOutcome> {
    let pod = explicit_linux_pod("explicit-linux", &cx.images.linux());
    let stored = cx.dry_run(&PODS, &pod).await?;
    Ok(CheckOutcome::of_faults("nothing was added", "the stored pod differs", additions(&pod, &stored)))
}

/// Members about placement that the stored pod has and the authored one does not. The API server itself adds tolerations for
/// nodes that are not ready or not reachable (`DefaultTolerationSeconds`).
fn additions(authored: &Value, stored: &Value) -> Vec<String> {
    const OF_THE_SERVER: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
    let of = |object: &Value, member: &str| {
        object.pointer("/spec").and_then(|spec| spec.get(member)).cloned().unwrap_or_default()
    };
    let mut added: Vec<String> = ["nodeSelector", "affinity", "os", "runtimeClassName"]
        .into_iter()
        .filter(|member| of(authored, member) != of(stored, member))
        .map(|member| format!("spec.{member}: {}", of(stored, member)))
        .collect();
    for toleration in of(stored, "tolerations").as_array().into_iter().flatten() {
        let key = toleration.get("key").and_then(Value::as_str).unwrap_or_default();
        if !OF_THE_SERVER.contains(&key) {
            added.push(format!("spec.tolerations: {toleration}"));
        }
    }
    added.extend(decision(stored).map(|_| format!("metadata.annotations[{DECISION_ANNOTATION}]")));
    added
}

/// `denials`.
pub(in crate::cli::verify) async fn denials(cx: &CheckContext<'_>) -> CheckOutcome {
    let pod = refused_pod("denials", &cx.any_windows_image());
    let outcome = match create(cx.client, &PODS, cx.namespace, &pod, true).await {
        Ok(_) => CheckOutcome::failed("the pod would be stored"),
        Err(refused) if refused.by == RefusedBy::Mullion => {
            let missing: Vec<&str> = DENIED.into_iter().filter(|rule| !refused.names(rule)).collect();
            if missing.is_empty() {
                CheckOutcome::ok(format!("denied by {}", list(DENIED)))
            } else {
                CheckOutcome::failed(format!("the denial does not name {}: {}", list(missing), refused.message()))
            }
        }
        Err(refused) => CheckOutcome::refused(&refused),
    };
    let denies = |foreseen: &Admission| {
        let causes = foreseen.denial.iter().flat_map(|denial| &denial.causes);
        let rules: Vec<&str> = causes.map(|cause| cause.reason).collect();
        DENIED.iter().all(|rule| rules.contains(rule))
    };
    cx.under_policies(outcome, WorkloadKind::Pod, &pod, denies)
}

/// `newest-image`.
pub(in crate::cli::verify) async fn newest_image(cx: &CheckContext<'_>) -> Result<CheckOutcome, CheckOutcome> {
    let (fleet, (build, image)) = (cx.fleet()?, cx.newest()?);
    let runs = |node: &FleetNode| node.runs_image(build, &fleet.releases);
    let older = fleet.windows().filter(|node| !runs(node)).count();
    if older == 0 {
        return Ok(CheckOutcome::skipped(format!("every Windows node runs images of {}", fleet.release(build))));
    }
    let pod = windows_pod("newest-image", &image);
    let stored = cx.dry_run(&PODS, &pod).await?;
    let spec = stored.pointer("/spec").unwrap_or(&Value::Null);
    let possible = possible_nodes(spec, &fleet.nodes, &cx.facts.node_settings(), runs);
    let outcome = if possible.wrong.is_empty() {
        CheckOutcome::ok(format!("an image of {} is kept off {}", fleet.release(build), counted(older, "older node")))
    } else {
        CheckOutcome::failed(format!(
            "an image of {} could land on {}",
            fleet.release(build),
            node_names(possible.wrong)
        ))
    };
    Ok(cx.under_policies(outcome, WorkloadKind::Pod, &pod, |foreseen| limits_builds(&foreseen.stored)))
}

/// Whether a placed pod is limited to some builds.
pub(super) fn limits_builds(stored: &Value) -> bool {
    ["/spec/affinity", "/spec/runtimeClassName"].iter().any(|path| stored.pointer(path).is_some())
}

/// `exempt-namespace`.
pub(in crate::cli::verify) async fn exempt_namespace(cx: &CheckContext<'_>) -> CheckOutcome {
    let pod = windows_pod("exempt-namespace", &cx.any_windows_image());
    let foreseen = cx.foreseen(WorkloadKind::Pod, &pod, cx.exempt);
    if foreseen.is_some_and(|foreseen| !foreseen.patch.is_empty()) {
        return CheckOutcome::skipped("policy: the policies in force permit no exemption by annotation");
    }
    let began = Instant::now();
    loop {
        // The webhook learns about a new namespace from a watch.
        let outcome = match create(cx.client, &PODS, cx.exempt, &pod, true).await {
            Ok(stored) => {
                let added = additions(&pod, &stored);
                CheckOutcome::of_faults("a Windows pod is stored without a change", "a Windows pod was changed", added)
            }
            Err(refused) if [RefusedBy::Mullion, RefusedBy::NotReadyYet].contains(&refused.by) => {
                CheckOutcome::failed(refused.message())
            }
            Err(refused) => return CheckOutcome::refused(&refused),
        };
        if outcome.status == crate::report::verify::VerifyStatus::Ok || began.elapsed() > NAMESPACE_SEEN {
            return outcome;
        }
        sleep(INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::indexing_slicing, reason = "tests")]

    use serde_json::json;

    use super::*;
    use crate::report::verify::VerifyStatus::{Failed, Skipped};

    #[test]
    fn a_probe_that_missed_an_endpoint_fails() {
        let probe = |mutate, validate| Probe { mutate, validate, rejected: false, response: "201".to_owned() };
        assert!(reached(&probe(Reach::Reached, Reach::Reached)).is_ok());
        for (mutate, validate, status, part) in [
            (Reach::Missed, Reach::Reached, Failed, "not called: /mutate; "),
            (Reach::Missed, Reach::Unknown, Failed, "not called: /mutate; "),
            (Reach::Reached, Reach::Unknown, Skipped, "/validate"),
        ] {
            let outcome = reached(&probe(mutate, validate)).err();
            assert!(outcome.is_some_and(|one| one.status == status && one.seen.contains(part)), "{part}");
        }
    }

    #[test]
    fn lost_changes_are_named_and_additions_of_others_are_not() {
        let toleration = json!({"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"});
        let placed = json!({
            "metadata": {"annotations": {DECISION_ANNOTATION: "windows"}},
            "spec": {"nodeSelector": {OS_LABEL: "windows"}, "tolerations": [toleration], "affinity": {}, "os": {"name": "windows"}},
        });
        let mut stored = placed.clone();
        stored["spec"]["tolerations"] = json!([{"key": "node.kubernetes.io/not-ready"}, toleration]);
        stored["spec"]["nodeSelector"]["pool"] = json!("a");
        assert_eq!(missing_changes(&placed, &stored), Vec::<String>::new());
        let lost = missing_changes(&placed, &json!({"spec": {"nodeSelector": {}}}));
        assert_eq!(lost.len(), 5, "{lost:?}");
        assert!(lost[0].starts_with("spec.nodeSelector[kubernetes.io/os]"));
    }

    #[test]
    fn only_tolerations_of_the_server_are_expected_additions() {
        let pod = explicit_linux_pod("a", "b");
        let mut stored = pod.clone();
        stored["spec"]["tolerations"] = json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]);
        assert!(additions(&pod, &stored).is_empty());
        stored["spec"]["os"] = json!({"name": "linux"});
        stored["spec"]["tolerations"] = json!([{"key": "os"}]);
        assert_eq!(additions(&pod, &stored), ["spec.os: {\"name\":\"linux\"}", "spec.tolerations: {\"key\":\"os\"}"]);
    }
}
