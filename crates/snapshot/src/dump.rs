//! Snapshot files: the output of `kubectl get nodes,runtimeclasses,namespaces -o json` (or `-o yaml`), and what
//! registries report about images, which no dump of a cluster contains:
//!
//! ```yaml
//! apiVersion: mullion.dev/v1alpha1
//! kind: ImagePlatforms           # any number of them
//! images:                        # by the reference as pods write it, with the same spelling
//!   registry.example.com/web:1:
//!     index:                     # the platforms of its entries, in their order, attestations left out
//!       - {os: linux, architecture: amd64}
//!       - {os: windows, architecture: amd64, os.version: 10.0.20348.2655}
//!   registry.example.com/job:1:
//!     manifest: {os: windows, architecture: amd64, os.version: 10.0.17763.5830}   # from its config
//! sizes:                         # optional, for a plan: compressed bytes that a node of that build pulls
//!   registry.example.com/web:1: {10.0.20348: 1342177280}
//! absent: [registry.example.com/web:2]        # optional: the registry has no such image
//! unanswered: {registry.example.com/web:3: the registry cannot be reached}     # optional
//! ```
//!
//! Names are those of the OCI image specification: `os`, `architecture`, `variant`, `os.version`, `os.features`.

use mullion_engine::model::cluster::{ClusterSnapshot, Node, NodeParts, Nodes};
use mullion_manifest::{MAX_BYTES, Problem, documents_from_bytes};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::lists::{Expanded, JsonValue, expand};
use crate::{ImagePlatforms, objects};

/// A snapshot, and a count of the file's other objects.
#[derive(Debug, Clone, Default)]
pub struct LoadedDump {
    /// The facts.
    pub snapshot: ClusterSnapshot,
    /// Objects of kinds that are not part of a snapshot; they were ignored.
    pub ignored: usize,
    /// Whether it has a Namespace or a list of them, even an empty one.
    pub has_namespaces: bool,
}

/// How to create a snapshot file, for messages.
const RECIPE: &str = "make one with: kubectl get nodes,runtimeclasses,namespaces -o json";

/// Reads a snapshot file, JSON or YAML, one object or many or Lists of them. `name` is the file's name in messages.
///
/// `nodes` is known if the file has a Node or a `NodeList`, even an empty one; otherwise it stays `None`, and the
/// engine treats the nodes as unknown rather than as absent. The same applies to `runtime_classes`.
pub fn from_text(name: &str, bytes: &[u8]) -> Result<ClusterSnapshot, Box<Problem>> {
    load(name, bytes).map(|loaded| loaded.snapshot)
}

/// Does the same as [`from_text`], with what else is known of the file.
pub fn load(name: &str, bytes: &[u8]) -> Result<LoadedDump, Box<Problem>> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut reader = DumpReader::new(name);
    if let Some(documents) = json_documents(name, bytes)? {
        reader.documents(documents, |text| {
            serde_json::from_str(text.get()).map_err(|error| problem(name, format!("not JSON: {error}")))
        })?;
    } else {
        let documents = yaml_documents(name, bytes)?;
        if documents.is_empty() {
            return Err(problem(name, "the cluster snapshot file is empty".to_owned()));
        }
        reader.documents(documents, Ok)?;
    }
    if reader.taken == 0 && reader.loaded.ignored > 0 {
        return Err(problem(
            name,
            "there is no Node, RuntimeClass or Namespace in it, and no ImagePlatforms".to_owned(),
        ));
    }
    Ok(reader.finish())
}

/// Collects objects one by one, from any source.
#[derive(Debug)]
pub struct DumpReader<'a> {
    name: &'a str,
    nodes: Option<Vec<Node>>,
    parts: NodeParts,
    loaded: LoadedDump,
    /// Objects and lists of the kinds in a snapshot.
    taken: usize,
}

impl<'a> DumpReader<'a> {
    /// An empty reader. `name` is the file's name in messages.
    pub fn new(name: &'a str) -> Self {
        Self { name, nodes: None, parts: NodeParts::default(), loaded: LoadedDump::default(), taken: 0 }
    }

    /// The snapshot of all objects.
    pub fn finish(self) -> LoadedDump {
        let Self { nodes, mut loaded, .. } = self;
        loaded.snapshot.nodes = nodes.map(Nodes::new);
        loaded
    }

    /// Adds the objects of documents, one by one.
    fn documents<T: JsonValue>(
        &mut self,
        documents: Vec<T>,
        parse: impl Fn(T) -> Result<Value, Box<Problem>>,
    ) -> Result<(), Box<Problem>> {
        for document in documents {
            let Expanded { lists, objects } = expand(document, "");
            for kind in &lists {
                self.list(kind);
            }
            for (object, kind) in objects {
                self.object(&parse(object)?, &kind)?;
            }
        }
        Ok(())
    }

    /// Records that all objects of a kind are in the dump, even if there are none.
    pub fn list(&mut self, kind: &str) {
        match kind {
            "Node" => drop(self.nodes.get_or_insert_default()),
            "RuntimeClass" => drop(self.loaded.snapshot.runtime_classes.get_or_insert_default()),
            "Namespace" => self.loaded.has_namespaces = true,
            _ => return,
        }
        self.taken += 1;
    }

