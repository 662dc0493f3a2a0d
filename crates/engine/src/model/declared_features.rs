//! Features of nodes that a pod needs, and those that a node declares in `status.declaredFeatures`: the rules by which the
//! scheduler compares them.
//!
//! It does so since Kubernetes 1.36 (gate `NodeDeclaredFeatures`, which is always on since 1.37). Its message does not name the
//! feature, so the rules are repeated here. The fields that need a feature have gates that require this gate, so an API server
//! of a release that has the feature and turns the gate off stores no such field.

use serde_json::Value;

use crate::model::minor_version::MinorVersion;
use crate::model::names::EPHEMERAL_CONTAINERS;
use crate::model::pod_view::{Container, Pod};

/// A feature that the scheduler requires of a node because of a field of the pod. Features that count only for updates of a
/// pod, or for claims of devices, are not in the table.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeclaredFeature {
    /// Its name in `status.declaredFeatures`.
    pub name: &'static str,
    /// The field of the pod that needs it, as a noun.
    pub field: &'static str,
    /// The first Kubernetes release whose scheduler requires it.
    pub since: MinorVersion,
    /// Which kubelets declare it, as a clause after "declares it".
    pub declared_by: &'static str,
    /// The file with the rule, below `component-helpers/nodedeclaredfeatures/features` of Kubernetes 1.38.0-beta.0, read on
    /// 2026-11-28.
    pub source: &'static str,
    rule: Rule,
}

/// What makes a pod need a feature.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    RestartsAllContainers,
    UserNamespaceInHostNetwork,
    BindMountOptions,
    MlDsaKey,
    OciSeccompProfile,
}

/// Every feature that affects where a pod can be scheduled.
pub static DECLARED_FEATURES: [DeclaredFeature; 5] = [
    DeclaredFeature {
        name: "RestartAllContainersOnContainerExits",
        field: "restartPolicyRules with the action RestartAllContainers",
        since: MinorVersion::new(1, 36),
        declared_by: "if it is of Kubernetes 1.36 or newer",
        source: "restartallcontainers/restart_all_containers.go",
        rule: Rule::RestartsAllContainers,
    },
    DeclaredFeature {
        name: "UserNamespacesHostNetworkSupport",
        field: "hostUsers: false together with hostNetwork: true",
        since: MinorVersion::new(1, 36),
        declared_by: "if its feature gate is on and its container runtime has user namespaces in the network of the host",
        source: "usernamespaceshostnetwork/user_namespaces_host_network.go",
        rule: Rule::UserNamespaceInHostNetwork,
    },
    DeclaredFeature {
        name: "VolumeBindMountOptions",
        field: "bindMountOptions of a volume mount",
        since: MinorVersion::new(1, 37),
        declared_by: "if its feature gate is on and its container runtime reports mount options, which containerd 2.4 does not",
        source: "volumebindmountoptions/feature.go",
        rule: Rule::BindMountOptions,
    },
    DeclaredFeature {
        name: "PodCertificateMLDSA",
        field: "a pod certificate with an ML-DSA key",
        since: MinorVersion::new(1, 38),
        declared_by: "if it is of Kubernetes 1.38 or newer",
        source: "podcertificatesmldsa/feature.go",
        rule: Rule::MlDsaKey,
    },
    DeclaredFeature {
        name: "SecurityProfileOCI",
        field: "a seccomp profile of type OCI",
        since: MinorVersion::new(1, 38),
        declared_by: "if its feature gate is on and its container runtime has such profiles",
        source: "securityprofileoci/feature.go",
        rule: Rule::OciSeccompProfile,
    },
];

/// The first release whose kubelets declare features, if the gate is on.
pub(crate) const FIRST_DECLARING_KUBELET: MinorVersion = MinorVersion::new(1, 35);

/// The features that a node declares, as far as they affect where pods can be scheduled: those of [`DECLARED_FEATURES`], and
/// whether it declares any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeFeatures {
    /// A bit for each feature of the table, and [`ANY`](Self::ANY).
    declared: u8,
}

impl NodeFeatures {
    /// Those of a node that declares none. The scheduler places no pod there that needs one.
    pub const NONE: Self = Self { declared: 0 };

    const ANY: u8 = 1 << DECLARED_FEATURES.len();

    /// Those with these names.
    pub fn named<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let bit = |name| {
            let at = DECLARED_FEATURES.iter().position(|feature| feature.name == name);
            Self::ANY | at.map_or(0, |at| 1 << at)
        };
        Self { declared: names.fold(0, |all, name| all | bit(name)) }
    }

    /// Whether the node declares the feature.
    pub fn has(self, feature: &DeclaredFeature) -> bool {
        let at = DECLARED_FEATURES.iter().position(|known| known == feature);
        at.is_some_and(|at| self.declared & 1 << at != 0)
    }

    /// Whether the node declares a feature, also one that is not in the table.
    pub fn has_any(self) -> bool {
        self.declared & Self::ANY != 0
    }
}

