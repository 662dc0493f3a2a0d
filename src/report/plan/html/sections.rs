//! The sections of the page: the answer, what limits the move, the steps, what each workload needs, what comes later.

use std::collections::HashSet;

use mullion_engine::model::text::{counted, list, shorten, thousands, upper_first};
use mullion_plan::report::{
    BehaviorChange, CalendarEntry, Constraint, ConstraintState, FieldEdit, PlanCommand, PlanReport, PlannedContainer,
    PlannedWorkload, Step, Verdict,
};
use mullion_survey::Statement;
use serde_json::Value;

use crate::report::html::cells::{cut, object_cell, pods_cell};
use crate::report::html::common_sections::{Tile, coverage, tiles, unknown, unknown_table, unread_table};
use crate::report::html::escape::{breakable, code, escape, prose, source_line};
use crate::report::html::page::Section;
use crate::report::html::table::{Cell, Table, choice, number, push, text, wide};
use crate::report::inventory_text::{count_text, distance, first_objects, full_name, object_text, origin};
use crate::report::plan::html::commands::{CommandLimit, lines};
use crate::report::plan::html::picture::picture;
use crate::report::plan::words::{
    VerdictCounts, builds_text, by_owner, by_state, calendar_text, capacity_text, certainty, commands_of_steps,
    concerned, concerned_text, confidence_text, counted_exact, edited, exact_size, gate, has_work, is_of_all,
    manager_text, move_text, part_text, pods_phrase, pools_text, size, state_text, verdict_text, verdicts,
    verdicts_by_step, without_printed, work_step, work_text,
};

const REST: &str = "<code>mullion plan -o json</code> writes all of them.";

/// The most steps, and the bytes of all their commands.
const STEPS: usize = 100;
const STEP_COMMANDS: usize = 700_000;

/// The bytes of all sentences about steps.
const STEP_REASONS: usize = 300_000;

/// The bytes of the commands of one object.
const OBJECT_COMMANDS: usize = 20_000;

/// The most edits, notes and risks of one workload or container.
const LINES: usize = 20;

// The limits of bytes of all tables together are 8.2 MB; of all other texts 1.1 MB.
const POOLS: Table<7> = Table {
    name: "pools",
    rows: Some("pools"),
    columns: [
        text("Pool"),
        choice("Part"),
        text("Release"),
        number("Nodes"),
        number("Windows workloads"),
        text("Kubelet"),
        text("Runtime"),
    ],
    head: 0,
    most_rows: 500,
    most_bytes: 300_000,
    rest: REST,
};
const CONSTRAINTS: Table<3> = Table {
    name: "constraints",
    rows: None,
    columns: [text("State"), wide("What holds"), wide("What to do")],
    head: 0,
    most_rows: 200,
    most_bytes: 300_000,
    rest: "The most urgent are first. <code>mullion plan -o json</code> writes all of them.",
};
const GATE: Table<4> = Table {
    name: "gate",
    rows: None,
    columns: [text("Workload"), text("Verdict"), number("Step"), text("Owner")],
    head: 0,
    most_rows: 500,
    most_bytes: 300_000,
    rest: REST,
};
const BUDGETS: Table<5> = Table {
    name: "budgets",
    rows: Some("budgets"),
    columns: [text("Budget"), number("Step"), text("Workload"), number("Evictions now"), wide("What a drain does")],
    head: 0,
    most_rows: 500,
    most_bytes: 300_000,
    rest: REST,
};
const WORK_LIST: Table<8> = Table {
    name: "worklist",
    rows: Some("containers"),
    columns: [
        choice("Namespace"),
        text("Workload"),
        choice("Owner"),
        choice("Step"),
        wide("Container, image"),
        choice("Verdict"),
        wide("Use or build"),
        wide("Why"),
    ],
    head: 1,
    most_rows: 5_000,
    most_bytes: 3_200_000,
    rest: "<code>mullion plan -o csv</code> writes all of them.",
};
const CHANGES: Table<5> = Table {
    name: "changes",
    rows: Some("changes"),
    columns: [wide("What"), choice("Sure"), choice("When"), wide("What to check"), wide("Concerns")],
    head: 0,
    most_rows: 200,
    most_bytes: 500_000,
    rest: REST,
};
const OBJECTS: Table<3> = Table {
    name: "objects",
    rows: None,
    columns: [text("Object"), number("Step"), wide("Why")],
    head: 0,
    most_rows: 200,
    most_bytes: 300_000,
    rest: REST,
};
const EDITS: Table<4> = Table {
    name: "edits",
    rows: Some("workloads"),
    columns: [text("Workload"), choice("Step"), wide("Fields"), wide("How")],
    head: 0,
    most_rows: 2_000,
    most_bytes: 2_200_000,
    rest: REST,
};
const CALENDAR: Table<5> = Table {
    name: "calendar",
    rows: None,
    columns: [text("Date"), text("When"), wide("What"), text("Concerns"), wide("Binds")],
    head: 0,
    most_rows: 200,
    most_bytes: 300_000,
    rest: REST,
};
const TABLES: Table<4> = Table {
    name: "tables",
    rows: None,
    columns: [text("Table"), text("From"), text("Checked"), number("Rows")],
    head: 0,
    most_rows: 100,
    most_bytes: 50_000,
    rest: REST,
};

