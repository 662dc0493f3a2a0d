//! Pods that were created without Mullion, and unreported findings of pods, on a real control plane: repaired, reported
//! once, or left unchanged.
//!
//! There is no webhook. Every trial has a controller of its own for the trial's namespace.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher;
use kube::{Api, Client};
use mullion::controller::{ControllerMetrics, LeaderContext, pods};
use mullion_cluster::{ControlPlane, Fixture, NodeSpec, Seen, TestNamespace, UNMANAGED, metric, wait_for};
use mullion_policy::PolicySet;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::rights::{self, Subject};
use crate::shared::{DEADLINE, as_tenant, bound, create, delete, differences, get, merge, pod, workload};

const WINDOWS: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";
const TOLERATION: [&str; 4] = ["os", "Equal", "windows", "NoSchedule"];

/// A control plane with two nodes, of which the Windows one is tainted.
pub struct Missed {
    plane: ControlPlane,
    client: Client,
}

impl Fixture for Missed {
    fn keep_logs(&self) -> Vec<PathBuf> {
        vec![self.plane.keep_logs()]
    }
}

impl Missed {
    pub async fn start() -> Result<Self> {
        let plane = ControlPlane::builder().start().await?;
        plane
            .create_nodes(&[
                NodeSpec::linux("linux-1"),
                NodeSpec::windows("win2022", "10.0.20348.2655").taint("os=windows:NoSchedule"),
            ])
            .await?;
        let user = "controller-under-test";
        rights::of_controller(&plane, "default", "default", Subject::User(user)).await?;
        let client = plane.client_as(user, &[]).await?;
        Ok(Self { plane, client })
    }

    /// A controller for only this namespace, with more YAML in the policy's spec.
    fn controller(&self, namespace: &TestNamespace, more: &str) -> Result<Controller> {
        self.controller_of(&[namespace], more)
    }

    /// Does the same for several namespaces.
    fn controller_of(&self, namespaces: &[&TestNamespace], more: &str) -> Result<Controller> {
        let names: Vec<&str> = namespaces.iter().map(|namespace| &*namespace.name).collect();
        let text = format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: others}}\nspec: {{mode: Disabled}}\n---\n\
             apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: ours}}\nspec:\n  priority: 10\n  \
             match: {{namespaces: {{include: [{}]}}}}\n  {more}\n",
            names.join(", ")
        );
        let policies = PolicySet::from_files(&[("policies.yaml", text)]).map_err(|why| anyhow::anyhow!("{why:?}"))?;
        let (keep, policies) = watch::channel(Arc::new(policies));
        let (say_ready, _) = watch::channel(false);
        let (metrics, stop) = (ControllerMetrics::new(), CancellationToken::new());
        let (client, numbers, token) = (self.client.clone(), metrics.clone(), stop.clone());
        let task = tokio::spawn(async move {
            pods::control_loop::run(LeaderContext::new(client, "default", policies, numbers, say_ready, token).await)
                .await;
        });
        Ok(Controller { metrics, stop, task, _policies: keep })
    }
}

/// A controller in this process.
struct Controller {
    metrics: ControllerMetrics,
    stop: CancellationToken,
    task: JoinHandle<()>,
    _policies: watch::Sender<Arc<PolicySet>>,
}

impl Controller {
    async fn stop(self) -> Result<()> {
        self.stop.cancel();
        tokio::time::timeout(DEADLINE, self.task).await.context("the controller did not stop")?.context("it panicked")
    }

    fn number(&self, name: &str) -> Result<u64> {
        Ok(metric(&self.metrics.encode()?, name)?.unwrap_or(0))
    }

    fn patched(&self) -> Result<u64> {
        self.number("mullion_pod_patches_total{outcome=\"done\"}")
    }

    /// Patches are counted after their response, which may be after their pods were bound.
    async fn wait_for_patched(&self, expected: u64) -> Result<()> {
        wait_for(&format!("{expected} patches"), DEADLINE, async || match self.patched() {
            Ok(found) if found == expected => Seen::Done(()),
            Ok(found) if found > expected => Seen::Hopeless(anyhow::anyhow!("{found} patches")),
            found => Seen::NotYet(format!("{found:?}")),
        })
        .await
    }

