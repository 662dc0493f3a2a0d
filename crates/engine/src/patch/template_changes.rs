//! The changes of a pod template at its own CREATE or UPDATE: repairs only where the API server would reject the
//! template, and placement only for DaemonSets, because their controller decides from the template where pods run.

use std::collections::HashSet;

use serde_json::Value;

use crate::model::{BUILD, Change, DecisionAnnotation, Os};
use crate::patch::annotation::{annotation_of, left_out, with_decision};
use crate::patch::daemon_set_update::{DaemonSetUpdate, PlacementState};
use crate::patch::repair::{rejected_by_server, repair};
use crate::place::{
    PlacementChanges, WorkloadContext, add_node_selector, add_tolerations, exclude_builds_in_template,
    wanted_tolerations,
};
use crate::rules::Finding;

/// The changes; `update`: set if the request updates a DaemonSet.
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
    let state = update.map_or(PlacementState::Unclear, |update| update.state(cx.decision));
    let mut fresh = PlacementChanges::on(object);
    if let Some(os) = cx.placed_on() {
        add_node_selector(cx, os, &mut fresh);
    }
    let systems = cx.tolerated_systems();
    for os in systems {
        add_tolerations(cx, *os, &mut fresh);
    }
    if let Some(update) = update {
        match state {
            PlacementState::Valid => {
                let lost = update.lost_placement();
                placed.changes.extend(lost.changes);
                placed.words.extend(lost.words);
            }
            PlacementState::Outdated => {
                let wanted: Vec<_> = systems.iter().map(|os| wanted_tolerations(cx, *os)).collect();
                let wanted = |toleration: &Value| wanted.iter().any(|wanted| wanted(toleration));
                placed.changes.extend(update.remove_placement(&fresh, wanted));
            }
            PlacementState::Unclear => {}
        }
    }
    let mut known: HashSet<String> = placed.words.iter().cloned().collect();
    for (change, word) in fresh.changes.into_iter().zip(fresh.words) {
        if known.insert(word.clone()) {
            placed.changes.push(change);
            placed.words.push(word);
        }
    }
    let mut removed = None;
    match update {
        Some(update) => removed = update.change_builds(cx, state, &mut placed).then_some(BUILD),
        None => exclude_builds_in_template(cx, &mut placed),
    }
    let words = std::mem::take(&mut placed.words);
    let decided = cx.decision.decided();
    placed.changes.extend(match (update, state) {
        (Some(update), PlacementState::Valid) => update.annotation_with(words, removed, left_out(cx)),
        (Some(update), PlacementState::Unclear) if words.is_empty() => update.kept_annotation(),
        (Some(update), PlacementState::Outdated) if words.is_empty() => update.without_annotation(decided),
        _ if words.is_empty() => None,
        // A second call for one request receives what the first wrote.
        _ => match DecisionAnnotation::of(object).filter(|it| Os::from_name(&it.os) == decided) {
            Some(annotation) => Some(with_decision(cx, annotation).beside(words).change()),
            None => Some(annotation_of(cx, words).change()),
        },
    });
    placed.changes
}
