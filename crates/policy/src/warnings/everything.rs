//! Policies that turn everything Windows, or everything Linux, or Mullion off: judged with a handful of pods that say
//! nothing of themselves, in a mixed cluster of which nothing else is known.
//!
//! A key counts only where its policy matches all namespaces but those it names, without a selector: what a policy does
//! to the namespaces it was written for is what it was written for.

use std::fmt::Write as _;

use mullion_engine::admission::review::review;
use mullion_engine::model::cluster::nodes::{Node, Nodes};
use mullion_engine::model::cluster::snapshot::ClusterSnapshot;
use mullion_engine::model::names::OS_LABEL;
use mullion_engine::model::operating_system::Os;
use mullion_engine::model::os_decision::DetectedOs;
use mullion_engine::model::review_request::ReviewRequest;
use mullion_engine::model::settings::workload_settings::Mode;
use mullion_engine::model::workload;
use mullion_engine::model::workload::WorkloadKind;
use serde_json::json;

use crate::documents::PodPolicy;
use crate::policy_set::PolicySet;
use crate::warnings::decider::{Decider, Sort, Subject, everywhere, matches_all};
use crate::warnings::warning::{Warning, listed};

/// Namespaces that are asked about, the first of which no policy names by chance.
const NAMESPACES: [&str; 2] = ["some-namespace", "default"];

/// Images of many registries whose names say nothing of an operating system.
const SILENT: [&str; 8] = [
    "nginx:1.27",
    "registry.example.com/team/app:1",
    "ghcr.io/example/api:2.0",
    "quay.io/example/tool:v3",
    "example.azurecr.io/shop/web:1",
    "registry.k8s.io/pause:3.10",
    "localhost:5000/app",
    "10.0.0.7:5000/a/b/c:latest",
];

/// The same of Docker Hub, where most images are for Linux only.
const DOCKER_HUB: [&str; 4] = ["nginx:1.27", "postgres:17", "grafana/grafana:12.0.0", "docker.io/example/app:1"];

/// Images that are Windows by their names: bases of Microsoft, and a tag that says so.
const WINDOWS: [&str; 3] = [
    "mcr.microsoft.com/windows/nanoserver:ltsc2022",
    "mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022",
    "registry.example.com/team/app:1-windowsservercore-ltsc2022",
];

/// The keys that say an operating system.
const DETECTION: [&str; 3] = ["detect.os", "detect.default", "detect.images"];

pub(crate) fn warnings(set: &PolicySet) -> Vec<Warning> {
    let found = NAMESPACES.iter().map(|namespace| in_namespace(set, namespace));
    found.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
}

fn in_namespace(set: &PolicySet, namespace: &str) -> Vec<Warning> {
    let subject = Subject { set, namespace, namespace_labels: None, labels: &() };
    let settings = set.settings(namespace, None, &());
    if settings.mode == Mode::Disabled {
        return disabled(subject).into_iter().collect();
    }
    let snapshot = ClusterSnapshot { nodes: Some(nodes(&[Os::Linux, Os::Windows])), ..ClusterSnapshot::default() };
    let decided = |images: &[&str], verdict| decided(subject, images, &snapshot, verdict);
    let windows = |decider: &Decider<'_>, whose: &str, hint: &str| {
        let message = format!("{whose} becomes a Windows pod, {}: {}", reach(set, decider), decider.key);
        Warning { origin: decider.origin.clone(), message, hint: hint.to_owned() }
    };
    let narrow = "name the namespaces it is meant for in match.namespaces.include";
    let mut all = Vec::new();
    if let Some(decider) = decided(&SILENT, DetectedOs::Windows) {
        all.push(windows(&decider, "every pod that does not say otherwise", narrow));
    } else if let Some(decider) = decided(&DOCKER_HUB, DetectedOs::Windows) {
        let hint =
            "most images there are for Linux only: name those that are for Windows, or the namespaces it is meant for";
        all.push(windows(&decider, "every pod with images of Docker Hub that does not say otherwise", hint));
    }
    if let Some(decider) = decided(&WINDOWS, DetectedOs::Linux) {
        let message = format!(
            "every pod that does not say otherwise becomes a Linux pod, {}, even with images that are Windows by their names ({}): {}",
            reach(set, &decider),
            WINDOWS.first().unwrap_or(&""),
            decider.key
        );
        let hint = if decider.key.starts_with("`detect.os") {
            "`detect.default: Linux` does so for pods of which nothing else is known, and heeds images"
        } else {
            narrow
        };
        all.push(Warning { origin: decider.origin, message, hint: hint.to_owned() });
    }
    all.extend(default_without_windows(subject));
    all
}

