//! Policies laid over each other: what holds for one subject.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use super::rules::match_length;
use super::{
    Action, DetectSpec, Labels, Match, Namespaces, NodePolicy, OptOutSpec, Origin, PlaceSpec, PodPolicy, PolicySet,
    RuleAction, RulesSpec, Settings, Toleration,
};

/// Settings by the set of policies that match, one bit each. Subjects choose their labels, so the number of such sets
/// is theirs to choose too: at [`Memo::LIMIT`] all are forgotten. Whoever fills it costs the others one computation each,
/// and not, as if what came first stayed, one for every review from then on.
#[derive(Debug, Default)]
pub(crate) struct Memo(RwLock<HashMap<Box<[u64]>, Arc<Settings>>>);

impl Memo {
    const LIMIT: usize = 256;
}

/// A copy starts empty: it may be changed before it is asked.
impl Clone for Memo {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PolicySet {
    /// A set under which `settings` hold for every subject.
    pub fn fixed(settings: Settings, nodes: NodePolicy) -> Self {
        let set = Self { nodes, ..Self::default() };
        // No policy, and so none that matches.
        set.memo.0.write().unwrap_or_else(PoisonError::into_inner).insert([0; 4].into(), Arc::new(settings));
        set
    }

    /// What holds for a subject in `namespace` with the labels `pod_labels` (of the pod or of the template). With
    /// `namespace_labels: None`, nothing is known of the namespace: policies with a `namespaceSelector` do not match.
    ///
    /// Cheap after the first subject that the same policies match: one look-up, no allocation with up to 256 policies.
    pub fn settings(
        &self,
        namespace: &str,
        namespace_labels: Option<&BTreeMap<String, String>>,
        pod_labels: &dyn Labels,
    ) -> Arc<Settings> {
        let (mut few, mut many);
        let matching: &mut [u64] = if self.pods.len() <= 256 {
            few = [0; 4];
            &mut few
        } else {
            many = vec![0; self.pods.len().div_ceil(64)];
            &mut many
        };
        for (at, policy) in self.pods.iter().enumerate() {
            if policy.spec.matches.matches(namespace, namespace_labels, pod_labels)
                && let Some(word) = matching.get_mut(at / 64)
            {
                *word |= 1 << (at % 64);
            }
        }
        // A panic elsewhere leaves the map whole: nothing that may panic runs while it changes.
        let known = self.memo.0.read().unwrap_or_else(PoisonError::into_inner).get(&*matching).cloned();
        known.unwrap_or_else(|| self.remember(matching))
    }

    fn remember(&self, matching: &[u64]) -> Arc<Settings> {
        let is_set = |at: usize| matching.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) != 0);
        let policies = self.pods.iter().enumerate().filter(|(at, _)| is_set(*at)).map(|(_, policy)| policy);
        let settings = Arc::new(Settings::layered(policies));
        let mut memo = self.memo.0.write().unwrap_or_else(PoisonError::into_inner);
        if memo.len() >= Memo::LIMIT {
            memo.clear();
        }
        memo.insert(matching.into(), Arc::clone(&settings));
        settings
    }
}

impl Match {
    /// Whether all members hold.
    pub fn matches(
        &self,
        namespace: &str,
        namespace_labels: Option<&BTreeMap<String, String>>,
        pod_labels: &dyn Labels,
    ) -> bool {
        self.namespaces.matches(namespace)
            && (self.namespace_selector.is_empty()
                || namespace_labels.is_some_and(|labels| self.namespace_selector.matches(labels)))
            && self.pod_selector.matches(pod_labels)
    }
}

impl Namespaces {
    /// Whether the namespace is included (no list includes all) and not excluded.
    pub fn matches(&self, namespace: &str) -> bool {
        (self.include.is_empty() || self.include.iter().any(|glob| glob.matches(namespace)))
            && !self.exclude.iter().any(|glob| glob.matches(namespace))
    }

