//! One volume of a pod.

use serde_json::Value;

use crate::place::WorkloadContext;
use crate::rules::finding::{Finding, RejectedBy};

/// One of the pod's volumes.
#[derive(Clone, Copy)]
pub(crate) struct Volume<'a> {
    pub(crate) index: usize,
    pub(crate) value: &'a Value,
}

impl<'a> Volume<'a> {
    /// The source of the volume, if it is of that kind; null counts as absent.
    pub(crate) fn source(self, kind: &str) -> Option<&'a Value> {
        self.value.get(kind).filter(|source| !source.is_null())
    }

    /// A text of that source; empty if there is none.
    pub(crate) fn text(self, kind: &str, field: &str) -> &'a str {
        self.source(kind).and_then(|source| source.get(field)).and_then(Value::as_str).unwrap_or_default()
    }

    /// The absolute pointer of `below`, which is relative to the volume.
    pub(crate) fn at(self, cx: &WorkloadContext<'_>, below: &str) -> String {
        cx.input.pod.at(&format!("/spec/volumes/{}{below}", self.index))
    }
}

/// Marks a finding for which the kubelet never starts the pod.
pub(crate) fn by_kubelet(finding: Finding) -> Finding {
    Finding { rejected_by: RejectedBy::Kubelet, ..finding }
}
