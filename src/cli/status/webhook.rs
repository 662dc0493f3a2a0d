//! Checks of the webhook: whether it is registered, whether the API server reaches it, and its certificates.

use jiff::Timestamp;
use mullion_engine::model::text::list;

use crate::cli::status::check::{Section, StatusCheck};
use crate::cli::status::facts::{ConfigurationFacts, MAX_PROBE_AGE, StatusFacts, age, outdated};
use crate::cluster::state::{CertificateDates, CertificateReport};
use crate::controller::PODS_WEBHOOK;

const SECTION: Section = Section::Webhook;

pub(crate) fn checks(facts: &StatusFacts, now: Timestamp) -> Vec<StatusCheck> {
    let mut checks: Vec<StatusCheck> = facts.configurations.iter().map(registered).collect();
    checks.push(reached(facts, now));
    checks.extend(certificates(facts, now));
    checks
}

fn registered(configuration: &ConfigurationFacts) -> StatusCheck {
    let ConfigurationFacts { kind, webhooks, .. } = configuration;
    let name = if kind.starts_with("Mutating") { "mutating-registered" } else { "validating-registered" };
    let object = kind.to_lowercase();
    let webhooks = match webhooks {
        Ok(Some(webhooks)) => webhooks,
        Ok(None) => {
            let message = format!("there is no {kind} mullion: pods are admitted without Mullion");
            let next = "helm upgrade creates it again; until then, no pod is placed or checked";
            return StatusCheck::bad(SECTION, name, message, next);
        }
        Err(why) => {
            let next = format!("kubectl get {object} mullion");
            return StatusCheck::unknown(SECTION, name, &format!("{kind} mullion is"), why, next);
        }
    };
    let items: Vec<String> =
        webhooks.iter().map(|webhook| format!("{}: failurePolicy {}", webhook.name, webhook.failure_policy)).collect();
    let untrusted: Vec<&str> =
        webhooks.iter().filter(|webhook| !webhook.trusted).map(|webhook| webhook.name.as_str()).collect();
    if !webhooks.iter().any(|webhook| webhook.name == PODS_WEBHOOK) {
        let message = format!("{kind} mullion has no webhook {PODS_WEBHOOK}: pods are admitted without Mullion");
        let next = "set chart value admission.pods: true";
        return StatusCheck::bad(SECTION, name, message, next).with_items(items);
    }
    if !untrusted.is_empty() {
        let message = format!("{kind} mullion has no caBundle for {}: calls of the API server fail", list(untrusted));
        let next = "check the certificates below, or the tool that fills in caBundle";
        return StatusCheck::bad(SECTION, name, message, next).with_items(items);
    }
    StatusCheck::good(SECTION, name, format!("{kind} mullion is registered, with caBundle")).with_items(items)
}

fn reached(facts: &StatusFacts, now: Timestamp) -> StatusCheck {
    let (name, subject) = ("webhook-reached", "whether the API server reaches the webhook is");
    let namespace = &facts.namespace;
    let next = format!(
        "kubectl get endpointslices -n {namespace} -l kubernetes.io/service-name=mullion-webhook; kubectl logs \
         deployment/mullion-webhook -n {namespace}"
    );
    if facts.withdrawn().is_some() {
        let next = "run mullion withdraw --undo to probe it again";
        return StatusCheck::notice(SECTION, name, "the webhook is not probed while Mullion is withdrawn", next);
    }
    let condition = match facts.state() {
        Ok(state) => state.condition("Reachable"),
        Err(why) => return StatusCheck::unknown(SECTION, name, subject, &why, next),
    };
    let probe = match facts.report(now) {
        Ok(report) => report.probe.as_ref().and_then(|probe| Some((probe, probe.time.parse::<Timestamp>().ok()?))),
        Err(why) => return StatusCheck::unknown(SECTION, name, subject, &why, next),
    };
    let (Some(condition), Some((probe, time))) = (condition, probe) else {
        return StatusCheck::unknown(SECTION, name, subject, "the controller has not probed it yet", next);
    };
    if let Some(how) = outdated(now, time, MAX_PROBE_AGE) {
        return StatusCheck::unknown(SECTION, name, subject, &format!("the last probe is {how}"), next);
    }
    let old = age(now, time);
    match condition.status.as_str() {
        "True" if probe.outcome == "reached" => {
            if let Some(why) = changed_since(facts, time) {
                return StatusCheck::unknown(SECTION, name, subject, &why, next);
            }
            StatusCheck::good(SECTION, name, format!("the API server reaches the webhook; probed {old} ago"))
        }
        "True" => {
            let message = format!("the last probe of the webhook failed, {old} ago; a single failure may be temporary");
            StatusCheck::notice(SECTION, name, message, next)
        }
        "False" if condition.reason == "NotRegistered" => {
            let message = "the webhook is not registered with the API server";
            let next = "helm upgrade creates the webhook configurations again";
            StatusCheck::bad(SECTION, name, message, next).with_items(vec![condition.message.clone()])
        }
        "False" => {
            let message = format!("the API server does not reach the webhook; probed {old} ago");
            StatusCheck::bad(SECTION, name, message, next).with_items(vec![condition.message.clone()])
        }
        _ => StatusCheck::unknown(SECTION, name, subject, condition.message.trim_end_matches('.'), next),
    }
}

