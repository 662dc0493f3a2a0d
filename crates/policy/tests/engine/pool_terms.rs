//! Node affinity for declared pools without nodes.

use std::collections::BTreeMap;

use mullion_engine::model::Os;
use mullion_engine::model::cluster::{ClusterSnapshot, Nodes};
use mullion_engine::model::scheduling::SchedulingConstraints;
use mullion_engine::model::windows::Build;
use mullion_engine::model::{Operation, WorkloadKind};
use mullion_engine::patch::restore_authored;
use mullion_policy::PolicySet;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::*;

const BUILD: &str = "node.kubernetes.io/windows-build";
const BUILDS: [u32; 4] = [17763, 20348, 26100, 29000];
const IMAGES: [&str; 3] = ["ltsc2019", "ltsc2022", "ltsc2025"];

/// A pool of the policy: its build, and its labels.
type Pool = (u32, BTreeMap<String, String>);

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn policies(pools: &[Pool]) -> PolicySet {
    let pools: Vec<Value> =
        pools.iter().map(|(build, labels)| json!({"build": format!("10.0.{build}"), "labels": labels})).collect();
    let policy = json!({"apiVersion": "mullion.dev/v1alpha1", "kind": "NodePolicy", "metadata": {"name": "nodes"},
        "spec": {"expectedPools": pools}});
    PolicySet::from_files(&[("nodes.yaml", &policy.to_string())]).unwrap()
}

/// A cluster with a Linux node and Windows nodes of these builds.
fn cluster(builds: &[u32]) -> ClusterSnapshot {
    let windows = builds.iter().map(|build| node(&format!("w{build}"), Os::Windows, Some(*build), &[]));
    let nodes = windows.chain([node("l", Os::Linux, None, &[])]).collect();
    ClusterSnapshot { nodes: Some(Nodes::new(nodes)), ..ClusterSnapshot::default() }
}

fn image(release: &str) -> String {
    format!("mcr.microsoft.com/windows/servercore:{release}")
}

fn terms(stored: &Value) -> Vec<Value> {
    let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    stored.pointer(terms).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// The terms in short: `agentpool In win22 & windows-build NotIn`.
fn shown(stored: &Value) -> Vec<String> {
    let requirement = |one: &Value| {
        let text = |name: &str| one[name].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let values = one["values"].as_array().filter(|_| one["operator"] != "NotIn");
        let values = values.map(|all| format!(" {}", all[0].as_str().unwrap())).unwrap_or_default();
        format!("{} {}{values}", text("key"), text("operator"))
    };
    let term = |term: &Value| {
        let all = term["matchExpressions"].as_array().unwrap().iter().map(requirement);
        all.collect::<Vec<_>>().join(" & ")
    };
    terms(stored).iter().map(term).collect()
}

/// Whether the scheduler, and an autoscaler with such a template, admit the pod to a node with these labels.
fn admitted(stored: &Value, labels: &BTreeMap<String, String>) -> bool {
    let placement: SchedulingConstraints = serde_json::from_value(stored["spec"].clone()).unwrap();
    placement.fits("n", |key| labels.get(key).map(String::as_str))
}

#[test]
fn a_pod_gets_the_labels_of_its_pool_or_a_known_build() {
    type Case<'c> = (&'c str, Vec<Pool>, &'c [u32], &'c str, &'c [&'c str]);
    let win22 = || (20348, labels(&[("agentpool", "win22")]));
    let win25 = || (26100, labels(&[("agentpool", "win25"), ("team", "shop")]));
    let aware = |build: u32| (build, labels(&[(BUILD, &format!("10.0.{build}"))]));
    let (known, excluded) = ("windows-build Exists & windows-build NotIn", "windows-build NotIn");
    let (of_22, of_25) =
        ("agentpool In win22 & windows-build NotIn", "agentpool In win25 & team In shop & windows-build NotIn");
    let cases: [Case<'_>; 11] = [
        ("one pool", vec![win22()], &[], "ltsc2022", &[of_22, known]),
        ("the other pool cannot run it", vec![win22(), win25()], &[], "ltsc2025", &[of_25, known]),
        ("either pool can", vec![win22(), win25()], &[], "ltsc2022", &[of_22, of_25, known]),
        ("neither pool can", vec![win22(), win25()], &[], "ltsc2019", &[excluded]),
        ("a pool that can has no labels", vec![win22(), (26100, labels(&[]))], &[], "ltsc2022", &[excluded]),
        ("a pool that cannot has no labels", vec![win25(), (20348, labels(&[]))], &[], "ltsc2025", &[of_25, known]),
        ("a node can run it", vec![win22(), win25()], &[26100], "ltsc2022", &[excluded]),
        ("a node cannot run it", vec![win22(), win25()], &[17763], "ltsc2022", &[of_22, of_25, known]),
        ("the autoscaler compares builds", vec![aware(20348), aware(26100)], &[], "ltsc2022", &[excluded]),
        ("it does so for the pool that can", vec![aware(20348), (17763, labels(&[]))], &[], "ltsc2022", &[known]),
        ("no pool is declared", vec![], &[], "ltsc2022", &[excluded]),
    ];
    for (what, pools, nodes, release, expected) in cases {
        let outcome = create_in(&with_image(&image(release)), &cluster(nodes), &policies(&pools));
        assert_eq!(shown(&outcome.stored), expected, "{what}");
        assert!(!outcome.denied(), "{what}");
    }
}

