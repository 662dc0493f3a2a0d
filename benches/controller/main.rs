//! The controller compared with the budgets of its design: `cargo bench --bench controller`, a few minutes, mostly for
//! the API server. It needs the control-plane tools: `make bench` builds them.
//!
//! | part | what it prints |
//! |---|---|
//! | rate | patches per second of the controller from cold, of a loop that only sends the same patches, and of that loop beside a watch, in turn |
//! | attack | the resident sets of webhook and controller beside objects of attackers: at their start, later, and when lists are read again; with streamed and with plain lists |
//! | memory | how long the built program reads the cluster at its start, its resident set, and what the heartbeats of all Windows nodes cost it |
//!
//! On a real API server with 5,000 Windows and 15,000 Linux nodes; `-- rate` runs one part, `NODES=400` creates a
//! smaller fleet. Figures are printed and not asserted, because they depend on the machine.
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

mod attack;
mod fleet;
mod memory;
#[path = "../support/parts.rs"]
mod parts;
mod rate;
#[path = "../support/resident.rs"]
mod resident;
mod running;
#[path = "../support/thread_times.rs"]
mod thread_times;

use mullion_cluster::ControlPlane;
use parts::Parts;

#[tokio::main]
async fn main() {
    let wanted = Parts::wanted();
    let windows = std::env::var("NODES").ok().and_then(|text| text.parse().ok()).unwrap_or(5_000);
    mullion::server::tls::install_crypto();
    if wanted.has("attack") {
        attack::run(windows).await;
    }
    if !wanted.has("rate") && !wanted.has("memory") {
        return;
    }
    let alone = ControlPlane::builder().kwok(false).controller_manager(false).scheduler(false);
    let plane = alone.start().await.unwrap();
    fleet::create(&plane, windows, windows * 3).await;
    if wanted.has("rate") {
        rate::run(&plane, windows).await;
    }
    if wanted.has("memory") {
        memory::run(&plane, windows).await;
    }
}