/// The key that decided the same way for pods with each of these images, in a policy for everything.
fn decided<'p>(
    subject: Subject<'p, '_>,
    images: &[&str],
    snapshot: &ClusterSnapshot,
    verdict: DetectedOs,
) -> Option<Decider<'p>> {
    let mut common: Option<Decider<'p>> = None;
    for image in images {
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": image}]}});
        let pod = workload::WorkloadObject { kind: WorkloadKind::Pod, namespace: subject.namespace, object: &object };
        let request = ReviewRequest::creation(pod);
        let review = review(&request, snapshot, &subject.set.resolve(&request, snapshot));
        let decider = if review.decision.os == verdict { subject.of_os(&review) } else { None };
        let decider = decider.filter(|decider| everywhere(decider.policy))?;
        if common.as_ref().is_some_and(|common| !common.is(&decider)) {
            return None;
        }
        common = Some(decider);
    }
    common
}

/// `detect.default: Linux` where no Windows node was ever seen, which `LinuxWhenMixed` leaves alone.
fn default_without_windows(subject: Subject<'_, '_>) -> Option<Warning> {
    let snapshot = ClusterSnapshot { nodes: Some(nodes(&[Os::Linux])), ..ClusterSnapshot::default() };
    let by_default = |decider: &Decider<'_>| decider.key.starts_with("`detect.default");
    let decider = decided(subject, &SILENT, &snapshot, DetectedOs::Linux).filter(by_default)?;
    Some(Warning {
        message: format!(
            "every pod that does not say otherwise becomes a Linux pod, {}, in a cluster without Windows nodes too: {}",
            reach(subject.set, &decider),
            decider.key
        ),
        origin: decider.origin,
        hint: "LinuxWhenMixed waits for the first Windows node".to_owned(),
    })
}

/// Where Mullion does nothing at all: a low `Disabled` under policies that turn it on is how it is taken up team by team.
fn disabled(subject: Subject<'_, '_>) -> Option<Warning> {
    let decider = subject.scalar("mode", Sort::Os)?;
    let elsewhere = |policy: &PodPolicy| policy.mode().is_some_and(|mode| mode != Mode::Disabled);
    let higher = subject.set.pods.iter().take_while(|policy| !std::ptr::eq(*policy, decider.policy));
    let off = matches_all(decider.policy) && !higher.into_iter().any(elsewhere);
    off.then(|| Warning {
        message: format!("Mullion neither places nor checks any pod: {} in a policy for every namespace", decider.key),
        origin: decider.origin,
        hint: "write `mode: Audit` to hear what it would do, or `Enforce`".to_owned(),
    })
}

/// In which namespaces, as a clause.
fn reach(set: &PolicySet, decider: &Decider<'_>) -> String {
    let exclude = &decider.policy.matches.namespaces.exclude;
    let names: Vec<&str> = exclude.iter().map(|glob| glob.0.as_str()).collect();
    let mut reach = "in every namespace".to_owned();
    if !names.is_empty() {
        reach.push_str(" but ");
        reach.push_str(&listed(&names));
    }
    let speaks = |policy: &&PodPolicy| DETECTION.iter().any(|key| policy.sets(key));
    let mut higher = set.pods.iter().take_while(|policy| !std::ptr::eq(*policy, decider.policy));
    if let Some(other) = higher.find(speaks) {
        let other = &other.name;
        // Writing to a String cannot fail.
        let _infallible = write!(reach, " where no higher policy decides (PodPolicy `{other}`)");
    }
    reach
}

fn nodes(all: &[Os]) -> Nodes {
    let labels = |os: &Os| [(OS_LABEL.to_owned(), os.name().to_owned())].into_iter().collect();
    let node = |os: &Os| Node { name: os.name().to_owned(), os: Some(*os), labels: labels(os), ..Node::default() };
    Nodes::new(all.iter().map(node).collect())
}
