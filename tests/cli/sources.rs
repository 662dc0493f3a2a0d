//! Input from pipes: a whole cluster from kubectl, charts from Helm, overlays from kustomize.

use super::*;

/// Output of `helm template`: a comment above each manifest, empty documents, white space of templates.
const HELM: &str = "\
---
# Source: shop/charts/cache/templates/secret.yaml
apiVersion: v1
kind: Secret
metadata:
  name: shop-cache
type: Opaque
data:
  password:   \"czNjcjN0\"
---
# Source: shop/templates/hpa.yaml
---
# Source: shop/templates/web.yaml
# The web tier.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: shop-web
  labels:
    app.kubernetes.io/managed-by: Helm


spec:
  replicas: 2   # the default of the chart
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
        - name: iis
          image: \"mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022\"
          args: [ \"a\" ,'b' ]

      terminationGracePeriodSeconds: 30
---
# Source: shop/templates/api.yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: shop-api
spec:
  selector: {matchLabels: {app: api}}
  template:
    spec:
      nodeSelector:
        kubernetes.io/os: linux
      containers:
      - {name: api, image: \"nginx:1.27\"}
---
# Source: shop/templates/tests/test.yaml
apiVersion: v1
kind: Pod
metadata:
  name: shop-test
  annotations:
    \"helm.sh/hook\": test
spec:
  restartPolicy: Never
  containers:
    - name: probe
      image: mcr.microsoft.com/windows/nanoserver:ltsc2022
      securityContext:
        fsGroup: 1
";

/// The documents of a stream as text.
fn stream_documents(text: &str) -> Vec<&str> {
    text.split_inclusive("---\n").collect()
}

#[test]
fn helm_output_is_checked() {
    let check = |input: &str| {
        let ran = mullion(&["check", "-o", "json", "-"], input);
        assert_ne!(ran.code, 2, "{}", ran.err);
        let records = records(&ran);
        let workloads: Vec<(String, String)> = of_type(&records, "workload")
            .iter()
            .map(|workload| (workload["object"]["name"].to_string(), workload["os"].to_string()))
            .collect();
        (
            workloads,
            records.last().unwrap()["otherObjects"].clone(),
            records.last().unwrap()["skippedDocuments"].clone(),
        )
    };
    let (workloads, others, skipped) = check(HELM);
    let expected = [("shop-web", "windows"), ("shop-api", "linux"), ("shop-test", "windows")];
    assert_eq!(workloads, expected.map(|(name, os)| (format!("\"{name}\""), format!("\"{os}\""))));
    assert_eq!((others, skipped), (1.into(), 0.into()));
    // `helm install --dry-run` prints a summary before the manifests and notes after them.
    let dry_run = format!(
        "NAME: shop\nLAST DEPLOYED: Thu Jan  1 00:00:00 2026\nSTATUS: pending-install\nHOOKS:\nMANIFEST:\n{HELM}\n\
         NOTES:\n1. Get the URL by running these commands:\n  export POD=$(kubectl get pods: [\n"
    );
    let (workloads, others, skipped) = check(&dry_run);
    assert_eq!(workloads.len(), 3);
    assert_eq!((others, skipped), (1.into(), 1.into()), "the summary is not an object");
}

#[test]
fn a_helm_post_renderer_changes_only_windows_workloads() {
    let ran = mullion(&["mutate", "-", "--templates"], HELM);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "Helm fails an install on any other exit code");
    let (before, after) = (stream_documents(HELM), stream_documents(&ran.out));
    assert_eq!(before.len(), after.len());
    for (before, after) in before.iter().zip(&after) {
        if before.contains("/windows/") {
            assert_ne!(before, after);
            assert_only_added_but(before, after, "fsGroup: 1");
            assert!(after.contains("kubernetes.io/os: windows"), "{after}");
        } else {
            assert_eq!(before, after);
        }
    }
    assert_eq!(mullion(&["mutate", "-", "--templates"], &ran.out).out, ran.out, "a second run changes nothing");
    assert_eq!(
        mullion(&["mutate", "-", "--templates"], &HELM.replace('\n', "\r\n")).out,
        ran.out.replace('\n', "\r\n")
    );
}

/// `after` is `before` with lines added, and without the lines of `gone` and its parent.
fn assert_only_added_but(before: &str, after: &str, gone: &str) {
    let kept: String = before.split_inclusive('\n').filter(|line| !line.contains(gone)).collect();
    let kept = if before.contains(gone) { kept.replace("      securityContext:\n", "") } else { kept };
    let after = if before.contains(gone) { after.replace("      securityContext: {}\n", "") } else { after.to_owned() };
    assert_only_added(&kept, &after);
}

#[test]
fn a_denied_template_fails_the_post_renderer() {
    let denied = HELM.replace("args: [ \"a\" ,'b' ]", "securityContext: {privileged: true}");
    assert_ne!(denied, HELM);
    let ran = mullion(&["mutate", "-", "--templates"], &denied);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("Deployment default/shop-web is denied and stays as it is:\n"), "{}", ran.err);
    assert_eq!(stream_documents(&ran.out)[3], stream_documents(&denied)[3]);
}

#[test]
fn a_diff_applied_is_the_output_of_mutate() {
    for flags in [&["-"][..], &["-", "--templates"]] {
        let diff = mullion(&[&["mutate", "--diff"], flags].concat(), HELM).out;
        assert!(diff.starts_with("--- <stdin>\n+++ <stdin>\n@@ "), "{diff}");
        assert_eq!(patched(HELM, &diff), mullion(&[&["mutate"], flags].concat(), HELM).out);
        assert!(!diff.contains("Opaque"), "the diff has no unchanged documents");
    }
}

