//! Manifests that the API server cannot decode: its decoder compared with the table of fields.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail, ensure};
use kube::Client;
use mullion_cluster::Release;
use mullion_engine::model::WorkloadKind;
use mullion_engine::model::settings::Settings;
use mullion_engine::rules::field_types::operators::OPERATOR_RULES;
use mullion_engine::rules::{Finding, field_types};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::shared::*;

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/engine/src/rules/field_types/fields.txt");
/// The values of the fields that take only some.
const VALUES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/engine/src/rules/field_types/values.txt");
/// The differences of other releases from the table: one file for each.
const RELEASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/on_cluster/field_types");

/// Kinds with the group of their schema, and where they are served.
const KINDS: [(&str, &str, &str); 9] = [
    ("Pod", "core", "api/v1"),
    ("PodTemplate", "core", "api/v1"),
    ("ReplicationController", "core", "api/v1"),
    ("ReplicaSet", "apps", "apis/apps/v1"),
    ("Deployment", "apps", "apis/apps/v1"),
    ("StatefulSet", "apps", "apis/apps/v1"),
    ("DaemonSet", "apps", "apis/apps/v1"),
    ("Job", "batch", "apis/batch/v1"),
    ("CronJob", "batch", "apis/batch/v1"),
];

/// The table's entry for a status, of any kind.
const STATUS: &str = "map[string]any";

/// The number of concurrent requests.
const PARALLEL: usize = 16;

// === the table ===

/// The server's schemas in the format of the table: type, field, shape; and the values of the fields that take only some.
struct Fields(BTreeMap<String, BTreeMap<String, String>>, BTreeMap<String, BTreeSet<String>>);

impl Fields {
    async fn of(client: &Client) -> Result<Self> {
        let mut schemas = serde_json::Map::new();
        for group in BTreeSet::from(KINDS.map(|(.., group)| group)) {
            let mut found: Value = client.request(get_request(&format!("/openapi/v3/{group}"))?).await?;
            if let Value::Object(found) = found["components"]["schemas"].take() {
                schemas.extend(found);
            }
        }
        let mut fields = Self(BTreeMap::new(), BTreeMap::new());
        let mut names = BTreeMap::new();
        let mut left: Vec<String> =
            KINDS.iter().map(|(kind, group, _)| format!("io.k8s.api.{group}.v1.{kind}")).collect();
        while let Some(full) = left.pop() {
            let name = full.rsplit('.').next().unwrap_or_default().to_owned();
            match names.insert(name.clone(), full.clone()) {
                Some(other) if other != full => bail!("two types have one name: {full} and {other}"),
                Some(_) => continue,
                None => {}
            }
            let schema = schemas.get(&full).with_context(|| format!("no schema of {full}"))?;
            ensure!(schema["type"] == "object", "{full} is not an object: {schema}");
            let mut read = BTreeMap::new();
            for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
                let values = values_of(schema);
                if !values.is_empty() {
                    fields.1.insert(format!("{name}.{field}"), values);
                }
                read.insert(field.clone(), shape_of(schema, &mut left).with_context(|| format!("{full}.{field}"))?);
            }
            fields.0.insert(name, read);
        }
        Ok(fields)
    }

    /// Without the fields that the table does not contain.
    fn in_table(mut self) -> Result<Self> {
        let table = std::fs::read_to_string(TABLE)?;
        let known: BTreeSet<&str> = table.lines().collect();
        for (name, fields) in &mut self.0 {
            fields.retain(|field, shape| known.contains(format!("{name}.{field} {shape}").as_str()));
        }
        Ok(self)
    }

    fn shape(&self, name: &str, field: &str) -> &str {
        &self.0[name][field]
    }

    fn text(&self, kubernetes: &str) -> String {
        let mut lines: Vec<String> = Vec::new();
        for (name, fields) in &self.0 {
            lines.extend(fields.iter().map(|(field, shape)| format!("{name}.{field} {shape}")));
        }
        lines.sort_unstable();
        format!(
            "# Fields of the kinds that Mullion reviews, from the API server's OpenAPI, without those of a status, which authors do not write.\n\
             # The cluster test field_types::the_table_matches_the_server compares it with a running server; UPDATE_DOCS=1 writes it.\n\
             kubernetes {kubernetes}\n{}\n",
            lines.join("\n")
        )
    }
}

/// The values of a field, or of its items, if its schema lists them. An empty text is an unset field.
fn values_of(schema: &Value) -> BTreeSet<String> {
    if let Some(inner) = schema.pointer("/allOf/0").or_else(|| schema.get("items")) {
        return values_of(inner);
    }
    let values = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
    values.filter(|value| !value.is_empty()).map(ToOwned::to_owned).collect()
}

