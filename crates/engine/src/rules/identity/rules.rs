//! The rules of this family.

use crate::model::settings::Action;
use crate::rules::rule::{Rule, rule};

/// The rules of this file.
pub(crate) static RULES: [Rule; 9] = [
    RUN_AS_USER_NAME,
    GMSA_CREDENTIAL_SPEC,
    HOST_PROCESS_MIXED,
    HOST_PROCESS_NETWORK,
    HOST_PROCESS_USER,
    HOST_PROCESS_NON_ROOT,
    RUN_AS_NON_ROOT,
    HOST_PROCESS_VOLUME,
    GMSA_WITHOUT_NAME,
];

pub(crate) const RUN_AS_USER_NAME: Rule = rule!(
    "MUL401",
    "run-as-user-name",
    Action::Deny,
    "runAsUserName that is not a Windows user name",
    "Windows has no user with such a name",
    r"write ContainerUser, NT AUTHORITY\SYSTEM or DOMAIN\user",
);

pub(crate) const GMSA_CREDENTIAL_SPEC: Rule = rule!(
    "MUL402",
    "gmsa-credential-spec",
    Action::Deny,
    "a gMSA credential spec that is empty or too large, or whose name is invalid",
    "no GMSACredentialSpec can have that name or contents",
    "write the name of a GMSACredentialSpec, such as webapp1",
);

pub(crate) const HOST_PROCESS_MIXED: Rule = rule!(
    "MUL403",
    "host-process-mixed",
    Action::Deny,
    "hostProcess for some containers of a pod only",
    "all containers of a pod are HostProcess containers, or none is",
    "write hostProcess once, in the pod's securityContext.windowsOptions",
);

pub(crate) const HOST_PROCESS_NETWORK: Rule = rule!(
    "MUL404",
    "host-process-network",
    Action::Deny,
    "a HostProcess pod without hostNetwork",
    "HostProcess containers have no network but the host's",
    "write hostNetwork: true",
);

pub(crate) const HOST_PROCESS_USER: Rule = rule!(
    "MUL405",
    "host-process-user",
    Action::Warn,
    "a HostProcess container that names no account of the host",
    "HostProcess containers run as an account of the host",
    r"write NT AUTHORITY\SYSTEM, NT AUTHORITY\Local service or NT AUTHORITY\NetworkService",
);

pub(crate) const HOST_PROCESS_NON_ROOT: Rule = rule!(
    "MUL406",
    "host-process-non-root",
    Action::Warn,
    "runAsNonRoot in a HostProcess pod",
    "HostProcess containers have the rights of a host account",
    "leave runAsNonRoot out",
);

pub(crate) const RUN_AS_NON_ROOT: Rule = rule!(
    "MUL407",
    "run-as-non-root",
    Action::Deny,
    "runAsNonRoot together with runAsUserName ContainerAdministrator",
    "the kubelet treats ContainerAdministrator as root",
    "use ContainerUser, or leave runAsNonRoot out",
);

/// Reported by the [storage](crate::rules::storage::check) rules, because they determine which volumes are pipes,
/// sockets, and mounted.
pub(crate) const HOST_PROCESS_VOLUME: Rule = rule!(
    "MUL408",
    "host-process-volume",
    Action::Warn,
    "a named pipe or socket as a volume of a HostProcess pod",
    "HostProcess containers cannot mount pipes and sockets",
    "leave the volume out and open the path of the host",
);

pub(crate) const GMSA_WITHOUT_NAME: Rule = rule!(
    "MUL409",
    "gmsa-without-name",
    Action::Warn,
    "the contents of a gMSA credential spec without its name",
    "the gMSA webhook rejects contents without a name",
    "write gmsaCredentialSpecName and leave gmsaCredentialSpec out",
);
