//! Notifies the controllers of a cluster that Mullion is withdrawn, and waits until they stop.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::ListParams;
use mullion_engine::model::text::list_with;
use tokio::time::Instant;

use crate::cluster::reading::{CONFIG_MAPS, Item, KindApi, LEASES};
use crate::cluster::state::{MullionState, NAME, StateStore};
use crate::cluster::{MANAGER, Owner, SlimObject};
use crate::controller::lease::{LEASE_NAME, ReadLease};
use crate::controller::withdraw::calls::{Calls, FEW};
use crate::controller::withdraw::plan::is_vacant;
use crate::controller::withdraw::report::{
    ControllerStatus, Remainder, WithdrawOptions, WithdrawProgress, WithdrawReport,
};
use crate::controller::withdrawn::{CONDITION, reports_withdrawn};

/// How long a controller may take to stop; pending requests may take 10 s of it.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// How often its status is read.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Attempts to write a ConfigMap.
const ATTEMPTS: usize = 3;

/// Sets `withdrawn` in every `mullion-state`, and waits for the controllers. Returns the content of each `mullion-state`.
pub(crate) async fn stop(
    calls: &Calls,
    options: &WithdrawOptions,
    report: &mut WithdrawReport,
    progress: &mut dyn FnMut(WithdrawProgress),
) -> Vec<MullionState> {
    let Namespaces { names, detected } = find_namespaces(calls, options, progress).await;
    let (mut contents, mut stores) = (Vec::new(), Vec::new());
    for namespace in names {
        match notify(calls, options.dry_run, &namespace).await {
            Ok(Some((store, state))) => {
                contents.push(state);
                stores.push((namespace, store));
            }
            Ok(None) => drop(report.controllers.insert(namespace, ControllerStatus::NeverWorked)),
            Err(why) => {
                if detected {
                    report.left.push(still_runs(&namespace, format!("it could not be notified: {why:#}")));
                }
                report.controllers.insert(namespace, ControllerStatus::NotNotified);
            }
        }
    }
    if !options.dry_run && !stores.is_empty() {
        let names = list_with(stores.iter().map(|(namespace, _)| namespace), "and");
        progress(WithdrawProgress::Note(format!("set withdrawn in ConfigMap {NAME} of namespace {names}")));
    }
    let waits = stores.into_iter().map(|(namespace, store)| async move {
        let status = if options.dry_run {
            ControllerStatus::DryRun
        } else {
            wait_until_stopped(calls, &namespace, &store).await
        };
        (namespace, status)
    });
    for (namespace, status) in join_all(waits).await {
        if status == ControllerStatus::Silent {
            let why = format!("it holds lease {namespace}/{LEASE_NAME} and did not report that it has stopped");
            report.left.push(still_runs(&namespace, why));
        }
        report.controllers.insert(namespace, status);
    }
    contents
}

fn still_runs(namespace: &str, why: String) -> Remainder {
    Remainder {
        what: format!("the controller of namespace {namespace}"),
        why,
        help: format!("run kubectl -n {namespace} scale deployment {MANAGER} --replicas=0, and mullion withdraw again"),
    }
}

/// Removes `withdrawn` from every `mullion-state`.
pub(crate) async fn resume(
    calls: &Calls,
    options: &WithdrawOptions,
    report: &mut WithdrawReport,
    progress: &mut dyn FnMut(WithdrawProgress),
) {
    for namespace in find_namespaces(calls, options, progress).await.names {
        let store = StateStore::new(calls.client.clone(), &namespace);
        let written = match store.read().await {
            Ok(state) if state.withdrawn.is_none() => Ok(ControllerStatus::AtWork),
            Ok(_) if options.dry_run => Ok(ControllerStatus::DryRun),
            Ok(_) => store.update(|state| state.withdrawn = None).await.map(|_| ControllerStatus::Resumed),
            Err(why) => Err(why),
        };
        let status = written.unwrap_or_else(|why| {
            report.left.push(Remainder {
                what: format!("ConfigMap {namespace}/{NAME}"),
                why: format!("Mullion is still withdrawn: {why:#}"),
                help: "fix that, and run mullion withdraw --undo again".to_owned(),
            });
            ControllerStatus::NotNotified
        });
        report.controllers.insert(namespace, status);
    }
}

struct Namespaces {
    names: BTreeSet<String>,
    /// Whether a lease or state of Mullion was detected; otherwise the name is a default.
    detected: bool,
}

