//! Commands on the page, within a limit of bytes.

use mullion_engine::model::text::thousands;
use mullion_plan::report::PlanCommand;

use crate::report::html::cells::cut;
use crate::report::html::escape::{escape, prose};
use crate::report::html::table::push;
use crate::report::plan::words::command_source;

/// What a list of commands may have, in bytes. A command that does not fit is left out, because a part of one must not be
/// run.
pub(super) struct CommandLimit(usize);

impl CommandLimit {
    pub(super) const fn new(bytes: usize) -> Self {
        Self(bytes)
    }

    /// The commands with their notes. Those of a provider are folded, because Mullion's tests do not run them.
    pub(super) fn render(&mut self, label: &str, commands: &[PlanCommand]) -> String {
        let mut out = String::new();
        for (at, command) in commands.iter().enumerate() {
            // Escaping makes a text at most six times as long.
            let html = if command.run.len() <= self.0 { Some(rendered(label, command)) } else { None };
            let Some(html) = html.filter(|html| html.len() <= self.0) else {
                let more = thousands(commands.len() - at);
                push(
                    &mut out,
                    format_args!(
                        "<p class=\"small\">and {more} more; <code>mullion plan -o json</code> writes all commands.</p>\n"
                    ),
                );
                self.0 = 0;
                return out;
            };
            self.0 -= html.len();
            out.push_str(&html);
        }
        out
    }
}

fn rendered(label: &str, command: &PlanCommand) -> String {
    let note = if command.note.is_empty() { String::new() } else { format!("<p>{}</p>", prose(cut(&command.note))) };
    let run = lines(&command.run);
    match command_source(command) {
        Some(source) => format!(
            "<div class=\"command\"><details class=\"raw\"><summary>{label} (not run here; {})</summary>{note}<pre>{run}</pre></details></div>\n",
            escape(cut(&source))
        ),
        None => format!("<div class=\"command\"><p><b>{label}:</b></p>{note}<pre>{run}</pre></div>\n"),
    }
}

/// The lines of a command as they are.
pub(super) fn lines(text: &str) -> String {
    text.split('\n').map(escape).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use mullion_plan::report::CommandEffect;

    use super::*;

    fn command(run: &str) -> PlanCommand {
        PlanCommand {
            run: run.to_owned(),
            note: String::new(),
            effect: CommandEffect::Changes,
            source: None,
            as_of: None,
        }
    }

    #[test]
    fn no_part_of_a_command_is_shown() {
        let long = "x".repeat(200);
        let commands = [command("kubectl get pods"), command(&long), command("kubectl get nodes")];
        let made = CommandLimit::new(250).render("Run", &commands);
        assert!(made.contains("<pre>kubectl get pods</pre>") && !made.contains("xx"), "{made}");
        assert!(made.contains("and 2 more;") && !made.contains("get nodes"), "{made}");
        let all = CommandLimit::new(2_000).render("Run", &commands);
        assert!(all.contains(&long) && all.contains("get nodes") && !all.contains("more;"), "{all}");
    }

    #[test]
    fn lines_stay_lines() {
        assert_eq!(lines("cat <<'EOF'\n\ta\u{1b}\nEOF"), "cat &lt;&lt;&#39;EOF&#39;\n\\ta\\u{1b}\nEOF");
    }
}
