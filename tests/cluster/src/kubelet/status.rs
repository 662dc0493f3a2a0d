//! The status of a pod, as kubelets report it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::container::{End, Played, State};
use super::environment::Addresses;

/// The time since which a pod has its status.
#[derive(Debug)]
pub(super) struct History {
    started: String,
    /// The times of each condition.
    since: BTreeMap<&'static str, (bool, String)>,
}

impl Default for History {
    fn default() -> Self {
        Self { started: now(), since: BTreeMap::new() }
    }
}

impl History {
    /// The status of a pod with these containers, and with addresses once it has them.
    pub(super) fn status(&mut self, containers: &[Played], addresses: Option<Addresses>) -> Value {
        let statuses: Vec<Value> = containers.iter().map(container).collect();
        let ready = statuses.iter().all(|status| status.get("ready") == Some(&Value::Bool(true)));
        let phase = phase(containers);
        let why = if matches!(phase, "Succeeded" | "Failed") { "PodCompleted" } else { "ContainersNotReady" };
        let conditions = [
            self.condition("PodReadyToStartContainers", addresses.is_some(), None),
            self.condition("Initialized", true, None),
            self.condition("ContainersReady", ready, Some(why)),
            self.condition("Ready", ready, Some(why)),
        ];
        let mut status =
            json!({"phase": phase, "startTime": self.started, "conditions": conditions, "containerStatuses": statuses});
        if let (Some(Addresses { pod, host }), Some(status)) = (addresses, status.as_object_mut()) {
            status.extend([
                ("podIP".to_owned(), json!(pod)),
                ("podIPs".to_owned(), json!([{"ip": pod}])),
                ("hostIP".to_owned(), json!(host)),
                ("hostIPs".to_owned(), json!([{"ip": host}])),
            ]);
        }
        status
    }

    fn condition(&mut self, kind: &'static str, holds: bool, why_not: Option<&str>) -> Value {
        let since = self.since.entry(kind).or_insert_with(|| (holds, now()));
        if since.0 != holds {
            *since = (holds, now());
        }
        json!({
            "type": kind,
            "status": if holds { "True" } else { "False" },
            "lastTransitionTime": since.1,
            "reason": why_not.filter(|_| !holds), // null removes an earlier one
        })
    }
}

/// The entry of `containerStatuses`.
fn container(container: &Played) -> Value {
    let (state, started, ready) = match &container.state {
        State::Waiting { reason, message } => {
            (json!({"waiting": {"reason": reason, "message": message}}), false, false)
        }
        State::Running(run) => (json!({"running": {"startedAt": run.since}}), run.started, run.started && run.ready),
        State::Ended(end) => (ended(end), false, false),
    };
    json!({
        "name": container.spec.name,
        "image": container.spec.image,
        "imageID": container.spec.image,
        "restartCount": container.restarts,
        "started": started,
        "ready": ready,
        "state": state,
        "lastState": container.last.as_ref().map(ended).unwrap_or_default(),
    })
}

fn ended(end: &End) -> Value {
    json!({"terminated": {"exitCode": end.code, "reason": end.reason, "startedAt": end.since, "finishedAt": end.at}})
}

/// The phase as kubelets compute it: a container that will be restarted is not finished.
fn phase(containers: &[Played]) -> &'static str {
    let code = |container: &Played| match &container.state {
        State::Ended(end) => Some(end.code),
        _ => None,
    };
    let runs = |container: &Played| matches!(container.state, State::Running(_)) || container.restarts > 0;
    if containers.iter().all(|container| code(container) == Some(0)) {
        "Succeeded"
    } else if containers.iter().all(|container| code(container).is_some()) {
        "Failed"
    } else if containers.iter().any(runs) {
        "Running"
    } else {
        "Pending"
    }
}

/// The current time in the format of the API.
pub(super) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use std::net::Ipv4Addr;

    use k8s_openapi::api::core::v1::{Container, Pod};

    use super::*;

    fn played(state: State) -> Played {
        let mut played = Played::new(&Pod::default(), Container { name: "c".to_owned(), ..Container::default() });
        played.state = state;
        played
    }

    fn end(code: i32) -> State {
        State::Ended(End { since: now(), at: now(), code, reason: "Completed" })
    }

    #[test]
    fn pods_end_when_all_their_containers_have() {
        let waiting = || State::Waiting { reason: "ContainerCreating", message: String::new() };
        for (states, expected) in [
            (vec![waiting()], "Pending"),
            (vec![end(0), waiting()], "Pending"),
            (vec![end(0), end(0)], "Succeeded"),
            (vec![end(0), end(3)], "Failed"),
        ] {
            let containers: Vec<_> = states.into_iter().map(played).collect();
            assert_eq!(phase(&containers), expected, "{containers:?}");
        }
        let mut crashing = played(waiting());
        crashing.restarts = 1;
        assert_eq!(phase(&[crashing]), "Running");
    }

    #[test]
    fn a_status_has_addresses_once_there_are_any() {
        let mut history = History::default();
        let containers = [played(end(3))];
        let before = history.status(&containers, None);
        assert_eq!(before.get("podIP"), None);
        assert_eq!(before["conditions"][0]["status"], "False");
        assert_eq!(before["conditions"][3]["reason"], "PodCompleted");
        assert_eq!(before["containerStatuses"][0]["state"]["terminated"]["exitCode"], 3);
        let addresses = Addresses { pod: Ipv4Addr::new(10, 128, 0, 2), host: Ipv4Addr::new(10, 128, 0, 3) };
        let after = history.status(&containers, Some(addresses));
        assert_eq!(after["podIPs"], json!([{"ip": "10.128.0.2"}]));
        assert_eq!(after["conditions"][0]["status"], "True");
    }
}
