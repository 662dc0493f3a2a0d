//! What the script of a step contains, whatever the shell.

use std::collections::HashSet;

use mullion_engine::model::foreign_text::{visible, visible_lines};
use mullion_engine::model::text::list_with;
use mullion_plan::report::{CommandEffect, PlanCommand, PlanReport, PlannedWorkload, Step, StepKind};
use mullion_survey::report::Source;

use crate::cli::plan::script::shell_command::{ShellCommand, read_commands};

/// A script of a step, or of its undo.
pub(super) struct StepScript {
    /// The name of its file without an extension: `02-gate-undo`.
    pub(super) name: String,
    /// `Step 2 of 7: Check what the new nodes must have`.
    pub(super) title: String,
    /// What the reader must know, line by line.
    pub(super) notes: Vec<String>,
    /// The context that the plan was read from, if it was read from a live cluster.
    pub(super) context: Option<String>,
    /// Where the plan is from: `context prod` or `file dump.yaml`.
    pub(super) origin: String,
    /// What cannot be undone; empty if everything can.
    pub(super) no_way_back: String,
    pub(super) commands: Vec<ScriptCommand>,
}

/// A command in a script.
pub(super) struct ScriptCommand {
    pub(super) note: String,
    /// The text for a POSIX shell.
    pub(super) text: String,
    /// The same, read; `None` if it is not of the part of the language that is read.
    pub(super) read: Option<Vec<ShellCommand>>,
    /// Why the script does not run it; `None`: it does.
    pub(super) left_out: Option<String>,
}

/// The scripts of all steps, each with its undo.
pub(super) fn scripts(report: &PlanReport) -> Vec<StepScript> {
    let steps = report.steps.len();
    report.steps.iter().flat_map(|step| [of_step(step, steps, report), of_undo(step, steps, report)]).collect()
}

fn of_step(step: &Step, steps: usize, report: &PlanReport) -> StepScript {
    let commands = commands(step, report);
    let no_way_back = no_way_back(step, report);
    StepScript {
        name: format!("{:02}-{}", step.number, kind_name(step.kind)),
        title: format!("Step {} of {steps}: {}", step.number, step.title),
        notes: step.why.clone(),
        no_way_back: no_way_back.to_owned(),
        commands,
        ..empty(report)
    }
}

fn of_undo(step: &Step, steps: usize, report: &PlanReport) -> StepScript {
    let commands = undo(step, report);
    let mut no_way_back = no_way_back(step, report).to_owned();
    if commands.is_empty() && no_way_back.is_empty() {
        let own = workloads(step, report).flat_map(|one| &one.commands);
        let changes = step.commands.iter().chain(own).any(|command| command.effect != CommandEffect::Reads);
        no_way_back = if changes {
            "No way back: no command undoes this step.".to_owned()
        } else {
            "There is nothing to undo: the step changes nothing.".to_owned()
        };
    }
    StepScript {
        name: format!("{:02}-{}-undo", step.number, kind_name(step.kind)),
        title: format!("Undo of step {} of {steps}: {}", step.number, step.title),
        notes: step.why.clone(),
        no_way_back,
        commands,
        ..empty(report)
    }
}

fn empty(report: &PlanReport) -> StepScript {
    let cluster = &report.header.cluster;
    let is_live = report.header.source == Source::Cluster;
    StepScript {
        name: String::new(),
        title: String::new(),
        notes: Vec::new(),
        context: is_live.then(|| cluster.clone()),
        origin: if is_live { format!("context {cluster}") } else { cluster.clone() },
        no_way_back: String::new(),
        commands: Vec::new(),
    }
}

/// A part of the name of a file.
const fn kind_name(kind: StepKind) -> &'static str {
    match kind {
        StepKind::ControlPlane => "control-plane",
        StepKind::NewPool => "new-pool",
        StepKind::Gate => "gate",
        StepKind::RunAsIs => "run-as-is",
        StepKind::AnotherTag => "another-tag",
        StepKind::Rebuild => "rebuild",
        StepKind::Unknown => "unknown",
        StepKind::Stateful => "stateful",
        StepKind::RemovePools => "remove-pools",
        StepKind::OpenPool => "open-pool",
        StepKind::PrepareWorkloads => "prepare-workloads",
        StepKind::ChangePools => "change-pools",
    }
}

