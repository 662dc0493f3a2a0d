//! The edits of one workload, and how to make them: a patch, or words for what cannot be patched.

use std::collections::BTreeSet;

use mullion_engine::model::WorkloadKind;
use mullion_engine::model::text::{list, list_with};
use mullion_engine::model::windows::release_name;
use serde_json::{Value, json};

use crate::commands::command;
use crate::edits::commands;
use crate::edits::placement::{Placement, PlacementResult, Reach, held_terms};
use crate::edits::pod_spec::{PodSpec, RUNTIME_CLASS, TERMS};
use crate::edits::runtime_class::{ClassChange, class_change};
use crate::edits::strategic_patch::{object_patch, spec_patch};
use crate::edits::words::in_words;
use crate::needs::ClusterNeed;
use crate::report::{FieldEdit, ImageUse, Manager, ProposalConfidence, Verdict};
use crate::scope::{MoveScope, NewPool};
use crate::workload_move::WorkloadMove;
use mullion_survey::analysis::WorkloadView;
use mullion_survey::inventory::Inventory;

/// What to write in place of an image that is still to be built or found.
const NEW_IMAGE: &str = "NEW-IMAGE";

/// The lists whose images are edited.
const CONTAINERS: [&str; 2] = ["initContainers", "containers"];
const VOLUMES: [&str; 1] = ["volumes"];

/// The annotation of the pod that stands for a static pod of a node.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// A container or an image volume whose image is still to be built or found.
struct OpenImage {
    of: ImageUse,
    name: String,
    /// Below the spec.
    pointer: String,
    verdict: Verdict,
}

/// What the parts of the change share.
#[derive(Clone, Copy)]
struct EditContext<'a> {
    view: &'a WorkloadView<'a>,
    /// The object that was read: the workload, or one that it owns.
    value: &'a Value,
    scope: &'a MoveScope,
    pool: &'a NewPool,
    /// Whether the object is the workload itself.
    is_own: bool,
    /// The pools of the workload.
    homes: &'a BTreeSet<usize>,
}

/// Fills in the edits, the patch, the manager and the commands of a workload. `live`: the object as it is in the cluster.
pub(crate) fn edit(
    one: &mut WorkloadMove,
    view: &WorkloadView<'_>,
    live: &Value,
    inventory: &Inventory,
    scope: &MoveScope,
) {
    let manager = view.managed_by.as_ref();
    one.report.manager = manager.map(|manager| Manager { name: manager.name.clone(), change: manager.change.clone() });
    let is_daemon_set = one.is_daemon_set();
    let (pool, reach) = if one.moves {
        let Some(pool) = scope.new_pool(one.homes.iter().copied()) else { return };
        (pool, if is_daemon_set || scope.in_place { Reach::BothPools } else { Reach::NewPool })
    } else {
        let Some(pool) = scope.closed_pool(&one.homes).filter(|_| has_template(view.kind)) else { return };
        (pool, Reach::Present)
    };
    // A pod has what admission added to it, which its author does not write.
    let value = if view.kind == WorkloadKind::Pod { &view.value } else { live };
    let is_own = view.kind.name() == view.object.kind;
    let homes = one.homes.clone();
    let context = EditContext { view, value, scope, pool, is_own, homes: &homes };
    let Some(before) = value.pointer(&format!("{}/spec", view.kind.pod_pointer())).filter(|spec| spec.is_object())
    else {
        if one.moves {
            one.report.instead = context.unread();
        }
        return;
    };
    let top = WorkloadKind::from_name(&view.object.kind).unwrap_or(view.kind);
    let mut spec = PodSpec::new(before, format!("{}/spec", top.pod_pointer()));
    let placement = Placement { scope, pool, reach };
    if reach == Reach::Present {
        let class = inventory.runtime_class(spec.text(RUNTIME_CLASS));
        let result = placement.edit(&mut spec, class, &view.constraints);
        one.report.edits.clone_from(&spec.edits);
        if !spec.edits.is_empty() {
            let change = Change { spec: &spec, open: &[], result: &result, is_held: false, unread_class: None };
            context.report(one, &change);
        }
        return;
    }
    let class = spec.text(RUNTIME_CLASS).map(|name| class_change(name, inventory, scope, pool)).unwrap_or_default();
    if let (true, Some(old), Some(_)) = (scope.in_place, spec.text(RUNTIME_CLASS), &class.name) {
        one.report.instead = context.class_of_old_release(old);
        return;
    }
    if let (Reach::BothPools, Some(name)) = (reach, &class.name) {
        one.report.instead = context.second_daemon_set_of_class(name);
        one.needs.extend(class.need);
        return;
    }
    let unread_class = context.unread_class(&spec, &class, inventory);
    let old_class = inventory.runtime_class(spec.text(RUNTIME_CLASS));
    if let Some(name) = &class.name {
        spec.set(RUNTIME_CLASS, Some(name.as_str().into()), &class.why);
    }
    let result = placement.edit(&mut spec, class.class.as_ref(), &view.constraints);
    // A pool that changes in place has nodes of both releases for a while, so its images are changed before.
    let open = if scope.in_place { Vec::new() } else { edit_images(one, &mut spec, reach) };
    let enters_early = one.tolerates_everything && placement.admits(before, old_class);
    one.is_held = result.unmet.is_none()
        && enters_early
        && is_own
        && (reach == Reach::NewPool || !open.is_empty())
        && has_template(view.kind);
    let needs = result.missing.iter().map(|(key, value)| ClusterNeed::Label {
        pool: pool.name.clone(),
        key: key.clone(),
        value: value.clone(),
    });
    // The plan prints no edits that do not suffice.
    if result.unmet.is_none() {
        one.needs = needs.chain(class.need).collect();
        let images = open.iter().map(|open| spec.open_image(&open.pointer, NEW_IMAGE, context.why_open(open)));
        one.report.edits = spec.edits.iter().cloned().chain(images).collect();
    }
    let change = Change { spec: &spec, open: &open, result: &result, is_held: one.is_held, unread_class };
    context.report(one, &change);
}

