//! Objects with wrong types and hostile sizes: they are read as far as possible, and their cost is proportional to their
//! size.

use mullion_engine::model::Requester;
use mullion_engine::pod_templates::template_pods;
use serde_json::{Value, json};

use crate::examples::all;
use crate::findings::{assert_origins, review};

fn pointers(value: &Value, pointer: String, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                pointers(value, format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, value)| pointers(value, format!("{pointer}/{at}"), found));
        }
        _ => {}
    }
    found.push(pointer);
}

/// Each value of each example is replaced by values of other types.
#[test]
fn a_wrong_type_anywhere_is_read_or_reported() {
    let wrong =
        [json!(null), json!(5), json!("x"), json!([]), json!({}), json!([[{"spec": 1}], null]), json!({"a": [null]})];
    for example in all() {
        let object = &example.object;
        let mut places = Vec::new();
        pointers(&object.value, String::new(), &mut places);
        for place in places {
            for value in &wrong {
                let mut changed = object.value.clone();
                *changed.pointer_mut(&place).unwrap() = value.clone();
                let title = format!("{} with {value} at {place}", example.title());
                let Some(found) = template_pods(&object.api_version, &object.kind, &changed) else {
                    panic!("{title}: its kind has pods");
                };
                for made in &found.pods {
                    assert_origins(&title, &changed, made);
                    review(&made.pod, Requester::Unknown, made.unknown.is_some());
                }
                for unread in &found.unread {
                    assert!(changed.pointer(&unread.pointer).is_some(), "{title}: {unread:?}");
                }
            }
        }
    }
}

#[test]
fn an_unexpected_shape_is_not_read() {
    for (api_version, kind, object, expected) in [
        ("argoproj.io/v1alpha1", "Workflow", json!({"spec": {"templates": 5}}), "/spec/templates: it is not a list"),
        ("argoproj.io/v1alpha1", "Workflow", json!({"spec": {}}), "/spec: it has no templates"),
        (
            "argoproj.io/v1alpha1",
            "Workflow",
            json!({"spec": {"templates": [{"container": []}]}}),
            "/spec/templates/0/container: it is not a map",
        ),
        (
            "argoproj.io/v1alpha1",
            "Workflow",
            json!({"spec": {"templates": [{"containerSet": {}}]}}),
            "/spec/templates/0/containerSet: it has no list of containers",
        ),
        ("argoproj.io/v1alpha1", "CronWorkflow", json!({"spec": {}}), ": it has no spec.workflowSpec"),
        (
            "argoproj.io/v1alpha1",
            "Rollout",
            json!({"spec": {"workloadRef": {"kind": "Deployment", "name": "web"}}}),
            "/spec/workloadRef: its pod template is that of Deployment web",
        ),
        ("tekton.dev/v1", "Task", json!({"spec": {"steps": {}}}), "/spec: it has no list of steps"),
        (
            "tekton.dev/v1",
            "TaskRun",
            json!({"spec": {"taskRef": {"name": "build"}}}),
            "/spec/taskRef: it is the Task build in the cluster",
        ),
        (
            "tekton.dev/v1",
            "Pipeline",
            json!({"spec": {"tasks": [{"name": "a", "taskRef": {"resolver": "git"}}]}}),
            "/spec/tasks/0/taskRef: it is the Task git in the cluster",
        ),
        ("tekton.dev/v1", "Pipeline", json!({"spec": {"tasks": 1}}), "/spec/tasks: it is not a list"),
        ("keda.sh/v1alpha1", "ScaledJob", json!({"spec": {}}), ": it has no spec.jobTargetRef.template"),
        (
            "agones.dev/v1",
            "Fleet",
            json!({"spec": {"template": {"spec": {"template": {"spec": {"containers": {}}}}}}}),
            "/spec/template/spec/template/spec: its containers are not a list",
        ),
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            json!({"spec": {"replicatedJobs": {}}}),
            "/spec/replicatedJobs: it is not a list",
        ),
        ("template.openshift.io/v1", "Template", json!({"objects": 1}), "/objects: it is not a list"),
        (
            "actions.summerwind.dev/v1alpha1",
            "RunnerDeployment",
            json!({"spec": {"template": {}}}),
            "/spec/template: it has no spec",
        ),
    ] {
        let found = template_pods(api_version, kind, &object).unwrap();
        let unread: Vec<String> = found.unread.iter().map(|part| format!("{}: {}", part.pointer, part.why)).collect();
        assert_eq!((found.pods.len(), unread), (0, vec![expected.to_owned()]), "{kind} {object}");
    }
}

fn size(value: &Value) -> usize {
    value.to_string().len()
}

/// A placement that each of many pods gets would take the product of both sizes.
#[test]
fn the_pods_of_an_object_take_memory_in_proportion_to_it() {
    let container = json!({"image": "a", "command": ["b"]});
    let templates = |count: usize| -> Vec<Value> {
        (0..count).map(|at| json!({"name": format!("t{at}"), "container": container})).collect()
    };
    let workflow = |count: usize, bytes: usize| json!({"spec": {"templates": templates(count), "nodeSelector": {"pool": "x".repeat(bytes)}}});
    for (count, bytes, complete) in
        [(10_000, 10, true), (10, 10_000_000, true), (100, 1_000_000, false), (10_000, 100_000, false)]
    {
        let object = workflow(count, bytes);
        let found = template_pods("argoproj.io/v1alpha1", "Workflow", &object).unwrap();
        let taken: usize = found.pods.iter().map(|made| size(&made.pod)).sum();
        assert!(taken <= 40 * size(&object) + (4 << 20), "{taken} of {}", size(&object));
        assert_eq!(found.pods.len() == count, complete, "{count} {bytes}");
        assert_eq!(found.unread.is_empty(), complete, "{:?}", found.unread);
    }
    // One template of 10 MB is read.
    let large =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "args": ["x".repeat(10_000_000)]}]}}}});
    assert_eq!(template_pods("argoproj.io/v1alpha1", "Rollout", &large).unwrap().pods.len(), 1);
}

/// Every template calls every other one, and each has a placement.
#[test]
fn callers_with_placement_are_bounded_too() {
    let templates: Vec<Value> = (0..200)
        .map(|at| {
            let steps: Vec<Value> = (0..200).map(|to| json!([{"name": "s", "template": format!("t{to}")}])).collect();
            json!({"name": format!("t{at}"), "nodeSelector": {"at": format!("{at}")}, "steps": steps})
        })
        .chain([json!({"name": "t7", "container": {"image": "a"}})])
        .collect();
    let object = json!({"spec": {"templates": templates}});
    let found = template_pods("argoproj.io/v1alpha1", "WorkflowTemplate", &object).unwrap();
    assert_eq!(found.pods.len(), 200, "one pod for each placement that it can get");
}

#[test]
fn deep_objects_are_read_as_deep_as_they_are_known() {
    let mut deep = json!({"spec": {"containers": [{"image": "a"}]}});
    for _ in 0..100 {
        deep = json!({"a": [deep]});
    }
    assert!(template_pods("example.com/v1", "Deep", &deep).is_none());
    let mut template = json!({"kind": "Pod", "apiVersion": "v1", "spec": {"containers": [{"image": "a"}]}});
    for _ in 0..60 {
        template = json!({"apiVersion": "template.openshift.io/v1", "kind": "Template", "objects": [template]});
    }
    let found = template_pods("template.openshift.io/v1", "Template", &template).unwrap();
    assert!(found.pods.len() <= 1, "{}", found.pods.len());
}
