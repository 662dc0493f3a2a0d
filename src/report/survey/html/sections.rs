//! The sections of the page, in the order of the questions of its readers: the summary, the fleet, what is wrong,
//! future dates.

use mullion_engine::model::text::{counted, list, shorten, thousands, upper_first};
use mullion_survey::report::{Deadline, Finding, NodePool, Severity, SurveyReport, Workload};
use mullion_survey::{Comparison, Evidence, Statement, SurveyCounts};

use crate::report::html::cells::{cut, object_cell, pods_cell};
use crate::report::html::common_sections::{Tile, coverage, tiles, unknown, unknown_table, unread_table};
use crate::report::html::escape::{anchor, breakable, code, escape, prose, source, source_line};
use crate::report::html::page::Section;
use crate::report::html::table::{Cell, Table, choice, number, push, text, wide};
use crate::report::inventory_text::{build_text, count_text, distance, full_name, known_from_text, origin, pods_text};
use crate::report::survey::differences::{differences, earlier_time};
use crate::report::survey::groups::{
    SEVERITIES, absent_daemon_sets, by_code, daemon_sets_text, images, pool_system, pool_taints, pool_versions,
};
use crate::report::survey::html::picture::{Placement, picture};
use crate::report::survey::options::{Explanation, SurveyOptions};

const REST: &str = "<code>mullion survey -o json</code> writes all of them.";

// The byte limits of all tables together are 9.0 MB; of all other texts 0.7 MB.
/// The maximum number of dates of a pool beside its other facts.
const POOL_ENDS: usize = 2;

const POOLS: Table<11> = Table {
    name: "pools",
    rows: Some("pools"),
    columns: [
        text("Pool"),
        text("System"),
        number("Nodes"),
        number("Ready"),
        number("Windows pods"),
        number("Other pods"),
        number("Misplaced"),
        text("Workloads"),
        text("Kubelet, runtime"),
        text("Taints"),
        text("Support ends"),
    ],
    head: 0,
    most_rows: 500,
    most_bytes: 500_000,
    rest: REST,
};
const BUILDS: Table<4> = Table {
    name: "builds",
    rows: None,
    columns: [text("Build"), number("Workloads"), number("Pods"), number("Images")],
    head: 0,
    most_rows: 100,
    most_bytes: 50_000,
    rest: REST,
};
const CODES: Table<6> = Table {
    name: "codes",
    rows: None,
    columns: [text("Severity"), text("Code"), text("Finding"), number("Findings"), number("Objects"), number("Pods")],
    head: 1,
    most_rows: 200,
    most_bytes: 100_000,
    rest: REST,
};
const FINDINGS: Table<7> = Table {
    name: "findings",
    rows: Some("findings"),
    columns: [
        choice("Severity"),
        choice("Code"),
        text("Object"),
        wide("What is wrong, and what to do"),
        text("Field"),
        number("Pods"),
        text("Nodes"),
    ],
    head: 2,
    most_rows: 2_000,
    most_bytes: 3_200_000,
    rest: "The most severe are first. <code>mullion survey -o json</code> writes all of them.",
};
const DAEMON_SETS: Table<4> = Table {
    name: "daemonsets",
    rows: Some("DaemonSets"),
    columns: [text("DaemonSet"), text("Pool"), number("Nodes without a pod"), wide("Why")],
    head: 0,
    most_rows: 500,
    most_bytes: 300_000,
    rest: REST,
};
const CHANGES: Table<7> = Table {
    name: "changes",
    rows: Some("rows"),
    columns: [
        choice("Namespace"),
        number("Workloads"),
        number("Placed"),
        choice("Action"),
        text("Rule"),
        text("Name"),
        number("Workloads with it"),
    ],
    head: 0,
    most_rows: 1_000,
    most_bytes: 400_000,
    rest: REST,
};
const DATES: Table<4> = Table {
    name: "dates",
    rows: None,
    columns: [text("Date"), text("When"), wide("What"), text("Concerns")],
    head: 0,
    most_rows: 200,
    most_bytes: 200_000,
    rest: REST,
};
const WORKLOADS: Table<9> = Table {
    name: "workloads",
    rows: Some("workloads"),
    columns: [
        text("Workload"),
        choice("System"),
        text("Because"),
        text("Images, and their builds"),
        number("Pods"),
        number("Ready"),
        text("Pools"),
        text("Managed by"),
        text("Findings"),
    ],
    head: 0,
    most_rows: 5_000,
    most_bytes: 3_600_000,
    rest: "Those with findings are first, then those for Windows. <code>mullion survey -o csv</code> writes all of them.",
};