impl OpenImage {
    /// `container web`, `volume tools`.
    fn title(&self) -> String {
        format!("{} {}", self.of.name(), self.name)
    }
}

/// Sets the proposed images, and returns those that are still to be built or found.
fn edit_images(one: &WorkloadMove, spec: &mut PodSpec<'_>, reach: Reach) -> Vec<OpenImage> {
    let mut open = Vec::new();
    let authored = one.report.images().filter(|(_, image)| image.injected_by.is_none());
    for (of, image) in authored.filter(|(_, image)| image.verdict != Verdict::RunsAsIs) {
        let is_it = |item: &Value| item.get("name").and_then(Value::as_str) == Some(&image.name);
        let (lists, field) = match of {
            ImageUse::Container => (&CONTAINERS[..], "image"),
            ImageUse::Volume => (&VOLUMES[..], "image/reference"),
        };
        let found = lists.iter().find_map(|list| {
            let at = spec.before.get(list)?.as_array()?.iter().position(is_it)?;
            Some(format!("/{list}/{at}/{field}"))
        });
        let Some(pointer) = found else { continue };
        match &image.proposal {
            // The image of a DaemonSet must run in the old pools as well.
            Some(proposal) if reach == Reach::NewPool => {
                let why = &image.because;
                spec.set_image(&pointer, Some(proposal.image.as_str().into()), why, Some(proposal.confidence));
            }
            _ => open.push(OpenImage { of, name: image.name.clone(), pointer, verdict: image.verdict }),
        }
    }
    open
}

/// What to check before an image is used that is a guess.
fn guesses(edits: &[FieldEdit]) -> Vec<String> {
    let guessed = edits.iter().filter(|edit| edit.confidence == Some(ProposalConfidence::Guess));
    let images: BTreeSet<&str> = guessed.filter_map(|edit| edit.after.as_ref()?.as_str()).collect();
    images.iter().map(|image| format!("Check first that {image} exists: the name is a guess.")).collect()
}

/// Whether a template can be changed, from which later pods are made.
fn has_template(kind: WorkloadKind) -> bool {
    !matches!(kind, WorkloadKind::Pod | WorkloadKind::Job)
}

/// A change that is ready to be described.
struct Change<'c> {
    spec: &'c PodSpec<'c>,
    open: &'c [OpenImage],
    result: &'c PlacementResult,
    /// Whether its pods must be kept off the new pool before it exists.
    is_held: bool,
    /// A RuntimeClass that may be for nodes that leave, but was not read.
    unread_class: Option<String>,
}

