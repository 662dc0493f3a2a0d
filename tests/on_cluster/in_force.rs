//! Commands use the policies in force in the cluster, as an administrator and as developers with fewer permissions, and
//! name what Mullion does not review there.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use mullion_cluster::{Chart, ConfigMapMount, ControlPlane, NodeSpec, TestNamespace, wait_for};
use serde_json::json;

use crate::memory::{controller, controllers, registration_gone, state, webhook, webhooks};
use crate::reading::{Ran, mullion};
use crate::shared::*;

const LTSC2022: &str = "mcr.microsoft.com/windows/nanoserver:ltsc2022";
const HEADER: &str = "apiVersion: mullion.dev/v1alpha1\n";

/// The policies of a team that has a pool of Windows Server 2022: its pods run only there.
fn of_a_team(namespace: &str) -> [(&'static str, String); 2] {
    let nodes = "kind: NodePolicy\nmetadata: {name: nodes}\nspec:\n  expectedPools: [{build: 10.0.20348, taints: ['team=shop:NoSchedule']}]\n";
    let pods = format!(
        "kind: PodPolicy\nmetadata: {{name: shop}}\nspec:\n  priority: 10\n  match: {{namespaces: {{include: [{namespace}]}}}}\n  \
         place: {{build: {{mode: Exact}}, tolerations: {{add: [{{key: team, value: shop, effect: NoSchedule}}]}}}}\n"
    );
    [("nodes.yaml", format!("{HEADER}{nodes}")), ("pods.yaml", format!("{HEADER}{pods}"))]
}

impl Ran {
    /// Checks the first line of stderr.
    fn first_line(&self, parts: &[&str]) -> Result<()> {
        let first = self.err.lines().next().unwrap_or_default();
        ensure!(parts.iter().all(|part| first.contains(part)), "no {parts:?}: {first}");
        Ok(())
    }

    /// The nodes after `may be scheduled on`.
    fn possible(&self) -> Result<String> {
        let line = self.out.lines().find_map(|line| line.strip_prefix("  may be scheduled on: "));
        line.map(str::to_owned).with_context(|| format!("{}{}", self.out, self.err))
    }
}

/// The webhook configurations of the chart, which call a Service of `own`. No Service is there, and the API server
/// continues without it.
async fn register_service(plane: &ControlPlane, own: &TestNamespace) -> Result<()> {
    let chart = Chart::default().namespace(&own.name);
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        plane.kubectl_with_input(&["apply", "-f", "-"], &chart.object(kind)?.to_string()).await?;
    }
    Ok(())
}

/// A developer with the `ClusterRole` `edit` in the namespace, and the right to read nodes, so that `explain` names them.
async fn developer(plane: &ControlPlane, name: &str, namespace: &TestNamespace) -> Result<PathBuf> {
    as_tenant(plane, name, namespace).await?;
    let role = format!("nodes-of-{name}");
    let resources = "--resource=nodes,namespaces,runtimeclasses.node.k8s.io";
    plane.kubectl(&["create", "clusterrole", &role, "--verb=get,list", resources]).await?;
    let [to_role, to_user] = [format!("--clusterrole={role}"), format!("--user={name}")];
    plane.kubectl(&["create", "clusterrolebinding", &role, &to_role, &to_user]).await?;
    plane.kubeconfig_for(name, &[])
}