/// Rules of style for the tables on a narrow page.
pub(super) fn labels() -> String {
    [
        unread_table(REST).labels(),
        POOLS.labels(),
        BUILDS.labels(),
        CODES.labels(),
        FINDINGS.labels(),
        DAEMON_SETS.labels(),
        CHANGES.labels(),
        DATES.labels(),
        unknown_table(REST).labels(),
        WORKLOADS.labels(),
    ]
    .concat()
}

/// Where the report is from.
fn origin_facts(report: &SurveyReport) -> Vec<(&'static str, String)> {
    let header = &report.header;
    let mut facts = vec![
        ("Objects", origin(header)),
        ("Dates", format!("counted from {}, compared with their sources on {}", header.today, header.dates_as_of)),
    ];
    if header.redacted {
        facts.push(("Names", "replaced; one name always has the same replacement".to_owned()));
    }
    facts
}

/// All sections that have something to report.
pub(super) fn all(report: &SurveyReport, options: &SurveyOptions<'_>) -> Vec<Section> {
    let codes = Codes::of(report);
    let mut sections = vec![coverage(&report.coverage, &origin_facts(report), REST)];
    sections.extend(options.comparison.map(compared));
    sections.push(fleet(report));
    sections.extend(builds(report));
    sections.push(findings(report, &codes));
    sections.extend(
        [
            daemon_sets(report),
            changes(report),
            dates(report),
            unknown(&report.unknown, REST),
            workloads(report, &codes),
        ]
        .into_iter()
        .flatten(),
    );
    sections.extend(appendix(&codes, options.explanations));
    sections.insert(0, summary(report, &sections));
    sections
}

/// The answer, and tiles that lead to the lists in `sections`.
fn summary(report: &SurveyReport, sections: &[Section]) -> Section {
    let mut body = String::new();
    if report.summary.is_empty() {
        body.push_str("<p>The survey found nothing to report.</p>\n");
    } else {
        body.push_str("<ul class=\"summary\">\n");
        for sentence in report.summary.iter().take(10) {
            push(&mut body, format_args!("<li>{}</li>\n", breakable(cut(sentence))));
        }
        body.push_str("</ul>\n");
    }
    let counts = SurveyCounts::of(report);
    let tile = |(one, many), number, class, statement, list| Tile {
        label: if number == 1 { one } else { many },
        count: count_text(number, &report.coverage, statement),
        class: if number == 0 { "" } else { class },
        list,
    };
    let misplaced = counts.misplaced_pods.unwrap_or_default();
    let all = [
        tile(("Problem", "Problems"), counts.problems, "bad", Statement::Placement, "findings"),
        tile(("Warning", "Warnings"), counts.warnings, "warn", Statement::Placement, "findings"),
        tile(("Misplaced pod", "Misplaced pods"), misplaced, "bad", Statement::Placement, "fleet"),
        tile(("Windows workload", "Windows workloads"), counts.windows_workloads, "", Statement::Pods, "workloads"),
        tile(("Node", "Nodes"), counts.nodes, "", Statement::Nodes, "fleet"),
    ];
    body.push_str(&tiles(&all, sections));
    Section::new("summary", "Summary", None, body)
}

