//! Texts about an inventory that the reports of a survey and of a plan share.

use jiff::civil::Date;
use mullion_engine::model::text::{counted, list_first, thousands};
use mullion_engine::model::windows::{Build, release_name};
use mullion_survey::report::{Coverage, Deadline, Header, Knowledge, Source, Unread};
use mullion_survey::{ListEvidence, Statement};

/// The most lists that were not read and that one line names.
const NAMED_UNREAD: usize = 5;

/// What a report writes in place of a number that is not known.
pub(crate) const NOT_KNOWN: &str = "not known";

/// The number of a statement; [`NOT_KNOWN`] if nothing was counted and a list that it needs was not read.
pub(crate) fn count_text(number: usize, coverage: &Coverage, statement: Statement) -> String {
    match statement.evidence(coverage) {
        ListEvidence::Missing(_) if number == 0 => NOT_KNOWN.to_owned(),
        _ => thousands(number),
    }
}

/// A number that a report knows only if pods were read.
pub(crate) fn pods_text(number: Option<usize>) -> String {
    number.map_or_else(|| NOT_KNOWN.to_owned(), thousands)
}

/// `ltsc2022 (10.0.20348)`.
pub(crate) fn build_text(build: &str) -> String {
    Build::from_label(build).map_or_else(|| build.to_owned(), |known| format!("{} ({build})", release_name(known, &[])))
}

/// `read from the live cluster at 2026-11-23T08:00:00Z, Kubernetes v1.33.4`.
pub(crate) fn origin(header: &Header) -> String {
    let (from, time) = match header.source {
        Source::Cluster => ("read from the live cluster", "at"),
        Source::Dump => ("read from files, newest time in them", ""),
    };
    let time = match &header.taken_at {
        Some(taken_at) => format!("{from} {time} {taken_at}").replace("  ", " "),
        None if header.source == Source::Dump => "read from files without a time".to_owned(),
        None => from.to_owned(),
    };
    header.kubernetes.as_ref().map_or_else(|| time.clone(), |version| format!("{time}, Kubernetes {version}"))
}

/// `12 nodes, 1,204 pods`.
pub(crate) fn read_text(coverage: &Coverage) -> String {
    let kinds = coverage.read.iter().map(|kind| match kind.objects {
        1 => format!("1 {}", singular(&kind.kind)),
        objects => format!("{} {}", thousands(objects), kind.kind),
    });
    kinds.collect::<Vec<_>>().join(", ")
}

/// `12 nodes, 1,204 pods were read; events and jobs of namespace a were not.`
pub(crate) fn coverage_text(coverage: &Coverage) -> String {
    let read = read_text(coverage);
    let read = if read.is_empty() { "nothing".to_owned() } else { read };
    let name = |unread: &Unread| match &unread.namespace {
        Some(namespace) => format!("{} of namespace {namespace}", unread.kind),
        None => unread.kind.clone(),
    };
    if coverage.unread.is_empty() {
        return format!("read {read}.");
    }
    let unread: Vec<String> = coverage.unread.iter().map(name).collect();
    format!("read {read}; not read: {}.", list_first(&unread, NAMED_UNREAD))
}

/// `runtimeclass` of `runtimeclasses`: the API has the plural of each kind.
fn singular(plural: &str) -> String {
    if let Some(stem) = plural.strip_suffix("ies") {
        return format!("{stem}y");
    }
    let ending = if plural.ends_with("sses") { "es" } else { "s" };
    plural.strip_suffix(ending).unwrap_or(plural).to_owned()
}

/// `in 12 days`, `passed 3 days ago`.
pub(crate) fn distance(deadline: &Deadline, today: Date) -> String {
    let days = today.until(deadline.date).map(|span| span.get_days()).unwrap_or_default();
    match days {
        0 => "today".to_owned(),
        1.. => format!("in {}", counted(usize::try_from(days).unwrap_or_default(), "day")),
        _ => format!("passed {} ago", counted(usize::try_from(days.unsigned_abs()).unwrap_or_default(), "day")),
    }
}

/// The source of the known builds of an image, in one word.
pub(crate) const fn known_from(knowledge: Knowledge) -> &'static str {
    match knowledge {
        Knowledge::Policy => "policy",
        Knowledge::Registry => "registry",
        Knowledge::Running => "running",
        Knowledge::Name => "name",
        Knowledge::Unknown => "unknown",
    }
}

/// The source of the known builds of an image, for use after their names.
pub(crate) const fn known_from_text(knowledge: Knowledge) -> &'static str {
    match knowledge {
        Knowledge::Policy => "from a policy",
        Knowledge::Registry => "from its registry",
        Knowledge::Running => "from where it runs",
        Knowledge::Name => "from its name",
        Knowledge::Unknown => "unknown",
    }
}
