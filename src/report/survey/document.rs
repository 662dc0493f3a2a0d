//! The document of a survey, in the order of the questions of its readers: the summary, the fleet, what is wrong, future
//! dates.

use std::collections::BTreeSet;

use mullion_engine::model::text::{counted, list, upper_first};
use mullion_survey::catalogue::{FINDINGS, FindingKind};
use mullion_survey::report::{ContainerBuilds, Deadline, NodePool, RuleCount, Severity, SurveyReport, Workload};
use mullion_survey::{Comparison, ListEvidence, Statement, SurveyCounts};

use crate::report::document::{
    Block, Cell, Document, Inline, Picture, ReportSection, Shown, Subsection, Table, TableBuilder, Text, Tone, code,
    name,
};
use crate::report::inventory_sections::{coverage, day, ends, object, tile, unknown, without_nodes};
use crate::report::inventory_text::{build_text, distance, known_from, known_from_text, pods_text};
use crate::report::survey::differences::{differences, earlier_time};
use crate::report::survey::groups::{
    CodeGroup, SEVERITIES, absent_daemon_sets, by_code, daemon_sets_text, extent, images, pool_features, pool_system,
    pool_taints, pool_versions,
};
use crate::report::survey::picture::{Placement, picture};

/// The maximum number of dates of a pool beside its other facts. The section about dates has all of them.
const POOL_ENDS: usize = 2;

/// The most codes that the page explains.
const CODES: usize = 100;

// The byte limits of all tables together are 9.0 MB; of all other texts 0.7 MB.

/// The document of the report, with the differences from an earlier one and what explains its findings.
pub(super) fn document<'r>(report: &'r SurveyReport, comparison: Option<&Comparison>) -> Document<'r> {
    let mut sections =
        vec![summary(report), coverage(&report.coverage, &report.header, Vec::new(), "What the report lacks")];
    sections.extend(comparison.map(compared));
    sections.extend(
        [
            Some(fleet(report)),
            without_nodes(&report.pools_without_nodes, &report.unserved),
            builds(report),
            Some(findings(report)),
            daemon_sets(report),
            changes(report),
        ]
        .into_iter()
        .flatten(),
    );
    sections.extend([dates(report), unknown(&report.unknown), workloads(report), codes(report)].into_iter().flatten());
    Document {
        title: format!("Survey of {}", report.header.cluster),
        command: "mullion survey",
        mullion: report.header.mullion.clone(),
        sections,
        footer: format!(
            "Written by Mullion {}. `mullion survey -o json` writes the whole report for programs, and `-o csv` all workloads for a spreadsheet.",
            report.header.mullion
        ),
        all: "--details",
        is_cut: true,
    }
}

fn summary(report: &SurveyReport) -> ReportSection<'static> {
    let counts = SurveyCounts::of(report);
    let tile = |(one, many), number, tone, statement, list| {
        tile(if number == 1 { one } else { many }, number, tone, (&report.coverage, statement), list)
    };
    let misplaced = counts.misplaced_pods.unwrap_or_default();
    let tiles = vec![
        tile(("Problem", "Problems"), counts.problems, Some(Tone::Bad), Statement::Placement, "findings"),
        tile(("Warning", "Warnings"), counts.warnings, Some(Tone::Warn), Statement::Placement, "findings"),
        tile(("Misplaced pod", "Misplaced pods"), misplaced, Some(Tone::Bad), Statement::Placement, "fleet"),
        tile(("Windows workload", "Windows workloads"), counts.windows_workloads, None, Statement::Pods, "workloads"),
        tile(("Node", "Nodes"), counts.nodes, None, Statement::Nodes, "fleet"),
    ];
    let answer = Block::summary(&report.summary, "The survey found nothing to report.");
    ReportSection::new("summary", "Summary", vec![answer, Block::Tiles(tiles)])
}

fn compared(comparison: &Comparison) -> ReportSection<'static> {
    let earlier = format!("The earlier survey is of {}.", earlier_time(comparison));
    let mut blocks =
        vec![Block::Paragraph(Text::plain(earlier)), Block::summary(&comparison.summary, "Nothing changed.")];
    blocks.extend(comparison.caveats.iter().map(|caveat| Block::Note(caveat.into())));
    let part = |(heading, lines): (&'static str, Vec<String>)| {
        let heading = format!("{heading}: {}", lines.len());
        Subsection::new(heading, vec![Block::Bullets(lines.iter().map(Text::from).collect())])
    };
    blocks.push(Block::Subsections("part", differences(comparison).into_iter().map(part).collect()));
    ReportSection::new("compared", "Since the earlier survey", blocks)
}

