//! Annotations of namespaces, taints of nodes and tolerations of RuntimeClasses of any size: what a review produces from
//! them has a limit, and what is not used is named.

use std::collections::BTreeMap;

use mullion_engine::admission::ReviewResponse;
use mullion_engine::model::DetectedOs;
use mullion_engine::model::cluster::{ClusterSnapshot, Fact, Namespace, Node, Nodes, RuntimeClass, Taint};
use mullion_engine::model::text::prefix;
use mullion_engine::model::{Operation, Os};
use mullion_policy::PolicySet;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::*;

const SELECTORS: [&str; 2] = ["scheduler.alpha.kubernetes.io/node-selector", "openshift.io/node-selector"];
const WHITELIST: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";

/// The size of all annotations of an object that the API server accepts, in bytes (`TotalAnnotationSizeLimitB`,
/// apimachinery `pkg/api/validation/objectmeta.go`).
const ANNOTATIONS: usize = 256 << 10;

/// The most bytes that the facts of others may add to the response for a pod.
const ADDED: usize = 64 << 10;

fn with_annotation(key: &str, value: String) -> ClusterSnapshot {
    let namespace = Namespace::new(BTreeMap::new(), &[(key.to_owned(), value)].into());
    ClusterSnapshot { namespaces: [("default".to_owned(), namespace)].into(), ..snapshot() }
}

/// A node selector of that many pairs.
fn selector(pairs: usize, value: &str) -> String {
    (0..pairs).map(|at| format!("key-{at}={value}")).collect::<Vec<_>>().join(",")
}

/// A Windows pod that selects so many other values.
fn selecting(pairs: usize) -> Value {
    let mut object = with_image("mcr.microsoft.com/windows/nanoserver:ltsc2022");
    let pairs = (0..pairs).map(|at| (format!("key-{at}"), json!("mine")));
    object["spec"]["nodeSelector"] = Value::Object(pairs.collect());
    object
}

fn size(response: &ReviewResponse) -> usize {
    let denial = response.denial.iter().map(|denial| {
        denial.message.len() + denial.causes.iter().map(|one| one.field.len() + one.message.len()).sum::<usize>()
    });
    let texts = response.warnings.iter().chain(response.audit.values()).map(String::len).sum::<usize>();
    serde_json::to_string(&response.patch).unwrap().len() + texts + denial.sum::<usize>()
}

/// The bytes of all texts of the findings, rendered.
fn finding_texts(outcome: &Outcome) -> usize {
    outcome.review.findings.iter().map(|finding| finding.sentence().len()).sum()
}

#[test]
fn a_node_selector_of_any_size_costs_a_review_little() {
    for annotation in SELECTORS {
        for (pairs, used) in [(64, true), (65, false), (14_000, false)] {
            let text = selector(pairs, "theirs");
            assert!(text.len() <= ANNOTATIONS, "{}", text.len());
            let snapshot = with_annotation(annotation, text);
            let found = create_in(&selecting(1_000), &snapshot, &PolicySet::default());
            let of_rule = found.review.findings.iter().filter(|finding| finding.code == "MUL703").count();
            assert_eq!(of_rule, if used { pairs } else { 1 }, "{annotation} {pairs}");
            assert!(finding_texts(&found) < 200_000, "{annotation} {pairs}: {}", finding_texts(&found));
            assert_eq!(found.review.unusable.len(), usize::from(!used), "{annotation} {pairs}");
            let audit = found.validate.audit.get("unusable").cloned().unwrap_or_default();
            let named = format!("annotation {annotation} of Namespace default is too large to use: ");
            assert_eq!(audit.starts_with(&named), !used, "{audit}");
            assert!(size(&found.mutate) + size(&found.validate) < ADDED, "{annotation} {pairs}");
        }
    }
}

