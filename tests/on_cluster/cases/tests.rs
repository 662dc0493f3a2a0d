//! Tests of the case runner: its failures and their messages.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::ask::Answer;
use super::differ::comparable;
use super::file::{self, from_text, shown, yaml_files};
use super::format::{Cluster, Mullion, ThirdPartyWebhooks, With};
use super::third_party::complete;
use super::tool::ToolOutput;
use super::watch::unsettled;
use super::{judge, lands};

/// Fields that always differ between two namespaces are not compared.
pub fn fields_of_one_namespace_are_not_compared() -> Result<()> {
    let object = |namespace: &str, uid: &str, volume: &str| {
        json!({"metadata": {"name": "a", "namespace": namespace, "uid": uid, "resourceVersion": uid},
            "spec": {"selector": {"uid": uid}, "volumes": [volume]}, "status": {"phase": uid}})
    };
    let (one, other) = (object("n-1", "u1", "kube-api-access-x7k2p"), object("n-1-2", "u2", "kube-api-access-abcde"));
    let (one, other) = (comparable(&one, "n-1", false), comparable(&other, "n-1-2", false));
    ensure!(one == other, "{one} {other}");
    Ok(())
}

/// Entries of `lands`, the nodes of the pods, and whether they fit.
pub fn pods_land_on_exactly_these_nodes() -> Result<()> {
    let cases: [(&[&str], &[&str], bool); 10] = [
        (&["a", "b"], &["b", "a"], true),
        (&["a", "b"], &["a", "a"], false),
        (&["a"], &["a", "b"], false),
        (&["a", "b"], &["a"], false),
        (&[], &[], true),
        (&[], &["a"], false),
        (&["any of [a, b]", "a"], &["a", "b"], true),
        (&["any of [a, b] x3", "nowhere"], &["a", "a", "b", "nowhere"], true),
        (&["any of [a, b] x2", "any of [a, c]"], &["c", "b", "c"], false),
        (&["any of [a, b]", "any of [a, b]", "a x2"], &["a", "a", "b", "b"], true),
    ];
    for (entries, nodes, fit) in cases {
        let places: Vec<_> = entries.iter().map(|entry| lands::parse(entry)).collect::<Result<Vec<_>>>()?.concat();
        let nodes: Vec<String> = nodes.iter().map(|node| (*node).to_owned()).collect();
        ensure!(lands::fits(&places, &nodes) == fit, "{entries:?} and {nodes:?}");
    }
    for bad in ["", "any of []", "any of [a", "a x0", "a xb", "a b", "[a]"] {
        ensure!(lands::parse(bad).is_err(), "{bad:?} was read");
    }
    Ok(())
}

/// Objects with a number of pods, and whether their controller has finished.
pub fn a_controller_is_done_when_its_status_is_complete() -> Result<()> {
    let of = |spec: Value, status: Value| json!({"metadata": {"generation": 2}, "spec": spec, "status": status});
    let daemon_set = |observed: u64, wanted: u64, current: u64| {
        let all = json!({"observedGeneration": observed, "desiredNumberScheduled": wanted,
            "currentNumberScheduled": current, "updatedNumberScheduled": current});
        of(json!({}), all)
    };
    let deployment = |observed: u64, updated: u64, failure: &str| {
        let conditions = json!([{"type": "ReplicaFailure", "status": failure}]);
        of(
            json!({"replicas": 2}),
            json!({"observedGeneration": observed, "replicas": 2, "updatedReplicas": updated, "conditions": conditions}),
        )
    };
    let job = |suspend: bool, active: u64| {
        of(json!({"parallelism": 3, "completions": 2, "suspend": suspend}), json!({"active": active}))
    };
    let cases = [
        ("DaemonSet", daemon_set(2, 3, 3), 3, true),
        ("DaemonSet", daemon_set(1, 3, 3), 3, false),
        ("DaemonSet", daemon_set(2, 3, 2), 2, false),
        ("DaemonSet", daemon_set(2, 2, 2), 3, false),
        ("DaemonSet", daemon_set(2, 0, 0), 0, true),
        ("Deployment", deployment(2, 2, "False"), 2, true),
        ("Deployment", deployment(2, 1, "False"), 2, false),
        ("Deployment", deployment(2, 2, "False"), 3, false),
        ("Deployment", deployment(2, 0, "True"), 0, true),
        ("Deployment", deployment(1, 0, "True"), 0, false),
        ("Deployment", of(json!({"replicas": 1}), json!({})), 0, false),
        ("ReplicaSet", deployment(2, 0, "False"), 2, true),
        ("Job", job(false, 2), 2, true),
        ("Job", job(false, 1), 1, false),
        ("Job", job(true, 0), 0, true),
        ("Job", job(true, 1), 1, false),
        ("Pod", of(json!({}), json!({})), 1, true),
    ];
    for (kind, object, pods, done) in cases {
        ensure!(unsettled(kind, &object, pods).is_none() == done, "{kind} with {pods} pods: {object}");
    }
    Ok(())
}

