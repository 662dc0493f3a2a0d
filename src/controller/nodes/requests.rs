//! What is asked and written: for one node, and for RuntimeClasses.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::node::v1 as node_api;
use kube::api::Patch;
use kube::{Api, Client};
use mullion_engine::model::cluster::taint::Taint;
use mullion_engine::model::settings::node_settings::ApplyTaint;
use mullion_engine::node::node_patch::{Hold, NodePatch, NodePlan, Trust};
use mullion_engine::node::plan::{plan_node, wanted_taint};
use mullion_engine::node::taint_blockers::{blockers, needs_pods};
use mullion_policy::policy_set::PolicySet;
use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::call::await_answer;
use crate::cluster::live::SlimNode;
use crate::cluster::write_params::{patch_params, post_params};
use crate::controller::bound;
use crate::controller::events::{Events, News};
use crate::controller::metrics::{Metrics, Outcome};
use crate::controller::nodes::known::{Known, Neighbours};
use crate::controller::nodes::news;
use crate::controller::nodes::news::Told;
use crate::controller::nodes::repeats::{Repeats, key as key_of};
use crate::controller::runtime_classes::Write;
use crate::telemetry::error_text::in_words;

/// What requests need.
pub(crate) struct Shared {
    client: Client,
    nodes: Api<SlimNode>,
    events: Events,
    pub(crate) metrics: Metrics,
    pub(crate) told: Told,
    repeats: Mutex<Repeats>,
}

/// What ended.
pub(crate) enum Done {
    Node(Report),
    Classes { again: bool },
}

/// How the work on a node ended.
pub(crate) struct Report {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) end: End,
    /// Who the taint waits for.
    pub(crate) waits_for: Vec<String>,
    /// Whether something is left alone because somebody undoes it.
    pub(crate) contested: bool,
    /// See [`NodePlan::withheld`].
    pub(crate) withheld: bool,
}

pub(crate) enum End {
    /// Nothing to do.
    Settled,
    Patched(Box<SlimNode>),
    Conflict,
    Gone,
    Failed,
    /// Done often enough; until when it is left.
    Enough(Instant),
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    u64::try_from(Timestamp::now().as_second()).unwrap_or(0)
}

impl Shared {
    pub(crate) fn new(client: Client, events: Events, metrics: Metrics) -> Self {
        let nodes = Api::all(client.clone());
        Self { client, nodes, events, metrics, told: Told::default(), repeats: Mutex::default() }
    }

    pub(crate) fn repeats(&self) -> MutexGuard<'_, Repeats> {
        self.repeats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn reconcile(
        self: Arc<Self>,
        known: Arc<Known>,
        policies: Arc<PolicySet>,
        trust: Arc<Trust>,
        neighbours: Option<Arc<Neighbours>>,
    ) -> Report {
        let (facts, policy) = (&known.facts, &policies.nodes);
        let wanted = wanted_taint(facts, policy, &trust).filter(|_| policy.taint.apply == ApplyTaint::WhenTolerated);
        let (waits_for, sure) = match &wanted {
            Some(taint) => match self.waits_for(&known, taint, &policies, neighbours.as_deref()).await {
                Ok(names) => (names, true),
                Err(unknown) => (vec![unknown.to_owned()], false),
            },
            None => (Vec::new(), false),
        };
        let NodePlan { patch, reasons, hold, withheld } = plan_node(facts, policy, &trust, &waits_for, now());
        let waits_for = if hold == Hold::Waiting { waits_for } else { Vec::new() };
        match (hold, &wanted, reasons.last()) {
            (Hold::Waiting, Some(taint), _) if sure => self.tell(&known, &news::waits(taint, &waits_for)).await,
            (Hold::Contested, _, Some(why)) => self.tell(&known, &news::contested(why)).await,
            _ if withheld => self.tell(&known, &news::would(&reasons)).await,
            _ => {}
        }
        let end = match patch {
            Some(patch) => self.change(&known, &patch, &reasons).await,
            None => End::Settled,
        };
        let contested = hold == Hold::Contested || matches!(end, End::Enough(_));
        Report { name: facts.name.clone(), version: known.version.clone(), end, waits_for, contested, withheld }
    }

