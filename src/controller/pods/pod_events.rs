//! Events about pods, on their owners. They contain no name of one pod of many and no number, because equal content is one
//! Event.

use k8s_openapi::api::core::v1::ObjectReference;
use mullion_engine::model::foreign_text::visible;
use mullion_engine::model::names::FINDINGS_LABEL;
use mullion_engine::model::text::list_within;
use mullion_engine::model::windows::Build;
use mullion_engine::model::{Os, WorkloadKind};

use crate::controller::event_reasons::{PODS_MISPLACED, PODS_MISSED, PODS_STUCK, WINDOWS_FINDINGS};
use crate::controller::events::{MAX_NOTE, NewEvent};
use crate::controller::pods::missed::MissedReport;

/// The Event about pods that wait for a node, and cannot get everything that is missing.
pub(crate) fn unscheduled(owner: &ObjectReference, report: &MissedReport) -> NewEvent {
    let were = were(owner);
    let note = match report {
        MissedReport::Lacks(lacks) => joined(
            &format!("{were} created without Mullion. Only new pods can get what is missing: "),
            lacks,
            ", ",
            &format!(
                ". Without it, a pod may stay Pending, or be scheduled to a node that cannot run it. Next: {}",
                recreate_hint(owner)
            ),
        ),
        MissedReport::Denied(findings) => joined(
            &format!("{were} created without Mullion, which denies such pods, and cannot be scheduled: "),
            findings,
            "; ",
            &format!(". Next: fix these findings{}", check_hint(owner)),
        ),
    };
    PODS_MISSED.event(note)
}

/// The Event about pods that are bound to a node of the wrong operating system. `reason`: what decides the `intended`
/// one, as a clause.
pub(crate) fn misplaced(owner: &ObjectReference, intended: Os, reason: &str) -> NewEvent {
    let actual = if intended == Os::Windows { Os::Linux } else { Os::Windows };
    let (were, intended, actual) = (were(owner), intended.title(), actual.title());
    let note = joined(
        &format!("{were} created without Mullion and bound to a {actual} node, but intended for {intended} ("),
        &[reason.to_owned()],
        "",
        &format!("). Next: {}", recreate_hint(owner)),
    );
    PODS_MISPLACED.event(note)
}

/// The Event about pods on nodes of the operating system `actual`, of which no container has started.
pub(crate) fn stuck(owner: &ObjectReference, actual: Os) -> NewEvent {
    let (were, actual) = (were(owner), actual.title());
    let namespace = owner.namespace.as_deref().unwrap_or_default();
    PODS_STUCK.event(format!(
        "{were} created without Mullion, and no container started on a {actual} node within ten minutes. Next: mullion repair \
         -n {namespace} shows whether another node fits, and what to do"
    ))
}

/// The Event about pods on nodes of a Windows build that cannot run their images, of which no container has started.
pub(crate) fn stuck_on_build(owner: &ObjectReference, build: Build) -> NewEvent {
    let these = if kind(owner) == "Pod" { "This pod is" } else { "Pods are" };
    let namespace = owner.namespace.as_deref().unwrap_or_default();
    PODS_STUCK.event(format!(
        "{these} on a Windows node of build {build}, which cannot run the images, and no container started within ten minutes. \
         Next: mullion repair -n {namespace} shows whether another node fits, and what to do"
    ))
}

/// The Event about findings in pods that no user has seen: codes and sentences, most important first.
pub(crate) fn findings(owner: &ObjectReference, findings: &[(&str, String)]) -> Option<NewEvent> {
    let (first, _) = findings.first()?;
    let sentences: Vec<String> = findings.iter().map(|(_, sentence)| sentence.clone()).collect();
    let note = joined(
        "Rules of Mullion report problems in these pods: ",
        &sentences,
        "; ",
        &format!(". Next: mullion rules {first}{}", pods_hint(owner)),
    );
    Some(WINDOWS_FINDINGS.event(note))
}

/// `head`, as many of `items` as there is room for, and `tail`, which is never shortened. One line, because `kubectl
/// get events` prints a table.
fn joined(head: &str, items: &[String], separator: &str, tail: &str) -> String {
    let room = MAX_NOTE.saturating_sub(head.len() + tail.len());
    let lines = items.iter().map(|item| visible(item));
    format!("{head}{}{tail}", list_within(lines, items.len(), separator, room))
}

fn were(owner: &ObjectReference) -> &'static str {
    if kind(owner) == "Pod" { "This pod was" } else { "Pods were" }
}

fn kind(owner: &ObjectReference) -> &str {
    owner.kind.as_deref().unwrap_or("Pod")
}

/// `deployment/web -n shop`, for `kubectl`.
fn kubectl_object(owner: &ObjectReference) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}/{} -n {}", kind(owner).to_lowercase(), part(&owner.name), part(&owner.namespace))
}

