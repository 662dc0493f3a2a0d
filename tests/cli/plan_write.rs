//! `mullion plan --write DIR`: the manifests that are changed, byte for byte around the edits, and those that are not.

use super::*;

/// Two pools of Windows Server 2022, and workloads that pin them.
const CLUSTER: &str = r#"apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata:
    name: win22-1
    labels: {kubernetes.io/os: windows, agentpool: win22, kubernetes.azure.com/agentpool: win22, kubernetes.azure.com/os-sku: Windows2022, node.kubernetes.io/windows-build: 10.0.20348}
  spec: {taints: [{key: os, value: windows, effect: NoSchedule}]}
  status: {nodeInfo: {kernelVersion: 10.0.20348.4294, containerRuntimeVersion: "containerd://2.0.4", kubeletVersion: v1.33.5}}
"#;

const IMAGE: &str = "mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022";

fn deployment(namespace: &str, name: &str) -> String {
    format!(
        "- apiVersion: apps/v1
  kind: Deployment
  metadata: {{namespace: {namespace}, name: {name}}}
  spec:
    replicas: 2
    template:
      spec:
        nodeSelector: {{kubernetes.azure.com/os-sku: Windows2022}}
        tolerations: [{{key: os, operator: Equal, value: windows, effect: NoSchedule}}]
        containers: [{{name: web, image: \"{IMAGE}\"}}]
"
    )
}

/// Plans the move of these Deployments to 2025, and writes it below `dir`.
fn plan(dir: &TempDir, deployments: &[(&str, &str)]) -> Ran {
    let workloads: String = deployments.iter().map(|(namespace, name)| deployment(namespace, name)).collect();
    let below = dir.path().to_str().unwrap().to_owned();
    mullion(&["plan", "--to", "ltsc2025", "-o", "json", "--write", &below, "-"], &format!("{CLUSTER}{workloads}"))
}

/// The messages, without the path of the directory.
fn messages(ran: &Ran, dir: &TempDir) -> String {
    ran.err.replace(&format!("{}/", dir.path().display()), "").replace(dir.path().to_str().unwrap(), "DIR")
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap()
}

const PLAIN: &str = r"# The shop. Do not touch this comment.
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop   # production
spec:
  replicas: 2
  template:
    spec:
      nodeSelector:
        kubernetes.azure.com/os-sku: Windows2022   # the pool of 2022
      tolerations:
      - {key: os, operator: Equal, value: windows, effect: NoSchedule}
      containers:
      - name: web
        image: mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022
";

#[test]
fn plain_documents_are_edited_and_nothing_around_the_edits() {
    let dir = dir();
    let path = write(&dir, "shop/web.yaml", PLAIN);
    let ran = plan(&dir, &[("shop", "web")]);
    assert_eq!(
        (ran.code, messages(&ran, &dir).as_str()),
        (0, "mullion: shop/web.yaml:6: web (Deployment shop/web): 2 fields\n")
    );
    let expected = PLAIN.replace("os-sku: Windows2022 ", "os-sku: Windows2025 ").replace(
        "value: windows, effect: NoSchedule}\n",
        "value: windows, effect: NoSchedule}\n      - effect: NoSchedule\n        key: mullion.dev/move\n        operator: Equal\n        value: ltsc2025\n",
    );
    assert_eq!(read(&path), expected);
    let report: Value = serde_json::from_str(&ran.out).expect("the report alone is on stdout");
    assert_eq!(report["schema"], "mullion.dev/plan/v1");

    let ran = plan(&dir, &[("shop", "web")]);
    assert_eq!(messages(&ran, &dir), "mullion: shop/web.yaml:6: web (Deployment shop/web): nothing to change\n");
    assert_eq!(read(&path), expected, "a second time changes nothing");
}

#[test]
fn line_breaks_json_and_lists_stay_as_they_are() {
    let dir = dir();
    let crlf = write(&dir, "crlf.yml", PLAIN.replace('\n', "\r\n").replace("name: web", "name: crlf"));
    let object = |name: &str| {
        format!(
            r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"{name}","namespace":"shop"}},"spec":{{"template":{{"spec":{{"nodeSelector":{{"kubernetes.azure.com/os-sku":"Windows2022"}},"tolerations":[{{"key":"os","value":"windows","effect":"NoSchedule"}}],"containers":[{{"name":"web","image":"a"}}]}}}}}}}}"#
        )
    };
    let list = format!(r#"{{"apiVersion": "v1", "kind": "List", "items": [{}, {}]}}"#, object("a"), object("b"));
    let json = write(&dir, "list.json", &list);
    let ran = plan(&dir, &[("shop", "crlf"), ("shop", "a"), ("shop", "b")]);
    assert_eq!(ran.code, 0);
    let text = messages(&ran, &dir);
    assert_eq!(text.matches(": 2 fields\n").count(), 3, "{text}");
    let crlf = read(&crlf);
    assert!(crlf.contains("os-sku: Windows2025   # the pool of 2022\r\n"), "{crlf}");
    assert_eq!(crlf.matches('\n').count(), crlf.matches("\r\n").count());
    let written = read(&json);
    let value: Value = serde_json::from_str(&written).unwrap();
    for item in value["items"].as_array().unwrap() {
        assert_eq!(item["spec"]["template"]["spec"]["tolerations"].as_array().unwrap().len(), 2);
    }
    assert!(
        written.starts_with(
            r#"{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion":"apps/v1","kind":"Deployment","#
        )
    );
}

