//! The document of a plan: the answer, what limits the move, the steps, what each workload needs, what comes later.

use std::collections::{HashMap, HashSet};

use mullion_engine::model::text::{counted, list_first, thousands, upper_first};
use mullion_plan::report::{
    BehaviorChange, CalendarEntry, ConstraintState, FieldEdit, ImageUse, InPlaceChange, InPlaceWorkload, PlanCommand,
    PlanReport, PlannedContainer, PlannedWorkload, Step, Verdict,
};
use mullion_survey::Statement;
use mullion_survey::report::ObjectRef;
use serde_json::Value;

use crate::report::document::{
    Block, Cell, CommandBlock, Document, Inline, Picture, ReportSection, Shown, Subsection, Table, TableBuilder, Text,
    Tile, Tone, code, name,
};
use crate::report::inventory_sections::{coverage, day, ends, object, objects, tile, unknown, without_nodes};
use crate::report::inventory_text::{distance, known_from, pods_text};
use crate::report::plan::picture::picture;
use crate::report::plan::words::{
    VerdictCounts, builds_text, by_owner, by_state, calendar_text, capacity_text, certainty, command,
    commands_of_steps, concerned_text, confidence_text, confidence_word, counted_exact, edited, gate, has_work,
    is_of_all, manager_text, move_text, owner, owner_text, part_text, place_text, pools_text, state_text, verdict_text,
    verdicts, verdicts_by_step, work_step, work_text,
};

// The limits of bytes of all tables together are 8.6 MB; of all other texts 1.1 MB.

/// The document of the plan.
pub(super) fn document(report: &PlanReport) -> Document<'_> {
    let facts =
        vec![("Move", Text::plain(move_text(&report.target))), ("Target", Text::plain(pools_text(&report.target)))];
    let sections = [
        Some(answer(report)),
        Some(coverage(&report.coverage, &report.header, facts, "What the plan lacks")),
        Some(pools(report)),
        without_nodes(&report.pools_without_nodes, &report.unserved).map(|section| section.shown(Shown::Details)),
        constraints(report),
        gate_section(report),
        steps(report),
        in_place(report),
        in_place_steps(report),
        work_list(report),
        changes(report),
        edits(report),
        unknown(&report.unknown),
        calendar(report),
        tables(report),
    ];
    Document {
        title: format!("Plan to move {} to {}", report.header.cluster, report.target.release),
        command: "mullion plan",
        mullion: report.header.mullion.clone(),
        sections: sections.into_iter().flatten().collect(),
        footer: format!(
            "Written by Mullion {}. `mullion plan -o json` writes the whole plan for programs, and `-o csv` all containers for a spreadsheet.",
            report.header.mullion
        ),
        all: "--details",
        is_cut: true,
    }
}

fn answer(report: &PlanReport) -> ReportSection<'_> {
    let verdict_tile = |(verdict, count): (Verdict, usize)| {
        let (label, tone) = match verdict {
            Verdict::RunsAsIs => ("Run as is", None),
            Verdict::AnotherTag => ("Another tag", Some(Tone::Warn)),
            Verdict::Rebuild => ("Rebuild", Some(Tone::Bad)),
            Verdict::Unknown => ("Unknown", Some(Tone::Warn)),
        };
        tile(label, count, tone, (&report.coverage, Statement::Moves), "worklist")
    };
    let mut tiles: Vec<_> = verdicts(report).iter().map(verdict_tile).collect();
    let not_met = report.constraints.iter().filter(|constraint| constraint.state == ConstraintState::NotMet).count();
    tiles.push(Tile {
        label: if not_met == 1 { "Constraint not met" } else { "Constraints not met" },
        count: thousands(not_met),
        tone: (not_met > 0).then_some(Tone::Bad),
        list: "constraints",
    });
    let mut blocks = vec![Block::summary(&report.summary, "The plan found nothing that moves."), Block::Tiles(tiles)];
    blocks.extend(picture(report).map(|svg| {
        let caption = "A bar is as long as the number of workloads of its step.".into();
        Block::Picture(Picture { svg, label: "Picture of the steps", caption })
    }));
    ReportSection::new("summary", "Answer", blocks)
}

