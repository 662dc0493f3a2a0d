//! What is judged: manifests, or a whole cluster as `kubectl get -o json` prints it.
//!
//! A dump is JSON and large, so JSON is taken apart object by object: its text stays in memory, and of its values those of
//! one object at a time. Everything else is read as manifests are.

use std::borrow::Cow;
use std::collections::BTreeMap;

use mullion_engine::model::workload::WorkloadKind;
use mullion_manifest::object;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::cli::documents::File;
use crate::cli::input::SourceText;
use crate::report::Failure;

/// How many lists of lists are looked into, as in manifests.
const MAX_LISTS: usize = 4;

/// Up to this size text that starts with `{` and is no JSON is read as YAML, which tells better what is wrong; in bytes.
const SMALL: usize = 1 << 20;

/// One text with its objects.
pub(crate) struct Source<'t> {
    /// Its name and text.
    pub(crate) file: File<'t>,
    /// The objects of JSON; `None` for anything else.
    items: Option<Vec<Item<'t>>>,
}

/// An object of JSON, still text.
struct Item<'t> {
    text: &'t str,
    /// What the list around it says that it is.
    kind: Option<String>,
}

/// What an object is called, and whose it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// Empty where it has none, as in a list of one kind.
    api_version: String,
    /// Empty where it has none.
    pub(crate) kind: String,
    /// `metadata.namespace`.
    pub(crate) namespace: Option<String>,
    /// `metadata.name`, else `metadata.generateName`; empty without either.
    pub(crate) name: String,
    /// Kind and name of its controller.
    pub(crate) owner: Option<(String, String)>,
    /// Label `pod-template-hash`: how a Deployment's `ReplicaSet` is called after its own name.
    pub(crate) hash: Option<String>,
}

impl<'t> Source<'t> {
    /// Takes `source` apart. Text that starts like a dump and is none is a failure.
    pub(crate) fn new(source: &'t SourceText) -> Result<Self, Failure> {
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
        Ok(Self { file: File::new(source), items })
    }

    /// Shows `see` every object; what cannot be read goes to `fail`.
    pub(crate) fn each(
        &self,
        see: &mut dyn FnMut(Object<'_>) -> anyhow::Result<()>,
        fail: &mut dyn FnMut(Failure) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let Some(items) = &self.items else {
            return self.manifests(see, fail).map(drop);
        };
        let start = self.file.source.text.as_ptr().addr();
        for item in items {
            let start = item.text.as_ptr().addr().saturating_sub(start);
            see(Object { head: Head::read(item), start, body: Body::Text(item.text) })?;
        }
        Ok(())
    }

    fn manifests(
        &self,
        see: &mut dyn FnMut(Object<'_>) -> anyhow::Result<()>,
        fail: &mut dyn FnMut(Failure) -> anyhow::Result<()>,
    ) -> anyhow::Result<usize> {
        self.file.each(|document| {
            let parsed = match document {
                Ok(parsed) => parsed,
                Err(failure) => return fail(failure),
            };
            for object in object::objects(&parsed.document) {
                see(match object {
                    Ok(object) => Object {
                        head: Head::of(&object.value, Some(&object.kind)),
                        start: object.span.start,
                        body: Body::Value(object.value),
                    },
                    Err(none) => {
                        Object { head: Head::default(), start: none.span.start, body: Body::Value(Value::Null) }
                    }
                })?;
            }
            Ok(())
        })
    }
}

/// One object of a source.
pub(crate) struct Object<'s> {
    pub(crate) head: Head,
    /// The byte at which it begins.
    pub(crate) start: usize,
    body: Body<'s>,
}

enum Body<'s> {
    Text(&'s str),
    Value(Value),
}

impl Object<'_> {
    /// All of it.
    pub(crate) fn value(self) -> Value {
        match self.body {
            // It was found to be JSON when its text was taken apart.
            Body::Text(text) => serde_json::from_str(text).unwrap_or_default(),
            Body::Value(value) => value,
        }
    }
}

impl Head {
    /// What it is, if it is or carries a pod.
    pub(crate) fn workload_kind(&self) -> Option<WorkloadKind> {
        WorkloadKind::of_object(&self.api_version, &self.kind)
    }

