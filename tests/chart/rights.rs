//! The chart grants each program the permissions that its module documents, and no others.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::rendered::{Rendered, list};

/// A verb on a resource: `patch nodes`, `get configmaps mullion-state in its own namespace`.
type Rights = BTreeSet<String>;

/// Programs, and the file with the documentation of their permissions.
const PROGRAMS: [(&str, &str); 3] = [
    ("webhook", "src/webhook/mod.rs"),
    ("controller", "src/controller/mod.rs"),
    ("withdraw", "src/controller/withdraw/mod.rs"),
];

/// The API group of every resource in those tables.
const GROUPS: [(&str, &[&str]); 9] = [
    (
        "",
        &[
            "configmaps",
            "namespaces",
            "nodes",
            "pods",
            "podtemplates",
            "replicationcontrollers",
            "secrets",
            "serviceaccounts",
        ],
    ),
    ("admissionregistration.k8s.io", &["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]),
    ("apps", &["daemonsets", "deployments", "replicasets", "statefulsets"]),
    ("batch", &["cronjobs", "jobs"]),
    ("coordination.k8s.io", &["leases"]),
    ("events.k8s.io", &["events"]),
    ("node.k8s.io", &["runtimeclasses"]),
    ("policy", &["poddisruptionbudgets"]),
    ("scheduling.k8s.io", &["priorityclasses"]),
];

fn one(verb: &str, resource: &str, name: &str, place: &str) -> String {
    let mut words = vec![verb, resource];
    words.extend((!name.is_empty()).then_some(name));
    format!("{} in {place}", words.join(" "))
}

/// The rows of the table of permissions in a file's documentation: resources, names, where, verbs, when.
fn documented(file: &Rendered, source: &str) -> Result<Rights> {
    let content =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(source)).context(source.to_owned())?;
    let (_, table) = content
        .split_once("//! | on | named | in | verbs | when |\n")
        .with_context(|| format!("{source}: no table of rights"))?;
    let mut rights = Rights::new();
    for row in table.lines().skip(1).map_while(|line| line.strip_prefix("//! | ")) {
        let cells: Vec<_> = row.trim_end_matches('|').split(" | ").map(str::trim).collect();
        let [resources, names, place, verbs, when] = cells[..] else { bail!("{source}: {row}") };
        let (words, mut places) = (
            |cell: &str| -> Vec<String> {
                cell.split(',').map(|word| word.trim().trim_matches('`').to_owned()).collect()
            },
            vec![place.to_owned()],
        );
        let holds = match when.split(';').next().unwrap_or_default() {
            "" => true,
            "`--webhook-service`" | "`--tls-secret`" => file.value("/certificates/mode") == "Managed",
            "pull secrets" => {
                // The namespaces in the values, or all.
                places = list(&file.values, "/rbac/pullSecrets")
                    .iter()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect();
                !places.is_empty()
            }
            // A permission that a Job of the chart does not need, because its namespace is known.
            "without `--namespace`" => false,
            other => bail!("{source}: {other:?} is no condition that this test knows"),
        };
        for resource in words(resources).iter().filter(|_| holds) {
            ensure!(GROUPS.iter().any(|(_, all)| all.contains(&resource.as_str())), "{source}: {resource:?} in {row}");
            for (name, verb) in
                words(names).iter().flat_map(|name| words(verbs).into_iter().map(move |verb| (name.clone(), verb)))
            {
                rights.extend(places.iter().map(|place| one(&verb, resource, &name, place)));
            }
        }
    }
    ensure!(rights.len() > 5, "{source}: {rights:?}");
    Ok(rights)
}

/// The permissions that the chart binds to a program's account.
fn granted(file: &Rendered, program: &str) -> Result<Rights> {
    let mut rights = Rights::new();
    for (namespace, rule) in file.chart().rules_of(&format!("mullion-{program}"))? {
        let probe = file.value("/controller/probeNamespace");
        let is_probe = program == "controller" && namespace.as_deref() == probe.as_str();
        let place = match namespace.as_deref() {
            None => "the cluster",
            Some("mullion-system") => "its own namespace",
            Some(_) if is_probe => "the probe namespace",
            Some(other) => other,
        };
        let words = |key: &str| list(&rule, &format!("/{key}")).iter().filter_map(Value::as_str).collect::<Vec<_>>();
        let mut names = words("resourceNames");
        if names.is_empty() {
            names.push("");
        }
        let [group] = words("apiGroups")[..] else { bail!("{program}: {rule}") };
        for resource in words("resources") {
            let right = GROUPS.iter().any(|(known, all)| *known == group && all.contains(&resource));
            ensure!(right, "{program}: {resource} of {group:?}");
            for (verb, name) in words("verbs").iter().flat_map(|verb| names.iter().map(move |name| (verb, name))) {
                ensure!(
                    rights.insert(one(verb, resource, name, place)),
                    "{program}: twice: {verb} {resource} {name} in {place}"
                );
            }
        }
    }
    Ok(rights)
}

pub fn as_documented(file: &Rendered) -> Result<()> {
    if !file.is_on("/rbac/create") {
        for kind in ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"] {
            ensure!(file.of_kind(kind)?.count() == 0, "a {kind}");
        }
        return Ok(());
    }
    for (program, source) in
        PROGRAMS.iter().filter(|(program, _)| *program != "withdraw" || file.is_on("/withdraw/enabled"))
    {
        let (documented, given) = (documented(file, source)?, granted(file, program)?);
        let missing: Vec<_> = documented.difference(&given).collect();
        let more: Vec<_> = given.difference(&documented).collect();
        ensure!(
            missing.is_empty() && more.is_empty(),
            "{source} has, and the chart does not: {missing:?}\nthe chart gives, and {source} does not list: {more:?}"
        );
    }
    Ok(())
}

