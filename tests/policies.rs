//! The shipped policy files are valid: alone, and each as the only one of a directory.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::disallowed_methods, reason = "tests")]

#[path = "policies/bad.rs"]
mod bad;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use mullion::cli::policy::test::{PolicyTestArgs, TestFormat};
use mullion::cli::{Io, LinkArgs, Outcome, policy};
use mullion::policy_files::directory;
use mullion_engine::admission::{Endpoint, respond, review};
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::settings::{Action, Denials, Mode, NodeSettings, Settings};
use mullion_engine::model::{ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_engine::rules::catalogue;
use mullion_engine::rules::linux_only::FIELDS;
use mullion_manifest::Problem;
use mullion_policy::{PodPolicy, PolicySet, RegistryPolicy, is_test_file};
use serde_json::{Value, json};

fn shipped() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies");
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|end| end == "yaml") && !is_test_file(path)).collect();
    files.sort();
    files
}

fn problem_texts(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn load(name: &str) -> PolicySet {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies").join(name);
    PolicySet::from_files(&[(name, fs::read(path).unwrap())]).unwrap_or_else(|all| panic!("{}", problem_texts(&all)))
}

#[test]
fn each_loads_alone_in_a_directory() {
    let names: Vec<_> = shipped().iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    assert_eq!(names, ["audit.yaml", "compatible.yaml", "default.yaml", "strict.yaml"]);
    for path in shipped() {
        let directory = tempfile::tempdir().unwrap();
        let name = path.file_name().unwrap();
        fs::copy(&path, directory.path().join(name)).unwrap();
        let files = directory::read_policy_files(&[directory.path().to_owned()]);
        let set = PolicySet::load(&files).unwrap_or_else(|all| panic!("{}", problem_texts(&all)));
        assert!(!set.pods.is_empty(), "{}", path.display());
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches("\nkind: NodePolicy").count(), 1, "{} holds a NodePolicy", path.display());
    }
}

#[test]
fn the_chart_ships_the_same_files() {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/mullion/policies");
    let names = |directory: &Path| -> BTreeSet<_> {
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    };
    let ours = shipped();
    // The built-in policies are in force without it, so the chart's file of that name changes nothing.
    let text = fs::read_to_string(chart.join("default.yaml")).unwrap();
    let set = PolicySet::from_files(&[("default.yaml", text)]).unwrap_or_else(|all| panic!("{}", problem_texts(&all)));
    assert!(set.own().all(|policy| policy.settings.origins.is_empty()) && set.documents.len() == 1);
    assert_eq!(names(&chart), ours.iter().map(|path| path.file_name().unwrap().to_owned()).collect());
    for path in ours.into_iter().filter(|path| !path.ends_with("default.yaml")) {
        let copy = chart.join(path.file_name().unwrap());
        let same = fs::read(&path).unwrap() == fs::read(&copy).unwrap();
        assert!(same, "cp {} {}", path.display(), copy.display());
    }
}

fn run(path: &Path) -> (Outcome, String) {
    let args = PolicyTestArgs {
        output_file: mullion::cli::OutputFileArgs::default(),
        paths: vec![path.to_owned()],
        filenames: Vec::new(),
        links: LinkArgs::default(),
        output: TestFormat::Text,
        filter: None,
        verbose: true,
    };
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut io =
        Io { stdin: &mut io::empty(), stdout: &mut stdout, stderr: &mut stderr, colour_stdout: false, width: None };
    let outcome = policy::test::run(&args, &mut io).unwrap();
    (outcome, String::from_utf8([stdout, stderr].concat()).unwrap())
}

#[test]
fn cases_beside_each_show_what_it_does() {
    for path in shipped() {
        let text = fs::read_to_string(&path).unwrap();
        let tests = path.with_extension("test.yaml");
        let name = tests.file_name().unwrap().to_str().unwrap();
        assert!(text.contains(name), "{} names its test file", path.display());
        let (outcome, output) = run(&tests);
        assert_eq!(outcome, Outcome::Clean, "{output}");
        assert!(output.matches("ok   ").count() >= 8, "{output}");
    }
}

/// A case that passes under every policy proves nothing about one policy.
#[test]
fn cases_of_one_policy_do_not_all_pass_under_another() {
    for path in shipped() {
        for other in shipped().iter().filter(|other| **other != path) {
            let directory = tempfile::tempdir().unwrap();
            let tests = path.with_extension("test.yaml");
            fs::copy(other, directory.path().join(path.file_name().unwrap())).unwrap();
            let copy = directory.path().join(tests.file_name().unwrap());
            fs::copy(&tests, &copy).unwrap();
            let (outcome, output) = run(&copy);
            assert_eq!(outcome, Outcome::Findings, "{} under {}: {output}", tests.display(), other.display());
        }
    }
}

