//! What the annotations and labels of a namespace refuse, with the admission plugins on that read them.
//!
//! A control plane of its own: `PodNodeSelector` and `PodTolerationRestriction` are off unless they are asked for. Nothing
//! is scheduled here; the API server's answer is what counts.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use mullion_cluster::{ControlPlane, MullionProcess, NodeSpec, Seen, TestNamespace, wait_for};
use serde_json::{Value, json};

use crate::shared::{DEADLINE, dry_run, pod, start_webhook};
use crate::turns::Logs;

const LTSC2022: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";
const LTSC2025: &str = "mcr.microsoft.com/windows/servercore:ltsc2025";
const NODE_SELECTOR: &str = "scheduler.alpha.kubernetes.io/node-selector";
const WHITELIST: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";
const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
const ENFORCE_VERSION: &str = "pod-security.kubernetes.io/enforce-version";
/// Namespaces with this label are Mullion's.
const OURS: (&str, &str) = ("mullion-test", "limits");

/// Tolerations that every pod has before Mullion sees it: `DefaultTolerationSeconds`, and for pods with requests or limits
/// `PodTolerationRestriction` itself.
const USUAL: &str = r#"{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute"},
    {"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute"},
    {"key":"node.kubernetes.io/memory-pressure","operator":"Exists","effect":"NoSchedule"}"#;

/// The control plane with the plugins on, and Mullion's webhook at work on it.
pub struct Limited {
    plane: ControlPlane,
    webhook: MullionProcess,
}

impl Logs for Limited {
    fn keep_logs(&self) -> Vec<PathBuf> {
        vec![self.plane.keep_logs(), self.webhook.keep_logs()]
    }
}

