//! The report as Markdown of GitHub's kind, for a ticket or a wiki. Names and messages of the cluster cannot become markup.

use std::io;
use std::io::Write;

use mullion_engine::model::text::{counted, list, thousands};
use mullion_survey::Comparison;
use mullion_survey::report::{Finding, SurveyReport};

use crate::report::survey::differences::{differences, earlier_time};
use crate::report::survey::groups::{
    SEVERITIES, build_text, by_code, common_builds, distance, extent, full_name, object_text, origin, pool_system,
    pool_taints, pool_versions, read_text, unknown_objects,
};
use crate::report::survey::options::SurveyOptions;
use crate::report::text::printable;

/// Findings of one code, and rows of a table, that are shown without details. GitHub takes 65,536 characters in an issue.
const SHOWN: usize = 20;

/// Writes the report.
pub(super) fn write(report: &SurveyReport, options: &SurveyOptions<'_>, out: &mut dyn Write) -> io::Result<()> {
    let header = &report.header;
    let most = if options.details { usize::MAX } else { SHOWN };
    writeln!(out, "# Survey of {}\n", escaped(&header.cluster))?;
    let redacted = if header.redacted { " Names are replaced." } else { "" };
    writeln!(
        out,
        "Objects were {}. Dates count from {}, and were compared with their sources on {}. Written by Mullion {}.{redacted}",
        escaped(&origin(header)),
        header.today,
        header.dates_as_of,
        escaped(&header.mullion)
    )?;
    writeln!(out, "\n## Coverage\n\nRead: {}.", escaped(&read_text(report)))?;
    if !report.coverage.unread.is_empty() {
        let rows = report.coverage.unread.iter().map(|unread| {
            let namespace = unread.namespace.as_deref().map_or_else(|| "all".to_owned(), code);
            [code(&unread.kind), namespace, escaped(&unread.reason), escaped(&unread.missing)]
        });
        table(["Not read", "Namespace", "Reason", "What the report lacks"], rows, usize::MAX, out)?;
    }
    writeln!(out, "\n## Summary\n")?;
    if report.summary.is_empty() {
        writeln!(out, "- The survey found nothing to report.")?;
    }
    report.summary.iter().try_for_each(|sentence| writeln!(out, "- {}", escaped(sentence)))?;
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
                format!("{} of {}", workload.ready, workload.pods),
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
            thousands(pool.windows_pods),
            thousands(pool.other_pods),
            if pool.misplaced_pods == 0 { "0".to_owned() } else { format!("**{}**", thousands(pool.misplaced_pods)) },
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
        [escaped(&name), thousands(build.workloads), thousands(build.pods), thousands(build.images)]
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
    writeln!(out, "\n## DaemonSets that miss a pool")?;
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
                escaped(&deadline.what),
                escaped(&deadline.concerns),
                format!("{}, {}", escaped(&deadline.source), deadline.as_of),
            ]
        });
        table(["Date", "", "What", "Concerns", "Source, as of"], rows, most, out)?;
    }
    if !report.unknown.is_empty() {
        writeln!(out, "\n## Not known")?;
        let rows = report.unknown.iter().map(|unknown| {
            [
                escaped(&unknown.what),
                escaped(&unknown.resolve),
                escaped(&unknown_objects(unknown, unknown.objects.len().min(most))),
            ]
        });
        table(["What", "How to find out", "Objects"], rows, most, out)?;
    }
    Ok(())
}

/// A table after an empty line, with at most `most` rows.
fn table<const N: usize>(
    header: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
    most: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "\n| {} |\n|{}", header.join(" | "), "---|".repeat(N))?;
    let mut all = 0;
    for row in rows {
        all += 1;
        if all <= most {
            writeln!(out, "| {} |", row.join(" | "))?;
        }
    }
    write_more(all, most, out)
}