    /// The namespaces it is about at most, if that can be told without asking a cluster: an `include` without stars.
    pub(super) fn literal(&self) -> Option<impl Iterator<Item = &str>> {
        let literal = !self.include.is_empty() && self.include.iter().all(super::Glob::is_literal);
        literal.then(|| self.include.iter().map(|name| name.0.as_str()))
    }
}

impl Settings {
    /// Lays `policies`, highest first, over the defaults.
    pub(super) fn layered<'p>(policies: impl Iterator<Item = &'p PodPolicy>) -> Self {
        let mut settings = Self::default();
        let mut listed = Listed::default();
        for policy in policies {
            settings.lay_under(policy, &mut listed);
        }
        settings
    }

    /// Takes from `policy` what no higher one has set.
    fn lay_under<'p>(&mut self, policy: &'p PodPolicy, listed: &mut Listed<'p>) {
        let spec = &policy.spec;
        let mut layer = Layer { origins: &mut self.origins, policy };
        layer.scalar(&mut self.mode, spec.mode, "mode");
        if let Some(OptOutSpec { ignore, allow }) = &spec.opt_out {
            layer.scalar(&mut self.ignore, *ignore, "optOut.ignore");
            layer.list(&mut self.allow, allow.as_deref(), "optOut.allow", |rule| listed.allow.insert(rule));
        }
        if let Some(DetectSpec { os, default, images, registry }) = &spec.detect {
            layer.scalar(&mut self.os, os.map(Some), "detect.os");
            layer.scalar(&mut self.default, *default, "detect.default");
            if let Some(images) = images {
                layer.notes("detect.images");
                self.images.extend(images);
            }
            let lookup = registry.as_ref().and_then(|registry| registry.lookup);
            layer.scalar(&mut self.lookup, lookup, "detect.registry.lookup");
        }
        if let Some(PlaceSpec { node_selector, tolerations, build, runtime_class, spec_os }) = &spec.place {
            layer.scalar(
                &mut self.node_selector,
                node_selector.as_ref().and_then(|it| it.mode),
                "place.nodeSelector.mode",
            );
            if let Some(tolerations) = tolerations {
                layer.scalar(&mut self.tolerations, tolerations.mode, "place.tolerations.mode");
                let add = tolerations.add.as_deref();
                layer.list(&mut self.add_tolerations, add, "place.tolerations.add", |one| {
                    listed.tolerations.insert(one)
                });
            }
            layer.scalar(&mut self.build, build.as_ref().and_then(|it| it.mode), "place.build.mode");
            if let Some(class) = runtime_class {
                layer.scalar(&mut self.runtime_class, class.mode, "place.runtimeClass.mode");
                layer.scalar(&mut self.runtime_class_name, class.name.clone().map(Some), "place.runtimeClass.name");
            }
            layer.scalar(&mut self.spec_os, spec_os.as_ref().and_then(|it| it.mode), "place.specOS.mode");
        }
        layer.scalar(&mut self.workloads, spec.workloads, "workloads");
        if let Some(RulesSpec { version, denials, translate, actions }) = &spec.rules {
            layer.scalar(&mut self.rules_version, version.clone().map(Some), "rules.version");
            layer.scalar(&mut self.denials, *denials, "rules.denials");
            layer.list(&mut self.translate, translate.as_deref(), "rules.translate", |rule| {
                listed.translate.insert(rule)
            });
            layer.list(&mut self.actions, actions.as_deref(), "rules.actions", |one| listed.rules.insert(&one.rule));
        }
    }

    /// What the findings of a rule do, before `denials`: the action of the entry that decides, else `default`.
    pub fn action(&self, code: &str, name: &str, default: Action) -> Action {
        self.action_entry(code, name).map_or(default, |entry| entry.action)
    }

    /// The entry of `rules.actions` that decides for a rule: the longest match. The name counts as longest, then the
    /// whole code, then its longer prefix; of equal matches the first, which is that of the higher policy.
    pub fn action_entry(&self, code: &str, name: &str) -> Option<&RuleAction> {
        let mut best = None;
        for entry in &self.actions {
            let length = match_length(&entry.rule, code, name);
            // `>` and not `>=`: on a tie the first stays.
            if length > best.map_or(0, |(length, _)| length) {
                best = Some((length, entry));
            }
        }
        best.map(|(_, entry)| entry)
    }

    /// [`action`](Self::action), with every Deny a Warn where `denials: Warn`. Nobody else has to look at `denials`.
    pub fn effective_action(&self, code: &str, name: &str, default: Action) -> Action {
        match self.action(code, name, default) {
            Action::Deny if self.denials == super::Denials::Warn => Action::Warn,
            action => action,
        }
    }

    /// Whether `rules.translate` lists the rule.
    pub fn translates(&self, code: &str, name: &str) -> bool {
        self.translate.iter().any(|rule| match_length(rule, code, name) > 0)
    }

    /// Whether the policies were made for a Mullion that had `since` (`0.1`) already; without `rules.version` they were
    /// made for whichever runs.
    pub fn knows(&self, since: &str) -> bool {
        let number = |version: &str| {
            // Of `0.1.3` the last number says nothing: rules come with releases.
            let mut parts = version.split('.').map(str::parse::<u32>);
            Some((parts.next()?.ok()?, parts.next()?.ok()?))
        };
        self.rules_version.as_deref().is_none_or(|version| number(since) <= number(version))
    }

    /// Whether `optOut.allow` lets `mullion.dev/allow` wave the rule off.
    pub fn may_wave_off(&self, code: &str, name: &str) -> bool {
        self.allow.iter().any(|rule| match_length(rule, code, name) > 0)
    }

    /// Whether `annotation`, the value of a subject's `mullion.dev/allow`, waves the rule off: names, codes or prefixes
    /// of codes, separated by commas, as far as `optOut.allow` lets it.
    pub fn waved_off(&self, annotation: &str, code: &str, name: &str) -> bool {
        annotation.split(',').any(|written| match_length(written.trim(), code, name) > 0)
            && self.may_wave_off(code, name)
    }
}

