//! Volumes of Windows pods.

use mullion_engine::admission::{Endpoint, respond};
use mullion_engine::model::settings::Action;
use mullion_engine::rules::RejectedBy;
use mullion_policy::PolicySet;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::*;

const WINDOWS: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";

/// A pod spec with that volume, mounted by its one container.
fn spec(volume: Value) -> Value {
    let mut volume = volume;
    volume["name"] = json!("v");
    json!({"volumes": [volume],
        "containers": [{"name": "c", "image": WINDOWS, "volumeMounts": [{"name": "v", "mountPath": "C:\\v"}]}]})
}

fn as_host_process(mut spec: Value) -> Value {
    spec["hostNetwork"] = json!(true);
    spec["securityContext"] = json!({"windowsOptions": {"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"}});
    spec
}

/// Code and path of every finding about storage.
fn findings_of(object: &Value) -> Vec<(&'static str, String)> {
    let findings = create(object).review.findings;
    let storage = |code: &str| code.starts_with("MUL3") || code == "MUL408";
    findings.into_iter().filter(|f| storage(f.code)).map(|f| (f.code, f.path)).collect()
}

fn codes(object: &Value) -> Vec<&'static str> {
    findings_of(object).into_iter().map(|(code, _)| code).collect()
}

fn policies(rules: &str) -> PolicySet {
    let text = format!(
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: p}}\nspec:\n  priority: 1\n  \
         rules: {{actions: [{rules}]}}\n"
    );
    PolicySet::from_files(&[("p.yaml", &text)]).unwrap()
}

#[test]
fn what_never_starts_is_denied_with_the_reason() {
    let volumes = [
        (json!({"nfs": {"server": "s", "path": "/"}}), "spec.volumes[0].nfs"),
        (json!({"emptyDir": {"medium": "HugePages"}}), "spec.volumes[0].emptyDir.medium"),
    ];
    for (volume, path) in volumes {
        let object = pod(spec(volume));
        let denial = create(&object).denial().to_owned();
        assert!(denial.contains(path) && denial.contains("the pod never starts"), "{denial}");
        // The kubelet would keep it waiting forever, whatever created it; a DaemonSet's pods are never denied.
        assert!(create(&owned_by(object.clone(), "ReplicaSet")).denied());
        assert!(!create(&owned_by(object, "DaemonSet")).denied());
    }
}

#[test]
fn volumes_that_nothing_mounts_are_left_alone() {
    for volume in [
        json!({"nfs": {"server": "s", "path": "/"}}),
        json!({"emptyDir": {"medium": "Memory"}}),
        json!({"hostPath": {"path": "/etc/ssl"}}),
        json!({"secret": {"secretName": "s", "defaultMode": 256}}),
    ] {
        let mut spec = spec(volume);
        assert_eq!(findings_of(&pod(spec.clone())).len(), 1, "{spec}");
        spec["containers"][0]["volumeMounts"][0]["name"] = json!("other");
        assert!(findings_of(&pod(spec.clone())).is_empty(), "{spec}");
        // A volume that is used as a device, or by an init container, is also mounted.
        spec["initContainers"] =
            json!([{"name": "i", "image": WINDOWS, "volumeDevices": [{"name": "v", "devicePath": "/d"}]}]);
        assert_eq!(findings_of(&pod(spec.clone())).len(), 2, "{spec}");
    }
}

