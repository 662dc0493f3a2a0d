//! `policy diff`: two sets of policies against the same workloads.

use std::collections::BTreeMap;

use mullion::report::WorkloadResult;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const POLICIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/policies");

const WINDOWS: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";

fn policy(spec: &str) -> String {
    format!("apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: a}}\nspec: {{{spec}}}\n")
}

fn shipped(name: &str) -> String {
    format!("{POLICIES}/{name}.yaml")
}

/// The line of the first `text` in a shipped file, because lines move with comments.
fn line(name: &str, text: &str) -> usize {
    let file = fs::read_to_string(shipped(name)).unwrap();
    file.lines().position(|line| line.trim_start().starts_with(text)).expect(text) + 1
}

fn pod(image: &str, more: &Value) -> Value {
    let mut container = json!({"name": "c", "image": image});
    container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"containers": [container]})
}

fn deployment(name: &str, image: &str, more: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod(image, more)}}})
}

fn owned(kind: &str, owner: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop",
        "labels": {"a": "b", "pod-template-hash": "7d9f"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": owner, "controller": true}]},
        "spec": spec})
}

fn node(name: &str, os: &str, taints: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/os": os}},
        "spec": {"taints": taints}, "status": {"nodeInfo": {"kernelVersion": if os == "windows" { "10.0.20348.2655" } else { "6.1.0" }}}})
}

fn dump(items: &[Value]) -> String {
    serde_json::to_string_pretty(&json!({"apiVersion": "v1", "kind": "List", "items": items})).unwrap()
}

fn diff(old: &str, new: &str, more: &[&str], input: &str) -> Ran {
    mullion(&[&["policy", "diff", old, new], more].concat(), input)
}

/// The names of all workloads of `-o json`, with their category.
fn named(ran: &Ran) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let all = records(ran);
    let workloads = of_type(&all, "workload");
    workloads.iter().map(|workload| (text(&workload["object"]["name"]), text(&workload["category"]))).collect()
}

/// A text without its line breaks and indentation.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

// === text ===

#[test]
fn workloads_with_the_same_difference_share_a_group_with_its_cause() {
    let limits = json!({"limits": {"memory": "1Gi"}});
    let input = dump(&[
        deployment("a", WINDOWS, &json!({"securityContext": {"runAsGroup": 5}, "resources": limits})),
        deployment("b", WINDOWS, &json!({"securityContext": {"runAsGroup": 6}, "resources": limits})),
        deployment("c", "nginx:1-alpine", &json!({})),
    ]);
    let ran = diff("built-in", &shipped("strict"), &["-"], &input);
    let expected = "2 of 3 workloads would be decided differently: 2 denied that were not\n\n\
         Workloads: 2\n\n  Newly denied: 2 workloads\n\n    \
         Deployment shop/a (<stdin>:4)\n    \
         Deployment shop/b (<stdin>:42)\n      \
         MUL202 run-as-group spec.template.spec.containers[0].securityContext.runAsGroup: repaired →\n      \
         denied: Windows has no numeric group ids; write windowsOptions.runAsUserName: ContainerUser\n      \
         cause  ";
    assert!(ran.code == 1 && ran.out.starts_with(expected), "{}{}", ran.out, ran.err);
    let cause = format!(
        "cause rules.actions run-as-group: not set, default Repair → Deny ({POLICIES}/strict.yaml:{})",
        line("strict", "- {rule: run-as-group,")
    );
    assert!(flat(&ran.out).contains(&cause), "{cause}\n{}", ran.out);
    assert!(!ran.out.contains("--all"), "{}", ran.out);
    assert!(ran.err.contains("the input contains no list of nodes"), "{}", ran.err);
    let back = diff(&shipped("strict"), "built-in", &["-"], &input);
    assert!(
        back.out.starts_with("2 of 3 workloads would be decided differently: 2 no longer denied\n"),
        "{}",
        back.out
    );
}

