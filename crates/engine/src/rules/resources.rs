//! 6xx: resources that Windows does not support, or supports differently. By default these rules only warn.
//!
//! Only the limits of `resources` reach a Windows container: memory as a bound on commit, CPU as a share of the node
//! (`pkg/kubelet/kuberuntime/kuberuntime_container_windows.go`, `generateWindowsContainerResources`).

use serde_json::Value;

use crate::model::pod_view::Container;
use crate::model::quantity::Quantity;
use crate::model::settings::Action;
use crate::place::WorkloadContext;
use crate::rules::finding::Finding;
use crate::rules::rule::rules;

rules! {
    /// no memory limit on a Windows container
    MEMORY_LIMIT {
        code: "MUL601", name: "memory-limit", default: Warn,
        why: "without a memory limit a container can use up its Windows node",
        instead: "set resources.limits.memory",
        about_whole: true,
        hint: true,
    }

    /// requests that differ from limits on a Windows container
    REQUESTS_IGNORED {
        code: "MUL602", name: "requests-ignored", default: Allow,
        why: "Windows enforces limits only, no requests",
        instead: "set the request equal to the limit",
        about_whole: true,
        hint: true,
    }

    /// resource claims on a Windows pod
    RESOURCE_CLAIMS {
        code: "MUL603", name: "resource-claims", default: Warn,
        why: "the kubelet of a Windows node prepares no claimed devices",
        instead: "use a device plugin's resource in limits",
    }

    /// a limit too small for PowerShell or .NET on a Windows container
    SMALL_LIMITS {
        code: "MUL604", name: "small-limits", default: Warn,
        why: "too little for Windows programs to start in time",
        instead: "set at least 100m of CPU and 128Mi of memory",
        hint: true,
    }
}

/// With less CPU, PowerShell and .NET take minutes to start.
const SMALLEST_CPU: Quantity = Quantity::milli(100);

/// The minimum that a container of an image needs, by what its reference contains.
struct Floor {
    marker: Marker,
    memory: Quantity,
    text: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers and for the test that no row lacks one"))]
    source: &'static str,
}

enum Marker {
    /// Text that occurs anywhere in the reference.
    Text(&'static str),
    /// A word between separators.
    Word(&'static str),
    /// Any image.
    Any,
}

impl Marker {
    fn is_in(&self, image: &str) -> bool {
        match self {
            Self::Text(text) => image.contains(text),
            Self::Word(word) => image.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| part == *word),
            Self::Any => true,
        }
    }
}

const IIS: &str = "microsoft/windows-container-tools examples/aks/iis-logmonitor/deployment/deployment.yml: IIS with a limit of 512Mi";
/// Server Core needs 45 to 50 MB and Nano Server 30 to 40 MB, before any program runs in them.
const BASE: &str = "MicrosoftDocs/Virtualization-Documentation windowscontainers/deploy-containers/system-requirements.md of 2024, with room for a runtime";

/// A program in Go and nothing else.
const NATIVE: &str =
    "kubernetes-csi/csi-driver-smb deploy/csi-smb-node-windows.yaml: sidecars on Nano Server with a limit of 100Mi";

/// The first match wins.
#[rustfmt::skip]
static FLOORS: &[Floor] = &[
    Floor { marker: Marker::Text("dotnet/framework"), memory: Quantity::mebibytes(512), text: "512Mi", source: IIS },
    Floor { marker: Marker::Word("iis"), memory: Quantity::mebibytes(512), text: "512Mi", source: IIS },
    Floor { marker: Marker::Text("servercore"), memory: Quantity::mebibytes(256), text: "256Mi", source: BASE },
    Floor { marker: Marker::Text("nanoserver"), memory: Quantity::mebibytes(128), text: "128Mi", source: BASE },
    Floor { marker: Marker::Text("dotnet"), memory: Quantity::mebibytes(128), text: "128Mi", source: BASE },
    Floor { marker: Marker::Text("powershell"), memory: Quantity::mebibytes(128), text: "128Mi", source: BASE },
    Floor { marker: Marker::Any, memory: Quantity::mebibytes(64), text: "64Mi", source: NATIVE },
];

/// Findings about resources of a Windows pod.
pub(crate) fn check(cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    resource_claims(cx, out);
    let ask_requests = cx.action(&REQUESTS_IGNORED, REQUESTS_IGNORED.default) != Action::Allow;
    // Ephemeral containers do not have resources.
    for container in cx.containers().filter(|container| container.list != "ephemeralContainers") {
        if !cx.host_process {
            memory_limit(&container, cx, out);
            small_limits(&container, cx, out);
        }
        if ask_requests {
            requests(&container, cx, out);
        }
    }
}

/// The quantity at a pointer below a container.
fn quantity(container: &Container<'_>, pointer: &str) -> Option<Quantity> {
    container.get(pointer).and_then(Quantity::of)
}

/// The memory limit of a container. A limit of zero is no limit; the API server itself rejects a value that is not a
/// quantity.
fn memory_limit(container: &Container<'_>, cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    const LIMIT: &str = "/resources/limits/memory";
    let limited = container.get(LIMIT).is_some() && !quantity(container, LIMIT).is_some_and(Quantity::is_zero);
    // `pod-resources` reports limits for the whole pod.
    if !limited && cx.input.pod.get("/spec/resources/limits/memory").is_none() {
        out.push(cx.finding(&MEMORY_LIMIT, cx.at(container, LIMIT), MEMORY_LIMIT.why));
    }
}

/// Requests that differ from limits: the scheduler counts them, and nothing on the node enforces them.
fn requests(container: &Container<'_>, cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    for (request, limit) in [
        ("/resources/requests/cpu", "/resources/limits/cpu"),
        ("/resources/requests/memory", "/resources/limits/memory"),
    ] {
        let Some(requested) = quantity(container, request).filter(|requested| !requested.is_zero()) else { continue };
        // If only a limit is set, the API server sets the request to it.
        if quantity(container, limit) != Some(requested) {
            out.push(cx.finding(&REQUESTS_IGNORED, cx.at(container, request), REQUESTS_IGNORED.why));
        }
    }
}

