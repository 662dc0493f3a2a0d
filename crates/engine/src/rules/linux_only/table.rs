//! The table of fields that work on Linux only.
//!
//! Each row is a field of a pod or of its containers (or of both), the effect of its values on Windows, and what to
//! write instead. The fields that `spec.os.name: windows` forbids are those that the API server's `validateWindows` and
//! `validatePodResources` reject (Kubernetes 1.36, pkg/apis/core/validation/validation.go); what the kubelet rejects is
//! in its `lifecycle/predicate.go` and `pkg/security/apparmor/validate_disabled.go`.

use serde_json::Value;

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
/// Capabilities that a container on Linux has without asking for them, so that asking proves nothing about the program:
/// containerd pkg/oci/spec.go `defaultUnixCaps`, and the same in Docker (moby/moby `oci/caps/defaults.go`).
const RUNTIME_DEFAULTS: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "NET_RAW",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

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

/// Declares the table. The comment of a row is the summary of its rule; `rule` are members of the rule, and the last
/// members those of the row, that differ from the defaults.
macro_rules! fields {
    ($(
        $(#[doc = $summary:literal])+
        {
            code: $code:literal,
            name: $name:literal,
            default: $default:ident,
            why: $why:literal,
            instead: $instead:literal,
            $(rule: { $($rule_key:ident: $rule_value:expr),+ $(,)? },)?
            pod: $pod:expr,
            container: $container:expr,
            $($key:ident: $value:expr,)*
        }
    )+) => {
        &[$(LinuxOnlyField {
            $($key: $value,)*
            ..LinuxOnlyField {
                rule: rule! {
                    $(#[doc = $summary])+
                    {
                        code: $code,
                        name: $name,
                        default: $default,
                        why: $why,
                        instead: $instead,
                        $($($rule_key: $rule_value,)+)?
                    } or { repair: true }
                },
                pod: $pod,
                container: $container,
                forbidden_by_os: true,
                grades: SOFT,
                host_process: HostProcess::Same,
                server_rejects: None,
                kubelet_rejects: None,
            }
        }),+]
    };
}

/// The table, in order of code.
pub static FIELDS: &[LinuxOnlyField] = fields! {
    /// runAsUser on a Windows pod
    {
        code: "MUL201", name: "run-as-user", default: Deny,
        why: "Windows has no numeric user ids",
        instead: "write windowsOptions.runAsUserName: ContainerUser",
        rule: {
            translation: Some(
                "0 becomes windowsOptions.runAsUserName ContainerAdministrator, any other beside runAsNonRoot: true \
                 becomes ContainerUser",
            ),
        },
        pod: Some("/spec/securityContext/runAsUser"),
        container: Some("/securityContext/runAsUser"),
        grades: HARD,
    }

    /// runAsGroup on a Windows pod
    {
        code: "MUL202", name: "run-as-group", default: Repair,
        why: "Windows has no numeric group ids",
        instead: "write windowsOptions.runAsUserName: ContainerUser",
        pod: Some("/spec/securityContext/runAsGroup"),
        container: Some("/securityContext/runAsGroup"),
    }

    /// privileged on a Windows pod
    {
        code: "MUL203", name: "privileged", default: Deny,
        why: "Windows has no privileged containers",
        instead: "use a HostProcess pod (windowsOptions.hostProcess: true with hostNetwork: true)",
        pod: None,
        container: Some("/securityContext/privileged"),
        grades: FALSE_OR_HARD,
        host_process: HostProcess::Soft("a HostProcess container has its user's rights on the host anyway"),
    }

    /// hostNetwork on a Windows pod that is not a HostProcess pod
    {
        code: "MUL204", name: "host-network", default: Deny,
        why: "a Windows pod always gets a network of its own",
        instead: "use ports with hostPort, or a HostProcess pod",
        rule: { repair: false },
        pod: Some("/spec/hostNetwork"),
        container: None,
        forbidden_by_os: false,
        grades: TRUE_IS_HARD,
        host_process: HostProcess::Needed,
    }

    /// hostPID on a Windows pod
    {
        code: "MUL205", name: "host-pid", default: Deny,
        why: "Windows containers cannot share the host's processes",
        instead: "use a HostProcess pod",
        pod: Some("/spec/hostPID"),
        container: None,
        grades: TRUE_IS_HARD,
        host_process: HostProcess::Soft("a HostProcess container sees the host's processes anyway"),
    }

    /// hostIPC on a Windows pod
    {
        code: "MUL206", name: "host-ipc", default: Deny,
        why: "Windows containers cannot share the host's IPC",
        instead: "use a named pipe mounted by hostPath",
        pod: Some("/spec/hostIPC"),
        container: None,
        grades: TRUE_IS_HARD,
        host_process: HostProcess::Soft("a HostProcess container shares the host's IPC anyway"),
    }

    /// hostUsers on a Windows pod
    {
        code: "MUL207", name: "host-users", default: Repair,
        why: "Windows has no user namespaces",
        instead: "leave it out",
        pod: Some("/spec/hostUsers"),
        container: None,
        grades: &[(FieldValues::Bool(true), ValueGrade::Harmless), (FieldValues::Any, ValueGrade::Soft)],
    }

    /// shareProcessNamespace on a Windows pod
    {
        code: "MUL208", name: "share-process-namespace", default: Repair,
        why: "containers of a Windows pod cannot see each other's processes",
        instead: "leave it out",
        pod: Some("/spec/shareProcessNamespace"),
        container: None,
        grades: FALSE_OR_SOFT,
    }

    /// capabilities on a Windows container
    {
        code: "MUL209", name: "capabilities", default: Deny,
        why: "Windows has no Linux capabilities",
        instead: "leave them out; if the program needs more rights, write windowsOptions.runAsUserName: ContainerAdministrator",
        pod: None,
        container: Some("/securityContext/capabilities"),
        grades: &[
            (FieldValues::Empty, ValueGrade::Harmless),
            (FieldValues::AddsOnly(&[]), ValueGrade::Harmless),
            (FieldValues::AddsOnly(RUNTIME_DEFAULTS), ValueGrade::Soft),
            (FieldValues::Any, ValueGrade::Hard),
        ],
    }

    /// readOnlyRootFilesystem on a Windows container
    {
        code: "MUL210", name: "read-only-root-filesystem", default: Repair,
        why: "Windows needs to write to its registry and system files",
        instead: "mount read-only volumes where it matters",
        pod: None,
        container: Some("/securityContext/readOnlyRootFilesystem"),
        grades: FALSE_OR_SOFT,
    }

    /// allowPrivilegeEscalation on a Windows container
    {
        code: "MUL211", name: "allow-privilege-escalation", default: Repair,
        why: "Windows has no setuid programs to escalate by",
        instead: "leave it out",
        pod: None,
        container: Some("/securityContext/allowPrivilegeEscalation"),
        grades: FALSE_OR_SOFT,
    }

    /// procMount on a Windows container
    {
        code: "MUL212", name: "proc-mount", default: Deny,
        why: "Windows has no /proc",
        instead: "leave it out",
        pod: None,
        container: Some("/securityContext/procMount"),
        grades: &[(FieldValues::Text(&["Default"]), ValueGrade::Harmless), (FieldValues::Any, ValueGrade::Hard)],
    }

    /// seccompProfile on a Windows pod
    {
        code: "MUL213", name: "seccomp-profile", default: Repair,
        why: "Windows has no seccomp",
        instead: "leave it out",
        pod: Some("/spec/securityContext/seccompProfile"),
        container: Some("/securityContext/seccompProfile"),
        grades: PROFILE,
    }

    /// appArmorProfile on a Windows pod
    {
        code: "MUL214", name: "app-armor-profile", default: Repair,
        why: "Windows has no AppArmor",
        instead: "leave it out",
        pod: Some("/spec/securityContext/appArmorProfile"),
        container: Some("/securityContext/appArmorProfile"),
        grades: PROFILE,
        kubelet_rejects: Some(FieldValues::Type(&["RuntimeDefault", "Localhost"])),
    }

    /// seLinuxOptions on a Windows pod
    {
        code: "MUL215", name: "se-linux-options", default: Repair,
        why: "Windows has no SELinux",
        instead: "leave it out",
        pod: Some("/spec/securityContext/seLinuxOptions"),
        container: Some("/securityContext/seLinuxOptions"),
    }

    /// seLinuxChangePolicy on a Windows pod
    {
        code: "MUL216", name: "se-linux-change-policy", default: Repair,
        why: "Windows has no SELinux",
        instead: "leave it out",
        pod: Some("/spec/securityContext/seLinuxChangePolicy"),
        container: None,
        grades: HARMLESS,
    }

    /// fsGroup on a Windows pod
    {
        code: "MUL217", name: "fs-group", default: Repair,
        why: "Windows volumes have no group",
        instead: "grant rights by access control lists (icacls)",
        pod: Some("/spec/securityContext/fsGroup"),
        container: None,
    }

    /// fsGroupChangePolicy on a Windows pod
    {
        code: "MUL218", name: "fs-group-change-policy", default: Repair,
        why: "Windows volumes have no group owner",
        instead: "leave it out",
        pod: Some("/spec/securityContext/fsGroupChangePolicy"),
        container: None,
        grades: HARMLESS,
    }

    /// supplementalGroups on a Windows pod
    {
        code: "MUL219", name: "supplemental-groups", default: Repair,
        why: "Windows has no numeric group ids",
        instead: "use a gMSA account for rights on shares",
        pod: Some("/spec/securityContext/supplementalGroups"),
        container: None,
    }

    /// supplementalGroupsPolicy on a Windows pod
    {
        code: "MUL220", name: "supplemental-groups-policy", default: Repair,
        why: "Windows has no numeric group ids",
        instead: "leave it out",
        pod: Some("/spec/securityContext/supplementalGroupsPolicy"),
        container: None,
        grades: &[(FieldValues::Text(&["Merge"]), ValueGrade::Harmless), (FieldValues::Any, ValueGrade::Soft)],
        kubelet_rejects: Some(FieldValues::Text(&["Strict"])),
    }

    /// sysctls on a Windows pod
    {
        code: "MUL221", name: "sysctls", default: Deny,
        why: "Windows has no sysctls",
        instead: "leave them out, or set the registry value in the image",
        pod: Some("/spec/securityContext/sysctls"),
        container: None,
        grades: &[
            (FieldValues::Empty, ValueGrade::Fine),
            (FieldValues::NamesOnly(SAFE_SYSCTLS), ValueGrade::Soft),
            (FieldValues::Any, ValueGrade::Hard),
        ],
        kubelet_rejects: Some(FieldValues::NamesBeyond(SAFE_SYSCTLS)),
    }

    /// pod-level resources on a Windows pod
    {
        code: "MUL222", name: "pod-resources", default: Deny,
        why: "Windows has limits per container only",
        instead: "set resources on the containers",
        rule: { repair: false },
        pod: Some("/spec/resources"),
        container: None,
        grades: &[(FieldValues::Empty, ValueGrade::Harmless), (FieldValues::Any, ValueGrade::Hard)],
        kubelet_rejects: Some(FieldValues::Any),
    }

    // Behind a feature gate that is off up to 1.36 (ContainerStopSignals): if it is off, the API server drops the
    // field; if it is on, the API server accepts SIGTERM and SIGKILL beside spec.os.name: windows (validateStopSignal).
    /// a stop signal that Windows does not have
    {
        code: "MUL223", name: "stop-signal", default: Repair,
        why: "Windows stops containers by SIGTERM or SIGKILL only",
        instead: "use SIGTERM, or a preStop hook",
        pod: None,
        container: Some("/lifecycle/stopSignal"),
        forbidden_by_os: false,
        grades: &[(FieldValues::Text(WINDOWS_SIGNALS), ValueGrade::Fine), (FieldValues::Any, ValueGrade::Soft)],
        server_rejects: Some(FieldValues::TextBeyond(WINDOWS_SIGNALS)),
    }

    /// dnsPolicy ClusterFirstWithHostNet on a pod that is not a HostProcess pod
    {
        code: "MUL224", name: "dns-policy", default: Warn,
        why: "a Windows pod has no host network, so this is ClusterFirst",
        instead: "use ClusterFirst",
        rule: { repair: false },
        pod: Some("/spec/dnsPolicy"),
        container: None,
        forbidden_by_os: false,
        grades: &[(FieldValues::Text(&["ClusterFirstWithHostNet"]), ValueGrade::Hard), (FieldValues::Any, ValueGrade::Fine)],
        host_process: HostProcess::Needed,
    }
};

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
