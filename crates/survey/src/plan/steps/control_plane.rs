//! Upgrades of the control plane: before the new pool, if the pool requires it, and after the old pools are gone.

use std::collections::HashMap;

use crate::facts::MinorVersion;
use crate::facts::commands::ProviderStep;
use crate::facts::constraints::Limit;
use crate::plan::report::{PlanCommand, Step, StepKind};
use crate::plan::steps::commands::{command, provider_commands, provider_name, word};
use crate::plan::steps::step_input::{MAX_COMMANDS, StepInput, listed};

/// The upgrade before the new pool is created.
pub(crate) fn first(input: StepInput<'_>) -> Option<Step> {
    let version = input.checked.control_plane_first.as_deref()?;
    let mut step = Step::new(StepKind::ControlPlane, format!("Upgrade the control plane to Kubernetes {version}"));
    step.why = vec![
        format!("Nodes of the new pool require Kubernetes {version}, which the control plane does not have yet."),
        "Upgrade by one minor version at a time. A control plane cannot go back to an older version.".to_owned(),
    ];
    let lagging = lagging_pools(version, input);
    if !lagging.is_empty() {
        step.why.push(format!(
            "The kubelets of {} are too old for that version: upgrade these pools first.",
            listed(&lagging.iter().filter_map(|at| Some(&input.fleet.pools.get(*at)?.name)).collect::<Vec<_>>())
        ));
    }
    for pool in lagging.into_iter().filter_map(|at| input.fleet.pools.get(at)) {
        step.commands.extend(upgrade_pool(provider_name(input.fleet, pool, "OLD_POOL"), version, input));
    }
    step.commands.extend(upgrade(version, input));
    step.commands.truncate(MAX_COMMANDS);
    Some(step)
}

/// The upgrade that the old pools prevent.
pub(crate) fn last(input: StepInput<'_>) -> Option<Step> {
    let version = input.checked.control_plane_last.as_deref()?;
    let mut step = Step::new(StepKind::ControlPlane, format!("Upgrade the control plane to Kubernetes {version}"));
    step.why = vec![
        format!("The old pools could not have Kubernetes {version}; now they are gone."),
        "Upgrade by one minor version at a time, first the control plane and then the pools. A control plane cannot go back to an older version.".to_owned(),
    ];
    step.commands = upgrade(version, input);
    for new in &input.scope.new_pools {
        step.commands.extend(upgrade_pool(word(&new.name), version, input));
    }
    step.commands.truncate(MAX_COMMANDS);
    Some(step)
}

fn upgrade(version: &str, input: StepInput<'_>) -> Vec<PlanCommand> {
    let values = HashMap::from([("{kubernetes}", word(version))]);
    let mut commands = provider_commands(ProviderStep::UpgradeControlPlane, &values, input);
    commands.push(command("kubectl version".to_owned(), "Prints the version of the API server."));
    commands
}

fn upgrade_pool(pool: String, version: &str, input: StepInput<'_>) -> Vec<PlanCommand> {
    let values = HashMap::from([("{kubernetes}", word(version)), ("{pool}", pool)]);
    provider_commands(ProviderStep::UpgradePool, &values, input)
}

/// The Windows pools whose kubelets are further behind the version than the table permits.
fn lagging_pools(version: &str, input: StepInput<'_>) -> Vec<usize> {
    let provider = input.scope.provider.as_deref();
    let skews = input.context.facts.constraints.iter().filter_map(|row| match row.limit {
        Limit::VersionSkew { minors } if row.provider.is_none() || row.provider.as_deref() == provider => Some(minors),
        _ => None,
    });
    let (Some(skew), Some(wanted)) = (skews.min(), MinorVersion::of(version)) else { return Vec::new() };
    let lags = |at: &usize| {
        let nodes = input.fleet.pools.get(*at).into_iter().flat_map(|pool| input.fleet.nodes_of(pool));
        let kubelets = nodes.filter_map(|node| MinorVersion::of(&node.record?.kubelet));
        kubelets.min().is_some_and(|oldest| oldest.later(skew) < wanted)
    };
    (0..input.fleet.pools.len()).filter(|at| input.scope.part(*at).is_some()).filter(lags).collect()
}
