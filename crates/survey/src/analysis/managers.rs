//! What manages an object: its owner, or the tool that applies it, by owner references, labels and annotations.

use mullion_engine::model::{WorkloadKind, controller_reference};
use serde_json::Value;

/// What manages an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectManager {
    /// `Helm release shop`.
    pub name: String,
    /// Where to change the object: `the values or templates of the chart of Helm release shop`.
    pub change: String,
}

/// A label or annotation that contains the tool that applies an object.
struct Mark {
    map: &'static str,
    key: &'static str,
    /// The text before the name.
    manager: &'static str,
    /// The text before and after the manager.
    change: (&'static str, &'static str),
    name: fn(&str) -> &str,
}

/// The more specific marks come first: Flux and Argo CD render charts, and keep the labels of the chart.
const MARKS: [Mark; 6] = [
    Mark {
        map: "labels",
        key: "kustomize.toolkit.fluxcd.io/name",
        manager: "Flux Kustomization",
        change: ("the manifests that ", " applies"),
        name: whole,
    },
    // `application:group/Kind:namespace/name`.
    Mark {
        map: "annotations",
        key: "argocd.argoproj.io/tracking-id",
        manager: "Argo CD application",
        change: ("the manifests or values that ", " applies"),
        name: before_colon,
    },
    Mark {
        map: "labels",
        key: "argocd.argoproj.io/instance",
        manager: "Argo CD application",
        change: ("the manifests or values that ", " applies"),
        name: whole,
    },
    Mark {
        map: "labels",
        key: "helm.toolkit.fluxcd.io/name",
        manager: "Flux HelmRelease",
        change: ("the values of ", ", or the templates of its chart"),
        name: whole,
    },
    Mark {
        map: "annotations",
        key: "meta.helm.sh/release-name",
        manager: "Helm release",
        change: ("the values or templates of the chart of ", ""),
        name: whole,
    },
    Mark {
        map: "labels",
        key: "olm.owner",
        manager: "ClusterServiceVersion",
        change: ("the Subscription, or the custom resource, that ", " is installed for"),
        name: whole,
    },
];

/// The label of every object of an operator that the Operator Lifecycle Manager installs; the package follows.
const OLM_PACKAGE: &str = "operators.coreos.com/";

/// The label of objects that AKS manages (Azure/AKS#2683), and keeps as they are.
const AKS_MANAGED: (&str, &str) = ("kubernetes.azure.com/managedby", "aks");

/// The label of objects that the addon manager reverts (kubernetes/kubernetes cluster/addons/addon-manager/README.md;
/// Azure/aks-engine#4692). With `EnsureExists`, it only creates them.
const ADDON_MANAGER: (&str, &str) = ("addonmanager.kubernetes.io/mode", "Reconcile");

/// The recommended label for the tool that manages an object.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Values of [`MANAGED_BY`] that people set who use kubectl.
const BY_HAND: [&str; 2] = ["kubectl", "manual"];

fn whole(text: &str) -> &str {
    text
}

fn before_colon(text: &str) -> &str {
    text.split(':').next().unwrap_or(text)
}

/// What manages an object; `None` if that is not known.
pub(crate) fn manager(object: &Value) -> Option<ObjectManager> {
    // AKS installs some add-ons with Helm, whose marks its objects keep.
    owner(object).or_else(|| provider(object)).or_else(|| applier(object)).or_else(|| tool(object))
}

/// The provider that reverts changes of its add-ons.
fn provider(object: &Value) -> Option<ObjectManager> {
    let labels = object.pointer("/metadata/labels")?;
    let has = |key: &str, value: &str| labels.get(key).and_then(Value::as_str) == Some(value);
    if has(AKS_MANAGED.0, AKS_MANAGED.1) {
        return Some(ObjectManager {
            name: "AKS".to_owned(),
            change: "the settings of the AKS add-on, because AKS reverts other changes".to_owned(),
        });
    }
    has(ADDON_MANAGER.0, ADDON_MANAGER.1).then(|| ObjectManager {
        name: "addon manager".to_owned(),
        change: "the manifest that the addon manager applies, because it reverts other changes".to_owned(),
    })
}

