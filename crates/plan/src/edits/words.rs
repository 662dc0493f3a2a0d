//! Edits as sentences, for objects that are not changed with a patch.

use mullion_engine::model::text::{list_with, unquoted};

use crate::report::FieldEdit;

/// `set a to b, remove c and add d to e`.
pub(super) fn in_words(edits: &[FieldEdit], open: &[String], images: &str) -> String {
    let edit = |edit: &FieldEdit| match (&edit.before, &edit.after) {
        (_, None) => format!("remove {}", edit.path),
        (None, Some(after)) if edit.path.ends_with(']') && after.is_object() => {
            let list = edit.path.rsplit_once('[').map_or(edit.path.as_str(), |(list, _)| list);
            format!("add {} to {list}", unquoted(after))
        }
        (_, Some(after)) => format!("set {} to {}", edit.path, unquoted(after)),
    };
    let open = open.iter().map(|name| format!("set the image of {name} to {images}"));
    list_with(edits.iter().map(edit).chain(open), "and")
}