    /// Adds one object. `kind` is its own, or that of the list around it: the items of a `NodeList` from the API itself
    /// (`kubectl get --raw`) have no `kind` of their own.
    pub fn object(&mut self, object: &Value, kind: &str) -> Result<(), Box<Problem>> {
        let read = self.add(object, kind).map_err(|error| {
            let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("without a name");
            problem(self.name, format!("{kind} {name} cannot be read: {error}"))
        })?;
        *(if read { &mut self.taken } else { &mut self.loaded.ignored }) += 1;
        Ok(())
    }

    /// Adds one object; `false` for a kind that is not part of a snapshot.
    fn add(&mut self, object: &Value, kind: &str) -> Result<bool, serde_json::Error> {
        let snapshot = &mut self.loaded.snapshot;
        match kind {
            // A virtual node is not part of a snapshot, but proves that nodes were dumped.
            "Node" => {
                let node = objects::node_from_value(object, &mut self.parts)?;
                self.nodes.get_or_insert_default().extend(node);
            }
            "RuntimeClass" => {
                snapshot.runtime_classes.get_or_insert_default().extend([objects::runtime_class_from_value(object)?]);
            }
            "Namespace" => {
                snapshot.namespaces.extend([objects::namespace_from_value(object)?]);
                self.loaded.has_namespaces = true;
            }
            "ImagePlatforms" => snapshot.images.extend(ImagePlatforms::from_value(object)?.images),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// A problem of the file as a whole.
fn problem(file: &str, message: String) -> Box<Problem> {
    Box::new(Problem::of_file(file, message, RECIPE))
}

/// The documents of a JSON file as text; `None` if it must be read as YAML.
fn json_documents<'a>(name: &str, bytes: &'a [u8]) -> Result<Option<Vec<&'a RawValue>>, Box<Problem>> {
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Ok(None);
    }
    // kubectl's JSON of 5,000 nodes has 79 MB, so it is parsed as JSON, without a span for every value.
    match serde_json::Deserializer::from_slice(bytes).into_iter().collect() {
        Ok(documents) => Ok(Some(documents)),
        Err(error) if bytes.len() > MAX_BYTES => {
            let whole = *problem(name, format!("not JSON: {error}"));
            Err(Box::new(Problem { line: error.line(), column: error.column(), ..whole }))
        }
        // YAML may also start with a brace, and broken JSON gets a better error if it is parsed as YAML.
        Err(_) => Ok(None),
    }
}

