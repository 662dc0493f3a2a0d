//! `mullion verify`, with the rights that it prints and no others: on a healthy cluster, on clusters that are broken in each
//! thing that it checks, and on a large one. Whatever happens, no namespace of a run is left.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::ListParams;
use mullion_cluster::{
    Builder, ConfigMapMount, ControlPlane, NodeSpec, ServingCert, TestNamespace, WebhookRegistration, wait_for,
};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::audit::AuditLog;
use crate::cases::third_party::ThirdPartyServer;
use crate::memory::{Running, as_webhook, controller, controllers, start, state, webhooks};
use crate::shared::{DEADLINE, list, wait_until_mullion_is_called};

/// The user of all runs.
const USER: &str = "verifier";
/// The label of the namespaces of runs.
const LABEL: &str = "mullion.dev/verify";
const POLICY: &str = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: mine}\nspec: {priority: 7}\n";
const AUDIT: &str =
    "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: mine}\nspec: {priority: 7, mode: Audit}\n";

/// The requests of all runs.
fn log() -> &'static AuditLog {
    static LOG: OnceLock<AuditLog> = OnceLock::new();
    LOG.get_or_init(|| {
        let rules = json!([{"level": "Metadata", "users": [USER]}, {"level": "None"}]);
        AuditLog::of(&rules).expect("an audit policy")
    })
}

/// Control planes whose Pod Security is `restricted` for namespaces without a label.
pub fn plane() -> Builder {
    static CONFIG: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = CONFIG.get_or_init(|| tempfile::tempdir().expect("a temporary folder"));
    let config = folder.path().join("admission.json");
    let defaults = json!({"enforce": "restricted", "enforce-version": "latest"});
    let configuration = json!({"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration",
        "defaults": defaults});
    let text = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
        "plugins": [{"name": "PodSecurity", "configuration": configuration}]});
    std::fs::write(&config, text.to_string()).expect("a file");
    let flag = format!("--admission-control-config-file={}", config.display());
    log().written_by(ControlPlane::builder().api_server_flag(flag))
}

/// A running Mullion, and the user of `mullion verify`.
struct Trial<'p> {
    plane: &'p ControlPlane,
    own: TestNamespace,
    mount: ConfigMapMount,
    webhook: Running,
    registration: WebhookRegistration,
    controller: Running,
    kubeconfig: PathBuf,
}

/// The result of a run.
struct Ran {
    /// The status and the rest of each check, by name and subject.
    checks: BTreeMap<String, Value>,
    report: Value,
    code: Option<i32>,
}

impl Ran {
    /// The checks with that status.
    fn with(&self, status: &str) -> Vec<&str> {
        self.checks.iter().filter(|(_, check)| check["status"] == status).map(|(name, _)| name.as_str()).collect()
    }
}

impl<'p> Trial<'p> {
    /// Starts Mullion, and waits until its nodes are ready.
    async fn start(plane: &'p ControlPlane, nodes: &[NodeSpec]) -> Result<Self> {
        let role = output(&["verify", "--print-rbac"]).await?;
        ensure!(role.status.success(), "{role:?}");
        plane.kubectl_with_input(&["apply", "-f", "-"], &String::from_utf8(role.stdout)?).await?;
        let user = format!("--user={USER}");
        plane.kubectl(&["create", "clusterrolebinding", "verify", "--clusterrole=mullion-verify", &user]).await?;
        let kubeconfig = plane.kubeconfig_for(USER, &[])?;

        let own = plane.namespace("mullion").await?;
        plane.create_nodes(nodes).await?;
        let mount = ConfigMapMount::new(&[("mine.yaml", POLICY)])?;
        let controller = controller(&controllers(plane, &own).await?, &own, mount.path()).await?;
        state(&own, "the policies", |data| data["policies"].is_string()).await?;
        let (arguments, registration) = as_webhook(plane, &webhooks(plane, &own, true).await?, &own, mount.path())?;
        let webhook = start(&arguments).await?;
        registration.register(&plane.client()).await?;
        let trial = Self { plane, own, mount, webhook, registration, controller, kubeconfig };
        let privileged = ("pod-security.kubernetes.io/enforce", "privileged");
        wait_until_mullion_is_called(&plane.namespace_with_labels("called", &[privileged]).await?).await?;
        wait_for("labels, taints and RuntimeClasses", DEADLINE, async || {
            let ran = trial.verify(&["--check", "node-labels,node-taints,runtime-classes,policies-loaded"]).await?;
            ensure!(ran.code == Some(0) && ran.with("ok").len() == 4, "{}", ran.report);
            anyhow::Ok(())
        })
        .await?;
        Ok(trial)
    }

