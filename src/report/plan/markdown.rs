//! The plan as Markdown of GitHub's kind, for a ticket or a wiki. Names and messages of the cluster cannot become markup.

use std::collections::HashSet;
use std::io;
use std::io::Write;

use mullion_engine::model::text::{list, thousands, upper_first};
use mullion_plan::report::{ObjectChange, PlanCommand, PlanReport, PlannedContainer, PlannedWorkload, Step};

use crate::report::inventory_text::{distance, first_objects, object_text, origin, pods_text};
use crate::report::markdown::{code, codes, escaped, fenced, table, with_source, write_coverage, write_more};
use crate::report::plan::options::PlanOptions;
use crate::report::plan::words::{
    VerdictCounts, builds_text, by_owner, by_state, calendar_text, capacity_text, certainty, command_source,
    commands_of_steps, concerned_text, confidence_text, counted_exact, edited, exact_size, first_blocks, gate,
    has_work, manager_text, move_text, owner_text, part_text, pods_phrase, pools_text, size, state_text, step_text,
    verdict_text, verdicts_by_step, without_printed, work_step, work_text,
};

/// Rows of a table that are shown without details. GitHub takes 65,536 characters in an issue.
const SHOWN: usize = 15;

/// Commands and objects with their commands that are shown without details.
const COMMANDS: usize = 3;

/// Writes the plan.
pub(super) fn write(report: &PlanReport, options: &PlanOptions, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page {
        out,
        most: if options.details { usize::MAX } else { SHOWN },
        commands: if options.details { usize::MAX } else { COMMANDS },
    };
    page.head(report)?;
    page.constraints(report)?;
    page.gate(report)?;
    page.steps(report)?;
    page.work_list(report)?;
    page.changes(report)?;
    page.edits(report)?;
    page.unknown(report)?;
    page.calendar(report)?;
    page.tables(report)
}

struct Page<'o> {
    out: &'o mut dyn Write,
    /// The most rows of a table.
    most: usize,
    /// The most commands of one list.
    commands: usize,
}

