//! The plan for a terminal: the answer, where it is from, the steps, then what changes. Commands are at the beginning of their
//! lines, in lines of any length, so that they can be copied.

use std::collections::HashSet;
use std::io;
use std::io::Write;

use anstyle::{AnsiColor, Style};
use mullion_engine::model::foreign_text::visible;
use mullion_engine::model::text::{counted, list, shorten, thousands};
use mullion_plan::report::{
    CalendarEntry, Constraint, ConstraintState, Disruption, FieldEdit, ObjectChange, PlanCommand, PlanReport,
    PlannedContainer, PlannedWorkload, Step, TableVersion, Verdict,
};

use crate::report::inventory_text::{distance, first_objects, object_text, origin, pods_text};
use crate::report::plan::options::PlanOptions;
use crate::report::plan::words::{
    VerdictCounts, builds_text, by_owner, by_state, calendar_text, capacity_text, certainty, command_source,
    commands_of_steps, concerned_text, confidence_text, counted_exact, edited, exact_size, first_blocks, gate,
    has_work, manager_text, move_text, owner_text, part_text, pods_phrase, pools_text, size, state_text, step_text,
    value_text, verdict_text, verdicts_by_step, without_printed, work_step, work_text, work_verdict,
};
use crate::report::table;
use crate::report::text_page::{CELL, ROWS, SHOWN, TextPage};

/// Steps that are shown without details: a plan has at most eleven.
const STEPS: usize = 12;
/// Commands of a step that are shown without details, so that a plan for a few pools is complete.
const COMMANDS: usize = 12;

/// Writes the plan.
pub(super) fn write(report: &PlanReport, options: &PlanOptions, out: &mut dyn Write) -> io::Result<()> {
    let text = TextPage { out, width: options.width.clamp(80, 120), colour: options.colour, details: options.details };
    let mut page = Page { text };
    page.title(report)?;
    page.answer(report)?;
    page.text.coverage(&report.coverage)?;
    page.origin(report)?;
    page.pools(report)?;
    page.constraints(&report.constraints)?;
    page.gate(report)?;
    page.steps(report)?;
    page.work_list(report)?;
    page.changes(report)?;
    page.edits(report)?;
    page.text.unknown(&report.unknown)?;
    page.calendar(report)?;
    page.tables(&report.tables)?;
    if !page.text.details {
        page.text.out.write_all(b"\nPrint everything with --details.\n")?;
    }
    Ok(())
}

/// The sections of a plan.
struct Page<'o> {
    text: TextPage<'o>,
}

