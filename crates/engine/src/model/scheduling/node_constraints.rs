//! Node constraints of a pod: nodeSelector and required node affinity, and which nodes satisfy them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::model::cluster::{Node, Nodes};
use crate::model::json_pointer::escape;
use crate::model::names::{OS_LABELS, WINDOWS_BUILD_LABEL};
use crate::model::operating_system::Os;
use crate::model::pod_view::Pod;

/// Pointer of the required node affinity's terms, below the pod.
pub(crate) const REQUIRED_TERMS: &str =
    "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";

/// The maximum number of comparisons of a node with a requirement, or of a taint with a toleration, to find the nodes
/// for a pod: about 15 ms. It is enough for 25 requirements on 20,000 nodes that differ in a constrained label, or for 5,000
/// requirements on 100 kinds of nodes.
pub(crate) const MAX_COMPARISONS: usize = 500_000;

/// Labels that only Windows nodes have: with any value, or with a value that begins with this text, ignoring case.
const WINDOWS_LABELS: [(&str, Option<&str>); 5] = [
    // kubelet, on Windows only (getOSSpecificLabels)
    (WINDOWS_BUILD_LABEL, None),
    // AKS: Windows2019, Windows2022, Windows2025, WindowsAnnual; Linux pools have Ubuntu, AzureLinux
    ("kubernetes.azure.com/os-sku", Some("windows")),
    // GKE: on Windows nodes only
    ("cloud.google.com/gke-windows-os-version", None),
    // GKE: windows_ltsc, windows_ltsc_containerd; Linux pools have cos, ubuntu
    ("cloud.google.com/gke-os-distribution", Some("windows")),
    // OpenShift WMCO
    ("node.openshift.io/os_id", Some("windows")),
];

/// Lists of a pod in which a repeated item changes nothing: requirements of a term, which all must hold, and
/// tolerations, of which one is enough.
pub const SETS: [&str; 3] = ["matchExpressions", "matchFields", "tolerations"];

/// Whether the text contains a label that decides the operating system, or one of Mullion's keys.
pub fn names_deciding_label(text: &str) -> bool {
    let windows = WINDOWS_LABELS.iter().map(|(label, _)| *label);
    OS_LABELS.into_iter().chain(windows).chain(["mullion.dev/"]).any(|label| text.contains(label))
}

/// The operating system that a set of constraints requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OsWanted {
    /// No operating system.
    Silent,
    /// Only this operating system.
    Only(Os),
    /// Both operating systems, as alternatives.
    Either,
    /// No node can satisfy the constraints: they require Linux and Windows at once.
    Impossible,
    /// A value that is neither: a template that is not filled in, or an OS that Mullion does not know.
    Unknown,
}

/// The OS that `nodeSelector` requires, and the pointer of its key, below the pod.
pub(crate) fn selector_os(pod: &Pod<'_>) -> (OsWanted, Option<String>) {
    os_of_pairs(pod.strings("/spec/nodeSelector"))
}

/// Does the same as `selector_os` without one label, for a selector in which Mullion added that label.
pub(crate) fn selector_os_without(pod: &Pod<'_>, label: &str) -> (OsWanted, Option<String>) {
    os_of_pairs(pod.strings("/spec/nodeSelector").filter(|(key, _)| *key != label))
}

fn os_of_pairs<'p>(pairs: impl Iterator<Item = (&'p str, &'p str)>) -> (OsWanted, Option<String>) {
    let mut required = RequiredOs::default();
    let mut pointer = None;
    for (key, value) in pairs {
        if required.add(key, "In", &[value]) && pointer.is_none() {
            pointer = Some(format!("/spec/nodeSelector/{}", escape(key)));
        }
    }
    (required.wanted(), pointer)
}

/// The OS that the required node affinity requires. Terms are alternatives, so each of them must require it.
pub(crate) fn affinity_os(pod: &Pod<'_>) -> OsWanted {
    let mut wanted = pod.items(REQUIRED_TERMS).iter().filter(|term| !is_empty_term(term)).map(term_os);
    let Some(first) = wanted.next() else { return OsWanted::Silent };
    wanted.fold(first, |all, term| match (all, term) {
        (a, b) if a == b => a,
        // A term that no node satisfies adds nothing to the alternatives.
        (OsWanted::Impossible, other) | (other, OsWanted::Impossible) => other,
        (OsWanted::Silent, _) | (_, OsWanted::Silent) => OsWanted::Silent,
        _ => OsWanted::Either,
    })
}

