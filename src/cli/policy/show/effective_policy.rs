//! The effective policy of one workload or namespace: matching policies, and every key with the line that sets it.

use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::settings::{Labels, Origin};
use mullion_engine::model::text::list;
use mullion_policy::{EffectiveSetting, PodPolicy};
use serde::Serialize;

use crate::cli::documents::{ManifestFile, ManifestWorkload};
use crate::cli::review_sources::ReviewSources;
use crate::report::ObjectName;

/// The effective policy of one workload, or of pods without labels in a namespace.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase", tag = "type", rename = "effective")]
pub(crate) struct EffectivePolicy<'p> {
    /// `None` if only a namespace was requested.
    object: Option<ObjectName>,
    /// File and line of the object.
    #[serde(skip)]
    pub(crate) place: String,
    namespace: String,
    /// Every `PodPolicy` of the set, the highest priority first.
    pub(crate) policies: Vec<ListedPolicy<'p>>,
    /// Facts that are unknown and could change the result.
    pub(crate) notes: Vec<String>,
    pub(crate) settings: Vec<EffectiveSetting>,
    pub(crate) nodes: Vec<EffectiveSetting>,
    pub(crate) registries: Vec<EffectiveSetting>,
}

/// One PodPolicy of the set.
#[derive(Debug, Serialize)]
pub(crate) struct ListedPolicy<'p> {
    pub(crate) name: &'p str,
    /// The priority; `None` for the built-in policy below every priority.
    pub(crate) priority: Option<i64>,
    #[serde(rename = "builtIn")]
    pub(crate) built_in: bool,
    pub(crate) origin: Origin,
    pub(crate) matches: bool,
    /// Why it does not match.
    pub(crate) reason: Option<String>,
}

impl<'p> EffectivePolicy<'p> {
    /// The effective policy of `workload`; if it is `None`, that of pods without labels in the namespace `default`.
    pub(crate) fn new(
        workload: Option<(&ManifestWorkload<'_>, &ManifestFile<'_>)>,
        default: &str,
        sources: &'p ReviewSources,
    ) -> Self {
        let ReviewSources { policies: set, snapshot, .. } = sources;
        let namespace = workload.map_or(default, |(workload, _)| workload.namespace(default));
        let known = snapshot.namespaces.get(namespace).map(|namespace| &namespace.labels);
        let pod = workload.and_then(|(workload, _)| Pod::of(workload.kind, workload.value()));
        let labels: &dyn Labels = pod.as_ref().map_or(&(), |pod| pod);
        let policy_match = |policy: &'p PodPolicy| {
            let ended = || policy.until.as_ref().map(|until| format!("it has ended (until {})", until.text));
            let has_ended = set.ended.iter().any(|ended| std::ptr::eq(ended, policy));
            let reason = if has_ended { ended() } else { policy.matches.mismatch(namespace, known, labels) };
            let PodPolicy { name, priority, built_in, .. } = policy;
            let (matches, origin) = (reason.is_none(), policy.origin(""));
            ListedPolicy { name, priority: *priority, built_in: *built_in, origin, matches, reason }
        };
        let names = |selects: fn(&PodPolicy) -> bool| {
            list(set.pods.iter().filter(|policy| selects(policy)).map(|policy| format!("`{}`", policy.name)))
        };
        let mut notes = Vec::new();
        if known.is_none() && set.has_namespace_selectors() {
            notes.push(format!(
                "the labels of namespace {namespace} are unknown, and they decide whether PodPolicy {} applies; pass --snapshot FILE",
                names(|policy| !policy.matches.namespace_selector.is_empty())
            ));
        }
        if workload.is_none() && set.pods.iter().any(|policy| !policy.matches.pod_selector.is_empty()) {
            notes.push(format!(
                "this is for pods without labels, and labels could change it for PodPolicy {}; name a pod with --pod",
                names(|policy| !policy.matches.pod_selector.is_empty())
            ));
        }
        Self {
            object: workload.map(|(workload, _)| workload.name(default)),
            place: workload.map_or_else(String::new, |(workload, file)| {
                format!("{}:{}", file.source.name, file.line_column(workload.object.span.start).line)
            }),
            namespace: namespace.to_owned(),
            policies: set.pods.iter().chain(&set.ended).map(policy_match).collect(),
            notes,
            settings: set.effective(namespace, known, labels),
            nodes: set.effective_nodes(),
            registries: set.effective_registries(),
        }
    }

    /// `Pod web in namespace shop`, `namespace shop`.
    pub(crate) fn title(&self) -> String {
        match &self.object {
            Some(ObjectName { kind, name, .. }) => format!("{kind} {name} in namespace {}", self.namespace),
            None => format!("namespace {}", self.namespace),
        }
    }
}

/// `policies/a.yaml:7`, or `default` for a key that no policy sets.
pub(crate) fn place(origin: Option<&Origin>) -> String {
    origin.map_or_else(|| "default".to_owned(), ToString::to_string)
}