/// Why a probe of that time is no evidence of the webhook that is registered and runs now.
fn changed_since(facts: &StatusFacts, probe: Timestamp) -> Option<String> {
    let is_newer = |one: &&ConfigurationFacts| one.created.is_some_and(|created| created > probe);
    if let Some(newer) = facts.configurations.iter().find(is_newer) {
        return Some(format!("{} mullion was created after the last probe", newer.kind));
    }
    let mut deployments = facts.deployments.iter().flatten();
    let none_is_ready = deployments.any(|deployment| deployment.component == "webhook" && deployment.ready == 0);
    none_is_ready.then(|| "no pod of the webhook is ready now".to_owned())
}

fn certificates(facts: &StatusFacts, now: Timestamp) -> Vec<StatusCheck> {
    let section = Section::Certificates;
    let next = format!("kubectl logs deployment/mullion-controller -n {}", facts.namespace);
    let certificates =
        facts.reported(now, |report| report.certificates.as_ref(), "the controller has not read them yet");
    let CertificateReport { managed, ca, serving, last_error } = match certificates {
        Ok(certificates) => certificates,
        Err(why) => {
            return vec![StatusCheck::unknown(section, "certificates", "the webhook's certificates are", &why, next)];
        }
    };
    if !managed {
        let message = "the controller keeps no certificates; the tool that provides them renews them";
        return vec![StatusCheck::good(section, "certificates", message)];
    }
    let mut checks = vec![
        certificate("ca-certificate", "the CA", ca.as_ref(), &next, now),
        certificate("serving-certificate", "the serving certificate", serving.as_ref(), &next, now),
    ];
    if let Some(error) = last_error {
        let message = format!("the controller could not maintain the certificates: {error}");
        checks.push(StatusCheck::bad(section, "certificates-maintained", message, next));
    }
    checks
}

