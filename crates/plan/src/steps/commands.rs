//! Commands: those of `kubectl`, and those of a provider by the table.

use std::collections::{BTreeSet, HashMap};

use mullion_engine::model::cluster::{Node, Taint};
use mullion_engine::model::names::{OS_LABEL, WINDOWS_BUILD_LABEL};
use serde_json::{Map, Value, json};

use crate::commands::word;
use crate::report::{CommandEffect, PlanCommand};
use crate::scope::{NewPool, is_spot_taint};
use crate::steps::step_input::StepInput;
use crate::workload_move::WorkloadMove;
use mullion_survey::analysis::{Fleet, FleetPool, HOST_NAME, POOL_LABELS};
use mullion_survey::facts::behavior_changes::Use;
use mullion_survey::facts::commands::{CommandRow, PLACEHOLDERS, ProviderStep};

/// The most node names in a command.
const MAX_NODES: usize = 20;

/// The label of a node for its zone.
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// The label of a node for the type of its machine.
const MACHINE_TYPE_LABEL: &str = "node.kubernetes.io/instance-type";

/// Domains whose labels a provider or the kubelet sets: a pool cannot be given them.
const SET_BY_OTHERS: [&str; 7] = [
    "kubernetes.io",
    "k8s.io",
    "kubernetes.azure.com",
    "amazonaws.com",
    "eksctl.io",
    "cloud.google.com",
    "mullion.dev",
];

/// Which nodes are in a pool, for `kubectl`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeSelection {
    /// `--selector=kubernetes.azure.com/agentpool=win22`, names, or `NODES`.
    pub(crate) argument: String,
    /// What to know about the argument. Empty: nothing.
    pub(crate) note: String,
}

/// Finds selectors of pools.
pub(crate) struct NodeSelections<'a> {
    fleet: &'a Fleet<'a>,
    /// Numbers of nodes, by label, and by label and build label.
    counts: HashMap<(&'static str, &'a str, Option<&'a str>), usize>,
}

impl<'a> NodeSelections<'a> {
    pub(crate) fn new(fleet: &'a Fleet<'a>) -> Self {
        let mut counts = HashMap::new();
        for node in &fleet.nodes {
            let build = node.node.labels.get(WINDOWS_BUILD_LABEL);
            for key in POOL_LABELS.into_iter().chain([WINDOWS_BUILD_LABEL]) {
                let Some(value) = node.node.labels.get(key) else { continue };
                for build in [None, build] {
                    *counts.entry((key, value, build)).or_default() += 1;
                }
            }
        }
        Self { fleet, counts }
    }

    /// The shortest selector that selects the nodes of the pool and no others; else their names.
    pub(crate) fn of(&self, pool: &FleetPool) -> NodeSelection {
        let nodes = || self.fleet.nodes_of(pool).map(|node| node.node);
        let exactly = |key: &'static str, with_build: bool| {
            let first = nodes().next()?;
            let value = first.labels.get(key)?;
            let build = if with_build { Some(first.labels.get(WINDOWS_BUILD_LABEL)?) } else { None };
            let has = |node: &Node| {
                node.labels.get(key) == Some(value)
                    && build.is_none_or(|build| node.labels.get(WINDOWS_BUILD_LABEL) == Some(build))
            };
            let all = self.counts.get(&(key, value, build)).copied().unwrap_or_default();
            let build = build.map(|build| format!(",{WINDOWS_BUILD_LABEL}={build}")).unwrap_or_default();
            (all == pool.nodes.len() && nodes().all(has)).then(|| format!("{key}={value}{build}"))
        };
        let keys = || POOL_LABELS.into_iter().chain([WINDOWS_BUILD_LABEL]);
        let found = keys().find_map(|key| exactly(key, false));
        let found = found.or_else(|| POOL_LABELS.into_iter().find_map(|key| exactly(key, true)));
        match found {
            Some(selector) => NodeSelection::by(&selector),
            None if pool.nodes.len() > MAX_NODES => NodeSelection {
                argument: "NODES".to_owned(),
                note: format!(
                    "Replace NODES with the names of the {} nodes of pool {}: no label selects them alone.",
                    pool.nodes.len(),
                    pool.name
                ),
            },
            None => {
                let names: Vec<String> = nodes().map(|node| word(&node.name)).collect();
                NodeSelection { argument: names.join(" "), note: String::new() }
            }
        }
    }

    /// The nodes of a new pool, or of one that will be created.
    pub(crate) fn of_new(&self, new: &NewPool) -> NodeSelection {
        if let Some(pool) = new.existing.and_then(|at| self.fleet.pools.get(at)) {
            return self.of(pool);
        }
        let label = |key: &'static str| Some((key, new.node.labels.get(key)?));
        match POOL_LABELS.into_iter().chain([WINDOWS_BUILD_LABEL]).find_map(label) {
            // Nodes that exist already are not of the new pool.
            Some((key, value)) if !self.counts.contains_key(&(key, value, None)) => {
                NodeSelection::by(&format!("{key}={value}"))
            }
            _ => NodeSelection {
                argument: "NODES".to_owned(),
                note: format!(
                    "Replace NODES with the names of the nodes of pool {}: other nodes have the same labels.",
                    new.name
                ),
            },
        }
    }
}

