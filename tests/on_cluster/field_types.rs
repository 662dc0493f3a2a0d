//! Manifests that the API server cannot decode: its decoder compared with the table of fields.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail, ensure};
use kube::Client;
use mullion_cluster::Release;
use mullion_engine::model::settings::Settings;
use mullion_engine::model::{MinorVersion, WorkloadKind};
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

/// The folder `api/openapi-spec/v3` of the Go module k8s.io/kubernetes, for a release that has no server here: instead of
/// the server's `OpenAPI`, `the_table_matches_the_server` reads the files in it.
const OPENAPI: &str = "KUBERNETES_OPENAPI";

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
    /// Those of a server.
    async fn of(client: &Client) -> Result<Self> {
        let mut documents = Vec::new();
        for group in groups() {
            documents.push(client.request(get_request(&format!("/openapi/v3/{group}"))?).await?);
        }
        Self::of_documents(documents)
    }

    /// Those in the files of a Go module, and its release. The files have no lists of values.
    fn of_module(folder: &str) -> Result<(Self, Release)> {
        let release = folder.split_once("/kubernetes@").context("no k8s.io/kubernetes@VERSION in the path")?.1;
        let read = |group: &str| -> Result<Value> {
            let path = format!("{folder}/{}_openapi.json", group.replace('/', "__"));
            Ok(serde_json::from_slice(&std::fs::read(&path).with_context(|| path.clone())?)?)
        };
        let documents = groups().into_iter().map(read).collect::<Result<_>>()?;
        Ok((Self::of_documents(documents)?, release.parse()?))
    }

    fn of_documents(documents: Vec<Value>) -> Result<Self> {
        let mut schemas = serde_json::Map::new();
        for mut document in documents {
            if let Value::Object(found) = document["components"]["schemas"].take() {
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
        let known: BTreeMap<&str, _> = rows(&table).collect();
        for (name, fields) in &mut self.0 {
            fields.retain(|field, shape| known.contains_key(format!("{name}.{field} {shape}").as_str()));
        }
        Ok(self)
    }

    fn shape(&self, name: &str, field: &str) -> &str {
        &self.0[name][field]
    }

    /// Each field with its shape.
    fn lines(&self) -> BTreeSet<String> {
        let of_type = |(name, fields): (&String, &BTreeMap<String, String>)| {
            fields.iter().map(|(field, shape)| format!("{name}.{field} {shape}")).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of_type).collect()
    }
}

/// The groups of the kinds, as in a path of the API.
fn groups() -> BTreeSet<&'static str> {
    BTreeSet::from(KINDS.map(|(.., group)| group))
}

/// Each row of the table: field and shape, and the release that first has it, if the row names it.
fn rows(table: &str) -> impl Iterator<Item = (&str, Option<Release>)> {
    let fields = table.lines().filter(|line| !line.starts_with('#') && !line.starts_with("kubernetes "));
    fields.map(|line| match line.match_indices(' ').nth(1) {
        Some((at, _)) => (&line[..at], line[at + 1..].parse().ok()),
        None => (line, None),
    })
}