#[test]
fn the_default_file_sets_the_defaults() {
    let set = load("default.yaml");
    let mut settings = Settings::clone(&set.settings("shop", None, &()));
    assert_eq!(settings.rules_version.take().as_deref(), Some("0.1"));
    settings.origins.clear();
    assert_eq!(format!("{settings:?}"), format!("{:?}", Settings::default()));
    assert_eq!(set.nodes, NodeSettings::default());
    assert_eq!(set.registries, RegistryPolicy::default());
}

/// Each policy with what it matches and sets.
fn named<'p>(policies: impl Iterator<Item = &'p PodPolicy>) -> Vec<String> {
    let pod = |pod: &PodPolicy| {
        let PodPolicy { name, matches, settings, .. } = pod;
        let keys: Vec<_> = settings.origins.keys().collect();
        let values = Settings { origins: BTreeMap::new(), ..settings.clone() };
        format!("{name} {matches:?} {keys:?} {values:?}")
    };
    policies.map(pod).collect()
}

#[test]
fn it_is_in_force_without_files() {
    let (built_in, shipped) = (PolicySet::built_in(), load("default.yaml"));
    assert!(!shipped.pods.is_empty());
    assert_eq!(named(built_in.pods.iter()), named(shipped.own()));
    assert_eq!(built_in.nodes, shipped.nodes);
}

/// Under Audit nothing is changed or denied, and warnings report what would be.
#[test]
fn audit_only_warns() {
    let set = load("audit.yaml");
    assert_eq!((set.settings("shop", None, &()).mode, set.nodes.mode), (Mode::Audit, Mode::Audit));
    let spec = json!({"hostPID": true, "containers": [{"name": "c", "image": WINDOWS}]});
    let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec});
    let request =
        ReviewRequest::creation(WorkloadObject { kind: WorkloadKind::Pod, namespace: "shop", object: &object });
    for endpoint in [Endpoint::Mutate, Endpoint::Validate] {
        let answer = respond(
            &review(&request, &ClusterSnapshot::default(), &set.resolve(&request, &ClusterSnapshot::default())),
            &object,
            endpoint,
        );
        assert!(answer.denial.is_none() && answer.patch.is_empty(), "{answer:?}");
        assert!(answer.warnings[0].starts_with("would deny: MUL205"), "{answer:?}");
    }
}

/// Strict silently removes values that have no effect on Linux either, and denies every other field that Windows
/// ignores.
#[test]
fn strict_repairs_only_values_without_meaning() {
    let set = load("strict.yaml");
    let settings = set.settings("shop", None, &());
    for rule in catalogue() {
        let action = settings.action_under_denials(rule.code, rule.name, rule.default);
        // Pods rely on no value of these two.
        let harmless = ["se-linux-change-policy", "fs-group-change-policy"].contains(&rule.name);
        assert!(action != Action::Repair || harmless, "{} is repaired", rule.name);
        assert!(action != Action::Allow, "{} is allowed", rule.name);
        assert!(action >= rule.default.min(Action::Warn), "{} is weaker than by default", rule.name);
    }
    let mut spec = json!({"containers": [{"name": "c", "image": WINDOWS, "resources": {"limits": {"memory": "1Gi"}},
        "securityContext": {"privileged": false, "capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": false}}]});
    let stored = create(&spec, &set).unwrap();
    assert_eq!(stored["containers"][0]["securityContext"], json!({}));
    spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"] = json!(true);
    assert!(create(&spec, &set).unwrap_err().contains("MUL210"));
}

/// The runbook: a policy of high priority turns one rule into a warning, even with a file that has an entry for the
/// rule.
#[test]
fn an_emergency_policy_works_beside_strict() {
    let runbook = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: runbook}\nspec:\n  priority: 100000\n  \
                   rules: {actions: [{rule: MUL305, action: Warn}]}\n";
    let strict = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/strict.yaml")).unwrap();
    let spec = json!({"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}],
        "containers": [{"name": "c", "image": WINDOWS, "resources": {"limits": {"memory": "1Gi"}},
            "volumeMounts": [{"name": "v", "mountPath": "C:\\keys"}]}]});
    let set =
        |files: &[(&str, &str)]| PolicySet::from_files(files).unwrap_or_else(|all| panic!("{}", problem_texts(&all)));
    let denied = create(&spec, &set(&[("strict.yaml", &strict)])).unwrap_err();
    assert!(denied.contains("MUL305 memory-volume"), "{denied}");
    let both = set(&[("strict.yaml", &strict), ("runbook.yaml", runbook)]);
    create(&spec, &both).unwrap();
    // All other rules stay as strict sets them.
    let other = json!({"containers": [{"name": "c", "image": WINDOWS}]});
    assert!(create(&other, &both).unwrap_err().contains("MUL601 memory-limit"));
}

