//! What people are told. Nothing here names a single pod of many, or counts: equal news is one Event.

use k8s_openapi::api::core::v1::ObjectReference;
use mullion_engine::model::operating_system::Os;
use mullion_engine::model::text::{list_within, one_line};
use mullion_engine::model::workload::WorkloadKind;

use crate::controller::events::{EventType, MAX_NOTE, News};
use crate::controller::pods::missed::Report;

/// Of pods that wait for a node and cannot be helped any more, or not enough.
pub(crate) fn unscheduled(owner: &ObjectReference, report: &Report) -> News {
    let were = were(owner);
    let note = match report {
        Report::Lacks(lacks) => joined(
            &format!("{were} created without Mullion. No pod can be given later what is missing: "),
            lacks,
            ", ",
            &format!(". Without it a pod may find no node, or one that cannot run it. Next: {}", anew(owner)),
        ),
        Report::Refused(findings) => joined(
            &format!("{were} created without Mullion, which refuses such pods, and cannot be scheduled: "),
            findings,
            "; ",
            &format!(". Next: correct it{}", explain(owner)),
        ),
    };
    news("PodsMissed", note)
}

/// Of pods that are bound to a node of the wrong operating system. `because`: what says the right one, as a clause.
pub(crate) fn misplaced(owner: &ObjectReference, meant: Os, because: &str) -> News {
    let there = if meant == Os::Windows { Os::Linux } else { Os::Windows };
    let (were, meant, there) = (were(owner), meant.title(), there.title());
    let note = joined(
        &format!("{were} created without Mullion and went to {there}, but {meant} was meant ("),
        &[because.to_owned()],
        "",
        &format!("). Next: {}", anew(owner)),
    );
    news("PodsMisplaced", note)
}

/// Of findings in pods that nobody was there to be told of: codes and sentences, most important first.
pub(crate) fn findings(owner: &ObjectReference, found: &[(&str, String)]) -> Option<News> {
    let (first, _) = found.first()?;
    let sentences: Vec<String> = found.iter().map(|(_, sentence)| sentence.clone()).collect();
    let note = joined(
        "Not everything in these pods works as written: ",
        &sentences,
        "; ",
        &format!(". Next: mullion rules {first}{}", explain(owner)),
    );
    Some(news("WindowsFindings", note))
}

fn news(reason: &'static str, note: String) -> News {
    News { r#type: EventType::Warning, reason, action: "Review", note }
}

/// `head`, as many of `items` as there is room for, and `tail`, which is never cut off. One line: `kubectl get events` is a
/// table.
fn joined(head: &str, items: &[String], separator: &str, tail: &str) -> String {
    let items: Vec<String> = items.iter().map(|item| one_line(item)).collect();
    let room = MAX_NOTE.saturating_sub(head.len() + tail.len());
    format!("{head}{}{tail}", list_within(&items, separator, room))
}

fn were(owner: &ObjectReference) -> &'static str {
    if kind(owner) == "Pod" { "This pod was" } else { "Pods were" }
}

fn kind(owner: &ObjectReference) -> &str {
    owner.kind.as_deref().unwrap_or("Pod")
}

/// `deployment/web -n shop`, as `kubectl` takes it.
fn described(owner: &ObjectReference) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}/{} -n {}", kind(owner).to_lowercase(), part(&owner.name), part(&owner.namespace))
}

/// How its pods go through Mullion. Those of a StatefulSet are deleted: its rollouts wait for pods that never get ready
/// (kubernetes.io/docs/concepts/workloads/controllers/statefulset, Forced rollback). Those of a DaemonSet come from a new
/// template: its controller decides by that where they go.
fn anew(owner: &ObjectReference) -> String {
    let namespace = owner.namespace.as_deref().unwrap_or_default();
    match kind(owner) {
        "Deployment" | "DaemonSet" => format!("kubectl rollout restart {}", described(owner)),
        "Pod" | "Job" => format!("kubectl delete {}, and create it again", described(owner)),
        "CronJob" => format!("delete the Job that waits (kubectl get jobs -n {namespace}); its next run is placed"),
        _ => format!("kubectl delete pod NAME -n {namespace} for each of them; their successors are placed"),
    }
}

/// How to see everything that is said of its template; only kinds that `mullion explain` reads.
fn explain(owner: &ObjectReference) -> String {
    match WorkloadKind::from_name(kind(owner)) {
        Some(_) => format!("; see kubectl get {} -o yaml | mullion explain -", described(owner)),
        None => String::new(),
    }
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
    fn every_kind_hears_what_to_do() {
        let report = Report::Lacks(vec!["nodeSelector kubernetes.io/os: windows".to_owned()]);
        for (kind, expected) in [
            ("Deployment", "Next: kubectl rollout restart deployment/web -n shop"),
            ("DaemonSet", "Next: kubectl rollout restart daemonset/web -n shop"),
            ("StatefulSet", "Next: kubectl delete pod NAME -n shop for each of them; their successors are placed"),
            ("Rollout", "Next: kubectl delete pod NAME -n shop for each of them; their successors are placed"),
            ("Job", "Next: kubectl delete job/web -n shop, and create it again"),
            ("Pod", "Next: kubectl delete pod/web -n shop, and create it again"),
            ("CronJob", "Next: delete the Job that waits (kubectl get jobs -n shop); its next run is placed"),
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
            "Pods were created without Mullion and went to Windows, but Linux was meant (image a:1-linux, by tag). \
             Next: kubectl rollout restart deployment/web -n shop"
        );
    }

    #[test]
    fn only_kinds_that_explain_reads_are_piped_to_it() {
        let found = [("MUL201", "MUL201 run-as-user: spec.a: no; b".to_owned())];
        let note = |kind| findings(&owner(kind, "web"), &found).unwrap().note;
        assert!(
            note("CronJob").ends_with(
                "Next: mullion rules MUL201; see kubectl get cronjob/web -n shop -o yaml | mullion explain -"
            )
        );
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
                (findings(&owner, &found).unwrap().note, explain(&owner)),
                (unscheduled(&owner, &Report::Lacks(items.clone())).note, anew(&owner)),
                (unscheduled(&owner, &Report::Refused(items.clone())).note, explain(&owner)),
                (misplaced(&owner, Os::Linux, &items[0]).note, anew(&owner)),
            ];
            for (note, end) in all {
                prop_assert!(note.len() <= MAX_NOTE, "{} bytes", note.len());
                prop_assert!(note.ends_with(&end), "{}", note);
                prop_assert!(!note.contains('\n'));
            }
        }
    }
}
