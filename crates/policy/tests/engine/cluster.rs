//! RuntimeClasses, and what a namespace's annotations and labels reject.

use mullion_engine::model::cluster::{ClusterSnapshot, RuntimeClass};
use mullion_policy::PolicySet;
use serde_json::{Value, json};

use crate::support::*;

const LTSC2022: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";
const NODE_SELECTOR: &str = "scheduler.alpha.kubernetes.io/node-selector";
const WHITELIST: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";
const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
const ENFORCE_VERSION: &str = "pod-security.kubernetes.io/enforce-version";

fn annotated(pairs: &[(&str, &str)]) -> ClusterSnapshot {
    let mut snapshot = snapshot();
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    snapshot.namespaces.get_mut("default").unwrap().set_annotations(&pairs.iter().map(own).collect());
    snapshot
}

fn labelled(pairs: &[(&str, &str)]) -> ClusterSnapshot {
    let mut snapshot = snapshot();
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    snapshot.namespaces.get_mut("default").unwrap().labels = pairs.iter().map(own).collect();
    snapshot
}

fn with_class(name: &str, class: RuntimeClass) -> ClusterSnapshot {
    let mut snapshot = snapshot();
    snapshot.runtime_classes.get_or_insert_default().insert(name.to_owned(), class);
    snapshot
}

fn class(handler: &str, selector: &[(&str, &str)]) -> RuntimeClass {
    let node_selector = selector.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    RuntimeClass { handler: handler.to_owned(), node_selector, ..RuntimeClass::default() }
}

fn create_with(object: &Value, snapshot: &ClusterSnapshot) -> Outcome {
    create_in(object, snapshot, &PolicySet::default())
}

/// Code, path, message and help of the 7xx findings.
fn findings_of(outcome: &Outcome) -> Vec<(String, String, String)> {
    let findings = outcome.review.findings.iter().filter(|finding| finding.code.starts_with("MUL7"));
    findings.map(|finding| (finding.code.to_owned(), finding.path.clone(), finding.message_with_help())).collect()
}

fn codes(outcome: &Outcome) -> Vec<(String, String)> {
    findings_of(outcome).into_iter().map(|(code, path, _)| (code, path)).collect()
}

fn one(code: &str, path: &str) -> Vec<(String, String)> {
    vec![(code.to_owned(), path.to_owned())]
}

// === tolerations ===

