//! Steps of whole fleets.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use serde_json::{Value, json};

use crate::constraints::CheckedConstraints;
use crate::report::{ConstraintState, Step, StepKind, Verdict};
use crate::test_fleet::{TestPlan, budget, node, workload};
use mullion_survey::facts::constraints::{ConstraintRow, Limit};

fn aks(name: &str, pool: &str, build: u32) -> Value {
    node(name, build, json!({"kubernetes.azure.com/agentpool": pool, "agentpool": pool, "disk": "fast"}))
}

fn eks(name: &str, pool: &str, build: u32) -> Value {
    node(name, build, json!({"eks.amazonaws.com/nodegroup": pool}))
}

fn kinds(steps: &[Step]) -> Vec<StepKind> {
    assert!(steps.iter().zip(1..).all(|(step, number)| step.number == number));
    steps.iter().map(|step| step.kind).collect()
}

fn of(steps: &[Step], kind: StepKind) -> &Step {
    steps.iter().find(|step| step.kind == kind).unwrap()
}

fn runs(step: &Step) -> Vec<&str> {
    step.commands.iter().map(|command| command.run.as_str()).collect()
}

fn says(step: &Step, text: &str) -> bool {
    step.why.iter().any(|why| why.contains(text))
}

/// AKS, 2019 and 2022.
fn aks_fleet() -> Vec<Value> {
    let mut objects = vec![aks("w19-1", "win19", 17763), aks("w22-1", "win22", 20348), aks("w22-2", "win22", 20348)];
    for (kind, name, replicas, on) in [
        ("Deployment", "web", 3, "w22-1"),
        ("Deployment", "api", 2, "w22-2"),
        ("Deployment", "old", 1, "w19-1"),
        ("Deployment", "mystery", 1, "w22-1"),
        ("StatefulSet", "db", 2, "w22-2"),
        ("DaemonSet", "agent", 0, "w22-1"),
    ] {
        objects.extend(workload(kind, name, replicas, on));
    }
    objects
}

fn aks_plan(objects: Vec<Value>) -> TestPlan {
    let verdicts = vec![
        ("api", Verdict::AnotherTag),
        ("old", Verdict::Rebuild),
        ("mystery", Verdict::Unknown),
        ("agent", Verdict::AnotherTag),
    ];
    TestPlan { verdicts, ..TestPlan::new(objects) }
}

#[test]
fn order_on_aks() {
    let plan = TestPlan {
        checked: CheckedConstraints { control_plane_last: Some("1.36".to_owned()), ..CheckedConstraints::default() },
        ..aks_plan(aks_fleet())
    };
    let (steps, moves) = plan.steps();
    let expected = [
        StepKind::NewPool,
        StepKind::Gate,
        StepKind::RunAsIs,
        StepKind::AnotherTag,
        StepKind::Rebuild,
        StepKind::Unknown,
        StepKind::RemovePools,
        StepKind::OpenPool,
        StepKind::ControlPlane,
    ];
    assert_eq!(kinds(&steps), expected);
    let number = |name: &str| moves.iter().find(|one| one.report.object.name == name).unwrap().report.step;
    let numbers = ["agent", "web", "db", "api", "old", "mystery"].map(number);
    assert_eq!(numbers, [Some(2), Some(3), Some(3), Some(4), Some(5), Some(6)]);

    let new = of(&steps, StepKind::NewPool);
    assert_eq!(new.title, "Create pool win25 with a taint that keeps it closed");
    let added = &new.commands[0];
    assert_eq!(
        added.run,
        "az aks nodepool add --resource-group RESOURCE_GROUP --cluster-name CLUSTER \\\n  --name win25 --os-type Windows --os-sku Windows2025 --enable-fips-image \\\n  --node-taints os=windows:NoSchedule,mullion.dev/move=ltsc2025:NoSchedule --node-count 3 --node-vm-size MACHINE_TYPE"
    );
    assert!(added.source.is_some() && added.as_of.is_some());
    assert_eq!(
        new.back[0].run,
        "az aks nodepool delete --resource-group RESOURCE_GROUP --cluster-name CLUSTER --name win25"
    );

    let gate = of(&steps, StepKind::Gate);
    assert!(says(gate, "1 DaemonSet needs another tag: shop/agent."), "{:?}", gate.why);
    assert!(
        says(gate, "DaemonSet shop/agent does not tolerate the taint mullion.dev/move=ltsc2025:NoSchedule"),
        "{:?}",
        gate.why
    );
    assert!(says(gate, "CSINodes were not read"), "{:?}", gate.why);

    let wave = of(&steps, StepKind::RunAsIs);
    // First the changes, then the rollouts.
    let starts: Vec<&str> = runs(wave).iter().map(|run| run.split(" -").next().unwrap()).collect();
    assert_eq!(
        starts,
        [
            "kubectl patch deployment web",
            "kubectl patch statefulset db",
            "kubectl rollout status deployment/web",
            "kubectl rollout status statefulset/db",
        ]
    );
    let back: Vec<&str> = wave.back.iter().map(|command| command.run.as_str()).collect();
    assert_eq!(back, ["kubectl rollout undo deployment web -n shop", "kubectl rollout undo statefulset db -n shop"]);
    assert!(wave.back[1].note.contains("never becomes ready"), "{:?}", wave.back);

    let remove = of(&steps, StepKind::RemovePools);
    assert_eq!(
        runs(remove),
        [
            "kubectl cordon --selector=kubernetes.azure.com/agentpool=win19",
            "kubectl cordon --selector=kubernetes.azure.com/agentpool=win22",
            "mullion survey --details",
            "kubectl drain --selector=kubernetes.azure.com/agentpool=win19 --ignore-daemonsets --delete-emptydir-data",
            "kubectl drain --selector=kubernetes.azure.com/agentpool=win22 --ignore-daemonsets --delete-emptydir-data",
            "az aks nodepool delete --resource-group RESOURCE_GROUP --cluster-name CLUSTER --name win19",
            "az aks nodepool delete --resource-group RESOURCE_GROUP --cluster-name CLUSTER --name win22",
        ]
    );
    // AKS does not let the Kubernetes API remove taints that AKS set.
    assert_eq!(
        runs(of(&steps, StepKind::OpenPool)),
        [
            "az aks nodepool update --resource-group RESOURCE_GROUP --cluster-name CLUSTER \\\n  --name win25 --node-taints os=windows:NoSchedule"
        ]
    );
    let last = of(&steps, StepKind::ControlPlane);
    assert_eq!(last.title, "Upgrade the control plane to Kubernetes 1.36");
    assert!(runs(last)[1].contains("--kubernetes-version 1.36 --control-plane-only"), "{:?}", last.commands);
    assert!(says(last, "The move ends at Kubernetes 1.36, and nothing requires it earlier."), "{:?}", last.why);
    assert!(runs(last).iter().any(|run| run.contains("nodepool upgrade") && run.contains("--name win25")));
}