#[test]
fn what_is_unknown_leaves_the_exclusion_alone() {
    let policies = policies(&[(20348, labels(&[("agentpool", "win22")]))]);
    let alone = |snapshot: &ClusterSnapshot, object: &Value| {
        shown(&create_in(object, snapshot, &policies).stored) == ["windows-build NotIn"]
    };
    let object = with_image(&image("ltsc2022"));
    assert!(alone(&ClusterSnapshot::default(), &object), "nodes were not read");
    let mut snapshot = cluster(&[]);
    assert!(!alone(&snapshot, &object));
    snapshot.seen_builds.insert(Build::new(26100));
    assert!(alone(&snapshot, &object), "a pool that is not declared had nodes");
    snapshot.seen_builds = [17763, 20348].map(Build::new).into();
    assert!(!alone(&snapshot, &object));
    let nodes = vec![node("w", Os::Windows, None, &[])];
    assert!(alone(&ClusterSnapshot { nodes: Some(Nodes::new(nodes)), ..snapshot }, &object), "a node of unknown build");
    let mut of_virtual = object.clone();
    of_virtual["spec"]["tolerations"] = json!([{"key": "virtual-kubelet.io/provider", "operator": "Exists"}]);
    assert!(alone(&cluster(&[]), &of_virtual), "a virtual node has no build");
    let mut elsewhere = object;
    elsewhere["spec"]["nodeSelector"] = json!({"agentpool": "other"});
    assert!(alone(&cluster(&[]), &elsewhere), "the pod selects another pool");
}

#[test]
fn templates_of_daemon_sets_get_no_alternatives() {
    let object = workload("DaemonSet", json!({"containers": [{"name": "c", "image": image("ltsc2022")}]}));
    let policies = policies(&[(20348, labels(&[("agentpool", "win22")]))]);
    let template = create_in(&object, &cluster(&[]), &policies).stored["spec"]["template"].take();
    assert_eq!(shown(&template), ["windows-build NotIn"]);
}

#[test]
fn too_many_or_too_large_terms_get_only_the_exclusion() {
    let pools: Vec<Pool> = (0..9).map(|at| (20348, labels(&[("agentpool", &format!("p{at}"))]))).collect();
    let policies = policies(&pools);
    let stored = |terms: usize, value: &str| {
        let term = |at: usize| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [format!("{value}{at}")]}]});
        let required: Vec<Value> = (0..terms).map(term).collect();
        let mut object = with_image(&image("ltsc2022"));
        object["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": required}}});
        terms_of(&create_in(&object, &cluster(&[]), &policies).stored)
    };
    assert_eq!(stored(6, "z"), 60);
    assert_eq!(stored(7, "z"), 7);
    assert_eq!(stored(1, &"z".repeat(4_000)), 1);
}

fn terms_of(stored: &Value) -> usize {
    terms(stored).len()
}

/// Others may write anything there, which the API server rejects after the webhooks.
#[test]
fn malformed_terms_stay_as_they_are() {
    let policies = policies(&[(20348, labels(&[("agentpool", "win22")]))]);
    for term in [json!({}), json!("a"), json!(null), json!({"matchExpressions": "a"}), json!({"matchExpressions": {}})]
    {
        let mut object = with_image(&image("ltsc2022"));
        object["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [term]}}});
        let found = terms(&create_in(&object, &cluster(&[]), &policies).stored);
        assert_eq!(found, [term]);
    }
}

// === properties ===

fn some_labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    let value = || prop::sample::select(vec!["a", "b"]).prop_map(str::to_owned);
    prop::collection::btree_map(
        prop::sample::select(vec!["pool", "zone", "team"]).prop_map(str::to_owned),
        value(),
        0..3,
    )
}

fn pools() -> impl Strategy<Value = Vec<Pool>> {
    let pool = (prop::sample::select(BUILDS.to_vec()), some_labels(), prop::bool::weighted(0.1));
    let pool = pool.prop_map(|(build, mut labels, aware)| {
        if aware {
            labels.insert(BUILD.to_owned(), format!("10.0.{build}"));
        }
        (build, labels)
    });
    prop::collection::vec(pool, 0..4)
}