#[test]
fn a_toleration_the_namespace_rejects_is_reported_and_not_added() {
    let snapshot = annotated(&[(WHITELIST, r#"[{"key":"it's","operator":"Exists"}]"#)]);
    let outcome = create_with(&with_image(LTSC2022), &snapshot);
    assert!(!outcome.denied());
    assert_eq!(outcome.tolerations(), [""; 0]);
    // The rest is added: without the selector it would run on Linux, and the OS field needs no toleration.
    assert_eq!((outcome.selector(), &outcome.stored["spec"]["os"]["name"]), (Some("windows"), &json!("windows")));
    let [(code, path, text)] = &findings_of(&outcome)[..] else { panic!("{:?}", outcome.review.findings) };
    assert_eq!((code.as_str(), path.as_str()), ("MUL704", "spec.tolerations"));
    assert!(text.contains("os=Windows:NoSchedule, os=windows:NoSchedule"), "{text}");
    // Existing entries come first, a quote does not end the shell's, and nothing else is admitted.
    let command = format!(
        "kubectl annotate namespace default --overwrite '{WHITELIST}=[{}]'",
        [
            r#"{"key":"it\u0027s","operator":"Exists"}"#,
            r#"{"effect":"NoSchedule","key":"os","operator":"Equal","value":"Windows"}"#,
            r#"{"effect":"NoSchedule","key":"os","operator":"Equal","value":"windows"}"#,
        ]
        .join(",")
    );
    assert!(text.ends_with(&command), "{text}\n{command}");
    // Under the annotation in the finding's help it is added.
    let value = command.split_once('=').unwrap().1.trim_end_matches('\'');
    let advised = create_with(&with_image(LTSC2022), &annotated(&[(WHITELIST, value)]));
    assert_eq!(advised.tolerations().len(), 2, "{value}");
    assert_eq!(findings_of(&advised), []);
}

#[test]
fn each_toleration_is_let_in_by_itself() {
    let only = |text: &str| create_with(&with_image(LTSC2022), &annotated(&[(WHITELIST, text)]));
    let both = ["os=Windows:NoSchedule", "os=windows:NoSchedule"];
    for open in ["", "[]", "null", r#"[{"key":"os","operator":"Exists"}]"#, r#"[{"operator":"Exists"}]"#] {
        assert_eq!(
            (only(open).tolerations(), findings_of(&only(open))),
            (both.map(str::to_owned).to_vec(), vec![]),
            "{open}"
        );
    }
    let outcome = only(r#"[{"key":"os","value":"windows","effect":"NoSchedule"}]"#);
    assert_eq!(outcome.tolerations(), ["os=windows:NoSchedule"]);
    assert_eq!(codes(&outcome), one("MUL704", "spec.tolerations"));
    // The annotation is unreadable: the plugin rejects any toleration.
    let outcome = only("os=windows");
    assert_eq!((outcome.tolerations(), codes(&outcome)), (vec![], one("MUL704", "spec.tolerations")));
    assert!(findings_of(&outcome)[0].2.contains("write a JSON list that holds"), "{:?}", findings_of(&outcome));
}

#[test]
fn a_pod_that_would_be_rejected_anyway_gets_everything() {
    // The plugin runs before the webhook, so a toleration that it should reject proves that it is off.
    let mut object = with_image(LTSC2022);
    object["spec"]["tolerations"] = json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]);
    for text in [r#"[{"key":"team"}]"#, "os=windows"] {
        let outcome = create_with(&object, &annotated(&[(WHITELIST, text)]));
        assert_eq!((outcome.tolerations().len(), findings_of(&outcome)), (3, vec![]), "{text}");
    }
}

#[test]
fn templates_get_a_warning_and_daemon_sets_no_toleration() {
    let snapshot = annotated(&[(WHITELIST, r#"[{"key":"team"}]"#)]);
    let spec = json!({"containers": [{"name": "c", "image": LTSC2022}]});
    for kind in ["Deployment", "DaemonSet", "CronJob"] {
        let outcome = create_with(&workload(kind, spec.clone()), &snapshot);
        assert_eq!(codes(&outcome).iter().map(|(code, _)| code.as_str()).collect::<Vec<_>>(), ["MUL704"], "{kind}");
        assert!(!outcome.denied(), "{kind}");
        assert!(outcome.mutate.warnings.iter().any(|warning| warning.starts_with("MUL704")), "{kind}");
    }
    let stored = create_with(&workload("DaemonSet", spec), &snapshot).stored;
    let template = &stored["spec"]["template"]["spec"];
    assert!(
        template.get("tolerations").is_none() && template["nodeSelector"]["kubernetes.io/os"] == "windows",
        "{stored}"
    );
}

#[test]
fn a_class_with_tolerations_the_namespace_rejects_is_not_assigned() {
    let image = "mcr.microsoft.com/windows/servercore:ltsc2025";
    let mut snapshot = annotated(&[(WHITELIST, r#"[{"key":"os","value":"windows"},{"key":"os","value":"Windows"}]"#)]);
    assert_eq!(
        create_with(&with_image(image), &snapshot).stored["spec"]["runtimeClassName"],
        "mullion-windows-ltsc2025"
    );
    let ours = snapshot.runtime_classes.as_mut().unwrap().get_mut("mullion-windows-ltsc2025").unwrap();
    ours.tolerations = RuntimeClass::tolerations(vec![
        json!({"key": "sku", "operator": "Equal", "value": "win", "effect": "NoSchedule"}),
    ]);
    let outcome = create_with(&with_image(image), &snapshot);
    assert!(outcome.stored["spec"].get("runtimeClassName").is_none());
    assert_eq!(outcome.tolerations().len(), 2);
    // A class in the authored object stays, and is reported.
    let mut object = with_image(image);
    object["spec"]["runtimeClassName"] = json!("mullion-windows-ltsc2025");
    assert_eq!(codes(&create_with(&object, &snapshot)), one("MUL704", "spec.runtimeClassName"));
}

// === node selectors ===

#[test]
fn a_selector_the_namespace_contradicts_is_reported_and_not_added() {
    let snapshot = annotated(&[(NODE_SELECTOR, "team=a,kubernetes.io/os=linux")]);
    let object =
        pod(json!({"os": {"name": "windows"}, "containers": [{"name": "c", "image": "registry.example.com/app"}]}));
    let outcome = create_with(&object, &snapshot);
    assert!(!outcome.denied());
    assert_eq!(outcome.selector(), None);
    let [(code, path, text)] = &findings_of(&outcome)[..] else { panic!("{:?}", outcome.review.findings) };
    assert_eq!((code.as_str(), path.as_str()), ("MUL703", "spec.nodeSelector"));
    assert!(
        text.contains("the namespace requires kubernetes.io/os=linux, so kubernetes.io/os=windows is not added"),
        "{text}"
    );
    assert!(
        text.ends_with(&format!("kubectl annotate namespace default --overwrite '{NODE_SELECTOR}=team=a'")),
        "{text}"
    );
    // Without a selector the OS field is not set either.
    let spec = json!({"securityContext": {"windowsOptions": {"runAsUserName": "ContainerUser"}},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]}]}]}}},
        "containers": [{"name": "c", "image": LTSC2022}]});
    let outcome = create_with(&pod(spec), &snapshot);
    assert_eq!((outcome.selector(), outcome.stored["spec"].get("os")), (None, None));
}

