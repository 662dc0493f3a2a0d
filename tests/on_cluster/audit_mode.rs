//! `mode: Audit` from the perspective of an administrator: in the API server's audit log and in the webhook's metrics.
//! `tests/cases/audit` tests the user's perspective.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use mullion_cluster::{ControlPlane, Fixture, MullionProcess, NodeSpec, free_port, wait_for};
use serde_json::{Value, json};

use crate::audit::AuditLog;
use crate::shared::*;

const LTSC2022: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";

/// A control plane with an audit log, and a Mullion in audit mode.
pub struct Audited {
    plane: ControlPlane,
    log: AuditLog,
    webhook: MullionProcess,
    admin: u16,
}

impl Fixture for Audited {
    fn keep_logs(&self) -> Vec<PathBuf> {
        vec![self.plane.keep_logs(), self.webhook.keep_logs()]
    }
}

impl Audited {
    pub async fn start() -> Result<Self> {
        let log = AuditLog::of(&json!([
            {"level": "Metadata", "verbs": ["create"], "resources": [
                {"group": "", "resources": ["pods"]}, {"group": "apps", "resources": ["daemonsets"]}]},
            {"level": "None"},
        ]))?;
        let plane = ControlPlane::builder().controller_manager(false).scheduler(false).kwok(false);
        let plane = log.written_by(plane).start().await?;
        let windows = NodeSpec::windows("win2022", "10.0.20348.2655").taint("os=windows:NoSchedule");
        plane.create_nodes(&[NodeSpec::linux("linux"), windows]).await?;
        let policies = plane.dir().join("audit-policies");
        std::fs::create_dir_all(&policies)?;
        let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/policies/audit.yaml");
        std::fs::copy(shipped, policies.join("audit.yaml"))?;
        let admin = free_port()?;
        let (webhook, registration) = start_webhook_at(&plane, &policies.to_string_lossy(), admin).await?;
        registration.register(&plane.client()).await?;
        Ok(Self { plane, log, webhook, admin })
    }

    /// The audit annotations of Mullion's webhooks for the creation of an object, without the webhook names for `kind`.
    async fn annotations(&self, name: &str, dry_run: bool) -> Result<BTreeMap<String, String>> {
        wait_for(&format!("the audit log to tell of {name}"), DEADLINE, async || {
            let text = std::fs::read_to_string(self.log.path())?;
            let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let mut mine = events.filter(|event| {
                let dry = event["requestURI"].as_str().is_some_and(|uri| uri.contains("dryRun=All"));
                event["objectRef"]["name"] == name && dry == dry_run
            });
            let event = mine.next().context("nothing yet")?;
            let all = event["annotations"].as_object().context("no annotations")?;
            let ours = all.iter().filter(|(key, _)| key.contains("mullion.dev/"));
            anyhow::Ok(ours.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect())
        })
        .await
    }

    /// Lines about a namespace.
    async fn counted(&self, namespace: &str) -> Result<Vec<String>> {
        let (_, text) = admin_get(self.admin, "/metrics").await?;
        let label = format!("{{namespace=\"{namespace}\",");
        let mut lines: Vec<_> =
            text.lines().filter(|line| line.contains(&label)).map(|line| line.replace(&label, "{")).collect();
        lines.sort();
        Ok(lines)
    }
}

pub async fn audit_annotations_and_metrics_show_the_outcomes(audited: &Audited) -> Result<()> {
    let namespace = audited.plane.namespace("audited").await?;
    // The first pods may be created before the API server uses the webhook.
    wait_for("Mullion to be called", DEADLINE, async || {
        dry_run(&namespace, &pod("first", json!({"containers": [{"name": "c", "image": LTSC2022}]}))).await?;
        let (_, text) = admin_get(audited.admin, "/metrics").await?;
        for endpoint in ["mutate", "validate"] {
            ensure!(
                text.contains(&format!("mullion_admission_reviews_total{{endpoint=\"{endpoint}\"")),
                "not at /{endpoint} yet"
            );
        }
        anyhow::Ok(())
    })
    .await?;

    let container = json!({"name": "c", "image": LTSC2022, "resources": {"limits": {"memory": "1Gi"}},
        "env": [{"name": "PASSWORD", "value": "hunter2"}]});
    let denied = pod("denied", json!({"securityContext": {"runAsUser": 1000}, "containers": [container]}));
    let mut repaired = pod("repaired", json!({"securityContext": {"fsGroup": 1}, "containers": [container]}));
    repaired["spec"]["containers"][0]["securityContext"] = json!({"seLinuxOptions": {"level": "s0:c24,c9"}});
    let set = workload("DaemonSet", "set", "registry.example.com/agent:1");
    for object in [&denied, &repaired, &set] {
        dry_run(&namespace, object).await?;
    }
    ensure!(audited.counted(&namespace.name).await?.is_empty(), "dry runs are not counted");
    for object in [&denied, &repaired, &set] {
        let stored = create(&namespace, object).await?;
        let spec = if object["kind"] == "Pod" { &stored["spec"] } else { &stored["spec"]["template"]["spec"] };
        ensure!(spec.get("nodeSelector").is_none() && spec.get("os").is_none(), "{stored}");
        ensure!(!stored["metadata"].to_string().contains("mullion.dev/"), "{stored}");
        let authored = if object["kind"] == "Pod" { &object["spec"] } else { &object["spec"]["template"]["spec"] };
        ensure!(
            authored["securityContext"] == spec["securityContext"] || authored.get("securityContext").is_none(),
            "{stored}"
        );
    }

    for dry_run in [true, false] {
        let annotations = audited.annotations("denied", dry_run).await?;
        let of = |key: &str| annotations.get(&format!("pods.mullion.dev/{key}")).cloned().unwrap_or_default();
        ensure!(of("would-deny") == "MUL201 spec.securityContext.runAsUser", "{annotations:?}");
        ensure!(of("decision").starts_with("windows by "), "{annotations:?}");
        ensure!(of("would-change").contains("spec.nodeSelector[kubernetes.io/os] ("), "{annotations:?}");
        ensure!(!format!("{annotations:?}").contains("hunter2"), "{annotations:?}");
        let annotations = audited.annotations("repaired", dry_run).await?;
        let changes = annotations.get("pods.mullion.dev/would-change").context("what would change")?;
        for change in ["spec.securityContext.fsGroup (MUL217)", "spec.tolerations (", "spec.os ("] {
            ensure!(changes.contains(change), "no {change} in {annotations:?}");
        }
        ensure!(!annotations.contains_key("pods.mullion.dev/would-deny"), "{annotations:?}");
        let annotations = audited.annotations("set", dry_run).await?;
        let changes = annotations.get("templates.mullion.dev/would-change").context("what would change")?;
        ensure!(changes.contains("spec.template.spec.nodeSelector[kubernetes.io/os] ("), "{annotations:?}");
    }

    let counted = audited.counted(&namespace.name).await?;
    let expected = [
        r#"mullion_placements_total{os="linux",effect="would_place"} 1"#,
        r#"mullion_placements_total{os="windows",effect="would_place"} 2"#,
        r#"mullion_rule_findings_total{rule="MUL201",effect="would_deny"} 1"#,
        r#"mullion_rule_findings_total{rule="MUL215",effect="would_repair"} 1"#,
        r#"mullion_rule_findings_total{rule="MUL217",effect="would_repair"} 1"#,
    ];
    ensure!(counted == expected, "{counted:#?}");
    Ok(())
}
