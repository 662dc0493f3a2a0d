//! Plans for the tests of their formats: a fleet of AKS with everything that a plan can have, names that try to become
//! markup, a cluster without Windows, a fleet that is already there, and the largest one.

use mullion_plan::PlanReport;
use serde_json::{Value, json};

use crate::hostile::{HOSTILE, replace};

fn target_pool(name: &str, replaces: &[&str]) -> Value {
    json!({
        "name": name, "exists": false, "replaces": replaces, "labels": {"kubernetes.io/os": "windows"},
        "taints": ["mullion.dev/move=ltsc2025:NoSchedule"],
    })
}

fn report(value: Value) -> PlanReport {
    serde_json::from_value(value).unwrap()
}

const AKS_UPGRADE: &str = "MicrosoftDocs/azure-aks-docs articles/aks/upgrade-windows-os.md";
const AKS_2019: &str = "MicrosoftDocs/azure-aks-docs articles/aks/includes/windows-server-2019-retirement.md";
const AKS_2022: &str = "MicrosoftDocs/azure-aks-docs articles/aks/includes/windows-server-2022-retirement.md";
const AKS_VERSIONS: &str = "MicrosoftDocs/azure-aks-docs articles/aks/supported-kubernetes-versions.md";

fn header(cluster: &str) -> Value {
    json!({
        "cluster": cluster, "source": "cluster", "takenAt": "2026-11-23T08:12:40Z", "mullion": "0.1.0",
        "kubernetes": "v1.32.9", "today": "2026-11-23", "datesAsOf": "2026-11-20", "redacted": false,
    })
}

fn target() -> Value {
    json!({
        "release": "ltsc2025", "build": "10.0.26100", "from": ["ltsc2019", "ltsc2022"], "provider": "AKS",
        "kubernetes": "1.34", "pools": [target_pool("win25", &["win19", "win22"])], "taint": "mullion.dev/move=ltsc2025:NoSchedule",
    })
}

fn pool(name: &str, release: &str, build: &str, counts: [usize; 2], part: &str) -> Value {
    let runtime = if release == "ltsc2025" { "containerd://2.0.4+azure" } else { "containerd://1.6.35+azure" };
    json!({
        "name": name, "release": release, "build": build, "kubelets": ["v1.32.9"], "runtimes": [runtime],
        "nodes": counts[0], "workloads": counts[1], "part": part,
    })
}

fn constraint(what: &str, state: &str, action: &str, source: &str, as_of: &str) -> Value {
    json!({"what": what, "state": state, "action": action, "source": source, "asOf": as_of})
}

/// A command of Mullion or kubectl, which Mullion's own tests run.
fn own(run: &str, note: &str) -> Value {
    json!({"run": run, "note": note, "source": null, "asOf": null})
}

/// A command of a provider.
fn provided(run: &str, note: &str) -> Value {
    json!({"run": run, "note": note, "source": AKS_UPGRADE, "asOf": "2026-07-13"})
}

fn object(namespace: &str, kind: &str, name: &str) -> Value {
    json!({"namespace": namespace, "kind": kind, "name": name})
}

fn step(number: usize, kind: &str, title: &str, why: &[&str]) -> Value {
    json!({
        "number": number, "kind": kind, "title": title, "why": why, "workloads": 0, "capacity": null, "pullBytes": null,
        "disruptions": [], "commands": [], "back": [],
    })
}

fn wave(number: usize, kind: &str, title: &str, why: &[&str], workloads: usize, capacity: Value) -> Value {
    let mut step = step(number, kind, title, why);
    step["workloads"] = json!(workloads);
    step["capacity"] = capacity;
    step["commands"] = json!([own(
        "kubectl get pods --all-namespaces --output wide --field-selector status.phase!=Running",
        "No pod of these workloads is in this list before you begin the next step."
    )]);
    step
}

const ADD_POOL: &str = "\
az aks nodepool add --resource-group GROUP --cluster-name CLUSTER \\
  --name win25 --os-type Windows --os-sku Windows2025 --enable-fips-image \\
  --kubernetes-version 1.32.9 --node-count 5 \\
  --node-taints mullion.dev/move=ltsc2025:NoSchedule";

