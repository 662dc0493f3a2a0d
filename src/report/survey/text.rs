//! The report for a terminal: coverage, the answer, the fleet, then findings by code.

use std::io;
use std::io::Write;

use anstyle::{AnsiColor, Style};
use mullion_engine::model::text::{counted, list, shorten, thousands};
use mullion_survey::Comparison;
use mullion_survey::report::{Finding, NamespaceChanges, NodePool, Severity, SurveyReport};

use crate::report::survey::differences::{differences, earlier_time};
use crate::report::survey::groups::{
    CodeGroup, SEVERITIES, build_text, by_code, common_builds, distance, extent, object_text, origin, pool_system,
    pool_taints, pool_versions, read_text, unknown_objects,
};
use crate::report::survey::options::SurveyOptions;
use crate::report::table;
use crate::report::text::printable;

/// Findings of one code that are shown without details.
const SHOWN: usize = 3;

/// Rows of other lists that are shown without details.
const ROWS: usize = 8;

/// The longest cell of a table, in characters.
const CELL: usize = 28;

/// Writes the report.
pub(super) fn write(report: &SurveyReport, options: &SurveyOptions<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page { out, width: options.width.clamp(80, 120), colour: options.colour, details: options.details };
    page.head(report)?;
    page.coverage(report)?;
    page.summary(report)?;
    if let Some(comparison) = options.comparison {
        page.comparison(comparison)?;
    }
    page.fleet(report)?;
    page.findings(report)?;
    page.daemon_sets(report)?;
    page.changes(report)?;
    page.deadlines(report)?;
    page.unknown(report)?;
    page.workloads(report)?;
    if !page.details {
        page.out.write_all(b"\nPrint everything with --details.\n")?;
    }
    Ok(())
}

struct Page<'o> {
    out: &'o mut dyn Write,
    width: usize,
    colour: bool,
    details: bool,
}

