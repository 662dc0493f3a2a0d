//! Policies under which the cluster's own pods, or Mullion's, would be refused or sent to nodes that cannot run them.
//!
//! Templates are asked about as they are applied, DaemonSets and Deployments alike. Their pods are not: a pod of a
//! built-in controller is refused only for what the API server or the kubelet refuse anyway, whatever a policy says.
//! Under `mode: Audit` and `Disabled` nothing is refused or placed, and nothing said here.

use std::fmt::Write as _;
use std::sync::LazyLock;

use mullion_engine::admission::finding_outcome::{FindingOutcome, outcome_of};
use mullion_engine::admission::response::{Endpoint, respond};
use mullion_engine::admission::review::review;
use mullion_engine::model::cluster::nodes::Nodes;
use mullion_engine::model::cluster::snapshot::ClusterSnapshot;
use mullion_engine::model::operating_system::Os;
use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::review_request::ReviewRequest;
use mullion_engine::model::scheduling::node_fit::SchedulingConstraints;
use mullion_engine::model::settings::workload_settings::Mode;
use mullion_engine::model::workload;
use mullion_engine::model::workload::WorkloadKind;
use mullion_engine::rules::finding;
use mullion_manifest::document::documents;
use mullion_snapshot::dump;
use serde::Deserialize;
use serde_json::Value;

use crate::documents::PodPolicy;
use crate::policy_set::PolicySet;
use crate::warnings::decider::{Decider, Sort, Subject};
use crate::warnings::warning::{Warning, listed};

/// `kubernetes.io/metadata.name`: the one label of a namespace that its name tells.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Mullion's own namespace, as its chart has it.
const OURS: &str = "mullion-system";

/// A pod or template that every such cluster has.
struct Typical {
    kind: WorkloadKind,
    namespace: String,
    name: String,
    object: Value,
}

static TYPICAL: LazyLock<Vec<Typical>> = LazyLock::new(|| {
    let typical = |object: Value| {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let kind = WorkloadKind::from_name(&text("/kind"))?;
        Some(Typical { kind, namespace: text("/metadata/namespace"), name: text("/metadata/name"), object })
    };
    // Part of the program; a test counts them.
    let all = documents("pods.yaml", include_str!("pods.yaml"));
    all.into_iter().filter_map(|document| typical(document.ok()?.json)).collect()
});

static SNAPSHOT: LazyLock<ClusterSnapshot> =
    LazyLock::new(|| dump::from_text("snapshot.yaml", include_bytes!("snapshot.yaml")).unwrap_or_default());

/// What a policy does to a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Refused as it stands.
    Refused,
    /// Taken for a Windows pod, and refused as one.
    RefusedAsWindows,
    /// Taken for a Windows pod, so that no Linux node gets it.
    SentAway,
}

/// One key, and the pods of one namespace to which it does the same.
struct Group<'a> {
    decider: Decider<'a>,
    fate: Fate,
    namespace: &'a str,
    pods: Vec<&'a str>,
    rules: Vec<&'static str>,
}

pub(crate) fn warnings(set: &PolicySet) -> Vec<Warning> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for pod in TYPICAL.iter() {
        for (decider, fate, rule) in fates(set, pod) {
            let same = |group: &&mut Group<'_>| {
                group.decider.is(&decider) && group.fate == fate && group.namespace == pod.namespace
            };
            let Some(group) = groups.iter_mut().find(same) else {
                let (namespace, pods) = (pod.namespace.as_str(), vec![pod.name.as_str()]);
                groups.push(Group { decider, fate, namespace, pods, rules: rule.into_iter().collect() });
                continue;
            };
            if !group.pods.contains(&pod.name.as_str()) {
                group.pods.push(&pod.name);
            }
            if let Some(rule) = rule
                && !group.rules.contains(&rule)
            {
                group.rules.push(rule);
            }
        }
    }
    groups.iter().map(|group| group.warning(set)).collect()
}

/// What becomes of a pod that must run, with the key that did it and the rule it fell foul of; nothing if all is well.
fn fates<'a>(set: &'a PolicySet, typical: &'a Typical) -> Vec<(Decider<'a>, Fate, Option<&'static str>)> {
    let Typical { kind, namespace, object, .. } = typical;
    let mut request = ReviewRequest::creation(workload::WorkloadObject { kind: *kind, namespace, object });
    request.into_templates = true;
    let review = review(&request, &SNAPSHOT, &set.resolve(&request, &SNAPSHOT));
    let Some(pod) = Pod::of(*kind, object).filter(|_| review.settings.mode == Mode::Enforce) else {
        return Vec::new();
    };
    let labels = SNAPSHOT.namespaces.get(namespace).map(|namespace| &namespace.labels);
    let subject = Subject { set, namespace, namespace_labels: labels, labels: &pod };
    let refused = |finding: &&finding::Finding| {
        outcome_of(finding, review.category, review.settings.templates) == FindingOutcome::Denied
    };
    let refused: Vec<_> = review.findings.iter().filter(refused).collect();
    let made_windows = review.decision.decided() == Some(Os::Windows);
    if let Some(decider) = subject.of_os(&review).filter(|_| made_windows) {
        if let Some(first) = refused.first() {
            let rest = refused.iter().skip(1).map(|finding| finding.rule);
            let all = std::iter::once(first.rule).chain(rest);
            return all.map(|rule| (decider.clone(), Fate::RefusedAsWindows, Some(rule))).collect();
        }
        let patch = respond(&review, object, Endpoint::Mutate).patch;
        let mut placed = object.clone();
        // What cannot be applied leaves the pod where it was.
        let applied = json_patch::patch(&mut placed, &patch).is_ok();
        return if applied && !fits_linux(*kind, &placed) { vec![(decider, Fate::SentAway, None)] } else { Vec::new() };
    }
    let decided =
        |finding: &finding::Finding| Some((subject.of_denial(&review, finding)?, Fate::Refused, Some(finding.rule)));
    refused.into_iter().filter_map(decided).collect()
}