#[test]
fn placement_is_shown_as_removed_and_added_lines() {
    let dir = dir();
    let exact = write(&dir, "exact.yaml", policy("place: {build: {mode: Exact}}"));
    let input = dump(&[
        deployment("a", WINDOWS, &json!({})),
        node("w19", "windows", &json!([])),
        node("l", "linux", &json!([])),
    ]);
    let ran = diff("built-in", &exact, &["-"], &input);
    assert_eq!(ran.code, 1, "{}", ran.err);
    for text in [
        "1 of 1 workload would be decided differently: 1 placed differently Workloads: 1",
        "- spec.affinity: node.kubernetes.io/windows-build NotIn 10.0.17763, 10.0.18362, 10.0.18363, 10.0.19041, 10.0.19042",
        "+ spec.nodeSelector[node.kubernetes.io/windows-build]: 10.0.20348",
        "nodes that could run it: 1 → 0",
        &format!(
            "cause place.build.mode: Compatible (built-in default.yaml:{}) → Exact ({exact}:4)",
            line("default", "build:")
        ),
    ] {
        assert!(flat(&ran.out).contains(text), "{text}\n{}", ran.out);
    }
}

/// Labels of a pool without nodes are part of the placement, and `expectedPools` is the cause.
#[test]
fn labels_of_expected_pools_change_the_placement() {
    let dir = dir();
    let pools = |name: &str, labels: &str| {
        let pools = format!("[{{build: 10.0.20348, labels: {{{labels}}}}}]");
        let text = format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {{name: nodes}}\nspec:\n  expectedPools: {pools}\n"
        );
        write(&dir, name, text)
    };
    let (old, new, none) = (pools("old.yaml", "pool: a"), pools("new.yaml", "pool: b"), pools("none.yaml", ""));
    let of_linux =
        json!({"nodeSelector": {"kubernetes.io/os": "linux"}, "containers": [{"name": "c", "image": "nginx:1"}]});
    let linux =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "l", "namespace": "shop"}, "spec": of_linux});
    let input = |nodes: &[Value]| {
        dump(&[&[deployment("a", WINDOWS, &json!({})), linux.clone(), node("l", "linux", &json!([]))], nodes].concat())
    };
    let empty = input(&[]);
    for (from, to, removed, added) in [
        (&old, &new, Some("pool In a"), Some("pool In b")),
        (&new, &old, Some("pool In b"), Some("pool In a")),
        (&none, &new, None, Some("pool In b")),
        (&old, &none, Some("pool In a"), None),
    ] {
        let ran = diff(from, to, &["-"], &empty);
        assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
        assert!(
            ran.out.starts_with("1 of 2 workloads would be decided differently: 1 placed differently\n"),
            "{}",
            ran.out
        );
        let markdown = diff(from, to, &["-o", "markdown", "-"], &empty);
        let names = |sign: &str, what: Option<&str>| {
            let mut lines = markdown.out.lines().filter(|line| line.starts_with(&format!("- `{sign} spec.affinity")));
            match what {
                Some(what) => lines.any(|line| line.contains(what)),
                None => !lines.any(|line| line.contains("pool In")),
            }
        };
        assert!(names("-", removed) && names("+", added), "{removed:?} {added:?}: {}", markdown.out);
        let text = flat(&ran.out);
        let cause = text.split("cause ").any(|cause| {
            cause.starts_with("NodePolicy expectedPools: ")
                && cause.contains(from.as_str())
                && cause.contains(to.as_str())
        });
        assert!(cause, "{}", ran.out);
    }
    // Once a node can run the pod, the labels decide nothing.
    let ran = diff(&old, &new, &["-"], &input(&[node("w", "windows", &json!([]))]));
    assert!(
        ran.code == 0 && ran.out.starts_with("0 of 2 workloads would be decided differently\n\nWritten"),
        "{}",
        ran.out
    );
    assert_eq!(diff(&old, &old, &["-"], &empty).code, 0);
}

