//! The pod that is made from an object, compared with the pod of its controller; and the findings of each example.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::LazyLock;
use std::{env, fs};

use mullion_engine::admission::{self, Review};
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::json_pointer::field_path;
use mullion_engine::model::{Basis, DetectedOs, Requester, ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_engine::rules::Finding;
use mullion_policy::PolicySet;
use serde_json::Value;

use crate::examples::{all, files, folder};

static POLICIES: LazyLock<PolicySet> = LazyLock::new(PolicySet::built_in);

/// The review of a pod under the built-in policies.
pub fn review(pod: &Value, requester: Requester, is_partly_unknown: bool) -> Review {
    let snapshot = ClusterSnapshot::default();
    let workload = WorkloadObject { kind: WorkloadKind::Pod, namespace: "default", object: pod };
    let request = ReviewRequest { requester, is_partly_unknown, ..ReviewRequest::creation(workload) };
    admission::review(&request, &snapshot, &POLICIES.resolve(&request, &snapshot))
}

/// The findings of a pod, each with its container by name: a controller adds containers, renames them, and orders them
/// as it likes.
fn keys(pod: &Value, findings: &[Finding]) -> BTreeSet<String> {
    let key = |finding: &Finding| {
        let mut place = finding.pointer.clone();
        for list in ["containers", "initContainers", "volumes"] {
            let Some(rest) = place.strip_prefix(&format!("/spec/{list}/")) else { continue };
            let (index, below) = rest.split_once('/').unwrap_or((rest, ""));
            let name = pod.pointer(&format!("/spec/{list}/{index}/name")).and_then(Value::as_str).unwrap_or("main");
            let name = name.trim_start_matches("step-").trim_start_matches("sidecar-");
            place = format!("/spec/{list}/{name}/{below}");
        }
        // Some controllers start the program by one of theirs, and then it is an argument.
        let place = place.strip_suffix("args").map_or_else(|| place.clone(), |before| format!("{before}command"));
        format!("{:?} {} {place}", finding.action, finding.code)
    };
    findings.iter().map(key).collect()
}

#[test]
fn a_pod_has_the_findings_of_the_pod_of_its_controller() {
    for example in all() {
        let title = example.title();
        let made = example.template_pods();
        assert!(made.unread.is_empty(), "{title}: {:?}", made.unread);
        assert_eq!(made.pods.len(), example.pods.len(), "{title}");
        for (made, real) in made.pods.iter().zip(&example.pods) {
            let here = review(&made.pod, Requester::Unknown, made.unknown.is_some());
            let there = review(real, Requester::Other, false);
            // What is known in part does not get the Linux default that the real pod gets.
            let is_open = made.unknown.is_some() && there.decision.basis == Basis::Default;
            let expected = if is_open { DetectedOs::Undecided } else { there.decision.os };
            assert_eq!(here.decision.os, expected, "{title}: {}", made.pod);
            // Silent repairs in the containers that the controller adds are not the author's.
            let (silent, reported): (Vec<_>, Vec<_>) = there.findings.into_iter().partition(|finding| finding.quiet);
            let mut keys_here = keys(&made.pod, &here.findings);
            let silent = keys(real, &silent);
            keys_here.retain(|key| !silent.contains(key));
            assert_eq!(keys_here, keys(real, &reported), "{title}: {}", made.pod);
        }
    }
}

/// What `pointer` of a pod and its origin in the object contain.
pub fn assert_origins(title: &str, object: &Value, made: &mullion_engine::pod_templates::TemplatePod) {
    fn leaves(value: &Value, pointer: String, found: &mut Vec<(String, Value)>) {
        let escape = |key: &str| key.replace('~', "~0").replace('/', "~1");
        match value {
            Value::Object(members) if !members.is_empty() => {
                members.iter().for_each(|(key, value)| leaves(value, format!("{pointer}/{}", escape(key)), found));
            }
            Value::Array(items) if !items.is_empty() => {
                items.iter().enumerate().for_each(|(at, value)| leaves(value, format!("{pointer}/{at}"), found));
            }
            _ => found.push((pointer, value.clone())),
        }
    }
    let mut found = Vec::new();
    leaves(&made.pod, String::new(), &mut found);
    for (pointer, value) in found.into_iter().filter(|(pointer, _)| made.is_authored(pointer)) {
        let origin = made.origin(&pointer);
        let there = object.pointer(&origin);
        // A map can have lost members that only the cluster knows, or that pods do not have.
        let same = there == Some(&value) || value.as_object().is_some_and(|map| map.is_empty() && there.is_some());
        assert!(same, "{title}: {pointer} is not {origin}: {value}");
    }
    assert!(object.pointer(&made.site).is_some(), "{title}: {}", made.site);
}

#[test]
fn each_value_of_a_pod_comes_from_its_place_in_the_object() {
    for example in all() {
        for made in &example.template_pods().pods {
            assert_origins(&example.title(), &example.object.value, made);
        }
    }
}

/// `tests/kinds/findings.txt`: every example with its pods, their operating systems and findings. `UPDATE_DOCS=1` writes it.
#[test]
fn findings_are_at_their_places_in_the_objects() {
    let mut text = "Findings of the examples. Generated: UPDATE_DOCS=1 cargo test --test pod_templates\n".to_owned();
    for (file, examples) in files() {
        writeln!(text, "\n# {file}").unwrap();
        for example in examples {
            writeln!(text, "{}", example.title()).unwrap();
            for made in &example.template_pods().pods {
                let review = review(&made.pod, Requester::Unknown, made.unknown.is_some());
                writeln!(text, "  {}: {}", field_path(&made.site), review.decision.os.name()).unwrap();
                for finding in &review.findings {
                    let place = field_path(&made.origin(&finding.pointer));
                    writeln!(text, "    {:?} {} {}", finding.action, finding.code, place).unwrap();
                }
            }
        }
    }
    let path = folder().join("findings.txt");
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap_or_default(), text, "UPDATE_DOCS=1 writes it");
}
