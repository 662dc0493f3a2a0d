//! Selector, affinity and tolerations: which nodes the pods may run on.
//!
//! The pods of most workloads must leave the old pools: what pins them there changes to the new pool. Those of a DaemonSet run
//! in the old and in the new pools during the move, so what pins them is widened.

use mullion_engine::model::Os;
use mullion_engine::model::cluster::RuntimeClass;
use mullion_engine::model::names::{OS_LABELS, WINDOWS_BUILD_LABEL};
use mullion_engine::model::scheduling::{SchedulingConstraints, expressions, toleration_of};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::edits::pod_spec::{PodSpec, REQUIRED, SELECTOR, TERMS, TOLERATIONS};
use crate::scope::{MoveScope, NewPool, pin_label};
use mullion_survey::analysis::HOST_NAME;

/// Where the pods go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// To the new pool, and only there.
    NewPool,
    /// To the new pool as well.
    BothPools,
    /// They are in the pool already, and new ones must enter while it is closed.
    Present,
}

/// A label that nodes of the new pool need.
pub(super) type MissingLabel = (String, String);

/// What the edits cannot do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PlacementResult {
    /// Labels that the new pool lacks and that stay selected.
    pub(super) missing: Vec<MissingLabel>,
    /// A requirement that no node of the new pool can meet.
    pub(super) unmet: Option<String>,
}

/// One requirement of a node selector term.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Requirement {
    key: String,
    operator: String,
    values: Vec<String>,
}

/// A term after the edits.
struct EditedTerm {
    index: usize,
    expressions: Vec<Value>,
    /// Whether no expression was added or removed.
    values_only: bool,
    drops_fields: bool,
    missing: Vec<MissingLabel>,
    unmet: Option<String>,
}

/// What a placement is made with.
#[derive(Clone, Copy)]
pub(super) struct Placement<'a> {
    pub(super) scope: &'a MoveScope,
    pub(super) pool: &'a NewPool,
    pub(super) reach: Reach,
}

