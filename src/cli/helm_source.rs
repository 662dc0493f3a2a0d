//! The template of a document that Helm rendered: `helm template` writes `# Source: chart/templates/web.yaml` above it.

use mullion_manifest::ManifestDocument;

/// What precedes the name.
const SOURCE: &str = "# Source: ";

/// The lines above a document that are read: Helm writes the name into the first one.
const MAX_LINES: usize = 20;

/// The longest name that is a path. Linux has no longer ones.
const MAX_NAME: usize = 4096;

/// The template of `document` of `text`.
pub(crate) fn template_of<'t>(text: &'t str, document: &ManifestDocument) -> Option<&'t str> {
    let above = text.get(document.span.start..document.node.span.start)?;
    let name = above.lines().take(MAX_LINES).find_map(|line| line.strip_prefix(SOURCE))?.trim();
    (!name.is_empty() && name.len() <= MAX_NAME).then_some(name)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use mullion_manifest::documents;

    use super::*;

    #[test]
    fn the_comment_above_a_document_names_its_template() {
        let long = format!("# Source: {}\na: 1\n", "x".repeat(1 << 20));
        for (text, expected) in [
            ("---\n# Source: web/templates/a.yaml\na: 1\n", Some("web/templates/a.yaml")),
            ("# Source: web/templates/a.yaml\r\na: 1\r\n", Some("web/templates/a.yaml")),
            ("---\n# x\n\n# Source: b\na: 1\n", Some("b")),
            ("---\na: 1\n# Source: b\n", None),
            ("a: |\n  # Source: b\n", None),
            ("# Source: \na: 1\n", None),
            ("#Source: b\na: 1\n", None),
            (&long, None),
        ] {
            let document = documents("t.yaml", text).remove(0).unwrap();
            assert_eq!(template_of(text, &document), expected, "{text:.40}");
        }
        let two = "# Source: a\na: 1\n---\nb: 1\n";
        let second = documents("t.yaml", two).remove(1).unwrap();
        assert_eq!(template_of(two, &second), None);
    }
}
