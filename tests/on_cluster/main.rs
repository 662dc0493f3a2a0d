//! Tests of Mullion on a real control plane, with the API server, the scheduler and the DaemonSet controller.
//!
//! Trials share control planes: one with Mullion's webhook and controller for most of them, a namespace each; a pool of
//! bare ones for those that change nodes or configurations, one trial at a time; and one for each set of API server
//! flags. `cargo test --test on_cluster NAME` runs the trials whose name contains NAME. They need the control-plane
//! tools: `make tools` builds them.
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

mod any_objects;
mod audit;
mod audit_mode;
mod cases;
mod certificates;
mod client_certificates;
mod connections;
mod differential;
mod field_types;
mod fields;
#[path = "../generator/mod.rs"]
mod generator;
mod hostile_facts;
mod hostile_objects;
mod hostile_requests;
mod identity;
mod images;
mod in_force;
mod karpenter;
mod leaders;
mod memory;
mod missed;
mod namespaces;
mod node_pools;
mod nodes;
mod ownership;
mod plan;
mod plugin;
mod policies;
mod proxy;
mod reachability;
mod reading;
mod registration;
#[path = "../registry/server.rs"]
#[expect(dead_code, reason = "shared with the tests of the registry client, which push more kinds of things")]
mod registry;
mod repair;
mod rights;
mod shared;
mod status;
mod stored_fields;
mod survey;
mod survival;
mod verify;
mod withdraw;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use mullion_cluster::{ControlPlane, Pool, Shared, Suite, trials};

/// The number of trials at the same time. Most of them wait; with more, each takes longer on two processors.
const AT_ONCE: usize = 8;
/// The number of bare control planes at the same time.
const PLANES: usize = 3;