#[test]
fn nodes_that_would_be_labelled_or_tainted_differently() {
    let dir = dir();
    let taint = "apiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: nodes}\nspec:\n  labels: [release]\n  taint: {key: team, value: win}\n";
    let taint = write(&dir, "taint.yaml", format!("{}---\n{taint}", policy("mode: Enforce")));
    let input = dump(&[node("w", "windows", &json!([])), node("l", "linux", &json!([]))]);
    let ran = diff("built-in", &taint, &["-"], &input);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        flat(&ran.out).starts_with(
            "0 of 0 workloads would be decided differently; 1 of 2 nodes would be labeled or tainted differently Nodes: 1"
        ),
        "{}",
        ran.out
    );
    let expected = "\nNodes: 1\n\n  w\n    - label mullion.dev/windows-revision=2655\n    \
        - taint os=windows:NoSchedule\n    + taint team=win:NoSchedule\n";
    assert!(ran.out.contains(expected), "{}", ran.out);
    let labels = line("default", "labels:");
    let cause = format!(
        "cause NodePolicy labels: [\"release\",\"revision\"] (built-in default.yaml:{labels}) → [\"release\"] ({taint}:10)"
    );
    assert!(flat(&ran.out).contains(&cause), "{}", ran.out);
    assert!(ran.err.contains("nothing to review"), "{}", ran.err);
    // The second policy removes what the first one has set.
    let owned = json!({"labels": {"mullion.dev/windows-release": "ltsc2022"}, "taint": {"key": "os", "value": "windows", "effect": "NoSchedule"}});
    let mut tainted = node("w", "windows", &json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]));
    tainted["metadata"]["annotations"] = json!({"mullion.dev/owned": owned.to_string()});
    tainted["metadata"]["labels"]["mullion.dev/windows-release"] = json!("ltsc2022");
    let ran = diff("built-in", &taint, &["-"], &dump(&[tainted]));
    assert!(ran.out.contains("    - taint os=windows:NoSchedule\n"), "{}", ran.out);
}

#[test]
fn without_input_the_keys_that_differ_are_shown() {
    let same = diff("built-in", &shipped("default"), &[], "");
    assert!(same.code == 0 && same.out.starts_with("No setting differs\n"), "{}{}", same.out, same.err);
    let dir = dir();
    let more = write(
        &dir,
        "more.yaml",
        format!(
            "{}---\n{}",
            policy("place: {build: {mode: Exact}}"),
            policy("priority: 7, mode: Audit").replace("name: a", "name: b")
        ),
    );
    let ran = diff("built-in", &more, &[], "");
    let expected = format!(
        "3 settings differ Settings PodPolicy b the policy itself old not there new {more}:6 \
         PodPolicy default → a mode old Enforce (built-in default.yaml:{}) new not set \
         place.build.mode old Compatible (built-in default.yaml:{}) new Exact ({more}:4) Written by",
        line("default", "mode:"),
        line("default", "build:"),
    );
    assert!(ran.code == 1 && flat(&ran.out).starts_with(&expected), "{expected}\n{}", ran.out);
    let csv = diff("built-in", &more, &["-o", "csv"], "");
    let end = format!("Compatible (built-in default.yaml:{}),Exact ({more}:4)\r\n", line("default", "build:"));
    assert!(csv.out.starts_with("policy,key,old,new\r\n") && csv.out.ends_with(&end), "{}", csv.out);
    let json = diff("built-in", &more, &["-o", "json"], "");
    let all = records(&json);
    assert_eq!((of_type(&all, "policy").len(), of_type(&all, "key").len()), (1, 2), "{}", json.out);
    assert_eq!(of_type(&all, "key")[1]["new"]["value"], "Exact");

    // A file that replaces a built-in policy is compared with it.
    let system = "priority: 1000, match: {namespaces: {include: [kube-system]}}, rules: {denials: Deny}";
    let replaced = write(&dir, "replaced.yaml", policy(system).replace("name: a", "name: kube-system"));
    let ran = diff(&more, &replaced, &[], "");
    let expected = format!(
        "PodPolicy kube-system rules.denials old Warn (built-in default.yaml:{}) new Deny",
        line("default", "denials: Warn")
    );
    assert!(ran.code == 1 && flat(&ran.out).contains(&expected), "{}", ran.out);
}

