//! What follows from a verdict: selector, tolerations, builds, RuntimeClass, and the seal.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::build::PodBuilds;
use super::change::{Cause, Change, Edit};
use super::constraint::{self, NodeConstraints, OS_LABELS, WINDOWS_BUILD_LABEL, escape};
use super::finding::Finding;
use super::limits::{self, PodSecurity, Whitelist};
use super::node::policy_taint;
use super::note::SELECTOR;
use super::pod::Pod;
use super::rules;
use super::toleration::{includes, marks, tolerated, toleration_of, toleration_value, toleration_word};
use super::windows::{Build, release_name, server_releases};
use super::world::{Namespace, Node, Os, RuntimeClass, Taint, World};
use crate::policy::{
    Action, ApplyTaint, BuildMode, Mode, NodePolicy, NodeSelectorMode, RuntimeClassMode, Settings, SpecOsMode,
    TolerationsMode,
};

/// The label that names a Windows pod's image build.
pub const BUILD_LABEL: &str = "mullion.dev/windows-build";

/// How the names of Mullion's RuntimeClasses begin.
pub const RUNTIME_CLASS_PREFIX: &str = "mullion-windows-";

/// The RuntimeClass that Mullion keeps for a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClassOfBuild {
    /// Ours, with the handler of the policy.
    Standing(String),
    /// To be made under this name.
    Missing(String),
    /// Somebody else made one of this name: it is left alone, and pods are not given it.
    Foreign(String),
}

/// Which class is the one for a build. `standing` says of a name whether the class is ours, and its handler.
///
/// `mullion-windows-<release>`; and where that is ours with another handler, which no one can change and running pods
/// need at every sandbox, `mullion-windows-<release>-<handler>` beside it.
pub fn class_of_build<'a>(
    build: Build,
    nodes: &NodePolicy,
    standing: impl Fn(&str) -> Option<(bool, &'a str)>,
) -> ClassOfBuild {
    let handler = nodes.runtime_classes.handler.as_str();
    let plain = format!("{RUNTIME_CLASS_PREFIX}{}", release_name(build, &nodes.releases));
    let judge = |name: String| match standing(&name) {
        None => Ok(ClassOfBuild::Missing(name)),
        Some((false, _)) => Ok(ClassOfBuild::Foreign(name)),
        Some((true, found)) if found == handler => Ok(ClassOfBuild::Standing(name)),
        Some((true, _)) => Err(name),
    };
    let with_handler = |name: String| judge(format!("{name}-{handler}"));
    // Of the second name only its maker could have given it another handler: then it is as good as somebody else's.
    judge(plain).or_else(with_handler).unwrap_or_else(ClassOfBuild::Foreign)
}

/// What a placement is made from.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// The pod, or the template's pod.
    pub pod: Pod<'a>,
    /// Its namespace, where known.
    pub namespace: Option<&'a Namespace>,
    /// The cluster.
    pub world: &'a World,
    /// What the policies come to.
    pub settings: &'a Settings,
    /// The NodePolicy.
    pub nodes: &'a NodePolicy,
}

/// A toleration that a pod is to have and lacks.
#[derive(Debug)]
pub struct Missing {
    /// As a pod spec has it.
    pub value: Value,
    /// Its [word](Placed::words).
    pub word: String,
    /// Why it is to have it, as a clause.
    pub why: &'static str,
}

impl Missing {
    fn new(value: Value, why: &'static str) -> Self {
        Self { word: toleration_word(&value), value, why }
    }
}

/// Changes, and what they put there in the words of [`Note::placed`](super::note::Note::placed).
#[derive(Debug)]
pub struct Placed<'a> {
    /// What is changed.
    object: &'a Value,
    /// In the order in which they are written.
    pub changes: Vec<Change>,
    /// One word for each kind of thing.
    pub words: Vec<String>,
}

impl<'a> Placed<'a> {
    /// Nothing yet, for `object`.
    pub fn on(object: &'a Value) -> Self {
        Self { object, changes: Vec::new(), words: Vec::new() }
    }

