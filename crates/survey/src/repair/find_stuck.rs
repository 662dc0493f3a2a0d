//! Finds the pods of an inventory that can never start where they are, and decides what is done about each.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use mullion_engine::model::WorkloadObject;
use mullion_policy::PolicySet;
use serde_json::Value;

use crate::analysis::{
    Fleet, FleetNode, FleetRules, OwnedPods, RunningImages, ViewContext, WorkloadView, coverage, group,
};
use crate::evidence::{ListEvidence, Statement};
use crate::inventory::{Inventory, ObjectKey, OwnerKey, PodRecord, WorkloadRecord};
use crate::repair::evidence::{EvidenceContext, refusal};
use crate::repair::owner::{REPLACING, check_owner};
use crate::repair::started_images::StartedImages;
use crate::repair::stuck_pod::{LeaveReason, PodOwner, RepairAction, StuckEvidence, StuckPod};
use crate::repair::successor::{ReviewCall, Successor, SuccessorContext};
use crate::repair::volumes::has_claims;

/// How long a pod may not start before an Event or a successor of the other operating system counts, in seconds.
const UNSTARTED: i64 = 600;
/// How long a pod may be in deletion after its grace, in seconds.
const OVERDUE: i64 = 60;

/// The input besides the objects.
pub struct RepairContext<'a> {
    /// The policies in force.
    pub policies: &'a PolicySet,
    /// Whether the API server calls Mullion for a new object.
    pub called: &'a dyn Fn(&WorkloadObject<'_>) -> ReviewCall,
}

/// The stuck pods of an inventory.
#[derive(Debug)]
pub struct StuckReport {
    /// Sorted by namespace, owner and name.
    pub pods: Vec<StuckPod>,
    /// How much was read of the lists that it needs.
    pub evidence: ListEvidence,
}

/// Finds the stuck pods.
pub fn find_stuck(inventory: &Inventory, context: &RepairContext<'_>) -> StuckReport {
    let evidence = Statement::Placement.evidence(&coverage(inventory, false));
    let fleet = &Fleet::new(inventory);
    let running = &RunningImages::new(inventory, fleet);
    let started = &StartedImages::new(inventory, fleet);
    let groups = group(inventory);
    let of_pod = groups.iter().enumerate().flat_map(|(at, group)| group.pods.iter().map(move |pod| (*pod, at)));
    let rules = FleetRules { inventory, releases: &context.policies.nodes.releases };
    let mut finder = Finder {
        inventory,
        evidence: EvidenceContext { inventory, running, started, rules },
        successors: SuccessorContext { inventory, policies: context.policies, called: context.called },
        view_context: ViewContext { inventory, fleet, running, policies: context.policies },
        now: inventory.taken_at().and_then(|time| time.parse().ok()),
        owners: inventory.workloads.iter().map(|record| (&record.key, record)).collect(),
        group_of: of_pod.collect(),
        groups: &groups,
        views: HashMap::new(),
        previews: HashMap::new(),
        planned: HashMap::new(),
    };
    let mut order: Vec<(usize, &PodRecord)> = inventory.pods.iter().enumerate().collect();
    order.sort_by_key(|(_, pod)| {
        let owner = pod.owner.as_ref().map(|owner| (Arc::clone(&owner.kind), Arc::clone(&owner.name)));
        (Arc::clone(&pod.namespace), owner, Arc::clone(&pod.name))
    });
    let found = order.into_iter().filter_map(|(at, pod)| {
        let node = fleet.node(pod.node.as_deref()?)?;
        finder.stuck(at, pod, node)
    });
    StuckReport { pods: found.collect(), evidence }
}

/// An owner with its object, and the preview of its successor.
struct Preview {
    object: Value,
    template: Arc<str>,
    successor: Result<Successor, LeaveReason>,
}

struct Finder<'a> {
    inventory: &'a Inventory,
    evidence: EvidenceContext<'a>,
    successors: SuccessorContext<'a>,
    view_context: ViewContext<'a>,
    now: Option<Timestamp>,
    owners: HashMap<&'a ObjectKey, &'a WorkloadRecord>,
    group_of: HashMap<usize, usize>,
    groups: &'a [OwnedPods<'a>],
    views: HashMap<usize, WorkloadView<'a>>,
    /// By owner; `None` if it was not read.
    previews: HashMap<ObjectKey, Option<Arc<Preview>>>,
    /// The number of evictions that are planned, by owner.
    planned: HashMap<ObjectKey, u64>,
}

