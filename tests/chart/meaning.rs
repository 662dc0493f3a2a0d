//! Installed objects as a whole: kinds, names, hooks, webhook configurations, policies.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail, ensure};
use mullion_cluster::Chart;
use serde_json::{Value, json};

use crate::rendered::{Rendered, list, text};

/// Kinds with the API group and version in which every Kubernetes from 1.30 on has them, and whether they have a namespace.
const KINDS: &[(&str, &str, bool)] = &[
    ("v1", "ConfigMap", true),
    ("v1", "ResourceQuota", true),
    ("v1", "Service", true),
    ("v1", "ServiceAccount", true),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", false),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", false),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", false),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", false),
    ("apps/v1", "Deployment", true),
    ("batch/v1", "Job", true),
    ("cert-manager.io/v1", "Certificate", true),
    ("cert-manager.io/v1", "Issuer", true),
    ("monitoring.coreos.com/v1", "PrometheusRule", true),
    ("monitoring.coreos.com/v1", "ServiceMonitor", true),
    ("networking.k8s.io/v1", "NetworkPolicy", true),
    ("policy/v1", "PodDisruptionBudget", true),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", false),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", false),
    ("rbac.authorization.k8s.io/v1", "Role", true),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", true),
];

fn has_namespace(object: &Value) -> Result<bool> {
    let found = KINDS.iter().find(|(version, kind, _)| object["apiVersion"] == *version && object["kind"] == *kind);
    let found = found.with_context(|| format!("unexpected: {} {}", object["apiVersion"], object["kind"]))?;
    Ok(found.2)
}

pub fn only_known_kinds_are_installed(file: &Rendered) -> Result<()> {
    let mut seen = BTreeSet::new();
    for object in file.objects()? {
        has_namespace(object)?;
        let key = ["/kind", "/metadata/namespace", "/metadata/name"].map(|pointer| text(object, pointer));
        ensure!(seen.insert(key), "twice: {key:?}");
    }
    Ok(())
}

/// After `helm template` and an apply without `-n`, every object is in its namespace.
pub fn names_labels_and_namespaces(file: &Rendered) -> Result<()> {
    let mut elsewhere = vec![file.value("/controller/probeNamespace").as_str().unwrap_or_default(), "mullion-system"];
    elsewhere.extend(list(&file.values, "/rbac/pullSecrets").iter().filter_map(Value::as_str));
    for object in file.objects()? {
        let metadata = &object["metadata"];
        let name = text(metadata, "/name");
        ensure!(name == "mullion" || name.starts_with("mullion-"), "{} {name:?}", object["kind"]);
        ensure!(name.len() <= 63, "{name}");
        let namespace = metadata["namespace"].as_str();
        if has_namespace(object)? {
            ensure!(namespace.is_some_and(|namespace| elsewhere.contains(&namespace)), "{name}: {namespace:?}");
        } else {
            ensure!(namespace.is_none(), "{} {name} in {namespace:?}", object["kind"]);
        }
        let label = |key: &str| metadata["labels"][key].as_str().unwrap_or_default();
        ensure!(label("app.kubernetes.io/name") == "mullion", "{} {name}: {}", object["kind"], metadata["labels"]);
        ensure!(label("app.kubernetes.io/instance") == "mullion", "{name}: {}", metadata["labels"]);
        for (key, value) in file.value("/commonLabels").as_object().into_iter().flatten() {
            ensure!(metadata["labels"][key] == *value, "{name}: no label {key}");
        }
        ensure!(label("app.kubernetes.io/managed-by") == "Helm", "{name}: {}", metadata["labels"]);
    }
    Ok(())
}