#[allow(clippy::too_many_lines, reason = "a list of ten steps")]
fn steps() -> Value {
    let mut new_pool = step(
        1,
        "newPool",
        "Create pool win25, closed",
        &[
            "The taint keeps every workload out of the pool until its step.",
            "The pool has 5 nodes, because the moves need that many of the size of those in pool win22.",
        ],
    );
    new_pool["commands"] = json!([
        provided(ADD_POOL, "Replace GROUP and CLUSTER."),
        own("kubectl get nodes --selector kubernetes.azure.com/agentpool=win25", ""),
    ]);
    new_pool["back"] =
        json!([provided("az aks nodepool delete --resource-group GROUP --cluster-name CLUSTER --name win25", "")]);
    let mut gate = step(
        2,
        "gate",
        "Let the DaemonSets, add-ons and drivers into the pool",
        &[
            "Workloads of later steps need them on each node.",
            "Their pods must be ready on every node of pool win25 before you begin step 3.",
        ],
    );
    gate["workloads"] = json!(2);
    gate["pullBytes"] = json!(1_932_735_283_u64);
    gate["commands"] = json!([own("kubectl get daemonsets --all-namespaces", "")]);
    gate["back"] = json!([own("kubectl --namespace monitoring rollout undo daemonset/windows-exporter", "")]);
    let mut as_is = wave(
        3,
        "runAsIs",
        "Move the stateless workloads that run as they are",
        &["Images for ltsc2022 run on nodes of ltsc2025, so nothing is built for this step."],
        2,
        json!({"pods": 24, "cpuMillis": 12_000, "memoryBytes": 25_769_803_776_u64, "withoutRequests": 0, "nodes": 3}),
    );
    as_is["disruptions"] = json!([
        {"budget": object("shop", "PodDisruptionBudget", "cart"), "workload": object("shop", "Deployment", "cart"), "allowed": 2,
         "what": "A drain evicts 2 pods at once and waits until new ones are ready."},
        {"budget": object("shop", "PodDisruptionBudget", "catalog"), "workload": object("shop", "Deployment", "catalog"), "allowed": 0,
         "what": "A drain waits until a pod may be evicted, and no pod may be now."},
    ]);
    let mut tag = wave(
        4,
        "anotherTag",
        "Move the stateless workloads that need another tag",
        &["The new image and the node selector must change in the same update."],
        1,
        json!({"pods": 2, "cpuMillis": 1_500, "memoryBytes": 3_758_096_384_u64, "withoutRequests": 1, "nodes": 1}),
    );
    tag["pullBytes"] = json!(4_402_341_478_u64);
    let rebuild = wave(
        5,
        "rebuild",
        "Move the stateless workloads that need a rebuild",
        &["Build and push the images of the work list first."],
        2,
        json!({"pods": 7, "cpuMillis": 4_250, "memoryBytes": 7_516_192_768_u64, "withoutRequests": 7, "nodes": null}),
    );
    let unknown = wave(
        6,
        "unknown",
        "Move the stateless workloads of which something is unknown",
        &["Find out what is unknown before you begin this step."],
        1,
        json!({"pods": 2, "cpuMillis": 0, "memoryBytes": 0, "withoutRequests": 2, "nodes": 1}),
    );
    let mut stateful = wave(
        7,
        "stateful",
        "Move the workloads with state, group managed service accounts, graphics or HostProcess containers",
        &["Move these workloads one by one, and check each before the next."],
        2,
        json!({"pods": 5, "cpuMillis": 6_000, "memoryBytes": 12_884_901_888_u64, "withoutRequests": 0, "nodes": 2}),
    );
    stateful["disruptions"] = json!([
        {"budget": object("billing", "PodDisruptionBudget", "ledger"), "workload": object("billing", "StatefulSet", "ledger"), "allowed": null,
         "what": "Its status was not read, so what a drain may evict is unknown."},
    ]);
    let mut remove = step(
        8,
        "removePools",
        "Drain and delete pools win19 and win22",
        &["All of their workloads have moved.", "AKS deletes the node images of Windows Server 2019 on 2027-04-01."],
    );
    remove["commands"] = json!([
        own("kubectl cordon --selector kubernetes.azure.com/agentpool=win19", ""),
        own(
            "kubectl drain --selector kubernetes.azure.com/agentpool=win19 --ignore-daemonsets --delete-emptydir-data --timeout 30m",
            "The option `--delete-emptydir-data` deletes what is in emptyDir volumes."
        ),
        provided(
            "az aks nodepool delete --resource-group GROUP --cluster-name CLUSTER --name win19",
            "AKS creates no new pool of Windows Server 2019: you cannot go back after this command."
        ),
    ]);
    remove["back"] = json!([own(
        "kubectl uncordon --selector kubernetes.azure.com/agentpool=win19",
        "This is possible until the pool is deleted."
    )]);
    let mut control_plane = step(
        9,
        "controlPlane",
        "Upgrade the control plane to 1.34",
        &["Pools of Windows Server 2019 do not run Kubernetes 1.33, so the upgrade comes after their removal."],
    );
    control_plane["commands"] = json!([provided(
        "az aks upgrade --resource-group GROUP --name CLUSTER --control-plane-only --kubernetes-version 1.34",
        ""
    )]);
    let mut open = step(10, "openPool", "Open pool win25", &["Every Windows workload runs on ltsc2025 now."]);
    open["commands"] = json!([own(
        "kubectl taint nodes --selector kubernetes.azure.com/agentpool=win25 mullion.dev/move=ltsc2025:NoSchedule-",
        ""
    )]);
    open["back"] = json!([own(
        "kubectl taint nodes --selector kubernetes.azure.com/agentpool=win25 mullion.dev/move=ltsc2025:NoSchedule",
        ""
    )]);
    json!([new_pool, gate, as_is, tag, rebuild, unknown, stateful, remove, control_plane, open])
}

