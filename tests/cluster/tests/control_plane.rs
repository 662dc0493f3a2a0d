//! The library with real processes. `make tools` builds what these tests need; without it they fail with an error about
//! it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use mullion_cluster::{
    ControlPlane, FailurePolicy, NodeSpec, ServingCert, TestNamespace, Tool, Tools, WebhookRegistration, wait_for,
    wait_until_called,
};
use serde_json::{Value, json};

/// Nothing takes nearly as long on an idle machine.
const DEADLINE: Duration = Duration::from_secs(300);

fn pod(name: &str) -> Pod {
    serde_json::from_value(
        json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}),
    )
    .unwrap()
}

/// One control plane for everything that can share one.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_pods_identities_and_webhooks() {
    let plane = ControlPlane::builder().start().await.unwrap();
    nodes_are_ready_and_keep_their_facts(&plane).await;
    a_deployment_runs(&plane).await;
    a_kubelet_may_change_its_own_node_only(&plane).await;
    kubectl_works_and_its_errors_show(&plane).await;
    a_registered_webhook_is_asked(&plane).await;
    plane.check().unwrap();
    everything_ends_with_a_drop(plane);
}

async fn nodes_are_ready_and_keep_their_facts(plane: &ControlPlane) {
    let windows =
        NodeSpec::windows("w2022", "10.0.20348.2655").taint("os=Windows:NoSchedule").runtime("containerd://2.0.5");
    let specs = [windows, NodeSpec::linux("l1"), NodeSpec::windows("w2019", "10.0.17763.6293").label("pool", "old")];
    let nodes = plane.create_nodes(&specs).await.unwrap();
    plane.create_node(&NodeSpec::linux("down").not_ready()).await.unwrap();
    for (node, spec) in nodes.iter().zip(&specs) {
        let expected = spec.build().unwrap();
        let status = node.status.as_ref().unwrap();
        assert_eq!(status.node_info, expected.status.as_ref().unwrap().node_info);
        assert_eq!(status.allocatable, expected.status.as_ref().unwrap().allocatable);
        assert_eq!(node.metadata.labels, expected.metadata.labels);
        let ready = status.conditions.as_ref().unwrap().iter().find(|condition| condition.type_ == "Ready").unwrap();
        assert_eq!(ready.status, "True");
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        assert_eq!(taints, spec.taints().unwrap());
    }
    let down: Node = Api::all(plane.client()).get("down").await.unwrap();
    assert_eq!(down.status.unwrap().conditions.unwrap()[0].status, "False");
    assert!(down.spec.unwrap().taints.unwrap().iter().any(|taint| taint.key == "node.kubernetes.io/not-ready"));
}

/// The pods have no operating system, which is the failure that Mullion prevents.
async fn a_deployment_runs(plane: &ControlPlane) {
    let namespace = plane.namespace("web").await.unwrap();
    plane
        .kubectl(&["create", "deployment", "web", "--image=nginx", "--replicas=4", "-n", &namespace.name])
        .await
        .unwrap();
    let pods: Api<Pod> = namespace.api();
    let nodes = wait_for("four running pods", DEADLINE, async || {
        let pods = pods.list(&ListParams::default().labels("app=web")).await.map_err(|error| error.to_string())?.items;
        let running =
            pods.iter().filter(|pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running"));
        let nodes: Vec<_> = running.filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect();
        if nodes.len() == 4 { Ok(nodes) } else { Err(format!("running on {nodes:?}")) }
    })
    .await
    .unwrap();
    assert!(
        nodes.iter().all(|node| node == "l1" || node == "w2019"),
        "tainted or not ready nodes must stay empty: {nodes:?}"
    );
    namespace.delete().await.unwrap();
}

async fn a_kubelet_may_change_its_own_node_only(plane: &ControlPlane) {
    let client = plane.client_as("system:node:w2022", &["system:nodes"]).await.unwrap();
    let nodes: Api<Node> = Api::all(client);
    let patch = |key: &str| Patch::Merge(json!({"metadata": {"labels": {key: "x"}}}));
    nodes.patch("w2022", &PatchParams::default(), &patch("example.com/mine")).await.unwrap();
    let other = nodes.patch("l1", &PatchParams::default(), &patch("example.com/mine")).await.unwrap_err().to_string();
    assert!(other.contains("is not allowed to modify node") || other.contains("can only"), "{other}");
    let restricted = nodes
        .patch("w2022", &PatchParams::default(), &patch("node-restriction.kubernetes.io/a"))
        .await
        .unwrap_err()
        .to_string();
    assert!(restricted.contains("is not allowed to modify labels"), "{restricted}");
    // Two groups reach the API server as two.
    let config = plane.kubeconfig_for("jane", &["team-a", "team-b"]).unwrap();
    let config = config.to_str().unwrap();
    let whoami = plane.kubectl(&["auth", "whoami", "-o", "json", "--kubeconfig", config]).await.unwrap();
    assert!(whoami.contains("\"jane\"") && whoami.contains("\"team-a\"") && whoami.contains("\"team-b\""), "{whoami}");
}

async fn kubectl_works_and_its_errors_show(plane: &ControlPlane) {
    let namespace = plane.namespace("kubectl").await.unwrap();
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "b"}}).to_string();
    plane.kubectl_with_input(&["apply", "-n", &namespace.name, "-f", "-"], &map).await.unwrap();
    let stored: ConfigMap = namespace.api().get("m").await.unwrap();
    assert_eq!(stored.data.unwrap()["a"], "b");
    let error = plane.kubectl(&["get", "nonsense"]).await.unwrap_err().to_string();
    assert!(
        error.starts_with("kubectl get nonsense failed") && error.contains("the server doesn't have a resource type"),
        "{error}"
    );
}