impl EditContext<'_> {
    fn report(self, one: &mut WorkloadMove, change: &Change<'_>) {
        let report = &mut one.report;
        let is_empty = change.spec.edits.is_empty() && change.open.is_empty();
        let is_daemon_set = self.view.object.kind == "DaemonSet";
        if let Some(unmet) = &change.result.unmet {
            report.instead = format!(
                "Its pods require {unmet}, which no node of pool {} has. Change that requirement first, then plan again.",
                self.pool.name
            );
            return;
        }
        if is_empty {
            if !is_daemon_set && report.pods > Some(0) && !self.scope.in_place {
                "Nothing is left to change: its fields require the new pool. Delete its pods that are still in the old pools."
                    .clone_into(&mut report.instead);
            }
            return;
        }
        if let Some(instead) = self.instead(change) {
            report.instead = instead;
            // What manages the object makes the same change.
            if self.view.managed_by.is_some() && self.is_own && has_template(self.view.kind) && change.open.is_empty() {
                let patch = spec_patch(change.spec.before, &change.spec.after, change.is_held);
                report.patch = Some(object_patch(self.view.kind.pod_pointer(), patch));
            }
            return;
        }
        if is_daemon_set && !change.open.is_empty() {
            let images: Vec<String> = change.open.iter().map(OpenImage::title).collect();
            report.instead =
                self.second_daemon_set(&format!("the image of {} is not known to run on both", list(images)));
        }
        self.add_commands(one, change);
    }

    /// How the change is made without a patch; `None` if there is a patch.
    fn instead(self, change: &Change<'_>) -> Option<String> {
        let open: Vec<String> = change.open.iter().map(OpenImage::title).collect();
        let words = in_words(&change.spec.edits, &open, &format!("one that is built for {}", self.images_for()));
        let words = [vec![format!("{words}.")], guesses(&change.spec.edits)].concat().join(" ");
        if let Some(manager) = &self.view.managed_by {
            let hold = if change.is_held { self.hold_words(change.spec) } else { String::new() };
            return Some(format!("{hold}Change {}: {words}", manager.change));
        }
        let is_mirror = self.value.pointer("/metadata/annotations").is_some_and(|all| all.get(MIRROR).is_some());
        match self.view.kind {
            _ if !self.is_own => Some(format!("{} The change that its pods need: {words}", self.unread())),
            WorkloadKind::Pod if is_mirror => {
                Some("It is a static pod of its node. Put its manifest on the nodes of the new pool.".to_owned())
            }
            WorkloadKind::Pod => Some(format!(
                "A pod cannot be moved. Save its manifest, delete the pod, and create it again without spec.nodeName and with this change: {words}"
            )),
            WorkloadKind::Job if self.value.pointer("/spec/suspend").and_then(Value::as_bool) == Some(true) => {
                Some(format!(
                    "The Job is suspended, so it does not finish by itself. Delete it and create it again with this change: {words}"
                ))
            }
            WorkloadKind::Job => Some(format!(
                "A Job cannot be moved: let it finish, or delete it and create it again with this change: {words}"
            )),
            _ if commands::named(&self.view.object).is_none() => Some(format!(
                "Its name is not one that an API server accepts, so there is no command. The change: {words}"
            )),
            _ => None,
        }
    }

    fn add_commands(self, one: &mut WorkloadMove, change: &Change<'_>) {
        let report = &mut one.report;
        let object = &report.object;
        let pod = self.view.kind.pod_pointer();
        let (before, mut after) = (change.spec.before, change.spec.after.clone());
        if change.is_held {
            let terms = before.pointer(TERMS).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let terms = held_terms(terms, &self.scope.target.to_string());
            let required = json!({ "nodeSelectorTerms": terms });
            let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
            let patch = object_patch(pod, [("affinity".to_owned(), affinity)].into_iter().collect());
            let note = "The pods tolerate every taint, so the taint of the pool does not keep them off.";
            report.hold.extend(commands::patch(object, &patch).map(|run| command(run, note)));
        }
        for open in change.open {
            if let Some(image) = after.pointer_mut(&open.pointer) {
                *image = NEW_IMAGE.into();
            }
        }
        let patch = object_patch(pod, spec_patch(before, &after, change.is_held));
        report.commands.extend(commands::patch(object, &patch).map(|run| command(run, self.note(change))));
        let undo = commands::undo(self.view.kind, object, self.value).map(|run| (run, self.undo_note()));
        let back = undo.or_else(|| {
            let patch = object_patch(pod, spec_patch(&after, before, change.is_held));
            commands::patch(object, &patch).map(|run| (run, String::new()))
        });
        report.back.extend(back.map(|(run, note)| command(run, note)));
        report.patch = change.open.is_empty().then_some(patch);
    }

    /// What to know before the patch is run.
    fn note(self, change: &Change<'_>) -> String {
        let mut notes = Vec::new();
        if !change.open.is_empty() {
            let titles = list_with(change.open.iter().map(OpenImage::title), "and");
            let releases = self.images_for();
            notes.push(format!("Replace {NEW_IMAGE} with the image of {titles} that is built for {releases}."));
            if change.open.iter().any(|open| open.verdict == Verdict::Unknown) {
                notes.push("If a present image runs there, write that image again.".to_owned());
            }
        }
        notes.extend(guesses(&change.spec.edits));
        notes.extend(change.unread_class.clone());
        if change.is_held {
            notes.push("It also removes the affinity that kept the pods off the new pool.".to_owned());
        }
        let field = |pointer: &str| self.value.pointer(pointer);
        let waits = field("/spec/updateStrategy/type").and_then(Value::as_str) == Some("OnDelete");
        if waits || matches!(self.view.kind, WorkloadKind::ReplicaSet | WorkloadKind::ReplicationController) {
            notes.push("It changes no running pod: delete them one after the other.".to_owned());
        }
        if field("/spec/paused").and_then(Value::as_bool) == Some(true) {
            notes.push("Its rollout is paused: resume it with kubectl rollout resume.".to_owned());
        }
        if self.view.kind == WorkloadKind::CronJob {
            notes.push("It concerns the Jobs that start from then on.".to_owned());
        }
        notes.join(" ")
    }

    /// Why an image is still to be built or found.
    fn why_open(self, open: &OpenImage) -> String {
        match open.verdict {
            Verdict::Unknown => format!(
                "Whether the image of {} runs on {} is not known: keep it if it does.",
                open.title(),
                self.scope.release
            ),
            Verdict::RunsAsIs | Verdict::AnotherTag | Verdict::Rebuild => {
                format!("The image of {} is still to be built or found.", open.title())
            }
        }
    }

    fn undo_note(self) -> String {
        match self.view.kind {
            WorkloadKind::StatefulSet => "If a new pod never becomes ready, delete that pod afterwards.".to_owned(),
            _ => String::new(),
        }
    }

    /// The releases on which images must run: the target and, for a DaemonSet, those of the pools that it has now.
    fn images_for(self) -> String {
        if self.view.object.kind != "DaemonSet" {
            return self.scope.release.clone();
        }
        let old = self.scope.leaving_builds_of(self.homes);
        let old = old.iter().map(|build| release_name(*build, &[]).into_owned());
        list_with(old.chain([self.scope.release.clone()]), "and")
    }

    fn hold_words(self, spec: &PodSpec<'_>) -> String {
        let path = self.view.path(&format!("spec{}", TERMS.replace('/', ".")));
        let every = if spec.before.pointer(TERMS).is_some() { "every term of " } else { "" };
        format!(
            "Before the new pool is created, add node.kubernetes.io/windows-build NotIn {} to {every}{path}: the pods tolerate \
             every taint, so the taint of the pool does not keep them off. Then, in its step: ",
            self.scope.target
        )
    }

    fn second_daemon_set(self, because: &str) -> String {
        format!(
            "It must run in the old and in the new pools until all workloads have moved, and {because}. Use an image whose index \
             has {}, or create a second DaemonSet for {}. `mullion rules MUL507` has an example.",
            self.images_for(),
            self.scope.release
        )
    }

    fn second_daemon_set_of_class(self, class: &str) -> String {
        format!(
            "It must run in the old and in the new pools until all workloads have moved, and its RuntimeClass is for nodes that \
             leave. Create a second DaemonSet for {} with RuntimeClass {class}. `mullion rules MUL507` has an example.",
            self.scope.release
        )
    }

    fn class_of_old_release(self, class: &str) -> String {
        format!(
            "Its RuntimeClass {class} is for nodes of the old release, and after the change there are none. Before the change, use a \
             RuntimeClass that selects no release, or remove runtimeClassName, in {}.",
            self.view.managed_by.as_ref().map_or("its template", |manager| manager.change.as_str())
        )
    }

    fn unread(self) -> String {
        let kind = &self.view.object.kind;
        if WorkloadKind::from_name(kind).is_some() {
            format!("The {kind} itself was not read. Read it as well, then the plan has its patch.")
        } else {
            format!("The {kind} is not a kind that Mullion reads. Change it according to its documentation.")
        }
    }

    /// A class that may be for nodes that leave, but that nobody read.
    fn unread_class(self, spec: &PodSpec<'_>, change: &ClassChange, inventory: &Inventory) -> Option<String> {
        let name = spec.text(RUNTIME_CLASS)?;
        let is_known = change.name.is_some() || inventory.runtime_class(Some(name)).is_some();
        (!is_known).then(|| {
            format!(
                "RuntimeClass {name} was not read: if it selects nodes that leave, set runtimeClassName to one for {} too.",
                self.scope.release
            )
        })
    }
}
