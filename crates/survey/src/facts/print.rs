//! The tables that are part of Mullion as one file of facts.

use std::fmt::Write as _;

use mullion_engine::model::published_images::PublishedImages;
use mullion_manifest::{NodeValue, documents};

use crate::facts::Facts;
use crate::facts::built_in::PARTS;
use crate::facts::read::SCHEMA;

const HEAD: &str = "\
# The tables of facts of Mullion. `mullion survey --facts FILE` and `mullion plan --facts FILE` use each table of a file of this
# format in place of the built-in one; delete the tables that you do not change. `mullion facts FILE` checks a file.
#
# checked: the day on which the rows were last compared with their sources; a row that was compared on another day has its own.
# asOf of a row: the day of its source.
";

const IMAGES: &str = "
# For which Windows releases images are published, and under which tags. The first row that matches an image counts.
#
# repositories: paths without registry; library/NAME: a Docker official image     registries: those of the publisher
# tags: patterns; {release}: any name of a Windows release, {version}, {any}, {date}, {number}, {arch}     published: tag by build
# frozenSince: no updates since that day     supportEnd: of the product     successor: another repository     notes: clauses
images:
";

/// All built-in tables as one file that [`Facts::parse`] reads.
pub fn built_in_text() -> String {
    let checked = Facts::built_in().origins.into_values().map(|origin| origin.checked).min().unwrap_or_default();
    let mut text = format!("{HEAD}schema: {SCHEMA}\nchecked: {checked}\n");
    for (_, part) in PARTS {
        text.push('\n');
        // They are written once for all tables.
        let is_head = |line: &&str| line.starts_with("schema:") || line.starts_with("checked:");
        for line in part.lines().skip_while(|line| line.is_empty()).filter(|line| !is_head(line)) {
            text.push_str(line);
            text.push('\n');
        }
    }
    text.push_str(IMAGES);
    let source = PublishedImages::SHIPPED_TEXT;
    let document = documents("", source).into_iter().next().and_then(Result::ok);
    let images = document.as_ref().and_then(|document| document.node.get("images")).map(|entry| &entry.value.value);
    if let Some(NodeValue::List(rows)) = images {
        for row in rows {
            // JSON is YAML; a continued line has more indentation than its dash.
            let row = source.get(row.span.start..row.span.end).unwrap_or_default();
            writeln!(text, "- {}", row.replace("\n  ", "\n")).ok();
        }
    }
    text
}
