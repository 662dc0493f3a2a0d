//! Facts of the engine from raw Kubernetes objects.
//!
//! The wire types here contain only the fields that become facts; everything else in an API object (managedFields,
//! image lists, conditions) is skipped while parsing and never stored.

use std::collections::BTreeMap;

use mullion_engine::model::MinorVersion;
use mullion_engine::model::cluster::{Namespace, Node, NodeParts, RuntimeClass, Taint, UnusableFact};
use mullion_engine::model::declared_features::NodeFeatures;
use mullion_engine::model::text::unquoted;
use mullion_engine::node::{NodeFacts, facts};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// `metadata.labels` and `metadata.annotations`.
pub type LabelMap = BTreeMap<String, String>;

/// `spec` of a Node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// Raw, so that unknown members (`timeAdded`, later fields) are written back unchanged.
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<Value>,
    /// Whether the node is cordoned.
    #[serde(deserialize_with = "or_default")]
    pub unschedulable: bool,
}

/// `status` of a Node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// `nodeInfo`.
    #[serde(deserialize_with = "or_default")]
    pub node_info: NodeInfo,
    /// `declaredFeatures`, if it is a list.
    #[serde(deserialize_with = "features")]
    pub declared_features: Option<NodeFeatures>,
}

/// `status.nodeInfo` of a Node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeInfo {
    /// `10.0.20348.2655` on Windows.
    #[serde(deserialize_with = "or_default")]
    pub kernel_version: String,
    /// `containerd://2.0.4`, with vendor suffixes.
    #[serde(deserialize_with = "or_default")]
    pub container_runtime_version: String,
    /// `v1.36.3`, with vendor suffixes.
    #[serde(deserialize_with = "or_default")]
    pub kubelet_version: String,
}

/// The facts that a plan reads from a node; `None` for anything but a Node with a name.
pub fn facts_from_json(object: &Value) -> Option<NodeFacts> {
    let NodeObject { metadata, spec, status } = parse_named(object).ok()?;
    Some(NodeFacts {
        name: metadata.name,
        labels: metadata.labels,
        annotations: metadata.annotations,
        taints: spec.taints,
        kernel_version: status.node_info.kernel_version,
    })
}

/// A Namespace by name; `None` if it has no name.
pub fn namespace_from_json(object: &Value) -> Option<(String, Namespace)> {
    namespace_from_value(object).ok()
}

/// A RuntimeClass by name; `None` if it has no name or no handler.
pub fn runtime_class_from_json(object: &Value) -> Option<(String, RuntimeClass)> {
    runtime_class_from_value(object).ok()
}

/// The taints of a Node, if they are not used.
pub fn unusable_taints(object: &Value) -> Option<UnusableFact> {
    node_from_value(object, &mut NodeParts::default()).ok()??.unusable_fact()
}

/// A Node as a fact; `None` for a virtual-kubelet node. An error contains the field that cannot be read.
pub(crate) fn node_from_value(object: &Value, parts: &mut NodeParts) -> Result<Option<Node>, serde_json::Error> {
    let object: NodeObject = parse_named(object)?;
    Ok(node(object.metadata.name, object.metadata.labels, &object.spec, object.status, parts))
}

/// A RuntimeClass by name. An error contains the field that cannot be read.
pub(crate) fn runtime_class_from_value(object: &Value) -> Result<(String, RuntimeClass), serde_json::Error> {
    let object: RuntimeClassObject = parse_named(object)?;
    let ours = is_ours(&object.metadata.labels);
    let Scheduling { node_selector, tolerations } = object.scheduling;
    let overhead = object.overhead.pod_fixed.into_iter().map(|(name, quantity)| (name, unquoted(&quantity)));
    let class = RuntimeClass {
        handler: object.handler,
        node_selector,
        tolerations: RuntimeClass::tolerations(tolerations),
        overhead: overhead.collect(),
        ours,
    };
    Ok((object.metadata.name, class))
}

/// Does the same as [`namespace_from_json`]; an error contains the field that cannot be read.
pub(crate) fn namespace_from_value(object: &Value) -> Result<(String, Namespace), serde_json::Error> {
    let NamedObject { metadata } = parse_named(object)?;
    Ok((metadata.name, Namespace::new(metadata.labels, &metadata.annotations)))
}

/// Reads an object that has a name. The name is checked first, because serde reads a list of the right length as a
/// struct.
fn parse_named<'a, T: Deserialize<'a>>(object: &'a Value) -> Result<T, serde_json::Error> {
    match object.pointer("/metadata/name") {
        Some(Value::String(_)) if object.is_object() => T::deserialize(object),
        _ => Err(serde::de::Error::custom("metadata.name is missing or not text")),
    }
}