/// What of a step no command undoes; empty: nothing.
fn no_way_back(step: &Step, report: &PlanReport) -> &'static str {
    let changes_by_hand = |workload: &PlannedWorkload| {
        workload.back.is_empty() && (!workload.edits.is_empty() || !workload.instead.is_empty())
    };
    match step.kind {
        StepKind::ControlPlane => "No way back: a control plane cannot go back to an older version.",
        StepKind::RemovePools => {
            "No way back once a node is drained or a pool is deleted: the undo only lets pods be placed on nodes that still exist."
        }
        _ if workloads(step, report).any(changes_by_hand) => {
            "No way back with a command for the workloads that you change in another way: restore their previous manifests."
        }
        _ => "",
    }
}

fn workloads<'r>(step: &Step, report: &'r PlanReport) -> impl Iterator<Item = &'r PlannedWorkload> {
    let number = step.number;
    report.workloads.iter().filter(move |workload| workload.step == Some(number))
}

/// The commands of the step. It has those of its first workloads, and a script has them all.
fn commands(step: &Step, report: &PlanReport) -> Vec<ScriptCommand> {
    let known = runs(&step.commands);
    // Pods that tolerate every taint are held before the pool is created.
    let holds = report.workloads.iter().filter(|_| step.kind == StepKind::NewPool).flat_map(|one| &one.hold);
    let others = workloads(step, report).flat_map(|one| &one.commands);
    let is_left = |command: &&PlanCommand| !known.contains(command.run.as_str());
    let all = holds.filter(is_left).chain(&step.commands).chain(others.filter(is_left));
    all.map(script_command).collect()
}

/// The commands that undo the step.
fn undo(step: &Step, report: &PlanReport) -> Vec<ScriptCommand> {
    let known = runs(&step.back);
    let others = workloads(step, report).flat_map(|one| &one.back);
    let others = others.filter(|command| !known.contains(command.run.as_str()));
    step.back.iter().chain(others).map(script_command).collect()
}

fn runs(commands: &[PlanCommand]) -> HashSet<&str> {
    commands.iter().map(|command| command.run.as_str()).collect()
}

fn script_command(command: &PlanCommand) -> ScriptCommand {
    let read = read_commands(&command.run);
    let words = command.words_to_replace();
    let reason = match command.effect {
        CommandEffect::Destroys => Some("It ends pods, removes something, or nothing undoes it".to_owned()),
        CommandEffect::ByHand => {
            Some("It is for another machine, or a person changes something between its lines".to_owned())
        }
        _ if !words.is_empty() => Some(format!("Replace {} in it first", list_with(words, "and"))),
        // A reader would not see what it does.
        _ if visible_lines(&command.run) != command.run => {
            Some("Its text has characters that are not visible".to_owned())
        }
        CommandEffect::Reads | CommandEffect::Changes => {
            read.as_ref().err().map(|why| format!("A script cannot run it as it is, because {why}"))
        }
    };
    let source = command.source.as_ref().map(|source| format!("Not run by Mullion's tests; source {source}."));
    let note = [Some(command.note.clone()), source].into_iter().flatten().filter(|text| !text.is_empty());
    ScriptCommand {
        note: note.collect::<Vec<_>>().join(" "),
        text: command.run.clone(),
        read: read.ok(),
        left_out: reason,
    }
}

impl StepScript {
    /// The lines of the comment at its beginning.
    pub(super) fn head(&self) -> Vec<String> {
        let mut lines = vec![
            self.title.clone(),
            format!("Written by mullion plan {}, from {}.", env!("CARGO_PKG_VERSION"), self.origin),
        ];
        if !self.no_way_back.is_empty() {
            lines.push(self.no_way_back.clone());
        }
        lines.extend(self.notes.iter().map(|note| format!("- {note}")));
        lines
    }

    /// What the script prints about the commands that it does not run.
    pub(super) fn left_out_text(count: usize) -> String {
        if count == 1 {
            return "1 command of this file is a comment: read it, and remove the # to run it.".to_owned();
        }
        format!("{count} commands of this file are comments: read them, and remove the # to run them.")
    }

    /// Whether it has a command, active or not.
    pub(super) fn has_commands(&self) -> bool {
        !self.commands.is_empty()
    }
}

/// A text as lines of a comment in bash or PowerShell. Nothing in it ends a line.
pub(super) fn comment(text: &str) -> String {
    text.split('\n').map(|line| format!("# {}", visible(line)).trim_end().to_owned() + "\n").collect()
}