/// Rules of style for the tables on a narrow page.
pub(super) fn labels() -> String {
    [
        unread_table(REST).labels(),
        POOLS.labels(),
        CONSTRAINTS.labels(),
        GATE.labels(),
        BUDGETS.labels(),
        WORK_LIST.labels(),
        CHANGES.labels(),
        OBJECTS.labels(),
        EDITS.labels(),
        unknown_table(REST).labels(),
        CALENDAR.labels(),
        TABLES.labels(),
    ]
    .concat()
}

/// Where the report is from.
fn origin_facts(report: &PlanReport) -> [(&'static str, String); 4] {
    let header = &report.header;
    [
        ("Objects", origin(header)),
        ("Move", move_text(&report.target)),
        ("Target", pools_text(&report.target)),
        ("Dates", format!("counted from {}, compared with their sources on {}", header.today, header.dates_as_of)),
    ]
}

/// All sections that have something to report.
pub(super) fn all(report: &PlanReport) -> Vec<Section> {
    let optional = [
        constraints(report),
        gate_section(report),
        steps(report),
        work_list(report),
        changes(report),
        edits(report),
        unknown(&report.unknown, REST),
        calendar(report),
        tables(report),
    ];
    let mut sections = vec![coverage(&report.coverage, &origin_facts(report), REST), pools(report)];
    sections.extend(optional.into_iter().flatten());
    sections.insert(0, answer(report, &sections));
    sections
}

/// The answer, and tiles that lead to the lists in `sections`.
fn answer(report: &PlanReport, sections: &[Section]) -> Section {
    let mut body = String::new();
    if report.summary.is_empty() {
        body.push_str("<p>The plan found nothing that moves.</p>\n");
    } else {
        body.push_str("<ul class=\"summary\">\n");
        for sentence in report.summary.iter().take(10) {
            push(&mut body, format_args!("<li>{}</li>\n", prose(cut(sentence))));
        }
        body.push_str("</ul>\n");
    }
    let verdict_tile = |(verdict, count): (Verdict, usize)| {
        let (label, class) = match verdict {
            Verdict::RunsAsIs => ("Run as is", ""),
            Verdict::AnotherTag => ("Another tag", "warn"),
            Verdict::Rebuild => ("Rebuild", "bad"),
            Verdict::Unknown => ("Unknown", "warn"),
        };
        let class = if count == 0 { "" } else { class };
        Tile { label, count: count_text(count, &report.coverage, Statement::Moves), class, list: "worklist" }
    };
    let mut all: Vec<Tile<'_>> = verdicts(report).iter().map(verdict_tile).collect();
    let not_met = report.constraints.iter().filter(|constraint| constraint.state == ConstraintState::NotMet).count();
    all.push(Tile {
        label: if not_met == 1 { "Constraint not met" } else { "Constraints not met" },
        count: thousands(not_met),
        class: if not_met == 0 { "" } else { "bad" },
        list: "constraints",
    });
    body.push_str(&tiles(&all, sections));
    let picture = picture(report);
    if !picture.is_empty() {
        push(
            &mut body,
            format_args!(
                "<figure><div class=\"picture\" tabindex=\"0\" role=\"region\" aria-label=\"Picture of the steps\">{picture}</div>\n\
                 <figcaption class=\"soft small\">A bar is as long as the number of workloads of its step.</figcaption></figure>\n"
            ),
        );
    }
    Section::new("summary", "Answer", None, body)
}

fn pools(report: &PlanReport) -> Section {
    if report.pools.is_empty() {
        return Section::new("pools", "Windows pools", Some(0), "<p>The plan read no Windows nodes.</p>\n".to_owned());
    }
    let lines =
        |lines: &[String]| lines.iter().take(LINES).map(|line| breakable(cut(line))).collect::<Vec<_>>().join("<br>");
    let rows = report.pools.iter().map(|pool| {
        [
            Cell::text(cut(&pool.name)),
            Cell::text(part_text(pool.part)),
            Cell::html(format!(
                "{}<br><span class=\"soft\">{}</span>",
                escape(cut(&pool.release)),
                escape(cut(&pool.build))
            )),
            Cell::number(pool.nodes),
            pods_cell(pool.workloads),
            Cell::html(lines(&pool.kubelets)),
            Cell::html(lines(&pool.runtimes)),
        ]
    });
    Section::new("pools", "Windows pools", Some(report.pools.len()), POOLS.render(rows))
}

fn state_tag(state: ConstraintState) -> String {
    let class = match state {
        ConstraintState::NotMet => "tag bad",
        ConstraintState::MetByStep => "tag warn",
        ConstraintState::Notice => "tag",
        ConstraintState::Met => "tag good",
    };
    format!("<span class=\"{class}\">{}</span>", upper_first(state_text(state)))
}

fn verdict_tag(verdict: Verdict) -> String {
    let class = match verdict {
        Verdict::RunsAsIs => "tag good",
        Verdict::AnotherTag => "tag warn",
        Verdict::Rebuild => "tag bad",
        Verdict::Unknown => "tag",
    };
    format!("<span class=\"{class}\">{}</span>", upper_first(verdict_text(verdict)))
}

fn constraints(report: &PlanReport) -> Option<Section> {
    if report.constraints.is_empty() {
        return None;
    }
    let row = |(at, constraint): (usize, &Constraint)| {
        [
            Cell::html(state_tag(constraint.state)).sorted_by(&at),
            Cell::html(prose(cut(&constraint.what)) + &source_line(cut(&constraint.source), constraint.as_of)),
            Cell::html(prose(cut(&constraint.action))),
        ]
    };
    let sorted = by_state(&report.constraints);
    let body = CONSTRAINTS.render(sorted.into_iter().enumerate().map(row));
    Some(Section::new("constraints", "Constraints", Some(report.constraints.len()), body))
}

fn owner(workload: &PlannedWorkload) -> &str {
    workload.manager.as_ref().map(|manager| manager.name.as_str()).unwrap_or_default()
}

fn gate_section(report: &PlanReport) -> Option<Section> {
    let gate = gate(report);
    if gate.is_empty() {
        return None;
    }
    let rows = gate.iter().map(|workload| {
        [
            object_cell(&workload.object.kind, &full_name(&workload.object)),
            Cell::html(verdict_tag(workload.verdict)),
            workload.step.map(Cell::number).unwrap_or_default(),
            Cell::text(cut(owner(workload))),
        ]
    });
    let body = format!("<p>These workloads must run in the new pool before others move.</p>\n{}", GATE.render(rows));
    Some(Section::new("gate", "Gate", Some(gate.len()), body))
}

fn steps(report: &PlanReport) -> Option<Section> {
    if report.steps.is_empty() {
        return None;
    }
    let counts = verdicts_by_step(&report.workloads);
    let (mut limit, mut reasons) = (CommandLimit::new(STEP_COMMANDS), STEP_REASONS);
    let mut body = String::new();
    for (at, step) in report.steps.iter().enumerate().take(STEPS) {
        let counts = counts.get(&Some(step.number)).copied().unwrap_or_default();
        step_heading(&mut body, at + 1, step);
        step_reasons(&mut body, &step.why, &mut reasons);
        step_body(&mut body, step, counts, &mut limit);
    }
    if let Some(more @ 1..) = report.steps.len().checked_sub(STEPS) {
        push(
            &mut body,
            format_args!("<div class=\"callout\"><p>and {} more. {REST}</p></div>\n", counted_exact(more, "step")),
        );
    }
    let budgets = report.steps.iter().flat_map(|step| step.disruptions.iter().map(move |budget| (step.number, budget)));
    let mut budgets = budgets.peekable();
    if budgets.peek().is_some() {
        let rows = budgets.map(|(step, disruption)| {
            let allowed = disruption.allowed.and_then(|allowed| usize::try_from(allowed).ok());
            [
                object_cell(&disruption.budget.kind, &full_name(&disruption.budget)),
                Cell::number(step),
                object_cell(&disruption.workload.kind, &full_name(&disruption.workload)),
                allowed.map_or_else(|| Cell::text("unknown"), Cell::number),
                Cell::html(prose(cut(&disruption.what))),
            ]
        });
        push(&mut body, format_args!("<h3 id=\"budgets\">PodDisruptionBudgets</h3>\n{}", BUDGETS.render(rows)));
    }
    Some(Section::new("steps", "Steps", Some(report.steps.len()), body))
}

fn step_heading(out: &mut String, at: usize, step: &Step) {
    let title = breakable(&shorten(&step.title, 200));
    push(
        out,
        format_args!(
            "<h3 id=\"step-{at}\"><a class=\"anchor\" href=\"#step-{at}\">Step {}: {title}</a></h3>\n",
            step.number
        ),
    );
}

/// The sentences about a step. One that does not fit into the bytes that are left is not cut, because it may contain a command.
fn step_reasons(out: &mut String, why: &[String], bytes: &mut usize) {
    let lines = why.iter().take(LINES).map(|why| format!("<li>{}</li>\n", prose(cut(why))));
    let fitting = lines.take_while(|line| {
        let is_fitting = line.len() <= *bytes;
        *bytes = if is_fitting { *bytes - line.len() } else { 0 };
        is_fitting
    });
    let shown: Vec<String> = fitting.collect();
    if why.is_empty() {
        return;
    }
    push(out, format_args!("<ul>\n{}", shown.concat()));
    if shown.len() < why.len() {
        push(out, format_args!("<li>and {} more. {REST}</li>\n", thousands(why.len() - shown.len())));
    }
    out.push_str("</ul>\n");
}

fn step_body(out: &mut String, step: &Step, counts: VerdictCounts, limit: &mut CommandLimit) {
    let mut facts = Vec::new();
    if step.workloads > 0 {
        facts.push(("Workloads", counts.of(step.workloads)));
    }
    if let Some(capacity) = &step.capacity {
        facts.push(("Capacity", capacity_text(capacity, size)));
    }
    if let Some(bytes) = step.pull_bytes {
        facts.push(("Images to pull", format!("{} on each new node", exact_size(bytes))));
    }
    if !step.disruptions.is_empty() {
        facts.push((
            "Budgets",
            format!("{}, in the table below", counted(step.disruptions.len(), "PodDisruptionBudget")),
        ));
    }
    if !facts.is_empty() {
        out.push_str("<dl class=\"facts\">\n");
        for (label, text) in facts {
            push(out, format_args!("<dt>{label}</dt><dd>{}</dd>\n", escape(&text)));
        }
        out.push_str("</dl>\n");
    }
    out.push_str(&limit.render("Run", &step.commands));
    out.push_str(&limit.render("To go back, run", &step.back));
}

fn work_list(report: &PlanReport) -> Option<Section> {
    let all = &report.workloads;
    if all.is_empty() {
        return None;
    }
    // What somebody has to build, to change or to find out is first, so that a limit leaves out the others.
    let (work, rest): (Vec<_>, Vec<_>) = all.iter().partition(|workload| has_work(workload, report));
    let groups = by_owner(work).into_values().chain(by_owner(rest).into_values());
    let rows = groups
        .flatten()
        .map(|workload| (workload, work_step(workload, report)))
        .flat_map(|(workload, step)| workload.containers.iter().map(move |one| container_row(workload, step, one)));
    let body = format!(
        "<p>{}: {}.</p>\n{}",
        counted_exact(all.len(), "Windows workload"),
        work_text(report),
        WORK_LIST.render(rows)
    );
    Some(Section::new("worklist", "Work list", Some(all.len()), body))
}

fn step_cell(step: Option<usize>) -> Cell {
    Cell::text(&step.map_or_else(|| "none".to_owned(), |step| step.to_string()))
}

fn container_row(workload: &PlannedWorkload, step: Option<usize>, container: &PlannedContainer) -> [Cell; 8] {
    let by = container.injected_by.as_ref().map(|by| format!(", injected by {}", escape(cut(by)))).unwrap_or_default();
    let image = format!(
        "<b>{}</b>{by}<br>{}<br><span class=\"soft\">{}</span>",
        breakable(cut(&container.name)),
        code(cut(&container.image)),
        breakable(cut(&builds_text(container)))
    );
    let mut change = String::new();
    if let Some(proposal) = &container.proposal {
        let repository = if proposal.other_repository { ", in another repository" } else { "" };
        push(
            &mut change,
            format_args!(
                "<p>{}<br><span class=\"soft\">{}{repository}</span></p>",
                code(cut(&proposal.image)),
                upper_first(confidence_text(proposal.confidence))
            ),
        );
        if !proposal.product.is_empty() {
            push(&mut change, format_args!("<p>{}.</p>", prose(cut(&proposal.product))));
        }
    }
    if let Some(line) = &container.from_line {
        push(&mut change, format_args!("<p>{}</p>", code(cut(line))));
    }
    if let Some(bytes) = container.pull_bytes {
        push(&mut change, format_args!("<p>{} to pull</p>", size(bytes)));
    }
    let mut why = format!("<p>{}</p>", prose(cut(&container.because)));
    if !container.find_out.is_empty() {
        push(&mut why, format_args!("<p><b>Find out:</b> {}</p>", prose(cut(&container.find_out))));
    }
    for note in container.notes.iter().take(LINES) {
        push(&mut why, format_args!("<p>{}</p>", prose(cut(note))));
    }
    for risk in workload.risks.iter().take(LINES) {
        push(&mut why, format_args!("<p><b>Risk:</b> {} {}</p>", prose(cut(&risk.what)), code(cut(&risk.path))));
    }
    let pools = if workload.pools.is_empty() { String::new() } else { format!(" in {}", list(&workload.pools)) };
    let pods = format!("{}{pools}", pods_phrase(workload));
    let name = format!(
        "<span class=\"name\">{}</span><br><span class=\"soft\">{}, {}</span>",
        breakable(cut(&workload.object.name)),
        breakable(&shorten(&workload.object.kind, 60)),
        breakable(cut(&pods))
    );
    [
        Cell::text(cut(&workload.object.namespace)),
        Cell::html(name).sorted_by(&cut(&workload.object.name)),
        Cell::text(cut(owner(workload))),
        step_cell(step),
        Cell::html(image),
        Cell::html(verdict_tag(container.verdict)),
        Cell::html(change),
        Cell::html(why),
    ]
}

fn changes(report: &PlanReport) -> Option<Section> {
    if report.changes.is_empty() {
        return None;
    }
    let row = |change: &BehaviorChange| {
        let objects = first_objects(&change.workloads, change.all, change.workloads.len().min(LINES));
        let concerns = if is_of_all(change, report) {
            upper_first(&prose(cut(&concerned_text(change, report, 0))))
        } else {
            format!(
                "{}<br><span class=\"soft\">{}</span>",
                upper_first(&prose(cut(&concerned(change)))),
                breakable(cut(&objects))
            )
        };
        [
            Cell::html(prose(cut(&change.what)) + &source_line(cut(&change.source), change.as_of)),
            Cell::text(&upper_first(certainty(change))),
            Cell::text(cut(&change.moves)),
            Cell::html(prose(cut(&change.check))),
            Cell::html(concerns),
        ]
    };
    let body = format!(
        "<p>A source states a documented change for containers. A likely change follows from a source about the host.</p>\n{}",
        CHANGES.render(report.changes.iter().map(row))
    );
    Some(Section::new("changes", "What behaves differently", Some(report.changes.len()), body))
}

fn edits(report: &PlanReport) -> Option<Section> {
    let edited = edited(report);
    if edited.is_empty() && report.objects.is_empty() {
        return None;
    }
    let mut body = String::new();
    let printed = commands_of_steps(report);
    if !report.objects.is_empty() {
        let rows = report.objects.iter().map(|object| {
            let mut limit = CommandLimit::new(OBJECT_COMMANDS);
            let run = without_printed(std::slice::from_ref(&object.command), &printed);
            let back = without_printed(object.back.as_slice(), &printed);
            let commands = [limit.render("Run", &run), limit.render("To go back, run", &back)].concat();
            [
                object_cell(&object.object.kind, &full_name(&object.object)),
                Cell::number(object.step),
                Cell::html(format!("<p>{}</p>{commands}", prose(cut(&object.why)))),
            ]
        });
        push(&mut body, format_args!("<h3 id=\"objects\">Objects without pods</h3>\n{}", OBJECTS.render(rows)));
    }
    if !edited.is_empty() {
        let rows = edited.iter().map(|(workload, step)| {
            [
                object_cell(&workload.object.kind, &full_name(&workload.object)),
                step_cell(*step),
                Cell::html(workload.edits.iter().take(LINES).map(edit_html).collect::<String>()),
                Cell::html(how(workload, &printed)),
            ]
        });
        push(&mut body, format_args!("<h3 id=\"edited\">Workloads</h3>\n{}", EDITS.render(rows)));
    }
    Some(Section::new("edits", "Edits", Some(edited.len() + report.objects.len()), body))
}

fn edit_html(edit: &FieldEdit) -> String {
    let value =
        |value: Option<&Value>, none: &str| value.map_or_else(|| escape(none), |value| code(cut(&value.to_string())));
    let sure =
        edit.confidence.map(|sure| format!(" <span class=\"soft\">{}</span>", upper_first(confidence_text(sure))));
    format!(
        "<p>{}<br>{} &rarr; {}{}<br><span class=\"soft\">{}</span></p>",
        code(cut(&edit.path)),
        value(edit.before.as_ref(), "not set"),
        value(edit.after.as_ref(), "removed"),
        sure.unwrap_or_default(),
        prose(cut(&edit.why))
    )
}

/// How the edits of a workload are made.
fn how(workload: &PlannedWorkload, printed: &HashSet<&str>) -> String {
    let mut out = String::new();
    if let Some(manager) = manager_text(workload) {
        push(&mut out, format_args!("<p><b>Managed by</b> {}.</p>", prose(cut(&manager))));
    }
    if !workload.instead.is_empty() {
        push(&mut out, format_args!("<p>{}</p>", prose(cut(&workload.instead))));
    }
    let mut limit = CommandLimit::new(OBJECT_COMMANDS);
    if let Some(patch) = workload.patch.as_ref().filter(|_| workload.commands.is_empty()) {
        let patch = patch.to_string();
        if patch.len() <= OBJECT_COMMANDS {
            push(&mut out, format_args!("<p><b>Patch:</b></p><pre>{}</pre>", lines(&patch)));
        }
    }
    let left = |commands: &[PlanCommand]| without_printed(commands, printed);
    out.push_str(&limit.render("Before the new pool is created, run", &left(&workload.hold)));
    out.push_str(&limit.render("Run", &left(&workload.commands)));
    out.push_str(&limit.render("To go back, run", &left(&workload.back)));
    out
}

fn calendar(report: &PlanReport) -> Option<Section> {
    if report.calendar.is_empty() {
        return None;
    }
    let today = report.header.today;
    let row = |entry: &CalendarEntry| {
        let CalendarEntry { deadline, workloads, all } = entry;
        let class = if deadline.date < today { "bad-text" } else { "" };
        let objects: Vec<String> =
            workloads.iter().take(LINES).map(|object| breakable(cut(&object_text(object)))).collect();
        let more = all.max(&workloads.len()) - objects.len();
        let more = if more > 0 { format!("<br>and {} more", thousands(more)) } else { String::new() };
        [
            Cell::html(format!("<span class=\"day {class}\">{}</span>", deadline.date)),
            Cell::text(&distance(deadline, today)).sorted_by(&deadline.date),
            Cell::html(breakable(cut(&deadline.what)) + &source_line(cut(&deadline.source), deadline.as_of)),
            Cell::text(cut(&deadline.concerns)),
            Cell::html(if *all == 0 {
                String::new()
            } else {
                format!(
                    "{}<br><span class=\"soft\">{}{more}</span>",
                    counted_exact(*all, "workload"),
                    objects.join("<br>")
                )
            })
            .sorted_by(all),
        ]
    };
    let body = format!("<p>{}</p>\n{}", calendar_text(report), CALENDAR.render(report.calendar.iter().map(row)));
    Some(Section::new("calendar", "Calendar", Some(report.calendar.len()), body))
}

fn tables(report: &PlanReport) -> Option<Section> {
    if report.tables.is_empty() {
        return None;
    }
    let rows = report.tables.iter().map(|table| {
        [
            Cell::text(cut(&table.table)),
            Cell::text(cut(&table.from)),
            Cell::text(&table.checked.to_string()),
            Cell::number(table.rows),
        ]
    });
    let body = format!(
        "<p>The dates, images, rules and commands of this plan are from these tables.</p>\n{}",
        TABLES.render(rows)
    );
    Some(Section::new("tables", "Tables", Some(report.tables.len()), body))
}