fn certificate(
    name: &'static str,
    subject: &str,
    dates: Option<&CertificateDates>,
    next: &str,
    now: Timestamp,
) -> StatusCheck {
    let section = Section::Certificates;
    let Some(dates) = dates else {
        return StatusCheck::bad(section, name, format!("there is no valid one: {subject} must be issued again"), next);
    };
    let parse = |text: &str| text.parse::<Timestamp>().ok();
    let Some((from, to)) = parse(&dates.not_before).zip(parse(&dates.not_after)) else {
        return StatusCheck::unknown(section, name, &format!("{subject} is"), "its dates cannot be read", next);
    };
    let left = age(to, now);
    let day_of = |text: &str| text.get(..10).unwrap_or(text).to_owned();
    let (first, day) = (day_of(&dates.not_before), day_of(&dates.not_after));
    let life = to.as_second() - from.as_second();
    if now >= to {
        let message = format!("{subject} expired {} ago, on {day}", age(now, to));
        return StatusCheck::bad(section, name, message, next);
    }
    // The controller replaces it after two thirds of its lifetime, and the CA in steps that take minutes.
    if (now.as_second() - from.as_second()) / 3 * 4 > life {
        let message = format!("{subject} expires in {left}, on {day}, and should have been replaced");
        return StatusCheck::bad(section, name, message, next);
    }
    StatusCheck::good(section, name, format!("{subject} is valid from {first} to {day}, {left} from now"))
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;
    use crate::cli::status::check::CheckResult;
    use crate::cli::status::check::CheckResult::{Bad, Good, Notice, Unknown};
    use crate::cli::status::check::tests::expect_check;
    use crate::cli::status::facts::tests::{ago, condition, good, now, with_report, with_state};
    use crate::cluster::state::{ProbeReport, StateCondition};

    #[track_caller]
    fn expect(facts: &StatusFacts, name: &str, result: CheckResult, part: &str) {
        let check = expect_check(checks(facts, now()), name, result, &[]);
        assert!(check.message.contains(part), "{check:?}");
    }

    #[test]
    fn registrations_are_complete() {
        let with = |change: &dyn Fn(&mut ConfigurationFacts)| {
            let mut facts = good();
            change(&mut facts.configurations[0]);
            facts
        };
        let name = "mutating-registered";
        expect(&good(), name, Good, "MutatingWebhookConfiguration mullion is registered, with caBundle");
        let items = &checks(&good(), now())[0].items;
        assert_eq!(
            items[..],
            ["pods.mullion.dev: failurePolicy Ignore", "templates.mullion.dev: failurePolicy Ignore"]
        );
        expect(&with(&|one| one.webhooks = Ok(None)), name, Bad, "there is no MutatingWebhookConfiguration");
        expect(&with(&|one| one.webhooks = Err("no".to_owned())), name, Unknown, "not known: no");
        let untrusted = with(&|one| one.webhooks.as_mut().unwrap().as_mut().unwrap()[1].trusted = false);
        expect(&untrusted, name, Bad, "no caBundle for templates.mullion.dev");
        expect(&untrusted, "validating-registered", Good, "Validating");
        expect(&with(&|one| one.webhooks = Ok(Some(Vec::new()))), name, Bad, "no webhook pods.mullion.dev");
    }

    #[test]
    fn the_last_probe_counts_while_it_is_new() {
        let name = "webhook-reached";
        expect(&good(), name, Good, "probed 90s ago");
        let status = |status: &str| {
            with_state(|state| state.set_condition(condition("Reachable", status, "The API server cannot.")))
        };
        expect(&status("False"), name, Bad, "the API server does not reach the webhook; probed 90s ago");
        expect(&status("Unknown"), name, Unknown, "The API server cannot");
        let unregistered = with_state(|state| {
            let reason = "NotRegistered".to_owned();
            state.set_condition(StateCondition { reason, ..condition("Reachable", "False", "There is no.") });
        });
        expect(&unregistered, name, Bad, "the webhook is not registered");
        let items = checks(&unregistered, now()).into_iter().find(|check| check.name == name).unwrap().items;
        assert_eq!(items, ["There is no."]);
        expect(&with_state(|state| state.remove_condition("Reachable")), name, Unknown, "not probed it yet");
        expect(&with_state(|state| state.report = None), name, Unknown, "has not written");
        let probe = |seconds: i64, outcome: &str| {
            let probe = ProbeReport { time: ago(seconds), outcome: outcome.to_owned() };
            with_report(|report| report.probe = Some(probe))
        };
        expect(&probe(10, "missed"), name, Notice, "10s ago");
        expect(&probe(MAX_PROBE_AGE + 1, "reached"), name, Unknown, "15m old");
        expect(&with_report(|report| report.probe = None), name, Unknown, "not probed it yet");
        let withdrawn = with_state(|state| state.withdrawn = Some("x".to_owned()));
        expect(&withdrawn, name, Notice, "while Mullion is withdrawn");
    }

    #[test]
    fn certificates_have_an_age() {
        const DAY: i64 = 86_400;
        let serving = |from: i64, to: i64| {
            let dates = CertificateDates { not_before: ago(from), not_after: ago(-to) };
            with_report(|report| report.certificates.as_mut().unwrap().serving = Some(dates))
        };
        let name = "serving-certificate";
        expect(&serving(30 * DAY, 60 * DAY), name, Good, "is valid from 2026-05-02 to 2026-07-31, 60d from now");
        expect(&serving(66 * DAY, 24 * DAY), name, Good, "24d from now");
        expect(&serving(69 * DAY, 21 * DAY), name, Bad, "expires in 21d, on 2026-06-22, and should have been replaced");
        expect(&serving(91 * DAY, -DAY), name, Bad, "expired 24h ago, on 2026-05-31");
        let changed = |change: &dyn Fn(&mut CertificateReport)| {
            with_report(|report| change(report.certificates.as_mut().unwrap()))
        };
        expect(&changed(&|one| one.serving = None), name, Bad, "must be issued again");
        expect(&changed(&|one| one.ca = Some(CertificateDates::default())), "ca-certificate", Unknown, "its dates");
        let error = Some("403 Forbidden".to_owned());
        expect(&changed(&|one| one.last_error.clone_from(&error)), "certificates-maintained", Bad, "403 Forbidden");
        expect(&changed(&|one| one.managed = false), "certificates", Good, "keeps no certificates");
        expect(&with_report(|report| report.certificates = None), "certificates", Unknown, "not read them yet");
        expect(&with_state(|state| state.report = None), "certificates", Unknown, "has not written");
    }
}
