//! Reviews one request: from the object, the cluster snapshot and the settings to a decision, findings and changes.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crate::admission::not_reviewed::NotReviewed;
use crate::admission::pre_existing::mark_pre_existing;
use crate::admission::request_category::RequestCategory;
use crate::admission::resize;
use crate::detect::{
    DefaultCandidate, DetectionInput, NoDefault, check_linux_default, decide, images_of, read_os_annotation,
    volume_images_of,
};
use crate::model::cluster::{ClusterSnapshot, Namespace, UnusableFact};
use crate::model::json_pointer::{field_path, member};
use crate::model::names::{ALLOW_ANNOTATION, IGNORE_ANNOTATION, OS_ANNOTATION};
use crate::model::pod_view::{Container, Pod};
use crate::model::scheduling::{OsWanted, selector_os};
use crate::model::settings::{
    Action, Exemptions, HonourIgnore, Lookup, Mode, NodeSettings, ReviewSettings, Settings, TolerationsMode,
};
use crate::model::{
    Basis, Change, DecisionAnnotation, DetectedOs, Edit, Endpoint, Operation, OptOut, Os, OsDecision, ReviewRequest,
    ScopeOs, WorkloadKind, WorkloadObject,
};
use crate::patch::{DaemonSetUpdate, pod_changes, rejected_by_server, repair, template_changes};
use crate::place::{
    CheckScope, LeftOutNodes, WorkloadContext, find_left_out_nodes, find_unlearned_taints, has_many_taints,
    new_ephemeral_containers, pod_builds,
};
use crate::rules::{Finding, RejectedBy, catalogue};

/// The result of reviewing one request.
#[derive(Debug, Clone)]
pub struct Review {
    /// What the policies set for this workload.
    pub settings: Arc<Settings>,
    /// The request category: it selects the row of the outcome table.
    pub category: RequestCategory,
    /// The operating system, and why.
    pub decision: OsDecision,
    /// Why an undecided workload does not get the Linux default; `None` if it does, or if no default was requested.
    pub no_default: Option<NoDefault>,
    /// The findings, most important first.
    pub findings: Vec<Finding>,
    /// The changes to make.
    pub changes: Vec<Change>,
    /// Image references, as the workload writes them, for which a registry could change the result; empty if the
    /// policies allow no look-ups. The report of a registry about one of them never adds another.
    pub wanted: Vec<String>,
    /// A hint for the author of a template: that a DaemonSet got the default and how to change it, or that an
    /// annotation is set where it does not reach the pods. For a resize: why it cannot be done.
    pub hint: Option<String>,
    /// The Windows nodes of a DaemonSet that cannot run its images; `None` if there are none, or if the policies allow
    /// it.
    pub left_out: Option<LeftOutNodes>,
    /// Whether the workload's namespace is unknown and could change the result: policies that select namespaces by
    /// labels did not match, and its annotations were not read.
    pub namespace_unknown: bool,
    /// What others wrote and is not used, although it could change the result: annotations of the namespace,
    /// tolerations of the RuntimeClass, taints of nodes.
    pub unusable: Vec<UnusableFact>,
}

