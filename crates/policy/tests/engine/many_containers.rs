//! Pods with many containers: each container is judged as if it were the only one, and what all containers decide
//! together agrees with a simple reference.

use std::collections::BTreeMap;

use mullion_engine::model::EvidenceSource;
use mullion_engine::model::settings::Action;
use mullion_engine::rules::{Finding, RejectedBy};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::properties::security;
use crate::support::*;

const WINDOWS: &str = "mcr.microsoft.com/windows/nanoserver:ltsc2022";

/// A container for Windows with random fields, most of them for Linux only. All have one name and one image, because
/// some messages contain them.
fn container() -> impl Strategy<Value = Value> {
    let mounts = prop::collection::vec(
        (
            prop::sample::select(vec!["C:\\data", "/data", "/var/run/docker.sock", "\\\\.\\pipe\\a"]),
            prop::option::of(prop::sample::select(vec!["None", "HostToContainer", "Bidirectional"])),
        )
            .prop_map(|(path, mode)| json!({"name": "v", "mountPath": path, "mountPropagation": mode})),
        0..3,
    );
    let signal = prop::option::of(prop::sample::select(vec!["SIGTERM", "SIGHUP"]));
    let user = prop::option::of(prop::sample::select(vec!["ContainerUser", "bad/name", "NT AUTHORITY\\SYSTEM"]));
    (security(), mounts, signal, user, any::<bool>()).prop_map(|(mut security, mounts, signal, user, limited)| {
        if let Some(user) = user {
            security["windowsOptions"] = json!({"runAsUserName": user});
        }
        let mut container = json!({"name": "c", "image": WINDOWS, "securityContext": security, "volumeMounts": mounts});
        if let Some(signal) = signal {
            container["lifecycle"] = json!({"stopSignal": signal});
        }
        if !limited {
            container["resources"] = json!({});
        }
        container
    })
}

/// A Windows pod of these containers, a HostProcess pod or not.
fn of_containers(containers: &[Value], host_process: bool) -> Value {
    let mut spec = json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": containers,
        "volumes": [{"name": "v", "emptyDir": {}}]});
    if host_process {
        let options = json!({"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"});
        spec["securityContext"] = json!({ "windowsOptions": options });
        spec["hostNetwork"] = json!(true);
    }
    pod(spec)
}

/// The findings below each container, as if it were the first, in the order of their codes and fields. Their own order
/// depends on their actions, so on all containers.
fn by_container(findings: &[Finding]) -> BTreeMap<usize, Vec<Finding>> {
    let mut found = BTreeMap::<usize, Vec<Finding>>::new();
    for finding in findings {
        let Some(inside) = finding.pointer.strip_prefix("/spec/containers/") else { continue };
        let (index, below) = inside.split_once('/').unwrap_or((inside, ""));
        let mut finding = finding.clone();
        finding.pointer = format!("/{below}");
        finding.path = finding.path.replacen(&format!("containers[{index}]"), "containers[0]", 1);
        finding.replacement = None;
        // A field that the kubelet rejects is repaired only if the OS field is set, which depends on all containers.
        if finding.rejected_by == RejectedBy::Kubelet {
            finding.action = Action::Deny;
        }
        found.entry(index.parse().unwrap()).or_default().push(finding);
    }
    for findings in found.values_mut() {
        findings.sort_by(|one, other| (one.code, &one.pointer).cmp(&(other.code, &other.pointer)));
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn each_container_is_judged_as_if_it_were_alone(
        kinds in prop::collection::vec(container(), 1..6),
        order in prop::collection::vec(any::<prop::sample::Index>(), 1..=300),
        host_process: bool,
    ) {
        let order: Vec<usize> = order.iter().map(|at| at.index(kinds.len())).collect();
        let all: Vec<Value> = order.iter().map(|&at| kinds[at].clone()).collect();
        let together = create(&of_containers(&all, host_process)).review;
        let alone: Vec<_> = kinds
            .iter()
            .map(|kind| create(&of_containers(std::slice::from_ref(kind), host_process)).review)
            .collect();
        let found = by_container(&together.findings);
        for (at, &kind) in order.iter().enumerate() {
            let expected = by_container(&alone[kind].findings);
            prop_assert_eq!(found.get(&at), expected.get(&0), "container {} of {}", at, order.len());
        }
        // Each image is evidence once, in the order of the containers.
        let images = together.decision.evidence.iter().filter_map(|evidence| match &evidence.source {
            EvidenceSource::Image { pointer, .. } => Some(pointer.clone()),
            _ => None,
        });
        let expected: Vec<_> = (0..order.len()).map(|at| format!("/spec/containers/{at}/image")).collect();
        prop_assert_eq!(images.collect::<Vec<_>>(), expected);
        // The response contains only the first.
        let first = &alone[order[0]];
        prop_assert_eq!(
            together.decision.evidence.first().map(|first| &first.source),
            first.decision.evidence.first().map(|first| &first.source)
        );
    }

    /// A container inherits `hostProcess` of the pod, unless it has its own.
    #[test]
    fn host_process_is_inherited(
        of_pod in prop::option::of(any::<bool>()),
        own in prop::collection::vec(prop::option::of(any::<bool>()), 1..=300),
        host_network: bool,
    ) {
        let options = |value: Option<bool>| match value {
            Some(value) => json!({"windowsOptions": {"hostProcess": value, "runAsUserName": "NT AUTHORITY\\SYSTEM"}}),
            None => json!({}),
        };
        let containers: Vec<Value> = own
            .iter()
            .map(|&own| json!({"name": "c", "image": WINDOWS, "securityContext": options(own)}))
            .collect();
        let spec = json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": containers,
            "securityContext": options(of_pod), "hostNetwork": host_network});
        let review = create(&pod(spec)).review;
        let pointers = |code: &str| -> Vec<&str> {
            let found = review.findings.iter().filter(|finding| finding.code == code);
            found.map(|finding| finding.pointer.as_str()).collect()
        };

        let on_host: Vec<bool> = own.iter().map(|own| own.or(of_pod).unwrap_or(false)).collect();
        let mut mixed: Vec<String> = (0..own.len())
            .filter(|&at| of_pod.is_some() && own[at].is_some() && own[at] != of_pod)
            .map(|at| format!("/spec/containers/{at}/securityContext/windowsOptions/hostProcess"))
            .collect();
        if on_host.contains(&true) && on_host.contains(&false) {
            mixed.push("/spec".to_owned());
        }
        prop_assert_eq!(pointers("MUL403"), mixed);
        let network = on_host.contains(&true) && !host_network;
        prop_assert_eq!(pointers("MUL404"), if network { vec!["/spec/hostNetwork"] } else { vec![] });
    }
}
