#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::too_many_lines, reason = "tables")]

use mullion_engine::model::windows::Build;
use mullion_policy::PolicySet;
use serde_json::json;

use super::*;
use crate::plan;
use crate::report::{PlanReport, PlannedWorkload};
use crate::test_nodes::context;
use mullion_survey::Facts;
use mullion_survey::analysis::{RunningImages, ViewContext, group};
use mullion_survey::inventory::{Inventory, InventoryReader};

fn inventory(objects: &[Value]) -> Inventory {
    let mut reader = InventoryReader::default();
    for object in objects {
        reader.add(object.clone(), None, &mut |_| {});
    }
    reader.finish()
}

/// A workload for Windows. `pod`: the spec of its pods, with a container `web` if it has none.
fn workload(kind: &str, mut pod: Value, more: &Value) -> Value {
    pod["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
    if pod["containers"].is_null() {
        pod["containers"] = json!([{"name": "web", "image": "registry.example.com/web:1-nanoserver-ltsc2022"}]);
    }
    for container in pod["containers"].as_array_mut().unwrap() {
        if container["image"].is_null() {
            container["image"] = json!("registry.example.com/web:1-nanoserver-ltsc2022");
        }
    }
    let (api, spec) = if kind == "Pod" { ("v1", pod) } else { ("apps/v1", json!({"template": {"spec": pod}})) };
    let mut object =
        json!({"apiVersion": api, "kind": kind, "metadata": {"namespace": "a", "name": "web"}, "spec": spec});
    for (key, value) in more.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    object
}

/// What the workload uses besides Nano Server, which its default image shows.
fn uses_of(objects: &[Value]) -> Vec<(Use, String)> {
    let inventory = &inventory(objects);
    let fleet = &Fleet::new(inventory);
    let running = &RunningImages::new(inventory, fleet);
    let policies = &PolicySet::built_in();
    let owned = &group(inventory)[0];
    let view = WorkloadView::new(owned, ViewContext { inventory, fleet, running, policies });
    let mut found = uses(&view, &owned.object_value());
    if found.get(&Use::NanoServer).is_some_and(|path| path.ends_with("spec.containers[0].image")) {
        found.remove(&Use::NanoServer);
    }
    found.into_iter().collect()
}

const AT_IMAGE: &str = "spec.template.spec.containers[0].image";
const AT_COMMAND: &str = "spec.template.spec.containers[0].command";

#[test]
fn every_use_has_the_field_that_shows_it() {
    let container = |fields: Value| {
        let mut container = fields;
        container["name"] = json!("web");
        json!({"containers": [container]})
    };
    let image = |image: &str| container(json!({"image": image}));
    let command = |command: &[&str]| container(json!({"command": command}));
    let volume = |volume: &Value| json!({"volumes": [{"name": "data", "emptyDir": {}}, volume]});
    let at_security = |field: &str| format!("spec.template.spec.securityContext.{field}");
    let cases: Vec<(Value, &[(Use, &str)])> = vec![
        (json!({}), &[]),
        (image("mcr.microsoft.com/windows/servercore:ltsc2022"), &[(Use::ServerCore, AT_IMAGE)]),
        (image("registry.example.com/web:1"), &[(Use::ServerCore, AT_IMAGE)]),
        (image("mcr.microsoft.com/dotnet/aspnet:10.0"), &[]),
        (image("mcr.microsoft.com/dotnet/sdk:10.0-windowsservercore-ltsc2022"), &[(Use::ServerCore, AT_IMAGE)]),
        (image("mcr.microsoft.com/windows:1809"), &[(Use::FullWindows, AT_IMAGE)]),
        (
            image("mirror.example.com/mcr.microsoft.com/dotnet/framework/aspnet:4.8-windowsservercore-ltsc2019"),
            &[(Use::ServerCore, AT_IMAGE), (Use::DotnetFramework, AT_IMAGE)],
        ),
        (image("mcr.microsoft.com/powershell:windowsservercore-1809"), &[(Use::ServerCore, AT_IMAGE)]),
        (command(&["powershell", "-File", "x.ps1"]), &[(Use::PowerShell, AT_COMMAND)]),
        // PowerShell 7 is no part of Windows.
        (command(&["pwsh", "-File", "x.ps1"]), &[]),
        (
            command(&["cmd", "/c", "WMIC os get caption & cscript x.vbs"]),
            &[(Use::Wmic, AT_COMMAND), (Use::VbScript, AT_COMMAND)],
        ),
        (
            container(json!({"args": ["/c", "wscript.exe x.vbs"]})),
            &[(Use::VbScript, "spec.template.spec.containers[0].args")],
        ),
        (
            container(json!({"lifecycle": {"preStop": {"exec": {"command": ["wmic", "process"]}}}})),
            &[(Use::Wmic, "spec.template.spec.containers[0].lifecycle.preStop.exec.command")],
        ),
        (
            volume(&json!({"name": "share", "csi": {"driver": "smb.csi.k8s.io"}})),
            &[(Use::SmbVolume, "spec.template.spec.volumes[1].csi.driver")],
        ),
        (
            volume(&json!({"name": "share", "flexVolume": {"driver": "microsoft.com/smb.cmd"}})),
            &[(Use::SmbVolume, "spec.template.spec.volumes[1].flexVolume.driver")],
        ),
        (
            volume(&json!({"name": "share", "azureFile": {"shareName": "x"}})),
            &[(Use::SmbVolume, "spec.template.spec.volumes[1].azureFile")],
        ),
        (volume(&json!({"name": "disk", "csi": {"driver": "disk.csi.azure.com"}})), &[]),
        (
            volume(&json!({"name": "data", "persistentVolumeClaim": {"claimName": "x"}})),
            &[(Use::PersistentVolume, "spec.template.spec.volumes[1].persistentVolumeClaim")],
        ),
        (
            volume(
                &json!({"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "azurefile-csi"}}}}),
            ),
            &[
                (Use::SmbVolume, "spec.template.spec.volumes[1].ephemeral.volumeClaimTemplate.spec.storageClassName"),
                (Use::PersistentVolume, "spec.template.spec.volumes[1].ephemeral"),
            ],
        ),
        (
            json!({"securityContext": {"windowsOptions": {"gmsaCredentialSpecName": "web"}}}),
            &[(Use::Gmsa, "spec.template.spec.securityContext.windowsOptions.gmsaCredentialSpecName")],
        ),
        (
            container(json!({"securityContext": {"windowsOptions": {"gmsaCredentialSpec": "{}"}}})),
            &[(Use::Gmsa, "spec.template.spec.containers[0].securityContext.windowsOptions.gmsaCredentialSpec")],
        ),
        (
            container(json!({"resources": {"limits": {"memory": "1Gi", "microsoft.com/directx": 1}}})),
            &[(Use::Gpu, "spec.template.spec.containers[0].resources.limits[microsoft.com/directx]")],
        ),
        (
            container(json!({"resources": {"requests": {"nvidia.com/gpu": 1}}})),
            &[(Use::Gpu, "spec.template.spec.containers[0].resources.requests[nvidia.com/gpu]")],
        ),
        (
            container(
                json!({"volumeMounts": [{"name": "a", "mountPath": "D:\\data"}, {"name": "b", "mountPath": "D:\\"}]}),
            ),
            &[(Use::DriveRootMount, "spec.template.spec.containers[0].volumeMounts[1].mountPath")],
        ),
        (
            container(json!({"volumeMounts": [{"name": "b", "mountPath": "z:"}]})),
            &[(Use::DriveRootMount, "spec.template.spec.containers[0].volumeMounts[0].mountPath")],
        ),
        (json!({"resources": {"limits": {"memory": "1Gi"}}}), &[(Use::PodResources, "spec.template.spec.resources")]),
        (json!({"resources": {}}), &[]),
        (json!({"securityContext": {"fsGroup": 1000, "supplementalGroups": []}}), &[(Use::RunAsUser, "")]),
        (
            container(json!({"securityContext": {"runAsUser": 0, "windowsOptions": {"runAsUserName": "x"}}})),
            &[(Use::RunAsUser, "spec.template.spec.containers[0].securityContext.runAsUser")],
        ),
    ];
    for (pod, expected) in cases {
        let fs_group = at_security("fsGroup");
        let expected: Vec<(Use, String)> = expected
            .iter()
            .map(|(what, path)| (*what, if path.is_empty() { fs_group.clone() } else { (*path).to_owned() }))
            .collect();
        assert_eq!(uses_of(&[workload("Deployment", pod.clone(), &json!({}))]), expected, "{pod}");
    }
}

#[test]
fn stateful_and_host_process_workloads() {
    for class in ["azurefile", "smb"] {
        let claims =
            json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"storageClassName": class}}]});
        assert_eq!(
            uses_of(&[workload("StatefulSet", json!({}), &claims)]),
            [
                (Use::SmbVolume, "spec.volumeClaimTemplates[0].spec.storageClassName".to_owned()),
                (Use::PersistentVolume, "spec.volumeClaimTemplates[0]".to_owned()),
                (Use::StatefulSet, "kind".to_owned()),
            ]
        );
    }
    let options = json!({"windowsOptions": {"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"}});
    let mounts = json!([{"name": "token", "mountPath": SERVICE_ACCOUNT}, {"name": "log", "mountPath": "/var/log"}]);
    let pod = json!({"hostNetwork": true, "securityContext": options, "containers": [{"name": "agent", "volumeMounts": mounts}]});
    // HostProcess containers have no base of their own.
    assert_eq!(
        uses_of(&[workload("DaemonSet", pod.clone(), &json!({}))]),
        [
            (Use::HostProcess, "spec.template.spec.securityContext.windowsOptions.hostProcess".to_owned()),
            (Use::HostProcessVolume, "spec.template.spec.containers[0].volumeMounts[1]".to_owned()),
        ]
    );
    // A pod by itself, and one whose owner was not read.
    assert_eq!(uses_of(&[workload("Pod", pod, &json!({}))])[1].1, "spec.containers[0].volumeMounts[1]");
    let mut owned = workload("Pod", json!({"volumes": [{"name": "share", "azureFile": {}}]}), &json!({}));
    owned["metadata"]["ownerReferences"] = json!([{"kind": "StatefulSet", "name": "db", "controller": true}]);
    assert_eq!(
        uses_of(&[owned]),
        [(Use::SmbVolume, "spec.template.spec.volumes[0].azureFile".to_owned()), (Use::StatefulSet, "kind".to_owned()),]
    );
}

