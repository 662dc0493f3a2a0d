//! The containers of a plan as comma-separated values (RFC 4180), a row for each.

use std::borrow::Cow;
use std::io;
use std::io::Write;

use mullion_plan::report::{PlannedContainer, PlannedWorkload};

use crate::report::csv::line;
use crate::report::inventory_text::known_from;
use crate::report::plan::words::confidence_word;

const HEADER: [&str; 28] = [
    "namespace",
    "kind",
    "name",
    "step",
    "workloadVerdict",
    "pods",
    "pools",
    "managedBy",
    "risks",
    "container",
    "injectedBy",
    "image",
    "builds",
    "buildsKnownFrom",
    "verdict",
    "because",
    "proposedImage",
    "confidence",
    "productChange",
    "otherRepository",
    "fromLine",
    "notes",
    "findOut",
    "pullBytes",
    "date",
    "dateWhat",
    "dateSource",
    "dateAsOf",
];

/// Writes a header and the containers. Several values of a cell are separated by spaces; what is not known is empty.
pub(super) fn write(workloads: &[PlannedWorkload], out: &mut dyn Write) -> io::Result<()> {
    line(&HEADER.map(Cow::Borrowed), out)?;
    for workload in workloads {
        for container in &workload.containers {
            line(&row(workload, container), out)?;
        }
    }
    Ok(())
}

fn row<'r>(workload: &'r PlannedWorkload, container: &'r PlannedContainer) -> [Cow<'r, str>; 28] {
    let text = |text: Option<&'r str>| Cow::Borrowed(text.unwrap_or_default());
    let number = |number: Option<String>| Cow::Owned(number.unwrap_or_default());
    let proposal = container.proposal.as_ref();
    let risks: Vec<&str> = workload.risks.iter().map(|risk| risk.name.as_str()).collect();
    [
        text(Some(&workload.object.namespace)),
        text(Some(&workload.object.kind)),
        text(Some(&workload.object.name)),
        number(workload.step.map(|step| step.to_string())),
        text(Some(workload.verdict.name())),
        number(workload.pods.map(|pods| pods.to_string())),
        Cow::Owned(workload.pools.join(" ")),
        text(workload.manager.as_ref().map(|manager| manager.name.as_str())),
        Cow::Owned(risks.join(" ")),
        text(Some(&container.name)),
        text(container.injected_by.as_deref()),
        text(Some(&container.image)),
        Cow::Owned(container.builds.join(" ")),
        text(Some(known_from(container.known_from))),
        text(Some(container.verdict.name())),
        text(Some(&container.because)),
        text(proposal.map(|proposal| proposal.image.as_str())),
        text(proposal.map(|proposal| confidence_word(proposal.confidence))),
        text(proposal.map(|proposal| proposal.product.as_str())),
        text(proposal.map(|proposal| if proposal.other_repository { "true" } else { "false" })),
        text(container.from_line.as_deref()),
        Cow::Owned(container.notes.join(" ")),
        text(Some(&container.find_out)),
        number(container.pull_bytes.map(|bytes| bytes.to_string())),
        number(workload.deadline.as_ref().map(|deadline| deadline.date.to_string())),
        text(workload.deadline.as_ref().map(|deadline| deadline.what.as_str())),
        text(workload.deadline.as_ref().map(|deadline| deadline.source.as_str())),
        number(workload.deadline.as_ref().map(|deadline| deadline.as_of.to_string())),
    ]
}