#[test]
fn many_differences_are_cut_short_without_all() {
    let of = |n: usize| deployment(&format!("d{n}"), WINDOWS, &json!({"securityContext": {"runAsGroup": 5}}));
    let input: Vec<Value> = (0..9).map(of).collect();
    let mut input = input;
    // Each of these has a difference of its own.
    for n in 0..60 {
        let mut object = deployment(&format!("e{n}"), WINDOWS, &json!({}));
        let containers: Vec<Value> = (0..=n)
            .map(|at| {
                let security = if at == n { json!({"runAsGroup": 1}) } else { json!({}) };
                json!({"name": format!("c{at}"), "image": WINDOWS, "securityContext": security})
            })
            .collect();
        object["spec"]["template"]["spec"]["containers"] = json!(containers);
        input.push(object);
    }
    let input = dump(&input);
    let ran = diff("built-in", &shipped("strict"), &["-"], &input);
    assert!(ran.out.starts_with("69 of 69 workloads"), "{}", ran.out);
    // Ten workloads share a group, and of the other groups the last ten are left out.
    let is_member = |line: &&str| line.starts_with("    Deployment ");
    assert!(ran.out.contains("\n    and 5 more\n"), "{}", ran.out);
    assert_eq!(ran.out.lines().filter(is_member).count(), 54);
    assert!(ran.out.contains("\n  and 10 more workloads\n"), "{}", ran.out);
    assert!(ran.out.ends_with("Print everything with --all.\n"), "{}", ran.out);
    let markdown = diff("built-in", &shipped("strict"), &["-o", "markdown", "-"], &input);
    assert!(markdown.out.len() < 65_536, "{}", markdown.out.len());
    assert!(
        markdown.out.contains("\nThis is the beginning of the report. `--all` writes all of it.\n"),
        "{}",
        markdown.out
    );
    let all = diff("built-in", &shipped("strict"), &["--all", "-"], &input);
    assert_eq!(all.out.lines().filter(is_member).count(), 69);
    assert!(!all.out.contains("more") && !all.out.contains("--all"), "{}", all.out);
}

#[test]
fn only_denials_can_cause_the_exit_code() {
    let dir = dir();
    let placed = write(&dir, "placed.yaml", policy("place: {nodeSelector: {mode: Never}}"));
    let input = dump(&[deployment("a", WINDOWS, &json!({"securityContext": {"runAsGroup": 5}}))]);
    let code = |new: &str, more: &[&str]| diff("built-in", new, &[more, &["-"]].concat(), &input).code;
    assert_eq!(code(&placed, &[]), 1);
    assert_eq!(code(&placed, &["--fail-on", "denied"]), 0);
    assert_eq!(code(&shipped("strict"), &["--fail-on", "denied"]), 1);
    assert_eq!(diff(&shipped("strict"), "built-in", &["--fail-on", "denied", "-"], &input).code, 0);
}

// === other formats ===

/// One workload of each category, and a node.
fn mixed() -> (TempDir, String, String, String) {
    let dir = dir();
    let rules = |group: &str, user: &str| {
        format!("rules: {{actions: [{{rule: run-as-group, action: {group}}}, {{rule: privileged, action: {user}}}]}}")
    };
    let nodes =
        "---\napiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: nodes}\nspec: {labels: [release]}\n";
    let old = write(&dir, "old.yaml", policy(&rules("Repair", "Deny")));
    let new = format!("{}{nodes}", policy(&format!("{}, place: {{build: {{mode: Exact}}}}", rules("Deny", "Warn"))));
    let new = write(&dir, "new.yaml", new);
    let limits = json!({"resources": {"limits": {"memory": "1Gi"}}});
    let input = dump(&[
        deployment("denied", WINDOWS, &json!({"securityContext": {"runAsGroup": 5}})),
        deployment("freed", WINDOWS, &json!({"securityContext": {"privileged": true}})),
        deployment("placed", WINDOWS, &limits),
        deployment("same", "nginx:1-alpine", &limits),
        node("w", "windows", &json!([])),
    ]);
    (dir, old, new, input)
}

