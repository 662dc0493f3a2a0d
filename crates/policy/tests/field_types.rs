//! Manifests that the API server could not decode.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::fs;
use std::path::Path;

use mullion_engine::model::settings::{Action, Settings};
use mullion_engine::model::{MinorVersion, WorkloadKind};
use mullion_engine::rules::field_types::check;
use mullion_engine::rules::{Finding, RejectedBy};
use mullion_policy::PolicySet;
use proptest::prelude::*;
use serde_json::{Value, json};

const KINDS: [&str; 9] = [
    "Pod",
    "PodTemplate",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "CronJob",
];

/// The findings in the objects of a file.
fn in_yaml(text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for document in mullion_manifest::documents("t.yaml", text) {
        for object in mullion_manifest::objects(&document.unwrap()) {
            let object = object.unwrap();
            if let Some(kind) = WorkloadKind::from_name(&object.kind) {
                found.extend(check::check(kind, &object.value, &Settings::default(), None));
            }
        }
    }
    found
}

fn in_object(object: &Value) -> Vec<Finding> {
    let kind = WorkloadKind::from_name(object["kind"].as_str().unwrap()).unwrap();
    check::check(kind, object, &Settings::default(), None)
}

/// A pod with these lines in its container and in its spec.
fn pod(container: &str, spec: &str) -> String {
    let indented = |text: &str, by: &str| text.lines().fold(String::new(), |all, line| all + by + line + "\n");
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n{}  containers:\n  - name: c\n    image: nginx\n{}",
        indented(spec, "  "),
        indented(container, "    "),
    )
}

#[test]
fn help_for_containers() {
    let c = "spec.containers[0]";
    for (lines, path, sentence) in [
        ("command: dir", "command", "expected a list of strings, found a string; write command: [\"dir\"]"),
        (
            "command: cmd /c dir",
            "command",
            "expected a list of strings, found a string; write command as a list with an item for each word",
        ),
        ("args: [-p, 8080]", "args[1]", "expected a string, found an integer; put it in quotes"),
        ("args: [on]", "args[0]", "expected a string, found a boolean; put it in quotes"),
        (
            "args: 8080",
            "args",
            "expected a list of strings, found an integer; write args as a list, with the value in quotes",
        ),
        ("env: [{name: A, value: 8080}]", "env[0].value", "expected a string, found an integer; put it in quotes"),
        ("env: [{name: A, value: 1.5}]", "env[0].value", "expected a string, found a number; put it in quotes"),
        ("env: {A: b}", "env", "expected a list of maps, found a map; write each entry as a list item: - name: A"),
        ("env: [{A: b}]", "env[0].A", "no field A in an env var of Kubernetes 1.38; remove it, or look the name up"),
        (
            "ports: {containerPort: 80}",
            "ports",
            "expected a list of maps, found a map; put a dash before it: - containerPort: …",
        ),
        (
            "ports: [80]",
            "ports[0]",
            "expected a map, found an integer; write its entries as key: value on lines of their own",
        ),
        (
            "ports: [{containerPort: \"80\"}]",
            "ports[0].containerPort",
            "expected an integer, found a string; write 80 without quotes",
        ),
        (
            "ports: [{containerPort: 80.5}]",
            "ports[0].containerPort",
            "expected an integer, found 80.5; write a whole number",
        ),
        (
            "ports: [{containerPort: 3000000000}]",
            "ports[0].containerPort",
            "expected an integer of 32 bits, found 3000000000; write a whole number",
        ),
        (
            "livenessProbe: {httpGet: {port: yes}}",
            "livenessProbe.httpGet.port",
            "expected an integer or a string, found a boolean; write a whole number, or a name in quotes",
        ),
        (
            "ports: [{containerPort: \"0080\"}]",
            "ports[0].containerPort",
            "expected an integer, found a string; write a whole number",
        ),
        ("stdin: \"true\"", "stdin", "expected a boolean, found a string; write true without quotes"),
        ("stdin: 1", "stdin", "expected a boolean, found an integer; write true or false"),
        ("resources: {limits: {memory: 512MB}}", "resources.limits.memory", "`512MB` is not a quantity; write 512M"),
        ("resources: {limits: {memory: 1 GiB}}", "resources.limits.memory", "`1 GiB` is not a quantity; write 1Gi"),
        (
            "resources: {limits: {memory: lots}}",
            "resources.limits.memory",
            "`lots` is not a quantity; write a number, or one with a unit such as 500m, 512Mi or 2G",
        ),
        (
            "resources: {limit: {cpu: 1}}",
            "resources.limit",
            "no field limit in resource requirements; did you mean limits?",
        ),
        ("limits: {cpu: 1}", "limits", "no field limits in a container; write it as resources.limits"),
        (
            "privileged: true",
            "privileged",
            "no field privileged in a container; write it as securityContext.privileged",
        ),
        ("nodeSelector: {a: b}", "nodeSelector", "no field nodeSelector in a container; write it in spec"),
        (
            "apiVersion: v1",
            "apiVersion",
            "no field apiVersion in a container; write it in the object itself, next to kind",
        ),
        (
            "securityContext: {windowsOptions: {runAsUsername: a}}",
            "securityContext.windowsOptions.runAsUsername",
            "no field runAsUsername in windowsOptions; did you mean runAsUserName?",
        ),
        ("workingDir: [a]", "workingDir", "expected a string, found a list; write one text"),
    ] {
        let found = in_yaml(&pod(lines, ""));
        assert_eq!(found.len(), 1, "{lines}: {found:#?}");
        assert_eq!(
            (found[0].path.as_str(), found[0].message_with_help().as_str()),
            (&*format!("{c}.{path}"), sentence),
            "{lines}"
        );
    }
}

