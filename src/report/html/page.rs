//! A page: head, table of contents, sections.

use std::io;
use std::io::Write;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mullion_engine::model::text::thousands;

use crate::report::html::escape::{breakable, escape};
use crate::report::html::table::push;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("page.js");

/// A page. All texts but the title and the version are HTML that is escaped already.
pub(crate) struct Page<'a> {
    pub(crate) title: &'a str,
    /// The version of Mullion.
    pub(crate) mullion: &'a str,
    /// Style rules for its tables on a narrow page.
    pub(crate) labels: String,
    pub(crate) sections: Vec<Section>,
    /// How to get what does not fit on the page.
    pub(crate) footer: &'a str,
}

/// A section with a heading.
pub(crate) struct Section {
    pub(crate) id: &'static str,
    pub(crate) title: String,
    /// The number that the table of contents shows after the title.
    pub(crate) count: Option<usize>,
    pub(crate) body: String,
}

impl Section {
    /// A section whose title is text.
    pub(crate) fn new(id: &'static str, title: &str, count: Option<usize>, body: String) -> Self {
        Self { id, title: escape(title), count, body }
    }
}

/// Writes the page. It makes no request, and works without its script. One of its sections is `summary`.
pub(crate) fn write(page: &Page<'_>, out: &mut dyn Write) -> io::Result<()> {
    let Page { labels, sections, footer, .. } = page;
    let style = format!("{STYLE}\n@media screen and (max-width: 640px) {{\n{labels}}}\n");
    let (title, heading, mullion) = (escape(page.title), breakable(page.title), escape(page.mullion));
    // The browser applies only this style and runs only this script, even if a name were interpreted as markup.
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
        hash(&style),
        hash(SCRIPT)
    );
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<meta name=\"generator\" content=\"Mullion {mullion}\">\n\
         <title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#summary\">Skip to the summary</a>\n<div class=\"layout\">\n{}<main>\n\
         <h1>{heading}</h1>\n",
        contents(sections),
    )?;
    for section in sections {
        let Section { id, title, body, .. } = section;
        write!(
            out,
            "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\"><a class=\"anchor\" href=\"#{id}\">{title}</a></h2>\n{body}</section>\n"
        )?;
    }
    write!(
        out,
        "<footer><p>Written by Mullion {mullion}. {footer}</p></footer>\n</main>\n</div>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
    )
}

fn contents(sections: &[Section]) -> String {
    let mut out = String::from("<nav aria-label=\"Contents\"><details open><summary>Contents</summary><ul>\n");
    for Section { id, title, count, .. } in sections {
        let count = count.map(|count| format!(" <span class=\"count\">{}</span>", thousands(count)));
        push(
            &mut out,
            format_args!("<li><a href=\"#{id}\"><span>{title}</span>{}</a></li>\n", count.unwrap_or_default()),
        );
    }
    out.push_str("</ul></details></nav>\n");
    out
}

/// The source expression of the Content Security Policy for that text.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(digest(&SHA256, text.as_bytes())))
}
