//! The help of a finding, which is rendered when it is printed.
//!
//! A review can have thousands of findings, of which a response prints the first 50. A finding refers to the facts that
//! its help shows, and contains no copy of them.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use serde_json::Value;

use crate::model::cluster::{AdmittedToleration, NodeSelector};
use crate::model::names::TOLERATIONS_WHITELIST_ANNOTATION;
use crate::model::text::{list, shorten_to_bytes, shown};

/// The longest value of an annotation that a help writes into a command, in bytes. A longer one is not readable on a
/// terminal, so the help says what to change in it.
const WRITTEN_VALUE: usize = 1_024;

/// The longest message or help of a finding, in bytes. They quote values of the object, which can have megabytes, and
/// each container can have a finding with the same value.
pub(crate) const TEXT_LIMIT: usize = 1_024;

/// What to write instead: one clause; may be empty.
#[derive(Debug, Clone, PartialEq)]
pub enum Help {
    /// A text of at most 1,024 bytes.
    Text(Cow<'static, str>),
    /// Remove a key from a node selector of a namespace.
    RemoveKey {
        /// The namespace.
        namespace: Arc<str>,
        /// The annotation.
        annotation: &'static str,
        /// Its value.
        selector: Arc<NodeSelector>,
        /// The key to remove.
        key: Box<str>,
    },
    /// Admit more tolerations in a namespace.
    Admit {
        /// The namespace.
        namespace: Arc<str>,
        /// Those that it admits.
        admitted: Arc<[AdmittedToleration]>,
        /// Those to admit.
        more: Vec<Value>,
    },
}

impl Help {
    /// The text.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::RemoveKey { .. } | Self::Admit { .. } => Cow::Owned(self.to_string()),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Text(text) if text.is_empty())
    }
}

impl From<&'static str> for Help {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Help {
    fn from(text: String) -> Self {
        Self::Text(bounded(text.into()))
    }
}

/// The text, cut after [`TEXT_LIMIT`] bytes.
pub(crate) fn bounded(text: Cow<'static, str>) -> Cow<'static, str> {
    if text.len() > TEXT_LIMIT { shorten_to_bytes(&text, TEXT_LIMIT).into() } else { text }
}

impl Display for Help {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::RemoveKey { namespace, annotation, selector, key } => {
                // The annotation is never removed, because then the plugin's default for the whole cluster would apply.
                let kept = selector.pairs().filter(|(other, _)| *other != &**key);
                let value = kept.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",");
                if value.len() > WRITTEN_VALUE {
                    return write!(f, "remove {} from annotation {annotation} of namespace {namespace}", shown(key));
                }
                annotate(f, namespace, annotation, &value)
            }
            Self::Admit { namespace, admitted, more } => {
                let all: Vec<Value> = admitted.iter().map(AdmittedToleration::to_json).chain(more.clone()).collect();
                // A quote in JSON text can be escaped like this, and the shell does not interpret it.
                let value = Value::from(all).to_string().replace('\'', "\\u0027");
                if value.len() > WRITTEN_VALUE {
                    let keys = list(more.iter().filter_map(|one| one.get("key")?.as_str()).map(shown));
                    let annotation = TOLERATIONS_WHITELIST_ANNOTATION;
                    return write!(f, "add tolerations of {keys} to annotation {annotation} of namespace {namespace}");
                }
                annotate(f, namespace, TOLERATIONS_WHITELIST_ANNOTATION, &value)
            }
        }
    }
}

fn annotate(f: &mut Formatter<'_>, namespace: &str, annotation: &str, value: &str) -> fmt::Result {
    write!(f, "kubectl annotate namespace {namespace} --overwrite '{annotation}={value}'")
}
