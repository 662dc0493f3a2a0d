//! runAsUserName, gMSA and HostProcess: the catalogue and the API server (without Mullion) reject the same fields.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use mullion_cluster::{Release, TestNamespace};
use mullion_engine::admission::review;
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::{Operation, ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_engine::rules::{Finding, RejectedBy};
use mullion_policy::PolicySet;
use serde_json::{Value, json};

use crate::shared::*;

const IMAGE: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";

type Fields = BTreeSet<String>;

/// Malformed and valid names.
const NAMES: &[&str] = &[
    "",
    " ",
    ".",
    "..",
    ". .",
    "ContainerUser",
    "ContainerAdministrator",
    "containeradministrator",
    r"NT AUTHORITY\SYSTEM",
    r"NT AUTHORITY\Local service",
    r"NT AUTHORITY\NetworkService",
    r"nt authority\system",
    r"BUILTIN\Administrators",
    r"CONTOSO\web$",
    r"contoso.com\web",
    r"Contoso.Example.COM\web",
    r"1.2.3.4\u",
    r"\",
    r"\\",
    r"\u",
    r"\\u",
    r"d\",
    r"d\\u",
    r"d\e\u",
    r".\u",
    r"..\u",
    r".d\u",
    r"d.\u",
    r"-d\u",
    r"d-\u",
    r" \u",
    r" d\u",
    r"d \u",
    r"d_e\u",
    r"d,e\u",
    r"d;e\u",
    r"d=e\u",
    r"d+e\u",
    r"d[e]\u",
    r"d@e\u",
    r"d'e\u",
    r"d!e\u",
    r"d(e)\u",
    r"d/e\u",
    r"d:e\u",
    r"d*e\u",
    r"d?e\u",
    r#"d"e\u"#,
    r"d<e\u",
    r"d>e\u",
    r"d|e\u",
    r"ä\u",
    r"域\u",
    r"a-dns-name-that-is-too-long-for-netbios\u",
    r"a-dns-name.of-two\u",
    r"a-dns-name..of-two\u",
    r"a-dns-name.-of-two\u",
    r"a_name_of_no_dns\u",
    "web@contoso.com",
    "CONTOSO/web",
    "a b",
    " a",
    "a ",
    "a.",
    ".a",
    "a!#$%&'()-^_`{}~b",
    "ä",
    "用户",
    "\u{7f}",
    "\u{80}",
    "\u{85}",
    "a\u{a0}b",
    "\u{200b}",
    "\u{2028}",
    "a\nb",
    "ContainerUser\n",
    "\t",
    "a\u{0}b",
    "a\u{1b}b",
    "d\n\\u\\v",
    "d\\\u{7f}u",
    r"CONTOSO\...",
    r"CONTOSO\ ",
    r"CONTOSO\a:b",
    r".\a:b",
    r"...\...",
    r"d?\?",
];

/// The names, every character that is not allowed somewhere, and both sides of every limit.
fn user_names() -> Vec<String> {
    let labels = |count: usize| vec!["a".repeat(50); count].join(".");
    let mut names: Vec<String> = NAMES.iter().map(ToString::to_string).collect();
    names.extend(r#""/:;|=,+*?<>@[]"#.chars().map(|c| format!("a{c}b")));
    names.extend(r#"/:*?"<>|.;,=+@[]{}~"#.chars().map(|c| format!(r"{c}\u")));
    for long in [1, 103, 104, 105, 200] {
        names.extend(["u".repeat(long), format!(r"CONTOSO\{}", "u".repeat(long)), ".".repeat(long)]);
        names.extend(["é".repeat(long), "é".repeat(long / 2)]);
    }
    for long in [14, 15, 16, 62, 63, 64, 254, 255, 256, 300] {
        names.extend(["d", "é", "_", "."].map(|c| format!(r"{}\u", c.repeat(long))));
        names.push(format!(r"{}.de\u", "d".repeat(long)));
    }
    for rest in 0..6 {
        // 254 + rest bytes in labels of 50.
        names.push(format!(r"{}.{}\u", labels(4), "b".repeat(50 + rest)));
        names.push(format!(r"{}.c.{}\u", labels(4), "b".repeat(48 + rest)));
    }
    names
}

/// Members of windowsOptions that are about gMSA.
fn credential_specs() -> Vec<Value> {
    let mut specs: Vec<Value> = [
        "",
        "a",
        "A",
        "1",
        "-",
        ".",
        "a-",
        "-a",
        "a.",
        ".a",
        "a..b",
        "a.-b",
        "a-.b",
        "a.b",
        "a_b",
        "a b",
        "ä",
        "a/b",
        "a\n",
        "webapp1.contoso",
        "WebApp1",
        "a-b.c-d.e1",
    ]
    .map(|name| json!({"gmsaCredentialSpecName": name}))
    .into();
    specs.extend([63, 64, 252, 253, 254, 300].map(|long| json!({"gmsaCredentialSpecName": "a".repeat(long)})));
    for contents in [String::new(), " ".to_owned(), "{}".to_owned(), "x".repeat(65_536), "x".repeat(65_537)] {
        specs.push(json!({"gmsaCredentialSpec": contents}));
        specs.push(json!({"gmsaCredentialSpec": contents, "gmsaCredentialSpecName": "a"}));
        specs.push(json!({"gmsaCredentialSpec": contents, "gmsaCredentialSpecName": "A"}));
    }
    // Bytes, not characters.
    specs.push(json!({"gmsaCredentialSpec": "é".repeat(32_768)}));
    specs.push(json!({"gmsaCredentialSpec": "é".repeat(32_769)}));
    specs
}

/// A pod with these securityContexts: its own, that of an init container, and those of two containers.
fn with_contexts(of_pod: &Value, of_init: &Value, of_containers: [&Value; 2]) -> Value {
    let container = |name: &str, context: &Value| json!({"name": name, "image": IMAGE, "securityContext": context});
    json!({"automountServiceAccountToken": false, "securityContext": of_pod,
        "initContainers": [container("i", of_init)],
        "containers": [container("a", of_containers[0]), container("b", of_containers[1])]})
}

/// `windowsOptions` in one place, or in all of them.
fn everywhere(options: &Value) -> Vec<Value> {
    let (with, without) = (json!({"windowsOptions": options}), json!({}));
    vec![
        with_contexts(&with, &without, [&without, &without]),
        with_contexts(&without, &with, [&without, &without]),
        with_contexts(&without, &without, [&without, &with]),
        with_contexts(&with, &with, [&with, &with]),
    ]
}

/// Every combination of hostProcess at the pod and at three containers, with every hostNetwork.
fn host_process_specs() -> Vec<Value> {
    let values = [
        json!({}),
        json!({"windowsOptions": {"hostProcess": true}}),
        json!({"windowsOptions": {"hostProcess": false}}),
    ];
    let mut specs = Vec::new();
    for number in 0..81 {
        let [of_pod, of_init, a, b] = [1, 3, 9, 27].map(|step| &values[number / step % 3]);
        for network in [json!(null), json!(false), json!(true)] {
            let mut spec = with_contexts(of_pod, of_init, [a, b]);
            spec["hostNetwork"] = network;
            specs.push(spec);
        }
    }
    specs
}

/// An object of that kind with a pod template; for a Pod, the pod itself.
fn object(kind: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    if kind.ends_with("Job") {
        spec["restartPolicy"] = json!("Never");
    }
    let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": spec});
    let (version, body) = match kind {
        "Pod" => ("v1", json!({"spec": spec})),
        "PodTemplate" => ("v1", json!({"template": template})),
        "ReplicationController" => ("v1", json!({"spec": {"template": template}})),
        "Job" => ("batch/v1", json!({"spec": {"template": template}})),
        "CronJob" => {
            ("batch/v1", json!({"spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": template}}}}))
        }
        _ => ("apps/v1", json!({"spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template}})),
    };
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}});
    object.as_object_mut().expect("an object").extend(body.as_object().expect("an object").clone());
    object
}