struct Container {
    name: &'static str,
    image: &'static str,
    injected_by: Option<&'static str>,
    builds: &'static [&'static str],
    known_from: &'static str,
    verdict: &'static str,
    because: &'static str,
    /// Image, confidence, product.
    proposal: Option<(&'static str, &'static str, &'static str)>,
    from_line: Option<&'static str>,
    notes: &'static [&'static str],
    find_out: &'static str,
    pull_bytes: Option<u64>,
}

/// An image for ltsc2022.
const AS_IS: Container = Container {
    name: "app",
    image: "registry.contoso.example/shop/cart:2026.11.3-ltsc2022",
    injected_by: None,
    builds: &["10.0.20348"],
    known_from: "name",
    verdict: "runsAsIs",
    because: "Nodes of 10.0.26100 run images of 10.0.20348.",
    proposal: None,
    from_line: None,
    notes: &["AKS recommends images of the build of the node."],
    find_out: "",
    pull_bytes: None,
};

impl Container {
    fn value(&self) -> Value {
        let proposal = self.proposal.map(|(image, confidence, product)| {
            let repository = |image: &str| image.rsplit_once(':').map(|(repository, _)| repository.to_owned());
            let other_repository = repository(image) != repository(self.image);
            json!({"image": image, "confidence": confidence, "product": product, "otherRepository": other_repository})
        });
        json!({
            "name": self.name, "image": self.image, "injectedBy": self.injected_by, "builds": self.builds,
            "knownFrom": self.known_from, "verdict": self.verdict, "because": self.because, "proposal": proposal,
            "fromLine": self.from_line, "notes": self.notes, "findOut": self.find_out, "pullBytes": self.pull_bytes,
        })
    }
}

fn workload(
    object: &Value,
    step: Option<usize>,
    verdict: &str,
    pods: usize,
    pool: &str,
    containers: &[Container],
) -> Value {
    let mut value = json!({
        "verdict": verdict, "containers": containers.iter().map(Container::value).collect::<Vec<_>>(), "pods": pods,
        "pools": if pool.is_empty() { json!([]) } else { json!([pool]) }, "step": step, "risks": [], "manager": null, "edits": [],
        "patch": null, "instead": "", "hold": [], "commands": [], "back": [], "deadline": null,
    });
    for key in ["namespace", "kind", "name"] {
        value[key] = object[key].clone();
    }
    value
}

fn edit(path: &str, before: &Value, after: &Value, why: &str) -> Value {
    json!({"path": path, "before": before, "after": after, "why": why, "confidence": null})
}

/// The edits that let pods of the template into the new pool.
fn into_pool() -> Vec<Value> {
    vec![
        edit(
            "spec.template.spec.nodeSelector[\"kubernetes.azure.com/os-sku\"]",
            &json!("Windows2022"),
            &json!("Windows2025"),
            "The old value selects the pool that leaves.",
        ),
        edit(
            "spec.template.spec.tolerations[1]",
            &Value::Null,
            &json!({"key": "mullion.dev/move", "operator": "Equal", "value": "ltsc2025", "effect": "NoSchedule"}),
            "The new pool is closed by this taint.",
        ),
    ]
}

fn end_2019() -> Value {
    json!({
        "date": "2027-04-01", "what": "AKS deletes the node images of Windows Server 2019", "concerns": "3 nodes of pool win19.",
        "source": AKS_2019, "asOf": "2026-01-20",
    })
}

fn end_2022() -> Value {
    json!({
        "date": "2028-06-30", "what": "AKS ends support of Windows Server 2022", "concerns": "6 nodes of pool win22.",
        "source": AKS_2022, "asOf": "2026-06-12",
    })
}

fn end_dotnet() -> Value {
    json!({
        "date": "2026-11-10", "what": "Microsoft ends support of .NET 8", "concerns": "1 Windows workload.",
        "source": "https://endoflife.date/dotnet", "asOf": "2026-08-13",
    })
}

