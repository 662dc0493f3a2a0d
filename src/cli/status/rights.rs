//! The rights that `mullion status` needs, all of them to read.

/// A right to read objects of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRight {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The resource.
    pub resource: &'static str,
    /// The only name of it; empty for all.
    pub name: &'static str,
    /// `get`, `list`.
    pub verbs: &'static [&'static str],
}

/// All rights, in the whole cluster: Mullion's namespace is found by them. With fewer, `mullion status` prints what it does
/// not know.
pub const RIGHTS: &[ReadRight] = &[
    right("", "nodes", "", &["list"]),
    right("", "pods", "", &["list"]),
    right("", "configmaps", "mullion-state", &["list"]),
    right("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "mullion", &["get"]),
    right("admissionregistration.k8s.io", "validatingwebhookconfigurations", "mullion", &["get"]),
    right("apps", "deployments", "", &["list"]),
    right("coordination.k8s.io", "leases", "mullion-controller", &["list"]),
    right("events.k8s.io", "events", "", &["list"]),
];

const fn right(
    group: &'static str,
    resource: &'static str,
    name: &'static str,
    verbs: &'static [&'static str],
) -> ReadRight {
    ReadRight { group, resource, name, verbs }
}