fn pools(report: &PlanReport) -> ReportSection<'_> {
    let table = TableBuilder::new("pools", "pool", &report.pools)
        .text("Pool", |pool| name(&pool.name))
        .choice("Part", |pool| part_text(pool.part))
        .text("Release", |pool| Cell::from(Text::plain(&pool.release)).soft(Text::plain(&pool.build)))
        .number("Nodes", |pool| pool.nodes)
        .number("Windows workloads", |pool| pods_text(pool.workloads))
        .text("Kubelet", |pool| Text::list(pool.kubelets.iter().map(name)))
        .text("Runtime", |pool| Text::list(pool.runtimes.iter().map(name)))
        .filtered()
        .at_most(500, 300_000);
    let block = match report.pools.len() {
        0 => Block::paragraph("The plan read no Windows nodes."),
        _ => Block::Table(table.build()),
    };
    ReportSection::new("pools", "Windows pools", vec![block]).counted(report.pools.len(), "")
}

fn state_tag(state: ConstraintState) -> Inline {
    let tone = match state {
        ConstraintState::NotMet => Tone::Bad,
        ConstraintState::MetByStep => Tone::Warn,
        ConstraintState::Notice => Tone::Note,
        ConstraintState::Met => Tone::Good,
    };
    Inline::Tag(tone, upper_first(state_text(state)))
}

fn verdict_tag(verdict: Verdict) -> Inline {
    let tone = match verdict {
        Verdict::RunsAsIs => Tone::Good,
        Verdict::AnotherTag => Tone::Warn,
        Verdict::Rebuild => Tone::Bad,
        Verdict::Unknown => Tone::Note,
    };
    Inline::Tag(tone, upper_first(verdict_text(verdict)))
}

fn constraints(report: &PlanReport) -> Option<ReportSection<'_>> {
    let rows = by_state(&report.constraints).into_iter().enumerate();
    let table = TableBuilder::new("constraints", "constraint", rows)
        .text("State", |(at, constraint)| Cell::from(state_tag(constraint.state)).sorted_by(&at))
        .prose("What holds", |(_, one)| Cell::from(&one.what).source(&one.source, one.as_of))
        .wide("What to do", |(_, constraint)| &constraint.action)
        .rest("The most urgent are first. `mullion plan -o json` writes all of them.")
        .build();
    let count = report.constraints.len();
    (count > 0).then(|| ReportSection::new("constraints", "Constraints", vec![Block::Table(table)]).counted(count, ""))
}

fn gate_section(report: &PlanReport) -> Option<ReportSection<'_>> {
    let gate = gate(report);
    let count = gate.len();
    let table = TableBuilder::new("gate", "workload", gate)
        .text("Workload", |workload| object(&workload.object))
        .text("Verdict", |workload| verdict_tag(workload.verdict))
        .number("Step", |workload| workload.step.map_or_else(Text::default, Text::from))
        .text("Owner", |workload| Text::plain(owner(workload)))
        .at_most(500, 300_000)
        .build();
    let text = Block::paragraph("These workloads must run in the new pool before others move.");
    (count > 0).then(|| ReportSection::new("gate", "Gate", vec![text, Block::Table(table)]).counted(count, "workload"))
}