#[test]
fn selectors_of_the_pod_and_of_its_class() {
    let linux = [(NODE_SELECTOR, "kubernetes.io/os=linux")];
    let explicit =
        json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": [{"name": "c", "image": LTSC2022}]});
    let path = "spec.template.spec.nodeSelector[kubernetes.io/os]";
    let outcome = create_with(&workload("Deployment", explicit.clone()), &annotated(&linux));
    assert_eq!(codes(&outcome), one("MUL703", path));
    // The last key is removed: an empty annotation stays, because without an annotation the default of the whole
    // cluster would apply.
    assert!(findings_of(&outcome)[0].2.ends_with(&format!("'{NODE_SELECTOR}='")), "{:?}", findings_of(&outcome));
    for silent in ["kubernetes.io/os=windows", "team=a", "kubernetes.io/os", ""] {
        let snapshot = annotated(&[(NODE_SELECTOR, silent)]);
        assert_eq!(findings_of(&create_with(&workload("Deployment", explicit.clone()), &snapshot)), [], "{silent}");
    }
    // On Linux pods only the operating system matters.
    let disk = json!({"nodeSelector": {"kubernetes.io/os": "linux", "disk": "ssd"}, "containers": [{"name": "c", "image": "nginx"}]});
    assert_eq!(findings_of(&create_with(&pod(disk.clone()), &annotated(&[(NODE_SELECTOR, "disk=hdd")]))), []);
    let snapshot = annotated(&[("openshift.io/node-selector", "kubernetes.io/os=windows")]);
    assert_eq!(codes(&create_with(&pod(disk), &snapshot)), one("MUL703", "spec.nodeSelector[kubernetes.io/os]"));

    let mut object = with_image(LTSC2022);
    object["spec"]["runtimeClassName"] = json!("mullion-windows-ltsc2022");
    let snapshot = annotated(&[(NODE_SELECTOR, "node.kubernetes.io/windows-build=10.0.17763")]);
    assert_eq!(codes(&create_with(&object, &snapshot)), one("MUL703", "spec.runtimeClassName"));
    // Mullion's class is not assigned against it.
    let outcome = create_with(&with_image("mcr.microsoft.com/windows/servercore:ltsc2025"), &snapshot);
    assert!(outcome.stored["spec"].get("runtimeClassName").is_none(), "{}", outcome.stored);
}

#[test]
fn an_exact_build_the_namespace_contradicts_is_not_required() {
    let text = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: exact}\nspec: {place: {build: {mode: Exact}, runtimeClass: {mode: Never}}}\n";
    let policies = PolicySet::from_files(&[("exact.yaml", text)]).unwrap();
    let build = |snapshot: &ClusterSnapshot| {
        let outcome = create_in(&with_image(LTSC2022), snapshot, &policies);
        (outcome.stored["spec"]["nodeSelector"].get("node.kubernetes.io/windows-build").cloned(), codes(&outcome))
    };
    assert_eq!(build(&snapshot()), (Some(json!("10.0.20348")), vec![]));
    let snapshot = annotated(&[(NODE_SELECTOR, "node.kubernetes.io/windows-build=10.0.17763")]);
    assert_eq!(build(&snapshot), (None, one("MUL703", "spec.nodeSelector")));
}

// === RuntimeClasses ===

