//! The members of objects that a survey stores, and so all that a saved inventory contains. A member that is not listed
//! is dropped. A member is listed because the survey, a plan or a review of the engine reads it; what is not read of its
//! value is replaced (see [`reduced_texts`](crate::inventory::reduced_texts)).

use mullion_engine::model::names::{
    ALLOW_ANNOTATION, DECISION_ANNOTATION, IGNORE_ANNOTATION, NODE_SELECTOR_ANNOTATIONS, OPENSHIFT_GROUPS_ANNOTATION,
    OPENSHIFT_LEVEL_ANNOTATION, OPENSHIFT_UID_RANGE_ANNOTATION, OS_ANNOTATION, TOLERATIONS_WHITELIST_ANNOTATION,
};
use serde_json::Value;

use crate::inventory::reduced_texts::{self as texts, Reduce};
use crate::inventory::storage::{CLASS_ANNOTATION, DEFAULT_CLASS_ANNOTATIONS};

/// A member that is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeptMember {
    pub(crate) name: &'static str,
    pub(crate) kept: Kept,
}

/// What is kept of a value. A value of another type becomes an empty one of its own type, so that readers report the
/// same error.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kept {
    /// A number or a boolean.
    Number,
    /// A whole text: a name, a label's value, a version.
    Name,
    /// A text as this function returns it. A number is kept.
    Text(Reduce),
    /// A list as this function returns it.
    List(fn(&Value) -> Value),
    /// These members.
    Object(&'static [KeptMember]),
    /// These members, and whether there are others: without one that is not known, a selector would select more.
    Closed(&'static [KeptMember]),
    /// This of each item.
    Items(&'static Kept),
    /// This of each value, with all keys.
    Map(&'static Kept),
    /// This of each value; the keys are images.
    ByImage(&'static Kept),
    /// The values of these annotations. A key that ends in `/` stands for all keys that begin with it.
    Annotations(&'static [(&'static str, Reduce)]),
    /// These members of the conditions of these types.
    Conditions(&'static [&'static str], &'static [KeptMember]),
    /// How a container ended. The message is kept for reasons of [`RUNTIME_REASONS`]; that of another reason is a text of
    /// the container itself.
    Terminated,
}

use Kept::{Annotations, ByImage, Closed, Conditions, Items, List, Map, Name, Number, Object, Terminated, Text};

const fn member(name: &'static str, kept: Kept) -> KeptMember {
    KeptMember { name, kept }
}

/// A whole object.
macro_rules! members {
    ($($name:literal: $kept:expr),* $(,)?) => {
        &[$(member($name, $kept)),*]
    };
}

/// Reasons of a terminated container for which the kubelet or the container runtime wrote the message.
pub(crate) const RUNTIME_REASONS: [&str; 2] = ["StartError", "ContainerCannotRun"];

const WORD: Kept = Text(texts::word);
const NAMES: Kept = Map(&Name);
const LIST_OF_NAMES: Kept = Items(&Name);
const QUANTITIES: Kept = Map(&Text(texts::quantity));
const MESSAGE: Kept = Text(texts::message);
const IMAGE: Kept = Text(texts::image);
const PATH: Kept = Text(texts::container_path);
const IS_SET: Kept = Text(texts::presence);
const NOTHING: Kept = Object(&[]);

/// Annotations of workloads and of pod templates: those that a review reads, and those that identify what manages an
/// object.
const WORKLOAD_ANNOTATIONS: &[(&str, Reduce)] = &[
    (OS_ANNOTATION, texts::scope_os),
    (IGNORE_ANNOTATION, texts::only_true),
    (ALLOW_ANNOTATION, texts::rule_names),
    (DECISION_ANNOTATION, texts::decision),
    ("container.apparmor.security.beta.kubernetes.io/", texts::app_armor_profile),
    ("microsoft.com/disable-hostprocess-container", texts::only_true),
    ("microsoft.com/hostprocess-container", texts::only_true),
    ("microsoft.com/hostprocess-inherit-user", texts::only_true),
    ("microsoft.com/hostprocess-rootfs-location", texts::presence),
    ("openshift.io/scc", texts::presence),
    ("kubernetes.io/config.mirror", texts::presence),
    ("meta.helm.sh/release-name", str::to_owned),
    ("argocd.argoproj.io/tracking-id", texts::before_colon),
];

/// Annotations of namespaces.
const NAMESPACE_ANNOTATIONS: &[(&str, Reduce)] = &[
    (OS_ANNOTATION, texts::scope_os),
    (IGNORE_ANNOTATION, texts::only_true),
    (NODE_SELECTOR_ANNOTATIONS[0], texts::node_selector),
    (NODE_SELECTOR_ANNOTATIONS[1], texts::node_selector),
    (TOLERATIONS_WHITELIST_ANNOTATION, texts::tolerations),
    (OPENSHIFT_UID_RANGE_ANNOTATION, texts::openshift_range),
    (OPENSHIFT_GROUPS_ANNOTATION, texts::openshift_range),
    (OPENSHIFT_LEVEL_ANNOTATION, texts::openshift_range),
];

const METADATA: Kept = Object(members! {
    "name": Name,
    "namespace": Name,
    "creationTimestamp": Text(texts::time),
    "labels": NAMES,
});

const NAMESPACE_METADATA: Kept = Object(members! {
    "name": Name,
    "creationTimestamp": Text(texts::time),
    "labels": NAMES,
    "annotations": Annotations(NAMESPACE_ANNOTATIONS),
});

const WORKLOAD_METADATA: Kept = Object(members! {
    "name": Name,
    "namespace": Name,
    "uid": Name,
    "creationTimestamp": Text(texts::time),
    "deletionTimestamp": Text(texts::time),
    "labels": NAMES,
    "annotations": Annotations(WORKLOAD_ANNOTATIONS),
    "ownerReferences": Items(&Object(members! {
        "apiVersion": Text(texts::api_version),
        "kind": Name,
        "name": Name,
        "uid": Name,
        "controller": Number,
    })),
});

const TEMPLATE: Kept = Object(members! {
    "metadata": Object(members! { "labels": NAMES, "annotations": Annotations(WORKLOAD_ANNOTATIONS) }),
    "spec": POD_SPEC,
});

const LABEL_REQUIREMENT: &[KeptMember] = members! { "key": Name, "operator": WORD, "values": LIST_OF_NAMES };

const LABEL_REQUIREMENTS: Kept = Items(&Object(LABEL_REQUIREMENT));

const LABEL_SELECTOR: Kept = Closed(members! {
    "matchExpressions": Items(&Closed(LABEL_REQUIREMENT)),
    "matchLabels": NAMES,
});

const NODE_TERM: Kept = Object(members! {
    "matchExpressions": LABEL_REQUIREMENTS,
    "matchFields": LABEL_REQUIREMENTS,
});

const TOLERATIONS: Kept = Items(&Object(members! {
    "key": Name,
    "operator": WORD,
    "value": Name,
    "effect": WORD,
    "tolerationSeconds": Number,
}));

const TAINTS: Kept = Items(&Object(members! {
    "key": Name,
    "value": Name,
    "effect": WORD,
}));

const RESOURCES: Kept = Object(members! {
    "limits": QUANTITIES,
    "requests": QUANTITIES,
    "claims": Items(&NOTHING),
});

const WINDOWS_OPTIONS: Kept = Object(members! {
    "gmsaCredentialSpec": IS_SET,
    "gmsaCredentialSpecName": Name,
    "hostProcess": Number,
    "runAsUserName": Name,
});

const PROFILE: Kept = Object(members! { "type": WORD });

const SE_LINUX_OPTIONS: Kept = Object(members! {
    "level": Text(texts::openshift_range),
    "role": IS_SET,
    "type": IS_SET,
    "user": IS_SET,
});

/// Of a pod and of a container.
const SECURITY_CONTEXT: Kept = Object(members! {
    "allowPrivilegeEscalation": Number,
    "appArmorProfile": PROFILE,
    "capabilities": Object(members! { "add": LIST_OF_NAMES, "drop": LIST_OF_NAMES }),
    "fsGroup": Number,
    "fsGroupChangePolicy": WORD,
    "privileged": Number,
    "procMount": WORD,
    "readOnlyRootFilesystem": Number,
    "runAsGroup": Number,
    "runAsNonRoot": Number,
    "runAsUser": Number,
    "seLinuxChangePolicy": WORD,
    "seLinuxOptions": SE_LINUX_OPTIONS,
    "seccompProfile": PROFILE,
    "supplementalGroups": Items(&Number),
    "supplementalGroupsPolicy": WORD,
    "sysctls": Items(&Object(members! { "name": Name })),
    "windowsOptions": WINDOWS_OPTIONS,
});

const HANDLER: Kept = Object(members! {
    "exec": Object(members! { "command": List(texts::command) }),
});

const CONTAINERS: Kept = Items(&Object(members! {
    "args": List(texts::arguments),
    "command": List(texts::command),
    "image": IMAGE,
    "lifecycle": Object(members! {
        "postStart": HANDLER,
        "preStop": HANDLER,
        "stopSignal": Text(texts::stop_signal),
    }),
    "livenessProbe": HANDLER,
    "name": Name,
    "ports": Items(&Object(members! { "hostPort": Number })),
    "readinessProbe": HANDLER,
    "resources": RESOURCES,
    "restartPolicy": WORD,
    "restartPolicyRules": Items(&Object(members! { "action": WORD })),
    "securityContext": SECURITY_CONTEXT,
    "startupProbe": HANDLER,
    "terminationMessagePath": Text(texts::termination_message_path),
    "volumeDevices": Items(&Object(members! { "name": Name })),
    "volumeMounts": Items(&Object(members! {
        "bindMountOptions": Items(&WORD),
        "mountPath": PATH,
        "mountPropagation": WORD,
        "name": Name,
    })),
    "workingDir": PATH,
}));

/// The modes and owners of the files of a volume.
const FILES: Kept = Object(members! {
    "defaultMode": Number,
    "defaultUser": Number,
    "items": Items(&Object(members! { "mode": Number, "user": Number })),
});

/// The owner of a file of a projected volume.
const FILE: Kept = Object(members! { "user": Number });

const CLAIM_ANNOTATIONS: Kept = Annotations(&[(CLASS_ANNOTATION, str::to_owned)]);

/// A template of claims.
const CLAIM: Kept = Object(members! {
    "metadata": Object(members! { "name": Name, "annotations": CLAIM_ANNOTATIONS }),
    "spec": Object(members! { "storageClassName": Name }),
});

const VOLUMES: Kept = Items(&Object(members! {
    "azureFile": NOTHING,
    "configMap": FILES,
    "csi": Object(members! { "driver": Name }),
    "downwardAPI": FILES,
    "emptyDir": Object(members! { "medium": Text(texts::medium), "mode": Number }),
    "ephemeral": Object(members! { "volumeClaimTemplate": CLAIM }),
    "flexVolume": Object(members! { "driver": Name }),
    "hostPath": Object(members! { "path": Text(texts::host_path), "type": WORD }),
    "image": Object(members! { "reference": IMAGE }),
    "name": Name,
    "nfs": NOTHING,
    "persistentVolumeClaim": Object(members! { "claimName": Name }),
    "projected": Object(members! {
        "defaultMode": Number,
        "defaultUser": Number,
        "sources": Items(&Object(members! {
            "clusterTrustBundle": FILE,
            "configMap": FILES,
            "downwardAPI": FILES,
            "podCertificate": Object(members! { "keyType": Text(texts::key_type), "user": Number }),
            "secret": FILES,
            "serviceAccountToken": FILE,
        })),
    }),
    "secret": FILES,
}));

const POD_SPEC: Kept = Object(members! {
    "affinity": Object(members! {
        "nodeAffinity": Object(members! {
            "preferredDuringSchedulingIgnoredDuringExecution": Items(&Object(members! { "preference": NODE_TERM })),
            "requiredDuringSchedulingIgnoredDuringExecution": Object(members! {
                "nodeSelectorTerms": Items(&NODE_TERM),
            }),
        }),
        "podAffinity": NOTHING,
        "podAntiAffinity": NOTHING,
    }),
    "containers": CONTAINERS,
    "dnsPolicy": WORD,
    "ephemeralContainers": CONTAINERS,
    "hostIPC": Number,
    "hostNetwork": Number,
    "hostPID": Number,
    "hostUsers": Number,
    "initContainers": CONTAINERS,
    "nodeName": Name,
    "nodeSelector": NAMES,
    "os": Object(members! { "name": Name }),
    "overhead": QUANTITIES,
    "resourceClaims": Items(&NOTHING),
    "resources": RESOURCES,
    "runtimeClassName": Name,
    "securityContext": SECURITY_CONTEXT,
    "shareProcessNamespace": Number,
    "tolerations": TOLERATIONS,
    "volumes": VOLUMES,
});

const CONTAINER_STATE: Kept = Object(members! {
    "running": NOTHING,
    "terminated": Terminated,
    "waiting": Object(members! { "message": MESSAGE, "reason": WORD }),
});

/// How a container ended, without the message.
pub(crate) const TERMINATED: &[KeptMember] =
    members! { "exitCode": Number, "reason": WORD, "startedAt": Text(texts::time) };

const CONTAINER_STATUSES: Kept = Items(&Object(members! {
    "imageID": IMAGE,
    "lastState": CONTAINER_STATE,
    "name": Name,
    "ready": Number,
    "restartCount": Number,
    "state": CONTAINER_STATE,
}));

pub(crate) const NODE: &[KeptMember] = members! {
    "metadata": METADATA,
    "spec": Object(members! { "taints": TAINTS, "unschedulable": Number }),
    "status": Object(members! {
        "allocatable": Object(members! {
            "cpu": Text(texts::quantity),
            "memory": Text(texts::quantity),
            "pods": Text(texts::quantity),
        }),
        "conditions": Conditions(&["Ready"], members! {
            "lastHeartbeatTime": Text(texts::time),
            "status": WORD,
            "type": WORD,
        }),
        "declaredFeatures": Items(&Text(texts::feature)),
        "nodeInfo": Object(members! {
            "containerRuntimeVersion": Name,
            "kernelVersion": Name,
            "kubeletVersion": Name,
            "osImage": Text(texts::client_product),
        }),
    }),
};

pub(crate) const POD: &[KeptMember] = members! {
    "metadata": WORKLOAD_METADATA,
    "spec": POD_SPEC,
    "status": Object(members! {
        "conditions": Conditions(&["PodScheduled", "Ready"], members! {
            "message": MESSAGE,
            "reason": WORD,
            "status": WORD,
            "type": WORD,
        }),
        "containerStatuses": CONTAINER_STATUSES,
        "ephemeralContainerStatuses": CONTAINER_STATUSES,
        "initContainerStatuses": CONTAINER_STATUSES,
        "message": MESSAGE,
        "phase": WORD,
        "reason": WORD,
        "startTime": Text(texts::time),
    }),
};

pub(crate) const NAMESPACE: &[KeptMember] = members! { "metadata": NAMESPACE_METADATA };

const ABOUT: Kept = Object(members! { "kind": Name, "name": Name, "namespace": Name, "uid": Name });

/// `regarding` and `note` are the names in events.k8s.io/v1.
pub(crate) const EVENT: &[KeptMember] = members! {
    "eventTime": Text(texts::time),
    "involvedObject": ABOUT,
    "lastTimestamp": Text(texts::time),
    "message": MESSAGE,
    "metadata": Object(members! { "name": Name, "namespace": Name, "creationTimestamp": Text(texts::time) }),
    "note": MESSAGE,
    "reason": WORD,
    "regarding": ABOUT,
    "type": WORD,
};

pub(crate) const DEPLOYMENT: &[KeptMember] = members! {
    "metadata": WORKLOAD_METADATA,
    "spec": Object(members! {
        "paused": Number,
        "replicas": Number,
        "revisionHistoryLimit": Number,
        "strategy": Object(members! {
            "rollingUpdate": Object(members! { "maxSurge": Text(texts::percentage) }),
            "type": WORD,
        }),
        "template": TEMPLATE,
    }),
};

pub(crate) const REPLICA_SET: &[KeptMember] = members! {
    "metadata": WORKLOAD_METADATA,
    "spec": Object(members! { "replicas": Number, "template": TEMPLATE }),
};

pub(crate) const STATEFUL_SET: &[KeptMember] = members! {
    "metadata": WORKLOAD_METADATA,
    "spec": Object(members! {
        "replicas": Number,
        "revisionHistoryLimit": Number,
        "template": TEMPLATE,
        "updateStrategy": Object(members! { "type": WORD }),
        "volumeClaimTemplates": Items(&CLAIM),
    }),
    "status": Object(members! { "currentRevision": Name, "updateRevision": Name }),
};

pub(crate) const DAEMON_SET: &[KeptMember] = members! {
    "metadata": WORKLOAD_METADATA,
    "spec": Object(members! {
        "revisionHistoryLimit": Number,
        "template": TEMPLATE,
        "updateStrategy": Object(members! { "type": WORD }),
    }),
};

const FAILURE_POLICY: Kept = Object(members! {
    "rules": Items(&Object(members! {
        "action": WORD,
        "onExitCodes": NOTHING,
        "onPodConditions": Items(&Object(members! { "status": WORD, "type": Name })),
    })),
});

const JOB_SPEC: Kept = Object(members! {
    "backoffLimit": Number,
    "backoffLimitPerIndex": Number,
    "completions": Number,
    "managedBy": Name,
    "parallelism": Number,
    "podFailurePolicy": FAILURE_POLICY,
    "suspend": Number,
    "template": TEMPLATE,
});

pub(crate) const JOB: &[KeptMember] = members! {
    "metadata": WORKLOAD_METADATA,
    "spec": JOB_SPEC,
    "status": Object(members! {
        "conditions": Conditions(&["Complete", "Failed"], members! { "status": WORD, "type": WORD }),
        "failed": Number,
    }),
};

pub(crate) const CRON_JOB: &[KeptMember] = members! {
    "metadata": WORKLOAD_METADATA,
    "spec": Object(members! {
        "jobTemplate": Object(members! { "spec": JOB_SPEC }),
        "suspend": Number,
    }),
};

pub(crate) const RUNTIME_CLASS: &[KeptMember] = members! {
    "handler": Name,
    "metadata": METADATA,
    "overhead": Object(members! { "podFixed": QUANTITIES }),
    "scheduling": Object(members! { "nodeSelector": NAMES, "tolerations": TOLERATIONS }),
};

pub(crate) const POD_DISRUPTION_BUDGET: &[KeptMember] = members! {
    "metadata": METADATA,
    "spec": Object(members! {
        "maxUnavailable": Text(texts::percentage),
        "minAvailable": Text(texts::percentage),
        "selector": LABEL_SELECTOR,
    }),
    "status": Object(members! {
        "currentHealthy": Number,
        "desiredHealthy": Number,
        "disruptionsAllowed": Number,
        "expectedPods": Number,
    }),
};

pub(crate) const HORIZONTAL_POD_AUTOSCALER: &[KeptMember] = members! {
    "metadata": METADATA,
    "spec": Object(members! {
        "maxReplicas": Number,
        "scaleTargetRef": Object(members! { "kind": Name, "name": Name }),
    }),
};

pub(crate) const CSI_NODE: &[KeptMember] = members! {
    "metadata": METADATA,
    "spec": Object(members! { "drivers": Items(&Object(members! { "name": Name })) }),
};

pub(crate) const NETWORK_POLICY: &[KeptMember] = members! {
    "metadata": METADATA,
    "spec": Object(members! { "podSelector": LABEL_SELECTOR }),
};

pub(crate) const PERSISTENT_VOLUME_CLAIM: &[KeptMember] = members! {
    "metadata": Object(members! {
        "name": Name,
        "namespace": Name,
        "creationTimestamp": Text(texts::time),
        "annotations": CLAIM_ANNOTATIONS,
    }),
    "spec": Object(members! { "storageClassName": Name, "volumeName": Name }),
};

pub(crate) const PERSISTENT_VOLUME: &[KeptMember] = members! {
    "metadata": METADATA,
    "spec": Object(members! { "csi": Object(members! { "driver": Name }) }),
};

pub(crate) const STORAGE_CLASS: &[KeptMember] = members! {
    "metadata": Object(members! {
        "name": Name,
        "creationTimestamp": Text(texts::time),
        "annotations": Annotations(&[
            (DEFAULT_CLASS_ANNOTATIONS[0], texts::only_true),
            (DEFAULT_CLASS_ANNOTATIONS[1], texts::only_true),
        ]),
    }),
    "provisioner": Name,
};

pub(crate) const CSI_DRIVER: &[KeptMember] = members! {
    "metadata": METADATA,
    "spec": Object(members! { "preventPodSchedulingIfMissing": Number }),
};

/// A NodePool of Karpenter.
pub(crate) const NODE_POOL: &[KeptMember] = members! {
    "metadata": METADATA,
    "spec": Object(members! {
        "template": Object(members! {
            "metadata": Object(members! { "labels": NAMES }),
            "spec": Object(members! {
                "nodeClassRef": Object(members! { "kind": Name, "name": Name }),
                "requirements": Items(&Object(LABEL_REQUIREMENT)),
                "taints": TAINTS,
            }),
        }),
    }),
};

/// A node class of Karpenter: the images of its nodes.
pub(crate) const NODE_CLASS: &[KeptMember] = members! {
    "metadata": METADATA,
    "spec": Object(members! {
        "amiFamily": Name,
        "amiSelectorTerms": Items(&Object(members! { "alias": Name })),
        "imageFamily": Name,
    }),
};

const PLATFORM: Kept = Object(members! {
    "architecture": Name,
    "os": Name,
    "os.features": LIST_OF_NAMES,
    "os.version": Name,
});

/// Mullion's own object with what registries report.
pub(crate) const IMAGE_PLATFORMS: &[KeptMember] = members! {
    "absent": Items(&IMAGE),
    "images": ByImage(&Object(members! { "index": Items(&PLATFORM), "manifest": PLATFORM })),
    "sizes": ByImage(&Map(&Number)),
    "takenAt": Text(texts::time),
    "unanswered": ByImage(&Name),
};