fn steps(report: &PlanReport) -> Option<ReportSection<'_>> {
    if report.steps.is_empty() {
        return None;
    }
    let counts = verdicts_by_step(&report.workloads);
    let part = |(at, step): (usize, &Step)| {
        let heading = format!("Step {}: {}", step.number, step.title);
        let counts = counts.get(&Some(step.number)).copied().unwrap_or_default();
        Subsection::new(Text::plain(heading), step_blocks(step, counts)).at(format!("step-{}", at + 1))
    };
    let parts = report.steps.iter().enumerate().map(part).collect();
    let mut blocks = vec![Block::Subsections("step", parts)];
    let budgets = report.steps.iter().flat_map(|step| step.disruptions.iter().map(move |budget| (step.number, budget)));
    if budgets.clone().next().is_some() {
        let table = TableBuilder::new("budgets", "budget", budgets)
            .text("Budget", |(_, disruption)| object(&disruption.budget))
            .number("Step", |(step, _)| step)
            .text("Workload", |(_, disruption)| object(&disruption.workload))
            .number("Evictions now", |(_, disruption)| {
                disruption.allowed.map_or_else(|| "unknown".to_owned(), |allowed| allowed.to_string())
            })
            .prose("What a drain does", |(_, disruption)| &disruption.what)
            .filtered()
            .at_most(500, 300_000);
        let budgets = Subsection::new("PodDisruptionBudgets", vec![Block::Table(table.build())]).at("budgets");
        blocks.push(Block::Subsections("part", vec![budgets]));
    }
    Some(ReportSection::new("steps", "Steps", blocks).counted(report.steps.len(), ""))
}

fn step_blocks<'r>(step: &Step, counts: VerdictCounts) -> Vec<Block<'r>> {
    let mut facts = Vec::new();
    if step.workloads > 0 {
        facts.push(("Workloads", counts.of(step.workloads).into()));
    }
    facts.extend(step.capacity.as_ref().map(|capacity| ("Capacity", capacity_text(capacity))));
    facts.extend(
        step.pull_bytes.map(|bytes| ("Images to pull", Text::from(Inline::Bytes(bytes)).and(" on each new node"))),
    );
    if !step.disruptions.is_empty() {
        let count = counted(step.disruptions.len(), "PodDisruptionBudget");
        facts.push(("Budgets", format!("{count}, in the table below").into()));
    }
    let mut blocks = Vec::new();
    if !step.why.is_empty() {
        blocks.push(Block::Bullets(step.why.iter().map(Text::from).collect()));
    }
    if !facts.is_empty() {
        blocks.push(Block::Facts(facts));
    }
    let run = step.commands.iter().map(|one| command("Run", one));
    blocks.push(Block::Commands(run.chain(step.back.iter().map(|one| command("To go back, run", one))).collect()));
    blocks
}

/// The most pools that a line names.
const MAX_POOLS: usize = 20;

/// The other way of the move.
fn in_place(report: &PlanReport) -> Option<ReportSection<'_>> {
    let change = report.in_place.as_ref()?;
    let by_default = if change.preview {
        "This way is in preview, so the steps above are the default, also of scripts. The section Steps in place has its commands; text and Markdown have that section with `--details`."
    } else {
        "The steps above are the default, also of scripts. The section Steps in place has the commands of this way; text and Markdown have that section with `--details`."
    };
    let facts = vec![
        ("Offer", Text::plain(&change.what)),
        ("Source", Text::plain(format!("{}, as of {}", change.source, change.as_of))),
        ("Pools", Text::plain(list_first(&change.pools, MAX_POOLS))),
    ];
    let gates = TableBuilder::new("inplacegates", "gate", &change.gates)
        .text("State", |gate| state_tag(gate.state))
        .prose("What was found", |gate| &gate.what)
        .wide("What to do before", |gate| &gate.action)
        .at_most(200, 100_000)
        .build();
    let blocks = vec![
        Block::paragraph(by_default),
        Block::Facts(facts),
        Block::Bullets(change.differs.iter().map(Text::from).collect()),
        Block::Table(gates),
    ];
    Some(ReportSection::new("inplace", "In place", blocks).counted(change.pools.len(), "pool"))
}

