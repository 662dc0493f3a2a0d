//! 4xx: who a container runs as: runAsUserName, gMSA, HostProcess.
//!
//! MUL401 to MUL404 are what the API server itself refuses, whatever the pod's operating system (Kubernetes 1.36,
//! pkg/apis/core/validation/validation.go, `validateWindowsSecurityContextOptions` and `validateWindowsHostProcessPod`):
//! no more, no less, and at the same field paths. `--allow-privileged=false` is the cluster's own setting and no
//! finding. The others are what the server lets pass and a Windows node does not do.

mod gmsa;
mod host_process;
mod non_root;
mod user_name;

use serde_json::Value;

use super::{Context, Reach, Rule};
use crate::engine::finding::Finding;
use crate::engine::pod::{Container, Pod};
use crate::policy::Action;

/// The rules of this file.
pub static RULES: [Rule; 9] = [
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

const RUN_AS_USER_NAME: Rule = rule!(
    "MUL401",
    "run-as-user-name",
    Action::Deny,
    "runAsUserName that is no Windows user name",
    "Windows has no user of such a name",
    r"write ContainerUser, NT AUTHORITY\SYSTEM or DOMAIN\user",
);

const GMSA_CREDENTIAL_SPEC: Rule = rule!(
    "MUL402",
    "gmsa-credential-spec",
    Action::Deny,
    "a gMSA credential spec that is empty or too large, or whose name is no name",
    "no GMSACredentialSpec resource can be meant",
    "write the name of a GMSACredentialSpec, such as webapp1",
);

const HOST_PROCESS_MIXED: Rule = rule!(
    "MUL403",
    "host-process-mixed",
    Action::Deny,
    "hostProcess for some containers of a pod only",
    "all containers of a pod are HostProcess containers, or none is",
    "write hostProcess once, in the pod's securityContext.windowsOptions",
);

const HOST_PROCESS_NETWORK: Rule = rule!(
    "MUL404",
    "host-process-network",
    Action::Deny,
    "a HostProcess pod without hostNetwork",
    "HostProcess containers have no network but the host's",
    "write hostNetwork: true",
);

const HOST_PROCESS_USER: Rule = rule!(
    "MUL405",
    "host-process-user",
    Action::Warn,
    "a HostProcess container that names no account of the host",
    "HostProcess containers run as an account of the host",
    r"write NT AUTHORITY\SYSTEM, NT AUTHORITY\Local service or NT AUTHORITY\NetworkService",
);

const HOST_PROCESS_NON_ROOT: Rule = rule!(
    "MUL406",
    "host-process-non-root",
    Action::Warn,
    "runAsNonRoot in a HostProcess pod",
    "HostProcess containers have the rights of a host account",
    "leave runAsNonRoot out",
);

const RUN_AS_NON_ROOT: Rule = rule!(
    "MUL407",
    "run-as-non-root",
    Action::Deny,
    "runAsNonRoot together with runAsUserName ContainerAdministrator",
    "the kubelet takes ContainerAdministrator for root",
    "use ContainerUser, or leave runAsNonRoot out",
);

/// Found by the [storage](super::storage) rules, which know what is a pipe, a socket, and mounted at all.
pub(super) const HOST_PROCESS_VOLUME: Rule = rule!(
    "MUL408",
    "host-process-volume",
    Action::Warn,
    "a named pipe or socket as a volume of a HostProcess pod",
    "HostProcess containers cannot mount pipes and sockets",
    "leave the volume out and open the path of the host",
);

const GMSA_WITHOUT_NAME: Rule = rule!(
    "MUL409",
    "gmsa-without-name",
    Action::Warn,
    "the contents of a gMSA credential spec without its name",
    "the gMSA webhook refuses contents without a name",
    "write gmsaCredentialSpecName and leave gmsaCredentialSpec out",
);

/// Findings about user names, gMSA and HostProcess.
pub fn check(cx: &Context<'_>, out: &mut Vec<Finding>) {
    let pod = SecurityContext::of_pod(&cx.pod);
    let mut containers = cx.pod.containers().map(SecurityContext::of_container);
    // Every rule is about one of the options, and most pods have none.
    if pod.options().is_none() && !containers.any(|container| container.options().is_some()) {
        return;
    }
    let windows = cx.is_windows();
    for place in places(cx) {
        user_name::check(place, cx, out);
        gmsa::check(place, windows, cx, out);
    }
    host_process::check(pod, cx, out);
    if windows {
        host_process::users(pod, cx, out);
        non_root::check(pod, cx, out);
    }
}

/// A `securityContext`: the pod's own, or that of one container.
#[derive(Clone, Copy)]
struct SecurityContext<'a> {
    /// `None`: the pod's.
    container: Option<Container<'a>>,
    value: Option<&'a Value>,
}

impl<'a> SecurityContext<'a> {
    fn of_pod(pod: &Pod<'a>) -> Self {
        Self { container: None, value: pod.get("/spec/securityContext") }
    }

    fn of_container(container: Container<'a>) -> Self {
        Self { container: Some(container), value: container.value.get("securityContext") }
    }

    fn member(self, name: &str) -> Option<&'a Value> {
        self.value.and_then(|context| context.get(name)).filter(|value| !value.is_null())
    }

    fn options(self) -> Option<&'a Value> {
        self.member("windowsOptions")
    }

    /// A string in `windowsOptions`; empty counts, because the API server refuses it.
    fn text(self, option: &str) -> Option<&'a str> {
        self.options()?.get(option)?.as_str()
    }

    fn host_process(self) -> Option<bool> {
        self.options()?.get("hostProcess")?.as_bool()
    }

    fn non_root(self) -> Option<bool> {
        self.member("runAsNonRoot")?.as_bool()
    }

    /// Whether this container is a HostProcess container: what it says itself counts before what its pod says.
    fn runs_on_host(self, pod: Self) -> bool {
        self.host_process().or(pod.host_process()).unwrap_or(false)
    }

    /// The pointer of `below`, which counts from the `securityContext`.
    fn at(self, cx: &Context<'_>, below: &str) -> String {
        match self.container {
            Some(container) => cx.at(&container, &format!("/securityContext{below}")),
            None => cx.pod.at(&format!("/spec/securityContext{below}")),
        }
    }

    /// The pointer of one of the `windowsOptions`.
    fn option_at(self, cx: &Context<'_>, option: &str) -> String {
        self.at(cx, &format!("/windowsOptions/{option}"))
    }
}

/// Every `securityContext` that is asked about, the pod's first.
fn places<'a>(cx: &Context<'a>) -> impl Iterator<Item = SecurityContext<'a>> + use<'a> {
    let pod = (cx.reach == Reach::Everything).then(|| SecurityContext::of_pod(&cx.pod));
    pod.into_iter().chain(cx.containers().map(SecurityContext::of_container))
}
