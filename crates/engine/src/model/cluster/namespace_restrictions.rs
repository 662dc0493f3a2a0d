//! Namespace restrictions: what annotations and labels of a namespace reject, by the rules of the admission plugins
//! that read them.
//!
//! Two of the plugins run before every webhook and again after it, so they check what Mullion adds: `PodNodeSelector`
//! and `PodTolerationRestriction` (off by default in the API server, on in AKS). Mullion cannot detect whether they are
//! on. It never adds what an annotation forbids, because the author of the annotation meant it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value;

use crate::model::cluster::namespace::Namespace;
use crate::model::names::{
    NODE_SELECTOR_ANNOTATIONS, POD_SECURITY_ENFORCE_LABEL, POD_SECURITY_ENFORCE_VERSION_LABEL,
    TOLERATIONS_WHITELIST_ANNOTATION,
};

// === node selectors ===

/// Annotation, key and value of every pair of the namespace's node selectors. Malformed pairs are skipped, because they
/// make the plugin reject every pod, whatever Mullion does.
pub(crate) fn node_selector(namespace: Option<&Namespace>) -> impl Iterator<Item = (&'static str, &str, &str)> {
    NODE_SELECTOR_ANNOTATIONS.into_iter().flat_map(move |annotation| {
        let text = namespace.and_then(|namespace| namespace.annotations.get(annotation)).map_or("", String::as_str);
        text.split(',').filter_map(move |pair| {
            let (key, value) = pair.split_once('=')?;
            Some((annotation, key.trim(), value.trim()))
        })
    })
}

/// Annotation and value, if the namespace requires another value of that node label: then a pod with this one in its
/// nodeSelector is rejected.
pub(crate) fn contradiction<'n>(
    namespace: Option<&'n Namespace>,
    key: &str,
    value: &str,
) -> Option<(&'static str, &'n str)> {
    NODE_SELECTOR_ANNOTATIONS.into_iter().find_map(|annotation| {
        // If a key occurs twice, the last value counts, because the plugin puts the pairs into a map.
        let required = node_selector(namespace).filter(|(of, name, _)| *of == annotation && *name == key).last();
        required.map(|(annotation, _, other)| (annotation, other)).filter(|(_, other)| *other != value)
    })
}

// === tolerations ===

/// Which tolerations a namespace admits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TolerationsWhitelist {
    /// All tolerations.
    Anything,
    /// Tolerations of which one of these is a superset.
    Only(Vec<AdmittedToleration>),
    /// No toleration, because the annotation is not a JSON list of tolerations; the value is the error.
    Unreadable(String),
}

/// A toleration in the form that admission compares.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AdmittedToleration {
    key: String,
    operator: String,
    value: String,
    effect: String,
    seconds: Option<i64>,
}

impl TolerationsWhitelist {
    /// The whitelist for a pod of that namespace with these tolerations (raw JSON, as in a pod spec).
    ///
    /// Also `TolerationsWhitelist::Anything` if the pod's own tolerations would be rejected already. At the webhook,
    /// which runs after the plugin, this proves that the plugin is off; in a file, the pod is rejected whatever Mullion
    /// adds.
    pub fn of<'t>(namespace: Option<&Namespace>, present: impl IntoIterator<Item = &'t Value>) -> Self {
        let mut present = present.into_iter();
        let text = namespace
            .and_then(|namespace| namespace.annotations.get(TOLERATIONS_WHITELIST_ANNOTATION))
            .map_or("", String::as_str);
        if text.is_empty() {
            return Self::Anything;
        }
        match serde_json::from_str::<Option<Vec<Option<AdmittedToleration>>>>(text) {
            Ok(list) => {
                let list: Vec<AdmittedToleration> = list.into_iter().flatten().map(Option::unwrap_or_default).collect();
                let only = Self::Only(list);
                if only.is_empty() || present.any(|toleration| only.rejects(toleration)) {
                    return Self::Anything;
                }
                only
            }
            Err(error) if present.next().is_none() => Self::Unreadable(error.to_string()),
            Err(_) => Self::Anything,
        }
    }

    /// Whether a pod with that toleration (raw JSON) is rejected: Kubernetes' `VerifyAgainstWhitelist`
    /// (pkg/util/tolerations/tolerations.go), for one toleration.
    pub fn rejects(&self, toleration: &Value) -> bool {
        match self {
            Self::Anything => false,
            Self::Only(list) => {
                let toleration = AdmittedToleration::of(toleration);
                !list.iter().any(|allowed| allowed.is_superset_of(&toleration))
            }
            Self::Unreadable(_) => true,
        }
    }

    /// Whether the list is empty. An empty list admits everything.
    fn is_empty(&self) -> bool {
        matches!(self, Self::Only(list) if list.is_empty())
    }
}

