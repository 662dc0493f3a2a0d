//! Upgrades from one values file to another: the controller's `caBundle` stays, nothing drifts, nothing must be deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use mullion_cluster::Tool;
use serde_json::{Value, json};

use crate::rendered::{Rendered, list, text};
use crate::server::Server;

/// Field managers that apply the chart: those of Helm 4 and Argo CD.
const HELM: &str = "helm";
const OTHER: &str = "argocd-controller";
const CONTROLLER: &str = "mullion-controller";
const BUNDLE: &str = "Y2E="; // "ca"
const CONFIGURATIONS: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

fn configurations(file: &Rendered) -> Result<Vec<&Value>> {
    CONFIGURATIONS.iter().map(|kind| file.named(kind, "mullion")).collect()
}

/// Sets `caBundle` of every webhook, by name, and nothing else, as the controller does.
async fn fill(server: &Server, configuration: &Value) -> Result<Value> {
    let stored = server.get(configuration).await?;
    let names = list(&stored, "/webhooks").iter().map(|webhook| &webhook["name"]);
    let webhooks: Vec<_> = names.map(|name| json!({"name": name, "clientConfig": {"caBundle": BUNDLE}})).collect();
    server.strategic(configuration, CONTROLLER, json!({"webhooks": webhooks})).await
}

fn bundles(configuration: &Value) -> BTreeMap<&str, &Value> {
    list(configuration, "/webhooks").iter().map(|one| (text(one, "/name"), &one["clientConfig"]["caBundle"])).collect()
}

/// From each file to the default and back, and from each to the next. Existing webhooks keep their bundle, and removed
/// webhooks return without one.
pub async fn from_and_to_each_file_the_bundle_stays(server: &Server, files: &[Arc<Rendered>]) -> Result<()> {
    let _alone = server.alone().await?;
    let managed: Vec<_> = files.iter().filter(|file| file.value("/certificates/mode") == "Managed").collect();
    ensure!(managed.len() > 6, "{} values files with managed certificates", managed.len());
    let default = named(files, "default")?;
    // One path that includes every one of these upgrades, from the default back to it.
    let others = || managed.iter().map(|file| &***file).filter(|file| file.name != default.name);
    let path = others().flat_map(|file| [default, file]).chain([default]).chain(others()).chain([default]);
    let path: Vec<&Rendered> = path.collect();
    let mut kept = 0;
    for from in configurations(default)? {
        server.apply(from, HELM).await?;
    }
    for pair in path.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        for (from, to) in configurations(before)?.into_iter().zip(configurations(after)?) {
            let filled = fill(server, from).await?;
            ensure!(bundles(&filled).values().all(|bundle| **bundle == BUNDLE), "{filled}");
            let stored = server.apply(to, HELM).await.with_context(|| format!("{} to {}", before.name, after.name))?;
            let had = bundles(&filled);
            for (name, bundle) in bundles(&stored) {
                let expected = if had.contains_key(name) { json!(BUNDLE) } else { Value::Null };
                ensure!(*bundle == expected, "{} to {}: {name}: {bundle}", before.name, after.name);
                kept += usize::from(!expected.is_null());
            }
            let names = |object: &Value| -> Vec<String> {
                list(object, "/webhooks").iter().map(|one| text(one, "/name").to_owned()).collect()
            };
            ensure!(
                names(&stored).iter().collect::<BTreeSet<_>>() == names(to).iter().collect(),
                "{} to {}: webhooks stay that are not wanted: {:?}",
                before.name,
                after.name,
                names(&stored)
            );
        }
    }
    ensure!(kept > path.len(), "{kept} bundles");
    for configuration in configurations(default)? {
        server.delete(configuration).await?;
    }
    Ok(())
}

/// All objects of each file over those of the previous one, as `helm upgrade` applies them. An immutable field that
/// differs between two files (a Deployment's selector, a role of a binding) would have to be deleted by hand. If any
/// manager applies them again, each stays as it is stored. An object that is the same in the previous file was applied
/// and compared there; a configuration is not, because its bundle has another owner with other certificates.
pub async fn no_immutable_field_changes(server: &Server, files: &[Arc<Rendered>]) -> Result<()> {
    let _alone = server.alone().await?;
    server.namespace("mullion-system", json!({})).await?;
    let mut installed: Vec<Value> = Vec::new();
    // The first file follows again at the end, for the reverse path.
    for file in files.iter().chain(files.first()) {
        let wanted: Vec<_> = file.objects()?.iter().filter(|object| !is_hook(object)).cloned().collect();
        for gone in installed.iter().filter(|one| !wanted.iter().any(|other| identity(other) == identity(one))) {
            server.delete(gone).await?;
        }
        let differs = |object: &&Value| is_configuration(object) || !installed.contains(object);
        let changed: Vec<&Value> = wanted.iter().filter(differs).collect();
        for object in &changed {
            // After Managed, the bundle belongs to the controller: `--force-conflicts`, as values.yaml explains.
            let taken_over = is_configuration(object) && file.value("/certificates/mode") == "Provided";
            let applied =
                if taken_over { server.apply_forced(object, HELM).await } else { server.apply(object, HELM).await };
            applied.with_context(|| file.name.clone())?;
        }
        for object in &changed {
            if is_configuration(object) && file.value("/certificates/mode") == "Managed" {
                fill(server, object).await?;
            }
            let stored = without_metadata_changes(&server.get(object).await?);
            for manager in [HELM, OTHER] {
                let again = without_metadata_changes(
                    &server.apply_dry(object, manager).await.with_context(|| file.name.clone())?,
                );
                ensure!(
                    again == stored,
                    "{}: {manager} would change {:?}:\n{stored}\n{again}",
                    file.name,
                    identity(object)
                );
            }
        }
        installed = wanted;
    }
    for object in &installed {
        server.delete(object).await?;
    }
    Ok(())
}

