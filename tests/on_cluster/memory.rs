//! ConfigMap `mullion-state` between controller and webhook, the taint at a node's CREATE, and limits on what nodes can
//! make grow.
//!
//! Each function runs Mullion over the whole cluster: one at a time.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use mullion_cluster::{
    ControlPlane, MullionProcess, NodeSpec, Seen, ServingCert, TestNamespace, WebhookRegistration, free_port, metric,
    wait_for,
};
use serde_json::{Value, json};

use crate::rights::{self, Subject};
use crate::shared::{DEADLINE, admin_get, create, dry_run, get, pod};

const STATE: &str = "mullion-state";
const BAD: &str = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: mine}\nspec: {priorty: 7}\n";

/// A policy of this priority, beside the default ones.
fn policy(priority: u32) -> String {
    format!(
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: mine}}\nspec: {{priority: {priority}}}\n"
    )
}

/// A directory with one policy file.
fn directory(text: &str) -> Result<tempfile::TempDir> {
    let directory = tempfile::tempdir()?;
    std::fs::write(directory.path().join("mine.yaml"), text)?;
    Ok(directory)
}

/// A running program and its admin port.
pub struct Running {
    pub process: MullionProcess,
    admin: SocketAddr,
}

impl Running {
    /// The response of the admin port.
    pub async fn get(&self, path: &str) -> Result<String> {
        Ok(admin_get(self.admin.port(), path).await?.1)
    }

    pub async fn policies(&self) -> Result<Value> {
        Ok(serde_json::from_str(&self.get("/policies").await?)?)
    }

    pub async fn metric(&self, name: &str) -> Result<u64> {
        Ok(metric(&self.get("/metrics").await?, name)?.unwrap_or(0))
    }
}

pub async fn start(arguments: &[String]) -> Result<Running> {
    let admin: SocketAddr = ([127, 0, 0, 1], free_port()?).into();
    let process = MullionProcess::builder(env!("CARGO_BIN_EXE_mullion"))
        .args(arguments)
        .args(["--admin-bind", &admin.to_string()])
        .admin(admin)
        .start()
        .await?;
    Ok(Running { process, admin })
}

/// Waits for the program to end with exit code 2; returns its output.
pub async fn failed_start(arguments: &[String]) -> Result<String> {
    let admin = format!("127.0.0.1:{}", free_port()?);
    let process = MullionProcess::builder(env!("CARGO_BIN_EXE_mullion"))
        .args(arguments)
        .args(["--admin-bind", &admin])
        .start()
        .await?;
    let status = wait_for("the program to end", DEADLINE, async || match process.ended() {
        Ok(Some(status)) => Seen::Done(status),
        Ok(None) => Seen::NotYet("it runs".to_owned()),
        Err(error) => Seen::Hopeless(error),
    })
    .await?;
    let log = process.log()?;
    ensure!(status.code() == Some(2), "{status}: {log}");
    Ok(log)
}

fn arguments<const N: usize>(command: &str, flags: [(&str, &str); N]) -> Vec<String> {
    let flags = flags.iter().flat_map(|(flag, value)| [*flag, *value]);
    [command].into_iter().chain(flags).map(str::to_owned).collect()
}

pub fn as_controller(kubeconfig: &Path, namespace: &TestNamespace, policies: &Path) -> Vec<String> {
    let (kubeconfig, policies) = (kubeconfig.to_string_lossy(), policies.to_string_lossy());
    let flags = [
        ("--kubeconfig", &*kubeconfig),
        ("--policies", &*policies),
        ("--lease-namespace", &*namespace.name),
        ("--reload-interval", "0.1"),
    ];
    arguments("controller", flags)
}

pub async fn controller(kubeconfig: &Path, namespace: &TestNamespace, policies: &Path) -> Result<Running> {
    start(&as_controller(kubeconfig, namespace, policies)).await
}

/// A webhook's arguments, and its registration with the API server.
pub fn as_webhook(
    plane: &ControlPlane,
    kubeconfig: &Path,
    namespace: &TestNamespace,
    policies: &Path,
) -> Result<(Vec<String>, WebhookRegistration)> {
    let address = format!("127.0.0.1:{}", free_port()?);
    let certificate = ServingCert::for_loopback()?;
    let tls = plane.dir().join(format!("memory-{address}"));
    std::fs::create_dir_all(&tls)?;
    certificate.copy_to(&tls)?;
    let flags = [
        ("--kubeconfig", &*kubeconfig.to_string_lossy()),
        ("--policies", &*policies.to_string_lossy()),
        ("--namespace", &*namespace.name),
        ("--bind", &*address),
        ("--tls-dir", &*tls.to_string_lossy()),
        ("--reload-interval", "0.1"),
        ("--drain-delay", "0"),
    ];
    let registration = WebhookRegistration::new(&format!("https://{address}"), certificate.ca_pem());
    Ok((arguments("webhook", flags), registration))
}