impl NodeSelection {
    fn by(selector: &str) -> Self {
        Self { argument: format!("--selector={}", word(selector)), note: String::new() }
    }
}

/// The name of a pool as its provider has it; `otherwise`, a word to replace, if only Mullion names it.
pub(crate) fn provider_name(fleet: &Fleet<'_>, pool: &FleetPool, otherwise: &str) -> String {
    let named =
        fleet.nodes_of(pool).next().and_then(|node| POOL_LABELS.iter().find_map(|key| node.node.labels.get(key)));
    if named == Some(&pool.name) { word(&pool.name) } else { otherwise.to_owned() }
}

/// The zones of the old nodes whose workloads move to a new pool; none if no workload with a persistent volume does.
pub(crate) fn zones<'a>(new: &NewPool, moves: &[WorkloadMove], input: StepInput<'a>) -> BTreeSet<&'a str> {
    let has_volumes = |one: &WorkloadMove| {
        one.moves
            && one.uses.contains_key(&Use::PersistentVolume)
            && one.homes.iter().any(|pool| new.replaces.contains(pool))
    };
    if !moves.iter().any(has_volumes) {
        return BTreeSet::new();
    }
    let pools = new.replaces.iter().filter_map(|pool| input.fleet.pools.get(*pool));
    let nodes = pools.flat_map(|pool| input.fleet.nodes_of(pool));
    // AKS gives nodes without a zone the number of a fault domain, as 0.
    nodes.filter_map(|node| node.node.labels.get(ZONE_LABEL)).filter(|zone| zone.contains('-')).collect()
}

/// The values of placeholders for a new pool.
pub(crate) fn pool_values(
    new: &NewPool,
    moves: &[WorkloadMove],
    input: StepInput<'_>,
    nodes: Option<usize>,
) -> HashMap<&'static str, String> {
    let existing = new.existing.and_then(|at| input.fleet.pools.get(at));
    let taints = new.node.known_taints();
    let texts = |taints: &[&Taint]| taints.iter().map(ToString::to_string).collect::<Vec<_>>();
    let closed = texts(&taints.iter().collect::<Vec<_>>());
    let is_spot = input.scope.provider.as_deref() == Some("AKS") && taints.iter().any(is_spot_taint);
    let created = texts(&taints.iter().filter(|taint| !(is_spot && is_spot_taint(taint))).collect::<Vec<_>>());
    let open = texts(&taints.iter().filter(|taint| **taint != input.scope.taint).collect::<Vec<_>>());
    let is_settable = |key: &str| {
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        let set = SET_BY_OTHERS
            .iter()
            .any(|known| domain.strip_suffix(known).is_some_and(|before| before.is_empty() || before.ends_with('.')));
        !set && ![OS_LABEL, WINDOWS_BUILD_LABEL, HOST_NAME].contains(&key) && !POOL_LABELS.contains(&key)
    };
    let labels: Vec<(&str, &str)> =
        new.node.labels.iter().filter(|(key, _)| input.inventory.selected.contains(*key) && is_settable(key)).collect();
    let pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let words: Vec<String> = pairs.iter().map(|pair| word(pair)).collect();
    let unless_empty = |text: String| if labels.is_empty() { String::new() } else { text };
    let objects: Vec<Value> =
        taints.iter().map(|taint| json!({"key": taint.key, "value": taint.value, "effect": taint.effect})).collect();
    let map: Map<String, Value> = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
    let old = new.replaces.iter().filter_map(|pool| input.fleet.pools.get(*pool));
    let old = old.flat_map(|pool| input.fleet.nodes_of(pool)).map(|node| node.node);
    let zones = zones(new, moves, input);
    // `westeurope-1` is zone 1 of its region.
    let zone_numbers: BTreeSet<&str> = zones.iter().filter_map(|zone| Some(zone.rsplit_once('-')?.1)).collect();
    let zone_words: Vec<String> = zone_numbers.into_iter().map(word).collect();
    let zone_list = if zones.is_empty() { String::new() } else { json!(zones).to_string() };
    let mut values = HashMap::from([
        ("{machineType}", common_value(old, MACHINE_TYPE_LABEL).unwrap_or("MACHINE_TYPE").to_owned()),
        ("{zoneNumbers}", zone_words.join(" ")),
        ("{zoneListJson}", zone_list),
        ("{pool}", existing.map_or_else(|| word(&new.name), |pool| provider_name(input.fleet, pool, "POOL"))),
        ("{nodes}", nodes.map_or_else(|| "NODES".to_owned(), |nodes| nodes.to_string())),
        ("{release}", word(&input.scope.release)),
        ("{taint}", word(&input.scope.taint.to_string())),
        ("{taints}", word(&closed.join(","))),
        ("{newTaints}", word(&created.join(","))),
        ("{otherTaints}", word(&open.join(","))),
        ("{taintsJson}", json!(closed).to_string()),
        ("{taintObjectsJson}", json!(objects).to_string()),
        ("{labels}", unless_empty(word(&pairs.join(",")))),
        ("{labelListJson}", unless_empty(json!(pairs).to_string())),
        ("{labelWords}", words.join(" ")),
        ("{labelsJson}", unless_empty(Value::Object(map).to_string())),
    ]);
    if is_spot {
        values.insert("{ifSpot}", String::new());
    }
    values
}