/// Whether each term of the required node affinity has a requirement for Windows. As in the match conditions of the chart, a
/// requirement without values counts, which the API server rejects after it has called webhooks.
pub(crate) fn affinity_names_windows(pod: &Pod<'_>) -> bool {
    let names_windows = |value: &Value| {
        let (key, operator, values) = requirement(value);
        let is_label = || WINDOWS_LABELS.iter().any(|(label, _)| *label == key);
        let mut required = RequiredOs::default();
        required.add(key, operator, &values);
        required.wanted() == OsWanted::Only(Os::Windows) || operator == "In" && values.is_empty() && is_label()
    };
    let mut terms = pod.items(REQUIRED_TERMS).iter().filter(|term| !is_empty_term(term)).peekable();
    terms.peek().is_some() && terms.all(|term| expressions(term).iter().any(names_windows))
}

/// Whether the required node affinity has at most that many terms, each of them at most that many expressions, and each
/// expression for a label whose value begins with `windows` at most that many values.
pub(crate) fn has_short_terms(pod: &Pod<'_>, longest: usize) -> bool {
    let is_short = |value: &Value| {
        let (key, _, values) = requirement(value);
        values.len() <= longest || !WINDOWS_LABELS.iter().any(|(label, prefix)| *label == key && prefix.is_some())
    };
    let terms = pod.items(REQUIRED_TERMS);
    terms.len() <= longest
        && terms.iter().all(|term| expressions(term).len() <= longest && expressions(term).iter().all(is_short))
}

/// A term without requirements matches no node at all.
pub(crate) fn is_empty_term(term: &Value) -> bool {
    let empty = |name| term.get(name).and_then(Value::as_array).is_none_or(Vec::is_empty);
    empty("matchExpressions") && empty("matchFields")
}

/// The one node name that every term's `matchFields` requires: the node that a DaemonSet's pod is bound to.
pub(crate) fn affinity_node_name<'a>(pod: &Pod<'a>) -> Option<&'a str> {
    let mut names = pod.items(REQUIRED_TERMS).iter().map(|term| {
        let fields = term.get("matchFields").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        fields.iter().find_map(|field| {
            let (key, operator, values) = requirement(field);
            match (key, operator, values.as_slice()) {
                ("metadata.name", "In", [name]) => Some(*name),
                _ => None,
            }
        })
    });
    let first = names.next()??;
    names.all(|name| name == Some(first)).then_some(first)
}

/// Whether a requirement is that the node has no value of a list as its build: Mullion excludes builds like this.
pub(crate) fn is_build_exclusion(requirement: &Value) -> bool {
    is_of_build(requirement, "NotIn")
}

/// Whether a requirement is that the node has a build label.
pub(crate) fn is_build_presence(requirement: &Value) -> bool {
    is_of_build(requirement, "Exists")
}

fn is_of_build(requirement: &Value, operator: &str) -> bool {
    let is = |name, value| requirement.get(name).and_then(Value::as_str) == Some(value);
    is("key", WINDOWS_BUILD_LABEL) && is("operator", operator)
}

/// Whether a term is one of the author, to which Mullion has added that the node has a build label that is not excluded.
/// The other terms that exclude builds are then copies of it with the labels of pools.
pub(crate) fn requires_known_build(term: &Value) -> bool {
    let all = expressions(term);
    all.iter().any(is_build_presence) && all.iter().any(is_build_exclusion)
}

/// A pod's node constraints, read once and compared with many nodes. They exclude `matchFields`, which names a node
/// instead of describing it, and what Mullion adds for builds, which implies no operating system.
#[derive(Debug, Default)]
pub(crate) struct NodeConstraints<'a> {
    equal: Vec<(&'a str, &'a str)>,
    /// Alternatives, each a conjunction; `None` if there is no required affinity. Values of `In` and `NotIn` are
    /// sorted.
    terms: Option<Vec<Vec<Requirement<'a>>>>,
}

/// Key, operator, values.
type Requirement<'a> = (&'a str, &'a str, Vec<&'a str>);