    /// Adds an edit, unless what stands in its way is of the wrong type: the server will refuse that itself.
    pub fn push(&mut self, reason: &'static str, edit: Edit, word: impl Into<String>) {
        self.push_all(reason, edit, [word.into()]);
    }

    /// Adds an edit that puts several things there.
    pub fn push_all(&mut self, reason: &'static str, edit: Edit, words: impl IntoIterator<Item = String>) {
        if edit.applies_to(self.object) {
            self.changes.push(Change { cause: Cause::Placement(reason), edit });
            self.words.extend(words);
        }
    }
}

impl<'a> Site<'a> {
    /// The nodeSelector of that OS, unless the namespace would refuse it.
    pub fn node_selector(&self, os: Os, placed: &mut Placed<'_>) {
        let [label, _] = OS_LABELS;
        if self.lacks_node_selector(os) && self.contradiction(label, os.name()).is_none() {
            let pointer = self.pod.at(&format!("/spec/nodeSelector/{}", escape(label)));
            let edit = Edit::Set { pointer, value: Value::from(os.name()) };
            placed.push("only nodes of that operating system can run it", edit, SELECTOR);
        }
    }

    /// Whether the nodeSelector of that OS is to be added. On Windows it is written even if affinity says so already: EKS
    /// gives a pod its IP resource only for a literal nodeSelector (aws/amazon-vpc-resource-controller-k8s
    /// `webhooks/core/pod_webhook.go`, `hasWindowsNodeSelector`). On Linux only where no OS constraint stands.
    pub fn lacks_node_selector(&self, os: Os) -> bool {
        let [label, _] = OS_LABELS;
        let literal = self.pod.strings("/spec/nodeSelector").find(|(key, _)| *key == label);
        let stands = match literal {
            // The other system's is Mullion's own, from before the author said this one: two words of an author's would
            // be a conflict.
            Some((_, value)) => value == os.name(),
            None => os == Os::Linux && OS_LABELS.iter().any(|label| constraint::constrains(&self.pod, label)),
        };
        self.settings.node_selector == NodeSelectorMode::Add && !stands
    }

    /// Where the namespace asks for another value of that node label: see [`limits::contradiction`].
    pub fn contradiction(&self, key: &str, value: &str) -> Option<(&'static str, &'a str)> {
        limits::contradiction(self.namespace, key, value)
    }

    /// The tolerations the pod lacks, but those that its namespace would refuse.
    pub fn tolerations(&self, os: Os, placed: &mut Placed<'_>) {
        let missing = self.missing_tolerations(os);
        if missing.is_empty() {
            return;
        }
        let whitelist = self.whitelist();
        for Missing { value, word, why } in missing.into_iter().filter(|it| !whitelist.refuses(&it.value)) {
            let edit = Edit::Append { pointer: self.pod.at("/spec/tolerations"), value };
            placed.push(why, edit, word);
        }
    }

    /// Which tolerations its namespace lets the pod have.
    pub fn whitelist(&self) -> Whitelist {
        Whitelist::of(self.namespace, self.pod.items("/spec/tolerations"))
    }

    /// Tolerations for the taints that mark nodes of that OS, and those the policy lists, where the pod lacks them.
    pub fn missing_tolerations(&self, os: Os) -> Vec<Missing> {
        let present = self.pod.items("/spec/tolerations");
        let mut missing: Vec<Missing> = Vec::new();
        if self.settings.tolerations == TolerationsMode::Learn {
            let taints = self.marker_taints(os);
            let lacking = taints.iter().filter(|taint| !tolerated(present, taint)).map(toleration_of);
            missing.extend(lacking.map(|value| Missing::new(value, "nodes of that operating system carry this taint")));
        }
        if os == Os::Windows && self.settings.tolerations != TolerationsMode::Never {
            let learned = missing.len();
            for value in self.settings.add_tolerations.iter().map(toleration_value) {
                let mut wider = present.iter().chain(missing.iter().take(learned).map(|it| &it.value));
                if !wider.any(|wide| includes(wide, &value)) && !missing.iter().any(|it| it.value == value) {
                    missing.push(Missing::new(value, "a policy lists it under place.tolerations.add"));
                }
            }
        }
        missing
    }

