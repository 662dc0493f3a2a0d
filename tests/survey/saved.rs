//! What a saved inventory contains: only the members of the page docs/reference/saved-inventory.md, whatever the objects
//! contain.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    Event, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController,
};
use k8s_openapi::api::events::v1::Event as LaterEvent;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass};
use mullion_survey::InventoryReader;
use mullion_survey::inventory::{KINDS, PROVISIONER_KINDS, read_json};
use serde_json::{Value, json};

use crate::golden;
use crate::planted::{MemberPath, PLANTED, change_maps, planted, visit};

const PAGE: &str = "docs/reference/saved-inventory.md";

/// An object of each kind.
fn objects() -> Vec<Value> {
    vec![
        planted::<Node>(),
        planted::<Pod>(),
        planted::<Namespace>(),
        planted::<Event>(),
        planted::<LaterEvent>(),
        planted::<Deployment>(),
        planted::<ReplicaSet>(),
        planted::<StatefulSet>(),
        planted::<DaemonSet>(),
        planted::<Job>(),
        planted::<CronJob>(),
        planted::<ReplicationController>(),
        planted::<RuntimeClass>(),
        planted::<PodDisruptionBudget>(),
        planted::<HorizontalPodAutoscaler>(),
        planted::<CSINode>(),
        planted::<NetworkPolicy>(),
        planted::<PersistentVolumeClaim>(),
        planted::<PersistentVolume>(),
        planted::<StorageClass>(),
        planted::<CSIDriver>(),
        of_karpenter(
            "karpenter.sh/v1",
            "NodePool",
            &json!({
                "limits": {"cpu": "s3cret70001"}, "weight": 7,
                "template": {
                    "metadata": {"labels": {"s3cret70002": "s3cret70003"}, "annotations": {"s3cret70004": "s3cret70005"}},
                    "spec": {
                        "nodeClassRef": {"group": "s3cret70006", "kind": "s3cret70007", "name": "s3cret70008"},
                        "requirements": [{"key": "s3cret70009", "operator": "s3cret70010", "values": ["s3cret70011"], "minValues": 7}],
                        "taints": [{"key": "s3cret70012", "value": "s3cret70013", "effect": "s3cret70014"}],
                        "startupTaints": [{"key": "s3cret70015", "effect": "s3cret70016"}],
                    },
                },
            }),
        ),
        of_karpenter(
            "karpenter.k8s.aws/v1",
            "EC2NodeClass",
            &json!({
                "amiFamily": "s3cret70017", "role": "s3cret70018", "userData": "s3cret70019",
                "amiSelectorTerms": [{"alias": "s3cret70020", "id": "s3cret70021"}],
                "tags": {"s3cret70022": "s3cret70023"},
            }),
        ),
        of_karpenter(
            "karpenter.azure.com/v1beta1",
            "AKSNodeClass",
            &json!({"imageFamily": "s3cret70024", "vnetSubnetID": "s3cret70025"}),
        ),
    ]
}

/// A custom resource of Karpenter, whose types are not in the client.
fn of_karpenter(api_version: &str, kind: &str, spec: &Value) -> Value {
    let metadata = json!({"name": "s3cret70026", "labels": {"s3cret70027": "s3cret70028"}, "annotations": {}});
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
}

/// Annotations that Mullion or a survey reads, and one with a whole manifest.
const ANNOTATIONS: [&str; 21] = [
    "mullion.dev/os",
    "mullion.dev/ignore",
    "mullion.dev/allow",
    "mullion.dev/decision",
    "mullion.dev/owned",
    "mullion.dev/reason",
    "container.apparmor.security.beta.kubernetes.io/web",
    "microsoft.com/hostprocess-inherit-user",
    "openshift.io/scc",
    "kubernetes.io/config.mirror",
    "meta.helm.sh/release-name",
    "argocd.argoproj.io/tracking-id",
    "scheduler.alpha.kubernetes.io/node-selector",
    "openshift.io/node-selector",
    "scheduler.alpha.kubernetes.io/tolerationsWhitelist",
    "openshift.io/sa.scc.uid-range",
    "openshift.io/sa.scc.mcs",
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
    "volume.beta.kubernetes.io/storage-class",
    "kubectl.kubernetes.io/last-applied-configuration",
];