fn write_more(all: usize, most: usize, out: &mut dyn Write) -> io::Result<()> {
    match all.saturating_sub(most) {
        0 => Ok(()),
        more => writeln!(out, "\nand {} more; `--details` writes all.", thousands(more)),
    }
}

/// Several names, each as code.
fn codes(names: &[String]) -> String {
    names.iter().map(|name| code(name)).collect::<Vec<_>>().join(", ")
}

/// A name or value as code, also in a table. Nothing in it is markup, a mention or a link.
fn code(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    // In a table the sign between cells ends one even in code. With a backslash it does not, and outside of tables a
    // backslash in code is shown; every code of this report that may have one is in a table.
    let text = printable(text).replace('|', "\\|");
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest + 1);
    let space = if text.starts_with(['`', ' ']) || text.ends_with(['`', ' ']) { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

/// A sentence, in which backticks mark code.
fn escaped(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return plain(text);
    }
    let part = |(at, part): (usize, &&str)| if at % 2 == 1 { code(part) } else { plain(part) };
    parts.iter().enumerate().map(part).collect()
}

/// Words that a wiki makes into a link or a mention become code; all other markup is escaped.
fn plain(text: &str) -> String {
    let text = printable(text);
    let mut out = String::with_capacity(text.len() + 16);
    for (at, word) in text.split(' ').enumerate() {
        if at > 0 {
            out.push(' ');
        }
        let lower = word.to_ascii_lowercase();
        if word.contains(['@', '#']) || lower.contains("://") || lower.contains("www.") {
            let end = word.trim_end_matches(['.', ',', ';', ':']).len();
            let (word, sign) = word.split_at(end);
            out.push_str(&code(word));
            out.push_str(sign);
            continue;
        }
        for c in word.chars() {
            match c {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '(' | ')' | '+' | '!' | '|' | '~' | '$' => {
                    out.push('\\');
                    out.push(c);
                }
                // A list or a heading line begins so.
                '-' | '=' if out.is_empty() => {
                    out.push('\\');
                    out.push(c);
                }
                _ => out.push(c),
            }
        }
    }
    // A number and a full stop begin a list.
    let digits = out.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 && out.as_bytes().get(digits).is_some_and(|sign| *sign == b'.') {
        out.insert(digits, '\\');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_no_markup() {
        let cases = [
            ("Pool win19 has 3 nodes.", "Pool win19 has 3 nodes."),
            ("<script>alert(1)</script>", "&lt;script&gt;alert\\(1\\)&lt;/script&gt;"),
            ("a|b", "a\\|b"),
            ("*a* _b_ [x](y) ![z](w)", "\\*a\\* \\_b\\_ \\[x\\]\\(y\\) \\!\\[z\\]\\(w\\)"),
            ("two\nlines", "two\\\\nlines"),
            ("ask @team, now", "ask `@team`, now"),
            ("see https://x.example/<b>.", "see `https://x.example/<b>`."),
            ("see #12", "see `#12`"),
            ("set `a: b` in *c*", "set `a: b` in \\*c\\*"),
            ("one ` alone", "one \\` alone"),
            ("a@sha256:00|`b", "``a@sha256:00\\|`b``"),
            ("- item", "\\- item"),
            ("1. item", "1\\. item"),
            ("10.0.20348 is a build", "10\\.0.20348 is a build"),
            ("&lt;", "&amp;lt;"),
        ];
        for (text, expected) in cases {
            assert_eq!(escaped(text), expected, "{text:?}");
        }
    }

    #[test]
    fn code_holds_any_text() {
        let cases = [
            ("shop/web", "`shop/web`"),
            ("", ""),
            ("a`b", "``a`b``"),
            ("`", "`` ` ``"),
            ("a|b", "`a\\|b`"),
            ("a\nb", "`a\\nb`"),
            ("</td><script>", "`</td><script>`"),
        ];
        for (text, expected) in cases {
            assert_eq!(code(text), expected, "{text:?}");
        }
    }
}
