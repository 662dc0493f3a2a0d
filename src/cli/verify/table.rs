//! The checks: what each proves, what its failure means, and the rights that it needs. The cluster role of `--print-rbac`
//! and the sections of the page follow from this table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use mullion_engine::model::text::list;

/// A check.
#[derive(Debug)]
pub(super) struct VerifyCheck {
    pub(super) id: CheckId,
    /// The name, which stays the same in all versions, and the anchor on the page.
    pub(super) name: &'static str,
    /// What it proves, as a clause.
    pub(super) proves: &'static str,
    /// What a failure means, and what to do, as a clause.
    pub(super) means: &'static str,
    pub(super) rights: &'static [&'static [Right]],
    /// The checks without which its result has no meaning.
    pub(super) needs: &'static [CheckId],
    pub(super) phase: Phase,
    pub(super) effect: Effect,
}

/// The check, for the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckId {
    KubernetesVersion,
    Fleet,
    InstallRights,
    FreeNames,
    WebhookCalled,
    PoliciesLoaded,
    NodeLabels,
    NodeTaints,
    RuntimeClasses,
    MissedPods,
    ChangesStored,
    NoToleration,
    DaemonSet,
    ExplicitLinux,
    Denials,
    NewestImage,
    ExemptNamespace,
    LinuxPod,
    WindowsPod,
    JobPod,
    StatefulSetPod,
    HostProcessPod,
    Cleanup,
}

/// When a check applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Only before Mullion is installed: `--pre`.
    Before,
    Always,
    /// Only with Mullion.
    Installed,
}

/// What a check does in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Effect {
    Reads,
    /// It sends dry runs.
    DryRun,
    /// It needs an object that is stored and deleted.
    Creates,
}

/// A right, as a rule of a role has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Right {
    pub(super) group: &'static str,
    pub(super) resource: &'static str,
    /// The only name; empty for all.
    pub(super) name: &'static str,
    pub(super) verb: &'static str,
}

const fn right(group: &'static str, resource: &'static str, verb: &'static str) -> Right {
    Right { group, resource, name: "", verb }
}

const fn get(group: &'static str, resource: &'static str, name: &'static str) -> Right {
    Right { group, resource, name, verb: "get" }
}

const ADMISSION: &str = "admissionregistration.k8s.io";
const NODES: &[Right] = &[right("", "nodes", "list")];
const CLASSES: &[Right] = &[right("node.k8s.io", "runtimeclasses", "list")];
const REGISTRATION: &[Right] = &[
    get(ADMISSION, "mutatingwebhookconfigurations", "mullion"),
    get(ADMISSION, "validatingwebhookconfigurations", "mullion"),
];
const STATE: &[Right] = &[get("", "configmaps", "mullion-state")];
const DRY_PODS: &[Right] = &[right("", "pods", "create")];
const PODS: &[Right] =
    &[right("", "pods", "create"), right("", "pods", "get"), right("", "pods", "list"), right("", "pods", "delete")];
const JOBS: &[Right] = &[right("batch", "jobs", "create"), right("batch", "jobs", "delete")];
const STATEFUL_SETS: &[Right] = &[right("apps", "statefulsets", "create"), right("apps", "statefulsets", "delete")];
/// The rights with which the namespaces of a run are made and removed.
pub(super) const NAMESPACES: &[Right] =
    &[right("", "namespaces", "create"), right("", "namespaces", "get"), right("", "namespaces", "delete")];
/// The right with which `--cleanup` finds namespaces.
const LEFTOVERS: &[Right] = &[right("", "namespaces", "list")];

/// What checks that only read share.
const READS: VerifyCheck = VerifyCheck {
    id: CheckId::Cleanup,
    name: "",
    proves: "",
    means: "",
    rights: &[],
    needs: &[],
    phase: Phase::Installed,
    effect: Effect::Reads,
};

/// What checks with dry runs share.
const DRY_RUN: VerifyCheck = VerifyCheck {
    rights: &[NAMESPACES, DRY_PODS, NODES],
    needs: &[CheckId::WebhookCalled],
    effect: Effect::DryRun,
    ..READS
};

/// What checks that create a pod share.
const CREATES: VerifyCheck = VerifyCheck {
    rights: &[NAMESPACES, PODS, NODES],
    needs: &[CheckId::WebhookCalled, CheckId::ChangesStored],
    effect: Effect::Creates,
    ..READS
};