#[test]
fn order_on_eks_with_an_existing_pool() {
    let mut objects = vec![eks("a", "ng-22", 20348), eks("b", "ng-25", 26100)];
    objects.extend(workload("Deployment", "web", 3, "a"));
    let plan = TestPlan {
        checked: CheckedConstraints { control_plane_first: Some("1.35".to_owned()), ..CheckedConstraints::default() },
        ..TestPlan::new(objects)
    };
    let (steps, _) = plan.steps();
    let expected = [
        StepKind::ControlPlane,
        StepKind::NewPool,
        StepKind::Gate,
        StepKind::RunAsIs,
        StepKind::RemovePools,
        StepKind::OpenPool,
    ];
    assert_eq!(kinds(&steps), expected);
    assert_eq!(
        runs(&steps[0]),
        ["kubectl version", "eksctl upgrade cluster --name=CLUSTER --version=1.35 --approve", "kubectl version"]
    );
    let close = of(&steps, StepKind::NewPool);
    assert_eq!(close.title, "Close pool ng-25 with a taint");
    assert!(says(close, "Pods that are in pool ng-25 now stay there"), "{:?}", close.why);
    // The version of the control plane is not in the dump.
    assert!(
        says(&steps[0], "skip this step if `kubectl version` prints 1.35 or a newer version"),
        "{:?}",
        steps[0].why
    );
    assert_eq!(
        runs(close)[1],
        "kubectl taint nodes --selector=eks.amazonaws.com/nodegroup=ng-25 mullion.dev/move=ltsc2025:NoSchedule --overwrite"
    );
    let open = of(&steps, StepKind::OpenPool);
    assert_eq!(runs(open)[1], "kubectl taint nodes --selector=eks.amazonaws.com/nodegroup=ng-25 mullion.dev/move-");
    assert!(runs(open)[0].contains("removeTaints=[{key=mullion.dev/move,value=ltsc2025,effect=NO_SCHEDULE}]"));
}

#[test]
fn order_without_a_provider() {
    let mut objects: Vec<Value> = [("a", 17763), ("b", 20348), ("c", 25398), ("d", 26100)]
        .into_iter()
        .map(|(name, build)| node(name, build, json!({})))
        .collect();
    objects.extend(workload("Deployment", "web", 3, "b"));
    let plan = TestPlan { provider: Some(""), ..TestPlan::new(objects) };
    let (steps, _) = plan.steps();
    let expected = [StepKind::NewPool, StepKind::Gate, StepKind::RunAsIs, StepKind::RemovePools, StepKind::OpenPool];
    assert_eq!(kinds(&steps), expected);
    assert_eq!(
        runs(of(&steps, StepKind::NewPool)),
        [
            "kubectl taint nodes --selector=node.kubernetes.io/windows-build=10.0.26100 mullion.dev/move=ltsc2025:NoSchedule --overwrite"
        ]
    );
    let remove = of(&steps, StepKind::RemovePools);
    assert_eq!(remove.title, "Drain and delete pools 23h2, ltsc2019 and ltsc2022");
    assert!(runs(remove).contains(&"kubectl delete nodes --selector=node.kubernetes.io/windows-build=10.0.25398"));
}

#[test]
fn fleets_without_steps() {
    let with =
        |nodes: Vec<Value>| TestPlan::new(nodes.into_iter().chain(workload("Deployment", "web", 1, "a")).collect());
    for (name, plan) in [
        ("already there", with(vec![aks("a", "win25", 26100)])),
        ("no Windows nodes", TestPlan::new(vec![json!({"kind": "Node", "metadata": {"name": "a"}})])),
        ("no nodes", with(Vec::new())),
        ("a newer release", TestPlan { target: 20348, ..with(vec![aks("a", "win25", 26100)]) }),
        ("an older target", TestPlan { target: 20348, from: Some(26100), ..with(vec![aks("a", "win25", 26100)]) }),
    ] {
        let (steps, moves) = plan.steps();
        assert_eq!(steps, [], "{name}");
        assert!(moves.iter().all(|one| one.report.step.is_none()), "{name}");
    }
}

#[test]
fn capacity_in_nodes_of_the_old_size() {
    // 4 processors, 16 GiB and 30 pods, of which the DaemonSet takes 1 processor, 2 GiB and 1 pod: 3 pods of 1 processor.
    for (replicas, most, nodes) in
        [(1, None, 1), (3, None, 1), (4, None, 2), (2, Some(10), 4), (5, Some(3), 2), (0, Some(9), 0)]
    {
        let mut objects = vec![aks("w1", "win22", 20348)];
        objects.extend(workload("Deployment", "web", replicas, "w1"));
        objects.extend(workload("DaemonSet", "agent", 0, "w1"));
        objects.extend(most.map(|most: u64| {
            json!({"kind": "HorizontalPodAutoscaler", "metadata": {"namespace": "shop", "name": "web"},
                "spec": {"maxReplicas": most, "scaleTargetRef": {"kind": "Deployment", "name": "web"}}})
        }));
        let (steps, _) = TestPlan::new(objects).steps();
        let capacity = &of(&steps, StepKind::RunAsIs).capacity;
        let found = capacity.as_ref().map_or(0, |capacity| capacity.nodes.unwrap());
        assert_eq!(found, nodes, "{replicas} {most:?}");
        if let Some(capacity) = capacity {
            let pods = u64::try_from(capacity.pods).unwrap();
            assert_eq!((capacity.cpu_millis, capacity.memory_bytes), (pods * 1000, pods << 31));
        }
    }
}

#[test]
fn capacity_without_sizes_and_for_large_pods() {
    let fleet = |size: Value| {
        let mut first = aks("w1", "win22", 20348);
        first["status"]["allocatable"] = size;
        let mut objects = vec![first];
        objects.extend(workload("Deployment", "web", 2, "w1"));
        TestPlan::new(objects).steps().0
    };
    let steps = fleet(json!(null));
    assert_eq!(of(&steps, StepKind::RunAsIs).capacity.as_ref().unwrap().nodes, None);
    assert!(runs(of(&steps, StepKind::NewPool))[0].contains("--node-count NODES"));
    let steps = fleet(json!({"cpu": "500m", "memory": "16Gi", "pods": "30"}));
    let wave = of(&steps, StepKind::RunAsIs);
    assert_eq!(wave.capacity.as_ref().unwrap().nodes, Some(2));
    assert!(says(wave, "no room for a pod of Deployment shop/web"), "{:?}", wave.why);
}

#[test]
fn budgets_of_workloads() {
    let mut objects = aks_fleet();
    objects.extend([budget("web", "web", 0), budget("api", "api", 1), budget("api-too", "api", 1)]);
    let mut elsewhere = budget("other", "web", 0);
    elsewhere["metadata"]["namespace"] = "other".into();
    let mut all = budget("everything", "x", 1);
    all["spec"]["selector"] = json!({});
    all["metadata"]["namespace"] = "other".into();
    let mut none = budget("nothing", "x", 0);
    none["spec"]["selector"] = json!(null);
    objects.extend([elsewhere, all, none]);
    let (steps, _) = aks_plan(objects).steps();
    let found = |kind: StepKind| -> Vec<(String, String, Option<u64>)> {
        let disruptions = of(&steps, kind).disruptions.iter();
        disruptions.map(|one| (one.budget.name.clone(), one.workload.name.clone(), one.allowed)).collect()
    };
    assert_eq!(found(StepKind::RunAsIs), [("web".to_owned(), "web".to_owned(), Some(0))]);
    let two = ["api", "api-too"].map(|name| (name.to_owned(), "api".to_owned(), Some(0)));
    assert_eq!(found(StepKind::AnotherTag), two);
    assert!(of(&steps, StepKind::AnotherTag).disruptions[0].what.contains("More than one budget"));
    let remove = of(&steps, StepKind::RemovePools);
    assert!(
        says(
            remove,
            "The waves move 5 pods of 5 workloads: the drain evicts only those that are left behind, within the limits of 3 PodDisruptionBudgets."
        ),
        "{:?}",
        remove.why
    );
    assert!(
        says(
            remove,
            "If pods that PodDisruptionBudgets shop/api, shop/api-too and shop/web select are still there, the drain waits for them"
        ),
        "{:?}",
        remove.why
    );
}

