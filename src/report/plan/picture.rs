//! The picture of the steps: a bar for each step with workloads, with a part for each verdict.

use maud::{Markup, html};
use mullion_engine::model::text::{shorten, thousands};
use mullion_plan::report::{PlanReport, Verdict};

use crate::report::document::svg;
use crate::report::document::svg::{centred, label, line, rect};
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

/// The picture, with a title and a description for those who do not see it; `None` if no workload has a verdict.
pub(super) fn picture(report: &PlanReport) -> Option<Markup> {
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
        return None;
    }
    let text = rows.iter().map(|row| format!("{}, {}: {}. ", row.name, shorten(row.title, 80), row.counts.text()));
    let text: String = text.collect();
    let legend = VERDICTS.into_iter().enumerate().map(|(at, verdict)| {
        let x = LABELS + at * LEGEND;
        html! { (rect(class(verdict), (x, 5), (14, 14), 3)) (label(x + 20, 16, "soft", verdict_text(verdict))) }
    });
    let most = rows.iter().map(|row| row.counts.all()).max().unwrap_or(1).max(1);
    let bars = rows.iter().enumerate().map(|(at, row)| {
        let top = HEAD + at * ROW;
        html! {
            (line(WIDTH, top))
            (label(0, top + 19, "head", &row.name))
            (label(0, top + 36, "soft", &shorten(row.title, 56)))
            (bar(row.counts, top + (ROW - BAR) / 2, most))
        }
    });
    let parts: Vec<Markup> = legend.chain(bars).collect();
    let size = (WIDTH, HEAD + rows.len() * ROW);
    Some(svg::picture("steps", size, "Verdicts of the workloads of each step", &text, &parts))
}

/// The parts of a bar, each as long as its number, and the number of all after it.
fn bar(counts: VerdictCounts, y: usize, most: usize) -> Markup {
    let mut x = LABELS;
    let part = |(verdict, count): (Verdict, usize)| {
        let width = (LONGEST_BAR * count / most).max(3);
        let (left, number) = (x, thousands(count));
        x += width + 2;
        html! {
            (rect(class(verdict), (left, y), (width, BAR), 3))
            @if number.len() * 8 + 4 <= width { (centred(left + width / 2, y + 16, "in", &number)) }
        }
    };
    let parts: Vec<Markup> = counts.iter().filter(|(_, count)| *count > 0).map(part).collect();
    html! { @for part in parts { (part) } (label(x + 6, y + 16, "", &thousands(counts.all()))) }
}

const fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::RunsAsIs => "right",
        Verdict::AnotherTag => "change",
        Verdict::Rebuild => "wrong",
        Verdict::Unknown => "linux",
    }
}