/// One schema as the table writes it; types it names go to `left`.
fn shape_of(schema: &Value, left: &mut Vec<String>) -> Result<String> {
    if let Some(inner) = schema.pointer("/allOf/0") {
        return shape_of(inner, left);
    }
    if let Some(name) = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/components/schemas/")) {
        let short = name.rsplit('.').next().unwrap_or_default();
        return Ok(match short {
            "Quantity" => "quantity".to_owned(),
            "IntOrString" => "int-or-string".to_owned(),
            "Time" | "MicroTime" => "time".to_owned(),
            "FieldsV1" => "any".to_owned(),
            status if status.ends_with("Status") => STATUS.to_owned(),
            _ => {
                left.push(name.to_owned());
                short.to_owned()
            }
        });
    }
    Ok(match (schema["type"].as_str().unwrap_or_default(), schema["format"].as_str()) {
        ("array", None) => format!("[]{}", shape_of(&schema["items"], left)?),
        ("object", None) => format!("map[string]{}", shape_of(&schema["additionalProperties"], left)?),
        ("integer", Some(format @ ("int32" | "int64"))) => format.to_owned(),
        (plain @ ("string" | "boolean"), None) => plain.to_owned(),
        _ => bail!("the table has no word for {schema}"),
    })
}

pub async fn the_table_matches_the_server(shared: &Shared) -> Result<()> {
    let client = shared.plane.client();
    let version: Value = client.request(get_request("/version")?).await?;
    let kubernetes = format!("{}.{}", version["major"].as_str().unwrap_or(""), version["minor"].as_str().unwrap_or(""));
    let release = Release::under_test()?;
    ensure!(release.to_string() == kubernetes, "kube-apiserver --version reports {release}, and /version {kubernetes}");
    let server = Fields::of(&client).await?.text(&kubernetes);
    let (path, text) = if release == Release::of_the_repository()? {
        (TABLE.to_owned(), server)
    } else {
        (format!("{RELEASES}/{release}.txt"), differences_of(release, &std::fs::read_to_string(TABLE)?, &server))
    };
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, text)?;
        return Ok(());
    }
    let file = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let (ours, servers): (BTreeSet<&str>, BTreeSet<&str>) = (file.lines().collect(), text.lines().collect());
    ensure!(
        file == text,
        "{path} is not the server's; run UPDATE_DOCS=1 cargo test --test on_cluster field_types\n\
         only in the file: {:#?}\nonly in the server: {:#?}",
        ours.difference(&servers),
        servers.difference(&ours)
    );
    Ok(())
}

/// In the release of the repository the table of values is that of the server, and values that an older release knows are
/// in it.
pub async fn the_values_match_the_server(shared: &Shared) -> Result<()> {
    let Fields(_, values) = Fields::of(&shared.plane.client()).await?;
    let lines = |values: &BTreeMap<String, BTreeSet<String>>| -> Vec<String> {
        let line = |(field, values): (&String, &BTreeSet<String>)| {
            format!("{field} {}", values.iter().cloned().collect::<Vec<_>>().join(" "))
        };
        values.iter().map(line).collect()
    };
    let head = "# Fields that take only some values, from the API server's OpenAPI.\n\
                # The cluster test field_types::the_values_match_the_server compares it with a running server; UPDATE_DOCS=1 writes it.\n";
    let server = format!("{head}{}\n", lines(&values).join("\n"));
    let (release, own) = (Release::under_test()?, Release::of_the_repository()?);
    if release != own {
        let text = std::fs::read_to_string(VALUES)?;
        let known: BTreeMap<&str, BTreeSet<&str>> = text
            .lines()
            .filter_map(|line| Some((line.split_once(' ')?.0, line.split(' ').skip(1).collect())))
            .collect();
        // A newer release may have more of them.
        for (field, values) in values.iter().filter(|_| release < own) {
            let known = known.get(field.as_str()).with_context(|| format!("{VALUES} lacks {field}"))?;
            let more: Vec<&String> = values.iter().filter(|value| !known.contains(value.as_str())).collect();
            ensure!(more.is_empty(), "{VALUES} lacks {more:?} of {field}, which Kubernetes {release} has");
        }
        return Ok(());
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(VALUES, server)?;
        return Ok(());
    }
    let file = std::fs::read_to_string(VALUES)?;
    ensure!(
        file == server,
        "{VALUES} is not the server's; run UPDATE_DOCS=1 cargo test --test on_cluster field_types\n{server}"
    );
    Ok(())
}