impl Placement<'_> {
    /// Edits selector, affinity and tolerations. `class`: the RuntimeClass after the edits; `constraints`: those of the running
    /// pods, with what admission added to them.
    pub(super) fn edit(
        self,
        spec: &mut PodSpec<'_>,
        class: Option<&RuntimeClass>,
        constraints: &SchedulingConstraints,
    ) -> PlacementResult {
        let mut result = PlacementResult::default();
        if self.reach == Reach::Present {
            self.edit_tolerations(spec, class, constraints);
            return result;
        }
        self.edit_selector(spec, &mut result);
        self.edit_terms(spec, &mut result);
        for (key, value) in class.into_iter().flat_map(|class| &class.node_selector) {
            self.check_label(key, value, &mut result);
        }
        if self.reach == Reach::NewPool && !self.is_forced(spec, class) {
            let build = self.scope.target.to_string();
            let why =
                format!("Nothing else keeps the pods off the old pools. Every node of {} has it.", self.scope.release);
            spec.select(WINDOWS_BUILD_LABEL, Some(&build), &why);
        }
        // The taints of a pool that changes in place stay.
        if !self.scope.in_place {
            self.edit_tolerations(spec, class, constraints);
        }
        result.missing.sort_unstable();
        result.missing.dedup();
        let is_twice = result.missing.windows(2).any(|pair| matches!(pair, [a, b] if a.0 == b.0));
        if is_twice || !matches(&spec.after, class, |one| self.meets(one, &result.missing)) {
            result.unmet.get_or_insert_with(|| "labels that exclude each other".to_owned());
        }
        result
    }

    /// Whether the scheduler may put pods with that spec into the new pool, taints aside, once its nodes have the labels that
    /// somebody may give them.
    pub(super) fn admits(self, spec: &Value, class: Option<&RuntimeClass>) -> bool {
        matches(spec, class, |one| self.may_have(&one.key) || self.meets(one, &[]))
    }

    fn edit_selector(self, spec: &mut PodSpec<'_>, result: &mut PlacementResult) {
        for (key, value) in spec.pairs(SELECTOR) {
            // The nodes of a pool that changes in place keep their names.
            if key == HOST_NAME && self.scope.in_place {
                continue;
            }
            if key == HOST_NAME {
                if self.reach == Reach::NewPool {
                    spec.select(
                        &key,
                        None,
                        "It names a node of an old pool. Data on the disk of that node stays there.",
                    );
                } else {
                    result.unmet.get_or_insert(format!("{HOST_NAME}={value}"));
                }
                continue;
            }
            let Some(pin) = pin_label(&key) else {
                self.check_label(&key, &value, result);
                continue;
            };
            let model = self.pool.node.labels.get(pin);
            match (model, self.reach) {
                (Some(model), _) if model == value => {}
                (Some(model), Reach::NewPool) => spec.select(&key, Some(model), &self.why_pin(pin)),
                (None, _) => spec.select(&key, None, "The nodes of the new pool do not have this label."),
                (Some(model), _) => {
                    let off = if self.scope.in_place { "nodes of the new release" } else { "the new pool" };
                    spec.select(&key, None, &format!("It keeps the pods off {off}; the affinity names both."));
                    widen(spec, pin, &[value.as_str(), model], self.why_both());
                }
            }
        }
    }

    /// Why pods must be able to run on old and new nodes.
    fn why_both(self) -> &'static str {
        if self.scope.in_place {
            "While the pool changes, the pods must run on nodes of both releases."
        } else {
            "The pods must run in the old and in the new pools until all workloads have moved."
        }
    }

    fn why_pin(self, label: &str) -> String {
        let what = if label == WINDOWS_BUILD_LABEL { "build" } else { "pool or release" };
        format!("It names a {what} that leaves. The nodes of pool {} have this value.", self.pool.name)
    }

    fn check_label(self, key: &str, value: &str, result: &mut PlacementResult) {
        if self.pool.values(key).any(|found| found == value) {
            return;
        }
        if self.may_have(key) {
            result.missing.push((key.to_owned(), value.to_owned()));
        } else {
            result.unmet.get_or_insert(format!("{key}={value}"));
        }
    }

    fn edit_terms(self, spec: &mut PodSpec<'_>, result: &mut PlacementResult) {
        let terms = spec.items(TERMS).to_vec();
        if spec.after.pointer(TERMS).is_none_or(Value::is_null) {
            return;
        }
        let for_windows = |term: &Value| requirements(term).iter().all(|one| !excludes_windows(one));
        let relevant = |term: &Value| for_windows(term) && requirements(term).iter().all(|one| self.may_leave(one));
        let any = terms.iter().any(relevant);
        let chosen = |term: &Value| if any { relevant(term) } else { for_windows(term) };
        let edited: Vec<EditedTerm> = terms
            .iter()
            .enumerate()
            .filter(|(_, term)| chosen(term))
            .map(|(index, term)| self.edited_term(index, term))
            .collect();
        // One term is enough: the one that needs the least of the pool.
        let best = edited.iter().min_by_key(|term| (term.unmet.is_some(), term.missing.len()));
        match best {
            Some(best) => {
                result.missing.extend(best.missing.iter().cloned());
                if let Some(unmet) = &best.unmet {
                    result.unmet.get_or_insert_with(|| unmet.clone());
                }
            }
            None => {
                result.unmet.get_or_insert_with(|| "its required node affinity".to_owned());
            }
        }
        for term in edited {
            self.write_term(spec, &terms, term);
        }
    }

    fn write_term(self, spec: &mut PodSpec<'_>, terms: &[Value], term: EditedTerm) {
        let at = format!("{TERMS}/{}", term.index);
        let old = terms.get(term.index).map(expressions).unwrap_or_default();
        let why = match self.reach {
            Reach::NewPool => format!("It names a pool or release that leaves, or excludes {}.", self.scope.release),
            Reach::BothPools | Reach::Present => self.why_both().to_owned(),
        };
        if term.values_only {
            for (index, (old, new)) in old.iter().zip(&term.expressions).enumerate() {
                if old != new {
                    let values = new.get("values").cloned();
                    spec.set(&format!("{at}/matchExpressions/{index}/values"), values, &why);
                }
            }
        } else {
            spec.set(&format!("{at}/matchExpressions"), Some(term.expressions.into()), &why);
        }
        if term.drops_fields {
            let why = "It names a node of an old pool. Data on the disk of that node stays there.";
            spec.set(&format!("{at}/matchFields"), None, why);
        }
    }

    fn edited_term(self, index: usize, term: &Value) -> EditedTerm {
        let mut edited = EditedTerm {
            index,
            expressions: Vec::new(),
            values_only: true,
            drops_fields: has_fields(term) && self.reach == Reach::NewPool,
            missing: Vec::new(),
            unmet: None,
        };
        if has_fields(term) && self.reach == Reach::BothPools {
            edited.unmet = Some("matchFields".to_owned());
        }
        for raw in expressions(term) {
            let one = requirement(raw);
            if one.key == HOST_NAME && one.operator == "In" && self.reach == Reach::NewPool {
                edited.values_only = false;
                continue;
            }
            let Some(pin) = pin_label(&one.key) else {
                if !self.meets(&one, &[]) {
                    self.require(&one, &mut edited);
                }
                edited.expressions.push(raw.clone());
                continue;
            };
            match self.edited_values(pin, &one) {
                Some(values) if values == one.values => edited.expressions.push(raw.clone()),
                Some(values) => {
                    edited.expressions.push(json!({"key": one.key, "operator": one.operator, "values": values}));
                }
                None => edited.values_only = false,
            }
        }
        // A term without requirements matches no node.
        if edited.expressions.is_empty() {
            edited.values_only = false;
            let builds = self.scope.leaving_builds.iter().filter(|_| self.reach == Reach::BothPools);
            let builds: Vec<String> = builds.chain([&self.scope.target]).map(ToString::to_string).collect();
            edited.expressions.push(json!({"key": WINDOWS_BUILD_LABEL, "operator": "In", "values": builds}));
        }
        edited
    }

    /// The values of a requirement that names pools or releases; `None` if it must go.
    fn edited_values(self, pin: &str, one: &Requirement) -> Option<Vec<String>> {
        let model = self.pool.node.labels.get(pin);
        let mut values = one.values.clone();
        match (one.operator.as_str(), model) {
            ("In", Some(model)) => {
                if !values.iter().any(|value| value == model) {
                    if self.reach == Reach::NewPool {
                        values.clear();
                    }
                    values.push(model.to_owned());
                }
                Some(values)
            }
            ("NotIn", Some(model)) => {
                values.retain(|value| value != model);
                (!values.is_empty()).then_some(values)
            }
            ("NotIn" | "DoesNotExist", None) | ("Exists", Some(_)) => Some(values),
            _ => None,
        }
    }

    /// What the pool needs for a requirement about a label that names no pool and no release.
    fn require(self, one: &Requirement, edited: &mut EditedTerm) {
        let value = match one.operator.as_str() {
            "In" => one.values.first().map(String::as_str),
            "Exists" => Some("true"),
            _ => None,
        };
        if let Some(value) = value.filter(|_| self.may_have(&one.key)) {
            edited.missing.push((one.key.clone(), value.to_owned()));
        } else {
            let requirement = format!("{} {} {}", one.key, one.operator, one.values.join(", "));
            edited.unmet.get_or_insert(requirement.trim_end().to_owned());
        }
    }

    /// Whether somebody may give the nodes of the new pool that label: they have no other value of it.
    fn may_have(self, key: &str) -> bool {
        is_settable(key) && self.pool.values(key).next().is_none()
    }

    /// Whether nodes of the new pool meet a requirement. `given`: the labels that they are to get.
    fn meets(self, one: &Requirement, given: &[MissingLabel]) -> bool {
        let given = given.iter().filter(|(key, _)| *key == one.key).map(|(_, value)| value.as_str());
        let values: Vec<&str> = self.pool.values(&one.key).chain(given).collect();
        let listed = |value: &&str| one.values.iter().any(|listed| listed == value);
        let bound = one.values.first().and_then(|value| value.parse::<i64>().ok());
        let compare = |holds: fn(&i64, &i64) -> bool| {
            let mut numbers = values.iter().filter_map(|value| value.parse().ok());
            bound.is_some_and(|bound| numbers.any(|number| holds(&number, &bound)))
        };
        match one.operator.as_str() {
            "In" => values.iter().any(listed),
            "NotIn" => values.is_empty() || !values.iter().all(listed),
            "Exists" => !values.is_empty(),
            "DoesNotExist" => values.is_empty(),
            "Gt" => compare(i64::gt),
            "Lt" => compare(i64::lt),
            _ => false,
        }
    }

    /// Whether nodes that leave, or those of the new pool, may meet a requirement about a pool or release.
    fn may_leave(self, one: &Requirement) -> bool {
        let Some(pin) = pin_label(&one.key).filter(|_| one.operator == "In") else { return true };
        let model = self.pool.node.labels.get(pin);
        one.values.iter().any(|value| self.scope.leaves_with(pin, value) || model == Some(value))
    }

    /// Whether no node that leaves meets selector and affinity, by a label that names a pool or a release.
    fn is_forced(self, spec: &PodSpec<'_>, class: Option<&RuntimeClass>) -> bool {
        let only_new = |key: &str, value: &str| {
            let model = pin_label(key).and_then(|pin| self.pool.node.labels.get(pin));
            model == Some(value) && !self.scope.leaves_with(key, value)
        };
        let terms = spec.items(TERMS);
        let term_is_forced = |term: &Value| {
            requirements(term)
                .iter()
                .any(|one| one.operator == "In" && one.values.iter().all(|value| only_new(&one.key, value)))
        };
        spec.pairs(SELECTOR).iter().any(|(key, value)| only_new(key, value))
            || class.into_iter().flat_map(|class| &class.node_selector).any(|(key, value)| only_new(key, value))
            || (!terms.is_empty() && terms.iter().all(term_is_forced))
    }

    fn edit_tolerations(
        self,
        spec: &mut PodSpec<'_>,
        class: Option<&RuntimeClass>,
        constraints: &SchedulingConstraints,
    ) {
        let own = SchedulingConstraints::deserialize(&json!({ "tolerations": spec.items(TOLERATIONS) }));
        let own = own.unwrap_or_default();
        let of_class = class.map(|class| json!({ "tolerations": class.tolerations.parsed() }));
        let of_class = of_class.and_then(|value| SchedulingConstraints::deserialize(&value).ok()).unwrap_or_default();
        for taint in self.pool.node.known_taints().iter().filter(|taint| taint.effect != "PreferNoSchedule") {
            if self.reach == Reach::Present && *taint != self.scope.taint {
                continue;
            }
            if own.tolerates(taint) || of_class.tolerates(taint) || constraints.tolerates(taint) {
                continue;
            }
            let why = if self.reach == Reach::Present {
                "The pods are in the pool that the taint closes. Without the toleration no new pod may enter until the pool is open."
            } else if *taint == self.scope.taint {
                "The taint keeps the new pool closed: pods without this toleration cannot be placed there."
            } else {
                "The nodes of the new pool have this taint."
            };
            spec.push(TOLERATIONS, toleration_of(taint), why);
        }
    }
}