fn requirement() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec!["pool", "zone", "team"]);
    let of_values =
        (key.clone(), prop::sample::select(vec!["In", "NotIn"]), prop::sample::subsequence(vec!["a", "b"], 1..=2));
    let without = (key, prop::sample::select(vec!["Exists", "DoesNotExist"]));
    prop_oneof![
        of_values.prop_map(|(key, operator, values)| json!({"key": key, "operator": operator, "values": values})),
        without.prop_map(|(key, operator)| json!({"key": key, "operator": operator})),
    ]
}

fn author() -> impl Strategy<Value = Value> {
    let term = prop::collection::vec(requirement(), 1..3).prop_map(|all| json!({"matchExpressions": all}));
    (some_labels(), prop::collection::vec(term, 0..3), prop::sample::select(IMAGES.to_vec())).prop_map(
        |(selector, terms, release)| {
            let mut object = with_image(&image(release));
            if !selector.is_empty() {
                object["spec"]["nodeSelector"] = json!(selector);
            }
            if !terms.is_empty() {
                object["spec"]["affinity"] = json!({"nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
            }
            object
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    /// Labels of pools take no node with a build away, add none, and admit a template without a build only for a pool
    /// that can run the pod.
    #[test]
    fn labels_only_choose_between_templates_without_a_build(
        object in author(),
        pools in pools(),
        live in prop::collection::vec(prop::sample::select(BUILDS.to_vec()), 0..2),
        more in some_labels(),
    ) {
        let (snapshot, with) = (cluster(&live), policies(&pools));
        let bare: Vec<Pool> = pools.iter().map(|(build, _)| (*build, BTreeMap::new())).collect();
        let before = create_in(&object, &snapshot, &policies(&bare));
        let after = create_in(&object, &snapshot, &with);
        prop_assert_eq!(before.denied(), after.denied());
        let system = [("kubernetes.io/os".to_owned(), "windows".to_owned())];
        let template = |labels: &BTreeMap<String, String>| -> BTreeMap<String, String> {
            labels.clone().into_iter().chain(system.clone()).collect()
        };
        for build in BUILDS.into_iter().chain([14393, 25398, 31000]) {
            let mut of_node = template(&more);
            of_node.insert(BUILD.to_owned(), format!("10.0.{build}"));
            prop_assert_eq!(admitted(&before.stored, &of_node), admitted(&after.stored, &of_node), "{} {}", build, after.stored);
        }
        let runs = |build: u32| {
            let excluded = before.excluded_builds();
            !excluded.contains(&format!("10.0.{build}"))
        };
        let chosen = terms_of(&after.stored) > terms_of(&before.stored).max(1);
        for labels in pools.iter().map(|(_, labels)| labels).chain([&more]) {
            let (then, now) = (admitted(&before.stored, &template(labels)), admitted(&after.stored, &template(labels)));
            prop_assert!(then || !now, "a template is new: {:?} {}", labels, after.stored);
            if chosen && now && !labels.contains_key(BUILD) {
                let of_fitting = |(build, own): &Pool| {
                    runs(*build) && own.iter().all(|(key, value)| labels.get(key) == Some(value))
                };
                prop_assert!(pools.iter().any(of_fitting), "{:?} {}", labels, after.stored);
            }
        }
        for (build, labels) in pools.iter().filter(|(build, _)| runs(*build)) {
            let (then, now) = (admitted(&before.stored, &template(labels)), admitted(&after.stored, &template(labels)));
            prop_assert_eq!(then, now, "the pool of {} {:?}: {}", build, labels, after.stored);
        }
    }

    /// Another call for the same pod changes nothing, in the order in which webhooks are called again and later, and
    /// what was added can be removed.
    #[test]
    fn another_call_changes_nothing(object in author(), pools in pools(), later in prop::sample::select(BUILDS.to_vec())) {
        let policies = policies(&pools);
        let first = create_in(&object, &cluster(&[]), &policies);
        for snapshot in [cluster(&[]), cluster(&[later])] {
            let again = create_in(&first.stored, &snapshot, &policies);
            prop_assert_eq!(terms(&again.stored), terms(&first.stored));
            let undone = again.review.findings.iter().any(|finding| finding.code == "MUL110");
            prop_assert!(!undone && first.denied() == again.denied());
        }
        let updated = outcome(Operation::Update, &first.stored, Some(&first.stored), &cluster(&[later]), &policies);
        prop_assert_eq!(terms(&updated.stored), terms(&first.stored));
        let mut restored = first.stored.clone();
        restore_authored(WorkloadKind::Pod, &mut restored, &cluster(&[]));
        prop_assert_eq!(terms(&restored), terms(&object));
    }
}
