//! Parts of a picture.

use maud::{Markup, html};

use crate::report::document::html::Exact;

/// The picture itself, with a title and a description for screen readers. `name` begins their identifiers.
pub(crate) fn picture(name: &str, size: (usize, usize), title: &str, description: &str, parts: &[Markup]) -> Markup {
    let (title_id, text_id) = (format!("{name}-title"), format!("{name}-text"));
    html! {
        svg viewBox=(format!("0 0 {} {}", size.0, size.1)) role="img" aria-labelledby=(format!("{title_id} {text_id}"))
            xmlns="http://www.w3.org/2000/svg" {
            title id=(title_id) { (title) }
            desc id=(text_id) { (Exact(description)) }
            @for part in parts { (part) "\n" }
        }
    }
}

/// Text that begins at `x`.
pub(crate) fn label(x: usize, y: usize, class: &str, text: &str) -> Markup {
    html! { text class=(class) x=(x) y=(y) { (Exact(text)) } }
}

/// Text that is centered at `x`.
pub(crate) fn centred(x: usize, y: usize, class: &str, text: &str) -> Markup {
    html! { text class=(class) x=(x) y=(y) text-anchor="middle" { (Exact(text)) } }
}

/// A rectangle with round corners.
pub(crate) fn rect(class: &str, (x, y): (usize, usize), (width, height): (usize, usize), round: usize) -> Markup {
    html! { rect class=(class) x=(x) y=(y) width=(width) height=(height) rx=(round) {} }
}

/// A line from side to side.
pub(crate) fn line(width: usize, y: usize) -> Markup {
    html! { line class="line" x1="0" x2=(width) y1=(y) y2=(y) {} }
}
