//! Linux-only fields on Windows pods, compared with the API server.

use anyhow::{Context as _, Result, ensure};
use mullion_cluster::Release;
use serde_json::{Value, json};

use crate::shared::*;
use crate::stored_fields::stores;

const WINDOWS: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";

/// Every row of the API server's `validateWindows`, with every kind of value it can have, except fields that the release
/// does not store.
fn cases(release: Release) -> Vec<(&'static str, &'static str, Value)> {
    const SPEC: &str = "/spec";
    const POD: &str = "/spec/securityContext";
    const CONTAINER: &str = "/spec/containers/0/securityContext";
    const INIT: &str = "/spec/initContainers/0/securityContext";
    let mut cases = vec![
        (POD, "seLinuxChangePolicy", json!("MountOption")),
        (POD, "seLinuxChangePolicy", json!("Recursive")),
        (POD, "fsGroup", json!(0)),
        (POD, "fsGroup", json!(2000)),
        (POD, "fsGroupChangePolicy", json!("OnRootMismatch")),
        (POD, "sysctls", json!([])),
        (POD, "sysctls", json!([{"name": "net.ipv4.tcp_syncookies", "value": "1"}])),
        (POD, "sysctls", json!([{"name": "kernel.msgmax", "value": "1"}])),
        (POD, "supplementalGroups", json!([])),
        (POD, "supplementalGroups", json!([1, 2])),
        (POD, "supplementalGroupsPolicy", json!("Merge")),
        (POD, "supplementalGroupsPolicy", json!("Strict")),
        (SPEC, "hostUsers", json!(true)),
        (SPEC, "hostUsers", json!(false)),
        (SPEC, "hostPID", json!(true)),
        (SPEC, "hostPID", json!(false)),
        (SPEC, "hostIPC", json!(true)),
        (SPEC, "hostIPC", json!(false)),
        (SPEC, "hostNetwork", json!(true)),
        (SPEC, "shareProcessNamespace", json!(true)),
        (SPEC, "shareProcessNamespace", json!(false)),
        (SPEC, "resources", json!({"limits": {"cpu": "1", "memory": "1Gi"}})),
    ];
    for place in [POD, CONTAINER, INIT] {
        cases.extend([
            (place, "appArmorProfile", json!({"type": "RuntimeDefault"})),
            (place, "appArmorProfile", json!({"type": "Unconfined"})),
            (place, "appArmorProfile", json!({"type": "Localhost", "localhostProfile": "p"})),
            (place, "seLinuxOptions", json!({})),
            (place, "seLinuxOptions", json!({"level": "s0:c1,c2"})),
            (place, "seccompProfile", json!({"type": "RuntimeDefault"})),
            (place, "seccompProfile", json!({"type": "Unconfined"})),
            (place, "seccompProfile", json!({"type": "Localhost", "localhostProfile": "p.json"})),
            (place, "runAsUser", json!(0)),
            (place, "runAsUser", json!(1000)),
            (place, "runAsGroup", json!(0)),
            (place, "runAsGroup", json!(1000)),
        ]);
    }
    for place in [CONTAINER, INIT] {
        cases.extend([
            (place, "capabilities", json!({})),
            (place, "capabilities", json!({"drop": ["ALL"]})),
            (place, "capabilities", json!({"add": ["NET_BIND_SERVICE"]})),
            (place, "capabilities", json!({"add": ["SYS_PTRACE"]})),
            (place, "readOnlyRootFilesystem", json!(true)),
            (place, "readOnlyRootFilesystem", json!(false)),
            (place, "privileged", json!(true)),
            (place, "privileged", json!(false)),
            (place, "allowPrivilegeEscalation", json!(true)),
            (place, "allowPrivilegeEscalation", json!(false)),
            (place, "procMount", json!("Default")),
        ]);
    }
    cases.retain(|(place, field, value)| stores(release, &object_with(release, place, field, value)));
    cases
}

fn object_with(release: Release, place: &str, field: &str, value: &Value) -> Value {
    let mut container = json!({"name": "c", "image": WINDOWS});
    // Fields without a rule.
    let rules = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]);
    let more = json!({"spec": {"containers": [{"restartPolicyRules": rules}]}});
    if stores(release, &more) {
        container["restartPolicy"] = json!("Never");
        container["restartPolicyRules"] = rules;
    }
    let init = json!({"name": "i", "image": WINDOWS});
    let mut object = pod("p", json!({"containers": [container], "initContainers": [init], "hostname": "h"}));
    let mut at = &mut object;
    for token in place.split('/').skip(1) {
        at = match token.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[token],
        };
        if at.is_null() {
            *at = json!({});
        }
    }
    at[field] = value.clone();
    object
}

