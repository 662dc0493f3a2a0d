//! The changes of a pod template at its own CREATE or UPDATE: repairs only where the API server would reject the template,
//! and placement only for DaemonSets, whose controller decides from the template where pods go.

use serde_json::Value;

use crate::model::change::Change;
use crate::model::decision_annotation::DecisionAnnotation;
use crate::model::operating_system::Os;
use crate::patch::annotation::{annotation_of, decided_by};
use crate::patch::daemon_set_update::{DaemonSetUpdate, PlacementFate};
use crate::patch::repair::{rejected_by_server, repair};
use crate::place::context::WorkloadContext;
use crate::place::placement_changes::PlacementChanges;
use crate::rules::finding::Finding;

/// The changes; `update`: what the request is if it updates a DaemonSet.
pub(crate) fn template_changes(
    cx: &WorkloadContext<'_>,
    update: Option<&DaemonSetUpdate<'_>>,
    findings: &[Finding],
) -> Vec<Change> {
    let object = cx.input.object();
    let mut placed = PlacementChanges::on(object);
    repair(rejected_by_server(findings), &mut placed.changes);
    if !cx.input.is_daemon_set() {
        return placed.changes;
    }
    let fate = update.map_or(PlacementFate::Open, |update| update.fate(cx.decision));
    let mut fresh = PlacementChanges::on(object);
    let os = cx.placed_on();
    if let Some(os) = os {
        cx.add_node_selector(os, &mut fresh);
        cx.add_tolerations(os, &mut fresh);
    }
    if let Some(update) = update {
        match fate {
            PlacementFate::Holds => {
                let lost = update.lost();
                placed.changes.extend(lost.changes);
                placed.words.extend(lost.words);
            }
            PlacementFate::Over => {
                let wanted = |toleration: &Value| os.is_some_and(|os| cx.wants_toleration(os, toleration));
                placed.changes.extend(update.take_away(&fresh, wanted));
            }
            PlacementFate::Open => {}
        }
    }
    for (change, word) in fresh.changes.into_iter().zip(fresh.words) {
        if !placed.words.contains(&word) {
            placed.changes.push(change);
            placed.words.push(word);
        }
    }
    let words = std::mem::take(&mut placed.words);
    let decided = cx.decision.decided();
    placed.changes.extend(match (update, fate) {
        (Some(update), PlacementFate::Holds) => update.annotation_with(words),
        (Some(update), PlacementFate::Open) if words.is_empty() => update.kept_annotation(),
        (Some(update), PlacementFate::Over) if words.is_empty() => update.without_annotation(decided),
        _ if words.is_empty() => None,
        // A second call for one request sees what the first wrote.
        _ => match DecisionAnnotation::of(object).filter(|it| Os::from_name(&it.os) == decided) {
            Some(annotation) => Some(decided_by(cx, annotation).beside(words).change()),
            None => Some(annotation_of(cx, words).change()),
        },
    });
    placed.changes
}