#[allow(clippy::too_many_lines, reason = "a list of eleven workloads")]
fn workloads() -> Vec<Value> {
    let exporter = Container {
        name: "windows-exporter",
        image: "ghcr.io/prometheus-community/windows-exporter:0.31.3",
        builds: &["10.0.17763", "10.0.20348"],
        known_from: "registry",
        notes: &[],
        pull_bytes: Some(402_653_184),
        ..AS_IS
    };
    let setup = Container {
        name: "setup",
        image: "mcr.microsoft.com/powershell:lts-nanoserver-ltsc2022",
        known_from: "name",
        notes: &[
            "No image of this repository has changed since 2025-03-26: the successor is mcr.microsoft.com/dotnet/sdk.",
        ],
        pull_bytes: Some(1_530_082_099),
        ..AS_IS
    };
    let mut windows_exporter = workload(
        &object("monitoring", "DaemonSet", "windows-exporter"),
        Some(2),
        "runsAsIs",
        9,
        "win22",
        &[setup, exporter],
    );
    windows_exporter["pools"] = json!(["win19", "win22"]);
    windows_exporter["manager"] = json!({
        "name": "Argo CD application monitoring", "change": "the source of Argo CD application monitoring, path clusters/prod/monitoring",
    });
    windows_exporter["instead"] =
        json!("Change the source of Argo CD application monitoring, path clusters/prod/monitoring.");
    windows_exporter["edits"] = json!([edit(
        "spec.template.spec.tolerations[0]",
        &Value::Null,
        &json!({"operator": "Exists"}),
        "The pods of this DaemonSet must be on each node of the new pool."
    )]);
    let csi = Container {
        name: "azurefile",
        image: "mcr.microsoft.com/oss/kubernetes-csi/azurefile-csi:v1.33.5-windows-hp",
        builds: &["10.0.17763", "10.0.20348", "10.0.26100"],
        known_from: "running",
        because: "A ready container of this image runs on a node of 10.0.26100.",
        notes: &[],
        ..AS_IS
    };
    let mut csi = workload(
        &object("kube-system", "DaemonSet", "csi-azurefile-node-win"),
        Some(2),
        "runsAsIs",
        11,
        "win22",
        &[csi],
    );
    csi["risks"] = json!([{"name": "hostProcess", "what": "It runs HostProcess containers.",
        "path": "spec.template.spec.securityContext.windowsOptions.hostProcess"}]);

    let mut cart = workload(&object("shop", "Deployment", "cart"), Some(3), "runsAsIs", 12, "win22", &[AS_IS]);
    cart["edits"] = json!(into_pool());
    cart["patch"] = json!({"spec": {"template": {"spec": {
        "nodeSelector": {"kubernetes.azure.com/os-sku": "Windows2025"},
        "tolerations": [{"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"},
            {"key": "mullion.dev/move", "operator": "Equal", "value": "ltsc2025", "effect": "NoSchedule"}]}}}});
    cart["commands"] = json!([
        own(
            &format!("kubectl --namespace shop patch deployment cart --type strategic --patch '{}'", cart["patch"]),
            ""
        ),
        own("kubectl --namespace shop rollout status deployment/cart --timeout 15m", ""),
    ]);
    cart["back"] = json!([own("kubectl --namespace shop rollout undo deployment/cart", "")]);
    cart["deadline"] = end_2022();
    let dapr = Container {
        name: "daprd",
        image: "docker.io/daprio/daprd:1.16.2",
        injected_by: Some("Dapr"),
        builds: &["10.0.17763", "10.0.20348"],
        known_from: "registry",
        notes: &[],
        ..AS_IS
    };
    let catalog_app = Container { image: "registry.contoso.example/shop/catalog:2026.11.3-ltsc2022", ..AS_IS };
    let mut catalog =
        workload(&object("shop", "Deployment", "catalog"), Some(3), "runsAsIs", 12, "win22", &[catalog_app, dapr]);
    catalog["manager"] =
        json!({"name": "Helm release shop", "change": "the values or templates of the chart of Helm release shop"});
    catalog["edits"] = json!(into_pool());
    catalog["instead"] = json!(
        "Change the values or templates of the chart of Helm release shop: set \
         spec.template.spec.nodeSelector[\"kubernetes.azure.com/os-sku\"] to Windows2025."
    );
    catalog["commands"] = json!([own("helm get values shop --namespace shop", "")]);
    catalog["back"] = json!([own("helm rollback shop --namespace shop", "")]);
    catalog["deadline"] = end_2022();

    let framework = Container {
        name: "iis",
        image: "mcr.microsoft.com/dotnet/framework/aspnet:4.8-windowsservercore-ltsc2019",
        builds: &["10.0.17763"],
        verdict: "anotherTag",
        because: "Nodes of 10.0.26100 do not run images of 10.0.17763.",
        proposal: Some((
            "mcr.microsoft.com/dotnet/framework/aspnet:4.8.1-windowsservercore-ltsc2025",
            "registry",
            ".NET Framework 4.8 becomes 4.8.1",
        )),
        notes: &["The tag 4.8-windowsservercore-ltsc2022 exists, and nobody has updated it since 2025-10-14."],
        pull_bytes: Some(4_402_341_478),
        ..AS_IS
    };
    let warm_up = Container {
        name: "warm-up",
        image: "mcr.microsoft.com/windows/servercore:ltsc2019",
        proposal: Some(("mcr.microsoft.com/windows/servercore:ltsc2025", "table", "")),
        notes: &[],
        pull_bytes: None,
        ..framework
    };
    let certificates = Container {
        name: "certificates",
        image: "mcr.microsoft.com/windows/nanoserver:ltsc2019",
        proposal: Some(("mcr.microsoft.com/windows/nanoserver:ltsc2025", "table", "")),
        notes: &[
            "ltsc2025 nodes pull it if its tag is a single manifest and not an index; whether they mount layers for another release is not documented.",
        ],
        pull_bytes: Some(110_100_480),
        ..framework
    };
    let mut intranet =
        workload(&object("legacy", "Deployment", "intranet"), Some(4), "anotherTag", 2, "win19", &[warm_up, framework]);
    intranet["imageVolumes"] = json!([certificates.value()]);
    intranet["edits"] = json!([
        edit("spec.template.spec.nodeSelector[\"node.kubernetes.io/windows-build\"]", &json!("10.0.17763"), &Value::Null,
            "No node of the new pool has this build."),
        {"path": "spec.template.spec.containers[0].image", "before": framework_image(), "confidence": "registry",
         "after": "mcr.microsoft.com/dotnet/framework/aspnet:4.8.1-windowsservercore-ltsc2025",
         "why": "Nodes of 10.0.26100 do not run images of 10.0.17763."},
    ]);
    intranet["patch"] = json!({"spec": {"template": {"spec": {
        "nodeSelector": {"node.kubernetes.io/windows-build": null},
        "containers": [{"name": "iis", "image": "mcr.microsoft.com/dotnet/framework/aspnet:4.8.1-windowsservercore-ltsc2025"}]}}}});
    intranet["commands"] = json!([own(
        &format!(
            "kubectl --namespace legacy patch deployment intranet --type strategic --patch '{}'",
            intranet["patch"]
        ),
        "The image changes in the same update as the node selector."
    )]);
    intranet["back"] =
        json!([own("kubectl --namespace legacy rollout undo deployment/intranet", "Pool win19 must still exist.")]);
    intranet["risks"] = json!([{"name": "driveRootMount", "what": "It mounts a volume at the root of a drive.",
        "path": "spec.template.spec.containers[0].volumeMounts[0].mountPath"}]);
    intranet["deadline"] = end_2019();

    let invoices = Container {
        name: "api",
        image: "registry.contoso.example/billing/invoice-api:4.12-ltsc2019",
        builds: &["10.0.17763"],
        verdict: "rebuild",
        because: "Nodes of 10.0.26100 do not run images of 10.0.17763, and no table has this image.",
        proposal: Some(("registry.contoso.example/billing/invoice-api:4.12-ltsc2025", "guess", "")),
        from_line: Some("FROM mcr.microsoft.com/dotnet/aspnet:10.0-nanoserver-ltsc2025"),
        notes: &["No image of .NET 8 for ltsc2019 has been updated since 2026-11-10."],
        ..AS_IS
    };
    let mut invoice_api =
        workload(&object("billing", "Deployment", "invoice-api"), Some(5), "rebuild", 6, "win19", &[invoices]);
    invoice_api["manager"] = json!({"name": "Helm release billing", "change": "the values or templates of the chart of Helm release billing"});
    invoice_api["edits"] = json!(into_pool());
    invoice_api["deadline"] = end_dotnet();
    let report_run = Container {
        name: "run",
        image: "registry.contoso.example/billing/month-end@sha256:0f343b0931126a20f133d67c2b018a3b4f0f8f4c1d5f0e7f2b8f3f8f1b7c9d21",
        builds: &["10.0.17763"],
        known_from: "running",
        verdict: "rebuild",
        because: "Nodes of 10.0.26100 do not run images of 10.0.17763, and a digest names one image.",
        from_line: Some("FROM mcr.microsoft.com/windows/servercore:ltsc2025"),
        notes: &[],
        ..AS_IS
    };
    let month_end = workload(&object("billing", "CronJob", "month-end"), Some(5), "rebuild", 1, "win19", &[report_run]);

    let soap = Container {
        name: "soap",
        image: "registry.contoso.example/legacy/soap:1.0.77",
        builds: &[],
        known_from: "unknown",
        verdict: "unknown",
        because: "Neither its name, a registry nor a running container reveals the build of this image.",
        notes: &[],
        find_out: "Run `mullion plan --to ltsc2025 --registry`, or add a pattern to `detect.images` of a policy.",
        ..AS_IS
    };
    let soap = workload(&object("legacy", "Deployment", "soap-gateway"), Some(6), "unknown", 2, "win22", &[soap]);

    let ledger = Container {
        name: "ledger",
        image: "registry.contoso.example/billing/ledger:9.1",
        builds: &["10.0.20348", "10.0.26100"],
        known_from: "policy",
        because: "The image has a build for 10.0.26100.",
        notes: &[],
        ..AS_IS
    };
    let mut ledger = workload(&object("billing", "StatefulSet", "ledger"), Some(7), "runsAsIs", 3, "win22", &[ledger]);
    ledger["risks"] = json!([
        {"name": "statefulSet", "what": "It is a StatefulSet.", "path": "kind"},
        {"name": "smbVolume", "what": "It mounts an SMB volume.", "path": "spec.volumeClaimTemplates[0].spec.storageClassName"},
    ]);
    ledger["edits"] = json!(into_pool());
    ledger["deadline"] = end_2022();
    let renderer = Container { name: "renderer", image: "registry.contoso.example/legacy/render:5-ltsc2022", ..AS_IS };
    let mut renderer =
        workload(&object("legacy", "Deployment", "renderer"), Some(7), "runsAsIs", 2, "win22", &[renderer]);
    renderer["risks"] = json!([{"name": "graphics", "what": "It requests a graphics device.",
        "path": "spec.template.spec.containers[0].resources.limits[\"microsoft.com/directx\"]"}]);
    let resizer = Container {
        name: "resizer",
        image: "registry.contoso.example/shop/resizer:2026.10.9-ltsc2025",
        builds: &["10.0.26100"],
        because: "The image has a build for 10.0.26100.",
        notes: &[],
        ..AS_IS
    };
    let resizer = workload(&object("shop", "Deployment", "image-resizer"), None, "runsAsIs", 3, "gpu25", &[resizer]);
    vec![csi, windows_exporter, cart, catalog, intranet, month_end, invoice_api, soap, ledger, renderer, resizer]
}