    fn arguments<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let kubeconfig = self.kubeconfig.to_str().expect("UTF-8");
        [&["verify", "--kubeconfig", kubeconfig, "--namespace", &self.own.name], more].concat()
    }

    /// `mullion verify -o json`, after which nothing is left.
    async fn verify(&self, more: &[&str]) -> Result<Ran> {
        let done = output(&self.arguments(&[more, &["-o", "json"]].concat())).await?;
        let report: Value = serde_json::from_slice(&done.stdout).with_context(|| format!("{done:?}"))?;
        let mut checks = BTreeMap::new();
        for check in report["checks"].as_array().context("checks")? {
            let subject = check["subject"].as_str().map(|subject| format!(" {subject}")).unwrap_or_default();
            let name = format!("{}{subject}", check["name"].as_str().context("a name")?);
            ensure!(checks.insert(name, check.clone()).is_none(), "twice: {check}");
        }
        let left = self.left().await?;
        ensure!(left.is_empty(), "left: {left:?} {report}");
        Ok(Ran { checks, report, code: done.status.code() })
    }

    /// Exactly these checks fail.
    async fn expect_failed(&self, expected: &[&str]) -> Result<Ran> {
        let ran = self.verify(&[]).await?;
        ensure!(ran.with("failed") == expected, "expected {expected:?}, not {:?}: {}", ran.with("failed"), ran.report);
        ensure!(ran.code == Some(i32::from(!expected.is_empty())), "exit code {:?}: {}", ran.code, ran.report);
        Ok(ran)
    }

    /// The namespaces of runs.
    async fn left(&self) -> Result<Vec<String>> {
        let all: Api<Namespace> = Api::all(self.plane.client());
        let found = all.list(&ListParams::default().labels(LABEL)).await?;
        Ok(found.items.into_iter().filter_map(|namespace| namespace.metadata.name).collect())
    }

    /// Starts a run, and waits until its namespaces exist.
    async fn begin(&self) -> Result<tokio::process::Child> {
        let mut program = Command::new(env!("CARGO_BIN_EXE_mullion"));
        program.args(self.arguments(&[])).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let child = program.spawn()?;
        wait_for("the namespaces of a run", DEADLINE, async || {
            let left = self.left().await?;
            ensure!(left.len() == 2, "{left:?}");
            anyhow::Ok(())
        })
        .await?;
        Ok(child)
    }
}

async fn output(arguments: &[&str]) -> Result<Output> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_mullion"));
    program.args(arguments).stdin(Stdio::null()).kill_on_drop(true).output().await.context("run mullion")
}

/// A node of each operating system and build.
fn mixed() -> [NodeSpec; 4] {
    [
        NodeSpec::linux("linux"),
        NodeSpec::windows("win2019", "10.0.17763.6893"),
        NodeSpec::windows("win2022", "10.0.20348.2655"),
        NodeSpec::windows("win2025", "10.0.26100.2894"),
    ]
}

