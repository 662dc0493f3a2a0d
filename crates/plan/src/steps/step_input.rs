//! What all steps are made from, and a step without contents.

use std::fmt::Display;

use mullion_engine::model::text::{list_first, list_with};

use crate::constraints::CheckedConstraints;
use crate::context::PlanContext;
use crate::report::{ObjectChange, Step, StepKind};
use crate::scope::MoveScope;
use mullion_survey::analysis::{Fleet, coverage};
use mullion_survey::inventory::Inventory;
use mullion_survey::{ListEvidence, Statement};

/// What all steps are made from.
#[derive(Clone, Copy)]
pub(crate) struct StepInput<'a> {
    pub(crate) checked: &'a CheckedConstraints,
    pub(crate) fleet: &'a Fleet<'a>,
    pub(crate) inventory: &'a Inventory,
    pub(crate) scope: &'a MoveScope,
    /// The labels and RuntimeClasses that the workloads need.
    pub(crate) needs: &'a [ObjectChange],
    pub(crate) context: PlanContext<'a>,
}

impl StepInput<'_> {
    /// Why a step has no commands that drain or delete nodes; `None` if all pods on them are known.
    pub(crate) fn unknown_pods(self) -> Option<String> {
        match Statement::Drains.evidence(&coverage(self.inventory, true)) {
            ListEvidence::Whole => None,
            ListEvidence::Part(why) | ListEvidence::Missing(why) => Some(format!(
                "Which pods are on these nodes is not known: {why}. Read all pods, and plan again: the step then has the commands that drain and delete nodes."
            )),
        }
    }
}

/// The most commands of a step, and the most commands to go back.
pub(crate) const MAX_COMMANDS: usize = 20;

/// The most names in a sentence.
pub(crate) const MAX_NAMES: usize = 10;

impl Step {
    /// A step without contents. Its number is set when all steps are known.
    pub(crate) fn new(kind: StepKind, title: impl Into<String>) -> Self {
        Self {
            number: 0,
            kind,
            title: title.into(),
            why: Vec::new(),
            workloads: 0,
            capacity: None,
            pull_bytes: None,
            disruptions: Vec::new(),
            commands: Vec::new(),
            back: Vec::new(),
        }
    }
}

/// `a, b and c`; of more than ten, the first ones.
pub(crate) fn listed(names: &[impl Display]) -> String {
    if names.len() > MAX_NAMES { list_first(names, MAX_NAMES) } else { list_with(names, "and") }
}
