//! Checks of what the controller reports in ConfigMap `mullion-state`: that the policy files are valid and in force, and that
//! no pod was missed.

use jiff::Timestamp;
use mullion_engine::model::text::{counted, shorten};

use crate::cli::verify::checks::outcome::CheckOutcome;
use crate::cli::verify::facts::ClusterFacts;
use crate::cluster::state::{ControllerReport, MAX_REPORT_AGE, NAME, PolicySummary};

/// The longest problem that is shown, in characters.
const MAX_PROBLEM: usize = 300;

/// `policies-loaded`.
pub(in crate::cli::verify) fn policies_loaded(facts: &ClusterFacts, now: Timestamp) -> CheckOutcome {
    let report = match report(facts, now) {
        Ok(report) => report,
        Err(outcome) => return outcome,
    };
    let Some(PolicySummary { hash, files, policies, problems, last_error, .. }) = &report.policies else {
        return CheckOutcome::skipped("the controller has not reported them yet");
    };
    if *problems > 0 {
        let error = last_error.iter().map(|error| shorten(error, MAX_PROBLEM)).collect();
        return CheckOutcome::failed(format!("the policy files have {}", counted(*problems, "problem")))
            .with_items(error);
    }
    match &facts.policies {
        Err(why) => CheckOutcome::failed(shorten(why, MAX_PROBLEM)),
        Ok(_) if *files == 0 => CheckOutcome::ok("the built-in policies are in force"),
        Ok(_) => {
            CheckOutcome::ok(format!("{} of {}, hash {hash}", counted(*policies, "policy"), counted(*files, "file")))
        }
    }
}

/// `missed-pods`.
pub(in crate::cli::verify) fn missed_pods(facts: &ClusterFacts, now: Timestamp) -> CheckOutcome {
    let counts = match report(facts, now) {
        Ok(report) => report.missed_pods.as_ref(),
        Err(outcome) => return CheckOutcome::skipped(outcome.seen),
    };
    match counts {
        None => CheckOutcome::skipped("the controller has not counted them yet"),
        Some(counts) if counts.total == 0 => CheckOutcome::ok("none"),
        Some(counts) => {
            let item =
                |(namespace, pods): (&String, &usize)| format!("namespace {namespace}: {}", counted(*pods, "pod"));
            let items = counts.namespaces.iter().map(item).collect();
            CheckOutcome::failed(counted(counts.total, "pod")).with_items(items)
        }
    }
}

/// The controller's report, if it is new; otherwise the outcome of a check that needs it.
fn report(facts: &ClusterFacts, now: Timestamp) -> Result<&ControllerReport, CheckOutcome> {
    let namespace = facts.namespace.as_ref().map_err(|why| CheckOutcome::skipped(why.clone()))?;
    let state = match &facts.state {
        Ok(Some(state)) => state,
        Ok(None) => {
            let seen =
                format!("there is no ConfigMap {NAME} in namespace {namespace}, so no controller has worked here");
            return Err(CheckOutcome::failed(seen));
        }
        Err(why) => {
            return Err(CheckOutcome::skipped(format!("ConfigMap {NAME} not known: {}", shorten(why, MAX_PROBLEM))));
        }
    };
    let report =
        state.report.as_ref().ok_or_else(|| CheckOutcome::failed("the controller has not written a report"))?;
    let written = report.written.parse::<Timestamp>().ok();
    let age = written.map(|written| now.as_second() - written.as_second());
    match age {
        Some(age) if age <= MAX_REPORT_AGE => Ok(report),
        Some(age) => Err(CheckOutcome::failed(format!("the last report of the controller is {} min old", age / 60))),
        None => Err(CheckOutcome::failed("the report of the controller has no valid time")),
    }
}