impl Page<'_> {
    fn styled(&self, style: Style, text: &str) -> String {
        if self.colour { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    fn heading(&mut self, heading: &str) -> io::Result<()> {
        let heading = self.styled(Style::new().bold(), heading);
        writeln!(self.out, "\n{heading}")
    }

    /// Text with lines of at most the page's width; the first with `first` before it, the others with as many spaces.
    fn paragraph(&mut self, first: &str, text: &str) -> io::Result<()> {
        let indent = first.chars().count();
        let room = self.width.saturating_sub(indent).max(20);
        let text = printable(text);
        let (mut line, mut length, mut before) = (String::new(), 0, first.to_owned());
        for word in text.split_whitespace() {
            let word_length = word.chars().count();
            if length > 0 && length + 1 + word_length > room {
                writeln!(self.out, "{before}{line}")?;
                before = " ".repeat(indent);
                line.clear();
                length = 0;
            }
            if length > 0 {
                line.push(' ');
                length += 1;
            }
            line.push_str(word);
            length += word_length;
        }
        writeln!(self.out, "{}", format!("{before}{line}").trim_end())
    }

    /// How many of `all` rows are shown.
    fn shown(&self, all: usize) -> usize {
        if self.details { all } else { all.min(ROWS) }
    }

    fn more(&mut self, all: usize, what: &str) -> io::Result<()> {
        match all - self.shown(all) {
            0 => Ok(()),
            more => writeln!(self.out, "  and {}", counted(more, &format!("more {what}"))),
        }
    }

    fn head(&mut self, report: &SurveyReport) -> io::Result<()> {
        let header = &report.header;
        let title = self.styled(Style::new().bold(), &format!("Survey of {}", printable(&header.cluster)));
        writeln!(self.out, "{title}")?;
        self.paragraph("  objects  ", &origin(header))?;
        let dates = format!("counted from {}, compared with their sources on {}", header.today, header.dates_as_of);
        self.paragraph("  dates    ", &dates)?;
        let redacted = if header.redacted { ", names are replaced" } else { "" };
        self.paragraph("  written  ", &format!("by Mullion {}{redacted}", header.mullion))
    }

    fn coverage(&mut self, report: &SurveyReport) -> io::Result<()> {
        self.heading("Coverage")?;
        let read = read_text(report);
        self.paragraph("  read      ", if read.is_empty() { "nothing" } else { &read })?;
        let mut label = "  not read  ";
        for unread in &report.coverage.unread {
            let of =
                unread.namespace.as_ref().map(|namespace| format!(" of namespace {namespace}")).unwrap_or_default();
            self.paragraph(
                label,
                &format!("{}{of} ({}): the report lacks {}.", unread.kind, unread.reason, unread.missing),
            )?;
            label = "            ";
        }
        Ok(())
    }

    fn summary(&mut self, report: &SurveyReport) -> io::Result<()> {
        self.heading("Summary")?;
        if report.summary.is_empty() {
            return self.paragraph("  - ", "The survey found nothing to report.");
        }
        report.summary.iter().try_for_each(|sentence| self.paragraph("  - ", sentence))
    }

    fn fleet(&mut self, report: &SurveyReport) -> io::Result<()> {
        self.heading(&format!("Fleet: {}", counted(report.pools.len(), "pool")))?;
        if report.pools.is_empty() {
            return self.paragraph("  ", "The survey read no nodes.");
        }
        let header = ["  POOL", "SYSTEM", "NODES", "READY", "WINDOWS PODS", "OTHER PODS", "MISPLACED"];
        let count = self.shown(report.pools.len());
        let rows = report.pools.iter().take(count).map(|pool| {
            [
                format!("  {}", shorten(&pool.name, CELL)),
                shorten(&pool_system(pool), CELL),
                pool.nodes.to_string(),
                pool.ready.to_string(),
                thousands(pool.windows_pods),
                thousands(pool.other_pods),
                if pool.misplaced_pods == 0 { "-".to_owned() } else { thousands(pool.misplaced_pods) },
            ]
        });
        table::write(self.out, Some(header), rows)?;
        self.more(report.pools.len(), "pool")?;
        if self.details {
            report.pools.iter().try_for_each(|pool| self.pool(pool))?;
        }
        if report.image_builds.is_empty() {
            return Ok(());
        }
        self.heading("Windows workloads by the build of their images")?;
        let rows = report.image_builds.iter().map(|build| {
            [
                format!("  {}", build.build.as_deref().map_or_else(|| "unknown".to_owned(), build_text)),
                thousands(build.workloads),
                thousands(build.pods),
                thousands(build.images),
            ]
        });
        table::write(self.out, Some(["  BUILD", "WORKLOADS", "PODS", "IMAGES"]), rows)
    }

    fn pool(&mut self, pool: &NodePool) -> io::Result<()> {
        self.paragraph("  ", &format!("{}:", pool.name))?;
        let facts = [
            ("    versions  ", pool_versions(pool)),
            ("    kubelet   ", list(&pool.kubelets)),
            ("    runtime   ", list(&pool.runtimes)),
            ("    taints    ", list(pool_taints(pool))),
            ("    cordoned  ", if pool.cordoned == 0 { String::new() } else { counted(pool.cordoned, "node") }),
        ];
        for (label, text) in facts.iter().filter(|(_, text)| !text.is_empty()) {
            self.paragraph(label, text)?;
        }
        for end in &pool.ends {
            self.paragraph("    ends      ", &format!("{}: {}", end.date, end.what))?;
        }
        Ok(())
    }

    fn findings(&mut self, report: &SurveyReport) -> io::Result<()> {
        let groups = by_code(&report.findings);
        for (severity, heading, meaning) in SEVERITIES {
            let of: Vec<&CodeGroup<'_>> = groups.iter().filter(|group| group.severity == severity).collect();
            if of.is_empty() {
                continue;
            }
            let count: usize = of.iter().map(|group| group.findings.len()).sum();
            self.heading(&format!("{heading}: {}", counted(count, "finding")))?;
            self.paragraph("  ", meaning)?;
            for group in of {
                self.group(group)?;
            }
        }
        Ok(())
    }

    fn group(&mut self, group: &CodeGroup<'_>) -> io::Result<()> {
        let colour = match group.severity {
            Severity::Problem => AnsiColor::Red,
            Severity::Warning => AnsiColor::Yellow,
            Severity::Notice => AnsiColor::Cyan,
        };
        let code = self.styled(colour.on_default().bold(), &printable(group.code));
        writeln!(self.out, "\n  {code} {}: {}", printable(group.name), extent(group))?;
        let count = if self.details { group.findings.len() } else { SHOWN };
        for finding in group.findings.iter().take(count) {
            self.finding(finding)?;
        }
        match group.findings.len().saturating_sub(count) {
            0 => Ok(()),
            more => writeln!(self.out, "    and {}", counted(more, "more finding")),
        }
    }

    fn finding(&mut self, finding: &Finding) -> io::Result<()> {
        let pods = if finding.pods > 1 { format!(" ({})", counted(finding.pods, "pod")) } else { String::new() };
        self.paragraph("    ", &format!("{}{pods}", object_text(&finding.object)))?;
        self.paragraph("      ", &finding.message)?;
        self.paragraph("      field  ", &finding.path)?;
        self.paragraph("      do     ", &finding.action)?;
        if self.details {
            if !finding.nodes.is_empty() {
                self.paragraph("      nodes  ", &list(&finding.nodes))?;
            }
            if let Some(raw) = &finding.raw {
                self.paragraph("      text   ", raw)?;
            }
        }
        Ok(())
    }

    fn daemon_sets(&mut self, report: &SurveyReport) -> io::Result<()> {
        let missing: Vec<_> = report.daemon_sets.iter().filter(|set| !set.missing.is_empty()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        self.heading(&format!("DaemonSets that miss a pool: {}", missing.len()))?;
        for set in missing.iter().take(self.shown(missing.len())) {
            self.paragraph("  ", &object_text(&set.object))?;
            for pool in &set.missing {
                let nodes = counted(pool.nodes, "node");
                self.paragraph("    ", &format!("pool {}, {nodes}: {}", pool.pool, pool.because))?;
            }
        }
        self.more(missing.len(), "DaemonSet")
    }

    fn changes(&mut self, report: &SurveyReport) -> io::Result<()> {
        if report.changes.is_empty() {
            return Ok(());
        }
        self.heading("What Mullion would change and deny")?;
        let denied = |changes: &NamespaceChanges| -> usize {
            changes.rules.iter().filter(|rule| rule.action == "Deny").map(|rule| rule.workloads).sum()
        };
        let rows = report.changes.iter().take(self.shown(report.changes.len())).map(|changes| {
            [
                format!("  {}", shorten(&changes.namespace, CELL)),
                changes.workloads.to_string(),
                changes.placed.to_string(),
                denied(changes).to_string(),
            ]
        });
        table::write(self.out, Some(["  NAMESPACE", "WORKLOADS", "PLACED", "DENIALS"]), rows)?;
        self.more(report.changes.len(), "namespace")?;
        if self.details {
            report.changes.iter().try_for_each(|changes| self.rules(changes))?;
        }
        Ok(())
    }

    fn rules(&mut self, changes: &NamespaceChanges) -> io::Result<()> {
        for rule in &changes.rules {
            let workloads = counted(rule.workloads, "workload");
            let text = format!("{}: {} {} ({}): {workloads}", changes.namespace, rule.code, rule.rule, rule.action);
            self.paragraph("  ", &text)?;
        }
        Ok(())
    }

    fn deadlines(&mut self, report: &SurveyReport) -> io::Result<()> {
        if report.deadlines.is_empty() {
            return Ok(());
        }
        self.heading("Dates")?;
        for deadline in report.deadlines.iter().take(self.shown(report.deadlines.len())) {
            let when = distance(deadline, report.header.today);
            let text = format!("{} ({when}): {}. {}", deadline.date, deadline.what, deadline.concerns);
            self.paragraph("  ", &text)?;
            if self.details {
                self.paragraph("    source  ", &format!("{}, as of {}", deadline.source, deadline.as_of))?;
            }
        }
        self.more(report.deadlines.len(), "date")
    }

    fn unknown(&mut self, report: &SurveyReport) -> io::Result<()> {
        if report.unknown.is_empty() {
            return Ok(());
        }
        self.heading("Not known")?;
        for unknown in &report.unknown {
            self.paragraph("  - ", &unknown.what)?;
            self.paragraph("    find out  ", &unknown.resolve)?;
            if unknown.objects.is_empty() {
                continue;
            }
            let most = if self.details { unknown.objects.len() } else { SHOWN };
            self.paragraph("    objects   ", &unknown_objects(unknown, most))?;
        }
        Ok(())
    }

    fn workloads(&mut self, report: &SurveyReport) -> io::Result<()> {
        if !self.details || report.workloads.is_empty() {
            return Ok(());
        }
        self.heading(&format!("Workloads: {}", thousands(report.workloads.len())))?;
        let rows = report.workloads.iter().map(|workload| {
            [
                format!("  {}", shorten(&object_text(&workload.object), 2 * CELL)),
                shorten(&workload.os, CELL),
                shorten(&list(common_builds(workload)), CELL),
                format!("{}/{}", workload.ready, workload.pods),
                shorten(&list(&workload.pools), CELL),
                shorten(&list(&workload.findings), CELL),
            ]
        });
        table::write(self.out, Some(["  WORKLOAD", "OS", "BUILDS", "READY", "POOLS", "FINDINGS"]), rows)
    }

    fn comparison(&mut self, comparison: &Comparison) -> io::Result<()> {
        self.heading(&format!("Compared with the survey of {}", earlier_time(comparison)))?;
        for sentence in &comparison.summary {
            self.paragraph("  - ", sentence)?;
        }
        for caveat in &comparison.caveats {
            self.paragraph("  note  ", caveat)?;
        }
        for (heading, lines) in differences(comparison) {
            self.paragraph("  ", &format!("{heading}:"))?;
            for line in lines.iter().take(self.shown(lines.len())) {
                self.paragraph("    ", line)?;
            }
            self.more(lines.len(), "line")?;
        }
        Ok(())
    }
}