#[test]
fn bidirectional_is_repaired_or_the_server_would_reject_it() {
    let with = |mode: &str, privileged: bool| {
        let mut spec = spec(json!({"emptyDir": {}}));
        spec["containers"][0]["volumeMounts"][0]["mountPropagation"] = json!(mode);
        if privileged {
            spec["containers"][0]["securityContext"] = json!({"privileged": true});
        }
        spec
    };
    let mount = "/containers/0/volumeMounts/0/mountPropagation";
    let plain = create(&pod(with("Bidirectional", false)));
    assert!(!plain.denied() && plain.stored.pointer(&format!("/spec{mount}")).is_none());
    let finding = &plain.review.findings[0];
    assert_eq!(finding.rejected_by, RejectedBy::ApiServer);
    assert_eq!(finding.path, "spec.containers[0].volumeMounts.mountPropagation", "as the server spells it");
    assert_eq!(finding.pointer, format!("/spec{mount}"));

    // Privileged is removed from HostProcess pods, and with it the fields that need it.
    let driver = as_host_process(with("Bidirectional", true));
    for kind in ["Pod", "DaemonSet", "Deployment"] {
        let mut driver = driver.clone();
        driver["os"] = json!({"name": "windows"});
        let (object, at) =
            if kind == "Pod" { (pod(driver), "/spec") } else { (workload(kind, driver), "/spec/template/spec") };
        let outcome = create(&object);
        assert!(!outcome.denied(), "{kind}");
        assert!(outcome.stored.pointer(&format!("{at}{mount}")).is_none(), "{kind}: {}", outcome.stored);
        assert!(outcome.stored.pointer(&format!("{at}/containers/0/securityContext/privileged")).is_none(), "{kind}");
    }
    let without_os_field = create(&pod(driver));
    assert!(without_os_field.stored.pointer(&format!("/spec{mount}")).is_none(), "{}", without_os_field.stored);

    // A policy that only warns, or allows it, results in the same pod; one that denies denies it.
    for (action, warned) in [("Warn", true), ("Allow", false)] {
        let policies = policies(&format!("{{rule: MUL304, action: {action}}}"));
        let outcome = create_in(&pod(with("Bidirectional", false)), &snapshot(), &policies);
        assert!(outcome.stored.pointer(&format!("/spec{mount}")).is_none(), "{action}");
        assert_eq!(!outcome.mutate.warnings.is_empty(), warned, "{action}: {:?}", outcome.mutate.warnings);
    }
    let deny = policies("{rule: MUL304, action: Deny}");
    assert!(create_in(&pod(with("Bidirectional", false)), &snapshot(), &deny).denied());

    let one_way = create(&pod(with("HostToContainer", false)));
    assert_eq!(one_way.stored.pointer(&format!("/spec{mount}")), Some(&json!("HostToContainer")));
    assert_eq!(one_way.review.findings[0].action, Action::Warn);
    assert_eq!(one_way.review.findings[0].rejected_by, RejectedBy::None);
}

#[test]
fn each_host_path_has_one_rule_at_most() {
    let cases = [
        ("/etc/ssl", "", Some("MUL306"), Some("MUL306")),
        ("/", "", None, None),
        ("/var/lib/kubelet", "Directory", None, None),
        ("/VAR/LIB/kubelet/plugins", "", None, None),
        ("/var/lib/kubelets", "", Some("MUL306"), Some("MUL306")),
        ("/var/lib/kubelet/plugins/x/csi.sock", "Socket", None, Some("MUL408")),
        ("/var/log", "", None, None),
        ("/var/log/", "", None, None),
        ("/var/log/other", "", Some("MUL306"), Some("MUL306")),
        ("/var/log/pods/x", "", None, None),
        ("/var/run/docker.sock", "", Some("MUL307"), Some("MUL408")),
        ("/run/X.SOCK", "", Some("MUL307"), Some("MUL408")),
        ("/run/x", "Socket", Some("MUL307"), Some("MUL408")),
        ("C:\\x.sock", "Socket", None, Some("MUL408")),
        ("\\\\.\\pipe\\x", "", None, Some("MUL408")),
        ("\\\\.\\pipe\\x", "Socket", Some("MUL307"), Some("MUL408")),
        ("//./pipe/x", "", Some("MUL306"), Some("MUL408")),
        ("\\var\\x", "", None, None),
        ("relative", "", None, None),
        ("", "Socket", None, None),
        ("/é", "", Some("MUL306"), Some("MUL306")),
        // The agent's own directory: it is created if it is missing, below C:\\.
        ("/var/log/agent/", "DirectoryOrCreate", None, None),
        ("/var/run/agent", "DirectoryOrCreate", None, None),
        ("/srv/state", "FileOrCreate", None, None),
        ("/run/agent.sock", "FileOrCreate", Some("MUL307"), Some("MUL408")),
        // A directory of another program, created in the wrong place.
        ("/var/lib/docker", "DirectoryOrCreate", Some("MUL306"), Some("MUL306")),
    ];
    for (path, kind, usually, in_host_process) in cases {
        let spec = spec(json!({"hostPath": {"path": path, "type": kind}}));
        assert_eq!(codes(&pod(spec.clone())), Vec::from_iter(usually), "{path} {kind}");
        assert_eq!(codes(&pod(as_host_process(spec))), Vec::from_iter(in_host_process), "{path} {kind}");
    }
}

