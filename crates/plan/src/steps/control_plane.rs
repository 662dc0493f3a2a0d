//! Upgrades of the control plane: before the new pool, if the pool requires it, and after the old pools are gone.

use std::collections::{BTreeSet, HashMap};

use mullion_engine::model::text::list_with;

use crate::commands::{reading, word};
use crate::report::{PlanCommand, PoolPart, Step, StepKind};
use crate::steps::commands::{provider_commands, provider_name};
use crate::steps::disruptions::budgets_that_allow;
use crate::steps::step_input::{MAX_COMMANDS, StepInput, listed};
use mullion_engine::model::MinorVersion;
use mullion_survey::facts::VersionSkew;
use mullion_survey::facts::commands::ProviderStep;

/// The upgrade before the new pool is created.
pub(crate) fn first(input: StepInput<'_>) -> Option<Step> {
    let version = input.checked.control_plane_first.as_deref()?;
    let mut step = Step::new(StepKind::ControlPlane, format!("Upgrade the control plane to Kubernetes {version}"));
    step.why = vec![
        if input.checked.is_read {
            format!("Nodes of the new pool require Kubernetes {version}, which the control plane does not have yet.")
        } else {
            format!(
                "Nodes of the new pool require Kubernetes {version}. The version of the control plane was not read: skip this step if `kubectl version` prints {version} or a newer version for the server."
            )
        },
        one_at_a_time(input.checked.control_plane, version, ""),
    ];
    step.why.extend(unread_version(input.checked.control_plane, version, input));
    let lagging = lagging_pools(version, input);
    if !lagging.is_empty() {
        step.why.push(format!(
            "The kubelets of {} are too old for that version: upgrade these pools first.",
            listed(&lagging.iter().filter_map(|at| Some(&input.fleet.pools.get(*at)?.name)).collect::<Vec<_>>())
        ));
    }
    if let Some(why) = input.unknown_pods().filter(|_| !lagging.is_empty()) {
        // The control plane goes after the pools.
        step.why.push(why);
        return Some(step);
    }
    if !input.checked.is_read {
        step.commands.push(print_version("before"));
    }
    for pool in lagging.into_iter().filter_map(|at| input.fleet.pools.get(at)) {
        step.commands.extend(upgrade_pool(provider_name(input.fleet, pool, "OLD_POOL"), version, input));
    }
    step.commands.extend(upgrade(input.checked.control_plane, version, input));
    step.commands.truncate(MAX_COMMANDS);
    Some(step)
}

/// The upgrade that the old pools prevent, or that nothing requires earlier. `waves`: their budgets limit drains of the new
/// pools too.
pub(crate) fn last(waves: &[Step], input: StepInput<'_>) -> Option<Step> {
    let version = input.checked.control_plane_last.as_deref()?;
    let mut step = Step::new(StepKind::ControlPlane, format!("Upgrade the control plane to Kubernetes {version}"));
    let first = input.checked.control_plane_first.as_deref().and_then(MinorVersion::of);
    let now = first.or(input.checked.control_plane);
    step.why = vec![
        if input.checked.old_pools_prevent_last {
            format!(
                "The control plane could not have Kubernetes {version} while the old pools existed; now they are gone."
            )
        } else {
            format!("The move ends at Kubernetes {version}, and nothing requires it earlier.")
        },
        one_at_a_time(now, version, ", first the control plane and then all pools that are left"),
    ];
    // The first upgrade ends at a version that is known.
    if first.is_none() {
        step.why.extend(unread_version(now, version, input));
    }
    step.why.extend(blocking_budgets(waves));
    if !input.checked.is_read {
        step.commands.push(print_version("before"));
    }
    step.commands.extend(upgrade(now, version, input));
    let remaining = input.fleet.pools.iter().enumerate();
    let remaining = remaining.filter(|(at, _)| input.scope.part(*at) != Some(PoolPart::Leaves));
    let remaining = remaining.map(|(_, pool)| provider_name(input.fleet, pool, "POOL"));
    let created = input.scope.new_pools.iter().filter(|new| new.existing.is_none()).map(|new| word(&new.name));
    let unique: BTreeSet<String> = remaining.chain(created).collect();
    if let Some(why) = input.unknown_pods() {
        step.why.push(why);
    } else {
        let upgrades = unique.into_iter().flat_map(|pool| upgrade_pool(pool, &next(now, version).0, input));
        step.commands.extend(upgrades);
    }
    step.commands.truncate(MAX_COMMANDS);
    Some(step)
}