impl<'a> NodeConstraints<'a> {
    /// Reads nodeSelector and required node affinity, and adds `more` labels that a node must have.
    pub(crate) fn of(pod: &Pod<'a>, more: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let alternatives = pod.items(REQUIRED_TERMS).iter().any(requires_known_build);
        let is_term = |term: &Value| !alternatives || requires_known_build(term);
        let own = |required: &Value| is_build_exclusion(required) || alternatives && is_build_presence(required);
        Self::of_terms(pod, more, is_term, |required| !own(required))
    }

    /// Reads nodeSelector and required node affinity, including the builds that the affinity excludes.
    pub(crate) fn with_excluded_builds(pod: &Pod<'a>) -> Self {
        Self::of_terms(pod, std::iter::empty(), |_| true, |_| true)
    }

    fn of_terms(
        pod: &Pod<'a>,
        more: impl Iterator<Item = (&'a str, &'a str)>,
        is_term: impl Fn(&Value) -> bool,
        counts: impl Fn(&Value) -> bool,
    ) -> Self {
        let terms = pod.items(REQUIRED_TERMS);
        let all = terms.iter().filter(|term| !is_empty_term(term) && is_term(term));
        let all = all.map(|term| {
            let required = expressions(term).iter().filter(|one| counts(one)).map(requirement);
            required.map(sorted).collect()
        });
        Self {
            equal: pod.strings("/spec/nodeSelector").chain(more).collect(),
            terms: (!terms.is_empty()).then(|| all.collect()),
        }
    }

    /// The constraints without what the nodeSelector requires of one label.
    #[must_use]
    pub(crate) fn without(mut self, label: &str) -> Self {
        self.equal.retain(|(key, _)| *key != label);
        self
    }

    /// Whether the constraints require nothing of the node.
    pub(crate) fn is_empty(&self) -> bool {
        self.equal.is_empty() && self.terms.iter().flatten().all(Vec::is_empty)
    }

    /// The labels that they constrain.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'a str> {
        let terms = self.terms.iter().flatten().flatten().map(|(key, ..)| *key);
        self.equal.iter().map(|(key, _)| *key).chain(terms)
    }

    /// Whether they are few enough to be compared with the nodes within a review.
    pub(crate) fn comparable_with(&self, nodes: &Nodes) -> bool {
        let requirements = self.terms.iter().flatten().map(Vec::len).sum::<usize>();
        requirements == 0 || nodes.samples(self.keys()).count() <= MAX_COMPARISONS / requirements
    }

    /// Whether they are few enough to be compared with every node within a review.
    pub(crate) fn comparable_with_all(&self, nodes: &Nodes) -> bool {
        let requirements = self.equal.len() + self.terms.iter().flatten().map(Vec::len).sum::<usize>();
        requirements == 0 || nodes.len() <= MAX_COMPARISONS / requirements
    }

    /// Whether the node satisfies them.
    pub(crate) fn fit(&self, node: &Node) -> bool {
        let label = |key: &str| node.labels.get(key);
        self.equal.iter().all(|(key, value)| label(key) == Some(*value))
            && self.terms.as_ref().is_none_or(|terms| {
                terms
                    .iter()
                    .any(|term| term.iter().all(|(key, operator, values)| sorted_holds(operator, values, label(key))))
            })
    }
}

