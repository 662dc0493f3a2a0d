//! Policies that deny the cluster's own pods or Mullion's, or move them to nodes that cannot run them.
//!
//! Templates are reviewed as when they are applied, DaemonSets and Deployments alike. Their pods are not reviewed,
//! because a pod of a built-in controller is denied only for what the API server or the kubelet reject anyway,
//! regardless of policies. Under `mode: Audit` and `Disabled` nothing is denied or placed, so there are no warnings.

use std::fmt::Write as _;
use std::sync::LazyLock;

use mullion_engine::admission::{Endpoint, FindingOutcome, outcome_of, respond, review};
use mullion_engine::model::cluster::{ClusterSnapshot, Nodes};
use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::scheduling::SchedulingConstraints;
use mullion_engine::model::settings::Mode;
use mullion_engine::model::{Os, ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_engine::rules::Finding;
use mullion_manifest::documents;
use mullion_snapshot::dump;
use serde::Deserialize;
use serde_json::Value;

use crate::documents::PodPolicy;
use crate::policy_set::PolicySet;
use crate::warnings::deciding_key::{DecidingKey, MatchedWorkload};
use crate::warnings::warning::{PolicyWarning, listed};

/// The only label of a namespace that follows from its name.
pub(crate) const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Mullion's own namespace, as in its chart.
const OURS: &str = "mullion-system";

/// A pod or a workload that typical clusters have.
struct SystemPod {
    kind: WorkloadKind,
    namespace: String,
    name: String,
    object: Value,
}

static SYSTEM_PODS: LazyLock<Vec<SystemPod>> = LazyLock::new(|| {
    let system_pod = |object: Value| {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let kind = WorkloadKind::from_name(&text("/kind"))?;
        Some(SystemPod { kind, namespace: text("/metadata/namespace"), name: text("/metadata/name"), object })
    };
    // A test counts the pods.
    let all = documents("pods.yaml", include_str!("pods.yaml"));
    all.into_iter().filter_map(|document| system_pod(document.ok()?.json)).collect()
});

static SNAPSHOT: LazyLock<ClusterSnapshot> =
    LazyLock::new(|| dump::from_text("snapshot.yaml", include_bytes!("snapshot.yaml")).unwrap_or_default());

/// The impact of a policy on a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Impact {
    /// Denied.
    Denied,
    /// Detected as a Windows pod, and denied because of that.
    DeniedAsWindows,
    /// Detected as a Windows pod, so that no Linux node can run it.
    Misplaced,
}

/// One key, and the pods of one namespace on which it has the same impact.
struct Group<'a> {
    key: DecidingKey<'a>,
    impact: Impact,
    namespace: &'a str,
    pods: Vec<&'a str>,
    rules: Vec<&'static str>,
}

