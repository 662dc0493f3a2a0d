//! Reads the facts from a cluster: a few lists, of which only what the checks need is kept.

use std::collections::BTreeSet;

use anyhow::bail;
use futures::{FutureExt as _, try_join};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1 as core;
use kube::{Resource, ResourceExt as _};
use mullion_engine::model::cluster::{Taint, UnusableFact};
use mullion_engine::model::names::{FINDINGS_LABEL, OS_LABEL, WINDOWS_RELEASE_LABEL};
use mullion_engine::model::text::list_with;
use mullion_snapshot::objects;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cli::status::facts::{
    ConfigurationFacts, DeploymentFacts, EventFacts, FindingFacts, LeaseFacts, NodeFacts, PodFacts, Read, StatusFacts,
    WebhookFacts,
};
use crate::cluster::MANAGER;
use crate::cluster::reading::{
    Absence, CONFIG_MAPS, ClusterReader, DEPLOYMENTS, EVENTS, Item, Kind, LEASES, ListQuery, MUTATING_CONFIGURATIONS,
    NAMESPACES, NODES, PODS, RUNTIME_CLASSES, VALIDATING_CONFIGURATIONS,
};
use crate::cluster::state::{MullionState, NAME};
use crate::controller::{CONFIGURATION, LEASE_NAME};

/// The maximum number of Events that are kept, the newest ones.
const MAX_EVENTS: usize = 2_000;
/// Older Events, in seconds, do not describe the present: while a condition lasts, Mullion writes its Event again after
/// 45 minutes at most.
const MAX_EVENT_AGE: i64 = 3_600;
/// The label of everything that the chart creates.
const CHART_LABEL: &str = "app.kubernetes.io/name=mullion";
const COMPONENT: &str = "app.kubernetes.io/component";
const VERSION: &str = "app.kubernetes.io/version";

/// The result of the search for Mullion.
pub(crate) enum Gathered {
    Installed(Box<StatusFacts>),
    /// No object of Mullion was found; contains what could not be searched.
    NotInstalled(Vec<String>),
}

