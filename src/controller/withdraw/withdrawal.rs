//! The steps of a withdrawal, and of undoing it.

use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::controller::withdraw::calls::Calls;
use crate::controller::withdraw::plan::known_taints;
use crate::controller::withdraw::report::{WithdrawOptions, WithdrawProgress, WithdrawReport};
use crate::controller::withdraw::{classes, controllers, nodes};

/// Withdraws Mullion from the cluster, until `stop`. After an error, nothing was changed.
pub(crate) async fn withdraw(
    client: Client,
    options: &WithdrawOptions,
    stop: &CancellationToken,
    progress: &mut dyn FnMut(WithdrawProgress),
) -> anyhow::Result<WithdrawReport> {
    let calls = Calls::new(client, stop.clone());
    nodes::check_access(&calls).await?;
    let namespace = controllers::find_namespace(&calls, options).await?;
    let mut report = WithdrawReport::of(&namespace);
    let state = controllers::stop(&calls, &namespace, options.dry_run, &mut report, progress).await;
    let own_taints = known_taints(&options.policies, &state);
    nodes::clean_nodes(&calls, &own_taints, options.dry_run, &mut report, progress).await;
    classes::delete_unused(&calls, options.dry_run, &mut report).await;
    Ok(report)
}

/// Undoes `withdrawn`, so that the controller works again.
pub(crate) async fn undo(
    client: Client,
    options: &WithdrawOptions,
    stop: &CancellationToken,
) -> anyhow::Result<WithdrawReport> {
    let calls = Calls::new(client, stop.clone());
    calls.check_server().await?;
    let namespace = controllers::find_namespace(&calls, options).await?;
    let mut report = WithdrawReport::of(&namespace);
    controllers::resume(&calls, &namespace, options.dry_run, &mut report).await;
    Ok(report)
}