#[test]
fn markdown_is_a_comment_for_a_pull_request() {
    let (_dir, old, new, input) = mixed();
    let ran = diff(&old, &new, &["-o", "markdown", "-"], &input);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    for text in [
        "# 3 of 4 workloads would be decided differently: 1 denied that was not, 1 no longer denied, 1 placed differently; 1 of 1 node would",
        "\n### Newly denied: 1 workload\n\n`Deployment shop/denied` (&lt;stdin&gt;:4)\n\n- MUL202",
    ] {
        assert!(ran.out.contains(text), "{text}\n{}", ran.out);
    }
}

#[test]
fn a_comment_fits_whatever_the_input_is() {
    let dir = dir();
    // Names of 5,000 characters, each in a group of its own; texts that Markdown escapes.
    let long = |n: usize| format!("{n}{}", "<*_".repeat(1_700));
    let many: Vec<Value> = (0..40)
        .map(|n| {
            let mut object = deployment(&long(n), WINDOWS, &json!({"securityContext": {"runAsGroup": 5}}));
            let mut containers = vec![json!({"name": "c", "image": WINDOWS}); n];
            containers.push(json!({"name": "d", "image": WINDOWS, "securityContext": {"runAsGroup": 5}}));
            object["spec"]["template"]["spec"]["containers"] = json!(containers);
            object
        })
        .collect();
    let input = write(&dir, "input.json", dump(&many));
    let run = |more: &[&str]| diff("built-in", &shipped("strict"), &[more, &["-o", "markdown", &input]].concat(), "");
    let short = run(&[]);
    assert!((10_000..65_000).contains(&short.out.len()), "{}", short.out.len());
    assert!(short.out.contains("\nThis is the beginning of the report. `--all` writes all of it.\n"), "{}", short.out);
    let all = run(&["--all"]);
    assert!(all.out.len() > 200_000 && !all.out.contains("--all"), "{}", all.out.len());
}

#[test]
fn csv_has_each_workload() {
    let (_dir, old, new, input) = mixed();
    let ran = diff(&old, &new, &["-o", "csv", "-"], &input);
    let lines: Vec<&str> = ran.out.split("\r\n").collect();
    assert_eq!(lines[0], "namespace,kind,name,file,line,category");
    let category = |name: &str| {
        let line = lines.iter().find(|line| line.starts_with(&format!("shop,Deployment,{name},<stdin>,"))).unwrap();
        line.rsplit(',').next().unwrap().to_owned()
    };
    let found: BTreeMap<String, String> =
        ["denied", "freed", "placed"].map(|name| (name.to_owned(), category(name))).into();
    assert_eq!(found, named(&diff(&old, &new, &["-o", "json", "-"], &input)));
    assert_eq!(lines.len(), 5, "{}", ran.out);
}

#[test]
fn html_is_one_page_in_a_file() {
    let (dir, old, new, input) = mixed();
    let file = dir.path().join("report.html").display().to_string();
    let ran = diff(&old, &new, &["-o", "html", "--output-file", &file, "-"], &input);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{}", ran.err);
    let html = fs::read_to_string(&file).unwrap();
    for text in ["<!DOCTYPE html>", "Newly denied", "shop/<wbr>placed", "id=\"nodes\"", "place.<wbr>build.<wbr>mode"] {
        assert!(html.contains(text), "{text}\n{html}");
    }
}