/// The differences of a release from the table: fields that only the table has, then those that only the release has.
fn differences_of(release: Release, table: &str, server: &str) -> String {
    let fields = |text: &str| -> BTreeSet<String> {
        let is_field = |line: &&str| !line.starts_with('#') && !line.starts_with("kubernetes ");
        text.lines().filter(is_field).map(ToOwned::to_owned).collect()
    };
    let (table, server) = (fields(table), fields(server));
    let mut text = format!(
        "# Kubernetes {release} compared with crates/engine/src/rules/field_types/fields.txt: `-` are fields that it does not have, `+` those that\n\
         # the table does not have. field_types::the_table_matches_the_server compares it with a running server; UPDATE_DOCS=1 writes it.\n"
    );
    text.extend(table.difference(&server).map(|line| format!("- {line}\n")));
    text.extend(server.difference(&table).map(|line| format!("+ {line}\n")));
    text
}

// === the decoder ===

/// The server's result for an object.
#[derive(Debug)]
enum Decoded {
    /// The API server can decode it; the object that it would store if it is valid.
    Read(Option<Value>),
    /// The API server cannot decode it: the field in its message, without indices, if there is one.
    Rejected(String),
    /// The API server can decode it, except for unknown fields.
    Unknown(BTreeSet<String>),
}

fn get_request(path: &str) -> Result<http::Request<Vec<u8>>> {
    Ok(http::Request::get(path).body(Vec::new())?)
}

/// Creates an object without storing it. Validation (`fieldValidation`) is `Ignore`, which drops unknown fields, or
/// `Strict`, which reports them.
async fn decode(client: &Client, namespace: &str, object: &Value, validation: &str) -> Result<Decoded> {
    let kind = object["kind"].as_str().context("a kind")?;
    let (.., group) = KINDS.iter().find(|(name, ..)| *name == kind).context("a kind of ours")?;
    let path = format!(
        "/{group}/namespaces/{namespace}/{}s?dryRun=All&fieldValidation={validation}",
        kind.to_ascii_lowercase()
    );
    let request =
        http::Request::post(&path).header("content-type", "application/json").body(serde_json::to_vec(object)?)?;
    match client.request::<Value>(request).await {
        Ok(stored) => Ok(Decoded::Read(Some(stored))),
        // Decoded, and then rejected: by validation, or because the owner does not exist, for example.
        Err(kube::Error::Api(status)) if [403, 404, 409, 422].contains(&status.code) => Ok(Decoded::Read(None)),
        Err(kube::Error::Api(status)) if status.code == 400 => Ok(decoding_error(&status.message)),
        Err(error) => Err(error).with_context(|| format!("POST {path} {object}")),
    }
}

fn decoding_error(message: &str) -> Decoded {
    if let Some((_, list)) = message.split_once("strict decoding error: ") {
        let fields = list.split(", ").filter_map(|part| part.strip_prefix("unknown field \"")?.strip_suffix('"'));
        return Decoded::Unknown(fields.map(ToOwned::to_owned).collect());
    }
    // `json: cannot unmarshal string into Go struct field Container.spec.containers.command of type []string`: first the
    // type, and in between the Go names of embedded structs.
    let field = message.split_once("Go struct field ").and_then(|(_, rest)| rest.split_once(" of type "));
    let field = field.map(|(field, _)| {
        let names = field.split('.').skip(1);
        names.filter(|name| !name.starts_with(|c: char| c.is_ascii_uppercase())).collect::<Vec<_>>().join(".")
    });
    Decoded::Rejected(field.unwrap_or_default())
}

/// Mullion's result about what the decoder does: wrong types and unknown fields.
fn judged(object: &Value) -> (Vec<Finding>, Vec<Finding>) {
    let kind = WorkloadKind::from_name(object["kind"].as_str().unwrap()).unwrap();
    field_types::check::check(kind, object, &Settings::default())
        .into_iter()
        .filter(|finding| finding.code != "MUL803")
        .partition(|finding| finding.code == "MUL801")
}

/// A pointer as the server's decoder writes it: every key after a dot, whatever is in it.
fn servers_path(pointer: &str) -> String {
    let mut path = String::new();
    for token in pointer.split('/').skip(1) {
        if token.parse::<usize>().is_ok() {
            path = format!("{path}[{token}]");
        } else {
            let dot = if path.is_empty() { "" } else { "." };
            path = format!("{path}{dot}{}", token.replace("~1", "/").replace("~0", "~"));
        }
    }
    path
}

