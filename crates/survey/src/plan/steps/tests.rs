//! Steps of whole fleets.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use serde_json::{Value, json};

use crate::facts::constraints::{ConstraintRow, Limit};
use crate::plan::constraints::CheckedConstraints;
use crate::plan::report::{Step, StepKind, Verdict};
use crate::plan::test_fleet::{TestPlan, budget, node, workload};

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
        "az aks nodepool add --resource-group RESOURCE_GROUP --cluster-name CLUSTER \\\n  --name win25 --os-type Windows --os-sku Windows2025 --enable-fips-image \\\n  --node-taints os=windows:NoSchedule,mullion.dev/move=ltsc2025:NoSchedule --node-count 3 --node-vm-size VM_SIZE"
    );
    assert!(added.source.is_some() && added.as_of.is_some());
    assert_eq!(
        new.back[0].run,
        "az aks nodepool delete --resource-group RESOURCE_GROUP --cluster-name CLUSTER --name win25"
    );

    let gate = of(&steps, StepKind::Gate);
    assert!(says(gate, "1 DaemonSet needs another tag: shop/agent."), "{:?}", gate.why);
    assert!(
        says(gate, "1 DaemonSet does not tolerate the taint mullion.dev/move=ltsc2025:NoSchedule"),
        "{:?}",
        gate.why
    );
    assert!(says(gate, "CSINodes were not read"), "{:?}", gate.why);

    let wave = of(&steps, StepKind::RunAsIs);
    assert_eq!(
        runs(wave),
        [
            "kubectl rollout status deployment/web --namespace=shop",
            "kubectl rollout status statefulset/db --namespace=shop"
        ]
    );
    assert_eq!(wave.back[0].run, "kubectl rollout undo deployment/web --namespace=shop");

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
    assert!(runs(last)[0].contains("--kubernetes-version 1.36 --control-plane-only"), "{:?}", last.commands);
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
    assert_eq!(runs(&steps[0])[0], "eksctl upgrade cluster --name=CLUSTER --version=1.35 --approve");
    let close = of(&steps, StepKind::NewPool);
    assert_eq!(close.title, "Close pool ng-25 with a taint");
    assert!(says(close, "Pods that are in pool ng-25 now stay there"), "{:?}", close.why);
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
    assert!(says(remove, "evicts 5 pods of 5 workloads, and 3 PodDisruptionBudgets limit it."), "{:?}", remove.why);
    assert!(says(remove, "A drain waits forever for pods of shop/api, shop/api-too and shop/web"), "{:?}", remove.why);
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
fn a_step_has_at_most_twenty_commands() {
    let mut objects = vec![aks("w1", "win22", 20348)];
    for at in 0..25 {
        objects.extend(workload("Deployment", &format!("web-{at:02}"), 1, "w1"));
    }
    let (steps, _) = TestPlan::new(objects).steps();
    let wave = of(&steps, StepKind::RunAsIs);
    assert_eq!((wave.workloads, wave.commands.len(), wave.back.len()), (25, 20, 20));
    assert!(
        says(wave, "The commands are for the first 20 workloads of this step; 5 more are in the work list"),
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
            limit: Limit::VersionSkew { minors: 3 },
            what: String::new(),
            action: None,
            source: String::new(),
            as_of: jiff::civil::date(2026, 1, 1),
        }];
        let (steps, _) = plan.steps();
        let step = of(&steps, StepKind::ControlPlane);
        assert_eq!(says(step, "The kubelets of win22 are too old"), lags, "{version}");
        assert_eq!(runs(step)[0].starts_with("az aks nodepool upgrade"), lags, "{version}");
    }
}

#[test]
fn finished_jobs_do_not_move() {
    let mut objects = vec![aks("w1", "win22", 20348)];
    let mut done = workload("Job", "import", 1, "w1");
    done[1]["status"]["phase"] = "Succeeded".into();
    objects.extend(done);
    objects.extend(workload("Job", "export", 1, "w1"));
    let (_, moves) = TestPlan::new(objects).steps();
    let steps: Vec<(&str, bool)> =
        moves.iter().map(|one| (one.report.object.name.as_str(), one.report.step.is_some())).collect();
    assert_eq!(steps, [("export", true), ("import", false)]);
}
