//! Checks of Mullion's processes: whether they run, in which version, which pod is the leader, and whether the leader
//! reports.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use mullion_engine::model::text::{list, list_with};
use mullion_survey::Facts;
use mullion_survey::facts::FactsTable;

use crate::cli::status::check::{Section, StatusCheck};
use crate::cli::status::facts::{DeploymentFacts, LeaseFacts, MAX_RENEWAL_AGE, PodFacts, StatusFacts, age};

const SECTION: Section = Section::Installation;

pub(crate) fn checks(facts: &StatusFacts, now: Timestamp) -> Vec<StatusCheck> {
    let mut checks = Vec::new();
    if let Some(since) = facts.withdrawn() {
        let message = format!("Mullion is withdrawn since {since}: it changes no nodes, RuntimeClasses and pods");
        let next = "run mullion withdraw --undo if that is not intended";
        checks.push(StatusCheck::bad(SECTION, "withdrawn", message, next));
    }
    checks.extend(["controller", "webhook"].map(|component| running(facts, component)));
    checks.push(versions(facts, now));
    checks.extend(tables_age(&Facts::built_in(), now));
    checks.push(leader(facts, now));
    checks.push(reporting(facts, now));
    checks
}

fn running(facts: &StatusFacts, component: &str) -> StatusCheck {
    let name = if component == "controller" { "controller-running" } else { "webhook-running" };
    let namespace = &facts.namespace;
    let pods = format!("kubectl get pods -n {namespace} -l app.kubernetes.io/component={component}");
    let subject = format!("whether the {component} runs is");
    let deployments = match &facts.deployments {
        Ok(deployments) => deployments,
        Err(why) => return StatusCheck::unknown(SECTION, name, &subject, why, pods),
    };
    let Some(deployment) = deployments.iter().find(|deployment| deployment.component == component) else {
        let why = format!(
            "there is no Deployment with the labels app.kubernetes.io/name=mullion and \
             app.kubernetes.io/component={component} in namespace {namespace}"
        );
        let next = "install the chart; if the process runs in another way, check it there";
        return StatusCheck::unknown(SECTION, name, &subject, &why, next);
    };
    let DeploymentFacts { replicas, ready, updated, .. } = deployment;
    let message = format!("{component}: {ready} of {replicas} pods are ready");
    let troubles = facts.pods.iter().flatten().filter(|pod| pod.component == component);
    let troubles: Vec<String> =
        troubles.filter_map(|pod| Some(format!("pod {}: {}", pod.name, pod.trouble.as_ref()?))).collect();
    if *replicas == 0 {
        let next = format!("kubectl scale deployment {} -n {namespace} --replicas=2", deployment.name);
        return StatusCheck::bad(SECTION, name, format!("{component}: scaled to 0 pods"), next);
    }
    if ready < replicas {
        let next = format!("{pods}; kubectl logs deployment/{} -n {namespace}", deployment.name);
        return StatusCheck::bad(SECTION, name, message, next).with_items(troubles);
    }
    if updated < replicas {
        let message = format!("{message}; {updated} of them are of the latest revision");
        let next = format!("kubectl rollout status deployment/{} -n {namespace}", deployment.name);
        return StatusCheck::notice(SECTION, name, message, next).with_items(troubles);
    }
    StatusCheck::good(SECTION, name, message)
}

fn versions(facts: &StatusFacts, now: Timestamp) -> StatusCheck {
    let (name, own) = ("versions", env!("CARGO_PKG_VERSION"));
    let of = |component: &str| -> BTreeSet<String> {
        let pods = facts.pods.iter().flatten().filter(|pod| pod.component == component);
        let tags: BTreeSet<String> = pods.filter_map(version_of).collect();
        if !tags.is_empty() {
            return tags;
        }
        let deployments = facts.deployments.iter().flatten().filter(|deployment| deployment.component == component);
        deployments.filter_map(|deployment| deployment.version.clone()).collect()
    };
    let (mut controller, webhook) = (of("controller"), of("webhook"));
    controller.extend(facts.report(now).ok().map(|report| report.version.clone()));
    let next = format!("kubectl get pods -n {} -o wide; compare their images", facts.namespace);
    for (component, versions) in [("controller", &controller), ("webhook", &webhook)] {
        if versions.is_empty() {
            let subject = format!("the version of the {component} is");
            let why = "neither its pods, nor its Deployment, nor the controller's report contain it";
            return StatusCheck::unknown(SECTION, name, &subject, why, next);
        }
    }
    if controller.len() > 1 || webhook.len() > 1 || controller != webhook {
        let message = format!("the controller is {}, and the webhook {}", several(&controller), several(&webhook));
        let next = "wait until the rollout has ended, or set the same image for both";
        return StatusCheck::notice(SECTION, name, message, next);
    }
    let version = list(&controller);
    if version != own {
        let message = format!("controller and webhook are {version}, and this command is {own}");
        return StatusCheck::notice(SECTION, name, message, format!("use mullion {version} with this cluster"));
    }
    StatusCheck::good(SECTION, name, format!("controller, webhook and this command are {version}"))
}

