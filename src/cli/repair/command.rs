//! The command: what is read, the list, and the evictions.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail, ensure};
use mullion_engine::model::WorkloadObject;
use mullion_survey::ListEvidence;
use mullion_survey::inventory::POLICIES_IN_FORCE;
use mullion_survey::repair::{RepairAction, RepairContext, ReviewCall, StuckReport, find_stuck, restrict_to_volumes};
use serde_json::Value;

use crate::cli::async_runtime::block_on;
use crate::cli::inventory;
use crate::cli::io_handles::Io;
use crate::cli::live::{Registration, WebhookCall};
use crate::cli::outcome::Outcome;
use crate::cli::repair::arguments::RepairArgs;
use crate::cli::repair::evict::{Evictions, evict_all};
use crate::cli::repair::report::print;
use crate::cli::repair::volumes::restrict;
use crate::cli::webhook_configurations::read_configurations;
use crate::cluster::reading::{ClusterReader, Item, ListQuery, PODS};
use crate::shutdown_signals::Signals;

/// Lists the stuck pods, and evicts them if the arguments request it.
pub(crate) fn run(args: &RepairArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    ensure!(
        args.source.paths.is_empty() || !args.evicts(),
        "repair: --yes and --dry-run need a cluster, which a dump is not; leave out the files"
    );
    ensure!(
        args.source.paths.is_empty() || args.selector.is_none(),
        "repair: -l selects pods of a cluster; leave it out with a dump, or leave out the files"
    );
    block_on(repair(args, io))
}

async fn repair(args: &RepairArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let Some(read) = inventory::read_inventory("repair", &args.inventory(), io).await? else {
        return Ok(Outcome::Unreadable);
    };
    let policies = &read.policies;
    let Some(connection) = &read.connection else {
        let called = |_: &WorkloadObject<'_>| ReviewCall::Called;
        let mut report = find_stuck(&read.inventory, &RepairContext { policies, called: &called });
        for pod in &mut report.pods {
            restrict_to_volumes(pod, None, &read.inventory.snapshot);
        }
        let outcome = listed(args, &report, io)?;
        return Ok(if read.unreadable > 0 { Outcome::Unreadable } else { outcome });
    };
    // What other policies do with a successor is a guess.
    if let Some(why) = read.inventory.why_unread(POLICIES_IN_FORCE).filter(|_| args.evicts()) {
        bail!("policies of the cluster not known: {why}; name the policies in force with --policies");
    }
    let reader = ClusterReader::new(connection);
    let configurations = read_configurations(&reader).await?;
    let registration = Registration::new(configurations);
    let snapshot = &read.inventory.snapshot;
    let called = |workload: &WorkloadObject<'_>| {
        let call = registration.as_ref().map(|registration| registration.call(workload, &snapshot.namespaces));
        match call {
            Some(WebhookCall::Called) => ReviewCall::Called,
            Some(WebhookCall::NotCalled(_)) | None => ReviewCall::NotCalled,
            Some(WebhookCall::Unknown(why)) => ReviewCall::Unknown(why),
        }
    };
    let mut report = find_stuck(&read.inventory, &RepairContext { policies, called: &called });
    if let Some(labels) = &args.selector {
        let selected = selected(args, labels, &reader).await?;
        report.pods.retain(|pod| selected.contains(&(pod.namespace.clone(), pod.name.clone())));
    }
    restrict(&mut report.pods, snapshot, &reader).await?;
    if !args.evicts() || matches!(report.evidence, ListEvidence::Missing(_)) {
        return listed(args, &report, io);
    }
    let evictions = Evictions {
        client: connection.client.clone(),
        reader,
        rate: args.rate,
        timeout: args.successor_timeout,
        dry_run: args.dry_run.is_some(),
        output: args.output,
    };
    print(args, &report, io)?;
    let mut signals = Signals::install().context("cannot listen for signals")?;
    let done = tokio::select! {
        done = evict_all(&evictions, &report.pods, io) => Some(done?),
        _ = signals.next() => None,
    };
    let Some(done) = done else {
        io.eprintln("interrupted; run mullion repair again for the rest")?;
        return Ok(Outcome::Findings);
    };
    let is_left =
        report.pods.iter().any(|pod| !matches!(pod.action, RepairAction::Evict { .. } | RepairAction::Replaced));
    Ok(if done && !is_left { Outcome::Clean } else { Outcome::Findings })
}

/// Prints the list.
fn listed(args: &RepairArgs, report: &StuckReport, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    print(args, report, io)?;
    Ok(match &report.evidence {
        ListEvidence::Missing(_) => Outcome::Unreadable,
        _ if report.pods.iter().all(|pod| pod.action == RepairAction::Replaced) => Outcome::Clean,
        _ => Outcome::Findings,
    })
}

/// Namespaces and names of the pods with these labels.
async fn selected(
    args: &RepairArgs,
    labels: &str,
    reader: &ClusterReader<'_>,
) -> anyhow::Result<BTreeSet<(String, String)>> {
    let mut namespaces: Vec<Option<&str>> =
        args.source.selected_namespaces().iter().map(|name| Some(name.as_str())).collect();
    if namespaces.is_empty() {
        namespaces.push(None);
    }
    let mut found = BTreeSet::new();
    for namespace in namespaces {
        let mut visit = |pod: Item<Value>| {
            if let Ok(pod) = pod {
                let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
                found.insert((text("/metadata/namespace"), text("/metadata/name")));
            }
            Ok(())
        };
        let query = ListQuery { namespace, labels: Some(labels), fields: None };
        let read = reader.list(&PODS, query, &mut visit, &mut |_, _| Ok(())).await?;
        read.map_err(|unread| anyhow::anyhow!("pods with labels {labels}: {unread}"))?;
    }
    Ok(found)
}