pub async fn webhook(
    plane: &ControlPlane,
    kubeconfig: &Path,
    namespace: &TestNamespace,
    policies: &Path,
) -> Result<(Running, WebhookRegistration)> {
    let (arguments, registration) = as_webhook(plane, kubeconfig, namespace, policies)?;
    Ok((start(&arguments).await?, registration))
}

/// Starts a webhook with the permissions that its documentation lists; those on the ConfigMap can be left out.
pub async fn webhooks(plane: &ControlPlane, namespace: &TestNamespace, on_state: bool) -> Result<PathBuf> {
    let user = format!("{}-{}", if on_state { "webhook" } else { "blind" }, namespace.name);
    if on_state {
        rights::of_webhook(plane, &namespace.name, Subject::User(&user)).await?;
    } else {
        rights::of_blind_webhook(plane, Subject::User(&user)).await?;
    }
    plane.kubeconfig_for(&user, &[])
}

/// Starts a controller with the permissions that its documentation lists.
pub async fn controllers(plane: &ControlPlane, namespace: &TestNamespace) -> Result<PathBuf> {
    let user = format!("controller-{}", namespace.name);
    rights::of_controller(plane, &namespace.name, "default", Subject::User(&user)).await?;
    plane.kubeconfig_for(&user, &[])
}

/// Waits until the ConfigMap has the expected content, and returns its data.
pub async fn state(namespace: &TestNamespace, what: &str, expected: impl Fn(&Value) -> bool) -> Result<Value> {
    let api: Api<ConfigMap> = namespace.api();
    wait_for(&format!("ConfigMap {STATE} with {what}"), DEADLINE, async || match api.get_opt(STATE).await {
        Ok(found) => {
            let data = found.map_or(Value::Null, |map| json!(map.data.unwrap_or_default()));
            if expected(&data) { Seen::Done(data) } else { Seen::NotYet(data.to_string()) }
        }
        Err(error) => Seen::NotYet(error.to_string()),
    })
    .await
}

async fn edit(namespace: &TestNamespace, data: &Value) -> Result<()> {
    let api: Api<ConfigMap> = namespace.api();
    api.patch(STATE, &PatchParams::default(), &Patch::Merge(json!({"data": data}))).await?;
    Ok(())
}

pub fn windows_pod(name: &str) -> Value {
    pod(name, json!({"containers": [{"name": "c", "image": "mcr.microsoft.com/windows/nanoserver:ltsc2022"}]}))
}

/// Whether a Windows pod gets the toleration of a taint with this value.
pub fn tolerates(pod: &Value, value: &str) -> bool {
    pod["spec"]["tolerations"].as_array().is_some_and(|all| all.iter().any(|one| one["value"] == value))
}

/// Creates a Windows pod and one of unknown OS as dry runs until the responses are as expected: whether the first
/// tolerates `os=Windows`, and whether the second is placed on Linux.
async fn pods(namespace: &TestNamespace, what: &str, tolerant: bool, kept_to_linux: bool) -> Result<()> {
    let any = pod("any", json!({"containers": [{"name": "c", "image": "registry.example.com/app:1"}]}));
    wait_for(what, DEADLINE, async || {
        let windows = dry_run(namespace, &windows_pod("windows")).await?;
        let any = dry_run(namespace, &any).await?;
        let linux = any["spec"]["nodeSelector"]["kubernetes.io/os"] == "linux";
        // Otherwise the API server did not call Mullion.
        ensure!(windows["spec"]["nodeSelector"]["kubernetes.io/os"] == "windows", "{}", windows["spec"]);
        ensure!(
            (tolerates(&windows, "Windows"), linux) == (tolerant, kept_to_linux),
            "{} {}",
            windows["spec"],
            any["spec"]
        );
        anyhow::Ok(())
    })
    .await
}

async fn remove(plane: &ControlPlane, names: &[&str]) -> Result<()> {
    let api: Api<Node> = Api::all(plane.client());
    for name in names {
        api.delete(name, &DeleteParams::default()).await?;
    }
    Ok(())
}

