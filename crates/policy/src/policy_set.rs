//! The set of all policies in force, and its settings for one workload.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::settings::{Labels, Lookup, NodeSettings, Origin, ReviewSettings, Settings};
use mullion_engine::model::{Operation, ReviewRequest, WorkloadKind, WorkloadObject};

use crate::documents::PodPolicy;
use crate::layers::merge_policies;
use crate::policy_date::PolicyDate;
use crate::policy_file::{PolicyDocument, PolicyFile};
use crate::registry_policy::RegistryPolicy;

/// All policies in force together: one consistent, immutable set.
#[derive(Debug, Clone, Default)]
pub struct PolicySet {
    /// In order of precedence: highest priority first, equal priorities in order of name; including the built-in
    /// policies.
    pub pods: Vec<PodPolicy>,
    /// The pod policies of files whose `until` has passed, highest priority first. They have no effect.
    pub ended: Vec<PodPolicy>,
    /// The NodePolicy of the files, merged over the built-in one.
    pub nodes: NodeSettings,
    /// The RegistryPolicy of the files, merged over the built-in one.
    pub registries: RegistryPolicy,
    /// Every policy of the files, in order of file and line; of the built-in file for the built-in set.
    pub documents: Arc<[PolicyDocument]>,
    /// The origins of the keys of the NodePolicy, as [`PodPolicy::origins`].
    pub node_origins: BTreeMap<String, Origin>,
    /// The origins of the keys of the RegistryPolicy.
    pub registry_origins: BTreeMap<String, Origin>,
    /// Content hash of the files, hexadecimal; empty for a set without files.
    pub hash: String,
    /// The files as read; empty for the built-in set.
    pub files: Arc<[PolicyFile]>,
    /// Settings that were computed before. A set must not change after the first query.
    pub(crate) memo: Memo,
}

/// Settings by the set of policies that match, one bit each. Authors choose the labels of workloads, and so the number
/// of such sets. At [`Memo::LIMIT`] all entries are removed: a user who fills the map causes one new computation for
/// each other set. If the first entries stayed, every later review would compute.
#[derive(Debug, Default)]
pub(crate) struct Memo(pub(crate) RwLock<HashMap<Box<[u64]>, Arc<Settings>>>);

impl Memo {
    pub(crate) const LIMIT: usize = 256;
}

/// A copy starts empty, because it may be changed before the first query.
impl Clone for Memo {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PolicySet {
    /// A set with `settings` for every workload.
    pub fn fixed(settings: Settings, nodes: NodeSettings) -> Self {
        let set = Self { nodes, ..Self::default() };
        // There are no policies, so none matches.
        set.memo.0.write().unwrap_or_else(PoisonError::into_inner).insert([0; 4].into(), Arc::new(settings));
        set
    }

    /// The settings for the workload of a request. If its namespace is unknown, policies with a `namespaceSelector` do not
    /// match.
    pub fn resolve<'a>(&'a self, request: &ReviewRequest<'_>, snapshot: &ClusterSnapshot) -> ReviewSettings<'a> {
        let WorkloadObject { kind, namespace, object } = request.workload;
        let labels = snapshot.namespaces.get(namespace).or(request.namespace).map(|namespace| &namespace.labels);
        let pod = Pod::of(kind, object);
        let settings = |pod| self.settings(namespace, labels, &pod);
        let new: Arc<Settings> = pod.map(settings).unwrap_or_default();
        // Findings of the old object of a pod are never used.
        let old = request.old.filter(|_| request.operation == Operation::Update && kind != WorkloadKind::Pod);
        let old = old.and_then(|old| Pod::of(kind, old)).map(|old| {
            let same_labels = pod.is_some_and(|new| new.get("/metadata/labels") == old.get("/metadata/labels"));
            if same_labels { Arc::clone(&new) } else { settings(old) }
        });
        ReviewSettings { new, old, nodes: &self.nodes, by_namespace_labels: self.has_namespace_selectors() }
    }

    /// The settings for a workload in `namespace` with the labels `pod_labels` (of the pod or of the template). With
    /// `namespace_labels: None` the namespace is unknown: policies with a `namespaceSelector` do not match.
    ///
    /// Fast after the first workload that the same policies match: one look-up, without allocation for up to 256
    /// policies.
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
            if policy.matches.matches(namespace, namespace_labels, pod_labels)
                && let Some(word) = matching.get_mut(at / 64)
            {
                *word |= 1 << (at % 64);
            }
        }
        // A panic elsewhere leaves the map intact, because nothing that may panic runs while it changes.
        let known = self.memo.0.read().unwrap_or_else(PoisonError::into_inner).get(&*matching).cloned();
        known.unwrap_or_else(|| self.remember(matching))
    }

    fn remember(&self, matching: &[u64]) -> Arc<Settings> {
        let is_set = |at: usize| matching.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) != 0);
        let policies = self.pods.iter().enumerate().filter(|(at, _)| is_set(*at)).map(|(_, policy)| policy);
        let settings = Arc::new(merge_policies(policies));
        let mut memo = self.memo.0.write().unwrap_or_else(PoisonError::into_inner);
        if memo.len() >= Memo::LIMIT {
            memo.clear();
        }
        memo.insert(matching.into(), Arc::clone(&settings));
        settings
    }

    /// The pod policies of files, in order of precedence.
    pub fn own(&self) -> impl Iterator<Item = &PodPolicy> {
        self.pods.iter().filter(|policy| !policy.built_in)
    }

    /// The pod policies of files that have an end, with those that have ended: each with its end.
    pub fn exemptions(&self) -> impl Iterator<Item = (&PodPolicy, &PolicyDate)> {
        self.own().chain(&self.ended).filter_map(|policy| Some((policy, policy.until.as_ref()?)))
    }

    /// When the next policy ends, in seconds since 1970.
    pub fn next_end(&self) -> Option<i64> {
        self.own().filter_map(|policy| policy.until.as_ref()).map(|until| until.end).min()
    }

    /// Whether any policy turns on registry look-ups.
    pub fn queries_registries(&self) -> bool {
        self.pods.iter().any(|policy| policy.settings.lookup != Lookup::Never)
    }

    /// Whether any policy has a `namespaceSelector`.
    pub fn has_namespace_selectors(&self) -> bool {
        self.pods.iter().any(|policy| !policy.matches.namespace_selector.is_empty())
    }
}
