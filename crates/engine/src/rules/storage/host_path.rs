//! Host paths: what a path of Linux nodes is on a Windows node. There, a path that starts with a slash is below `C:\`
//! (`pkg/volume/util/util.go`, `MakeAbsolutePath`), and containerd creates a directory if it is missing
//! (`internal/cri/opts/spec_windows_opts.go`, `parseMount`).

use crate::detect::{PIPES, windows_path_start};
use crate::model::text::prefix;
use crate::place::WorkloadContext;
use crate::rules::finding::Finding;
use crate::rules::identity::HOST_PROCESS_VOLUME;
use crate::rules::storage::rules::{LINUX_HOST_PATH, UNIX_SOCKET};
use crate::rules::storage::volume::{Volume, by_kubelet};

/// What a path of Linux nodes is on Windows nodes.
enum OnWindows {
    /// The same path below `C:\`, with unknown contents.
    Same,
    /// The same path below `C:\`, with the same contents.
    SameTree,
    /// This path, with the same contents.
    Moved(&'static str),
}

/// One path, what it is on Windows nodes, and the source.
struct NodePath {
    linux: &'static str,
    on_windows: OnWindows,
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers and for the test that no row lacks one"))]
    source: &'static str,
}

const fn row(linux: &'static str, on_windows: OnWindows, source: &'static str) -> NodePath {
    NodePath { linux, on_windows, source }
}

const PREPARE_NODE: &str = "kubernetes-sigs/sig-windows-tools hostprocess/PrepareNode.ps1";
const INSTALL_CONTAINERD: &str = "kubernetes-sigs/sig-windows-tools hostprocess/Install-Containerd.ps1";
const FLANNEL: &str = "kubernetes-sigs/sig-windows-tools hostprocess/flannel/flanneld/start.ps1";
const CONTAINERD: &str = "containerd/containerd defaults/defaults_windows.go";
const DOCKER: &str = "learn.microsoft.com/virtualization/windowscontainers/manage-docker/configure-docker-daemon";
const EVERY_WINDOWS: &str = "a directory of every Windows, without its drive";

/// The first match wins.
#[rustfmt::skip]
static PATHS: &[NodePath] = &[
    row("/", OnWindows::Same, "the system drive"),
    row("/var/lib/kubelet", OnWindows::SameTree, "kubernetes.io/docs/reference/node/kubelet-files: C:\\ in place of /"),
    row("/var/log", OnWindows::Same, "holds the next three"),
    row("/var/log/pods", OnWindows::SameTree, "kubernetes: pkg/kubelet/apis/config/v1beta1/defaults.go, podLogsDir"),
    row("/var/log/containers", OnWindows::SameTree, "kubernetes: pkg/kubelet/kubelet.go, DefaultContainerLogsDir"),
    row("/var/log/kubelet", OnWindows::SameTree, PREPARE_NODE),
    row("/etc/kubernetes", OnWindows::SameTree, PREPARE_NODE),
    row("/k", OnWindows::SameTree, PREPARE_NODE),
    row("/etc/cni", OnWindows::SameTree, INSTALL_CONTAINERD),
    row("/opt/cni", OnWindows::SameTree, INSTALL_CONTAINERD),
    row("/etc/kube-flannel", OnWindows::SameTree, FLANNEL),
    row("/Windows", OnWindows::SameTree, EVERY_WINDOWS),
    row("/Program Files", OnWindows::SameTree, EVERY_WINDOWS),
    row("/Program Files (x86)", OnWindows::SameTree, EVERY_WINDOWS),
    row("/ProgramData", OnWindows::SameTree, EVERY_WINDOWS),
    row("/Users", OnWindows::SameTree, EVERY_WINDOWS),
    row("/etc/hosts", OnWindows::Moved(r"C:\Windows\System32\drivers\etc\hosts"), "kubernetes: pkg/kubelet/kubelet.go, windowsEtcHostsPath"),
    row("/var/lib/containerd", OnWindows::Moved(r"C:\ProgramData\containerd\root"), CONTAINERD),
    row("/run/containerd", OnWindows::Moved(r"C:\ProgramData\containerd\state"), CONTAINERD),
    row("/etc/containerd", OnWindows::Moved(r"C:\Program Files\containerd"), CONTAINERD),
    row("/var/lib/docker", OnWindows::Moved(r"C:\ProgramData\docker"), DOCKER),
];

/// A socket by its file name, the pipe that replaces it, and the source.
struct Socket {
    name: &'static str,
    pipe: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers and for the test that no row lacks one"))]
    source: &'static str,
}

const fn socket(name: &'static str, pipe: &'static str, source: &'static str) -> Socket {
    Socket { name, pipe, source }
}

const CONTAINERD_PIPE: &str = r"\\.\pipe\containerd-containerd";
const KUBEADM: &str = "kubernetes.io/docs/setup/production-environment/tools/kubeadm/install-kubeadm";

#[rustfmt::skip]
static SOCKETS: &[Socket] = &[
    socket("containerd.sock", CONTAINERD_PIPE, CONTAINERD),
    // CRI-O runs only on Linux; Windows nodes in the same cluster run containerd.
    socket("crio.sock", CONTAINERD_PIPE, KUBEADM),
    socket("cri-dockerd.sock", r"\\.\pipe\cri-dockerd", KUBEADM),
    socket("docker.sock", r"\\.\pipe\docker_engine", DOCKER),
];

/// Types with which the kubelet mounts only existing paths (`pkg/volume/hostpath/host_path.go`, `checkType`).
const CHECKED_TYPES: [&str; 5] = ["Directory", "File", "Socket", "CharDevice", "BlockDevice"];

/// Types with which the kubelet creates a missing path.
const MADE_TYPES: [&str; 2] = ["DirectoryOrCreate", "FileOrCreate"];

/// Findings about a hostPath volume on a Windows node.
pub(crate) fn check(volume: Volume<'_>, cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    let path = volume.text("hostPath", "path");
    let kind = volume.text("hostPath", "type");
    let pipe = is_pipe(path, &['\\', '/']);
    let socket = kind == "Socket" || is_socket(path);
    if path.is_empty() {
        return;
    }
    if (pipe || socket) && cx.host_process {
        // Source: the documentation of HostProcess pods, Limitations.
        let what = if pipe { "named pipes" } else { "sockets" };
        let message = format!("HostProcess containers cannot mount {what}");
        out.push(cx.finding(&HOST_PROCESS_VOLUME, volume.at(cx, "/hostPath/path"), message));
        return;
    }
    if pipe {
        named_pipe(path, kind, volume, cx, out);
        return;
    }
    let known = known(path);
    let same = match known {
        // A pod that has the path created if it is missing also provides its contents.
        None => !socket && MADE_TYPES.contains(&kind),
        Some((row, _)) => matches!(row.on_windows, OnWindows::Same | OnWindows::SameTree),
    };
    if !path.starts_with('/') || same {
        return;
    }
    let rule = if socket { &UNIX_SOCKET } else { &LINUX_HOST_PATH };
    let mut found = cx.finding(rule, volume.at(cx, "/hostPath/path"), rule.why);
    let windows = |path: &str| path.trim_end_matches('/').replace('/', "\\");
    if socket {
        if let Some(known) = SOCKETS.iter().find(|socket| path.rsplit('/').next() == Some(socket.name)) {
            found.help = format!("mount {}", known.pipe).into();
        }
    } else {
        if CHECKED_TYPES.contains(&kind) {
            found.message = "on a Windows node this Linux path is usually missing: the pod never starts".into();
        }
        found.help = match known {
            Some((NodePath { on_windows: OnWindows::Moved(there), .. }, below)) => {
                format!("write {there}{}", windows(below)).into()
            }
            _ => format!("there it is C:{}; {}", windows(path), LINUX_HOST_PATH.instead).into(),
        };
    }
    out.push(found);
}

/// The part of a path that these findings and the detection of the operating system read, with `…` for the rest:
/// `/var/lib/kubelet/…`, `/….sock`, `C:\…`. Both read it as they read the path itself.
pub fn recognized_part(path: &str) -> String {
    let end = if is_socket(path) { ".sock" } else { "" };
    let start = match known(path) {
        _ if is_pipe(path, &['\\', '/']) => prefix(path, PIPES.len()),
        Some((row, below)) if below.bytes().all(|b| b == b'/') => return row.linux.to_owned(),
        Some((row, _)) => return format!("{}/…{end}", row.linux),
        None if path.starts_with('/') => "/",
        None => windows_path_start(path),
    };
    if start.len() == path.len() { path.to_owned() } else { format!("{start}…{end}") }
}

fn is_socket(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, end)| end.eq_ignore_ascii_case("sock"))
}

