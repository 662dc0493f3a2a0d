//! Reads the facts from a cluster: a few lists, each in pages, with only the fields that are needed.

use std::collections::BTreeSet;

use anyhow::bail;
use futures::future::BoxFuture;
use futures::{FutureExt as _, join};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt as _};
use mullion_engine::model::cluster::Taint;
use mullion_engine::model::names::{FINDINGS_LABEL, OS_LABEL, WINDOWS_RELEASE_LABEL};
use mullion_engine::model::text::list_with;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cli::status::facts::{
    ConfigurationFacts, DeploymentFacts, EventFacts, FindingFacts, LeaseFacts, NodeFacts, PodFacts, Read, StatusFacts,
    WebhookFacts,
};
use crate::cluster::state::{MullionState, NAME};
use crate::cluster::{MANAGER, await_answer, slim_metadata};
use crate::controller::{CONFIGURATION, LEASE_NAME};
use crate::telemetry::in_words;

/// Objects of one request.
const PAGE: u32 = 500;
/// Most pages of one kind: 20,000 pods with findings, and as many Windows nodes.
const MAX_PAGES: usize = 40;
/// Most pages of Events: 2,000 of Mullion within an hour.
const MAX_EVENT_PAGES: usize = 4;
/// Events that are older, in seconds, say nothing about now: while something lasts, Mullion writes its Event again after 45
/// minutes at most.
const MAX_EVENT_AGE: i64 = 3_600;
/// The label of everything that the chart creates.
const CHART_LABEL: &str = "app.kubernetes.io/name=mullion";
const COMPONENT: &str = "app.kubernetes.io/component";
const VERSION: &str = "app.kubernetes.io/version";

/// What was found.
pub(crate) enum Gathered {
    Installed(Box<StatusFacts>),
    /// Nothing of Mullion; with what could not be searched.
    NotInstalled(Vec<String>),
}

/// Reads everything. An error means that there is no cluster, or that several installations were found and none was chosen.
pub(crate) async fn gather(client: &Client, namespace: Option<&str>) -> anyhow::Result<Gathered> {
    // Every authenticated user may read the version.
    match await_answer(client.apiserver_version()).await {
        Err(kube::Error::Api(status)) if status.code != 401 => {}
        Err(error) => bail!("cannot read the cluster: {}", in_words(&error)),
        Ok(_) => {}
    }
    let named = |name: &str| ListParams::default().fields(&format!("metadata.name={name}"));
    let (deployments, states, leases, mutating, validating) = join!(
        list(api::<Deployment>(client, namespace), ListParams::default().labels(CHART_LABEL)),
        list(api::<core::ConfigMap>(client, namespace), named(NAME)),
        list(api::<Lease>(client, namespace), named(LEASE_NAME)),
        get_configuration::<MutatingWebhookConfiguration>(client),
        get_configuration::<ValidatingWebhookConfiguration>(client),
    );
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

    let mut unread: Vec<String> = Vec::new();
    unread.extend(deployments.as_ref().err().cloned());
    unread.extend(states.as_ref().err().cloned());
    unread.extend(leases.as_ref().err().cloned());
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
    let own = Some(namespace.as_str());
    let windows = ListParams::default().labels(&format!("{OS_LABEL}=windows"));
    let (pods, nodes, labelled, events) = join!(
        list(api::<core::Pod>(client, own), ListParams::default().labels(CHART_LABEL)),
        pages::<Node>(Api::all(client.clone()), windows, MAX_PAGES),
        pages::<LabelledPod>(Api::all(client.clone()), ListParams::default().labels(FINDINGS_LABEL), MAX_PAGES),
        pages::<Event>(
            Api::all(client.clone()),
            ListParams::default().fields(&format!("reportingController=mullion.dev/{MANAGER}")),
            MAX_EVENT_PAGES
        ),
    );
    let is_own = |object: &ObjectMeta| object.namespace.as_deref() == Some(namespace.as_str());
    let now = Timestamp::now();
    Ok(Gathered::Installed(Box::new(StatusFacts {
        state: states.map(|all| all.into_iter().find(|map| is_own(&map.metadata)).map(|map| state(&map))),
        lease: leases.map(|all| all.into_iter().find(|lease| is_own(&lease.metadata)).map(lease)),
        configurations: [
            ConfigurationFacts { kind: "MutatingWebhookConfiguration", webhooks: mutating.0 },
            ConfigurationFacts { kind: "ValidatingWebhookConfiguration", webhooks: validating.0 },
        ],
        deployments: deployments.map(|all| all.iter().filter(|one| is_own(&one.metadata)).map(deployment).collect()),
        pods: pods.map(|all| all.iter().map(pod).collect()),
        nodes: nodes.map(|(all, _)| all.into_iter().map(node).collect()),
        findings: labelled.map(|(all, more)| findings(all, more)),
        events: events.map(|(all, _)| recent(all, now)),
        namespace,
    })))
}

