//! 8xx: what the API server could not decode in a file.
//!
//! For files only. A request that reaches the webhook was decoded by the API server, which rejects wrong types and
//! drops unknown fields. A file still contains both, and the other [`rules`](mod@crate::rules::catalogue) read the
//! fields that they know and skip the rest.
//!
//! [`check`] walks an object along a table of fields (`fields.txt`) that was taken from API servers. It accepts what
//! Go's decoder accepts: null for anything, a number for a quantity, and field names only in their exact letter case
//! (sigs.k8s.io/json, `UnmarshalCaseSensitivePreserveInts`); an integer has no decimal point and fits into its 32 or 64
//! bits. Of what the API server decodes and then rejects by validation it checks only the fields that take a few values
//! (`values.txt`), the values beside [operators](crate::rules::field_types::operators), and an empty `runtimeClassName`.
//! It does not check the text of a time (`creationTimestamp`), or a status, because authors do not write
//! these.

use serde_json::{Map, Value};

use crate::model::json_pointer::{escape, field_path};
use crate::model::names::ALLOW_ANNOTATION;
use crate::model::pod_view::Pod;
use crate::model::quantity::is_quantity;
use crate::model::settings::{Action, Exemptions, Settings};
use crate::model::text::{nearest, shown};
use crate::model::{MinorVersion, WorkloadKind};
use crate::rules::field_types::messages::{self, Newer};
use crate::rules::field_types::operators::OperatorRule;
use crate::rules::field_types::rules::{UNKNOWN_FIELD, UNKNOWN_VALUE, WRONG_TYPE};
use crate::rules::field_types::table::{FieldTable, FieldType, TABLE, Word};
use crate::rules::finding::{Finding, RejectedBy};
use crate::rules::rule::Rule;

/// The maximum number of findings of one rule for an object; one more finding contains the number of those left out.
/// The API server has the same limit (sigs.k8s.io/json, `saveStrictError`), because so many come from one mistake of a
/// generator. The limit applies to each rule, so that a hundred warnings hide no error.
const MOST: usize = 100;

/// What the API server could not decode of `object`, a workload of that kind: wrong types first, then unknown fields,
/// then unknown values, each in the order of the walk.
///
/// A field or a value that is newer than `server`, the version of the API server, is unknown to it. If the version is
/// `None`, nothing in the table is unknown.
///
/// The action is that of the policies if they list these rules, else the rule's default. It is final: `rules.denials`,
/// `rules.templates` and `mode` do not change it, because they are about what Mullion denies, and these objects are
/// rejected by the API server.
pub fn check(kind: WorkloadKind, object: &Value, settings: &Settings, server: Option<MinorVersion>) -> Vec<Finding> {
    let annotation = Pod::of(kind, object).and_then(|pod| pod.annotation(ALLOW_ANNOTATION)).unwrap_or_default();
    let exemptions = Exemptions::in_annotation(annotation);
    let mut walk = Walk {
        table: &TABLE,
        server,
        pointer: String::new(),
        above: Vec::new(),
        wrong: Found::new(&WRONG_TYPE, WRONG_TYPE.default, RejectedBy::ApiServer, &exemptions, settings),
        unknown: Found::new(&UNKNOWN_FIELD, UNKNOWN_FIELD.default, RejectedBy::None, &exemptions, settings),
        misspelled: Found::new(&UNKNOWN_VALUE, UNKNOWN_VALUE.default, RejectedBy::ApiServer, &exemptions, settings),
        other: Found::new(&UNKNOWN_VALUE, Action::Warn, RejectedBy::None, &exemptions, settings),
    };
    walk.value(&TABLE.kind(kind), object);
    let Walk { wrong, unknown, misspelled, other, .. } = walk;
    [wrong, unknown, misspelled, other].into_iter().flat_map(Found::finish).collect()
}

