//! runAsUserName, gMSA and HostProcess: the findings and their fields.

use mullion_engine::admission::{Endpoint, Review, respond};
use mullion_engine::rules::{Finding, RejectedBy};
use mullion_policy::PolicySet;
use serde_json::{Value, json};

use crate::support::*;

const WINDOWS: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";

/// `MUL401 spec.…` for each finding of this family.
fn findings_of(review: &Review) -> Vec<String> {
    let ours = review.findings.iter().filter(|finding| finding.code.starts_with("MUL4"));
    let mut found: Vec<String> = ours.map(|finding| format!("{} {}", finding.code, finding.path)).collect();
    found.sort();
    found
}

fn findings_in(spec: Value) -> Vec<String> {
    findings_of(&create(&pod(spec)).review)
}

/// Containers with these securityContexts, named a, b, …
fn containers(contexts: &[Value]) -> Value {
    let containers = contexts.iter().zip('a'..='z').map(|(context, name)| {
        json!({"name": name, "image": WINDOWS, "securityContext": context,
            "resources": {"limits": {"memory": "512Mi"}}})
    });
    containers.collect()
}

fn options(options: Value) -> Value {
    json!({"windowsOptions": options})
}

const POD_OPTIONS: &str = "spec.securityContext.windowsOptions";
const A_OPTIONS: &str = "spec.containers[0].securityContext.windowsOptions";