/// The features that a pod needs of its node.
pub fn needed_features(pod: Pod<'_>) -> impl Iterator<Item = &'static DeclaredFeature> {
    DECLARED_FEATURES.iter().filter(move |feature| feature.rule.holds(pod))
}

impl Rule {
    fn holds(&self, pod: Pod<'_>) -> bool {
        match self {
            // The rule does not read ephemeral containers, which restart nothing.
            Self::RestartsAllContainers => {
                let restarts = |container: Container<'_>| {
                    let rules = container.items("/restartPolicyRules");
                    rules.iter().any(|rule| is(rule, "action", &["RestartAllContainers"]))
                };
                pod.containers().filter(|container| container.list != EPHEMERAL_CONTAINERS).any(restarts)
            }
            Self::UserNamespaceInHostNetwork => {
                let flag = |pointer| pod.get(pointer).and_then(Value::as_bool);
                flag("/spec/hostNetwork") == Some(true) && flag("/spec/hostUsers") == Some(false)
            }
            Self::BindMountOptions => pod.containers().any(|container| {
                let has_options = |mount: &Value| {
                    mount.get("bindMountOptions").and_then(Value::as_array).is_some_and(|all| !all.is_empty())
                };
                container.items("/volumeMounts").iter().any(has_options)
            }),
            Self::MlDsaKey => pod.items("/spec/volumes").iter().any(|volume| {
                let sources = volume.pointer("/projected/sources").and_then(Value::as_array);
                let mut certificates = sources.into_iter().flatten().filter_map(|source| source.get("podCertificate"));
                certificates.any(|certificate| is(certificate, "keyType", &["MLDSA44", "MLDSA65", "MLDSA87"]))
            }),
            Self::OciSeccompProfile => {
                const PROFILE: &str = "/securityContext/seccompProfile";
                let is_oci = |profile: Option<&Value>| profile.is_some_and(|profile| is(profile, "type", &["OCI"]));
                is_oci(pod.get("/spec/securityContext/seccompProfile"))
                    || pod.containers().any(|container| is_oci(container.get(PROFILE)))
            }
        }
    }
}

/// Whether a member has one of these texts.
fn is(value: &Value, member: &str, texts: &[&str]) -> bool {
    value.get(member).and_then(Value::as_str).is_some_and(|text| texts.contains(&text))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;
    use crate::model::WorkloadKind;

    fn needed(spec: &Value) -> Vec<&'static str> {
        let pod = json!({"kind": "Pod", "spec": spec});
        needed_features(Pod::of(WorkloadKind::Pod, &pod).unwrap()).map(|feature| feature.name).collect()
    }

    #[test]
    fn fields_that_need_a_feature() {
        let restart = |action: &str| json!([{"name": "a", "restartPolicyRules": [{"action": action}]}]);
        let mount = |options: Value| json!([{"name": "a", "volumeMounts": [{}, {"bindMountOptions": options}]}]);
        let key = |kind: &str| json!([{}, {"projected": {"sources": [{}, {"podCertificate": {"keyType": kind}}]}}]);
        let profile = |kind: &str| json!({"seccompProfile": {"type": kind}});
        let cases = [
            (json!({"containers": restart("RestartAllContainers")}), "RestartAllContainersOnContainerExits"),
            (json!({"initContainers": restart("RestartAllContainers")}), "RestartAllContainersOnContainerExits"),
            (json!({"containers": restart("Restart")}), ""),
            (json!({"ephemeralContainers": restart("RestartAllContainers")}), ""),
            (json!({"hostNetwork": true, "hostUsers": false}), "UserNamespacesHostNetworkSupport"),
            (json!({"hostNetwork": true}), ""),
            (json!({"hostUsers": false}), ""),
            (json!({"containers": mount(json!(["noexec"]))}), "VolumeBindMountOptions"),
            (json!({"ephemeralContainers": mount(json!(["noexec"]))}), "VolumeBindMountOptions"),
            (json!({"containers": mount(json!([]))}), ""),
            (json!({"volumes": key("MLDSA65")}), "PodCertificateMLDSA"),
            (json!({"volumes": key("ED25519")}), ""),
            (json!({"securityContext": profile("OCI")}), "SecurityProfileOCI"),
            (json!({"initContainers": [{"securityContext": profile("OCI")}]}), "SecurityProfileOCI"),
            (json!({"securityContext": profile("RuntimeDefault")}), ""),
            (json!({"containers": "text", "volumes": [7], "securityContext": []}), ""),
        ];
        for (spec, expected) in cases {
            assert_eq!(needed(&spec).join(" "), expected, "{spec}");
        }
        let tested = ["RestartAll", "UserNamespaces", "VolumeBind", "PodCertificate", "SecurityProfile"];
        assert!(DECLARED_FEATURES.iter().zip(tested).all(|(feature, start)| feature.name.starts_with(start)));
    }

    #[test]
    fn features_of_nodes() {
        let [first, second, ..] = &DECLARED_FEATURES;
        for (names, expected) in [
            (vec![], [false, false, false]),
            (vec!["GuaranteedQoSPodCPUResize"], [false, false, true]),
            (vec![second.name], [false, true, true]),
            (vec![first.name, "", first.name, second.name], [true, true, true]),
            (
                vec!["restartallcontainersoncontainerexits", "RestartAllContainersOnContainerExits "],
                [false, false, true],
            ),
        ] {
            let features = NodeFeatures::named(names.iter().copied());
            assert_eq!([features.has(first), features.has(second), features.has_any()], expected, "{names:?}");
        }
        let all = NodeFeatures::named(DECLARED_FEATURES.iter().map(|feature| feature.name));
        assert!(DECLARED_FEATURES.iter().all(|feature| all.has(feature)) && all.has_any());
    }
}