#[allow(clippy::too_many_lines, reason = "one story")]
pub async fn the_policies_of_the_cluster_decide(plane: &ControlPlane) -> Result<()> {
    let (own, shop) = (plane.namespace("mullion").await?, plane.namespace("shop").await?);
    let admin = plane.kubeconfig();
    plane
        .create_nodes(&[
            NodeSpec::linux("linux"),
            NodeSpec::windows("win2022", "10.0.20348.2655").taint("team=shop:NoSchedule"),
            NodeSpec::windows("win2025", "10.0.26100.2894"),
        ])
        .await?;
    let policies = of_a_team(&shop.name);
    let files = policies.each_ref().map(|(name, text)| (*name, text.as_str()));
    let mount = ConfigMapMount::new(&files)?;
    let kubeconfigs = (controllers(plane, &own).await?, webhooks(plane, &own, true).await?);
    let web = ["explain", "deploy/web", "-n", &shop.name];
    let with = |more: &[&'static str]| [&web[..], more].concat();

    // Mullion is not installed, then it has not kept any policies.
    let (serving, registration) = webhook(plane, &kubeconfigs.1, &own, mount.path()).await?;
    registration.named("mullion-by-url").only_namespace(&shop).register(&plane.client()).await?;
    wait_for("the team's policy", DEADLINE, async || {
        let pod = dry_run(&shop, &pod("first", json!({"containers": [{"name": "c", "image": LTSC2022}]}))).await?;
        ensure!(pod["spec"]["tolerations"].to_string().contains("\"team\""), "{pod}");
        Ok(())
    })
    .await?;
    create(&shop, &workload("Deployment", "web", LTSC2022)).await?;
    for (stage, why) in [("not installed", "Mullion is not installed"), ("new", "there is no ConfigMap mullion-state")]
    {
        if stage == "new" {
            register_service(plane, &own).await?;
        }
        let ran = mullion(admin, &web).await?;
        ran.first_line(&[
            &format!("namespace {}; policies of the cluster not known: {why}", shop.name),
            "; the built-in ones are used",
        ])?;
        ensure!(ran.code == Some(0), "{stage}: {}", ran.err);
        let required = mullion(admin, &with(&["--policies", "cluster"])).await?;
        required.first_line(&["policies of the cluster not known: ", why])?;
        ensure!(required.code == Some(2) && required.out.is_empty(), "{stage}: {}", required.out);
    }

    // In force: the nodes are those on which the pods run.
    let leader = controller(&kubeconfigs.0, &own, mount.path()).await?;
    state(&own, "the policies to be kept", |data| data["policies-since"].is_string()).await?;
    let nodes = bound(&shop, 1).await?;
    ensure!(nodes == ["win2022"], "{nodes:?}");
    let ran = mullion(admin, &web).await?;
    ran.first_line(&["; policies of the cluster: 2 files, in force since 20"])?;
    ensure!(ran.possible()? == "win2022", "{}", ran.out);
    let built_in = mullion(admin, &with(&["--policies", "built-in"])).await?;
    built_in.first_line(&["; the built-in policies, not those of the cluster"])?;
    ensure!(built_in.possible()? != "win2022", "{}", built_in.out);
    let directory = mount.path().to_string_lossy().into_owned();
    let ran = mullion(admin, &[&web[..], &["--policies", &directory]].concat()).await?;
    ensure!(ran.possible()? == "win2022" && !ran.err.contains("policies of the cluster"), "{}{}", ran.out, ran.err);
    let context = plane.kubectl(&["config", "current-context"]).await?;
    let (context, name) = (context.trim(), shop.name.as_str());
    let ran = mullion(admin, &["policy", "show", "--context", context, "-n", name]).await?;
    ran.first_line(&["; policies of the cluster: 2 files"])?;
    ensure!(ran.out.contains("place.build.mode") && ran.out.contains("pods.yaml:7"), "{}", ran.out);
    let ran = mullion(admin, &["policy", "diff", "cluster", "built-in", "--context", context, "-n", name]).await?;
    ran.first_line(&["; policies of the cluster: 2 files"])?;
    ensure!(ran.out.starts_with("1 of 1 workload would be decided differently") && ran.code == Some(1), "{}", ran.out);
    let ran = mullion(admin, &["mutate", "--templates", "deploy/web", "-n", name]).await?;
    ran.first_line(&["; policies of the cluster: 2 files"])?;
    ensure!(ran.out.contains("key: team"), "{}", ran.out);
    let ran = mullion(admin, &["check", "-A"]).await?;
    ran.first_line(&["all namespaces; policies of the cluster: 2 files"])?;

    // A developer without the rights, and with those that the documentation names.
    let ann = developer(plane, "ann", &shop).await?;
    wait_for("the rights of the developer", DEADLINE, async || {
        let ran = mullion(&ann, &web).await?;
        ran.first_line(&[
            "policies of the cluster not known: forbidden: ",
            "cannot get resource",
            "; the built-in ones are used",
        ])?;
        ensure!(ran.possible()? == built_in.possible()?, "{}", ran.out);
        Ok(())
    })
    .await?;
    let required = mullion(&ann, &with(&["--policies", "cluster"])).await?;
    ensure!(required.code == Some(2) && required.err.contains("not known: forbidden: "), "{}", required.err);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "policies"}, "rules": [
        {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["mutatingwebhookconfigurations"], "resourceNames": ["mullion"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mullion-state"], "verbs": ["get"]},
    ]});
    plane.kubectl_with_input(&["apply", "-f", "-"], &role.to_string()).await?;
    plane.kubectl(&["create", "clusterrolebinding", "policies", "--clusterrole=policies", "--user=ann"]).await?;
    wait_for("the policies for the developer", DEADLINE, async || {
        let ran = mullion(&ann, &with(&["--policies", "cluster"])).await?;
        ran.first_line(&["; policies of the cluster: 2 files, in force since 20"])?;
        ensure!(ran.possible()? == "win2022" && ran.code == Some(0), "{}", ran.out);
        Ok(())
    })
    .await?;

    // A newer Mullion stored a key that this one does not know.
    leader.process.kill()?;
    let newer = format!("{HEADER}kind: PodPolicy\nmetadata: {{name: new}}\nspec: {{priority: 1, future: true}}\n");
    let kept = json!([{"name": "new.yaml", "text": newer}]).to_string();
    let data = json!({"data": {"policies": kept, "policies-release": "99.1"}}).to_string();
    plane.kubectl(&["patch", "configmap", "mullion-state", "-n", &own.name, "--type=merge", "-p", &data]).await?;
    let ran = mullion(admin, &web).await?;
    let why = "they are of Mullion 99.1, which is newer than this one, ";
    ran.first_line(&[
        "policies of the cluster not known: ",
        why,
        "new.yaml:4:",
        "future",
        "; the built-in ones are used",
    ])?;
    ensure!(ran.possible()? == built_in.possible()?, "{}", ran.out);
    let required = mullion(admin, &with(&["--policies", "cluster"])).await?;
    ensure!(required.code == Some(2) && required.err.contains(why), "{}", required.err);
    serving.process.kill()?;
    registration_gone(plane, &shop).await
}

