//! The table of fields that work on Linux only.
//!
//! Each row is a field of a pod or of its containers (or of both), the effect of its values on Windows, and what to
//! write instead. The fields that `spec.os.name: windows` forbids are those that the API server's `validateWindows` and
//! `validatePodResources` reject (Kubernetes 1.36, pkg/apis/core/validation/validation.go); what the kubelet rejects is
//! in its `lifecycle/predicate.go` and `pkg/security/apparmor/validate_disabled.go`.

use serde_json::Value;

use crate::model::settings::Action;
use crate::rules::rule::{Rule, rule};

/// One row: a field, and the effect of its values.
#[derive(Debug, Clone, Copy)]
pub struct LinuxOnlyField {
    /// Code, name and texts.
    pub rule: Rule,
    /// Pointer below the pod; `None` if the field is not a field of pods.
    pub pod: Option<&'static str>,
    /// Pointer below each container; `None` if the field is not a field of containers.
    pub container: Option<&'static str>,
    /// Whether `spec.os.name: windows` forbids it.
    pub forbidden_by_os: bool,
    /// The grades of its values; the first match counts, and a value without a match is [`ValueGrade::Hard`].
    pub grades: &'static [(FieldValues, ValueGrade)],
    /// Its grade on HostProcess pods, if that differs.
    pub host_process: HostProcess,
    /// Values for which the API server rejects a pod with `spec.os.name: windows`, if it accepts others.
    pub server_rejects: Option<FieldValues>,
    /// Values for which the kubelet of a Windows node rejects the pod.
    pub kubelet_rejects: Option<FieldValues>,
}

/// The effect of a value of a Linux-only field on Windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueGrade {
    /// The value stays, also beside the OS field.
    Fine,
    /// The value sets what applies on Windows anyway: removed without a warning.
    Harmless,
    /// Windows does not support the value, and pods usually work without it: removed with a warning.
    Soft,
    /// The pod relies on something that Windows cannot do: the rule's own action.
    Hard,
}

/// A set of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValues {
    /// This boolean.
    Bool(bool),
    /// One of these strings.
    Text(&'static [&'static str]),
    /// A string other than these.
    TextBeyond(&'static [&'static str]),
    /// An empty list or object.
    Empty,
    /// An object whose `type` is one of these.
    Type(&'static [&'static str]),
    /// Capabilities that add nothing but these.
    AddsOnly(&'static [&'static str]),
    /// A list of objects whose `name` is one of these.
    NamesOnly(&'static [&'static str]),
    /// A list of objects of which one has another name.
    NamesBeyond(&'static [&'static str]),
    /// Any.
    Any,
}

/// The grade of a field on HostProcess pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostProcess {
    /// The same grade.
    Same,
    /// Whatever the value is: removed with a warning, because HostProcess pods have what it requests, as this clause
    /// explains. Azure CNS and others set such values.
    Soft(&'static str),
    /// HostProcess pods need it.
    Needed,
}