/// Builds a node; `None` for a virtual-kubelet node.
pub fn node(
    name: String,
    labels: LabelMap,
    spec: &NodeSpec,
    status: NodeStatus,
    parts: &mut NodeParts,
) -> Option<Node> {
    if facts::is_virtual(&labels, &spec.taints) {
        return None;
    }
    let info = status.node_info;
    Some(Node {
        lost_os: false,
        os: facts::os(&labels),
        build: facts::build(&labels, &info.kernel_version),
        taints: Taint::all_from_json(&spec.taints).map(|taints| parts.taints(taints.into_iter())).into(),
        unschedulable: spec.unschedulable,
        container_runtime: parts.text(&info.container_runtime_version),
        kubelet: MinorVersion::of(&info.kubelet_version),
        features: status.declared_features,
        name,
        labels: parts.labels(labels),
        uid: None,
    })
}

/// The label, and its value, of objects that Mullion created.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "mullion");

/// Whether Mullion created the object.
pub fn is_ours(labels: &LabelMap) -> bool {
    labels.get(MANAGED_BY.0).is_some_and(|by| by == MANAGED_BY.1)
}

/// `null` counts as absent: `kubectl` and hand-written YAML both have `labels: null`.
pub fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// What is no text in the list names no feature.
fn features<'de, D: Deserializer<'de>>(from: D) -> Result<Option<NodeFeatures>, D::Error> {
    let value = Option::<Value>::deserialize(from)?;
    let names = value.as_ref().and_then(Value::as_array);
    Ok(names.map(|names| NodeFeatures::named(names.iter().filter_map(Value::as_str))))
}

#[derive(Deserialize)]
struct NodeObject {
    metadata: Metadata,
    #[serde(default, deserialize_with = "or_default")]
    spec: NodeSpec,
    #[serde(default, deserialize_with = "or_default")]
    status: NodeStatus,
}