impl<'a> Finder<'a> {
    /// The pod, if it is stuck on the node.
    fn stuck(&mut self, at: usize, pod: &'a PodRecord, node: &FleetNode<'a>) -> Option<StuckPod> {
        if !pod.reported || node.node.os.is_none() || pod.shape.containers.is_empty() {
            return None;
        }
        let key = pod.owner.as_ref().map(|owner| owner_key(pod, owner));
        let preview = key.as_ref().and_then(|key| self.preview(key));
        let (evidence, action) = if pod.deleted_at.is_some() {
            (self.deleting(at, pod, node)?, RepairAction::Leave(LeaveReason::Deleting))
        } else if pod.ended {
            (refusal(pod)?, self.refused(at, pod))
        } else if pod.ready || pod.started || !(pod.is_start_known || self.is_unstarted(pod)) {
            return None;
        } else {
            let evidence = self.cause(at, pod, node, preview.as_deref())?;
            let action = self.action(at, pod, node, &evidence, key.as_ref(), preview.as_deref());
            (evidence, action)
        };
        Some(stuck_pod(pod, node, evidence, action, preview.as_deref()))
    }

    /// What keeps the pod from starting.
    fn cause(
        &mut self,
        at: usize,
        pod: &'a PodRecord,
        node: &FleetNode<'a>,
        preview: Option<&Preview>,
    ) -> Option<StuckEvidence> {
        let is_unstarted = self.is_unstarted(pod);
        let view = self.view(at)?;
        let own = view.os.decided();
        let excluded = {
            let Self { evidence, views, group_of, .. } = &*self;
            let view = views.get(group_of.get(&at)?)?;
            evidence.exclusion(view, pod, node).or_else(|| {
                let because = is_unstarted.then(|| evidence.suspicion(view, pod, node)).flatten()?;
                Some(StuckEvidence::Unknown { because })
            })
        };
        if excluded.is_some() || !is_unstarted {
            return excluded;
        }
        let (os, is_default) = match preview.map(|preview| &preview.successor) {
            Some(Ok(successor)) => (successor.os, successor.is_default),
            Some(Err(_)) => (None, true),
            None => (own, true),
        };
        let os = os.filter(|os| Some(os.other()) == node.node.os)?;
        Some(match self.evidence.says_why(pod, is_default) {
            Some((reason, message)) if preview.is_some() => {
                StuckEvidence::Unstarted { os, reason: reason.to_owned(), message: message.to_owned() }
            }
            _ => {
                StuckEvidence::Unknown { because: format!("it counts as a {} pod, but no Event says why", os.title()) }
            }
        })
    }

    /// What is done about a pod with this evidence.
    fn action(
        &mut self,
        at: usize,
        pod: &PodRecord,
        node: &FleetNode<'_>,
        evidence: &StuckEvidence,
        key: Option<&ObjectKey>,
        preview: Option<&Preview>,
    ) -> RepairAction {
        let planned = key.and_then(|key| self.planned.get(key)).copied().unwrap_or_default();
        let decided = || -> Result<RepairAction, LeaveReason> {
            if matches!(evidence, StuckEvidence::Unknown { .. }) {
                return Err(LeaveReason::EvidenceUnknown);
            }
            if !pod.is_start_known {
                return Err(LeaveReason::StartNotKnown);
            }
            let Some(key) = key else { return Err(self.without_owner(at)) };
            if !node.record.is_some_and(|record| record.ready) {
                return Err(LeaveReason::NodeNotReady);
            }
            if &*key.kind != "DaemonSet" && !REPLACING.contains(&&*key.kind) {
                return Err(LeaveReason::OwnerKind(key.kind.to_string()));
            }
            let preview = preview.ok_or(LeaveReason::OwnerNotRead)?;
            // The number of attempts is checked last: only an eviction that would help is counted.
            let owner = check_owner(&key.kind, &preview.object, planned);
            if let Err(reason) = owner.as_ref()
                && !matches!(reason, LeaveReason::Attempts { .. } | LeaveReason::FailurePolicy)
            {
                return Err(reason.clone());
            }
            let successor = preview.successor.as_ref().map_err(LeaveReason::clone)?;
            if &*key.kind == "DaemonSet" {
                let stays = successor.obstacle(node.node) == Some(LeaveReason::LandsThereAgain);
                return if stays { Err(LeaveReason::LandsThereAgain) } else { Ok(RepairAction::RestartDaemonSet) };
            }
            if let Some(obstacle) = successor.obstacle(node.node) {
                return Err(obstacle);
            }
            owner?;
            let nodes = Arc::clone(&successor.nodes);
            Ok(RepairAction::Evict { nodes, has_claims: has_claims(&preview.object) })
        };
        match decided() {
            Ok(action) => {
                if let (RepairAction::Evict { .. }, Some(key)) = (&action, key) {
                    *self.planned.entry(key.clone()).or_default() += 1;
                }
                action
            }
            Err(reason) => RepairAction::Leave(reason),
        }
    }