fn compared(comparison: &Comparison) -> Section {
    let mut body =
        format!("<p class=\"soft\">The earlier survey is of {}.</p>\n", escape(cut(&earlier_time(comparison))));
    body.push_str("<ul class=\"summary\">\n");
    for sentence in &comparison.summary {
        push(&mut body, format_args!("<li>{}</li>\n", escape(cut(sentence))));
    }
    body.push_str("</ul>\n");
    for caveat in comparison.caveats.iter().take(10) {
        push(&mut body, format_args!("<div class=\"callout\"><p>{}</p></div>\n", escape(cut(caveat))));
    }
    for (heading, lines) in differences(comparison) {
        push(
            &mut body,
            format_args!("<h3>{heading} <span class=\"soft\">{}</span></h3>\n<ul>\n", thousands(lines.len())),
        );
        let mut bytes = 0;
        let fitting = lines.iter().take(200).map(|line| escape(cut(line))).take_while(|line| {
            bytes += line.len();
            bytes <= 50_000
        });
        let shown: Vec<String> = fitting.collect();
        for line in &shown {
            push(&mut body, format_args!("<li>{line}</li>\n"));
        }
        body.push_str("</ul>\n");
        if shown.len() < lines.len() {
            push(&mut body, format_args!("<p>and {} more. {REST}</p>\n", thousands(lines.len() - shown.len())));
        }
    }
    Section::new("compared", "Since the earlier survey", None, body)
}

fn fleet(report: &SurveyReport) -> Section {
    if report.pools.is_empty() {
        return Section::new("fleet", "Fleet", Some(0), "<p>The survey read no nodes.</p>\n".to_owned());
    }
    let placement = Placement::of(report);
    let mut body = format!(
        "<figure><div class=\"picture\" tabindex=\"0\" role=\"region\" aria-label=\"Picture of the fleet\">{}</div>\n\
         <figcaption class=\"soft small\">A square is as large as its number of workloads. The dashed frame is the release of \
         the pool. Blue and gray belong where they are; <span class=\"bad-text\">red</span> squares have workloads with misplaced pods.</figcaption></figure>\n",
        picture(report, &placement)
    );
    body.push_str(
        &POOLS.render(report.pools.iter().enumerate().map(|(at, pool)| pool_row(pool, &placement.sentence(at)))),
    );
    Section::new("fleet", "Fleet", Some(report.pools.len()), body)
}

fn pool_row(pool: &NodePool, runs: &str) -> [Cell; 11] {
    let provider =
        pool.provider.as_ref().map(|provider| format!("<br><span class=\"soft\">{}</span>", escape(provider)));
    let cordoned = if pool.cordoned == 0 {
        String::new()
    } else {
        format!("<br><span class=\"soft\">{} cordoned</span>", pool.cordoned)
    };
    let ready = if pool.ready < pool.nodes { "bad-text" } else { "" };
    let misplaced = if pool.misplaced_pods > Some(0) { "bad-text" } else { "" };
    let lines = |lines: &mut dyn Iterator<Item = String>| lines.take(20).collect::<Vec<_>>().join("<br>");
    // The section about dates has all of them.
    let next = pool
        .ends
        .iter()
        .take(POOL_ENDS)
        .map(|end| format!("<span class=\"day\">{}</span> {}", end.date, breakable(cut(&end.what))));
    let later = pool.ends.len().saturating_sub(POOL_ENDS);
    let ends = &mut next.chain((later > 0).then(|| format!("<span class=\"soft\">{later} later</span>")));
    [
        Cell::html(format!("{}{}", breakable(cut(&pool.name)), provider.unwrap_or_default())),
        Cell::html(format!(
            "{}<br><span class=\"soft\">{}</span>",
            breakable(&pool_system(pool)),
            breakable(cut(&pool_versions(pool)))
        )),
        Cell::number(pool.nodes),
        Cell::html(format!("<span class=\"{ready}\">{}</span>{cordoned}", thousands(pool.ready)))
            .sorted_by(&pool.ready),
        pods_cell(pool.windows_pods),
        pods_cell(pool.other_pods),
        Cell::html(format!("<span class=\"{misplaced}\">{}</span>", pods_text(pool.misplaced_pods)))
            .sorted_by(&pool.misplaced_pods.unwrap_or_default()),
        Cell::text(cut(runs)),
        Cell::html(lines(&mut pool.kubelets.iter().chain(&pool.runtimes).map(|version| breakable(cut(version))))),
        Cell::html(lines(&mut pool_taints(pool).iter().map(|taint| code(cut(taint))))),
        Cell::html(lines(ends)),
    ]
}

