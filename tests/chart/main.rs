//! The chart with every values file of `charts/mullion/ci`: the rendered objects, the responses of the API server, and
//! upgrades from one values file to another.
//!
//! One trial for each check and values file; `cargo test --test chart eks` runs those of one file. The checks that need
//! a control plane share one. They need the control-plane tools, which include Helm: `make test` builds them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests: a failure is a panic, and literals are passed as they are written"
)]
#![allow(unreachable_pub, reason = "modules of one test program")]

mod admitted;
mod documented;
mod fence;
mod fence_rules;
mod meaning;
mod network;
mod pods;
mod program;
mod rendered;
mod repeated;
mod rights;
mod server;
mod upgrades;
mod values;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use futures::future::BoxFuture;
use libtest_mimic::Arguments;
use mullion_cluster::{Shared, Suite};

use crate::rendered::Rendered;
use crate::server::Server;

/// Checks of the chart without a values file.
const VALUES: &[(&str, OfValues)] = &[
    ("values::missing_values_are_named", values::missing_values_are_named),
    ("values::wrong_values_are_rejected_with_a_message", values::wrong_values_are_rejected_with_a_message),
    ("values::answers_are_those_of_the_helm_program", values::answers_are_those_of_the_helm_program),
    ("values::valid_values_are_accepted", values::valid_values_are_accepted),
    ("values::old_servers_are_rejected", values::old_servers_are_rejected),
    ("values::schema_and_values_agree", documented::schema_and_values_agree),
    ("artifact_hub::annotations_match_the_chart", documented::annotations_match_the_chart),
    ("fence::servers_without_the_kind_get_no_fence", fence_rules::servers_without_the_kind_get_no_fence),
    ("hooks::log_is_not_printed_by_flux", meaning::hook_log_is_not_printed_by_flux),
    (
        "templates::no_template_uses_random_values_clock_or_cluster",
        repeated::no_template_uses_random_values_clock_or_cluster,
    ),
];

/// Checks of each values file without a cluster.
const OFFLINE: &[(&str, Check)] = &[
    ("lint", repeated::helm_lint_reports_nothing),
    ("same", repeated::rendered_again_it_is_the_same),
    ("generated", repeated::nothing_is_generated),
    ("known", meaning::only_known_kinds_are_installed),
    ("metadata", meaning::names_labels_and_namespaces),
    ("hooks", meaning::hooks_are_those_of_the_withdrawal),
    ("configurations", meaning::configurations_follow_the_values),
    ("policies", meaning::policies_are_mounted_whole),
    ("linux", pods::pinned_to_linux),
    ("resources", pods::requests_and_no_cpu_limit),
    ("restricted", pods::nothing_that_pod_security_restricts),
    ("probes", pods::probes_ask_the_admin_port),
    ("volumes", pods::volumes_are_there_and_used),
    ("disruption", pods::budgets_leave_a_way),
    ("spread", pods::replicas_spread),
    ("service", network::services_reach_their_pods),
    ("network-policy", network::policies_allow_required_clients),
    ("monitors", network::monitors_find_their_services),
    ("flags", program::every_flag_is_known),
    ("check", program::check_finds_nothing),
    ("engine", program::the_engine_leaves_the_pods_on_linux),
    ("policy-check", program::policies_load),
    ("rights", rights::as_documented),
    ("fence", fence_rules::every_write_is_fenced),
    ("no-more", rights::no_wildcards_and_no_writes_of_the_webhook),
];

/// Checks of each values file on the API server.
const SERVER_CHECKS: &[(&str, ServerCheck)] = &[
    ("accepted", |server, file| Box::pin(admitted::every_object_is_accepted(server, file))),
    ("pod-security", |server, file| Box::pin(admitted::pods_pass_pod_security(server, file))),
];

type OfValues = fn() -> Result<()>;
type Check = fn(&Rendered) -> Result<()>;
type ServerCheck = for<'a> fn(&'a Server, &'a Rendered) -> BoxFuture<'a, Result<()>>;
type AllFilesCheck = for<'a> fn(&'a Server, &'a [Arc<Rendered>]) -> BoxFuture<'a, Result<()>>;

/// Checks of all values files on the API server.
const ALL_FILES_CHECKS: &[(&str, AllFilesCheck)] = &[
    ("upgrades::from_and_to_each_file_the_bundle_stays", |server, files| {
        Box::pin(upgrades::from_and_to_each_file_the_bundle_stays(server, files))
    }),
    ("upgrades::helm_and_kubectl_keep_the_bundle_and_do_not_drift", |server, files| {
        Box::pin(upgrades::helm_and_kubectl_keep_the_bundle_and_do_not_drift(server, files))
    }),
    ("fence::a_stolen_token_writes_no_more_than_mullion", |server, _| {
        Box::pin(fence::a_stolen_token_writes_no_more_than_mullion(server))
    }),
    ("fence::pods_are_created_where_system_classes_are_limited", |server, _| {
        Box::pin(fence::pods_are_created_where_system_classes_are_limited(server))
    }),
    ("fence::upgrades_from_the_chart_before_and_back", |server, _| {
        Box::pin(fence::upgrades_from_the_chart_before_and_back(server))
    }),
    ("upgrades::an_upgrade_without_policies_replaces_none", |server, _| {
        Box::pin(upgrades::an_upgrade_without_policies_replaces_none(server))
    }),
    ("upgrades::no_immutable_field_changes", |server, files| {
        Box::pin(upgrades::no_immutable_field_changes(server, files))
    }),
];

/// Checks with Helm 3, for `make helm3`.
const HELM_3: &[(&str, AllFilesCheck)] = &[
    ("upgrades::helm_3_and_kubectl_keep_the_bundle_and_do_not_drift", |server, files| {
        Box::pin(upgrades::helm_3_and_kubectl_keep_the_bundle_and_do_not_drift(server, files))
    }),
    ("upgrades::helm_3_and_4_upgrade_releases_of_each_other", |server, files| {
        Box::pin(upgrades::helm_3_and_4_upgrade_releases_of_each_other(server, files))
    }),
    ("upgrades::helm_3_upgrades_from_the_chart_before_and_back", |server, _| {
        Box::pin(fence::helm_3_upgrades_from_the_chart_before_and_back(server))
    }),
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let files = rendered::files().expect("the values files");
    // Helm and the API server keep the processors busy, so more trials at the same time take longer.
    let mut suite = Suite::new("chart", 3);
    let server = Shared::new(Server::start);
    let with_helm_3 = if mullion_cluster::helm_3().is_some() { HELM_3 } else { &[] };
    for (name, check) in ALL_FILES_CHECKS.iter().chain(with_helm_3) {
        let (files, check) = (files.clone(), *check);
        suite.shared_trial(&server, (*name).to_owned(), move |server| {
            Box::pin(async move { check(&server, &files).await })
        });
    }
    for file in &files {
        for (name, check) in SERVER_CHECKS {
            let (file, check) = (Arc::clone(file), *check);
            suite.shared_trial(&server, format!("{}::{name}", file.name), move |server| {
                Box::pin(async move { check(&server, &file).await })
            });
        }
    }
    for (name, check) in VALUES {
        suite.blocking(*name, *check);
    }
    for file in &files {
        for (name, check) in OFFLINE {
            let (file, check) = (Arc::clone(file), *check);
            suite.blocking(format!("{}::{name}", file.name), move || check(&file));
        }
    }
    suite.run(arguments)
}
