//! The permissions that the chart grants, and no others. Every Mullion process under test with a user of its own has
//! these; one run proves that they are enough, and that each is used. `tests/chart` compares them with the
//! documentation.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt as _};
use mullion_cluster::{
    Chart, ControlPlane, Fixture, MullionProcess, NodeSpec, WebhookRegistration, free_port, wait_for,
};
use serde_json::{Value, json};

use crate::audit::{AuditLog, ensure_conditional};
use crate::missed::with_findings;
use crate::shared::{DEADLINE, create, pod, wait_until_mullion_is_called};
use crate::withdraw::withdraw;

/// A user or group with permissions.
#[derive(Clone, Copy)]
pub enum Subject<'a> {
    User(&'a str),
    Group(&'a str),
}

impl Subject<'_> {
    fn name(&self) -> &str {
        match self {
            Self::User(name) | Self::Group(name) => name,
        }
    }
}

/// A rule, and the namespace in which it applies; `None`: everywhere.
type Given = (Option<String>, Value);

/// Another tool provides certificates: neither `--webhook-service` nor `--tls-secret`.
const WITHOUT_CERTIFICATES: &str = "certificates.mode=CertManager";

/// The permissions to which the chart binds a program's account, for Mullion in `namespace`.
fn chart(program: &str, namespace: &str, probe_namespace: &str, values: &[&str]) -> Result<Vec<Given>> {
    // Rendered for other namespaces, because the chart cannot be installed in `default`, where some trials run Mullion.
    let (home, probed) = ("rights-of-mullion", "rights-of-probe");
    let chart = Chart::default().namespace(home).value(&format!("controller.probeNamespace={probed}"));
    let rules = values.iter().fold(chart, |chart, value| chart.value(value)).rules_of(&format!("mullion-{program}"))?;
    let of_trial = |name: String| match name {
        name if name == home => namespace.to_owned(),
        name if name == probed => probe_namespace.to_owned(),
        other => other,
    };
    Ok(rules.into_iter().map(|(name, rule)| (name.map(of_trial), rule)).collect())
}

/// The permission that the documentation adds for a withdrawal by hand, without a namespace argument.
fn to_find_namespace() -> Given {
    let configurations = json!({"apiGroups": ["admissionregistration.k8s.io"], "resourceNames": ["mullion"],
        "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"], "verbs": ["get"]});
    (None, configurations)
}

/// The permissions of `mullion controller` in Mullion's `namespace`, without `--webhook-service`.
pub async fn of_controller(
    plane: &ControlPlane,
    namespace: &str,
    probe_namespace: &str,
    subject: Subject<'_>,
) -> Result<()> {
    let given = chart("controller", namespace, probe_namespace, &[WITHOUT_CERTIFICATES])?;
    give(plane, "controller", subject, &given).await
}

/// The permissions of the controller with `--webhook-service`.
pub async fn of_controller_with_certificates(
    plane: &ControlPlane,
    namespace: &str,
    probe_namespace: &str,
    subject: Subject<'_>,
) -> Result<()> {
    give(plane, "controller", subject, &chart("controller", namespace, probe_namespace, &[])?).await
}

/// The permissions of `mullion webhook` in Mullion's `namespace`, without `--tls-secret`.
pub async fn of_webhook(plane: &ControlPlane, namespace: &str, subject: Subject<'_>) -> Result<()> {
    give(plane, "webhook", subject, &chart("webhook", namespace, "", &[WITHOUT_CERTIFICATES])?).await
}

/// The permissions of the webhook with `--tls-secret`, for the Secret that the controller manages.
pub async fn of_webhook_with_tls_secret(plane: &ControlPlane, namespace: &str, subject: Subject<'_>) -> Result<()> {
    give(plane, "webhook", subject, &chart("webhook", namespace, "", &[])?).await
}

/// The permissions of a webhook that may not read `mullion-state`.
pub async fn of_blind_webhook(plane: &ControlPlane, subject: Subject<'_>) -> Result<()> {
    let mut given = chart("webhook", "", "", &[WITHOUT_CERTIFICATES])?;
    given.retain(|(namespace, _)| namespace.is_none());
    give(plane, "webhook", subject, &given).await
}