/// The fields in the API server's causes for a request in dry run; empty if it accepts the request.
async fn server(namespace: &TestNamespace, method: &str, path: &str, body: &Value) -> Result<Fields> {
    let group = body["apiVersion"].as_str().context("an apiVersion")?;
    let group = if group == "v1" { "api/v1".to_owned() } else { format!("apis/{group}") };
    let uri = format!("/{group}/namespaces/{}/{path}?dryRun=All", namespace.name);
    let request = http::Request::builder().method(method).uri(&uri).header("content-type", "application/json");
    match namespace.client.request::<Value>(request.body(serde_json::to_vec(body)?)?).await {
        Ok(_) => Ok(Fields::new()),
        Err(kube::Error::Api(status)) if status.code == 422 => {
            let causes = status.details.map(|details| details.causes).unwrap_or_default();
            ensure!(!causes.is_empty(), "no causes: {}", status.message);
            Ok(causes.into_iter().map(|cause| cause.field).collect())
        }
        Err(error) => Err(error).with_context(|| format!("{method} {uri}: {body}")),
    }
}

/// The fields that the server rejects, by the catalogue.
fn catalogue(object: &Value, old: Option<&Value>) -> Vec<Finding> {
    let kind = WorkloadKind::from_name(object["kind"].as_str().unwrap_or_default()).expect("a kind with a pod");
    let request = ReviewRequest {
        operation: if old.is_some() { Operation::Update } else { Operation::Create },
        subresource: old.map(|_| "ephemeralcontainers"),
        old,
        ..ReviewRequest::creation(WorkloadObject { kind, namespace: "x", object })
    };
    let (snapshot, policies) = (ClusterSnapshot::default(), PolicySet::default());
    let mut findings = review(&request, &snapshot, &policies.resolve(&request, &snapshot)).findings;
    findings.retain(|finding| finding.rejected_by == RejectedBy::ApiServer);
    findings
}