/// The documents of any other file as plain values.
fn yaml_documents(name: &str, bytes: &[u8]) -> Result<Vec<Value>, Box<Problem>> {
    let documents = documents_from_bytes(name, bytes).into_iter();
    let values = documents.map(|document| document.map(|document| document.json).map_err(Box::new));
    values.filter(|value| !matches!(value, Ok(Value::Null))).collect()
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    const NODE: &str =
        r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w", "labels": {"kubernetes.io/os": "windows"}}}"#;

    fn load_text(text: &str) -> Result<LoadedDump, Box<Problem>> {
        load("snapshot.json", text.as_bytes())
    }

    #[test]
    fn a_kubectl_dump() {
        let text = format!(
            r#"{{"apiVersion": "v1", "kind": "List", "items": [{NODE},
                {{"kind": "RuntimeClass", "metadata": {{"name": "win"}}, "handler": "runhcs-wcow-process"}},
                {{"kind": "Namespace", "metadata": {{"name": "web"}}}},
                {{"kind": "Pod", "metadata": {{"name": "p"}}}}]}}"#
        );
        let LoadedDump { snapshot, ignored, .. } = load_text(&text).unwrap();
        assert_eq!(snapshot.nodes.as_ref().map(Nodes::len), Some(1));
        assert!(snapshot.nodes.unwrap().has_windows());
        let classes = snapshot.runtime_classes.map(|classes| classes.len());
        assert_eq!((classes, snapshot.namespaces.len(), ignored), (Some(1), 1, 1));
    }

    #[test]
    fn yaml_of_the_same() {
        let text = "\
apiVersion: v1
kind: Node
metadata:
  name: w
  labels: {kubernetes.io/os: windows}
spec:
  taints:
  - {key: os, value: Windows, effect: NoSchedule}
---
# nothing here
---
kind: NamespaceList
items:
- metadata: {name: web}
";
        let snapshot = from_text("snapshot.yaml", text.as_bytes()).unwrap();
        let nodes = snapshot.nodes.unwrap();
        assert_eq!(nodes.windows_taints().iter().next().unwrap().0.to_string(), "os=Windows:NoSchedule");
        assert!(snapshot.namespaces.contains_key("web"));
    }

    #[test]
    fn nodes_are_known_if_the_file_contains_them() {
        let virtual_node = r#"{"kind": "Node", "metadata": {"name": "aci", "labels": {"type": "virtual-kubelet"}}}"#;
        let cases = [
            (r#"{"kind": "NodeList", "items": []}"#, Some(0)),
            (r#"{"kind": "NodeList", "items": [{"metadata": {"name": "n"}}]}"#, Some(1)),
            (NODE, Some(1)),
            (virtual_node, Some(0)),
            (r#"{"kind": "NamespaceList", "items": []}"#, None),
            (r#"{"kind": "List", "items": []}"#, None),
        ];
        for (text, expected) in cases {
            assert_eq!(load_text(text).unwrap().snapshot.nodes.map(|nodes| nodes.len()), expected, "{text}");
        }
    }

    #[test]
    fn runtime_classes_are_known_if_the_file_contains_them() {
        let cases = [
            (r#"{"kind": "RuntimeClassList", "items": []}"#, Some(0)),
            (r#"{"kind": "RuntimeClassList", "items": [{"metadata": {"name": "a"}, "handler": "h"}]}"#, Some(1)),
            (r#"{"kind": "RuntimeClass", "metadata": {"name": "a"}, "handler": "h", "overhead": null}"#, Some(1)),
            (r#"{"kind": "NodeList", "items": []}"#, None),
            (NODE, None),
        ];
        for (text, expected) in cases {
            let classes = load_text(text).unwrap().snapshot.runtime_classes;
            assert_eq!(classes.map(|classes| classes.len()), expected, "{text}");
        }
    }

    #[test]
    fn images() {
        let text = "\
kind: ImagePlatforms
images:
  a:1:
    index:
      - {os: windows, architecture: amd64, os.version: 10.0.20348.1, os.features: [win32k]}
      - {os: linux, architecture: arm64, variant: v8}
  b:1:
    manifest: {os: windows}
---
kind: ImagePlatforms
images: {c: {index: []}}
";
        let images = load_text(text).unwrap().snapshot.images;
        assert_eq!(images.keys().collect::<Vec<_>>(), ["a:1", "b:1", "c"]);
        let (a, b) = (&images["a:1"], &images["b:1"]);
        assert_eq!((a.index, a.entries.len(), b.index, b.entries.len()), (true, 2, false, 1));
        let first = &a.entries[0];
        assert_eq!((first.os.as_str(), first.architecture.as_str()), ("windows", "amd64"));
        assert_eq!(
            (first.os_version.as_deref(), &*first.os_features),
            (Some("10.0.20348.1"), &["win32k".to_owned()][..])
        );
        assert_eq!((b.entries[0].architecture.as_str(), &b.entries[0].os_version), ("", &None));
    }

    #[test]
    fn malformed_images_are_reported() {
        for (images, expected) in [
            ("{a: {index: [{os: windows, osVersion: 10.0.1.1}]}}", "unknown field `osVersion`"),
            ("{a: {index: [{architecture: amd64}]}}", "missing field `os`"),
            ("{a: {manifest: [{os: windows}]}}", "invalid"),
            ("{a: {platforms: []}}", "unknown variant `platforms`, expected `index` or `manifest`"),
            ("[]", "invalid type"),
        ] {
            let text = format!("kind: ImagePlatforms\nimages: {images}\n");
            let error = load_text(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{images}: {error}");
        }
        let error = load_text("kind: ImagePlatforms\nimage: {}\n").unwrap_err().to_string();
        assert!(error.contains("missing field `images`"), "{error}");
    }

    #[test]
    fn several_json_objects_in_a_row() {
        let text = format!("{NODE}\n{}", NODE.replace("\"w\"", "\"x\""));
        assert_eq!(load_text(&text).unwrap().snapshot.nodes.unwrap().len(), 2);
    }

    #[test]
    fn errors_of_bad_files_have_a_hint() {
        let cases: [(&[u8], &str); 9] = [
            (b"", "empty"),
            (b"   \n", "empty"),
            (b"{\"kind\": \"Node\",\n  oops: [}", "snapshot:2:"),
            (b"{\"kind\": \"Deployment\", \"metadata\": {}}", "no Node, RuntimeClass or Namespace"),
            (b"just words", "no Node, RuntimeClass or Namespace"),
            (b"kind: Node\nmetadata:\n  labels: {}\n", "Node without a name cannot be read: metadata.name is missing"),
            (
                b"kind: RuntimeClass\nmetadata: {name: kata}\n",
                "RuntimeClass kata cannot be read: missing field `handler`",
            ),
            (b"\xff\xfe{\x00", "UTF-16"),
            (b"a: [", "snapshot:1:"),
        ];
        for (bytes, expected) in cases {
            let text = load("snapshot", bytes).unwrap_err().to_string();
            assert!(text.contains(expected) && text.starts_with("snapshot:"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn half_a_file_never_panics(cut in 0usize..400, byte in any::<u8>()) {
            let mut bytes = format!("{{\"kind\": \"List\", \"items\": [{NODE}]}}").into_bytes();
            // Without the last brace the text may be valid again.
            let whole = cut + 1 >= bytes.len();
            bytes.truncate(cut);
            bytes.push(byte);
            prop_assert!(load("snapshot", &bytes).is_err() || whole);
        }
    }
}
