//! Mullion on a real control plane: the API server, the scheduler and the DaemonSet controller are the judges.
//!
//! One control plane with Mullion's webhook and controller is shared by all tests, a namespace each; tests run in
//! parallel. `cargo test --test on_cluster NAME` runs those whose name contains NAME. Needs the control-plane tools:
//! `make test` builds them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::wildcard_imports,
    reason = "tests: a failure is a panic, and literals are passed as they are written"
)]
#![allow(unreachable_pub, reason = "modules of one test program")]

mod audit;
mod audit_mode;
mod builds;
mod cases;
mod certificates;
mod differential;
mod fields;
#[path = "../generator/mod.rs"]
mod generator;
mod identity;
mod images;
mod leaders;
mod limits;
mod memory;
mod missed;
mod namespaces;
mod nodes;
mod outage;
mod ownership;
mod placement;
mod plugin;
mod policies;
mod proxy;
mod reachability;
mod registration;
#[path = "../registry/server.rs"]
#[expect(dead_code, reason = "shared with the tests of the registry client, which push more kinds of things")]
mod registry;
mod rights;
mod shape;
mod shared;
mod stability;
mod survival;
mod turns;
mod withdraw;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::Arguments;

use crate::turns::{ForAll, Turn};

/// One trial for each of these functions, named by its path; each is given what `$state` turns into by `get`.
macro_rules! trials {
    ($runtime:expr, $state:expr, [$($module:ident::$name:ident),* $(,)?]) => {
        [$({
            let state = Arc::clone(&$state);
            mullion_cluster::trial($runtime.handle(), concat!(stringify!($module), "::", stringify!($name)), async move {
                let turn = state.get().await;
                let outcome = $module::$name(&*turn).await;
                if outcome.is_ok() {
                    Turn::passed(turn);
                }
                outcome
            })
        }),*]
    };
}

