//! The one door: [`review`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::build::{PodBuilds, build_matters, pod_builds};
use super::carry::{Before, Fate};
use super::change::{Change, Edit};
use super::constraint::{self, OS_LABELS, OsWanted};
use super::finding::{Finding, RefusedBy, field_path};
use super::image::ImageOs;
use super::images::{ContainerImage, images_of};
use super::linux_default::{Asker, NoDefault, linux_by_default};
use super::note::{Note, SELECTOR, because};
use super::placement::{Placed, Site, repair};
use super::pod::Pod;
use super::request::{Kind, Operation, Request};
use super::resize;
use super::rules::{self, Actions, Context, Reach};
use super::verdict::{Asked, Basis, Decision, OS_ANNOTATION, Verdict, decide, own_annotation, place_of};
use super::world::{Namespace, Os, RuntimeClass, World};
use crate::policy::{Action, HonourIgnore, Lookup, Mode, PolicySet, Settings};

/// Honoured on namespaces, and on pods where a policy says so: `true` leaves the subject alone.
const IGNORE: &str = "mullion.dev/ignore";

/// The kubelet's mark on the API object of a static pod; a changed one would not match the pod that runs.
const MIRROR: &str = "kubernetes.io/config.mirror";

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

/// Whose subject it is, and what is done to it: the columns of the answer table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Circumstance {
    /// Nothing Mullion speaks to: an unknown subresource, a mirror pod, an opted-out namespace, a disabled policy.
    NotOurs,
    /// CREATE of a bare pod, or of a pod whose owner has no template Mullion judges.
    Pod,
    /// CREATE of a pod of a built-in controller.
    OwnedPod {
        /// That controller's kind.
        by: Kind,
    },
    /// CREATE of an object with a pod template, or UPDATE that changes the template.
    Template {
        /// The object's kind.
        of: Kind,
        /// Whether it is an UPDATE: only findings that the old object lacks refuse.
        update: bool,
    },
    /// UPDATE of `pods/ephemeralcontainers`.
    EphemeralContainers,
    /// UPDATE of a DaemonSet that drops nothing but what Mullion had put there: that is put back, and nothing is said.
    Rewrite,
    /// UPDATE of `pods/resize`.
    Resize,
    /// Any other UPDATE.
    OtherUpdate,
}

