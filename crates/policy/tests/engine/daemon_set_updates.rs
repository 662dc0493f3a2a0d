//! What Mullion put into a DaemonSet's template stays or goes with its reason, whatever is known by then.

use std::sync::LazyLock;

use mullion_engine::model::cluster::nodes::Nodes;
use mullion_engine::model::cluster::snapshot::ClusterSnapshot;
use mullion_engine::model::cluster::taint::Taint;
use mullion_engine::model::decision_annotation::DecisionAnnotation;
use mullion_engine::model::operating_system::Os;
use mullion_engine::model::review_request::Operation;
use mullion_policy::policy_set::PolicySet;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::daemon_sets::{WINDOWS, daemon_set, template};
use crate::properties::{image, spec};
use crate::support::*;

const LINUX: &str = "nginx:1.27-alpine";
const NOTE: &str = "mullion.dev/decision";

/// A live object with that image, as `kubectl set image` writes it.
fn set_image(live: &Value, image: &str) -> Value {
    let mut new = live.clone();
    new["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    new
}

fn note(object: &Value) -> &str {
    object["metadata"]["annotations"][NOTE].as_str().unwrap_or_default()
}

fn tolerations(object: &Value) -> usize {
    template(object)["spec"]["tolerations"].as_array().map_or(0, Vec::len)
}

#[test]
fn an_image_for_the_other_system_takes_the_placement_with_it() {
    let linux = create(&daemon_set(LINUX)).stored;
    let windows = update(&linux, &set_image(&linux, WINDOWS)).stored;
    assert_eq!(template(&windows)["spec"]["nodeSelector"], json!({"kubernetes.io/os": "windows"}));
    assert_eq!(tolerations(&windows), 2);
    let back = update(&windows, &set_image(&windows, LINUX)).stored;
    assert_eq!(template(&back)["spec"]["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
    assert_eq!(tolerations(&back), 0, "{}", template(&back));
    assert!(note(&back).contains(r#""os":"linux""#) && !note(&back).contains("toleration"), "{}", note(&back));
    // nothing says what this one is: it stays where it was
    let opaque = update(&windows, &set_image(&windows, "registry.example.com/agent:2")).stored;
    assert_eq!(template(&opaque)["spec"]["nodeSelector"], json!({"kubernetes.io/os": "windows"}));
    assert_eq!(note(&opaque), note(&windows));
    // a pool of the other system, asked for by its label
    let mut moved = linux.clone();
    moved["spec"]["template"]["spec"]["containers"][0]["image"] = json!("registry.example.com/agent:2");
    moved["spec"]["template"]["spec"]["nodeSelector"]["agentpool"] = json!("win19");
    let moved = update(&linux, &moved).stored;
    assert_eq!(template(&moved)["spec"]["nodeSelector"]["kubernetes.io/os"], "windows");
}

#[test]
fn any_frees_a_template_once_it_changes() {
    let stored = create(&daemon_set("registry.example.com/agent:1")).stored;
    let mut any = stored.clone();
    any["metadata"]["annotations"]["mullion.dev/os"] = json!("any");
    assert!(update(&stored, &any).mutate.patch.is_empty());
    let freed = update(&any, &set_image(&any, "registry.example.com/agent:2")).stored;
    assert_eq!(template(&freed)["spec"]["nodeSelector"], json!({}));
    assert_eq!(note(&freed), "");
    // or whoever takes the selector away
    let mut without = any.clone();
    without["spec"]["template"]["spec"]["nodeSelector"] = json!({});
    assert_eq!(update(&any, &without).stored["spec"]["template"]["spec"]["nodeSelector"], json!({}));
    // without that word it is only somebody's older version
    without["metadata"]["annotations"] = json!({});
    assert_eq!(template(&update(&stored, &without).stored), template(&stored));
}

#[test]
fn a_note_is_kept_whoever_drops_it() {
    let stored = create(&daemon_set(WINDOWS)).stored;
    let mut stripped = stored.clone();
    stripped["metadata"]["annotations"] = json!({"own": "yes"});
    let kept = update(&stored, &stripped).stored;
    assert_eq!(note(&kept), note(&stored));
    assert_eq!(kept["metadata"]["annotations"]["own"], "yes");
    // with another image at the same time
    let changed = update(&stored, &set_image(&stripped, "registry.example.com/agent:2")).stored;
    assert_eq!(note(&changed), note(&stored));
    // nothing is said about it
    let outcome = update(&stored, &stripped);
    assert!(outcome.mutate.warnings.is_empty() && outcome.mutate.audit.is_empty());
}

#[test]
fn a_note_in_older_words_is_as_good() {
    let own = daemon_set("registry.example.com/agent:1");
    let mut old = create(&own).stored;
    for words in [
        r#"{"os":"linux","placed":["nodeSelector"]}"#,
        r#"{"os":"linux","basis":"guess","reason":{"why":1},"placed":["nodeSelector", 7, "something newer"]}"#,
    ] {
        old["metadata"]["annotations"][NOTE] = json!(words);
        let again = update(&old, &own).stored;
        assert_eq!(template(&again), template(&old), "{words}");
        assert_eq!(note(&again), words, "as it was written");
    }
    for hostile in ["", "linux", "[]", "{}", r#"{"os":"linux"}"#, r#"{"os":"plan9","placed":["nodeSelector"]}"#] {
        old["metadata"]["annotations"][NOTE] = json!(hostile);
        update(&old, &own);
    }
}

#[test]
fn tolerations_that_a_policy_lists_come_back_too() {
    let add = "[{key: spot, operator: Exists}, {key: spot, value: \"true\", effect: NoExecute}, {operator: Exists, effect: NoExecute}]";
    let policies = knowing(&format!("place: {{tolerations: {{mode: Learn, add: {add}}}}}"));
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
    // one of them is the author's by now, in front of all others
    own["spec"]["template"]["spec"]["tolerations"] = json!([template(&stored)["spec"]["tolerations"][2]]);
    own["spec"]["template"]["spec"]["tolerations"]
        .as_array_mut()
        .unwrap()
        .push(json!({"key": "team", "operator": "Exists"}));
    assert_eq!(template(&update(&stored, &own).stored), template(&stored));
}

#[test]
fn what_is_new_joins_what_comes_back() {
    let stored = create(&daemon_set(WINDOWS)).stored;
    let mut later = snapshot();
    later.seen_taints.insert(Taint::parse("node.kubernetes.io/os=windows:NoSchedule").unwrap());
    let next = daemon_set("mcr.microsoft.com/windows/nanoserver:ltsc2019");
    let changed = outcome(Operation::Update, &next, Some(&stored), &later, &PolicySet::default()).stored;
    assert_eq!(tolerations(&changed), 3, "{}", template(&changed));
}

#[test]
fn a_selector_goes_with_its_reason_where_policies_give_none_any_more() {
    let stored = create(&daemon_set(LINUX)).stored;
    let policies = knowing("place: {nodeSelector: {mode: Never}}");
    let next = set_image(&stored, WINDOWS);
    let changed = outcome(Operation::Update, &next, Some(&stored), &snapshot(), &policies).stored;
    assert_eq!(template(&changed)["spec"]["nodeSelector"], json!({}));
}

#[test]
fn a_contradiction_costs_no_memory() {
    let stored = create(&daemon_set(LINUX)).stored;
    let mut next = stored.clone();
    next["metadata"]["annotations"] = json!({});
    next["spec"]["template"]["spec"]["os"] = json!({"name": "windows"});
    next["spec"]["template"]["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}]}}});
    let changed = outcome(Operation::Update, &next, Some(&stored), &snapshot(), &knowing("workloads: Warn")).stored;
    assert_eq!(template(&changed)["spec"]["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
    assert_eq!(note(&changed), note(&stored));
}

/// Whoever writes a DaemonSet writes its annotations too. A note is none of ours before it costs much to read.
#[test]
fn a_note_of_any_length_is_not_read() {
    let words: Vec<String> = (0..20_000).map(|at| format!("toleration key{at}=value:NoSchedule")).collect();
    let text = |words: &[String]| json!({"os": "linux", "basis": "default", "placed": words}).to_string();
    for (text, ours) in [(text(&words), false), (text(&words[..200]), true), ("[".repeat(10_000), false)] {
        let mut object = daemon_set(LINUX);
        object["metadata"]["annotations"] = json!({NOTE: text});
        assert_eq!(DecisionAnnotation::of(&object).is_some(), ours, "{}", text.len());
    }
}

/// The API server asks again where another webhook changed the object in between.
#[test]
fn a_second_call_for_one_update_takes_no_memory_away() {
    let mut later = snapshot();
    later.seen_taints.insert(Taint::parse("node.kubernetes.io/os=windows:NoSchedule").unwrap());
    let (linux, windows) = (daemon_set(LINUX), daemon_set(WINDOWS));
    let mut own = windows.clone();
    own["spec"]["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
    for (old, new) in [(&windows, "mcr.microsoft.com/windows/nanoserver:ltsc2019"), (&linux, WINDOWS)] {
        for base in [old, &own] {
            let (stored, next) = (create(old).stored, set_image(base, new));
            let first = outcome(Operation::Update, &next, Some(&stored), &later, &PolicySet::default());
            assert!(note(&first.stored).contains("node.kubernetes.io/os"), "{}", note(&first.stored));
            let second = outcome(Operation::Update, &first.stored, Some(&stored), &later, &PolicySet::default());
            assert!(second.mutate.patch.is_empty(), "{:?}", second.mutate.patch);
        }
    }
}

#[test]
fn a_second_call_for_one_request_adds_to_the_note() {
    let first = create(&daemon_set(WINDOWS)).stored;
    let mut later = snapshot();
    later.seen_taints.insert(Taint::parse("node.kubernetes.io/os=windows:NoSchedule").unwrap());
    let second = create_in(&first, &later, &PolicySet::default()).stored;
    assert_eq!(tolerations(&second), 3);
    for word in ["nodeSelector", "os=Windows", "os=windows", "node.kubernetes.io/os"] {
        assert!(note(&second).contains(word), "{word}: {}", note(&second));
    }
}

#[test]
fn a_template_that_names_its_node_is_settled() {
    for node in ["w2022", "l1", "gone"] {
        let mut own = daemon_set("registry.example.com/agent:1");
        own["spec"]["template"]["spec"]["nodeName"] = json!(node);
        let stored = create(&own).stored;
        let again = outcome(Operation::Update, &own, Some(&stored), &ClusterSnapshot::default(), &PolicySet::default());
        assert_eq!(template(&again.stored), template(&stored), "{node}");
    }
}

/// A PodPolicy with this below `spec:`.
fn knowing(spec: &str) -> PolicySet {
    let text = format!(
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: t}}\nspec: {{priority: 1, {spec}}}\n"
    );
    PolicySet::from_files(&[("t.yaml", &text)]).unwrap()
}

const POLICIES: [&str; 10] = [
    "workloads: Warn",
    "detect: {os: windows}",
    "detect: {os: any}",
    "detect: {default: Nothing}",
    "detect: {images: [{pattern: \"**\", os: windows}]}",
    "detect: {images: [{pattern: \"**\", os: linux}]}",
    "detect: {images: [{pattern: \"**\", os: multi}]}",
    "place: {nodeSelector: {mode: Never}}",
    "place: {tolerations: {mode: Never}}",
    "place: {tolerations: {mode: Learn, add: [{key: spot, operator: Exists}]}}",
];

const SNAPSHOTS: [&str; 5] = ["mixed", "more taints", "Windows namespace", "Linux", "unknown"];

/// What a Mullion may know: a snapshot, and a policy.
fn known() -> impl Strategy<Value = (&'static str, &'static str)> {
    (prop::sample::select(&SNAPSHOTS[..]), prop::sample::select(&POLICIES[..]))
}

fn snapshot_of(name: &str) -> ClusterSnapshot {
    let mut snapshot = snapshot();
    match name {
        "more taints" => {
            snapshot.seen_taints.insert(Taint::parse("kubernetes.io/os=windows:NoSchedule").unwrap());
        }
        "Windows namespace" => {
            let space = snapshot.namespaces.get_mut("default").unwrap();
            space.annotations.insert("mullion.dev/os".to_owned(), "windows".to_owned());
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
    static LOADED: LazyLock<Vec<PolicySet>> = LazyLock::new(|| POLICIES.map(knowing).into());
    &LOADED[POLICIES.iter().position(|one| *one == spec).unwrap()]
}

/// An update, as a Mullion judges it that knows this.
fn update_by(known: (&str, &str), old: &Value, new: &Value) -> Outcome {
    outcome(Operation::Update, new, Some(old), &snapshot_of(known.0), policies_of(known.1))
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

    /// Whatever else is known by now: a template that its author leaves alone stays as it is, whether he writes the live
    /// object again or his own version of it.
    #[test]
    fn what_is_known_later_rolls_nothing(own in any_daemon_set(), a in known(), b in known(), strip in any::<bool>()) {
        let first = create_in(&own, &snapshot_of(a.0), policies_of(a.1));
        prop_assume!(!first.refused());
        let stored = first.stored;
        let mut touched = stored.clone();
        touched["metadata"]["labels"] = json!({"touched": "yes"});
        if strip {
            touched["metadata"]["annotations"] = json!({});
        }
        let after = update_by(b, &stored, &touched);
        prop_assert!(!after.refused() && after.mutate.warnings.is_empty());
        prop_assert_eq!(template(&after.stored), template(&stored));
        prop_assert_eq!(note(&after.stored), note(&stored));

        let again = update_by(b, &after.stored, &own);
        prop_assert!(!again.refused());
        prop_assert_eq!(template(&again.stored), template(&stored));
        prop_assert_eq!(note(&again.stored), note(&stored));
    }

    /// The author's next version rolls once, whichever Mullion hears of it, and not again.
    #[test]
    fn an_upgrade_rolls_once(own in any_daemon_set(), image in image(), a in known(), b in known()) {
        let first = create_in(&own, &snapshot_of(a.0), policies_of(a.1));
        prop_assume!(!first.refused());
        let mut next = own;
        next["spec"]["template"]["spec"]["containers"] = json!([{"name": "next", "image": image}]);
        let rolled = update_by(b, &first.stored, &next);
        prop_assume!(!rolled.refused());
        for known in [a, b, a] {
            let again = update_by(known, &rolled.stored, &next);
            prop_assert!(!again.refused());
            prop_assert_eq!(template(&again.stored), template(&rolled.stored));
        }
    }
}