/// The requirement with the values of `In` and `NotIn` sorted, because there may be thousands of values and of nodes.
fn sorted((key, operator, mut values): Requirement<'_>) -> Requirement<'_> {
    if matches!(operator, "In" | "NotIn") {
        values.sort_unstable();
    }
    (key, operator, values)
}

/// Does the same as [`requirement_holds`] for a [`sorted`] requirement.
fn sorted_holds(operator: &str, values: &[&str], label: Option<&str>) -> bool {
    let listed = |label: &str| values.binary_search(&label).is_ok();
    match operator {
        "In" => label.is_some_and(listed),
        "NotIn" => !label.is_some_and(listed),
        _ => requirement_holds(operator, values, label),
    }
}

/// Whether the pod constrains `key` at all, by selector or by required affinity.
pub(crate) fn constrains(pod: &Pod<'_>, key: &str) -> bool {
    pod.strings("/spec/nodeSelector").any(|(required, _)| required == key)
        || pod
            .items(REQUIRED_TERMS)
            .iter()
            .flat_map(expressions)
            .any(|expression| expression.get("key").and_then(Value::as_str) == Some(key))
}

/// Whether nodes with these labels can satisfy the pod's selector and affinity.
pub(crate) fn admits(pod: &Pod<'_>, labels: &BTreeMap<String, String>) -> bool {
    let terms = pod.items(REQUIRED_TERMS);
    pod.strings("/spec/nodeSelector").all(|(key, value)| labels.get(key).is_none_or(|label| label == value))
        && (terms.is_empty() || terms.iter().any(|term| labels_hold(term, labels)))
}

/// Whether nodes with these labels, and possibly others, can satisfy the term.
pub(crate) fn labels_hold(term: &Value, labels: &BTreeMap<String, String>) -> bool {
    expressions(term).iter().all(|expression| {
        let (key, operator, values) = requirement(expression);
        labels.get(key).is_none_or(|label| requirement_holds(operator, &values, Some(label)))
    })
}

/// Whether a label with that value (`None`: absent) satisfies a requirement, as in the scheduler. No value satisfies an
/// unknown operator.
pub fn requirement_holds(operator: &str, values: &[impl AsRef<str>], label: Option<&str>) -> bool {
    let listed = |label: &str| values.iter().any(|value| value.as_ref() == label);
    let numbers = || {
        let bound = values.first().and_then(|value| value.as_ref().parse::<i64>().ok());
        label.and_then(|label| label.parse::<i64>().ok()).zip(bound)
    };
    match operator {
        "In" => label.is_some_and(listed),
        "NotIn" => !label.is_some_and(listed),
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        "Gt" => numbers().is_some_and(|(label, bound)| label > bound),
        "Lt" => numbers().is_some_and(|(label, bound)| label < bound),
        _ => false,
    }
}

fn term_os(term: &Value) -> OsWanted {
    let mut required = RequiredOs::default();
    for expression in expressions(term) {
        let (key, operator, values) = requirement(expression);
        required.add(key, operator, &values);
    }
    required.wanted()
}

/// The label requirements of a term.
pub fn expressions(term: &Value) -> &[Value] {
    term.get("matchExpressions").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn requirement(value: &Value) -> Requirement<'_> {
    let text = |name| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let values = value.get("values").and_then(Value::as_array).into_iter().flatten();
    (text("key"), text("operator"), values.filter_map(Value::as_str).collect())
}

/// The operating systems that a conjunction of requirements allows.
#[derive(Default)]
struct RequiredOs {
    not_linux: bool,
    not_windows: bool,
    /// Operating systems that are listed without excluding others: [`OsWanted::Either`] or [`OsWanted::Unknown`].
    named: Option<OsWanted>,
}

impl RequiredOs {
    /// Adds one requirement; returns whether it is about the operating system.
    fn add(&mut self, key: &str, operator: &str, values: &[&str]) -> bool {
        if OS_LABELS.contains(&key) {
            let allows = |os: Os| match operator {
                "In" => values.contains(&os.name()),
                "NotIn" => !values.contains(&os.name()),
                _ => true,
            };
            let (linux, windows) = (allows(Os::Linux), allows(Os::Windows));
            if operator == "In" && !linux && !windows {
                self.named = Some(OsWanted::Unknown);
                return true;
            }
            self.not_linux |= !linux;
            self.not_windows |= !windows;
            if operator == "In" && linux && windows {
                self.named.get_or_insert(OsWanted::Either);
            }
            return !(linux && windows) || operator == "In";
        }
        let Some((_, start)) = WINDOWS_LABELS.iter().find(|(label, _)| *label == key) else { return false };
        let windows = match operator {
            "In" => !values.is_empty() && values.iter().all(|value| start.is_none_or(|start| starts(value, start))),
            "Exists" | "Gt" | "Lt" => start.is_none(),
            // An exclusion does not require a value.
            _ => false,
        };
        self.not_linux |= windows;
        windows
    }

    fn wanted(&self) -> OsWanted {
        match (self.not_linux, self.not_windows) {
            (true, true) => OsWanted::Impossible,
            _ if self.named == Some(OsWanted::Unknown) => OsWanted::Unknown,
            (true, false) => OsWanted::Only(Os::Windows),
            (false, true) => OsWanted::Only(Os::Linux),
            (false, false) => self.named.unwrap_or(OsWanted::Silent),
        }
    }
}

fn starts(value: &str, start: &str) -> bool {
    value.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}
