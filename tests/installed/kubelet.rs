//! Tests of the simulated kubelet, on which the other trials depend. A shell replaces the image.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use mullion_cluster::{Image, Seen, TestNamespace, wait_for};
use serde_json::{Value, json};

use crate::site::{DEADLINE, Site};

const SHELL: &str = "registry.example.com/shell:1";

/// A container gets what the pod's manifest contains, and nothing else of this machine.
pub async fn containers_match_their_pods(site: &Site) -> Result<()> {
    let shop = Shop::open(site).await?;
    let data =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "data"}, "data": {"greeting": "hello"}});
    shop.namespace.api::<ConfigMap>().create(&PostParams::default(), &serde_json::from_value(data)?).await?;
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "secret"}, "stringData": {"word": "x"}});
    shop.namespace.api::<Secret>().create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
    let script = r#"
        echo "user $(id -u):$(id -g), process $$$$, host $(cat /proc/sys/kernel/hostname)"
        echo "arguments $*, node $NODE, $MESSAGE, api $KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT"
        grep -E 'CapEff|NoNewPrivs' /proc/self/status
        (echo >/file) 2>/dev/null || echo 'the root is read-only'
        (echo >/data/file) 2>/dev/null || echo 'the ConfigMap is read-only'
        (echo >/scratch/file) && echo 'the scratch is not'
        (cat /secret/word) 2>/dev/null || echo 'the secret is for root'
        (cat /home/* /root/*) 2>/dev/null || echo 'no files of the machine'
        cut -d . -f 1 /var/run/secrets/kubernetes.io/serviceaccount/token >/scratch/token
        [ -s /scratch/token ] && cat /var/run/secrets/kubernetes.io/serviceaccount/namespace; echo
        while :; do last=$now; now=$(cat /data/greeting); [ "$last" = "$now" ] || echo "greeting $now"; sleep 0.05; done
    "#;
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "all"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "securityContext": {"runAsUser": 1234, "runAsGroup": 1235, "runAsNonRoot": true},
            "containers": [{
                "name": "c",
                "image": SHELL,
                "command": ["/mullion", "-c", script, "$(NODE)"],
                "args": ["one", "$(NODE)", "$$(NODE)"],
                "env": [
                    {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                    {"name": "MESSAGE", "value": "from $(NODE)"},
                ],
                "securityContext": {"readOnlyRootFilesystem": true},
                "volumeMounts": [
                    {"name": "data", "mountPath": "/data"},
                    {"name": "secret", "mountPath": "/secret"},
                    {"name": "scratch", "mountPath": "/scratch"},
                ],
            }],
            "volumes": [
                {"name": "data", "configMap": {"name": "data"}},
                {"name": "secret", "secret": {"secretName": "secret", "defaultMode": 256}},
                {"name": "scratch", "emptyDir": {}},
            ],
        },
    });
    shop.create(pod).await?;
    shop.wait_for_log("all", "greeting hello").await?;
    let node = shop.pods().get("all").await?.spec.and_then(|spec| spec.node_name).context("a node")?;
    let service = Api::<Service>::namespaced(site.plane.client(), "default").get("kubernetes").await?;
    let api = service.spec.and_then(|spec| spec.cluster_ip).context("an address of the API server")?;
    let log = shop.log("all")?;
    for line in [
        "user 1234:1235, process 1, host all",
        &format!("arguments one {node} $(NODE), node {node}, from {node}, api {api}:443"),
        "CapEff:\t0000000000000000",
        "NoNewPrivs:\t1",
        "the root is read-only",
        "the ConfigMap is read-only",
        "the scratch is not",
        "the secret is for root",
        "no files of the machine",
        &shop.namespace.name,
    ] {
        ensure!(log.lines().any(|seen| seen == line), "{line:?} is not in:\n{log}");
    }
    let change = Patch::Merge(json!({"data": {"greeting": "good evening"}}));
    shop.namespace.api::<ConfigMap>().patch("data", &PatchParams::default(), &change).await?;
    shop.wait_for_log("all", "greeting good evening").await
}

/// Containers end, and are restarted or not, as on a node.
pub async fn containers_end_and_restart_as_on_a_node(site: &Site) -> Result<()> {
    let shop = Shop::open(site).await?;
    // SIGTERM first, as for process 1, which ends only by signals that it handles.
    shop.create(shell("polite", "trap 'echo goodbye; exit 0' TERM; echo ready; while :; do sleep 0.05; done", 30))
        .await?;
    shop.create(shell("deaf", "echo ready; while :; do sleep 0.05; done", 1)).await?;
    shop.create(shell("crash", "echo ready; [ -e /scratch/was ] && sleep 1000; echo >/scratch/was; exit 7", 0)).await?;
    for name in ["polite", "deaf", "crash"] {
        shop.wait_for_log(name, "ready").await?;
    }
    let crashed = shop
        .sees("crash", "to run again", |pod| {
            let status = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
            let code = status.last_state.as_ref()?.terminated.as_ref()?.exit_code;
            status.ready.then_some((status.restart_count, code))
        })
        .await?;
    ensure!(crashed == (1, 7), "{crashed:?}");
    for name in ["polite", "deaf"] {
        shop.pods().delete(name, &DeleteParams::default()).await?;
        wait_for(&format!("{name} to be gone"), DEADLINE, async || match shop.pods().get_opt(name).await {
            Ok(None) => Seen::Done(()),
            other => Seen::NotYet(format!("{other:?}")),
        })
        .await?;
    }
    ensure!(shop.log("polite")?.contains("goodbye"), "{}", shop.log("polite")?);

    let mut unknown = shell("unknown", "exit 0", 0);
    unknown["spec"]["containers"][0]["lifecycle"] = json!({"preStop": {"exec": {"command": ["x"]}}});
    shop.create(unknown).await?;
    let why = |pod: &Pod| {
        let state = pod.status.as_ref()?.container_statuses.as_ref()?.first()?.state.clone()?.waiting?;
        (state.reason.as_deref() == Some("CreateContainerConfigError")).then(|| state.message.unwrap_or_default())
    };
    let why = shop.sees("unknown", "to report what is not simulated", why).await?;
    ensure!(why.contains("preStop"), "{why}");

    let mut job = shell("job", "exit 0", 0)["spec"].clone();
    job["restartPolicy"] = json!("Never");
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": {"template": {"spec": job}}});
    let jobs: Api<Job> = shop.namespace.api();
    jobs.create(&PostParams::default(), &serde_json::from_value(job)?).await?;
    wait_for("the Job to succeed", DEADLINE, async || match jobs.get("job").await {
        Ok(job) if job.status.as_ref().and_then(|status| status.succeeded) == Some(1) => Seen::Done(()),
        other => Seen::NotYet(format!("{other:?}")),
    })
    .await
}

/// A namespace whose pods are shells.
struct Shop<'a> {
    site: &'a Site,
    namespace: TestNamespace,
}

impl<'a> Shop<'a> {
    async fn open(site: &'a Site) -> Result<Self> {
        let mut image = Image::new("/bin/sh");
        image.folders.push("/usr/bin".into());
        site.kubelet.image(SHELL, image);
        Ok(Self { site, namespace: site.plane.namespace("kubelet").await? })
    }

    fn pods(&self) -> Api<Pod> {
        self.namespace.api()
    }

    async fn create(&self, pod: Value) -> Result<()> {
        let pod: Pod = serde_json::from_value(pod)?;
        // The root CA of pods' volumes is added to a new namespace a moment later, which kubelets wait for.
        self.pods().create(&PostParams::default(), &pod).await?;
        Ok(())
    }

    fn log(&self, pod: &str) -> Result<String> {
        self.site.kubelet.log(&self.namespace.name, pod, "c")
    }

    async fn wait_for_log(&self, pod: &str, line: &str) -> Result<()> {
        wait_for(&format!("{pod} to say {line:?}"), DEADLINE, async || match self.log(pod) {
            Ok(log) if log.lines().any(|seen| seen == line) => Seen::Done(()),
            Ok(log) => Seen::NotYet(log),
            Err(error) => Seen::NotYet(error.to_string()),
        })
        .await
    }

    async fn sees<T>(&self, pod: &str, what: &str, look: impl Fn(&Pod) -> Option<T>) -> Result<T> {
        wait_for(&format!("{pod} {what}"), DEADLINE, async || match self.pods().get(pod).await {
            Ok(found) => look(&found).map_or_else(|| Seen::NotYet(format!("{:?}", found.status)), Seen::Done),
            Err(error) => Seen::NotYet(error.to_string()),
        })
        .await
    }
}

/// A pod on Linux that runs a script.
fn shell(name: &str, script: &str, grace: i64) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": grace,
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "containers": [{
                "name": "c",
                "image": SHELL,
                "args": ["-c", script],
                "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
            }],
            "volumes": [{"name": "scratch", "emptyDir": {}}],
        },
    })
}
