//! What only the cluster has is unknown: it never decides, and it prevents the Linux default.

use mullion_engine::model::{Basis, DetectedOs, Requester};
use mullion_engine::pod_templates::template_pods;
use serde_json::{Value, json};

use crate::findings::review;

fn decision(api_version: &str, kind: &str, object: &Value) -> (DetectedOs, Option<String>) {
    let found = template_pods(api_version, kind, object).unwrap();
    let [made] = found.pods.as_slice() else { panic!("{object}: {:?}", found.unread) };
    let review = review(&made.pod, Requester::Unknown, made.unknown.is_some());
    assert!(review.decision.basis != Basis::Default || made.unknown.is_none(), "{object}");
    (review.decision.os, made.unknown.clone())
}

#[test]
fn expressions_decide_nothing() {
    let argo =
        |template: Value| decision("argoproj.io/v1alpha1", "Workflow", &json!({"spec": {"templates": [template]}}));
    let unknown = |place: &str| Some(format!("the value of {place} is an expression"));
    let windows = "mcr.microsoft.com/windows/servercore:ltsc2022";
    for (template, os, what) in [
        (
            json!({"container": {"image": "{{inputs.parameters.image}}"}}),
            DetectedOs::Undecided,
            unknown("spec.templates[0].container.image"),
        ),
        (
            json!({"container": {"image": "mcr.microsoft.com/windows/servercore:{{inputs.parameters.tag}}"}}),
            DetectedOs::Undecided,
            unknown("spec.templates[0].container.image"),
        ),
        (
            json!({"nodeSelector": {"kubernetes.io/os": "{{x}}"}, "container": {"image": "example.com/a:1"}}),
            DetectedOs::Undecided,
            unknown("spec.templates[0].nodeSelector"),
        ),
        (
            json!({"nodeSelector": {"kubernetes.io/os": "{{x}}"}, "container": {"image": windows}}),
            DetectedOs::Windows,
            unknown("spec.templates[0].nodeSelector"),
        ),
        (
            json!({"podSpecPatch": "{}", "container": {"image": "example.com/a:1"}}),
            DetectedOs::Undecided,
            Some("spec.templates[0].podSpecPatch is applied in the cluster".to_owned()),
        ),
        (
            json!({"metadata": {"annotations": {"mullion.dev/os": "{{os}}"}}, "container": {"image": "example.com/a:1"}}),
            DetectedOs::Linux,
            None,
        ),
        (json!({"container": {"image": "example.com/a:1", "args": ["{{x}}"]}}), DetectedOs::Linux, None),
    ] {
        assert_eq!(argo(template.clone()), (os, what), "{template}");
    }
    let task = json!({"spec": {"steps": [{"name": "s", "image": "$(params.image)"}]}});
    assert_eq!(decision("tekton.dev/v1", "Task", &task).0, DetectedOs::Undecided);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "${IMAGE}"}]}});
    let template = json!({"objects": [pod]});
    let (os, what) = decision("template.openshift.io/v1", "Template", &template);
    assert_eq!((os, what), (DetectedOs::Undecided, unknown("objects[0].spec.containers[0].image")));
    let config = json!({"spec": {
        "triggers": [{"type": "ImageChange", "imageChangeParams": {"containerNames": ["c"]}}],
        "template": {"spec": {"containers": [{"name": "c", "image": " "}]}}}});
    let (os, what) = decision("apps.openshift.io/v1", "DeploymentConfig", &config);
    let expected = "an image change trigger sets the image of container c";
    assert_eq!((os, what.as_deref()), (DetectedOs::Undecided, Some(expected)));
    let runner = json!({"spec": {"template": {"spec": {"dockerEnabled": false}}}});
    assert_eq!(decision("actions.summerwind.dev/v1alpha1", "RunnerDeployment", &runner).0, DetectedOs::Undecided);
}

/// A finding about what the controller adds is at the part that the pod is created from.
#[test]
fn what_a_controller_adds_is_found_at_its_template() {
    let runner = |more: Value| {
        let mut spec = json!({"image": "example.com/runner:ltsc2022", "nodeSelector": {"kubernetes.io/os": "windows"}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let object = json!({"spec": {"template": {"spec": spec}}});
        let found = template_pods("actions.summerwind.dev/v1alpha1", "RunnerDeployment", &object).unwrap();
        let made = &found.pods[0];
        let findings = review(&made.pod, Requester::Unknown, false).findings;
        let privileged = findings.iter().filter(|finding| finding.code == "MUL203");
        privileged.map(|finding| made.origin(&finding.pointer)).collect::<Vec<_>>()
    };
    for (more, expected) in [
        (json!({}), vec!["/spec/template"]),
        (json!({"dockerEnabled": false}), vec![]),
        (json!({"dockerdWithinRunnerContainer": true}), vec!["/spec/template"]),
        (json!({"containerMode": "kubernetes"}), vec![]),
        (json!({"dockerEnabled": "no"}), vec!["/spec/template"]),
    ] {
        assert_eq!(runner(more.clone()), expected, "{more}");
    }
}

/// The owner in a template is not one that the API server confirms.
#[test]
fn a_template_names_no_owner() {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true}]);
    let container = json!({"name": "c", "image": "i", "securityContext": {"privileged": true}});
    let template = json!({"metadata": {"ownerReferences": owner}, "spec": {"nodeSelector": {"kubernetes.io/os": "windows"},
        "containers": [container]}});
    let found = template_pods("argoproj.io/v1alpha1", "Rollout", &json!({"spec": {"template": template}})).unwrap();
    assert!(found.pods[0].pod.pointer("/metadata/ownerReferences").is_none());
}
