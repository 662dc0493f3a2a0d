//! Coverage: whether the policies add the toleration of the policy's taint to every Windows pod.

use std::collections::BTreeMap;

use mullion_engine::model::cluster::Namespace;
use mullion_engine::model::settings::HonourIgnore;
use mullion_engine::node::reaches;

use crate::policy_set::PolicySet;

/// Whether the policies add the toleration of the policy's taint to every existing Windows pod when it is created
/// again. Then pods need no check. `false` also if it depends on the pod. Only namespaces for which the taint waits
/// count.
pub fn all_covered(namespaces: &BTreeMap<String, Namespace>, policies: &PolicySet) -> bool {
    let by_namespace = policies.pods.iter().all(|policy| policy.matches.pod_selector.is_empty());
    by_namespace
        && namespaces.iter().filter(|(name, _)| policies.nodes.taint.waits_for(name)).all(|(name, namespace)| {
            let settings = policies.settings(name, Some(&namespace.labels), &());
            reaches(&settings, Some(namespace), None, &policies.nodes)
                && settings.ignore != HonourIgnore::Pods
                && !namespace.has_whitelist()
        })
}
