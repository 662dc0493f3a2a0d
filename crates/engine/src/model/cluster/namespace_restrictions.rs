//! Namespace restrictions: what annotations and labels of a namespace reject, by the rules of the admission plugins
//! that read them.
//!
//! Two of the plugins run before every webhook and again after it, so they check what Mullion adds: `PodNodeSelector`
//! and `PodTolerationRestriction` (off by default in the API server, on in AKS). Mullion cannot detect whether they are
//! on. It never adds what an annotation forbids, because the author of the annotation meant it.

use std::sync::Arc;

use serde_json::Value;

use crate::model::cluster::admitted_toleration::AdmittedToleration;
use crate::model::cluster::fact::{Fact, Unusable};
use crate::model::cluster::namespace::Namespace;
use crate::model::cluster::namespace_selector::NodeSelector;
use crate::model::names::{POD_SECURITY_ENFORCE_LABEL, POD_SECURITY_ENFORCE_VERSION_LABEL};

// === node selectors ===

/// Annotation, key and value of every pair of the namespace's node selectors, as far as they are used; see
/// [`unusable_selector`].
pub(crate) fn node_selector(namespace: Option<&Namespace>) -> impl Iterator<Item = (&'static str, &str, &str)> {
    let selectors = namespace.into_iter().flat_map(Namespace::node_selectors);
    selectors
        .filter_map(|(annotation, fact)| Some((annotation, fact.parsed()?)))
        .flat_map(|(annotation, selector)| selector.pairs().map(move |(key, value)| (annotation, key, value)))
}

/// The node selector of the namespace that is not used, and why. What it requires is unknown.
pub(crate) fn unusable_selector(namespace: Option<&Namespace>) -> Option<(&'static str, &Unusable)> {
    namespace?.node_selectors().find_map(|(annotation, fact)| Some((annotation, fact.unusable()?)))
}

/// Why a namespace does not admit a pair of a pod's nodeSelector, with the annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contradiction<'n> {
    /// Its selector requires this other value: then the pod is rejected.
    Requires(&'static str, &'n Arc<NodeSelector>, &'n str),
    /// What it requires is unknown.
    Unknown(&'static str, &'n Unusable),
}

/// Whether the namespace requires another value of that node label, or may require one.
pub(crate) fn contradiction<'n>(namespace: Option<&'n Namespace>, key: &str, value: &str) -> Option<Contradiction<'n>> {
    let required = namespace.into_iter().flat_map(Namespace::node_selectors).find_map(|(annotation, fact)| {
        let selector = fact.parsed()?;
        let other = selector.get(key).filter(|other| *other != value)?;
        Some(Contradiction::Requires(annotation, selector, other))
    });
    required.or_else(|| unusable_selector(namespace).map(|(annotation, why)| Contradiction::Unknown(annotation, why)))
}

// === tolerations ===