/// Claims of dynamic resources: `PrepareDynamicResources` in `pkg/kubelet/cm/container_manager_windows.go` does
/// nothing, and reports nothing.
fn resource_claims(cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    let some = |value: Option<&Value>| value.and_then(Value::as_array).is_some_and(|claims| !claims.is_empty());
    if some(cx.input.pod.get("/spec/resourceClaims")) {
        // Containers claim only what the pod claims.
        if cx.is_whole_pod() {
            out.push(cx.finding(&RESOURCE_CLAIMS, cx.input.pod.at("/spec/resourceClaims"), RESOURCE_CLAIMS.why));
        }
        return;
    }
    for container in cx.containers().filter(|container| some(container.get("/resources/claims"))) {
        out.push(cx.finding(&RESOURCE_CLAIMS, cx.at(&container, "/resources/claims"), RESOURCE_CLAIMS.why));
    }
}

/// Limits that are too small. HostProcess containers are skipped, because no Windows starts in them.
fn small_limits(container: &Container<'_>, cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    const CPU: &str = "/resources/limits/cpu";
    const MEMORY: &str = "/resources/limits/memory";
    let below = |pointer, floor| quantity(container, pointer).is_some_and(|limit| !limit.is_zero() && limit < floor);
    if below(CPU, SMALLEST_CPU) {
        let message = "with less than 100m PowerShell and .NET take minutes to start";
        let mut found = cx.finding(&SMALL_LIMITS, cx.at(container, CPU), message);
        found.help = "set at least 100m".into();
        out.push(found);
    }
    let image = container.image().unwrap_or_default();
    let Some(floor) = FLOORS.iter().find(|floor| floor.marker.is_in(image)) else { return };
    if below(MEMORY, floor.memory) {
        let message = "Windows and the programs of such images need more memory";
        let mut found = cx.finding(&SMALL_LIMITS, cx.at(container, MEMORY), message);
        found.help = format!("set at least {}", floor.text).into();
        out.push(found);
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn floors_match_their_texts() {
        for floor in FLOORS {
            assert_eq!(Quantity::parse(floor.text), Some(floor.memory));
            assert!(!floor.source.is_empty());
        }
        assert!(FLOORS.last().is_some_and(|floor| matches!(floor.marker, Marker::Any)));
    }
}
