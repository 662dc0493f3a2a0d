//! DaemonSets whose images run on some Windows builds only: the affinity that excludes the others, and when it changes.

use mullion_engine::model::cluster::{ClusterSnapshot, Node, Nodes, RuntimeClass};
use mullion_engine::model::windows::Build;
use mullion_engine::model::{Operation, Os};
use mullion_policy::PolicySet;
use serde_json::{Value, json};

use crate::daemon_sets::{WINDOWS, daemon_set, template};
use crate::support::*;

const OLD: &str = "mcr.microsoft.com/windows/servercore:ltsc2019";
const UNKNOWN: &str = "registry.example.com/agent:2";
const BEFORE_2022: [&str; 5] = ["10.0.17763", "10.0.18362", "10.0.18363", "10.0.19041", "10.0.19042"];
const BUT_2019: [&str; 7] =
    ["10.0.18362", "10.0.18363", "10.0.19041", "10.0.19042", "10.0.20348", "10.0.25398", "10.0.26100"];

/// The builds that each term of the template excludes.
pub(crate) fn excluded(object: &Value) -> Vec<Vec<&str>> {
    let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let terms = template(object).pointer(required).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut found = Vec::new();
    for term in terms {
        let all = term["matchExpressions"].as_array().map_or(&[][..], Vec::as_slice);
        let ours =
            all.iter().filter(|one| one["key"] == "node.kubernetes.io/windows-build" && one["operator"] == "NotIn");
        found.push(
            ours.flat_map(|one| one["values"].as_array().unwrap()).map(|value| value.as_str().unwrap()).collect(),
        );
    }
    found
}