    fn read(item: &Item<'_>) -> Self {
        let kind = item.kind.as_deref();
        match serde_json::from_str::<Quick<'_>>(item.text) {
            Ok(quick) => quick.head(kind),
            // A key twice, or a value of another type.
            Err(_) => Self::of(&serde_json::from_str(item.text).unwrap_or_default(), kind),
        }
    }

    fn of(value: &Value, kind: Option<&str>) -> Self {
        let text = |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let owners = value.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let owner = owners.into_iter().flatten().find(|owner| owner.get("controller") == Some(&Value::Bool(true)));
        Self {
            api_version: text(value, "/apiVersion").unwrap_or_default(),
            kind: text(value, "/kind").or(kind.map(str::to_owned)).unwrap_or_default(),
            namespace: text(value, "/metadata/namespace"),
            name: text(value, "/metadata/name").or_else(|| text(value, "/metadata/generateName")).unwrap_or_default(),
            owner: owner.and_then(|owner| Some((text(owner, "/kind")?, text(owner, "/name")?))),
            hash: text(value, "/metadata/labels/pod-template-hash"),
        }
    }
}

/// The head of an object as it mostly is, at a tenth of the cost of all its values.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Quick<'t> {
    #[serde(borrow)]
    api_version: Option<Cow<'t, str>>,
    #[serde(borrow)]
    kind: Option<Cow<'t, str>>,
    #[serde(borrow)]
    metadata: Option<QuickMetadata<'t>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QuickMetadata<'t> {
    #[serde(borrow)]
    name: Option<Cow<'t, str>>,
    #[serde(borrow)]
    generate_name: Option<Cow<'t, str>>,
    #[serde(borrow)]
    namespace: Option<Cow<'t, str>>,
    #[serde(borrow)]
    owner_references: Option<Vec<QuickOwner<'t>>>,
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct QuickOwner<'t> {
    #[serde(borrow)]
    kind: Cow<'t, str>,
    #[serde(borrow)]
    name: Cow<'t, str>,
    controller: Option<bool>,
}

impl Quick<'_> {
    fn head(self, kind: Option<&str>) -> Head {
        let Quick { api_version, kind: own, metadata } = self;
        let api_version = api_version.map(Cow::into_owned).unwrap_or_default();
        let kind = own.map(Cow::into_owned).or(kind.map(str::to_owned)).unwrap_or_default();
        let Some(metadata) = metadata else { return Head { api_version, kind, ..Head::default() } };
        let owner = metadata.owner_references.into_iter().flatten().find(|owner| owner.controller == Some(true));
        Head {
            api_version,
            kind,
            namespace: metadata.namespace.map(Cow::into_owned),
            name: metadata.name.or(metadata.generate_name).map(Cow::into_owned).unwrap_or_default(),
            owner: owner.map(|owner| (owner.kind.into_owned(), owner.name.into_owned())),
            hash: metadata.labels.and_then(|mut labels| labels.remove("pod-template-hash")),
        }
    }
}

// === JSON ===

/// A list, its items still text.
#[derive(Deserialize)]
struct List<'t> {
    kind: Cow<'t, str>,
    #[serde(borrow)]
    items: Option<Vec<&'t RawValue>>,
}

fn items(text: &str) -> serde_json::Result<Vec<Item<'_>>> {
    let mut found = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        expand(value?.get(), None, MAX_LISTS, &mut found);
    }
    Ok(found)
}

fn expand<'t>(text: &'t str, kind: Option<&str>, lists: usize, found: &mut Vec<Item<'t>>) {
    if lists > 0
        && let Ok(List { kind, items: Some(items) }) = serde_json::from_str::<List<'t>>(text)
        && let Some(of) = kind.strip_suffix("List")
    {
        for item in items {
            expand(item.get(), Some(of).filter(|of| !of.is_empty()), lists - 1, found);
        }
        return;
    }
    // An empty list, as the API server prints one.
    let empty = |kind: &str| kind.ends_with("List");
    if serde_json::from_str::<List<'t>>(text).is_ok_and(|list| empty(&list.kind)) {
        return;
    }
    found.push(Item { text, kind: kind.map(str::to_owned) });
}

fn not_json(source: &SourceText, error: &serde_json::Error) -> Failure {
    let message = if error.is_eof() {
        "it ends in the middle of the JSON: whatever wrote it was cut off; write it again".to_owned()
    } else {
        format!("no JSON: {error}; write it again, with kubectl get -o json")
    };
    Failure { file: source.name.clone(), place: Some((error.line(), error.column().max(1))), message }
}
