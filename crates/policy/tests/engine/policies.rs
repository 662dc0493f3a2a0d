//! The effect of policy files: every mode of every key that the engine reads.

use std::fmt::Write as _;

use mullion_engine::admission::AUDIT_LIMIT;
use mullion_engine::model::{Cause, DetectedOs, Edit};
use mullion_policy::PolicySet;
use serde_json::{Value, json};

use crate::support::*;

const LTSC2019: &str = "mcr.microsoft.com/windows/servercore:ltsc2019";
const LTSC2022: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";
const LTSC2025: &str = "mcr.microsoft.com/windows/servercore:ltsc2025";

fn load(text: &str) -> PolicySet {
    PolicySet::from_files(&[("test.yaml", text)]).unwrap()
}

/// A PodPolicy with these lines below `spec:`.
fn policy(lines: &[&str]) -> PolicySet {
    let mut text =
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: test}\nspec:\n  priority: 1\n".to_owned();
    for line in lines {
        writeln!(text, "  {line}").unwrap();
    }
    load(&text)
}

fn shipped() -> PolicySet {
    load(include_str!("../../../../policies/default.yaml"))
}

fn given(object: &Value, lines: &[&str]) -> Outcome {
    create_in(object, &snapshot(), &policy(lines))
}

/// A Windows pod with a numeric user.
fn with_user() -> Value {
    pod(json!({"containers": [{"name": "c", "image": LTSC2022}], "securityContext": {"runAsUser": 1000}}))
}

fn annotated(mut object: Value, key: &str, value: &str) -> Value {
    let at = if object["kind"] == "Pod" { &mut object } else { &mut object["spec"]["template"] };
    at["metadata"]["annotations"][key] = json!(value);
    object
}

fn with_os_field(mut object: Value) -> Value {
    object["spec"]["os"] = json!({"name": "windows"});
    object
}

// === rules ===

#[test]
fn an_allowed_field_stays_and_keeps_the_os_field_off() {
    for action in ["Allow", "Warn"] {
        let line = format!("rules: {{actions: [{{rule: run-as-user, action: {action}}}]}}");
        let outcome = given(&with_user(), &[&line]);
        assert!(!outcome.denied(), "{action}");
        assert_eq!(outcome.stored["spec"]["securityContext"]["runAsUser"], 1000, "{action}");
        // The API server rejects spec.os.name: windows with the field.
        assert!(outcome.stored["spec"].get("os").is_none(), "{action}");
        assert_eq!(outcome.mutate.warnings.len(), usize::from(action == "Warn"), "{action}");

        let own = given(&with_os_field(with_user()), &[&line]);
        assert!(!own.denied(), "{action}");
        assert!(
            own.stored["spec"]["securityContext"].get("runAsUser").is_none(),
            "{action}: the server would reject it"
        );
    }
}

