//! The security contexts of a pod and its containers, and what a container inherits.

use serde_json::Value;

use crate::model::pod_view::{Container, Pod};
use crate::place::WorkloadContext;

/// A `securityContext`: the pod's own, or that of one container.
#[derive(Clone, Copy)]
pub(crate) struct SecurityContext<'a> {
    /// `None`: the `securityContext` is the pod's.
    pub(crate) container: Option<Container<'a>>,
    value: Option<&'a Value>,
}

impl<'a> SecurityContext<'a> {
    pub(crate) fn of_pod(pod: &Pod<'a>) -> Self {
        Self { container: None, value: pod.get("/spec/securityContext") }
    }

    pub(crate) fn of_container(container: Container<'a>) -> Self {
        Self { container: Some(container), value: container.get("/securityContext") }
    }

    fn member(self, name: &str) -> Option<&'a Value> {
        self.value.and_then(|context| context.get(name)).filter(|value| !value.is_null())
    }

    pub(crate) fn options(self) -> Option<&'a Value> {
        self.member("windowsOptions")
    }

    /// A string in `windowsOptions`. An empty string counts, because the API server rejects it.
    pub(crate) fn text(self, option: &str) -> Option<&'a str> {
        self.options()?.get(option)?.as_str()
    }

    pub(crate) fn host_process(self) -> Option<bool> {
        self.options()?.get("hostProcess")?.as_bool()
    }

    pub(crate) fn non_root(self) -> Option<bool> {
        self.member("runAsNonRoot")?.as_bool()
    }

    /// Whether this container is a HostProcess container: its own field takes precedence over the pod's.
    pub(crate) fn runs_on_host(self, pod: Self) -> bool {
        self.host_process().or(pod.host_process()).unwrap_or(false)
    }

    /// The pointer of `below`, which is relative to the `securityContext`.
    pub(crate) fn at(self, cx: &WorkloadContext<'_>, below: &str) -> String {
        match self.container {
            Some(container) => cx.at(&container, &format!("/securityContext{below}")),
            None => cx.input.pod.at(&format!("/spec/securityContext{below}")),
        }
    }

    /// The pointer of one of the `windowsOptions`.
    pub(crate) fn option_at(self, cx: &WorkloadContext<'_>, option: &str) -> String {
        self.at(cx, &format!("/windowsOptions/{option}"))
    }
}

/// Every `securityContext` to check, the pod's first.
pub(crate) fn places<'a>(cx: &WorkloadContext<'a>) -> impl Iterator<Item = SecurityContext<'a>> + use<'a> {
    let pod = (cx.is_whole_pod()).then(|| SecurityContext::of_pod(&cx.input.pod));
    pod.into_iter().chain(cx.containers().map(SecurityContext::of_container))
}
