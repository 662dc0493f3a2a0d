//! Layers of policies: the settings that all policies of one workload set together.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use mullion_engine::model::settings::origin::Origin;
use mullion_engine::model::settings::workload_settings::{Settings, Toleration};

use crate::documents::{DetectSpec, OptOutSpec, PlaceSpec, PodPolicy, RulesSpec};

/// Lays `policies`, highest first, over the defaults.
pub(crate) fn layer<'p>(policies: impl Iterator<Item = &'p PodPolicy>) -> Settings {
    let mut settings = Settings::default();
    let mut listed = Listed::default();
    for policy in policies {
        lay_under(&mut settings, policy, &mut listed);
    }
    settings
}

/// Takes from `policy` what no higher one has set.
fn lay_under<'p>(settings: &mut Settings, policy: &'p PodPolicy, listed: &mut Listed<'p>) {
    let spec = &policy.spec;
    let mut layer = Layer { origins: &mut settings.origins, policy };
    layer.scalar(&mut settings.mode, spec.mode, "mode");
    if let Some(OptOutSpec { ignore, allow }) = &spec.opt_out {
        layer.scalar(&mut settings.ignore, *ignore, "optOut.ignore");
        layer.list(&mut settings.allow, allow.as_deref(), "optOut.allow", |rule| listed.allow.insert(rule));
    }
    if let Some(DetectSpec { os, default, images, registry }) = &spec.detect {
        layer.scalar(&mut settings.os, os.map(Some), "detect.os");
        layer.scalar(&mut settings.default, *default, "detect.default");
        if let Some(images) = images {
            layer.notes("detect.images");
            settings.images.extend(images);
        }
        let lookup = registry.as_ref().and_then(|registry| registry.lookup);
        layer.scalar(&mut settings.lookup, lookup, "detect.registry.lookup");
    }
    if let Some(PlaceSpec { node_selector, tolerations, build, runtime_class, spec_os }) = &spec.place {
        layer.scalar(
            &mut settings.node_selector,
            node_selector.as_ref().and_then(|it| it.mode),
            "place.nodeSelector.mode",
        );
        if let Some(tolerations) = tolerations {
            layer.scalar(&mut settings.tolerations, tolerations.mode, "place.tolerations.mode");
            let add = tolerations.add.as_deref();
            layer.list(&mut settings.add_tolerations, add, "place.tolerations.add", |one| {
                listed.tolerations.insert(one)
            });
        }
        layer.scalar(&mut settings.build, build.as_ref().and_then(|it| it.mode), "place.build.mode");
        if let Some(class) = runtime_class {
            layer.scalar(&mut settings.runtime_class, class.mode, "place.runtimeClass.mode");
            layer.scalar(&mut settings.runtime_class_name, class.name.clone().map(Some), "place.runtimeClass.name");
        }
        layer.scalar(&mut settings.spec_os, spec_os.as_ref().and_then(|it| it.mode), "place.specOS.mode");
    }
    layer.scalar(&mut settings.workloads, spec.workloads, "workloads");
    if let Some(RulesSpec { version, denials, translate, actions }) = &spec.rules {
        layer.scalar(&mut settings.rules_version, version.clone().map(Some), "rules.version");
        layer.scalar(&mut settings.denials, *denials, "rules.denials");
        layer.list(&mut settings.translate, translate.as_deref(), "rules.translate", |rule| {
            listed.translate.insert(rule)
        });
        layer.list(&mut settings.actions, actions.as_deref(), "rules.actions", |one| listed.rules.insert(&one.rule));
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

#[cfg(test)]
mod tests;
