//! What a run reads once: version, nodes, RuntimeClasses, webhook configurations, and the ConfigMap with policies and report.

use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::names::WINDOWS_BUILD_LABEL;
use mullion_engine::model::settings::NodeSettings;
use mullion_engine::model::text::shorten;
use mullion_snapshot::dump::DumpReader;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::cli::live::{ClusterPolicies, Registration, in_force};
use crate::cli::verify::fleet::{Fleet, FleetNode};
use crate::cli::verify::requests::create;
use crate::cli::verify::table::Right;
use crate::cli::webhook_configurations::{ReadConfiguration, read_configurations};
use crate::cluster::connect::ClusterConnection;
use crate::cluster::reading::{
    Absence, CONFIG_MAPS, ClusterReader, ListQuery, NODES, RUNTIME_CLASSES, SELF_SUBJECT_ACCESS_REVIEWS,
};
use crate::cluster::state::{MullionState, NAME, parse_state};
use crate::controller::registered_namespace;
use crate::telemetry::in_words;

/// The limit of the request for the version.
const VERSION_DEADLINE: Duration = Duration::from_secs(10);
/// The longest version that is shown, in characters.
const MAX_VERSION: usize = 60;

/// A part that was read, or why it was not, as a clause.
pub(super) type Read<T> = Result<T, String>;

/// The facts.
pub(super) struct ClusterFacts {
    pub(super) kubernetes: Read<String>,
    pub(super) fleet: Read<Fleet>,
    /// The webhooks that are registered; `None` if no configuration exists.
    pub(super) registration: Read<Option<Registration>>,
    /// The namespace of Mullion.
    pub(super) namespace: Read<String>,
    /// ConfigMap `mullion-state`; `None` if it does not exist.
    pub(super) state: Read<Option<MullionState>>,
    pub(super) policies: Read<ClusterPolicies>,
    /// Nodes as their kubelets report them, and RuntimeClasses, for the engine.
    pub(super) snapshot: ClusterSnapshot,
    pub(super) classes_unread: Option<String>,
}

impl ClusterFacts {
    /// Settings for nodes: those in force, else the built-in ones.
    pub(super) fn node_settings(&self) -> NodeSettings {
        self.policies.as_ref().map(|policies| policies.set.nodes.clone()).unwrap_or_default()
    }
}

/// Reads everything. An error is one that would also occur for every other request.
pub(super) async fn read_facts(
    connection: &ClusterConnection,
    namespace: Option<&str>,
) -> anyhow::Result<ClusterFacts> {
    let reader = ClusterReader::new(connection);
    let configurations = read_configurations(&reader).await?;
    let registered = registered_namespace(configurations.iter().flatten().flatten()).map_err(|why| why.to_string());
    let namespace = namespace.map_or(registered, |namespace| Ok(namespace.to_owned()));
    let registration = registration(configurations);
    let map = match &namespace {
        Ok(namespace) => match reader.get(&CONFIG_MAPS, Some(namespace), NAME).await? {
            Ok(map) => Ok(Some(map)),
            Err(unread) if unread.absence == Absence::NotFound => Ok(None),
            Err(unread) => Err(unread.to_string()),
        },
        Err(why) => Err(why.clone()),
    };
    let policies = match (&map, &namespace) {
        (Ok(Some(map)), Ok(namespace)) => {
            in_force(map.clone(), namespace.clone(), Timestamp::now()).map_err(|why| why.to_string())
        }
        (Ok(None), _) => Err(format!("there is no ConfigMap {NAME}")),
        (Err(why), _) | (_, Err(why)) => Err(why.clone()),
    };
    let state = map.and_then(|map| map.map(parse_state).transpose());
    let mut dump = DumpReader::new("the cluster");
    let releases = policies.as_ref().map(|policies| policies.set.nodes.releases.clone()).unwrap_or_default();
    let fleet = read_fleet(&reader, &mut dump).await?.map(|nodes| Fleet { nodes, releases });
    let mut visit = |class: Result<Value, _>| {
        // A class that cannot be read does not exist for Mullion either.
        if let Ok(class) = class {
            dump.object(&class, "RuntimeClass").ok();
        }
        Ok(())
    };
    let classes = reader.list(&RUNTIME_CLASSES, ListQuery::default(), &mut visit, &mut |_, _| Ok(())).await?;
    if classes.is_ok() {
        dump.list(RUNTIME_CLASSES.name);
    }
    let mut snapshot = dump.finish().snapshot;
    if let Ok(Some(MullionState { seen, .. })) = &state {
        snapshot.seen_taints.clone_from(&seen.taints);
        snapshot.seen_builds.clone_from(&seen.builds);
    }
    let classes_unread = classes.err().map(|unread| unread.to_string());
    let kubernetes = version(connection).await;
    Ok(ClusterFacts { kubernetes, fleet, registration, namespace, state, policies, snapshot, classes_unread })
}