/// Reviews one request. Total: missing or malformed input is a value or a finding, never an error.
pub fn review(request: &ReviewRequest<'_>, snapshot: &ClusterSnapshot, settings: &ReviewSettings<'_>) -> Review {
    let workload = &request.workload;
    let Some(pod) = Pod::of(workload.kind, workload.object) else {
        return Review::nothing(Arc::default(), RequestCategory::Skipped(NotReviewed::OtherRequest));
    };
    let namespace = snapshot.namespaces.get(workload.namespace).or(request.namespace);
    let ReviewSettings { new, nodes, by_namespace_labels, .. } = settings;
    let mut category = RequestCategory::of(request, &pod);
    let is_reviewed = |category| !matches!(category, RequestCategory::Skipped(_) | RequestCategory::OtherUpdate);
    // If no policy applies now, one that selects namespaces by their labels may apply.
    let matters = new.mode != Mode::Disabled || *by_namespace_labels;
    let namespace_unknown = namespace.is_none() && is_reviewed(category) && matters;
    if let Some(reason) = opted_out(request, &pod, namespace, new) {
        category = RequestCategory::Skipped(reason);
    }
    let nothing = |category| Review { namespace_unknown, ..Review::nothing(Arc::clone(new), category) };
    let update = DaemonSetUpdate::of(request);
    if category == RequestCategory::OtherUpdate
        && let Some(annotation) = update.as_ref().and_then(DaemonSetUpdate::kept_annotation)
    {
        return Review::rewrite(Arc::clone(new), vec![annotation]);
    }
    if !is_reviewed(category) {
        return nothing(category);
    }
    if category == RequestCategory::Resize {
        return Review { hint: resize::denial_reason(&pod, request.old, snapshot), ..nothing(category) };
    }
    let update_annotation = update.as_ref().and_then(DaemonSetUpdate::annotation);
    let images = images_of(&pod, new, request.images, snapshot);
    let volume_images = volume_images_of(&pod, new, request.images, snapshot);
    let input = DetectionInput {
        request,
        pod,
        namespace,
        snapshot,
        settings: new,
        images: &images,
        volume_images: &volume_images,
        earlier_placement: update_annotation
            .as_ref()
            .zip(update.as_ref())
            .map(|(annotation, update)| update.earlier(annotation)),
        ignores_default: false,
    };
    let own = DecisionAnnotation::written_by_mullion(workload.object)
        .filter(|_| category != RequestCategory::EphemeralContainers);
    let mut decision = decide_again(&input, own.as_ref().filter(|_| request.endpoint == Endpoint::Mutate));
    let no_default = apply_linux_default(&input, category, nodes, &mut decision);
    let builds = pod_builds(&images, snapshot, nodes);
    let exemptions = Exemptions::in_annotation(pod.annotation(ALLOW_ANNOTATION).unwrap_or_default());
    let (scope, containers) = containers_to_check(request, category, &pod);
    let mut cx = WorkloadContext {
        input,
        node_settings: nodes,
        decision: &decision,
        no_default,
        builds: &builds,
        left_out: None,
        annotation: own.as_ref(),
        exemptions: &exemptions,
        scope,
        containers: &containers,
        host_process: pod.host_process(),
    };
    let left_out = find_left_out_nodes(&cx).filter(|_| catalogue::reports_left_out_nodes(&cx));
    cx.left_out = left_out.as_ref();
    let mut findings = find_findings(&cx);
    if let Some(changes) = update.as_ref().and_then(|update| restored_template(update, &cx, &findings)) {
        return Review::rewrite(Arc::clone(new), changes);
    }
    deny_unrepaired(&cx, &mut findings);
    let mut wanted = wanted_images(&cx);
    if matches!(category, RequestCategory::Template { update: true, .. })
        && let Some(Review { findings: old, wanted: more, .. }) = review_old(request, snapshot, settings)
    {
        mark_pre_existing(&mut findings, &old, request);
        wanted.extend(more);
    }
    let wanted: Vec<String> = wanted.into_iter().collect();
    let changes = changes(&cx, category, update.as_ref(), &findings, is_settled(&findings, &wanted));
    // A second call for this request receives an unchanged template.
    if new.mode == Mode::Enforce
        && let Some(changes) = update.as_ref().and_then(|update| update.restored_by_placement(&changes))
    {
        return Review::rewrite(Arc::clone(new), changes);
    }
    // This must not be done earlier: a field that is allowed to stay may be one that the OS field forbids.
    findings.retain(|finding| finding.action != Action::Allow);
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.action));
    let hint = hint(&cx, category, &changes);
    Review {
        unusable: find_unusable_facts(&cx),
        settings: Arc::clone(new),
        category,
        decision,
        no_default,
        findings,
        changes,
        wanted,
        hint,
        left_out,
        namespace_unknown,
    }
}

/// Decides for Linux if the workload gets the Linux default; returns the reason if it does not.
fn apply_linux_default(
    input: &DetectionInput<'_>,
    category: RequestCategory,
    nodes: &NodeSettings,
    decision: &mut OsDecision,
) -> Option<NoDefault> {
    let candidate = default_candidate(category, input)?;
    if let Err(reason) = check_linux_default(input, decision, nodes, candidate) {
        return Some(reason);
    }
    (decision.os, decision.basis) = (DetectedOs::Linux, Basis::Default);
    None
}

impl Review {
    fn rewrite(settings: Arc<Settings>, changes: Vec<Change>) -> Self {
        Self { changes, ..Self::nothing(settings, RequestCategory::Rewrite) }
    }

    fn nothing(settings: Arc<Settings>, category: RequestCategory) -> Self {
        Self {
            settings,
            category,
            decision: OsDecision::undecided(Vec::new(), false),
            no_default: None,
            findings: Vec::new(),
            changes: Vec::new(),
            wanted: Vec::new(),
            hint: None,
            left_out: None,
            namespace_unknown: false,
            unusable: Vec::new(),
        }
    }
}