/// The pool without nodes and every process restarted: pods still tolerate the taints of its nodes, until an admin changes it.
pub async fn seen_taints_survive_the_pool_and_the_processes(plane: &ControlPlane) -> Result<()> {
    let own = plane.namespace("mullion").await?;
    let namespace = plane.namespace("memory").await?;
    let policies = directory(&policy(0))?;
    let kubeconfigs = (controllers(plane, &own).await?, webhooks(plane, &own, true).await?);
    plane.create_node(&NodeSpec::linux("mem-linux")).await?;
    let controller = controller(&kubeconfigs.0, &own, policies.path()).await?;
    state(&own, "nothing to remember", |data| data["taint-on-create"] == "os=windows:NoSchedule").await?;

    // All nodes of a pool join at once.
    let names: Vec<String> = (0..40).map(|n| format!("mem-{n}")).collect();
    let before = controller.metric("mullion_state_writes_total{outcome=\"done\"}").await?;
    let specs: Vec<NodeSpec> = names.iter().map(|name| NodeSpec::windows(name, "10.0.20348.2655")).collect();
    let specs: Vec<NodeSpec> = specs.into_iter().map(|spec| spec.taint("os=Windows:NoSchedule")).collect();
    plane.create_nodes(&specs).await?;
    let data = state(&own, "the pool's taint", |data| data["seen-builds"] == "10.0.20348\n").await?;
    ensure!(data["seen-taints"] == "os=Windows:NoSchedule\n", "{data}");
    // Counted after its response.
    let writes = wait_for("the write to be counted", DEADLINE, async || {
        let writes = controller.metric("mullion_state_writes_total{outcome=\"done\"}").await? - before;
        ensure!(writes > 0, "{before} before, and none since");
        anyhow::Ok(writes)
    })
    .await?;
    ensure!(writes <= 3, "{writes} writes for 40 nodes with one taint and one build");

    // The pool is deleted, and the webhook that had its taints stops.
    remove(plane, &names.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let (first, registration) = webhook(plane, &kubeconfigs.1, &own, policies.path()).await?;
    let registration = registration.only_namespace(&namespace);
    registration.register(&plane.client()).await?;
    pods(&namespace, "what the ConfigMap holds in answers", true, true).await?;
    first.process.kill()?;
    let (second, registration) = webhook(plane, &kubeconfigs.1, &own, policies.path()).await?;
    registration.only_namespace(&namespace).register(&plane.client()).await?;
    pods(&namespace, "the same after a restart", true, true).await?;

    edit(&own, &json!({"seen-taints": "", "seen-builds": null})).await?;
    pods(&namespace, "what an admin took away to be forgotten", false, false).await?;
    // The controller restarts as well, and the taint of an existing node stays known.
    plane.create_node(&NodeSpec::windows("mem-back", "10.0.17763.1").taint("sku=Windows:NoSchedule")).await?;
    let back =
        |data: &Value| data["seen-taints"] == "sku=Windows:NoSchedule\n" && data["seen-builds"] == "10.0.17763\n";
    state(&own, "the new node's taint and build alone", back).await?;
    edit(&own, &json!({"seen-taints": null})).await?;
    state(&own, "the node's taint again", back).await?;
    // If the ConfigMap is deleted, it is written again.
    own.api::<ConfigMap>().delete(STATE, &DeleteParams::default()).await?;
    let data = state(&own, "everything again", back).await?;
    ensure!(data["policies"].as_str().is_some_and(|text| text.contains("priority: 0")), "{data}");
    pods(&namespace, "the same in answers", true, true).await?;

    registration_gone(plane, &namespace).await?;
    drop((controller, second));
    remove(plane, &["mem-linux", "mem-back"]).await
}

/// Deletes the webhook configurations.
pub async fn registration_gone(plane: &ControlPlane, namespace: &TestNamespace) -> Result<()> {
    WebhookRegistration::new("https://127.0.0.1:1", "").only_namespace(namespace).remove(&plane.client()).await
}

/// A webhook and a controller that start with bad policy files use the stored ones, and report it.
pub async fn bad_policy_files_do_not_stop_a_start(plane: &ControlPlane) -> Result<()> {
    let own = plane.namespace("mullion").await?;
    let kubeconfigs = (controllers(plane, &own).await?, webhooks(plane, &own, true).await?);
    let (good, bad) = (directory(&policy(7))?, directory(BAD)?);
    let programs =
        [as_webhook(plane, &kubeconfigs.1, &own, bad.path())?.0, as_controller(&kubeconfigs.0, &own, bad.path())];
    for program in &programs {
        let log = failed_start(program).await?;
        ensure!(log.contains("priorty") && log.contains("there are no earlier ones"), "{log}");
    }

    let first = controller(&kubeconfigs.0, &own, good.path()).await?;
    let kept = |data: &Value| data["policies"].as_str().is_some_and(|text| text.contains("priority: 7"));
    let data = state(&own, "the policies", kept).await?;
    ensure!(data["conditions"].as_str().is_some_and(|text| text.contains("PoliciesKept")), "{data}");
    ensure!(first.metric("mullion_policies_from_state").await? == 0, "the files are good");
    drop(first);

    let (beside, _) = webhook(plane, &kubeconfigs.1, &own, bad.path()).await?;
    let shown = beside.policies().await?;
    ensure!(shown["kept"] == true && shown["policies"][1]["priority"] == 7, "{shown}");
    ensure!(shown["problems"].to_string().contains("priorty"), "{shown}");
    ensure!(beside.metric("mullion_policies_from_state").await? == 1, "the metric differs");
    ensure!(
        beside.process.log()?.contains("the last good ones, stored in ConfigMap mullion-state"),
        "nor does the log"
    );
    let second = controller(&kubeconfigs.0, &own, bad.path()).await?;
    ensure!(second.metric("mullion_policies_from_state").await? == 1, "nor the controller");
    // The stored files stay the same, whichever controller stores them.
    std::fs::write(bad.path().join("mine.yaml"), policy(8))?;
    wait_for("the files that are good now", DEADLINE, async || {
        let shown = beside.policies().await?;
        let good = shown["kept"] == false && shown["policies"][1]["priority"] == 8;
        if good { Ok(()) } else { bail!("{shown}") }
    })
    .await?;
    ensure!(beside.metric("mullion_policies_from_state").await? == 0, "the metric is still set");
    state(&own, "the new policies", |data| data["policies"].as_str().is_some_and(|text| text.contains("priority: 8")))
        .await?;
    drop((beside, second));

    // Stored by a newer version.
    std::fs::write(bad.path().join("mine.yaml"), BAD)?;
    let newer = json!([{"name": "newer.yaml", "text": policy(7).replace("spec: {", "spec: {fromTheFuture: 1, ")}]);
    edit(&own, &json!({"policies": newer.to_string()})).await?;
    for program in &programs {
        let log = failed_start(program).await?;
        for part in ["priorty", "do not load in this version", "newer.yaml", "fromTheFuture"] {
            ensure!(log.contains(part), "no {part:?}: {log}");
        }
    }
    // With valid files neither the ConfigMap is needed nor the permission to read it.
    let blind = webhooks(plane, &own, false).await?;
    let (blind, _) = webhook(plane, &blind, &own, good.path()).await?;
    ensure!(blind.policies().await?["kept"] == false, "there are files");
    Ok(())
}

/// The taint is set before the first pod can be scheduled there, and a kubelet under NodeRestriction still works.
pub async fn a_new_node_has_its_taint_at_once(plane: &ControlPlane) -> Result<()> {
    let own = plane.namespace("mullion").await?;
    let namespace = plane.namespace("create").await?;
    let policies = directory(&policy(0))?;
    let kubeconfigs = (controllers(plane, &own).await?, webhooks(plane, &own, true).await?);
    let first = controller(&kubeconfigs.0, &own, policies.path()).await?;
    state(&own, "leave to taint", |data| data["taint-on-create"] == "os=windows:NoSchedule").await?;
    // From here on there is no controller: nodes get labels and taint only on CREATE.
    drop(first);
    let (webhook, registration) = webhook(plane, &kubeconfigs.1, &own, policies.path()).await?;
    registration.only_namespace(&namespace).with_nodes().register(&plane.client()).await?;
    let admin: Api<Node> = Api::all(plane.client());
    at_create(&admin, "the webhook to be called for nodes", &["os=windows:NoSchedule"]).await?;

    // A pod that waits for the node and tolerates everything else.
    let eager = |node: &str| {
        let tolerations = json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists"},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists"}]);
        pod(
            node,
            json!({"containers": [{"name": "c", "image": "x"}], "tolerations": tolerations,
            "nodeSelector": {"kubernetes.io/hostname": node}}),
        )
    };
    let outside = plane.namespace("eager").await?;
    create(&outside, &eager("kubelet-1")).await?;
    let kubelet = Kubelet::new(plane, "kubelet-1").await?;
    let stored = kubelet.register(&NodeSpec::windows("kubelet-1", "10.0.20348.2655")).await?;
    ensure!(taints(&stored) == ["os=windows:NoSchedule"], "{:?}", taints(&stored));
    let labels = json!(stored.metadata.labels);
    ensure!(labels["mullion.dev/windows-release"] == "ltsc2022", "{labels}");
    ensure!(labels["mullion.dev/windows-revision"] == "2655", "{labels}");
    ensure!(owned(&stored).contains("\"taint\""), "the taint is not recorded: {:?}", stored.metadata.annotations);
    wait_for("the scheduler to see the node and its taint", DEADLINE, async || {
        let pod = get(&outside, "Pod", "kubelet-1").await?;
        let text = pod["status"]["conditions"].to_string();
        let node = admin.get("kubelet-1").await?;
        let ready = !json!(node.spec).to_string().contains("not-ready");
        ensure!(pod["spec"].get("nodeName").is_none(), "it landed: {}", pod["spec"]);
        ensure!(ready && text.contains("untolerated taint"), "ready: {ready}; {text}");
        anyhow::Ok(())
    })
    .await?;

    // The kubelet's further requests succeed, and are not changed.
    kubelet.goes_on(&["os=windows:NoSchedule"]).await?;
    // The taint is removed: an UPDATE does not add it again.
    admin.patch("kubelet-1", &PatchParams::default(), &Patch::Merge(json!({"spec": {"taints": []}}))).await?;
    kubelet.goes_on(&[]).await?;
    remove(plane, &["kubelet-1"]).await?;

    // Nodes that get no taint, or no second one, and one with a kernel version that is not known yet.
    let cases = [
        (NodeSpec::windows("kubelet-2", "10.0.20348.1").taint("os=Windows:NoSchedule"), vec!["os=Windows:NoSchedule"]),
        (
            NodeSpec::windows("kubelet-3", "10.0.20348.1").taint("pool=spot:NoSchedule"),
            vec!["pool=spot:NoSchedule", "os=windows:NoSchedule"],
        ),
        (NodeSpec::linux("kubelet-4"), vec![]),
        (NodeSpec::windows("kubelet-5", "10.0.20348.1").label("type", "virtual-kubelet"), vec![]),
        (
            NodeSpec::windows("kubelet-6", "").without_label("node.kubernetes.io/windows-build"),
            vec!["os=windows:NoSchedule"],
        ),
        (
            NodeSpec::windows("kubelet-7", "10.0.26100.1").without_label("node.kubernetes.io/windows-build"),
            vec!["os=windows:NoSchedule"],
        ),
    ];
    let mut names = Vec::new();
    for (spec, expected) in &cases {
        let kubelet = Kubelet::new(plane, spec.name()).await?;
        let stored = kubelet.register(spec).await?;
        ensure!(taints(&stored) == *expected, "{}: {:?}", spec.name(), taints(&stored));
        let (linux_or_virtual, text) = (expected.is_empty(), json!(stored.metadata).to_string());
        ensure!(text.contains("mullion.dev/owned") != linux_or_virtual, "{}: {text}", spec.name());
        ensure!(!linux_or_virtual || !text.contains("mullion.dev"), "{}: {text}", spec.name());
        kubelet.goes_on(expected).await?;
        names.push(spec.name().to_owned());
    }

    // A controller starts again, and adds only what was not known at CREATE.
    let third = controller(&kubeconfigs.0, &own, policies.path()).await?;
    admin
        .patch_status(
            "kubelet-6",
            &PatchParams::default(),
            &Patch::Merge(json!({"status": {"nodeInfo": {
            "kernelVersion": "10.0.17763.6293"}}})),
        )
        .await?;
    wait_for("the labels of the node that was silent", DEADLINE, async || {
        let node = admin.get("kubelet-6").await?;
        let labels = json!(node.metadata.labels);
        ensure!(labels["mullion.dev/windows-revision"] == "6293", "{labels}");
        anyhow::Ok(())
    })
    .await?;
    let patches = third.metric("mullion_node_patches_total{outcome=\"done\"}").await?;
    ensure!(patches <= 2, "{patches} patches: at CREATE there was more to know");
    for (spec, expected) in &cases {
        let node = admin.get(spec.name()).await?;
        ensure!(taints(&node) == *expected, "{}: {:?}", spec.name(), taints(&node));
    }

    registration_gone(plane, &namespace).await?;
    drop((third, webhook));
    outside.delete().await?;
    remove(plane, &names.iter().map(String::as_str).collect::<Vec<_>>()).await
}

