//! Each key of the table, valid and invalid: the schema and the loader agree.

use mullion_engine::model::settings::{NodeSettings, Settings};
use mullion_policy::schema::{API_VERSION, KINDS, KeyConstraint, SchemaKey, SchemaObject, ValueShape};
use mullion_policy::{PolicySet, RegistryPolicy};
use serde_json::{Map, Value, json};

use crate::agree::{both, disagreement};
use crate::generate::{of_other_types, texts};

/// Puts a value into a document that is otherwise valid.
type Put<'a> = &'a dyn Fn(Value) -> Value;

#[test]
fn schema_and_loader_agree_on_each_key() {
    let mut judged = Judged::default();
    for (kind, object) in KINDS.iter() {
        let shape = ValueShape::Object(object);
        judged.shape(kind, &shape, &|document| document);
    }
    assert!(judged.complaints.is_empty(), "{:#?}", judged.complaints);
    assert!(judged.good > 150 && judged.bad > 1000, "{} good, {} bad", judged.good, judged.bad);
}

#[derive(Default)]
struct Judged {
    good: usize,
    bad: usize,
    complaints: Vec<String>,
}

impl Judged {
    fn good(&mut self, at: &str, document: &Value) {
        self.good += 1;
        if both(document) != (true, true) {
            self.complaints.push(format!("{at} is good: {}", disagreement(document)));
        }
    }

    fn bad(&mut self, at: &str, document: &Value) {
        self.bad += 1;
        if both(document) != (false, false) {
            self.complaints.push(format!("{at} is bad: {}", disagreement(document)));
        }
    }

    fn shape(&mut self, at: &str, shape: &ValueShape, put: Put<'_>) {
        for value in values(shape) {
            self.good(at, &put(value));
        }
        for value in of_other_types().into_iter().filter(|value| !takes(shape, value)) {
            self.bad(at, &put(value));
        }
        match shape {
            ValueShape::Object(object) => self.object(at, object, put),
            ValueShape::Short(short, object) => {
                self.shape(at, short, put);
                self.object(at, object, put);
            }
            ValueShape::List(item) => self.shape(&format!("{at}[]"), item, &|value| put(json!([value]))),
            ValueShape::Texts(keys, value) => {
                for text in texts(*keys).1 {
                    if texts(*keys).0 != ["x", "", "a b"] {
                        self.bad(at, &put(json!({*text: texts(*value).0[0]})));
                    }
                }
                self.shape(at, &ValueShape::Text(*value), &|value| put(json!({"x": value})));
            }
            ValueShape::Word(words) => {
                for wrong in ["", "Unknown", &words[0].word.to_uppercase(), &format!("{} ", words[0].word)] {
                    if words.iter().all(|word| word.word != wrong) {
                        self.bad(at, &put(json!(wrong)));
                    }
                }
            }
            ValueShape::Text(form) => {
                for text in texts(*form).1 {
                    // Values that can be either are tested with generated documents.
                    if both(&put(json!(text))) != (true, true) {
                        self.bad(at, &put(json!(text)));
                    }
                }
            }
            ValueShape::Map | ValueShape::Integer => {}
        }
    }

    fn object(&mut self, at: &str, object: &'static SchemaObject, put: Put<'_>) {
        let base = required(object);
        for key in object.keys {
            let at = format!("{at}.{}", key.name);
            let with = |value| put(Value::Object(fit(&base, key, value)));
            self.shape(&at, &key.shape, &with);
            if key.required {
                let mut without = base.clone();
                without.remove(key.name);
                self.bad(&format!("without {at}"), &put(Value::Object(without)));
            }
            for (what, text) in [("default", key.default()), ("example", key.example.map(str::to_owned))] {
                if let Some(text) = text {
                    self.good(&format!("{what} of {at}"), &with(yaml(&text)));
                }
            }
        }
        for unknown in ["unknown", "Mode", "specs", ""] {
            let mut more = base.clone();
            more.insert(unknown.to_owned(), json!("x"));
            self.bad(&format!("{at} with {unknown:?}"), &put(Value::Object(more)));
        }
    }
}

pub fn yaml(text: &str) -> Value {
    mullion_manifest::documents("", text).remove(0).unwrap_or_else(|problem| panic!("{text}: {problem}")).json
}