/// How many objects were compared.
#[derive(Debug, Default)]
struct Compared {
    taken: usize,
    rejected: usize,
    codes: BTreeSet<&'static str>,
    disagreements: Vec<String>,
}

impl Compared {
    fn add(&mut self, server: &Fields, findings: &[Finding], what: &Value) {
        let ours: Fields = findings.iter().map(|finding| finding.path.clone()).collect();
        if *server != ours {
            let what: String = what.to_string().chars().take(1500).collect();
            self.disagreements.push(format!("server: {server:?}\n  catalogue: {ours:?}\n  {what}"));
        }
        let counter = if server.is_empty() { &mut self.taken } else { &mut self.rejected };
        *counter += 1;
        self.codes.extend(findings.iter().map(|finding| finding.code));
    }

    fn agree(&self) -> Result<()> {
        let Self { taken, rejected, disagreements, .. } = self;
        let shown = disagreements.iter().take(10).cloned().collect::<Vec<_>>().join("\n");
        ensure!(disagreements.is_empty(), "{} of {}:\n{shown}", disagreements.len(), taken + rejected);
        Ok(())
    }
}

pub async fn the_server_rejects_what_the_catalogue_reports(shared: &Shared) -> Result<()> {
    let namespace = shared.plane.namespace("identity").await?;
    let mut specs: Vec<Value> =
        user_names().iter().flat_map(|name| everywhere(&json!({"runAsUserName": name}))).collect();
    specs.extend(credential_specs().iter().flat_map(everywhere));
    specs.extend(host_process_specs());
    let mut compared = Compared::default();
    for spec in &specs {
        let pod = object("Pod", spec);
        compared.add(&server(&namespace, "POST", "pods", &pod).await?, &catalogue(&pod, None), &pod);
    }
    compared.agree()?;
    let Compared { taken, rejected, codes, .. } = compared;
    ensure!(taken > 300 && rejected > 500, "{taken} taken, {rejected} rejected");
    ensure!(codes == BTreeSet::from(["MUL401", "MUL402", "MUL403", "MUL404"]), "{codes:?}");
    Ok(())
}