/// Reads everything. An error means that there is no cluster, or that several installations were found and none was
/// selected.
pub(crate) async fn gather(reader: &ClusterReader<'_>, namespace: Option<&str>) -> anyhow::Result<Gathered> {
    let (state_name, lease_name) = (format!("metadata.name={NAME}"), format!("metadata.name={LEASE_NAME}"));
    let query = ListQuery { namespace, ..ListQuery::default() };
    let of_chart = ListQuery { labels: Some(CHART_LABEL), ..query };
    let (deployments, states, leases, mutating, validating) = try_join!(
        list(reader, &DEPLOYMENTS, of_chart, parsed::<Deployment>),
        list(reader, &CONFIG_MAPS, ListQuery { fields: Some(&state_name), ..query }, parsed::<core::ConfigMap>),
        list(reader, &LEASES, ListQuery { fields: Some(&lease_name), ..query }, parsed::<Lease>),
        get_configuration::<MutatingWebhookConfiguration>(reader, &MUTATING_CONFIGURATIONS),
        get_configuration::<ValidatingWebhookConfiguration>(reader, &VALIDATING_CONFIGURATIONS),
    )?;
    let mutating = webhooks(
        mutating,
        |found| found.webhooks.unwrap_or_default(),
        |webhook| (webhook.name, webhook.failure_policy, webhook.client_config),
    );
    let validating = webhooks(
        validating,
        |found| found.webhooks.unwrap_or_default(),
        |webhook| (webhook.name, webhook.failure_policy, webhook.client_config),
    );

    let unread = [deployments.as_ref().err(), states.as_ref().err(), leases.as_ref().err()];
    let unread: Vec<String> = unread.into_iter().flatten().cloned().collect();
    let found = FoundNamespaces {
        deployments: namespaces(&deployments),
        others: [namespaces(&states), namespaces(&leases), mutating.1, validating.1].into_iter().flatten().collect(),
    };
    let is_registered = [&mutating.0, &validating.0].into_iter().any(|read| matches!(read, Ok(Some(_))));
    if found.is_empty() && !is_registered && (namespace.is_none() || unread.is_empty()) {
        return Ok(Gathered::NotInstalled(unread));
    }
    let namespace = match namespace {
        Some(namespace) => namespace.to_owned(),
        None => found.choose()?,
    };
    let (windows, own_events) = (format!("{OS_LABEL}=windows"), format!("reportingComponent=mullion.dev/{MANAGER}"));
    let (everywhere, now) = (ListQuery::default(), Timestamp::now());
    let mut findings = FindingFacts::default();
    let count = |pod: Value| -> Option<()> {
        count_findings(&mut findings, &pod);
        None
    };
    let of_chart = ListQuery { namespace: Some(&namespace), labels: Some(CHART_LABEL), ..everywhere };
    let mut of_nodes = Vec::new();
    let windows_node = |node: Value| {
        of_nodes.extend(objects::unusable_taints(&node));
        parsed(node).map(node_facts)
    };
    let (pods, nodes, of_namespaces, of_classes, labelled, events) = try_join!(
        list(reader, &PODS, of_chart, |pod| parsed(pod).map(|pod| pod_facts(&pod))),
        list(reader, &NODES, ListQuery { labels: Some(&windows), ..everywhere }, windows_node),
        list(reader, &NAMESPACES, everywhere, |namespace| {
            let (name, namespace) = objects::namespace_from_json(&namespace)?;
            some_facts(namespace.unusable_facts(&name))
        }),
        list(reader, &RUNTIME_CLASSES, everywhere, |class| {
            let (name, class) = objects::runtime_class_from_json(&class)?;
            some_facts(class.unusable_fact(&name).into_iter())
        }),
        list(reader, &PODS, ListQuery { labels: Some(FINDINGS_LABEL), ..everywhere }, count),
        list(reader, &EVENTS, ListQuery { fields: Some(&own_events), ..everywhere }, |event| {
            event_facts(parsed(event)?, now)
        }),
    )?;
    let unusable = of_namespaces.and_then(|mut all| {
        all.extend(of_classes?);
        Ok(all.into_iter().flatten().chain(of_nodes).map(|fact| fact.to_string()).collect())
    });
    let is_own = |namespace_of: Option<String>| namespace_of.as_ref() == Some(&namespace);
    Ok(Gathered::Installed(Box::new(StatusFacts {
        state: states.map(|all| all.iter().find(|map| is_own(map.namespace())).map(state)),
        lease: leases.map(|all| all.into_iter().find(|lease| is_own(lease.namespace())).map(lease_facts)),
        configurations: [
            ConfigurationFacts { kind: MUTATING_CONFIGURATIONS.name, webhooks: mutating.0 },
            ConfigurationFacts { kind: VALIDATING_CONFIGURATIONS.name, webhooks: validating.0 },
        ],
        deployments: deployments
            .map(|all| all.iter().filter(|one| is_own(one.namespace())).map(deployment_facts).collect()),
        pods,
        nodes,
        unusable,
        findings: labelled.map(|_| findings),
        events: events.map(newest),
        namespace,
    })))
}

/// The values that `read` returns for the objects of a kind. Each object is dropped once it is read.
fn list<'a, T: 'a>(
    reader: &'a ClusterReader<'a>,
    kind: &'static Kind,
    query: ListQuery<'a>,
    mut read: impl FnMut(Value) -> Option<T> + 'a,
) -> impl Future<Output = anyhow::Result<Read<Vec<T>>>> + 'a {
    let work = async move {
        let mut all = Vec::new();
        let mut visit = |object: Item<Value>| {
            // The controller's report names an object that cannot be read.
            all.extend(object.ok().and_then(&mut read));
            Ok(())
        };
        let listed = reader.list(kind, query, &mut visit, &mut |_, _| Ok(())).await?;
        Ok(listed.map(|_| all).map_err(|unread| unread.to_string()))
    };
    work.boxed_local()
}

/// The facts; `None` if there are none.
fn some_facts(facts: impl Iterator<Item = UnusableFact>) -> Option<Vec<UnusableFact>> {
    let facts: Vec<UnusableFact> = facts.collect();
    (!facts.is_empty()).then_some(facts)
}

/// The object; `None` if it is not one, which the API server never returns.
fn parsed<K: DeserializeOwned>(object: Value) -> Option<K> {
    serde_json::from_value(object).ok()
}

/// The webhook configuration `mullion`; `None` if it does not exist.
fn get_configuration<'a, K: DeserializeOwned + 'a>(
    reader: &'a ClusterReader<'a>,
    kind: &'static Kind,
) -> impl Future<Output = anyhow::Result<Read<Option<K>>>> + 'a {
    let work = async move {
        Ok(match reader.get(kind, None, CONFIGURATION).await? {
            Ok(object) => Ok(parsed(object)),
            Err(unread) if unread.absence == Absence::NotFound => Ok(None),
            Err(unread) => Err(unread.to_string()),
        })
    };
    work.boxed_local()
}