/// The commands of the other way. Text and Markdown have them with details only.
fn in_place_steps(report: &PlanReport) -> Option<ReportSection<'_>> {
    let change = report.in_place.as_ref()?;
    let step = |step: &Step| {
        let heading = format!("Change in place, step {}: {}", step.number, step.title);
        Subsection::new(Text::plain(heading), step_blocks(step, VerdictCounts::default()))
            .at(format!("inplacestep-{}", step.number))
    };
    let mut blocks = vec![Block::Subsections("step", change.steps.iter().map(step).collect())];
    if !change.workloads.is_empty() {
        blocks.push(Block::Subsections("part", vec![in_place_workloads(change)]));
    }
    let section = ReportSection::new("inplacesteps", "Steps in place", blocks);
    Some(section.counted(change.steps.len(), "").shown(Shown::Details))
}

/// What must change of workloads before their pool does.
fn in_place_workloads(change: &InPlaceChange) -> Subsection<'_> {
    let all = change.steps.iter().flat_map(|step| step.commands.iter().chain(&step.back));
    let printed: HashSet<&str> = all.map(|command| command.run.as_str()).collect();
    let how = move |workload: &InPlaceWorkload| {
        Cell::from(&workload.instead).commands(commands("Run", &workload.commands, &printed)).commands(commands(
            "To go back, run",
            &workload.back,
            &printed,
        ))
    };
    let table = TableBuilder::new("inplaceworkloads", "workload", &change.workloads)
        .text("Workload", |workload| object(&workload.object))
        .choice("Images", |workload| verdict_tag(workload.verdict))
        .prose("Fields", |workload| workload.edits.iter().fold(Cell::default(), edit_lines))
        .in_details()
        .wide("How", how)
        .filtered()
        .with_commands()
        .at_most(500, 300_000);
    Subsection::new("Workloads to change before", vec![Block::Table(table.build())]).at("inplaceworkloads-part")
}

fn work_list(report: &PlanReport) -> Option<ReportSection<'_>> {
    let all = &report.workloads;
    if all.is_empty() {
        return None;
    }
    // What somebody has to build, to change or to find out is first, so that a limit leaves out the others.
    let (work, rest): (Vec<_>, Vec<_>) = all.iter().partition(|workload| has_work(workload, report));
    let sorted = by_owner(work).into_values().chain(by_owner(rest).into_values()).flatten();
    let text = Block::paragraph(format!("{}.", upper_first(&work_text(report))));
    let table = Block::Table(container_table(report, sorted));
    Some(ReportSection::new("worklist", "Work list", vec![text, table]).counted(all.len(), "Windows workload"))
}

fn step_cell(step: Option<usize>) -> String {
    step.map_or_else(|| "none".to_owned(), |step| step.to_string())
}

