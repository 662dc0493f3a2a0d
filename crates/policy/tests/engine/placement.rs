//! The placement of Windows and Linux pods.

use mullion_engine::admission::Endpoint;
use serde_json::{Value, json};

use crate::support::*;

const LTSC2019: &str = "mcr.microsoft.com/windows/servercore:ltsc2019";
const LTSC2022: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";
const LTSC2025: &str = "mcr.microsoft.com/windows/servercore:ltsc2025";

#[test]
fn a_windows_image_alone_gets_everything() {
    let outcome = create(&with_image(LTSC2022));
    assert!(!outcome.denied());
    assert_eq!(outcome.selector(), Some("windows"));
    // OS markers only: never the spot taint
    assert_eq!(outcome.tolerations(), ["os=Windows:NoSchedule", "os=windows:NoSchedule"]);
    assert_eq!(outcome.stored["spec"]["os"], json!({"name": "windows"}));
    assert_eq!(outcome.stored["metadata"]["labels"]["mullion.dev/windows-build"], "10.0.20348");
    assert!(outcome.stored["metadata"]["annotations"]["mullion.dev/decision"].as_str().unwrap().contains("ltsc2022"));
}

#[test]
fn builds_keep_pods_off_nodes_that_cannot_run_them() {
    let cases = [
        (LTSC2019, vec!["10.0.20348", "10.0.26100"], vec!["10.0.17763"], Some("mullion-windows-ltsc2019")),
        (LTSC2022, vec!["10.0.17763"], vec!["10.0.20348", "10.0.26100", "10.0.25398"], None),
        (LTSC2025, vec!["10.0.17763", "10.0.20348"], vec!["10.0.26100"], Some("mullion-windows-ltsc2025")),
    ];
    for (image, excluded, kept, class) in cases {
        let outcome = create(&with_image(image));
        let found = outcome.excluded_builds();
        assert!(excluded.iter().all(|build| found.contains(&(*build).to_owned())), "{image}: {found:?}");
        assert!(!kept.iter().any(|build| found.contains(&(*build).to_owned())), "{image}: {found:?}");
        assert_eq!(outcome.stored["spec"]["runtimeClassName"].as_str(), class, "{image}");
    }
    // its build is unknown: no build is required of the node
    let unknown = create(&with_image("prometheuscommunity/windows-exporter:0.31"));
    assert_eq!(unknown.excluded_builds(), Vec::<String>::new());
}