fn is_configuration(object: &Value) -> bool {
    CONFIGURATIONS.iter().any(|kind| object["kind"] == *kind)
}

pub fn is_hook(object: &Value) -> bool {
    object["metadata"]["annotations"].get("helm.sh/hook").is_some()
}

fn identity(object: &Value) -> [&str; 3] {
    ["/kind", "/metadata/namespace", "/metadata/name"].map(|pointer| text(object, pointer))
}

/// Without the fields that every write changes, and without status.
fn without_metadata_changes(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        metadata.remove("resourceVersion");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("deployment.kubernetes.io/revision");
        }
        if metadata.get("annotations").is_some_and(|all| *all == json!({})) {
            metadata.remove("annotations");
        }
    }
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
    }
    object
}

/// Helm 4 itself, then kubectl over it, then Helm again, and back. Both ways in which Helm 4 writes are tested: merged by
/// the server, or by Helm.
pub async fn helm_and_kubectl_keep_the_bundle_and_do_not_drift(server: &Server, files: &[Arc<Rendered>]) -> Result<()> {
    let helm = || server.plane.tools().command(Tool::Helm);
    bundle_stays(server, files, &helm, &[&["--server-side=true"], &["--server-side=false"]]).await
}

/// The same with Helm 3, which merges itself.
pub async fn helm_3_and_kubectl_keep_the_bundle_and_do_not_drift(
    server: &Server,
    files: &[Arc<Rendered>],
) -> Result<()> {
    bundle_stays(server, files, &helm_3, &[&[]]).await
}

pub fn helm_3() -> Command {
    Command::new(mullion_cluster::helm_3().expect("the trial exists only with HELM3"))
}

/// An upgrade without `policies` keeps the built-in ones, with a note, and fails where the release has others.
pub async fn an_upgrade_without_policies_replaces_none(server: &Server) -> Result<()> {
    let _alone = server.alone().await?;
    let chart = mullion_cluster::Chart::folder();
    let chart = chart.to_string_lossy();
    let upgrade =
        async |values: &str| server.helm(&["upgrade", "mullion", &chart, "--no-hooks", "--set", values]).await;
    server.helm(&["install", "mullion", &chart, "--no-hooks"]).await?;
    let output = upgrade("policies.shipped=").await?;
    ensure!(output.contains("policies is empty, so this release keeps `shipped: default`"), "{output}");
    let others = [
        ("policies.shipped=audit", "the release has policies.shipped: audit"),
        (r"policies.shipped=,policies.files.ours\.yaml=", "the release has policies.files with ours.yaml"),
        (
            "policies.shipped=,policies.configMap=company-policies",
            "the release has policies.configMap: company-policies",
        ),
    ];
    for (values, expected) in others {
        upgrade(values).await.with_context(|| values.to_owned())?;
        let refused = upgrade("policies.shipped=").await.err().map(|error| format!("{error:#}")).unwrap_or_default();
        ensure!(refused.contains(expected), "after {values}: {refused:?}");
    }
    server.helm(&["uninstall", "mullion", "--no-hooks"]).await.map(drop)
}

/// A release of Helm 3 that Helm 4 upgrades, and the reverse: the bundle stays, and nothing is left of other values.
pub async fn helm_3_and_4_upgrade_releases_of_each_other(server: &Server, files: &[Arc<Rendered>]) -> Result<()> {
    let _alone = server.alone().await?;
    let (first, last) = (named(files, "default")?, named(files, "fail-closed")?);
    let chart = mullion_cluster::Chart::folder();
    let chart = chart.to_string_lossy();
    server.helm_of(helm_3(), &["install", "mullion", &chart]).await?;
    let upgrades: [(u8, &Rendered, &[&str]); 6] = [
        (4, last, &[]),
        (3, first, &[]),
        (4, last, &["--server-side=true"]),
        (3, first, &[]),
        (4, last, &["--server-side=true"]),
        (4, first, &[]),
    ];
    let mut before = first;
    for (number, (major, file, flags)) in upgrades.into_iter().enumerate() {
        let what = format!("upgrade {number} to {} with Helm {major}", file.name);
        let helm = if major == 3 { helm_3() } else { server.plane.tools().command(Tool::Helm) };
        for configuration in configurations(before)? {
            fill(server, configuration).await?;
        }
        let values = file.path.to_string_lossy();
        let upgrade = ["upgrade", "mullion", &*chart, "--values", &*values, "--reset-values", "--no-hooks"];
        server.helm_of(helm, &[&upgrade[..], flags].concat()).await.with_context(|| what.clone())?;
        as_rendered(server, file, &what).await?;
        for configuration in configurations(file)? {
            // other-pods.mullion.dev exists only with failurePolicy Fail, so it is new.
            let stored = server.get(configuration).await?;
            let kept = |(name, bundle): (&str, &Value)| *bundle == BUNDLE || name == "other-pods.mullion.dev";
            ensure!(bundles(&stored).into_iter().all(kept), "{what}: {:?}", bundles(&stored));
        }
        before = file;
    }
    server.helm_of(helm_3(), &["uninstall", "mullion", "--no-hooks"]).await.map(drop)
}