/// The permission to taint at CREATE ends with the first DaemonSet that does not tolerate the taint, and with a withdrawal.
pub async fn permission_to_taint_at_create_follows_the_daemon_sets(plane: &ControlPlane) -> Result<()> {
    let own = plane.namespace("mullion").await?;
    let namespace = plane.namespace("leave").await?;
    let policies = directory(&policy(0))?;
    let controller = controller(&controllers(plane, &own).await?, &own, policies.path()).await?;
    let (webhook, registration) = webhook(plane, &webhooks(plane, &own, true).await?, &own, policies.path()).await?;
    registration.only_namespace(&namespace).with_nodes().register(&plane.client()).await?;
    let admin: Api<Node> = Api::all(plane.client());
    at_create(&admin, "the taint at CREATE", &["os=windows:NoSchedule"]).await?;

    // A DaemonSet for Windows nodes that does not tolerate the taint: new nodes have to wait for it.
    let template = json!({"metadata": {"labels": {"app": "d"}}, "spec": {"nodeSelector": {"kubernetes.io/os": "windows",
        "pool": "of-tomorrow"}, "containers": [{"name": "c", "image": "agent"}]}});
    let daemon = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template}});
    // In a namespace that Mullion does not cover, because Mullion would add the toleration.
    let outside = plane.namespace("outside").await?;
    create(&outside, &daemon).await?;
    state(&own, "no leave", |data| data["taint-on-create"] == "false").await?;
    at_create(&admin, "no taint at CREATE", &[]).await?;
    crate::shared::delete(&outside, "DaemonSet", "agent").await?;
    state(&own, "leave again", |data| data["taint-on-create"] == "os=windows:NoSchedule").await?;
    at_create(&admin, "the taint at CREATE again", &["os=windows:NoSchedule"]).await?;

    // Withdrawn: nodes and pods get nothing more.
    edit(&own, &json!({"withdrawn": "2026-01-01T00:00:00Z"})).await?;
    at_create(&admin, "nothing once it was withdrawn", &[]).await?;

    registration_gone(plane, &namespace).await?;
    drop((controller, webhook));
    outside.delete().await
}

