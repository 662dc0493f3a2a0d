//! Requirements of every pod of the chart.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::rendered::{Rendered, list, selects, text};

/// Mullion's own pods never depend on Mullion: the webhook does not review its own namespace, so they select Linux themselves.
pub fn pinned_to_linux(file: &Rendered) -> Result<()> {
    for owner in file.templates()? {
        let spec = owner.spec();
        ensure!(spec["nodeSelector"]["kubernetes.io/os"] == "linux", "{}: {}", owner.name(), spec["nodeSelector"]);
        // A program for another processor architecture fails immediately.
        let architecture = &spec["nodeSelector"]["kubernetes.io/arch"];
        ensure!(architecture == file.value("/image/architecture"), "{}: {architecture}", owner.name());
        // Rancher's taint of Linux nodes, in any form.
        let tolerated = list(spec, "/tolerations").iter().any(|one| {
            one["key"] == "cattle.io/os"
                && (one["operator"] == "Exists" || one["value"] == "linux")
                && (one["effect"].is_null() || one["effect"] == "NoSchedule")
        });
        ensure!(tolerated, "{}: {}", owner.name(), spec["tolerations"]);
        // A toleration of all taints would allow nodes that should be empty.
        let all = list(spec, "/tolerations").iter().any(|one| one["operator"] == "Exists" && one.get("key").is_none());
        ensure!(!all, "{} tolerates everything", owner.name());
    }
    Ok(())
}

/// A CPU limit can throttle an admission webhook, and every pod of the cluster then waits.
pub fn requests_and_no_cpu_limit(file: &Rendered) -> Result<()> {
    for owner in file.templates()? {
        for container in owner.containers() {
            let resources = &container["resources"];
            for wanted in ["/requests/cpu", "/requests/memory", "/limits/memory"] {
                ensure!(!text(resources, wanted).is_empty(), "{}: no {wanted}: {resources}", owner.name());
            }
            ensure!(resources["limits"].get("cpu").is_none(), "{}: {resources}", owner.name());
        }
    }
    Ok(())
}

/// Pod Security `restricted`; the API server also checks it, and reports unknown fields.
pub fn nothing_that_pod_security_restricts(file: &Rendered) -> Result<()> {
    for owner in file.templates()? {
        let (name, spec) = (owner.name(), owner.spec());
        let pod = &spec["securityContext"];
        ensure!(
            pod["runAsNonRoot"] == true && pod["seccompProfile"] == json!({"type": "RuntimeDefault"}),
            "{name}: {pod}"
        );
        // OpenShift assigns each namespace a range of users, and rejects any other user: null sets none.
        for user in ["runAsUser", "runAsGroup"] {
            ensure!(pod[user] == *file.value("/runAsUser"), "{name}: {user} {}", pod[user]);
        }
        ensure!(pod.get("fsGroup").is_none() && pod.get("supplementalGroups").is_none(), "{name}: {pod}");
        for container in owner.containers() {
            let own = &container["securityContext"];
            ensure!(own["allowPrivilegeEscalation"] == false, "{name}: {own}");
            ensure!(own["readOnlyRootFilesystem"] == true, "{name}: {own}");
            ensure!(own["capabilities"] == json!({"drop": ["ALL"]}), "{name}: {own}");
            for never in ["runAsUser", "runAsGroup", "privileged", "procMount", "seLinuxOptions", "windowsOptions"] {
                ensure!(own.get(never).is_none(), "{name}: {never}");
            }
        }
        let host = owner.is_deployment() && name.ends_with("-webhook") && file.is_on("/webhook/hostNetwork")
            || name.ends_with("-controller") && file.is_on("/controller/hostNetwork");
        ensure!((spec["hostNetwork"] == true) == host, "{name}: hostNetwork {}", spec["hostNetwork"]);
        if host {
            // Otherwise it uses the node's resolver, which does not resolve Services.
            ensure!(spec["dnsPolicy"] == "ClusterFirstWithHostNet", "{name}: dnsPolicy {}", spec["dnsPolicy"]);
        }
        for never in ["hostPID", "hostIPC", "shareProcessNamespace", "nodeName"] {
            ensure!(spec.get(never).is_none_or(|value| *value == false), "{name}: {never}");
        }
        for volume in list(spec, "/volumes") {
            ensure!(volume.get("hostPath").is_none(), "{name}: {volume}");
        }
    }
    Ok(())
}

pub fn probes_ask_the_admin_port(file: &Rendered) -> Result<()> {
    for owner in file.deployments()? {
        let part = owner.name().replace("Deployment mullion-", "");
        let admin = file.value(&format!("/{part}/adminPort"));
        let container = *owner.containers().first().context("no container")?;
        let on_host = owner.spec()["hostNetwork"] == true;
        let port_of = |wanted: &Value| -> Value {
            list(container, "/ports")
                .iter()
                .find(|port| port["name"] == *wanted || port["containerPort"] == *wanted)
                .map_or(Value::Null, |port| port["containerPort"].clone())
        };
        for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
            let get = &container[probe]["httpGet"];
            ensure!(get["path"] == path && port_of(&get["port"]) == *admin, "{part}: {probe} {get}, port {admin}");
            let host = if on_host { json!("127.0.0.1") } else { Value::Null };
            ensure!(get["host"] == host, "{part}: {probe} {get}");
        }
        // A slow start must not kill it: a webhook that waits is alive, but not ready.
        let bind =
            list(container, "/args").iter().filter_map(Value::as_str).find_map(|one| one.strip_prefix("--admin-bind="));
        let bind: std::net::SocketAddr = bind.context("no --admin-bind")?.parse()?;
        // Every process of a node can reach its loopback address, and everyone the node's other addresses.
        let ip_fits = if on_host { bind.ip().is_loopback() } else { bind.ip().is_unspecified() };
        ensure!(json!(bind.port()) == *admin && ip_fits, "{part}: {bind}");
        let fixed = list(container, "/args").contains(&json!("--fixed-log-level"));
        ensure!(fixed == on_host, "{part}: --fixed-log-level {fixed}");
    }
    Ok(())
}

