//! `-o yaml` prints policies with the same effect.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_policy::{EffectiveSetting, PolicySet};
use proptest::prelude::*;

use super::effective_policy::EffectivePolicy;
use super::yaml;
use crate::cli::review_sources::ReviewSources;

/// Keys of a PodPolicy in the forms that the schema allows.
const PIECES: [&str; 12] = [
    "mode: Audit",
    "optOut: {ignore: Pods, allow: [run-as-user, MUL3]}",
    "detect: {os: any, default: Nothing, registry: {lookup: Inline}}",
    "detect: {images: [{pattern: '**', os: multi}, {pattern: 'a.io/*:*-win', os: windows, builds: [10.0.20348, 10.0.26100]}]}",
    "place: {nodeSelector: {mode: Never}, tolerations: {mode: Listed, add: [{operator: Exists}, {key: 'true', value: '1'}]}}",
    "place: {tolerations: {add: [{key: a/b, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]}, build: {mode: Exact}}",
    "place: {runtimeClass: {mode: Named, name: '1e3'}}",
    "place: {runtimeClass: {mode: Never}, specOS: {mode: Never}}",
    "rules: {templates: Warn}",
    "rules: {version: '0.1', denials: Warn, translate: [run-as-user]}",
    "rules: {actions: [{rule: MUL2, action: Deny}, {rule: run-as-user, action: Repair}]}",
    "rules: {denials: Deny, actions: [{rule: MUL, action: Allow}]}",
];

const NODES: [&str; 4] = [
    "{}",
    "{mode: Audit, labels: [], windowsTaints: ['os=win*', 'x=true'], linuxTaints: []}",
    "{taint: {key: a/b, value: 'yes', effect: NoExecute, apply: Always}, runtimeClasses: {mode: Never, handler: h}}",
    "{expectedPools: [{build: 10.0.26100, taints: ['os=w:NoSchedule'], labels: {agentpool: win25}}, {build: 10.0.20348}], \
      releases: [{build: 10.0.29000, name: ltsc2028, runsFrom: 10.0.26100}]}",
];

const REGISTRIES: [&str; 2] = [
    "{}",
    "{registries: ['*.local:5000', docker.io], plainHTTP: ['r.local:5000', '[::1]:80'], caFiles: [/a b], pullSecrets: Pods, lifetimes: {tag: 90s}, timeout: 120s}",
];

fn settings(set: &PolicySet) -> [Vec<(String, serde_json::Value)>; 3] {
    let values = |all: Vec<EffectiveSetting>| {
        let mut all: Vec<_> = all.into_iter().map(|it| (it.key, it.value)).collect();
        let named = all.iter().any(|(key, value)| key == "place.runtimeClass.mode" && value == "Named");
        // Without the mode that uses it, a name has no effect and is not printed.
        all.retain(|(key, _)| named || key != "place.runtimeClass.name");
        all
    };
    [values(set.effective("shop", None, &())), values(set.effective_nodes()), values(set.effective_registries())]
}

proptest! {
    #[test]
    fn the_printed_policy_has_the_same_effect(
        pieces in prop::collection::vec((0..PIECES.len(), 0..3_usize), 0..10), nodes in 0..NODES.len(), registries in 0..REGISTRIES.len(),
    ) {
        let head = "apiVersion: mullion.dev/v1alpha1\nkind: ";
        let pods = pieces.iter().enumerate().map(|(at, (piece, include))| {
            let include = ["'*'", "shop", "other"][*include];
            let piece = PIECES[*piece];
            format!("{head}PodPolicy\nmetadata: {{name: p{at}}}\nspec:\n  priority: {at}\n  match: {{namespaces: {{include: [{include}]}}}}\n  {piece}\n---\n")
        });
        let text = pods.collect::<String>()
            + &format!("{head}NodePolicy\nmetadata: {{name: nodes}}\nspec: {}\n---\n", NODES[nodes])
            + &format!("{head}RegistryPolicy\nmetadata: {{name: registries}}\nspec: {}\n", REGISTRIES[registries]);
        let policies = PolicySet::from_files(&[("a file: # {1}.yaml", text)]).unwrap();
        let expected = settings(&policies);
        let sources = ReviewSources { policies, snapshot: ClusterSnapshot::default(), registration: None, coverage: None };
        let mut out = Vec::new();
        yaml::write(&EffectivePolicy::new(None, "shop", &sources), &mut out).unwrap();
        let written = String::from_utf8(out).unwrap();
        let again = PolicySet::from_files(&[("b.yaml", &written)]);
        let again = again.unwrap_or_else(|problems| panic!("{}\n{written}", problems[0]));
        prop_assert_eq!(settings(&again), expected);
        prop_assert_eq!(again.own().count(), 1);
    }
}