/// Which tolerations a namespace admits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TolerationsWhitelist<'n> {
    /// All tolerations.
    Anything,
    /// Tolerations of which one of these is a superset.
    Only(&'n Arc<[AdmittedToleration]>),
    /// No toleration, because the annotation is not a JSON list of tolerations or is too large to use.
    Unusable(&'n Unusable),
}

impl<'n> TolerationsWhitelist<'n> {
    /// The whitelist for a pod of that namespace with these tolerations (raw JSON, as in a pod spec).
    ///
    /// Also `TolerationsWhitelist::Anything` if the pod's own tolerations would be rejected already. At the webhook,
    /// which runs after the plugin, this proves that the plugin is off; in a file, the pod is rejected whatever Mullion
    /// adds. A list that is too large to use may admit them, and proves nothing.
    pub fn of<'t>(namespace: Option<&'n Namespace>, present: impl IntoIterator<Item = &'t Value>) -> Self {
        let mut present = present.into_iter();
        match namespace.and_then(Namespace::whitelist) {
            None => Self::Anything,
            Some(Fact::Parsed(list)) => {
                let only = Self::Only(list);
                let proves = list.is_empty() || present.any(|toleration| only.rejects(toleration));
                if proves { Self::Anything } else { only }
            }
            Some(Fact::Unusable(Unusable::Unreadable(_))) if present.next().is_some() => Self::Anything,
            Some(Fact::Unusable(why)) => Self::Unusable(why),
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
            Self::Unusable(_) => true,
        }
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

    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::model::cluster::admitted_toleration::{WHITELIST_LENGTH, WHITELIST_TOLERATIONS};
    use crate::model::cluster::namespace_selector::{SELECTOR_LENGTH, SELECTOR_PAIRS};
    use crate::model::names::{NODE_SELECTOR_ANNOTATIONS, TOLERATIONS_WHITELIST_ANNOTATION};

    fn namespace(annotation: &str, text: &str) -> Namespace {
        Namespace::new(BTreeMap::new(), &[(annotation.to_owned(), text.to_owned())].into())
    }

    fn with_list(text: &str) -> Namespace {
        namespace(TOLERATIONS_WHITELIST_ANNOTATION, text)
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
            let namespace = with_list(text);
            let whitelist = TolerationsWhitelist::of(Some(&namespace), &[]);
            assert_eq!(whitelist.rejects(&toleration), rejected, "{text} {toleration}");
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
            let namespace = with_list(text);
            let whitelist = TolerationsWhitelist::of(Some(&namespace), &[]);
            let unreadable = matches!(whitelist, TolerationsWhitelist::Unusable(Unusable::Unreadable(_)));
            assert!(unreadable && whitelist.rejects(&os_toleration()), "{text}: {whitelist:?}");
            // If a pod with a toleration was admitted, the plugin did not check it.
            let present = [os_toleration()];
            let passed = TolerationsWhitelist::of(Some(&namespace), &present);
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
                let found = contradiction(Some(&namespace), "kubernetes.io/os", "windows").map(|found| match found {
                    Contradiction::Requires(annotation, _, value) => (annotation, value),
                    Contradiction::Unknown(..) => panic!("{found:?}"),
                });
                assert_eq!(found, expected.map(|value| (annotation, value)), "{text}");
            }
        }
    }

    #[test]
    fn what_exceeds_a_limit_is_unknown() {
        let selector = |pairs: usize| (0..pairs).map(|at| format!("k{at}=v")).collect::<Vec<_>>().join(",");
        let fits = namespace(NODE_SELECTOR_ANNOTATIONS[0], &selector(SELECTOR_PAIRS));
        assert_eq!(contradiction(Some(&fits), "kubernetes.io/os", "windows"), None);
        let long = format!("kubernetes.io/os=linux,{}", "x".repeat(SELECTOR_LENGTH));
        for (text, size) in [(selector(SELECTOR_PAIRS + 1), 65), (long, SELECTOR_LENGTH + 23)] {
            let namespace = namespace(NODE_SELECTOR_ANNOTATIONS[1], &text);
            let found = contradiction(Some(&namespace), "kubernetes.io/os", "windows");
            let Some(Contradiction::Unknown(annotation, Unusable::TooLarge(excess))) = found else {
                panic!("{found:?}")
            };
            assert_eq!((annotation, excess.size), (NODE_SELECTOR_ANNOTATIONS[1], size));
            assert_eq!(node_selector(Some(&namespace)).count(), 0);
        }
        let list = |tolerations: usize| Value::from(vec![os_toleration(); tolerations]).to_string();
        let present = [os_toleration()];
        let fits = with_list(&list(WHITELIST_TOLERATIONS));
        assert!(!TolerationsWhitelist::of(Some(&fits), &present).rejects(&os_toleration()));
        for text in [list(WHITELIST_TOLERATIONS + 1), format!("[]{}", " ".repeat(WHITELIST_LENGTH))] {
            // Whether it admits the pod's own tolerations is unknown too, so they prove nothing.
            let namespace = with_list(&text);
            let found = TolerationsWhitelist::of(Some(&namespace), &present);
            assert!(matches!(found, TolerationsWhitelist::Unusable(Unusable::TooLarge(_))), "{found:?}");
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
            let found = PodSecurity::of(Some(&Namespace::new(labels, &BTreeMap::new())));
            assert_eq!((found.level, found.rejects_windows_os()), (expected, rejects), "{level:?} {version:?}");
        }
        assert_eq!(PodSecurity::of(None).level, PodSecurityLevel::Privileged);
    }

    proptest! {
        #[test]
        fn any_annotation_is_read_or_an_error(text in ".*", json in r#"\[\{"(key|Key|operator|tolerationSeconds)": ("[a-z]*"|[0-9.]{1,22}|null)\}?\]?"#) {
            for text in [text, json] {
                let with_list = with_list(&text);
                let list = TolerationsWhitelist::of(Some(&with_list), &[]);
                // Whatever the value is, the result is the same for the same toleration, and for all tolerations if the
                // list restricts nothing.
                prop_assert_eq!(list.rejects(&os_toleration()), list != TolerationsWhitelist::Anything && !matches!(list, TolerationsWhitelist::Only(all) if all.iter().any(|one| one.is_superset_of(&AdmittedToleration::of(&os_toleration())))));
                let namespace = namespace(NODE_SELECTOR_ANNOTATIONS[0], &text);
                let _: Option<Contradiction<'_>> = contradiction(Some(&namespace), "kubernetes.io/os", "windows");
            }
        }
    }
}