/// Reviews one request. Total: whatever is missing or malformed is a value or a finding, never an error.
pub fn review(request: &Request<'_>, world: &World, policies: &PolicySet) -> Review {
    let subject = &request.subject;
    let Some(pod) = Pod::of(subject.kind, subject.object) else {
        return Review::nothing(Arc::default(), Circumstance::NotOurs);
    };
    let namespace = world.namespaces.get(subject.namespace).or(request.namespace);
    let settings = policies.settings(subject.namespace, namespace.map(|namespace| &namespace.labels), &pod);
    let mut circumstance = circumstance(request, &pod);
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

// === circumstance ===

fn circumstance(request: &Request<'_>, pod: &Pod<'_>) -> Circumstance {
    let subject = &request.subject;
    match (subject.kind, request.operation, request.subresource) {
        (Kind::Pod, Operation::Update, Some("ephemeralcontainers")) => Circumstance::EphemeralContainers,
        (Kind::Pod, Operation::Update, Some("resize")) => Circumstance::Resize,
        (_, _, Some(_)) | (_, Operation::Delete | Operation::Connect, None) => Circumstance::NotOurs,
        (Kind::Pod, Operation::Create, None) => {
            if pod.annotation(MIRROR).is_some() {
                return Circumstance::NotOurs;
            }
            match controller(subject.object) {
                Some(by) => Circumstance::OwnedPod { by },
                None => Circumstance::Pod,
            }
        }
        (Kind::Pod, Operation::Update, None) => Circumstance::OtherUpdate,
        // What a Deployment or CronJob makes was judged when they were written; refusing it here would only make
        // their controllers try again for ever.
        _ if controller(subject.object).is_some() => Circumstance::NotOurs,
        (of, Operation::Create, None) => Circumstance::Template { of, update: false },
        (of, Operation::Update, None) => {
            let same = request.old.is_some_and(|old| same_at(of.pod_pointer(), old, subject.object));
            if same { Circumstance::OtherUpdate } else { Circumstance::Template { of, update: true } }
        }
    }
}

fn same_at(pointer: &str, old: &Value, new: &Value) -> bool {
    old.pointer(pointer) == new.pointer(pointer)
}

/// Kinds whose templates Mullion judges, with the API group their owner references name.
const CONTROLLERS: [(Kind, &str); 7] = [
    (Kind::ReplicationController, ""),
    (Kind::ReplicaSet, "apps"),
    (Kind::Deployment, "apps"),
    (Kind::StatefulSet, "apps"),
    (Kind::DaemonSet, "apps"),
    (Kind::Job, "batch"),
    (Kind::CronJob, "batch"),
];

/// The built-in controller that owns the object.
fn controller(object: &Value) -> Option<Kind> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true))?;
    let text = |name| owner.get(name).and_then(Value::as_str).unwrap_or_default();
    let kind = Kind::from_name(text("kind"))?;
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    CONTROLLERS.contains(&(kind, group)).then_some(kind)
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
        let around = self.request.subject.object.pointer("/metadata/annotations");
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
        let old = self.request.old.and_then(|old| old.pointer("/spec/ephemeralContainers"));
        old.and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    // === changes ===

    fn changes(&self, findings: &[Finding], builds: &PodBuilds<'_>) -> Vec<Change> {
        match self.circumstance {
            Circumstance::NotOurs | Circumstance::OtherUpdate | Circumstance::Rewrite | Circumstance::Resize => {
                Vec::new()
            }
            // New entries only, and only what the API server would refuse.
            Circumstance::EphemeralContainers => {
                let mut changes = Vec::new();
                repair(refused_by_server(findings), &mut changes);
                changes
            }
            Circumstance::Pod => self.pod_changes(findings, builds, false),
            Circumstance::OwnedPod { by } => self.pod_changes(findings, builds, by == Kind::DaemonSet),
            Circumstance::Template { .. } if self.request.into_templates => {
                self.pod_changes(findings, builds, self.is_daemon_set())
            }
            Circumstance::Template { .. } => self.template_changes(findings),
        }
    }

    fn site(&self) -> Site<'_> {
        Site {
            pod: self.pod,
            namespace: self.namespace,
            world: self.world,
            settings: self.settings,
            nodes: &self.policies.nodes,
        }
    }

    /// Whether anything may be placed: somebody decided, nobody asked for none, and no node contradicts.
    fn placeable(&self) -> Option<Os> {
        self.decision.decided().filter(|_| self.decision.placement && !self.misplaced())
    }

    fn pod_changes(&self, findings: &[Finding], builds: &PodBuilds<'_>, daemon_set: bool) -> Vec<Change> {
        let mut placed = Placed::on(self.request.subject.object);
        let site = self.site();
        match self.placeable() {
            None => repair(refused_by_server(findings), &mut placed.changes),
            // A pod that is bound to a Linux node needs nothing from Mullion.
            Some(Os::Linux) if self.decision.basis == Basis::Place => {}
            Some(Os::Linux) => {
                site.node_selector(Os::Linux, &mut placed);
                site.tolerations(Os::Linux, &mut placed);
            }
            Some(Os::Windows) => self.windows_pod(&site, findings, builds, daemon_set, &mut placed),
        }
        self.annotate(placed)
    }

    fn windows_pod(
        &self,
        site: &Site<'_>,
        findings: &[Finding],
        builds: &PodBuilds<'_>,
        daemon_set: bool,
        placed: &mut Placed<'_>,
    ) {
        site.node_selector(Os::Windows, placed);
        site.tolerations(Os::Windows, placed);
        if self.decision.basis == Basis::Place {
            return;
        }
        let bound = self.pod.text("/spec/nodeName").is_some();
        if !daemon_set && !bound && build_matters(&self.pod, self.world) {
            let class = site.runtime_class(builds, placed);
            if !class.is_some_and(RuntimeClass::is_hypervisor) {
                site.build(builds, placed);
            }
        }
        // Before the seal, which is about fields that it forbids: these go whether it comes or not.
        repair(findings.iter().filter(|finding| !rules::forbidden_by_os(finding)), &mut placed.changes);
        let [label, _] = OS_LABELS;
        let given = placed.words.iter().any(|word| word == SELECTOR);
        let stands = given || self.pod.strings("/spec/nodeSelector").any(|pair| pair == (label, "windows"));
        site.seal(findings, stands, placed);
        if !daemon_set && !self.request.into_templates {
            site.build_label(builds, placed);
        }
    }

    /// On a pod the note is for people, and stays as it was first written, unless the operating system is another now; a
    /// template gets none inside.
    fn annotate(&self, mut placed: Placed<'_>) -> Vec<Change> {
        let os = self.decision.decided();
        let outdated = || self.earlier.is_some_and(|note| os.is_some() && Os::from_name(&note.os) != os);
        let due = self.pod.annotation(super::note::DECISION).is_none() || outdated();
        if !placed.changes.is_empty() && due && !self.request.into_templates && self.decision.decided().is_some() {
            placed.changes.push(self.note(placed.words.clone()));
        }
        placed.changes
    }

    fn note(&self, placed: Vec<String>) -> Change {
        let os = self.decision.decided().map_or("", Os::name).to_owned();
        let containers = if self.pod.pointer.is_empty() { Note::names(&self.pod) } else { Vec::new() };
        Note { os, basis: self.decision.basis, because: because(&self.decision), placed, containers }.change()
    }

    /// Templates: repairs only where the API server would refuse the template, and placement only for DaemonSets,
    /// whose controller decides from the template where pods go.
    fn template_changes(&self, findings: &[Finding]) -> Vec<Change> {
        let mut placed = Placed::on(self.request.subject.object);
        repair(refused_by_server(findings), &mut placed.changes);
        if !self.is_daemon_set() {
            return placed.changes;
        }
        let before = Before::of(self.request);
        let fate = before.as_ref().map_or(Fate::Open, |before| before.fate(&self.decision));
        let mut fresh = Placed::on(self.request.subject.object);
        let (site, os) = (self.site(), self.placeable());
        if let Some(os) = os {
            site.node_selector(os, &mut fresh);
            site.tolerations(os, &mut fresh);
        }
        if let Some(before) = &before {
            match fate {
                Fate::Holds => {
                    let lost = before.lost();
                    placed.changes.extend(lost.changes);
                    placed.words.extend(lost.words);
                }
                Fate::Over => {
                    let wanted = |toleration: &Value| os.is_some_and(|os| site.wants_toleration(os, toleration));
                    placed.changes.extend(before.take_away(&fresh, wanted));
                }
                Fate::Open => {}
            }
        }
        for (change, word) in fresh.changes.into_iter().zip(fresh.words) {
            if !placed.words.contains(&word) {
                placed.changes.push(change);
                placed.words.push(word);
            }
        }
        let words = std::mem::take(&mut placed.words);
        placed.changes.extend(match (&before, fate) {
            (Some(before), Fate::Holds) => before.note_with(words),
            (Some(before), Fate::Open) if words.is_empty() => before.kept_note(),
            (Some(before), Fate::Over) if words.is_empty() => before.without_note(self.decision.decided()),
            _ if words.is_empty() => None,
            // A second call for one request sees what the first wrote.
            _ => match Note::of(self.request.subject.object)
                .filter(|note| Os::from_name(&note.os) == self.decision.decided())
            {
                Some(note) => Some(note.beside(words).change()),
                None => Some(self.note(words)),
            },
        });
        placed.changes
    }
}