/// What the namespace requires is unknown then, so nothing is added that it may reject, and a finding
/// reports why.
#[test]
fn an_unusable_node_selector_is_unknown_and_not_absent() {
    let text = format!("kubernetes.io/os=linux,{}", selector(2_000, "x"));
    let snapshot = with_annotation(SELECTORS[0], text);
    let windows =
        create_in(&with_image("mcr.microsoft.com/windows/nanoserver:ltsc2022"), &snapshot, &PolicySet::default());
    assert_eq!(windows.review.decision.os, DetectedOs::Windows);
    assert!(windows.stored["spec"].get("nodeSelector").is_none(), "{}", windows.stored);
    assert!(windows.stored["spec"].get("runtimeClassName").is_none(), "{}", windows.stored);
    let finding = windows.review.findings.iter().find(|finding| finding.code == "MUL703").unwrap();
    assert!(finding.message.contains("is too large to use: "), "{}", finding.message);
    assert!(finding.help.to_string().contains(SELECTORS[0]), "{}", finding.help);
    let warning = windows.mutate.warnings.iter().find(|warning| warning.starts_with("MUL703")).unwrap();
    assert!(warning.contains("2,001 pairs, limit 64"), "{warning}");

    // A Linux pod is not worse off than without Mullion: it stays as it is.
    let silent =
        create_in(&pod(json!({"containers": [{"name": "c", "image": "app"}]})), &snapshot, &PolicySet::default());
    assert_eq!(silent.review.decision.os, DetectedOs::Undecided);
    assert!(!silent.denied() && silent.mutate.patch.is_empty(), "{:?}", silent.mutate.patch);
    let why = silent.review.findings.iter().find(|finding| finding.code == "MUL108").map(|one| one.message.to_string());
    assert!(why.as_deref().is_some_and(|why| why.contains("too large to use")), "{why:?}");
    let linux = json!({"nodeSelector": {"kubernetes.io/os": "linux"}, "containers": [{"name": "c", "image": "app"}]});
    let linux = create_in(&pod(linux), &snapshot, &PolicySet::default());
    assert_eq!((linux.review.decision.os, linux.review.findings.len()), (DetectedOs::Linux, 0));
}

#[test]
fn an_unusable_whitelist_admits_nothing() {
    let list = Value::from(vec![json!({"operator": "Exists"}); 65]).to_string();
    for text in [list, format!("[]{}", " ".repeat(200_000))] {
        let snapshot = with_annotation(WHITELIST, text);
        let found =
            create_in(&with_image("mcr.microsoft.com/windows/nanoserver:ltsc2022"), &snapshot, &PolicySet::default());
        assert!(found.stored["spec"].get("tolerations").is_none(), "{}", found.stored);
        let finding = found.review.findings.iter().find(|finding| finding.code == "MUL704").unwrap();
        assert!(finding.message.contains("too large to use"), "{}", finding.message);
        assert!(!found.denied(), "{:?}", found.validate.denial);
    }
}

fn fleet(taints: impl Iterator<Item = Vec<String>>) -> ClusterSnapshot {
    let node = |(at, taints): (usize, Vec<String>)| {
        let raw: Vec<Value> = taints
            .iter()
            .map(|text| Taint::parse(text).map(|taint| serde_json::to_value(taint).unwrap()).unwrap())
            .collect();
        let taints = Taint::all_from_json(&raw).map(Into::into).into();
        Node { taints, ..node(&format!("w{at}"), Os::Windows, Some(20348), &[]) }
    };
    let nodes = taints.enumerate().map(node).chain([node_of_linux()]);
    ClusterSnapshot { nodes: Some(Nodes::new(nodes.collect())), ..snapshot() }
}

fn node_of_linux() -> Node {
    node("l", Os::Linux, None, &[])
}

fn patched_tolerations(snapshot: &ClusterSnapshot) -> (usize, Outcome) {
    let found =
        create_in(&with_image("mcr.microsoft.com/windows/nanoserver:ltsc2022"), snapshot, &PolicySet::default());
    let tolerations = found.stored["spec"]["tolerations"].as_array().map_or(0, Vec::len);
    (tolerations, found)
}

/// The taints of such a node are unknown; pods are placed by those of the others.
#[test]
fn a_node_with_thousands_of_taints_adds_none() {
    let many = |count: usize| (0..count).map(|at| format!("os=windows-{at}:NoSchedule")).collect::<Vec<_>>();
    for count in [129, 25_000] {
        let snapshot = fleet([many(count), vec!["os=Windows:NoSchedule".to_owned()]].into_iter());
        let (tolerations, found) = patched_tolerations(&snapshot);
        // Mullion's own taint, and that of the other node.
        assert_eq!(tolerations, 2, "{}", found.stored["spec"]);
        let named: Vec<String> = snapshot.unusable_facts().map(|fact| fact.to_string()).collect();
        let size = if count == 129 { "129" } else { "25,000" };
        assert_eq!(named, [format!("the list of taints of Node w0 is too large to use: {size} taints, limit 128")]);
    }
}