#[test]
fn what_does_not_match_is_listed_and_stays() {
    let dir = dir();
    let anchored = PLAIN
        .replace(
            "nodeSelector:\n        kubernetes.azure.com/os-sku: Windows2022   # the pool of 2022",
            "nodeSelector: &pin {kubernetes.azure.com/os-sku: Windows2022}",
        )
        .replace("metadata:\n  name: web", "metadata:\n  labels: *pin\n  name: anchored");
    // An alias before its anchor is an error; in the reverse order both would change together, which was not requested.
    let anchored = anchored.replace("  labels: *pin\n", "") + "  paused: *pin\n";
    let files = [
        ("anchored.yaml", anchored),
        ("helm/templates/web.yaml", PLAIN.replace("replicas: 2", "replicas: {{ .Values.replicas }}")),
        ("broken.yaml", format!("{PLAIN}---\na: [\n")),
        ("other-namespace.yaml", PLAIN.replace("namespace: shop", "namespace: test")),
        ("other-kind.yaml", PLAIN.replace("kind: Deployment", "kind: StatefulSet")),
        ("twice-a.yaml", PLAIN.replace("name: web", "name: twice")),
        ("twice-b.yaml", PLAIN.replace("name: web", "name: twice")),
        ("drift.yaml", PLAIN.replace("name: web", "name: drift").replace("Windows2022", "Windows2019")),
        (
            "part.yaml",
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: part}\nspec: {replicas: 3}\n".to_owned(),
        ),
        ("ambiguous.yaml", PLAIN.replace("name: web", "name: both").replace("  namespace: shop   # production\n", "")),
        ("notes.txt", PLAIN.to_owned()),
        (".hidden/web.yaml", PLAIN.to_owned()),
    ];
    let paths: Vec<(String, String)> =
        files.iter().map(|(name, text)| (write(&dir, name, text), text.clone())).collect();
    let ran = plan(
        &dir,
        &[
            ("shop", "web"),
            ("shop", "anchored"),
            ("shop", "twice"),
            ("shop", "drift"),
            ("shop", "part"),
            ("shop", "both"),
            ("prod", "both"),
        ],
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    let text = messages(&ran, &dir);
    for (path, before) in &paths {
        if !path.ends_with("drift.yaml") {
            assert_eq!(&read(path), before, "{path}\n{text}");
        }
    }
    for expected in [
        "anchored.yaml: not written: ",
        "helm/templates/web.yaml:",
        "broken.yaml:",
        "twice-a.yaml:6: twice (Deployment shop/twice): not written: several documents describe it: ",
        "drift.yaml:6: drift (Deployment shop/drift): 1 field\n",
        "drift.yaml:6: drift (Deployment shop/drift): not written: spec.template.spec.nodeSelector[kubernetes.azure.com/os-sku]: \
         the file has \"Windows2019\" and the cluster \"Windows2022\"\n",
        "part.yaml:1: part (Deployment): not written: it has no containers: it is a part of a manifest\n",
        "ambiguous.yaml:6: both (Deployment): not written: it has no namespace, and workloads of this name move in prod, shop\n",
        "DIR: no document describes Deployment prod/both, Deployment shop/both, Deployment shop/part, Deployment shop/web; change them in their source\n",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
}

#[test]
fn a_manifest_without_a_namespace_is_that_of_the_only_workload() {
    let dir = dir();
    let path = write(&dir, "web.yaml", PLAIN.replace("  namespace: shop   # production\n", ""));
    let ran = plan(&dir, &[("shop", "web")]);
    assert!(ran.err.contains(": web (Deployment shop/web): 2 fields\n"), "{}", ran.err);
    assert!(read(&path).contains("Windows2025"));
}

#[cfg(unix)]
#[test]
fn links_do_not_lead_out_and_permissions_stay() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let (outside, dir) = (dir(), dir());
    let target = write(&outside, "web.yaml", PLAIN.replace("name: web", "name: outside"));
    symlink(&target, dir.path().join("link.yaml")).unwrap();
    symlink(outside.path(), dir.path().join("below")).unwrap();
    symlink("/", dir.path().join("root")).unwrap();
    symlink(dir.path(), dir.path().join("loop")).unwrap();
    let path = write(&dir, "real/web.yaml", PLAIN);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&path, dir.path().join("inside.yaml")).unwrap();
    let ran = plan(&dir, &[("shop", "web"), ("shop", "outside")]);
    let text = messages(&ran, &dir);
    assert_eq!(ran.code, 0, "{text}");
    for name in ["link.yaml", "below", "root"] {
        assert!(
            text.contains(&format!("{name}: not written: it is a link that leaves the directory")),
            "{name}\n{text}"
        );
    }
    assert!(!read(&target).contains("Windows2025"));
    assert!(read(&path).contains("Windows2025"), "{text}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(fs::symlink_metadata(dir.path().join("inside.yaml")).unwrap().is_symlink());
    let left = fs::read_dir(dir.path().join("real")).unwrap().count();
    assert_eq!(left, 1, "no partial file is left");
}