#[test]
fn help_for_pods() {
    for (lines, path, sentence) in [
        (
            "tolerations: [{key: os, Effect: NoSchedule}]",
            "spec.tolerations[0].Effect",
            "no field Effect in a toleration; did you mean effect?",
        ),
        (
            "tolerations: [{operator: Exists, tolerationSeconds: \"5\"}]",
            "spec.tolerations[0].tolerationSeconds",
            "expected an integer, found a string; write 5 without quotes",
        ),
        ("nodeSelector: {gpu: true}", "spec.nodeSelector.gpu", "expected a string, found a boolean; put it in quotes"),
        (
            "nodeSelector: [{a: b}]",
            "spec.nodeSelector",
            "expected a map of strings, found a list; write its entries as key: value, without dashes",
        ),
        (
            "nodeSelectors: {a: b}",
            "spec.nodeSelectors",
            "no field nodeSelectors in a Pod spec; did you mean nodeSelector?",
        ),
        (
            "nodeAffinity: {}",
            "spec.nodeAffinity",
            "no field nodeAffinity in a Pod spec; write it as affinity.nodeAffinity",
        ),
        (
            "volumes: [{name: v, emptyDir: \"\"}]",
            "spec.volumes[0].emptyDir",
            "expected a map, found a string; write emptyDir: {} or leave it out",
        ),
        ("affinity: []", "spec.affinity", "expected a map, found a list; write affinity: {} or leave it out"),
        (
            "securityContext: {supplementalGroups: 1000}",
            "spec.securityContext.supplementalGroups",
            "expected a list of integers, found an integer; write supplementalGroups: [1000]",
        ),
        (
            "terminationGracePeriodSeconds: 1e21",
            "spec.terminationGracePeriodSeconds",
            "expected an integer, found 1e+21; write a whole number",
        ),
    ] {
        let found = in_yaml(&pod("", lines));
        assert_eq!(found.len(), 1, "{lines}: {found:#?}");
        assert_eq!((found[0].path.as_str(), found[0].message_with_help().as_str()), (path, sentence), "{lines}");
    }
}

#[test]
fn what_is_right_is_left_alone() {
    for (container, spec) in [
        ("command: null\nargs: [a, null]\nenv:", "hostNetwork: null\nnodeSelector: {a: null}"),
        ("resources: {limits: {cpu: 0.5, memory: 1073741824, a/b: \"1\"}, requests: {cpu: }}", "overhead: {cpu: 1e3}"),
        ("ports: [{containerPort: 8080.0}]", "terminationGracePeriodSeconds: 0x1E"),
        ("livenessProbe: {httpGet: {port: web}}\nreadinessProbe: {httpGet: {port: 80}}", "hostNetwork: off"),
        (
            "env: [{name: A, value: \"on\"}]",
            "volumes: [{name: v, emptyDir: {}}, {name: w, configMap: {defaultMode: 0644}}]",
        ),
    ] {
        assert_eq!(in_yaml(&pod(container, spec)), [], "{container} {spec}");
    }
}