#[test]
fn nothing_in_kube_system_is_denied() {
    for name in ["default.yaml", "compatible.yaml", "strict.yaml"] {
        let set = load(name);
        let system = set.settings("kube-system", None, &());
        assert_eq!(system.denials, Denials::Warn, "{name}");
        assert_eq!(system.mode, Mode::Enforce, "{name}");
        for rule in catalogue() {
            assert_ne!(
                system.action_under_denials(rule.code, rule.name, rule.default),
                Action::Deny,
                "{name}: {}",
                rule.name
            );
        }
        assert_eq!(set.settings("shop", None, &()).denials, Denials::Deny, "{name}");
    }
}

const WINDOWS: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";

/// Ways in which an author makes a Windows pod; the API server validates the fields only for the last one.
fn authors() -> [(&'static str, Value); 3] {
    let containers = json!([{"name": "c", "image": WINDOWS}]);
    [
        ("image", json!({"containers": containers})),
        ("selector", json!({"containers": containers, "nodeSelector": {"kubernetes.io/os": "windows"}})),
        ("spec.os", json!({"containers": containers, "os": {"name": "windows"}})),
    ]
}

/// The message of the denial, or the pod as it is stored.
fn create(spec: &Value, policies: &PolicySet) -> Result<Value, String> {
    let mut object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec});
    for endpoint in [Endpoint::Mutate, Endpoint::Validate] {
        let request =
            ReviewRequest::creation(WorkloadObject { kind: WorkloadKind::Pod, namespace: "shop", object: &object });
        let answer = respond(
            &review(&request, &ClusterSnapshot::default(), &policies.resolve(&request, &ClusterSnapshot::default())),
            &object,
            endpoint,
        );
        if let Some(denial) = answer.denial {
            return Err(denial.message);
        }
        json_patch::patch(&mut object, &answer.patch).unwrap();
    }
    Ok(object["spec"].take())
}

/// Whether Kubernetes would reject a Windows pod: the API server by `validateWindows` and `validatePodResources`
/// (pkg/apis/core/validation), or a Windows kubelet by `lifecycle/predicate.go`, its sysctl allowlist and
/// `apparmor/validate_disabled.go`.
fn kubernetes_rejects(spec: &Value) -> bool {
    let pod = |key: &str| &spec["securityContext"][key];
    let container = |key: &str| &spec["containers"][0]["securityContext"][key];
    let profile = |value: &Value| value["type"].as_str().is_some_and(|kind| kind != "Unconfined");
    let unsafe_sysctl = |item: &Value| item["name"] != "net.ipv4.tcp_syncookies";
    let kubelet = profile(pod("appArmorProfile"))
        || profile(container("appArmorProfile"))
        || pod("supplementalGroupsPolicy") == "Strict"
        || pod("sysctls").as_array().is_some_and(|all| all.iter().any(unsafe_sysctl))
        || !spec["resources"].is_null();
    let both = ["appArmorProfile", "seLinuxOptions", "seccompProfile", "runAsUser", "runAsGroup"];
    let only_pod = [
        "seLinuxChangePolicy",
        "fsGroup",
        "fsGroupChangePolicy",
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "sysctls",
    ];
    let only_container =
        ["capabilities", "readOnlyRootFilesystem", "privileged", "allowPrivilegeEscalation", "procMount"];
    let signal = &spec["containers"][0]["lifecycle"]["stopSignal"];
    let server = spec["os"]["name"] == "windows"
        && (!signal.is_null()
            || both.iter().chain(&only_pod).any(|key| !pod(key).is_null())
            || both.iter().chain(&only_container).any(|key| !container(key).is_null())
            || [&spec["hostPID"], &spec["hostIPC"]].into_iter().any(|value| value == true)
            || [&spec["hostUsers"], &spec["shareProcessNamespace"]].into_iter().any(|value| !value.is_null()));
    kubelet || server
}