/// The containers and image volumes of the workloads, which are also those of CSV. There, several values of a cell are separated
/// by spaces; what is not known is empty.
pub(super) fn container_table<'r>(
    report: &'r PlanReport,
    workloads: impl Iterator<Item = &'r PlannedWorkload>,
) -> Table<'r> {
    let rows = workloads.flat_map(|workload| workload.images().map(move |(of, one)| (workload, of, one)));
    let named =
        |of: ImageUse, wanted, one: &PlannedContainer| if of == wanted { one.name.clone() } else { String::new() };
    let deadline = |workload: &'r PlannedWorkload| workload.deadline.as_ref();
    let before = report.in_place.iter().flat_map(|change| &change.workloads);
    let before: HashMap<&ObjectRef, &InPlaceWorkload> = before.map(|one| (&one.object, one)).collect();
    let proposal = |one: &'r PlannedContainer| one.proposal.as_ref();
    TableBuilder::new("worklist", "image", rows)
        .choice("Namespace", |(workload, ..)| Text::plain(&workload.object.namespace))
        .in_group()
        .csv("namespace", |(workload, ..)| workload.object.namespace.clone())
        .text("Workload", |(workload, ..)| {
            Cell::from(object(&workload.object)).soft(place_text(workload, report)).sorted_by(&workload.object.name)
        })
        .head()
        .csv("kind", |(workload, ..)| workload.object.kind.clone())
        .csv("name", |(workload, ..)| workload.object.name.clone())
        .choice("Owner", |(workload, ..)| Text::plain(owner(workload)))
        .in_group()
        .choice("Step", |(workload, ..)| step_cell(work_step(workload, report)))
        .csv("step", |(workload, ..)| workload.step.map(|step| step.to_string()).unwrap_or_default())
        .csv("workloadVerdict", |(workload, ..)| workload.verdict.name().to_owned())
        .csv("pods", |(workload, ..)| workload.pods.map(|pods| pods.to_string()).unwrap_or_default())
        .csv("pools", |(workload, ..)| workload.pools.join(" "))
        .csv("managedBy", |(workload, ..)| owner(workload).to_owned())
        .csv("risks", |(workload, ..)| {
            workload.risks.iter().map(|risk| risk.name.as_str()).collect::<Vec<_>>().join(" ")
        })
        .prose("Container, image", |(_, of, one)| image_cell(of, one))
        .csv("container", move |(_, of, one)| named(of, ImageUse::Container, one))
        .csv("injectedBy", |(.., one)| one.injected_by.clone().unwrap_or_default())
        .csv("image", |(.., one)| one.image.clone())
        .csv("builds", |(.., one)| one.builds.join(" "))
        .csv("buildsKnownFrom", |(.., one)| known_from(one.known_from).to_owned())
        .choice("Verdict", |(.., one)| verdict_tag(one.verdict))
        .csv("verdict", |(.., one)| one.verdict.name().to_owned())
        .csv("because", |(.., one)| one.because.clone())
        .wide("Use or build", |(.., one)| proposal_cell(one))
        .csv("proposedImage", move |(.., one)| proposal(one).map(|proposal| proposal.image.clone()).unwrap_or_default())
        .csv("confidence", move |(.., one)| {
            proposal(one).map(|proposal| confidence_word(proposal.confidence)).unwrap_or_default().to_owned()
        })
        .csv("productChange", move |(.., one)| {
            proposal(one).map(|proposal| proposal.product.clone()).unwrap_or_default()
        })
        .csv("otherRepository", move |(.., one)| {
            proposal(one).map(|proposal| proposal.other_repository.to_string()).unwrap_or_default()
        })
        .csv("fromLine", |(.., one)| one.from_line.clone().unwrap_or_default())
        .wide("Why", |(workload, _, one)| why_cell(workload, one))
        .csv("notes", |(.., one)| one.notes.join(" "))
        .csv("findOut", |(.., one)| one.find_out.clone())
        .csv("pullBytes", |(.., one)| one.pull_bytes.map(|bytes| bytes.to_string()).unwrap_or_default())
        .csv("date", move |(workload, ..)| deadline(workload).map(|one| one.date.to_string()).unwrap_or_default())
        .csv("dateWhat", move |(workload, ..)| deadline(workload).map(|one| one.what.clone()).unwrap_or_default())
        .csv("dateSource", move |(workload, ..)| deadline(workload).map(|one| one.source.clone()).unwrap_or_default())
        .csv("dateAsOf", move |(workload, ..)| deadline(workload).map(|one| one.as_of.to_string()).unwrap_or_default())
        .csv("beforeInPlace", move |(workload, ..)| {
            before.get(&workload.object).copied().map(before_in_place).unwrap_or_default()
        })
        .csv("volume", move |(_, of, one)| named(of, ImageUse::Volume, one))
        .grouped(false, |(workload, ..)| Text::plain(owner_text(workload)))
        .details(|(workload, ..)| !has_work(workload, report))
        .filtered()
        .at_most(5_000, 3_200_000)
        .rest("`mullion plan -o csv` writes all of them.")
        .build()
}

/// What must change before the pool of a workload changes in place: `images`, `placement`.
fn before_in_place(workload: &InPlaceWorkload) -> String {
    let images = (workload.verdict != Verdict::RunsAsIs).then_some("images");
    let placement = (!workload.edits.is_empty() || !workload.instead.is_empty()).then_some("placement");
    images.into_iter().chain(placement).collect::<Vec<_>>().join(" ")
}

