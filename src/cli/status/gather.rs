//! Reads the facts from a cluster: a few lists, of which only what the checks need is kept.

use anyhow::bail;
use futures::{FutureExt as _, try_join};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1 as core;
use kube::ResourceExt as _;
use mullion_engine::model::cluster::{Taint, UnusableFact};
use mullion_engine::model::names::{FINDINGS_LABEL, OS_LABEL, WINDOWS_RELEASE_LABEL};
use mullion_snapshot::objects;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cli::status::facts::{
    ConfigurationFacts, DeploymentFacts, EventFacts, FindingFacts, LeaseFacts, PodFacts, Read, StatusFacts,
    WebhookFacts, WindowsNode,
};
use crate::cli::webhook_configurations::read_configurations;
use crate::cluster::MANAGER;
use crate::cluster::reading::{
    Absence, CONFIG_MAPS, ClusterReader, DEPLOYMENTS, EVENTS, Item, Kind, LEASES, ListQuery, MUTATING_CONFIGURATIONS,
    NAMESPACES, NODES, PODS, RUNTIME_CLASSES, UnreadObjects, VALIDATING_CONFIGURATIONS,
};
use crate::cluster::state::{MullionState, NAME};
use crate::controller::{LEASE_NAME, RegisteredWebhook, UnknownNamespace, WebhookConfiguration, registered_namespace};

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

/// Reads everything. An error means that there is no cluster, or that the namespace of Mullion is not known.
pub(crate) async fn gather(reader: &ClusterReader<'_>, namespace: Option<&str>) -> anyhow::Result<Gathered> {
    let [mutating, validating] =
        read_configurations(reader).await?.map(|read| read.map_err(|unread| unread.to_string()));
    let registered: Vec<&WebhookConfiguration> = [&mutating, &validating].into_iter().flatten().flatten().collect();
    let namespace = match (namespace, registered_namespace(registered.iter().copied())) {
        (Some(namespace), _) => namespace.to_owned(),
        (None, Ok(namespace)) => namespace,
        (None, Err(UnknownNamespace::NotRegistered)) => {
            let unread = [mutating.err(), validating.err()];
            return Ok(Gathered::NotInstalled(unread.into_iter().flatten().collect()));
        }
        (None, Err(unknown)) => bail!(unknown),
    };
    let everywhere = ListQuery::default();
    let of_chart = ListQuery { namespace: Some(&namespace), labels: Some(CHART_LABEL), ..everywhere };
    let (deployments, state, lease) = try_join!(
        list(reader, &DEPLOYMENTS, of_chart, |one| parsed(one).map(|one| deployment_facts(&one))),
        get(reader, &CONFIG_MAPS, Some(&namespace), NAME, |map| parsed(map).map(|map| state(&map))),
        get(reader, &LEASES, Some(&namespace), LEASE_NAME, |lease| parsed(lease).map(lease_facts)),
    )?;
    let nothing = deployments.as_ref().is_ok_and(Vec::is_empty) && matches!((&state, &lease), (Ok(None), Ok(None)));
    if nothing && registered.is_empty() {
        return Ok(Gathered::NotInstalled(Vec::new()));
    }
    let (windows, own_events) = (format!("{OS_LABEL}=windows"), format!("reportingComponent=mullion.dev/{MANAGER}"));
    let now = Timestamp::now();
    let mut findings = FindingFacts::default();
    let count = |pod: Value| -> Option<()> {
        count_findings(&mut findings, &pod);
        None
    };
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
        nodes.as_ref().map_err(Clone::clone)?;
        Ok(all.into_iter().flatten().chain(of_nodes).map(|fact| fact.to_string()).collect())
    });
    Ok(Gathered::Installed(Box::new(StatusFacts {
        state,
        lease,
        configurations: [
            configuration_facts(&MUTATING_CONFIGURATIONS, mutating),
            configuration_facts(&VALIDATING_CONFIGURATIONS, validating),
        ],
        deployments,
        pods,
        nodes,
        unusable,
        findings: labelled.map(|_| findings),
        events: events.map(newest),
        namespace,
    })))
}

/// The values that `read` returns for the objects of a kind, each of which is dropped once it is read; or why one of them
/// could not be read, because what the others show is not all that there is.
fn list<'a, T: 'a>(
    reader: &'a ClusterReader<'a>,
    kind: &'static Kind,
    query: ListQuery<'a>,
    mut read: impl FnMut(Value) -> Option<T> + 'a,
) -> impl Future<Output = anyhow::Result<Read<Vec<T>>>> + 'a {
    let work = async move {
        let (mut all, mut unreadable) = (Vec::new(), None);
        let mut visit = |object: Item<Value>| {
            match object {
                Ok(object) => all.extend(read(object)),
                Err(why) => unreadable = unreadable.take().or_else(|| Some(UnreadObjects::unreadable(kind, &why))),
            }
            Ok(())
        };
        let listed = reader.list(kind, query, &mut visit, &mut |_, _| Ok(())).await?;
        let unread = listed.err().or(unreadable);
        Ok(unread.map_or(Ok(all), |unread| Err(unread.to_string())))
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

/// The value that `read` returns for one object; `None` if the object does not exist.
fn get<'a, T: 'a>(
    reader: &'a ClusterReader<'a>,
    kind: &'static Kind,
    namespace: Option<&'a str>,
    name: &'a str,
    read: impl FnOnce(Value) -> Option<T> + 'a,
) -> impl Future<Output = anyhow::Result<Read<Option<T>>>> + 'a {
    let work = async move {
        Ok(match reader.get(kind, namespace, name).await? {
            Ok(object) => Ok(read(object)),
            Err(unread) if unread.absence == Absence::NotFound => Ok(None),
            Err(unread) => Err(unread.to_string()),
        })
    };
    work.boxed_local()
}