/// That the tables of facts of this version are old. Webhook and controller of the same version have the same tables.
fn tables_age(facts: &Facts, now: Timestamp) -> Option<StatusCheck> {
    let age = facts.age(&FactsTable::ALL, now.to_zoned(TimeZone::UTC).date())?;
    let message = format!("of mullion {}, {age}", env!("CARGO_PKG_VERSION"));
    let next =
        "use a newer version of Mullion; mullion survey and mullion plan also read newer tables with --facts FILE";
    Some(StatusCheck::notice(SECTION, "tables-age", message, next))
}

/// The tag of a pod's image without a leading `v`, if it begins like a version.
fn version_of(pod: &PodFacts) -> Option<String> {
    let tag = pod.tag.as_deref()?;
    let version = tag.strip_prefix('v').unwrap_or(tag);
    version.starts_with(|c: char| c.is_ascii_digit()).then(|| version.to_owned())
}

fn several(versions: &BTreeSet<String>) -> String {
    list_with(versions, "and")
}

fn leader(facts: &StatusFacts, now: Timestamp) -> StatusCheck {
    let name = "leader";
    let logs = format!("kubectl logs deployment/mullion-controller -n {}", facts.namespace);
    let lease = match &facts.lease {
        Err(why) => return StatusCheck::unknown(SECTION, name, "which controller leads is", why, logs),
        Ok(None) => {
            let message = format!("no controller leads: there is no Lease mullion-controller in {}", facts.namespace);
            return StatusCheck::bad(SECTION, name, message, logs);
        }
        Ok(Some(lease)) => lease,
    };
    let LeaseFacts { holder: Some(holder), renewed: Some(renewed) } = lease else {
        return StatusCheck::bad(SECTION, name, "no controller leads: no pod holds Lease mullion-controller", logs);
    };
    let age_text = age(now, *renewed);
    if now.as_second() - renewed.as_second() > MAX_RENEWAL_AGE {
        let message = format!("no controller leads: {holder} renewed Lease mullion-controller {age_text} ago");
        return StatusCheck::bad(SECTION, name, message, logs);
    }
    // The identity is the name of the pod and a random number.
    let pod = holder.rsplit_once('_').map_or(holder.as_str(), |(pod, _)| pod);
    StatusCheck::good(SECTION, name, format!("{pod} leads; it renewed its Lease {age_text} ago"))
}