fn builds(report: &SurveyReport) -> Option<Section> {
    if report.image_builds.is_empty() {
        return None;
    }
    let rows = report.image_builds.iter().map(|build| {
        [
            Cell::text(&build.build.as_deref().map_or_else(|| "not known".to_owned(), |build| build_text(cut(build)))),
            Cell::number(build.workloads),
            pods_cell(build.pods),
            Cell::number(build.images),
        ]
    });
    let body =
        format!("<p>A build counts only if it runs every container of the workload.</p>\n{}", BUILDS.render(rows));
    Some(Section::new("builds", "Windows workloads by image build", None, body))
}

fn tag(severity: Severity) -> String {
    let class = match severity {
        Severity::Problem => "tag bad",
        Severity::Warning => "tag warn",
        Severity::Notice => "tag",
    };
    format!("<span class=\"{class}\">{}</span>", upper_first(severity.name()))
}

/// The codes that the appendix explains, in its order, each with its name.
struct Codes<'r>(Vec<(&'r str, &'r str)>);

impl<'r> Codes<'r> {
    fn of(report: &'r SurveyReport) -> Self {
        let mut codes: Vec<(&str, &str)> = Vec::new();
        for group in by_code(&report.findings) {
            if codes.len() < 100 && codes.iter().all(|(code, _)| *code != group.code) {
                codes.push((group.code, group.name));
            }
        }
        Self(codes)
    }

    /// The code, as a link to its explanation if there is one.
    fn link(&self, code: &str) -> String {
        let shown = escape(&shorten(code, 40));
        if self.0.iter().any(|(known, _)| *known == code) {
            format!("<a href=\"#{}\">{shown}</a>", anchor("code-", code))
        } else {
            shown
        }
    }
}

fn findings(report: &SurveyReport, codes: &Codes<'_>) -> Section {
    let groups = by_code(&report.findings);
    if groups.is_empty() {
        let body = match Statement::Placement.evidence(&report.coverage) {
            Evidence::Whole => {
                "<p>Nothing is misplaced, stuck or fragile, as far as the survey could read.</p>\n".to_owned()
            }
            Evidence::Part(why) => {
                format!("<p>Nothing that was read is misplaced, stuck or fragile; {}.</p>\n", escape(cut(&why)))
            }
            Evidence::Missing(why) => {
                format!(
                    "<p>Whether something is misplaced, stuck or fragile is not known: {}.</p>\n",
                    escape(cut(&why))
                )
            }
        };
        return Section::new("findings", "Findings", Some(0), body);
    }
    let mut body = String::from("<ul class=\"small soft\">\n");
    for (severity, _, meaning) in SEVERITIES {
        push(&mut body, format_args!("<li>{}: {meaning}</li>\n", tag(severity)));
    }
    body.push_str("</ul>\n");
    body.push_str(&CODES.render(groups.iter().map(|group| {
        let find = format!(
            "<a href=\"#findings-table\" data-find=\"{}\">{}</a>",
            escape(cut(group.code)),
            thousands(group.findings.len())
        );
        [
            Cell::html(tag(group.severity)).sorted_by(&(group.severity as u8)),
            Cell::html(codes.link(group.code)),
            Cell::text(cut(group.name)),
            Cell::html(find),
            Cell::number(group.objects),
            Cell::number(group.pods),
        ]
    })));
    body.push_str(
        &FINDINGS.render(groups.iter().flat_map(|group| &group.findings).map(|finding| finding_row(finding, codes))),
    );
    Section::new("findings", "Findings", Some(report.findings.len()), body)
}

