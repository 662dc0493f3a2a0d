//! Objects of kinds that are not those of Kubernetes: `check`, `explain` and `mutate --templates`.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// `MUL203 20:11`: code and place of each finding of an action.
fn findings(ran: &Ran, action: &str) -> Vec<String> {
    let of_action = |record: &&Value| record["action"] == action;
    let records = records(ran);
    let found = records.iter().filter(|record| record["type"] == "finding").filter(of_action);
    found
        .map(|record| format!("{} {}:{}", record["code"].as_str().unwrap(), record["line"], record["column"]))
        .collect()
}

#[test]
fn a_workflow_is_denied_like_its_pod() {
    let ran = mullion(&["check", "templates/workflow.yaml"], "");
    assert_eq!((ran.code, ran.err.as_str()), (1, "mullion: 1 workload, 2 findings (1 denied, 1 warned)\n"));
    assert!(ran.out.starts_with("error[MUL203]: privileged: "), "{}", ran.out);
    assert!(ran.out.contains(" --> templates/workflow.yaml:20:11\n"), "{}", ran.out);
    let name = "note: Workflow dev/whoami: spec.templates[0].container.securityContext.privileged\n";
    assert!(ran.out.contains(name), "{}", ran.out);
    let pod = mullion(&["check", "-o", "json", "templates/workflow-pod.yaml"], "");
    let workflow = mullion(&["check", "-o", "json", "templates/workflow.yaml"], "");
    assert_eq!(findings(&pod, "Deny"), ["MUL203 16:23"]);
    assert_eq!(findings(&workflow, "Deny"), ["MUL203 20:11"]);
}

#[test]
fn runners_jobs_tasks_and_deployment_configurations_are_checked() {
    let ran = mullion(&["check", "-o", "json", "templates/runners.yaml"], "");
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert_eq!(findings(&ran, "Deny"), ["MUL201 13:46", "MUL201 36:43"]);
    assert!(findings(&ran, "Warn").contains(&"MUL307 27:45".to_owned()), "{}", ran.out);
    let ran = mullion(&["check", "-o", "json", "templates/deployment-config.yaml"], "");
    assert_eq!((ran.code, findings(&ran, "Deny")), (1, vec!["MUL203 10:95".to_owned()]));
    // A List, as kubectl prints it.
    let object = |name: &str| {
        let text = fs::read_to_string(Path::new("tests/cli/templates").join(name)).unwrap();
        documents("a.yaml", &text).into_iter().map(|document| document.unwrap().node.to_json()).collect::<Vec<_>>()
    };
    let items = [object("workflow.yaml"), object("runners.yaml"), object("deployment-config.yaml")].concat();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let ran = mullion(&["check", "-o", "json", "-"], &list);
    assert_eq!((ran.code, findings(&ran, "Deny").len()), (1, 4), "{}", ran.err);
}

const REFERENCES: &str = "\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: a, namespace: dev}
spec: {workflowTemplateRef: {name: build}}
---
apiVersion: tekton.dev/v1
kind: PipelineRun
metadata: {generateName: b-}
spec: {pipelineSpec: {tasks: [{name: x, taskRef: {name: t}}, {name: y, taskRef: {name: u}}]}}
---
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: c}
spec: {workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
---
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: d}
spec: {templates: 5}
";