    async fn wait_for_missed(&self, expected: u64) -> Result<()> {
        wait_for(&format!("mullion_missed_pods {expected}"), DEADLINE, async || {
            let found = self.number("mullion_missed_pods").map_err(|error| error.to_string())?;
            if found == expected { Ok(()) } else { Err(format!("{found}")) }
        })
        .await
    }
}

fn windows(name: &str) -> Value {
    pod(name, json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": [{"name": "c", "image": WINDOWS}]}))
}

/// The Events of Mullion in the namespace.
async fn events(namespace: &TestNamespace) -> Result<Vec<Value>> {
    let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", namespace.name);
    let mut all: Value = namespace.client.request(http::Request::get(path).body(Vec::new())?).await?;
    let all = all["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
    Ok(all.into_iter().filter(|event| event["reportingController"] == "mullion.dev/mullion-controller").collect())
}

/// Waits for an event about that object, and returns it.
async fn event_of(namespace: &TestNamespace, kind: &str, name: &str) -> Result<Value> {
    wait_for(&format!("an event on {kind} {name}"), DEADLINE, || async move {
        let events = events(namespace).await.map_err(|error| format!("{error:#}"))?;
        let about = |event: &&Value| event["regarding"]["kind"] == kind && event["regarding"]["name"] == name;
        events.iter().find(about).cloned().ok_or_else(|| format!("{events:?}"))
    })
    .await
}

async fn wait_for_node(namespace: &TestNamespace, name: &str) -> Result<Value> {
    wait_for(&format!("{name} to be bound"), DEADLINE, || async move {
        match get(namespace, "Pod", name).await {
            Ok(pod) if pod["spec"]["nodeName"].is_string() => Seen::Done(pod),
            Ok(pod) => Seen::NotYet(pod["spec"]["tolerations"].to_string()),
            Err(error) => Seen::NotYet(format!("{error:#}")),
        }
    })
    .await
}

fn helped(pod: &Value) -> bool {
    let [key, operator, value, effect] = TOLERATION;
    let ours = json!({"key": key, "operator": operator, "value": value, "effect": effect});
    pod["spec"]["tolerations"].as_array().is_some_and(|all| all.contains(&ours))
}

/// They wait, get what is missing and nothing else, and the scheduler binds them.
pub async fn windows_pods_made_without_mullion_land(missed: &Missed) -> Result<()> {
    let namespace = missed.plane.namespace("missed").await?;
    let mut unusual = windows("unusual");
    unusual["spec"]["tolerations"] =
        json!([{"key": "team", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]);
    let before = create(&namespace, &unusual).await?;
    let mut deployment = workload("Deployment", "web", WINDOWS);
    deployment["spec"]["replicas"] = json!(3);
    deployment["spec"]["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
    create(&namespace, &deployment).await?;
    create(&namespace, &windows("short-lived")).await?;
    delete(&namespace, "Pod", "short-lived").await?;
    let controller = missed.controller(&namespace, "mode: Enforce")?;
    let nodes = bound(&namespace, 4).await?;
    ensure!(nodes.iter().all(|node| node == "win2022"), "{nodes:?}");
    let after = get(&namespace, "Pod", "unusual").await?;
    ensure!(helped(&after), "{after}");
    let differ = differences(&before["spec"], &after["spec"], "");
    ensure!(differ == ["/nodeName", "/tolerations"], "{differ:?}");
    let list = |pod: &Value| pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    ensure!(list(&after)[..list(&before).len()] == list(&before)[..], "{after}");
    ensure!(list(&after).len() == list(&before).len() + 1, "{after}");
    controller.wait_for_patched(4).await.context("for four pods")?;
    ensure!(events(&namespace).await?.is_empty(), "{:?}", events(&namespace).await?);
    controller.stop().await
}

/// A pool with another taint joins while pods wait for it. On a control plane of its own, because all waiting Windows
/// pods get a toleration for it.
pub async fn taints_that_appear_later_are_tolerated(missed: &Missed) -> Result<()> {
    let namespace = missed.plane.namespace("later").await?;
    let controller = missed.controller(&namespace, "mode: Enforce")?;
    let mut waiting = windows("p");
    waiting["spec"]["nodeSelector"]["pool"] = json!("later");
    create(&namespace, &waiting).await?;
    wait_for("the toleration of what is known", DEADLINE, async || {
        get(&namespace, "Pod", "p").await.is_ok_and(|pod| helped(&pod)).then_some(())
    })
    .await?;
    let node = NodeSpec::windows("wlater", "10.0.20348.2655").label("pool", "later").taint("sku=Windows:NoSchedule");
    missed.plane.create_node(&node).await?;
    let pod = wait_for_node(&namespace, "p").await?;
    ensure!(pod["spec"]["nodeName"] == "wlater", "{pod}");
    controller.wait_for_patched(2).await?;
    controller.stop().await
}

/// Exempt, gated, of a DaemonSet, or in audit mode: nothing is written, and nothing reported.
pub async fn other_pods_stay_unchanged(missed: &Missed) -> Result<()> {
    let plane = &missed.plane;
    let (ours, audited) = (plane.namespace("alone").await?, plane.namespace("audited").await?);
    let ignored = plane.namespace_with_labels("ignored", &[("mullion.dev/ignore", "true")]).await?;
    let mut gated = windows("gated");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/quota"}]);
    create(&ours, &gated).await?;
    let mut daemons = workload("DaemonSet", "agent", WINDOWS);
    daemons["spec"]["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
    create(&ours, &daemons).await?;
    for namespace in [&audited, &ignored] {
        create(namespace, &windows("p")).await?;
        let mut hopeless = workload("Deployment", "web", WINDOWS);
        hopeless["spec"]["template"]["spec"]["nodeSelector"] = json!({"pool": "none"});
        create(namespace, &hopeless).await?;
    }
    create(&ours, &windows("control")).await?;
    let controllers = [
        missed.controller(&ours, "mode: Enforce")?,
        missed.controller(&audited, "mode: Audit")?,
        missed.controller(&ignored, "mode: Enforce")?,
    ];
    // It was created after all the others.
    wait_for_node(&ours, "control").await?;
    // The other two pods are due at the same time; this one is due at a later time.
    let sentinel = plane.namespace("sentinel").await?;
    create(&sentinel, &windows("p")).await?;
    let last = missed.controller(&sentinel, "mode: Enforce")?;
    wait_for_node(&sentinel, "p").await?;
    ensure!(!helped(&get(&ours, "Pod", "gated").await?), "a gated pod was written");
    for namespace in [&audited, &ignored] {
        ensure!(!helped(&get(namespace, "Pod", "p").await?), "a pod of {} was written", namespace.name);
        ensure!(events(namespace).await?.is_empty(), "{:?}", events(namespace).await?);
    }
    let [first, audit, ignore] = &controllers;
    first.wait_for_patched(1).await?;
    ensure!(audit.patched()? == 0 && ignore.patched()? == 0, "too many patches");
    ensure!(audit.number("mullion_missed_pods")? == 0 && ignore.number("mullion_missed_pods")? == 0, "counted");
    // Without the gate it is a pod like any other.
    merge(&ours, "Pod", "gated", &json!({"spec": {"schedulingGates": []}})).await?;
    wait_for_node(&ours, "gated").await?;
    for controller in controllers {
        controller.stop().await?;
    }
    last.stop().await
}

/// Findings that cannot be repaired in an existing pod are reported once, on the Deployment, and counted until they are fixed.
pub async fn unrepairable_pods_are_reported(missed: &Missed) -> Result<()> {
    let namespace = missed.plane.namespace("reported").await?;
    let mut deployment = workload("Deployment", "web", WINDOWS);
    deployment["spec"]["replicas"] = json!(2);
    deployment["spec"]["template"]["spec"]["nodeSelector"] = json!({"pool": "none"});
    create(&namespace, &deployment).await?;
    let mut hopeless =
        pod("bare", json!({"containers": [{"name": "c", "image": WINDOWS}], "nodeSelector": {"pool": "none"}}));
    hopeless["spec"]["hostNetwork"] = json!(true);
    create(&namespace, &hopeless).await?;
    let controller = missed.controller(&namespace, "mode: Enforce")?;
    let event = event_of(&namespace, "Deployment", "web").await?;
    let note = event["note"].as_str().unwrap_or_default();
    ensure!(event["reason"] == "PodsMissed" && event["type"] == "Warning", "{event}");
    ensure!(note.contains("nodeSelector kubernetes.io/os: windows"), "{note}");
    ensure!(note.contains(&format!("kubectl rollout restart deployment/web -n {}", namespace.name)), "{note}");
    let event = event_of(&namespace, "Pod", "bare").await?;
    ensure!(event["note"].as_str().is_some_and(|note| note.contains("hostNetwork")), "{event}");
    controller.wait_for_missed(3).await?;
    controller.stop().await?;
    // The next controller finds the same, and reports nothing new.
    let next = missed.controller(&namespace, "mode: Enforce")?;
    next.wait_for_missed(3).await?;
    let events = events(&namespace).await?;
    ensure!(events.len() == 2, "{events:?}");
    delete(&namespace, "Deployment", "web").await?;
    delete(&namespace, "Pod", "bare").await?;
    next.wait_for_missed(0).await?;
    next.stop().await
}

/// A Linux pod that fails on a Windows node is reported, and one that has never started there is counted as stuck, as is a Windows
/// pod for another build; one that works there is not.
pub async fn pods_on_the_wrong_nodes_are_reported(missed: &Missed) -> Result<()> {
    let namespace = missed.plane.namespace("wrong").await?;
    let on_windows = |name: &str| {
        pod(
            name,
            json!({"nodeName": "win2022", "containers": [{"name": "c", "image": "registry.example.com/app:1.0-linux"}]}),
        )
    };
    let mut broken = on_windows("broken");
    broken["metadata"]["annotations"] = json!({UNMANAGED: "as a kubelet that cannot start it"});
    let created = create(&namespace, &broken).await?;
    create(&namespace, &on_windows("works")).await?;
    let mut stuck = on_windows("stuck");
    stuck["metadata"]["annotations"] = json!({"mullion-cluster/waits-off": "linux"});
    create(&namespace, &stuck).await?;
    let mut of_build = stuck.clone();
    of_build["metadata"]["name"] = json!("of-build");
    of_build["spec"]["containers"][0]["image"] = json!("mcr.microsoft.com/windows/nanoserver:ltsc2019");
    create(&namespace, &of_build).await?;
    let created: jiff::Timestamp = created["metadata"]["creationTimestamp"].as_str().context("a time")?.parse()?;
    wait_for("the pods to be older than those that may have come before their node", DEADLINE, async || {
        let old = jiff::Timestamp::now().duration_since(created).as_secs() > 11;
        let works = get(&namespace, "Pod", "works").await.map_err(|error| error.to_string())?;
        let stuck = get(&namespace, "Pod", "stuck").await.map_err(|error| error.to_string())?;
        let of_build = get(&namespace, "Pod", "of-build").await.map_err(|error| error.to_string())?;
        let is_reported = works["status"]["phase"] == "Running"
            && stuck["status"]["podIP"].is_string()
            && of_build["status"]["podIP"].is_string();
        if old && is_reported { Ok(()) } else { Err(format!("{}, {}", works["status"], stuck["status"])) }
    })
    .await?;
    let controller = missed.controller(&namespace, "mode: Enforce")?;
    let event = event_of(&namespace, "Pod", "broken").await?;
    let note = event["note"].as_str().unwrap_or_default();
    ensure!(event["reason"] == "PodsMisplaced" && note.contains("app:1.0-linux"), "{event}");
    controller.wait_for_missed(2).await?;
    let reasons = wait_for("an event about the pod that never started", DEADLINE, async || {
        let events = events(&namespace).await.map_err(|error| error.to_string())?;
        let of_stuck = events.iter().filter(|event| event["regarding"]["name"] == "stuck");
        let mut reasons: Vec<String> = of_stuck.map(|event| event["reason"].to_string()).collect();
        reasons.sort();
        if events.len() == 4 { Ok(reasons) } else { Err(format!("{events:?}")) }
    })
    .await?;
    ensure!(reasons == ["\"PodsMisplaced\"", "\"PodsStuck\""], "{reasons:?}");
    let event = event_of(&namespace, "Pod", "of-build").await?;
    let note = event["note"].as_str().unwrap_or_default();
    ensure!(
        event["reason"] == "PodsStuck" && note.contains("of build 10.0.20348, which cannot run the images"),
        "{event}"
    );
    ensure!(controller.number("mullion_stuck_pods{node_os=\"windows\"}")? == 2, "{}", controller.metrics.encode()?);
    controller.stop().await
}

pub(crate) fn with_findings(kind: &str, name: &str) -> Value {
    let mut object = workload(kind, name, WINDOWS);
    let template = &mut object["spec"]["template"];
    template["metadata"]["labels"]["mullion.dev/findings"] = json!("MUL201");
    template["spec"]["securityContext"] = json!({"runAsUser": 1000});
    template["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
    template["spec"]["tolerations"] = json!([{"key": "os", "operator": "Exists"}]);
    object
}

/// However many pods, and however many controllers.
pub async fn the_findings_of_a_deployment_are_one_event(missed: &Missed) -> Result<()> {
    let namespace = missed.plane.namespace("findings").await?;
    create(&namespace, &with_findings("Deployment", "web")).await?;
    bound(&namespace, 1).await?;
    let controller = missed.controller(&namespace, "mode: Enforce")?;
    let event = event_of(&namespace, "Deployment", "web").await?;
    let note = event["note"].as_str().unwrap_or_default();
    ensure!(event["reason"] == "WindowsFindings" && event["type"] == "Warning", "{event}");
    for expected in ["MUL201 run-as-user", "spec.securityContext.runAsUser", "mullion rules MUL201", "mullion check"] {
        ensure!(note.contains(expected), "{note}");
    }
    merge(&namespace, "Deployment", "web", &json!({"spec": {"replicas": 20}})).await?;
    bound(&namespace, 20).await?;
    controller.stop().await?;
    let next = missed.controller(&namespace, "mode: Enforce")?;
    // The next event is the same: its count increases.
    wait_for("the event to be repeated", DEADLINE, async || match event_of(&namespace, "Deployment", "web").await {
        Ok(event) if event["series"]["count"].as_u64() >= Some(2) => Seen::Done(()),
        other => Seen::NotYet(format!("{other:?}")),
    })
    .await?;
    let all = events(&namespace).await?;
    ensure!(all.len() == 1, "{all:?}");
    let described = missed.plane.kubectl(&["describe", "deployment", "web", "-n", &namespace.name]).await?;
    let listed = missed.plane.kubectl(&["get", "events", "-n", &namespace.name]).await?;
    ensure!(described.contains("WindowsFindings") && described.contains("mullion rules MUL201"), "{described}");
    ensure!(listed.contains("deployment/web"), "{listed}");
    next.stop().await
}

/// The pods of a Job are reported on its CronJob, those of a StatefulSet on the StatefulSet.
pub async fn findings_are_reported_on_the_top_level_owner(missed: &Missed) -> Result<()> {
    let namespace = missed.plane.namespace("owners").await?;
    let job = with_findings("Job", "nightly-1");
    let cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}, "spec": {
        "schedule": "0 3 * * *", "suspend": true, "jobTemplate": {"spec": job["spec"]}}});
    missed.plane.kubectl_with_input(&["create", "-n", &namespace.name, "-f", "-"], &cron.to_string()).await?;
    missed.plane.kubectl(&["create", "job", "nightly-1", "--from=cronjob/nightly", "-n", &namespace.name]).await?;
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"}, "spec": {"serviceName": "web",
        "replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": with_findings("Deployment", "web")["spec"]["template"]}});
    missed.plane.kubectl_with_input(&["create", "-n", &namespace.name, "-f", "-"], &set.to_string()).await?;
    let controller = missed.controller(&namespace, "mode: Enforce")?;
    let event = event_of(&namespace, "CronJob", "nightly").await?;
    ensure!(event["reason"] == "WindowsFindings", "{event}");
    event_of(&namespace, "StatefulSet", "web").await?;
    let events = events(&namespace).await?;
    ensure!(events.len() == 2, "{events:?}");
    controller.stop().await
}

