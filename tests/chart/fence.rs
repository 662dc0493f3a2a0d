//! What the tokens of Mullion's accounts can do on the API server, with the chart's default values; and upgrades from
//! the previous chart, which had neither a fence nor a ResourceQuota.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use kube::Client;
use mullion_cluster::{Chart, NodeSpec, TestNamespace, Tool, wait_for};
use mullion_engine::node::MANAGED_LABELS;
use serde_json::{Map, Value, json};

use crate::rendered::text;
use crate::server::{DEADLINE, Server};

const HOME: &str = "mullion-system";
/// The chart of the previous version: `helm package` of its folder.
const BEFORE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/chart/before.tgz");

/// The expected result of a request.
enum Outcome {
    /// The request succeeds.
    Done,
    /// Denied by the fence, whose message contains this.
    Fenced(&'static str),
    /// Forbidden, because the account has no permission.
    Forbidden,
}

use Outcome::{Done, Fenced, Forbidden};

/// A request: description, method, path, body, and the expected result.
type Attempt = (&'static str, &'static str, String, Value, Outcome);

/// Sends one request. `MERGE`, `STRATEGIC` and `APPLY` are kinds of PATCH. The error is the API server's message.
async fn send(client: &Client, (_, method, path, body, _): &Attempt, dry: bool) -> Result<Result<(), String>> {
    let (method, content) = match *method {
        "MERGE" => ("PATCH", "application/merge-patch+json"),
        "STRATEGIC" => ("PATCH", "application/strategic-merge-patch+json"),
        "APPLY" => ("PATCH", "application/apply-patch+yaml"),
        other => (other, "application/json"),
    };
    let query = match (dry, path.contains('?')) {
        (false, _) => "",
        (true, false) => "?dryRun=All",
        (true, true) => "&dryRun=All",
    };
    let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
    let request = http::Request::builder().method(method).uri(format!("{path}{query}")).header("content-type", content);
    match client.request_text(request.body(body)?).await {
        Ok(_) => Ok(Ok(())),
        Err(kube::Error::Api(status)) => Ok(Err(status.message.clone())),
        Err(error) => Err(error).context(path.clone()),
    }
}

/// Sends all requests, and compares the results. A denied request is first sent as a dry run until the API server has
/// loaded the policy.
async fn all_end_as_expected(client: &Client, account: &str, attempts: &[Attempt]) -> Result<()> {
    for attempt in attempts {
        let (what, method, path, _, outcome) = attempt;
        // Pods as dry runs are allowed.
        let creates_pod = path.contains("/pods") && matches!(*method, "POST" | "APPLY");
        match outcome {
            Fenced(words) => {
                let denied = |answer: Result<(), String>| match answer {
                    Err(message) if message.contains("'mullion-fence-") && message.contains(words) => Ok(()),
                    other => bail!("{account}: {what}: {other:?}"),
                };
                if !creates_pod {
                    wait_for(what, DEADLINE, async || denied(send(client, attempt, true).await?)).await?;
                }
                denied(send(client, attempt, false).await?)?;
            }
            Forbidden => match send(client, attempt, false).await? {
                Err(message) if message.contains("\" cannot ") => {}
                other => bail!("{account}: {what}: {other:?}"),
            },
            Done => send(client, attempt, false).await?.map_err(|why| anyhow::anyhow!("{account}: {what}: {why}"))?,
        }
    }
    Ok(())
}

/// The number of labels, taints and tolerations of the test objects.
const MANY: usize = 100;
const MANY_TAINTS: usize = 50;

/// Objects of others, and a node that Mullion manages.
struct Cluster {
    shop: TestNamespace,
    taints: Vec<Value>,
    /// Those of the node `recorded`.
    recorded: Vec<Value>,
    tolerations: Vec<Value>,
}

fn pod(name: &str, more: &Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "automountServiceAccountToken": false, "containers": [{"name": "c", "image": "example.com/a:1"}]}});
    for (key, value) in more.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    pod
}

fn taint(key: &str, effect: &str) -> Value {
    json!({"key": key, "value": "windows", "effect": effect})
}

/// The record on a node on which Mullion set this taint.
fn recorded(taint: &Value) -> String {
    let [key, value, effect] = ["key", "value", "effect"].map(|member| &taint[member]);
    format!(
        r#"{{"labels":{{"mullion.dev/windows-release":"ltsc2022"}},"taint":{{"key":{key},"value":{value},"effect":{effect}}}}}"#
    )
}

