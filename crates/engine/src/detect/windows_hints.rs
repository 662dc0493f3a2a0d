//! Windows hints: paths, shells, resources and labels that never decide for Windows, and always prevent the Linux default.

use serde_json::Value;

use crate::model::json_pointer::member;
use crate::model::names::{ARGUMENTS, OS_LABEL, program_commands};
use crate::model::pod_view::{Container, Pod};
use crate::model::text::prefix;
use crate::model::{Evidence, EvidenceOs, EvidenceSource, Os, json_pointer};

/// Programs that a command line names only on Windows; `pwsh` exists on Linux too, but is never evidence against
/// Windows.
const WINDOWS_SHELLS: [&str; 3] = ["powershell", "pwsh", "cmd"];

/// How the path of a named pipe begins.
pub(crate) const PIPES: &str = r"\\.\pipe\";

/// How the address of a named pipe begins.
const PIPE_SCHEME: &str = "npipe:";

/// Extended resources that device plugins and controllers advertise only on Windows nodes. Any kubelet can advertise any
/// resource, so that nodes are no evidence for others.
const WINDOWS_RESOURCES: [(&str, &str); 2] = [
    ("microsoft.com/directx", "kubernetes/kubernetes test/e2e/windows/device_plugin.go"),
    ("vpc.amazonaws.com/PrivateIPv4Address", "aws/amazon-vpc-resource-controller-k8s pkg/config/type.go"),
];

/// The first hint of Windows: a drive or pipe path, a Windows shell, a resource of Windows nodes, or a label with which a
/// kubelet on Linux rejects the pod.
pub(crate) fn looks_windows(pod: &Pod<'_>) -> Option<Evidence> {
    if pod.label(OS_LABEL) == Some(Os::Windows.name()) {
        let pointer = pod.at(&format!("/metadata/labels/{}", json_pointer::escape(OS_LABEL)));
        return Some(Evidence { os: EvidenceOs::LooksWindows, source: EvidenceSource::Field(pointer) });
    }
    let in_containers = pod.containers().find_map(|container| {
        let texts = |name: &'static str| {
            let list = container.get(name).and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str)
        };
        let shell = container.programs().find(|&(list, at)| texts(list).nth(at).is_some_and(is_windows_shell));
        let shell = shell.map(|(list, _)| list);
        let path = program_commands().chain([ARGUMENTS]).find(|name| texts(name).any(is_windows_path));
        let mounts = container.get("/volumeMounts").and_then(Value::as_array).into_iter().flatten();
        let mount = mounts
            .filter_map(|mount| mount.get("mountPath").and_then(Value::as_str))
            .any(is_windows_path)
            .then_some("/volumeMounts");
        let working =
            container.get("/workingDir").and_then(Value::as_str).is_some_and(is_windows_path).then_some("/workingDir");
        let hint = shell.or(path).or(mount).or(working).map(str::to_owned).or_else(|| windows_resource(&container))?;
        Some(container.pointer() + &hint)
    });
    let pointer = in_containers.or_else(|| {
        let volumes = pod.items("/spec/volumes").iter().enumerate();
        volumes
            .filter(|(_, volume)| member(volume, "/hostPath/path").and_then(Value::as_str).is_some_and(is_windows_path))
            .map(|(index, _)| format!("/spec/volumes/{index}/hostPath/path"))
            .next()
    })?;
    Some(Evidence { os: EvidenceOs::LooksWindows, source: EvidenceSource::Field(pod.at(&pointer)) })
}

/// The pointer, below the container, of a resource that only Windows nodes have.
fn windows_resource(container: &Container<'_>) -> Option<String> {
    let resources = container.get("/resources")?;
    ["limits", "requests"].into_iter().find_map(|list| {
        let amounts = resources.get(list)?.as_object()?;
        let (name, _) = WINDOWS_RESOURCES.iter().find(|(name, _)| amounts.contains_key(*name))?;
        Some(format!("/resources/{list}/{}", json_pointer::escape(name)))
    })
}

/// Whether it is a path that only Windows has: `C:\…`, `c:/…`, `\\.\pipe\…`, `npipe://…`.
pub fn is_windows_path(text: &str) -> bool {
    !windows_path_start(text).is_empty()
}

/// The beginning of a path by which it is one of Windows: `C:\`, `\\.\pipe\`, `npipe:`; empty if it is not.
pub fn windows_path_start(text: &str) -> &str {
    let has_drive = || matches!(text.as_bytes(), [letter, b':', b'\\' | b'/', ..] if letter.is_ascii_alphabetic());
    let length = if text.starts_with(PIPES) {
        PIPES.len()
    } else if text.starts_with(PIPE_SCHEME) {
        PIPE_SCHEME.len()
    } else if has_drive() {
        r"C:\".len()
    } else {
        0
    };
    prefix(text, length)
}

/// Whether a program is a shell of Windows: `cmd`, `powershell.exe`, with any path.
pub fn is_windows_shell(program: &str) -> bool {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let name = name.to_ascii_lowercase();
    WINDOWS_SHELLS.contains(&name.strip_suffix(".exe").unwrap_or(&name))
}
