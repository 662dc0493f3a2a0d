//! The plan: looks at each Windows workload once, and puts the report together.

use std::collections::BTreeSet;

use mullion_engine::model::DetectedOs;

use crate::context::PlanContext;
use crate::report::{ConstraintState, PlanReport, SCHEMA, TableVersion};
use crate::scope::MoveScope;
use crate::steps::StepInput;
use crate::summary::SummaryInput;
use crate::workload_move::WorkloadMove;
use crate::{calendar, changes, constraints, demand, edits, steps, summary, unknown, uses, verdicts};
use mullion_survey::analysis::{
    DeclaredPools, Fleet, NodeClasses, RunningImages, ViewContext, WorkloadView, coverage, group, unread_pods,
    virtual_nodes,
};
use mullion_survey::facts::FactsTable;
use mullion_survey::inventory::Inventory;

/// The plan for an inventory.
pub fn plan(inventory: &Inventory, context: PlanContext<'_>) -> PlanReport {
    let fleet = &Fleet::new(inventory);
    let scope = &MoveScope::new(fleet, inventory, context);
    let (mut moves, undecided) = workload_moves(inventory, fleet, scope, context);
    let mut checked = constraints::check(fleet, inventory, scope, context);
    if fleet.known && !scope.leaves() {
        checked.constraints.retain(|constraint| constraint.state != ConstraintState::Notice);
    }
    let mut object_changes = edits::object_changes(&moves, fleet, scope);
    let needs = &object_changes;
    let steps = steps::steps(&mut moves, StepInput { checked: &checked, fleet, inventory, scope, needs, context });
    edits::set_step(&mut object_changes, &steps);
    let in_place = checked.in_place.as_ref().filter(|_| !steps.is_empty()).map(|offer| {
        let scope = &MoveScope::in_place(fleet, inventory, context, &offer.pools);
        let (changed, _) = workload_moves(inventory, fleet, scope, context);
        let input = StepInput { checked: &checked, fleet, inventory, scope, needs: &[], context };
        steps::in_place(offer, &changed, input)
    });
    let mut calendar = calendar::calendar(&moves, context.survey.today);
    calendar::add_kubernetes_dates(&mut calendar, fleet, scope, context);
    let changes = changes::changes(&moves, &checked, fleet, scope, context);
    let coverage = coverage(inventory, true);
    let mut unknown = unknown::unknown(&moves, inventory);
    let names = fleet.pools.iter().map(|pool| pool.name.as_str());
    unknown.extend(unread_pods(&coverage, names));
    unknown.extend(virtual_nodes(inventory));
    let running = &RunningImages::new(inventory, fleet);
    let view_context = ViewContext { inventory, fleet, running, policies: context.survey.policies };
    let declared = DeclaredPools::compared(view_context, &NodeClasses::new(fleet, inventory));
    unknown.extend(declared.unknown(fleet));
    let (pools_without_nodes, unserved) = declared.report(scope.pods_known);
    unknown.extend(unknown::unknown_builds(fleet));
    let pools = scope.report_pools(fleet, |pool| moves.iter().filter(|one| one.pools.contains(&pool)).count());
    let unknown_moves = moves.iter().filter(|one| one.report.move_not_known).count();
    let mut workloads: Vec<_> = moves.into_iter().map(|one| one.report).collect();
    workloads.sort_by(|a, b| (a.step.is_none(), a.step, &a.object).cmp(&(b.step.is_none(), b.step, &b.object)));
    let mut summary = summary::summary(&SummaryInput {
        coverage: &coverage,
        fleet,
        scope,
        context,
        workloads: &workloads,
        unknown_moves,
        undecided,
        constraints: &checked.constraints,
        steps: &steps,
        calendar: &calendar,
    });
    summary.extend(context.survey.facts.age(&FactsTable::ALL, context.survey.today).map(|age| age.sentence()));
    PlanReport {
        schema: SCHEMA.to_owned(),
        header: context.survey.header(inventory),
        coverage,
        summary,
        target: scope.report_target(context, fleet),
        pools,
        pools_without_nodes,
        unserved,
        constraints: checked.constraints,
        steps,
        in_place,
        workloads,
        objects: object_changes,
        changes,
        calendar,
        unknown,
        tables: tables(context),
    }
}

/// The images about which registries should be asked: those of the workloads that move, and those that the plan proposes,
/// without those that are known.
pub fn wanted_images(inventory: &Inventory, context: PlanContext<'_>) -> BTreeSet<String> {
    let fleet = &Fleet::new(inventory);
    let scope = &MoveScope::new(fleet, inventory, context);
    let (moves, _) = workload_moves(inventory, fleet, scope, context);
    let planned = moves.iter().filter(|one| one.moves).flat_map(|one| one.report.images());
    let images = planned.flat_map(|(_, planned)| {
        let proposed = planned.proposal.iter().map(|proposal| proposal.image.clone());
        proposed.chain([planned.image.clone()])
    });
    images.filter(|image| !inventory.is_image_known(image, context.target)).collect()
}

/// The Windows workloads, and the number of those of unknown operating system.
fn workload_moves(
    inventory: &Inventory,
    fleet: &Fleet<'_>,
    scope: &MoveScope,
    context: PlanContext<'_>,
) -> (Vec<WorkloadMove>, usize) {
    let running = &RunningImages::new(inventory, fleet);
    let classes = &NodeClasses::new(fleet, inventory);
    let view_context = ViewContext { inventory, fleet, running, policies: context.survey.policies };
    let (mut moves, mut undecided) = (Vec::new(), 0);
    for owned in &group(inventory) {
        let view = WorkloadView::new(owned, view_context);
        undecided += usize::from(view.os == DetectedOs::Undecided);
        if !view.is_windows() {
            continue;
        }
        let live = owned.object_value();
        let mut one = WorkloadMove::new(&view, &live, fleet, classes, scope);
        one.uses = uses::uses(&view, &live);
        // Without nodes or pods, the plan does not know what moves.
        let may_move = one.moves || !fleet.known || !scope.pods_known;
        let judged = verdicts::containers(&view, running, inventory, scope, context, may_move);
        one.report.verdict = judged.worst();
        (one.report.containers, one.report.image_volumes) = (judged.containers, judged.image_volumes);
        if may_move {
            one.report.risks = uses::risks(&one, &view, &live, fleet, scope);
        }
        one.gaps = judged.gaps;
        one.demand = demand::demand(&live, owned, &view, inventory);
        let mut deadlines = calendar::deadlines(&one, fleet, context).into_iter();
        (one.report.deadline, one.next_deadline) = (deadlines.next(), deadlines.next());
        edits::edit(&mut one, &view, &live, inventory, scope);
        moves.push(one);
    }
    if !scope.in_place {
        edits::leave_behind(&mut moves, scope);
    }
    (moves, undecided)
}

fn tables(context: PlanContext<'_>) -> Vec<TableVersion> {
    let facts = context.survey.facts;
    let version = |table: FactsTable| {
        let origin = facts.origins.get(&table)?;
        let from = context.facts_file.filter(|_| origin.replaced).unwrap_or("built-in");
        let (table, rows) = (table.name().to_owned(), facts.rows(table));
        Some(TableVersion { table, from: from.to_owned(), checked: origin.checked, rows })
    };
    FactsTable::ALL.into_iter().filter_map(version).collect()
}