#[test]
fn names_are_no_markup() {
    let name = "=cmd|<b>@team</b> [a](http://b.example) `c`";
    let input = dump(&[deployment(name, WINDOWS, &json!({"securityContext": {"runAsGroup": 5}}))]);
    let out = |format: &str| diff("built-in", &shipped("strict"), &["-o", format, "-"], &input).out;
    assert!(out("markdown").contains("`` Deployment shop/=cmd\\|<b>@team</b> [a](http://b.example) `c` ``"));
    assert!(out("csv").contains("\r\nshop,Deployment,'=cmd|"));
    assert!(!out("html").contains("<b>@team") && out("html").contains("&lt;b&gt;@"));
}

// === live clusters ===

#[test]
fn pods_are_reviewed_with_the_template_of_the_input() {
    let group = json!({"securityContext": {"runAsGroup": 5}});
    let mut items = vec![deployment("web", WINDOWS, &group)];
    items.extend((0..3).map(|n| owned("ReplicaSet", "web-7d9f", &format!("web-7d9f-{n}"), &pod(WINDOWS, &group))));
    // Pods of an owner that was not dumped: each is reviewed, and they share a line.
    items.extend((0..3).map(|n| owned("ReplicaSet", "gone-7d9f", &format!("gone-7d9f-{n}"), &pod(WINDOWS, &group))));
    let dir = dir();
    let placed = write(&dir, "placed.yaml", policy("place: {nodeSelector: {mode: Never}}"));
    let ran = diff("built-in", &placed, &["-"], &dump(&items));
    assert!(ran.out.starts_with("4 of 4 workloads"), "{}", ran.out);
    assert!(ran.out.contains("\n    Pod shop/gone-7d9f-0 (<stdin>:"), "{}", ran.out);
    assert!(ran.out.contains(", and 2 more of ReplicaSet gone-7d9f)\n"), "{}", ran.out);
    assert!(ran.err.contains("3 more pods, ReplicaSets and Jobs are reviewed with the templates"), "{}", ran.err);
}

/// A live object, with all fields that Mullion and the API server set, is decided like the authored object.
#[test]
fn live_pods_are_reviewed_like_authored_ones() {
    let dir = dir();
    let linux = write(&dir, "linux.yaml", policy("detect: {images: [{pattern: mcr.microsoft.com/**, os: linux}]}"));
    let author = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"}, "spec": pod(WINDOWS, &json!({}))});
    let mutated = mullion(&["mutate", "-"], &author.to_string());
    let mut live: Value = serde_json::from_str(&mutated.out).unwrap();
    assert_eq!(live["spec"]["os"]["name"], "windows");
    live["spec"]["nodeName"] = json!("w1");
    live["status"] = json!({"phase": "Running"});
    let [from_author, from_live] = [&author, &live].map(|object| {
        let ran = diff("built-in", &linux, &["-o", "json", "-"], &dump(std::slice::from_ref(object)));
        let all = records(&ran);
        let workload = of_type(&all, "workload")[0].clone();
        (workload["old"].clone(), workload["new"].clone(), workload["category"].clone())
    });
    assert_eq!(from_live, from_author);
}

#[test]
fn the_dump_is_the_snapshot_unless_there_is_a_file() {
    let dir = dir();
    let placed = write(&dir, "placed.yaml", policy("place: {tolerations: {mode: Never}}"));
    let taint = json!([{"key": "os", "value": "win-dump", "effect": "NoSchedule"}]);
    let input = dump(&[deployment("a", WINDOWS, &json!({})), node("w", "windows", &taint)]);
    let ran = diff("built-in", &placed, &["-"], &input);
    assert!(ran.out.contains("- spec.tolerations: os=win-dump:NoSchedule"), "{}", ran.out);
    let snapshot = json!([{"key": "os", "value": "win-file", "effect": "NoSchedule"}]);
    let snapshot = write(&dir, "snapshot.json", dump(&[node("w", "windows", &snapshot)]));
    let ran = diff("built-in", &placed, &["--snapshot", &snapshot, "-"], &input);
    assert!(ran.out.contains("- spec.tolerations: os=win-file:NoSchedule"), "{}", ran.out);
    assert!(!ran.out.contains("win-dump"), "{}", ran.out);
}