#[test]
fn a_prefix_repairs_what_can_be_repaired() {
    let all = ["rules: {actions: [{rule: MUL, action: Repair}]}"];
    let outcome = given(&with_user(), &all);
    assert!(!outcome.denied() && outcome.stored["spec"]["os"]["name"] == "windows");
    assert!(outcome.stored["spec"]["securityContext"].get("runAsUser").is_none());
    // These have no repair, and keep their own action.
    let mut limits = with_image(LTSC2022);
    limits["spec"]["resources"] = json!({"limits": {"cpu": "1"}});
    let mut network = with_os_field(with_image(LTSC2022));
    network["spec"]["hostNetwork"] = json!(true);
    let mut conflict = with_os_field(with_image(LTSC2022));
    conflict["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
    for (object, code) in [(limits, "MUL222"), (network, "MUL204"), (conflict, "MUL101")] {
        let outcome = given(&object, &all);
        assert!(outcome.denial().contains(code), "{}", outcome.denial());
        let soft = given(&object, &["rules: {denials: Warn, actions: [{rule: MUL, action: Repair}]}"]);
        assert!(!soft.denied(), "{code}");
        for field in ["resources", "hostNetwork"] {
            assert_eq!(soft.stored["spec"].get(field), object["spec"].get(field), "{code}: not removed");
        }
        assert_eq!(soft.stored["spec"]["os"]["name"].as_str(), object["spec"]["os"]["name"].as_str(), "{code}");
    }
}

#[test]
fn denials_can_all_be_warnings() {
    let outcome = given(&with_user(), &["rules: {denials: Warn}"]);
    assert!(!outcome.denied() && outcome.mutate.warnings[0].starts_with("MUL201"), "{:?}", outcome.mutate.warnings);
    assert_eq!(outcome.stored["spec"]["securityContext"]["runAsUser"], 1000);
    let template = workload("Deployment", with_user()["spec"].clone());
    assert!(create(&template).denied());
    assert!(!given(&template, &["rules: {denials: Warn}"]).denied());
}

/// Of the policies that match, the highest that sets it decides.
#[test]
fn a_denial_ends_with_the_message_of_the_highest_policy() {
    let policy = |name: &str, spec: &str| {
        format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n---\n"
        )
    };
    let text = [
        policy("low", "priority: 1, message: low"),
        policy("high", "priority: 2, message: high"),
        policy("silent", "priority: 3, rules: {templates: Deny}"),
        policy("elsewhere", "priority: 4, message: elsewhere, match: {namespaces: {include: [elsewhere]}}"),
    ];
    let policies = load(&text.concat());
    for object in [with_user(), workload("Deployment", with_user()["spec"].clone())] {
        let outcome = create_in(&object, &snapshot(), &policies);
        assert_eq!(outcome.denial().lines().last(), Some("high"), "{}", outcome.denial());
    }
    assert!(!create(&with_user()).denial().contains("high"));
    let audit = given(&with_user(), &["mode: Audit", "message: high"]);
    assert!(audit.validate.denial.is_none() && !audit.validate.warnings.concat().contains("high"));
}