/// Kinds of which a survey reads a label selector.
const HAVE_SELECTORS: [&str; 2] = ["PodDisruptionBudget", "NetworkPolicy"];

/// Adds what the types do not show: annotations with a meaning, members of later versions of Kubernetes, and an item for
/// each condition and reason with a meaning. Every text that is added is planted, too.
fn enrich(object: &mut Value) {
    let has_selector = HAVE_SELECTORS.contains(&object["kind"].as_str().unwrap());
    let mut count = 90_000;
    let mut text = || {
        count += 1;
        json!(format!("{PLANTED}{count}"))
    };
    change_maps("", object, &mut |name, members| {
        if name == "annotations" {
            members.extend(ANNOTATIONS.map(|key| (key.to_owned(), text())));
        }
        if name == "allocatable" {
            members.extend(["cpu", "memory", "pods"].map(|key| (key.to_owned(), text())));
        }
        if let Some(Value::Array(conditions)) = members.get_mut("conditions")
            && let Some(first) = conditions.first().cloned()
        {
            for kind in ["Ready", "PodScheduled", "Complete", "Failed", "DiskPressure"] {
                conditions.push(first.clone());
                conditions.last_mut().unwrap()["type"] = json!(kind);
            }
        }
        if let Some(Value::Array(statuses)) = members.get_mut("containerStatuses") {
            let mut failed = statuses[0].clone();
            failed["state"]["terminated"]["reason"] = json!("StartError");
            statuses.push(failed);
        }
        // An object with a selector that is not known is an error.
        let is_selector = has_selector && (members.contains_key("matchLabels") || members.contains_key("operator"));
        if !is_selector && !members.keys().any(|key| key.contains(PLANTED)) {
            members.insert("laterMember".to_owned(), text());
        }
    });
}

/// What is saved of these objects, by kind. They are read as a file is.
fn saved(objects: &[Value]) -> Vec<Value> {
    let lines: Vec<String> = objects.iter().map(Value::to_string).collect();
    let mut saved = Vec::new();
    let mut reader = InventoryReader::default();
    reader.begin_input("dump");
    let read = read_json(lines.join("\n").as_bytes(), 1 << 30, &mut |object, kind| {
        reader.add(object, kind, &mut |kept| saved.push(kept.clone()));
    });
    assert_eq!((read, reader.end_input().problems), (Ok(()), Vec::<String>::new()));
    saved
}

fn saved_of_every_kind() -> Vec<Value> {
    let mut objects = objects();
    // The texts of a selector are checked when it is read.
    for object in &mut objects {
        for selector in ["selector", "podSelector"] {
            if let Some(operator) = object.pointer_mut(&format!("/spec/{selector}/matchExpressions/0/operator")) {
                *operator = json!("In");
            }
        }
    }
    objects.iter_mut().for_each(enrich);
    saved(&objects)
}

/// How a value is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Saved {
    Whole,
    Part,
    Number,
    Empty,
}

impl Saved {
    /// `None` for a value that contains others, which have rows of their own.
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) if text.contains(PLANTED) => Some(Self::Whole),
            Value::String(_) | Value::Null => Some(Self::Part),
            Value::Number(_) | Value::Bool(_) => Some(Self::Number),
            Value::Array(items) => items.is_empty().then_some(Self::Part),
            Value::Object(members) => members.is_empty().then_some(Self::Empty),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Whole => "whole text",
            Self::Part => "known words",
            Self::Number => "number or boolean",
            Self::Empty => "presence",
        }
    }
}