fn image_cell(of: ImageUse, planned: &PlannedContainer) -> Cell {
    let by = planned.injected_by.as_ref().map(|by| format!(", injected by {by}")).unwrap_or_default();
    let label = match of {
        ImageUse::Container => "Container",
        ImageUse::Volume => "Volume",
    };
    let cell = Cell::default().labeled(label, Text::from(name(&planned.name)).and(Text::plain(by)));
    cell.labeled("Image", code(&planned.image)).soft(builds_text(planned))
}

fn proposal_cell(container: &PlannedContainer) -> Cell {
    let mut cell = Cell::default();
    if let Some(proposal) = &container.proposal {
        let repository = if proposal.other_repository { ", in another repository" } else { "" };
        cell = cell.line(code(&proposal.image)).soft(format!("{}{repository}", confidence_text(proposal.confidence)));
        if !proposal.product.is_empty() {
            cell = cell.labeled("Product", format!("{}.", proposal.product));
        }
    }
    cell = cell.labeled("Build", code(container.from_line.clone().unwrap_or_default()));
    match container.pull_bytes {
        Some(bytes) => cell.labeled("To pull", Inline::Bytes(bytes)),
        None => cell,
    }
}

fn why_cell(workload: &PlannedWorkload, container: &PlannedContainer) -> Cell {
    let cell = Cell::from(&container.because).labeled("Find out", &container.find_out);
    let cell = container.notes.iter().fold(cell, |cell, note| cell.labeled("Note", note));
    let risks = workload.risks.iter().map(|risk| {
        Text::from(&risk.what).and(Text::plain(format!(" ({}: ", risk.name))).and(name(&risk.path)).and(")")
    });
    let cell = risks.fold(cell, |cell, risk| cell.labeled_detail("Risk", risk));
    match &workload.deadline {
        Some(deadline) => cell.labeled_detail("Until", format!("{}: {}", deadline.date, deadline.what)),
        None => cell,
    }
}

fn changes(report: &PlanReport) -> Option<ReportSection<'_>> {
    let concerned = |change: &BehaviorChange| {
        let cell = Cell::from(upper_first(&concerned_text(change, report)));
        if is_of_all(change, report) { cell } else { cell.soft(objects(&change.workloads, change.all)) }
    };
    let table = TableBuilder::new("changes", "change", &report.changes)
        .wide("What", |change| {
            Cell::from(&change.what).source(&change.source, change.as_of).soft_detail("Name", Text::plain(&change.name))
        })
        .choice("Sure", |change| upper_first(certainty(change)))
        .choice("When", |change| Text::plain(&change.moves))
        .wide("What to check", |change| &change.check)
        .wide("Concerns", concerned)
        .filtered()
        .at_most(200, 500_000)
        .build();
    let count = report.changes.len();
    let text =
        "A source states a documented change for containers. A likely change follows from a source about the host.";
    let blocks = vec![Block::paragraph(text), Block::Table(table)];
    (count > 0).then(|| ReportSection::new("changes", "What behaves differently", blocks).counted(count, ""))
}

fn edits(report: &PlanReport) -> Option<ReportSection<'_>> {
    let edited = edited(report);
    let count = edited.len() + report.objects.len();
    let mut parts = Vec::new();
    if !report.objects.is_empty() {
        let printed = commands_of_steps(report);
        let table = TableBuilder::new("objects", "object", &report.objects)
            .text("Object", |one| object(&one.object))
            .number("Step", |one| one.step)
            .prose("Why", move |one| {
                let back = commands("To go back, run", one.back.as_slice(), &printed);
                let run = commands("Run", std::slice::from_ref(&one.command), &printed);
                Cell::from(&one.why).commands(run.chain(back))
            })
            .with_commands();
        parts.push(Subsection::new("Objects without pods", vec![Block::Table(table.build())]).at("objects"));
    }
    if !edited.is_empty() {
        let printed = commands_of_steps(report);
        let table = TableBuilder::new("edits", "workload", edited)
            .text("Workload", |(workload, _)| object(&workload.object))
            .choice("Step", |(_, step)| step_cell(step))
            .prose("Fields", |(workload, _)| workload.edits.iter().fold(Cell::default(), edit_lines))
            .wide("How", move |(workload, _)| how(workload, &printed))
            .filtered()
            .with_commands()
            .at_most(2_000, 2_200_000);
        parts.push(Subsection::new("Workloads", vec![Block::Table(table.build())]).at("edited"));
    }
    let blocks = vec![Block::Subsections("part", parts)];
    (count > 0).then(|| ReportSection::new("edits", "Edits", blocks).counted(count, "object"))
}

