//! The types of the schema: maps, keys, the shape of a value, and the field that a key sets.

use mullion_engine::model::settings::{NodeSettings, Settings};
use serde_json::Value;

use crate::schema::field::SettingField;

/// A map with known keys.
#[derive(Debug)]
pub struct SchemaObject {
    /// Its keys, in the order in which people write them.
    pub keys: &'static [SchemaKey],
    /// A constraint on several of its keys.
    pub constraint: Option<KeyConstraint>,
}

/// One key of an [`SchemaObject`].
#[derive(Debug)]
pub struct SchemaKey {
    /// Its name in policy files.
    pub name: &'static str,
    /// Its purpose, and when to set it: Markdown.
    pub doc: &'static str,
    /// The shape of its value.
    pub shape: ValueShape,
    /// Whether it must be present.
    pub required: bool,
    /// A typical value, as YAML.
    pub example: Option<&'static str>,
    /// The field of a PodPolicy's settings that it sets.
    pub settings: Option<SettingField<Settings>>,
    /// The field of the NodePolicy's settings that it sets.
    pub node_settings: Option<SettingField<NodeSettings>>,
    /// The default, if it sets no field itself.
    pub(crate) default: Option<fn() -> Value>,
    /// The fields of a pod or a node that it decides, as paths.
    pub decides: &'static [&'static str],
    /// Whether a policy with `until` may set it, and to which words; empty means any value.
    pub exempts: Option<&'static [&'static str]>,
}

/// The shape of a value.
#[derive(Debug)]
pub enum ValueShape {
    /// A map with known keys.
    Object(&'static SchemaObject),
    /// A map from any text to text.
    Texts(TextFormat, TextFormat),
    /// A list.
    List(&'static ValueShape),
    /// A whole number.
    Integer,
    /// One of a few words.
    Word(&'static [SchemaWord]),
    /// Text of some form.
    Text(TextFormat),
    /// A map with any keys: a Kubernetes object, or a part of one.
    Map,
    /// A map with known keys, or, as a short form, the value of its first key.
    Short(&'static ValueShape, &'static SchemaObject),
}

/// One word of a [`ValueShape::Word`].
#[derive(Debug)]
pub struct SchemaWord {
    /// The word in policy files.
    pub word: &'static str,
    /// What it means: Markdown.
    pub doc: &'static str,
}

/// Forms of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// Any text.
    Any,
    /// A name of a Kubernetes object: RFC 1123 subdomain.
    Name,
    /// The name of a Kubernetes object that is also a label's value: without dots, at most 63 characters.
    ShortName,
    /// A name of a namespace, with wildcards.
    Namespaces,
    /// `10.0.20348`.
    Build,
    /// Key of a label, a taint or a toleration.
    LabelKey,
    /// Value of a label or a taint.
    LabelValue,
    /// An image reference, with wildcards.
    Image,
    /// `key=value`, with wildcards.
    TaintPattern,
    /// `key=value:Effect`.
    Taint,
    /// Name, code or code prefix of a rule.
    Rule,
    /// Name, code or code prefix of a rule that has a translation.
    TranslatedRule,
    /// A version of Mullion: `0.1`.
    Version,
    /// A registry's host and port, in the form in which image references begin.
    Registry,
    /// A registry's host and port, with wildcards.
    RegistryPattern,
    /// An absolute path.
    Path,
    /// A duration: `5m`.
    Span,
    /// A line of text for people.
    Line,
    /// A date or a time: `2027-03-31`.
    Date,
}

/// A constraint on several keys of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyConstraint {
    /// `operator` requires or forbids `values`.
    LabelRequirement,
    /// The constraints of the API server on tolerations (`ValidateTolerations`).
    Toleration,
    /// `name` is present if and only if `mode` is `Named`.
    RuntimeClass,
    /// `action: Repair` only for a rule that has a repair.
    RuleAction,
    /// `runsFrom` is not newer than `build`.
    Release,
    /// With `until`, only keys and values that [exempt](SchemaKey::exempts).
    Exemption,
}

/// `apiVersion` of all documents.
pub const API_VERSION: &str = "mullion.dev/v1alpha1";

impl SchemaKey {
    pub(crate) const fn new(name: &'static str, shape: ValueShape, doc: &'static str) -> Self {
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
            exempts: None,
        }
    }

    pub(crate) const fn required(name: &'static str, shape: ValueShape, doc: &'static str) -> Self {
        Self { required: true, ..Self::new(name, shape, doc) }
    }

    /// Sets the field of a PodPolicy's settings that the key sets.
    pub(crate) const fn settings(self, field: SettingField<Settings>) -> Self {
        Self { settings: Some(field), ..self }
    }

    /// Sets the field of the NodePolicy that the key sets.
    pub(crate) const fn node_settings(self, field: SettingField<NodeSettings>) -> Self {
        Self { node_settings: Some(field), ..self }
    }

    /// Sets the fields of a pod that the key decides.
    pub(crate) const fn decides(self, paths: &'static [&'static str]) -> Self {
        Self { decides: paths, ..self }
    }

    /// Permits the key in a policy with `until`, with one of these words; with any value if `words` is empty.
    pub(crate) const fn exempts(self, words: &'static [&'static str]) -> Self {
        Self { exempts: Some(words), ..self }
    }

    /// Sets the default, for a key that sets no field itself.
    pub(crate) const fn with_default(self, value: fn() -> Value) -> Self {
        Self { default: Some(value), ..self }
    }

    /// Sets a typical value.
    pub(crate) const fn example(self, yaml: &'static str) -> Self {
        Self { example: Some(yaml), ..self }
    }

    /// The default, as YAML; `None` if it does not have one, and for a map with known keys.
    pub fn default(&self) -> Option<String> {
        let settings = self.settings.as_ref().map(SettingField::default);
        let value = settings.or_else(|| self.node_settings.as_ref().map(SettingField::default));
        let value = value.or_else(|| self.default.map(|default| default()));
        value.filter(|value| !value.is_null() && !matches!(self.shape, ValueShape::Object(_))).as_ref().map(yaml)
    }

    /// How the values of several policies are merged, as a sentence; `None` if at most one policy sets the key, or if
    /// it applies to its own policy only.
    pub fn layers(&self) -> Option<&'static str> {
        self.settings.as_ref().map(|field| match field.list {
            None => "The matching policy with the highest priority that sets this key decides.",
            Some(_) => "The entries of all matching policies apply, those of higher priority first.",
        })
    }
}

impl SchemaObject {
    pub(crate) const fn of(keys: &'static [SchemaKey]) -> Self {
        Self { keys, constraint: None }
    }

    pub(crate) const fn with(keys: &'static [SchemaKey], constraint: KeyConstraint) -> Self {
        Self { keys, constraint: Some(constraint) }
    }

    /// The names of its keys.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        self.keys.iter().map(|key| key.name)
    }

    /// The key of that name.
    pub fn key(&self, name: &str) -> Option<&'static SchemaKey> {
        self.keys.iter().find(|key| key.name == name)
    }
}

/// A value as YAML without quotes. A test parses each default.
fn yaml(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(yaml).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

pub(crate) const fn word(word: &'static str, doc: &'static str) -> SchemaWord {
    SchemaWord { word, doc }
}