// === bad input ===

#[test]
fn bad_policies_of_both_sides_are_all_shown() {
    let dir = dir();
    let old = write(&dir, "old.yaml", policy("mode: Enforced"));
    let new = write(&dir, "new.yaml", policy("plase: {}"));
    let ran = diff(&old, &new, &["-"], &dump(&[]));
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    for message in ["old.yaml:4:14", "OLD, ", "new.yaml:4:8", "NEW, ", "1 problem"] {
        assert!(ran.err.contains(message), "{message}: {}", ran.err);
    }
    let missing = diff("no-such-policies", "built-in", &[], "");
    assert_eq!(missing.code, 2);
    assert!(missing.err.contains("no-such-policies"), "{}", missing.err);
}

#[test]
fn unreadable_input_is_reported_and_the_rest_is_reviewed() {
    let whole = dump(&[deployment("a", WINDOWS, &json!({"securityContext": {"runAsGroup": 5}}))]);
    let strict = shipped("strict");
    let table: &[(&str, i32, &str, &str)] = &[
        ("", 0, "0 of 0 workloads", "nothing to review"),
        ("{}", 0, "0 of 0 workloads", "1 skipped document: no apiVersion or no kind"),
        (r#"{"kind": "List", "items": null}"#, 0, "0 of 0 workloads", "nothing to review"),
        (
            r#"{"kind": "PodList", "items": [null, 7, {}, []]}"#,
            0,
            "0 of 4 workloads",
            "the input contains no list of nodes",
        ),
        (r#"{"kind": "List", "items": [null, 7, {}, []]}"#, 0, "0 of 0 workloads", "4 skipped documents"),
        (
            r#"{"kind": "Node", "metadata": {}}"#,
            2,
            "0 of 0 workloads",
            "<stdin>:1:1: Node without a name cannot be read",
        ),
        (&whole[..whole.len() / 2], 2, "0 of 0 workloads", "it ends in the middle of the JSON"),
        ("a: [", 2, "0 of 0 workloads", "<stdin>:1:4: "),
        ("kind: ConfigMap\napiVersion: v1\n", 0, "0 of 0 workloads", "nothing to review"),
    ];
    for (input, code, out, err) in table {
        let ran = diff("built-in", &strict, &["-"], input);
        assert_eq!(ran.code, *code, "{input}: {}{}", ran.out, ran.err);
        assert_eq!(flat(&ran.out).contains("decided differently is not known."), *code == 2, "{input}: {}", ran.out);
        assert!(ran.out.starts_with(out) && ran.err.contains(err), "{input}: {}{}", ran.out, ran.err);
    }
    // A list of lists, two documents, and YAML of the same.
    let nested = format!(r#"{{"kind": "List", "items": [{whole}, {whole}]}}"#);
    let yaml = "kind: List\napiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: p}\n  spec:\n    os: {name: windows}\n    securityContext: {runAsGroup: 5}\n    containers: [{name: c, image: i}]\n";
    for (input, workloads) in [(nested, 2), (format!("{whole}\n{whole}"), 2), (yaml.to_owned(), 1)] {
        let ran = diff("built-in", &strict, &["-o", "json", "-"], &input);
        assert_eq!(of_type(&records(&ran), "workload").len(), workloads, "{}{}", ran.out, ran.err);
    }
}

// === properties ===

fn workloads() -> impl Strategy<Value = Vec<Value>> {
    let image = prop_oneof![Just(WINDOWS), Just("nginx:1-alpine"), Just("registry.example.com/app:1")];
    let security = prop_oneof![
        Just(json!({})),
        Just(json!({"runAsGroup": 5})),
        Just(json!({"runAsUser": 5})),
        Just(json!({"privileged": true})),
        Just(json!({"readOnlyRootFilesystem": true})),
    ];
    let kind = prop_oneof![Just("Pod"), Just("Deployment"), Just("DaemonSet"), Just("CronJob")];
    let namespace = prop_oneof![Just("shop"), Just("kube-system")];
    let workload = (image, security, kind, namespace).prop_map(|(image, security, kind, namespace)| {
        let spec = pod(image, &json!({"securityContext": security}));
        let metadata = json!({"namespace": namespace});
        match kind {
            "Pod" => json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}),
            "CronJob" => json!({"apiVersion": "batch/v1", "kind": kind, "metadata": metadata,
                "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": {"spec": spec}}}}}),
            _ => json!({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata,
                "spec": {"template": {"metadata": {}, "spec": spec}}}),
        }
    });
    proptest::collection::vec(workload, 1..12).prop_map(|mut all| {
        for (at, object) in all.iter_mut().enumerate() {
            object["metadata"]["name"] = json!(format!("s{at}"));
        }
        all
    })
}