#[test]
fn the_gate_compares_csi_drivers() {
    let drivers = |node: &str, names: &[&str]| {
        let drivers: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"kind": "CSINode", "metadata": {"name": node}, "spec": {"drivers": drivers}})
    };
    let mut objects = vec![eks("a", "ng-22", 20348), eks("b", "ng-25", 26100)];
    objects.extend(workload("Deployment", "web", 1, "a"));
    objects.extend([drivers("a", &["ebs.csi.aws.com", "efs.csi.aws.com"]), drivers("b", &["efs.csi.aws.com"])]);
    let (steps, _) = TestPlan::new(objects).steps();
    let gate = of(&steps, StepKind::Gate);
    assert!(says(gate, "Nodes of pool ng-25 do not have the CSI driver ebs.csi.aws.com, which"), "{:?}", gate.why);
}

#[test]
fn workloads_and_policies_that_defeat_the_taint() {
    let mut objects = vec![aks("w1", "win22", 20348)];
    let mut web = workload("Deployment", "web", 1, "w1");
    web[1]["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    objects.extend(web);
    let mut plan = TestPlan::new(objects);
    let (steps, _) = plan.steps();
    let new = of(&steps, StepKind::NewPool);
    assert!(says(new, "The taint does not keep pods of Deployment shop/web off"), "{:?}", new.why);
    // What keeps them off comes before the pool.
    assert!(runs(new)[0].starts_with("kubectl patch deployment web -n shop"), "{:?}", new.commands);
    assert!(
        runs(new)[0].contains("\"NotIn\"") && runs(new)[1].starts_with("az aks nodepool add"),
        "{:?}",
        new.commands
    );
    assert!(!says(new, "NodePolicy counts this taint"));
    plan.policies.nodes.windows_taints.push(mullion_engine::model::settings::TaintPattern("*=ltsc*".to_owned()));
    let (steps, _) = plan.steps();
    assert!(says(of(&steps, StepKind::NewPool), "windowsTaints: *=ltsc*"));
}

#[test]
fn labels_that_workloads_select_are_labels_of_the_pool() {
    let mut objects = vec![aks("w1", "win22", 20348)];
    let mut web = workload("Deployment", "web", 1, "w1");
    for at in [0, 1] {
        let spec = if at == 0 { &mut web[0]["spec"]["template"]["spec"] } else { &mut web[1]["spec"] };
        spec["nodeSelector"] = json!({"kubernetes.io/os": "windows", "disk": "fast"});
    }
    objects.extend(web);
    let (steps, _) = TestPlan::new(objects).steps();
    assert!(runs(of(&steps, StepKind::NewPool))[0].contains("\n  --labels disk=fast \\\n"), "{:?}", steps[0].commands);
}

#[test]
fn hostile_names_are_quoted() {
    let mut objects = vec![aks("w1", "$(id)'", 20348), aks("w2", "b; reboot", 26100)];
    objects.extend(workload("Deployment", "web", 1, "w1"));
    let (steps, _) = TestPlan::new(objects).steps();
    let all = steps.iter().flat_map(|step| step.commands.iter().chain(&step.back)).map(|command| command.run.as_str());
    let mut seen = 0;
    for run in all {
        for (name, quoted) in [("$(id)'", r"$(id)'\''"), ("b; reboot", "b; reboot")] {
            for (at, _) in run.match_indices(name) {
                seen += 1;
                let before = &run[..at];
                let open = before.rfind('\'').unwrap();
                assert!(!before[open..].contains(' '), "{run}");
                assert!(run[at..].starts_with(quoted), "{run}");
            }
        }
    }
    assert!(seen > 5);
}

#[test]
fn a_step_has_commands_for_at_most_twenty_workloads() {
    let mut objects = vec![aks("w1", "win22", 20348)];
    for at in 0..25 {
        objects.extend(workload("Deployment", &format!("web-{at:02}"), 1, "w1"));
    }
    let (steps, _) = TestPlan::new(objects).steps();
    let wave = of(&steps, StepKind::RunAsIs);
    assert_eq!((wave.workloads, wave.commands.len(), wave.back.len()), (25, 40, 20));
    assert!(
        says(
            wave,
            "The commands change the first 20 workloads of this step; the section Edits has those of the other 5."
        ),
        "{:?}",
        wave.why
    );
    assert!(
        says(wave, "The commands that wait are for the first 20 workloads of this step; 5 more are in the work list."),
        "{:?}",
        wave.why
    );
}

/// Sentences end with a full stop, and commands of a provider have a source.
#[test]
fn texts_are_sentences() {
    let mut objects = aks_fleet();
    objects.extend([budget("web", "web", 0), budget("api", "api", 1)]);
    let mut pod = workload("Deployment", "bare", 1, "w22-1").remove(1);
    pod["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    objects.push(pod);
    for provider in [None, Some("EKS"), Some("GKE"), Some("OpenShift"), Some("RKE2"), Some("")] {
        let checked = CheckedConstraints {
            control_plane_first: Some("1.35".to_owned()),
            control_plane_last: Some("1.36".to_owned()),
            ..CheckedConstraints::default()
        };
        let (steps, _) = TestPlan { provider, checked, ..aks_plan(objects.clone()) }.steps();
        for step in &steps {
            assert!(!step.title.ends_with('.'), "{}", step.title);
            let notes = step.commands.iter().chain(&step.back).map(|command| &command.note);
            let texts = step.why.iter().chain(notes).chain(step.disruptions.iter().map(|one| &one.what));
            for text in texts.filter(|text| !text.is_empty()) {
                assert!(text.ends_with('.') && !text.contains("  ") && !text.contains(['{', '}']), "{text}");
            }
            for command in step.commands.iter().chain(&step.back) {
                let own = ["kubectl ", "mullion "].iter().any(|own| command.run.starts_with(own));
                assert!(own || (command.source.is_some() && command.as_of.is_some()), "{}", command.run);
                assert!(!command.run.contains("{pool}") && !command.run.ends_with('\\'), "{}", command.run);
            }
        }
    }
}

/// Budgets of other namespaces are not compared: 2,000 namespaces with one workload and one budget each, and a selector that
/// would match everywhere.
#[test]
fn budgets_are_compared_in_their_namespace() {
    let mut objects = vec![aks("w1", "win22", 20348)];
    for at in 0..2000 {
        let namespace = format!("team-{at}");
        let mut own = workload("Deployment", "web", 1, "w1");
        own.push(budget("web", "web", 1));
        for object in &mut own {
            object["metadata"]["namespace"] = namespace.as_str().into();
        }
        objects.extend(own);
    }
    let (steps, _) = TestPlan::new(objects).steps();
    let disruptions = &of(&steps, StepKind::RunAsIs).disruptions;
    assert_eq!(disruptions.len(), 2000);
    assert!(disruptions.iter().all(|one| one.budget.namespace == one.workload.namespace));
}

/// Going back from the new pool does not touch pools that exist.
#[test]
fn going_back_removes_only_the_new_pool() {
    let mut objects = vec![
        node("a", 20348, json!({"disk": "fast"})),
        node("b", 20348, json!({"kubernetes.azure.com/agentpool": "slow"})),
        node("c", 26100, json!({"kubernetes.azure.com/agentpool": "win25"})),
    ];
    for (name, on) in [("fast", "a"), ("slow", "b")] {
        let mut own = workload("Deployment", name, 1, on);
        if name == "fast" {
            own[0]["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "fast"});
        }
        objects.extend(own);
    }
    for provider in ["AKS", "EKS", "OpenShift", "RKE2", ""] {
        let (steps, _) = TestPlan { provider: Some(provider), ..TestPlan::new(objects.clone()) }.steps();
        let new = of(&steps, StepKind::NewPool);
        assert_eq!(new.title, "Create pool win25b and close pool win25 with a taint", "{provider}");
        let deletes = |run: &&str| ["delete", "scale"].iter().any(|verb| run.contains(verb));
        let back: Vec<&str> = new.back.iter().map(|command| command.run.as_str()).filter(deletes).collect();
        assert_eq!(back.len(), 1, "{provider} {back:?}");
        assert!(back.iter().all(|run| run.contains("win25b") || run.contains("NODES")), "{back:?}");
    }
}

/// Kubelets may be three minor versions older than the control plane.
#[test]
fn pools_that_are_too_old_for_the_control_plane() {
    let mut objects = vec![aks("w1", "win22", 20348)];
    objects.extend(workload("Deployment", "web", 1, "w1"));
    for (version, lags) in [("1.35", false), ("1.36", true)] {
        let checked =
            CheckedConstraints { control_plane_first: Some(version.to_owned()), ..CheckedConstraints::default() };
        let mut plan = TestPlan { checked, ..TestPlan::new(objects.clone()) };
        plan.facts.constraints = vec![ConstraintRow {
            provider: None,
            build: None,
            limit: Limit::VersionSkew { minors: 3, until: None },
            what: String::new(),
            action: None,
            source: String::new(),
            as_of: jiff::civil::date(2026, 1, 1),
            checked: None,
        }];
        let (steps, _) = plan.steps();
        let step = of(&steps, StepKind::ControlPlane);
        assert_eq!(says(step, "The kubelets of win22 are too old"), lags, "{version}");
        assert_eq!(runs(step)[1].starts_with("az aks nodepool upgrade"), lags, "{version}");
    }
}

#[test]
fn finished_jobs_do_not_move() {
    let mut objects = vec![aks("w1", "win22", 20348)];
    let mut done = workload("Job", "import", 1, "w1");
    done[1]["status"]["phase"] = "Succeeded".into();
    objects.extend(done);
    objects.extend(workload("Job", "export", 1, "w1"));
    objects.push(workload("Job", "suspended", 1, "w1").remove(0));
    let (_, moves) = TestPlan::new(objects).steps();
    let steps: Vec<(&str, bool)> =
        moves.iter().map(|one| (one.report.object.name.as_str(), one.report.step.is_some())).collect();
    assert_eq!(steps, [("export", true), ("import", false), ("suspended", true)]);
    // Without pods, the status shows it.
    for (condition, status, moves) in
        [("Complete", "True", false), ("Failed", "True", false), ("Failed", "False", true), ("Suspended", "True", true)]
    {
        let mut job = workload("Job", "old", 1, "w1").remove(0);
        job["status"] =
            json!({"conditions": [{"type": "Other", "status": "True"}, {"type": condition, "status": status}]});
        let others = workload("Deployment", "web", 1, "w1");
        let (_, found) = TestPlan::new([vec![aks("w1", "win22", 20348), job], others].concat()).steps();
        let old = found.iter().find(|one| one.report.object.name == "old").unwrap();
        assert_eq!(old.moves, moves, "{condition} {status}");
    }
}

/// The labels and the taint of spot machines come from the priority of the pool: nobody can set them.
#[test]
fn a_pool_of_spot_machines_is_created_as_one() {
    let spot = "kubernetes.azure.com/scalesetpriority";
    let mut first = node("s1", 20348, json!({"kubernetes.azure.com/agentpool": "spot", spot: "spot"}));
    let taint = json!({"key": spot, "value": "spot", "effect": "NoSchedule"});
    first["spec"]["taints"].as_array_mut().unwrap().push(taint.clone());
    let mut objects = vec![first, aks("w1", "win22", 20348)];
    let mut batch = workload("Deployment", "batch", 1, "s1");
    for at in [0, 1] {
        let spec = if at == 0 { &mut batch[0]["spec"]["template"]["spec"] } else { &mut batch[1]["spec"] };
        spec["nodeSelector"][spot] = "spot".into();
        spec["tolerations"].as_array_mut().unwrap().push(taint.clone());
    }
    objects.extend(batch);
    objects.extend(workload("Deployment", "web", 1, "w1"));
    let (steps, moves) = TestPlan::new(objects).steps();
    let new = of(&steps, StepKind::NewPool);
    assert_eq!(new.title, "Create pools win25 and win25b with a taint that keeps them closed");
    let [of_spot, other] = runs(new)[..] else { panic!("{:?}", new.commands) };
    assert!(of_spot.contains("\n  --priority Spot --eviction-policy Delete --spot-max-price -1 \\\n"), "{of_spot}");
    assert!(!of_spot.contains("scalesetpriority") && !of_spot.contains("--labels"), "{of_spot}");
    assert!(!other.contains("Spot"), "{other}");
    // An update replaces all taints, so it names the one of AKS too.
    let open = of(&steps, StepKind::OpenPool);
    assert!(runs(open)[0].contains(&format!("--node-taints {spot}=spot:NoSchedule,os=windows:NoSchedule")), "{open:?}");
    let batch = moves.iter().find(|one| one.report.object.name == "batch").unwrap();
    let edited: Vec<&str> = batch.report.edits.iter().map(|edit| edit.path.as_str()).collect();
    assert!(!edited.iter().any(|path| path.contains("scalesetpriority")), "{edited:?}");
}

/// A workload without pods moves from the pool that its selector and tolerations permit.
#[test]
fn workloads_without_pods_have_a_pool() {
    let mut tainted = aks("a1", "a-spot", 20348);
    tainted["metadata"]["labels"]["kubernetes.azure.com/os-sku"] = "Windows2022".into();
    tainted["spec"]["taints"]
        .as_array_mut()
        .unwrap()
        .push(json!({"key": "dedicated", "value": "batch", "effect": "NoSchedule"}));
    let mut old = aks("w1", "win19", 17763);
    old["metadata"]["labels"]["kubernetes.azure.com/os-sku"] = "Windows2019".into();
    let mut untainted = aks("z1", "win22", 20348);
    untainted["metadata"]["labels"]["kubernetes.azure.com/os-sku"] = "Windows2022".into();
    let cron_job = |name: &str, sku: Option<&str>, is_tolerant: bool| {
        let mut spec = workload("Deployment", name, 1, "w1").remove(0)["spec"]["template"]["spec"].take();
        if let Some(sku) = sku {
            spec["nodeSelector"]["kubernetes.azure.com/os-sku"] = sku.into();
        }
        if is_tolerant {
            spec["tolerations"].as_array_mut().unwrap().push(json!({"key": "dedicated", "operator": "Exists"}));
        }
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"namespace": "shop", "name": name},
            "spec": {"schedule": "0 1 * * *", "jobTemplate": {"spec": {"template": {"spec": spec}}}}})
    };
    let objects = vec![
        tainted,
        old,
        untainted,
        cron_job("of-19", Some("Windows2019"), false),
        cron_job("of-22", Some("Windows2022"), false),
        cron_job("batch", Some("Windows2022"), true),
        cron_job("anywhere", None, false),
    ];
    let plan = TestPlan::new(objects);
    let (_, moves) = plan.steps();
    let inventory = plan.inventory();
    let fleet = mullion_survey::analysis::Fleet::new(&inventory);
    let find = |name: &str| moves.iter().find(|one| one.report.object.name == name).unwrap();
    let homes =
        |name: &str| -> Vec<&str> { find(name).homes.iter().map(|pool| fleet.pools[*pool].name.as_str()).collect() };
    assert_eq!(homes("of-19"), ["win19"]);
    assert_eq!(homes("of-22"), ["win22"]);
    assert_eq!(homes("batch"), ["a-spot", "win22"]);
    assert_eq!(homes("anywhere"), ["win19", "win22"]);
    let tolerates = |name: &str| {
        find(name).report.edits.iter().any(|edit| edit.after.as_ref().is_some_and(|after| after["key"] == "dedicated"))
    };
    assert!(!["of-19", "of-22", "batch", "anywhere"].into_iter().any(tolerates));
    // The dates of the pool bind it.
    let dates = crate::calendar::deadlines(find("of-19"), &fleet, plan.context());
    let dates: Vec<(String, &str)> =
        dates.iter().map(|found| (found.date.to_string(), found.concerns.as_str())).collect();
    assert_eq!(
        dates,
        [("2026-03-01".to_owned(), "Pool win19; the date has passed."), ("2027-04-01".to_owned(), "Pool win19.")]
    );
}

