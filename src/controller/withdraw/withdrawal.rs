//! The steps of a withdrawal, and of undoing it.

use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::controller::withdraw::calls::Calls;
use crate::controller::withdraw::plan::trusted_taints;
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
    let mut report = WithdrawReport::default();
    let states = controllers::stop(&calls, options, &mut report, progress).await;
    let trust = trusted_taints(&options.policies, &states);
    nodes::clean_nodes(&calls, &trust, options.dry_run, &mut report, progress).await;
    classes::delete_unused(&calls, options.dry_run, &mut report).await;
    Ok(report)
}

/// Undoes `withdrawn`, so that the controllers work again.
pub(crate) async fn undo(
    client: Client,
    options: &WithdrawOptions,
    stop: &CancellationToken,
    progress: &mut dyn FnMut(WithdrawProgress),
) -> anyhow::Result<WithdrawReport> {
    let calls = Calls::new(client, stop.clone());
    calls.check_server().await?;
    let mut report = WithdrawReport::default();
    controllers::resume(&calls, options, &mut report, progress).await;
    Ok(report)
}
