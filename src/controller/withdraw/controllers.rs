//! Notifies the controller that Mullion is withdrawn, and waits until it stops.

use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use tokio::time::Instant;

use crate::cluster::reading::{KindApi, LEASES};
use crate::cluster::state::{MullionState, NAME, StateStore};
use crate::cluster::{MANAGER, Owner};
use crate::controller::lease::{LEASE_NAME, ReadLease};
use crate::controller::own_namespace::registered_namespace;
use crate::controller::webhook_configuration::{CONFIGURATION, ENDPOINTS, WebhookConfiguration, configuration_kind};
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

/// Sets `withdrawn` in `mullion-state`, and waits for the controller. Returns the state as it was before; empty if it
/// could not be read.
pub(crate) async fn stop(
    calls: &Calls,
    namespace: &str,
    dry_run: bool,
    report: &mut WithdrawReport,
    progress: &mut dyn FnMut(WithdrawProgress),
) -> MullionState {
    let notified = match notify(calls, dry_run, namespace).await {
        Ok(notified) => notified,
        Err(why) => {
            report.left.push(still_runs(namespace, format!("it could not be notified: {why:#}")));
            report.controller = ControllerStatus::NotNotified;
            return MullionState::default();
        }
    };
    let Some((store, before)) = notified else {
        report.controller = ControllerStatus::NeverWorked;
        return MullionState::default();
    };
    if dry_run {
        report.controller = ControllerStatus::DryRun;
        return before;
    }
    progress(WithdrawProgress::Note(format!("set withdrawn in ConfigMap {NAME} of namespace {namespace}")));
    report.controller = wait_until_stopped(calls, namespace, &store).await;
    if report.controller == ControllerStatus::Silent {
        let why = format!("it holds lease {namespace}/{LEASE_NAME} and did not report that it has stopped");
        report.left.push(still_runs(namespace, why));
    }
    before
}

fn still_runs(namespace: &str, why: String) -> Remainder {
    Remainder {
        what: format!("the controller of namespace {namespace}"),
        why,
        help: format!("run kubectl -n {namespace} scale deployment {MANAGER} --replicas=0, and mullion withdraw again"),
    }
}

/// Removes `withdrawn` from `mullion-state`.
pub(crate) async fn resume(calls: &Calls, namespace: &str, dry_run: bool, report: &mut WithdrawReport) {
    let store = StateStore::new(calls.client.clone(), namespace);
    let written = match store.load().await {
        Ok(state) if state.withdrawn.is_none() => Ok(ControllerStatus::AtWork),
        Ok(_) if dry_run => Ok(ControllerStatus::DryRun),
        Ok(_) => store.update(|state| state.withdrawn = None).await.map(|_| ControllerStatus::Resumed),
        Err(why) => Err(why),
    };
    report.controller = written.unwrap_or_else(|why| {
        report.left.push(Remainder {
            what: format!("ConfigMap {namespace}/{NAME}"),
            why: format!("Mullion is still withdrawn: {why:#}"),
            help: "fix that, and run mullion withdraw --undo again".to_owned(),
        });
        ControllerStatus::NotNotified
    });
}

/// The namespace in the options, else that of the webhook configurations.
pub(crate) async fn find_namespace(calls: &Calls, options: &WithdrawOptions) -> anyhow::Result<String> {
    if let Some(namespace) = &options.namespace {
        return Ok(namespace.clone());
    }
    let mut found = Vec::new();
    for kind in ENDPOINTS.map(configuration_kind) {
        let api = KindApi::all(calls.client.clone(), kind);
        let read = calls.retry(FEW, || api.get::<WebhookConfiguration>(CONFIGURATION)).await;
        let failed =
            || format!("{} {CONFIGURATION} cannot be read; name the namespace of Mullion with --namespace", kind.name);
        found.extend(read.with_context(failed)?.transpose().with_context(failed)?);
    }
    Ok(registered_namespace(&found)?)
}

/// Sets `withdrawn` for the controller of a namespace, and returns the state as it was before. `None` if no controller
/// ever worked.
async fn notify(calls: &Calls, dry_run: bool, namespace: &str) -> anyhow::Result<Option<(StateStore, MullionState)>> {
    let (owner, worked) = match read_lease(calls, namespace).await {
        Ok(Some(lease)) => (Owner::among(&lease.metadata.owner_references.unwrap_or_default()), true),
        Ok(None) => (Owner::none(), false),
        // A lease may exist.
        Err(_) => (Owner::none(), true),
    };
    let store = StateStore::new(calls.client.clone(), namespace).owned_by(owner);
    let before = store.load().await?;
    if !worked && !before.found {
        return Ok(None);
    }
    if !dry_run {
        set_withdrawn(calls, &store).await?;
    }
    Ok(Some((store, before)))
}

async fn set_withdrawn(calls: &Calls, store: &StateStore) -> anyhow::Result<()> {
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
            return written.map(drop);
        }
    }
}

async fn read_lease(calls: &Calls, namespace: &str) -> anyhow::Result<Option<Lease>> {
    let leases = KindApi::namespaced(calls.client.clone(), &LEASES, namespace);
    let lease = calls.retry(FEW, || leases.get::<ReadLease>(LEASE_NAME)).await?;
    Ok(lease.transpose()?.map(Lease::from))
}

async fn wait_until_stopped(calls: &Calls, namespace: &str, store: &StateStore) -> ControllerStatus {
    let start = Instant::now();
    // Compared without the times in the lease, because the holder's clock may differ from this one.
    let mut unchanged = (LeaseSpec::default(), start);
    loop {
        if store.load().await.is_ok_and(|state| reports_withdrawn(&state)) {
            return ControllerStatus::Stopped;
        }
        match read_lease(calls, namespace).await {
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
        if start.elapsed() > STOP_TIMEOUT || !calls.pause(POLL_INTERVAL).await {
            return ControllerStatus::Silent;
        }
    }
}