/// A number that is wrong unless it is 0.
fn alert(number: Option<usize>) -> Cell {
    let text = pods_text(number);
    let text = if number > Some(0) { Inline::Alert(text) } else { Inline::Plain(text) };
    Cell::from(text).sorted_by(&number.unwrap_or_default())
}

/// A number that is wrong if it is less than another.
fn at_least(number: Option<usize>, least: Option<usize>) -> Cell {
    let text = pods_text(number);
    let text = if number < least { Inline::Alert(text) } else { Inline::Plain(text) };
    Cell::from(text).sorted_by(&number.unwrap_or_default())
}

fn fleet(report: &SurveyReport) -> ReportSection<'_> {
    let section = |blocks| ReportSection::new("fleet", "Fleet", blocks).counted(report.pools.len(), "pool");
    if report.pools.is_empty() {
        return section(vec![Block::paragraph("The survey read no nodes.")]);
    }
    let placement = Placement::of(report);
    let caption = Text::from(
        "A square is as large as its number of workloads. The dashed frame is the release of the pool. Blue and gray \
         belong where they are; ",
    );
    let caption = caption.and(Inline::Alert("red".to_owned())).and(" squares have workloads with misplaced pods.");
    let svg = picture(report, &placement);
    let pools = TableBuilder::new("pools", "pool", report.pools.iter().enumerate())
        .text("Pool", |(_, pool)| {
            Cell::from(name(&pool.name)).soft_detail("Provider", pool.provider.clone().unwrap_or_default())
        })
        .text("System", |(_, pool)| {
            Cell::from(Text::plain(pool_system(pool))).soft_detail("Versions", pool_versions(pool))
        })
        .number("Nodes", |(_, pool)| pool.nodes)
        .number("Ready", |(_, pool)| {
            let cordoned = if pool.cordoned > 0 { format!("{} cordoned", pool.cordoned) } else { String::new() };
            at_least(Some(pool.ready), Some(pool.nodes)).soft(cordoned)
        })
        .number("Windows pods", |(_, pool)| pods_text(pool.windows_pods))
        .number("Other pods", |(_, pool)| pods_text(pool.other_pods))
        .number("Misplaced", |(_, pool)| alert(pool.misplaced_pods))
        .text("Workloads", move |(at, _)| placement.sentence(at))
        .in_details()
        .text("Kubelet, runtime", |(_, pool)| {
            Text::list(pool.kubelets.iter().chain(&pool.runtimes).map(name).chain(pool_features(pool)))
        })
        .in_details()
        .text("Taints", |(_, pool)| Text::list(pool_taints(pool)))
        .in_details()
        .text("Support ends", |(_, pool)| pool_ends(pool))
        .in_details()
        .filtered()
        .at_most(500, 500_000);
    section(vec![Block::Picture(Picture { svg, label: "Picture of the fleet", caption }), Block::Table(pools.build())])
}

fn pool_ends(pool: &NodePool) -> Text {
    // A passed date is not marked: bold digits do not fit the column, and the section about dates has them.
    let end = |end: &Deadline| Text::from(Inline::Day { date: end.date, passed: false }).and(format!(" {}", end.what));
    let later = pool.ends.len().saturating_sub(POOL_ENDS);
    let later = (later > 0).then(|| Text::from(format!("{later} later")));
    Text::list(pool.ends.iter().take(POOL_ENDS).map(end).chain(later))
}

fn builds(report: &SurveyReport) -> Option<ReportSection<'_>> {
    if report.image_builds.is_empty() {
        return None;
    }
    let table = TableBuilder::new("builds", "build", &report.image_builds)
        .text("Build", |build| build.build.as_deref().map_or_else(|| "not known".to_owned(), build_text))
        .number("Workloads", |build| build.workloads)
        .number("Pods", |build| pods_text(build.pods))
        .number("Images", |build| build.images)
        .at_most(100, 50_000);
    let text = Block::paragraph("A build counts only if it runs every container of the workload.");
    Some(ReportSection::new("builds", "Windows workloads by image build", vec![text, Block::Table(table.build())]))
}

fn tone(severity: Severity) -> Tone {
    match severity {
        Severity::Problem => Tone::Bad,
        Severity::Warning => Tone::Warn,
        Severity::Notice => Tone::Note,
    }
}

fn tag(severity: Severity) -> Cell {
    Cell::from(Inline::Tag(tone(severity), upper_first(severity.name()))).sorted_by(&(severity as u8))
}