fn expected(with: Value) -> Result<With> {
    Ok(serde_json::from_value(with)?)
}

/// Responses of the API server, the expected ones, and the reported differences.
pub fn responses_are_compared() -> Result<()> {
    let denied = |name: &str| format!("admission webhook \"{name}\" denied the request: MUL201 run-as-user: no");
    let answer = |status: u16, message: &str| Answer {
        status,
        body: json!({"message": message, "details": {"causes": [{"reason": "MUL201", "field": "spec.x"}]}}),
        warnings: vec!["MUL702 b: c".to_owned(), "would violate PodSecurity".to_owned()],
    };
    let ours = denied("pods.mullion.dev");
    let plugin = "pods \"a\" is forbidden: violates PodSecurity \"restricted:latest\": x";
    let cases: Vec<(u16, &str, Value, &str)> = vec![
        (201, "", json!({}), ""),
        (403, &ours, json!({}), "rejected: 403"),
        (201, "", json!({"stored": {"message": "other"}}), "message: expected \"other\""),
        (201, "", json!({"rejected": {"status": 403}}), "it was accepted"),
        (403, &ours, json!({"rejected": {"by": "pods.mullion.dev", "status": 403, "message": ["run-as-user"]}}), ""),
        (
            403,
            &ours,
            json!({"rejected": {"by": "templates.mullion.dev"}}),
            "expected a rejection by templates.mullion.dev",
        ),
        (403, &ours, json!({"rejected": {"by": "server"}}), "expected a rejection by server"),
        (403, &ours, json!({"rejected": {"by": "PodSecurity"}}), "expected a rejection by PodSecurity"),
        (403, &ours, json!({"rejected": {"status": 422}}), "expected status 422"),
        (403, &ours, json!({"rejected": {"message": ["privileged"]}}), "expected the text \"privileged\""),
        (403, &ours, json!({"denied": {"status": 403}}), ""),
        (403, plugin, json!({"denied": {"status": 403}}), "expected a denial by Mullion"),
        (403, plugin, json!({"rejected": {"by": "PodSecurity"}}), ""),
        (403, plugin, json!({"rejected": {"by": "server"}}), "expected a rejection by server"),
        (422, "spec.x: Forbidden", json!({"rejected": {"by": "server"}}), ""),
        (422, "spec.x: Forbidden", json!({"rejected": {"by": "pods.mullion.dev"}}), "expected a rejection by pods"),
        (403, &ours, json!({"rejected": {"causes": ["MUL201 spec.x"], "causesOnly": true}}), ""),
        (403, &ours, json!({"rejected": {"causes": ["MUL201 spec.y"]}}), "expected the cause \"MUL201 spec.y\""),
        (
            403,
            &ours,
            json!({"rejected": {"causes": ["MUL203 spec.x"], "causesOnly": true}}),
            "the cause \"MUL201 spec.x\" is not expected",
        ),
        (201, "", json!({"warned": ["MUL702", "PodSecurity"]}), ""),
        (201, "", json!({"warned": ["MUL703"]}), "expected a warning with \"MUL703\""),
        (201, "", json!({"warned": []}), "expected no warning, found \"MUL702 b: c\""),
        (201, "", json!({"unwarned": ["MUL703"]}), ""),
        (201, "", json!({"unwarned": ["PodSecurity"]}), "expected no warning with \"PodSecurity\""),
    ];
    for (status, message, with, words) in cases {
        let wrong = judge::compare_answer(&answer(status, message), &expected(with.clone())?).join("\n");
        let right = if words.is_empty() { wrong.is_empty() } else { wrong.contains(words) };
        ensure!(right, "{status} {message} against {with}: {wrong:?}");
    }
    let output =
        |success, stderr: &str| ToolOutput { success, stdout: "created".to_owned(), stderr: stderr.to_owned() };
    let warning = "Warning: MUL702 b: c";
    let cases = [
        (true, "", json!({"prints": ["created"]}), ""),
        (true, "", json!({"prints": ["deleted"]}), "expected \"deleted\" in its output"),
        (true, "", json!({"fails": ["created"]}), "expected it to fail"),
        (false, "no", json!({}), "it failed"),
        (false, "no", json!({"fails": ["no"]}), ""),
        (false, "no", json!({"fails": ["yes"]}), "expected \"yes\" in its output"),
        (true, warning, json!({"warned": ["MUL702"]}), ""),
        (true, warning, json!({"warned": []}), "expected no warning"),
        (true, "W1 warnings.go:70] MUL702 b: c", json!({"unwarned": ["MUL702"]}), "expected no warning with"),
    ];
    for (success, stderr, with, words) in cases {
        let wrong = judge::compare_output(&output(success, stderr), &expected(with.clone())?).join("\n");
        let right = if words.is_empty() { wrong.is_empty() } else { wrong.contains(words) };
        ensure!(right, "{success} {stderr} against {with}: {wrong:?}");
    }
    Ok(())
}