    /// Who does not tolerate the taint; an error where that cannot be found out, with words for what is missing.
    async fn waits_for(
        &self,
        known: &Known,
        taint: &Taint,
        policies: &PolicySet,
        neighbours: Option<&Neighbours>,
    ) -> Result<Vec<String>, &'static str> {
        let Some(neighbours) = neighbours else { return Err("the list of DaemonSets, which cannot be read yet") };
        let Neighbours { daemons, snapshot, covered } = neighbours;
        let Some(facts) = &neighbours.with_labels(known) else {
            return Err("the node's labels, which were not seen yet");
        };
        // Nearly always without a request: one for each node would slow down a fleet that comes up.
        if !needs_pods(facts, taint, daemons, *covered) {
            return Ok(blockers(facts, taint, daemons, &[]));
        }
        match bound::pods(self.client.clone(), &facts.name, policies, snapshot).await {
            Ok(pods) => Ok(blockers(facts, taint, daemons, &pods)),
            Err(error) => {
                tracing::warn!(
                    node = facts.name,
                    error = in_words(error.as_ref()),
                    "cannot read the pods of the node; its taint waits"
                );
                Err("the list of the node's pods, which cannot be read")
            }
        }
    }

    /// Patches, unless the same was done often enough: then somebody undoes it.
    async fn change(&self, known: &Known, patch: &NodePatch, reasons: &[String]) -> End {
        let name = &known.facts.name;
        // Not the record: it may differ each time, and others may write into it.
        let key = key_of(&(name, &known.uid, &patch.labels, patch.taints.is_some(), patch.owned.is_some()));
        let checked = self.repeats().check(key, Instant::now());
        if let Err(enough) = checked {
            self.tell(known, &news::undone(name, reasons)).await;
            return End::Enough(enough.until);
        }
        let end = self.patch(name, &patch.to_merge_patch(&known.version), reasons).await;
        if matches!(end, End::Patched(_)) {
            self.repeats().done(key, Instant::now());
        }
        end
    }

    async fn tell(&self, known: &Known, news: &News) {
        self.told.tell(&self.events, known, news).await;
    }

    async fn patch(&self, name: &str, body: &serde_json::Value, reasons: &[String]) -> End {
        let params = patch_params();
        let answer = await_answer(self.nodes.patch(name, &params, &Patch::Merge(body))).await;
        let outcome = Outcome::of(&answer);
        self.metrics.node_patched(outcome);
        match (answer, outcome) {
            (Ok(node), _) => {
                tracing::info!(node = name, changes = reasons.join("; "), "node patched");
                End::Patched(Box::new(node))
            }
            (Err(_), Outcome::Conflict) => End::Conflict,
            (Err(_), Outcome::Gone) => End::Gone,
            (Err(error), _) => {
                tracing::warn!(node = name, error = in_words(&error), "cannot patch the node; trying again later");
                End::Failed
            }
        }
    }

    /// Those that were not made often enough by now: somebody who deletes a class, or takes a toleration away, three
    /// times within an hour has it his way for the rest of it.
    pub(crate) async fn write_classes(self: Arc<Self>, writes: Vec<Write>) -> Done {
        let mut again = false;
        for write in writes {
            let (name, scheduling) = match &write {
                Write::Create { object } => (object.pointer("/metadata/name").and_then(Value::as_str), None),
                Write::Patch { name, body } => (Some(name.as_str()), body.get("scheduling").map(Value::to_string)),
            };
            let name = name.unwrap_or_default().to_owned();
            let key = key_of(&("RuntimeClass", &name, scheduling));
            let checked = self.repeats().check(key, Instant::now());
            if let Err(enough) = checked {
                again = true;
                if enough.news {
                    tracing::warn!(class = name, "somebody undoes what is written three times; it is left for an hour");
                }
                continue;
            }
            let outcome = self.write_class(&name, write).await;
            if outcome == Outcome::Done {
                self.repeats().done(key, Instant::now());
            }
            again |= outcome == Outcome::Failed;
            self.metrics.class_written(outcome);
        }
        Done::Classes { again }
    }

    async fn write_class(&self, name: &str, write: Write) -> Outcome {
        let api: Api<node_api::RuntimeClass> = Api::all(self.client.clone());
        let answer = match write {
            Write::Create { object } => {
                let params = post_params();
                match serde_json::from_value(object) {
                    Ok(class) => await_answer(api.create(&params, &class)).await,
                    Err(error) => Err(kube::Error::SerdeError(error)),
                }
            }
            Write::Patch { name, body } => {
                let params = patch_params();
                await_answer(api.patch(&name, &params, &Patch::Merge(&body))).await
            }
        };
        let outcome = Outcome::of(&answer);
        match answer {
            Ok(_) => tracing::info!(class = name, "RuntimeClass written"),
            Err(error) if outcome == Outcome::Failed => {
                let error = in_words(&error);
                tracing::warn!(class = name, error, "cannot write the RuntimeClass; trying again later");
            }
            // Somebody was faster, or it is gone: the watch brings it, and then it is planned again.
            Err(_) => {}
        }
        outcome
    }
}
