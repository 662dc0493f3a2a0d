//! The types of the schema: maps, keys, what a key takes, and the field that it sets.

use mullion_engine::model::settings::node_settings::NodeSettings;
use mullion_engine::model::settings::workload_settings::Settings;
use serde_json::Value;

use crate::schema::field::Field;

/// A map with known keys.
#[derive(Debug)]
pub struct Object {
    /// What it may hold, in the order in which people write it.
    pub keys: &'static [Key],
    /// What must hold between its keys.
    pub rule: Option<Between>,
}

/// One key of an [`Object`].
#[derive(Debug)]
pub struct Key {
    /// As it is written.
    pub name: &'static str,
    /// What it is for, and when one would set it: Markdown.
    pub doc: &'static str,
    /// What it takes.
    pub shape: Shape,
    /// Whether it must be there.
    pub required: bool,
    /// A value that one would write, as YAML.
    pub example: Option<&'static str>,
    /// The field of a PodPolicy's settings that it sets.
    pub settings: Option<Field<Settings>>,
    /// The field of the NodePolicy's settings that it sets.
    pub node_settings: Option<Field<NodeSettings>>,
    /// What holds where no file sets it, if it sets no field itself.
    pub(crate) default: Option<fn() -> Value>,
    /// Fields of a pod that it decides, as paths name them.
    pub decides: &'static [&'static str],
}

/// What a value looks like.
#[derive(Debug)]
pub enum Shape {
    /// A map with known keys.
    Object(&'static Object),
    /// A map from any text to text.
    Texts(Text, Text),
    /// A list.
    List(&'static Shape),
    /// A whole number.
    Integer,
    /// One of a few words.
    Word(&'static [Word]),
    /// Text of some form.
    Text(Text),
    /// A map with any keys: a Kubernetes object, or a part of one.
    Map,
    /// A map with known keys, or in short what its first key takes.
    Short(&'static Shape, &'static Object),
}

/// One word of a [`Shape::Word`].
#[derive(Debug)]
pub struct Word {
    /// As it is written.
    pub word: &'static str,
    /// What it means: Markdown.
    pub doc: &'static str,
}

/// Forms of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// Anything.
    Any,
    /// A name of a Kubernetes object: RFC 1123 subdomain.
    Name,
    /// The name of a Kubernetes object that is also a label's value: without dots, at most 63 characters.
    ShortName,
    /// A name of a namespace, with stars.
    Namespaces,
    /// `10.0.20348`.
    Build,
    /// Key of a label, a taint or a toleration.
    LabelKey,
    /// Value of one.
    LabelValue,
    /// An image reference, with stars.
    Image,
    /// `key=value`, with stars.
    TaintPattern,
    /// `key=value:Effect`.
    Taint,
    /// Name, code or code prefix of a rule.
    Rule,
    /// The same, of a rule that has a translation.
    TranslatedRule,
    /// A version of Mullion: `0.1`.
    Version,
    /// A registry's host and port, as image references begin with them.
    Registry,
    /// An absolute path.
    Path,
    /// A span of time: `5m`.
    Span,
}

/// What must hold between the keys of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// `values` as `operator` asks for them.
    LabelRequirement,
    /// What the API server asks of tolerations (`ValidateTolerations`).
    Toleration,
    /// `name` where `mode` is `Named`, and only there.
    RuntimeClass,
    /// `Repair` only of a rule that has a repair.
    RuleAction,
    /// `runsFrom` no newer than `build`.
    Release,
}

/// `apiVersion` of all.
pub const API_VERSION: &str = "mullion.dev/v1alpha1";

impl Key {
    pub(crate) const fn new(name: &'static str, shape: Shape, doc: &'static str) -> Self {
        Self {
            name,
            doc,
            shape,
            required: false,
            example: None,
            settings: None,
            node_settings: None,
            default: None,
            decides: &[],
        }
    }

    pub(crate) const fn required(name: &'static str, shape: Shape, doc: &'static str) -> Self {
        Self { required: true, ..Self::new(name, shape, doc) }
    }

    /// With the field of a PodPolicy's settings that it sets.
    pub(crate) const fn settings(self, field: Field<Settings>) -> Self {
        Self { settings: Some(field), ..self }
    }

    /// With the field of the NodePolicy that it sets.
    pub(crate) const fn node_settings(self, field: Field<NodeSettings>) -> Self {
        Self { node_settings: Some(field), ..self }
    }

    /// With what it decides.
    pub(crate) const fn decides(self, words: &'static [&'static str]) -> Self {
        Self { decides: words, ..self }
    }

    /// With what holds where no file sets it, if it sets no field itself.
    pub(crate) const fn with_default(self, value: fn() -> Value) -> Self {
        Self { default: Some(value), ..self }
    }

    /// With a value that one would write.
    pub(crate) const fn example(self, yaml: &'static str) -> Self {
        Self { example: Some(yaml), ..self }
    }

    /// What holds where no file sets it, as YAML; `None` where that is nothing, and of a map with known keys.
    pub fn default(&self) -> Option<String> {
        let settings = self.settings.as_ref().map(Field::default);
        let value = settings.or_else(|| self.node_settings.as_ref().map(Field::default));
        let value = value.or_else(|| self.default.map(|default| default()));
        value.filter(|value| !value.is_null() && !matches!(self.shape, Shape::Object(_))).as_ref().map(yaml)
    }

    /// How the values of several policies are merged, as a sentence; `None` where one policy at most sets the key, or it is
    /// each policy's own.
    pub fn layers(&self) -> Option<&'static str> {
        self.settings.as_ref().map(|field| match field.list {
            None => "Of the policies that set it, the one with the highest priority decides.",
            Some(_) => "The entries of all matching policies count, those of higher priority first.",
        })
    }
}

impl Object {
    pub(crate) const fn of(keys: &'static [Key]) -> Self {
        Self { keys, rule: None }
    }

    pub(crate) const fn with(keys: &'static [Key], rule: Between) -> Self {
        Self { keys, rule: Some(rule) }
    }

    /// The key of that name.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

/// A value as people write it, without quotes. A test reads each default back.
fn yaml(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(yaml).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

pub(crate) const fn word(word: &'static str, doc: &'static str) -> Word {
    Word { word, doc }
}