/// A cluster in which everything is good, in audit mode, with an excluded namespace, and without rights; runs that are
/// interrupted or killed.
pub async fn a_healthy_cluster_passes_and_nothing_is_left(plane: &ControlPlane) -> Result<()> {
    let before = Trial::before(plane).await?;
    ensure!(before.is_empty(), "{before:?}");
    let mut trial = Trial::start(plane, &mixed()).await?;
    let ran = trial.expect_failed(&[]).await?;
    ensure!(ran.with("skipped").is_empty() && ran.with("notTried") == ["host-process-pod"], "{}", ran.report);
    for name in [
        "linux-pod",
        "windows-pod ltsc2019",
        "windows-pod ltsc2022",
        "windows-pod ltsc2025",
        "job-pod",
        "stateful-set-pod",
    ] {
        let seen = ran.checks.get(name).map(|check| check["seen"].to_string()).unwrap_or_default();
        ensure!(
            seen.contains("placed on node ") && seen.ends_with(", not started: simulated node\""),
            "{name}: {seen}"
        );
    }
    ensure!(ran.report["fleet"].as_array().is_some_and(|groups| groups.len() == 4), "{}", ran.report);
    ensure!(
        ran.report["versions"]["kubernetes"].as_str().is_some_and(|version| version.starts_with("v1.")),
        "{}",
        ran.report
    );
    let ran = trial.verify(&["--host-process", "--check", "host-process-pod"]).await?;
    ensure!(ran.with("failed").is_empty() && ran.with("ok").contains(&"host-process-pod"), "{}", ran.report);

    // A dry run creates nothing, and says what it left out.
    let ran = trial.verify(&["--dry-run"]).await?;
    ensure!(ran.code == Some(0) && ran.with("ok").contains(&"newest-image"), "{}", ran.report);
    // The namespace of the context has no label for this pod.
    ensure!(ran.checks["denials"]["seen"].to_string().contains("Pod Security is in the way"), "{}", ran.report);
    ensure!(ran.with("notTried").len() >= 7 && !ran.checks.contains_key("cleanup"), "{}", ran.report);
    let text = output(&trial.arguments(&["--dry-run"])).await?;
    let text = String::from_utf8(text.stdout)?;
    ensure!(text.lines().any(|line| line.starts_with("ok         webhook-called: ")), "{text}");
    ensure!(text.lines().last().is_some_and(|line| line.contains(" ok, 0 failed, ")), "{text}");

    // No node has room: nothing is created for which an autoscaler could add a node.
    let full = json!({"status": {"allocatable": {"pods": "0"}, "capacity": {"pods": "0"}}}).to_string();
    plane.kubectl(&["patch", "node", "win2022", "--subresource=status", "--type=merge", "-p", &full]).await?;
    let ran = trial.verify(&["--check", "windows-pod"]).await?;
    let seen = ran.checks.get("windows-pod ltsc2022").map(|check| check["seen"].to_string()).unwrap_or_default();
    ensure!(
        ran.code == Some(0) && seen.contains("placed on node win2025") || seen.contains("no room"),
        "{}",
        ran.report
    );

    // Without rights, checks are skipped by name.
    let nobody = plane.kubeconfig_for("nobody-at-all", &[])?;
    let done =
        output(&["verify", "--kubeconfig", nobody.to_str().context("UTF-8")?, "-n", &trial.own.name, "-o", "json"])
            .await?;
    let report: Value = serde_json::from_slice(&done.stdout).with_context(|| format!("{done:?}"))?;
    let denials =
        report["checks"].as_array().and_then(|all| all.iter().find(|check| check["name"] == "denials")).cloned();
    let denials = denials.with_context(|| report.to_string())?;
    ensure!(denials["status"] == "skipped" && denials["seen"].to_string().contains("create namespaces"), "{denials}");

    // A run that is interrupted cleans up; one that is killed leaves what --cleanup removes, and only that.
    let child = trial.begin().await?;
    let pid = child.id().context("a process id")?.to_string();
    ensure!(Command::new("kill").args(["-INT", &pid]).status().await?.success(), "kill");
    let done = child.wait_with_output().await?;
    let text = String::from_utf8(done.stdout)?;
    ensure!(done.status.code() == Some(2) && text.contains("not complete: interrupted"), "{text}");
    ensure!(trial.left().await?.is_empty(), "{text}");
    let mut child = trial.begin().await?;
    child.kill().await?;
    ensure!(trial.left().await?.len() == 2, "a killed run cannot clean up");
    for (name, label) in [("mullion-verify-mine", "another"), ("other", "other")] {
        plane.kubectl(&["create", "namespace", name]).await?;
        plane.kubectl(&["label", "namespace", name, &format!("{LABEL}={label}")]).await?;
    }
    let cleaned = output(&["verify", "--cleanup", "--kubeconfig", trial.kubeconfig.to_str().context("UTF-8")?]).await?;
    let text = String::from_utf8(cleaned.stdout)?;
    ensure!(cleaned.status.success() && text.matches("removed: namespace mullion-verify-").count() == 2, "{text}");
    let mut left = trial.left().await?;
    left.sort();
    ensure!(left == ["mullion-verify-mine", "other"], "{left:?}");
    plane.kubectl(&["delete", "namespace", "mullion-verify-mine", "other", "--wait=true"]).await?;

    // Audit mode, when webhook and controller use it.
    trial.mount.publish(&[("mine.yaml", AUDIT)])?;
    state(&trial.own, "audit mode", |data| data["policies"].to_string().contains("Audit")).await?;
    let ran = trial.expect_failed(&[]).await?;
    for name in ["denials", "windows-pod ltsc2022", "exempt-namespace", "changes-stored"] {
        let seen = ran.checks.get(name).map(|check| check["seen"].to_string()).unwrap_or_default();
        ensure!(seen.starts_with("\"audit: the policies in force set mode: Audit"), "{name}: {}", ran.report);
    }
    trial.end().await
}