fn plan_of(inventory: &Inventory) -> PlanReport {
    let (policies, facts) = (&PolicySet::built_in(), &Facts::built_in());
    plan(inventory, context(facts, policies, 26100))
}

fn risks_of(workload: &PlannedWorkload) -> Vec<(&str, &str)> {
    workload.risks.iter().map(|risk| (risk.name.as_str(), risk.path.as_str())).collect()
}

#[test]
fn what_makes_a_move_delicate() {
    let risks = |objects: &[Value]| -> Vec<(String, String)> {
        let report = plan_of(&inventory(objects));
        risks_of(&report.workloads[0]).into_iter().map(|(name, path)| (name.to_owned(), path.to_owned())).collect()
    };
    let two = json!({"replicas": 2});
    assert_eq!(risks(&[workload("Deployment", json!({}), &two)]), []);
    let ports = json!({"containers": [{"name": "web", "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81}]}]});
    let of = |name: &str, path: &str| (name.to_owned(), path.to_owned());
    let host_port = of("hostPort", "spec.template.spec.containers[0].ports[1].hostPort");
    assert_eq!(risks(&[workload("Deployment", ports.clone(), &two)]), std::slice::from_ref(&host_port));
    assert_eq!(
        risks(&[workload("Deployment", ports.clone(), &json!({}))]),
        [of("oneReplica", "spec.replicas"), host_port]
    );
    // Every port is one in the network of the node, and a DaemonSet has one pod on a node.
    let mut host_network = ports.clone();
    host_network["hostNetwork"] = json!(true);
    assert_eq!(risks(&[workload("Deployment", host_network, &two)]), []);
    assert_eq!(risks(&[workload("DaemonSet", ports, &json!({}))]), []);
    assert_eq!(risks(&[workload("Pod", json!({}), &json!({}))]), [of("barePod", "metadata.ownerReferences")]);
    let names = |pod: Value| -> Vec<String> {
        risks(&[workload("StatefulSet", pod, &two)]).into_iter().map(|(name, _)| name).collect()
    };
    let all = json!({
        "securityContext": {"windowsOptions": {"gmsaCredentialSpecName": "x"}},
        "volumes": [{"name": "share", "azureFile": {}}, {"name": "data", "persistentVolumeClaim": {}}],
        "containers": [{"name": "web", "resources": {"limits": {"nvidia.com/gpu": 1}}, "volumeMounts": [{"name": "data", "mountPath": "D:"}]}],
    });
    assert_eq!(names(all), ["smbVolume", "gmsa", "gpu", "driveRootMount", "persistentVolume", "statefulSet"]);
}

#[test]
fn one_replica_and_the_strategy() {
    let first =
        "It has one replica: its rolling update starts the new pod before the old one ends, but a drain interrupts it.";
    let last = "It has one replica: it is not available while its pod moves.";
    for (kind, strategy, expected) in [
        ("Deployment", json!({}), first),
        ("Deployment", json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}), first),
        ("Deployment", json!({"rollingUpdate": {"maxSurge": 1}}), first),
        ("Deployment", json!({"rollingUpdate": {"maxSurge": 0}}), last),
        ("Deployment", json!({"rollingUpdate": {"maxSurge": "0%"}}), last),
        ("Deployment", json!({"type": "Recreate"}), last),
        ("StatefulSet", json!({}), last),
    ] {
        let object = workload(kind, json!({}), &json!({"replicas": 1, "strategy": strategy}));
        let report = plan_of(&inventory(&[object]));
        let risk = report.workloads[0].risks.iter().find(|risk| risk.name == "oneReplica").unwrap();
        assert_eq!(risk.what, expected, "{kind} {strategy}");
    }
}

/// Azure/AKS#3471: mounts that Docker had made failed with the containerd of the new nodes.
#[test]
fn volumes_at_the_root_of_a_drive() {
    let node = |name: &str, build: u32, runtime: &str| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/os": "windows"}},
            "status": {"nodeInfo": {"kernelVersion": format!("10.0.{build}.1"), "containerRuntimeVersion": runtime}}})
    };
    let containers = json!([{"name": "web", "volumeMounts": [{"name": "a", "mountPath": "D:"}]}]);
    let mut pod = workload("Pod", json!({"nodeName": "old", "containers": containers}), &json!({}));
    pod["status"] = json!({"phase": "Running"});
    let without_pods = workload("Deployment", json!({"containers": containers}), &json!({"replicas": 2}));
    let start = "A volume is mounted at the root of a drive: containerd before 1.7";
    for (old, new, object, expected) in [
        ("containerd://1.6.35", None, &pod, Some(", which its present nodes have,")),
        ("containerd://1.6.35", Some("containerd://1.6.35"), &pod, Some(", which nodes of the new pool have,")),
        ("containerd://1.7.0", Some("containerd://1.6.35"), &pod, Some(", which nodes of the new pool have,")),
        ("containerd://1.7.0", None, &pod, None),
        ("containerd://2.0.4", Some("containerd://2.0.4"), &pod, None),
        ("docker://20.10.9", None, &pod, Some("")),
        ("containerd://1.7.0", None, &without_pods, Some("")),
    ] {
        let mut objects = vec![node("old", 20348, old), object.clone()];
        objects.extend(new.map(|runtime| node("new", 26100, runtime)));
        let report = plan_of(&inventory(&objects));
        let risk = report.workloads[0].risks.iter().find(|risk| risk.name == "driveRootMount");
        let expected = expected.map(|which| format!("{start}{which} cannot mount it."));
        assert_eq!(risk.map(|risk| risk.what.clone()), expected, "{old} {new:?}");
    }
}