#[test]
fn what_is_only_in_the_cluster_is_not_read() {
    let expected = "\
mullion: not read: <stdin>:1: Workflow dev/a: spec.workflowTemplateRef: its templates are those of the WorkflowTemplate build in the cluster
mullion: not read: <stdin>:6: PipelineRun b-: spec.pipelineSpec.tasks[0].taskRef: it is the Task t in the cluster; and 1 more part
mullion: not read: <stdin>:11: Rollout c: spec.workloadRef: its pod template is that of Deployment web
mullion: not read: <stdin>:16: Workflow d: spec.templates: it is not a list
";
    let counts = "mullion: 0 workloads, 0 findings, 4 not read\n";
    for format in ["text", "json", "sarif", "github"] {
        for (fail_on, code) in [("deny", 0), ("warn", 0), ("unread", 1)] {
            let ran = mullion(&["check", "-o", format, "--fail-on", fail_on, "-"], REFERENCES);
            assert_eq!((ran.code, ran.err), (code, format!("{expected}{counts}")), "{format} {fail_on}");
        }
    }
    let ran = mullion(&["check", "-o", "json", "-"], REFERENCES);
    let records = records(&ran);
    let unread: Vec<&Value> = of_type(&records, "unread");
    assert_eq!(unread.len(), 4);
    assert_eq!(unread[2]["input"], "<stdin>:11: Rollout c");
    assert_eq!(records.last().unwrap()["notRead"], 4);
    let ran = mullion(&["explain", "-"], REFERENCES);
    assert_eq!(ran.err, format!("{expected}mullion: nothing to explain: no pod and no object with a pod template\n"));
}

#[test]
fn an_unknown_kind_only_warns() {
    let object = |api_version: &str, kind: &str| {
        format!(
            "apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: a}}\nspec:\n  tasks:\n  - template:\n      spec:\n        \
             nodeSelector: {{kubernetes.io/os: windows}}\n        containers:\n        - {{name: c, image: i, \
             securityContext: {{privileged: true}}}}\n"
        )
    };
    let ran = mullion(&["check", "-"], &object("batch.volcano.sh/v1alpha1", "Job"));
    assert_eq!((ran.code, ran.err.as_str()), (0, "mullion: 1 workload, 2 findings (2 warned)\n"));
    assert!(ran.out.contains("warning[MUL203]: privileged"), "{}", ran.out);
    let note = "note: this only warns: the kind is not known, and its pod template was found by its shape\n";
    assert!(ran.out.contains(note), "{}", ran.out);
    let ran = mullion(&["check", "-o", "json", "-"], &object("batch.volcano.sh/v1alpha1", "Job"));
    let all = records(&ran);
    assert_eq!(
        of_type(&all, "workload")[0]["onlyWarns"],
        "the kind is not known, and its pod template was found by its shape"
    );
    for (api_version, kind) in [("kyverno.io/v1", "ClusterPolicy"), ("mutations.gatekeeper.sh/v1", "Assign")] {
        let ran = mullion(&["check", "-"], &object(api_version, kind));
        assert_eq!(ran.err, "mullion: 0 workloads, 0 findings, 1 other object\n", "{kind}");
    }
    let ran = mullion(&["mutate", "--templates", "--diff", "-"], &object("batch.volcano.sh/v1alpha1", "Job"));
    let expected = "mullion: <stdin>:1: Job a stays as it is: its kind is not known, and its pod template was found by its shape\n";
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", expected));
}