/// The checks in the order in which they run.
pub(super) static CHECKS: &[VerifyCheck] = &[
    VerifyCheck {
        id: CheckId::KubernetesVersion,
        name: "kubernetes-version",
        proves: "Mullion supports this release of Kubernetes",
        means: "this release has no match conditions for webhooks, which Mullion needs; upgrade the cluster first",
        phase: Phase::Always,
        ..READS
    },
    VerifyCheck {
        id: CheckId::Fleet,
        name: "fleet",
        proves: "the operating system and build of every node are known",
        means: "Mullion cannot place pods on a node without an operating system or build; restart its kubelet, or correct the node",
        rights: &[NODES],
        phase: Phase::Always,
        ..READS
    },
    VerifyCheck {
        id: CheckId::InstallRights,
        name: "install-rights",
        proves: "this user can install the chart",
        means: "`helm install` would stop halfway; ask an administrator for these rights, or to install it",
        phase: Phase::Before,
        ..READS
    },
    VerifyCheck {
        id: CheckId::FreeNames,
        name: "free-names",
        proves: "no object has a name that Mullion needs",
        means: "Mullion changes no object that it did not create, so pods would get no RuntimeClass; rename the object, or set \
                runtimeClasses.mode: Never",
        rights: &[REGISTRATION, CLASSES, NODES],
        phase: Phase::Before,
        ..READS
    },
    VerifyCheck {
        id: CheckId::WebhookCalled,
        name: "webhook-called",
        proves: "the API server calls Mullion for a new pod, at both endpoints",
        means: "new pods are not placed, or are rejected; `mullion status` shows whether the webhook runs, is registered and has \
                a valid certificate",
        rights: &[REGISTRATION, NAMESPACES, DRY_PODS],
        needs: &[],
        ..DRY_RUN
    },
    VerifyCheck {
        id: CheckId::PoliciesLoaded,
        name: "policies-loaded",
        proves: "the policy files in the cluster are valid and in force",
        means: "earlier policies decide until the files are valid; `mullion policy check DIR` finds every problem",
        rights: &[REGISTRATION, STATE],
        ..READS
    },
    VerifyCheck {
        id: CheckId::NodeLabels,
        name: "node-labels",
        proves: "the labels of every Windows node name its operating system, build and release",
        means: "pods with images of another build can land on these nodes, and pods with a fitting image cannot; remove a label \
                that something else sets, and check that the controller runs",
        rights: &[NODES],
        ..READS
    },
    VerifyCheck {
        id: CheckId::NodeTaints,
        name: "node-taints",
        proves: "a taint keeps other pods off every Windows node",
        means: "Linux pods can land there when the webhook does not answer; an Event TaintWaits on the node names what the taint \
                waits for",
        rights: &[NODES],
        ..READS
    },
    VerifyCheck {
        id: CheckId::RuntimeClasses,
        name: "runtime-classes",
        proves: "each Windows build has a RuntimeClass that selects its nodes and tolerates their taints",
        means: "pods of this build get no RuntimeClass, or one that keeps them off their nodes; check that the controller runs",
        rights: &[NODES, CLASSES],
        ..READS
    },
    VerifyCheck {
        id: CheckId::MissedPods,
        name: "missed-pods",
        proves: "no pod that was created without Mullion is stuck or misplaced",
        means: "these pods stay where they are; `mullion repair` lists those that can never start there, and `kubectl get events` \
                with the reason PodsMissed the others",
        rights: &[REGISTRATION, STATE],
        ..READS
    },
    VerifyCheck {
        id: CheckId::ChangesStored,
        name: "changes-stored",
        proves: "what Mullion sets is in the stored pod",
        means: "something that runs after Mullion removes its changes, most likely another mutating webhook; exclude pods from \
                that webhook, or let it set only what is absent",
        rights: &[NAMESPACES, DRY_PODS, NODES, CLASSES],
        ..DRY_RUN
    },
    VerifyCheck {
        id: CheckId::NoToleration,
        name: "no-toleration",
        proves: "a pod without a toleration stays off every Windows node",
        means: "Linux pods can land on Windows nodes, where they never start",
        needs: &[CheckId::WebhookCalled, CheckId::ChangesStored],
        ..DRY_RUN
    },
    VerifyCheck {
        id: CheckId::DaemonSet,
        name: "daemon-set",
        proves: "a Linux DaemonSet that tolerates everything stays off Windows nodes",
        means: "agents for Linux are created on Windows nodes, and never start there",
        rights: &[NAMESPACES, DRY_PODS, &[right("apps", "daemonsets", "create")], NODES],
        ..DRY_RUN
    },
    VerifyCheck {
        id: CheckId::ExplicitLinux,
        name: "explicit-linux",
        proves: "a pod that selects Linux is stored without a change",
        means: "something changes pods that need no change; the seen fields show what",
        rights: &[NAMESPACES, DRY_PODS],
        ..DRY_RUN
    },
    VerifyCheck {
        id: CheckId::Denials,
        name: "denials",
        proves: "runAsUser, privileged and hostNetwork are denied for a Windows pod, in one answer",
        means: "pods that cannot work on Windows are stored, and never start",
        rights: &[NAMESPACES, DRY_PODS],
        ..DRY_RUN
    },
    VerifyCheck {
        id: CheckId::NewestImage,
        name: "newest-image",
        proves: "an image of the newest Windows build stays off older nodes",
        means: "pods with newer images can land on nodes that cannot run them, and hang in ContainerCreating",
        needs: &[CheckId::WebhookCalled, CheckId::ChangesStored],
        ..DRY_RUN
    },
    VerifyCheck {
        id: CheckId::ExemptNamespace,
        name: "exempt-namespace",
        proves: "Mullion does not change pods of a namespace with mullion.dev/ignore",
        means: "namespaces that you exempt are not exempt",
        rights: &[NAMESPACES, DRY_PODS],
        needs: &[CheckId::WebhookCalled],
        ..CREATES
    },
    VerifyCheck {
        id: CheckId::LinuxPod,
        name: "linux-pod",
        proves: "a Linux pod without a selector lands on a Linux node and starts",
        means: "Linux pods can land on Windows nodes, or do not start",
        ..CREATES
    },
    VerifyCheck {
        id: CheckId::WindowsPod,
        name: "windows-pod",
        proves: "a pod with an image of this Windows build, pinned to nothing, lands on a node that runs it and starts",
        means: "pods with such images hang, or land on nodes that cannot run them; `mullion explain` shows why for one of yours",
        ..CREATES
    },
    VerifyCheck {
        id: CheckId::JobPod,
        name: "job-pod",
        proves: "the pod of a Job with a Windows image lands on a fitting node and starts",
        means: "pods that the Job controller creates are not placed",
        rights: &[NAMESPACES, PODS, JOBS, NODES],
        ..CREATES
    },
    VerifyCheck {
        id: CheckId::StatefulSetPod,
        name: "stateful-set-pod",
        proves: "the pod of a StatefulSet with a Windows image lands on a fitting node and starts",
        means: "pods that the StatefulSet controller creates are not placed",
        rights: &[NAMESPACES, PODS, STATEFUL_SETS, NODES],
        ..CREATES
    },
    VerifyCheck {
        id: CheckId::HostProcessPod,
        name: "host-process-pod",
        proves: "a HostProcess pod lands on a Windows node and starts",
        means: "agents for Windows nodes are not placed, or do not start",
        ..CREATES
    },
    VerifyCheck {
        id: CheckId::Cleanup,
        name: "cleanup",
        proves: "nothing of this run is left",
        means: "the namespace is still there; `mullion verify --cleanup` removes it, and `kubectl describe namespace` shows what \
                blocks it",
        rights: &[NAMESPACES],
        needs: &[],
        ..CREATES
    },
];

