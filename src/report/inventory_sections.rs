//! Sections that the reports of a survey and of a plan share: coverage, pools without nodes, and what is not known.

use mullion_engine::model::text::{counted, upper_first};
use mullion_survey::Statement;
use mullion_survey::report::{Coverage, Deadline, Header, ObjectRef, PoolWithoutNodes, Unknown, WaitingPods};

use crate::report::document::{Block, Cell, Inline, ReportSection, TableBuilder, Text, Tile, Tone, code, name};
use crate::report::inventory_text::{build_text, count_text, coverage_text, origin, pods_text};

/// An object, by kind and name.
pub(crate) fn object(object: &ObjectRef) -> Inline {
    Inline::Object { kind: object.kind.clone(), name: object.full_name() }
}

/// The first of the objects, of which there are `all`.
pub(crate) fn objects(objects: &[ObjectRef], all: usize) -> Text {
    if objects.is_empty() && all == 0 {
        return Text::default();
    }
    Inline::Objects { names: objects.iter().map(ToString::to_string).collect(), all }.into()
}

/// The day of a deadline.
pub(crate) fn day(deadline: &Deadline, header: &Header) -> Inline {
    Inline::Day { date: deadline.date, passed: deadline.date < header.today }
}

/// What a deadline ends, with its source.
pub(crate) fn ends(deadline: &Deadline) -> Cell {
    Cell::from(&deadline.what).source(&deadline.source, deadline.as_of)
}

/// A number on a tile, which is red or yellow if there is something to count.
pub(crate) fn tile(
    label: &'static str,
    count: usize,
    tone: Option<Tone>,
    (coverage, statement): (&Coverage, Statement),
    list: &'static str,
) -> Tile {
    Tile { label, count: count_text(count, coverage, statement), tone: tone.filter(|_| count > 0), list }
}

/// What was read, and what was not. `facts`: what else is to be known about the source of the report.
pub(crate) fn coverage<'r>(
    coverage: &'r Coverage,
    header: &Header,
    facts: Vec<(&'static str, Text)>,
    lacks: &'static str,
) -> ReportSection<'r> {
    let dates = format!("counted from {}, compared with their sources on {}", header.today, header.dates_as_of);
    let mut all = vec![("Objects", Text::plain(origin(header)))];
    all.extend(facts);
    all.push(("Dates", dates.into()));
    if header.redacted {
        all.push(("Names", "names are replaced; one name always has the same replacement".into()));
    }
    let unread = TableBuilder::new("unread", "list", &coverage.unread)
        .text("Kind", |unread| code(&unread.kind))
        .text("Namespace", |unread| {
            unread.namespace.as_ref().map_or_else(|| "all".into(), |name| Text::from(code(name)))
        })
        .text("Reason", |unread| Text::plain(&unread.reason))
        .wide(lacks, |unread| &unread.missing)
        .at_most(200, 100_000);
    let line = Text::plain(upper_first(&coverage_text(coverage)));
    ReportSection::new("coverage", "Coverage", vec![Block::Facts(all), Block::Folded(line, lacks, unread.build())])
}

/// What is not known, and how to find out. `None` if there is nothing.
pub(crate) fn unknown(all: &[Unknown]) -> Option<ReportSection<'_>> {
    if all.is_empty() {
        return None;
    }
    let table = TableBuilder::new("unknown", "unknown thing", all)
        .wide("What is not known", |unknown| Text::plain(&unknown.what))
        .wide("How to find out", |unknown| &unknown.resolve)
        .text("Objects", |unknown| objects(&unknown.objects, unknown.all))
        .at_most(100, 300_000);
    Some(ReportSection::new("unknown", "Not known", vec![Block::Table(table.build())]).counted(all.len(), ""))
}

/// The most workloads that no pool can run that are listed.
const UNSERVED: usize = 100;

/// Declared pools without nodes.
pub(crate) fn without_nodes<'r>(pools: &'r [PoolWithoutNodes], unserved: &[WaitingPods]) -> Option<ReportSection<'r>> {
    if pools.is_empty() && unserved.is_empty() {
        return None;
    }
    let of = |pool: &PoolWithoutNodes, runs: Option<bool>| -> Option<usize> {
        let starts = pool.starts.as_ref()?.iter();
        Some(starts.filter(|one| runs.is_none_or(|runs| one.runs == runs)).map(|one| one.pods).sum())
    };
    let started_by = |one: &WaitingPods| waiting_pods(one).and(if one.runs { "" } else { ", for nothing" });
    let workloads = move |pool: &PoolWithoutNodes| Text::list(pool.starts.iter().flatten().map(started_by));
    let system = |pool: &PoolWithoutNodes| {
        let build = pool.build.as_deref().map(build_text);
        build.or_else(|| pool.os.clone()).unwrap_or_else(|| "not known".to_owned())
    };
    let table = TableBuilder::new("without-nodes", "pool", pools)
        .text("Pool", |pool| Cell::from(name(&pool.pool)).soft_detail("Declared by", pool.declared_by.clone()))
        .text("System", move |pool| Text::plain(system(pool)))
        .text("Labels", |pool| Text::list(pool.labels.iter().map(name)))
        .in_details()
        .text("Taints", |pool| Text::list(pool.taints.iter().map(name)))
        .in_details()
        .number("Waiting pods", move |pool| pods_text(of(pool, None)))
        .number("For nothing", move |pool| pods_text(of(pool, Some(false))))
        .text("Started by", workloads)
        .in_details()
        .filtered()
        .at_most(500, 500_000);
    let mut blocks =
        vec![Block::paragraph("Waiting pods start these declared pools; for nothing, if they do not run there.")];
    blocks.push(Block::Table(table.build()));
    if !unserved.is_empty() {
        let count: usize = unserved.iter().map(|one| one.pods).sum();
        blocks
            .push(Block::paragraph(format!("No node and no declared pool can run {}:", counted(count, "waiting pod"))));
        let lines = unserved.iter().take(UNSERVED);
        blocks.push(Block::Bullets(lines.map(waiting_pods).collect()));
    }
    Some(ReportSection::new("without-nodes", "Pools without nodes", blocks).counted(pools.len(), ""))
}

fn waiting_pods(one: &WaitingPods) -> Text {
    Text::from(object(&one.object)).and(format!(": {}", counted(one.pods, "pod")))
}
