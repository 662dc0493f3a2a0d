//! Texts for people: whole sentences, at most 120 characters, with the place and the reason.

use mullion_engine::rules::linux_only::FIELDS;
use mullion_policy::PolicySet;
use serde_json::{Value, json};

use crate::support::*;

const LTSC2022: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";
const LTSC2025: &str = "mcr.microsoft.com/windows/servercore:ltsc2025";

fn warnings(object: &Value) -> Vec<String> {
    let outcome = create_in(object, &snapshot(), &PolicySet::default());
    assert!(!outcome.denied(), "{}", outcome.denial());
    for warning in &outcome.mutate.warnings {
        assert!(warning.chars().count() <= 120 && !warning.ends_with('…'), "{warning}");
    }
    outcome.mutate.warnings
}

#[test]
fn a_short_warning_is_whole() {
    let mut object = with_image(LTSC2022);
    object["spec"]["hostUsers"] = json!(false);
    assert_eq!(warnings(&object), ["MUL207 host-users: spec.hostUsers removed: Windows has no user namespaces"]);
}

#[test]
fn a_long_path_gives_way_before_the_reason_does() {
    let mut object = with_image(LTSC2022);
    object["spec"]["containers"][0]["securityContext"] = json!({"readOnlyRootFilesystem": true});
    assert_eq!(
        warnings(&object),
        [
            "MUL210: containers[0]…readOnlyRootFilesystem removed: Windows needs to write to its registry and system files"
        ]
    );
    for kind in ["Deployment", "CronJob"] {
        assert_eq!(
            warnings(&workload(kind, object["spec"].clone())),
            ["MUL210: containers[0]…readOnlyRootFilesystem: Windows needs to write to its registry and system files"]
        );
    }
    let mut group = with_image(LTSC2022);
    group["spec"]["securityContext"] = json!({"fsGroup": 1});
    assert_eq!(
        warnings(&workload("Deployment", group["spec"].clone())),
        [
            "MUL217 fs-group: securityContext.fsGroup: Windows volumes have no group; grant rights by access control lists (icacls)"
        ]
    );
}

/// Every rule of the table, at the deepest path that exists, under the policy that only warns.
#[test]
fn no_reason_is_cut() {
    let warn = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: warn}\nspec:\n  priority: 1\n  \
        rules: {actions: [{rule: MUL2, action: Warn}]}\n";
    let policies = PolicySet::from_files(&[("warn.yaml", warn)]).unwrap();
    for row in FIELDS {
        let mut object = workload("CronJob", json!({"containers": [{"name": "c", "image": LTSC2022}]}));
        let pod = object.pointer_mut("/spec/jobTemplate/spec/template").unwrap();
        let value = json!({"add": ["SYS_ADMIN"], "type": "Localhost", "limits": {"cpu": "1"}});
        if let Some(below) = row.container {
            let container = json!({"name": "i", "image": LTSC2022, "resources": {"limits": {"memory": "1Gi"}}});
            pod["spec"]["initContainers"] = json!(vec![container; 12]);
            pod["spec"]["initContainers"][11]["securityContext"][below.rsplit('/').next().unwrap()] = value;
        } else {
            let pointer = row.pod.unwrap();
            let (parent, last) = pointer.rsplit_once('/').unwrap();
            if parent.ends_with("securityContext") {
                pod["spec"]["securityContext"] = json!({});
            }
            pod.pointer_mut(parent).unwrap()[last] = value;
        }
        let outcome = create_in(&object, &snapshot(), &policies);
        for warning in outcome.mutate.warnings {
            assert!(warning.contains(row.rule.why) && warning.chars().count() <= 120, "{warning}");
        }
    }
}

#[test]
fn a_build_without_nodes_is_one_line() {
    let mut small = snapshot();
    let nodes = small.nodes.take().unwrap().iter().filter(|node| node.name != "w2025").cloned().collect();
    small.nodes = Some(mullion_engine::model::cluster::Nodes::new(nodes));
    let outcome = create_in(&with_image(LTSC2025), &small, &PolicySet::default());
    assert_eq!(
        outcome.mutate.warnings,
        [
            "MUL502: containers[0].image: no node runs 10.0.26100; ltsc2022 would fit; Windows nodes have ltsc2019, ltsc2022"
        ]
    );
    // check prints it in full: build, nodes, which image would fit.
    let sentence = outcome.review.findings[0].sentence();
    for word in
        ["use mcr.microsoft.com/windows/servercore:ltsc2022", "add nodes for 10.0.26100", "ltsc2019", "ltsc2022"]
    {
        assert!(sentence.contains(word), "{word}: {sentence}");
    }
}

#[test]
fn images_that_disagree_are_one_line() {
    let object = pod(json!({"containers": [{"name": "web", "image": LTSC2022},
        {"name": "log-shipper", "image": "registry.example.com/very/long/path/to/fluent-bit:3.1-alpine"}]}));
    assert_eq!(
        warnings(&object),
        [
            "MUL102 mixed-os-containers: containers[1].image: the image of log-shipper is for Linux, and that of web for Windows"
        ]
    );
    let sentence = create(&object).review.findings[0].sentence();
    assert!(sentence.contains(LTSC2022) && sentence.contains("fluent-bit:3.1-alpine"), "{sentence}");
}

#[test]
fn options_for_windows_on_linux_are_one_line() {
    let options = json!({"windowsOptions": {"runAsUserName": "ContainerUser"}});
    let spec = json!({"nodeSelector": {"kubernetes.io/os": "linux"},
        "containers": [{"name": "c", "image": "app", "securityContext": options}]});
    let warning = &warnings(&workload("CronJob", spec))[0];
    assert!(warning.contains("containers[0]…windowsOptions: Linux nodes ignore windowsOptions"), "{warning}");
}

/// Ten containers with three fields each that do not work on Windows.
#[test]
fn thirty_violations_are_one_readable_response() {
    let containers: Vec<Value> = (0..10)
        .map(|n| {
            let security = json!({"runAsUser": n, "privileged": true, "readOnlyRootFilesystem": true});
            json!({"name": format!("c{n}"), "image": LTSC2022, "securityContext": security})
        })
        .collect();
    let outcome = create(&pod(json!({"hostNetwork": true, "containers": containers})));
    let denial = outcome.validate.denial.as_ref().unwrap();
    let lines: Vec<&str> = denial.message.lines().collect();
    assert_eq!(lines[0], format!("Pod p must be changed to run on Windows (image {LTSC2022}, by tag):"));
    assert_eq!(lines.len(), 23, "one line for each denied finding: {}", denial.message);
    assert_eq!(lines[22], "If this is a Linux image: set the annotation mullion.dev/os: linux in metadata.annotations");
    let mut named: Vec<String> = vec!["spec.hostNetwork".to_owned()];
    for n in 0..10 {
        named.push(format!("spec.containers[{n}].securityContext.runAsUser"));
        named.push(format!("spec.containers[{n}].securityContext.privileged"));
    }
    for path in &named {
        assert_eq!(lines.iter().filter(|line| line.contains(&format!(": {path}: "))).count(), 1, "{path}");
    }
    assert_eq!(denial.causes.len(), 21);
    assert!(denial.causes.iter().all(|cause| named.contains(&cause.field) && cause.reason.starts_with("MUL2")));
    // Above 4096 characters in total the API server shortens every warning, so the most important
    // comes first.
    let warnings = &outcome.mutate.warnings;
    assert!(warnings.iter().map(|warning| warning.chars().count()).sum::<usize>() < 4096);
}
