//! Pod templates that are found by their structure, in objects of kinds that are not known.
//!
//! What the controller of such a kind does with a pod template is not known either, so its findings only warn, and
//! nothing is written into it.

use serde_json::Value;

use crate::pod_templates::part::PlacedValue;
use crate::pod_templates::pod_collector::PodCollector;

/// The version of Mullion that reads such objects first.
pub(crate) const SINCE: &str = "0.1";

/// The depth of an object to which pod templates are searched, and the number of them.
const MAX_DEPTH: usize = 32;
const MAX_SITES: usize = 100;

/// Objects that contain parts of pods that are patterns, patches or tests, and from which no pod is created.
#[derive(Debug, Clone, Copy)]
pub struct PatternGroup {
    /// The API group; it stands for its subgroups too.
    pub group: &'static str,
    /// The kinds; empty: all of the group.
    pub kinds: &'static [&'static str],
    /// What they contain, as a phrase.
    pub contents: &'static str,
    /// Where this comes from.
    pub source: &'static str,
}

/// The groups whose objects are not searched.
pub static PATTERN_GROUPS: &[PatternGroup] = &[
    PatternGroup {
        group: "kyverno.io",
        kinds: &[],
        contents: "patterns and patches of policies",
        source: "https://kyverno.io/docs/policy-types/",
    },
    PatternGroup {
        group: "gatekeeper.sh",
        kinds: &[],
        contents: "constraints, and values that mutators assign",
        source: "https://open-policy-agent.github.io/gatekeeper/website/docs/mutation/",
    },
    PatternGroup {
        group: "kubewarden.io",
        kinds: &[],
        contents: "settings of policies",
        source: "https://docs.kubewarden.io/reference/CRDs",
    },
    PatternGroup {
        group: "jspolicy.com",
        kinds: &[],
        contents: "policies",
        source: "https://www.jspolicy.com/docs/reference/policy-crd",
    },
    PatternGroup {
        group: "policy.open-cluster-management.io",
        kinds: &[],
        contents: "parts of objects that must exist or must not exist",
        source: "https://open-cluster-management.io/docs/getting-started/integration/policy-controllers/configuration-policy/",
    },
    PatternGroup {
        group: "policy.karmada.io",
        kinds: &[],
        contents: "overrides of objects",
        source: "https://karmada.io/docs/userguide/scheduling/override-policy",
    },
    PatternGroup {
        group: "admissionregistration.k8s.io",
        kinds: &[],
        contents: "expressions of policies",
        source: "https://kubernetes.io/docs/reference/access-authn-authz/mutating-admission-policy/",
    },
    PatternGroup {
        group: "apiextensions.k8s.io",
        kinds: &[],
        contents: "schemas of kinds",
        source: "https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/",
    },
    PatternGroup {
        group: "apps",
        kinds: &["ControllerRevision"],
        contents: "earlier states of other objects",
        source: "https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/controller-revision-v1/",
    },
    PatternGroup {
        group: "apps.kruise.io",
        kinds: &["SidecarSet", "WorkloadSpread", "PodMarker"],
        contents: "containers and patches for pods of other objects",
        source: "https://openkruise.io/docs/user-manuals/sidecarset",
    },
    PatternGroup {
        group: "kustomize.config.k8s.io",
        kinds: &[],
        contents: "patches",
        source: "https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/",
    },
    PatternGroup {
        group: "kustomize.toolkit.fluxcd.io",
        kinds: &[],
        contents: "patches",
        source: "https://fluxcd.io/flux/components/kustomize/kustomizations/#patches",
    },
    PatternGroup {
        group: "mullion.dev",
        kinds: &[],
        contents: "policies, and workloads of their tests",
        source: "../how-to/policies/test-a-change.md",
    },
];

/// Adds a pod for each pod template in an object of a kind that is not known.
pub(crate) fn collect(group: &str, kind: &str, object: &PlacedValue<'_>, pods: &mut PodCollector) {
    if PATTERN_GROUPS.iter().any(|row| row.is(group, kind)) {
        return;
    }
    let mut sites = MAX_SITES;
    if is_template(object.value) {
        return pods.add_template(object);
    }
    if !contains_template(object.value, MAX_DEPTH + 1) {
        return;
    }
    for (key, member) in object.members() {
        // The status of an object is not from its author.
        if key != "status" && key != "metadata" {
            search(&member, MAX_DEPTH, &mut sites, pods);
        }
    }
}

fn search(part: &PlacedValue<'_>, depth: usize, sites: &mut usize, pods: &mut PodCollector) {
    if depth == 0 || *sites == 0 || !contains_template(part.value, depth) {
        return;
    }
    if is_template(part.value) {
        *sites -= 1;
        return pods.add_template(part);
    }
    for (_, member) in part.members() {
        search(&member, depth - 1, sites, pods);
    }
    for item in part.items() {
        search(&item, depth - 1, sites, pods);
    }
}

/// Whether a value contains a pod template at all. Most do not, and then no pointers into it are needed.
fn contains_template(value: &Value, depth: usize) -> bool {
    let below = |value: &Value| depth > 0 && contains_template(value, depth - 1);
    match value {
        Value::Object(members) => is_template(value) || members.values().any(below),
        Value::Array(items) => items.iter().any(below),
        _ => false,
    }
}

/// Whether a map has a spec with containers that have images.
fn is_template(value: &Value) -> bool {
    let containers = value.get("spec").and_then(|spec| spec.get("containers")).and_then(Value::as_array);
    containers.is_some_and(|containers| {
        let has_image = |container: &Value| container.get("image").is_some_and(Value::is_string);
        containers.iter().all(Value::is_object) && containers.iter().any(has_image)
    })
}

impl PatternGroup {
    fn is(&self, group: &str, kind: &str) -> bool {
        let below = group.strip_suffix(self.group).is_some_and(|before| before.is_empty() || before.ends_with('.'));
        below && (self.kinds.is_empty() || self.kinds.contains(&kind))
    }
}