/// The table with the fields of a release. Fields that the table does not have are new in that release, and so are those
/// that it has only for a later one. If it is the release of the repository, fields that it does not have are removed.
fn updated(table: &str, release: Release, fields: &BTreeSet<String>, is_own: bool) -> Result<String> {
    let mut merged: BTreeMap<&str, Option<Release>> =
        rows(table).filter(|(row, since)| !is_own || *since > Some(release) || fields.contains(*row)).collect();
    for field in fields {
        let since = merged.entry(field).or_insert(Some(release));
        *since = (*since).min(Some(release));
    }
    let newest = merged.values().flatten().max().copied().unwrap_or(release).max(release);
    let mut lines: Vec<String> = merged
        .into_iter()
        .map(|(row, since)| since.map_or_else(|| row.to_owned(), |since| format!("{row} {since}")))
        .collect();
    lines.sort_unstable();
    let head: Vec<&str> = table.lines().take_while(|line| line.starts_with('#')).collect();
    ensure!(!head.is_empty(), "{TABLE} has no head");
    Ok(format!("{}\nkubernetes {newest}\n{}\n", head.join("\n"), lines.join("\n")))
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

/// The table has the fields of the release under test, each with the release that first has it. What an older or a newer
/// release has otherwise is in a file of differences.
pub async fn the_table_matches_the_server(shared: &Shared) -> Result<()> {
    let (server, release) = if let Ok(folder) = std::env::var(OPENAPI) {
        Fields::of_module(&folder)?
    } else {
        let client = shared.plane.client();
        let version: Value = client.request(get_request("/version")?).await?;
        let kubernetes =
            format!("{}.{}", version["major"].as_str().unwrap_or(""), version["minor"].as_str().unwrap_or(""));
        let release = Release::under_test()?;
        ensure!(release.to_string() == kubernetes, "kube-apiserver --version reports {release}, /version {kubernetes}");
        (Fields::of(&client).await?, release)
    };
    let (server, own) = (server.lines(), Release::of_the_repository()?);
    let mut table = std::fs::read_to_string(TABLE)?;
    let path = format!("{RELEASES}/{release}.txt");
    let is_update = std::env::var_os("UPDATE_DOCS").is_some();
    if is_update && release >= own {
        table = updated(&table, release, &server, release == own)?;
        std::fs::write(TABLE, &table)?;
    }
    let differences = differences_of(release, &table, &server);
    ensure!(release != own || differences.is_empty(), "{TABLE} is not that of the server:\n{differences}");
    if is_update && differences.is_empty() && std::fs::exists(&path)? {
        std::fs::remove_file(path)?;
    } else if is_update && !differences.is_empty() {
        std::fs::write(path, differences)?;
    } else {
        let file = if std::fs::exists(&path)? { std::fs::read_to_string(&path)? } else { String::new() };
        ensure!(
            file == differences,
            "{path} is not the differences of the server; run UPDATE_DOCS=1 cargo test --test on_cluster field_types\n\
             in the file:\n{file}\nof the server:\n{differences}"
        );
    }
    Ok(())
}

/// The values of a field that the table has for a release: values of later releases follow `@`.
fn values_in(line: &str, release: Release) -> Option<(&str, BTreeSet<&str>)> {
    let (field, values) = line.split_once(' ')?;
    let is_there = |value: &&str| {
        let since = value.split_once('@').and_then(|(_, since)| since.parse::<Release>().ok());
        since.is_none_or(|since| since <= release)
    };
    Some((field, values.split(' ').filter(is_there).filter_map(|value| value.split('@').next()).collect()))
}

/// The table of values has those of the release under test, for each field that the release has.
pub async fn the_values_match_the_server(shared: &Shared) -> Result<()> {
    let server = Fields::of(&shared.plane.client()).await?;
    let release = Release::under_test()?;
    let table = std::fs::read_to_string(VALUES)?;
    let (head, lines): (Vec<&str>, Vec<&str>) = table.lines().partition(|line| line.starts_with('#'));
    let has = |field: &str| {
        let (name, field) = field.split_once('.').unwrap_or_default();
        server.0.get(name).is_some_and(|fields| fields.contains_key(field))
    };
    let known: BTreeMap<&str, BTreeSet<&str>> =
        lines.iter().filter_map(|line| values_in(line, release)).filter(|(field, _)| has(field)).collect();
    let servers: BTreeMap<&str, BTreeSet<&str>> =
        server.1.iter().map(|(field, values)| (field.as_str(), values.iter().map(String::as_str).collect())).collect();
    if std::env::var_os("UPDATE_DOCS").is_some() && release >= Release::of_the_repository()? {
        let mut merged: BTreeMap<&str, BTreeSet<String>> = lines
            .iter()
            .filter_map(|line| line.split_once(' '))
            .map(|(field, values)| (field, values.split(' ').map(ToOwned::to_owned).collect()))
            .collect();
        for (field, values) in servers {
            // A value is new in the release unless its field is.
            let is_new = !merged.contains_key(field);
            let written = merged.entry(field).or_default();
            for value in values.difference(&known.get(field).cloned().unwrap_or_default()) {
                written.retain(|other| other.split('@').next() != Some(*value));
                written.insert(if is_new { (*value).to_owned() } else { format!("{value}@{release}") });
            }
        }
        let line = |(field, values): (&str, BTreeSet<String>)| {
            format!("{field} {}\n", values.into_iter().collect::<Vec<_>>().join(" "))
        };
        std::fs::write(VALUES, format!("{}\n{}", head.join("\n"), merged.into_iter().map(line).collect::<String>()))?;
        return Ok(());
    }
    ensure!(
        known == servers,
        "{VALUES} is not that of Kubernetes {release}; run UPDATE_DOCS=1 cargo test --test on_cluster field_types\n\
         in the table: {known:#?}\nof the server: {servers:#?}"
    );
    Ok(())
}

/// The differences of a release from the rows that the table has for it: `-` are fields that the release does not have,
/// `+` those that only it has. Empty if there are none.
fn differences_of(release: Release, table: &str, server: &BTreeSet<String>) -> String {
    let is_there = |since: Option<Release>| since.is_none_or(|since| since <= release);
    let table: BTreeSet<&str> = rows(table).filter(|(_, since)| is_there(*since)).map(|(row, _)| row).collect();
    let server: BTreeSet<&str> = server.iter().map(String::as_str).collect();
    if table == server {
        return String::new();
    }
    let mut text = format!(
        "# Kubernetes {release} compared with crates/engine/src/rules/field_types/fields.txt: `-` are fields that it does not have, although it is in the table,\n\
         # `+` those that the table does not have. field_types::the_table_matches_the_server compares it with a running server; UPDATE_DOCS=1 writes it.\n"
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

/// Mullion's result about what the decoder of the release under test does: wrong types and unknown fields.
fn judged(object: &Value) -> (Vec<Finding>, Vec<Finding>) {
    let kind = WorkloadKind::from_name(object["kind"].as_str().unwrap()).unwrap();
    findings(kind, object)
        .into_iter()
        .filter(|finding| finding.code != "MUL803")
        .partition(|finding| finding.code == "MUL801")
}

/// The findings about fields and values, for the release under test.
fn findings(kind: WorkloadKind, object: &Value) -> Vec<Finding> {
    let server = MinorVersion::of(&Release::under_test().unwrap().to_string());
    field_types::check::check(kind, object, &Settings::default(), server)
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

/// Common values in a container, and unusual valid ones. Releases before 1.34 do not have `restartPolicyRules`, and
/// those before 1.37 neither `bindMountOptions` nor `protocol`.
fn in_a_container() -> Vec<Value> {
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
        ("/volumeMounts", json!([{"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec"]}])),
        ("/volumeMounts", json!([{"name": "v", "mountPath": "/v", "bindMountOptions": "noexec"}])),
        ("/livenessProbe/httpGet", json!({"port": 80, "protocol": "HTTP2"})),
        ("/securityContext/seccompProfile", json!({"type": "OCI", "oci": {"ref": "example.com/profile"}})),
    ]
    .map(|(below, value)| with("Pod", &format!("/spec/containers/0{below}"), value))
    .into()
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
        ("/spec/volumes", json!([{"name": "v", "secret": {"secretName": "s", "defaultUser": 1000}}])),
        ("/spec/volumes", json!([{"name": "v", "emptyDir": {"mode": 448}}])),
        ("/spec/evictionResponders", json!([{"name": "example.com/a", "priority": 1}])),
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
    let cases = [in_a_container(), in_a_pod(), around_a_template()].concat();
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

/// Whether a release drops a field before validation, because its feature is disabled by default: `ImageVolume` before
/// 1.35, `ProcMountType` before 1.33.
fn is_dropped(release: Release, pointer: &str) -> bool {
    (pointer.contains("/image/") && release < Release::v1(35))
        || (pointer.ends_with("/procMount") && release < Release::v1(33))
}

/// The server rejects every value that a field does not take, at that field, also if only its letter case is wrong.
pub async fn the_server_rejects_every_other_value(shared: &Shared) -> Result<()> {
    let fields = Fields::of(&shared.plane.client()).await?.in_table()?;
    let namespace = shared.plane.namespace("values").await?;
    let mut found = Vec::new();
    let mut seen = 0;
    for (kind, pointer, _) in places(&fields) {
        if is_dropped(Release::under_test()?, &pointer) {
            continue;
        }
        let mut object = with(kind, &pointer, json!("noSuchValue"));
        // Without a path, the server does not look at the type.
        if let Some(volume) = pointer.strip_suffix("/hostPath/type") {
            set(&mut object, &format!("{volume}/hostPath/path"), json!("/a"));
        }
        let Ok(workload) = WorkloadKind::from_name(kind).context("a kind") else { continue };
        let findings = findings(workload, &object);
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
            let findings = findings(WorkloadKind::Pod, &object);
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