    /// A pod that its kubelet rejected has failed, and its controller has replaced it.
    fn refused(&self, at: usize, pod: &PodRecord) -> RepairAction {
        match &pod.owner {
            None => RepairAction::Leave(self.without_owner(at)),
            Some(owner) if &*owner.kind == "DaemonSet" || REPLACING.contains(&&*owner.kind) => RepairAction::Replaced,
            Some(owner) => RepairAction::Leave(LeaveReason::OwnerKind(owner.kind.to_string())),
        }
    }

    /// Why a pod without an owner is left.
    fn without_owner(&self, at: usize) -> LeaveReason {
        let is_static = self.inventory.samples.get(&at).is_some_and(|sample| {
            let pod: Value = serde_json::from_str(sample).unwrap_or_default();
            let mirror = pod.pointer("/metadata/annotations/kubernetes.io~1config.mirror").is_some();
            let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
            mirror || owners.into_iter().any(|owner| owner.get("kind").and_then(Value::as_str) == Some("Node"))
        });
        if is_static { LeaveReason::StaticPod } else { LeaveReason::BarePod }
    }

    /// A pod that never ran, and that its kubelet does not end, although its node is ready.
    fn deleting(&mut self, at: usize, pod: &'a PodRecord, node: &FleetNode<'a>) -> Option<StuckEvidence> {
        let since = pod.deleted_at.as_deref()?;
        let is_overdue = self.now?.as_second() - since.parse::<Timestamp>().ok()?.as_second() > OVERDUE;
        if !is_overdue || pod.started || pod.ready || !node.record.is_some_and(|record| record.ready) {
            return None;
        }
        self.view(at)?;
        let Self { evidence, views, group_of, .. } = &*self;
        let is_windows = node.node.os == Some(mullion_engine::model::Os::Windows);
        let is_excluded = || evidence.exclusion(views.get(group_of.get(&at)?)?, pod, node);
        (is_windows || is_excluded().is_some()).then(|| StuckEvidence::Deleting { since: since.to_owned() })
    }

    /// Whether its kubelet accepted it ten minutes ago.
    fn is_unstarted(&self, pod: &PodRecord) -> bool {
        let accepted = pod.accepted_at.as_deref().and_then(|time| time.parse::<Timestamp>().ok());
        accepted.zip(self.now).is_some_and(|(accepted, now)| now.as_second() - accepted.as_second() >= UNSTARTED)
    }

    fn view(&mut self, at: usize) -> Option<&WorkloadView<'a>> {
        let group = *self.group_of.get(&at)?;
        let owned = self.groups.get(group)?;
        let context = self.view_context;
        Some(self.views.entry(group).or_insert_with(|| WorkloadView::new(owned, context)))
    }

    /// The owner of pods with the preview of their successor; `None` if it was not read.
    fn preview(&mut self, key: &ObjectKey) -> Option<Arc<Preview>> {
        if let Some(known) = self.previews.get(key) {
            return known.clone();
        }
        let record = self.owners.get(key);
        let text = record
            .map(|record| &record.text)
            .filter(|text| !text.is_empty())
            .or_else(|| self.inventory.owned_jobs.get(key));
        let object: Option<Value> = text.and_then(|text| serde_json::from_str(text).ok());
        let preview = object.map(|object| {
            let successor = if &*key.kind == "DaemonSet" {
                self.successors.daemon_set(key, &object)
            } else {
                self.successors.pod(key, &object)
            };
            let template = object.pointer("/spec/template").map(ToString::to_string).unwrap_or_default().into();
            Arc::new(Preview { object, template, successor })
        });
        self.previews.insert(key.clone(), preview.clone());
        preview
    }
}

fn owner_key(pod: &PodRecord, owner: &OwnerKey) -> ObjectKey {
    ObjectKey { namespace: Arc::clone(&pod.namespace), kind: Arc::clone(&owner.kind), name: Arc::clone(&owner.name) }
}

fn stuck_pod(
    pod: &PodRecord,
    node: &FleetNode<'_>,
    evidence: StuckEvidence,
    action: RepairAction,
    preview: Option<&Preview>,
) -> StuckPod {
    let images = pod.shape.containers.iter().filter(|container| !container.ephemeral);
    StuckPod {
        namespace: pod.namespace.to_string(),
        name: pod.name.to_string(),
        uid: pod.uid.to_string(),
        node: node.node.name.clone(),
        owner: pod.owner.as_ref().map(|owner| PodOwner {
            kind: owner.kind.to_string(),
            name: owner.name.to_string(),
            deployment: owner.deployment.as_ref().map(ToString::to_string),
        }),
        evidence,
        action,
        images: images.map(|container| container.image.to_string()).collect(),
        template: preview.map(|preview| Arc::clone(&preview.template)).unwrap_or_default(),
    }
}