/// `spec.containers[0].args[1]` is `spec.containers.args`.
fn without_indices(path: &str) -> String {
    path.split('[').map(|part| part.split_once(']').map_or(part, |(_, rest)| rest)).collect()
}

/// Every disagreement about one object.
async fn disagreements(client: &Client, namespace: &str, object: &Value) -> Result<Vec<String>> {
    let (wrong, unknown) = judged(object);
    let ours: BTreeSet<String> = unknown.iter().map(|finding| servers_path(&finding.pointer)).collect();
    let mut found = Vec::new();
    let loose = decode(client, namespace, object, "Ignore").await?;
    match &loose {
        Decoded::Rejected(field) => {
            let named = |finding: &Finding| without_indices(&finding.path).starts_with(field.as_str());
            if wrong.is_empty() {
                found.push(format!("the server rejects {field:?}, Mullion does not"));
            } else if !wrong.iter().any(named) {
                found.push(format!("the server names {field:?}, we name {:?}", wrong[0].path));
            }
        }
        Decoded::Read(stored) => {
            if let Some(first) = wrong.first() {
                found.push(format!("Mullion reports {}, the server accepts it", first.sentence()));
            }
            for finding in &unknown {
                if stored.as_ref().is_some_and(|stored| stored.pointer(&finding.pointer).is_some()) {
                    found.push(format!("the server keeps {}", finding.path));
                }
            }
        }
        Decoded::Unknown(_) => found.push("the server names unknown fields though it should not".to_owned()),
    }
    if wrong.is_empty() && matches!(loose, Decoded::Read(_)) {
        let servers = match decode(client, namespace, object, "Strict").await? {
            Decoded::Unknown(fields) => fields,
            Decoded::Read(_) => BTreeSet::new(),
            Decoded::Rejected(field) => bail!("in strict mode it rejects {field}"),
        };
        if ours != servers {
            found.push(format!("unknown to the server {servers:?}, to us {ours:?}"));
        }
    }
    Ok(found)
}

/// An object of that kind that the server accepts.
fn manifest(kind: &str) -> Value {
    let (.., group) = KINDS.iter().find(|(name, ..)| *name == kind).unwrap();
    let version = group.split_once('/').map_or("v1", |(_, version)| version);
    let labels = json!({"app": "a"});
    let mut pod = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    if kind.ends_with("Job") {
        pod["spec"]["restartPolicy"] = json!("Never");
    }
    let spec = match kind {
        "Pod" => pod["spec"].clone(),
        "Job" => json!({"template": pod}),
        "CronJob" => json!({"schedule": "@daily", "jobTemplate": {"spec": {"template": pod}}}),
        "ReplicationController" => json!({"selector": labels, "template": pod}),
        _ => json!({"selector": {"matchLabels": labels}, "template": pod}),
    };
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec});
    if kind == "PodTemplate" {
        object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "template": pod});
    }
    object
}

/// The manifest with a value at a pointer.
fn with(kind: &str, pointer: &str, value: Value) -> Value {
    let mut object = manifest(kind);
    set(&mut object, pointer, value);
    object
}

/// Sets a value, with the maps and lists that lead there.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut at = object;
    for token in pointer.split('/').skip(1) {
        at = if let Ok(index) = token.parse::<usize>() {
            if !at.is_array() {
                *at = json!([]);
            }
            let items = at.as_array_mut().unwrap();
            items.resize(items.len().max(index + 1), json!({}));
            &mut items[index]
        } else {
            if !at.is_object() {
                *at = json!({});
            }
            &mut at[token.replace("~1", "/").replace("~0", "~")]
        };
    }
    *at = value;
}

/// Whether a release has the fields of a value: those of `restartPolicyRules` since 1.34.
fn has_fields(release: Release, below: &str) -> bool {
    below != "/restartPolicyRules" || release >= Release::v1(34)
}