/// What the lists of higher policies say already. To say it again decides nothing, and with 500 policies that do it
/// every rule would look through all of them.
#[derive(Default)]
struct Listed<'p> {
    allow: HashSet<&'p str>,
    translate: HashSet<&'p str>,
    /// Of `rules.actions`: whatever a lower policy has the rule do, the higher's counts.
    rules: HashSet<&'p str>,
    tolerations: BTreeSet<&'p Toleration>,
}

/// One policy on its way under the others.
struct Layer<'a> {
    origins: &'a mut BTreeMap<String, Origin>,
    policy: &'a PodPolicy,
}

impl Layer<'_> {
    /// Sets `target` unless a higher policy has. The origins say whether: every key that is set has one, if only that
    /// of its policy.
    fn scalar<T>(&mut self, target: &mut T, value: Option<T>, key: &str) {
        if let Some(value) = value
            && self.notes(key)
        {
            *target = value;
        }
    }

    /// Puts those of `values` behind `target` that are `new` there.
    fn list<'p, T: Clone>(
        &mut self,
        target: &mut Vec<T>,
        values: Option<&'p [T]>,
        key: &str,
        mut new: impl FnMut(&'p T) -> bool,
    ) {
        if let Some(values) = values {
            self.notes(key);
            target.extend(values.iter().filter(|value| new(value)).cloned());
        }
    }

    /// Notes who set `key`, and says whether it was free.
    fn notes(&mut self, key: &str) -> bool {
        if self.origins.contains_key(key) {
            return false;
        }
        self.origins.insert(key.to_owned(), self.policy.origin(key));
        true
    }
}

impl PodPolicy {
    /// Where `key` is written: its own line, else that of the nearest key above it, else of the document. A policy
    /// that was built in code has none of them: its name stands for the file.
    pub fn origin(&self, key: &str) -> Origin {
        let mut path = key;
        loop {
            if let Some(origin) = self.origins.get(path) {
                return origin.clone();
            }
            if path.is_empty() {
                return Origin { file: self.name.as_str().into(), line: 1 };
            }
            path = path.rsplit_once('.').map_or("", |(above, _)| above);
        }
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