/// Why a request that would be reviewed is not.
fn opted_out(
    request: &ReviewRequest<'_>,
    pod: &Pod<'_>,
    namespace: Option<&Namespace>,
    settings: &Settings,
) -> Option<NotReviewed> {
    if !request.is_called {
        return Some(NotReviewed::NotCalled);
    }
    if settings.mode == Mode::Disabled {
        return Some(NotReviewed::Disabled);
    }
    let by_namespace = || namespace.and_then(Namespace::opt_out).map(NotReviewed::Namespace);
    let by_pod = || {
        let places =
            [(pod.annotation(IGNORE_ANNOTATION), OptOut::Annotation), (pod.label(IGNORE_ANNOTATION), OptOut::Label)];
        places.into_iter().find(|(value, _)| *value == Some("true")).map(|(_, place)| NotReviewed::Pod(place))
    };
    match settings.ignore {
        HonourIgnore::Never => None,
        HonourIgnore::Namespaces => by_namespace(),
        HonourIgnore::Pods => by_namespace().or_else(by_pod),
    }
}

/// Decides again. The Linux default was given only because nothing else decided. If another webhook has made the pod a
/// Windows pod since, the default no longer counts.
fn decide_again(input: &DetectionInput<'_>, own: Option<&DecisionAnnotation>) -> OsDecision {
    if own.is_some_and(|annotation| annotation.basis == Basis::Default) {
        let decision = decide(&DetectionInput { ignores_default: true, ..*input });
        if decision.os == DetectedOs::Windows {
            return decision;
        }
    }
    decide(input)
}

/// Which kind of candidate for the Linux default the request is; `None` if it cannot get the default.
fn default_candidate(category: RequestCategory, input: &DetectionInput<'_>) -> Option<DefaultCandidate> {
    match category {
        RequestCategory::EphemeralContainers => None,
        RequestCategory::OwnedPod { by: WorkloadKind::DaemonSet } => Some(DefaultCandidate::ExistingDaemonSet),
        RequestCategory::Template { update: true, .. } if input.is_daemon_set() => {
            Some(DefaultCandidate::ExistingDaemonSet)
        }
        RequestCategory::Template { .. } if input.is_daemon_set() => Some(DefaultCandidate::NewDaemonSet),
        _ => Some(DefaultCandidate::Ordinary),
    }
}

fn containers_to_check<'a>(
    request: &ReviewRequest<'_>,
    category: RequestCategory,
    pod: &Pod<'a>,
) -> (CheckScope, Vec<Container<'a>>) {
    if category != RequestCategory::EphemeralContainers {
        return (CheckScope::WholePod, pod.containers().collect());
    }
    let old = request.old.and_then(|old| Pod::of(request.workload.kind, old));
    (CheckScope::NewContainers, new_ephemeral_containers(pod, old.as_ref()))
}

fn find_findings(cx: &WorkloadContext<'_>) -> Vec<Finding> {
    let mut findings = catalogue::check(cx);
    if cx.decision.basis == Basis::Place {
        for finding in &mut findings {
            // Nothing is repaired then, and a harmless value is not reported.
            finding.action = finding.action.min(if finding.quiet { Action::Allow } else { Action::Warn });
        }
    }
    findings
}

/// Denies what no repair removes. Some fields are removed only together with setting the OS field. If the pod, or the
/// template's pods, do not get the OS field, a field for which the kubelet rejects the pod stays, and without a denial
/// here the controller would create one failed pod after another.
fn deny_unrepaired(cx: &WorkloadContext<'_>, findings: &mut [Finding]) {
    let due = |finding: &Finding| finding.action == Action::Repair && finding.rejected_by == RejectedBy::Kubelet;
    // The kubelet checks a pod as a whole only when it starts the pod.
    if !cx.is_whole_pod() || !findings.iter().any(due) {
        return;
    }
    let changes = pod_changes(cx, findings, cx.input.is_daemon_set(), false);
    let denied = cx.soften(Action::Deny);
    let removed: HashSet<&str> = changes.iter().filter_map(removed_pointer).collect();
    for finding in findings.iter_mut().filter(|finding| due(finding)) {
        if !removed.contains(finding.pointer.as_str()) {
            (finding.action, finding.quiet) = (denied, false);
        }
    }
}

fn removed_pointer(change: &Change) -> Option<&str> {
    match &change.edit {
        Edit::Remove { pointer } => Some(pointer),
        Edit::Set { .. } | Edit::Append { .. } => None,
    }
}

/// See [`Review::wanted`].
fn wanted_images(cx: &WorkloadContext<'_>) -> BTreeSet<String> {
    // The operating system that a node pool implies for a DaemonSet depends on whether the DaemonSet's images exist for
    // both.
    let by_pool = cx.input.is_daemon_set() && !matches!(selector_os(&cx.input.pod).0, OsWanted::Only(_));
    let never = cx.input.settings.lookup == Lookup::Never;
    if never || !(cx.is_windows() || cx.decision.depends_on_images() || by_pool) {
        return BTreeSet::new();
    }
    let of_containers = cx.input.images.iter().filter(|image| image.facts.open).map(|image| image.image);
    let of_volumes = cx.input.volume_images.iter().filter(|image| image.facts.open).map(|image| image.image);
    of_containers.chain(of_volumes).map(str::to_owned).collect()
}