/// The namespaces in which something of Mullion was found.
struct FoundNamespaces {
    deployments: BTreeSet<String>,
    /// The namespaces of Lease, ConfigMap and webhook Services.
    others: BTreeSet<String>,
}

impl FoundNamespaces {
    fn is_empty(&self) -> bool {
        self.deployments.is_empty() && self.others.is_empty()
    }

    /// The namespace of the installation: that of the Deployments, because a Lease or a ConfigMap may outlive them.
    fn choose(self) -> anyhow::Result<String> {
        let all = if self.deployments.is_empty() { self.others } else { self.deployments };
        let mut namespaces = all.into_iter();
        match (namespaces.next(), namespaces.next()) {
            (Some(only), None) => Ok(only),
            // Only a registration by URL was found: this is the namespace in which all documents install the chart.
            (None, _) => Ok("mullion-system".to_owned()),
            (Some(first), Some(second)) => {
                let all = list_with([first, second].into_iter().chain(namespaces), "and");
                bail!("Mullion was found in the namespaces {all}; choose one of them with -n")
            }
        }
    }
}

/// The webhooks of a configuration, and the namespaces of their Services.
fn webhooks<K, W>(
    configuration: Read<Option<K>>,
    webhooks: fn(K) -> Vec<W>,
    parts: fn(W) -> (String, Option<String>, WebhookClientConfig),
) -> (Read<Option<Vec<WebhookFacts>>>, BTreeSet<String>) {
    let mut namespaces = BTreeSet::new();
    let facts = configuration.map(|found| {
        let found = found.map(webhooks)?;
        let facts = found.into_iter().map(parts).map(|(name, failure_policy, client)| {
            let has_bundle = client.ca_bundle.is_some_and(|bundle| !bundle.0.is_empty());
            let by_url = client.url.is_some();
            namespaces.extend(client.service.map(|service| service.namespace));
            // The default of admissionregistration.k8s.io/v1.
            let failure_policy = failure_policy.unwrap_or_else(|| "Fail".to_owned());
            WebhookFacts { name, failure_policy, trusted: has_bundle || by_url }
        });
        Some(facts.collect())
    });
    (facts, namespaces)
}

fn namespaces<K: Resource<DynamicType = ()>>(objects: &Read<Vec<K>>) -> BTreeSet<String> {
    objects.iter().flatten().filter_map(kube::ResourceExt::namespace).collect()
}

fn state(map: &core::ConfigMap) -> MullionState {
    MullionState::read(&map.data.clone().unwrap_or_default()).0
}

fn lease_facts(lease: Lease) -> LeaseFacts {
    let spec = lease.spec.unwrap_or_default();
    LeaseFacts {
        holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
        renewed: spec.renew_time.map(|time| time.0),
    }
}

fn deployment_facts(deployment: &Deployment) -> DeploymentFacts {
    let label = |label: &str| deployment.labels().get(label).cloned();
    let status = deployment.status.clone().unwrap_or_default();
    // The API server's default is 1.
    let replicas = deployment.spec.replicas.unwrap_or(1);
    let is_new = status.observed_generation == deployment.metadata.generation;
    DeploymentFacts {
        name: deployment.name_any(),
        component: label(COMPONENT).unwrap_or_default(),
        version: label(VERSION),
        created: deployment.metadata.creation_timestamp.as_ref().map(|time| time.0),
        replicas,
        ready: status.ready_replicas.unwrap_or_default(),
        updated: if is_new { status.updated_replicas.unwrap_or_default() } else { 0 },
    }
}

fn pod_facts(pod: &core::Pod) -> PodFacts {
    let component = pod.labels().get(COMPONENT).cloned().unwrap_or_default();
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let image =
        containers.filter(|container| container.name == component).find_map(|container| container.image.as_deref());
    PodFacts { name: pod.name_any(), tag: image.and_then(tag).map(str::to_owned), trouble: trouble(pod), component }
}

/// The tag of an image reference: the text after the last colon, unless that colon belongs to the port of the registry.
fn tag(image: &str) -> Option<&str> {
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    name.rsplit_once(':').map(|(_, tag)| tag).filter(|tag| !tag.contains('/'))
}

