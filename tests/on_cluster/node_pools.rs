//! NodePools and node classes of Karpenter that `survey` and `plan` read from a cluster: what is in the report of a user who
//! may read them, of one who may read some, and of one who may read none.

use anyhow::{Context as _, Result, ensure};
use mullion_cluster::{ControlPlane, NodeSpec, wait_for};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::shared::DEADLINE;

const READER_ROLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/mullion/reader-role.yaml");

/// Group, kind, plural, and the version that the cluster serves. Mullion reads `v1beta1` of the last, so that this one is there
/// and is not served.
const KINDS: [(&str, &str, &str, &str); 3] = [
    ("karpenter.sh", "NodePool", "nodepools", "v1"),
    ("karpenter.k8s.aws", "EC2NodeClass", "ec2nodeclasses", "v1"),
    ("karpenter.azure.com", "AKSNodeClass", "aksnodeclasses", "v1alpha2"),
];

/// The users, and which kinds of Karpenter each may read besides what the cluster role `mullion-reader` allows.
const USERS: [(&str, &[&str]); 3] =
    [("all", &["nodepools", "ec2nodeclasses", "aksnodeclasses"]), ("pools", &["nodepools"]), ("none", &[])];

/// A definition without a schema: Karpenter's own has one, and its objects are read as any others.
fn definition((group, kind, plural, version): (&str, &str, &str, &str)) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Cluster", "names": {"kind": kind, "plural": plural},
            "versions": [{"name": version, "served": true, "storage": true, "schema": schema}]},
    })
}

/// A NodePool of Windows nodes whose build only its node class states, one whose template states it, one of the class that
/// is not served, and one that is not as Karpenter requires.
fn objects() -> Vec<Value> {
    let taint = json!({"key": "os", "value": "windows", "effect": "NoSchedule"});
    let pool = |name: &str, class: [&str; 2], labels: Value| {
        let [kind, class] = class;
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": {"template": {
            "metadata": {"labels": labels},
            "spec": {"nodeClassRef": {"kind": kind, "name": class}, "taints": [taint],
                "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]}]}}}})
    };
    vec![
        json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "windows"},
            "spec": {"amiSelectorTerms": [{"alias": "windows2025@latest"}]}}),
        // The API server cannot delete a definition whose objects nobody has written or read: their storage starts with the
        // deletion, and after an error of a storage that starts the next attempt can be 5 minutes later (`crd_finalizer.go`).
        json!({"apiVersion": "karpenter.azure.com/v1alpha2", "kind": "AKSNodeClass", "metadata": {"name": "windows"},
            "spec": {"imageFamily": "Windows2025"}}),
        pool("by-class", ["EC2NodeClass", "windows"], json!({})),
        pool("by-label", ["EC2NodeClass", "windows"], json!({"node.kubernetes.io/windows-build": "10.0.20348"})),
        pool("of-azure", ["AKSNodeClass", "windows"], json!({})),
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "odd"},
            "spec": {"template": {"metadata": {"labels": ["a"]}, "spec": {"taints": "os", "requirements": {"key": 7}}}}}),
    ]
}

