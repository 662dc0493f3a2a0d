//! Explanations with less evidence: what a list, a status or a configuration that is missing does to them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;

use mullion_policy::PolicySet;
use mullion_snapshot::dump::DumpReader;
use mullion_survey::report::{Coverage, KindCount};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cli::documents::{ClassifiedObject, ManifestFile, ParsedDocument};
use crate::cli::explain::explanation::{ExplainContext, ExplainedWorkload};
use crate::cli::input::SourceText;
use crate::cli::live::{LivePodStatus, Registration};
use crate::cli::review_sources::ReviewSources;
use crate::cli::webhook_configurations::ReadConfiguration;
use crate::cli::workload_statement::WorkloadStatement;
use crate::cluster::reading::{Absence, UnreadObjects};
use crate::controller::WebhookConfiguration;

const LISTS: [(&str, &str); 3] = [("Node", "nodes"), ("RuntimeClass", "runtimeclasses"), ("Namespace", "namespaces")];

const IMAGES: [&str; 5] = [
    "mcr.microsoft.com/windows/servercore:ltsc2019",
    "mcr.microsoft.com/windows/servercore:ltsc2022",
    "mcr.microsoft.com/windows/nanoserver:ltsc2025",
    "registry.example.com/web:1",
    "nginx:1.27",
];

/// A cluster, the workload in it and the policies.
#[derive(Debug, Clone)]
struct Case {
    workload: Value,
    objects: Vec<Value>,
    policy: &'static str,
    /// The namespace selector of the webhooks.
    selector: Value,
}

fn any_spec() -> impl Strategy<Value = Value> {
    let selector = prop::sample::select(vec![
        json!({}),
        json!({"kubernetes.io/os": "windows"}),
        json!({"kubernetes.io/os": "linux"}),
        json!({"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": "10.0.20348"}),
        json!({"disk": "ssd"}),
    ]);
    let class = prop::sample::select(vec![None, None, Some("win"), Some("plain"), Some("absent")]);
    let tolerations = prop::sample::select(vec![
        json!([]),
        json!([{"operator": "Exists"}]),
        json!([{"key": "os", "operator": "equal", "value": "windows"}]),
    ]);
    let node = prop::sample::select(vec![None, None, None, Some("w20348"), Some("linux")]);
    (0..IMAGES.len(), selector, class, tolerations, node, 0..4_usize).prop_map(
        |(image, selector, class, tolerations, node, field)| {
            let mut spec = json!({"nodeSelector": selector, "tolerations": tolerations, "restartPolicy": "Always",
                "containers": [{"name": "a", "image": IMAGES[image]}]});
            if let Some(class) = class {
                spec["runtimeClassName"] = json!(class);
            }
            if let Some(node) = node {
                spec["nodeName"] = json!(node);
            }
            match field {
                1 => spec["securityContext"] = json!({"runAsUser": 1000}),
                2 => spec["hostNetwork"] = json!(true),
                3 => spec["containers"][0]["restartPolicyRules"] = json!([{"action": "RestartAllContainers"}]),
                _ => {}
            }
            spec
        },
    )
}