impl AdmittedToleration {
    /// Reads a toleration of a pod spec. The API server itself rejects other types.
    fn of(value: &Value) -> Self {
        let text = |name| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            key: text("key"),
            operator: text("operator"),
            value: text("value"),
            effect: text("effect"),
            seconds: value.get("tolerationSeconds").and_then(Value::as_i64),
        }
    }

    /// Kubernetes' `isSuperset` (pkg/util/tolerations/tolerations.go), exactly: a missing operator counts as `Equal`
    /// only in the wider toleration, and a limit in seconds counts only with the effect `NoExecute`.
    fn is_superset_of(&self, narrow: &Self) -> bool {
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
            (Some((known, _)), other) => return Err(format!("`{known}` takes a text, not {other}")),
            (None, other) if name.eq_ignore_ascii_case("tolerationSeconds") => {
                let seconds =
                    other.as_i64().ok_or_else(|| format!("`tolerationSeconds` takes a number, not {other}"))?;
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

// === Pod Security ===

/// What the `PodSecurity` plugin enforces in a namespace, according to its labels; exemptions and a default for
/// namespaces without the label are in the API server's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PodSecurity {
    /// The level.
    pub level: PodSecurityLevel,
    /// The Kubernetes minor version whose rules apply; `None`: the API server's own version.
    pub minor: Option<u32>,
}

/// A Pod Security level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the Kubernetes levels of these names")]
pub(crate) enum PodSecurityLevel {
    Privileged,
    Baseline,
    Restricted,
}

impl PodSecurityLevel {
    /// The label's value.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

impl PodSecurity {
    /// Reads the namespace's labels; an invalid level is `restricted`, an invalid version is the API server's own, as
    /// in the plugin (pod-security-admission, api/helpers.go, `ParseLevel` and `ParseVersion`).
    pub(crate) fn of(namespace: Option<&Namespace>) -> Self {
        let label = |key| namespace.and_then(|namespace| namespace.labels.get(key)).map(String::as_str);
        let level = match label(POD_SECURITY_ENFORCE_LABEL) {
            None | Some("privileged") => PodSecurityLevel::Privileged,
            Some("baseline") => PodSecurityLevel::Baseline,
            Some(_) => PodSecurityLevel::Restricted,
        };
        let minor =
            label(POD_SECURITY_ENFORCE_VERSION_LABEL).and_then(|version| version.strip_prefix("v1.")?.parse().ok());
        Self { level, minor }
    }

    /// Whether no pod with `spec.os.name: windows` can pass: the rules of 1.8 to 1.24 require
    /// `allowPrivilegeEscalation: false` of every container (`policy/check_allowPrivilegeEscalation.go`), and the API
    /// server rejects that field with a Windows OS field. From 1.25 on these pods are exempt.
    pub(crate) fn rejects_windows_os(self) -> bool {
        self.level == PodSecurityLevel::Restricted && self.minor.is_some_and(|minor| (8..25).contains(&minor))
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn namespace(annotation: &str, text: &str) -> Namespace {
        Namespace { annotations: [(annotation.to_owned(), text.to_owned())].into(), ..Namespace::default() }
    }

    fn whitelist(text: &str) -> TolerationsWhitelist {
        TolerationsWhitelist::of(Some(&namespace(TOLERATIONS_WHITELIST_ANNOTATION, text)), &[])
    }

    fn os_toleration() -> Value {
        json!({"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"})
    }

    #[test]
    fn supersets_to_the_letter() {
        let ours = os_toleration();
        let without_operator = json!({"key": "os", "value": "windows", "effect": "NoSchedule"});
        let seconds = |n| json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": n});
        let forever = json!({"key": "a", "operator": "Exists", "effect": "NoExecute"});
        let cases = [
            // An empty annotation, an empty list and null restrict nothing.
            ("", ours.clone(), false),
            ("[]", ours.clone(), false),
            ("null", ours.clone(), false),
            (r#"[{"key": "os", "value": "windows", "effect": "NoSchedule"}]"#, ours.clone(), false),
            (r#"[{"key": "os", "value": "windows"}]"#, ours.clone(), false),
            (r#"[{"key": "os", "operator": "Exists"}]"#, ours.clone(), false),
            (r#"[{"operator": "Exists"}]"#, ours.clone(), false),
            (r#"[{"KEY": "OS", "Key": "os", "Operator": "Exists", "later": [1]}]"#, ours.clone(), false),
            (r#"[{"key": "os", "value": "Windows"}]"#, ours.clone(), true),
            (r#"[{"key": "os", "value": "windows", "effect": "NoExecute"}]"#, ours.clone(), true),
            (r#"[{"key": "os"}]"#, ours.clone(), true),
            (r#"[{"value": "windows"}]"#, ours.clone(), true),
            (r#"[{"key": "os", "operator": "Gt", "value": "windows"}]"#, ours.clone(), true),
            ("[{}]", ours.clone(), true),
            ("[null]", ours, true),
            // A narrower toleration without an operator is covered only by an equal one.
            (r#"[{"key": "os", "operator": "Equal", "value": "windows"}]"#, without_operator.clone(), true),
            (r#"[{"key": "os", "value": "windows", "effect": "NoSchedule"}]"#, without_operator.clone(), false),
            (r#"[{"key": "os", "operator": "Exists"}]"#, without_operator, false),
            (
                r#"[{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]"#,
                seconds(300),
                false,
            ),
            (
                r#"[{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]"#,
                seconds(301),
                true,
            ),
            (
                r#"[{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]"#,
                forever.clone(),
                true,
            ),
            (r#"[{"key": "a", "operator": "Exists", "tolerationSeconds": 300}]"#, forever, false),
        ];
        for (text, toleration, rejected) in cases {
            assert_eq!(whitelist(text).rejects(&toleration), rejected, "{text} {toleration}");
        }
    }

    #[test]
    fn what_is_no_list_lets_nothing_in() {
        let bad = [
            "os=windows",
            "{}",
            "[7]",
            r#"[["os"]]"#,
            r#"[{"key": 7}]"#,
            r#"[{"tolerationSeconds": "300"}]"#,
            r#"[{"tolerationSeconds": 1.5}]"#,
            r#"[{"key": "os"}"#,
            "[] []",
        ];
        for text in bad {
            assert!(matches!(whitelist(text), TolerationsWhitelist::Unreadable(_)), "{text}: {:?}", whitelist(text));
            assert!(whitelist(text).rejects(&os_toleration()));
            // If a pod with a toleration was admitted, the plugin did not check it.
            let passed =
                TolerationsWhitelist::of(Some(&namespace(TOLERATIONS_WHITELIST_ANNOTATION, text)), &[os_toleration()]);
            assert_eq!(passed, TolerationsWhitelist::Anything, "{text}");
        }
    }

    #[test]
    fn a_pod_that_breaks_it_already_is_not_bound_by_it() {
        let namespace = namespace(TOLERATIONS_WHITELIST_ANNOTATION, r#"[{"key": "team", "operator": "Exists"}]"#);
        let of = |present: &[Value]| TolerationsWhitelist::of(Some(&namespace), present).rejects(&os_toleration());
        assert!(of(&[]) && of(&[json!({"key": "team", "operator": "Exists", "effect": "NoSchedule"})]));
        assert!(!of(&[json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists"})]));
        assert_eq!(TolerationsWhitelist::of(None, &[]), TolerationsWhitelist::Anything);
    }

    #[test]
    fn node_selectors() {
        let cases = [
            ("kubernetes.io/os=linux", Some("linux")),
            (" disk=ssd , kubernetes.io/os = linux ", Some("linux")),
            ("kubernetes.io/os=windows,kubernetes.io/os=linux", Some("linux")),
            ("kubernetes.io/os=linux,kubernetes.io/os=windows", None),
            ("kubernetes.io/os=windows", None),
            ("kubernetes.io/os=", Some("")),
            ("kubernetes.io/os", None),
            ("", None),
        ];
        for (text, expected) in cases {
            for annotation in NODE_SELECTOR_ANNOTATIONS {
                let namespace = namespace(annotation, text);
                let found = contradiction(Some(&namespace), "kubernetes.io/os", "windows");
                assert_eq!(found, expected.map(|value| (annotation, value)), "{text}");
            }
        }
    }

    #[test]
    fn pod_security_levels() {
        let cases = [
            (None, None, PodSecurityLevel::Privileged, false),
            (Some("privileged"), Some("v1.24"), PodSecurityLevel::Privileged, false),
            (Some("baseline"), Some("v1.24"), PodSecurityLevel::Baseline, false),
            (Some("restricted"), None, PodSecurityLevel::Restricted, false),
            (Some("restricted"), Some("latest"), PodSecurityLevel::Restricted, false),
            (Some("restricted"), Some("v1.25"), PodSecurityLevel::Restricted, false),
            (Some("restricted"), Some("v1.24"), PodSecurityLevel::Restricted, true),
            (Some("restricted"), Some("v1.8"), PodSecurityLevel::Restricted, true),
            (Some("restricted"), Some("v1.7"), PodSecurityLevel::Restricted, false),
            (Some("restricted"), Some("1.24"), PodSecurityLevel::Restricted, false),
            (Some("Baseline"), None, PodSecurityLevel::Restricted, false),
        ];
        for (level, version, expected, rejects) in cases {
            let label = |key: &str, value: Option<&str>| value.map(|value| (key.to_owned(), value.to_owned()));
            let labels = [label(POD_SECURITY_ENFORCE_LABEL, level), label(POD_SECURITY_ENFORCE_VERSION_LABEL, version)]
                .into_iter()
                .flatten()
                .collect();
            let found = PodSecurity::of(Some(&Namespace { labels, ..Namespace::default() }));
            assert_eq!((found.level, found.rejects_windows_os()), (expected, rejects), "{level:?} {version:?}");
        }
        assert_eq!(PodSecurity::of(None).level, PodSecurityLevel::Privileged);
    }

    proptest! {
        #[test]
        fn any_annotation_is_read_or_an_error(text in ".*", json in r#"\[\{"(key|Key|operator|tolerationSeconds)": ("[a-z]*"|[0-9.]{1,22}|null)\}?\]?"#) {
            for text in [text, json] {
                let list = whitelist(&text);
                // Whatever the value is, the result is the same for the same toleration, and for all tolerations if the
                // list restricts nothing.
                prop_assert_eq!(list.rejects(&os_toleration()), list != TolerationsWhitelist::Anything && !matches!(&list, TolerationsWhitelist::Only(all) if all.iter().any(|one| one.is_superset_of(&AdmittedToleration::of(&os_toleration())))));
                let namespace = namespace(NODE_SELECTOR_ANNOTATIONS[0], &text);
                let _: Option<(&str, &str)> = contradiction(Some(&namespace), "kubernetes.io/os", "windows");
            }
        }
    }
}