fn records_build(object: &Value) -> bool {
    let text = object["metadata"]["annotations"]["mullion.dev/decision"].as_str().unwrap_or_default();
    text.contains(r#""build""#)
}

fn with_status(object: &Value, desired: u32, ready: u32) -> Value {
    let mut object = object.clone();
    object["status"] = json!({"desiredNumberScheduled": desired, "numberReady": ready});
    object
}

fn with_image(object: &Value, image: &str) -> Value {
    let mut object = object.clone();
    object["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    object
}

/// The same object with another value of a variable, which changes its template.
fn changed(object: &Value) -> Value {
    let mut object = object.clone();
    object["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "b"}]);
    object
}

/// An update of a DaemonSet with unready pods.
fn update_unready(old: &Value, new: &Value) -> Outcome {
    update(&with_status(old, 3, 2), new)
}

fn policy(spec: &str) -> PolicySet {
    let text = format!(
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: t}}\nspec: {{priority: 1, {spec}}}\n"
    );
    PolicySet::from_files(&[("t.yaml", &text)]).unwrap()
}

/// The test cluster with one more Windows node.
fn with_node(build: u32, runtime: &str) -> ClusterSnapshot {
    let mut snapshot = snapshot();
    let more = Node { container_runtime: runtime.into(), ..node("more", Os::Windows, Some(build), &[]) };
    let nodes = snapshot.nodes.take().unwrap();
    snapshot.nodes = Some(Nodes::new(nodes.iter().cloned().chain([more]).collect()));
    snapshot
}

#[test]
fn a_new_one_excludes_the_builds_that_cannot_run_its_images() {
    for (images, expected) in [
        (vec![WINDOWS], &BEFORE_2022[..]),
        (vec![OLD], &BUT_2019),
        (
            vec![WINDOWS, "mcr.microsoft.com/windows/nanoserver:ltsc2025"],
            &["10.0.17763", "10.0.18362", "10.0.18363", "10.0.19041", "10.0.19042", "10.0.20348", "10.0.25398"],
        ),
    ] {
        let containers: Vec<Value> = images.iter().map(|image| json!({"name": "c", "image": image})).collect();
        let first = create(&workload("DaemonSet", json!({"containers": containers})));
        assert_eq!(excluded(&first.stored), [expected], "{images:?}");
        assert!(records_build(&first.stored));
        assert!(create(&first.stored).mutate.patch.is_empty());
    }
}

/// This does not depend on the runtime of a node: `NotIn` of a build that any rule allows would leave out nodes that
/// work.
#[test]
fn a_build_that_some_rule_allows_is_not_excluded() {
    // containerd 2.2 rejects ltsc2022 on Windows 11 25H2, later ones do not.
    let snapshot = with_node(26_200, "containerd://2.2.0");
    let of_pod = create_in(&with_image_pod(WINDOWS), &snapshot, &PolicySet::default());
    assert!(of_pod.excluded_builds().contains(&"10.0.26200".to_owned()), "{:?}", of_pod.excluded_builds());
    let stored = create_in(&daemon_set(WINDOWS), &snapshot, &PolicySet::default()).stored;
    assert_eq!(excluded(&stored), [BEFORE_2022]);
}

fn with_image_pod(image: &str) -> Value {
    pod(json!({"containers": [{"name": "c", "image": image}]}))
}

#[test]
fn each_alternative_of_the_author_excludes_them() {
    let disk = json!({"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]});
    let by_field = json!({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["w2025"]}]});
    let mut own = daemon_set(WINDOWS);
    own["spec"]["template"]["spec"]["affinity"] = json!({"podAntiAffinity": {}, "nodeAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [disk, {}, by_field]}}});
    let stored = create(&own).stored;
    assert_eq!(excluded(&stored), [&BEFORE_2022[..], &[], &BEFORE_2022]);
    // an operator writes its own version again
    let again = update_unready(&stored, &own).stored;
    assert_eq!((template(&again), &again["metadata"]), (template(&stored), &stored["metadata"]));
    // and another alternative gets them too, whether the others have them already or not
    for base in [&own, &stored] {
        let mut more = base.clone();
        let terms = "/spec/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
        more.pointer_mut(terms).unwrap().as_array_mut().unwrap().insert(0, disk.clone());
        let outcome = update(&with_status(&stored, 3, 3), &more);
        assert_eq!(excluded(&outcome.stored), [&BEFORE_2022[..], &BEFORE_2022, &[], &BEFORE_2022]);
        assert!(
            outcome.review.findings.iter().all(|finding| finding.code != "MUL110"),
            "{:?}",
            outcome.review.findings
        );
    }
}

#[test]
fn nothing_is_excluded_where_it_could_be_wrong() {
    let affinity = |operator: &str| {
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms":
            [{"matchExpressions": [{"key": "node.kubernetes.io/windows-build", "operator": operator, "values": ["10.0.17763"]}]}]}}})
    };
    let mut classes = snapshot();
    let handler = "runhcs-wcow-hypervisor".into();
    let hypervisor = RuntimeClass { handler, ..RuntimeClass::default() };
    classes.runtime_classes.as_mut().unwrap().insert("hyperv".to_owned(), hypervisor);
    let host_process = json!({"windowsOptions": {"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"}});
    for (what, more) in [
        ("its author selects a build", json!({"nodeSelector": {"node.kubernetes.io/windows-build": "10.0.20348"}})),
        ("its author requires builds", json!({"affinity": affinity("In")})),
        ("its author excludes builds", json!({"affinity": affinity("NotIn")})),
        ("HostProcess", json!({"securityContext": host_process, "hostNetwork": true})),
        ("a hypervisor", json!({"runtimeClassName": "hyperv"})),
        ("a class that nobody knows", json!({"runtimeClassName": "unknown"})),
        ("a class of a build", json!({"runtimeClassName": "mullion-windows-ltsc2022"})),
        ("its node", json!({"nodeName": "w2022"})),
        (
            "an unknown image",
            json!({"initContainers": [{"name": "i", "image": UNKNOWN}], "nodeSelector": {"kubernetes.io/os": "windows"}}),
        ),
        ("images that no host runs together", json!({"initContainers": [{"name": "i", "image": OLD}]})),
    ] {
        let mut own = daemon_set(WINDOWS);
        for (key, value) in more.as_object().unwrap() {
            own["spec"]["template"]["spec"][key] = value.clone();
        }
        let stored = create_in(&own, &classes, &policy("rules: {denials: Warn}")).stored;
        let of = |object: &Value| object["spec"]["template"]["spec"]["affinity"].clone();
        assert_eq!(of(&stored), of(&own), "{what}");
        assert!(!records_build(&stored), "{what}");
    }
    for mode in ["Never", "Exact"] {
        let stored =
            create_in(&daemon_set(WINDOWS), &snapshot(), &policy(&format!("place: {{build: {{mode: {mode}}}}}")))
                .stored;
        assert!(template(&stored)["spec"].get("affinity").is_none() && !records_build(&stored), "{mode}");
    }
    let mut any = daemon_set(WINDOWS);
    any["metadata"]["annotations"] = json!({"mullion.dev/os": "any"});
    assert!(template(&create(&any).stored)["spec"].get("affinity").is_none());
}

