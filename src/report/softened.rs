//! Why findings only warn that would deny under other settings: what the policies of their namespace contribute.

use std::collections::HashMap;
use std::sync::Arc;

use mullion_engine::admission::{Review, effective_action, review};
use mullion_engine::model::ReviewRequest;
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::settings::{Action, Denials, Settings, TemplateDenials};
use mullion_engine::rules::{Finding, catalogue, find};
use mullion_policy::PolicySet;

use crate::report::wording::set_by;

/// The reasons, by the code and the pointer of a finding.
#[derive(Debug, Default)]
pub(crate) struct SoftenedFindings(HashMap<(&'static str, String), String>);

impl SoftenedFindings {
    /// The findings of `first`, the review of `request`, that only warn because of a setting. The request is reviewed
    /// again without each setting that can soften a denial.
    pub(crate) fn new(
        request: &ReviewRequest<'_>,
        first: &Review,
        snapshot: &ClusterSnapshot,
        policies: &PolicySet,
    ) -> Self {
        let settings = &first.settings;
        let mut softened = Self::default();
        let set = |key: &str, value: &str| {
            let namespace = request.workload.namespace;
            let origin = set_by(settings.origins.get(key));
            format!("only a warning in namespace {namespace}, where {key} is {value} ({origin})")
        };
        if !first.findings.iter().any(|finding| effective_action(first, finding) == Action::Warn) {
            return softened;
        }
        let mut without = |changed: Settings, reason: &dyn Fn(&Finding) -> String| {
            let mut resolved = policies.resolve(request, snapshot);
            resolved.new = Arc::new(changed);
            let strict = review(request, snapshot, &resolved);
            for finding in strict.findings.iter().filter(|one| effective_action(&strict, one) == Action::Deny) {
                softened.0.entry((finding.code, finding.pointer.clone())).or_insert_with(|| reason(finding));
            }
        };
        if settings.denials == Denials::Warn {
            let reason = set("rules.denials", "Warn");
            without(Settings { denials: Denials::Deny, ..Settings::clone(settings) }, &|_| reason.clone());
        }
        if settings.templates == TemplateDenials::Warn {
            let reason = set("rules.templates", "Warn");
            without(Settings { templates: TemplateDenials::Deny, ..Settings::clone(settings) }, &|_| reason.clone());
        }
        let is_old = catalogue().any(|rule| !settings.knows(rule.since));
        if let Some(version) = settings.rules_version.as_ref().filter(|_| is_old) {
            let reason = set("rules.version", &format!("{version:?}"));
            without(Settings { rules_version: None, ..Settings::clone(settings) }, &|finding| {
                let since = find(finding.code).map_or("", |rule| rule.since);
                format!("{reason}: the rule denies since {since}")
            });
        }
        softened
    }

    /// Why a finding only warns; `None` if it would not deny otherwise.
    pub(crate) fn reason(&self, finding: &Finding, action: Action) -> Option<&str> {
        let reason = self.0.get(&(finding.code, finding.pointer.clone()))?;
        (action == Action::Warn).then_some(reason)
    }
}