/// The namespaces with a lease or a state of Mullion; the client's own namespace if none is found, or if a list fails.
async fn find_namespaces(
    calls: &Calls,
    options: &WithdrawOptions,
    progress: &mut dyn FnMut(WithdrawProgress),
) -> Namespaces {
    if let Some(only) = &options.namespace {
        return Namespaces { names: [only.clone()].into(), detected: true };
    }
    let own = calls.client.default_namespace().to_owned();
    let mut names = BTreeSet::new();
    let mut unread = false;
    for (kind, name) in [(&LEASES, LEASE_NAME), (&CONFIG_MAPS, NAME)] {
        let selected = ListParams::default().fields(&format!("metadata.name={name}"));
        let each = |object: Item<SlimObject>| match object {
            Ok(object) => names.extend(object.metadata.namespace),
            Err(object) => names.extend(Some(object.head.namespace).filter(|namespace| !namespace.is_empty())),
        };
        if let Err(why) = calls.list(FEW, kind, &selected, each).await {
            unread = true;
            progress(WithdrawProgress::Note(format!(
                "cannot find the controllers of all namespaces, only that of namespace {own}: {why}; choose another with \
                 --lease-namespace"
            )));
        }
    }
    let detected = !names.is_empty();
    if unread || !detected {
        names.insert(own);
    }
    Namespaces { names, detected }
}

/// Sets `withdrawn` for the controllers of a namespace, and returns their state. `None` if no controller ever worked.
async fn notify(calls: &Calls, dry_run: bool, namespace: &str) -> anyhow::Result<Option<(StateStore, MullionState)>> {
    let leases = KindApi::namespaced(calls.client.clone(), &LEASES, namespace);
    let (owner, worked) = match calls.retry(FEW, || leases.get::<ReadLease>(LEASE_NAME)).await {
        Ok(Some(Ok(lease))) => {
            let lease = Lease::from(lease);
            (Owner::among(&lease.metadata.owner_references.unwrap_or_default()), true)
        }
        Ok(None) => (Owner::none(), false),
        // A lease may exist.
        Ok(Some(Err(_))) | Err(_) => (Owner::none(), true),
    };
    let store = StateStore::new(calls.client.clone(), namespace).owned_by(owner);
    if dry_run || !worked {
        let state = store.read().await?;
        if dry_run || !state.found {
            return Ok((worked || state.found).then_some((store, state)));
        }
    }
    let state = set_withdrawn(calls, &store).await?;
    Ok(Some((store, state)))
}

async fn set_withdrawn(calls: &Calls, store: &StateStore) -> anyhow::Result<MullionState> {
    let mut attempts = 0;
    loop {
        // In nanoseconds, to distinguish one withdrawal from the next.
        let now = Timestamp::now().to_string();
        let written = store
            .update(|state| {
                if state.withdrawn.is_none() {
                    state.withdrawn = Some(now.clone());
                    // The condition may report an earlier withdrawal.
                    state.remove_condition(CONDITION);
                }
            })
            .await;
        attempts += 1;
        if written.is_ok() || attempts >= ATTEMPTS || !calls.pause(POLL_INTERVAL).await {
            return written;
        }
    }
}

async fn wait_until_stopped(calls: &Calls, namespace: &str, store: &StateStore) -> ControllerStatus {
    let leases = KindApi::namespaced(calls.client.clone(), &LEASES, namespace);
    let start = Instant::now();
    // Compared without the times in the lease, because the holder's clock may differ from this one.
    let mut unchanged = (LeaseSpec::default(), start);
    loop {
        if store.read().await.is_ok_and(|state| reports_withdrawn(&state)) {
            return ControllerStatus::Stopped;
        }
        match calls.retry(FEW, || leases.get::<ReadLease>(LEASE_NAME)).await {
            Ok(None) => return ControllerStatus::NoLeader,
            Ok(Some(Ok(lease))) => {
                let spec = Lease::from(lease).spec.unwrap_or_default();
                if spec != unchanged.0 {
                    unchanged = (spec, Instant::now());
                }
                let (spec, since) = &unchanged;
                if is_vacant(spec.holder_identity.as_deref(), spec.lease_duration_seconds, since.elapsed()) {
                    return ControllerStatus::NoLeader;
                }
            }
            Ok(Some(Err(_))) | Err(_) => {}
        }
        if start.elapsed() > STOP_TIMEOUT || !calls.pause(POLL_INTERVAL).await {
            return ControllerStatus::Silent;
        }
    }
}