/// The namespaces in which something of Mullion was found.
struct FoundNamespaces {
    deployments: BTreeSet<String>,
    /// Of Lease, ConfigMap and webhook Services.
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
            // Registered by URL, and nothing else: this is where the chart is installed in all documents.
            (None, _) => Ok("mullion-system".to_owned()),
            (Some(first), Some(second)) => {
                let all = list_with([first, second].into_iter().chain(namespaces), "and");
                bail!("Mullion was found in the namespaces {all}; choose one of them with -n")
            }
        }
    }
}

fn api<K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>>(
    client: &Client,
    namespace: Option<&str>,
) -> Api<K> {
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// All objects of a short list.
fn list<K>(api: Api<K>, params: ListParams) -> BoxFuture<'static, Read<Vec<K>>>
where
    K: Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    pages(api, params, MAX_PAGES).map(|read| read.map(|(all, _)| all)).boxed()
}

/// The objects of at most that many pages, and whether there are more. A list that expires meanwhile (410) begins again,
/// once.
fn pages<K>(api: Api<K>, params: ListParams, most: usize) -> BoxFuture<'static, Read<(Vec<K>, bool)>>
where
    K: Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let read = async move {
        let first = read_pages(&api, params.clone(), most).await;
        let read = match first {
            Err(kube::Error::Api(status)) if status.code == 410 => read_pages(&api, params, most).await,
            read => read,
        };
        read.map_err(|error| in_words(&error))
    };
    read.boxed()
}

async fn read_pages<K>(api: &Api<K>, params: ListParams, most: usize) -> kube::Result<(Vec<K>, bool)>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut params = params.limit(PAGE);
    let mut all = Vec::new();
    for _ in 0..most {
        let page = api.list(&params).await?;
        all.extend(page.items);
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok((all, false));
        }
    }
    Ok((all, true))
}

fn get_configuration<K>(client: &Client) -> BoxFuture<'static, Read<Option<K>>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let api = Api::<K>::all(client.clone());
    async move { await_answer(api.get_opt(CONFIGURATION)).await.map_err(|error| in_words(&error)) }.boxed()
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

fn lease(lease: Lease) -> LeaseFacts {
    let spec = lease.spec.unwrap_or_default();
    LeaseFacts {
        holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
        renewed: spec.renew_time.map(|time| time.0),
    }
}

fn deployment(deployment: &Deployment) -> DeploymentFacts {
    let label = |label: &str| deployment.labels().get(label).cloned();
    let status = deployment.status.clone().unwrap_or_default();
    // The API server's default is 1.
    let replicas = deployment.spec.replicas.unwrap_or(1);
    let is_new = status.observed_generation == deployment.metadata.generation;
    DeploymentFacts {
        name: deployment.name_any(),
        component: label(COMPONENT).unwrap_or_default(),
        version: label(VERSION),
        replicas,
        ready: status.ready_replicas.unwrap_or_default(),
        updated: if is_new { status.updated_replicas.unwrap_or_default() } else { 0 },
    }
}

fn pod(pod: &core::Pod) -> PodFacts {
    let component = pod.labels().get(COMPONENT).cloned().unwrap_or_default();
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let image =
        containers.filter(|container| container.name == component).find_map(|container| container.image.as_deref());
    PodFacts { name: pod.name_any(), tag: image.and_then(tag).map(str::to_owned), trouble: trouble(pod), component }
}

/// The tag of an image reference: what follows the last colon, unless that belongs to the port of the registry.
fn tag(image: &str) -> Option<&str> {
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    name.rsplit_once(':').map(|(_, tag)| tag).filter(|tag| !tag.contains('/'))
}

/// Why a pod is not ready: the state of its containers, or why it has no node.
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

