//! HostProcess containers.

use std::cell::OnceCell;

use serde_json::Value;

use crate::model::json_pointer::escape;
use crate::model::yaml_escapes::has_escape;
use crate::place::WorkloadContext;
use crate::rules::finding::{Finding, RejectedBy};
use crate::rules::identity::rules::{
    HOST_PROCESS_ANNOTATION, HOST_PROCESS_MIXED, HOST_PROCESS_NETWORK, HOST_PROCESS_USER,
};
use crate::rules::identity::security_context::SecurityContext;
use crate::rules::identity::user_name::faults;

/// If it is `true`, hcsshim runs the container with the rights of containerd and ignores the user
/// (internal/jobcontainers/oci.go, `inheritUserTokenIsSet`).
const INHERIT_USER: &str = "microsoft.com/hostprocess-inherit-user";

/// What makes a HostProcess container for hcsshim (internal/oci, `IsJobContainer`; also in a virtual machine). containerd
/// sets it for each container from `windowsOptions.hostProcess`, over what a pod has (`internal/cri/server/container_create.go`).
const HOST_PROCESS: &str = "microsoft.com/hostprocess-container";

/// Where the root file system of a HostProcess container is.
const ROOT_FILESYSTEM: &str = "microsoft.com/hostprocess-rootfs-location";

/// The annotations of hcsshim about HostProcess containers (pkg/annotations/annotations.go). By default containerd passes
/// only `io.microsoft.container.*` and `io.microsoft.virtualmachine.*` on (`internal/cri/config/config_windows.go`).
const ANNOTATIONS: [&str; 4] =
    [HOST_PROCESS, INHERIT_USER, ROOT_FILESYSTEM, "microsoft.com/disable-hostprocess-container"];

/// The domain of the service accounts. hcsshim compares it case-sensitively before it logs on as a service
/// (internal/jobcontainers/logon.go, `processToken`); Windows ignores the case of the user.
const SERVICE_DOMAIN: &str = "NT AUTHORITY";

/// The accounts that need no password, in the spellings that occur, with their names in the documentation of
/// HostProcess pods. Services use `LocalSystem` for SYSTEM, which is not the name of an account.
const SERVICE_ACCOUNTS: [(&str, &str); 6] = [
    ("SYSTEM", "SYSTEM"),
    ("LocalSystem", "SYSTEM"),
    ("LocalService", "Local service"),
    ("Local service", "Local service"),
    ("NetworkService", "NetworkService"),
    ("Network service", "NetworkService"),
];

/// Users that exist in images but on no host.
const IMAGE_USERS: [&str; 2] = ["ContainerAdministrator", "ContainerUser"];

/// Findings about annotations of a Windows pod that hcsshim would read.
pub(crate) fn annotations(cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    let is_set = |key: &&str| match cx.input.pod.annotation(key) {
        Some(value) if *key == ROOT_FILESYSTEM => !value.is_empty(),
        // It decides as whom the containers run: see `users`.
        _ if *key == INHERIT_USER && cx.host_process => false,
        value => value == Some("true"),
    };
    for key in ANNOTATIONS.into_iter().filter(is_set) {
        let why = if key == HOST_PROCESS {
            "containerd takes it from windowsOptions.hostProcess"
        } else {
            HOST_PROCESS_ANNOTATION.why
        };
        let pointer = cx.input.pod.at(&format!("/metadata/annotations/{}", escape(key)));
        out.push(cx.finding(&HOST_PROCESS_ANNOTATION, pointer, why));
    }
}

/// The checks of the API server: `validateWindowsHostProcessPod`. For an ephemeral container it checks the whole pod
/// again, at the same paths.
pub(crate) fn check(pod: SecurityContext<'_>, cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    let mut reject = |mut found: Finding| {
        found.rejected_by = RejectedBy::ApiServer;
        out.push(found);
    };
    for container in cx.containers().map(SecurityContext::of_container) {
        if let (Some(whole), Some(own)) = (pod.host_process(), container.host_process())
            && whole != own
        {
            let message = format!("the pod sets hostProcess: {whole}, and this container {own}");
            reject(cx.finding(&HOST_PROCESS_MIXED, container.option_at(cx, "hostProcess"), message));
        }
    }
    let mut containers = cx.input.pod.containers();
    let runs_on_host = |container: &_| SecurityContext::of_container(*container).runs_on_host(pod);
    let Some(inside) = containers.find(runs_on_host) else { return };
    if let Some(outside) = cx.input.pod.containers().find(|container| !runs_on_host(container)) {
        let message = format!("container {} is a HostProcess container and {} is not", inside.name(), outside.name());
        let mut found = cx.finding(&HOST_PROCESS_MIXED, cx.input.pod.at("/spec"), message);
        if !cx.is_whole_pod() {
            // The other containers can no longer change.
            found.help = if cx.containers().any(|container| runs_on_host(&container)) {
                "leave hostProcess out of the new container".into()
            } else {
                "write windowsOptions.hostProcess: true into the new container (kubectl debug --custom)".into()
            };
        }
        reject(found);
    }
    if cx.input.pod.get("/spec/hostNetwork").and_then(Value::as_bool) != Some(true) {
        let pointer = cx.input.pod.at("/spec/hostNetwork");
        let mut found = cx.finding(&HOST_PROCESS_NETWORK, pointer, HOST_PROCESS_NETWORK.why);
        if !cx.is_whole_pod() {
            found.help = "leave hostProcess out: hostNetwork of a running pod cannot change".into();
        }
        reject(found);
    }
}