/// Sysctls the kubelet allows by default (`pkg/kubelet/sysctl/safe_sysctls.go`).
const SAFE_SYSCTLS: &[&str] = &[
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

/// Signals that can stop Windows containers (`supportedStopSignalsWindows`).
const WINDOWS_SIGNALS: &[&str] = &["SIGTERM", "SIGKILL"];

const RUNTIME_PROFILES: FieldValues = FieldValues::Type(&["RuntimeDefault", "Unconfined"]);

/// The usual grades.
const HARD: &[(FieldValues, ValueGrade)] = &[(FieldValues::Any, ValueGrade::Hard)];
const SOFT: &[(FieldValues, ValueGrade)] =
    &[(FieldValues::Empty, ValueGrade::Harmless), (FieldValues::Any, ValueGrade::Soft)];
const HARMLESS: &[(FieldValues, ValueGrade)] = &[(FieldValues::Any, ValueGrade::Harmless)];
const FALSE_OR_SOFT: &[(FieldValues, ValueGrade)] =
    &[(FieldValues::Bool(false), ValueGrade::Harmless), (FieldValues::Any, ValueGrade::Soft)];
const FALSE_OR_HARD: &[(FieldValues, ValueGrade)] =
    &[(FieldValues::Bool(false), ValueGrade::Harmless), (FieldValues::Any, ValueGrade::Hard)];
/// For plain booleans: the API server stores `false` as an absent value (`omitempty`).
const TRUE_IS_HARD: &[(FieldValues, ValueGrade)] =
    &[(FieldValues::Bool(false), ValueGrade::Fine), (FieldValues::Any, ValueGrade::Hard)];
const PROFILE: &[(FieldValues, ValueGrade)] =
    &[(RUNTIME_PROFILES, ValueGrade::Harmless), (FieldValues::Any, ValueGrade::Soft)];

/// A row: code, name, default action, summary, why, instead, pointers below the pod and below each container; then the
/// members of the row that differ from the defaults, and after `;` those of its rule.
macro_rules! field {
    (
        $code:literal, $name:literal, $default:expr, $summary:literal, $why:literal, $instead:literal,
        $pod:expr, $container:expr $(, $key:ident: $value:expr)* $(; $rule_key:ident: $rule_value:expr)* $(,)?
    ) => {
        LinuxOnlyField {
            $($key: $value,)*
            ..LinuxOnlyField {
                rule: Rule {
                    $($rule_key: $rule_value,)*
                    ..rule!($code, $name, $default, $summary, $why, $instead, repair: true)
                },
                pod: $pod,
                container: $container,
                forbidden_by_os: true,
                grades: SOFT,
                host_process: HostProcess::Same,
                server_rejects: None,
                kubelet_rejects: None,
            }
        }
    };
}

/// The table, in order of code.
pub static FIELDS: [LinuxOnlyField; 24] = [
    field!(
        "MUL201",
        "run-as-user",
        Action::Deny,
        "runAsUser on a Windows pod",
        "Windows has no numeric user ids",
        "write windowsOptions.runAsUserName: ContainerUser",
        Some("/spec/securityContext/runAsUser"),
        Some("/securityContext/runAsUser"),
        grades: HARD;
        translation: Some(
            "0 becomes windowsOptions.runAsUserName ContainerAdministrator, any other beside runAsNonRoot: true \
             becomes ContainerUser",
        ),
    ),
    field!(
        "MUL202",
        "run-as-group",
        Action::Repair,
        "runAsGroup on a Windows pod",
        "Windows has no numeric group ids",
        "write windowsOptions.runAsUserName: ContainerUser",
        Some("/spec/securityContext/runAsGroup"),
        Some("/securityContext/runAsGroup"),
    ),
    field!(
        "MUL203",
        "privileged",
        Action::Deny,
        "privileged on a Windows pod",
        "Windows has no privileged containers",
        "use a HostProcess pod (windowsOptions.hostProcess: true with hostNetwork: true)",
        None,
        Some("/securityContext/privileged"),
        grades: FALSE_OR_HARD,
        host_process: HostProcess::Soft("a HostProcess container has its user's rights on the host anyway"),
    ),
    field!(
        "MUL204",
        "host-network",
        Action::Deny,
        "hostNetwork on a Windows pod that is not a HostProcess pod",
        "a Windows pod always gets a network of its own",
        "use ports with hostPort, or a HostProcess pod",
        Some("/spec/hostNetwork"),
        None,
        forbidden_by_os: false,
        grades: TRUE_IS_HARD,
        host_process: HostProcess::Needed;
        repair: false,
    ),
    field!(
        "MUL205",
        "host-pid",
        Action::Deny,
        "hostPID on a Windows pod",
        "Windows containers cannot share the host's processes",
        "use a HostProcess pod",
        Some("/spec/hostPID"),
        None,
        grades: TRUE_IS_HARD,
        host_process: HostProcess::Soft("a HostProcess container sees the host's processes anyway"),
    ),
    field!(
        "MUL206",
        "host-ipc",
        Action::Deny,
        "hostIPC on a Windows pod",
        "Windows containers cannot share the host's IPC",
        "use a named pipe mounted by hostPath",
        Some("/spec/hostIPC"),
        None,
        grades: TRUE_IS_HARD,
        host_process: HostProcess::Soft("a HostProcess container shares the host's IPC anyway"),
    ),
    field!(
        "MUL207",
        "host-users",
        Action::Repair,
        "hostUsers on a Windows pod",
        "Windows has no user namespaces",
        "leave it out",
        Some("/spec/hostUsers"),
        None,
        grades: &[(FieldValues::Bool(true), ValueGrade::Harmless), (FieldValues::Any, ValueGrade::Soft)],
    ),
    field!(
        "MUL208",
        "share-process-namespace",
        Action::Repair,
        "shareProcessNamespace on a Windows pod",
        "containers of a Windows pod cannot see each other's processes",
        "leave it out",
        Some("/spec/shareProcessNamespace"),
        None,
        grades: FALSE_OR_SOFT,
    ),
    field!(
        "MUL209",
        "capabilities",
        Action::Deny,
        "capabilities on a Windows container",
        "Windows has no Linux capabilities",
        "leave them out; if the program needs more rights, write windowsOptions.runAsUserName: ContainerAdministrator",
        None,
        Some("/securityContext/capabilities"),
        grades: &[
            (FieldValues::Empty, ValueGrade::Harmless),
            (FieldValues::AddsOnly(&[]), ValueGrade::Harmless),
            (FieldValues::AddsOnly(&["NET_BIND_SERVICE"]), ValueGrade::Soft),
            (FieldValues::Any, ValueGrade::Hard),
        ],
    ),
    field!(
        "MUL210",
        "read-only-root-filesystem",
        Action::Repair,
        "readOnlyRootFilesystem on a Windows container",
        "Windows needs to write to its registry and system files",
        "mount read-only volumes where it matters",
        None,
        Some("/securityContext/readOnlyRootFilesystem"),
        grades: FALSE_OR_SOFT,
    ),
    field!(
        "MUL211",
        "allow-privilege-escalation",
        Action::Repair,
        "allowPrivilegeEscalation on a Windows container",
        "Windows has no setuid programs to escalate by",
        "leave it out",
        None,
        Some("/securityContext/allowPrivilegeEscalation"),
        grades: FALSE_OR_SOFT,
    ),
    field!(
        "MUL212",
        "proc-mount",
        Action::Deny,
        "procMount on a Windows container",
        "Windows has no /proc",
        "leave it out",
        None,
        Some("/securityContext/procMount"),
        grades: &[(FieldValues::Text(&["Default"]), ValueGrade::Harmless), (FieldValues::Any, ValueGrade::Hard)],
    ),
    field!(
        "MUL213",
        "seccomp-profile",
        Action::Repair,
        "seccompProfile on a Windows pod",
        "Windows has no seccomp",
        "leave it out",
        Some("/spec/securityContext/seccompProfile"),
        Some("/securityContext/seccompProfile"),
        grades: PROFILE,
    ),
    field!(
        "MUL214",
        "app-armor-profile",
        Action::Repair,
        "appArmorProfile on a Windows pod",
        "Windows has no AppArmor",
        "leave it out",
        Some("/spec/securityContext/appArmorProfile"),
        Some("/securityContext/appArmorProfile"),
        grades: PROFILE,
        kubelet_rejects: Some(FieldValues::Type(&["RuntimeDefault", "Localhost"])),
    ),
    field!(
        "MUL215",
        "se-linux-options",
        Action::Repair,
        "seLinuxOptions on a Windows pod",
        "Windows has no SELinux",
        "leave it out",
        Some("/spec/securityContext/seLinuxOptions"),
        Some("/securityContext/seLinuxOptions"),
    ),
    field!(
        "MUL216",
        "se-linux-change-policy",
        Action::Repair,
        "seLinuxChangePolicy on a Windows pod",
        "Windows has no SELinux",
        "leave it out",
        Some("/spec/securityContext/seLinuxChangePolicy"),
        None,
        grades: HARMLESS,
    ),
    field!(
        "MUL217",
        "fs-group",
        Action::Repair,
        "fsGroup on a Windows pod",
        "Windows volumes have no group",
        "grant rights by access control lists (icacls)",
        Some("/spec/securityContext/fsGroup"),
        None,
    ),
    field!(
        "MUL218",
        "fs-group-change-policy",
        Action::Repair,
        "fsGroupChangePolicy on a Windows pod",
        "Windows volumes have no group owner",
        "leave it out",
        Some("/spec/securityContext/fsGroupChangePolicy"),
        None,
        grades: HARMLESS,
    ),
    field!(
        "MUL219",
        "supplemental-groups",
        Action::Repair,
        "supplementalGroups on a Windows pod",
        "Windows has no numeric group ids",
        "use a gMSA account for rights on shares",
        Some("/spec/securityContext/supplementalGroups"),
        None,
    ),
    field!(
        "MUL220",
        "supplemental-groups-policy",
        Action::Repair,
        "supplementalGroupsPolicy on a Windows pod",
        "Windows has no numeric group ids",
        "leave it out",
        Some("/spec/securityContext/supplementalGroupsPolicy"),
        None,
        grades: &[(FieldValues::Text(&["Merge"]), ValueGrade::Harmless), (FieldValues::Any, ValueGrade::Soft)],
        kubelet_rejects: Some(FieldValues::Text(&["Strict"])),
    ),
    field!(
        "MUL221",
        "sysctls",
        Action::Deny,
        "sysctls on a Windows pod",
        "Windows has no sysctls",
        "leave them out, or set the registry value in the image",
        Some("/spec/securityContext/sysctls"),
        None,
        grades: &[
            (FieldValues::Empty, ValueGrade::Fine),
            (FieldValues::NamesOnly(SAFE_SYSCTLS), ValueGrade::Soft),
            (FieldValues::Any, ValueGrade::Hard),
        ],
        kubelet_rejects: Some(FieldValues::NamesBeyond(SAFE_SYSCTLS)),
    ),
    field!(
        "MUL222",
        "pod-resources",
        Action::Deny,
        "pod-level resources on a Windows pod",
        "Windows has limits per container only",
        "set resources on the containers",
        Some("/spec/resources"),
        None,
        grades: &[(FieldValues::Empty, ValueGrade::Harmless), (FieldValues::Any, ValueGrade::Hard)],
        kubelet_rejects: Some(FieldValues::Any);
        repair: false,
    ),
    // Behind a feature gate that is off up to 1.36 (ContainerStopSignals): if it is off, the API server drops the
    // field; if it is on, the API server accepts SIGTERM and SIGKILL beside spec.os.name: windows (validateStopSignal).
    field!(
        "MUL223",
        "stop-signal",
        Action::Repair,
        "a stop signal that Windows does not have",
        "Windows stops containers by SIGTERM or SIGKILL only",
        "use SIGTERM, or a preStop hook",
        None,
        Some("/lifecycle/stopSignal"),
        forbidden_by_os: false,
        grades: &[(FieldValues::Text(WINDOWS_SIGNALS), ValueGrade::Fine), (FieldValues::Any, ValueGrade::Soft)],
        server_rejects: Some(FieldValues::TextBeyond(WINDOWS_SIGNALS)),
    ),
    field!(
        "MUL224",
        "dns-policy",
        Action::Warn,
        "dnsPolicy ClusterFirstWithHostNet on a pod that is not a HostProcess pod",
        "a Windows pod has no host network, so this is ClusterFirst",
        "use ClusterFirst",
        Some("/spec/dnsPolicy"),
        None,
        forbidden_by_os: false,
        grades: &[(FieldValues::Text(&["ClusterFirstWithHostNet"]), ValueGrade::Hard), (FieldValues::Any, ValueGrade::Fine)],
        host_process: HostProcess::Needed;
        repair: false,
    ),
];

impl LinuxOnlyField {
    /// The grade of a value; `None` if nothing is wrong with it.
    pub(crate) fn grade(&self, value: &Value, host_process: bool) -> Option<ValueGrade> {
        let grade = self.grades.iter().find(|(values, _)| values.holds(value)).map_or(ValueGrade::Hard, |(_, g)| *g);
        match self.host_process {
            _ if grade == ValueGrade::Fine => None,
            HostProcess::Needed if host_process => None,
            HostProcess::Soft(_) if host_process && grade == ValueGrade::Hard => Some(ValueGrade::Soft),
            HostProcess::Same | HostProcess::Soft(_) | HostProcess::Needed => Some(grade),
        }
    }
}

impl FieldValues {
    /// Whether the set contains `value`.
    pub fn holds(self, value: &Value) -> bool {
        let is_one_of = |names: &[&str], item: &Value| {
            item.get("name").and_then(Value::as_str).is_some_and(|name| names.contains(&name))
        };
        match self {
            Self::Bool(wanted) => value.as_bool() == Some(wanted),
            Self::Text(texts) => value.as_str().is_some_and(|text| texts.contains(&text)),
            Self::TextBeyond(texts) => value.as_str().is_some_and(|text| !texts.contains(&text)),
            Self::Empty => match value {
                Value::Array(items) => items.is_empty(),
                Value::Object(members) => members.is_empty(),
                _ => false,
            },
            Self::Type(types) => value.get("type").and_then(Value::as_str).is_some_and(|name| types.contains(&name)),
            Self::AddsOnly(names) => value.as_object().is_some_and(|members| {
                members.get("add").is_none_or(|add| match add {
                    Value::Null => true,
                    Value::Array(items) => {
                        items.iter().all(|item| item.as_str().is_some_and(|name| names.contains(&name)))
                    }
                    _ => false,
                })
            }),
            Self::NamesOnly(names) => {
                value.as_array().is_some_and(|items| items.iter().all(|item| is_one_of(names, item)))
            }
            Self::NamesBeyond(names) => {
                value.as_array().is_some_and(|items| items.iter().any(|item| !is_one_of(names, item)))
            }
            Self::Any => true,
        }
    }
}