impl Trial<'_> {
    /// The failed checks of `--pre` before anything is installed.
    async fn before(plane: &ControlPlane) -> Result<Vec<Value>> {
        let kubeconfig = plane.kubeconfig();
        let done =
            output(&["verify", "--pre", "--kubeconfig", kubeconfig.to_str().context("UTF-8")?, "-o", "json"]).await?;
        let report: Value = serde_json::from_slice(&done.stdout).with_context(|| format!("{done:?}"))?;
        let checks = report["checks"].as_array().context("checks")?;
        ensure!(checks.len() == 4, "{report}");
        Ok(checks.iter().filter(|check| check["status"] != "ok").cloned().collect())
    }

    async fn end(self) -> Result<()> {
        self.registration.remove(&self.plane.client()).await?;
        self.controller.process.kill()?;
        self.webhook.process.kill()
    }
}

/// What breaks, and exactly the checks that fail then.
pub async fn each_broken_thing_fails_its_check(plane: &ControlPlane) -> Result<()> {
    let mut trial = Trial::start(plane, &mixed()).await?;
    let client = plane.client();

    // The policies do not load.
    trial.mount.publish(&[("mine.yaml", POLICY.replace("priority", "priorty"))])?;
    let has_problems = |data: &Value| data["controller-report"].to_string().contains("priorty");
    state(&trial.own, "the problem", has_problems).await?;
    let ran = trial.expect_failed(&["policies-loaded"]).await?;
    let failed = &ran.checks["policies-loaded"];
    ensure!(
        failed["items"].to_string().contains("priorty") && failed["page"] == "docs/how-to/verify.md#policies-loaded",
        "{failed}"
    );
    trial.mount.publish(&[("mine.yaml", POLICY)])?;
    state(&trial.own, "good policies", |data| !has_problems(data)).await?;

    // Pod Security is in the way: nobody may set the label for privileged pods. No check fails.
    reserve_pod_security_label(&trial).await?;
    let ran = trial.verify(&["--host-process"]).await?;
    ensure!(ran.with("failed").is_empty() && ran.code == Some(0), "{}", ran.report);
    let skipped = ran.checks["host-process-pod"].to_string();
    ensure!(
        skipped.contains("Pod Security is in the way") && skipped.contains("the label for privileged pods"),
        "{skipped}"
    );
    let policies = "validatingadmissionpolicy,validatingadmissionpolicybinding";
    plane.kubectl(&["delete", policies, "reserved"]).await?;

    // Nobody repairs what breaks from here on.
    trial.controller.process.kill()?;
    let node = |name: &'static str, change: &'static str| {
        let plane = trial.plane;
        async move { plane.kubectl(&["taint", "node", name, change]).await }
    };
    node("win2022", "os=windows:NoSchedule-").await?;
    let ran = trial.expect_failed(&["node-taints"]).await?;
    ensure!(ran.checks["node-taints"]["items"] == json!(["node win2022"]), "{}", ran.report);
    node("win2022", "os=windows:NoSchedule").await?;

    let label = "node.kubernetes.io/windows-build";
    let relabel = async |build: &str| {
        let label = format!("{label}={build}");
        trial.plane.kubectl(&["label", "node", "win2019", "--overwrite", &label]).await
    };
    relabel("10.0.20348").await?;
    trial.expect_failed(&["node-labels", "windows-pod ltsc2019", "windows-pod ltsc2022"]).await?;
    relabel("10.0.17763").await?;

    plane.kubectl(&["delete", "runtimeclass", "mullion-windows-ltsc2022"]).await?;
    let ran = trial.expect_failed(&["runtime-classes"]).await?;
    ensure!(ran.checks["runtime-classes"]["items"].to_string().contains("mullion-windows-ltsc2022"), "{}", ran.report);

    // A webhook that runs later drops selectors: what Mullion sets, and what authors wrote.
    let later = drop_selectors(&trial).await?;
    let failed = ["changes-stored", "explicit-linux", "runtime-classes"];
    let ran = trial.expect_failed(&failed).await?;
    ensure!(ran.checks["windows-pod ltsc2019"]["seen"] == "changes-stored failed", "{}", ran.report);
    plane.kubectl(&["delete", "mutatingwebhookconfiguration", "zz-later"]).await?;
    drop(later);

    // The certificate of the webhook has expired: pods are rejected.
    let failed = ["runtime-classes", "webhook-called"];
    let webhook = register_expired(&trial).await?;
    let ran = trial.expect_failed(&failed).await?;
    ensure!(ran.checks["webhook-called"]["seen"].to_string().contains("certificate has expired"), "{}", ran.report);
    webhook.process.kill()?;

    // Nothing is registered.
    trial.registration.remove(&client).await?;
    let ran = trial.expect_failed(&failed).await?;
    ensure!(ran.checks["denials"]["seen"] == "webhook-called failed", "{}", ran.report);
    trial.webhook.process.kill()
}