/// Common values in a container, and unusual valid ones.
fn in_a_container(release: Release) -> Vec<Value> {
    [
        ("/command", json!("dir")),
        ("/command", json!("cmd /c dir")),
        ("/args", json!("dir")),
        ("/args", json!(["a", 8080])),
        ("/args", json!(["a", true])),
        ("/args", json!(["a", null])),
        ("/args", json!([["a"]])),
        ("/args", json!([{"a": "b"}])),
        ("/args", json!({"0": "a"})),
        ("/image", json!({"repository": "nginx"})),
        ("/image", json!(["nginx"])),
        ("/env", json!({"A": "b"})),
        ("/env", json!([{"name": "A", "value": 8080}])),
        ("/env", json!([{"name": "A", "value": true}])),
        ("/env", json!([{"name": "A", "value": null}])),
        ("/env", json!([{"name": "A", "Value": "b"}])),
        ("/env", json!([{"A": "b"}])),
        ("/env", json!(["A=b"])),
        ("/env/0/valueFrom/secretKeyRef/optional", json!("true")),
        ("/ports", json!([80])),
        ("/ports", json!([{"containerPort": "80"}])),
        ("/ports", json!([{"containerPort": 80.0}])),
        ("/ports", json!([{"containerPort": 80.5}])),
        ("/ports", json!([{"containerPort": 3_000_000_000_u64}])),
        ("/ports", json!([{"containerPort": 80, "hostport": 80}])),
        ("/ports", json!({"containerPort": 80})),
        ("/livenessProbe/httpGet", json!({"port": true})),
        ("/livenessProbe/httpGet", json!({"port": "web"})),
        ("/livenessProbe/httpGet", json!({"port": 80.5})),
        ("/livenessProbe/httpGet", json!({"port": 3_000_000_000_u64})),
        ("/livenessProbe/httpGet", json!({"port": "80"})),
        ("/livenessProbe/port", json!(80)),
        ("/resources", json!({"limits": {"memory": "512MB"}})),
        ("/resources", json!({"limits": {"memory": "1 Gi"}})),
        ("/resources", json!({"limits": {"memory": 536_870_912}})),
        ("/resources", json!({"limits": {"cpu": 0.5}})),
        ("/resources", json!({"limits": {"cpu": true}})),
        ("/resources", json!({"limits": {"cpu": {"value": 1}}})),
        ("/resources", json!({"limits": {"cpu": null}})),
        ("/resources", json!({"limits": "1Gi"})),
        ("/resources", json!({"limit": {"cpu": "1"}})),
        ("/resources", json!({"memory": "1Gi"})),
        ("/securityContext", json!({"runAsUser": "1000"})),
        ("/securityContext", json!({"privileged": "true"})),
        ("/securityContext", json!({"runAsUserName": "ContainerUser"})),
        ("/securityContext", json!({"windowsOptions": {"hostProcess": "yes"}})),
        ("/privileged", json!(true)),
        ("/hostPort", json!(80)),
        ("/volumeMounts", json!([{"name": "v", "mountpath": "/v"}])),
        ("/restartPolicyRules", json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": ["42"]}}])),
    ]
    .into_iter()
    .filter(|(below, _)| has_fields(release, below))
    .map(|(below, value)| with("Pod", &format!("/spec/containers/0{below}"), value))
    .collect()
}

/// The same for the rest of a pod.
fn in_a_pod() -> Vec<Value> {
    [
        ("/metadata/labels", json!({"port": 80})),
        ("/metadata/labels", json!({"a": true})),
        ("/metadata/labels", json!({"a": null})),
        ("/metadata/labels", json!(["a"])),
        ("/metadata/annotations", json!({"a": 1.5})),
        ("/metadata/annotations", json!({"a": {"b": "c"}})),
        ("/metadata/annotations", json!("a")),
        ("/metadata/creationTimestamp", json!(null)),
        ("/metadata/creationTimestamp", json!(5)),
        ("/metadata/namespace", json!(null)),
        ("/metadata/ownerReferences", json!([{"controller": "true"}])),
        ("/metadata/lables", json!({"a": "b"})),
        ("/metadata", json!("a")),
        ("/spec", json!([])),
        ("/spec", json!("a")),
        ("/Spec", json!({})),
        ("/status", json!("Running")),
        ("/spec/tolerations", json!([{"key": "os", "Effect": "NoSchedule", "operator": "Exists"}])),
        ("/spec/tolerations", json!({"operator": "Exists"})),
        ("/spec/tolerations", json!([{"key": "a", "value": true}])),
        ("/spec/tolerations", json!([{"operator": "Exists", "tolerationSeconds": "5"}])),
        ("/spec/nodeSelector", json!({"a": true})),
        ("/spec/nodeSelector", json!([{"kubernetes.io/os": "windows"}])),
        ("/spec/nodeSelector", json!("windows")),
        ("/spec/nodeselector", json!({"a": "b"})),
        ("/spec/os", json!("windows")),
        ("/spec/containers", json!({"name": "c"})),
        ("/spec/initContainers", json!([null])),
        ("/spec/initContainers", json!("c")),
        ("/spec/hostNetwork", json!("true")),
        ("/spec/hostNetwork", json!(1)),
        ("/spec/hostNetwork", json!(null)),
        ("/spec/terminationGracePeriodSeconds", json!(30.0)),
        ("/spec/terminationGracePeriodSeconds", json!("30")),
        ("/spec/terminationGracePeriodSeconds", json!(u64::MAX)),
        ("/spec/terminationGracePeriodSeconds", json!(1e21)),
        ("/spec/terminationGracePeriodSeconds", json!(-1)),
        ("/spec/imagePullSecrets", json!(["secret"])),
        ("/spec/imagePullSecrets", json!("secret")),
        ("/spec/volumes", json!([{"name": "v", "emptyDir": ""}])),
        ("/spec/volumes", json!([{"name": "v", "emptyDir": []}])),
        ("/spec/volumes", json!([{"name": "v", "emptyDir": null}])),
        ("/spec/volumes", json!([{"name": "v", "emptyDir": {"sizeLimit": "1GB"}}])),
        ("/spec/volumes", json!([{"name": "v", "emptyDir": {"sizeLimit": 5}}])),
        ("/spec/volumes", json!([{"name": "v", "configMap": {"name": "c", "defaultMode": "0644"}}])),
        ("/spec/volumes", json!([{"name": "v", "configmap": {"name": "c"}}])),
        ("/spec/volumes", json!([{"name": "v", "csi": {"driver": "d", "volumeAttributes": {"a": 1}}}])),
        ("/spec/securityContext", json!({"supplementalGroups": 1000})),
        ("/spec/securityContext", json!({"privileged": true})),
        ("/spec/hostAliases", json!([{"ip": "127.0.0.1", "hostnames": "a"}])),
        ("/spec/dnsConfig", json!({"options": ["ndots:2"]})),
        ("/spec/affinity", json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}})),
        ("/spec/nodeAffinity", json!({})),
        ("/spec/template", json!({"containers": "unread below what is unknown"})),
        ("/spec/overhead", json!({"cpu": "1 cpu"})),
        ("/spec/a.b", json!(1)),
        ("/spec/a", json!(1)),
    ]
    .map(|(pointer, value)| with("Pod", pointer, value))
    .into()
}