impl Limited {
    pub async fn start() -> Result<Self> {
        let plane = ControlPlane::builder()
            .admission_plugins(&["NodeRestriction", "PodNodeSelector", "PodTolerationRestriction"])
            .controller_manager(false)
            .scheduler(false)
            .kwok(false)
            .start()
            .await?;
        plane
            .create_nodes(&[
                NodeSpec::linux("linux-1"),
                NodeSpec::windows("win2022", "10.0.20348.2655").taint("os=windows:NoSchedule"),
                NodeSpec::windows("win2025", "10.0.26100.2894").taint("os=windows:NoSchedule"),
            ])
            .await?;
        // What Mullion's controller makes.
        plane
            .kubectl_with_input(
                &["apply", "-f", "-"],
                r"
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: mullion-windows-ltsc2025, labels: {app.kubernetes.io/managed-by: mullion}}
handler: runhcs-wcow-process
scheduling:
  nodeSelector: {kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.26100}
  tolerations: [{key: os, operator: Equal, value: windows, effect: NoSchedule}]
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: win2022}
handler: runhcs-wcow-process
scheduling: {nodeSelector: {node.kubernetes.io/windows-build: 10.0.20348}}
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: hyperv}
handler: runhcs-wcow-hypervisor
scheduling: {nodeSelector: {kubernetes.io/os: windows}}
overhead: {podFixed: {memory: 512Mi, cpu: 100m}}
",
            )
            .await?;
        let (webhook, registration) = start_webhook(&plane).await?;
        registration.namespace_label(OURS.0, OURS.1).register(&plane.client()).await?;
        let limited = Self { plane, webhook };
        limited.settle().await?;
        Ok(limited)
    }

    /// A namespace under Mullion, as the API server and Mullion see it from now on.
    async fn namespace(&self, labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> Result<TestNamespace> {
        let namespace = self.unsettled(&[labels, &[OURS]].concat(), annotations).await?;
        self.settle().await?;
        Ok(namespace)
    }

    /// The same without Mullion.
    async fn plain_namespace(&self, labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> Result<TestNamespace> {
        let namespace = self.unsettled(labels, annotations).await?;
        self.settle().await?;
        Ok(namespace)
    }

    async fn unsettled(&self, labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> Result<TestNamespace> {
        let namespace = self.plane.namespace_with_labels("limits", labels).await?;
        let annotations: BTreeMap<&str, &str> = annotations.iter().copied().collect();
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let api: Api<Namespace> = Api::all(self.plane.client());
        api.patch(&namespace.name, &PatchParams::default(), &patch).await?;
        Ok(namespace)
    }

    /// Waits until the server and Mullion know every namespace there is: both follow them in order, so what they know of
    /// the last one they know of all.
    async fn settle(&self) -> Result<()> {
        let last = self.unsettled(&[OURS], &[("mullion.dev/os", "windows")]).await?;
        let probe = pod("probe", json!({"containers": [{"name": "c", "image": "registry.example.com/app"}]}));
        wait_for("the server and Mullion to know the namespaces", DEADLINE, async || {
            match dry_run(&last, &probe).await {
                Ok(answer) if answer["spec"]["nodeSelector"]["kubernetes.io/os"] == "windows" => Seen::Done(()),
                Ok(answer) => Seen::NotYet(answer["spec"]["nodeSelector"].to_string()),
                Err(error) => Seen::NotYet(format!("{error:#}")),
            }
        })
        .await
    }
}

/// What the server says to an object, which it does not store.
struct Said {
    /// What it would store, or why not.
    answer: std::result::Result<Value, String>,
    warnings: Vec<String>,
}

impl Said {
    fn spec(&self) -> Result<&Value> {
        let pod = self.answer.as_ref().map_err(|error| anyhow!("refused: {error}"))?;
        Ok(&pod["spec"])
    }

    fn refusal(&self) -> Result<&str> {
        match &self.answer {
            Ok(stored) => bail!("not refused: {stored}"),
            Err(why) => Ok(why),
        }
    }

    fn warned(&self, code: &str) -> bool {
        self.warnings.iter().any(|warning| warning.starts_with(code))
    }
}

async fn say(namespace: &TestNamespace, object: &Value) -> Result<Said> {
    let group = if object["kind"] == "Pod" { "api" } else { "apis" };
    let (version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap().to_lowercase());
    let path = format!("/{group}/{version}/namespaces/{}/{kind}s?dryRun=All", namespace.name);
    let request = http::Request::post(path).header("content-type", "application/json");
    let answer = namespace.client.send(request.body(Body::from(serde_json::to_vec(object)?))?).await?;
    let headers = answer.headers().get_all("warning").into_iter();
    let texts = headers.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let warnings =
        texts.filter_map(|text| Some(text.strip_prefix("299 - \"")?.strip_suffix('"')?.to_owned())).collect();
    let status = answer.status();
    let body: Value = serde_json::from_slice(&answer.into_body().collect_bytes().await?)?;
    let text = || format!("{status} {}", body["message"].as_str().unwrap_or_default());
    Ok(Said { answer: if status.is_success() { Ok(body.clone()) } else { Err(text()) }, warnings })
}

fn windows_pod(image: &str) -> Value {
    let resources = json!({"limits": {"memory": "512Mi"}});
    pod("p", json!({"containers": [{"name": "c", "image": image, "resources": resources}]}))
}

/// A Deployment or DaemonSet of pods with that spec.
fn template(kind: &str, spec: &Value) -> Value {
    let template = json!({"metadata": {"labels": {"app": "t"}}, "spec": spec});
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "t"}, "spec": {
        "selector": {"matchLabels": {"app": "t"}}, "template": template}})
}

fn with(mut object: Value, field: &str, value: Value) -> Value {
    object["spec"][field] = value;
    object
}

fn tolerates_os(spec: &Value) -> bool {
    spec["tolerations"].as_array().is_some_and(|list| list.iter().any(|toleration| toleration["key"] == "os"))
}