pub async fn templates_have_the_servers_own_paths(shared: &Shared) -> Result<()> {
    let namespace = shared.plane.namespace("identity-kinds").await?;
    let mut compared = Compared::default();
    let wrong = json!({"windowsOptions": {"runAsUserName": "a@b", "gmsaCredentialSpecName": "A", "hostProcess": true}});
    let specs = [
        with_contexts(&json!({}), &json!({}), [&json!({}), &json!({})]),
        with_contexts(&wrong, &wrong, [&wrong, &wrong]),
        with_contexts(&json!({}), &wrong, [&json!({}), &wrong]),
        with_contexts(&json!({"windowsOptions": {"hostProcess": false}}), &json!({}), [&json!({}), &wrong]),
    ];
    let mut kinds =
        vec!["PodTemplate", "ReplicationController", "ReplicaSet", "Deployment", "DaemonSet", "Job", "CronJob"];
    // Up to 1.33 the API server does not validate the pod of a StatefulSet's template
    // (`ValidatePodTemplateSpecForStatefulSet` in pkg/apis/apps/validation/validation.go).
    if Release::under_test()? >= Release::v1(34) {
        kinds.push("StatefulSet");
    }
    for kind in &kinds {
        for spec in &specs {
            let object = object(kind, spec);
            let path = format!("{}s", kind.to_lowercase());
            compared.add(&server(&namespace, "POST", &path, &object).await?, &catalogue(&object, None), &object);
        }
    }
    compared.agree()?;
    ensure!(
        compared.taken == kinds.len() && compared.rejected == 3 * kinds.len() && compared.codes.len() == 4,
        "{compared:?}"
    );
    Ok(())
}

pub async fn ephemeral_containers_are_compared_with_their_pod(shared: &Shared) -> Result<()> {
    let namespace = shared.plane.namespace("identity-ephemeral").await?;
    let options = |options: Value| json!({"windowsOptions": options});
    let (none, on, off) = (json!({}), options(json!({"hostProcess": true})), options(json!({"hostProcess": false})));
    let mut compared = Compared::default();
    let pods = [
        (false, with_contexts(&none, &none, [&none, &none])),
        (false, with_contexts(&off, &none, [&none, &none])),
        (true, with_contexts(&on, &none, [&none, &none])),
        (true, with_contexts(&none, &on, [&on, &on])),
    ];
    for (number, (host, mut spec)) in pods.into_iter().enumerate() {
        spec["hostNetwork"] = json!(host);
        let mut old = object("Pod", &spec);
        old["metadata"]["name"] = json!(format!("p{number}"));
        let old = create(&namespace, &old).await?;
        for context in [
            none.clone(),
            on.clone(),
            off.clone(),
            options(json!({"runAsUserName": "a@b"})),
            options(json!({"runAsUserName": "ContainerUser"})),
            options(json!({"gmsaCredentialSpecName": "A", "gmsaCredentialSpec": ""})),
            options(json!({"hostProcess": true, "runAsUserName": r"\"})),
        ] {
            let mut new = old.clone();
            new["spec"]["ephemeralContainers"] = json!([{"name": "e", "image": IMAGE, "securityContext": context}]);
            new["metadata"].as_object_mut().context("metadata")?.remove("resourceVersion");
            let path = format!("pods/p{number}/ephemeralcontainers");
            compared.add(&server(&namespace, "PUT", &path, &new).await?, &catalogue(&new, Some(&old)), &new);
        }
    }
    compared.agree()?;
    ensure!(compared.taken > 8 && compared.rejected > 12 && compared.codes.len() == 4, "{compared:?}");
    Ok(())
}