/// The budgets for which the upgrade of a pool waits.
fn blocking_budgets(waves: &[Step]) -> Option<String> {
    let names = budgets_that_allow(Some(0), waves.iter().flat_map(|wave| &wave.disruptions));
    let (noun, permits, change) = match names.len() {
        0 => return None,
        1 => ("PodDisruptionBudget", "permits", "the budget"),
        _ => ("PodDisruptionBudgets", "permit", "the budgets"),
    };
    Some(format!(
        "The upgrade of a pool drains its nodes, and {noun} {} {permits} no eviction now: scale up, or change {change}, before you upgrade the pools.",
        listed(&names)
    ))
}

/// Where to begin, if the versions on the way begin after one that was not read.
fn unread_version(now: Option<MinorVersion>, wanted: &str, input: StepInput<'_>) -> Option<String> {
    let is_in_turn = versions_until(now, wanted).len() > 1;
    (is_in_turn && !input.checked.is_read).then(|| {
        "The version of the control plane was not read: begin after the version that `kubectl version` prints for the server."
            .to_owned()
    })
}

/// `when`: before or after.
fn print_version(when: &str) -> PlanCommand {
    reading("kubectl version".to_owned(), format!("Prints the version of the API server {when} the upgrade."))
}

/// The minor versions on the way, without the present one: at most ten. Without a present version, the last one.
fn versions_until(now: Option<MinorVersion>, wanted: &str) -> Vec<String> {
    let (Some(now), Some(last)) = (now, MinorVersion::of(wanted)) else { return vec![wanted.to_owned()] };
    let between = (1..=10).map(|minors| now.later(minors)).filter(|version| *version < last);
    between.chain([last]).map(|version| version.to_string()).collect()
}

/// The word for the version in a command, and what to know about it.
fn next(now: Option<MinorVersion>, wanted: &str) -> (String, String) {
    let versions = versions_until(now, wanted);
    match versions.as_slice() {
        [_, .., _] => (
            "VERSION".to_owned(),
            format!("Run the commands of this step for each VERSION in turn: {}.", list_with(&versions, "and")),
        ),
        _ => (word(wanted), String::new()),
    }
}

fn one_at_a_time(now: Option<MinorVersion>, wanted: &str, order: &str) -> String {
    let (_, each) = next(now, wanted);
    let each = if each.is_empty() { each } else { format!(" {each}") };
    format!("Upgrade by one minor version at a time{order}.{each} A control plane cannot go back to an older version.")
}

fn upgrade(now: Option<MinorVersion>, version: &str, input: StepInput<'_>) -> Vec<PlanCommand> {
    let values = HashMap::from([("{kubernetes}", next(now, version).0)]);
    let mut commands = provider_commands(ProviderStep::UpgradeControlPlane, &values, input);
    commands.push(print_version("after"));
    commands
}

fn upgrade_pool(pool: String, version: &str, input: StepInput<'_>) -> Vec<PlanCommand> {
    let values = HashMap::from([("{kubernetes}", word(version)), ("{pool}", pool)]);
    provider_commands(ProviderStep::UpgradePool, &values, input)
}

/// The Windows pools whose kubelets are further behind the version than the table permits.
fn lagging_pools(version: &str, input: StepInput<'_>) -> Vec<usize> {
    let provider = input.scope.provider.as_deref();
    let rows = input.context.survey.facts.constraints.iter();
    let skew = VersionSkew::of(rows.filter(|row| row.provider.is_none() || row.provider.as_deref() == provider));
    let Some(wanted) = MinorVersion::of(version) else { return Vec::new() };
    let lags = |at: &usize| {
        let nodes = input.fleet.pools.get(*at).into_iter().flat_map(|pool| input.fleet.nodes_of(pool));
        let kubelets = nodes.filter_map(|node| MinorVersion::of(&node.record?.kubelet));
        kubelets.min().and_then(|oldest| skew.newest_control_plane(oldest)).is_some_and(|newest| newest < wanted)
    };
    (0..input.fleet.pools.len()).filter(|at| input.scope.part(*at).is_some()).filter(lags).collect()
}