/// The code, which leads to its explanation on the page if there is one.
fn code_link(code: &str, explained: &BTreeSet<&str>) -> Inline {
    if explained.contains(code) { Inline::Link { anchor: anchor(code), text: code.to_owned() } } else { name(code) }
}

/// The codes of the report that the page explains, each once, in the order of their severity.
fn explained<'g, 'r>(groups: &'g [CodeGroup<'r>]) -> Vec<&'g CodeGroup<'r>> {
    let mut known = BTreeSet::new();
    groups.iter().filter(|group| known.insert(group.code)).take(CODES).collect()
}

/// The identifier of a code's explanation: letters, digits and hyphens.
fn anchor(code: &str) -> String {
    let part = |c: char| match c {
        c if c.is_ascii_alphanumeric() => c.to_ascii_lowercase().to_string(),
        // Two codes that differ in other characters get different identifiers.
        c => format!("-{:x}", u32::from(c)),
    };
    format!("code-{}", code.chars().take(80).map(part).collect::<String>())
}

fn findings(report: &SurveyReport) -> ReportSection<'_> {
    let section = |blocks| ReportSection::new("findings", "Findings", blocks).counted(report.findings.len(), "");
    let groups = by_code(&report.findings);
    if groups.is_empty() {
        return section(vec![Block::Paragraph(Text::plain(match Statement::Placement.evidence(&report.coverage) {
            ListEvidence::Whole => {
                "Nothing is misplaced, stuck or fragile, as far as the survey could read.".to_owned()
            }
            ListEvidence::Part(why) => format!("Nothing that was read is misplaced, stuck or fragile; {why}."),
            ListEvidence::Missing(why) => {
                format!("Whether something is misplaced, stuck or fragile is not known: {why}.")
            }
        }))]);
    }
    let meaning = |(severity, heading, meaning): (Severity, &str, &str)| {
        let count = report.findings.iter().filter(|finding| finding.severity == severity).count();
        let tag = Inline::Tag(tone(severity), heading.to_owned());
        (count > 0).then(|| Text::from(tag).and(format!(": {}. {meaning}", counted(count, "finding"))))
    };
    let links: BTreeSet<&str> = explained(&groups).iter().map(|group| group.code).collect();
    let (of_groups, of_findings) = (links.clone(), links);
    let rows: Vec<_> = groups
        .iter()
        .map(|group| (group.severity, group.code, group.name, [group.findings.len(), group.objects, group.pods]))
        .collect();
    let codes = TableBuilder::new("codes", "code", rows)
        .text("Severity", |(severity, ..)| tag(severity))
        .text("Code", move |(_, code, ..)| code_link(code, &of_groups))
        .head()
        .text("Finding", |(_, _, name, _)| Text::plain(name))
        .number("Findings", |(_, code, _, [count, ..])| Inline::Rows {
            table: "findings",
            with: code.to_owned(),
            count,
        })
        .number("Objects", |(_, _, _, [_, objects, _])| objects)
        .number("Pods", |(_, _, _, [.., pods])| pods)
        .at_most(200, 100_000);
    let rows: Vec<_> = groups
        .iter()
        .enumerate()
        .flat_map(|(at, group)| group.findings.iter().map(move |finding| (at, *finding)))
        .collect();
    let headings: Vec<Text> = groups.iter().map(heading).collect();
    let table = TableBuilder::new("findings", "finding", rows)
        .choice("Severity", |(_, finding)| tag(finding.severity))
        .in_group()
        .choice("Code", move |(_, finding)| code_link(&finding.code, &of_findings))
        .in_group()
        .text("Object", |(_, finding)| object(&finding.object))
        .head()
        .prose("What is wrong, and what to do", |(_, finding)| {
            let cell = Cell::from(&finding.message).labeled("Do", &finding.action);
            cell.raw("Text of the cluster", finding.raw.clone().unwrap_or_default())
        })
        .text("Field", |(_, finding)| code(&finding.path))
        .number("Pods", |(_, finding)| finding.pods)
        .text("Nodes", |(_, finding)| Text::list(finding.nodes.iter().map(name)))
        .in_details()
        .grouped(true, move |(at, _)| headings.get(at).cloned().unwrap_or_default())
        .filtered()
        .at_most(2_000, 3_200_000)
        .rest("The most severe are first. `mullion survey -o json` writes all of them.");
    section(vec![
        Block::Bullets(SEVERITIES.into_iter().filter_map(meaning).collect()),
        Block::Table(codes.build()),
        Block::Table(table.build()),
    ])
}

