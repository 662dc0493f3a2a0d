//! Where pods land.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::shared::*;

const LTSC2019: &str = "mcr.microsoft.com/windows/servercore:ltsc2019";
const LTSC2022: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";
const LTSC2025: &str = "mcr.microsoft.com/windows/servercore:ltsc2025";

fn container(image: &str) -> Value {
    json!({"name": "c", "image": image})
}

pub async fn every_windows_image_lands_where_it_can_run(shared: &Shared) -> Result<()> {
    let cases: [(&str, &[&str]); 6] = [
        (LTSC2019, &["win2019"]),
        ("registry.example.com/shop/web:4.2-windowsservercore-1809", &["win2019"]),
        (LTSC2022, &["win2022", "win2025"]),
        ("registry.example.com/mirror/windows/nanoserver:10.0.20348.2655", &["win2022", "win2025"]),
        (LTSC2025, &["win2025"]),
        ("registry.example.com/shop/web:4.2-nanoserver-ltsc2025", &["win2025"]),
    ];
    for (image, nodes) in cases {
        let namespace = shared.namespace("image").await?;
        let mut deployment = workload("Deployment", "app", image);
        deployment["spec"]["replicas"] = json!(4);
        create(&namespace, &deployment).await?;
        let landed = bound(&namespace, 4).await?;
        ensure!(landed.iter().all(|node| nodes.contains(&node.as_str())), "{image} landed on {landed:?}");
    }
    Ok(())
}

pub async fn linux_and_multi_os_pods_land_on_linux(shared: &Shared) -> Result<()> {
    let namespace = shared.namespace("linux").await?;
    for (at, image) in ["nginx:1.27", "registry.k8s.io/pause:3.10", "registry.example.com/app"].into_iter().enumerate()
    {
        let mut deployment = workload("Deployment", &format!("app-{at}"), image);
        deployment["spec"]["replicas"] = json!(4);
        create(&namespace, &deployment).await?;
    }
    create(&namespace, &workload("Job", "hook", "registry.example.com/migrate:1")).await?;
    let landed = bound(&namespace, 13).await?;
    ensure!(landed.iter().all(|node| LINUX_NODES.contains(&node.as_str())), "{landed:?}");
    for pod in pods(&namespace).await? {
        ensure!(pod["spec"].get("os").is_none(), "never spec.os on Linux");
    }
    Ok(())
}

pub async fn an_opaque_image_stays_in_its_pool(shared: &Shared) -> Result<()> {
    let namespace = shared.namespace("pool").await?;
    let mut deployment = workload("Deployment", "app", "registry.example.com/legacy/billing:7");
    deployment["spec"]["template"]["spec"]["nodeSelector"] = json!({"agentpool": "win19"});
    deployment["spec"]["replicas"] = json!(2);
    create(&namespace, &deployment).await?;
    let landed = bound(&namespace, 2).await?;
    ensure!(landed == ["win2019", "win2019"], "{landed:?}");
    Ok(())
}

pub async fn host_process_pods_keep_host_network(shared: &Shared) -> Result<()> {
    let namespace = shared.namespace("hpc").await?;
    let options = json!({"windowsOptions": {"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"}});
    let mut by_container = container(LTSC2019);
    by_container["securityContext"] = options.clone();
    let specs = [
        ("pod-level", json!({"hostNetwork": true, "securityContext": options, "containers": [container(LTSC2019)]})),
        ("container-level", json!({"hostNetwork": true, "containers": [by_container]})),
    ];
    for (name, spec) in specs {
        let stored = create(&namespace, &pod(name, spec)).await?;
        let spec = &stored["spec"];
        ensure!(spec["hostNetwork"] == true && spec["nodeSelector"]["kubernetes.io/os"] == "windows", "{spec}");
        ensure!(spec.get("runtimeClassName").is_none() && spec.get("affinity").is_none(), "no build pin: {spec}");
    }
    let landed = bound(&namespace, 2).await?;
    ensure!(landed.iter().all(|node| WINDOWS_NODES.contains(&node.as_str())), "{landed:?}");
    Ok(())
}

pub async fn bound_and_mirror_pods_are_left_alone(shared: &Shared) -> Result<()> {
    let namespace = shared.namespace("bound").await?;
    // On a Linux node nothing is added; on a Windows node selector and tolerations at most.
    let on_linux = pod("on-linux", json!({"nodeName": "linux-1", "containers": [container("app")]}));
    let stored = create(&namespace, &on_linux).await?;
    ensure!(stored["spec"].get("nodeSelector").is_none(), "{stored}");
    let mut odd = container("app");
    odd["securityContext"] = json!({"runAsUser": 1, "privileged": true});
    let on_windows = pod("on-windows", json!({"nodeName": "win2022", "containers": [odd]}));
    let stored = create(&namespace, &on_windows).await?;
    ensure!(stored["spec"].get("os").is_none() && stored["spec"].get("runtimeClassName").is_none(), "{stored}");
    ensure!(stored["spec"]["containers"][0]["securityContext"]["runAsUser"] == 1, "{stored}");

    let mut mirror = pod("mirror", json!({"nodeName": "win2019", "containers": [container(LTSC2019)]}));
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "0123456789abcdef"});
    let stored = create(&namespace, &mirror).await?;
    ensure!(stored["metadata"]["annotations"].as_object().is_some_and(|all| all.len() == 1), "{stored}");
    ensure!(stored["spec"].get("nodeSelector").is_none(), "{stored}");
    Ok(())
}

pub async fn a_pod_that_says_everything_is_stored_as_sent(shared: &Shared) -> Result<()> {
    let (with, without) = (shared.namespace("said").await?, shared.plane.namespace("said-plain").await?);
    let complete = [
        pod("linux", json!({"nodeSelector": {"kubernetes.io/os": "linux"}, "containers": [container("nginx:1.27")]})),
        pod(
            "windows",
            json!({"os": {"name": "windows"}, "nodeSelector": {"kubernetes.io/os": "windows"},
                "tolerations": [{"key": "os", "operator": "Exists"}], "containers": [container("app")]}),
        ),
    ];
    for object in complete {
        let (ours, plain) = (dry_run(&with, &object).await?, dry_run(&without, &object).await?);
        ensure!(ours["spec"] == plain["spec"], "{} became {}", plain["spec"], ours["spec"]);
        ensure!(ours["metadata"].get("annotations").is_none(), "{ours}");
    }
    Ok(())
}

pub async fn dry_run_and_a_second_pass_change_nothing_more(shared: &Shared) -> Result<()> {
    let namespace = shared.namespace("twice").await?;
    for image in [LTSC2019, LTSC2022, "nginx:1.27"] {
        let sent = pod("first", json!({"containers": [container(image)]}));
        let first = dry_run(&namespace, &sent).await?;
        // Else Mullion was not asked, and nothing below could fail.
        ensure!(first["spec"]["nodeSelector"]["kubernetes.io/os"].is_string(), "{image}: {first}");
        let mut again = pod("second", first["spec"].clone());
        again["metadata"]["annotations"] = first["metadata"]["annotations"].clone();
        again["metadata"]["labels"] = first["metadata"]["labels"].clone();
        let second = dry_run(&namespace, &again).await?;
        ensure!(second["spec"] == first["spec"], "{image}: {} became {}", first["spec"], second["spec"]);
        ensure!(second["metadata"]["annotations"] == first["metadata"]["annotations"], "{image}");
    }
    ensure!(pods(&namespace).await?.is_empty(), "a dry run stores nothing");
    Ok(())
}