fn configuration_facts(kind: &'static Kind, read: Read<Option<WebhookConfiguration>>) -> ConfigurationFacts {
    let found = read.as_ref().ok().and_then(Option::as_ref);
    let created = found.and_then(|found| found.metadata.creation_timestamp.as_ref()).map(|time| time.0);
    ConfigurationFacts { kind: kind.name, webhooks: read.map(webhooks), created }
}

/// The webhooks of a configuration.
fn webhooks(configuration: Option<WebhookConfiguration>) -> Option<Vec<WebhookFacts>> {
    let facts = |webhook: RegisteredWebhook| {
        let RegisteredWebhook { name, client_config, failure_policy, .. } = webhook;
        let has_bundle = client_config.ca_bundle.is_some_and(|bundle| !bundle.0.is_empty());
        WebhookFacts {
            name,
            // The default of admissionregistration.k8s.io/v1.
            failure_policy: failure_policy.unwrap_or_else(|| "Fail".to_owned()),
            trusted: has_bundle || client_config.url.is_some(),
        }
    };
    configuration.map(|found| found.webhooks.into_iter().map(facts).collect())
}

fn state(map: &core::ConfigMap) -> MullionState {
    MullionState::parse(&map.data.clone().unwrap_or_default()).0
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

fn node_facts(node: core::Node) -> WindowsNode {
    let taint =
        |taint: core::Taint| Taint { key: taint.key, value: taint.value.unwrap_or_default(), effect: taint.effect };
    WindowsNode {
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

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use std::collections::BTreeSet;
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

    fn configuration(client: &Value) -> Value {
        json!({"metadata": {"name": "mullion"}, "webhooks": [{"name": "pods.mullion.dev", "clientConfig": client}]})
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_named() {
        let (connection, requests) = server(vec![]);
        let gathered = gather(&ClusterReader::new(&connection), None).await.unwrap();
        assert!(matches!(gathered, Gathered::NotInstalled(unread) if unread.is_empty()));
        assert!(!requests.lock().unwrap().iter().any(|request| request.contains("secret")));

        let denied = |part| (part, 403, status(403).1);
        let (connection, _) = server(vec![denied("webhookconfigurations"), denied("configmaps")]);
        let reader = ClusterReader::new(&connection);
        let gathered = gather(&reader, None).await.unwrap();
        assert!(matches!(gathered, Gathered::NotInstalled(unread) if unread == ["no", "no"]));
        // A namespace from the command line is checked as far as it can be read.
        assert!(matches!(gather(&reader, Some("own")).await.unwrap(), Gathered::Installed(_)));

        let (connection, _) = server(vec![("mutating", 401, status(401).1)]);
        let error = gather(&ClusterReader::new(&connection), None).await.err().unwrap().to_string();
        assert!(error.contains("does not accept the credentials (401)"), "{error}");
    }

    /// A tenant has a Deployment with the labels of the chart, a Lease and a ConfigMap.
    #[tokio::test]
    async fn only_the_webhook_configurations_name_the_namespace() {
        let theirs = |kind: &str| json!({"metadata": {"name": kind, "namespace": "tenant"}});
        let list = json!({"metadata": {}, "items": [theirs("mullion-webhook")]});
        let tenant = || {
            vec![
                ("/namespaces/tenant/configmaps/", 200, theirs("mullion-state")),
                ("/namespaces/tenant/leases/", 200, theirs("mullion-controller")),
                ("/namespaces/tenant/deployments", 200, list.clone()),
            ]
        };
        let gathered = async |client: Option<Value>, namespace: Option<&str>| {
            let mut responses = tenant();
            responses.extend(client.map(|client| ("webhookconfigurations/mullion", 200, configuration(&client))));
            let (connection, _) = server(responses);
            gather(&ClusterReader::new(&connection), namespace).await
        };
        assert!(matches!(gathered(None, None).await.unwrap(), Gathered::NotInstalled(_)));
        let service = json!({"service": {"name": "mullion-webhook", "namespace": "mullion-system"}});
        for namespace in [None, Some("mullion-system")] {
            let Gathered::Installed(facts) = gathered(Some(service.clone()), namespace).await.unwrap() else {
                panic!("not installed")
            };
            assert_eq!(facts.namespace, "mullion-system");
            assert!(matches!((&facts.state, &facts.lease), (Ok(None), Ok(None))), "{facts:?}");
        }
        let by_url = gathered(Some(json!({"url": "https://example.com"})), None).await;
        assert!(by_url.err().unwrap().to_string().contains("--namespace"));
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