/// Why a pod is not ready: the state of its containers, or why it does not have a node.
fn trouble(pod: &core::Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let conditions = status.conditions.as_deref().unwrap_or_default();
    if conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True") {
        return None;
    }
    let waits = status.container_statuses.iter().flatten().find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.clone().unwrap_or_else(|| "waiting".to_owned());
        let restarts = match container.restart_count {
            0 => String::new(),
            1 => ", restarted once".to_owned(),
            times => format!(", restarted {times} times"),
        };
        Some(format!("{reason}{restarts}"))
    });
    let unscheduled = || {
        let condition = conditions.iter().find(|one| one.type_ == "PodScheduled" && one.status == "False")?;
        Some(format!("not scheduled: {}", condition.message.clone().unwrap_or_default()))
    };
    Some(waits.or_else(unscheduled).unwrap_or_else(|| "not ready".to_owned()))
}

fn node_facts(node: core::Node) -> NodeFacts {
    let taint =
        |taint: core::Taint| Taint { key: taint.key, value: taint.value.unwrap_or_default(), effect: taint.effect };
    NodeFacts {
        name: node.name_any(),
        created: node.creation_timestamp().map(|time| time.0),
        labelled: node.labels().contains_key(WINDOWS_RELEASE_LABEL),
        taints: node.spec.and_then(|spec| spec.taints).into_iter().flatten().map(taint).collect(),
    }
}

/// Counts a pod with findings for its namespace.
fn count_findings(findings: &mut FindingFacts, pod: &Value) {
    let namespace = pod.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    let codes = pod.pointer("/metadata/labels").and_then(|labels| labels.get(FINDINGS_LABEL)?.as_str());
    let (pods, all) = findings.entry(namespace.to_owned()).or_default();
    *pods += 1;
    all.extend(codes.unwrap_or_default().split('.').filter(|code| !code.is_empty()).map(str::to_owned));
}

/// The Event, if it is new enough.
fn event_facts(event: core::Event, now: Timestamp) -> Option<EventFacts> {
    let repeated = event.series.and_then(|series| series.last_observed_time).map(|time| time.0);
    let time = repeated.or(event.event_time.map(|time| time.0))?;
    let about = event.involved_object;
    (now.as_second() - time.as_second() <= MAX_EVENT_AGE).then(|| EventFacts {
        reason: event.reason.unwrap_or_default(),
        kind: about.kind.unwrap_or_default(),
        namespace: about.namespace.unwrap_or_default(),
        name: about.name.unwrap_or_default(),
        note: event.message.unwrap_or_default(),
        time: Some(time),
    })
}