/// Creates many objects, eight at a time.
async fn create_all(namespace: &TestNamespace, objects: &[Value]) -> Result<()> {
    for some in objects.chunks(8) {
        futures::future::try_join_all(some.iter().map(|object| create(namespace, object))).await?;
    }
    Ok(())
}

/// A tenant has hundreds of unscheduled pods, which existed before the one of another namespace. That one is repaired
/// with the first few of them.
pub async fn a_tenant_with_many_pods_delays_no_other(missed: &Missed) -> Result<()> {
    const MANY: usize = 300;
    let (noisy, quiet) = (missed.plane.namespace("a-noisy").await?, missed.plane.namespace("quiet").await?);
    let tenant = as_tenant(&missed.plane, "noisy-tenant", &noisy).await?;
    let waiting = |name: &str| {
        let mut pod = windows(name);
        pod["spec"]["nodeSelector"]["pool"] = json!("none");
        pod
    };
    let pods: Vec<Value> = (0..MANY).map(|n| waiting(&format!("p{n:03}"))).collect();
    create_all(&tenant, &pods).await?;
    let last = create(&quiet, &waiting("only")).await?;
    let created: jiff::Timestamp = last["metadata"]["creationTimestamp"].as_str().context("a time")?.parse()?;
    wait_for("every pod to be due at once", DEADLINE, async || {
        let age = jiff::Timestamp::now().duration_since(created).as_secs();
        if age > 6 { Ok(()) } else { Err(format!("{age} s")) }
    })
    .await?;

    // The order of the patches is that of the watch's events.
    let pending = watcher::Config::default().fields("status.phase=Pending");
    let mut changes = Box::pin(watcher(Api::<Pod>::all(missed.plane.client()), pending));
    while !matches!(changes.try_next().await?, Some(watcher::Event::InitDone)) {}
    let controller = missed.controller_of(&[&noisy, &quiet], "mode: Enforce")?;
    let mut repaired: Vec<String> = Vec::new();
    tokio::time::timeout(DEADLINE, async {
        while !repaired.contains(&quiet.name) {
            let Some(watcher::Event::Apply(pod)) = changes.try_next().await? else { continue };
            if helped(&serde_json::to_value(&pod)?) {
                repaired.extend(pod.metadata.namespace);
            }
        }
        anyhow::Ok(())
    })
    .await
    .with_context(|| format!("{} pods of the tenant are repaired, and not the other one", repaired.len()))??;
    // Eight are repaired at a time, and each may be processed again when the scheduler has tried it.
    ensure!(repaired.len() <= 40, "{} pods of the tenant were repaired before", repaired.len());
    controller.wait_for_patched(MANY as u64 + 1).await?;
    controller.stop().await?;
    noisy.delete().await?;
    quiet.delete().await
}