/// A value of every field of the catalogue's table, the most severe one first if there are several.
fn fields() -> Vec<(&'static str, &'static str, Value)> {
    let (spec, pod, container) = ("/spec", "/spec/securityContext", "/securityContext");
    vec![
        (pod, "runAsUser", json!(1000)),
        (pod, "runAsGroup", json!(1000)),
        (pod, "seccompProfile", json!({"type": "Localhost", "localhostProfile": "x"})),
        (pod, "appArmorProfile", json!({"type": "RuntimeDefault"})),
        (pod, "appArmorProfile", json!({"type": "Unconfined"})),
        (pod, "seLinuxOptions", json!({"level": "s0"})),
        (pod, "seLinuxChangePolicy", json!("MountOption")),
        (pod, "fsGroup", json!(2000)),
        (pod, "fsGroupChangePolicy", json!("OnRootMismatch")),
        (pod, "supplementalGroups", json!([1])),
        (pod, "supplementalGroupsPolicy", json!("Strict")),
        (pod, "supplementalGroupsPolicy", json!("Merge")),
        (pod, "sysctls", json!([{"name": "kernel.msgmax", "value": "1"}])),
        (pod, "sysctls", json!([{"name": "net.ipv4.tcp_syncookies", "value": "1"}])),
        (spec, "hostUsers", json!(false)),
        (spec, "hostPID", json!(true)),
        (spec, "hostIPC", json!(true)),
        (spec, "hostNetwork", json!(true)),
        (spec, "dnsPolicy", json!("ClusterFirstWithHostNet")),
        (spec, "shareProcessNamespace", json!(true)),
        (spec, "resources", json!({"limits": {"cpu": "1"}})),
        ("/lifecycle", "stopSignal", json!("SIGQUIT")),
        (container, "runAsUser", json!(0)),
        (container, "runAsGroup", json!(0)),
        (container, "privileged", json!(true)),
        (container, "capabilities", json!({"add": ["SYS_ADMIN"]})),
        (container, "readOnlyRootFilesystem", json!(true)),
        (container, "allowPrivilegeEscalation", json!(true)),
        (container, "procMount", json!("Unmasked")),
        (container, "seccompProfile", json!({"type": "Localhost", "localhostProfile": "x"})),
        (container, "appArmorProfile", json!({"type": "Localhost", "localhostProfile": "x"})),
        (container, "seLinuxOptions", json!({"level": "s0"})),
    ]
}

#[test]
fn compatible_denies_only_what_kubernetes_would_not_run() {
    let policies = load("compatible.yaml");
    let mut denied = BTreeSet::new();
    for (place, field, value) in fields() {
        for (author, mut spec) in authors() {
            match place {
                "/spec" => spec[field] = value.clone(),
                "/spec/securityContext" => spec["securityContext"][field] = value.clone(),
                "/lifecycle" => spec["containers"][0]["lifecycle"][field] = value.clone(),
                _ => spec["containers"][0]["securityContext"][field] = value.clone(),
            }
            let case = format!("{place}/{field}: {value}, Windows by {author}");
            match create(&spec, &policies) {
                Err(message) => {
                    assert!(kubernetes_rejects(&spec), "{case}: {message}");
                    assert!(message.contains(&format!(".{field}: ")), "{case}: {message}");
                    denied.insert(field);
                }
                // A pod that is not denied does run: it has no field left that would be rejected later.
                Ok(stored) => assert!(!kubernetes_rejects(&stored), "{case}: {stored}"),
            }
        }
    }
    assert_eq!(Vec::from_iter(denied), ["resources", "sysctls"]);
    for row in FIELDS {
        for pointer in [row.pod, row.container].into_iter().flatten() {
            let tested = fields().iter().any(|(place, field, _)| format!("{place}/{field}") == pointer);
            assert!(tested, "{pointer} has no case");
        }
    }
}

#[test]
fn compatible_denies_what_no_node_can_run() {
    let policies = load("compatible.yaml");
    let other = json!({"name": "d", "image": "mcr.microsoft.com/windows/servercore:ltsc2019"});
    for (_, spec) in authors() {
        let mut conflict = spec.clone();
        conflict["os"]["name"] = json!("windows");
        conflict["nodeSelector"]["kubernetes.io/os"] = json!("linux");
        let message = create(&conflict, &policies).unwrap_err();
        assert!(message.contains("conflicting-os"), "{message}");
        let mut builds = spec.clone();
        builds["containers"].as_array_mut().unwrap().push(other.clone());
        let message = create(&builds, &policies).unwrap_err();
        assert!(message.contains("no-common-build"), "{message}");
    }
}
