//! The report as GitHub Flavored Markdown, for a ticket or a wiki. Names and messages of the cluster cannot become
//! markup.

use std::io;
use std::io::Write;

use mullion_engine::model::text::{counted, list, thousands};
use mullion_survey::Comparison;
use mullion_survey::report::{Finding, SurveyReport};

use crate::report::inventory_text::{build_text, distance, first_objects, full_name, object_text, origin, pods_text};
use crate::report::markdown::{code, codes, escaped, table, with_source, write_coverage, write_more};
use crate::report::survey::differences::{differences, earlier_time};
use crate::report::survey::groups::{
    SEVERITIES, by_code, common_builds, daemon_sets_text, extent, pool_system, pool_taints, pool_versions, ready_text,
};
use crate::report::survey::options::SurveyOptions;

/// The number of findings of one code, and rows of a table, that are shown without details. GitHub accepts 65,536
/// characters in an issue.
const SHOWN: usize = 20;

/// Writes the report.
pub(super) fn write(report: &SurveyReport, options: &SurveyOptions<'_>, out: &mut dyn Write) -> io::Result<()> {
    let header = &report.header;
    let most = if options.details { usize::MAX } else { SHOWN };
    writeln!(out, "# Survey of {}\n\n## Summary\n", escaped(&header.cluster))?;
    if report.summary.is_empty() {
        writeln!(out, "- The survey found nothing to report.")?;
    }
    report.summary.iter().try_for_each(|sentence| writeln!(out, "- {}", escaped(sentence)))?;
    write_coverage(&report.coverage, "What the report lacks", most, out)?;
    let redacted = if header.redacted { " Names are replaced." } else { "" };
    writeln!(
        out,
        "\nObjects were {}. Dates count from {}, and were compared with their sources on {}. Written by Mullion {}.{redacted}",
        escaped(&origin(header)),
        header.today,
        header.dates_as_of,
        escaped(&header.mullion)
    )?;
    if let Some(comparison) = options.comparison {
        write_comparison(comparison, most, out)?;
    }
    fleet(report, out)?;
    findings(&report.findings, most, out)?;
    daemon_sets(report, most, out)?;
    changes(report, most, out)?;
    dates_and_unknown(report, most, out)?;
    if options.details && !report.workloads.is_empty() {
        writeln!(out, "\n## Workloads")?;
        let rows = report.workloads.iter().map(|workload| {
            [
                code(&object_text(&workload.object)),
                escaped(&workload.os),
                escaped(&list(common_builds(workload))),
                ready_text(workload, " of "),
                codes(&workload.pools),
                escaped(&list(&workload.findings)),
            ]
        });
        table(["Workload", "System", "Builds", "Ready pods", "Pools", "Findings"], rows, usize::MAX, out)?;
    }
    Ok(())
}

fn write_comparison(comparison: &Comparison, most: usize, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n## Compared with the survey of {}\n", escaped(&earlier_time(comparison)))?;
    for sentence in comparison.summary.iter().chain(&comparison.caveats) {
        writeln!(out, "- {}", escaped(sentence))?;
    }
    for (heading, lines) in differences(comparison) {
        writeln!(out, "\n### {heading}\n")?;
        lines.iter().take(most).try_for_each(|line| writeln!(out, "- {}", escaped(line)))?;
        write_more(lines.len(), most, out)?;
    }
    Ok(())
}