fn specs() -> impl Strategy<Value = String> {
    let keys = proptest::sample::subsequence(
        vec![
            "mode: Audit",
            "detect: {images: [{pattern: registry.example.com/**, os: windows}]}",
            "place: {build: {mode: Exact}, specOS: {mode: Never}}",
            "rules: {denials: Warn, templates: Warn, actions: [{rule: run-as-group, action: Deny}]}",
            "match: {namespaces: {exclude: [kube-system]}}",
            "optOut: {ignore: Pods}",
        ],
        0..5,
    );
    keys.prop_map(|keys| policy(&keys.join(", ")))
}

fn result(object: &Value, policies: &str) -> WorkloadResult {
    let kind = WorkloadKind::from_name(object["kind"].as_str().unwrap()).unwrap();
    let namespace = object["metadata"]["namespace"].as_str().unwrap();
    let request = ReviewRequest::creation(WorkloadObject { kind, namespace, object });
    WorkloadResult::new(&request, &ClusterSnapshot::default(), &PolicySet::from_files(&[("a.yaml", policies)]).unwrap())
}

proptest! {
    // Each case runs the program three times.
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn exactly_the_workloads_with_other_results_are_named(workloads in workloads(), old in specs(), new in specs()) {
        let dir = dir();
        let (old_file, new_file) = (write(&dir, "old.yaml", &old), write(&dir, "new.yaml", &new));
        let input = dump(&workloads);
        let of = |old: &str, new: &str| diff(old, new, &["-o", "json", "-"], &input);
        // A set and itself.
        let same = of(&old_file, &old_file);
        prop_assert_eq!((same.code, named(&same).len()), (0, 0));
        // Two sets, in both directions.
        let (there, back) = (of(&old_file, &new_file), of(&new_file, &old_file));
        let expected: Vec<String> = workloads
            .iter()
            .filter(|object| !result(object, &old).agrees_with(&result(object, &new)))
            .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        let mut found: Vec<String> = named(&there).into_keys().collect();
        found.sort_by_key(|name| name[1..].parse::<usize>().unwrap());
        prop_assert_eq!(&found, &expected, "{} {}", old, new);
        prop_assert_eq!(there.code, i32::from(!expected.is_empty()));
        let swapped: BTreeMap<String, String> = named(&back)
            .into_iter()
            .map(|(name, category)| {
                let category = match category.as_str() {
                    "denied" => "noLongerDenied",
                    "noLongerDenied" => "denied",
                    other => other,
                };
                (name, category.to_owned())
            })
            .collect();
        prop_assert_eq!(swapped, named(&there));
        // Every difference has a cause.
        for workload in of_type(&records(&there), "workload") {
            prop_assert!(!workload["causes"].as_array().unwrap().is_empty(), "{}", workload);
        }
    }
}