pub(crate) fn warnings(set: &PolicySet) -> Vec<PolicyWarning> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for pod in SYSTEM_PODS.iter() {
        for (key, impact, rule) in find_impacts(set, pod) {
            let same = |group: &&mut Group<'_>| {
                group.key.is(&key) && group.impact == impact && group.namespace == pod.namespace
            };
            let Some(group) = groups.iter_mut().find(same) else {
                let (namespace, pods) = (pod.namespace.as_str(), vec![pod.name.as_str()]);
                groups.push(Group { key, impact, namespace, pods, rules: rule.into_iter().collect() });
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

/// The impacts on a pod that must run, each with the key that decided it and the rule; empty if the pod runs.
fn find_impacts<'a>(set: &'a PolicySet, pod: &'a SystemPod) -> Vec<(DecidingKey<'a>, Impact, Option<&'static str>)> {
    let SystemPod { kind, namespace, object, .. } = pod;
    let mut request = ReviewRequest::creation(WorkloadObject { kind: *kind, namespace, object });
    request.into_templates = true;
    let review = review(&request, &SNAPSHOT, &set.resolve(&request, &SNAPSHOT));
    let Some(pod) = Pod::of(*kind, object).filter(|_| review.settings.mode == Mode::Enforce) else {
        return Vec::new();
    };
    let labels = SNAPSHOT.namespaces.get(namespace).map(|namespace| &namespace.labels);
    let workload = MatchedWorkload { set, namespace, namespace_labels: labels, labels: &pod };
    let is_denied =
        |finding: &&Finding| outcome_of(finding, review.category, review.settings.templates) == FindingOutcome::Denied;
    let denied = review.findings.iter().filter(is_denied);
    let is_windows = review.decision.decided() == Some(Os::Windows);
    if let Some(key) = workload.find_os_key(&review).filter(|_| is_windows) {
        let impact = |finding: &Finding| (key.clone(), Impact::DeniedAsWindows, Some(finding.rule));
        let denials: Vec<_> = denied.map(impact).collect();
        if !denials.is_empty() {
            return denials;
        }
        let patch = respond(&review, object, Endpoint::Mutate).patch;
        let mut placed = object.clone();
        // A patch that cannot be applied does not move the pod.
        let applied = json_patch::patch(&mut placed, &patch).is_ok();
        return if applied && !fits_linux(*kind, &placed) { vec![(key, Impact::Misplaced, None)] } else { Vec::new() };
    }
    let impact = |finding: &Finding| {
        // The key to change is not in the built-in file: `kube_system` reports it.
        let key = workload.find_denial_key(&review, finding).filter(|key| !key.policy.built_in)?;
        Some((key, Impact::Denied, Some(finding.rule)))
    };
    denied.filter_map(impact).collect()
}

/// Whether a Linux node of the snapshot can run the pod.
fn fits_linux(kind: WorkloadKind, object: &Value) -> bool {
    let spec = object.pointer(&format!("{}/spec", kind.pod_pointer()));
    let Some(placement) = spec.and_then(|spec| SchedulingConstraints::deserialize(spec).ok()) else { return true };
    let mut linux = SNAPSHOT.nodes.iter().flat_map(Nodes::iter).filter(|node| node.os == Some(Os::Linux));
    linux.any(|node| placement.fits(&node.name, |key| node.labels.get(key)))
}

impl Group<'_> {
    fn warning(&self, set: &PolicySet) -> PolicyWarning {
        let Self { key, impact, namespace, pods, rules } = self;
        let (pods, rules) = (format!("{} in {namespace}", listed(pods)), listed(rules));
        // The webhook configuration excludes Mullion's own namespace, so that no policy can lock Mullion out.
        let (would, turn, deny, but) = if *namespace == OURS {
            let but = ", but the webhook registration excludes Mullion's own namespace; a namespace with another name is not excluded";
            ("would ", "turn", "deny", but)
        } else {
            ("", "turns", "denies", "")
        };
        let what = match impact {
            Impact::Denied => format!("{deny} {pods} ({rules})"),
            Impact::DeniedAsWindows => format!("{turn} {pods} into Windows pods and {deny} them ({rules})"),
            Impact::Misplaced => format!("{turn} {pods} into Windows pods, so that no Linux node can run them"),
        };
        let message = format!("{} {would}{what}{but}", key.value);
        PolicyWarning { origin: key.origin.clone(), message, hint: self.hint(set) }
    }

    fn hint(&self, set: &PolicySet) -> String {
        let Self { key, namespace, .. } = self;
        let PodPolicy { name, matches, .. } = key.policy;
        let named = matches.namespaces.include.iter().any(|glob| glob.is_literal() && glob.0 == *namespace);
        let mut hint = if named {
            format!("remove {namespace} from match.namespaces.include of PodPolicy `{name}`")
        } else {
            format!("add `match: {{namespaces: {{exclude: [{namespace}]}}}}` to PodPolicy `{name}`")
        };
        if self.impact == Impact::Denied {
            // Higher than all others, including the kube-system policy of the shipped files (1000).
            let highest = set.pods.first().and_then(|policy| policy.priority).unwrap_or_default();
            let priority = if highest < 1000 { 1000 } else { highest.saturating_add(1) };
            // Writing to a String cannot fail.
            let _infallible = write!(
                hint,
                ", or create a PodPolicy for {namespace} with priority {priority} and `rules: {{denials: Warn}}`"
            );
        }
        // A selector with other labels may match or not, because these labels are unknown here.
        let by_label = |policy: &&PodPolicy| {
            let selector = &policy.matches.namespace_selector;
            let keys = selector.match_labels.keys().chain(selector.match_expressions.iter().map(|it| &it.key));
            policy.matches.namespaces.matches(namespace) && keys.into_iter().any(|key| key != NAME_LABEL)
        };
        if let Some(policy) = set.pods.iter().find(by_label) {
            let PodPolicy { name, .. } = policy;
            let _infallible =
                write!(hint, "; labels of {namespace} that are unknown here may change this, see PodPolicy `{name}`");
        }
        hint
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_table_is_complete() {
        let of = |namespace: &str| SYSTEM_PODS.iter().filter(|pod| pod.namespace == namespace).count();
        assert_eq!((SYSTEM_PODS.len(), of("kube-system"), of(OURS)), (13, 11, 2));
        assert_eq!(SNAPSHOT.nodes.iter().flat_map(Nodes::iter).count(), 4);
        assert!(SNAPSHOT.mixed() && SNAPSHOT.windows_builds().len() == 2);
        assert!(SYSTEM_PODS.iter().all(|pod| Pod::of(pod.kind, &pod.object).is_some()));
    }
}