/// Objects, the operation of a third-party webhook, and the patched object.
pub fn third_party_patches_create_missing_parents() -> Result<()> {
    let add = |path: &str, value: Value| json!({"op": "add", "path": path, "value": value});
    let cases = [
        (json!({"l": [1]}), add("/l/-", json!(2)), json!({"l": [1, 2]})),
        (json!({}), add("/l/-", json!(2)), json!({"l": [2]})),
        (json!({"a": null}), add("/a/b/c~1d", json!("x")), json!({"a": {"b": {"c/d": "x"}}})),
        (json!({"l": [{}]}), add("/l/0/a/b", json!(1)), json!({"l": [{"a": {"b": 1}}]})),
    ];
    for (object, operation, after) in cases {
        let patch: json_patch::Patch =
            serde_json::from_value(complete(&object, std::slice::from_ref(&operation))?.into())?;
        let mut patched = object.clone();
        json_patch::patch(&mut patched, &patch)?;
        ensure!(patched == after, "{operation} on {object}: {patched}");
    }
    let absent = json!({"op": "remove", "path": "/a"});
    ensure!(complete(&json!({}), &[absent]).is_err(), "an absent field was removed");
    Ok(())
}

/// Malformed files, and a part of the error.
pub fn malformed_files_are_errors() -> Result<()> {
    let step = |step: &str| format!("case: A\nsteps:\n  - create: {{kind: Pod}}\n    warned: []\n  - {step}\n");
    let cases = [
        ("case: A\n".to_owned(), "missing field `steps`"),
        ("case: A\nstep: []\nsteps: []\n".to_owned(), "unknown field `step`"),
        ("case: A\nsteps: []\n".to_owned(), "no step asserts anything"),
        ("case: A\nsteps: [{create: {kind: Pod}}]\n".to_owned(), "no step asserts anything"),
        ("case: ' '\nsteps: [{find: Pod/a}]\n".to_owned(), "`case` is empty"),
        ("case: A\ncluster: other\nsteps: [{find: Pod/a}]\n".to_owned(), "there is no tests/cases/clusters/other.yaml"),
        ("case: A\nmullion: other\nsteps: [{find: Pod/a}]\n".to_owned(), "there is no tests/cases/mullion/other.yaml"),
        (
            "case: A\nthird-party: [other]\nsteps: [{find: Pod/a}]\n".to_owned(),
            "there is no tests/cases/third-party-webhooks/other.yaml",
        ),
        ("case: A\nnamespace: {label: {}}\nsteps: [{find: Pod/a}]\n".to_owned(), "unknown field `label`"),
        ("case: A\nsteps: [{find: Pod/a}]\n---\ncase: B\n".to_owned(), "one document a file"),
        ("case: A\nsteps: [{find: Pod/a\n".to_owned(), "a.yaml:"),
        (step("make: {kind: Pod}"), "a.yaml:5: step 2: a step has one verb of create, apply"),
        (step("{create: {kind: Pod}, delete: Pod/a}"), "a step has one verb"),
        (step("{create: {kind: Pod}, is: {a: 1}}"), "`is` does not belong to `create`, which takes stored, changes"),
        (step("{create: {kind: Pod}, storedd: {a: 1}}"), "`storedd` does not belong to `create`"),
        (step("{create: {kind: Pod}, stored: {}}"), "an empty `stored` asserts nothing"),
        (step("{create: {kind: Pod}, rejected: {}}"), "`rejected` has no key"),
        (step("{create: {kind: Pod}, denied: {status: 403}, rejected: {status: 403}}"), "exclude each other"),
        (step("{create: {kind: Pod}, rejected: {reason: x}}"), "unknown field `reason`"),
        (step("{create: {kind: Pod}, rejected: {status: 403, causesOnly: true}}"), "`causesOnly` without `causes`"),
        (step("{create: {kind: Pod}, rejected: {by: SomePlugin}}"), "`by: SomePlugin` is neither"),
        (step("{create: {kind: Pod}, rejected: {status: 403}, changes: []}"), "has no object to compare with"),
        (step("{create: {kind: Pod}, unwarned: []}"), "an empty `unwarned` asserts nothing"),
        (step("{create: {kind: Pod}, repeat: 0}"), "`repeat: 0` does nothing"),
        (step("{create: Pod/a}"), "`create` does not take \"Pod/a\""),
        (step("{patch: Pod/a}"), "`patch` takes one of"),
        (step("{patch: Pod/a, merge: {}, json: []}"), "`patch` takes one of"),
        (step("{kubectl: get pods}"), "`kubectl` does not take"),
        (step("{find: Pod/a, is: {}}"), "an empty `is` asserts nothing"),
        (step("{find: Pod/a, count: 2}"), "`count` counts `pods of Kind/name`"),
        ("case: A\nsince: new\nsteps: [{find: Pod/a}]\n".to_owned(), "`new` is not a version"),
        ("case: A\nsince: 1.33\nsteps: [{find: Pod/a}]\n".to_owned(), "invalid type: floating point"),
        (step("{adopt: other}"), "there is no tests/cases/mullion/other.yaml"),
    ];
    for (text, words) in cases {
        match from_text("a.yaml", &text) {
            Ok(_) => ensure!(false, "read as a case:\n{text}"),
            Err(error) => ensure!(format!("{error:#}").contains(words), "the error lacks {words:?}: {error:#}\n{text}"),
        }
    }
    from_text("a.yaml", &step("{find: Pod/a, is: null}")).map(drop)
}