#[test]
fn an_update_adds_it_only_where_pods_are_not_ready() {
    let own = daemon_set(WINDOWS);
    for (status, expected) in [
        (json!({"desiredNumberScheduled": 3, "numberReady": 2}), true),
        (json!({"desiredNumberScheduled": 3}), true),
        (json!({"desiredNumberScheduled": 3, "numberReady": 3}), false),
        (json!({"desiredNumberScheduled": 0, "numberReady": 0}), false),
        (json!({"desiredNumberScheduled": "3"}), false),
        (Value::Null, false),
    ] {
        let mut old = own.clone();
        old["status"] = status.clone();
        let next = update(&old, &changed(&own));
        let terms: &[&[&str]] = if expected { &[&BEFORE_2022] } else { &[] };
        assert_eq!(excluded(&next.stored), terms, "{status}");
        assert_eq!(records_build(&next.stored), expected, "{status}");
        // the API server calls again
        assert!(update(&old, &next.stored).mutate.patch.is_empty(), "{status}");
        // an update without a template change adds nothing
        let mut touched = own.clone();
        touched["metadata"]["labels"] = json!({"touched": "yes"});
        assert!(update(&old, &touched).mutate.patch.is_empty(), "{status}");
    }
}

#[test]
fn what_it_excludes_stays_with_its_reason() {
    let stored = create(&daemon_set(WINDOWS)).stored;
    let affinity = |object: &Value| template(object)["spec"]["affinity"].clone();
    for (base, whose) in [(&stored, "the live object"), (&daemon_set(WINDOWS), "the author's manifest")] {
        let ready = with_status(&stored, 2, 2);
        for image in [WINDOWS, "mcr.microsoft.com/windows/nanoserver:ltsc2022"] {
            let next = update(&ready, &changed(&with_image(base, image)));
            assert_eq!(affinity(&next.stored), affinity(&stored), "{whose}");
            assert_eq!(next.stored["metadata"]["annotations"], stored["metadata"]["annotations"], "{whose}");
            assert!(update(&ready, &next.stored).mutate.patch.is_empty(), "{whose}");
        }
        // another release: its own exclusions
        let next = update(&ready, &with_image(base, OLD));
        assert_eq!(excluded(&next.stored), [BUT_2019], "{whose}");
        assert!(records_build(&next.stored), "{whose}");
        assert!(update(&ready, &next.stored).mutate.patch.is_empty(), "{whose}");
        // an image that may run anywhere: no exclusion
        let next = update(&ready, &with_image(base, UNKNOWN));
        assert_eq!(affinity(&next.stored), Value::Null, "{whose}");
        assert_eq!(next.stored["spec"]["template"]["spec"]["nodeSelector"], json!({"kubernetes.io/os": "windows"}));
        assert!(!records_build(&next.stored), "{whose}");
        assert!(update(&ready, &next.stored).mutate.patch.is_empty(), "{whose}");
        // Linux
        let next = update(&ready, &with_image(base, "nginx:1.27-alpine"));
        assert_eq!(affinity(&next.stored), Value::Null, "{whose}");
        assert!(!records_build(&next.stored), "{whose}");
        assert!(update(&ready, &next.stored).mutate.patch.is_empty(), "{whose}");
        // the policy excludes nothing any more
        let never = policy("place: {build: {mode: Never}}");
        let next = outcome(Operation::Update, &changed(base), Some(&ready), &snapshot(), &never);
        assert_eq!(affinity(&next.stored), Value::Null, "{whose}");
        // the author decides now
        let mut own = changed(base);
        own["spec"]["template"]["spec"]["nodeSelector"]["node.kubernetes.io/windows-build"] = json!("10.0.20348");
        let next = update(&ready, &own);
        assert_eq!((affinity(&next.stored), records_build(&next.stored)), (Value::Null, false), "{whose}");
    }
    // what remains of the author's affinity
    let mut own = daemon_set(WINDOWS);
    let disk = json!([{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]);
    own["spec"]["template"]["spec"]["affinity"] =
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": disk}}});
    let stored = create(&own).stored;
    let next = update(&stored, &with_image(&stored, UNKNOWN)).stored;
    assert_eq!(affinity(&next), affinity(&own));
}

/// A registry that reported the builds at the creation does not respond at the update.
#[test]
fn what_it_excludes_stays_while_its_images_stay() {
    let build = "detect: {images: [{pattern: registry.example.com/**, os: windows, builds: [10.0.20348]}]}";
    let own = daemon_set(UNKNOWN);
    let stored = create_in(&own, &snapshot(), &policy(build)).stored;
    assert_eq!(excluded(&stored), [BEFORE_2022]);
    for base in [&own, &stored] {
        assert_eq!(
            template(&update(&stored, &changed(base)).stored)["spec"]["affinity"],
            template(&stored)["spec"]["affinity"]
        );
        let next = update(&stored, &with_image(base, "registry.example.com/agent:3")).stored;
        assert!(excluded(&next).is_empty());
    }
    // the earlier facts about the images were wrong
    let wrong = policy(&build.replace("[10.0.20348]", "[10.0.17763]"));
    let next = outcome(Operation::Update, &changed(&own), Some(&stored), &snapshot(), &wrong).stored;
    assert_eq!(excluded(&next), [BUT_2019]);
}

/// What it excludes follows from the images of its containers alone: the image of a volume may change while their registry
/// does not respond.
#[test]
fn the_image_of_a_volume_changes_nothing_that_it_excludes() {
    let build = "detect: {images: [{pattern: registry.example.com/**, os: windows, builds: [10.0.20348]}]}";
    let with_volume = |object: &Value, mounted: &str, reference: &str| {
        let mut object = object.clone();
        let spec = &mut object["spec"]["template"]["spec"];
        spec["containers"][0]["volumeMounts"] = json!([{"name": mounted, "mountPath": "C:\\v"}]);
        spec["volumes"] = json!([{"name": "v", "image": {"reference": reference}}, {"name": "w", "emptyDir": {}}]);
        object
    };
    let stored = create_in(&with_volume(&daemon_set(UNKNOWN), "v", "a:1"), &snapshot(), &policy(build)).stored;
    assert_eq!(excluded(&stored), [BEFORE_2022]);
    let cases = [
        (UNKNOWN, "v", "a:1", true),
        (UNKNOWN, "v", "a:2", true),
        (UNKNOWN, "w", "a:2", true),
        (UNKNOWN, "v", "mcr.microsoft.com/windows/nanoserver:ltsc2019", true),
        ("registry.example.com/agent:3", "v", "a:1", false),
        ("registry.example.com/agent:3", "v", "a:2", false),
    ];
    for (image, mounted, reference, stays) in cases {
        let new = with_volume(&with_image(&changed(&stored), image), mounted, reference);
        let next = update(&stored, &new).stored;
        assert_eq!(
            excluded(&next),
            if stays { vec![BEFORE_2022] } else { Vec::new() },
            "{image} {mounted} {reference}"
        );
    }
}

#[test]
fn a_pool_of_a_new_release_changes_no_template() {
    let own = daemon_set(OLD);
    let stored = create(&own).stored;
    let later = with_node(29_000, "containerd://2.3.0");
    let by =
        |old: &Value, new: &Value| outcome(Operation::Update, new, Some(old), &later, &PolicySet::default()).stored;
    let mut touched = stored.clone();
    touched["metadata"]["labels"] = json!({"touched": "yes"});
    for new in [&own, &touched] {
        assert_eq!(template(&by(&with_status(&stored, 4, 3), new)), template(&stored));
    }
    // it is not added to a change of its author either while all pods are ready
    assert_eq!(excluded(&by(&with_status(&stored, 1, 1), &changed(&own))), [BUT_2019]);
    let all: Vec<&str> = BUT_2019.into_iter().chain(["10.0.29000"]).collect();
    for base in [&own, &stored] {
        let next = by(&with_status(&stored, 4, 3), &changed(base));
        assert_eq!(excluded(&next), [all.as_slice()]);
        assert!(by(&with_status(&stored, 4, 3), &next) == next);
        // a Mullion that does not know that release keeps it
        assert_eq!(excluded(&update(&next, &changed(&own)).stored), [all.as_slice()]);
    }
    assert!(Build::new(29_000).to_string() == all[7]);
}

#[test]
fn nodes_that_are_left_out_are_reported_and_recorded() {
    let finding = |outcome: &Outcome| -> Vec<String> {
        let found = outcome.review.findings.iter().filter(|finding| finding.code == "MUL507");
        found.map(|finding| finding.message.to_string()).collect()
    };
    let left_out = |object: &Value| -> Value {
        let text = object["metadata"]["annotations"]["mullion.dev/decision"].as_str().unwrap();
        serde_json::from_str::<Value>(text).unwrap()["leftOut"].clone()
    };
    let own = daemon_set(OLD);
    let created = create(&own);
    // It does not tolerate the taint `spot` of w2022.
    let message = "its image for ltsc2019 does not run on 1 of 2 Windows nodes: w2025 (ltsc2025)";
    assert_eq!(finding(&created), [message]);
    assert_eq!(left_out(&created.stored), json!({"10.0.26100": 1}));
    assert!(
        created.validate.warnings.iter().any(|warning| warning.contains("MUL507")),
        "{:?}",
        created.validate.warnings
    );
    assert_eq!(created.review.left_out.as_ref().map(|nodes| (nodes.count, nodes.of)), Some((1, 2)));
    // At /validate the template excludes them already.
    assert_eq!(finding(&create(&created.stored)), [message]);
    // The author's next version, and another pool: recorded when the template changes, and never before.
    let later = with_node(20_348, "containerd://2.0.4");
    let by = |new: &Value| outcome(Operation::Update, new, Some(&created.stored), &later, &PolicySet::default());
    assert_eq!(by(&own).stored["metadata"]["annotations"], created.stored["metadata"]["annotations"]);
    let next = by(&changed(&own)).stored;
    assert_eq!(left_out(&next), json!({"10.0.20348": 1, "10.0.26100": 1}));
    assert!(by(&next).mutate.patch.is_empty());
    let next = by(&with_image(&own, WINDOWS)).stored;
    assert_eq!(left_out(&next), json!({"10.0.17763": 1}));

    let many: Vec<Node> = (0..5_000).map(|at| node(&format!("old-{at}"), Os::Windows, Some(17_763), &[])).collect();
    let fleet = ClusterSnapshot {
        nodes: Some(Nodes::new(many.into_iter().chain([node("new", Os::Windows, Some(20_348), &[])]).collect())),
        ..ClusterSnapshot::default()
    };
    assert_eq!(
        finding(&create_in(&daemon_set(WINDOWS), &fleet, &PolicySet::default())),
        [
            "its image for ltsc2022 does not run on 5,000 of 5,001 Windows nodes: old-0, old-1, old-2 and 4,997 more (ltsc2019)"
        ]
    );
    for allowed in ["rules: {actions: [{rule: nodes-left-out, action: Allow}]}", "mode: Disabled"] {
        let outcome = create_in(&own, &snapshot(), &policy(allowed));
        assert!(finding(&outcome).is_empty() && outcome.review.left_out.is_none(), "{allowed}");
    }
    for other in ["Deployment", "StatefulSet", "Job"] {
        let mut object = own.clone();
        object["kind"] = json!(other);
        assert!(create(&object).review.left_out.is_none(), "{other}");
    }
}

/// Each distinct taint is compared with each toleration once, and not at all if both are many.
#[test]
fn taints_of_nodes_are_compared_with_a_limited_number_of_tolerations() {
    let own_taint =
        |at: usize| node(&format!("old-{at}"), Os::Windows, Some(17_763), &[&format!("team{at}=a:NoSchedule")]);
    let nodes = (0..1_000).map(own_taint).chain([node("new", Os::Windows, Some(20_348), &[])]).collect();
    let fleet = ClusterSnapshot { nodes: Some(Nodes::new(nodes)), ..ClusterSnapshot::default() };
    let left_out = |tolerations: Vec<Value>| {
        let mut object = daemon_set(WINDOWS);
        object["spec"]["template"]["spec"]["tolerations"] = tolerations.into();
        create_in(&object, &fleet, &PolicySet::default()).review.left_out.map(|nodes| nodes.count)
    };
    let listed =
        |count: usize| (0..count).map(|at| json!({"key": format!("team{at}"), "operator": "Exists"})).collect();
    assert_eq!(left_out(listed(0)), None, "every old node has a taint that is not tolerated");
    assert_eq!(left_out(listed(3)), Some(3));
    assert_eq!(left_out(vec![json!({"operator": "Exists"})]), Some(1_000));
    assert_eq!(left_out(listed(501)), None, "too many to compare");
}

/// `mullion mutate --templates`, and `mullion explain`.
#[test]
fn a_template_for_git_excludes_them_too() {
    use mullion_engine::admission::{Endpoint, find_nodes, respond, review_pods};
    use mullion_engine::model::{ReviewRequest, WorkloadKind, WorkloadObject};
    let mut own = daemon_set(OLD);
    let (snapshot, policies) = (snapshot(), PolicySet::default());
    let workload = WorkloadObject { kind: WorkloadKind::DaemonSet, namespace: "default", object: &own };
    let request = ReviewRequest::creation(workload);
    let settings = policies.resolve(&request, &snapshot);
    let patch = respond(&review_pods(&request, &snapshot, &settings), &own, Endpoint::Mutate).patch;
    let nodes = find_nodes(&request, &snapshot, &settings).unwrap();
    assert_eq!((nodes.schedulable, nodes.runnable), (vec!["w2019"], vec!["w2019"]));
    json_patch::patch(&mut own, &patch).unwrap();
    assert_eq!(excluded(&own), [BUT_2019]);
    assert!(create(&own).mutate.patch.is_empty(), "nothing is left to add");
}

/// Authors also write annotations and terms. What is not in the form that Mullion writes belongs to the author, and
/// nothing grows with the number of terms times the length of a list.
#[test]
fn hostile_templates_cost_no_more_than_their_size() {
    let exclusion =
        |values: Vec<String>| json!({"key": "node.kubernetes.io/windows-build", "operator": "NotIn", "values": values});
    let with_terms = |terms: Vec<Value>, recorded: bool| {
        let mut object = daemon_set(OLD);
        object["spec"]["template"]["spec"]["affinity"] =
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        if recorded {
            object["metadata"]["annotations"] =
                json!({"mullion.dev/decision": r#"{"os":"windows","placed":["nodeSelector","build"]}"#});
        }
        with_status(&object, 3, 2)
    };
    let term = |at: usize| json!({"matchExpressions": [{"key": format!("k{at}"), "operator": "Exists"}]});
    let builds = |count: u32| (10_000..10_000 + count).map(|build| format!("10.0.{build}")).collect::<Vec<_>>();
    for values in [
        builds(3),
        builds(3_000),
        vec!["10.0.17763".to_owned(), "10.0.00017763".to_owned()],
        vec!["10.0.20348".to_owned(), "10.0.17763".to_owned()],
        vec!["x".repeat(100_000)],
        vec![],
    ] {
        let requirement = exclusion(values);
        let old: Vec<Value> = (0..3).map(|_| json!({"matchExpressions": vec![requirement.clone(); 100]})).collect();
        let old = with_terms(old, true);
        for new in [with_terms((0..5_000).map(term).collect(), true), changed(&old), with_image(&old, WINDOWS)] {
            let outcome = update(&old, &new);
            let size = serde_json::to_string(&outcome.mutate.patch).unwrap().len();
            let limit = 2 * (old.to_string().len() + new.to_string().len());
            assert!(size < limit, "{size} of {limit}");
            assert!(update(&old, &outcome.stored).mutate.patch.is_empty());
        }
    }
}
