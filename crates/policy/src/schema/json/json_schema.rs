//! JSON Schemas (draft-07) of policy files and test files, for editors and validators.
//!
//! Every file that loads is valid. A schema cannot express the following, which only the loader rejects:
//! - what concerns several documents: duplicate names and kinds, keys that two policies of one priority set;
//! - a release whose `runsFrom` is newer than its `build`;
//! - numbers out of range: a build or a part of a version beyond 32 bits, a whole number beyond 64 bits, a duration
//!   longer than a year;
//! - names with one part that is too long: a key whose domain has more than 253 characters;
//! - hosts in `plainHTTP` that no registry can have;
//! - errors in the YAML itself.

use mullion_manifest::documents;

use crate::load::{max_length, text_pattern};
use crate::schema::json::ordered::{Members, Ordered};
use crate::schema::json::rules::{CHOICES, Choice, REPAIRED};
use crate::schema::kinds::{KINDS, POD_SPEC, TEST_KINDS};
use crate::schema::{API_VERSION, KeyConstraint, SchemaKey, SchemaObject, TextFormat, ValueShape};

/// The dialect: the newest that all editors support, and the one that `SchemaStore` asks for.
const DIALECT: &str = "http://json-schema.org/draft-07/schema#";

/// The schema of a policy file, whose documents may be of any kind.
///
/// It chooses by `kind` with `if` and `then`, not with `oneOf`, so that editors report the wrong key instead of an
/// error that the document matches no kind.
pub fn render_policy_schema() -> String {
    let kinds: Vec<&str> = KINDS.iter().map(|(kind, _)| *kind).collect();
    let docs: Vec<String> = KINDS.iter().map(|(_, object)| plain(kind_doc(object))).collect();
    let kind = Members::default()
        .with("description", "The kind of the document.")
        .with("enum", kinds.clone())
        .with("enumDescriptions", docs);
    let branches = kinds.iter().map(|kind| {
        let chosen = Members::default().with("kind", Members::default().with("const", *kind));
        Members::default()
            .with("if", Members::default().with("required", vec!["kind"]).with("properties", chosen))
            .with("then", Members::default().with("$ref", format!("#/definitions/{kind}")))
    });
    // Only what helps to choose a kind: the schema of the kind contains everything else.
    let version =
        Members::default().with("description", "Version of the policy language.").with("enum", vec![API_VERSION]);
    let root = Members::default()
        .with("title", "Mullion policy")
        .with("description", "One document of a policy file of Mullion.")
        .with("type", "object")
        .with("required", vec!["kind"])
        .with("properties", Members::default().with("apiVersion", version).with("kind", kind))
        .with("allOf", branches.collect::<Vec<_>>())
        .with("defaultSnippets", kinds.iter().map(|kind| skeleton(kind)).collect::<Vec<_>>());
    let of_kinds = KINDS.iter().fold(Members::default(), |defs, (kind, object)| defs.with(*kind, whole(kind, object)));
    print("policy", root, of_kinds)
}

/// The schema of documents of one kind, `PolicyTest` included; `None` if there is no such kind.
pub fn render_kind_schema(name: &str) -> Option<String> {
    let (kind, object) = KINDS.iter().chain(TEST_KINDS.iter()).find(|(kind, _)| *kind == name)?;
    Some(print(kind, whole(kind, object), Members::default()))
}

/// Every kind that has a schema.
pub fn schema_kinds() -> impl Iterator<Item = &'static str> {
    KINDS.iter().chain(TEST_KINDS.iter()).map(|(kind, _)| *kind)
}

fn print(name: &str, schema: Members, defs: Members) -> String {
    // A name, not a location from which to fetch it.
    let whole = Members::default()
        .with("$schema", DIALECT)
        .with("$id", format!("urn:mullion:v1alpha1:{}", name.to_lowercase()))
        .with("$comment", "Made by `mullion policy schema`.")
        .and(schema)
        .with("definitions", CHOICES.iter().fold(defs, |defs, choice| defs.with(choice.name, choice.schema())));
    // It contains only texts and lists, so serialization does not fail.
    let mut text = serde_json::to_string_pretty(&Ordered::from(whole)).unwrap_or_default();
    text.push('\n');
    text
}