const fn framework_image() -> &'static str {
    "mcr.microsoft.com/dotnet/framework/aspnet:4.8-windowsservercore-ltsc2019"
}

fn changes() -> Value {
    let windows_server = "MicrosoftDocs/windowsserverdocs WindowsServerDocs/get-started";
    json!([
        {
            "name": "tls-1-0", "what": "TLS 1.0 and TLS 1.1 are disabled by default.",
            "check": "Find out which clients and servers of these workloads need TLS 1.0 or 1.1, and enable TLS 1.2 in them.",
            "moves": "with the image", "documented": true, "because": "their images change to ltsc2025",
            "workloads": [object("legacy", "Deployment", "intranet"), object("billing", "Deployment", "invoice-api")], "all": 2,
            "source": format!("{windows_server}/removed-deprecated-features-windows-server.md"), "asOf": "2025-09-24",
        },
        {
            "name": "smb-signing", "what": "SMB clients require signing for all outbound connections.",
            "check": "Check that the file server signs before pods with its shares move.",
            "moves": "with the host", "documented": false, "because": "they mount an SMB volume",
            "workloads": [object("billing", "StatefulSet", "ledger")], "all": 1,
            "source": "https://learn.microsoft.com/windows-server/get-started/whats-new-windows-server-2025", "asOf": "2024-11-01",
        },
        {
            "name": "aks-fips", "what": "AKS enables FIPS in pools of Windows Server 2025, and it cannot be disabled.",
            "check": "Test what these workloads do with MD5 and other algorithms that FIPS does not approve.",
            "moves": "with the platform", "documented": true, "because": "they move to AKS nodes of Windows Server 2025",
            "workloads": [object("shop", "Deployment", "cart")], "all": 10,
            "source": "MicrosoftDocs/azure-aks-docs articles/aks/enable-fips-nodes.md", "asOf": "2026-07-02",
        },
    ])
}

