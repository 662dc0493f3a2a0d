//! The one door: [`review`].

mod changes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::build::{PodBuilds, pod_builds};
use super::carry::Before;
use super::change::{Change, Edit};
use super::circumstance::Circumstance;
use super::constraint::{self, OsWanted};
use super::finding::{Finding, RefusedBy, field_path};
use super::image::ImageOs;
use super::images::{ContainerImage, images_of};
use super::known::mark_known;
use super::linux_default::{Asker, NoDefault, linux_by_default};
use super::note::Note;
use super::placement::repair;
use super::pod::{Pod, member};
use super::request::{Kind, Request};
use super::resize;
use super::rules::{self, Actions, Context, Reach};
use super::verdict::{Asked, Basis, Decision, OS_ANNOTATION, Verdict, decide, own_annotation, place_of};
use super::world::{Namespace, World};
use crate::policy::{Action, HonourIgnore, Lookup, Mode, PolicySet, Settings};

/// Honoured on namespaces, and on pods where a policy says so: `true` leaves the subject alone.
const IGNORE: &str = "mullion.dev/ignore";

/// Everything there is to say about one request.
#[derive(Debug, Clone)]
pub struct Review {
    /// What the policies come to for this subject.
    pub settings: Arc<Settings>,
    /// Which column of the answer table applies.
    pub circumstance: Circumstance,
    /// Which OS, and why.
    pub decision: Decision,
    /// What is wrong, most important first.
    pub findings: Vec<Finding>,
    /// What should be written differently.
    pub changes: Vec<Change>,
    /// Image references, as written, of which registries could say something that changes the result; none where the
    /// policies let nobody ask. What is known of one of them never makes another wanted that was not.
    pub wanted: Vec<String>,
    /// A sentence the author of a template should hear: that a DaemonSet was given the default, and the way out, or that
    /// an annotation of his stands where no pod sees it. Of a resize: why it cannot be done.
    pub advice: Option<String>,
    /// Whether nothing is known of the subject's namespace, and something of it could change the result: policies that
    /// choose namespaces by labels did not match, and its annotations said nothing.
    pub namespace_unknown: bool,
}

/// Reviews one request. Total: whatever is missing or malformed is a value or a finding, never an error.
pub fn review(request: &Request<'_>, world: &World, policies: &PolicySet) -> Review {
    let subject = &request.subject;
    let Some(pod) = Pod::of(subject.kind, subject.object) else {
        return Review::nothing(Arc::default(), Circumstance::NotOurs);
    };
    let namespace = world.namespaces.get(subject.namespace).or(request.namespace);
    let settings = policies.settings(subject.namespace, namespace.map(|namespace| &namespace.labels), &pod);
    let mut circumstance = Circumstance::of(request, &pod);
    let asks = |circumstance| !matches!(circumstance, Circumstance::NotOurs | Circumstance::OtherUpdate);
    // Where policies are silent, too, the one that speaks may choose namespaces by their labels.
    let matters = || settings.mode != Mode::Disabled || policies.chooses_by_namespace_labels();
    let namespace_unknown = namespace.is_none() && asks(circumstance) && matters();
    if settings.mode == Mode::Disabled || ignored(&pod, namespace, &settings) {
        circumstance = Circumstance::NotOurs;
    }
    let before = Before::of(request);
    if circumstance == Circumstance::OtherUpdate
        && let Some(note) = before.as_ref().and_then(Before::kept_note)
    {
        return Review::rewrite(settings, vec![note]);
    }
    if !asks(circumstance) {
        return Review { namespace_unknown, ..Review::nothing(settings, circumstance) };
    }
    if circumstance == Circumstance::Resize {
        let advice = resize::advice(&pod, request.old, world);
        return Review { advice, namespace_unknown, ..Review::nothing(settings, circumstance) };
    }
    let note = before.as_ref().and_then(Before::note);
    let images = images_of(&pod, &settings, request.images, world);
    let daemon_set = subject.kind == Kind::DaemonSet;
    let asked = Asked {
        pod,
        object: subject.object,
        around_template: daemon_set || request.into_templates,
        may_mean_every_node: daemon_set && images.iter().any(|image| image.facts.os == ImageOs::Multi),
        before: note.as_ref().zip(before.as_ref()).map(|(note, before)| before.earlier(note)),
        without_default: false,
        namespace,
        world,
        settings: &settings,
        images: &images,
    };
    let earlier = Note::of_our_own(subject.object).filter(|_| circumstance != Circumstance::EphemeralContainers);
    let mut case = Case {
        request,
        pod,
        namespace,
        world,
        policies,
        settings: &settings,
        images: &images,
        circumstance,
        decision: decide_again(&asked, earlier.as_ref().filter(|_| !request.settled)),
        earlier: earlier.as_ref(),
    };
    let no_default = case.give_default(&asked);
    let builds = pod_builds(&images, world, &policies.nodes);
    let mut findings = case.findings(&builds, no_default);
    if let Some(before) = &before {
        let mut repairs = Vec::new();
        repair(refused_by_server(&findings), &mut repairs);
        if let Some(changes) = before.put_back(repairs, own_annotation(&asked).map(|(os, _)| os)) {
            return Review::rewrite(settings, changes);
        }
    }
    case.deny_what_stays(&mut findings, &builds);
    let mut wanted = case.wanted();
    if matches!(circumstance, Circumstance::Template { update: true, .. }) {
        wanted.extend(mark_known(&mut findings, request, world, policies));
    }
    let wanted = wanted.into_iter().collect();
    let changes = case.changes(&findings, &builds);
    // Not before: a field that is allowed to stay is one the seal would forbid.
    findings.retain(|finding| finding.action != Action::Allow);
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.action));
    let advice = case.advice(&changes);
    let decision = case.decision;
    Review { settings, circumstance, decision, findings, changes, wanted, advice, namespace_unknown }
}