/// The roles and bindings of the users.
fn rights() -> Vec<Value> {
    let api = "rbac.authorization.k8s.io";
    let binding = |name: &str, role: &str, user: &str| {
        json!({"apiVersion": format!("{api}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": api, "kind": "User", "name": user}]})
    };
    let of_user = |(user, kinds): (&str, &[&str])| {
        let may = |(group, _, plural, _): &(&str, &str, &str, &str)| {
            kinds
                .contains(plural)
                .then(|| json!({"apiGroups": [group], "resources": [plural], "verbs": ["get", "list"]}))
        };
        let rules: Vec<Value> = KINDS.iter().filter_map(may).collect();
        let name = format!("karpenter-{user}");
        let role = json!({"apiVersion": format!("{api}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
        [role, binding(&name, &name, user), binding(&format!("reader-{user}"), "mullion-reader", user)]
    };
    USERS.into_iter().flat_map(of_user).collect()
}

async fn create(plane: &ControlPlane, objects: Vec<Value>) -> Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    plane.kubectl_with_input(&["create", "-f", "-"], &list).await.map(drop)
}

/// The report of a command for a user.
async fn report(plane: &ControlPlane, command: &str, user: &str) -> Result<Value> {
    let to: &[&str] = if command == "plan" { &["--to", "ltsc2025"] } else { &[] };
    let mut program = Command::new(env!("CARGO_BIN_EXE_mullion"));
    program.arg(command).args(to).args(["-o", "json", "--today", "2026-11-28", "--policies", "built-in", "--as", user]);
    let ran = program.arg("--kubeconfig").arg(plane.kubeconfig()).output().await?;
    let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
    serde_json::from_slice(&ran.stdout).with_context(|| format!("{command}: {:?} {errors}", ran.status.code()))
}

/// The pools without nodes: name and build, which is `-` if it is not known.
fn pools(report: &Value) -> Vec<String> {
    let pools = report["poolsWithoutNodes"].as_array().into_iter().flatten();
    let pools = pools.map(|pool| {
        let text = |key: &str| pool[key].as_str().unwrap_or("-").to_owned();
        format!("{} {}", text("pool"), text("build"))
    });
    pools.collect()
}

/// The kinds of Karpenter in the coverage: those that were read, and those that were not, with the reason.
fn coverage(report: &Value) -> Vec<String> {
    let of = |list: &str, reason: &str| -> Vec<String> {
        let all = report["coverage"][list].as_array().into_iter().flatten();
        let all = all.filter_map(|one| {
            let plural = one["kind"].as_str()?.split_once(".karpenter.")?.0;
            Some(format!("{plural}: {}", one[reason].as_str().unwrap_or("read")))
        });
        all.collect()
    };
    let mut all = [of("read", ""), of("unread", "reason")].concat();
    all.sort_unstable();
    all
}

/// Both commands report the pools that a user may read; what the user may not read is not read, and no pool is claimed to be
/// absent.
pub async fn node_pools_are_read_if_rights_allow_it(plane: &ControlPlane) -> Result<()> {
    let nodes = [
        NodeSpec::linux("lin").label("karpenter.sh/nodepool", "general"),
        NodeSpec::windows("win", "10.0.17763.8389").label("agentpool", "win19"),
    ];
    plane.create_nodes(&nodes).await?;
    plane.kubectl(&["apply", "-f", READER_ROLE]).await?;
    create(plane, rights()).await?;
    // Without Karpenter's definitions, there is nothing that was not read.
    wait_for("the rights of the users", DEADLINE, async || {
        for (user, _) in USERS {
            let report = report(plane, "survey", user).await?;
            let coverage = report["coverage"]["unread"].to_string();
            ensure!(!coverage.contains("forbidden") && pools(&report).is_empty(), "{user}: {coverage}");
            ensure!(self::coverage(&report).is_empty(), "{user}: {coverage}");
        }
        anyhow::Ok(())
    })
    .await?;
    create(plane, KINDS.map(definition).to_vec()).await?;
    plane.kubectl(&["wait", "--for=condition=established", "crd", "--all", "--timeout=180s"]).await?;
    create(plane, objects()).await?;

    let not_served = "aksnodeclasses: not served by this API server";
    let whole = ["by-class 10.0.26100", "by-label 10.0.20348", "odd -", "of-azure -"];
    let without_class = ["by-class -", "by-label 10.0.20348", "odd -", "of-azure -"];
    for (user, expected, read) in [
        ("all", &whole[..], [not_served, "ec2nodeclasses: read", "nodepools: read"]),
        ("pools", &without_class, ["aksnodeclasses: forbidden", "ec2nodeclasses: forbidden", "nodepools: read"]),
        ("none", &[], ["aksnodeclasses: forbidden", "ec2nodeclasses: forbidden", "nodepools: forbidden"]),
    ] {
        for command in ["survey", "plan"] {
            let what = format!("{command} of {user}");
            wait_for(&what, DEADLINE, async || {
                let report = report(plane, command, user).await?;
                let (pools, read_now) = (pools(&report), coverage(&report));
                ensure!(pools == expected && read_now == read, "{what}: {pools:?} {read_now:?}");
                let is_unknown = report["unknown"].to_string().contains("its NodePools were not read");
                ensure!(is_unknown == (user == "none"), "{what}: {}", report["unknown"]);
                anyhow::Ok(())
            })
            .await?;
        }
    }
    plane.kubectl(&["delete", "crd", "--all", "--timeout=180s"]).await.map(drop)
}