#[test]
fn policies_for_an_earlier_version_warn_about_kinds_that_they_do_not_know() {
    let dir = dir();
    let check = |version: &str, file: &str| {
        let policy = format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: ours}}\nspec: {{priority: 1, rules: {{version: \"{version}\"}}}}\n"
        );
        let path = write(&dir, "ours.yaml", policy);
        let ran = mullion(&["check", "--policies", &path, file], "");
        (ran.code, ran.err, path)
    };
    let (code, err, path) = check("0.0", "templates/workflow.yaml");
    let expected = format!(
        "mullion: denials only warn: objects of this kind are read since Mullion 0.1, and rules.version is 0.0 ({path}:4)\n\
         mullion: 1 workload, 2 findings (2 warned)\n"
    );
    assert_eq!((code, err), (0, expected));
    assert_eq!(check("0.1", "templates/workflow.yaml").0, 1);
    let (code, err, path) = check("0.0", "templates/runners.yaml");
    assert_eq!((code, err.matches(&path).count()), (0, 1), "one line for all of them: {err}");
}

#[test]
fn each_pod_of_an_object_is_explained() {
    let text = "\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {name: hybrid}
spec:
  entrypoint: both
  nodeSelector: {kubernetes.io/os: linux}
  templates:
  - name: both
    steps: [[{name: a, template: win}, {name: b, template: lin}, {name: c, template: any}]]
  - name: win
    nodeSelector: {kubernetes.io/os: windows}
    container: {image: example.com/a}
  - name: lin
    container: {image: example.com/a}
  - name: any
    nodeSelector: {pool: a}
    container: {image: '{{inputs.parameters.image}}'}
";
    let ran = mullion(&["explain", "-"], text);
    let heads: Vec<&str> =
        ran.out.lines().filter(|line| line.starts_with("Workflow") || line.starts_with("  os: ")).collect();
    let expected = [
        "Workflow default/hybrid spec.templates[1] (<stdin>:1)",
        "  os: windows, because of spec.templates[1].nodeSelector[kubernetes.io/os]",
        "Workflow default/hybrid spec.templates[2] (<stdin>:1)",
        "  os: linux, because of spec.nodeSelector[kubernetes.io/os]",
        "Workflow default/hybrid spec.templates[3] (<stdin>:1)",
        "  os: undecided: there is no evidence",
    ];
    assert_eq!(heads, expected, "{}", ran.out);
    assert!(
        ran.out.contains("  no Linux default: the value of spec.templates[3].container.image is an expression\n"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("  changes to its pods:\n    spec.tolerations: os=windows:NoSchedule"), "{}", ran.out);
    let ran = mullion(&["explain", "-o", "json", "-"], text);
    let first: Value = serde_json::from_str(ran.out.lines().next().unwrap()).unwrap();
    assert_eq!(first["object"]["pod"], "spec.templates[1]");
    assert_eq!(first["evidence"][0]["pointer"], "/spec/templates/1/nodeSelector/kubernetes.io~1os");
    assert_eq!(first["changes"], json!([]));
    assert_ne!(first["podChanges"], json!([]));
}

#[test]
fn templates_are_written_only_where_their_controllers_create_pods_from_them() {
    for file in ["workflow.yaml", "runners.yaml", "deployment-config.yaml"] {
        let path = format!("templates/{file}");
        let ran = mullion(&["mutate", "--diff", &path], "");
        assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{file}: {}", ran.err);
    }
    let ran = mullion(&["mutate", "--templates", "--diff", "templates/workflow.yaml"], "");
    let why = "a field of a template replaces the same field of the workflow and of the defaults in the cluster";
    assert_eq!(ran.err, format!("mullion: templates/workflow.yaml:1: Workflow dev/whoami stays as it is: {why}\n"));
    assert_eq!((ran.code, ran.out.as_str()), (0, ""));
    // The runner is denied, the job is placed, and the task stays.
    let ran = mullion(&["mutate", "--templates", "--diff", "templates/runners.yaml"], "");
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("AutoscalingRunnerSet arc-runners/win-runners is denied and stays as it is:\n"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains(": TaskRun win-build stays as it is: a field of a podTemplate replaces"), "{}", ran.err);
    let added: Vec<&str> = ran.out.lines().filter(|line| line.starts_with('+')).skip(1).collect();
    assert!(added.contains(&"+        tolerations:"), "{}", ran.out);
    assert!(!ran.out.lines().skip(2).any(|line| line.starts_with('-')), "nothing is removed: {}", ran.out);
}

/// Object kinds into whose templates `mutate` writes, each with the place of its template.
const WRITTEN: [(&str, &str, &str); 6] = [
    ("argoproj.io/v1alpha1", "Rollout", "/spec/template"),
    ("keda.sh/v1alpha1", "ScaledJob", "/spec/jobTargetRef/template"),
    ("actions.github.com/v1alpha1", "AutoscalingRunnerSet", "/spec/template"),
    ("agones.dev/v1", "Fleet", "/spec/template/spec/template"),
    ("apps.kruise.io/v1beta1", "DaemonSet", "/spec/template"),
    ("apps.openshift.io/v1", "DeploymentConfig", "/spec/template"),
];

fn around(pointer: &str, template: Value) -> Value {
    pointer.rsplit('/').filter(|key| !key.is_empty()).fold(template, |inner, key| json!({ key: inner }))
}

fn placement() -> impl Strategy<Value = Value> {
    let os = prop::sample::select(vec!["windows", "linux", "any"]);
    let selector = prop::collection::btree_map("[a-c]", "[x-z]", 0..3);
    let toleration = prop::sample::select(vec![
        json!({"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}),
        json!({"key": "gpu", "operator": "Exists"}),
        json!({"operator": "Exists"}),
    ]);
    let term = prop::sample::select(vec![
        json!({"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}),
        json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}),
        json!({"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]}]}),
    ]);
    let image =
        prop::sample::select(vec!["mcr.microsoft.com/windows/servercore:ltsc2022", "alpine:3.20", "example.com/a"]);
    let parts = (os, selector, prop::collection::vec(toleration, 0..3), prop::collection::vec(term, 0..3), image);
    parts.prop_map(|(os, selector, tolerations, terms, image)| {
        let mut spec = json!({"containers": [{"name": "a", "image": image}]});
        let mut selector = json!(selector);
        if os != "any" {
            selector["kubernetes.io/os"] = json!(os);
        }
        spec["nodeSelector"] = selector;
        spec["tolerations"] = json!(tolerations);
        if !terms.is_empty() {
            let required = json!({"nodeSelectorTerms": terms});
            spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
        }
        json!({"spec": spec})
    })
}

const TERMS: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn writing_keeps_every_selector_toleration_and_term(templates in prop::collection::vec((0..WRITTEN.len(), placement()), 1..8)) {
        let object = |(at, (row, template)): (usize, &(usize, Value))| {
            let (api_version, kind, pointer) = WRITTEN[*row];
            let mut object = around(pointer, template.clone());
            object["apiVersion"] = json!(api_version);
            object["kind"] = json!(kind);
            object["metadata"] = json!({"name": format!("o{at}")});
            object
        };
        let items: Vec<Value> = templates.iter().enumerate().map(object).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        let ran = mullion(&["mutate", "--templates", "-"], &list.to_string());
        prop_assert!(ran.code <= 1, "{}", ran.err);
        let after: Value = serde_json::from_str(&ran.out).unwrap();
        for (at, (row, before)) in templates.iter().enumerate() {
            let after = after["items"][at].pointer(WRITTEN[*row].2).unwrap();
            for (key, value) in before["spec"]["nodeSelector"].as_object().unwrap() {
                prop_assert_eq!(&after["spec"]["nodeSelector"][key], value, "{}", after);
            }
            let kept = after["spec"]["tolerations"].as_array().unwrap();
            for toleration in before["spec"]["tolerations"].as_array().unwrap() {
                prop_assert!(kept.contains(toleration), "{} {}", toleration, after);
            }
            let empty = Vec::new();
            let terms = |template: &Value| template.pointer(TERMS).and_then(Value::as_array).unwrap_or(&empty).clone();
            let (old, new) = (terms(before), terms(after));
            prop_assert!(old.is_empty() || old.len() == new.len(), "{}", after);
            for (old, new) in old.iter().zip(&new) {
                for list in ["matchExpressions", "matchFields"] {
                    for requirement in old[list].as_array().into_iter().flatten() {
                        prop_assert!(new[list].as_array().unwrap().contains(requirement), "{} {}", requirement, after);
                    }
                }
            }
        }
    }
}

/// Many templates are checked with one finding for a field that all of them get from one place.
#[test]
fn a_field_of_many_pods_is_reported_once() {
    let templates: Vec<Value> = (0..2_000)
        .map(|at| json!({"name": format!("t{at}"), "container": {"image": "i", "resources": {"limits": {"memory": "1Gi"}}}}))
        .collect();
    let object = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "a"}, "spec": {
        "nodeSelector": {"kubernetes.io/os": "windows"}, "securityContext": {"runAsUser": 1}, "templates": templates}});
    let ran = mullion(&["check", "-"], &object.to_string());
    assert_eq!((ran.code, ran.err.as_str()), (1, "mullion: 2000 workloads, 1 finding (1 denied)\n"));
}