fn whole(kind: &str, object: &SchemaObject) -> Members {
    Members::default()
        .with("title", kind)
        .with("description", plain(kind_doc(object)))
        .with("markdownDescription", kind_doc(object))
        .and(map("", object))
}

/// A new document; the cursor goes to `$1`, then to `$2`.
fn skeleton(kind: &str) -> Members {
    let body = Members::default()
        .with("apiVersion", API_VERSION)
        .with("kind", kind)
        .with("metadata", Members::default().with("name", "${1:ours}"))
        .with("spec", "$2");
    Members::default().with("label", kind).with("description", format!("A new {kind}")).with("body", body)
}

/// The documentation of the kind itself.
fn kind_doc(object: &SchemaObject) -> &'static str {
    match object.key("kind").map(|key| &key.shape) {
        Some(ValueShape::Word([only])) => only.doc,
        _ => "",
    }
}

fn map(path: &str, object: &SchemaObject) -> Members {
    let required: Vec<&str> = object.keys.iter().filter(|key| key.required).map(|key| key.name).collect();
    let properties = object.keys.iter().fold(Members::default(), |properties, key| {
        let below = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
        properties.with(key.name, entry(&below, key))
    });
    Members::default()
        .with("type", "object")
        .with_some("required", Some(required).filter(|required| !required.is_empty()))
        .with("additionalProperties", false)
        .with("properties", properties)
        .with_some("allOf", object.constraint.and_then(constraint_schemas))
}

fn entry(path: &str, key: &SchemaKey) -> Members {
    let layers = key.merge.map(str::to_owned);
    let default = key.default();
    let default_text = default.as_deref().map(|default| match default {
        "[]" => "Default: nothing.".to_owned(),
        default => format!("Default: `{default}`."),
    });
    let words = match key.shape {
        ValueShape::Word(words) => words,
        _ => &[],
    };
    let ends = || default_text.iter().chain(&layers);
    let text = std::iter::once(key.doc.to_owned())
        .chain(words.iter().map(|word| format!("- {}: {}", word.word, word.doc)))
        .chain(ends().cloned());
    // Editors list the words themselves.
    let markdown = std::iter::once(key.doc.to_owned()).chain(ends().cloned());
    let text = plain(&text.collect::<Vec<_>>().join("\n"));
    let markdown = markdown.collect::<Vec<_>>().join("\n\n");
    Members::default()
        .with("title", title(path, &key.shape))
        .with("description", text)
        .with("markdownDescription", markdown)
        .and(value(path, &key.shape))
        // Editors would offer an empty list as the value to write, instead of a first entry.
        .with_some("default", default.filter(|default| default != "[]").as_deref().and_then(yaml))
        .with_some("examples", key.example.and_then(yaml).map(|example| vec![example]))
}

/// The key's path, and the keys of a map: editors report `Expected "spec.place.build: {mode}"` for any other value.
fn title(path: &str, shape: &ValueShape) -> String {
    match shape {
        ValueShape::Object(object) | ValueShape::Short(_, object) => {
            let keys: Vec<&str> = object.names().collect();
            format!("{path}: {{{}}}", keys.join(", "))
        }
        ValueShape::Texts(..) | ValueShape::Map => format!("{path}: {{…}}"),
        ValueShape::List(_) | ValueShape::Integer | ValueShape::Word(_) | ValueShape::Text(_) => path.to_owned(),
    }
}

