//! From flags to a running controller, and down again.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch as channel;
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;
use super::{Args, admin, nodes};
use crate::policy::PolicySet;
use crate::reload::{self, Source, Step};
use crate::telemetry;
use crate::webhook::server::{ConnectionLimits, run_to_end, serve};
use crate::world::connect;

/// How often the policy files are read. Kubelets bring a changed ConfigMap within about a minute.
const RELOAD: Duration = Duration::from_secs(10);

/// Runs until SIGTERM or SIGINT. An error means that it could not start, and says what to do: exit code 2; or that a
/// part of it broke, and that it is better started anew than left doing nothing.
pub fn run(args: &Args) -> anyhow::Result<()> {
    run_to_end(start(args))
}

async fn start(args: &Args) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    let stop = CancellationToken::new();
    let metrics = Metrics::new();

    let (say_policies, policies) = channel::channel(Arc::new(PolicySet::built_in()));
    if !args.policies.is_empty() {
        let mut source = reload::files(args.policies.clone());
        say_policies.send_replace(first_policies(&mut source)?);
        tokio::spawn(follow(source, say_policies.clone(), metrics.clone(), stop.clone()));
    }
    if args.lease_namespace.is_some() {
        tracing::info!("leader election is not there yet; several controllers do the same work and harm nothing");
    }
    let client = connect::client(args.kubeconfig.as_deref()).await?;

    let listener = TcpListener::bind(args.admin_bind)
        .await
        .with_context(|| format!("cannot listen on {}; choose another address with --admin-bind", args.admin_bind))?;
    tracing::info!(admin = %listener.local_addr()?, "controller started");
    let (say_ready, ready) = channel::channel(false);
    let admin_stop = CancellationToken::new();
    let limits = ConnectionLimits { connections: 64, drain: Duration::from_secs(1), ..ConnectionLimits::default() };
    let router = admin::router(metrics.clone(), ready);
    let mut admin = tokio::spawn(serve(listener, None, router, limits, telemetry::Metrics::new(), admin_stop.clone()));
    let mut work = tokio::spawn(nodes::run(client, policies, metrics, say_ready, stop.clone()));

    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = &mut work => bail!("the work loop ended by itself"),
        _ = &mut admin => bail!("the admin server ended by itself"),
    }
    stop.cancel();
    work.await.context("the work loop ended early")?;
    admin_stop.cancel();
    admin.await.context("the admin server ended early")?;
    // Alive until here: without a sender the work loop would take the policies for gone.
    drop(say_policies);
    tracing::info!("stopped");
    Ok(())
}

fn first_policies(source: &mut Source) -> anyhow::Result<Arc<PolicySet>> {
    match reload::read(source) {
        Step::Replaced(set) => Ok(set),
        Step::Unchanged => bail!("no policy files were read"),
        Step::Kept(problems) => {
            bail!("the policies cannot be used, and there are no earlier ones:\n{}", problems.join("\n"))
        }
    }
}

/// Reads the policy files again and again until `stop` is cancelled, and says every new set that is good.
async fn follow(mut source: Source, say: channel::Sender<Arc<PolicySet>>, metrics: Metrics, stop: CancellationToken) {
    reload::every(RELOAD, stop, move || match reload::read(&mut source) {
        Step::Unchanged => {}
        Step::Replaced(set) => {
            metrics.policy_errors(0);
            tracing::info!(hash = set.hash, "policies in force");
            say.send_replace(set);
        }
        Step::Kept(problems) => {
            metrics.policy_errors(problems.len());
            for problem in problems {
                tracing::error!(%problem, "policy file not usable; the last good policies stay in force");
            }
        }
    })
    .await;
}
