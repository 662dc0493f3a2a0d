//! Resources of Windows containers.

use mullion_engine::model::settings::Action;
use mullion_engine::rules::Finding;
use mullion_policy::PolicySet;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::*;

const WINDOWS: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";
const NANO: &str = "mcr.microsoft.com/windows/nanoserver:ltsc2022";

fn with_resources(image: &str, resources: Value) -> Value {
    pod(json!({"containers": [{"name": "c", "image": image, "resources": resources}]}))
}

fn policies(actions: &str) -> PolicySet {
    let text = format!(
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: p}}\nspec:\n  priority: 1\n  \
         rules: {{actions: [{actions}]}}\n"
    );
    PolicySet::from_files(&[("p.yaml", &text)]).unwrap()
}

/// Code and path of every finding of family 6 under a policy that reports all of them.
fn findings_of(object: &Value) -> Vec<(&'static str, String)> {
    let all = policies("{rule: MUL6, action: Warn}");
    let findings = create_in(object, &snapshot(), &all).review.findings;
    findings.into_iter().filter(|f| f.code.starts_with("MUL6")).map(|f| (f.code, f.path)).collect()
}

fn codes(object: &Value) -> Vec<&'static str> {
    findings_of(object).into_iter().map(|(code, _)| code).collect()
}

#[test]
fn thirty_containers_without_a_limit_are_thirty_short_lines() {
    let containers: Vec<Value> =
        (0..30).map(|n| json!({"name": format!("c{n}"), "image": WINDOWS, "resources": {}})).collect();
    for kind in ["Deployment", "CronJob"] {
        let outcome = create(&workload(kind, json!({"containers": containers, "initContainers": containers})));
        assert!(!outcome.denied());
        assert_eq!(outcome.review.findings.len(), 60);
        for finding in &outcome.review.findings {
            assert_eq!((finding.code, finding.action), ("MUL601", Action::Warn));
            let line = finding.line("", "", 120);
            assert!(line.contains(&*finding.message) && line.chars().count() <= 120, "{line}");
        }
    }
}

#[test]
fn limits_of_zero_or_of_the_pod() {
    for (resources, expected) in [
        (json!({}), vec!["MUL601"]),
        (json!({"limits": {"memory": null}}), vec!["MUL601"]),
        (json!({"limits": {"memory": "0"}}), vec!["MUL601"]),
        (json!({"limits": {"memory": 0}}), vec!["MUL601"]),
        (json!({"limits": {"cpu": "1"}}), vec!["MUL601"]),
        // The API server rejects these by itself.
        (json!({"limits": {"memory": "lots"}}), vec![]),
        (json!({"limits": {"memory": "1GiB", "cpu": "1 core"}, "requests": {"memory": "x", "cpu": []}}), vec![]),
        (json!({"limits": {"memory": "512Mi"}}), vec![]),
    ] {
        assert_eq!(codes(&with_resources(WINDOWS, resources.clone())), expected, "{resources}");
    }
    let mut host_process = with_resources(WINDOWS, json!({"limits": {"cpu": "1m"}}));
    host_process["spec"]["hostNetwork"] = json!(true);
    host_process["spec"]["securityContext"] =
        json!({"windowsOptions": {"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"}});
    assert!(findings_of(&host_process).is_empty());
    // One rule for one cause: limits of the whole pod are `pod-resources`.
    let mut whole = with_resources(WINDOWS, json!({}));
    whole["spec"]["resources"] = json!({"limits": {"memory": "1Gi"}});
    assert!(findings_of(&whole).is_empty());
    whole["spec"]["resources"] = json!({"limits": {"cpu": "1"}});
    assert_eq!(codes(&whole), ["MUL601"]);
}

#[test]
fn requests_are_reported_only_by_policy() {
    let low =
        with_resources(WINDOWS, json!({"limits": {"memory": "1Gi"}, "requests": {"memory": "512Mi", "cpu": "1"}}));
    assert!(create(&low).review.findings.is_empty());
    assert_eq!(
        findings_of(&low),
        [
            ("MUL602", "spec.containers[0].resources.requests.cpu".to_owned()),
            ("MUL602", "spec.containers[0].resources.requests.memory".to_owned()),
        ]
    );
    for object in [&low, &owned_by(low.clone(), "ReplicaSet")] {
        let denied = create_in(object, &snapshot(), &policies("{rule: requests-ignored, action: Deny}"));
        assert_eq!(denied.denied(), object["metadata"].get("ownerReferences").is_none(), "the pod would run");
    }
}

#[test]
fn claims_are_one_finding_for_the_pod() {
    let mut object = with_resources(WINDOWS, json!({"limits": {"memory": "1Gi"}, "claims": [{"name": "gpu"}]}));
    assert_eq!(findings_of(&object), [("MUL603", "spec.containers[0].resources.claims".to_owned())]);
    object["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": "a"}, {"name": "b"}]);
    assert_eq!(findings_of(&object), [("MUL603", "spec.resourceClaims".to_owned())]);
    for nothing in [json!([]), json!(null), json!("x"), json!({})] {
        object["spec"]["resourceClaims"] = nothing.clone();
        object["spec"]["containers"][0]["resources"]["claims"] = nothing;
        assert!(findings_of(&object).is_empty(), "{object}");
    }
}