/// Nodes whose build stands in a label, in the status or in both.
fn any_nodes() -> impl Strategy<Value = Vec<Value>> {
    let node = |name: &str, os: Option<&str>, build: Option<&str>, kernel: &str, taint: Option<Value>| {
        let kubelet = if build.is_some() { "v1.34.1" } else { "v1.36.3" };
        let mut labels = json!({"disk": "ssd"});
        if let Some(os) = os {
            labels["kubernetes.io/os"] = json!(os);
        }
        if let Some(build) = build {
            labels["node.kubernetes.io/windows-build"] = json!(build);
        }
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taint.into_iter().collect::<Vec<_>>()},
            "status": {"nodeInfo": {"kernelVersion": kernel, "containerRuntimeVersion": "containerd://2.1.6", "kubeletVersion": kubelet}}})
    };
    let windows = json!({"key": "os", "value": "windows", "effect": "NoSchedule"});
    let marked = json!({"key": "cattle.io/os", "value": "linux", "effect": "NoSchedule"});
    let all = vec![
        node("linux", Some("linux"), None, "5.15.0-1", None),
        node("marked", Some("linux"), None, "5.15.0-1", Some(marked)),
        node("w17763", Some("windows"), None, "10.0.17763.1", Some(windows.clone())),
        node("w20348", Some("windows"), Some("10.0.20348"), "10.0.20348.1", None),
        node("w26100", Some("windows"), None, "10.0.26100.1", Some(windows)),
        node("bare", None, None, "10.0.20348.1", None),
    ];
    let declared = prop::collection::vec(
        prop::sample::select(vec![None, Some("RestartAllContainersOnContainerExits"), Some("other")]),
        6,
    );
    (prop::sample::subsequence(all, 0..=6), declared).prop_map(|(mut nodes, declared)| {
        for (node, feature) in nodes.iter_mut().zip(declared) {
            if let Some(feature) = feature {
                node["status"]["declaredFeatures"] = json!([feature]);
            }
        }
        nodes
    })
}

fn any_case() -> impl Strategy<Value = Case> {
    let kind = prop::sample::select(vec!["Pod", "Deployment", "ReplicaSet", "DaemonSet", "Job"]);
    let namespace = prop::sample::select(vec![
        json!({}),
        json!({"labels": {"team": "a"}}),
        json!({"annotations": {"mullion.dev/ignore": "true"}}),
        json!({"annotations": {"mullion.dev/os": "windows"}}),
        json!({"annotations": {"scheduler.alpha.kubernetes.io/node-selector": "kubernetes.io/os=windows"}}),
        json!({"annotations": {"scheduler.alpha.kubernetes.io/node-selector": "disk=ssd"}}),
    ]);
    let policy = prop::sample::select(vec![
        "mode: Enforce",
        "mode: Audit",
        "mode: Disabled",
        "detect: {default: Nothing}",
        "rules: {templates: Warn}",
        "mode: Audit, rules: {templates: Warn}",
        "place: {runtimeClass: {mode: Named, name: win}}",
        "match: {namespaceSelector: {matchLabels: {team: a}}}, mode: Disabled",
    ]);
    let selector = prop::sample::select(vec![
        json!({}),
        json!({}),
        json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}),
    ]);
    (kind, any_spec(), any_nodes(), namespace, policy, selector).prop_map(
        |(kind, spec, nodes, namespace, policy, selector)| {
            let mut metadata = namespace;
            metadata["name"] = json!("shop");
            let mut objects = nodes;
            objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}));
            objects.push(json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "win"},
                "handler": "runhcs-wcow-process", "scheduling": {"nodeSelector": {"kubernetes.io/os": "windows"}}}));
            objects.push(json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "plain"},
                "handler": "plain"}));
            let metadata = json!({"name": "web", "namespace": "shop"});
            let labels = json!({"app": "web"});
            let workload = match kind {
                "Pod" => json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}),
                "Job" => json!({"apiVersion": "batch/v1", "kind": kind, "metadata": metadata,
                    "spec": {"template": {"spec": spec}}}),
                _ => json!({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {
                    "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}}}),
            };
            Case { workload, objects, policy, selector }
        },
    )
}

impl Case {
    /// A webhook configuration with one webhook of each kind.
    fn configuration(&self) -> WebhookConfiguration {
        let webhooks = ["pods.mullion.dev", "templates.mullion.dev"];
        let webhooks =
            webhooks.map(|name| json!({"name": name, "clientConfig": {}, "namespaceSelector": self.selector}));
        serde_json::from_value(json!({"metadata": {}, "webhooks": webhooks})).unwrap()
    }