#[test]
fn hostile_files_are_listed() {
    let dir = dir();
    write(&dir, "huge.yaml", vec![b'a'; (50 << 20) + 1]);
    write(&dir, "binary.yaml", [0xff, 0xfe, 0, 0xd8]);
    write(&dir, "deep.yaml", "[".repeat(100_000));
    write(
        &dir,
        "bomb.yaml",
        "a: &a [x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g]\n",
    );
    let path = write(&dir, "web.yaml", PLAIN);
    let ran = plan(&dir, &[("shop", "web")]);
    let text = messages(&ran, &dir);
    assert_eq!(ran.code, 0, "{text}");
    for name in ["huge.yaml", "binary.yaml", "deep.yaml", "bomb.yaml"] {
        assert!(text.lines().any(|line| line.contains(name) && line.contains("not written")), "{name}\n{text}");
    }
    assert!(read(&path).contains("Windows2025"));
}

#[test]
fn wrong_use_of_the_arguments() {
    let dir = dir();
    let file = write(&dir, "web.yaml", PLAIN);
    for args in [&["--write", &file][..], &["--write", "nosuch"], &["--include-guesses"]] {
        let ran = mullion(&[&["plan", "--to", "ltsc2025", "-o", "json", "-"], args].concat(), CLUSTER);
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.err);
    }
    assert_eq!(read(&file), PLAIN);
}
