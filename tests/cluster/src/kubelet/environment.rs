//! A container's environment, command and arguments, as a kubelet derives them from the pod.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVarSource, Pod, Secret, Service};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

/// The values, besides the object itself, that field references of a pod may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    pub(super) pod: Ipv4Addr,
    pub(super) host: Ipv4Addr,
}

/// Variables by name: those of the Services, overridden by those of the container.
pub(super) async fn variables(
    client: &Client,
    pod: &Pod,
    container: &Container,
    addresses: Addresses,
) -> Result<BTreeMap<String, String>> {
    let namespace = pod.namespace().context("a pod without a namespace")?;
    let links = pod.spec.as_ref().and_then(|spec| spec.enable_service_links).unwrap_or(true);
    let mut known = BTreeMap::new();
    for (from, name) in [("default", Some("kubernetes")), (namespace.as_str(), None)] {
        let services: Api<Service> = Api::namespaced(client.clone(), from);
        let found = match name {
            Some(name) => vec![services.get(name).await?],
            None if links => services.list(&ListParams::default()).await?.items,
            None => Vec::new(),
        };
        for service in &found {
            of_service(service, &mut known);
        }
    }
    if container.env_from.as_ref().is_some_and(|sources| !sources.is_empty()) {
        bail!("envFrom is not simulated");
    }
    for variable in container.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (_, Some(source)) => {
                value_from(client, pod, source, addresses).await.with_context(|| variable.name.clone())?
            }
            (value, None) => Some(expand(value.as_deref().unwrap_or_default(), &known)),
        };
        known.extend(value.map(|value| (variable.name.clone(), value)));
    }
    Ok(known)
}

async fn value_from(client: &Client, pod: &Pod, source: &EnvVarSource, addresses: Addresses) -> Result<Option<String>> {
    let namespace = pod.namespace().unwrap_or_default();
    if let Some(field) = &source.field_ref {
        return value_of(pod, &field.field_path, addresses).map(Some);
    }
    let (found, what, optional) = if let Some(key) = &source.config_map_key_ref {
        let map = Api::<ConfigMap>::namespaced(client.clone(), &namespace).get_opt(&key.name).await?;
        let value = map.and_then(|map| map.data).and_then(|mut data| data.remove(&key.key));
        (value, format!("ConfigMap {}, key {}", key.name, key.key), key.optional)
    } else if let Some(key) = &source.secret_key_ref {
        let secret = Api::<Secret>::namespaced(client.clone(), &namespace).get_opt(&key.name).await?;
        let value = secret.and_then(|secret| secret.data).and_then(|mut data| data.remove(&key.key));
        let value = value.map(|bytes| String::from_utf8(bytes.0)).transpose()?;
        (value, format!("Secret {}, key {}", key.name, key.key), key.optional)
    } else {
        bail!("only fieldRef, configMapKeyRef and secretKeyRef are simulated");
    };
    if found.is_none() && optional != Some(true) {
        bail!("{what}: not found");
    }
    Ok(found)
}

/// The field of a pod at a downward API path.
pub(super) fn value_of(pod: &Pod, path: &str, addresses: Addresses) -> Result<String> {
    let spec = pod.spec.as_ref().context("a pod without a spec")?;
    let keyed = |prefix: &str| Some(path.strip_prefix(prefix)?.strip_suffix("']")?.to_owned());
    if let Some(key) = keyed("metadata.labels['") {
        return Ok(pod.labels().get(&key).cloned().unwrap_or_default());
    }
    if let Some(key) = keyed("metadata.annotations['") {
        return Ok(pod.annotations().get(&key).cloned().unwrap_or_default());
    }
    Ok(match path {
        "metadata.name" => pod.name_any(),
        "metadata.namespace" => pod.namespace().unwrap_or_default(),
        "metadata.uid" => pod.uid().unwrap_or_default(),
        "spec.nodeName" => spec.node_name.clone().unwrap_or_default(),
        "spec.serviceAccountName" => spec.service_account_name.clone().unwrap_or_default(),
        "status.podIP" | "status.podIPs" => addresses.pod.to_string(),
        "status.hostIP" | "status.hostIPs" => addresses.host.to_string(),
        other => bail!("the field {other} is not simulated"),
    })
}

