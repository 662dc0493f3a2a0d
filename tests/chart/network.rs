//! Connections: Services, network policies, monitors.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::rendered::{Rendered, Template, list, selects, text};

/// The number of a port of a pod, by name or number.
fn container_port(owner: &Template<'_>, wanted: &Value) -> Option<Value> {
    let ports = owner.containers().into_iter().flat_map(|container| list(container, "/ports"));
    ports
        .into_iter()
        .find(|port| port["name"] == *wanted || port["containerPort"] == *wanted)
        .map(|port| port["containerPort"].clone())
}

fn selected<'a>(file: &'a Rendered, selector: &Value) -> Result<Vec<Template<'a>>> {
    let mut all = file.deployments()?;
    all.retain(|owner| selects(selector, &owner.template["metadata"]["labels"]));
    Ok(all)
}

pub fn services_reach_their_pods(file: &Rendered) -> Result<()> {
    for service in file.of_kind("Service")? {
        let name = text(service, "/metadata/name");
        let owners = selected(file, &service["spec"]["selector"])?;
        ensure!(owners.len() == 1 && owners[0].name() == format!("Deployment {name}"), "{name}: {service}");
        let admin = !(name.ends_with("-webhook") && file.is_on("/webhook/hostNetwork"));
        ensure!(list(service, "/spec/ports").iter().any(|port| port["name"] == "admin") == admin, "{service}");
        for port in list(service, "/spec/ports") {
            let reached = container_port(&owners[0], &port["targetPort"]);
            ensure!(reached.is_some(), "{name}: no process listens at {port}");
        }
    }
    let webhook = file.named("Service", "mullion-webhook")?;
    let ports = list(webhook, "/spec/ports");
    let https = ports.iter().find(|port| port["port"] == 443).context("no port 443")?;
    let owners = selected(file, &webhook["spec"]["selector"])?;
    let reached = container_port(owners.first().context("no pods")?, &https["targetPort"]);
    ensure!(reached.as_ref() == Some(file.value("/webhook/port")), "443 goes to {reached:?}");
    let bind = owners.iter().flat_map(Template::containers).flat_map(|container| list(container, "/args"));
    let bind = bind.filter_map(Value::as_str).find_map(|one| one.strip_prefix("--bind=")).context("no --bind")?;
    let bind: std::net::SocketAddr = bind.parse()?;
    ensure!(json!(bind.port()) == *file.value("/webhook/port") && bind.ip().is_unspecified(), "{bind}");
    Ok(())
}

/// The address of the API server is unknown (a node, a tunnel's pod, an address outside). The webhook's port must be
/// open to all, because otherwise the policy would block it, unless the values contain the address.
pub fn policies_allow_required_clients(file: &Rendered) -> Result<()> {
    let all: Vec<_> = file.of_kind("NetworkPolicy")?.collect();
    ensure!(all.is_empty() != file.is_on("/networkPolicy/enabled"), "{} policies", all.len());
    for policy in &all {
        let name = text(policy, "/metadata/name");
        let owners = selected(file, &policy["spec"]["podSelector"]["matchLabels"])?;
        ensure!(!owners.is_empty(), "{name} takes no pods");
        let is_webhook = owners.iter().any(|owner| owner.name().ends_with("-webhook"));
        if is_webhook && list(policy, "/spec/policyTypes").contains(&json!("Ingress")) {
            let open = list(policy, "/spec/ingress").iter().any(|rule| {
                list(rule, "/from") == list(file.value("/networkPolicy/apiServerFrom"), "")
                    && list(rule, "/ports").iter().any(|port| {
                        owners
                            .iter()
                            .filter_map(|owner| container_port(owner, &port["port"]))
                            .any(|port| port == *file.value("/webhook/port"))
                    })
            });
            ensure!(open, "{name} keeps the API server out: {}", policy["spec"]["ingress"]);
        }
        // The API server's address is not that of a pod, and differs between clusters.
        if list(policy, "/spec/policyTypes").contains(&json!("Egress")) {
            let rules = list(policy, "/spec/egress");
            ensure!(
                rules.iter().any(|rule| list(rule, "/to").is_empty()),
                "{name} keeps pods from the API server: {rules:?}"
            );
        }
    }
    Ok(())
}

pub fn monitors_find_their_services(file: &Rendered) -> Result<()> {
    let monitors: Vec<_> = file.of_kind("ServiceMonitor")?.collect();
    ensure!(
        monitors.is_empty() != file.is_on("/monitoring/serviceMonitor/enabled"),
        "{} ServiceMonitors",
        monitors.len()
    );
    let mut scraped = Vec::new();
    for monitor in &monitors {
        for service in file
            .of_kind("Service")?
            .filter(|service| selects(&monitor["spec"]["selector"]["matchLabels"], &service["metadata"]["labels"]))
        {
            for endpoint in list(monitor, "/spec/endpoints") {
                ensure!(text(endpoint, "/path") == "/metrics" || endpoint.get("path").is_none(), "{endpoint}");
                let ports = list(service, "/spec/ports");
                let port = ports.iter().find(|port| port["name"] == endpoint["port"]);
                let port =
                    port.with_context(|| format!("{} has no port {}", service["metadata"]["name"], endpoint["port"]))?;
                let owners = selected(file, &service["spec"]["selector"])?;
                let reached = container_port(owners.first().context("no pods")?, &port["targetPort"]);
                let program = text(service, "/metadata/name").replace("mullion-", "");
                ensure!(
                    reached.as_ref() == Some(file.value(&format!("/{program}/adminPort"))),
                    "{program}: {reached:?}"
                );
                scraped.push(program);
            }
        }
    }
    scraped.sort();
    ensure!(monitors.is_empty() || scraped == ["controller", "webhook"], "scraped: {scraped:?}");
    let rules = file.of_kind("PrometheusRule")?.count();
    ensure!((rules == 1) == file.is_on("/monitoring/prometheusRule/enabled"), "{rules} PrometheusRules");
    let dashboards = file
        .of_kind("ConfigMap")?
        .filter(|object| object["metadata"]["labels"]["grafana_dashboard"].is_string())
        .count();
    ensure!((dashboards >= 1) == file.is_on("/monitoring/dashboard/enabled"), "{dashboards} dashboards");
    Ok(())
}