/// A policy with another taint is set while there is no leader: Mullion's earlier taint is removed from nodes, and a
/// taint that only a kubelet claims to be Mullion's is not.
pub async fn earlier_taints_are_removed_and_forged_ones_kept(plane: &ControlPlane) -> Result<()> {
    let (earlier, ours, vault) =
        ("example.com/platform=nt:NoSchedule", "os=windows:NoSchedule", "dedicated=vault:NoSchedule");
    let own = plane.namespace("mullion").await?;
    let nodes = "---\napiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: nodes}\nspec: {taint: \
                 {key: example.com/platform, value: nt, effect: NoSchedule}}\n";
    let policies = directory(&format!("{}{nodes}", policy(0)))?;
    let kubeconfig = controllers(plane, &own).await?;
    let windows = |name: &str| NodeSpec::windows(name, "10.0.20348.2655");
    plane.create_nodes(&[windows("honest"), windows("forger").taint(vault)]).await?;
    let admin: Api<Node> = Api::all(plane.client());
    let wait_for_taints = async |name: &str, expected: &[&str]| {
        wait_for(&format!("{expected:?} on {name}"), DEADLINE, async || match admin.get(name).await {
            Ok(node) if taints(&node) == expected => Seen::Done(node),
            Ok(node) => Seen::NotYet(format!("{:?} {}", taints(&node), owned(&node))),
            Err(error) => Seen::NotYet(error.to_string()),
        })
        .await
    };
    let first = controller(&kubeconfig, &own, policies.path()).await?;
    wait_for_taints("honest", &[earlier]).await?;
    wait_for_taints("forger", &[vault, earlier]).await?;
    state(&own, "the first taint", |data| data["seen-taints"].as_str().is_some_and(|text| text.contains(earlier)))
        .await?;
    drop(first);

    let kubelet = Kubelet::new(plane, "forger").await?;
    let (name, params) = (kubelet.name.as_str(), PatchParams::default());
    let bare = Patch::Merge(json!({"spec": {"taints": []}}));
    let rejected = kubelet.nodes.patch(name, &params, &bare).await;
    ensure!(matches!(&rejected, Err(kube::Error::Api(status)) if status.code == 403), "{rejected:?}");
    let record = json!({"taint": {"key": "dedicated", "value": "vault", "effect": "NoSchedule"}}).to_string();
    let annotated = Patch::Merge(json!({"metadata": {"annotations": {"mullion.dev/owned": record}}}));
    kubelet.nodes.patch(name, &params, &annotated).await.context("a kubelet's annotation")?;

    std::fs::write(policies.path().join("mine.yaml"), policy(0))?;
    let second = controller(&kubeconfig, &own, policies.path()).await?;
    let honest = wait_for_taints("honest", &[ours]).await?;
    ensure!(owned(&honest).contains("windows\",\"effect\":\"NoSchedule"), "{}", owned(&honest));
    // Its record of the first taint is lost, so Mullion does not remove that one either.
    let forger = wait_for_taints("forger", &[vault, earlier, ours]).await?;
    ensure!(!owned(&forger).contains("vault"), "{}", owned(&forger));
    // After the response to the patch.
    wait_for("the report", DEADLINE, async || {
        let log = second.process.log()?;
        if log.contains("taint dedicated=vault:NoSchedule stays") { Ok(()) } else { bail!("{log}") }
    })
    .await?;
    drop(second);
    remove(plane, &["honest", "forger"]).await
}