    /// Both configurations, as they are read.
    fn configurations(&self) -> [ReadConfiguration; 2] {
        [Ok(Some(self.configuration())), Ok(Some(self.configuration()))]
    }

    /// What decides, without the lists of some kinds.
    fn sources(&self, without: &[&str], configurations: [ReadConfiguration; 2]) -> ReviewSources {
        let mut dump = DumpReader::new("");
        let is_read = |kind: &str| !without.contains(&kind);
        for (kind, _) in LISTS.iter().filter(|(kind, _)| is_read(kind)) {
            dump.list(kind);
        }
        for object in self.objects.iter().filter(|object| is_read(object["kind"].as_str().unwrap())) {
            dump.object(object, object["kind"].as_str().unwrap()).unwrap();
        }
        let read = LISTS.iter().filter(|(kind, _)| is_read(kind));
        let read = read.map(|(_, plural)| KindCount { kind: (*plural).to_owned(), objects: 1 }).collect();
        let policy = format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: a}}\nspec: {{priority: 1, {}}}\n",
            self.policy
        );
        ReviewSources {
            policies: PolicySet::from_files(&[("a.yaml", policy.as_str())]).unwrap(),
            snapshot: dump.finish().snapshot,
            registration: Registration::new(configurations),
            coverage: Some(Coverage { read, unread: Vec::new() }),
        }
    }

    fn explained(&self, sources: &ReviewSources, status: &LivePodStatus) -> Value {
        let source = SourceText::new("web.json".to_owned(), self.workload.to_string());
        let file = ManifestFile::new(&source);
        let parsed = ParsedDocument::new(file.documents().next().unwrap().unwrap());
        let ClassifiedObject::Workload(workload) = parsed.objects().next().unwrap() else {
            panic!("{}", self.workload)
        };
        let context = ExplainContext { namespace: "default", status: Some(status), sources };
        let explained = ExplainedWorkload::new(&workload, &context);
        assert!(!explained.lines(&workload, &file, true).is_empty());
        serde_json::to_value(explained.record()).unwrap()
    }

    fn statements(&self, sources: &ReviewSources) -> BTreeSet<String> {
        statements(&self.explained(sources, &LivePodStatus::of(&pod())))
    }

    fn whole(&self) -> BTreeSet<String> {
        self.statements(&self.sources(&[], self.configurations()))
    }
}

/// A live pod that waits for a node.
fn pod() -> Value {
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"});
    json!({"spec": {}, "status": {"phase": "Pending", "conditions": [condition]}})
}

