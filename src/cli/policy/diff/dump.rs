//! Objects of manifests, or of a whole cluster as `kubectl get -o json` prints it.
//!
//! A dump is JSON and large, so JSON is parsed object by object: its text stays in memory, and the values of one object at
//! a time. Everything else is read like manifests.

use mullion_manifest::object;
use mullion_snapshot::lists::expand;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::cli::documents::ManifestFile;
use crate::cli::input::SourceText;
use crate::cli::object_head::ObjectHead;
use crate::report::InputFailure;

/// Up to this size, in bytes, text that starts with `{` and is not JSON is parsed as YAML, because its errors are more
/// precise.
const SMALL: usize = 1 << 20;

/// One text with its objects.
pub(crate) struct DumpSource<'t> {
    /// Its name and text.
    pub(crate) file: ManifestFile<'t>,
    /// The objects of JSON; `None` for anything else.
    items: Option<Vec<Item<'t>>>,
}

/// An object of JSON, not yet parsed.
struct Item<'t> {
    text: &'t str,
    /// Its kind, or that of the list around it; empty without either.
    kind: String,
}

impl<'t> DumpSource<'t> {
    /// Splits `source` into objects. Text that starts like a dump and is not valid JSON is a failure.
    pub(crate) fn new(source: &'t SourceText) -> Result<Self, InputFailure> {
        let text = source.text.trim_start_matches('\u{feff}');
        let items = if text.trim_start().starts_with('{') {
            match items(text) {
                Ok(items) => Some(items),
                Err(error) if text.len() <= SMALL && !error.is_eof() => None,
                Err(error) => return Err(not_json(source, &error)),
            }
        } else {
            None
        };
        Ok(Self { file: ManifestFile::new(source), items })
    }

    /// Calls `visit` for every object, and `fail` for what cannot be read.
    pub(crate) fn each(
        &self,
        visit: &mut dyn FnMut(DumpObject<'_>) -> anyhow::Result<()>,
        fail: &mut dyn FnMut(InputFailure) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if let Some(items) = &self.items {
            let start = self.file.source.text.as_ptr().addr();
            return items.iter().try_for_each(|item| {
                let start = item.text.as_ptr().addr().saturating_sub(start);
                visit(DumpObject {
                    head: ObjectHead::parse(item.text, Some(&item.kind)),
                    start,
                    body: Body::Text(item.text),
                })
            });
        }
        let broken = self.file.each(|document| {
            let parsed = match document {
                Ok(parsed) => parsed,
                Err(failure) => return fail(failure),
            };
            object::objects(&parsed.document).into_iter().try_for_each(|object| {
                let (head, start, value) = match object {
                    Ok(object) => (ObjectHead::of(&object.value, Some(&object.kind)), object.span.start, object.value),
                    Err(other) => (ObjectHead::default(), other.span.start, Value::Null),
                };
                visit(DumpObject { head, start, body: Body::Value(value) })
            })
        });
        broken.map(drop)
    }
}

/// One object of a source.
pub(crate) struct DumpObject<'s> {
    pub(crate) head: ObjectHead,
    /// The byte at which it begins.
    pub(crate) start: usize,
    body: Body<'s>,
}

enum Body<'s> {
    Text(&'s str),
    Value(Value),
}

impl DumpObject<'_> {
    /// All values of the object.
    pub(crate) fn value(self) -> Value {
        match self.body {
            // The text was checked to be JSON when it was split.
            Body::Text(text) => serde_json::from_str(text).unwrap_or_default(),
            Body::Value(value) => value,
        }
    }
}

// === JSON ===

fn items(text: &str) -> serde_json::Result<Vec<Item<'_>>> {
    let mut found = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        let objects = expand(value?, "").objects;
        found.extend(objects.into_iter().map(|(object, kind)| Item { text: object.get(), kind }));
    }
    Ok(found)
}

fn not_json(source: &SourceText, error: &serde_json::Error) -> InputFailure {
    let message = if error.is_eof() {
        "it ends in the middle of the JSON: the dump is incomplete; write it again".to_owned()
    } else {
        format!("not JSON: {error}; write it again, with kubectl get -o json")
    };
    InputFailure { file: source.name.clone(), place: Some((error.line(), error.column().max(1))), message }
}
