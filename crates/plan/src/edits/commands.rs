//! Commands of kubectl for a POSIX shell.

use mullion_engine::model::WorkloadKind;
use serde_json::Value;

use crate::report::{CommandEffect, PlanCommand};
use mullion_survey::report::ObjectRef;

/// The object as kubectl takes it: `deployment web -n shop`; `None` for names that no API server accepts.
pub(super) fn named(object: &ObjectRef) -> Option<String> {
    let kind = object.kind.to_ascii_lowercase();
    let namespace = is_name(&object.namespace).then(|| format!(" -n {}", object.namespace))?;
    is_name(&object.name).then(|| format!("{kind} {}{namespace}", object.name))
}

/// Whether a text is a DNS subdomain, as the names of objects are. It needs no quotes in a shell.
pub(super) fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    let starts = text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
    starts && text.len() <= 253 && text.bytes().all(is_inner)
}

/// A text in single quotes, in which a shell replaces nothing.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
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

/// A command with a note, which no provider documents.
pub(super) fn command(run: String, note: String) -> PlanCommand {
    PlanCommand { run, note, effect: CommandEffect::Changes, source: None, as_of: None }
}