    /// Whether pods of that OS are to have that toleration, or one that it includes.
    pub fn wants_toleration(&self, os: Os, toleration: &Value) -> bool {
        let pod = std::slice::from_ref(toleration);
        let marker = || self.marker_taints(os).iter().any(|taint| tolerated(pod, taint));
        let listed = || self.settings.add_tolerations.iter().any(|one| includes(toleration, &toleration_value(one)));
        match self.settings.tolerations {
            TolerationsMode::Never => false,
            TolerationsMode::Learn if marker() => true,
            TolerationsMode::Learn | TolerationsMode::Listed => os == Os::Windows && listed(),
        }
    }

    /// Taints that mark nodes of that OS: seen now or before, expected, or our own. Never spot, GPU or tenant taints.
    pub fn marker_taints(&self, os: Os) -> BTreeSet<Taint> {
        let (world, nodes) = (self.world, self.nodes);
        let live = world.nodes.iter();
        match os {
            Os::Linux => {
                let seen = live.flat_map(super::world::Nodes::linux_taints);
                seen.filter(|taint| marks(&nodes.linux_taints, taint)).cloned().collect()
            }
            Os::Windows => {
                let seen = live.flat_map(super::world::Nodes::windows_taints).chain(&world.seen_taints).cloned();
                let expected = nodes.expected_pools.iter().flat_map(|pool| &pool.taints);
                let mut all: BTreeSet<Taint> = seen
                    .chain(expected.filter_map(|taint| Taint::parse(taint)))
                    .filter(|taint| marks(&nodes.windows_taints, taint))
                    .collect();
                all.extend(own_taint(nodes));
                all
            }
        }
    }

    /// Builds: see the modes of `place.build`. Nothing where the author constrains the build himself.
    pub fn build(&self, builds: &PodBuilds<'_>, placed: &mut Placed<'_>) {
        match self.settings.build {
            BuildMode::Never => {}
            _ if !self.wants_build(builds) => {}
            BuildMode::Exact if builds.single().is_some() => {
                if let Some(build) = builds.single()
                    && self.contradiction(WINDOWS_BUILD_LABEL, &build.to_string()).is_none()
                {
                    let pointer = self.pod.at(&format!("/spec/nodeSelector/{}", escape(WINDOWS_BUILD_LABEL)));
                    let edit = Edit::Set { pointer, value: Value::from(build.to_string()) };
                    placed.push("the policy asks for nodes of the image's own build", edit, "build");
                }
            }
            // Equality names one build; a pod with several is kept off those that cannot run it, as ever.
            BuildMode::Exact | BuildMode::Compatible => self.exclude(&builds.incompatible, placed),
        }
    }

    /// Whether there is a build to ask for or to keep away from, and nobody did: neither the author nor the RuntimeClass he
    /// named, whose selector the API server adds.
    pub fn wants_build(&self, builds: &PodBuilds<'_>) -> bool {
        let hopeless = !builds.common || builds.incompatible.is_empty();
        let by_class =
            || self.own_runtime_class().is_some_and(|class| class.node_selector.contains_key(WINDOWS_BUILD_LABEL));
        !hopeless && !constraint::constrains(&self.pod, WINDOWS_BUILD_LABEL) && !by_class()
    }