/// Rejects namespaces with the label for privileged pods.
async fn reserve_pod_security_label(trial: &Trial<'_>) -> Result<()> {
    let expression = "!('pod-security.kubernetes.io/enforce' in object.metadata.?labels.orValue({}))";
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "reserved"}, "spec": {"failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["namespaces"]}]},
            "validations": [{"expression": expression, "message": "ask the administrators for this label"}]}});
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "reserved"}, "spec": {"policyName": "reserved", "validationActions": ["Deny"]}});
    for object in [policy, binding] {
        trial.plane.kubectl_with_input(&["apply", "-f", "-"], &object.to_string()).await?;
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "probe",
        "labels": {"pod-security.kubernetes.io/enforce": "privileged"}}})
    .to_string();
    wait_for("the policy to reject a namespace", DEADLINE, async || {
        let created = trial.plane.kubectl_with_input(&["create", "--dry-run=server", "-f", "-"], &namespace);
        ensure!(created.await.is_err(), "not yet");
        anyhow::Ok(())
    })
    .await
}

/// A webhook after Mullion's that empties the node selector of each pod.
async fn drop_selectors(trial: &Trial<'_>) -> Result<ThirdPartyServer> {
    let server = ThirdPartyServer::start().await?;
    let client = server.serve("/later", None, vec![json!({"op": "add", "path": "/spec/nodeSelector", "value": {}})]);
    let webhook = json!({"name": "later.example.com", "clientConfig": client, "sideEffects": "None", "timeoutSeconds": 30,
        "admissionReviewVersions": ["v1"], "failurePolicy": "Fail", "reinvocationPolicy": "IfNeeded",
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]});
    let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "zz-later"}, "webhooks": [webhook]});
    trial.plane.kubectl_with_input(&["apply", "-f", "-"], &configuration.to_string()).await?;
    let pod = crate::memory::windows_pod("probe");
    let namespace = trial.plane.namespace("later").await?;
    wait_for("the later webhook to be called", DEADLINE, async || {
        let before = server.calls("/later");
        crate::shared::ask(&namespace, &pod).await?.ok();
        ensure!(server.calls("/later") > before, "not yet");
        anyhow::Ok(())
    })
    .await?;
    Ok(server)
}