impl Page<'_> {
    fn details(&self) -> bool {
        self.most == usize::MAX
    }

    fn head(&mut self, report: &PlanReport) -> io::Result<()> {
        let (header, target) = (&report.header, &report.target);
        writeln!(
            self.out,
            "# Plan to move {} to {}\n\n## Answer\n",
            escaped(&header.cluster),
            escaped(&target.release)
        )?;
        if report.summary.is_empty() {
            writeln!(self.out, "- The plan found nothing that moves.")?;
        }
        report.summary.iter().try_for_each(|sentence| writeln!(self.out, "- {}", escaped(sentence)))?;
        write_coverage(&report.coverage, "What the plan lacks", self.most, self.out)?;
        writeln!(
            self.out,
            "\nThe move is {}. Target: {}. Objects were {}. Dates count from {}, and were compared with their sources on {}. \
             Written by Mullion {}.",
            escaped(&move_text(target)),
            escaped(&pools_text(target)),
            escaped(&origin(header)),
            header.today,
            header.dates_as_of,
            escaped(&header.mullion)
        )?;
        if report.pools.is_empty() {
            return writeln!(self.out, "\nThe plan read no Windows nodes.");
        }
        let rows = report.pools.iter().map(|pool| {
            [
                code(&pool.name),
                part_text(pool.part).to_owned(),
                escaped(&format!("{} ({})", pool.release, pool.build)),
                thousands(pool.nodes),
                pods_text(pool.workloads),
                codes(&pool.kubelets),
                codes(&pool.runtimes),
            ]
        });
        let header = ["Pool", "Part", "Release", "Nodes", "Windows workloads", "Kubelet", "Runtime"];
        table(header, rows, self.most, self.out)
    }

    fn constraints(&mut self, report: &PlanReport) -> io::Result<()> {
        if report.constraints.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\n## Constraints")?;
        let rows = by_state(&report.constraints).into_iter().map(|constraint| {
            [
                upper_first(state_text(constraint.state)),
                with_source(&constraint.what, &constraint.source, constraint.as_of),
                escaped(&constraint.action),
            ]
        });
        table(["State", "What holds", "What to do"], rows, self.most, self.out)
    }

    fn gate(&mut self, report: &PlanReport) -> io::Result<()> {
        let gate = gate(report);
        if gate.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\n## Gate\n\nThese workloads must run in the new pool before others move.")?;
        let rows = gate.into_iter().map(|workload| {
            [
                code(&object_text(&workload.object)),
                upper_first(verdict_text(workload.verdict)),
                step_text(workload.step),
            ]
        });
        table(["Workload", "Verdict", "Step"], rows, self.most, self.out)
    }

    fn steps(&mut self, report: &PlanReport) -> io::Result<()> {
        if report.steps.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\n## Steps")?;
        let counts = verdicts_by_step(&report.workloads);
        for step in report.steps.iter().take(self.most) {
            self.step(step, counts.get(&Some(step.number)).copied().unwrap_or_default())?;
        }
        write_more(report.steps.len(), self.most, self.out)
    }

    fn step(&mut self, step: &Step, counts: VerdictCounts) -> io::Result<()> {
        writeln!(self.out, "\n### Step {}: {}\n", step.number, escaped(&step.title))?;
        step.why.iter().try_for_each(|why| writeln!(self.out, "- {}", escaped(why)))?;
        if step.workloads > 0 {
            writeln!(self.out, "- Workloads: {}.", counts.of(step.workloads))?;
        }
        let size = if self.details() { exact_size } else { size };
        if let Some(capacity) = &step.capacity {
            writeln!(self.out, "- Capacity: {}", capacity_text(capacity, size))?;
        }
        if let Some(bytes) = step.pull_bytes {
            writeln!(self.out, "- Images to pull: {} on each new node.", size(bytes))?;
        }
        if !step.disruptions.is_empty() {
            let rows = step.disruptions.iter().map(|disruption| {
                [
                    code(&object_text(&disruption.budget)),
                    code(&object_text(&disruption.workload)),
                    disruption.allowed.map_or_else(|| "unknown".to_owned(), |allowed| allowed.to_string()),
                    escaped(&disruption.what),
                ]
            });
            table(["Budget", "Workload", "Evictions now", "What a drain does"], rows, self.most, self.out)?;
        }
        self.commands("Run", &step.commands)?;
        self.commands("To go back, run", &step.back)
    }

    /// Commands with their notes. Those of a provider are folded, because Mullion's tests do not run them.
    fn commands(&mut self, label: &str, commands: &[PlanCommand]) -> io::Result<()> {
        // Whole blocks of a large plan would not fit into an issue.
        let first = commands.get(..self.commands).unwrap_or(commands);
        let (blocks, shown) = first_blocks(first, first.len());
        for command in &blocks {
            let note = if command.note.is_empty() { String::new() } else { format!("{}\n\n", escaped(&command.note)) };
            let run = fenced("sh", &command.run);
            match command_source(command) {
                Some(source) => writeln!(
                    self.out,
                    "\n<details><summary>{label} (not run here)</summary>\n\n{}.\n\n{note}{run}\n\n</details>",
                    escaped(&upper_first(&source))
                )?,
                None => writeln!(self.out, "\n{label}:\n\n{note}{run}")?,
            }
        }
        write_more(commands.len(), shown, self.out)
    }

    fn work_list(&mut self, report: &PlanReport) -> io::Result<()> {
        let all = &report.workloads;
        if all.is_empty() {
            return Ok(());
        }
        writeln!(
            self.out,
            "\n## Work list\n\n{}: {}.",
            counted_exact(all.len(), "Windows workload"),
            work_text(report)
        )?;
        // Without details, what somebody has to build, to change or to find out.
        let details = self.details();
        let work = all.iter().filter(|workload| details || has_work(workload, report));
        let mut shown = 0;
        for (owner, workloads) in by_owner(work) {
            if shown == self.most {
                break;
            }
            let workloads: Vec<&PlannedWorkload> = workloads.into_iter().take(self.most - shown).collect();
            shown += workloads.len();
            writeln!(self.out, "\n### {}", escaped(&owner_text(owner)))?;
            let rows = workloads.into_iter().flat_map(|workload| {
                let containers = workload.containers.iter();
                let step = work_step(workload, report);
                containers.map(move |container| container_row(workload, step, container, details))
            });
            let header = ["Workload", "Step", "Container", "Image", "Verdict", "Use or build", "Why"];
            table(header, rows, usize::MAX, self.out)?;
        }
        if shown == 0 {
            return writeln!(self.out, "\n`--details` lists them.");
        }
        write_more(all.len(), shown, self.out)
    }

    fn changes(&mut self, report: &PlanReport) -> io::Result<()> {
        if report.changes.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\n## What behaves differently")?;
        let most = self.most;
        let rows = report.changes.iter().map(|change| {
            [
                with_source(&change.what, &change.source, change.as_of),
                format!("{}, {}", upper_first(certainty(change)), escaped(&change.moves)),
                escaped(&change.check),
                escaped(&concerned_text(change, report, change.workloads.len().min(most))),
            ]
        });
        table(["What", "When", "What to check", "Concerns"], rows, most, self.out)
    }

    fn edits(&mut self, report: &PlanReport) -> io::Result<()> {
        let edited = edited(report);
        if edited.is_empty() && report.objects.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\n## Edits")?;
        let most = self.commands;
        let printed = commands_of_steps(report);
        report.objects.iter().take(most).try_for_each(|object| self.object(object, &printed))?;
        for (workload, step) in edited.iter().take(most) {
            self.edited(workload, *step, &printed)?;
        }
        let shown = report.objects.len().min(most) + edited.len().min(most);
        write_more(report.objects.len() + edited.len(), shown, self.out)
    }

    fn object(&mut self, object: &ObjectChange, printed: &HashSet<&str>) -> io::Result<()> {
        let step = step_text(Some(object.step));
        writeln!(self.out, "\n### {}, {step}\n", code(&object_text(&object.object)))?;
        writeln!(self.out, "{}", escaped(&object.why))?;
        self.commands("Run", &without_printed(std::slice::from_ref(&object.command), printed))?;
        self.commands("To go back, run", &without_printed(object.back.as_slice(), printed))
    }

    fn edited(&mut self, workload: &PlannedWorkload, step: Option<usize>, printed: &HashSet<&str>) -> io::Result<()> {
        writeln!(self.out, "\n### {}, {}", code(&object_text(&workload.object)), step_text(step))?;
        if let Some(manager) = manager_text(workload) {
            writeln!(self.out, "\nManaged by {}.", escaped(&manager))?;
        }
        if !workload.instead.is_empty() {
            writeln!(self.out, "\n{}", escaped(&workload.instead))?;
        }
        if !workload.edits.is_empty() {
            let rows = workload.edits.iter().map(|edit| {
                let before =
                    edit.before.as_ref().map_or_else(|| "not set".to_owned(), |value| code(&value.to_string()));
                let after = edit.after.as_ref().map_or_else(|| "removed".to_owned(), |value| code(&value.to_string()));
                let sure = edit.confidence.map(|sure| format!(" ({})", confidence_text(sure))).unwrap_or_default();
                [code(&edit.path), before, format!("{after}{sure}"), escaped(&edit.why)]
            });
            table(["Field", "Before", "After", "Why"], rows, usize::MAX, self.out)?;
        }
        if let Some(patch) = workload.patch.as_ref().filter(|_| workload.commands.is_empty()) {
            writeln!(self.out, "\nPatch:\n\n{}", fenced("json", &patch.to_string()))?;
        }
        let left = |commands: &[PlanCommand]| without_printed(commands, printed);
        self.commands("Before the new pool is created, run", &left(&workload.hold))?;
        self.commands("Run", &left(&workload.commands))?;
        self.commands("To go back, run", &left(&workload.back))
    }

    fn unknown(&mut self, report: &PlanReport) -> io::Result<()> {
        if report.unknown.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\n## Not known")?;
        let most = self.most;
        let rows = report.unknown.iter().map(|unknown| {
            [
                escaped(&unknown.what),
                escaped(&unknown.resolve),
                escaped(&first_objects(&unknown.objects, unknown.all, unknown.objects.len().min(most))),
            ]
        });
        table(["What", "How to find out", "Objects"], rows, most, self.out)
    }

    fn calendar(&mut self, report: &PlanReport) -> io::Result<()> {
        if report.calendar.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\n## Calendar\n\n{}", calendar_text(report))?;
        let most = self.most;
        let rows = report.calendar.iter().map(|entry| {
            let deadline = &entry.deadline;
            let objects = first_objects(&entry.workloads, entry.all, entry.workloads.len().min(most));
            [
                deadline.date.to_string(),
                distance(deadline, report.header.today),
                with_source(&deadline.what, &deadline.source, deadline.as_of),
                escaped(&deadline.concerns),
                match entry.all {
                    0 => String::new(),
                    all => format!("{}: {}", counted_exact(all, "workload"), escaped(&objects)),
                },
            ]
        });
        table(["Date", "", "What", "Concerns", "Binds"], rows, most, self.out)
    }

    fn tables(&mut self, report: &PlanReport) -> io::Result<()> {
        if report.tables.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\n## Tables")?;
        let rows = report.tables.iter().map(|table| {
            [escaped(&table.table), escaped(&table.from), table.checked.to_string(), thousands(table.rows)]
        });
        table(["Table", "From", "Checked", "Rows"], rows, self.most, self.out)
    }
}