/// The pool of ltsc2022 can also change in place.
fn in_place() -> Value {
    let patch = "kubectl patch deployment cart -n shop --type=strategic -p '{\"spec\":{\"template\":{\"spec\":{\"nodeSelector\":null}}}}'";
    let mut prepare = step(
        1,
        "prepareWorkloads",
        "Let the workloads run on nodes of both releases",
        &["They require labels that change."],
    );
    prepare["workloads"] = json!(1);
    prepare["commands"] = json!([own(patch, "")]);
    prepare["back"] = json!([own("kubectl rollout undo deployment cart -n shop", "")]);
    let mut change = step(2, "changePools", "Change pool win22 to ltsc2025 in place", &["No command undoes it."]);
    change["workloads"] = json!(7);
    change["commands"] = json!([provided(
        "az aks nodepool update --resource-group GROUP --cluster-name CLUSTER \\\n  --name win22 --os-sku Windows2025",
        "The command is in preview."
    )]);
    let gate = |what: &str, state: &str, action: &str| json!({"what": what, "state": state, "action": action});
    let mut cart = object("shop", "Deployment", "cart");
    cart["verdict"] = json!("runsAsIs");
    cart["edits"] = json!([edit(
        "spec.template.spec.nodeSelector[\"kubernetes.azure.com/os-sku\"]",
        &json!("Windows2022"),
        &Value::Null,
        "It names the old release."
    )]);
    cart["instead"] = json!("");
    cart["commands"] = json!([own(patch, "")]);
    cart["back"] = json!([own("kubectl rollout undo deployment cart -n shop", "")]);
    let mut intranet = object("legacy", "Deployment", "intranet");
    intranet["verdict"] = json!("anotherTag");
    for list in ["edits", "commands", "back"] {
        intranet[list] = json!([]);
    }
    intranet["instead"] = json!("Change the values of the chart.");
    json!({
        "preview": true, "what": "AKS can change a pool from Windows Server 2022 to 2025, in preview.", "source": "Azure/AKS#5904",
        "asOf": "2026-08-07", "pools": ["win22"], "others": ["win19"], "differs": ["There is no second pool.", "There is no way back."],
        "gates": [
            gate("Both releases exist with Kubernetes 1.32 to 1.36; pools in this range: win22 (1.32).", "met", ""),
            gate("Nodes of ltsc2025 do not run the images of 1 workload: Deployment legacy/intranet.", "notMet", "Use images that run on both."),
        ],
        "steps": [prepare, change], "workloads": [cart, intranet],
    })
}