/// Fields that only objects with a pod template have.
fn around_a_template() -> Vec<Value> {
    [
        ("PodTemplate", "/template/spec/hostNetwork", json!("true")),
        ("PodTemplate", "/spec", json!({})),
        ("ReplicationController", "/spec/replicas", json!("1")),
        ("ReplicationController", "/spec/selector", json!({"matchLabels": {"app": "a"}})),
        ("ReplicaSet", "/spec/replicas", json!("1")),
        ("ReplicaSet", "/spec/strategy", json!({})),
        ("Deployment", "/spec/replicas", json!("2")),
        ("Deployment", "/spec/replicas", json!(null)),
        ("Deployment", "/spec/containers", json!([])),
        ("Deployment", "/spec/nodeSelector", json!({"kubernetes.io/os": "windows"})),
        ("Deployment", "/spec/template/nodeSelector", json!({"kubernetes.io/os": "windows"})),
        ("Deployment", "/spec/template", json!([])),
        ("Deployment", "/spec/selector", json!({"app": "a"})),
        ("Deployment", "/spec/strategy/rollingUpdate/maxSurge", json!("25%")),
        ("Deployment", "/spec/strategy/rollingUpdate/maxSurge", json!(true)),
        ("Deployment", "/spec/strategy/rollingUpdate/maxSurge", json!(0.25)),
        ("Deployment", "/spec/strategy", json!("Recreate")),
        ("Deployment", "/spec/template/metadata/labels", json!({"app": "a", "version": 1})),
        (
            "StatefulSet",
            "/spec/volumeClaimTemplates",
            json!([{"spec": {"resources": {"requests": {"storage": "1GB"}}}}]),
        ),
        ("StatefulSet", "/spec/volumeClaimTemplates", json!({"spec": {}})),
        ("StatefulSet", "/spec/serviceName", json!(5)),
        ("DaemonSet", "/spec/replicas", json!(1)),
        ("DaemonSet", "/spec/updateStrategy", json!("OnDelete")),
        ("Job", "/spec/completions", json!("1")),
        ("Job", "/spec/backoffLimit", json!(1.5)),
        ("Job", "/spec/schedule", json!("@daily")),
        ("CronJob", "/spec/suspend", json!("false")),
        ("CronJob", "/spec/template", json!({})),
        ("CronJob", "/spec/jobTemplate/spec/template/spec/containers/0/args", json!([1])),
        ("CronJob", "/spec/schedule", json!(["@daily"])),
    ]
    .map(|(kind, pointer, value)| with(kind, pointer, value))
    .into()
}