/// The member below the pod template, or below the spec of a Pod.
fn of_pod(kind: &str, path: &str) -> Option<String> {
    let below = match kind {
        "Pod" => path.strip_prefix("spec.").map(|below| format!("spec.{below}")),
        "CronJob" => path.strip_prefix("spec.jobTemplate.spec.template.").map(str::to_owned),
        // Its template is one of nodes.
        "NodePool" => None,
        _ => path.strip_prefix("spec.template.").map(str::to_owned),
    };
    Some(
        below?
            .replace("spec.initContainers[]", "spec.containers[]")
            .replace("spec.ephemeralContainers[]", "spec.containers[]"),
    )
}

fn page(saved: &[Value]) -> String {
    let mut rows: BTreeMap<(String, String), Saved> = BTreeMap::new();
    for object in saved {
        let kind = object["kind"].as_str().unwrap();
        visit(&MemberPath::default(), object, &mut |path, value| {
            let path = path.0.as_str();
            let Some(how) = Saved::of(value).filter(|_| !["apiVersion", "kind"].contains(&path)) else { return };
            let path = &path.replace("beta.kubernetes.io/web]", "beta.kubernetes.io/*]");
            let key = match of_pod(kind, path) {
                Some(below) => (String::new(), below),
                None => (kind.to_owned(), path.clone()),
            };
            let row = rows.entry(key).or_insert(how);
            *row = how.min(*row);
        });
    }
    let table = |kind: &str| {
        let rows = rows.iter().filter(|((of, _), _)| of == kind);
        let rows = rows.map(|((_, path), how)| format!("| `{path}` | {} |\n", how.words()));
        format!("| member | saved |\n|---|---|\n{}", rows.collect::<String>())
    };
    let mut page = include_str!("saved_inventory_head.txt").to_owned();
    page += "\n## Pods and pod templates\n\nThe members are the same in a Pod and in every pod template. Those of `spec.containers` are also those of init containers and of ephemeral containers.\n\n";
    page += &table("");
    let kinds: BTreeSet<&str> = rows.keys().map(|(kind, _)| kind.as_str()).filter(|kind| !kind.is_empty()).collect();
    for kind in kinds {
        page.extend(["\n## ", kind, "\n\n", &table(kind)]);
    }
    page
}

/// Every kind that a survey reads has an object here, and each of them is saved.
#[test]
fn every_kind_is_planted() {
    let saved = saved_of_every_kind();
    let kinds: BTreeSet<&str> = saved.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    let known = KINDS.iter().chain(PROVISIONER_KINDS.iter().map(|(_, kind)| kind));
    assert_eq!(kinds, known.map(|kind| kind.kind).collect::<BTreeSet<_>>());
}

/// The planted texts cover each member of the types: a sample of those that are easy to forget.
#[test]
fn every_member_is_planted() {
    let mut paths = BTreeSet::new();
    for mut object in objects() {
        enrich(&mut object);
        let kind = object["kind"].as_str().unwrap().to_owned();
        visit(&MemberPath::default(), &object, &mut |path, value| {
            if value.as_str().is_some_and(|text| text.contains(PLANTED)) {
                paths.insert(format!("{kind} {path}"));
            }
        });
    }
    assert!(paths.len() > 4000, "{}", paths.len());
    for path in [
        "Pod spec.containers[].env[].valueFrom.secretKeyRef.key",
        "Pod spec.volumes[].gitRepo.repository",
        "Pod spec.containers[].livenessProbe.httpGet.path",
        "Pod spec.containers[].securityContext.windowsOptions.gmsaCredentialSpec",
        "Pod status.containerStatuses[].lastState.terminated.message",
        "Pod metadata.managedFields[].fieldsV1",
        "CronJob spec.jobTemplate.metadata.annotations.*",
        "StatefulSet spec.volumeClaimTemplates[].metadata.annotations.*",
        "Deployment spec.template.metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]",
        "Event message",
        "Event note",
        "Node status.images[].names[]",
        "HorizontalPodAutoscaler spec.metrics[].external.metric.selector.matchLabels.*",
    ] {
        assert!(paths.contains(path), "{path}");
    }
}