/// The page with a section for each check.
pub(super) const PAGE: &str = "docs/how-to/verify.md";

/// What the chart creates, for `install-rights`: group, resource, verb.
pub(super) const INSTALLATION: &[Right] = &[
    right("", "namespaces", "create"),
    right("", "serviceaccounts", "create"),
    right("", "services", "create"),
    right("", "configmaps", "create"),
    right("apps", "deployments", "create"),
    right("rbac.authorization.k8s.io", "clusterroles", "create"),
    right("rbac.authorization.k8s.io", "clusterrolebindings", "create"),
    right("rbac.authorization.k8s.io", "roles", "create"),
    right("rbac.authorization.k8s.io", "rolebindings", "create"),
    right(ADMISSION, "mutatingwebhookconfigurations", "create"),
    right(ADMISSION, "validatingwebhookconfigurations", "create"),
    right(ADMISSION, "validatingadmissionpolicies", "create"),
];

impl VerifyCheck {
    /// Whether the check belongs to a run, by `--pre` and the names of `--check`. The cleanup always does.
    pub(super) fn is_selected(&self, pre: bool, names: &[String]) -> bool {
        let phase = match self.phase {
            Phase::Before => pre,
            Phase::Always => true,
            Phase::Installed => !pre,
        };
        phase && (names.is_empty() || self.id == CheckId::Cleanup || names.iter().any(|name| name == self.name))
    }