/// The rows of the provider for a step. Those without a provider count for one that the table does not know.
pub(crate) fn provider_rows(step: ProviderStep, input: StepInput<'_>) -> Vec<&CommandRow> {
    let rows = &input.context.survey.facts.commands;
    let provider = input.scope.provider.as_deref();
    let is_known = rows.iter().any(|row| row.provider.is_some() && row.provider.as_deref() == provider);
    let build = input.scope.target.to_string();
    rows.iter()
        .filter(|row| row.step == step && row.provider.as_deref() == provider.filter(|_| is_known))
        .filter(|row| row.builds.is_empty() || row.builds.contains(&build))
        .collect()
}

/// What a provider's command does to the cluster.
fn effect(row: &CommandRow) -> CommandEffect {
    match row.step {
        _ if row.by_hand => CommandEffect::ByHand,
        // An upgrade of a pool drains its nodes, as a change in place does, and no version can go back.
        ProviderStep::UpgradeControlPlane
        | ProviderStep::UpgradePool
        | ProviderStep::RemovePool
        | ProviderStep::ChangePool => CommandEffect::Destroys,
        ProviderStep::AddPool | ProviderStep::ClosePool | ProviderStep::OpenPool => CommandEffect::Changes,
    }
}

/// The provider's commands for a step.
pub(crate) fn provider_commands(
    step: ProviderStep,
    values: &HashMap<&'static str, String>,
    input: StepInput<'_>,
) -> Vec<PlanCommand> {
    let mut values = values.clone();
    let nodes = || input.fleet.nodes.iter().map(|node| node.node);
    values.insert("{cluster}", common_value(nodes(), "alpha.eksctl.io/cluster-name").unwrap_or("CLUSTER").to_owned());
    values.insert("{region}", common_value(nodes(), "topology.kubernetes.io/region").unwrap_or("REGION").to_owned());
    let command = |row: &CommandRow| PlanCommand {
        run: fill(&row.command, &values),
        note: row.note.as_deref().map(|note| fill(note, &values)).unwrap_or_default(),
        effect: effect(row),
        source: Some(row.source.clone()),
        as_of: Some(row.as_of),
    };
    provider_rows(step, input).into_iter().map(command).collect()
}

/// The value of a label that all of these nodes have. One that a shell or a file in a command could read as more than a word
/// does not count, because names in a dump are untrusted.
fn common_value<'n>(mut nodes: impl Iterator<Item = &'n Node>, label: &str) -> Option<&'n str> {
    let value = nodes.next()?.labels.get(label).filter(|value| word(value) == *value)?;
    nodes.all(|node| node.labels.get(label) == Some(value)).then_some(value)
}

/// Whether a line with the placeholder is left out if the value is empty.
fn is_optional(placeholder: &str) -> bool {
    ["{label", "{zone"].iter().any(|start| placeholder.starts_with(start))
}

/// The text with its placeholders replaced, in one pass: a value is not searched for placeholders.
fn fill(text: &str, values: &HashMap<&'static str, String>) -> String {
    let is_kept = |line: &&str| {
        let optional = PLACEHOLDERS.iter().filter(|(name, _)| is_optional(name));
        let is_empty = |name: &str| values.get(name).is_none_or(String::is_empty);
        (!line.contains("{ifSpot}") || values.contains_key("{ifSpot}"))
            && !optional.clone().any(|(name, _)| line.contains(name) && is_empty(name))
    };
    let lines: Vec<String> = text.trim_end().lines().filter(is_kept).map(|line| fill_line(line, values)).collect();
    lines.join("\n")
}