/// Disagreements about many objects, at most a screenful.
async fn compare(shared: &Shared, objects: Vec<(String, Value)>) -> Result<()> {
    let namespace = shared.plane.namespace("shape").await?;
    let mut found = Vec::new();
    let mut running = JoinSet::new();
    let mut left = objects.into_iter();
    loop {
        while running.len() < PARALLEL
            && let Some((what, object)) = left.next()
        {
            let (client, name) = (namespace.client.clone(), namespace.name.clone());
            running.spawn(async move {
                let found = disagreements(&client, &name, &object).await?;
                anyhow::Ok(found.into_iter().map(|found| format!("{what}: {found}")).collect::<Vec<_>>())
            });
        }
        let Some(next) = running.join_next().await else { break };
        found.extend(next??);
    }
    found.sort_unstable();
    let count = found.len();
    found.truncate(60);
    ensure!(count == 0, "{count} disagreements:\n{}", found.join("\n"));
    Ok(())
}

pub async fn the_server_agrees_about_common_manifests(shared: &Shared) -> Result<()> {
    let cases = [in_a_container(Release::under_test()?), in_a_pod(), around_a_template()].concat();
    let wrong =
        cases.iter().filter(|case| !matches!(judged(case), (wrong, unknown) if wrong.is_empty() && unknown.is_empty()));
    ensure!(wrong.count() >= 90, "too few of the cases are wrong to prove anything");
    for (kind, ..) in KINDS {
        let namespace = shared.plane.namespace("shape-good").await?;
        let Decoded::Read(Some(_)) = decode(&namespace.client, &namespace.name, &manifest(kind), "Strict").await?
        else {
            bail!("the {kind} that all cases start from is rejected");
        };
    }
    compare(shared, cases.into_iter().map(|case| (case.to_string(), case)).collect()).await
}

// === every field ===

/// One place for each field of each type, as a kind, a pointer and the shape of the value there: fields themselves, and
/// the items and values of lists and maps.
fn places(fields: &Fields) -> Vec<(&'static str, String, String)> {
    let mut seen = BTreeSet::new();
    let mut places = Vec::new();
    for (kind, ..) in KINDS {
        let mut left = vec![(kind.to_owned(), String::new())];
        while let Some((name, pointer)) = left.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            for field in fields.0[&name].keys() {
                let mut pointer = format!("{pointer}/{field}");
                let mut shape = fields.shape(&name, field);
                loop {
                    places.push((kind, pointer.clone(), shape.to_owned()));
                    if shape == STATUS {
                        break;
                    }
                    let steps = [("[]", "/0"), ("map[string]", "/key")];
                    let inner = steps.into_iter().find_map(|(start, step)| Some((shape.strip_prefix(start)?, step)));
                    let Some((inner, step)) = inner else { break };
                    pointer += step;
                    shape = inner;
                }
                if fields.0.contains_key(shape) {
                    left.push((shape.to_owned(), pointer));
                }
            }
        }
    }
    places
}

pub async fn the_server_agrees_about_every_field(shared: &Shared) -> Result<()> {
    let fields = Fields::of(&shared.plane.client()).await?.in_table()?;
    let places = places(&fields);
    ensure!(places.len() > 650, "{} places", places.len());
    let mut objects = Vec::new();
    for (kind, pointer, shape) in &places {
        // `apiVersion` and `kind` determine the type; without them nothing is decoded.
        if ["/apiVersion", "/kind"].contains(&pointer.as_str()) {
            continue;
        }
        for value in [json!("word"), json!(true), json!(7), json!(7.5), json!([]), json!({}), json!({"noSuchField": 1})]
        {
            // The server checks these and Mullion does not: the text of a time, and a status, which the server clears.
            if (shape == "time" && value.is_string()) || (shape == STATUS && value.get("noSuchField").is_some()) {
                continue;
            }
            objects.push((format!("{kind} {pointer} {value}"), with(kind, pointer, value)));
        }
    }
    compare(shared, objects).await
}

