//! What admission costs a cluster, end to end: `cargo bench --bench admission`, a few minutes. It needs the
//! control-plane tools: `make bench` builds them.
//!
//! Creates pods on a real API server, one after another, under each of these registrations in turn:
//!
//! | registration | what it does with a Windows pod |
//! |---|---|
//! | nothing registered | |
//! | webhooks that change nothing | a mutating and a validating webhook allow it |
//! | webhook with a constant patch | a mutating webhook returns the same patch for each pod, and a validating one allows it |
//! | the same with a matchCondition | the same webhooks, called if `true`: what conditions cost the API server |
//! | mutating policy | a `MutatingAdmissionPolicy` adds a node selector and a toleration |
//! | mutating and validating policy | the same, and a `ValidatingAdmissionPolicy` denies `runAsUser` |
//! | Mullion | the chart's webhook configurations and the built program |
//!
//! A Linux pod that selects no operating system is created under four of them, and an explicitly Linux pod with nothing
//! registered and under Mullion, which skips it. The table contains the
//! time of a create and the processor time of the API server and of the webhook. The pods are stored, and deleted after
//! each round, because a dry run would leave out the storage, which is part of every create. `ROUNDS=10` measures fewer
//! rounds. `PROFILE=FOLDER` then also prints where the processor time of the API server goes ([`profile`]). Figures are printed and not asserted, because they depend on the machine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark: it ends where it cannot go on, and prints rounded figures"
)]
#![allow(unreachable_pub, reason = "modules of one program")]

mod constant_server;
mod creates;
mod pods;
mod profile;
mod registrations;
mod table;

use mullion_cluster::{ControlPlane, NodeSpec};

use creates::Measurement;
use registrations::Registrations;

/// 2,000 creates of each case, with a processor time that is a thousand times its resolution.
const ROUNDS: usize = 100;

fn main() {
    mullion::server::tls::install_crypto();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, part, folder] = &arguments[..]
        && part == constant_server::PART
    {
        runtime.block_on(constant_server::run(folder.as_ref()));
        return;
    }
    runtime.block_on(measure());
}

async fn measure() {
    let rounds = std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let alone = ControlPlane::builder().kwok(false).controller_manager(false).scheduler(false);
    let plane = alone.start().await.unwrap();
    let windows = NodeSpec::windows("windows-2022", "10.0.20348.2655").taint("os=windows:NoSchedule");
    plane.create_nodes(&[windows, NodeSpec::linux("linux")]).await.unwrap();
    let registrations = Registrations::start(&plane).await;
    let cases = registrations.cases();
    for case in &cases {
        creates::warm_up(&plane, case).await;
    }
    let mut measurements: Vec<Measurement> = cases.iter().map(|_| Measurement::default()).collect();
    for _ in 0..rounds {
        for (case, measurement) in cases.iter().zip(&mut measurements) {
            creates::round(&plane, case, measurement).await;
        }
    }
    table::print(&cases, &measurements);
    if let Some(folder) = std::env::var_os("PROFILE") {
        profile::print(&plane, &cases, folder.as_ref()).await;
    }
}