/// A named pipe works, unless it is written so that the kubelet interprets it as something else.
fn named_pipe(path: &str, kind: &str, volume: Volume<'_>, cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    if !is_pipe(path, &['\\']) {
        // With two backslashes, and only then, `MakeAbsolutePath` and containerd do not interpret it as a path of drive
        // C.
        let mut found =
            cx.finding(&LINUX_HOST_PATH, volume.at(cx, "/hostPath/path"), "with slashes this is no named pipe");
        found.help = format!("write {}", path.replace('/', "\\")).into();
        out.push(found);
    } else if kind == "Socket" {
        let message = "to the kubelet a named pipe is no socket: the pod never starts";
        let mut found = by_kubelet(cx.finding(&UNIX_SOCKET, volume.at(cx, "/hostPath/type"), message));
        found.help = "leave type out".into();
        out.push(found);
    }
}

/// The table's entry for a path, and the rest of the path below it.
fn known(path: &str) -> Option<(&'static NodePath, &str)> {
    // /var/run is /run on Linux.
    let path = path.strip_prefix("/var").filter(|rest| rest.starts_with("/run/")).unwrap_or(path);
    PATHS.iter().find_map(|row| {
        let root = row.linux.trim_end_matches('/');
        let (start, below) = path.split_at_checked(root.len())?;
        let ends = below.bytes().all(|b| b == b'/');
        let inside = below.starts_with('/') && !matches!(row.on_windows, OnWindows::Same);
        // Windows paths are case-insensitive.
        (start.eq_ignore_ascii_case(root) && (ends || inside)).then_some((row, below))
    })
}

/// Whether the path is `\\.\pipe\…`, written with these separators.
fn is_pipe(path: &str, separators: &[char]) -> bool {
    let mut rest = path.chars();
    PIPES.chars().all(|expected| {
        rest.next().is_some_and(|c| match expected {
            '\\' => separators.contains(&c),
            letter => c.eq_ignore_ascii_case(&letter),
        })
    })
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn every_row_has_a_source_and_is_reached() {
        for row in PATHS {
            assert!(!row.source.is_empty() && row.linux.starts_with('/'), "{}", row.linux);
            let first = known(row.linux).map(|(row, _)| row.linux);
            assert_eq!(first, Some(row.linux), "{} stands behind another", row.linux);
        }
        for socket in SOCKETS {
            assert!(!socket.source.is_empty() && is_pipe(socket.pipe, &['\\']), "{}", socket.name);
        }
    }
}
