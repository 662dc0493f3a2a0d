//! Results of the examples, once their pods no longer change.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use mullion_cluster::{ControlPlane, Seen, TestNamespace, wait_for};

use crate::expected::{Example, Should, trouble_on};
use crate::table::Row;

/// Far longer than anything takes on an idle machine, so that a busy one does not fail the demo.
pub(crate) const DEADLINE: Duration = Duration::from_secs(300);

/// Waits for the namespace's default ServiceAccount: pods are rejected without it.
pub(crate) async fn service_account(plane: &ControlPlane, namespace: &str) -> Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(plane.client(), namespace);
    wait_for("the default ServiceAccount", DEADLINE, || {
        let accounts = accounts.clone();
        async move { accounts.get_opt("default").await.ok().flatten().map(|_| ()) }
    })
    .await
}

/// Waits until the API server calls Mullion: the webhook marks a probe under every policy, audit mode included.
pub(crate) async fn wait_until_called(plane: &ControlPlane) -> Result<()> {
    service_account(plane, "default").await?;
    let probe: Pod = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "probe", "annotations": {"mullion.dev/probe": "demo"}},
        // The limit is required by strict policies.
        "spec": {"containers": [{"name": "c", "image": "mcr.microsoft.com/windows/nanoserver:ltsc2022",
            "resources": {"limits": {"memory": "512Mi"}}}]},
    }))?;
    mullion_cluster::wait_until_called(&default_namespace(plane), &probe, DEADLINE, |answer| {
        let annotations = answer.as_ref().ok().and_then(|stored| stored.metadata.annotations.as_ref());
        annotations.is_some_and(|annotations| annotations.contains_key("mullion.dev/probed"))
    })
    .await
}

/// Waits until the API server also calls Mullion's validating webhook.
pub(crate) async fn wait_until_denied(plane: &ControlPlane) -> Result<()> {
    mullion_cluster::wait_until_denied(&default_namespace(plane), DEADLINE).await
}

fn default_namespace(plane: &ControlPlane) -> TestNamespace {
    TestNamespace { name: "default".to_owned(), client: plane.client() }
}

/// The result of one example.
pub(crate) async fn row(
    plane: &ControlPlane,
    namespace: &str,
    example: &'static Example,
    denial: Option<String>,
) -> Result<Row> {
    let workload = format!("{} {}", example.kind, example.name);
    if let Some(text) = denial {
        let named = match &example.should {
            Should::BeDenied(fields) => fields.iter().all(|field| text.contains(field)),
            Should::RunOn(_) | Should::RunOnEach(_) => false,
        };
        return Ok(Row {
            workload,
            needs: example.needs,
            became: vec!["denied".to_owned()],
            as_it_should_be: named,
            denial: Some(text),
        });
    }
    let pods = pods_at_rest(plane, namespace, example).await?;
    let mut by_node: BTreeMap<String, usize> = BTreeMap::new();
    for pod in &pods {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        *by_node.entry(node).or_default() += 1;
    }
    let good = match &example.should {
        Should::BeDenied(_) => false,
        Should::RunOn(nodes) => !by_node.is_empty() && by_node.keys().all(|node| nodes.contains(&node.as_str())),
        Should::RunOnEach(nodes) => {
            nodes.iter().all(|node| by_node.get(*node) == Some(&1)) && by_node.len() == nodes.len()
        }
    };
    let mut became = Vec::new();
    for (node, count) in by_node {
        let times = if count > 1 { format!(" x{count}") } else { String::new() };
        became.push(match trouble_on(example, &node) {
            _ if node.is_empty() => format!("Pending{times}"),
            Some(trouble) => format!("{node}{times} ({trouble})"),
            None => format!("{node}{times}"),
        });
    }
    Ok(Row { workload, needs: example.needs, became, as_it_should_be: good, denial: None })
}

/// The example's pods, once its controller has created all of them and each is bound or unschedulable.
async fn pods_at_rest(plane: &ControlPlane, namespace: &str, example: &'static Example) -> Result<Vec<Pod>> {
    let client = plane.client();
    wait_for(&format!("the pods of {} {}", example.kind, example.name), DEADLINE, || {
        let client = client.clone();
        let namespace = namespace.to_owned();
        async move {
            let wanted = match wanted_pods(&client, &namespace, example).await {
                Ok(wanted) => wanted,
                Err(error) => return Seen::NotYet(format!("{error:#}")),
            };
            let Some(wanted) = wanted else { return Seen::NotYet("its controller has not looked yet".to_owned()) };
            let pods: Api<Pod> = Api::namespaced(client, &namespace);
            let all = match pods.list(&ListParams::default()).await {
                Ok(all) => all,
                Err(error) => return Seen::NotYet(error.to_string()),
            };
            let own: Vec<Pod> = all.into_iter().filter(|pod| belongs(pod, example)).collect();
            let resting = own.iter().filter(|pod| is_running(pod) || is_unschedulable(pod)).count();
            if own.len() == wanted && resting == wanted {
                Seen::Done(own)
            } else {
                Seen::NotYet(format!("{resting} of {wanted} pods at rest, {} there", own.len()))
            }
        }
    })
    .await
}

/// The number of pods that the controller should create; `None` until it has processed the object.
async fn wanted_pods(client: &kube::Client, namespace: &str, example: &Example) -> Result<Option<usize>> {
    let wanted = match example.kind {
        "Deployment" => {
            let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
            api.get(example.name).await?.spec.replicas
        }
        "DaemonSet" => {
            let api: Api<DaemonSet> = Api::namespaced(client.clone(), namespace);
            let found = api.get(example.name).await?;
            let generation = found.metadata.generation;
            found.status.filter(|status| status.observed_generation == generation).map(|s| s.desired_number_scheduled)
        }
        "Job" => {
            let api: Api<Job> = Api::namespaced(client.clone(), namespace);
            api.get(example.name).await?.spec.and_then(|spec| spec.parallelism)
        }
        _ => Some(1),
    };
    Ok(wanted.and_then(|wanted| usize::try_from(wanted).ok()))
}

/// Pods of Deployments, DaemonSets and Jobs have names that start with theirs.
fn belongs(pod: &Pod, example: &Example) -> bool {
    let name = pod.name_any();
    let own = name == example.name || name.starts_with(&format!("{}-", example.name));
    own && pod.metadata.deletion_timestamp.is_none()
}

fn is_running(pod: &Pod) -> bool {
    let bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    bound && pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

fn is_unschedulable(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|conditions| {
        conditions.iter().any(|c| c.type_ == "PodScheduled" && c.reason.as_deref() == Some("Unschedulable"))
    })
}