/// Registers a webhook with an expired certificate, and waits until the API server calls it.
async fn register_expired(trial: &Trial<'_>) -> Result<Running> {
    let kubeconfig = webhooks(trial.plane, &trial.own, true).await?;
    let (arguments, _) = as_webhook(trial.plane, &kubeconfig, &trial.own, trial.mount.path())?;
    let value = |flag: &str| arguments.iter().skip_while(|one| *one != flag).nth(1).context("a flag");
    let certificate = ServingCert::expired()?;
    certificate.copy_to(Path::new(value("--tls-dir")?))?;
    let url = format!("https://{}", value("--bind")?);
    let webhook = start(&arguments).await?;
    WebhookRegistration::new(&url, certificate.ca_pem()).register(&trial.plane.client()).await?;
    let namespace = trial.plane.namespace("expired").await?;
    wait_for("the API server to see the certificate", DEADLINE, async || {
        let answer = crate::shared::ask(&namespace, &crate::memory::windows_pod("probe")).await?;
        ensure!(answer.is_err_and(|status| status.message.contains("certificate has expired")), "not yet");
        anyhow::Ok(())
    })
    .await?;
    Ok(webhook)
}

/// 300 nodes: as many requests and pods as for four.
pub async fn a_large_cluster_costs_few_requests(plane: &ControlPlane) -> Result<()> {
    let builds = ["10.0.17763.6893", "10.0.20348.2655", "10.0.26100.2894"];
    let windows = (0..150).map(|at| {
        let short = format!("w{at}");
        let name = format!("{short}{}", "x".repeat(253 - short.len()));
        NodeSpec::windows(&name, builds[at % 3]).label("kubernetes.io/hostname", &short)
    });
    let nodes: Vec<NodeSpec> = (0..150).map(|at| NodeSpec::linux(&format!("l{at}"))).chain(windows).collect();
    let trial = Trial::start(plane, &nodes).await?;
    let start = requests()?.len();
    let began = Instant::now();
    let ran = trial.expect_failed(&[]).await?;
    eprintln!("verify took {:.1} s on 300 nodes", began.elapsed().as_secs_f64());
    ensure!(ran.with("skipped").is_empty(), "{}", ran.report);
    // How often a run looks for a pod, a namespace or its service account depends on the machine.
    let requests = requests()?.split_off(start);
    let waits = |request: &&Value| {
        let name = request["objectRef"]["name"].as_str().unwrap_or_default();
        let looks = request["verb"] == "get" && (name.contains("-pod") || name.starts_with("mullion-verify-"));
        looks || ["ready", "exempt-namespace"].contains(&name)
    };
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for request in requests.iter().filter(|request| !waits(request)) {
        *counts.entry(format!("{} {}", request["verb"], request["objectRef"]["resource"])).or_default() += 1;
    }
    ensure!(counts.values().sum::<usize>() < 80, "{counts:?}");
    let is_created = |request: &&Value| {
        request["verb"] == "create"
            && request["objectRef"]["resource"] == "pods"
            && !request["requestURI"].to_string().contains("dryRun")
    };
    let created = requests.iter().filter(is_created).count();
    ensure!(created == 4, "{created} pods: one for Linux and one for each build");
    let pods = list(&plane.client(), "/api/v1/pods").await?;
    ensure!(pods.is_empty(), "{pods:?}");
    trial.end().await
}

/// The requests of all runs so far.
fn requests() -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(log().path())?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}