/// Decides. The Linux default was given for want of anything else: where others have made it a Windows pod since, it is
/// none of the default.
fn decide_again(asked: &Asked<'_>, earlier: Option<&Note>) -> Decision {
    if earlier.is_some_and(|note| note.basis == Basis::Default) {
        let decision = decide(&Asked { without_default: true, ..*asked });
        if decision.verdict == Verdict::Windows {
            return decision;
        }
    }
    decide(asked)
}

impl Review {
    fn rewrite(settings: Arc<Settings>, changes: Vec<Change>) -> Self {
        Self { changes, ..Self::nothing(settings, Circumstance::Rewrite) }
    }

    fn nothing(settings: Arc<Settings>, circumstance: Circumstance) -> Self {
        let decision =
            Decision { verdict: Verdict::Undecided, basis: Basis::None, placement: false, evidence: Vec::new() };
        Self {
            settings,
            circumstance,
            decision,
            findings: Vec::new(),
            changes: Vec::new(),
            wanted: Vec::new(),
            advice: None,
            namespace_unknown: false,
        }
    }
}

fn ignored(pod: &Pod<'_>, namespace: Option<&Namespace>, settings: &Settings) -> bool {
    let namespace_says = namespace
        .is_some_and(|namespace| [&namespace.annotations, &namespace.labels].iter().any(|map| says_ignore(map)));
    let pod_says = || pod.annotation(IGNORE) == Some("true") || pod.label(IGNORE) == Some("true");
    match settings.ignore {
        HonourIgnore::Never => false,
        HonourIgnore::Namespaces => namespace_says,
        HonourIgnore::Pods => namespace_says || pod_says(),
    }
}

/// Whether labels or annotations opt out.
pub(super) fn says_ignore(map: &BTreeMap<String, String>) -> bool {
    map.get(IGNORE).is_some_and(|value| value == "true")
}

// === the case ===

/// One request with everything that was found out about it.
struct Case<'a> {
    request: &'a Request<'a>,
    pod: Pod<'a>,
    namespace: Option<&'a Namespace>,
    world: &'a World,
    policies: &'a PolicySet,
    settings: &'a Settings,
    images: &'a [ContainerImage<'a>],
    circumstance: Circumstance,
    decision: Decision,
    earlier: Option<&'a Note>,
}