/// No server listens at the address, so the API server's own error proves that it called the webhook, and in which
/// namespace.
async fn a_registered_webhook_is_asked(plane: &ControlPlane) {
    let (asked, left_alone) = (plane.namespace("asked").await.unwrap(), plane.namespace("alone").await.unwrap());
    let url = format!("https://127.0.0.1:{}", mullion_cluster::free_port().unwrap());
    let cert = ServingCert::for_loopback().unwrap();
    let registration =
        WebhookRegistration::new(&url, cert.ca_pem()).only_namespace(&asked).timeout_seconds(1).with_nodes();
    registration.register(&plane.client()).await.unwrap();
    let denied = |answer: &Result<Pod, kube::Error>| matches!(answer, Err(error) if error.to_string().contains("pods.mullion.dev"));
    wait_until_called(&asked, &pod("p"), DEADLINE, denied).await.unwrap();
    create(&left_alone, "p").await.unwrap();
    registration.failure_policy(FailurePolicy::Ignore).register(&plane.client()).await.unwrap();
    wait_until_called(&asked, &pod("p"), DEADLINE, Result::is_ok).await.unwrap();
    create(&asked, "p").await.unwrap();
}

async fn create(namespace: &TestNamespace, name: &str) -> Result<Pod, kube::Error> {
    namespace.api().create(&PostParams::default(), &pod(name)).await
}

fn everything_ends_with_a_drop(plane: ControlPlane) {
    let (pids, folder) = (plane.pids(), plane.dir());
    assert_eq!(pids.len(), 5);
    assert!(folder.is_dir() && pids.iter().all(|&pid| runs(pid)));
    drop(plane);
    assert_eq!(pids.into_iter().filter(|&pid| runs(pid)).collect::<Vec<_>>(), Vec::<u32>::new());
    assert!(!folder.exists());
}

