//! JSON values whose members keep the order of insertion: people read the schema, and it must not depend on the features
//! that `serde_json` was built with.

use mullion_manifest::{ManifestNode, NodeValue};
use serde::{Serialize, Serializer};
use serde_json::Value;

/// A JSON value.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Ordered {
    /// A scalar.
    Scalar(Value),
    /// A list.
    List(Vec<Ordered>),
    /// A map.
    Map(Members),
}

/// A map's members.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Members(Vec<(String, Ordered)>);

impl Members {
    /// Adds a member at the end.
    #[must_use]
    pub(crate) fn with(mut self, key: impl Into<String>, value: impl Into<Ordered>) -> Self {
        self.0.push((key.into(), value.into()));
        self
    }

    /// Adds a member, if there is a value.
    #[must_use]
    pub(crate) fn with_some(self, key: &str, value: Option<impl Into<Ordered>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// The value of a member.
    pub(crate) fn get(&self, key: &str) -> Option<&Ordered> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Removes a member.
    #[must_use]
    pub(crate) fn without(mut self, key: &str) -> Self {
        self.0.retain(|(name, _)| name != key);
        self
    }

    /// Adds members at the end.
    #[must_use]
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl From<Members> for Ordered {
    fn from(members: Members) -> Self {
        Self::Map(members)
    }
}

impl<T: Into<Ordered>> From<Vec<T>> for Ordered {
    fn from(items: Vec<T>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

macro_rules! from_scalars {
    ($($scalar:ty),*) => {
        $(impl From<$scalar> for Ordered {
            fn from(value: $scalar) -> Self {
                Self::Scalar(value.into())
            }
        })*
    };
}
from_scalars!(&str, String, bool, usize);

impl From<&ManifestNode> for Ordered {
    fn from(node: &ManifestNode) -> Self {
        match &node.value {
            NodeValue::Null => Self::Scalar(Value::Null),
            NodeValue::Bool(value) => (*value).into(),
            NodeValue::Number(number) => Self::Scalar(number.clone().into()),
            NodeValue::String(text) => text.as_str().into(),
            NodeValue::List(items) => Self::List(items.iter().map(Self::from).collect()),
            NodeValue::Map(entries) => Self::Map(
                entries.iter().fold(Members::default(), |map, entry| map.with(entry.key.as_str(), &entry.value)),
            ),
        }
    }
}