    /// The rights, each once.
    pub(super) fn all_rights(&self) -> BTreeSet<Right> {
        self.rights.iter().copied().flatten().copied().collect()
    }

    /// `docs/how-to/verify.md#windows-pod`.
    pub(super) fn page(&self) -> String {
        format!("{PAGE}#{}", self.name)
    }
}

impl CheckId {
    /// The name of the check. A test finds a check without a row.
    pub(super) fn name(self) -> &'static str {
        CHECKS.iter().find(|check| check.id == self).map_or("", |check| check.name)
    }
}

impl Right {
    /// `create pods`, `get configmaps mullion-state`.
    pub(super) fn words(&self) -> String {
        let Self { group, resource, name, verb } = self;
        let dot = if group.is_empty() { "" } else { "." };
        let name = if name.is_empty() { String::new() } else { format!(" {name}") };
        format!("{verb} {resource}{dot}{group}{name}")
    }
}

/// The cluster role with the rights of the checks, and with the one of `--cleanup`, as a manifest.
pub(super) fn cluster_role<'c>(checks: impl Iterator<Item = &'c VerifyCheck>) -> String {
    let mut rules: BTreeMap<(&str, &str, &str), BTreeSet<&str>> = BTreeMap::new();
    let all = checks.flat_map(VerifyCheck::all_rights).chain(LEFTOVERS.iter().copied());
    for Right { group, resource, name, verb } in all {
        rules.entry((group, resource, name)).or_default().insert(verb);
    }
    let mut text =
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: mullion-verify\nrules:\n"
            .to_owned();
    for ((group, resource, name), verbs) in rules {
        let group = if group.is_empty() { "\"\"" } else { group };
        let name = if name.is_empty() { String::new() } else { format!("    resourceNames: [{name}]\n") };
        let verbs = list(verbs);
        let _infallible =
            write!(text, "  - apiGroups: [{group}]\n    resources: [{resource}]\n{name}    verbs: [{verbs}]\n");
    }
    text
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    #[test]
    fn every_check_has_one_row_and_a_section_on_the_page() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/how-to/verify.md")).unwrap();
        let mut names = BTreeSet::new();
        for (at, check) in CHECKS.iter().enumerate() {
            assert!(names.insert(check.name) && check.id.name() == check.name, "{}", check.name);
            assert!(!check.proves.is_empty() && !check.means.is_empty(), "{}", check.name);
            assert!(page.contains(&format!("\n### {}\n", check.name)), "no section {}", check.name);
            // A check that others need runs before them, and is in no other phase.
            for needed in check.needs {
                let place = CHECKS.iter().position(|other| other.id == *needed).unwrap();
                assert!(place < at && CHECKS.iter().all(|one| one.id != *needed || one.phase == check.phase));
            }
        }
        let sections: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
        assert_eq!(sections, names);
    }

    #[test]
    fn the_role_has_the_rights_of_the_checks_and_no_others() {
        let all = cluster_role(CHECKS.iter());
        let pods = "  - apiGroups: [\"\"]\n    resources: [pods]\n    verbs: [create, delete, get, list]\n";
        let state = "    resources: [configmaps]\n    resourceNames: [mullion-state]\n    verbs: [get]\n";
        assert!(all.contains(pods) && all.contains(state), "{all}");
        for forbidden in ["secrets", "update", "patch", "\"*\"", "exec", "eviction"] {
            assert!(!all.contains(forbidden), "{forbidden}: {all}");
        }
        let fleet = cluster_role(CHECKS.iter().filter(|check| check.id == CheckId::Fleet));
        assert_eq!(fleet.matches("apiGroups").count(), 2, "{fleet}");
        assert_eq!(right("apps", "jobs", "get").words(), "get jobs.apps");
        assert_eq!(REGISTRATION[0].words(), "get mutatingwebhookconfigurations.admissionregistration.k8s.io mullion");
    }

    #[test]
    fn a_run_has_the_selected_checks_and_the_cleanup() {
        let names = |pre, names: &[&str]| -> Vec<&str> {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            CHECKS.iter().filter(|check| check.is_selected(pre, &names)).map(|check| check.name).collect()
        };
        assert_eq!(names(true, &[]), ["kubernetes-version", "fleet", "install-rights", "free-names"]);
        assert_eq!(names(false, &["denials"]), ["denials", "cleanup"]);
        assert!(!names(false, &[]).contains(&"install-rights"));
    }
}