/// `text` with a unified diff applied.
fn patched(text: &str, diff: &str) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (mut at, mut out) = (0, String::new());
    for line in diff.split_inclusive('\n').skip(2) {
        let (mark, rest) = line.split_at(1);
        match mark {
            "@" => {
                let start: usize = line.split(['-', ',', ' ']).nth(2).unwrap().parse().unwrap();
                lines[at..start - 1].iter().for_each(|line| out.push_str(line));
                at = start - 1;
            }
            "+" => out.push_str(rest),
            "-" | " " => {
                assert_eq!(lines[at], rest);
                if mark == " " {
                    out.push_str(rest);
                }
                at += 1;
            }
            _ => panic!("{line:?}"),
        }
    }
    lines[at..].iter().for_each(|line| out.push_str(line));
    out
}

#[test]
fn kustomize_output_is_checked_and_changed() {
    // Keys in alphabetical order, lists at the column of their key, one `---` between documents.
    let input = "\
apiVersion: v1
data:
  run.sh: |
    #!/bin/sh
    ---
    echo
kind: ConfigMap
metadata:
  name: scripts-7b9c4kdf2m
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: prod-iis
  namespace: prod
spec:
  selector: {matchLabels: {app: iis}}
  serviceName: iis
  template:
    spec:
      containers:
      - image: mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022
        name: iis
        securityContext:
          runAsUser: 1000
      volumes:
      - configMap:
          name: scripts-7b9c4kdf2m
        name: scripts
";
    let ran = mullion(&["check", "-o", "github", "-"], input);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.out.contains("::error title=MUL201 run-as-user::<stdin>:25:11: StatefulSet prod/prod-iis: "),
        "{}",
        ran.out
    );
    let fine = input.replace("        securityContext:\n          runAsUser: 1000\n", "");
    let ran = mullion(&["mutate", "--templates", "-"], &fine);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_only_added(&fine, &ran.out);
    assert!(ran.out.contains("      nodeSelector:\n        kubernetes.io/os: windows\n"), "{}", ran.out);
}

/// A `List` in the form that `kubectl get -o json` prints: pods with everything that the cluster added, with other
/// kinds between them.
fn cluster(pods: usize) -> String {
    let managed = serde_json::json!([{
        "manager": "kubelet", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "subresource": "status",
        "fieldsV1": {"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}, "f:status": {}}}}},
    }]);
    let mut items = Vec::new();
    for n in 0..pods {
        let (os, image) = if n % 2 == 0 {
            ("windows", "mcr.microsoft.com/windows/nanoserver:ltsc2022")
        } else {
            ("linux", "nginx:1.27")
        };
        items.push(serde_json::json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("{os}-{n}"), "namespace": "shop", "uid": format!("{n}"), "resourceVersion": "1",
                "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": managed,
            },
            "spec": {
                "nodeName": format!("{os}-node"), "nodeSelector": {"kubernetes.io/os": os}, "securityContext": {},
                "containers": [{"name": "a", "image": image, "resources": {"limits": {"memory": "1Gi", "cpu": "1"}}}],
                "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
            },
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": null}]},
        }));
        items.push(serde_json::json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("e{n}"), "namespace": "shop"}, "count": n,
        }));
    }
    let list =
        serde_json::json!({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}});
    serde_json::to_string_pretty(&list).unwrap()
}

#[test]
fn a_whole_cluster_from_kubectl_is_checked() {
    let ran = mullion(&["check", "-o", "json", "-"], &cluster(1500));
    assert_ne!(ran.code, 2, "{}", ran.err);
    let records = records(&ran);
    let workloads = of_type(&records, "workload");
    assert_eq!(workloads.len(), 1500);
    let wrong = workloads.iter().find(|workload| {
        let os = workload["os"].as_str().unwrap();
        !workload["object"]["name"].as_str().unwrap().starts_with(&format!("{os}-"))
    });
    assert_eq!(wrong, None);
    assert_eq!(records.last().unwrap()["otherObjects"], 1500);
    let lines = cluster(1500).lines().count();
    let beyond = of_type(&records, "finding").iter().any(|finding| finding["endLine"].as_u64().unwrap() > lines as u64);
    assert!(!beyond);
}

#[test]
fn a_list_from_kubectl_stays_json_with_its_other_items_as_they_were() {
    let input = cluster(20).replace("\"nodeSelector\": {\n          \"kubernetes.io/os\": \"windows\"\n        },", "");
    let ran = mullion(&["mutate", "-"], &input);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let [before, after]: [Value; 2] = [&input, &ran.out].map(|text| serde_json::from_str(text).unwrap());
    let items = |list: &Value| list["items"].as_array().unwrap().clone();
    let mut changed = 0;
    for (before, after) in items(&before).iter().zip(&items(&after)) {
        let windows = before["metadata"]["name"].as_str().unwrap().starts_with("windows-");
        assert_eq!(before != after, windows, "{before}");
        if windows {
            changed += 1;
            assert_eq!(after["spec"]["nodeSelector"]["kubernetes.io/os"], "windows");
            assert_eq!(
                (&before["status"], &before["metadata"]["managedFields"]),
                (&after["status"], &after["metadata"]["managedFields"])
            );
        }
    }
    assert_eq!(changed, 10);
}