/// A fleet of AKS that moves from ltsc2019 and ltsc2022 to ltsc2025.
pub fn fleet() -> PlanReport {
    report(json!({
        "schema": "mullion.dev/plan/v1",
        "header": header("aks-contoso-prod"),
        "target": target(),
        "coverage": {
            "read": [{"kind": "nodes", "objects": 17}, {"kind": "pods", "objects": 196}, {"kind": "deployments", "objects": 41}],
            "unread": [
                {"kind": "events", "namespace": null, "reason": "forbidden", "missing": "reasons for pods without a container status"},
                {"kind": "poddisruptionbudgets", "namespace": "billing", "reason": "forbidden", "missing": "what a drain may evict"},
            ],
        },
        "summary": [
            "6 of 10 Windows workloads that move run as they are on ltsc2025, 1 needs another tag, 2 need a rebuild, and 1 is unknown.",
            "The first date is 2026-11-10: Microsoft ends support of .NET 8.",
            "Kubernetes 1.34 is possible only after pool win19 is deleted.",
        ],
        "poolsWithoutNodes": [
            {"pool": "win25-gpu", "declaredBy": "NodePolicy", "os": "windows", "release": "ltsc2025", "build": "10.0.26100",
             "labels": ["agentpool=win25-gpu"], "taints": ["os=windows:NoSchedule"], "starts": [
                {"namespace": "shop", "kind": "Deployment", "name": "cart", "pods": 2, "runs": true}]},
        ],
        "unserved": [{"namespace": "billing", "kind": "StatefulSet", "name": "ledger", "pods": 1, "runs": false}],
        "pools": [
            pool("win19", "ltsc2019", "10.0.17763", [3, 4], "leaves"), pool("win22", "ltsc2022", "10.0.20348", [6, 7], "leaves"),
            pool("gpu25", "ltsc2025", "10.0.26100", [1, 1], "stays"), pool("win25", "ltsc2025", "10.0.26100", [0, 0], "target"),
        ],
        "constraints": [
            constraint("AKS upgrades no pool of Windows Server 2019 to Kubernetes 1.33.", "metByStep",
                "Delete pool win19 before you upgrade the control plane beyond 1.35.", AKS_2019, "2026-01-20"),
            constraint("AKS has Windows Server 2025 for pools of Kubernetes 1.32 and later.", "met", "", AKS_UPGRADE, "2026-07-13"),
            constraint("AKS does not change the Windows release of an existing pool.", "notice",
                "Create a new pool, as step 1 does.", "https://github.com/Azure/AKS/issues/5904", "2026-08-07"),
            constraint("Standard support of Kubernetes 1.32 on AKS ended in March 2026.", "notMet",
                "Enable long-term support for the time of the move.", AKS_VERSIONS, "2026-08-05"),
        ],
        "steps": steps(),
        "inPlace": in_place(),
        "workloads": workloads(),
        "objects": [{
            "namespace": "", "kind": "RuntimeClass", "name": "windows-2025", "step": 3,
            "why": "The RuntimeClass windows-2022 selects nodes of 10.0.20348 only.",
            "command": own(
                "kubectl apply -f - <<'EOF'\napiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata:\n  name: windows-2025\nhandler: runhcs-wcow-process\nscheduling:\n  nodeSelector:\n    kubernetes.io/os: windows\n    node.kubernetes.io/windows-build: 10.0.26100\nEOF",
                "",
            ),
            "back": own("kubectl delete runtimeclass windows-2025", ""),
        }],
        "changes": changes(),
        "calendar": [
            with(end_dotnet(), &[object("billing", "Deployment", "invoice-api")], 1),
            with(end_2019(), &[object("legacy", "Deployment", "intranet")], 1),
            with(end_2022(), &[object("shop", "Deployment", "cart"), object("shop", "Deployment", "catalog"), object("billing", "StatefulSet", "ledger")], 3),
        ],
        "unknown": [{
            "what": "The build of 1 image is not known, because its tag does not name a release.",
            "resolve": "Run `mullion plan --to ltsc2025 --registry`, or add a pattern to `detect.images` of a policy.",
            "objects": [object("legacy", "Deployment", "soap-gateway")], "all": 1,
        }],
        "tables": tables("facts.yaml"),
    }))
}

