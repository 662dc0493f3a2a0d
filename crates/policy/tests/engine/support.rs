//! A test cluster, and helpers for all tests.

use mullion_engine::admission;
use mullion_engine::admission::{Endpoint, Review, ReviewResponse, respond};
use mullion_engine::model::cluster::{ClusterSnapshot, Fact, Namespace, Node, Nodes, RuntimeClass, Taint};
use mullion_engine::model::image::KnownImages;
use mullion_engine::model::windows::Build;
use mullion_engine::model::{Operation, Os, ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_policy::PolicySet;
use serde_json::{Value, json};

/// A review under these policies.
pub fn review(request: &ReviewRequest<'_>, snapshot: &ClusterSnapshot, policies: &PolicySet) -> Review {
    admission::review(request, snapshot, &policies.resolve(request, snapshot))
}

/// Two Linux nodes, and Windows nodes of 2019 (untainted), 2022 (`os=Windows`) and 2025 (`os=windows`).
pub fn snapshot() -> ClusterSnapshot {
    let nodes = vec![
        node("l1", Os::Linux, None, &[]).with_label("disk", "ssd"),
        node("l2", Os::Linux, None, &[]),
        node("w2019", Os::Windows, Some(17763), &[]).with_label("agentpool", "win19"),
        node("w2022", Os::Windows, Some(20348), &["os=Windows:NoSchedule", "spot=true:NoSchedule"]),
        node("w2025", Os::Windows, Some(26100), &["os=windows:NoSchedule"]),
    ];
    let class = |release: &str, build: u32| {
        let selector = [
            ("kubernetes.io/os".to_owned(), "windows".to_owned()),
            ("node.kubernetes.io/windows-build".to_owned(), Build::new(build).to_string()),
        ];
        let handler = "runhcs-wcow-process".into();
        let class = RuntimeClass { handler, node_selector: selector.into(), ours: true, ..RuntimeClass::default() };
        (format!("mullion-windows-{release}"), class)
    };
    ClusterSnapshot {
        nodes: Some(Nodes::new(nodes)),
        runtime_classes: Some([class("ltsc2019", 17763), class("ltsc2022", 20348), class("ltsc2025", 26100)].into()),
        namespaces: [("default".to_owned(), Namespace::default())].into(),
        ..ClusterSnapshot::default()
    }
}

/// A node with the labels that its kubelet sets.
pub fn node(name: &str, os: Os, build: Option<u32>, taints: &[&str]) -> Node {
    let mut labels = vec![("kubernetes.io/os".to_owned(), os.name().to_owned())];
    let build = build.map(Build::new);
    labels.extend(build.map(|build| ("node.kubernetes.io/windows-build".to_owned(), build.to_string())));
    Node {
        name: name.to_owned(),
        os: Some(os),
        labels: labels.into_iter().collect(),
        taints: Fact::Parsed(taints.iter().map(|taint| Taint::parse(taint).unwrap()).collect()),
        build,
        ..Node::default()
    }
}

/// More labels on a node.
pub trait WithLabel {
    fn with_label(self, key: &str, value: &str) -> Self;
}

impl WithLabel for Node {
    fn with_label(mut self, key: &str, value: &str) -> Self {
        let labels = self.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        self.labels = labels.chain([(key.to_owned(), value.to_owned())]).collect();
        self
    }
}

/// The same pod spec with a memory limit on every container without resources: only the tests of `memory-limit` need
/// one without.
fn limited(mut spec: Value) -> Value {
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            container.entry("resources").or_insert_with(|| json!({"limits": {"memory": "1Gi"}}));
        }
    }
    spec
}

/// A pod with that spec in namespace `default`.
pub fn pod(spec: Value) -> Value {
    let spec = limited(spec);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec})
}

/// A pod of one container with that image.
pub fn with_image(image: &str) -> Value {
    pod(json!({"containers": [{"name": "c", "image": image}]}))
}

/// An object of that kind around a template with that spec.
pub fn workload(kind: &str, spec: Value) -> Value {
    let group = if kind.ends_with("Job") { "batch/v1" } else { "apps/v1" };
    let spec = limited(spec);
    let mut template = json!({"template": {"metadata": {"labels": {"app": "w"}}, "spec": spec}});
    if kind == "CronJob" {
        template = json!({"schedule": "@daily", "jobTemplate": {"spec": template}});
    }
    json!({"apiVersion": group, "kind": kind, "metadata": {"name": "w", "namespace": "default"}, "spec": template})
}