/// Installs, upgrades in each of these ways, and uninstalls. The bundles stay, and at the end nothing is left.
async fn bundle_stays(
    server: &Server,
    files: &[Arc<Rendered>],
    helm: &(dyn Fn() -> Command + Sync),
    ways: &[&[&str]],
) -> Result<()> {
    let _alone = server.alone().await?;
    let plane = &server.plane;
    server.namespace("mullion-system", json!({})).await?;
    let (first, last) = (named(files, "default")?, named(files, "everything")?);
    let chart = mullion_cluster::Chart::folder();
    let helm = async |arguments: &[&str]| server.helm_of(helm(), arguments).await;
    let (chart, first_values, last_values) =
        (chart.to_string_lossy(), first.path.to_string_lossy(), last.path.to_string_lossy());
    let bundled = async |file: &Rendered, what: &str| -> Result<()> {
        for configuration in configurations(file)? {
            let stored = server.get(configuration).await?;
            let all = bundles(&stored);
            ensure!(!all.is_empty() && all.values().all(|bundle| **bundle == BUNDLE), "after {what}: {all:?}");
        }
        Ok(())
    };
    helm(&["install", "mullion", &chart, "--values", &first_values]).await?;
    for configuration in configurations(first)? {
        fill(server, configuration).await?;
    }
    // --reset-values: with an empty values file, such as default.yaml, Helm takes those of the previous release.
    for way in ways {
        let upgrade = async |values: &str| {
            let upgrade = ["upgrade", "mullion", &*chart, "--values", values, "--reset-values", "--no-hooks"];
            helm(&[&upgrade[..], way].concat()).await
        };
        let what = format!("helm upgrade {}", way.join(" "));
        upgrade(&last_values).await?;
        as_rendered(server, last, &what).await?;
        for configuration in configurations(last)? {
            fill(server, configuration).await?;
        }
        upgrade(&first_values).await?;
        as_rendered(server, first, &what).await?;
        bundled(first, &what).await?;
    }
    let manifests = first.chart().argument("--no-hooks").text()?;
    let applied =
        plane.kubectl_with_input(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &manifests).await?;
    ensure!(
        applied.contains("mutatingwebhookconfiguration.admissionregistration.k8s.io/mullion serverside-applied"),
        "{applied}"
    );
    bundled(first, "kubectl apply").await?;
    // Nothing differs between what is stored and what is rendered: `kubectl diff` exits with 1 if anything differs.
    plane.kubectl_with_input(&["diff", "--server-side", "--force-conflicts", "-f", "-"], &manifests).await?;
    helm(&["rollback", "mullion", "1", "--no-hooks"]).await?;
    bundled(first, "helm rollback").await?;
    helm(&["uninstall", "mullion", "--no-hooks"]).await?;
    for object in first.objects()?.iter().filter(|object| !is_hook(object)) {
        mullion_cluster::wait_for(&format!("{:?} to be gone", identity(object)), crate::server::DEADLINE, async || {
            match server.get(object).await {
                Ok(_) => Err("still there".to_owned()),
                Err(error) if format!("{error:#}").contains("not found") => Ok(()),
                Err(error) => Err(format!("{error:#}")),
            }
        })
        .await?;
    }
    Ok(())
}

/// The stored object equals the rendered one: applying it again changes nothing.
async fn as_rendered(server: &Server, file: &Rendered, what: &str) -> Result<()> {
    for object in file.objects()?.iter().filter(|object| !is_hook(object)) {
        let stored = without_metadata_changes(&server.get(object).await.with_context(|| format!("after {what}"))?);
        let again = without_metadata_changes(
            &server.dry_run(object).await.with_context(|| format!("after {what}, over {stored}"))?,
        );
        ensure!(again == stored, "after {what}, {:?} is\n{stored}\nand not\n{again}", identity(object));
    }
    Ok(())
}

fn named<'a>(files: &'a [Arc<Rendered>], name: &str) -> Result<&'a Rendered> {
    files.iter().find(|file| file.name == name).map(AsRef::as_ref).with_context(|| format!("no values file {name}"))
}