fn fleet(report: &SurveyReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n## Fleet")?;
    let rows = report.pools.iter().map(|pool| {
        [
            code(&pool.name),
            escaped(&pool_system(pool)),
            escaped(&pool_versions(pool)),
            format!("{} of {}", pool.ready, pool.nodes),
            pods_text(pool.windows_pods),
            pods_text(pool.other_pods),
            match pool.misplaced_pods {
                None | Some(0) => pods_text(pool.misplaced_pods),
                Some(misplaced) => format!("**{}**", thousands(misplaced)),
            },
            codes(&pool.kubelets),
            codes(&pool.runtimes),
            codes(&pool_taints(pool)),
        ]
    });
    let header = [
        "Pool",
        "System",
        "Version",
        "Ready nodes",
        "Windows pods",
        "Other pods",
        "Misplaced pods",
        "Kubelet",
        "Runtime",
        "Taints",
    ];
    table(header, rows, usize::MAX, out)?;
    if report.image_builds.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n## Windows workloads by the build of their images")?;
    let rows = report.image_builds.iter().map(|build| {
        let name = build.build.as_deref().map_or_else(|| "unknown".to_owned(), build_text);
        [escaped(&name), thousands(build.workloads), pods_text(build.pods), thousands(build.images)]
    });
    table(["Build", "Workloads", "Pods", "Images"], rows, usize::MAX, out)
}

fn findings(findings: &[Finding], most: usize, out: &mut dyn Write) -> io::Result<()> {
    let groups = by_code(findings);
    for (severity, heading, meaning) in SEVERITIES {
        let of: Vec<_> = groups.iter().filter(|group| group.severity == severity).collect();
        if of.is_empty() {
            continue;
        }
        writeln!(out, "\n## {heading}\n\n{meaning}")?;
        for group in of {
            writeln!(out, "\n### {} {}: {}", escaped(group.code), escaped(group.name), extent(group))?;
            let rows = group.findings.iter().map(|finding| {
                [
                    code(&object_text(&finding.object)),
                    escaped(&finding.message),
                    escaped(&finding.action),
                    code(&finding.path),
                    finding.pods.to_string(),
                ]
            });
            let header = ["Object", "What is wrong", "What to do", "Field", "Pods"];
            table(header, rows, most, out)?;
        }
    }
    Ok(())
}

fn daemon_sets(report: &SurveyReport, most: usize, out: &mut dyn Write) -> io::Result<()> {
    let rows: Vec<_> = report
        .daemon_sets
        .iter()
        .flat_map(|set| set.missing.iter().map(move |missing| (set, missing)))
        .map(|(set, missing)| {
            [code(&full_name(&set.object)), code(&missing.pool), missing.nodes.to_string(), escaped(&missing.because)]
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n## DaemonSets without a pod in a pool\n\n{}", daemon_sets_text(report))?;
    table(["DaemonSet", "Pool", "Nodes without a pod", "Why"], rows.into_iter(), most, out)
}

fn changes(report: &SurveyReport, most: usize, out: &mut dyn Write) -> io::Result<()> {
    if report.changes.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n## What Mullion would change and deny")?;
    let rows = report.changes.iter().map(|changes| {
        let rules = changes.rules.iter().map(|rule| {
            format!("{} {} ({}): {}", rule.code, rule.rule, rule.action, counted(rule.workloads, "workload"))
        });
        [code(&changes.namespace), changes.workloads.to_string(), changes.placed.to_string(), escaped(&list(rules))]
    });
    table(["Namespace", "Workloads", "Placed", "Rules"], rows, most, out)
}

fn dates_and_unknown(report: &SurveyReport, most: usize, out: &mut dyn Write) -> io::Result<()> {
    if !report.deadlines.is_empty() {
        writeln!(out, "\n## Dates")?;
        let rows = report.deadlines.iter().map(|deadline| {
            [
                deadline.date.to_string(),
                distance(deadline, report.header.today),
                with_source(&deadline.what, &deadline.source, deadline.as_of),
                escaped(&deadline.concerns),
            ]
        });
        table(["Date", "", "What", "Concerns"], rows, most, out)?;
    }
    if !report.unknown.is_empty() {
        writeln!(out, "\n## Not known")?;
        let rows = report.unknown.iter().map(|unknown| {
            [
                escaped(&unknown.what),
                escaped(&unknown.resolve),
                escaped(&first_objects(&unknown.objects, unknown.all, unknown.objects.len().min(most))),
            ]
        });
        table(["What", "How to find out", "Objects"], rows, most, out)?;
    }
    Ok(())
}