/// A kubelet records an administrator's taint, which the built-in patterns match, as Mullion's: the taint and the record
/// stay, and an Event reports them. The same for the state of an earlier release, without own taints: the taint of its
/// policies is still removed, and the administrator's is not.
pub async fn only_recorded_taints_are_mullions(plane: &ControlPlane) -> Result<()> {
    let (ours, quarantine) = ("os=windows:NoSchedule", "windows=quarantine:NoExecute");
    let own = plane.namespace("mullion").await?;
    let policies = directory(&policy(0))?;
    let kubeconfig = controllers(plane, &own).await?;
    let windows = |name: &str| NodeSpec::windows(name, "10.0.20348.2655");
    plane.create_nodes(&[windows("honest"), windows("forger").taint(quarantine)]).await?;
    let kubelet = Kubelet::new(plane, "forger").await?;
    let bare = Patch::Merge(json!({"spec": {"taints": []}}));
    let rejected = kubelet.nodes.patch("forger", &PatchParams::default(), &bare).await;
    ensure!(matches!(&rejected, Err(kube::Error::Api(status)) if status.code == 403), "{rejected:?}");
    let record = r#"{"taint":{"key":"windows","value":"quarantine","effect":"NoExecute"}}"#;
    let annotated = Patch::Merge(json!({"metadata": {"annotations": {"mullion.dev/owned": record}}}));
    kubelet.nodes.patch("forger", &PatchParams::default(), &annotated).await.context("a kubelet's annotation")?;

    let admin: Api<Node> = Api::all(plane.client());
    let has = async |name: &str, expected: &[&str]| {
        wait_for(&format!("{expected:?} on {name}"), DEADLINE, async || match admin.get(name).await {
            Ok(node) if taints(&node) == expected && json!(node).to_string().contains("windows-release") => {
                Seen::Done(node)
            }
            Ok(node) => Seen::NotYet(format!("{:?} {}", taints(&node), owned(&node))),
            Err(error) => Seen::NotYet(error.to_string()),
        })
        .await
    };
    let reported = async || {
        let events =
            ["get", "events", "--field-selector", "reason=TaintNotOwned", "-o", "jsonpath={.items[*].message}"];
        wait_for("an Event about the record", DEADLINE, async || {
            let messages = plane.kubectl(&events).await?;
            ensure!(messages.contains(quarantine) && messages.contains("annotate node forger"), "{messages:?}");
            anyhow::Ok(())
        })
        .await
    };
    let first = controller(&kubeconfig, &own, policies.path()).await?;
    has("honest", &[ours]).await?;
    reported().await?;
    let forger = has("forger", &[quarantine]).await?;
    ensure!(owned(&forger) == record, "{}", owned(&forger));
    let stored = state(&own, "the taint of the policy", |data| data["own-taints"] == format!("{ours}\n")).await?;
    ensure!(stored["seen-taints"].to_string().contains(quarantine), "it marks Windows nodes: {stored}");
    drop(first);

    // The nodes and the state as the release before leaves them, and a policy that sets no taint.
    edit(&own, &json!({"own-taints": null})).await?;
    let never = "---\napiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: nodes}\nspec: {taint: {apply: \
                 Never}}\n";
    std::fs::write(policies.path().join("mine.yaml"), format!("{}{never}", policy(0)))?;
    let second = controller(&kubeconfig, &own, policies.path()).await?;
    has("honest", &[]).await?;
    state(&own, "the taint of the policy before", |data| data["own-taints"] == format!("{ours}\n")).await?;
    let forger = has("forger", &[quarantine]).await?;
    ensure!(owned(&forger) == record, "{}", owned(&forger));
    drop(second);
    remove(plane, &["honest", "forger"]).await
}

