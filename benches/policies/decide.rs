//! The time of one review under many policies.

use mullion_engine::admission::{Endpoint, respond, review};
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::{ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_policy::{PolicyFile, PolicyFiles, PolicySet};
use serde_json::{Value, json};

use crate::fleet;
use crate::rounds::{Case, interleaved, print_micros};
use crate::texts::{self, PATTERNS, POLICIES, Style, Text};

/// A pod of about `bytes`, as the API server sends it.
fn pod(image: &str, bytes: usize) -> Value {
    let spec = json!({"containers": [{"name": "web", "image": image}]});
    let mut review: Value = serde_json::from_str(&fleet::review(&spec, bytes)).unwrap();
    review["request"]["object"].take()
}

fn reviewed(pod: &Value, snapshot: &ClusterSnapshot, set: &PolicySet) -> usize {
    let request = ReviewRequest::creation(WorkloadObject { kind: WorkloadKind::Pod, namespace: "team-1", object: pod });
    let review = review(&request, snapshot, &set.resolve(&request, snapshot));
    respond(&review, pod, Endpoint::Mutate).patch.len()
}

pub fn run() {
    let snapshot = fleet::snapshot(20, 20);
    let sets = [
        ("1 policy, 10 patterns", texts::set(&[texts::patterns(10, Style::Flow)])),
        ("1 policy, 10,000 patterns", texts::set(&[texts::patterns(PATTERNS, Style::Flow)])),
        ("500 policies, 10,000 patterns, one is for the pod", teams()),
        ("500 policies, 10,000 patterns, all are for the pod", everybody()),
    ];
    for bytes in [2_000, 15_000] {
        println!("\nreview and answer, {} KB pod, µs: median, 99th percentile, × the first", bytes / 1000);
        let mut cases = Vec::new();
        for (name, set) in &sets {
            let last = set.pods.iter().map(|policy| policy.settings.images.len()).sum::<usize>() - 1;
            let images = [
                ("no", "registry.example.org/none:1".to_owned()),
                ("the first", texts::image(0)),
                ("the last", texts::image(last)),
            ];
            for (which, image) in images {
                let (pod, snapshot) = (pod(&image, bytes), &snapshot);
                cases.push(Case::new(format!("{name}: {which} pattern"), move || reviewed(&pod, snapshot, set)));
            }
        }
        let times = interleaved(&mut cases, 20, 100);
        print_micros(&cases, &times);
    }
}

fn teams() -> PolicySet {
    texts::set(&texts::spread(POLICIES, PATTERNS, texts::of_a_team))
}

fn everybody() -> PolicySet {
    texts::set(&texts::spread(POLICIES, PATTERNS, texts::of_everybody))
}

/// Files with policies that each select pods by a label, all with patterns.
pub fn of_labels() -> Vec<Text> {
    texts::spread(POLICIES, PATTERNS, texts::of_a_label)
}

/// The labels of the `n`th pod: about half of the labels that policies select, with no two pods the same.
pub fn labels(n: usize) -> Value {
    // A generator of the kind by Steele and Vigna; it is enough that all subsets differ.
    let bit =
        |at: usize| (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(at as u32 * 7) >> (at % 61) & 1 == 1;
    let on = (0..POLICIES).filter(|at| bit(*at)).map(|at| (format!("l{at}"), json!("on")));
    Value::Object(on.chain([("n".to_owned(), json!(n.to_string()))]).collect())
}

pub fn hostile() {
    let snapshot = fleet::snapshot(20, 20);
    let files = PolicyFiles {
        texts: of_labels().into_iter().map(|(name, text)| PolicyFile { name, bytes: text.into() }).collect(),
        problems: Vec::new(),
    };
    let load = || PolicySet::load(&files).unwrap();
    let pods: Vec<Value> = (0..2_000)
        .map(|n| {
            let mut pod = pod("registry.example.org/none:1", 2_000);
            pod["metadata"]["labels"] = labels(n);
            pod
        })
        .collect();
    let (one, other, third) = (load(), load(), load());
    // First the cache is filled with other sets of labels; each pod is placed on Linux.
    assert!(pods[1..].iter().all(|pod| reviewed(pod, &snapshot, &third) > 0));
    println!("\nlabels that each meet half of 500 policies, µs: median, 99th percentile, × the first");
    let mut next = pods.iter().cycle();
    let mut cases = vec![
        Case::new("the same pod again", || reviewed(&pods[0], &snapshot, &one)),
        Case::new("the same pod again, after 2,000 with other labels", || reviewed(&pods[0], &snapshot, &third)),
        Case::new("each pod with other labels", || reviewed(next.next().unwrap(), &snapshot, &other)),
    ];
    let times = interleaved(&mut cases, 20, 100);
    print_micros(&cases, &times);
}