fn finding_row(finding: &Finding, codes: &Codes<'_>) -> [Cell; 7] {
    let mut what = format!("<p>{}</p>", prose(cut(&finding.message)));
    if !finding.action.is_empty() {
        push(&mut what, format_args!("<p><b>Do:</b> {}</p>", prose(cut(&finding.action))));
    }
    if let Some(raw) = &finding.raw {
        push(
            &mut what,
            format_args!(
                "<details class=\"raw\"><summary>Text of the cluster</summary><pre>{}</pre></details>",
                escape(cut(raw))
            ),
        );
    }
    let nodes =
        finding.nodes.iter().take(16).map(|node| breakable(&shorten(node, 80))).collect::<Vec<_>>().join("<br>");
    [
        Cell::html(tag(finding.severity)).sorted_by(&(finding.severity as u8)),
        Cell::html(codes.link(&finding.code)),
        object_cell(&finding.object.kind, &full_name(&finding.object)),
        Cell::html(what),
        Cell::html(code(cut(&finding.path))),
        Cell::number(finding.pods),
        Cell::html(nodes),
    ]
}

fn daemon_sets(report: &SurveyReport) -> Option<Section> {
    let sets = &report.daemon_sets;
    if sets.is_empty() {
        return None;
    }
    let missing = sets.iter().flat_map(|set| set.missing.iter().map(move |missing| (set, missing)));
    let count = absent_daemon_sets(report);
    let body = if count == 0 {
        format!(
            "<p>{} for Windows nodes, each with a pod on every Windows node.</p>\n",
            counted(sets.len(), "DaemonSet")
        )
    } else {
        let rows = missing.map(|(set, missing)| {
            [
                object_cell(&set.object.kind, &full_name(&set.object)),
                Cell::text(cut(&missing.pool)),
                Cell::number(missing.nodes),
                Cell::text(cut(&missing.because)),
            ]
        });
        format!("<p>{}</p>\n{}", daemon_sets_text(report), DAEMON_SETS.render(rows))
    };
    Some(Section::new("daemonsets", "DaemonSets", Some(count), body))
}

fn changes(report: &SurveyReport) -> Option<Section> {
    if report.changes.is_empty() {
        return None;
    }
    let rows = report.changes.iter().flat_map(|changes| {
        let row = move |rule: Option<&mullion_survey::report::RuleCount>| {
            let text = |text: &dyn Fn(&mullion_survey::report::RuleCount) -> String| rule.map(text).unwrap_or_default();
            [
                Cell::text(cut(&changes.namespace)),
                Cell::number(changes.workloads),
                Cell::number(changes.placed),
                Cell::text(cut(&text(&|rule| rule.action.clone()))),
                Cell::html(code(cut(&text(&|rule| rule.code.clone())))),
                Cell::text(cut(&text(&|rule| rule.rule.clone()))),
                rule.map(|rule| Cell::number(rule.workloads)).unwrap_or_default(),
            ]
        };
        let none = changes.rules.is_empty().then(|| row(None));
        changes.rules.iter().map(move |rule| row(Some(rule))).chain(none)
    });
    let body = format!(
        "<p>With its built-in policies Mullion would place these workloads and apply these rules. <em>Placed</em> counts \
         workloads that get a node selector, tolerations or a build.</p>\n{}",
        CHANGES.render(rows)
    );
    Some(Section::new("changes", "What Mullion would change", None, body))
}

