//! Checks of the policies in force, and of exemptions that end.

use jiff::Timestamp;
use mullion_engine::model::text::counted;
use mullion_policy::warnings::EXEMPTION_NOTICE;

use crate::cli::status::check::{Section, StatusCheck};
use crate::cli::status::facts::{StatusFacts, age};
use crate::cluster::state::{ExemptionReport, PolicySummary};

const SECTION: Section = Section::Policies;

pub(crate) fn checks(facts: &StatusFacts, now: Timestamp) -> Vec<StatusCheck> {
    let summary = match facts.reported(now, |report| report.policies.as_ref(), "the controller has not reported them") {
        Ok(summary) => summary,
        Err(why) => {
            let next = "check the controller above";
            let unknown = |name, subject| StatusCheck::unknown(SECTION, name, subject, &why, next);
            return vec![
                unknown("policies-loaded", "which policies are in force is"),
                unknown("exemptions", "which exemptions end is"),
            ];
        }
    };
    let mut checks = vec![loaded(facts, summary)];
    let kept = facts.state().ok().and_then(|state| state.condition("PoliciesKept"));
    if let Some(kept) = kept.filter(|condition| condition.status == "False") {
        let next = "make the files smaller, in most cases by shorter lists of images";
        checks.push(StatusCheck::notice(SECTION, "policies-kept", kept.message.clone(), next));
    }
    checks.push(exemptions(summary, now));
    checks
}

fn loaded(facts: &StatusFacts, summary: &PolicySummary) -> StatusCheck {
    let name = "policies-loaded";
    let PolicySummary { hash, files, policies, problems, last_error, .. } = summary;
    let in_force = if *files == 0 {
        "the built-in policies are in force".to_owned()
    } else {
        let are = if *policies == 1 { "is" } else { "are" };
        format!("{} of {} {are} in force, hash {hash}", counted(*policies, "policy"), counted(*files, "file"))
    };
    if *problems > 0 {
        let items = last_error.iter().cloned().collect();
        let message =
            format!("the policy files have {}; until they are valid, {in_force}", counted(*problems, "problem"));
        let next = format!(
            "mullion policy check DIR finds all of them; kubectl get events -n {} --field-selector \
             involvedObject.name=mullion-state",
            facts.namespace
        );
        return StatusCheck::bad(SECTION, name, message, next).with_items(items);
    }
    StatusCheck::good(SECTION, name, in_force)
}

fn exemptions(summary: &PolicySummary, now: Timestamp) -> StatusCheck {
    let name = "exemptions";
    let PolicySummary { exemptions, more_exemptions, .. } = summary;
    if exemptions.is_empty() {
        return StatusCheck::good(SECTION, name, "no policy has an end");
    }
    let end = |exemption: &ExemptionReport| exemption.end.parse::<Timestamp>().ok();
    let line = |exemption: &ExemptionReport| {
        let ExemptionReport { policy, scope, until, .. } = exemption;
        let when = match end(exemption) {
            Some(end) if end <= now => format!("ended {} ago and has no effect", age(now, end)),
            Some(end) => format!("ends in {}", age(end, now)),
            None => "has an end that cannot be read".to_owned(),
        };
        format!("PodPolicy {policy} ({scope}) {when} (until {until})")
    };
    let mut items: Vec<String> = exemptions.iter().map(line).collect();
    if *more_exemptions > 0 {
        items.push(format!("and {more_exemptions} more"));
    }
    let ended = exemptions.iter().filter(|one| end(one).is_some_and(|end| end <= now)).count();
    let soon = exemptions
        .iter()
        .filter(|one| end(one).is_none_or(|end| end > now && end.as_second() - now.as_second() <= EXEMPTION_NOTICE));
    let (soon, all) = (soon.count(), exemptions.len() + more_exemptions);
    let have = if all == 1 { "has" } else { "have" };
    let message = format!("{} {have} an end: {ended} ended, {soon} in the next 30 days", counted(all, "policy"));
    if ended + soon == 0 {
        return StatusCheck::good(SECTION, name, message).with_items(items);
    }
    let next = "remove what has ended; before the others end, fix what they exempt or set a later until";
    StatusCheck::notice(SECTION, name, message, next).with_items(items)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;
    use crate::cli::status::check::CheckResult;
    use crate::cli::status::check::CheckResult::{Bad, Good, Notice, Unknown};
    use crate::cli::status::check::tests::expect_check;
    use crate::cli::status::facts::tests::{ago, condition, good, now, with_report, with_state};

    #[track_caller]
    fn expect(facts: &StatusFacts, name: &str, result: CheckResult, parts: &[&str]) {
        expect_check(checks(facts, now()), name, result, parts);
    }

    fn with(change: impl FnOnce(&mut PolicySummary)) -> StatusFacts {
        with_report(|report| change(report.policies.as_mut().unwrap()))
    }

    #[test]
    fn problems_of_files_are_shown_with_what_is_in_force() {
        let name = "policies-loaded";
        expect(&good(), name, Good, &["2 policies of 1 file are in force, hash abc"]);
        expect(&with(|one| *one = PolicySummary::default()), name, Good, &["the built-in policies are in force"]);
        let bad = with(|one| (one.problems, one.last_error) = (3, Some("a.yaml:5:3: no".to_owned())));
        expect(&bad, name, Bad, &["the policy files have 3 problems; until they are valid, 2 pol", "a.yaml:5:3: no"]);
        expect(&with_report(|report| report.policies = None), name, Unknown, &["has not reported them"]);
        expect(&with_state(|state| state.report = None), "exemptions", Unknown, &["has not written"]);
        let large = with_state(|state| state.set_condition(condition("PoliciesKept", "False", "too large")));
        expect(&large, "policies-kept", Notice, &["too large"]);
    }

    #[test]
    fn exemptions_that_end_are_listed() {
        let exemption = |policy: &str, end: String| ExemptionReport {
            policy: policy.to_owned(),
            scope: "namespaces shop".to_owned(),
            until: "2026-01-01".to_owned(),
            end,
        };
        let of = |all: Vec<ExemptionReport>| with(|one| one.exemptions = all);
        let name = "exemptions";
        expect(&good(), name, Good, &["no policy has an end"]);
        let late = || exemption("late", ago(-31 * 86_400));
        expect(
            &of(vec![late()]),
            name,
            Good,
            &["1 policy has an end: 0 ended", "PodPolicy late (namespaces shop) ends in 31d"],
        );
        let soon = exemption("soon", ago(-86_400));
        expect(
            &of(vec![soon, late()]),
            name,
            Notice,
            &["2 policies have an end: 0 ended, 1 in", "soon (namespaces shop) ends in 24h"],
        );
        let ended = exemption("old", ago(86_400));
        expect(
            &of(vec![late(), ended]),
            name,
            Notice,
            &["1 ended, 0 in", "ended 24h ago and has no effect (until 2026-01-01)"],
        );
        expect(&of(vec![exemption("odd", "x".to_owned())]), name, Notice, &["cannot be read"]);
        expect(
            &with(|one| (one.exemptions, one.more_exemptions) = (vec![late()], 7)),
            name,
            Good,
            &["8 policies", "and 7 more"],
        );
    }
}