/// The same object, owned by a controller of that kind.
pub fn owned_by(mut object: Value, kind: &str) -> Value {
    let group = if kind.ends_with("Job") { "batch/v1" } else { "apps/v1" };
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": group, "kind": kind, "name": "o", "uid": "u", "controller": true}]);
    object
}

/// One CREATE, reviewed in [`snapshot`] under the built-in defaults.
pub fn create(object: &Value) -> Outcome {
    create_in(object, &snapshot(), &PolicySet::default())
}

/// One CREATE.
pub fn create_in(object: &Value, snapshot: &ClusterSnapshot, policies: &PolicySet) -> Outcome {
    outcome(Operation::Create, object, None, snapshot, policies)
}

/// One UPDATE, reviewed in [`snapshot`] under the built-in defaults.
pub fn update(old: &Value, new: &Value) -> Outcome {
    outcome(Operation::Update, new, Some(old), &snapshot(), &PolicySet::default())
}

/// The review of ephemeral containers that are added to a pod of [`snapshot`], as `kubectl debug` does.
pub fn debug(old: &Value, new: &Value) -> Review {
    let request = ReviewRequest {
        operation: Operation::Update,
        subresource: Some("ephemeralcontainers"),
        old: Some(old),
        ..ReviewRequest::creation(WorkloadObject { kind: WorkloadKind::Pod, namespace: "default", object: new })
    };
    review(&request, &snapshot(), &PolicySet::default())
}

/// The responses of both endpoints, and the object as it would be stored.
#[derive(Debug)]
pub struct Outcome {
    pub review: Review,
    pub mutate: ReviewResponse,
    pub validate: ReviewResponse,
    pub stored: Value,
}

pub fn outcome(
    operation: Operation,
    object: &Value,
    old: Option<&Value>,
    snapshot: &ClusterSnapshot,
    policies: &PolicySet,
) -> Outcome {
    outcome_with(operation, object, old, snapshot, policies, None)
}

/// The same, with what registries report about images.
pub fn outcome_with(
    operation: Operation,
    object: &Value,
    old: Option<&Value>,
    snapshot: &ClusterSnapshot,
    policies: &PolicySet,
    images: Option<&KnownImages>,
) -> Outcome {
    let kind = WorkloadKind::from_name(object["kind"].as_str().unwrap()).unwrap();
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    let request = |object| ReviewRequest {
        operation,
        old,
        images,
        ..ReviewRequest::creation(WorkloadObject { kind, namespace, object })
    };
    let first = review(&request(object), snapshot, policies);
    let mutate = respond(&first, object, Endpoint::Mutate);
    let mut stored = object.clone();
    json_patch::patch(&mut stored, &mutate.patch).expect("the patch applies");
    let second = review(&request(&stored), snapshot, policies);
    let validate = respond(&second, &stored, Endpoint::Validate);
    Outcome { review: first, mutate, validate, stored }
}

impl Outcome {
    /// The message of the denial, at either endpoint; panics if there is none.
    pub fn denial(&self) -> &str {
        let denial = self.mutate.denial.as_ref().or(self.validate.denial.as_ref());
        &denial.unwrap_or_else(|| panic!("not denied: {:#?}", self.review)).message
    }

    pub fn denied(&self) -> bool {
        self.mutate.denial.is_some() || self.validate.denial.is_some()
    }

    pub fn selector(&self) -> Option<&str> {
        self.stored["spec"]["nodeSelector"]["kubernetes.io/os"].as_str()
    }

    /// Tolerations as `key=value:effect`.
    pub fn tolerations(&self) -> Vec<String> {
        let list = self.stored["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
        list.iter().map(|t| format!("{}={}:{}", text(t, "key"), text(t, "value"), text(t, "effect"))).collect()
    }

    /// Builds that the stored pod excludes.
    pub fn excluded_builds(&self) -> Vec<String> {
        let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
        let Some(term) = self.stored.pointer(&format!("{terms}/0")) else { return Vec::new() };
        let expressions = term["matchExpressions"].as_array().cloned().unwrap_or_default();
        let builds = expressions.iter().filter(|e| e["key"] == "node.kubernetes.io/windows-build");
        builds.flat_map(|e| e["values"].as_array().unwrap().clone()).map(|v| v.as_str().unwrap().to_owned()).collect()
    }
}