pub async fn what_is_not_reviewed_is_named(plane: &ControlPlane) -> Result<()> {
    let (own, shop) = (plane.namespace("mullion").await?, plane.namespace("shop").await?);
    let admin = plane.kubeconfig();
    plane.create_nodes(&[NodeSpec::linux("linux"), NodeSpec::windows("win2022", "10.0.20348.2655")]).await?;
    register_service(plane, &own).await?;
    let audit = format!("{HEADER}kind: PodPolicy\nmetadata: {{name: default}}\nspec: {{mode: Audit}}\n");
    let mut mount = ConfigMapMount::new(&[("audit.yaml", audit.as_str())])?;
    let leader = controller(&controllers(plane, &own).await?, &own, mount.path()).await?;
    let kept = |part: &'static str| state(&own, part, move |data| data["policies"].to_string().contains(part));
    kept("Audit").await?;

    let bad = json!({"containers": [{"name": "c", "image": LTSC2022, "resources": {"limits": {"memory": "1Gi"}}}],
        "securityContext": {"runAsUser": 1000}});
    let mut explicit = bad.clone();
    explicit["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
    create(&shop, &pod("bad", bad.clone())).await?;
    create(&shop, &pod("explicit", explicit)).await?;
    create(&own, &pod("bad", bad)).await?;
    let (shop_name, own_name) = (shop.name.as_str(), own.name.as_str());

    // Audit: what would be denied fails the check.
    let ran = mullion(admin, &["check", "pod/bad", "-n", shop_name]).await?;
    ensure!(ran.err.contains("1 workload, 1 finding (1 would be denied)") && ran.code == Some(1), "{}", ran.err);
    let ran = mullion(admin, &["explain", "pod/bad", "-n", shop_name]).await?;
    ensure!(
        ran.out.contains("  would be denied without mode: Audit (") && ran.out.contains("audit.yaml:4"),
        "{}",
        ran.out
    );
    ensure!(ran.out.contains("changes that mode: Audit leaves out:"), "{}", ran.out);

    // What the webhook configurations of the chart skip.
    for (namespace, name, why) in [
        (
            shop_name,
            "pod/explicit",
            "it explicitly selects Linux, and match condition not-explicitly-linux of webhook pods.mullion.dev",
        ),
        (own_name, "pod/bad", "the namespaceSelector of webhook pods.mullion.dev excludes namespace "),
    ] {
        let ran = mullion(admin, &["explain", name, "-n", namespace]).await?;
        ensure!(ran.out.contains(&format!("\n  not reviewed: {why}")), "{}", ran.out);
        let ran = mullion(admin, &["check", name, "-n", namespace]).await?;
        ensure!(ran.out.starts_with(&format!("not reviewed: {why}")) && ran.code == Some(0), "{}", ran.out);
        ensure!(ran.err.contains("1 workload, 0 findings, 1 not reviewed"), "{}", ran.err);
    }

    // The annotation of the namespace, and a policy.
    plane.kubectl(&["annotate", "namespace", shop_name, "mullion.dev/ignore=true"]).await?;
    let ran = mullion(admin, &["check", "pod/bad", "-n", shop_name, "-o", "json"]).await?;
    let why = format!("\"notReviewed\":\"namespace {shop_name} has the annotation mullion.dev/ignore: \\\"true\\\"\"");
    ensure!(ran.out.contains(&why) && ran.out.contains("\"notReviewed\":1") && ran.code == Some(0), "{}", ran.out);
    plane.kubectl(&["annotate", "namespace", shop_name, "mullion.dev/ignore-"]).await?;
    mount.publish(&[("audit.yaml", audit.replace("Audit", "Disabled"))])?;
    kept("Disabled").await?;
    let ran = mullion(admin, &["check", "pod/bad", "-n", shop_name]).await?;
    ensure!(ran.out.starts_with("not reviewed: mode: Disabled (") && ran.code == Some(0), "{}", ran.out);
    leader.process.kill()?;
    Ok(())
}
