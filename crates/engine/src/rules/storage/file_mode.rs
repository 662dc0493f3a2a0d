//! Modes of files in volumes. On Windows a file's mode sets at most its read-only attribute (Go's `os.Chmod`), so it
//! does not prevent reading.

use serde_json::Value;

use crate::place::WorkloadContext;
use crate::rules::finding::Finding;
use crate::rules::storage::rules::FILE_MODE;
use crate::rules::storage::volume::Volume;

/// Sources whose files have modes: a default, and one for each item. `projected` contains some of these again.
const SOURCES: [&str; 4] = ["secret", "configMap", "downwardAPI", "projected"];

/// Read permission for group and others. A mode without one of these is meant to keep something private.
const READ_BY_ALL: u64 = 0o044;

/// Reports the first mode of the volume that is meant to keep something private.
pub(crate) fn check(volume: Volume<'_>, cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    if let Some(below) = first_private(volume) {
        out.push(cx.finding(&FILE_MODE, volume.at(cx, &below), FILE_MODE.why));
    }
}

fn first_private(volume: Volume<'_>) -> Option<String> {
    if volume.source("emptyDir").and_then(|source| source.get("mode")).is_some_and(is_private) {
        return Some("/emptyDir/mode".to_owned());
    }
    let (kind, source) = SOURCES.iter().find_map(|kind| Some((kind, volume.source(kind)?)))?;
    if source.get("defaultMode").is_some_and(is_private) {
        return Some(format!("/{kind}/defaultMode"));
    }
    if let Some(item) = private_item(source) {
        return Some(format!("/{kind}/items/{item}/mode"));
    }
    let parts = source.get("sources").and_then(Value::as_array)?;
    parts.iter().enumerate().find_map(|(index, part)| {
        SOURCES.iter().find_map(|inner| {
            let item = private_item(part.get(inner)?)?;
            Some(format!("/{kind}/sources/{index}/{inner}/items/{item}/mode"))
        })
    })
}

/// The first of its items with such a mode.
fn private_item(source: &Value) -> Option<usize> {
    let items = source.get("items").and_then(Value::as_array)?;
    items.iter().position(|item| item.get("mode").is_some_and(is_private))
}

fn is_private(mode: &Value) -> bool {
    mode.as_u64().is_some_and(|mode| mode & READ_BY_ALL != READ_BY_ALL)
}