#[test]
fn floors_follow_the_image() {
    for (image, floor) in [
        (NANO, 128),
        ("mcr.microsoft.com/dotnet/aspnet:8.0-nanoserver-ltsc2022", 128),
        (WINDOWS, 256),
        ("mcr.microsoft.com/dotnet/runtime:8.0-windowsservercore-ltsc2022", 256),
        ("mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022", 512),
        ("mcr.microsoft.com/dotnet/framework/runtime:4.8.1", 512),
        ("mcr.microsoft.com/dotnet/runtime:8.0", 128),
        ("mcr.microsoft.com/powershell:lts-7.4", 128),
        // Programs in Go on Nano Server run with 100Mi, such as the sidecars of CSI drivers.
        ("registry.k8s.io/sig-storage/livenessprobe:v2.15.0", 64),
        ("registry.example.com/iisnode:1", 64),
        ("registry.example.com/app@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", 64),
    ] {
        let codes = |memory: String| {
            let mut object = with_resources(image, json!({"limits": {"memory": memory}}));
            object["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
            codes(&object)
        };
        assert_eq!(codes(format!("{}Mi", floor - 1)), ["MUL604"], "{image}");
        assert!(codes(format!("{floor}Mi")).is_empty(), "{image}");
    }
    let small = create(&with_resources(WINDOWS, json!({"limits": {"memory": "64Mi", "cpu": "99m"}})));
    let sentences: Vec<String> = small.review.findings.iter().map(Finding::sentence).collect();
    assert!(
        sentences[0].ends_with("set at least 100m") && sentences[1].ends_with("set at least 256Mi"),
        "{sentences:?}"
    );
    assert_eq!(small.mutate.warnings.len(), 2, "{:?}", small.mutate.warnings);
}

/// Nearly every Windows pod has no limit: its template's author gets a warning, and a label would stay forever.
#[test]
fn hints_are_for_authors_and_no_label() {
    let spec = json!({"nodeSelector": {"beta.kubernetes.io/os": "windows"}, "containers": [
        {"name": "c", "image": WINDOWS, "resources": {"limits": {"cpu": "10m"}}}]});
    let template = create(&workload("Deployment", spec.clone()));
    let warns = |code: &str| template.mutate.warnings.iter().any(|warning| warning.starts_with(code));
    assert!(warns("MUL106") && warns("MUL601") && warns("MUL604"), "{:?}", template.mutate.warnings);
    let label = |outcome: Outcome| outcome.stored["metadata"]["labels"]["mullion.dev/findings"].clone();
    let owned = owned_by(pod(spec), "ReplicaSet");
    assert_eq!(label(create(&owned)), Value::Null);
    let denying = policies("{rule: memory-limit, action: Deny}");
    assert_eq!(label(create_in(&owned, &snapshot(), &denying)), "MUL601", "its action is set to Deny");
}

#[test]
fn linux_pods_are_not_checked() {
    let object = pod(json!({"nodeSelector": {"kubernetes.io/os": "linux"}, "resourceClaims": [{"name": "gpu"}],
        "containers": [{"name": "c", "image": "app", "resources": {"limits": {"cpu": "1m"}, "requests": {"memory": "1"}}}]}));
    assert!(findings_of(&object).is_empty());
}

proptest! {
    /// The API server's defaults, requests from limits, change no finding; nor does another spelling.
    #[test]
    fn defaulting_changes_nothing(memory in 0_u64..2_000, cpu in 0_u64..2_000, init in any::<bool>()) {
        let limits = json!({"memory": format!("{memory}Mi"), "cpu": format!("{cpu}m")});
        let spelled = json!({"memory": memory << 20, "cpu": format!("{}.{:03}", cpu / 1000, cpu % 1000)});
        let list = if init { "initContainers" } else { "containers" };
        let object = |resources: Value| {
            let mut object = with_resources(WINDOWS, json!({"limits": {"memory": "1Gi"}}));
            object["spec"][list] = json!([{"name": "x", "image": WINDOWS, "resources": resources}]);
            findings_of(&object)
        };
        let written = object(json!({"limits": limits}));
        prop_assert_eq!(&written, &object(json!({"limits": limits, "requests": limits})));
        prop_assert_eq!(&written, &object(json!({"limits": limits, "requests": spelled})));
        prop_assert_eq!(&written, &object(json!({"limits": spelled})));
    }

    #[test]
    fn any_text_is_a_quantity_or_is_left_to_the_server(text in "\\PC*") {
        let resources = json!({"limits": {"memory": text, "cpu": text}, "requests": {"memory": text, "cpu": text}});
        let found = codes(&with_resources(WINDOWS, resources));
        prop_assert!(!found.contains(&"MUL602"));
    }
}