/// Whether selector, RuntimeClass and one term of the affinity hold.
fn matches(spec: &Value, class: Option<&RuntimeClass>, holds: impl Fn(&Requirement) -> bool) -> bool {
    let equals = |key: &str, value: &str| {
        holds(&Requirement { key: key.to_owned(), operator: "In".to_owned(), values: vec![value.to_owned()] })
    };
    let selector = spec.pointer(SELECTOR).and_then(Value::as_object);
    let mut selector = selector.into_iter().flatten();
    let mut of_class = class.into_iter().flat_map(|class| &class.node_selector);
    let terms = spec.pointer(TERMS).and_then(Value::as_array);
    let term_holds =
        |term: &Value| !has_fields(term) && !expressions(term).is_empty() && requirements(term).iter().all(&holds);
    selector.all(|(key, value)| value.as_str().is_some_and(|value| equals(key, value)))
        && of_class.all(|(key, value)| equals(key, value))
        && terms.is_none_or(|terms| terms.iter().any(term_holds))
}

/// Requires one of these values in every term.
fn widen(spec: &mut PodSpec<'_>, label: &str, values: &[&str], why: &str) {
    let expression = json!({"key": label, "operator": "In", "values": values});
    let terms = spec.items(TERMS).len();
    if terms == 0 {
        let required = json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]});
        spec.set(REQUIRED, Some(required), why);
        return;
    }
    for at in 0..terms {
        let term = format!("{TERMS}/{at}/matchExpressions");
        spec.push(&term, expression.clone(), why);
    }
}

