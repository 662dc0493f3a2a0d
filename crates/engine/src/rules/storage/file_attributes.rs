//! Modes and owners of files in volumes. On Windows a file's mode sets at most its read-only attribute (Go's `os.Chmod`),
//! so it does not prevent reading, and the kubelet sets no owner: it logs that it skips the change
//! (`pkg/volume/util/atomic_writer_unsupported.go`).

use serde_json::Value;

use crate::place::WorkloadContext;
use crate::rules::finding::Finding;
use crate::rules::storage::rules::{FILE_MODE, FILE_OWNER};
use crate::rules::storage::volume::Volume;

/// Sources whose files have modes and owners: a default, and one for each item. `projected` contains some of these again.
const SOURCES: [&str; 4] = ["secret", "configMap", "downwardAPI", "projected"];

/// Projected sources that are one file or a few, whose owner is a member of the source itself.
const FILES: [&str; 3] = ["serviceAccountToken", "clusterTrustBundle", "podCertificate"];

/// Read permission for group and others. A mode without one of these is meant to keep something private.
const READ_BY_ALL: u64 = 0o044;

/// Reports the first mode of the volume that is meant to keep something private, and its first owner.
pub(crate) fn check(volume: Volume<'_>, cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    let emptied = volume.source("emptyDir").and_then(|source| source.get("mode")).is_some_and(is_private);
    let mode =
        if emptied { Some("/emptyDir/mode".to_owned()) } else { first(volume, "defaultMode", "mode", is_private) };
    for (rule, below) in [(&FILE_MODE, mode), (&FILE_OWNER, first(volume, "defaultUser", "user", Value::is_number))] {
        if let Some(below) = below {
            out.push(cx.finding(rule, volume.at(cx, &below), rule.why));
        }
    }
}

/// The first value of the volume that is reported: the `default` of the source, the `own` one of an item, or that of a
/// projected source.
fn first(volume: Volume<'_>, default: &str, own: &str, is_reported: fn(&Value) -> bool) -> Option<String> {
    let (kind, source) = SOURCES.iter().find_map(|kind| Some((kind, volume.source(kind)?)))?;
    let has = |value: &Value, member: &str| value.get(member).is_some_and(is_reported);
    let item = |source: &Value| {
        let items = source.get("items").and_then(Value::as_array)?;
        items.iter().position(|item| has(item, own))
    };
    if has(source, default) {
        return Some(format!("/{kind}/{default}"));
    }
    if let Some(item) = item(source) {
        return Some(format!("/{kind}/items/{item}/{own}"));
    }
    let parts = source.get("sources").and_then(Value::as_array)?;
    parts.iter().enumerate().find_map(|(index, part)| {
        let of_item = || SOURCES.iter().find_map(|inner| Some(format!("{inner}/items/{}", item(part.get(inner)?)?)));
        let of_file = || FILES.iter().find(|inner| part.get(inner).is_some_and(|file| has(file, own)));
        let below = of_item().or_else(|| of_file().map(ToString::to_string))?;
        Some(format!("/{kind}/sources/{index}/{below}/{own}"))
    })
}

fn is_private(mode: &Value) -> bool {
    mode.as_u64().is_some_and(|mode| mode & READ_BY_ALL != READ_BY_ALL)
}
