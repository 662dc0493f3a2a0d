//! The expected result of every example.

use crate::fleet;

/// One example and where its pods belong.
pub(crate) struct Example {
    pub(crate) file: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) name: &'static str,
    /// What it needs, as text.
    pub(crate) needs: &'static str,
    pub(crate) should: Should,
}

/// The expected result of an example.
pub(crate) enum Should {
    /// Every pod runs on one of these nodes.
    RunOn(&'static [&'static str]),
    /// One pod on each of these nodes, and nowhere else.
    RunOnEach(&'static [&'static str]),
    /// It is denied, and the message contains all of these.
    BeDenied(&'static [&'static str]),
}

const LINUX: &[&str] = &["linux-1", "linux-2"];
const WINDOWS: &[&str] = &["win2019", "win2022", "win2025"];
const ALL: &[&str] = &["linux-1", "linux-2", "win2019", "win2022", "win2025"];
const BAD_FIELDS: &[&str] = &["runAsUser", "privileged", "hostNetwork"];

/// The examples in the order in which they are applied.
pub(crate) const EXAMPLES: &[Example] = &[
    example("linux-deployment.yaml", "Deployment", "web", "Linux", Should::RunOn(LINUX)),
    example("linux-hook-job.yaml", "Job", "database-migration", "Linux", Should::RunOn(LINUX)),
    example("linux-daemonset.yaml", "DaemonSet", "log-agent", "Linux", Should::RunOnEach(LINUX)),
    example("multi-os-daemonset.yaml", "DaemonSet", "csi-liveness", "any node", Should::RunOnEach(ALL)),
    example("windows-2019.yaml", "Deployment", "shop-2019", "Windows 2019", Should::RunOn(&["win2019"])),
    example("windows-2022.yaml", "Deployment", "shop-2022", "Windows 2022+", Should::RunOn(&["win2022", "win2025"])),
    example("windows-2025.yaml", "Deployment", "shop-2025", "Windows 2025", Should::RunOn(&["win2025"])),
    example("windows-pool-label.yaml", "Deployment", "billing", "pool win19", Should::RunOn(&["win2019"])),
    example(
        "windows-hostprocess-daemonset.yaml",
        "DaemonSet",
        "node-tuner",
        "every Windows node",
        Should::RunOnEach(WINDOWS),
    ),
    example("windows-bad-pod.yaml", "Pod", "debug-shell", "what Windows cannot do", Should::BeDenied(BAD_FIELDS)),
    example(
        "windows-bad-deployment.yaml",
        "Deployment",
        "scanner",
        "what Windows cannot do",
        Should::BeDenied(BAD_FIELDS),
    ),
];

const fn example(
    file: &'static str,
    kind: &'static str,
    name: &'static str,
    needs: &'static str,
    should: Should,
) -> Example {
    Example { file, kind, name, needs, should }
}

/// What a real kubelet would report on that node, where KWOK only simulates one; `None` if nothing
/// is wrong.
pub(crate) fn trouble_on(example: &Example, node: &str) -> Option<&'static str> {
    let windows_node = fleet::build_of(node).is_some();
    match &example.should {
        Should::RunOn(nodes) | Should::RunOnEach(nodes) if nodes.contains(&node) => None,
        Should::RunOn(nodes) | Should::RunOnEach(nodes) => {
            let wants_windows = nodes.iter().all(|node| fleet::build_of(node).is_some());
            Some(match (wants_windows, windows_node) {
                (false, _) => "Linux image, Windows node",
                (true, false) => "Windows image, Linux node",
                (true, true) => "the node's build cannot run the image",
            })
        }
        Should::BeDenied(_) if windows_node => Some("its security fields are ignored there"),
        Should::BeDenied(_) => Some("Windows image, Linux node"),
    }
}