fn value(path: &str, shape: &ValueShape) -> Members {
    match shape {
        ValueShape::Object(object) => map(path, object),
        ValueShape::Short(short, object) => {
            // Every keyword but `type` applies to one type only, so that both forms can be merged.
            let short = value(path, short);
            let types: Vec<Ordered> =
                [short.get("type"), Some(&"object".into())].into_iter().flatten().cloned().collect();
            Members::default().with("type", types).and(short.without("type")).and(map(path, object).without("type"))
        }
        ValueShape::Map => Members::default().with("type", "object"),
        ValueShape::Texts(keys, values) => Members::default()
            .with("type", "object")
            .with_some("propertyNames", Some(text(*keys)).filter(|_| *keys != TextFormat::Any))
            .with("additionalProperties", text(*values)),
        ValueShape::List(item) => {
            let below = format!("{path}[]");
            let title = Members::default().with("title", title(&below, item));
            Members::default().with("type", "array").with("items", title.and(value(&below, item)))
        }
        ValueShape::Integer => Members::default().with("type", "integer"),
        ValueShape::Word(words) => Members::default()
            .with("type", "string")
            .with("enum", words.iter().map(|word| word.word).collect::<Vec<_>>())
            .with("enumDescriptions", words.iter().map(|word| plain(word.doc)).collect::<Vec<_>>())
            .with("markdownEnumDescriptions", words.iter().map(|word| word.doc).collect::<Vec<_>>()),
        ValueShape::Text(form) => text(*form),
    }
}

fn text(form: TextFormat) -> Members {
    if let Some(choice) = Choice::of(form) {
        return choice.reference();
    }
    let pattern = text_pattern(form);
    Members::default()
        .with("type", "string")
        .with_some("maxLength", max_length(form))
        .with_some("pattern", pattern)
        .with_some("patternErrorMessage", pattern.map(|_| format!("This takes {}.", plain(form.expected()))))
}

/// The constraint on keys, as schemas that must all match; `None` if no schema can express it.
fn constraint_schemas(constraint: KeyConstraint) -> Option<Vec<Members>> {
    let one = |key: &str, schema: Members| Members::default().with(key, schema);
    let properties = |key: &str, schema: Members| one("properties", one(key, schema));
    let is = |key: &str, words: &[&str]| {
        properties(key, Members::default().with("enum", words.to_vec())).with("required", vec![key])
    };
    let required = |key: &str| Members::default().with("required", vec![key]);
    let then = |condition: Members, then: Members| Members::default().with("if", condition).with("then", then);
    let none = || Members::default().with("not", Members::default());
    Some(match constraint {
        KeyConstraint::LabelRequirement => {
            let some = properties("values", Members::default().with("minItems", 1)).and(required("values"));
            let empty = properties("values", Members::default().with("maxItems", 0));
            vec![then(is("operator", &["In", "NotIn"]), some), then(is("operator", &["Exists", "DoesNotExist"]), empty)]
        }
        KeyConstraint::Toleration => {
            let empty = properties("value", Members::default().with("maxLength", 0));
            vec![
                then(is("operator", &["Exists"]), empty).with("else", required("key")),
                then(required("tolerationSeconds"), is("effect", &["NoExecute"])),
            ]
        }
        KeyConstraint::RuntimeClass => vec![
            then(is("mode", &["Named"]), required("name")),
            then(is("mode", &["PerRelease", "Never"]), properties("name", none())),
        ],
        KeyConstraint::RuleAction => vec![then(is("action", &["Repair"]), properties("rule", REPAIRED.reference()))],
        KeyConstraint::Release => return None,
        KeyConstraint::Exemption => vec![then(required("until"), exemption(&POD_SPEC))],
    })
}

/// The keys and values that a policy with `until` may set.
fn exemption(object: &SchemaObject) -> Members {
    let limit = |key: &SchemaKey| match (key.exempts, &key.shape) {
        (None, ValueShape::Object(below)) if key.merge.is_none() => Some(exemption(below)),
        (None, _) => key.merge.is_some().then(|| Members::default().with("not", Members::default())),
        (Some(_), ValueShape::List(ValueShape::Object(below))) => {
            Some(Members::default().with("items", exemption(below)))
        }
        (Some([]), _) => None,
        (Some(words), _) => Some(Members::default().with("enum", words.to_vec())),
    };
    let limits = object.keys.iter().filter_map(|key| Some((key.name, limit(key)?)));
    let limits = limits.fold(Members::default(), |limits, (name, limit)| limits.with(name, limit));
    Members::default().with("properties", limits)
}

/// The value of YAML text.
fn yaml(text: &str) -> Option<Ordered> {
    documents("", text).into_iter().find_map(Result::ok).map(|document| Ordered::from(&document.node))
}

/// Markdown without its marks.
fn plain(markdown: &str) -> String {
    markdown.replace('`', "")
}