/// A tenant has more pods to report than its share of Events. Other tenants get theirs.
pub async fn a_tenant_with_many_reports_uses_up_its_own_share(missed: &Missed) -> Result<()> {
    const SHARE: usize = 100;
    let (noisy, quiet) = (missed.plane.namespace("a-reported").await?, missed.plane.namespace("quiet-reported").await?);
    let tenant = as_tenant(&missed.plane, "reported-tenant", &noisy).await?;
    let hopeless = |name: &str| {
        pod(
            name,
            json!({"containers": [{"name": "c", "image": WINDOWS}], "nodeSelector": {"pool": "none"}, "hostNetwork": true}),
        )
    };
    let pods: Vec<Value> = (0..SHARE + 40).map(|n| hopeless(&format!("p{n:03}"))).collect();
    create_all(&tenant, &pods).await?;
    create(&quiet, &hopeless("first")).await?;
    let controller = missed.controller_of(&[&noisy, &quiet], "mode: Enforce")?;
    event_of(&quiet, "Pod", "first").await?;
    wait_for("the share of the tenant", DEADLINE, async || match events(&noisy).await {
        Ok(events) if events.len() == SHARE => Seen::Done(()),
        Ok(events) if events.len() > SHARE => Seen::Hopeless(anyhow::anyhow!("{} events", events.len())),
        events => Seen::NotYet(format!("{:?}", events.map(|events| events.len()))),
    })
    .await?;
    // When another one has been written, the rest would have been written too.
    create(&quiet, &hopeless("second")).await?;
    event_of(&quiet, "Pod", "second").await?;
    let events = events(&noisy).await?;
    ensure!(events.len() == SHARE, "{} events", events.len());
    // All are counted, whether or not there is an Event.
    controller.wait_for_missed(SHARE as u64 + 42).await?;
    controller.stop().await?;
    noisy.delete().await?;
    quiet.delete().await
}