/// A 1.0 in JSON also counts: kubectl parses it as a float and writes it as 1.
#[test]
fn a_dump_is_clean() {
    let dump = r#"{"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "apps/v1", "kind": "Deployment",
         "metadata": {"name": "d", "creationTimestamp": null, "generation": 1.0, "managedFields": [
            {"manager": "m", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}, "time": "2026-01-01T00:00:00Z"}]},
         "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
            "template": {"metadata": {"creationTimestamp": null}, "spec": {"containers": []}}},
         "status": {"anyThing": {"newer": [1, {}]}}}]}"#;
    assert_eq!(in_yaml(dump), []);
}

#[test]
fn every_kind_is_walked_to_its_pod() {
    let paths = [
        ("Pod", "/spec"),
        ("PodTemplate", "/template/spec"),
        ("ReplicationController", "/spec/template/spec"),
        ("ReplicaSet", "/spec/template/spec"),
        ("Deployment", "/spec/template/spec"),
        ("StatefulSet", "/spec/template/spec"),
        ("DaemonSet", "/spec/template/spec"),
        ("Job", "/spec/template/spec"),
        ("CronJob", "/spec/jobTemplate/spec/template/spec"),
    ];
    for (kind, spec) in paths {
        let mut object = json!({"hostNetwork": "true", "containers": [{"name": 1, "Image": "a"}]});
        for token in spec.split('/').skip(1).collect::<Vec<_>>().into_iter().rev() {
            object = json!({ token: object });
        }
        // The version matters to the API server, which rejects an old one as a whole, and not to the findings.
        for version in ["v1", "apps/v1", "batch/v1", "extensions/v1beta1"] {
            object["apiVersion"] = json!(version);
            object["kind"] = json!(kind);
            let found: Vec<(&str, String)> =
                in_object(&object).into_iter().map(|finding| (finding.code, finding.pointer)).collect();
            let at = |below: &str| format!("{spec}{below}");
            assert_eq!(
                found,
                [
                    ("MUL801", at("/containers/0/name")),
                    ("MUL801", at("/hostNetwork")),
                    ("MUL802", at("/containers/0/Image")),
                ],
                "{kind}"
            );
        }
    }
}

#[test]
fn a_level_that_was_left_out_is_named() {
    let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "nodeSelector": {}, "labels": {},
        "spec": {"tolerations": [], "template": {"containers": [], "replicas": 1, "spec": {"selector": {}}}}});
    let mut messages: Vec<String> =
        in_object(&object).iter().map(|finding| format!("{}: {}", finding.path, finding.help)).collect();
    messages.sort();
    assert_eq!(
        messages,
        [
            "labels: write it as metadata.labels",
            "nodeSelector: write it as spec.template.spec.nodeSelector",
            "spec.template.containers: write it as spec.containers",
            "spec.template.replicas: write it in spec",
            "spec.template.spec.selector: write it in spec",
            "spec.tolerations: write it as template.spec.tolerations",
        ]
    );
    // Below an unknown field, or a value of a wrong type, there is nothing to compare with.
    object = json!({"kind": "Pod", "metadata": [{"labels": 1}], "spce": {"containers": 1}});
    let found = in_object(&object);
    let paths: Vec<&str> = found.iter().map(|finding| finding.path.as_str()).collect();
    assert_eq!(paths, ["metadata", "spce"]);
    assert_eq!(found[1].help.to_string(), "did you mean spec?");
}

#[test]
fn the_server_rejects_a_wrong_type_and_nothing_an_unknown_field() {
    let found = in_yaml(&pod("command: dir\nfoo: bar", ""));
    let [wrong, unknown] = found.as_slice() else { panic!("{found:#?}") };
    assert_eq!((wrong.code, wrong.rule), ("MUL801", "wrong-type"));
    assert_eq!((wrong.action, wrong.rejected_by), (Action::Deny, RejectedBy::ApiServer));
    assert_eq!((unknown.code, unknown.rule), ("MUL802", "unknown-field"));
    assert_eq!((unknown.action, unknown.rejected_by), (Action::Warn, RejectedBy::None));
}