fn fill_line(line: &str, values: &HashMap<&'static str, String>) -> String {
    let mut filled = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let found = PLACEHOLDERS.iter().find_map(|(name, _)| {
            let after = after.strip_prefix(name.trim_start_matches('{'))?;
            Some((values.get(name)?, after))
        });
        if let Some((value, after)) = found {
            filled.push_str(value);
            rest = after;
        } else {
            filled.push('{');
            rest = after;
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::report::WORDS_TO_REPLACE;
    use mullion_survey::Facts;

    #[test]
    fn words_for_a_shell() {
        for (text, expected) in [
            ("win22", "win22"),
            ("kubernetes.azure.com/agentpool=win22", "kubernetes.azure.com/agentpool=win22"),
            ("", "''"),
            ("a b", "'a b'"),
            ("x; rm -rf $HOME", "'x; rm -rf $HOME'"),
            ("it's", r"'it'\''s'"),
            ("a\n`id`", "'a\n`id`'"),
            ("~root", "'~root'"),
            ("ü", "'ü'"),
        ] {
            assert_eq!(word(text), expected);
        }
    }

    #[test]
    fn placeholders_are_replaced_once() {
        let values = HashMap::from([
            ("{pool}", "'{taint}'".to_owned()),
            ("{taint}", "a=b:NoSchedule".to_owned()),
            ("{labels}", String::new()),
            ("{zoneNumbers}", String::new()),
        ]);
        let text =
            "add {pool} \\\n  --labels {labels} \\\n  --zones {zoneNumbers} \\\n  --taints {taint} {}{unknown}{\n";
        assert_eq!(fill(text, &values), "add '{taint}' \\\n  --taints a=b:NoSchedule {}{unknown}{");
        let spot = "add \\\n  {ifSpot}--spot \\\n  {pool}";
        assert_eq!(fill(spot, &HashMap::from([("{pool}", "a".to_owned())])), "add \\\n  a");
        let values = HashMap::from([("{pool}", "a".to_owned()), ("{ifSpot}", String::new())]);
        assert_eq!(fill(spot, &values), "add \\\n  --spot \\\n  a");
    }

    #[test]
    fn the_table_is_well_formed() {
        let facts = Facts::built_in();
        assert!(!facts.commands.is_empty());
        for row in &facts.commands {
            let lines: Vec<&str> = row.command.trim_end().lines().collect();
            let (last, others) = lines.split_last().unwrap();
            let is_left_out = |line: &str| line.contains("{label") || line.contains("{zone");
            assert!(!is_left_out(last) && !last.contains("{ifSpot}") && !last.ends_with('\\'), "{last}");
            let in_file = |line: &&str| !line.ends_with('\\') && is_left_out(line);
            assert!(!others.iter().any(|line| in_file(line) && !line.contains("Json}")), "{}", row.command);
            let mut rest = row.command.as_str();
            while let Some((_, after)) = rest.split_once('{') {
                let name = after.split_once('}').map_or("", |(name, _)| name);
                let is_word = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic());
                let known = PLACEHOLDERS.iter().any(|(known, _)| *known == format!("{{{name}}}"));
                assert!(known || !is_word, "unknown placeholder: {name}");
                rest = after;
            }
            assert!(row.note.as_ref().is_none_or(|note| note.ends_with('.')), "{:?}", row.note);
            assert!(!row.source.is_empty(), "{}", row.command);
            let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            let is_capital = |word: &&str| {
                word.len() > 3 && word.bytes().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'_' | b'-'))
            };
            let fixed = ["NO_SCHEDULE", "INSTALL_RKE", "WINDOWS_LTSC_CONTAINERD"];
            for word in row.command.split(|c| !is_inner(c)).filter(is_capital) {
                assert!(WORDS_TO_REPLACE.contains(&word) || fixed.contains(&word), "{word}: {}", row.command);
            }
            let is_destructive = ["delete", "upgrade", "scale"].iter().any(|word| row.command.contains(word));
            assert!(!is_destructive || effect(row) != CommandEffect::Changes, "{}", row.command);
        }
        for (provider, target) in [
            (Some("AKS"), "10.0.26100"),
            (Some("EKS"), "10.0.26100"),
            (Some("GKE"), "10.0.20348"),
            (None, "10.0.26100"),
        ] {
            for step in [ProviderStep::AddPool, ProviderStep::RemovePool] {
                let found = facts.commands.iter().any(|row| {
                    row.provider.as_deref() == provider
                        && row.step == step
                        && (row.builds.is_empty() || row.builds.iter().any(|build| build == target))
                });
                assert!(found, "{provider:?} {step:?}");
            }
        }
    }
}