/// Every shared file is used by a case or by a cluster.
pub fn every_shared_file_is_used() -> Result<()> {
    let mut used = BTreeSet::new();
    for (_, path) in file::cases() {
        used.extend(file::load(&path)?.uses());
    }
    ensure!(!used.is_empty(), "there are no cases");
    for kind in file::SHARED {
        for path in yaml_files(&file::folder().join(kind)) {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            match kind {
                "clusters" => {
                    let controller = file::read::<Cluster>(kind, &name)?.controller;
                    used.extend(controller.map(|mullion| ("mullion", mullion)));
                }
                "mullion" => drop(file::read::<Mullion>(kind, &name)?),
                _ => drop(file::read::<ThirdPartyWebhooks>(kind, &name)?),
            }
            ensure!(used.contains(&(kind, name)), "no case uses {}", shown(&path));
        }
    }
    Ok(())
}

/// Every row of `acceptance.tsv` has a case or a trial, and every case covers existing rows. `trials` are names of trials.
pub fn every_acceptance_case_has_a_file(trials: &BTreeSet<String>) -> Result<()> {
    let mut covered: BTreeSet<String> = BTreeSet::new();
    for (_, path) in file::cases() {
        covered.extend(file::load(&path)?.case.covers);
    }
    let table = std::fs::read_to_string(file::folder().join("acceptance.tsv"))?;
    let mut rows = BTreeSet::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let [code, what, trial] = line.split('\t').collect::<Vec<_>>()[..] else {
            anyhow::bail!("acceptance.tsv: not three columns: {line}");
        };
        rows.insert(code.to_owned());
        ensure!(trial == "-" || trials.contains(trial), "{code} names {trial}, which is not a trial");
        ensure!(trial != "-" || covered.contains(code), "{code} ({what}) has neither a case nor a trial");
    }
    let unknown: Vec<&String> = covered.difference(&rows).collect();
    ensure!(unknown.is_empty(), "cases cover rows that acceptance.tsv does not contain: {unknown:?}");
    Ok(())
}
