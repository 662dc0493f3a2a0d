//! The chart under every values file of `charts/mullion/ci`: what Helm renders, what the API server says to it, and what
//! an upgrade from each to each other leaves.
//!
//! One trial for each check and values file; `cargo test --test chart eks` runs those of one file. One control plane is
//! shared by the checks that need one. Needs the control-plane tools, of which Helm is one: `make test` builds them.
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
use libtest_mimic::{Arguments, Failed, Trial};
use mullion_cluster::trial;

use crate::rendered::Rendered;
use crate::server::Server;

/// What must hold for the chart under each values file, without a cluster.
const OFFLINE: &[(&str, Check)] = &[
    ("lint", repeated::helm_lint_has_nothing_to_say),
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
    ("network-policy", network::policies_let_in_who_must),
    ("monitors", network::monitors_find_their_services),
    ("flags", program::every_flag_is_known),
    ("check", program::check_finds_nothing),
    ("engine", program::the_engine_leaves_the_pods_on_linux),
    ("policy-check", program::policies_load),
    ("rights", rights::as_documented),
    ("no-more", rights::no_wildcards_and_no_writes_of_the_webhook),
];

/// What the API server says, for each values file.
const ASKED: &[(&str, Asked)] = &[
    ("accepted", |server, file| Box::pin(admitted::every_object_is_accepted(server, file))),
    ("pod-security", |server, file| Box::pin(admitted::pods_pass_pod_security(server, file))),
];

type Check = fn(&Rendered) -> Result<()>;
type Asked = for<'a> fn(&'a Server, &'a Rendered) -> futures::future::BoxFuture<'a, Result<()>>;

fn failed(error: &anyhow::Error) -> Failed {
    Failed::from(format!("{error:#}"))
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let files = rendered::files().expect("the values files");
    let mut trials = vec![
        Trial::test("values::schema_and_values_agree", || {
            documented::schema_and_values_agree().map_err(|e| failed(&e))
        }),
        Trial::test("values::wrong_ones_are_refused_in_words", || {
            values::wrong_ones_are_refused_in_words().map_err(|e| failed(&e))
        }),
        Trial::test("values::right_ones_are_taken", || values::right_ones_are_taken().map_err(|e| failed(&e))),
        Trial::test("values::missing_ones_are_named", || values::missing_ones_are_named().map_err(|e| failed(&e))),
        Trial::test("templates::no_template_asks_for_chance_clock_or_cluster", || {
            repeated::no_template_asks_for_chance_clock_or_cluster().map_err(|e| failed(&e))
        }),
        Trial::test("values::old_servers_are_refused", || values::old_servers_are_refused().map_err(|e| failed(&e))),
    ];
    for file in &files {
        for (name, check) in OFFLINE {
            let file = Arc::clone(file);
            trials.push(Trial::test(format!("{}::{name}", file.name), move || check(&file).map_err(|e| failed(&e))));
        }
    }
    let server = Arc::new(Server::default());
    let on_server = |name: String, files: Vec<Arc<Rendered>>, check: EachOrAll| {
        let server = Arc::clone(&server);
        trial(runtime.handle(), name, async move {
            match check {
                EachOrAll::Each(check) => check(&server, &files[0]).await,
                EachOrAll::All(check) => check(&server, &files).await,
            }
        })
    };
    for file in &files {
        for (name, check) in ASKED {
            trials.push(on_server(format!("{}::{name}", file.name), vec![Arc::clone(file)], EachOrAll::Each(*check)));
        }
    }
    let all: [(&str, AskedOfAll); 3] = [
        ("upgrades::each_to_each_keeps_the_bundle", |server, files| {
            Box::pin(upgrades::each_to_each_keeps_the_bundle(server, files))
        }),
        ("upgrades::helm_and_kubectl_keep_the_bundle_and_do_not_drift", |server, files| {
            Box::pin(upgrades::helm_and_kubectl_keep_the_bundle_and_do_not_drift(server, files))
        }),
        ("upgrades::no_immutable_field_changes", |server, files| {
            Box::pin(upgrades::no_immutable_field_changes(server, files))
        }),
    ];
    for (name, check) in all {
        trials.push(on_server(name.to_owned(), files.clone(), EachOrAll::All(check)));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if conclusion.has_failed() {
        server.keep_logs();
    }
    drop(server);
    conclusion.exit_code()
}

type AskedOfAll = for<'a> fn(&'a Server, &'a [Arc<Rendered>]) -> futures::future::BoxFuture<'a, Result<()>>;

enum EachOrAll {
    Each(Asked),
    All(AskedOfAll),
}