#[test]
fn affinity_is_narrowed_in_every_term_and_never_widened() {
    let term = |key: &str| json!({"matchExpressions": [{"key": key, "operator": "Exists"}]});
    let mut object = with_image(LTSC2022);
    object["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [term("a"), {}, term("b")]}}});
    let stored = create(&object).stored;
    let terms = &stored["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    assert_eq!(terms.as_array().unwrap().len(), 3);
    assert_eq!(terms[1], json!({}), "an empty term matches nothing and must stay so");
    for at in [0, 2] {
        let added = &terms[at]["matchExpressions"][1];
        assert_eq!((&added["operator"], &added["key"]), (&json!("NotIn"), &json!("node.kubernetes.io/windows-build")));
    }
}

#[test]
fn no_common_build_and_no_node_are_reported() {
    let both = pod(json!({"containers": [{"name": "a", "image": LTSC2019}, {"name": "b", "image": LTSC2025}]}));
    let denial = create(&both).denial().to_owned();
    assert!(denial.contains("MUL501") && denial.contains("10.0.17763") && denial.contains("10.0.26100"), "{denial}");

    let mut small = snapshot();
    let nodes = small.nodes.take().unwrap().iter().filter(|node| node.name != "w2025").cloned().collect();
    small.nodes = Some(mullion_engine::model::cluster::Nodes::new(nodes));
    let outcome = create_in(&with_image(LTSC2025), &small, &mullion_policy::PolicySet::default());
    assert!(!outcome.denied());
    assert!(outcome.mutate.warnings.iter().any(|w| w.starts_with("MUL502")), "{:?}", outcome.mutate.warnings);
}

#[test]
fn author_fields_stay() {
    let mut object = with_image(LTSC2022);
    object["spec"]["nodeSelector"] = json!({"node.kubernetes.io/windows-build": "10.0.20348"});
    object["spec"]["runtimeClassName"] = json!("mine");
    object["spec"]["tolerations"] = json!([{"key": "os", "operator": "Exists"}]);
    let outcome = create(&object);
    assert_eq!(outcome.excluded_builds(), Vec::<String>::new());
    assert_eq!(outcome.stored["spec"]["runtimeClassName"], "mine");
    assert_eq!(outcome.tolerations(), ["os=:"]);
}

#[test]
fn a_pod_with_all_fields_gets_no_patch() {
    let linux =
        pod(json!({"containers": [{"name": "c", "image": "nginx"}], "nodeSelector": {"kubernetes.io/os": "linux"}}));
    assert!(create(&linux).mutate.patch.is_empty());
    let windows = pod(json!({
        "os": {"name": "windows"}, "nodeSelector": {"kubernetes.io/os": "windows"},
        "tolerations": [{"key": "os", "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [{"name": "c", "image": "registry.example.com/app:1"}],
    }));
    assert!(create(&windows).mutate.patch.is_empty());
}

#[test]
fn linux_pods_get_a_selector_and_nothing_else() {
    let object = pod(json!({"containers": [{"name": "c", "image": "nginx", "securityContext": {"privileged": true,
        "runAsUser": 0}}], "hostNetwork": true}));
    let outcome = create(&object);
    let mut expected = object.clone();
    expected["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
    expected["metadata"]["annotations"] = outcome.stored["metadata"]["annotations"].clone();
    assert_eq!(outcome.stored, expected);
    assert!(!outcome.denied() && outcome.mutate.warnings.is_empty());
}

#[test]
fn host_process_pods_keep_host_network_and_get_no_build() {
    let pod_level = json!({"hostNetwork": true, "securityContext": {"windowsOptions": {"hostProcess": true,
        "runAsUserName": "NT AUTHORITY\\SYSTEM"}}, "containers": [{"name": "c", "image": LTSC2019,
        "securityContext": {"privileged": true}}]});
    let container_level = json!({"hostNetwork": true, "hostPID": true, "containers": [{"name": "c", "image": LTSC2019,
        "securityContext": {"windowsOptions": {"hostProcess": true}}}]});
    for spec in [pod_level, container_level] {
        let outcome = create(&pod(spec));
        assert!(!outcome.denied(), "{:?}", outcome.validate);
        assert_eq!(outcome.stored["spec"]["hostNetwork"], true);
        assert_eq!(outcome.selector(), Some("windows"));
        assert_eq!(outcome.excluded_builds(), Vec::<String>::new());
        assert!(outcome.stored["spec"].get("runtimeClassName").is_none());
        assert_eq!(outcome.stored["spec"]["os"]["name"], "windows", "spec.os is set: its Linux fields are repaired");
    }
}

#[test]
fn mirror_pods_and_other_updates_are_left_alone() {
    let mut mirror = with_image(LTSC2022);
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    assert!(create(&mirror).mutate.patch.is_empty());
    let old = with_image(LTSC2022);
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({"a": "b"});
    let outcome = update(&old, &new);
    assert!(outcome.mutate.patch.is_empty() && !outcome.denied());
}

#[test]
fn other_templates_are_never_placed() {
    for kind in ["Deployment", "StatefulSet", "ReplicaSet", "Job"] {
        let object = workload(kind, json!({"containers": [{"name": "c", "image": LTSC2022}]}));
        let outcome = create(&object);
        assert!(outcome.mutate.patch.is_empty() && !outcome.denied(), "{kind}");
    }
}

#[test]
fn a_patch_is_whole_or_absent() {
    for image in [LTSC2022, "nginx", "a b c"] {
        let outcome = create(&with_image(image));
        let answer = mullion_engine::admission::respond(&outcome.review, &with_image(image), Endpoint::Validate);
        assert!(answer.patch.is_empty(), "never from /validate");
    }
}

#[test]
fn openshift_user_ids_are_repaired_not_denied() {
    let mut snapshot = snapshot();
    let range = [("openshift.io/sa.scc.uid-range".to_owned(), "1000650000/10000".to_owned())];
    snapshot.namespaces.get_mut("default").unwrap().set_annotations(&range.into());
    let object = |uid: u64| -> Value {
        let mut object = pod(json!({"containers": [{"name": "c", "image": LTSC2022,
            "securityContext": {"runAsUser": uid}}]}));
        object["metadata"]["annotations"] = json!({"openshift.io/scc": "restricted-v2"});
        object
    };
    let policies = mullion_policy::PolicySet::default();
    assert!(!create_in(&object(1_000_650_000), &snapshot, &policies).denied());
    assert!(create_in(&object(1_000_660_000), &snapshot, &policies).denied());
    assert!(create_in(&object(1000), &snapshot, &policies).denied());
}

/// Virtual nodes and pools at zero have no build that a class could require.
#[test]
fn a_class_is_given_only_where_a_node_with_its_build_satisfies_the_pod() {
    let class = |selector: Value| {
        let mut object = with_image(LTSC2019);
        object["spec"]["nodeSelector"] = selector;
        create(&object).stored["spec"]["runtimeClassName"].clone()
    };
    assert_eq!(class(json!({})), "mullion-windows-ltsc2019");
    assert_eq!(class(json!({"agentpool": "win19"})), "mullion-windows-ltsc2019");
    assert_eq!(class(json!({"type": "virtual-kubelet"})), json!(null));
    assert_eq!(class(json!({"agentpool": "tomorrow"})), json!(null));
}

/// A second call treats a selector that the annotation does not record as the author's, and the author may then expect
/// repairs.
#[test]
fn a_foreign_decision_annotation_does_not_hide_the_placement() {
    let bound = |annotation: Option<&str>| {
        let mut object =
            pod(json!({"nodeName": "w2022", "containers": [{"name": "c", "image": "registry.example.com/app:1",
            "securityContext": {"procMount": "Default"}}]}));
        if let Some(text) = annotation {
            object["metadata"]["annotations"] = json!({"mullion.dev/decision": text});
        }
        object
    };
    let selector = r#"{"os":"windows","basis":"intent","because":"x","placed":["nodeSelector","toleration os=Windows:NoSchedule","toleration os=windows:NoSchedule"]}"#;
    let placed = r#"{"os":"windows","basis":"intent","because":"x","placed":["toleration a=b:NoSchedule"]}"#;
    for annotation in
        [None, Some("anything"), Some("{}"), Some(placed), Some(selector), Some(&placed.replace("windows", "linux"))]
    {
        let first = create(&bound(annotation));
        assert_eq!(first.selector(), Some("windows"), "{annotation:?}");
        let second = create(&first.stored);
        assert!(second.mutate.patch.is_empty(), "{annotation:?}: {:?}", second.mutate.patch);
    }
}

#[test]
fn a_name_that_is_no_operating_system_does_not_hide_the_authors_selector() {
    let object =
        pod(json!({"os": {"name": "windows"}, "containers": [{"name": "c", "image": "registry.example.com/app:1"}],
        "nodeSelector": {"beta.kubernetes.io/os": "win2022", "kubernetes.io/os": "linux"}}));
    let outcome = create(&object);
    assert_eq!(outcome.selector(), Some("linux"));
    assert!(create(&outcome.stored).mutate.patch.is_empty());
}

#[test]
fn a_selector_of_another_operating_system_is_the_authors() {
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]}]}]}}});
    let object = pod(json!({"affinity": affinity, "nodeSelector": {"kubernetes.io/os": "freebsd"},
        "containers": [{"name": "c", "image": LTSC2022, "securityContext": {"procMount": "Default"}}]}));
    let outcome = create(&object);
    assert_eq!(outcome.selector(), Some("freebsd"));
    assert_eq!(outcome.stored["spec"]["containers"], object["spec"]["containers"]);
    assert!(create(&outcome.stored).mutate.patch.is_empty());
}