/// One walk through an object. Its depth is limited by the nesting of the types and not by that of the object.
struct Walk<'a> {
    table: &'a FieldTable,
    /// The version of the API server.
    server: Option<MinorVersion>,
    /// The pointer of the current place.
    pointer: String,
    /// The types around it, each with its pointer's length, starting with the object's own.
    above: Vec<(usize, usize)>,
    wrong: Found,
    unknown: Found,
    /// Values that are similar to a known one, and those that their operator does not take.
    misspelled: Found,
    /// Values that may be known to a newer Kubernetes.
    other: Found,
}

impl Walk<'_> {
    fn value(&mut self, shape: &FieldType, value: &Value) {
        match (shape, value) {
            // Go's decoder treats null as absent, and in lists and maps as the empty value.
            (FieldType::Any, _) | (_, Value::Null) => {}
            (FieldType::Object(at), Value::Object(members)) => {
                let table = self.table;
                let Some(object) = table.object(*at) else { return };
                self.above.push((*at, self.pointer.len()));
                for (key, value) in members {
                    self.step(key, |walk| match object.fields.get(key.as_str()) {
                        Some(field) => match walk.newer(field.since) {
                            Some(newer) => walk.unknown.add(&walk.pointer, || newer.field(object, key)),
                            None => walk.value(&field.shape, value),
                        },
                        None => walk.unknown(key),
                    });
                }
                self.above.pop();
                self.operator(object.name, members);
                self.class_name(object.name, members);
            }
            (FieldType::Map(inner), Value::Object(members)) => {
                for (key, value) in members {
                    self.step(key, |walk| walk.value(inner, value));
                }
            }
            (FieldType::List(inner), Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.step(&index.to_string(), |walk| walk.value(inner, item));
                }
            }
            (FieldType::Words(words), Value::String(text)) => self.word(words, text),
            _ if takes(shape, value) => {}
            _ => {
                let Self { table, pointer, wrong, .. } = self;
                wrong.add(pointer, || messages::wrong_type(table, shape, value, field_name(pointer)));
            }
        }
    }

    /// The release that first has a field or a value, if the API server is older.
    fn newer(&self, since: Option<MinorVersion>) -> Option<Newer> {
        since.zip(self.server).filter(|(since, server)| server < since).map(|(since, server)| Newer { since, server })
    }

    fn step(&mut self, token: &str, then: impl FnOnce(&mut Self)) {
        let length = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(&escape(token));
        then(self);
        self.pointer.truncate(length);
    }

    /// Checks a value of a field that takes only some. An empty one is unset.
    fn word(&mut self, words: &[Word], text: &str) {
        if text.is_empty() {
            return;
        }
        if let Some(known) = words.iter().find(|word| word.text == text) {
            if let Some(newer) = self.newer(known.since) {
                self.other.add(&self.pointer, || newer.value(words, text));
            }
            return;
        }
        let meant = nearest(text, words.iter().map(|word| word.text));
        let found = if meant.is_some() { &mut self.misspelled } else { &mut self.other };
        found.add(&self.pointer, || messages::unknown_value(self.table, words, text, meant));
    }

    /// Checks the values beside an operator.
    fn operator(&mut self, object: &str, members: &Map<String, Value>) {
        let Some((rule, operator, count)) = OperatorRule::broken_by(object, members) else { return };
        let length = self.pointer.len();
        // A field that is missing is reported at the object.
        if count > 0 {
            self.pointer.push('/');
            self.pointer.push_str(rule.field);
        }
        self.misspelled.add(&self.pointer, || rule.texts(operator, count));
        self.pointer.truncate(length);
    }

    /// Checks the name of a RuntimeClass, which may be missing and not empty: the API server rejects a template with status
    /// 422, and a pod with 500 up to Kubernetes 1.37 (`plugin/pkg/admission/runtimeclass/admission.go`) and 422 in 1.38.
    fn class_name(&mut self, object: &str, members: &Map<String, Value>) {
        const FIELD: &str = "runtimeClassName";
        if object == "PodSpec" && members.get(FIELD).and_then(Value::as_str) == Some("") {
            self.step(FIELD, |walk| {
                walk.misspelled.add(&walk.pointer, || {
                    (
                        "the API server rejects an empty name".to_owned(),
                        "remove it: without it, a pod has no class".to_owned(),
                    )
                });
            });
        }
    }

    fn unknown(&mut self, key: &str) {
        let Self { table, pointer, above, unknown, .. } = self;
        unknown.add(pointer, || {
            let above: Vec<_> = above.iter().map(|(at, length)| (*at, pointer.get(..*length).unwrap_or(""))).collect();
            messages::unknown_field(table, &above, key)
        });
    }
}

