//! Policies in ConfigMap manifests from Git, `helm template` or `kubectl get -o yaml`.

use std::ops::Range;

use mullion_manifest::{ManifestDocuments, ManifestEntry, ManifestNode, NodeValue, documents};

use crate::config_map::holds_policies;
use crate::file_names::is_policy_file;
use crate::policy_file::PolicyFile;

/// The beginning of `apiVersion` of every policy.
const OURS: &str = "mullion.dev/v";

/// Turns a file of manifests into policy files: if it contains a ConfigMap with policies, the result is the policies of
/// the ConfigMap and of the file, without anything else. Any other file is returned unchanged.
///
/// Policies keep their places in the manifest: everything else becomes blank. That works for `key: |`. Text in another
/// style (in quotes, in JSON) becomes a separate file with both names, with lines counted from its own beginning.
pub fn unpack_manifests(file: PolicyFile) -> Vec<PolicyFile> {
    let Ok(text) = std::str::from_utf8(&file.bytes) else { return vec![file] };
    if !text.contains("ConfigMap") || !text.contains("mullion.dev/") {
        return vec![file];
    }
    // The loader reports a broken document.
    let Ok(all) = documents(&file.name, text).into_iter().collect::<Result<Vec<_>, _>>() else { return vec![file] };
    let mut blank = BlankedText::new(text);
    let (mut found, mut apart) = (false, Vec::new());
    for document in &all {
        let mut maps = Vec::new();
        collect_config_maps(&document.node, &mut maps);
        for entry in maps.iter().flat_map(|map| keys(map)) {
            found = true;
            let value = entry.value.as_str().unwrap_or_default();
            if !blank.copy_block(entry, value) {
                let name = format!("{} (data[{}])", file.name, entry.key);
                apart.push(PolicyFile { name, bytes: value.as_bytes().to_owned() });
            }
        }
        let version = document.json.get("apiVersion").and_then(|version| version.as_str());
        if version.is_some_and(|version| version.starts_with(OURS)) {
            blank.copy(document.span.range());
        }
    }
    if !found {
        return vec![file];
    }
    let in_place = blank.any.then(|| PolicyFile { name: file.name.clone(), bytes: blank.bytes });
    in_place.into_iter().chain(apart).collect()
}

/// Collects the ConfigMaps with policies: those that have the label, or a key with a policy.
fn collect_config_maps<'n>(node: &'n ManifestNode, found: &mut Vec<&'n ManifestNode>) {
    let kind = node.get("kind").and_then(|kind| kind.value.as_str()).unwrap_or_default();
    if kind == "ConfigMap" {
        let mentions = |entry: &ManifestEntry| entry.value.as_str().is_some_and(|text| text.contains(OURS));
        if holds_policies(&node.to_json()) || keys(node).any(mentions) {
            found.push(node);
        }
    } else if let Some(ManifestEntry { value: ManifestNode { value: NodeValue::List(items), .. }, .. }) =
        node.get("items")
    {
        for item in items {
            collect_config_maps(item, found);
        }
    }
}

/// The keys that become policy files in a mount.
fn keys(map: &ManifestNode) -> impl Iterator<Item = &ManifestEntry> {
    let entries = match map.get("data").map(|data| &data.value.value) {
        Some(NodeValue::Map(entries)) => entries.as_slice(),
        _ => &[],
    };
    entries.iter().filter(|entry| is_policy_file(entry.key.as_ref()) && entry.value.as_str().is_some())
}

/// A text with blanks instead of all bytes that were not copied.
struct BlankedText<'t> {
    text: &'t str,
    bytes: Vec<u8>,
    any: bool,
}

impl<'t> BlankedText<'t> {
    fn new(text: &'t str) -> Self {
        let blank = |byte: u8| if matches!(byte, b'\n' | b'\r') { byte } else { b' ' };
        Self { text, bytes: text.bytes().map(blank).collect(), any: false }
    }

    fn copy(&mut self, at: Range<usize>) {
        if let (Some(to), Some(from)) = (self.bytes.get_mut(at.clone()), self.text.as_bytes().get(at)) {
            to.copy_from_slice(from);
            self.any = true;
        }
    }