/// The newest Events first.
fn newest(mut events: Vec<EventFacts>) -> Vec<EventFacts> {
    events.sort_by_key(|event| std::cmp::Reverse(event.time));
    events.truncate(MAX_EVENTS);
    events
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::connect::ClusterConnection;

    /// An API server that returns these responses for requests with a URL that contains the text, else 404; and the
    /// requests.
    fn server(responses: Vec<(&'static str, u16, Value)>) -> (ClusterConnection, Arc<Mutex<Vec<String>>>) {
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let log = Arc::clone(&requests);
        let service = tower::service_fn(move |request: Request<Body>| {
            let url = request.uri().to_string();
            let response = responses.iter().find(|(part, ..)| url.contains(part));
            let (code, body) = response.map_or_else(|| status(404), |(_, code, body)| (*code, body.clone()));
            log.lock().unwrap().push(url);
            let body = Body::from(body.to_string().into_bytes());
            std::future::ready(Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()))
        });
        let client = Client::new(service, "default");
        (ClusterConnection { client, context: "test".to_owned(), default_namespace: "default".to_owned() }, requests)
    }

    fn status(code: u16) -> (u16, Value) {
        let reason = if code == 404 { "NotFound" } else { "Other" };
        (
            code,
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": reason, "code": code}),
        )
    }

    fn nothing(kind: &'static str) -> (&'static str, u16, Value) {
        (kind, 200, json!({"metadata": {}, "items": []}))
    }

    #[tokio::test]
    async fn what_cannot_be_searched_is_named() {
        let empty = || ["deployments", "configmaps", "leases"].map(nothing).to_vec();
        let (connection, requests) = server(empty());
        let gathered = gather(&ClusterReader::new(&connection), None).await.unwrap();
        assert!(matches!(gathered, Gathered::NotInstalled(unread) if unread.is_empty()));
        assert!(!requests.lock().unwrap().iter().any(|request| request.contains("secret")));

        let mut denied = empty();
        denied[1] = ("configmaps", 403, status(403).1);
        let (connection, _) = server(denied);
        let reader = ClusterReader::new(&connection);
        let gathered = gather(&reader, None).await.unwrap();
        assert!(matches!(gathered, Gathered::NotInstalled(unread) if unread == ["no"]));
        // A namespace from the command line is checked as far as it can be read.
        assert!(matches!(gather(&reader, Some("own")).await.unwrap(), Gathered::Installed(_)));

        let (connection, _) = server(vec![("leases", 401, status(401).1)]);
        let error = gather(&ClusterReader::new(&connection), None).await.err().unwrap().to_string();
        assert!(error.contains("does not accept the credentials (401)"), "{error}");
    }

    #[test]
    fn tags_are_found() {
        for (image, expected) in [
            ("registry.example.com/mullion:0.1.0", Some("0.1.0")),
            ("registry.example.com:5000/mullion:0.1.0@sha256:ab", Some("0.1.0")),
            ("registry.example.com:5000/mullion", None),
            ("mullion@sha256:ab", None),
            ("", None),
        ] {
            assert_eq!(tag(image), expected, "{image}");
        }
    }

    #[test]
    fn the_installation_is_where_its_deployments_are() {
        let of = |deployments: &[&str], others: &[&str]| {
            let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
            FoundNamespaces { deployments: set(deployments), others: set(others) }.choose()
        };
        assert_eq!(of(&["a"], &["b", "c"]).unwrap(), "a");
        assert_eq!(of(&[], &["b"]).unwrap(), "b");
        assert_eq!(of(&[], &[]).unwrap(), "mullion-system");
        let error = of(&["a", "b", "c"], &[]).unwrap_err().to_string();
        assert_eq!(error, "Mullion was found in the namespaces a, b and c; choose one of them with -n");
    }

    fn pod_with(status: &Value) -> PodFacts {
        let object = json!({"metadata": {"name": "p", "labels": {COMPONENT: "webhook"}}, "status": status,
            "spec": {"containers": [{"name": "sidecar", "image": "x:1"}, {"name": "webhook", "image": "m:2"}]}});
        pod_facts(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn pods_that_do_not_run_are_described() {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        assert_eq!(pod_with(&json!({"conditions": ready})).trouble, None);
        let waiting = json!({"containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": false,
            "restartCount": 5, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]});
        let found = pod_with(&waiting);
        assert_eq!(found.trouble.as_deref(), Some("CrashLoopBackOff, restarted 5 times"));
        assert_eq!((found.tag.as_deref(), found.component.as_str()), (Some("2"), "webhook"));
        let pending = json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}]});
        assert_eq!(pod_with(&pending).trouble.as_deref(), Some("not scheduled: 0/3 nodes"));
        assert_eq!(pod_with(&json!({})).trouble.as_deref(), Some("not ready"));
    }

    #[test]
    fn findings_are_counted_by_namespace() {
        let mut found = FindingFacts::default();
        for (namespace, codes) in [("shop", "MUL201.MUL302"), ("shop", "MUL201"), ("bank", "")] {
            let labels = json!({FINDINGS_LABEL: codes});
            count_findings(&mut found, &json!({"metadata": {"namespace": namespace, "labels": labels}}));
        }
        let codes = |codes: &[&str]| codes.iter().map(|&code| code.to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(found["shop"], (2, codes(&["MUL201", "MUL302"])));
        assert_eq!(found["bank"], (1, codes(&[])));
    }

    #[test]
    fn old_events_are_left_out() {
        let now: Timestamp = "2026-06-01T12:00:00Z".parse().unwrap();
        let event = |name: &str, time: &str, repeated: Option<&str>| -> core::Event {
            let series = repeated.map(|time| json!({"count": 2, "lastObservedTime": time}));
            serde_json::from_value(json!({"metadata": {"name": name}, "eventTime": time, "series": series,
                "reason": "TaintWaits", "message": "note", "involvedObject": {"kind": "Node", "name": name}}))
            .unwrap()
        };
        let events = vec![
            event("old", "2026-06-01T10:00:00.000000Z", None),
            event("repeated", "2026-06-01T10:00:00.000000Z", Some("2026-06-01T11:30:00.000000Z")),
            event("new", "2026-06-01T11:59:00.000000Z", None),
        ];
        let recent = newest(events.into_iter().filter_map(|event| event_facts(event, now)).collect());
        let names: Vec<&str> = recent.iter().map(|event| event.name.as_str()).collect();
        assert_eq!(names, ["new", "repeated"]);
        assert_eq!((recent[0].kind.as_str(), recent[0].note.as_str()), ("Node", "note"));
    }
}