/// Those of the commands that no step prints.
fn commands<'c>(
    label: &'static str,
    commands: &'c [PlanCommand],
    printed: &'c HashSet<&str>,
) -> impl Iterator<Item = CommandBlock> {
    commands.iter().filter(|one| !printed.contains(one.run.as_str())).map(move |one| command(label, one))
}

fn edit_lines(cell: Cell, edit: &FieldEdit) -> Cell {
    let value = |value: Option<&Value>, none: &str| {
        value.map_or_else(|| Text::plain(none), |value| code(value.to_string()).into())
    };
    let (before, after) = (value(edit.before.as_ref(), "not set"), value(edit.after.as_ref(), "removed"));
    let sure = edit.confidence.map(confidence_text).unwrap_or_default();
    cell.line(Text::from(code(&edit.path)).and(": ").and(before).and(" → ").and(after)).soft(sure).soft(&edit.why)
}

/// How the edits of a workload are made.
fn how(workload: &PlannedWorkload, printed: &HashSet<&str>) -> Cell {
    let patch = workload.patch.as_ref().filter(|_| workload.commands.is_empty());
    let patch =
        patch.map(|patch| CommandBlock { label: "Patch", run: patch.to_string(), note: String::new(), source: None });
    Cell::default()
        .labeled("Managed by", manager_text(workload).unwrap_or_default())
        .line(&workload.instead)
        .commands(patch)
        .commands(commands("Before the new pool is created, run", &workload.hold, printed))
        .commands(commands("Run", &workload.commands, printed))
        .commands(commands("To go back, run", &workload.back, printed))
}

fn calendar(report: &PlanReport) -> Option<ReportSection<'_>> {
    let header = &report.header;
    let binds = |entry: &CalendarEntry| match entry.all {
        0 => Cell::default().sorted_by(&0),
        all => {
            let count = counted_exact(all, "workload");
            Cell::from(count).soft(objects(&entry.workloads, all)).sorted_by(&all)
        }
    };
    let table = TableBuilder::new("calendar", "date", &report.calendar)
        .text("Date", |entry| day(&entry.deadline, header))
        .text("When", |entry| Cell::from(distance(&entry.deadline, header.today)).sorted_by(&entry.deadline.date))
        .prose("What", |entry| ends(&entry.deadline))
        .text("Concerns", |entry| Text::plain(&entry.deadline.concerns))
        .wide("Binds", binds)
        .build();
    let count = report.calendar.len();
    let blocks = vec![Block::paragraph(calendar_text(report)), Block::Table(table)];
    (count > 0).then(|| ReportSection::new("calendar", "Calendar", blocks).counted(count, ""))
}

fn tables(report: &PlanReport) -> Option<ReportSection<'_>> {
    let table = TableBuilder::new("tables", "table", &report.tables)
        .text("Table", |table| Text::plain(&table.table))
        .text("From", |table| Text::plain(&table.from))
        .text("Checked", |table| table.checked.to_string())
        .number("Rows", |table| table.rows)
        .at_most(100, 50_000)
        .build();
    let text = "The dates, images, rules and commands of this plan are from these tables.";
    let count = report.tables.len();
    let blocks = vec![Block::paragraph(text), Block::Table(table)];
    (count > 0).then(|| ReportSection::new("tables", "Tables", blocks).counted(count, ""))
}
