//! The policies in force in a cluster, and the objects that its API server sends to Mullion. The cluster is a server in
//! this process, which may be hostile.

use serde_json::{Value, json};

use super::cluster::{cluster, list, status};
use super::*;

const SINCE: &str = "2026-01-02T03:04:05Z";
/// Denies nothing, which the built-in policies do.
const WARNS: &str =
    "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: default}\nspec: {rules: {denials: Warn}}\n";

fn denied() -> Value {
    json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {"os": {"name": "windows"},
        "securityContext": {"runAsUser": 1000}, "containers": [{"name": "a", "image": "a", "resources": {"limits": {"memory": "1Gi"}}}]}})
}

/// A webhook configuration with these webhooks in namespace `mullion-system`.
fn configuration(webhooks: &[Value]) -> (u16, Value) {
    let with_client = |webhook: &Value| {
        let mut webhook = webhook.clone();
        webhook["clientConfig"] = json!({"service": {"name": "mullion-webhook", "namespace": "mullion-system"}});
        webhook
    };
    (200, json!({"metadata": {"name": "mullion"}, "webhooks": webhooks.iter().map(with_client).collect::<Vec<_>>()}))
}

/// The webhooks that the chart registers.
fn registered() -> (u16, Value) {
    let selector = json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn",
        "values": ["mullion-system", "secret"]}]});
    let webhook = |name: &str, conditions: &[&str]| {
        let conditions: Vec<Value> =
            conditions.iter().map(|name| json!({"name": name, "expression": "true"})).collect();
        json!({"name": name, "namespaceSelector": selector, "matchConditions": conditions})
    };
    configuration(&[
        webhook("pods.mullion.dev", &["not-a-mirror-pod", "not-explicitly-linux"]),
        webhook("templates.mullion.dev", &["template-is-new", "not-of-another-workload", "not-explicitly-linux"]),
    ])
}

/// `mullion-state` with these policy files.
fn state(files: &[(&str, &str)], more: &Value) -> (u16, Value) {
    let files: Vec<Value> = files.iter().map(|(name, text)| json!({"name": name, "text": text})).collect();
    let mut data = json!({"policies": json!(files).to_string(), "policies-release": "0.1", "policies-since": SINCE});
    for (key, value) in more.as_object().into_iter().flatten() {
        data[key] = value.clone();
    }
    (200, json!({"metadata": {"name": "mullion-state", "namespace": "mullion-system"}, "data": data}))
}

/// A cluster with these webhooks and this state, and the pod [`denied`].
fn serving(
    dir: &TempDir,
    configurations: (u16, Value),
    state: (u16, Value),
) -> (String, std::sync::Arc<std::sync::Mutex<Vec<String>>>) {
    cluster(dir, move |url| match url.split('?').next().unwrap().rsplit('/').next().unwrap() {
        "mullion" => configurations.clone(),
        "mullion-state" => state.clone(),
        "web" => (200, denied()),
        "pods" => list(&[denied()]),
        "shop" => (200, json!({"metadata": {"name": "shop"}})),
        "namespaces" => list(&[json!({"metadata": {"name": "shop"}})]),
        _ => list(&[]),
    })
}

const POD: [&str; 4] = ["check", "pod/web", "-n", "shop"];

