//! A script for bash.

use std::fmt::Write as _;

use mullion_engine::model::foreign_text::visible;
use mullion_plan::quoted;

use crate::cli::plan::script::step_script::{ScriptCommand, StepScript, comment};

/// The extension of its files.
pub(super) const EXTENSION: &str = "sh";

fn print(text: &str) -> String {
    format!("printf '%s\\n' {}\n", quoted(&visible(text)))
}

/// The text of the script.
pub(super) fn render(script: &StepScript) -> String {
    let mut out = String::from("#!/usr/bin/env bash\n");
    script.head().iter().for_each(|line| out.push_str(&comment(line)));
    // `noclobber`: a command that writes a file never replaces one.
    out.push_str("set -o errexit -o nounset -o pipefail -o noclobber\n\n");
    out.push_str(&print(&script.title));
    out.push_str(&print(&format!("The plan was made from {}.", script.origin)));
    // Without a current context, kubectl uses the cluster in which it runs, as mullion does.
    out.push_str("context=$(kubectl config current-context) || context=in-cluster\n");
    out.push_str("printf 'kubectl uses context %s.\\n' \"$context\"\n");
    if let Some(planned) = &script.context {
        writeln!(out, "if [ \"$context\" != {} ]; then", quoted(planned)).unwrap_or_default();
        out.push_str("  printf '%s\\n' 'These contexts differ: nothing was run. kubectl config use-context changes it.' >&2\n  exit 1\nfi\n");
    }
    if !script.no_way_back.is_empty() {
        out.push_str(&print(&script.no_way_back));
    }
    if !script.has_commands() {
        out.push_str("exit 1\n");
        return out;
    }
    let comments = script.commands.iter().filter(|command| command.left_out.is_some()).count();
    if comments > 0 {
        out.push_str(&print(&StepScript::left_out_text(comments)));
    }
    out.push_str(
        "read -r -p 'Go on? [y/N] ' answer || answer=\ncase $answer in\n[yY] | [yY][eE][sS]) ;;\n*)\n  \
         printf '%s\\n' 'Nothing was run.' >&2\n  exit 1\n  ;;\nesac\n\n# From here, bash prints each command before it runs it.\nset -o xtrace\n",
    );
    script.commands.iter().for_each(|command| push_command(&mut out, command));
    out
}

fn push_command(out: &mut String, command: &ScriptCommand) {
    out.push('\n');
    if !command.note.is_empty() {
        out.push_str(&comment(&command.note));
    }
    match &command.left_out {
        None => {
            out.push_str(&command.text);
            out.push('\n');
        }
        Some(why) => {
            out.push_str(&comment(&format!("{why}:")));
            out.push_str(&comment(&command.text));
        }
    }
}