/// A value for each required key, and what the rule between keys also requires.
fn required(object: &SchemaObject) -> Map<String, Value> {
    let keys = object.keys.iter().filter(|key| key.required);
    let mut map: Map<_, _> = keys.map(|key| (key.name.to_owned(), values(&key.shape)[0].clone())).collect();
    match object.constraint {
        Some(KeyConstraint::LabelRequirement) => map.extend([("values".to_owned(), json!(["x"]))]),
        Some(KeyConstraint::Toleration) => map.extend([("key".to_owned(), json!("x"))]),
        Some(KeyConstraint::Release) => {
            map.extend([("build".to_owned(), json!("10.0.29000")), ("runsFrom".to_owned(), json!("10.0.0"))]);
        }
        Some(KeyConstraint::RuntimeClass | KeyConstraint::RuleAction | KeyConstraint::Exemption) | None => {}
    }
    map
}

/// The object with that value, and with the values that it requires.
fn fit(base: &Map<String, Value>, key: &SchemaKey, value: Value) -> Map<String, Value> {
    let mut map = base.clone();
    let others = match (key.name, value.as_str()) {
        ("operator", Some("Exists" | "DoesNotExist")) => vec![("values", None)],
        ("values", _) if value == json!([]) => vec![("operator", Some("Exists"))],
        ("mode", Some("Named")) => vec![("name", Some("x"))],
        ("tolerationSeconds", _) => vec![("effect", Some("NoExecute"))],
        _ => Vec::new(),
    };
    map.insert(key.name.to_owned(), value);
    for (key, value) in others {
        match value {
            Some(value) => drop(map.insert(key.to_owned(), json!(value))),
            None => drop(map.remove(key)),
        }
    }
    map
}

/// Good values of a shape, together with each word once.
fn values(shape: &ValueShape) -> Vec<Value> {
    match shape {
        ValueShape::Object(object) => vec![Value::Object(required(object))],
        ValueShape::Short(short, object) => [values(short), vec![Value::Object(required(object))]].concat(),
        ValueShape::Map => vec![json!({}), json!({"a": [1]})],
        ValueShape::Texts(keys, value) => {
            texts(*keys).0.iter().map(|key| json!({*key: texts(*value).0[0]})).chain([json!({})]).collect()
        }
        ValueShape::List(item) => values(item).into_iter().map(|value| json!([value])).chain([json!([])]).collect(),
        ValueShape::Integer => vec![json!(7), json!(0), json!(-7)],
        ValueShape::Word(words) => words.iter().map(|word| json!(word.word)).collect(),
        ValueShape::Text(form) => texts(*form).0.iter().map(|text| json!(text)).collect(),
    }
}

/// Whether a value of the shape is of that type.
fn takes(shape: &ValueShape, value: &Value) -> bool {
    match shape {
        ValueShape::Object(object) => *value == json!({}) && required(object).is_empty(),
        ValueShape::Short(short, object) => takes(short, value) || takes(&ValueShape::Object(object), value),
        ValueShape::Map => value.is_object(),
        ValueShape::Texts(..) => *value == json!({}),
        ValueShape::List(_) => *value == json!([]),
        ValueShape::Integer => value.is_i64(),
        ValueShape::Word(_) => false,
        ValueShape::Text(_) => value.is_string(),
    }
}

/// The defaults of a map, including all those below it.
fn defaults(object: &SchemaObject) -> Value {
    let of = |key: &'static SchemaKey| match &key.shape {
        ValueShape::Object(below) => Some(defaults(below)),
        _ => key.default().map(|text| yaml(&text)),
    };
    object.keys.iter().filter_map(|key| Some((key.name.to_owned(), of(key)?))).collect::<Map<_, _>>().into()
}

#[test]
fn the_defaults_of_the_table_are_in_force() {
    let documents: Vec<_> = KINDS
        .iter()
        .map(|(kind, object)| {
            let Some(ValueShape::Object(spec)) = object.key("spec").map(|key| &key.shape) else { panic!("{kind}") };
            let document =
                json!({"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "a"}, "spec": defaults(spec)});
            (format!("{kind}.json"), document.to_string())
        })
        .collect();
    let set = PolicySet::from_files(&documents).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let mut settings = Settings::clone(&set.settings("a", None, &()));
    // The table has set each scalar, except those without a default.
    let unset = ["message", "detect.os", "place.runtimeClass.name"];
    assert!(unset.iter().all(|key| !settings.origins.contains_key(*key)));
    assert!(settings.origins.len() >= 16, "{:?}", settings.origins.keys());
    let built_in = settings.origins.iter().filter(|(_, origin)| !origin.file.ends_with(".json"));
    assert_eq!(built_in.map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["rules.version"]);
    settings.rules_version = None;
    settings.origins.clear();
    assert_eq!(format!("{settings:?}"), format!("{:?}", Settings::default()));
    assert_eq!((set.nodes, set.registries), (NodeSettings::default(), RegistryPolicy::default()));
}
