//! Options of `mullion plan` that decide what moves, what counts as a change, and what the exit code is.

use super::*;

const FLEETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plan_fleets");

/// Plans the move of one of the fleets of the whole plans.
fn ran(fleet: &str, options: &[&str]) -> Ran {
    let dump = format!("{FLEETS}/{fleet}/dump.yaml");
    mullion(&[&["plan", "--to", "ltsc2025", "-o", "json", "--today", "2026-11-23", &dump], options].concat(), "")
}

fn plan(fleet: &str, options: &[&str]) -> Value {
    let ran = ran(fleet, options);
    assert_eq!(ran.code, 0, "{options:?}: {}", ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

/// The names of the workloads that move.
fn moving(plan: &Value) -> Vec<String> {
    let workloads = plan["workloads"].as_array().unwrap().iter();
    let moving = workloads.filter(|one| one["step"].is_u64());
    moving.map(|one| format!("{}/{}", one["namespace"], one["name"]).replace('"', "")).collect()
}

fn commands(plan: &Value) -> Vec<&str> {
    let steps = plan["steps"].as_array().unwrap().iter();
    steps
        .flat_map(|step| step["commands"].as_array().unwrap())
        .map(|command| command["run"].as_str().unwrap())
        .collect()
}

/// A pool of Windows Server 2019 with one workload.
fn fleet_of_2019(image: &str) -> String {
    format!(
        "apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata:
    name: a
    labels: {{kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.17763}}
  status: {{nodeInfo: {{kernelVersion: 10.0.17763.8389, containerRuntimeVersion: \"containerd://1.7.27\", kubeletVersion: v1.32.9}}}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {{namespace: shop, name: web}}
  spec:
    template:
      spec:
        nodeSelector: {{kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.17763}}
        containers: [{{name: web, image: \"{image}\"}}]
"
    )
}

#[test]
fn what_causes_exit_code_1() {
    let tag = "mcr.microsoft.com/windows/servercore:ltsc2019";
    // Image, more options, the exit code with `blocked` and that with `change`.
    let cases: [(&str, &[&str], i32, i32); 5] = [
        ("mcr.microsoft.com/windows/servercore:ltsc2019", &[], 0, 1),
        (
            "registry.example.com/app:1-ltsc2019@sha256:2fcef4b99cb2a5a83c4f2b5ec8fabde6e179be954c383702b7ef6496e0486310",
            &[],
            1,
            1,
        ),
        // Nothing shows for which release it is.
        ("registry.example.com/app:1", &[], 1, 1),
        ("mcr.microsoft.com/windows/servercore:ltsc2022", &[], 0, 0),
        // A move that is not possible blocks, whatever the images are.
        (tag, &["--kubernetes", "1.20"], 1, 1),
    ];
    for (image, more, blocked, change) in cases {
        for (fail_on, expected) in
            [(&[][..], 0), (&["--fail-on", "blocked"], blocked), (&["--fail-on", "change"], change)]
        {
            let args = [&["plan", "--to", "ltsc2025", "-o", "json", "-"], more, fail_on].concat();
            let ran = mullion(&args, &fleet_of_2019(image));
            assert_eq!(ran.code, expected, "{image} {fail_on:?}: {}", ran.err);
            assert!(ran.out.contains("\"schema\""), "the plan is written anyway");
        }
    }
    // What does not move does not count.
    assert_eq!(ran("there", &["--fail-on", "change"]).code, 0);
    assert_eq!(ran("aks", &["--from", "ltsc2022", "--fail-on", "change"]).code, 0);
}

#[test]
fn only_pools_of_one_release_move() {
    let all = plan("aks", &[]);
    let one = plan("aks", &["--from", "ltsc2019"]);
    assert_eq!(one["target"]["from"], serde_json::json!(["ltsc2019"]));
    let parts: Vec<(&str, &str)> = one["pools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pool| (pool["name"].as_str().unwrap(), pool["part"].as_str().unwrap()))
        .collect();
    assert_eq!(parts, [("w22spt", "stays"), ("win19", "leaves"), ("win22", "stays")]);
    let (all, one) = (moving(&all), moving(&one));
    assert!(all.contains(&"shop/web".to_owned()) && all.contains(&"shop/orders".to_owned()), "{all:?}");
    assert!(!one.contains(&"shop/web".to_owned()) && one.contains(&"shop/orders".to_owned()), "{one:?}");
}

#[test]
fn the_named_provider_decides_on_limits_and_commands() {
    let limits = |plan: &Value, provider: &str| {
        let constraints = plan["constraints"].as_array().unwrap().iter();
        constraints.filter(|one| one["what"].as_str().unwrap().contains(provider)).count()
    };
    for (options, provider, own) in [
        (&[][..], Some("AKS"), "az aks nodepool add"),
        (&["--provider", "eks"], Some("EKS"), "eksctl create nodegroup"),
        (&["--provider", "none"], None, "kubelet --register-with-taints"),
    ] {
        let plan = plan("aks", options);
        assert_eq!(plan["target"]["provider"].as_str(), provider, "{options:?}");
        for (other, command) in [("AKS", "az aks "), ("EKS", "eksctl "), ("", "kubelet --register-with-taints")] {
            let has = commands(&plan).iter().any(|run| run.contains(command));
            assert_eq!(has, own.contains(command), "{options:?} {command}");
            assert!(other.is_empty() || (limits(&plan, other) > 0) == (provider == Some(other)), "{options:?} {other}");
        }
    }
}

#[test]
fn vendors_can_require_images_of_the_build_of_the_host() {
    let verdicts = |options: &[&str]| -> Vec<String> {
        let plan = plan("eks", options);
        let workloads = plan["workloads"].as_array().unwrap().iter();
        workloads.map(|one| one["verdict"].as_str().unwrap().to_owned()).collect()
    };
    assert!(verdicts(&[]).iter().all(|verdict| verdict == "runsAsIs"));
    let strict = verdicts(&["--strict-match"]);
    assert!(
        ["anotherTag", "rebuild"].iter().all(|wanted| strict.iter().any(|verdict| verdict == wanted)),
        "{strict:?}"
    );
}

/// A tag that nothing confirms is written only on request.
#[test]
fn guesses_are_written_on_request() {
    let image = "registry.example.com/app:1-ltsc2019";
    let manifest = format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{namespace: shop, name: web}}
spec:
  template:
    spec:
      nodeSelector: {{kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.17763}}
      containers:
      - name: web
        image: {image}
"
    );
    for (options, is_written) in [(&[][..], false), (&["--include-guesses"][..], true)] {
        let dir = dir();
        let path = write(&dir, "web.yaml", &manifest);
        let below = dir.path().to_str().unwrap().to_owned();
        let args = [&["plan", "--to", "ltsc2025", "-o", "json", "--write", &below, "-"], options].concat();
        let ran = mullion(&args, &fleet_of_2019(image));
        assert_eq!(ran.code, 0, "{}", ran.err);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.contains("image: registry.example.com/app:1-ltsc2025"), is_written, "{text}\n{}", ran.err);
        assert_eq!(text == manifest, !is_written, "{text}\n{}", ran.err);
        assert_eq!(ran.err.contains("guess"), !is_written, "{}", ran.err);
    }
}