/// The permissions of `mullion withdraw` for Mullion in this namespace.
pub async fn of_withdraw(plane: &ControlPlane, namespace: &str, subject: Subject<'_>) -> Result<()> {
    let mut given = chart("withdraw", namespace, "", &[])?;
    given.push(to_find_namespace());
    give(plane, "withdraw", subject, &given).await
}

async fn give(plane: &ControlPlane, program: &str, subject: Subject<'_>, given: &[Given]) -> Result<()> {
    let api = "rbac.authorization.k8s.io";
    let (kind, version) = (if let Subject::User(_) = subject { "User" } else { "Group" }, format!("{api}/v1"));
    let mut objects = Vec::new();
    let places: BTreeSet<_> = given.iter().map(|(namespace, _)| namespace).collect();
    for (at, namespace) in places.into_iter().enumerate() {
        let rules: Vec<_> = given.iter().filter(|(place, _)| place == namespace).map(|(_, rule)| rule).collect();
        let name = format!("{program}-{at}-{}", subject.name());
        let prefix = if namespace.is_some() { "" } else { "Cluster" };
        let metadata = json!({"name": name, "namespace": namespace});
        objects.push(json!({"apiVersion": version, "kind": format!("{prefix}Role"), "metadata": metadata,
            "rules": rules}));
        objects.push(json!({"apiVersion": version, "kind": format!("{prefix}RoleBinding"), "metadata": metadata,
            "roleRef": {"apiGroup": api, "kind": format!("{prefix}Role"), "name": name},
            "subjects": [{"apiGroup": api, "kind": kind, "name": subject.name()}]}));
    }
    apply(plane, objects).await?;
    // The authorizer receives them through watches.
    for right in rights_of(program, given) {
        wait_for(&format!("{} to have {right:?}", subject.name()), DEADLINE, || may(plane, subject, &right)).await?;
    }
    Ok(())
}

async fn apply(plane: &ControlPlane, objects: Vec<Value>) -> Result<()> {
    let how = PatchParams::apply("rights").force();
    for object in objects {
        let object: DynamicObject = serde_json::from_value(object)?;
        let types = object.types.as_ref().context("an object has a kind")?;
        let kind = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(plane.client(), &namespace, &kind),
            None => Api::all_with(plane.client(), &kind),
        };
        api.patch(&object.name_any(), &how, &Patch::Apply(&object)).await?;
    }
    Ok(())
}

async fn may(plane: &ControlPlane, subject: Subject<'_>, right: &Right) -> Result<()> {
    let (user, groups) = match subject {
        Subject::User(user) => (user, Vec::new()),
        Subject::Group(group) => ("anybody", vec![group]),
    };
    let review = json!({"metadata": {}, "spec": {"user": user, "groups": groups, "resourceAttributes": {
        "group": right.group, "resource": right.resource, "verb": right.verb, "namespace": right.namespace,
        "name": right.name}}});
    let api: Api<SubjectAccessReview> = Api::all(plane.client());
    let answer = api.create(&PostParams::default(), &serde_json::from_value(review)?).await?;
    ensure!(answer.status.as_ref().is_some_and(|status| status.allowed), "{:?}", answer.status);
    Ok(())
}

/// One verb on one resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    program: String,
    verb: String,
    group: String,
    resource: String,
    /// Empty: all namespaces.
    namespace: String,
    /// Empty: all names.
    name: String,
}