/// Whether the decoder accepts a value that contains no others.
fn takes(shape: &FieldType, value: &Value) -> bool {
    match (shape, value) {
        (FieldType::Text | FieldType::Time | FieldType::IntOrText, Value::String(_))
        | (FieldType::Boolean, Value::Bool(_))
        | (FieldType::Quantity, Value::Number(_)) => true,
        (FieldType::Quantity, Value::String(text)) => is_quantity(text),
        (FieldType::Int64, Value::Number(number)) => number.as_i64().is_some(),
        // A number with a decimal point is not an integer even if it is whole. For 8080.0 in a file kubectl sends 8080,
        // and `manifest` parses it in the same way.
        (FieldType::Int32 | FieldType::IntOrText, Value::Number(number)) => {
            number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
        }
        _ => false,
    }
}

/// The name of the field that a pointer leads to, without list indices.
fn field_name(pointer: &str) -> &str {
    let token = pointer.rsplit('/').find(|token| !token.bytes().all(|byte| byte.is_ascii_digit()));
    token.unwrap_or_default()
}

/// The findings of one rule.
struct Found {
    rule: &'static Rule,
    rejected_by: RejectedBy,
    action: Action,
    findings: Vec<Finding>,
    /// The first finding over the limit, and the number of those over it.
    more: Option<(Finding, usize)>,
}

impl Found {
    /// `default`: the action if no policy sets one.
    fn new(
        rule: &'static Rule,
        default: Action,
        rejected_by: RejectedBy,
        exemptions: &Exemptions<'_>,
        settings: &Settings,
    ) -> Self {
        let action = if settings.exempts(exemptions, rule.code, rule.name) {
            Action::Allow
        } else {
            match settings.action(rule.code, rule.name, default) {
                // A policy set the action by a prefix, and the rule has no repair.
                Action::Repair => default,
                action => action,
            }
        };
        Self { rule, rejected_by, action, findings: Vec::new(), more: None }
    }

    /// Adds a finding; `texts`: message and help.
    fn add(&mut self, pointer: &str, texts: impl FnOnce() -> (String, String)) {
        if self.action == Action::Allow {
            return;
        }
        if let Some((_, count)) = &mut self.more {
            *count += 1;
            return;
        }
        let (message, help) = texts();
        let (path, rejected_by) = (printable_path(pointer), self.rejected_by);
        let finding = Finding::new(self.rule, self.action, pointer.to_owned(), message);
        let finding = Finding { path, help: help.into(), rejected_by, ..finding };
        if self.findings.len() < MOST {
            self.findings.push(finding);
        } else {
            self.more = Some((finding, 1));
        }
    }

    fn finish(self) -> impl Iterator<Item = Finding> {
        let last = self.more.map(|(mut finding, count)| {
            if count > 1 {
                finding.message = format!("this and {} more like it are not listed", count - 1).into();
                finding.help = "fix the findings above first".into();
            }
            finding
        });
        self.findings.into_iter().chain(last)
    }
}

/// The field path for messages. A key can be any text, so it must not break a line or fill a screen.
fn printable_path(pointer: &str) -> String {
    /// A label's key has at most 253 + 1 + 63 characters.
    const LONGEST_KEY: usize = 317;
    let unprintable = |token: &str| token.len() > LONGEST_KEY || token.contains(char::is_control);
    if !pointer.split('/').any(unprintable) {
        return field_path(pointer);
    }
    let tokens: Vec<String> =
        pointer.split('/').map(|token| if unprintable(token) { shown(token) } else { token.to_owned() }).collect();
    field_path(&tokens.join("/"))
}