/// A node with what its label and taint need.
#[derive(Resource, Deserialize, Clone, Debug)]
#[resource(inherit = core::Node)]
struct Node {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: NodeSpec,
}

#[derive(Deserialize, Clone, Debug, Default)]
struct NodeSpec {
    #[serde(default)]
    taints: Option<Vec<core::Taint>>,
}

fn node(node: Node) -> NodeFacts {
    let taint =
        |taint: core::Taint| Taint { key: taint.key, value: taint.value.unwrap_or_default(), effect: taint.effect };
    NodeFacts {
        name: node.name_any(),
        created: node.metadata.creation_timestamp.as_ref().map(|time| time.0),
        labelled: node.labels().contains_key(WINDOWS_RELEASE_LABEL),
        taints: node.spec.taints.into_iter().flatten().map(taint).collect(),
    }
}

/// A pod of which only labels matter.
#[derive(Resource, Deserialize, Clone, Debug)]
#[resource(inherit = core::Pod)]
struct LabelledPod {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
}

fn findings(pods: Vec<LabelledPod>, more: bool) -> FindingFacts {
    let mut findings = FindingFacts { more, ..FindingFacts::default() };
    for pod in pods {
        let codes = pod.labels().get(FINDINGS_LABEL).map(String::as_str).unwrap_or_default();
        let (pods, all) = findings.namespaces.entry(pod.namespace().unwrap_or_default()).or_default();
        *pods += 1;
        all.extend(codes.split('.').filter(|code| !code.is_empty()).map(str::to_owned));
    }
    findings
}