/// The only hook removes Mullion from the nodes before it is uninstalled, and it has a time limit.
pub fn hooks_are_those_of_the_withdrawal(file: &Rendered) -> Result<()> {
    let mut jobs = 0;
    for object in file.objects()? {
        let hook = object["metadata"]["annotations"]["helm.sh/hook"].as_str();
        let is_job = object["kind"] == "Job";
        ensure!(hook.is_none_or(|hook| hook == "pre-delete"), "{}: {hook:?}", object["metadata"]["name"]);
        ensure!(is_job == (is_job && hook.is_some()), "a Job that is no hook: {}", object["metadata"]["name"]);
        if !is_job {
            continue;
        }
        jobs += 1;
        let deadline = object["spec"]["activeDeadlineSeconds"].as_u64().context("a Job without a deadline")?;
        ensure!(file.value("/withdraw/deadlineSeconds").as_u64() == Some(deadline), "{deadline} s");
        let policy = object["metadata"]["annotations"]["helm.sh/hook-delete-policy"].as_str().unwrap_or_default();
        ensure!(policy.contains("before-hook-creation") && policy.contains("hook-succeeded"), "{policy}");
        // It must stop before it is killed, because otherwise it does not report what is left.
        let arguments = list(object, "/spec/template/spec/containers/0/args");
        ensure!(arguments.first() == Some(&json!("withdraw")), "{arguments:?}");
        let own = arguments.iter().filter_map(Value::as_str).find_map(|one| one.strip_prefix("--timeout="));
        let own = own.and_then(|own| own.strip_suffix('s')?.parse::<u64>().ok()).context("no --timeout=…s")?;
        ensure!(own < deadline, "--timeout={own}s of {deadline} s");
        ensure!(object["spec"]["template"]["spec"]["restartPolicy"] != "Always", "{object}");
    }
    ensure!(jobs == usize::from(file.is_on("/withdraw/enabled")), "{jobs} Jobs");
    Ok(())
}

/// Helm prints the log of the hook. The helm-controller of Flux panics if a hook asks for that.
pub fn hook_log_is_not_printed_by_flux() -> Result<()> {
    let printed = |chart: Chart| -> Result<bool> {
        let objects = chart.objects()?;
        let job = objects.iter().find(|object| object["kind"] == "Job").context("no Job")?;
        Ok(job["metadata"]["annotations"].get("helm.sh/hook-output-log-policy").is_some())
    };
    let flux = Chart::default().argument("--api-versions").argument("helm.toolkit.fluxcd.io/v2");
    ensure!(printed(Chart::default())?, "Helm does not print the log");
    ensure!(!printed(flux)?, "Flux is asked to print the log");
    Ok(())
}

/// All webhooks of both configurations.
pub fn webhooks(file: &Rendered) -> Result<Vec<&Value>> {
    let mut all = Vec::new();
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        all.extend(file.of_kind(kind)?.flat_map(|object| list(object, "/webhooks")));
    }
    ensure!(!all.is_empty(), "no webhooks");
    Ok(all)
}

