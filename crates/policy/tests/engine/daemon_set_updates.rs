//! Updates of DaemonSets: what Mullion added to the template stays or is removed with its reason, even if Mullion knows
//! more later.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use mullion_engine::model::cluster::{ClusterSnapshot, Namespace, Nodes, Taint};
use mullion_engine::model::windows::Build;
use mullion_engine::model::{DecisionAnnotation, Operation, Os};
use mullion_policy::PolicySet;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::daemon_sets::{WINDOWS, daemon_set, template};
use crate::properties::{image, spec};
use crate::support::*;

const LINUX: &str = "nginx:1.27-alpine";
const DECISION: &str = "mullion.dev/decision";

/// A live object with that image, as `kubectl set image` writes it.
fn set_image(live: &Value, image: &str) -> Value {
    let mut new = live.clone();
    new["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    new
}

fn annotation(object: &Value) -> &str {
    object["metadata"]["annotations"][DECISION].as_str().unwrap_or_default()
}

fn tolerations(object: &Value) -> usize {
    template(object)["spec"]["tolerations"].as_array().map_or(0, Vec::len)
}

#[test]
fn an_image_for_the_other_system_replaces_the_placement() {
    let linux = create(&daemon_set(LINUX)).stored;
    let windows = update(&linux, &set_image(&linux, WINDOWS)).stored;
    assert_eq!(template(&windows)["spec"]["nodeSelector"], json!({"kubernetes.io/os": "windows"}));
    assert_eq!(tolerations(&windows), 2);
    let back = update(&windows, &set_image(&windows, LINUX)).stored;
    assert_eq!(template(&back)["spec"]["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
    assert_eq!(tolerations(&back), 0, "{}", template(&back));
    assert!(
        annotation(&back).contains(r#""os":"linux""#) && !annotation(&back).contains("toleration"),
        "{}",
        annotation(&back)
    );
    // nothing decides for this one: it stays where it was
    let opaque = update(&windows, &set_image(&windows, "registry.example.com/agent:2")).stored;
    assert_eq!(template(&opaque)["spec"]["nodeSelector"], json!({"kubernetes.io/os": "windows"}));
    assert_eq!(annotation(&opaque), annotation(&windows));
    // a pool of the other system, selected by its label
    let mut moved = linux.clone();
    moved["spec"]["template"]["spec"]["containers"][0]["image"] = json!("registry.example.com/agent:2");
    moved["spec"]["template"]["spec"]["nodeSelector"]["agentpool"] = json!("win19");
    let moved = update(&linux, &moved).stored;
    assert_eq!(template(&moved)["spec"]["nodeSelector"]["kubernetes.io/os"], "windows");
}

#[test]
fn any_removes_the_placement_of_a_changed_template() {
    let stored = create(&daemon_set("registry.example.com/agent:1")).stored;
    let mut any = stored.clone();
    any["metadata"]["annotations"]["mullion.dev/os"] = json!("any");
    assert!(update(&stored, &any).mutate.patch.is_empty());
    let freed = update(&any, &set_image(&any, "registry.example.com/agent:2")).stored;
    assert_eq!(template(&freed)["spec"]["nodeSelector"], json!({}));
    assert!(annotation(&freed).starts_with(r#"{"os":"any""#) && tolerations(&freed) == 2, "{freed}");
    // or the author removes the selector
    let mut without = any.clone();
    without["spec"]["template"]["spec"]["nodeSelector"] = json!({});
    assert_eq!(update(&any, &without).stored["spec"]["template"]["spec"]["nodeSelector"], json!({}));
    // without that annotation it is only an older version of the object
    without["metadata"]["annotations"] = json!({});
    assert_eq!(template(&update(&stored, &without).stored), template(&stored));
}

#[test]
fn the_annotation_is_kept_if_it_is_dropped() {
    let stored = create(&daemon_set(WINDOWS)).stored;
    let mut stripped = stored.clone();
    stripped["metadata"]["annotations"] = json!({"own": "yes"});
    let kept = update(&stored, &stripped).stored;
    assert_eq!(annotation(&kept), annotation(&stored));
    assert_eq!(kept["metadata"]["annotations"]["own"], "yes");
    // with another image at the same time
    let changed = update(&stored, &set_image(&stripped, "registry.example.com/agent:2")).stored;
    // Nothing is known about the builds of that image, so none are excluded, and no node is left out any more.
    let without_builds = annotation(&stored).replace(r#","build""#, "").replace(r#","leftOut":{"10.0.17763":1}"#, "");
    assert_eq!(annotation(&changed), without_builds);
    // there is no warning about it
    let outcome = update(&stored, &stripped);
    assert!(outcome.mutate.warnings.is_empty() && outcome.mutate.audit.is_empty());
}

#[test]
fn an_older_annotation_counts() {
    let own = daemon_set("registry.example.com/agent:1");
    let mut old = create(&own).stored;
    for words in [
        r#"{"os":"linux","placed":["nodeSelector"]}"#,
        r#"{"os":"linux","basis":"guess","reason":{"why":1},"placed":["nodeSelector", 7, "something newer"]}"#,
    ] {
        old["metadata"]["annotations"][DECISION] = json!(words);
        let again = update(&old, &own).stored;
        assert_eq!(template(&again), template(&old), "{words}");
        assert_eq!(annotation(&again), words, "as it was written");
    }
    for hostile in ["", "linux", "[]", "{}", r#"{"os":"linux"}"#, r#"{"os":"plan9","placed":["nodeSelector"]}"#] {
        old["metadata"]["annotations"][DECISION] = json!(hostile);
        update(&old, &own);
    }
}

#[test]
fn tolerations_that_a_policy_lists_come_back_too() {
    let add = "[{key: spot, operator: Exists}, {key: spot, value: \"true\", effect: NoExecute}, {operator: Exists, effect: NoExecute}]";
    let policies = with_policy(&format!("place: {{tolerations: {{mode: Learn, add: {add}}}}}"));
    let mut own = daemon_set(WINDOWS);
    own["spec"]["template"]["spec"]["tolerations"] = json!([{"key": "team", "operator": "Exists"}]);
    let stored = create_in(&own, &snapshot(), &policies).stored;
    assert_eq!(tolerations(&stored), 6);
    let mut later = snapshot();
    later.seen_taints.insert(Taint::parse("node.kubernetes.io/os=windows:NoSchedule").unwrap());
    for policies in [policies, PolicySet::default()] {
        let again = outcome(Operation::Update, &own, Some(&stored), &later, &policies);
        assert_eq!(template(&again.stored), template(&stored));
    }
    // one of them is now the author's, in front of all others
    own["spec"]["template"]["spec"]["tolerations"] = json!([template(&stored)["spec"]["tolerations"][2]]);
    own["spec"]["template"]["spec"]["tolerations"]
        .as_array_mut()
        .unwrap()
        .push(json!({"key": "team", "operator": "Exists"}));
    assert_eq!(template(&update(&stored, &own).stored), template(&stored));
}

#[test]
fn new_tolerations_join_restored_ones() {
    let stored = create(&daemon_set(WINDOWS)).stored;
    let mut later = snapshot();
    later.seen_taints.insert(Taint::parse("node.kubernetes.io/os=windows:NoSchedule").unwrap());
    let next = daemon_set("mcr.microsoft.com/windows/nanoserver:ltsc2019");
    let changed = outcome(Operation::Update, &next, Some(&stored), &later, &PolicySet::default()).stored;
    assert_eq!(tolerations(&changed), 3, "{}", template(&changed));
}

/// A toleration that is restored, and that the whitelist of the namespace rejects, proves at the first call and at the
/// second that no plugin enforces the whitelist.
#[test]
fn restored_tolerations_count_for_the_whitelist_of_the_namespace() {
    let mut own = daemon_set(WINDOWS);
    own["spec"]["template"]["spec"]["tolerations"] = json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]);
    let stored = create(&own).stored;
    assert_eq!(tolerations(&stored), 2);
    let mut snapshot = snapshot();
    let list = r#"[{"key": "team"}]"#.to_owned();
    let annotations = [("scheduler.alpha.kubernetes.io/tolerationsWhitelist".to_owned(), list)].into();
    snapshot.namespaces.get_mut("default").unwrap().set_annotations(&annotations);
    let next = daemon_set("mcr.microsoft.com/windows/nanoserver:ltsc2019");
    let changed = outcome(Operation::Update, &next, Some(&stored), &snapshot, &PolicySet::default()).stored;
    assert_eq!(tolerations(&changed), 2, "{}", template(&changed));
    let again = outcome(Operation::Update, &changed, Some(&stored), &snapshot, &PolicySet::default());
    assert!(again.mutate.patch.is_empty(), "{:?}", again.mutate.patch);
}

/// A template that is bound to a node proves no more about its operating system after the first call than before it,
/// whether the earlier template had no selector or a selector of its author.
#[test]
fn a_selector_for_the_node_of_an_updated_template_is_no_intent() {
    let mut any = daemon_set(LINUX);
    any["spec"]["template"]["metadata"]["annotations"] = json!({"mullion.dev/os": "any"});
    let mut selected = daemon_set("registry.example.com/app:1");
    selected["spec"]["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
    for own in [any, selected] {
        let stored = create(&own).stored;
        let mut next = daemon_set("registry.k8s.io/pause:3.10");
        let spec = &mut next["spec"]["template"]["spec"];
        spec["nodeName"] = json!("w2022");
        spec["containers"][0]["volumeMounts"] =
            json!([{"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}]);
        let changed = outcome(Operation::Update, &next, Some(&stored), &snapshot(), &PolicySet::default()).stored;
        let selector = &changed["spec"]["template"]["spec"]["nodeSelector"];
        assert_eq!(selector, &json!({"kubernetes.io/os": "windows"}));
        let again = outcome(Operation::Update, &changed, Some(&stored), &snapshot(), &PolicySet::default());
        assert!(again.mutate.patch.is_empty(), "{own}: {:?}", again.mutate.patch);
    }
}

#[test]
fn an_outdated_selector_is_removed_if_policies_add_none() {
    let stored = create(&daemon_set(LINUX)).stored;
    let policies = with_policy("place: {nodeSelector: {mode: Never}}");
    let next = set_image(&stored, WINDOWS);
    let changed = outcome(Operation::Update, &next, Some(&stored), &snapshot(), &policies).stored;
    assert_eq!(template(&changed)["spec"]["nodeSelector"], json!({}));
}

#[test]
fn a_conflict_keeps_the_annotation() {
    let stored = create(&daemon_set(LINUX)).stored;
    let mut next = stored.clone();
    next["metadata"]["annotations"] = json!({});
    next["spec"]["template"]["spec"]["os"] = json!({"name": "windows"});
    next["spec"]["template"]["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}]}}});
    let changed =
        outcome(Operation::Update, &next, Some(&stored), &snapshot(), &with_policy("rules: {templates: Warn}")).stored;
    assert_eq!(template(&changed)["spec"]["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
    assert_eq!(annotation(&changed), annotation(&stored));
}

/// The author of a DaemonSet also writes its annotations: a long one is ignored before it costs much to read.
#[test]
fn a_long_annotation_is_ignored() {
    let words: Vec<String> = (0..20_000).map(|at| format!("toleration key{at}=value:NoSchedule")).collect();
    let text = |words: &[String]| json!({"os": "linux", "basis": "default", "placed": words}).to_string();
    for (text, ours) in [(text(&words), false), (text(&words[..200]), true), ("[".repeat(10_000), false)] {
        let mut object = daemon_set(LINUX);
        object["metadata"]["annotations"] = json!({DECISION: text});
        assert_eq!(DecisionAnnotation::of(&object).is_some(), ours, "{}", text.len());
    }
}

/// The API server calls again if another webhook changed the object in between.
#[test]
fn a_second_call_for_one_update_keeps_the_annotation() {
    let mut later = snapshot();
    later.seen_taints.insert(Taint::parse("node.kubernetes.io/os=windows:NoSchedule").unwrap());
    let (linux, windows) = (daemon_set(LINUX), daemon_set(WINDOWS));
    let mut own = windows.clone();
    own["spec"]["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
    for (old, new) in [(&windows, "mcr.microsoft.com/windows/nanoserver:ltsc2019"), (&linux, WINDOWS)] {
        for base in [old, &own] {
            let (stored, next) = (create(old).stored, set_image(base, new));
            let first = outcome(Operation::Update, &next, Some(&stored), &later, &PolicySet::default());
            assert!(annotation(&first.stored).contains("node.kubernetes.io/os"), "{}", annotation(&first.stored));
            let second = outcome(Operation::Update, &first.stored, Some(&stored), &later, &PolicySet::default());
            assert!(second.mutate.patch.is_empty(), "{:?}", second.mutate.patch);
        }
    }
}

/// The author drops the selector, and the node selector of the namespace is a reason to add it again: the stored template
/// does not change, so neither does its annotation.
#[test]
fn a_selector_that_returns_for_another_reason_changes_nothing() {
    let mut own = daemon_set("registry.example.com/agent:1");
    let next = own.clone();
    own["spec"]["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
    let mut cluster = snapshot();
    let selector = ("scheduler.alpha.kubernetes.io/node-selector".to_owned(), "kubernetes.io/os=windows".to_owned());
    cluster.namespaces.insert("default".to_owned(), Namespace::new(BTreeMap::new(), &[selector].into()));
    let stored = create_in(&own, &cluster, &PolicySet::default()).stored;
    let first = outcome(Operation::Update, &next, Some(&stored), &cluster, &PolicySet::default());
    assert_eq!(first.stored, stored);
    let second = outcome(Operation::Update, &first.stored, Some(&stored), &cluster, &PolicySet::default());
    assert!(second.mutate.patch.is_empty(), "{:?}", second.mutate.patch);
}

#[test]
fn a_second_call_for_one_request_extends_the_annotation() {
    let first = create(&daemon_set(WINDOWS)).stored;
    let mut later = snapshot();
    later.seen_taints.insert(Taint::parse("node.kubernetes.io/os=windows:NoSchedule").unwrap());
    let second = create_in(&first, &later, &PolicySet::default()).stored;
    assert_eq!(tolerations(&second), 3);
    for word in ["nodeSelector", "os=Windows", "os=windows", "node.kubernetes.io/os"] {
        assert!(annotation(&second).contains(word), "{word}: {}", annotation(&second));
    }
}

#[test]
fn a_template_that_names_its_node_stays() {
    for node in ["w2022", "l1", "gone"] {
        let mut own = daemon_set("registry.example.com/agent:1");
        own["spec"]["template"]["spec"]["nodeName"] = json!(node);
        let stored = create(&own).stored;
        let again = outcome(Operation::Update, &own, Some(&stored), &ClusterSnapshot::default(), &PolicySet::default());
        assert_eq!(template(&again.stored), template(&stored), "{node}");
    }
}

/// A PodPolicy with this below `spec:`.
fn with_policy(spec: &str) -> PolicySet {
    let text = format!(
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: t}}\nspec: {{priority: 1, {spec}}}\n"
    );
    PolicySet::from_files(&[("t.yaml", &text)]).unwrap()
}

const POLICIES: [&str; 13] = [
    "rules: {templates: Warn}",
    "detect: {os: windows}",
    "detect: {os: any}",
    "detect: {default: Nothing}",
    "detect: {images: [{pattern: \"**\", os: windows}]}",
    "detect: {images: [{pattern: \"**\", os: linux}]}",
    "detect: {images: [{pattern: \"**\", os: multi}]}",
    "place: {nodeSelector: {mode: Never}}",
    "place: {tolerations: {mode: Never}}",
    "place: {build: {mode: Never}}",
    "place: {build: {mode: Exact}}",
    "detect: {images: [{pattern: \"**\", os: windows, builds: [10.0.20348]}]}",
    "place: {tolerations: {mode: Learn, add: [{key: spot, operator: Exists}]}}",
];

const SNAPSHOTS: [&str; 6] = ["mixed", "more taints", "more builds", "Windows namespace", "Linux", "unknown"];

/// The knowledge of one instance of Mullion: a snapshot, and a policy.
fn any_knowledge() -> impl Strategy<Value = (&'static str, &'static str)> {
    (prop::sample::select(&SNAPSHOTS[..]), prop::sample::select(&POLICIES[..]))
}

fn snapshot_of(name: &str) -> ClusterSnapshot {
    let mut snapshot = snapshot();
    match name {
        "more taints" => {
            snapshot.seen_taints.insert(Taint::parse("kubernetes.io/os=windows:NoSchedule").unwrap());
        }
        "more builds" => {
            snapshot.seen_builds.extend([19_045, 26_200, 29_000].map(Build::new));
        }
        "Windows namespace" => {
            let space = snapshot.namespaces.get_mut("default").unwrap();
            space.set_annotations(&[("mullion.dev/os".to_owned(), "windows".to_owned())].into());
        }
        "Linux" => {
            let nodes = vec![node("l1", Os::Linux, None, &["cattle.io/os=linux:NoSchedule"])];
            snapshot.nodes = Some(Nodes::new(nodes));
        }
        "unknown" => snapshot = ClusterSnapshot::default(),
        _ => {}
    }
    snapshot
}

fn policies_of(spec: &str) -> &'static PolicySet {
    static LOADED: LazyLock<Vec<PolicySet>> = LazyLock::new(|| POLICIES.map(with_policy).into());
    &LOADED[POLICIES.iter().position(|one| *one == spec).unwrap()]
}

/// An update, reviewed by an instance with this knowledge.
fn update_by(knowledge: (&str, &str), old: &Value, new: &Value) -> Outcome {
    outcome(Operation::Update, new, Some(old), &snapshot_of(knowledge.0), policies_of(knowledge.1))
}

fn any_daemon_set() -> impl Strategy<Value = Value> {
    let annotation = prop::option::of(prop::sample::select(vec!["any", "windows", "linux"]));
    (spec(), annotation).prop_map(|(spec, annotation)| {
        let mut object = workload("DaemonSet", spec);
        if let Some(os) = annotation {
            object["metadata"]["annotations"] = json!({"mullion.dev/os": os});
        }
        object
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// A template that its author does not change stays unchanged, even if Mullion knows more now, whether the author
    /// applies the live object again or their own version of it.
    #[test]
    fn later_knowledge_rolls_nothing(
        own in any_daemon_set(),
        a in any_knowledge(),
        b in any_knowledge(),
        strip in any::<bool>(),
        ready in 0..=3_u8,
    ) {
        let first = create_in(&own, &snapshot_of(a.0), policies_of(a.1));
        prop_assume!(!first.denied());
        let mut stored = first.stored;
        stored["status"] = json!({"desiredNumberScheduled": 3, "numberReady": ready});
        let mut touched = stored.clone();
        touched["metadata"]["labels"] = json!({"touched": "yes"});
        if strip {
            touched["metadata"]["annotations"] = json!({});
        }
        let after = update_by(b, &stored, &touched);
        prop_assert!(!after.denied() && after.mutate.warnings.is_empty());
        prop_assert_eq!(template(&after.stored), template(&stored));
        prop_assert_eq!(annotation(&after.stored), annotation(&stored));

        let again = update_by(b, &after.stored, &own);
        prop_assert!(!again.denied());
        prop_assert_eq!(template(&again.stored), template(&stored));
        prop_assert_eq!(annotation(&again.stored), annotation(&stored));
    }

    /// The author's next version is rolled out once, whichever instance reviews it, and not again.
    #[test]
    fn an_upgrade_rolls_once(
        own in any_daemon_set(),
        image in image(),
        a in any_knowledge(),
        b in any_knowledge(),
        ready in 0..=3_u8,
    ) {
        let mut first = create_in(&own, &snapshot_of(a.0), policies_of(a.1));
        prop_assume!(!first.denied());
        let status = json!({"desiredNumberScheduled": 3, "numberReady": ready});
        first.stored["status"] = status.clone();
        let mut next = own;
        next["spec"]["template"]["spec"]["containers"] = json!([{"name": "next", "image": image}]);
        let mut rolled = update_by(b, &first.stored, &next);
        prop_assume!(!rolled.denied());
        let second = update_by(b, &first.stored, &rolled.stored);
        prop_assert!(second.mutate.patch.is_empty(), "{:#?}", second.mutate.patch);
        rolled.stored["status"] = status;
        for knowledge in [a, b, a] {
            let again = update_by(knowledge, &rolled.stored, &next);
            prop_assert!(!again.denied());
            prop_assert_eq!(template(&again.stored), template(&rolled.stored));
        }
    }
}