/// The Events of the last hour, newest first.
fn recent(events: Vec<Event>, now: Timestamp) -> Vec<EventFacts> {
    let facts = events.into_iter().filter_map(|event| {
        let repeated = event.series.map(|series| series.last_observed_time.0);
        let time = repeated.or(event.event_time.map(|time| time.0))?;
        let regarding = event.regarding.unwrap_or_default();
        (now.as_second() - time.as_second() <= MAX_EVENT_AGE).then(|| EventFacts {
            reason: event.reason.unwrap_or_default(),
            kind: regarding.kind.unwrap_or_default(),
            namespace: regarding.namespace.unwrap_or_default(),
            name: regarding.name.unwrap_or_default(),
            note: event.note.unwrap_or_default(),
            time: Some(time),
        })
    });
    let mut facts: Vec<EventFacts> = facts.collect();
    facts.sort_by_key(|event| std::cmp::Reverse(event.time));
    facts
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// A client of an API server with these responses to requests whose path and query contain the text, else 404; and the
    /// requests.
    fn server(responses: Vec<(&'static str, u16, Value)>) -> (Client, Arc<Mutex<Vec<String>>>) {
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let (log, responses) = (Arc::clone(&requests), Mutex::new(responses));
        let service = tower::service_fn(move |request: Request<Body>| {
            let asked = request.uri().to_string();
            log.lock().unwrap().push(asked.clone());
            let mut responses = responses.lock().unwrap();
            let (code, body) = match responses.iter().position(|(part, ..)| asked.contains(part)) {
                // The last response to a request stays.
                Some(at) if responses.iter().filter(|(part, ..)| *part == responses[at].0).count() > 1 => {
                    let (_, code, body) = responses.remove(at);
                    (code, body)
                }
                Some(at) => (responses[at].1, responses[at].2.clone()),
                None => status(404),
            };
            let body = Body::from(body.to_string().into_bytes());
            std::future::ready(Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()))
        });
        (Client::new(service, "default"), requests)
    }

    fn status(code: u16) -> (u16, Value) {
        let reason = if code == 404 { "NotFound" } else { "Other" };
        (
            code,
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": reason, "code": code}),
        )
    }

    fn of(names: &[&str], more: &str) -> Value {
        let items: Vec<Value> = names.iter().map(|name| json!({"metadata": {"name": name}})).collect();
        json!({"metadata": {"continue": more}, "items": items})
    }

    #[tokio::test]
    async fn an_expired_list_begins_again_once() {
        let (gone, page) = (status(410), of(&["a"], "next"));
        let read = async |responses| {
            let (client, requests) = server(responses);
            let read = pages::<Node>(Api::all(client), ListParams::default(), MAX_PAGES).await;
            let read = read.map(|(all, more)| (all.iter().map(kube::ResourceExt::name_any).collect::<Vec<_>>(), more));
            let requests = requests.lock().unwrap().len();
            (read, requests)
        };
        let ends = |code, body| vec![("continue=next", code, body), ("nodes", 200, page.clone())];
        let (found, requests) = read(ends(200, of(&["b"], ""))).await;
        assert_eq!((found, requests), (Ok((vec!["a".to_owned(), "b".to_owned()], false)), 2));
        let mut again = ends(200, of(&["b"], ""));
        again.insert(0, ("continue=next", gone.0, gone.1.clone()));
        let (found, requests) = read(again).await;
        assert_eq!((found.map(|(all, _)| all.len()), requests), (Ok(2), 4), "nothing twice");
        let (found, requests) = read(ends(gone.0, gone.1.clone())).await;
        assert_eq!((found, requests), (Err("410 Other: no".to_owned()), 4));
        let (found, requests) = read(vec![("nodes", 200, page.clone())]).await;
        assert_eq!((found.map(|(all, more)| (all.len(), more)), requests), (Ok((MAX_PAGES, true)), MAX_PAGES));
    }

    #[tokio::test]
    async fn what_cannot_be_searched_is_named() {
        let version = (
            "/version",
            200,
            json!({"major": "1", "minor": "34", "gitVersion": "", "gitCommit": "",
            "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}),
        );
        let empty = || ["deployments", "configmaps", "leases"].map(|kind| (kind, 200, of(&[], "")));
        let (client, requests) = server([vec![version.clone()], empty().to_vec()].concat());
        let Gathered::NotInstalled(unread) = gather(&client, None).await.unwrap() else { panic!("nothing is there") };
        assert_eq!(unread, [""; 0]);
        assert!(!requests.lock().unwrap().iter().any(|request| request.contains("secret")));

        let mut denied = empty().to_vec();
        denied[1] = ("configmaps", 403, status(403).1);
        let (client, _) = server([vec![version.clone()], denied].concat());
        let Gathered::NotInstalled(unread) = gather(&client, None).await.unwrap() else { panic!("nothing is found") };
        assert_eq!(unread, ["403 Other: no"]);
        // A namespace that was named is checked as far as it can be read.
        assert!(matches!(gather(&client, Some("own")).await.unwrap(), Gathered::Installed(_)));

        let (client, _) = server(vec![("/version", 401, status(401).1)]);
        let error = gather(&client, None).await.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("cannot read the cluster: 401"), "{error}");
    }

    #[test]
    fn tags_are_found() {
        for (image, expected) in [
            ("registry.mullion.dev/mullion:0.1.0", Some("0.1.0")),
            ("registry.mullion.dev:5000/mullion:0.1.0@sha256:ab", Some("0.1.0")),
            ("registry.mullion.dev:5000/mullion", None),
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
        pod(&serde_json::from_value(object).unwrap())
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
        let pod = |namespace: &str, codes: &str| -> LabelledPod {
            let labels = json!({FINDINGS_LABEL: codes});
            serde_json::from_value(json!({"metadata": {"name": "p", "namespace": namespace, "labels": labels}}))
                .unwrap()
        };
        let found = findings(vec![pod("shop", "MUL201.MUL302"), pod("shop", "MUL201"), pod("bank", "")], false);
        let codes = |codes: &[&str]| codes.iter().map(|&code| code.to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(found.namespaces["shop"], (2, codes(&["MUL201", "MUL302"])));
        assert_eq!(found.namespaces["bank"], (1, codes(&[])));
    }

    #[test]
    fn old_events_are_left_out() {
        let now: Timestamp = "2026-06-01T12:00:00Z".parse().unwrap();
        let event = |name: &str, time: &str, repeated: Option<&str>| -> Event {
            let series = repeated.map(|time| json!({"count": 2, "lastObservedTime": time}));
            serde_json::from_value(json!({"metadata": {"name": name}, "eventTime": time, "series": series,
                "reason": "TaintWaits", "regarding": {"kind": "Node", "name": name}}))
            .unwrap()
        };
        let events = vec![
            event("old", "2026-06-01T10:00:00.000000Z", None),
            event("repeated", "2026-06-01T10:00:00.000000Z", Some("2026-06-01T11:30:00.000000Z")),
            event("new", "2026-06-01T11:59:00.000000Z", None),
        ];
        let names: Vec<String> = recent(events, now).into_iter().map(|event| event.name).collect();
        assert_eq!(names, ["new", "repeated"]);
    }
}