/// What a DaemonSet had before the move is not undone.
#[test]
fn only_changes_of_the_step_are_undone() {
    let mut objects = vec![aks("w1", "win22", 20348)];
    let mut tolerant = workload("DaemonSet", "cns", 0, "w1");
    tolerant[0]["spec"]["template"]["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    tolerant[1]["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    objects.extend(tolerant);
    objects.extend(workload("DaemonSet", "logs", 0, "w1"));
    objects.extend(workload("Deployment", "web", 1, "w1"));
    let (steps, _) = TestPlan::new(objects).steps();
    let gate = of(&steps, StepKind::Gate);
    let back: Vec<&str> = gate.back.iter().map(|command| command.run.as_str()).collect();
    assert_eq!(back, ["kubectl rollout undo daemonset logs -n shop"]);
    assert!(!says(gate, "To go back"), "{:?}", gate.why);
    let both = ["cns", "logs"].map(|name| format!("kubectl rollout status daemonset/{name} --namespace=shop"));
    assert!(both.iter().all(|run| runs(gate).contains(&run.as_str())), "{:?}", gate.commands);
}

/// Two DaemonSets for two releases: one of them runs in the new pool.
#[test]
fn one_of_several_alike_daemon_sets_moves() {
    let agent = |name: &str, build: u32, on: &str, image: &str| {
        let mut objects = workload("DaemonSet", name, 0, on);
        for at in [0, 1] {
            let spec = if at == 0 { &mut objects[0]["spec"]["template"]["spec"] } else { &mut objects[1]["spec"] };
            spec["nodeSelector"]["node.kubernetes.io/windows-build"] = format!("10.0.{build}").into();
            spec["containers"][0]["image"] = image.into();
        }
        objects
    };
    let fleet = |second: &str, third: Option<u32>| {
        let mut objects = vec![aks("w19", "win19", 17763), aks("w22", "win22", 20348)];
        objects.extend(agent("logs-2019", 17763, "w19", "fluent/fluent-bit:windows-2019-4.0"));
        objects.extend(agent("logs-2022", 20348, "w22", second));
        if let Some(build) = third {
            objects.push(aks("w25", "win25", 26100));
            objects.extend(agent("logs-2025", build, "w25", "fluent/fluent-bit:windows-2025-5.1"));
        }
        objects.extend(workload("Deployment", "web", 1, "w22"));
        let verdicts = vec![("logs-2019", Verdict::AnotherTag)];
        TestPlan { verdicts, with_containers: true, ..TestPlan::new(objects) }.steps()
    };
    let behind = |moves: &[crate::workload_move::WorkloadMove]| -> Vec<String> {
        moves.iter().filter(|one| one.stays_behind).map(|one| one.report.object.name.clone()).collect()
    };
    let (steps, moves) = fleet("fluent/fluent-bit:windows-2022-4.0", None);
    assert_eq!(behind(&moves), ["logs-2019"]);
    let left = moves.iter().find(|one| one.stays_behind).unwrap();
    assert!(!left.moves && left.report.edits.is_empty() && left.report.step.is_none());
    assert_eq!(
        left.report.instead,
        "Leave it in the old pools: DaemonSet shop/logs-2022 has images of the same repository and runs in the new pool. Delete it when the old nodes are gone."
    );
    assert_eq!(left.report.containers[0].because, "It stays in the old pools until they are gone.");
    let remove = of(&steps, StepKind::RemovePools);
    assert_eq!(runs(remove).last(), Some(&"kubectl delete daemonset logs-2019 --namespace=shop"));
    assert!(says(remove, "Delete DaemonSet shop/logs-2019 when the nodes are gone: another"), "{:?}", remove.why);
    // One that is there already replaces both.
    let (_, moves) = fleet("fluent/fluent-bit:windows-2022-4.0", Some(26100));
    assert_eq!(behind(&moves), ["logs-2019", "logs-2022"]);
    // Another image is another agent, and its image must be for its own release and the target.
    let (_, moves) = fleet("example.com/other:1", None);
    assert_eq!(behind(&moves), Vec::<String>::new());
    let old = moves.iter().find(|one| one.report.object.name == "logs-2019").unwrap();
    assert!(
        old.report.instead.contains("Use an image whose index has ltsc2019 and ltsc2025,"),
        "{}",
        old.report.instead
    );
}

/// A pool that exists is closed to new pods of the workloads that are in it, too.
#[test]
fn workloads_of_a_pool_that_is_closed_get_the_toleration_first() {
    let mut objects = vec![eks("a", "ng-22", 20348), eks("b", "ng-25", 26100)];
    objects.extend(workload("Deployment", "web", 3, "a"));
    objects.extend(workload("Deployment", "new", 1, "b"));
    let mut managed = workload("Deployment", "chart", 1, "b");
    managed[0]["metadata"]["annotations"] = json!({"meta.helm.sh/release-name": "chart"});
    objects.extend(managed);
    let mut bare = workload("Deployment", "bare", 1, "b").remove(1);
    bare["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    objects.push(bare);
    let (steps, moves) = TestPlan { policies_given: true, ..TestPlan::new(objects.clone()) }.steps();
    let close = of(&steps, StepKind::NewPool);
    let sentences = [
        "Mullion lets every pod whose images the new nodes can run enter them.",
        "Before you set the taint, add the toleration to these workloads, which run there, because otherwise no new pod of them may enter: Deployment shop/new.",
        "as the section Edits describes: Deployment shop/chart.",
    ];
    assert!(sentences.iter().all(|text| says(close, text)), "{:?}", close.why);
    assert!(runs(close)[0].starts_with("kubectl patch deployment new -n shop"), "{:?}", close.commands);
    assert!(
        runs(close)[0].contains("mullion.dev/move") && !runs(close)[0].contains("nodeSelector"),
        "{:?}",
        close.commands
    );
    assert!(runs(close)[1].starts_with("aws eks update-nodegroup-config"), "{:?}", close.commands);
    let edits = |name: &str| moves.iter().find(|one| one.report.object.name == name).unwrap().report.edits.len();
    assert_eq!(["new", "chart", "bare-0"].map(edits), [1, 1, 0]);
    assert!(moves.iter().filter(|one| !one.moves).all(|one| one.report.step.is_none()));
    // Without policies, the cluster may not have Mullion.
    let (steps, _) = TestPlan::new(objects).steps();
    let close = of(&steps, StepKind::NewPool);
    assert!(
        says(close, "Every pod that selects such nodes and tolerates their other taints can be placed there."),
        "{:?}",
        close.why
    );
    assert!(!says(close, "Mullion"), "{:?}", close.why);
}

#[test]
fn a_control_plane_is_upgraded_by_one_version_at_a_time() {
    let mut linux = node("l1", 0, json!({"kubernetes.azure.com/agentpool": "system", "kubernetes.io/os": "linux"}));
    linux["metadata"]["labels"].as_object_mut().unwrap().remove("node.kubernetes.io/windows-build");
    linux["status"]["nodeInfo"]["kernelVersion"] = "6.8".into();
    let mut objects = vec![linux, aks("w1", "win22", 20348)];
    objects.extend(workload("Deployment", "web", 1, "w1"));
    for (now, until, version) in [("1.32", "1.36", "VERSION"), ("1.35", "1.36", "1.36")] {
        let checked = CheckedConstraints {
            control_plane: mullion_engine::model::MinorVersion::of(now),
            is_read: true,
            control_plane_last: Some(until.to_owned()),
            ..CheckedConstraints::default()
        };
        let (steps, _) = TestPlan { checked, ..TestPlan::new(objects.clone()) }.steps();
        let last = of(&steps, StepKind::ControlPlane);
        let in_turn = says(last, "Run the commands of this step for each VERSION in turn: 1.33, 1.34, 1.35 and 1.36.");
        assert_eq!(in_turn, version == "VERSION", "{:?}", last.why);
        let upgrades: Vec<&str> = runs(last).into_iter().filter(|run| run.contains("upgrade")).collect();
        assert!(upgrades.iter().all(|run| run.contains(&format!("--kubernetes-version {version}"))), "{upgrades:?}");
        // The old pool is gone; the one of Linux nodes is not.
        let pools = ["system", "win25"].map(|pool| upgrades.iter().any(|run| run.contains(&format!("--name {pool} "))));
        assert!(pools == [true, true] && upgrades.len() == 3, "{upgrades:?}");
    }
}

/// What the old pools prevent comes last, and the upgrade of a pool drains its nodes.
#[test]
fn the_last_upgrade_states_its_reason_and_what_stops_it() {
    let mut objects = vec![aks("w1", "win22", 20348)];
    objects.extend(workload("Deployment", "web", 1, "w1"));
    for (old_pools_prevent_last, is_read, allowed) in [(true, false, 0), (false, true, 1)] {
        let checked = CheckedConstraints {
            control_plane: mullion_engine::model::MinorVersion::of("1.33"),
            is_read,
            control_plane_last: Some("1.36".to_owned()),
            old_pools_prevent_last,
            ..CheckedConstraints::default()
        };
        let with_budget = objects.iter().cloned().chain([budget("web", "web", allowed)]).collect();
        let (steps, _) = TestPlan { checked, ..TestPlan::new(with_budget) }.steps();
        let last = of(&steps, StepKind::ControlPlane);
        let prevented =
            "The control plane could not have Kubernetes 1.36 while the old pools existed; now they are gone.";
        assert_eq!(says(last, prevented), old_pools_prevent_last, "{:?}", last.why);
        assert_eq!(says(last, "begin after the version that `kubectl version` prints"), !is_read, "{:?}", last.why);
        assert_eq!(runs(last)[0] == "kubectl version", !is_read, "{:?}", last.commands);
        let stalls = "PodDisruptionBudget shop/web permits no eviction now: scale up, or change the budget, before";
        assert_eq!(says(last, stalls), allowed == 0, "{:?}", last.why);
    }
}

/// A node with a graphics device has a taint, so its pods share no node with others.
#[test]
fn nodes_that_keep_others_off_count_for_themselves() {
    let mut special = aks("g1", "win22", 20348);
    special["metadata"]["labels"]["hardware"] = "gpu".into();
    let taint = json!({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"});
    special["spec"]["taints"].as_array_mut().unwrap().push(taint.clone());
    let mut render = workload("Deployment", "render", 1, "g1");
    for at in [0, 1] {
        let spec = if at == 0 { &mut render[0]["spec"]["template"]["spec"] } else { &mut render[1]["spec"] };
        spec["nodeSelector"]["hardware"] = "gpu".into();
        spec["tolerations"].as_array_mut().unwrap().push(taint.clone());
    }
    let mut objects = vec![aks("w1", "win22", 20348), special];
    objects.extend(workload("Deployment", "web", 3, "w1"));
    objects.extend(render);
    objects.push(aks("w25", "win25", 26100));
    let (steps, _) = TestPlan::new(objects).steps();
    let wave = of(&steps, StepKind::RunAsIs);
    assert_eq!(wave.capacity.as_ref().unwrap().nodes, Some(2), "{:?}", wave.capacity);
    let close = of(&steps, StepKind::NewPool);
    assert!(
        says(
            close,
            "need 2 nodes together, besides the room of the pods that are in the pool now. Pool win25 has 1 node now."
        ),
        "{:?}",
        close.why
    );
    // The label and the taint come with the gate, before the workloads that need them, and go last.
    let gate = of(&steps, StepKind::Gate);
    assert!(runs(gate)[0].starts_with("kubectl label nodes NODE 'hardware=gpu'\n"), "{:?}", gate.commands);
    let note = &gate.commands[0].note;
    assert!(
        note.starts_with("Nodes of pool win25 need the label hardware=gpu: Deployment shop/render selects it. 1 of")
    );
    let back = gate.back.last().unwrap();
    assert!(back.run.starts_with("kubectl label nodes NODE 'hardware-'"), "{:?}", gate.back);
}

/// Disks cannot leave their zone.
#[test]
fn new_pools_are_in_the_zones_of_the_volumes() {
    let zoned = |mut node: Value, zone: &str| {
        node["metadata"]["labels"]["topology.kubernetes.io/zone"] = zone.into();
        node
    };
    let with_volume = |kind: &str, on: &str| {
        let mut objects = workload(kind, "db", 1, on);
        objects[0]["spec"]["template"]["spec"]["volumes"] =
            json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
        objects
    };
    let plan = |objects: Vec<Value>| {
        let inventory = TestPlan::new(objects.clone()).inventory();
        let plan = TestPlan::new(objects);
        crate::plan(&inventory, plan.context())
    };
    let added = |report: &crate::PlanReport| of(&report.steps, StepKind::NewPool).commands[0].run.clone();
    let aks_nodes =
        |zones: [&str; 2]| vec![zoned(aks("w1", "win22", 20348), zones[0]), zoned(aks("w2", "win22", 20348), zones[1])];
    let report = plan(aks_nodes(["eu-2", "eu-1"]).into_iter().chain(with_volume("StatefulSet", "w1")).collect());
    assert!(added(&report).contains("\n  --zones 1 2 \\\n"), "{}", added(&report));
    let text = "The old nodes are in zones eu-1 and eu-2, and their persistent volumes can be attached only there: create pool win25 in the same zones.";
    assert!(says(of(&report.steps, StepKind::NewPool), text), "{:?}", report.steps[0].why);
    // Without a zone, AKS writes the number of a fault domain.
    let report = plan(aks_nodes(["0", "1"]).into_iter().chain(with_volume("StatefulSet", "w1")).collect());
    assert!(!added(&report).contains("--zones"), "{}", added(&report));
    // Without volumes, every zone will do.
    let objects = aks_nodes(["eu-2", "eu-1"]).into_iter().chain(workload("Deployment", "web", 1, "w1")).collect();
    assert!(!added(&plan(objects)).contains("--zones"));
    let nodes = vec![zoned(eks("a", "ng-22", 20348), "eu-central-1a")];
    let report = plan(nodes.into_iter().chain(with_volume("StatefulSet", "a")).collect());
    assert!(added(&report).contains("\n  availabilityZones: [\"eu-central-1a\"]\n"), "{}", added(&report));
}

/// What labels of the nodes state need not be looked up.
#[test]
fn names_of_cluster_region_and_machines_come_from_labels() {
    let labelled = |cluster: &str, machine: &str| {
        let mut node = eks(&format!("{cluster}-{machine}"), "ng-22", 20348);
        for (key, value) in [
            ("alpha.eksctl.io/cluster-name", cluster),
            ("topology.kubernetes.io/region", "eu-central-1"),
            ("node.kubernetes.io/instance-type", machine),
        ] {
            node["metadata"]["labels"][key] = value.into();
        }
        node
    };
    for (nodes, metadata, machine) in [
        (vec![labelled("store", "m6i.large")], "{name: store, region: eu-central-1}", "m6i.large"),
        (
            vec![labelled("store", "m6i.large"), labelled("other", "c6i.large")],
            "{name: CLUSTER, region: eu-central-1}",
            "MACHINE_TYPE",
        ),
        (vec![labelled("a\nEOF\nreboot", "x; y")], "{name: CLUSTER, region: eu-central-1}", "MACHINE_TYPE"),
    ] {
        let name = nodes[0]["metadata"]["name"].as_str().unwrap().to_owned();
        let objects = nodes.into_iter().chain(workload("Deployment", "web", 1, &name)).collect();
        let (steps, _) = TestPlan::new(objects).steps();
        let run = runs(of(&steps, StepKind::NewPool))[0];
        assert!(run.contains(&format!("metadata: {metadata}\n")), "{run}");
        assert!(run.contains(&format!("instanceType: {machine}\n")), "{run}");
    }
}

#[test]
fn pods_and_jobs_are_deleted_before_they_are_created_again() {
    let mut objects = vec![aks("w1", "win22", 20348)];
    let mut bare = workload("Deployment", "bare", 1, "w1").remove(1);
    bare["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    objects.push(bare);
    objects.extend(workload("Job", "import", 1, "w1"));
    let (steps, _) = TestPlan::new(objects).steps();
    let wave = of(&steps, StepKind::RunAsIs);
    let back = "To go back, restore the previous manifests of Job shop/import and Pod shop/bare-0: no command undoes the change. Delete a Pod or a Job before you create it again.";
    assert!(says(wave, back), "{:?}", wave.why);
    let get = wave.commands.iter().find(|command| command.run.starts_with("kubectl get pod/")).unwrap();
    assert_eq!(get.run, "kubectl get pod/bare-0 --namespace=shop --output=wide");
    let remove = of(&steps, StepKind::RemovePools);
    assert!(
        says(remove, "stops at a pod without a controller: Pod shop/bare-0 must be in the new pool by now"),
        "{:?}",
        remove.why
    );
}

#[test]
fn runtime_classes_that_nobody_uses_are_deleted_last() {
    let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "windows-2022"},
        "handler": "runhcs-wcow-process",
        "scheduling": {"nodeSelector": {"node.kubernetes.io/windows-build": "10.0.20348"}}});
    let with_class = |kind: &str, name: &str| {
        let mut objects = workload(kind, name, 1, "w1");
        objects[0]["spec"]["template"]["spec"]["runtimeClassName"] = "windows-2022".into();
        objects
    };
    let mut objects = vec![aks("w1", "win22", 20348), class];
    objects.extend(with_class("Deployment", "web"));
    let sentence = "No workload that was read uses RuntimeClass windows-2022 now: delete it.";
    let (steps, _) = TestPlan::new(objects.clone()).steps();
    assert!(says(of(&steps, StepKind::OpenPool), sentence), "{steps:?}");
    let gate = of(&steps, StepKind::Gate);
    assert!(runs(gate)[0].starts_with("kubectl create -f - <<'EOF'"), "{:?}", gate.commands);
    assert_eq!(gate.back.last().unwrap().run, "kubectl delete runtimeclass 'windows-2025'");
    // A DaemonSet keeps its class in the old pools, and a second one gets the new class.
    objects.extend(with_class("DaemonSet", "agent"));
    let (steps, _) = TestPlan::new(objects).steps();
    assert!(!says(of(&steps, StepKind::OpenPool), "RuntimeClass"), "{steps:?}");
}

/// A pool of Windows Server 2022 of AKS, with workloads that run as they are.
fn in_place_fleet() -> Vec<Value> {
    let sku = |mut node: Value, sku: &str| {
        node["metadata"]["labels"]["kubernetes.azure.com/os-sku"] = sku.into();
        node
    };
    let mut objects =
        vec![sku(aks("w22-1", "win22", 20348), "Windows2022"), sku(aks("w22-2", "win22", 20348), "Windows2022")];
    for (kind, name) in [("Deployment", "free"), ("Deployment", "pinned"), ("DaemonSet", "agent")] {
        let mut one = workload(kind, name, 2, "w22-1");
        for object in &mut one {
            let spec =
                if object["kind"] == "Pod" { &mut object["spec"] } else { &mut object["spec"]["template"]["spec"] };
            spec["containers"][0]["image"] = "mcr.microsoft.com/windows/nanoserver:ltsc2022".into();
            if name != "free" {
                spec["nodeSelector"]["kubernetes.azure.com/os-sku"] = "Windows2022".into();
                spec["nodeSelector"]["agentpool"] = "win22".into();
            }
        }
        objects.extend(one);
    }
    objects
}

fn planned(objects: Vec<Value>, change: impl FnOnce(&mut TestPlan)) -> crate::PlanReport {
    let mut plan = TestPlan::new(objects);
    change(&mut plan);
    let inventory = plan.inventory();
    crate::plan(&inventory, plan.context())
}

/// The steps stay those with a new pool; the other way has its own edits, which fit both releases, and its own command.
#[test]
fn a_pool_that_can_change_in_place() {
    let report = planned(in_place_fleet(), |_| {});
    assert_eq!(of(&report.steps, StepKind::NewPool).title, "Create pool win25 with a taint that keeps it closed");
    let way = report.in_place.unwrap();
    assert!(way.preview && way.what.contains("in preview") && way.pools == ["win22"] && way.others.is_empty());
    assert_eq!(kinds(&way.steps), [StepKind::PrepareWorkloads, StepKind::ChangePools]);
    let names: Vec<&str> = way.workloads.iter().map(|one| one.object.name.as_str()).collect();
    assert_eq!(names, ["agent", "pinned"], "{:?}", way.workloads);
    for one in &way.workloads {
        let changed: Vec<(&str, String)> = one
            .edits
            .iter()
            .map(|edit| (edit.path.as_str(), edit.after.as_ref().map(Value::to_string).unwrap_or_default()))
            .collect();
        assert_eq!(changed[0], ("spec.template.spec.nodeSelector[kubernetes.azure.com/os-sku]", String::new()));
        assert!(changed[1].1.contains(r#"["Windows2022","Windows2025"]"#), "{changed:?}");
        assert_eq!(changed.len(), 2, "the name of the pool and its taints stay: {changed:?}");
        assert!(one.commands[0].run.starts_with("kubectl patch ") && one.instead.is_empty(), "{one:?}");
    }
    let change = &way.steps[1];
    assert!(change.back.is_empty());
    let own = change.commands.iter().find(|command| command.source.is_some()).unwrap();
    assert!(own.run.ends_with("--name win22 --os-sku Windows2025 --enable-fips-image"), "{}", own.run);
    assert_eq!(own.effect, crate::report::CommandEffect::Destroys);
    assert!(!way.steps.iter().flat_map(|step| &step.commands).any(|command| command.run.contains("taint")));
    let state = |part: &str| way.gates.iter().find(|gate| gate.what.contains(part)).map(|gate| gate.state).unwrap();
    assert_eq!(
        state("Both releases exist with Kubernetes 1.32 to 1.36; pools in this range: win22 (1.32)."),
        ConstraintState::Met
    );
    assert_eq!(state("2 workloads require nodes of the old release"), ConstraintState::MetByStep);
    assert_eq!(state("at least one node"), ConstraintState::Notice);
    assert!(way.differs.iter().any(|one| one.contains("no way back")), "{:?}", way.differs);
}

/// What keeps a pool from changing in place.
#[test]
fn gates_of_a_change_in_place() {
    let states = |report: &crate::PlanReport, part: &str| {
        let gates = report.in_place.as_ref().unwrap().gates.iter();
        gates.filter(|gate| gate.what.contains(part)).map(|gate| gate.state).collect::<Vec<_>>()
    };
    let mut objects = in_place_fleet();
    objects.push(budget("free", "free", 0));
    let mut old_kubelet = aks("w22-3", "old22", 20348);
    old_kubelet["status"]["nodeInfo"]["kubeletVersion"] = "v1.31.1".into();
    objects.push(old_kubelet);
    let mut unread = aks("w22-4", "new22", 20348);
    unread["status"]["nodeInfo"].as_object_mut().unwrap().remove("kubeletVersion");
    objects.push(unread);
    objects.push(aks("w19-1", "win19", 17763));
    let mut other = workload("Deployment", "other", 1, "w22-2").remove(0);
    other["spec"]["template"]["spec"]["containers"][0]["image"] =
        "mcr.microsoft.com/windows/nanoserver:ltsc2019".into();
    objects.push(other);
    let mut bare = workload("Deployment", "bare", 1, "w22-1").remove(1);
    bare["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    objects.push(bare);
    let report = planned(objects, |_| {});
    let way = report.in_place.as_ref().unwrap();
    assert_eq!(way.pools.len(), 3, "{:?}", way.pools);
    assert_eq!(way.others, ["win19"]);
    assert!(way.differs.iter().any(|one| one.starts_with("Pool win19 cannot change in place")), "{:?}", way.differs);
    assert_eq!(states(&report, "shop/free"), [ConstraintState::NotMet], "{:?}", way.gates);
    assert_eq!(states(&report, "older pools: old22 (1.31)."), [ConstraintState::MetByStep]);
    assert_eq!(states(&report, "pools whose versions were not read: new22."), [ConstraintState::Notice]);
    assert_eq!(states(&report, "without a controller"), [ConstraintState::NotMet]);
    assert_eq!(states(&report, "run the images of"), [ConstraintState::NotMet], "{:?}", way.gates);
    let change = way.steps.last().unwrap();
    let upgrade =
        runs(change).iter().position(|run| run.contains("nodepool upgrade") && run.contains("old22")).unwrap();
    let changed = runs(change).iter().position(|run| run.contains("--os-sku") && run.contains("old22")).unwrap();
    assert!(upgrade < changed && runs(change)[upgrade].contains("--kubernetes-version 1.32"), "{:?}", runs(change));
    // An end beyond the last version of the old release.
    let report = planned_until("1.37");
    assert_eq!(states(&report, "and the move ends at 1.37"), [ConstraintState::Notice]);
}

fn planned_until(version: &str) -> crate::PlanReport {
    let plan = TestPlan::new(in_place_fleet());
    let inventory = plan.inventory();
    crate::plan(&inventory, crate::PlanContext { kubernetes: Some(version), ..plan.context() })
}

/// Without pods there is no command that drains a node, and without an offer no section.
#[test]
fn when_nothing_changes_in_place() {
    let without_pods: Vec<Value> = in_place_fleet().into_iter().filter(|object| object["kind"] != "Pod").collect();
    let way = planned(without_pods, |_| {}).in_place.unwrap();
    let change = way.steps.last().unwrap();
    assert!(change.commands.iter().all(|command| command.source.is_none()), "{:?}", change.commands);
    assert!(says(change, "is not known"), "{:?}", change.why);
    let provider = |provider| planned(in_place_fleet(), |plan| plan.provider = Some(provider)).in_place;
    assert_eq!((provider("EKS"), provider("")), (None, None));
    assert_eq!(planned(vec![aks("w25", "win25", 26100)], |_| {}).in_place, None);
    let without_rows = |plan: &mut TestPlan| {
        plan.facts.commands.retain(|row| row.step != mullion_survey::facts::commands::ProviderStep::ChangePool);
    };
    let way = planned(in_place_fleet(), without_rows).in_place.unwrap();
    assert!(says(way.steps.last().unwrap(), "The table of commands has none for this step"));
}

/// A RuntimeClass of the old release fits no node afterwards.
#[test]
fn runtime_classes_of_a_pool_that_changes_in_place() {
    let mut objects = in_place_fleet();
    objects.push(json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "windows-2022"},
        "handler": "runhcs-wcow-process",
        "scheduling": {"nodeSelector": {"node.kubernetes.io/windows-build": "10.0.20348"}}}));
    let mut classed = workload("Deployment", "classed", 1, "w22-1");
    classed[0]["spec"]["template"]["spec"]["runtimeClassName"] = "windows-2022".into();
    objects.extend(classed);
    let way = planned(objects, |_| {}).in_place.unwrap();
    let one = way.workloads.iter().find(|one| one.object.name == "classed").unwrap();
    assert!(one.instead.starts_with("Its RuntimeClass windows-2022 is for nodes of the old release"), "{one:?}");
    assert!(says(&way.steps[0], "No command changes these"), "{:?}", way.steps[0].why);
}