fn with(mut deadline: Value, workloads: &[Value], all: usize) -> Value {
    deadline["workloads"] = json!(workloads);
    deadline["all"] = json!(all);
    deadline
}

fn tables(constraints_from: &str) -> Value {
    let table = |table: &str, from: &str, rows: usize| json!({"table": table, "from": from, "checked": "2026-11-20", "rows": rows});
    json!([
        table("dates", "built-in", 57),
        table("images", "built-in", 143),
        table("constraints", constraints_from, 24),
        table("changes", "built-in", 26),
        table("commands", "built-in", 19),
    ])
}

/// Without Windows, every list is empty.
pub fn empty() -> PlanReport {
    let mut header = header("empty.json");
    header["source"] = json!("dump");
    header["takenAt"] = Value::Null;
    header["kubernetes"] = Value::Null;
    let mut target = target();
    target["from"] = json!([]);
    target["pools"] = json!([]);
    target["provider"] = Value::Null;
    target["kubernetes"] = Value::Null;
    report(json!({
        "schema": "mullion.dev/plan/v1", "header": header, "target": target, "coverage": {"read": [], "unread": []}, "summary": [],
        "pools": [], "constraints": [], "steps": [], "workloads": [], "objects": [], "changes": [], "calendar": [], "unknown": [],
        "tables": [],
    }))
}

/// Every Windows workload is on ltsc2025.
pub fn arrived() -> PlanReport {
    let there = fleet();
    let mut value = serde_json::to_value(&there).unwrap();
    let resizer = value["workloads"].as_array().unwrap().last().unwrap().clone();
    value["header"] = header("aks-contoso-new");
    value["target"]["from"] = json!([]);
    value["target"]["pools"] = json!([target_pool("gpu25", &[])]);
    value["summary"] = json!(["No pool leaves: every Windows node has ltsc2025 already."]);
    value["pools"] = json!([pool("gpu25", "ltsc2025", "10.0.26100", [1, 1], "stays")]);
    value["workloads"] = json!([resizer]);
    for list in ["constraints", "steps", "objects", "changes", "calendar", "unknown"] {
        value[list] = json!([]);
    }
    value["inPlace"] = Value::Null;
    report(value)
}

/// Members whose texts do not come from a cluster.
const KEPT: [&str; 15] = [
    "schema",
    "source",
    "date",
    "asOf",
    "today",
    "datesAsOf",
    "knownFrom",
    "effect",
    "state",
    "part",
    "kind",
    "verdict",
    "confidence",
    "checked",
    "documented",
];

/// Every text of the plan that may come from a cluster or a file is malicious.
pub fn hostile() -> PlanReport {
    let mut value = serde_json::to_value(fleet()).unwrap();
    let mut next = 0;
    replace(&mut value, "", &KEPT, &mut |_| {
        next += 1;
        HOSTILE[next % HOSTILE.len()].to_owned()
    });
    // The kind of a step is one of few words, that of an object is text.
    for (at, workload) in value["workloads"].as_array_mut().unwrap().iter_mut().enumerate() {
        workload["kind"] = json!(HOSTILE[at % HOSTILE.len()]);
    }
    report(value)
}

/// The largest plan: 20,000 workloads with long names, and long lists of all else.
pub fn huge() -> PlanReport {
    let mut value = serde_json::to_value(fleet()).unwrap();
    let long = |at: usize, stem: &str| format!("{stem}-{at:05}-{}", "abcdefghij".repeat(4));
    let some = workloads();
    value["workloads"] = (0..20_000)
        .map(|at| {
            let mut one = some[at % some.len()].clone();
            one["namespace"] = json!(long(at / 20, "namespace"));
            one["name"] = json!(long(at, "workload"));
            one
        })
        .collect();
    let longer = |value: &mut Value, list: &str, all: usize| {
        let items = value[list].as_array().unwrap().clone();
        value[list] = (0..all).map(|at| items[at % items.len()].clone()).collect();
    };
    for list in ["pools", "constraints", "objects", "changes", "calendar", "unknown", "tables", "steps"] {
        longer(&mut value, list, 2_000);
    }
    for (list, all) in [("gates", 12), ("workloads", 2_000)] {
        longer(&mut value["inPlace"], list, all);
    }
    for step in value["steps"].as_array_mut().unwrap() {
        longer(step, "commands", 40);
        if step["disruptions"].as_array().is_some_and(|all| !all.is_empty()) {
            longer(step, "disruptions", 20);
        }
    }
    report(value)
}
