//! The report for a terminal: the summary, where it is from, the fleet, then findings by code.

use std::io;
use std::io::Write;

use anstyle::{AnsiColor, Style};
use mullion_engine::model::foreign_text::visible;
use mullion_engine::model::text::{counted, list, shorten, thousands};
use mullion_survey::Comparison;
use mullion_survey::report::{Finding, NamespaceChanges, NodePool, Severity, SurveyReport};

use crate::report::inventory_text::{build_text, distance, object_text, origin, pods_text};
use crate::report::survey::differences::{differences, earlier_time};
use crate::report::survey::groups::{
    CodeGroup, SEVERITIES, by_code, common_builds, daemon_sets_text, extent, pool_system, pool_taints, pool_versions,
    ready_text,
};
use crate::report::survey::options::SurveyOptions;
use crate::report::table;
use crate::report::text_page::{CELL, SHOWN, TextPage};

/// Writes the report.
pub(super) fn write(report: &SurveyReport, options: &SurveyOptions<'_>, out: &mut dyn Write) -> io::Result<()> {
    let text = TextPage { out, width: options.width.clamp(80, 120), colour: options.colour, details: options.details };
    let mut page = Page { text };
    page.title(report)?;
    page.summary(report)?;
    page.text.coverage(&report.coverage)?;
    page.origin(report)?;
    if let Some(comparison) = options.comparison {
        page.comparison(comparison)?;
    }
    page.fleet(report)?;
    page.findings(report)?;
    page.daemon_sets(report)?;
    page.changes(report)?;
    page.deadlines(report)?;
    page.text.unknown(&report.unknown)?;
    page.workloads(report)?;
    if !page.text.details {
        page.text.out.write_all(b"\nPrint everything with --details.\n")?;
    }
    Ok(())
}

/// The sections of a survey.
struct Page<'o> {
    text: TextPage<'o>,
}