#[test]
fn findings_off_by_default_are_reported_by_policy() {
    let mut object = with_image(WINDOWS);
    object["spec"]["containers"][0]["terminationMessagePath"] = json!("/tmp/x");
    assert!(findings_of(&object).is_empty());
    let strict = policies("{rule: termination-message-path, action: Deny}");
    let outcome = create_in(&object, &snapshot(), &strict);
    assert!(outcome.denial().contains("spec.containers[0].terminationMessagePath"));
    object["spec"]["containers"][0]["terminationMessagePath"] = json!("/dev/termination-log");
    assert!(!create_in(&object, &snapshot(), &strict).denied());
}

#[test]
fn new_ephemeral_containers_are_looked_at_and_the_volumes_are_not() {
    let mut old = pod(spec(json!({"emptyDir": {"medium": "Memory"}})));
    old["spec"]["os"] = json!({"name": "windows"});
    let mut new = old.clone();
    let mount = json!({"name": "v", "mountPath": "C:\\v", "mountPropagation": "Bidirectional"});
    new["spec"]["ephemeralContainers"] = json!([{"name": "e", "image": WINDOWS, "volumeMounts": [mount]}]);
    let review = debug(&old, &new);
    let codes: Vec<_> = review.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["MUL304"]);
    let patch = respond(&review, &new, Endpoint::Mutate).patch;
    let paths: Vec<_> = patch.iter().map(|op| op.path().to_string()).collect();
    assert_eq!(paths, ["/spec/ephemeralContainers/0/volumeMounts/0/mountPropagation"]);
}

/// Every rule, at the deepest path that exists.
#[test]
fn no_reason_is_cut() {
    let volumes = [
        json!({"nfs": {"server": "s", "path": "/"}}),
        json!({"emptyDir": {"medium": "HugePages-1Gi"}}),
        json!({"emptyDir": {"medium": "Memory"}}),
        json!({"hostPath": {"path": "/etc/ssl"}}),
        json!({"hostPath": {"path": "/etc/hosts", "type": "File"}}),
        json!({"hostPath": {"path": "//./pipe/docker_engine"}}),
        json!({"hostPath": {"path": "/run/docker.sock"}}),
        json!({"hostPath": {"path": "\\\\.\\pipe\\docker_engine", "type": "Socket"}}),
        json!({"projected": {"sources": [{"downwardAPI": {"items": [{"path": "a", "mode": 0}]}}]}}),
        json!({"projected": {"sources": [{"clusterTrustBundle": {"path": "a", "user": 0}}]}}),
    ];
    let volumes: Vec<Value> = volumes
        .into_iter()
        .enumerate()
        .map(|(index, mut volume)| {
            volume["name"] = json!(format!("v{index}"));
            volume
        })
        .collect();
    let mounts: Vec<Value> = (0..volumes.len())
        .map(|index| {
            json!({"name": format!("v{index}"), "mountPath": "C:\\v", "mountPropagation": "HostToContainer",
            "bindMountOptions": ["noexec"]})
        })
        .collect();
    let container = json!({"name": "i", "image": WINDOWS, "volumeMounts": mounts, "volumeDevices": [{"name": "v0"}],
        "terminationMessagePath": "/x", "resources": {"limits": {"memory": "1Gi", "hugepages-2Mi": "2Mi"}}});
    let spec = json!({"volumes": volumes, "initContainers": vec![container; 12],
        "containers": [{"name": "c", "image": WINDOWS}]});
    let outcome = create_in(&workload("CronJob", spec), &snapshot(), &policies("{rule: MUL3, action: Warn}"));
    let findings = outcome.review.findings;
    let codes =
        ["301", "302", "303", "304", "305", "306", "307", "308", "309", "310", "311"].map(|code| format!("MUL{code}"));
    for code in codes {
        assert!(findings.iter().any(|finding| finding.code == code), "{code}");
    }
    for finding in findings {
        let line = finding.line("", "", 120);
        assert!(line.contains(&*finding.message) && line.chars().count() <= 120, "{line}");
        assert!(finding.message.chars().count() <= 80 && !finding.help.is_empty(), "{}", finding.sentence());
    }
}