#[allow(clippy::too_many_lines, reason = "the list of all trials")]
fn main() -> ExitCode {
    if let Some(code) = shared::webhook_with_registries_on_loopback() {
        return code;
    }
    let arguments = Arguments::from_args();
    let mut suite = Suite::new("on_cluster", AT_ONCE);

    // The longest come first, because others use the processors meanwhile.
    let large = Pool::new(1, || ControlPlane::builder().start()); // stopping it takes less than deleting 1,000 pods
    suite.pooled(&large, trials![survey::every_planted_fault_is_found]);
    let planes = Pool::new(PLANES, || ControlPlane::builder().start());
    suite.pooled(
        &planes,
        trials![
            plan::an_eks_fleet_moves,
            plan::an_aks_fleet_moves,
            plan::aks_pools_change_in_place,
            plan::an_rke2_fleet_moves,
            registration::the_server_calls_for_exactly_the_expected_requests,
            survival::every_network_failure,
            survival::the_api_server_restarts,
            reachability::the_webhook_is_reported_as_reachable_or_not,
            registration::controller_users_are_those_of_the_cluster,
            registration::explicitly_linux_pods_cause_no_call,
            registration::long_lists_cost_little,
            registration::an_outage_stops_windows_pods_at_most,
            registration::an_upgrade_leaves_the_bundle,
            registration::policies_are_judged_where_they_are_mounted,
            memory::seen_taints_survive_the_pool_and_the_processes,
            memory::bad_policy_files_do_not_stop_a_start,
            memory::a_new_node_has_its_taint_at_once,
            memory::permission_to_taint_at_create_follows_the_daemon_sets,
            memory::earlier_taints_are_removed_and_forged_ones_kept,
            memory::only_recorded_taints_are_mullions,
            memory::a_lost_label_changes_no_other_pod,
            memory::a_node_that_cycles_its_kernel_version_leaves_nothing,
            policies::admins_see_the_result_of_their_edit,
            repair::pods_from_before_mullion_start_elsewhere,
            survey::drivers_of_claims_from_templates,
            reading::nodes_without_a_needed_feature_are_named,
            node_pools::node_pools_are_read_if_rights_allow_it,
            in_force::the_policies_of_the_cluster_decide,
            in_force::what_is_not_reviewed_is_named,
            hostile_facts::long_annotations_and_taints_cost_little,
            status::faults_are_shown_with_their_names,
            status::evidence_that_is_gone_is_not_known,
            withdraw::nodes_are_left_as_they_were_found,
            withdraw::classes_that_are_named_stay,
            withdraw::a_record_frees_no_node_of_foreign_taints,
            withdraw::a_tenant_is_not_believed,
            nodes::nodes_get_labels_taints_and_classes,
            nodes::nodes_of_every_kind,
            nodes::policies_change_only_what_is_ours,
            nodes::repeated_removals_are_left,
            nodes::classes_are_kept_without_a_fight,
            nodes::a_taint_waits_for_daemonsets,
            nodes::a_taint_waits_for_a_windows_cni,
            nodes::a_taint_waits_for_a_windows_pod_out_of_reach,
            nodes::linux_daemonsets_hold_a_taint_where_they_run,
            nodes::a_broken_windows_daemonset_holds_a_taint,
            nodes::a_tenants_daemonset_is_named_and_can_be_left_out,
            nodes::classes_are_limited,
            nodes::releases_come_and_go,
            nodes::racing_writers_lose_no_taint,
            nodes::the_snapshot_follows_the_cluster,
            hostile_requests::names_in_requests_leave_no_memory,
        ],
    );
    let certified = Pool::new(1, || certificates::plane().start());
    suite.pooled(
        &certified,
        trials![
            certificates::no_call_fails_while_certificates_change,
            certificates::whatever_happens_to_certificates_heals
        ],
    );
    let verified = Pool::new(1, || verify::plane().start());
    suite.pooled(
        &verified,
        trials![
            verify::each_broken_thing_fails_its_check,
            verify::a_healthy_cluster_passes_and_nothing_is_left,
            verify::a_large_cluster_costs_few_requests,
        ],
    );
    cases::add(&mut suite);
    let led = Shared::new(leaders::Audited::start);
    suite.shared(&led, trials![leaders::one_writes_at_a_time]);
    let installed = Pool::new(1, || ownership::plane().start());
    suite.pooled(
        &installed,
        trials![
            ownership::run_time_objects_are_deleted_with_the_release,
            ownership::objects_without_owner_are_adopted,
            ownership::a_cluster_starts_cold,
        ],
    );
    let watched = Shared::new(rights::Audited::start);
    suite.shared(&watched, trials![rights::those_of_the_chart_are_enough_and_used]);
    let talking = Shared::new(audit_mode::Audited::start);
    suite.shared(&talking, trials![audit_mode::audit_annotations_and_metrics_show_the_outcomes]);

    let shared = Shared::new(shared::Shared::start);
    suite.shared(
        &shared,
        trials![
            differential::catalogue_and_server_agree,
            field_types::the_table_matches_the_server,
            field_types::the_values_match_the_server,
            field_types::the_server_rejects_every_other_value,
            field_types::the_server_agrees_about_operators,
            field_types::the_server_agrees_about_common_manifests,
            field_types::the_server_agrees_about_every_field,
            identity::the_server_rejects_what_the_catalogue_reports,
            identity::templates_have_the_servers_own_paths,
            identity::ephemeral_containers_are_compared_with_their_pod,
            fields::every_linux_only_value_is_repaired_or_denied,
            fields::every_value_in_an_ephemeral_container_is_repaired_or_denied,
            namespaces::a_pod_in_a_new_namespace_is_placed_by_its_annotation,
            plugin::kubectl_runs_and_completes_it,
            reading::commands_read_what_is_there,
            reading::placed_objects_are_reported_without_changes,
            reading::the_shipped_role_is_enough,
            reading::fewer_rights_are_reported_first,
            connections::no_review_is_lost_while_slots_are_short,
            connections::the_api_server_offers_no_http_2,
            hostile_requests::field_owners_of_any_depth_are_reviewed,
            hostile_requests::redundant_pods_are_reviewed,
        ],
    );
    let user = std::sync::Mutex::new(Some(Shared::user(&shared)));
    let registries = Shared::new(move || {
        let user = user.lock().unwrap().take();
        async move { images::Registries::start(user.expect("it starts once")).await }
    });
    suite.shared(
        &registries,
        trials![
            images::the_registry_places_the_first_pod,
            images::in_the_background_the_registry_places_the_next_pod,
            images::a_tag_that_moves_changes_the_next_pod,
            images::pods_are_admitted_while_the_registry_is_away,
        ],
    );
    let missed = Shared::new(missed::Missed::start);
    suite.shared(
        &missed,
        trials![
            missed::windows_pods_made_without_mullion_land,
            missed::other_pods_stay_unchanged,
            missed::unrepairable_pods_are_reported,
            missed::pods_on_the_wrong_nodes_are_reported,
            missed::the_findings_of_a_deployment_are_one_event,
            missed::findings_are_reported_on_the_top_level_owner,
            missed::a_tenant_with_many_pods_delays_no_other,
            missed::a_tenant_with_many_reports_uses_up_its_own_share,
        ],
    );
    let later = Shared::new(missed::Missed::start);
    suite.shared(&later, trials![missed::taints_that_appear_later_are_tolerated]);
    suite.trial(
        "client_certificates::the_api_server_shows_its_certificate",
        client_certificates::the_api_server_shows_its_certificate(),
    );
    suite.trial("hostile_objects::are_isolated_in_streamed_lists", hostile_objects::are_isolated_in_streamed_lists());
    suite.trial("hostile_objects::are_isolated_in_plain_lists", hostile_objects::are_isolated_in_plain_lists());
    suite.trial("nodes::many_nodes_get_one_patch_each", nodes::many_nodes_get_one_patch_each());
    // This needs Karpenter: `make karpenter`.
    if karpenter::folder().is_some() {
        suite.pooled(&planes, trials![karpenter::pools_at_zero_are_started_for_their_pods]);
    }
    cases::add_runner(&mut suite);
    suite.run(arguments)
}
