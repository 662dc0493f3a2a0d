//! Translations: off unless a policy lists the rule, and only if Windows has an equivalent under another name.

use mullion_policy::PolicySet;
use serde_json::{Value, json};

use crate::support::*;

const WINDOWS: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";

fn translating(rule: &str) -> PolicySet {
    let text = format!(
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: t}}\nspec: {{priority: 1, rules: {{translate: [{rule}]}}}}\n"
    );
    PolicySet::from_files(&[("t.yaml", &text)]).unwrap()
}

fn with_security(of_pod: Value, of_container: Value) -> Value {
    pod(
        json!({"securityContext": of_pod, "containers": [{"name": "c", "image": WINDOWS, "securityContext": of_container}]}),
    )
}

#[test]
fn user_ids_become_names_where_they_mean_one() {
    let none = json!({});
    let user = |name: &str| json!({"windowsOptions": {"runAsUserName": name}});
    let cases = [
        (json!({"runAsUser": 0}), none.clone(), Some((user("ContainerAdministrator"), none.clone()))),
        (
            json!({"runAsUser": 1000, "runAsNonRoot": true}),
            none.clone(),
            Some((json!({"runAsNonRoot": true, "windowsOptions": {"runAsUserName": "ContainerUser"}}), none.clone())),
        ),
        (
            json!({"runAsNonRoot": true}),
            json!({"runAsUser": 1000}),
            Some((json!({"runAsNonRoot": true}), user("ContainerUser"))),
        ),
        // A particular user.
        (json!({"runAsUser": 1000}), none.clone(), None),
        // Root, although the container must not be root.
        (json!({"runAsUser": 0, "runAsNonRoot": true}), none.clone(), None),
        // The author sets a user name.
        (json!({"runAsUser": 0, "windowsOptions": {"runAsUserName": "app"}}), none.clone(), None),
        (json!({"windowsOptions": {"runAsUserName": "app"}}), json!({"runAsUser": 0}), None),
        (json!({"runAsUser": -1}), none.clone(), None),
        (json!({"runAsUser": "0"}), none, None),
    ];
    let policies = translating("run-as-user");
    for (of_pod, of_container, expected) in cases {
        let object = with_security(of_pod.clone(), of_container.clone());
        assert!(create(&object).denied(), "off by default: {of_pod} {of_container}");
        let outcome = create_in(&object, &snapshot(), &policies);
        let Some((pod_after, container_after)) = expected else {
            assert!(outcome.denied(), "{of_pod} {of_container}");
            continue;
        };
        assert!(!outcome.denied(), "{of_pod} {of_container}: {}", outcome.denial());
        assert_eq!(outcome.stored["spec"]["securityContext"], pod_after);
        assert_eq!(outcome.stored["spec"]["containers"][0]["securityContext"], container_after);
        assert_eq!(outcome.stored["spec"]["os"]["name"], "windows");
        assert!(
            create_in(&outcome.stored, &snapshot(), &policies).mutate.patch.is_empty(),
            "the second review changes nothing"
        );
        let warning = &outcome.mutate.warnings[0];
        assert!(warning.contains("runAsUser replaced") && warning.contains("Container"), "{warning}");
    }
}

#[test]
fn host_process_pods_run_as_users_of_the_host() {
    let options = json!({"windowsOptions": {"hostProcess": true}, "runAsUser": 0});
    let mut object = with_security(options, json!({}));
    object["spec"]["hostNetwork"] = json!(true);
    assert!(create_in(&object, &snapshot(), &translating("MUL2")).denied());
}

#[test]
fn a_rule_without_a_translation_is_named() {
    let text = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: t}\nspec:\n  priority: 1\n  rules: {translate: [run-as-group, nothing-such, MUL2]}\n";
    let problems = PolicySet::from_files(&[("t.yaml", text)]).unwrap_err();
    let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(shown[0].contains("t.yaml:6:") && shown[0].contains("no translation for `run-as-group`"), "{shown:?}");
    assert!(shown[1].contains("no rule `nothing-such`"), "{shown:?}");
}

#[test]
fn policies_of_an_older_mullion_get_newer_rules_as_warnings() {
    let text = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: old}\nspec: {priority: 1, rules: {version: \"0.0\"}}\n";
    let old = PolicySet::from_files(&[("old.yaml", text)]).unwrap();
    let outcome = create_in(&with_security(json!({"runAsUser": 1}), json!({})), &snapshot(), &old);
    assert!(!outcome.denied() && outcome.mutate.warnings[0].starts_with("MUL201"), "{:?}", outcome.mutate.warnings);
    assert_eq!(outcome.stored["spec"]["securityContext"]["runAsUser"], 1, "reported and not done");
}