/// What an explanation states, a line each. What is unknown, or only known in part, is no statement.
fn statements(record: &Value) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (key, value) in record["status"].as_object().into_iter().flatten() {
        all.insert(format!("status {key}: {value}"));
    }
    if record.get("reviewNotKnown").is_some() {
        return all;
    }
    let listed = |key: &str| record[key].as_array().into_iter().flatten();
    let whole = record.get("decisionNotKnown").is_none();
    // Of several reasons, the first that is known stands there.
    if record.get("notReviewed").is_some() {
        all.insert("not reviewed".to_owned());
    }
    if record["os"] != "undecided" && whole {
        all.insert(format!("for {}", record["os"]));
    }
    for key in ["rejected", "unusable"] {
        all.extend(listed(key).map(|finding| format!("{key}: {finding}")));
    }
    if whole {
        for key in ["denied", "wouldDeny", "podsDenied", "wouldDenyPods"] {
            all.extend(listed(key).map(|finding| format!("{key}: {finding}")));
        }
        for key in ["changes", "podChanges"] {
            let changes = listed(key).filter(|change| change["path"] != "metadata.annotations[mullion.dev/decision]");
            all.extend(changes.map(|change| format!("{key}: {} {} {}", change["op"], change["path"], change["value"])));
        }
    }
    if whole {
        for key in ["nodes", "runnable"] {
            all.extend(listed(key).map(|node| format!("{key}: {node}")));
        }
        for group in listed("leftOut").filter(|group| group.get("unknown").is_none()) {
            all.extend(group["nodes"].as_array().unwrap().iter().map(|node| format!("not on {node}")));
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// Neither a list that is not read, nor a status that is missing, adds a statement.
    #[test]
    fn less_evidence_adds_no_statement(case in any_case()) {
        let stated = &case.whole();
        let new = |less: BTreeSet<String>| less.difference(stated).cloned().collect::<Vec<_>>();
        let both = || case.configurations();
        for (kind, plural) in LISTS {
            let new = new(case.statements(&case.sources(&[kind], both())));
            prop_assert!(new.is_empty(), "without {plural}: {new:#?}");
        }
        for (at, node) in case.objects.iter().enumerate().filter(|(_, object)| object["kind"] == "Node") {
            let mut less = case.clone();
            less.objects[at].as_object_mut().unwrap().remove("status");
            let new = new(less.whole());
            prop_assert!(new.is_empty(), "without the status of {}: {new:#?}", node["metadata"]["name"]);
        }
        let mut unreported = pod();
        unreported.as_object_mut().unwrap().remove("status");
        let explained = case.explained(&case.sources(&[], both()), &LivePodStatus::of(&unreported));
        let new_of_pod = new(statements(&explained));
        prop_assert!(new_of_pod.is_empty(), "without the status of the pod: {new_of_pod:#?}");
        let unread = || Err(UnreadObjects {
            kind: "mutatingwebhookconfigurations", namespace: None, absence: Absence::Forbidden, message: String::new(),
        });
        for configurations in [[unread(), Ok(Some(case.configuration()))], [unread(), unread()]] {
            let new = new(case.statements(&case.sources(&[], configurations)));
            prop_assert!(new.is_empty(), "without configurations: {new:#?}");
        }
    }
}

/// Each kind of statement needs lists, and each is not known without one of them.
#[test]
fn every_statement_names_its_lists() {
    use WorkloadStatement::{Decision, DecisionWithClass, Review};
    for statement in [Review, Decision, DecisionWithClass] {
        for (kind, plural) in LISTS {
            let read = LISTS.iter().filter(|(other, _)| *other != kind);
            let read = read.map(|(_, plural)| KindCount { kind: (*plural).to_owned(), objects: 1 }).collect();
            let coverage = Coverage { read, unread: Vec::new() };
            let expected = statement.lists().contains(&plural).then(|| format!("{plural} were not read"));
            assert_eq!(statement.not_known(&coverage), expected, "{statement:?}");
        }
    }
}

/// Nodes without a build or an operating system are neither possible nor left out.
#[test]
fn nodes_of_unknown_systems_are_named() {
    let spec = json!({"containers": [{"name": "a", "image": IMAGES[1]}], "nodeSelector": {"disk": "ssd"}});
    let node = |name: &str, labels: Value| json!({"kind": "Node", "metadata": {"name": name, "labels": labels}});
    let case = Case {
        workload: json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}),
        objects: vec![
            node("silent", json!({"kubernetes.io/os": "windows", "disk": "ssd"})),
            node("bare", json!({"disk": "ssd"})),
        ],
        policy: "place: {nodeSelector: {mode: Never}}",
        selector: json!({}),
    };
    let sources = case.sources(&[], case.configurations());
    let record = case.explained(&sources, &LivePodStatus::of(&pod()));
    assert_eq!(record["runnable"], json!([]), "{record:#}");
    let reasons: Vec<(&Value, &Value)> =
        record["leftOut"].as_array().unwrap().iter().map(|group| (&group["reason"], &group["unknown"])).collect();
    let expected = [json!("the node has no operating system label"), json!("the build of the node is not known")];
    assert_eq!(reasons, [(&expected[0], &json!(true)), (&expected[1], &json!(true))], "{record:#}");
}