/// `SUR201 image-build-mismatch: 3 objects, 12 pods`.
fn heading(group: &CodeGroup<'_>) -> Text {
    let tag = Inline::Tag(tone(group.severity), group.code.to_owned());
    Text::from(tag).and(Text::plain(format!(" {}: {}", group.name, extent(group))))
}

fn daemon_sets(report: &SurveyReport) -> Option<ReportSection<'_>> {
    let sets = &report.daemon_sets;
    if sets.is_empty() {
        return None;
    }
    let absent = absent_daemon_sets(report);
    let section = |blocks| Some(ReportSection::new("daemonsets", "DaemonSets", blocks).counted(absent, ""));
    if absent == 0 {
        let count = counted(sets.len(), "DaemonSet");
        return section(vec![Block::paragraph(format!(
            "{count} for Windows nodes, each with a pod on every Windows node."
        ))]);
    }
    let missing = sets.iter().flat_map(|set| set.missing.iter().map(move |missing| (set, missing)));
    let table = TableBuilder::new("daemonsets", "DaemonSet", missing)
        .text("DaemonSet", |(set, _)| object(&set.object))
        .text("Pool", |(_, missing)| name(&missing.pool))
        .number("Nodes without a pod", |(_, missing)| missing.nodes)
        .prose("Why", |(_, missing)| Text::plain(&missing.because))
        .filtered()
        .at_most(500, 300_000);
    section(vec![Block::paragraph(daemon_sets_text(report)), Block::Table(table.build())])
}

fn changes(report: &SurveyReport) -> Option<ReportSection<'_>> {
    if report.changes.is_empty() {
        return None;
    }
    // A namespace without rules has one row.
    let rows = report.changes.iter().flat_map(|changes| {
        let rules = changes.rules.iter().map(Some);
        let none = changes.rules.is_empty().then_some(None);
        rules.chain(none).map(move |rule| (changes, rule))
    });
    let of = |rule: Option<&RuleCount>, text: fn(&RuleCount) -> &String| rule.map(text).cloned().unwrap_or_default();
    let table = TableBuilder::new("changes", "row", rows)
        .choice("Namespace", |(changes, _)| name(&changes.namespace))
        .number("Workloads", |(changes, _)| changes.workloads)
        .number("Placed", |(changes, _)| changes.placed)
        .choice("Action", move |(_, rule)| Text::plain(of(rule, |rule| &rule.action)))
        .text("Rule", move |(_, rule)| code(of(rule, |rule| &rule.code)))
        .text("Name", move |(_, rule)| Text::plain(of(rule, |rule| &rule.rule)))
        .number("Workloads with it", |(_, rule)| rule.map_or_else(Text::default, |rule| rule.workloads.into()))
        .filtered()
        .at_most(1_000, 400_000);
    let text = "With its built-in policies Mullion would place these workloads and apply these rules. The column Placed counts workloads that \
                get a node selector, tolerations or a build.";
    Some(ReportSection::new(
        "changes",
        "What Mullion would change",
        vec![Block::paragraph(text), Block::Table(table.build())],
    ))
}

fn dates(report: &SurveyReport) -> Option<ReportSection<'_>> {
    if report.deadlines.is_empty() {
        return None;
    }
    let header = &report.header;
    let table = TableBuilder::new("dates", "date", &report.deadlines)
        .text("Date", |deadline| day(deadline, header))
        .text("When", |deadline| Cell::from(distance(deadline, header.today)).sorted_by(&deadline.date))
        .prose("What", ends)
        .text("Concerns", |deadline| Text::plain(&deadline.concerns))
        .at_most(200, 200_000);
    Some(ReportSection::new("dates", "Dates", vec![Block::Table(table.build())]).counted(report.deadlines.len(), ""))
}

fn workloads(report: &SurveyReport) -> Option<ReportSection<'_>> {
    if report.workloads.is_empty() {
        return None;
    }
    let mut sorted: Vec<&Workload> = report.workloads.iter().collect();
    sorted.sort_by_key(|workload| (workload.findings.is_empty(), workload.os != "windows"));
    let section = ReportSection::new("workloads", "Workloads", vec![Block::Table(workload_table(report, sorted))]);
    Some(section.counted(report.workloads.len(), "").shown(Shown::Details))
}

