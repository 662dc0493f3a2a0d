//! Linux-only fields on Windows pods, judged by the API server.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::shared::*;

const WINDOWS: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";

/// Every row of the API server's `validateWindows`, with every kind of value it can have.
fn cases() -> Vec<(&'static str, &'static str, Value)> {
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
    cases
}

fn subject(place: &str, field: &str, value: &Value) -> Value {
    let container = json!({"name": "c", "image": WINDOWS, "restartPolicyRules": [{"action": "Restart",
        "exitCodes": {"operator": "In", "values": [42]}}], "restartPolicy": "Never"});
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

/// Both ways a Windows pod can say so: by its image, and by its author's own seal.
fn sealed_by_author(mut object: Value) -> Value {
    object["spec"]["os"] = json!({"name": "windows"});
    object
}

pub async fn every_linux_only_value_is_repaired_or_refused(shared: &Shared) -> Result<()> {
    let (with, without) = (shared.namespace("fields").await?, shared.plane.namespace("fields-plain").await?);
    let (mut repaired, mut refused) = (0, 0);
    for (place, field, value) in cases() {
        for sealed in [false, true] {
            let sent = subject(place, field, &value);
            // The server's own reading of the pod, without any webhook: what "as sent" means after defaulting. It may
            // refuse the value by itself (its feature gates decide); then the pod without the field is the measure.
            let plain = match dry_run(&without, &sent).await {
                Ok(plain) => plain,
                Err(_) => dry_run(&without, &subject(place, "absent", &Value::Null)).await?,
            };
            let sent = if sealed { sealed_by_author(sent) } else { sent };
            match dry_run(&with, &sent).await {
                Ok(stored) => {
                    ensure!(stored["spec"]["os"]["name"] == "windows", "{place}/{field} {value}: not sealed");
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
                    refused += 1;
                }
            }
        }
    }
    ensure!(repaired > 80 && refused > 20, "{repaired} repaired, {refused} refused");
    Ok(())
}

pub async fn all_bad_fields_are_named_at_once(shared: &Shared) -> Result<()> {
    let namespace = shared.namespace("bad").await?;
    let bad = json!({"name": "c", "image": WINDOWS, "securityContext": {"runAsUser": 1000, "privileged": true}});
    let spec = json!({"hostNetwork": true, "containers": [bad.clone()]});
    let mut deployment = workload("Deployment", "bad", WINDOWS);
    deployment["spec"]["template"]["spec"] = spec.clone();
    let mut job = workload("Job", "bad", WINDOWS);
    job["spec"]["template"]["spec"] = spec.clone();
    job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    for object in [pod("bad", spec.clone()), sealed_by_author(pod("bad", spec)), deployment, job] {
        let Err(error) = create(&namespace, &object).await else { bail!("stored: {object}") };
        let text = format!("{error:#}");
        for word in ["runAsUser", "privileged", "hostNetwork", "MUL201", "MUL203", "MUL204", "windowsOptions"] {
            ensure!(text.contains(word), "{word} is not in: {text}");
        }
    }
    ensure!(pods(&namespace).await?.is_empty());
    Ok(())
}

pub async fn a_sealed_template_is_repaired_where_the_server_would_refuse_it(shared: &Shared) -> Result<()> {
    let (with, without) = (shared.namespace("sealed").await?, shared.plane.namespace("sealed-plain").await?);
    for kind in ["Deployment", "Job"] {
        let mut object = workload(kind, "app", WINDOWS);
        let spec = &mut object["spec"]["template"]["spec"];
        spec["os"] = json!({"name": "windows"});
        spec["securityContext"] = json!({"seccompProfile": {"type": "RuntimeDefault"}, "fsGroup": 1000});
        spec["containers"][0]["securityContext"] =
            json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
        ensure!(create(&without, &object).await.is_err(), "{kind}: the server takes it by itself");
        let stored = create(&with, &object).await?;
        let spec = &stored["spec"]["template"]["spec"];
        ensure!(spec.get("nodeSelector").is_none() && spec["securityContext"] == json!({}), "{kind}: {spec}");
    }
    let landed = bound(&with, 2).await?;
    ensure!(landed.iter().all(|node| node == "win2022" || node == "win2025"), "{landed:?}");
    Ok(())
}

pub async fn owned_pods_run_on(shared: &Shared) -> Result<()> {
    let namespace = shared.plane.namespace("before").await?;
    let mut deployment = workload("Deployment", "old", WINDOWS);
    deployment["spec"]["template"]["spec"]["securityContext"] = json!({"runAsUser": 1000});
    deployment["spec"]["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
    deployment["spec"]["template"]["spec"]["tolerations"] = json!([{"key": "os", "operator": "Exists"}]);
    create(&namespace, &deployment).await?;
    bound(&namespace, 1).await?;
    shared.adopt(&namespace).await?;
    let old = pods(&namespace).await?;
    let name = old[0]["metadata"]["name"].as_str().context("a name")?.to_owned();
    delete(&namespace, "Pod", &name).await?;
    // It ran with a field that Windows ignores; it still does, and its label says what is wrong.
    let new = mullion_cluster::wait_for("the pod that takes its place", DEADLINE, || async {
        let found = pods(&namespace).await.ok()?;
        found.into_iter().find(|pod| pod["metadata"]["name"] != name.as_str())
    })
    .await?;
    ensure!(new["metadata"]["labels"]["mullion.dev/findings"] == "MUL201", "{}", new["metadata"]);
    ensure!(new["spec"]["securityContext"]["runAsUser"] == 1000 && new["spec"].get("os").is_none());
    bound(&namespace, 1).await?;
    Ok(())
}

pub async fn every_value_in_an_ephemeral_container_is_repaired_or_refused(shared: &Shared) -> Result<()> {
    let namespace = shared.namespace("ephemeral").await?;
    create(&namespace, &pod("p", json!({"containers": [{"name": "c", "image": WINDOWS}]}))).await?;
    bound(&namespace, 1).await?;
    let mut stored = get(&namespace, "Pod", "p").await?;
    ensure!(stored["spec"]["os"]["name"] == "windows", "{stored}");
    // Its status still moves; only the spec matters here.
    stored["metadata"].as_object_mut().context("metadata")?.remove("resourceVersion");
    let (mut repaired, mut refused) = (0, 0);
    for (_, field, value) in cases().into_iter().filter(|(place, ..)| place.starts_with("/spec/containers")) {
        let mut asked = stored.clone();
        asked["spec"]["ephemeralContainers"] =
            json!([{"name": "e", "image": WINDOWS, "securityContext": {field: value}}]);
        match dry_run_ephemeral(&namespace, &asked).await {
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
                refused += 1;
            }
        }
    }
    ensure!(repaired > 12 && refused > 3, "{repaired} repaired, {refused} refused");
    Ok(())
}

/// Without user namespaces the server refuses `Unmasked` by itself, so this value needs another field beside it.
pub async fn an_unmasked_proc_is_refused_in_words(shared: &Shared) -> Result<()> {
    let namespace = shared.namespace("proc").await?;
    let mut sent = subject("/spec", "hostUsers", &json!(false));
    sent["spec"]["containers"][0]["securityContext"] = json!({"procMount": "Unmasked"});
    for object in [sent.clone(), sealed_by_author(sent)] {
        let Err(error) = dry_run(&namespace, &object).await else { bail!("accepted: {object}") };
        let text = format!("{error:#}");
        ensure!(text.contains("MUL212") && text.contains("procMount"), "{text}");
    }
    Ok(())
}

pub async fn debugging_a_sealed_pod_works(shared: &Shared) -> Result<()> {
    let namespace = shared.namespace("debug").await?;
    create(&namespace, &pod("target", json!({"containers": [{"name": "c", "image": WINDOWS}]}))).await?;
    bound(&namespace, 1).await?;
    let debug = ["debug", "--namespace", &namespace.name, "target", "--image", WINDOWS, "--container", "d"];
    // `restricted` drops all capabilities and forbids escalation: repaired. `general` adds SYS_PTRACE: refused in words.
    shared.plane.kubectl(&[&debug[..], &["--profile", "restricted"]].concat()).await?;
    let stored = get(&namespace, "Pod", "target").await?;
    let added = &stored["spec"]["ephemeralContainers"][0];
    ensure!(added["name"] == "d" && added["securityContext"].get("capabilities").is_none(), "{added}");
    let mut general = debug;
    general[7] = "e";
    let Err(error) = shared.plane.kubectl(&[&general[..], &["--profile", "general"]].concat()).await else {
        bail!("SYS_PTRACE on Windows was accepted");
    };
    ensure!(format!("{error:#}").contains("MUL209"), "{error:#}");
    Ok(())
}