/// What the API server would refuse the subject for.
fn refused_by_server(findings: &[Finding]) -> impl Iterator<Item = &Finding> {
    findings.iter().filter(|finding| finding.refused_by == RefusedBy::ApiServer)
}

// === findings the old object had ===

/// Marks what the old object had in the same place and no better. Containers are known by name: an index says nothing
/// once another is put before it. Gives what the old object wants to know of images: it is judged like the new one.
fn mark_known(findings: &mut [Finding], request: &Request<'_>, world: &World, policies: &PolicySet) -> Vec<String> {
    let kind = request.subject.kind;
    let Some((old, new)) =
        request.old.and_then(|old| Some((Pod::of(kind, old)?, Pod::of(kind, request.subject.object)?)))
    else {
        return Vec::new();
    };
    let Some(Review { findings: before, wanted, .. }) = review_of_old(request, world, policies) else {
        return Vec::new();
    };
    let before: Vec<(&Finding, String)> =
        before.iter().map(|finding| (finding, place_by_name(&old, finding))).collect();
    for finding in findings {
        let place = place_by_name(&new, finding);
        finding.known_before = before
            .iter()
            .any(|(known, at)| known.code == finding.code && *at == place && known.action >= finding.action);
    }
    wanted
}

fn place_by_name(pod: &Pod<'_>, finding: &Finding) -> String {
    let in_container = pod.containers().find_map(|container| {
        let below = finding.pointer.strip_prefix(&pod.at(&container.pointer()))?;
        below.starts_with('/').then(|| format!("{}/{}{below}", container.list, container.name()))
    });
    in_container.unwrap_or_else(|| finding.pointer.clone())
}

fn review_of_old(request: &Request<'_>, world: &World, policies: &PolicySet) -> Option<Review> {
    let subject = super::request::Subject { object: request.old?, ..request.subject };
    let request = Request { operation: Operation::Create, subresource: None, subject, old: None, ..*request };
    Some(review(&request, world, policies))
}