pub fn volumes_are_there_and_used(file: &Rendered) -> Result<()> {
    for owner in file.templates()? {
        let name = owner.name();
        let volumes: Vec<_> = list(owner.spec(), "/volumes").iter().map(|volume| text(volume, "/name")).collect();
        let mounts: Vec<_> = owner.containers().into_iter().flat_map(|one| list(one, "/volumeMounts")).collect();
        for mount in &mounts {
            ensure!(volumes.contains(&text(mount, "/name")), "{name}: no volume for {mount}");
            ensure!(mount["readOnly"] == true || text(mount, "/mountPath") == "/tmp", "{name}: writable: {mount}");
        }
        for volume in &volumes {
            ensure!(mounts.iter().any(|mount| mount["name"] == *volume), "{name}: {volume} is not mounted");
        }
        let account = text(owner.spec(), "/serviceAccountName");
        if file.is_on("/serviceAccount/create") || file.value("/serviceAccount/create").is_null() {
            file.named("ServiceAccount", account).with_context(|| name.clone())?;
        }
        let class = text(owner.spec(), "/priorityClassName");
        ensure!(class == text(&file.values, "/priorityClass/name"), "{name}: priority class {class:?}");
    }
    Ok(())
}

/// A drain evicts one replica after the other: neither both at once nor none.
pub fn budgets_leave_a_way(file: &Rendered) -> Result<()> {
    for owner in file.deployments()? {
        let part = owner.name().replace("Deployment mullion-", "");
        let labels = &owner.template["metadata"]["labels"];
        let budgets: Vec<_> = file
            .of_kind("PodDisruptionBudget")?
            .filter(|budget| selects(&budget["spec"]["selector"]["matchLabels"], labels))
            .collect();
        if part == "webhook" || !budgets.is_empty() {
            ensure!(budgets.len() == 1, "{part}: {} budgets", budgets.len());
            let spec = &budgets[0]["spec"];
            let replicas = owner.owner["spec"]["replicas"].as_u64().context("no replicas")?;
            ensure!(spec.get("minAvailable").is_none(), "{part}: with one replica a drain would wait for ever: {spec}");
            // Percentages are rounded up (k8s.io/apimachinery/pkg/util/intstr).
            let goes = match &spec["maxUnavailable"] {
                Value::String(percent) => {
                    (percent.trim_end_matches('%').parse::<u64>().context(percent.clone())? * replicas).div_ceil(100)
                }
                number => number.as_u64().context("no maxUnavailable")?,
            };
            ensure!(goes >= 1 && (goes < replicas || replicas == 1), "{part}: {goes} of {replicas}: {spec}");
            ensure!(
                spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow",
                "{part}: a broken pod holds up a drain: {spec}"
            );
        }
        // A selector of one component that selects another's pods would count them.
        for other in file.deployments()?.iter().filter(|other| other.name() != owner.name()) {
            let selector = &owner.owner["spec"]["selector"]["matchLabels"];
            ensure!(selects(selector, labels), "{part}: {selector} does not take {labels}");
            ensure!(!selects(selector, &other.template["metadata"]["labels"]), "{part}: {selector}");
        }
    }
    Ok(())
}

pub fn replicas_spread(file: &Rendered) -> Result<()> {
    for owner in file.deployments()? {
        let constraints = list(owner.spec(), "/topologySpreadConstraints");
        let labels = &owner.template["metadata"]["labels"];
        let keys: Vec<_> = constraints.iter().map(|one| text(one, "/topologyKey")).collect();
        ensure!(keys.contains(&"kubernetes.io/hostname"), "{}: {keys:?}", owner.name());
        for one in constraints {
            // A cluster with one Linux node, or one that is starting, still gets both replicas.
            ensure!(one["whenUnsatisfiable"] == "ScheduleAnyway", "{}: {one}", owner.name());
            ensure!(selects(&one["labelSelector"]["matchLabels"], labels), "{}: {one}", owner.name());
        }
        let strategy = &owner.owner["spec"]["strategy"];
        if owner.spec()["hostNetwork"] == true {
            // If there are as many nodes as replicas, a third pod has no free port until another pod ends.
            ensure!(strategy["rollingUpdate"]["maxUnavailable"] == 1, "{}: {strategy}", owner.name());
        } else if owner.name().ends_with("-webhook") {
            ensure!(strategy["rollingUpdate"]["maxUnavailable"] == 0, "{}: {strategy}", owner.name());
        }
    }
    Ok(())
}