/// This does not depend on the tables.
pub fn no_wildcards_and_no_writes_of_the_webhook(file: &Rendered) -> Result<()> {
    let mut accounts = BTreeSet::new();
    for role in
        file.objects()?.iter().filter(|object| object["rules"].is_array() && object["metadata"]["name"] != "mullion")
    {
        let name = role["metadata"]["name"].as_str().unwrap_or_default();
        for rule in list(role, "/rules") {
            let words = |key: &str| list(rule, &format!("/{key}")).iter().filter_map(Value::as_str).collect::<Vec<_>>();
            ensure!(rule.get("nonResourceURLs").is_none(), "{name}: {rule}");
            for key in ["apiGroups", "resources", "verbs", "resourceNames"] {
                ensure!(!words(key).contains(&"*"), "{name}: {rule}");
            }
            for never in ["escalate", "bind", "impersonate", "deletecollection", "approve", "sign"] {
                ensure!(!words("verbs").contains(&never), "{name}: {rule}");
            }
            let reads = words("verbs").iter().all(|verb| ["get", "list", "watch"].contains(verb));
            ensure!(reads || !name.starts_with("mullion-webhook"), "{name} writes: {rule}");
            // An account that can create pods in a namespace can read every Secret there, so that is allowed only in an
            // empty namespace (for dry runs).
            let makes_pods = words("resources").contains(&"pods") && words("verbs").contains(&"create");
            ensure!(!makes_pods || role["kind"] == "Role" && name == "mullion-controller-probe", "{name}: {rule}");
            // `mullion repair` evicts with the permissions of the person who runs it.
            let ends_pods = words("resources").contains(&"pods") && words("verbs").contains(&"delete");
            ensure!(!ends_pods && !words("resources").contains(&"pods/eviction"), "{name}: {rule}");
            let secrets = words("resources").contains(&"secrets");
            let named = !words("resourceNames").is_empty() || words("verbs") == ["create"];
            let pull = name.starts_with("mullion-webhook")
                && words("verbs") == ["get"]
                && !list(&file.values, "/rbac/pullSecrets").is_empty();
            ensure!(!secrets || pull || role["kind"] == "Role" && named, "{name}: {rule}");
        }
        accounts.insert(name.to_owned());
    }
    for binding in file.objects()?.iter().filter(|object| object["subjects"].is_array()) {
        for subject in list(binding, "/subjects") {
            let name = subject["name"].as_str().unwrap_or_default();
            ensure!(subject["kind"] == "ServiceAccount" && subject["namespace"] == "mullion-system", "{subject}");
            ensure!(["mullion-webhook", "mullion-controller", "mullion-withdraw"].contains(&name), "{subject}");
        }
        let role = binding["roleRef"]["name"].as_str().unwrap_or_default();
        ensure!(accounts.contains(role), "{} is bound to {role}", binding["metadata"]["name"]);
    }
    Ok(())
}
