//! The tolerations in an annotation of a namespace, in the form that admission compares.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::model::cluster::fact::Unusable;
use crate::model::text::shown;

/// The most tolerations of a namespace's list that are used. Each pod is compared with all of them; examples have one to
/// five.
pub(super) const WHITELIST_TOLERATIONS: usize = 64;
/// The longest annotation with that list, in bytes: so many tolerations with the longest key (317 bytes) and value (63)
/// that the API server accepts, and the names of their members.
pub(super) const WHITELIST_LENGTH: usize = WHITELIST_TOLERATIONS * 512;

/// A toleration in the form that admission compares.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct AdmittedToleration {
    key: String,
    operator: String,
    value: String,
    effect: String,
    seconds: Option<i64>,
}

/// Parses the annotation. An empty one, `null` and an empty list admit everything.
pub(crate) fn parse_whitelist(text: &str) -> Result<Vec<AdmittedToleration>, Unusable> {
    Unusable::check_length(text, WHITELIST_LENGTH)?;
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let list = serde_json::from_str::<Option<Vec<Option<AdmittedToleration>>>>(text)
        .map_err(|error| Unusable::unreadable(&error))?
        .unwrap_or_default();
    Unusable::check(list.len(), WHITELIST_TOLERATIONS, "toleration")?;
    Ok(list.into_iter().map(Option::unwrap_or_default).collect())
}

impl AdmittedToleration {
    /// Reads a toleration of a pod spec. The API server itself rejects other types.
    pub(crate) fn of(value: &Value) -> Self {
        let text = |name| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            key: text("key"),
            operator: text("operator"),
            value: text("value"),
            effect: text("effect"),
            seconds: value.get("tolerationSeconds").and_then(Value::as_i64),
        }
    }

    /// The toleration as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let texts =
            [("key", &self.key), ("operator", &self.operator), ("value", &self.value), ("effect", &self.effect)];
        let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
        let mut members: Map<String, Value> =
            texts.map(|(name, text)| (name.to_owned(), Value::from(text.as_str()))).collect();
        members.extend(self.seconds.map(|seconds| ("tolerationSeconds".to_owned(), Value::from(seconds))));
        Value::Object(members)
    }

    /// Kubernetes' `isSuperset` (pkg/util/tolerations/tolerations.go), exactly: a missing operator counts as `Equal`
    /// only in the wider toleration, and a limit in seconds counts only with the effect `NoExecute`.
    pub(crate) fn is_superset_of(&self, narrow: &Self) -> bool {
        if self == narrow {
            return true;
        }
        let any_key = self.key.is_empty() && self.operator == "Exists";
        let lasts = match self.seconds {
            Some(seconds) if self.effect == "NoExecute" => narrow.seconds.is_some_and(|narrow| narrow <= seconds),
            _ => true,
        };
        (self.key == narrow.key || any_key)
            && (self.effect.is_empty() || self.effect == narrow.effect)
            && lasts
            && match self.operator.as_str() {
                "" | "Equal" => narrow.operator == "Equal" && narrow.value == self.value,
                "Exists" => true,
                _ => false,
            }
    }

    /// Sets one member, as Go's `encoding/json` does: names match in any case, the last of equal names wins, and null
    /// sets nothing.
    fn set(&mut self, name: &str, value: Value) -> Result<(), String> {
        let texts = [
            ("key", &mut self.key),
            ("operator", &mut self.operator),
            ("value", &mut self.value),
            ("effect", &mut self.effect),
        ];
        let field = texts.into_iter().find(|(known, _)| name.eq_ignore_ascii_case(known));
        match (field, value) {
            (_, Value::Null) => {}
            (Some((_, field)), Value::String(text)) => *field = text,
            (Some((known, _)), other) => {
                return Err(format!("`{known}` takes a text, not {}", shown(&other.to_string())));
            }
            (None, other) if name.eq_ignore_ascii_case("tolerationSeconds") => {
                let seconds = other
                    .as_i64()
                    .ok_or_else(|| format!("`tolerationSeconds` takes a number, not {}", shown(&other.to_string())))?;
                self.seconds = Some(seconds);
            }
            (None, _) => {}
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for AdmittedToleration {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = AdmittedToleration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a toleration")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<AdmittedToleration, A::Error> {
        let mut toleration = AdmittedToleration::default();
        while let Some((name, value)) = members.next_entry::<String, Value>()? {
            toleration.set(&name, value).map_err(A::Error::custom)?;
        }
        Ok(toleration)
    }
}