/// The fields that the server names in a 422. Without a field, the Priority plugin rejects a value with 403, and names it.
async fn invalid_fields(client: &Client, namespace: &str, object: &Value) -> Result<Vec<String>> {
    let kind = object["kind"].as_str().context("a kind")?;
    let (.., group) = KINDS.iter().find(|(name, ..)| *name == kind).context("a kind of ours")?;
    let path = format!("/{group}/namespaces/{namespace}/{}s?dryRun=All", kind.to_ascii_lowercase());
    let request =
        http::Request::post(&path).header("content-type", "application/json").body(serde_json::to_vec(object)?)?;
    match client.request::<Value>(request).await {
        Ok(_) => Ok(Vec::new()),
        Err(kube::Error::Api(status)) if status.code == 422 => {
            Ok(status.details.into_iter().flat_map(|details| details.causes).map(|cause| cause.field).collect())
        }
        Err(kube::Error::Api(status)) if status.code == 403 && status.message.contains("PreemptionPolicy") => {
            Ok(vec!["spec.preemptionPolicy".to_owned()])
        }
        Err(error) => Err(error).with_context(|| format!("POST {path} {object}")),
    }
}

/// The server rejects every value that a field does not take, at that field, also if only its letter case is wrong.
pub async fn the_server_rejects_every_other_value(shared: &Shared) -> Result<()> {
    let fields = Fields::of(&shared.plane.client()).await?.in_table()?;
    let namespace = shared.plane.namespace("values").await?;
    let mut found = Vec::new();
    let mut seen = 0;
    for (kind, pointer, _) in places(&fields) {
        let mut object = with(kind, &pointer, json!("noSuchValue"));
        // Without a path, the server does not look at the type.
        if let Some(volume) = pointer.strip_suffix("/hostPath/type") {
            set(&mut object, &format!("{volume}/hostPath/path"), json!("/a"));
        }
        let Ok(workload) = WorkloadKind::from_name(kind).context("a kind") else { continue };
        let findings = field_types::check::check(workload, &object, &Settings::default());
        // Other fields of the object can be missing.
        if !findings.iter().any(|finding| finding.code == "MUL803" && finding.pointer == pointer) {
            continue;
        }
        seen += 1;
        let invalid = invalid_fields(&namespace.client, &namespace.name, &object).await?;
        let field = servers_path(&pointer);
        // Some strategies, and what an init container may not have, are rejected as a whole.
        if !invalid.iter().any(|invalid| without_indices(&field).starts_with(&without_indices(invalid))) {
            found.push(format!("{kind} {field}: the server names {invalid:?}"));
        }
    }
    ensure!(seen > 30, "{seen} fields");
    ensure!(found.is_empty(), "{}", found.join("\n"));
    Ok(())
}

/// For each operator and number of values, the server rejects the object if and only if there is a finding.
pub async fn the_server_agrees_about_operators(shared: &Shared) -> Result<()> {
    let namespace = shared.plane.namespace("operators").await?;
    let mut found = Vec::new();
    let mut rejected = 0;
    for rule in OPERATOR_RULES {
        for (operator, count) in rule.operators.iter().flat_map(|operator| (0..=2).map(move |count| (*operator, count)))
        {
            let pointer = match rule.object {
                "Toleration" => "/spec/tolerations/0",
                "NodeSelectorRequirement" => {
                    "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchExpressions/0"
                }
                _ => "/spec/topologySpreadConstraints/0/labelSelector/matchExpressions/0",
            };
            let mut object = with("Pod", pointer, json!({"key": "example.com/a"}));
            let member = object.pointer_mut(pointer).context("the object")?;
            if !operator.is_empty() {
                member["operator"] = json!(operator);
            }
            match (rule.field, count) {
                // A toleration compares numbers only behind a feature gate.
                ("key", 1) if ["Gt", "Lt"].contains(&operator) => continue,
                ("key" | "value", 2) => continue,
                ("key", 0) => member["key"] = json!(""),
                ("key", _) => {}
                ("value", count) => member["value"] = json!(if count == 0 { "" } else { "1" }),
                (_, count) => member["values"] = json!((0..count).map(|at| at.to_string()).collect::<Vec<_>>()),
            }
            if let Some(constraint) = object.pointer_mut("/spec/topologySpreadConstraints/0") {
                constraint["maxSkew"] = json!(1);
                constraint["topologyKey"] = json!("kubernetes.io/hostname");
                constraint["whenUnsatisfiable"] = json!("ScheduleAnyway");
            }
            let findings = field_types::check::check(WorkloadKind::Pod, &object, &Settings::default());
            let ours = findings.iter().any(|finding| finding.code == "MUL803" && finding.pointer.starts_with(pointer));
            let invalid = invalid_fields(&namespace.client, &namespace.name, &object).await?;
            rejected += usize::from(ours);
            if invalid.is_empty() == ours {
                found.push(format!("{} {operator} with {count} {}: {invalid:?}", rule.object, rule.field));
            }
        }
    }
    ensure!(rejected >= 15, "{rejected} combinations");
    ensure!(found.is_empty(), "{}", found.join("\n"));
    Ok(())
}