#[test]
fn policies_decide_and_denials_do_not() {
    let settings = |rules: &str| {
        let text = format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: p}}\nspec:\n  priority: 1\n{rules}"
        );
        let policies = PolicySet::from_files(&[("p.yaml", &text)]).unwrap();
        let object = json!({"spec": {}});
        let pod = mullion_engine::model::pod_view::Pod::of(WorkloadKind::Pod, &object).unwrap();
        policies.settings("default", None, &pod)
    };
    let actions = |object: &Value, rules: &str| {
        let found = check::check(WorkloadKind::Pod, object, &settings(rules), None);
        found.into_iter().map(|finding| finding.action).collect::<Vec<_>>()
    };
    let mut object = json!({"spec": {"hostNetwork": "true", "foo": 1}});
    assert_eq!(actions(&object, ""), [Action::Deny, Action::Warn]);
    assert_eq!(
        actions(&object, "  rules: {denials: Warn, templates: Warn}\n  mode: Audit\n"),
        [Action::Deny, Action::Warn]
    );
    let by_prefix = |action: &str| format!("  rules: {{actions: [{{rule: MUL, action: {action}}}]}}\n");
    assert_eq!(actions(&object, &by_prefix("Warn")), [Action::Warn, Action::Warn]);
    assert_eq!(actions(&object, &by_prefix("Deny")), [Action::Deny, Action::Deny]);
    assert_eq!(actions(&object, &by_prefix("Repair")), [Action::Deny, Action::Warn]);
    assert_eq!(actions(&object, &by_prefix("Allow")), []);
    object["metadata"] = json!({"annotations": {"mullion.dev/allow": "MUL8"}});
    assert_eq!(actions(&object, "").len(), 2, "only where a policy lets it");
}

/// What a newer release has is known, unless the API server is known to be older.
#[test]
fn fields_and_values_have_a_release() {
    let container = "volumeMounts: [{name: v, mountPath: /v, bindMountOptions: {a: b}}]\n\
         securityContext: {seccompProfile: {type: OCI, oci: {ref: 1}}}";
    let tolerations = "tolerations: [{key: a, operator: Gt, value: \"1\"}]";
    let text = pod(container, tolerations);
    let found = |server: Option<&str>| -> Vec<String> {
        let document = mullion_manifest::documents("t.yaml", &text).remove(0).unwrap();
        let object = mullion_manifest::objects(&document).remove(0).unwrap().value;
        let server = server.map(|server| MinorVersion::of(server).unwrap());
        let found = check::check(WorkloadKind::Pod, &object, &Settings::default(), server);
        found
            .iter()
            .map(|finding| format!("{}: {} {}", finding.code, finding.path, finding.message_with_help()))
            .collect()
    };
    let mounts = "spec.containers[0].volumeMounts[0].bindMountOptions";
    let profile = "spec.containers[0].securityContext.seccompProfile";
    let wrong_type = [
        format!(
            "MUL801: {mounts} expected a list of strings, found a map; write bindMountOptions as a list, with a dash before each item"
        ),
        format!("MUL801: {profile}.oci.ref expected a string, found an integer; put it in quotes"),
    ];
    let newer = [
        format!("MUL802: {profile}.oci no field oci in a seccomp profile of Kubernetes 1.34; remove it: it is new in 1.38"),
        format!("MUL802: {mounts} no field bindMountOptions in a volume mount of Kubernetes 1.34; remove it: it is new in 1.37"),
        format!("MUL803: {profile}.type OCI is no value of Kubernetes 1.34: its values are Localhost, RuntimeDefault, Unconfined; remove it: it is new in 1.38"),
        "MUL803: spec.tolerations[0].operator Gt is no value of Kubernetes 1.34: its values are Equal, Exists; remove it: it is new in 1.35".to_owned(),
    ];
    let sorted = |mut found: Vec<String>| {
        found.sort_unstable();
        found
    };
    assert_eq!(sorted(found(None)), sorted(wrong_type.to_vec()));
    assert_eq!(sorted(found(Some("1.38"))), sorted(wrong_type.to_vec()));
    assert_eq!(sorted(found(Some("1.34"))), sorted(newer.to_vec()));
    let codes: Vec<String> = found(Some("1.37")).iter().map(|line| line[..6].to_owned()).collect();
    assert_eq!(codes, ["MUL801", "MUL802", "MUL803"]);
}

#[test]
fn an_empty_class_name_is_rejected() {
    let template = |name: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d}}\nspec: {{selector: {{}}, template: {{spec: {{containers: [], runtimeClassName: {name}}}}}}}\n"
        )
    };
    for (text, path) in [
        (pod("", "runtimeClassName: \"\""), Some("spec.runtimeClassName")),
        (template("\"\""), Some("spec.template.spec.runtimeClassName")),
        (template("null"), None),
        (template("windows"), None),
    ] {
        let found = in_yaml(&text);
        let paths: Vec<(&str, &str, bool)> = found
            .iter()
            .map(|finding| (finding.code, finding.path.as_str(), finding.rejected_by == RejectedBy::ApiServer))
            .collect();
        assert_eq!(paths, path.map(|path| ("MUL803", path, true)).into_iter().collect::<Vec<_>>(), "{text}");
    }
}

