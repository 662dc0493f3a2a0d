//! Commands of kubectl for a POSIX shell.

use mullion_engine::model::WorkloadKind;
use mullion_engine::model::dns_name::is_dns_subdomain;
use serde_json::Value;

use crate::commands::quoted;
use mullion_survey::report::ObjectRef;

/// The object as kubectl takes it: `deployment web -n shop`; `None` for names that no API server accepts.
pub(super) fn named(object: &ObjectRef) -> Option<String> {
    let kind = object.kind.to_ascii_lowercase();
    let namespace = is_dns_subdomain(&object.namespace).then(|| format!(" -n {}", object.namespace))?;
    is_dns_subdomain(&object.name).then(|| format!("{kind} {}{namespace}", object.name))
}

/// A strategic merge patch of an object.
pub(super) fn patch(object: &ObjectRef, patch: &Value) -> Option<String> {
    Some(format!("kubectl patch {} --type=strategic -p {}", named(object)?, quoted(&patch.to_string())))
}

/// Goes back to the previous revision; `None` for kinds without revisions.
pub(super) fn undo(kind: WorkloadKind, object: &ObjectRef, live: &Value) -> Option<String> {
    let has_revisions = matches!(kind, WorkloadKind::Deployment | WorkloadKind::StatefulSet | WorkloadKind::DaemonSet)
        && live.pointer("/spec/revisionHistoryLimit").and_then(Value::as_u64) != Some(0)
        && live.pointer("/spec/paused").and_then(Value::as_bool) != Some(true);
    has_revisions.then(|| named(object)).flatten().map(|named| format!("kubectl rollout undo {named}"))
}

/// Creates an object. JSON has no line that could end the text early.
pub(super) fn create(manifest: &Value) -> String {
    let text = serde_json::to_string_pretty(manifest).unwrap_or_default();
    format!("kubectl create -f - <<'EOF'\n{text}\nEOF")
}
