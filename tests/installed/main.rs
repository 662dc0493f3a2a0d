//! Mullion as a user installs it: the unmodified chart, by Helm, on a real control plane that calls it through its
//! Service.
//!
//! The pods of its Deployments run as real processes, each with its own address, files and environment (`Kubelet` in
//! `tests/cluster`); KWOK simulates Windows nodes and their pods. `cargo test --test installed NAME` runs the trials
//! whose name contains NAME. They need the control-plane tools (`make test` builds them) and user namespaces.
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
mod fence;
mod flux;
mod helm_3;
mod install;
mod kubelet;
mod load;
mod manifests;
#[path = "../docs/pages/mod.rs"]
#[allow(clippy::disallowed_methods, reason = "these read the pages")]
mod pages;
mod replicas;
mod site;
mod skew;
mod status;
mod traces;
mod uninstall;
mod upgrade;
mod user_actions;
mod variants;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use mullion_cluster::{Pool, Suite, trials};

use crate::site::Site;

/// The number of control planes at the same time, besides those of `documents`: 0.7 GB each, and they mostly wait.
const SITES: usize = 3;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    if !arguments.list
        && let Err(why) = mullion_cluster::own_network()
    {
        eprintln!("{why:#}");
        return ExitCode::FAILURE;
    }
    let mut suite = Suite::new("installed", SITES + documents::CLUSTERS);
    documents::add(&mut suite);
    let sites = Pool::new(SITES, Site::start);
    suite.pooled(
        &sites,
        trials![
            cold_start::everything_comes_up,
            cold_start::one_node,
            replicas::stopping_one_replica_causes_no_unreviewed_pod,
            replicas::a_crash_of_one_replica_has_a_short_impact,
            replicas::many_creates_at_once_leave_slots_free,
            upgrade::upgrade_and_rollback_affect_no_pod,
            fence::a_denied_taint_names_the_value_that_allows_it,
            uninstall::nobody_notices,
            uninstall::a_broken_one_goes,
            uninstall::a_failed_job_is_tried_again,
            uninstall::a_skipped_job_leaves_only_nodes_and_classes,
            uninstall::the_namespace_is_deleted_first_and_the_rest_by_hand,
            uninstall::the_namespace_is_deleted_first_and_the_rest_by_the_chart,
            variants::a_provided_certificate,
            variants::cert_manager,
            variants::other_networks,
            variants::policies_of_others,
            variants::tainted_linux_nodes,
            again::at_once,
            again::a_second_release_is_rejected,
            install::the_defaults_work,
            manifests::kubectl_applies_and_deletes_them,
            status::an_installation_is_good_until_it_is_not,
            kubelet::containers_match_their_pods,
            kubelet::containers_end_and_restart_as_on_a_node,
        ],
    );
    // These need a second build of Mullion: `make skew`.
    if skew::next().is_some() {
        suite.pooled(
            &sites,
            trials![
                skew::webhook_and_controller_of_different_releases,
                skew::upgrade_and_rollback_with_newer_policy_files
            ],
        );
    }
    // This needs the controllers of Flux: `make flux`.
    if flux::folder().is_some() {
        suite.pooled(&sites, trials![flux::ten_reconciliations_without_drift]);
    }
    // This needs Helm 3: `make helm3`.
    if mullion_cluster::helm_3().is_some() {
        suite.pooled(&sites, trials![helm_3::installs_upgrades_rolls_back_and_uninstalls]);
    }
    suite.run(arguments)
}
