//! The status as text and as JSON.

use std::io;

use jiff::Timestamp;
use mullion_engine::model::text::{counted, list};
use serde::Serialize;

use crate::cli::io_handles::Io;
use crate::cli::status::check::{CheckResult, StatusCheck};
use crate::cluster::state::time_text;
use crate::report::document::{
    Block, Cell, Document, Inline, ReportSection, Table, TableBuilder, Text, Tone, write_text,
};
use crate::report::{RenderOptions, write_line};

/// The name and version of the JSON format. Later versions of Mullion may add members.
const SCHEMA: &str = "mullion.dev/status/v1";

/// The number of items of a check that text shows; JSON contains all.
const SHOWN: usize = 20;

/// The whole status.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusReport {
    schema: &'static str,
    /// The context of the kubeconfig.
    context: String,
    /// Mullion's namespace; `None` if Mullion was not found.
    namespace: Option<String>,
    /// The version of the command.
    version: &'static str,
    time: String,
    /// Whether any check requires a person.
    needs_a_person: bool,
    pub(crate) checks: Vec<StatusCheck>,
}

impl StatusReport {
    pub(crate) fn new(context: &str, namespace: Option<&str>, checks: Vec<StatusCheck>, now: Timestamp) -> Self {
        Self {
            schema: SCHEMA,
            context: context.to_owned(),
            namespace: namespace.map(str::to_owned),
            version: env!("CARGO_PKG_VERSION"),
            time: time_text(now),
            needs_a_person: checks.iter().any(|check| check.result.needs_a_person()),
            checks,
        }
    }

    /// Whether any check requires a person.
    pub(crate) fn needs_a_person(&self) -> bool {
        self.needs_a_person
    }

    /// The names of the checks that `--wait` waits for.
    pub(crate) fn waited_for(&self) -> String {
        list(self.checks.iter().filter(|check| check.is_waited_for()).map(|check| check.name))
    }

    /// One JSON object.
    pub(crate) fn write_json(&self, io: &mut Io<'_>) -> io::Result<()> {
        write_line(io.stdout, self)
    }

    /// A line for each check, and what to do below those that are not good. Lines are wrapped on a terminal only, because
    /// scripts search them.
    pub(crate) fn write_text(&self, io: &mut Io<'_>) -> io::Result<()> {
        let options = RenderOptions { details: true, colour: io.colour_stdout, width: io.width.unwrap_or(usize::MAX) };
        write_text(&self.document(), options, io.stdout)
    }

    fn document(&self) -> Document<'_> {
        let namespace = self.namespace.as_ref().map(|namespace| format!(", namespace {namespace}")).unwrap_or_default();
        let count = |result: fn(CheckResult) -> bool| self.checks.iter().filter(|check| result(check.result)).count();
        let notices = match count(|result| result == CheckResult::Notice) {
            0 => String::new(),
            notices => format!("; {}", counted(notices, "notice")),
        };
        let people = match count(CheckResult::needs_a_person) {
            0 => "Nothing needs".to_owned(),
            1 => "1 check needs".to_owned(),
            people => format!("{people} checks need"),
        };
        // What the parts report about themselves does not show where a pod lands.
        let proof = self.namespace.as_ref().map_or("", |_| " To prove where pods land, run mullion verify.");
        let sections = self.checks.chunk_by(|one, next| one.section == next.section).filter_map(|checks| {
            let title = checks.first()?.section.title();
            Some(ReportSection::new("checks", title, vec![Block::Table(table(checks))]))
        });
        Document {
            title: format!("context {}{namespace}", self.context),
            command: "mullion status",
            mullion: self.version.to_owned(),
            sections: sections.collect(),
            footer: format!("{people} attention{notices}.{proof}"),
            all: "-o json",
            is_cut: false,
        }
    }
}

fn table(checks: &[StatusCheck]) -> Table<'_> {
    let items = |check: &StatusCheck| {
        let shown = check.items.iter().take(SHOWN).fold(Cell::default(), |cell, item| cell.line(Text::plain(item)));
        let more = match check.items.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!("and {more} more, shown by -o json"),
        };
        shown.line(more).labeled("Next", Text::plain(&check.next))
    };
    TableBuilder::new("checks", "check", checks).text("Check", line).prose("Items", items).build()
}