#[derive(Deserialize)]
struct RuntimeClassObject {
    metadata: Metadata,
    handler: String,
    #[serde(default, deserialize_with = "or_default")]
    scheduling: Scheduling,
    #[serde(default, deserialize_with = "or_default")]
    overhead: Overhead,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Scheduling {
    #[serde(deserialize_with = "or_default")]
    node_selector: LabelMap,
    #[serde(deserialize_with = "or_default")]
    tolerations: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Overhead {
    #[serde(deserialize_with = "or_default")]
    pod_fixed: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct NamedObject {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default, deserialize_with = "or_default")]
    labels: LabelMap,
    #[serde(default, deserialize_with = "or_default")]
    annotations: LabelMap,
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use mullion_engine::model::Os;
    use mullion_engine::model::windows::Build;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn node_from_json(object: &Value) -> Option<Node> {
        node_from_value(object, &mut NodeParts::default()).ok().flatten()
    }

    fn windows(labels: &Value, kernel: &str) -> Node {
        node_from_json(&json!({
            "metadata": {"name": "w", "labels": labels},
            "status": {"nodeInfo": {"kernelVersion": kernel, "containerRuntimeVersion": "containerd://1.7.17+azure"}},
        }))
        .unwrap()
    }

    /// Nodes dumped from clusters of 2017 to 2026.
    #[test]
    fn builds_of_real_nodes() {
        let os = json!({"kubernetes.io/os": "windows"});
        let cases = [
            (json!({"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": "10.0.20348"}), "", Some(20348)),
            // The label decides, because selectors use it.
            (
                json!({"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": "10.0.17763"}),
                "10.0.20348.1",
                Some(17763),
            ),
            (os.clone(), "10.0.20348.2655", Some(20348)),
            (os.clone(), "10.0.26100.32995", Some(26100)),
            (os.clone(), "10.0.25398.2330", Some(25398)),
            (json!({"beta.kubernetes.io/os": "windows"}), "10.0.17763.2061", Some(17763)),
            (os.clone(), "10.0 17763 (17763.1.amd64fre.rs5_release.180914-1434)", Some(17763)),
            (os.clone(), "10.0.17763", Some(17763)),
            (os.clone(), "10.0.20348.x", None),
            // A label that is not a build has no effect; the kernel version decides.
            (
                json!({"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": "ltsc2022"}),
                "10.0.26100.1",
                Some(26100),
            ),
            (json!({"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": ""}), "", None),
            // The `osImage` of Windows 10 and of the AKS annual channel differs (K2s, Azure/AKS VHD notes).
            (os.clone(), "10.0.22631.4317", Some(22631)),
            (os.clone(), "", None),
            (os, "6.1.0-18-amd64", None),
            (json!({"kubernetes.io/os": "linux"}), "10.0.20348.2655", None),
        ];
        for (labels, kernel, expected) in cases {
            assert_eq!(windows(&labels, kernel).build.map(number), expected, "{labels} {kernel}");
        }
    }

    fn number(build: Build) -> u32 {
        build.number()
    }

    #[test]
    fn a_node_without_an_os_is_kept() {
        for labels in [json!({}), json!(null), json!({"kubernetes.io/os": "darwin"})] {
            assert_eq!(windows(&labels, "").os, None);
        }
        assert_eq!(
            windows(&json!({"kubernetes.io/os": "windows", "beta.kubernetes.io/os": "linux"}), "").os,
            Some(Os::Windows)
        );
        assert_eq!(windows(&json!({"beta.kubernetes.io/os": "linux"}), "").os, Some(Os::Linux));
    }

    #[test]
    fn virtual_kubelets_are_no_nodes() {
        let cases = [
            json!({"metadata": {"name": "aci", "labels": {"type": "virtual-kubelet", "kubernetes.io/os": "linux"}}}),
            json!({"metadata": {"name": "aci"}, "spec": {"taints": [{"key": "virtual-kubelet.io/provider", "value": "azure", "effect": "NoSchedule"}]}}),
            json!({"metadata": {"name": "liqo", "labels": {"liqo.io/type": "virtual-node"}}}),
        ];
        for case in cases {
            assert_eq!(node_from_json(&case), None, "{case}");
        }
        assert!(node_from_json(&json!({"metadata": {"name": "n", "labels": {"type": "kwok"}}})).is_some());
    }

    #[test]
    fn taints_are_read_and_nulls_forgiven() {
        let node = node_from_json(&json!({
            "metadata": {"name": "n", "annotations": null},
            "spec": {"taints": [
                {"key": "os", "value": "Windows", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
                {"effect": "NoSchedule"}, 7,
            ], "unschedulable": true},
            "status": null,
        }))
        .unwrap();
        let taints: Vec<String> = node.known_taints().iter().map(ToString::to_string).collect();
        assert_eq!(taints, ["os=Windows:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"]);
        assert!(node.unschedulable);
    }

    #[test]
    fn classes_and_namespaces() {
        let (name, class) = runtime_class_from_json(&json!({
            "metadata": {"name": "windows2022", "labels": {"app.kubernetes.io/managed-by": "mullion"}},
            "handler": "runhcs-wcow-process",
            "scheduling": {"nodeSelector": {"kubernetes.io/os": "windows"}, "tolerations": [{"key": "os", "operator": "Exists"}]},
            "overhead": {"podFixed": {"memory": "120Mi", "cpu": 1}},
        }))
        .unwrap();
        assert_eq!((class.overhead["memory"].as_str(), class.overhead["cpu"].as_str()), ("120Mi", "1"));
        assert_eq!(class.tolerations.parsed().unwrap()[..], [json!({"key": "os", "operator": "Exists"})]);
        assert_eq!((name.as_str(), class.handler.as_str(), class.ours), ("windows2022", "runhcs-wcow-process", true));
        assert_eq!(class.node_selector["kubernetes.io/os"], "windows");
        let plain = runtime_class_from_json(&json!({"metadata": {"name": "kata"}, "handler": "kata"})).unwrap().1;
        assert!(!plain.ours && plain.node_selector.is_empty());

        let (name, namespace) =
            namespace_from_json(&json!({"metadata": {"name": "web", "labels": {"team": "a"}, "annotations": {
            "mullion.dev/os": "windows", "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "scheduler.alpha.kubernetes.io/tolerationsWhitelist": "[]"}}}))
            .unwrap();
        assert_eq!(name, "web");
        let kept = [("mullion.dev/os", "windows"), ("scheduler.alpha.kubernetes.io/tolerationsWhitelist", "[]")];
        let kept = kept.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        assert_eq!(namespace, Namespace::new(namespace.labels.clone(), &kept));
        assert!(namespace.os().is_some() && namespace.has_whitelist());
        assert_eq!(namespace.labels["team"], "a");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), "[a-z./]{0,9}".prop_map(Value::from)];
        let key = prop_oneof![
            Just("metadata"),
            Just("name"),
            Just("labels"),
            Just("spec"),
            Just("taints"),
            Just("status"),
            Just("handler")
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn anything_is_read_or_an_error(value in any_json()) {
            let name = value.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned);
            prop_assert!(node_from_json(&value).is_none_or(|node| Some(node.name) == name));
            prop_assert!(runtime_class_from_json(&value).is_none_or(|(found, _)| Some(found) == name));
            prop_assert!(namespace_from_json(&value).is_none_or(|(found, _)| Some(found) == name));
        }
    }
}
