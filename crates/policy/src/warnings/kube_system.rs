//! A set that denies pods of kube-system although no policy for that namespace sets that: a file replaces the built-in
//! PodPolicy `kube-system`, or a policy for every namespace takes precedence over it.

use std::collections::BTreeMap;

use mullion_engine::model::settings::{Denials, Glob, Mode};

use crate::documents::PodPolicy;
use crate::policy_set::PolicySet;
use crate::warnings::deciding_key::{MatchedWorkload, is_all};
use crate::warnings::system_pods::NAME_LABEL;
use crate::warnings::warning::PolicyWarning;

/// The namespace, and the name of the built-in policy for it.
const NAMESPACE: &str = "kube-system";

/// The key that exempts the namespace.
const DENIALS: &str = "rules.denials";

pub(crate) fn warning(set: &PolicySet) -> Option<PolicyWarning> {
    let labels = BTreeMap::from([(NAME_LABEL.to_owned(), NAMESPACE.to_owned())]);
    let workload = MatchedWorkload { set, namespace: NAMESPACE, namespace_labels: Some(&labels), labels: &() };
    let settings = set.settings(NAMESPACE, Some(&labels), &());
    if settings.mode != Mode::Enforce || settings.denials == Denials::Warn {
        return None;
    }
    let key = workload.find_scalar_key(DENIALS)?;
    let replacing = set.own().find(|policy| policy.name == NAMESPACE && !names_it(policy));
    if let Some(replacing) = replacing.filter(|it| key.policy.built_in || std::ptr::eq(*it, key.policy)) {
        return Some(PolicyWarning {
            origin: replacing.origin(""),
            message: format!(
                "PodPolicy `{NAMESPACE}` replaces the built-in policy of that name, and no policy has `{DENIALS}: Warn` for \
                 namespace {NAMESPACE} now: Mullion may deny the cluster's own pods"
            ),
            hint: format!(
                "give it another name, or add `match: {{namespaces: {{include: [{NAMESPACE}]}}}}` and `rules: {{denials: Warn}}`"
            ),
        });
    }
    let PodPolicy { name, .. } = key.policy;
    (!key.policy.built_in && !names_it(key.policy)).then(|| PolicyWarning {
        message: format!(
            "{} of PodPolicy `{name}` also applies to {NAMESPACE}: Mullion may deny the cluster's own pods",
            key.value
        ),
        origin: key.origin,
        hint: format!("add `match: {{namespaces: {{exclude: [{NAMESPACE}]}}}}` to PodPolicy `{name}`"),
    })
}

/// Whether the policy is about this namespace in particular.
fn names_it(policy: &PodPolicy) -> bool {
    let named = |glob: &Glob| !is_all(glob) && glob.matches(NAMESPACE);
    policy.matches.namespaces.include.iter().any(named) || !policy.matches.namespace_selector.is_empty()
}
