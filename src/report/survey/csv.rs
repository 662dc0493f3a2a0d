//! The workloads as comma-separated values (RFC 4180), a row for each.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::io::Write;

use mullion_survey::report::{Knowledge, Workload};

const HEADER: [&str; 13] = [
    "namespace",
    "kind",
    "name",
    "os",
    "because",
    "images",
    "builds",
    "buildsKnownFrom",
    "pods",
    "ready",
    "pools",
    "managedBy",
    "findings",
];

/// Writes a header and the workloads. Several values of a cell are separated by spaces.
pub(super) fn write(workloads: &[Workload], out: &mut dyn Write) -> io::Result<()> {
    line(&HEADER.map(Cow::Borrowed), out)?;
    for workload in workloads {
        let containers = &workload.containers;
        let joined = |values: BTreeSet<&str>| Cow::Owned(values.into_iter().collect::<Vec<_>>().join(" "));
        line(
            &[
                Cow::Borrowed(workload.object.namespace.as_str()),
                Cow::Borrowed(workload.object.kind.as_str()),
                Cow::Borrowed(workload.object.name.as_str()),
                Cow::Borrowed(workload.os.as_str()),
                Cow::Borrowed(workload.because.as_str()),
                joined(containers.iter().map(|container| container.image.as_str()).collect()),
                joined(containers.iter().flat_map(|container| &container.builds).map(String::as_str).collect()),
                joined(containers.iter().map(|container| known_from(container.known_from)).collect()),
                Cow::Owned(workload.pods.to_string()),
                Cow::Owned(workload.ready.to_string()),
                joined(workload.pools.iter().map(String::as_str).collect()),
                Cow::Borrowed(workload.managed_by.as_deref().unwrap_or_default()),
                joined(workload.findings.iter().map(String::as_str).collect()),
            ],
            out,
        )?;
    }
    Ok(())
}

fn known_from(knowledge: Knowledge) -> &'static str {
    match knowledge {
        Knowledge::Policy => "policy",
        Knowledge::Registry => "registry",
        Knowledge::Running => "running",
        Knowledge::Name => "name",
        Knowledge::Unknown => "unknown",
    }
}

fn line<const N: usize>(cells: &[Cow<'_, str>; N], out: &mut dyn Write) -> io::Result<()> {
    let cells = cells.each_ref().map(|cell| quoted(cell));
    write!(out, "{}\r\n", cells.join(","))
}

/// A cell. A spreadsheet takes a text that begins with one of some signs as a formula, so it gets an apostrophe before it.
fn quoted(cell: &str) -> String {
    let formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']);
    let cell = if formula { format!("'{cell}") } else { cell.to_owned() };
    if cell.contains([',', '"', '\r', '\n', ';', '\t']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_hold_any_text() {
        let cases = [
            ("web", "web"),
            ("", ""),
            ("a,b", "\"a,b\""),
            ("a;b", "\"a;b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("two\r\nlines", "\"two\r\nlines\""),
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("=HYPERLINK(\"http://x\",\"y\")", "\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\""),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(1)", "'@SUM(1)"),
            ("\t=1", "\"'\t=1\""),
            ("\r=1", "\"'\r=1\""),
            ("a=1", "a=1"),
        ];
        for (cell, expected) in cases {
            assert_eq!(quoted(cell), expected, "{cell:?}");
        }
    }
}