    /// Copies the literal block of an entry as documents of the file; `false` if it is not one, or is empty.
    fn copy_block(&mut self, entry: &ManifestEntry, value: &str) -> bool {
        let span = entry.value.span;
        let block = self.text.get(span.range()).unwrap_or_default();
        let Some((_, lines)) = block.split_once('\n').filter(|_| block.starts_with('|')) else { return false };
        let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
        let filled = lines.lines().filter(|line| !line.trim().is_empty());
        let Some(indent) = filled.map(indent).min().filter(|indent| *indent > 0) else { return false };
        // The text without its indentation must be equal to the parsed value.
        let plain = |line: &'t str| line.get(indent..).unwrap_or_default();
        let same = lines.lines().map(plain).collect::<Vec<_>>().join("\n").trim_end() == value.trim_end();
        if !same || ManifestDocuments::new("", value).nodes().next().is_none() {
            return false;
        }
        // A document begins at the line of the key, and at each document marker inside the block.
        let start = self.text.get(..span.start).map_or(0, |before| before.rfind('\n').map_or(0, |at| at + 1));
        self.mark(start);
        let mut at = span.start + (block.len() - lines.len());
        for line in lines.split_inclusive('\n') {
            self.copy(at..at + line.len());
            if line.get(indent..).is_some_and(|line| line.starts_with("---") || line.starts_with("...")) {
                self.unindent(at, indent);
            }
            at += line.len();
        }
        true
    }

    fn mark(&mut self, at: usize) {
        if let Some(place) = self.bytes.get_mut(at..at + 3) {
            place.copy_from_slice(b"---");
        }
    }

    /// Moves three characters to the start of their line.
    fn unindent(&mut self, at: usize, by: usize) {
        if let Some(place) = self.bytes.get_mut(at..at + by + 3) {
            place.rotate_left(by);
        }
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::json;

    use super::*;
    use crate::policy_file::PolicyFiles;
    use crate::policy_set::PolicySet;

    fn problems(text: &str) -> Vec<String> {
        let file = PolicyFile { name: "cm.yaml".to_owned(), bytes: text.as_bytes().to_owned() };
        let files = PolicyFiles { texts: unpack_manifests(file), problems: Vec::new() };
        let problems = PolicySet::load(&files).err().unwrap_or_default();
        problems.iter().map(ToString::to_string).collect()
    }

    const POLICY: &str =
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: NAME}\nspec: {priority: 7, mod: Audit}\n";

    fn block(text: &str, indent: usize) -> String {
        text.lines().flat_map(|line| [" ".repeat(indent), line.to_owned(), "\n".to_owned()]).collect()
    }

    #[test]
    fn policies_keep_their_places_in_the_manifest() {
        let both = format!("# ü\n{}---\n{}", POLICY.replace("NAME", "a"), POLICY.replace("NAME", "b"));
        let map = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata:\n  README.md: none\n  a.yaml: |\n{}  b.yaml: |-\n{}",
            block(&both, 4),
            block(&POLICY.replace("NAME", "c"), 6)
        );
        let other = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n";
        let text = format!("{other}---\n{map}---\n{}", POLICY.replace("NAME", "d"));
        for text in [text.clone(), text.replace('\n', "\r\n")] {
            let found = problems(&text);
            assert_eq!(found.len(), 4, "{found:#?}");
            for (at, (line, column)) in [(15, 25), (20, 25), (25, 27), (30, 21)].iter().enumerate() {
                assert!(
                    found[at].starts_with(&format!("cm.yaml:{line}:{column}: `spec` has no key `mod`")),
                    "{found:#?}"
                );
                let written = text.lines().nth(line - 1).unwrap();
                assert_eq!(written.find("mod:"), Some(column - 1), "{written}");
            }
        }
        assert!(problems(&text.replace(", mod: Audit", ", mode: Audit")).iter().all(|it| it.contains("both set")));
    }

    #[test]
    fn text_that_is_not_a_block_becomes_a_separate_file() {
        let policy = POLICY.replace("NAME", "a");
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a.yaml": policy, "b.test.yaml": policy}});
        let list =
            json!({"apiVersion": "v1", "kind": "List", "items": [map, {"apiVersion": "v1", "kind": "ConfigMap"}]});
        for text in [map.to_string(), list.to_string()] {
            let found = problems(&text);
            assert_eq!(found.len(), 1, "{found:#?}");
            assert!(found[0].starts_with("cm.yaml (data[a.yaml]):4:21: `spec` has no key `mod`"), "{found:#?}");
        }
    }

    #[test]
    fn an_empty_key_is_reported() {
        let map =
            "kind: ConfigMap\nmetadata: {labels: {mullion.dev/policy: 'true'}}\ndata:\n  a.yaml: |\n    # to come\n";
        let found = problems(map);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].starts_with("cm.yaml (data[a.yaml]):1:1: the file contains no policy"), "{found:#?}");
    }

    #[test]
    fn any_other_file_is_unchanged() {
        let policy = POLICY.replace("NAME", "a");
        let broken = format!("kind: ConfigMap\ndata:\n  a.yaml: |\n{}---\na: [\n", block(&policy, 4));
        for text in [policy.as_str(), &broken, "kind: ConfigMap # mullion.dev\ndata: {a.yaml: 'x: 1'}\n"] {
            let file = PolicyFile { name: "x.yaml".to_owned(), bytes: text.as_bytes().to_owned() };
            assert_eq!(unpack_manifests(file.clone()), [file]);
        }
    }
}