/// Removes the taint of that key and effect from a list.
fn remove(taints: &mut Value, key: &str, effect: &str) {
    let taints = taints.as_array_mut().expect("a list");
    let before = taints.len();
    taints.retain(|one| one["key"] != key || one["effect"] != effect);
    assert_eq!(taints.len() + 1, before, "one {key}:{effect}");
}

impl Cluster {
    async fn start(server: &Server) -> Result<Self> {
        let plane = &server.plane;
        let mut windows = NodeSpec::windows("fenced", "10.0.20348.2655");
        for number in 0..MANY {
            windows = windows.label(&format!("example.com/label-{number}"), "value");
        }
        for number in 0..MANY_TAINTS {
            windows = windows.taint(&format!("example.com/taint-{number}=value:NoSchedule"));
        }
        windows = windows.taint("maintenance=now:NoExecute").taint("sku=windows:NoExecute");
        // As Mullion leaves it with `taint.effect: NoExecute` and without the fence.
        let recorded = NodeSpec::windows("recorded", "10.0.20348.2655")
            .annotation("mullion.dev/owned", &recorded(&taint("os", "NoExecute")))
            .taint("os=windows:NoExecute")
            .taint("sku=windows:NoExecute");
        plane.create_nodes(&[windows, recorded, NodeSpec::linux("unfenced")]).await?;
        let shop = plane.namespace("shop").await?;
        let many = |number| json!({"key": format!("example.com/taint-{number}"), "operator": "Exists"});
        let tolerations: Vec<Value> = (0..MANY).map(many).collect();
        let waiting = pod("waiting", &json!({"tolerations": tolerations, "schedulingGates": []}));
        let bound = pod("bound", &json!({"nodeName": "unfenced"}));
        for object in [&waiting, &bound] {
            let create = ["create", "-n", &shop.name, "-f", "-"];
            plane.kubectl_with_input(&create, &object.to_string()).await?;
        }
        let company = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "company"},
            "handler": "runhcs-wcow-process", "scheduling": {"nodeSelector": {"kubernetes.io/os": "windows"}}});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "other", "namespace": HOME}});
        let webhook = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "other"}});
        for object in [&company, &secret, &webhook] {
            server.apply(object, "chart-test").await?;
        }
        let read = |kind: &'static str, more: &'static [&'static str], path: &'static str| {
            let plane = &server.plane;
            let shop = shop.name.clone();
            async move {
                let arguments = [&["get", kind], more, &["-n", &shop, "-o", "json"]].concat();
                let object: Value = serde_json::from_str(&plane.kubectl(&arguments).await?)?;
                anyhow::Ok(object.pointer(path).and_then(Value::as_array).cloned().unwrap_or_default())
            }
        };
        // Including those that the API server itself adds.
        let tolerations = read("pod", &["waiting"], "/spec/tolerations").await?;
        let taints = read("node", &["fenced"], "/spec/taints").await?;
        let recorded = read("node", &["recorded"], "/spec/taints").await?;
        ensure!(tolerations.len() > MANY && taints.len() > MANY_TAINTS, "{tolerations:?} {taints:?}");
        Ok(Self { shop, taints, recorded, tolerations })
    }

    async fn stop(self, server: &Server) -> Result<()> {
        let kinds = "node/fenced,node/recorded,node/unfenced,runtimeclass/company,validatingwebhookconfiguration/other";
        for object in kinds.split(',') {
            server.plane.kubectl(&["delete", object]).await?;
        }
        let classes = ["delete", "runtimeclass", "-l", "app.kubernetes.io/managed-by=mullion", "--ignore-not-found"];
        server.plane.kubectl(&classes).await?;
        server.plane.kubectl(&["delete", "secret/other", "-n", HOME]).await?;
        self.shop.delete().await
    }

    /// The taints of the node `fenced`, followed by `more`.
    fn with_taints(&self, more: &[Value]) -> Value {
        let all = [&self.taints[..], more].concat();
        json!({"spec": {"taints": all}})
    }

    /// The tolerations of the pod `waiting`, followed by `more`.
    fn with_tolerations(&self, more: &[Value]) -> Value {
        let all = [&self.tolerations[..], more].concat();
        json!({"spec": {"tolerations": all}})
    }

    fn nodes(&self) -> Vec<Attempt> {
        let node = || "/api/v1/nodes/fenced".to_owned();
        let own = taint("os", "NoSchedule");
        let labels: Map<String, Value> =
            MANAGED_LABELS.iter().map(|label| (label.key.to_owned(), json!("x"))).collect();
        let mut all = self.with_taints(std::slice::from_ref(&own));
        all["metadata"] = json!({"labels": labels, "annotations": {"mullion.dev/owned": "{}"}});
        let other = json!({"key": "os", "value": "other", "effect": "NoSchedule"});
        let label = |key: &str, value: Value| json!({"metadata": {"labels": {key: value}}});
        let mut fewer = self.with_taints(&[]);
        fewer["spec"]["taints"].as_array_mut().expect("a list").remove(0);
        let mut evicting = self.with_taints(&[]);
        remove(&mut evicting["spec"]["taints"], "maintenance", "NoExecute");
        let mut evicting_windows = self.with_taints(&[]);
        remove(&mut evicting_windows["spec"]["taints"], "sku", "NoExecute");
        let mut weaker = evicting_windows.clone();
        weaker["spec"]["taints"].as_array_mut().expect("a list").push(taint("sku", "NoSchedule"));
        let claim = json!({"metadata": {"annotations": {"mullion.dev/owned": recorded(&taint("sku", "NoExecute"))}}});
        vec![
            ("labels, annotation and taint of Mullion", "MERGE", node(), all, Done),
            ("another value of its taint", "MERGE", node(), self.with_taints(&[other]), Done),
            ("its taint goes", "MERGE", node(), self.with_taints(&[]), Done),
            ("its label goes", "MERGE", node(), label("mullion.dev/windows-revision", Value::Null), Done),
            (
                "its taint with NoExecute",
                "MERGE",
                node(),
                self.with_taints(&[taint("os", "NoExecute")]),
                Fenced("NoExecute"),
            ),
            (
                "a taint of another key",
                "MERGE",
                node(),
                self.with_taints(&[taint("x", "NoSchedule")]),
                Fenced("fence.taintKeys"),
            ),
            ("another taint goes", "MERGE", node(), fewer, Fenced("fence.taintKeys")),
            ("another taint with NoExecute goes", "MERGE", node(), evicting, Fenced("fence.taintKeys")),
            ("a taint of its keys with NoExecute goes", "MERGE", node(), evicting_windows, Fenced("removes no taint")),
            ("that taint gets another effect", "MERGE", node(), weaker, Fenced("removes no taint")),
            ("a record of that taint", "MERGE", node(), claim.clone(), Fenced("records no taint")),
            (
                "a record of a second taint",
                "MERGE",
                "/api/v1/nodes/recorded".to_owned(),
                claim,
                Fenced("records no taint"),
            ),
            (
                "another label",
                "MERGE",
                node(),
                label("example.com/label-1", json!("changed")),
                Fenced("labels of a node"),
            ),
            ("a new label", "MERGE", node(), label("node-role.kubernetes.io/a", json!("")), Fenced("labels of a node")),
            ("another label goes", "MERGE", node(), label("kubernetes.io/os", Value::Null), Fenced("labels of a node")),
            (
                "an annotation",
                "MERGE",
                node(),
                json!({"metadata": {"annotations": {"a": "b"}}}),
                Fenced("annotations of a node"),
            ),
            (
                "a finalizer",
                "MERGE",
                node(),
                json!({"metadata": {"finalizers": ["a.b/c"]}}),
                Fenced("metadata of a node"),
            ),
            ("a cordon", "MERGE", node(), json!({"spec": {"unschedulable": true}}), Fenced("spec of a node")),
            (
                "its taint on a Linux node",
                "MERGE",
                "/api/v1/nodes/unfenced".to_owned(),
                json!({"spec": {"taints": [own]}}),
                Fenced("Windows nodes"),
            ),
            (
                "a node's status",
                "MERGE",
                "/api/v1/nodes/fenced/status".to_owned(),
                json!({"status": {"phase": "Pending"}}),
                Forbidden,
            ),
            ("delete a node", "DELETE", node(), Value::Null, Forbidden),
            ("create a node", "POST", "/api/v1/nodes".to_owned(), json!({"metadata": {"name": "new"}}), Forbidden),
        ]
    }

    /// The record of the taint that Mullion set, which decides what it may remove later.
    fn records() -> Vec<Attempt> {
        let node = || "/api/v1/nodes/fenced".to_owned();
        let record = |text: String| json!({"metadata": {"annotations": {"mullion.dev/owned": text}}});
        // The taint that the node has already, in a record with another label.
        let kept = recorded(&taint("os", "NoExecute")).replace("ltsc2022", "ltsc2025");
        vec![
            // To remove the taint as Mullion's once an administrator sets it.
            (
                "a record of a taint with NoExecute that nobody has set yet",
                "MERGE",
                node(),
                record(recorded(&taint("os", "NoExecute"))),
                Fenced("records no taint"),
            ),
            (
                "a record of another key",
                "MERGE",
                node(),
                record(recorded(&taint("dedicated", "NoSchedule"))),
                Fenced("fence.taintKeys"),
            ),
            (
                "a record in another form",
                "MERGE",
                node(),
                record(r#"{"taint": {"key":"os","value":"windows","effect":"NoExecute"}}"#.to_owned()),
                Fenced("in one form"),
            ),
            ("a record of its taint", "MERGE", node(), record(recorded(&taint("os", "NoSchedule"))), Done),
            ("a record that keeps its taint", "MERGE", "/api/v1/nodes/recorded".to_owned(), record(kept), Done),
        ]
    }

    fn pods(&self) -> Vec<Attempt> {
        let path = |name: &str| format!("/api/v1/namespaces/{}/pods/{name}", self.shop.name);
        let create = "/api/v1/namespaces/default/pods";
        let image = json!({"spec": {"containers": [{"name": "c", "image": "example.com/b:1"}]}});
        let tolerate = |toleration: Value| self.with_tolerations(&[toleration]);
        let fine = json!({"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"});
        let every = Fenced("fence.tolerationEffects");
        let apply = format!("{create}/applied?fieldManager=thief");
        vec![
            ("a pod as a dry run", "POST", format!("{create}?dryRun=All"), pod("probe", &json!({})), Done),
            ("all tolerations of nothing", "MERGE", path("waiting"), tolerate(json!({"operator": "Exists"})), every),
            (
                "a toleration of NoExecute",
                "MERGE",
                path("waiting"),
                tolerate(json!({"key": "a", "operator": "Exists", "effect": "NoExecute"})),
                Fenced("fence.tolerationEffects"),
            ),
            (
                "a toleration of all effects",
                "MERGE",
                path("waiting"),
                tolerate(json!({"key": "a", "operator": "Exists"})),
                Fenced("fence.tolerationEffects"),
            ),
            ("the image of a pod that waits", "STRATEGIC", path("waiting"), image.clone(), Fenced("spec of a pod")),
            (
                "a label of a pod",
                "MERGE",
                path("waiting"),
                json!({"metadata": {"labels": {"app": "web"}}}),
                Fenced("metadata of a pod"),
            ),
            ("the image of a running pod", "STRATEGIC", path("bound"), image, Fenced("not bound to a node")),
            (
                "a toleration of a running pod",
                "MERGE",
                path("bound"),
                json!({"spec": {"tolerations": [fine.clone()]}}),
                Fenced("not bound to a node"),
            ),
            ("a pod", "POST", create.to_owned(), pod("stolen", &json!({})), Fenced("dry runs only")),
            ("a pod by server-side apply", "APPLY", apply, pod("applied", &json!({})), Fenced("dry runs only")),
            // This comes last, because the API server never permits its removal.
            ("a toleration", "MERGE", path("waiting"), tolerate(fine), Done),
            (
                "a pod elsewhere",
                "POST",
                format!("/api/v1/namespaces/{HOME}/pods"),
                pod("stolen", &json!({})),
                Forbidden,
            ),
            ("delete a pod", "DELETE", path("bound"), Value::Null, Forbidden),
            (
                "an ephemeral container",
                "STRATEGIC",
                format!("{}/ephemeralcontainers", path("bound")),
                json!({}),
                Forbidden,
            ),
            ("a command in a pod", "POST", format!("{}/exec?command=id", path("bound")), Value::Null, Forbidden),
        ]
    }

    fn classes() -> Vec<Attempt> {
        const ALL: &str = "/apis/node.k8s.io/v1/runtimeclasses";
        let class = |name: &str, handler: &str| {
            json!({"metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "mullion"}}, "handler": handler,
                "scheduling": {"nodeSelector": {"kubernetes.io/os": "windows"}, "tolerations": [taint("os", "NoSchedule")]}})
        };
        let own = format!("{ALL}/mullion-windows-ltsc2022");
        let tolerate = |more: Value| json!({"scheduling": {"tolerations": [taint("os", "NoSchedule"), more]}});
        let mut unlabelled = class("mullion-windows-a", "runhcs-wcow-process");
        unlabelled["metadata"]["labels"] = json!({});
        let mut heavy = class("mullion-windows-a", "runhcs-wcow-process");
        heavy["overhead"] = json!({"podFixed": {"memory": "1Ti"}});
        let linux = json!({"scheduling": {"nodeSelector": {"kubernetes.io/os": "linux"}}});
        let company = format!("{ALL}/company");
        vec![
            ("a class", "POST", ALL.to_owned(), class("mullion-windows-ltsc2022", "runhcs-wcow-process"), Done),
            ("a toleration of a class", "MERGE", own.clone(), tolerate(taint("sku", "NoExecute")), Done),
            (
                "every toleration",
                "MERGE",
                own.clone(),
                tolerate(json!({"operator": "Exists"})),
                Fenced("each with one of the keys"),
            ),
            (
                "a toleration of another key",
                "MERGE",
                own.clone(),
                tolerate(taint("dedicated", "NoSchedule")),
                Fenced("fence.tolerationKeys"),
            ),
            ("a class with overhead", "POST", ALL.to_owned(), heavy, Fenced("without overhead")),
            (
                "fewer tolerations",
                "MERGE",
                own.clone(),
                json!({"scheduling": {"tolerations": []}}),
                Fenced("only adds tolerations"),
            ),
            ("its selector", "MERGE", own.clone(), linux, Fenced("select Windows nodes")),
            ("its label", "MERGE", own, json!({"metadata": {"labels": {"a": "b"}}}), Fenced("existing RuntimeClass")),
            (
                "another class",
                "POST",
                ALL.to_owned(),
                class("stolen", "runhcs-wcow-process"),
                Fenced("mullion-windows-"),
            ),
            ("a class without the label", "POST", ALL.to_owned(), unlabelled, Fenced("managed-by")),
            (
                "another handler",
                "POST",
                ALL.to_owned(),
                class("mullion-windows-a", "runc"),
                Fenced("fence.runtimeClassHandlers"),
            ),
            (
                "the class of another",
                "MERGE",
                company,
                tolerate(taint("sku", "NoSchedule")),
                Fenced("mullion-windows-"),
            ),
        ]
    }

    fn own_namespace() -> Vec<Attempt> {
        let core = |kind: &str| format!("/api/v1/namespaces/{HOME}/{kind}");
        let named = |name: &str| json!({"metadata": {"name": name}});
        let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases");
        let token = json!({"type": "kubernetes.io/service-account-token", "metadata": {"name": "mullion-tls",
            "annotations": {"kubernetes.io/service-account.name": "mullion-webhook"}}});
        vec![
            ("a Secret of a token", "POST", core("secrets"), token, Fenced("kubernetes.io/tls")),
            ("another Secret", "POST", core("secrets"), named("stolen"), Fenced("Secrets mullion-ca")),
            ("another ConfigMap", "POST", core("configmaps"), named("stolen"), Fenced("ConfigMap mullion-state")),
            ("another Lease", "POST", leases.clone(), named("stolen"), Fenced("Lease mullion-controller")),
            ("its Secret", "POST", core("secrets"), named("mullion-ca"), Done),
            ("its Secret again", "DELETE", core("secrets/mullion-ca"), Value::Null, Done),
            ("its ConfigMap", "POST", core("configmaps"), named("mullion-state"), Done),
            ("its Lease", "POST", leases, named("mullion-controller"), Done),
            ("a Secret of others", "GET", core("secrets/other"), Value::Null, Forbidden),
            ("all Secrets", "GET", "/api/v1/secrets".to_owned(), Value::Null, Forbidden),
            ("the policies", "MERGE", core("configmaps/mullion-policies"), json!({"data": {"a": "b"}}), Forbidden),
            ("a token of the webhook", "POST", core("serviceaccounts/mullion-webhook/token"), json!({}), Forbidden),
        ]
    }

    fn configurations() -> Vec<Attempt> {
        let group = "/apis/admissionregistration.k8s.io/v1";
        let own = format!("{group}/mutatingwebhookconfigurations/mullion");
        let webhook = |more: Value| {
            let mut webhook = json!({"name": "pods.mullion.dev"});
            for (key, value) in more.as_object().into_iter().flatten() {
                webhook[key] = value.clone();
            }
            json!({"webhooks": [webhook]})
        };
        let bundle = |url: Value| webhook(json!({"clientConfig": {"caBundle": "Y2E=", "service": url}}));
        let every =
            json!({"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}]});
        let more = json!({"webhooks": [{"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://example.com"}}]});
        let only = || Fenced("caBundle");
        vec![
            ("caBundle", "STRATEGIC", own.clone(), webhook(json!({"clientConfig": {"caBundle": "Y2E="}})), Done),
            ("caBundle again", "STRATEGIC", own.clone(), webhook(json!({"clientConfig": {"caBundle": "YmM="}})), Done),
            ("its rules", "STRATEGIC", own.clone(), webhook(every), only()),
            ("its failurePolicy", "STRATEGIC", own.clone(), webhook(json!({"failurePolicy": "Fail"})), only()),
            ("its conditions", "STRATEGIC", own.clone(), webhook(json!({"matchConditions": null})), only()),
            ("its Service", "STRATEGIC", own.clone(), bundle(json!({"name": "stolen"})), only()),
            ("one webhook more", "STRATEGIC", own.clone(), more, only()),
            ("no webhook", "MERGE", own.clone(), json!({"webhooks": []}), only()),
            (
                "its labels",
                "MERGE",
                own.clone(),
                json!({"metadata": {"labels": {"a": "b"}}}),
                Fenced("nothing in their metadata"),
            ),
            (
                "the configuration of another",
                "MERGE",
                format!("{group}/validatingwebhookconfigurations/other"),
                json!({}),
                Forbidden,
            ),
            ("delete its configuration", "DELETE", own, Value::Null, Forbidden),
            (
                "the fence",
                "DELETE",
                format!("{group}/validatingadmissionpolicies/mullion-fence-pods"),
                Value::Null,
                Forbidden,
            ),
        ]
    }

    /// The requests of the withdraw Job.
    fn withdrawal(&self) -> Vec<Attempt> {
        let classes = "/apis/node.k8s.io/v1/runtimeclasses";
        let node = || "/api/v1/nodes/fenced".to_owned();
        let labels: Map<String, Value> =
            MANAGED_LABELS.iter().map(|label| (label.key.to_owned(), json!(null))).collect();
        let mut all = self.with_taints(&[]);
        all["metadata"] = json!({"labels": labels, "annotations": {"mullion.dev/owned": null}});
        let recorded = || "/api/v1/nodes/recorded".to_owned();
        let mut own =
            json!({"metadata": {"annotations": {"mullion.dev/owned": null}}, "spec": {"taints": self.recorded}});
        remove(&mut own["spec"]["taints"], "os", "NoExecute");
        let mut more = own.clone();
        remove(&mut more["spec"]["taints"], "sku", "NoExecute");
        let state = format!("/api/v1/namespaces/{HOME}/configmaps");
        let pod = format!("/api/v1/namespaces/{}/pods/waiting", self.shop.name);
        vec![
            ("everything of Mullion goes", "MERGE", node(), all, Done),
            ("a taint of others with NoExecute goes as well", "MERGE", recorded(), more, Fenced("removes no taint")),
            ("a taint with NoExecute that Mullion set goes", "MERGE", recorded(), own, Done),
            (
                "a taint with NoExecute",
                "MERGE",
                node(),
                self.with_taints(&[taint("os", "NoExecute")]),
                Fenced("NoExecute"),
            ),
            ("a label", "MERGE", node(), json!({"metadata": {"labels": {"a": "b"}}}), Fenced("labels of a node")),
            ("the class of another", "DELETE", format!("{classes}/company"), Value::Null, Fenced("mullion-windows-")),
            ("a class", "DELETE", format!("{classes}/mullion-windows-ltsc2022"), Value::Null, Done),
            ("its state", "MERGE", format!("{state}/mullion-state"), json!({"data": {"withdrawn": "now"}}), Done),
            (
                "another ConfigMap",
                "POST",
                state,
                json!({"metadata": {"name": "stolen"}}),
                Fenced("ConfigMap mullion-state"),
            ),
            ("a pod", "MERGE", pod, json!({"metadata": {"labels": {"a": "b"}}}), Forbidden),
            ("a Secret", "GET", format!("/api/v1/namespaces/{HOME}/secrets/mullion-ca"), Value::Null, Forbidden),
        ]
    }

    /// The requests of the webhook, which writes nothing.
    fn webhook(&self) -> Vec<Attempt> {
        let shop = format!("/api/v1/namespaces/{}", self.shop.name);
        let home = format!("/api/v1/namespaces/{HOME}");
        let configuration = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/mullion";
        vec![
            ("nodes", "GET", "/api/v1/nodes".to_owned(), Value::Null, Done),
            ("a node", "MERGE", "/api/v1/nodes/fenced".to_owned(), json!({}), Forbidden),
            ("a pod as a dry run", "POST", format!("{shop}/pods?dryRun=All"), pod("a", &json!({})), Forbidden),
            ("pods", "GET", format!("{shop}/pods"), Value::Null, Forbidden),
            ("the key of the CA", "GET", format!("{home}/secrets/mullion-ca"), Value::Null, Forbidden),
            ("a Secret of others", "GET", format!("{shop}/secrets/a"), Value::Null, Forbidden),
            ("its state", "MERGE", format!("{home}/configmaps/mullion-state"), json!({}), Forbidden),
            ("its configuration", "MERGE", configuration.to_owned(), json!({}), Forbidden),
        ]
    }
}

/// Checks docs/reference/security.md with the token of each account. The node has many labels and taints, the pod many
/// tolerations, and the expressions still stay below the API server's limit of cost.
pub async fn a_stolen_token_writes_no_more_than_mullion(server: &Server) -> Result<()> {
    let _alone = server.alone().await?;
    let plane = &server.plane;
    let cluster = Cluster::start(server).await?;
    server.helm(&["install", "mullion", &Chart::folder().to_string_lossy()]).await?;

    let controller = plane.client_as_service_account(HOME, "mullion-controller").await?;
    let attempts = [
        Cluster::records(),
        cluster.nodes(),
        cluster.pods(),
        Cluster::classes(),
        Cluster::own_namespace(),
        Cluster::configurations(),
    ];
    for attempts in attempts {
        all_end_as_expected(&controller, "controller", &attempts).await?;
    }
    // The fence applies only to Mullion's accounts.
    plane.kubectl(&["taint", "nodes", "unfenced", "os=windows:NoExecute"]).await?;

    // The account of the Job and its permissions, which exist while Helm uninstalls.
    let hooks: Vec<_> = Chart::default().objects()?.into_iter().filter(crate::upgrades::is_hook).collect();
    for object in hooks.iter().filter(|object| object["kind"] != "Job") {
        server.apply(object, "helm").await?;
    }
    let withdraw = plane.client_as_service_account(HOME, "mullion-withdraw").await?;
    all_end_as_expected(&withdraw, "withdraw", &cluster.withdrawal()).await?;
    let webhook = plane.client_as_service_account(HOME, "mullion-webhook").await?;
    all_end_as_expected(&webhook, "webhook", &cluster.webhook()).await?;

    for object in hooks.iter().filter(|object| object["kind"] != "Job") {
        server.delete(object).await?;
    }
    server.helm(&["uninstall", "mullion", "--no-hooks"]).await?;
    cluster.stop(server).await
}

/// The number of pods of the Deployments, which no scheduler binds here.
async fn pods(server: &Server) -> Result<usize> {
    let shown = ["get", "pods", "-n", HOME, "-l", "app.kubernetes.io/name=mullion", "-o", "name"];
    Ok(server.plane.kubectl(&shown).await?.lines().count())
}

/// As on GKE: without a quota the API server creates no pod of a system priority class.
pub async fn pods_are_created_where_system_classes_are_limited(server: &Server) -> Result<()> {
    let _alone = server.alone().await?;
    let chart = Chart::folder();
    let chart = chart.to_string_lossy();
    let exactly = async |count: usize| {
        wait_for(&format!("{count} pods"), DEADLINE, async || {
            let found = pods(server).await?;
            ensure!(found == count, "{found} pods");
            anyhow::Ok(())
        })
        .await
    };
    server.helm(&["install", "mullion", &chart]).await?;
    exactly(4).await?;
    // A rollout: old pods stay until new ones are ready, which never happens here.
    let more = ["--set", "webhook.replicas=5,controller.replicas=3,webhook.log=debug,controller.log=debug"];
    server.helm(&[&["upgrade", "mullion", &chart], &more[..]].concat()).await?;
    // The sum of replicas and maxSurge of each.
    exactly(5 + 1 + 3 + 1).await?;

    server.helm(&["upgrade", "mullion", &chart, "--set", "priorityClass.quota=false"]).await?;
    // Helm deletes last, so the quota still existed for the pods of this upgrade.
    server.plane.kubectl(&["scale", "deployment", "mullion-webhook", "-n", HOME, "--replicas=9"]).await?;
    wait_for("the ReplicaSet to be refused", DEADLINE, async || {
        let events = [
            "get",
            "events",
            "-n",
            HOME,
            "--field-selector",
            "reason=FailedCreate",
            "-o",
            "jsonpath={.items[*].message}",
        ];
        let message = server.plane.kubectl(&events).await?;
        ensure!(message.contains("insufficient quota to match these scopes"), "{message}");
        anyhow::Ok(())
    })
    .await?;
    server.helm(&["uninstall", "mullion", "--no-hooks", "--wait"]).await?;
    exactly(0).await
}

/// The priority class of the previous chart is removed by the upgrade and returns with the rollback; the fence is added
/// by the upgrade and removed by the rollback.
pub async fn upgrades_from_the_chart_before_and_back(server: &Server) -> Result<()> {
    let helm = || server.plane.tools().command(Tool::Helm);
    from_the_chart_before_and_back(server, &helm, &[&["--server-side=true"], &["--server-side=false"]]).await
}

/// The same with Helm 3.
pub async fn helm_3_upgrades_from_the_chart_before_and_back(server: &Server) -> Result<()> {
    from_the_chart_before_and_back(server, &crate::upgrades::helm_3, &[&[]]).await
}

async fn from_the_chart_before_and_back(
    server: &Server,
    helm: &(dyn Fn() -> Command + Sync),
    ways: &[&[&str]],
) -> Result<()> {
    let helm = async |arguments: &[&str]| server.helm_of(helm(), arguments).await;
    let _alone = server.alone().await?;
    ensure!(Path::new(BEFORE).is_file(), "no {BEFORE}");
    let chart = Chart::folder();
    let state = async || -> Result<Vec<String>> {
        let kinds = "priorityclasses,validatingadmissionpolicies,validatingadmissionpolicybindings,resourcequotas";
        let shown = ["get", kinds, "-A", "-l", "app.kubernetes.io/name=mullion", "-o", "json"];
        let found: Value = serde_json::from_str(&server.plane.kubectl(&shown).await?)?;
        let kinds = found["items"].as_array().cloned().unwrap_or_default();
        let mut kinds: Vec<String> = kinds.iter().map(|object| text(object, "/kind").to_owned()).collect();
        kinds.dedup();
        Ok(kinds)
    };
    let (before, after) = (
        ["PriorityClass"].map(str::to_owned),
        ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ResourceQuota"].map(str::to_owned),
    );
    helm(&["install", "mullion", BEFORE]).await?;
    ensure!(state().await? == before, "{:?}", state().await?);
    for way in ways {
        helm(&[&["upgrade", "mullion", &*chart.to_string_lossy()], *way].concat()).await?;
        ensure!(state().await? == after, "after the upgrade: {:?}", state().await?);
        helm(&["rollback", "mullion", "1"]).await?;
        ensure!(state().await? == before, "after the rollback: {:?}", state().await?);
    }
    // With the values of the previous release, the chart reports which values are missing.
    let reused = helm(&["upgrade", "mullion", &chart.to_string_lossy(), "--reuse-values"]).await;
    let reused = reused.err().context("an upgrade without values of this chart")?.to_string();
    ensure!(reused.contains("fence") || reused.contains("priorityClass"), "{reused}");
    helm(&["uninstall", "mullion", "--no-hooks"]).await.map(drop)
}
