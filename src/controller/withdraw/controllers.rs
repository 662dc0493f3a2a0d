//! The controllers of a cluster: notified that Mullion is withdrawn, and waited for.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Api;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use tokio::time::Instant;

use crate::cluster::owner_references::Owner;
use crate::cluster::state::document::{NAME, State};
use crate::cluster::state::store::Store;
use crate::cluster::write_params::MANAGER;
use crate::controller::lease;
use crate::controller::withdraw::calls::{Calls, FEW};
use crate::controller::withdraw::plan::is_vacant;
use crate::controller::withdraw::{ControllerStatus, Remainder, WithdrawOptions, WithdrawProgress, WithdrawReport};
use crate::controller::withdrawn::{CONDITION, acknowledged};

/// How long a controller may take to stop: requests under way get 10 s of it.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(500);
/// How often a ConfigMap is written that cannot be written.
const TRIES: usize = 3;

/// Sets `withdrawn` in every `mullion-state`, and waits for the controllers; what each `mullion-state` holds.
pub(crate) async fn stop(
    calls: &Calls,
    options: &WithdrawOptions,
    report: &mut WithdrawReport,
    progress: &mut dyn FnMut(WithdrawProgress),
) -> Vec<State> {
    let Namespaces { names, found } = namespaces(calls, options, progress).await;
    let (mut kept, mut stores) = (Vec::new(), Vec::new());
    for namespace in names {
        match notify(calls, options.dry_run, &namespace).await {
            Ok(Some((store, state))) => {
                kept.push(state);
                stores.push((namespace, store));
            }
            Ok(None) => drop(report.controllers.insert(namespace, ControllerStatus::NeverWorked)),
            Err(why) => {
                if found {
                    report.left.push(still_runs(&namespace, format!("it could not be notified: {why:#}")));
                }
                report.controllers.insert(namespace, ControllerStatus::NotNotified);
            }
        }
    }
    if !options.dry_run && !stores.is_empty() {
        let names: Vec<&str> = stores.iter().map(|(namespace, _)| namespace.as_str()).collect();
        progress(WithdrawProgress::Note(format!("withdrawn in ConfigMap {NAME} of namespace {}", names.join(", "))));
    }
    let statuses = stores.into_iter().map(|(namespace, store)| async move {
        let status = if options.dry_run {
            ControllerStatus::DryRun
        } else {
            wait_until_stopped(calls, &namespace, &store).await
        };
        (namespace, status)
    });
    for (namespace, status) in join_all(statuses).await {
        if status == ControllerStatus::Silent {
            let lease = lease::NAME;
            let why = format!("it holds lease {namespace}/{lease} and did not report that it has stopped");
            report.left.push(still_runs(&namespace, why));
        }
        report.controllers.insert(namespace, status);
    }
    kept
}

fn still_runs(namespace: &str, why: String) -> Remainder {
    Remainder {
        what: format!("the controller of namespace {namespace}"),
        why,
        help: format!("run kubectl -n {namespace} scale deployment {MANAGER} --replicas=0, and mullion withdraw again"),
    }
}

/// Takes `withdrawn` out of every `mullion-state`.
pub(crate) async fn resume(
    calls: &Calls,
    options: &WithdrawOptions,
    report: &mut WithdrawReport,
    progress: &mut dyn FnMut(WithdrawProgress),
) {
    for namespace in namespaces(calls, options, progress).await.names {
        let store = Store::new(calls.client.clone(), &namespace);
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
                help: "see to that, and run mullion withdraw --undo again".to_owned(),
            });
            ControllerStatus::NotNotified
        });
        report.controllers.insert(namespace, status);
    }
}

struct Namespaces {
    names: BTreeSet<String>,
    /// Whether something of Mullion is there; else it is a guess.
    found: bool,
}