/// The pod with the OS field of its author, besides its Windows image.
fn with_os_field_of_author(mut object: Value) -> Value {
    object["spec"]["os"] = json!({"name": "windows"});
    object
}

pub async fn every_linux_only_value_is_repaired_or_denied(shared: &Shared) -> Result<()> {
    let (with, without) = (shared.namespace("fields").await?, shared.plane.namespace("fields-plain").await?);
    let (mut repaired, mut denied) = (0, 0);
    let release = Release::under_test()?;
    for (place, field, value) in cases(release) {
        for has_os_field in [false, true] {
            let sent = object_with(release, place, field, &value);
            // The API server's own result for the pod, without any webhook: what "as sent" means after defaulting. It
            // may reject the value itself (its feature gates decide); then the pod without the field is the reference.
            let plain = match dry_run(&without, &sent).await {
                Ok(plain) => plain,
                Err(_) => dry_run(&without, &object_with(release, place, "absent", &Value::Null)).await?,
            };
            let sent = if has_os_field { with_os_field_of_author(sent) } else { sent };
            match dry_run(&with, &sent).await {
                Ok(stored) => {
                    ensure!(
                        stored["spec"]["os"]["name"] == "windows",
                        "{place}/{field} {value}: the OS field is not set"
                    );
                    let touched = differences(&plain["spec"], &stored["spec"], "/spec");
                    let own = format!("{place}/{field}");
                    let stray: Vec<&String> =
                        touched.iter().filter(|path| !path.starts_with(&own) && !declared(path)).collect();
                    ensure!(stray.is_empty(), "{place}/{field} {value} touched {stray:?}");
                    repaired += 1;
                }
                Err(error) => {
                    let text = format!("{error:#}");
                    let ours = text.contains("mullion.dev\" denied the request") && text.contains(field);
                    ensure!(ours && text.contains("MUL2"), "{place}/{field} {value}: {text}");
                    denied += 1;
                }
            }
        }
    }
    ensure!(repaired > 80 && denied > 20, "{repaired} repaired, {denied} denied");
    Ok(())
}

pub async fn every_value_in_an_ephemeral_container_is_repaired_or_denied(shared: &Shared) -> Result<()> {
    let namespace = shared.namespace("ephemeral").await?;
    create(&namespace, &pod("p", json!({"containers": [{"name": "c", "image": WINDOWS}]}))).await?;
    bound(&namespace, 1).await?;
    let mut stored = get(&namespace, "Pod", "p").await?;
    ensure!(stored["spec"]["os"]["name"] == "windows", "{stored}");
    // Its status still changes; only the spec matters here.
    stored["metadata"].as_object_mut().context("metadata")?.remove("resourceVersion");
    let (mut repaired, mut denied) = (0, 0);
    for (_, field, value) in
        cases(Release::under_test()?).into_iter().filter(|(place, ..)| place.starts_with("/spec/containers"))
    {
        let mut requested = stored.clone();
        requested["spec"]["ephemeralContainers"] =
            json!([{"name": "e", "image": WINDOWS, "securityContext": {field: value}}]);
        match dry_run_ephemeral(&namespace, &requested).await {
            Ok(answer) => {
                let left = &answer["spec"]["ephemeralContainers"][0]["securityContext"];
                ensure!(left.get(field).is_none(), "{field} {value}: {left}");
                ensure!(
                    differences(&stored["spec"], &answer["spec"], "") == ["/ephemeralContainers"],
                    "{field} {value}"
                );
                repaired += 1;
            }
            Err(error) => {
                let text = format!("{error:#}");
                let ours = text.contains("mullion.dev\" denied the request") && text.contains("MUL2");
                ensure!(
                    ours && text.contains(&format!("spec.ephemeralContainers[0].securityContext.{field}")),
                    "{text}"
                );
                denied += 1;
            }
        }
    }
    ensure!(repaired > 12 && denied > 3, "{repaired} repaired, {denied} denied");
    Ok(())
}