#[test]
fn runtimes_and_sizes_are_named() {
    let node = |name: &str, kernel: &str, runtime: &str| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/os": "windows"}},
            "status": {"nodeInfo": {"kernelVersion": kernel, "containerRuntimeVersion": runtime}}})
    };
    let mut pod = workload(
        "Pod",
        json!({
            "nodeName": "old", "hostNetwork": true, "securityContext": {"windowsOptions": {"hostProcess": true}},
            "containers": [{"name": "web", "volumeMounts": [{"name": "a", "mountPath": "/a"}]}],
        }),
        &json!({}),
    );
    pod["status"] = json!({"phase": "Running"});
    let old = node("old", "10.0.20348.1", "containerd://1.6.35+azure");
    let sentence = |objects: &[Value]| {
        let report = plan_of(&inventory(objects));
        report.workloads[0].risks.iter().find(|risk| risk.name == "hostProcessVolume").unwrap().what.clone()
    };
    let text = "Its HostProcess containers mount volumes, whose paths changed with containerd 1.7; its nodes have containerd://1.6.35+azure now";
    assert_eq!(sentence(&[old.clone(), pod.clone()]), format!("{text}."));
    let new = node("new", "10.0.26100.1", "containerd://2.0.4+azure");
    assert_eq!(sentence(&[old, new, pod]), format!("{text}, the new ones containerd://2.0.4+azure."));

    let mut large = inventory(&[workload("Deployment", json!({}), &json!({"replicas": 2}))]);
    for (size, expected) in
        [(LARGE_IMAGE - 1, None), (5 << 30, Some("A new node pulls more than 5 GiB for the container web."))]
    {
        large
            .reported_images
            .sizes
            .insert("registry.example.com/web:1-nanoserver-ltsc2022".to_owned(), [(Build::new(26100), size)].into());
        let report = plan_of(&large);
        assert_eq!(report.workloads[0].risks.first().map(|risk| risk.what.as_str()), expected);
    }
}

