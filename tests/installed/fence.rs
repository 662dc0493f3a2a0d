//! The writes that the fence denies to the controller itself.

use anyhow::{Result, ensure};
use mullion_cluster::wait_for;

use crate::site::{DEADLINE, NAMESPACE, Site};

const KEY: &str = "example.com/platform";

/// A NodePolicy has a taint with a key that the fence does not know: an Event on the node contains the chart value, and
/// with that value the taint is set. The withdraw Job removes it through the same fence.
pub async fn a_denied_taint_names_the_value_that_allows_it(site: &Site) -> Result<()> {
    let policy = format!(
        "apiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {{name: platform}}\n\
         spec: {{taint: {{key: {KEY}, apply: Always}}, runtimeClasses: {{handler: company-windows}}}}\n"
    );
    let file = site.plane.dir().join("platform.yaml");
    std::fs::write(&file, policy)?;
    let policies = format!("policies.files.platform\\.yaml={}", file.display());
    site.install(&["--set-file", &policies]).await?;
    for (object, value) in [("Node", "fence.taintKeys"), ("RuntimeClass", "fence.runtimeClassHandlers")] {
        wait_for(&format!("an Event on a {object} that names {value}"), DEADLINE, async || {
            let selector = format!("reason=WriteDenied,involvedObject.kind={object}");
            let events = ["get", "events", "--field-selector", &selector, "-o", "jsonpath={.items[*].message}"];
            let messages = site.plane.kubectl(&events).await?;
            ensure!(messages.contains(value), "{messages:?}");
            anyhow::Ok(())
        })
        .await?;
    }
    let set = async |expected: bool| {
        wait_for(&format!("taint {KEY}: {expected}"), DEADLINE, async || {
            let taints = site.plane.kubectl(&["get", "nodes", "-o", "jsonpath={.items[*].spec.taints[*].key}"]).await?;
            ensure!(taints.contains(KEY) == expected, "{taints}");
            anyhow::Ok(())
        })
        .await
    };
    set(false).await?;
    let values = format!("fence.taintKeys={{os,{KEY}}},fence.runtimeClassHandlers={{company-windows}}");
    site.install(&["--set-file", &policies, "--set", &values]).await?;
    set(true).await?;
    wait_for("a class", DEADLINE, || site.plane.kubectl(&["get", "runtimeclass", "mullion-windows-ltsc2022"])).await?;
    site.helm(&["uninstall", "mullion", "-n", NAMESPACE, "--wait"]).await?;
    set(false).await
}
