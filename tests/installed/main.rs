//! Mullion as a user installs it: the unmodified chart, by Helm, on a real control plane that asks it through its Service.
//!
//! The pods that its Deployments make really run, each with its own address, files and environment (`Kubelet` in
//! `tests/cluster`); Windows nodes and their pods are played by KWOK. `cargo test --test installed NAME` runs the trials
//! whose name contains NAME. Needs the control-plane tools (`make test` builds them) and user namespaces.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests: a failure is a panic, and literals are passed as they are written"
)]
#![allow(unreachable_pub, reason = "modules of one test program")]

mod again;
mod cold_start;
mod documents;
mod install;
mod kubelet;
mod load;
#[path = "../docs/pages/mod.rs"]
#[allow(clippy::disallowed_methods, reason = "these read the pages")]
mod pages;
mod people;
mod replicas;
mod site;
mod traces;
mod uninstall;
mod upgrade;
mod variants;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::Arguments;
use mullion_cluster::trial;

use crate::site::{SITES, Sites};

/// One trial for each of these functions, named by its path; each has a site for as long as it runs.
macro_rules! trials {
    ($runtime:expr, $sites:expr, [$($module:ident::$name:ident),* $(,)?]) => {
        vec![$({
            let sites = Arc::clone(&$sites);
            trial($runtime.handle(), concat!(stringify!($module), "::", stringify!($name)), async move {
                let site = sites.get().await?;
                let outcome = $module::$name(&site).await;
                if outcome.is_ok() {
                    site.passed();
                }
                outcome
            })
        }),*]
    };
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // They wait most of the time, so not for processors: `Sites` says how many run at once.
    arguments.test_threads.get_or_insert(SITES);
    if !arguments.list
        && let Err(why) = mullion_cluster::own_network()
    {
        eprintln!("{why:#}");
        return ExitCode::FAILURE;
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let sites = Arc::new(Sites::default());
    let mut trials = trials!(
        runtime,
        sites,
        [
            kubelet::containers_are_as_their_pods_say,
            kubelet::ends_are_a_kubelets,
            install::the_defaults_work,
            replicas::one_that_is_asked_to_go_is_not_missed,
            replicas::one_that_crashes_is_missed_for_a_moment,
            upgrade::up_and_back_is_not_noticed,
            uninstall::nobody_notices,
            uninstall::a_broken_one_goes,
            uninstall::a_job_that_fails_is_tried_again_or_left_out,
            uninstall::the_namespace_goes_first,
            again::at_once,
            again::a_second_release_is_refused,
            cold_start::everything_comes_up,
            cold_start::one_node,
            variants::a_provided_certificate,
            variants::cert_manager,
            variants::other_networks,
            variants::policies_of_others,
            variants::tainted_linux_nodes,
        ]
    );
    trials.push(trial(
        runtime.handle(),
        "documents::every_command_for_a_cluster_does_what_its_page_says",
        documents::every_command_for_a_cluster_does_what_its_page_says(),
    ));
    let conclusion = libtest_mimic::run(&arguments, trials);
    // In the runtime: the end of a kubelet ends its tasks.
    runtime.block_on(async { drop(sites) });
    conclusion.exit_code()
}
