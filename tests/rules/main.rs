//! The rule catalogue against its pages, its documents and its fixtures.
//!
//! For each rule: the page has its six headings, its example triggers only the rule, its remedy has no finding, and
//! `tests/rules/<CODE>/` contains manifests with their findings and repair. What is generated from the catalogue
//! (`policies/rules/`, `findings.txt`, `fixed.yaml`) must be current; `make rules` generates it. `cargo test --test
//! rules MUL201` runs the trials of one rule.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
#![allow(unreachable_pub, reason = "modules of one test program")]

mod documents;
mod example;
mod fixture;
mod golden;
mod kubernetes;
mod page;
mod run;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use mullion_engine::rules::catalogue;

/// The result of a check: its complaints, one line each.
type Checked = Result<(), String>;

fn main() -> ExitCode {
    let mut trials = vec![
        trial("documents::pages", documents::pages),
        trial("documents::index", documents::index),
        trial("documents::survey_findings", documents::survey_findings),
        trial("page::every_text_has_a_rule", page::every_text_has_a_rule),
        trial("fixture::every_folder_has_a_rule", fixture::every_folder_has_a_rule),
        trial("kubernetes::rows_are_well_formed", kubernetes::rows_are_well_formed),
        trial("kubernetes::every_row_has_its_rule", kubernetes::every_row_has_its_rule),
        trial("kubernetes::every_rule_about_a_field_has_a_row", kubernetes::every_rule_about_a_field_has_a_row),
    ];
    for rule in catalogue() {
        trials.push(trial(&format!("{}::page", rule.code), move || page::check(rule)));
        trials.push(trial(&format!("{}::example", rule.code), move || example::check(rule)));
        trials.push(trial(&format!("{}::fixture", rule.code), move || fixture::check(rule)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(name: &str, check: impl FnOnce() -> Checked + Send + 'static) -> Trial {
    Trial::test(name, move || match catch_unwind(AssertUnwindSafe(check)) {
        Ok(checked) => checked.map_err(Failed::from),
        Err(_) => Err(Failed::from("it panicked; see above")),
    })
}

/// All complaints as one, or none.
fn all(complaints: &[String]) -> Checked {
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}