/// Whether a Linux node of the snapshot would take the pod.
fn fits_linux(kind: WorkloadKind, object: &Value) -> bool {
    let spec = object.pointer(&format!("{}/spec", kind.pod_pointer()));
    let Some(placement) = spec.and_then(|spec| SchedulingConstraints::deserialize(spec).ok()) else { return true };
    let mut linux = SNAPSHOT.nodes.iter().flat_map(Nodes::iter).filter(|node| node.os == Some(Os::Linux));
    linux.any(|node| placement.fits(&node.name, |key| node.labels.get(key)))
}

impl Group<'_> {
    fn warning(&self, set: &PolicySet) -> Warning {
        let Self { decider, fate, namespace, pods, rules } = self;
        let (key, pods, rules) = (&decider.key, listed(pods), listed(rules));
        let would = if *namespace == OURS { "would " } else { "" };
        let verb = |verb: &str, plural: &str| if would.is_empty() { plural.to_owned() } else { verb.to_owned() };
        let what = match fate {
            Fate::Refused => format!("{would}{} {pods} in {namespace} ({rules})", verb("refuse", "refuses")),
            Fate::RefusedAsWindows => format!(
                "{would}{} Windows pods of {pods} in {namespace} and {} them ({rules})",
                verb("make", "makes"),
                verb("refuse", "refuses"),
            ),
            Fate::SentAway => format!(
                "{would}{} Windows pods of {pods} in {namespace}, and no Linux node gets them then",
                verb("make", "makes")
            ),
        };
        // The registration leaves Mullion's own namespace out, so that no policy can lock Mullion out.
        let message = match *namespace {
            OURS => format!(
                "{key} {what}, were it not that admission never asks about Mullion's own namespace; under another name it is asked"
            ),
            _ => format!("{key} {what}"),
        };
        Warning { origin: decider.origin.clone(), message, hint: self.hint(set) }
    }

    fn hint(&self, set: &PolicySet) -> String {
        let Self { decider, namespace, .. } = self;
        let matches = &decider.policy.matches;
        let named = matches.namespaces.include.iter().any(|glob| glob.is_literal() && glob.0 == *namespace);
        let mut hint = if named {
            format!("take {namespace} out of match.namespaces.include of PodPolicy `{}`", decider.policy.name)
        } else {
            format!("write `match: {{namespaces: {{exclude: [{namespace}]}}}}` in PodPolicy `{}`", decider.policy.name)
        };
        if decider.sort == Sort::Rules {
            // Above all there are, the kube-system policy of the shipped files (1000) included.
            let highest = set.pods.first().map_or(0, |policy| policy.priority);
            let priority = if highest < 1000 { 1000 } else { highest.saturating_add(1) };
            // Writing to a String cannot fail.
            let _infallible = write!(
                hint,
                ", or give {namespace} a PodPolicy of priority {priority} with `rules: {{denials: Warn}}`"
            );
        }
        // A selector that asks for other labels may match or not; here nothing is known of them.
        let by_label = |policy: &&PodPolicy| {
            let selector = &policy.matches.namespace_selector;
            let keys = selector.match_labels.keys().chain(selector.match_expressions.iter().map(|it| &it.key));
            policy.matches.namespaces.matches(namespace) && keys.into_iter().any(|key| key != NAME_LABEL)
        };
        if let Some(policy) = set.pods.iter().find(by_label) {
            let PodPolicy { name, .. } = policy;
            let _infallible =
                write!(hint, "; labels of {namespace} that are not known here may change it, see PodPolicy `{name}`");
        }
        hint
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_table_is_whole() {
        let of = |namespace: &str| TYPICAL.iter().filter(|pod| pod.namespace == namespace).count();
        assert_eq!((TYPICAL.len(), of("kube-system"), of(OURS)), (13, 11, 2));
        assert_eq!(SNAPSHOT.nodes.iter().flat_map(Nodes::iter).count(), 4);
        assert!(SNAPSHOT.mixed() && SNAPSHOT.windows_builds().len() == 2);
        assert!(TYPICAL.iter().all(|pod| Pod::of(pod.kind, &pod.object).is_some()));
    }
}
