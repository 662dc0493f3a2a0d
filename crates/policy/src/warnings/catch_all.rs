//! Catch-all policies, which turn all pods into Windows or Linux pods, or turn Mullion off: found with some pods that do not
//! specify an operating system, in a mixed cluster.
//!
//! A key counts only if its policy matches all namespaces except those that it excludes by name, and has no selector. A
//! policy for certain namespaces has the effect that its author intended.

use mullion_engine::admission::review;
use mullion_engine::model::cluster::{ClusterSnapshot, Node, Nodes};
use mullion_engine::model::names::OS_LABEL;
use mullion_engine::model::settings::Mode;
use mullion_engine::model::{DetectedOs, Os, ReviewRequest, WorkloadKind, WorkloadObject};
use serde_json::json;

use crate::documents::PodPolicy;
use crate::policy_set::PolicySet;
use crate::warnings::deciding_key::{
    DEFAULT_KEY, DecidingKey, DecidingValue, MatchedWorkload, OS_KEY, matches_all, matches_all_but_excluded,
};
use crate::warnings::warning::{PolicyWarning, listed};

/// Namespaces of the pods. No policy contains the first one by chance.
const NAMESPACES: [&str; 2] = ["some-namespace", "default"];

/// Images of many registries whose names do not reveal an operating system.
const NEUTRAL_IMAGES: [&str; 8] = [
    "nginx:1.27",
    "registry.example.com/team/app:1",
    "ghcr.io/example/api:2.0",
    "quay.io/example/tool:v3",
    "example.azurecr.io/shop/web:1",
    "registry.k8s.io/pause:3.10",
    "localhost:5000/app",
    "10.0.0.7:5000/a/b/c:latest",
];

/// Images of Docker Hub, where most images are for Linux only.
const DOCKER_HUB_IMAGES: [&str; 4] = ["nginx:1.27", "postgres:17", "grafana/grafana:12.0.0", "docker.io/example/app:1"];

/// Images that are Windows by name: base images of Microsoft, and a tag.
const WINDOWS_IMAGES: [&str; 3] = [
    "mcr.microsoft.com/windows/nanoserver:ltsc2022",
    "mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022",
    "registry.example.com/team/app:1-windowsservercore-ltsc2022",
];

/// The keys that set an operating system.
const DETECTION_KEYS: [&str; 3] = [OS_KEY, DEFAULT_KEY, "detect.images"];

pub(crate) fn warnings(set: &PolicySet) -> Vec<PolicyWarning> {
    let found = NAMESPACES.iter().map(|namespace| in_namespace(set, namespace));
    found.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
}

fn in_namespace(set: &PolicySet, namespace: &str) -> Vec<PolicyWarning> {
    let workload = MatchedWorkload { set, namespace, namespace_labels: None, labels: &() };
    let settings = set.settings(namespace, None, &());
    if settings.mode == Mode::Disabled {
        return warn_of_disabled(workload).into_iter().collect();
    }
    let snapshot = ClusterSnapshot { nodes: Some(nodes(&[Os::Linux, Os::Windows])), ..ClusterSnapshot::default() };
    let decided = |images: &[&str], os| find_common_key(workload, images, &snapshot, os);
    let windows = |key: &DecidingKey<'_>, pods: &str, hint: &str| {
        let message = format!("{pods} becomes a Windows pod, {}: {}", describe_reach(set, key), key.value);
        PolicyWarning { origin: key.origin.clone(), message, hint: hint.to_owned() }
    };
    let narrow = "list the intended namespaces in match.namespaces.include";
    let mut all = Vec::new();
    if let Some(key) = decided(&NEUTRAL_IMAGES, DetectedOs::Windows) {
        all.push(windows(&key, "every pod that does not specify an operating system", narrow));
    } else if let Some(key) = decided(&DOCKER_HUB_IMAGES, DetectedOs::Windows) {
        let pods = "every pod with images of Docker Hub that does not specify an operating system";
        let hint = "most images there are for Linux only: list the Windows images, or the intended namespaces";
        all.push(windows(&key, pods, hint));
    }
    if let Some(key) = decided(&WINDOWS_IMAGES, DetectedOs::Linux) {
        let message = format!(
            "every pod that does not specify an operating system becomes a Linux pod, {}, even if its images are Windows by name ({}): {}",
            describe_reach(set, &key),
            WINDOWS_IMAGES.first().unwrap_or(&""),
            key.value
        );
        let hint = if matches!(key.value, DecidingValue::Scalar(OS_KEY, _)) {
            "use `detect.default: Linux`, which applies only if nothing else specifies an operating system, images included"
        } else {
            narrow
        };
        all.push(PolicyWarning { origin: key.origin, message, hint: hint.to_owned() });
    }
    all.extend(warn_of_default_without_windows(workload));
    all
}