/// Fields of other types than the API server takes.
#[test]
fn malformed_fields_show_nothing() {
    let values = [json!(null), json!(true), json!(7), json!("D:\\"), json!([]), json!({}), json!([null, [], {}, "x"])];
    let fields = [
        "/spec/template/spec/volumes",
        "/spec/template/spec/securityContext",
        "/spec/template/spec/containers",
        "/spec/template/spec/containers/0/volumeMounts",
        "/spec/template/spec/containers/0/command",
        "/spec/template/spec/containers/0/resources",
        "/spec/template/spec/containers/0/ports",
        "/spec/template/spec/containers/0/securityContext",
        "/spec/volumeClaimTemplates",
        "/spec/replicas",
    ];
    for field in fields {
        for value in &values {
            let full = json!({"containers": [{"name": "web", "volumeMounts": [], "command": [], "resources": {}, "ports": [],
                "securityContext": {}}], "volumes": [], "securityContext": {}});
            let mut object = workload("Deployment", full, &json!({"volumeClaimTemplates": [], "replicas": 2}));
            *object.pointer_mut(field).unwrap() = value.clone();
            let found = uses_of(std::slice::from_ref(&object));
            assert!(found.iter().all(|(what, _)| *what == Use::ServerCore), "{field} {value}: {found:?}");
            plan_of(&inventory(&[object]));
        }
    }
}