fn words(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn rights_of(program: &str, given: &[Given]) -> BTreeSet<Right> {
    let mut all = BTreeSet::new();
    for (namespace, rule) in given {
        let mut names = words(&rule["resourceNames"]);
        if names.is_empty() {
            names.push(String::new());
        }
        let (resources, verbs) = (words(&rule["resources"]), words(&rule["verbs"]));
        for (resource, verb) in resources.iter().flat_map(|one| verbs.iter().map(move |verb| (one, verb))) {
            all.extend(names.iter().map(|name| Right {
                program: program.to_owned(),
                verb: verb.clone(),
                group: words(&rule["apiGroups"]).concat(),
                resource: resource.clone(),
                namespace: namespace.clone().unwrap_or_default(),
                name: name.clone(),
            }));
        }
    }
    all
}

// === they are enough, and each is used ===

const GROUP: &str = "mullion-under-test";

/// The permissions that only other trials need, in which something is old or fails.
const RARE: [(&str, &str, &str); 5] = [
    // If lists are not streamed.
    ("controller", "list", ""),
    ("webhook", "list", ""),
    // The same Event again: `missed`, with the same permissions.
    ("controller", "patch", "events"),
    // A pod that arrives before the watch event of its namespace: `namespaces`.
    ("webhook", "get", "namespaces"),
    // The last good policies, with bad files: `memory`.
    ("webhook", "get", "configmaps"),
];

impl Right {
    fn is_rare(&self) -> bool {
        let pods = self.resource == "pods";
        RARE.iter().any(|(program, verb, resource)| {
            self.program == *program
                && self.verb == *verb
                && (self.resource == *resource || resource.is_empty() && !pods)
        })
    }

    /// Whether that request, a line of the audit log, needs it.
    fn covers(&self, request: &Value) -> bool {
        let object = &request["objectRef"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        text(&request["user"]["username"]) == self.program
            && text(&request["verb"]) == self.verb
            && text(&object["apiGroup"]) == self.group
            && text(&object["resource"]) == self.resource
            && (self.namespace.is_empty() || text(&object["namespace"]) == self.namespace)
            && (self.name.is_empty() || text(&object["name"]) == self.name)
    }
}

/// A control plane with an audit log of the programs' requests.
pub struct Audited {
    plane: ControlPlane,
    log: AuditLog,
}

impl Fixture for Audited {
    fn keep_logs(&self) -> Vec<PathBuf> {
        vec![self.plane.keep_logs()]
    }
}

impl Audited {
    pub async fn start() -> Result<Self> {
        let log = AuditLog::of(&json!([
            {"level": "Request", "userGroups": [GROUP], "verbs": ["update", "patch", "delete", "deletecollection"]},
            {"level": "Metadata", "userGroups": [GROUP]},
            {"level": "None"},
        ]))?;
        let plane = log.written_by(ControlPlane::builder()).start().await?;
        Ok(Self { plane, log })
    }

    /// The requests of the programs so far.
    fn requests(&self) -> Result<Vec<Value>> {
        let log = std::fs::read_to_string(self.log.path())?;
        // The last line may be half written.
        let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| serde_json::from_str(line).context("a line of the audit log")).collect()
    }

    async fn start_program(&self, program: &str, flags: &[&str]) -> Result<MullionProcess> {
        let (kubeconfig, admin) = (self.plane.kubeconfig_for(program, &[GROUP])?, free_port()?);
        MullionProcess::builder(env!("CARGO_BIN_EXE_mullion"))
            .args([program, "--admin-bind", &format!("127.0.0.1:{admin}")])
            .args(["--kubeconfig", &kubeconfig.to_string_lossy()])
            .args(flags)
            .start()
            .await
    }
}

/// Controller and webhook with all features, then a withdrawal: the API server allows all their requests, each
/// permission is needed, and every change is conditional on the version that was read.
pub async fn those_of_the_chart_are_enough_and_used(audited: &Audited) -> Result<()> {
    let plane = &audited.plane;
    let (home, team) = (plane.namespace("mullion").await?, plane.namespace("team").await?);
    of_controller_with_certificates(plane, &home.name, &team.name, Subject::User("controller")).await?;
    of_webhook_with_tls_secret(plane, &home.name, Subject::User("webhook")).await?;

    // Pods from before Mullion: one that waits for a toleration, and owners of pods with findings.
    let node = NodeSpec::windows("win2022", "10.0.20348.2655").taint("os=windows:NoSchedule");
    plane.create_nodes(&[NodeSpec::linux("linux"), node]).await?;
    let image = "mcr.microsoft.com/windows/servercore:ltsc2022";
    let waits = json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": [{"name": "c", "image": image}]});
    create(&team, &pod("waits", waits)).await?;
    for kind in ["Deployment", "Job"] {
        create(&team, &with_findings(kind, &kind.to_lowercase())).await?;
    }

    let (port, secret) = (free_port()?, format!("{}/mullion-tls", home.name));
    let bind = format!("127.0.0.1:{port}");
    let webhook = ["--bind", &*bind, "--tls-secret", &*secret, "--drain-delay", "0"];
    let webhook = audited.start_program("webhook", &webhook).await?;
    let flags = ["--lease-namespace", &*home.name, "--webhook-service", "mullion-webhook", "--certificate-name"];
    let probes = ["127.0.0.1", "--probe-namespace", &*team.name, "--probe-interval", "1"];
    let controller = audited.start_program("controller", &[flags, probes].concat()).await?;
    // Without a bundle: the controller fills it in.
    let registration = WebhookRegistration::new(&format!("https://{bind}"), "").only_namespace(&team);
    registration.register(&plane.client()).await?;
    wait_until_mullion_is_called(&team).await?;
    // Existing objects change: a class gets another toleration, and Secrets break, the last one so that it cannot be patched.
    let classes: Api<RuntimeClass> = Api::all(plane.client());
    wait_for("a RuntimeClass", DEADLINE, async || classes.get("mullion-windows-ltsc2022").await).await?;
    plane.create_node(&NodeSpec::windows("tainted", "10.0.20348.2655").taint("sku=windows:NoSchedule")).await?;
    let secrets: Api<Secret> = home.api();
    for immutable in [false, true] {
        let keys = [("mullion-tls", "tls.crt"), ("mullion-ca", "ca.key")];
        for (name, key) in keys {
            let broken = json!({"data": {key: ""}, "immutable": immutable});
            secrets.patch(name, &PatchParams::default(), &Patch::Merge(broken)).await?;
        }
        wait_for("whole Secrets", DEADLINE, async || {
            for (name, key) in keys {
                let data = secrets.get(name).await?.data.unwrap_or_default();
                ensure!(data.get(key).is_some_and(|value| !value.0.is_empty()), "{name} has no {key}");
            }
            anyhow::Ok(())
        })
        .await?;
    }

    let mut given = rights_of("controller", &chart("controller", &home.name, &team.name, &[])?);
    given.extend(rights_of("webhook", &chart("webhook", &home.name, "", &[])?));
    given.retain(|right| !right.is_rare());
    wait_for("every right to be used", DEADLINE, async || {
        let requests = audited.requests()?;
        let unused = given.iter().filter(|right| !requests.iter().any(|request| right.covers(request)));
        let unused: Vec<_> = unused.collect();
        ensure!(unused.is_empty(), "not used: {unused:?}");
        Ok(())
    })
    .await?;

    for (program, process) in [("controller", controller), ("webhook", webhook)] {
        let (ended, log) = process.stop().await?;
        let forbidden = log.to_lowercase().contains("forbidden") || log.contains("may not be");
        ensure!(ended.success() && !forbidden, "{program}: {ended} {log}");
    }
    // "forbid" is the word in RBAC's messages; quotas and webhooks reject with other messages.
    let of_rbac = |request: &Value| request["annotations"]["authorization.k8s.io/decision"] == "forbid";
    let forbidden: Vec<_> = audited.requests()?.into_iter().filter(of_rbac).collect();
    ensure!(forbidden.is_empty(), "{forbidden:?}");

    of_withdraw(plane, &home.name, Subject::User("withdraw")).await?;
    let kubeconfig = plane.kubeconfig_for("withdraw", &[GROUP])?.to_string_lossy().into_owned();
    let ran = withdraw(&kubeconfig, &["--lease-namespace", &home.name]).await?;
    let done = ran.code == Some(0) && ran.summary()["cleaned"] == 2 && ran.summary()["classesDeleted"] == 1;
    ensure!(done, "{ran:?}");
    audited.requests()?.iter().try_for_each(ensure_conditional)
}
