//! The parts of a section on the page.

use maud::{Markup, PreEscaped, Render, html};
use mullion_engine::model::text::{plural, thousands};

use crate::report::document::html::commands::commands;
use crate::report::document::html::inline::{Exact, class, line};
use crate::report::document::html::table::table;
use crate::report::document::inline::Text;
use crate::report::document::model::{Block, Picture, Subsection, Tile};

/// The most sentences of a summary, items of a list and their bytes, and parts of a section.
const SENTENCES: usize = 10;
const ITEMS: usize = 200;
const LIST_BYTES: usize = 50_000;
const PARTS: usize = 100;

/// What the blocks of a page need to know, and the bytes that are left for all of its lists and commands.
pub(super) struct Blocks<'d> {
    /// The command that prints the report.
    pub(super) command: &'d str,
    /// The anchors of the sections that the page has.
    pub(super) anchors: &'d [&'static str],
    pub(super) item_bytes: usize,
    pub(super) command_bytes: usize,
}

impl Blocks<'_> {
    pub(super) fn all(&mut self, blocks: &[Block<'_>]) -> Markup {
        let mut out = String::new();
        for block in blocks {
            self.block(block).render_to(&mut out);
            out.push('\n');
        }
        PreEscaped(out)
    }

    fn block(&mut self, block: &Block<'_>) -> Markup {
        match block {
            Block::Paragraph(text) => html! { p { (line(text)) } },
            Block::Note(text) => html! { div.callout { p { (line(text)) } } },
            Block::Summary(sentences) => html! {
                ul.summary { @for sentence in sentences.iter().take(SENTENCES) { li { (line(sentence)) } } }
            },
            Block::Bullets(items) => self.bullets(items),
            Block::Facts(facts) => html! {
                dl.facts { @for (label, text) in facts { dt { (label) } dd { (line(text)) } } }
            },
            Block::Tiles(tiles) => html! { ul.tiles { @for tile in tiles { (self.tile(tile)) } } },
            Block::Subsections(what, parts) => self.parts(what, parts),
            Block::Table(one) => table(one, self.command),
            Block::Folded(text, _, one) if one.rows == 0 => html! { p { (line(text)) } },
            Block::Folded(text, _, one) => html! {
                details.coverage { summary { (line(text)) } (table(one, self.command)) }
            },
            Block::Commands(all) => commands(all, &mut self.command_bytes, self.command),
            Block::Picture(picture) => self::picture(picture),
        }
    }

    /// Where everything is.
    fn rest(&self) -> Markup {
        line(&format!("`{} -o json` writes all of them.", self.command).into())
    }

    /// Items that do not fit into the bytes that are left are not cut, because they may contain commands.
    fn bullets(&mut self, items: &[Text]) -> Markup {
        let (mut shown, mut count) = (String::new(), 0);
        let room = LIST_BYTES.min(self.item_bytes);
        for item in items.iter().take(ITEMS) {
            let item = html! { li { (line(item)) } }.0;
            if shown.len() + item.len() > room {
                break;
            }
            shown.push_str(&item);
            count += 1;
        }
        self.item_bytes -= shown.len();
        let more = items.len() - count;
        html! { ul { (PreEscaped(shown)) @if more > 0 { li { "and " (thousands(more)) " more. " (self.rest()) } } } }
    }

    /// A tile whose list is not on the page is no link.
    fn tile(&self, Tile { label, count, tone, list }: &Tile) -> Markup {
        let content = html! { b { (count) } " " span { (label) } };
        html! {
            li.(tone.map_or("", class)) {
                @if self.anchors.contains(list) { a href={ "#" (list) } { (content) } } @else { (content) }
            }
        }
    }

    fn parts(&mut self, what: &str, parts: &[Subsection<'_>]) -> Markup {
        let mut out = String::new();
        for Subsection { id, heading, blocks } in parts.iter().take(PARTS) {
            let heading = line(heading);
            let heading = html! {
                @if let Some(id) = id {
                    h3 id=(Exact(id)) { a.anchor href={ "#" (Exact(id)) } { (heading) } }
                } @else {
                    h3 { (heading) }
                }
            };
            heading.render_to(&mut out);
            self.all(blocks).render_to(&mut out);
        }
        let more = parts.len().saturating_sub(PARTS);
        html! {
            (PreEscaped(out))
            @if more > 0 { div.callout { p { "and " (thousands(more)) " " (plural(what)) " more. " (self.rest()) } } }
        }
    }
}

fn picture(Picture { svg, label, caption }: &Picture) -> Markup {
    html! {
        figure {
            div.picture tabindex="0" role="region" aria-label=(label) { (svg) }
            figcaption.soft.small { (line(caption)) }
        }
    }
}