/// The workloads, which are also those of CSV. There, several values of a cell are separated by spaces; what is not known
/// is empty.
pub(super) fn workload_table<'r>(report: &'r SurveyReport, workloads: Vec<&'r Workload>) -> Table<'r> {
    let groups = by_code(&report.findings);
    let explained: BTreeSet<&str> = explained(&groups).iter().map(|group| group.code).collect();
    let pods = |pods: Option<usize>| pods.map(|pods| pods.to_string()).unwrap_or_default();
    TableBuilder::new("workloads", "workload", workloads)
        .text("Workload", |workload| object(&workload.object))
        .csv("namespace", |workload| workload.object.namespace.clone())
        .csv("kind", |workload| workload.object.kind.clone())
        .csv("name", |workload| workload.object.name.clone())
        .choice("System", |workload| Text::plain(&workload.os))
        .csv("os", |workload| workload.os.clone())
        .text("Because", |workload| Text::plain(&workload.because))
        .in_details()
        .csv("because", |workload| workload.because.clone())
        .text("Images, and their builds", image_text)
        .in_details()
        .csv("images", |workload| joined(images(workload)))
        .csv("builds", |workload| joined(workload.images().flat_map(|one| one.builds.iter().map(String::as_str))))
        .csv("buildsKnownFrom", |workload| joined(workload.images().map(|one| known_from(one.known_from))))
        .number("Pods", |workload| pods_text(workload.pods))
        .csv("pods", move |workload| pods(workload.pods))
        .number("Ready", |workload| at_least(workload.ready, workload.pods))
        .csv("ready", move |workload| pods(workload.ready))
        .text("Pools", |workload| Text::list(workload.pools.iter().map(name)))
        .csv("pools", |workload| joined(workload.pools.iter().map(String::as_str)))
        .text("Managed by", |workload| Text::plain(workload.managed_by.clone().unwrap_or_default()))
        .in_details()
        .csv("managedBy", |workload| workload.managed_by.clone().unwrap_or_default())
        .text("Findings", move |workload| Text::list(workload.findings.iter().map(|code| code_link(code, &explained))))
        .csv("findings", |workload| joined(workload.findings.iter().map(String::as_str)))
        .filtered()
        .at_most(5_000, 3_600_000)
        .rest("Those with findings are first, then those for Windows. `mullion survey -o csv` writes all of them.")
        .build()
}

/// Different values, separated by spaces.
fn joined<'v>(values: impl IntoIterator<Item = &'v str>) -> String {
    values.into_iter().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ")
}

fn image_text(workload: &Workload) -> Text {
    let text = |image: &str| {
        let is_it = |one: &&ContainerBuilds| one.image == image;
        let known = workload.images().find(is_it).filter(|one| !one.builds.is_empty()).map(|one| {
            let builds = list(one.builds.iter().map(|build| build.trim_start_matches("10.0.")));
            format!(" {builds} ({})", known_from_text(one.known_from))
        });
        let volume =
            workload.image_volumes.iter().find(is_it).map(|volume| Text::from(" in volume ").and(name(&volume.name)));
        Text::from(code(image)).and(Text::plain(known.unwrap_or_default())).and(volume.unwrap_or_default())
    };
    Text::list(images(workload).into_iter().map(text))
}

/// Each code of the report, explained once.
fn codes<'r>(report: &SurveyReport) -> Option<ReportSection<'r>> {
    let groups = by_code(&report.findings);
    let explained = explained(&groups);
    let part = |group: &&CodeGroup<'_>| {
        let kind = FINDINGS.iter().find(|kind| kind.code == group.code);
        let blocks = kind.map_or_else(
            || {
                vec![Block::Paragraph(
                    Text::from(code(format!("mullion rules {}", group.code))).and(" prints the page of this finding."),
                )]
            },
            explanation,
        );
        Subsection::new(Text::plain(format!("{} {}", group.code, group.name)), blocks).at(anchor(group.code))
    };
    let count = explained.len();
    let blocks = vec![Block::Subsections("code", explained.iter().map(part).collect())];
    (count > 0).then(|| ReportSection::new("codes", "Finding codes", blocks).counted(count, "").shown(Shown::Page))
}

fn explanation<'r>(kind: &FindingKind) -> Vec<Block<'r>> {
    let texts = [("", kind.summary), ("Why it matters. ", kind.why), ("What to do. ", kind.instead)];
    let paragraph = |(label, text)| Block::Paragraph(Text::plain(label).and(text));
    let mut blocks: Vec<Block<'_>> = texts.map(paragraph).into();
    if !kind.sources.is_empty() {
        let sources = kind.sources.iter().map(|&at| Text::from(Inline::Source { at: at.to_owned(), as_of: None }));
        blocks.push(Block::Facts(vec![("Sources", Text::list(sources))]));
    }
    blocks
}