/// A kubelet that removes the operating system label of its node changes nothing for the pods of others; a node that
/// never had the label does.
pub async fn a_lost_label_changes_no_other_pod(plane: &ControlPlane) -> Result<()> {
    let own = plane.namespace("mullion").await?;
    let tenants = plane.namespace("pods").await?;
    let policies = directory(&policy(0))?;
    plane
        .create_nodes(&[NodeSpec::linux("keeps"), NodeSpec::linux("loses"), NodeSpec::windows("w", "10.0.20348.2655")])
        .await?;
    let accounts = (controllers(plane, &own).await?, webhooks(plane, &own, true).await?);
    let first = controller(&accounts.0, &own, policies.path()).await?;
    let (hook, registration) = webhook(plane, &accounts.1, &own, policies.path()).await?;
    registration.register(&plane.client()).await?;
    let any = pod("any", json!({"containers": [{"name": "c", "image": "registry.example.com/app:1"}]}));
    let placed = async |expected: Option<&str>| {
        wait_for(&format!("nodeSelector {expected:?}"), DEADLINE, async || {
            let stored = dry_run(&tenants, &any).await?;
            let os = stored["spec"]["nodeSelector"]["kubernetes.io/os"].as_str();
            ensure!(os == expected, "{os:?}");
            anyhow::Ok(())
        })
        .await
    };
    placed(Some("linux")).await?;

    let kubelet = Kubelet::new(plane, "loses").await?;
    let labels = json!({"kubernetes.io/os": null, "beta.kubernetes.io/os": null});
    let bare = Patch::Merge(json!({"metadata": {"labels": labels}}));
    kubelet.nodes.patch("loses", &PatchParams::default(), &bare).await.context("a kubelet's label")?;
    state(&own, "the node that lost its label", |data| data["unlabelled-nodes"] == "loses\n").await?;
    placed(Some("linux")).await?;
    let report = tokio::process::Command::new(env!("CARGO_BIN_EXE_mullion"))
        .args(["status", "-n", &own.name, "-o", "json"])
        .env("KUBECONFIG", plane.kubeconfig())
        .output()
        .await?;
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    ensure!(report.contains("os-labels") && report.contains("loses"), "{report}");

    // Both processes start again: only the ConfigMap knows the label.
    drop((first, hook));
    registration_gone(plane, &own).await?;
    let _second = controller(&accounts.0, &own, policies.path()).await?;
    let (_hook, registration) = webhook(plane, &accounts.1, &own, policies.path()).await?;
    registration.register(&plane.client()).await?;
    placed(Some("linux")).await?;
    state(&own, "the node that lost its label", |data| data["unlabelled-nodes"] == "loses\n").await?;

    // A node that never had the label may be for Windows.
    let never = NodeSpec::linux("never").without_label("kubernetes.io/os").without_label("beta.kubernetes.io/os");
    plane.create_node(&never).await?;
    placed(None).await?;
    remove(plane, &["never"]).await?;
    placed(Some("linux")).await?;
    let labelled = Patch::Merge(json!({"metadata": {"labels": {"kubernetes.io/os": "linux"}}}));
    kubelet.nodes.patch("loses", &PatchParams::default(), &labelled).await?;
    state(&own, "no node without its label", |data| data.get("unlabelled-nodes").is_none()).await?;
    remove(plane, &["keeps", "loses", "w"]).await
}

/// Waits until a Windows node that is created, in a dry run, has exactly these taints.
async fn at_create(api: &Api<Node>, what: &str, expected: &[&str]) -> Result<()> {
    let node = NodeSpec::windows("dry-run", "10.0.20348.2655").build()?;
    let params = PostParams { dry_run: true, ..PostParams::default() };
    wait_for(what, DEADLINE, async || match api.create(&params, &node).await {
        Ok(answer) if taints(&answer) == expected => Seen::Done(()),
        Ok(answer) => Seen::NotYet(format!("{:?}", taints(&answer))),
        Err(error) => Seen::NotYet(error.to_string()),
    })
    .await?;
    ensure!(api.get_opt("dry-run").await?.is_none(), "a dry run was stored");
    Ok(())
}