fn runs(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

#[tokio::test]
async fn a_broken_flag_shows_the_api_servers_own_words() {
    let error = ControlPlane::builder().api_server_flag("--no-such-flag").start().await.err().unwrap();
    let error = format!("{error:#}");
    assert!(error.contains("kube-apiserver ended early") && error.contains("unknown flag: --no-such-flag"), "{error}");
    let kept = error.split_once("its logs are in ").unwrap().1.split_once(')').unwrap().0;
    let log = std::fs::read_to_string(Path::new(kept).join("kube-apiserver.log")).unwrap();
    assert!(log.contains("unknown flag"), "{log}");
    std::fs::remove_dir_all(kept).unwrap();
}

/// The smallest control plane: nodes still become ready and lose their not-ready taint, although no controller removes
/// it.
#[tokio::test]
async fn an_api_server_alone_has_ready_nodes() {
    let builder = ControlPlane::builder()
        .controller_manager(false)
        .scheduler(false)
        .kwok(false)
        .admission_plugins(&["PodNodeSelector"]);
    let plane = builder.start().await.unwrap();
    assert_eq!(plane.pids().len(), 2);
    let node = plane.create_node(&NodeSpec::linux("l1").taint("a=b:NoSchedule")).await.unwrap();
    assert_eq!(node.spec.unwrap().taints.unwrap().len(), 1);
    let namespace = plane.namespace("pods").await.unwrap();
    create(&namespace, "p").await.unwrap();
}

/// The stdin of helm-batch ends with the process that started it, even if that is killed.
#[tokio::test]
async fn helm_batch_ends_with_its_input() {
    let mut command = Tools::locate().unwrap().command(Tool::HelmBatch);
    let mut batch = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = batch.stdin.take().unwrap();
    stdin.write_all(b"[\"version\"]\n[\"no-such-command\"]\n").unwrap();
    drop(stdin);
    let ended = wait_for("the end of helm-batch", DEADLINE, || {
        let status = batch.try_wait().unwrap();
        async move { status }
    });
    let status = ended.await.unwrap();
    assert!(status.success(), "{status}");
    let outputs = std::io::read_to_string(batch.stdout.take().unwrap()).unwrap();
    let outputs: Vec<Value> = outputs.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(outputs.len(), 2, "{outputs:?}");
    assert_eq!((&outputs[0]["succeeded"], &outputs[0]["stderr"]), (&json!(true), &json!("")));
    assert_eq!((&outputs[1]["succeeded"], &outputs[1]["stdout"]), (&json!(false), &json!("")));
    assert!(outputs[1]["stderr"].as_str().unwrap().contains("unknown command \"no-such-command\""), "{outputs:?}");
}

/// Test registrations are those of the chart, except for the address of the webhook and the changes of the test.
#[test]
fn registrations_are_the_charts() {
    let registration = WebhookRegistration::new("https://127.0.0.1:9443/", "PEM");
    let names = |object: &Value| -> Vec<String> {
        object["webhooks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|webhook| webhook["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let mutating = serde_json::to_value(registration.mutating().unwrap()).unwrap();
    assert_eq!(names(&mutating), ["pods.mullion.dev", "templates.mullion.dev"]);
    let pods = &mutating["webhooks"][0];
    assert_eq!(pods["clientConfig"], json!({"url": "https://127.0.0.1:9443/mutate", "caBundle": "UEVN"}));
    assert_eq!((&pods["failurePolicy"], &pods["timeoutSeconds"]), (&json!("Fail"), &json!(30)));
    assert!(pods["matchConditions"].as_array().is_some_and(|conditions| !conditions.is_empty()));

    let installed = registration.as_installed().with_nodes().named("other").namespace_label("a", "b");
    let mutating = serde_json::to_value(installed.mutating().unwrap()).unwrap();
    assert_eq!((names(&mutating).len(), &mutating["metadata"]["name"]), (3, &json!("other")));
    let pods = &mutating["webhooks"][0];
    assert_eq!((&pods["failurePolicy"], &pods["timeoutSeconds"]), (&json!("Ignore"), &json!(1)));
    let own = json!([{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["mullion-system"]}]);
    assert_eq!(pods["namespaceSelector"], json!({"matchLabels": {"a": "b"}, "matchExpressions": own}));
    let validating = serde_json::to_value(installed.validating().unwrap()).unwrap();
    assert_eq!(names(&validating), ["pods.mullion.dev", "templates.mullion.dev", "policies.mullion.dev"]);
    let policies = &validating["webhooks"][2];
    assert_eq!(policies["namespaceSelector"], json!({"matchLabels": {"a": "b"}}));
    assert_eq!(policies["objectSelector"], json!({"matchLabels": {"mullion.dev/policy": "true"}}));
    let failing = installed.value("admission.failurePolicy=Fail");
    let validating = serde_json::to_value(failing.validating().unwrap()).unwrap();
    let all = ["pods.mullion.dev", "other-pods.mullion.dev", "templates.mullion.dev", "policies.mullion.dev"];
    assert_eq!(names(&validating), all);
    let policies: Vec<&Value> =
        validating["webhooks"].as_array().unwrap().iter().map(|webhook| &webhook["failurePolicy"]).collect();
    assert_eq!(policies, ["Fail", "Ignore", "Ignore", "Ignore"]);
    let error = failing.value("admission.timeoutSeconds.mutating=6").mutating().unwrap_err().to_string();
    assert!(error.contains("maximum: got 6, want 5"), "{error}");
}