/// The variables of a Service: `<NAME>_SERVICE_HOST` and the older ones of Docker's links. They can have a program's
/// own prefix: Service `mullion-webhook` sets `MULLION_WEBHOOK_PORT`.
fn of_service(service: &Service, known: &mut BTreeMap<String, String>) {
    let Some(spec) = &service.spec else { return };
    let Some(host) = spec.cluster_ip.as_deref().filter(|host| !host.is_empty() && *host != "None") else { return };
    let name = variable_name(&service.name_any());
    known.insert(format!("{name}_SERVICE_HOST"), host.to_owned());
    for (at, port) in spec.ports.iter().flatten().enumerate() {
        let number = port.port;
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let url = format!("{}://{host}:{number}", protocol.to_lowercase());
        if at == 0 {
            known.insert(format!("{name}_SERVICE_PORT"), number.to_string());
            known.insert(format!("{name}_PORT"), url.clone());
        }
        if let Some(called) = port.name.as_deref().filter(|called| !called.is_empty()) {
            known.insert(format!("{name}_SERVICE_PORT_{}", variable_name(called)), number.to_string());
        }
        let prefix = format!("{name}_PORT_{number}_{protocol}");
        for (suffix, value) in [
            ("", &url),
            ("_PROTO", &protocol.to_lowercase()),
            ("_PORT", &number.to_string()),
            ("_ADDR", &host.to_owned()),
        ] {
            known.insert(format!("{prefix}{suffix}"), value.clone());
        }
    }
}

fn variable_name(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}

/// Replaces `$(NAME)` by the variable's value; an unknown variable stays unchanged, and `$$` becomes `$`.
pub(super) fn expand(text: &str, known: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        rest = after;
        if let Some(escaped) = after.strip_prefix('$') {
            out.push('$');
            rest = escaped;
        } else if let Some((name, later)) = after.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match known.get(name) {
                Some(value) => out.push_str(value),
                None => out.extend(["$(", name, ")"]),
            }
            rest = later;
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_expanded_as_kubernetes_does() {
        let known = BTreeMap::from([("A".to_owned(), "1".to_owned()), ("B".to_owned(), "$(A)".to_owned())]);
        for (text, expected) in [
            ("", ""),
            ("--ns=$(A)", "--ns=1"),
            ("$(A)$(A)", "11"),
            ("$(B)", "$(A)"), // not expanded again
            ("$(C) $(A)", "$(C) 1"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$A $", "$A $"),
            ("$(A", "$(A"),
        ] {
            assert_eq!(expand(text, &known), expected, "{text}");
        }
    }

    #[test]
    fn services_reach_into_a_programs_own_prefix() {
        let service = json!({"metadata": {"name": "mullion-webhook"},
            "spec": {"clusterIP": "10.96.0.7", "ports": [{"name": "https", "port": 443}]}});
        let mut known = BTreeMap::new();
        of_service(&serde_json::from_value(service).unwrap(), &mut known);
        let found: Vec<_> = known.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            found,
            [
                "MULLION_WEBHOOK_PORT=tcp://10.96.0.7:443",
                "MULLION_WEBHOOK_PORT_443_TCP=tcp://10.96.0.7:443",
                "MULLION_WEBHOOK_PORT_443_TCP_ADDR=10.96.0.7",
                "MULLION_WEBHOOK_PORT_443_TCP_PORT=443",
                "MULLION_WEBHOOK_PORT_443_TCP_PROTO=tcp",
                "MULLION_WEBHOOK_SERVICE_HOST=10.96.0.7",
                "MULLION_WEBHOOK_SERVICE_PORT=443",
                "MULLION_WEBHOOK_SERVICE_PORT_HTTPS=443",
            ]
        );
    }

    #[test]
    fn the_downward_api_knows_its_fields() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"a/b": "c"}},
            "spec": {"nodeName": "l1", "serviceAccountName": "s", "containers": []},
        }))
        .unwrap();
        let addresses = Addresses { pod: Ipv4Addr::new(10, 128, 0, 2), host: Ipv4Addr::new(10, 128, 0, 3) };
        for (path, expected) in [
            ("metadata.name", "p"),
            ("metadata.namespace", "n"),
            ("metadata.labels['a/b']", "c"),
            ("metadata.annotations['x']", ""),
            ("spec.nodeName", "l1"),
            ("status.podIP", "10.128.0.2"),
            ("status.hostIP", "10.128.0.3"),
        ] {
            assert_eq!(value_of(&pod, path, addresses).unwrap(), expected, "{path}");
        }
        assert!(value_of(&pod, "spec.priority", addresses).is_err());
    }
}
