//! Pod templates in objects of kinds that are not known.

use mullion_engine::pod_templates::{PATTERN_GROUPS, template_pods};
use serde_json::{Value, json};

fn sites(api_version: &str, kind: &str, object: &Value) -> Vec<String> {
    let found = template_pods(api_version, kind, object);
    found.map_or_else(Vec::new, |found| {
        assert!(found.by_shape() && found.pods.iter().all(|made| found.not_written(made).is_some()));
        found.pods.into_iter().map(|made| made.site).collect()
    })
}

#[test]
fn a_map_with_containers_that_have_images_is_a_pod_template() {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (object, expected) in [
        (json!({"spec": {"template": template}}), vec!["/spec/template"]),
        (
            json!({"spec": {"tasks": [{"template": template}, {"x": {"y": template}}]}}),
            vec!["/spec/tasks/0/template", "/spec/tasks/1/x/y"],
        ),
        (template.clone(), vec![""]),
        (json!({"spec": {"a/b": template}}), vec!["/spec/a~1b"]),
        (json!({"status": {"template": template}, "metadata": {"x": template}}), vec![]),
        (json!({"spec": {"template": {"spec": {"containers": []}}}}), vec![]),
        (json!({"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}}), vec![]),
        (json!({"spec": {"template": {"spec": {"containers": [{"image": 5}, "x"]}}}}), vec![]),
        (json!({"spec": {"template": {"spec": {"containers": {"image": "i"}}}}}), vec![]),
    ] {
        assert_eq!(sites("example.com/v1", "Thing", &object), expected, "{object}");
    }
    // Kinds with the names of known ones in other groups.
    let object = json!({"spec": {"template": template}});
    for (api_version, kind) in [("batch.volcano.sh/v1alpha1", "Job"), ("example.com/v1", "Workflow"), ("v1", "Thing")] {
        assert_eq!(sites(api_version, kind, &object), ["/spec/template"], "{api_version} {kind}");
    }
}

#[test]
fn the_number_of_pod_templates_is_bounded() {
    let template = json!({"spec": {"containers": [{"image": "i"}]}});
    let object = json!({"spec": {"all": vec![template; 10_000]}});
    assert_eq!(sites("example.com/v1", "Thing", &object).len(), 100);
}

#[test]
fn patterns_of_policies_are_no_pods() {
    let object =
        json!({"spec": {"rules": [{"validate": {"pattern": {"spec": {"containers": [{"image": "!*:latest"}]}}}}]}});
    for (api_version, kind) in [
        ("kyverno.io/v1", "ClusterPolicy"),
        ("policies.kyverno.io/v1", "ValidatingPolicy"),
        ("templates.gatekeeper.sh/v1", "ConstraintTemplate"),
        ("constraints.gatekeeper.sh/v1beta1", "K8sAllowedRepos"),
        ("mutations.gatekeeper.sh/v1", "Assign"),
        ("policies.kubewarden.io/v1", "ClusterAdmissionPolicy"),
        ("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("apps/v1", "ControllerRevision"),
        ("apps.kruise.io/v1alpha1", "SidecarSet"),
        ("mullion.dev/v1alpha1", "PolicyTest"),
    ] {
        assert_eq!(sites(api_version, kind, &object), [""; 0], "{api_version} {kind}");
    }
    for (api_version, kind) in [("notkyverno.io/v1", "Policy"), ("apps.kruise.io/v1alpha1", "AdvancedCronJob")] {
        assert_eq!(sites(api_version, kind, &object).len(), 1, "{api_version} {kind}");
    }
    assert!(PATTERN_GROUPS.iter().all(|row| !row.source.is_empty() && !row.contents.is_empty()));
}