#[allow(clippy::too_many_lines, reason = "the list of all trials")]
fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let shared = Arc::new(ForAll::by(shared::Shared::start));
    let mut trials = Vec::from(trials!(
        runtime,
        shared,
        [
            placement::every_windows_image_lands_where_it_can_run,
            placement::linux_and_multi_os_pods_land_on_linux,
            placement::an_opaque_image_stays_in_its_pool,
            placement::host_process_pods_keep_host_network,
            placement::bound_and_mirror_pods_are_left_alone,
            placement::a_pod_that_says_everything_is_stored_as_sent,
            placement::dry_run_and_a_second_pass_change_nothing_more,
            builds::pods_land_on_nodes_that_run_all_their_images,
            builds::what_no_node_runs_waits,
            fields::every_linux_only_value_is_repaired_or_refused,
            fields::all_bad_fields_are_named_at_once,
            fields::every_value_in_an_ephemeral_container_is_repaired_or_refused,
            fields::an_unmasked_proc_is_refused_in_words,
            fields::a_sealed_template_is_repaired_where_the_server_would_refuse_it,
            fields::owned_pods_run_on,
            fields::debugging_a_sealed_pod_works,
            shape::the_table_is_the_servers,
            shape::the_server_agrees_about_what_people_write,
            shape::the_server_agrees_about_every_field,
            identity::the_server_refuses_what_the_catalogue_says,
            identity::templates_have_the_servers_own_paths,
            identity::ephemeral_containers_are_held_against_their_pod,
            differential::catalogue_and_server_agree,
            stability::a_new_linux_daemon_set_completes_on_linux,
            stability::a_windows_daemon_set_gets_every_windows_node,
            stability::a_touched_daemon_set_keeps_its_pods,
            stability::a_daemon_set_that_is_written_again_keeps_its_generation,
            stability::a_daemon_sets_pods_are_never_refused,
            outage::pods_are_created_while_the_webhook_is_away,
            namespaces::a_pod_in_a_new_namespace_is_placed_by_its_annotation,
            plugin::kubectl_runs_and_completes_it,
        ]
    ));
    let alone = Arc::new(turns::OneAtATime::default());
    trials.extend(trials!(
        runtime,
        alone,
        [
            nodes::nodes_get_labels_taints_and_classes,
            nodes::nodes_of_every_kind,
            nodes::policies_change_only_what_is_ours,
            nodes::what_others_undo_is_left_to_them,
            nodes::classes_are_kept_without_a_fight,
            nodes::a_thousand_nodes_get_one_patch_each,
            nodes::a_taint_waits_for_daemonsets,
            nodes::a_taint_waits_for_a_windows_cni,
            nodes::a_taint_waits_for_a_windows_pod_out_of_reach,
            nodes::linux_daemonsets_hold_a_taint_where_they_run,
            nodes::a_broken_windows_daemonset_holds_a_taint,
            nodes::racing_writers_lose_no_taint,
            nodes::the_world_follows_the_cluster,
        ]
    ));
    // One more: API servers that restart are nobody else's business.
    let weather = Arc::new(turns::OneAtATime::default());
    trials.extend(trials!(
        runtime,
        weather,
        [
            reachability::the_webhook_is_seen_or_missed,
            survival::the_api_server_restarts,
            survival::whatever_the_network_does,
        ]
    ));
    let remembering = Arc::new(turns::OneAtATime::default());
    trials.extend(trials!(
        runtime,
        remembering,
        [
            memory::what_was_seen_outlives_pool_and_processes,
            memory::bad_policy_files_do_not_stop_a_start,
            memory::a_new_node_has_its_taint_at_once,
            memory::leave_to_taint_comes_and_goes,
            memory::earlier_taints_go_and_forged_ones_stay,
            policies::admins_see_what_became_of_their_edit,
        ]
    ));
    // A control plane of their own: on the other, nodes come and go that are not theirs.
    let withdrawn = Arc::new(turns::OneAtATime::default());
    trials.extend(trials!(
        runtime,
        withdrawn,
        [
            withdraw::nodes_are_left_as_they_were_found,
            withdraw::classes_that_are_named_stay,
            withdraw::a_record_frees_no_node_of_foreign_taints,
        ]
    ));
    let audited = Arc::new(turns::ForOne::<leaders::Audited>::default());
    trials.extend(trials!(runtime, audited, [leaders::one_writes_at_a_time]));
    let limited = Arc::new(ForAll::by(limits::Limited::start));
    trials.extend(trials!(
        runtime,
        limited,
        [
            limits::a_whitelist_without_the_os_toleration_refuses_nothing,
            limits::every_whitelist_is_read_as_the_server_reads_it,
            limits::a_whitelist_with_the_os_toleration_lets_it_be_added,
            limits::a_node_selector_of_the_namespace_refuses_nothing,
            limits::runtime_classes_as_the_server_has_them,
            limits::sealed_pods_pass_pod_security_where_it_knows_windows,
            limits::pods_stay_unsealed_where_pod_security_knows_no_windows,
            limits::host_process_pods_and_pod_security,
        ]
    ));
    let missed = Arc::new(ForAll::by(missed::Missed::start));
    trials.extend(trials!(
        runtime,
        missed,
        [
            missed::windows_pods_made_without_mullion_land,
            missed::what_is_not_ours_is_left_alone,
            missed::what_cannot_be_helped_is_told,
            missed::pods_on_the_wrong_nodes_are_told_of,
            missed::the_findings_of_a_deployment_are_one_event,
            missed::findings_are_told_where_a_person_looks,
        ]
    ));
    let later = Arc::new(ForAll::by(missed::Missed::start));
    trials.extend(trials!(runtime, later, [missed::taints_that_appear_later_are_tolerated]));
    let asking = Arc::new(ForAll::by({
        let shared = Arc::clone(&shared);
        move || images::Asking::start(Arc::clone(&shared))
    }));
    trials.extend(trials!(
        runtime,
        asking,
        [
            images::what_the_registry_says_places_the_first_pod,
            images::in_the_background_it_places_the_next_pod,
            images::a_tag_that_moves_moves_the_next_pod,
            images::pods_are_admitted_while_the_registry_is_away,
        ]
    ));
    let certified = Arc::new(turns::OneAtATime::with(certificates::plane));
    trials.extend(trials!(
        runtime,
        certified,
        [certificates::whatever_happens_to_certificates_heals, certificates::no_call_fails_while_certificates_change,]
    ));
    let watched = Arc::new(turns::ForOne::<rights::Audited>::default());
    trials.extend(trials!(runtime, watched, [rights::those_of_the_chart_are_enough_and_used]));
    let installed = Arc::new(turns::OneAtATime::with(ownership::plane));
    trials.extend(trials!(
        runtime,
        installed,
        [
            ownership::what_was_made_goes_with_the_release,
            ownership::what_was_nobodys_is_adopted,
            ownership::a_cluster_starts_cold,
        ]
    ));
    // Configurations of the whole cluster.
    let registered = Arc::new(turns::OneAtATime::default());
    trials.extend(trials!(
        runtime,
        registered,
        [
            registration::settled_linux_is_nobodys_call,
            registration::the_server_asks_about_exactly_what_it_shall,
            registration::the_largest_pods_are_judged,
            registration::an_outage_stops_windows_pods_at_most,
            registration::an_upgrade_leaves_the_bundle,
            registration::policies_are_judged_where_they_are_mounted,
        ]
    ));
    let talking = Arc::new(turns::ForOne::<audit_mode::Audited>::default());
    trials.extend(trials!(runtime, talking, [audit_mode::what_would_be_is_written_down_and_counted]));
    let sites = Arc::new(cases::Sites::default());
    let cases = cases::trials(runtime.handle(), &sites, &trials);
    trials.extend(cases);
    let conclusion = libtest_mimic::run(&arguments, trials);
    if conclusion.has_failed() {
        shared.keep_logs();
        limited.keep_logs();
        missed.keep_logs();
        later.keep_logs();
        asking.keep_logs();
        sites.keep_logs();
    }
    drop((
        shared,
        alone,
        weather,
        remembering,
        withdrawn,
        limited,
        missed,
        later,
        asking,
        certified,
        installed,
        registered,
        sites,
    ));
    conclusion.exit_code()
}