/// How to have Mullion review its pods. Pods of a StatefulSet must be deleted, because its rollouts wait for pods that
/// never become Ready (kubernetes.io/docs/concepts/workloads/controllers/statefulset, Forced rollback). Pods of a
/// DaemonSet need a new template, because its controller uses the template to choose their nodes.
fn recreate_hint(owner: &ObjectReference) -> String {
    let namespace = owner.namespace.as_deref().unwrap_or_default();
    match kind(owner) {
        "Deployment" | "DaemonSet" => format!("kubectl rollout restart {}", kubectl_object(owner)),
        "Pod" | "Job" => format!("kubectl delete {}, and create it again", kubectl_object(owner)),
        "CronJob" => {
            format!("delete the Job that waits (kubectl get jobs -n {namespace}); Mullion places its next run")
        }
        _ => format!("kubectl delete pod NAME -n {namespace} for each of them; Mullion places the new pods"),
    }
}

/// How to see all findings of its template; only for kinds that `mullion check` reads.
fn check_hint(owner: &ObjectReference) -> String {
    match WorkloadKind::from_name(kind(owner)) {
        Some(_) => format!("; see mullion check {}", kubectl_object(owner)),
        None => String::new(),
    }
}

/// How to see all findings of its pods. Those of a DaemonSet for all nodes may differ from those of its template, which
/// is for no operating system.
fn pods_hint(owner: &ObjectReference) -> String {
    if kind(owner) != "DaemonSet" {
        return check_hint(owner);
    }
    let namespace = owner.namespace.as_deref().unwrap_or_default();
    format!(
        "; see mullion check pod/NAME -n {namespace} for a pod of kubectl get pods -n {namespace} -l {FINDINGS_LABEL}"
    )
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    fn owner(kind: &str, name: &str) -> ObjectReference {
        let text = |text: &str| Some(text.to_owned());
        ObjectReference { kind: text(kind), name: text(name), namespace: text("shop"), ..ObjectReference::default() }
    }

    #[test]
    fn every_kind_has_a_hint() {
        let report = MissedReport::Lacks(vec!["nodeSelector kubernetes.io/os: windows".to_owned()]);
        for (kind, expected) in [
            ("Deployment", "Next: kubectl rollout restart deployment/web -n shop"),
            ("DaemonSet", "Next: kubectl rollout restart daemonset/web -n shop"),
            ("StatefulSet", "Next: kubectl delete pod NAME -n shop for each of them; Mullion places the new pods"),
            ("Rollout", "Next: kubectl delete pod NAME -n shop for each of them; Mullion places the new pods"),
            ("Job", "Next: kubectl delete job/web -n shop, and create it again"),
            ("Pod", "Next: kubectl delete pod/web -n shop, and create it again"),
            ("CronJob", "Next: delete the Job that waits (kubectl get jobs -n shop); Mullion places its next run"),
        ] {
            let note = unscheduled(&owner(kind, "web"), &report).note;
            assert!(note.ends_with(expected), "{note}");
            assert!(
                note.starts_with(if kind == "Pod" { "This pod was created" } else { "Pods were created" }),
                "{note}"
            );
        }
        let note = misplaced(&owner("Deployment", "web"), Os::Linux, "image a:1-linux, by tag").note;
        assert_eq!(
            note,
            "Pods were created without Mullion and bound to a Windows node, but intended for Linux (image a:1-linux, by \
             tag). Next: kubectl rollout restart deployment/web -n shop"
        );
    }

    #[test]
    fn findings_name_the_command_that_prints_all() {
        let found = [("MUL201", "MUL201 run-as-user: spec.a: no; b".to_owned())];
        let note = |kind| findings(&owner(kind, "web"), &found).unwrap().note;
        assert!(note("CronJob").ends_with("Next: mullion rules MUL201; see mullion check cronjob/web -n shop"));
        assert!(note("DaemonSet").ends_with(
            "Next: mullion rules MUL201; see mullion check pod/NAME -n shop for a pod of kubectl get pods -n shop -l \
             mullion.dev/findings"
        ));
        assert!(note("Rollout").ends_with("Next: mullion rules MUL201"));
        assert_eq!(findings(&owner("Deployment", "web"), &[]), None);
    }

    proptest! {
        #[test]
        fn notes_fit_keep_their_end_and_are_one_line(
            items in prop::collection::vec("[a-z\\n\u{e9}\u{1F600}]{0,400}", 1..12),
            name in "[a-z]{1,253}",
            namespace in "[a-z]{1,63}",
        ) {
            let mut owner = owner("Deployment", &name);
            owner.namespace = Some(namespace);
            let found: Vec<(&str, String)> = items.iter().map(|item| ("MUL201", item.clone())).collect();
            let all = [
                (findings(&owner, &found).unwrap().note, check_hint(&owner)),
                (unscheduled(&owner, &MissedReport::Lacks(items.clone())).note, recreate_hint(&owner)),
                (unscheduled(&owner, &MissedReport::Denied(items.clone())).note, check_hint(&owner)),
                (misplaced(&owner, Os::Linux, &items[0]).note, recreate_hint(&owner)),
            ];
            for (note, end) in all {
                prop_assert!(note.len() <= MAX_NOTE, "{} bytes", note.len());
                prop_assert!(note.ends_with(&end), "{}", note);
                prop_assert!(!note.contains('\n'));
            }
        }
    }
}
