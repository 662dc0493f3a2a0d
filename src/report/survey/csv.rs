//! The workloads as comma-separated values (RFC 4180), a row for each.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::io::Write;

use mullion_survey::report::SurveyReport;

use crate::report::csv::line;
use crate::report::inventory_text::known_from;

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

/// Writes a header and the workloads. Several values of a cell are separated by spaces; what is not known is
/// empty.
pub(super) fn write(report: &SurveyReport, out: &mut dyn Write) -> io::Result<()> {
    line(&HEADER.map(Cow::Borrowed), out)?;
    let pods = |pods: Option<usize>| pods.map(|pods| pods.to_string()).unwrap_or_default();
    for workload in &report.workloads {
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
                Cow::Owned(pods(workload.pods)),
                Cow::Owned(pods(workload.ready)),
                joined(workload.pools.iter().map(String::as_str).collect()),
                Cow::Borrowed(workload.managed_by.as_deref().unwrap_or_default()),
                joined(workload.findings.iter().map(String::as_str).collect()),
            ],
            out,
        )?;
    }
    Ok(())
}
