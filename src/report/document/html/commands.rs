//! Commands on the page.

use maud::{Markup, PreEscaped, Render, html};
use mullion_engine::model::text::{prefix, thousands};

use crate::report::document::command::CommandBlock;
use crate::report::document::html::inline::{Exact, Lines, TEXT, line};

/// The commands with their notes. Those of a provider are folded, because Mullion's tests do not run them. A command that
/// does not fit into the bytes that are left is left out, because a part of one must not be run.
pub(super) fn commands(commands: &[CommandBlock], room: &mut usize, command: &str) -> Markup {
    let mut out = String::new();
    for (at, one) in commands.iter().enumerate() {
        // Escaping makes a text at most six times as long.
        let html = if one.run.len() <= *room { Some(rendered(one).0) } else { None };
        let Some(html) = html.filter(|html| html.len() <= *room) else {
            *room = 0;
            let more = format!("and {} more; `{command} -o json` writes all commands.", thousands(commands.len() - at));
            html! { p.small { (line(&more.into())) } }.render_to(&mut out);
            break;
        };
        *room -= html.len();
        out.push_str(&html);
    }
    PreEscaped(out)
}

fn rendered(CommandBlock { label, run, note, source }: &CommandBlock) -> Markup {
    let body = html! { @if !note.is_empty() { p { (line(&note.into())) } } pre { (Lines(run)) } };
    html! {
        div.command {
            @if let Some(source) = source {
                details.raw { summary { (label) " (not run here; " (Exact(prefix(source, TEXT))) ")" } (body) }
            } @else {
                p { b { (label) ":" } } (body)
            }
        }
        "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_command_is_shown() {
        let command = |run: &str| CommandBlock { label: "Run", run: run.to_owned(), note: String::new(), source: None };
        let long = "x".repeat(200);
        let all = [command("kubectl get pods"), command(&long), command("kubectl get nodes")];
        let made = commands(&all, &mut 250, "mullion plan").0;
        assert!(made.contains("<pre>kubectl get pods</pre>") && !made.contains("xx"), "{made}");
        assert!(made.contains("and 2 more;") && !made.contains("get nodes"), "{made}");
        let made = commands(&all, &mut 2_000, "mullion plan").0;
        assert!(made.contains(&long) && made.contains("get nodes") && !made.contains("more;"), "{made}");
    }
}