#[test]
fn a_missing_class_is_reported_only_if_classes_are_known() {
    let mut object = with_image(LTSC2022);
    object["spec"]["runtimeClassName"] = json!("windows-2022");
    let outcome = create(&object);
    assert_eq!(codes(&outcome), one("MUL701", "spec.runtimeClassName"));
    assert!(
        findings_of(&outcome)[0].2.contains("mullion-windows-ltsc2019, mullion-windows-ltsc2022"),
        "{:?}",
        findings_of(&outcome)
    );
    assert!(!outcome.denied());
    let unknown = ClusterSnapshot { runtime_classes: None, ..snapshot() };
    assert_eq!(findings_of(&create_with(&object, &unknown)), []);
    let none = ClusterSnapshot { runtime_classes: Some([].into()), ..snapshot() };
    assert_eq!(codes(&create_with(&object, &none)), one("MUL701", "spec.runtimeClassName"));
    let mut linux = with_image("nginx");
    linux["spec"]["runtimeClassName"] = json!("kata");
    assert_eq!(findings_of(&create(&linux)), []);
}

#[test]
fn what_a_class_excludes() {
    let windows = ("kubernetes.io/os", "windows");
    let build = "node.kubernetes.io/windows-build";
    let affinity = |operator: &str, value: &str| {
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": build, "operator": operator, "values": [value]}]}]}}})
    };
    let terms = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let host_process = json!({"hostNetwork": true, "securityContext": {"windowsOptions": {"hostProcess": true}}});
    let heavy = RuntimeClass {
        overhead: [("memory".to_owned(), "512Mi".to_owned())].into(),
        ..class("runhcs-wcow-hypervisor", &[windows])
    };
    let pinned = class("runhcs-wcow-process", &[windows, (build, "10.0.20348")]);
    let plain = class("runhcs-wcow-process", &[windows]);
    let selector_path = format!("spec.nodeSelector[{build}]");
    let cases: [(&RuntimeClass, Value, Option<&str>); 15] = [
        (&pinned, json!({"nodeSelector": {build: "10.0.17763"}}), Some(&selector_path)),
        (&pinned, json!({"nodeSelector": {build: "10.0.20348", "team": "a"}}), None),
        (&pinned, json!({"affinity": affinity("In", "10.0.17763")}), Some(terms)),
        (&pinned, json!({"affinity": affinity("NotIn", "10.0.20348")}), Some(terms)),
        (&pinned, json!({"affinity": affinity("NotIn", "10.0.17763")}), None),
        (&pinned, json!({}), None),
        (&class("kata-qemu", &[]), json!({}), Some("spec.runtimeClassName")),
        (&class("something-else", &[]), json!({}), None),
        (&heavy, host_process.clone(), Some("spec.runtimeClassName")),
        (&plain, host_process, None),
        (&heavy, json!({"overhead": {"memory": "536870912"}}), None),
        (&heavy, json!({"overhead": {"memory": "256Mi"}}), Some("spec.overhead")),
        (&heavy, json!({"overhead": {"memory": "512Mi", "cpu": "1"}}), Some("spec.overhead")),
        (&plain, json!({"overhead": {"memory": "512Mi"}}), Some("spec.overhead")),
        (&plain, json!({"overhead": {}}), None),
    ];
    for (class, mut spec, expected) in cases {
        spec["runtimeClassName"] = json!("c");
        spec["containers"] = json!([{"name": "c", "image": LTSC2022}]);
        let outcome = create_with(&pod(spec.clone()), &with_class("c", class.clone()));
        let expected = expected.map(|path| one("MUL702", path)).unwrap_or_default();
        assert_eq!(codes(&outcome), expected, "{class:?} {spec}");
        assert_eq!(outcome.denied(), !expected.is_empty(), "{spec}");
    }
    let mut alone = with_image(LTSC2022);
    alone["spec"]["overhead"] = json!({"memory": "1Mi"});
    assert_eq!(codes(&create(&alone)), one("MUL702", "spec.overhead"));
    // Operating systems that differ have their own rule.
    let mut other = with_image(LTSC2022);
    other["spec"]["runtimeClassName"] = json!("c");
    other["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
    let outcome = create_with(&other, &with_class("c", plain));
    assert_eq!(findings_of(&outcome), []);
    assert!(outcome.denial().contains("MUL101"));
    // The reverse case.
    let outcome = create_with(&other, &with_class("c", class("runhcs-wcow-process", &[])));
    assert_eq!(codes(&outcome), one("MUL702", "spec.runtimeClassName"));
}

#[test]
fn the_build_of_a_named_class_is_not_judged() {
    // The API server adds the class's selector; an affinity that excludes that build would leave no node.
    let mut object = with_image(LTSC2022);
    object["spec"]["runtimeClassName"] = json!("mullion-windows-ltsc2019");
    let outcome = create(&object);
    assert_eq!((outcome.excluded_builds(), findings_of(&outcome)), (vec![], vec![]));
}

// === Pod Security ===

#[test]
fn pod_security_and_host_process() {
    let by_pod = json!({"hostNetwork": true, "securityContext": {"windowsOptions": {"hostProcess": true}},
        "containers": [{"name": "c", "image": LTSC2022}]});
    let by_container = json!({"hostNetwork": true, "containers": [{"name": "c", "image": LTSC2022,
        "securityContext": {"windowsOptions": {"hostProcess": true}}}]});
    let cases = [
        (by_pod.clone(), "baseline", Some("spec.securityContext.windowsOptions.hostProcess")),
        (by_pod.clone(), "restricted", Some("spec.securityContext.windowsOptions.hostProcess")),
        (by_container, "baseline", Some("spec.containers[0].securityContext.windowsOptions.hostProcess")),
        (by_pod, "privileged", None),
        (json!({"containers": [{"name": "c", "image": LTSC2022}]}), "baseline", None),
    ];
    for (spec, level, expected) in cases {
        let outcome = create_with(&pod(spec.clone()), &labelled(&[(ENFORCE, level), (ENFORCE_VERSION, "v1.24")]));
        assert_eq!(codes(&outcome), expected.map(|path| one("MUL705", path)).unwrap_or_default(), "{level} {spec}");
        assert!(!outcome.denied(), "an exemption may let it in");
    }
}

#[test]
fn no_os_field_where_pod_security_would_reject_it() {
    let restricted = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": true,
        "seccompProfile": {"type": "RuntimeDefault"}});
    let object = pod(json!({"containers": [{"name": "c", "image": LTSC2022, "securityContext": restricted}]}));
    let with_os_field = |version: &str| {
        let outcome = create_with(&object, &labelled(&[(ENFORCE, "restricted"), (ENFORCE_VERSION, version)]));
        let spec = &outcome.stored["spec"];
        let whole = spec["containers"][0]["securityContext"] == restricted;
        assert_eq!(spec.get("os").is_some(), !whole, "all or nothing: {spec}");
        assert_eq!(outcome.selector(), Some("windows"));
        (!whole, codes(&outcome))
    };
    for version in ["latest", "v1.25", "v1.36", "v1.7"] {
        assert_eq!(with_os_field(version), (true, vec![]), "{version}");
    }
    for version in ["v1.8", "v1.24"] {
        assert_eq!(with_os_field(version), (false, one("MUL705", "spec")), "{version}");
    }
    let mut author = object.clone();
    author["spec"]["os"] = json!({"name": "windows"});
    let outcome = create_with(&author, &labelled(&[(ENFORCE, "restricted"), (ENFORCE_VERSION, "v1.24")]));
    assert_eq!(codes(&outcome), one("MUL705", "spec.os.name"));
    assert!(findings_of(&outcome)[0].2.ends_with("--overwrite pod-security.kubernetes.io/enforce-version=v1.25"));
}

#[test]
fn what_is_not_added_is_not_added_the_second_time() {
    let snapshots = [
        annotated(&[(WHITELIST, r#"[{"key":"os","value":"windows"}]"#)]),
        annotated(&[(WHITELIST, "{")]),
        annotated(&[(NODE_SELECTOR, "node.kubernetes.io/windows-build=10.0.17763")]),
        labelled(&[(ENFORCE, "restricted"), (ENFORCE_VERSION, "v1.24")]),
    ];
    for snapshot in snapshots {
        for object in [with_image(LTSC2022), owned_by(with_image(LTSC2022), "ReplicaSet")] {
            let first = create_with(&object, &snapshot);
            let second = create_with(&first.stored, &snapshot);
            assert!(second.mutate.patch.is_empty(), "{:?}", second.mutate.patch);
            assert_eq!(findings_of(&first), findings_of(&second), "both endpoints report the same");
        }
    }
}