/// An owner that is not a workload of Kubernetes: the custom resource of an operator, which writes the object again.
fn owner(object: &Value) -> Option<ObjectManager> {
    let first = || object.pointer("/metadata/ownerReferences").and_then(Value::as_array)?.first();
    let owner = controller_reference(object).or_else(first)?;
    let text = |key: &str| owner.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (kind, name) = (text("kind")?, text("name")?);
    let is_workload = WorkloadKind::of_object(text("apiVersion").unwrap_or_default(), kind).is_some();
    // The owner of a static pod is its node.
    if is_workload || kind == "Node" {
        return None;
    }
    Some(ObjectManager {
        name: format!("owner {kind} {name}"),
        change: format!("{kind} {name}, from which its operator makes the object"),
    })
}

fn applier(object: &Value) -> Option<ObjectManager> {
    let metadata = object.get("metadata")?;
    MARKS.iter().find_map(|mark| {
        let text = metadata.get(mark.map)?.get(mark.key)?.as_str().filter(|text| !text.is_empty())?;
        let name = format!("{} {}", mark.manager, (mark.name)(text));
        let change = format!("{}{name}{}", mark.change.0, mark.change.1);
        Some(ObjectManager { name, change })
    })
}

fn tool(object: &Value) -> Option<ObjectManager> {
    let labels = object.pointer("/metadata/labels")?.as_object()?;
    let package = labels.keys().find_map(|key| key.strip_prefix(OLM_PACKAGE)).filter(|name| !name.is_empty());
    if let Some(package) = package {
        let name = format!("operator package {package}");
        return Some(ObjectManager { change: format!("the Subscription, or the custom resource, of {name}"), name });
    }
    let name = labels.get(MANAGED_BY)?.as_str().filter(|name| !name.is_empty() && !BY_HAND.contains(name))?;
    Some(match name {
        // `helm template` sets no annotation.
        "Helm" => ObjectManager { name: "Helm".to_owned(), change: "the values or templates of its chart".to_owned() },
        _ => ObjectManager { change: format!("what {name} applies"), name: name.to_owned() },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn owners_come_before_tools_and_tools_before_charts() {
        let csv = json!([{"apiVersion": "example.com/v1", "kind": "Database", "name": "orders", "controller": true}]);
        let table = [
            (json!({}), None),
            (json!({"annotations": {"meta.helm.sh/release-name": "shop"}}), Some("Helm release shop")),
            (
                json!({"annotations": {"meta.helm.sh/release-name": "shop", "argocd.argoproj.io/tracking-id": "web:apps/Deployment:shop/web"}}),
                Some("Argo CD application web"),
            ),
            (json!({"labels": {"argocd.argoproj.io/instance": "web"}}), Some("Argo CD application web")),
            (
                json!({"labels": {"helm.toolkit.fluxcd.io/name": "hr"}, "annotations": {"meta.helm.sh/release-name": "shop"}}),
                Some("Flux HelmRelease hr"),
            ),
            (json!({"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}}), Some("Flux Kustomization apps")),
            (json!({"labels": {"olm.owner": "etcd.v1"}}), Some("ClusterServiceVersion etcd.v1")),
            (json!({"labels": {"operators.coreos.com/etcd.ns": ""}}), Some("operator package etcd.ns")),
            (json!({"labels": {"app.kubernetes.io/managed-by": "Helm"}}), Some("Helm")),
            (json!({"labels": {"app.kubernetes.io/managed-by": "cert-operator"}}), Some("cert-operator")),
            (json!({"labels": {"app.kubernetes.io/managed-by": "kubectl"}}), None),
            (
                json!({"labels": {"kubernetes.azure.com/managedby": "aks", "addonmanager.kubernetes.io/mode": "Reconcile"},
                    "annotations": {"meta.helm.sh/release-name": "aks-managed-azure-cns"}}),
                Some("AKS"),
            ),
            (json!({"labels": {"addonmanager.kubernetes.io/mode": "Reconcile"}}), Some("addon manager")),
            (json!({"labels": {"addonmanager.kubernetes.io/mode": "EnsureExists"}}), None),
            (
                json!({"ownerReferences": csv, "labels": {"app.kubernetes.io/managed-by": "Helm"}}),
                Some("owner Database orders"),
            ),
            (
                json!({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a", "controller": true}]}),
                None,
            ),
            (json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "a", "controller": true}]}), None),
            // A custom resource with the name of a kind of Kubernetes.
            (
                json!({"ownerReferences": [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "a"}]}),
                Some("owner Job a"),
            ),
            (json!({"ownerReferences": "none", "labels": ["a"], "annotations": 7}), None),
        ];
        for (metadata, expected) in table {
            let found = manager(&json!({"metadata": metadata}));
            assert_eq!(found.map(|found| found.name).as_deref(), expected, "{metadata}");
        }
    }
}