    /// Required affinity away from builds that cannot run the pod. `NotIn` also lets nodes through that do not carry
    /// the label: autoscaler templates and virtual nodes. Terms are alternatives, so each of them gets it; appending a
    /// term would widen what the author asked for.
    fn exclude(&self, builds: &BTreeSet<Build>, placed: &mut Placed<'_>) {
        let values: Vec<String> = builds.iter().map(ToString::to_string).collect();
        let requirement = json!({"key": WINDOWS_BUILD_LABEL, "operator": "NotIn", "values": values});
        let terms_pointer = self.pod.at(constraint::REQUIRED_TERMS);
        let terms = self.pod.items(constraint::REQUIRED_TERMS);
        let reason = "nodes of these builds cannot run its images";
        if terms.is_empty() {
            let value = json!([{"matchExpressions": [requirement]}]);
            placed.push(reason, Edit::Set { pointer: terms_pointer, value }, "build");
            return;
        }
        for (index, term) in terms.iter().enumerate() {
            // A term without requirements matches no node; with one it would match some.
            if constraint::is_empty_term(term) {
                continue;
            }
            let pointer = format!("{terms_pointer}/{index}/matchExpressions");
            placed.push(reason, Edit::Append { pointer, value: requirement.clone() }, "build");
        }
    }