/// Where a lease or a memory of Mullion is; the client's own namespace, where none is found or nobody may look.
async fn namespaces(
    calls: &Calls,
    options: &WithdrawOptions,
    progress: &mut dyn FnMut(WithdrawProgress),
) -> Namespaces {
    if let Some(only) = &options.namespace {
        return Namespaces { names: [only.clone()].into(), found: true };
    }
    let own = calls.client.default_namespace().to_owned();
    let mut names = BTreeSet::new();
    let mut unread = false;
    for (path, name) in [("/apis/coordination.k8s.io/v1/leases", lease::NAME), ("/api/v1/configmaps", NAME)] {
        let selected = ListParams::default().fields(&format!("metadata.name={name}"));
        let each = |object: PartialObjectMeta<Lease>| names.extend(object.metadata.namespace);
        if let Err(why) = calls.list(FEW, path, &selected, each).await {
            unread = true;
            progress(WithdrawProgress::Note(format!(
                "controllers are looked for in namespace {own} alone: {why}; name another with --lease-namespace"
            )));
        }
    }
    let found = !names.is_empty();
    if unread || !found {
        names.insert(own);
    }
    Namespaces { names, found }
}

/// Sets `withdrawn` for the controllers of a namespace; what is kept there. `None` where none ever worked.
async fn notify(calls: &Calls, dry_run: bool, namespace: &str) -> anyhow::Result<Option<(Store, State)>> {
    let leases: Api<Lease> = Api::namespaced(calls.client.clone(), namespace);
    let (owner, worked) = match calls.again(FEW, || leases.get_opt(lease::NAME)).await {
        Ok(Some(lease)) => (Owner::among(&lease.metadata.owner_references.unwrap_or_default()), true),
        Ok(None) => (Owner::none(), false),
        // There may be one.
        Err(_) => (Owner::none(), true),
    };
    let store = Store::new(calls.client.clone(), namespace).owned_by(owner);
    if dry_run || !worked {
        let state = store.read().await?;
        if dry_run || !state.found {
            return Ok((worked || state.found).then_some((store, state)));
        }
    }
    let state = set_withdrawn(calls, &store).await?;
    Ok(Some((store, state)))
}

async fn set_withdrawn(calls: &Calls, store: &Store) -> anyhow::Result<State> {
    let mut tries = 0;
    loop {
        // To the nanosecond: it distinguishes one withdrawal from the next.
        let now = Timestamp::now().to_string();
        let written = store
            .update(|state| {
                if state.withdrawn.is_none() {
                    state.withdrawn = Some(now.clone());
                    // A report about an earlier withdrawal is none about this one.
                    state.remove_condition(CONDITION);
                }
            })
            .await;
        tries += 1;
        if written.is_ok() || tries >= TRIES || !calls.pause(LOOK).await {
            return written;
        }
    }
}

async fn wait_until_stopped(calls: &Calls, namespace: &str, store: &Store) -> ControllerStatus {
    let leases: Api<Lease> = Api::namespaced(calls.client.clone(), namespace);
    let start = Instant::now();
    // Not by the times in the lease: the holder's clock may be another than ours.
    let mut unchanged = (LeaseSpec::default(), start);
    loop {
        if store.read().await.is_ok_and(|state| acknowledged(&state)) {
            return ControllerStatus::Stopped;
        }
        match calls.again(FEW, || leases.get_opt(lease::NAME)).await {
            Ok(None) => return ControllerStatus::NoLeader,
            Ok(Some(lease)) => {
                let spec = lease.spec.unwrap_or_default();
                if spec != unchanged.0 {
                    unchanged = (spec, Instant::now());
                }
                let (spec, since) = &unchanged;
                if is_vacant(spec.holder_identity.as_deref(), spec.lease_duration_seconds, since.elapsed()) {
                    return ControllerStatus::NoLeader;
                }
            }
            Err(_) => {}
        }
        if start.elapsed() > PATIENCE || !calls.pause(LOOK).await {
            return ControllerStatus::Silent;
        }
    }
}