fn container_row(
    workload: &PlannedWorkload,
    step: Option<usize>,
    container: &PlannedContainer,
    details: bool,
) -> [String; 7] {
    let by = container.injected_by.as_ref().map(|by| format!(", injected by {}", escaped(by))).unwrap_or_default();
    let mut change = Vec::new();
    if let Some(proposal) = &container.proposal {
        let repository = if proposal.other_repository { ", in another repository" } else { "" };
        change.push(format!("{} ({}{repository})", code(&proposal.image), confidence_text(proposal.confidence)));
        if !proposal.product.is_empty() {
            change.push(format!("{}.", escaped(&proposal.product)));
        }
    }
    change.extend(container.from_line.as_deref().map(code));
    let mut why = vec![escaped(&container.because)];
    why.extend(container.notes.iter().map(|note| escaped(note)));
    if !container.find_out.is_empty() {
        why.push(escaped(&container.find_out));
    }
    let size = if details { exact_size } else { size };
    why.extend(container.pull_bytes.map(|bytes| format!("{} to pull.", size(bytes))));
    if details {
        why.extend(workload.risks.iter().map(|risk| format!("{} ({})", escaped(&risk.what), code(&risk.path))));
        let pools = if workload.pools.is_empty() { String::new() } else { format!(" in {}", list(&workload.pools)) };
        why.push(format!("{}{}.", pods_phrase(workload), escaped(&pools)));
    }
    [
        code(&object_text(&workload.object)),
        step.map_or_else(|| "none".to_owned(), |step| step.to_string()),
        format!("{}{by}", code(&container.name)),
        format!("{} ({})", code(&container.image), escaped(&builds_text(container))),
        upper_first(verdict_text(container.verdict)),
        change.join(" "),
        why.join(" "),
    ]
}