impl Page<'_> {
    fn title(&mut self, report: &PlanReport) -> io::Result<()> {
        let title = format!("Plan to move {} to {}", report.header.cluster, report.target.release);
        self.text.styled_paragraph(Style::new().bold(), "", &title)
    }

    fn origin(&mut self, report: &PlanReport) -> io::Result<()> {
        let (header, target) = (&report.header, &report.target);
        self.text.paragraph("  objects   ", &origin(header))?;
        self.text.paragraph("  move      ", &move_text(target))?;
        self.text.paragraph("  target    ", &pools_text(target))?;
        let dates = format!("counted from {}, compared with their sources on {}", header.today, header.dates_as_of);
        self.text.paragraph("  dates     ", &dates)?;
        self.text.paragraph("  written   ", &format!("by Mullion {}", header.mullion))
    }

    fn answer(&mut self, report: &PlanReport) -> io::Result<()> {
        self.text.heading("Answer")?;
        if report.summary.is_empty() {
            return self.text.paragraph("  - ", "The plan found nothing that moves.");
        }
        report.summary.iter().try_for_each(|sentence| self.text.paragraph("  - ", sentence))
    }

    fn pools(&mut self, report: &PlanReport) -> io::Result<()> {
        let pools = &report.pools;
        self.text.heading(&format!("Windows pools: {}", thousands(pools.len())))?;
        if pools.is_empty() {
            return self.text.paragraph("  ", "The plan read no Windows nodes.");
        }
        let rows = pools.iter().take(self.text.shown(pools.len())).map(|pool| {
            [
                format!("  {}", shorten(&pool.name, CELL)),
                part_text(pool.part).to_owned(),
                shorten(&format!("{} ({})", pool.release, pool.build), CELL),
                thousands(pool.nodes),
                pods_text(pool.workloads),
                shorten(&list(pool.kubelets.iter().chain(&pool.runtimes)), 2 * CELL),
            ]
        });
        table::write(self.text.out, Some(["  POOL", "PART", "RELEASE", "NODES", "WORKLOADS", "VERSIONS"]), rows)?;
        self.text.more(pools.len(), "pool")
    }

    fn constraints(&mut self, constraints: &[Constraint]) -> io::Result<()> {
        if constraints.is_empty() {
            return Ok(());
        }
        self.text.heading(&format!("Constraints: {}", thousands(constraints.len())))?;
        for constraint in by_state(constraints).into_iter().take(self.text.shown(constraints.len())) {
            let colour = match constraint.state {
                ConstraintState::NotMet => AnsiColor::Red,
                ConstraintState::MetByStep => AnsiColor::Yellow,
                ConstraintState::Notice => AnsiColor::Cyan,
                ConstraintState::Met => AnsiColor::Green,
            };
            let state = self.text.styled(colour.on_default().bold(), state_text(constraint.state));
            writeln!(self.text.out, "  {state}")?;
            self.text.paragraph("    ", &constraint.what)?;
            self.text.paragraph("    source  ", &format!("{}, as of {}", constraint.source, constraint.as_of))?;
            if !constraint.action.is_empty() {
                self.text.paragraph("    do      ", &constraint.action)?;
            }
        }
        self.text.more(constraints.len(), "constraint")
    }

    fn gate(&mut self, report: &PlanReport) -> io::Result<()> {
        let gate = gate(report);
        if gate.is_empty() {
            return Ok(());
        }
        self.text.heading(&format!("Gate: {}", counted_exact(gate.len(), "workload")))?;
        self.text.paragraph("  ", "They must run in the new pool before other workloads move.")?;
        let rows = gate.iter().take(self.text.shown(gate.len())).map(|workload| {
            [
                format!("  {}", shorten(&object_text(&workload.object), 2 * CELL)),
                verdict_text(workload.verdict).to_owned(),
                step_text(workload.step),
            ]
        });
        table::write(self.text.out, Some(["  WORKLOAD", "VERDICT", "STEP"]), rows)?;
        self.text.more(gate.len(), "workload")
    }

    fn steps(&mut self, report: &PlanReport) -> io::Result<()> {
        if report.steps.is_empty() {
            return Ok(());
        }
        self.text.heading(&format!("Steps: {}", thousands(report.steps.len())))?;
        let counts = verdicts_by_step(&report.workloads);
        let most = if self.text.details { usize::MAX } else { STEPS };
        for step in report.steps.iter().take(most) {
            self.step(step, counts.get(&Some(step.number)).copied().unwrap_or_default())?;
        }
        match report.steps.len().saturating_sub(most) {
            0 => Ok(()),
            more => writeln!(self.text.out, "\n  and {}", counted_exact(more, "more step")),
        }
    }

    fn step(&mut self, step: &Step, counts: VerdictCounts) -> io::Result<()> {
        writeln!(self.text.out)?;
        let title = format!("Step {}: {}", step.number, step.title);
        self.text.styled_paragraph(Style::new().bold(), "  ", &title)?;
        step.why.iter().try_for_each(|why| self.text.paragraph("  - ", why))?;
        if step.workloads > 0 {
            self.text.paragraph("    workloads  ", &counts.of(step.workloads))?;
        }
        let size = if self.text.details { exact_size } else { size };
        if let Some(capacity) = &step.capacity {
            self.text.paragraph("    capacity   ", &capacity_text(capacity, size))?;
        }
        if let Some(bytes) = step.pull_bytes {
            self.text.paragraph("    pull       ", &format!("{} on each new node", size(bytes)))?;
        }
        let budgets = if self.text.details { step.disruptions.len() } else { SHOWN };
        step.disruptions.iter().take(budgets).try_for_each(|disruption| self.disruption(disruption))?;
        if let Some(more @ 1..) = step.disruptions.len().checked_sub(budgets) {
            writeln!(self.text.out, "    and {}", counted(more, "more budget"))?;
        }
        self.commands("Run", &step.commands)?;
        self.commands("To go back, run", &step.back)
    }

    fn disruption(&mut self, disruption: &Disruption) -> io::Result<()> {
        let (budget, workload) = (object_text(&disruption.budget), object_text(&disruption.workload));
        self.text.paragraph("    budget     ", &format!("{budget}, for {workload}. {}", disruption.what))
    }

    /// Commands with their notes; the first ones without details.
    fn commands(&mut self, label: &str, commands: &[PlanCommand]) -> io::Result<()> {
        let (blocks, shown) = first_blocks(commands, if self.text.details { commands.len() } else { COMMANDS });
        for command in &blocks {
            writeln!(self.text.out)?;
            let source = command_source(command).map(|source| format!(" (not run here; {source})")).unwrap_or_default();
            self.text.paragraph("  ", &format!("{label}{source}:"))?;
            if !command.note.is_empty() {
                self.text.paragraph("  ", &command.note)?;
            }
            writeln!(self.text.out)?;
            self.command(&command.run)?;
        }
        match commands.len() - shown {
            0 => Ok(()),
            more => writeln!(self.text.out, "\n  and {}", counted_exact(more, "more command")),
        }
    }

    /// The lines of a command as they are.
    fn command(&mut self, run: &str) -> io::Result<()> {
        run.split('\n').try_for_each(|line| writeln!(self.text.out, "{}", visible(line)))
    }

    fn work_list(&mut self, report: &PlanReport) -> io::Result<()> {
        let all = &report.workloads;
        if all.is_empty() {
            return Ok(());
        }
        self.text.heading(&format!("Work list: {}", counted_exact(all.len(), "Windows workload")))?;
        self.text.paragraph("  ", &format!("{}.", work_text(report)))?;
        // Without details, what somebody has to build, to change or to find out.
        let details = self.text.details;
        let work = all.iter().filter(|workload| details || has_work(workload, report));
        let most = if details { usize::MAX } else { ROWS };
        let mut shown = 0;
        for (owner, workloads) in by_owner(work) {
            if shown == most {
                break;
            }
            writeln!(self.text.out)?;
            self.text.styled_paragraph(Style::new().bold(), "  ", &owner_text(owner))?;
            for workload in workloads.into_iter().take(most - shown) {
                self.workload(workload, report)?;
                shown += 1;
            }
        }
        match all.len() - shown {
            0 => Ok(()),
            more if details => writeln!(self.text.out, "  and {}", counted_exact(more, "more workload")),
            more if shown == 0 => writeln!(self.text.out, "  --details lists {}.", counted_exact(more, "workload")),
            more => writeln!(self.text.out, "  --details lists {}.", counted_exact(more, "more workload")),
        }
    }

    fn workload(&mut self, workload: &PlannedWorkload, report: &PlanReport) -> io::Result<()> {
        let pools = if workload.pools.is_empty() { String::new() } else { format!(" in {}", list(&workload.pools)) };
        let text = format!(
            "{}: {}, {}, {}{pools}",
            object_text(&workload.object),
            work_verdict(workload, report),
            step_text(work_step(workload, report)),
            pods_phrase(workload)
        );
        self.text.paragraph("    ", &text)?;
        let details = self.text.details;
        let containers = workload.containers.iter();
        for container in containers.filter(|container| details || container.verdict != Verdict::RunsAsIs) {
            self.container(container)?;
        }
        if !details {
            return Ok(());
        }
        for risk in &workload.risks {
            self.text.paragraph("      risk      ", &format!("{} ({}: {})", risk.what, risk.name, risk.path))?;
        }
        if let Some(deadline) = &workload.deadline {
            self.text.paragraph("      until     ", &format!("{}: {}", deadline.date, deadline.what))?;
        }
        Ok(())
    }

    fn container(&mut self, container: &PlannedContainer) -> io::Result<()> {
        let by = container.injected_by.as_ref().map(|by| format!(", injected by {by}")).unwrap_or_default();
        let image = format!("{} ({})", container.image, builds_text(container));
        self.text.paragraph("      ", &format!("container {}{by}: {image}", container.name))?;
        self.text.paragraph("        because   ", &container.because)?;
        if let Some(proposal) = &container.proposal {
            let repository = if proposal.other_repository { ", in another repository" } else { "" };
            let confidence = confidence_text(proposal.confidence);
            self.text.paragraph("        use       ", &format!("{} ({confidence}{repository})", proposal.image))?;
            if !proposal.product.is_empty() {
                self.text.paragraph("        product   ", &format!("{}.", proposal.product))?;
            }
        }
        if let Some(line) = &container.from_line {
            // A line of a Dockerfile, to be copied.
            writeln!(self.text.out, "        build     {}", visible(line))?;
        }
        if !container.find_out.is_empty() {
            self.text.paragraph("        find out  ", &container.find_out)?;
        }
        if let Some(bytes) = container.pull_bytes {
            let size = if self.text.details { exact_size } else { size };
            self.text.paragraph("        pull      ", &size(bytes))?;
        }
        container.notes.iter().try_for_each(|note| self.text.paragraph("        note      ", note))
    }

    fn changes(&mut self, report: &PlanReport) -> io::Result<()> {
        let changes = &report.changes;
        if changes.is_empty() {
            return Ok(());
        }
        self.text.heading(&format!("What behaves differently: {}", thousands(changes.len())))?;
        for change in changes.iter().take(self.text.shown(changes.len())) {
            let text = format!("{} ({}; comes {})", change.what, certainty(change), change.moves);
            self.text.paragraph("  - ", &text)?;
            if self.text.details {
                let source = format!("{}, as of {} ({})", change.source, change.as_of, change.name);
                self.text.paragraph("    source   ", &source)?;
            }
            self.text.paragraph("    check    ", &change.check)?;
            let most = if self.text.details { change.workloads.len() } else { SHOWN };
            self.text.paragraph("    concerns ", &concerned_text(change, report, most))?;
        }
        self.text.more(changes.len(), "change")
    }

    fn edits(&mut self, report: &PlanReport) -> io::Result<()> {
        let edited = edited(report);
        let objects = &report.objects;
        if edited.is_empty() && objects.is_empty() {
            return Ok(());
        }
        self.text.heading(&format!("Edits: {}", counted_exact(edited.len() + objects.len(), "object")))?;
        let most = if self.text.details { usize::MAX } else { SHOWN };
        let printed = commands_of_steps(report);
        objects.iter().take(most).try_for_each(|object| self.object(object, &printed))?;
        for (workload, step) in edited.iter().take(most) {
            self.edited(workload, *step, &printed)?;
        }
        match objects.len().saturating_sub(most) + edited.len().saturating_sub(most) {
            0 => Ok(()),
            more => writeln!(self.text.out, "\n  and {}", counted_exact(more, "more object")),
        }
    }

    fn object(&mut self, object: &ObjectChange, printed: &HashSet<&str>) -> io::Result<()> {
        writeln!(self.text.out)?;
        self.text.paragraph("  ", &format!("{}, {}", object_text(&object.object), step_text(Some(object.step))))?;
        self.text.paragraph("    why       ", &object.why)?;
        self.commands("Run", &without_printed(std::slice::from_ref(&object.command), printed))?;
        self.commands("To go back, run", &without_printed(object.back.as_slice(), printed))
    }

    fn edited(&mut self, workload: &PlannedWorkload, step: Option<usize>, printed: &HashSet<&str>) -> io::Result<()> {
        writeln!(self.text.out)?;
        self.text.paragraph("  ", &format!("{}, {}", object_text(&workload.object), step_text(step)))?;
        workload.edits.iter().try_for_each(|edit| self.edit(edit))?;
        if let Some(manager) = manager_text(workload) {
            self.text.paragraph("    manager   ", &manager)?;
        }
        if !workload.instead.is_empty() {
            self.text.paragraph("    how       ", &workload.instead)?;
        }
        if let Some(patch) = workload.patch.as_ref().filter(|_| workload.commands.is_empty()) {
            self.text.paragraph("    patch", "")?;
            self.command(&patch.to_string())?;
        }
        let left = |commands: &[PlanCommand]| without_printed(commands, printed);
        self.commands("Before the new pool is created, run", &left(&workload.hold))?;
        self.commands("Run", &left(&workload.commands))?;
        self.commands("To go back, run", &left(&workload.back))
    }

    fn edit(&mut self, edit: &FieldEdit) -> io::Result<()> {
        self.text.paragraph("    ", &edit.path)?;
        self.text.paragraph("      before  ", &value_text(edit.before.as_ref()))?;
        let sure = edit.confidence.map(|sure| format!(" ({})", confidence_text(sure))).unwrap_or_default();
        let after = edit.after.as_ref().map_or_else(|| "removed".to_owned(), ToString::to_string);
        self.text.paragraph("      after   ", &format!("{after}{sure}"))?;
        self.text.paragraph("      why     ", &edit.why)
    }

    fn calendar(&mut self, report: &PlanReport) -> io::Result<()> {
        if report.calendar.is_empty() {
            return Ok(());
        }
        self.text.heading("Calendar")?;
        self.text.paragraph("  ", &calendar_text(report))?;
        for entry in report.calendar.iter().take(self.text.shown(report.calendar.len())) {
            let CalendarEntry { deadline, workloads, all } = entry;
            let when = distance(deadline, report.header.today);
            let text = format!("{} ({when}): {}. {}", deadline.date, deadline.what, deadline.concerns);
            self.text.paragraph("  ", &text)?;
            self.text.paragraph("    source  ", &format!("{}, as of {}", deadline.source, deadline.as_of))?;
            if *all > 0 {
                let most = if self.text.details { workloads.len() } else { SHOWN };
                let text = format!("{}: {}", counted_exact(*all, "workload"), first_objects(workloads, *all, most));
                self.text.paragraph("    binds   ", &text)?;
            }
        }
        self.text.more(report.calendar.len(), "date")
    }

    fn tables(&mut self, tables: &[TableVersion]) -> io::Result<()> {
        if tables.is_empty() {
            return Ok(());
        }
        self.text.heading("Tables")?;
        let rows = tables.iter().take(self.text.shown(tables.len())).map(|table| {
            [
                format!("  {}", shorten(&table.table, CELL)),
                shorten(&table.from, 2 * CELL),
                table.checked.to_string(),
                thousands(table.rows),
            ]
        });
        table::write(self.text.out, Some(["  TABLE", "FROM", "CHECKED", "ROWS"]), rows)?;
        self.text.more(tables.len(), "table")
    }
}