/// The taints of a node, without those for its current condition.
fn taints(node: &Node) -> Vec<String> {
    let all = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let text = all.map(|taint| format!("{}={}:{}", taint.key, taint.value.as_deref().unwrap_or(""), taint.effect));
    text.filter(|taint| !taint.starts_with("node.kubernetes.io/")).collect()
}

fn owned(node: &Node) -> String {
    let annotations = node.metadata.annotations.clone().unwrap_or_default();
    annotations.get("mullion.dev/owned").cloned().unwrap_or_default()
}

/// A kubelet's own identity, which NodeRestriction limits to its own node.
struct Kubelet {
    name: String,
    nodes: Api<Node>,
}

impl Kubelet {
    async fn new(plane: &ControlPlane, name: &str) -> Result<Self> {
        let client: Client = plane.client_as(&format!("system:node:{name}"), &["system:nodes"]).await?;
        Ok(Self { name: name.to_owned(), nodes: Api::all(client) })
    }

    /// Creates the node; returns what is stored.
    async fn register(&self, spec: &NodeSpec) -> Result<Node> {
        self.nodes
            .create(&PostParams::default(), &spec.build()?)
            .await
            .with_context(|| format!("register {}", self.name))
    }

    /// Sends a kubelet's usual requests, and checks that its node still has these taints.
    async fn goes_on(&self, expected: &[&str]) -> Result<()> {
        let params = PatchParams::default();
        let zone = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "a"}, "annotations": {"example.com/x": "y"}}});
        self.nodes.patch(&self.name, &params, &Patch::Merge(zone)).await.context("a kubelet's labels")?;
        let pressure = json!({"status": {"conditions": [{"type": "PIDPressure", "status": "False"}]}});
        self.nodes
            .patch_status(&self.name, &params, &Patch::Strategic(pressure))
            .await
            .context("a kubelet's status")?;
        wait_for("a kubelet to write its whole node", DEADLINE, async || {
            let mut node = self.nodes.get(&self.name).await?;
            node.metadata
                .labels
                .get_or_insert_default()
                .insert("topology.kubernetes.io/region".to_owned(), "b".to_owned());
            self.nodes.replace(&self.name, &PostParams::default(), &node).await
        })
        .await?;
        let node = self.nodes.get(&self.name).await?;
        ensure!(taints(&node) == expected, "{}: {:?}", self.name, taints(&node));
        Ok(())
    }
}

/// A node reports another kernel version repeatedly, as a kubelet may: no RuntimeClass is created for any of them, and
/// none is stored. A known build counts immediately.
pub async fn a_node_that_cycles_its_kernel_version_leaves_nothing(plane: &ControlPlane) -> Result<()> {
    let own = plane.namespace("mullion").await?;
    let policies = directory(&policy(0))?;
    plane.create_node(&NodeSpec::windows("mem-cycle", "10.0.20348.2655")).await?;
    let controller = controller(&controllers(plane, &own).await?, &own, policies.path()).await?;
    state(&own, "the first build", |data| data["seen-builds"] == "10.0.20348\n").await?;
    let api: Api<Node> = Api::all(plane.client());
    let report = async |build: u32| {
        let params = PatchParams::default();
        let status = json!({"status": {"nodeInfo": {"kernelVersion": format!("10.0.{build}.1")}}});
        api.patch_status("mem-cycle", &params, &Patch::Merge(&status)).await?;
        let label = json!({"metadata": {"labels": {"node.kubernetes.io/windows-build": format!("10.0.{build}")}}});
        api.patch("mem-cycle", &params, &Patch::Merge(&label)).await?;
        anyhow::Ok(())
    };
    for build in 30_000..30_040 {
        report(build).await?;
        // The controller has processed it.
        let release = format!("build-{build}");
        wait_for(&format!("the label {release}"), DEADLINE, async || {
            let labels = api.get("mem-cycle").await?.metadata.labels.unwrap_or_default();
            ensure!(labels.get("mullion.dev/windows-release") == Some(&release), "{labels:?}");
            anyhow::Ok(())
        })
        .await?;
    }
    report(26_100).await?;
    state(&own, "the known builds alone", |data| data["seen-builds"] == "10.0.20348\n10.0.26100\n").await?;
    let classes: Api<RuntimeClass> = Api::all(plane.client());
    wait_for("the class of the known build", DEADLINE, async || classes.get("mullion-windows-ltsc2025").await).await?;
    let names: Vec<String> =
        classes.list(&ListParams::default()).await?.items.into_iter().filter_map(|class| class.metadata.name).collect();
    ensure!(!names.iter().any(|name| name.contains("build-300")), "{names:?}");
    drop(controller);
    remove(plane, &["mem-cycle"]).await
}