/// The review of the object before an UPDATE, as if it were new; `None` if there is no old object to review.
fn review_old(
    request: &ReviewRequest<'_>,
    snapshot: &ClusterSnapshot,
    settings: &ReviewSettings<'_>,
) -> Option<Review> {
    let workload = WorkloadObject { object: request.old?, ..request.workload };
    let settings = ReviewSettings { new: Arc::clone(settings.old.as_ref()?), old: None, ..settings.clone() };
    let request = ReviewRequest { operation: Operation::Create, subresource: None, workload, old: None, ..*request };
    Some(review(&request, snapshot, &settings))
}

/// The changes that restore the template of a DaemonSet, if an update drops only what Mullion had added.
fn restored_template(
    update: &DaemonSetUpdate<'_>,
    cx: &WorkloadContext<'_>,
    findings: &[Finding],
) -> Option<Vec<Change>> {
    let mut repairs = Vec::new();
    repair(rejected_by_server(findings), &mut repairs);
    // With `any`, other fields of the author may name one operating system: then the placement is for that one.
    let requested = read_os_annotation(&cx.input)
        .map(|(scope, _)| scope.os().or(cx.decision.decided()).map_or(ScopeOs::Any.name(), Os::name));
    update.restore_template(repairs, requested)
}

/// Whether nothing is reported about the workload, and no registry could change its review.
fn is_settled(findings: &[Finding], wanted: &[String]) -> bool {
    wanted.is_empty() && findings.iter().all(|finding| finding.action == Action::Allow)
}

fn changes(
    cx: &WorkloadContext<'_>,
    category: RequestCategory,
    update: Option<&DaemonSetUpdate<'_>>,
    findings: &[Finding],
    is_settled: bool,
) -> Vec<Change> {
    match category {
        RequestCategory::Skipped(_)
        | RequestCategory::OtherUpdate
        | RequestCategory::Rewrite
        | RequestCategory::Resize => Vec::new(),
        // Only new containers are reviewed, and only for what the API server would reject.
        RequestCategory::EphemeralContainers => {
            let mut changes = Vec::new();
            repair(rejected_by_server(findings), &mut changes);
            changes
        }
        RequestCategory::Pod => pod_changes(cx, findings, false, is_settled),
        RequestCategory::OwnedPod { by } => pod_changes(cx, findings, by == WorkloadKind::DaemonSet, is_settled),
        RequestCategory::Template { .. } if cx.input.request.into_templates => {
            pod_changes(cx, findings, cx.input.is_daemon_set(), is_settled)
        }
        RequestCategory::Template { .. } => template_changes(cx, update, findings),
    }
}

/// See [`Review::unusable`].
fn find_unusable_facts(cx: &WorkloadContext<'_>) -> Vec<UnusableFact> {
    let request = &cx.input.request.workload;
    let namespace = cx.input.namespace.into_iter().flat_map(|found| found.unusable_facts(request.namespace));
    let class = cx
        .own_runtime_class()
        .and_then(|class| class.unusable_fact(cx.input.pod.text("/spec/runtimeClassName").unwrap_or_default()));
    // In nearly all clusters, there are few taints.
    let learns = cx.input.settings.tolerations == TolerationsMode::Learn && has_many_taints(cx.input.snapshot);
    let placed_on = if learns { cx.placed_on() } else { None };
    let taints = placed_on.and_then(|os| find_unlearned_taints(os, cx.input.snapshot, cx.node_settings));
    namespace.chain(class).chain(taints).collect()
}

/// See [`Review::hint`].
fn hint(cx: &WorkloadContext<'_>, category: RequestCategory, changes: &[Change]) -> Option<String> {
    let RequestCategory::Template { update, .. } = category else { return None };
    if cx.input.is_daemon_set() {
        // An annotation that is set later changes nothing, because an unchanged template is never touched.
        let text =
            "Mullion keeps this DaemonSet on Linux nodes; for all nodes create it with annotation mullion.dev/os: any";
        let default = cx.decision.basis == Basis::Default;
        return (default && !update && !changes.is_empty()).then(|| text.to_owned());
    }
    let around = member(cx.input.object(), "/metadata/annotations");
    let lost = !cx.input.request.into_templates
        && around.is_some_and(|all| all.get(OS_ANNOTATION).is_some())
        && cx.input.pod.annotation(OS_ANNOTATION).is_none();
    lost.then(|| {
        let place = field_path(&cx.input.pod.at("/metadata/annotations"));
        format!("{OS_ANNOTATION} does not reach the pods from here; write it in {place}")
    })
}