/// One mistake of a generator must not fill the screen, and warnings must not hide an error.
#[test]
fn a_hundred_of_a_kind_are_enough() {
    let mut object = json!({"kind": "Pod", "spec": {"hostNetwork": "true", "containers": []}});
    for number in 0..250 {
        object["spec"][format!("a{number:03}")] = json!(1);
    }
    let found = in_object(&object);
    assert_eq!(found.len(), 1 + 100 + 1);
    assert_eq!(found[0].code, "MUL801");
    let last = found.last().unwrap();
    assert_eq!((last.pointer.as_str(), last.code), ("/spec/a100", "MUL802"));
    assert_eq!(last.message, "this and 149 more like it are not listed");
    // A message that there is one more would not be shorter than the finding.
    object["spec"] = (0..101).map(|number| (format!("a{number:03}"), json!(1))).collect();
    let found = in_object(&object);
    assert_eq!((found.len(), &*found[100].message), (101, "no field a100 in a Pod spec of Kubernetes 1.38"));
}

#[test]
fn unprintable_keys_stay_on_one_line() {
    let long = "k".repeat(100_000);
    let object = json!({"kind": "Pod", "metadata": {"labels": {"a\nb": 1, long.clone(): 1, "x/y": 1}},
        "spec": {"\u{1b}[31mred": 1, long.clone(): [1], "": 1, "~/": 1, "é": 1}, "containers\u{202e}": 1});
    let found = in_object(&object);
    assert_eq!(found.len(), 9);
    for finding in found {
        assert!(object.pointer(&finding.pointer).is_some(), "{}", finding.pointer.len());
        let line = finding.sentence();
        assert!(line.len() < 400 && !line.contains(char::is_control), "{line:?}");
    }
}

#[test]
fn the_examples_are_clean() {
    let mut files = 0;
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            files += 1;
            assert_eq!(in_yaml(&fs::read_to_string(&path).unwrap()), [], "{}", path.display());
        }
    }
    assert!(files >= 10, "{files} files");
}

// === properties ===

fn any_json() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "metadata",
        "labels",
        "spec",
        "template",
        "jobTemplate",
        "containers",
        "env",
        "ports",
        "resources",
        "limits",
        "securityContext",
        "windowsOptions",
        "volumes",
        "tolerations",
        "status",
        "name",
        "0",
        "",
        "a/b",
        "~",
        "Effect",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        "[0-9.]{0,3}[eEinumkKMGTPB+-]{0,3}[0-9]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(8, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names.clone().prop_map(str::to_owned), inner.clone(), 0..6)
                .prop_map(|map| map.into_iter().collect::<Value>()),
            prop::collection::btree_map(".{0,6}", inner, 0..3).prop_map(|map| map.into_iter().collect::<Value>()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Any JSON: no panic, and every finding points to an existing value.
    #[test]
    fn any_json_is_walked(object in any_json(), kind in prop::sample::select(KINDS.to_vec())) {
        for finding in check::check(WorkloadKind::from_name(kind).unwrap(), &object, &Settings::default(), None) {
            prop_assert!(object.pointer(&finding.pointer).is_some(), "{}", finding.pointer);
            prop_assert!(!finding.message.is_empty() && !finding.help.is_empty());
            prop_assert!(!finding.sentence().contains(char::is_control));
        }
    }

    /// After everything found is removed, there are no more findings.
    #[test]
    fn what_is_left_is_clean(object in any_json(), kind in prop::sample::select(KINDS.to_vec())) {
        let kind = WorkloadKind::from_name(kind).unwrap();
        let mut object = object;
        for finding in check::check(kind, &object, &Settings::default(), None) {
            // Null counts as absent, including items of a list; an unknown field is removed with its name.
            if finding.code == "MUL801" {
                *object.pointer_mut(&finding.pointer).unwrap() = Value::Null;
            } else {
                let (parent, key) = finding.pointer.rsplit_once('/').unwrap();
                let key = key.replace("~1", "/").replace("~0", "~");
                object.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(&key);
            }
        }
        prop_assert_eq!(check::check(kind, &object, &Settings::default(), None), []);
    }
}