    /// The RuntimeClass the pod names, where it is known.
    pub fn own_runtime_class(&self) -> Option<&'a RuntimeClass> {
        self.pod.text("/spec/runtimeClassName").and_then(|name| self.world.runtime_class(name))
    }

    /// The RuntimeClass, if one is given: see the modes of `place.runtimeClass`. The API server refuses a class that is
    /// missing, whose selector contradicts the pod's, or whose selector or tolerations the namespace refuses, so none of
    /// these is ever assigned.
    pub fn runtime_class(&self, builds: &PodBuilds<'_>, placed: &mut Placed<'_>) -> Option<&'a RuntimeClass> {
        if self.pod.get("/spec/runtimeClassName").is_some() || self.pod.get("/spec/overhead").is_some() {
            return None;
        }
        let name = match self.settings.runtime_class {
            RuntimeClassMode::Never => None,
            RuntimeClassMode::Named => self.settings.runtime_class_name.clone(),
            RuntimeClassMode::PerRelease => self.class_of_release(builds),
        };
        let name = name?;
        let class = self.world.runtime_class(&name)?;
        if !self.agrees(class, builds) || !self.lets_in(class) {
            return None;
        }
        let edit = Edit::Set { pointer: self.pod.at("/spec/runtimeClassName"), value: Value::from(name) };
        placed.push(
            "the policy asks for it, or it belongs to the one release that can run the pod",
            edit,
            "runtimeClassName",
        );
        Some(class)
    }

    /// Whether a class's nodeSelector leaves nodes for a Windows pod: nothing that the pod asks for, or is given,
    /// excludes it.
    fn agrees(&self, class: &RuntimeClass, builds: &PodBuilds<'_>) -> bool {
        let [os, _] = OS_LABELS;
        let given = |key: &str, value: &str| match key {
            _ if key == os => value == Os::Windows.name(),
            WINDOWS_BUILD_LABEL if !class.is_hypervisor() => {
                let wanted = builds.single().filter(|_| self.settings.build == BuildMode::Exact);
                wanted.is_none_or(|build| build.to_string() == value)
                    && !builds.incompatible.iter().any(|build| build.to_string() == value)
            }
            _ => true,
        };
        class.node_selector.iter().all(|(key, value)| given(key, value))
            && constraint::admits(&self.pod, &class.node_selector)
    }

    /// Whether the namespace lets pods have what the class brings.
    fn lets_in(&self, class: &RuntimeClass) -> bool {
        let refused = |(key, value): (&String, &String)| self.contradiction(key, value).is_some();
        let whitelist = self.whitelist();
        !class.node_selector.iter().any(refused) && !class.tolerations.iter().any(|one| whitelist.refuses(one))
    }

    /// `mullion-windows-<release>`, if exactly one server release can run the pod (or the policy wants equality), a
    /// live node has that build, and the class is ours.
    fn class_of_release(&self, builds: &PodBuilds<'_>) -> Option<String> {
        let build = if self.settings.build == BuildMode::Exact {
            builds.single()?
        } else {
            let mut servers = builds.hosts.iter().filter(|host| {
                server_releases().any(|release| release.build == **host)
                    || self.nodes.releases.iter().any(|release| release.build == **host)
            });
            let only = servers.next()?;
            if servers.next().is_some() {
                return None;
            }
            *only
        };
        // A class is of one build: not while a node of another, such as a Windows 11, runs the pod as well.
        // And one that satisfies what the pod asks for: a virtual node, or a pool that is at zero, has no build.
        let asked =
            NodeConstraints::of(&self.pod, limits::node_selector(self.namespace).map(|(_, key, value)| (key, value)));
        let live = self.world.nodes.as_ref().is_some_and(|nodes| {
            let exact = self.settings.build == BuildMode::Exact;
            let others = || nodes.windows_builds().iter().any(|other| *other != build && builds.hosts.contains(other));
            let fits = |node: &Node| node.build == Some(build) && asked.fit(node);
            nodes.windows_builds().contains(&build)
                && (asked.is_empty() || nodes.samples(asked.keys()).any(fits))
                && (exact || !others())
        });
        let class = class_of_build(build, self.nodes, |name| {
            self.world.runtime_class(name).map(|class| (class.ours, class.handler.as_str()))
        });
        match class {
            ClassOfBuild::Standing(name) if live => Some(name),
            _ => None,
        }
    }

    /// The seal: `spec.os.name: windows` with the removal of every field it forbids, all or nothing. Not where Pod Security
    /// would refuse the pod for it: with the fields it passes there, and runs.
    ///
    /// `selector_stands`: whether the pod has, or is given, the Windows nodeSelector.
    pub fn seal(&self, findings: &[Finding], selector_stands: bool, placed: &mut Placed<'_>) {
        let forbidden = || findings.iter().filter(|finding| rules::forbidden_by_os(finding));
        let stays = |finding: &Finding| finding.action != Action::Repair && rules::refused_beside_os(finding);
        let clean = !findings.iter().any(stays);
        let sealed = self.pod.says_windows_os();
        let wanted = self.settings.spec_os == SpecOsMode::WhenClean
            && selector_stands
            && clean
            && !PodSecurity::of(self.namespace).refuses_windows_os();
        // What the author wrote stays, even a name Mullion does not know, or none.
        let taken = self.pod.get("/spec/os").is_some();
        if !sealed && (!wanted || taken) {
            return;
        }
        repair(forbidden(), &mut placed.changes);
        if !sealed {
            let edit = Edit::Set { pointer: self.pod.at("/spec/os"), value: json!({"name": "windows"}) };
            placed.push("nothing is left that it forbids", edit, "os");
        }
    }

    /// The label with the build of the pod's images, where it has one.
    pub fn build_label(&self, builds: &PodBuilds<'_>, placed: &mut Placed<'_>) {
        let Some(build) = builds.single() else { return };
        if self.pod.label(BUILD_LABEL).is_none() {
            let pointer = self.pod.at(&format!("/metadata/labels/{}", escape(BUILD_LABEL)));
            let edit = Edit::Set { pointer, value: Value::from(build.to_string()) };
            placed.push("its images are for this build", edit, "label");
        }
    }
}

/// Removes the field of each finding whose action is `Repair`, and writes what takes its place.
pub fn repair<'f>(findings: impl Iterator<Item = &'f Finding>, changes: &mut Vec<Change>) {
    for finding in findings.filter(|finding| finding.action == Action::Repair) {
        let edit = Edit::Remove { pointer: finding.pointer.clone() };
        let cause = Cause::Rule(finding.code);
        changes.extend(finding.replacement.clone().map(|edit| Change { cause, edit }));
        changes.push(Change { cause, edit });
    }
}

/// The taint Mullion itself puts on Windows nodes, if it does.
fn own_taint(nodes: &NodePolicy) -> Option<Taint> {
    let sets = nodes.mode == Mode::Enforce && nodes.taint.apply != ApplyTaint::Never;
    sets.then(|| policy_taint(nodes))
}
