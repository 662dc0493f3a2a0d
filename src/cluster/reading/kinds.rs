//! The kinds that are read. The cluster role `mullion-reader` allows `get` and `list` of those that commands read, but not of the
//! claims and volumes that `mullion repair` reads.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use mullion_engine::model::text::full_name;

/// A kind of object: its names, as in kubectl, and its path in the API.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// `Deployment`.
    pub(crate) name: &'static str,
    /// `deployments`.
    pub(crate) plural: &'static str,
    /// `deploy`; empty if it does not have one.
    pub(crate) short: &'static str,
    /// Empty for the core group.
    pub(crate) group: &'static str,
    version: &'static str,
    namespaced: bool,
}

/// Its name, plural and short name.
type Names = [&'static str; 3];

const fn kind([name, plural, short]: Names, group: &'static str, version: &'static str) -> Kind {
    Kind { name, plural, short, group, version, namespaced: true }
}

const fn cluster_kind([name, plural, short]: Names, group: &'static str, version: &'static str) -> Kind {
    Kind { name, plural, short, group, version, namespaced: false }
}

/// Nodes: their operating systems, builds and taints.
pub(crate) const NODES: Kind = cluster_kind(["Node", "nodes", "no"], "", "v1");
/// Namespaces: their labels and annotations select policies and operating systems.
pub(crate) const NAMESPACES: Kind = cluster_kind(["Namespace", "namespaces", "ns"], "", "v1");
/// RuntimeClasses: the placement of their pods.
pub(crate) const RUNTIME_CLASSES: Kind = cluster_kind(["RuntimeClass", "runtimeclasses", ""], "node.k8s.io", "v1");

/// DaemonSets.
pub(crate) const DAEMON_SETS: Kind = kind(["DaemonSet", "daemonsets", "ds"], "apps", "v1");
/// `ReplicaSet`s.
pub(crate) const REPLICA_SETS: Kind = kind(["ReplicaSet", "replicasets", "rs"], "apps", "v1");
/// Jobs.
pub(crate) const JOBS: Kind = kind(["Job", "jobs", ""], "batch", "v1");
/// `PodTemplate`s, which no controller of Kubernetes uses.
pub(crate) const POD_TEMPLATES: Kind = kind(["PodTemplate", "podtemplates", ""], "", "v1");
/// Secrets, of which servers read those with certificates and pull secrets.
pub(crate) const SECRETS: Kind = kind(["Secret", "secrets", ""], "", "v1");
/// Events as they are written.
pub(crate) const WRITTEN_EVENTS: Kind = kind(["Event", "events", "ev"], "events.k8s.io", "v1");
/// Reviews of the own user, which are created and not stored.
pub(crate) const SELF_SUBJECT_REVIEWS: Kind =
    cluster_kind(["SelfSubjectReview", "selfsubjectreviews", ""], "authentication.k8s.io", "v1");
/// Questions about the rights of the own user, which are created and not stored.
pub(crate) const SELF_SUBJECT_ACCESS_REVIEWS: Kind =
    cluster_kind(["SelfSubjectAccessReview", "selfsubjectaccessreviews", ""], "authorization.k8s.io", "v1");
/// `StatefulSet`s.
pub(crate) const STATEFUL_SETS: Kind = kind(["StatefulSet", "statefulsets", "sts"], "apps", "v1");
/// Deployments.
pub(crate) const DEPLOYMENTS: Kind = kind(["Deployment", "deployments", "deploy"], "apps", "v1");
/// Pods.
pub(crate) const PODS: Kind = kind(["Pod", "pods", "po"], "", "v1");
/// `PersistentVolumeClaim`s of stuck pods.
pub(crate) const CLAIMS: Kind = kind(["PersistentVolumeClaim", "persistentvolumeclaims", "pvc"], "", "v1");
/// `PersistentVolume`s of these: their nodes.
pub(crate) const VOLUMES: Kind = cluster_kind(["PersistentVolume", "persistentvolumes", "pv"], "", "v1");
/// Events.
pub(crate) const EVENTS: Kind = kind(["Event", "events", "ev"], "", "v1");
/// Configurations of mutating webhooks.
pub(crate) const MUTATING_CONFIGURATIONS: Kind = cluster_kind(
    ["MutatingWebhookConfiguration", "mutatingwebhookconfigurations", ""],
    "admissionregistration.k8s.io",
    "v1",
);
/// Configurations of validating webhooks.
pub(crate) const VALIDATING_CONFIGURATIONS: Kind = cluster_kind(
    ["ValidatingWebhookConfiguration", "validatingwebhookconfigurations", ""],
    "admissionregistration.k8s.io",
    "v1",
);
/// ConfigMaps, of which only `mullion-state` may be read.
pub(crate) const CONFIG_MAPS: Kind = kind(["ConfigMap", "configmaps", "cm"], "", "v1");
/// Leases, of which only `mullion-controller` may be read.
pub(crate) const LEASES: Kind = kind(["Lease", "leases", ""], "coordination.k8s.io", "v1");

/// Pods and the objects with a pod template. Owners come before what they own, so that a pod is known to be covered by
/// its owner when it is read.
pub(crate) const WORKLOADS: [Kind; 8] = [
    DEPLOYMENTS,
    STATEFUL_SETS,
    DAEMON_SETS,
    kind(["CronJob", "cronjobs", "cj"], "batch", "v1"),
    kind(["ReplicationController", "replicationcontrollers", "rc"], "", "v1"),
    REPLICA_SETS,
    JOBS,
    PODS,
];

/// The kinds that a survey reads besides nodes, namespaces, RuntimeClasses and workloads.
pub(crate) const SURVEY: [Kind; 4] = [
    EVENTS,
    kind(["PodDisruptionBudget", "poddisruptionbudgets", "pdb"], "policy", "v1"),
    kind(["HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa"], "autoscaling", "v2"),
    cluster_kind(["CSINode", "csinodes", ""], "storage.k8s.io", "v1"),
];

/// The kinds of Karpenter, which a survey reads if the API server has their groups. The cluster role `mullion-reader` does not
/// allow it.
pub(crate) const PROVISIONERS: [Kind; 3] = [
    cluster_kind(["NodePool", "nodepools", ""], "karpenter.sh", "v1"),
    cluster_kind(["EC2NodeClass", "ec2nodeclasses", ""], "karpenter.k8s.aws", "v1"),
    cluster_kind(["AKSNodeClass", "aksnodeclasses", ""], "karpenter.azure.com", "v1beta1"),
];

impl Kind {
    /// A reference to an object of this kind, for Events about it.
    pub(crate) fn reference(&self, metadata: &ObjectMeta) -> ObjectReference {
        ObjectReference {
            api_version: Some(self.api_version()),
            kind: Some(self.name.to_owned()),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            ..ObjectReference::default()
        }
    }

    /// `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Whether its objects are in namespaces.
    pub(crate) fn is_namespaced(&self) -> bool {
        self.namespaced
    }

    /// Whether kubectl accepts `word` for this kind: `po`, `pod`, `pods`, in any case.
    pub(crate) fn is_called(&self, word: &str) -> bool {
        [self.name, self.plural, self.short].iter().any(|name| !name.is_empty() && name.eq_ignore_ascii_case(word))
    }

    /// The path of its objects, in one namespace or everywhere.
    pub(crate) fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let namespace = namespace.filter(|_| self.namespaced).map(|name| format!("namespaces/{name}/"));
        format!("{root}/{}/{}{}", self.api_version(), namespace.unwrap_or_default(), self.plural)
    }
}

/// Kind and name of a referenced object, for messages: `Secret mullion-system/mullion-ca`.
pub(crate) fn describe(reference: &ObjectReference) -> String {
    let ObjectReference { kind, namespace, name, .. } = reference;
    let name = full_name(namespace.as_deref().unwrap_or_default(), name.as_deref().unwrap_or_default());
    format!("{} {name}", kind.as_deref().unwrap_or_default())
}
