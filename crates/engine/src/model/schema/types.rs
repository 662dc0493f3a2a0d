//! The types of the schema: maps, keys, and the shape of a value.

use serde_json::Value;

/// A map with known keys.
#[derive(Debug, Clone, Copy)]
pub struct SchemaObject {
    /// Its keys, in the order in which people write them.
    pub keys: &'static [SchemaKey],
    /// A constraint on several of its keys.
    pub constraint: Option<KeyConstraint>,
}

/// One key of a [`SchemaObject`].
#[derive(Debug, Clone, Copy)]
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
    /// How the values of several policies are merged, as a sentence; `None` if at most one policy sets the key, or if it
    /// applies to its own policy only.
    pub merge: Option<&'static str>,
    /// The default.
    pub default_value: Option<fn() -> Value>,
    /// The fields of a pod or a node that it decides, as paths.
    pub decides: &'static [&'static str],
    /// Whether a policy with `until` may set it, and to which words; empty means any value.
    pub exempts: Option<&'static [&'static str]>,
}

/// A map of a policy's `spec` that is no value of its own: the keys below it are.
#[derive(Debug, Clone, Copy)]
pub struct SchemaSection {
    /// Its dotted path below `spec`.
    pub name: &'static str,
    /// What its keys have in common: Markdown.
    pub doc: &'static str,
    /// A constraint on several of its keys.
    pub constraint: Option<KeyConstraint>,
}

/// The shape of a value.
#[derive(Debug, Clone, Copy)]
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

/// The effects of taints. Kubernetes may add others, so taints and tolerations store their effect as text.
pub const TAINT_EFFECTS: ValueShape = ValueShape::Word(&[
    SchemaWord { word: "NoSchedule", doc: "Pods that do not tolerate the taint are not scheduled there." },
    SchemaWord {
        word: "PreferNoSchedule",
        doc: "Pods that do not tolerate the taint are scheduled elsewhere if possible.",
    },
    SchemaWord {
        word: "NoExecute",
        doc: "Pods that do not tolerate the taint are not scheduled there, and those that run are evicted.",
    },
]);

impl SchemaKey {
    /// An optional key without default.
    pub const fn new(name: &'static str, shape: ValueShape, doc: &'static str) -> Self {
        Self {
            name,
            doc,
            shape,
            required: false,
            example: None,
            merge: None,
            default_value: None,
            decides: &[],
            exempts: None,
        }
    }

    /// The default, as YAML; `None` if it does not have one, and for a map with known keys.
    pub fn default(&self) -> Option<String> {
        let value = self.default_value.map(|default| default());
        value.filter(|value| !value.is_null() && !matches!(self.shape, ValueShape::Object(_))).as_ref().map(yaml)
    }
}

impl SchemaObject {
    /// The names of its keys.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        self.keys.iter().map(|key| key.name)
    }

    /// The key of that name.
    pub fn key(&self, name: &str) -> Option<&'static SchemaKey> {
        self.keys.iter().find(|key| key.name == name)
    }
}

impl TextFormat {
    /// What the form accepts, as the object of a sentence.
    pub fn expected(self) -> &'static str {
        match self {
            Self::Any => "text",
            Self::Name => "a name of lower-case letters, digits, `-` and `.`",
            Self::ShortName => "a name of at most 63 lower-case letters, digits and `-`",
            Self::Namespaces => "a namespace name, in which `*` matches anything",
            Self::Build => "a Windows build such as 10.0.20348",
            Self::LabelKey => "a label or taint key such as example.com/team",
            Self::LabelValue => "a label or taint value",
            Self::Image => "an image reference, in which `*` and `**` match anything",
            Self::TaintPattern => "a taint as key=value, in which `*` matches anything",
            Self::Taint => "a taint as key=value:Effect",
            Self::Rule | Self::TranslatedRule => "a rule: its name, its code or a code prefix",
            Self::Version => "a version of Mullion such as \"0.1\"",
            Self::Registry => "a registry as host:port, such as registry.local:5000",
            Self::RegistryPattern => "a registry as in image references, in which `*` matches anything",
            Self::Path => "an absolute path such as /etc/mullion/ca.pem",
            Self::Span => "a duration such as 90s, 5m, 24h or 7d",
            Self::Line => "a line of at most 256 bytes",
            Self::Date => "a date such as 2027-03-31, or a time such as 2027-03-31T18:00:00Z",
        }
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