fn dates(report: &SurveyReport) -> Option<Section> {
    if report.deadlines.is_empty() {
        return None;
    }
    let today = report.header.today;
    let row = |deadline: &Deadline| {
        let class = if deadline.date < today { "bad-text" } else { "" };
        [
            Cell::html(format!("<span class=\"day {class}\">{}</span>", deadline.date)),
            Cell::text(&distance(deadline, today)).sorted_by(&deadline.date),
            Cell::html(breakable(cut(&deadline.what)) + &source_line(cut(&deadline.source), deadline.as_of)),
            Cell::text(cut(&deadline.concerns)),
        ]
    };
    let body = DATES.render(report.deadlines.iter().map(row));
    Some(Section::new("dates", "Dates", Some(report.deadlines.len()), body))
}

fn workloads(report: &SurveyReport, codes: &Codes<'_>) -> Option<Section> {
    if report.workloads.is_empty() {
        return None;
    }
    let mut sorted: Vec<&Workload> = report.workloads.iter().collect();
    sorted.sort_by_key(|workload| (workload.findings.is_empty(), workload.os != "windows"));
    let body = WORKLOADS.render(sorted.into_iter().map(|workload| workload_row(workload, codes)));
    Some(Section::new("workloads", "Workloads", Some(report.workloads.len()), body))
}

fn workload_row(workload: &Workload, codes: &Codes<'_>) -> [Cell; 9] {
    let shown = images(workload).into_iter().take(10).map(|image| {
        let container = workload.containers.iter().find(|container| container.image == image);
        let known = container.filter(|container| !container.builds.is_empty()).map(|container| {
            format!(
                " <span class=\"soft\">{} ({})</span>",
                escape(cut(&list(container.builds.iter().map(|build| build.trim_start_matches("10.0."))))),
                known_from_text(container.known_from)
            )
        });
        format!("{}{}", code(cut(image)), known.unwrap_or_default())
    });
    let class = if workload.ready < workload.pods { "bad-text" } else { "" };
    let findings = workload.findings.iter().take(20).map(|code| codes.link(code));
    [
        object_cell(&workload.object.kind, &full_name(&workload.object)),
        Cell::text(cut(&workload.os)),
        Cell::text(cut(&workload.because)),
        Cell::html(shown.collect::<Vec<_>>().join("<br>")),
        pods_cell(workload.pods),
        Cell::html(format!("<span class=\"{class}\">{}</span>", pods_text(workload.ready)))
            .sorted_by(&workload.ready.unwrap_or_default()),
        Cell::text(cut(&list(&workload.pools))),
        Cell::text(cut(workload.managed_by.as_deref().unwrap_or_default())),
        Cell::html(findings.collect::<Vec<_>>().join(" ")),
    ]
}

/// Each code of the report, explained once.
fn appendix(codes: &Codes<'_>, explanations: &[Explanation]) -> Option<Section> {
    let mut body = String::new();
    for (code, name) in &codes.0 {
        let id = anchor("code-", code);
        push(
            &mut body,
            format_args!(
                "<h3 id=\"{id}\"><a class=\"anchor\" href=\"#{id}\">{} {}</a></h3>\n",
                escape(&shorten(code, 40)),
                escape(&shorten(name, 80))
            ),
        );
        let Some(page) = explanations.iter().find(|page| page.code == *code) else {
            push(
                &mut body,
                format_args!(
                    "<p><code>mullion rules {}</code> prints the page of this finding.</p>\n",
                    escape(&shorten(code, 40))
                ),
            );
            continue;
        };
        for (label, text) in [("", &page.what), ("Why it matters. ", &page.why), ("What to do. ", &page.fix)] {
            if !text.is_empty() {
                push(&mut body, format_args!("<p><b>{label}</b>{}</p>\n", prose(cut(text))));
            }
        }
        if !page.sources.is_empty() {
            let sources: Vec<String> = page.sources.iter().map(|one| source(cut(one))).collect();
            push(&mut body, format_args!("<p class=\"small soft\">Sources: {}</p>\n", sources.join(", ")));
        }
    }
    (!codes.0.is_empty()).then(|| Section::new("codes", "Finding codes", Some(codes.0.len()), body))
}