#[test]
fn what_is_no_volume_is_no_finding() {
    for volumes in [
        json!("x"),
        json!([null, 1, "x", [], {}]),
        json!([{"name": "v", "nfs": null, "emptyDir": "x", "hostPath": [], "secret": 1}]),
        json!([{"name": "v", "emptyDir": {"medium": 1}, "hostPath": {"path": 1, "type": {}}}]),
        json!([{"name": "v", "secret": {"defaultMode": "0400", "items": {"mode": 0}}}]),
        json!([{"name": "v", "projected": {"sources": [null, {"secret": null}, {"secret": {"items": [null, 1]}}]}}]),
        json!([{"name": "v", "configMap": {"defaultMode": -1}}]),
        json!([{"name": "v", "configMap": {"defaultUser": "1000", "items": [{"user": []}]}}]),
        json!([{"name": "v", "projected": {"sources": [{"serviceAccountToken": null}, {"podCertificate": {"user": {}}}]}}]),
    ] {
        let mut spec = spec(json!({}));
        spec["volumes"] = volumes;
        assert!(findings_of(&pod(spec.clone())).is_empty(), "{spec}");
    }
    for mounts in [
        json!("x"),
        json!([null, 1, {"mountPropagation": 1}, {"mountPropagation": "Both", "bindMountOptions": "noexec"}]),
    ] {
        let mut spec = spec(json!({"emptyDir": {"medium": "Memory"}}));
        spec["containers"][0]["volumeMounts"] = mounts;
        spec["containers"][0]["volumeDevices"] = json!({"name": "v"});
        spec["containers"][0]["terminationMessagePath"] = json!(["/x"]);
        spec["containers"][0]["resources"] =
            json!({"limits": {"memory": "1Gi"}, "requests": [{"hugepages-2Mi": "1Gi"}]});
        assert!(findings_of(&pod(spec.clone())).is_empty(), "{spec}");
    }
}

#[test]
fn a_pod_of_thousands_of_volumes_is_reviewed_completely() {
    let all = 0..5_000;
    let volumes: Vec<Value> =
        all.clone().map(|n| json!({"name": format!("v{n}"), "hostPath": {"path": "/run/x.sock"}})).collect();
    let mounts: Vec<Value> = all.clone().map(|n| json!({"name": format!("v{n}"), "mountPath": "C:\\v"})).collect();
    let mut containers = vec![json!({"name": "c", "image": WINDOWS}); all.len()];
    containers[0]["volumeMounts"] = json!(mounts);
    assert_eq!(findings_of(&pod(json!({"volumes": volumes, "containers": containers}))).len(), all.len());
}

proptest! {
    /// A mode is a finding if group or others may not read, in any field, and one for each volume.
    #[test]
    fn a_mode_counts_where_it_promises_privacy(mode in 0_u32..=0o777, default in prop_oneof![Just(0o644_u32), 0..=0o777_u32]) {
        let private = |mode: u32| mode & 0o040 == 0 || mode & 0o004 == 0;
        let items = json!([{"key": "a", "path": "a"}, {"key": "b", "path": "b", "mode": mode}]);
        for volume in [
            json!({"secret": {"secretName": "s", "defaultMode": default, "items": items}}),
            json!({"configMap": {"name": "s", "defaultMode": default, "items": items}}),
            json!({"downwardAPI": {"defaultMode": default, "items": items}}),
            json!({"projected": {"defaultMode": default, "sources": [{"secret": {"name": "s"}}, {"configMap": {"items": items}}]}}),
        ] {
            let expected = usize::from(private(mode) || private(default));
            let found = findings_of(&pod(spec(volume.clone())));
            prop_assert_eq!(found.len(), expected, "{}", volume);
            if expected == 1 {
                let at_default = found[0].1.ends_with(".defaultMode");
                prop_assert_eq!(at_default, private(default), "{}: {:?}", volume, found);
            }
        }
    }

    #[test]
    fn any_path_is_read(path in "\\PC*", kind in "\\PC*") {
        let spec = spec(json!({"hostPath": {"path": path, "type": kind}}));
        prop_assert!(findings_of(&pod(spec)).len() <= 1);
    }
}