/// The webhooks of the configurations that were read; if none exists among these, it matters that one was not read.
fn registration(configurations: [ReadConfiguration; 2]) -> Read<Option<Registration>> {
    let is_there = configurations.iter().any(|one| matches!(one, Ok(Some(_))));
    match configurations.iter().find_map(|one| one.as_ref().err()) {
        Some(unread) if !is_there => Err(unread.to_string()),
        _ => Ok(Registration::new(configurations)),
    }
}

async fn version(connection: &ClusterConnection) -> Read<String> {
    match timeout(VERSION_DEADLINE, connection.client.apiserver_version()).await {
        Ok(Ok(info)) => Ok(shorten(&info.git_version, MAX_VERSION)),
        Ok(Err(error)) => Err(in_words(&error)),
        Err(_) => Err(format!("no response within {} s", VERSION_DEADLINE.as_secs())),
    }
}

/// Reads the nodes, and adds each to the snapshot with the build that its kubelet reports.
async fn read_fleet(reader: &ClusterReader<'_>, dump: &mut DumpReader<'_>) -> anyhow::Result<Read<Vec<FleetNode>>> {
    let (mut nodes, mut unreadable) = (Vec::new(), None);
    let mut visit = |object: Result<Value, _>| {
        let mut object = match object {
            Ok(object) => object,
            Err(why) => {
                let why: crate::cluster::reading::Unreadable = why;
                unreadable.get_or_insert_with(|| format!("node {}: {why}", why.head.name));
                return Ok(());
            }
        };
        let Some(node) = FleetNode::from_json(&object) else { return Ok(()) };
        if let (Some(build), Some(labels)) =
            (node.build, object.pointer_mut("/metadata/labels").and_then(Value::as_object_mut))
        {
            labels.insert(WINDOWS_BUILD_LABEL.to_owned(), json!(build));
        }
        dump.object(&object, "Node").ok();
        nodes.push(node);
        Ok(())
    };
    let read = reader.list(&NODES, ListQuery::default(), &mut visit, &mut |_, _| Ok(())).await?;
    Ok(match (read, unreadable) {
        (Err(unread), _) => Err(unread.to_string()),
        (Ok(_), Some(why)) => Err(why),
        (Ok(_), None) => Ok(nodes),
    })
}

/// The rights that the user does not have. A question that is not answered counts as yes: then the request itself shows it.
pub(super) async fn missing_rights(
    connection: &ClusterConnection,
    rights: impl IntoIterator<Item = Right>,
    namespace: &str,
    mullion: &str,
) -> Vec<Right> {
    let client = &connection.client;
    let asked = rights.into_iter().map(async |right: Right| {
        let is_state = right.resource == CONFIG_MAPS.plural && !right.name.is_empty();
        let is_listed_everywhere = right.verb == "list";
        let namespace = if is_listed_everywhere { "" } else if is_state { mullion } else { namespace };
        let attributes = json!({"group": right.group, "resource": right.resource, "name": right.name, "verb": right.verb,
            "namespace": namespace});
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes}});
        let answer = create(client, &SELF_SUBJECT_ACCESS_REVIEWS, "", &review, false).await;
        let denied = answer.is_ok_and(|answer| answer.pointer("/status/allowed") == Some(&Value::Bool(false)));
        denied.then_some(right)
    });
    join_all(asked).await.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::cluster::reading::UnreadObjects;

    #[test]
    fn configurations_that_were_not_read_are_not_there() {
        let unread = || {
            let (message, absence) = ("no right".to_owned(), Absence::Forbidden);
            Err(UnreadObjects { kind: "webhooks", namespace: None, absence, message })
        };
        let there = || Ok(Some(serde_json::from_value(json!({"metadata": {"name": "mullion"}})).unwrap()));
        assert!(registration([unread(), unread()]).is_err() && registration([unread(), Ok(None)]).is_err());
        assert!(registration([unread(), there()]).unwrap().is_some());
        assert!(registration([Ok(None), Ok(None)]).unwrap().is_none());
    }
}
