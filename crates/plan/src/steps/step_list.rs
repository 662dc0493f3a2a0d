//! Puts the steps together, and numbers them.

use crate::report::{Step, StepKind};
use crate::steps::capacity::NodeRooms;
use crate::steps::commands::NodeSelections;
use crate::steps::step_input::StepInput;
use crate::steps::{control_plane, gate, pools, waves};
use crate::workload_move::WorkloadMove;

/// The steps. Each workload that moves gets the number of its step. There are none if no pool leaves, and none for a move to
/// an older release.
pub(crate) fn steps(moves: &mut [WorkloadMove], input: StepInput<'_>) -> Vec<Step> {
    let is_older = input.context.from.is_some_and(|from| from > input.scope.target);
    if !input.scope.leaves() || is_older {
        return Vec::new();
    }
    let selections = NodeSelections::new(input.fleet);
    let rooms = NodeRooms::new(moves, input);
    let waves = waves::waves(moves, &rooms, input);
    let remove = pools::remove_pools(moves, &waves, &selections, input);
    let mut steps: Vec<Step> = control_plane::first(input).into_iter().collect();
    steps.push(pools::new_pools(moves, &rooms, &selections, input));
    steps.push(gate::gate(moves, &selections, input));
    let last = control_plane::last(&waves, input);
    steps.extend(waves);
    steps.push(remove);
    steps.push(pools::open_pools(moves, &selections, &rooms, input));
    steps.extend(last);
    for (step, number) in steps.iter_mut().zip(1..) {
        step.number = number;
    }
    let number = |kind: StepKind| steps.iter().find(|step| step.kind == kind).map(|step| step.number);
    for one in moves.iter_mut().filter(|one| one.moves) {
        one.report.step = number(one.step_kind());
    }
    steps
}