fn os_toleration() -> Value {
    json!([{"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}])
}

const REFUSED: &str = "conflict with its namespace whitelist";

// === tolerations ===

pub async fn a_whitelist_without_the_os_toleration_refuses_nothing(limited: &Limited) -> Result<()> {
    let list = format!("[{USUAL}]");
    let ours = limited.namespace(&[], &[(WHITELIST, &list)]).await?;
    let said = say(&ours, &windows_pod(LTSC2022)).await?;
    let spec = said.spec()?;
    ensure!(spec["nodeSelector"]["kubernetes.io/os"] == "windows" && spec["os"]["name"] == "windows", "{spec}");
    ensure!(!tolerates_os(spec) && said.warned("MUL704"), "{spec} {:?}", said.warnings);
    // With it the pod would have been refused: by the class that brings it, too.
    let plain = limited.plain_namespace(&[], &[(WHITELIST, &list)]).await?;
    let with_it = say(&plain, &with(windows_pod(LTSC2022), "tolerations", os_toleration())).await?;
    ensure!(with_it.refusal()?.contains(REFUSED), "{}", with_it.refusal()?);
    let class =
        say(&plain, &with(windows_pod(LTSC2025), "runtimeClassName", json!("mullion-windows-ltsc2025"))).await?;
    ensure!(class.refusal()?.contains(REFUSED), "{}", class.refusal()?);
    // So ours is not assigned here.
    let said = say(&ours, &windows_pod(LTSC2025)).await?;
    ensure!(said.spec()?.get("runtimeClassName").is_none(), "{}", said.spec()?);
    // Whoever applies a template hears it, and a DaemonSet is not given it.
    for kind in ["Deployment", "DaemonSet"] {
        let said = say(&ours, &template(kind, &windows_pod(LTSC2022)["spec"])).await?;
        ensure!(
            said.warned("MUL704") && !tolerates_os(&said.spec()?["template"]["spec"]),
            "{kind}: {:?}",
            said.warnings
        );
    }
    Ok(())
}

pub async fn a_whitelist_with_the_os_toleration_lets_it_be_added(limited: &Limited) -> Result<()> {
    let list = format!(r#"[{USUAL},{{"key":"os","operator":"Equal","value":"windows","effect":"NoSchedule"}}]"#);
    let ours = limited.namespace(&[], &[(WHITELIST, &list)]).await?;
    let said = say(&ours, &windows_pod(LTSC2022)).await?;
    ensure!(tolerates_os(said.spec()?) && said.warnings.is_empty(), "{:?} {:?}", said.spec()?, said.warnings);
    // The class, whose selector and toleration the server adds in its second round.
    let said = say(&ours, &windows_pod(LTSC2025)).await?;
    let spec = said.spec()?;
    ensure!(spec["runtimeClassName"] == "mullion-windows-ltsc2025" && tolerates_os(spec), "{spec}");
    ensure!(spec["nodeSelector"]["node.kubernetes.io/windows-build"] == "10.0.26100", "{spec}");
    // With limits the plugin itself adds one more, and still lets it in.
    let mut limits = windows_pod(LTSC2022);
    limits["spec"]["containers"][0]["resources"] = json!({"limits": {"memory": "512Mi"}});
    let said = say(&ours, &limits).await?;
    ensure!(said.spec()?["tolerations"].to_string().contains("memory-pressure"), "{}", said.spec()?);
    Ok(())
}

/// The server and Mullion agree about every list: what is added is let in, and what is let in is added.
pub async fn every_whitelist_is_read_as_the_server_reads_it(limited: &Limited) -> Result<()> {
    let usual = |more: &str| format!("[{USUAL},{more}]");
    let lists = [
        String::new(),
        "[]".to_owned(),
        "null".to_owned(),
        usual(r#"{"key":"os","value":"windows"}"#),
        usual(r#"{"Key":"os","OPERATOR":"Exists","unknown":7}"#),
        usual(r#"{"key":"os","operator":"Exists","tolerationSeconds":1}"#),
        usual(r#"{"operator":"Exists","effect":"NoSchedule"}"#),
        r#"[{"operator":"Exists"}]"#.to_owned(),
        usual(r#"{"key":"os","value":"Windows"}"#),
        usual(r#"{"key":"os"}"#),
        usual(r#"{"key":"os","operator":"Exists","effect":"NoExecute"}"#),
        usual(r#"{"key":"os","operator":"Gt","value":"windows"}"#),
        usual("null"),
        usual("{}"),
        // Every pod is refused: nothing of Mullion's doing.
        r#"[{"key":"os","operator":"Exists"}]"#.to_owned(),
        "os=windows".to_owned(),
        usual("7"),
        r#"[{"key":7}]"#.to_owned(),
    ];
    let mut namespaces = Vec::new();
    for list in &lists {
        let annotation = [(WHITELIST, list.as_str())];
        namespaces.push((limited.unsettled(&[OURS], &annotation).await?, limited.unsettled(&[], &annotation).await?));
    }
    limited.settle().await?;
    for (list, (ours, plain)) in lists.iter().zip(&namespaces) {
        let bare = say(plain, &windows_pod(LTSC2022)).await?;
        let tolerant = say(plain, &with(windows_pod(LTSC2022), "tolerations", os_toleration())).await?;
        let said = say(ours, &windows_pod(LTSC2022)).await?;
        ensure!(said.answer.is_ok() == bare.answer.is_ok(), "{list}: {:?} {:?}", said.answer, bare.answer);
        if let Ok(stored) = &said.answer {
            let added = tolerates_os(&stored["spec"]);
            ensure!(added == tolerant.answer.is_ok(), "{list}: added {added}, the server {:?}", tolerant.answer);
            ensure!(added != said.warned("MUL704"), "{list}: {:?}", said.warnings);
        }
    }
    Ok(())
}

// === node selectors ===

pub async fn a_node_selector_of_the_namespace_refuses_nothing(limited: &Limited) -> Result<()> {
    let windows = json!({"kubernetes.io/os": "windows"});
    let refused = "conflicts with its namespace node label selector";
    let linux = limited.namespace(&[], &[(NODE_SELECTOR, "kubernetes.io/os=linux")]).await?;
    let explicit = with(windows_pod(LTSC2022), "nodeSelector", windows);
    let said = say(&linux, &explicit).await?;
    ensure!(said.refusal()?.contains(refused), "{}", said.refusal()?);
    let said = say(&linux, &template("Deployment", &explicit["spec"])).await?;
    ensure!(said.answer.is_ok() && said.warned("MUL703"), "{:?} {:?}", said.answer, said.warnings);
    // A DaemonSet that says Windows otherwise is not given the selector with which its pods would be refused.
    let sealed = with(windows_pod(LTSC2022), "os", json!({"name": "windows"}));
    let said = say(&linux, &template("DaemonSet", &sealed["spec"])).await?;
    ensure!(said.spec()?["template"]["spec"].get("nodeSelector").is_none(), "{}", said.spec()?);
    ensure!(said.warned("MUL703"), "{:?}", said.warnings);
    // The selector stands in the pod before Mullion is asked: it goes with what it says.
    let said = say(&linux, &windows_pod("registry.example.com/app")).await?;
    ensure!(said.spec()?["nodeSelector"]["kubernetes.io/os"] == "linux", "{}", said.spec()?);

    let pool = limited.namespace(&[], &[(NODE_SELECTOR, "kubernetes.io/os=windows,team=a")]).await?;
    let said = say(&pool, &windows_pod("registry.example.com/app")).await?;
    ensure!(said.spec()?["os"]["name"] == "windows" && tolerates_os(said.spec()?), "{}", said.spec()?);
    ensure!(said.warnings.is_empty(), "{:?}", said.warnings);
    // A class of ours with another build would be refused: none is assigned.
    let build = limited.namespace(&[], &[(NODE_SELECTOR, "node.kubernetes.io/windows-build=10.0.20348")]).await?;
    let said = say(&build, &windows_pod(LTSC2025)).await?;
    ensure!(said.spec()?.get("runtimeClassName").is_none(), "{}", said.spec()?);
    // A selector that is none refuses every pod, whoever adds what.
    let broken = limited.plain_namespace(&[], &[(NODE_SELECTOR, "kubernetes.io/os")]).await?;
    let said = say(&broken, &windows_pod(LTSC2022)).await?;
    ensure!(said.refusal()?.contains("invalid selector"), "{}", said.refusal()?);
    Ok(())
}

// === RuntimeClasses ===

pub async fn runtime_classes_as_the_server_has_them(limited: &Limited) -> Result<()> {
    let namespace = limited.namespace(&[], &[]).await?;
    let of = |class: &str| with(windows_pod(LTSC2022), "runtimeClassName", json!(class));
    let other_build = json!({"node.kubernetes.io/windows-build": "10.0.17763"});
    let overhead = |memory: &str, cpu: &str| json!({"memory": memory, "cpu": cpu});
    // Pod, what the server says to it, and what Mullion says to its template.
    let cases = [
        (of("absent"), Some("RuntimeClass \"absent\" not found"), "MUL701"),
        (
            with(of("win2022"), "nodeSelector", other_build),
            Some("conflict: runtimeClass.scheduling.nodeSelector"),
            "MUL702",
        ),
        (with(of("hyperv"), "overhead", overhead("256Mi", "100m")), Some("Overhead doesn't match"), "MUL702"),
        (with(of("win2022"), "overhead", overhead("256Mi", "100m")), Some("Overhead set without"), "MUL702"),
        (with(windows_pod(LTSC2022), "overhead", overhead("256Mi", "100m")), Some("Overhead set without"), "MUL702"),
        (with(of("hyperv"), "overhead", overhead("536870912", "0.1")), None, ""),
        (of("win2022"), None, ""),
    ];
    for (object, refusal, code) in cases {
        let said = say(&namespace, &object).await?;
        let template = say(&namespace, &template("Deployment", &object["spec"])).await?;
        let Some(refusal) = refusal else {
            said.spec().with_context(|| object.to_string())?;
            ensure!(!template.warned("MUL7") && template.answer.is_ok(), "{object}: {:?}", template.answer);
            continue;
        };
        ensure!(said.refusal()?.contains(refusal), "{object}: {}", said.refusal()?);
        let heard = template.warned(code) || template.answer.as_ref().is_err_and(|why| why.contains(code));
        ensure!(heard, "{object}: {:?} {:?}", template.answer, template.warnings);
    }
    Ok(())
}

// === Pod Security ===

fn restricted() -> Value {
    let context = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": true,
        "seccompProfile": {"type": "RuntimeDefault"}});
    pod("p", json!({"containers": [{"name": "c", "image": LTSC2022, "securityContext": context}]}))
}

pub async fn sealed_pods_pass_pod_security_where_it_knows_windows(limited: &Limited) -> Result<()> {
    for version in ["latest", "v1.25", "v1.7"] {
        let labels = [(ENFORCE, "restricted"), (ENFORCE_VERSION, version)];
        let ours = limited.namespace(&labels, &[]).await?;
        let said = say(&ours, &restricted()).await?;
        let spec = said.spec().with_context(|| version.to_owned())?;
        ensure!(spec["os"]["name"] == "windows", "{version}: {spec}");
        ensure!(spec["containers"][0]["securityContext"] == json!({"runAsNonRoot": true}), "{version}: {spec}");
        ensure!(!said.warned("MUL7"), "{version}: {:?}", said.warnings);
    }
    // What a Windows pod needs not say, the server asks for all the same until it is sealed.
    let mut bare = windows_pod(LTSC2022);
    bare["spec"]["securityContext"] = json!({"runAsNonRoot": true});
    let labels = [(ENFORCE, "restricted")];
    let plain = say(&limited.plain_namespace(&labels, &[]).await?, &bare).await?;
    ensure!(plain.refusal()?.contains("violates PodSecurity"), "{}", plain.refusal()?);
    let said = say(&limited.namespace(&labels, &[]).await?, &bare).await?;
    ensure!(said.spec()?["os"]["name"] == "windows", "{}", said.spec()?);
    Ok(())
}

pub async fn pods_stay_unsealed_where_pod_security_knows_no_windows(limited: &Limited) -> Result<()> {
    for version in ["v1.8", "v1.24"] {
        let labels = [(ENFORCE, "restricted"), (ENFORCE_VERSION, version)];
        let (ours, plain) = (limited.namespace(&labels, &[]).await?, limited.plain_namespace(&labels, &[]).await?);
        let said = say(&ours, &restricted()).await?;
        let spec = said.spec().with_context(|| version.to_owned())?;
        ensure!(spec.get("os").is_none() && spec["nodeSelector"]["kubernetes.io/os"] == "windows", "{version}: {spec}");
        ensure!(spec["containers"][0]["securityContext"]["allowPrivilegeEscalation"] == false, "{version}: {spec}");
        ensure!(said.warned("MUL705"), "{version}: {:?}", said.warnings);
        // Sealed it would be refused, with the fields and without them.
        let sealed = with(windows_pod(LTSC2022), "os", json!({"name": "windows"}));
        let sealed = with(sealed, "securityContext", json!({"runAsNonRoot": true}));
        let without = say(&plain, &sealed).await?;
        ensure!(without.refusal()?.contains("allowPrivilegeEscalation != false"), "{}", without.refusal()?);
        let both = say(&plain, &with(restricted(), "os", json!({"name": "windows"}))).await?;
        ensure!(both.refusal()?.contains("cannot be set for a windows pod"), "{}", both.refusal()?);
        let template = say(&ours, &template("Deployment", &sealed["spec"])).await?;
        ensure!(template.answer.is_ok() && template.warned("MUL705"), "{:?} {:?}", template.answer, template.warnings);
    }
    Ok(())
}

pub async fn host_process_pods_and_pod_security(limited: &Limited) -> Result<()> {
    let options = json!({"windowsOptions": {"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"}});
    let object = with(with(windows_pod(LTSC2022), "securityContext", options), "hostNetwork", json!(true));
    for (level, refused) in [("baseline", true), ("restricted", true), ("privileged", false)] {
        let namespace = limited.namespace(&[(ENFORCE, level)], &[]).await?;
        let said = say(&namespace, &object).await?;
        ensure!(said.answer.is_err() == refused, "{level}: {:?}", said.answer);
        if refused {
            ensure!(said.refusal()?.contains("hostProcess"), "{level}: {}", said.refusal()?);
        }
        let template = say(&namespace, &template("Deployment", &object["spec"])).await?;
        ensure!(template.answer.is_ok() && template.warned("MUL705") == refused, "{level}: {:?}", template.warnings);
    }
    Ok(())
}