#[test]
fn templates_can_be_warned_about_alone() {
    let template = workload("Deployment", with_user()["spec"].clone());
    let outcome = given(&template, &["rules: {templates: Warn}"]);
    assert!(!outcome.denied() && outcome.validate.warnings[0].starts_with("MUL201"));
    assert!(given(&with_user(), &["rules: {templates: Warn}"]).denied(), "a pod of its own still is");

    // The outcome for its pods.
    let spec = json!({"containers": [{"name": "c", "image": LTSC2022}],
        "securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}});
    for (kind, warning) in [
        ("Deployment", "pods denied: MUL221"),
        ("StatefulSet", "pods denied: MUL221"),
        ("DaemonSet", "MUL221"),
        ("Job", "MUL221"),
        ("CronJob", "MUL221"),
    ] {
        let outcome = given(&workload(kind, spec.clone()), &["rules: {templates: Warn}"]);
        assert!(outcome.validate.warnings[0].starts_with(warning), "{kind}: {:?}", outcome.validate.warnings);
        let owner = if kind == "Deployment" { "ReplicaSet" } else { kind };
        let pod = given(&owned_by(pod(spec.clone()), owner), &["rules: {templates: Warn}"]);
        assert!(kind == "CronJob" || pod.denied() == warning.starts_with("pods denied"), "{kind}");
        let audited = given(&workload(kind, spec.clone()), &["rules: {templates: Warn}", "mode: Audit"]);
        assert!(audited.validate.warnings[0].starts_with("MUL221"), "{kind}: {:?}", audited.validate.warnings);
    }
}

#[test]
fn nothing_in_kube_system_is_denied() {
    let policies = shipped();
    let mut snapshot = snapshot();
    snapshot.namespaces.insert("kube-system".to_owned(), mullion_engine::model::cluster::Namespace::default());
    let everything = json!({
        "hostNetwork": true, "hostPID": true, "hostIPC": true, "resources": {"limits": {"cpu": "1"}},
        "securityContext": {"runAsUser": 0, "sysctls": [{"name": "kernel.msgmax", "value": "1"}]},
        "containers": [
            {"name": "a", "image": LTSC2019, "securityContext": {"privileged": true, "procMount": "Unmasked",
                "capabilities": {"add": ["SYS_ADMIN"]}}},
            {"name": "b", "image": LTSC2025}],
    });
    let conflict = json!({"os": {"name": "windows"}, "nodeSelector": {"kubernetes.io/os": "linux"},
        "containers": [{"name": "c", "image": LTSC2022}]});
    for spec in [everything.clone(), with_os_field(pod(everything))["spec"].clone(), conflict] {
        for kind in ["Pod", "Deployment", "DaemonSet", "Job", "CronJob"] {
            let mut object = if kind == "Pod" { pod(spec.clone()) } else { workload(kind, spec.clone()) };
            assert!(create_in(&object, &snapshot, &policies).denied(), "{kind}: elsewhere it is");
            object["metadata"]["namespace"] = json!("kube-system");
            let outcome = create_in(&object, &snapshot, &policies);
            assert!(!outcome.denied(), "{kind}: {outcome:#?}");
            assert!(!outcome.mutate.warnings.is_empty(), "{kind}");
        }
    }
}

// === mullion.dev/allow ===

const MAY_ALLOW: &str = "optOut: {allow: [run-as-user, MUL209, MUL222, MUL5]}";

#[test]
fn a_pod_exempts_from_what_its_policy_permits() {
    for written in ["run-as-user", "MUL201", " MUL209 ,, MUL201", "MUL2", "MUL"] {
        let object = annotated(with_user(), "mullion.dev/allow", written);
        assert!(create(&object).denied(), "{written}: nothing is allowed without a policy");
        let outcome = given(&object, &[MAY_ALLOW]);
        assert!(!outcome.denied() && outcome.mutate.warnings.is_empty(), "{written}: {outcome:#?}");
        assert_eq!(outcome.stored["spec"]["securityContext"]["runAsUser"], 1000, "{written}");
        assert!(outcome.stored["spec"].get("os").is_none(), "{written}");
        assert_eq!(outcome.selector(), Some("windows"), "{written}: placed all the same");
    }
    for written in ["", ",", "MUL202", "run-as", "privileged", "mul201x", "*"] {
        let object = annotated(with_user(), "mullion.dev/allow", written);
        assert!(given(&object, &[MAY_ALLOW]).denied(), "{written}");
    }
}

#[test]
fn exemptions_reach_only_what_the_policy_names() {
    let mut object = annotated(with_user(), "mullion.dev/allow", "MUL2");
    object["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    let denial = given(&object, &[MAY_ALLOW]).denial().to_owned();
    assert!(denial.contains("MUL203") && !denial.contains("MUL201"), "{denial}");
}

#[test]
fn templates_exempt_like_their_pods() {
    let template = workload("Deployment", with_user()["spec"].clone());
    assert!(given(&template, &[MAY_ALLOW]).denied());
    let waved = annotated(template.clone(), "mullion.dev/allow", "MUL201");
    assert!(!given(&waved, &[MAY_ALLOW]).denied());
    // On the object around the template it would not reach the pods.
    let mut outside = template;
    outside["metadata"]["annotations"] = json!({"mullion.dev/allow": "MUL201"});
    assert!(given(&outside, &[MAY_ALLOW]).denied());
}

#[test]
fn no_exemption_from_what_the_api_server_rejects() {
    let own = annotated(with_os_field(with_user()), "mullion.dev/allow", "MUL201,MUL222");
    let outcome = given(&own, &[MAY_ALLOW]);
    assert!(!outcome.denied());
    assert!(outcome.stored["spec"]["securityContext"].get("runAsUser").is_none(), "repaired");
    let mut limits = own;
    limits["spec"]["resources"] = json!({"limits": {"cpu": "1"}});
    assert!(given(&limits, &[MAY_ALLOW]).denial().contains("MUL222"), "without a repair it is denied in words");
}

// === modes ===

#[test]
fn audit_reports_what_would_be_done_and_does_nothing() {
    let outcome = given(&with_user(), &["mode: Audit"]);
    assert!(outcome.mutate.patch.is_empty() && !outcome.denied());
    let warnings = &outcome.mutate.warnings;
    assert!(warnings.iter().any(|text| text.starts_with("would deny: MUL201")), "{warnings:?}");
    assert!(warnings.iter().any(|text| text.contains("would place this on Windows nodes")), "{warnings:?}");
    let audit = &outcome.mutate.audit;
    assert!(audit["findings"].contains("MUL201"));
    assert_eq!(audit["would-deny"], "MUL201 spec.securityContext.runAsUser");
    assert!(audit["would-change"].starts_with("spec.nodeSelector[kubernetes.io/os] ("), "{audit:?}");
    assert!(audit["would-change"].contains("spec.tolerations ("), "{audit:?}");
    // No values, because readers of audit logs need not have access to pods.
    assert!(!audit["would-change"].contains("windows:NoSchedule"), "{audit:?}");

    let mut soft = with_image(LTSC2022);
    soft["spec"]["securityContext"] = json!({"fsGroup": 1});
    let outcome = given(&soft, &["mode: Audit"]);
    assert!(outcome.mutate.audit["would-change"].contains("spec.securityContext.fsGroup (MUL217)"));
    assert!(!outcome.mutate.audit.contains_key("would-deny"));
    let enforced = given(&soft, &["mode: Enforce"]).mutate.audit;
    assert!(enforced.keys().all(|key| !key.starts_with("would")), "{enforced:?}");
    let warnings = outcome.mutate.warnings;
    assert!(warnings.iter().any(|text| text.starts_with("would remove: MUL217")), "{warnings:?}");
    // Nothing is removed from a Deployment's template, and a new DaemonSet is not placed.
    let warnings = given(&workload("Deployment", soft["spec"].clone()), &["mode: Audit"]).mutate.warnings;
    assert!(warnings.iter().all(|text| text.starts_with("MUL217")), "{warnings:?}");
    let silent = workload("DaemonSet", json!({"containers": [{"name": "c", "image": "app"}]}));
    assert_eq!(given(&silent, &["mode: Audit"]).mutate.warnings, ["Mullion (audit) would place this on Linux nodes"]);
}

#[test]
fn audit_annotations_have_an_end() {
    let context = json!({"runAsUser": 7, "seLinuxOptions": {"level": "s0"}, "privileged": true});
    let containers =
        (0..300).map(|at| json!({"name": format!("c{at}"), "image": LTSC2022, "securityContext": context}));
    let many = pod(json!({"containers": containers.collect::<Vec<_>>()}));
    let mut long = with_image(&format!("registry.example.com/{}:ltsc2022", "windows/servercore/".repeat(300)));
    long["spec"]["nodeSelector"] = json!({"a".repeat(4_000): "b"});
    for object in [&many, &long] {
        let audit = given(object, &["mode: Audit"]).mutate.audit;
        assert!(!audit.is_empty(), "{audit:#?}");
        assert!(audit.values().all(|value| (1..=AUDIT_LIMIT).contains(&value.len())), "{audit:#?}");
    }
    let audit = given(&many, &["mode: Audit"]).mutate.audit;
    let denied = &audit["would-deny"];
    assert_eq!(denied.matches("MUL2").count() + more(denied), 600, "{denied}");
}

/// The number in `, and 7 more`.
fn more(text: &str) -> usize {
    text.strip_suffix(" more").and_then(|text| text.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
}

#[test]
fn disabled_reports_nothing() {
    for object in [with_user(), workload("DaemonSet", with_user()["spec"].clone())] {
        let outcome = given(&object, &["mode: Disabled"]);
        assert!(outcome.mutate.patch.is_empty() && !outcome.denied() && outcome.mutate.warnings.is_empty());
        assert!(outcome.mutate.audit.is_empty());
    }
}

#[test]
fn ignore_is_honoured_by_policy() {
    let object = annotated(with_user(), "mullion.dev/ignore", "true");
    assert!(given(&object, &["optOut: {ignore: Namespaces}"]).denied());
    let outcome = given(&object, &["optOut: {ignore: Pods}"]);
    assert!(!outcome.denied() && outcome.mutate.patch.is_empty());
    let mut snapshot = snapshot();
    let annotations = [("mullion.dev/ignore".to_owned(), "true".to_owned())].into();
    snapshot.namespaces.get_mut("default").unwrap().set_annotations(&annotations);
    assert!(!create_in(&with_user(), &snapshot, &PolicySet::default()).denied());
    assert!(create_in(&with_user(), &snapshot, &policy(&["optOut: {ignore: Never}"])).denied());
}

#[test]
fn detection_follows_the_policy() {
    let decision = |object: &Value, line: &str| given(object, &[line]).review.decision.os;
    let opaque = with_image("registry.example.com/legacy/app:1");
    assert_eq!(decision(&opaque, "detect: {os: windows}"), DetectedOs::Windows);
    assert_eq!(decision(&opaque, "detect: {os: any}"), DetectedOs::Undecided);
    assert_eq!(decision(&opaque, "detect: {default: Nothing}"), DetectedOs::Undecided);
    let images = "detect: {images: [{pattern: registry.example.com/legacy/**, os: windows, builds: [10.0.17763]}]}";
    let outcome = given(&opaque, &[images]);
    assert_eq!(outcome.stored["spec"]["runtimeClassName"], "mullion-windows-ltsc2019");
    assert!(outcome.excluded_builds().contains(&"10.0.20348".to_owned()));
}

#[test]
fn a_pattern_that_names_no_build_leaves_it_to_the_tag() {
    let mirrored = with_image("registry.example.com/mirror/servercore:ltsc2019");
    let pattern = |of: &str| format!("detect: {{images: [{{pattern: registry.example.com/mirror/**, {of}}}]}}");
    let outcome = given(&mirrored, &[&pattern("os: windows")]);
    assert_eq!(outcome.stored["metadata"]["labels"]["mullion.dev/windows-build"], "10.0.17763");
    let named = given(&mirrored, &[&pattern("os: windows, builds: [10.0.20348]")]);
    assert_eq!(named.stored["metadata"]["labels"]["mullion.dev/windows-build"], "10.0.20348");
    let multi = given(&mirrored, &[&pattern("os: multi")]);
    assert!(multi.excluded_builds().is_empty() && multi.selector() != Some("windows"));
}

// === placement ===

#[test]
fn each_part_of_a_placement_can_be_left_out() {
    let object = with_image(LTSC2019);
    let no_selector = given(&object, &["place: {nodeSelector: {mode: Never}}"]);
    assert_eq!(no_selector.selector(), None);
    assert!(no_selector.stored["spec"].get("os").is_none(), "no OS field without the selector");
    assert!(given(&object, &["place: {tolerations: {mode: Never}}"]).tolerations().is_empty());
    let no_seal = given(&object, &["place: {specOS: {mode: Never}}"]);
    assert!(no_seal.stored["spec"].get("os").is_none() && no_seal.selector() == Some("windows"));
    let no_build = given(&object, &["place: {build: {mode: Never}}"]);
    assert_eq!(no_build.excluded_builds(), Vec::<String>::new());
    assert_eq!(no_build.stored["spec"]["runtimeClassName"], "mullion-windows-ltsc2019");
    let no_class = given(&object, &["place: {runtimeClass: {mode: Never}}"]);
    assert!(no_class.stored["spec"].get("runtimeClassName").is_none() && !no_class.excluded_builds().is_empty());
}

#[test]
fn without_the_os_field_no_forbidden_field_is_removed() {
    let mut object = with_image(LTSC2022);
    object["spec"]["securityContext"] = json!({"fsGroup": 1});
    object["spec"]["containers"][0]["securityContext"] = json!({"allowPrivilegeEscalation": false});
    let outcome = given(&object, &["place: {specOS: {mode: Never}}"]);
    assert_eq!(outcome.stored["spec"]["securityContext"], object["spec"]["securityContext"]);
    assert_eq!(outcome.stored["spec"]["containers"], object["spec"]["containers"]);
    assert!(outcome.mutate.warnings.iter().all(|text| !text.contains("removed")), "{:?}", outcome.mutate.warnings);
}

#[test]
fn listed_tolerations_are_added_once() {
    let add = "place: {tolerations: {mode: Listed, add: [{key: os, operator: Equal, value: windows, effect: NoSchedule}, \
               {key: team, operator: Exists}]}}";
    let outcome = given(&with_image(LTSC2022), &[add]);
    assert_eq!(outcome.tolerations(), ["os=windows:NoSchedule", "team=:"]);
    // A toleration of a taint that marks Windows nodes exists already, in whatever form.
    let both =
        "place: {tolerations: {add: [{key: os, value: windows, effect: NoSchedule}, {key: team, operator: Exists}]}}";
    let outcome = given(&with_image(LTSC2022), &[both]);
    assert_eq!(outcome.tolerations(), ["os=Windows:NoSchedule", "os=windows:NoSchedule", "team=:"]);
    let reason = |key: &str| {
        outcome.review.changes.iter().find_map(|change| match (&change.cause, &change.edit) {
            (Cause::Placement(why), Edit::Append { value, .. }) if value["key"] == key => Some(*why),
            _ => None,
        })
    };
    assert_eq!(reason("team"), Some("a policy lists it under place.tolerations.add"));
    assert_eq!(reason("os"), Some("nodes of that operating system carry this taint"));
    // One that already covers it is enough, such as one from a RuntimeClass.
    let mut wide = with_image(LTSC2022);
    wide["spec"]["tolerations"] = json!([{"key": "os", "operator": "Exists"}, {"key": "team", "operator": "Exists"}]);
    assert_eq!(given(&wide, &[add]).tolerations(), ["os=:", "team=:"]);
    let mut brief = with_image(LTSC2022);
    brief["spec"]["tolerations"] = json!([{"operator": "Exists", "effect": "NoExecute"}, {"key": "team", "value": "a"},
        {"key": "os", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]);
    assert_eq!(given(&brief, &[add]).tolerations().len(), 5, "these cover neither");
}

#[test]
fn exact_builds_require_equality() {
    let outcome = given(&with_image(LTSC2022), &["place: {build: {mode: Exact}}"]);
    assert_eq!(outcome.stored["spec"]["nodeSelector"]["node.kubernetes.io/windows-build"], "10.0.20348");
    assert!(outcome.stored["spec"].get("affinity").is_none());
    assert_eq!(outcome.stored["spec"]["runtimeClassName"], "mullion-windows-ltsc2022");
    assert!(
        create_in(&outcome.stored, &snapshot(), &policy(&["place: {build: {mode: Exact}}"])).mutate.patch.is_empty()
    );
}

fn node_policy(lines: &str) -> PolicySet {
    load(&format!("apiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {{name: nodes}}\nspec: {{{lines}}}\n"))
}

#[test]
fn taints_of_pools_at_zero_are_tolerated() {
    let expected =
        "expectedPools: [{build: 10.0.20348, taints: [\"sku=Windows:NoSchedule\", \"spot=true:NoSchedule\"]}]";
    let outcome = create_in(&with_image(LTSC2022), &snapshot(), &node_policy(expected));
    assert_eq!(outcome.tolerations(), ["os=Windows:NoSchedule", "os=windows:NoSchedule", "sku=Windows:NoSchedule"]);
}

#[test]
fn the_runtime_class_has_the_handler_of_the_policy() {
    let mut snapshot = snapshot();
    let class = |snapshot: &mullion_engine::model::cluster::ClusterSnapshot, handler: &str| {
        let policies = node_policy(&format!("runtimeClasses: {{handler: {handler}}}"));
        create_in(&with_image(LTSC2019), snapshot, &policies).stored["spec"].get("runtimeClassName").cloned()
    };
    let (plain, named) = ("mullion-windows-ltsc2019", "mullion-windows-ltsc2019-other");
    assert_eq!(class(&snapshot, "runhcs-wcow-process"), Some(json!(plain)));
    assert_eq!(class(&snapshot, "other"), None, "not made yet");
    let classes = snapshot.runtime_classes.as_mut().unwrap();
    let mut other = classes[plain].clone();
    "other".clone_into(&mut other.handler);
    classes.insert(named.to_owned(), other);
    assert_eq!(class(&snapshot, "other"), Some(json!(named)));
    assert_eq!(class(&snapshot, "runhcs-wcow-process"), Some(json!(plain)));
    snapshot.runtime_classes.as_mut().unwrap().get_mut(named).unwrap().ours = false;
    assert_eq!(class(&snapshot, "other"), None, "a third-party class");
}

#[test]
fn a_named_runtime_class_is_given_where_it_fits() {
    let named = |name: &str| policy(&[&format!("place: {{runtimeClass: {{mode: Named, name: {name}}}}}")]);
    let class = |object: &Value, name: &str| {
        let outcome = create_in(object, &snapshot(), &named(name));
        outcome.stored["spec"].get("runtimeClassName").cloned()
    };
    let silent = with_image("registry.example.com/app:nanoserver");
    assert_eq!(class(&silent, "mullion-windows-ltsc2022"), Some(json!("mullion-windows-ltsc2022")));
    assert_eq!(class(&silent, "not-there"), None, "the API server rejects pods of a class it lacks");
    // Its build cannot run the image, or the author requires another.
    assert_eq!(class(&with_image(LTSC2025), "mullion-windows-ltsc2022"), None);
    let mut asks = silent;
    asks["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "node.kubernetes.io/windows-build", "operator": "In", "values": ["10.0.26100"]}]}]}}});
    assert_eq!(class(&asks, "mullion-windows-ltsc2022"), None);
    assert_eq!(class(&asks, "mullion-windows-ltsc2025"), Some(json!("mullion-windows-ltsc2025")));
}

#[test]
fn a_named_class_never_contradicts_what_is_placed_with_it() {
    let mut snapshot = snapshot();
    let mut add = |name: &str, handler: &str, key: &str, value: &str| {
        let class = mullion_engine::model::cluster::RuntimeClass {
            handler: handler.to_owned(),
            node_selector: [(key.to_owned(), value.to_owned())].into(),
            ..Default::default()
        };
        snapshot.runtime_classes.get_or_insert_default().insert(name.to_owned(), class);
    };
    add("linux", "runc", "kubernetes.io/os", "linux");
    add("hyperv", "runhcs-wcow-hypervisor", "kubernetes.io/os", "windows");
    let given = |name: &str, build: &str| {
        let line = format!("place: {{runtimeClass: {{mode: Named, name: {name}}}, build: {{mode: {build}}}}}");
        create_in(&with_image(LTSC2022), &snapshot, &policy(&[&line]))
    };
    assert!(given("linux", "Compatible").stored["spec"].get("runtimeClassName").is_none());
    assert!(given("mullion-windows-ltsc2025", "Exact").stored["spec"].get("runtimeClassName").is_none());
    // With hypervisor isolation a pod runs images of older builds: no build is required.
    let isolated = given("hyperv", "Compatible");
    assert_eq!(isolated.stored["spec"]["runtimeClassName"], "hyperv");
    assert_eq!(isolated.excluded_builds(), Vec::<String>::new());
}
