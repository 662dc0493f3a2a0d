//! Parts of a picture.

use crate::report::html::escape::escape;
use crate::report::html::table::push;

/// Text that begins at `x`.
pub(crate) fn label(svg: &mut String, x: usize, y: usize, class: &str, text: &str) {
    push(svg, format_args!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>\n", escape(text)));
}

/// Text that is centered at `x`.
pub(crate) fn centred(svg: &mut String, x: usize, y: usize, class: &str, text: &str) {
    push(
        svg,
        format_args!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{}</text>\n", escape(text)),
    );
}