fn line(check: &StatusCheck) -> Text {
    let (mark, tone) = match check.result {
        CheckResult::Good => ("√", Tone::Good),
        CheckResult::Notice => ("‼", Tone::Warn),
        CheckResult::Bad | CheckResult::Unknown => ("×", Tone::Bad),
    };
    Text::from(Inline::Tag(tone, mark.to_owned())).and(Text::plain(format!(" {}", check.message)))
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::Value;

    use super::*;
    use crate::cli::status::check::Section;
    use crate::cli::status::checks::checks;
    use crate::cli::status::facts::tests::{NOW, good, now};

    fn report(checks: Vec<StatusCheck>) -> StatusReport {
        StatusReport::new("kind-dev", Some("mullion-system"), checks, now())
    }

    fn written(report: &StatusReport, json: bool, colour_stdout: bool) -> String {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut io = Io { stdin: &mut io::empty(), stdout: &mut out, stderr: &mut err, colour_stdout, width: None };
        if json { report.write_json(&mut io) } else { report.write_text(&mut io) }.unwrap();
        assert!(err.is_empty());
        String::from_utf8(out).unwrap()
    }

    fn some() -> Vec<StatusCheck> {
        let many = (0..25).map(|n| format!("win-{n}")).collect();
        vec![
            StatusCheck::good(Section::Installation, "leader", "a pod leads"),
            StatusCheck::notice(Section::Installation, "versions", "two versions", "wait"),
            StatusCheck::bad(Section::Nodes, "nodes-labelled", "25 nodes without label", "look").with_items(many),
            StatusCheck::unknown(Section::Workloads, "findings", "which pods have findings is", "no", "ask"),
        ]
    }

    #[test]
    fn text_shows_what_to_do() {
        let text = written(&report(some()), false, false);
        let expected = "\
context kind-dev, namespace mullion-system

Installation
  √ a pod leads
  ‼ two versions
    next  wait

Nodes
  × 25 nodes without label
    win-0
";
        assert!(text.starts_with(expected), "{text}");
        let end = "    win-19
    and 5 more, shown by -o json
    next  look

Workloads
  × which pods have findings is not known: no
    next  ask

2 checks need attention; 1 notice. To prove where pods land, run mullion verify.
";
        assert!(text.ends_with(end), "{text}");
        assert!(written(&report(some()), false, true).contains("\u{1b}["), "colour");
        let good = written(&report(checks(&good(), now())), false, false);
        assert!(good.ends_with("\nNothing needs attention. To prove where pods land, run mullion verify.\n"), "{good}");
        assert!(good.lines().all(|line| line.chars().count() <= 120), "{good}");
    }

    #[test]
    fn json_contains_all_that_text_shows() {
        let value: Value = serde_json::from_str(&written(&report(some()), true, false)).unwrap();
        assert_eq!((&value["schema"], &value["context"]), (&"mullion.dev/status/v1".into(), &"kind-dev".into()));
        assert_eq!((&value["needsAPerson"], &value["time"]), (&true.into(), &NOW.into()));
        let results: Vec<&str> =
            value["checks"].as_array().unwrap().iter().map(|check| check["result"].as_str().unwrap()).collect();
        assert_eq!(results, ["good", "notice", "bad", "unknown"]);
        let nodes = &value["checks"][2];
        assert_eq!((nodes["items"].as_array().unwrap().len(), &nodes["section"]), (25, &"nodes".into()));
        assert_eq!((nodes["name"].as_str(), nodes["next"].as_str()), (Some("nodes-labelled"), Some("look")));
        assert_eq!(value["checks"][0].get("next"), None);
    }

    #[test]
    fn the_cluster_cannot_control_the_terminal() {
        let hostile = "\u{1b}]0;x\u{7}\u{9b}2J\nx\u{202e}";
        let check = StatusCheck::bad(Section::Nodes, "events", hostile, hostile).with_items(vec![hostile.to_owned()]);
        let report = StatusReport::new(hostile, Some(hostile), vec![check], now());
        let text = written(&report, false, false);
        assert!(!text.contains(|c: char| c.is_control() && c != '\n' || c == '\u{202e}'), "{text:?}");
        assert_eq!(text.lines().count(), 8, "{text}");
    }

    #[test]
    fn only_mullion_itself_is_waited_for() {
        assert_eq!(report(some()).waited_for(), "nodes-labelled");
        assert!(report(some()).needs_a_person() && !report(some()[..2].to_vec()).needs_a_person());
    }
}