/// The page lists each member that is saved, and those whose whole text is.
#[test]
fn only_the_members_of_the_page_are_saved() {
    golden::file(PAGE, &page(&saved_of_every_kind())).unwrap();
}

/// What a saved inventory has is saved of it again.
#[test]
fn a_saved_inventory_is_saved_as_it_is() {
    let first = saved_of_every_kind();
    assert_eq!(saved(&first), first);
}

/// Texts in which the survey recognizes something, with secrets around and in it.
#[test]
fn recognized_texts_have_no_secret() {
    let container = json!({
        "name": "web", "image": "https://user:s3cret@registry.example.com/web:1?token=s3cret",
        "command": ["powershell.exe", "-Command", "wmic s3cret"], "args": [r"C:\s3cret\a.exe", "--token=s3cret"],
        "workingDir": r"C:\s3cret", "terminationMessagePath": "/s3cret",
        "env": [{"name": "TOKEN", "value": "s3cret"}],
        "livenessProbe": {"httpGet": {"path": "/health?token=s3cret", "host": "s3cret",
            "httpHeaders": [{"name": "Authorization", "value": "s3cret"}]}},
        "lifecycle": {"preStop": {"exec": {"command": ["cmd", "/c", "s3cret"]}}},
        "securityContext": {"windowsOptions": {"gmsaCredentialSpec": "{\"s3cret\": 1}"},
            "seLinuxOptions": {"level": "s0:s3cret", "type": "s3cret"}, "seccompProfile": {"localhostProfile": "s3cret", "type": "Localhost"}},
        "volumeMounts": [{"name": "a", "mountPath": r"C:\s3cret", "subPath": "s3cret"}],
    });
    let messages = [
        r#"failed to create containerd task: hcs::System::CreateProcess web: The system cannot find the file specified. (extra info: {"CommandLine":"app.exe --password s3cret","Environment":{"TOKEN":"s3cret"}}): unknown"#,
        r#"Error: failed to start container "web": exec: "s3cret": executable file not found in $PATH"#,
        "Liveness probe failed: HTTP probe failed with statuscode: 500, s3cret: not found, pulling s3cret",
        "Failed to pull image \"user:s3cret@registry.example.com/web\": GET https://user:s3cret@registry.example.com/v2/?token=s3cret: 401 Unauthorized",
        "Error creating: admission webhook \"s3cret.example.com\" denied the request: s3cret is forbidden",
        "MountVolume.SetUp failed for volume \"git\": git clone https://user:s3cret@git.example.com",
    ];
    let template = json!({
        "metadata": {"annotations": {
            "mullion.dev/decision": "{\"os\": \"windows\", \"basis\": \"image\", \"because\": \"s3cret\", \"placed\": [\"os\"], \"more\": \"s3cret\"}",
            "mullion.dev/allow": "MUL201, s3cret, memory-volume", "mullion.dev/os": "windows",
            "argocd.argoproj.io/tracking-id": "web:s3cret", "kubectl.kubernetes.io/last-applied-configuration": "s3cret",
        }},
        "spec": {"containers": [container], "volumes": [
            {"name": "git", "gitRepo": {"repository": "https://user:s3cret@git.example.com"}},
            {"name": "path", "hostPath": {"path": "/var/lib/kubelet/s3cret.sock", "type": "Socket"}},
            {"name": "pipe", "hostPath": {"path": r"\\.\pipe\s3cret"}},
            {"name": "memory", "emptyDir": {"medium": "HugePages-s3cret"}},
            {"name": "files", "projected": {"sources": [{"secret": {"name": "s3cret", "items": [{"key": "s3cret", "path": "s3cret", "mode": 256}]}}]}},
        ]},
    });
    let mut objects = vec![
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "shop", "name": "web"}, "spec": {"template": template}}),
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"namespace": "shop", "name": "job"},
            "spec": {"schedule": "s3cret", "jobTemplate": {"metadata": {"annotations": {"mullion.dev/os": "s3cret"}}, "spec": {"template": template}}}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "annotations": {
            "scheduler.alpha.kubernetes.io/tolerationsWhitelist": "[{\"key\": \"a\", \"operator\": \"Exists\", \"comment\": \"s3cret\"}]",
            "openshift.io/node-selector": "a=b,s3cret"}}}),
    ];
    for (at, message) in messages.iter().enumerate() {
        objects.push(json!({"apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "shop", "name": format!("e{at}")},
            "type": "Warning", "reason": "Failed", "message": message, "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web-1"}}));
        let state = json!({"terminated": {"reason": "StartError", "message": message, "exitCode": 128}});
        objects.push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": format!("web-{at}")},
            "spec": template["spec"], "status": {"phase": "Failed", "reason": "Evicted", "message": message,
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}],
                "containerStatuses": [{"name": "web", "state": state,
                    "lastState": {"terminated": {"reason": "Error", "message": "s3cret not found"}}}]}}));
    }
    let saved = saved(&objects);
    assert_eq!(saved.len(), objects.len());
    for object in &saved {
        assert!(!object.to_string().contains("s3cret"), "{object}");
    }
    let text = Value::Array(saved).to_string();
    // What is recognized is there.
    for expected in [
        "powershell.exe",
        "wmic",
        r"C:\\…",
        "hcs::System::CreateProcess",
        "executable file not found",
        "401 Unauthorized",
        "denied the request",
        "MUL201,memory-volume",
        "/var/lib/kubelet/….sock",
        r"\\\\.\\pipe\\…",
        "https://registry.example.com/web:1",
        "HugePages",
        "a=b",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

/// The last line of the file, and what registries report.
#[test]
fn the_last_line_has_what_the_objects_do_not_contain() {
    let mut reader = InventoryReader::default();
    reader.begin_input("prod");
    reader.listed("pods");
    reader.kubernetes("v1.36.1");
    reader.taken_at("2026-11-22T10:00:00Z");
    let unread = json!({"kind": "events", "namespace": null, "reason": "forbidden", "missing": "failures"});
    reader.unread(serde_json::from_value(unread.clone()).unwrap());
    let platforms = json!({"apiVersion": "mullion.dev/v1alpha1", "kind": "ImagePlatforms", "takenAt": "2026-11-22T10:00:00Z",
        "images": {"r.example/web:1": {"index": [{"os": "windows", "architecture": "amd64", "os.version": "10.0.20348.1"}]}},
        "sizes": {"r.example/web:1": {"10.0.20348": 7}}, "absent": ["r.example/web:2"],
        "unanswered": {"r.example/web:3": "the registry cannot be reached"}});
    let mut saved = Vec::new();
    let mut more = platforms.clone();
    more["password"] = json!("s3cret");
    reader.add(more, None, &mut |kept| saved.push(kept.clone()));
    assert_eq!((saved, reader.end_input().problems), (vec![platforms], Vec::<String>::new()));
    assert_eq!(
        reader.saved_end(),
        json!({"apiVersion": "mullion.dev/v1alpha1", "kind": "SavedInventory", "takenAt": "2026-11-22T10:00:00Z",
            "kubernetes": "v1.36.1", "kinds": ["pods"], "others": 0, "unread": [unread]})
    );
}

/// A kind with a name of Kubernetes in another API group is not read, and nothing of it is saved.
#[test]
fn other_kinds_are_not_saved() {
    for (version, kind) in [("v1", "Secret"), ("v1", "ConfigMap"), ("example.com/v1", "Pod"), ("v1", "PodTemplate")] {
        let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "data": {"a": "b"}});
        assert_eq!(saved(&[object]), Vec::<Value>::new(), "{kind}");
    }
}