impl Case<'_> {
    fn is_daemon_set(&self) -> bool {
        self.request.subject.kind == Kind::DaemonSet
    }

    /// Gives the Linux default where it is due; if it is not, why.
    fn give_default(&mut self, asked: &Asked<'_>) -> Option<NoDefault> {
        let whose = match self.circumstance {
            Circumstance::OwnedPod { by: Kind::DaemonSet } => Asker::SettledDaemonSet,
            Circumstance::Template { update: true, .. } if self.is_daemon_set() => Asker::SettledDaemonSet,
            Circumstance::Template { .. } if self.is_daemon_set() => Asker::NewDaemonSet,
            Circumstance::EphemeralContainers => return None,
            _ => Asker::Ordinary,
        };
        let due = linux_by_default(asked, &self.decision, &self.policies.nodes, whose);
        if due.is_ok() {
            self.decision.verdict = Verdict::Linux;
            self.decision.basis = Basis::Default;
        }
        due.err()
    }

    fn advice(&self, changes: &[Change]) -> Option<String> {
        let Circumstance::Template { update, .. } = self.circumstance else { return None };
        if self.is_daemon_set() {
            // Set later the annotation changes nothing: a template that stays as it is is never touched.
            let text = "Mullion keeps this DaemonSet on Linux nodes; for all nodes create it with annotation mullion.dev/os: any";
            let default = self.decision.basis == Basis::Default;
            return (default && !update && !changes.is_empty()).then(|| text.to_owned());
        }
        let around = member(self.request.subject.object, "/metadata/annotations");
        let lost = !self.request.into_templates
            && around.is_some_and(|all| all.get(OS_ANNOTATION).is_some())
            && self.pod.annotation(OS_ANNOTATION).is_none();
        lost.then(|| {
            let place = field_path(&self.pod.at("/metadata/annotations"));
            format!("{OS_ANNOTATION} does not reach the pods from here; write it in {place}")
        })
    }

    /// Whether the pod is bound to a node of another OS than the one it needs: no selector would help it.
    fn misplaced(&self) -> bool {
        self.decision.decided().is_some_and(|os| place_of(&self.pod, self.world).is_some_and(|place| place != os))
    }

    /// See [`Review::wanted`].
    fn wanted(&self) -> BTreeSet<String> {
        let windows = self.decision.verdict == Verdict::Windows || self.pod.says_windows_os();
        // What a pool of nodes says of a DaemonSet depends on whether its images exist for both.
        let by_pool = || self.is_daemon_set() && !matches!(constraint::selector_os(&self.pod).0, OsWanted::Only(_));
        if self.settings.lookup == Lookup::Never || !(windows || self.decision.heeds_images() || by_pool()) {
            return BTreeSet::new();
        }
        let open = self.images.iter().filter(|image| image.facts.open);
        open.map(|image| image.image.to_owned()).collect()
    }

    fn findings(&self, builds: &PodBuilds<'_>, no_default: Option<NoDefault>) -> Vec<Finding> {
        let context = Context {
            pod: self.pod,
            earlier: self.earlier,
            decision: &self.decision,
            no_default,
            images: self.images,
            builds,
            namespace: self.namespace,
            namespace_name: self.request.subject.namespace,
            placed_on: self.placeable(),
            world: self.world,
            nodes: &self.policies.nodes,
            actions: Actions::of(&self.pod, self.settings),
            reach: match self.circumstance {
                Circumstance::EphemeralContainers => Reach::EphemeralBeside(self.old_ephemeral_containers()),
                _ => Reach::Everything,
            },
        };
        let mut found = rules::check(&context);
        if self.decision.basis == Basis::Place {
            for finding in &mut found {
                // Nothing is repaired then, and a harmless value is not worth a word.
                finding.action = finding.action.min(if finding.quiet { Action::Allow } else { Action::Warn });
            }
        }
        found
    }

    /// Some fields go only with the seal. Where that does not come to the pod, or to the template's pods, those for which
    /// the kubelet refuses the pod are no repair: without a word here they would come back as one failed pod after another.
    fn deny_what_stays(&self, findings: &mut [Finding], builds: &PodBuilds<'_>) {
        let due = |finding: &Finding| finding.action == Action::Repair && finding.refused_by == RefusedBy::Kubelet;
        // The kubelet looks at a pod as a whole only when it comes.
        if self.circumstance == Circumstance::EphemeralContainers || !findings.iter().any(due) {
            return;
        }
        let changes = self.pod_changes(findings, builds, self.is_daemon_set());
        let denied = Actions::of(&self.pod, self.settings).soften(Action::Deny);
        for finding in findings.iter_mut().filter(|finding| due(finding)) {
            let gone =
                |change: &Change| matches!(&change.edit, Edit::Remove { pointer } if *pointer == finding.pointer);
            if !changes.iter().any(gone) {
                (finding.action, finding.quiet) = (denied, false);
            }
        }
    }

    fn old_ephemeral_containers(&self) -> &[Value] {
        let old = self.request.old.and_then(|old| member(old, "/spec/ephemeralContainers"));
        old.and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
}

/// What the API server would refuse the subject for.
fn refused_by_server(findings: &[Finding]) -> impl Iterator<Item = &Finding> {
    findings.iter().filter(|finding| finding.refused_by == RefusedBy::ApiServer)
}