/// Whether somebody may give nodes that label.
fn is_settable(key: &str) -> bool {
    let is_label = key.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
    is_label && pin_label(key).is_none() && !OS_LABELS.contains(&key) && key != HOST_NAME
}

fn requirement(expression: &Value) -> Requirement {
    Requirement::deserialize(expression).unwrap_or_default()
}

fn requirements(term: &Value) -> Vec<Requirement> {
    expressions(term).iter().map(requirement).collect()
}

fn has_fields(term: &Value) -> bool {
    term.get("matchFields").and_then(Value::as_array).is_some_and(|fields| !fields.is_empty())
}

fn excludes_windows(one: &Requirement) -> bool {
    let windows = || one.values.iter().any(|value| value == Os::Windows.name());
    OS_LABELS.contains(&one.key.as_str())
        && match one.operator.as_str() {
            "In" => !windows(),
            "NotIn" => windows(),
            _ => false,
        }
}

/// The terms that keep pods off nodes of the target until their step, in place of `terms`.
pub(super) fn held_terms(terms: &[Value], build: &str) -> Vec<Value> {
    let expression = json!({"key": WINDOWS_BUILD_LABEL, "operator": "NotIn", "values": [build]});
    let held = |term: &Value| {
        let mut term = term.clone();
        if let Some(members) = term.as_object_mut() {
            let all: Vec<Value> = expressions(&Value::Object(members.clone())).to_vec();
            members.insert("matchExpressions".to_owned(), all.into_iter().chain([expression.clone()]).collect());
        }
        term
    };
    if terms.is_empty() { vec![json!({"matchExpressions": [expression]})] } else { terms.iter().map(held).collect() }
}
