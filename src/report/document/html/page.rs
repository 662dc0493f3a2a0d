//! The page: head, table of contents, sections.

use std::io;
use std::io::Write;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use mullion_engine::model::text::{prefix, thousands};

use crate::report::document::html::blocks::Blocks;
use crate::report::document::html::inline::{Breakable, Exact, line};
use crate::report::document::html::table::labels;
use crate::report::document::model::{Block, Document, ReportSection};
use crate::report::document::table::Table;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("page.js");

/// The longest title, in bytes.
const TITLE: usize = 250;

/// The bytes of all items of lists, and of all commands outside of tables.
const ITEM_BYTES: usize = 300_000;
const COMMAND_BYTES: usize = 700_000;

/// Writes the page.
pub(in crate::report::document) fn write(document: &Document<'_>, out: &mut dyn Write) -> io::Result<()> {
    let rules: String = tables(document).into_iter().map(labels).collect();
    let style = format!("{STYLE}\n@media screen and (max-width: 640px) {{\n{rules}}}\n");
    // The browser applies only this style and runs only this script, even if a name were interpreted as markup.
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
        hash(&style),
        hash(SCRIPT)
    );
    let Document { mullion, sections, command, .. } = document;
    let title = prefix(&document.title, TITLE);
    let anchors: Vec<&'static str> = sections.iter().map(|section| section.id).collect();
    let mut blocks = Blocks { command, anchors: &anchors, item_bytes: ITEM_BYTES, command_bytes: COMMAND_BYTES };
    let page = html! {
        (DOCTYPE) "\n"
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                meta name="generator" content={ "Mullion " (Exact(mullion)) };
                title { (Exact(title)) }
                style { (PreEscaped(style)) } "\n"
            }
            "\n"
            body {
                a.skip href="#summary" { "Skip to the summary" }
                div.layout {
                    (contents(sections))
                    main {
                        h1 { (Breakable(title)) } "\n"
                        @for section in sections { (self::section(section, &mut blocks)) }
                        footer { p { (line(&document.footer.as_str().into())) } }
                    }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
        "\n"
    };
    out.write_all(page.0.as_bytes())
}

fn section(section: &ReportSection<'_>, blocks: &mut Blocks<'_>) -> Markup {
    let ReportSection { id, title, .. } = section;
    html! {
        section aria-labelledby=(id) {
            h2 id=(id) { a.anchor href={ "#" (id) } { (title) } } "\n"
            (blocks.all(&section.blocks))
        }
        "\n"
    }
}

fn contents(sections: &[ReportSection<'_>]) -> Markup {
    html! {
        nav aria-label="Contents" { details open { summary { "Contents" } ul {
            @for ReportSection { id, title, count, .. } in sections {
                li { a href={ "#" (id) } {
                    span { (title) }
                    @if let Some(count) = count { " " span.count { (thousands(*count)) } }
                } }
            }
        } } }
        "\n"
    }
}

/// Every table of the document.
fn tables<'d, 'r>(document: &'d Document<'r>) -> Vec<&'d Table<'r>> {
    let mut found = Vec::new();
    document.sections.iter().for_each(|section| add_tables(&section.blocks, &mut found));
    found
}

fn add_tables<'d, 'r>(blocks: &'d [Block<'r>], found: &mut Vec<&'d Table<'r>>) {
    for block in blocks {
        match block {
            Block::Table(table) | Block::Folded(_, _, table) => found.push(table),
            Block::Subsections(_, parts) => parts.iter().for_each(|part| add_tables(&part.blocks, found)),
            _ => {}
        }
    }
}

/// The source expression of the Content Security Policy for that text.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(digest(&SHA256, text.as_bytes())))
}