/// The key of a catch-all policy that decided `os` for pods with each of these images.
fn find_common_key<'p>(
    workload: MatchedWorkload<'p, '_>,
    images: &[&str],
    snapshot: &ClusterSnapshot,
    os: DetectedOs,
) -> Option<DecidingKey<'p>> {
    let mut common: Option<DecidingKey<'p>> = None;
    for image in images {
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": image}]}});
        let pod = WorkloadObject { kind: WorkloadKind::Pod, namespace: workload.namespace, object: &object };
        let request = ReviewRequest::creation(pod);
        let review = review(&request, snapshot, &workload.set.resolve(&request, snapshot));
        let key = if review.decision.os == os { workload.find_os_key(&review) } else { None };
        let key = key.filter(|key| matches_all_but_excluded(key.policy))?;
        if common.as_ref().is_some_and(|common| !common.is(&key)) {
            return None;
        }
        common = Some(key);
    }
    common
}

/// Warns of `detect.default: Linux` without Windows nodes, when `LinuxWhenMixed` has no effect.
fn warn_of_default_without_windows(workload: MatchedWorkload<'_, '_>) -> Option<PolicyWarning> {
    let snapshot = ClusterSnapshot { nodes: Some(nodes(&[Os::Linux])), ..ClusterSnapshot::default() };
    let by_default = |key: &DecidingKey<'_>| matches!(key.value, DecidingValue::Scalar(DEFAULT_KEY, _));
    let key = find_common_key(workload, &NEUTRAL_IMAGES, &snapshot, DetectedOs::Linux).filter(by_default)?;
    Some(PolicyWarning {
        message: format!(
            "every pod that does not specify an operating system becomes a Linux pod, {}, also in a cluster without Windows nodes: {}",
            describe_reach(workload.set, &key),
            key.value
        ),
        origin: key.origin,
        hint: "use `LinuxWhenMixed`, which waits for the first Windows node".to_owned(),
    })
}

/// Warns if Mullion does nothing at all. It is not a mistake if a policy of low priority sets `Disabled` and others
/// turn Mullion on, for one team after another.
fn warn_of_disabled(workload: MatchedWorkload<'_, '_>) -> Option<PolicyWarning> {
    let key = workload.find_scalar_key("mode")?;
    let turns_on = |policy: &PodPolicy| policy.mode().is_some_and(|mode| mode != Mode::Disabled);
    let off = matches_all(key.policy) && !higher_policies(workload.set, key.policy).any(turns_on);
    off.then(|| PolicyWarning {
        message: format!("Mullion neither places nor checks any pod: {} in a policy for every namespace", key.value),
        origin: key.origin,
        hint: "write `mode: Audit` to see what it would do, or `Enforce`".to_owned(),
    })
}

/// The namespaces in which the key decides, as a clause.
fn describe_reach(set: &PolicySet, key: &DecidingKey<'_>) -> String {
    let exclude = &key.policy.matches.namespaces.exclude;
    let names: Vec<&str> = exclude.iter().map(|glob| glob.0.as_str()).collect();
    let except = if names.is_empty() { String::new() } else { format!(" except {}", listed(&names)) };
    let decides = |policy: &&PodPolicy| DETECTION_KEYS.iter().any(|key| policy.sets(key));
    let higher = higher_policies(set, key.policy).find(decides);
    let unless = higher
        .map_or_else(String::new, |other| format!(" unless a higher policy decides (PodPolicy `{}`)", other.name));
    format!("in every namespace{except}{unless}")
}

fn higher_policies<'p>(set: &'p PolicySet, policy: &PodPolicy) -> impl Iterator<Item = &'p PodPolicy> {
    set.pods.iter().take_while(move |other| !std::ptr::eq(*other, policy))
}

fn nodes(all: &[Os]) -> Nodes {
    let labels = |os: &Os| [(OS_LABEL.to_owned(), os.name().to_owned())].into_iter().collect();
    let node = |os: &Os| Node { name: os.name().to_owned(), os: Some(*os), labels: labels(os), ..Node::default() };
    Nodes::new(all.iter().map(node).collect())
}
