//! All checks, in the order of the output, and what follows from them together.

use jiff::Timestamp;

use crate::cli::status::check::{Section, StatusCheck};
use crate::cli::status::evidence::proved;
use crate::cli::status::facts::StatusFacts;
use crate::cli::status::{installation, nodes, policies, webhook, workloads};

/// The checks of a cluster in which Mullion is installed.
pub(crate) fn checks(facts: &StatusFacts, now: Timestamp) -> Vec<StatusCheck> {
    let all = [
        installation::checks(facts, now),
        webhook::checks(facts, now),
        policies::checks(facts, now),
        nodes::checks(facts, now),
        vec![nodes::unusable(facts)],
        workloads::checks(facts, now),
    ];
    all.into_iter().flatten().map(|check| proved(check, facts, now)).collect()
}

/// The only check of a cluster without objects of Mullion. `namespace`: where the user expects them; `unread`: what could
/// not be read.
pub(crate) fn not_installed(namespace: Option<&str>, unread: &[String]) -> StatusCheck {
    let (section, name) = (Section::Installation, "installed");
    if !unread.is_empty() {
        let next = "get the rights of ClusterRole mullion-reader, or name the namespace of Mullion with --namespace";
        return StatusCheck::unknown(section, name, "whether Mullion is installed is", &unread.join("; "), next);
    }
    let next = "install the chart, as in README.md; if this is the wrong cluster, choose another with --context";
    if let Some(namespace) = namespace {
        return StatusCheck::bad(section, name, format!("Mullion is not installed in namespace {namespace}"), next);
    }
    let message = "Mullion is not installed in this cluster, or its webhook configurations were deleted";
    let next = format!("{next}; if they were deleted, name the namespace of Mullion with --namespace");
    StatusCheck::bad(section, name, message, next)
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::cli::status::check::CheckResult;
    use crate::cli::status::facts::tests::{good, now};

    #[test]
    fn a_good_cluster_is_good() {
        let checks = checks(&good(), now());
        for check in &checks {
            assert_eq!(check.result, CheckResult::Good, "{check:?}");
            assert!(check.next.is_empty() && !check.message.is_empty(), "{check:?}");
        }
        assert!(checks.is_sorted_by_key(|check| check.section), "{checks:?}");
    }

    /// If something cannot be read, no check that depends on it is good, and every line that is not good has a next
    /// step.
    #[test]
    fn what_cannot_be_read_is_not_known() {
        let denied = || "pods is forbidden".to_owned();
        let nothing = StatusFacts {
            state: Err(denied()),
            lease: Err(denied()),
            configurations: good()
                .configurations
                .map(|one| crate::cli::status::facts::ConfigurationFacts { webhooks: Err(denied()), ..one }),
            deployments: Err(denied()),
            pods: Err(denied()),
            nodes: Err(denied()),
            unusable: Err(denied()),
            findings: Err(denied()),
            events: Err(denied()),
            ..good()
        };
        for check in checks(&nothing, now()) {
            assert_eq!(check.result, CheckResult::Unknown, "{check:?}");
            assert!(check.message.contains(" not known: ") && !check.next.is_empty(), "{check:?}");
        }
        for (namespace, unread) in [(None, vec![]), (Some("a"), vec![]), (None, vec![denied()])] {
            let check = not_installed(namespace, &unread);
            assert!(check.result.needs_a_person() && !check.next.is_empty());
            // Without the webhook configurations, only the user knows the namespace.
            assert_eq!(check.next.contains("--namespace"), namespace.is_none());
        }
    }
}