/// Of the taints that mark Windows nodes, those that the most nodes have are tolerated.
#[test]
fn the_most_common_taints_are_learned() {
    let rare = (0..3_000).map(|at| vec![format!("os=windows-{at}:NoSchedule")]);
    let common = std::iter::repeat_n(vec!["sku=win:NoSchedule".to_owned()], 2);
    let snapshot = fleet(rare.chain(common));
    let (tolerations, found) = patched_tolerations(&snapshot);
    assert_eq!(tolerations, 33, "32, and Mullion's own");
    let list = found.stored["spec"]["tolerations"].to_string();
    assert!(list.contains(r#""key":"sku""#), "{list}");
    assert!(size(&found.mutate) < ADDED);
    let audit = &found.mutate.audit["unusable"];
    assert!(audit.starts_with("the set of taints that mark Windows nodes is too large to use: "), "{audit}");
    let named: Vec<String> = snapshot.unusable_facts().map(|fact| fact.to_string()).collect();
    assert_eq!(
        named,
        ["the set of taints of all Windows nodes is too large to use: 3,001 distinct taints, limit 1,024"]
    );
    // The result is the same for every review.
    let again = outcome(Operation::Create, &found.stored, None, &snapshot, &PolicySet::default());
    assert!(again.mutate.patch.is_empty(), "{:?}", again.mutate.patch);
}

/// A Linux node whose taints are unknown may be marked, so no selector may mean Windows.
#[test]
fn unknown_taints_of_linux_nodes_give_no_default() {
    let linux = |taints: Fact<_>| {
        let all = vec![Node { taints, ..node_of_linux() }, node("w", Os::Windows, Some(20348), &[])];
        let snapshot = ClusterSnapshot { nodes: Some(Nodes::new(all)), ..snapshot() };
        let object = pod(json!({"containers": [{"name": "c", "image": "app"}]}));
        create_in(&object, &snapshot, &PolicySet::default()).review.decision.os
    };
    assert_eq!(linux(Fact::default()), DetectedOs::Linux);
    let raw = vec![json!({"key": "a", "effect": "NoSchedule"}); 200];
    assert_eq!(linux(Taint::all_from_json(&raw).map(Into::into).into()), DetectedOs::Undecided);
}

#[test]
fn tolerations_of_a_class_have_a_limit() {
    let tolerations = vec![json!({"key": "os", "operator": "Exists"}); 20_000];
    let class = RuntimeClass {
        handler: "runhcs-wcow-process".to_owned(),
        tolerations: RuntimeClass::tolerations(tolerations),
        ..RuntimeClass::default()
    };
    let mut snapshot = with_annotation(WHITELIST, r#"[{"key": "team"}]"#.to_owned());
    snapshot.runtime_classes = Some([("big".to_owned(), class)].into());
    let mut object = with_image("mcr.microsoft.com/windows/nanoserver:ltsc2022");
    object["spec"]["runtimeClassName"] = json!("big");
    let found = create_in(&object, &snapshot, &PolicySet::default());
    let audit = &found.validate.audit["unusable"];
    assert_eq!(audit, "the list of tolerations of RuntimeClass big is too large to use: 20,000 tolerations, limit 64");
    assert!(size(&found.validate) < ADDED && finding_texts(&found) < 20_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the annotation contains, and however long it is, a response and the texts of all findings have a limit,
    /// and an annotation that is not used is named.
    #[test]
    fn any_annotation_gives_a_small_response(
        key in prop::sample::select(Namespace::ANNOTATIONS.to_vec()),
        unit in prop_oneof!["[a-z=,/ ]{1,40}", Just("kubernetes.io/os=windows,".to_owned()), Just(r#"{"key":"os"},"#.to_owned()), Just("1/2,".to_owned()), ".{1,9}"],
        times in 0..20_000_usize,
        open in prop::sample::select(vec!["", "[", "kubernetes.io/os=linux,"]),
        pairs in 0..200_usize,
    ) {
        let mut text = open.to_owned() + &unit.repeat(times.min(ANNOTATIONS / unit.len()));
        text.truncate(prefix(&text, ANNOTATIONS).len());
        let snapshot = with_annotation(key, text.clone());
        let found = create_in(&selecting(pairs), &snapshot, &PolicySet::default());
        prop_assert!(size(&found.mutate) + size(&found.validate) < ADDED + pairs * 100);
        prop_assert!(finding_texts(&found) < 200_000 + pairs * 400, "{}", finding_texts(&found));
        let unusable: Vec<String> = snapshot.unusable_facts().map(|fact| fact.to_string()).collect();
        prop_assert!(unusable.len() <= 1 && unusable.iter().all(|fact| fact.contains(key) && fact.len() < 400));
        if text.len() > 100_000 && key.contains("scheduler") {
            prop_assert_eq!(unusable.len(), 1);
        }
        let linux = json!({"nodeSelector": {"kubernetes.io/os": "linux"}, "containers": [{"name": "c", "image": "app"}]});
        let linux = create_in(&pod(linux), &snapshot, &PolicySet::default());
        prop_assert!(!linux.denied() && linux.mutate.patch.is_empty(), "{:?}", linux.mutate.patch);
    }
}