pub fn configurations_follow_the_values(file: &Rendered) -> Result<()> {
    let fail = file.value("/admission/failurePolicy") == "Fail";
    let users = list(file.value("/admission/controllerUsers"), "");
    let users: Vec<&str> = users.iter().filter_map(Value::as_str).collect();
    let program = file.named("Deployment", "mullion-webhook")?;
    let arguments = list(program, "/spec/template/spec/containers/0/args").iter().filter_map(Value::as_str);
    let given: Vec<&str> = arguments.filter_map(|argument| argument.strip_prefix("--controller-users=")).collect();
    ensure!(given == if users.is_empty() { Vec::new() } else { vec![users.join(",")] }, "{given:?}, not {users:?}");
    let endpoints = [
        ("Mutating", "/mutate", ["pods", "templates", "nodes"]),
        ("Validating", "/validate", ["pods", "templates", "policies"]),
    ];
    for (endpoint, path, names) in endpoints {
        let object = file.named(&format!("{endpoint}WebhookConfiguration"), "mullion")?;
        let mut expected: Vec<_> = names
            .iter()
            .filter(|name| file.is_on(&format!("/admission/{name}")))
            .map(|name| format!("{name}.mullion.dev"))
            .collect();
        if fail && endpoint == "Validating" && file.is_on("/admission/pods") {
            expected.insert(1, "other-pods.mullion.dev".to_owned());
        }
        let webhooks = list(object, "/webhooks");
        let found: Vec<_> = webhooks.iter().map(|webhook| text(webhook, "/name").to_owned()).collect();
        ensure!(found == expected, "{endpoint}: {found:?}, not {expected:?}");
        for pointer in ["/admission/labels", "/admission/annotations"] {
            let kind = pointer.trim_start_matches("/admission/");
            for (key, value) in file.value(pointer).as_object().into_iter().flatten() {
                ensure!(object["metadata"][kind][key] == *value, "{endpoint}: no {kind} {key}");
            }
        }
        for webhook in webhooks {
            let name = text(webhook, "/name");
            let may_fail = fail && endpoint == "Validating" && name == "pods.mullion.dev";
            ensure!(webhook["failurePolicy"] == if may_fail { "Fail" } else { "Ignore" }, "{endpoint} {name}");
            let timeout = file.value(&format!("/admission/timeoutSeconds/{}", endpoint.to_lowercase()));
            ensure!(webhook["timeoutSeconds"] == *timeout, "{endpoint} {name}: {}", webhook["timeoutSeconds"]);
            let service = json!({"name": "mullion-webhook", "namespace": "mullion-system", "path": path, "port": 443});
            ensure!(webhook["clientConfig"]["service"] == service, "{endpoint} {name}: {}", webhook["clientConfig"]);
            if name.starts_with("pods") || name.starts_with("templates") || name.starts_with("other-pods") {
                let excluded = list(webhook, "/namespaceSelector/matchExpressions/0/values");
                let mut wanted = vec![json!("mullion-system")];
                wanted.extend(list(&file.values, "/admission/excludedNamespaces").iter().cloned());
                ensure!(excluded == wanted, "{endpoint} {name}: {excluded:?}");
            }
            if name == "policies.mullion.dev" {
                let only = json!({"matchLabels": {"kubernetes.io/metadata.name": "mullion-system"}});
                ensure!(webhook["namespaceSelector"] == only, "{name}: {}", webhook["namespaceSelector"]);
            }
            for condition in list(webhook, "/matchConditions") {
                let expression = text(condition, "/expression");
                let by_owner = expression.contains("ownerReferences");
                ensure!(
                    expression.contains("userInfo") == (by_owner && !users.is_empty())
                        && (!by_owner || users.iter().all(|user| expression.contains(&format!("'{user}'")))),
                    "{endpoint} {name}: {condition}"
                );
            }
            let condition = list(webhook, "/matchConditions").iter().any(|one| one["name"] == "not-explicitly-linux");
            let may_skip = ["pods.mullion.dev", "templates.mullion.dev", "other-pods.mullion.dev"].contains(&name);
            let skips = file.is_on("/admission/skipExplicitlyLinux") && may_skip && !may_fail;
            ensure!(condition == skips, "{endpoint} {name}: explicitly Linux");
        }
    }
    Ok(())
}

/// The source is a ConfigMap of the chart or of the values, never a single file of it, which a kubelet would not
/// update.
pub fn policies_are_mounted_whole(file: &Rendered) -> Result<()> {
    let theirs = file.value("/policies/configMap").as_str().unwrap_or_default();
    for owner in file.templates()? {
        let mut found = Vec::new();
        for volume in list(owner.spec(), "/volumes").iter().filter(|volume| volume["name"] == "policies") {
            ensure!(volume["configMap"].get("items").is_none(), "{}: {volume}", owner.name());
            let name = text(volume, "/configMap/name");
            if theirs.is_empty() {
                let own = file.named("ConfigMap", name)?;
                ensure!(own["metadata"]["labels"]["mullion.dev/policy"] == "true", "{name} has no policy label");
            } else {
                ensure!(name == theirs, "{name}, not {theirs}");
            }
            found.push(text(volume, "/name"));
        }
        for container in owner.containers() {
            let mounts = list(container, "/volumeMounts");
            if let Some(sub) =
                mounts.iter().find(|mount| mount.get("subPath").is_some() || mount.get("subPathExpr").is_some())
            {
                bail!("{}: subPath: {sub}", owner.name());
            }
            let policies = mounts.iter().find(|mount| found.contains(&text(mount, "/name")));
            if owner.is_deployment() {
                let path = text(policies.context("policies are not mounted")?, "/mountPath");
                let flag = json!(format!("--policies={path}"));
                ensure!(list(container, "/args").contains(&flag), "{}: no {flag}", owner.name());
            }
        }
    }
    Ok(())
}
