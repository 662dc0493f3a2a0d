//! MUL804: control characters where an author wrote the backslash of a Windows path or name.
//!
//! In double quotes YAML reads a backslash and a letter as one character: `"C:\tools"` is `C:`, a tab, and `ools`. The API
//! server stores that. A letter that is no escape (`"C:\windows"`) is an error of the parser and never gets here.

use serde_json::Value;

use crate::model::names::COMMAND_LINES;
use crate::model::pod_view::Container;
use crate::model::yaml_escapes::{ESCAPES, has_escape, has_path_with_escape, written};
use crate::place::WorkloadContext;
use crate::rules::finding::Finding;
use crate::rules::identity::security_context::places;
use crate::rules::rule::rules;

rules! {
    /// a control character in a Windows path or user name
    ESCAPED_BACKSLASH {
        code: "MUL804", name: "escaped-backslash", default: Warn,
        why: "in double quotes YAML reads a backslash and a letter as one character",
        instead: "write the value in single quotes",
    }
}

/// Findings about paths, user names and commands of a Windows pod.
pub(crate) fn check(cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    for place in places(cx) {
        // MUL401 reports the control characters that the API server rejects.
        let name = place.text("runAsUserName").filter(|name| !name.contains(|c: char| c.is_ascii_control()));
        if let Some(name) = name.filter(|name| has_escape(name)) {
            out.push(finding(name, place.option_at(cx, "runAsUserName"), cx));
        }
    }
    if cx.is_whole_pod() {
        for (index, volume) in cx.input.pod.items("/spec/volumes").iter().enumerate() {
            if let Some(path) = escaped(volume.get("hostPath").and_then(|source| source.get("path"))) {
                out.push(finding(path, cx.input.pod.at(&format!("/spec/volumes/{index}/hostPath/path")), cx));
            }
        }
    }
    for container in cx.containers() {
        check_container(&container, cx, out);
    }
}

fn check_container(container: &Container<'_>, cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    if let Some(path) = escaped(container.get("/workingDir")) {
        out.push(finding(path, cx.at(container, "/workingDir"), cx));
    }
    for (index, mount) in container.items("/volumeMounts").iter().enumerate() {
        for field in ["mountPath", "subPath"] {
            if let Some(path) = escaped(mount.get(field)) {
                out.push(finding(path, cx.at(container, &format!("/volumeMounts/{index}/{field}")), cx));
            }
        }
    }
    for list in COMMAND_LINES {
        for (index, word) in container.items(list).iter().enumerate() {
            if let Some(word) = word.as_str().filter(|word| has_path_with_escape(word)) {
                out.push(finding(word, cx.at(container, &format!("{list}/{index}")), cx));
            }
        }
    }
}

/// The path, if it contains a character of an escape.
fn escaped(path: Option<&Value>) -> Option<&str> {
    path?.as_str().filter(|path| has_escape(path))
}

fn finding(value: &str, pointer: String, cx: &WorkloadContext<'_>) -> Finding {
    let found = ESCAPES.iter().filter(|(character, ..)| value.contains(*character));
    let readings: Vec<String> = found.map(|(_, letter, name)| format!("\\{letter} as {name}")).collect();
    let message = format!("in double quotes YAML reads {}", readings.join(", "));
    Finding {
        help: format!("write '{}', in single quotes", written(value).replace('\'', "''")).into(),
        ..cx.finding(&ESCAPED_BACKSLASH, pointer, message)
    }
}