#[test]
fn user_names_are_checked_as_the_server_does() {
    let good = [
        "ContainerUser",
        "ContainerAdministrator",
        r"NT AUTHORITY\SYSTEM",
        r"NT AUTHORITY\Local service",
        r"CONTOSO\web$",
        r"contoso.example.com\web",
        r"a-b.c\user name",
        "user.name",
        "ÄÖ",
    ];
    for name in good {
        let findings = findings_in(json!({"containers": containers(&[options(json!({"runAsUserName": name}))])}));
        assert!(findings.is_empty(), "{name:?}: {findings:?}");
    }
    let bad = [
        ("", "empty"),
        ("a\tb", "control characters"),
        ("a\u{7f}", "control characters"),
        (r"a\b\c", "one backslash at most"),
        (r"\user", "no domain"),
        (r"CONTOSO\", "no user"),
        (r".\user", "neither a NetBIOS nor a DNS name"),
        (r"-a-much-longer-domain-.com\user", "neither a NetBIOS nor a DNS name"),
        ("...", "dots and spaces"),
        (" ", "dots and spaces"),
        ("user@contoso.com", "cannot have @"),
        ("a:b|c", "cannot have :|"),
        (r"a?\b+c", "neither a NetBIOS nor a DNS name, and a user cannot have +"),
    ];
    for (name, words) in bad {
        for place in ["pod", "containers", "initContainers"] {
            let mut spec = json!({"containers": containers(&[json!({})])});
            let wrong = options(json!({"runAsUserName": name}));
            let path = if place == "pod" {
                spec["securityContext"] = wrong;
                "spec.securityContext.windowsOptions.runAsUserName".to_owned()
            } else {
                spec[place] = containers(&[wrong]);
                spec[place][0]["name"] = json!("x");
                format!("spec.{place}[0].securityContext.windowsOptions.runAsUserName")
            };
            let outcome = create(&pod(spec));
            assert_eq!(findings_of(&outcome.review), [format!("MUL401 {path}")], "{name:?}");
            // Denied with Mullion's message, before the API server's own.
            let denial = outcome.mutate.denial.expect(name).message;
            assert!(denial.contains(words), "{name:?}: {denial}");
            assert!(denial.contains("; write "), "{name:?}: {denial}");
        }
    }
}

#[test]
fn what_the_server_checks_holds_on_linux_too() {
    let wrong = json!({"runAsUserName": "a@b", "gmsaCredentialSpecName": "A_b", "hostProcess": true});
    let spec = json!({"nodeSelector": {"kubernetes.io/os": "linux"}, "containers": containers(&[options(wrong)])});
    assert_eq!(
        findings_in(spec),
        [
            format!("MUL401 {A_OPTIONS}.runAsUserName"),
            format!("MUL402 {A_OPTIONS}.gmsaCredentialSpecName"),
            "MUL404 spec.hostNetwork".to_owned(),
        ]
    );
}

#[test]
fn credential_specs_are_checked_and_never_shown() {
    let secret = "S-1-5-21-secret";
    let long = |bytes: usize| secret.repeat(bytes / secret.len() + 1)[..bytes].to_owned();
    let table = [
        (json!({"gmsaCredentialSpecName": "web-1.contoso"}), ""),
        (json!({"gmsaCredentialSpecName": "WebApp1"}), "MUL402 gmsaCredentialSpecName"),
        (json!({"gmsaCredentialSpecName": ""}), "MUL402 gmsaCredentialSpecName"),
        (json!({"gmsaCredentialSpecName": "a..b"}), "MUL402 gmsaCredentialSpecName"),
        (json!({"gmsaCredentialSpecName": "a".repeat(253)}), ""),
        (json!({"gmsaCredentialSpecName": "a".repeat(254)}), "MUL402 gmsaCredentialSpecName"),
        (json!({"gmsaCredentialSpecName": "a", "gmsaCredentialSpec": ""}), "MUL402 gmsaCredentialSpec"),
        (json!({"gmsaCredentialSpec": ""}), "MUL402 gmsaCredentialSpec"),
        (json!({"gmsaCredentialSpecName": "a", "gmsaCredentialSpec": long(65536)}), ""),
        (json!({"gmsaCredentialSpecName": "a", "gmsaCredentialSpec": long(65537)}), "MUL402 gmsaCredentialSpec"),
        (json!({"gmsaCredentialSpec": secret}), "MUL409 gmsaCredentialSpec"),
        (json!({"gmsaCredentialSpec": secret, "gmsaCredentialSpecName": null}), "MUL409 gmsaCredentialSpec"),
    ];
    for (wrong, expected) in table {
        for (place, path) in [("pod", POD_OPTIONS), ("container", A_OPTIONS)] {
            let mut spec = json!({"containers": containers(&[json!({})])});
            if place == "pod" {
                spec["securityContext"] = options(wrong.clone());
            } else {
                // The pod's name does not count for a container with contents of its own.
                spec["securityContext"] = options(json!({"gmsaCredentialSpecName": "of-the-pod"}));
                spec["containers"] = containers(&[options(wrong.clone())]);
            }
            let outcome = create(&pod(spec));
            let findings = findings_of(&outcome.review);
            let expected: Vec<String> =
                expected.split_once(' ').map(|(code, field)| format!("{code} {path}.{field}")).into_iter().collect();
            assert_eq!(findings, expected, "{place}: {wrong}");
            let words: Vec<String> = outcome.review.findings.iter().map(Finding::sentence).collect();
            assert!(!words.concat().contains("S-1-5"), "{words:?}");
        }
    }
    // For a name in capitals the finding proposes lower case.
    let outcome =
        create(&pod(json!({"containers": containers(&[options(json!({"gmsaCredentialSpecName": "WebApp1"}))])})));
    assert!(outcome.denial().contains("write webapp1"), "{}", outcome.denial());
}

const SYSTEM: &str = r"NT AUTHORITY\SYSTEM";

#[test]
fn host_process_is_for_all_containers_or_for_none() {
    let on = || options(json!({"hostProcess": true, "runAsUserName": SYSTEM}));
    let off = || options(json!({"hostProcess": false}));
    let none = || json!({});
    let differs = |index: usize| format!("MUL403 spec.containers[{index}].securityContext.windowsOptions.hostProcess");
    let mixed = || "MUL403 spec".to_owned();
    let table = [
        (none(), vec![on(), on()], vec![]),
        (on(), vec![none(), none()], vec![]),
        (on(), vec![on(), none()], vec![]),
        (off(), vec![none(), off()], vec![]),
        (none(), vec![on(), none()], vec![mixed()]),
        (none(), vec![off(), on()], vec![mixed()]),
        // The pod's own field no longer counts: there is no mixture.
        (on(), vec![off()], vec![differs(0)]),
        (on(), vec![none(), off()], vec![mixed(), differs(1)]),
        (off(), vec![on()], vec![differs(0)]),
        (off(), vec![none(), on()], vec![mixed(), differs(1)]),
    ];
    for (of_pod, of_containers, expected) in table {
        let spec = json!({"hostNetwork": true, "securityContext": of_pod, "containers": containers(&of_containers)});
        let findings: Vec<String> =
            findings_in(spec.clone()).into_iter().filter(|text| text.starts_with("MUL403")).collect();
        assert_eq!(findings, expected, "{spec}");
    }
    // An init container counts as well, and templates have their own paths.
    let mut spec =
        json!({"hostNetwork": true, "containers": containers(&[on()]), "initContainers": containers(&[none()])});
    spec["initContainers"][0]["name"] = json!("setup");
    let outcome = create(&pod(spec.clone()));
    assert!(outcome.denial().contains("container a is a HostProcess container and setup is not"));
    assert_eq!(findings_of(&create(&workload("CronJob", spec)).review), ["MUL403 spec.jobTemplate.spec.template.spec"]);
}

#[test]
fn host_process_needs_the_network_of_the_host() {
    for (network, fine) in [(json!(true), true), (json!(false), false), (json!(null), false)] {
        let context = options(json!({"hostProcess": true, "runAsUserName": SYSTEM}));
        let spec =
            json!({"hostNetwork": network, "securityContext": context.clone(), "containers": containers(&[json!({})])});
        let expected: &[&str] = if fine { &[] } else { &["MUL404 spec.hostNetwork"] };
        assert_eq!(findings_in(spec), expected);
        let off = options(json!({"hostProcess": false}));
        assert!(findings_in(json!({"hostNetwork": network, "containers": containers(&[off])})).is_empty());
    }
}

#[test]
fn host_process_runs_as_an_account_of_the_host() {
    let text = |name: &str| {
        let context = options(json!({"hostProcess": true, "runAsUserName": name}));
        let spec = json!({"hostNetwork": true, "containers": containers(&[context])});
        let outcome = create(&pod(spec));
        assert!(!outcome.denied(), "{name}");
        for warning in &outcome.mutate.warnings {
            assert!(warning.chars().count() <= 120 && !warning.ends_with('…'), "{warning}");
        }
        let review = outcome.review;
        assert!(review.findings.iter().all(|finding| finding.code == "MUL405"), "{:?}", review.findings);
        review.findings.first().map(Finding::message_with_help)
    };
    for name in [
        SYSTEM,
        r"NT AUTHORITY\system",
        r"NT AUTHORITY\Local service",
        r"NT AUTHORITY\LocalService",
        r"NT AUTHORITY\LOCAL SERVICE",
        r"NT AUTHORITY\NetworkService",
        r"NT AUTHORITY\Network Service",
    ] {
        assert_eq!(text(name), None, "{name}");
    }
    let table = [
        (r"nt authority\system", r"write NT AUTHORITY\SYSTEM"),
        (r"NT AUTHORITY\LocalSystem", r"write NT AUTHORITY\SYSTEM"),
        ("LocalSystem", r"write NT AUTHORITY\SYSTEM"),
        ("networkservice", r"write NT AUTHORITY\NetworkService"),
        ("ContainerAdministrator", "images have it"),
        ("containeruser", "images have it"),
        (r"CONTOSO\web", "no password"),
        (r"BUILTIN\Administrators", "no password"),
        ("hpc-users", "containerd 1.7"),
        ("Administrators", "is a local group"),
    ];
    for (name, words) in table {
        let text = text(name).unwrap_or_default();
        assert!(text.contains(words), "{name}: {text}");
        assert!(text.contains(r"NT AUTHORITY\"), "{name}: {text}");
    }
}

#[test]
fn the_user_of_a_host_process_container_is_its_own_or_its_pods() {
    let spec = |of_pod: Value, of_containers: &[Value]| json!({"hostNetwork": true, "securityContext": of_pod, "containers": containers(of_containers)});
    let on = || options(json!({"hostProcess": true}));
    let none = || json!({});
    let system = || options(json!({"runAsUserName": SYSTEM}));
    let group = || options(json!({"runAsUserName": "hpc-users"}));
    let with = |name: &str| options(json!({"hostProcess": true, "runAsUserName": name}));
    let of_pod = || format!("MUL405 {POD_OPTIONS}.runAsUserName");
    let of = |index: usize| format!("MUL405 spec.containers[{index}].securityContext.windowsOptions.runAsUserName");
    let table = [
        (spec(on(), &[none(), none()]), vec![of_pod()]),
        (spec(on(), &[system(), system()]), vec![]),
        (spec(on(), &[system(), none()]), vec![of_pod()]),
        (spec(with("hpc-users"), &[none(), none()]), vec![of_pod()]),
        (spec(with("hpc-users"), &[system()]), vec![]),
        (spec(with(SYSTEM), &[none(), group()]), vec![of(1)]),
        (spec(none(), &[on(), with(SYSTEM)]), vec![of(0)]),
        // Nothing runs on the host here.
        (spec(options(json!({"hostProcess": false, "runAsUserName": "hpc-users"})), &[none()]), vec![]),
    ];
    for (spec, expected) in table {
        assert_eq!(findings_in(spec.clone()), expected, "{spec}");
    }
    let mut inherits = pod(spec(on(), &[none()]));
    inherits["metadata"]["annotations"] = json!({"microsoft.com/hostprocess-inherit-user": "true"});
    assert!(findings_of(&create(&inherits).review).is_empty());
}

#[test]
fn nobody_on_the_host_is_not_root() {
    let context = |non_root: Value| json!({"runAsNonRoot": non_root, "windowsOptions": {"hostProcess": true, "runAsUserName": SYSTEM}});
    let spec = |of_pod: Value, own: Value| {
        json!({"hostNetwork": true, "securityContext": context(of_pod),
            "containers": containers(&[json!({"runAsNonRoot": own}), json!({"runAsNonRoot": own})])})
    };
    let of_pod = "MUL406 spec.securityContext.runAsNonRoot";
    let (of_a, of_b) = (
        "MUL406 spec.containers[0].securityContext.runAsNonRoot",
        "MUL406 spec.containers[1].securityContext.runAsNonRoot",
    );
    assert_eq!(findings_in(spec(json!(true), json!(null))), [of_pod]);
    assert_eq!(findings_in(spec(json!(false), json!(true))), [of_a, of_b]);
    for (of_pod, own) in [(json!(true), json!(false)), (json!(false), json!(null)), (json!(null), json!(null))] {
        assert!(findings_in(spec(of_pod, own)).is_empty());
    }
}

#[test]
fn the_kubelet_treats_container_administrator_as_root() {
    let root = || json!({"runAsUserName": "containerADMINISTRATOR"});
    let user = || json!({"runAsUserName": "ContainerUser"});
    let context = |non_root: Option<bool>, options: Value| json!({"runAsNonRoot": non_root, "windowsOptions": options});
    let spec =
        |of_pod: Value, own: Value| json!({"securityContext": of_pod, "containers": containers(&[own.clone(), own])});
    let of_pod = format!("MUL407 {POD_OPTIONS}.runAsUserName");
    let names = [0, 1].map(|at| format!("MUL407 spec.containers[{at}].securityContext.windowsOptions.runAsUserName"));
    let flags = [0, 1].map(|at| format!("MUL407 spec.containers[{at}].securityContext.runAsNonRoot"));
    let none: [String; 0] = [];
    let table: [(Value, &[String]); 9] = [
        (spec(context(Some(true), root()), json!({})), &[of_pod]),
        (spec(context(Some(true), json!({})), context(None, root())), &names),
        (spec(context(None, root()), context(Some(true), json!({}))), &flags),
        (spec(context(Some(false), user()), context(Some(true), root())), &names),
        (spec(context(Some(true), root()), context(None, user())), &none),
        (spec(context(Some(true), root()), context(Some(false), json!({}))), &none),
        (spec(context(Some(true), json!({})), json!({})), &none),
        (spec(context(Some(false), root()), json!({})), &none),
        (spec(context(Some(true), json!({"runAsUserName": r"x\ContainerAdministrator"})), json!({})), &none),
    ];
    for (spec, expected) in table {
        let outcome = create(&pod(spec.clone()));
        assert_eq!(findings_of(&outcome.review), expected, "{spec}");
        assert_eq!(outcome.denied(), !expected.is_empty(), "{spec}");
        // The API server accepts it, so /mutate does not deny.
        assert!(outcome.mutate.denial.is_none());
        assert_eq!(create(&owned_by(pod(spec.clone()), "ReplicaSet")).denied(), !expected.is_empty(), "{spec}");
        assert!(!create(&owned_by(pod(spec), "DaemonSet")).denied());
    }
    // It is not known whether ContainerAdministrator is the image's user.
    assert!(
        findings_in(json!({"securityContext": {"runAsNonRoot": true}, "containers": containers(&[json!({})])}))
            .is_empty()
    );
}

#[test]
fn pipes_and_sockets_are_no_volumes_of_the_host() {
    let volume = |host_path: Value| {
        let on = options(json!({"hostProcess": true, "runAsUserName": SYSTEM}));
        let mut spec = json!({"hostNetwork": true, "securityContext": on, "containers": containers(&[json!({})]),
            "volumes": [{"name": "e", "emptyDir": {}}, {"name": "v", "hostPath": host_path}]});
        assert!(findings_in(spec.clone()).is_empty(), "what nothing mounts does no harm");
        spec["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": r"C:\v"}]);
        let inside = findings_in(spec.clone());
        for (key, value) in [("hostNetwork", json!(false)), ("securityContext", json!({}))] {
            spec[key] = value;
        }
        assert!(findings_in(spec).is_empty(), "pipes can be mounted into other pods");
        inside
    };
    for path in [r"\\.\pipe\containerd-containerd", "//./pipe/docker_engine", r"\\.\PIPE\x"] {
        assert_eq!(volume(json!({"path": path})), ["MUL408 spec.volumes[1].hostPath.path"], "{path}");
    }
    assert_eq!(volume(json!({"path": r"C:\run\csi.sock"})).len(), 1);
    assert_eq!(volume(json!({"path": r"C:\run\csi", "type": "Socket"})).len(), 1);
    for path in [r"C:\var\log", r"\\.\pip", r"\\server\pipe\x", ""] {
        assert!(volume(json!({"path": path, "type": "Directory"})).is_empty(), "{path}");
    }
}

/// The API server's errors for an ephemeral container that is added to `spec`.
fn adding(mut spec: Value, ephemeral: Value) -> Review {
    let old = pod(spec.clone());
    spec["ephemeralContainers"] = json!([{"name": "e", "image": WINDOWS, "securityContext": ephemeral}]);
    let new = pod(spec);
    let review = debug(&old, &new);
    let server = review.findings.iter().any(|finding| finding.rejected_by == RejectedBy::ApiServer);
    assert_eq!(respond(&review, &new, Endpoint::Mutate).denial.is_some(), server);
    review
}

#[test]
fn an_ephemeral_container_is_held_against_its_pod() {
    let on = || options(json!({"hostProcess": true, "runAsUserName": SYSTEM}));
    let host = || json!({"hostNetwork": true, "securityContext": on(), "containers": containers(&[json!({})])});
    let each = || json!({"hostNetwork": true, "containers": containers(&[on()])});
    let plain = || json!({"securityContext": {"runAsNonRoot": true}, "containers": containers(&[json!({})])});
    let of = |code: &str, below: &str| format!("{code} spec.ephemeralContainers[0].securityContext.{below}");
    let own = |code: &str, option: &str| of(code, &format!("windowsOptions.{option}"));
    let table = [
        (host(), json!({}), vec![]),
        (host(), on(), vec![]),
        (host(), options(json!({"hostProcess": false})), vec!["MUL403 spec".to_owned(), own("MUL403", "hostProcess")]),
        (each(), on(), vec![]),
        (each(), json!({}), vec!["MUL403 spec".to_owned()]),
        (each(), options(json!({"hostProcess": true})), vec![own("MUL405", "runAsUserName")]),
        (host(), json!({"runAsNonRoot": true}), vec![of("MUL406", "runAsNonRoot")]),
        (plain(), json!({}), vec![]),
        (plain(), options(json!({"runAsUserName": "a@b"})), vec![own("MUL401", "runAsUserName")]),
        (plain(), options(json!({"runAsUserName": "ContainerAdministrator"})), vec![own("MUL407", "runAsUserName")]),
        // The request cannot change the pod's own runAsNonRoot.
        (plain(), on(), vec!["MUL403 spec".to_owned(), "MUL404 spec.hostNetwork".to_owned()]),
    ];
    for (spec, ephemeral, expected) in table {
        assert_eq!(findings_of(&adding(spec.clone(), ephemeral.clone())), expected, "{spec} + {ephemeral}");
    }
}

#[test]
fn a_policy_without_denials_leaves_the_denial_to_the_server() {
    let warn = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: soft}\nspec:\n  priority: 1\n  \
        rules: {denials: Warn}\n";
    let policies = PolicySet::from_files(&[("soft.yaml", warn)]).unwrap();
    let on = options(json!({"hostProcess": true, "runAsUserName": r"NT AUTHORITY\SYSTEM\x"}));
    let object = pod(json!({"securityContext": on, "containers": containers(&[json!({})])}));
    let outcome = create_in(&object, &snapshot(), &policies);
    assert!(!outcome.denied());
    assert_eq!(
        outcome.mutate.warnings,
        [
            "MUL401: securityContext.windowsOptions.runAsUserName: a user name has one backslash at most, after the domain",
            "MUL404 host-process-network: hostNetwork: HostProcess containers have no network but the host's; write hostNetwork: true",
        ]
    );
}

#[test]
fn malformed_types_are_ignored() {
    for odd in [json!(1), json!("true"), json!([]), json!({}), json!(null)] {
        let context = json!({"runAsNonRoot": odd, "windowsOptions": {"hostProcess": odd, "runAsUserName":
            if odd.is_string() { json!(1) } else { odd.clone() }, "gmsaCredentialSpec": if odd.is_string() { json!(1) } else { odd.clone() }}});
        for context in [context, json!({"windowsOptions": odd}), odd.clone()] {
            let spec = json!({"securityContext": context, "containers": [{"name": "a", "securityContext": context}, odd],
                "volumes": [{"hostPath": odd}, odd]});
            assert!(findings_in(spec.clone()).is_empty(), "{spec}");
        }
    }
}