#[test]
fn the_policies_in_force_decide() {
    let dir = dir();
    let (kubeconfig, requests) = serving(&dir, registered(), state(&[("/p/a.yaml", WARNS)], &json!({})));
    let with = |words: &[&str]| mullion(&[words, &["--kubeconfig", &kubeconfig]].concat(), "");
    let line =
        format!("mullion: context prod, namespace shop; policies of the cluster: 1 file, in force since {SINCE}\n");
    for more in [&[][..], &["--policies", "cluster"]] {
        let ran = with(&[&POD, more].concat());
        assert!(ran.err.starts_with(&line), "{}", ran.err);
        assert!(ran.err.contains("1 finding (1 repaired)") && ran.code == 0, "{}", ran.err);
    }
    assert!(
        requests.lock().unwrap().iter().any(|url| url == "/api/v1/namespaces/mullion-system/configmaps/mullion-state")
    );
    // The place of a setting is that in the cluster.
    let ran = with(&["explain", "pod/web", "-n", "shop", "--settings"]);
    assert!(ran.out.contains("rules.denials: Warn (/p/a.yaml:4)"), "{}", ran.out);
    let ran = with(&["mutate", "pod/web", "-n", "shop"]);
    assert!(ran.code == 0 && ran.err.starts_with(&line), "{}", ran.err);
    let everywhere = with(&["check", "-A"]);
    let line =
        format!("mullion: context prod, all namespaces; policies of the cluster: 1 file, in force since {SINCE}\n");
    assert!(everywhere.err.starts_with(&line) && everywhere.code == 0, "{}", everywhere.err);

    // Others on request: the directory, and the built-in ones.
    requests.lock().unwrap().clear();
    let ran = with(&[&POD[..], &["--policies", "built-in"]].concat());
    assert!(
        ran.err.starts_with("mullion: context prod, namespace shop; the built-in policies, not those of the cluster\n")
    );
    assert!(ran.err.contains("1 finding (1 denied)") && ran.code == 1, "{}", ran.err);
    let own = write(&dir, "own.yaml", WARNS);
    let ran = with(&[&POD[..], &["--policies", &own]].concat());
    assert!(ran.err.starts_with("mullion: context prod, namespace shop\n") && ran.code == 0, "{}", ran.err);
    assert!(!requests.lock().unwrap().iter().any(|url| url.contains("configmaps")), "they were not requested");

    // A file that the cluster would review.
    let file = write(&dir, "pod.yaml", denied_text());
    let ran = with(&["check", &file, "--context", "prod"]);
    assert!(ran.err.contains("policies of the cluster: 1 file") && ran.code == 0, "{}", ran.err);
    let ran = with(&["check", &file, "--policies", "cluster"]);
    assert!(ran.err.contains("policies of the cluster: 1 file") && ran.code == 0, "{}", ran.err);
    // With a snapshot, no cluster is read for a file, unless its policies are requested.
    requests.lock().unwrap().clear();
    let ran = with(&["check", &file, "--context", "prod", "--snapshot", "snapshot.yaml"]);
    assert!(ran.err.contains("; the built-in policies, because of --snapshot\n") && ran.code == 1, "{}", ran.err);
    assert!(requests.lock().unwrap().is_empty());
    let ran = with(&["check", &file, "--context", "prod", "--snapshot", "snapshot.yaml", "--policies", "cluster"]);
    assert!(ran.err.contains("policies of the cluster: 1 file") && ran.code == 0, "{}", ran.err);
}

fn denied_text() -> String {
    let mut pod = denied();
    (pod["apiVersion"], pod["kind"]) = ("v1".into(), "Pod".into());
    pod.to_string()
}

#[test]
fn policies_are_shown_and_compared() {
    let dir = dir();
    let (kubeconfig, _) = serving(&dir, registered(), state(&[("/p/a.yaml", WARNS)], &json!({})));
    let with = |words: &[&str]| mullion(&[words, &["--kubeconfig", &kubeconfig]].concat(), "");
    for words in [
        &["policy", "show", "--context", "prod"][..],
        &["policy", "show"],
        &["policy", "show", "--policies", "cluster"],
        &["policy", "show", "--pod", "pod/web", "-n", "shop"],
    ] {
        let ran = with(words);
        assert!(ran.err.contains("; policies of the cluster: 1 file, in force since "), "{words:?}: {}", ran.err);
        assert!(ran.out.contains("/p/a.yaml:4") && ran.out.contains("shop") && ran.code == 0, "{words:?}: {}", ran.out);
    }
    let alone = mullion(&["policy", "show", "--policies", "cluster"], "");
    assert!(
        alone
            .err
            .starts_with("mullion: policy show: the policies cluster are those in force in a cluster; name it with")
    );
    assert_eq!(alone.code, 2);

    let ran = with(&["policy", "diff", "cluster", "built-in", "-A"]);
    assert!(
        ran.err.starts_with("mullion: context prod, all namespaces; policies of the cluster: 1 file"),
        "{}",
        ran.err
    );
    assert!(ran.out.starts_with("1 of 1 workload would be decided differently: 1 denied"), "{}", ran.out);
    let same = with(&["policy", "diff", "cluster", "cluster", "-A"]);
    assert!(same.out.starts_with("0 of 1 workload") && same.code == 0, "{}{}", same.out, same.err);
    let alone = mullion(&["policy", "diff", "cluster", "built-in"], "");
    assert!(
        alone.err.starts_with("mullion: policy diff: the policies cluster are") && alone.code == 2,
        "{}",
        alone.err
    );
}