impl Page<'_> {
    fn title(&mut self, report: &SurveyReport) -> io::Result<()> {
        let title = format!("Survey of {}", visible(&report.header.cluster));
        let title = self.text.styled(Style::new().bold(), &title);
        writeln!(self.text.out, "{title}")
    }

    fn origin(&mut self, report: &SurveyReport) -> io::Result<()> {
        let header = &report.header;
        self.text.paragraph("  objects  ", &origin(header))?;
        let dates = format!("counted from {}, compared with their sources on {}", header.today, header.dates_as_of);
        self.text.paragraph("  dates    ", &dates)?;
        let redacted = if header.redacted { ", names are replaced" } else { "" };
        self.text.paragraph("  written  ", &format!("by Mullion {}{redacted}", header.mullion))
    }

    fn summary(&mut self, report: &SurveyReport) -> io::Result<()> {
        self.text.heading("Summary")?;
        if report.summary.is_empty() {
            return self.text.paragraph("  - ", "The survey found nothing to report.");
        }
        report.summary.iter().try_for_each(|sentence| self.text.paragraph("  - ", sentence))
    }

    fn fleet(&mut self, report: &SurveyReport) -> io::Result<()> {
        self.text.heading(&format!("Fleet: {}", counted(report.pools.len(), "pool")))?;
        if report.pools.is_empty() {
            return self.text.paragraph("  ", "The survey read no nodes.");
        }
        let header = ["  POOL", "SYSTEM", "NODES", "READY", "WINDOWS PODS", "OTHER PODS", "MISPLACED"];
        let count = self.text.shown(report.pools.len());
        let rows = report.pools.iter().take(count).map(|pool| {
            [
                format!("  {}", shorten(&pool.name, CELL)),
                shorten(&pool_system(pool), CELL),
                pool.nodes.to_string(),
                pool.ready.to_string(),
                pods_text(pool.windows_pods),
                pods_text(pool.other_pods),
                if pool.misplaced_pods == Some(0) { "-".to_owned() } else { pods_text(pool.misplaced_pods) },
            ]
        });
        table::write(self.text.out, Some(header), rows)?;
        self.text.more(report.pools.len(), "pool")?;
        if self.text.details {
            report.pools.iter().try_for_each(|pool| self.pool(pool))?;
        }
        if report.image_builds.is_empty() {
            return Ok(());
        }
        self.text.heading("Windows workloads by the build of their images")?;
        let rows = report.image_builds.iter().map(|build| {
            [
                format!("  {}", build.build.as_deref().map_or_else(|| "unknown".to_owned(), build_text)),
                thousands(build.workloads),
                pods_text(build.pods),
                thousands(build.images),
            ]
        });
        table::write(self.text.out, Some(["  BUILD", "WORKLOADS", "PODS", "IMAGES"]), rows)
    }

    fn pool(&mut self, pool: &NodePool) -> io::Result<()> {
        self.text.paragraph("  ", &format!("{}:", pool.name))?;
        let facts = [
            ("    versions  ", pool_versions(pool)),
            ("    kubelet   ", list(&pool.kubelets)),
            ("    runtime   ", list(&pool.runtimes)),
            ("    taints    ", list(pool_taints(pool))),
            ("    cordoned  ", if pool.cordoned == 0 { String::new() } else { counted(pool.cordoned, "node") }),
        ];
        for (label, text) in facts.iter().filter(|(_, text)| !text.is_empty()) {
            self.text.paragraph(label, text)?;
        }
        for end in &pool.ends {
            self.text.paragraph("    ends      ", &format!("{}: {}", end.date, end.what))?;
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
            self.text.heading(&format!("{heading}: {}", counted(count, "finding")))?;
            self.text.paragraph("  ", meaning)?;
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
        let code = self.text.styled(colour.on_default().bold(), &visible(group.code));
        writeln!(self.text.out, "\n  {code} {}: {}", visible(group.name), extent(group))?;
        let count = if self.text.details { group.findings.len() } else { SHOWN };
        for finding in group.findings.iter().take(count) {
            self.finding(finding)?;
        }
        match group.findings.len().saturating_sub(count) {
            0 => Ok(()),
            more => writeln!(self.text.out, "    and {}", counted(more, "more finding")),
        }
    }

    fn finding(&mut self, finding: &Finding) -> io::Result<()> {
        let pods = if finding.pods > 1 { format!(" ({})", counted(finding.pods, "pod")) } else { String::new() };
        self.text.paragraph("    ", &format!("{}{pods}", object_text(&finding.object)))?;
        self.text.paragraph("      ", &finding.message)?;
        self.text.paragraph("      field  ", &finding.path)?;
        self.text.paragraph("      do     ", &finding.action)?;
        if self.text.details {
            if !finding.nodes.is_empty() {
                self.text.paragraph("      nodes  ", &list(&finding.nodes))?;
            }
            if let Some(raw) = &finding.raw {
                self.text.paragraph("      text   ", raw)?;
            }
        }
        Ok(())
    }

    fn daemon_sets(&mut self, report: &SurveyReport) -> io::Result<()> {
        let missing: Vec<_> = report.daemon_sets.iter().filter(|set| !set.missing.is_empty()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        self.text.heading(&format!("DaemonSets without a pod in a pool: {}", missing.len()))?;
        self.text.paragraph("  ", &daemon_sets_text(report))?;
        for set in missing.iter().take(self.text.shown(missing.len())) {
            self.text.paragraph("  ", &object_text(&set.object))?;
            for pool in &set.missing {
                let nodes = counted(pool.nodes, "node");
                self.text.paragraph("    ", &format!("pool {}, {nodes}: {}", pool.pool, pool.because))?;
            }
        }
        self.text.more(missing.len(), "DaemonSet")
    }

    fn changes(&mut self, report: &SurveyReport) -> io::Result<()> {
        if report.changes.is_empty() {
            return Ok(());
        }
        self.text.heading("What Mullion would change and deny")?;
        let denied = |changes: &NamespaceChanges| -> usize {
            changes.rules.iter().filter(|rule| rule.action == "Deny").map(|rule| rule.workloads).sum()
        };
        let rows = report.changes.iter().take(self.text.shown(report.changes.len())).map(|changes| {
            [
                format!("  {}", shorten(&changes.namespace, CELL)),
                changes.workloads.to_string(),
                changes.placed.to_string(),
                denied(changes).to_string(),
            ]
        });
        table::write(self.text.out, Some(["  NAMESPACE", "WORKLOADS", "PLACED", "DENIALS"]), rows)?;
        self.text.more(report.changes.len(), "namespace")?;
        if self.text.details {
            report.changes.iter().try_for_each(|changes| self.rules(changes))?;
        }
        Ok(())
    }

    fn rules(&mut self, changes: &NamespaceChanges) -> io::Result<()> {
        for rule in &changes.rules {
            let workloads = counted(rule.workloads, "workload");
            let text = format!("{}: {} {} ({}): {workloads}", changes.namespace, rule.code, rule.rule, rule.action);
            self.text.paragraph("  ", &text)?;
        }
        Ok(())
    }

    fn deadlines(&mut self, report: &SurveyReport) -> io::Result<()> {
        if report.deadlines.is_empty() {
            return Ok(());
        }
        self.text.heading("Dates")?;
        for deadline in report.deadlines.iter().take(self.text.shown(report.deadlines.len())) {
            let when = distance(deadline, report.header.today);
            let text = format!("{} ({when}): {}. {}", deadline.date, deadline.what, deadline.concerns);
            self.text.paragraph("  ", &text)?;
            if self.text.details {
                self.text.paragraph("    source  ", &format!("{}, as of {}", deadline.source, deadline.as_of))?;
            }
        }
        self.text.more(report.deadlines.len(), "date")
    }

    fn workloads(&mut self, report: &SurveyReport) -> io::Result<()> {
        if !self.text.details || report.workloads.is_empty() {
            return Ok(());
        }
        self.text.heading(&format!("Workloads: {}", thousands(report.workloads.len())))?;
        let rows = report.workloads.iter().map(|workload| {
            [
                format!("  {}", shorten(&object_text(&workload.object), 2 * CELL)),
                shorten(&workload.os, CELL),
                shorten(&list(common_builds(workload)), CELL),
                ready_text(workload, "/"),
                shorten(&list(&workload.pools), CELL),
                shorten(&list(&workload.findings), CELL),
            ]
        });
        table::write(self.text.out, Some(["  WORKLOAD", "OS", "BUILDS", "READY", "POOLS", "FINDINGS"]), rows)
    }

    fn comparison(&mut self, comparison: &Comparison) -> io::Result<()> {
        self.text.heading(&format!("Compared with the survey of {}", earlier_time(comparison)))?;
        for sentence in &comparison.summary {
            self.text.paragraph("  - ", sentence)?;
        }
        for caveat in &comparison.caveats {
            self.text.paragraph("  note  ", caveat)?;
        }
        for (heading, lines) in differences(comparison) {
            self.text.paragraph("  ", &format!("{heading}:"))?;
            for line in lines.iter().take(self.text.shown(lines.len())) {
                self.text.paragraph("    ", line)?;
            }
            self.text.more(lines.len(), "line")?;
        }
        Ok(())
    }
}