/// Findings about users that the API server accepts, and as which the host cannot run a process.
pub(crate) fn users(pod: SecurityContext<'_>, cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    if cx.input.pod.annotation(INHERIT_USER) == Some("true") {
        return;
    }
    // Checked and reported once, however many containers inherit it from the pod.
    let (mut of_pod, pods_account) = (None, OnceCell::new());
    for container in cx.containers().map(SecurityContext::of_container) {
        let Some((place, message, help)) = wrong_user(container, pod, &pods_account, cx) else { continue };
        let found = || {
            let mut found = cx.finding(&HOST_PROCESS_USER, place.option_at(cx, "runAsUserName"), message);
            if let Some(help) = help {
                found.help = help.into();
            }
            found
        };
        if place.container.is_some() {
            out.push(found());
        } else if cx.is_whole_pod() {
            of_pod.get_or_insert_with(found);
        }
    }
    out.extend(of_pod);
}

/// Why the host cannot run a process as a user, and what to write instead of the rule's own help.
type AccountFault = (&'static str, Option<String>);

/// The wrong user of a HostProcess container: where, why, and what to write instead of the rule's own help.
/// `pods_account`: what is wrong with the user of the pod, once it is known.
fn wrong_user<'a>(
    container: SecurityContext<'a>,
    pod: SecurityContext<'a>,
    pods_account: &OnceCell<Option<AccountFault>>,
    cx: &WorkloadContext<'_>,
) -> Option<(SecurityContext<'a>, &'static str, Option<String>)> {
    if !container.runs_on_host(pod) {
        return None;
    }
    let (place, fault) = if let Some(name) = container.text("runAsUserName") {
        (container, wrong_account(name))
    } else if let Some(name) = pod.text("runAsUserName") {
        (pod, pods_account.get_or_init(|| wrong_account(name)).clone())
    } else {
        let inherits = container.host_process().is_none() && cx.is_whole_pod();
        let place = if inherits { pod } else { container };
        (place, Some(("no runAsUserName names the account of the host it runs as", None)))
    };
    let (message, help) = fault?;
    Some((place, message, help))
}

/// Why the host cannot run a process as that user; `None` also for an invalid name, which MUL401 reports, and for one with
/// the character of an escape, which MUL804 reports.
fn wrong_account(name: &str) -> Option<AccountFault> {
    if !faults(name).is_empty() || has_escape(name) {
        return None;
    }
    let service = |user: &str| {
        let known = SERVICE_ACCOUNTS.iter().find(|(known, _)| known.eq_ignore_ascii_case(user));
        known.map(|(_, documented)| format!(r"write {SERVICE_DOMAIN}\{documented}"))
    };
    match name.split_once('\\') {
        Some((domain, user)) if domain.eq_ignore_ascii_case(SERVICE_DOMAIN) && service(user).is_some() => {
            let known = domain == SERVICE_DOMAIN && !user.eq_ignore_ascii_case("LocalSystem");
            (!known).then(|| ("Windows service accounts are known by their exact names only", service(user)))
        }
        Some(_) => Some(("containerd has no password for accounts of a domain", None)),
        None if service(name).is_some() => Some(("Windows service accounts need their domain", service(name))),
        None if IMAGE_USERS.iter().any(|user| user.eq_ignore_ascii_case(name)) => {
            Some(("the host has no such account: images have it", None))
        }
        None => Some((
            "a name without domain is a local group of the host",
            Some(r"keep it if all nodes have that group and containerd 1.7, else write NT AUTHORITY\SYSTEM".to_owned()),
        )),
    }
}