#[test]
fn a_survey_and_a_plan_use_the_policies_in_force() {
    let dir = dir();
    let policy = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: default}\n\
                  spec: {detect: {images: [{pattern: a, os: windows, builds: [10.0.20348]}]}}\n";
    let (kubeconfig, _) = serving(&dir, registered(), state(&[("/p/a.yaml", policy)], &json!({})));
    let os_and_coverage = |words: &[&str]| {
        let ran = mullion(&[words, &["--kubeconfig", &kubeconfig]].concat(), "");
        let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{words:?}: {}", ran.err));
        (ran.out.contains("20348"), report["coverage"]["unread"].to_string(), ran)
    };
    for command in [&["survey", "-o", "json"][..], &["plan", "--to", "ltsc2025", "-o", "json"]] {
        for more in [&[][..], &["--policies", "cluster"]] {
            let (has_builds, unread, ran) = os_and_coverage(&[command, more].concat());
            let line = format!("mullion: context prod; policies of the cluster: 1 file, in force since {SINCE}\n");
            assert!(ran.err.starts_with(&line), "{}", ran.err);
            assert!(has_builds && !unread.contains("policies in force"), "{}", ran.out);
        }
        let (has_builds, unread, ran) = os_and_coverage(&[command, &["--policies", "built-in"]].concat());
        assert!(ran.err.starts_with("mullion: context prod; the built-in policies, not those of the cluster\n"));
        assert!(!has_builds && !unread.contains("policies in force"), "{}", ran.out);
    }

    // What cannot be read is not known, and counts; without Mullion there is nothing to read.
    for (configurations, code) in [(status(404, "no"), 0), (status(403, "forbidden"), 1)] {
        let (kubeconfig, _) = serving(&dir, configurations, status(404, "no"));
        let words = |more: &[&str]| {
            let words = ["survey", "--fail-on", "unread", "-o", "json", "--kubeconfig", &kubeconfig];
            mullion(&[&words[..], more].concat(), "")
        };
        let ran = words(&[]);
        assert_eq!((ran.code, ran.out.contains("policies in force")), (code, code == 1), "{}", ran.err);
        let ran = words(&["--policies", "cluster"]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
    }
}

/// Commands that read no cluster know the words too.
#[test]
fn commands_without_a_cluster_refuse_its_policies() {
    for words in [&["compat"][..], &["image", "nginx"]] {
        assert_eq!(mullion(&[words, &["--policies", "built-in"]].concat(), "").code, 0);
        let ran = mullion(&[words, &["--policies", "cluster"]].concat(), "");
        assert!(ran.code == 2 && ran.out.is_empty(), "{}", ran.out);
        assert!(ran.err.contains("--policies cluster needs a cluster; this command reads none"), "{}", ran.err);
    }
}

/// Each reason why the policies are not read: it is named with what is used instead, and fails `--policies cluster`.
#[test]
fn what_is_not_read_is_named() {
    let by_url = || {
        (200, json!({"metadata": {}, "webhooks": [{"name": "pods.mullion.dev", "clientConfig": {"url": "https://a"}}]}))
    };
    let denied = |what: &str| status(403, &format!("{what} is forbidden: User \"ann\" cannot get resource"));
    let report =
        |files: usize| json!({"controller-report": json!({"policies": {"files": files}}).to_string(), "policies": ""});
    let newer = WARNS.replace("rules:", "future: 1, rules:");
    let none = || status(404, "not found");
    let cases = [
        (none(), none(), "Mullion is not installed", true),
        (denied("configurations"), none(), "forbidden: configurations is forbidden: User \"ann\" cannot get", true),
        (
            by_url(),
            none(),
            "the namespace of Mullion is not known, because the webhook configurations mullion call no Service",
            true,
        ),
        (
            registered(),
            denied("configmaps \"mullion-state\""),
            "forbidden: configmaps \"mullion-state\" is forbidden",
            true,
        ),
        (registered(), none(), "there is no ConfigMap mullion-state in namespace mullion-system", true),
        (
            registered(),
            state(&[], &json!({"policies": ""})),
            "ConfigMap mullion-state in namespace mullion-system keeps none: no controller has",
            true,
        ),
        (
            registered(),
            state(&[], &report(3)),
            "keeps none: 3 files in force, which the controller has not stored",
            true,
        ),
        (registered(), state(&[], &json!({"policies": "[{"})), "cannot be parsed: policies: EOF", true),
        (
            registered(),
            state(&[("a.yaml", &newer)], &json!({"policies-release": "99.1"})),
            "they are of Mullion 99.1, which is newer than this one, 0.1: a.yaml:4:",
            true,
        ),
        (registered(), state(&[("a.yaml", &newer)], &json!({})), "they do not load in Mullion 0.1: a.yaml:4:", true),
        (registered(), state(&[], &report(0)), "", false),
    ];
    for (configurations, state, why, is_unread) in cases {
        let dir = dir();
        let (kubeconfig, _) = serving(&dir, configurations, state);
        let with = |words: &[&str]| mullion(&[&POD, words, &["--kubeconfig", &kubeconfig]].concat(), "");
        let ran = with(&[]);
        let first = ran.err.lines().next().unwrap();
        let expected = if is_unread {
            format!("mullion: context prod, namespace shop; policies of the cluster not known: {why}")
        } else {
            "mullion: context prod, namespace shop; policies of the cluster: the built-in ones".to_owned()
        };
        let has = first.starts_with(&expected)
            || first.contains("policies of the cluster not known: ") && first.contains(why);
        assert!(has, "{expected}: {first}");
        assert_eq!(first.ends_with("; the built-in ones are used"), is_unread, "{first}");
        assert_eq!(ran.code, 1, "{}", ran.err);
        let required = with(&["--policies", "cluster"]);
        assert_eq!(required.code, if is_unread { 2 } else { 1 }, "{}", required.err);
        if is_unread {
            assert!(required.out.is_empty() && required.err.lines().count() == 1, "{}", required.err);
            assert!(required.err.contains(why) && required.err.contains("not known"), "{}", required.err);
        }
    }
}

