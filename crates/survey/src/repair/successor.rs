//! The pod that an owner makes when one of its pods is gone, and the nodes for it: the engine's preview of the present
//! template, with the controller as the requester.

use std::collections::BTreeSet;
use std::sync::Arc;

use mullion_engine::admission::{NodeObstacle, effective_action, find_nodes, review};
use mullion_engine::model::cluster::Node;
use mullion_engine::model::settings::Action;
use mullion_engine::model::windows::Build;
use mullion_engine::model::{Basis, Os, Requester, ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_policy::PolicySet;
use serde_json::{Value, json};

use crate::inventory::{Inventory, ObjectKey};
use crate::repair::stuck_pod::LeaveReason;

/// Whether the API server calls Mullion for a new object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReviewCall {
    /// It calls Mullion.
    Called,
    /// It does not, so the object stays as it is.
    NotCalled,
    /// It is not known, for this reason.
    Unknown(String),
}

/// The successor of the pods of an owner.
#[derive(Debug, Clone)]
pub(super) struct Successor {
    /// Its operating system, if it is decided.
    pub(super) os: Option<Os>,
    /// Whether nothing states the operating system, and it is that of the Linux default.
    pub(super) is_default: bool,
    /// The nodes that run it.
    pub(super) nodes: Arc<[Arc<str>]>,
    /// Operating systems and builds of the nodes on which the scheduler may put it.
    kinds: BTreeSet<(Option<Os>, Option<Build>)>,
    /// Whether one of these nodes cannot run it, or is one of which that is not known.
    is_at_risk: bool,
}

/// The facts for a preview.
pub(super) struct SuccessorContext<'a> {
    pub(super) inventory: &'a Inventory,
    pub(super) policies: &'a PolicySet,
    pub(super) called: &'a dyn Fn(&WorkloadObject<'_>) -> ReviewCall,
}

impl SuccessorContext<'_> {
    /// The successor of a pod of this owner, of which a pod is created.
    pub(super) fn pod(&self, owner: &ObjectKey, object: &Value) -> Result<Successor, LeaveReason> {
        let pod = successor_pod(owner, object).ok_or(LeaveReason::OwnerNotRead)?;
        self.preview(WorkloadKind::Pod, &owner.namespace, &pod)
    }

    /// The pods of a DaemonSet that is updated.
    pub(super) fn daemon_set(&self, owner: &ObjectKey, object: &Value) -> Result<Successor, LeaveReason> {
        self.preview(WorkloadKind::DaemonSet, &owner.namespace, object)
    }

    fn preview(&self, kind: WorkloadKind, namespace: &str, object: &Value) -> Result<Successor, LeaveReason> {
        let workload = WorkloadObject { kind, namespace, object };
        let is_called = match (self.called)(&workload) {
            ReviewCall::Called => true,
            ReviewCall::NotCalled => false,
            ReviewCall::Unknown(why) => return Err(LeaveReason::ReviewNotKnown(why)),
        };
        let requester = Requester::BuiltInController;
        let request = ReviewRequest { requester, is_called, ..ReviewRequest::creation(workload) };
        let snapshot = &self.inventory.snapshot;
        let settings = self.policies.resolve(&request, snapshot);
        let reviewed = review(&request, snapshot, &settings);
        let denied = reviewed.findings.iter().find(|finding| effective_action(&reviewed, finding) == Action::Deny);
        if let Some(finding) = denied {
            return Err(LeaveReason::Denied(finding.sentence()));
        }
        let found = find_nodes(&request, snapshot, &settings).ok_or(LeaveReason::NoNode)?;
        let nodes = snapshot.nodes.as_ref();
        let node = |name: &str| nodes.and_then(|nodes| nodes.get(name));
        // Of virtual kubelets there is no record: what they run is not known.
        let is_ready = |name: &str| self.inventory.nodes.get(name).map(|record| record.ready);
        let runnable: BTreeSet<&str> =
            found.runnable.iter().copied().filter(|name| node(name).is_some_and(|node| node.os.is_some())).collect();
        let open = found.schedulable.iter().copied().filter(|name| is_ready(name) != Some(false));
        let may_enter = |obstacle: &NodeObstacle<'_>| matches!(obstacle, NodeObstacle::UnknownFeature(_));
        let is_at_risk = open.clone().any(|name| !runnable.contains(name) || is_ready(name).is_none())
            || found.left_out.iter().any(|(_, obstacle)| may_enter(obstacle));
        let kinds = open.filter_map(node).map(kind_of).collect();
        let names = runnable.into_iter().filter(|name| is_ready(name) == Some(true)).map(Arc::from);
        let (os, is_default) = (reviewed.decision.decided(), reviewed.decision.basis == Basis::Default);
        Ok(Successor { os, is_default, nodes: names.collect(), kinds, is_at_risk })
    }
}

impl Successor {
    /// Why an eviction from this node does not help; `None` if it does.
    pub(super) fn obstacle(&self, from: &Node) -> Option<LeaveReason> {
        if self.kinds.contains(&kind_of(from)) {
            Some(LeaveReason::LandsThereAgain)
        } else if self.is_at_risk {
            Some(LeaveReason::LandsElsewhere)
        } else if self.nodes.is_empty() {
            Some(LeaveReason::NoNode)
        } else {
            None
        }
    }
}

fn kind_of(node: &Node) -> (Option<Os>, Option<Build>) {
    (node.os, node.build)
}

/// The pod that the controller of the owner creates.
fn successor_pod(owner: &ObjectKey, object: &Value) -> Option<Value> {
    let template = object.pointer("/spec/template")?;
    let mut metadata =
        template.get("metadata").filter(|metadata| metadata.is_object()).cloned().unwrap_or_else(|| json!({}));
    let members = metadata.as_object_mut()?;
    let reference = json!({
        "apiVersion": WorkloadKind::from_name(&owner.kind)?.api_version(), "kind": &*owner.kind, "name": &*owner.name, "controller": true,
    });
    members.insert("namespace".to_owned(), (&*owner.namespace).into());
    members.insert("generateName".to_owned(), format!("{}-", owner.name).into());
    members.insert("ownerReferences".to_owned(), json!([reference]));
    Some(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec")?}))
}