fn reporting(facts: &StatusFacts, now: Timestamp) -> StatusCheck {
    let name = "controller-report";
    match facts.report(now) {
        Ok(report) => {
            let written = report.written.parse().unwrap_or(now);
            let message = format!("the controller reported {} ago", age(now, written));
            StatusCheck::good(SECTION, name, message)
        }
        Err(why) => {
            let next = format!(
                "check the leader above; a controller older than this command writes no report: kubectl logs \
                 deployment/mullion-controller -n {}",
                facts.namespace
            );
            StatusCheck::unknown(SECTION, name, "what the controller does is", &why, next)
        }
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;
    use crate::cli::status::check::CheckResult;
    use crate::cli::status::check::CheckResult::{Bad, Good, Notice, Unknown};
    use crate::cli::status::facts::tests::{ago, good, now, with_report, with_state};

    fn found(facts: &StatusFacts, name: &str) -> Option<(CheckResult, String, String, String)> {
        let check = checks(facts, now()).into_iter().find(|check| check.name == name)?;
        Some((check.result, check.message, check.next, check.items.join("\n")))
    }

    #[track_caller]
    fn expect(facts: &StatusFacts, name: &str, result: CheckResult, part: &str) {
        let (actual, message, next, items) = found(facts, name).unwrap();
        assert_eq!(actual, result, "{message}");
        assert!(message.contains(part) || items.contains(part), "{message}\n{items}");
        assert_eq!(next.is_empty(), result == Good, "{next}");
    }

    #[test]
    fn a_withdrawal_is_reported() {
        assert_eq!(found(&good(), "withdrawn"), None);
        let facts = with_state(|state| state.withdrawn = Some("2026-05-01T00:00:00Z".to_owned()));
        expect(&facts, "withdrawn", Bad, "since 2026-05-01T00:00:00Z");
    }

    #[test]
    fn deployments_are_whole_or_not() {
        let with = |change: &dyn Fn(&mut DeploymentFacts)| {
            let mut facts = good();
            change(&mut facts.deployments.as_mut().unwrap()[1]);
            facts
        };
        let name = "webhook-running";
        expect(&good(), name, Good, "webhook: 2 of 2 pods are ready");
        let mut crashing = with(&|webhook| webhook.ready = 1);
        crashing.pods.as_mut().unwrap()[1].trouble = Some("CrashLoopBackOff".to_owned());
        expect(&crashing, name, Bad, "1 of 2 pods");
        expect(&crashing, name, Bad, "pod mullion-webhook-1: CrashLoopBackOff");
        expect(&crashing, "controller-running", Good, "2 of 2");
        expect(&with(&|webhook| webhook.updated = 1), name, Notice, "1 of them");
        expect(&with(&|webhook| webhook.replicas = 0), name, Bad, "scaled to 0");
        expect(&with(&|webhook| webhook.component.clear()), name, Unknown, "there is no Deployment");
    }

    #[test]
    fn versions_are_compared() {
        let own = env!("CARGO_PKG_VERSION");
        let with = |controller: Option<&str>, webhook: Option<&str>, leader: &str| {
            let mut facts = with_report(|report| report.version = leader.to_owned());
            let pods = facts.pods.as_mut().unwrap();
            pods[0].tag = controller.map(str::to_owned);
            pods[1].tag = webhook.map(str::to_owned);
            facts
        };
        expect(&with(Some(own), Some(&format!("v{own}")), own), "versions", Good, own);
        expect(&with(Some("9.9.9"), Some("9.9.9"), "9.9.9"), "versions", Notice, "are 9.9.9, and this command is");
        expect(
            &with(Some("9.9.9"), Some(own), "9.9.9"),
            "versions",
            Notice,
            "the controller is 9.9.9, and the webhook",
        );
        // A leader from before the rollout.
        expect(&with(Some(own), Some(own), "0.0.9"), "versions", Notice, "the controller is 0.0.9 and");
        // An image by digest, or with a custom tag: the label of the Deployment counts.
        expect(&with(Some("latest"), None, own), "versions", Good, own);
        let mut nothing = with_state(|state| state.report = None);
        (nothing.pods, nothing.deployments) = (Ok(Vec::new()), Ok(Vec::new()));
        expect(&nothing, "versions", Unknown, "the version of the controller");
    }

    /// From 90 days on, and not for a clock before the day of the tables.
    #[test]
    fn old_tables_are_a_notice() {
        let facts = Facts::parse("t", "schema: mullion.dev/facts/v1\nchecked: 2026-03-01\ndates: []\n").unwrap();
        let at = |day: &str| tables_age(&facts, format!("{day}T23:59:59Z").parse().unwrap());
        for day in ["2025-01-01", "2026-03-01", "2026-05-29"] {
            assert_eq!(at(day), None, "{day}");
        }
        let check = at("2026-05-30").unwrap();
        assert_eq!((check.result, check.result.needs_a_person()), (Notice, false));
        assert!(
            check.message.ends_with(", the table dates was last compared with the sources on 2026-03-01, 90 days ago")
        );
        assert!(at("2026-05-31").unwrap().message.contains("91 days ago") && !check.next.is_empty());
    }

    #[test]
    fn the_leader_is_current_or_there_is_none() {
        let with = |holder: Option<&str>, renewed: i64| StatusFacts {
            lease: Ok(Some(LeaseFacts {
                holder: holder.map(str::to_owned),
                renewed: Some(ago(renewed).parse().unwrap()),
            })),
            ..good()
        };
        expect(&with(Some("pod-1_0f"), 5), "leader", Good, "pod-1 leads; it renewed its Lease 5s ago");
        expect(&with(Some("pod-1_0f"), -30), "leader", Good, "0s ago");
        expect(&with(Some("pod-1_0f"), 61), "leader", Bad, "61s ago");
        expect(&with(None, 5), "leader", Bad, "no pod holds");
        expect(&StatusFacts { lease: Ok(None), ..good() }, "leader", Bad, "there is no Lease");
        expect(&StatusFacts { lease: Err("no".to_owned()), ..good() }, "leader", Unknown, "not known: no");
        expect(&with_state(|state| state.report = None), "controller-report", Unknown, "has not written");
        expect(&good(), "controller-report", Good, "60s ago");
    }
}