#[test]
fn unread_policies_can_fail_a_check() {
    let dir = dir();
    let pod =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: shop}\nspec: {containers: [{name: a, image: a}]}\n";
    let file = write(&dir, "pod.yaml", pod);
    for (configurations, code) in [(status(404, "no"), 0), (status(403, "forbidden"), 1)] {
        let (kubeconfig, _) = serving(&dir, configurations, status(404, "no"));
        let words = ["check", &file, "--context", "prod", "--fail-on", "unread", "--kubeconfig", &kubeconfig];
        let ran = mullion(&words, "");
        assert_eq!(ran.code, code, "{}", ran.err);
        let words: Vec<&str> = words.iter().map(|word| if *word == "check" { "explain" } else { word }).collect();
        assert_eq!(mullion(&words, "").code, code);
    }
}

/// Names and texts that others wrote are shown as text, and shortened.
#[test]
fn hostile_policies_are_text() {
    let long = format!("apiVersion: mullion.dev/v1alpha1\nkind: \"{}\u{1b}[31m\u{202e}\"\n", "x".repeat(100_000));
    let dir = dir();
    let (kubeconfig, _) = serving(&dir, registered(), state(&[("a\n\u{1b}[2J\u{202e}.yaml", &long)], &json!({})));
    let ran = mullion(&[&POD[..], &["--kubeconfig", &kubeconfig]].concat(), "");
    let first = ran.err.lines().next().unwrap();
    assert!(first.contains("they do not load") && first.ends_with("; the built-in ones are used"), "{first}");
    assert!(first.len() < 1_000 && !ran.err.contains(['\u{1b}', '\u{202e}']), "{first:?}");
    // As many files as fit, and one that is too large.
    let names: Vec<String> = (0..20_000).map(|n| format!("{n}.yaml")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let (kubeconfig, _) = serving(&dir, registered(), state(&files, &json!({})));
    let ran = mullion(&[&POD[..], &["--kubeconfig", &kubeconfig]].concat(), "");
    assert!(ran.err.lines().next().unwrap().len() < 1_000 && ran.code == 1, "{}", ran.code);
    let huge = json!({"policies": "x".repeat(5 << 20)});
    let (kubeconfig, _) = serving(&dir, registered(), state(&[], &huge));
    let ran = mullion(&[&POD[..], &["--kubeconfig", &kubeconfig]].concat(), "");
    assert!(ran.err.contains("policies of the cluster not known: unreadable: ") && ran.code == 1, "{}", ran.err);
}

#[test]
fn words_for_policies_stand_alone() {
    let both = mullion(&["check", "--policies", "cluster", "--policies", "a.yaml", "denied.yaml"], "");
    assert_eq!(
        (both.code, both.err.as_str()),
        (
            2,
            "mullion: check: --policies cluster is for these policies alone; remove the other --policies, or name a directory ./cluster\n"
        )
    );
    let alone = mullion(&["check", "--policies", "cluster", "denied.yaml"], "");
    assert!(alone.err.starts_with(
        "mullion: check: the policies cluster are those in force in a cluster; name it with -A, --context NAME; a directory"
    ));
    assert_eq!(alone.code, 2);
    let built_in = mullion(&["check", "--policies", "built-in", "denied.yaml"], "");
    assert_eq!((built_in.code, built_in.err.as_str()), (1, "mullion: 1 workload, 1 finding (1 denied)\n"));
    // A directory of that name has a path.
    let dir = dir();
    write(&dir, "cluster/a.yaml", WARNS);
    let ran = bare_program().args(["check", "--policies", "./cluster", "-"]).current_dir(dir.path()).spawn().unwrap();
    let ran = finish(ran, denied_text().as_bytes());
    assert!(ran.code == 0 && ran.err.contains("1 repaired"), "{}", ran.err);
}

/// The objects for which the API server does not call Mullion.
#[test]
fn what_the_api_server_skips_is_not_reviewed() {
    let dir = dir();
    let selector = |labels: Value| json!({"matchLabels": labels});
    let webhook = |more: Value| {
        let mut webhook = json!({"name": "pods.mullion.dev", "namespaceSelector": {}});
        more.as_object().unwrap().iter().for_each(|(key, value)| webhook[key] = value.clone());
        configuration(&[webhook])
    };
    let explicit =
        denied_text().replace("\"os\":{\"name\":\"windows\"}", "\"nodeSelector\":{\"kubernetes.io/os\":\"linux\"}");
    let windows = denied_text();
    let not_linux = json!([{"name": "not-explicitly-linux", "expression": "x"}]);
    for (configurations, text, not_reviewed) in [
        (registered(), &windows, None),
        (
            registered(),
            &explicit,
            Some(
                "it explicitly selects Linux, and match condition not-explicitly-linux of webhook pods.mullion.dev skips that",
            ),
        ),
        (webhook(json!({"matchConditions": not_linux})), &windows, None),
        (webhook(json!({})), &explicit, None),
        (
            webhook(json!({"namespaceSelector": selector(json!({"team": "a"}))})),
            &windows,
            Some("the namespaceSelector of webhook pods.mullion.dev excludes namespace shop"),
        ),
        (
            webhook(json!({"objectSelector": selector(json!({"a": "b"}))})),
            &windows,
            Some("the objectSelector of webhook pods.mullion.dev excludes its labels"),
        ),
        (
            configuration(&[json!({"name": "templates.mullion.dev"})]),
            &windows,
            Some("no webhook pods.mullion.dev is registered"),
        ),
    ] {
        let file = write(&dir, "pod.json", text);
        let (kubeconfig, _) = serving(&dir, configurations, status(404, "no"));
        let with = |command: &str, more: &[&str]| {
            mullion(&[&[command, file.as_str(), "--context", "prod", "--kubeconfig", &kubeconfig], more].concat(), "")
        };
        let check = with("check", &[]);
        let explain = with("explain", &[]);
        match not_reviewed {
            None => {
                assert!(!check.out.contains("not reviewed") && !explain.out.contains("not reviewed"), "{}", check.out);
            }
            Some(why) => {
                assert!(check.out.starts_with(&format!("not reviewed: {why}: Pod shop/web (")), "{}", check.out);
                assert!(
                    check.err.contains("1 workload, 0 findings, 1 not reviewed") && check.code == 0,
                    "{}",
                    check.err
                );
                assert!(explain.out.contains(&format!("\n  not reviewed: {why}\n")), "{}", explain.out);
                assert!(explain.out.contains("\n  changes: none\n"), "{}", explain.out);
                assert_eq!(with("mutate", &[]).out, *text);
            }
        }
    }
    // A condition that is not Mullion's own, and labels that were not read.
    let other = webhook(json!({"matchConditions": [{"name": "not-on-sundays", "expression": "x"}]}));
    let unread = webhook(json!({"namespaceSelector": selector(json!({"team": "a"}))}));
    for (configurations, namespace, why) in [
        (other, "shop", "match condition not-on-sundays of webhook pods.mullion.dev is not one of Mullion's"),
        (unread, "elsewhere", "the labels of namespace elsewhere are not known"),
    ] {
        let file = write(&dir, "pod.json", windows.replace("\"shop\"", &format!("\"{namespace}\"")));
        let (kubeconfig, _) = serving(&dir, configurations, status(404, "no"));
        let explain = |more: &[&str]| {
            mullion(&[&["explain", file.as_str(), "--context", "prod", "--kubeconfig", &kubeconfig], more].concat(), "")
        };
        let text = explain(&[]).out;
        assert!(
            text.contains(&format!("\n  not known whether it is reviewed: {why}\n")) && text.contains("\n  denied: "),
            "{text}"
        );
        assert_eq!(records(&explain(&["-o", "json"]))[0]["reviewNotKnown"], why);
    }
}
