//! Builds of images against builds of nodes, in both modes of `place.build`.

use anyhow::{Result, bail, ensure};
use mullion_cluster::{Seen, wait_for};
use serde_json::{Value, json};

use crate::shared::*;

const LTSC2019: &str = "mcr.microsoft.com/windows/servercore:ltsc2019";
const LTSC2022: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";
const LTSC2025: &str = "mcr.microsoft.com/windows/servercore:ltsc2025";
const LTSC2016: &str = "mcr.microsoft.com/windows/servercore:ltsc2016";
const BUILD: &str = "node.kubernetes.io/windows-build";

fn of_images(name: &str, images: &[&str]) -> Value {
    let mut deployment = workload("Deployment", name, "placeholder");
    let containers = images.iter().enumerate().map(|(at, image)| json!({"name": format!("c{at}"), "image": image}));
    deployment["spec"]["template"]["spec"]["containers"] = containers.collect();
    deployment["spec"]["replicas"] = json!(4);
    deployment
}

pub async fn pods_land_on_nodes_that_run_all_their_images(shared: &Shared) -> Result<()> {
    // Images; where Compatible may put them, and where Exact does.
    let cases: [(&[&str], &[&str], &[&str]); 6] = [
        (&[LTSC2019], &["win2019"], &["win2019"]),
        (&[LTSC2022], &["win2022", "win2025"], &["win2022"]),
        (&[LTSC2025], &["win2025"], &["win2025"]),
        (&[LTSC2022, LTSC2022, "registry.example.com/app:1-nanoserver"], &["win2022", "win2025"], &["win2022"]),
        // Two builds have no node of their own; one that runs both they have.
        (&[LTSC2022, LTSC2025], &["win2025"], &["win2025"]),
        // Nothing is known of the build.
        (&["registry.example.com/app:1-nanoserver"], &WINDOWS_NODES, &WINDOWS_NODES),
    ];
    for (prefix, exact) in [("compatible", false), (EXACT, true)] {
        let namespace = shared.namespace(prefix).await?;
        for (at, (images, ..)) in cases.iter().enumerate() {
            create(&namespace, &of_images(&format!("app-{at}"), images)).await?;
        }
        bound(&namespace, cases.len() * 4).await?;
        for pod in pods(&namespace).await? {
            let (name, node) = (pod["metadata"]["name"].as_str(), pod["spec"]["nodeName"].as_str());
            let case = cases
                .iter()
                .enumerate()
                .find(|(at, _)| name.is_some_and(|name| name.starts_with(&format!("app-{at}-"))));
            let Some((_, (images, compatible, equal))) = case else { bail!("whose pod is {name:?}?") };
            let nodes = if exact { equal } else { compatible };
            ensure!(node.is_some_and(|node| nodes.contains(&node)), "{images:?} landed on {node:?} in {prefix}");
        }
    }
    Ok(())
}

pub async fn what_no_node_runs_waits(shared: &Shared) -> Result<()> {
    let namespace = shared.namespace("no-node").await?;
    let stored = create(&namespace, &pod("old", json!({"containers": [{"name": "c", "image": LTSC2016}]}))).await?;
    let excluded = &stored["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        [0]["matchExpressions"][0];
    ensure!(excluded["key"] == BUILD && excluded["operator"] == "NotIn", "{stored}");
    for build in ["10.0.17763", "10.0.20348", "10.0.26100"] {
        let listed = excluded["values"].as_array().is_some_and(|values| values.contains(&json!(build)));
        ensure!(listed, "{build} is not among {excluded}");
    }
    // The scheduler has looked at every node, and takes none.
    wait_for("the scheduler's verdict on pod old", DEADLINE, || async {
        let found = match get(&namespace, "Pod", "old").await {
            Ok(found) => found,
            Err(error) => return Seen::NotYet(format!("{error:#}")),
        };
        let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let waits = conditions.iter().any(|one| one["type"] == "PodScheduled" && one["reason"] == "Unschedulable");
        if waits { Seen::Done(()) } else { Seen::NotYet(format!("{}", found["status"])) }
    })
    .await
}
