//! The picture of the steps: a bar for each step with workloads, with a part for each verdict.

use mullion_engine::model::text::{shorten, thousands};
use mullion_plan::report::{PlanReport, Verdict};

use crate::report::html::escape::escape;
use crate::report::html::svg::{centred, label};
use crate::report::html::table::push;
use crate::report::plan::words::{VERDICTS, VerdictCounts, verdict_text, verdicts_by_step};

/// The most rows: more cannot be read.
const STEPS: usize = 40;

/// Sizes in the picture's own units.
const WIDTH: usize = 980;
const LABELS: usize = 400;
const LONGEST_BAR: usize = 500;
const HEAD: usize = 36;
const ROW: usize = 46;
const BAR: usize = 24;
const LEGEND: usize = 130;

struct Row<'r> {
    name: String,
    title: &'r str,
    counts: VerdictCounts,
}

/// The picture, with a title and a description for those who do not see it. Empty if no workload has a verdict.
pub(super) fn picture(report: &PlanReport) -> String {
    let counts = verdicts_by_step(&report.workloads);
    let steps = report.steps.iter().filter_map(|step| {
        let counts = *counts.get(&Some(step.number))?;
        Some(Row { name: format!("Step {}", step.number), title: &step.title, counts })
    });
    let rest = counts.get(&None).map(|counts| Row {
        name: "No step".to_owned(),
        title: "Workloads that are not in a pool that leaves",
        counts: *counts,
    });
    let rows: Vec<Row<'_>> = steps.take(STEPS).chain(rest).collect();
    if rows.is_empty() {
        return String::new();
    }
    let height = HEAD + rows.len() * ROW;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"steps-title steps-text\" \
         xmlns=\"http://www.w3.org/2000/svg\">\n<title id=\"steps-title\">Verdicts of the workloads of each step</title>\n\
         <desc id=\"steps-text\">"
    );
    for row in &rows {
        let text = format!("{}, {}: {}. ", row.name, shorten(row.title, 80), row.counts.text());
        svg.push_str(&escape(&text));
    }
    svg.push_str("</desc>\n");
    for (at, verdict) in VERDICTS.into_iter().enumerate() {
        let x = LABELS + at * LEGEND;
        push(
            &mut svg,
            format_args!(
                "<rect class=\"{}\" x=\"{x}\" y=\"5\" width=\"14\" height=\"14\" rx=\"3\"/>\n",
                class(verdict)
            ),
        );
        label(&mut svg, x + 20, 16, "soft", verdict_text(verdict));
    }
    let most = rows.iter().map(|row| row.counts.all()).max().unwrap_or(1).max(1);
    for (at, row) in rows.iter().enumerate() {
        let top = HEAD + at * ROW;
        push(&mut svg, format_args!("<line class=\"line\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{top}\" y2=\"{top}\"/>\n"));
        label(&mut svg, 0, top + 19, "head", &row.name);
        label(&mut svg, 0, top + 36, "soft", &shorten(row.title, 56));
        bar(&mut svg, row.counts, top + (ROW - BAR) / 2, most);
    }
    svg.push_str("</svg>");
    svg
}

/// The parts of a bar, each as long as its number, and the number of all after it.
fn bar(svg: &mut String, counts: VerdictCounts, y: usize, most: usize) {
    let mut x = LABELS;
    for (verdict, count) in counts.iter().filter(|(_, count)| *count > 0) {
        let width = (LONGEST_BAR * count / most).max(3);
        let class = class(verdict);
        push(
            svg,
            format_args!("<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{BAR}\" rx=\"3\"/>\n"),
        );
        let number = thousands(count);
        if number.len() * 8 + 4 <= width {
            centred(svg, x + width / 2, y + 16, "in", &number);
        }
        x += width + 2;
    }
    label(svg, x + 6, y + 16, "", &thousands(counts.all()));
}

const fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::RunsAsIs => "right",
        Verdict::AnotherTag => "change",
        Verdict::Rebuild => "wrong",
        Verdict::Unknown => "linux",
    }
}
