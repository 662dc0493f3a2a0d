//! The types of the schema: maps, keys, and what a key takes.

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
    /// What holds where no file sets it, as YAML; `None` where that is nothing.
    pub default: Option<&'static str>,
    /// A value that one would write, as YAML.
    pub example: Option<&'static str>,
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

/// How the values that several policies give a key come to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layers {
    /// They do not: there is one document, or the key is each policy's own.
    Not,
    /// Of the policies that match, the one with the highest priority that sets the key decides.
    Highest,
    /// The lists of all policies that match are put one after the other, the highest priority first.
    Together,
}

/// `apiVersion` of all.
pub const API_VERSION: &str = "mullion.dev/v1alpha1";

impl Layers {
    /// For the docs of a key; `None` where there is nothing to say.
    pub fn sentence(self) -> Option<&'static str> {
        match self {
            Self::Not => None,
            Self::Highest => Some("Of the policies that set it, the one with the highest priority decides."),
            Self::Together => Some("The entries of all matching policies count, those of higher priority first."),
        }
    }
}

impl Key {
    pub(crate) const fn new(name: &'static str, shape: Shape, doc: &'static str) -> Self {
        Self { name, doc, shape, required: false, default: None, example: None }
    }

    pub(crate) const fn required(name: &'static str, shape: Shape, doc: &'static str) -> Self {
        Self { required: true, ..Self::new(name, shape, doc) }
    }

    /// With what holds where no file sets it.
    pub(crate) const fn default(self, yaml: &'static str) -> Self {
        Self { default: Some(yaml), ..self }
    }

    /// With a value that one would write.
    pub(crate) const fn example(self, yaml: &'static str) -> Self {
        Self { example: Some(yaml), ..self }
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

pub(crate) const fn word(word: &'static str, doc: &'static str) -> Word {
    Word { word, doc }
}
