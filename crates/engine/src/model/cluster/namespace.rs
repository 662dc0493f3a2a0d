//! A namespace: its labels, and the facts in the annotations that a review reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::cluster::admitted_toleration::{AdmittedToleration, parse_whitelist};
use crate::model::cluster::fact::{Fact, Unusable, UnusableFact};
use crate::model::cluster::namespace_selector::NodeSelector;
use crate::model::cluster::openshift_ranges::{IdRanges, parse_level};
use crate::model::names::{
    IGNORE_ANNOTATION, NODE_SELECTOR_ANNOTATIONS, OPENSHIFT_GROUPS_ANNOTATION, OPENSHIFT_LEVEL_ANNOTATION,
    OPENSHIFT_UID_RANGE_ANNOTATION, OS_ANNOTATION, TOLERATIONS_WHITELIST_ANNOTATION,
};
use crate::model::operating_system::ScopeOs;
use crate::model::opt_out::OptOut;

/// Whether labels or annotations exempt the namespace.
pub(crate) fn opts_out(map: &BTreeMap<String, String>) -> bool {
    map.get(IGNORE_ANNOTATION).is_some_and(|value| value == "true")
}

/// A namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Namespace {
    /// `metadata.labels`, all of them: policies select namespaces by any label.
    pub labels: BTreeMap<String, String>,
    /// The facts of the annotations, shared by the snapshots that contain the namespace.
    annotations: Arc<AnnotationFacts>,
}

/// What the annotations of a namespace say; `None`: the namespace does not have the annotation.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
struct AnnotationFacts {
    os: Option<ScopeOs>,
    ignored: bool,
    /// In the order of [`NODE_SELECTOR_ANNOTATIONS`].
    node_selectors: [Option<Fact<Arc<NodeSelector>>>; NODE_SELECTOR_ANNOTATIONS.len()],
    whitelist: Option<Fact<Arc<[AdmittedToleration]>>>,
    user_ids: Option<Fact<IdRanges>>,
    group_ids: Option<Fact<IdRanges>>,
    level: Option<Fact<String>>,
}

impl Namespace {
    /// The annotations that matter to a review.
    pub const ANNOTATIONS: [&'static str; 8] = [
        OS_ANNOTATION,
        IGNORE_ANNOTATION,
        NODE_SELECTOR_ANNOTATIONS[0],
        NODE_SELECTOR_ANNOTATIONS[1],
        TOLERATIONS_WHITELIST_ANNOTATION,
        OPENSHIFT_UID_RANGE_ANNOTATION,
        OPENSHIFT_GROUPS_ANNOTATION,
        OPENSHIFT_LEVEL_ANNOTATION,
    ];

    /// A namespace with these labels and annotations.
    pub fn new(labels: BTreeMap<String, String>, annotations: &BTreeMap<String, String>) -> Self {
        let mut namespace = Self { labels, ..Self::default() };
        namespace.set_annotations(annotations);
        namespace
    }

    /// Replaces what is known from annotations. They are parsed here, and nowhere else.
    pub fn set_annotations(&mut self, annotations: &BTreeMap<String, String>) {
        let text = |key: &str| annotations.get(key).map(String::as_str);
        let ids = |key: &str| text(key).map(|text| IdRanges::parse(text).into());
        self.annotations = Arc::new(AnnotationFacts {
            os: text(OS_ANNOTATION).and_then(ScopeOs::from_name),
            ignored: opts_out(annotations),
            node_selectors: NODE_SELECTOR_ANNOTATIONS
                .map(|key| text(key).map(|text| NodeSelector::parse(text).map(Arc::new).into())),
            whitelist: text(TOLERATIONS_WHITELIST_ANNOTATION).map(|text| parse_whitelist(text).map(Arc::from).into()),
            user_ids: ids(OPENSHIFT_UID_RANGE_ANNOTATION),
            group_ids: ids(OPENSHIFT_GROUPS_ANNOTATION),
            level: text(OPENSHIFT_LEVEL_ANNOTATION).map(|text| parse_level(text).into()),
        });
    }

    /// Annotation `mullion.dev/os`.
    pub fn os(&self) -> Option<ScopeOs> {
        self.annotations.os
    }

    /// Where the namespace opts out; `None` if it does not.
    pub(crate) fn opt_out(&self) -> Option<OptOut> {
        if self.annotations.ignored {
            return Some(OptOut::Annotation);
        }
        opts_out(&self.labels).then_some(OptOut::Label)
    }

    /// The node selectors, each with its annotation.
    pub(crate) fn node_selectors(&self) -> impl Iterator<Item = (&'static str, &Fact<Arc<NodeSelector>>)> {
        let facts = self.annotations.node_selectors.iter();
        NODE_SELECTOR_ANNOTATIONS.into_iter().zip(facts).filter_map(|(key, fact)| Some((key, fact.as_ref()?)))
    }

    /// The only tolerations that pods may have.
    pub(crate) fn whitelist(&self) -> Option<&Fact<Arc<[AdmittedToleration]>>> {
        self.annotations.whitelist.as_ref()
    }

    /// Whether the namespace may reject tolerations: it has the annotation.
    pub fn has_whitelist(&self) -> bool {
        self.annotations.whitelist.is_some()
    }

    /// The user IDs that OpenShift assigns.
    pub(crate) fn user_ids(&self) -> Option<&IdRanges> {
        self.annotations.user_ids.as_ref()?.parsed()
    }

    /// The group IDs that OpenShift assigns; without the annotation, the user IDs.
    pub(crate) fn group_ids(&self) -> Option<&IdRanges> {
        self.annotations.group_ids.as_ref().or(self.annotations.user_ids.as_ref())?.parsed()
    }

    /// The SELinux level that OpenShift assigns.
    pub(crate) fn level(&self) -> Option<&str> {
        self.annotations.level.as_ref()?.parsed().map(String::as_str)
    }

    /// The annotations that are not used; `name`: the namespace.
    pub fn unusable_facts(&self, name: &str) -> impl Iterator<Item = UnusableFact> {
        self.unusable()
            .map(move |(annotation, why)| UnusableFact::new("Namespace", name, format!("annotation {annotation}"), why))
    }

    fn unusable(&self) -> impl Iterator<Item = (&'static str, &Unusable)> {
        let AnnotationFacts { os: _, ignored: _, node_selectors, whitelist, user_ids, group_ids, level } =
            &*self.annotations;
        let [first, second] = node_selectors;

        [
            why(first.as_ref()).map(|found| (NODE_SELECTOR_ANNOTATIONS[0], found)),
            why(second.as_ref()).map(|found| (NODE_SELECTOR_ANNOTATIONS[1], found)),
            why(whitelist.as_ref()).map(|found| (TOLERATIONS_WHITELIST_ANNOTATION, found)),
            why(user_ids.as_ref()).map(|found| (OPENSHIFT_UID_RANGE_ANNOTATION, found)),
            why(group_ids.as_ref()).map(|found| (OPENSHIFT_GROUPS_ANNOTATION, found)),
            why(level.as_ref()).map(|found| (OPENSHIFT_LEVEL_ANNOTATION, found)),
        ]
        .into_iter()
        .flatten()
    }
}

fn why<T>(fact: Option<&Fact<T>>) -> Option<&Unusable> {
    fact.and_then(Fact::unusable)
}
